/* SPDX-License-Identifier: Apache-2.0 */
/* Specialised models: models compiled for extents that a model with open ones leaves open, which
 * run in its place where the inputs have these extents. */
#ifndef BACKPLANE_GRAPH_EXEC_SPECIAL_H
#define BACKPLANE_GRAPH_EXEC_SPECIAL_H

#include <stdbool.h>

#include <backplane/graph/model.h>

#include "graph/relax/model.h"

/* The specialised models of one model. They are added and never removed, so that a run may look
 * while another thread adds one. */
typedef struct BpSpecialList BpSpecialList;

/* (transfer full); NULL with an error. */
BpSpecialList *bp__special_list_create(void);
/* NULL is ignored. */
void bp__special_list_free(BpSpecialList *list);
/* Whether one is for inputs of these shapes, which stand in no other order than the model's: an
 * extent of -1 is any. Any thread. */
bool bp__special_list_has(const BpSpecialList *list, const BpModelTensorInfo *inputs,
                          int32_t num_inputs);
/* Whether there is room: 0, or -1 with an error. */
int bp__special_list_check(const BpSpecialList *list);
/* Adds `special` (transfer full, even if it fails), of whose parameters `shared` bytes are the
 * general model's; one for the same extents stays, and the new one is freed. -1 with an error:
 * there is no room. Any thread. */
int bp__special_list_add(BpSpecialList *list, BpRelaxModel *special, uint64_t shared);
/* As bp_model_visit_specialized. */
int bp__special_list_visit(const BpSpecialList *list, BpSpecializedVisit visit, void *visitor);

/* The contexts of bp__relax_executor that a context has for specialised models. One thread at a
 * time. */
typedef struct BpSpecialContexts BpSpecialContexts;

/* `list` and `general` are borrowed (transfer full); NULL with an error. */
BpSpecialContexts *bp__special_contexts_create(BpSpecialList *list, void *general);
/* NULL is ignored. */
void bp__special_contexts_free(BpSpecialContexts *contexts);
/* An input is about to get another value: lets go of the old one. */
void bp__special_contexts_change(BpSpecialContexts *contexts);
/* Chooses a context (borrowed) by the present shapes of the inputs: that of a model specialised for
 * them, or the general one. The call counts as a run. NULL with an error. */
void *bp__special_contexts_choose(BpSpecialContexts *contexts);
/* The context that the last call chose. */
void *bp__special_contexts_chosen(const BpSpecialContexts *contexts);

/* The program of a model with open extents, and its list; NULL, no error raised: the shapes of its
 * inputs are known. (model.c) */
const BpRelaxModel *bp__model_open_program(const BpModel *model, BpSpecialList **list);

#endif
