/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: turns an ONNX file into a graph. */
#ifndef BACKPLANE_GRAPH_ONNX_IMPORT_H
#define BACKPLANE_GRAPH_ONNX_IMPORT_H

#include <backplane/graph/model.h>

#include "graph/ir/graph.h"
#include "graph/onnx/reader.h"

/* Fills an empty graph from a model, which must live as long as the graph. `shapes` fix symbolic
 * dimensions of inputs. The importer also infers shapes and folds constants. One error names all
 * operators that the table lacks. */
int bp__onnx_import(BpGraph *graph, const OnnxModel *model, const BpInputShape *shapes,
                    int32_t num_shapes);

/* Checks that the table has all operators of the main graph: 0, or -1 with an error that names the
 * missing operators. */
int bp__onnx_check_operators(const OnnxModel *model);

/* A visitor of the nodes of the main graph. `how` tells how a node is computed: a word of
 * bp__op_how, "function" or "control flow", or NULL if the operator table lacks the operator.
 * Unknown outputs are NULL. The visitor returns 0 to continue. */
typedef int (*BpOnnxNodeVisit)(void *context, const BpExtents *extents, const OnnxNode *node,
                               const char *name, const char *how, BpGraphValue *const *outputs);

/* Visits all nodes of the main graph, with the shapes that an import with open extents infers. *why
 * is NULL, or the reason why shapes are unknown from some node on (transfer full, g_free). Returns
 * 0, the non-zero result of `visit`, or -1 with an error. */
int bp__onnx_visit_nodes(const OnnxModel *model, BpOnnxNodeVisit visit, void *context, char **why);

/* A visitor of the nodes of the main graph; `why` is the reason why a node cannot be imported, or
 * NULL. Returns 0 to continue. */
typedef int (*BpOnnxQueryNode)(void *context, size_t index, const char *why);

/* Imports the nodes with open extents and leaves out each node that cannot be imported: its outputs
 * become inputs of the types in the model's value_info, if that has them. Returns 0, the non-zero
 * result of `visit`, or -1 with an error. */
int bp__onnx_query_nodes(const OnnxModel *model, BpOnnxQueryNode visit, void *context);

#endif
