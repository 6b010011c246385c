/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and launches: a kernel's program is built when it is first called; each call becomes a
 * command of the stream that is current in the calling thread. */
#include "simdev.h"

#include <stdlib.h>
#include <ucontext.h>

/* An argument: a buffer and an offset into it, or a scalar where there is no buffer. */
typedef struct Argument {
  SimdevBuffer *buffer;
  uint64_t offset;
  char scalar[8];
} Argument;

typedef struct Launch {
  SimdevCommand base;
  BpFunction *entry;
  uint64_t blocks[3], threads[3];
  int32_t num_args;
  Argument args[];
} Launch;

/* ---- Running, in the stream's thread ----------------------------------------------------- */

#define STACK_SIZE (256 << 10)

/* The threads of a block take turns on one thread of the host: each runs until it waits for the
 * others at a barrier, or ends. */
typedef struct Team {
  ucontext_t scheduler;
  const Launch *launch;
  void **args;
  uint64_t current; /* the thread that runs */
  int32_t rc;
  struct {
    ucontext_t context;
    simdev_thread self;
    int has_ended;
    char stack[STACK_SIZE];
  } threads[];
} Team;

static _Thread_local Team *team;

/* Shared memory is there once, so one kernel runs at a time. */
static pthread_mutex_t compute_unit = PTHREAD_MUTEX_INITIALIZER;

static uint64_t product(const uint64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

/* Sets the place of number `number` in a space of these extents, x first. */
static void set_place(long long place[3], uint64_t number, const uint64_t extents[3]) {
  for (int i = 0; i < 3; i++, number /= extents[i - 1])
    place[i] = (long long)(number % extents[i]);
}

static void wait_for_others(void) {
  swapcontext(&team->threads[team->current].context, &team->scheduler);
}

static void run_thread(void) {
  simdev_thread *self = &team->threads[team->current].self;
  const BpValue values[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = team->args},
                            {.type_index = BP_TYPE_POINTER, .v_ptr = self}};
  BpFunction *entry = team->launch->entry;
  BpValue result = {0};
  if (entry->call(entry, values, 2, &result))
    team->rc = -1;
  team->threads[team->current].has_ended = 1;
}

/* Prepares the threads of a block. */
static void begin_block(uint64_t block, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    simdev_thread *self = &team->threads[i].self;
    self->barrier = wait_for_others;
    set_place(self->block, block, team->launch->blocks);
    set_place(self->thread, i, team->launch->threads);
    ucontext_t *context = &team->threads[i].context;
    getcontext(context);
    context->uc_stack.ss_sp = team->threads[i].stack;
    context->uc_stack.ss_size = STACK_SIZE;
    context->uc_link = &team->scheduler;
    makecontext(context, run_thread, 0);
    team->threads[i].has_ended = 0;
  }
}

/* Lets those that have not ended go on, one after another. Returns how many these were. */
static uint64_t run_turn(uint64_t count) {
  uint64_t ran = 0;
  for (team->current = 0; team->current < count; team->current++) {
    if (team->threads[team->current].has_ended)
      continue;
    ran++;
    swapcontext(&team->scheduler, &team->threads[team->current].context);
  }
  return ran;
}

static int32_t run_launch(SimdevCommand *command) {
  Launch *launch = (Launch *)(void *)command;
  void *args[BP_KERNEL_MOST_ARGS];
  for (int32_t i = 0; i < launch->num_args; i++) {
    Argument *arg = &launch->args[i];
    args[i] = arg->buffer ? arg->buffer->memory + arg->offset : arg->scalar;
  }
  uint64_t count = product(launch->threads);
  team = calloc(1, sizeof *team + count * sizeof *team->threads);
  if (!team)
    return simdev_host.error->raise(BP_ERROR_MEMORY, "simdev: no memory to run a kernel");
  team->launch = launch;
  team->args = args;
  pthread_mutex_lock(&compute_unit);
  for (uint64_t block = 0; !team->rc && block < product(launch->blocks); block++) {
    begin_block(block, count);
    while (run_turn(count)) {
    }
  }
  pthread_mutex_unlock(&compute_unit);
  int32_t rc = team->rc;
  free(team);
  return rc;
}

static void destroy_launch(SimdevCommand *command) {
  Launch *launch = (Launch *)(void *)command;
  for (int32_t i = 0; i < launch->num_args; i++)
    simdev_unuse(launch->args[i].buffer);
  simdev_host.object->release(launch->entry);
  free(launch);
}

/* ---- Queueing ---------------------------------------------------------------------------- */

static int32_t take_argument(const BpKernel *kernel, int32_t i, const BpValue *value,
                             int32_t device_id, Argument *arg) {
  BpKernelBuffer view = {0};
  if (kernel->arg_dtypes[i].code != BP_DTYPE_HANDLE)
    return bp_kernel_get_scalar(&simdev_host, kernel, i, value, kernel->arg_dtypes[i], arg->scalar);
  if (bp_kernel_get_buffer(&simdev_host, kernel, &simdev_device_api, i, value, &view))
    return -1;
  arg->buffer = simdev_use(device_id, view.data, view.offset, view.size);
  arg->offset = view.offset;
  return arg->buffer ? 0 : simdev_host.error->add_context("%s: argument %d", kernel->name, i);
}

static int32_t take_call(const BpKernel *kernel, const BpValue *args, int32_t device_id,
                         Launch *launch) {
  if (bp_kernel_get_launch(&simdev_host, kernel, args, launch->blocks, launch->threads))
    return -1;
  for (int i = 0; i < 3; i++)
    if (launch->blocks[i] > SIMDEV_MOST_BLOCKS || launch->threads[i] > SIMDEV_MOST_THREADS ||
        product(launch->threads) > SIMDEV_MOST_THREADS)
      return simdev_host.error->raise(
          BP_ERROR_VALUE, "%s: more than %d blocks along an axis, or %d threads in a block",
          kernel->name, SIMDEV_MOST_BLOCKS, SIMDEV_MOST_THREADS);
  for (int32_t i = 0; i < kernel->num_args; i++, launch->num_args++)
    if (take_argument(kernel, i, &args[i], device_id, &launch->args[i]))
      return -1;
  return 0;
}

static int32_t launch_kernel(const BpKernelEntry *kernel, const BpValue *args, int32_t num_args) {
  if (bp_kernel_check_count(&simdev_host, &kernel->call, num_args))
    return -1;
  size_t size = sizeof(Launch) + (size_t)kernel->call.num_args * sizeof(Argument);
  Launch *launch = simdev_command_create(size, run_launch, destroy_launch);
  if (!launch)
    return -1;
  launch->entry = kernel->built;
  simdev_host.object->retain(launch->entry);
  int32_t device_id;
  void *stream;
  simdev_host.runtime->get_current(SIMDEV_DEVICE_TYPE, &device_id, &stream);
  if (!take_call(&kernel->call, args, device_id, launch))
    return simdev_submit(device_id, stream, &launch->base);
  destroy_launch(&launch->base);
  return -1;
}

/* ---- Modules ----------------------------------------------------------------------------- */

static pthread_mutex_t compiler = PTHREAD_MUTEX_INITIALIZER;

/* With the lock held. The driver's compiler is the system's C compiler, through a service
 * of the host; it runs when a kernel is first called, so that loading a module needs none. */
static int32_t build_kernel(BpKernelModule *module, BpKernelEntry *kernel) {
  BpFunction *entry = NULL;
  if (!module->built)
    module->built = simdev_host.module->load_from_c(&module->code, NULL);
  if (!module->built ||
      simdev_host.module->get_function(module->built, kernel->call.name, 0, &entry))
    return simdev_host.error->add_context("simdev: building %s", kernel->call.name);
  if (!entry)
    return simdev_host.error->raise(BP_ERROR_FORMAT, "module of kind simdev: no code for %s",
                                    kernel->call.name);
  kernel->built = entry;
  return 0;
}

static int32_t call_kernel(BpKernelModule *module, BpKernelEntry *kernel, const BpValue *args,
                           int32_t num_args) {
  pthread_mutex_lock(&compiler);
  int32_t rc = kernel->built ? 0 : build_kernel(module, kernel);
  pthread_mutex_unlock(&compiler);
  return rc ? -1 : launch_kernel(kernel, args, num_args);
}

static void forget(BpKernelModule *module) {
  for (int32_t i = 0; i < module->num_kernels; i++)
    simdev_host.object->release(module->kernels[i].built);
  simdev_host.object->release(module->built);
}

static const BpModuleApi module_api = BP_KERNEL_MODULE_API("simdev");

const BpKernelModuleKind simdev_module_kind = {
    .host = &simdev_host,
    .api = &module_api,
    .format = "simdev",
    .call = call_kernel,
    .forget = forget,
};
