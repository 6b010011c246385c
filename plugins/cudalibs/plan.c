/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the plan of a part on a device: cuDNN's descriptors and algorithms, the constants in the
 * device's memory, and the places of the tensors between steps. */
#include "cudalibs.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of working memory that an algorithm may need. */
#define MOST_WORKSPACE ((size_t)512 << 20)
/* Dimensions of cuDNN's tensors: at least 4, and 5 with three spatial dimensions. */
#define LEAST_NDIM 4
#define MOST_NDIM  5

typedef BpCudalibsPlan Plan;
typedef BpCudalibsOp Op;

/* ---- Descriptors ------------------------------------------------------------------------- */

/* Describes a compact tensor. */
static int32_t describe(cudnnTensorDescriptor_t *desc, int type, int ndim, const int *dims) {
  int strides[MOST_NDIM];
  strides[ndim - 1] = 1;
  for (int i = ndim - 2; i >= 0; i--)
    strides[i] = strides[i + 1] * dims[i + 1];
  return BP_CUDALIBS_DNN(cudnnCreateTensorDescriptor, desc) ||
                 BP_CUDALIBS_DNN(cudnnSetTensorNdDescriptor, *desc, type, ndim, dims, strides)
             ? -1
             : 0;
}

/* Gives the extents of a tensor with spatial dimensions; one spatial dimension becomes two. */
static int image_dims(const BpCudalibsTensor *tensor, int *dims) {
  for (int i = 0; i < MOST_NDIM; i++)
    dims[i] = i < tensor->ndim ? (int)tensor->dims[i] : 1;
  return tensor->ndim < LEAST_NDIM ? LEAST_NDIM : tensor->ndim;
}

static int32_t describe_image(cudnnTensorDescriptor_t *desc, int type,
                              const BpCudalibsTensor *tensor) {
  int dims[MOST_NDIM], ndim = image_dims(tensor, dims);
  return describe(desc, type, ndim, dims);
}

/* The list of a window for `rank` dimensions; `otherwise` for the dimension that was added. */
static void widen(const int32_t *list, int given, int rank, int otherwise, int *wide) {
  for (int i = 0; i < rank; i++)
    wide[i] = i < given ? list[i] : otherwise;
}

static int is_float64(const BpCudalibsTensor *tensor) {
  return bp_cudalibs_types[tensor->type].dtype.bits == 64;
}

/* float32 is computed in float32 unless the user permits TF32. */
static int math_of(const Plan *plan, const BpCudalibsTensor *tensor) {
  if (is_float64(tensor))
    return CUDNN_DEFAULT_MATH;
  return bp_cudalibs_types[tensor->type].dtype.bits == 32 && !plan->allows_tf32
             ? CUDNN_FMA_MATH
             : CUDNN_TENSOR_OP_MATH;
}

/* Chooses the first algorithm of cuDNN's list that its checks accept and that needs no more than
 * the permitted memory. */
static int32_t choose_algorithm(Plan *plan, Op *op, cudnnHandle_t handle) {
  cudnnConvolutionFwdAlgoPerf_t answers[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  int count = 0;
  if (BP_CUDALIBS_DNN(cudnnGetConvolutionForwardAlgorithm_v7, handle, op->src, op->filter, op->conv,
                      op->dst, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, answers))
    return -1;
  for (int i = 0; i < count; i++) {
    size_t size = 0;
    if (answers[i].status != CUDNN_STATUS_SUCCESS ||
        bp_cl.cudnnGetConvolutionForwardWorkspaceSize(handle, op->src, op->filter, op->conv,
                                                      op->dst, answers[i].algo, &size) ||
        size > MOST_WORKSPACE)
      continue;
    op->algorithm = answers[i].algo;
    op->workspace = size;
    if (size > plan->workspace_size)
      plan->workspace_size = size;
    return 0;
  }
  return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_NOT_IMPLEMENTED,
                         "cuDNN has no algorithm for this convolution on cuda:%d within %zu bytes "
                         "of working memory; compile the model without cudalibs",
                         plan->device->index, MOST_WORKSPACE);
}

/* Without the propagation of NaN, which a convolution with activation in one call lacks. */
static int32_t plan_activation(Op *op) {
  return BP_CUDALIBS_DNN(cudnnCreateActivationDescriptor, &op->activation) ||
                 BP_CUDALIBS_DNN(cudnnSetActivationDescriptor, op->activation,
                                 CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0.0)
             ? -1
             : 0;
}

static int32_t plan_conv(Plan *plan, Op *op, const BpCudalibsStep *step, cudnnHandle_t handle) {
  const BpCudalibsTensor *tensors = plan->program->tensors, *src = &tensors[step->src];
  const BpCudalibsWindow *w = &step->window;
  int type = bp_cudalibs_types[src->type].cudnn, dims[MOST_NDIM], given = src->ndim - 2;
  int pads[MOST_NDIM], strides[MOST_NDIM], dilations[MOST_NDIM];
  int ndim = image_dims(&tensors[step->weights], dims), rank = ndim - 2;
  int row[MOST_NDIM] = {1, dims[0], 1, 1, 1};
  widen(w->pads, given, rank, 0, pads);
  widen(w->strides, given, rank, 1, strides);
  widen(w->dilations, given, rank, 1, dilations);
  if (describe_image(&op->src, type, src) || describe_image(&op->dst, type, &tensors[step->dst]) ||
      (step->bias >= 0 && describe(&op->bias, type, ndim, row)) ||
      BP_CUDALIBS_DNN(cudnnCreateFilterDescriptor, &op->filter) ||
      BP_CUDALIBS_DNN(cudnnSetFilterNdDescriptor, op->filter, type, CUDNN_TENSOR_NCHW, ndim,
                      dims) ||
      BP_CUDALIBS_DNN(cudnnCreateConvolutionDescriptor, &op->conv) ||
      BP_CUDALIBS_DNN(cudnnSetConvolutionNdDescriptor, op->conv, rank, pads, strides, dilations,
                      CUDNN_CROSS_CORRELATION,
                      is_float64(src) ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT) ||
      BP_CUDALIBS_DNN(cudnnSetConvolutionGroupCount, op->conv, w->groups) ||
      BP_CUDALIBS_DNN(cudnnSetConvolutionMathType, op->conv, math_of(plan, src)) ||
      (step->relu && plan_activation(op)))
    return -1;
  op->splits = !step->relu || step->bias < 0;
  return choose_algorithm(plan, op, handle);
}

static int32_t plan_pool(Plan *plan, Op *op, const BpCudalibsStep *step) {
  const BpCudalibsTensor *src = &plan->program->tensors[step->src];
  const BpCudalibsWindow *w = &step->window;
  int type = bp_cudalibs_types[src->type].cudnn, given = src->ndim - 2;
  int rank = given < LEAST_NDIM - 2 ? LEAST_NDIM - 2 : given;
  int kernel[MOST_NDIM], pads[MOST_NDIM], strides[MOST_NDIM];
  widen(w->kernel, given, rank, 1, kernel);
  widen(w->pads, given, rank, 0, pads);
  widen(w->strides, given, rank, 1, strides);
  return describe_image(&op->src, type, src) ||
                 describe_image(&op->dst, type, &plan->program->tensors[step->dst]) ||
                 BP_CUDALIBS_DNN(cudnnCreatePoolingDescriptor, &op->pool) ||
                 BP_CUDALIBS_DNN(cudnnSetPoolingNdDescriptor, op->pool, w->pooling,
                                 CUDNN_PROPAGATE_NAN, rank, kernel, pads, strides)
             ? -1
             : 0;
}

static int32_t plan_step(Plan *plan, int32_t index, cudnnHandle_t handle) {
  const BpCudalibsStep *step = &plan->program->steps[index];
  const BpCudalibsTensor *src = &plan->program->tensors[step->src];
  Op *op = &plan->ops[index];
  int type = bp_cudalibs_types[src->type].cudnn;
  const int all[LEAST_NDIM] = {1, 1, 1, (int)bp_cudalibs_count(src)};
  switch (step->kind) {
  case BP_CUDALIBS_PRODUCT:
    return 0;
  case BP_CUDALIBS_CONV:
    return plan_conv(plan, op, step, handle);
  case BP_CUDALIBS_POOL:
    return plan_pool(plan, op, step);
  case BP_CUDALIBS_SOFTMAX: {
    const int dims[LEAST_NDIM] = {step->softmax.outer, step->softmax.extent, step->softmax.inner,
                                  1};
    return describe(&op->src, type, LEAST_NDIM, dims);
  }
  case BP_CUDALIBS_RELU:
    return describe(&op->src, type, LEAST_NDIM, all) || plan_activation(op) ? -1 : 0;
  default:
    return describe(&op->src, type, LEAST_NDIM, all);
  }
}

static int32_t plan_steps(Plan *plan) {
  BpCudalibsEngine *engine = bp_cudalibs_engine_take(plan->device, plan->program->needs, 0, NULL);
  int32_t status = engine ? 0 : -1;
  for (int32_t s = 0; s < plan->program->header.num_steps && !status; s++) {
    status = plan_step(plan, s, engine->cudnn);
    if (status)
      bp_plugin_add_context(&bp_cudalibs_host, "node '%s'", plan->program->steps[s].node);
  }
  if (engine && bp_cudalibs_engine_return(plan->device, engine, NULL) != 0)
    return -1;
  return status;
}

/* ---- Constants --------------------------------------------------------------------------- */

/* Writes `count` ones of a type. */
static void fill_ones(char *to, int32_t type, int64_t count) {
  static const float f32 = 1;
  static const double f64 = 1;
  static const uint16_t f16 = 0x3c00, bf16 = 0x3f80;
  const void *const ones[BP_CUDALIBS_NUM_TYPES] = {&f32, &f16, &bf16, &f64};
  size_t size = (size_t)bp_cudalibs_types[type].size;
  for (int64_t i = 0; i < count; i++)
    memcpy(to + (size_t)i * size, ones[type], size);
}

/* Computes how many ones of each type the addends of products need. */
static void count_ones(const BpCudalibsProgram *program, int64_t *counts) {
  for (int32_t s = 0; s < program->header.num_steps; s++) {
    const BpCudalibsStep *step = &program->steps[s];
    const BpCudalibsProduct *p = &step->product;
    int64_t count = 0;
    if (step->kind == BP_CUDALIBS_PRODUCT && p->addend == BP_CUDALIBS_ROW)
      count = (int64_t)p->m * p->batch;
    if (step->kind == BP_CUDALIBS_PRODUCT && p->addend == BP_CUDALIBS_COLUMN)
      count = p->n;
    int64_t *most = &counts[program->tensors[step->dst].type];
    *most = count > *most ? count : *most;
  }
}

static int32_t upload_ones(Plan *plan, int32_t type, int64_t count) {
  size_t size = (size_t)count * (size_t)bp_cudalibs_types[type].size;
  char *ones = count ? bp_plugin_calloc(&bp_cudalibs_host, size) : NULL;
  if (!ones)
    return count ? -1 : 0;
  fill_ones(ones, type, count);
  int32_t status =
      bp_cudalibs_upload(plan->device, plan->weights + (CUdeviceptr)plan->ones[type], ones, size);
  free(ones);
  return status;
}

/* Uploads the constants, and after them the rows of ones. */
static int32_t upload_constants(Plan *plan) {
  int64_t counts[BP_CUDALIBS_NUM_TYPES] = {0},
          size = bp_cudalibs_round_up(plan->program->data_size);
  count_ones(plan->program, counts);
  for (int32_t type = 0; type < BP_CUDALIBS_NUM_TYPES; type++) {
    plan->ones[type] = size;
    size += bp_cudalibs_round_up(counts[type] * bp_cudalibs_types[type].size);
  }
  if (size == 0)
    return 0;
  if (bp_cudalibs_alloc(plan->device, (size_t)size, &plan->weights) != 0)
    return bp_plugin_add_context(&bp_cudalibs_host, "cudalibs: %lld bytes of constants of a part",
                                 (long long)size);
  if (plan->program->data_size > 0 &&
      bp_cudalibs_upload(plan->device, plan->weights, plan->program->data,
                         (size_t)plan->program->data_size) != 0)
    return -1;
  for (int32_t type = 0; type < BP_CUDALIBS_NUM_TYPES; type++)
    if (upload_ones(plan, type, counts[type]) != 0)
      return -1;
  return 0;
}

/* ---- Tensors between steps --------------------------------------------------------------- */

#define NONE (-1)

/* A tensor between steps: it is computed by step `first` and last read by step `last`. */
typedef struct Life {
  int32_t first, last;
  int32_t next; /* next tensor in use, by offset */
} Life;

static int is_inner(const BpCudalibsProgram *program, int32_t tensor) {
  return tensor >= program->header.num_inputs + program->header.num_outputs &&
         !bp_cudalibs_is_constant(program, tensor);
}

/* Gives a tensor the lowest place that is free at its first step. `live` is the list by offset of
 * tensors in use: the function removes those whose last step is past, and adds this tensor. */
static void place(Plan *plan, Life *lives, int32_t *live, int32_t tensor) {
  int64_t size = bp_cudalibs_bytes(&plan->program->tensors[tensor]), offset = 0;
  int32_t *link = live;
  while (*link != NONE) {
    int32_t other = *link;
    int64_t begin = plan->offsets[other];
    if (lives[other].last < lives[tensor].first) {
      *link = lives[other].next;
      continue;
    }
    if (begin >= offset + size)
      break;
    offset = bp_cudalibs_round_up(begin + bp_cudalibs_bytes(&plan->program->tensors[other]));
    link = &lives[other].next;
  }
  lives[tensor].next = *link;
  *link = tensor;
  plan->offsets[tensor] = offset;
  if ((size_t)bp_cudalibs_round_up(offset + size) > plan->inner_size)
    plan->inner_size = (size_t)bp_cudalibs_round_up(offset + size);
}

static int32_t place_tensors(Plan *plan) {
  const BpCudalibsProgram *program = plan->program;
  int32_t count = program->header.num_tensors, live = NONE;
  Life *lives = bp_plugin_calloc(&bp_cudalibs_host, ((size_t)count + 1) * sizeof(Life));
  if (!lives)
    return -1;
  for (int32_t s = 0; s < program->header.num_steps; s++) {
    const BpCudalibsStep *step = &program->steps[s];
    const int32_t reads[] = {step->src, step->weights, step->bias, step->sum};
    lives[step->dst].first = lives[step->dst].last = s;
    for (int i = 0; i < 4; i++)
      if (reads[i] >= 0)
        lives[reads[i]].last = s;
  }
  for (int32_t t = 0; t < count; t++)
    if (bp_cudalibs_is_constant(program, t))
      plan->offsets[t] = program->tensors[t].offset;
  for (int32_t s = 0; s < program->header.num_steps; s++)
    if (is_inner(program, program->steps[s].dst))
      place(plan, lives, &live, program->steps[s].dst);
  free(lives);
  return 0;
}

/* ---- Plans ------------------------------------------------------------------------------- */

static void free_op(Op *op) {
  if (op->src)
    bp_cl.cudnnDestroyTensorDescriptor(op->src);
  if (op->dst)
    bp_cl.cudnnDestroyTensorDescriptor(op->dst);
  if (op->bias)
    bp_cl.cudnnDestroyTensorDescriptor(op->bias);
  if (op->filter)
    bp_cl.cudnnDestroyFilterDescriptor(op->filter);
  if (op->conv)
    bp_cl.cudnnDestroyConvolutionDescriptor(op->conv);
  if (op->pool)
    bp_cl.cudnnDestroyPoolingDescriptor(op->pool);
  if (op->activation)
    bp_cl.cudnnDestroyActivationDescriptor(op->activation);
}

void bp_cudalibs_plan_free(Plan *plan) {
  if (!plan)
    return;
  for (int32_t s = 0; plan->ops && s < plan->program->header.num_steps; s++)
    free_op(&plan->ops[s]);
  bp_cudalibs_free(plan->device, plan->weights);
  free(plan->ops);
  free(plan->offsets);
  free(plan);
}

Plan *bp_cudalibs_plan_create(const BpCudalibsProgram *program, BpCudalibsDevice *device) {
  Plan *plan = bp_plugin_calloc(&bp_cudalibs_host, sizeof(*plan));
  if (!plan)
    return NULL;
  plan->device = device;
  plan->program = program;
  plan->allows_tf32 = bp_option_is_on(&bp_cudalibs_host, "BACKPLANE_CUDALIBS_TF32", 0);
  plan->ops = bp_plugin_calloc(&bp_cudalibs_host, (size_t)program->header.num_steps * sizeof(Op));
  plan->offsets = bp_plugin_calloc(&bp_cudalibs_host,
                                   ((size_t)program->header.num_tensors + 1) * sizeof(int64_t));
  if (plan->ops && plan->offsets && plan_steps(plan) == 0 && place_tensors(plan) == 0 &&
      upload_constants(plan) == 0)
    return plan;
  bp_cudalibs_plan_free(plan);
  return NULL;
}
