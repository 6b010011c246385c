/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter's state.
 *
 * A function is first resolved: every node becomes an Op that knows where in a frame its value
 * goes. A frame holds the lanes of all values of one thread of execution. Expressions are evaluated
 * by recursion; statements by a stack of steps of each thread's own, so that the threads of a block
 * take turns: each runs until it ends or stands at a barrier. */
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
  size_t slot;      /* in the frame, of its first lane; of a VAR, a constant or any expression */
  size_t buffer;    /* of a BUFFER: its place among the buffers */
  size_t memo;      /* of a shared pure expression: its place among the ticks; else 0 */
  bool has_effects; /* an extern or packed call is in it */
  int32_t num_uses; /* operands that it is, of distinct constructs */
  int32_t axis;     /* of a bound loop: 0..2 blockIdx.x,y,z, 3..5 threadIdx.x,y,z */
  const BpIntrinsic *intrinsic;
  struct BpLaunch *launch;   /* of a bound loop that no other is around, outside of a kernel */
  struct BpLaunch *bound_in; /* of a VAR that a statement of a launch binds */
  struct BpOp **operands;
} BpOp;

/* What runs as one grid of threads: a kernel's body or an outermost bound loop. */
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
  BpLaunch *kernel; /* the whole body, if it is a kernel */
  int depth;        /* of packed calls between functions of the module */
  int64_t *left;    /* statements that may still run */
} BpProgram;

/* The memory that a BUFFER stands for. */
typedef struct BpStorage {
  char *data;
  int64_t size;    /* elements */
  size_t capacity; /* bytes, when it is owned */
  bool owned;
} BpStorage;

typedef struct BpStep {
  BpOp *op;
  int64_t next, end;
} BpStep;

typedef struct BpThread {
  const BpProgram *program;
  BpIrScalar *frame;
  uint64_t *ticks; /* by memo: the statement for which the value in the frame was found */
  uint64_t tick;
  BpStorage *buffers;
  struct BpBlock *block; /* NULL: outside of a launch */
  int64_t axes[BP__NUM_THREAD_AXES];
  BpStep *steps;
  size_t num_steps, capacity;
  const BpOp *barrier; /* where it stands, or NULL */
} BpThread;

/* The threads of one block, and its shared buffers. */
typedef struct BpBlock {
  BpThread *threads;
  int64_t num_threads;
  BpStorage *shared;
} BpBlock;

/* resolve.c: makes the Ops of a function; the program is cleared by the caller, also on failure. */
int bp__interpreter_resolve(BpProgram *program);
void bp__interpreter_program_clear(BpProgram *program);

/* eval.c: the lanes of an expression's value, NULL with an error. `begin` starts a statement:
 * values of shared expressions found before are found anew. */
const BpIrScalar *bp__interpreter_eval(BpThread *thread, const BpOp *op);
static inline void bp__interpreter_begin(BpThread *thread) {
  thread->tick++;
}
/* Stores to a buffer, as STORE says. */
int bp__interpreter_store(BpThread *thread, const BpOp *op);
/* The elements of a BUFFER by its extents; -1 with an error. */
int bp__interpreter_buffer_size(BpThread *thread, const BpOp *buffer, int64_t *size);

/* call.c: an extern or packed call. */
int bp__interpreter_call(BpThread *thread, const BpOp *op, BpIrScalar *result);
/* Puts the arguments of a call of the function into the frame and the buffers. */
int bp__interpreter_bind_args(BpThread *thread, const BpValue *args, int32_t num_args);
/* run.c: runs a function at a depth of calls, for at most *left statements. */
int bp__interpreter_run(const BpIrModule *module, const BpIrNode *function, const BpValue *args,
                        int32_t num_args, int depth, int64_t *left);

#endif
