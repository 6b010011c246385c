/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the models of tests for every target, runs them on the existing devices, and compares
 * the results with plain loops. Test code: any fault ends the test program. */
#ifndef BACKPLANE_TESTS_GRAPH_COMPILE_CHECK_H
#define BACKPLANE_TESTS_GRAPH_COMPILE_CHECK_H

#include "tests/graph/onnx_builder.h"

gboolean has_device(int32_t device_type);
BpModule *compile_for(const char *path, const BpTarget *target);
/* Runs a model with one input, which is put on a device before, and one output; returns the output
 * (transfer full). */
float *run_model_from(BpModel *model, BpDevice device, const float *x, int64_t *count);
float *run_model(BpModel *model, const float *x, int64_t *count);
float *run_module(BpModule *module, int32_t device_type, float *x, int64_t *count);
/* Compiles the builder's model for each target (with BP_TEST_GPU, for cuda), runs it and compares
 * the results; frees the builder. */
void check_model(OnnxBuilder *builder, float *x, const float *expected, int64_t count);

/* A square convolution with equal parameters along both axes. */
typedef struct Conv {
  int64_t in, out, height, width, kernel, stride, pad, dilation, groups;
} Conv;
/* Returns the extent of the output for an extent of the input. */
int64_t conv_extent(const Conv *c, int64_t extent);
/* Computes the convolution by plain loops (transfer full). */
float *conv_reference(const Conv *c, const float *x, const float *w, int64_t *count);
/* Makes a model in which the convolution of the input "x" with the weights "w" is "c". */
OnnxBuilder *conv_model(const Conv *c);

#endif
