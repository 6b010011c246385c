/* SPDX-License-Identifier: Apache-2.0 */
/* Specialised models: models compiled for given values of extents that a model leaves open. A
 * specialised model runs instead of the general one if the inputs have its extents. */
#ifndef BACKPLANE_GRAPH_EXEC_SPECIAL_H
#define BACKPLANE_GRAPH_EXEC_SPECIAL_H

#include <stdbool.h>

#include <backplane/graph/model.h>

#include "graph/relax/model.h"

/* The specialised models of one model. Models are added and never removed, so that a run may search
 * the list while another thread adds a model. */
typedef struct BpSpecialList BpSpecialList;

/* Makes an empty list (transfer full); NULL with an error. */
BpSpecialList *bp__special_list_create(void);
/* Frees a list; NULL is ignored. */
void bp__special_list_free(BpSpecialList *list);
/* Whether the list has a model for inputs of the given shapes, which are in the model's order; an
 * extent of -1 matches any. Thread-safe. */
bool bp__special_list_has(const BpSpecialList *list, const BpModelTensorInfo *inputs,
                          int32_t num_inputs);
/* Fails with -1 if the list is full. */
int bp__special_list_check(const BpSpecialList *list);
/* Adds `special` (transfer full, even on failure), which shares `shared` bytes of parameters with
 * the general model. If the list has a model for the same extents, the new one is freed. Returns -1
 * with an error if the list is full. Thread-safe. */
int bp__special_list_add(BpSpecialList *list, BpRelaxModel *special, uint64_t shared);
/* Visits the models as bp_model_visit_specialized does. */
int bp__special_list_visit(const BpSpecialList *list, BpSpecializedVisit visit, void *visitor);

/* The contexts of bp__relax_executor that a context has for specialised models; they are not
 * thread-safe. */
typedef struct BpSpecialContexts BpSpecialContexts;

/* Makes contexts (transfer full), which borrow `list` and `general`; NULL with an error. */
BpSpecialContexts *bp__special_contexts_create(BpSpecialList *list, void *general);
/* Frees contexts; NULL is ignored. */
void bp__special_contexts_free(BpSpecialContexts *contexts);
/* Prepares for a new value of an input: releases the old value. */
void bp__special_contexts_change(BpSpecialContexts *contexts);
/* Chooses a context (borrowed) by the current shapes of the inputs: the context of a model
 * specialised for them, or the general one. The call counts as a run. NULL with an error. */
void *bp__special_contexts_choose(BpSpecialContexts *contexts);
/* The context that the last call of bp__special_contexts_choose returned. */
void *bp__special_contexts_chosen(const BpSpecialContexts *contexts);

/* The program of a model with open extents, and the model's list of specialised models; NULL
 * without an error if the shapes of all inputs are known (model.c). */
const BpRelaxModel *bp__model_open_program(const BpModel *model, BpSpecialList **list);

#endif
