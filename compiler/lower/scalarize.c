/* SPDX-License-Identifier: Apache-2.0 */
/* Splits vectors into scalars, for targets whose threads are the lanes.
 *
 * A vector is the list of its lanes, each a scalar expression; a vector variable becomes one
 * variable for each lane. If a statement reads the elements that it stores, all lanes are computed
 * before the first lane is stored. */

#include "compiler/lower/passes.h"

typedef struct Scalarizer {
  BpIrRewriter rewriter; /* rewriter of nodes that are not vectors */
  BpIrMap lanes;         /* vector node -> array of its lanes; a lane is NULL until needed */
} Scalarizer;

static const BpIrNode *lane_of(Scalarizer *s, const BpIrNode *node, int32_t lane);

static const BpIrNode *scalar(Scalarizer *s, const BpIrNode *node) {
  return bp__ir_rewrite(&s->rewriter, node);
}

static BpIrModule *module_of(const Scalarizer *s) {
  return s->rewriter.module;
}

static bool is_vector(const BpIrNode *node) {
  return node->dtype.lanes > 1 && !bp__dtype_is_void(node->dtype);
}

static const BpIrNode *binary(Scalarizer *s, int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  return a && b ? bp_ir_binary(module_of(s), kind, a, b) : NULL;
}

/* ---- Expressions ------------------------------------------------------------------------- */

static const BpIrNode *ramp_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  const BpIrNode *base = scalar(s, node->operands[0]), *stride = scalar(s, node->operands[1]);
  const BpIrNode *step = bp_ir_int(module_of(s), bp__dtype_element(node->dtype), lane);
  return binary(s, BP_IR_ADD, base, binary(s, BP_IR_MUL, stride, step));
}

/* One lane of the vectors that a shuffle concatenates. */
static const BpIrNode *shuffle_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  int64_t place = node->operands[node->int_value + lane]->int_value;
  for (int64_t i = 0; i < node->int_value; i++) {
    const BpIrNode *vector = node->operands[i];
    if (place < vector->dtype.lanes)
      return lane_of(s, vector, (int32_t)place);
    place -= vector->dtype.lanes;
  }
  bp_error_raise(BP_ERROR_VALUE, "a shuffle picks a lane that does not exist");
  return NULL;
}

static const BpIrNode *load_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  bool has_mask = node->num_operands > 2;
  const BpIrNode *buffer = scalar(s, node->operands[0]);
  const BpIrNode *index = lane_of(s, node->operands[1], lane);
  const BpIrNode *mask = has_mask ? lane_of(s, node->operands[2], lane) : NULL;
  if (!buffer || !index || (has_mask && !mask))
    return NULL;
  return bp_ir_load(module_of(s), buffer, index, mask);
}

/* The operation of a node on one lane of each operand. */
static const BpIrNode *operation_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  const BpIrNode *operands[16];
  if (node->num_operands > 16) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s of a vector with %d operands",
                   bp__ir_kind_name(node->kind), node->num_operands);
    return NULL;
  }
  for (int32_t i = 0; i < node->num_operands; i++) {
    const BpIrNode *operand = node->operands[i];
    if (is_vector(operand) && operand->dtype.lanes != node->dtype.lanes) {
      bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s between vectors of %d and %d lanes",
                     bp__ir_kind_name(node->kind), operand->dtype.lanes, node->dtype.lanes);
      return NULL;
    }
    operands[i] = lane_of(s, operand, lane);
    if (!operands[i])
      return NULL;
  }
  /* bp_ir_binary folds lanes that are constant, such as those of masks. */
  if (node->kind >= BP_IR_ADD && node->kind <= BP_IR_SHR && node->num_operands == 2)
    return bp_ir_binary(module_of(s), node->kind, operands[0], operands[1]);
  return bp_ir_make(module_of(s), node->kind, bp__dtype_element(node->dtype), operands,
                    node->num_operands, node->int_value, node->float_value, node->str_value);
}

/* The bits of one lane of a vector from bit `first` on, as an unsigned integer of `to` bits. */
static const BpIrNode *bits_of_lane(Scalarizer *s, const BpIrNode *vector, int32_t lane,
                                    int32_t first, uint8_t to) {
  BpDataType held = {BP_DTYPE_UINT, vector->dtype.bits, 1}, wanted = {BP_DTYPE_UINT, to, 1};
  const BpIrNode *bits = bp__ir_reinterpret(module_of(s), held, lane_of(s, vector, lane));
  if (first > 0)
    bits = binary(s, BP_IR_SHR, bits, bp_ir_int(module_of(s), held, first));
  return bits ? bp_ir_cast(module_of(s), wanted, bits) : NULL;
}

/* One lane of a reinterpreted vector; the first lane has the lowest bits. */
static const BpIrNode *reinterpret_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  const BpIrNode *vector = node->operands[0];
  int32_t from = vector->dtype.bits, to = node->dtype.bits;
  BpDataType wanted = {BP_DTYPE_UINT, node->dtype.bits, 1};
  int32_t first = lane * to / from; /* the lane of `vector` that has the lowest bits */
  const BpIrNode *bits = bits_of_lane(s, vector, first, lane * to - first * from, node->dtype.bits);
  for (int32_t i = 1; i < to / from; i++) {
    const BpIrNode *more = bits_of_lane(s, vector, first + i, 0, node->dtype.bits);
    const BpIrNode *shift = bp_ir_int(module_of(s), wanted, (int64_t)i * from);
    bits = binary(s, BP_IR_BIT_OR, bits, binary(s, BP_IR_SHL, more, shift));
  }
  return bp__ir_reinterpret(module_of(s), bp__dtype_element(node->dtype), bits);
}

static const BpIrNode *make_lane(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  switch (node->kind) {
  case BP_IR_REINTERPRET:
    return node->operands[0]->dtype.lanes == node->dtype.lanes ? operation_lane(s, node, lane)
                                                               : reinterpret_lane(s, node, lane);
  case BP_IR_RAMP:
    return ramp_lane(s, node, lane);
  case BP_IR_BROADCAST:
    return scalar(s, node->operands[0]);
  case BP_IR_SHUFFLE:
    return shuffle_lane(s, node, lane);
  case BP_IR_LOAD:
    return load_lane(s, node, lane);
  case BP_IR_VAR:
    return bp_ir_var(module_of(s), node->str_value, bp__dtype_element(node->dtype));
  default:
    return operation_lane(s, node, lane);
  }
}

static const BpIrNode *lane_of(Scalarizer *s, const BpIrNode *node, int32_t lane) {
  if (!is_vector(node))
    return scalar(s, node);
  const BpIrNode **known = (const BpIrNode **)(uintptr_t)bp__ir_map_get(&s->lanes, node);
  if (!known) {
    size_t size = node->dtype.lanes * sizeof *known;
    known = bp__ir_alloc(module_of(s), size);
    if (!known || bp__ir_map_set(&s->lanes, node, known))
      return NULL;
    memset(known, 0, size);
  }
  if (!known[lane])
    known[lane] = make_lane(s, node, lane);
  return known[lane];
}

/* Reduces the lanes of a vector to one lane, by halves. */
static const BpIrNode *reduce(Scalarizer *s, const BpIrNode *node, int32_t first, int32_t count) {
  static const struct {
    const char *name;
    int32_t kind;
  } operations[] = {{"add", BP_IR_ADD}, {"mul", BP_IR_MUL}, {"min", BP_IR_MIN}, {"max", BP_IR_MAX}};
  int32_t kind = BP_IR_NONE;
  if (count == 1)
    return lane_of(s, node->operands[0], first);
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
    if (!strcmp(operations[i].name, node->str_value))
      kind = operations[i].kind;
  int32_t half = count / 2;
  return binary(s, kind, reduce(s, node, first, half), reduce(s, node, first + half, count - half));
}

/* ---- Statements -------------------------------------------------------------------------- */

/* The statements of a split vector store, and the names that must be defined before them. */
typedef struct Stores {
  const BpIrNode **vars, **values;
  int32_t num_named;
} Stores;

static const BpIrNode *named(Scalarizer *s, Stores *stores, const BpIrNode *value) {
  if (!value || value->num_operands == 0)
    return value;
  const BpIrNode *var = bp_ir_var(module_of(s), "lane", value->dtype);
  stores->vars[stores->num_named] = var;
  stores->values[stores->num_named++] = value;
  return var;
}

static const BpIrNode *store_lane(Scalarizer *s, const BpIrNode *node, int32_t lane,
                                  Stores *names) {
  const BpIrNode *buffer = scalar(s, node->operands[0]);
  const BpIrNode *index = lane_of(s, node->operands[1], lane);
  const BpIrNode *value = lane_of(s, node->operands[2], lane);
  bool has_mask = node->num_operands > 3;
  const BpIrNode *mask = has_mask ? lane_of(s, node->operands[3], lane) : NULL;
  if (mask && bp__ir_is_int_value(mask, 0))
    return bp__ir_nothing(module_of(s));
  if (names) {
    index = named(s, names, index);
    value = named(s, names, value);
    mask = named(s, names, mask);
  }
  if (!buffer || !index || !value || (has_mask && !mask))
    return NULL;
  return bp_ir_store(module_of(s), buffer, index, value, mask);
}

static const BpIrNode *scalar_store(Scalarizer *s, const BpIrNode *node) {
  BpIrModule *module = module_of(s);
  int32_t lanes = node->operands[2]->dtype.lanes, reads = 0;
  size_t most = 3 * (size_t)lanes;
  const BpIrNode **statements = bp__ir_alloc(module, (size_t)lanes * sizeof *statements);
  const BpIrNode **room = bp__ir_alloc(module, 2 * most * sizeof *room);
  for (int32_t i = 1; i < node->num_operands && reads == 0; i++)
    reads = bp__ir_uses(node->operands[i], node->operands[0]);
  if (!statements || !room || reads < 0)
    return NULL;
  Stores names = {room, room + most, 0};
  for (int32_t i = 0; i < lanes; i++)
    if (!(statements[i] = store_lane(s, node, i, reads ? &names : NULL)))
      return NULL;
  const BpIrNode *result = bp_ir_seq(module, statements, lanes);
  while (result && names.num_named-- > 0)
    result = bp_ir_let(module, names.vars[names.num_named], names.values[names.num_named], result);
  return result;
}

static const BpIrNode *scalar_let(Scalarizer *s, const BpIrNode *node) {
  const BpIrNode *result = scalar(s, node->operands[2]);
  for (int32_t i = node->operands[0]->dtype.lanes; result && i-- > 0;) {
    const BpIrNode *var = lane_of(s, node->operands[0], i);
    const BpIrNode *value = lane_of(s, node->operands[1], i);
    result = var && value ? bp_ir_let(module_of(s), var, value, result) : NULL;
  }
  return result;
}

static int enter(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  Scalarizer *s = rewriter->context;
  if (node->kind == BP_IR_REDUCE)
    *result = reduce(s, node, 0, node->operands[0]->dtype.lanes);
  else if (node->kind == BP_IR_SHUFFLE)
    *result = shuffle_lane(s, node, 0);
  else if (node->kind == BP_IR_REINTERPRET && is_vector(node->operands[0]))
    *result = reinterpret_lane(s, node, 0);
  else if (node->kind == BP_IR_STORE && is_vector(node->operands[2]))
    *result = scalar_store(s, node);
  else if (node->kind == BP_IR_LET && is_vector(node->operands[0]))
    *result = scalar_let(s, node);
  else
    return 0;
  return *result ? 1 : -1;
}

const BpIrNode *bp__pass_scalarize(BpIrModule *module, const BpIrNode *function) {
  Scalarizer s = {.rewriter = {.module = module, .enter = enter}};
  s.rewriter.context = &s;
  const BpIrNode *result = bp__ir_rewrite(&s.rewriter, function);
  bp__ir_rewriter_clear(&s.rewriter);
  bp__ir_map_clear(&s.lanes);
  return result;
}
