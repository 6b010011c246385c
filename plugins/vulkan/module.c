/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `vulkan`: a table of kernels, each with a SPIR-V binary of its own whose entry is
 * `main`. The code is the binaries in sequence, each after its number of words. A buffer that is
 * argument i is binding i of set 0. The scalars are in order, each at a multiple of its size and at
 * least 32 bits wide: push constants, or a uniform buffer, which is the binding after those of all
 * arguments. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

/* ---- Kernels ----------------------------------------------------------------------------- */

uint32_t bp_vulkan_place_scalar(BpDataType dtype, uint32_t *bytes) {
  uint32_t size = dtype.bits > 32 ? 8 : 4, offset = (*bytes + size - 1) / size * size;
  *bytes = offset + size;
  return offset;
}

static void place_scalars(BpVulkanKernel *kernel) {
  for (int32_t i = 0; i < kernel->call->num_args; i++) {
    BpDataType dtype = kernel->call->arg_dtypes[i];
    if (dtype.code != BP_DTYPE_HANDLE)
      kernel->scalar_offsets[i] = bp_vulkan_place_scalar(dtype, &kernel->scalar_bytes);
  }
}

/* Checks that no binding of the binary is beyond the arguments, except that of the scalars. */
static int32_t check_bindings(BpVulkanKernel *kernel) {
  const uint8_t *bindings = kernel->needs.bindings;
  int is_right = 1;
  for (int32_t i = 0; i <= BP_KERNEL_MAX_ARGS; i++) {
    int can_be_scalars = i == kernel->call->num_args && kernel->scalar_bytes > 0;
    int is_scalars = bindings[i] == BP_VULKAN_SCALARS;
    is_right &= bindings[i] == BP_VULKAN_UNUSED ||
                (is_scalars ? can_be_scalars : i < kernel->call->num_args);
  }
  kernel->has_scalar_buffer = bindings[kernel->call->num_args] == BP_VULKAN_SCALARS;
  if (is_right)
    return 0;
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_FORMAT,
                         "module of kind vulkan: kernel %s has bindings that are no arguments",
                         kernel->call->name);
}

/* Reads a kernel's binary from the code, and finds out which features and bindings it needs. */
static int32_t take_binary(BpVulkanKernel *kernel, BpByteArray *code) {
  uint32_t num_words = 0;
  if (code->size >= 4)
    memcpy(&num_words, code->data, 4);
  if (code->size < 4 || num_words > (code->size - 4) / 4)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_FORMAT,
                           "module of kind vulkan: kernel %s has no whole binary",
                           kernel->call->name);
  kernel->words = (const uint32_t *)(const void *)(code->data + 4);
  kernel->num_words = num_words;
  code->data += 4 + (size_t)num_words * 4;
  code->size -= 4 + (size_t)num_words * 4;
  place_scalars(kernel);
  if (bp_vulkan_read_spirv(kernel->call->name, kernel->words, num_words, &kernel->needs) != 0)
    return -1;
  return check_bindings(kernel);
}

static int32_t prepare(BpKernelModule *module) {
  BpByteArray code = module->code;
  BpVulkanKernel *kernels = calloc((size_t)module->num_kernels + 1, sizeof(*kernels));
  if (!kernels)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY,
                           "module of kind vulkan: out of memory");
  module->built = kernels;
  for (int32_t i = 0; i < module->num_kernels; i++) {
    pthread_mutex_init(&kernels[i].lock, NULL);
    kernels[i].call = &module->kernels[i].call;
    module->kernels[i].built = &kernels[i];
  }
  for (int32_t i = 0; i < module->num_kernels; i++) {
    if (take_binary(&kernels[i], &code) != 0)
      return -1;
  }
  if (code.size)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_FORMAT,
                           "module of kind vulkan: %zu bytes after its kernels", code.size);
  return 0;
}

/* In a child of the process that used the devices, the driver is unusable, so nothing is
 * released. */
static void forget(BpKernelModule *module) {
  BpVulkanKernel *kernels = module->built;
  int is_forked = bp_device_list_is_forked();
  for (int32_t i = 0; kernels && i < module->num_kernels; i++) {
    for (int k = 0; k < BP_VULKAN_MOST_DEVICES; k++) {
      if (kernels[i].pipelines[k] && !is_forked)
        bp_vulkan_release(&kernels[i].pipelines[k]->shared);
    }
    pthread_mutex_destroy(&kernels[i].lock);
  }
  free(kernels);
}

/* ---- The kind ---------------------------------------------------------------------------- */

/* The format is "glsl", which a loaded module does not have; or "spv:NAME", the binary of one
 * kernel. */
static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const BpKernelModule *module = context;
  const BpVulkanKernel *kernels = module->built;
  memset(source, 0, sizeof(*source));
  for (int32_t i = 0; strncmp(format, "spv:", 4) == 0 && i < module->num_kernels; i++) {
    if (strcmp(kernels[i].call->name, format + 4) == 0)
      return bp_kernel_module_answer_bytes(module, kernels[i].words, kernels[i].num_words * 4,
                                           source);
  }
  if ((format[0] && strcmp(format, "glsl") != 0) || !module->source)
    return 0;
  return bp_kernel_module_answer_bytes(module, module->source, strlen(module->source), source);
}

static const BpModuleApi api = BP_KERNEL_MODULE_API_WITH("vulkan", get_source);

const BpKernelModuleKind bp_vulkan_module_kind = {
    .host = &bp_vulkan_host,
    .device = &bp_vulkan_device_api,
    .api = &api,
    .format = "spv",
    .launch = bp_vulkan_launch,
    .forget = forget,
    .prepare = prepare,
};
