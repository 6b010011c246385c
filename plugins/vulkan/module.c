/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `vulkan`: a table of kernels, each with a SPIR-V binary of its own whose entry is
 * `main`. Argument i, if it is a buffer, is binding i of set 0; the scalars are the push constants,
 * in order, each at a multiple of its size and at least 32 bits wide. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

typedef struct VulkanModule {
  BpVulkanKernels kernels;
  BpModule *self; /* set once, right after the module is made; not a reference */
} VulkanModule;

static int32_t no_memory(void) {
  return bp_vulkan_host.error->raise(BP_ERROR_MEMORY, "module of kind vulkan: out of memory");
}

/* ---- Kernels ----------------------------------------------------------------------------- */

static void free_kernel(BpVulkanKernel *kernel) {
  for (int i = 0; i < BP_VULKAN_MOST_DEVICES; i++) {
    if (kernel->pipelines[i])
      bp_vulkan_release(&kernel->pipelines[i]->shared);
  }
  pthread_mutex_destroy(&kernel->lock);
  bp_kernel_clear(&kernel->call);
  free(kernel->words);
  free(kernel);
}

void bp_vulkan_free_kernels(BpVulkanKernels *kernels) {
  for (int32_t i = 0; i < kernels->count; i++)
    free_kernel(kernels->items[i]);
  free(kernels->items);
  free(kernels->source);
  memset(kernels, 0, sizeof(*kernels));
}

BpVulkanKernel *bp_vulkan_add_kernel(BpVulkanKernels *kernels) {
  size_t count = (size_t)kernels->count;
  BpVulkanKernel **grown = realloc(kernels->items, (count + 1) * sizeof(*grown));
  if (grown)
    kernels->items = grown;
  BpVulkanKernel *kernel = grown ? calloc(1, sizeof(*kernel)) : NULL;
  if (!kernel) {
    no_memory();
    return NULL;
  }
  pthread_mutex_init(&kernel->lock, NULL);
  kernels->items[kernels->count++] = kernel;
  return kernel;
}

static void place_scalars(BpVulkanKernel *kernel) {
  for (int32_t i = 0; i < kernel->call.num_args; i++) {
    BpDataType dtype = kernel->call.arg_dtypes[i];
    uint32_t bytes = dtype.bits > 32 ? 8 : 4;
    if (dtype.code == BP_DTYPE_HANDLE)
      continue;
    kernel->push_bytes = (kernel->push_bytes + bytes - 1) / bytes * bytes;
    kernel->push_offsets[i] = kernel->push_bytes;
    kernel->push_bytes += bytes;
  }
}

int32_t bp_vulkan_set_binary(BpVulkanKernel *kernel, const void *bytes, size_t size) {
  kernel->num_words = size / 4;
  kernel->words = malloc(size + 1);
  if (!kernel->words)
    return no_memory();
  memcpy(kernel->words, bytes, size);
  place_scalars(kernel);
  if (size % 4)
    return bp_vulkan_host.error->raise(BP_ERROR_FORMAT, "kernel %s: its SPIR-V has %zu bytes",
                                       kernel->call.name, size);
  return bp_vulkan_read_spirv(kernel->call.name, kernel->words, kernel->num_words, &kernel->needs);
}

static void destroy(void *context) {
  VulkanModule *module = context;
  bp_vulkan_free_kernels(&module->kernels);
  free(module);
}

static BpVulkanKernel *find_kernel(const VulkanModule *module, const char *name) {
  for (int32_t i = 0; i < module->kernels.count; i++) {
    if (strcmp(module->kernels.items[i]->call.name, name) == 0)
      return module->kernels.items[i];
  }
  return NULL;
}

/* ---- Functions --------------------------------------------------------------------------- */

static int call(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)result;
  return bp_vulkan_launch(((BpClosure *)self)->context, args, num_args);
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  const VulkanModule *module = context;
  BpVulkanKernel *kernel = find_kernel(module, name);
  *function = NULL;
  if (!kernel)
    return 0;
  *function = bp_vulkan_host.module->function_create(module->self, call, kernel, NULL);
  return *function ? 0 : -1;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const VulkanModule *module = context;
  int32_t rc = 0;
  for (int32_t i = 0; i < module->kernels.count && rc == 0; i++)
    rc = visit(visitor, module->kernels.items[i]->call.name, NULL);
  return rc < 0 ? -1 : 0;
}

/* ---- Bytes and source -------------------------------------------------------------------- */

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static int32_t copy_out(const void *data, size_t size, BpOwnedBytes *bytes) {
  bytes->data = malloc(size + 1);
  if (!bytes->data)
    return no_memory();
  memcpy(bytes->data, data, size);
  bytes->data[size] = '\0';
  bytes->size = size;
  bytes->free_data = free;
  return 0;
}

/* "glsl", which a module that was loaded has no more; "spv:NAME", the binary of one kernel. */
static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const VulkanModule *module = context;
  memset(source, 0, sizeof(*source));
  if (strncmp(format, "spv:", 4) == 0) {
    const BpVulkanKernel *kernel = find_kernel(module, format + 4);
    return kernel ? copy_out(kernel->words, kernel->num_words * 4, source) : 0;
  }
  if ((format[0] && strcmp(format, "glsl") != 0) || !module->kernels.source)
    return 0;
  return copy_out(module->kernels.source, strlen(module->kernels.source), source);
}

/* The binaries one after another, each after the number of its words. */
static char *join_binaries(const BpVulkanKernels *kernels, size_t *size) {
  *size = 0;
  for (int32_t i = 0; i < kernels->count; i++)
    *size += 4 + kernels->items[i]->num_words * 4;
  char *bytes = malloc(*size + 1), *end = bytes;
  for (int32_t i = 0; bytes && i < kernels->count; i++) {
    uint32_t num_words = (uint32_t)kernels->items[i]->num_words;
    memcpy(end, &num_words, 4);
    memcpy(end + 4, kernels->items[i]->words, (size_t)num_words * 4);
    end += 4 + (size_t)num_words * 4;
  }
  return bytes;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const VulkanModule *module = context;
  size_t count = (size_t)module->kernels.count, size = 0;
  BpKernelInfo *infos = calloc(count + 1, sizeof(*infos));
  const char *(*tags)[BP_KERNEL_MOST_TAGS] = calloc(count + 1, sizeof(*tags));
  char *binaries = join_binaries(&module->kernels, &size);
  int32_t rc = infos && tags && binaries ? 0 : no_memory();
  for (size_t i = 0; rc == 0 && i < count; i++)
    infos[i] = bp_kernel_info(&module->kernels.items[i]->call, tags[i]);
  BpByteArray code = {binaries, size};
  if (rc == 0)
    rc = bp_vulkan_host.module->encode_device_code("spv", infos, module->kernels.count, &code,
                                                   bytes);
  free(infos);
  free(tags);
  free(binaries);
  return rc;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "vulkan",
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .get_source = get_source,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

/* ---- Making modules ---------------------------------------------------------------------- */

BpModule *bp_vulkan_module_create(BpVulkanKernels *kernels) {
  VulkanModule *module = calloc(1, sizeof(*module));
  if (!module) {
    no_memory();
    bp_vulkan_free_kernels(kernels);
    return NULL;
  }
  module->kernels = *kernels;
  memset(kernels, 0, sizeof(*kernels));
  BpModule *made = bp_vulkan_host.module->create(&api, module);
  if (made)
    module->self = made;
  return made;
}

static int32_t add_info(void *context, const BpKernelInfo *info) {
  BpVulkanKernel *kernel = bp_vulkan_add_kernel(context);
  return kernel ? bp_kernel_from_info(&bp_vulkan_host, info, &kernel->call) : -1;
}

static int32_t split_binaries(BpVulkanKernels *kernels, BpByteArray code) {
  for (int32_t i = 0; i < kernels->count; i++) {
    uint32_t num_words = 0;
    if (code.size >= 4)
      memcpy(&num_words, code.data, 4);
    if (code.size < 4 || num_words > (code.size - 4) / 4)
      return bp_vulkan_host.error->raise(BP_ERROR_FORMAT,
                                         "module of kind vulkan: kernel %s has no whole binary",
                                         kernels->items[i]->call.name);
    if (bp_vulkan_set_binary(kernels->items[i], code.data + 4, (size_t)num_words * 4) != 0)
      return -1;
    code.data += 4 + (size_t)num_words * 4;
    code.size -= 4 + (size_t)num_words * 4;
  }
  if (code.size)
    return bp_vulkan_host.error->raise(
        BP_ERROR_FORMAT, "module of kind vulkan: %zu bytes after its kernels", code.size);
  return 0;
}

static BpModule *load(const BpByteArray *bytes) {
  BpByteArray format = {"", 0}, code = {"", 0};
  BpVulkanKernels kernels = {0};
  int32_t rc = bp_vulkan_host.module->decode_device_code(bytes, &format, add_info, &kernels, &code);
  if (rc == 0 && (format.size != 3 || memcmp(format.data, "spv", 3) != 0))
    rc = bp_vulkan_host.error->raise(BP_ERROR_FORMAT,
                                     "module of kind vulkan: format \"%.*s\", not \"spv\"",
                                     (int)format.size, format.data);
  if (rc == 0)
    rc = split_binaries(&kernels, code);
  if (rc == 0)
    return bp_vulkan_module_create(&kernels);
  bp_vulkan_free_kernels(&kernels);
  return NULL;
}

int bp_vulkan_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  BpByteArray bytes;
  if (num_args < 1 || num_args > 2) /* the second keeps the bytes, which are copied */
    return bp_vulkan_host.error->raise(
        BP_ERROR_TYPE, "runtime.module.loadbinary_vulkan: expected the bytes, got %d arguments",
        num_args);
  if (bp_vulkan_host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  BpModule *module = load(&bytes);
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}
