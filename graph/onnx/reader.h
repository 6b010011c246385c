/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ONNX file into protobuf messages. */
#ifndef BACKPLANE_GRAPH_ONNX_READER_H
#define BACKPLANE_GRAPH_ONNX_READER_H

#include <glib.h>

#include <backplane/graph/model.h>

#include "graph/ir/graph.h"
#include "graph/onnx/onnx.pb-c.h"

typedef Backplane__Onnx__ModelProto OnnxModel;
typedef Backplane__Onnx__GraphProto OnnxGraph;
typedef Backplane__Onnx__FunctionProto OnnxFunction;
typedef Backplane__Onnx__NodeProto OnnxNode;
typedef Backplane__Onnx__AttributeProto OnnxAttribute;
typedef Backplane__Onnx__TensorProto OnnxTensor;
typedef Backplane__Onnx__ValueInfoProto OnnxValueInfo;
typedef Backplane__Onnx__Dimension OnnxDimension;

/* Reads a file (transfer full, bp__onnx_free). The file is untrusted: a file that is not an ONNX
 * model, is too large or would take too much memory gives an error that names the file. */
OnnxModel *bp__onnx_read(const char *path);
void bp__onnx_free(OnnxModel *model);
/* Decodes a model in memory (transfer full, bp__onnx_free); the bytes are not needed afterwards.
 * Errors call the model `name`. */
OnnxModel *bp__onnx_decode(const char *name, const void *data, size_t size);

/* A model that its caller holds in memory, and the tensors whose elements the caller lends. */
typedef struct OnnxMemory {
  OnnxModel *model;
  OnnxTensor **lent;
  size_t num_lent;
} OnnxMemory;

/* Opens a model in memory, which reads `bytes` until bp__onnx_close_memory; call that also after a
 * failure. All but the elements is untrusted. */
int bp__onnx_open_memory(const BpOnnxBytes *bytes, OnnxMemory *memory);
void bp__onnx_close_memory(OnnxMemory *memory);

/* A model in a file, and the tensors whose elements are mapped from files beside it. */
typedef struct OnnxFile {
  const char *path;
  OnnxModel *model;  /* NULL if the file could not be read */
  BpList maps;       /* OnnxMap, owned */
  bool was_mapped;   /* whether a tensor was mapped when the file was opened */
  GHashTable *files; /* by path below the model's folder: the state (struct stat) of a file */
} OnnxFile;

/* Reads a model and the data of tensors that are in other files: initializers, and tensors in
 * attributes of the graph's nodes. The files are in the model's folder, and are untrusted: a file
 * outside the folder, a link and a wrong size are errors. Large tensors are mapped, so a file must
 * not become shorter before bp__onnx_close_file; call that also after a failure. */
int bp__onnx_open_file(const char *path, OnnxFile *file);
void bp__onnx_close_file(OnnxFile *file);
/* Fails if a file with data of tensors has changed since it was opened. */
int bp__onnx_check_files(const OnnxFile *file);

/* Unmaps the tensors in which none of the addresses of `live` lies; all if `live` is NULL. */
void bp__onnx_unmap(OnnxFile *file, const BpList *live);
/* Frees or unmaps the elements of large tensors of the main graph in which none of the addresses of
 * `live` lies (graph/ir/graph.h). The model cannot be imported again. */
void bp__onnx_release(OnnxFile *file, const BpList *live);

/* Decodes a subgraph, which a message contains as bytes; the result lives as long as the graph.
 * NULL with an error. */
OnnxGraph *bp__onnx_decode_graph(BpGraph *graph, const ProtobufCBinaryData *bytes);

/* The extent of a dimension that the file fixes; -1 for a symbol or an open dimension. */
int64_t bp__onnx_extent(const OnnxDimension *dimension);
/* The symbol of a dimension in the file; "" if the dimension is fixed, or open without a name. "?"
 * is not a symbol: PaddlePaddle's exporter writes "?" for every unknown dimension. */
const char *bp__onnx_symbol(const OnnxDimension *dimension);

/* The declared type of a value: of a tensor, or of the tensors in a sequence or an optional. */
typedef struct OnnxType {
  int32_t kind; /* BP_MODEL_* */
  BpDataType dtype;
  int32_t ndim;                     /* -1: not declared */
  int64_t shape[BP_GRAPH_MAX_NDIM]; /* -1: a symbol, or open */
} OnnxType;

/* Reads the type of a model's input or output. `role` is "input" or "output", for the error. The
 * shape is set also if the type of the elements is not supported. */
int bp__onnx_read_type(const OnnxValueInfo *info, const char *role, OnnxType *type);
/* The initializer with a name, or NULL. */
const OnnxTensor *bp__onnx_initializer(const OnnxGraph *graph, const char *name);
/* Whether initializers are default values of the inputs with the same names; otherwise they are
 * constants. */
int bp__onnx_has_defaults(const OnnxModel *model);

/* Makes a constant of the graph with the elements of a tensor. The constant borrows the elements if
 * possible, so the message must live as long as the graph. */
BpGraphValue *bp__onnx_constant(BpGraph *graph, const OnnxTensor *tensor, const char *name);

#endif
