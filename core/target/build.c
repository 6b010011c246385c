/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation through the registry, and the table that plugins use. */
#include "core/registry/given.h"
#include "core/target/target.h"

#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#include "core/registry/host.h"
#include "core/registry/object.h"

/* The compiler library registers this function; without it the generator gets modules unchanged. */
#define LEGALIZE "compiler.legalize"

static int call_by_name(const char *name, int required, BpIrModule *module, const BpTarget *target,
                        BpValue *result) {
  BpFunction *function = NULL;
  *result = (BpValue){.type_index = BP_TYPE_NONE};
  if (bp_registry_get(name, &function) < 0)
    return -1;
  if (!function)
    return required ? bp_error_raise(BP_ERROR_NOT_FOUND,
                                     "there is no global function '%s', although the plugin of "
                                     "this target kind is active",
                                     name)
                    : 0;
  const BpValue args[] = {bp__value_object(module), bp__value_object((void *)(uintptr_t)target)};
  int status = bp_function_call(function, args, 2, result);
  bp_object_release(function);
  return status;
}

static BpModule *generate(BpIrModule *module, const BpTarget *target) {
  char name[128] = "target.build.";
  BpValue result;
  strncat(name, target->kind->name, sizeof(name) - strlen(name) - 1);
  if (call_by_name(name, 1, module, target, &result) < 0)
    return NULL;
  if (result.type_index == BP_TYPE_MODULE)
    return (BpModule *)(void *)result.v_obj;
  bp_error_raise(BP_ERROR_TYPE, "'%s' returned %s, not a module", name,
                 bp_type_name(result.type_index));
  bp_value_clear(&result);
  return NULL;
}

BpModule *bp_target_build(BpIrModule *module, const BpTarget *target) {
  BpValue legal;
  if (!BP_GIVEN(module) || !BP_GIVEN(target))
    return NULL;
  if (call_by_name(LEGALIZE, 0, module, target, &legal) < 0)
    return NULL;
  int replaced = legal.type_index == BP_TYPE_IR_MODULE;
  BpModule *built = generate(replaced ? (BpIrModule *)(void *)legal.v_obj : module, target);
  bp_value_clear(&legal);
  return built;
}

/* ---- The plugins' table ------------------------------------------------------------------ */

static int32_t table_get_attr(const BpTarget *target, const char *name, BpValue *value) {
  return bp_target_get_attr(target, name, value);
}

static int32_t table_set_attr(BpTarget *target, const char *name, const BpValue *value) {
  if (!target->completing)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "attribute '%s' is set outside of the target kind's `complete`; targets "
                          "do not change",
                          name);
  return bp__target_set_value(target, name, value);
}

static const BpTargetTable table = {
    .struct_size = sizeof(BpTargetTable),
    .register_kind = bp__target_kind_register,
    .get_kind = bp_target_kind,
    .get_attr = table_get_attr,
    .set_attr = table_set_attr,
};

int bp__target_start(void) {
  return bp_host_add_table(BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION, &table);
}
