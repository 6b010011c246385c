/* SPDX-License-Identifier: Apache-2.0 */
/* A Relax executable as a model: one of its functions, whose arguments are named tensors. The
 * function's code gives the types and shapes of inputs and outputs. */
#ifndef BACKPLANE_GRAPH_RELAX_MODEL_H
#define BACKPLANE_GRAPH_RELAX_MODEL_H

#include <backplane/graph/model.h>

#include "graph/io/model_executor.h"
#include "graph/relax/machine.h"

/* An output that is an input followed by further rows (graph/build/append.c). */
typedef struct BpRelaxAppend {
  uint32_t input;
  int64_t output, axis;
} BpRelaxAppend;

typedef struct BpRelaxModel {
  BpModule *module; /* module of the machine */
  BpRelaxMachine *machine;
  uint32_t num_devices;             /* number of the machine's devices that the caller gave */
  BpDevice used[BP_PLACES_MAX + 1]; /* the model's device, then the others */
  uint32_t num_used;
  uint32_t function; /* "main", "forward", or the only one there is */
  uint32_t num_inputs;
  uint32_t num_outputs;
  BpModelTensorInfo *inputs;
  BpModelTensorInfo *outputs;
  BpRelaxAppend *appends;
  uint32_t num_appends;
} BpRelaxModel;

/* Chooses a device for a module of TVM's, among the kinds of devices that the module has code for,
 * as bp_device_select_among does. */
int bp__code_select_device(BpModule *module, const char *preferences, BpDevice *device,
                           char **report);
/* Fails if the module has no code for the device. */
int bp__code_check_device(BpModule *module, BpDevice device);

/* Runs modules of kind BP_RELAX_EXECUTABLE_KIND (context.c). */
extern const BpModelExecutor bp__relax_executor;

/* The slots of bp__relax_executor for modules and for models (BpRelaxModel). */
BpModule *bp__relax_find_module(BpModule *module);
int bp__relax_select_devices(BpModule *executable, const char *preferences, BpDevice *devices,
                             size_t capacity, size_t *num_devices, char **report);
int bp__relax_visit_tensors(BpModule *executable, BpTensorVisit visit, void *visitor);
void *bp__relax_model_create(BpModule *executable, const BpDevice *devices, size_t num_devices);
void bp__relax_model_free(void *model);
const BpDevice *bp__relax_model_devices(const void *model, size_t *num_devices);
/* The number of the device of the target, and then of each fallback, among the model's devices of
 * its type; -1 for a fallback without a device. `devices`: the model's devices, those of each type
 * in the order of these numbers. -1 with an error if the program is damaged. */
int bp__relax_model_ordinals(const BpRelaxModel *model, int32_t ordinals[BP_PLACES_MAX],
                             BpDevice devices[BP_PLACES_MAX]);
const BpModelTensorInfo *bp__relax_model_infos(const void *model, int32_t role, uint32_t *count);
void bp__relax_model_memory(const void *model, uint64_t *parameters, uint64_t *planned);
const char *bp__relax_model_storage(const void *model, const char **likely);

/* Replaces constants of `model` by equal constants of `other`, a model on the same devices. No
 * thread may use `model`, or own its executable, yet. Returns the number of shared bytes; -1 with
 * an error. */
int64_t bp__relax_model_share(BpRelaxModel *model, const BpRelaxModel *other);

/* The functions on contexts of bp__relax_executor that its table lacks (context.c). */

/* Makes a cancellation of `leader`, which lives longer, stop the runs of `context`, too. */
void bp__relax_context_follow(void *context, void *leader);
/* The value of an input (borrowed), or NULL. */
BpTensor *bp__relax_context_input(const void *context, uint32_t input);
/* Releases the values of all inputs. */
void bp__relax_context_forget_inputs(void *context);
/* Releases all outputs. */
void bp__relax_context_forget_outputs(void *context);
/* Whether a cache is bound to any input. */
bool bp__relax_context_has_cache(const void *context);

/* Reads the types and shapes of a function's inputs and outputs. An input's type and rank are
 * always known. An unknown extent is -1; an output without known shape has ndim -1. The caller
 * frees the lists with bp__relax_infos_free. */
int bp__relax_signature(const BpRelaxExecutable *executable, uint32_t function,
                        BpModelTensorInfo **inputs, BpModelTensorInfo **outputs,
                        uint32_t *num_outputs);
/* Finds the outputs that are inputs followed by further rows (free). */
int bp__relax_find_appends(const BpRelaxExecutable *executable, uint32_t function,
                           BpRelaxAppend **appends, uint32_t *count);
void bp__relax_infos_free(BpModelTensorInfo *infos, uint32_t count);

#endif
