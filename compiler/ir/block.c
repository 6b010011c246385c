/* SPDX-License-Identifier: Apache-2.0 */
/* A block: statements written in sequence. A block has a stack of open constructs, each with its
 * statements so far. A name or an array is an open construct too: the statements after it are its
 * body. */

#include <stdlib.h>

#include <backplane/compiler/block.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/ir.h"

/* An open construct; `make` returns the finished statement around its body. */
typedef struct Open {
  struct Open *outer;
  int32_t kind;              /* BP_IR_SEQ for the block itself; FOR, WHILE, IF, LET or ALLOCATE */
  const BpIrNode *a, *b, *c; /* the construct's operands before its body */
  const BpIrNode *then_body; /* the first branch of an IF whose second branch is open */
  const BpIrNode **statements;
  int32_t count, capacity;
} Open;

struct BpIrBlock {
  BpIrModule *module;
  Open *open;
  bool has_failed;
};

/* Whether statements can be added: a block that could not begin is NULL. */
static bool is_usable(const BpIrBlock *block) {
  return block && !block->has_failed;
}

static void fail(BpIrBlock *block) {
  if (block)
    block->has_failed = true;
}

static void open_construct(BpIrBlock *block, int32_t kind, const BpIrNode *a, const BpIrNode *b,
                           const BpIrNode *c) {
  Open *open = !is_usable(block) ? NULL : bp__ir_alloc(block->module, sizeof *open);
  if (!open) {
    fail(block);
    return;
  }
  *open = (Open){.outer = block->open, .kind = kind, .a = a, .b = b, .c = c};
  block->open = open;
}

BpIrBlock *bp_ir_block_begin(BpIrModule *module) {
  if (!BP_NOT_NULL(module))
    return NULL;
  BpIrBlock *block = calloc(1, sizeof *block);
  if (!block) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a block of statements");
    return NULL;
  }
  block->module = module;
  open_construct(block, BP_IR_SEQ, NULL, NULL, NULL);
  return block;
}

void bp_ir_block_add(BpIrBlock *block, const BpIrNode *statement) {
  if (!BP_OPERAND(block) || !BP_OPERAND(statement))
    fail(block);
  if (!is_usable(block))
    return;
  Open *open = block->open;
  if (open->count == open->capacity) {
    int32_t capacity = open->capacity ? 2 * open->capacity : 8;
    const BpIrNode **larger = bp__ir_alloc(block->module, (size_t)capacity * sizeof *larger);
    if (!larger) {
      fail(block);
      return;
    }
    if (open->count > 0)
      memcpy(larger, open->statements, (size_t)open->count * sizeof *larger);
    open->statements = larger;
    open->capacity = capacity;
  }
  open->statements[open->count++] = statement;
}

/* ---- Closing ----------------------------------------------------------------------------- */

static const BpIrNode *body_of(const BpIrBlock *block, const Open *open) {
  return bp_ir_seq(block->module, open->statements, open->count);
}

static const BpIrNode *statement_of(const BpIrBlock *block, const Open *open) {
  const BpIrNode *body = body_of(block, open);
  switch (open->kind) {
  case BP_IR_FOR:
    return bp_ir_for(block->module, open->a, open->b, open->c, BP_IR_FOR_SERIAL, "", body);
  case BP_IR_WHILE:
    return bp__ir_while(block->module, open->a, body);
  case BP_IR_IF:
    return open->then_body ? bp_ir_if(block->module, open->a, open->then_body, body)
                           : bp_ir_if(block->module, open->a, body, NULL);
  case BP_IR_LET:
    return bp_ir_let(block->module, open->a, open->b, body);
  case BP_IR_ALLOCATE:
    return bp_ir_allocate(block->module, open->a, body);
  default:
    return body;
  }
}

static void close_one(BpIrBlock *block) {
  const Open *open = block->open;
  block->open = open->outer;
  bp_ir_block_add(block, statement_of(block, open));
}

/* Closes the names and arrays that are open inside the innermost other construct. */
static void close_names(BpIrBlock *block) {
  while (is_usable(block) &&
         (block->open->kind == BP_IR_LET || block->open->kind == BP_IR_ALLOCATE))
    close_one(block);
}

void bp_ir_block_close(BpIrBlock *block) {
  close_names(block);
  if (!BP_OPERAND(block) || block->has_failed)
    return;
  if (block->open->outer) {
    close_one(block);
    return;
  }
  bp_error_raise(BP_ERROR_VALUE, "a block of statements closes more than it opened");
  fail(block);
}

void bp_ir_block_else(BpIrBlock *block) {
  close_names(block);
  if (!BP_OPERAND(block) || block->has_failed)
    return;
  Open *open = block->open;
  if (open->kind != BP_IR_IF || open->then_body) {
    bp_error_raise(BP_ERROR_VALUE, "the else branch of an IF begins, but no IF is open");
    fail(block);
    return;
  }
  open->then_body = body_of(block, open);
  open->count = open->capacity = 0;
  if (!open->then_body)
    fail(block);
}

const BpIrNode *bp_ir_block_end(BpIrBlock *block) {
  if (!block)
    return NULL;
  const BpIrNode *statements = NULL;
  close_names(block);
  if (!block->has_failed && block->open->outer)
    bp_error_raise(BP_ERROR_VALUE, "a block of statements ends while a construct in it is open");
  else if (!block->has_failed)
    statements = statement_of(block, block->open);
  free(block);
  return statements;
}

/* ---- Constructs -------------------------------------------------------------------------- */

const BpIrNode *bp_ir_block_for(BpIrBlock *block, const char *name, const BpIrNode *min,
                                const BpIrNode *extent) {
  const BpIrNode *var =
      BP_OPERAND(block) ? bp_ir_var(block->module, name, bp__dtype_int64()) : NULL;
  if (!var || !BP_OPERAND(min) || !BP_OPERAND(extent))
    fail(block);
  open_construct(block, BP_IR_FOR, var, min, extent);
  return is_usable(block) ? var : NULL;
}

void bp_ir_block_while(BpIrBlock *block, const BpIrNode *condition) {
  if (!BP_OPERAND(block) || !BP_OPERAND(condition))
    fail(block);
  open_construct(block, BP_IR_WHILE, condition, NULL, NULL);
}

void bp_ir_block_if(BpIrBlock *block, const BpIrNode *condition) {
  if (!BP_OPERAND(block) || !BP_OPERAND(condition))
    fail(block);
  open_construct(block, BP_IR_IF, condition, NULL, NULL);
}

const BpIrNode *bp_ir_block_let(BpIrBlock *block, const char *name, const BpIrNode *value) {
  const BpIrNode *var =
      BP_OPERAND(block) && BP_OPERAND(value) ? bp_ir_var(block->module, name, value->dtype) : NULL;
  if (!var)
    fail(block);
  open_construct(block, BP_IR_LET, var, value, NULL);
  return is_usable(block) ? var : NULL;
}

const BpIrNode *bp_ir_block_array(BpIrBlock *block, const char *name, BpDataType dtype,
                                  const BpIrNode *extent) {
  const BpIrNode *buffer =
      BP_OPERAND(block) && BP_OPERAND(extent)
          ? bp_ir_buffer(block->module, name, dtype, BP_IR_SCOPE_LOCAL, &extent, 1)
          : NULL;
  if (!buffer)
    fail(block);
  open_construct(block, BP_IR_ALLOCATE, buffer, NULL, NULL);
  return is_usable(block) ? buffer : NULL;
}

const BpIrNode *bp_ir_block_variable(BpIrBlock *block, const char *name, const BpIrNode *value) {
  if (!BP_OPERAND(block) || !BP_OPERAND(value)) {
    fail(block);
    return NULL;
  }
  const BpIrNode *variable =
      bp_ir_block_array(block, name, value->dtype, bp__ir_int64(block->module, 1));
  bp_ir_block_assign(block, variable, value);
  return variable;
}

const BpIrNode *bp_ir_block_value(BpIrBlock *block, const BpIrNode *variable) {
  return BP_OPERAND(block) && BP_OPERAND(variable)
             ? bp_ir_load(block->module, variable, bp__ir_int64(block->module, 0), NULL)
             : NULL;
}

void bp_ir_block_assign(BpIrBlock *block, const BpIrNode *variable, const BpIrNode *value) {
  bp_ir_block_add(
      block, BP_OPERAND(block) && BP_OPERAND(variable)
                 ? bp_ir_store(block->module, variable, bp__ir_int64(block->module, 0), value, NULL)
                 : NULL);
}
