/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation: the device's language, a dialect of C, and the target kind of that name. No
 * device is asked anything, so code is made on machines without one. */
#include "simdev.h"

#include <backplane/emitter_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The target kind --------------------------------------------------------------------- */

/* The names are those by which the host's compiler knows them: they steer its schedules. */
static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels run over blocks of threads"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "64", "threads in a block"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, "1", "threads in lock-step"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, "32768", "bytes that a block's threads share"},
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "128", "width of a vector"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, "1", "blocks that run at once"},
};

/* Called for each target that is written, to check it and to fill in what follows. */
static int32_t complete(BpTarget *target) {
  BpValue threads;
  if (simdev_host.target->get_attr(target, BP_TARGET_MAX_NUM_THREADS, &threads))
    return -1;
  if (threads.v_int64 >= 1 && threads.v_int64 <= SIMDEV_MOST_THREADS)
    return 0;
  return simdev_host.error->raise(BP_ERROR_VALUE,
                                  "target simdev: max_num_threads is %lld, not from 1 to %d",
                                  (long long)threads.v_int64, SIMDEV_MOST_THREADS);
}

const BpTargetKind simdev_target_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "simdev",
    .device_type = SIMDEV_DEVICE_TYPE,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
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

/* The language is the host's C with other functions: a table of types, operations and intrinsics,
 * of which emitter_api.h explains the members. What it leaves NULL the emitter refuses by name. */
static BpDialect make_dialect(const BpDialect *c) {
  BpDialect dialect = {0};
  memcpy(&dialect, c, c->struct_size < sizeof dialect ? c->struct_size : sizeof dialect);
  dialect.struct_size = sizeof dialect;
  dialect.name = "simdev";
  dialect.flags &= ~BP_DIALECT_HOST;
  dialect.num_axes = sizeof axes / sizeof *axes;
  dialect.axes = axes;
  dialect.support =
      TEXT(SIMDEV_THREAD) "\n#define PARAMS(...) simdev_thread *self, ##__VA_ARGS__\n";
  dialect.function = NULL;
  dialect.kernel = "static void run_$1(PARAMS($2))";
  dialect.shared_array = "static $1 $2[$3] __attribute__((aligned(64)))";
  dialect.barrier_shared = "self->barrier(self->team);";
  dialect.barrier_global = "self->barrier(self->team);";
  return dialect;
}

/* ---- What the emitter does not know ------------------------------------------------------ */

/* Adds up what the threads of a block share. */
typedef struct Shared {
  const BpIrTable *ir;
  int64_t bytes;
} Shared;

static int32_t add_shared(void *context, const BpIrNode *node) {
  Shared *shared = context;
  const BpIrTable *ir = shared->ir;
  const BpIrNode *buffer = ir->kind(node) == BP_IR_ALLOCATE ? ir->operand(node, 0) : NULL;
  if (!buffer || ir->int_value(buffer) != BP_IR_SCOPE_SHARED)
    return 0;
  BpDataType dtype = ir->dtype(buffer);
  int64_t bytes = (dtype.bits + 7) / 8 * dtype.lanes;
  for (int32_t i = 0; i < ir->num_operands(buffer); i++)
    bytes *= ir->int_value(ir->operand(buffer, i));
  shared->bytes += bytes;
  return 0;
}

static const char *type_name(const BpDialect *dialect, BpDataType dtype) {
  for (int32_t i = 0; i < dialect->num_types; i++)
    if (!memcmp(&dialect->types[i].dtype, &dtype, sizeof dtype))
      return dialect->types[i].name;
  return "void *";
}

/* The function by which the driver starts a kernel: see SIMDEV_THREAD in simdev.h. */
static int32_t print_entry(FILE *out, const BpIrTable *ir, const BpIrNode *function,
                           const BpDialect *dialect) {
  const char *name = ir->str_value(function);
  fprintf(
      out,
      "__attribute__((visibility(\"default\"))) int __tvm_ffi_%s(void *function, const bp_value "
      "*values, int count, bp_value *result) {\n"
      "  void **args = values[0].v.p;\n  run_%s(values[1].v.p",
      name, name);
  for (int32_t i = 0; i < (int32_t)ir->int_value(function); i++) {
    const BpIrNode *param = ir->operand(function, i);
    if (ir->kind(param) == BP_IR_BUFFER)
      fprintf(out, ", args[%d]", i);
    else
      fprintf(out, ", *(%s *)args[%d]", type_name(dialect, ir->dtype(param)), i);
  }
  fprintf(out, ");\n  return 0;\n}\n\n");
  Shared shared = {ir, 0};
  const BpIrVisitor visitor = {sizeof visitor, &shared, add_shared, NULL};
  ir->visit(function, &visitor);
  if (shared.bytes <= SIMDEV_SHARED_MEMORY)
    return 0;
  return simdev_host.error->raise(BP_ERROR_NOT_IMPLEMENTED,
                                  "target simdev: %s shares %lld bytes in a block, where %d are",
                                  name, (long long)shared.bytes, SIMDEV_SHARED_MEMORY);
}

/* The text of the whole program; 0 or -1. */
static int32_t print_program(const BpIrTable *ir, const BpIrModule *module,
                             const BpDialect *dialect, const BpOwnedBytes *kernels,
                             BpOwnedBytes *program) {
  FILE *out = open_memstream(&program->data, &program->size);
  if (!out)
    return simdev_host.error->raise(BP_ERROR_MEMORY, "target simdev: out of memory");
  int32_t rc = 0;
  fwrite(kernels->data, 1, kernels->size, out);
  for (int32_t i = 0; rc == 0 && i < ir->num_functions(module); i++)
    rc = print_entry(out, ir, ir->get_function(module, i), dialect);
  if (fclose(out) && rc == 0)
    rc = simdev_host.error->raise(BP_ERROR_MEMORY, "target simdev: out of memory");
  return rc;
}

/* ---- The generator ----------------------------------------------------------------------- */

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  (void)target;
  /* The compiler's tables are there only when the application has loaded the compiler. */
  const BpIrTable *ir = simdev_host.host->get_table(BP_TABLE_IR, BP_TABLE_IR_VERSION);
  const BpEmitterTable *emitter =
      simdev_host.host->get_table(BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  const BpDialect *c = ir && emitter ? emitter->get_dialect("c") : NULL;
  if (!c) {
    simdev_host.error->raise(BP_ERROR_NOT_FOUND, "target simdev: the compiler is not loaded");
    return NULL;
  }
  const BpDialect dialect = make_dialect(c);
  BpOwnedBytes kernels = {0}, program = {0};
  BpModule *made = NULL;
  if (!emitter->emit(module, &dialect, &kernels)) {
    if (!print_program(ir, module, &dialect, &kernels, &program)) {
      const BpByteArray source = {program.data, program.size};
      made = bp_kernel_module_from_ir(&simdev_module_kind, ir, module, &source);
    }
    free(program.data);
    kernels.free_data(kernels.data);
  }
  return made;
}

int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_kernel_module_build(&simdev_module_kind, build, args, num_args, result);
}
