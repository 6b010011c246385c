/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on one lane, for the folding makers and for the interpreter. A lane's integer is
 * wrapped to its type and stored in an int64 (a uint64 by its bits), a bool as 0 or 1, a float as a
 * double that its type can represent. */
#ifndef BACKPLANE_COMPILER_IR_SCALAR_H
#define BACKPLANE_COMPILER_IR_SCALAR_H

#include <stdbool.h>

#include <backplane/value.h>

typedef union BpIrScalar {
  int64_t i;
  double f;
} BpIrScalar;

/* Converts a value to a type: integers wrap, floats round to nearest even, bool is value != 0. */
int64_t bp__scalar_wrap(BpDataType dtype, int64_t value);
double bp__scalar_round(BpDataType dtype, double value);

/* Evaluates a construct of kind ADD to OR or BIT_AND to SHR on operands of a type that the kind
 * accepts. */
BpIrScalar bp__scalar_binary(int32_t kind, BpDataType dtype, BpIrScalar a, BpIrScalar b);
BpIrScalar bp__scalar_cast(BpDataType to, BpDataType from, BpIrScalar value);
/* Reads or writes an element in memory. */
BpIrScalar bp__scalar_load(BpDataType dtype, const void *from);
void bp__scalar_store(BpDataType dtype, void *to, BpIrScalar value);

/* Converts IEEE binary16 and bfloat16 from and to their bits. */
double bp__scalar_from_half(uint16_t bits);
uint16_t bp__scalar_to_half(double value);
double bp__scalar_from_bfloat(uint16_t bits);
uint16_t bp__scalar_to_bfloat(double value);

#endif
