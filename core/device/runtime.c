/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for plugins (the "runtime" table) and for compiled host code, whose names and
 * signatures are tvm-ffi's; and the start of core/device. */

#include "core/device/device.h"
#include "core/module/library.h"
#include "core/registry/cache.h"
#include "core/system/env.h"
#include "core/registry/host.h"
#include "core/registry/registry.h"

#include <backplane/cache.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <string.h>

/* Plugins may read only BACKPLANE_* variables. */
static const char *get_option(const char *name) {
  return name && !strncmp(name, "BACKPLANE_", strlen("BACKPLANE_")) ? bp__env_get(name) : NULL;
}

static const BpRuntimeTable runtime_table = {
    .struct_size = sizeof runtime_table,
    .host_alloc = bp__host_alloc,
    .host_free = bp__host_free,
    .parallel_launch = bp_parallel_launch,
    .parallel_barrier = bp_parallel_barrier,
    .num_threads = bp_threads_get,
    .get_current = bp_device_get_current,
    .get_cache_dir = bp__cache_dir,
    .get_option = get_option,
    .cache_read = bp_cache_read,
    .cache_write = bp_cache_write,
};

/* ---- Functions for compiled host code ---------------------------------------------------- */

static int parallel_launch(BpParallelTask task, void *data, int num_task) {
  return bp_parallel_launch(task, data, num_task);
}

static int parallel_barrier(int task_id, BpParallelGroup *group) {
  return bp_parallel_barrier(task_id, group);
}

/* The element type is given by its code and bits. */
static void *alloc_workspace(int device_type, int device_id, uint64_t size, int code, int bits) {
  BpDataType hint = {(uint8_t)code, (uint8_t)bits, 1};
  void *handle;
  return bp_workspace_alloc((BpDevice){device_type, device_id}, size, hint, &handle) ? NULL
                                                                                     : handle;
}

static int free_workspace(int device_type, int device_id, void *handle) {
  return bp_workspace_free((BpDevice){device_type, device_id}, handle);
}

/* __tvm_set_device(device_type, device_id): host code calls it before it launches a kernel. The
 * current stream is kept if the device does not change. */
static int set_device(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  if (num_args != 2 || args[0].type_index != BP_TYPE_INT || args[1].type_index != BP_TYPE_INT)
    return bp_error_raise(BP_ERROR_TYPE, "__tvm_set_device takes a device's type and index");
  BpDevice device = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64};
  int32_t current;
  void *stream;
  bp_device_get_current(device.device_type, &current, &stream);
  return current == device.device_id ? 0 : bp_device_set_current(device, NULL);
}

static int add_library_slots(void) {
  static const struct {
    const char *name;
    void (*function)(void);
  } slots[] = {
      {"__TVMBackendParallelLaunch", (void (*)(void))parallel_launch},
      {"__TVMBackendParallelBarrier", (void (*)(void))parallel_barrier},
      {"__TVMBackendAllocWorkspace", (void (*)(void))alloc_workspace},
      {"__TVMBackendFreeWorkspace", (void (*)(void))free_workspace},
  };
  for (size_t i = 0; i < sizeof slots / sizeof *slots; ++i)
    if (bp__library_add_slot(slots[i].name, slots[i].function))
      return -1;
  return bp__registry_set_call("__tvm_set_device", set_device);
}

int bp__device_start(void) {
  if (bp_host_add_table(BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION, &runtime_table))
    return -1;
  return add_library_slots();
}
