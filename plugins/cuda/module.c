/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `cuda`: OpenCL C and a table of its kernels. */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

typedef struct CudaModule {
  BpCudaProgram program;
  BpCudaKernel **kernels;
  int32_t num_kernels;
  BpModule *self; /* set once, right after the module is made; not a reference */
} CudaModule;

/* The names of the forms; TVM has the same, and calls source "cuda". */
static const char *const format_names[] = {"cu", "ptx", "cubin"};
#define TVM_SOURCE_NAME "cuda"

static void destroy_kernel(BpCudaKernel *kernel) {
  bp_kernel_clear(&kernel->call);
  free(kernel);
}

static void destroy(void *context) {
  CudaModule *module = context;
  for (int32_t i = 0; i < module->num_kernels; i++)
    destroy_kernel(module->kernels[i]);
  for (int i = 0; i < BP_CUDA_MOST_DEVICES; i++) {
    if (module->program.loaded[i] && bp_cuda_device_if_open(i))
      bp_cu.cuModuleUnload(module->program.loaded[i]);
  }
  pthread_mutex_destroy(&module->program.lock);
  free(module->program.code);
  free(module->program.source);
  free(module->kernels);
  free(module);
}

static int32_t no_memory(void) {
  return bp_cuda_host.error->raise(BP_ERROR_MEMORY, "module of kind cuda: out of memory");
}

/* ---- Functions --------------------------------------------------------------------------- */

static int call(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)result;
  return bp_cuda_launch(((BpClosure *)self)->context, args, num_args);
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  CudaModule *module = context;
  *function = NULL;
  for (int32_t i = 0; i < module->num_kernels; i++) {
    if (strcmp(module->kernels[i]->call.name, name) != 0)
      continue;
    *function = bp_cuda_host.module->function_create(module->self, call, module->kernels[i], NULL);
    return *function ? 0 : -1;
  }
  return 0;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const CudaModule *module = context;
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

/* "" is the source if it is known, and text of whatever kind else; a cubin is none. */
static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const BpCudaProgram *program = &((const CudaModule *)context)->program;
  const char *known = program->format == BP_CUDA_SOURCE ? program->code : program->source;
  const char *data = NULL;
  size_t size = 0;
  memset(source, 0, sizeof(*source));
  if (known && (!format[0] || strcmp(format, format_names[BP_CUDA_SOURCE]) == 0)) {
    data = known;
    size = strlen(known);
  } else if (strcmp(format, format_names[program->format]) == 0 ||
             (!format[0] && program->format == BP_CUDA_PTX)) {
    data = program->code;
    size = program->code_size;
  }
  if (!data)
    return 0;
  char *copy = malloc(size + 1);
  if (!copy)
    return no_memory();
  memcpy(copy, data, size);
  copy[size] = '\0';
  source->data = copy;
  source->size = size;
  source->free_data = free;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const CudaModule *module = context;
  size_t count = (size_t)module->num_kernels;
  BpKernelInfo *infos = calloc(count + 1, sizeof(*infos));
  const char *(*tags)[BP_KERNEL_MOST_TAGS] = calloc(count + 1, sizeof(*tags));
  int32_t rc = infos && tags ? 0 : no_memory();
  for (size_t i = 0; rc == 0 && i < count; i++)
    infos[i] = bp_kernel_info(&module->kernels[i]->call, tags[i]);
  BpByteArray code = {module->program.code, module->program.code_size};
  if (rc == 0)
    rc = bp_cuda_host.module->encode_device_code(format_names[module->program.format], infos,
                                                 module->num_kernels, &code, bytes);
  free(infos);
  free(tags);
  return rc;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "cuda",
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
  CudaModule *module = context;
  size_t count = (size_t)module->num_kernels;
  BpCudaKernel **grown = realloc(module->kernels, (count + 1) * sizeof(*grown));
  if (!grown)
    return no_memory();
  module->kernels = grown;
  BpCudaKernel *kernel = calloc(1, sizeof(*kernel));
  if (!kernel)
    return no_memory();
  kernel->program = &module->program;
  module->kernels[module->num_kernels++] = kernel;
  kernel->call.takes_shared = 1;
  return bp_kernel_from_info(&bp_cuda_host, info, &kernel->call);
}

static CudaModule *new_module(void) {
  CudaModule *module = calloc(1, sizeof(*module));
  if (module)
    pthread_mutex_init(&module->program.lock, NULL);
  else
    no_memory();
  return module;
}

/* A copy with a NUL at its end, or NULL with an error. */
static char *copy_bytes(const char *data, size_t size) {
  char *copy = malloc(size + 1);
  if (!copy) {
    no_memory();
    return NULL;
  }
  memcpy(copy, data, size);
  copy[size] = '\0';
  return copy;
}

/* Takes the module over, also on failure. */
static BpModule *finish(CudaModule *module, int32_t format, const BpByteArray *code,
                        const char *source) {
  BpCudaProgram *program = &module->program;
  size_t size = code->size;
  /* PTX is stored with the NUL at its end or without. */
  if (format != BP_CUDA_CUBIN && size > 0 && code->data[size - 1] == '\0')
    size--;
  int32_t rc = 0;
  if (size == 0 || (format != BP_CUDA_CUBIN && memchr(code->data, '\0', size)))
    rc = bp_cuda_host.error->raise(BP_ERROR_FORMAT, "module of kind cuda: its code is %s",
                                   size == 0 ? "empty" : "text with a NUL in it");
  program->format = format;
  program->code_size = size;
  program->code = rc == 0 ? copy_bytes(code->data, size) : NULL;
  program->source = program->code && source ? copy_bytes(source, strlen(source)) : NULL;
  if (!program->code || (source && !program->source)) {
    destroy(module);
    return NULL;
  }
  BpModule *made = bp_cuda_host.module->create(&api, module);
  if (made)
    module->self = made;
  return made;
}

BpModule *bp_cuda_module_create(int32_t format, const BpByteArray *code, const char *source,
                                const BpKernelInfo *kernels, int32_t num_kernels) {
  CudaModule *module = new_module();
  for (int32_t i = 0; module && i < num_kernels; i++) {
    if (add_kernel(module, &kernels[i]) != 0) {
      destroy(module);
      return NULL;
    }
  }
  return module ? finish(module, format, code, source) : NULL;
}

static int names_format(const BpByteArray *name, const char *format) {
  return strlen(format) == name->size && memcmp(format, name->data, name->size) == 0;
}

static int32_t format_by_name(const BpByteArray *name) {
  if (names_format(name, TVM_SOURCE_NAME))
    return BP_CUDA_SOURCE;
  for (int32_t i = 0; i < (int32_t)(sizeof(format_names) / sizeof(format_names[0])); i++) {
    if (names_format(name, format_names[i]))
      return i;
  }
  bp_cuda_host.error->raise(BP_ERROR_FORMAT,
                            "module of kind cuda: format \"%.*s\"; there are \"cu\", \"ptx\" and "
                            "\"cubin\"",
                            (int)name->size, name->data);
  return -1;
}

static BpModule *load(const BpByteArray *bytes) {
  BpByteArray name = {"", 0}, code = {"", 0};
  CudaModule *module = new_module();
  if (!module)
    return NULL;
  int32_t rc = bp_cuda_host.module->decode_device_code(bytes, &name, add_kernel, module, &code);
  int32_t format = rc == 0 ? format_by_name(&name) : -1;
  if (format >= 0)
    return finish(module, format, &code, NULL);
  destroy(module);
  return NULL;
}

int bp_cuda_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  BpByteArray bytes;
  if (num_args < 1 || num_args > 2)
    return bp_cuda_host.error->raise(
        BP_ERROR_TYPE, "runtime.module.loadbinary_cuda: expected 1 or 2 arguments, got %d",
        num_args);
  if (bp_cuda_host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  BpModule *module = load(&bytes);
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}
