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

/* The unit that runs kernels, one at a time, since there is only one set of shared memory. Each of
 * its threads is a host thread, which does its part of one block after another. */
static struct {
  pthread_mutex_t lock; /* held while a kernel runs */
  pthread_mutex_t gate; /* held until all threads have started, or the launch is cancelled */
  pthread_barrier_t barrier;
  const Launch *launch;
  uint64_t blocks; /* number of blocks to run */
} unit = {.lock = PTHREAD_MUTEX_INITIALIZER, .gate = PTHREAD_MUTEX_INITIALIZER};

static uint64_t product(const uint64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

/* Sets the coordinates of element `number` in a space of these extents, x first. */
static void set_place(long long place[3], uint64_t number, const uint64_t extents[3]) {
  for (int i = 0; i < 3; i++, number /= extents[i - 1])
    place[i] = (long long)(number % extents[i]);
}

static void wait_for_block(void) {
  pthread_barrier_wait(&unit.barrier);
}

/* Runs one thread of a kernel. Returns the error of a failure, to be released, or NULL. */
static void *run_thread(void *context) {
  simdev_thread *self = context;
  pthread_mutex_lock(&unit.gate);
  const Launch *launch = unit.launch;
  uint64_t blocks = unit.blocks;
  pthread_mutex_unlock(&unit.gate);
  const BpValue args[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = (void *)launch->args},
                          {.type_index = BP_TYPE_POINTER, .v_ptr = self}};
  BpValue result = {0};
  int has_failed = 0;
  for (uint64_t block = 0; block < blocks; block++) {
    set_place(self->block, block, launch->blocks);
    has_failed |= launch->entry->call(launch->entry, args, 2, &result) != 0;
    wait_for_block();
  }
  return has_failed ? simdev_host.error->take() : NULL;
}

/* The first thread is the stream's own thread. */
static int32_t run_launch(void *data) {
  const Launch *launch = data;
  pthread_t threads[SIMDEV_MOST_THREADS];
  simdev_thread contexts[SIMDEV_MOST_THREADS];
  uint64_t count = product(launch->threads), started = 0;
  pthread_mutex_lock(&unit.lock);
  pthread_mutex_lock(&unit.gate);
  for (; started < count; started++) {
    contexts[started].barrier = wait_for_block;
    set_place(contexts[started].thread, started, launch->threads);
    if (started && pthread_create(&threads[started], NULL, run_thread, &contexts[started]))
      break;
  }
  unit.launch = launch;
  unit.blocks = started < count ? 0 : product(launch->blocks);
  pthread_barrier_init(&unit.barrier, NULL, (unsigned)count);
  pthread_mutex_unlock(&unit.gate);
  void *failure = run_thread(&contexts[0]), *other;
  for (uint64_t i = 1; i < started; i++) {
    pthread_join(threads[i], &other);
    simdev_host.object->release(failure ? other : NULL);
    failure = failure ? failure : other;
  }
  pthread_barrier_destroy(&unit.barrier);
  pthread_mutex_unlock(&unit.lock);
  if (started < count)
    return bp_plugin_raise(&simdev_host, BP_ERROR_RUNTIME,
                           "simdev: cannot start a block's threads");
  return simdev_host.error->put(failure);
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
