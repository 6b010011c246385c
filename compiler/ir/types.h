/* SPDX-License-Identifier: Apache-2.0 */
/* Deriving a construct's type from its operands, for parser and verifier. */
#ifndef BACKPLANE_COMPILER_IR_TYPES_H
#define BACKPLANE_COMPILER_IR_TYPES_H

#include "compiler/ir/ir.h"

/* Whether values may have lanes of this type. */
bool bp__dtype_is_number(BpDataType dtype);

/* The required type ("an integer") of the first operand of a two-operand kind, or of NOT, if this
 * type does not match; NULL: it does. Used by makers and verifier. */
const char *bp__ir_wanted_type(int32_t kind, BpDataType dtype);

/* Whether the type of a construct follows from its operands; if so, stores it. False for constants,
 * VAR, CAST, REINTERPRET, CALL and BUFFER, which state theirs. `lanes` is that of RAMP and
 * BROADCAST; `num_vectors` the int of SHUFFLE. The construct must have all its operands. */
bool bp__ir_infer_dtype(int32_t kind, const BpIrNode *const *operands, int32_t num_operands,
                        uint16_t lanes, int64_t num_vectors, BpDataType *dtype);

#endif
