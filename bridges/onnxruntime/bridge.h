/* SPDX-License-Identifier: Apache-2.0 */
/* The execution provider: declarations that its files share.
 *
 * Within the bridge errors are Backplane's: 0 or a pointer, -1 or NULL with an error raised. At the
 * border to ONNX Runtime bridge_status and bridge_check turn one idiom into the other. */
#ifndef BACKPLANE_BRIDGES_ONNXRUNTIME_BRIDGE_H
#define BACKPLANE_BRIDGES_ONNXRUNTIME_BRIDGE_H

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/target.h>

#include "bridges/onnxruntime/ort_abi.h"

#define EP_NAME "backplane"
/* The vendor of the devices' memory: larger than a PCI vendor's number can be. */
#define VENDOR_ID 0x42504C
/* The attribute `source` of our EPContext nodes. */
#define CONTEXT_SOURCE "Backplane"
/* Keys of a device's metadata: its name in preferences, and the name that its driver gives. */
#define METADATA_DEVICE "backplane_device"
#define METADATA_NAME   "backplane_device_name"

/* Bytes of a device's name, which of another machine's has that machine's. */
#define BRIDGE_DEVICE_MAX 256

/* ONNX Runtime, as it is in this process. */
typedef struct Runtime {
  const OrtApi *api;
  const OrtEpApi *ep;
  uint32_t version; /* the N of 1.N */
} Runtime;

/* This thread's error as a status, which the caller owns; the error is cleared. */
OrtStatus *bridge_status(const Runtime *ort);
/* 0 for NULL; else -1, with the status as an error, and the status is released. */
int bridge_check(const Runtime *ort, OrtStatus *status);

/* ---- bytes.c ------------------------------------------------------------------------------- */

/* Bytes that grow. Without memory further bytes are dropped, and bytes_end fails. */
typedef struct Bytes {
  char *data;
  size_t size, room;
  bool is_out_of_memory;
} Bytes;

void bytes_put(Bytes *bytes, const void *data, size_t size);
void bytes_print(Bytes *bytes, const char *format, ...) BP_PRINTF(2, 3);
/* Text as a string of JSON, with its quotes. U+FFFD replaces each byte that is not UTF-8. */
void bytes_put_json(Bytes *bytes, const char *text);
/* Puts a NUL, which does not count; 0, or -1 with BP_ERROR_MEMORY. */
int bytes_end(Bytes *bytes);
void bytes_free(Bytes *bytes);

/* Fields of a protocol buffer. */
void bytes_put_int(Bytes *bytes, uint32_t field, int64_t value);
void bytes_put_float(Bytes *bytes, uint32_t field, float value);
void bytes_put_data(Bytes *bytes, uint32_t field, const void *data, size_t size);
void bytes_put_text(Bytes *bytes, uint32_t field, const char *text);
/* A message, which is freed. */
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
  char *names;         /* of the graph compilers, owned */
  bool claims_all;     /* also parts that do not become faster */
  bool is_strict;      /* a node that is not claimed makes the session fail */
  bool makes_contexts; /* for a model with EPContext nodes */
} Options;

/* Reads them (options_free, also after a failure). One that is unknown or wrong is an error. */
int options_read(const Runtime *ort, const OrtSessionOptions *session, Options *options);
void options_free(const Runtime *ort, Options *options);

/* ---- graph.c ------------------------------------------------------------------------------- */

/* A value of the graph; texts are ONNX Runtime's. */
typedef struct Value {
  const char *name;
  int32_t type;         /* ONNX's number; 0: no tensor */
  int32_t ndim;         /* -1: not known */
  int64_t *shape;       /* -1: open */
  const char **symbols; /* the name of an open extent, or "" */
  const void *constant; /* elements, or NULL */
  uint64_t bytes;       /* of them */
  int32_t producer;     /* the node, or -1 */
  int32_t mark;         /* of the pass that runs */
  bool is_output;       /* of the graph */
} Value;

typedef struct Node {
  const OrtNode *ort;
  const char *name, *op, *domain;
  int32_t *inputs; /* of the node and then of its subgraphs: values, -1 for one left out */
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
  Node *nodes; /* in an order in which they can run */
  int32_t num_values, num_nodes;
  int32_t *inputs; /* values */
  int32_t num_inputs;
  void *names; /* the table of values */
} Graph;

/* Reads a graph, which must not outlive ONNX Runtime's (graph_free, also after a failure). */
int graph_read(const Runtime *ort, const OrtGraph *from, Graph *graph);
void graph_free(Graph *graph);
/* Zeroed memory that lives as long as the graph; NULL with an error. */
void *graph_alloc(Graph *graph, size_t count, size_t size);
/* A text that lives as long as the graph, "" without memory. */
const char *graph_print(Graph *graph, const char *format, ...) BP_PRINTF(2, 3);
/* Whether elements of the type are numbers of whole bytes: only tensors of such types can be inputs
 * and outputs of a part. */
bool type_has_bytes(int32_t type);

/* ---- onnx_write.c -------------------------------------------------------------------------- */

/* A part of a graph as an ONNX model. */
typedef struct OnnxPart {
  Bytes bytes;
  BpOnnxTensor *tensors; /* the constants, or none: they are among the bytes */
  uint64_t num_tensors;
} OnnxPart;

/* Nodes of a graph, and the values that they read from outside and give to outside. */
typedef struct Selection {
  int32_t *nodes, *inputs, *outputs;
  int32_t num_nodes, num_inputs, num_outputs;
} Selection;

/* Writes the selection; `has_data`: with the constants' elements. `has_types`: with the types of
 * all that its nodes give. (onnx_part_free, also after a failure.) */
int onnx_write(Graph *graph, const Selection *selection, bool has_data, bool has_types,
               OnnxPart *part);
void onnx_part_free(OnnxPart *part);

/* ---- part.c -------------------------------------------------------------------------------- */

/* A part that is compiled. */
typedef struct Part Part;

/* The device, target and options for which parts are compiled. */
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
/* Keeps the part as the bytes of an ONNX model, which it takes over; and gives them, or NULL. */
void part_keep_onnx(Part *part, Bytes *onnx);
const Bytes *part_onnx(const Part *part);
/* The functions by which ONNX Runtime runs the part in place of the node `fused` (transfer full,
 * part_release_info). The part outlives them. `trims_heap`: free memory goes back to the system
 * when ONNX Runtime makes the node. */
OrtNodeComputeInfo *part_compute_info(const Runtime *ort, Part *part, const OrtNode *fused,
                                      bool trims_heap);
void part_release_info(OrtNodeComputeInfo *info);

/* ---- partition.c --------------------------------------------------------------------------- */

/* The result of dividing one graph. */
typedef struct Claims {
  Part **parts; /* owned by the caller */
  int32_t num_parts;
  Bytes reasons; /* of a JSON list: {node, operator, why} */
  const char *first_why;
  int32_t num_claimed, num_nodes;
} Claims;

/* Divides a graph, compiles the parts that become faster, and claims them. */
int partition(Graph *graph, const Purpose *purpose, OrtGraphSupportInfo *info, Claims *claims);

/* ---- report.c ------------------------------------------------------------------------------ */

/* Sets the report of a session, which any address of its own identifies. Takes ownership of the
 * text, which replaces an earlier one; NULL removes the report. Any thread. */
void report_set(const void *session, char *text);

/* ---- memory.c ------------------------------------------------------------------------------ */

/* The first version in which a session can have devices with different memories. Older versions
 * pass all tensors in the host's memory. */
#define MEMORY_SINCE 28
/* The version of a kernel's layout. */
#define KERNELS_SINCE 24

/* Sets data, device and byte_offset of the view for an address that ONNX Runtime has: memory of an
 * allocator of this file, or the host's. Any thread. */
void memory_find(void *address, BpTensorView *view);

/* The memories of the devices that a factory offers. */
typedef struct Memories Memories;

/* Makes an empty list (transfer full, memories_free); `ort` is copied. Allocators and transfers
 * that were made of it keep it alive. */
Memories *memories_create(const Runtime *ort);
void memories_free(Memories *memories);
/* Offers the memory of a device, which is not the CPU, with ONNX Runtime's device `to`. */
int memories_offer(Memories *memories, BpDevice device, OrtEpDevice *to);
/* Makes the kernels that copy between the host and a device. */
int memories_add_kernels(Memories *memories);
/* The kernels of a session on a device (borrowed); NULL for the CPU. */
const OrtKernelRegistry *memories_kernels(const Memories *memories, BpDevice device);
/* The place of tensors of a session on a device: its memory, else the host's (borrowed). */
const OrtMemoryDevice *memories_place(const Memories *memories, BpDevice device);
/* An allocator of a memory that was offered (transfer full, memories_release_allocator). */
OrtAllocator *memories_allocator(Memories *memories, const OrtMemoryInfo *info);
void memories_release_allocator(OrtAllocator *allocator);
/* Copies between the memories, and from and to the host (transfer full, its own Release). */
OrtDataTransferImpl *memories_transfer(Memories *memories);

/* ---- ep.c ---------------------------------------------------------------------------------- */

/* Makes a provider for a session. `ort` and the memories (or NULL) outlive it. */
OrtEp *ep_create(const Runtime *ort, const Memories *memories,
                 const OrtKeyValuePairs *const *metadata, size_t count,
                 const OrtSessionOptions *options, const OrtLogger *logger);
void ep_free(OrtEp *ep);

#endif
