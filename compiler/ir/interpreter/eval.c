/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions. Both choices of a select and both sides of and/or are evaluated, so that a
 * program that relies on skipping one of them is detected. */

#include <inttypes.h>

#include "compiler/ir/interpreter/state.h"

/* ---- Numbers ----------------------------------------------------------------------------- */

static int eval_binary(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *a = bp__interpreter_eval(thread, op->operands[0]);
  const BpIrScalar *b = a ? bp__interpreter_eval(thread, op->operands[1]) : NULL;
  if (!b)
    return -1;
  BpDataType dtype = op->operands[0]->dtype;
  for (int32_t i = 0; i < op->lanes; i++)
    result[i] = bp__scalar_binary(op->kind, dtype, a[i], b[i]);
  return 0;
}

static int eval_not(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *a = bp__interpreter_eval(thread, op->operands[0]);
  for (int32_t i = 0; a && i < op->lanes; i++)
    result[i].i = !a[i].i;
  return a ? 0 : -1;
}

static int eval_select(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *condition = bp__interpreter_eval(thread, op->operands[0]);
  const BpIrScalar *a = condition ? bp__interpreter_eval(thread, op->operands[1]) : NULL;
  const BpIrScalar *b = a ? bp__interpreter_eval(thread, op->operands[2]) : NULL;
  for (int32_t i = 0; b && i < op->lanes; i++)
    result[i] = condition[i].i ? a[i] : b[i];
  return b ? 0 : -1;
}

static int eval_cast(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *a = bp__interpreter_eval(thread, op->operands[0]);
  for (int32_t i = 0; a && i < op->lanes; i++)
    result[i] = bp__scalar_cast(op->dtype, op->operands[0]->dtype, a[i]);
  return a ? 0 : -1;
}

/* A lane is at most 8 bytes, and lanes are contiguous in memory: each element of the larger type is
 * copied through one 8-byte variable. */
static int eval_reinterpret(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *a = bp__interpreter_eval(thread, op->operands[0]);
  if (!a)
    return -1;
  BpDataType from = op->operands[0]->dtype, to = op->dtype;
  unsigned from_bytes = from.bits / 8, to_bytes = to.bits / 8;
  unsigned window = from_bytes > to_bytes ? from_bytes : to_bytes;
  char bytes[8];
  for (unsigned start = 0; start < from_bytes * from.lanes; start += window) {
    for (unsigned i = 0; i < window; i += from_bytes)
      bp__scalar_store(from, bytes + i, a[(start + i) / from_bytes]);
    for (unsigned i = 0; i < window; i += to_bytes)
      result[(start + i) / to_bytes] = bp__scalar_load(to, bytes + i);
  }
  return 0;
}

static int eval_intrinsic(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIntrinsic *intrinsic = op->intrinsic;
  if (intrinsic->types == BP__INTRINSIC_PREFETCH)
    return 0;
  const BpIrScalar *args[3] = {NULL, NULL, NULL};
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!(args[i] = bp__interpreter_eval(thread, op->operands[i])))
      return -1;
  BpDataType dtype = op->operands[0]->dtype;
  bool is_float = bp__dtype_is_float(dtype);
  for (int32_t i = 0; i < op->lanes; i++) {
    if (!is_float) {
      const int64_t values[3] = {args[0][i].i, args[1] ? args[1][i].i : 0,
                                 args[2] ? args[2][i].i : 0};
      result[i].i = bp__scalar_wrap(dtype, intrinsic->eval_int(values, dtype));
      continue;
    }
    double value =
        intrinsic->eval(args[0][i].f, args[1] ? args[1][i].f : 0, args[2] ? args[2][i].f : 0);
    if (intrinsic->types == BP__INTRINSIC_TEST)
      result[i].i = value != 0;
    else
      result[i].f = bp__scalar_round(dtype, value);
  }
  return 0;
}

/* ---- Memory ------------------------------------------------------------------------------ */

int bp__interpreter_buffer_size(BpThread *thread, const BpOp *buffer, int64_t *size) {
  *size = 1;
  for (int32_t i = 0; i < buffer->num_operands; i++) {
    const BpIrScalar *extent = bp__interpreter_eval(thread, buffer->operands[i]);
    if (!extent)
      return -1;
    if (extent->i < 0 || __builtin_mul_overflow(*size, extent->i, size))
      return bp_error_raise(BP_ERROR_VALUE, "extent %d of buffer '%s' is %" PRId64, i,
                            buffer->node->str_value, extent->i);
  }
  return 0;
}

/* The address of one element; NULL with an error if it is outside the buffer. */
static char *element(BpThread *thread, const BpOp *buffer, int64_t index) {
  const BpStorage *storage = &thread->buffers[buffer->buffer];
  if (index < 0 || index >= storage->size) {
    bp_error_raise(BP_ERROR_INDEX, "element %" PRId64 " of buffer '%s', which has %" PRId64, index,
                   buffer->node->str_value, storage->size);
    return NULL;
  }
  return storage->data + index * (buffer->dtype.bits / 8);
}

static int eval_load(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpOp *buffer = op->operands[0];
  const BpIrScalar *index = bp__interpreter_eval(thread, op->operands[1]);
  const BpIrScalar *mask = NULL;
  if (!index)
    return -1;
  if (op->num_operands > 2 && !(mask = bp__interpreter_eval(thread, op->operands[2])))
    return -1;
  for (int32_t i = 0; i < op->lanes; i++) {
    result[i].i = 0; /* an integer 0 has the same bits as 0.0 */
    if (mask && !mask[i].i)
      continue;
    const char *from = element(thread, buffer, index[i].i);
    if (!from)
      return -1;
    result[i] = bp__scalar_load(buffer->dtype, from);
  }
  return 0;
}

int bp__interpreter_store(BpThread *thread, const BpOp *op) {
  const BpOp *buffer = op->operands[0];
  const BpIrScalar *index = bp__interpreter_eval(thread, op->operands[1]);
  const BpIrScalar *value = index ? bp__interpreter_eval(thread, op->operands[2]) : NULL;
  const BpIrScalar *mask = NULL;
  if (!value)
    return -1;
  if (op->num_operands > 3 && !(mask = bp__interpreter_eval(thread, op->operands[3])))
    return -1;
  for (int32_t i = 0; i < op->operands[1]->lanes; i++) {
    if (mask && !mask[i].i)
      continue;
    char *to = element(thread, buffer, index[i].i);
    if (!to)
      return -1;
    bp__scalar_store(buffer->dtype, to, value[i]);
  }
  return 0;
}

static int eval_address(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *index = bp__interpreter_eval(thread, op->operands[1]);
  const char *address = index ? element(thread, op->operands[0], index->i) : NULL;
  result->i = (int64_t)(intptr_t)address;
  return address ? 0 : -1;
}

/* ---- Vectors ----------------------------------------------------------------------------- */

static int eval_ramp(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *base = bp__interpreter_eval(thread, op->operands[0]);
  const BpIrScalar *stride = base ? bp__interpreter_eval(thread, op->operands[1]) : NULL;
  for (int32_t i = 0; stride && i < op->lanes; i++)
    result[i].i = bp__scalar_wrap(op->dtype,
                                  (int64_t)((uint64_t)base->i + (uint64_t)i * (uint64_t)stride->i));
  return stride ? 0 : -1;
}

static int eval_broadcast(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const BpIrScalar *a = bp__interpreter_eval(thread, op->operands[0]);
  for (int32_t i = 0; a && i < op->lanes; i++)
    result[i] = *a;
  return a ? 0 : -1;
}

static int eval_shuffle(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  int64_t start = 0;
  for (int32_t v = 0; v < op->node->int_value; v++) {
    const BpOp *vector = op->operands[v];
    const BpIrScalar *from = bp__interpreter_eval(thread, vector);
    if (!from)
      return -1;
    for (int32_t i = 0; i < op->lanes; i++) {
      int64_t lane = op->operands[op->node->int_value + i]->node->int_value - start;
      if (lane >= 0 && lane < vector->lanes)
        result[i] = from[lane];
    }
    start += vector->lanes;
  }
  return 0;
}

static int eval_reduce(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  const char *name = op->node->str_value;
  int32_t kind = bp__ir_kind_by_name(name, strlen(name));
  const BpIrScalar *lanes = bp__interpreter_eval(thread, op->operands[0]);
  if (!lanes)
    return -1;
  *result = lanes[0];
  for (int32_t i = 1; i < op->operands[0]->lanes; i++)
    *result = bp__scalar_binary(kind, op->dtype, *result, lanes[i]);
  return 0;
}

/* ---- All --------------------------------------------------------------------------------- */

static int eval_into(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  switch (op->kind) {
  case BP_IR_INT_IMM:
    result->i = op->node->int_value;
    return 0;
  case BP_IR_FLOAT_IMM:
    result->f = op->node->float_value;
    return 0;
  case BP_IR_STR_IMM:
    result->i = (int64_t)(intptr_t)op->node->str_value;
    return 0;
  case BP_IR_NOT:
    return eval_not(thread, op, result);
  case BP_IR_SELECT:
    return eval_select(thread, op, result);
  case BP_IR_CAST:
    return eval_cast(thread, op, result);
  case BP_IR_REINTERPRET:
    return eval_reinterpret(thread, op, result);
  case BP_IR_LOAD:
    return eval_load(thread, op, result);
  case BP_IR_ADDRESS:
    return eval_address(thread, op, result);
  case BP_IR_RAMP:
    return eval_ramp(thread, op, result);
  case BP_IR_BROADCAST:
    return eval_broadcast(thread, op, result);
  case BP_IR_SHUFFLE:
    return eval_shuffle(thread, op, result);
  case BP_IR_REDUCE:
    return eval_reduce(thread, op, result);
  case BP_IR_CALL:
    return op->node->int_value == BP_IR_CALL_INTRINSIC ? eval_intrinsic(thread, op, result)
                                                       : bp__interpreter_call(thread, op, result);
  default:
    return eval_binary(thread, op, result);
  }
}

const BpIrScalar *bp__interpreter_eval(BpThread *thread, const BpOp *op) {
  BpIrScalar *result = thread->frame + op->slot;
  if (op->kind == BP_IR_VAR)
    return result;
  if (op->memo) {
    if (thread->ticks[op->memo] == thread->tick)
      return result;
    thread->ticks[op->memo] = thread->tick;
  }
  return eval_into(thread, op, result) ? NULL : result;
}
