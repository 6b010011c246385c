/* SPDX-License-Identifier: Apache-2.0 */
/* Making targets of text and for devices, code generation through the registry, and the part's
 * table. */
#include "parts/target/target.h"

#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "core/registry/object.h"
#include "core/registry/part.h"

#define MAX_TEXT        65536
#define DEVICE_TEXT_MAX 268 /* a kind of 255 bytes, a colon, an index and a NUL */

/* ---- Text -------------------------------------------------------------------------------- */

/* Calls the kind's `complete`, which checks the target and sets dependent attributes. */
static int complete(BpTarget *target) {
  if (!BP_TABLE_HAS(target->kind, complete))
    return 0;
  target->completing = 1;
  int status = target->kind->complete(target->kind->context, target);
  target->completing = 0;
  return status < 0 ? bp_error_add_context("target '%s'", target->kind->name) : 0;
}

/* Parses either text form, which is untrusted. */
static BpTarget *parse(const char *text) {
  if (strnlen(text, MAX_TEXT) == MAX_TEXT) {
    bp_error_raise(BP_ERROR_VALUE, "a target's text is longer than %d bytes", MAX_TEXT);
    return NULL;
  }
  const char *start = text + strspn(text, SPACE);
  BpTarget *target = *start == '{' ? bp__target_parse_json(start) : bp__target_parse_options(start);
  if (target && complete(target) < 0) {
    bp_object_release(target);
    return NULL;
  }
  return target;
}

/* ---- Reading ----------------------------------------------------------------------------- */

static int64_t get_int(const BpTarget *target, const char *name, int64_t otherwise) {
  int32_t index = bp__target_attr_index(target->kind, name);
  if (index < 0)
    return otherwise;
  const BpValue *value = &target->values[index];
  return value->type_index == BP_TYPE_INT || value->type_index == BP_TYPE_BOOL ? value->v_int64
                                                                               : otherwise;
}

static BpTarget *from_device(BpDevice device) {
  BpValue text = {.type_index = BP_TYPE_NONE};
  BpByteArray view;
  char name[DEVICE_TEXT_MAX];
  if (bp_device_get_attr(device, BP_ATTR_TARGET, &text) < 0)
    return NULL;
  bp_device_format(device, name, sizeof name);
  if (text.type_index == BP_TYPE_NONE) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "%s does not say what target fits it; name one", name);
    return NULL;
  }
  BpTarget *target = NULL;
  if (bp_value_view_str(&text, &view) == 0) {
    char *copy = g_strndup(view.data, view.size);
    target = parse(copy);
    g_free(copy);
  }
  bp_value_clear(&text);
  if (!target)
    bp_error_add_context("target of %s", name);
  return target;
}

/* ---- Building ---------------------------------------------------------------------------- */

/* The compiler library registers compiler.legalize; without it the generator gets modules
 * unchanged. */
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

static BpModule *build(BpIrModule *module, const BpTarget *target) {
  BpValue legal;
  if (call_by_name(LEGALIZE, 0, module, target, &legal) < 0)
    return NULL;
  int replaced = legal.type_index == BP_TYPE_IR_MODULE;
  BpModule *built = generate(replaced ? (BpIrModule *)(void *)legal.v_obj : module, target);
  bp_value_clear(&legal);
  return built;
}

static int set_attr(BpTarget *target, const char *name, const BpValue *value) {
  if (!target->completing)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "attribute '%s' is set outside of the target kind's `complete`; targets "
                          "do not change",
                          name);
  return bp__target_set_value(target, name, value);
}

static const TargetPart part = {
    .check_kind = bp__target_check_kind,
    .list_kinds = bp__target_list_kinds,
    .find_kind = bp__target_kind_find,
    .parse = parse,
    .from_device = from_device,
    .format_options = bp__target_format_options,
    .format_json = bp__target_format_json,
    .get_attr = bp__target_get_attr,
    .get_int = get_int,
    .set_attr = set_attr,
    .build = build,
};

BP__PART(BP_PART_TARGET, part);
