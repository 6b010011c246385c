/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a model that is ready to run with one call: a preference list chooses its devices, and an
 * ONNX file is compiled for the first of them. */
#include <backplane/graph/model.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/io/argument.h"

#define ONNX_ENDING ".onnx"

static int is_onnx(const char *path) {
  size_t length = strlen(path), tail = strlen(ONNX_ENDING);
  return length >= tail && !g_ascii_strcasecmp(path + length - tail, ONNX_ENDING);
}

/* Compiles for the targets of the options or, without targets, for the device that the preferences
 * choose. */
static BpModule *compile_for(const char *path, const char *preferences,
                             const BpCompileOptions *given, char **report) {
  BpCompileOptions options;
  if (bp__compile_options_copy(given, &options) < 0)
    return NULL;
  if (options.num_targets)
    return bp_model_compile(path, &options);
  BpDevice device;
  if (bp_device_select(preferences, &device, report) < 0)
    return NULL;
  BpTarget *target = bp_target_from_device(device);
  if (!target)
    return NULL;
  const BpTarget *targets[] = {target};
  options.targets = targets;
  options.num_targets = 1;
  BpModule *module = bp_model_compile(path, &options);
  bp_target_release(target);
  return module;
}

static BpModel *create_on(BpModule *module, const char *preferences, char **report) {
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t count;
  return bp_model_select_devices(module, preferences, devices, BP_MODEL_MAX_DEVICES, &count,
                                 report) < 0
             ? NULL
             : bp_model_create(module, devices, count);
}

BpModel *bp_model_load_for(const char *path, const char *preferences,
                           const BpCompileOptions *options, char **report) {
  char *passed_over = NULL;
  if (report)
    *report = NULL;
  if (!BP_NOT_NULL(path))
    return NULL;
  BpModule *module =
      is_onnx(path) ? compile_for(path, preferences, options, &passed_over) : bp_model_open(path);
  BpModel *model =
      module ? create_on(module, preferences, passed_over ? NULL : &passed_over) : NULL;
  if (module && !model)
    bp_error_add_context("%s", path);
  bp_module_release(module);
  if (model && report)
    *report = passed_over;
  else
    bp_str_free(passed_over);
  return model;
}
