/* SPDX-License-Identifier: Apache-2.0 */
/* The executors: tables of functions with which exec/model.c makes and runs models. One executor
 * runs graphs (exec/graph_model.c), the other runs Relax executables (relax/context.c). */
#ifndef BACKPLANE_GRAPH_IO_MODEL_EXECUTOR_H
#define BACKPLANE_GRAPH_IO_MODEL_EXECUTOR_H

#include <backplane/graph/model.h>

/* A call of a kernel or function in a profiled run. */
typedef struct BpModelCall {
  const char *name; /* name that is unique in the run */
  const char *function;
  const BpTensorView *outputs;
  uint32_t num_outputs;
  int64_t start_ns; /* nanoseconds since the run began */
  int64_t duration_ns;
} BpModelCall;

/* Receives a call after it has run and the device is idle; `call` is borrowed. Returns 0 to
 * continue, 1 to end the profile without an error, or -1 to make the run fail with the visitor's
 * error. */
typedef int (*BpModelCallVisit)(void *visitor, const BpModelCall *call);

/* The functions of an executor. Indices of inputs and outputs are below the counts that `infos`
 * returns. A function that can fail returns NULL or -1 with an error. The comment of a slot that
 * may be NULL says what NULL means. */
typedef struct BpModelExecutor {
  /* ---- Modules */

  /* Returns the module of a model that the executor runs: `module` or one of its imports
   * (borrowed); NULL without an error if the executor runs none of them. The functions of an
   * executor other than `find` take the module that `find` returns. */
  BpModule *(*find)(BpModule *module);
  /* Implements bp_model_select_devices; `capacity` is at least 1, and the caller frees *report on
   * failure. */
  int (*select_devices)(BpModule *module, const char *preferences, BpDevice *devices,
                        size_t capacity, size_t *num_devices, char **report);
  /* bp_model_visit_tensors. */
  int (*visit_tensors)(BpModule *module, BpTensorVisit visit, void *visitor);

  /* ---- Models: any thread */

  /* Makes a model (transfer full). The caller keeps the module alive and passes at least one
   * device. */
  void *(*create)(BpModule *module, const BpDevice *devices, size_t num_devices);
  void (*free)(void *model);
  /* Returns the devices that the model uses; borrowed. */
  const BpDevice *(*devices)(const void *model, size_t *num_devices);
  /* Returns the inputs (BP_TENSOR_INPUT) or the outputs (BP_TENSOR_OUTPUT); borrowed. */
  const BpModelTensorInfo *(*infos)(const void *model, int32_t role, uint32_t *count);
  /* bp_model_memory. */
  void (*memory)(const void *model, uint64_t *parameters, uint64_t *planned);
  /* Implements bp_model_planned_expression; a NULL slot means that all shapes are known. */
  const char *(*storage)(const void *model, const char **likely);
  /* Returns target number `index` of the model's module (borrowed), or NULL if `index` is too
   * large; a NULL slot means that the targets are unknown. */
  const char *(*target)(const void *model, int32_t index);
  /* Returns the graph as JSON (borrowed); a NULL slot means that the model has no graph. */
  const char *(*graph_json)(const void *model);

  /* ---- Contexts: one thread at a time, except `cancel` */

  /* Makes a context of a model (transfer full); the caller keeps the model alive. */
  void *(*context_create)(void *model);
  void (*context_free)(void *context);
  /* Queues later work on a stream of the first device, after the work that was queued before; NULL
   * is the default stream of that device. The caller keeps the stream. */
  int (*set_stream)(void *context, void *stream);
  /* Copies a value in. */
  int (*set_input)(void *context, uint32_t input, const BpTensorView *value);
  /* Copies the tensors of a list in. NULL, like the slots for outputs that are lists, if all inputs
   * and outputs are tensors. */
  int (*set_input_list)(void *context, uint32_t input, const BpTensorView *const *values,
                        int64_t count);
  /* Binds the caller's tensor to an input until the input is set or bound again. */
  int (*bind_input)(void *context, uint32_t input, BpTensor *value);
  /* Implement bp_model_bind_cache, bp_model_cache_length and bp_model_set_cache_length. All three
   * slots are NULL if inputs cannot grow. */
  int (*bind_cache)(void *context, uint32_t input, uint32_t output, BpTensor *memory,
                    int64_t length);
  int64_t (*cache_length)(const void *context, uint32_t input);
  int (*set_cache_length)(void *context, uint32_t input, int64_t length);
  /* Queues a run. */
  int (*run)(void *context);
  /* Implements bp_model_cancel; a NULL slot means that a run has no point at which it can stop. */
  void (*cancel)(void *context);
  /* Runs the model and calls `visit` for each call of the run. */
  int (*profile)(void *context, BpModelCallVisit visit, void *visitor);
  /* Returns an output of the last run (transfer none); its elements are valid after `wait`. */
  BpTensor *(*output)(void *context, uint32_t output);
  /* Return the number of tensors in an output of the last run that is a list, and one of them
   * (transfer none); `position` is less than the length. */
  int (*output_length)(void *context, uint32_t output, int64_t *length);
  BpTensor *(*output_item)(void *context, uint32_t output, int64_t position);
  /* Waits for the queued work, and raises its failure. */
  int (*wait)(void *context);
} BpModelExecutor;

#endif
