/* SPDX-License-Identifier: Apache-2.0 */
/* Folding: a node whose inputs are constants is computed now. Folding removes arithmetic on shapes.
 * A row with a `fold` function folds its nodes itself; the nodes of other rows are lowered. A small
 * computation is interpreted; a larger one is compiled for this machine's CPU and run, if a
 * compiler is installed. A computation that exceeds the graph's budget stays a node. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/ops/op.h"

#define MAX_FOLDED_OUTPUTS 16
#define MAX_FOLDED_ARGS    (BP_OP_MAX_INPUTS + MAX_FOLDED_OUTPUTS)

/* The number of iterations up to which interpreting takes no longer than compiling; and the maximum
 * number of interpreted iterations, if no compiler is installed or the number of iterations is
 * unknown. */
#define LITTLE_WORK      (1 << 20)
#define MOST_INTERPRETED (1 << 22)

/* The costs that count against the budget. The unit of costs is an iteration of compiled code,
 * which takes some nanoseconds. */
#define COST_INTERPRETED 64        /* cost of an interpreted iteration */
#define COST_OF_COMPILER (1 << 28) /* cost of compiling one function */

/* The number of statements that the interpreter executes for an iteration: the loops around it and
 * the names in it. */
#define STATEMENTS 16

/* The number of elements above which a constant is not made by only repeating elements of smaller
 * constants. */
#define MANY_ELEMENTS (1 << 20)

/* A computation that is folded. The arguments of its function are the node's present inputs, then
 * its outputs. */
typedef struct Fold {
  BpGraphNode *node;
  BpTe *te;
  BpTeTensor *args[MAX_FOLDED_ARGS];
  int32_t num_args;
  double work; /* iterations */
} Fold;

/* Whether an output's shape, and so its number of elements, is known only at run time. */
static int has_open_output(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (bp__value_is_open(node->outputs[i]))
      return 1;
  return 0;
}

static int has_open_attr(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_attrs; i++)
    if (node->attrs[i].ints && bp__extents_any_open(node->attrs[i].ints, node->attrs[i].count))
      return 1;
  return 0;
}

static int is_constant(const BpGraphNode *node) {
  if (!node->op->compute || node->num_outputs > MAX_FOLDED_OUTPUTS || node->outputs[0]->extents ||
      has_open_attr(node))
    return 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && !node->inputs[i]->data)
      return 0;
  return 1;
}

static int make_tensors(Fold *fold) {
  BpTeTensor *inputs[BP_OP_MAX_INPUTS] = {NULL};
  BpOpCompute op = {.te = fold->te, .node = fold->node, .inputs = inputs};
  for (int32_t i = 0; i < fold->node->num_inputs; i++) {
    const BpGraphValue *in = bp__op_argument(fold->node, i);
    if (!in)
      continue;
    inputs[i] = bp_te_placeholder(fold->te, "input", in->dtype, in->shape, in->ndim);
    if (!inputs[i])
      return -1;
    fold->args[fold->num_args++] = inputs[i];
  }
  if (bp__op_compute(&op, fold->args + fold->num_args) != 0)
    return -1;
  fold->num_args += fold->node->num_outputs;
  fold->work = bp_te_work(fold->te);
  return 0;
}

static int64_t total_elements(BpGraphValue *const *values, int32_t count) {
  int64_t total = 0;
  for (int32_t i = 0; i < count; i++)
    total += values[i] ? bp__value_num_elements(values[i]) : 0;
  return total;
}

/* Whether the constant is worth its memory: reading repeated elements of a smaller constant is as
 * fast. */
static int is_worth_keeping(const Fold *fold) {
  const BpGraphNode *node = fold->node;
  int64_t elements = total_elements(node->outputs, node->num_outputs);
  return elements <= MANY_ELEMENTS || elements <= total_elements(node->inputs, node->num_inputs) ||
         fold->work >= 4.0 * (double)elements;
}

static BpTensorView view_of(const BpGraphValue *value) {
  return (BpTensorView){.data = (void *)(uintptr_t)value->data,
                        .device = {BP_DEVICE_CPU, 0},
                        .ndim = value->ndim,
                        .dtype = value->dtype,
                        .shape = (int64_t *)(uintptr_t)value->shape};
}

typedef struct Arguments {
  BpTensorView views[MAX_FOLDED_ARGS];
  BpValue values[MAX_FOLDED_ARGS];
  int32_t count;
} Arguments;

static void make_arguments(const BpGraphNode *node, Arguments *args) {
  memset(args, 0, sizeof(*args));
  for (int32_t i = 0; i < node->num_inputs + node->num_outputs; i++) {
    const BpGraphValue *value =
        i < node->num_inputs ? bp__op_argument(node, i) : node->outputs[i - node->num_inputs];
    if (!value)
      continue;
    args->views[args->count] = view_of(value);
    args->values[args->count].type_index = BP_TYPE_TENSOR_VIEW;
    args->values[args->count].v_view = &args->views[args->count];
    args->count++;
  }
}

/* ---- Two ways ---------------------------------------------------------------------------- */

/* Interprets the computation: 0 if the data is complete, 1 if it takes too long, -1 with an
 * error. */
static int interpret(const Fold *fold) {
  BpLowerOptions options = {.struct_size = sizeof(options)};
  int64_t steps = (int64_t)MOST_INTERPRETED * STATEMENTS;
  BpIrModule *module = bp_ir_module_create();
  Arguments args;
  make_arguments(fold->node, &args);
  int status =
      module ? bp_te_lower(fold->te, "folded", fold->args, fold->num_args, &options, module) : -1;
  if (!status)
    status = bp_ir_interpret_steps(module, "folded", args.values, args.count, &steps);
  bp_object_release(module);
  if (!status || steps > 0)
    return status;
  bp_error_clear();
  return 1;
}

/* Compiles the function for this machine (transfer full); NULL without an error if no compiler is
 * installed. */
static BpModule *compile(BpGraphNode *node) {
  BpTarget *target = bp_target_parse("c");
  BpLowerOptions options = {.struct_size = sizeof(options), .target = target};
  BpIrModule *module = target ? bp_ir_module_create() : NULL;
  Fold fold = {.node = node, .te = module ? bp_te_create() : NULL};
  BpModule *code = NULL;
  if (fold.te && !make_tensors(&fold) &&
      !bp_schedule_auto(fold.te, fold.args + fold.num_args - node->num_outputs, node->num_outputs,
                        target) &&
      !bp_te_lower(fold.te, "folded", fold.args, fold.num_args, &options, module))
    code = bp_target_build(module, target);
  bp_te_free(fold.te);
  bp_object_release(module);
  bp_object_release(target);
  if (!code)
    bp_error_clear();
  return code;
}

static int run_compiled(const Fold *fold, BpModule *code) {
  BpFunction *function = NULL;
  BpValue result = {0};
  Arguments args;
  make_arguments(fold->node, &args);
  int status = bp_module_get_function(code, "folded", 0, &function);
  if (!status)
    status = bp_function_call(function, args.values, args.count, &result);
  bp_value_clear(&result);
  bp_object_release(function);
  return status;
}

/* Interprets or compiles the computation, by its work; returns 0, 1 or -1 as interpret() does. */
static int compute(BpGraph *graph, const Fold *fold) {
  double interpreted = isinf(fold->work) ? MOST_INTERPRETED : fold->work;
  BpModule *code = NULL;
  if (interpreted > LITTLE_WORK && !isinf(fold->work) &&
      bp__graph_use_work(graph, COST_OF_COMPILER + fold->work))
    code = compile(fold->node);
  if (code) {
    int status = run_compiled(fold, code);
    bp_object_release(code);
    return status;
  }
  if (interpreted > MOST_INTERPRETED || !bp__graph_use_work(graph, COST_INTERPRETED * interpreted))
    return 1;
  return interpret(fold);
}

/* Allocates memory for the outputs: 0, 1 if the budget is too small, or -1 with an error. */
static int give_memory(BpGraph *graph, const BpGraphNode *node) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < node->num_outputs; i++)
    bytes += bp__value_num_bytes(node->outputs[i]);
  if (!bp__graph_has_bytes(graph, bytes))
    return 1;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (!(node->outputs[i]->data = bp__graph_new_data(graph, node->outputs[i])))
      return -1;
  return 0;
}

/* Evaluates a node: 0, 1 or -1, as interpret() returns. */
static int evaluate(BpGraph *graph, BpGraphNode *node) {
  Fold fold = {.node = node, .te = bp_te_create()};
  int status = fold.te && !make_tensors(&fold) ? !is_worth_keeping(&fold) : -1;
  if (!status)
    status = give_memory(graph, node);
  if (!status)
    status = compute(graph, &fold);
  for (int32_t i = 0; i < node->num_outputs && status; i++)
    node->outputs[i]->data = NULL;
  bp_te_free(fold.te);
  if (status < 0)
    bp_error_add_context("while computing the constant '%s'", node->name);
  return status;
}

int bp__op_fold(BpGraph *graph, BpGraphNode *node) {
  if (has_open_output(node))
    return 1;
  int status = node->op->fold ? node->op->fold(graph, node) : 1;
  if (status > 0 && is_constant(node))
    status = evaluate(graph, node);
  /* An output without data consists of extents, which a node of its own computes. */
  for (int32_t i = 0; i < node->num_outputs && status == 0; i++)
    if (node->outputs[i]->data)
      node->outputs[i]->producer = NULL;
  return status;
}
