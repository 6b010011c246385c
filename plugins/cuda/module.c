/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `cuda`: CUDA C++, PTX or a cubin, and a table of its kernels. */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

/* TVM's name for the source format. */
#define TVM_SOURCE "cuda"

/* PTX may be stored with or without a NUL at its end. */
static int32_t check_text(BpKernelModule *module) {
  BpByteArray *code = &module->code;
  if (code->size > 0 && code->data[code->size - 1] == '\0')
    code->size--;
  if (memchr(code->data, '\0', code->size))
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_FORMAT,
                           "module of kind cuda: its code is text with a NUL in it");
  return 0;
}

static int32_t prepare(BpKernelModule *module) {
  size_t count = (size_t)module->num_kernels;
  if (strcmp(module->format, TVM_SOURCE) == 0)
    module->format = BP_CUDA_SOURCE;
  if (strcmp(module->format, BP_CUDA_CUBIN) != 0 && check_text(module) != 0)
    return -1;
  if (module->code.size == 0)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_FORMAT,
                           "module of kind cuda: its code is empty");
  BpCudaProgram *program = calloc(1, sizeof(*program) + count * sizeof(program->kernels[0]));
  if (!program)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_MEMORY, "module of kind cuda: out of memory");
  pthread_mutex_init(&program->lock, NULL);
  for (size_t i = 0; i < count; i++)
    module->kernels[i].built = &program->kernels[i];
  module->built = program;
  return 0;
}

static void forget(BpKernelModule *module) {
  BpCudaProgram *program = module->built;
  if (!program)
    return;
  for (int i = 0; i < BP_CUDA_MOST_DEVICES; i++) {
    if (program->loaded[i] && bp_cuda_device_if_open(i))
      bp_cu.cuModuleUnload(program->loaded[i]);
  }
  pthread_mutex_destroy(&program->lock);
  free(program);
}

/* The format "" means the source if there is one, else PTX; a cubin is not text. */
static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const BpKernelModule *module = context;
  int is_any = format[0] == '\0', is_source = is_any || strcmp(format, BP_CUDA_SOURCE) == 0;
  memset(source, 0, sizeof(*source));
  if (is_source && module->source)
    return bp_kernel_module_answer_bytes(module, module->source, strlen(module->source), source);
  if (is_any ? strcmp(module->format, BP_CUDA_CUBIN) != 0 : strcmp(module->format, format) == 0)
    return bp_kernel_module_answer_bytes(module, module->code.data, module->code.size, source);
  return 0;
}

static const BpModuleApi api = BP_KERNEL_MODULE_API_WITH("cuda", get_source);
static const char *const other_formats[] = {BP_CUDA_PTX, BP_CUDA_CUBIN, TVM_SOURCE, NULL};

const BpKernelModuleKind bp_cuda_module_kind = {
    .host = &bp_cuda_host,
    .device = &bp_cuda_device_api,
    .api = &api,
    .format = BP_CUDA_SOURCE,
    .launch = bp_cuda_launch,
    .forget = forget,
    .prepare = prepare,
    .other_formats = other_formats,
    .uses_dynamic_shared_memory = 1,
};
