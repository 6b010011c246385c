/* SPDX-License-Identifier: Apache-2.0 */
/* Layout choice: on targets with vectors, convolutions and the nodes after them work on
 * channel-blocked tensors (graph/ops/blocked.c). A tensor changes layout where an operator needs
 * the other layout, and at most once each way. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/build/byte_products.h"
#include "graph/build/winograd.h"
#include "graph/ops/op.h"
#include "graph/ops/rows.h"

/* The minimum number of floats in a vector, and of channels in a block, for which blocks pay. */
#define FEWEST_LANES 4
/* The number of dimensions of a blocked tensor, (n, c / b, h, w, b). */
#define BLOCKED_NDIM 5
/* The number of dimensions of a blocked tensor as ConvToSpace makes it, before a view joins the
 * dimensions: (n, c / b, h, k, w, k, b). */
#define PLACES_NDIM 7

/* The number of bytes of a row that a change of the layout moves together. */
#define PIXELS_TOGETHER 8

typedef struct Layout {
  BpGraph *graph;
  const BpTarget *target;
  int64_t lanes;          /* float32 in a vector; channels in a block of any type */
  int64_t threads;        /* number of threads in lock-step */
  BpGraphValue **plain;   /* replacement in the plain layout, by a value's old id, or NULL */
  BpGraphValue **blocked; /* replacement in the blocked layout, by a value's old id, or NULL */
  int32_t count;
} Layout;

/* ---- Constants in the layout ------------------------------------------------------------- */

/* The number of channels in a block: as many as a vector has lanes, or fewer if the tensor has
 * fewer channels. */
static int64_t block_of(const Layout *layout, int64_t channels) {
  int64_t block = layout->lanes;
  while (block > FEWEST_LANES && block / 2 >= channels)
    block /= 2;
  return block;
}

/* Packs dense weights (out, in, h, w) as (out / b, in / a, h, w, a, b), with zeros beyond the
 * channels. */
static BpGraphValue *pack_dense(BpGraph *graph, const BpGraphValue *from, int64_t a, int64_t b) {
  const int64_t *s = from->shape;
  int64_t shape[6] = {bp__build_blocks(s[0], b), bp__build_blocks(s[1], a), s[2], s[3], a, b},
          taps = s[2] * s[3];
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 6, NULL);
  for (int64_t o = 0; to && o < s[0]; o++)
    for (int64_t i = 0; i < s[1]; i++)
      for (int64_t t = 0; t < taps; t++)
        bp__value_copy_element(to,
                               ((((o / b) * shape[1] + i / a) * taps + t) * a + i % a) * b + o % b,
                               from, (o * s[1] + i) * taps + t);
  return to;
}

/* Packs depthwise weights (channels, 1, h, w) as (channels / b, h, w, b). */
static BpGraphValue *pack_depthwise(BpGraph *graph, const BpGraphValue *from, int64_t b) {
  const int64_t *s = from->shape;
  int64_t shape[4] = {bp__build_blocks(s[0], b), s[2], s[3], b}, taps = s[2] * s[3];
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 4, NULL);
  for (int64_t o = 0; to && o < s[0]; o++)
    for (int64_t t = 0; t < taps; t++)
      bp__value_copy_element(to, ((o / b) * taps + t) * b + o % b, from, o * taps + t);
  return to;
}

static BpGraphValue *pack_bias(BpGraph *graph, const BpGraphValue *from, int64_t b) {
  int64_t shape[2] = {bp__build_blocks(from->shape[0], b), b};
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 2, NULL);
  if (to)
    memcpy(bp__graph_constant_data(to), from->data, (size_t)bp__value_num_bytes(from));
  return to;
}

/* ---- Between the layouts ----------------------------------------------------------------- */

static BpGraphValue *reshape(Layout *layout, BpGraphValue *value, const int64_t *shape,
                             int32_t ndim) {
  BpGraphNode named = {.name = value ? value->name : NULL};
  return bp__op_reshape(layout->graph, &named, value, shape, ndim);
}

static BpGraphValue *unblock(Layout *layout, BpGraphValue *blocked, int64_t channels) {
  const int64_t *s = blocked->shape;
  BpGraphAttr attr = bp__attr_int(layout->graph, "channels", channels);
  if (s[2] == 1 && s[3] == 1 && s[1] * s[4] == channels)
    return reshape(layout, blocked, (int64_t[]){s[0], channels, 1, 1}, 4);
  return bp__op_apply(layout->graph, "backplane", "Unblock", blocked->name, &blocked, 1, &attr, 1);
}

/* Whether a plain tensor's rows end with a partial vector, which would take most of the time of a
 * change of the layout: the rows then move as one row of all pixels. */
static int has_short_rows(const BpGraphValue *plain) {
  return plain->dtype.bits == 8 && !bp__extents_any_open(plain->shape + 2, 2) &&
         plain->shape[3] % PIXELS_TOGETHER != 0;
}

static BpGraphValue *block(Layout *layout, BpGraphValue *plain) {
  int64_t b = block_of(layout, plain->shape[1]);
  const int64_t *s = plain->shape;
  BpGraphAttr attr = bp__attr_int(layout->graph, "block", b);
  if (s[2] == 1 && s[3] == 1 && s[1] % b == 0)
    return reshape(layout, plain, (int64_t[]){s[0], s[1] / b, 1, 1, b}, BLOCKED_NDIM);
  if (!has_short_rows(plain))
    return bp__op_apply(layout->graph, "backplane", "Block", plain->name, &plain, 1, &attr, 1);
  plain = reshape(layout, plain, (int64_t[]){s[0], s[1], 1, s[2] * s[3]}, 4);
  if (!plain)
    return NULL;
  plain = bp__op_apply(layout->graph, "backplane", "Block", plain->name, &plain, 1, &attr, 1);
  return plain ? reshape(layout, plain, (int64_t[]){s[0], plain->shape[1], s[2], s[3], b},
                         BLOCKED_NDIM)
               : NULL;
}

/* Records the number of channels of a blocked value. */
static BpGraphValue *with_channels(BpGraphValue *blocked, const BpGraphValue *plain) {
  if (blocked && blocked->ndim == BLOCKED_NDIM)
    blocked->channels = plain->shape[1];
  return blocked;
}

/* The replacement, in the plain layout, of a value from before the pass. */
static BpGraphValue *plain_of(Layout *layout, BpGraphValue *value) {
  if (!value || value->id >= layout->count)
    return value;
  if (!layout->plain[value->id])
    layout->plain[value->id] = layout->blocked[value->id]
                                   ? unblock(layout, layout->blocked[value->id], value->shape[1])
                                   : value;
  return layout->plain[value->id];
}

static BpGraphValue *blocked_of(Layout *layout, BpGraphValue *value) {
  if (value->id >= layout->count)
    return block(layout, value);
  if (!layout->blocked[value->id])
    layout->blocked[value->id] = with_channels(block(layout, plain_of(layout, value)), value);
  return layout->blocked[value->id];
}

static int is_blocked(const Layout *layout, const BpGraphValue *value) {
  return value && value->id < layout->count && layout->blocked[value->id];
}

/* Sets the blocked replacement of the node's output: 1, or -1 if `blocked` is NULL. */
static int set_blocked(Layout *layout, const BpGraphNode *node, BpGraphValue *blocked) {
  layout->blocked[node->outputs[0]->id] = with_channels(blocked, node->outputs[0]);
  return blocked ? 1 : -1;
}

/* Reshapes the output of ConvToSpace, or a value computed from it, to the blocked form of
 * `plain`. */
static BpGraphValue *reshape_blocked(Layout *layout, BpGraphValue *value,
                                     const BpGraphValue *plain) {
  if (!value)
    return NULL;
  return reshape(layout, value,
                 (int64_t[]){value->shape[0], value->shape[1], plain->shape[2], plain->shape[3],
                             value->shape[PLACES_NDIM - 1]},
                 BLOCKED_NDIM);
}

/* ---- Operators: 1 if the node was made blocked, 0 if it stays plain ---------------------- */

static BpGraphAttr list_attr(Layout *layout, const char *name, const int64_t *a, int32_t na,
                             const int64_t *b, int32_t nb) {
  int64_t *list = bp__arena_alloc_array(&layout->graph->arena, (size_t)(na + nb), sizeof(*list));
  if (list) {
    memcpy(list, a, (size_t)na * sizeof(*list));
    if (nb > 0)
      memcpy(list + na, b, (size_t)nb * sizeof(*list));
  }
  return bp__attr_ints(name, list, list ? na + nb : 0);
}

/* An attribute with the number of channels of a convolution's input, whose blocks may have spare
 * channels. */
static BpGraphAttr channels_attr(Layout *layout, const BpGraphNode *conv) {
  return bp__attr_int(layout->graph, "channels", conv->inputs[0]->shape[1]);
}

/* The maximum number of channels of an input that stays plain; an input with more is blocked
 * first. */
#define MAX_PLAIN_CHANNELS 4

static int is_blockable_conv(const BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  int64_t groups = bp__node_int(node, "group", 1);
  return in->ndim == 4 && bp__dtype_is_float(in->dtype) && weights->data &&
         bp__value_num_elements(node->outputs[0]) != 0 &&
         (!bp__node_input(node, 2) || node->inputs[2]->data) &&
         (groups == 1 || (groups == in->shape[1] && groups == weights->shape[0] && groups > 1));
}

/* Computes the rows from `first` up to `end` of the output by transforms; the window has smaller
 * pads where rows of the input are left out. */
static BpGraphValue *apply_slice(Layout *layout, const BpGraphNode *node, const BpOpWindow *window,
                                 const BpWinogradPlan *plan, BpGraphValue **inputs, int64_t first,
                                 int64_t end) {
  int64_t begin_pads[2] = {window->pad_begin[0] - first, window->pad_begin[1]};
  int64_t end_pads[2] = {window->pad_end[0] - (window->out[0] - end), window->pad_end[1]};
  BpGraphAttr attrs[3] = {list_attr(layout, "tile", plan->tile, 2, NULL, 0),
                          list_attr(layout, "pads", begin_pads, 2, end_pads, 2),
                          channels_attr(layout, node)};
  return bp__op_apply(layout->graph, "backplane", "ConvWinograd", node->name, inputs,
                      bp__node_input(node, 2) ? 3 : 2, attrs, 3);
}

/* Computes a convolution by transforms if they pay: returns 1 with *result, which is NULL with an
 * error, or 0 if they do not pay. *inputs are the operator's inputs without the weights. */
static int apply_winograd(Layout *layout, const BpGraphNode *node, const BpWinogradSite *site,
                          BpGraphValue **inputs, BpGraphValue **result) {
  BpGraphValue *slices[BP_WINOGRAD_MOST_SLICES];
  BpGraphAttr axis = bp__attr_int(layout->graph, "axis", 2);
  BpWinogradPlan plan;
  int32_t count = 0;
  if (!bp__winograd_pays(site, &plan))
    return 0;
  inputs[1] = bp__winograd_weights(layout->graph, node->inputs[1], plan.tile, site);
  const BpOpWindow *window = site->window;
  bool is_open = bp__extent_is_open(window->out[0]);
  if (is_open)
    *result = apply_slice(layout, node, window, &plan, inputs, 0, window->out[0]);
  for (int64_t first = 0; !is_open && first < window->out[0]; first += plan.rows) {
    int64_t end = first + plan.rows < window->out[0] ? first + plan.rows : window->out[0];
    *result = slices[count++] = apply_slice(layout, node, window, &plan, inputs, first, end);
    if (!*result)
      return 1;
  }
  if (count > 1)
    *result = bp__op_apply(layout->graph, "", "Concat", node->name, slices, count, &axis, 1);
  return 1;
}

static int convert_winograd(Layout *layout, const BpGraphNode *node, const BpOpWindow *window,
                            BpGraphValue **inputs) {
  int64_t channels = node->inputs[1]->shape[0], b = block_of(layout, channels);
  const int64_t *in = inputs[0]->shape;
  BpWinogradSite site = {.target = layout->target,
                         .window = window,
                         .in_blocks = in[1],
                         .in_block = in[4],
                         .out_blocks = bp__build_blocks(channels, b),
                         .out_block = b,
                         .threads = 1,
                         .images = bp__extent_is_open(in[0]) ? 1 : in[0]};
  BpGraphValue *result;
  if (bp__extents_any_open(window->pad_begin, 2) || bp__extents_any_open(window->pad_end, 2))
    return 0;
  for (int32_t i = 0; i < 2; i++)
    site.out[i] = bp__extent_likely(&layout->graph->extents, window->out[i]);
  return apply_winograd(layout, node, &site, inputs, &result) ? set_blocked(layout, node, result)
                                                              : 0;
}

/* Converts a convolution for threads in lock-step: layouts stay plain, and Winograd's transforms
 * read plain images. */
static int convert_plain_conv(Layout *layout, BpGraphNode *node) {
  const int64_t *weights = node->inputs[1]->shape;
  BpGraphValue **result = &layout->plain[node->outputs[0]->id];
  BpGraphValue *inputs[3] = {plain_of(layout, node->inputs[0]), NULL, bp__node_input(node, 2)};
  BpOpWindow window;
  if (!is_blockable_conv(node) || bp__node_int(node, "group", 1) > 1)
    return 0;
  if (!inputs[0] || bp__op_window(&layout->graph->extents, node, weights + 2, &window))
    return -1;
  if (!bp__op_window_is_closed(&window))
    return 0;
  BpWinogradSite site = {.target = layout->target,
                         .window = &window,
                         .in_blocks = weights[1],
                         .in_block = 1,
                         .out_blocks = 1,
                         .out_block = weights[0],
                         .threads = layout->threads,
                         .images = inputs[0]->shape[0],
                         .out = {window.out[0], window.out[1]}};
  if (!apply_winograd(layout, node, &site, inputs, result))
    return 0;
  return *result ? 1 : -1;
}

/* Whether a convolution takes less time than a change of its output's layout: it has few products
 * for each element, and its output is an output of the graph. */
static int is_light(const Layout *layout, const BpGraphNode *node, const BpOpWindow *window) {
  const BpList *outputs = &layout->graph->outputs;
  if (node->inputs[1]->shape[1] * window->kernel[0] * window->kernel[1] > MAX_PLAIN_CHANNELS ||
      is_blocked(layout, node->inputs[0]) || node->outputs[0]->num_uses != 1)
    return 0;
  for (size_t i = 0; i < outputs->size; i++)
    if (outputs->items[i] == node->outputs[0])
      return 1;
  return 0;
}

/* Writes the attributes of the window of a ConvBlocked to attrs[0] to attrs[2]. */
static void put_window_attrs(Layout *layout, const BpOpWindow *w, BpGraphAttr *attrs) {
  attrs[0] = list_attr(layout, "strides", w->strides, 2, NULL, 0);
  attrs[1] = list_attr(layout, "pads", w->pad_begin, 2, w->pad_end, 2);
  attrs[2] = list_attr(layout, "dilations", w->dilations, 2, NULL, 0);
}

/* Converts a convolution of bytes: a word has four neighbouring channels of a block. Spare channels
 * meet weights of 0. */
static int convert_byte_conv(Layout *layout, const BpGraphNode *node, const BpByteConv *bytes) {
  int64_t b = block_of(layout, node->inputs[1]->shape[0]);
  BpGraphValue *x = bp__bytes_unsigned(layout->graph, node, blocked_of(layout, bytes->x));
  uint8_t zero = bp__bytes_unsigned_zero(bytes);
  BpOpWindow w;
  if (!x || bp__op_window(&layout->graph->extents, node, node->inputs[1]->shape + 2, &w))
    return -1;
  BpGraphValue *inputs[3] = {
      bp__op_apply(layout->graph, "backplane", "Words", node->name, &x, 1, NULL, 0),
      bp__bytes_conv_weights(layout->graph, node, x->shape[4], b),
      bp__bytes_conv_bias(layout->graph, node, zero, b)};
  BpGraphAttr attrs[6];
  put_window_attrs(layout, &w, attrs);
  attrs[3] = bp__attr_int(layout->graph, "channels", x->shape[1] * x->shape[4] / 4);
  attrs[4] = bp__attr_int(layout->graph, "is_dot", 1);
  attrs[5] = bp__attr_int(layout->graph, "pad", (int32_t)(zero * UINT32_C(0x01010101)));
  /* Without padding the function is that of convolutions with other zero points. */
  bool is_padded = w.pad_begin[0] || w.pad_begin[1] || w.pad_end[0] || w.pad_end[1];
  return set_blocked(layout, node,
                     bp__op_apply(layout->graph, "backplane", "ConvBlocked", node->name, inputs, 3,
                                  attrs, is_padded ? 6 : 5));
}

/* Converts a convolution of each channel of bytes: one of float32, whose sums are exact. */
static int convert_byte_depthwise(Layout *layout, const BpGraphNode *node,
                                  const BpByteConv *bytes) {
  BpGraph *graph = layout->graph;
  int64_t b = block_of(layout, node->inputs[1]->shape[0]);
  BpGraphValue *inputs[3] = {blocked_of(layout, bytes->x)}, *bias = bp__node_input(node, 2);
  BpGraphValue *weights = bp__op_cast(graph, node, node->inputs[1], BP__FLOAT32);
  BpGraphAttr attrs[5];
  BpOpWindow w;
  bias = bp__op_cast(graph, node, bias, BP__FLOAT32);
  if (weights && (!weights->data || (bias && !bias->data)))
    return 0; /* a limit of constants is reached */
  if (!inputs[0] || !weights || (bp__node_input(node, 2) && !bias) ||
      bp__op_window(&graph->extents, node, node->inputs[1]->shape + 2, &w))
    return -1;
  inputs[1] = pack_depthwise(graph, weights, b);
  inputs[2] = bias ? pack_bias(graph, bias, b) : NULL;
  put_window_attrs(layout, &w, attrs);
  attrs[3] = channels_attr(layout, node);
  attrs[4] = bp__attr_int(graph, "zero", bytes->zero);
  BpGraphValue *sums =
      bp__op_apply(graph, "backplane", "ConvBlocked", node->name, inputs, bias ? 3 : 2, attrs, 5);
  return set_blocked(layout, node, bp__op_cast(graph, node, sums, node->outputs[0]->dtype));
}

static int convert_conv(Layout *layout, BpGraphNode *node) {
  const BpGraphValue *weights = node->inputs[1];
  int64_t channels = node->inputs[0]->shape[1], b = block_of(layout, weights->shape[0]);
  int depthwise = bp__node_int(node, "group", 1) > 1;
  BpGraphValue *inputs[3] = {NULL};
  BpGraphAttr attrs[4];
  BpByteConv bytes;
  BpOpWindow w;
  if (bp__bytes_read_conv(layout->target, node, &bytes))
    return convert_byte_conv(layout, node, &bytes);
  if (bp__bytes_read_depthwise(node, &bytes))
    return convert_byte_depthwise(layout, node, &bytes);
  if (!is_blockable_conv(node))
    return 0;
  if (bp__op_window(&layout->graph->extents, node, weights->shape + 2, &w))
    return -1;
  if (!depthwise && is_light(layout, node, &w))
    return 0;
  if (!depthwise && channels <= MAX_PLAIN_CHANNELS && !is_blocked(layout, node->inputs[0]))
    inputs[0] = plain_of(layout, node->inputs[0]);
  else
    inputs[0] = blocked_of(layout, node->inputs[0]);
  if (!inputs[0])
    return -1;
  if (bp__node_input(node, 2))
    inputs[2] = pack_bias(layout->graph, node->inputs[2], b);
  if (!depthwise && inputs[0]->ndim == BLOCKED_NDIM) {
    int converted = convert_winograd(layout, node, &w, inputs);
    if (converted)
      return converted;
  }
  inputs[1] = depthwise ? pack_depthwise(layout->graph, weights, b)
                        : pack_dense(layout->graph, weights,
                                     inputs[0]->ndim == BLOCKED_NDIM ? inputs[0]->shape[4] : 1, b);
  put_window_attrs(layout, &w, attrs);
  attrs[3] = channels_attr(layout, node);
  return set_blocked(layout, node,
                     bp__op_apply(layout->graph, "backplane", "ConvBlocked", node->name, inputs,
                                  bp__node_input(node, 2) ? 3 : 2, attrs, 4));
}

/* ---- Depth to space ---------------------------------------------------------------------- */

/* Packs the weights (k * k * out, in, 1, 1) of a pointwise convolution before a DepthToSpace as
 * weights of ConvToSpace, with `a` channels of input and `b` of output in a block; and packs its
 * bias. */
static BpGraphValue *pack_places(BpGraph *graph, const BpGraphValue *from, int64_t k, int64_t a,
                                 int64_t b) {
  int64_t in = from->shape[1], out = from->shape[0] / (k * k);
  int64_t shape[6] = {k, k, bp__build_blocks(out, b), bp__build_blocks(in, a), a, b};
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 6, NULL);
  for (int64_t row = 0; to && row < from->shape[0]; row++) {
    int64_t o = row % out, block = row / out * shape[2] + o / b;
    for (int64_t i = 0; i < in; i++)
      bp__value_copy_element(to, (block * shape[3] * a + i) * b + o % b, from, row * in + i);
  }
  return to;
}

static BpGraphValue *pack_place_bias(BpGraph *graph, const BpGraphValue *from, int64_t k,
                                     int64_t b) {
  int64_t out = from->shape[0] / (k * k), shape[4] = {k, k, bp__build_blocks(out, b), b};
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 4, NULL);
  for (int64_t row = 0; to && row < from->shape[0]; row++)
    bp__value_copy_element(to, row / out * shape[2] * b + row % out, from, row);
  return to;
}

static int is_pointwise(const Layout *layout, const BpGraphNode *conv) {
  const int64_t *weights = conv->inputs[1]->shape;
  BpOpWindow w;
  return is_blockable_conv(conv) && bp__node_int(conv, "group", 1) == 1 &&
         weights[2] * weights[3] == 1 &&
         !bp__op_window(&layout->graph->extents, conv, weights + 2, &w) &&
         w.strides[0] * w.strides[1] == 1 &&
         !(w.pad_begin[0] | w.pad_begin[1] | w.pad_end[0] | w.pad_end[1]);
}

/* Converts a DepthToSpace after a pointwise convolution that no other node reads: each element is
 * computed at its final position. Few channels would leave lanes idle. */
static int convert_depth_to_space(Layout *layout, BpGraphNode *node) {
  const BpGraphNode *conv = node->inputs[0]->producer;
  int64_t k = bp__node_int(node, "blocksize", 1), b = block_of(layout, node->outputs[0]->shape[1]);
  BpGraphValue *inputs[3] = {NULL}, *result;
  BpGraphAttr channels;
  if (!conv || conv->op->blocked != BP_BLOCKED_CONV || node->inputs[0]->num_uses != 1 ||
      strcmp(bp__node_str(node, "mode", "DCR"), "DCR") || 2 * b < layout->lanes ||
      !is_pointwise(layout, conv))
    return 0;
  inputs[0] = blocked_of(layout, conv->inputs[0]);
  if (!inputs[0])
    return -1;
  inputs[1] = pack_places(layout->graph, conv->inputs[1], k, inputs[0]->shape[4], b);
  if (bp__node_input(conv, 2))
    inputs[2] = pack_place_bias(layout->graph, conv->inputs[2], k, b);
  channels = channels_attr(layout, conv);
  result = bp__op_apply(layout->graph, "backplane", "ConvToSpace", node->name, inputs,
                        bp__node_input(conv, 2) ? 3 : 2, &channels, 1);
  return set_blocked(layout, node, reshape_blocked(layout, result, node->outputs[0]));
}

/* Converts a pooling: the channels of a block become one more dimension, in which the window has
 * extent 1. */
static int convert_pool(Layout *layout, BpGraphNode *node) {
  static const int64_t one = 1;
  int64_t begin[3] = {0}, end[3] = {0};
  BpGraphValue *in;
  BpGraphAttr attrs[6];
  BpOpWindow w;
  int32_t count = 5;
  if (node->num_outputs != 1 || !is_blocked(layout, node->inputs[0]))
    return 0;
  if (bp__op_window(&layout->graph->extents, node, NULL, &w))
    return -1;
  in = blocked_of(layout, node->inputs[0]);
  memcpy(begin, w.pad_begin, 2 * sizeof(*begin));
  memcpy(end, w.pad_end, 2 * sizeof(*end));
  attrs[0] = list_attr(layout, "kernel_shape", w.kernel, 2, &one, 1);
  attrs[1] = list_attr(layout, "strides", w.strides, 2, &one, 1);
  attrs[2] = list_attr(layout, "dilations", w.dilations, 2, &one, 1);
  attrs[3] = list_attr(layout, "pads", begin, 3, end, 3);
  attrs[4] = bp__attr_int(layout->graph, "ceil_mode", bp__node_int(node, "ceil_mode", 0));
  if (bp__node_int(node, "count_include_pad", 0))
    attrs[count++] = bp__attr_int(layout->graph, "count_include_pad", 1);
  return set_blocked(
      layout, node,
      bp__op_apply(layout->graph, "", node->op->name, node->name, &in, 1, attrs, count));
}

/* Converts a reduction over height and width. If the reduction drops height and width, the result
 * is plain. */
static int convert_reduce(Layout *layout, BpGraphNode *node) {
  int64_t axes[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, 1, "axes", axes, BP_GRAPH_MAX_NDIM);
  BpGraphValue *inputs[2], *result, *out = node->outputs[0];
  if (count == -1)
    return -1;
  if (count < 1 || !is_blocked(layout, node->inputs[0]))
    return 0;
  for (int32_t i = 0; i < count; i++) {
    axes[i] = axes[i] < 0 ? axes[i] + 4 : axes[i];
    if (axes[i] < 2)
      return 0;
  }
  inputs[0] = blocked_of(layout, node->inputs[0]);
  inputs[1] = bp__graph_int_vector(layout->graph, axes, count);
  result = bp__op_apply(layout->graph, "", node->op->name, node->name, inputs, 2, NULL, 0);
  if (!result || bp__node_int(node, "keepdims", 1))
    return set_blocked(layout, node, result);
  result = unblock(layout, result, node->inputs[0]->shape[1]);
  result = layout->plain[out->id] = reshape(layout, result, out->shape, out->ndim);
  return result ? 1 : -1;
}

static int convert_resize(Layout *layout, BpGraphNode *node) {
  BpGraphValue *inputs[3];
  if (!is_blocked(layout, node->inputs[0]) || bp__node_int(node, "axis", 0) < 2)
    return 0;
  memcpy(inputs, node->inputs, (size_t)node->num_inputs * sizeof(*inputs));
  inputs[0] = blocked_of(layout, node->inputs[0]);
  return set_blocked(layout, node,
                     bp__op_apply(layout->graph, "backplane", "ResizeAxis", node->name, inputs,
                                  node->num_inputs, node->attrs, node->num_attrs));
}

/* A view or an expansion that keeps images and channels apart: elements of one image and channel
 * stay together in both layouts. */
static int convert_shaped(Layout *layout, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0], *out = node->outputs[0];
  if (!is_blocked(layout, in) || out->ndim != 4 || out->shape[0] != in->shape[0] ||
      out->shape[1] != in->shape[1])
    return 0;
  BpGraphValue *blocked = blocked_of(layout, node->inputs[0]);
  int64_t shape[BLOCKED_NDIM] = {out->shape[0], blocked->shape[1], out->shape[2], out->shape[3],
                                 blocked->shape[4]};
  BpGraphValue *inputs[] = {blocked, bp__graph_int_vector(layout->graph, shape, BLOCKED_NDIM)};
  return set_blocked(
      layout, node,
      bp__op_apply(layout->graph, "backplane", node->op->name, node->name, inputs, 2, NULL, 0));
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The number of channels that move together: no block of an input or of the output begins inside so
 * large a part. */
static int64_t part_of(const Layout *layout, const BpGraphNode *node, int64_t block) {
  int64_t part = block;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    int64_t channels = node->inputs[i]->shape[1];
    part = greatest_divisor(part, block_of(layout, channels));
    if (i + 1 < node->num_inputs)
      part = greatest_divisor(part, channels);
  }
  return part;
}

/* Concatenates along the channels if inputs begin inside blocks. */
static BpGraphValue *concat_parts(Layout *layout, const BpGraphNode *node, int64_t block,
                                  int64_t part, BpGraphValue *const *inputs) {
  int64_t channels[BP_OP_MAX_INPUTS];
  const int64_t *out = node->outputs[0]->shape;
  BpGraphAttr attrs[3];
  BpGraphValue *result;
  for (int32_t i = 0; i < node->num_inputs; i++)
    channels[i] = node->inputs[i]->shape[1];
  attrs[0] = bp__attr_int(layout->graph, "block", block);
  attrs[1] = bp__attr_int(layout->graph, "part", part);
  attrs[2] = list_attr(layout, "channels", channels, node->num_inputs, NULL, 0);
  result = bp__op_apply(layout->graph, "backplane", "ConcatBlocked", node->name, inputs,
                        node->num_inputs, attrs, 3);
  return reshape(layout, result,
                 (int64_t[]){out[0], bp__build_blocks(out[1], block), out[2], out[3], block},
                 BLOCKED_NDIM);
}

/* Converts a concatenation along the channels or the dimensions after them, unless the parts have
 * few channels, which would be moved one by one, or a number that is not known yet. */
static int convert_concat(Layout *layout, BpGraphNode *node) {
  int64_t axis = bp__node_int(node, "axis", 1), b, part;
  BpGraphValue *inputs[BP_OP_MAX_INPUTS], *out = node->outputs[0];
  BpGraphAttr attr = bp__attr_int(layout->graph, "axis", axis);
  int any = 0, is_whole = 1;
  if (out->ndim != 4 || axis < 1)
    return 0;
  b = block_of(layout, out->shape[1]);
  for (int32_t i = 0; i < node->num_inputs; i++) {
    if (bp__extent_is_open(node->inputs[i]->shape[1]))
      return 0;
    any |= is_blocked(layout, node->inputs[i]);
    is_whole &= block_of(layout, node->inputs[i]->shape[1]) == b &&
                (axis != 1 || node->inputs[i]->shape[1] % b == 0);
  }
  part = part_of(layout, node, b);
  if (!any || (!is_whole && (axis != 1 || part < FEWEST_LANES)))
    return 0;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    inputs[i] = blocked_of(layout, node->inputs[i]);
    if (!inputs[i])
      return -1;
  }
  if (!is_whole)
    return set_blocked(layout, node, concat_parts(layout, node, b, part, inputs));
  return set_blocked(
      layout, node,
      bp__op_apply(layout->graph, "", "Concat", node->name, inputs, node->num_inputs, &attr, 1));
}

/* An operand that broadcasts, in five dimensions; NULL with an error. */
static BpGraphValue *blocked_operand(Layout *layout, BpGraphValue *value, int64_t channels) {
  int64_t shape[BLOCKED_NDIM] = {1, 1, 1, 1, 1};
  BpGraphValue *full = value;
  if (bp__value_num_elements(value) == 1 && value->data)
    return value;
  for (int32_t i = 0; i < value->ndim; i++)
    shape[4 - value->ndim + i] = value->shape[i];
  if (value->ndim < 4)
    full = reshape(layout, plain_of(layout, value), shape, 4);
  if (!full)
    return NULL;
  if (shape[1] == channels && channels > 1)
    return blocked_of(layout, full);
  return reshape(layout, plain_of(layout, full), shape, BLOCKED_NDIM);
}

/* If every operand with more than one element is a view of a result of ConvToSpace, and all results
 * have one shape, takes the results as operands and returns 1: then the node can be fused with
 * ConvToSpace. */
static int look_through_views(const BpGraphNode *node, BpGraphValue **inputs) {
  const BpGraphValue *shape = NULL;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphNode *view = inputs[i] ? inputs[i]->producer : NULL;
    if (!inputs[i] || bp__build_is_immediate(inputs[i]) || !bp__op_argument(node, i))
      continue;
    if (!view || view->op->fusion != BP_FUSE_VIEW || view->inputs[0]->ndim != PLACES_NDIM ||
        (shape && !bp__value_same_shape(shape, view->inputs[0])))
      return 0;
    shape = view->inputs[0];
  }
  for (int32_t i = 0; i < node->num_inputs && shape; i++)
    if (inputs[i] && !bp__build_is_immediate(inputs[i]) && bp__op_argument(node, i))
      inputs[i] = inputs[i]->producer->inputs[0];
  return shape != NULL;
}

/* The float32 sums of a convolution of bytes, if a node converts its result to float32; or NULL. */
static BpGraphValue *float_sums(const Layout *layout, const BpGraphNode *node) {
  if (!bp__op_is(node, "Cast") || !is_blocked(layout, node->inputs[0]) ||
      !bp__dtype_equal(node->outputs[0]->dtype, BP__FLOAT32))
    return NULL;
  const BpGraphNode *integers = layout->blocked[node->inputs[0]->id]->producer;
  BpGraphValue *sums = bp__op_is(integers, "Cast") ? integers->inputs[0] : NULL;
  return sums && sums->producer && sums->producer->op == bp__op_find("backplane", "ConvBlocked")
             ? sums
             : NULL;
}

static int convert_elementwise(Layout *layout, BpGraphNode *node) {
  const BpGraphValue *out = node->outputs[0];
  BpGraphValue *inputs[BP_OP_MAX_INPUTS] = {NULL}, *result;
  BpGraphNode *converted;
  int any = 0, is_view;
  if (out->ndim != 4 || out->shape[1] < 2)
    return 0;
  BpGraphValue *sums = float_sums(layout, node);
  if (sums)
    return set_blocked(layout, node, sums);
  for (int32_t i = 0; i < node->num_inputs; i++)
    any |= is_blocked(layout, node->inputs[i]) && node->inputs[i]->shape[1] == out->shape[1];
  if (!any)
    return 0;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    inputs[i] = node->inputs[i] && bp__op_argument(node, i)
                    ? blocked_operand(layout, node->inputs[i], out->shape[1])
                    : node->inputs[i];
    if (node->inputs[i] && !inputs[i])
      return -1;
  }
  is_view = look_through_views(node, inputs);
  converted = bp__graph_node(layout->graph, node->op, node->name, inputs, node->num_inputs, 1,
                             node->attrs, node->num_attrs);
  if (!converted)
    return -1;
  converted->version = node->version;
  if (bp__op_append(layout->graph, converted))
    return -1;
  result = converted->outputs[0];
  return set_blocked(layout, node, is_view ? reshape_blocked(layout, result, out) : result);
}

/* The functions for the values of BpOpBlocked: each makes the node blocked (1) or leaves it plain
 * (0). */
static int (*const converters[BP_NUM_BLOCKED])(Layout *layout, BpGraphNode *node) = {
    [BP_BLOCKED_ELEMENTWISE] = convert_elementwise,
    [BP_BLOCKED_CONV] = convert_conv,
    [BP_BLOCKED_POOL] = convert_pool,
    [BP_BLOCKED_REDUCE] = convert_reduce,
    [BP_BLOCKED_RESIZE] = convert_resize,
    [BP_BLOCKED_SHAPED] = convert_shaped,
    [BP_BLOCKED_CONCAT] = convert_concat,
    [BP_BLOCKED_DEPTH_TO_SPACE] = convert_depth_to_space,
};

static int convert(Layout *layout, BpGraphNode *node) {
  BpOpBlocked blocked = node->op->blocked;
  if (layout->threads > 1)
    return blocked == BP_BLOCKED_CONV ? convert_plain_conv(layout, node) : 0;
  /* An operand of an element-wise node may have fewer dimensions. */
  if (!converters[blocked] || (blocked != BP_BLOCKED_ELEMENTWISE &&
                               (!bp__node_input(node, 0) || node->inputs[0]->ndim != 4)))
    return 0;
  return converters[blocked](layout, node);
}

static int visit_node(Layout *layout, BpGraphNode *node) {
  int converted = convert(layout, node);
  if (converted)
    return converted < 0 ? -1 : 0;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    BpGraphValue *input = node->inputs[i];
    node->inputs[i] = plain_of(layout, input);
    if (input && !node->inputs[i])
      return -1;
  }
  return bp__list_push(&layout->graph->nodes, node);
}

static int visit_all(Layout *layout, const BpList *nodes) {
  BpList *outputs = &layout->graph->outputs;
  for (size_t i = 0; i < nodes->size; i++)
    if (visit_node(layout, nodes->items[i]))
      return -1;
  for (size_t i = 0; i < outputs->size; i++) {
    outputs->items[i] = plain_of(layout, outputs->items[i]);
    if (!outputs->items[i])
      return -1;
  }
  return 0;
}

int64_t bp__build_lock_step(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0)
             ? bp_target_get_int(target, BP_TARGET_THREAD_WARP_SIZE, 1)
             : 1;
}

int bp__build_layout(const BpBuild *build, BpGraph *graph) {
  const BpTarget *target = build->target;
  Layout layout = {.graph = graph, .target = target, .count = graph->num_values};
  BpList nodes = graph->nodes;
  int status;
  layout.threads = bp__build_lock_step(target);
  layout.lanes = bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) / BP__FLOAT32.bits;
  if (layout.lanes < FEWEST_LANES && layout.threads <= 1)
    return 0;
  layout.plain = calloc((size_t)layout.count + 1, 2 * sizeof(*layout.plain));
  if (!layout.plain)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory while choosing layouts");
  layout.blocked = layout.plain + layout.count;
  bp__graph_count_uses(graph);
  graph->nodes = (BpList){0};
  status = visit_all(&layout, &nodes);
  bp__list_free(&nodes);
  free(layout.plain);
  if (!status)
    bp__graph_remove_dead(graph);
  return status;
}
