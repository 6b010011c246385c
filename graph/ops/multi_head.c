/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embeddings of com.microsoft, built from ONNX's operators. Source:
 * onnxruntime's docs/ContribOperators.md, for operator set 1 of the domain. */
#include <string.h>

#include "graph/ops/op.h"
#include "graph/ops/rows.h"

/* ---- Rotary embeddings ------------------------------------------------------------------- */

/* The positions (batch, length) of a node that may give only the first position of all rows. */
static BpGraphValue *rotary_positions(BpGraph *graph, const BpGraphNode *node, int32_t axis) {
  const BpGraphValue *x = node->inputs[0];
  BpGraphValue *given = node->inputs[1], *all;
  int64_t shape[] = {x->shape[0], x->shape[axis]}, row[] = {1, x->shape[axis]};
  if (given->ndim == 2)
    return given;
  if (given->ndim != 1 || given->shape[0] != 1) {
    bp__op_bad(node, "its position_ids are neither one number nor a matrix");
    return NULL;
  }
  all = bp__op_reshape(graph, node, bp__op_counting(graph, node, shape[1]), row, 2);
  all = bp__op_binary(graph, node, "Add", all, bp__op_cast(graph, node, given, BP__INT64));
  return bp__op_binary(graph, node, "Expand", all, bp__graph_int_vector(graph, shape, 2));
}

BP_ROW_EXPAND(microsoft_rotary_embedding) {
  const BpGraphValue *x = node->inputs[0], *cosine = node->inputs[2];
  int64_t heads = bp__node_int(node, "num_heads", 0);
  int64_t size = bp__node_int(node, "rotary_embedding_dim", 0);
  if ((x->ndim != 3 && x->ndim != 4) || cosine->ndim != 2)
    return bp__op_bad(node, "its input and its cache have %d and %d dimensions, not 3 or 4, and 2",
                      x->ndim, cosine->ndim);
  if (heads == 0 && x->ndim == 3 && cosine->shape[1] > 0 && !bp__extent_is_open(x->shape[2]))
    heads = x->shape[2] / (2 * cosine->shape[1]); /* without num_heads, whole heads are rotated */
  BpGraphAttr attrs[] = {bp__attr_int(graph, "interleaved", bp__node_int(node, "interleaved", 0)),
                         bp__attr_int(graph, "num_heads", heads),
                         bp__attr_int(graph, "rotary_embedding_dim", size)};
  BpGraphValue *inputs[] = {node->inputs[0], node->inputs[2], node->inputs[3],
                            rotary_positions(graph, node, x->ndim == 3 ? 1 : 2)};
  node->outputs[0] = bp__op_apply(graph, "", "RotaryEmbedding", node->name, inputs, 4, attrs, 3);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Attention --------------------------------------------------------------------------- */

typedef struct MultiHead {
  BpGraph *graph;
  BpGraphNode *node;
  BpGraphValue *q, *k, *v;   /* (batch, length, heads * size); k and v also with heads as axis 1 */
  BpGraphValue *past[2];     /* past keys and past values, or NULL */
  BpGraphValue *mask, *bias; /* mask of the keys, and bias of the products; each may be NULL */
} MultiHead;

/* The number of keys, including the past ones. */
static int64_t num_keys(const MultiHead *at) {
  int64_t keys = at->k->shape[at->k->ndim == 4 ? 2 : 1];
  return at->past[0] ? bp__extent_add(&at->graph->extents, at->past[0]->shape[2], keys) : keys;
}

/* Whether a query may attend to a key, as a bool that broadcasts to (batch, heads, queries, keys).
 * A mask of one dimension contains the number of valid keys. */
static BpGraphValue *visible(const MultiHead *at) {
  static const int64_t zero;
  static const char complaint[] = "its mask does not fit its queries and keys";
  BpGraphValue *mask = at->mask;
  int64_t batch = at->q->shape[0], queries = at->q->shape[1], keys = num_keys(at);
  int64_t own[] = {batch, mask->ndim == 2 ? keys : queries, keys};
  int64_t shape[] = {batch, 1, mask->ndim == 3 ? queries : 1, mask->ndim == 1 ? 1 : keys};
  if (keys == BP_EXTENT_NONE)
    return NULL;
  if (mask->ndim < 1 || mask->ndim > 3) {
    bp__op_bad(at->node, "%s", complaint);
    return NULL;
  }
  mask = bp__op_as_shape(at->graph, at->node, mask, own, complaint);
  mask = bp__op_cast(at->graph, at->node, mask, BP__INT64);
  int is_count = at->mask->ndim == 1;
  mask = bp__op_reshape(at->graph, at->node, mask, shape, 4);
  return is_count ? bp__op_binary(at->graph, at->node, "Less",
                                  bp__op_counting(at->graph, at->node, keys), mask)
                  : bp__op_binary(at->graph, at->node, "Greater", mask,
                                  bp__graph_int_vector(at->graph, &zero, 1));
}

/* Makes the bias that is added to the products; NULL if no bias is needed. */
static int make_bias(MultiHead *at, BpGraphValue **sum) {
  float filter = bp__node_float(at->node, "mask_filter_value", -10000);
  *sum = at->bias;
  if (!at->mask)
    return 0;
  BpGraphValue *inputs[] = {visible(at), bp__op_scalar(at->graph, at->node, at->q, 0),
                            bp__op_scalar(at->graph, at->node, at->q, filter)};
  BpGraphValue *masked = bp__op_apply(at->graph, "", "Where", at->node->name, inputs, 3, NULL, 0);
  *sum = at->bias ? bp__op_binary(at->graph, at->node, "Add", masked, at->bias) : masked;
  return *sum ? 0 : -1;
}

/* Appends ONNX's Attention with `num_outputs` outputs; NULL with an error. */
static BpGraphNode *make_attention(MultiHead *at, int32_t num_outputs) {
  BpGraphAttr attrs[4];
  BpGraphNode *attention;
  BpGraphValue *bias;
  int32_t count = 0;
  int64_t heads = bp__node_int(at->node, "num_heads", 0);
  if (make_bias(at, &bias))
    return NULL;
  attrs[count++] = bp__attr_int(at->graph, "q_num_heads", heads);
  attrs[count++] = bp__attr_int(at->graph, "kv_num_heads", heads);
  attrs[count++] =
      bp__attr_int(at->graph, "is_causal", bp__node_int(at->node, "unidirectional", 0));
  if (bp__node_float(at->node, "scale", 0) != 0)
    attrs[count++] = *bp__node_attr(at->node, "scale");
  BpGraphValue *inputs[] = {at->q, at->k, at->v, bias, at->past[0], at->past[1]};
  attention = bp__graph_node(at->graph, bp__op_find("", "Attention"), at->node->name, inputs,
                             at->past[1] ? 6
                             : bias      ? 4
                                         : 3,
                             num_outputs, attrs, count);
  return attention && !bp__op_append(at->graph, attention) ? attention : NULL;
}

/* Adds to x its part of the bias, which begins at `first`. */
static BpGraphValue *with_bias(const MultiHead *at, BpGraphValue *bias, int64_t first,
                               BpGraphValue *x) {
  return bp__op_binary(at->graph, at->node, "Add", x,
                       bp__op_slice(at->graph, at->node, bias, 0, first, first + x->shape[2]));
}

static int add_biases(MultiHead *at, BpGraphValue *bias) {
  int64_t q = at->q->shape[2], k;
  if (at->k->ndim != 3 || at->v->ndim != 3)
    return bp__op_error(at->node, "a bias with keys and values of 4 dimensions is not supported");
  k = at->k->shape[2];
  const int64_t known[] = {q, k, at->v->shape[2]};
  if (bp__extents_any_open(known, 3))
    return bp__op_error(at->node, "heads of an open number or size are not supported");
  if (bias->ndim != 1 || bias->shape[0] != q + k + at->v->shape[2])
    return bp__op_bad(at->node, "its bias is not a vector of %lld",
                      (long long)(q + k + at->v->shape[2]));
  at->v = with_bias(at, bias, q + k, at->v);
  at->k = with_bias(at, bias, q, at->k);
  at->q = with_bias(at, bias, 0, at->q);
  return at->q && at->k && at->v ? 0 : -1;
}

/* Checks that there are as many keys as queries: with more keys, onnxruntime's last query attends
 * to all of them. */
static BpGraphValue *as_many_keys(const MultiHead *at) {
  int64_t shape[4] = {0};
  for (int32_t i = 0; i < at->k->ndim; i++)
    shape[i] = at->k->shape[i];
  shape[at->k->ndim == 4 ? 2 : 1] = at->q->shape[1];
  return bp__op_as_shape(at->graph, at->node, at->k, shape,
                         "unidirectional wants as many keys as queries");
}

/* The inputs are query, key, value, bias, key_padding_mask, attention_bias, past_key,
 * past_value. */
BP_ROW_EXPAND(multi_head_attention) {
  MultiHead at = {.graph = graph, .node = node};
  at.q = bp__node_input(node, 0);
  at.k = bp__node_input(node, 1);
  at.v = bp__node_input(node, 2);
  at.mask = bp__node_input(node, 4);
  at.bias = bp__node_input(node, 5);
  at.past[0] = bp__node_input(node, 6);
  at.past[1] = bp__node_input(node, 7);
  if (!at.k && !at.v)
    return bp__op_error(node, "queries, keys and values in one input are not supported");
  if (!at.k || !at.v || at.q->ndim != 3 || !bp__dtype_is_float(at.q->dtype))
    return bp__op_bad(node,
                      "its query has %d dimensions, not 3, or is not of floats, or it has only "
                      "one of key and value",
                      at.q->ndim);
  if (!at.past[0] != !at.past[1] || (at.past[0] && at.past[0]->ndim != 4))
    return bp__op_bad(node, "past_key and past_value go together, and have 4 dimensions");
  if ((at.k->ndim != 3 && at.k->ndim != 4) || at.v->ndim != at.k->ndim)
    return bp__op_bad(node, "its keys and values have %d and %d dimensions, not both 3 or both 4",
                      at.k->ndim, at.v->ndim);
  if (bp__node_int(node, "unidirectional", 0) && !(at.k = as_many_keys(&at)))
    return -1;
  if (bp__node_input(node, 3) && add_biases(&at, node->inputs[3]))
    return -1;
  BpGraphNode *attention = make_attention(&at, node->num_outputs);
  if (!attention)
    return -1;
  memcpy(node->outputs, attention->outputs, (size_t)node->num_outputs * sizeof(*node->outputs));
  return 0;
}

/* Reads the widths of queries, keys and values in their common product. */
static int read_widths(const BpGraphNode *node, int64_t total, int64_t *widths) {
  const BpGraphAttr *given = bp__node_attr(node, "qkv_hidden_sizes");
  if (given && given->count != 3)
    return bp__op_bad(node, "its qkv_hidden_sizes are not three numbers");
  for (int32_t i = 0; i < 3; i++) {
    widths[i] = given ? given->ints[i] : total / 3;
    if (widths[i] < 0 || widths[i] > total)
      return bp__op_bad(node, "its qkv_hidden_sizes have %lld", (long long)widths[i]);
  }
  if (widths[0] + widths[1] + widths[2] != total)
    return bp__op_bad(node, "queries, keys and values do not have %lld columns together",
                      (long long)total);
  return 0;
}

/* Separates the past keys and the past values, which are one tensor. */
static int read_past(MultiHead *at, BpGraphValue *past) {
  if (!past)
    return 0;
  if (past->ndim != 5 || past->shape[0] != 2)
    return bp__op_bad(at->node, "its past does not have 5 dimensions, the first one with extent 2 "
                                "for keys and values");
  for (int64_t i = 0; i < 2; i++) {
    BpGraphValue *part = bp__op_slice(at->graph, at->node, past, 0, i, i + 1);
    at->past[i] = part ? bp__op_reshape(at->graph, at->node, part, past->shape + 1, 4) : NULL;
    if (!at->past[i])
      return -1;
  }
  return 0;
}

/* Joins the keys and the values to one tensor, for the next run. */
static BpGraphValue *joined(const MultiHead *at, BpGraphValue *const *parts) {
  int64_t first = 0;
  BpGraphValue *axes = bp__graph_int_vector(at->graph, &first, 1), *rows[2];
  BpGraphAttr axis = bp__attr_int(at->graph, "axis", 0);
  if (parts[0]->ndim != parts[1]->ndim || parts[0]->shape[3] != parts[1]->shape[3]) {
    bp__op_bad(at->node, "its keys and values differ in size, and do not fit one tensor");
    return NULL;
  }
  for (int32_t i = 0; i < 2; i++)
    rows[i] = bp__op_binary(at->graph, at->node, "Unsqueeze", parts[i], axes);
  return bp__op_apply(at->graph, "", "Concat", at->node->name, rows, 2, &axis, 1);
}

static int give_attention(MultiHead *at) {
  int32_t has_present = at->node->num_outputs > 1;
  BpGraphNode *attention = make_attention(at, has_present ? 3 : 1);
  if (!attention)
    return -1;
  at->node->outputs[0] = attention->outputs[0];
  if (has_present)
    at->node->outputs[1] = joined(at, attention->outputs + 1);
  return !has_present || at->node->outputs[1] ? 0 : -1;
}

static int check_columns(const BpGraphNode *node, const BpGraphValue *past) {
  const BpGraphValue *x = node->inputs[0], *weights = node->inputs[1];
  if (bp__node_int(node, "do_rotary", 0) ||
      (past && bp__node_int(node, "past_present_share_buffer", 0)))
    return bp__op_error(node, "do_rotary and past_present_share_buffer are not supported");
  if (x->ndim != 3 || weights->ndim != 2)
    return bp__op_bad(node, "its input and its weights have %d and %d dimensions, not 3 and 2",
                      x->ndim, weights->ndim);
  if (bp__extent_is_open(weights->shape[1]))
    return bp__op_error(node, "weights of an open number of columns are not supported");
  const BpGraphValue *bias = bp__node_input(node, 2);
  if (bias && (bias->ndim != 1 || bias->shape[0] != weights->shape[1]))
    return bp__op_bad(node, "its bias is not a vector of %lld", (long long)weights->shape[1]);
  return 0;
}

/* Attention whose queries, keys and values are columns of one product. */
static int attend_columns(MultiHead *at, BpGraphValue *x, BpGraphValue *past) {
  int64_t widths[3], total = at->node->inputs[1]->shape[1];
  if (read_widths(at->node, total, widths))
    return -1;
  at->q = bp__op_slice(at->graph, at->node, x, 2, 0, widths[0]);
  at->k = bp__op_slice(at->graph, at->node, x, 2, widths[0], widths[0] + widths[1]);
  at->v = bp__op_slice(at->graph, at->node, x, 2, widths[0] + widths[1], total);
  if (!at->q || !at->k || !at->v || read_past(at, past))
    return -1;
  return give_attention(at);
}

/* The inputs are input, weights, bias, mask_index, past, attention_bias; the weights of queries,
 * keys and values are one matrix. */
BP_ROW_EXPAND(microsoft_attention) {
  MultiHead at = {.graph = graph,
                  .node = node,
                  .mask = bp__node_input(node, 3),
                  .bias = bp__node_input(node, 5)};
  BpGraphValue *past = bp__node_input(node, 4);
  if (check_columns(node, past))
    return -1;
  BpGraphValue *x = bp__op_binary(graph, node, "MatMul", node->inputs[0], node->inputs[1]);
  if (bp__node_input(node, 2))
    x = bp__op_binary(graph, node, "Add", x, node->inputs[2]);
  return x ? attend_columns(&at, x, past) : -1;
}

/* The inputs are input, weights, bias, the scales of input and weights, mask_index, the zero points
 * of input and weights, past: Attention with a quantised product. */
BP_ROW_EXPAND(quantized_attention) {
  MultiHead at = {.graph = graph, .node = node, .mask = bp__node_input(node, 5)};
  BpGraphValue *past = bp__node_input(node, 8);
  if (check_columns(node, past))
    return -1;
  BpGraphValue *inputs[] = {node->inputs[0], node->inputs[1],         node->inputs[3],
                            node->inputs[4], bp__node_input(node, 6), bp__node_input(node, 7),
                            node->inputs[2]};
  BpGraphValue *x = bp__op_byte_product(graph, node, inputs);
  return x ? attend_columns(&at, x, past) : -1;
}
