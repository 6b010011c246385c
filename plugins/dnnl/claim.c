/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes oneDNN takes: float32, of shapes that are known, with constant weights. Relu and Add
 * are taken where they follow a convolution or a product, as a part of it. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

static int is_float32(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT && dtype.bits == 32 && dtype.lanes == 1;
}

static const BpOnnxValue *input_of(const BpGraphTable *table, const BpOnnxGraph *graph,
                                   const BpOnnxNode *node, int32_t index) {
  return index < node->num_inputs && node->inputs[index] >= 0
             ? table->get_value(graph, node->inputs[index])
             : NULL;
}

static int same_shape(const BpOnnxValue *a, const BpOnnxValue *b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(int64_t)));
}

/* What no operator takes; NULL if the value is there and fine, or absent. */
static const char *check_value(const BpOnnxValue *value) {
  if (!value)
    return NULL;
  if (!is_float32(value->dtype))
    return "an input or output is not float32; the plugin takes only float32";
  if (value->ndim < 1 || value->ndim > BP_DNNL_MAX_NDIM)
    return "an input or output does not have 1 to 6 dimensions";
  for (int32_t i = 0; i < value->ndim; i++)
    if (value->shape[i] < 1 || value->shape[i] > INT32_MAX)
      return "an extent of an input or output is unknown, 0 or above 2147483647; give shapes with "
             "--shape";
  return NULL;
}

static const char *check_values(const BpGraphTable *table, const BpOnnxGraph *graph,
                                const BpOnnxNode *node) {
  const char *why = NULL;
  for (int32_t i = 0; i < node->num_inputs && !why; i++)
    why = check_value(input_of(table, graph, node, i));
  for (int32_t i = 0; i < node->num_outputs && !why; i++)
    if (node->outputs[i] >= 0)
      why = i > 0 ? "its second output is read; the plugin computes only the first"
                  : check_value(table->get_value(graph, node->outputs[i]));
  return why;
}

/* ---- Windows ----------------------------------------------------------------------------- */

static int read_list(const BpOnnxNode *node, const char *name, int32_t count, int64_t otherwise,
                     int64_t *list) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_INTS);
  for (int32_t i = 0; i < count; i++)
    list[i] = attr && i < attr->count ? attr->ints[i] : otherwise;
  return !attr || attr->count == count;
}

static int is_size(int64_t value) {
  return value >= 1 && value <= INT32_MAX;
}

/* The padding behind is computed from the output's extent, so it covers ceil_mode and auto_pad. */
static const char *read_window(const BpOnnxNode *node, const BpOnnxValue *in,
                               const BpOnnxValue *out, BpDnnlWindow *w) {
  int32_t rank = in->ndim - 2;
  int64_t pads[2 * BP_DNNL_MAX_SPATIAL];
  const char *automatic = bp_onnx_str(node, "auto_pad", "NOTSET");
  int is_lower = !strcmp(automatic, "SAME_LOWER"),
      is_same = is_lower || !strcmp(automatic, "SAME_UPPER");
  if (rank < 1 || rank > BP_DNNL_MAX_SPATIAL || out->ndim != in->ndim)
    return "the plugin takes 1 to 3 spatial dimensions, of equal number in input, weights and "
           "output";
  if (!read_list(node, "strides", rank, 1, w->strides) ||
      !read_list(node, "dilations", rank, 1, w->dilations) ||
      !read_list(node, "pads", 2 * rank, 0, pads))
    return "kernel_shape, strides, dilations or pads do not have one entry for each spatial "
           "dimension";
  for (int32_t i = 0; i < rank; i++)
    if (!is_size(w->kernel[i]) || !is_size(w->strides[i]) || !is_size(w->dilations[i]))
      return "an entry of kernel_shape, strides or dilations is not from 1 to 2147483647";
  for (int32_t i = 0; i < rank; i++) {
    int64_t span = (w->kernel[i] - 1) * w->dilations[i] + 1;
    int64_t total = (out->shape[i + 2] - 1) * w->strides[i] + span - in->shape[i + 2];
    int64_t begin = !strcmp(automatic, "NOTSET") ? pads[i] : 0;
    if (is_same && total > 0)
      begin = is_lower ? total - total / 2 : total / 2;
    if (begin < 0)
      return "its padding before the data is negative; the plugin takes 0 or more";
    w->pad_begin[i] = begin;
    w->pad_end[i] = total - begin;
    if (begin > INT32_MAX || w->pad_end[i] < -INT32_MAX || w->pad_end[i] > INT32_MAX ||
        span > INT32_MAX)
      return "its padding or the extent of its dilated window is above 2147483647";
  }
  return NULL;
}

static const char *read_conv(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0), *w = input_of(table, graph, node, 1);
  const BpOnnxValue *bias = input_of(table, graph, node, 2);
  if (!w->data || (bias && !bias->data))
    return "its weights or its bias are not constant";
  if (w->ndim != in->ndim || in->ndim > 2 + BP_DNNL_MAX_SPATIAL)
    return "the plugin takes 1 to 3 spatial dimensions, of equal number in input, weights and "
           "output";
  step->kind = BP_DNNL_CONV;
  step->groups = (int32_t)bp_onnx_int(node, "group", 1);
  for (int32_t i = 2; i < w->ndim; i++)
    step->window.kernel[i - 2] = w->shape[i];
  if (step->groups < 1 || w->shape[0] % step->groups || in->shape[1] != w->shape[1] * step->groups)
    return "its attribute group does not fit the channels of its input and weights";
  return read_window(node, in, table->get_value(graph, node->outputs[0]), &step->window);
}

static const char *read_pool(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0);
  int is_max = !strcmp(node->op, "MaxPool"), is_global = !strcmp(node->op, "GlobalAveragePool");
  int counts_pads = !is_max && bp_onnx_int(node, "count_include_pad", 0) != 0;
  int32_t rank = in->ndim - 2;
  const char *why;
  if (rank < 1 || rank > BP_DNNL_MAX_SPATIAL)
    return "the plugin takes 1 to 3 spatial dimensions, of equal number in input, weights and "
           "output";
  if (counts_pads && bp_onnx_int(node, "ceil_mode", 0))
    return "it has count_include_pad with ceil_mode, for which oneDNN's average differs from "
           "ONNX's";
  step->kind = BP_DNNL_POOL;
  step->algorithm = is_max        ? dnnl_pooling_max
                    : counts_pads ? dnnl_pooling_avg_include_padding
                                  : dnnl_pooling_avg_exclude_padding;
  for (int32_t i = 0; i < rank; i++)
    step->window.kernel[i] = in->shape[i + 2];
  if (!is_global && !read_list(node, "kernel_shape", rank, 0, step->window.kernel))
    return "kernel_shape, strides, dilations or pads do not have one entry for each spatial "
           "dimension";
  why = read_window(node, in, table->get_value(graph, node->outputs[0]), &step->window);
  for (int32_t i = 0; i < rank && !why; i++) {
    int64_t span = (step->window.kernel[i] - 1) * step->window.dilations[i] + 1;
    if (step->window.pad_begin[i] >= span || step->window.pad_end[i] >= span)
      why = "its padding is as large as its window, so a window may lie only in padding";
    if (!is_max && step->window.dilations[i] != 1)
      why = "it is an average with dilations other than 1, which oneDNN lacks";
  }
  return why;
}

/* ---- The others -------------------------------------------------------------------------- */

/* Whether a tensor is a row that is added to each row of a matrix of that many columns. */
static int is_row(const BpOnnxValue *value, int64_t columns) {
  for (int32_t i = 0; i + 1 < value->ndim; i++)
    if (value->shape[i] != 1)
      return 0;
  return value->data && value->shape[value->ndim - 1] == columns;
}

static const char *read_matmul(const BpGraphTable *table, const BpOnnxGraph *graph,
                               const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *a = input_of(table, graph, node, 0), *b = input_of(table, graph, node, 1);
  step->kind = BP_DNNL_MATMUL;
  if (a->ndim < 2 || b->ndim < 2)
    return "an operand is a vector; the plugin takes operands of 2 dimensions or more";
  if (b->ndim == 2)
    return NULL;
  if (a->ndim != b->ndim)
    return "its operands differ in their number of dimensions, and the second is not a matrix";
  for (int32_t i = 0; i + 2 < a->ndim; i++)
    if (a->shape[i] != b->shape[i])
      return "the shapes of its operands differ, and the plugin does not broadcast";
  return NULL;
}

static const char *read_gemm(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *bias = input_of(table, graph, node, 2);
  step->kind = BP_DNNL_MATMUL;
  step->transposes_a = bp_onnx_int(node, "transA", 0) != 0;
  step->transposes_b = bp_onnx_int(node, "transB", 0) != 0;
  if (bp_onnx_float(node, "alpha", 1) != 1 || (bias && bp_onnx_float(node, "beta", 1) != 1))
    return "its alpha or beta is not 1; the plugin takes only 1";
  return !bias || is_row(bias, table->get_value(graph, node->outputs[0])->shape[1])
             ? NULL
             : "its addend is not a constant row with one element for each column of the result";
}

static const char *read_softmax(const BpGraphTable *table, const BpOnnxGraph *graph,
                                const BpOnnxNode *node, BpDnnlStep *step) {
  int32_t ndim = input_of(table, graph, node, 0)->ndim;
  int64_t axis = bp_onnx_int(node, "axis", node->opset < 13 ? 1 : -1);
  axis = axis < 0 ? axis + ndim : axis;
  step->kind = BP_DNNL_SOFTMAX;
  step->axis = (int32_t)axis;
  if (axis < 0 || axis >= ndim)
    return "its axis is not one of the dimensions of its input";
  return node->opset >= 13 || axis == ndim - 1
             ? NULL
             : "before operator set 13 the plugin takes only the last axis";
}

static const char *read_add(const BpGraphTable *table, const BpOnnxGraph *graph,
                            const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *a = input_of(table, graph, node, 0), *b = input_of(table, graph, node, 1);
  step->kind = BP_DNNL_ADD;
  return same_shape(a, b) ? NULL
                          : "the shapes of its operands differ, and the plugin does not broadcast";
}

static const char *read_relu(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, BpDnnlStep *step) {
  (void)table;
  (void)graph;
  (void)node;
  step->kind = BP_DNNL_RELU;
  return NULL;
}

const char *bp_dnnl_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                              const BpOnnxNode *node, BpDnnlStep *step) {
  static const struct {
    const char *op;
    const char *(*read)(const BpGraphTable *, const BpOnnxGraph *, const BpOnnxNode *,
                        BpDnnlStep *);
    int32_t least_inputs;
  } operators[] = {
      {"Conv", read_conv, 2},        {"MaxPool", read_pool, 1},
      {"AveragePool", read_pool, 1}, {"GlobalAveragePool", read_pool, 1},
      {"MatMul", read_matmul, 2},    {"Gemm", read_gemm, 2},
      {"Softmax", read_softmax, 1},  {"Relu", read_relu, 1},
      {"Add", read_add, 2},
  };
  *step = (BpDnnlStep){.src = -1, .weights = -1, .bias = -1, .sum = -1, .dst = -1, .groups = 1};
  for (size_t i = 0; !*node->domain && i < sizeof(operators) / sizeof(operators[0]); i++) {
    if (strcmp(node->op, operators[i].op))
      continue;
    for (int32_t k = 0; k < operators[i].least_inputs; k++)
      if (!input_of(table, graph, node, k))
        return "a required input is missing";
    if (node->num_outputs < 1 || node->outputs[0] < 0)
      return "its first output is missing or is not read";
    const char *why = check_values(table, graph, node);
    return why ? why : operators[i].read(table, graph, node, step);
  }
  return "the plugin does not have this operator";
}

/* ---- Claiming ---------------------------------------------------------------------------- */

int32_t bp_dnnl_only_reader(const BpGraphTable *table, const BpOnnxGraph *graph, int32_t value) {
  int32_t count, reader = -1;
  const int32_t *outputs = table->get_outputs(graph, &count);
  for (int32_t i = 0; i < count; i++)
    if (outputs[i] == value)
      return -1;
  for (int32_t n = table->get_value(graph, value)->producer + 1; n < table->num_nodes(graph); n++) {
    const BpOnnxNode *node = table->get_node(graph, n);
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

/* Marks the nodes that can be a part of the step of a convolution or a product: an Add, a Relu, or
 * one after the other. */
static void mark_followers(const BpGraphTable *table, const BpOnnxGraph *graph, int32_t node,
                           char *follows) {
  int has_added = 0;
  for (;;) {
    BpDnnlStep step;
    node = bp_dnnl_only_reader(table, graph, table->get_node(graph, node)->outputs[0]);
    if (node < 0 || bp_dnnl_read_node(table, graph, table->get_node(graph, node), &step))
      return;
    if (step.kind == BP_DNNL_RELU || (step.kind == BP_DNNL_ADD && !has_added))
      follows[node] = 1;
    if (step.kind != BP_DNNL_ADD || has_added)
      return;
    has_added = 1;
  }
}

static int32_t claim_nodes(const BpGraphTable *table, const BpOnnxGraph *graph, BpClaims *claims,
                           char *follows, const char *problem) {
  for (int32_t i = 0; i < table->num_nodes(graph); i++) {
    BpDnnlStep step;
    const char *why = problem;
    if (!why)
      why = bp_dnnl_read_node(table, graph, table->get_node(graph, i), &step);
    if (!why && (step.kind == BP_DNNL_CONV || step.kind == BP_DNNL_MATMUL))
      mark_followers(table, graph, i, follows);
    if (!why && (step.kind == BP_DNNL_RELU || step.kind == BP_DNNL_ADD) && !follows[i])
      why = "the plugin takes it only directly after a convolution or a product that nothing else "
            "reads";
    if (why ? table->decline(claims, i, why) : table->take(claims, i, 0))
      return -1;
  }
  return 0;
}

int32_t bp_dnnl_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                      BpClaims *claims) {
  const BpGraphTable *table =
      bp_dnnl_host.host->get_table(bp_dnnl_host.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
  char *follows =
      table ? bp_plugin_calloc(&bp_dnnl_host, (size_t)table->num_nodes(graph) + 1) : NULL;
  (void)context;
  (void)target;
  int32_t status = follows ? claim_nodes(table, graph, claims, follows, bp_dnnl_load()) : -1;
  free(follows);
  return status;
}
