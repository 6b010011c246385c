/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of vectors whose lanes are at constant distances from one another, such as backward rows
 * and every second element. Processors and compilers load each lane by itself. The pass loads
 * neighbours, one vector from the first element on and one vector up to the last element, and
 * takes the lanes out of them. No element before the first or after the last one is read, so the
 * loads stay inside the buffer. */

#include "compiler/ir/scalar.h"
#include "compiler/lower/passes.h"

/* The maximum number of lanes. */
#define MAX_LANES 64
/* How many levels of an index are examined. */
#define MAX_DEPTH 8

/* ---- Indices ----------------------------------------------------------------------------- */

/* The lanes of an integer vector: `base`, or 0 if it is NULL, plus an offset for each lane. */
typedef struct Lanes {
  const BpIrNode *base;
  int64_t offsets[MAX_LANES];
} Lanes;

static int find_pair(BpIrModule *module, const BpIrNode *const *nodes, int32_t depth, Lanes *a,
                     Lanes *b);

/* Whether the sum of a base and an offset is the value of that lane: indices of int64 do not
 * overflow, other integers must be constants of their type. */
static bool is_exact(const Lanes *lanes, BpDataType dtype) {
  if (dtype.code != BP_DTYPE_INT)
    return false;
  int64_t limit = dtype.bits < 64 ? (int64_t)1 << (dtype.bits - 1) : 0;
  for (int32_t i = 0; limit && i < dtype.lanes; i++)
    if (lanes->base || lanes->offsets[i] < -limit || lanes->offsets[i] >= limit)
      return false;
  return true;
}

/* Takes a constant term out of a scalar. */
static const BpIrNode *split_constant(const BpIrNode *node, int64_t *constant) {
  *constant = 0;
  if (bp__ir_const_int(node, constant))
    return NULL;
  return node->kind == BP_IR_ADD && bp__ir_const_int(node->operands[1], constant)
             ? node->operands[0]
             : node;
}

static int find_ramp(const BpIrNode *node, Lanes *lanes) {
  int64_t first, stride = 0;
  lanes->base = split_constant(node->operands[0], &first);
  if (node->kind == BP_IR_RAMP && !bp__ir_const_int(node->operands[1], &stride))
    return 0;
  for (int64_t i = 0; i < node->dtype.lanes; i++)
    if (__builtin_mul_overflow(stride, i, &lanes->offsets[i]) ||
        __builtin_add_overflow(lanes->offsets[i], first, &lanes->offsets[i]))
      return 0;
  return is_exact(lanes, node->dtype);
}

/* An operation on int64. */
static int64_t compute(int32_t kind, int64_t a, int64_t b) {
  return bp__scalar_binary(kind, bp__dtype_int64(), (BpIrScalar){.i = a}, (BpIrScalar){.i = b}).i;
}

/* Computes one lane; false if the result is not an exact integer. */
static bool fold_lane(int32_t kind, int64_t a, int64_t b, int64_t *result) {
  switch (kind) {
  case BP_IR_ADD:
    return !__builtin_add_overflow(a, b, result);
  case BP_IR_SUB:
    return !__builtin_sub_overflow(a, b, result);
  case BP_IR_MUL:
    return !__builtin_mul_overflow(a, b, result);
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return false;
    break;
  default:
    break;
  }
  *result = compute(kind, a, b);
  return true;
}

static bool is_same_base(const Lanes *a, const Lanes *b) {
  return a->base == b->base || (a->base && b->base && bp__ir_equal(a->base, b->base));
}

/* The base of a sum, difference, product, minimum or maximum. Returns 1, 0 if the base differs
 * among the lanes, or -1 with an error. */
static int find_base(BpIrModule *module, int32_t kind, const Lanes *a, const Lanes *b,
                     BpDataType dtype, const BpIrNode **base) {
  const BpIrNode *x = a->base, *y = b->base;
  *base = NULL;
  if (!x && !y)
    return 1;
  if (kind == BP_IR_MIN || kind == BP_IR_MAX) {
    *base = x;
    return is_same_base(a, b);
  }
  if (kind == BP_IR_MUL) { /* a constant factor is the second operand */
    for (int32_t i = 0; i < dtype.lanes; i++)
      if (y || b->offsets[i] != b->offsets[0])
        return 0;
    y = bp_ir_int(module, bp__dtype_element(dtype), b->offsets[0]);
  } else if (kind != BP_IR_ADD && kind != BP_IR_SUB) {
    return 0;
  } else if (!y) {
    *base = x;
    return 1;
  } else if (!x && kind == BP_IR_ADD) {
    *base = y;
    return 1;
  }
  if (!x)
    x = bp_ir_int(module, bp__dtype_element(dtype), 0);
  *base = bp_ir_binary(module, kind, x, y);
  return *base ? 1 : -1;
}

/* Finds the lanes that a constant comparison selects. Returns 1, 0 for any other mask, or -1 with
 * an error. */
static int find_mask(BpIrModule *module, const BpIrNode *mask, int32_t depth, bool *is_set) {
  Lanes a, b;
  if (mask->kind != BP_IR_LT && mask->kind != BP_IR_LE && mask->kind != BP_IR_GT &&
      mask->kind != BP_IR_GE)
    return 0;
  int found = find_pair(module, mask->operands, depth, &a, &b);
  if (found <= 0 || a.base || b.base)
    return found < 0 ? -1 : 0;
  for (int32_t i = 0; i < mask->dtype.lanes; i++)
    is_set[i] = compute(mask->kind, a.offsets[i], b.offsets[i]);
  return 1;
}

static int find_choice(BpIrModule *module, const BpIrNode *node, int32_t depth, Lanes *lanes) {
  Lanes a, b;
  bool is_set[MAX_LANES];
  int found = find_mask(module, node->operands[0], depth, is_set);
  if (found > 0)
    found = find_pair(module, node->operands + 1, depth, &a, &b);
  if (found <= 0 || !is_same_base(&a, &b))
    return found < 0 ? -1 : 0;
  lanes->base = a.base;
  for (int32_t i = 0; i < node->dtype.lanes; i++)
    lanes->offsets[i] = is_set[i] ? a.offsets[i] : b.offsets[i];
  return 1;
}

static int find_result(BpIrModule *module, const BpIrNode *node, int32_t depth, Lanes *lanes) {
  Lanes a, b;
  int found = find_pair(module, node->operands, depth, &a, &b);
  if (found > 0)
    found = find_base(module, node->kind, &a, &b, node->dtype, &lanes->base);
  for (int32_t i = 0; found > 0 && i < node->dtype.lanes; i++)
    found = fold_lane(node->kind, a.offsets[i], b.offsets[i], &lanes->offsets[i]);
  return found > 0 ? is_exact(lanes, node->dtype) : found;
}

/* Finds the lanes of an integer vector, examining `depth` levels. Returns 1, 0 if they are not at
 * constant distances, or -1 with an error. */
static int find_lanes(BpIrModule *module, const BpIrNode *node, int32_t depth, Lanes *lanes) {
  switch (node->kind) {
  case BP_IR_RAMP:
  case BP_IR_BROADCAST:
    return find_ramp(node, lanes);
  case BP_IR_SELECT:
    return depth > 0 ? find_choice(module, node, depth - 1, lanes) : 0;
  case BP_IR_ADD:
  case BP_IR_SUB:
  case BP_IR_MUL:
  case BP_IR_MIN:
  case BP_IR_MAX:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    return depth > 0 ? find_result(module, node, depth - 1, lanes) : 0;
  default:
    return 0;
  }
}

/* Finds the lanes of two vectors. */
static int find_pair(BpIrModule *module, const BpIrNode *const *nodes, int32_t depth, Lanes *a,
                     Lanes *b) {
  int found = find_lanes(module, nodes[0], depth, a);
  return found > 0 ? find_lanes(module, nodes[1], depth, b) : found;
}

/* ---- Loads ------------------------------------------------------------------------------- */

/* A load whose lanes are known. Lanes outside of the mask have the offset of one inside. */
typedef struct Gather {
  BpIrModule *module;
  const BpIrNode *load;
  Lanes lanes;
  int64_t first, last; /* least and greatest offset */
  int32_t width;       /* lanes of the vectors that are loaded */
} Gather;

/* Loads `count` neighbours. */
static const BpIrNode *load_run(const Gather *gather, int64_t offset, int32_t count) {
  BpIrModule *module = gather->module;
  const BpIrNode *base = gather->lanes.base;
  const BpIrNode *one = bp_ir_int(module, bp__dtype(BP_DTYPE_INT, 64, 1), 1);
  const BpIrNode *index = one ? bp_ir_int(module, one->dtype, offset) : NULL;
  if (base && index)
    index = bp_ir_binary(module, BP_IR_ADD, base, index);
  index = bp_ir_ramp(module, index, one, (uint16_t)count);
  return bp_ir_load(module, gather->load->operands[0], index, NULL);
}

static const BpIrNode *load_each(const Gather *gather) {
  const BpIrNode *values[MAX_LANES];
  int32_t picks[MAX_LANES];
  uint16_t count = gather->load->dtype.lanes;
  for (int32_t i = 0; i < count; i++) {
    picks[i] = i;
    if (!(values[i] = load_run(gather, gather->lanes.offsets[i], 1)))
      return NULL;
  }
  return bp__ir_shuffle(gather->module, values, count, picks, count);
}

/* The loads' widths: powers of two, as those that languages have, and not beyond the elements from
 * the first to the last. Vectors of less than half of the lanes make compilers shuffle in
 * memory. */
static bool is_in_two(Gather *gather) {
  int32_t lanes = gather->load->dtype.lanes;
  uint64_t distance = (uint64_t)gather->last - (uint64_t)gather->first;
  gather->width = 1;
  while (gather->width * 2 <= lanes && (uint64_t)gather->width * 2 <= distance + 1)
    gather->width *= 2;
  if (gather->width * 2 < lanes || (lanes == 2 && distance != 1))
    return false;
  for (int32_t i = 0; i < lanes; i++) {
    uint64_t place = (uint64_t)gather->lanes.offsets[i] - (uint64_t)gather->first;
    if (place >= (uint64_t)gather->width && distance - place >= (uint64_t)gather->width)
      return false;
  }
  return true;
}

static const BpIrNode *load_two(const Gather *gather) {
  int32_t picks[MAX_LANES], width = gather->width, count = gather->load->dtype.lanes;
  int64_t second = gather->last - width + 1;
  const BpIrNode *parts[] = {load_run(gather, gather->first, width), NULL};
  int32_t num_parts = second == gather->first ? 1 : 2;
  if (num_parts == 2)
    parts[1] = load_run(gather, second, width);
  for (int32_t i = 0; i < count; i++) {
    int64_t offset = gather->lanes.offsets[i];
    bool is_second = (uint64_t)offset - (uint64_t)gather->first >= (uint64_t)width;
    picks[i] = (int32_t)(is_second ? width + (offset - second) : offset - gather->first);
  }
  if (!parts[0] || !parts[num_parts - 1])
    return NULL;
  return bp__ir_shuffle(gather->module, parts, num_parts, picks, (uint16_t)count);
}

/* Whether a load may be replaced, by its types. A ramp of neighbours needs no shuffle. */
static bool is_gather(const BpIrNode *node) {
  if (node->kind != BP_IR_LOAD || node->dtype.lanes == 1 || node->dtype.lanes > MAX_LANES ||
      node->dtype.bits < 8 || bp__dtype_is_bool(node->dtype))
    return false;
  const BpIrNode *buffer = node->operands[0], *index = node->operands[1];
  return buffer->dtype.lanes == 1 && index->dtype.code == BP_DTYPE_INT && index->dtype.bits == 64 &&
         index->dtype.lanes == node->dtype.lanes &&
         (index->kind != BP_IR_RAMP || !bp__ir_is_int_value(index->operands[1], 1));
}

/* Finds the lanes of a load: 1, 0 if they are unknown or none is in the mask, -1 with an error. */
static int find_gather(Gather *gather) {
  const BpIrNode *load = gather->load;
  int64_t *offsets = gather->lanes.offsets;
  bool is_set[MAX_LANES];
  int32_t lanes = load->dtype.lanes, known = 0;
  int found = find_lanes(gather->module, load->operands[1], MAX_DEPTH, &gather->lanes);
  for (int32_t i = 0; i < lanes; i++)
    is_set[i] = true;
  if (found > 0 && load->num_operands > 2)
    found = find_mask(gather->module, load->operands[2], MAX_DEPTH, is_set);
  while (found > 0 && known < lanes && !is_set[known])
    known++;
  if (found <= 0 || known == lanes)
    return found < 0 ? -1 : 0;
  gather->first = gather->last = offsets[known];
  for (int32_t i = 0; i < lanes; i++) {
    if (!is_set[i])
      offsets[i] = offsets[known];
    if (offsets[i] < gather->first)
      gather->first = offsets[i];
    if (offsets[i] > gather->last)
      gather->last = offsets[i];
  }
  return 1;
}

static const BpIrNode *leave(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpIrModule *module = rewriter->module;
  Gather gather = {.module = module, .load = node};
  int found = is_gather(node) ? find_gather(&gather) : 0;
  if (found <= 0)
    return found < 0 ? NULL : node;
  const BpIrNode *value;
  if (gather.first == gather.last)
    value = bp_ir_broadcast(module, load_run(&gather, gather.first, 1), node->dtype.lanes);
  else if (is_in_two(&gather))
    value = load_two(&gather);
  else if (node->operands[1]->kind != BP_IR_RAMP)
    value = load_each(&gather);
  else
    return node;
  if (node->num_operands < 3)
    return value;
  const BpIrNode *zero = bp__dtype_is_float(node->dtype) ? bp_ir_float(module, node->dtype, 0)
                                                         : bp_ir_int(module, node->dtype, 0);
  return bp_ir_select(module, node->operands[2], value, zero);
}

const BpIrNode *bp__pass_shuffle(BpIrModule *module, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = module, .leave = leave};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
