/* SPDX-License-Identifier: Apache-2.0 */
/* Claims the nodes that oneDNN computes: float32 operators with constant weights. A Relu or an Add
 * is claimed where it follows a convolution or a product; it becomes part of the same step.
 * Channels and constants have known extents; other extents may be open. */
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

static int is_open(const BpOnnxValue *value, int32_t dimension) {
  return value->shape[dimension] < 0;
}

static int same_extent(const BpOnnxValue *a, const BpOnnxValue *b, int32_t dimension) {
  if (a->shape[dimension] != b->shape[dimension])
    return 0;
  return !is_open(a, dimension) || !strcmp(a->symbols[dimension], b->symbols[dimension]);
}

static int same_shape(const BpOnnxValue *a, const BpOnnxValue *b) {
  for (int32_t i = 0; a->ndim == b->ndim && i < a->ndim; i++)
    if (!same_extent(a, b, i))
      return 0;
  return a->ndim == b->ndim;
}

/* Says why no operator takes a value; NULL if the value is suitable or absent. */
static const char *check_value(const BpOnnxValue *value) {
  if (!value)
    return NULL;
  if (!is_float32(value->dtype))
    return "an input or output is not float32; the plugin takes only float32";
  if (value->ndim < 1 || value->ndim > BP_DNNL_MAX_NDIM)
    return "an input or output does not have 1 to 6 dimensions";
  for (int32_t i = 0; i < value->ndim; i++)
    if (value->shape[i] == 0 || value->shape[i] > INT32_MAX)
      return "an extent of an input or output is 0 or above 2147483647";
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

/* Reads the window along a dimension with an open extent: the padding is the one in the node's
 * attributes. */
static const char *read_open_dimension(const BpOnnxNode *node, const char *automatic, int64_t begin,
                                       int64_t end, int32_t dimension, BpDnnlWindow *w) {
  int is_plain = !strcmp(automatic, "NOTSET");
  if (!is_plain && strcmp(automatic, "VALID"))
    return "it has auto_pad SAME_UPPER or SAME_LOWER along an open extent; give shapes with "
           "--shape";
  if (bp_onnx_int(node, "ceil_mode", 0))
    return "it has ceil_mode along an open extent; give shapes with --shape";
  if (is_plain && (begin < 0 || end < 0 || begin > INT32_MAX || end > INT32_MAX))
    return "its padding is not from 0 to 2147483647";
  w->pad_begin[dimension] = is_plain ? begin : 0;
  w->pad_end[dimension] = is_plain ? end : 0;
  return NULL;
}

/* Reads a node's window. The padding at the end is computed from the output's extent, so it covers
 * ceil_mode and auto_pad. */
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
    if (is_open(in, i + 2)) {
      const char *why = read_open_dimension(node, automatic, pads[i], pads[rank + i], i, w);
      if (why)
        return why;
      continue;
    }
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

/* Whether an output has the extent along a spatial dimension that ONNX's shape inference gives. */
static int has_inferred_extent(const BpOnnxNode *node, int64_t in, int64_t out,
                               const BpDnnlWindow *w, int32_t dimension, int64_t pad_end) {
  const char *automatic = bp_onnx_str(node, "auto_pad", "NOTSET");
  int64_t stride = w->strides[dimension];
  /* Elements at the end that no window covers; if negative, the last window extends that far past
   * the end. */
  int64_t left = pad_end - w->pad_end[dimension];
  if (!strcmp(automatic, "SAME_UPPER") || !strcmp(automatic, "SAME_LOWER"))
    return out == (in + stride - 1) / stride;
  if (!bp_onnx_int(node, "ceil_mode", 0) || strcmp(automatic, "NOTSET"))
    return left >= 0 && left < stride;
  if (left <= 0)
    return left > -stride;
  /* A window that would begin in the padding is not part of the output. */
  return left <= stride && out * stride >= in + w->pad_begin[dimension];
}

const char *bp_dnnl_check_window(const BpGraphTable *table, const BpOnnxGraph *graph,
                                 const BpOnnxNode *node, const BpDnnlStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0);
  const BpOnnxValue *out = table->get_value(graph, node->outputs[0]);
  const char *automatic = bp_onnx_str(node, "auto_pad", "NOTSET");
  const BpOnnxAttr *kernel = bp_onnx_find_attr(node, "kernel_shape", BP_ONNX_ATTR_INTS);
  int64_t pads[2 * BP_DNNL_MAX_SPATIAL];
  if ((step->kind != BP_DNNL_CONV && step->kind != BP_DNNL_POOL) || step->is_global)
    return NULL;
  int32_t rank = in->ndim - 2;
  if (strcmp(automatic, "NOTSET") && strcmp(automatic, "VALID") &&
      strcmp(automatic, "SAME_UPPER") && strcmp(automatic, "SAME_LOWER"))
    return "its auto_pad is not NOTSET, VALID, SAME_UPPER or SAME_LOWER";
  read_list(node, "pads", 2 * rank, 0, pads);
  for (int32_t i = 0; i < rank && kernel; i++)
    if (kernel->count != rank || kernel->ints[i] != step->window.kernel[i])
      return "its kernel_shape is not that of its weights";
  for (int32_t i = 0; i < rank; i++)
    if (!has_inferred_extent(node, in->shape[i + 2], out->shape[i + 2], &step->window, i,
                             strcmp(automatic, "NOTSET") ? 0 : pads[rank + i]))
      return "a spatial extent of its output is not the one that its input and attributes give";
  return NULL;
}

static const char *read_conv(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, BpDnnlStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0), *w = input_of(table, graph, node, 1);
  const BpOnnxValue *bias = input_of(table, graph, node, 2);
  if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
    return "its bias is not a row with one element for each output channel";
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
  step->is_global = is_global;
  for (int32_t i = 0; i < rank; i++) {
    int64_t kernel = is_open(in, i + 2) ? 1 : in->shape[i + 2];
    step->window.kernel[i] = kernel;
    step->window.strides[i] = step->window.dilations[i] = 1;
  }
  if (is_global)
    return NULL;
  if (!read_list(node, "kernel_shape", rank, 0, step->window.kernel))
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

/* ---- Operators without windows ----------------------------------------------------------- */

/* Whether a tensor is a row of `columns` elements, which can be added to each row of a matrix. */
static int is_row(const BpOnnxValue *value, int64_t columns) {
  for (int32_t i = 0; i + 1 < value->ndim; i++)
    if (value->shape[i] != 1)
      return 0;
  return value->shape[value->ndim - 1] == columns;
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
    if (!same_extent(a, b, i))
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
             : "its addend is not a row with one element for each column of the result";
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
#define ROW(op, read, least) {#op, read, least},
      BP_DNNL_OPERATORS(ROW)
#undef ROW
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

/* Marks the nodes that can be part of the step of a convolution or product: an Add, a Relu, or one
 * after the other. */
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

/* Returns an extent; of an open extent, a likely one. */
static double likely_extent(const BpOnnxValue *value, int32_t dimension) {
  return is_open(value, dimension) ? 64 : (double)value->shape[dimension];
}

static double count_elements(const BpOnnxValue *value) {
  double count = 1;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= likely_extent(value, i);
  return count;
}

/* About how many nanoseconds a step takes, on one core of 2020: 32 products or 8 elements in each
 * nanosecond. */
static double cost_of(const BpGraphTable *table, const BpOnnxGraph *graph, const BpOnnxNode *node,
                      const BpDnnlStep *step) {
  const BpOnnxValue *in = table->get_value(graph, node->inputs[0]);
  double elements = count_elements(table->get_value(graph, node->outputs[0])), products = 0;
  if (step->kind == BP_DNNL_CONV) {
    const BpOnnxValue *weights = table->get_value(graph, node->inputs[1]);
    products = elements * count_elements(weights) / (double)weights->shape[0];
  } else if (step->kind == BP_DNNL_MATMUL) {
    products = elements * likely_extent(in, in->ndim - (step->transposes_a ? 2 : 1));
  }
  return 100 + products / 32 + (elements + count_elements(in)) / 8;
}

/* The weights of convolutions and the rows that are added to products must be constant: a part
 * packs them once. */
static const char *check_constants(const BpGraphTable *table, const BpOnnxGraph *graph,
                                   const BpOnnxNode *node, const BpDnnlStep *step) {
  int32_t first = step->kind == BP_DNNL_CONV ? 1 : 2;
  if (step->kind != BP_DNNL_CONV && step->kind != BP_DNNL_MATMUL)
    return NULL;
  for (int32_t i = first; i < node->num_inputs; i++) {
    const BpOnnxValue *value = input_of(table, graph, node, i);
    if (value && !value->data)
      return first == 1 ? "its weights or its bias are not constant"
                        : "its addend is not a constant row";
  }
  return NULL;
}

static int32_t claim_nodes(const BpGraphTable *table, const BpOnnxGraph *graph, BpClaims *claims,
                           char *follows, const char *problem) {
  for (int32_t i = 0; i < table->num_nodes(graph); i++) {
    BpDnnlStep step;
    const char *why = problem;
    if (!why)
      why = bp_dnnl_read_node(table, graph, table->get_node(graph, i), &step);
    if (!why)
      why = check_constants(table, graph, table->get_node(graph, i), &step);
    if (!why && (step.kind == BP_DNNL_CONV || step.kind == BP_DNNL_MATMUL))
      mark_followers(table, graph, i, follows);
    if (!why && (step.kind == BP_DNNL_RELU || step.kind == BP_DNNL_ADD) && !follows[i])
      why = "the plugin takes it only directly after a convolution or a product that nothing else "
            "reads";
    if (why ? table->decline(claims, i, why)
            : table->take(claims, i, cost_of(table, graph, table->get_node(graph, i), &step)))
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
