/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and launches: a kernel's program is built when it is first called; each call becomes a
 * command of the stream that is current in the calling thread. */
#include "simdev.h"

#include <stdlib.h>

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

/* The threads of a block, each a thread of the host's that does its part of one block after
 * another. The first is the stream's own. */
typedef struct Team {
  const Launch *launch;
  void *args[BP_KERNEL_MOST_ARGS];
  pthread_barrier_t barrier;
  pthread_mutex_t gate; /* closed until all are there, or it is called off */
  int32_t is_called_off;
  BpError *failure; /* the first one */
} Team;

typedef struct Member {
  pthread_t thread;
  Team *team;
  simdev_thread self;
} Member;

/* What the threads of a block share is there once, so one kernel runs at a time. */
static pthread_mutex_t compute_unit = PTHREAD_MUTEX_INITIALIZER;

static uint64_t product(const uint64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

/* Sets the place of number `number` in a space of these extents, x first. */
static void set_place(long long place[3], uint64_t number, const uint64_t extents[3]) {
  for (int i = 0; i < 3; i++, number /= extents[i - 1])
    place[i] = (long long)(number % extents[i]);
}

static void wait_for_team(void *team) {
  pthread_barrier_wait(&((Team *)team)->barrier);
}

static void keep_failure(Team *team, BpError *failure) {
  pthread_mutex_lock(&team->gate);
  BpError *other = team->failure ? failure : NULL;
  if (!other)
    team->failure = failure;
  pthread_mutex_unlock(&team->gate);
  simdev_host.object->release(other);
}

static void *run_member(void *context) {
  Member *member = context;
  Team *team = member->team;
  BpFunction *entry = team->launch->entry;
  const BpValue values[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = team->args},
                            {.type_index = BP_TYPE_POINTER, .v_ptr = &member->self}};
  pthread_mutex_lock(&team->gate);
  uint64_t blocks = team->is_called_off ? 0 : product(team->launch->blocks);
  pthread_mutex_unlock(&team->gate);
  for (uint64_t block = 0; block < blocks; block++) {
    BpValue result = {0};
    set_place(member->self.block, block, team->launch->blocks);
    if (entry->call(entry, values, 2, &result))
      keep_failure(team, simdev_host.error->take());
    wait_for_team(team);
  }
  return NULL;
}

static void run_team(Team *team) {
  Member members[SIMDEV_MOST_THREADS] = {0};
  uint64_t count = product(team->launch->threads), started = 0;
  pthread_mutex_lock(&team->gate);
  for (; started < count; started++) {
    Member *member = &members[started];
    *member = (Member){.team = team, .self = {.barrier = wait_for_team, .team = team}};
    set_place(member->self.thread, started, team->launch->threads);
    if (started && pthread_create(&member->thread, NULL, run_member, member))
      break;
  }
  team->is_called_off = started < count;
  pthread_mutex_unlock(&team->gate);
  run_member(&members[0]);
  while (--started)
    pthread_join(members[started].thread, NULL);
}

static int32_t run_launch(SimdevCommand *command) {
  Launch *launch = (Launch *)(void *)command;
  Team team = {.launch = launch, .gate = PTHREAD_MUTEX_INITIALIZER};
  for (int32_t i = 0; i < launch->num_args; i++) {
    Argument *arg = &launch->args[i];
    team.args[i] = arg->buffer ? arg->buffer->memory + arg->offset : arg->scalar;
  }
  pthread_barrier_init(&team.barrier, NULL, (unsigned)product(launch->threads));
  pthread_mutex_lock(&compute_unit);
  run_team(&team);
  pthread_mutex_unlock(&compute_unit);
  pthread_barrier_destroy(&team.barrier);
  if (team.failure)
    simdev_host.error->raise(BP_ERROR_DEVICE, "%.*s", (int)team.failure->message.size,
                             team.failure->message.data);
  else if (team.is_called_off)
    simdev_host.error->raise(BP_ERROR_RUNTIME, "simdev: cannot start the threads of a block");
  simdev_host.object->release(team.failure);
  return team.failure || team.is_called_off ? -1 : 0;
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
