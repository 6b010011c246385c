/* SPDX-License-Identifier: Apache-2.0 */
/* The type that a construct has by its operands: the rule that parser and verifier share. */
#ifndef BACKPLANE_COMPILER_IR_TYPES_H
#define BACKPLANE_COMPILER_IR_TYPES_H

#include "compiler/ir/ir.h"

/* A type that lanes of values may have. */
bool bp__dtype_is_number(BpDataType dtype);

/* What the first operand of a two-operand kind, or of NOT, has to be ("an integer") where this type
 * is not; NULL: it fits. The rule of makers and verifier. */
const char *bp__ir_wanted_type(int32_t kind, BpDataType dtype);

/* Whether the type of a construct follows from its operands; if so gives it. False for constants,
 * VAR, CAST, REINTERPRET, CALL and BUFFER, which state theirs. `lanes` is that of RAMP and
 * BROADCAST; `num_vectors` the int of SHUFFLE. The operands are as many as the construct needs. */
bool bp__ir_infer_dtype(int32_t kind, const BpIrNode *const *operands, int32_t num_operands,
                        uint16_t lanes, int64_t num_vectors, BpDataType *dtype);

#endif
