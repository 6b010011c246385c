/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an ONNX file into its messages. */
#ifndef BACKPLANE_GRAPH_ONNX_READER_H
#define BACKPLANE_GRAPH_ONNX_READER_H

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

/* Reads a file (transfer full, bp__onnx_free). Untrusted: a file that is no ONNX model, is too
 * large or would take too much memory is an error that names it. */
OnnxModel *bp__onnx_read(const char *path);
void bp__onnx_free(OnnxModel *model);
/* The same of a file in memory, which is not needed afterwards; `name` is what errors call it. */
OnnxModel *bp__onnx_decode(const char *name, const void *data, size_t size);

/* A model that its caller holds in memory, and its tensors whose elements are the caller's. */
typedef struct OnnxMemory {
  OnnxModel *model;
  OnnxTensor **lent;
  size_t num_lent;
} OnnxMemory;

/* Opens one (bp__onnx_close_memory, also after a failure), which reads `bytes` until it is closed.
 * Untrusted but for the elements. */
int bp__onnx_open_memory(const BpOnnxBytes *bytes, OnnxMemory *memory);
void bp__onnx_close_memory(OnnxMemory *memory);
/* Reads the tensors whose data lies in other files: initializers, and those in the attributes of
 * the graph's nodes. `path` is that of the model, whose folder has the files. Untrusted: a file
 * outside of the folder, a link and wrong sizes are errors. */
int bp__onnx_load_data(OnnxModel *model, const char *path);

/* Decodes a subgraph, which a message holds as bytes; it lives as long as the graph. NULL with an
 * error. */
OnnxGraph *bp__onnx_decode_graph(BpGraph *graph, const ProtobufCBinaryData *bytes);

/* The extent that the file fixes, or -1: it is a symbol, or left open. */
int64_t bp__onnx_extent(const OnnxDimension *dimension);
/* The symbol that a dimension has in the file, or "": it is fixed, or open without a name. "?" is
 * not a name: PaddlePaddle's exporter writes it for every dimension that it does not know. */
const char *bp__onnx_symbol(const OnnxDimension *dimension);
/* The initializer of the name, or NULL. */
const OnnxTensor *bp__onnx_initializer(const OnnxGraph *graph, const char *name);
/* Whether initializers are default values of the inputs of their names; else they are constants. */
int bp__onnx_has_defaults(const OnnxModel *model);

/* A constant of the graph with the tensor's elements, which it borrows where it can: the message
 * must live as long. */
BpGraphValue *bp__onnx_constant(BpGraph *graph, const OnnxTensor *tensor, const char *name);

#endif
