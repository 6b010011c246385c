/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that arrange a picture's elements as columns, one for each window: DeformConv, whose
 * windows read at positions that are data, and Col2Im, which adds columns up to a picture. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* The row-major index of a position. */
static const BpIrNode *flat_index(BpIrModule *ir, const BpIrNode *const *places,
                                  const int64_t *extents, int32_t count) {
  const BpIrNode *index = x_index(ir, 0);
  for (int32_t i = 0; i < count; i++)
    index = x_add(ir, x_mul(ir, index, x_index(ir, extents[i])), places[i]);
  return index;
}

static const BpIrNode *both(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return a ? x_and(ir, a, b) : b;
}

/* Whether 0 <= index < extent. */
static const BpIrNode *is_inside(BpIrModule *ir, const BpIrNode *index, int64_t extent) {
  return x_and(ir, x_ge(ir, index, x_index(ir, 0)), x_lt(ir, index, x_index(ir, extent)));
}

static int64_t product_of(const int64_t *values, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; i++)
    product *= values[i];
  return product;
}

/* ---- DeformConv -------------------------------------------------------------------------- */

/* DeformSample: the elements of the picture that each element of each window reads: (batch,
 * channels, window, positions). DeformSample has the inputs of DeformConv without the weights and
 * the bias. */
BP_ROW_INFER(deform_sample) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[2 + 2 * BP_GRAPH_MAX_NDIM] = {in->shape[0], in->shape[1]};
  BpOpWindow window;
  if (bp__op_window(&graph->extents, node, NULL, &window))
    return -1;
  memcpy(shape + 2, window.kernel, (size_t)window.rank * sizeof(*shape));
  memcpy(shape + 2 + window.rank, window.out, (size_t)window.rank * sizeof(*shape));
  return bp__node_set_output(graph, node, 0, in->dtype, shape, 2 + 2 * window.rank);
}

typedef struct Deform {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpOpWindow window;
  BpDataType dtype; /* type in which it is computed */
} Deform;

/* Number `part` of the `parts` numbers that an input has for an element of the window. */
static const BpIrNode *read_of_place(const Deform *d, int32_t input, const BpIrNode *const *axes,
                                     int64_t parts, int64_t part) {
  BpIrModule *ir = d->ir;
  int32_t rank = d->window.rank;
  int64_t group = d->op->node->inputs[0]->shape[1] / bp__node_int(d->op->node, "offset_group", 1);
  const BpIrNode *at[BP_GRAPH_MAX_NDIM] = {axes[0]}, *place;
  place = flat_index(ir, axes + 2, d->window.kernel, rank);
  place = x_add(ir,
                x_mul(ir, bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], x_index(ir, group)),
                      x_index(ir, product_of(d->window.kernel, rank))),
                place);
  at[1] = x_add(ir, x_mul(ir, place, x_index(ir, parts)), x_index(ir, part));
  memcpy(at + 2, axes + 2 + rank, (size_t)rank * sizeof(*at));
  return x_wide(ir, bp_te_read(d->op->te, d->op->inputs[input], at));
}

/* Interpolates linearly between the elements around a position; elements outside the picture are
 * zero. */
static const BpIrNode *deform_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Deform *d = context;
  const BpOpWindow *w = &d->window;
  BpIrModule *ir = d->ir;
  const BpIrNode *at[BP_GRAPH_MAX_NDIM] = {axes[0], axes[1]}, *taps[BP_GRAPH_MAX_NDIM];
  const BpIrNode *inside = NULL, *value, *weight = NULL;
  for (int32_t i = 0; i < w->rank; i++) {
    const BpIrNode *start = x_mul(ir, axes[2 + w->rank + i], x_index(ir, w->strides[i]));
    start = x_add(ir, start, x_mul(ir, axes[2 + i], x_index(ir, w->dilations[i])));
    start = x_sub(ir, start, x_index(ir, w->pad_begin[i]));
    start = start ? bp_ir_cast(ir, d->dtype, start) : NULL;
    const BpIrNode *place = x_add(ir, start, read_of_place(d, 1, axes, w->rank, i));
    const BpIrNode *low = x_call1(ir, "floor", place), *part = x_sub(ir, place, low), *along;
    taps[i] = bp_te_reduce_axis(te, "tap", 2);
    along = bp_ir_select(ir, bp_ir_binary(ir, BP_IR_EQ, taps[i], x_index(ir, 0)),
                         x_sub(ir, x_number(ir, d->dtype, 1), part), part);
    weight = weight ? x_mul(ir, weight, along) : along;
    at[2 + i] = low ? x_add(ir, bp_ir_cast(ir, BP__INT64, low), taps[i]) : NULL;
    inside = both(ir, inside, is_inside(ir, at[2 + i], w->in[i]));
  }
  if (d->op->inputs[2])
    weight = x_mul(ir, weight, read_of_place(d, 2, axes, 1, 0));
  value = x_wide(ir, bp_te_read_if(te, d->op->inputs[0], at, inside));
  return bp_te_reduce(te, BP_TE_SUM, x_mul(ir, value, weight), taps, w->rank);
}

BP_ROW_COMPUTE(deform_sample) {
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  Deform deform = {.op = op, .ir = bp_te_ir(op->te), .dtype = bp_te_accumulator(in->dtype)};
  if (bp__op_window(op->extents, op->node, NULL, &deform.window))
    return -1;
  return bp__op_give(
      outputs, bp__op_tensor(op, "DeformSample", out->shape, out->ndim, deform_body, &deform));
}

enum { PICTURE, WEIGHTS, OFFSET, BIAS, MASK, NUM_INPUTS };

static int check_deform(BpGraph *graph, const BpGraphNode *node, BpOpWindow *window) {
  const BpGraphValue *in = node->inputs[PICTURE], *weights = node->inputs[WEIGHTS];
  const BpGraphValue *bias = bp__node_input(node, BIAS);
  int64_t groups = bp__node_int(node, "group", 1), parts = bp__node_int(node, "offset_group", 1);
  char text[BP_VALUE_TEXT];
  if (in->ndim < 3 || in->ndim > 5 || weights->ndim != in->ndim)
    return bp__op_error(node, "its input has %d dimensions, and its weights %d; 3 to 5 work",
                        in->ndim, weights->ndim);
  if (bp__extents_any_open(in->shape + 1, in->ndim - 1) || bp__value_is_open(weights))
    return bp__op_error(node, "open extents other than the number of items are not supported");
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] &&
        !(bp__dtype_is_float(in->dtype) && bp__dtype_equal(node->inputs[i]->dtype, in->dtype)))
      return bp__op_bad(node, "its inputs are not of one float type");
  if (groups < 1 || parts < 1 || in->shape[1] % groups != 0 || in->shape[1] % parts != 0 ||
      in->shape[1] / groups != weights->shape[1] || weights->shape[0] % groups != 0)
    return bp__op_bad(node,
                      "its weights are %s, for %lld channels in %lld groups, and %lld of "
                      "offsets",
                      bp__value_format(weights, text), (long long)in->shape[1], (long long)groups,
                      (long long)parts);
  if (bias && (bias->ndim != 1 || bias->shape[0] != weights->shape[0]))
    return bp__op_bad(node, "its bias is not a vector of %lld", (long long)weights->shape[0]);
  return bp__op_window(&graph->extents, node, weights->shape + 2, window);
}

/* Reads an input with `parts` numbers for each element of the window, at each position of the
 * output. */
static int read_places(BpGraph *graph, const BpGraphNode *node, const BpOpWindow *window,
                       int32_t input, int64_t parts, BpGraphValue **value) {
  int64_t shape[BP_GRAPH_MAX_NDIM] = {node->inputs[PICTURE]->shape[0]};
  char text[BP_VALUE_TEXT];
  *value = bp__node_input(node, input);
  if (!*value)
    return 0;
  shape[1] =
      bp__node_int(node, "offset_group", 1) * parts * product_of(window->kernel, window->rank);
  memcpy(shape + 2, window->out, (size_t)window->rank * sizeof(*shape));
  if ((*value)->ndim != 2 + window->rank)
    return bp__op_bad(node, "its input %d is %s, not numbers for each place of the output", input,
                      bp__value_format(*value, text));
  *value = bp__op_as_shape(graph, node, *value, shape,
                           "its offset or its mask does not fit its window and its output");
  return *value ? 0 : -1;
}

/* DeformConv samples the picture; the result is the product of the weights and the columns of each
 * group. */
BP_ROW_EXPAND(deform_conv) {
  static const char *const passed[] = {"strides", "pads", "dilations", "offset_group"};
  const BpGraphValue *in = node->inputs[PICTURE], *weights = node->inputs[WEIGHTS];
  BpGraphValue *inputs[3] = {node->inputs[PICTURE]}, *out, *bias = bp__node_input(node, BIAS);
  BpGraphAttr attrs[5];
  BpOpWindow w;
  int32_t num_attrs = 0;
  int64_t groups = bp__node_int(node, "group", 1), each = weights->shape[0] / (groups ? groups : 1);
  if (check_deform(graph, node, &w) || read_places(graph, node, &w, OFFSET, w.rank, &inputs[1]) ||
      read_places(graph, node, &w, MASK, 1, &inputs[2]))
    return -1;
  attrs[num_attrs++] = bp__attr_ints("kernel_shape", weights->shape + 2, w.rank);
  for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
    if (bp__node_attr(node, passed[i]))
      attrs[num_attrs++] = *bp__node_attr(node, passed[i]);
  out = bp__op_apply(graph, "backplane", "DeformSample", node->name, inputs, inputs[2] ? 3 : 2,
                     attrs, num_attrs);
  if (!out)
    return -1;
  int64_t depth = weights->shape[1] * product_of(w.kernel, w.rank);
  int64_t places = product_of(w.out, w.rank);
  out = bp__op_reshape(graph, node, out, (int64_t[]){in->shape[0], groups, depth, places}, 4);
  BpGraphValue *rows =
      bp__op_reshape(graph, node, node->inputs[WEIGHTS], (int64_t[]){groups, each, depth}, 3);
  out = bp__op_binary(graph, node, "MatMul", rows, out);
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0], weights->shape[0]};
  memcpy(shape + 2, w.out, (size_t)w.rank * sizeof(*shape));
  out = bp__op_reshape(graph, node, out, shape, in->ndim);
  if (bias) {
    int64_t column[BP_GRAPH_MAX_NDIM] = {weights->shape[0], 1, 1, 1};
    out = bp__op_binary(graph, node, "Add", out,
                        bp__op_reshape(graph, node, bias, column, 1 + w.rank));
  }
  node->outputs[0] = out;
  return out ? 0 : -1;
}

/* ---- Col2Im ------------------------------------------------------------------------------ */

/* Reads the sizes of the blocks and of the picture; `out` of the window is set to the number of
 * blocks. */
static int read_blocks(const BpGraphNode *node, BpOpWindow *w) {
  int64_t image[BP_GRAPH_MAX_NDIM], pads[2 * BP_GRAPH_MAX_NDIM];
  int32_t rank = bp__op_const_ints(node, 1, image, BP_GRAPH_MAX_NDIM - 2), count;
  *w = (BpOpWindow){.rank = rank};
  if (rank < 0 || (count = bp__op_const_ints(node, 2, w->kernel, BP_GRAPH_MAX_NDIM - 2)) < 0)
    return -1;
  if (rank < 1 || count != rank)
    return bp__op_bad(node, "its image_shape and its block_shape have %d and %d numbers", rank,
                      count);
  if (bp__op_window_list(node, "strides", rank, 1, 1, w->strides) ||
      bp__op_window_list(node, "dilations", rank, 1, 1, w->dilations) ||
      bp__op_window_list(node, "pads", 2 * rank, 0, 0, pads))
    return -1;
  for (int32_t i = 0; i < rank; i++) {
    w->in[i] = image[i];
    w->pad_begin[i] = pads[i];
    if (image[i] < 1 || image[i] > INT32_MAX || w->kernel[i] < 1 || w->kernel[i] > INT32_MAX)
      return bp__op_bad(node, "its image_shape has %lld, its block_shape %lld", (long long)image[i],
                        (long long)w->kernel[i]);
    int64_t room = image[i] + pads[i] + pads[rank + i] - (w->kernel[i] - 1) * w->dilations[i] - 1;
    w->out[i] = room < 0 ? 0 : room / w->strides[i] + 1;
  }
  return 0;
}

/* Whether all `values` are positive and their product is `product`, even if the product
 * overflows. */
static bool has_product(const int64_t *values, int32_t count, int64_t product) {
  for (int32_t i = 0; i < count; i++) {
    if (values[i] < 1 || product % values[i] != 0)
      return false;
    product /= values[i];
  }
  return product == 1;
}

BP_ROW_INFER(col2im) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0]}, size = 1;
  char text[BP_VALUE_TEXT];
  BpOpWindow w;
  if (read_blocks(node, &w))
    return -1;
  if (in->dtype.code == BP_DTYPE_BOOL)
    return bp__op_error(node, "sums of bool are not supported");
  if (in->ndim != 3 || bp__extents_any_open(in->shape + 1, 2))
    return bp__op_bad(node, "its input is %s, not batches of columns of a known number",
                      bp__value_format(in, text));
  for (int32_t i = 0; i < w.rank && size <= in->shape[1]; i++)
    size *= w.kernel[i];
  if (in->shape[1] % size != 0 || !has_product(w.out, w.rank, in->shape[2]))
    return bp__op_bad(node,
                      "its input, %s, lacks a column for each block of its image, or its "
                      "rows are no multiple of the size of a block",
                      bp__value_format(in, text));
  shape[1] = in->shape[1] / size;
  memcpy(shape + 2, w.in, (size_t)w.rank * sizeof(*shape));
  return bp__node_set_output(graph, node, 0, in->dtype, shape, 2 + w.rank);
}

typedef struct Blocks {
  const BpOpCompute *op;
  BpOpWindow window;
} Blocks;

/* The sum of the elements of all blocks at a position of the picture. */
static const BpIrNode *col2im_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocks *blocks = context;
  const BpOpWindow *w = &blocks->window;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *places[BP_GRAPH_MAX_NDIM], *block[BP_GRAPH_MAX_NDIM], *inside = NULL;
  for (int32_t i = 0; i < w->rank; i++) {
    const BpIrNode *stride = x_index(ir, w->strides[i]), *start;
    places[i] = bp_te_reduce_axis(te, "place", w->kernel[i]);
    start = x_sub(ir, x_add(ir, axes[2 + i], x_index(ir, w->pad_begin[i])),
                  x_mul(ir, places[i], x_index(ir, w->dilations[i])));
    block[i] = bp_ir_binary(ir, BP_IR_FLOORDIV, start, stride);
    inside = both(ir, inside, is_inside(ir, block[i], w->out[i]));
    if (w->strides[i] > 1)
      inside = x_and(ir, inside,
                     bp_ir_binary(ir, BP_IR_EQ, bp_ir_binary(ir, BP_IR_FLOORMOD, start, stride),
                                  x_index(ir, 0)));
  }
  const BpIrNode *row = x_mul(ir, axes[1], x_index(ir, product_of(w->kernel, w->rank)));
  const BpIrNode *at[] = {axes[0], x_add(ir, row, flat_index(ir, places, w->kernel, w->rank)),
                          flat_index(ir, block, w->out, w->rank)};
  const BpIrNode *value = x_wide(ir, bp_te_read_if(te, blocks->op->inputs[0], at, inside));
  return bp_te_reduce(te, BP_TE_SUM, value, places, w->rank);
}

BP_ROW_COMPUTE(col2im) {
  const BpGraphValue *out = op->node->outputs[0];
  Blocks blocks = {.op = op};
  if (read_blocks(op->node, &blocks.window))
    return -1;
  return bp__op_give(outputs,
                     bp__op_tensor(op, "Col2Im", out->shape, out->ndim, col2im_body, &blocks));
}

/* ---- Col2Im by shapes that depend on the data -------------------------------------------- */

/* The sizes of the picture and of a block, and the number of blocks along each axis, as vectors. */
typedef struct BlocksOfData {
  int64_t rank;
  BpGraphValue *image, *block, *counts;
  int64_t strides[BP_GRAPH_MAX_NDIM], dilations[BP_GRAPH_MAX_NDIM], pads[2 * BP_GRAPH_MAX_NDIM];
} BlocksOfData;

static int read_blocks_of_data(BpVectorMaker m, BlocksOfData *b) {
  const BpGraphNode *node = m.node;
  int64_t count, padded[BP_GRAPH_MAX_NDIM];
  b->image = bp__vector_read(m, 1, BP_GRAPH_MAX_NDIM - 2, &b->rank);
  b->block = b->image ? bp__vector_read(m, 2, BP_GRAPH_MAX_NDIM - 2, &count) : NULL;
  if (!b->block)
    return -1;
  if (b->rank < 1 || count != b->rank)
    return bp__op_bad(node, "its image_shape and its block_shape have %d and %d numbers",
                      (int)b->rank, (int)count);
  int32_t rank = (int32_t)b->rank;
  if (bp__op_window_list(node, "strides", rank, 1, 1, b->strides) ||
      bp__op_window_list(node, "dilations", rank, 1, 1, b->dilations) ||
      bp__op_window_list(node, "pads", 2 * rank, 0, 0, b->pads))
    return -1;
  for (int32_t i = 0; i < rank; i++)
    padded[i] = b->pads[i] + b->pads[rank + i] - 1;
  BpGraphValue *one = v_number(m, 1), *zero = v_number(m, 0);
  BpGraphValue *span = v_binary(m, "Mul", v_binary(m, "Sub", b->block, one),
                                bp__graph_int_vector(m.graph, b->dilations, rank));
  BpGraphValue *room = v_binary(m, "Add", b->image, bp__graph_int_vector(m.graph, padded, rank));
  room = v_binary(m, "Sub", room, span);
  b->counts = v_binary(m, "Div", room, bp__graph_int_vector(m.graph, b->strides, rank));
  b->counts =
      v_choose(m, v_binary(m, "Less", room, zero), zero, v_binary(m, "Add", b->counts, one));
  return b->counts ? 0 : -1;
}

static BpGraphValue *view(BpVectorMaker m, BpGraphValue *value, const int64_t *shape,
                          int32_t ndim) {
  BpGraphValue *inputs[] = {value, bp__graph_int_vector(m.graph, shape, ndim)};
  return bp__op_apply(m.graph, "backplane", "ViewIn", m.node->name, inputs, 2, NULL, 0);
}

/* Binds the extents of the output after the first, and the size of a block after the channels. */
static BpGraphValue *bind_blocks(BpVectorMaker m, const BlocksOfData *b) {
  const BpGraphValue *in = m.node->inputs[0];
  BpGraphValue *both[] = {b->image, b->block};
  BpGraphValue *size = v_reduce(m, "ReduceProd", b->block);
  BpGraphValue *rows = v_extents(m, &in->shape[1], 1);
  BpGraphValue *channels = v_binary(m, "Div", rows, v_greatest(m, size, v_number(m, 1)));
  BpGraphValue *fits = v_binary(m, "Equal", v_binary(m, "Mul", channels, size), rows);
  fits = v_binary(
      m, "And", fits,
      v_binary(m, "Equal", v_reduce(m, "ReduceProd", b->counts), v_extents(m, &in->shape[2], 1)));
  BpGraphValue *all = v_join(m, both, 2);
  fits = v_binary(m, "And", fits,
                  v_binary(m, "GreaterOrEqual", v_reduce(m, "ReduceMin", all), v_number(m, 1)));
  fits =
      v_binary(m, "And", fits,
               v_binary(m, "LessOrEqual", v_reduce(m, "ReduceMax", all), v_number(m, INT32_MAX)));
  BpGraphValue *parts[] = {channels, size, b->image};
  return bp__op_bind(m.graph, m.node, v_choose(m, fits, v_join(m, parts, 3), v_number(m, -1)), NULL,
                     "its input lacks a column for each block of its image, or its rows are no "
                     "multiple of the size of a block");
}

/* Takes the last digit of a mixed-radix number; *rest is set to the other digits. */
static BpGraphValue *take_digit(BpVectorMaker m, BpGraphValue **rest, BpGraphValue *radix) {
  radix = v_greatest(m, radix, v_number(m, 1));
  BpGraphValue *digit = v_binary(m, "Mod", *rest, radix);
  *rest = v_binary(m, "Div", *rest, radix);
  return digit;
}

/* The position in the picture, with its axes fused, of each element of each column: (elements,
 * columns). Elements in the pads get a position beyond the picture's end. */
static BpGraphValue *places_of_elements(BpVectorMaker m, const BlocksOfData *b, int64_t elements,
                                        int64_t columns) {
  BpGraphValue *element = bp__op_counting(m.graph, m.node, elements);
  BpGraphValue *column = bp__op_counting(m.graph, m.node, columns);
  BpGraphValue *flat = v_number(m, 0), *size = v_number(m, 1), *inside = NULL;
  element = v_column(m, element);
  for (int64_t i = b->rank - 1; i >= 0; i--) {
    BpGraphValue *extent = bp__op_slice(m.graph, m.node, b->image, 0, i, i + 1);
    BpGraphValue *at =
        take_digit(m, &element, bp__op_slice(m.graph, m.node, b->block, 0, i, i + 1));
    BpGraphValue *start =
        take_digit(m, &column, bp__op_slice(m.graph, m.node, b->counts, 0, i, i + 1));
    at = v_binary(m, "Sub", v_binary(m, "Mul", at, v_number(m, b->dilations[i])),
                  v_number(m, b->pads[i]));
    at = v_binary(m, "Add", at, v_binary(m, "Mul", start, v_number(m, b->strides[i])));
    BpGraphValue *is_in = v_binary(m, "And", v_binary(m, "GreaterOrEqual", at, v_number(m, 0)),
                                   v_binary(m, "Less", at, extent));
    inside = inside ? v_binary(m, "And", inside, is_in) : is_in;
    flat = v_binary(m, "Add", flat, v_binary(m, "Mul", at, size));
    size = v_binary(m, "Mul", size, extent);
  }
  return v_choose(m, inside, flat, size);
}

/* Adds each element of each column to its position in the picture. */
int bp__bind_col2im(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0], *inputs[3];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0]}, flat[3] = {1, 1};
  BlocksOfData b;
  if (in->ndim != 3 || in->dtype.code == BP_DTYPE_BOOL)
    return bp__op_bad(node, "its input is no batch of columns of numbers");
  BpGraphValue *bound = read_blocks_of_data(m, &b) ? NULL : bind_blocks(m, &b);
  if (!bound)
    return -1;
  int32_t ndim = 2 + (int32_t)b.rank;
  shape[1] = v_extent(bound, 0);
  for (int32_t i = 2; i < ndim; i++)
    shape[i] = v_extent(bound, i);
  int64_t elements = v_extent(bound, 1);
  flat[2] = bp__extent_multiply(&m.graph->extents, elements, in->shape[2]);
  int64_t each[] = {shape[0], shape[1], flat[2]};
  int64_t all[] = {shape[0], shape[1], bp__extent_product(&m.graph->extents, shape + 2, ndim - 2)};
  if (flat[2] == BP_EXTENT_NONE || all[2] == BP_EXTENT_NONE)
    return -1;
  BpDataType dtype = bp_te_accumulator(in->dtype);
  inputs[0] = bp__op_unary(m.graph, node, "ConstantOfShape", v_extents(m, all, 3));
  inputs[0] = bp__op_cast(m.graph, node, inputs[0], dtype);
  inputs[1] = view(m, places_of_elements(m, &b, elements, in->shape[2]), flat, 3);
  inputs[1] = v_binary(m, "Expand", inputs[1], bp__graph_int_vector(m.graph, each, 3));
  inputs[2] = bp__op_cast(m.graph, node, view(m, in, each, 3), dtype);
  BpGraphAttr attrs[] = {
      bp__attr_int(m.graph, "axis", 2),
      {.name = "reduction", .type = BP_GRAPH_ATTR_STRING, .count = 1, .str = "add"}};
  BpGraphValue *out = bp__op_apply(m.graph, "", "ScatterElements", node->name, inputs, 3, attrs, 2);
  out = out ? view(m, out, shape, ndim) : NULL;
  node->outputs[0] = bp__op_cast(m.graph, node, out, in->dtype);
  return node->outputs[0] ? 1 : -1;
}
