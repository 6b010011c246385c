/* SPDX-License-Identifier: Apache-2.0 */
/* A Relax executable as a model: one function of it, whose arguments are named tensors. Types and
 * shapes of inputs and outputs are read from the function's code. */
#ifndef BACKPLANE_GRAPH_RELAX_MODEL_H
#define BACKPLANE_GRAPH_RELAX_MODEL_H

#include <backplane/graph/model.h>

#include "graph/io/model_executor.h"
#include "graph/relax/machine.h"

/* An output that is an input with more rows behind its own (graph/build/append.c). */
typedef struct BpRelaxAppend {
  uint32_t input;
  int64_t output, axis;
} BpRelaxAppend;

typedef struct BpRelaxModel {
  BpModule *module; /* of the machine */
  BpRelaxMachine *machine;
  uint32_t function; /* "main", "forward", or the only one there is */
  uint32_t num_inputs;
  uint32_t num_outputs;
  BpModelTensorInfo *inputs;
  BpModelTensorInfo *outputs;
  BpRelaxAppend *appends;
  uint32_t num_appends;
} BpRelaxModel;

/* Chooses a device for a module of TVM's as bp_device_select_among does, among the kinds of device
 * that the module has code for. */
int bp__code_select_device(BpModule *module, const char *preferences, BpDevice *device,
                           char **report);
/* Fails if the module has no code for the device. */
int bp__code_check_device(BpModule *module, BpDevice device);

/* Runs modules of kind BP_RELAX_EXECUTABLE_KIND. (context.c) */
extern const BpModelExecutor bp__relax_executor;

/* The slots of that executor for modules and for models (BpRelaxModel). */
BpModule *bp__relax_find_module(BpModule *module);
int bp__relax_select_devices(BpModule *executable, const char *preferences, BpDevice *devices,
                             size_t capacity, size_t *num_devices, char **report);
int bp__relax_visit_tensors(BpModule *executable, BpTensorVisit visit, void *visitor);
void *bp__relax_model_create(BpModule *executable, const BpDevice *devices, size_t num_devices);
void bp__relax_model_free(void *model);
const BpDevice *bp__relax_model_devices(const void *model, size_t *num_devices);
const BpModelTensorInfo *bp__relax_model_infos(const void *model, int32_t role, uint32_t *count);
void bp__relax_model_memory(const void *model, uint64_t *parameters, uint64_t *planned);
const char *bp__relax_model_storage(const void *model, const char **likely);

/* Replaces the constants of `model` that `other`, a model of the same devices, has. Nobody uses
 * `model` yet, and nobody else has its executable. The bytes that they share; -1 with an error. */
int64_t bp__relax_model_share(BpRelaxModel *model, const BpRelaxModel *other);

/* The functions on contexts of that executor which its table lacks. (context.c) */

/* Lets a cancellation of `leader`, which lives longer, stop the runs of `context`. */
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
 * always known. An unknown extent is -1; an output without known shape has ndim -1. The lists are
 * freed with bp__relax_infos_free. */
int bp__relax_signature(const BpRelaxExecutable *executable, uint32_t function,
                        BpModelTensorInfo **inputs, BpModelTensorInfo **outputs,
                        uint32_t *num_outputs);
/* The outputs that are inputs with more rows (freed with free). */
int bp__relax_find_appends(const BpRelaxExecutable *executable, uint32_t function,
                           BpRelaxAppend **appends, uint32_t *count);
void bp__relax_infos_free(BpModelTensorInfo *infos, uint32_t count);

#endif
