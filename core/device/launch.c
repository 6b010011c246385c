/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: functions that are launched on the device and stream of an invocation. A kernel that is
 * called without an invocation is launched on the current device and stream of the thread.
 *
 * The devices of another machine run the code of their kind. A kernel that is launched on such a
 * device, or called with the device's memory, is loaded on that machine at its first use. */
#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/module/module.h"
#include "core/registry/argument.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The size of BpInvocation in its first version. */
#define LEAST_INVOCATION 32

/* The same kernel for devices of another type; the kernel's module owns its module. */
typedef struct Elsewhere {
  BpFunction *function;
  struct Elsewhere *next;
} Elsewhere;

typedef struct Kernel {
  int32_t device_type;
  BpKernelCall launch;
  void *context;
  void (*destroy)(void *context);
  BpModule *module; /* kept alive by the kernel's function */
  _Atomic(Elsewhere *) elsewhere;
  char name[];
} Kernel;

static void destroy_kernel(void *data) {
  Kernel *kernel = data;
  for (Elsewhere *next, *it = atomic_load(&kernel->elsewhere); it; it = next) {
    next = it->next;
    bp_object_release(it->function);
    free(it);
  }
  if (kernel->destroy)
    kernel->destroy(kernel->context);
  free(kernel);
}

/* ---- Other machines ---------------------------------------------------------------------- */

static int call_kernel(void *self, const BpValue *args, int32_t num_args, BpValue *result);

static Kernel *kernel_of(BpFunction *function) {
  return function->call == call_kernel ? ((BpClosure *)(void *)function)->context : NULL;
}

/* Returns the function for devices of a type, transfer full; NULL with an error. */
static BpFunction *load_elsewhere(const Kernel *kernel, int32_t device_type) {
  const BpDeviceApi *api = bp_device_api(device_type);
  if (!api)
    return NULL;
  size_t length = (size_t)(bp__device_plain_kind(api->name) - api->name);
  char machine[BP_DEVICE_KIND_MAX];
  memcpy(machine, api->name, length);
  machine[length] = '\0';
  BpModule *module = bp__module_elsewhere(kernel->module, machine);
  BpFunction *function = NULL;
  if (!module || bp_module_get_function(module, kernel->name, 0, &function))
    return NULL;
  const Kernel *loaded = function ? kernel_of(function) : NULL;
  if (loaded && loaded->device_type == device_type)
    return function;
  bp_object_release(function);
  bp_error_raise(BP_ERROR_NOT_FOUND, "the module that %s loads has no kernel \"%s\"", api->name,
                 kernel->name);
  return NULL;
}

static const Kernel *find_elsewhere(const Kernel *kernel, int32_t device_type) {
  for (const Elsewhere *it = atomic_load(&kernel->elsewhere); it; it = it->next)
    if (kernel_of(it->function)->device_type == device_type)
      return kernel_of(it->function);
  return NULL;
}

/* Returns the kernel for the devices of a type, which run the same code; NULL with an error. If two
 * threads add a kernel at once, the list has the kernel twice. */
static const Kernel *kernel_for(Kernel *kernel, int32_t device_type) {
  if (__builtin_expect(kernel->device_type == device_type, 1))
    return kernel;
  const Kernel *found = find_elsewhere(kernel, device_type);
  if (found)
    return found;
  BpFunction *function = load_elsewhere(kernel, device_type);
  Elsewhere *added = function ? malloc(sizeof *added) : NULL;
  if (!added) {
    if (function)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for a kernel");
    bp_object_release(function);
    return NULL;
  }
  *added = (Elsewhere){function, atomic_load(&kernel->elsewhere)};
  while (!atomic_compare_exchange_weak(&kernel->elsewhere, &added->next, added)) {
  }
  return kernel_of(function);
}

/* ---- Calls ------------------------------------------------------------------------------- */

/* Returns the type of the devices that the arguments are on: that of the first tensor on a device
 * that can run the kernel's code. */
static int32_t type_of_arguments(const Kernel *kernel, const BpValue *args, int32_t num_args) {
  for (int32_t i = 0; i < num_args; i++) {
    const BpTensorView *view = bp_value_view_tensor(&args[i]);
    if (view && BP_DEVICE_TYPE_OF_CODE(view->device.device_type) ==
                    BP_DEVICE_TYPE_OF_CODE(kernel->device_type))
      return view->device.device_type;
  }
  return kernel->device_type;
}

static int call_kernel(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Kernel *own = ((const BpClosure *)self)->context;
  int32_t type = type_of_arguments(own, args, num_args);
  const Kernel *kernel = kernel_for(own, type);
  BpInvocation invocation = {.struct_size = sizeof invocation, .device = {type, 0}};
  (void)result;
  if (!kernel)
    return -1;
  bp_device_get_current(type, &invocation.device.device_id, &invocation.stream);
  return kernel->launch(kernel->context, &invocation, args, num_args);
}

BpFunction *bp_module_kernel_create(BpModule *module, int32_t device_type, BpKernelCall launch,
                                    void *context, void (*destroy)(void *context)) {
  if (launch && bp__layers_wrap_kernel(device_type, &launch, &context, &destroy)) {
    if (destroy)
      destroy(context);
    return NULL;
  }
  const char *name = bp__module_looked_up();
  size_t size = strlen(name) + 1;
  Kernel *kernel = launch ? malloc(sizeof *kernel + size) : NULL;
  if (!kernel) {
    if (launch)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for a kernel");
    else
      bp_error_raise(BP_ERROR_VALUE, "a kernel needs a function that launches it");
    if (destroy)
      destroy(context);
    return NULL;
  }
  *kernel = (Kernel){device_type, launch, context, destroy, module, NULL};
  memcpy(kernel->name, name, size);
  return bp_module_function_create(module, call_kernel, kernel, destroy_kernel);
}

/* ---- Launching --------------------------------------------------------------------------- */

static int check_place(const Kernel *kernel, const BpInvocation *invocation) {
  BpDevice device = invocation->device;
  if (BP_DEVICE_TYPE_OF_CODE(device.device_type) != BP_DEVICE_TYPE_OF_CODE(kernel->device_type))
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
  if (!BP_NOT_NULL(function) || !BP_NOT_NULL(given) || !BP_NOT_NULL(result))
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
  Kernel *own = kernel_of(function);
  if (check_place(own, &invocation))
    return -1;
  const Kernel *kernel = kernel_for(own, invocation.device.device_type);
  return !kernel ? -1 : kernel->launch(kernel->context, &invocation, args, num_args);
}
