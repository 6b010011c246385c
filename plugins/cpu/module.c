/* SPDX-License-Identifier: Apache-2.0 */
/* Code shared by modules of the kinds c and llvm: the CPU for which they were compiled, and the
 * names of their functions. */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

int32_t bp_cpu_module_no_memory(const char *kind) {
  return bp_plugin_raise(&bp_cpu_host, BP_ERROR_MEMORY, "module of kind %s: out of memory", kind);
}

/* ---- The CPU ----------------------------------------------------------------------------- */

int32_t bp_cpu_module_check_runs(const char *cpu, const char *extras) {
  char why[512];
  if (bp_cpu_can_run(bp_cpu_find(cpu), extras, why, sizeof(why)))
    return 0;
  return bp_plugin_raise(&bp_cpu_host, BP_ERROR_DEVICE,
                         "the module was compiled for the CPU %s%s%s and cannot run here: "
                         "%s; build it for another mcpu",
                         cpu, extras[0] ? " with " : "", extras, why);
}

int32_t bp_cpu_module_flags(const char *cpu, const char *extras) {
  char why[512];
  const int32_t flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_COMPILATION_EXPORT;
  return bp_cpu_can_run(bp_cpu_find(cpu), extras, why, sizeof(why)) ? flags | BP_MODULE_RUNNABLE
                                                                    : flags;
}

/* ---- Functions --------------------------------------------------------------------------- */

static int is_name(void *context, const char *line, size_t size) {
  const char *name = context;
  return strlen(name) == size && memcmp(name, line, size) == 0;
}

int bp_cpu_module_has(const char *names, const char *function) {
  return bp_cpu_each(names, '\n', is_name, (void *)(uintptr_t)function);
}

typedef struct Visit {
  const char *kind;
  int32_t (*visit)(void *visitor, const char *name, const char *signature);
  void *visitor;
} Visit;

static int visit_name(void *context, const char *line, size_t size) {
  const Visit *visit = context;
  char *name = strndup(line, size);
  if (!name)
    return bp_cpu_module_no_memory(visit->kind);
  int rc = visit->visit(visit->visitor, name, NULL);
  free(name);
  return rc;
}

int32_t bp_cpu_module_visit(const char *kind, const char *names,
                            int32_t (*visit)(void *visitor, const char *name,
                                             const char *signature),
                            void *visitor) {
  Visit state = {kind, visit, visitor};
  return bp_cpu_each(names, '\n', visit_name, &state) < 0 ? -1 : 0;
}

/* ---- Bytes ------------------------------------------------------------------------------- */

int bp_cpu_module_loadbinary(const char *kind, BpCpuLoad load, const BpValue *args,
                             int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  if (num_args != 1 && num_args != 2)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_TYPE,
                           "runtime.module.loadbinary_%s: expected bytes and an owner, "
                           "got %d arguments",
                           kind, num_args);
  if (bp_cpu_host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  return bp_plugin_answer_module(result, load(&bytes));
}
