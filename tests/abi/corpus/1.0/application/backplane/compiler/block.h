/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the IR, written one after the other.
 *
 *   BpIrBlock *block = bp_ir_block_begin(module);
 *   const BpIrNode *sum = bp_ir_block_variable(block, "sum", zero);
 *   const BpIrNode *i = bp_ir_block_for(block, "i", zero, count);
 *   bp_ir_block_assign(block, sum, bp_ir_binary(module, BP_IR_ADD, bp_ir_block_value(block, sum),
 * x)); bp_ir_block_close(block); const BpIrNode *statements = bp_ir_block_end(block);
 *
 * An error, or a NULL node that the maker of an expression left, makes all that follows do nothing;
 * bp_ir_block_end then gives NULL with that error. So a whole block is checked once, at its end. A
 * block belongs to the thread that has its module. */
#ifndef BACKPLANE_COMPILER_BLOCK_H
#define BACKPLANE_COMPILER_BLOCK_H

#include <backplane/api.h>
#include <backplane/compiler/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BpIrBlock BpIrBlock;

/* Begins a block, whose nodes are made in `module`. NULL with an error. Ended with bp_ir_block_end.
 */
BP_API BpIrBlock *bp_ir_block_begin(BpIrModule *module);
/* Frees the block and gives its statements as one. NULL is ignored. */
BP_API const BpIrNode *bp_ir_block_end(BpIrBlock *block);
/* Appends a statement. */
BP_API void bp_ir_block_add(BpIrBlock *block, const BpIrNode *statement);

/* What follows, up to bp_ir_block_close, is inside: of a serial loop, whose int64 variable is
 * returned; of one that goes on while a condition holds; of a choice, whose other branch begins
 * with bp_ir_block_else. */
BP_API const BpIrNode *bp_ir_block_for(BpIrBlock *block, const char *name, const BpIrNode *min,
                                       const BpIrNode *extent);
BP_API void bp_ir_block_while(BpIrBlock *block, const BpIrNode *condition);
BP_API void bp_ir_block_if(BpIrBlock *block, const BpIrNode *condition);
BP_API void bp_ir_block_else(BpIrBlock *block);
BP_API void bp_ir_block_close(BpIrBlock *block);

/* Until what is open now is closed: a name for a value as it is here; an array of local memory,
 * whose contents are undefined at first; one element of it that holds a value to be assigned
 * again. */
BP_API const BpIrNode *bp_ir_block_let(BpIrBlock *block, const char *name, const BpIrNode *value);
BP_API const BpIrNode *bp_ir_block_array(BpIrBlock *block, const char *name, BpDataType dtype,
                                         const BpIrNode *extent);
BP_API const BpIrNode *bp_ir_block_variable(BpIrBlock *block, const char *name,
                                            const BpIrNode *value);
/* The value of a variable at the place where this expression is used, and another one for it. */
BP_API const BpIrNode *bp_ir_block_value(BpIrBlock *block, const BpIrNode *variable);
BP_API void bp_ir_block_assign(BpIrBlock *block, const BpIrNode *variable, const BpIrNode *value);

#ifdef __cplusplus
}
#endif

#endif
