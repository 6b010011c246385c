/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `opencl`: OpenCL C and a table of its kernels. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>

typedef struct OpenclModule {
  BpOpenclProgram program;
  BpOpenclKernel **kernels;
  int32_t num_kernels;
  BpModule *self; /* set once, right after the module is made; not a reference */
} OpenclModule;

static void destroy_kernel(BpOpenclKernel *kernel) {
  for (int i = 0; i < BP_OPENCL_MOST_DEVICES; i++) {
    if (kernel->kernels[i])
      bp_cl.clReleaseKernel(kernel->kernels[i]);
  }
  pthread_mutex_destroy(&kernel->lock);
  bp_kernel_clear(&kernel->call);
  free(kernel);
}

static void destroy(void *context) {
  OpenclModule *module = context;
  for (int32_t i = 0; i < module->num_kernels; i++)
    destroy_kernel(module->kernels[i]);
  for (int i = 0; i < BP_OPENCL_MOST_DEVICES; i++) {
    if (module->program.built[i])
      bp_cl.clReleaseProgram(module->program.built[i]);
  }
  pthread_mutex_destroy(&module->program.lock);
  free(module->program.source);
  free(module->kernels);
  free(module);
}

static int32_t no_memory(void) {
  return bp_opencl_host.error->raise(BP_ERROR_MEMORY, "module of kind opencl: out of memory");
}

/* ---- Functions --------------------------------------------------------------------------- */

static int call(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)result;
  return bp_opencl_launch(((BpClosure *)self)->context, args, num_args);
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  OpenclModule *module = context;
  *function = NULL;
  for (int32_t i = 0; i < module->num_kernels; i++) {
    if (strcmp(module->kernels[i]->call.name, name) != 0)
      continue;
    *function =
        bp_opencl_host.module->function_create(module->self, call, module->kernels[i], NULL);
    return *function ? 0 : -1;
  }
  return 0;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const OpenclModule *module = context;
  int32_t rc = 0;
  for (int32_t i = 0; i < module->num_kernels && rc == 0; i++)
    rc = visit(visitor, module->kernels[i]->call.name, NULL);
  return rc < 0 ? -1 : 0;
}

/* ---- Bytes and source -------------------------------------------------------------------- */

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const OpenclModule *module = context;
  memset(source, 0, sizeof(*source));
  if (format[0] && strcmp(format, "cl") != 0)
    return 0;
  source->data = strdup(module->program.source);
  if (!source->data)
    return no_memory();
  source->size = strlen(source->data);
  source->free_data = free;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const OpenclModule *module = context;
  size_t count = (size_t)module->num_kernels;
  BpKernelInfo *infos = calloc(count + 1, sizeof(*infos));
  const char *(*tags)[BP_KERNEL_MOST_TAGS] = calloc(count + 1, sizeof(*tags));
  int32_t rc = infos && tags ? 0 : no_memory();
  for (size_t i = 0; rc == 0 && i < count; i++)
    infos[i] = bp_kernel_info(&module->kernels[i]->call, tags[i]);
  BpByteArray code = {module->program.source, strlen(module->program.source)};
  if (rc == 0)
    rc = bp_opencl_host.module->encode_device_code("cl", infos, module->num_kernels, &code, bytes);
  free(infos);
  free(tags);
  return rc;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "opencl",
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .get_source = get_source,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

/* ---- Making modules ---------------------------------------------------------------------- */

/* Appends a kernel to the module; used as a visitor too. */
static int32_t add_kernel(void *context, const BpKernelInfo *info) {
  OpenclModule *module = context;
  size_t count = (size_t)module->num_kernels;
  BpOpenclKernel **grown = realloc(module->kernels, (count + 1) * sizeof(*grown));
  if (!grown)
    return no_memory();
  module->kernels = grown;
  BpOpenclKernel *kernel = calloc(1, sizeof(*kernel));
  if (!kernel)
    return no_memory();
  pthread_mutex_init(&kernel->lock, NULL);
  kernel->program = &module->program;
  module->kernels[module->num_kernels++] = kernel;
  return bp_kernel_from_info(&bp_opencl_host, info, &kernel->call);
}

static OpenclModule *new_module(void) {
  OpenclModule *module = calloc(1, sizeof(*module));
  if (module)
    pthread_mutex_init(&module->program.lock, NULL);
  else
    no_memory();
  return module;
}

/* Takes the module over, also on failure. */
static BpModule *finish(OpenclModule *module, const BpByteArray *source) {
  if (memchr(source->data, '\0', source->size)) {
    bp_opencl_host.error->raise(BP_ERROR_FORMAT, "module of kind opencl: a NUL in its source");
    destroy(module);
    return NULL;
  }
  module->program.source = strndup(source->data, source->size);
  if (!module->program.source) {
    no_memory();
    destroy(module);
    return NULL;
  }
  BpModule *made = bp_opencl_host.module->create(&api, module);
  if (made)
    module->self = made;
  return made;
}

BpModule *bp_opencl_module_create(const BpByteArray *source, const BpKernelInfo *kernels,
                                  int32_t num_kernels) {
  OpenclModule *module = new_module();
  for (int32_t i = 0; module && i < num_kernels; i++) {
    if (add_kernel(module, &kernels[i]) != 0) {
      destroy(module);
      return NULL;
    }
  }
  return module ? finish(module, source) : NULL;
}

static BpModule *load(const BpByteArray *bytes) {
  BpByteArray format = {"", 0}, code = {"", 0};
  OpenclModule *module = new_module();
  if (!module)
    return NULL;
  int32_t rc = bp_opencl_host.module->decode_device_code(bytes, &format, add_kernel, module, &code);
  if (rc == 0 && (format.size != 2 || memcmp(format.data, "cl", 2) != 0))
    rc = bp_opencl_host.error->raise(BP_ERROR_FORMAT,
                                     "module of kind opencl: format \"%.*s\", not \"cl\"",
                                     (int)format.size, format.data);
  if (rc == 0)
    return finish(module, &code);
  destroy(module);
  return NULL;
}

int bp_opencl_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  BpByteArray bytes;
  /* The bytes, and their owner where they come from a file; they are copied, so it may go. */
  if (num_args != 1 && num_args != 2)
    return bp_opencl_host.error->raise(
        BP_ERROR_TYPE,
        "runtime.module.loadbinary_opencl: expected bytes and an owner, got %d "
        "arguments",
        num_args);
  if (bp_opencl_host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  BpModule *module = load(&bytes);
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}
