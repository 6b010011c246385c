/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of this folder, for model.c. */
#ifndef BACKPLANE_GRAPH_EXEC_MODEL_H
#define BACKPLANE_GRAPH_EXEC_MODEL_H

#include "graph/io/model_executor.h"

/* Runs modules of the kinds BP_GRAPH_KIND and BP_FACTORY_KIND (graph_model.c). */
extern const BpModelExecutor bp__graph_executor;

#endif
