/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds by name: plugins register them, and a look-up activates the plugin. */
#include "core/target/target.h"

#include <inttypes.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#include "core/registry/hints.h"
#include "core/registry/host.h"
#include "core/registry/installed.h"
#include "core/registry/names.h"
#include "core/system/lock.h"

#define MAX_KINDS 256

/* Guarded by BP__LOCK_STATE. */
static struct {
  const BpTargetKind *kinds[MAX_KINDS];
  const char *owners[MAX_KINDS]; /* names of the kinds' plugins, compared by address */
  size_t count;
} registered;

static const BpTargetKind *find_locked(const char *name) {
  for (size_t i = 0; i < registered.count; i++)
    if (strcmp(registered.kinds[i]->name, name) == 0)
      return registered.kinds[i];
  return NULL;
}

static const BpTargetKind *find_registered(const char *name) {
  bp__lock(BP__LOCK_STATE);
  const BpTargetKind *kind = find_locked(name);
  bp__unlock(BP__LOCK_STATE);
  return kind;
}

static int is_attr_type(int32_t type) {
  return type == BP_TYPE_INT || type == BP_TYPE_BOOL || type == BP_TYPE_FLOAT ||
         type == BP_TYPE_STR;
}

/* The size of an attribute in the first version that has a size. */
#define LEAST_ATTR (offsetof(BpTargetAttr, description) + sizeof(const char *))

/* A later version may use these members; 0 will mean that they are unused. */
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

/* An invalid kind is refused when it is registered, not at its first use. */
static int check_kind(const BpTargetKind *kind) {
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

/* A kind is registered by the plugin that has its code generator. */
static int check_plugin(const BpTargetKind *kind, const Registration *registration) {
  if (!registration)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "target kind \"%s\" comes too late: a plugin registers its kinds from "
                          "within its initialize()",
                          kind->name);
  if (!bp__words_have(registration->targets, kind->name))
    return bp_error_raise(BP_ERROR_VALUE,
                          "plugin \"%s\" registers the target kind \"%s\", which is not among the "
                          "`targets` of its descriptor; add it there",
                          registration->plugin, kind->name);
  return 0;
}

int bp__target_kind_register(const BpTargetKind *kind) {
  const Registration *registration = bp__registration_current();
  if (check_kind(kind) || check_plugin(kind, registration))
    return -1;
  bp__lock(BP__LOCK_STATE);
  int taken = find_locked(kind->name) != NULL;
  int full = registered.count == MAX_KINDS;
  if (!taken && !full) {
    registered.owners[registered.count] = registration->plugin;
    registered.kinds[registered.count++] = kind;
  }
  bp__unlock(BP__LOCK_STATE);
  if (taken)
    return bp_error_raise(BP_ERROR_VALUE, "target kind \"%s\" is registered already", kind->name);
  if (full)
    return bp_error_raise(BP_ERROR_MEMORY, "more than %d target kinds", MAX_KINDS);
  return 0;
}

void bp__target_kinds_withdraw(const Registration *registration) {
  size_t kept = 0;
  bp__lock(BP__LOCK_STATE);
  for (size_t i = 0; i < registered.count; i++) {
    if (registered.owners[i] == registration->plugin)
      continue;
    registered.owners[kept] = registered.owners[i];
    registered.kinds[kept++] = registered.kinds[i];
  }
  registered.count = kept;
  bp__unlock(BP__LOCK_STATE);
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

static int unknown_kind(const char *name) {
  size_t count = 0;
  char hint[BP_HINT_MAX];
  char **kinds = bp_target_kinds(&count);
  if (!kinds)
    return -1;
  char *why = bp_plugin_explain_absence(name);
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "no installed plugin has the target kind '%s'%s%s%s; `backplane targets` lists "
                 "those that are there",
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
  const BpTargetKind *kind = find_registered(name);
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

/* ---- Listing ----------------------------------------------------------------------------- */

static int add_registered(BpNames *names) {
  int status = 0;
  bp__lock(BP__LOCK_STATE);
  for (size_t i = 0; status == 0 && i < registered.count; i++)
    status = bp__names_add(names, registered.kinds[i]->name, strlen(registered.kinds[i]->name));
  bp__unlock(BP__LOCK_STATE);
  return status;
}

char **bp_target_kinds(size_t *count) {
  const Installed *installed = bp__installed();
  BpNames names = {.text = NULL};
  if (installed && installed->add_target_kinds(&names) == 0 && add_registered(&names) == 0)
    return bp__names_finish(&names, count);
  bp__names_clear(&names);
  return NULL;
}

const BpTargetKind *bp_target_kind_info(const char *kind) {
  return bp__target_kind_find(kind);
}
