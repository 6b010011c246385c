/* SPDX-License-Identifier: Apache-2.0 */
/* Derives a construct's type from its operands. */

#include "compiler/ir/types.h"

bool bp__dtype_is_number(BpDataType dtype) {
  uint8_t bits = dtype.bits;
  if (dtype.lanes == 0)
    return false;
  switch (dtype.code) {
  case BP_DTYPE_INT:
  case BP_DTYPE_UINT:
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
  case BP_DTYPE_FLOAT:
    return bits == 16 || bits == 32 || bits == 64;
  case BP_DTYPE_BFLOAT:
    return bits == 16;
  case BP_DTYPE_BOOL:
    return bits == 8;
  default:
    return false;
  }
}

const char *bp__ir_wanted_type(int32_t kind, BpDataType dtype) {
  bool is_bool = bp__dtype_is_bool(dtype), is_int = bp__dtype_is_int(dtype);
  switch (kind) {
  case BP_IR_NOT:
  case BP_IR_AND:
  case BP_IR_OR:
    return is_bool ? NULL : "bool";
  case BP_IR_EQ:
  case BP_IR_NE:
    return bp__dtype_is_number(dtype) ? NULL : "a number";
  case BP_IR_BIT_AND:
  case BP_IR_BIT_OR:
  case BP_IR_BIT_XOR:
    return is_int || is_bool ? NULL : "an integer";
  case BP_IR_MOD:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
  case BP_IR_SHL:
  case BP_IR_SHR:
    return is_int ? NULL : "an integer";
  default:
    return is_int || bp__dtype_is_float(dtype) ? NULL : "a number";
  }
}

bool bp__ir_infer_dtype(int32_t kind, const BpIrNode *const *operands, int32_t num_operands,
                        uint16_t lanes, int64_t num_vectors, BpDataType *dtype) {
  if (kind >= BP_IR_SEQ) {
    *dtype = bp__dtype_void();
    return kind != BP_IR_BUFFER;
  }
  if (num_operands == 0)
    return false;
  BpDataType first = operands[0]->dtype;
  *dtype = first;
  switch (kind) {
  case BP_IR_CAST:
  case BP_IR_REINTERPRET:
  case BP_IR_CALL:
    return false;
  case BP_IR_SELECT:
    *dtype = operands[1]->dtype;
    return true;
  case BP_IR_LOAD:
    *dtype = bp__dtype_with_lanes(first, operands[1]->dtype.lanes);
    return true;
  case BP_IR_ADDRESS:
    *dtype = bp__dtype_handle();
    return true;
  case BP_IR_RAMP:
  case BP_IR_BROADCAST:
    *dtype = bp__dtype_with_lanes(first, lanes);
    return true;
  case BP_IR_SHUFFLE:
    *dtype = bp__dtype_with_lanes(first, (uint16_t)(num_operands - num_vectors));
    return num_operands - num_vectors <= UINT16_MAX;
  case BP_IR_REDUCE:
    *dtype = bp__dtype_element(first);
    return true;
  default:
    if (kind >= BP_IR_EQ && kind <= BP_IR_GE)
      *dtype = bp__dtype_bool(first.lanes);
    return true;
  }
}
