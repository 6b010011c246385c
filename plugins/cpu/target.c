/* SPDX-License-Identifier: Apache-2.0 */
/* Code shared by the target kinds c and llvm: setting and reading the CPU's attributes. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The longest vectors of Arm's SVE; compiling longer ones takes minutes. */
#define MOST_VECTOR_BITS 2048

int32_t bp_cpu_target_text(const BpTarget *target, const char *name, char *text, size_t size) {
  BpValue value = {0};
  BpByteArray view = {"", 0};
  if (bp_cpu_host.target->get_attr(target, name, &value) != 0)
    return -1;
  if (value.type_index != BP_TYPE_NONE && bp_cpu_host.object->view_str(&value, &view) != 0)
    return -1;
  if (view.size >= size)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE,
                           "target attribute %s: longer than %zu bytes", name, size - 1);
  memcpy(text, view.data, view.size);
  text[view.size] = '\0';
  return 0;
}

int32_t bp_cpu_target_int(const BpTarget *target, const char *name, int64_t *value) {
  BpValue held = {0};
  if (bp_cpu_host.target->get_attr(target, name, &held) != 0)
    return -1;
  *value = held.type_index == BP_TYPE_INT || held.type_index == BP_TYPE_BOOL ? held.v_int64 : 0;
  return 0;
}

static int32_t set_text(BpTarget *target, const char *name, const char *text) {
  BpValue value = {.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
  return bp_cpu_host.target->set_attr(target, name, &value);
}

static int32_t set_int_if_unset(BpTarget *target, const char *name, int64_t number) {
  BpValue value = {0};
  if (bp_cpu_host.target->get_attr(target, name, &value) != 0)
    return -1;
  if (value.type_index != BP_TYPE_NONE || number <= 0)
    return 0;
  value = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number};
  return bp_cpu_host.target->set_attr(target, name, &value);
}

/* Sets the number of products of bytes in the time of one of float32: every x86-64 CPU has an
 * instruction for vectors that adds pairs of products of int16. */
static int32_t set_byte_dot(BpTarget *target, const BpCpu *cpu, const char *extras) {
  int64_t bits;
  if (bp_cpu_target_int(target, BP_TARGET_VECTOR_BITS, &bits))
    return -1;
  int has_dots = (bp_cpu_has_feature(cpu, extras, "avx512vnni") &&
                  (bits >= 512 || bp_cpu_has_feature(cpu, extras, "avx512vl"))) ||
                 (bits <= 256 && bp_cpu_has_feature(cpu, extras, "avxvnni"));
  int64_t products = strcmp(cpu->arch, "x86_64") != 0 || bits < 128 ? 0 : has_dots ? 4 : 1;
  return set_int_if_unset(target, BP_TARGET_BYTE_DOT, products);
}

static int check_feature(void *context, const char *item, size_t size) {
  const BpCpu *cpu = context;
  if (bp_cpu_feature_bit(cpu, item, size) >= 0)
    return 0;
  return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE,
                         "target attribute mattr: unknown feature \"%.*s\" of %s", (int)size, item,
                         cpu->arch);
}

/* "native" is replaced by the row, further features and cache sizes of this machine; for a named
 * CPU, values that its name does not determine are the defaults. The number of cores of this
 * machine is ignored: code is made for any number. */
int32_t bp_cpu_complete_target(void *context, BpTarget *target) {
  (void)context;
  char name[64];
  char extras[512];
  if (bp_cpu_target_text(target, "mcpu", name, sizeof(name)) ||
      bp_cpu_target_text(target, "mattr", extras, sizeof(extras)) ||
      bp_plugin_check_range(&bp_cpu_host, target, BP_TARGET_VECTOR_BITS, 0, MOST_VECTOR_BITS))
    return -1;
  int is_native = strcmp(name, "native") == 0;
  const BpCpu *cpu = is_native ? bp_cpu_native() : bp_cpu_find(name);
  if (!cpu) {
    char names[1024];
    bp_cpu_names(names, sizeof(names));
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_VALUE,
                           "target attribute mcpu: unknown CPU \"%s\"; there are %s", name, names);
  }
  if (is_native && !extras[0])
    bp_cpu_native_extras(cpu, extras, sizeof(extras));
  if (bp_cpu_each(extras, ',', check_feature, (void *)(uintptr_t)cpu) != 0 ||
      set_text(target, "mcpu", cpu->name) || (extras[0] && set_text(target, "mattr", extras)))
    return -1;
  if (set_int_if_unset(target, BP_TARGET_VECTOR_BITS, cpu->vector_bits) ||
      set_int_if_unset(target, BP_TARGET_VECTOR_REGISTERS, cpu->vector_registers) ||
      set_byte_dot(target, cpu, extras))
    return -1;
  if (!is_native)
    return 0;
  if (set_int_if_unset(target, BP_TARGET_L1_BYTES, sysconf(_SC_LEVEL1_DCACHE_SIZE)))
    return -1;
  return set_int_if_unset(target, BP_TARGET_L2_BYTES, sysconf(_SC_LEVEL2_CACHE_SIZE));
}

char *bp_cpu_function_names(const BpIrTable *ir, const BpIrModule *module) {
  size_t size = 1;
  for (int32_t i = 0; i < ir->num_functions(module); i++)
    size += strlen(ir->str_value(ir->get_function(module, i))) + 1;
  char *names = malloc(size);
  if (!names) {
    bp_plugin_raise(&bp_cpu_host, BP_ERROR_MEMORY, "no memory for %zu bytes of functions' names",
                    size);
    return NULL;
  }
  char *end = names;
  *end = '\0';
  for (int32_t i = 0; i < ir->num_functions(module); i++)
    end = stpcpy(stpcpy(end, ir->str_value(ir->get_function(module, i))), "\n");
  return names;
}

int bp_cpu_build(const char *kind, BpCpuBuild build, const BpValue *args, int32_t num_args,
                 BpValue *result) {
  if (num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE ||
      args[1].type_index != BP_TYPE_TARGET)
    return bp_plugin_raise(&bp_cpu_host, BP_ERROR_TYPE,
                           "target.build.%s: expected an IR module and a target", kind);
  return bp_plugin_answer_module(result, build((const BpIrModule *)(const void *)args[0].v_obj,
                                               (const BpTarget *)(const void *)args[1].v_obj));
}
