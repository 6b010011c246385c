/* SPDX-License-Identifier: Apache-2.0 */
/* The executors: tables of functions by which exec/model.c makes and runs models. One executor runs
 * graphs (exec/graph_model.c), the other one Relax executables (relax/context.c). */
#ifndef BACKPLANE_GRAPH_IO_MODEL_EXECUTOR_H
#define BACKPLANE_GRAPH_IO_MODEL_EXECUTOR_H

#include <backplane/graph/model.h>

/* A call that a profiled run made. */
typedef struct BpModelCall {
  const char *name; /* unique in the run */
  const char *function;
  const BpTensorView *outputs;
  uint32_t num_outputs;
  int64_t start_ns; /* since the run began */
  int64_t duration_ns;
} BpModelCall;

/* Receives a call, after it, the device idle; `call` is borrowed. 0 goes on, 1 ends the profile
 * with no error, -1 makes the run fail with the visitor's error. */
typedef int (*BpModelCallVisit)(void *visitor, const BpModelCall *call);

/* Indices of inputs and outputs are below the counts that `infos` gives. A function that can fail
 * returns NULL or -1 with an error. A slot that may be NULL says what its absence means. */
typedef struct BpModelExecutor {
  /* ---- Modules */

  /* The module of a model that this executor runs: `module` or an import of it (borrowed). NULL,
   * and no error raised, if there is none. The other functions take the module found. */
  BpModule *(*find)(BpModule *module);
  /* bp_model_select_devices; `capacity` is at least 1, and the caller frees *report on failure. */
  int (*select_devices)(BpModule *module, const char *preferences, BpDevice *devices,
                        size_t capacity, size_t *num_devices, char **report);
  /* bp_model_visit_tensors. */
  int (*visit_tensors)(BpModule *module, BpTensorVisit visit, void *visitor);

  /* ---- Models: any thread */

  /* Makes a model (transfer full). The caller keeps the module alive; there is at least one
   * device. */
  void *(*create)(BpModule *module, const BpDevice *devices, size_t num_devices);
  void (*free)(void *model);
  /* The devices that the model uses; borrowed. */
  const BpDevice *(*devices)(const void *model, size_t *num_devices);
  /* The inputs (BP_TENSOR_INPUT) or the outputs (BP_TENSOR_OUTPUT); borrowed. */
  const BpModelTensorInfo *(*infos)(const void *model, int32_t role, uint32_t *count);
  /* bp_model_memory. */
  void (*memory)(const void *model, uint64_t *parameters, uint64_t *planned);
  /* bp_model_planned_expression; NULL: all shapes are known. */
  const char *(*storage)(const void *model, const char **likely);
  /* Target number `index` of the model's module (borrowed), NULL from the last on; NULL: the
   * targets are unknown. */
  const char *(*target)(const void *model, int32_t index);
  /* The graph as JSON (borrowed); NULL: there is no graph. */
  const char *(*graph_json)(const void *model);

  /* ---- Contexts: one thread at a time, except `cancel` */

  /* Makes a context of a model (transfer full), which the caller keeps alive. */
  void *(*context_create)(void *model);
  void (*context_free)(void *context);
  /* Copies a value in. */
  int (*set_input)(void *context, uint32_t input, const BpTensorView *value);
  /* Uses the caller's tensor until the input is set or bound again. */
  int (*bind_input)(void *context, uint32_t input, BpTensor *value);
  /* bp_model_bind_cache, bp_model_cache_length and bp_model_set_cache_length. NULL, all three of
   * them: inputs do not grow. */
  int (*bind_cache)(void *context, uint32_t input, uint32_t output, BpTensor *memory,
                    int64_t length);
  int64_t (*cache_length)(const void *context, uint32_t input);
  int (*set_cache_length)(void *context, uint32_t input, int64_t length);
  /* Queues a run. */
  int (*run)(void *context);
  /* bp_model_cancel; NULL: a run has no place where it could stop. */
  void (*cancel)(void *context);
  /* Runs, and tells each call. */
  int (*profile)(void *context, BpModelCallVisit visit, void *visitor);
  /* Waits, and gives an output of the last run (transfer none). */
  BpTensor *(*output)(void *context, uint32_t output);
} BpModelExecutor;

#endif
