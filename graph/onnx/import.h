/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: from an ONNX file to a graph of static shapes. */
#ifndef BACKPLANE_GRAPH_ONNX_IMPORT_H
#define BACKPLANE_GRAPH_ONNX_IMPORT_H

#include <backplane/graph/model.h>

#include "graph/ir/graph.h"
#include "graph/onnx/reader.h"

/* Fills an empty graph from a model, which must live as long as the graph. `shapes` fix symbolic
 * dimensions of inputs. Shapes are inferred and constants folded on the way. All operators that the
 * table lacks are named in one error. */
int bp__onnx_import(BpGraph *graph, const OnnxModel *model, const BpInputShape *shapes,
                    int32_t num_shapes);

/* Whether the table has all operators of the main graph: 0, or -1 with an error that names those
 * that it lacks. */
int bp__onnx_check_operators(const OnnxModel *model);

/* Called for each node of the main graph. `how` says how it is computed: a word of bp__op_how,
 * "function" or "control flow", or NULL if the operator table lacks it. Outputs that are not known
 * are NULL. Returns 0 to go on. */
typedef int (*BpOnnxNodeVisit)(void *context, const BpExtents *extents, const OnnxNode *node,
                               const char *name, const char *how, BpGraphValue *const *outputs);

/* Visits all nodes of the main graph, with the shapes that importing them with open extents infers.
 * *why: NULL, or why they are not known from some node on (transfer full, g_free). 0, what `visit`
 * returned, or -1 with an error. */
int bp__onnx_visit_nodes(const OnnxModel *model, BpOnnxNodeVisit visit, void *context, char **why);

/* Is told each node of the main graph, and why it cannot be imported or NULL. 0 goes on. */
typedef int (*BpOnnxQueryNode)(void *context, size_t index, const char *why);

/* Imports the nodes with open extents, leaving out those that cannot be: what they give becomes an
 * input of its type in the model's value_info, if that has one. 0, what `visit` returned, or -1
 * with an error. */
int bp__onnx_query_nodes(const OnnxModel *model, BpOnnxQueryNode visit, void *context);

#endif
