/* SPDX-License-Identifier: Apache-2.0 */
/* Target kind `c`: the emitter's dialect "c", and the matching arguments of the C compiler. Every
 * packed function first checks, once, that the CPU has the instructions for which the code was
 * compiled. */
#include "cpu.h"

#include <backplane/kernel_helpers.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const BpTargetAttr attrs[] = {
    BP_CPU_TARGET_ATTRS{"options", BP_TYPE_STR, 0, NULL,
                        "further arguments of the C compiler, space-separated"},
};

const BpTargetKind bp_cpu_c_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "c",
    .device_type = BP_DEVICE_CPU,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof(attrs) / sizeof(attrs[0]),
    .description = "C source, built by the system's C compiler",
    .complete = bp_cpu_complete_target,
};

/* ---- Building text ----------------------------------------------------------------------- */

/* A text of fixed size; overflow is detected at the end. */
typedef struct Lines {
  char *data;
  size_t size;
  size_t used;
} Lines;

static int append(void *context, const char *prefix, const char *item, size_t size) {
  Lines *lines = context;
  size_t room = lines->used < lines->size ? lines->size - lines->used : 0;
  int written = snprintf(lines->data + lines->used, room, "%s%.*s\n", prefix, (int)size, item);
  lines->used += written > 0 ? (size_t)written : 0;
  return 0;
}

static int append_feature(void *context, const char *item, size_t size) {
  return append(context, "-m", item, size);
}

static void append_words(Lines *lines, const char *words) {
  while (*words) {
    words += strspn(words, " ");
    size_t size = strcspn(words, " ");
    if (size > 0)
      append(lines, "", words, size);
    words += size;
  }
}

/* Features of aarch64 are parts of the compiler argument that names the architecture. */
static int append_suffix(void *context, const char *item, size_t size) {
  Lines *lines = context;
  lines->used -= lines->used > 0; /* removes the unfinished line */
  return append(lines, "+", item, size);
}

/* Writes the arguments that permit instructions: those of the CPU's level and of the features that
 * are checked at run time. Other architectures get the compiler's defaults. */
static void append_cpu(Lines *lines, const BpCpu *cpu, const char *extras) {
  const BpCpu *level = bp_cpu_level(cpu);
  int is_x86 = strcmp(cpu->arch, "x86_64") == 0;
  if (is_x86)
    append(lines, "-march=", level->name, strlen(level->name));
  else if (strcmp(cpu->arch, "aarch64") == 0)
    append(lines, "-march=", "armv8-a", strlen("armv8-a"));
  int (*add)(void *context, const char *item, size_t size) =
      is_x86 ? append_feature : append_suffix;
  if (!is_x86 || level != cpu)
    bp_cpu_each(cpu->features, ',', add, lines);
  bp_cpu_each(extras, ',', add, lines);
  if (level != cpu)
    append(lines, "-mtune=", cpu->name, strlen(cpu->name));
}

/* Writes the compiler arguments. There is no fast-math, which breaks NaN, infinity and rounding
 * tricks. The flags let the compiler vectorise calls, fuse multiply and add, and ignore errno.
 * GCC's -O1 with these passes takes 0.75 of the time of -O3. Its code is as fast, because most of
 * the emitted C is vectorised; -fexpensive-optimizations fuses. The toolchain gives Clang -O3. */
static int32_t compiler_flags(const BpCpu *cpu, const char *extras, int64_t vector_bits,
                              const char *options, char *text, size_t size) {
  static const char *const common[] = {
      "-std=gnu11",
      "-O1",
      "-fexpensive-optimizations",
      "-fschedule-insns2",
      "-ftree-vectorize",
      "-ftree-vrp",
      "-funswitch-loops",
      "-fno-math-errno",
      "-fno-trapping-math",
      "-ffp-contract=fast",
      "-fno-strict-aliasing",
  };
  Lines lines = {text, size, 0};
  for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
    append(&lines, "", common[i], strlen(common[i]));
  append_cpu(&lines, cpu, extras);
  if (strcmp(cpu->arch, "x86_64") == 0 && vector_bits >= 128) {
    char width[32];
    snprintf(width, sizeof(width), "%lld", (long long)(vector_bits > 512 ? 512 : vector_bits));
    append(&lines, "-mprefer-vector-width=", width, strlen(width));
  }
  append_words(&lines, options);
  if (lines.used >= size)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE, "target attribute options: too long");
  return 0;
}

/* ---- The check of the CPU ---------------------------------------------------------------- */

typedef struct Tests {
  const BpCpu *cpu;
  Lines *lines;
} Tests;

/* On x86-64, gcc and clang have a builtin that tests most features of a CPU; on aarch64, getauxval
 * does. */
static int append_test(void *context, const char *item, size_t size) {
  Tests *tests = context;
  char condition[256], text[320];
  int bit = bp_cpu_feature_bit(tests->cpu, item, size);
  int is_x86 = strcmp(tests->cpu->arch, "x86_64") == 0;
  if (is_x86 && bit >= 64)
    snprintf(condition, sizeof(condition),
             "(__builtin_cpu_supports(\"avx2\") && (bp_cpuid_7_1() >> %d & 1))", bit - 64);
  else if (is_x86)
    snprintf(condition, sizeof(condition), "__builtin_cpu_supports(\"%.*s\")", (int)size, item);
  else
    snprintf(condition, sizeof(condition), "(getauxval(%d) >> %d & 1)", bit < 64 ? 16 : 26,
             bit % 64);
  snprintf(text, sizeof(text), "  if (!%s) missing = \"%.*s\";", condition, (int)size, item);
  return append(tests->lines, "", text, strlen(text));
}

/* Writes the check that the dialect's `entry` calls. */
static void check_function(const BpCpu *cpu, const char *extras, Lines *lines) {
  Tests tests = {cpu, lines};
  char line[256];
  const char *head = "extern unsigned long getauxval(unsigned long type);\n"
                     "#ifdef __x86_64__\n"
                     "BP_HELPER unsigned bp_cpuid_7_1(void) {\n"
                     "  unsigned a = 7, b, c = 1, d;\n"
                     "  __asm__(\"cpuid\" : \"+a\"(a), \"=b\"(b), \"+c\"(c), \"=d\"(d));\n"
                     "  return a;\n"
                     "}\n"
                     "#endif\n"
                     "BP_HELPER int bp_check_cpu(const char *function) {\n"
                     "  static int is_known;\n"
                     "  const char *missing = 0;\n"
                     "  if (__atomic_load_n(&is_known, __ATOMIC_RELAXED))\n"
                     "    return 0;\n"
                     "#ifdef __x86_64__\n"
                     "  __builtin_cpu_init();\n"
                     "#endif";
  append(lines, "", head, strlen(head));
  bp_cpu_each(cpu->features, ',', append_test, &tests);
  bp_cpu_each(extras, ',', append_test, &tests);
  snprintf(
      line, sizeof(line),
      "  if (missing)\n"
      "    return bp_raise(\"DeviceError\", \"%%s: compiled for the CPU %s, and this one lacks "
      "%%s; build it for another mcpu\", function, missing);",
      cpu->name);
  append(lines, "", line, strlen(line));
  const char *tail = "  __atomic_store_n(&is_known, 1, __ATOMIC_RELAXED);\n"
                     "  (void)function;\n"
                     "  return 0;\n"
                     "}\n";
  append(lines, "", tail, strlen(tail));
}

/* ---- target.build.c ---------------------------------------------------------------------- */

static int32_t emit(const BpEmitterTable *emitter, const BpIrModule *module, const BpCpu *cpu,
                    const char *extras, BpOwnedBytes *text) {
  BpDialect dialect;
  char check[4096];
  Lines lines = {check, sizeof(check), 0};
  if (bp_kernel_copy_dialect(emitter, "c", &dialect) != 0)
    return -1;
  check_function(cpu, extras, &lines);
  dialect.support = check;
  dialect.entry = "if (bp_check_cpu(\"$1\"))\n    return -1;";
  return emitter->emit(module, &dialect, text);
}

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  char name[64], extras[512], options[1024], flags[2048];
  int64_t vector_bits = 0;
  BpCompilerTables compiler;
  if (bp_kernel_fetch_compiler(&bp_cpu_host, "c", &compiler) ||
      bp_cpu_target_text(target, "mcpu", name, sizeof(name)) ||
      bp_cpu_target_text(target, "mattr", extras, sizeof(extras)) ||
      bp_cpu_target_text(target, "options", options, sizeof(options)) ||
      bp_cpu_target_int(target, BP_TARGET_VECTOR_BITS, &vector_bits))
    return NULL;
  const BpCpu *cpu = bp_cpu_find(name);
  BpOwnedBytes text = {NULL, 0, NULL};
  if (!cpu) {
    bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE, "target c: unknown mcpu \"%s\"", name);
    return NULL;
  }
  if (compiler_flags(cpu, extras, vector_bits, options, flags, sizeof(flags)) ||
      emit(compiler.emitter, module, cpu, extras, &text))
    return NULL;
  char *functions = bp_cpu_function_names(compiler.ir, module);
  BpModule *result = NULL;
  if (functions) {
    BpCSource source = {cpu->name, extras, flags, functions, text.data};
    result = bp_cpu_c_module_create(&source);
  }
  free(functions);
  text.free_data(text.data);
  return result;
}

int bp_cpu_build_c(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_cpu_build("c", build, args, num_args, result);
}
