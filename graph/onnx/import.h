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

#endif
