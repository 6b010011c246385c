/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation: the device's language, a dialect of C, and the target kind of that name. No
 * device is queried, so code can be generated on machines without one. */
#include "simdev.h"

/* ---- The target kind --------------------------------------------------------------------- */

/* The host's compiler knows attributes by these names, which control its schedules. */
static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels run over blocks of threads"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "64", "threads in a block"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, "1", "threads in lock-step"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, "32768", "bytes that a block's threads share"},
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "128", "width of a vector"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, "1", "blocks that run at once"},
};

/* Called for each parsed target, to check it and to set dependent attributes. */
static int32_t complete(void *context, BpTarget *target) {
  (void)context;
  return bp_plugin_check_range(&simdev_host, target, BP_TARGET_MAX_NUM_THREADS, 1,
                               SIMDEV_MOST_THREADS);
}

const BpTargetKind simdev_target_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "simdev",
    .device_type = SIMDEV_DEVICE_TYPE,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof attrs / sizeof *attrs,
    .description = "C for the simulated devices of the plugin simdev",
    .complete = complete,
};

/* ---- The language ------------------------------------------------------------------------ */

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...)    TEXT_OF(__VA_ARGS__)

static const BpDialectAxis axes[] = {
    {"blockIdx.x", "self->block[0]"},   {"blockIdx.y", "self->block[1]"},
    {"blockIdx.z", "self->block[2]"},   {"threadIdx.x", "self->thread[0]"},
    {"threadIdx.y", "self->thread[1]"}, {"threadIdx.z", "self->thread[2]"},
};

/* The head of a kernel and the function by which the driver starts it: see SIMDEV_THREAD in
 * simdev.h. */
static const char kernel[] =
    "static void run_$1(const simdev_thread *self, void **args);\n"
    "__attribute__((visibility(\"default\")))\n"
    "int __tvm_ffi_$1(void *function, const bp_value *values, int count, bp_value *result) {\n"
    "  run_$1(values[1].v.p, values[0].v.p);\n"
    "  return 0;\n"
    "}\n\n"
    "static void run_$1(const simdev_thread *self, void **args)";

/* The language is the host's C with other functions: a table of types, operations and intrinsics.
 * emitter_api.h explains the members. The emitter refuses constructs whose members are NULL, and
 * names them. */
static int32_t make_dialect(const BpEmitterTable *emitter, BpDialect *dialect) {
  if (bp_kernel_copy_dialect(emitter, "c", dialect))
    return -1;
  dialect->name = "simdev";
  dialect->flags = (dialect->flags & ~BP_DIALECT_HOST) | BP_DIALECT_PARAMS_LOCAL;
  dialect->num_axes = sizeof axes / sizeof *axes;
  dialect->axes = axes;
  dialect->axis_size = sizeof *axes;
  dialect->support = TEXT(SIMDEV_THREAD) "\n";
  dialect->function = NULL;
  dialect->kernel = kernel;
  dialect->buffer_param = "$1 *$4 $2 = args[$3];";
  dialect->scalar_param = "const $1 $2 = *($1 *)args[$3];";
  dialect->shared_array = "static $1 $2[$3] __attribute__((aligned(64)))";
  dialect->barrier_shared = "self->barrier();";
  dialect->barrier_global = "self->barrier();";
  return 0;
}

/* ---- The generator ----------------------------------------------------------------------- */

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  BpCompilerTables compiler;
  BpDialect dialect;
  BpOwnedBytes text;
  (void)target;
  if (bp_kernel_fetch_compiler(&simdev_host, "simdev", &compiler) ||
      bp_kernel_check_shared(&simdev_host, "simdev", compiler.ir, module, SIMDEV_SHARED_MEMORY) ||
      make_dialect(compiler.emitter, &dialect) || compiler.emitter->emit(module, &dialect, &text))
    return NULL;
  const BpByteArray program = {text.data, text.size};
  BpModule *made = bp_kernel_module_from_ir(&simdev_module_kind, compiler.ir, module, &program);
  text.free_data(text.data);
  return made;
}

int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_kernel_module_build(&simdev_module_kind, build, args, num_args, result);
}
