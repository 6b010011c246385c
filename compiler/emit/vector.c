/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that only vectors have. A vector of bools is a mask: an integer vector with lanes 0 or
 * -1, as wide as the operands of the comparison that made it. */
#include "compiler/emit/emit.h"

#include <string.h>

BpExpr bp__lane(BpEmitter *e, BpExpr vector, BpDataType dtype, int32_t lane) {
  if (dtype.lanes == 1)
    return vector;
  const char *number = bp__format(e, "%d", lane);
  const char *digit = bp__format(e, "%x", lane);
  const char *text = bp__apply(e, e->dialect->vector_lane, vector.text, number, digit);
  if (bp__is_bool(dtype)) /* the lane of a mask is 0 or -1 */
    return bp__text(bp__format(e, "(%s != 0)", text));
  return (BpExpr){text, 0, vector.is_atom};
}

static BpDataType mask_dtype(int32_t lanes, int32_t bits) {
  return bp__dtype(BP_DTYPE_INT, (uint8_t)bits, (uint16_t)lanes);
}

static const char *mask_lane(BpEmitter *e, const char *scalar) {
  return bp__format(e, "(%s ? -1 : 0)", scalar);
}

BpExpr bp__make_vector(BpEmitter *e, BpDataType dtype, const BpExpr *lanes) {
  int is_mask = bp__is_bool(dtype);
  BpText list = {NULL, 0, 0};
  for (int32_t i = 0; i < dtype.lanes; i++)
    bp__appendf(e, &list, "%s%s", i ? ", " : "",
                is_mask ? mask_lane(e, lanes[i].text) : bp__bare(e, lanes[i].text));
  const char *type = bp__type(e, is_mask ? mask_dtype(dtype.lanes, 32) : dtype);
  BpExpr result = bp__text(bp__apply(e, e->dialect->vector_make, type, list.data ? list.data : ""));
  result.bits = is_mask ? 32 : 0;
  bp__text_free(&list);
  return result;
}

BpExpr bp__splat(BpEmitter *e, BpDataType dtype, BpExpr scalar) {
  int is_mask = bp__is_bool(dtype);
  BpDataType real = is_mask ? mask_dtype(dtype.lanes, 32) : dtype;
  if (is_mask)
    scalar = bp__text(mask_lane(e, scalar.text));
  const char *type = bp__type(e, real);
  const char *form = e->dialect->vector_splat;
  if (form) {
    if (bp__template_uses(form, 2) > 1)
      scalar = bp__atom(e, scalar, bp__scalar(real));
    const char *lanes = bp__format(e, "%d", dtype.lanes);
    const char *scalar_type = bp__type(e, bp__scalar(real));
    return (BpExpr){bp__apply(e, form, type, scalar.text, lanes, scalar_type), is_mask ? 32 : 0, 0};
  }
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * dtype.lanes);
  if (!lanes)
    return bp__text("");
  scalar = bp__atom(e, scalar, bp__scalar(real));
  for (int32_t i = 0; i < dtype.lanes; i++)
    lanes[i] = scalar;
  BpExpr result = bp__make_vector(e, real, lanes);
  result.bits = is_mask ? 32 : 0;
  return result;
}

/* The type to convert to first. gcc converts whole vectors between integers whose widths differ by
 * a factor of two, and between floats and integers of at least 32 bits. gcc splits other
 * conversions into single lanes. A float that becomes an integer was clipped to that type's range
 * before, so no step changes the value. */
static BpDataType first_step(BpDataType to, BpDataType from) {
  BpDataType word = bp__dtype(BP_DTYPE_INT, 32, from.lanes);
  if (bp__is_float(from))
    return bp__is_float(to) || to.bits >= 32 ? to : word;
  if (bp__is_float(to) && from.bits >= 32)
    return to;
  BpDataType aim = bp__is_float(to) ? word : to;
  if (aim.bits > from.bits * 2)
    return bp__dtype(from.code, (uint8_t)(from.bits * 2), from.lanes);
  if (aim.bits * 2 < from.bits)
    return bp__dtype(from.code, (uint8_t)(from.bits / 2), from.lanes);
  return aim;
}

BpExpr bp__convert_vector(BpEmitter *e, BpDataType to, BpDataType from, BpExpr value) {
  while (!bp__same_dtype(from, to)) {
    BpDataType next = first_step(to, from);
    value = bp__text(
        bp__apply(e, e->dialect->vector_convert, bp__type(e, next), value.text, bp__type(e, from)));
    from = next;
  }
  return value;
}

BpExpr bp__mask_to(BpEmitter *e, BpExpr mask, int32_t lanes, int32_t bits) {
  if (mask.bits == bits)
    return mask;
  mask = bp__convert_vector(e, mask_dtype(lanes, bits), mask_dtype(lanes, mask.bits), mask);
  mask.bits = bits;
  return mask;
}

BpExpr bp__select_vector(BpEmitter *e, BpDataType dtype, BpExpr mask, BpExpr a, BpExpr b) {
  const char *form = e->dialect->vector_select;
  mask = bp__mask_to(e, mask, dtype.lanes, dtype.bits);
  if (bp__template_uses(form, 2) > 1)
    mask = bp__atom(e, mask, bp__dtype(BP_DTYPE_BOOL, 8, dtype.lanes));
  const char *mask_type = bp__type(e, mask_dtype(dtype.lanes, dtype.bits));
  return bp__text(bp__apply(e, form, bp__type(e, dtype), mask.text, a.text, b.text, mask_type));
}

/* ---- Ramps ------------------------------------------------------------------------------- */

static BpExpr ramp(BpEmitter *e, const BpIrNode *node) {
  BpDataType dtype = e->ir->dtype(node);
  const BpIrNode *stride_node = e->ir->operand(node, 1);
  BpExpr *steps = bp__arena_alloc(e, sizeof(*steps) * dtype.lanes);
  if (!steps)
    return bp__text("");
  int is_constant = e->ir->kind(stride_node) == BP_IR_INT_IMM;
  int64_t stride = is_constant ? e->ir->int_value(stride_node) : 1;
  for (int32_t i = 0; i < dtype.lanes; i++)
    steps[i] = bp__int_literal(e, dtype, (int64_t)((uint64_t)stride * (uint64_t)i));
  BpExpr offsets = bp__make_vector(e, dtype, steps);
  if (!is_constant)
    offsets = bp__binary(e, BP_IR_MUL, dtype, offsets,
                         bp__splat(e, dtype, bp__expr(e, stride_node)), NULL);
  BpExpr base = bp__splat(e, dtype, bp__expr(e, e->ir->operand(node, 0)));
  return bp__binary(e, BP_IR_ADD, dtype, base, offsets, NULL);
}

/* ---- Shuffles ---------------------------------------------------------------------------- */

/* One lane of the concatenated operands of a shuffle. */
static BpExpr lane_of_many(BpEmitter *e, const BpIrNode *node, const BpExpr *vectors,
                           int64_t lane) {
  for (int32_t i = 0; i < e->ir->int_value(node); i++) {
    BpDataType dtype = e->ir->dtype(e->ir->operand(node, i));
    if (lane < dtype.lanes)
      return bp__lane(e, vectors[i], dtype, (int32_t)lane);
    lane -= dtype.lanes;
  }
  return bp__text(bp__fail(e, BP_ERROR_VALUE, "a shuffle picks a lane that does not exist"));
}

/* Whether the language's own shuffle can express the node: one vector, or two vectors of equal
 * type, of numbers. */
static int is_simple_shuffle(BpEmitter *e, const BpIrNode *node) {
  int64_t count = e->ir->int_value(node);
  BpDataType result = e->ir->dtype(node);
  BpDataType first = e->ir->dtype(e->ir->operand(node, 0));
  if (!e->dialect->vector_shuffle || count > 2 || first.lanes == 1 || result.lanes == 1 ||
      bp__is_bool(first))
    return 0;
  return count == 1 || bp__same_dtype(first, e->ir->dtype(e->ir->operand(node, 1)));
}

static BpExpr simple_shuffle(BpEmitter *e, const BpIrNode *node, const BpExpr *vectors) {
  int32_t count = (int32_t)e->ir->int_value(node);
  BpDataType result = e->ir->dtype(node);
  BpText list = {NULL, 0, 0};
  for (int32_t i = 0; i < result.lanes; i++)
    bp__appendf(e, &list, "%s%lld", i ? ", " : "",
                (long long)e->ir->int_value(e->ir->operand(node, count + i)));
  const char *text = bp__apply(e, e->dialect->vector_shuffle, bp__type(e, result), vectors[0].text,
                               vectors[count - 1].text, list.data ? list.data : "");
  bp__text_free(&list);
  return bp__text(text);
}

static BpExpr shuffle(BpEmitter *e, const BpIrNode *node) {
  int64_t count = e->ir->int_value(node);
  BpDataType result = e->ir->dtype(node);
  if (count < 1 || e->ir->num_operands(node) != count + result.lanes)
    return bp__text(bp__fail(e, BP_ERROR_VALUE, "a shuffle with a wrong number of operands"));
  BpExpr *vectors = bp__arena_alloc(e, sizeof(*vectors) * (size_t)count);
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * result.lanes);
  if (!vectors || !lanes)
    return bp__text("");
  for (int32_t i = 0; i < count; i++) {
    const BpIrNode *operand = e->ir->operand(node, i);
    vectors[i] = bp__atom(e, bp__expr(e, operand), e->ir->dtype(operand));
  }
  if (is_simple_shuffle(e, node))
    return simple_shuffle(e, node, vectors);
  for (int32_t i = 0; i < result.lanes; i++)
    lanes[i] =
        lane_of_many(e, node, vectors, e->ir->int_value(e->ir->operand(node, (int32_t)count + i)));
  return result.lanes == 1 ? lanes[0] : bp__make_vector(e, result, lanes);
}

/* ---- Reductions -------------------------------------------------------------------------- */

static int32_t reduction_kind(BpEmitter *e, const BpIrNode *node) {
  const char *name = e->ir->str_value(node);
  if (strcmp(name, "add") == 0)
    return BP_IR_ADD;
  if (strcmp(name, "mul") == 0)
    return BP_IR_MUL;
  if (strcmp(name, "min") == 0)
    return BP_IR_MIN;
  if (strcmp(name, "max") == 0)
    return BP_IR_MAX;
  bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "reduction \"%s\"", name);
  return BP_IR_ADD;
}

/* Half of a vector: the lanes from lane `first` on. */
static BpExpr half_of(BpEmitter *e, BpExpr vector, BpDataType half, int32_t first) {
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * half.lanes);
  if (!lanes)
    return bp__text("");
  BpDataType whole = bp__with_lanes(half, (uint16_t)(half.lanes * 2));
  if (!e->dialect->vector_shuffle) {
    for (int32_t i = 0; i < half.lanes; i++)
      lanes[i] = bp__lane(e, vector, whole, first + i);
    return bp__make_vector(e, half, lanes);
  }
  BpText list = {NULL, 0, 0};
  for (int32_t i = 0; i < half.lanes; i++)
    bp__appendf(e, &list, "%s%d", i ? ", " : "", first + i);
  const char *text = bp__apply(e, e->dialect->vector_shuffle, bp__type(e, half), vector.text,
                               vector.text, list.data ? list.data : "");
  bp__text_free(&list);
  return bp__text(text);
}

static BpExpr reduce(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *operand = e->ir->operand(node, 0);
  BpDataType given = e->ir->dtype(operand);
  BpDataType dtype = bp__compute_dtype(e, given);
  int32_t kind = reduction_kind(e, node);
  BpExpr vector = bp__cast(e, dtype, given, bp__expr(e, operand));
  while (dtype.lanes > 2) {
    vector = bp__atom(e, vector, dtype);
    dtype = bp__with_lanes(dtype, dtype.lanes / 2);
    BpExpr low = half_of(e, vector, dtype, 0);
    BpExpr high = half_of(e, vector, dtype, dtype.lanes);
    vector = bp__binary(e, kind, dtype, low, high, NULL);
  }
  if (dtype.lanes == 2) {
    vector = bp__atom(e, vector, dtype);
    vector = bp__binary(e, kind, bp__scalar(dtype), bp__lane(e, vector, dtype, 0),
                        bp__lane(e, vector, dtype, 1), NULL);
  }
  return bp__cast(e, bp__scalar(given), bp__scalar(dtype), vector);
}

BpExpr bp__expr_vector(BpEmitter *e, const BpIrNode *node) {
  switch (e->ir->kind(node)) {
  case BP_IR_RAMP:
    return ramp(e, node);
  case BP_IR_BROADCAST:
    return bp__splat(e, e->ir->dtype(node), bp__expr(e, e->ir->operand(node, 0)));
  case BP_IR_SHUFFLE:
    return shuffle(e, node);
  default:
    return reduce(e, node);
  }
}
