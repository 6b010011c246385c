/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the bytes that a module is made from: they are untrusted, and a wrong size would make a
 * library read or write outside of a tensor. No library and no device is needed. */
#include "cudalibs.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 65536

#define REFUSE(...)                                                                                \
  bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_FORMAT,                                              \
                  "these bytes are no valid module of kind cudalibs: " __VA_ARGS__)

typedef BpCudalibsProgram Program;
typedef BpCudalibsStep Step;
typedef BpCudalibsTensor Tensor;

int64_t bp_cudalibs_count(const Tensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; i++)
    count *= tensor->dims[i];
  return count;
}

int64_t bp_cudalibs_bytes(const Tensor *tensor) {
  return bp_cudalibs_count(tensor) * bp_cudalibs_types[tensor->type].size;
}

int32_t bp_cudalibs_is_constant(const Program *program, int32_t tensor) {
  return tensor >= program->header.num_inputs + program->header.num_outputs &&
         program->tensors[tensor].place == BP_CUDALIBS_CONSTANT;
}

static int is_tensor(const Program *program, int32_t tensor) {
  return tensor >= 0 && tensor < program->header.num_tensors;
}

static int same_dims(const Program *program, int32_t a, int32_t b) {
  const Tensor *x = &program->tensors[a], *y = &program->tensors[b];
  return x->ndim == y->ndim && !memcmp(x->dims, y->dims, (size_t)x->ndim * sizeof(int64_t));
}

static int has_count(const Program *program, int32_t tensor, int64_t count) {
  return bp_cudalibs_count(&program->tensors[tensor]) == count;
}

static int is_from(int32_t value, int32_t least, int32_t most) {
  return value >= least && value <= most;
}

static int is_bool(int32_t value) {
  return is_from(value, 0, 1);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static int32_t check_tensor(const Program *program, int32_t index) {
  const Tensor *tensor = &program->tensors[index];
  int64_t count = 1;
  if (!is_from(tensor->ndim, 0, BP_CUDALIBS_MAX_NDIM) ||
      !is_from(tensor->type, 0, BP_CUDALIBS_NUM_TYPES - 1) || !is_bool(tensor->place) ||
      tensor->reserved)
    return REFUSE("tensor %d has %d dimensions, type %d, place %d and %d reserved", index,
                  tensor->ndim, tensor->type, tensor->place, tensor->reserved);
  for (int32_t i = 0; i < tensor->ndim; i++) {
    if (tensor->dims[i] < 1 || tensor->dims[i] > INT32_MAX / count)
      return REFUSE("dimension %d of tensor %d has the extent %lld; expected 1 or more, and at "
                    "most %d elements in all",
                    i, index, (long long)tensor->dims[i], INT32_MAX);
    count *= tensor->dims[i];
  }
  if (bp_cudalibs_is_constant(program, index) &&
      (tensor->offset < 0 || tensor->offset % BP_CUDALIBS_ALIGNMENT ||
       tensor->offset > program->data_size ||
       bp_cudalibs_bytes(tensor) > program->data_size - tensor->offset))
    return REFUSE("constant %d has %lld elements at byte %lld of %lld bytes of data; expected a "
                  "multiple of %d and all elements within the data",
                  index, (long long)count, (long long)tensor->offset, (long long)program->data_size,
                  BP_CUDALIBS_ALIGNMENT);
  return 0;
}

/* ---- Steps ------------------------------------------------------------------------------- */

static int32_t check_product(const Program *program, const Step *step) {
  const BpCudalibsProduct *p = &step->product;
  int64_t m = p->m, n = p->n, k = p->k, batch = p->batch;
  if (step->weights < 0)
    return REFUSE("node '%s': a product has no second operand", step->node);
  if (m < 1 || n < 1 || k < 1 || batch < 1 || m > INT32_MAX / n || m * n > INT32_MAX / batch ||
      m > INT32_MAX / k || m * k > INT32_MAX / batch || n > INT32_MAX / k ||
      n * k > INT32_MAX / batch)
    return REFUSE("node '%s': a product has the extents %d, %d and %d, and %d matrices", step->node,
                  p->m, p->n, p->k, p->batch);
  if (!is_bool(p->transposes_a) || !is_bool(p->transposes_b) || !is_bool(p->repeats_a) ||
      !is_bool(p->repeats_b) || !is_from(p->addend, 0, BP_CUDALIBS_NUM_ADDENDS - 1) ||
      (p->addend != BP_CUDALIBS_NO_ADDEND) != (step->bias >= 0) || step->relu)
    return REFUSE("node '%s': a product has an option that does not exist", step->node);
  int64_t addend = p->addend == BP_CUDALIBS_FULL  ? batch * m * n
                   : p->addend == BP_CUDALIBS_ROW ? n
                                                  : batch * m;
  if (!has_count(program, step->src, m * k * (p->repeats_a ? 1 : batch)) ||
      !has_count(program, step->weights, n * k * (p->repeats_b ? 1 : batch)) ||
      !has_count(program, step->dst, m * n * batch) ||
      (step->bias >= 0 && !has_count(program, step->bias, addend)))
    return REFUSE("node '%s': the tensors of a product do not have its extents", step->node);
  return 0;
}

/* Checks a window, and that it gives the result's extents. The bounds make sums and products of the
 * sizes fit into int64. */
static int32_t check_window(const Program *program, const Step *step) {
  const BpCudalibsWindow *w = &step->window;
  const Tensor *src = &program->tensors[step->src], *dst = &program->tensors[step->dst];
  if (!is_from(src->ndim, 3, 2 + BP_CUDALIBS_MAX_SPATIAL) || dst->ndim != src->ndim ||
      dst->dims[0] != src->dims[0])
    return REFUSE("node '%s': a window has a source of %d and a result of %d dimensions; expected "
                  "equal numbers from 3 to %d, and equal first extents",
                  step->node, src->ndim, dst->ndim, 2 + BP_CUDALIBS_MAX_SPATIAL);
  for (int32_t i = 0; i + 2 < src->ndim; i++) {
    int64_t span = ((int64_t)w->kernel[i] - 1) * w->dilations[i] + 1;
    int64_t room = src->dims[i + 2] + 2 * (int64_t)w->pads[i] - span;
    if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilations[i] < 1 || w->pads[i] < 0 ||
        span > INT32_MAX || room < 0 || room / w->strides[i] + 1 != dst->dims[i + 2])
      return REFUSE(
          "node '%s': spatial dimension %d of a window has kernel %d, stride %d, dilation "
          "%d and padding %d, which do not give %lld elements from %lld",
          step->node, i, w->kernel[i], w->strides[i], w->dilations[i], w->pads[i],
          (long long)dst->dims[i + 2], (long long)src->dims[i + 2]);
  }
  return 0;
}

static int32_t check_conv(const Program *program, const Step *step) {
  const Tensor *src = &program->tensors[step->src], *dst = &program->tensors[step->dst];
  int32_t groups = step->window.groups;
  if (step->weights < 0)
    return REFUSE("node '%s': a convolution has no weights", step->node);
  if (check_window(program, step) != 0)
    return -1;
  const Tensor *weights = &program->tensors[step->weights];
  if (weights->ndim != src->ndim || groups < 1 || weights->dims[0] % groups ||
      dst->dims[1] != weights->dims[0] || src->dims[1] % groups ||
      src->dims[1] / groups != weights->dims[1])
    return REFUSE("node '%s': the channels of a convolution do not fit its weights and %d groups",
                  step->node, groups);
  for (int32_t i = 2; i < src->ndim; i++)
    if (step->window.kernel[i - 2] != weights->dims[i])
      return REFUSE("node '%s': spatial dimension %d of a convolution has the kernel %d, but "
                    "weights of the extent %lld",
                    step->node, i - 2, step->window.kernel[i - 2], (long long)weights->dims[i]);
  if (step->bias >= 0 && !has_count(program, step->bias, weights->dims[0]))
    return REFUSE("node '%s': the bias of a convolution does not have %lld elements", step->node,
                  (long long)weights->dims[0]);
  return 0;
}

static int32_t check_pool(const Program *program, const Step *step) {
  const BpCudalibsWindow *w = &step->window;
  int32_t rank = program->tensors[step->src].ndim - 2;
  if (check_window(program, step) != 0)
    return -1;
  for (int32_t i = 0; i < rank; i++)
    if (w->dilations[i] != 1 || w->pads[i] >= w->kernel[i])
      return REFUSE("node '%s': a pooling has the dilation %d or the padding %d", step->node,
                    w->dilations[i], w->pads[i]);
  if (program->tensors[step->src].dims[1] != program->tensors[step->dst].dims[1] ||
      !is_from(w->pooling, CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING))
    return REFUSE("node '%s': a pooling changes the channels, or has the kind %d", step->node,
                  w->pooling);
  return 0;
}

static int32_t check_softmax(const Program *program, const Step *step) {
  const BpCudalibsSoftmax *s = &step->softmax;
  int64_t count = bp_cudalibs_count(&program->tensors[step->src]);
  if (s->outer < 1 || s->extent < 1 || s->inner < 1 || s->outer > count || s->extent > count ||
      (int64_t)s->outer * s->extent > count || (int64_t)s->outer * s->extent * s->inner != count ||
      !has_count(program, step->dst, count) ||
      !is_from(s->algorithm, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG))
    return REFUSE("node '%s': a softmax of %dx%dx%d elements and the kind %d does not fit its "
                  "tensors",
                  step->node, s->outer, s->extent, s->inner, s->algorithm);
  return 0;
}

static int32_t check_elementwise(const Program *program, const Step *step) {
  if ((step->sum >= 0) != (step->kind == BP_CUDALIBS_ADD) ||
      !same_dims(program, step->src, step->dst))
    return REFUSE("node '%s': the operands of a sum or a relu do not fit", step->node);
  return 0;
}

static int32_t check_kind(const Program *program, const Step *step) {
  switch (step->kind) {
  case BP_CUDALIBS_PRODUCT:
    return check_product(program, step);
  case BP_CUDALIBS_CONV:
    return check_conv(program, step);
  case BP_CUDALIBS_POOL:
    return check_pool(program, step);
  case BP_CUDALIBS_SOFTMAX:
    return check_softmax(program, step);
  default:
    return check_elementwise(program, step);
  }
}

/* Checks the options that only some kinds have. */
static int32_t check_options(const Program *program, const Step *step) {
  int has_weights = step->kind == BP_CUDALIBS_PRODUCT || step->kind == BP_CUDALIBS_CONV;
  int has_sum = step->kind == BP_CUDALIBS_CONV || step->kind == BP_CUDALIBS_ADD;
  int32_t type = program->tensors[step->dst].type;
  if (!is_bool(step->relu) || (step->relu && step->kind != BP_CUDALIBS_CONV) ||
      (!has_weights && (step->weights >= 0 || step->bias >= 0)) || (!has_sum && step->sum >= 0))
    return REFUSE("node '%s': a step of kind %d has an operand or a relu that the kind lacks",
                  step->node, step->kind);
  if (step->kind != BP_CUDALIBS_PRODUCT && bp_cudalibs_types[type].cudnn < 0)
    return REFUSE("node '%s': a step of kind %d has the type %d", step->node, step->kind, type);
  return 0;
}

/* Checks that a step reads only inputs, constants and computed tensors, all of the type of its
 * result, and computes a new tensor. */
static int32_t check_step(const Program *program, const Step *step, char *is_known) {
  const int32_t reads[] = {step->src, step->weights, step->bias, step->sum};
  if (!memchr(step->node, 0, sizeof(step->node)))
    return REFUSE("the name of a node has no end");
  if (!is_from(step->kind, 0, BP_CUDALIBS_NUM_KINDS - 1))
    return REFUSE("node '%s': a step has the kind %d; expected 0 to %d", step->node, step->kind,
                  BP_CUDALIBS_NUM_KINDS - 1);
  if (!is_tensor(program, step->dst) || is_known[step->dst])
    return REFUSE("node '%s': a step computes tensor %d, which does not exist or has a value "
                  "already",
                  step->node, step->dst);
  for (int i = 0; i < 4; i++)
    if ((i == 0 || reads[i] != -1) &&
        (!is_tensor(program, reads[i]) || !is_known[reads[i]] ||
         program->tensors[reads[i]].type != program->tensors[step->dst].type))
      return REFUSE("node '%s': a step reads tensor %d, which is not computed before it or is of "
                    "another type",
                    step->node, reads[i]);
  if (step->sum >= 0 && !same_dims(program, step->sum, step->dst))
    return REFUSE("node '%s': a step adds tensor %d to tensor %d, whose shape differs", step->node,
                  step->sum, step->dst);
  if (check_options(program, step) != 0 || check_kind(program, step) != 0)
    return -1;
  is_known[step->dst] = 1;
  return 0;
}

static int32_t check_steps(Program *program) {
  const BpCudalibsHeader *header = &program->header;
  char *is_known = bp_plugin_calloc(&bp_cudalibs_host, (size_t)header->num_tensors + 1);
  int32_t status = is_known ? 0 : -1;
  for (int32_t t = 0; t < header->num_tensors && !status; t++)
    is_known[t] = t < header->num_inputs || bp_cudalibs_is_constant(program, t);
  for (int32_t s = 0; s < header->num_steps && !status; s++) {
    const Step *step = &program->steps[s];
    status = check_step(program, step, is_known);
    program->needs[step->kind == BP_CUDALIBS_PRODUCT ? BP_CUDALIBS_CUBLAS : BP_CUDALIBS_CUDNN] |=
        !status;
  }
  for (int32_t i = 0; i < header->num_outputs && !status; i++)
    if (!is_known[header->num_inputs + i])
      status = REFUSE("no step computes output %d", i);
  free(is_known);
  return status;
}

/* ---- Bytes ------------------------------------------------------------------------------- */

int32_t bp_cudalibs_read_program(const char *bytes, size_t size, Program *program) {
  BpCudalibsHeader *header = &program->header;
  memset(program, 0, sizeof(*program));
  if (size < sizeof(*header))
    return REFUSE("there are %zu of them, and the header has %zu", size, sizeof(*header));
  memcpy(header, bytes, sizeof(*header));
  size_t left = size - sizeof(*header);
  if (memcmp(header->magic, BP_CUDALIBS_MAGIC, sizeof(header->magic)))
    return REFUSE("they do not begin with %s", BP_CUDALIBS_MAGIC);
  if (header->num_inputs < 0 || header->num_outputs < 1 ||
      header->num_inputs > BP_CUDALIBS_MOST_TENSORS ||
      header->num_outputs > BP_CUDALIBS_MOST_TENSORS - header->num_inputs ||
      header->num_tensors < header->num_inputs + header->num_outputs || header->num_steps < 1 ||
      header->num_steps > MOST_STEPS || (size_t)header->num_tensors > left / sizeof(Tensor) ||
      (size_t)header->num_steps >
          (left - (size_t)header->num_tensors * sizeof(Tensor)) / sizeof(Step))
    return REFUSE("the header has %d inputs, %d outputs, %d tensors and %d steps; expected at most "
                  "%d inputs and outputs, 1 to %d steps, and all of them within the %zu bytes",
                  header->num_inputs, header->num_outputs, header->num_tensors, header->num_steps,
                  BP_CUDALIBS_MOST_TENSORS, MOST_STEPS, size);
  program->tensors = (const Tensor *)(const void *)(bytes + sizeof(*header));
  program->steps = (const Step *)(const void *)(program->tensors + header->num_tensors);
  program->data = (const char *)(program->steps + header->num_steps);
  program->data_size = (int64_t)(size - (size_t)(program->data - bytes));
  for (int32_t t = 0; t < header->num_tensors; t++)
    if (check_tensor(program, t) != 0)
      return -1;
  return check_steps(program);
}
