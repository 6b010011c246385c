/* SPDX-License-Identifier: Apache-2.0 */
/* LinearAttention: each head has a state, a matrix of keys by values, which every token changes and
 * then reads. The columns of a state are independent of each other: a row of statements computes
 * each, token by token. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, NUM_INPUTS };

/* ---- The steps --------------------------------------------------------------------------- */

/* The steps of LinearAttention. The inputs are the inputs of LinearAttention, all with the batches
 * and tokens of the query; `decay` is multiplied with the state. */
typedef struct Sizes {
  int64_t batch, tokens;            /* extents, may be open */
  int64_t heads, groups;            /* number of heads of keys, and of heads of queries for each */
  int64_t keys, values;             /* size of a head of keys, and of values */
  const BpGraphValue *decay, *beta; /* NULL if the rule has none */
} Sizes;

static Sizes sizes_of(const BpGraphNode *node) {
  const BpGraphValue *query = node->inputs[QUERY], *value = node->inputs[VALUE];
  int64_t queries = bp__node_int(node, "q_num_heads", 1);
  int64_t heads = bp__node_int(node, "kv_num_heads", 1);
  return (Sizes){.batch = query->shape[0],
                 .tokens = query->shape[1],
                 .heads = heads,
                 .groups = queries / heads,
                 .keys = query->shape[2] / queries,
                 .values = value->shape[2] / heads,
                 .decay = bp__node_input(node, DECAY),
                 .beta = bp__node_input(node, BETA)};
}

BP_ROW_INFER(linear_steps) {
  const BpGraphValue *query = node->inputs[QUERY], *past = bp__node_input(node, PAST);
  Sizes s = sizes_of(node);
  int64_t out[] = {s.batch, s.tokens, s.heads * s.groups * s.values};
  int64_t state[] = {s.batch, s.heads, s.keys, s.values};
  return bp__node_set_output(graph, node, 0, query->dtype, out, 3) ||
         bp__node_set_output(graph, node, 1, past ? past->dtype : query->dtype, state, 4);
}

typedef struct Steps {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpIrBlock *block;
  Sizes sizes;
  BpTeTensor *out, *state;
  const BpIrNode *const *rows; /* indices of batch, head and column */
  const BpIrNode *token;
} Steps;

static const BpIrNode *loop(const Steps *s, const char *name, int64_t extent) {
  return bp_ir_block_for(s->block, name, x_index(s->ir, 0), bp__op_extent(s->op, extent));
}

/* Element `place` of part `part` of a token's last axis, whose parts have `size` elements. */
static const BpIrNode *read_token(const Steps *s, int32_t input, const BpIrNode *part, int64_t size,
                                  const BpIrNode *place) {
  const BpIrNode *last = x_mul(s->ir, part, x_index(s->ir, size));
  const BpIrNode *at[] = {s->rows[0], s->token, place ? x_add(s->ir, last, place) : last};
  return x_wide(s->ir, bp_te_read(s->op->te, s->op->inputs[input], at));
}

static const BpIrNode *read_column(const Steps *s, BpTeTensor *state, const BpIrNode *key) {
  const BpIrNode *at[] = {s->rows[0], s->rows[1], key, s->rows[2]};
  return bp_te_read(s->op->te, state, at);
}

static void write_column(const Steps *s, const BpIrNode *key, const BpIrNode *value) {
  const BpIrNode *at[] = {s->rows[0], s->rows[1], key, s->rows[2]};
  bp_ir_block_add(s->block, bp_te_write(s->op->te, s->state, at, value));
}

/* An element of the column before the token changes it, after its decay. */
static const BpIrNode *decayed(const Steps *s, const BpIrNode *key) {
  const BpIrNode *value = read_column(s, s->state, key);
  if (!s->sizes.decay)
    return value;
  bool is_of_head = s->sizes.decay->shape[2] == s->sizes.heads;
  return x_mul(s->ir, value,
               is_of_head ? read_token(s, DECAY, s->rows[1], 1, NULL)
                          : read_token(s, DECAY, s->rows[1], s->sizes.keys, key));
}

static const BpIrNode *read_key(const Steps *s, const BpIrNode *key) {
  return read_token(s, KEY, s->rows[1], s->sizes.keys, key);
}

static void add_to(const Steps *s, const BpIrNode *sum, const BpIrNode *term) {
  bp_ir_block_assign(s->block, sum, x_add(s->ir, bp_ir_block_value(s->block, sum), term));
}

/* The number that the token adds to the column: its value or, in a delta rule, beta times the
 * difference between its value and the column's value for its key. */
static const BpIrNode *written(const Steps *s, const BpIrNode *zero) {
  BpIrModule *ir = s->ir;
  const BpIrNode *value = read_token(s, VALUE, s->rows[1], s->sizes.values, s->rows[2]);
  if (!s->sizes.beta)
    return bp_ir_block_let(s->block, "written", value);
  const BpIrNode *found = bp_ir_block_variable(s->block, "found", zero);
  const BpIrNode *key = loop(s, "key", s->sizes.keys);
  add_to(s, found, x_mul(ir, decayed(s, key), read_key(s, key)));
  bp_ir_block_close(s->block);
  const BpIrNode *head = s->sizes.beta->shape[2] == 1 ? x_index(ir, 0) : s->rows[1];
  return bp_ir_block_let(s->block, "written",
                         x_mul(ir, read_token(s, BETA, head, 1, NULL),
                               x_sub(ir, value, bp_ir_block_value(s->block, found))));
}

/* Computes the outputs of the token's queries for the current column. */
static void read_out(const Steps *s, const BpIrNode *zero) {
  BpIrModule *ir = s->ir;
  const BpGraphNode *node = s->op->node;
  const BpIrNode *group = loop(s, "group", s->sizes.groups);
  const BpIrNode *head = x_add(ir, x_mul(ir, s->rows[1], x_index(ir, s->sizes.groups)), group);
  const BpIrNode *sum = bp_ir_block_variable(s->block, "sum", zero);
  const BpIrNode *key = loop(s, "key", s->sizes.keys);
  add_to(s, sum,
         x_mul(ir, read_token(s, QUERY, head, s->sizes.keys, key), read_column(s, s->state, key)));
  bp_ir_block_close(s->block);
  const BpIrNode *value =
      x_mul(ir, bp_ir_block_value(s->block, sum),
            x_number(ir, x_dtype(zero), (double)bp__node_float(node, "scale", 1)));
  const BpIrNode *at[] = {s->rows[0], s->token,
                          x_add(ir, x_mul(ir, head, x_index(ir, s->sizes.values)), s->rows[2])};
  value = value ? bp_ir_cast(ir, node->outputs[0]->dtype, value) : NULL;
  bp_ir_block_add(s->block, bp_te_write(s->op->te, s->out, at, value));
  bp_ir_block_close(s->block);
}

static int steps_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                      BpTeTensor *const *tensors, void *context) {
  Steps *s = context;
  BpIrModule *ir = s->ir;
  BpTeTensor *past = s->op->inputs[PAST];
  const BpIrNode *zero = x_number(ir, bp_te_tensor_dtype(tensors[1]), 0);
  (void)te;
  s->block = block;
  s->rows = rows;
  s->out = tensors[0];
  s->state = tensors[1];
  const BpIrNode *key = loop(s, "key", s->sizes.keys);
  const BpIrNode *before = past ? read_column(s, past, key) : zero;
  write_column(s, key, before ? bp_ir_cast(ir, x_dtype(zero), before) : NULL);
  bp_ir_block_close(block);
  s->token = loop(s, "token", s->sizes.tokens);
  const BpIrNode *value = written(s, zero);
  key = loop(s, "key", s->sizes.keys);
  write_column(s, key, x_add(ir, decayed(s, key), x_mul(ir, read_key(s, key), value)));
  bp_ir_block_close(block);
  read_out(s, zero);
  bp_ir_block_close(block);
  return 0;
}

BP_ROW_COMPUTE(linear_steps) {
  const BpGraphValue *out = op->node->outputs[0], *state = op->node->outputs[1];
  Steps steps = {.op = op, .ir = bp_te_ir(op->te), .sizes = sizes_of(op->node)};
  int64_t rows[] = {steps.sizes.batch, steps.sizes.heads, steps.sizes.values};
  BpTeResult results[] = {{out->dtype, out->shape, 3},
                          {bp_te_accumulator(out->dtype), state->shape, 4}};
  return bp__op_statements(op, rows, 3, results, 2, steps_body, &steps, outputs);
}

/* ---- The operator ------------------------------------------------------------------------ */

/* Reads the rule: whether it needs a decay, and whether it needs a beta. */
static int read_rule(const BpGraphNode *node) {
  static const struct {
    const char *name;
    bool has_decay, has_beta;
  } rules[] = {{"linear", false, false},
               {"gated", true, false},
               {"delta", false, true},
               {"gated_delta", true, true}};
  const char *name = bp__node_str(node, "update_rule", "gated_delta");
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
    if (!strcmp(name, rules[i].name)) {
      bool has_decay = bp__node_input(node, DECAY), has_beta = bp__node_input(node, BETA);
      if (has_decay == rules[i].has_decay && has_beta == rules[i].has_beta)
        return 0;
      return bp__op_bad(node, "update_rule '%s' takes %s decay and %s beta", name,
                        rules[i].has_decay ? "a" : "no", rules[i].has_beta ? "a" : "no");
    }
  return bp__op_bad(node, "update_rule '%s' is not one of linear, gated, delta and gated_delta",
                    name);
}

static int check_inputs(const BpGraphNode *node) {
  static const char *const names[] = {"query", "key", "value", "past_state", "decay", "beta"};
  int64_t queries = bp__node_int(node, "q_num_heads", 0);
  int64_t heads = bp__node_int(node, "kv_num_heads", 0);
  for (int32_t i = 0; i < NUM_INPUTS; i++) {
    const BpGraphValue *value = bp__node_input(node, i);
    if (!value)
      continue;
    if (value->ndim != (i == PAST ? 4 : 3) || !bp__dtype_is_float(value->dtype))
      return bp__op_bad(node, "its %s has %d dimensions instead of %d, or is not of floats",
                        names[i], value->ndim, i == PAST ? 4 : 3);
    if (i != PAST && !bp__dtype_equal(value->dtype, node->inputs[QUERY]->dtype))
      return bp__op_bad(node, "its %s and its query differ in type", names[i]);
    if (i != PAST && bp__extent_is_open(value->shape[2]))
      return bp__op_error(node, "heads of an open size are not supported");
  }
  if (queries < 1 || heads < 1 || queries % heads != 0)
    return bp__op_bad(node, "its q_num_heads, %lld, is no multiple of its kv_num_heads, %lld",
                      (long long)queries, (long long)heads);
  const int64_t *q = node->inputs[QUERY]->shape, *v = node->inputs[VALUE]->shape;
  if (q[2] % queries != 0 || v[2] % heads != 0 || q[2] == 0)
    return bp__op_bad(node,
                      "its query and its value, of %lld and %lld columns, do not hold %lld "
                      "and %lld heads",
                      (long long)q[2], (long long)v[2], (long long)queries, (long long)heads);
  return 0;
}

/* Expands the inputs to the batches and tokens of the query; a run checks open extents. */
static int match_inputs(BpGraph *graph, const BpGraphNode *node, BpGraphValue **inputs) {
  static const char complaint[] = "its inputs do not fit its query and its numbers of heads";
  Sizes s = sizes_of(node);
  int64_t past[] = {s.batch, s.heads, s.keys, s.values};
  int64_t widths[] = {[QUERY] = 0, [KEY] = s.heads * s.keys, [VALUE] = s.heads * s.values};
  for (int32_t i = 0; i < NUM_INPUTS; i++) {
    BpGraphValue *value = inputs[i] = bp__node_input(node, i);
    int64_t width = i <= VALUE ? widths[i] : value ? value->shape[2] : 0;
    if (!value || i == QUERY)
      continue;
    if ((i == DECAY && width != s.heads && width != s.heads * s.keys) ||
        (i == BETA && width != s.heads && width != 1))
      return bp__op_bad(node, "%s", complaint);
    inputs[i] = bp__op_as_shape(
        graph, node, value, i == PAST ? past : (int64_t[]){s.batch, s.tokens, width}, complaint);
    if (!inputs[i])
      return -1;
  }
  return 0;
}

BP_ROW_EXPAND(linear_attention) {
  BpGraphValue *inputs[NUM_INPUTS];
  float *scale = bp__arena_alloc_array(&graph->arena, 1, sizeof(*scale));
  if (!scale || read_rule(node) || check_inputs(node) || match_inputs(graph, node, inputs))
    return -1;
  *scale = bp__node_float(node, "scale", 0);
  if (*scale == 0)
    *scale = 1.0f / sqrtf((float)sizes_of(node).keys);
  if (inputs[DECAY]) {
    BpDataType wide = bp_te_accumulator(inputs[DECAY]->dtype);
    inputs[DECAY] = bp__op_unary(graph, node, "Exp", bp__op_cast(graph, node, inputs[DECAY], wide));
    if (!inputs[DECAY])
      return -1;
  }
  BpGraphAttr attrs[] = {
      *bp__node_attr(node, "q_num_heads"),
      *bp__node_attr(node, "kv_num_heads"),
      {.name = "scale", .type = BP_GRAPH_ATTR_FLOAT, .count = 1, .floats = scale}};
  BpGraphNode *steps = bp__graph_node(graph, bp__op_find("backplane", "LinearSteps"), node->name,
                                      inputs, NUM_INPUTS, 2, attrs, 3);
  if (!steps || bp__op_append(graph, steps))
    return -1;
  memcpy(node->outputs, steps->outputs, (size_t)node->num_outputs * sizeof(*node->outputs));
  return 0;
}
