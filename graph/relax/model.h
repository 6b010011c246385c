/* SPDX-License-Identifier: Apache-2.0 */
/* A Relax executable as a model: one function of it, whose arguments are named tensors. What is
 * known of inputs and outputs is read in the function's code. */
#ifndef BACKPLANE_GRAPH_RELAX_MODEL_H
#define BACKPLANE_GRAPH_RELAX_MODEL_H

#include <backplane/graph/model.h>

#include "graph/relax/machine.h"

typedef struct BpRelaxModel {
  BpModule *module; /* of the machine */
  BpRelaxMachine *machine;
  uint32_t function; /* "main", "forward", or the only one there is */
  uint32_t num_inputs;
  uint32_t num_outputs;
  BpModelTensorInfo *inputs;
  BpModelTensorInfo *outputs;
} BpRelaxModel;

/* Chooses among the devices that a module which TVM compiled has code for, as
 * bp_device_select_among does. */
int bp__code_select_device(BpModule *module, const char *preferences, BpDevice *device,
                           char **report);
/* That it has code for a device. */
int bp__code_check_device(BpModule *module, BpDevice device);

/* bp_model_visit_tensors of a module of kind BP_RELAX_EXECUTABLE_KIND. */
int bp__relax_visit_tensors(BpModule *executable, BpTensorVisit visit, void *visitor);

/* Makes a model of a module of kind BP_RELAX_EXECUTABLE_KIND (transfer full). */
BpRelaxModel *bp__relax_model_create(BpModule *executable, BpDevice device);
/* NULL is let pass. */
void bp__relax_model_free(BpRelaxModel *model);
/* Bytes of the constants that are tensors. */
uint64_t bp__relax_model_constant_bytes(const BpRelaxModel *model);

/* Inputs and outputs of one run at a time; the model is borrowed. */
typedef struct BpRelaxContext BpRelaxContext;

BpRelaxContext *bp__relax_context_create(const BpRelaxModel *model);
/* NULL is let pass. */
void bp__relax_context_free(BpRelaxContext *context);
/* Copies in, or uses the caller's tensor until it is set again. */
int bp__relax_context_set_input(BpRelaxContext *context, uint32_t index, const BpTensorView *value);
int bp__relax_context_bind_input(BpRelaxContext *context, uint32_t index, BpTensor *value);
/* Stops the loops of the run in progress, or else of the next. Any thread. */
void bp__relax_context_cancel(BpRelaxContext *context);
/* Queues the model. */
int bp__relax_context_run(BpRelaxContext *context);
/* Runs it, timing each call; a function that was compiled as a whole is one. */
int bp__relax_context_profile(BpRelaxContext *context, BpRelaxVisitor visit, void *visitor);
/* Waits, and gives an output (transfer none). */
BpTensor *bp__relax_context_output(BpRelaxContext *context, uint32_t index);

/* Reads what is known of the tensors that a function takes and gives: an input's type and rank are
 * always known; an extent that is not is -1, an output of which nothing is known has ndim -1. The
 * lists are freed with bp__relax_infos_free. */
int bp__relax_signature(const BpRelaxExecutable *executable, uint32_t function,
                        BpModelTensorInfo **inputs, BpModelTensorInfo **outputs,
                        uint32_t *num_outputs);
void bp__relax_infos_free(BpModelTensorInfo *infos, uint32_t count);

#endif
