/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and launches: a kernel's program is built when the kernel is first called; each call
 * becomes a command of the calling thread's current stream. */
#include "simdev.h"

#include <stdlib.h>

typedef struct Launch {
  BpFunction *entry;
  uint64_t blocks[3], threads[3];
  void *args[BP_KERNEL_MAX_ARGS]; /* addresses of the kernel's arguments */
  char scalars[BP_KERNEL_MAX_ARGS][8];
  SimdevBuffer *buffers[BP_KERNEL_MAX_ARGS]; /* NULL for a scalar argument */
} Launch;

/* ---- Running, in the stream's thread ----------------------------------------------------- */

/* Which threads of a block run. The stream's thread runs all threads of a block one after another,
 * which takes less time than host threads. When the first thread of a block waits at a barrier,
 * each other thread becomes a host thread, and all run together until the launch ends. */
typedef enum Running { RUNNING_FIRST, RUNNING_OTHERS, RUNNING_TOGETHER } Running;

/* The unit that runs kernels, one at a time, since there is only one set of shared memory. */
static struct {
  pthread_mutex_t lock; /* held while a kernel runs */
  pthread_mutex_t gate; /* held until all host threads have started */
  pthread_barrier_t barrier;
  const Launch *launch;
  simdev_thread threads[SIMDEV_MOST_THREADS]; /* the threads of a block */
  pthread_t started[SIMDEV_MOST_THREADS];     /* host threads, from number 1 on */
  uint64_t num_threads, num_started;
  uint64_t block, num_blocks; /* the current block; the number of blocks, 0 to end the launch */
  Running running;
  const char *fault; /* why the launch ended, or NULL */
} unit = {.lock = PTHREAD_MUTEX_INITIALIZER, .gate = PTHREAD_MUTEX_INITIALIZER};

static uint64_t product(const uint64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

/* Sets the coordinates of element `number` in a space of these extents, x first. */
static void set_place(long long place[3], uint64_t number, const uint64_t extents[3]) {
  for (int i = 0; i < 3; i++, number /= extents[i - 1])
    place[i] = (long long)(number % extents[i]);
}

/* Runs a thread's part of a block. Returns whether the part failed. */
static int run_part(simdev_thread *thread, uint64_t block) {
  const BpValue args[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = (void *)unit.launch->args},
                          {.type_index = BP_TYPE_POINTER, .v_ptr = thread}};
  BpValue result = {0};
  set_place(thread->block, block, unit.launch->blocks);
  return unit.launch->entry->call(unit.launch->entry, args, 2, &result) != 0;
}

/* Runs a host thread's part of the blocks from the current one on. Returns the error of a failure,
 * to be released, or NULL. */
static void *run_thread(void *thread) {
  pthread_mutex_lock(&unit.gate);
  uint64_t block = unit.block, num_blocks = unit.num_blocks;
  pthread_mutex_unlock(&unit.gate);
  int has_failed = 0;
  for (; block < num_blocks; block++) {
    has_failed |= run_part(thread, block);
    pthread_barrier_wait(&unit.barrier);
  }
  return has_failed ? simdev_host.error->take() : NULL;
}

/* Makes the launch end after the running parts, with an error. */
static void end_launch(const char *fault) {
  unit.fault = unit.fault ? unit.fault : fault;
  unit.num_blocks = 0;
}

/* Starts a host thread for each thread but the first. */
static void start_threads(void) {
  pthread_mutex_lock(&unit.gate);
  while (unit.num_started < unit.num_threads &&
         !pthread_create(&unit.started[unit.num_started], NULL, run_thread,
                         &unit.threads[unit.num_started]))
    unit.num_started++;
  if (unit.num_started < unit.num_threads)
    end_launch("cannot start a block's threads");
  else
    unit.running = RUNNING_TOGETHER;
  pthread_mutex_unlock(&unit.gate);
}

/* The barrier that kernels call. */
static void wait_for_block(void) {
  if (unit.running == RUNNING_FIRST)
    start_threads();
  if (unit.running == RUNNING_TOGETHER)
    pthread_barrier_wait(&unit.barrier);
  else
    end_launch("threads of one block meet different barriers");
}

/* Runs a block, or the first thread's part of it if all threads run together. */
static int run_block(void) {
  int has_failed = run_part(&unit.threads[0], unit.block);
  if (unit.running == RUNNING_TOGETHER) {
    pthread_barrier_wait(&unit.barrier);
    return has_failed;
  }
  unit.running = RUNNING_OTHERS;
  for (uint64_t i = 1; i < unit.num_threads && unit.num_blocks; i++)
    has_failed |= run_part(&unit.threads[i], unit.block);
  unit.running = RUNNING_FIRST;
  return has_failed;
}

static void begin_launch(const Launch *launch) {
  unit.launch = launch;
  unit.num_threads = product(launch->threads);
  unit.num_started = 1;
  unit.num_blocks = product(launch->blocks);
  unit.running = RUNNING_FIRST;
  unit.fault = NULL;
  for (uint64_t i = 0; i < unit.num_threads; i++) {
    unit.threads[i].barrier = wait_for_block;
    set_place(unit.threads[i].thread, i, launch->threads);
  }
  pthread_barrier_init(&unit.barrier, NULL, (unsigned)unit.num_threads);
}

/* Waits for the host threads. Returns the first error, to be released, or NULL. */
static void *join_threads(void *failure) {
  for (uint64_t i = 1; i < unit.num_started; i++) {
    void *other;
    pthread_join(unit.started[i], &other);
    simdev_host.object->release(failure ? other : NULL);
    failure = failure ? failure : other;
  }
  return failure;
}

static int32_t run_launch(void *data) {
  int has_failed = 0;
  pthread_mutex_lock(&unit.lock);
  begin_launch(data);
  for (unit.block = 0; unit.block < unit.num_blocks; unit.block++)
    has_failed |= run_block();
  void *failure = join_threads(has_failed ? simdev_host.error->take() : NULL);
  const char *fault = unit.fault;
  pthread_barrier_destroy(&unit.barrier);
  pthread_mutex_unlock(&unit.lock);
  if (!fault)
    return simdev_host.error->put(failure);
  simdev_host.object->release(failure);
  return bp_plugin_raise(&simdev_host, BP_ERROR_RUNTIME, "simdev: %s", fault);
}

static void destroy_launch(void *data) {
  Launch *launch = data;
  for (int32_t i = 0; i < BP_KERNEL_MAX_ARGS; i++)
    simdev_unuse(launch->buffers[i]);
  simdev_host.object->release(launch->entry);
  free(launch);
}

/* ---- Queueing ---------------------------------------------------------------------------- */

static int32_t take_argument(const BpKernel *kernel, int32_t i, const BpValue *value,
                             BpDevice device, Launch *launch) {
  BpKernelBuffer view = {0};
  launch->args[i] = launch->scalars[i];
  if (kernel->arg_dtypes[i].code != BP_DTYPE_HANDLE)
    return bp_kernel_get_scalar(&simdev_host, kernel, i, value, kernel->arg_dtypes[i],
                                launch->scalars[i]);
  BpKernelPlace place = {&simdev_device_api, device.device_id};
  if (bp_kernel_get_buffer(&simdev_host, kernel, place, i, value, &view))
    return -1;
  launch->args[i] = simdev_use(device, view.data, view.offset, view.size, &launch->buffers[i]);
  return launch->args[i] ? 0
                         : bp_plugin_add_context(&simdev_host, "%s: argument %d", kernel->name, i);
}

static int32_t take_call(const BpKernel *kernel, const BpValue *args, BpDevice device,
                         Launch *launch) {
  if (bp_kernel_get_launch(&simdev_host, kernel, args, launch->blocks, launch->threads) ||
      bp_kernel_check_limits(&simdev_host, kernel, &simdev_limits, launch->blocks, launch->threads))
    return -1;
  for (int32_t i = 0; i < kernel->num_args; i++)
    if (take_argument(kernel, i, &args[i], device, launch))
      return -1;
  return 0;
}

static int32_t launch_kernel(const BpKernelEntry *kernel, const BpInvocation *invocation,
                             const BpValue *args, int32_t num_args) {
  if (bp_kernel_check_count(&simdev_host, &kernel->call, num_args))
    return -1;
  Launch *launch = bp_plugin_calloc(&simdev_host, sizeof *launch);
  if (!launch)
    return -1;
  launch->entry = kernel->built;
  simdev_host.object->retain(launch->entry);
  if (take_call(&kernel->call, args, invocation->device, launch)) {
    destroy_launch(launch);
    return -1;
  }
  return simdev_submit(invocation->device.device_id, invocation->stream,
                       (SimdevWork){run_launch, destroy_launch, launch, 0});
}

/* ---- Modules ----------------------------------------------------------------------------- */

static pthread_mutex_t compiler = PTHREAD_MUTEX_INITIALIZER;

/* Builds the program, with the lock held. The system's C compiler, called through the host, stands
 * for the driver's compiler. The compiler runs when a kernel is first called, so that loading a
 * module needs no compiler. */
static int32_t build_kernel(BpKernelModule *module, BpKernelEntry *kernel) {
  BpFunction *entry = NULL;
  if (!module->built)
    module->built = simdev_host.module->load_from_c(&module->code, NULL);
  if (!module->built ||
      simdev_host.module->get_function(module->built, kernel->call.name, 0, &entry))
    return bp_plugin_add_context(&simdev_host, "simdev: building %s", kernel->call.name);
  if (!entry)
    return bp_plugin_raise(&simdev_host, BP_ERROR_FORMAT, "module of kind simdev: no code for %s",
                           kernel->call.name);
  kernel->built = entry;
  return 0;
}

static int32_t build_and_launch(BpKernelModule *module, BpKernelEntry *kernel,
                                const BpInvocation *invocation, const BpValue *args,
                                int32_t num_args) {
  pthread_mutex_lock(&compiler);
  int32_t rc = kernel->built ? 0 : build_kernel(module, kernel);
  pthread_mutex_unlock(&compiler);
  return rc ? -1 : launch_kernel(kernel, invocation, args, num_args);
}

static void forget(BpKernelModule *module) {
  for (int32_t i = 0; i < module->num_kernels; i++)
    simdev_host.object->release(module->kernels[i].built);
  simdev_host.object->release(module->built);
}

static const BpModuleApi module_api = BP_KERNEL_MODULE_API("simdev");

const BpKernelModuleKind simdev_module_kind = {
    .host = &simdev_host,
    .device = &simdev_device_api,
    .api = &module_api,
    .format = "simdev",
    .launch = build_and_launch,
    .forget = forget,
};
