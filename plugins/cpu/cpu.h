/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the plugins cpu and cpu-llvm share. device.c and c_*.c are the
 * plugin cpu, llvm_*.c the plugin cpu-llvm, and the other files are part of both. */
#ifndef BP_PLUGIN_CPU_H
#define BP_PLUGIN_CPU_H

#include <backplane/ir_api.h>
#include <backplane/plugin_helpers.h>

/* The host's tables; set by the entry point. */
extern BpPluginTables bp_cpu_host;

/* ---- machine.c: CPUs --------------------------------------------------------------------- */

/* A CPU that code can be generated for. */
typedef struct BpCpu {
  const char *name; /* name of the CPU in compilers */
  const char *arch; /* "x86_64", "aarch64"; "another": an architecture without a name here */
  int32_t vector_bits;
  int32_t vector_registers;
  const char *features; /* guaranteed features, comma-separated */
} BpCpu;

/* Returns the row with that name, or NULL. */
const BpCpu *bp_cpu_find(const char *name);
/* The names of all rows, comma-separated, as many as fit. */
void bp_cpu_names(char *text, size_t size);
/* The row of the architecture level of the CPU; for an architecture without levels, its own row.
 * Code for the level and the CPU's features uses only instructions that are checked at run time;
 * compilers assume more of a CPU given by name. */
const BpCpu *bp_cpu_level(const BpCpu *cpu);
/* The best matching row for this machine; "generic" for an architecture without a row. */
const BpCpu *bp_cpu_native(void);
/* The features of this machine beyond the row, comma-separated: "avx512vnni". */
void bp_cpu_native_extras(const BpCpu *cpu, char *text, size_t size);
/* Whether code for `cpu` with `extras` runs here; if not, `why` names what is missing. */
int bp_cpu_can_run(const BpCpu *cpu, const char *extras, char *why, size_t size);
/* Returns the bit of a CPU feature of the CPU's architecture. On x86-64 the bit is in libgcc's
 * words of features, and from 64 on in CPUID's leaf 7, part 1, register eax; on aarch64 it is in
 * AT_HWCAP, and from 64 on in AT_HWCAP2. -1: the architecture has no such feature. */
int bp_cpu_feature_bit(const BpCpu *cpu, const char *name, size_t size);
/* Whether `cpu` with `extras` has a feature. */
int bp_cpu_has_feature(const BpCpu *cpu, const char *extras, const char *name);
/* Calls `visit` for each item of a list until it returns non-zero, which is then the result. Items
 * are separated by `separator`; empty items are skipped. */
int bp_cpu_each(const char *list, char separator,
                int (*visit)(void *context, const char *item, size_t size), void *context);
/* The number of cores that this process may use. */
int64_t bp_cpu_usable_cores(void);

/* ---- module.c: shared by modules of both kinds ------------------------------------------- */

/* Raises the error that there is no memory for a module of kind `kind`; returns -1. */
int32_t bp_cpu_module_no_memory(const char *kind);
/* Raises an error if this machine cannot run code for a CPU and the extra features. */
int32_t bp_cpu_module_check_runs(const char *cpu, const char *extras);
/* Returns the BP_MODULE_* flags of code for a CPU and extra features. */
int32_t bp_cpu_module_flags(const char *cpu, const char *extras);
/* Whether `names`, one a line, contain a function's name. */
int bp_cpu_module_has(const char *names, const char *function);
/* Implements BpModuleApi::visit_functions for `names`. `kind` is for messages. */
int32_t bp_cpu_module_visit(const char *kind, const char *names,
                            int32_t (*visit)(void *visitor, const char *name,
                                             const char *signature),
                            void *visitor);
/* Makes a module from untrusted bytes, which are copied. NULL with an error. */
typedef BpModule *(*BpCpuLoad)(const BpByteArray *bytes);
/* Implements runtime.module.loadbinary_KIND. */
int bp_cpu_module_loadbinary(const char *kind, BpCpuLoad load, const BpValue *args,
                             int32_t num_args, BpValue *result);

/* ---- target.c: attributes of the CPU in both target kinds -------------------------------- */

/* Attributes common to the kinds c and llvm. */
#define BP_CPU_TARGET_ATTRS                                                                        \
  {"mcpu", BP_TYPE_STR, 0, "native",                                                               \
   "the CPU, as compilers name it; native: that of this machine"},                                 \
      {"mattr", BP_TYPE_STR, 0, NULL, "features beyond the CPU's, comma-separated: avx512vnni"},   \
      {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, NULL, "width of a vector register"},                 \
      {BP_TARGET_VECTOR_REGISTERS, BP_TYPE_INT, 0, NULL, "number of vector registers"},            \
      {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, NULL, "cores to cut work for at most; 1: one thread"}, \
      {BP_TARGET_L1_BYTES, BP_TYPE_INT, 0, NULL, "data cache of a core"},                          \
      {BP_TARGET_L2_BYTES, BP_TYPE_INT, 0, NULL, "second-level cache of a core"},                  \
      {BP_TARGET_BYTE_DOT, BP_TYPE_INT, 0, NULL,                                                   \
       "products of bytes in the time of one of float32, in dot products; 0: none"},               \
      {BP_TARGET_WINOGRAD, BP_TYPE_BOOL, 0, "true",                                                \
       "convolutions by Winograd's algorithm, which rounds a little more"},

/* BpTargetKind::complete of both kinds: sets unset attributes from the CPU. */
int32_t bp_cpu_complete_target(void *context, BpTarget *target);
/* Reads an attribute as text ("" when unset) or as a number; -1 with an error. */
int32_t bp_cpu_target_text(const BpTarget *target, const char *name, char *text, size_t size);
int32_t bp_cpu_target_int(const BpTarget *target, const char *name, int64_t *value);
/* Returns the names of an IR module's functions, one a line (free); NULL with an error. */
char *bp_cpu_function_names(const BpIrTable *ir, const BpIrModule *module);
/* A code generator: compiles an IR module for a target into a module. NULL with an error. */
typedef BpModule *(*BpCpuBuild)(const BpIrModule *module, const BpTarget *target);
/* Implements target.build.KIND. */
int bp_cpu_build(const char *kind, BpCpuBuild build, const BpValue *args, int32_t num_args,
                 BpValue *result);

/* ---- device.c ---------------------------------------------------------------------------- */

extern const BpDeviceApi bp_cpu_device_api;

/* ---- c_target.c, c_module.c -------------------------------------------------------------- */

extern const BpTargetKind bp_cpu_c_kind;
int bp_cpu_build_c(void *self, const BpValue *args, int32_t num_args, BpValue *result);
int bp_cpu_loadbinary_c(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* The parts of a module of C code; the module copies them. Lists are newline-separated. */
typedef struct BpCSource {
  const char *cpu;       /* a name in the table of CPUs */
  const char *extras;    /* features beyond that CPU's, comma-separated */
  const char *flags;     /* arguments of the C compiler, one a line */
  const char *functions; /* names of functions, one a line */
  const char *source;
} BpCSource;

/* Makes the module (transfer full). */
BpModule *bp_cpu_c_module_create(const BpCSource *source);

#endif
