/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter's state.
 *
 * A function is first resolved: every node becomes an Op, which knows the slot of its value in a
 * frame. A frame holds the lanes of all values of one thread of execution. Expressions are
 * evaluated by recursion. Each thread runs its statements from a stack of steps, so that the
 * threads of a block can take turns: a thread runs until it ends or reaches a barrier. */
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
  size_t slot;   /* slot of the first lane in the frame, for a VAR, a constant or any expression */
  size_t buffer; /* index among the buffers, for a BUFFER */
  size_t memo;   /* index in BpThread.ticks of a shared pure expression; 0 for other Ops */
  bool has_effects; /* whether the Op contains an extern or packed call */
  int32_t num_uses; /* number of distinct constructs that use the Op as an operand */
  int32_t axis;     /* thread axis of a bound loop: 0..2 blockIdx.x,y,z, 3..5 threadIdx.x,y,z */
  const BpIntrinsic *intrinsic;
  struct BpLaunch *launch;   /* launch that an outermost bound loop outside a kernel opens */
  struct BpLaunch *bound_in; /* launch whose statement binds a VAR */
  struct BpOp **operands;
} BpOp;

/* A grid of threads: a kernel's body or an outermost bound loop. */
typedef struct BpLaunch {
  BpOp *body;
  BpOp **loops; /* the bound loops in the body */
  int32_t num_loops, capacity;
} BpLaunch;

typedef struct BpProgram {
  const BpIrModule *module;
  const BpIrNode *function;
  BpIrModule *memory; /* owns the memory of all Ops */
  BpIrMap ops;        /* node -> BpOp */
  size_t frame_size, num_buffers, num_memos;
  BpOp *body;
  BpOp **params;
  BpLaunch *kernel; /* launch of the whole body if the function is a kernel, else NULL */
  int depth;        /* current nesting of packed calls between functions of the module */
  int64_t *left;    /* number of statements that may still run */
} BpProgram;

/* The memory of a BUFFER. */
typedef struct BpStorage {
  char *data;
  int64_t size;    /* elements */
  size_t capacity; /* bytes of owned memory */
  bool owned;
} BpStorage;

typedef struct BpStep {
  BpOp *op;
  int64_t next, end; /* of a loop the number of the next iteration, and of iterations */
  int64_t first;     /* value of the loop's variable in the first iteration */
} BpStep;

typedef struct BpThread {
  const BpProgram *program;
  BpIrScalar *frame;
  uint64_t *ticks; /* indexed by memo: the statement in which the value in the frame was computed */
  uint64_t tick;
  BpStorage *buffers;
  struct BpBlock *block; /* NULL outside a launch */
  int64_t axes[BP__NUM_THREAD_AXES];
  BpStep *steps;
  size_t num_steps, capacity;
  const BpOp *barrier; /* the barrier at which the thread waits, or NULL */
} BpThread;

/* The threads of one block and the block's shared buffers. */
typedef struct BpBlock {
  BpThread *threads;
  int64_t num_threads;
  BpStorage *shared;
} BpBlock;

/* Makes the Ops of a function (resolve.c). The caller clears the program, also on failure. */
int bp__interpreter_resolve(BpProgram *program);
void bp__interpreter_program_clear(BpProgram *program);

/* Evaluates an expression to its lanes, NULL with an error (eval.c). `begin` starts a statement:
 * shared expressions are evaluated once in each statement. */
const BpIrScalar *bp__interpreter_eval(BpThread *thread, const BpOp *op);
static inline void bp__interpreter_begin(BpThread *thread) {
  thread->tick++;
}
/* Executes a STORE to a buffer. */
int bp__interpreter_store(BpThread *thread, const BpOp *op);
/* The number of elements of a BUFFER, from its extents; -1 with an error. */
int bp__interpreter_buffer_size(BpThread *thread, const BpOp *buffer, int64_t *size);

/* Executes an extern or packed call (call.c). */
int bp__interpreter_call(BpThread *thread, const BpOp *op, BpIrScalar *result);
/* Stores the arguments of a call in the frame and the buffers of the called function. */
int bp__interpreter_bind_args(BpThread *thread, const BpValue *args, int32_t num_args);
/* Runs a function at a given nesting of calls, for at most *left statements (run.c). */
int bp__interpreter_run(const BpIrModule *module, const BpIrNode *function, const BpValue *args,
                        int32_t num_args, int depth, int64_t *left);

#endif
