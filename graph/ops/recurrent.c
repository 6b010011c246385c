/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers, said in terms of other operators: what the inputs of all steps give is one
 * product, then each step is a product with the state and a few element-wise operators. Steps
 * differ in constants alone, so all of them share their functions. */
#include <string.h>
#include <strings.h>

#include "graph/ops/rows.h"

#define MAX_STEPS      4096
#define MAX_DIRECTIONS 2
#define JOINED         16 /* inputs of one Concat */

typedef struct Recurrent {
  BpGraph *graph;
  BpGraphNode *node;
  BpGraphValue *x; /* (steps, batch, input) */
  int64_t steps, batch, input, hidden, directions;
  int32_t gates, functions;
  const char **activations; /* of one direction */
} Recurrent;

/* One direction: its weights, and its state before and after each step. */
typedef struct Direction {
  BpGraphValue *from_input;    /* (steps, batch, gates * hidden), biases added */
  BpGraphValue *recurrence[2]; /* (hidden, gates * hidden), in one or two parts */
  BpGraphValue *state_bias[2]; /* of a GRU: what is added to these, or NULL */
  BpGraphValue *peepholes[3];  /* of an LSTM: (hidden), or NULL */
  BpGraphValue *hidden;        /* (batch, hidden) */
  BpGraphValue *cell;          /* of an LSTM: the same */
  BpGraphValue **each;         /* hidden after each step */
} Direction;

static BpGraphValue *binary(const Recurrent *r, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(r->graph, r->node, op, a, b);
}

static BpGraphValue *activate(const Recurrent *r, int32_t function, BpGraphValue *value) {
  return bp__op_unary(r->graph, r->node, r->activations[function], value);
}

static BpGraphValue *transpose(const Recurrent *r, BpGraphValue *value, const int64_t *perm,
                               int32_t count) {
  return bp__op_transpose(r->graph, r->node, value, perm, count);
}

/* Of an optional input (directions, ...) what belongs to one direction; NULL if it is absent. */
static BpGraphValue *part(const Recurrent *r, BpGraphValue *whole, int64_t direction) {
  BpGraphValue *slice = bp__op_slice(r->graph, r->node, whole, 0, direction, direction + 1);
  return slice ? bp__op_reshape(r->graph, r->node, slice, whole->shape + 1, whole->ndim - 1) : NULL;
}

/* Of the last axis, which is gates * hidden long, what belongs to the gates [first, last). */
static BpGraphValue *of_gates(const Recurrent *r, BpGraphValue *value, int64_t first,
                              int64_t last) {
  return value ? bp__op_slice(r->graph, r->node, value, value->ndim - 1, first * r->hidden,
                              last * r->hidden)
               : NULL;
}

/* ---- Reading ----------------------------------------------------------------------------- */

static int check_shape(const BpGraphNode *node, int32_t input, const int64_t *shape, int32_t ndim) {
  const BpGraphValue *value = bp__node_input(node, input);
  if (value && (value->ndim != ndim ||
                (ndim > 0 && memcmp(value->shape, shape, (size_t)ndim * sizeof(*shape)))))
    return bp__op_bad(node, "the shape of input %d does not fit those of its input and weights",
                      input);
  return 0;
}

static int check_lengths(const Recurrent *r) {
  const BpGraphValue *lengths = bp__node_input(r->node, 4);
  int64_t count = lengths ? bp__value_num_elements(lengths) : 0;
  for (int64_t i = 0; i < count; i++)
    if (!lengths->data || bp__value_get_int(lengths, i) != r->steps)
      return bp__op_error(r->node,
                          "sequence_lens other than a constant of all %lld steps are not "
                          "supported",
                          (long long)r->steps);
  return 0;
}

static int check_inputs(const Recurrent *r) {
  int64_t rows = r->gates * r->hidden;
  int64_t state[] = {r->directions, r->batch, r->hidden};
  if (r->steps > MAX_STEPS)
    return bp__op_error(r->node, "it has %lld steps, at most %d work", (long long)r->steps,
                        MAX_STEPS);
  if (check_shape(r->node, 1, (int64_t[]){r->directions, rows, r->input}, 3) ||
      check_shape(r->node, 2, (int64_t[]){r->directions, rows, r->hidden}, 3) ||
      check_shape(r->node, 3, (int64_t[]){r->directions, 2 * rows}, 2) ||
      check_shape(r->node, 7, (int64_t[]){r->directions, 3 * r->hidden}, 2))
    return -1;
  if (bp__node_int(r->node, "layout", 0))
    memcpy(state, (int64_t[]){r->batch, r->directions, r->hidden}, sizeof(state));
  return check_shape(r->node, 5, state, 3) || check_shape(r->node, 6, state, 3) || check_lengths(r);
}

/* Those that need no number of their own, by the names of their operators. */
static const char *known_activation(const char *name) {
  static const char *const known[] = {"Sigmoid",     "Tanh",     "Relu",
                                      "HardSigmoid", "Softsign", "Softplus"};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (!strcasecmp(known[i], name))
      return known[i];
  return NULL;
}

/* Fills in a name for each function of each direction. */
static int read_activations(const Recurrent *r, const char **names) {
  static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
  const BpGraphAttr *attr = bp__node_attr(r->node, "activations");
  int32_t count = r->functions * (int32_t)r->directions;
  if (attr && attr->count != count)
    return bp__op_bad(r->node, "it names %d activations instead of %d", attr->count, count);
  for (int32_t i = 0; i < count; i++) {
    const char *name = attr                ? attr->strs[i]
                       : r->functions == 1 ? "Tanh"
                                           : defaults[i % r->functions];
    names[i] = known_activation(name);
    if (!names[i])
      return bp__op_error(r->node, "activation '%s' is not supported", name);
  }
  return 0;
}

static int read_recurrent(Recurrent *r) {
  const BpGraphNode *node = r->node;
  const char *direction = bp__node_str(node, "direction", "forward");
  int batch_first = bp__node_int(node, "layout", 0) != 0;
  int is_both = !strcmp(direction, "bidirectional");
  if (!is_both && strcmp(direction, "forward") && strcmp(direction, "reverse"))
    return bp__op_bad(node, "direction '%s' is none of forward, reverse and bidirectional",
                      direction);
  if (r->x->ndim != 3 || node->inputs[2]->ndim != 3)
    return bp__op_bad(node, "its input and weights do not have 3 dimensions");
  r->steps = r->x->shape[batch_first];
  r->batch = r->x->shape[!batch_first];
  r->input = r->x->shape[2];
  r->hidden = node->inputs[2]->shape[2];
  r->directions = is_both ? 2 : 1;
  if (bp__value_num_elements(r->x) == 0 || bp__value_num_elements(node->inputs[2]) == 0)
    return bp__op_bad(node, "its input or its state is empty");
  if (bp__node_int(node, "hidden_size", r->hidden) != r->hidden)
    return bp__op_bad(node, "hidden_size is not that of its weights");
  if (bp__node_int(node, "input_forget", 0))
    return bp__op_error(node, "input_forget 1 is not supported");
  if (check_inputs(r))
    return -1;
  if (batch_first)
    r->x = transpose(r, r->x, (int64_t[]){1, 0, 2}, 3);
  return r->x ? 0 : -1;
}

/* ---- One direction ----------------------------------------------------------------------- */

static BpGraphValue *first_state(const Recurrent *r, int32_t input, int64_t direction) {
  BpGraphValue *given = bp__node_input(r->node, input);
  int64_t shape[] = {r->batch, r->hidden};
  if (!given)
    return bp__graph_constant(r->graph, r->node->name, r->x->dtype, shape, 2, NULL);
  if (bp__node_int(r->node, "layout", 0))
    given = transpose(r, given, (int64_t[]){1, 0, 2}, 3);
  return given ? part(r, given, direction) : NULL;
}

/* All steps' x W' + bias. */
static BpGraphValue *project_input(const Recurrent *r, BpGraphValue *bias, int64_t direction) {
  BpGraphValue *weights = part(r, r->node->inputs[1], direction);
  int64_t rows[] = {r->steps * r->batch, r->input};
  int64_t shape[] = {r->steps, r->batch, r->gates * r->hidden};
  BpGraphValue *x = bp__op_reshape(r->graph, r->node, r->x, rows, 2);
  x = binary(r, "MatMul", x, transpose(r, weights, (int64_t[]){1, 0}, 2));
  if (bias)
    x = binary(r, "Add", x, bias);
  return x ? bp__op_reshape(r->graph, r->node, x, shape, 3) : NULL;
}

/* A GRU's bias of the state is added where the state is; all others to the input's. */
static int begin_input(const Recurrent *r, Direction *d, int64_t direction, int64_t cut) {
  BpGraphValue *bias = bp__node_input(r->node, 3), *of_state = NULL;
  if (bias) {
    BpGraphValue *both = part(r, bias, direction);
    bias = of_gates(r, both, 0, r->gates);
    of_state = of_gates(r, both, r->gates, 2 * r->gates);
    if (!bias || !of_state)
      return -1;
  }
  if (of_state && r->functions != 2)
    bias = binary(r, "Add", bias, of_state);
  d->from_input = project_input(r, bias, direction);
  for (int64_t i = 0; of_state && r->functions == 2 && i < 2; i++)
    d->state_bias[i] = of_gates(r, of_state, i ? cut : 0, i ? r->gates : cut);
  return d->from_input ? 0 : -1;
}

/* A GRU that resets the state before its product needs that of the last gate apart. */
static int begin(const Recurrent *r, Direction *d, int64_t direction) {
  int is_apart = r->functions == 2 && !bp__node_int(r->node, "linear_before_reset", 0);
  int64_t cut = is_apart ? 2 : r->gates;
  BpGraphValue *recurrence = part(r, r->node->inputs[2], direction);
  BpGraphValue *peepholes = bp__node_input(r->node, 7);
  for (int64_t i = 0; i <= is_apart; i++) {
    BpGraphValue *rows =
        recurrence ? bp__op_slice(r->graph, r->node, recurrence, 0, i ? cut * r->hidden : 0,
                                  (i ? r->gates : cut) * r->hidden)
                   : NULL;
    d->recurrence[i] = transpose(r, rows, (int64_t[]){1, 0}, 2);
    if (!d->recurrence[i])
      return -1;
  }
  if (peepholes)
    peepholes = part(r, peepholes, direction);
  for (int64_t i = 0; i < 3 && bp__node_input(r->node, 7); i++)
    if (!(d->peepholes[i] = of_gates(r, peepholes, i, i + 1)))
      return -1;
  d->hidden = first_state(r, 5, direction);
  d->cell = first_state(r, 6, direction);
  d->each = bp__arena_alloc_array(&r->graph->arena, (size_t)r->steps, sizeof(*d->each));
  return d->hidden && d->cell && d->each ? begin_input(r, d, direction, cut) : -1;
}

/* A gate of an LSTM, which may look at the cell. */
static BpGraphValue *lstm_gate(const Recurrent *r, const Direction *d, BpGraphValue *gates,
                               int64_t gate, BpGraphValue *peephole) {
  BpGraphValue *sum = of_gates(r, gates, gate, gate + 1);
  if (peephole)
    sum = binary(r, "Add", sum, binary(r, "Mul", peephole, d->cell));
  return activate(r, 0, sum);
}

/* state * recurrence + its bias. */
static BpGraphValue *recur(const Recurrent *r, const Direction *d, BpGraphValue *state,
                           int32_t which) {
  BpGraphValue *sum = binary(r, "MatMul", state, d->recurrence[which]);
  return d->state_bias[which] ? binary(r, "Add", sum, d->state_bias[which]) : sum;
}

/* Gates: input, output, forget, cell. */
static BpGraphValue *step_lstm(const Recurrent *r, Direction *d, BpGraphValue *x) {
  BpGraphValue *gates = binary(r, "Add", recur(r, d, d->hidden, 0), x);
  BpGraphValue *kept = binary(r, "Mul", lstm_gate(r, d, gates, 2, d->peepholes[2]), d->cell);
  BpGraphValue *added = binary(r, "Mul", lstm_gate(r, d, gates, 0, d->peepholes[0]),
                               activate(r, 1, of_gates(r, gates, 3, 4)));
  d->cell = binary(r, "Add", kept, added);
  return binary(r, "Mul", lstm_gate(r, d, gates, 1, d->peepholes[1]), activate(r, 2, d->cell));
}

/* Gates: update, reset, hidden. new + update * (old - new) is (1 - update) * new + update * old. */
static BpGraphValue *step_gru(const Recurrent *r, Direction *d, BpGraphValue *x) {
  BpGraphValue *known = recur(r, d, d->hidden, 0), *update, *reset, *fresh;
  update = activate(r, 0, binary(r, "Add", of_gates(r, x, 0, 1), of_gates(r, known, 0, 1)));
  reset = activate(r, 0, binary(r, "Add", of_gates(r, x, 1, 2), of_gates(r, known, 1, 2)));
  fresh = d->recurrence[1] ? recur(r, d, binary(r, "Mul", reset, d->hidden), 1)
                           : binary(r, "Mul", reset, of_gates(r, known, 2, 3));
  fresh = activate(r, 1, binary(r, "Add", of_gates(r, x, 2, 3), fresh));
  return binary(r, "Add", fresh, binary(r, "Mul", update, binary(r, "Sub", d->hidden, fresh)));
}

static BpGraphValue *step_rnn(const Recurrent *r, Direction *d, BpGraphValue *x) {
  return activate(r, 0, binary(r, "Add", recur(r, d, d->hidden, 0), x));
}

typedef BpGraphValue *(*Step)(const Recurrent *r, Direction *d, BpGraphValue *x);

static int run_direction(const Recurrent *r, Direction *d, int64_t direction, Step step) {
  int is_reverse = direction == 1 || !strcmp(bp__node_str(r->node, "direction", ""), "reverse");
  if (begin(r, d, direction))
    return -1;
  for (int64_t i = 0; i < r->steps; i++) {
    int64_t at = is_reverse ? r->steps - 1 - i : i;
    BpGraphValue *index = bp__graph_constant(r->graph, r->node->name, BP__INT64, NULL, 0, NULL);
    if (!index)
      return -1;
    *(int64_t *)bp__graph_constant_data(index) = at;
    d->hidden = step(r, d, binary(r, "Gather", d->from_input, index));
    if (!d->hidden)
      return -1;
    d->each[at] = d->hidden;
  }
  return 0;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

/* Joins `values`, which it overwrites, along an axis. */
static BpGraphValue *join(const Recurrent *r, BpGraphValue **values, int64_t count, int64_t axis) {
  BpGraphAttr attr = bp__attr_int(r->graph, "axis", axis);
  while (count > 1) {
    int64_t joined = 0;
    for (int64_t i = 0; i < count; i += JOINED) {
      int64_t some = count - i < JOINED ? count - i : JOINED;
      values[joined] =
          bp__op_apply(r->graph, "", "Concat", r->node->name, values + i, (int32_t)some, &attr, 1);
      if (!values[joined++])
        return NULL;
    }
    count = joined;
  }
  return values[0];
}

/* (directions, batch, hidden), of each direction's last state. */
static BpGraphValue *last_states(const Recurrent *r, BpGraphValue *const *states) {
  int64_t shape[] = {1, r->batch, r->hidden};
  BpGraphValue *parts[MAX_DIRECTIONS], *all;
  for (int64_t i = 0; i < r->directions; i++)
    parts[i] = bp__op_reshape(r->graph, r->node, states[i], shape, 3);
  all = join(r, parts, r->directions, 0);
  return all && bp__node_int(r->node, "layout", 0) ? transpose(r, all, (int64_t[]){1, 0, 2}, 3)
                                                   : all;
}

/* (steps, directions, batch, hidden). */
static BpGraphValue *all_states(const Recurrent *r, Direction *directions) {
  int64_t shape[] = {1, 1, r->batch, r->hidden};
  BpGraphValue *parts[MAX_DIRECTIONS], *all;
  for (int64_t i = 0; i < r->directions; i++) {
    for (int64_t s = 0; s < r->steps; s++)
      directions[i].each[s] = bp__op_reshape(r->graph, r->node, directions[i].each[s], shape, 4);
    parts[i] = join(r, directions[i].each, r->steps, 0);
  }
  all = join(r, parts, r->directions, 1);
  return all && bp__node_int(r->node, "layout", 0) ? transpose(r, all, (int64_t[]){2, 0, 1, 3}, 4)
                                                   : all;
}

static int expand(BpGraph *graph, BpGraphNode *node, int32_t gates, int32_t functions, Step step) {
  Recurrent r = {
      .graph = graph, .node = node, .x = node->inputs[0], .gates = gates, .functions = functions};
  const char *names[3 * MAX_DIRECTIONS];
  BpGraphValue *hidden[MAX_DIRECTIONS], *cells[MAX_DIRECTIONS];
  Direction *directions = bp__arena_alloc_array(&graph->arena, MAX_DIRECTIONS, sizeof(*directions));
  if (!directions || read_recurrent(&r) || read_activations(&r, names))
    return -1;
  for (int64_t i = 0; i < r.directions; i++) {
    r.activations = names + i * functions;
    if (run_direction(&r, &directions[i], i, step))
      return -1;
    hidden[i] = directions[i].hidden;
    cells[i] = directions[i].cell;
  }
  for (int32_t i = 0; i < node->num_outputs; i++) {
    node->outputs[i] = i == 0   ? all_states(&r, directions)
                       : i == 1 ? last_states(&r, hidden)
                                : last_states(&r, cells);
    if (!node->outputs[i])
      return -1;
  }
  return 0;
}

BP_ROW_EXPAND(lstm) {
  return expand(graph, node, 4, 3, step_lstm);
}

BP_ROW_EXPAND(gru) {
  return expand(graph, node, 3, 2, step_gru);
}

BP_ROW_EXPAND(rnn) {
  return expand(graph, node, 1, 1, step_rnn);
}
