/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for the rows of the operator table: errors, constant inputs, axes, broadcasting, windows;
 * and appending a node to a graph. */
#include "graph/ops/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/ops/rows.h"

static int raise_for(const BpGraphNode *node, const char *kind, const char *format, va_list args)
    BP_PRINTF(3, 0);
static int raise_for(const BpGraphNode *node, const char *kind, const char *format, va_list args) {
  char text[512];
  vsnprintf(text, sizeof(text), format, args);
  return bp_error_raise(kind, "node '%s' (%s): %s", node->name, node->op->name, text);
}

int bp__op_error(const BpGraphNode *node, const char *format, ...) {
  va_list args;
  va_start(args, format);
  raise_for(node, BP_ERROR_NOT_IMPLEMENTED, format, args);
  va_end(args);
  return -1;
}

static bool has_open_input(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && bp__value_is_open(node->inputs[i]))
      return true;
  return false;
}

/* With open extents an apparent fault of the model may not occur in a run, so the error is
 * BP_ERROR_NOT_IMPLEMENTED. */
int bp__op_bad(const BpGraphNode *node, const char *format, ...) {
  bool is_open = has_open_input(node);
  va_list args;
  va_start(args, format);
  raise_for(node, is_open ? BP_ERROR_NOT_IMPLEMENTED : BP_ERROR_FORMAT, format, args);
  va_end(args);
  return -1;
}

/* ---- Reading constants and attributes ---------------------------------------------------- */

/* The least integers of a file would stand for open extents. So such integers become the least
 * number that is no open extent: Slice takes that number as the beginning, and all other operators
 * reject it. The extents in attributes that passes make stay unchanged; the importer reads those of
 * a file. */
static void keep_closed(int64_t *values, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (bp__extent_is_open(values[i]))
      values[i] = BP_EXTENT_LAST_OPEN + 1;
}

int32_t bp__op_const_ints(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max) {
  const BpGraphValue *value = bp__node_input(node, input);
  int64_t count;
  if (!value)
    return bp__op_bad(node, "input %d is missing", input);
  if (value->extents)
    return bp__op_error(node,
                        "input %d ('%s') depends on extents that are open, and it must be a "
                        "constant",
                        input, value->name);
  if (!value->data)
    return bp__op_error(node,
                        "input %d ('%s') must be a constant once the input shapes are known, and "
                        "it depends on the data",
                        input, value->name);
  if (value->dtype.code != BP_DTYPE_INT && value->dtype.code != BP_DTYPE_UINT)
    return bp__op_bad(node, "input %d must hold integers", input);
  count = bp__value_num_elements(value);
  if (count > max || value->ndim > 1)
    return bp__op_bad(node, "input %d has %lld elements in %d dimensions, at most %d in one fit",
                      input, (long long)count, value->ndim, max);
  for (int64_t i = 0; i < count; i++)
    values[i] = bp__value_get_int(value, i);
  keep_closed(values, count);
  return (int32_t)count;
}

int32_t bp__op_const_extents(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max) {
  const BpGraphValue *value = bp__node_input(node, input);
  if (!value || !value->extents)
    return bp__op_const_ints(node, input, values, max);
  int64_t count = bp__value_num_elements(value);
  if (count > max || value->ndim > 1)
    return bp__op_bad(node, "input %d has %lld elements in %d dimensions, at most %d in one fit",
                      input, (long long)count, value->ndim, max);
  memcpy(values, value->extents, (size_t)count * sizeof(*values));
  return (int32_t)count;
}

int bp__op_const_extent(const BpGraphNode *node, int32_t input, int64_t otherwise, int64_t *value) {
  *value = otherwise;
  if (!bp__node_input(node, input))
    return 0;
  int32_t count = bp__op_const_extents(node, input, value, 1);
  if (count == 0)
    return bp__op_bad(node, "input %d is empty, not a number", input);
  return count < 0 ? -1 : 0;
}

int32_t bp__op_ints(const BpGraphNode *node, int32_t input, const char *attr_name, int64_t *values,
                    int32_t max) {
  const BpGraphAttr *attr = attr_name ? bp__node_attr(node, attr_name) : NULL;
  if (input >= 0 && bp__node_input(node, input))
    return bp__op_const_ints(node, input, values, max);
  if (!attr)
    return -2;
  if (attr->count > max)
    return bp__op_bad(node, "attribute %s has %d elements, at most %d fit", attr_name, attr->count,
                      max);
  if (attr->count > 0)
    memcpy(values, attr->ints, (size_t)attr->count * sizeof(*values));
  return attr->count;
}

int bp__op_axis(const BpGraphNode *node, int64_t axis, int32_t ndim, int32_t *result) {
  if (axis < -(int64_t)ndim || axis >= ndim)
    return bp__op_bad(node, "axis %lld is outside a tensor of %d dimensions", (long long)axis,
                      ndim);
  *result = (int32_t)(axis < 0 ? axis + ndim : axis);
  return 0;
}

int bp__op_check_float(const BpGraphNode *node) {
  char text[BP_VALUE_TEXT];
  return bp__dtype_is_float(node->inputs[0]->dtype)
             ? 0
             : bp__op_error(node, "it takes floats, not %s",
                            bp__value_format(node->inputs[0], text));
}

int bp__op_broadcast(const BpGraphNode *node, int64_t *shape, int32_t *ndim) {
  char a[BP_VALUE_TEXT];
  *ndim = 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->ndim > *ndim)
      *ndim = node->inputs[i]->ndim;
  for (int32_t d = 0; d < *ndim; d++)
    shape[d] = 1;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *value = node->inputs[i];
    for (int32_t d = 0; value && d < value->ndim; d++) {
      int64_t *extent = &shape[*ndim - value->ndim + d];
      if (*extent != 1 && value->shape[d] != 1 && value->shape[d] != *extent &&
          (bp__extent_is_open(*extent) || bp__extent_is_open(value->shape[d])))
        return bp__op_error(node,
                            "dimension %d of input %d and of the other inputs is open or differs, "
                            "and only a run knows whether they broadcast",
                            d, i);
      if (*extent != 1 && value->shape[d] != 1 && value->shape[d] != *extent)
        return bp__op_bad(node,
                          "input %d is %s and does not broadcast to extent %lld of the others", i,
                          bp__value_format(value, a), (long long)*extent);
      *extent = value->shape[d] != 1 ? value->shape[d] : *extent;
    }
  }
  return 0;
}

int bp__dtype_from_onnx(int64_t number, BpDataType *dtype) {
  static const BpDataType types[] = {
      [1] = {BP_DTYPE_FLOAT, 32, 1},
      [2] = {BP_DTYPE_UINT, 8, 1},
      [3] = {BP_DTYPE_INT, 8, 1},
      [4] = {BP_DTYPE_UINT, 16, 1},
      [5] = {BP_DTYPE_INT, 16, 1},
      [6] = {BP_DTYPE_INT, 32, 1},
      [7] = {BP_DTYPE_INT, 64, 1},
      [9] = {BP_DTYPE_BOOL, 8, 1},
      [10] = {BP_DTYPE_FLOAT, 16, 1},
      [11] = {BP_DTYPE_FLOAT, 64, 1},
      [12] = {BP_DTYPE_UINT, 32, 1},
      [13] = {BP_DTYPE_UINT, 64, 1},
      [16] = {BP_DTYPE_BFLOAT, 16, 1},
      [17] = {BP_DTYPE_FLOAT8_E4M3FN, 8, 1},
      [18] = {BP_DTYPE_FLOAT8_E4M3FNUZ, 8, 1},
      [19] = {BP_DTYPE_FLOAT8_E5M2, 8, 1},
      [20] = {BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 1},
      [21] = {BP_DTYPE_UINT, 4, 1},
      [22] = {BP_DTYPE_INT, 4, 1},
      [23] = {BP_DTYPE_FLOAT4_E2M1FN, 4, 1},
      [25] = {BP_DTYPE_UINT, 2, 1},
      [26] = {BP_DTYPE_INT, 2, 1},
  };
  if (number < 0 || number >= (int64_t)(sizeof(types) / sizeof(types[0])) || !types[number].bits)
    return -1;
  *dtype = types[number];
  return 0;
}

int64_t bp__dtype_to_onnx(BpDataType dtype) {
  int64_t number = 1;
  BpDataType found = {0};
  while (bp__dtype_from_onnx(number, &found) || !bp__dtype_equal(found, dtype))
    number++;
  return number;
}

/* ---- Windows ----------------------------------------------------------------------------- */

int bp__op_window_list(const BpGraphNode *node, const char *name, int32_t count, int64_t least,
                       int64_t otherwise, int64_t *values) {
  int32_t given = bp__op_ints(node, -1, name, values, 2 * BP_GRAPH_MAX_NDIM);
  if (given == -1)
    return -1;
  if (given >= 0 && given != count)
    return bp__op_bad(node, "attribute %s has %d elements instead of %d", name, given, count);
  for (int32_t i = 0; i < count; i++) {
    values[i] = given < 0 ? otherwise : values[i];
    if (!bp__extent_is_open(values[i]) && (values[i] < least || values[i] > INT32_MAX))
      return bp__op_bad(node, "attribute %s: %lld is out of range", name, (long long)values[i]);
  }
  return 0;
}

static int64_t span_of(const BpOpWindow *w, int32_t i) {
  return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

/* Pads for auto_pad: half of the elements that ceil(input / stride) windows need beyond the input
 * on each side. */
static int same_padding(BpExtents *e, const BpGraphNode *node, BpOpWindow *w, int lower) {
  for (int32_t i = 0; i < w->rank; i++) {
    int64_t stride = w->strides[i];
    int64_t last = bp__extent_divide(e, bp__extent_add(e, w->in[i], -1), stride);
    int64_t reached = bp__extent_add(e, bp__extent_multiply(e, last, stride), span_of(w, i));
    int64_t total = bp__extent_max(e, bp__extent_subtract(e, reached, w->in[i]), 0);
    if (w->in[i] == 0)
      return bp__op_bad(node, "its input is empty");
    int64_t less = bp__extent_define(e, bp__extent_divide(e, total, 2));
    int64_t more = bp__extent_define(e, bp__extent_subtract(e, total, less));
    w->pad_begin[i] = lower ? more : less;
    w->pad_end[i] = lower ? less : more;
    if (less == BP_EXTENT_NONE || more == BP_EXTENT_NONE)
      return -1;
  }
  return 0;
}

static int window_padding(BpExtents *extents, const BpGraphNode *node, BpOpWindow *w) {
  const char *automatic = bp__node_str(node, "auto_pad", "NOTSET");
  int64_t pads[2 * BP_GRAPH_MAX_NDIM];
  if (bp__op_window_list(node, "pads", 2 * w->rank, 0, 0, pads))
    return -1;
  memcpy(w->pad_begin, pads, (size_t)w->rank * sizeof(*pads));
  memcpy(w->pad_end, pads + w->rank, (size_t)w->rank * sizeof(*pads));
  if (!strcmp(automatic, "NOTSET"))
    return 0;
  if (!strcmp(automatic, "SAME_UPPER") || !strcmp(automatic, "SAME_LOWER"))
    return same_padding(extents, node, w, !strcmp(automatic, "SAME_LOWER"));
  if (strcmp(automatic, "VALID"))
    return bp__op_bad(node, "auto_pad '%s' is not one of NOTSET, SAME_UPPER, SAME_LOWER and VALID",
                      automatic);
  memset(w->pad_begin, 0, sizeof(w->pad_begin));
  memset(w->pad_end, 0, sizeof(w->pad_end));
  return 0;
}

int64_t bp__op_padded(BpExtents *extents, const BpOpWindow *w, int32_t i) {
  return bp__extent_add(extents, w->in[i], bp__extent_add(extents, w->pad_begin[i], w->pad_end[i]));
}

static int window_output(BpExtents *e, const BpGraphNode *node, BpOpWindow *w, int32_t i) {
  int64_t stride = w->strides[i];
  int64_t padded = bp__op_padded(e, w, i), room = bp__extent_subtract(e, padded, span_of(w, i));
  /* With ceil_mode a window may reach beyond the padded input, by less than a stride. */
  w->room[i] = w->rounds_up ? bp__extent_add(e, room, stride - 1) : room;
  if (!bp__extent_is_open(w->room[i]) && w->room[i] < 0)
    return bp__op_bad(node, "its window of %lld is larger than its padded input of %lld",
                      (long long)span_of(w, i), (long long)padded);
  int64_t last = bp__extent_divide(e, room, stride);
  if (w->rounds_up) {
    /* ceil_mode adds a window that begins before the pads at the end. */
    int64_t begun = bp__extent_divide(e, w->room[i], stride);
    int64_t inside = bp__extent_add(e, bp__extent_add(e, w->in[i], w->pad_begin[i]), -1);
    begun = bp__extent_min(e, begun, bp__extent_divide(e, inside, stride));
    last = bp__extent_max(e, last, begun);
  }
  w->out[i] = bp__extent_add(e, last, 1);
  return w->room[i] == BP_EXTENT_NONE || w->out[i] == BP_EXTENT_NONE ? -1 : 0;
}

int bp__op_read_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                       BpOpWindow *w) {
  const BpGraphValue *input = bp__node_input(node, 0);
  int64_t lists[4][2 * BP_GRAPH_MAX_NDIM];
  memset(w, 0, sizeof(*w));
  if (!input || input->ndim < 3)
    return bp__op_error(node, "its input has fewer than 3 dimensions");
  w->rank = input->ndim - 2;
  w->rounds_up = bp__node_int(node, "ceil_mode", 0) != 0;
  memcpy(w->in, input->shape + 2, (size_t)w->rank * sizeof(w->in[0]));
  if (bp__op_window_list(node, "kernel_shape", w->rank, 1, kernel ? 1 : -1, lists[0]) ||
      bp__op_window_list(node, "strides", w->rank, 1, 1, lists[1]) ||
      bp__op_window_list(node, "dilations", w->rank, 1, 1, lists[2]))
    return -1;
  for (int32_t i = 0; i < w->rank; i++) {
    if (kernel && bp__node_attr(node, "kernel_shape") && lists[0][i] != kernel[i])
      return bp__op_bad(node, "kernel_shape differs from the shape of the weights");
    w->kernel[i] = kernel ? kernel[i] : lists[0][i];
    w->strides[i] = lists[1][i];
    w->dilations[i] = lists[2][i];
    if (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX)
      return bp__op_bad(node, "its kernel has an extent of %lld", (long long)w->kernel[i]);
  }
  return window_padding(extents, node, w);
}

int bp__op_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                  BpOpWindow *w) {
  if (bp__op_read_window(extents, node, kernel, w))
    return -1;
  for (int32_t i = 0; i < w->rank; i++) {
    if (window_output(extents, node, w, i))
      return -1;
    w->out[i] = bp__extent_define(extents, w->out[i]);
    if (w->out[i] == BP_EXTENT_NONE)
      return -1;
  }
  return 0;
}

int bp__op_infer_window(BpGraph *graph, const BpGraphNode *node, const int64_t *kernel,
                        BpOpWindow *w) {
  bool is_same = !strncmp(bp__node_str(node, "auto_pad", "NOTSET"), "SAME", 4);
  if (bp__op_read_window(&graph->extents, node, kernel, w))
    return -1;
  for (int32_t i = 0; i < w->rank; i++) {
    if (is_same && bp__op_require(graph, node, bp__extent_add(&graph->extents, w->in[i], -1),
                                  "its input is empty"))
      return -1;
    if (window_output(&graph->extents, node, w, i) ||
        bp__op_require(graph, node, w->room[i], "its window is larger than its padded input"))
      return -1;
  }
  return bp__op_window(&graph->extents, node, kernel, w);
}

bool bp__op_window_is_closed(const BpOpWindow *w) {
  return !bp__extents_any_open(w->pad_begin, w->rank) &&
         !bp__extents_any_open(w->pad_end, w->rank) && !bp__extents_any_open(w->in, w->rank) &&
         !bp__extents_any_open(w->out, w->rank);
}

BpGraphValue *bp__op_argument(const BpGraphNode *node, int32_t index) {
  return index < 16 && (node->op->known >> index & 1) ? NULL : bp__node_input(node, index);
}

/* ---- Computing --------------------------------------------------------------------------- */

/* The maximum value of an open extent for which functions are correct. */
#define GREATEST_EXTENT INT32_MAX

typedef struct ExtentNodes {
  BpIrModule *ir;
  const BpIrNode *const *symbols;
  const BpOpCompute *op; /* the function that gets a parameter for a symbol at its first use */
} ExtentNodes;

static const void *number_node(void *context, int64_t number) {
  const ExtentNodes *nodes = context;
  return bp_ir_int(nodes->ir, BP__INT64, number);
}

static const void *symbol_node(void *context, int32_t index) {
  const ExtentNodes *nodes = context;
  return nodes->symbols[index];
}

static const void *parameter_node(void *context, int32_t index) {
  const BpOpCompute *op = ((const ExtentNodes *)context)->op;
  const BpIrNode **var = &op->symbols->vars[index];
  if (!*var) {
    *var = bp_te_open_extent(op->te, bp__extents_symbol_name(op->extents, index),
                             bp__extents_likely(op->extents, index), GREATEST_EXTENT);
    if (!*var)
      return NULL;
    op->symbols->places[op->symbols->count++] = index;
  }
  return *var;
}

static const void *operation_node(void *context, BpExtentOp op, const void *a, const void *b) {
  static const int32_t kinds[] = {[BP_EXTENT_ADD] = BP_IR_ADD,
                                  [BP_EXTENT_MULTIPLY] = BP_IR_MUL,
                                  [BP_EXTENT_DIVIDE] = BP_IR_FLOORDIV,
                                  [BP_EXTENT_MIN] = BP_IR_MIN,
                                  [BP_EXTENT_MAX] = BP_IR_MAX};
  const ExtentNodes *nodes = context;
  return bp_ir_binary(nodes->ir, kinds[op], a, b);
}

const BpIrNode *bp__extent_node(const BpExtents *extents, BpIrModule *ir, int64_t extent,
                                const BpIrNode *const *symbols) {
  ExtentNodes nodes = {.ir = ir, .symbols = symbols};
  return bp__extent_fold(extents, extent,
                         &(BpExtentFold){number_node, symbol_node, operation_node, &nodes});
}

const BpIrNode *bp__op_extent(const BpOpCompute *op, int64_t extent) {
  ExtentNodes nodes = {.ir = bp_te_ir(op->te), .op = op};
  return bp__extent_fold(op->extents, extent,
                         &(BpExtentFold){number_node, parameter_node, operation_node, &nodes});
}

const BpIrNode *bp__op_reduce_axis(const BpOpCompute *op, const char *name, int64_t extent) {
  return bp_te_reduce_axis_open(op->te, name, bp__op_extent(op, extent));
}

static void extents_of(const BpOpCompute *op, const int64_t *shape, int32_t ndim,
                       const BpIrNode **extents) {
  for (int32_t i = 0; i < ndim; i++)
    extents[i] = bp__op_extent(op, shape[i]);
}

BpTeTensor *bp__op_tensor(const BpOpCompute *op, const char *name, const int64_t *shape,
                          int32_t ndim, BpTeBody body, void *context) {
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  if (!bp__extents_any_open(shape, ndim))
    return bp_te_compute(op->te, name, shape, ndim, body, context);
  extents_of(op, shape, ndim, extents);
  return bp_te_compute_open(op->te, name, extents, ndim, body, context);
}

int bp__op_give_body(const BpOpCompute *op, const char *name, BpTeBody body, BpTeTensor **outputs) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op; /* the context parameter is not const */
  return bp__op_give(outputs, bp__op_tensor(op, name, out->shape, out->ndim, body, &copy));
}

BpTeTensor *bp__op_placeholder(const BpOpCompute *op, const char *name, const BpGraphValue *value) {
  const BpIrNode *extents[BP_GRAPH_MAX_NDIM];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  if (!bp__value_is_open(value))
    return bp_te_placeholder(op->te, name, value->dtype, value->shape, value->ndim);
  memcpy(shape, value->shape, sizeof(shape));
  if (value->room)
    shape[value->room_axis] = value->room;
  extents_of(op, shape, value->ndim, extents);
  return bp_te_placeholder_open(op->te, name, value->dtype, extents, value->ndim);
}

BpTeScan *bp__op_scan(const BpOpCompute *op, const int64_t *shape, int32_t ndim, int32_t axis,
                      int32_t is_reverse) {
  const BpIrNode *extents[BP_GRAPH_MAX_NDIM];
  const char *name = op->node->op->name;
  if (!bp__extents_any_open(shape, ndim))
    return bp_te_scan_begin(op->te, name, shape, ndim, axis, is_reverse);
  extents_of(op, shape, ndim, extents);
  return bp_te_scan_begin_open(op->te, name, extents, ndim, axis, is_reverse);
}

int bp__op_statements(const BpOpCompute *op, const int64_t *rows, int32_t num_rows,
                      const BpTeResult *results, int32_t num_results, BpTeStatements body,
                      void *context, BpTeTensor **tensors) {
  const BpIrNode *row_extents[BP_GRAPH_MAX_NDIM];
  const BpIrNode *extents[BP_OP_MAX_RESULTS][BP_GRAPH_MAX_NDIM];
  BpTeOpenResult open[BP_OP_MAX_RESULTS];
  bool is_open = bp__extents_any_open(rows, num_rows);
  for (int32_t i = 0; i < num_results; i++)
    is_open |= bp__extents_any_open(results[i].shape, results[i].ndim);
  if (!is_open)
    return bp_te_statements(op->te, op->node->op->name, rows, num_rows, results, num_results, body,
                            context, tensors);
  extents_of(op, rows, num_rows, row_extents);
  for (int32_t i = 0; i < num_results; i++) {
    extents_of(op, results[i].shape, results[i].ndim, extents[i]);
    open[i] = (BpTeOpenResult){results[i].dtype, extents[i], results[i].ndim};
  }
  return bp_te_statements_open(op->te, op->node->op->name, row_extents, num_rows, open, num_results,
                               body, context, tensors);
}

typedef struct Narrowing {
  BpTeTensor *tensor;
  BpDataType dtype;
} Narrowing;

static const BpIrNode *narrowed_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Narrowing *narrowing = context;
  return bp_ir_cast(bp_te_ir(te), narrowing->dtype, bp_te_read(te, narrowing->tensor, axes));
}

bool bp__op_is_continuous(const BpGraphNode *node) {
  /* The places of maxima, the second output of a pool, come from a comparison. */
  if (node->op->compute == bp__compute_pool)
    return node->num_outputs == 1;
  return node->op->compute == bp__compute_continuous || node->op->compute == bp__compute_reduce ||
         node->op->compute == bp__compute_softmax;
}

BpTeTensor *bp__op_round(const BpOpCompute *op, int32_t index, BpTeTensor *result) {
  const BpGraphValue *out = op->node->outputs[index];
  if (bp__dtype_equal(bp_te_tensor_dtype(result), out->dtype))
    return result;
  Narrowing narrowing = {result, out->dtype};
  return bp__op_tensor(op, op->node->op->name, out->shape, out->ndim, narrowed_body, &narrowing);
}

int bp__op_compute(const BpOpCompute *op, BpTeTensor **outputs) {
  if (op->node->op->compute(op, outputs) != 0)
    return -1;
  for (int32_t i = 0; i < op->node->num_outputs; i++)
    if (!(outputs[i] = bp__op_round(op, i, outputs[i])))
      return -1;
  return 0;
}

/* ---- Appending --------------------------------------------------------------------------- */

static int check_arity(const BpGraphNode *node) {
  const BpOp *op = node->op;
  if (node->num_inputs < op->min_inputs ||
      (op->max_inputs >= 0 && node->num_inputs > op->max_inputs))
    return bp__op_bad(node, "it has %d inputs instead of %d to %d", node->num_inputs,
                      op->min_inputs, op->max_inputs);
  for (int32_t i = 0; i < op->min_inputs; i++)
    if (!node->inputs[i])
      return bp__op_bad(node, "input %d is missing", i);
  if (node->num_outputs < 1 || (op->max_outputs >= 0 && node->num_outputs > op->max_outputs))
    return bp__op_error(node, "it has %d outputs, 1 to %d work", node->num_outputs,
                        op->max_outputs);
  return 0;
}

/* Fails if a row does not accept the open extents of its node. */
static int check_open(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs && node->op->open != BP_OPEN_ALL; i++) {
    const BpGraphValue *value = node->inputs[i];
    bool is_taken = i == 0 && node->op->open == BP_OPEN_FIRST;
    for (int32_t d = 0; value && d < value->ndim && !is_taken; d++)
      if (bp__extent_is_open(value->shape[d]))
        return bp__op_error(node,
                            "extent %d of input %d ('%s') is open, which this operator does not "
                            "take yet",
                            d, i, value->name);
  }
  return 0;
}

/* Removes inputs that are extents and only steer inference: the node needs no computed value of
 * them. */
static int detach_extents(BpGraph *graph, BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *value = node->inputs[i];
    if (!value || !value->extents || !value->producer || bp__op_argument(node, i))
      continue;
    node->inputs[i] = bp__graph_value(graph, value->name, value->dtype, value->shape, value->ndim);
    if (!node->inputs[i])
      return -1;
    node->inputs[i]->extents = value->extents;
  }
  return 0;
}

/* Makes nodes that compute the vectors of extents which are arguments of a node. */
static int attach_extents(BpGraph *graph, BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *value = bp__op_argument(node, i);
    if (!value || !value->extents || value->producer)
      continue;
    BpGraphNode maker = {.name = node->name, .outputs = &node->inputs[i]};
    node->inputs[i] = bp__graph_value(graph, value->name, value->dtype, value->shape, value->ndim);
    if (!node->inputs[i] || bp__op_give_extents(graph, &maker, value->extents))
      return -1;
  }
  return 0;
}

int bp__op_append(BpGraph *graph, BpGraphNode *node) {
  int left;
  if (check_arity(node) || check_open(node))
    return -1;
  left = bp__op_bind_inputs(graph, node);
  if (left)
    return left < 0 ? -1 : 0;
  left = 1;
  if (node->op->expand)
    left = node->op->expand(graph, node);
  if (left > 0)
    left = bp__op_by_bytes(graph, node);
  if (left <= 0)
    return left;
  if (node->num_inputs > BP_OP_MAX_INPUTS)
    return bp__op_error(node, "it has %d inputs, at most %d work", node->num_inputs,
                        BP_OP_MAX_INPUTS);
  left = bp__op_infer_agreeing(graph, node);
  if (left)
    return left < 0 ? -1 : 0;
  if (detach_extents(graph, node))
    return -1;
  left = bp__op_settle(graph, node);
  if (left > 0)
    left = bp__op_fold(graph, node);
  if (left <= 0)
    return left;
  return attach_extents(graph, node) ? -1 : bp__list_push(&graph->nodes, node);
}

BpGraphValue *bp__op_apply(BpGraph *graph, const char *domain, const char *op_name,
                           const char *name, BpGraphValue *const *inputs, int32_t num_inputs,
                           const BpGraphAttr *attrs, int32_t num_attrs) {
  const BpOp *op = bp__op_find(domain, op_name);
  BpGraphNode *node;
  if (!op) {
    bp_error_raise(BP_ERROR_INTERNAL, "a pass asks for operator '%s', which the table lacks",
                   op_name);
    return NULL;
  }
  for (int32_t i = 0; i < num_inputs; i++)
    if (!inputs[i])
      return NULL;
  node = bp__graph_node(graph, op, name, inputs, num_inputs, 1, attrs, num_attrs);
  return node && !bp__op_append(graph, node) ? node->outputs[0] : NULL;
}

bool bp__op_is(const BpGraphNode *node, const char *name) {
  return node && !node->op->domain[0] && !strcmp(node->op->name, name);
}

BpGraphValue *bp__op_unary(BpGraph *graph, const BpGraphNode *node, const char *op,
                           BpGraphValue *a) {
  return bp__op_apply(graph, "", op, node->name, &a, 1, NULL, 0);
}

BpGraphValue *bp__op_binary(BpGraph *graph, const BpGraphNode *node, const char *op,
                            BpGraphValue *a, BpGraphValue *b) {
  return bp__op_apply(graph, "", op, node->name, (BpGraphValue *[]){a, b}, 2, NULL, 0);
}

BpGraphValue *bp__op_reshape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             const int64_t *shape, int32_t ndim) {
  BpGraphValue *inputs[2] = {value, bp__graph_int_vector(graph, shape, ndim)};
  BpGraphAttr attr = bp__attr_int(graph, "allowzero", 1); /* 0 is an extent, not a copy of one */
  return bp__op_apply(graph, "", "Reshape", node->name, inputs, 2, &attr, 1);
}

BpGraphValue *bp__op_transpose(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                               const int64_t *perm, int32_t ndim) {
  int64_t *kept = bp__arena_alloc_array(&graph->arena, (size_t)ndim, sizeof(*kept));
  if (!value || !kept)
    return NULL;
  memcpy(kept, perm, (size_t)ndim * sizeof(*perm));
  BpGraphAttr attr = bp__attr_ints("perm", kept, ndim);
  return bp__op_apply(graph, "", "Transpose", node->name, &value, 1, &attr, 1);
}

BpGraphValue *bp__op_cast(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                          BpDataType dtype) {
  if (!value || bp__dtype_equal(value->dtype, dtype))
    return value;
  BpGraphAttr to = bp__attr_int(graph, "to", bp__dtype_to_onnx(dtype));
  return bp__op_apply(graph, "", "Cast", node->name, &value, 1, &to, 1);
}

BpGraphValue *bp__op_scalar(BpGraph *graph, const BpGraphNode *node, const BpGraphValue *like,
                            float value) {
  BpGraphValue *scalar = like ? bp__graph_float_scalar(graph, value) : NULL;
  return like && bp__dtype_is_float(like->dtype) ? bp__op_cast(graph, node, scalar, like->dtype)
                                                 : scalar;
}

BpGraphValue *bp__op_number(BpGraph *graph, const BpGraphNode *node, BpDataType dtype,
                            double value) {
  BpGraphValue *number = bp__graph_constant(graph, node->name, dtype, NULL, 0, NULL);
  if (number)
    bp__value_put_float(number, 0, value);
  return number;
}

BpGraphValue *bp__op_slice(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                           int64_t axis, int64_t start, int64_t end) {
  BpGraphValue *inputs[] = {value, bp__graph_int_vector(graph, &start, 1),
                            bp__graph_int_vector(graph, &end, 1),
                            bp__graph_int_vector(graph, &axis, 1)};
  return bp__op_apply(graph, "", "Slice", node->name, inputs, 4, NULL, 0);
}
