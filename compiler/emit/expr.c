/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions. Integer arithmetic on values uses unsigned types, in which it wraps; arithmetic on
 * indices uses signed types, so that the language's compiler may assume that it does not
 * overflow. */
#include "compiler/emit/emit.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include <backplane/compiler/ir.h>

/* The length above which an expression becomes a variable, so that texts grow linearly and
 * parentheses are not nested too deep for any compiler. */
#define LONGEST_TEXT 240
#define DEEPEST      4000

/* ---- Statements and shared subexpressions ------------------------------------------------ */

static int is_leaf(int32_t kind) {
  return kind == BP_IR_INT_IMM || kind == BP_IR_FLOAT_IMM || kind == BP_IR_STR_IMM ||
         kind == BP_IR_VAR || kind == BP_IR_BUFFER;
}

static void count_uses(BpEmitter *e, const BpIrNode *node, int32_t depth) {
  if (!node || is_leaf(e->ir->kind(node)))
    return;
  if (depth > DEEPEST) {
    bp__fail(e, BP_ERROR_VALUE, "an expression is nested deeper than %d", DEEPEST);
    return;
  }
  uintptr_t count = (uintptr_t)bp_pointer_map_get(&e->uses, node);
  if (bp_pointer_map_set(&e->uses, node, (void *)(count + 1)) != 0)
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
  if (count > 0)
    return;
  for (int32_t i = 0; i < e->ir->num_operands(node); i++)
    count_uses(e, e->ir->operand(node, i), depth + 1);
}

void bp__begin_statement(BpEmitter *e, const BpIrNode *const *roots, int32_t num_roots) {
  bp_pointer_map_clear(&e->uses);
  bp_pointer_map_clear(&e->temps);
  for (int32_t i = 0; i < num_roots; i++)
    count_uses(e, roots[i], 0);
}

BpExpr bp__atom(BpEmitter *e, BpExpr expr, BpDataType dtype) {
  if (expr.is_atom)
    return expr;
  const char *type = bp__value_type(e, dtype, expr.bits);
  const char *name = bp__unique_name(e, "t");
  bp__line(e, "const %s %s = %s;", type, name, bp__bare(e, expr.text));
  return (BpExpr){name, expr.bits, 1};
}

/* ---- Literals ---------------------------------------------------------------------------- */

BpExpr bp__int_literal(BpEmitter *e, BpDataType dtype, int64_t value) {
  const BpDialectType *row = bp__type_row(e, bp__scalar(dtype));
  if (!row)
    return bp__text("");
  if (!row->suffix)
    return (BpExpr){
        bp__apply(e, e->dialect->cast, row->name, bp__format(e, "%lld", (long long)value)), 0, 1};
  if (dtype.code == BP_DTYPE_UINT)
    return (BpExpr){bp__format(e, "%llu%s", (unsigned long long)value, row->suffix), 0, 1};
  if (value == INT64_MIN || (dtype.bits == 32 && value == INT32_MIN))
    return (BpExpr){bp__format(e, "(%lld%s - 1)", (long long)(value + 1), row->suffix), 0, 1};
  return (BpExpr){value < 0 ? bp__format(e, "(%lld%s)", (long long)value, row->suffix)
                            : bp__format(e, "%lld%s", (long long)value, row->suffix),
                  0, 1};
}

static BpExpr float_literal(BpEmitter *e, BpDataType dtype, double value) {
  BpDataType compute = bp__compute_dtype(e, bp__scalar(dtype));
  const BpDialectType *row = bp__type_row(e, compute);
  if (!row)
    return bp__text("");
  BpExpr result = {NULL, 0, 1};
  if (isnan(value)) {
    result.text = row->not_number;
  } else if (isinf(value)) {
    result.text = value < 0 ? bp__format(e, "(-%s)", row->infinity) : row->infinity;
  } else {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, compute.bits > 32 ? "%.17g" : "%.9g", value);
    const char *point = strpbrk(number, ".e") ? "" : ".0";
    result.text = signbit(value) ? bp__format(e, "(%s%s%s)", number, point, row->suffix)
                                 : bp__format(e, "%s%s%s", number, point, row->suffix);
  }
  return bp__same_dtype(compute, bp__scalar(dtype))
             ? result
             : bp__cast(e, bp__scalar(dtype), compute, result);
}

/* ---- Types that can only be stored ------------------------------------------------------- */

static BpExpr convert_storage(BpEmitter *e, BpDataType dtype, BpExpr value, int to_compute) {
  const BpDialectType *row = bp__type_row(e, bp__scalar(dtype));
  if (!row)
    return value;
  const char *text = to_compute ? row->widen : row->narrow;
  BpDataType from = to_compute ? dtype : bp__compute_dtype(e, dtype);
  if (dtype.lanes == 1) {
    if (bp__template_uses(text, 1) > 1)
      value = bp__atom(e, value, from);
    return bp__text(bp__apply(e, text, value.text));
  }
  BpDataType to = to_compute ? bp__compute_dtype(e, dtype) : dtype;
  if (bp__has_halves(e, dtype))
    return bp__convert_vector(e, to, from, value);
  if (e->dialect->vector_widen && e->dialect->vector_narrow)
    return bp__text(bp__apply(e, to_compute ? e->dialect->vector_widen : e->dialect->vector_narrow,
                              bp__type(e, to), value.text, bp__type(e, from),
                              bp__format(e, "%d", dtype.lanes),
                              bp__short_name(e, bp__scalar(dtype))));
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * dtype.lanes);
  if (!lanes)
    return bp__text("");
  value = bp__atom(e, value, from);
  for (int32_t i = 0; i < dtype.lanes; i++)
    lanes[i] = bp__text(bp__apply(e, text, bp__lane(e, value, from, i).text));
  return bp__make_vector(e, to, lanes);
}

/* ---- Arithmetic -------------------------------------------------------------------------- */

static BpExpr lane_by_lane(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b) {
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * dtype.lanes);
  if (!lanes)
    return bp__text("");
  a = bp__atom(e, a, dtype);
  b = bp__atom(e, b, dtype);
  for (int32_t i = 0; i < dtype.lanes; i++)
    lanes[i] = bp__binary(e, kind, bp__scalar(dtype), bp__lane(e, a, dtype, i),
                          bp__lane(e, b, dtype, i), NULL);
  return bp__make_vector(e, dtype, lanes);
}

static const char *operator_text(int32_t kind) {
  switch (kind) {
  case BP_IR_ADD:
    return "+";
  case BP_IR_SUB:
    return "-";
  case BP_IR_MUL:
    return "*";
  case BP_IR_DIV:
    return "/";
  case BP_IR_MOD:
    return "%";
  case BP_IR_EQ:
    return "==";
  case BP_IR_NE:
    return "!=";
  case BP_IR_LT:
    return "<";
  case BP_IR_LE:
    return "<=";
  case BP_IR_GT:
    return ">";
  case BP_IR_GE:
    return ">=";
  case BP_IR_AND:
    return "&&";
  case BP_IR_OR:
    return "||";
  case BP_IR_BIT_AND:
    return "&";
  case BP_IR_BIT_OR:
    return "|";
  case BP_IR_BIT_XOR:
    return "^";
  case BP_IR_SHL:
    return "<<";
  case BP_IR_SHR:
    return ">>";
  default:
    return "?";
  }
}

static BpExpr infix(BpEmitter *e, const char *operator, BpExpr a, BpExpr b) {
  return bp__text(bp__format(e, "(%s %s %s)", a.text, operator, b.text));
}

static BpExpr bits_as(BpEmitter *e, BpDataType to, BpExpr value) {
  return bp__text(bp__apply(e, e->dialect->vector_bits, bp__type(e, to), value.text));
}

static BpExpr cast_text(BpEmitter *e, BpDataType to, BpExpr value) {
  return bp__text(bp__apply(e, e->dialect->cast, bp__type(e, to), value.text));
}

/* The text of a OP b for integers, which wraps; only int64 indices are known not to overflow. */
static BpExpr wrapping(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b) {
  const char *text = operator_text(kind);
  int wraps = (e->dialect->flags & BP_DIALECT_WRAPS) != 0;
  int is_index = e->index_depth > 0 && dtype.code == BP_DTYPE_INT && dtype.bits == 64;
  if (is_index || wraps || (dtype.code == BP_DTYPE_UINT && (dtype.bits >= 32 || dtype.lanes > 1)))
    return infix(e, text, a, b);
  if (dtype.lanes > 1) {
    BpDataType wide = bp__dtype(BP_DTYPE_UINT, dtype.bits, dtype.lanes);
    return bits_as(e, dtype, infix(e, text, bits_as(e, wide, a), bits_as(e, wide, b)));
  }
  BpDataType wide = bp__dtype(BP_DTYPE_UINT, dtype.bits > 32 ? 64 : 32, 1);
  return cast_text(e, dtype, infix(e, text, cast_text(e, wide, a), cast_text(e, wide, b)));
}

/* Whether a node is an integer constant, possibly broadcast; *value is its value. */
static int constant_of(BpEmitter *e, const BpIrNode *node, int64_t *value) {
  while (node && e->ir->kind(node) == BP_IR_BROADCAST)
    node = e->ir->operand(node, 0);
  if (!node || e->ir->kind(node) != BP_IR_INT_IMM)
    return 0;
  *value = e->ir->int_value(node);
  return 1;
}

static int is_number_constant(BpEmitter *e, const BpIrNode *node) {
  while (node && e->ir->kind(node) == BP_IR_BROADCAST)
    node = e->ir->operand(node, 0);
  return node && e->ir->kind(node) == BP_IR_FLOAT_IMM && !isnan(e->ir->float_value(node));
}

static int shift_of(int64_t value) {
  for (int i = 0; i < 63; i++) {
    if (value == (int64_t)1 << i)
      return i;
  }
  return -1;
}

/* Integer division or remainder. b is known not to be 0; if b may be -1, the quotient of the lowest
 * integer wraps. */
static BpExpr divide(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                     const BpIrNode *b_node) {
  int64_t value = 0;
  int is_constant = constant_of(e, b_node, &value) && value != -1 && value != 0;
  if (dtype.lanes > 1 && !is_constant)
    return lane_by_lane(e, kind, dtype, a, b);
  const char *text = operator_text(kind);
  int is_exact = is_constant || dtype.code == BP_DTYPE_UINT;
  const char *remainder = dtype.code == BP_DTYPE_INT ? e->dialect->remainder : NULL;
  if (is_exact && (kind == BP_IR_DIV || !remainder))
    return infix(e, text, a, b);
  a = bp__atom(e, a, dtype);
  b = bp__atom(e, b, dtype);
  if (is_exact)
    return bp__text(bp__apply(e, remainder, a.text, b.text));
  BpExpr zero = bp__int_literal(e, dtype, 0);
  BpExpr negated = kind == BP_IR_DIV ? wrapping(e, BP_IR_SUB, dtype, zero, a) : zero;
  BpExpr result = kind == BP_IR_MOD && remainder ? bp__text(bp__apply(e, remainder, a.text, b.text))
                                                 : infix(e, text, a, b);
  return bp__text(
      bp__format(e, "(%s == -1 ? %s : %s)", b.text, negated.text, bp__bare(e, result.text)));
}

static BpExpr floor_divide(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                           const BpIrNode *b_node) {
  int is_div = kind == BP_IR_FLOORDIV;
  if (dtype.code == BP_DTYPE_UINT)
    return divide(e, is_div ? BP_IR_DIV : BP_IR_MOD, dtype, a, b, b_node);
  int64_t value = 0;
  int is_positive = constant_of(e, b_node, &value) && value > 0;
  if (dtype.lanes > 1 && !is_positive)
    return lane_by_lane(e, kind, dtype, a, b);
  if (is_positive && shift_of(value) >= 0) {
    int64_t operand = is_div ? shift_of(value) : value - 1;
    return infix(e, is_div ? ">>" : "&", a, bp__constant(e, dtype, operand));
  }
  a = bp__atom(e, a, dtype);
  b = bp__atom(e, b, dtype);
  BpExpr mod = bp__atom(e, divide(e, BP_IR_MOD, dtype, a, b, b_node), dtype);
  if (dtype.lanes > 1) { /* the mask is -1 in lanes whose remainder is negative */
    const char *mask = bp__format(e, "(%s < %s)", mod.text, bp__constant(e, dtype, 0).text);
    return is_div ? bp__text(bp__format(e, "(%s / %s + %s)", a.text, b.text, mask))
                  : bp__text(bp__format(e, "(%s + (%s & %s))", mod.text, mask, b.text));
  }
  const char *wrong =
      is_positive ? bp__format(e, "%s < 0", mod.text)
                  : bp__format(e, "%s != 0 && (%s < 0) != (%s < 0)", mod.text, mod.text, b.text);
  if (!is_div)
    return bp__text(bp__format(e, "(%s ? %s + %s : %s)", wrong, mod.text, b.text, mod.text));
  BpExpr quotient = divide(e, BP_IR_DIV, dtype, a, b, b_node);
  return bp__text(bp__format(e, "(%s - (%s ? %s : %s))", quotient.text, wrong,
                             bp__int_literal(e, dtype, 1).text, bp__int_literal(e, dtype, 0).text));
}

/* Chooses for each lane the lesser (kind LT) or greater (GT) of `a` and `b`; if the comparison is
 * false, as with NaN, the lane of `b`. x86 has an instruction for this choice. A dialect may have
 * the intrinsics "lesser" and "greater", whose text gets the type as $3. */
static BpExpr lanes_of_either(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b) {
  const char *row = bp__is_float(dtype)
                        ? bp__vector_intrinsic(e, kind == BP_IR_LT ? "lesser" : "greater", dtype)
                        : NULL;
  if (row)
    return bp__text(bp__apply(e, row, a.text, b.text, bp__type(e, dtype)));
  BpExpr condition = {bp__format(e, "(%s %s %s)", a.text, operator_text(kind), b.text), dtype.bits,
                      0};
  return bp__select_vector(e, dtype, condition, a, b);
}

/* min or max. For floats the result is NaN if either operand is NaN. If one operand is known not to
 * be NaN, it is compared first, which keeps a NaN of the other operand at no cost. */
static BpExpr extremum(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                       const BpIrNode *b_node) {
  const char *less = kind == BP_IR_MIN ? "<" : ">";
  a = bp__atom(e, a, dtype);
  b = bp__atom(e, b, dtype);
  int keep_nan = bp__is_float(dtype) && !is_number_constant(e, b_node);
  const char *first = keep_nan ? a.text : b.text;
  const char *second = keep_nan ? b.text : a.text;
  if (dtype.lanes > 1) {
    BpExpr value = lanes_of_either(e, kind == BP_IR_MIN ? BP_IR_LT : BP_IR_GT, dtype,
                                   bp__text(first), bp__text(second));
    if (!keep_nan)
      return value;
    BpExpr is_nan = {bp__format(e, "(%s != %s)", first, first), dtype.bits, 0};
    return bp__select_vector(e, dtype, is_nan, bp__text(first), bp__atom(e, value, dtype));
  }
  if (keep_nan)
    return bp__text(bp__format(e, "(%s %s %s || %s != %s ? %s : %s)", first, less, second, first,
                               first, first, second));
  return bp__text(bp__format(e, "(%s %s %s ? %s : %s)", first, less, second, first, second));
}

static int is_comparison(int32_t kind) {
  return kind >= BP_IR_EQ && kind <= BP_IR_GE;
}

/* Converts two masks to the lane width of the wider mask. */
static void match_masks(BpEmitter *e, int32_t lanes, BpExpr *a, BpExpr *b) {
  int32_t bits = a->bits > b->bits ? a->bits : b->bits;
  *a = bp__mask_to(e, *a, lanes, bits);
  *b = bp__mask_to(e, *b, lanes, bits);
}

static BpExpr logic_of_masks(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b) {
  match_masks(e, dtype.lanes, &a, &b);
  const char *text = kind == BP_IR_AND ? "&" : kind == BP_IR_OR ? "|" : operator_text(kind);
  BpExpr result = infix(e, text, a, b);
  result.bits = a.bits;
  return result;
}

/* The shift count, cast to the index type if the language requires it. */
static BpExpr shift_count(BpEmitter *e, BpDataType dtype, BpExpr b) {
  const char *type = e->dialect->index_type;
  return type && dtype.bits > 32 ? bp__text(bp__apply(e, e->dialect->cast, type, b.text)) : b;
}

/* The text of an operation on bits of a bool, for a language whose bool is not a number. */
static const char *strict_bool_text(int32_t kind) {
  switch (kind) {
  case BP_IR_BIT_AND:
    return "&&";
  case BP_IR_BIT_OR:
    return "||";
  case BP_IR_BIT_XOR:
    return "!=";
  default:
    return operator_text(kind);
  }
}

static BpExpr arithmetic(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                         const BpIrNode *b_node) {
  int is_integer = dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT;
  int is_strict = bp__is_bool(dtype) && (e->dialect->flags & BP_DIALECT_STRICT_BOOL);
  switch (kind) {
  case BP_IR_ADD:
  case BP_IR_SUB:
  case BP_IR_MUL:
    return is_integer ? wrapping(e, kind, dtype, a, b) : infix(e, operator_text(kind), a, b);
  case BP_IR_SHL:
    return wrapping(e, kind, dtype, a, shift_count(e, dtype, b));
  case BP_IR_SHR:
    return infix(e, operator_text(kind), a, shift_count(e, dtype, b));
  case BP_IR_DIV:
  case BP_IR_MOD:
    return is_integer ? divide(e, kind, dtype, a, b, b_node) : infix(e, "/", a, b);
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    return floor_divide(e, kind, dtype, a, b, b_node);
  case BP_IR_MIN:
  case BP_IR_MAX:
    return extremum(e, kind, dtype, a, b, b_node);
  default:
    return infix(e, is_strict ? strict_bool_text(kind) : operator_text(kind), a, b);
  }
}

/* Whether the language has an operation for a type in which it does not compute otherwise. */
static int is_native(const BpEmitter *e, int32_t kind, BpDataType dtype) {
  int is_exact = kind == BP_IR_ADD || kind == BP_IR_SUB || kind == BP_IR_MUL || kind == BP_IR_MIN ||
                 kind == BP_IR_MAX || is_comparison(kind);
  return is_exact && bp__has_halves(e, dtype);
}

BpExpr bp__binary(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                  const BpIrNode *b_node) {
  if (dtype.lanes > 1 && bp__is_bool(dtype))
    return logic_of_masks(e, kind, dtype, a, b);
  BpDataType compute = bp__compute_dtype(e, dtype);
  if (!bp__same_dtype(compute, dtype) && !is_native(e, kind, dtype)) {
    a = convert_storage(e, dtype, a, 1);
    b = convert_storage(e, dtype, b, 1);
    BpExpr result = bp__binary(e, kind, compute, a, b, b_node);
    return is_comparison(kind) ? result : convert_storage(e, dtype, result, 0);
  }
  if (is_comparison(kind)) {
    BpExpr result = infix(e, operator_text(kind), a, b);
    result.bits = dtype.lanes > 1 ? dtype.bits : 0;
    return result;
  }
  return arithmetic(e, kind, dtype, a, b, b_node);
}

BpExpr bp__constant(BpEmitter *e, BpDataType dtype, int64_t value) {
  BpDataType scalar = bp__scalar(dtype);
  BpExpr literal = bp__is_float(dtype) ? float_literal(e, scalar, (double)value)
                                       : bp__int_literal(e, scalar, value);
  return dtype.lanes > 1 ? bp__splat(e, dtype, literal) : literal;
}

BpExpr bp__is_not_zero(BpEmitter *e, BpDataType dtype, BpExpr value) {
  BpExpr mask = infix(e, "!=", value, bp__constant(e, dtype, 0));
  mask.bits = dtype.bits;
  return mask;
}

/* ---- Conversion -------------------------------------------------------------------------- */

static BpExpr cast_vector(BpEmitter *e, BpDataType to, BpDataType from, BpExpr value) {
  if (bp__is_bool(to))
    return bp__is_not_zero(e, from, value);
  if (bp__is_bool(from)) {
    from = bp__dtype(BP_DTYPE_INT, (uint8_t)value.bits, from.lanes);
    value = infix(e, "&", value, bp__constant(e, from, 1));
  }
  return bp__same_dtype(to, from) ? value : bp__convert_vector(e, to, from, value);
}

BpExpr bp__cast(BpEmitter *e, BpDataType to, BpDataType from, BpExpr value) {
  if (bp__same_dtype(to, from))
    return value;
  BpDataType from_compute = bp__compute_dtype(e, from);
  if (!bp__same_dtype(from_compute, from))
    return bp__cast(e, to, from_compute, convert_storage(e, from, value, 1));
  BpDataType to_compute = bp__compute_dtype(e, to);
  if (!bp__same_dtype(to_compute, to))
    return convert_storage(e, to, bp__cast(e, to_compute, from, value), 0);
  if (to.lanes > 1)
    return cast_vector(e, to, from, value);
  if (bp__is_bool(to))
    return bp__text(bp__format(e, "(%s != 0)", value.text));
  return cast_text(e, to, value);
}

static BpExpr reinterpret(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *operand = e->ir->operand(node, 0);
  BpDataType to = e->ir->dtype(node);
  BpDataType from = e->ir->dtype(operand);
  BpExpr value = bp__expr(e, operand);
  if (bp__same_dtype(to, from))
    return value;
  if (bp__is_bool(to) || bp__is_bool(from))
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "reinterpret of bool"));
  if (to.lanes > 1 && from.lanes > 1)
    return bits_as(e, to, value);
  if (!e->dialect->reinterpret)
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "reinterpret"));
  return bp__text(
      bp__apply(e, e->dialect->reinterpret, bp__type(e, to), value.text, bp__type(e, from)));
}

/* ---- Nodes ------------------------------------------------------------------------------- */

/* The product that the language should fuse into a sum of float32 scalars, or NULL. A product that
 * is also used elsewhere is not fused. */
static const BpIrNode *product_to_fuse(BpEmitter *e, const BpIrNode *node) {
  if (!e->dialect->contract || e->ir->kind(node) != BP_IR_ADD ||
      !bp__same_dtype(e->ir->dtype(node), bp__dtype(BP_DTYPE_FLOAT, 32, 1)))
    return NULL;
  for (int32_t i = 0; i < 2; i++) {
    const BpIrNode *operand = e->ir->operand(node, i);
    if (e->ir->kind(operand) == BP_IR_MUL && !bp_pointer_map_get(&e->temps, operand) &&
        (uintptr_t)bp_pointer_map_get(&e->uses, operand) <= 1)
      return operand;
  }
  return NULL;
}

/* An operand of a product or quotient. An operand 0 is hidden from the language's compiler. */
static BpExpr factor(BpEmitter *e, const BpIrNode *node) {
  BpDataType dtype = e->ir->dtype(node);
  if (!e->dialect->hidden_zero || e->ir->kind(node) != BP_IR_FLOAT_IMM || dtype.bits != 32 ||
      dtype.code != BP_DTYPE_FLOAT || dtype.lanes > 1 || e->ir->float_value(node) != 0)
    return bp__expr(e, node);
  return bp__text(signbit(e->ir->float_value(node))
                      ? bp__format(e, "(-%s)", e->dialect->hidden_zero)
                      : e->dialect->hidden_zero);
}

/* An operand of a comparison. A 64-bit constant is hidden from the language's compiler: Mesa 22.3
 * narrows the other operand wrongly. */
static BpExpr compared(BpEmitter *e, const BpIrNode *node) {
  BpDataType dtype = e->ir->dtype(node);
  BpExpr text = bp__expr(e, node);
  if (!e->dialect->hidden_zero || e->ir->kind(node) != BP_IR_INT_IMM || dtype.bits != 64 ||
      dtype.lanes > 1)
    return text;
  BpExpr zero =
      bp__cast(e, dtype, bp__dtype(BP_DTYPE_FLOAT, 32, 1), bp__text(e->dialect->hidden_zero));
  return bp__text(bp__format(e, "(%s + %s)", text.text, zero.text));
}

static BpExpr fused_node(BpEmitter *e, const BpIrNode *node, const BpIrNode *product) {
  int32_t other = e->ir->operand(node, 0) == product;
  BpExpr a = factor(e, e->ir->operand(product, 0));
  BpExpr b = factor(e, e->ir->operand(product, 1));
  BpExpr c = bp__expr(e, e->ir->operand(node, other));
  return bp__text(bp__apply(e, e->dialect->contract, a.text, b.text, c.text));
}

static BpExpr binary_node(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *product = product_to_fuse(e, node);
  if (product)
    return fused_node(e, node, product);
  const BpIrNode *a = e->ir->operand(node, 0);
  const BpIrNode *b = e->ir->operand(node, 1);
  int32_t kind = e->ir->kind(node);
  /* The makers of min and max expect a constant as the second operand. */
  if ((kind == BP_IR_MIN || kind == BP_IR_MAX) && is_number_constant(e, a)) {
    const BpIrNode *swapped = a;
    a = b;
    b = swapped;
  }
  int compares = is_comparison(kind) || kind == BP_IR_MIN || kind == BP_IR_MAX;
  BpExpr (*operand)(BpEmitter * e, const BpIrNode *node) = kind == BP_IR_MUL || kind == BP_IR_DIV
                                                               ? factor
                                                           : compares ? compared
                                                                      : bp__expr;
  BpExpr x = operand(e, a), y = operand(e, b);
  return bp__binary(e, kind, e->ir->dtype(a), x, y, b);
}

static const BpIrNode *lane_of(BpEmitter *e, const BpIrNode *node) {
  return e->ir->kind(node) == BP_IR_BROADCAST ? e->ir->operand(node, 0) : node;
}

/* Whether two nodes are one node, or the same constant in every lane. */
static int is_same_value(BpEmitter *e, const BpIrNode *a, const BpIrNode *b) {
  if (a == b)
    return 1;
  if (!is_number_constant(e, a) || !is_number_constant(e, b))
    return 0;
  double x = e->ir->float_value(lane_of(e, a)), y = e->ir->float_value(lane_of(e, b));
  return x == y && !signbit(x) == !signbit(y);
}

/* The comparison of a select that compares the values it chooses between: x < y ? x : y, or the
 * mirror image x < y ? y : x, which is y > x ? y : x. Returns LT or GT of the chosen values, or -1.
 */
static int32_t chosen_comparison(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *condition = e->ir->operand(node, 0);
  int32_t kind = e->ir->kind(condition);
  BpDataType dtype = e->ir->dtype(node);
  if (dtype.lanes == 1 || !bp__is_float(dtype) || (kind != BP_IR_LT && kind != BP_IR_GT) ||
      !bp__same_dtype(bp__compute_dtype(e, dtype), dtype))
    return -1;
  const BpIrNode *x = e->ir->operand(condition, 0), *y = e->ir->operand(condition, 1);
  const BpIrNode *a = e->ir->operand(node, 1), *b = e->ir->operand(node, 2);
  if (is_same_value(e, x, a) && is_same_value(e, y, b))
    return kind;
  if (is_same_value(e, x, b) && is_same_value(e, y, a))
    return kind == BP_IR_LT ? BP_IR_GT : BP_IR_LT;
  return -1;
}

static BpExpr select_node(BpEmitter *e, const BpIrNode *node) {
  BpDataType dtype = e->ir->dtype(node);
  int32_t compared = chosen_comparison(e, node);
  if (compared >= 0) {
    BpExpr chosen = bp__atom(e, bp__expr(e, e->ir->operand(node, 1)), dtype);
    BpExpr other = bp__atom(e, bp__expr(e, e->ir->operand(node, 2)), dtype);
    return lanes_of_either(e, compared, dtype, chosen, other);
  }
  BpExpr condition = bp__expr(e, e->ir->operand(node, 0));
  BpExpr a = bp__expr(e, e->ir->operand(node, 1));
  BpExpr b = bp__expr(e, e->ir->operand(node, 2));
  int is_mask = bp__is_bool(dtype) && dtype.lanes > 1;
  if (dtype.lanes == 1)
    return bp__text(bp__format(e, "(%s ? %s : %s)", condition.text, a.text, b.text));
  if (!is_mask)
    return bp__select_vector(e, dtype, condition, a, b);
  match_masks(e, dtype.lanes, &a, &b);
  condition = bp__atom(e, bp__mask_to(e, condition, dtype.lanes, a.bits), dtype);
  return (BpExpr){
      bp__format(e, "((%s & %s) | (~%s & %s))", condition.text, a.text, condition.text, b.text),
      a.bits, 0};
}

static BpExpr not_node(BpEmitter *e, const BpIrNode *node) {
  BpExpr a = bp__expr(e, e->ir->operand(node, 0));
  return (BpExpr){e->ir->dtype(node).lanes > 1 ? bp__format(e, "(~%s)", a.text)
                                               : bp__format(e, "(!%s)", a.text),
                  a.bits, 0};
}

static BpExpr immediate(BpEmitter *e, const BpIrNode *node) {
  BpDataType dtype = e->ir->dtype(node);
  BpExpr scalar = e->ir->kind(node) == BP_IR_INT_IMM
                      ? bp__int_literal(e, dtype, e->ir->int_value(node))
                      : float_literal(e, dtype, e->ir->float_value(node));
  return dtype.lanes > 1 ? bp__splat(e, dtype, scalar) : scalar;
}

static BpExpr spell(BpEmitter *e, const BpIrNode *node) {
  int32_t kind = e->ir->kind(node);
  if ((kind >= BP_IR_ADD && kind <= BP_IR_OR) || (kind >= BP_IR_BIT_AND && kind <= BP_IR_SHR))
    return binary_node(e, node);
  switch (kind) {
  case BP_IR_INT_IMM:
  case BP_IR_FLOAT_IMM:
    return immediate(e, node);
  case BP_IR_VAR:
  case BP_IR_BUFFER: {
    BpSymbol *symbol = bp__symbol(e, node);
    return symbol ? symbol->expr : bp__text("");
  }
  case BP_IR_NOT:
    return not_node(e, node);
  case BP_IR_SELECT:
    return select_node(e, node);
  case BP_IR_CAST: {
    const BpIrNode *operand = e->ir->operand(node, 0);
    return bp__cast(e, e->ir->dtype(node), e->ir->dtype(operand), bp__expr(e, operand));
  }
  case BP_IR_REINTERPRET:
    return reinterpret(e, node);
  case BP_IR_LOAD:
    return bp__load(e, node);
  case BP_IR_ADDRESS:
    return bp__address(e, e->ir->operand(node, 0), e->ir->operand(node, 1));
  case BP_IR_RAMP:
  case BP_IR_BROADCAST:
  case BP_IR_SHUFFLE:
  case BP_IR_REDUCE:
    return bp__expr_vector(e, node);
  case BP_IR_CALL:
    return bp__call(e, node);
  default: {
    const char *name = e->ir->kind_name(kind);
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "construct %s (kind %d) as an expression",
                             name ? name : "unknown", kind));
  }
  }
}

BpExpr bp__expr(BpEmitter *e, const BpIrNode *node) {
  if (!node)
    return bp__text(bp__fail(e, BP_ERROR_VALUE, "an operand is missing"));
  BpExpr *known = bp_pointer_map_get(&e->temps, node);
  if (known)
    return *known;
  if (e->failed)
    return bp__text("");
  if (e->depth > DEEPEST)
    return bp__text(bp__fail(e, BP_ERROR_VALUE, "an expression is nested deeper than %d", DEEPEST));
  e->depth++;
  BpExpr result = spell(e, node);
  e->depth--;
  int is_shared = (uintptr_t)bp_pointer_map_get(&e->uses, node) > 1;
  if (!is_shared && strlen(result.text) <= LONGEST_TEXT)
    return result;
  /* An address gets no name: in some languages its type depends on the memory that it points to. */
  BpDataType dtype = e->ir->dtype(node);
  if (bp__is_void(dtype) || e->ir->kind(node) == BP_IR_ADDRESS)
    return result;
  result = bp__atom(e, result, dtype);
  BpExpr *kept = bp__arena_alloc(e, sizeof(*kept));
  if (kept) {
    *kept = result;
    if (bp_pointer_map_set(&e->temps, node, kept) != 0)
      bp__fail(e, BP_ERROR_MEMORY, "out of memory");
  }
  return result;
}

BpExpr bp__index(BpEmitter *e, const BpIrNode *node) {
  e->index_depth++;
  BpExpr result = bp__expr(e, node);
  e->index_depth--;
  return result;
}
