/* SPDX-License-Identifier: Apache-2.0 */
/* Derives a construct's type from its operands, for the parser and the verifier. */
#ifndef BACKPLANE_COMPILER_IR_TYPES_H
#define BACKPLANE_COMPILER_IR_TYPES_H

#include "compiler/ir/ir.h"

/* Whether values may have lanes of a type. */
bool bp__dtype_is_number(BpDataType dtype);

/* The required type ("an integer") of the first operand of a two-operand kind or of NOT if `dtype`
 * does not match it; NULL if it matches. Makers and the verifier call bp__ir_wanted_type. */
const char *bp__ir_wanted_type(int32_t kind, BpDataType dtype);

/* Whether the type of a construct follows from its operands; if so, stores the type. Constants,
 * VAR, CAST, REINTERPRET, CALL and BUFFER state their type, so the result is false. `lanes` is the
 * number of lanes of a RAMP or BROADCAST, `num_vectors` the number of vectors of a SHUFFLE. The
 * construct must be complete. */
bool bp__ir_infer_dtype(int32_t kind, const BpIrNode *const *operands, int32_t num_operands,
                        uint16_t lanes, int64_t num_vectors, BpDataType *dtype);

#endif
