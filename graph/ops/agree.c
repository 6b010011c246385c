/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of inputs that must be equal or broadcast, where inference cannot prove that they are. A
 * run compares the extents of the inputs and fails if the extents do not match. The nodes after the
 * check assume that the extents match. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* The likely value of an extent that only a run knows, for which functions are scheduled. */
#define LIKELY_EXTENT 64

/* The extent of an input at one of the `ndim` dimensions to which the input broadcasts. */
static int64_t extent_at(const BpGraphValue *value, int32_t ndim, int32_t dimension) {
  int32_t own = dimension - (ndim - value->ndim);
  return own < 0 ? 1 : value->shape[own];
}

/* Appends text that identifies a body: its positions in the lists of the graphs around it. */
static void append_body(const BpGraph *graph, char *text, size_t size) {
  if (!graph->outer)
    return;
  size_t place = 0, length;
  while (graph->outer->bodies.items[place] != graph)
    place++;
  append_body(graph->outer, text, size);
  length = strlen(text);
  snprintf(text + length, size - length, "@%zu", place);
}

/* The symbol for the extent to which two open extents broadcast. All nodes of a graph share the
 * symbol, but a symbol that a body binds does not exist outside the body. Kernels compute with the
 * symbol, because an expression of the two extents would double the length of their indices. */
static int64_t common_symbol(BpGraph *graph, int64_t a, int64_t b) {
  const BpExtents *extents = &graph->extents;
  char one[64], other[64], key[512];
  bp__extent_format(extents, a, one, sizeof(one));
  bp__extent_format(extents, b, other, sizeof(other));
  /* The texts may be cut; the integers of the extents make the key unique. */
  snprintf(key, sizeof(key), "%s|%s#%" PRId64 "|%" PRId64, one, other, a - bp__extents_at(0),
           b - bp__extents_at(0));
  append_body(graph, key, sizeof(key));
  return bp__extent_make_symbol(&graph->extents, key, LIKELY_EXTENT);
}

/* The extent to which two extents broadcast; BP_EXTENT_NONE if they do not broadcast (no error
 * raised), or if memory is exhausted. */
static int64_t common_extent(BpGraph *graph, int64_t a, int64_t b) {
  if (a == b || b == 1)
    return a;
  if (a == 1)
    return b;
  if (bp__extent_is_open(a) && bp__extent_is_open(b))
    return common_symbol(graph, a, b);
  return bp__extent_is_open(a) ? b : bp__extent_is_open(b) ? a : BP_EXTENT_NONE;
}

/* Computes the extents to which the inputs broadcast along the first `num_dims` of `ndim`
 * dimensions; false if they do not broadcast. */
static bool broadcast_of(BpGraph *graph, const BpGraphNode *node, int32_t ndim, int32_t num_dims,
                         int64_t *common) {
  for (int32_t d = 0; d < num_dims; d++) {
    common[d] = 1;
    for (int32_t i = 0; i < node->num_inputs; i++) {
      int64_t extent = node->inputs[i] ? extent_at(node->inputs[i], ndim, d) : 1;
      common[d] = common_extent(graph, common[d], extent);
      if (common[d] == BP_EXTENT_NONE)
        return false;
    }
  }
  return true;
}

static BpGraphValue *binary(BpGraph *graph, const BpGraphNode *node, const char *op,
                            BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(graph, node, op, a, b);
}

/* The maximum number of extents that one node computes: a kernel takes each as a scalar, and
 * devices may limit scalars to 128 bytes. */
#define MAX_EXTENTS 8

/* The extents of some inputs, a row for each input; `from` is the index of the first input. */
static BpGraphValue *rows_of_extents(BpVectorMaker m, int32_t from, int32_t count, int32_t ndim,
                                     int32_t num_dims) {
  int64_t shapes[MAX_EXTENTS], matrix[] = {count, num_dims};
  for (int32_t i = 0; i < count; i++)
    for (int32_t d = 0; d < num_dims; d++) {
      const BpGraphValue *input = m.node->inputs[from + i];
      shapes[i * num_dims + d] = input ? extent_at(input, ndim, d) : 1;
    }
  return bp__op_reshape(m.graph, m.node, v_extents(m, shapes, (int64_t)count * num_dims), matrix,
                        2);
}

/* The largest or smallest number of each column, by "ReduceMax" or "ReduceMin". */
static BpGraphValue *of_columns(BpVectorMaker m, const char *op, BpGraphValue *matrix) {
  BpGraphAttr keepdims = bp__attr_int(m.graph, "keepdims", 0);
  return bp__op_apply(m.graph, "", op, m.node->name, (BpGraphValue *[]){matrix, v_number(m, 0)}, 2,
                      &keepdims, 1);
}

/* Computes the broadcast extents in a run, -1 for extents that do not broadcast: the largest and
 * the smallest extent other than 1 differ. */
static BpGraphValue *computed_broadcast(BpVectorMaker m, int32_t ndim, int32_t num_dims) {
  BpGraphValue *none = v_number(m, -1), *beyond = v_number(m, INT64_MAX), *one = v_number(m, 1);
  BpGraphValue *largest = none, *smallest = beyond;
  int32_t most = MAX_EXTENTS / num_dims;
  for (int32_t i = 0; i < m.node->num_inputs; i += most) {
    int32_t count = m.node->num_inputs - i < most ? m.node->num_inputs - i : most;
    BpGraphValue *rows = rows_of_extents(m, i, count, ndim, num_dims);
    BpGraphValue *is_one = v_binary(m, "Equal", rows, one);
    largest = v_greatest(m, largest, of_columns(m, "ReduceMax", v_choose(m, is_one, none, rows)));
    smallest = v_least(m, smallest, of_columns(m, "ReduceMin", v_choose(m, is_one, beyond, rows)));
  }
  BpGraphValue *extents = v_choose(m, v_binary(m, "Equal", largest, smallest), largest, none);
  return v_choose(m, v_binary(m, "Equal", smallest, beyond), one, extents);
}

/* The input with the extents of `common` in place of its own extents that differ and are not 1. */
static BpGraphValue *expanded(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                              int32_t ndim, int32_t num_dims, const int64_t *common) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  bool is_same = true;
  for (int32_t i = 0; i < value->ndim; i++) {
    int32_t d = i + ndim - value->ndim;
    shape[i] = d < num_dims && value->shape[i] != 1 ? common[d] : value->shape[i];
    is_same &= shape[i] == value->shape[i];
  }
  BpGraphValue *inputs[] = {value, bp__graph_int_vector(graph, shape, value->ndim)};
  return is_same ? value
                 : bp__op_apply(graph, "backplane", "ExpandIn", node->name, inputs, 2, NULL, 0);
}

/* Makes the inputs broadcast along the first `num_dims` of `ndim` dimensions; returns 1 if they
 * cannot. */
static int agree_to_broadcast(BpGraph *graph, BpGraphNode *node, int32_t ndim, int32_t num_dims) {
  int64_t common[BP_GRAPH_MAX_NDIM];
  if (num_dims == 0)
    return 0;
  if (!broadcast_of(graph, node, ndim, num_dims, common))
    return 1;
  if (!bp__op_bind(graph, node, computed_broadcast((BpVectorMaker){graph, node}, ndim, num_dims),
                   common, "the shapes of its inputs do not broadcast"))
    return -1;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] &&
        !(node->inputs[i] = expanded(graph, node, node->inputs[i], ndim, num_dims, common)))
      return -1;
  return 0;
}

static int agree_of_elements(BpGraph *graph, BpGraphNode *node) {
  int32_t ndim = 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->ndim > ndim)
      ndim = node->inputs[i]->ndim;
  return agree_to_broadcast(graph, node, ndim, ndim);
}

/* Whether a dimension has different numbers as extents in the two shapes. */
static bool surely_differ(const int64_t *a, const int64_t *b, int32_t ndim) {
  for (int32_t d = 0; d < ndim; d++)
    if (a[d] != b[d] && !bp__extent_is_open(a[d]) && !bp__extent_is_open(b[d]))
      return true;
  return false;
}

BpGraphValue *bp__op_as_shape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                              const int64_t *shape, const char *complaint) {
  static const int64_t zeros[BP_GRAPH_MAX_NDIM];
  int64_t zero = 0;
  if (!value || !memcmp(shape, value->shape, (size_t)value->ndim * sizeof(*shape)))
    return value;
  if (surely_differ(shape, value->shape, value->ndim)) {
    bp__op_bad(node, "%s", complaint);
    return NULL;
  }
  BpGraphValue *distance =
      binary(graph, node, "Sub", bp__op_extents(graph, node, shape, value->ndim),
             bp__op_extents(graph, node, value->shape, value->ndim));
  distance = binary(graph, node, "Sub", bp__graph_int_vector(graph, &zero, 1),
                    bp__op_unary(graph, node, "Abs", distance));
  if (!bp__op_bind(graph, node, distance, zeros, complaint))
    return NULL;
  BpGraphValue *inputs[] = {value, bp__graph_int_vector(graph, shape, value->ndim)};
  return bp__op_apply(graph, "backplane", "ViewIn", node->name, inputs, 2, NULL, 0);
}

int bp__op_at_most(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                   const int64_t *most, int32_t count, const char *complaint) {
  int64_t behind[BP_GRAPH_MAX_NDIM];
  int32_t num_open = 0;
  for (int32_t i = 0; i < count; i++) {
    if (bp__extent_at_least(&graph->extents, most[i], extents[i]))
      continue;
    behind[num_open] = bp__extent_subtract(&graph->extents, most[i], extents[i]);
    if (behind[num_open] == BP_EXTENT_NONE)
      return -1;
    if (!bp__extent_is_open(behind[num_open++]))
      return bp__op_bad(node, "%s", complaint);
  }
  return num_open == 0 || bp__op_bind(graph, node, bp__op_extents(graph, node, behind, num_open),
                                      NULL, complaint)
             ? 0
             : -1;
}

BpGraphValue *bp__op_onto(BpGraph *graph, const BpGraphNode *node, const char *op, BpGraphValue *x,
                          BpGraphValue *value, const char *complaint) {
  BpGraphValue *result = binary(graph, node, op, x, value);
  if (result && result->ndim != x->ndim) {
    bp__op_bad(node, "%s", complaint);
    return NULL;
  }
  for (int32_t i = 0; result && i < x->ndim; i++) {
    BpExtents *extents = &graph->extents;
    int64_t more = bp__extent_subtract(extents, result->shape[i], x->shape[i]);
    int64_t less = bp__extent_subtract(extents, x->shape[i], result->shape[i]);
    if (bp__op_require(graph, node, more, complaint) ||
        bp__op_require(graph, node, less, complaint))
      return NULL;
  }
  return result;
}

/* Requires an input to have the given extents, which a run checks; returns 1 if two numbers
 * differ. */
static int require(BpGraph *graph, BpGraphNode *node, int32_t input, const int64_t *shape) {
  BpGraphValue *value = node->inputs[input];
  if (surely_differ(shape, value->shape, value->ndim))
    return 1;
  node->inputs[input] = bp__op_as_shape(graph, node, value, shape, "extents of its inputs differ");
  return node->inputs[input] ? 0 : -1;
}

/* Makes the operands of a product agree: the second has as many rows as the first has columns, and
 * leading dimensions broadcast. */
static int agree_of_product(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  if (a->ndim == 0 || b->ndim == 0)
    return 1;
  memcpy(shape, b->shape, sizeof(shape));
  shape[b->ndim > 1 ? b->ndim - 2 : 0] = a->shape[a->ndim - 1];
  int left = require(graph, node, 1, shape);
  return left || a->ndim < 2 || b->ndim < 2 ? left
                                            : agree_to_broadcast(graph, node, ndim, ndim - 2);
}

/* Makes the input of a convolution have as many channels as the weights take. */
static int agree_of_channels(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  bool is_transpose = !strcmp(node->op->name, "ConvTranspose");
  int64_t shape[BP_GRAPH_MAX_NDIM], groups = bp__node_int(node, "group", 1);
  if (in->ndim < 3 || weights->ndim != in->ndim || groups < 1 || groups > INT32_MAX ||
      weights->shape[1] > INT32_MAX || !bp__extent_is_open(in->shape[1]))
    return 1;
  memcpy(shape, in->shape, sizeof(shape));
  shape[1] = is_transpose ? weights->shape[0] : weights->shape[1] * groups;
  return require(graph, node, 0, shape);
}

/* Makes the inputs of a concatenation agree: except along the axis, all have the extents of the
 * first, or the extents that are numbers. */
static int agree_of_parts(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *first = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  if (bp__op_axis(node, bp__node_int(node, "axis", 1), first->ndim, &axis))
    return -1;
  memcpy(shape, first->shape, sizeof(shape));
  for (int32_t i = 1; i < node->num_inputs; i++) {
    if (!node->inputs[i] || node->inputs[i]->ndim != first->ndim)
      return 1;
    for (int32_t d = 0; d < first->ndim; d++)
      if (!bp__extent_is_open(node->inputs[i]->shape[d]))
        shape[d] = node->inputs[i]->shape[d];
  }
  for (int32_t i = 0; i < node->num_inputs; i++) {
    shape[axis] = node->inputs[i]->shape[axis];
    int left = require(graph, node, i, shape);
    if (left)
      return left;
  }
  return 0;
}

/* Makes the axes that a Squeeze removes have extent 1. */
static int agree_to_squeeze(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM], axes[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, 1, "axes", axes, BP_GRAPH_MAX_NDIM), axis;
  memcpy(shape, in->shape, sizeof(shape));
  for (int32_t i = 0; i < count; i++) {
    if (bp__op_axis(node, axes[i], in->ndim, &axis))
      return -1;
    shape[axis] = 1;
  }
  return count < 0 ? 1 : require(graph, node, 0, shape);
}

/* Makes the inputs of a node agree. Returns 0 if the inputs agree as far as is known when
 * compiling, 1 if they disagree, 2 if other nodes were appended instead of this node. */
static int agree(BpGraph *graph, BpGraphNode *node) {
  if (node->op->fusion == BP_FUSE_ELEMENTWISE && node->num_inputs > 1)
    return agree_of_elements(graph, node);
  if (!strcmp(node->op->name, "MatMul"))
    return agree_of_product(graph, node);
  if (!strcmp(node->op->name, "Conv") || !strcmp(node->op->name, "ConvTranspose"))
    return agree_of_channels(graph, node);
  if (!strcmp(node->op->name, "Concat"))
    return agree_of_parts(graph, node);
  if (!strcmp(node->op->name, "Squeeze"))
    return agree_to_squeeze(graph, node);
  bool is_pad = !strcmp(node->op->name, "Pad") && bp__node_input(node, 1);
  int left =
      is_pad ? bp__bind_pad((BpVectorMaker){graph, node}, node) : bp__op_bind_shape(graph, node);
  return left < 0 ? -1 : left + 1;
}

/* Makes inputs agree after a raised error said that only a run knows whether they do. Returns 1 if
 * the raised error stays. */
static int agree_after_refusal(BpGraph *graph, BpGraphNode *node,
                               int (*agreement)(BpGraph *graph, BpGraphNode *node)) {
  if (!bp_error_is(BP_ERROR_NOT_IMPLEMENTED) || !bp__graph_is_open(graph) || *node->op->domain)
    return 1;
  BpError *refusal = bp_error_take();
  int left = agreement(graph, node);
  if (left == 1)
    bp_error_put(refusal);
  else
    bp_object_release(refusal);
  return left;
}

int bp__op_infer_agreeing(BpGraph *graph, BpGraphNode *node) {
  if (!node->op->infer(graph, node))
    return 0;
  int left = agree_after_refusal(graph, node, agree);
  return left == 0 ? node->op->infer(graph, node) : left == 2 ? 1 : -1;
}

int bp__op_agree_elements(BpGraph *graph, BpGraphNode *node) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim;
  return bp__op_broadcast(node, shape, &ndim) && agree_after_refusal(graph, node, agree_of_elements)
             ? -1
             : 0;
}
