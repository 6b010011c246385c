/* SPDX-License-Identifier: Apache-2.0 */
/* Linear forms of index expressions, and the functions that use them. */

#include "compiler/lower/linear.h"

#include <stdlib.h>

#define MAX_TERMS 24

typedef struct Term {
  const BpIrNode *atom;
  int64_t multiple;
} Term;

/* A linear form: constant + sum of the terms; `failed` tells that memory ran out or numbers
 * overflowed. */
typedef struct Linear {
  int64_t constant;
  int32_t count;
  bool failed;
  Term terms[MAX_TERMS];
} Linear;

/* The origin of an integer: only loop variables, extents and constants; also data, but with a value
 * that is known to be far from the limits of int64; or any data. */
typedef enum Origin { FROM_INDICES, FROM_BOUNDED_DATA, FROM_DATA } Origin;

static void linear_of(BpIndexContext *context, const BpIrNode *node, Linear *out);
static const BpIrNode *linear_node(BpIndexContext *context, const Linear *linear);
static BpRange range_of_atom(BpIndexContext *context, const BpIrNode *node);
static BpRange linear_range(BpIndexContext *context, const Linear *linear);
static Origin origin_of(BpIndexContext *context, const BpIrNode *node);

/* ---- Stored results ---------------------------------------------------------------------- */

static void forget(BpIndexContext *context) {
  for (int32_t i = 0; i < BP__INDEX_NUM_FACTS; i++) {
    bp__ir_map_clear(&context->facts[0][i]);
    bp__ir_map_clear(&context->facts[1][i]);
  }
}

void bp__index_clear(BpIndexContext *context) {
  bp__ir_map_clear(&context->vars);
  forget(context);
}

static const void *recall(BpIndexContext *context, int32_t fact, const BpIrNode *node) {
  return node->depth > BP__IR_TREE_DEPTH
             ? bp__ir_map_get(&context->facts[context->wraps][fact], node)
             : NULL;
}

/* Stores a result for a node; if -1 with an error is returned, the result is computed again. */
static int remember(BpIndexContext *context, int32_t fact, const BpIrNode *node, const void *value,
                    size_t size) {
  if (node->depth <= BP__IR_TREE_DEPTH)
    return 0;
  void *kept = bp__ir_alloc(context->module, size);
  if (!kept)
    return -1;
  memcpy(kept, value, size);
  return bp__ir_map_set(&context->facts[context->wraps][fact], node, kept);
}

/* ---- Products ----------------------------------------------------------------------------- */

#define MAX_FACTORS 8

/* An atom as a product of factors; `count` is 0 if there are more factors than fit. */
typedef struct Factors {
  const BpIrNode *items[MAX_FACTORS];
  int32_t count;
} Factors;

static bool add_factors(Factors *factors, const BpIrNode *atom) {
  if (atom->kind == BP_IR_MUL)
    return add_factors(factors, atom->operands[0]) && add_factors(factors, atom->operands[1]);
  if (factors->count == MAX_FACTORS)
    return false;
  factors->items[factors->count++] = atom;
  return true;
}

static Factors factors_of(const BpIrNode *atom) {
  Factors factors = {.count = 0};
  return add_factors(&factors, atom) ? factors : (Factors){.count = 0};
}

/* Removes one factor; false if the product does not contain it. */
static bool remove_factor(Factors *factors, const BpIrNode *factor) {
  for (int32_t i = 0; i < factors->count; i++)
    if (bp__ir_equal(factors->items[i], factor)) {
      factors->items[i] = factors->items[--factors->count];
      return true;
    }
  return false;
}

/* Removes each of some factors once; false if the product does not contain all of them. */
static bool remove_factors(Factors *factors, const Factors *removed) {
  for (int32_t i = 0; i < removed->count; i++)
    if (!remove_factor(factors, removed->items[i]))
      return false;
  return true;
}

static bool is_product_of(const BpIrNode *atom, const Factors *factors) {
  Factors left = factors_of(atom);
  return left.count == factors->count && remove_factors(&left, factors);
}

/* The product of the factors and `node`; a NULL `node` counts as 1. */
static const BpIrNode *product_of(BpIndexContext *context, const Factors *factors,
                                  const BpIrNode *node) {
  for (int32_t i = 0; i < factors->count; i++)
    node = node ? bp_ir_binary(context->module, BP_IR_MUL, node, factors->items[i])
                : factors->items[i];
  return node;
}

/* A divisor: a positive number times a product of open extents or of sums of them. */
typedef struct Divisor {
  int64_t number;
  const BpIrNode *product; /* NULL: only the number */
  Factors factors;         /* factors of the product */
} Divisor;

/* Sets *divisor to a divisor that is not negative; false if it is no such product. */
static bool divisor_of(BpIndexContext *context, const BpIrNode *node, Divisor *divisor) {
  Linear linear;
  linear_of(context, node, &linear);
  *divisor = (Divisor){.number = linear.constant};
  if (linear.failed || linear.count == 0)
    return !linear.failed && linear.constant > 0;
  bool is_sum = linear.count > 1 || linear.constant != 0;
  int64_t number = is_sum ? 1 : linear.terms[0].multiple;
  if (number < 0 || linear_range(context, &linear).min < 0)
    return false;
  const BpIrNode *product = is_sum ? linear_node(context, &linear) : linear.terms[0].atom;
  *divisor = (Divisor){number, product, product ? factors_of(product) : (Factors){.count = 0}};
  return divisor->factors.count > 0;
}

/* ---- Ranges ------------------------------------------------------------------------------ */

static int set_range(BpIndexContext *context, const BpIrNode *var, BpVarRange range) {
  BpVarRange *known = bp__ir_alloc(context->module, sizeof *known);
  if (!known)
    return -1;
  *known = range;
  forget(context);
  return bp__ir_map_set(&context->vars, var, known);
}

int bp__index_set_range(BpIndexContext *context, const BpIrNode *var, int64_t min, int64_t max,
                        bool is_free) {
  return set_range(context, var, (BpVarRange){.range = {min, max}, .is_free = is_free});
}

int bp__index_set_name(BpIndexContext *context, const BpIrNode *var, const BpIrNode *value) {
  const BpVarRange *known = bp__ir_map_get(&context->vars, var);
  bool before = context->wraps;
  context->wraps = true;
  BpVarRange range = {.range = bp__index_range(context, value),
                      .is_data = origin_of(context, value) == FROM_DATA};
  context->wraps = before;
  if (known && known->range.min == range.range.min && known->range.max == range.range.max &&
      known->is_data == range.is_data && !known->is_free)
    return 0;
  return set_range(context, var, range) == 0 ? 1 : -1;
}

int bp__index_set_params(BpIndexContext *context, const BpIrNode *function) {
  const BpVarRange everything = {.range = {BP__RANGE_MIN, BP__RANGE_MAX}};
  for (int32_t i = 0; i < bp__ir_function_num_params(function); i++)
    if (function->operands[i]->kind == BP_IR_VAR &&
        bp__dtype_equal(function->operands[i]->dtype, bp__dtype_int64()) &&
        set_range(context, function->operands[i], everything) != 0)
      return -1;
  return 0;
}

int bp__index_limit(BpIndexContext *context, const BpIrNode *var, BpRange range) {
  const BpVarRange *known = bp__ir_map_get(&context->vars, var);
  BpVarRange limited = known ? *known : (BpVarRange){.range = range};
  if (range.min > limited.range.min)
    limited.range.min = range.min;
  if (range.max < limited.range.max)
    limited.range.max = range.max;
  return set_range(context, var, limited);
}

int bp__index_set_like(BpIndexContext *context, const BpIrNode *var, const BpIrNode *other) {
  const BpVarRange *known = bp__ir_map_get(&context->vars, other);
  return known ? set_range(context, var, *known) : 0;
}

int bp__index_set_open(BpIndexContext *context, const BpIrNode *var, int64_t max) {
  return set_range(context, var, (BpVarRange){.range = {0, max}, .is_free = true, .is_open = true});
}

void bp__index_assume(BpIndexContext *context, const BpIrNode *node) {
  if (!node || context->num_assumed == BP__INDEX_MAX_ASSUMED)
    return;
  context->assumed[context->num_assumed++] = node;
  forget(context);
}

void bp__index_reset(BpIndexContext *context, int32_t num_assumed) {
  if (num_assumed == context->num_assumed)
    return;
  context->num_assumed = num_assumed;
  forget(context);
}

static int64_t saturate(__int128 value) {
  return value < BP__RANGE_MIN   ? BP__RANGE_MIN
         : value > BP__RANGE_MAX ? BP__RANGE_MAX
                                 : (int64_t)value;
}

/* The upper end of the product of a range's upper end and a factor that is not negative. */
static int64_t multiply_max(int64_t max, int64_t factor) {
  return max == BP__RANGE_MAX && factor ? max : saturate((__int128)max * factor);
}

static int64_t multiply_min(int64_t min, int64_t factor) {
  return min == BP__RANGE_MIN && factor ? min : saturate((__int128)min * factor);
}

static const BpRange everything = {BP__RANGE_MIN, BP__RANGE_MAX};

static BpRange range_multiply(BpRange a, int64_t factor) {
  if (factor >= 0)
    return (BpRange){multiply_min(a.min, factor), multiply_max(a.max, factor)};
  return (BpRange){a.max == BP__RANGE_MAX ? BP__RANGE_MIN : saturate((__int128)a.max * factor),
                   a.min == BP__RANGE_MIN ? BP__RANGE_MAX : saturate((__int128)a.min * factor)};
}

/* The sum of two ranges: an end without a limit stays without one. */
static BpRange range_add(BpRange a, BpRange b) {
  bool has_min = a.min != BP__RANGE_MIN && b.min != BP__RANGE_MIN;
  bool has_max = a.max != BP__RANGE_MAX && b.max != BP__RANGE_MAX;
  return (BpRange){has_min ? saturate((__int128)a.min + b.min) : BP__RANGE_MIN,
                   has_max ? saturate((__int128)a.max + b.max) : BP__RANGE_MAX};
}

static BpRange range_union(BpRange a, BpRange b) {
  return (BpRange){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static uint64_t magnitude(int64_t number) {
  return number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
}

static BpRange range_floor_div(BpRange a, int64_t divisor) {
  return (BpRange){a.min == BP__RANGE_MIN ? a.min : floor_div(a.min, divisor),
                   a.max == BP__RANGE_MAX ? a.max : floor_div(a.max, divisor)};
}

static BpRange dtype_range(BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BOOL)
    return (BpRange){0, 1};
  if (dtype.bits > 32 || !bp__dtype_is_int(dtype))
    return everything;
  if (dtype.code == BP_DTYPE_UINT)
    return (BpRange){0, (INT64_C(1) << dtype.bits) - 1};
  return (BpRange){-(INT64_C(1) << (dtype.bits - 1)), (INT64_C(1) << (dtype.bits - 1)) - 1};
}

static bool is_uint64(BpDataType dtype) {
  return dtype.code == BP_DTYPE_UINT && dtype.bits == 64;
}

static const BpVarRange *var_range(BpIndexContext *context, const BpIrNode *var) {
  return bp__ir_map_get(&context->vars, var);
}

/* Whether a range that is known has one number only. */
static bool is_number(BpRange range) {
  return range.min == range.max && range.min > BP__RANGE_MIN && range.max < BP__RANGE_MAX;
}

/* The range of a product with a known number, or of factors far from overflow. */
static BpRange range_product(BpRange a, BpRange b) {
  if (is_number(b))
    return range_multiply(a, b.min);
  if (a.min < INT32_MIN || a.max > INT32_MAX || b.min < INT32_MIN || b.max > INT32_MAX)
    return is_number(a) ? range_multiply(b, a.min) : everything;
  return range_union(range_multiply(a, b.min), range_multiply(a, b.max));
}

/* The range of a conversion between integers, which wraps. */
static BpRange range_cast(BpRange range, BpDataType from, BpDataType to) {
  BpRange limits = dtype_range(to);
  if (bp__dtype_is_float(from))
    return limits;
  if (is_uint64(to))
    limits.min = 0;
  return range.min >= limits.min && range.max <= limits.max ? range : dtype_range(to);
}

/* The range of int64 arithmetic, scalar or vector; arithmetic of other types wraps. Sums of scalars
 * are linear forms and are handled elsewhere. */
static BpRange range_of_arithmetic(BpIndexContext *context, const BpIrNode *node) {
  if (node->dtype.code != BP_DTYPE_INT || node->dtype.bits != 64)
    return dtype_range(node->dtype);
  BpRange a = bp__index_range(context, node->operands[0]);
  BpRange b = bp__index_range(context, node->operands[1]);
  if (node->kind == BP_IR_MUL)
    return range_product(a, b);
  return range_add(a, node->kind == BP_IR_SUB ? range_multiply(b, -1) : b);
}

static BpRange range_of_ramp(BpIndexContext *context, const BpIrNode *node) {
  BpRange first = bp__index_range(context, node->operands[0]);
  BpRange step = bp__index_range(context, node->operands[1]);
  if (node->dtype.code != BP_DTYPE_INT || node->dtype.bits != 64)
    return dtype_range(node->dtype);
  return range_union(first, range_add(first, range_multiply(step, node->dtype.lanes - 1)));
}

/* ---- Data -------------------------------------------------------------------------------- */

static bool is_bounded(BpRange range) {
  return range.min > BP__RANGE_MIN && range.max < BP__RANGE_MAX;
}

/* Whether the range of a number is known, or the number itself. */
static bool is_limited(BpIndexContext *context, const BpIrNode *node) {
  int64_t value;
  return bp__ir_const_int(node, &value) || is_bounded(bp__index_range(context, node));
}

static bool is_sum_or_product(const BpIrNode *node) {
  return (node->kind == BP_IR_ADD || node->kind == BP_IR_SUB || node->kind == BP_IR_MUL) &&
         node->dtype.code == BP_DTYPE_INT && node->dtype.bits == 64;
}

/* Whether the sum or product of bounded data wraps. The other operand may be an index without known
 * limits; such sums are indices. */
static bool exceeds_limits(BpIndexContext *context, const BpIrNode *node) {
  return is_limited(context, node->operands[0]) && is_limited(context, node->operands[1]) &&
         !is_bounded(range_of_arithmetic(context, node));
}

static Origin find_origin(BpIndexContext *context, const BpIrNode *node) {
  const BpVarRange *known = node->kind == BP_IR_VAR ? var_range(context, node) : NULL;
  Origin origin = FROM_INDICES;
  if (node->kind == BP_IR_LOAD || node->kind == BP_IR_CALL ||
      (node->kind == BP_IR_VAR && (!known || known->is_data)))
    origin = FROM_DATA;
  for (int32_t i = 0; i < node->num_operands && origin != FROM_DATA; i++) {
    Origin other = origin_of(context, node->operands[i]);
    origin = other > origin ? other : origin;
  }
  if (origin == FROM_INDICES)
    return origin;
  if (is_sum_or_product(node))
    return origin == FROM_DATA || exceeds_limits(context, node) ? FROM_DATA : FROM_BOUNDED_DATA;
  return is_bounded(range_of_atom(context, node)) ? FROM_BOUNDED_DATA : FROM_DATA;
}

static Origin origin_of(BpIndexContext *context, const BpIrNode *node) {
  const Origin *known = recall(context, BP__INDEX_ORIGIN, node);
  if (known)
    return *known;
  Origin origin = find_origin(context, node);
  return remember(context, BP__INDEX_ORIGIN, node, &origin, sizeof origin) ? FROM_DATA : origin;
}

/* Whether the node is a sum or product that may wrap. */
static bool may_wrap(BpIndexContext *context, const BpIrNode *node) {
  return context->wraps && is_sum_or_product(node) && origin_of(context, node) == FROM_DATA;
}

/* ---- Ranges of operations ---------------------------------------------------------------- */

/* The greatest value of (x mod a) / b if b divides a, else BP__RANGE_MAX. */
static int64_t greatest_quotient(BpIndexContext *context, const BpIrNode *node) {
  const BpIrNode *rest = node->operands[0];
  Divisor whole, part;
  if ((rest->kind != BP_IR_MOD && rest->kind != BP_IR_FLOORMOD) ||
      !divisor_of(context, rest->operands[1], &whole) ||
      !divisor_of(context, node->operands[1], &part) || whole.number % part.number != 0 ||
      !remove_factors(&whole.factors, &part.factors))
    return BP__RANGE_MAX;
  int64_t count = whole.number / part.number;
  for (int32_t i = 0; i < whole.factors.count; i++)
    count = multiply_max(range_of_atom(context, whole.factors.items[i]).max, count);
  return count >= BP__RANGE_MAX ? BP__RANGE_MAX : count - 1;
}

/* The range of a quotient or remainder of two numbers that are not negative; division by zero gives
 * 0. */
static BpRange range_not_negative(BpIndexContext *context, const BpIrNode *node) {
  BpRange a = bp__index_range(context, node->operands[0]);
  BpRange b = bp__index_range(context, node->operands[1]);
  if (a.min < 0 || b.min < 0)
    return everything;
  bool is_rest = node->kind == BP_IR_MOD || node->kind == BP_IR_FLOORMOD;
  int64_t most = !is_rest                ? greatest_quotient(context, node)
                 : b.max < BP__RANGE_MAX ? b.max - 1
                                         : BP__RANGE_MAX;
  return (BpRange){0, most >= 0 && most < a.max ? most : a.max};
}

/* The range of the vectors from which a shuffle chooses lanes. */
static BpRange range_of_shuffle(BpIndexContext *context, const BpIrNode *node) {
  BpRange range = bp__index_range(context, node->operands[0]);
  for (int32_t i = 1; i < node->int_value; i++)
    range = range_union(range, bp__index_range(context, node->operands[i]));
  return range;
}

static BpRange find_range(BpIndexContext *context, const BpIrNode *node) {
  const BpIrNode *const *x = node->operands;
  int64_t divisor;
  if (is_uint64(node->dtype) && node->kind != BP_IR_CAST)
    return everything; /* large unsigned values have negative bit patterns */
  switch (node->kind) {
  case BP_IR_ADD:
  case BP_IR_SUB:
  case BP_IR_MUL:
    return may_wrap(context, node) ? everything : range_of_arithmetic(context, node);
  case BP_IR_RAMP:
    return range_of_ramp(context, node);
  case BP_IR_BROADCAST:
    return bp__index_range(context, x[0]);
  case BP_IR_SHUFFLE:
    return range_of_shuffle(context, node);
  case BP_IR_VAR: {
    const BpVarRange *known = var_range(context, node);
    return known ? known->range : dtype_range(node->dtype);
  }
  case BP_IR_DIV:
  case BP_IR_FLOORDIV:
    if (bp__ir_const_int(x[1], &divisor) && divisor > 0) {
      BpRange a = bp__index_range(context, x[0]);
      if (node->kind == BP_IR_FLOORDIV || a.min >= 0)
        return range_floor_div(a, divisor);
    }
    return range_not_negative(context, node);
  case BP_IR_MOD:
  case BP_IR_FLOORMOD:
    if (bp__ir_const_int(x[1], &divisor) && divisor > 0) {
      BpRange a = bp__index_range(context, x[0]);
      if (a.min >= 0)
        return (BpRange){0, a.max < divisor - 1 ? a.max : divisor - 1};
      return (BpRange){node->kind == BP_IR_MOD ? 1 - divisor : 0, divisor - 1};
    }
    return range_not_negative(context, node);
  case BP_IR_MIN: {
    BpRange a = bp__index_range(context, x[0]), b = bp__index_range(context, x[1]);
    return (BpRange){a.min < b.min ? a.min : b.min, a.max < b.max ? a.max : b.max};
  }
  case BP_IR_MAX: {
    BpRange a = bp__index_range(context, x[0]), b = bp__index_range(context, x[1]);
    return (BpRange){a.min > b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
  }
  case BP_IR_SHR: {
    BpRange a = bp__index_range(context, x[0]);
    return (BpRange){a.min < 0 ? a.min : 0, a.max > 0 ? a.max : 0};
  }
  case BP_IR_SELECT:
    return range_union(bp__index_range(context, x[1]), bp__index_range(context, x[2]));
  case BP_IR_CAST:
    return range_cast(bp__index_range(context, x[0]), x[0]->dtype, node->dtype);
  default:
    return dtype_range(node->dtype);
  }
}

static BpRange range_of_atom(BpIndexContext *context, const BpIrNode *node) {
  const BpRange *known = recall(context, BP__INDEX_RANGE, node);
  if (known)
    return *known;
  BpRange range = find_range(context, node);
  return remember(context, BP__INDEX_RANGE, node, &range, sizeof range) ? everything : range;
}

/* Whether an atom is a quotient that is rounded down. */
static bool is_floored(BpIndexContext *context, const BpIrNode *atom) {
  return atom->kind == BP_IR_FLOORDIV ||
         (atom->kind == BP_IR_DIV && bp__index_range(context, atom->operands[0]).min >= 0);
}

/* Sets *range to the range of a / c - b / c where a - b is constant; false for other atoms. Each
 * quotient alone has a large range. */
static bool quotients_range(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                            BpRange *range) {
  int64_t apart, divisor = 1;
  bool is_number;
  if (a->kind != b->kind || !is_floored(context, a) ||
      !bp__ir_equal(a->operands[1], b->operands[1]) || !is_floored(context, b) ||
      !bp__index_difference(context, a->operands[0], b->operands[0], &apart))
    return false;
  is_number = bp__ir_const_int(a->operands[1], &divisor);
  if (is_number ? divisor < 1 : bp__index_range(context, a->operands[1]).min < 0)
    return false;
  if (is_number)
    *range =
        (BpRange){floor_div(apart, divisor), floor_div(apart, divisor) + (apart % divisor != 0)};
  else
    *range = (BpRange){apart < 0 ? apart : 0, apart > 0 ? apart : 0};
  return true;
}

/* Takes two terms with quotients that vary together from a linear form, as far as their multiples
 * cancel, and sets *range to the range of the removed terms; false if the form has no such
 * terms. */
static bool take_quotients(BpIndexContext *context, Linear *linear, BpRange *range) {
  for (int32_t i = 0; i < linear->count; i++)
    for (int32_t k = 0; k < linear->count; k++) {
      Term *more = &linear->terms[i], *less = &linear->terms[k];
      if (more->multiple <= 0 || less->multiple >= 0 ||
          !quotients_range(context, more->atom, less->atom, range))
        continue;
      int64_t common = less->multiple < -more->multiple ? more->multiple : -less->multiple;
      *range = range_multiply(*range, common);
      more->multiple -= common;
      less->multiple += common;
      return true;
    }
  return false;
}

static BpRange linear_range(BpIndexContext *context, const Linear *linear) {
  Linear left = *linear;
  BpRange range = {linear->constant, linear->constant}, together;
  if (linear->failed)
    return everything;
  while (take_quotients(context, &left, &together))
    range = range_add(range, together);
  for (int32_t i = 0; i < left.count; i++)
    range = range_add(
        range, range_multiply(range_of_atom(context, left.terms[i].atom), left.terms[i].multiple));
  return (BpRange){saturate(range.min), saturate(range.max)};
}

/* Whether all numbers of a range are at least 0 and less than `end`. */
static bool is_inside(BpRange range, int64_t end) {
  return range.min >= 0 && range.max < end && range.max < BP__RANGE_MAX;
}

static bool is_int64(const BpIrNode *node) {
  return node->dtype.code == BP_DTYPE_INT && node->dtype.bits == 64 && node->dtype.lanes == 1;
}

BpRange bp__index_range(BpIndexContext *context, const BpIrNode *node) {
  if (!is_int64(node))
    return node->dtype.lanes == 1 && node->kind == BP_IR_INT_IMM
               ? (BpRange){saturate(node->int_value), saturate(node->int_value)}
               : range_of_atom(context, node);
  Linear linear;
  linear_of(context, node, &linear);
  return linear_range(context, &linear);
}

/* ---- Linear forms ------------------------------------------------------------------------ */

static void add_constant(Linear *linear, int64_t value) {
  linear->failed |= __builtin_add_overflow(linear->constant, value, &linear->constant);
}

static void add_term(Linear *linear, const BpIrNode *atom, int64_t multiple) {
  if (multiple == 0)
    return;
  for (int32_t i = 0; i < linear->count; i++) {
    Term *term = &linear->terms[i];
    if (!bp__ir_equal(term->atom, atom))
      continue;
    linear->failed |= __builtin_add_overflow(term->multiple, multiple, &term->multiple);
    if (term->multiple == 0)
      *term = linear->terms[--linear->count];
    return;
  }
  if (linear->count == MAX_TERMS)
    linear->failed = true;
  else
    linear->terms[linear->count++] = (Term){atom, multiple};
}

static void add_scaled(Linear *linear, const Linear *other, int64_t factor) {
  int64_t scaled;
  linear->failed |= other->failed | __builtin_mul_overflow(other->constant, factor, &scaled);
  if (linear->failed)
    return;
  add_constant(linear, scaled);
  for (int32_t i = 0; i < other->count && !linear->failed; i++) {
    if (__builtin_mul_overflow(other->terms[i].multiple, factor, &scaled))
      linear->failed = true;
    else
      add_term(linear, other->terms[i].atom, scaled);
  }
}

int64_t bp__greatest_divisor(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y) {
    uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x > INT64_MAX ? 1 : (int64_t)x; /* 2^63 */
}

/* Splits linear = g * high + low for a division by `divisor`, where g divides `divisor` and every
 * multiple of at least `threshold`. Returns g. */
static int64_t take_apart(const Linear *linear, int64_t divisor, uint64_t threshold, Linear *high,
                          Linear *low) {
  int64_t g = divisor;
  for (int32_t i = 0; i < linear->count; i++)
    if (magnitude(linear->terms[i].multiple) >= threshold)
      g = bp__greatest_divisor(g, linear->terms[i].multiple);
  *high = (Linear){.constant = floor_div(linear->constant, g)};
  *low = (Linear){.constant = floor_mod(linear->constant, g)};
  for (int32_t i = 0; i < linear->count; i++) {
    Term term = linear->terms[i];
    if (term.multiple % g == 0)
      add_term(high, term.atom, term.multiple / g);
    else
      add_term(low, term.atom, term.multiple);
  }
  return g;
}

/* Splits linear = g * high + low with 0 <= low < g, where g divides `divisor` and is as large as
 * the ranges prove. Then floor(linear / divisor) = floor(high / (divisor / g)). */
static int64_t find_granule(BpIndexContext *context, const Linear *linear, int64_t divisor,
                            Linear *high, Linear *low) {
  uint64_t threshold = UINT64_MAX;
  for (;;) {
    int64_t g = take_apart(linear, divisor, threshold, high, low);
    BpRange range = linear_range(context, low);
    if (is_inside(range, g))
      return g;
    uint64_t next = 0;
    for (int32_t i = 0; i < linear->count; i++) {
      uint64_t size = magnitude(linear->terms[i].multiple);
      if (size < threshold && size > next)
        next = size;
    }
    if (next == 0)
      break;
    threshold = next;
  }
  *high = *linear;
  *low = (Linear){0};
  return 1;
}

/* Divides a constant or a multiple: *rest is not negative, or has the sign of the number, which is
 * for a number whose rest would exceed int64 in a sum or product. Returns the quotient. */
static int64_t split_number(int64_t number, int64_t divisor, bool is_floored, int64_t *rest) {
  *rest = is_floored ? floor_mod(number, divisor) : number % divisor;
  return is_floored ? floor_div(number, divisor) : number / divisor;
}

/* Splits linear = left * quotients + inner, with terms and a constant of `inner` that are less than
 * `left`. */
static void split_numbers(BpIndexContext *context, const Linear *linear, int64_t left,
                          Linear *quotients, Linear *inner) {
  int64_t rest;
  for (int32_t i = 0; i < linear->count; i++) {
    Term term = linear->terms[i];
    BpRange range =
        range_multiply(range_of_atom(context, term.atom), floor_mod(term.multiple, left));
    add_term(quotients, term.atom, split_number(term.multiple, left, is_bounded(range), &rest));
    add_term(inner, term.atom, rest);
  }
  bool is_floored = inner->count == 0 || left < BP__RANGE_MAX;
  add_constant(quotients, split_number(linear->constant, left, is_floored, &inner->constant));
}

/* floor(linear / divisor) as a linear form, with multiples of `divisor` divided out. */
static void divide(BpIndexContext *context, const Linear *linear, int64_t divisor, Linear *out) {
  Linear high, low, inner = {0};
  int64_t g = find_granule(context, linear, divisor, &high, &low);
  int64_t left = divisor / g;
  split_numbers(context, &high, left, out, &inner);
  if (inner.count == 0)
    return;
  BpRange range = linear_range(context, &inner);
  if (is_bounded(range) && floor_div(range.min, left) == floor_div(range.max, left)) {
    add_constant(out, floor_div(range.min, left));
    return;
  }
  const BpIrNode *atom =
      bp__ir_node2(context->module, range.min >= 0 ? BP_IR_DIV : BP_IR_FLOORDIV, bp__dtype_int64(),
                   linear_node(context, &inner), bp__ir_int64(context->module, left));
  if (atom)
    add_term(out, atom, 1);
  else
    out->failed = true;
}

/* linear mod divisor as a linear form: g * (high mod (divisor / g)) + low. */
static void remainder_of(BpIndexContext *context, const Linear *linear, int64_t divisor,
                         Linear *out) {
  Linear high, low, quotients = {0}, inner = {0};
  int64_t g = find_granule(context, linear, divisor, &high, &low);
  int64_t left = divisor / g;
  add_scaled(out, &low, 1);
  split_numbers(context, &high, left, &quotients, &inner);
  if (left == 1)
    return;
  BpRange range = linear_range(context, &inner);
  if (is_inside(range, left)) {
    add_scaled(out, &inner, g);
    return;
  }
  const BpIrNode *atom =
      bp__ir_node2(context->module, range.min >= 0 ? BP_IR_MOD : BP_IR_FLOORMOD, bp__dtype_int64(),
                   linear_node(context, &inner), bp__ir_int64(context->module, left));
  if (atom)
    add_term(out, atom, g);
  else
    out->failed = true;
}

/* The greatest number that divides all coefficients and the constants of two linear forms; 1 if
 * both are 0. */
static int64_t common_divisor(const Linear *a, const Linear *b) {
  int64_t divisor = bp__greatest_divisor(a->constant, b->constant);
  for (int32_t i = 0; i < a->count; i++)
    divisor = bp__greatest_divisor(divisor, a->terms[i].multiple);
  for (int32_t i = 0; i < b->count; i++)
    divisor = bp__greatest_divisor(divisor, b->terms[i].multiple);
  return divisor > 0 ? divisor : 1;
}

static void divide_all(Linear *linear, int64_t divisor) {
  linear->constant /= divisor;
  for (int32_t i = 0; i < linear->count; i++)
    linear->terms[i].multiple /= divisor;
}

/* The linear form of a MIN or MAX: the operand that always wins, or a multiple of an atom. */
static void choose(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  Linear a, b, difference;
  linear_of(context, node->operands[0], &a);
  linear_of(context, node->operands[1], &b);
  difference = a;
  add_scaled(&difference, &b, -1);
  BpRange range = linear_range(context, &difference);
  bool is_min = node->kind == BP_IR_MIN;
  if (a.failed || b.failed) {
    *out = (Linear){.failed = true};
  } else if (!difference.failed && range.max <= 0) {
    *out = is_min ? a : b;
  } else if (!difference.failed && range.min >= 0) {
    *out = is_min ? b : a;
  } else {
    int64_t divisor = common_divisor(&a, &b);
    divide_all(&a, divisor);
    divide_all(&b, divisor);
    const BpIrNode *atom = bp_ir_binary(context->module, node->kind, linear_node(context, &a),
                                        linear_node(context, &b));
    *out = (Linear){.failed = !atom};
    if (atom)
      add_term(out, atom, divisor);
  }
}

/* x / (c * n) or x % (c * n), where c is a number and n a product of open extents: with x = g *
 * high + low, where g divides c and 0 <= low < g, the quotient is high / (c / g * n), and the
 * remainder g * (high % (c / g * n)) + low. */
static bool linear_of_open_quotient(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  bool is_quotient = bp__ir_kind_is_quotient(node->kind);
  Linear a, high, low, left = {0};
  Divisor divisor;
  linear_of(context, node->operands[0], &a);
  if (a.failed || linear_range(context, &a).min < 0 ||
      !divisor_of(context, node->operands[1], &divisor) || !divisor.product)
    return false;
  int64_t g = find_granule(context, &a, divisor.number, &high, &low);
  add_term(&left, divisor.product, divisor.number / g);
  const BpIrNode *atom =
      bp__ir_node2(context->module, is_quotient ? BP_IR_DIV : BP_IR_MOD, bp__dtype_int64(),
                   linear_node(context, &high), linear_node(context, &left));
  if (!atom)
    return false;
  add_term(out, atom, is_quotient ? 1 : g);
  if (!is_quotient)
    add_scaled(out, &low, 1);
  return true;
}

static bool linear_of_quotient(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  int64_t divisor;
  if (!bp__ir_const_int(node->operands[1], &divisor))
    return linear_of_open_quotient(context, node, out);
  if (divisor <= 0)
    return false;
  Linear a;
  linear_of(context, node->operands[0], &a);
  bool truncates = node->kind == BP_IR_DIV || node->kind == BP_IR_MOD;
  if (a.failed || (truncates && linear_range(context, &a).min < 0))
    return false;
  if (bp__ir_kind_is_quotient(node->kind))
    divide(context, &a, divisor, out);
  else
    remainder_of(context, &a, divisor, out);
  return true;
}

/* The linear form of a product of two atoms: an atom with a coefficient. A sum is an atom here. */
static bool linear_of_atoms(BpIndexContext *context, const Linear *a, const Linear *b,
                            Linear *out) {
  bool is_single[] = {a->count == 1 && a->constant == 0, b->count == 1 && b->constant == 0};
  int64_t multiple, factors[] = {is_single[0] ? a->terms[0].multiple : 1,
                                 is_single[1] ? b->terms[0].multiple : 1};
  const BpIrNode *atoms[] = {is_single[0] ? a->terms[0].atom : linear_node(context, a),
                             is_single[1] ? b->terms[0].atom : linear_node(context, b)};
  if (__builtin_mul_overflow(factors[0], factors[1], &multiple))
    return false;
  const BpIrNode *atom = bp_ir_binary(context->module, BP_IR_MUL, atoms[0], atoms[1]);
  if (atom)
    add_term(out, atom, multiple);
  return atom != NULL;
}

static bool linear_of_product(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  Linear a, b;
  linear_of(context, node->operands[0], &a);
  linear_of(context, node->operands[1], &b);
  if (a.failed || b.failed)
    return false;
  if (a.count != 0 && b.count != 0)
    return linear_of_atoms(context, &a, &b, out);
  add_scaled(out, a.count ? &a : &b, a.count ? b.constant : a.constant);
  return true;
}

/* The linear form of a quotient, a remainder, a minimum or a maximum; false if it is an atom. */
static bool linear_of_choice(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  bool before = context->wraps, is_linear = true;
  context->wraps = true;
  if (node->kind == BP_IR_MIN || node->kind == BP_IR_MAX)
    choose(context, node, out);
  else
    is_linear = linear_of_quotient(context, node, out);
  context->wraps = before;
  return is_linear;
}

static void find_linear(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  *out = (Linear){0};
  Linear other;
  bool is_linear = false;
  if (!may_wrap(context, node))
    switch (node->kind) {
    case BP_IR_INT_IMM:
      out->constant = node->int_value;
      return;
    case BP_IR_ADD:
    case BP_IR_SUB:
      linear_of(context, node->operands[0], out);
      linear_of(context, node->operands[1], &other);
      add_scaled(out, &other, node->kind == BP_IR_ADD ? 1 : -1);
      return;
    case BP_IR_MUL:
      is_linear = linear_of_product(context, node, out);
      break;
    case BP_IR_DIV:
    case BP_IR_MOD:
    case BP_IR_FLOORDIV:
    case BP_IR_FLOORMOD:
    case BP_IR_MIN:
    case BP_IR_MAX:
      is_linear = linear_of_choice(context, node, out);
      break;
    default:
      break;
    }
  if (is_linear)
    return;
  *out = (Linear){0};
  add_term(out, node, 1);
}

static void linear_of(BpIndexContext *context, const BpIrNode *node, Linear *out) {
  const Linear *known = recall(context, BP__INDEX_FORM, node);
  if (known) {
    *out = *known;
    return;
  }
  find_linear(context, node, out);
  if (remember(context, BP__INDEX_FORM, node, out, sizeof *out))
    out->failed = true;
}

/* ---- Matching quotients and remainders --------------------------------------------------- */

/* The terms c * (x / c) and x % c of a linear form, both multiplied by `rest`, an expression of
 * open extents. */
typedef struct Halves {
  const BpIrNode *quotient;
  Factors rest;
  int32_t remainder; /* index of the term with the remainder */
} Halves;

/* Finds the term with x % c times `rest` that matches a term with x / c, where `number` is the
 * constant factor of c; false if the form has none. */
static bool find_remainder(const Linear *linear, const Term *high, int64_t number, Halves *halves) {
  const BpIrNode *quotient = halves->quotient;
  int32_t kind = quotient->kind == BP_IR_DIV ? BP_IR_MOD : BP_IR_FLOORMOD;
  for (int32_t i = 0; i < linear->count; i++) {
    Factors factors = factors_of(linear->terms[i].atom);
    int64_t multiple;
    for (int32_t k = 0; k < factors.count; k++) {
      const BpIrNode *remainder = factors.items[k];
      if (remainder->kind != kind || !bp__ir_equal(remainder->operands[0], quotient->operands[0]) ||
          !bp__ir_equal(remainder->operands[1], quotient->operands[1]) ||
          __builtin_mul_overflow(linear->terms[i].multiple, number, &multiple) ||
          multiple != high->multiple)
        continue;
      Factors wanted = halves->rest;
      if (wanted.count == MAX_FACTORS)
        continue;
      wanted.items[wanted.count++] = remainder;
      halves->remainder = i;
      if (is_product_of(linear->terms[i].atom, &wanted))
        return true;
    }
  }
  return false;
}

/* Finds a quotient in a term, times its divisor, whose remainder is in another term. */
static bool find_halves(BpIndexContext *context, const Linear *linear, const Term *high,
                        Halves *halves) {
  Factors factors = factors_of(high->atom);
  for (int32_t i = 0; i < factors.count; i++) {
    const BpIrNode *quotient = factors.items[i];
    if (!bp__ir_kind_is_quotient(quotient->kind))
      continue;
    *halves = (Halves){.quotient = quotient, .rest = factors};
    remove_factor(&halves->rest, quotient);
    Divisor divisor;
    if (divisor_of(context, quotient->operands[1], &divisor) &&
        remove_factors(&halves->rest, &divisor.factors) &&
        find_remainder(linear, high, divisor.number, halves))
      return true;
  }
  return false;
}

/* Adds multiple * rest * a linear form to a linear form. */
static void add_product(BpIndexContext *context, Linear *linear, const Factors *rest,
                        const Linear *form, int64_t multiple) {
  Linear product = {.failed = form->failed, .constant = rest->count ? 0 : form->constant};
  if (rest->count && form->constant)
    add_term(&product, product_of(context, rest, NULL), form->constant);
  for (int32_t i = 0; i < form->count; i++)
    add_term(&product, product_of(context, rest, form->terms[i].atom), form->terms[i].multiple);
  add_scaled(linear, &product, multiple);
}

/* Multiplies out one sum among the factors of a term if the result has a quotient whose remainder
 * is in the form: (x / c + 1) * c + x % c. */
static bool expand(BpIndexContext *context, Linear *linear, int32_t at) {
  Factors factors = factors_of(linear->terms[at].atom);
  for (int32_t i = 0; i < factors.count; i++) {
    Factors rest = factors;
    Linear wider = *linear, sum;
    Halves halves;
    if (!is_sum_or_product(factors.items[i]))
      continue;
    remove_factor(&rest, factors.items[i]);
    linear_of(context, factors.items[i], &sum);
    wider.terms[at] = wider.terms[--wider.count];
    add_product(context, &wider, &rest, &sum, linear->terms[at].multiple);
    for (int32_t k = 0; k < wider.count && !wider.failed; k++) {
      if (!find_halves(context, &wider, &wider.terms[k], &halves))
        continue;
      *linear = wider;
      return true;
    }
  }
  return false;
}

/* Replaces c * (x / c) + x % c by x, so that the index of a fused axis becomes one variable
 * again. */
static void recombine(BpIndexContext *context, Linear *linear) {
  for (int32_t i = 0; i < linear->count && !linear->failed; i++) {
    Term high = linear->terms[i];
    Halves halves;
    if (!find_halves(context, linear, &high, &halves)) {
      i = expand(context, linear, i) ? -1 : i;
      continue;
    }
    Linear whole;
    linear_of(context, halves.quotient->operands[0], &whole);
    Term low = linear->terms[halves.remainder];
    add_term(linear, low.atom, -low.multiple);
    add_term(linear, high.atom, -high.multiple);
    add_product(context, linear, &halves.rest, &whole, low.multiple);
    i = -1;
  }
}

/* ---- Back to nodes ----------------------------------------------------------------------- */

static void sort_terms(Linear *linear) {
  for (int32_t i = 1; i < linear->count; i++) {
    Term term = linear->terms[i];
    int32_t j = i;
    for (; j > 0 && magnitude(linear->terms[j - 1].multiple) < magnitude(term.multiple); j--)
      linear->terms[j] = linear->terms[j - 1];
    linear->terms[j] = term;
  }
}

/* Whether a number is negative and its opposite an int64. */
static bool has_opposite(int64_t number) {
  return number < 0 && number > INT64_MIN;
}

static const BpIrNode *linear_node(BpIndexContext *context, const Linear *linear) {
  BpIrModule *module = context->module;
  Linear sorted = *linear;
  const BpIrNode *sum = NULL;
  if (linear->failed)
    return NULL;
  sort_terms(&sorted);
  for (int32_t i = 0; i < sorted.count; i++) {
    int64_t multiple = sorted.terms[i].multiple;
    bool subtract = sum && has_opposite(multiple);
    const BpIrNode *term = bp_ir_binary(module, BP_IR_MUL, sorted.terms[i].atom,
                                        bp__ir_int64(module, subtract ? -multiple : multiple));
    sum = sum ? bp_ir_binary(module, subtract ? BP_IR_SUB : BP_IR_ADD, sum, term) : term;
  }
  if (!sum)
    return bp__ir_int64(module, sorted.constant);
  if (sorted.constant == 0)
    return sum;
  bool subtract = has_opposite(sorted.constant);
  return bp_ir_binary(module, subtract ? BP_IR_SUB : BP_IR_ADD, sum,
                      bp__ir_int64(module, subtract ? -sorted.constant : sorted.constant));
}

const BpIrNode *bp__index_simplify(BpIndexContext *context, const BpIrNode *node) {
  if (!node || !is_int64(node))
    return node;
  Linear linear;
  linear_of(context, node, &linear);
  recombine(context, &linear);
  return linear.failed ? node : linear_node(context, &linear);
}

bool bp__index_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                          int64_t *difference) {
  Linear left, right;
  linear_of(context, a, &left);
  linear_of(context, b, &right);
  add_scaled(&left, &right, -1);
  *difference = left.constant;
  return !left.failed && left.count == 0;
}

/* ---- Conditions -------------------------------------------------------------------------- */

/* The range of a linear form, narrowed by the assumptions: if a - f >= m and f >= 0, then a >= m;
 * correspondingly for the upper end. */
static BpRange assumed_range(BpIndexContext *context, const Linear *linear) {
  BpRange range = linear_range(context, linear);
  for (int32_t i = 0; i < context->num_assumed && !linear->failed; i++) {
    Linear known, less = *linear, more = *linear;
    linear_of(context, context->assumed[i], &known);
    add_scaled(&less, &known, -1);
    add_scaled(&more, &known, 1);
    BpRange least = linear_range(context, &less), most = linear_range(context, &more);
    range.min = least.min > range.min ? least.min : range.min;
    range.max = most.max < range.max ? most.max : range.max;
  }
  return range;
}

static int decide_comparison(BpIndexContext *context, const BpIrNode *node) {
  Linear difference, other;
  if (!is_int64(node->operands[0]))
    return -1;
  linear_of(context, node->operands[0], &difference);
  linear_of(context, node->operands[1], &other);
  add_scaled(&difference, &other, -1);
  BpRange d = assumed_range(context, &difference);
  switch (node->kind) {
  case BP_IR_LT:
    return d.max < 0 ? 1 : d.min >= 0 ? 0 : -1;
  case BP_IR_LE:
    return d.max <= 0 ? 1 : d.min > 0 ? 0 : -1;
  case BP_IR_GT:
    return d.min > 0 ? 1 : d.max <= 0 ? 0 : -1;
  case BP_IR_GE:
    return d.min >= 0 ? 1 : d.max < 0 ? 0 : -1;
  case BP_IR_EQ:
    return d.min == 0 && d.max == 0 ? 1 : d.min > 0 || d.max < 0 ? 0 : -1;
  default:
    return d.min == 0 && d.max == 0 ? 0 : d.min > 0 || d.max < 0 ? 1 : -1;
  }
}

static int decide(BpIndexContext *context, const BpIrNode *condition);

static int find_decision(BpIndexContext *context, const BpIrNode *condition) {
  int a, b;
  switch (condition->kind) {
  case BP_IR_INT_IMM:
    return condition->int_value != 0;
  case BP_IR_NOT:
    a = decide(context, condition->operands[0]);
    return a < 0 ? a : !a;
  case BP_IR_AND:
  case BP_IR_OR:
    a = decide(context, condition->operands[0]);
    b = decide(context, condition->operands[1]);
    if (condition->kind == BP_IR_AND)
      return a == 0 || b == 0 ? 0 : a == 1 && b == 1 ? 1 : -1;
    return a == 1 || b == 1 ? 1 : a == 0 && b == 0 ? 0 : -1;
  case BP_IR_EQ:
  case BP_IR_NE:
  case BP_IR_LT:
  case BP_IR_LE:
  case BP_IR_GT:
  case BP_IR_GE:
    return decide_comparison(context, condition);
  default:
    return -1;
  }
}

static int decide(BpIndexContext *context, const BpIrNode *condition) {
  const int *known = recall(context, BP__INDEX_DECISION, condition);
  if (known)
    return *known;
  int decision = find_decision(context, condition);
  return remember(context, BP__INDEX_DECISION, condition, &decision, sizeof decision) ? -1
                                                                                      : decision;
}

int bp__index_decide(BpIndexContext *context, const BpIrNode *condition) {
  bool before = context->wraps;
  context->wraps = true;
  int decision = decide(context, condition);
  context->wraps = before;
  return decision;
}

/* ---- Intervals --------------------------------------------------------------------------- */

static int visit_free(void *data, const BpIrNode *node) {
  const BpVarRange *known = node->kind == BP_IR_VAR ? var_range(data, node) : NULL;
  return known && known->is_free;
}

int bp__index_has_free(BpIndexContext *context, const BpIrNode *node) {
  return bp__ir_visit_once(node, visit_free, context);
}

static int visit_open(void *data, const BpIrNode *node) {
  const BpVarRange *known = node->kind == BP_IR_VAR ? var_range(data, node) : NULL;
  return known && known->is_open;
}

int bp__index_has_open(BpIndexContext *context, const BpIrNode *node) {
  return bp__ir_visit_once(node, visit_open, context);
}

/* The interval of floor(a / divisor) for a in an interval. */
static int quotient_interval(BpIndexContext *context, const BpIrNode *atom, int64_t divisor,
                             BpInterval *interval, bool *is_bounded) {
  if (bp__index_interval(context, atom->operands[0], interval, is_bounded) != 0)
    return -1;
  if (!*is_bounded)
    return 0;
  interval->extent = (interval->extent + divisor - 2) / divisor + 1;
  interval->min = bp__index_simplify(
      context, bp_ir_binary(context->module, BP_IR_FLOORDIV, interval->min, atom->operands[1]));
  return interval->min ? 0 : -1;
}

/* The interval of min(a, b) or max(a, b), which varies at most as much as the operand that varies
 * most. */
static int choice_interval(BpIndexContext *context, const BpIrNode *atom, BpInterval *interval,
                           bool *is_bounded) {
  BpInterval b;
  bool b_bounded;
  if (bp__index_interval(context, atom->operands[0], interval, is_bounded) != 0 ||
      bp__index_interval(context, atom->operands[1], &b, &b_bounded) != 0)
    return -1;
  *is_bounded = *is_bounded && b_bounded;
  if (!*is_bounded)
    return 0;
  interval->min =
      bp__index_simplify(context, bp_ir_binary(context->module, atom->kind, interval->min, b.min));
  if (b.extent > interval->extent)
    interval->extent = b.extent;
  return interval->min ? 0 : -1;
}

static int atom_interval(BpIndexContext *context, const BpIrNode *atom, BpInterval *interval,
                         bool *is_bounded) {
  int found = bp__index_has_free(context, atom);
  int64_t divisor = 0;
  *interval = bp__interval(atom, 1);
  *is_bounded = true;
  if (found <= 0)
    return found;
  int is_open = bp__index_has_open(context, atom);
  if (is_open != 0) {
    *is_bounded = false;
    return is_open < 0 ? -1 : 0;
  }
  if (is_floored(context, atom) && bp__ir_const_int(atom->operands[1], &divisor) && divisor > 0) {
    if (quotient_interval(context, atom, divisor, interval, is_bounded) != 0)
      return -1;
    if (*is_bounded)
      return 0;
  }
  if (atom->kind == BP_IR_MIN || atom->kind == BP_IR_MAX) {
    if (choice_interval(context, atom, interval, is_bounded) != 0)
      return -1;
    if (*is_bounded)
      return 0;
  }
  BpRange range = range_of_atom(context, atom);
  *is_bounded = range.min != BP__RANGE_MIN && range.max != BP__RANGE_MAX;
  if (!*is_bounded)
    return 0;
  *interval = bp__interval(bp__ir_int64(context->module, range.min), range.max - range.min + 1);
  return interval->min ? 0 : -1;
}

static int find_interval(BpIndexContext *context, const BpIrNode *node, BpInterval *interval,
                         bool *is_bounded) {
  Linear linear, min;
  linear_of(context, node, &linear);
  min = (Linear){.constant = linear.constant, .failed = linear.failed};
  __int128 last = 0;
  *is_bounded = !linear.failed;
  for (int32_t i = 0; i < linear.count && *is_bounded; i++) {
    Term term = linear.terms[i];
    BpInterval part;
    if (atom_interval(context, term.atom, &part, is_bounded) != 0)
      return -1;
    if (!*is_bounded)
      break;
    Linear start;
    linear_of(context, part.min, &start);
    if (term.multiple < 0)
      add_constant(&start, part.extent - 1);
    add_scaled(&min, &start, term.multiple);
    last += (__int128)(part.extent - 1) * magnitude(term.multiple);
  }
  if (!*is_bounded || min.failed || last >= BP__RANGE_MAX) {
    *is_bounded = false;
    return 0;
  }
  *interval = bp__interval(linear_node(context, &min), (int64_t)last + 1);
  return interval->min ? 0 : -1;
}

typedef struct KnownInterval {
  BpInterval interval;
  bool is_bounded;
} KnownInterval;

int bp__index_interval(BpIndexContext *context, const BpIrNode *node, BpInterval *interval,
                       bool *is_bounded) {
  KnownInterval found = {0};
  const KnownInterval *known = recall(context, BP__INDEX_INTERVAL, node);
  if (!known) {
    if (find_interval(context, node, &found.interval, &found.is_bounded) != 0 ||
        remember(context, BP__INDEX_INTERVAL, node, &found, sizeof found))
      return -1;
    known = &found;
  }
  *is_bounded = known->is_bounded;
  if (known->is_bounded)
    *interval = known->interval;
  return 0;
}

bool bp__index_split(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                     int64_t *multiple, const BpIrNode **rest) {
  Linear linear;
  linear_of(context, node, &linear);
  recombine(context, &linear);
  *multiple = 0;
  for (int32_t i = 0; i < linear.count; i++) {
    if (linear.terms[i].atom == var) {
      *multiple = linear.terms[i].multiple;
      linear.terms[i] = linear.terms[--linear.count];
      i--;
    } else if (bp__ir_uses(linear.terms[i].atom, var) != 0) {
      return false;
    }
  }
  *rest = linear.failed ? NULL : linear_node(context, &linear);
  return *rest != NULL;
}

bool bp__index_split_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                                const BpIrNode *var, int64_t *multiple, const BpIrNode **rest) {
  const BpIrNode *difference = bp_ir_binary(context->module, BP_IR_SUB, a, b);
  bool before = context->wraps;
  context->wraps = true;
  bool is_split = difference && bp__index_split(context, difference, var, multiple, rest);
  context->wraps = before;
  return is_split;
}

/* ---- Signs ------------------------------------------------------------------------------- */

/* The index of the term with a quotient, rounded down, that depends on the variable, or -1; -2 with
 * an error. */
static int32_t find_quotient(BpIndexContext *context, const Linear *linear, const BpIrNode *var) {
  for (int32_t i = 0; i < linear->count; i++) {
    const BpIrNode *atom = linear->terms[i].atom;
    int64_t divisor;
    if (!is_floored(context, atom) || !bp__ir_const_int(atom->operands[1], &divisor) || divisor < 1)
      continue;
    int uses = bp__ir_uses(atom, var);
    if (uses != 0)
      return uses < 0 ? -2 : i;
  }
  return -1;
}

/* For linear = m * floor(e / c) + rest, where m divides the coefficients of `rest`: replaces the
 * form by a linear form in e that has the same sign. Returns false if m does not divide the
 * coefficients. */
static bool open_quotient(BpIndexContext *context, Linear *linear, int32_t at) {
  Term term = linear->terms[at];
  if (term.multiple == INT64_MIN)
    return false;
  int64_t divisor = term.atom->operands[1]->int_value, size = llabs(term.multiple);
  Linear rest = {.constant = floor_div(linear->constant, size), .failed = linear->failed}, inner;
  for (int32_t i = 0; i < linear->count; i++) {
    if (i == at)
      continue;
    if (linear->terms[i].multiple % size != 0)
      return false;
    add_term(&rest, linear->terms[i].atom, linear->terms[i].multiple / size);
  }
  linear_of(context, term.atom->operands[0], &inner);
  *linear = (Linear){.constant = term.multiple < 0 ? divisor - 1 : 0};
  add_scaled(linear, &rest, divisor);
  add_scaled(linear, &inner, term.multiple < 0 ? -1 : 1);
  return true;
}

int bp__index_apart(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                    const BpIrNode **moving, const BpIrNode **rest) {
  Linear linear, with = {0}, without = {0};
  linear_of(context, node, &linear);
  recombine(context, &linear);
  with.failed = without.failed = linear.failed;
  without.constant = linear.constant;
  for (int32_t i = 0; i < linear.count; i++) {
    int uses = bp__ir_uses(linear.terms[i].atom, var);
    if (uses < 0)
      return -1;
    add_term(uses ? &with : &without, linear.terms[i].atom, linear.terms[i].multiple);
  }
  *moving = linear.failed ? node : linear_node(context, &with);
  *rest = linear.failed ? bp__ir_int64(context->module, 0) : linear_node(context, &without);
  return *moving && *rest ? 0 : -1;
}

const BpIrNode *bp__index_sign_form(BpIndexContext *context, const BpIrNode *node,
                                    const BpIrNode *var) {
  Linear linear;
  int32_t at;
  linear_of(context, node, &linear);
  recombine(context, &linear);
  while ((at = find_quotient(context, &linear, var)) >= 0)
    if (!open_quotient(context, &linear, at))
      return node;
  return at == -2 ? NULL : linear.failed ? node : linear_node(context, &linear);
}
