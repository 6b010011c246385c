/* SPDX-License-Identifier: Apache-2.0 */
/* Making, printing, checking and interpreting IR modules. Kinds, operands and scalars are those of
 * ir_api.h, where the reading side is.
 *
 * All nodes belong to the module given first and live as long as it. A maker that is given a NULL
 * operand returns NULL and leaves the error that caused it, so a whole expression is checked once,
 * at its end. A module under construction belongs to one thread. */
#ifndef BACKPLANE_COMPILER_IR_H
#define BACKPLANE_COMPILER_IR_H

#include <backplane/api.h>
#include <backplane/ir_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An empty module (transfer full), released with bp_object_release. */
BP_API BpIrModule *bp_ir_module_create(void);
/* Adds a FUNCTION of this module; a name that is taken is an error. */
BP_API int bp_ir_module_add(BpIrModule *module, const BpIrNode *function);
/* The function of that name, or NULL with no error raised. */
BP_API const BpIrNode *bp_ir_module_find(const BpIrModule *module, const char *name);
/* The reading accessors, as generators get them. Static. */
BP_API const BpIrTable *bp_ir_table(void);
/* The name of an intrinsic by its number, from 0; static. NULL: there are no more. Numbers may
 * change from version to version. */
BP_API const char *bp_ir_intrinsic_name(int32_t index);

/* The general maker: operands are copied, text too (NULL: ""). Types and counts are checked by the
 * verifier, not here. */
BP_API const BpIrNode *bp_ir_make(BpIrModule *module, int32_t kind, BpDataType dtype,
                                  const BpIrNode *const *operands, int32_t num_operands,
                                  int64_t int_value, double float_value, const char *str_value);

/* ---- Expressions, with constants folded and the obvious identities applied ---------------
 * Operands of the wrong types are an error here (BP_ERROR_TYPE), as they are to the verifier. */
BP_API const BpIrNode *bp_ir_int(BpIrModule *module, BpDataType dtype, int64_t value);
BP_API const BpIrNode *bp_ir_float(BpIrModule *module, BpDataType dtype, double value);
BP_API const BpIrNode *bp_ir_var(BpIrModule *module, const char *name, BpDataType dtype);
/* Two-operand kinds ADD .. OR, BIT_AND .. SHR. A scalar operand beside a vector is broadcast. */
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
/* mask may be NULL. The lanes of the index are those of the result. */
BP_API const BpIrNode *bp_ir_load(BpIrModule *module, const BpIrNode *buffer, const BpIrNode *index,
                                  const BpIrNode *mask);

/* ---- Statements -------------------------------------------------------------------------- */

/* mask may be NULL. The lanes of the index are those of the value. */
BP_API const BpIrNode *bp_ir_store(BpIrModule *module, const BpIrNode *buffer,
                                   const BpIrNode *index, const BpIrNode *value,
                                   const BpIrNode *mask);
/* Flattens nested sequences; one statement is itself. */
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

/* The text form of a module (transfer full, freed with bp_str_free). Parsing it gives an equal
 * module. */
BP_API char *bp_ir_print(const BpIrModule *module);
/* Parses it (transfer full). Untrusted input: a malformed text is an error with line and column. */
BP_API BpIrModule *bp_ir_parse(const char *text, size_t size);
/* Checks types, operand counts, scopes of variables and buffers; the error names function and
 * place. */
BP_API int bp_ir_verify(const BpIrModule *module);
/* The reference interpreter: runs a function on host memory; buffers as tensor views, scalars as
 * int or float. Slow and simple; bounds of every access are checked. */
BP_API int bp_ir_interpret(const BpIrModule *module, const char *function, const BpValue *args,
                           int32_t num_args);
/* The same for at most *steps statements, a loop's counting one for each iteration; *steps becomes
 * what is left of them. Code that runs on is an error of kind BP_ERROR_RUNTIME, with *steps 0. */
BP_API int bp_ir_interpret_steps(const BpIrModule *module, const char *function,
                                 const BpValue *args, int32_t num_args, int64_t *steps);

#ifdef __cplusplus
}
#endif

#endif
