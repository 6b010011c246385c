/* SPDX-License-Identifier: Apache-2.0 */
/* Target kind `cuda`: source in the emitter's dialect "cuda" and the table of its kernels. NVRTC
 * compiles the source if the target names an architecture. */
#include "cuda.h"

#include <backplane/emitter_api.h>
#include <string.h>

#define ATTR_ARCH    "arch"
#define ATTR_OPTIONS "options"

static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels run over blocks of threads"},
    {ATTR_ARCH, BP_TYPE_STR, 0, NULL,
     "sm_90: code for that GPU; compute_90: PTX for it and later ones; unset: source, compiled for "
     "the GPU that runs it"},
    {ATTR_OPTIONS, BP_TYPE_STR, 0, NULL, "further options for NVRTC, separated by spaces"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "1024", "threads in a block"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, "32", "threads in lock-step"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, "49152", "bytes of shared memory of a block"},
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "128", "width of the vectors that are worthwhile"},
    {BP_TARGET_VECTOR_REGISTERS, BP_TYPE_INT, 0, "32", "number of vectors that a thread may hold"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, "64", "multiprocessors"},
};

/* Returns the text of an attribute, or NULL if it is unset. The text is in the target or, if short,
 * in `value`. */
static const char *get_text(const BpTarget *target, const char *name, BpValue *value) {
  BpByteArray text = {NULL, 0};
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  if (bp_cuda_host.target->get_attr(target, name, value) != 0 ||
      value->type_index == BP_TYPE_NONE || bp_cuda_host.object->view_str(value, &text) != 0)
    return NULL;
  return text.data;
}

static int64_t get_int(const BpTarget *target, const char *name) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (bp_cuda_host.target->get_attr(target, name, &value) != 0)
    return 0;
  return value.v_int64;
}

static int32_t complete(void *context, BpTarget *target) {
  (void)context;
  BpValue arch_value, options_value;
  const char *arch = get_text(target, ATTR_ARCH, &arch_value);
  int64_t shared = get_int(target, BP_TARGET_MAX_SHARED_MEMORY);
  if (!arch && get_text(target, ATTR_OPTIONS, &options_value))
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                           "target cuda: -options without -arch: nothing is compiled");
  if (shared < 0 || shared > BP_CUDA_STATIC_SHARED)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                           "target cuda: -max_shared_memory_per_block=%lld; generated "
                           "code uses at most %d bytes",
                           (long long)shared, BP_CUDA_STATIC_SHARED);
  return arch ? bp_cuda_check_arch(arch) : 0;
}

const BpTargetKind bp_cuda_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "cuda",
    .device_type = BP_DEVICE_CUDA,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof(attrs) / sizeof(attrs[0]),
    .description = "CUDA C++, compiled by NVRTC",
    .complete = complete,
};

/* Compiles the source if the target names an architecture. */
static BpModule *build_source(const BpIrTable *ir, const BpIrModule *module, const BpTarget *target,
                              const char *source) {
  BpValue arch_value, options_value;
  const char *arch = get_text(target, ATTR_ARCH, &arch_value);
  const char *options = get_text(target, ATTR_OPTIONS, &options_value);
  BpKernelCode code = {BP_CUDA_SOURCE, {source, strlen(source)}, NULL};
  if (!arch || ir->num_functions(module) == 0)
    return bp_kernel_module_from_code(&bp_cuda_module_kind, ir, module, &code);
  BpOwnedBytes compiled = {NULL, 0, NULL};
  if (bp_cuda_compile(source, arch, options, &compiled) != 0)
    return NULL;
  const char *format = strncmp(arch, "sm_", 3) == 0 ? BP_CUDA_CUBIN : BP_CUDA_PTX;
  code = (BpKernelCode){format, {compiled.data, compiled.size}, source};
  BpModule *result = bp_kernel_module_from_code(&bp_cuda_module_kind, ir, module, &code);
  compiled.free_data(compiled.data);
  return result;
}

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  BpCompilerTables compiler;
  if (bp_kernel_fetch_compiler(&bp_cuda_host, "cuda", &compiler) != 0)
    return NULL;
  const BpDialect *dialect = compiler.emitter->get_dialect("cuda");
  BpOwnedBytes text = {NULL, 0, NULL};
  if (!dialect || compiler.emitter->emit(module, dialect, &text) != 0)
    return NULL;
  BpModule *result = build_source(compiler.ir, module, target, text.data);
  text.free_data(text.data);
  return result;
}

int bp_cuda_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_kernel_module_build(&bp_cuda_module_kind, build, args, num_args, result);
}
