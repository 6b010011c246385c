/* SPDX-License-Identifier: Apache-2.0 */
/* Target kind `opencl`: the emitter's dialect "opencl" and the table of the kernels. */
#include "opencl.h"

static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels run over blocks of threads"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "256", "threads in a block"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, "1", "threads in lock-step"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, "32768", "bytes of local memory of a block"},
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "128", "width of the vectors that are worthwhile"},
    {BP_TARGET_VECTOR_REGISTERS, BP_TYPE_INT, 0, "16", "number of vectors that a thread may hold"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, "16", "blocks that run at once"},
    {BP_TARGET_WINOGRAD, BP_TYPE_BOOL, 0, "false",
     "convolutions by Winograd's algorithm, which rounds a little more"},
    {"fp64", BP_TYPE_BOOL, 0, "true", "the device computes in double precision (cl_khr_fp64)"},
    {"supports_float16", BP_TYPE_BOOL, 0, "false",
     "the device computes in half precision (cl_khr_fp16), rounding to even"},
};

/* OpenCL C's widest vectors have 16 elements; the host's compiler counts 32 bits for each. */
static int32_t complete(void *context, BpTarget *target) {
  (void)context;
  return bp_plugin_check_range(&bp_opencl_host, target, BP_TARGET_VECTOR_BITS, 0, 512);
}

const BpTargetKind bp_opencl_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "opencl",
    .device_type = BP_DEVICE_OPENCL,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof(attrs) / sizeof(attrs[0]),
    .description = "OpenCL C 1.2, built by the device's driver",
    .complete = complete,
};

/* ---- Double precision -------------------------------------------------------------------- */

typedef struct Doubles {
  const BpIrTable *ir;
  int32_t found;
} Doubles;

static int32_t enter_node(void *context, const BpIrNode *node) {
  Doubles *doubles = context;
  BpDataType dtype = doubles->ir->dtype(node);
  doubles->found |= dtype.code == BP_DTYPE_FLOAT && dtype.bits == 64;
  return doubles->found;
}

/* Refuses a module that a device without double precision cannot run. */
static int32_t check_doubles(const BpIrTable *ir, const BpIrModule *module,
                             const BpTarget *target) {
  BpValue has;
  if (bp_opencl_host.target->get_attr(target, "fp64", &has) != 0)
    return -1;
  for (int32_t i = 0; i < ir->num_functions(module) && !has.v_int64; i++) {
    Doubles doubles = {ir, 0};
    BpIrVisitor visitor = {sizeof(visitor), &doubles, enter_node, NULL};
    const BpIrNode *function = ir->get_function(module, i);
    ir->visit(function, &visitor);
    if (doubles.found)
      return bp_plugin_raise(
          &bp_opencl_host, BP_ERROR_NOT_IMPLEMENTED,
          "target opencl: %s computes with float64, which a device without cl_khr_fp64 lacks",
          ir->str_value(function));
  }
  return 0;
}

/* ---- The language ------------------------------------------------------------------------ */

static const BpDialectType half = {
    .dtype = {BP_DTYPE_FLOAT, 16, 1},
    .compute_bits = 32,
    .name = "half",
    .suffix = "",
    .widen = "((float)$1)",
    .narrow = "((half)$1)",
    .support = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n",
};

static int32_t make_language(const BpEmitterTable *emitter, const BpTarget *target,
                             BpLanguage *language) {
  BpValue has = {0};
  if (bp_language_copy(&bp_opencl_host, emitter, "opencl", language) != 0 ||
      bp_opencl_host.target->get_attr(target, "supports_float16", &has) != 0)
    return -1;
  if (has.v_int64)
    bp_language_add_halves(language, &half);
  return 0;
}

/* ---- The module -------------------------------------------------------------------------- */

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  BpCompilerTables compiler;
  BpLanguage language;
  BpOwnedBytes text = {NULL, 0, NULL};
  if (bp_kernel_fetch_compiler(&bp_opencl_host, "opencl", &compiler) != 0 ||
      check_doubles(compiler.ir, module, target) != 0 ||
      make_language(compiler.emitter, target, &language) != 0 ||
      compiler.emitter->emit(module, &language.dialect, &text) != 0)
    return NULL;
  BpByteArray source = {text.data, text.size};
  BpModule *result = bp_kernel_module_from_ir(&bp_opencl_module_kind, compiler.ir, module, &source);
  text.free_data(text.data);
  return result;
}

int bp_opencl_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_kernel_module_build(&bp_opencl_module_kind, build, args, num_args, result);
}
