/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the IR, written one after the other.
 *
 *   BpIrBlock *block = bp_ir_block_begin(module);
 *   const BpIrNode *sum = bp_ir_block_variable(block, "sum", zero);
 *   const BpIrNode *i = bp_ir_block_for(block, "i", zero, count);
 *   bp_ir_block_assign(block, sum, bp_ir_binary(module, BP_IR_ADD, bp_ir_block_value(block, sum),
 * x)); bp_ir_block_close(block); const BpIrNode *statements = bp_ir_block_end(block);
 *
 * After an error, or a NULL node from a failed expression, all later calls do nothing, and
 * bp_ir_block_end returns NULL with that error. So a caller checks a whole block once, at its end.
 * A block belongs to the thread that has its module. */
#ifndef BACKPLANE_COMPILER_BLOCK_H
#define BACKPLANE_COMPILER_BLOCK_H

#include <backplane/api.h>
#include <backplane/compiler/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BpIrBlock BpIrBlock;

/* Begins a block, whose nodes are made in `module`. NULL with an error. The caller ends the block
 * with bp_ir_block_end. */
BP_API BpIrBlock *bp_ir_block_begin(BpIrModule *module);
/* Frees the block and returns its statements as one statement. NULL is ignored. */
BP_API const BpIrNode *bp_ir_block_end(BpIrBlock *block);
/* Appends a statement. */
BP_API void bp_ir_block_add(BpIrBlock *block, const BpIrNode *statement);

/* Open a statement that contains the following statements, up to bp_ir_block_close: a serial loop,
 * whose int64 variable is returned; a loop that runs while a condition holds; a choice, whose other
 * branch begins with bp_ir_block_else. */
BP_API const BpIrNode *bp_ir_block_for(BpIrBlock *block, const char *name, const BpIrNode *min,
                                       const BpIrNode *extent);
BP_API void bp_ir_block_while(BpIrBlock *block, const BpIrNode *condition);
BP_API void bp_ir_block_if(BpIrBlock *block, const BpIrNode *condition);
BP_API void bp_ir_block_else(BpIrBlock *block);
BP_API void bp_ir_block_close(BpIrBlock *block);

/* Declare, until the open statement is closed: a name for a value computed here; an array of local
 * memory, whose contents are undefined at first; a variable, one element of local memory with an
 * initial value, which can be assigned. */
BP_API const BpIrNode *bp_ir_block_let(BpIrBlock *block, const char *name, const BpIrNode *value);
BP_API const BpIrNode *bp_ir_block_array(BpIrBlock *block, const char *name, BpDataType dtype,
                                         const BpIrNode *extent);
BP_API const BpIrNode *bp_ir_block_variable(BpIrBlock *block, const char *name,
                                            const BpIrNode *value);
/* Read a variable at the place where the expression is used; and assign a value to a variable. */
BP_API const BpIrNode *bp_ir_block_value(BpIrBlock *block, const BpIrNode *variable);
BP_API void bp_ir_block_assign(BpIrBlock *block, const BpIrNode *variable, const BpIrNode *value);

#ifdef __cplusplus
}
#endif

#endif
