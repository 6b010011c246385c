/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and expressions in IR. */
#include "conformance/random.h"

#include <math.h>

#define BOOL 0

uint64_t bp__random_next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

int bp__random_below(RandomExpressions *random, int limit) {
  return (int)(bp__random_next(&random->state) % (uint64_t)limit);
}

int bp__random_type(RandomExpressions *random) {
  int type;
  do
    type = bp__random_below(random, PROGRAM_TYPES);
  while (type != BOOL && !random->is_used[type]);
  return type;
}

static BpDataType type_with(int type, uint16_t lanes) {
  BpDataType dtype = bp__program_dtype(bp__program_types[type]);
  dtype.lanes = lanes;
  return dtype;
}

static gboolean is_float(int type) {
  return bp__program_letter(type_with(type, 1)) == 'f';
}

static const BpIrNode *make(RandomExpressions *random, int32_t kind, BpDataType dtype,
                            const BpIrNode *a, const BpIrNode *b, const BpIrNode *c) {
  const BpIrNode *operands[] = {a, b, c};
  return bp_ir_make(random->module, kind, dtype, operands, c ? 3 : b ? 2 : 1, 0, 0, NULL);
}

/* ---- Leaves ------------------------------------------------------------------------------ */

static const BpIrNode *constant(RandomExpressions *random, int type) {
  static const double floats[] = {0, -0.0, 1, -1, 0.5, 3, 1e30, HUGE_VAL, -HUGE_VAL, NAN, 1e-42};
  static const double exact[] = {0, 1, -1, 2, 3, -4, 7};
  static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 100, INT64_MAX, INT64_MIN};
  BpDataType dtype = type_with(type, 1);
  if (!is_float(type))
    return bp_ir_int(random->module, dtype, ints[bp__random_below(random, G_N_ELEMENTS(ints))]);
  return bp_ir_float(random->module, dtype,
                     random->is_exact ? exact[bp__random_below(random, G_N_ELEMENTS(exact))]
                                      : floats[bp__random_below(random, G_N_ELEMENTS(floats))]);
}

static const BpIrNode *widen(RandomExpressions *random, const BpIrNode *scalar, uint16_t lanes) {
  if (lanes == 1)
    return scalar;
  BpDataType dtype = bp_ir_table()->dtype(scalar);
  dtype.lanes = lanes;
  return make(random, BP_IR_BROADCAST, dtype, scalar, NULL, NULL);
}

static const BpIrNode *leaf(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  const BpIrNode *given = random->leaf ? random->leaf(random, type, lanes, depth) : NULL;
  if (given)
    return given;
  const BpIrNode *scalar = bp__random_below(random, 2)
                               ? random->vars[type][bp__random_below(random, RANDOM_VARS)]
                               : constant(random, type);
  return widen(random, scalar, lanes);
}

/* ---- Operations -------------------------------------------------------------------------- */

static const BpIrNode *ramp(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  const BpIrNode *base = bp__random_expression(random, type, 1, depth - 1);
  const BpIrNode *stride = bp__random_expression(random, type, 1, depth - 1);
  return make(random, BP_IR_RAMP, type_with(type, lanes), base, stride, NULL);
}

static int32_t pick_kind(RandomExpressions *random, const int32_t *kinds, int count) {
  return kinds[bp__random_below(random, count)];
}

static int32_t binary_kind(RandomExpressions *random, int type, int depth) {
  static const int32_t ints[] = {BP_IR_ADD,      BP_IR_SUB,     BP_IR_MUL,    BP_IR_MIN,
                                 BP_IR_MAX,      BP_IR_DIV,     BP_IR_MOD,    BP_IR_FLOORDIV,
                                 BP_IR_FLOORMOD, BP_IR_BIT_AND, BP_IR_BIT_OR, BP_IR_BIT_XOR,
                                 BP_IR_SHL,      BP_IR_SHR};
  static const int32_t floats[] = {BP_IR_ADD, BP_IR_SUB, BP_IR_MIN,
                                   BP_IR_MAX, BP_IR_MUL, BP_IR_DIV};
  static const int32_t logic[] = {BP_IR_AND, BP_IR_OR, BP_IR_BIT_AND, BP_IR_BIT_OR, BP_IR_BIT_XOR};
  if (type == BOOL)
    return pick_kind(random, logic, G_N_ELEMENTS(logic));
  if (!is_float(type))
    return pick_kind(random, ints, G_N_ELEMENTS(ints));
  /* Products of leaves stay small; quotients are not exact. */
  return pick_kind(random, floats, !random->is_exact ? 6 : depth == 1 ? 5 : 4);
}

static const BpIrNode *binary(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  int32_t kind = binary_kind(random, type, depth);
  const BpIrNode *a = bp__random_expression(random, type, lanes, depth - 1);
  const BpIrNode *b = bp__random_expression(random, type, lanes, depth - 1);
  return make(random, kind, type_with(type, lanes), a, b, NULL);
}

static const BpIrNode *comparison(RandomExpressions *random, uint16_t lanes, int depth) {
  int32_t kind = BP_IR_EQ + bp__random_below(random, 6);
  int type = bp__random_type(random);
  if (type == BOOL)
    kind = bp__random_below(random, 2) ? BP_IR_EQ : BP_IR_NE;
  const BpIrNode *a = bp__random_expression(random, type, lanes, depth - 1);
  const BpIrNode *b = bp__random_expression(random, type, lanes, depth - 1);
  return make(random, kind, type_with(BOOL, lanes), a, b, NULL);
}

static const BpIrNode *choice(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  const BpIrNode *condition = bp__random_expression(random, BOOL, lanes, depth - 1);
  const BpIrNode *a = bp__random_expression(random, type, lanes, depth - 1);
  const BpIrNode *b = bp__random_expression(random, type, lanes, depth - 1);
  return make(random, BP_IR_SELECT, type_with(type, lanes), condition, a, b);
}

/* Only small integers become floats that are exact and stay small. */
static gboolean may_become(const RandomExpressions *random, int from, int to) {
  return !random->is_exact || !is_float(to) || is_float(from) || type_with(from, 1).bits == 8;
}

static const BpIrNode *cast(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  int from = bp__random_type(random);
  if (!may_become(random, from, type))
    from = type;
  const BpIrNode *a = bp__random_expression(random, from, lanes, depth - 1);
  return make(random, BP_IR_CAST, type_with(type, lanes), a, NULL, NULL);
}

static const BpIrNode *operation(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  switch (bp__random_below(random, 8)) {
  case 0:
    return leaf(random, type, lanes, depth);
  case 1:
    return choice(random, type, lanes, depth);
  case 2:
    return cast(random, type, lanes, depth);
  case 3:
    if (lanes > 1 && type != BOOL && !is_float(type))
      return ramp(random, type, lanes, depth);
    return widen(random, bp__random_expression(random, type, 1, depth - 1), lanes);
  case 4:
    if (type != BOOL)
      return binary(random, type, lanes, depth);
    if (bp__random_below(random, 3))
      return comparison(random, lanes, depth);
    return make(random, BP_IR_NOT, type_with(BOOL, lanes),
                bp__random_expression(random, BOOL, lanes, depth - 1), NULL, NULL);
  default:
    return binary(random, type, lanes, depth);
  }
}

const BpIrNode *bp__random_expression(RandomExpressions *random, int type, uint16_t lanes,
                                      int depth) {
  return depth > 0 ? operation(random, type, lanes, depth) : leaf(random, type, lanes, depth);
}
