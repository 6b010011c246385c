/* SPDX-License-Identifier: Apache-2.0 */
/* Relax executables as models: their devices, inputs, outputs and memory. */
#include "graph/relax/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/io/device_text.h"
#include "graph/relax/module.h"

/* ---- Devices ----------------------------------------------------------------------------- */

/* Finds the device type of a kind, which any of several machines may have. Returns -1 without an
 * error if no machine has it. */
static int find_type(const char *kind, int32_t *type) {
  BpDevice device;
  size_t count = 0;
  int status = bp_device_parse(kind, &device);
  char **kinds = status == 0 ? NULL : bp_device_kinds(&count);
  for (size_t i = 0; i < count && status < 0; i++) {
    const char *slash = strrchr(kinds[i], '/');
    if (slash && !strcmp(slash + 1, kind))
      status = bp_device_parse(kinds[i], &device);
  }
  bp_names_free(kinds);
  bp_error_clear();
  *type = status == 0 ? BP_DEVICE_TYPE_OF_CODE(device.device_type) : 0;
  return status;
}

/* Adds the device types of a module's imports whose kinds are kinds of devices. */
static size_t add_types(BpModule *module, int depth, int32_t *types, size_t count, size_t size) {
  for (size_t i = 0; i < bp_module_num_imports(module) && count < size; i++) {
    BpModule *import = bp_module_get_import(module, i);
    if (strcmp(bp_module_kind(import), "library") != 0 &&
        find_type(bp_module_kind(import), &types[count]) == 0)
      count++;
    if (depth > 0)
      count = add_types(import, depth - 1, types, count, size);
  }
  return count;
}

#define MOST_TYPES 16

/* The types of the devices that a module has code for. */
typedef struct CodeTypes {
  int32_t types[MOST_TYPES];
  size_t count;
  char names[1024]; /* "opencl, cuda" */
} CodeTypes;

/* Finds the device types: host code imports device code; without device code it is for the CPU. */
static void find_types(BpModule *module, CodeTypes *found) {
  size_t used = 0;
  found->count = add_types(module, 2, found->types, 0, MOST_TYPES);
  if (!found->count)
    found->types[found->count++] = BP_DEVICE_CPU;
  for (size_t i = 0; i < found->count && used < sizeof(found->names); i++) {
    char name[BP_DEVICE_TEXT_MAX];
    bp__kind_text(found->types[i], name);
    used += (size_t)snprintf(found->names + used, sizeof(found->names) - used, "%s%s",
                             i ? ", " : "", name);
  }
}

/* Connects to the machines that preferences name. */
static void reach_machines(const char *preferences) {
  char *settings = preferences ? NULL : bp_device_preferences();
  const char *list = preferences ? preferences : settings;
  BpDevice device;
  if (list && strstr(list, "remote:"))
    bp_device_select(list, &device, NULL);
  bp_str_free(settings);
  bp_error_clear();
}

/* If the code is for no known kind, another machine may be the only one that has the kind. */
int bp__code_select_device(BpModule *module, const char *preferences, BpDevice *device,
                           char **report) {
  CodeTypes found;
  find_types(module, &found);
  if (found.types[0] == BP_DEVICE_CPU) {
    reach_machines(preferences);
    find_types(module, &found);
  }
  return bp_device_select_among(found.types, found.count, preferences, device, report);
}

int bp__code_check_device(BpModule *module, BpDevice device) {
  CodeTypes found;
  char wanted[BP_DEVICE_TEXT_MAX];
  find_types(module, &found);
  for (size_t i = 0; i < found.count; i++)
    if (found.types[i] == BP_DEVICE_TYPE_OF_CODE(device.device_type))
      return 0;
  bp_device_format(device, wanted, sizeof wanted);
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the model has no code for %s; TVM compiled it for %s. Compile it for that "
                        "device, or choose another",
                        wanted, found.names);
}

BpModule *bp__relax_find_module(BpModule *module) {
  return bp__relax_module_executable(module) ? module : NULL;
}

/* Reads the places of a program: those beside the first device are the names of a function.
 * `fallbacks`: the number of each place's fallback, 0 for the target's. */
static int read_places(const BpRelaxExecutable *executable, BpPlaces *places,
                       uint32_t fallbacks[BP_PLACES_MAX]) {
  int64_t index = bp__relax_executable_find(executable, BP_RELAX_DEVICE_NAMES);
  const BpRelaxFunction *function = index < 0 ? NULL : &executable->functions[index];
  *places = (BpPlaces){.count = 1};
  fallbacks[0] = 0;
  for (uint32_t i = 0; function && i < function->num_params; i++) {
    BpPlace *place = &places->all[places->count];
    char rest;
    if (places->count++ == BP_PLACES_MAX ||
        sscanf(function->param_names[i], "%9" SCNd32 " %9" SCNu32 " %9" SCNu32 "%c",
               &place->device_type, &place->ordinal, &fallbacks[i + 1], &rest) != 3 ||
        place->device_type < 1 || place->ordinal >= BP_PLACES_MAX ||
        fallbacks[i + 1] >= BP_PLACES_MAX)
      return bp_error_raise(BP_ERROR_FORMAT,
                            "the program asks for device %u, '%.32s', which is not a type, a "
                            "number and a fallback of one of %d devices; it is damaged",
                            i + 1, function->param_names[i], BP_PLACES_MAX);
  }
  return 0;
}

int bp__relax_select_devices(BpModule *executable, const char *preferences, BpDevice *devices,
                             size_t capacity, size_t *num_devices, char **report) {
  BpPlaces places;
  uint32_t fallbacks[BP_PLACES_MAX];
  *num_devices = 1;
  if (read_places(bp__relax_module_executable(executable), &places, fallbacks) < 0 ||
      bp__code_select_device(executable, preferences, devices, report) < 0)
    return -1;
  return bp__places_select(&places, preferences, devices, capacity, num_devices);
}

/* ---- The model --------------------------------------------------------------------------- */

static int is_entry(const BpRelaxExecutable *executable, int64_t index) {
  return index >= 0 && executable->functions[index].kind != BP_RELAX_PACKED;
}

/* Finds the function that runs the model. */
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

/* Checks the appends, because the bytes of a program are untrusted: each append is along an axis of
 * its input, and to an output of its own. */
static int check_appends(const BpRelaxModel *model) {
  for (uint32_t i = 0; i < model->num_appends; i++) {
    const BpRelaxAppend *append = &model->appends[i];
    bool is_sound = append->output >= 0 && append->output < model->num_outputs &&
                    append->axis >= 0 && append->axis < model->inputs[append->input].ndim &&
                    !model->inputs[append->input].kind && !model->outputs[append->output].kind;
    for (uint32_t k = 0; k < i; k++)
      is_sound &= append->output != model->appends[k].output;
    if (!is_sound)
      return bp_error_raise(BP_ERROR_FORMAT,
                            "the program appends to input '%s' along axis %" PRId64
                            ", for output %" PRId64 ", which is not possible; it is damaged",
                            model->inputs[append->input].name, append->axis, append->output);
  }
  return 0;
}

static int build(BpRelaxModel *model, BpModule *executable, const BpDevice *given,
                 size_t num_given) {
  const BpRelaxExecutable *content = bp__relax_module_executable(executable);
  BpPlaces places;
  BpDevice devices[BP_PLACES_MAX];
  uint32_t fallbacks[BP_PLACES_MAX];
  int64_t entry = find_entry(content);
  if (entry < 0 || bp__code_check_device(executable, given[0]) < 0 ||
      read_places(content, &places, fallbacks) < 0 ||
      bp__places_take(&places, given, num_given, devices) < 0)
    return -1;
  model->function = (uint32_t)entry;
  model->num_inputs = content->functions[entry].num_args;
  if (bp__relax_signature(content, model->function, &model->inputs, &model->outputs,
                          &model->num_outputs) < 0 ||
      bp__relax_find_appends(content, model->function, &model->appends, &model->num_appends) < 0 ||
      check_appends(model) < 0)
    return -1;
  model->num_devices = places.count;
  model->num_used = bp__places_list(devices, places.count, given, num_given, model->used);
  model->module = bp__relax_machine_module_create(executable, devices, places.count);
  if (!model->module)
    return -1;
  model->machine = bp__relax_module_machine(model->module);
  return 0;
}

void *bp__relax_model_create(BpModule *executable, const BpDevice *devices, size_t num_devices) {
  BpRelaxModel *model = calloc(1, sizeof(*model));
  if (!model) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
    return NULL;
  }
  if (build(model, executable, devices, num_devices) == 0)
    return model;
  bp__relax_model_free(model);
  return NULL;
}

void bp__relax_model_free(void *data) {
  BpRelaxModel *model = data;
  bp__relax_infos_free(model->inputs, model->num_inputs);
  bp__relax_infos_free(model->outputs, model->num_outputs);
  bp_object_release(model->module);
  free(model->appends);
  free(model);
}

const BpDevice *bp__relax_model_devices(const void *data, size_t *num_devices) {
  const BpRelaxModel *model = data;
  *num_devices = model->num_used;
  return model->used;
}

int bp__relax_model_ordinals(const BpRelaxModel *model, int32_t ordinals[BP_PLACES_MAX],
                             BpDevice devices[BP_PLACES_MAX]) {
  BpPlaces places;
  uint32_t fallbacks[BP_PLACES_MAX];
  if (read_places(model->machine->executable, &places, fallbacks) < 0)
    return -1;
  for (uint32_t i = 0; i < BP_PLACES_MAX; i++)
    ordinals[i] = -1;
  for (uint32_t i = 0; i < places.count; i++)
    ordinals[fallbacks[i]] = (int32_t)places.all[i].ordinal;
  for (uint32_t ordinal = 0, count = 0; ordinal < BP_PLACES_MAX; ordinal++)
    for (uint32_t i = 0; i < places.count; i++)
      if (places.all[i].ordinal == ordinal)
        devices[count++] = model->machine->devices[i];
  return 0;
}

const BpModelTensorInfo *bp__relax_model_infos(const void *data, int32_t role, uint32_t *count) {
  const BpRelaxModel *model = data;
  bool is_input = role == BP_TENSOR_INPUT;
  *count = is_input ? model->num_inputs : model->num_outputs;
  return is_input ? model->inputs : model->outputs;
}

/* The texts that describe the memory of a run (BP_RELAX_STORAGE_NAMES): the bytes as an expression,
 * the bytes for likely extents, and the likely extents. NULL for a program without such texts. */
static char *const *storage_texts(const BpRelaxModel *model) {
  const BpRelaxExecutable *executable = model->machine->executable;
  int64_t index = bp__relax_executable_find(executable, BP_RELAX_STORAGE_NAMES);
  return index >= 0 && executable->functions[index].num_params == 3
             ? executable->functions[index].param_names
             : NULL;
}

void bp__relax_model_memory(const void *data, uint64_t *parameters, uint64_t *planned) {
  const BpRelaxModel *model = data;
  const BpRelaxExecutable *executable = model->machine->executable;
  char *const *texts = storage_texts(model);
  *planned = texts ? strtoull(texts[1], NULL, 10) : 0;
  *parameters = 0;
  for (uint32_t i = 0; i < executable->num_constants; i++)
    if (executable->constants[i].type_index == BP_TYPE_TENSOR)
      *parameters +=
          (uint64_t)bp_view_num_bytes(&((BpTensor *)executable->constants[i].v_obj)->view);
}

const char *bp__relax_model_storage(const void *data, const char **likely) {
  char *const *texts = storage_texts(data);
  *likely = texts ? texts[2] : NULL;
  return texts && *texts[0] ? texts[0] : NULL;
}

/* ---- Constants of two models ------------------------------------------------------------- */

/* The index of a constant with the type, shape and bytes of a tensor on the CPU, or -1. */
static int64_t find_constant(const BpRelaxModel *model, const BpTensor *like) {
  const BpRelaxExecutable *executable = model->machine->executable;
  size_t bytes = (size_t)bp_view_num_bytes(&like->view);
  for (uint32_t i = 0; i < executable->num_constants; i++) {
    if (executable->constants[i].type_index != BP_TYPE_TENSOR || executable->scopes[i])
      continue;
    BpTensor *constant = (BpTensor *)executable->constants[i].v_obj;
    const BpTensorView *a = &constant->view, *b = &like->view;
    if (a->ndim != b->ndim || memcmp(&a->dtype, &b->dtype, sizeof(a->dtype)) ||
        (a->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape))) ||
        memcmp((const char *)a->data + a->byte_offset, (const char *)b->data + b->byte_offset,
               bytes) != 0)
      continue;
    return i;
  }
  return -1;
}

static void replace(BpValue *value, BpTensor *tensor) {
  bp_object_retain(tensor);
  bp_value_clear(value);
  *value = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
}

/* Copies the constants that are not shared, because one block of memory contains the data of
 * all. */
static int part_from_shared(BpRelaxExecutable *executable, const BpRelaxModel *other) {
  for (uint32_t i = 0; i < executable->num_constants; i++) {
    BpValue *value = &executable->constants[i];
    BpTensor *tensor = (BpTensor *)value->v_obj, *copy;
    if (value->type_index != BP_TYPE_TENSOR || find_constant(other, tensor) >= 0)
      continue;
    copy = bp__relax_copy(tensor, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    if (!copy)
      return -1;
    replace(value, copy);
    bp_object_release(copy);
  }
  return 0;
}

int64_t bp__relax_model_share(BpRelaxModel *model, const BpRelaxModel *other) {
  BpRelaxMachine *machine = model->machine;
  BpRelaxExecutable *executable = (BpRelaxExecutable *)(uintptr_t)machine->executable;
  uint64_t shared = 0, all, planned;
  for (uint32_t i = 0; i < executable->num_constants; i++) {
    if (executable->constants[i].type_index != BP_TYPE_TENSOR || executable->scopes[i])
      continue;
    int64_t found = find_constant(other, (BpTensor *)executable->constants[i].v_obj);
    if (found < 0)
      continue;
    replace(&machine->constants[i], (BpTensor *)other->machine->constants[found].v_obj);
    replace(&executable->constants[i],
            (BpTensor *)other->machine->executable->constants[found].v_obj);
    shared += (uint64_t)bp_view_num_bytes(&((BpTensor *)executable->constants[i].v_obj)->view);
  }
  bp__relax_model_memory(model, &all, &planned);
  if (shared > all / 2 && part_from_shared(executable, other) < 0)
    return -1;
  return (int64_t)shared;
}
