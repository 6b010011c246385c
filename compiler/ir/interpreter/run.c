/* SPDX-License-Identifier: Apache-2.0 */
/* Running statements, and grids of threads. */

#include <inttypes.h>
#include <stdlib.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/interpreter/state.h"

#define MAX_BLOCK_THREADS 4096

/* ---- Threads ----------------------------------------------------------------------------- */

static int thread_init(BpThread *thread, const BpProgram *program) {
  *thread = (BpThread){.program = program};
  thread->frame = calloc(program->frame_size + 1, sizeof *thread->frame);
  thread->ticks = calloc(program->num_memos + 1, sizeof *thread->ticks);
  thread->buffers = calloc(program->num_buffers + 1, sizeof *thread->buffers);
  if (!thread->frame || !thread->ticks || !thread->buffers)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a frame of %zu values",
                          program->frame_size);
  return 0;
}

static void free_storage(BpStorage *buffers, size_t count) {
  for (size_t i = 0; buffers && i < count; i++)
    if (buffers[i].owned)
      free(buffers[i].data);
  free(buffers);
}

static void thread_clear(BpThread *thread) {
  if (!thread->program)
    return;
  free_storage(thread->buffers, thread->program->num_buffers);
  free(thread->frame);
  free(thread->ticks);
  free(thread->steps);
}

static int push(BpThread *thread, BpOp *op) {
  if (thread->num_steps == thread->capacity) {
    size_t capacity = thread->capacity ? thread->capacity * 2 : 16;
    BpStep *steps = realloc(thread->steps, capacity * sizeof *steps);
    if (!steps)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu nested statements", capacity);
    thread->steps = steps;
    thread->capacity = capacity;
  }
  thread->steps[thread->num_steps++] = (BpStep){op, -1, 0, 0};
  return 0;
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Allocates a buffer with all bits set, so that reading it before it was written gives NaN. */
static int allocate(BpStorage *storage, const BpOp *buffer, int64_t size) {
  int64_t bytes;
  if (__builtin_mul_overflow(size, buffer->dtype.bits / 8, &bytes) || bytes > PTRDIFF_MAX / 2)
    return bp_error_raise(BP_ERROR_VALUE, "buffer '%s' of %" PRId64 " elements is too large",
                          buffer->node->str_value, size);
  if (!storage->owned || storage->capacity < (size_t)bytes) {
    char *data = malloc((size_t)bytes + 1);
    if (!data)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for buffer '%s' of %" PRId64 " bytes",
                            buffer->node->str_value, bytes);
    if (storage->owned)
      free(storage->data);
    *storage = (BpStorage){.data = data, .capacity = (size_t)bytes, .owned = true};
  }
  storage->size = size;
  memset(storage->data, 0xff, (size_t)bytes);
  return 0;
}

/* Allocates a shared buffer for the first thread of the block that reaches it. */
static int enter_shared(BpThread *thread, const BpOp *buffer, int64_t size) {
  BpStorage *shared = &thread->block->shared[buffer->buffer];
  if (!shared->data && allocate(shared, buffer, size))
    return -1;
  thread->buffers[buffer->buffer] =
      (BpStorage){.data = shared->data, .size = shared->size, .owned = false};
  return 0;
}

static int enter_allocate(BpThread *thread, BpOp *op) {
  const BpOp *buffer = op->operands[0];
  int64_t size;
  if (bp__interpreter_buffer_size(thread, buffer, &size))
    return -1;
  if (thread->block && buffer->node->int_value == BP_IR_SCOPE_GLOBAL)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a kernel allocates global buffer '%s'; only a host function can",
                          buffer->node->str_value);
  if (thread->block && buffer->node->int_value == BP_IR_SCOPE_SHARED)
    return enter_shared(thread, buffer, size);
  return allocate(&thread->buffers[buffer->buffer], buffer, size);
}

/* ---- Statements -------------------------------------------------------------------------- */

static int launch(BpThread *thread, const BpLaunch *launch);

/* Ends a step's statement; `next`, if any, is the step's next statement. */
static void replace(BpThread *thread, BpStep *step, BpOp *next) {
  if (next)
    *step = (BpStep){next, -1, 0, 0};
  else
    thread->num_steps--;
}

static int step_bound(BpThread *thread, BpStep *step) {
  const BpOp *op = step->op;
  const BpIrScalar *min = bp__interpreter_eval(thread, op->operands[1]);
  const BpIrScalar *extent = min ? bp__interpreter_eval(thread, op->operands[2]) : NULL;
  if (!extent)
    return -1;
  int64_t index = thread->axes[op->axis];
  thread->frame[op->operands[0]->slot].i = bp__scalar_wrap(op->operands[0]->dtype, min->i + index);
  replace(thread, step, index < extent->i ? op->operands[3] : NULL);
  return 0;
}

static int step_for(BpThread *thread, BpStep *step) {
  BpOp *op = step->op;
  if (op->node->int_value == BP_IR_FOR_BOUND) {
    if (thread->block)
      return step_bound(thread, step);
    thread->num_steps--;
    return launch(thread, op->launch);
  }
  if (step->next < 0) {
    const BpIrScalar *min = bp__interpreter_eval(thread, op->operands[1]);
    step->first = min ? min->i : 0;
    const BpIrScalar *extent = min ? bp__interpreter_eval(thread, op->operands[2]) : NULL;
    if (!extent)
      return -1;
    step->end = extent->i;
    step->next = 0;
  }
  if (step->next >= step->end) {
    thread->num_steps--;
    return 0;
  }
  thread->frame[op->operands[0]->slot].i =
      bp__scalar_wrap(op->operands[0]->dtype, step->first + step->next++);
  return push(thread, op->operands[3]);
}

static int step_seq(BpThread *thread, BpStep *step) {
  step->next++;
  if (step->next < step->op->num_operands)
    return push(thread, step->op->operands[step->next]);
  thread->num_steps--;
  return 0;
}

static int step_let(BpThread *thread, BpStep *step) {
  const BpOp *var = step->op->operands[0];
  const BpIrScalar *value = bp__interpreter_eval(thread, step->op->operands[1]);
  if (!value)
    return -1;
  memcpy(thread->frame + var->slot, value, var->lanes * sizeof *value);
  replace(thread, step, step->op->operands[2]);
  return 0;
}

static int step_if(BpThread *thread, BpStep *step) {
  const BpOp *op = step->op;
  const BpIrScalar *condition = bp__interpreter_eval(thread, op->operands[0]);
  if (!condition)
    return -1;
  if (condition->i)
    replace(thread, step, op->operands[1]);
  else
    replace(thread, step, op->num_operands > 2 ? op->operands[2] : NULL);
  return 0;
}

static int step_while(BpThread *thread, BpStep *step) {
  const BpIrScalar *condition = bp__interpreter_eval(thread, step->op->operands[0]);
  if (!condition)
    return -1;
  if (condition->i)
    return push(thread, step->op->operands[1]);
  thread->num_steps--;
  return 0;
}

static int step_assert(BpThread *thread, BpStep *step) {
  const BpOp *op = step->op;
  const BpIrScalar *condition = bp__interpreter_eval(thread, op->operands[0]);
  if (!condition)
    return -1;
  thread->num_steps--;
  return condition->i ? 0 : bp_error_raise(BP_ERROR_VALUE, "%s", op->node->str_value);
}

static int step_allocate(BpThread *thread, BpStep *step) {
  BpOp *op = step->op;
  if (enter_allocate(thread, op))
    return -1;
  replace(thread, step, op->operands[1]);
  return 0;
}

static int step_by_kind(BpThread *thread, BpStep *top, BpOp *op) {
  switch (op->kind) {
  case BP_IR_SEQ:
    return step_seq(thread, top);
  case BP_IR_FOR:
    return step_for(thread, top);
  case BP_IR_LET:
    return step_let(thread, top);
  case BP_IR_IF:
    return step_if(thread, top);
  case BP_IR_WHILE:
    return step_while(thread, top);
  case BP_IR_ALLOCATE:
    return step_allocate(thread, top);
  case BP_IR_ASSERT:
    return step_assert(thread, top);
  case BP_IR_STORE:
    thread->num_steps--;
    return bp__interpreter_store(thread, op);
  case BP_IR_EVALUATE:
    thread->num_steps--;
    return bp__interpreter_eval(thread, op->operands[0]) ? 0 : -1;
  default: /* BARRIER */
    thread->num_steps--;
    thread->barrier = thread->block ? op : NULL;
    return 0;
  }
}

static int step(BpThread *thread) {
  BpStep *top = &thread->steps[thread->num_steps - 1];
  BpOp *op = top->op;
  if (*thread->program->left == 0)
    return bp_error_raise(BP_ERROR_RUNTIME, "it ran for more statements than were allowed");
  --*thread->program->left;
  bp__interpreter_begin(thread);
  if (!step_by_kind(thread, top, op))
    return 0;
  char shown[120];
  if (op->kind != BP_IR_FOR && op->kind != BP_IR_ASSERT)
    bp_error_add_context("%s", bp__ir_print_short(op->node, shown, sizeof shown));
  return -1;
}

/* Runs a thread until it ends or reaches a barrier. */
static int resume(BpThread *thread) {
  thread->barrier = NULL;
  while (thread->num_steps && !thread->barrier)
    if (step(thread))
      return -1;
  return 0;
}

/* ---- Grids ------------------------------------------------------------------------------- */

/* Runs the threads of a block in turns from barrier to barrier; all threads must reach the same
 * barrier. */
static int run_block(BpBlock *block) {
  for (;;) {
    int64_t waiting = 0;
    for (int64_t i = 0; i < block->num_threads; i++) {
      if (resume(&block->threads[i]))
        return -1;
      waiting += block->threads[i].barrier != NULL;
    }
    if (!waiting)
      return 0;
    for (int64_t i = 0; i < block->num_threads; i++)
      if (block->threads[i].barrier != block->threads[0].barrier)
        return bp_error_raise(BP_ERROR_RUNTIME,
                              "%" PRId64 " of %" PRId64
                              " threads of a block stand at a barrier that not all reach",
                              waiting, block->num_threads);
  }
}

static int start_thread(BpThread *thread, const BpThread *launcher, const int64_t *extents,
                        const int64_t *block_index, int64_t index, BpOp *body) {
  const BpProgram *program = launcher->program;
  memcpy(thread->frame, launcher->frame, program->frame_size * sizeof *thread->frame);
  for (size_t i = 0; i < program->num_buffers; i++) {
    BpStorage *own = &thread->buffers[i];
    const BpStorage *given = &launcher->buffers[i];
    if (!own->owned)
      *own = (BpStorage){.data = given->data, .size = given->size, .owned = false};
  }
  for (int axis = 0; axis < 3; axis++) {
    thread->axes[axis] = block_index[axis];
    thread->axes[3 + axis] = index % extents[3 + axis];
    index /= extents[3 + axis];
  }
  thread->num_steps = 0;
  return push(thread, body);
}

static int run_one_block(BpBlock *block, const BpThread *launcher, const int64_t *extents,
                         int64_t number, BpOp *body) {
  int64_t index[3] = {number % extents[0], number / extents[0] % extents[1],
                      number / extents[0] / extents[1]};
  size_t num_buffers = launcher->program->num_buffers;
  block->shared = calloc(num_buffers + 1, sizeof *block->shared);
  if (!block->shared)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the shared buffers of a block");
  int rc = 0;
  for (int64_t i = 0; !rc && i < block->num_threads; i++)
    rc = start_thread(&block->threads[i], launcher, extents, index, i, body);
  if (!rc)
    rc = run_block(block);
  free_storage(block->shared, num_buffers);
  return rc;
}

static int run_grid(const BpThread *launcher, const int64_t *extents, BpOp *body) {
  BpBlock block = {.num_threads = extents[3] * extents[4] * extents[5]};
  block.threads = calloc((size_t)block.num_threads, sizeof *block.threads);
  if (!block.threads)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %" PRId64 " threads", block.num_threads);
  int rc = 0;
  for (int64_t i = 0; !rc && i < block.num_threads; i++) {
    rc = thread_init(&block.threads[i], launcher->program);
    block.threads[i].block = &block;
  }
  int64_t num_blocks = extents[0] * extents[1] * extents[2];
  for (int64_t i = 0; !rc && i < num_blocks; i++)
    rc = run_one_block(&block, launcher, extents, i, body);
  for (int64_t i = 0; i < block.num_threads; i++)
    thread_clear(&block.threads[i]);
  free(block.threads);
  return rc;
}

/* Evaluates the extents of all thread axes: the largest extent of the loops on an axis, 1 for an
 * axis without loops. Returns 1 if there are no threads. */
static int launch_extents(BpThread *thread, const BpLaunch *launch, int64_t *extents) {
  for (int axis = 0; axis < BP__NUM_THREAD_AXES; axis++)
    extents[axis] = -1;
  for (int32_t i = 0; i < launch->num_loops; i++) {
    const BpOp *loop = launch->loops[i];
    const BpIrScalar *extent = bp__interpreter_eval(thread, loop->operands[2]);
    if (!extent)
      return -1;
    if (extent->i < 0 || extent->i > INT32_MAX)
      return bp_error_raise(BP_ERROR_VALUE, "a launch of %" PRId64 " in %s", extent->i,
                            loop->node->str_value);
    if (extent->i > extents[loop->axis])
      extents[loop->axis] = extent->i;
  }
  int64_t threads = 1, blocks = 1;
  for (int axis = 0; axis < BP__NUM_THREAD_AXES; axis++) {
    if (extents[axis] < 0)
      extents[axis] = 1;
    int64_t *product = axis < 3 ? &blocks : &threads;
    if (__builtin_mul_overflow(*product, extents[axis], product))
      return bp_error_raise(BP_ERROR_VALUE, "the launch has too many threads");
  }
  if (threads == 0 || blocks == 0)
    return 1;
  if (threads > MAX_BLOCK_THREADS)
    return bp_error_raise(BP_ERROR_VALUE, "a block of %" PRId64 " threads; at most %d are allowed",
                          threads, MAX_BLOCK_THREADS);
  return 0;
}

static int launch(BpThread *thread, const BpLaunch *grid) {
  int64_t extents[BP__NUM_THREAD_AXES];
  int rc = launch_extents(thread, grid, extents);
  if (rc)
    return rc < 0 ? -1 : 0;
  return run_grid(thread, extents, grid->body);
}

/* ---- Functions --------------------------------------------------------------------------- */

static int run_program(BpProgram *program, const BpValue *args, int32_t num_args) {
  BpThread thread;
  if (bp__interpreter_resolve(program))
    return -1;
  int rc = thread_init(&thread, program);
  bp__interpreter_begin(&thread);
  if (!rc)
    rc = bp__interpreter_bind_args(&thread, args, num_args);
  if (!rc && program->kernel)
    rc = launch(&thread, program->kernel);
  else if (!rc)
    rc = push(&thread, program->body) || resume(&thread) ? -1 : 0;
  thread_clear(&thread);
  return rc;
}

int bp__interpreter_run(const BpIrModule *module, const BpIrNode *function, const BpValue *args,
                        int32_t num_args, int depth, int64_t *left) {
  if (bp__ir_verify_function(function))
    return -1;
  BpProgram program = {.module = module, .function = function, .depth = depth, .left = left};
  int rc = run_program(&program, args, num_args);
  bp__interpreter_program_clear(&program);
  return rc ? bp_error_add_context("IR function '%s'", function->str_value) : 0;
}

int bp_ir_interpret_steps(const BpIrModule *module, const char *function, const BpValue *args,
                          int32_t num_args, int64_t *steps) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(function) || !BP_NOT_NULL(steps) ||
      !BP_IS_LIST(args, num_args))
    return -1;
  const BpIrNode *found = bp_ir_module_find(module, function);
  if (!found)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "the IR module has no function '%s'", function);
  return bp__interpreter_run(module, found, args, num_args, 0, steps);
}

int bp_ir_interpret(const BpIrModule *module, const char *function, const BpValue *args,
                    int32_t num_args) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(function) || !BP_IS_LIST(args, num_args))
    return -1;
  int64_t steps = INT64_MAX;
  return bp_ir_interpret_steps(module, function, args, num_args, &steps);
}
