/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between ways of compiling a model. */
#ifndef BACKPLANE_GRAPH_BUILD_CHOOSE_H
#define BACKPLANE_GRAPH_BUILD_CHOOSE_H

#include <glib.h>

#include <backplane/graph/model.h>

#include "graph/build/build.h"
#include "graph/onnx/reader.h"

/* Makes the artifact of a model whose data is loaded, with the parts of `choice` (NULL: all parts).
 * NULL with an error. */
typedef BpModule *(*BpCompile)(const OnnxModel *model, const BpCompileOptions *options,
                               const BpPartChoice *choice);
/* The same with measures_claims, which the options have; `path` is that of the model, and `compile`
 * compiles it one way. (choose.c) */
BpModule *bp__build_choose(const char *path, const OnnxModel *model,
                           const BpCompileOptions *options, BpCompile compile);

/* The nodes of claimed parts. */
typedef struct BpPartNodes {
  int32_t num_parts;
  const char **functions; /* by number of the part, or NULL: it was handed back */
  GHashTable *part_of;    /* by name of the node: the number */
} BpPartNodes;

/* Fills in how long each part takes, and the same nodes as generated code; zeroed before. -1 with
 * an error: the models have no times by operator. (part_times.c) */
int bp__build_part_times(const BpPartNodes *nodes, BpModel *generated_model,
                         BpModelContext *claimed, BpModelContext *generated, BpPartTime *times);

#endif
