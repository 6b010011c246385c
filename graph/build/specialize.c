/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles special code of a model with open extents for shapes with which it runs. */
#include <inttypes.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/options.h"
#include "graph/exec/special.h"
#include "graph/io/argument.h"

static const BpInputShape *find_shape(const BpCompileOptions *options, const char *name) {
  for (int32_t i = 0; i < options->num_shapes; i++)
    if (!strcmp(options->shapes[i].name, name))
      return &options->shapes[i];
  return NULL;
}

static int check_shape(const BpModelTensorInfo *info, const BpInputShape *given) {
  if (info->ndim != given->ndim)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' has %d dimensions, and the shape to specialise for %d",
                          info->name, info->ndim, given->ndim);
  for (int32_t i = 0; i < info->ndim; i++)
    if (given->shape[i] < 0 || (info->shape[i] >= 0 && info->shape[i] != given->shape[i]))
      return bp_error_raise(BP_ERROR_VALUE, "dimension %d of input '%s' cannot be %" PRId64 "%s", i,
                            info->name, given->shape[i],
                            info->shape[i] < 0 ? ", which is negative"
                                               : ": the model has another extent there");
  return 0;
}

static int check_names(const BpModel *model, const BpCompileOptions *options) {
  for (int32_t i = 0; i < options->num_shapes; i++) {
    int32_t found = 0;
    for (int32_t k = 0; k < bp_model_num_inputs(model); k++)
      found |= !strcmp(bp_model_input_info(model, k)->name, options->shapes[i].name);
    if (!found)
      return bp_error_raise(BP_ERROR_VALUE, "the model has no input '%s' to specialise",
                            options->shapes[i].name);
  }
  return 0;
}

/* Lists the inputs with the given shapes (`infos` has space for all). Returns the number of extents
 * that become known, or -1 with an error. */
static int take_shapes(const BpModel *model, const BpCompileOptions *options,
                       BpModelTensorInfo *infos) {
  int known = 0;
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    infos[i] = *bp_model_input_info(model, i);
    const BpInputShape *given = find_shape(options, infos[i].name);
    if (!given)
      continue;
    if (check_shape(&infos[i], given) < 0)
      return -1;
    for (int32_t d = 0; d < given->ndim; d++)
      known += infos[i].shape[d] < 0;
    infos[i].shape = given->shape;
  }
  return known;
}

/* Whether special code must be compiled: 1 or 0; -1 with an error. */
static int is_wanted(const BpModel *model, const BpSpecialList *list,
                     const BpCompileOptions *options) {
  int32_t count = bp_model_num_inputs(model);
  BpModelTensorInfo *infos = g_new0(BpModelTensorInfo, (gsize)count + 1);
  int known = check_names(model, options) < 0 ? -1 : take_shapes(model, options, infos);
  int status = known < 0 ? -1 : 1;
  if (known == 0)
    status = bp_error_raise(BP_ERROR_VALUE, "specialising takes the shape of at least one input "
                                            "that has open extents, and none is given");
  if (status > 0 && bp__special_list_has(list, infos, count))
    status = 0;
  if (status > 0 && bp__special_list_check(list) < 0)
    status = -1;
  g_free(infos);
  return status;
}

/* Fails if the special code has other inputs or outputs than the model: it belongs to another
 * model. */
static int check_same(const BpModel *model, const BpRelaxModel *special) {
  bool is_same = bp_model_num_inputs(model) == (int32_t)special->num_inputs &&
                 bp_model_num_outputs(model) == (int32_t)special->num_outputs;
  for (int32_t i = 0; is_same && i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *a = bp_model_input_info(model, i);
    const BpModelTensorInfo *b = &special->inputs[i];
    is_same = !strcmp(a->name, b->name) && !memcmp(&a->dtype, &b->dtype, sizeof(a->dtype)) &&
              a->ndim == b->ndim;
  }
  for (int32_t i = 0; is_same && i < bp_model_num_outputs(model); i++) {
    const BpModelTensorInfo *a = bp_model_output_info(model, i);
    const BpModelTensorInfo *b = &special->outputs[i];
    is_same = !strcmp(a->name, b->name) &&
              (a->ndim < 0 || !memcmp(&a->dtype, &b->dtype, sizeof(a->dtype)));
  }
  return is_same ? 0
                 : bp_error_raise(BP_ERROR_VALUE,
                                  "the file has other inputs or outputs than the model; it is not "
                                  "the file that the model was compiled from");
}

/* Compiles for the target of the options, or for the target of the model's device. */
static BpModule *compile_special(const BpModel *model, const char *path,
                                 const BpCompileOptions *options, const int32_t *ordinals) {
  size_t num_devices;
  const BpDevice *devices = bp_model_devices(model, &num_devices);
  if (options->num_targets == 1) {
    if (bp_target_device_type(options->targets[0]) ==
        BP_DEVICE_TYPE_OF_CODE(devices[0].device_type))
      return bp__build_compile_program(path, options, ordinals);
    bp_error_raise(BP_ERROR_VALUE, "target %s is not for the device that the model is on",
                   bp_target_kind(options->targets[0]));
    return NULL;
  }
  if (options->num_targets) {
    bp_error_raise(BP_ERROR_VALUE, "a model is specialised for 1 target, and %d are given",
                   options->num_targets);
    return NULL;
  }
  BpTarget *target = bp_target_from_device(devices[0]);
  BpCompileOptions own = *options;
  own.targets = (const BpTarget *const *)&target;
  own.num_targets = 1;
  BpModule *module = target ? bp__build_compile_program(path, &own, ordinals) : NULL;
  bp_target_release(target);
  return module;
}

static int specialize(const BpModel *model, const char *path, const BpCompileOptions *options) {
  BpSpecialList *list;
  BpDevice devices[BP_PLACES_MAX];
  int32_t ordinals[BP_PLACES_MAX];
  const BpRelaxModel *general = bp__model_open_program(model, &list);
  BpModule *module = bp__relax_model_ordinals(general, ordinals, devices) < 0
                         ? NULL
                         : compile_special(model, path, options, ordinals);
  BpRelaxModel *special =
      module ? bp__relax_model_create(module, devices, general->num_devices) : NULL;
  int64_t shared =
      special && check_same(model, special) == 0 ? bp__relax_model_share(special, general) : -1;
  bp_module_release(module);
  if (shared >= 0)
    return bp__special_list_add(list, special, (uint64_t)shared);
  if (special)
    bp__relax_model_free(special);
  return -1;
}

int bp_model_specialize(BpModel *model, const char *onnx_path, const BpCompileOptions *options) {
  BpCompileOptions own;
  BpArena arena = {0};
  if (!BP_NOT_NULL(model) || !BP_NOT_NULL(onnx_path) || !BP_NOT_NULL(options) ||
      bp__compile_options_copy(options, &own) < 0 || bp__options_check_targets(&own) < 0 ||
      bp__options_check_stages(&own) < 0 || bp__options_check_fallbacks(&own) < 0)
    return -1;
  BpSpecialList *list;
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    if (bp_model_input_info(model, i)->kind != BP_MODEL_TENSOR)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "input '%s' is a sequence or an optional; a model is specialised for "
                            "tensors alone",
                            bp_model_input_info(model, i)->name);
  if (!bp__model_open_program(model, &list))
    return bp_error_raise(BP_ERROR_VALUE, "all shapes of the model were known when it was "
                                          "compiled: its code is for these shapes alone");
  if (own.measures_claims)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "specialised code is not measured; leave "
                                                    "BpCompileOptions::measures_claims out");
  own.shapes = bp__options_shapes(&own, &arena);
  own.shape_size = sizeof(*own.shapes);
  int status = own.shapes ? is_wanted(model, list, &own) : -1;
  if (status > 0)
    status = specialize(model, onnx_path, &own);
  bp__arena_free(&arena);
  return status;
}
