/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between ways of compiling a model. */
#ifndef BACKPLANE_GRAPH_BUILD_CHOOSE_H
#define BACKPLANE_GRAPH_BUILD_CHOOSE_H

#include <glib.h>

#include <backplane/graph/model.h>

#include "graph/build/build.h"
#include "graph/onnx/reader.h"

/* Makes the artifact of a model whose data is loaded, with the parts that `choice` keeps; NULL
 * keeps all. Returns NULL with an error on failure. */
typedef BpModule *(*BpCompile)(const OnnxModel *model, const BpCompileOptions *options,
                               const BpPartChoice *choice);
/* Compiles with the option measures_claims. `path` is the model's path, and `compile` compiles the
 * model one way; NULL with an error (choose.c). */
BpModule *bp__build_choose(const char *path, const OnnxModel *model,
                           const BpCompileOptions *options, BpCompile compile);

/* The nodes of claimed parts. */
typedef struct BpPartNodes {
  int32_t num_parts;
  const char **functions; /* function of each part, or NULL if it was handed back */
  GHashTable *part_of;    /* number of the part, by the name of a node */
} BpPartNodes;

/* Fills in the time of each part and of generated code for the same nodes; the caller zeroes
 * `times` before. Returns -1 with an error if the models have no times by operator
 * (part_times.c). */
int bp__build_part_times(const BpPartNodes *nodes, BpModel *generated_model,
                         BpModelContext *claimed, BpModelContext *generated, BpPartTime *times);

#endif
