/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes on vectors of int64 that compute a node's shapes when the model runs (bind.c, axes.c). All
 * nodes on vectors have the name of the node that needs them. A NULL operand gives NULL. */
#ifndef BACKPLANE_GRAPH_OPS_VECTOR_H
#define BACKPLANE_GRAPH_OPS_VECTOR_H

#include "graph/ops/op.h"

typedef struct BpVectorMaker {
  BpGraph *graph;
  const BpGraphNode *node;
} BpVectorMaker;

/* A vector of one number, which broadcasts; and a vector of extents as data. */
static inline BpGraphValue *v_number(BpVectorMaker m, int64_t value) {
  return bp__graph_int_vector(m.graph, &value, 1);
}
static inline BpGraphValue *v_extents(BpVectorMaker m, const int64_t *extents, int64_t count) {
  return bp__op_extents(m.graph, m.node, extents, count);
}

static inline BpGraphValue *v_binary(BpVectorMaker m, const char *op, BpGraphValue *a,
                                     BpGraphValue *b) {
  return bp__op_binary(m.graph, m.node, op, a, b);
}
static inline BpGraphValue *v_choose(BpVectorMaker m, BpGraphValue *condition, BpGraphValue *a,
                                     BpGraphValue *b) {
  return bp__op_apply(m.graph, "", "Where", m.node->name, (BpGraphValue *[]){condition, a, b}, 3,
                      NULL, 0);
}
static inline BpGraphValue *v_least(BpVectorMaker m, BpGraphValue *a, BpGraphValue *b) {
  return v_binary(m, "Min", a, b);
}
static inline BpGraphValue *v_greatest(BpVectorMaker m, BpGraphValue *a, BpGraphValue *b) {
  return v_binary(m, "Max", a, b);
}
/* The sum or the product of all elements, by "ReduceSum" or "ReduceProd". */
static inline BpGraphValue *v_reduce(BpVectorMaker m, const char *op, BpGraphValue *a) {
  return bp__op_unary(m.graph, m.node, op, a);
}
/* Joins vectors end to end. */
static inline BpGraphValue *v_join(BpVectorMaker m, BpGraphValue *const *parts, int32_t count) {
  BpGraphAttr axis = bp__attr_int(m.graph, "axis", 0);
  return bp__op_apply(m.graph, "", "Concat", m.node->name, parts, count, &axis, 1);
}
/* The sum of each row of a matrix. */
static inline BpGraphValue *v_sum_rows(BpVectorMaker m, BpGraphValue *matrix) {
  BpGraphAttr keepdims = bp__attr_int(m.graph, "keepdims", 0);
  return bp__op_apply(m.graph, "", "ReduceSum", m.node->name,
                      (BpGraphValue *[]){matrix, v_number(m, 1)}, 2, &keepdims, 1);
}
/* A vector as a column. */
static inline BpGraphValue *v_column(BpVectorMaker m, BpGraphValue *vector) {
  int64_t shape[] = {-1, 1};
  return bp__op_reshape(m.graph, m.node, vector, shape, 2);
}
/* The vector 0, 1, 2 and so on, of at most BP_GRAPH_MAX_NDIM numbers. */
static inline BpGraphValue *v_places(BpVectorMaker m, int32_t count) {
  int64_t places[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < count; i++)
    places[i] = i;
  return bp__graph_int_vector(m.graph, places, count);
}

/* The extent that is an element of a vector from bp__op_bind. */
static inline int64_t v_extent(const BpGraphValue *bound, int64_t index) {
  return bound->extents ? bound->extents[index] : bp__value_get_int(bound, index);
}

/* An input of the node as a vector of int64 whose length is known and at most `max` (bind.c). If
 * the input is absent, *count is -1 and the result NULL; NULL with an error on failure. */
BpGraphValue *bp__vector_read(BpVectorMaker m, int32_t input, int32_t max, int64_t *count);
/* The same; if the length of the input is open, it must be `length` in a run, unless that is -1. */
BpGraphValue *bp__vector_read_as(BpVectorMaker m, int32_t input, int32_t max, int64_t length,
                                 int64_t *count);
/* Whether only a run knows the elements of an input. */
bool bp__vector_is_of_data(const BpGraphNode *node, int32_t input);
/* Appends an operator on the node's first input and a vector instead of the node; returns 1 on
 * success. */
int bp__vector_replace(BpVectorMaker m, BpGraphNode *node, const char *op, BpGraphValue *vector,
                       const BpGraphAttr *attrs, int32_t num_attrs);

/* Three extents around an axis of the node's first input that only a run knows: the product of the
 * extents before the axis, the axis' extent, and the product of the extents after it; a run checks
 * them (axes.c). The axis is one number that may count from the end, and is one of the first `ndim`
 * axes. */
BpGraphValue *bp__vector_around(BpVectorMaker m, BpGraphValue *axis, int32_t ndim);

/* Bind inputs that are lengths (bind.c), axes (axes.c) and pads (bind_pad.c), as bp__op_bind_inputs
 * does. */
int bp__bind_split(BpVectorMaker m, BpGraphNode *node);
int bp__bind_reduce(BpVectorMaker m, BpGraphNode *node);
int bp__bind_squeeze(BpVectorMaker m, BpGraphNode *node);
int bp__bind_unsqueeze(BpVectorMaker m, BpGraphNode *node);
int bp__bind_running(BpVectorMaker m, BpGraphNode *node);
int bp__bind_trilu(BpVectorMaker m, BpGraphNode *node);
int bp__bind_pad(BpVectorMaker m, BpGraphNode *node);
/* Bind inputs of Col2Im (columns.c) and of transforms (spectral.c). */
int bp__bind_col2im(BpVectorMaker m, BpGraphNode *node);
int bp__bind_dft(BpVectorMaker m, BpGraphNode *node);
int bp__bind_stft(BpVectorMaker m, BpGraphNode *node);

#endif
