/* SPDX-License-Identifier: Apache-2.0 */
/* Making, printing, checking and interpreting IR modules. Kinds, operands and scalars are described
 * in ir_api.h, which also declares the functions that read a module.
 *
 * All nodes belong to the module in the first argument and live as long as the module. A function
 * that gets a NULL operand returns NULL and keeps the error of this thread, so a caller checks a
 * whole expression once, at its end. Any other NULL, where none is allowed, is an error of kind
 * BP_ERROR_VALUE. A NULL name is "". A module under construction belongs to one thread. */
#ifndef BACKPLANE_COMPILER_IR_H
#define BACKPLANE_COMPILER_IR_H

#include <backplane/api.h>
#include <backplane/ir_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an empty module (transfer full), released with bp_object_release. */
BP_API BpIrModule *bp_ir_module_create(void);
/* Adds a FUNCTION of this module; a duplicate name is an error. */
BP_API int bp_ir_module_add(BpIrModule *module, const BpIrNode *function);
/* Returns the function with a name, or NULL without an error. */
BP_API const BpIrNode *bp_ir_module_find(const BpIrModule *module, const char *name);
/* Returns the table of functions that read a module, which generators also use. Static. */
BP_API const BpIrTable *bp_ir_table(void);
/* Returns the name of an intrinsic by its number, from 0; static. NULL for a number beyond the
 * last. Numbers of intrinsics may change from version to version. */
BP_API const char *bp_ir_intrinsic_name(int32_t index);

/* Makes any node: operands and text (NULL: "") are copied. Types and counts are checked by the
 * verifier, not here. */
BP_API const BpIrNode *bp_ir_make(BpIrModule *module, int32_t kind, BpDataType dtype,
                                  const BpIrNode *const *operands, int32_t num_operands,
                                  int64_t int_value, double float_value, const char *str_value);

/* ---- Expressions, with constants folded and the obvious identities applied ---------------
 * Operands of wrong types are an error (BP_ERROR_TYPE), as in the verifier. */
BP_API const BpIrNode *bp_ir_int(BpIrModule *module, BpDataType dtype, int64_t value);
BP_API const BpIrNode *bp_ir_float(BpIrModule *module, BpDataType dtype, double value);
BP_API const BpIrNode *bp_ir_var(BpIrModule *module, const char *name, BpDataType dtype);
/* Makes a node of a kind with two operands: ADD .. OR, BIT_AND .. SHR. A scalar operand beside a
 * vector is broadcast. */
BP_API const BpIrNode *bp_ir_binary(BpIrModule *module, int32_t kind, const BpIrNode *a,
                                    const BpIrNode *b);
BP_API const BpIrNode *bp_ir_not(BpIrModule *module, const BpIrNode *a);
BP_API const BpIrNode *bp_ir_select(BpIrModule *module, const BpIrNode *condition,
                                    const BpIrNode *a, const BpIrNode *b);
BP_API const BpIrNode *bp_ir_cast(BpIrModule *module, BpDataType dtype, const BpIrNode *a);
BP_API const BpIrNode *bp_ir_ramp(BpIrModule *module, const BpIrNode *base, const BpIrNode *stride,
                                  uint16_t lanes);
BP_API const BpIrNode *bp_ir_broadcast(BpIrModule *module, const BpIrNode *a, uint16_t lanes);
/* call_kind: BP_IR_CALL_*. */
BP_API const BpIrNode *bp_ir_call(BpIrModule *module, BpDataType dtype, int32_t call_kind,
                                  const char *name, const BpIrNode *const *args, int32_t num_args);
BP_API const BpIrNode *bp_ir_buffer(BpIrModule *module, const char *name, BpDataType dtype,
                                    int32_t scope, const BpIrNode *const *extents,
                                    int32_t num_extents);
/* mask may be NULL. The index has as many lanes as the result. */
BP_API const BpIrNode *bp_ir_load(BpIrModule *module, const BpIrNode *buffer, const BpIrNode *index,
                                  const BpIrNode *mask);

/* ---- Statements -------------------------------------------------------------------------- */

/* mask may be NULL. The index has as many lanes as the value. */
BP_API const BpIrNode *bp_ir_store(BpIrModule *module, const BpIrNode *buffer,
                                   const BpIrNode *index, const BpIrNode *value,
                                   const BpIrNode *mask);
/* Makes a sequence. Nested sequences are flattened; a single statement is returned unchanged. */
BP_API const BpIrNode *bp_ir_seq(BpIrModule *module, const BpIrNode *const *statements,
                                 int32_t count);
/* for_kind: BP_IR_FOR_*; axis: the thread axis of a bound loop, else "". */
BP_API const BpIrNode *bp_ir_for(BpIrModule *module, const BpIrNode *var, const BpIrNode *min,
                                 const BpIrNode *extent, int32_t for_kind, const char *axis,
                                 const BpIrNode *body);
BP_API const BpIrNode *bp_ir_if(BpIrModule *module, const BpIrNode *condition,
                                const BpIrNode *then_body, const BpIrNode *else_body);
BP_API const BpIrNode *bp_ir_let(BpIrModule *module, const BpIrNode *var, const BpIrNode *value,
                                 const BpIrNode *body);
BP_API const BpIrNode *bp_ir_allocate(BpIrModule *module, const BpIrNode *buffer,
                                      const BpIrNode *body);
/* attrs may be NULL with num_attrs 0. */
BP_API const BpIrNode *bp_ir_function(BpIrModule *module, const char *name,
                                      const BpIrNode *const *params, int32_t num_params,
                                      const BpIrNode *const *attrs, int32_t num_attrs,
                                      const BpIrNode *body);

/* ---- Text, checks, meaning --------------------------------------------------------------- */

/* Returns the text form of a module (transfer full, freed with bp_str_free). Parsing the text gives
 * an equal module. */
BP_API char *bp_ir_print(const BpIrModule *module);
/* Parses the text form of a module (transfer full). The text is untrusted: a malformed text is an
 * error with line and column. */
BP_API BpIrModule *bp_ir_parse(const char *text, size_t size);
/* Checks types, operand counts, scopes of variables and buffers; the error names the function and
 * the place. */
BP_API int bp_ir_verify(const BpIrModule *module);
/* The reference interpreter: runs a function on host memory; buffers as tensor views, scalars as
 * int or float. The interpreter is slow and simple; it checks the bounds of every access. */
BP_API int bp_ir_interpret(const BpIrModule *module, const char *function, const BpValue *args,
                           int32_t num_args);
/* Interprets a function for at most *steps statements; each iteration of a loop counts as one.
 * *steps becomes the number of steps left. Code that needs more steps is an error of kind
 * BP_ERROR_RUNTIME, with *steps 0. */
BP_API int bp_ir_interpret_steps(const BpIrModule *module, const char *function,
                                 const BpValue *args, int32_t num_args, int64_t *steps);

#ifdef __cplusplus
}
#endif

#endif
