/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds: checking them, and finding them by name, which activates their plugins. */
#include "parts/target/target.h"

#include <inttypes.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#include "core/registry/hints.h"
#include "core/registry/installed.h"

static int is_attr_type(int32_t type) {
  return type == BP_TYPE_INT || type == BP_TYPE_BOOL || type == BP_TYPE_FLOAT ||
         type == BP_TYPE_STR;
}

/* The size of an attribute in the first version that has a size. */
#define LEAST_ATTR (offsetof(BpTargetAttr, description) + sizeof(const char *))

/* A later version may use the reserved members; 0 will mean that they are unused. */
static int check_reserved(const BpTargetKind *kind) {
  int32_t at = 0;
  while (at < kind->num_attrs && !bp_target_kind_attr(kind, at)->reserved)
    at++;
  if (!kind->reserved && at >= kind->num_attrs)
    return 0;
  return bp_error_raise(
      BP_ERROR_VALUE, "target kind \"%s\" has %d in `reserved` of %s, which has to be 0",
      kind->name, kind->reserved ? kind->reserved : bp_target_kind_attr(kind, at)->reserved,
      kind->reserved ? "the kind" : "an attribute");
}

int bp__target_check_kind(const BpTargetKind *kind) {
  if (!BP_TABLE_HAS(kind, description) || (kind->num_attrs > 0 && !kind->attrs) || !*kind->name)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a target kind needs a name, attributes and a description");
  if (kind->num_attrs && kind->attr_size < LEAST_ATTR)
    return bp_error_raise(BP_ERROR_VALUE,
                          "target kind \"%s\" has an attr_size of %" PRIu64 "; set it to "
                          "sizeof(BpTargetAttr), here %zu",
                          kind->name, kind->attr_size, sizeof(BpTargetAttr));
  if (check_reserved(kind))
    return -1;
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    if (!attr->name || !*attr->name || !strcmp(attr->name, "kind") || !is_attr_type(attr->type) ||
        bp__target_attr_index(kind, attr->name) != i)
      return bp_error_raise(BP_ERROR_VALUE,
                            "attribute %d of target kind \"%s\" has no name of its own, or a type "
                            "that is not int, bool, float or str",
                            i, kind->name);
  }
  BpTarget *target = bp__target_create(kind); /* checks the defaults */
  bp_object_release(target);
  return target ? 0 : -1;
}

/* Looking up the code generator's name activates its plugin. */
static int activate(const char *name) {
  char function_name[128];
  BpFunction *function = NULL;
  if (strlen(name) > 64)
    return 0;
  stpcpy(stpcpy(function_name, "target.build."), name);
  if (bp_registry_get(function_name, &function) < 0)
    return bp_error_add_context("target kind '%s'", name);
  bp_object_release(function);
  return 0;
}

char **bp__target_list_kinds(size_t *count) {
  const Installed *installed = bp__installed();
  BpNames names = {.text = NULL};
  if (installed && installed->add_target_kinds(&names) == 0 &&
      bp__target_add_registered(&names) == 0)
    return bp__names_finish(&names, count);
  bp__names_clear(&names);
  return NULL;
}

static int unknown_kind(const char *name) {
  size_t count = 0;
  char hint[BP_HINT_MAX];
  char **kinds = bp__target_list_kinds(&count);
  if (!kinds)
    return -1;
  char *why = bp_plugin_explain_absence(name);
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "no installed plugin has the target kind '%s'%s%s%s; `backplane targets` lists "
                 "the installed ones",
                 name, bp__nearest_hint(name, (const char *const *)kinds, count, hint),
                 *why ? "; " : "", why);
  bp_str_free(why);
  bp_names_free(kinds);
  return -1;
}

/* The generator is looked up even if the kind is known, because its plugin may still be
 * initialising. */
const BpTargetKind *bp__target_kind_find(const char *name) {
  if (activate(name) < 0)
    return NULL;
  const BpTargetKind *kind = bp__target_kind_registered(name);
  if (!kind)
    unknown_kind(name);
  return kind;
}

int32_t bp__target_attr_index(const BpTargetKind *kind, const char *name) {
  for (int32_t i = 0; i < kind->num_attrs; i++)
    if (strcmp(bp_target_kind_attr(kind, i)->name, name) == 0)
      return i;
  return -1;
}
