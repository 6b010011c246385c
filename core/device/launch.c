/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: functions that are launched on the device and stream of an invocation. If called without
 * an invocation, they are launched on the current device and stream of the thread. */
#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/registry/given.h"
#include "core/registry/sized.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <stdlib.h>

/* The size of BpInvocation in its first version. */
#define LEAST_INVOCATION 32

typedef struct Kernel {
  int32_t device_type;
  BpKernelCall launch;
  void *context;
  void (*destroy)(void *context);
} Kernel;

static void destroy_kernel(void *data) {
  Kernel *kernel = data;
  if (kernel->destroy)
    kernel->destroy(kernel->context);
  free(kernel);
}

static int call_kernel(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Kernel *kernel = ((const BpClosure *)self)->context;
  BpInvocation invocation = {.struct_size = sizeof invocation, .device = {kernel->device_type, 0}};
  (void)result;
  bp_device_get_current(kernel->device_type, &invocation.device.device_id, &invocation.stream);
  return kernel->launch(kernel->context, &invocation, args, num_args);
}

BpFunction *bp_module_kernel_create(BpModule *module, int32_t device_type, BpKernelCall launch,
                                    void *context, void (*destroy)(void *context)) {
  if (launch && bp__layers_wrap_kernel(device_type, &launch, &context, &destroy)) {
    if (destroy)
      destroy(context);
    return NULL;
  }
  Kernel *kernel = launch ? malloc(sizeof *kernel) : NULL;
  if (!kernel) {
    if (launch)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for a kernel");
    else
      bp_error_raise(BP_ERROR_VALUE, "a kernel needs a function that launches it");
    if (destroy)
      destroy(context);
    return NULL;
  }
  *kernel = (Kernel){device_type, launch, context, destroy};
  return bp_module_function_create(module, call_kernel, kernel, destroy_kernel);
}

/* ---- Launching --------------------------------------------------------------------------- */

static int check_place(const Kernel *kernel, const BpInvocation *invocation) {
  BpDevice device = invocation->device;
  if (device.device_type != kernel->device_type)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a kernel for devices of type %d cannot be launched on device type %d",
                          kernel->device_type, device.device_type);
  return bp__device_get(device) ? bp__stream_check(device, invocation->stream) : -1;
}

static int call_there(BpFunction *function, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args, BpValue *result) {
  BpDevice before = invocation->device;
  void *stream;
  bp_device_get_current(before.device_type, &before.device_id, &stream);
  if (bp_device_set_current(invocation->device, invocation->stream))
    return -1;
  int rc = bp_function_call(function, args, num_args, result);
  BpError *error = rc ? bp_error_take() : NULL;
  if (bp_device_set_current(before, stream))
    bp_error_clear(); /* the stream was freed meanwhile */
  if (error)
    bp_error_put(error);
  return rc;
}

int bp_function_launch(BpFunction *function, const BpInvocation *given, const BpValue *args,
                       int32_t num_args, BpValue *result) {
  BpInvocation invocation;
  if (!BP_GIVEN(function) || !BP_GIVEN(given) || !BP_GIVEN(result))
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_NONE};
  if (bp__sized_read(&invocation, sizeof invocation, LEAST_INVOCATION, given, "BpInvocation"))
    return -1;
  if (invocation.flags)
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpInvocation::flags is %#llx, which has to be 0: none is defined",
                          (unsigned long long)invocation.flags);
  if (function->call != call_kernel)
    return call_there(function, &invocation, args, num_args, result);
  const Kernel *kernel = ((const BpClosure *)(const void *)function)->context;
  if (check_place(kernel, &invocation))
    return -1;
  return kernel->launch(kernel->context, &invocation, args, num_args);
}
