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

/* What describes a node of the main graph: how it is computed, as bp__op_how says, "function",
 * "control flow" or, where the table lacks it, NULL; and its outputs, NULL where they are not
 * known. 0 goes on. */
typedef int (*BpOnnxNodeVisit)(void *context, const BpExtents *extents, const OnnxNode *node,
                               const char *name, const char *how, BpGraphValue *const *outputs);

/* Visits all nodes of the main graph, with the shapes that importing them with open extents infers.
 * *why: NULL, or why they are not known from some node on (transfer full, g_free). 0, what `visit`
 * returned, or -1 with an error. */
int bp__onnx_visit_nodes(const OnnxModel *model, BpOnnxNodeVisit visit, void *context, char **why);

#endif
