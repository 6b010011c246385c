/* SPDX-License-Identifier: Apache-2.0 */
/* GroupQueryAttention of com.microsoft, built from ONNX's operators: causal attention over keys and
 * values that are kept from run to run. Source: onnxruntime's docs/ContribOperators.md, for
 * operator set 1 of the domain.
 *
 * The present has space for total_sequence_length keys, and at least for those of the past, which
 * may have spare space. Batch b has seqlens_k[b] + 1 keys in all; its new keys follow its past
 * keys, and elements of the present after its last key are not read. */
#include "graph/ops/op.h"
#include "graph/ops/rows.h"

typedef struct GroupQuery {
  BpGraph *graph;
  BpGraphNode *node;
  int64_t heads[2];        /* number of heads of the queries, and of the keys and values */
  int64_t size;            /* size of a head */
  int64_t length;          /* number of new queries, keys and values of a batch, an extent */
  int64_t past, keys;      /* lengths of the past and of the present, extents */
  int64_t grown;           /* length of the past and the new keys one after the other */
  BpGraphValue *total;     /* total_sequence_length, a vector of one number */
  BpGraphValue *q, *kv[2]; /* (batch, length, heads * size), later (batch, heads, keys, size) */
  BpGraphValue *before;    /* number of past keys of each batch, (batch, 1) */
} GroupQuery;

static BpGraphValue *binary(const GroupQuery *at, const char *op, BpGraphValue *a,
                            BpGraphValue *b) {
  return bp__op_binary(at->graph, at->node, op, a, b);
}

static BpGraphValue *number(const GroupQuery *at, int64_t value) {
  return bp__graph_int_vector(at->graph, &value, 1);
}

static BpGraphValue *apply(const GroupQuery *at, const char *op, BpGraphValue *a, BpGraphValue *b,
                           BpGraphValue *c) {
  BpGraphValue *inputs[] = {a, b, c};
  return bp__op_apply(at->graph, "", op, at->node->name, inputs, 3, NULL, 0);
}

static BpGraphValue *concat(const GroupQuery *at, BpGraphValue *a, BpGraphValue *b, int64_t axis) {
  BpGraphAttr attr = bp__attr_int(at->graph, "axis", axis);
  BpGraphValue *inputs[] = {a, b};
  return bp__op_apply(at->graph, "", "Concat", at->node->name, inputs, 2, &attr, 1);
}

/* ---- Inputs ------------------------------------------------------------------------------ */

/* Separates queries, keys and values that are one input: the heads of queries, then of keys, then
 * of values. */
static int unpack(GroupQuery *at) {
  BpGraphValue *all = at->q;
  int64_t queries = at->heads[0] * at->size, others = at->heads[1] * at->size;
  at->q = bp__op_slice(at->graph, at->node, all, 2, 0, queries);
  at->kv[0] = bp__op_slice(at->graph, at->node, all, 2, queries, queries + others);
  at->kv[1] = bp__op_slice(at->graph, at->node, all, 2, queries + others, queries + 2 * others);
  return at->q && at->kv[0] && at->kv[1] ? 0 : -1;
}

static int read_heads(GroupQuery *at) {
  int is_packed = !at->kv[0] && !at->kv[1];
  at->heads[0] = bp__node_int(at->node, "num_heads", 0);
  at->heads[1] = bp__node_int(at->node, "kv_num_heads", 0);
  if (at->q->ndim != 3 || (!is_packed && (!at->kv[0] || !at->kv[1])))
    return bp__op_bad(at->node,
                      "its query has %d dimensions, not 3, or it has only one of key and value",
                      at->q->ndim);
  if (bp__extent_is_open(at->q->shape[2]))
    return bp__op_error(at->node, "heads of an open number or size are not supported");
  int64_t all = at->heads[0] + (is_packed ? 2 * at->heads[1] : 0);
  if (at->heads[0] < 1 || at->heads[1] < 1 || at->heads[0] % at->heads[1] || at->q->shape[2] % all)
    return bp__op_bad(at->node, "%lld columns are not %lld heads, in groups for %lld",
                      (long long)at->q->shape[2], (long long)all, (long long)at->heads[1]);
  at->size = at->q->shape[2] / all;
  at->length = at->q->shape[1];
  return is_packed ? unpack(at) : 0;
}

/* Checks that new and past keys or values have the batches and the heads of the queries. */
static int check_values(GroupQuery *at, int32_t index) {
  static const char complaint[] = "its query, key, value and past do not fit each other";
  BpGraphValue *past = bp__node_input(at->node, 3 + index);
  const int64_t batch = at->q->shape[0], own[] = {batch, at->length, at->heads[1] * at->size};
  const int64_t before[] = {batch, at->heads[1], at->past, at->size};
  if (at->kv[index]->ndim != 3 || (past && past->ndim != 4))
    return bp__op_bad(at->node, "%s", complaint);
  at->kv[index] = bp__op_as_shape(at->graph, at->node, at->kv[index], own, complaint);
  if (past)
    at->node->inputs[3 + index] = bp__op_as_shape(at->graph, at->node, past, before, complaint);
  return at->kv[index] && (!past || at->node->inputs[3 + index]) ? 0 : -1;
}

#define TOTAL                                                                                      \
  "its total_sequence_length or seqlens_k is not the number of keys, past and new; a single "      \
  "batch whose past has spare space needs a past of fixed length (--shape)"

/* 0 if two vectors of one number are equal, else a negative number. */
static BpGraphValue *agreement(const GroupQuery *at, BpGraphValue *a, BpGraphValue *b) {
  return binary(at, "Sub", number(at, 0),
                bp__op_unary(at->graph, at->node, "Abs", binary(at, "Sub", a, b)));
}

/* 0 or more if the present is the past and the new keys, or if all keys fit in the past; else
 * negative. */
static BpGraphValue *total_agrees(const GroupQuery *at) {
  BpGraphValue *past = bp__op_extents(at->graph, at->node, &at->past, 1);
  BpGraphValue *grown = bp__op_extents(at->graph, at->node, &at->grown, 1);
  BpGraphValue *is_grown = agreement(at, at->total, grown);
  return at->keys == at->grown ? is_grown
                               : binary(at, "Max", is_grown, binary(at, "Sub", past, at->total));
}

/* 0 or more if the past keys of each batch fit in the past, which a single batch must fill if the
 * present is grown, and the keys of each batch in the present; else negative. */
static BpGraphValue *lengths_agree(const GroupQuery *at) {
  const int64_t count[] = {at->q->shape[0]};
  BpGraphValue *past = bp__op_extents(at->graph, at->node, &at->past, 1);
  BpGraphValue *keys = bp__op_extents(at->graph, at->node, &at->keys, 1);
  BpGraphValue *before = bp__op_reshape(at->graph, at->node, at->before, count, 1);
  if (count[0] == 1 && at->keys == at->grown)
    return agreement(at, before, past);
  before = binary(at, "ReduceMax", concat(at, before, number(at, 0), 0), number(at, 0));
  keys = binary(at, "Sub", keys, bp__op_extents(at->graph, at->node, &at->length, 1));
  return binary(at, "Sub", binary(at, "Min", past, keys), before);
}

/* The `count` integers of an input as a vector; NULL with an error. */
static BpGraphValue *numbers(const GroupQuery *at, int32_t input, int64_t count) {
  static const char complaint[] = "its seqlens_k is not one number for each batch, or its "
                                  "total_sequence_length is not one";
  BpGraphValue *value = bp__op_cast(at->graph, at->node, at->node->inputs[input], BP__INT64);
  if (value && value->ndim == 1)
    return bp__op_as_shape(at->graph, at->node, value, &count, complaint);
  return bp__op_reshape(at->graph, at->node, value, &count, 1);
}

/* Sets the length of the present. A single batch whose past has an open length is appended to,
 * because a cache that only grows can stay in its place. */
static int measure_present(GroupQuery *at) {
  BpExtents *extents = &at->graph->extents;
  bool can_be_open = extents->arena != NULL, is_known = at->total->data || at->total->extents;
  at->keys = at->grown = bp__extent_add(extents, at->past, at->length);
  if (at->grown == BP_EXTENT_NONE)
    return -1;
  if ((at->q->shape[0] == 1 && bp__extent_is_open(at->past)) || (!is_known && !can_be_open))
    return 0;
  BpGraphValue *total = at->total;
  if (!is_known) {
    BpGraphValue *past = bp__op_extents(at->graph, at->node, &at->past, 1);
    total = bp__op_bind(at->graph, at->node, binary(at, "Max", total, past), NULL, TOTAL);
  }
  if (!total)
    return -1;
  at->keys = total->extents ? total->extents[0] : bp__value_get_int(total, 0);
  at->keys = is_known ? bp__extent_max(extents, at->past, at->keys) : at->keys;
  return at->keys == BP_EXTENT_NONE ? -1 : 0;
}

/* Counts past keys. Keys of a present that is too long cannot be told from its other elements, so a
 * run checks the lengths. */
static int count_keys(GroupQuery *at) {
  const int64_t column[] = {at->q->shape[0], 1};
  if (!bp__node_input(at->node, 5) || !bp__node_input(at->node, 6))
    return bp__op_bad(at->node, "it has no seqlens_k or no total_sequence_length");
  BpGraphValue *lengths = numbers(at, 5, column[0]);
  at->total = numbers(at, 6, 1);
  if (!lengths || !at->total || measure_present(at))
    return -1;
  at->before = binary(at, "Sub", binary(at, "Add", lengths, number(at, 1)),
                      bp__op_extents(at->graph, at->node, &at->length, 1));
  at->before = binary(at, "Max", at->before, number(at, 0)); /* the first run may be padded */
  at->before = bp__op_reshape(at->graph, at->node, at->before, column, 2);
  lengths = concat(at, lengths, number(at, 0), 0); /* no length may be negative */
  lengths = binary(at, "Min", lengths_agree(at), binary(at, "ReduceMin", lengths, number(at, 0)));
  return bp__op_bind(at->graph, at->node, binary(at, "Min", lengths, total_agrees(at)), NULL, TOTAL)
             ? 0
             : -1;
}

/* ---- Keys and values --------------------------------------------------------------------- */

/* The positions of the new queries, (batch, length). */
static BpGraphValue *places(const GroupQuery *at) {
  return binary(at, "Add", at->before, bp__op_counting(at->graph, at->node, at->length));
}

static BpGraphValue *rotated(const GroupQuery *at, BpGraphValue *x, int64_t heads,
                             BpGraphValue *where) {
  BpGraphAttr attrs[] = {
      bp__attr_int(at->graph, "interleaved", bp__node_int(at->node, "rotary_interleaved", 0)),
      bp__attr_int(at->graph, "num_heads", heads),
      bp__attr_int(at->graph, "rotary_embedding_dim", 2 * at->node->inputs[7]->shape[1])};
  BpGraphValue *inputs[] = {x, at->node->inputs[7], at->node->inputs[8], where};
  return bp__op_apply(at->graph, "", "RotaryEmbedding", at->node->name, inputs, 4, attrs, 3);
}

/* The positions by which new queries and keys are rotated: their own positions, or the input
 * position_ids. A run with no keys but the new ones takes only the first number of position_ids and
 * counts from it. */
static BpGraphValue *rotary_places(const GroupQuery *at) {
  static const int64_t all = -1;
  const int64_t shape[] = {at->q->shape[0], at->length};
  BpGraphValue *given = bp__node_input(at->node, 9), *first, *length;
  if (!given)
    return places(at);
  if (given->ndim != 2) {
    bp__op_bad(at->node, "its position_ids are no matrix");
    return NULL;
  }
  given = bp__op_as_shape(at->graph, at->node, given, shape,
                          "its position_ids are not a number for each new key");
  given = bp__op_cast(at->graph, at->node, given, BP__INT64);
  if (at->keys == at->grown && at->past != 0 && !bp__extent_is_open(at->past))
    return given;
  first = given ? bp__op_reshape(at->graph, at->node, given, &all, 1) : NULL;
  first = binary(at, "Gather", first, number(at, 0));
  first = binary(at, "Add", first, bp__op_counting(at->graph, at->node, at->length));
  length = bp__op_extents(at->graph, at->node, &at->length, 1);
  return apply(at, "Where", binary(at, "Equal", at->total, length), first, given);
}

#define FEW_ROWS "its cos_cache or its sin_cache has fewer rows than there are keys"

static int rotate(GroupQuery *at) {
  const BpGraphValue *cache = bp__node_input(at->node, 7), *sine = bp__node_input(at->node, 8);
  BpGraphValue *where;
  if (!bp__node_int(at->node, "do_rotary", 0))
    return 0;
  if (!cache || !sine || cache->ndim != 2 || sine->ndim != 2 || bp__extent_is_open(cache->shape[1]))
    return bp__op_bad(at->node, "do_rotary wants cos_cache and sin_cache, two matrices");
  if (bp__op_at_most(at->graph, at->node, &at->keys, &cache->shape[0], 1, FEW_ROWS) ||
      bp__op_at_most(at->graph, at->node, &at->keys, &sine->shape[0], 1, FEW_ROWS))
    return -1;
  where = rotary_places(at);
  at->q = rotated(at, at->q, at->heads[0], where);
  at->kv[0] = rotated(at, at->kv[0], at->heads[1], where);
  return at->q && at->kv[0] ? 0 : -1;
}

/* The numbers of the rows that the present takes from the past and the new rows, (batch, grown,
 * columns), among the rows of all batches: (batch, keys). */
static BpGraphValue *rows_of_present(const GroupQuery *at) {
  const int64_t batch = at->q->shape[0], column[] = {batch, 1};
  BpGraphValue *key = bp__op_counting(at->graph, at->node, at->keys);
  BpGraphValue *past = bp__op_extents(at->graph, at->node, &at->past, 1);
  BpGraphValue *rows = bp__op_extents(at->graph, at->node, &at->grown, 1);
  BpGraphValue *later = binary(at, "Add", binary(at, "Sub", key, at->before), past);
  BpGraphValue *row = apply(at, "Where", binary(at, "Less", key, at->before), key, later);
  BpGraphValue *first =
      bp__op_reshape(at->graph, at->node, bp__op_counting(at->graph, at->node, batch), column, 2);
  row = binary(at, "Min", row, binary(at, "Sub", rows, number(at, 1)));
  return binary(at, "Add", row, binary(at, "Mul", first, rows));
}

/* Appends each batch's new rows to its past rows. */
static BpGraphValue *behind_each(const GroupQuery *at, BpGraphValue *past, BpGraphValue *rows) {
  static const int64_t perm[] = {0, 2, 1, 3};
  const int64_t batch = at->q->shape[0], columns = at->heads[1] * at->size;
  const int64_t as_rows[] = {batch, at->past, columns};
  const int64_t flat[] = {bp__extent_multiply(&at->graph->extents, batch, at->grown), columns};
  const int64_t heads[] = {batch, at->keys, at->heads[1], at->size};
  if (flat[0] == BP_EXTENT_NONE)
    return NULL;
  past = bp__op_reshape(at->graph, at->node, bp__op_transpose(at->graph, at->node, past, perm, 4),
                        as_rows, 3);
  rows = bp__op_reshape(at->graph, at->node, concat(at, past, rows, 1), flat, 2);
  rows = binary(at, "Gather", rows, rows_of_present(at));
  return bp__op_transpose(at->graph, at->node, bp__op_reshape(at->graph, at->node, rows, heads, 4),
                          perm, 4);
}

/* The present keys or values, (batch, heads, keys, size). */
static BpGraphValue *present(const GroupQuery *at, int32_t index) {
  static const int64_t perm[] = {0, 2, 1, 3};
  const int64_t split[] = {at->q->shape[0], at->length, at->heads[1], at->size};
  BpGraphValue *past = bp__node_input(at->node, 3 + index), *rows = at->kv[index];
  if (past && (at->q->shape[0] != 1 || at->keys != at->grown))
    return behind_each(at, past, rows);
  rows = bp__op_transpose(at->graph, at->node, bp__op_reshape(at->graph, at->node, rows, split, 4),
                          perm, 4);
  return past ? concat(at, past, rows, 2) : rows;
}

/* ---- Attention --------------------------------------------------------------------------- */

/* The bias, of a column for each of total_sequence_length keys, with columns for the places after
 * them, too, to which no query attends. */
static BpGraphValue *bias_of_present(const GroupQuery *at) {
  static const int64_t zero[1];
  BpGraphValue *bias = bp__node_input(at->node, 10), *columns, *place;
  const BpGraphAttr axis = bp__attr_int(at->graph, "axis", 3);
  if (!bias || at->keys == at->grown || bias->ndim != 4 || bias->shape[3] == at->keys)
    return bias;
  columns = bp__op_extents(at->graph, at->node, &bias->shape[3], 1);
  if (!bp__op_bind(at->graph, at->node, agreement(at, at->total, columns), zero,
                   "its attention_bias has no column for each of total_sequence_length keys"))
    return NULL;
  place = binary(at, "Min", bp__op_counting(at->graph, at->node, at->keys),
                 binary(at, "Sub", columns, number(at, 1)));
  return bp__op_apply(at->graph, "", "Gather", at->node->name, (BpGraphValue *[]){bias, place}, 2,
                      &axis, 1);
}

/* The keys to which a query may attend, (batch, 1, length, keys): the keys up to its own position
 * and, with a window, only the last ones; as bool, or as the bias that is added to the products. */
static BpGraphValue *mask(const GroupQuery *at) {
  const int64_t shape[] = {at->q->shape[0], 1, at->length, 1};
  int64_t window = bp__node_int(at->node, "local_window_size", -1);
  BpGraphValue *key = bp__op_counting(at->graph, at->node, at->keys);
  BpGraphValue *query = bp__op_reshape(at->graph, at->node, places(at), shape, 4);
  BpGraphValue *bias = bias_of_present(at), *allowed = binary(at, "LessOrEqual", key, query);
  if (!bias && bp__node_input(at->node, 10))
    return NULL;
  if (window >= 0)
    allowed = binary(at, "And", allowed,
                     binary(at, "Greater", key, binary(at, "Sub", query, number(at, window))));
  return bias && allowed ? apply(at, "Where", allowed, bias,
                                 bp__op_scalar(at->graph, at->node, bias, -__builtin_inff()))
                         : allowed;
}

enum { BEFORE_SOFTMAX = 2 }; /* of qk_matmul_output_mode: with the mask */

static bool has_sink(const BpGraphNode *node) {
  return bp__node_int(node, "smooth_softmax", 0) > 0 || bp__node_input(node, 11);
}

/* Makes the softmax divide by exp(sink) too, where a head's sink is its element of head_sink, or 0:
 * the share of the other terms in that sum is sigmoid(log(sum(exp(scores))) - sink). */
static BpGraphValue *with_sink(const GroupQuery *at, BpGraphValue *out, BpGraphValue *scores) {
  static const int64_t perm[] = {0, 2, 1, 3};
  const int64_t split[] = {at->q->shape[0], at->length, at->heads[0], at->size};
  const int64_t whole[] = {split[0], split[1], split[2] * split[3]}, column[] = {split[2], 1, 1};
  const BpDataType wide = at->q->dtype.bits < 32 ? BP__FLOAT32 : at->q->dtype;
  BpGraphValue *sum, *part, *sink = bp__node_input(at->node, 11);
  scores = bp__op_cast(at->graph, at->node, scores, wide);
  sum = binary(at, "ReduceLogSumExp", scores, number(at, -1));
  sink = sink ? bp__op_cast(at->graph, at->node, sink, wide)
              : bp__op_scalar(at->graph, at->node, sum, 0);
  if (sink && sink->ndim)
    sink = bp__op_reshape(at->graph, at->node, sink, column, 3);
  part = bp__op_unary(at->graph, at->node, "Sigmoid", binary(at, "Sub", sum, sink));
  part = bp__op_cast(at->graph, at->node, part, at->q->dtype);
  out = binary(at, "Mul", bp__op_reshape(at->graph, at->node, out, split, 4),
               bp__op_transpose(at->graph, at->node, part, perm, 4));
  return bp__op_reshape(at->graph, at->node, out, whole, 3);
}

static int attend(const GroupQuery *at) {
  BpGraphAttr attrs[5];
  int32_t count = 0;
  attrs[count++] = bp__attr_int(at->graph, "q_num_heads", at->heads[0]);
  attrs[count++] = bp__attr_int(at->graph, "kv_num_heads", at->heads[1]);
  attrs[count++] = bp__attr_int(at->graph, "qk_matmul_output_mode", BEFORE_SOFTMAX);
  if (bp__node_float(at->node, "scale", 0) != 0)
    attrs[count++] = *bp__node_attr(at->node, "scale");
  if (bp__node_float(at->node, "softcap", 0) != 0)
    attrs[count++] = *bp__node_attr(at->node, "softcap");
  BpGraphValue *inputs[] = {at->q, at->kv[0], at->kv[1], mask(at)};
  BpGraphNode *attention = bp__graph_node(at->graph, bp__op_find("", "Attention"), at->node->name,
                                          inputs, 4, 4, attrs, count);
  if (!inputs[3] || !attention || bp__op_append(at->graph, attention))
    return -1;
  at->node->outputs[0] = has_sink(at->node)
                             ? with_sink(at, attention->outputs[0], attention->outputs[3])
                             : attention->outputs[0];
  for (int32_t i = 1; i < at->node->num_outputs; i++)
    at->node->outputs[i] = at->kv[i - 1];
  return at->node->outputs[0] ? 0 : -1;
}

static int check_use(const BpGraphNode *node) {
  const BpGraphValue *sink = bp__node_input(node, 11);
  int64_t window = bp__node_int(node, "local_window_size", -1);
  if (window < -1)
    return bp__op_bad(node, "its local_window_size is %lld, less than -1", (long long)window);
  if (sink && (sink->ndim != 1 || sink->shape[0] != bp__node_int(node, "num_heads", 0)))
    return bp__op_bad(node, "its head_sink is not a number for each of its heads");
  if (!bp__node_input(node, 3) != !bp__node_input(node, 4))
    return bp__op_bad(node, "past_key and past_value go together");
  if (bp__node_input(node, 3) && node->inputs[3]->ndim != 4)
    return bp__op_bad(node, "its past_key has %d dimensions, not 4", node->inputs[3]->ndim);
  return 0;
}

/* The inputs are query, key, value, past_key, past_value, seqlens_k, total_sequence_length,
 * cos_cache, sin_cache, position_ids, attention_bias, head_sink. */
BP_ROW_EXPAND(group_query_attention) {
  GroupQuery at = {.graph = graph,
                   .node = node,
                   .q = node->inputs[0],
                   .kv = {bp__node_input(node, 1), bp__node_input(node, 2)}};
  if (check_use(node) || read_heads(&at))
    return -1;
  at.past = bp__node_input(node, 3) ? node->inputs[3]->shape[2] : 0;
  if (check_values(&at, 0) || check_values(&at, 1) || count_keys(&at) || rotate(&at))
    return -1;
  for (int32_t i = 0; i < 2; i++)
    if (!(at.kv[i] = present(&at, i)))
      return -1;
  return attend(&at);
}
