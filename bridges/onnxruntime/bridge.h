/* SPDX-License-Identifier: Apache-2.0 */
/* The execution provider: declarations that its files share.
 *
 * Within the bridge errors are Backplane's: 0 or a pointer, -1 or NULL with an error raised. At the
 * border to ONNX Runtime, bridge_status and bridge_check convert between errors and statuses. */
#ifndef BACKPLANE_BRIDGES_ONNXRUNTIME_BRIDGE_H
#define BACKPLANE_BRIDGES_ONNXRUNTIME_BRIDGE_H

#include <stdatomic.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/target.h>

#include "bridges/onnxruntime/ort_abi.h"

#define EP_NAME "backplane"
/* The vendor number of the devices' memory, larger than any PCI vendor number. */
#define VENDOR_ID 0x42504C
/* The attribute `source` of the EPContext nodes that this bridge writes. */
#define CONTEXT_SOURCE "Backplane"
/* Keys of a device's metadata: its name in preferences, and its name in the driver. */
#define METADATA_DEVICE "backplane_device"
#define METADATA_NAME   "backplane_device_name"

/* Bytes of a device's name; the name of another machine's device contains the machine's name. */
#define BRIDGE_DEVICE_MAX 256

/* ONNX Runtime in this process. */
typedef struct Runtime {
  const OrtApi *api;
  const OrtEpApi *ep;
  uint32_t version; /* the N of 1.N */
} Runtime;

/* Returns this thread's error as a status, which the caller owns; clears the error. */
OrtStatus *bridge_status(const Runtime *ort);
/* Returns 0 for a NULL status; otherwise raises the status as an error, releases it and returns
 * -1. */
int bridge_check(const Runtime *ort, OrtStatus *status);

/* ---- bytes.c ------------------------------------------------------------------------------- */

/* A growing buffer of bytes. If memory is exhausted, further bytes are dropped, and bytes_end
 * fails. */
typedef struct Bytes {
  char *data;
  size_t size, room;
  bool is_out_of_memory;
} Bytes;

void bytes_put(Bytes *bytes, const void *data, size_t size);
void bytes_print(Bytes *bytes, const char *format, ...) BP_PRINTF(2, 3);
/* Appends text as a JSON string with its quotes. U+FFFD replaces each byte that is not UTF-8. */
void bytes_put_json(Bytes *bytes, const char *text);
/* Appends a NUL, which the size does not count; 0, or -1 with BP_ERROR_MEMORY. */
int bytes_end(Bytes *bytes);
void bytes_free(Bytes *bytes);

/* Append fields of a protocol buffer. */
void bytes_put_int(Bytes *bytes, uint32_t field, int64_t value);
void bytes_put_float(Bytes *bytes, uint32_t field, float value);
void bytes_put_data(Bytes *bytes, uint32_t field, const void *data, size_t size);
void bytes_put_text(Bytes *bytes, uint32_t field, const char *text);
/* Appends a message, and frees it. */
void bytes_put_message(Bytes *bytes, uint32_t field, Bytes *message);

/* ---- options.c ----------------------------------------------------------------------------- */

#define MAX_GRAPH_COMPILERS 8

/* The options of a session. */
typedef struct Options {
  OrtKeyValuePairs *pairs; /* owns the texts */
  const char *device;      /* preferences, or NULL */
  const char *target;      /* or NULL */
  const char *graph_compilers[MAX_GRAPH_COMPILERS];
  int32_t num_graph_compilers;
  char *names;         /* names of the graph compilers, owned */
  bool claims_all;     /* keep parts that do not become faster */
  bool is_strict;      /* fail the session if a node is not claimed */
  bool makes_contexts; /* path of a model with EPContext nodes */
} Options;

/* Reads the options (options_free, also after a failure). An unknown or wrong option is an
 * error. */
int options_read(const Runtime *ort, const OrtSessionOptions *session, Options *options);
void options_free(const Runtime *ort, Options *options);

/* ---- graph.c ------------------------------------------------------------------------------- */

/* A value of the graph; ONNX Runtime owns the texts. */
typedef struct Value {
  const char *name;
  int32_t type;         /* ONNX's number of the type; 0: no tensor */
  int32_t ndim;         /* -1: not known */
  int64_t *shape;       /* -1: open */
  const char **symbols; /* the name of an open extent, or "" */
  const void *constant; /* elements, or NULL */
  uint64_t bytes;       /* bytes of `constant` */
  int32_t producer;     /* the node that makes the value, or -1 */
  int32_t mark;         /* mark of the current pass */
  bool is_output;       /* an output of the graph */
} Value;

typedef struct Node {
  const OrtNode *ort;
  const char *name, *op, *domain;
  int32_t *inputs; /* values of the node and then of its subgraphs; -1: omitted */
  int32_t *outputs;
  int32_t num_inputs, num_own_inputs, num_outputs;
  const char *why; /* not claimed; NULL */
  int32_t level, group;
} Node;

typedef struct Graph {
  const Runtime *ort;
  const OrtGraph *graph;
  const char *name;
  struct Block *blocks; /* memory that is freed with the graph */
  Value *values;
  Node *nodes; /* nodes in an executable order */
  int32_t num_values, num_nodes;
  int32_t *inputs; /* values */
  int32_t num_inputs;
  void *names; /* the table of values by name */
} Graph;

/* Reads a graph; the result must not outlive ONNX Runtime's graph (graph_free, also after a
 * failure). */
int graph_read(const Runtime *ort, const OrtGraph *from, Graph *graph);
void graph_free(Graph *graph);
/* Allocates zeroed memory that lives as long as the graph; NULL with an error. */
void *graph_alloc(Graph *graph, size_t count, size_t size);
/* Formats a text that lives as long as the graph; "" if memory is exhausted. */
const char *graph_print(Graph *graph, const char *format, ...) BP_PRINTF(2, 3);
/* Whether elements of a type are numbers of whole bytes: only such tensors can be inputs and
 * outputs of a part. */
bool type_has_bytes(int32_t type);
/* Whether ONNX's number of a type means the data type. */
bool type_is(int32_t type, BpDataType dtype);

/* ---- onnx_write.c -------------------------------------------------------------------------- */

/* A part of a graph as an ONNX model. */
typedef struct OnnxPart {
  Bytes bytes;
  BpOnnxTensor *tensors; /* the constants; NULL if the bytes contain them */
  uint64_t num_tensors;
} OnnxPart;

/* Nodes of a graph, the values that they read from outside, and their values that are used
 * outside. */
typedef struct Selection {
  int32_t *nodes, *inputs, *outputs;
  int32_t num_nodes, num_inputs, num_outputs;
} Selection;

/* Writes the selection to a part, which onnx_part_free frees, also after a failure. With `has_data`
 * the part has the elements of constants; with `has_types` it has the types of all outputs of its
 * nodes. */
int onnx_write(Graph *graph, const Selection *selection, bool has_data, bool has_types,
               OnnxPart *part);
void onnx_part_free(OnnxPart *part);

/* ---- part.c -------------------------------------------------------------------------------- */

/* A compiled part. */
typedef struct Part Part;

/* The device, target and options with which parts are compiled. */
typedef struct Purpose {
  BpDevice device;
  BpTarget *target;
  const Options *options;
} Purpose;

/* Compiles a model (transfer full, part_free). `key` is the name of its first output in the
 * session's graph. */
Part *part_create(const Purpose *purpose, const BpOnnxBytes *onnx, const char *key);
void part_free(Part *part);
const char *part_key(const Part *part);
const BpModel *part_model(const Part *part);
/* part_keep_onnx stores the part's ONNX model, and takes ownership of the bytes. part_onnx returns
 * the stored bytes, or NULL. */
void part_keep_onnx(Part *part, Bytes *onnx);
const Bytes *part_onnx(const Part *part);
/* Makes the functions with which ONNX Runtime runs the part instead of the node `fused` (transfer
 * full, part_release_info). The part outlives the functions. `trims_heap`: free memory is returned
 * to the system when ONNX Runtime makes the node. */
OrtNodeComputeInfo *part_compute_info(const Runtime *ort, Part *part, const OrtNode *fused,
                                      bool trims_heap);
void part_release_info(OrtNodeComputeInfo *info);

/* ---- partition.c --------------------------------------------------------------------------- */

/* The result of dividing one graph. */
typedef struct Claims {
  Part **parts; /* owned by the caller */
  int32_t num_parts;
  Bytes reasons; /* items of a JSON list: {node, operator, why} */
  const char *first_why;
  int32_t num_claimed, num_nodes;
} Claims;

/* Divides a graph, compiles the parts that become faster, and claims them. */
int partition(Graph *graph, const Purpose *purpose, OrtGraphSupportInfo *info, Claims *claims);

/* ---- report.c ------------------------------------------------------------------------------ */

/* Sets the report of a session. Any address that belongs to the session identifies it. Takes
 * ownership of the text, which replaces an earlier report; NULL removes the report. Any thread. */
void report_set(const void *session, char *text);

/* ---- memory.c ------------------------------------------------------------------------------ */

/* The first version of ONNX Runtime in which a session can have devices with different memories.
 * Older versions of ONNX Runtime pass all tensors in the host's memory. */
#define MEMORY_SINCE 28
/* The version of the layout of a kernel's table. */
#define KERNELS_SINCE 24

/* Sets data, device and byte_offset of the view for an address from ONNX Runtime: memory of an
 * allocator of this file, or the host's memory. Any thread. */
void memory_find(void *address, BpTensorView *view);

/* The device memories that a factory offers. */
typedef struct Memories Memories;
typedef struct Stream Stream;

/* Makes an empty list (transfer full, memories_free); `ort` is copied. Allocators and transfers
 * made from the list keep it alive. */
Memories *memories_create(const Runtime *ort);
void memories_free(Memories *memories);
/* Offers the memory of a device other than the CPU, with ONNX Runtime's device `to`. */
int memories_offer(Memories *memories, BpDevice device, OrtEpDevice *to);
/* Makes the kernels that copy between the host and a device. */
int memories_add_kernels(Memories *memories);
/* Returns the kernels of a session on a device (borrowed); NULL for the CPU. */
const OrtKernelRegistry *memories_kernels(const Memories *memories, BpDevice device);
/* Returns where the tensors of a session on a device are: the device's memory, else the host's
 * (borrowed). */
const OrtMemoryDevice *memories_place(const Memories *memories, BpDevice device);
/* Makes an allocator of an offered memory (transfer full, memories_release_allocator). */
OrtAllocator *memories_allocator(Memories *memories, const OrtMemoryInfo *info);
void memories_release_allocator(OrtAllocator *allocator);
/* Returns a further reference, which memories_free releases. */
Memories *memories_retain(Memories *memories);
const Runtime *memories_runtime(const Memories *memories);
/* Sets the device of a memory that was offered. */
int memories_device(const Memories *memories, const OrtMemoryDevice *memory, BpDevice *device);
/* Add and remove a stream that copies without a stream follow. */
void memories_add_stream(Memories *memories, Stream *stream);
void memories_remove_stream(Memories *memories, Stream *stream);
/* Copies between the memories, and from and to the host (transfer full, its own Release). */
OrtDataTransferImpl *memories_transfer(Memories *memories);

/* ---- stream.c ------------------------------------------------------------------------------ */

/* A stream of a device, which ONNX Runtime and the contexts that queue on it share. */
struct Stream {
  OrtSyncStreamImpl base;
  Memories *memories;
  BpDevice device;
  void *handle;
  atomic_int references;
  struct Stream *next; /* of memories */
};

/* Makes a stream (transfer full, its own Release, or stream_release). */
Stream *stream_create(Memories *memories, BpDevice device);
/* NULL is ignored. */
Stream *stream_retain(Stream *stream);
void stream_release(Stream *stream);
/* The stream that one of ONNX Runtime's stands for (borrowed); NULL: another provider's, or NULL.
 */
Stream *stream_find(const Runtime *ort, const OrtSyncStream *stream);
/* Waits for the stream, and for programs that were queued in its order. */
int stream_wait(const Stream *stream);

/* ---- ep.c ---------------------------------------------------------------------------------- */

/* Makes a provider for a session. `ort` and the memories (or NULL) must outlive the provider. */
OrtEp *ep_create(const Runtime *ort, const Memories *memories,
                 const OrtKeyValuePairs *const *metadata, size_t count,
                 const OrtSessionOptions *options, const OrtLogger *logger);
void ep_free(OrtEp *ep);

#endif
