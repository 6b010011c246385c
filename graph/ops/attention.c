/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embeddings, built from other operators. Heads are an axis of their own,
 * (batch, heads, length, size), or part of the last axis, (batch, length, heads * size). */
#include <math.h>
#include <string.h>

#include "graph/ops/rows.h"

static BpGraphValue *concat(BpGraph *graph, const BpGraphNode *node, BpGraphValue *a,
                            BpGraphValue *b, int64_t axis) {
  BpGraphAttr attr = bp__attr_int(graph, "axis", axis);
  return bp__op_apply(graph, "", "Concat", node->name, (BpGraphValue *[]){a, b}, 2, &attr, 1);
}

static BpGraphValue *where(BpGraph *graph, const BpGraphNode *node, BpGraphValue *condition,
                           BpGraphValue *then, BpGraphValue *otherwise) {
  return bp__op_apply(graph, "", "Where", node->name,
                      (BpGraphValue *[]){condition, then, otherwise}, 3, NULL, 0);
}

/* Reshapes (batch, length, heads * size) to (batch, length, heads, size). */
static BpGraphValue *split_heads(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                                 int64_t heads) {
  if (bp__extent_is_open(x->shape[2]) || heads < 1 || x->shape[2] % heads != 0) {
    char text[64];
    bp__op_bad(node, "its number of heads, %lld, does not divide an extent of %s", (long long)heads,
               bp__extent_format(&graph->extents, x->shape[2], text, sizeof(text)));
    return NULL;
  }
  int64_t shape[] = {x->shape[0], x->shape[1], heads, x->shape[2] / heads};
  return bp__op_reshape(graph, node, x, shape, 4);
}

/* ---- Rotary embeddings ------------------------------------------------------------------- */

typedef struct Rotary {
  BpGraphValue *x;    /* input with four dimensions */
  int32_t length;     /* axis of the positions */
  int64_t size, half; /* number of rotated elements, the first of each head, and number of pairs */
} Rotary;

static int read_rotary(BpGraph *graph, const BpGraphNode *node, Rotary *rotary) {
  BpGraphValue *x = node->inputs[0];
  if (x->ndim != 3 && x->ndim != 4)
    return bp__op_bad(node, "its input has %d dimensions, neither 3 nor 4", x->ndim);
  rotary->length = x->ndim == 3 ? 1 : 2;
  rotary->x = x->ndim == 3 ? split_heads(graph, node, x, bp__node_int(node, "num_heads", 0)) : x;
  if (!rotary->x)
    return -1;
  int64_t size = bp__node_int(node, "rotary_embedding_dim", 0);
  if (bp__extent_is_open(rotary->x->shape[3]))
    return bp__op_error(node, "heads of an open size are not supported");
  rotary->size = size ? size : rotary->x->shape[3];
  rotary->half = rotary->size / 2;
  if (rotary->size < 2 || rotary->size % 2 != 0 || rotary->size > rotary->x->shape[3])
    return bp__op_bad(node, "its rotary_embedding_dim is %lld, of heads of %lld",
                      (long long)rotary->size, (long long)rotary->x->shape[3]);
  return 0;
}

/* A row of the cache for each position, with a shape that broadcasts over the heads. */
static BpGraphValue *rotary_rows(BpGraph *graph, const BpGraphNode *node, const Rotary *rotary,
                                 int32_t input) {
  BpGraphValue *rows = node->inputs[input], *places = bp__node_input(node, 3);
  int64_t shape[] = {rotary->x->shape[0], 1, 1, rotary->half};
  shape[rotary->length] = rotary->x->shape[rotary->length];
  if (places)
    rows =
        bp__op_apply(graph, "", "Gather", node->name, (BpGraphValue *[]){rows, places}, 2, NULL, 0);
  char text[BP_VALUE_TEXT];
  if (!rows)
    return NULL;
  if (rows->ndim != 3 || rows->shape[2] != rotary->half) {
    bp__op_bad(node, "its cache '%s' gives %s, not a row of %lld for each place",
               node->inputs[input]->name, bp__value_format(rows, text), (long long)rotary->half);
    return NULL;
  }
  const int64_t wanted[] = {shape[0], shape[rotary->length], rotary->half};
  rows = bp__op_as_shape(graph, node, rows, wanted, "its cache lacks a row for each place");
  return bp__op_reshape(graph, node, rows, shape, 4);
}

/* The first or the second elements of the pairs: every other element, or a half. */
static BpGraphValue *rotary_part(BpGraph *graph, const BpGraphNode *node, const Rotary *rotary,
                                 int64_t part) {
  int64_t axis = 3, start = part, step = 2, end = rotary->size;
  if (!bp__node_int(node, "interleaved", 0)) {
    start = part * rotary->half;
    end = start + rotary->half;
    step = 1;
  }
  BpGraphValue *inputs[] = {
      rotary->x, bp__graph_int_vector(graph, &start, 1), bp__graph_int_vector(graph, &end, 1),
      bp__graph_int_vector(graph, &axis, 1), bp__graph_int_vector(graph, &step, 1)};
  return bp__op_apply(graph, "", "Slice", node->name, inputs, 5, NULL, 0);
}

/* Joins the first and second elements of the pairs at their original positions. */
static BpGraphValue *join_parts(BpGraph *graph, const BpGraphNode *node, const Rotary *rotary,
                                BpGraphValue *first, BpGraphValue *second) {
  int64_t shape[5] = {0};
  if (!bp__node_int(node, "interleaved", 0))
    return concat(graph, node, first, second, 3);
  memcpy(shape, rotary->x->shape, 3 * sizeof(*shape));
  shape[3] = rotary->half;
  shape[4] = 1;
  first = bp__op_reshape(graph, node, first, shape, 5);
  second = bp__op_reshape(graph, node, second, shape, 5);
  shape[3] = rotary->size;
  return bp__op_reshape(graph, node, concat(graph, node, first, second, 4), shape, 4);
}

BP_ROW_EXPAND(rotary_embedding) {
  BpGraphValue *cosine, *sine, *a, *b, *real, *imaginary, *turned;
  const BpGraphValue *in = node->inputs[0];
  Rotary rotary;
  if (read_rotary(graph, node, &rotary) || !(cosine = rotary_rows(graph, node, &rotary, 1)) ||
      !(sine = rotary_rows(graph, node, &rotary, 2)))
    return -1;
  a = rotary_part(graph, node, &rotary, 0);
  b = rotary_part(graph, node, &rotary, 1);
  real = bp__op_binary(graph, node, "Sub", bp__op_binary(graph, node, "Mul", cosine, a),
                       bp__op_binary(graph, node, "Mul", sine, b));
  imaginary = bp__op_binary(graph, node, "Add", bp__op_binary(graph, node, "Mul", sine, a),
                            bp__op_binary(graph, node, "Mul", cosine, b));
  turned = join_parts(graph, node, &rotary, real, imaginary);
  if (rotary.size < rotary.x->shape[3])
    turned = concat(graph, node, turned,
                    bp__op_slice(graph, node, rotary.x, 3, rotary.size, rotary.x->shape[3]), 3);
  node->outputs[0] = bp__op_reshape(graph, node, turned, in->shape, in->ndim);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Attention --------------------------------------------------------------------------- */

typedef struct Attention {
  BpGraph *graph;
  const BpGraphNode *node;
  BpGraphValue *q, *k, *v; /* (batch, heads, length, size); k and v include the past */
  int64_t past;            /* number of past keys, an extent */
  int64_t groups;          /* number of heads of q for each head of k */
} Attention;

static BpGraphValue *heads_of(const Attention *at, int32_t input, const char *count) {
  static const int64_t perm[] = {0, 2, 1, 3};
  BpGraphValue *x = at->node->inputs[input];
  if (x->ndim == 4)
    return x;
  if (x->ndim != 3) {
    bp__op_bad(at->node, "input %d has %d dimensions, neither 3 nor 4", input, x->ndim);
    return NULL;
  }
  x = split_heads(at->graph, at->node, x, bp__node_int(at->node, count, 0));
  return x ? bp__op_transpose(at->graph, at->node, x, perm, 4) : NULL;
}

#define MISFIT "its query, key and value do not fit each other"

/* Keys or values: the past ones, then the new ones. */
static BpGraphValue *with_past(const Attention *at, int32_t input, BpGraphValue *x) {
  BpGraphValue *past = bp__node_input(at->node, input);
  return past && x ? concat(at->graph, at->node, past, x, 2) : x;
}

/* Checks the heads and their sizes, which must be known when the graph is compiled. */
static int check_heads(Attention *at) {
  const int64_t *q = at->q->shape, *k = at->k->shape, *v = at->v->shape;
  const int64_t known[] = {q[1], q[3], k[1], k[3], v[1], v[3]};
  if (bp__extents_any_open(known, 6))
    return bp__op_error(at->node, "heads of an open number or size are not supported");
  at->groups = k[1] ? q[1] / k[1] : 0;
  if (q[1] != at->groups * k[1] || k[1] != v[1] || q[3] != k[3] || at->groups < 1)
    return bp__op_bad(at->node, "%s", MISFIT);
  return 0;
}

/* Checks that keys and values have the batches of the queries and one length; a run compares open
 * extents. */
static int match_lengths(Attention *at) {
  int64_t k[] = {at->q->shape[0], at->k->shape[1], at->k->shape[2], at->k->shape[3]};
  int64_t v[] = {k[0], k[1], k[2], at->v->shape[3]};
  at->k = bp__op_as_shape(at->graph, at->node, at->k, k, MISFIT);
  at->v = bp__op_as_shape(at->graph, at->node, at->v, v, MISFIT);
  return at->k && at->v ? 0 : -1;
}

static int read_attention(Attention *at) {
  const BpGraphNode *node = at->node;
  const BpGraphValue *past = bp__node_input(node, 4);
  at->q = heads_of(at, 0, "q_num_heads");
  at->k = with_past(at, 4, heads_of(at, 1, "kv_num_heads"));
  at->v = with_past(at, 5, heads_of(at, 2, "kv_num_heads"));
  if (!at->q || !at->k || !at->v)
    return -1;
  if (!past != !bp__node_input(node, 5) || (past && bp__node_input(node, 6)))
    return bp__op_bad(node, "past_key and past_value go together, and nonpad_kv_seqlen without "
                            "them");
  at->past = past ? past->shape[2] : 0;
  return check_heads(at) || match_lengths(at) ? -1 : 0;
}

/* The numbers 0, 1, ... along axis `axis` of `ndim` dimensions. */
static BpGraphValue *places(const Attention *at, int64_t count, int32_t ndim, int32_t axis) {
  int64_t shape[4] = {1, 1, 1, 1};
  shape[axis] = count;
  return bp__op_reshape(at->graph, at->node, bp__op_counting(at->graph, at->node, count), shape,
                        ndim);
}

static BpGraphValue *binary(const Attention *at, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(at->graph, at->node, op, a, b);
}

/* A number, which may be an open extent, as a value. */
static BpGraphValue *number(const Attention *at, int64_t value) {
  return bp__op_extents(at->graph, at->node, &value, 1);
}

/* Reads the number of valid keys for each batch, (batch, 1, 1, 1); NULL if all keys are valid. */
static int valid_keys(const Attention *at, BpGraphValue **valid) {
  BpGraphValue *lengths = bp__node_input(at->node, 6);
  int64_t shape[] = {at->q->shape[0], 1, 1, 1};
  *valid = NULL;
  if (!lengths)
    return 0;
  *valid = bp__op_reshape(at->graph, at->node, bp__op_cast(at->graph, at->node, lengths, BP__INT64),
                          shape, 4);
  return *valid ? 0 : -1;
}

/* Combines a further condition with the conditions so far. */
static int demand(const Attention *at, BpGraphValue **allowed, BpGraphValue *more) {
  *allowed = *allowed && more ? binary(at, "And", *allowed, more) : more;
  return *allowed ? 0 : -1;
}

/* Computes which keys a query may attend to, by their positions and by a bool mask; NULL if every
 * query may attend to all keys. A query has its position among the valid keys. */
static int allowed_keys(const Attention *at, BpGraphValue *mask, BpGraphValue **allowed) {
  int64_t queries = at->q->shape[2], keys = at->k->shape[2];
  int64_t left = bp__node_int(at->node, "left_window_size", -1);
  int64_t right = bp__node_int(at->node, "right_window_size", -1);
  BpGraphValue *valid, *key = places(at, keys, 1, 0), *query = places(at, queries, 2, 0), *ahead;
  *allowed = mask;
  if (!key || !query || valid_keys(at, &valid))
    return -1;
  query = binary(at, "Add", query,
                 valid ? binary(at, "Sub", valid, number(at, queries)) : number(at, at->past));
  if (bp__node_int(at->node, "is_causal", 0))
    right = 0;
  ahead = binary(at, "Sub", key, query);
  if (right >= 0 && demand(at, allowed, binary(at, "LessOrEqual", ahead, number(at, right))))
    return -1;
  if (left >= 0 && demand(at, allowed, binary(at, "LessOrEqual", number(at, -left), ahead)))
    return -1;
  return valid ? demand(at, allowed, binary(at, "Less", key, valid)) : 0;
}

/* Pads the mask to the number of keys; the added keys are masked out. If the number of keys is
 * open, the mask must include all keys. */
static BpGraphValue *padded_mask(const Attention *at, BpGraphValue *mask) {
  int64_t pads[2 * BP_GRAPH_MAX_NDIM] = {0}, keys = at->k->shape[2];
  BpGraphValue *fill;
  if (mask->ndim == 0)
    return mask;
  int64_t columns = mask->shape[mask->ndim - 1];
  if (bp__extent_is_open(keys) || bp__extent_is_open(columns)) {
    int64_t shape[BP_GRAPH_MAX_NDIM];
    memcpy(shape, mask->shape, sizeof(shape));
    shape[mask->ndim - 1] = keys;
    return bp__op_as_shape(at->graph, at->node, mask, shape,
                           "its mask has not as many columns as there are keys");
  }
  int64_t lacks = keys - columns;
  if (lacks <= 0)
    return mask;
  pads[2 * mask->ndim - 1] = lacks;
  fill = mask->dtype.code == BP_DTYPE_BOOL
             ? bp__graph_constant(at->graph, at->node->name, BP__BOOL, NULL, 0, NULL)
             : bp__op_scalar(at->graph, at->node, mask, -HUGE_VALF);
  BpGraphValue *inputs[] = {mask, bp__graph_int_vector(at->graph, pads, 2 * mask->ndim), fill};
  return bp__op_apply(at->graph, "", "Pad", at->node->name, inputs, 3, NULL, 0);
}

/* Makes the bias that is added to the products: minus infinity where a query may not attend to a
 * key; NULL if no bias is needed. */
static int make_bias(const Attention *at, BpGraphValue **bias) {
  BpGraphValue *mask = bp__node_input(at->node, 3), *allowed;
  BpGraphValue *zero = bp__op_scalar(at->graph, at->node, at->q, 0);
  BpGraphValue *never = bp__op_scalar(at->graph, at->node, at->q, -HUGE_VALF);
  *bias = NULL;
  if (mask && mask->dtype.code != BP_DTYPE_BOOL)
    mask = bp__op_cast(at->graph, at->node, mask, at->q->dtype);
  if (bp__node_input(at->node, 3) && (!mask || !(mask = padded_mask(at, mask))))
    return -1;
  int is_bool = mask && mask->dtype.code == BP_DTYPE_BOOL;
  if (allowed_keys(at, is_bool ? mask : NULL, &allowed))
    return -1;
  if (mask && !is_bool)
    *bias = mask;
  if (allowed)
    *bias = where(at->graph, at->node, allowed, *bias ? *bias : zero, never);
  return (mask || allowed) && !*bias ? -1 : 0;
}

/* Multiplies the queries, grouped by the heads of the keys, by `other`: heads that share a key
 * become rows. */
static BpGraphValue *grouped_product(const Attention *at, BpGraphValue *x, BpGraphValue *other) {
  if (!x || !other)
    return NULL;
  int64_t out[] = {x->shape[0], x->shape[1], x->shape[2], other->shape[3]};
  int64_t rows[] = {x->shape[0], other->shape[1],
                    bp__extent_multiply(&at->graph->extents, x->shape[2], at->groups), x->shape[3]};
  if (at->groups == 1 || rows[2] == BP_EXTENT_NONE)
    return at->groups == 1 ? binary(at, "MatMul", x, other) : NULL;
  x = binary(at, "MatMul", bp__op_reshape(at->graph, at->node, x, rows, 4), other);
  if (!x)
    return NULL;
  out[0] = x->shape[0]; /* both operands have equal batches */
  return bp__op_reshape(at->graph, at->node, x, out, 4);
}

/* The probabilities, in the type of softmax_precision; they are 0 for a query that may attend to no
 * key. */
static BpGraphValue *probabilities(const Attention *at, BpGraphValue *scores, BpGraphValue *bias) {
  BpDataType dtype = at->q->dtype;
  int64_t last = -1;
  BpGraphAttr axis = bp__attr_int(at->graph, "axis", last);
  int64_t precision = bp__node_int(at->node, "softmax_precision", 0);
  if (precision && bp__dtype_from_onnx(precision, &dtype)) {
    bp__op_error(at->node, "type number %lld is not supported", (long long)precision);
    return NULL;
  }
  scores = bp__op_cast(at->graph, at->node, scores, dtype);
  scores = bp__op_apply(at->graph, "", "Softmax", at->node->name, &scores, 1, &axis, 1);
  if (!bias)
    return bp__op_cast(at->graph, at->node, scores, at->q->dtype);
  BpGraphValue *most = binary(at, "ReduceMax", bias, number(at, last));
  BpGraphValue *none =
      binary(at, "Equal", most, bp__op_scalar(at->graph, at->node, most, -HUGE_VALF));
  scores = where(at->graph, at->node, none, bp__op_scalar(at->graph, at->node, scores, 0), scores);
  return bp__op_cast(at->graph, at->node, scores, at->q->dtype);
}

static int set_products(const Attention *at, BpGraphNode *node, BpGraphValue *const stages[4]) {
  int64_t mode = bp__node_int(node, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return bp__op_bad(node, "its qk_matmul_output_mode is %lld", (long long)mode);
  node->outputs[3] = bp__op_cast(at->graph, node, stages[mode], at->q->dtype);
  return node->outputs[3] ? 0 : -1;
}

BP_ROW_EXPAND(attention) {
  static const int64_t turn[] = {0, 1, 3, 2}, back[] = {0, 2, 1, 3};
  Attention at = {.graph = graph, .node = node};
  BpGraphValue *bias, *stages[4], *out;
  float cap = bp__node_float(node, "softcap", 0);
  if (read_attention(&at) || make_bias(&at, &bias))
    return -1;
  float scale = bp__node_attr(node, "scale") ? bp__node_float(node, "scale", 1)
                                             : 1.0f / sqrtf((float)at.q->shape[3]);
  stages[0] =
      grouped_product(&at, binary(&at, "Mul", at.q, bp__op_scalar(graph, node, at.q, scale)),
                      bp__op_transpose(graph, node, at.k, turn, 4));
  stages[1] = stages[0];
  if (cap > 0) {
    BpGraphValue *most = bp__op_scalar(graph, node, stages[0], cap);
    stages[1] = bp__op_unary(graph, node, "Tanh", binary(&at, "Div", stages[0], most));
    stages[1] = binary(&at, "Mul", stages[1], most);
  }
  stages[2] = bias ? bp__op_onto(graph, node, "Add", stages[1], bias,
                                 "its mask does not broadcast to the scores")
                   : stages[1];
  stages[3] = probabilities(&at, stages[2], bias);
  out = grouped_product(&at, stages[3], at.v);
  if (out && node->inputs[0]->ndim == 3) {
    int64_t shape[] = {out->shape[0], out->shape[2], out->shape[1] * out->shape[3]};
    out = bp__op_reshape(graph, node, bp__op_transpose(graph, node, out, back, 4), shape, 3);
  }
  node->outputs[0] = out;
  if (node->num_outputs > 1)
    node->outputs[1] = at.k;
  if (node->num_outputs > 2)
    node->outputs[2] = at.v;
  return !out || (node->num_outputs > 3 && set_products(&at, node, stages)) ? -1 : 0;
}
