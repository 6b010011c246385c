/* SPDX-License-Identifier: Apache-2.0 */
/* Target kind `llvm`: LLVM 15 turns the IR into an object file. The plugin verifies the module
 * before LLVM's passes run and checks features against its own tables, because LLVM ends the
 * process if it finds an error. Nothing global in LLVM is changed: PoCL and Mesa use it too. */
#include "llvm_gen.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const BpTargetAttr attrs[] = {
    BP_CPU_TARGET_ATTRS //
    {"mtriple", BP_TYPE_STR, 0, NULL, "the system, as LLVM names it; by default Linux on the CPU"},
    {"opt", BP_TYPE_INT, 0, "3", "optimisation level, 0 to 3"},
};

const BpTargetKind bp_cpu_llvm_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "llvm",
    .device_type = BP_DEVICE_CPU,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof(attrs) / sizeof(attrs[0]),
    .description = "Machine code by LLVM, for this CPU or another",
    .complete = bp_cpu_complete_target,
};

/* ---- The machine ------------------------------------------------------------------------- */

typedef struct Job {
  char cpu_name[64];
  char extras[512];
  char features[1024]; /* features beyond the level, in LLVM's form: "+avx512vnni" */
  char triple[128];
  char vector_width[16];
  int64_t opt;
  const BpCpu *cpu;
  const char *level; /* LLVM's name of the CPU's level */
  const char *tuned; /* the CPU for scheduling */
  LLVMTargetMachineRef machine;
} Job;

static void initialize_targets(void) {
  LLVMInitializeAllTargetInfos();
  LLVMInitializeAllTargets();
  LLVMInitializeAllTargetMCs();
  LLVMInitializeAllAsmPrinters();
  LLVMInitializeAllAsmParsers(); /* for CPUID */
}

static int add_feature(void *context, const char *item, size_t size) {
  char *features = context;
  size_t used = strlen(features);
  const char *other = size == 4 && memcmp(item, "fp16", 4) == 0 ? "full" : ""; /* LLVM's name */
  snprintf(features + used, sizeof(((Job *)0)->features) - used, "%s+%s%.*s", used ? "," : "",
           other, (int)size, item);
  return 0;
}

/* LLVM has its own names for generic CPUs. */
static int32_t name_level(Job *job) {
  const BpCpu *level = bp_cpu_level(job->cpu);
  int is_x86 = strcmp(job->cpu->arch, "x86_64") == 0;
  if (!is_x86 && strcmp(job->cpu->arch, "aarch64") != 0)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_NOT_IMPLEMENTED,
                           "target llvm: mcpu=%s: code for x86_64 and aarch64 alone is "
                           "made with LLVM; use target c",
                           job->cpu->name);
  job->level = is_x86 ? level->name : "generic";
  job->tuned = level == job->cpu ? job->level : job->cpu->name;
  return 0;
}

static int32_t read_target(const BpTarget *target, Job *job) {
  int64_t bits = 0;
  if (bp_cpu_target_text(target, "mcpu", job->cpu_name, sizeof(job->cpu_name)) ||
      bp_cpu_target_text(target, "mattr", job->extras, sizeof(job->extras)) ||
      bp_cpu_target_text(target, "mtriple", job->triple, sizeof(job->triple)) ||
      bp_cpu_target_int(target, "opt", &job->opt) ||
      bp_cpu_target_int(target, BP_TARGET_VECTOR_BITS, &bits))
    return -1;
  job->cpu = bp_cpu_find(job->cpu_name);
  if (!job->cpu)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE, "target llvm: unknown mcpu \"%s\"",
                           job->cpu_name);
  if (name_level(job))
    return -1;
  if (job->opt < 0 || job->opt > 3)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE, "target llvm: opt is 0 to 3, not %lld",
                           (long long)job->opt);
  if (!job->triple[0])
    snprintf(job->triple, sizeof(job->triple), "%s-unknown-linux-gnu", job->cpu->arch);
  bp_cpu_each(job->cpu->features, ',', add_feature, job->features);
  bp_cpu_each(job->extras, ',', add_feature, job->features);
  snprintf(job->vector_width, sizeof(job->vector_width), "%lld", (long long)bits);
  return 0;
}

static int32_t create_machine(Job *job) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  LLVMTargetRef target = NULL;
  char *message = NULL;
  pthread_once(&once, initialize_targets);
  if (strncmp(job->triple, job->cpu->arch, strlen(job->cpu->arch)) != 0)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE,
                           "target llvm: mtriple %s does not fit mcpu %s", job->triple,
                           job->cpu->name);
  if (LLVMGetTargetFromTriple(job->triple, &target, &message)) {
    bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE, "target llvm: mtriple %s: %s", job->triple,
                    message);
    LLVMDisposeMessage(message);
    return -1;
  }
  job->machine =
      LLVMCreateTargetMachine(target, job->triple, job->level, job->features,
                              job->opt ? LLVMCodeGenLevelAggressive : LLVMCodeGenLevelNone,
                              LLVMRelocPIC, LLVMCodeModelDefault);
  if (!job->machine)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_COMPILE, "target llvm: no machine for %s",
                           job->triple);
  return 0;
}

/* ---- The module -------------------------------------------------------------------------- */

/* Without a diagnostic handler LLVM would print messages and, after an error, exit. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *context) {
  BpGen *g = context;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
    return;
  char *text = LLVMGetDiagInfoDescription(info);
  bp_gen_fail(g, BP_ERROR_COMPILE, "LLVM: %s", text);
  LLVMDisposeMessage(text);
}

static void open_module(BpGen *g, const Job *job) {
  g->context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(g->context, on_diagnostic, g);
  g->module = LLVMModuleCreateWithNameInContext("backplane", g->context);
  g->builder = LLVMCreateBuilderInContext(g->context);
  LLVMSetTarget(g->module, job->triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(job->machine);
  LLVMSetModuleDataLayout(g->module, layout);
  LLVMDisposeTargetData(layout);
  g->i1 = LLVMInt1TypeInContext(g->context);
  g->i8 = LLVMInt8TypeInContext(g->context);
  g->i16 = LLVMInt16TypeInContext(g->context);
  g->i32 = LLVMInt32TypeInContext(g->context);
  g->i64 = LLVMInt64TypeInContext(g->context);
  g->f32 = LLVMFloatTypeInContext(g->context);
  g->f64 = LLVMDoubleTypeInContext(g->context);
  g->ptr = LLVMPointerTypeInContext(g->context, 0);
  g->nothing = LLVMVoidTypeInContext(g->context);
  g->cpu = job->cpu;
  /* On x86-64, CPUs with AVX2 also have F16C. */
  g->has_halves =
      strcmp(job->cpu->arch, "x86_64") != 0 || strstr(job->level, "v3") || strstr(job->level, "v4");
  g->extras = job->extras;
  g->attributes[0][0] = "target-cpu";
  g->attributes[0][1] = job->level;
  g->attributes[1][0] = "target-features";
  g->attributes[1][1] = job->features[0] ? job->features : NULL;
  g->attributes[2][0] = "prefer-vector-width";
  g->attributes[2][1] = job->vector_width;
  g->attributes[3][0] = "tune-cpu";
  g->attributes[3][1] = job->tuned;
}

static void close_module(BpGen *g) {
  bp_pointer_map_free(&g->symbols);
  bp_pointer_map_free(&g->known);
  LLVMDisposeBuilder(g->builder);
  LLVMDisposeModule(g->module);
  LLVMContextDispose(g->context);
}

static int32_t verify(BpGen *g) {
  char *message = NULL;
  LLVMBool is_bad = LLVMVerifyModule(g->module, LLVMReturnStatusAction, &message);
  if (is_bad)
    bp_gen_fail(g, BP_ERROR_INTERNAL, "LLVM's verifier: %s", message);
  LLVMDisposeMessage(message);
  return is_bad ? -1 : 0;
}

/* The module is verified before and after the passes, because LLVM's code generator ends the
 * process on malformed code. */
static int32_t optimize(BpGen *g, const Job *job) {
  char passes[32];
  if (verify(g) != 0)
    return -1;
  snprintf(passes, sizeof(passes), "default<O%lld>", (long long)job->opt);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, 1);
  LLVMPassBuilderOptionsSetSLPVectorization(options, 1);
  LLVMErrorRef error = LLVMRunPasses(g->module, passes, job->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error)
    return g->failed ? -1 : verify(g);
  char *text = LLVMGetErrorMessage(error);
  bp_gen_fail(g, BP_ERROR_COMPILE, "LLVM: %s", text);
  LLVMDisposeErrorMessage(text);
  return -1;
}

static BpModule *make_module(BpGen *g, const BpIrModule *ir_module, const Job *job) {
  LLVMMemoryBufferRef object = NULL;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(job->machine, g->module, LLVMObjectFile, &message,
                                          &object)) {
    bp_gen_fail(g, BP_ERROR_COMPILE, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    return NULL;
  }
  BpModule *result = NULL;
  char *names = bp_cpu_function_names(g->ir, ir_module);
  char *text = LLVMPrintModuleToString(g->module);
  if (names && !g->failed) {
    BpLlvmCode code = {job->cpu->name,
                       job->extras,
                       names,
                       {text, strlen(text)},
                       {LLVMGetBufferStart(object), LLVMGetBufferSize(object)}};
    result = bp_cpu_llvm_module_create(&code);
  }
  free(names);
  LLVMDisposeMessage(text);
  LLVMDisposeMemoryBuffer(object);
  return result;
}

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  BpGen g = {.ir = bp_cpu_host.host->get_table(bp_cpu_host.host, BP_TABLE_IR, BP_TABLE_IR_VERSION)};
  Job job = {.machine = NULL};
  if (!g.ir) {
    bp_plugin_raise(&bp_cpu_host, BP_ERROR_NOT_FOUND,
                    "target llvm: the compiler library is not loaded");
    return NULL;
  }
  if (read_target(target, &job) || create_machine(&job))
    return NULL;
  open_module(&g, &job);
  for (int32_t i = 0; i < g.ir->num_functions(module) && !g.failed; i++)
    bp_gen_function(&g, g.ir->get_function(module, i));
  BpModule *result = NULL;
  if (!g.failed && optimize(&g, &job) == 0)
    result = make_module(&g, module, &job);
  close_module(&g);
  LLVMDisposeTargetMachine(job.machine);
  return result;
}

int bp_cpu_build_llvm(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_cpu_build("llvm", build, args, num_args, result);
}
