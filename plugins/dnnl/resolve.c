/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces open extents with the extents of a run, from the inputs on, step by step, as ONNX's
 * shape inference does. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

#define REFUSE(...) bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE, "dnnl: " __VA_ARGS__)

static void set_dim(BpDnnlTensor *tensor, int32_t dimension, int64_t extent) {
  if (tensor->dims[dimension] == BP_DNNL_OPEN)
    tensor->dims[dimension] = extent;
}

/* Computes the output extents of a window, and its padding at the end. Neither sums nor products
 * overflow int64: extents are at most INT32_MAX, and so are the sizes of a checked window. */
static int32_t resolve_window(BpDnnlStep *step, const BpDnnlTensor *src, BpDnnlTensor *dst) {
  BpDnnlWindow *w = &step->window;
  for (int32_t i = 0; i + 2 < src->ndim; i++) {
    int64_t in = src->dims[i + 2];
    if (step->is_global)
      w->kernel[i] = in;
    int64_t span = (w->kernel[i] - 1) * w->dilations[i] + 1;
    int64_t room = in + w->pad_begin[i] + w->pad_end[i] - span;
    if (room < 0)
      return REFUSE("a window of %lld elements does not fit into %lld with padding %lld before and "
                    "%lld behind",
                    (long long)span, (long long)in, (long long)w->pad_begin[i],
                    (long long)w->pad_end[i]);
    int64_t out = room / w->strides[i] + 1;
    set_dim(dst, i + 2, out);
    w->pad_end[i] = (out - 1) * w->strides[i] + span - in - w->pad_begin[i];
  }
  return 0;
}

static void resolve_matmul(const BpDnnlStep *step, const BpDnnlTensor *a, const BpDnnlTensor *b,
                           BpDnnlTensor *dst) {
  for (int32_t i = 0; i + 2 < dst->ndim; i++)
    set_dim(dst, i, a->dims[i]);
  set_dim(dst, dst->ndim - 2, a->dims[a->ndim - (step->transposes_a ? 1 : 2)]);
  set_dim(dst, dst->ndim - 1, b->dims[b->ndim - (step->transposes_b ? 2 : 1)]);
}

static int32_t resolve_step(BpDnnlProgram *program, BpDnnlStep *step) {
  const BpDnnlTensor *src = &program->tensors[step->src];
  BpDnnlTensor *dst = &program->tensors[step->dst];
  switch (step->kind) {
  case BP_DNNL_CONV:
    set_dim(dst, 0, src->dims[0]);
    set_dim(dst, 1, program->tensors[step->weights].dims[0]);
    return resolve_window(step, src, dst);
  case BP_DNNL_MATMUL:
    resolve_matmul(step, src, &program->tensors[step->weights], dst);
    return 0;
  case BP_DNNL_POOL:
    set_dim(dst, 0, src->dims[0]);
    set_dim(dst, 1, src->dims[1]);
    return resolve_window(step, src, dst);
  default: /* the result has the shape of the source */
    for (int32_t i = 0; i < src->ndim; i++)
      set_dim(dst, i, src->dims[i]);
    return 0;
  }
}

static int32_t compare_outputs(const BpDnnlProgram *program, const BpDnnlShapes *shapes) {
  const BpDnnlHeader *header = &program->header;
  for (int32_t t = header->num_inputs; t < header->num_inputs + header->num_outputs; t++)
    for (int32_t i = 0; i < program->tensors[t].ndim; i++)
      if (program->tensors[t].dims[i] != shapes->dims[t][i])
        return REFUSE("dimension %d of output %d has the extent %lld; the inputs give %lld", i,
                      t - header->num_inputs, (long long)shapes->dims[t][i],
                      (long long)program->tensors[t].dims[i]);
  return 0;
}

int32_t bp_dnnl_resolve(const BpDnnlProgram *program, const BpDnnlShapes *shapes,
                        BpDnnlProgram *resolved) {
  const BpDnnlHeader *header = &program->header;
  size_t tensors = (size_t)header->num_tensors * sizeof(BpDnnlTensor);
  size_t steps = (size_t)header->num_steps * sizeof(BpDnnlStep);
  *resolved = *program;
  resolved->is_open = 0;
  resolved->tensors = bp_plugin_calloc(&bp_dnnl_host, tensors);
  resolved->steps = bp_plugin_calloc(&bp_dnnl_host, steps);
  if (!resolved->tensors || !resolved->steps)
    return -1;
  memcpy(resolved->tensors, program->tensors, tensors);
  memcpy(resolved->steps, program->steps, steps);
  for (int32_t t = 0; t < header->num_inputs; t++)
    for (int32_t i = 0; i < resolved->tensors[t].ndim; i++)
      set_dim(&resolved->tensors[t], i, shapes->dims[t][i]);
  for (int32_t s = 0; s < header->num_steps; s++)
    if (resolve_step(resolved, &resolved->steps[s]) != 0)
      return -1;
  return compare_outputs(resolved, shapes);
}

void bp_dnnl_resolved_free(BpDnnlProgram *resolved) {
  free(resolved->tensors);
  free(resolved->steps);
  resolved->tensors = NULL;
  resolved->steps = NULL;
}
