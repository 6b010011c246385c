/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes for vectors of int64 by which a node's shapes are computed when the model runs (bind.c,
 * axes.c). All have the name of that node. Operands that are NULL make results that are. */
#ifndef BACKPLANE_GRAPH_OPS_VECTOR_H
#define BACKPLANE_GRAPH_OPS_VECTOR_H

#include "graph/ops/op.h"

typedef struct BpVectorMaker {
  BpGraph *graph;
  const BpGraphNode *node;
} BpVectorMaker;

/* One number, which broadcasts; and extents as data. */
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
/* The sum or the product of all elements, "ReduceSum" or "ReduceProd". */
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
/* 0, 1, 2 and so on, at most BP_GRAPH_MAX_NDIM of them. */
static inline BpGraphValue *v_places(BpVectorMaker m, int32_t count) {
  int64_t places[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < count; i++)
    places[i] = i;
  return bp__graph_int_vector(m.graph, places, count);
}

/* The extent that is an element of what bp__op_bind gave. */
static inline int64_t v_extent(const BpGraphValue *bound, int64_t index) {
  return bound->extents ? bound->extents[index] : bp__value_get_int(bound, index);
}

/* The input of the node as a vector of int64 whose length, at most `max`, is known; *count is -1 if
 * it is not there. NULL: an error, or it is not there. (bind.c) */
BpGraphValue *bp__vector_read(BpVectorMaker m, int32_t input, int32_t max, int64_t *count);
/* Whether only a run knows the input. */
bool bp__vector_is_of_data(const BpGraphNode *node, int32_t input);
/* Appends an operator of these files, of the node's first input and a vector, in the place of the
 * node; 1 on success. */
int bp__vector_replace(BpVectorMaker m, BpGraphNode *node, const char *op, BpGraphValue *vector,
                       const BpGraphAttr *attrs, int32_t num_attrs);

/* The extents before, along and behind an axis of the node's first input that only a run knows, as
 * three that a run checks: those before are multiplied, and so are those behind. The axis, one
 * number that may count from the end, is one of the first `ndim`. (axes.c) */
BpGraphValue *bp__vector_around(BpVectorMaker m, BpGraphValue *axis, int32_t ndim);

/* Binders of inputs that say lengths (bind.c), axes (axes.c) and pads (bind_pad.c): as
 * bp__op_bind_inputs. */
int bp__bind_split(BpVectorMaker m, BpGraphNode *node);
int bp__bind_reduce(BpVectorMaker m, BpGraphNode *node);
int bp__bind_squeeze(BpVectorMaker m, BpGraphNode *node);
int bp__bind_unsqueeze(BpVectorMaker m, BpGraphNode *node);
int bp__bind_running(BpVectorMaker m, BpGraphNode *node);
int bp__bind_trilu(BpVectorMaker m, BpGraphNode *node);
int bp__bind_pad(BpVectorMaker m, BpGraphNode *node);
/* Of blocks and a picture (columns.c), and of transforms (spectral.c). */
int bp__bind_col2im(BpVectorMaker m, BpGraphNode *node);
int bp__bind_dft(BpVectorMaker m, BpGraphNode *node);
int bp__bind_stft(BpVectorMaker m, BpGraphNode *node);

#endif
