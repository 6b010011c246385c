/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the models of tests for every target, runs them on the devices that are there, and
 * compares with what plain loops gave. Test code: anything wrong ends the test program. */
#ifndef BACKPLANE_TESTS_GRAPH_COMPILE_CHECK_H
#define BACKPLANE_TESTS_GRAPH_COMPILE_CHECK_H

#include "tests/graph/onnx_builder.h"

gboolean has_device(int32_t device_type);
BpModule *compile_for(const char *path, const BpTarget *target);
/* Runs a model with one input, which is put on a device before, and one output and gives it back;
 * the output (transfer full). */
float *run_model_from(BpModel *model, BpDevice device, const float *x, int64_t *count);
float *run_model(BpModel *model, const float *x, int64_t *count);
float *run_module(BpModule *module, int32_t device_type, float *x, int64_t *count);
/* Compiles what the builder has for each target (with BP_TEST_GPU, for cuda), runs it and compares;
 * frees the builder. */
void check_model(OnnxBuilder *builder, float *x, const float *expected, int64_t count);

/* A convolution, square and alike along both axes. */
typedef struct Conv {
  int64_t in, out, height, width, kernel, stride, pad, dilation, groups;
} Conv;
/* Its output's extent, from that of its input. */
int64_t conv_extent(const Conv *c, int64_t extent);
/* By plain loops (transfer full). */
float *conv_reference(const Conv *c, const float *x, const float *w, int64_t *count);
/* A model in which it gives "c" of the input "x", with the weights "w". */
OnnxBuilder *conv_model(const Conv *c);

#endif
