/* SPDX-License-Identifier: Apache-2.0 */
/* Compares compiled models with plain loops; see compile_check.h. */
#include "tests/graph/compile_check.h"

#include <math.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

/* Targets. A device has one row, or several rows with other attributes, for its other schedules: a
 * very small cache makes blocks of work. The C compiler does not optimise, which would take most of
 * its time. */
static const char *const target_texts[] = {
    "c -options=-O0",
    "c -vector_bits=0 -options=-O0",
    "c -vector_bits=256 -l2_bytes=65536 -options=-O0",
    "opencl -vector_bits=256 -winograd=true -max_shared_memory_per_block=2097152",
    "opencl -thread_warp_size=8 -num_cores=1 -winograd=true",
    "vulkan",
    ("vulkan -thread_warp_size=8 -max_shared_memory_per_block=0 -texel_buffers -serial_warps "
     "-winograd=true -max_buffer_bytes=200000"),
    "cuda",
    "cuda -num_cores=1",
};

/* ---- Running ----------------------------------------------------------------------------- */

gboolean has_device(int32_t device_type) {
  int32_t count = 0;
  const char *why;
  if (bp_device_count(device_type, &count, &why))
    g_error("%s", bp_error_message());
  return count > 0;
}

BpModule *compile_for(const char *path, const BpTarget *target) {
  const BpTarget *targets[1] = {target};
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  if (!module)
    g_error("%s", bp_error_message());
  return module;
}

/* Runs a model with one input, which is put on a device before, and one output; returns the output
 * (transfer full). */
float *run_model_from(BpModel *model, BpDevice device, const float *x, int64_t *count) {
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  const BpModelTensorInfo *info = context ? bp_model_input_info(model, 0) : NULL;
  BpTensor *output, *input;
  float *copy;
  if (!info || !(input = bp_tensor_create(info->shape, info->ndim, info->dtype, device, NULL)) ||
      bp_tensor_copy_from_host(&input->view, x, (uint64_t)bp_view_num_bytes(&input->view)))
    g_error("%s", bp_error_message());
  if (bp_model_set_input(context, info->name, &input->view) || bp_model_run(context) ||
      !(output = bp_model_get_output(context, 0)))
    g_error("%s", bp_error_message());
  *count = bp_view_num_elements(&output->view);
  copy = g_new(float, (gsize)*count);
  if (bp_tensor_copy_to_host(&output->view, copy, (uint64_t)*count * sizeof(float)))
    g_error("%s", bp_error_message());
  bp_object_release(input);
  bp_model_context_free(context);
  bp_model_release(model);
  return copy;
}

float *run_model(BpModel *model, const float *x, int64_t *count) {
  return run_model_from(model, (BpDevice){BP_DEVICE_CPU, 0}, x, count);
}

float *run_module(BpModule *module, int32_t device_type, float *x, int64_t *count) {
  return run_model(bp_model_create(module, &(BpDevice){device_type, 0}, 1), x, count);
}

/* Compiles the builder's model for each target (with BP_TEST_GPU, for cuda), runs it and compares
 * the results; frees the builder. */
void check_model(OnnxBuilder *builder, float *x, const float *expected, int64_t count) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  float largest = 0;
  for (int64_t i = 0; i < count; i++)
    largest = fmaxf(largest, fabsf(expected[i]));
  for (size_t t = 0; t < G_N_ELEMENTS(target_texts); t++) {
    if (g_getenv("BP_TEST_GPU") && !g_str_has_prefix(target_texts[t], "cuda"))
      continue;
    BpTarget *target = bp_target_parse(target_texts[t]);
    int64_t got_count;
    if (!target)
      g_error("%s", bp_error_message());
    int32_t device_type = bp_target_device_type(target);
    BpModule *module = compile_for(path, target);
    bp_object_release(target);
    if (!has_device(device_type)) {
      g_test_message("compiled for %s, not run: there is no such device", target_texts[t]);
      bp_object_release(module);
      continue;
    }
    float *got = run_module(module, device_type, x, &got_count);
    g_assert_cmpint(got_count, ==, count);
    for (int64_t i = 0; i < count; i++)
      if (!(fabsf(got[i] - expected[i]) <= 1e-4f * largest + 1e-6f))
        g_error("target %s, element %d: %g instead of %g", target_texts[t], (int)i, (double)got[i],
                (double)expected[i]);
    g_free(got);
    bp_object_release(module);
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* ---- References -------------------------------------------------------------------------- */

int64_t conv_extent(const Conv *c, int64_t extent) {
  return (extent + 2 * c->pad - c->dilation * (c->kernel - 1) - 1) / c->stride + 1;
}

static float conv_at(const Conv *c, const float *x, const float *w, int64_t o, int64_t oy,
                     int64_t ox) {
  int64_t per_group = c->in / c->groups, first = o / (c->out / c->groups) * per_group;
  double sum = 0;
  for (int64_t i = 0; i < per_group; i++)
    for (int64_t ky = 0; ky < c->kernel; ky++)
      for (int64_t kx = 0; kx < c->kernel; kx++) {
        int64_t y = oy * c->stride + ky * c->dilation - c->pad;
        int64_t z = ox * c->stride + kx * c->dilation - c->pad;
        if (y >= 0 && y < c->height && z >= 0 && z < c->width)
          sum += (double)x[((first + i) * c->height + y) * c->width + z] *
                 (double)w[((o * per_group + i) * c->kernel + ky) * c->kernel + kx];
      }
  return (float)sum;
}

float *conv_reference(const Conv *c, const float *x, const float *w, int64_t *count) {
  int64_t height = conv_extent(c, c->height), width = conv_extent(c, c->width);
  float *y = g_new(float, (gsize)(*count = c->out * height * width));
  for (int64_t o = 0; o < c->out; o++)
    for (int64_t i = 0; i < height; i++)
      for (int64_t k = 0; k < width; k++)
        y[(o * height + i) * width + k] = conv_at(c, x, w, o, i, k);
  return y;
}

OnnxBuilder *conv_model(const Conv *c) {
  OnnxBuilder *builder = onnx_builder_new();
  char *x = g_strdup_printf("1x%dx%dx%d", (int)c->in, (int)c->height, (int)c->width);
  char *w = g_strdup_printf("%dx%dx%dx%d", (int)c->out, (int)(c->in / c->groups), (int)c->kernel,
                            (int)c->kernel);
  char *attrs = g_strdup_printf("pads=%d,%d,%d,%d strides=%d,%d dilations=%d,%d group=%d",
                                (int)c->pad, (int)c->pad, (int)c->pad, (int)c->pad, (int)c->stride,
                                (int)c->stride, (int)c->dilation, (int)c->dilation, (int)c->groups);
  onnx_input(builder, "x", ONNX_FLOAT, x);
  onnx_floats(builder, "w", w);
  onnx_node(builder, "Conv", "x,w", "c", attrs);
  g_free(x);
  g_free(w);
  g_free(attrs);
  return builder;
}
