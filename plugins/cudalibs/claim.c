/* SPDX-License-Identifier: Apache-2.0 */
/* Claims the nodes that cuBLAS and cuDNN compute. An Add or a Relu is claimed where it follows a
 * convolution or a product; it becomes part of the same step. */
#include "cudalibs.h"

#include <stdlib.h>
#include <string.h>

const BpCudalibsType bp_cudalibs_types[BP_CUDALIBS_NUM_TYPES] = {
    {{BP_DTYPE_FLOAT, 32, 1}, 4, CUDA_R_32F, CUDNN_DATA_FLOAT, CUBLAS_COMPUTE_32F},
    {{BP_DTYPE_FLOAT, 16, 1}, 2, CUDA_R_16F, CUDNN_DATA_HALF, CUBLAS_COMPUTE_32F},
    {{BP_DTYPE_BFLOAT, 16, 1}, 2, CUDA_R_16BF, -1, CUBLAS_COMPUTE_32F},
    {{BP_DTYPE_FLOAT, 64, 1}, 8, CUDA_R_64F, CUDNN_DATA_DOUBLE, CUBLAS_COMPUTE_64F},
};

int32_t bp_cudalibs_type_of(BpDataType dtype) {
  for (int32_t i = 0; i < BP_CUDALIBS_NUM_TYPES; i++)
    if (bp_cudalibs_types[i].dtype.code == dtype.code &&
        bp_cudalibs_types[i].dtype.bits == dtype.bits && dtype.lanes == 1)
      return i;
  return -1;
}

/* A node whose values are read. */
typedef struct Node {
  const BpCudalibsView *view;
  const BpOnnxNode *onnx;
} Node;

static const BpOnnxValue *value_of(const BpCudalibsView *view, int32_t value) {
  return view->table->get_value(view->graph, value);
}

static const BpOnnxValue *input_of(const Node *node, int32_t index) {
  return index < node->onnx->num_inputs && node->onnx->inputs[index] >= 0
             ? value_of(node->view, node->onnx->inputs[index])
             : NULL;
}

static const BpOnnxValue *output_of(const Node *node) {
  return value_of(node->view, node->onnx->outputs[0]);
}

static int64_t count_of(const BpOnnxValue *value, int32_t begin, int32_t end) {
  int64_t count = 1;
  for (int32_t i = begin; i < end; i++)
    count *= value->shape[i];
  return count;
}

static int same_shape(const BpOnnxValue *a, const BpOnnxValue *b) {
  return a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0]));
}

/* ---- Values ------------------------------------------------------------------------------ */

/* Says why no operator takes a value; NULL if the value is suitable or absent. */
static const char *check_value(const BpOnnxValue *value, BpDataType dtype) {
  int64_t count = 1;
  if (!value)
    return NULL;
  if (bp_cudalibs_type_of(value->dtype) < 0)
    return "an input or output is not of float32, float16, bfloat16 or float64";
  if (value->dtype.code != dtype.code || value->dtype.bits != dtype.bits)
    return "its inputs and outputs have different types";
  if (value->ndim > BP_CUDALIBS_MAX_NDIM)
    return "an input or output has more than 8 dimensions";
  for (int32_t i = 0; i < value->ndim; i++) {
    if (value->shape[i] < 1)
      return "an extent of an input or output is 0 or open";
    if (value->shape[i] > INT32_MAX / count)
      return "an input or output has more than 2147483647 elements";
    count *= value->shape[i];
  }
  return NULL;
}

static const char *check_values(const Node *node) {
  BpDataType dtype = output_of(node)->dtype;
  const char *why = NULL;
  for (int32_t i = 0; i < node->onnx->num_inputs && !why; i++)
    why = check_value(input_of(node, i), dtype);
  for (int32_t i = 0; i < node->onnx->num_outputs && !why; i++)
    why = node->onnx->outputs[i] < 0
              ? NULL
              : check_value(value_of(node->view, node->onnx->outputs[i]), dtype);
  return why;
}

/* ---- Windows ----------------------------------------------------------------------------- */

#define WRONG_RANK                                                                                 \
  "the plugin takes 1 to 3 spatial dimensions, of equal number in input, weights and output"
#define WRONG_LIST                                                                                 \
  "kernel_shape, strides, dilations or pads do not have one entry for each spatial dimension, or " \
  "an entry is too small or too large"

/* Reads a list of `count` numbers from `least` to INT32_MAX into `list`; returns 0 if the attribute
 * has another length or a number out of range. */
static int read_list(const BpOnnxNode *node, const char *name, int32_t count, int32_t least,
                     int32_t otherwise, int32_t *list) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_INTS);
  for (int32_t i = 0; i < count; i++) {
    int64_t number = attr && i < attr->count ? attr->ints[i] : otherwise;
    if (number < least || number > INT32_MAX)
      return 0;
    list[i] = (int32_t)number;
  }
  return !attr || attr->count == count;
}

/* Computes the padding before the data from auto_pad. */
static int32_t automatic_pad(const char *automatic, int64_t total) {
  if (!strcmp(automatic, "SAME_UPPER") && total > 0)
    return (int32_t)(total / 2);
  return !strcmp(automatic, "SAME_LOWER") && total > 0 ? (int32_t)(total - total / 2) : 0;
}

/* Reads strides, dilations and padding of a window whose kernel is known. cuDNN pads both ends
 * alike: the node is taken if its output is the one that this padding gives, since elements of the
 * output depend only on the padding before the data. */
static const char *read_window(const Node *node, BpCudalibsWindow *w) {
  const BpOnnxValue *in = input_of(node, 0), *out = output_of(node);
  const char *automatic = bp_onnx_str(node->onnx, "auto_pad", "NOTSET");
  int32_t rank = in->ndim - 2, pads[2 * BP_CUDALIBS_MAX_SPATIAL];
  if (rank < 1 || rank > BP_CUDALIBS_MAX_SPATIAL || out->ndim != in->ndim)
    return WRONG_RANK;
  if (!read_list(node->onnx, "strides", rank, 1, 1, w->strides) ||
      !read_list(node->onnx, "dilations", rank, 1, 1, w->dilations) ||
      !read_list(node->onnx, "pads", 2 * rank, 0, 0, pads))
    return WRONG_LIST;
  for (int32_t i = 0; i < rank; i++) {
    int64_t span = (int64_t)(w->kernel[i] - 1) * w->dilations[i] + 1;
    int64_t extent = in->shape[i + 2];
    int64_t total = (out->shape[i + 2] - 1) * w->strides[i] + span - extent;
    if (span > INT32_MAX || total > INT32_MAX)
      return WRONG_LIST;
    w->pads[i] = strcmp(automatic, "NOTSET") ? automatic_pad(automatic, total) : pads[i];
    int64_t room = extent + 2 * (int64_t)w->pads[i] - span;
    if (room < 0 || room / w->strides[i] + 1 != out->shape[i + 2])
      return "cuDNN pads both ends of a dimension alike, which gives an output of another size "
             "than this node's padding, auto_pad or ceil_mode";
  }
  return NULL;
}

static const char *read_conv(const Node *node, BpCudalibsStep *step) {
  const BpOnnxValue *in = input_of(node, 0), *w = input_of(node, 1), *bias = input_of(node, 2);
  int64_t groups = bp_onnx_int(node->onnx, "group", 1);
  step->kind = BP_CUDALIBS_CONV;
  if (w->ndim != in->ndim || in->ndim < 3 || in->ndim > 2 + BP_CUDALIBS_MAX_SPATIAL)
    return WRONG_RANK;
  if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
    return "its bias is not a row with one element for each output channel";
  for (int32_t i = 2; i < w->ndim; i++)
    step->window.kernel[i - 2] = (int32_t)w->shape[i];
  if (groups < 1 || w->shape[0] % groups || in->shape[1] % groups ||
      in->shape[1] / groups != w->shape[1])
    return "its attribute group does not fit the channels of its input and weights";
  step->window.groups = (int32_t)groups;
  return read_window(node, &step->window);
}

/* Whether a window of an average ends behind the padding. ONNX does not count the elements there;
 * cuDNN, asked to count padding, divides by the size of the whole window. */
static int ends_behind_padding(const Node *node, const BpCudalibsWindow *w, int32_t i) {
  const BpOnnxValue *in = input_of(node, 0), *out = output_of(node);
  const BpOnnxAttr *pads = bp_onnx_find_attr(node->onnx, "pads", BP_ONNX_ATTR_INTS);
  int64_t after = pads ? pads->ints[in->ndim - 2 + i] : 0;
  int64_t end = (out->shape[i + 2] - 1) * w->strides[i] + w->kernel[i] - w->pads[i];
  return !strcmp(bp_onnx_str(node->onnx, "auto_pad", "NOTSET"), "NOTSET") &&
         end > in->shape[i + 2] + after;
}

static const char *read_pool(const Node *node, BpCudalibsStep *step) {
  const BpOnnxValue *in = input_of(node, 0);
  BpCudalibsWindow *w = &step->window;
  int is_max = strstr(node->onnx->op, "Max") != NULL;
  int32_t rank = in->ndim - 2;
  step->kind = BP_CUDALIBS_POOL;
  w->pooling = is_max ? CUDNN_POOLING_MAX
               : bp_onnx_int(node->onnx, "count_include_pad", 0)
                   ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                   : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  if (rank < 1 || rank > BP_CUDALIBS_MAX_SPATIAL)
    return WRONG_RANK;
  if (node->onnx->num_outputs > 1 && node->onnx->outputs[1] >= 0)
    return "its second output is read, which cuDNN does not compute";
  for (int32_t i = 0; i < rank; i++)
    w->kernel[i] = (int32_t)in->shape[i + 2];
  if (strncmp(node->onnx->op, "Global", strlen("Global")) &&
      !read_list(node->onnx, "kernel_shape", rank, 1, 0, w->kernel))
    return WRONG_LIST;
  const char *why = read_window(node, w);
  for (int32_t i = 0; i < rank && !why; i++) {
    if (w->dilations[i] != 1)
      why = "it has dilations other than 1, which cuDNN's pooling lacks";
    if (w->pads[i] >= w->kernel[i])
      why = "its padding is as large as its window, so a window may lie only in padding";
    if (!why && w->pooling == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING &&
        ends_behind_padding(node, w, i))
      why = "a window ends behind the padding, where cuDNN counts elements that ONNX does not";
  }
  return why;
}

/* ---- Operators without windows ----------------------------------------------------------- */

static const char *read_softmax(const Node *node, BpCudalibsStep *step) {
  const BpOnnxValue *in = input_of(node, 0);
  int is_old = node->onnx->opset < 13; /* the input is a matrix, divided at the axis */
  int64_t axis = bp_onnx_int(node->onnx, "axis", is_old ? 1 : -1);
  axis = axis < 0 ? axis + in->ndim : axis;
  step->kind = BP_CUDALIBS_SOFTMAX;
  if (axis < 0 || axis >= in->ndim)
    return "its axis is not one of the dimensions of its input";
  int32_t end = is_old ? in->ndim : (int32_t)axis + 1;
  step->softmax = (BpCudalibsSoftmax){
      .outer = (int32_t)count_of(in, 0, (int32_t)axis),
      .extent = (int32_t)count_of(in, (int32_t)axis, end),
      .inner = (int32_t)count_of(in, end, in->ndim),
      .algorithm = strcmp(node->onnx->op, "Softmax") ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE};
  return NULL;
}

/* Whether a tensor has `count` elements, all of them along the last dimension. */
static int is_row(const BpOnnxValue *value, int64_t count) {
  return value->ndim > 0 && value->shape[value->ndim - 1] == count &&
         count_of(value, 0, value->ndim - 1) == 1;
}

static const char *read_matmul(const Node *node, BpCudalibsStep *step) {
  const BpOnnxValue *a = input_of(node, 0), *b = input_of(node, 1);
  BpCudalibsProduct *p = &step->product;
  int32_t in_a = a->ndim > 2 ? a->ndim - 2 : 0, in_b = b->ndim > 2 ? b->ndim - 2 : 0;
  int64_t batch_a = count_of(a, 0, in_a), batch_b = count_of(b, 0, in_b);
  step->kind = BP_CUDALIBS_PRODUCT;
  if (a->ndim < 1 || b->ndim < 1)
    return "an operand is a scalar";
  p->m = a->ndim > 1 ? (int32_t)a->shape[a->ndim - 2] : 1;
  p->k = (int32_t)a->shape[a->ndim - 1];
  p->n = b->ndim > 1 ? (int32_t)b->shape[b->ndim - 1] : 1;
  p->alpha = p->beta = 1;
  if ((b->ndim > 1 ? b->shape[b->ndim - 2] : b->shape[0]) != p->k)
    return "its operands do not fit each other";
  if (batch_b == 1) { /* the matrices of a are one above the other */
    p->m = (int32_t)(p->m * batch_a);
    p->batch = 1;
    return NULL;
  }
  if (batch_a != 1 && (in_a != in_b || memcmp(a->shape, b->shape, (size_t)in_a * sizeof(int64_t))))
    return "the batches of its operands differ, and neither has one matrix alone; the plugin "
           "broadcasts only a single matrix";
  p->batch = (int32_t)batch_b;
  p->repeats_a = batch_a == 1;
  return NULL;
}

static const char *read_gemm(const Node *node, BpCudalibsStep *step) {
  const BpOnnxValue *a = input_of(node, 0), *b = input_of(node, 1), *c = input_of(node, 2);
  BpCudalibsProduct *p = &step->product;
  step->kind = BP_CUDALIBS_PRODUCT;
  if (a->ndim != 2 || b->ndim != 2)
    return "an operand is not a matrix";
  p->transposes_a = bp_onnx_int(node->onnx, "transA", 0) != 0;
  p->transposes_b = bp_onnx_int(node->onnx, "transB", 0) != 0;
  p->alpha = bp_onnx_float(node->onnx, "alpha", 1);
  p->beta = bp_onnx_float(node->onnx, "beta", 1);
  p->m = (int32_t)a->shape[p->transposes_a];
  p->k = (int32_t)a->shape[!p->transposes_a];
  p->n = (int32_t)b->shape[!p->transposes_b];
  p->batch = 1;
  if (b->shape[p->transposes_b] != p->k)
    return "its operands do not fit each other";
  if (!c)
    return NULL;
  if (is_row(c, p->n))
    p->addend = BP_CUDALIBS_ROW;
  else if (c->ndim == 2 && c->shape[0] == p->m && c->shape[1] == p->n)
    p->addend = BP_CUDALIBS_FULL;
  else if (c->ndim == 2 && c->shape[0] == p->m && c->shape[1] == 1)
    p->addend = BP_CUDALIBS_COLUMN;
  else
    return "its addend is not a matrix, a row or a column of the result";
  return NULL;
}

static const char *read_add(const Node *node, BpCudalibsStep *step) {
  step->kind = BP_CUDALIBS_ADD;
  return input_of(node, 0) && input_of(node, 1) ? NULL : "a required input is missing";
}

static const char *read_relu(const Node *node, BpCudalibsStep *step) {
  (void)node;
  step->kind = BP_CUDALIBS_RELU;
  return NULL;
}

static const struct {
  const char *op;
  const char *(*read)(const Node *node, BpCudalibsStep *step);
  int32_t least_inputs;
} operators[] = {
    {"MatMul", read_matmul, 2},
    {"Gemm", read_gemm, 2},
    {"Conv", read_conv, 2},
    {"MaxPool", read_pool, 1},
    {"AveragePool", read_pool, 1},
    {"GlobalMaxPool", read_pool, 1},
    {"GlobalAveragePool", read_pool, 1},
    {"Softmax", read_softmax, 1},
    {"LogSoftmax", read_softmax, 1},
    {"Relu", read_relu, 1},
    {"Add", read_add, 2},
};

static void copy_name(const char *name, BpCudalibsStep *step) {
  size_t size = strnlen(name, sizeof(step->node) - 1);
  while (size > 0 && (name[size] & 0xc0) == 0x80) /* a character stays whole */
    size--;
  memcpy(step->node, name, size);
}

const char *bp_cudalibs_read_node(const BpCudalibsView *view, int32_t index, BpCudalibsStep *step) {
  Node node = {view, view->table->get_node(view->graph, index)};
  const BpOnnxNode *onnx = node.onnx;
  *step = (BpCudalibsStep){.src = -1, .weights = -1, .bias = -1, .sum = -1, .dst = -1};
  copy_name(onnx->name, step);
  for (size_t i = 0; !*onnx->domain && i < sizeof(operators) / sizeof(operators[0]); i++) {
    if (strcmp(onnx->op, operators[i].op))
      continue;
    for (int32_t k = 0; k < operators[i].least_inputs; k++)
      if (!input_of(&node, k))
        return "a required input is missing";
    if (onnx->num_outputs < 1 || onnx->outputs[0] < 0)
      return "its first output is missing or is not read";
    const char *why = check_values(&node);
    if (!why)
      why = operators[i].read(&node, step);
    if (!why && step->kind != BP_CUDALIBS_PRODUCT &&
        bp_cudalibs_types[bp_cudalibs_type_of(output_of(&node)->dtype)].cudnn < 0)
      why = "it is of bfloat16, which the plugin takes only in products";
    return why;
  }
  return "the plugin does not have this operator";
}

/* ---- Nodes that a step includes ---------------------------------------------------------- */

/* The node that reads the value, if it is the only reader and the value is not an output of the
 * graph; else -1. */
static int32_t only_reader(const BpCudalibsView *view, int32_t value) {
  int32_t count, reader = -1;
  const int32_t *outputs = view->table->get_outputs(view->graph, &count);
  for (int32_t i = 0; i < count; i++)
    if (outputs[i] == value)
      return -1;
  for (int32_t n = value_of(view, value)->producer + 1; n < view->table->num_nodes(view->graph);
       n++) {
    const BpOnnxNode *node = view->table->get_node(view->graph, n);
    for (int32_t k = 0; k < node->num_inputs; k++) {
      if (node->inputs[k] != value)
        continue;
      if (reader >= 0)
        return -1;
      reader = n;
    }
  }
  return reader;
}

/* Whether a product can take the operand of an Add as its addend: a row of the result. */
static int is_addend(const BpCudalibsView *view, const BpCudalibsStep *step, int32_t result,
                     int32_t sum, int32_t other) {
  const BpOnnxValue *to = value_of(view, result), *row = value_of(view, other);
  return step->kind == BP_CUDALIBS_PRODUCT && step->product.addend == BP_CUDALIBS_NO_ADDEND &&
         same_shape(to, value_of(view, sum)) && to->ndim > 0 &&
         to->shape[to->ndim - 1] == step->product.n && row->ndim <= to->ndim &&
         is_row(row, step->product.n);
}

int32_t bp_cudalibs_follow(const BpCudalibsView *view, int32_t value, const char *is_done,
                           BpCudalibsStep *step, int32_t *other, int32_t *is_bias) {
  int32_t next = step->relu ? -1 : only_reader(view, value);
  BpCudalibsStep follower;
  if (next < 0 || (is_done && is_done[next]) || bp_cudalibs_read_node(view, next, &follower))
    return -1;
  const BpOnnxNode *reader = view->table->get_node(view->graph, next);
  *other = -1;
  if (follower.kind == BP_CUDALIBS_RELU && step->kind == BP_CUDALIBS_CONV) {
    step->relu = 1;
    return next;
  }
  if (follower.kind != BP_CUDALIBS_ADD)
    return -1;
  *other = reader->inputs[reader->inputs[0] == value];
  *is_bias = is_addend(view, step, value, reader->outputs[0], *other);
  if (*is_bias) {
    step->product.addend = BP_CUDALIBS_ROW;
    step->product.beta = 1;
    return next;
  }
  if (step->kind != BP_CUDALIBS_CONV || step->sum >= 0 ||
      !same_shape(value_of(view, value), value_of(view, *other)))
    return -1;
  step->sum = 0; /* some tensor: the caller numbers it */
  return next;
}

/* ---- Claiming ---------------------------------------------------------------------------- */

static double bytes_of(const BpOnnxValue *value) {
  return (double)count_of(value, 0, value->ndim) * value->dtype.bits / 8;
}

/* About how many nanoseconds a step takes on a GPU of 2020: a launch takes 5 us, and each
 * nanosecond has 5000 products or 500 bytes. */
static double cost_of(const BpCudalibsView *view, const BpOnnxNode *node,
                      const BpCudalibsStep *step) {
  const BpOnnxValue *out = value_of(view, node->outputs[0]);
  double products = 0, bytes = bytes_of(out);
  for (int32_t i = 0; i < node->num_inputs; i++)
    bytes += node->inputs[i] < 0 ? 0 : bytes_of(value_of(view, node->inputs[i]));
  if (step->kind == BP_CUDALIBS_PRODUCT) {
    products = (double)count_of(out, 0, out->ndim) * step->product.k;
  } else if (step->kind == BP_CUDALIBS_CONV) {
    const BpOnnxValue *weights = value_of(view, node->inputs[1]);
    products = (double)count_of(out, 0, out->ndim) * (double)count_of(weights, 1, weights->ndim);
  }
  return 5000 + products / 5000 + bytes / 500;
}

/* Whether the target is of an architecture older than sm_80, which lacks bfloat16. */
static int lacks_bfloat16(const BpTarget *target) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  BpByteArray text;
  if (bp_cudalibs_host.target->get_attr(target, "arch", &value) != 0) {
    bp_cudalibs_host.object->release(bp_cudalibs_host.error->take());
    return 0;
  }
  if (value.type_index == BP_TYPE_NONE || bp_cudalibs_host.object->view_str(&value, &text) != 0)
    return 0;
  return text.size == strlen("sm_75") && !memcmp(text.data, "sm_", 3) && text.data[3] < '8';
}

static const char *refuse(const BpCudalibsView *view, const BpTarget *target, int32_t index,
                          const char *follows, BpCudalibsStep *step) {
  const BpOnnxNode *node = view->table->get_node(view->graph, index);
  const char *why = bp_cudalibs_read_node(view, index, step);
  if (why)
    return why;
  if ((step->kind == BP_CUDALIBS_RELU || step->kind == BP_CUDALIBS_ADD) && !follows[index])
    return "the plugin takes it only directly after a convolution or a product that nothing else "
           "reads; after a product it takes only the Add of a row";
  if (value_of(view, node->outputs[0])->dtype.code == BP_DTYPE_BFLOAT && lacks_bfloat16(target))
    return "it is of bfloat16, which the target's architecture lacks";
  return follows[index] ? NULL
                        : bp_cudalibs_load(step->kind == BP_CUDALIBS_PRODUCT ? BP_CUDALIBS_CUBLAS
                                                                             : BP_CUDALIBS_CUDNN);
}

static int32_t claim_nodes(const BpCudalibsView *view, const BpTarget *target, BpClaims *claims,
                           char *follows) {
  for (int32_t i = 0; i < view->table->num_nodes(view->graph); i++) {
    const BpOnnxNode *node = view->table->get_node(view->graph, i);
    int32_t other, is_bias;
    BpCudalibsStep step;
    const char *why = refuse(view, target, i, follows, &step);
    if (why ? view->table->decline(claims, i, why)
            : view->table->take(claims, i, cost_of(view, node, &step)))
      return -1;
    if (why || step.kind == BP_CUDALIBS_RELU || step.kind == BP_CUDALIBS_ADD)
      continue;
    for (int32_t last = i; last >= 0;) {
      int32_t value = view->table->get_node(view->graph, last)->outputs[0];
      last = bp_cudalibs_follow(view, value, NULL, &step, &other, &is_bias);
      if (last >= 0)
        follows[last] = 1;
    }
  }
  return 0;
}

int32_t bp_cudalibs_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                          BpClaims *claims) {
  BpCudalibsView view = {bp_cudalibs_host.host->get_table(bp_cudalibs_host.host, BP_TABLE_GRAPH,
                                                          BP_TABLE_GRAPH_VERSION),
                         graph};
  (void)context;
  if (!view.table)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_PLUGIN, "this host has no table of graphs");
  char *follows = bp_plugin_calloc(&bp_cudalibs_host, (size_t)view.table->num_nodes(graph) + 1);
  int32_t status = follows ? claim_nodes(&view, target, claims, follows) : -1;
  free(follows);
  return status;
}
