/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers: LSTM, GRU and RNN as products and steps, and the common parts of the steps. */
#include "graph/ops/recurrent.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

#define MAX_DIRECTIONS 2

/* ---- Activations ------------------------------------------------------------------------- */

/* The activation functions, the numbers that each takes, and the numbers' defaults. */
typedef struct Activation {
  const char *name;
  int32_t num_numbers;
  double alpha, beta;
} Activation;

static const Activation activations[] = {
    {"Sigmoid", 0, 0, 0},      {"Tanh", 0, 0, 0},       {"Relu", 0, 0, 0},
    {"Softsign", 0, 0, 0},     {"Softplus", 0, 0, 0},   {"HardSigmoid", 2, 0.2, 0.5},
    {"LeakyRelu", 1, 0.01, 0}, {"Elu", 1, 1, 0},        {"ThresholdedRelu", 1, 1, 0},
    {"Affine", 2, 1, 0},       {"ScaledTanh", 2, 1, 1},
};

static const Activation *find_activation(const char *name) {
  for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++)
    if (!g_ascii_strcasecmp(activations[i].name, name))
      return &activations[i];
  return NULL;
}

static const BpIrNode *softplus(BpIrModule *ir, const BpIrNode *x) {
  const BpIrNode *one = x_number(ir, x_dtype(x), 1), *zero = x_number(ir, x_dtype(x), 0);
  const BpIrNode *below = x_min(ir, x, x_sub(ir, zero, x));
  return x_add(ir, x_max(ir, x, zero),
               x_call1(ir, "log", x_add(ir, one, x_call1(ir, "exp", below))));
}

static const BpIrNode *apply_activation(BpIrModule *ir, const char *name, const BpIrNode *x,
                                        double alpha, double beta) {
  if (!x)
    return NULL;
  const BpIrNode *one = x_number(ir, x_dtype(x), 1), *zero = x_number(ir, x_dtype(x), 0);
  const BpIrNode *a = x_number(ir, x_dtype(x), alpha), *b = x_number(ir, x_dtype(x), beta);
  if (!strcmp(name, "Sigmoid"))
    return x_call1(ir, "sigmoid", x);
  if (!strcmp(name, "Tanh"))
    return x_call1(ir, "tanh", x);
  if (!strcmp(name, "Relu"))
    return x_max(ir, x, zero);
  if (!strcmp(name, "Softsign"))
    return x_div(ir, x, x_add(ir, one, x_call1(ir, "abs", x)));
  if (!strcmp(name, "Softplus"))
    return softplus(ir, x);
  if (!strcmp(name, "HardSigmoid"))
    return x_min(ir, one, x_max(ir, zero, x_add(ir, x_mul(ir, a, x), b)));
  if (!strcmp(name, "LeakyRelu"))
    return x_choose(ir, x_lt(ir, x, zero), x_mul(ir, a, x), x);
  if (!strcmp(name, "Elu"))
    return x_choose(ir, x_lt(ir, x, zero),
                    x_mul(ir, a, x_sub(ir, x_call1(ir, "exp", x_min(ir, x, zero)), one)), x);
  if (!strcmp(name, "ThresholdedRelu"))
    return x_choose(ir, bp_ir_binary(ir, BP_IR_GT, x, a), x, zero);
  if (!strcmp(name, "Affine"))
    return x_add(ir, x_mul(ir, a, x), b);
  return x_mul(ir, a, x_call1(ir, "tanh", x_mul(ir, b, x))); /* ScaledTanh */
}

/* ---- Cells ------------------------------------------------------------------------------- */

typedef struct Start {
  const BpCell *cell;
  BpTeTensor *tensor;
} Start;

static const BpIrNode *start_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return bp_te_read(te, ((const Start *)context)->tensor, axes);
}

BpTeTensor *bp__cell_state(BpCell *cell, const char *name, int32_t input) {
  Start start = {cell, cell->op->inputs[input]};
  return bp_te_scan_state(cell->scan, name, cell->op->node->outputs[0]->dtype,
                          start.tensor ? start_body : NULL, &start);
}

static const BpIrNode *limit_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return bp_te_read(te, ((const Start *)context)->tensor, axes);
}

int bp__cell_begin(BpCell *cell, const BpOpCompute *op) {
  const BpGraphValue *out = op->node->outputs[0];
  Start lengths = {cell, op->inputs[3]};
  *cell = (BpCell){.op = op,
                   .te = op->te,
                   .ir = bp_te_ir(op->te),
                   .steps = out->shape[0],
                   .batch = out->shape[1],
                   .hidden = out->shape[2],
                   .terms = op->inputs[7] ? (out->shape[2] + 3) / 4 : out->shape[2]};
  cell->scan = bp__op_scan(op, out->shape, 3, 0, (int32_t)bp__node_int(op->node, "reverse", 0));
  if (!cell->scan || (lengths.tensor && bp_te_scan_limit(cell->scan, limit_body, &lengths)))
    return -1;
  cell->state = bp__cell_state(cell, "state", 2);
  return cell->state ? 0 : -1;
}

typedef struct Product {
  const BpCell *cell;
  BpTeTensor *state;
  int64_t first;
} Product;

/* The weight of term `k` for a column, which may be in a panel (graph/build/pack.c). */
static const BpIrNode *read_weight(const BpCell *cell, const BpIrNode *k, const BpIrNode *column) {
  const BpGraphValue *weights = cell->op->node->inputs[1];
  if (weights->ndim == 2)
    return bp_te_read(cell->te, cell->op->inputs[1], (const BpIrNode *[]){k, column});
  const BpIrNode *panel = x_index(cell->ir, weights->shape[2]);
  const BpIrNode *at[] = {bp_ir_binary(cell->ir, BP_IR_FLOORDIV, column, panel), k,
                          bp_ir_binary(cell->ir, BP_IR_FLOORMOD, column, panel)};
  return bp_te_read(cell->te, cell->op->inputs[1], at);
}

/* The axes are step, row of the batch, gate and column. */
static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Product *product = context;
  BpIrModule *ir = product->cell->ir;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", product->cell->terms);
  const BpIrNode *gate = x_add(ir, axes[2], x_index(ir, product->first));
  const BpIrNode *column = x_add(ir, x_mul(ir, gate, x_index(ir, product->cell->hidden)), axes[3]);
  const BpIrNode *state = bp_te_read(te, product->state, (const BpIrNode *[]){axes[0], axes[1], k});
  const BpIrNode *weight = read_weight(product->cell, k, column);
  if (!product->cell->codes)
    weight =
        product->cell->scale && weight ? bp_ir_cast(ir, BP__FLOAT32, weight) : x_wide(ir, weight);
  const BpIrNode *term = x_term(product->cell->op->node, ir, x_wide(ir, state), weight);
  return bp_te_reduce(te, BP_TE_SUM, term, &k, 1);
}

BpTeTensor *bp__cell_product(BpCell *cell, BpTeTensor *state, int64_t first, int64_t gates) {
  Product product = {cell, state, first};
  int64_t shape[] = {cell->steps, cell->batch, gates, cell->hidden};
  return bp__op_tensor(cell->op, "product", shape, 4, product_body, &product);
}

/* ---- Ends of cells ----------------------------------------------------------------------- */

int bp__cell_end(BpCell *cell, BpTeTupleBody body, void *context, BpTeTensor **outputs) {
  BpTeTensor *each[2], *last[2];
  int32_t states = cell->op->node->num_outputs - 1;
  if (bp_te_scan_end(cell->scan, body, context, states, each, last))
    return -1;
  outputs[0] = each[0];
  memcpy(outputs + 1, last, (size_t)states * sizeof(*last));
  return 0;
}

const BpIrNode *bp__cell_input(const BpCell *cell, const BpIrNode *const *axes, int64_t gate) {
  BpIrModule *ir = cell->ir;
  const BpIrNode *at[] = {axes[0], axes[1], x_add(ir, axes[2], x_index(ir, gate * cell->hidden))};
  return x_wide(ir, bp_te_read(cell->te, cell->op->inputs[0], at));
}

const BpIrNode *bp__cell_gate(const BpCell *cell, BpTeTensor *product, const BpIrNode *const *axes,
                              int64_t gate) {
  const BpIrNode *at[] = {axes[0], axes[1], x_index(cell->ir, gate), axes[2]};
  const BpIrNode *sum = bp_te_read(cell->te, product, at);
  return cell->scale ? bp__cell_scaled(cell, sum, axes, gate) : sum;
}

const BpIrNode *bp__cell_vector(const BpCell *cell, BpTeTensor *vector, const BpIrNode *const *axes,
                                int64_t part) {
  const BpIrNode *at = x_add(cell->ir, axes[2], x_index(cell->ir, part * cell->hidden));
  return x_wide(cell->ir, bp_te_read(cell->te, vector, &at));
}

const BpIrNode *bp__cell_activate(const BpCell *cell, int32_t index, const BpIrNode *value) {
  const BpGraphNode *node = cell->op->node;
  const BpGraphAttr *numbers = bp__node_attr(node, "numbers");
  double clip = (double)bp__node_float(node, "clip", 0);
  if (value && clip > 0) {
    value = x_min(cell->ir, value, x_number(cell->ir, x_dtype(value), clip));
    value = x_max(cell->ir, value, x_number(cell->ir, x_dtype(value), -clip));
  }
  return apply_activation(cell->ir, bp__node_attr(node, "activations")->strs[index], value,
                          (double)numbers->floats[2 * index],
                          (double)numbers->floats[2 * index + 1]);
}

/* ---- Inference --------------------------------------------------------------------------- */

/* The operators of the steps. Only the rows of recurrent layers make nodes of LSTMSteps, GRUSteps
 * and RNNSteps, so the shapes of their inputs are correct. */
BP_ROW_INFER(recurrent_steps) {
  const BpGraphValue *x = node->inputs[0];
  const BpGraphValue *weights = node->inputs[1];
  int64_t hidden = bp__node_int(node, "hidden", weights->shape[weights->ndim - 2]);
  int64_t each[] = {x->shape[0], x->shape[1], hidden}, last[] = {x->shape[1], hidden};
  if (bp__node_set_output(graph, node, 0, x->dtype, each, 3))
    return -1;
  for (int32_t i = 1; i < node->num_outputs; i++)
    if (bp__node_set_output(graph, node, i, x->dtype, last, 2))
      return -1;
  return 0;
}

/* ---- Reading a layer --------------------------------------------------------------------- */

typedef struct Recurrent {
  BpGraph *graph;
  BpGraphNode *node;
  BpGraphValue *x; /* input, (steps, batch, input) */
  const char *steps_name;
  int64_t steps, batch; /* extents, may be open */
  int64_t input, hidden, directions;
  int32_t gates, functions, states;
  BpGraphValue *scales[2]; /* scales of integer weights of inputs and states, (directions) or
                            * (directions, gates * hidden); NULL: the weights are numbers */
  const char **names;      /* names of activation functions, in memory of the graph */
  float *numbers;          /* two numbers for each function, in memory of the graph */
} Recurrent;

static BpGraphValue *binary(const Recurrent *r, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(r->graph, r->node, op, a, b);
}

static BpGraphValue *transpose(const Recurrent *r, BpGraphValue *value, const int64_t *perm,
                               int32_t count) {
  return bp__op_transpose(r->graph, r->node, value, perm, count);
}

/* The part of an optional input (directions, ...) that belongs to one direction; NULL if the input
 * is absent. */
static BpGraphValue *part(const Recurrent *r, BpGraphValue *whole, int64_t direction) {
  BpGraphValue *slice =
      whole ? bp__op_slice(r->graph, r->node, whole, 0, direction, direction + 1) : NULL;
  return slice ? bp__op_reshape(r->graph, r->node, slice, whole->shape + 1, whole->ndim - 1) : NULL;
}

/* Slices the last axis, of gates * hidden elements, to the gates [first, last). */
static BpGraphValue *of_gates(const Recurrent *r, BpGraphValue *value, int64_t first,
                              int64_t last) {
  return value ? bp__op_slice(r->graph, r->node, value, value->ndim - 1, first * r->hidden,
                              last * r->hidden)
               : NULL;
}

/* Checks that an input, if present, has a shape; a run checks open extents. */
static int check_shape(const Recurrent *r, int32_t input, const int64_t *shape, int32_t ndim) {
  BpGraphValue *value = bp__node_input(r->node, input);
  char complaint[96];
  snprintf(complaint, sizeof(complaint), "the shape of input %d does not fit the shapes of X and W",
           input);
  if (!value)
    return 0;
  if (value->ndim != ndim)
    return bp__op_bad(r->node, "%s", complaint);
  r->node->inputs[input] = bp__op_as_shape(r->graph, r->node, value, shape, complaint);
  return r->node->inputs[input] ? 0 : -1;
}

static int check_inputs(const Recurrent *r) {
  int64_t rows = r->gates * r->hidden;
  int64_t state[] = {r->directions, r->batch, r->hidden};
  if (check_shape(r, 0, (int64_t[]){r->x->shape[0], r->x->shape[1], r->input}, 3) ||
      check_shape(r, 1, (int64_t[]){r->directions, rows, r->input}, 3) ||
      check_shape(r, 2, (int64_t[]){r->directions, rows, r->hidden}, 3) ||
      check_shape(r, 3, (int64_t[]){r->directions, 2 * rows}, 2) ||
      check_shape(r, 4, &r->batch, 1) ||
      check_shape(r, 7, (int64_t[]){r->directions, 3 * r->hidden}, 2))
    return -1;
  if (bp__node_int(r->node, "layout", 0))
    memcpy(state, (int64_t[]){r->batch, r->directions, r->hidden}, sizeof(state));
  return check_shape(r, 5, state, 3) || check_shape(r, 6, state, 3) ? -1 : 0;
}

/* The next number of a list, for functions that take one; `otherwise` after its end. */
static float next_number(const BpGraphAttr *list, int32_t *used, double otherwise) {
  return list && *used < list->count ? list->floats[(*used)++] : (float)otherwise;
}

/* Reads the activation functions of all directions, and their numbers, which the lists state in the
 * order of the functions that take one. */
static int read_activations(Recurrent *r) {
  static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
  const BpGraphAttr *attr = bp__node_attr(r->node, "activations");
  const BpGraphAttr *alphas = bp__node_attr(r->node, "activation_alpha");
  const BpGraphAttr *betas = bp__node_attr(r->node, "activation_beta");
  int32_t count = r->functions * (int32_t)r->directions, num_alphas = 0, num_betas = 0;
  r->names = bp__arena_alloc_array(&r->graph->arena, (size_t)count, sizeof(*r->names));
  r->numbers = bp__arena_alloc_array(&r->graph->arena, 2 * (size_t)count, sizeof(*r->numbers));
  if (!r->names || !r->numbers)
    return -1;
  if (attr && attr->count != count)
    return bp__op_bad(r->node, "it names %d activations instead of %d", attr->count, count);
  for (int32_t i = 0; i < count; i++) {
    const char *name = attr                ? attr->strs[i]
                       : r->functions == 1 ? "Tanh"
                                           : defaults[i % r->functions];
    const Activation *known = find_activation(name);
    if (!known)
      return bp__op_error(r->node, "activation '%s' is not supported", name);
    r->names[i] = known->name;
    if (known->num_numbers > 0)
      r->numbers[2 * i] = next_number(alphas, &num_alphas, known->alpha);
    if (known->num_numbers > 1)
      r->numbers[2 * i + 1] = next_number(betas, &num_betas, known->beta);
  }
  return 0;
}

static int read_layer(Recurrent *r) {
  const BpGraphNode *node = r->node;
  const char *direction = bp__node_str(node, "direction", "forward");
  int batch_first = bp__node_int(node, "layout", 0) != 0;
  int is_both = !strcmp(direction, "bidirectional");
  if (!is_both && strcmp(direction, "forward") && strcmp(direction, "reverse"))
    return bp__op_bad(node, "direction '%s' is not one of forward, reverse and bidirectional",
                      direction);
  if (r->x->ndim != 3 || node->inputs[2]->ndim != 3)
    return bp__op_bad(node, "its input and weights do not have 3 dimensions");
  if (!bp__dtype_is_float(r->x->dtype))
    return bp__op_bad(node, "its input is of no float type");
  r->steps = r->x->shape[batch_first];
  r->batch = r->x->shape[!batch_first];
  r->input = node->inputs[1]->ndim == 3 ? node->inputs[1]->shape[2] : r->x->shape[2];
  r->hidden = node->inputs[2]->shape[2];
  if (bp__extent_is_open(r->input) || bp__extent_is_open(r->hidden))
    return bp__op_bad(node, "the last extent of its weights is open");
  r->directions = is_both ? 2 : 1;
  if (bp__value_num_elements(node->inputs[2]) == 0)
    return bp__op_bad(node, "its state is empty");
  if (bp__node_int(node, "hidden_size", r->hidden) != r->hidden)
    return bp__op_bad(node, "hidden_size is not that of its weights");
  if (check_inputs(r) || read_activations(r))
    return -1;
  r->x = node->inputs[0];
  if (batch_first)
    r->x = transpose(r, r->x, (int64_t[]){1, 0, 2}, 3);
  return r->x ? 0 : -1;
}

/* ---- One direction ----------------------------------------------------------------------- */

/* The first state, (batch, hidden), from an optional input. */
static int first_state(const Recurrent *r, int32_t input, int64_t direction, BpGraphValue **state) {
  BpGraphValue *given = bp__node_input(r->node, input);
  *state = NULL;
  if (!given)
    return 0;
  if (bp__node_int(r->node, "layout", 0))
    given = transpose(r, given, (int64_t[]){1, 0, 2}, 3);
  *state = part(r, given, direction);
  return *state ? 0 : -1;
}

/* The scale of the weights of one direction: (1) or (gates * hidden). */
static BpGraphValue *scale_of(const Recurrent *r, int32_t which, int64_t direction) {
  const BpGraphValue *all = r->scales[which];
  int64_t count = all->ndim == 2 ? all->shape[1] : 1;
  BpGraphValue *slice =
      bp__op_slice(r->graph, r->node, r->scales[which], 0, direction, direction + 1);
  return slice ? bp__op_reshape(r->graph, r->node, slice, &count, 1) : NULL;
}

/* Computes x * W' for all steps with integer weights: each row of the batch is quantised by its
 * range in all steps. Products of zero points and sums of columns are subtracted from the sums of
 * products of int32. */
static BpGraphValue *project_quantized(const Recurrent *r, BpGraphValue *weights,
                                       BpGraphValue *scale, const int64_t *rows,
                                       const int64_t *shape) {
  BpGraph *graph = r->graph;
  const BpGraphNode *node = r->node;
  static const int64_t of_row[] = {0, 2}, first = 0;
  BpGraphValue *parts[3], *inputs[2], *sums;
  if (bp__op_quantize(graph, node, r->x, of_row, 2, parts))
    return NULL;
  BpGraphValue *codes = bp__op_reshape(graph, node, parts[0], rows, 2);
  inputs[0] = bp__op_cast(graph, node, weights, BP__INT32);
  inputs[1] = bp__graph_int_vector(graph, &first, 1);
  sums = binary(r, "MatMul", bp__op_cast(graph, node, codes, BP__INT32), inputs[0]);
  sums = sums ? bp__op_reshape(graph, node, sums, shape, 3) : NULL;
  sums = binary(r, "Sub", sums,
                binary(r, "Mul", bp__op_cast(graph, node, parts[2], BP__INT32),
                       bp__op_apply(graph, "", "ReduceSum", node->name, inputs, 2, NULL, 0)));
  return binary(r, "Mul", bp__op_cast(graph, node, sums, BP__FLOAT32),
                binary(r, "Mul", parts[1], scale));
}

/* Computes x * W' + bias for all steps. */
static BpGraphValue *project_input(const Recurrent *r, BpGraphValue *bias, int64_t direction) {
  BpGraphValue *weights = part(r, r->node->inputs[1], direction), *x;
  int64_t rows[] = {bp__extent_multiply(&r->graph->extents, r->steps, r->batch), r->input};
  int64_t shape[] = {r->steps, r->batch, r->gates * r->hidden};
  if (rows[0] == BP_EXTENT_NONE)
    return NULL;
  weights = transpose(r, weights, (int64_t[]){1, 0}, 2);
  if (r->scales[0]) {
    x = project_quantized(r, weights, scale_of(r, 0, direction), rows, shape);
    return bias ? binary(r, "Add", x, bias) : x;
  }
  x = binary(r, "MatMul", bp__op_reshape(r->graph, r->node, r->x, rows, 2), weights);
  if (bias)
    x = binary(r, "Add", x, bias);
  return x ? bp__op_reshape(r->graph, r->node, x, shape, 3) : NULL;
}

/* Both biases are added to the input's product, except a GRU's bias of the state for the last gate,
 * which a reset may multiply. */
static int read_biases(const Recurrent *r, int64_t direction, BpGraphValue **bias,
                       BpGraphValue **apart) {
  int keeps_apart = r->functions == 2 && bp__node_int(r->node, "linear_before_reset", 0);
  BpGraphValue *both = bp__node_input(r->node, 3);
  *bias = *apart = NULL;
  if (!both)
    return 0;
  both = part(r, both, direction);
  BpGraphValue *of_state = of_gates(r, both, r->gates, 2 * r->gates);
  *bias = of_gates(r, both, 0, r->gates);
  if (keeps_apart && of_state) {
    int64_t shape[] = {r->hidden};
    *apart = of_gates(r, of_state, 2, 3);
    BpGraphValue *zeros =
        bp__graph_constant(r->graph, r->node->name, of_state->dtype, shape, 1, NULL);
    BpGraphAttr axis = bp__attr_int(r->graph, "axis", 0);
    BpGraphValue *joined[] = {of_gates(r, of_state, 0, 2), zeros};
    of_state = bp__op_apply(r->graph, "", "Concat", r->node->name, joined, 2, &axis, 1);
    if (!*apart)
      return -1;
  }
  *bias = *bias && of_state ? binary(r, "Add", *bias, of_state) : NULL;
  return *bias ? 0 : -1;
}

/* Lists the attributes of the operator of the steps. */
static int32_t list_attrs(const Recurrent *r, int64_t direction, BpGraphAttr *attrs) {
  const char *way = bp__node_str(r->node, "direction", "");
  int32_t first = (int32_t)direction * r->functions, count = 0;
  attrs[count++] = bp__attr_int(r->graph, "reverse", direction == 1 || !strcmp(way, "reverse"));
  attrs[count++] = (BpGraphAttr){.name = "activations",
                                 .type = BP_GRAPH_ATTR_STRINGS,
                                 .count = r->functions,
                                 .strs = r->names + first};
  attrs[count++] = (BpGraphAttr){.name = "numbers",
                                 .type = BP_GRAPH_ATTR_FLOATS,
                                 .count = 2 * r->functions,
                                 .floats = r->numbers + 2 * first};
  static const char *const passed[] = {"clip", "input_forget", "linear_before_reset"};
  for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
    if (bp__node_attr(r->node, passed[i]))
      attrs[count++] = *bp__node_attr(r->node, passed[i]);
  return count;
}

/* Makes the steps of one direction; the results are all states, then the last states. */
static int run_direction(const Recurrent *r, int64_t direction, BpGraphValue **results) {
  BpGraphValue *inputs[7] = {NULL}, *bias, *apart;
  BpGraphAttr attrs[6];
  if (read_biases(r, direction, &bias, &apart) || first_state(r, 5, direction, &inputs[2]))
    return -1;
  inputs[0] = project_input(r, bias, direction);
  inputs[1] = transpose(r, part(r, r->node->inputs[2], direction), (int64_t[]){1, 0}, 2);
  inputs[3] = bp__node_input(r->node, 4);
  inputs[4] = apart;
  if (r->states == 2 &&
      (first_state(r, 6, direction, &inputs[4]) ||
       (bp__node_input(r->node, 7) && !(inputs[5] = part(r, r->node->inputs[7], direction)))))
    return -1;
  if (r->scales[1] && !(inputs[6] = scale_of(r, 1, direction)))
    return -1;
  if (!inputs[0] || !inputs[1])
    return -1;
  int32_t num_attrs = list_attrs(r, direction, attrs);
  BpGraphNode *steps = bp__graph_node(r->graph, bp__op_find("backplane", r->steps_name),
                                      r->node->name, inputs, 7, 1 + r->states, attrs, num_attrs);
  if (!steps || bp__op_append(r->graph, steps))
    return -1;
  memcpy(results, steps->outputs, (size_t)(1 + r->states) * sizeof(*results));
  return 0;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

/* Joins the results of both directions; `shape` is the shape of one result, with a dimension for
 * the direction. */
static BpGraphValue *join(const Recurrent *r, BpGraphValue *const *values, const int64_t *shape,
                          int32_t ndim, int64_t axis) {
  BpGraphAttr attr = bp__attr_int(r->graph, "axis", axis);
  BpGraphValue *parts[MAX_DIRECTIONS];
  for (int64_t i = 0; i < r->directions; i++)
    parts[i] = bp__op_reshape(r->graph, r->node, values[i], shape, ndim);
  if (r->directions == 1)
    return parts[0];
  return bp__op_apply(r->graph, "", "Concat", r->node->name, parts, (int32_t)r->directions, &attr,
                      1);
}

/* Makes output `index` of the layer from the outputs of the directions. */
static BpGraphValue *make_output(const Recurrent *r, BpGraphValue *const *values, int32_t index) {
  int batch_first = bp__node_int(r->node, "layout", 0) != 0;
  int64_t each[] = {r->steps, 1, r->batch, r->hidden}, last[] = {1, r->batch, r->hidden};
  BpGraphValue *all = index == 0 ? join(r, values, each, 4, 1) : join(r, values, last, 3, 0);
  if (!all || !batch_first)
    return all;
  return index == 0 ? transpose(r, all, (int64_t[]){2, 0, 1, 3}, 4)
                    : transpose(r, all, (int64_t[]){1, 0, 2}, 3);
}

static int expand(Recurrent *r) {
  BpGraphValue *results[MAX_DIRECTIONS][3];
  if (read_layer(r))
    return -1;
  for (int64_t i = 0; i < r->directions; i++)
    if (run_direction(r, i, results[i]))
      return -1;
  for (int32_t i = 0; i < r->node->num_outputs; i++) {
    BpGraphValue *values[] = {results[0][i], results[r->directions - 1][i]};
    r->node->outputs[i] = make_output(r, values, i);
    if (!r->node->outputs[i])
      return -1;
  }
  return 0;
}

BP_ROW_EXPAND(lstm) {
  return expand(&(Recurrent){.graph = graph,
                             .node = node,
                             .x = node->inputs[0],
                             .steps_name = "LSTMSteps",
                             .gates = 4,
                             .functions = 3,
                             .states = 2});
}

/* Checks that integer weights, (directions, terms, rows), fit their scale and zero point: one for
 * each direction, or for each row of a direction. */
static int check_quantized(const BpGraphNode *node, const BpGraphValue *weights,
                           const BpGraphValue *scale, const BpGraphValue *zero) {
  if (!weights || !scale || weights->ndim != 3 || weights->dtype.bits != 8 || scale->ndim < 1 ||
      scale->ndim > 2 || !bp__dtype_equal(scale->dtype, BP__FLOAT32) ||
      scale->shape[0] != weights->shape[0] ||
      (scale->ndim == 2 && scale->shape[1] != weights->shape[2]) ||
      (zero &&
       (!bp__value_same_shape(zero, scale) || !bp__dtype_equal(zero->dtype, weights->dtype))))
    return bp__op_bad(node, "its quantised weights, scale and zero point do not fit in type or "
                            "shape");
  return 0;
}

/* Integer weights minus their zero point, as LSTM takes weights, (directions, rows, terms). */
static BpGraphValue *centred_weights(BpGraph *graph, const BpGraphNode *node, int32_t index,
                                     int32_t scale) {
  BpGraphValue *weights = bp__node_input(node, index), *zero = bp__node_input(node, scale + 1);
  const BpDataType wide = {BP_DTYPE_INT, 16, 1};
  int is_zero = !zero || zero->data != NULL;
  if (check_quantized(node, weights, bp__node_input(node, scale), zero))
    return NULL;
  for (int64_t i = 0; zero && is_zero && i < bp__value_num_elements(zero); i++)
    is_zero = bp__value_get_int(zero, i) == 0;
  if (!is_zero) {
    const int64_t shape[] = {zero->shape[0], 1, zero->ndim == 2 ? zero->shape[1] : 1};
    zero = bp__op_reshape(graph, node, bp__op_cast(graph, node, zero, wide), shape, 3);
    weights = bp__op_binary(graph, node, "Sub", bp__op_cast(graph, node, weights, wide), zero);
  }
  return bp__op_transpose(graph, node, weights, (const int64_t[]){0, 2, 1}, 3);
}

/* An LSTM whose inputs, and whose state before each step, are quantised to bytes, each row of the
 * batch by ranges of its own. onnxruntime takes the ranges of the rows that one of its threads
 * computes. If the products with the state are not dot products of bytes
 * (graph/build/byte_products.c), they are computed in float32: sums above 2^24 are rounded. */
BP_ROW_EXPAND(dynamic_quantize_lstm) {
  BpGraphValue *inputs[8];
  BpGraphNode layer = *node;
  if (!bp__dtype_equal(node->inputs[0]->dtype, BP__FLOAT32))
    return bp__op_bad(node, "its input is not float32");
  for (int32_t i = 0; i < 8; i++)
    inputs[i] = bp__node_input(node, i);
  inputs[1] = centred_weights(graph, node, 1, 8);
  inputs[2] = inputs[1] ? centred_weights(graph, node, 2, 10) : NULL;
  if (!inputs[2])
    return -1;
  layer.inputs = inputs;
  layer.num_inputs = 8;
  return expand(&(Recurrent){.graph = graph,
                             .node = &layer,
                             .x = inputs[0],
                             .steps_name = "LSTMSteps",
                             .gates = 4,
                             .functions = 3,
                             .states = 2,
                             .scales = {node->inputs[8], node->inputs[10]}});
}

BP_ROW_EXPAND(gru) {
  return expand(&(Recurrent){.graph = graph,
                             .node = node,
                             .x = node->inputs[0],
                             .steps_name = "GRUSteps",
                             .gates = 3,
                             .functions = 2,
                             .states = 1});
}

BP_ROW_EXPAND(rnn) {
  return expand(&(Recurrent){.graph = graph,
                             .node = node,
                             .x = node->inputs[0],
                             .steps_name = "RNNSteps",
                             .gates = 1,
                             .functions = 1,
                             .states = 1});
}
