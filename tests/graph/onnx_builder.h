/* SPDX-License-Identifier: Apache-2.0 */
/* Makes small ONNX files for tests, in a few words: a graph is inputs, constants, nodes and
 * outputs. An error in the words ends the test program. */
#ifndef BACKPLANE_TESTS_GRAPH_ONNX_BUILDER_H
#define BACKPLANE_TESTS_GRAPH_ONNX_BUILDER_H

#include <glib.h>

#include <backplane/graph/model.h>

#include "graph/onnx/onnx.pb-c.h"

typedef struct OnnxBuilder {
  Backplane__Onnx__ModelProto model;
  GPtrArray *nodes, *initializers, *inputs, *outputs, *declared;
  int64_t version; /* version of the operator set; initially 13 */
} OnnxBuilder;

/* ONNX's numbers of element types. */
#define ONNX_FLOAT   1
#define ONNX_UINT8   2
#define ONNX_INT32   6
#define ONNX_INT64   7
#define ONNX_BOOL    9
#define ONNX_FLOAT16 10
#define ONNX_DOUBLE  11

OnnxBuilder *onnx_builder_new(void);
void onnx_builder_free(OnnxBuilder *builder);

/* Adds an input. `shape` is "1x3x8x8", or "" for a scalar; names are symbols: "Nx3". */
void onnx_input(OnnxBuilder *builder, const char *name, int32_t type, const char *shape);
/* Adds an input of a kind, BP_MODEL_*, with tensors of the type and shape. */
void onnx_list_input(OnnxBuilder *builder, const char *name, int32_t kind, int32_t type,
                     const char *shape);
void onnx_output(OnnxBuilder *builder, const char *name);
/* Declares the type of a value that is neither an input nor an output of the graph. */
void onnx_declare(OnnxBuilder *builder, const char *name, int32_t type, const char *shape);
/* Adds an output with a declared type. */
void onnx_typed_output(OnnxBuilder *builder, const char *name, int32_t type, const char *shape);
/* Adds a constant of floats from -1 to 1 without short repetitions, or of the integers in
 * `values`. */
void onnx_floats(OnnxBuilder *builder, const char *name, const char *shape);
void onnx_ints(OnnxBuilder *builder, const char *name, const char *values);
/* Adds a constant of any type, from elements in memory, which are copied. */
void onnx_data(OnnxBuilder *builder, const char *name, int32_t type, const int64_t *shape,
               int32_t rank, const void *data, size_t size);
/* inputs and outputs: "x,w,,b"; attrs: "group=2 pads=1,1,1,1 alpha=0.5f mode=nearest". A number
 * with a point or an f is a float; numbers, or words outside of apostrophes, with a comma are a
 * list ("3," has one element); "value=floats:0.5,1" and "value=ints:7," are vectors as tensors;
 * "slope=@alpha" refers to an attribute of the surrounding function.
 * Returns the node, for properties that words cannot express. */
Backplane__Onnx__NodeProto *onnx_node(OnnxBuilder *builder, const char *op, const char *inputs,
                                      const char *outputs, const char *attrs);

/* Puts the graph's nodes in the reverse order. */
void onnx_reverse(OnnxBuilder *builder);
/* Gives a node a subgraph: the graph of another builder, which is freed. */
void onnx_branch(OnnxBuilder *builder, Backplane__Onnx__NodeProto *node, const char *name,
                 OnnxBuilder *branch);
/* Adds a function of the model, in the domain "own". The function's nodes are those of the builder
 * `body`, which is freed. `attrs` lists names, some with defaults: "alpha beta=0.5f". */
void onnx_function(OnnxBuilder *builder, const char *name, const char *inputs, const char *outputs,
                   const char *attrs, OnnxBuilder *body);

/* Returns the file's bytes (g_byte_array_unref). */
GByteArray *onnx_bytes(OnnxBuilder *builder);
/* Returns the elements that onnx_floats would give a constant of that many elements. */
float *onnx_float_values(int64_t count);
/* Writes bytes to a new temporary file; returns its name, which the caller unlinks and frees. */
char *onnx_write(const GByteArray *bytes);
/* Writes the model to a file and frees the builder; returns the path (transfer full). */
char *onnx_save(OnnxBuilder *builder);

#endif
