/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the specialised model that runs for the inputs. A context has a context of its own, a
 * lane, for each specialised model that it has run. A context checks its inputs only if an input
 * has changed or a model was added. */
#include "graph/exec/special.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

typedef struct Special {
  BpRelaxModel *model;
  uint64_t shared; /* bytes of parameters shared with the general model */
  atomic_uint_fast64_t runs;
} Special;

struct BpSpecialList {
  pthread_mutex_t adding;
  Special specials[BP_MODEL_MAX_SPECIALIZED];
  atomic_int count; /* number of models; the models below it never change */
};

struct BpSpecialContexts {
  BpSpecialList *list;
  void *general;
  void *lanes[BP_MODEL_MAX_SPECIALIZED]; /* contexts of the models, NULL until they are chosen */
  int among;                             /* number of models at the last choice */
  int chosen;                            /* index of the chosen model; -1: the general code */
  bool is_bound;                         /* whether the chosen model's context has the inputs */
};

/* ---- The list ---------------------------------------------------------------------------- */

BpSpecialList *bp__special_list_create(void) {
  BpSpecialList *list = calloc(1, sizeof(*list));
  if (!list || pthread_mutex_init(&list->adding, NULL)) {
    free(list);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
    return NULL;
  }
  return list;
}

void bp__special_list_free(BpSpecialList *list) {
  if (!list)
    return;
  for (int i = 0; i < atomic_load(&list->count); i++)
    bp__relax_model_free(list->specials[i].model);
  pthread_mutex_destroy(&list->adding);
  free(list);
}

static bool has_extents(const BpModelTensorInfo *info, const int64_t *shape, int32_t ndim,
                        bool must_equal) {
  if (info->ndim != ndim)
    return false;
  for (int32_t i = 0; i < ndim; i++)
    if (info->shape[i] != shape[i] && (must_equal || info->shape[i] >= 0))
      return false;
  return true;
}

bool bp__special_list_has(const BpSpecialList *list, const BpModelTensorInfo *inputs,
                          int32_t num_inputs) {
  int count = atomic_load_explicit(&list->count, memory_order_acquire);
  for (int i = 0; i < count; i++) {
    bool is_same = true;
    for (int32_t k = 0; is_same && k < num_inputs; k++)
      is_same =
          has_extents(&list->specials[i].model->inputs[k], inputs[k].shape, inputs[k].ndim, true);
    if (is_same)
      return true;
  }
  return false;
}

int bp__special_list_check(const BpSpecialList *list) {
  if (atomic_load(&list->count) < BP_MODEL_MAX_SPECIALIZED)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "the model is specialised for %d shapes already, which is the most; runs "
                        "with others use the general code",
                        BP_MODEL_MAX_SPECIALIZED);
}

int bp__special_list_add(BpSpecialList *list, BpRelaxModel *special, uint64_t shared) {
  pthread_mutex_lock(&list->adding);
  bool is_new = !bp__special_list_has(list, special->inputs, (int32_t)special->num_inputs);
  int count = atomic_load(&list->count);
  int status = is_new ? bp__special_list_check(list) : 0;
  if (is_new && status == 0) {
    list->specials[count].model = special;
    list->specials[count].shared = shared;
    atomic_init(&list->specials[count].runs, 0);
    atomic_store_explicit(&list->count, count + 1, memory_order_release);
    special = NULL;
  }
  pthread_mutex_unlock(&list->adding);
  if (special)
    bp__relax_model_free(special);
  return status;
}

static int visit_one(const Special *special, BpSpecializedVisit visit, void *visitor) {
  uint64_t parameters, planned;
  bp__relax_model_memory(special->model, &parameters, &planned);
  const BpSpecializedModel info = {
      .struct_size = sizeof(info),
      .inputs = special->model->inputs,
      .num_inputs = (int32_t)special->model->num_inputs,
      .input_size = sizeof(*info.inputs),
      .runs = atomic_load(&special->runs),
      .parameter_bytes = parameters,
      .shared_bytes = special->shared,
  };
  return visit(visitor, &info);
}

int bp__special_list_visit(const BpSpecialList *list, BpSpecializedVisit visit, void *visitor) {
  int count = atomic_load_explicit(&list->count, memory_order_acquire), rc = 0;
  for (int i = 0; i < count && rc == 0; i++)
    rc = visit_one(&list->specials[i], visit, visitor);
  return rc;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

BpSpecialContexts *bp__special_contexts_create(BpSpecialList *list, void *general) {
  BpSpecialContexts *contexts = calloc(1, sizeof(*contexts));
  if (!contexts) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
    return NULL;
  }
  contexts->list = list;
  contexts->general = general;
  contexts->chosen = -1;
  return contexts;
}

void bp__special_contexts_free(BpSpecialContexts *contexts) {
  if (!contexts)
    return;
  for (int i = 0; i < BP_MODEL_MAX_SPECIALIZED; i++)
    if (contexts->lanes[i])
      bp__relax_executor.context_free(contexts->lanes[i]);
  free(contexts);
}

void *bp__special_contexts_chosen(const BpSpecialContexts *contexts) {
  return contexts->chosen < 0 ? contexts->general : contexts->lanes[contexts->chosen];
}

void bp__special_contexts_change(BpSpecialContexts *contexts) {
  contexts->among = -1;
  if (contexts->is_bound)
    bp__relax_context_forget_inputs(contexts->lanes[contexts->chosen]);
  contexts->is_bound = false;
}

static bool fits(const BpSpecialContexts *contexts, const BpRelaxModel *special) {
  for (uint32_t i = 0; i < special->num_inputs; i++) {
    const BpTensor *value = bp__relax_context_input(contexts->general, i);
    if (!value || !has_extents(&special->inputs[i], value->view.shape, value->view.ndim, false))
      return false;
  }
  return !bp__relax_context_has_cache(contexts->general);
}

/* Binds the inputs to the context of a specialised model, which is made at its first use. */
static int open_lane(BpSpecialContexts *contexts, int place) {
  BpRelaxModel *special = contexts->list->specials[place].model;
  void **lane = &contexts->lanes[place];
  if (!*lane) {
    *lane = bp__relax_executor.context_create(special);
    if (!*lane)
      return -1;
    bp__relax_context_follow(*lane, contexts->general);
  }
  for (uint32_t i = 0; i < special->num_inputs; i++)
    if (bp__relax_executor.bind_input(*lane, i, bp__relax_context_input(contexts->general, i)) <
        0) {
      bp__relax_context_forget_inputs(*lane);
      return -1;
    }
  contexts->chosen = place;
  contexts->is_bound = true;
  return 0;
}

/* Finds the first specialised model whose shapes the inputs have. */
static int look(BpSpecialContexts *contexts, int count) {
  bp__special_contexts_change(contexts);
  int place = 0;
  while (place < count && !fits(contexts, contexts->list->specials[place].model))
    place++;
  /* The outputs of the code that ran last are kept no longer than until the next run. */
  if (contexts->chosen != (place < count ? place : -1))
    bp__relax_context_forget_outputs(bp__special_contexts_chosen(contexts));
  contexts->chosen = -1;
  if (place < count && open_lane(contexts, place) < 0) {
    bp__relax_context_forget_outputs(contexts->general);
    return -1;
  }
  contexts->among = count;
  return 0;
}

void *bp__special_contexts_choose(BpSpecialContexts *contexts) {
  int count = atomic_load_explicit(&contexts->list->count, memory_order_acquire);
  if (contexts->among != count && look(contexts, count) < 0)
    return NULL;
  if (contexts->chosen >= 0)
    atomic_fetch_add_explicit(&contexts->list->specials[contexts->chosen].runs, 1,
                              memory_order_relaxed);
  return bp__special_contexts_chosen(contexts);
}
