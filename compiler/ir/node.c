/* SPDX-License-Identifier: Apache-2.0 */
/* Makes nodes without folding, and compares them; shorthands for common nodes. */

#include <math.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/intrinsics.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/scalar.h"

const BpIrNode *bp_ir_make(BpIrModule *module, int32_t kind, BpDataType dtype,
                           const BpIrNode *const *operands, int32_t num_operands, int64_t int_value,
                           double float_value, const char *str_value) {
  if (!BP_NOT_NULL(module) || !BP_IS_LIST(operands, num_operands))
    return NULL;
  int32_t depth = 0;
  for (int32_t i = 0; i < num_operands; i++) {
    if (!BP_OPERAND(operands[i]))
      return NULL;
    if (operands[i]->depth > depth)
      depth = operands[i]->depth;
  }
  if (depth >= BP__IR_MAX_DEPTH) {
    bp_error_raise(BP_ERROR_VALUE, "an IR %s would be nested deeper than %d; split the expression",
                   bp__ir_kind_name(kind), BP__IR_MAX_DEPTH);
    return NULL;
  }
  size_t size = (size_t)num_operands * sizeof *operands;
  BpIrNode *node = bp__ir_alloc(module, sizeof *node + size);
  const char *text = node ? bp__ir_strdup(module, str_value ? str_value : "") : NULL;
  if (!text)
    return NULL;
  node->kind = kind;
  node->dtype = dtype;
  node->num_operands = num_operands;
  node->depth = depth + 1;
  node->int_value = int_value;
  node->float_value = float_value;
  node->str_value = text;
  if (num_operands)
    memcpy(node->operands, operands, size);
  return node;
}

static bool has_identity(const BpIrNode *node) {
  return node->kind == BP_IR_VAR || node->kind == BP_IR_BUFFER;
}

static const BpIrNode *root_of(const BpIrMap *classes, const BpIrNode *node) {
  const BpIrNode *next;
  while ((next = bp__ir_map_get(classes, node)))
    node = next;
  return node;
}

/* Returns 1 if two deep nodes were found equal or are being compared now. Otherwise records the two
 * nodes as equal, which is correct if the comparison that follows succeeds. Returns -1 with an
 * error on failure. */
static int are_joined(BpIrMap *classes, const BpIrNode *a, const BpIrNode *b) {
  if (a->depth <= BP__IR_TREE_DEPTH)
    return 0;
  a = root_of(classes, a);
  b = root_of(classes, b);
  return a == b ? 1 : bp__ir_map_set(classes, a, b);
}

static bool are_equal(BpIrMap *classes, const BpIrNode *a, const BpIrNode *b) {
  if (a == b)
    return true;
  if (has_identity(a) || a->kind != b->kind || a->num_operands != b->num_operands ||
      a->depth != b->depth || a->int_value != b->int_value ||
      !bp__dtype_equal(a->dtype, b->dtype) ||
      memcmp(&a->float_value, &b->float_value, sizeof a->float_value) ||
      strcmp(a->str_value, b->str_value))
    return false;
  int joined = are_joined(classes, a, b);
  for (int32_t i = 0; joined == 0 && i < a->num_operands; i++)
    if (!are_equal(classes, a->operands[i], b->operands[i]))
      return false;
  return joined >= 0;
}

bool bp__ir_equal(const BpIrNode *a, const BpIrNode *b) {
  BpIrMap classes = {0};
  bool result = are_equal(&classes, a, b);
  bp__ir_map_clear(&classes);
  return result;
}

/* ---- Shorthands -------------------------------------------------------------------------- */

const BpIrNode *bp__ir_node1(BpIrModule *module, int32_t kind, BpDataType dtype,
                             const BpIrNode *a) {
  return bp_ir_make(module, kind, dtype, &a, 1, 0, 0, NULL);
}

const BpIrNode *bp__ir_node2(BpIrModule *module, int32_t kind, BpDataType dtype, const BpIrNode *a,
                             const BpIrNode *b) {
  const BpIrNode *operands[] = {a, b};
  return bp_ir_make(module, kind, dtype, operands, 2, 0, 0, NULL);
}

const BpIrNode *bp__ir_int64(BpIrModule *module, int64_t value) {
  return bp_ir_int(module, bp__dtype_int64(), value);
}

const BpIrNode *bp__ir_bool(BpIrModule *module, bool value) {
  return bp_ir_int(module, bp__dtype_bool(1), value);
}

const BpIrNode *bp__ir_number(BpIrModule *module, BpDataType dtype, double value) {
  return bp__dtype_is_float(dtype) ? bp_ir_float(module, dtype, value)
                                   : bp_ir_int(module, dtype, (int64_t)value);
}

const BpIrNode *bp__ir_str(BpIrModule *module, const char *text) {
  return bp_ir_make(module, BP_IR_STR_IMM, bp__dtype_handle(), NULL, 0, 0, 0, text);
}

const BpIrNode *bp_ir_var(BpIrModule *module, const char *name, BpDataType dtype) {
  return bp_ir_make(module, BP_IR_VAR, dtype, NULL, 0, 0, 0, name);
}

const BpIrNode *bp_ir_buffer(BpIrModule *module, const char *name, BpDataType dtype, int32_t scope,
                             const BpIrNode *const *extents, int32_t num_extents) {
  if (!BP_NOT_NULL(module) || !BP_IS_LIST(extents, num_extents))
    return NULL;
  return bp_ir_make(module, BP_IR_BUFFER, dtype, extents, num_extents, scope, 0, name);
}

const BpIrNode *bp_ir_load(BpIrModule *module, const BpIrNode *buffer, const BpIrNode *index,
                           const BpIrNode *mask) {
  if (!BP_OPERAND(buffer) || !BP_OPERAND(index))
    return NULL;
  BpDataType dtype = bp__dtype_with_lanes(buffer->dtype, index->dtype.lanes);
  int is_on = mask ? bp__ir_const_mask(mask, dtype.lanes) : 1;
  if (is_on == 0) /* compilers of generated code refuse a constant index that is out of bounds */
    return bp_ir_cast(module, dtype, mask);
  if (is_on == 1)
    mask = NULL;
  const BpIrNode *operands[] = {buffer, index, mask};
  return bp_ir_make(module, BP_IR_LOAD, dtype, operands, mask ? 3 : 2, 0, 0, NULL);
}

const BpIrNode *bp_ir_call(BpIrModule *module, BpDataType dtype, int32_t call_kind,
                           const char *name, const BpIrNode *const *args, int32_t num_args) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(name) || !BP_IS_LIST(args, num_args))
    return NULL;
  char why[160];
  for (int32_t i = 0; i < num_args; i++)
    if (!BP_OPERAND(args[i]))
      return NULL;
  if (call_kind == BP_IR_CALL_INTRINSIC &&
      !bp__intrinsic_check(name, dtype, args, num_args, why, sizeof why)) {
    bp_error_raise(BP_ERROR_TYPE, "%s", why);
    return NULL;
  }
  return bp_ir_make(module, BP_IR_CALL, dtype, args, num_args, call_kind, 0, name);
}

const BpIrNode *bp__ir_intrinsic(BpIrModule *module, const char *name, const BpIrNode *const *args,
                                 int32_t num_args) {
  if (!args[0])
    return NULL;
  return bp_ir_call(module, args[0]->dtype, BP_IR_CALL_INTRINSIC, name, args, num_args);
}

const BpIrNode *bp__ir_reinterpret(BpIrModule *module, BpDataType dtype, const BpIrNode *a) {
  if (a && bp__dtype_equal(a->dtype, dtype))
    return a;
  return bp__ir_node1(module, BP_IR_REINTERPRET, dtype, a);
}

const BpIrNode *bp__ir_reduce(BpIrModule *module, const char *op, const BpIrNode *vector) {
  if (!vector)
    return NULL;
  return bp_ir_make(module, BP_IR_REDUCE, bp__dtype_element(vector->dtype), &vector, 1, 0, 0, op);
}

const BpIrNode *bp__ir_shuffle(BpIrModule *module, const BpIrNode *const *vectors,
                               int32_t num_vectors, const int32_t *lanes, uint16_t num_lanes) {
  size_t count = (size_t)num_vectors + num_lanes;
  const BpIrNode **operands = bp__ir_alloc(module, count * sizeof *operands);
  if (!operands)
    return NULL;
  memcpy(operands, vectors, (size_t)num_vectors * sizeof *operands);
  for (int32_t i = 0; i < num_lanes; i++)
    operands[num_vectors + i] = bp_ir_int(module, bp__dtype(BP_DTYPE_INT, 32, 1), lanes[i]);
  if (!vectors[0])
    return NULL;
  return bp_ir_make(module, BP_IR_SHUFFLE, bp__dtype_with_lanes(vectors[0]->dtype, num_lanes),
                    operands, (int32_t)count, num_vectors, 0, NULL);
}

const BpIrNode *bp__ir_lane(BpIrModule *module, const BpIrNode *vector, uint16_t lane) {
  if (!vector || vector->dtype.lanes == 1)
    return vector;
  if (vector->kind == BP_IR_BROADCAST)
    return vector->operands[0];
  int32_t position = lane;
  return bp__ir_shuffle(module, &vector, 1, &position, 1);
}

const BpIrNode *bp__ir_attr(BpIrModule *module, const char *key, const BpIrNode *const *values,
                            int32_t num_values) {
  return bp_ir_make(module, BP_IR_ATTR, bp__dtype_void(), values, num_values, 0, 0, key);
}

const BpIrNode *bp__ir_find_attr(const BpIrNode *function, const char *key) {
  for (int32_t i = (int32_t)function->int_value; i < function->num_operands - 1; i++)
    if (!strcmp(function->operands[i]->str_value, key))
      return function->operands[i];
  return NULL;
}

int64_t bp__ir_attr_int(const BpIrNode *function, const char *key, int64_t otherwise) {
  const BpIrNode *attr = bp__ir_find_attr(function, key);
  if (!attr || attr->num_operands == 0 || attr->operands[0]->kind != BP_IR_INT_IMM)
    return otherwise;
  return attr->operands[0]->int_value;
}
