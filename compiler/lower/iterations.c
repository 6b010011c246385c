/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the loop iterations of a thread: some drivers end a thread's loops without an error after
 * a number of iterations, which gives wrong results.
 *
 * The count is an expression of the function's scalars, which are open extents. A loop whose extent
 * depends on other loops counts with its greatest extent. A WHILE counts as many iterations as its
 * variable, which is not negative at first, takes to its end if each way through the body adds 1 or
 * doubles it, or to 0 if each halves it. Others, and a loop whose extent is data, have numbers that
 * are not known before the launch, and count as MANY. */

#include <inttypes.h>
#include <stdio.h>

#include "compiler/ir/scalar.h"
#include "compiler/lower/lowering.h"
#include "compiler/lower/passes.h"

#define MANY INT32_MAX /* stands for all greater counts, so that their products do not overflow */

/* The limits of an integer: expressions of the scalars, NULL if unknown. If both are the same, the
 * integer is this expression. */
typedef struct Limits {
  const BpIrNode *least, *most;
} Limits;

static const Limits no_limits = {NULL, NULL};

typedef struct Counter {
  BpIrModule *module;
  const BpIrNode *function;
  BpIrMap limits; /* VAR of a loop or a name -> Limits */
  bool failed;    /* memory is exhausted */
} Counter;

static const BpIrNode *combine(Counter *counter, int32_t kind, const BpIrNode *a,
                               const BpIrNode *b) {
  const BpIrNode *node = a && b ? bp_ir_binary(counter->module, kind, a, b) : NULL;
  counter->failed |= a && b && !node;
  return node;
}

static const BpIrNode *number(Counter *counter, int64_t value) {
  const BpIrNode *node = bp__ir_int64(counter->module, value);
  counter->failed |= !node;
  return node;
}

/* ---- Limits of expressions --------------------------------------------------------------- */

static bool is_exact(Limits limits) {
  return limits.most && limits.most == limits.least;
}

/* Whether the form of an expression of the scalars shows that it is not negative. */
static bool is_natural(const BpIrNode *node) {
  int64_t value;
  if (!node || node->kind == BP_IR_SUB || node->kind > BP_IR_MAX)
    return false;
  if (node->kind == BP_IR_VAR)
    return true;
  if (node->kind < BP_IR_ADD)
    return bp__ir_const_int(node, &value) && value >= 0;
  bool first = is_natural(node->operands[0]), second = is_natural(node->operands[1]);
  return node->kind == BP_IR_MAX ? first || second : first && second;
}

static Limits limits_of_product(Counter *counter, Limits a, Limits b) {
  int64_t factor;
  if (is_exact(a) && bp__ir_const_int(a.most, &factor))
    return limits_of_product(counter, b, a);
  bool is_negative = is_exact(b) && bp__ir_const_int(b.most, &factor) && factor < 0;
  if (!is_negative && !is_natural(b.least))
    return no_limits;
  if (!is_negative && !is_exact(b) && !is_natural(a.least))
    return no_limits;
  Limits both = {combine(counter, BP_IR_MUL, a.least, b.least),
                 combine(counter, BP_IR_MUL, a.most, b.most)};
  return is_negative ? (Limits){both.most, both.least} : both;
}

static Limits limits_of_quotient(Counter *counter, int32_t kind, Limits a, Limits b) {
  int64_t divisor;
  if (is_exact(b) && bp__ir_const_int(b.most, &divisor) && divisor > 0)
    return (Limits){combine(counter, kind, a.least, b.most),
                    combine(counter, kind, a.most, b.most)};
  return is_natural(a.least) && is_natural(b.least) ? (Limits){number(counter, 0), a.most}
                                                    : no_limits;
}

/* The limit of a minimum or maximum that one of the operands suffices for. */
static const BpIrNode *either(Counter *counter, int32_t kind, const BpIrNode *a,
                              const BpIrNode *b) {
  return a && b ? combine(counter, kind, a, b) : a ? a : b;
}

static Limits limits_of_binary(Counter *counter, int32_t kind, Limits a, Limits b) {
  if (is_exact(a) && is_exact(b)) {
    const BpIrNode *both = combine(counter, kind, a.most, b.most);
    return (Limits){both, both};
  }
  switch (kind) {
  case BP_IR_ADD:
    return (Limits){combine(counter, kind, a.least, b.least),
                    combine(counter, kind, a.most, b.most)};
  case BP_IR_SUB:
    return (Limits){combine(counter, kind, a.least, b.most),
                    combine(counter, kind, a.most, b.least)};
  case BP_IR_MUL:
    return limits_of_product(counter, a, b);
  case BP_IR_DIV:
  case BP_IR_FLOORDIV:
    return limits_of_quotient(counter, kind, a, b);
  case BP_IR_MOD:
  case BP_IR_FLOORMOD:
    return is_natural(a.least) && is_natural(b.least) ? (Limits){number(counter, 0), b.most}
                                                      : no_limits;
  case BP_IR_MIN:
    return (Limits){combine(counter, kind, a.least, b.least),
                    either(counter, kind, a.most, b.most)};
  default: /* MAX */
    return (Limits){either(counter, kind, a.least, b.least),
                    combine(counter, kind, a.most, b.most)};
  }
}

static Limits limits_of_name(Counter *counter, const BpIrNode *var) {
  const Limits *known = bp__ir_map_get(&counter->limits, var);
  for (int32_t i = 0; i < bp__ir_function_num_params(counter->function); i++)
    if (counter->function->operands[i] == var) {
      const BpIrNode *scalar = bp_ir_cast(counter->module, bp__dtype_int64(), var);
      counter->failed |= !scalar;
      return (Limits){scalar, scalar};
    }
  return known ? *known : no_limits;
}

/* The limits of an integer of fewer than 64 bits. */
static Limits limits_of_type(Counter *counter, BpDataType dtype) {
  if (dtype.bits >= 64)
    return no_limits;
  int64_t values = (int64_t)1 << dtype.bits, least = dtype.code == BP_DTYPE_INT ? -values / 2 : 0;
  return (Limits){number(counter, least), number(counter, least + values - 1)};
}

/* The limits of an integer of any width, as expressions of int64. Sums and products of int64 are
 * assumed not to overflow; those of fewer bits may wrap, and have the limits of their type. */
static Limits limits_of(Counter *counter, const BpIrNode *node) {
  int64_t value;
  bool is_wide = bp__dtype_equal(node->dtype, bp__dtype_int64());
  Limits limits = no_limits;
  if (bp__ir_const_int(node, &value)) {
    const BpIrNode *constant = number(counter, value);
    return (Limits){constant, constant};
  }
  if (!bp__dtype_is_int(node->dtype) || node->dtype.lanes != 1)
    return no_limits;
  if (node->kind == BP_IR_VAR) {
    limits = limits_of_name(counter, node);
  } else if (node->kind == BP_IR_SELECT) {
    Limits a = limits_of(counter, node->operands[1]), b = limits_of(counter, node->operands[2]);
    limits = (Limits){combine(counter, BP_IR_MIN, a.least, b.least),
                      combine(counter, BP_IR_MAX, a.most, b.most)};
  } else if (node->kind == BP_IR_CAST && is_wide) {
    limits = limits_of(counter, node->operands[0]);
  } else if (node->kind >= (is_wide ? BP_IR_ADD : BP_IR_MIN) && node->kind <= BP_IR_MAX) {
    limits = limits_of_binary(counter, node->kind, limits_of(counter, node->operands[0]),
                              limits_of(counter, node->operands[1]));
  }
  return limits.most || is_wide ? limits : limits_of_type(counter, node->dtype);
}

static void set_limits(Counter *counter, const BpIrNode *var, Limits limits) {
  Limits *kept = bp__ir_alloc(counter->module, sizeof *kept);
  if (kept)
    *kept = limits;
  counter->failed |= !kept || bp__ir_map_set(&counter->limits, var, kept) != 0;
}

/* ---- Iterations of statements ------------------------------------------------------------ */

/* A sum or product of two counts. */
static const BpIrNode *count(Counter *counter, int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  int64_t value;
  const BpIrNode *node = combine(counter, kind, a, b);
  if (!node || (bp__ir_const_int(node, &value) && value <= MANY))
    return node;
  return combine(counter, BP_IR_MIN, node, number(counter, MANY));
}

static const BpIrNode *iterations_of(Counter *counter, const BpIrNode *node);

static const BpIrNode *iterations_of_loop(Counter *counter, const BpIrNode *loop) {
  const BpIrNode *one = number(counter, 1);
  Limits begin = limits_of(counter, loop->operands[1]);
  Limits extent = limits_of(counter, loop->operands[2]);
  const BpIrNode *end = combine(counter, BP_IR_ADD, begin.most, extent.most);
  set_limits(counter, loop->operands[0],
             (Limits){begin.least, combine(counter, BP_IR_SUB, end, one)});
  const BpIrNode *inside = iterations_of(counter, loop->operands[3]);
  if (loop->int_value == BP_IR_FOR_BOUND)
    return inside;
  const BpIrNode *most = extent.most ? extent.most : number(counter, MANY);
  if (!is_natural(most))
    most = combine(counter, BP_IR_MAX, most, number(counter, 0));
  return count(counter, BP_IR_MUL, count(counter, BP_IR_MIN, most, number(counter, MANY)),
               count(counter, BP_IR_ADD, inside, one));
}

/* ---- Variables of WHILEs ----------------------------------------------------------------- */

/* What an iteration does to the variable of a WHILE, from the least to the most. */
typedef enum Step {
  STEP_UNKNOWN,
  STEP_ADDS,   /* at least 1 */
  STEP_SCALES, /* doubles the variable and adds at least 1, or halves it */
  STEP_ENDS,   /* sets the variable to the end */
  STEP_NONE    /* does not store the variable */
} Step;

/* The least step of the ways through a statement that store the variable, and whether there are
 * other ways. */
typedef struct Change {
  Step least;
  bool may_skip;
} Change;

static const Change no_change = {STEP_NONE, true};

/* The variable of a WHILE. */
typedef struct Progress {
  const BpIrNode *value; /* the LOAD of the variable */
  const BpIrNode *end;   /* the WHILE ends when the variable reaches it */
  bool is_halved;        /* whether it falls to 0, and does not grow to the end */
  bool is_end_fixed;     /* whether the end is the same in all iterations */
  BpIrMap names;         /* names in the body -> their values */
  bool failed;           /* an error was raised */
} Progress;

/* The depth to which the value of a variable is examined. */
#define MAX_LEVELS 8

/* The value of a name in the body; any other node itself. */
static const BpIrNode *named(const Progress *progress, const BpIrNode *node) {
  const BpIrNode *value;
  while (node->kind == BP_IR_VAR && (value = bp__ir_map_get(&progress->names, node)))
    node = value;
  return node;
}

static bool is_end(const Progress *progress, const BpIrNode *node) {
  return progress->is_end_fixed && bp__ir_equal(node, progress->end);
}

/* Whether a number is at least the variable's at the beginning of the iteration, which is below the
 * end. */
static bool is_at_least(const Progress *progress, const BpIrNode *node, int32_t levels) {
  int64_t value, end;
  bool is_last;
  if (is_end(progress, node))
    return true;
  node = named(progress, node);
  const BpIrNode *const *x = node->operands;
  if (levels-- == 0 || bp__ir_equal(node, progress->value))
    return levels >= 0;
  switch (node->kind) {
  case BP_IR_INT_IMM:
    return bp__ir_const_int(progress->end, &end) && node->int_value >= end - 1;
  case BP_IR_ADD:
    is_last = bp__ir_const_int(x[1], &value) && value == -1 && is_end(progress, x[0]);
    return is_last ||
           (bp__ir_const_int(x[1], &value) && value >= 0 && is_at_least(progress, x[0], levels));
  case BP_IR_SELECT:
    return is_at_least(progress, x[1], levels) && is_at_least(progress, x[2], levels);
  case BP_IR_MIN:
    return is_at_least(progress, x[0], levels) && is_at_least(progress, x[1], levels);
  case BP_IR_MAX:
    return is_at_least(progress, x[0], levels) || is_at_least(progress, x[1], levels);
  default:
    return false;
  }
}

/* The step of a store of a number that halves the variable. */
static Step halving_of(const Progress *progress, const BpIrNode *node) {
  int64_t shift;
  if (bp__ir_is_int_value(node, 0))
    return STEP_ENDS;
  bool is_fraction = node->kind == BP_IR_SHR && bp__ir_const_int(node->operands[1], &shift) &&
                     shift > 0 && bp__ir_equal(named(progress, node->operands[0]), progress->value);
  return is_fraction ? STEP_SCALES : STEP_UNKNOWN;
}

/* Whether `factor` times a number below the end, plus `more`, does not wrap. Numbers of int64 do
 * not overflow. */
static bool stays_in_type(const Progress *progress, int64_t factor, int64_t more) {
  BpDataType dtype = progress->value->dtype;
  int64_t most;
  if (bp__dtype_equal(dtype, bp__dtype_int64()))
    return true;
  if (!bp__ir_const_int(progress->end, &most))
    return factor == 1 && more == 1;
  return !__builtin_mul_overflow(most, factor, &most) &&
         !__builtin_add_overflow(most, more, &most) && bp__scalar_wrap(dtype, most) == most;
}

/* The step of a store of a number to the variable. */
static Step step_of(const Progress *progress, const BpIrNode *node) {
  int64_t more, factor;
  if (is_end(progress, node))
    return STEP_ENDS;
  node = named(progress, node);
  if (progress->is_halved)
    return halving_of(progress, node);
  if (node->kind != BP_IR_ADD || !bp__ir_const_int(node->operands[1], &more) || more < 1)
    return STEP_UNKNOWN;
  const BpIrNode *rest = named(progress, node->operands[0]);
  bool is_scaled =
      rest->kind == BP_IR_MUL && bp__ir_const_int(rest->operands[1], &factor) && factor > 1;
  if (!stays_in_type(progress, is_scaled ? factor : 1, more) ||
      !is_at_least(progress, is_scaled ? rest->operands[0] : rest, MAX_LEVELS))
    return STEP_UNKNOWN;
  return is_scaled ? STEP_SCALES : STEP_ADDS;
}

static Step least_of(Step a, Step b) {
  return a < b ? a : b;
}

static Change change_of(Progress *progress, const BpIrNode *node);

static Change change_of_store(const Progress *progress, const BpIrNode *store) {
  if (store->operands[0] != progress->value->operands[0])
    return no_change;
  bool is_whole =
      store->num_operands == 3 && bp__ir_equal(store->operands[1], progress->value->operands[1]);
  return (Change){is_whole ? step_of(progress, store->operands[2]) : STEP_UNKNOWN, false};
}

static Change change_of_seq(Progress *progress, const BpIrNode *seq) {
  Change all = no_change;
  for (int32_t i = 0; i < seq->num_operands; i++) {
    Change change = change_of(progress, seq->operands[i]);
    bool is_unknown = all.least == STEP_UNKNOWN || change.least == STEP_UNKNOWN;
    Step before = change.may_skip || is_unknown ? all.least : STEP_NONE;
    all = (Change){least_of(change.least, before), all.may_skip && change.may_skip};
  }
  return all;
}

/* What one iteration of a statement's loop, or the statement, does to the variable. */
static Change change_of(Progress *progress, const BpIrNode *node) {
  const BpIrNode *const *x = node->operands;
  Change change = no_change, other = no_change;
  int64_t extent;
  switch (node->kind) {
  case BP_IR_STORE:
    return change_of_store(progress, node);
  case BP_IR_SEQ:
    return change_of_seq(progress, node);
  case BP_IR_IF:
    change = change_of(progress, x[1]);
    if (node->num_operands > 2)
      other = change_of(progress, x[2]);
    return (Change){least_of(change.least, other.least), change.may_skip || other.may_skip};
  case BP_IR_FOR:
    change = change_of(progress, x[3]);
    change.may_skip |= !bp__ir_const_int(x[2], &extent) || extent < 1;
    return change;
  case BP_IR_WHILE:
    return (Change){change_of(progress, x[1]).least, true};
  case BP_IR_LET:
    progress->failed |= bp__ir_map_set(&progress->names, x[0], x[1]) != 0;
    return change_of(progress, x[2]);
  case BP_IR_ALLOCATE:
    return change_of(progress, x[1]);
  case BP_IR_EVALUATE:
    return bp__ir_uses(node, progress->value->operands[0]) ? (Change){STEP_UNKNOWN, true}
                                                           : no_change;
  default:
    return no_change;
  }
}

/* What each iteration of a WHILE, which compares a variable with an end, does to the variable. */
static Step step_of_while(Counter *counter, const BpIrNode *loop) {
  const BpIrNode *const *x = loop->operands[0]->operands;
  Progress progress = {.value = x[0],
                       .end = x[1],
                       .is_halved = loop->operands[0]->kind == BP_IR_NE,
                       .is_end_fixed = bp__lower_has_data(x[1]) == 0};
  if (x[0]->num_operands != 2 || bp__lower_has_data(x[0]->operands[1]) != 0)
    return STEP_UNKNOWN;
  Change change = change_of(&progress, loop->operands[1]);
  bp__ir_map_clear(&progress.names);
  counter->failed |= progress.failed;
  return change.may_skip ? STEP_UNKNOWN : change.least;
}

/* The number of binary digits of a number from 0 to MANY: the times that 2 v + 1 replaces v, which
 * is 0 at first, until v is at least this number. */
static const BpIrNode *digits_of(Counter *counter, const BpIrNode *value) {
  const BpIrNode *digits = number(counter, 0), *one = number(counter, 1);
  for (int64_t unit = 1; unit < MANY; unit *= 2) {
    const BpIrNode *high = combine(counter, BP_IR_DIV, value, number(counter, unit));
    digits = combine(counter, BP_IR_ADD, digits, combine(counter, BP_IR_MIN, high, one));
  }
  return digits;
}

/* The number of times that a WHILE runs its body. */
static const BpIrNode *times_of_while(Counter *counter, const BpIrNode *loop) {
  const BpIrNode *condition = loop->operands[0], *many = number(counter, MANY);
  if (condition->num_operands != 2 || condition->operands[0]->kind != BP_IR_LOAD)
    return many;
  const BpIrNode *value = condition->operands[0], *end = condition->operands[1];
  bool is_halved = condition->kind == BP_IR_NE && bp__ir_is_int_value(end, 0) &&
                   value->dtype.code == BP_DTYPE_UINT;
  if (!is_halved && condition->kind != BP_IR_LT)
    return many;
  Step step = step_of_while(counter, loop);
  const BpIrNode *most = is_halved ? NULL : limits_of(counter, end).most;
  if (step == STEP_UNKNOWN || (!is_halved && !most))
    return many;
  if (is_halved)
    return number(counter, value->dtype.bits);
  most = combine(counter, BP_IR_MAX, most, number(counter, 0));
  most = count(counter, BP_IR_MIN, most, many);
  return step == STEP_ADDS ? most : digits_of(counter, most);
}

static const BpIrNode *iterations_of_while(Counter *counter, const BpIrNode *loop) {
  const BpIrNode *inside = iterations_of(counter, loop->operands[1]);
  return count(counter, BP_IR_MUL, times_of_while(counter, loop),
               count(counter, BP_IR_ADD, inside, number(counter, 1)));
}

/* The iterations of a statement, NULL if memory is exhausted. */
static const BpIrNode *iterations_of(Counter *counter, const BpIrNode *node) {
  const BpIrNode *inside = number(counter, 0);
  if (node->kind == BP_IR_FOR)
    return iterations_of_loop(counter, node);
  if (node->kind == BP_IR_WHILE)
    return iterations_of_while(counter, node);
  if (node->kind == BP_IR_LET)
    set_limits(counter, node->operands[0], limits_of(counter, node->operands[1]));
  for (int32_t i = 0; i < node->num_operands; i++)
    if (bp__ir_is_statement(node->operands[i]))
      inside = count(counter, node->kind == BP_IR_IF ? BP_IR_MAX : BP_IR_ADD, inside,
                     iterations_of(counter, node->operands[i]));
  return inside;
}

const BpIrNode *bp__count_iterations(BpIrModule *module, const BpIrNode *function) {
  Counter counter = {.module = module, .function = function};
  const BpIrNode *result = iterations_of(&counter, bp__ir_function_body(function));
  bp__ir_map_clear(&counter.limits);
  return counter.failed ? NULL : result;
}

int bp__check_iterations(BpIrModule *module, const BpIrNode *function, const BpTarget *target) {
  int64_t most = bp_target_get_int(target, BP_TARGET_MAX_ITERATIONS, 0), value;
  if (most == 0)
    return 0;
  const BpIrNode *iterations = bp__count_iterations(module, function);
  if (!iterations)
    return -1;
  if (!bp__ir_const_int(iterations, &value) || value <= most)
    return 0;
  char known[64] = "have a number of iterations that depends on data or is large";
  if (value < MANY)
    snprintf(known, sizeof known, "have %" PRId64 " iterations", value);
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "kernel '%s': the loops of a thread %s, and the device ends them after "
                        "%" PRId64 " (attribute max_iterations)",
                        function->str_value, known, most);
}
