/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the text form that the printer and the parser share. */
#ifndef BACKPLANE_COMPILER_IR_SYNTAX_H
#define BACKPLANE_COMPILER_IR_SYNTAX_H

#include "compiler/ir/ir.h"

/* The words for BP_IR_FOR_*, BP_IR_SCOPE_* and BP_IR_CALL_*; NULL ends each list. */
extern const char *const bp__ir_for_words[];
extern const char *const bp__ir_scope_words[];
extern const char *const bp__ir_call_words[];
/* The word for the int 1 of a SELECT. */
#define BP__IR_UNMASKED "unmasked"

/* Returns the text form of a construct: one letter for each operand or scalar after its word:
 *   'T' its type           'n' its int                 's' its text, quoted
 *   'e' an expression      'm' an expression, absent at the end
 *   'E' expressions to the end
 *   'b' a body statement   'B' statements to the end   'o' a statement, absent at the end
 *   'v' the VAR that it binds                          'D' the BUFFER that it declares
 *   'L' lanes of its type  'f' 'c' words for its int: a loop kind, a call kind
 *   'r' its text as a plain word                       'u' the word of its int, absent if 0
 * Returns NULL for a construct with a form of its own (constants, VAR, BUFFER, FUNCTION). */
const char *bp__ir_form(int32_t kind);

/* Writes a type such as "float32x4", "handle" or "void" to `text`, of 32 bytes; and parses a type:
 * false if the text is not a type. */
void bp__ir_format_dtype(BpDataType dtype, char *text);
bool bp__ir_parse_dtype(const char *text, size_t size, BpDataType *dtype);

#endif
