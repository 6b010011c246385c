/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a model can be compiled for a target kind, and whether it runs, with the smallest
 * model. */
#include "tools/command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <backplane/object.h>

#define ELEMENTS 8

/* y = Relu(x) for eight floats, as an ONNX model. */
static const unsigned char model_bytes[] = {
    0x08, 0x08, 0x42, 0x02, 0x10, 0x0d, 0x3a, 0x33, 0x0a, 0x0c, 0x0a, 0x01, 0x78, 0x12, 0x01,
    0x79, 0x22, 0x04, 0x52, 0x65, 0x6c, 0x75, 0x12, 0x01, 0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78,
    0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x08, 0x62, 0x0f, 0x0a,
    0x01, 0x79, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x08};

/* Writes the model to a file and returns its path (transfer full); NULL with an error. */
static char *write_model(void) {
  char *path = NULL;
  int file = g_file_open_tmp("backplane-XXXXXX.onnx", &path, NULL);
  gboolean is_written =
      file >= 0 && write(file, model_bytes, sizeof model_bytes) == (ssize_t)sizeof model_bytes;
  int error = errno;
  if (file >= 0) {
    close(file);
    temporary_add(path);
  }
  if (is_written)
    return path;
  bp_error_raise(BP_ERROR_IO, "cannot write a model to try into %s: %s", g_get_tmp_dir(),
                 g_strerror(error));
  if (path)
    temporary_remove(path);
  g_free(path);
  return NULL;
}

static BpModule *compile_model(const BpTarget *target) {
  char *path = write_model();
  if (!path)
    return NULL;
  const BpCompileOptions options = {
      .struct_size = sizeof options, .targets = &target, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  temporary_remove(path);
  g_free(path);
  return module;
}

static int run_model(BpModelContext *context) {
  float values[ELEMENTS];
  int64_t shape[] = {ELEMENTS};
  for (int i = 0; i < ELEMENTS; i++)
    values[i] = (float)(i - ELEMENTS / 2);
  const BpTensorView view = {values, {BP_DEVICE_CPU, 0}, 1, {BP_DTYPE_FLOAT, 32, 1}, shape, NULL,
                             0};
  if (bp_model_set_input(context, "x", &view) < 0 || bp_model_run(context) < 0)
    return -1;
  const BpTensor *output = bp_model_get_output(context, 0);
  if (!output || bp_tensor_copy_to_host(&output->view, values, sizeof values) < 0)
    return -1;
  for (int i = 0; i < ELEMENTS; i++) {
    double wanted = MAX(i - ELEMENTS / 2, 0);
    if (values[i] != wanted)
      return bp_error_raise(BP_ERROR_DEVICE,
                            "a model runs and computes wrong values: Relu(%d) is %g; expected %g",
                            i - ELEMENTS / 2, (double)values[i], wanted);
  }
  return 0;
}

static int try_device(BpModule *module, BpDevice device) {
  BpModel *model = bp_model_create(module, &device, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  int status = context ? run_model(context) : -1;
  bp_model_context_free(context);
  bp_model_release(model);
  return status;
}

/* Returns the target of the best device of the kind's device type if that target is of the kind,
 * else the kind's own target (transfer full). *has_device: whether there is a device. */
static BpTarget *find_target(const char *kind, BpDevice *device, gboolean *has_device) {
  BpTarget *plain = bp_target_parse(kind);
  if (!plain)
    return NULL;
  g_free(target_device_kind(plain)); /* the kind's plugin is active afterwards */
  int32_t type = bp_target_device_type(plain);
  *has_device = bp_device_select_among(&type, 1, "", device, NULL) == 0;
  BpTarget *own = *has_device ? bp_target_from_device(*device) : NULL;
  bp_error_clear();
  if (!own || strcmp(bp_target_kind(own), kind) != 0) {
    bp_object_release(own);
    return plain;
  }
  bp_object_release(plain);
  return own;
}

int target_check(const char *kind, char **text) {
  BpDevice device;
  gboolean has_device;
  char name[DEVICE_TEXT_MAX];
  BpTarget *target = find_target(kind, &device, &has_device);
  BpModule *module = target ? compile_model(target) : NULL;
  int status = module ? 0 : -1;
  if (module && has_device)
    status = try_device(module, device);
  bp_object_release(module);
  bp_object_release(target);
  if (status < 0)
    return bp_error_add_context("target %s", kind);
  bp_device_format(device, name, sizeof name);
  *text = has_device
              ? g_strdup_printf("%s: a model is compiled and runs on %s", kind, name)
              : g_strdup_printf("%s: a model is compiled; there is no device to run it on", kind);
  return 0;
}
