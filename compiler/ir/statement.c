/* SPDX-License-Identifier: Apache-2.0 */
/* Makes statements and functions. */

#include "compiler/ir/argument.h"
#include "compiler/ir/ir.h"

static const BpIrNode *statement(BpIrModule *module, int32_t kind, const BpIrNode *const *operands,
                                 int32_t num_operands, int64_t int_value, const char *text) {
  return bp_ir_make(module, kind, bp__dtype_void(), operands, num_operands, int_value, 0, text);
}

const BpIrNode *bp_ir_store(BpIrModule *module, const BpIrNode *buffer, const BpIrNode *index,
                            const BpIrNode *value, const BpIrNode *mask) {
  if (!BP_OPERAND(index) || !BP_OPERAND(value))
    return NULL;
  if (value->dtype.lanes == 1 && index->dtype.lanes > 1)
    value = bp_ir_broadcast(module, value, index->dtype.lanes);
  if (mask && bp__ir_const_mask(mask, index->dtype.lanes) == 1)
    mask = NULL;
  const BpIrNode *operands[] = {buffer, index, value, mask};
  return statement(module, BP_IR_STORE, operands, mask ? 4 : 3, 0, NULL);
}

const BpIrNode *bp__ir_nothing(BpIrModule *module) {
  return statement(module, BP_IR_SEQ, NULL, 0, 0, NULL);
}

const BpIrNode *bp_ir_seq(BpIrModule *module, const BpIrNode *const *statements, int32_t count) {
  if (!BP_NOT_NULL(module) || !BP_IS_LIST(statements, count))
    return NULL;
  int64_t total = 0;
  for (int32_t i = 0; i < count; i++) {
    if (!BP_OPERAND(statements[i]))
      return NULL;
    total += statements[i]->kind == BP_IR_SEQ ? statements[i]->num_operands : 1;
  }
  if (total > INT32_MAX) {
    bp_error_raise(BP_ERROR_VALUE, "a sequence of %lld statements is too long", (long long)total);
    return NULL;
  }
  if (count == 1)
    return statements[0];
  const BpIrNode **flat = bp__ir_alloc(module, (size_t)total * sizeof *flat);
  if (!flat)
    return NULL;
  int32_t size = 0;
  for (int32_t i = 0; i < count; i++) {
    const BpIrNode *one = statements[i];
    if (one->kind != BP_IR_SEQ) {
      flat[size++] = one;
    } else {
      memcpy(flat + size, one->operands, (size_t)one->num_operands * sizeof *flat);
      size += one->num_operands;
    }
  }
  return size == 1 ? flat[0] : statement(module, BP_IR_SEQ, flat, size, 0, NULL);
}

const BpIrNode *bp_ir_for(BpIrModule *module, const BpIrNode *var, const BpIrNode *min,
                          const BpIrNode *extent, int32_t for_kind, const char *axis,
                          const BpIrNode *body) {
  if (!BP_OPERAND(var) || !BP_OPERAND(min) || !BP_OPERAND(extent) || !BP_OPERAND(body))
    return NULL;
  if (for_kind != BP_IR_FOR_BOUND && (bp__ir_is_int_value(extent, 0) || bp__ir_is_nothing(body)))
    return bp__ir_nothing(module);
  const BpIrNode *operands[] = {var, min, extent, body};
  return statement(module, BP_IR_FOR, operands, 4, for_kind, axis);
}

const BpIrNode *bp_ir_if(BpIrModule *module, const BpIrNode *condition, const BpIrNode *then_body,
                         const BpIrNode *else_body) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(condition) || !BP_OPERAND(then_body))
    return NULL;
  int64_t known;
  if (bp__ir_const_int(condition, &known)) {
    if (known)
      return then_body;
    return else_body ? else_body : bp__ir_nothing(module);
  }
  if (else_body && bp__ir_is_nothing(else_body))
    else_body = NULL;
  const BpIrNode *operands[] = {condition, then_body, else_body};
  return statement(module, BP_IR_IF, operands, else_body ? 3 : 2, 0, NULL);
}

const BpIrNode *bp_ir_let(BpIrModule *module, const BpIrNode *var, const BpIrNode *value,
                          const BpIrNode *body) {
  const BpIrNode *operands[] = {var, value, body};
  return statement(module, BP_IR_LET, operands, 3, 0, NULL);
}

const BpIrNode *bp_ir_allocate(BpIrModule *module, const BpIrNode *buffer, const BpIrNode *body) {
  const BpIrNode *operands[] = {buffer, body};
  return statement(module, BP_IR_ALLOCATE, operands, 2, 0, NULL);
}

const BpIrNode *bp__ir_evaluate(BpIrModule *module, const BpIrNode *expression) {
  return statement(module, BP_IR_EVALUATE, &expression, 1, 0, NULL);
}

const BpIrNode *bp__ir_barrier(BpIrModule *module, const char *scope) {
  return statement(module, BP_IR_BARRIER, NULL, 0, 0, scope);
}

const BpIrNode *bp__ir_assert(BpIrModule *module, const BpIrNode *condition, const char *message) {
  if (condition && condition->kind == BP_IR_INT_IMM && condition->int_value)
    return bp__ir_nothing(module);
  return statement(module, BP_IR_ASSERT, &condition, 1, 0, message);
}

const BpIrNode *bp__ir_while(BpIrModule *module, const BpIrNode *condition, const BpIrNode *body) {
  if (condition && bp__ir_is_int_value(condition, 0))
    return bp__ir_nothing(module);
  const BpIrNode *operands[] = {condition, body};
  return statement(module, BP_IR_WHILE, operands, 2, 0, NULL);
}

const BpIrNode *bp_ir_function(BpIrModule *module, const char *name, const BpIrNode *const *params,
                               int32_t num_params, const BpIrNode *const *attrs, int32_t num_attrs,
                               const BpIrNode *body) {
  if (!BP_NOT_NULL(module) || !BP_IS_LIST(params, num_params) || !BP_IS_LIST(attrs, num_attrs))
    return NULL;
  size_t count = (size_t)num_params + (size_t)num_attrs + 1;
  const BpIrNode **operands = bp__ir_alloc(module, count * sizeof *operands);
  if (!operands)
    return NULL;
  if (num_params)
    memcpy(operands, params, (size_t)num_params * sizeof *operands);
  if (num_attrs)
    memcpy(operands + num_params, attrs, (size_t)num_attrs * sizeof *operands);
  operands[count - 1] = body;
  return statement(module, BP_IR_FUNCTION, operands, (int32_t)count, num_params, name);
}
