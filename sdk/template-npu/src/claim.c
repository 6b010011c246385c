/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes of a model the chip takes: three operators on int8 or uint8 tensors of known shape,
 * with constant int8 weights. Nodes that the chip cannot compute are declined, with a reason. */
#include "simdev.h"

#include <string.h>

/* Returns an input of a node, or NULL if the model omits it. */
static const BpOnnxValue *input_of(const BpGraphTable *table, const BpOnnxGraph *graph,
                                   const BpOnnxNode *node, int32_t index) {
  return index < node->num_inputs && node->inputs[index] >= 0
             ? table->get_value(graph, node->inputs[index])
             : NULL;
}

static int64_t count_elements(const BpOnnxValue *value) {
  int64_t count = 1;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= value->shape[i];
  return count;
}

static int is_int(const BpOnnxValue *value, int32_t code, int32_t bits) {
  return value->dtype.code == code && value->dtype.bits == bits && value->dtype.lanes == 1;
}

static int is_byte(const BpOnnxValue *value) {
  return is_int(value, BP_DTYPE_INT, 8) || is_int(value, BP_DTYPE_UINT, 8);
}

SimdevImage simdev_image(const BpOnnxValue *value) {
  const int64_t *shape = value->shape;
  if (value->ndim == 2)
    return (SimdevImage){1, (int32_t)shape[0], 1, (int32_t)shape[1]};
  return (SimdevImage){(int32_t)shape[0], (int32_t)shape[2], (int32_t)shape[3], (int32_t)shape[1]};
}

/* ---- Tensors ----------------------------------------------------------------------------- */

/* Says why the chip cannot read or compute a tensor, or NULL. */
static const char *check_tensor(const BpOnnxValue *value, int32_t ndim) {
  if (!value)
    return "a tensor that it needs is missing";
  if (!is_byte(value))
    return "an input or output is neither int8 nor uint8, and the device computes on these alone";
  if (value->ndim != ndim)
    return "an input or output does not have 4 dimensions, of a matrix 2";
  for (int32_t i = 0; i < ndim; i++)
    if (value->shape[i] < 1 || value->shape[i] > CHIP_MAX_CHANNELS)
      return value->shape[i] < 0 ? "an extent is open, and the device's programs are for known ones"
                                 : "an extent is 0 or above 65536";
  return NULL;
}

/* Reads a constant float32. */
static const char *read_scale(const BpOnnxValue *value, float *scale) {
  if (!value || !value->data || !is_int(value, BP_DTYPE_FLOAT, 32) || count_elements(value) != 1)
    return "a scale of its input or output is not one constant float32";
  memcpy(scale, value->data, sizeof *scale);
  return NULL;
}

/* Reads a constant zero point; an omitted zero point is 0. */
static const char *read_zero(const BpOnnxValue *value, int32_t *zero) {
  *zero = 0;
  if (!value)
    return NULL;
  if (!value->data || !is_byte(value) || count_elements(value) != 1)
    return "a zero point of its input or output is not one constant int8 or uint8";
  *zero = value->dtype.code == BP_DTYPE_INT ? *(const int8_t *)value->data
                                            : *(const uint8_t *)value->data;
  return NULL;
}

/* Reads the weights, their scales and zero points: inputs `first` to `first` + 2. */
static const char *read_weights(const BpGraphTable *table, const BpOnnxGraph *graph,
                                const BpOnnxNode *node, int32_t first, int32_t ndim,
                                int32_t channels_axis, SimdevStep *step) {
  const BpOnnxValue *weights = input_of(table, graph, node, first);
  const BpOnnxValue *scales = input_of(table, graph, node, first + 1);
  const BpOnnxValue *zeros = input_of(table, graph, node, first + 2);
  if (!weights || !weights->data || !is_int(weights, BP_DTYPE_INT, 8) || weights->ndim != ndim)
    return "its weights are not a constant int8 tensor of 4 dimensions, of a matrix 2";
  if (!scales || !scales->data || !is_int(scales, BP_DTYPE_FLOAT, 32) || scales->ndim > 1)
    return "the scale of its weights is not a constant float32 scalar or row";
  step->num_scales = (int32_t)count_elements(scales);
  if (step->num_scales != 1 && step->num_scales != weights->shape[channels_axis])
    return "its weights have neither one scale nor one for each output channel";
  for (int64_t i = 0; zeros && i < count_elements(zeros); i++)
    if (!zeros->data || !is_int(zeros, BP_DTYPE_INT, 8) || ((const int8_t *)zeros->data)[i])
      return "a zero point of its weights is not a constant 0, and the device has only that one";
  step->weights = node->inputs[first];
  step->scales = scales->data;
  return NULL;
}

/* ---- Windows ----------------------------------------------------------------------------- */

static int read_list(const BpOnnxNode *node, const char *name, int32_t count, int32_t otherwise,
                     int32_t *list) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_INTS);
  for (int32_t i = 0; i < count; i++) {
    int64_t number = attr && i < attr->count ? attr->ints[i] : otherwise;
    list[i] = number < 0 || number > CHIP_MAX_CHANNELS ? -1 : (int32_t)number;
    if (list[i] < 0)
      return 0;
  }
  return !attr || attr->count == count;
}

/* The padding at the end follows from the output's extent, which covers ceil_mode and VALID. */
static const char *read_window(const BpOnnxNode *node, SimdevImage in, SimdevImage out,
                               SimdevStep *step) {
  const char *automatic = bp_onnx_str(node, "auto_pad", "NOTSET");
  const int32_t from[2] = {in.height, in.width}, to[2] = {out.height, out.width};
  int32_t pads[4];
  if (!read_list(node, "strides", 2, 1, step->strides) ||
      !read_list(node, "dilations", 2, 1, step->dilations) || !read_list(node, "pads", 4, 0, pads))
    return "strides, dilations or pads are not 2, 2 and 4 numbers from 0 to 65536";
  for (int d = 0; d < 2; d++) {
    if (step->kernel[d] < 1 || step->kernel[d] > CHIP_MAX_WINDOW || step->strides[d] < 1 ||
        step->dilations[d] < 1)
      return "its window is above 255, or a stride or a dilation is 0";
    int64_t span = (int64_t)(step->kernel[d] - 1) * step->dilations[d] + 1;
    int64_t total = (int64_t)(to[d] - 1) * step->strides[d] + span - from[d];
    total = total < 0 ? 0 : total;
    step->pads[d] = pads[d];
    if (!strcmp(automatic, "SAME_UPPER"))
      step->pads[d] = (int32_t)(total / 2);
    else if (!strcmp(automatic, "SAME_LOWER"))
      step->pads[d] = (int32_t)(total - total / 2);
    else if (strcmp(automatic, "NOTSET"))
      step->pads[d] = 0;
    if (step->pads[d] >= span || (int64_t)(to[d] - 1) * step->strides[d] - step->pads[d] >= from[d])
      return "a window of it lies in the padding alone";
  }
  return NULL;
}

/* ---- Operators --------------------------------------------------------------------------- */

static const char *read_conv(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, SimdevStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0), *bias = input_of(table, graph, node, 8);
  const BpOnnxValue *out = table->get_value(graph, node->outputs[0]);
  const char *why = check_tensor(in, 4);
  why = why ? why : check_tensor(out, 4);
  why = why ? why : read_weights(table, graph, node, 3, 4, 0, step);
  why = why ? why : read_scale(input_of(table, graph, node, 1), &step->in_scale);
  why = why ? why : read_zero(input_of(table, graph, node, 2), &step->in_zero);
  why = why ? why : read_scale(input_of(table, graph, node, 6), &step->out_scale);
  why = why ? why : read_zero(input_of(table, graph, node, 7), &step->out_zero);
  if (why)
    return why;
  const BpOnnxValue *weights = table->get_value(graph, step->weights);
  if (bp_onnx_int(node, "group", 1) != 1)
    return "its attribute group is not 1; the device has no grouped convolutions";
  if (weights->shape[1] != in->shape[1] || weights->shape[0] != out->shape[1])
    return "its weights do not fit the channels of its input and output";
  if (bias &&
      (!bias->data || !is_int(bias, BP_DTYPE_INT, 32) || count_elements(bias) != weights->shape[0]))
    return "its bias is not constant, or not one int32 for each output channel";
  step->kind = CHIP_CONV;
  step->bias = bias ? node->inputs[8] : -1;
  for (int d = 0; d < 2; d++)
    step->kernel[d] = weights->shape[2 + d] > CHIP_MAX_WINDOW ? 0 : (int32_t)weights->shape[2 + d];
  return read_window(node, simdev_image(in), simdev_image(out), step);
}

static const char *read_product(const BpGraphTable *table, const BpOnnxGraph *graph,
                                const BpOnnxNode *node, SimdevStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0);
  const char *why = check_tensor(in, 2);
  why = why ? why : check_tensor(table->get_value(graph, node->outputs[0]), 2);
  why = why ? why : read_weights(table, graph, node, 3, 2, 1, step);
  why = why ? why : read_scale(input_of(table, graph, node, 1), &step->in_scale);
  why = why ? why : read_zero(input_of(table, graph, node, 2), &step->in_zero);
  why = why ? why : read_scale(input_of(table, graph, node, 6), &step->out_scale);
  why = why ? why : read_zero(input_of(table, graph, node, 7), &step->out_zero);
  step->kind = CHIP_CONV;
  step->is_product = 1;
  return why;
}

static const char *read_pool(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, SimdevStep *step) {
  const BpOnnxValue *in = input_of(table, graph, node, 0);
  const BpOnnxValue *out = table->get_value(graph, node->outputs[0]);
  const char *why = check_tensor(in, 4);
  why = why ? why : check_tensor(out, 4);
  if (why)
    return why;
  if (node->num_outputs > 1 && node->outputs[1] >= 0)
    return "its second output is read; the device computes only the first";
  if (!read_list(node, "kernel_shape", 2, 0, step->kernel))
    return "kernel_shape is not 2 numbers from 1 to 255";
  step->kind = CHIP_POOL;
  return read_window(node, simdev_image(in), simdev_image(out), step);
}

const char *simdev_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, SimdevStep *step) {
  static const struct {
    const char *op;
    const char *(*read)(const BpGraphTable *, const BpOnnxGraph *, const BpOnnxNode *,
                        SimdevStep *);
  } operators[] = {
      {"QLinearConv", read_conv}, {"QLinearMatMul", read_product}, {"MaxPool", read_pool}};
  *step = (SimdevStep){
      .weights = -1, .bias = -1, .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
  for (size_t i = 0; !*node->domain && i < sizeof operators / sizeof *operators; i++) {
    SimdevTiling tiling;
    if (strcmp(node->op, operators[i].op))
      continue;
    if (node->num_inputs < 1 || node->inputs[0] < 0 || node->num_outputs < 1 ||
        node->outputs[0] < 0)
      return "its first input or output is missing, or nothing reads the output";
    step->input = node->inputs[0];
    step->output = node->outputs[0];
    const char *why = operators[i].read(table, graph, node, step);
    if (why)
      return why;
    return simdev_tile(step, simdev_image(table->get_value(graph, step->input)),
                       simdev_image(table->get_value(graph, step->output)), &tiling)
               ? "not even one row of it fits the 64 KiB of the device's scratchpad"
               : NULL;
  }
  return "the device has QLinearConv, QLinearMatMul and MaxPool alone";
}

/* ---- Claiming ---------------------------------------------------------------------------- */

/* Estimates how many nanoseconds a step takes, so that the host can compare graph compilers: here
 * 16 products per nanosecond. Measure your device and return its times. */
static double cost_of(const BpGraphTable *table, const BpOnnxGraph *graph, const SimdevStep *step) {
  double products = (double)count_elements(table->get_value(graph, step->output)) *
                    step->kernel[0] * step->kernel[1];
  if (step->kind == CHIP_CONV)
    products *= simdev_image(table->get_value(graph, step->input)).channels;
  return 1000 + products / CHIP_LANES;
}

int32_t simdev_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims) {
  const BpGraphTable *table =
      simdev_host.host->get_table(simdev_host.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
  (void)context;
  (void)target;
  if (!table)
    return bp_plugin_raise(&simdev_host, BP_ERROR_PLUGIN, "the host has no table \"graph\"");
  for (int32_t i = 0; i < table->num_nodes(graph); i++) {
    SimdevStep step;
    const char *why = simdev_read_node(table, graph, table->get_node(graph, i), &step);
    if (why ? table->decline(claims, i, why) : table->take(claims, i, cost_of(table, graph, &step)))
      return -1;
  }
  return 0;
}
