/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites nodes to fewer kinds: transposes that move nothing or meet another transpose,
 * convolutions over one dimension, transposed convolutions, constant factors. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* The node that computes a node's first input; NULL if that is an input of the graph or absent. */
static const BpGraphNode *node_before(const BpGraphNode *node) {
  const BpGraphValue *in = bp__node_input(node, 0);
  return in ? in->producer : NULL;
}

/* Replaces the node's output and returns 1; -1 if `to` is NULL. */
static int replace(BpRewrite *rewrite, const BpGraphNode *node, BpGraphValue *to) {
  return bp__rewrite_replace(rewrite, node->outputs[0], to) ? -1 : 1;
}

/* ---- Transposes -------------------------------------------------------------------------- */

static void read_perm(const BpGraphNode *node, int64_t *perm) {
  const BpGraphAttr *attr = bp__node_attr(node, "perm");
  int32_t ndim = node->inputs[0]->ndim;
  for (int32_t i = 0; i < ndim; i++)
    perm[i] = attr ? attr->ints[i] : ndim - 1 - i;
}

/* Whether a transpose keeps the order of the axes longer than 1. */
static int moves_nothing(const BpGraphValue *in, const int64_t *perm) {
  int64_t last = -1;
  for (int32_t i = 0; i < in->ndim; i++) {
    if (in->shape[perm[i]] == 1)
      continue;
    if (perm[i] < last)
      return 0;
    last = perm[i];
  }
  return 1;
}

static int transpose_rule(BpRewrite *rewrite, BpGraphNode *node) {
  BpGraphValue *in = bp__node_input(node, 0);
  int64_t perm[BP_GRAPH_MAX_NDIM], first[BP_GRAPH_MAX_NDIM];
  if (!bp__op_is(node, "Transpose"))
    return 0;
  read_perm(node, perm);
  if (bp__op_is(in->producer, "Transpose")) {
    read_perm(in->producer, first);
    in = in->producer->inputs[0];
    for (int32_t i = 0; i < in->ndim; i++)
      perm[i] = first[perm[i]];
    if (!moves_nothing(in, perm))
      return replace(rewrite, node, bp__op_transpose(rewrite->graph, node, in, perm, in->ndim));
  }
  if (!moves_nothing(in, perm))
    return 0;
  if (bp__value_same_shape(in, node->outputs[0]))
    return replace(rewrite, node, in);
  return replace(
      rewrite, node,
      bp__op_reshape(rewrite->graph, node, in, node->outputs[0]->shape, node->outputs[0]->ndim));
}

/* A reduction of a transposed tensor reduces the original tensor over the corresponding axes, if
 * the remaining axes stay in order. */
static int reduce_rule(BpRewrite *rewrite, BpGraphNode *node) {
  const BpGraphNode *before = node_before(node);
  int64_t perm[BP_GRAPH_MAX_NDIM], axes[BP_GRAPH_MAX_NDIM], last = -1;
  int reduced[BP_GRAPH_MAX_NDIM] = {0};
  BpGraphValue *inputs[2];
  BpGraphAttr keepdims;
  int32_t count;
  if (node->op->fusion != BP_FUSE_REDUCTION || bp__node_int(node, "keepdims", 1) ||
      !bp__op_is(before, "Transpose"))
    return 0;
  count = bp__op_ints(node, 1, "axes", axes, BP_GRAPH_MAX_NDIM);
  if (count < 1)
    return count == -1 ? -1 : 0;
  read_perm(before, perm);
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (bp__op_axis(node, axes[i], before->outputs[0]->ndim, &axis))
      return -1;
    reduced[axis] = 1;
    axes[i] = perm[axis];
  }
  for (int32_t i = 0; i < before->outputs[0]->ndim; i++) {
    if (!reduced[i] && perm[i] < last)
      return 0;
    last = reduced[i] ? last : perm[i];
  }
  inputs[0] = before->inputs[0];
  inputs[1] = bp__graph_int_vector(rewrite->graph, axes, count);
  keepdims = bp__attr_int(rewrite->graph, "keepdims", 0);
  return replace(
      rewrite, node,
      bp__op_apply(rewrite->graph, "", node->op->name, node->name, inputs, 2, &keepdims, 1));
}

/* ---- Convolutions over one dimension ----------------------------------------------------- */

/* Whether a convolution has one tap and one group, so that it is a matrix product over the
 * channels. */
static int is_pointwise(const BpGraphNode *node, const BpOpWindow *window) {
  return window->kernel[0] == 1 && window->strides[0] == 1 && window->pad_begin[0] == 0 &&
         window->pad_end[0] == 0 && bp__node_int(node, "group", 1) == 1;
}

/* Computes a pointwise convolution of a transposed tensor as the product with the original tensor,
 * transposed afterwards. */
static BpGraphValue *as_product(BpGraph *graph, const BpGraphNode *node) {
  static const int64_t swap[3] = {0, 2, 1}, turn[2] = {1, 0};
  const char *name = node->name;
  BpGraphValue *weights = node->inputs[1], *operands[2], *result;
  operands[0] = node->inputs[0]->producer->inputs[0];
  operands[1] = bp__op_transpose(graph, node,
                                 bp__op_reshape(graph, node, weights, weights->shape, 2), turn, 2);
  result = bp__op_apply(graph, "", "MatMul", name, operands, 2, NULL, 0);
  if (result && bp__node_input(node, 2)) {
    BpGraphValue *sum[2] = {result, node->inputs[2]};
    result = bp__op_apply(graph, "", "Add", name, sum, 2, NULL, 0);
  }
  return bp__op_transpose(graph, node, result, swap, 3);
}

/* Computes a convolution over one dimension as one over two dimensions, with a height of 1. */
static BpGraphValue *as_two_dimensional(BpGraph *graph, const BpGraphNode *node,
                                        const BpOpWindow *w) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1], *out = node->outputs[0];
  int64_t *lists = bp__arena_alloc_array(&graph->arena, 8, sizeof(*lists));
  BpGraphValue *inputs[3], *result;
  BpGraphAttr attrs[4];
  if (!lists)
    return NULL;
  memcpy(lists,
         ((int64_t[]){1, w->strides[0], 1, w->dilations[0], 0, w->pad_begin[0], 0, w->pad_end[0]}),
         8 * sizeof(*lists));
  attrs[0] = bp__attr_ints("strides", lists, 2);
  attrs[1] = bp__attr_ints("dilations", lists + 2, 2);
  attrs[2] = bp__attr_ints("pads", lists + 4, 4);
  attrs[3] = bp__attr_int(graph, "group", bp__node_int(node, "group", 1));
  inputs[0] = bp__op_reshape(graph, node, node->inputs[0],
                             (int64_t[]){in->shape[0], in->shape[1], 1, in->shape[2]}, 4);
  inputs[1] =
      bp__op_reshape(graph, node, node->inputs[1],
                     (int64_t[]){weights->shape[0], weights->shape[1], 1, weights->shape[2]}, 4);
  inputs[2] = bp__node_input(node, 2);
  result = bp__op_apply(graph, "", "Conv", node->name, inputs, inputs[2] ? 3 : 2, attrs, 4);
  return bp__op_reshape(graph, node, result, out->shape, 3);
}

static int conv_rule(BpRewrite *rewrite, BpGraphNode *node) {
  const BpGraphNode *before = node_before(node);
  int64_t perm[BP_GRAPH_MAX_NDIM];
  BpOpWindow window;
  if (!bp__op_is(node, "Conv") || node->inputs[0]->ndim != 3)
    return 0;
  if (bp__op_window(&rewrite->graph->extents, node, node->inputs[1]->shape + 2, &window))
    return -1;
  if (is_pointwise(node, &window) && bp__op_is(before, "Transpose")) {
    read_perm(before, perm);
    if (perm[0] == 0 && perm[1] == 2)
      return replace(rewrite, node, as_product(rewrite->graph, node));
  }
  return replace(rewrite, node, as_two_dimensional(rewrite->graph, node, &window));
}

/* ---- Transposed convolutions ------------------------------------------------------------- */

/* A range of remainders of a transposed convolution with stride s: the outputs whose remainder by s
 * is in the range read the same inputs in one dimension. Output q * s + remainder reads input q +
 * first and the `taps` - 1 inputs after it. */
typedef struct Phases {
  int64_t begin, count; /* range of the remainders */
  int64_t first, taps;
} Phases;

/* The maximum number of phases in a dimension: the first and the last tap change at one remainder
 * each. */
#define MAX_PHASES 3

typedef struct Transposed {
  BpGraph *graph;
  const BpGraphNode *node;
  BpOpWindow w;
  int64_t groups;
  int are_remainders_first; /* order of channels: (remainders, out) instead of (out, remainders) */
  Phases phases[BP_GRAPH_MAX_NDIM][MAX_PHASES];
  int32_t num_phases[BP_GRAPH_MAX_NDIM];
  const Phases *chosen[BP_GRAPH_MAX_NDIM]; /* the phases being computed, by dimension */
  int64_t places[BP_GRAPH_MAX_NDIM];       /* number of values of q, by dimension */
} Transposed;

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* The number of elements that the last output of some phases reads beyond the end of the input, in
 * dimension `i`. */
static int64_t beyond_end(const Transposed *transposed, int32_t i, const Phases *phases) {
  BpExtents *extents = &transposed->graph->extents;
  int64_t more = bp__extent_subtract(extents, transposed->places[i], transposed->w.in[i]);
  return bp__extent_add(extents, more, phases->first + phases->taps - 1);
}

/* Finds the phases of dimension `i`. Output y is the sum over k of input (y + pad - k) / stride,
 * where the division is exact. Returns 0 for phases that a convolution cannot compute: no taps,
 * negative padding, open padding. */
static int find_phases(Transposed *transposed, int32_t i) {
  const BpOpWindow *w = &transposed->w;
  BpExtents *extents = &transposed->graph->extents;
  int64_t stride = w->strides[i], pad = w->pad_begin[i];
  int64_t out = bp__extent_add(extents, transposed->node->outputs[0]->shape[2 + i], stride - 1);
  Phases *last = NULL;
  transposed->places[i] = bp__extent_divide(extents, out, stride);
  if (w->kernel[i] < stride || w->dilations[i] != 1 || bp__extent_is_open(pad) ||
      (transposed->places[i] < 1 && !bp__extent_is_open(transposed->places[i])))
    return 0;
  for (int64_t r = 0; r < stride; r++) {
    int64_t first = -floor_div(w->kernel[i] - 1 - pad - r, stride);
    int64_t taps = floor_div(r + pad, stride) - first + 1;
    if (first > 0)
      return 0;
    if (!last || last->first != first || last->taps != taps) {
      last = &transposed->phases[i][transposed->num_phases[i]++];
      *last = (Phases){r, 0, first, taps};
    }
    last->count++;
    if (bp__extent_is_open(beyond_end(transposed, i, last)))
      return 0;
  }
  return 1;
}

/* Whether convolutions can compute a transposed convolution; reads its attributes. */
static int read_transposed(Transposed *transposed) {
  const BpGraphNode *node = transposed->node;
  const BpGraphValue *weights = node->inputs[1], *bias = bp__node_input(node, 2);
  transposed->groups = bp__node_int(node, "group", 1);
  if (!weights->data || (bias && !bias->data) || !bp__dtype_is_float(weights->dtype) ||
      2 + 2 * (weights->ndim - 2) > BP_GRAPH_MAX_NDIM ||
      bp__op_transpose_window(&transposed->graph->extents, node, &transposed->w)) {
    bp_error_clear();
    return 0;
  }
  for (int32_t i = 0; i < transposed->w.rank; i++)
    if (!find_phases(transposed, i))
      return 0;
  return 1;
}

/* The number of outputs of the chosen phases between two neighbouring values of q. */
static int64_t count_chosen(const Transposed *transposed) {
  int64_t count = 1;
  for (int32_t i = 0; i < transposed->w.rank; i++)
    count *= transposed->chosen[i]->count;
  return count;
}

/* The index, in the original weights of one channel, of the weight that the chosen convolution has
 * at a remainder and a tap. */
static int64_t weight_of(const Transposed *transposed, int64_t remainder, int64_t tap) {
  int64_t from = 0, size = 1;
  for (int32_t i = transposed->w.rank - 1; i >= 0; i--) {
    const Phases *phases = transposed->chosen[i];
    int64_t r = phases->begin + remainder % phases->count, t = tap % phases->taps;
    int64_t k = r + transposed->w.pad_begin[i] - (phases->first + t) * transposed->w.strides[i];
    from += k * size;
    size *= transposed->w.kernel[i];
    remainder /= phases->count;
    tap /= phases->taps;
  }
  return from;
}

/* The channel of the chosen convolution that computes a remainder of channel `out`. The channels of
 * a group stay together. */
static int64_t channel_of(const Transposed *transposed, int64_t out, int64_t remainder) {
  return transposed->are_remainders_first ? remainder * transposed->node->outputs[0]->shape[1] + out
                                          : out * count_chosen(transposed) + remainder;
}

/* Converts weights (in, out of a group, k...) to the weights of the chosen convolution, (remainders
 * of all out, in of a group, taps...). */
static BpGraphValue *phase_weights(const Transposed *transposed) {
  const BpGraphValue *from = transposed->node->inputs[1];
  int64_t in = from->shape[0] / transposed->groups, out = from->shape[1], kernel = 1, taps = 1;
  int64_t remainders = count_chosen(transposed), all = out * transposed->groups;
  int64_t shape[BP_GRAPH_MAX_NDIM] = {remainders * all, in};
  for (int32_t i = 0; i < transposed->w.rank; i++) {
    shape[2 + i] = transposed->chosen[i]->taps;
    taps *= shape[2 + i];
    kernel *= transposed->w.kernel[i];
  }
  BpGraphValue *to =
      bp__graph_constant(transposed->graph, from->name, from->dtype, shape, from->ndim, NULL);
  for (int64_t r = 0; to && r < remainders; r++)
    for (int64_t t = 0; t < taps; t++) {
      int64_t place = weight_of(transposed, r, t);
      for (int64_t c = 0; c < all * in; c++) {
        int64_t channel = c / in, row = channel / out * in + c % in;
        bp__value_copy_element(to, (channel_of(transposed, channel, r) * in + c % in) * taps + t,
                               from, (row * out + channel % out) * kernel + place);
      }
    }
  return to;
}

static BpGraphValue *phase_bias(const Transposed *transposed) {
  const BpGraphValue *from = transposed->node->inputs[2];
  int64_t out = from->shape[0], remainders = count_chosen(transposed), total = out * remainders;
  BpGraphValue *to =
      bp__graph_constant(transposed->graph, from->name, from->dtype, &total, 1, NULL);
  for (int64_t i = 0; to && i < total; i++)
    bp__value_copy_element(to, channel_of(transposed, i / remainders, i % remainders), from,
                           i / remainders);
  return to;
}

/* Computes the chosen phases by a convolution: (n, channels, positions...). */
static BpGraphValue *phase_conv(const Transposed *transposed) {
  const BpGraphNode *node = transposed->node;
  int32_t rank = transposed->w.rank, num_inputs = bp__node_input(node, 2) ? 3 : 2;
  BpGraphValue *inputs[3] = {node->inputs[0], phase_weights(transposed), NULL}, *result;
  int64_t *pads = bp__arena_alloc_array(&transposed->graph->arena, 2 * (size_t)rank, sizeof(*pads));
  if (!pads)
    return NULL;
  for (int32_t i = 0; i < rank; i++) {
    const Phases *phases = transposed->chosen[i];
    int64_t end = beyond_end(transposed, i, phases);
    pads[i] = -phases->first;
    pads[rank + i] = end > 0 ? end : 0;
  }
  if (num_inputs == 3)
    inputs[2] = phase_bias(transposed);
  BpGraphAttr attrs[2] = {bp__attr_ints("pads", pads, 2 * rank),
                          bp__attr_int(transposed->graph, "group", transposed->groups)};
  result = bp__op_apply(transposed->graph, "", "Conv", node->name, inputs, num_inputs, attrs, 2);
  for (int32_t i = 0; i < rank && result; i++)
    if (result->shape[2 + i] != transposed->places[i])
      result = bp__op_slice(transposed->graph, node, result, 2 + i, 0, transposed->places[i]);
  return result;
}

/* Computes all phases of the dimensions from `dimension` on, with the chosen phases of the earlier
 * dimensions. The result has the axes (n, out, remainders of each dimension..., positions...). */
static BpGraphValue *all_phases(Transposed *transposed, int32_t dimension) {
  const BpGraphValue *out = transposed->node->outputs[0];
  int32_t rank = transposed->w.rank, count = transposed->num_phases[dimension];
  BpGraphValue *parts[MAX_PHASES];
  if (dimension == rank) {
    int64_t shape[BP_GRAPH_MAX_NDIM] = {out->shape[0], out->shape[1]};
    for (int32_t i = 0; i < rank; i++) {
      shape[2 + i] = transposed->chosen[i]->count;
      shape[2 + rank + i] = transposed->places[i];
    }
    return bp__op_reshape(transposed->graph, transposed->node, phase_conv(transposed), shape,
                          2 + 2 * rank);
  }
  for (int32_t p = 0; p < count; p++) {
    transposed->chosen[dimension] = &transposed->phases[dimension][p];
    parts[p] = all_phases(transposed, dimension + 1);
  }
  if (count == 1)
    return parts[0];
  BpGraphAttr axis = bp__attr_int(transposed->graph, "axis", 2 + dimension);
  return bp__op_apply(transposed->graph, "", "Concat", transposed->node->name, parts, count, &axis,
                      1);
}

/* Reshapes (n, out, remainders..., positions...) to (n, out, outputs...). */
static BpGraphValue *interleave(const Transposed *transposed, BpGraphValue *phases) {
  int32_t rank = transposed->w.rank;
  int64_t perm[BP_GRAPH_MAX_NDIM] = {0, 1}, shape[BP_GRAPH_MAX_NDIM];
  const BpGraphValue *out = transposed->node->outputs[0];
  memcpy(shape, out->shape, 2 * sizeof(*shape));
  for (int32_t i = 0; i < rank; i++) {
    perm[2 + 2 * i] = 2 + rank + i;
    perm[3 + 2 * i] = 2 + i;
    shape[2 + i] = bp__extent_multiply(&transposed->graph->extents, transposed->places[i],
                                       transposed->w.strides[i]);
  }
  return bp__op_reshape(
      transposed->graph, transposed->node,
      bp__op_transpose(transposed->graph, transposed->node, phases, perm, 2 + 2 * rank), shape,
      2 + rank);
}

/* Whether one convolution computes all phases, so that its channels move to squares of positions;
 * the layout pass may compute each at its final position. */
static int is_depth_to_space(const Transposed *transposed) {
  return transposed->groups == 1 && transposed->w.rank == 2 &&
         transposed->w.strides[0] == transposed->w.strides[1] && transposed->num_phases[0] == 1 &&
         transposed->num_phases[1] == 1;
}

static BpGraphValue *depth_to_space(Transposed *transposed) {
  BpGraphAttr block = bp__attr_int(transposed->graph, "blocksize", transposed->w.strides[0]);
  transposed->are_remainders_first = 1;
  for (int32_t i = 0; i < 2; i++)
    transposed->chosen[i] = &transposed->phases[i][0];
  BpGraphValue *conv = phase_conv(transposed);
  return bp__op_apply(transposed->graph, "", "DepthToSpace", transposed->node->name, &conv, 1,
                      &block, 1);
}

/* Rewrites a transposed convolution as convolutions, one for all outputs with the same taps, whose
 * results are interleaved. */
static int conv_transpose_rule(BpRewrite *rewrite, BpGraphNode *node) {
  Transposed transposed = {.graph = rewrite->graph, .node = node};
  const BpGraphValue *out = node->outputs[0];
  if (!bp__op_is(node, "ConvTranspose") || !read_transposed(&transposed))
    return 0;
  BpGraphValue *result = is_depth_to_space(&transposed)
                             ? depth_to_space(&transposed)
                             : interleave(&transposed, all_phases(&transposed, 0));
  for (int32_t i = 2; i < out->ndim && result; i++)
    if (result->shape[i] != out->shape[i])
      result = bp__op_slice(rewrite->graph, node, result, i, 0, out->shape[i]);
  return replace(rewrite, node, result);
}

/* ---- Constant factors -------------------------------------------------------------------- */

/* Whether a value is a constant of one element. */
static int is_factor(const BpGraphValue *value) {
  return value->data && bp__dtype_is_float(value->dtype) && bp__value_num_elements(value) == 1;
}

/* For a product with a constant of one element: sets *constant and returns the other operand. */
static BpGraphValue *scaled(const BpGraphNode *node, BpGraphValue **constant) {
  for (int32_t i = 0; i < 2 && bp__op_is(node, "Mul"); i++)
    if (is_factor(node->inputs[i]) && !node->inputs[1 - i]->data) {
      *constant = node->inputs[i];
      return node->inputs[1 - i];
    }
  return NULL;
}

/* Makes *factor of a number, in the type and shape of `like`. Returns 1, -1 with an error, or 0 if
 * the factor would lose precision: 1e30 * 1e30 is infinite, but x * 1e30 * 1e30 need not be. The
 * factor may change the last bit of a product; for float16 and bfloat16, which have few bits, it
 * must be exact. */
static int make_factor(BpGraph *graph, const BpGraphValue *like, double number,
                       BpGraphValue **factor) {
  BpDataType wide = bp_te_accumulator(like->dtype);
  double least = wide.bits == 64 ? DBL_MIN : (double)FLT_MIN;
  double most = wide.bits == 64 ? DBL_MAX : (double)FLT_MAX;
  if (!(fabs(number) >= least && fabs(number) <= most))
    return 0;
  *factor = bp__graph_constant(graph, like->name, like->dtype, like->shape, like->ndim, NULL);
  if (!*factor)
    return -1;
  bp__value_put_float(*factor, 0, number);
  return bp__dtype_equal(wide, like->dtype) || bp__value_get_float(*factor, 0) == number;
}

static BpGraphValue *product(BpRewrite *rewrite, const BpGraphNode *node, BpGraphValue *a,
                             BpGraphValue *b) {
  BpGraphValue *inputs[2] = {a, b};
  return bp__op_apply(rewrite->graph, "", "Mul", node->name, inputs, 2, NULL, 0);
}

/* Turns constant divisors into factors, which are many times as fast, and two factors into one,
 * except before a step: 41 * (1 / 41) is less than 1 in float32. */
static int factor_rule(BpRewrite *rewrite, BpGraphNode *node) {
  BpGraphValue *constant, *first, *value, *factor;
  const char *is_exact = rewrite->context;
  double number;
  if (bp__op_is(node, "Div") && is_factor(node->inputs[1]) && !node->inputs[0]->data) {
    value = node->inputs[0];
    constant = node->inputs[1];
    number = 1 / bp__value_get_float(constant, 0);
    if (is_exact[node->outputs[0]->id] && !bp__is_power_of_two(number))
      return 0;
  } else {
    value = scaled(node, &constant);
    if (!value || !(value = scaled(value->producer, &first)) ||
        !bp__value_same_shape(value, node->outputs[0]) || is_exact[node->outputs[0]->id])
      return 0;
    number = bp__value_get_float(first, 0) * bp__value_get_float(constant, 0);
  }
  int made = make_factor(rewrite->graph, constant, number, &factor);
  return made > 0 ? replace(rewrite, node, product(rewrite, node, value, factor)) : made;
}

/* ---- All rules --------------------------------------------------------------------------- */

static int any_rule(BpRewrite *rewrite, BpGraphNode *node) {
  static const BpRewriteRule rules[] = {transpose_rule, reduce_rule, conv_rule, conv_transpose_rule,
                                        factor_rule};
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    int action = rules[i](rewrite, node);
    if (action)
      return action;
  }
  return 0;
}

int bp__build_canonical(const BpBuild *build, BpGraph *graph) {
  (void)build;
  char *is_exact = bp__build_mark_exact(graph);
  int status = is_exact ? bp__graph_rewrite(graph, any_rule, is_exact) : -1;
  free(is_exact);
  return status;
}
