/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the loop iterations of a thread: some drivers end a thread's loops without an error after
 * a number of iterations, which gives wrong results.
 *
 * The count is an expression of the function's scalars, which are open extents. A loop whose extent
 * depends on other loops counts with its greatest extent. A WHILE counts as many iterations as its
 * variable takes to its end if each adds 1, or doubles it, or to 0 if each halves it. Others, and a
 * loop whose extent is data, have numbers that are not known before the launch, and count as
 * MANY. */

#include <inttypes.h>
#include <stdio.h>

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

/* Returns 1 if the node stores a multiple in a variable, whose buffer is the context. */
static int visit_multiple(void *context, const BpIrNode *node) {
  int64_t factor;
  if (node->kind != BP_IR_STORE || node->operands[0] != context)
    return 0;
  const BpIrNode *value = node->operands[2];
  if (value->kind == BP_IR_ADD)
    value = value->operands[0];
  return value->kind == BP_IR_MUL && bp__ir_const_int(value->operands[1], &factor) && factor > 1;
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

/* Returns 1 if the node stores a fraction in an unsigned variable, whose buffer is the context. */
static int visit_fraction(void *context, const BpIrNode *node) {
  int64_t shift;
  if (node->kind != BP_IR_STORE || node->operands[0] != context)
    return 0;
  const BpIrNode *value = node->operands[2];
  return value->kind == BP_IR_SHR && value->dtype.code == BP_DTYPE_UINT &&
         bp__ir_const_int(value->operands[1], &shift) && shift > 0;
}

/* Whether a visitor finds a store to the variable in a loop. */
static bool has_store(Counter *counter, const BpIrNode *loop, const BpIrNode *variable,
                      int (*visit)(void *context, const BpIrNode *node)) {
  int found = bp__ir_visit_once(loop->operands[1], visit, (void *)(uintptr_t)variable);
  counter->failed |= found < 0;
  return found > 0;
}

/* The number of times that a WHILE runs its body. */
static const BpIrNode *times_of_while(Counter *counter, const BpIrNode *loop) {
  const BpIrNode *condition = loop->operands[0], *many = number(counter, MANY);
  if (condition->num_operands != 2 || condition->operands[0]->kind != BP_IR_LOAD)
    return many;
  const BpIrNode *value = condition->operands[0], *end = condition->operands[1];
  const BpIrNode *variable = value->operands[0];
  if (condition->kind == BP_IR_NE && bp__ir_is_int_value(end, 0))
    return has_store(counter, loop, variable, visit_fraction) ? number(counter, value->dtype.bits)
                                                              : many;
  const BpIrNode *most = condition->kind == BP_IR_LT ? limits_of(counter, end).most : NULL;
  if (!most)
    return many;
  most = combine(counter, BP_IR_MAX, most, number(counter, 0));
  most = count(counter, BP_IR_MIN, most, many);
  return has_store(counter, loop, variable, visit_multiple) ? digits_of(counter, most) : most;
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
