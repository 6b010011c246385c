/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter's state.
 *
 * A function is first resolved: every node becomes an Op, which knows the slot of its value in a
 * frame. A frame holds the lanes of all values of one thread of execution. Expressions are
 * evaluated by recursion; statements by a stack of steps for each thread, so that the threads of a
 * block can take turns: each runs until it ends or reaches a barrier. */
#ifndef BACKPLANE_COMPILER_IR_INTERPRETER_STATE_H
#define BACKPLANE_COMPILER_IR_INTERPRETER_STATE_H

#include "compiler/ir/intrinsics.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/scalar.h"

#define BP__NUM_THREAD_AXES 6

typedef struct BpOp {
  int32_t kind, num_operands;
  BpDataType dtype;
  uint16_t lanes;
  const BpIrNode *node;
  size_t slot;   /* slot of its first lane in the frame; for a VAR, a constant or any expression */
  size_t buffer; /* for a BUFFER: its index among the buffers */
  size_t memo;   /* for a shared pure expression: its index in BpThread.ticks; else 0 */
  bool has_effects; /* contains an extern or packed call */
  int32_t num_uses; /* number of uses as an operand, by distinct constructs */
  int32_t axis;     /* for a bound loop: 0..2 blockIdx.x,y,z, 3..5 threadIdx.x,y,z */
  const BpIntrinsic *intrinsic;
  struct BpLaunch *launch;   /* for an outermost bound loop outside of a kernel */
  struct BpLaunch *bound_in; /* for a VAR that a statement of a launch binds */
  struct BpOp **operands;
} BpOp;

/* A grid of threads: a kernel's body or an outermost bound loop. */
typedef struct BpLaunch {
  BpOp *body;
  BpOp **loops; /* the bound loops in it */
  int32_t num_loops, capacity;
} BpLaunch;

typedef struct BpProgram {
  const BpIrModule *module;
  const BpIrNode *function;
  BpIrModule *memory; /* of all Ops */
  BpIrMap ops;        /* node -> BpOp */
  size_t frame_size, num_buffers, num_memos;
  BpOp *body;
  BpOp **params;
  BpLaunch *kernel; /* the whole body, if the function is a kernel */
  int depth;        /* nesting of packed calls between functions of the module */
  int64_t *left;    /* statements that may still run */
} BpProgram;

/* The memory of a BUFFER. */
typedef struct BpStorage {
  char *data;
  int64_t size;    /* elements */
  size_t capacity; /* bytes, if it is owned */
  bool owned;
} BpStorage;

typedef struct BpStep {
  BpOp *op;
  int64_t next, end;
} BpStep;

typedef struct BpThread {
  const BpProgram *program;
  BpIrScalar *frame;
  uint64_t *ticks; /* by memo: the statement in which the value in the frame was computed */
  uint64_t tick;
  BpStorage *buffers;
  struct BpBlock *block; /* NULL: outside of a launch */
  int64_t axes[BP__NUM_THREAD_AXES];
  BpStep *steps;
  size_t num_steps, capacity;
  const BpOp *barrier; /* the barrier that it has reached, or NULL */
} BpThread;

/* The threads of one block, and its shared buffers. */
typedef struct BpBlock {
  BpThread *threads;
  int64_t num_threads;
  BpStorage *shared;
} BpBlock;

/* resolve.c: makes the Ops of a function; the caller clears the program, also on failure. */
int bp__interpreter_resolve(BpProgram *program);
void bp__interpreter_program_clear(BpProgram *program);

/* eval.c: the lanes of an expression's value, NULL with an error. `begin` starts a statement, in
 * which shared expressions are evaluated again. */
const BpIrScalar *bp__interpreter_eval(BpThread *thread, const BpOp *op);
static inline void bp__interpreter_begin(BpThread *thread) {
  thread->tick++;
}
/* Executes a STORE to a buffer. */
int bp__interpreter_store(BpThread *thread, const BpOp *op);
/* The number of elements of a BUFFER, from its extents; -1 with an error. */
int bp__interpreter_buffer_size(BpThread *thread, const BpOp *buffer, int64_t *size);

/* call.c: an extern or packed call. */
int bp__interpreter_call(BpThread *thread, const BpOp *op, BpIrScalar *result);
/* Stores the arguments of a call of the function in the frame and the buffers. */
int bp__interpreter_bind_args(BpThread *thread, const BpValue *args, int32_t num_args);
/* run.c: runs a function at a nesting of calls, for at most *left statements. */
int bp__interpreter_run(const BpIrModule *module, const BpIrNode *function, const BpValue *args,
                        int32_t num_args, int depth, int64_t *left);

#endif
