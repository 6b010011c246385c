/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. The first launch on a device loads the program and finds the kernel in it; later
 * launches take no lock. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* ---- Loading ----------------------------------------------------------------------------- */

static int32_t load_failed(BpCudaDevice *device, CUresult status, const char *log) {
  int is_unfit = status == CUDA_ERROR_NO_BINARY_FOR_GPU || status == CUDA_ERROR_INVALID_IMAGE ||
                 status == CUDA_ERROR_INVALID_PTX || status == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (!is_unfit)
    return bp_cuda_raise(device, status, "cuModuleLoadDataEx");
  return bp_plugin_raise(
      &bp_cuda_host, BP_ERROR_COMPILE,
      "cuda:%d: the driver does not take the code: %s (%d). The GPU is sm_%d, so compile with "
      "-arch=sm_%d or without -arch, and with NVRTC of a CUDA no newer than the driver's%s%s",
      device->index, bp_cuda_status_name(status), status, device->arch, device->arch,
      log[0] ? ":\n" : "", log);
}

static int32_t load_image(BpCudaDevice *device, const char *image, CUmodule *module) {
  char log[4096] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof(log) - 1)};
  CUresult status = bp_cu.cuModuleLoadDataEx(module, image, 2, options, values);
  return status == CUDA_SUCCESS ? 0 : load_failed(device, status, log);
}

/* Called with the program's lock held. */
static int32_t load_program(const BpKernelModule *module, BpCudaDevice *device) {
  char arch[32];
  BpOwnedBytes cubin = {NULL, 0, NULL};
  CUmodule *loaded = &((BpCudaProgram *)module->built)->loaded[device->index];
  if (*loaded)
    return 0;
  if (strcmp(module->format, BP_CUDA_SOURCE) != 0)
    return load_image(device, module->code.data, loaded);
  snprintf(arch, sizeof(arch), "sm_%d", device->arch);
  if (bp_cuda_compile(module->code.data, arch, NULL, &cubin) != 0)
    return -1;
  int32_t rc = load_image(device, cubin.data, loaded);
  cubin.free_data(cubin.data);
  return rc;
}

/* Sets the shared memory that launches may request to all that the code does not declare itself.
 * The limit is set once, because threads that launch a kernel with other sizes share the
 * setting. */
static int32_t allow_shared(BpCudaDevice *device, const BpKernel *call, CUfunction function) {
  int used = 0, is_asked = 0;
  for (int32_t i = 0; i < call->num_tags; i++)
    is_asked |= call->tags[i] == BP_KERNEL_TAG_SHARED;
  if (!is_asked)
    return 0;
  CUresult status = bp_cu.cuFuncGetAttribute(&used, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuFuncGetAttribute of the shared memory");
  if (device->most_shared <= used)
    return 0;
  status = bp_cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    device->most_shared - used);
  return status == CUDA_SUCCESS
             ? 0
             : bp_cuda_raise(device, status, "cuFuncSetAttribute of the shared memory");
}

/* Returns the kernel's function on the device; NULL with an error. */
static CUfunction find_function(const BpKernelModule *module, const BpKernelEntry *kernel,
                                BpCudaDevice *device) {
  CUfunction function = NULL;
  BpCudaProgram *program = module->built;
  pthread_mutex_lock(&program->lock);
  int32_t rc = load_program(module, device);
  CUmodule loaded = program->loaded[device->index];
  pthread_mutex_unlock(&program->lock);
  CUresult status =
      rc == 0 ? bp_cu.cuModuleGetFunction(&function, loaded, kernel->call.name) : CUDA_SUCCESS;
  if (status != CUDA_SUCCESS)
    rc = bp_cuda_raise(device, status, "cuModuleGetFunction");
  if (rc == 0 && allow_shared(device, &kernel->call, function) == 0)
    return function;
  bp_plugin_add_context(&bp_cuda_host, "kernel %s", kernel->call.name);
  return NULL;
}

static CUfunction get_function(const BpKernelModule *module, const BpKernelEntry *kernel,
                               BpCudaDevice *device) {
  _Atomic(CUfunction) *place = &((BpCudaKernel *)kernel->built)->functions[device->index];
  CUfunction function = atomic_load_explicit(place, memory_order_acquire);
  if (!function) {
    function = find_function(module, kernel, device);
    if (function)
      atomic_store_explicit(place, function, memory_order_release);
  }
  return function;
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* A kernel launch in the driver's form: a pointer to each argument. */
typedef struct Launch {
  const BpKernel *call;
  BpCudaDevice *device;
  uint64_t values[BP_KERNEL_MAX_ARGS];
  void *pointers[BP_KERNEL_MAX_ARGS];
  uint64_t blocks[3], threads[3];
  uint64_t shared; /* bytes */
} Launch;

static int32_t get_address(const Launch *launch, int32_t i, const BpValue *arg, uint64_t *address) {
  BpKernelBuffer given = {NULL, 0, 0};
  BpKernelPlace place = {&bp_cuda_device_api, launch->device->index};
  if (bp_kernel_get_buffer(&bp_cuda_host, launch->call, place, i, arg, &given) != 0)
    return -1;
  *address = (uint64_t)(uintptr_t)given.data + given.offset;
  if (*address % BP_CUDA_ALIGNMENT == 0)
    return 0;
  return bp_plugin_raise(
      &bp_cuda_host, BP_ERROR_VALUE,
      "%s: argument %d: a tensor may begin at a multiple of %d bytes, not at %#llx",
      launch->call->name, i, BP_CUDA_ALIGNMENT, (unsigned long long)*address);
}

static int32_t pack(Launch *launch, const BpValue *args) {
  for (int32_t i = 0; i < launch->call->num_args; i++) {
    BpDataType dtype = launch->call->arg_dtypes[i];
    uint64_t *value = &launch->values[i];
    launch->pointers[i] = value;
    *value = 0;
    if (dtype.code == BP_DTYPE_HANDLE
            ? get_address(launch, i, &args[i], value)
            : bp_kernel_get_scalar(&bp_cuda_host, launch->call, i, &args[i], dtype, (char *)value))
      return -1;
  }
  return 0;
}

/* ---- Launching --------------------------------------------------------------------------- */

static int32_t get_sizes(Launch *launch, const BpValue *args) {
  const BpCudaDevice *device = launch->device;
  if (bp_kernel_get_launch(&bp_cuda_host, launch->call, args, launch->blocks, launch->threads) !=
          0 ||
      bp_kernel_check_limits(&bp_cuda_host, launch->call, &device->limits, launch->blocks,
                             launch->threads) != 0)
    return bp_plugin_add_context(&bp_cuda_host, "cuda:%d", device->index);
  launch->shared = bp_kernel_get_shared(launch->call, args);
  if (launch->shared == 0 || launch->shared <= (uint64_t)device->most_shared)
    return 0;
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                         "%s: %llu bytes of shared memory; a block of cuda:%d takes at most %d",
                         launch->call->name, (unsigned long long)launch->shared, device->index,
                         device->most_shared);
}

static int32_t launch_failed(const Launch *launch, CUresult status, const char *call) {
  bp_cuda_raise(launch->device, status, call);
  return bp_plugin_add_context(&bp_cuda_host, "kernel %s", launch->call->name);
}

static int32_t enqueue(CUfunction function, Launch *launch, CUstream stream) {
  const uint64_t *blocks = launch->blocks, *threads = launch->threads;
  CUresult status =
      bp_cu.cuLaunchKernel(function, (unsigned)blocks[0], (unsigned)blocks[1], (unsigned)blocks[2],
                           (unsigned)threads[0], (unsigned)threads[1], (unsigned)threads[2],
                           (unsigned)launch->shared, stream, launch->pointers, NULL);
  return status == CUDA_SUCCESS ? 0 : launch_failed(launch, status, "cuLaunchKernel");
}

int32_t bp_cuda_launch(BpKernelModule *module, BpKernelEntry *kernel,
                       const BpInvocation *invocation, const BpValue *args, int32_t num_args) {
  Launch launch;
  if (bp_kernel_check_count(&bp_cuda_host, &kernel->call, num_args) != 0)
    return -1;
  launch.call = &kernel->call;
  launch.device = bp_cuda_device(invocation->device.device_id);
  if (!launch.device || pack(&launch, args) != 0 || get_sizes(&launch, args) != 0)
    return -1;
  CUfunction function = get_function(module, kernel, launch.device);
  return function ? enqueue(function, &launch, bp_cuda_stream(launch.device, invocation->stream))
                  : -1;
}
