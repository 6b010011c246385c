/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that compiled host code calls: threads, workspace, the device to launch on. The names
 * and signatures are those of tvm-ffi. */

#include "core/device/device.h"
#include "core/device/library_slots.h"
#include "core/module/library.h"
#include "core/registry/registry.h"

#include <backplane/error.h>
#include <backplane/object.h>

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

int bp__device_add_library_slots(void) {
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
