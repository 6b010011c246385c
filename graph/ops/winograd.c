/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of stride one by Winograd's algorithm, in the blocked layout or the plain one: the
 * input is transformed tile by tile, one matrix product for each pair of points sums the channels,
 * and the sums are transformed back. graph/build/winograd.c decides which convolutions benefit. */
#include "graph/ops/winograd.h"

#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* ---- Matrices ---------------------------------------------------------------------------- */

static double power(double base, int32_t exponent) {
  double result = 1;
  while (exponent-- > 0)
    result *= base;
  return result;
}

/* The coefficients of the product of (x - point) over all points but `except`. */
static void expand_product(const double *points, int32_t count, int32_t except,
                           double *coefficients) {
  int32_t degree = 0;
  coefficients[0] = 1;
  for (int32_t i = 0; i < count; i++) {
    if (i == except)
      continue;
    coefficients[++degree] = 0;
    for (int32_t k = degree; k >= 0; k--)
      coefficients[k] = (k > 0 ? coefficients[k - 1] : 0) - points[i] * coefficients[k];
  }
}

void bp__winograd_init(BpWinograd *w, int32_t tile, int32_t taps) {
  static const double points[BP_WINOGRAD_MAX_POINTS - 1] = {0, 1, -1, 2, -2};
  memset(w, 0, sizeof(*w));
  w->tile = tile;
  w->taps = taps;
  w->points = tile + taps - 1;
  int32_t infinity = w->points - 1;
  for (int32_t p = 0; p < infinity; p++) {
    double scale = 1;
    for (int32_t other = 0; other < infinity; other++)
      scale *= other == p ? 1 : points[p] - points[other];
    expand_product(points, infinity, p, w->input[p]);
    for (int32_t k = 0; k < taps; k++)
      w->filter[p][k] = power(points[p], k) / scale;
    for (int32_t k = 0; k < tile; k++)
      w->output[k][p] = power(points[p], k);
  }
  expand_product(points, infinity, -1, w->input[infinity]);
  w->filter[infinity][taps - 1] = 1;
  w->output[tile - 1][infinity] = 1;
}

/* ---- Transforms -------------------------------------------------------------------------- */

/* sum + factor * value; a NULL sum is zero. */
static const BpIrNode *add_scaled(BpIrModule *ir, const BpIrNode *sum, double factor,
                                  const BpIrNode *value) {
  double size = factor < 0 ? -factor : factor;
  const BpIrNode *term = size == 1 ? value : x_mul(ir, value, x_number(ir, x_dtype(value), size));
  if (!sum)
    return factor < 0 ? x_mul(ir, value, x_number(ir, x_dtype(value), factor)) : term;
  return factor < 0 ? x_sub(ir, sum, term) : x_add(ir, sum, term);
}

/* One element of B' times `values`. The rows of points p and -p have the same terms of even index
 * and opposite terms of odd index: both rows use the same two sums, which are computed once. */
static const BpIrNode *transform_input(BpIrModule *ir, const BpWinograd *w, int32_t point,
                                       const BpIrNode *const *values) {
  const BpIrNode *even = NULL, *odd = NULL;
  double sign = 0;
  for (int32_t i = w->points - 1; i >= 0; i--) {
    double factor = w->input[point][i];
    if (factor == 0)
      continue;
    if (i % 2 && sign == 0)
      sign = factor < 0 ? -1 : 1;
    if (i % 2)
      odd = add_scaled(ir, odd, sign * factor, values[i]);
    else
      even = add_scaled(ir, even, factor, values[i]);
  }
  if (!even || !odd)
    return even ? even : add_scaled(ir, NULL, sign, odd);
  return sign < 0 ? x_sub(ir, even, odd) : x_add(ir, even, odd);
}

/* One element of A' times `values`. Points p and -p have equal or opposite powers, so that their
 * sum and their difference serve all outputs. */
static const BpIrNode *transform_output(BpIrModule *ir, const BpWinograd *w, int32_t output,
                                        const BpIrNode *const *values) {
  const BpIrNode *sum = NULL;
  for (int32_t p = 0; p < w->points; p++) {
    double factor = w->output[output][p];
    const BpIrNode *value = values[p];
    if (p % 2 && p + 2 < w->points) {
      value = factor == w->output[output][p + 1] ? x_add(ir, values[p], values[p + 1])
                                                 : x_sub(ir, values[p], values[p + 1]);
      p++;
    }
    if (factor != 0)
      sum = add_scaled(ir, sum, factor, value);
  }
  return sum;
}

/* Element `index`, below `count`, of a transform: loops over the index are unrolled, after which
 * one of the expressions is left. */
typedef const BpIrNode *(*Transform)(BpIrModule *ir, const BpWinograd *w, int32_t element,
                                     const BpIrNode *const *values);

static const BpIrNode *choose_element(BpIrModule *ir, const BpWinograd *w, Transform transform,
                                      int32_t count, const BpIrNode *index,
                                      const BpIrNode *const *values) {
  const BpIrNode *chosen = transform(ir, w, count - 1, values);
  for (int32_t i = count - 2; i >= 0; i--)
    chosen = bp_ir_select(ir, bp_ir_binary(ir, BP_IR_EQ, index, x_index(ir, i)),
                          transform(ir, w, i, values), chosen);
  return chosen;
}

/* ---- The operator ------------------------------------------------------------------------ */

/* The number of tiles for which the operator allocates memory, for a plain image. The number is an
 * odd multiple of four: four neighbours can be read and written at a time, and a tile's points do
 * not all map to one set of a cache. */
static int64_t tiles_of_image(int64_t tiles) {
  int64_t fours = (tiles + BP_WINOGRAD_MULTIPLE - 1) / BP_WINOGRAD_MULTIPLE;
  return BP_WINOGRAD_MULTIPLE * (fours | 1);
}

/* ConvWinograd. The attributes of ConvWinograd, all present, are: tile, the outputs of a tile along
 * height and width; pads; and the channels of the input, which is blocked or plain. A block of a
 * plain input is a channel. Weights, transformed when compiling: (points along height, width,
 * blocks out, blocks in, block in, block out) where for a plain input all channels of the output
 * are one block. */
typedef struct Winograd {
  const BpOpCompute *op;
  int is_plain;
  BpWinograd height, width;
  int64_t pads[4];
  int64_t out[2], tiles[2]; /* outputs and number of tiles along height and width */
  int64_t grid[2];          /* extents of the tiles in the transformed tensors; one row for a plain
                             * image */
  BpTeTensor *before;       /* input of the current stage */
} Winograd;

/* Reads the attributes; the extents of a plain image must be numbers. */
static int read_winograd(BpExtents *extents, const BpGraphNode *node, Winograd *w) {
  const int64_t *points = node->inputs[1]->shape;
  int64_t tile[2];
  if (bp__op_ints(node, -1, "tile", tile, 2) != 2 || bp__op_ints(node, -1, "pads", w->pads, 4) != 4)
    return bp__op_bad(node, "an attribute is missing");
  for (int32_t i = 0; i < 2; i++)
    if (tile[i] < 1 || points[i] < tile[i] || points[i] > BP_WINOGRAD_MAX_POINTS)
      return bp__op_bad(node, "its weights do not fit its tile");
  bp__winograd_init(&w->height, (int32_t)tile[0], (int32_t)(points[0] - tile[0] + 1));
  bp__winograd_init(&w->width, (int32_t)tile[1], (int32_t)(points[1] - tile[1] + 1));
  for (int32_t i = 0; i < 2; i++) {
    int64_t more = w->pads[i] + w->pads[2 + i] - (points[i] - tile[i]);
    w->out[i] = bp__extent_add(extents, node->inputs[0]->shape[2 + i], more);
    w->tiles[i] =
        bp__extent_divide(extents, bp__extent_add(extents, w->out[i], tile[i] - 1), tile[i]);
    w->grid[i] = w->tiles[i];
    if (w->grid[i] == BP_EXTENT_NONE)
      return -1;
  }
  w->is_plain = node->inputs[0]->ndim == 4;
  if (w->is_plain) {
    w->grid[0] = 1;
    w->grid[1] = tiles_of_image(w->tiles[0] * w->tiles[1]);
  }
  return 0;
}

BP_ROW_INFER(conv_winograd) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  Winograd w;
  if (read_winograd(&graph->extents, node, &w))
    return -1;
  int64_t shape[5] = {in->shape[0], weights->shape[w.is_plain ? 5 : 2], w.out[0], w.out[1],
                      weights->shape[5]};
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim);
}

/* The input with its padding, up to the end of the last tile. */
static const BpIrNode *padded_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const int64_t *shape = w->op->node->inputs[0]->shape;
  const BpIrNode *y = x_sub(ir, axes[2], x_index(ir, w->pads[0]));
  const BpIrNode *x = x_sub(ir, axes[3], x_index(ir, w->pads[1]));
  const BpIrNode *indices[5] = {axes[0], axes[1], y, x, axes[4]}, *zero = x_index(ir, 0);
  const BpIrNode *height = bp__op_extent(w->op, shape[2]), *width = bp__op_extent(w->op, shape[3]);
  const BpIrNode *rows = x_and(ir, x_ge(ir, y, zero), x_lt(ir, y, height));
  const BpIrNode *columns = x_and(ir, x_ge(ir, x, zero), x_lt(ir, x, width));
  return x_wide(ir, bp_te_read_if(te, w->before, indices, x_and(ir, rows, columns)));
}

/* The first element, along height and width, of the tile at a position of the grid. */
static void tile_origin(BpIrModule *ir, const Winograd *w, const BpIrNode *const *place,
                        const BpIrNode *origin[2]) {
  const BpIrNode *columns = x_index(ir, w->tiles[1]);
  const BpIrNode *y = w->is_plain ? bp_ir_binary(ir, BP_IR_FLOORDIV, place[1], columns) : place[0];
  const BpIrNode *x = w->is_plain ? bp_ir_binary(ir, BP_IR_FLOORMOD, place[1], columns) : place[1];
  origin[0] = x_mul(ir, y, x_index(ir, w->height.tile));
  origin[1] = x_mul(ir, x, x_index(ir, w->width.tile));
}

/* The rows of the transformed input: [n, block, tile y, tile x, row, point, channel] of [n, block,
 * y, x, channel]. */
static const BpIrNode *input_rows_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *values[BP_WINOGRAD_MAX_POINTS], *origin[2];
  tile_origin(ir, w, axes + 2, origin);
  for (int32_t i = 0; i < w->width.points; i++) {
    const BpIrNode *y = x_add(ir, origin[0], axes[4]), *x = x_add(ir, origin[1], x_index(ir, i));
    const BpIrNode *indices[5] = {axes[0], axes[1], y, x, axes[6]};
    values[i] = bp_te_read(te, w->before, indices);
  }
  return choose_element(ir, &w->width, transform_input, w->width.points, axes[5], values);
}

/* The transformed input: [n, point y, point x, block, tile y, tile x, channel] of its transformed
 * rows. */
static const BpIrNode *input_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *values[BP_WINOGRAD_MAX_POINTS];
  for (int32_t i = 0; i < w->height.points; i++) {
    const BpIrNode *indices[7] = {axes[0],        axes[3], axes[4], axes[5],
                                  x_index(ir, i), axes[2], axes[6]};
    values[i] = bp_te_read(te, w->before, indices);
  }
  return choose_element(ir, &w->height, transform_input, w->height.points, axes[1], values);
}

/* The product, with the dimensions of the transformed input but the blocks of the output, reduced
 * over the channels of the input. */
static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  const int64_t *extents = w->op->node->inputs[1]->shape;
  int64_t channels = bp__node_int(w->op->node, "channels", 1);
  const BpIrNode *reduce[2], *at[2];
  int32_t count = bp__reduce_channels(te, channels, extents[4], reduce, at);
  const BpIrNode *x[7] = {axes[0], axes[1], axes[2], at[0], axes[4], axes[5], at[1]};
  const BpIrNode *u[6] = {axes[1], axes[2], w->is_plain ? x_index(bp_te_ir(te), 0) : axes[3],
                          at[0],   at[1],   w->is_plain ? axes[3] : axes[6]};
  return bp_te_reduce(te, BP_TE_SUM,
                      x_mul(bp_te_ir(te), bp_te_read(te, w->before, x),
                            x_wide(bp_te_ir(te), bp_te_read(te, w->op->inputs[1], u))),
                      reduce, count);
}

/* The rows of the output: [n, block, tile y, tile x, row, point, channel] of the product. */
static const BpIrNode *output_rows_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *values[BP_WINOGRAD_MAX_POINTS];
  const BpIrNode *y = axes[2], *x = axes[3];
  if (w->is_plain) {
    x = x_add(ir, x_mul(ir, y, x_index(ir, w->tiles[1])), x);
    y = x_index(ir, 0);
  }
  for (int32_t i = 0; i < w->height.points; i++) {
    const BpIrNode *indices[7] = {axes[0], x_index(ir, i), axes[5], axes[1], y, x, axes[6]};
    values[i] = bp_te_read(te, w->before, indices);
  }
  return choose_element(ir, &w->height, transform_output, w->height.tile, axes[4], values);
}

/* The values of the tiles: [n, block, tile y, tile x, row, column, channel] of their rows. */
static const BpIrNode *tiles_out_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *values[BP_WINOGRAD_MAX_POINTS];
  for (int32_t i = 0; i < w->width.points; i++) {
    const BpIrNode *indices[7] = {axes[0], axes[1],        axes[2], axes[3],
                                  axes[4], x_index(ir, i), axes[6]};
    values[i] = bp_te_read(te, w->before, indices);
  }
  return choose_element(ir, &w->width, transform_output, w->width.tile, axes[5], values);
}

/* The channel, in its block, of an element of the output. */
static const BpIrNode *channel_of(BpIrModule *ir, const Winograd *w, const BpIrNode *const *axes) {
  return w->is_plain ? x_index(ir, 0) : axes[4];
}

/* The output: [n, block, y, x, channel] of its tiles. */
static const BpIrNode *output_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *rows = x_index(ir, w->height.tile), *columns = x_index(ir, w->width.tile);
  const BpIrNode *indices[7] = {axes[0],
                                axes[1],
                                bp_ir_binary(ir, BP_IR_FLOORDIV, axes[2], rows),
                                bp_ir_binary(ir, BP_IR_FLOORDIV, axes[3], columns),
                                bp_ir_binary(ir, BP_IR_FLOORMOD, axes[2], rows),
                                bp_ir_binary(ir, BP_IR_FLOORMOD, axes[3], columns),
                                channel_of(ir, w, axes)};
  return bp_te_read(te, w->before, indices);
}

static const BpIrNode *bias_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Winograd *w = context;
  const BpIrNode *indices[2] = {axes[1], channel_of(bp_te_ir(te), w, axes)};
  return x_add(bp_te_ir(te), bp_te_read(te, w->before, axes),
               x_wide(bp_te_ir(te), bp_te_read(te, w->op->inputs[2], indices)));
}

static BpTeTensor *stage(Winograd *w, const char *name, const int64_t *shape, int32_t ndim,
                         BpTeBody body) {
  if (w->before)
    w->before = bp__op_tensor(w->op, name, shape, ndim, body, w);
  return w->before;
}

BP_ROW_COMPUTE(conv_winograd) {
  const int64_t *in = op->node->inputs[0]->shape, *out = op->node->outputs[0]->shape;
  BpTransformStages ignored = {.tile = {0}}, *made = op->transforms ? op->transforms : &ignored;
  Winograd w = {.op = op, .before = op->inputs[0]};
  if (read_winograd(op->extents, op->node, &w))
    return -1;
  int64_t ty = w.grid[0], tx = w.grid[1], py = w.height.points, px = w.width.points;
  int64_t a = w.is_plain ? 1 : in[4], b = w.is_plain ? 1 : out[4];
  /* The grid of a plain image may end in tiles below the image's last row of tiles. */
  int64_t tile_rows = w.is_plain ? (tx + w.tiles[1] - 1) / w.tiles[1] : ty;
  int64_t rows = bp__extent_add(
      op->extents, bp__extent_multiply(op->extents, tile_rows, w.height.tile), w.height.taps - 1);
  int64_t columns = bp__extent_add(
      op->extents, bp__extent_multiply(op->extents, w.tiles[1], w.width.tile), w.width.taps - 1);
  made->tile[0] = w.height.tile;
  made->tile[1] = w.width.tile;
  made->padded = stage(&w, "padded", (int64_t[]){in[0], in[1], rows, columns, a}, 5, padded_body);
  made->input_rows =
      stage(&w, "rows_in", (int64_t[]){in[0], in[1], ty, tx, py, px, a}, 7, input_rows_body);
  made->input = stage(&w, "tiles_in", (int64_t[]){in[0], py, px, in[1], ty, tx, a}, 7, input_body);
  made->product =
      stage(&w, "product", (int64_t[]){in[0], py, px, out[1], ty, tx, b}, 7, product_body);
  made->output_rows = stage(
      &w, "rows_out", (int64_t[]){in[0], out[1], w.tiles[0], w.tiles[1], w.height.tile, px, b}, 7,
      output_rows_body);
  stage(&w, "tiles_out",
        (int64_t[]){in[0], out[1], w.tiles[0], w.tiles[1], w.height.tile, w.width.tile, b}, 7,
        tiles_out_body);
  stage(&w, "conv", out, op->node->outputs[0]->ndim, output_body);
  return bp__op_give(outputs, op->inputs[2]
                                  ? stage(&w, "bias", out, op->node->outputs[0]->ndim, bias_body)
                                  : w.before);
}
