/* SPDX-License-Identifier: Apache-2.0 */
/* Relax executables behind the functions of backplane/graph/model.h. */
#include "graph/relax/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/relax.h>
#include <backplane/object.h>

#include "graph/io/clock.h"
#include "graph/relax/module.h"

/* ---- Devices ----------------------------------------------------------------------------- */

/* Adds the device types of a module's imports, whose kinds are those of devices. */
static size_t add_types(BpModule *module, int depth, int32_t *types, size_t count, size_t size) {
  for (size_t i = 0; i < bp_module_num_imports(module) && count < size; i++) {
    BpModule *import = bp_module_get_import(module, i);
    BpDevice device;
    if (strcmp(bp_module_kind(import), "library") != 0) {
      if (bp_device_parse(bp_module_kind(import), &device) == 0)
        types[count++] = device.device_type;
      else
        bp_error_clear();
    }
    if (depth > 0)
      count = add_types(import, depth - 1, types, count, size);
  }
  return count;
}

#define MOST_TYPES 16

/* The types of the devices that there is code for. */
typedef struct CodeTypes {
  int32_t types[MOST_TYPES];
  size_t count;
  char names[256]; /* "opencl, cuda" */
} CodeTypes;

/* Host code imports the device code; without any it is for the CPU. */
static void find_types(BpModule *module, CodeTypes *found) {
  size_t used = 0;
  found->count = add_types(module, 2, found->types, 0, MOST_TYPES);
  if (!found->count)
    found->types[found->count++] = BP_DEVICE_CPU;
  for (size_t i = 0; i < found->count && used < sizeof(found->names); i++) {
    char name[64];
    bp_device_format((BpDevice){found->types[i], 0}, name, sizeof name);
    used += (size_t)snprintf(found->names + used, sizeof(found->names) - used, "%s%.*s",
                             i ? ", " : "", (int)strcspn(name, ":"), name);
  }
}

int bp__code_select_device(BpModule *module, const char *preferences, BpDevice *device,
                           char **report) {
  CodeTypes found;
  find_types(module, &found);
  return bp_device_select_among(found.types, found.count, preferences, device, report);
}

int bp__code_check_device(BpModule *module, BpDevice device) {
  CodeTypes found;
  char wanted[64];
  find_types(module, &found);
  for (size_t i = 0; i < found.count; i++)
    if (found.types[i] == device.device_type)
      return 0;
  bp_device_format(device, wanted, sizeof wanted);
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the model has no code for %s; TVM compiled it for %s. Compile it for that "
                        "device, or choose another",
                        wanted, found.names);
}

/* ---- The model --------------------------------------------------------------------------- */

static int is_entry(const BpRelaxExecutable *executable, int64_t index) {
  return index >= 0 && executable->functions[index].kind != BP_RELAX_PACKED;
}

static int64_t find_entry(const BpRelaxExecutable *executable) {
  char names[512] = "";
  size_t used = 0;
  int64_t found = bp__relax_executable_find(executable, "main"), count = 0;
  if (is_entry(executable, found))
    return found;
  found = bp__relax_executable_find(executable, "forward");
  if (is_entry(executable, found))
    return found;
  for (int64_t i = 0; i < executable->num_functions; i++)
    if (is_entry(executable, i)) {
      found = i;
      count++;
      if (used < sizeof(names))
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
                                 executable->functions[i].name);
    }
  if (count == 1)
    return found;
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the library has %" PRId64 " functions (%s), none called \"main\" or "
                        "\"forward\"; call them " BP_RELAX_BY_MACHINE,
                        count, names);
}

int bp__relax_visit_tensors(BpModule *executable, BpTensorVisit visit, void *visitor) {
  const BpRelaxExecutable *content = bp__relax_module_executable(executable);
  BpModelTensorInfo *inputs = NULL, *outputs = NULL;
  int64_t entry = find_entry(content);
  if (entry < 0)
    return -1;
  uint32_t num_inputs = content->functions[entry].num_args, num_outputs = 0;
  int rc = bp__relax_signature(content, (uint32_t)entry, &inputs, &outputs, &num_outputs);
  for (uint32_t i = 0; rc == 0 && i < num_inputs; i++)
    rc = visit(visitor, BP_TENSOR_INPUT, &inputs[i]);
  for (uint32_t i = 0; rc == 0 && i < num_outputs; i++)
    rc = visit(visitor, BP_TENSOR_OUTPUT, &outputs[i]);
  bp__relax_infos_free(inputs, num_inputs);
  bp__relax_infos_free(outputs, num_outputs);
  return rc;
}

static int build(BpRelaxModel *model, BpModule *executable, BpDevice device) {
  const BpRelaxExecutable *content = bp__relax_module_executable(executable);
  int64_t entry = find_entry(content);
  if (entry < 0 || bp__code_check_device(executable, device) < 0)
    return -1;
  model->function = (uint32_t)entry;
  model->num_inputs = content->functions[entry].num_args;
  if (bp__relax_signature(content, model->function, &model->inputs, &model->outputs,
                          &model->num_outputs) < 0)
    return -1;
  model->module = bp_relax_machine_create(executable, device);
  if (!model->module)
    return -1;
  model->machine = bp__relax_module_machine(model->module);
  return 0;
}

BpRelaxModel *bp__relax_model_create(BpModule *executable, BpDevice device) {
  BpRelaxModel *model = calloc(1, sizeof(*model));
  if (!model) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
    return NULL;
  }
  if (build(model, executable, device) == 0)
    return model;
  bp__relax_model_free(model);
  return NULL;
}

void bp__relax_model_free(BpRelaxModel *model) {
  if (!model)
    return;
  bp__relax_infos_free(model->inputs, model->num_inputs);
  bp__relax_infos_free(model->outputs, model->num_outputs);
  bp_object_release(model->module);
  free(model);
}

uint64_t bp__relax_model_constant_bytes(const BpRelaxModel *model) {
  const BpRelaxExecutable *executable = model->machine->executable;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < executable->num_constants; i++)
    if (executable->constants[i].type_index == BP_TYPE_TENSOR)
      bytes += (uint64_t)bp_view_num_bytes(&((BpTensor *)executable->constants[i].v_obj)->view);
  return bytes;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

struct BpRelaxContext {
  const BpRelaxModel *model;
  BpValue *inputs; /* None until they are set */
  BpTensor **outputs;
  atomic_bool is_cancelled; /* until the run that it ends has ended */
};

BpRelaxContext *bp__relax_context_create(const BpRelaxModel *model) {
  BpRelaxContext *context = calloc(1, sizeof(*context));
  if (context) {
    context->model = model;
    context->inputs = calloc((size_t)model->num_inputs + 1, sizeof(*context->inputs));
    context->outputs = calloc((size_t)model->num_outputs + 1, sizeof(*context->outputs));
    if (context->inputs && context->outputs)
      return context;
  }
  bp__relax_context_free(context);
  bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
  return NULL;
}

static void clear_outputs(BpRelaxContext *context) {
  for (uint32_t i = 0; context->outputs && i < context->model->num_outputs; i++) {
    bp_object_release(context->outputs[i]);
    context->outputs[i] = NULL;
  }
}

void bp__relax_context_free(BpRelaxContext *context) {
  if (!context)
    return;
  for (uint32_t i = 0; context->inputs && i < context->model->num_inputs; i++)
    bp_value_clear(&context->inputs[i]);
  clear_outputs(context);
  free(context->inputs);
  free(context->outputs);
  free(context);
}

static int check_type(const BpModelTensorInfo *info, const BpTensorView *value) {
  char wanted[32], given[32];
  if (info->ndim < 0) /* the function says nothing of this argument */
    return 0;
  bp_dtype_format(info->dtype, wanted, sizeof wanted);
  bp_dtype_format(value->dtype, given, sizeof given);
  if (memcmp(&info->dtype, &value->dtype, sizeof(info->dtype)) != 0 || info->ndim != value->ndim)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is %s of %d dimensions, and the value given is %s of %d",
                          info->name, wanted, info->ndim, given, value->ndim);
  for (int32_t i = 0; i < info->ndim; i++)
    if (info->shape[i] >= 0 && info->shape[i] != value->shape[i])
      return bp_error_raise(BP_ERROR_VALUE,
                            "dimension %d of input '%s' is %" PRId64
                            ", and that of the value given %" PRId64,
                            i, info->name, info->shape[i], value->shape[i]);
  return 0;
}

static int check_value(const BpModelTensorInfo *info, const BpTensorView *value) {
  if (check_type(info, value) < 0)
    return -1;
  if (!bp_view_is_compact(value))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the value given for input '%s' has strides; copy it to a compact tensor",
                          info->name);
  return 0;
}

static void take_input(BpRelaxContext *context, uint32_t index, BpTensor *tensor) {
  bp_value_clear(&context->inputs[index]);
  context->inputs[index] = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
}

int bp__relax_context_set_input(BpRelaxContext *context, uint32_t index,
                                const BpTensorView *value) {
  const BpModelTensorInfo *info = &context->model->inputs[index];
  if (check_value(info, value) < 0)
    return -1;
  BpTensor *wrapped = bp_tensor_wrap(value, NULL, NULL);
  BpTensor *copy =
      wrapped ? bp__relax_copy(wrapped, context->model->machine->devices[0], NULL) : NULL;
  bp_object_release(wrapped);
  if (!copy)
    return bp_error_add_context("input '%s'", info->name);
  take_input(context, index, copy);
  return 0;
}

int bp__relax_context_bind_input(BpRelaxContext *context, uint32_t index, BpTensor *value) {
  const BpModelTensorInfo *info = &context->model->inputs[index];
  if (check_value(info, &value->view) < 0)
    return -1;
  if (memcmp(&value->view.device, &context->model->machine->devices[0], sizeof(BpDevice)) != 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is bound to memory of the model's device, and the tensor is "
                          "on another; copy it in instead",
                          info->name);
  take_input(context, index, bp_object_retain(value));
  return 0;
}

static int take_outputs(BpRelaxContext *context, const BpValue *result) {
  const BpArray *tuple =
      result->type_index == BP_TYPE_ARRAY ? (const BpArray *)result->v_obj : NULL;
  uint32_t count = context->model->num_outputs;
  if (tuple && tuple->size != count)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the model gives %" PRId64 " values where %u were expected", tuple->size,
                          count);
  for (uint32_t i = 0; i < count; i++) {
    const BpValue *value = tuple ? &tuple->data[i] : result;
    if (value->type_index != BP_TYPE_TENSOR)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "output %u of the model is a %s, not a tensor; call the function "
                            "itself, " BP_RELAX_BY_MACHINE,
                            i, bp_type_name(value->type_index));
    context->outputs[i] = bp_object_retain(value->v_obj);
  }
  return 0;
}

static int check_inputs(const BpRelaxContext *context) {
  const BpRelaxModel *model = context->model;
  for (uint32_t i = 0; i < model->num_inputs; i++)
    if (context->inputs[i].type_index == BP_TYPE_NONE)
      return bp_error_raise(BP_ERROR_VALUE, "input '%s' has not been set", model->inputs[i].name);
  return 0;
}

void bp__relax_context_cancel(BpRelaxContext *context) {
  atomic_store(&context->is_cancelled, true);
}

/* Runs the model, with a visitor or NULL. */
static int run_machine(BpRelaxContext *context, BpRelaxVisitor visit, void *visitor,
                       BpValue *result) {
  const BpRelaxModel *model = context->model;
  const atomic_bool *before = bp__relax_machine_watch(&context->is_cancelled);
  int32_t num_inputs = (int32_t)model->num_inputs;
  int status = visit ? bp__relax_machine_profile(model->machine, model->function, context->inputs,
                                                 num_inputs, visit, visitor, result)
                     : bp__relax_machine_call(model->machine, model->function, context->inputs,
                                              num_inputs, result);
  bp__relax_machine_watch(before);
  atomic_store(&context->is_cancelled, false);
  return status;
}

int bp__relax_context_run(BpRelaxContext *context) {
  BpValue result = {.type_index = BP_TYPE_NONE};
  if (check_inputs(context) < 0)
    return -1;
  clear_outputs(context);
  if (run_machine(context, NULL, NULL, &result))
    return -1;
  int status = take_outputs(context, &result);
  bp_value_clear(&result);
  return status;
}

/* A function that was compiled as a whole makes no calls that the machine sees. */
typedef struct Watch {
  BpRelaxVisitor visit;
  void *visitor;
  int any;
} Watch;

static int watch(void *context, const char *function, const BpTensorView *last, int64_t start_ns,
                 int64_t duration_ns) {
  Watch *self = context;
  self->any = 1;
  return self->visit(self->visitor, function, last, start_ns, duration_ns);
}

int bp__relax_context_profile(BpRelaxContext *context, BpRelaxVisitor visit, void *visitor) {
  const BpRelaxModel *model = context->model;
  const BpRelaxFunction *function = &model->machine->executable->functions[model->function];
  BpValue result = {.type_index = BP_TYPE_NONE};
  Watch self = {visit, visitor, 0};
  if (check_inputs(context) < 0)
    return -1;
  clear_outputs(context);
  int64_t start = bp__graph_now_ns();
  if (run_machine(context, watch, &self, &result))
    return -1;
  int status = take_outputs(context, &result);
  bp_value_clear(&result);
  if (status < 0 || self.any)
    return status;
  if (bp_stream_sync(model->machine->devices[0], NULL) < 0)
    return -1;
  return visit(visitor, function->name, NULL, 0, bp__graph_now_ns() - start) < 0 ? -1 : 0;
}

BpTensor *bp__relax_context_output(BpRelaxContext *context, uint32_t index) {
  if (!context->outputs[index]) {
    bp_error_raise(BP_ERROR_VALUE, "the model has not been run");
    return NULL;
  }
  if (bp_stream_sync(context->model->machine->devices[0], NULL) < 0)
    return NULL;
  return context->outputs[index];
}
