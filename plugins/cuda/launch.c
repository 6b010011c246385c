/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. A program is loaded, and a kernel found in it, with the first launch on a device; from
 * then on a launch takes no lock. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const tag_names[BP_CUDA_MOST_TAGS] = {"blockIdx.x",
                                                         "blockIdx.y",
                                                         "blockIdx.z",
                                                         "threadIdx.x",
                                                         "threadIdx.y",
                                                         "threadIdx.z",
                                                         "tir.use_dyn_shared_memory"};

int32_t bp_cuda_tag(const char *text) {
  for (int32_t i = 0; i < BP_CUDA_MOST_TAGS; i++) {
    if (strcmp(tag_names[i], text) == 0)
      return i;
  }
  return -1;
}

const char *bp_cuda_tag_name(int32_t tag) {
  return tag_names[tag];
}

/* ---- Loading ----------------------------------------------------------------------------- */

static int32_t load_failed(BpCudaDevice *device, CUresult status, const char *log) {
  int is_unfit = status == CUDA_ERROR_NO_BINARY_FOR_GPU || status == CUDA_ERROR_INVALID_IMAGE ||
                 status == CUDA_ERROR_INVALID_PTX || status == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (!is_unfit)
    return bp_cuda_raise(device, status, "cuModuleLoadDataEx");
  return bp_cuda_host.error->raise(
      BP_ERROR_COMPILE,
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

/* With the program's lock held. */
static int32_t load_program(BpCudaProgram *program, BpCudaDevice *device) {
  char arch[32];
  BpOwnedBytes cubin = {NULL, 0, NULL};
  if (program->loaded[device->index])
    return 0;
  if (program->format != BP_CUDA_SOURCE)
    return load_image(device, program->code, &program->loaded[device->index]);
  snprintf(arch, sizeof(arch), "sm_%d", device->arch);
  if (bp_cuda_compile(program->code, arch, NULL, &cubin) != 0)
    return -1;
  int32_t rc = load_image(device, cubin.data, &program->loaded[device->index]);
  cubin.free_data(cubin.data);
  return rc;
}

static CUfunction find_function(BpCudaKernel *kernel, BpCudaDevice *device) {
  CUfunction function = NULL;
  BpCudaProgram *program = kernel->program;
  pthread_mutex_lock(&program->lock);
  int32_t rc = load_program(program, device);
  CUmodule module = program->loaded[device->index];
  pthread_mutex_unlock(&program->lock);
  if (rc != 0) {
    bp_cuda_host.error->add_context("kernel %s", kernel->name);
    return NULL;
  }
  CUresult status = bp_cu.cuModuleGetFunction(&function, module, kernel->name);
  if (status != CUDA_SUCCESS) {
    bp_cuda_raise(device, status, "cuModuleGetFunction");
    bp_cuda_host.error->add_context("kernel %s", kernel->name);
    return NULL;
  }
  atomic_store_explicit(&kernel->functions[device->index], function, memory_order_release);
  return function;
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* Arguments as the driver takes them: a pointer to each. */
typedef struct Packed {
  uint64_t values[BP_CUDA_MOST_ARGS];
  void *pointers[BP_CUDA_MOST_ARGS];
} Packed;

static int32_t bad_argument(const BpCudaKernel *kernel, int32_t i, const char *expected,
                            int32_t type) {
  return bp_cuda_host.error->raise(BP_ERROR_TYPE,
                                   "%s: argument %d: expected %s, got a value of type %d",
                                   kernel->name, i, expected, type);
}

static int32_t address_of_view(const BpCudaKernel *kernel, const BpCudaDevice *device, int32_t i,
                               const BpTensorView *view, uint64_t *address) {
  if (view->device.device_type != BP_DEVICE_CUDA || view->device.device_id != device->index)
    return bp_cuda_host.error->raise(BP_ERROR_VALUE,
                                     "%s: argument %d: expected a tensor on cuda:%d, got one of "
                                     "device type %d, index %d",
                                     kernel->name, i, device->index, view->device.device_type,
                                     view->device.device_id);
  *address = (uint64_t)(uintptr_t)view->data + view->byte_offset;
  return 0;
}

static int32_t get_address(const BpCudaKernel *kernel, const BpCudaDevice *device, int32_t i,
                           const BpValue *arg, uint64_t *address) {
  int32_t rc = 0;
  if (arg->type_index == BP_TYPE_POINTER)
    *address = (uint64_t)(uintptr_t)arg->v_ptr;
  else if (arg->type_index == BP_TYPE_TENSOR_VIEW)
    rc = address_of_view(kernel, device, i, arg->v_view, address);
  else if (arg->type_index == BP_TYPE_TENSOR)
    rc = address_of_view(kernel, device, i, &((BpTensor *)(void *)arg->v_obj)->view, address);
  else
    return bad_argument(kernel, i, "a buffer", arg->type_index);
  if (rc == 0 && *address % BP_CUDA_ALIGNMENT != 0)
    return bp_cuda_host.error->raise(BP_ERROR_VALUE,
                                     "%s: argument %d: a tensor may begin at a multiple of %d "
                                     "bytes, not at %#llx",
                                     kernel->name, i, BP_CUDA_ALIGNMENT,
                                     (unsigned long long)*address);
  return rc;
}

static int fits(int64_t value, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BOOL || dtype.bits >= 64)
    return 1;
  int64_t lowest = dtype.code == BP_DTYPE_INT ? -((int64_t)1 << (dtype.bits - 1)) : 0;
  return value >= lowest && value <= lowest + ((int64_t)1 << dtype.bits) - 1;
}

/* A scalar as the kernel's parameter has it, in the low bytes. */
static int32_t get_scalar(const BpCudaKernel *kernel, int32_t i, const BpValue *arg,
                          uint64_t *bits) {
  BpDataType dtype = kernel->arg_dtypes[i];
  int is_integer = arg->type_index == BP_TYPE_INT || arg->type_index == BP_TYPE_BOOL;
  if (dtype.code == BP_DTYPE_FLOAT && dtype.bits >= 32) {
    if (!is_integer && arg->type_index != BP_TYPE_FLOAT)
      return bad_argument(kernel, i, "a number", arg->type_index);
    double value = is_integer ? (double)arg->v_int64 : arg->v_float64;
    float narrow = (float)value;
    memcpy(bits, dtype.bits == 32 ? (void *)&narrow : (void *)&value, dtype.bits / 8);
    return 0;
  }
  if (dtype.lanes != 1 ||
      (dtype.code != BP_DTYPE_INT && dtype.code != BP_DTYPE_UINT && dtype.code != BP_DTYPE_BOOL))
    return bad_argument(kernel, i, "a scalar of a type that can be passed", arg->type_index);
  if (!is_integer)
    return bad_argument(kernel, i, "an integer", arg->type_index);
  if (!fits(arg->v_int64, dtype))
    return bp_cuda_host.error->raise(BP_ERROR_VALUE,
                                     "%s: argument %d: %lld is no integer of %d bits", kernel->name,
                                     i, (long long)arg->v_int64, dtype.bits);
  int64_t value = dtype.code == BP_DTYPE_BOOL ? arg->v_int64 != 0 : arg->v_int64;
  memcpy(bits, &value, sizeof(value)); /* little-endian: a narrower one is in the low bytes */
  return 0;
}

static int32_t pack(const BpCudaKernel *kernel, const BpCudaDevice *device, const BpValue *args,
                    Packed *packed) {
  for (int32_t i = 0; i < kernel->num_args; i++) {
    int is_buffer = kernel->arg_dtypes[i].code == BP_DTYPE_HANDLE;
    packed->pointers[i] = &packed->values[i];
    packed->values[i] = 0;
    if (is_buffer ? get_address(kernel, device, i, &args[i], &packed->values[i])
                  : get_scalar(kernel, i, &args[i], &packed->values[i]))
      return -1;
  }
  return 0;
}

/* ---- Launching --------------------------------------------------------------------------- */

typedef struct Sizes {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
} Sizes;

static int32_t too_large(const BpCudaKernel *kernel, const BpCudaDevice *device, int32_t tag,
                         int64_t size, int most) {
  return bp_cuda_host.error->raise(BP_ERROR_VALUE, "%s: %s: %lld; cuda:%d takes at most %d",
                                   kernel->name, tag_names[tag], (long long)size, device->index,
                                   most);
}

static int32_t set_size(const BpCudaKernel *kernel, const BpCudaDevice *device, int32_t tag,
                        int64_t size, Sizes *sizes) {
  if (tag == BP_CUDA_TAG_SHARED) {
    if (size > INT32_MAX)
      return too_large(kernel, device, tag, size, INT32_MAX);
    sizes->shared = (unsigned)size;
    return 0;
  }
  int is_block = tag < BP_CUDA_TAG_THREAD;
  int axis = is_block ? tag : tag - BP_CUDA_TAG_THREAD;
  int most = is_block ? device->grid[axis] : device->block[axis];
  if (size > most)
    return too_large(kernel, device, tag, size, most);
  if (size)
    *(is_block ? &sizes->grid[axis] : &sizes->block[axis]) = (unsigned)size;
  return 0;
}

static int32_t get_sizes(const BpCudaKernel *kernel, const BpCudaDevice *device,
                         const BpValue *args, Sizes *sizes) {
  *sizes = (Sizes){{1, 1, 1}, {1, 1, 1}, 0};
  for (int32_t i = 0; i < kernel->num_tags; i++) {
    if (args[i].type_index != BP_TYPE_INT || args[i].v_int64 < 0)
      return bp_cuda_host.error->raise(BP_ERROR_VALUE,
                                       "%s: launch size %d (%s): expected an integer of at least "
                                       "0",
                                       kernel->name, i, tag_names[kernel->tags[i]]);
    if (set_size(kernel, device, kernel->tags[i], args[i].v_int64, sizes) != 0)
      return -1;
  }
  uint64_t threads = (uint64_t)sizes->block[0] * sizes->block[1] * sizes->block[2];
  if (threads > (uint64_t)device->most_threads)
    return bp_cuda_host.error->raise(BP_ERROR_VALUE,
                                     "%s: %u x %u x %u threads in a block; cuda:%d takes at most "
                                     "%d",
                                     kernel->name, sizes->block[0], sizes->block[1],
                                     sizes->block[2], device->index, device->most_threads);
  return 0;
}

static int32_t launch_failed(const BpCudaKernel *kernel, BpCudaDevice *device, CUresult status,
                             const char *call) {
  bp_cuda_raise(device, status, call);
  return bp_cuda_host.error->add_context("kernel %s", kernel->name);
}

static int32_t enqueue(BpCudaKernel *kernel, BpCudaDevice *device, CUstream stream,
                       const Sizes *sizes, Packed *packed) {
  CUfunction function =
      atomic_load_explicit(&kernel->functions[device->index], memory_order_acquire);
  if (!function)
    function = find_function(kernel, device);
  if (!function)
    return -1;
  if (sizes->shared > 0) { /* beyond what needs no permission */
    CUresult status = bp_cu.cuFuncSetAttribute(
        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)sizes->shared);
    if (status != CUDA_SUCCESS)
      return launch_failed(kernel, device, status, "cuFuncSetAttribute of the shared memory");
  }
  CUresult status = bp_cu.cuLaunchKernel(function, sizes->grid[0], sizes->grid[1], sizes->grid[2],
                                         sizes->block[0], sizes->block[1], sizes->block[2],
                                         sizes->shared, stream, packed->pointers, NULL);
  return status == CUDA_SUCCESS ? 0 : launch_failed(kernel, device, status, "cuLaunchKernel");
}

int32_t bp_cuda_launch(BpCudaKernel *kernel, const BpValue *args, int32_t num_args) {
  int32_t device_id = 0;
  void *handle = NULL;
  Packed packed;
  Sizes sizes;
  if (num_args != kernel->num_args + kernel->num_tags)
    return bp_cuda_host.error->raise(BP_ERROR_TYPE,
                                     "%s: expected %d arguments and %d launch sizes, got %d",
                                     kernel->name, kernel->num_args, kernel->num_tags, num_args);
  bp_cuda_host.runtime->get_current(BP_DEVICE_CUDA, &device_id, &handle);
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device || pack(kernel, device, args, &packed) != 0 ||
      get_sizes(kernel, device, args + kernel->num_args, &sizes) != 0)
    return -1;
  return enqueue(kernel, device, bp_cuda_stream(device, handle), &sizes, &packed);
}
