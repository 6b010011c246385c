/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of targets that plugins register. Targets themselves are in the part parts/target,
 * which an application that only runs models does not load. */
#include "core/target/target.h"

#include <string.h>

#include <backplane/error.h>
#include <backplane/plugins.h>

#include "core/registry/argument.h"
#include "core/registry/host.h"
#include "core/registry/part.h"
#include "core/system/lock.h"

#define MAX_KINDS 256

/* ---- Registered kinds -------------------------------------------------------------------- */

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

const BpTargetKind *bp__target_kind_registered(const char *name) {
  bp__lock(BP__LOCK_STATE);
  const BpTargetKind *kind = find_locked(name);
  bp__unlock(BP__LOCK_STATE);
  return kind;
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

/* An invalid kind is refused at its registration, not at its first use. The kinds of a plugin that
 * passed its trial were checked in the trial. */
static int check_kind(const BpTargetKind *kind, const Registration *registration) {
  if (registration && registration->was_tried)
    return 0;
  const TargetPart *part = bp__part_table(BP_PART_TARGET);
  return part ? part->check_kind(kind) : -1;
}

static int register_kind(const BpTargetKind *kind) {
  if (!BP_NOT_NULL(kind))
    return -1;
  const Registration *registration = bp__registration_current();
  if (check_kind(kind, registration) || check_plugin(kind, registration))
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

int bp__target_add_registered(BpNames *names) {
  int status = 0;
  bp__lock(BP__LOCK_STATE);
  for (size_t i = 0; status == 0 && i < registered.count; i++)
    status = bp__names_add(names, registered.kinds[i]->name, strlen(registered.kinds[i]->name));
  bp__unlock(BP__LOCK_STATE);
  return status;
}

/* ---- Targets ----------------------------------------------------------------------------- */

char **bp_target_kinds(size_t *count) {
  const TargetPart *part = bp__part_table(BP_PART_TARGET);
  return part ? part->list_kinds(count) : NULL;
}

const BpTargetKind *bp_target_kind_info(const char *kind) {
  const TargetPart *part = BP_NOT_NULL(kind) ? bp__part_table(BP_PART_TARGET) : NULL;
  return part ? part->find_kind(kind) : NULL;
}

BpTarget *bp_target_parse(const char *text) {
  const TargetPart *part =
      BP_NOT_NULL(text) && !bp__core_start() ? bp__part_table(BP_PART_TARGET) : NULL;
  return part ? part->parse(text) : NULL;
}

BpTarget *bp_target_from_device(BpDevice device) {
  const TargetPart *part = bp__part_table(BP_PART_TARGET);
  return part ? part->from_device(device) : NULL;
}

char *bp_target_format(const BpTarget *target) {
  const TargetPart *part = BP_NOT_NULL(target) ? bp__part_table(BP_PART_TARGET) : NULL;
  return part ? part->format_options(target) : NULL;
}

char *bp_target_format_json(const BpTarget *target) {
  const TargetPart *part = BP_NOT_NULL(target) ? bp__part_table(BP_PART_TARGET) : NULL;
  return part ? part->format_json(target) : NULL;
}

const char *bp_target_kind(const BpTarget *target) {
  return BP_NOT_NULL(target) ? target->kind->name : NULL;
}

int32_t bp_target_device_type(const BpTarget *target) {
  return BP_NOT_NULL(target) ? target->kind->device_type : -1;
}

int bp_target_get_attr(const BpTarget *target, const char *name, BpValue *value) {
  if (!BP_NOT_NULL(target) || !BP_NOT_NULL(name) || !BP_NOT_NULL(value))
    return -1;
  const TargetPart *part = bp__part_table(BP_PART_TARGET);
  return part ? part->get_attr(target, name, value) : -1;
}

int64_t bp_target_get_int(const BpTarget *target, const char *name, int64_t otherwise) {
  const TargetPart *part = target && name ? bp__part_loaded(BP_PART_TARGET) : NULL;
  return part ? part->get_int(target, name, otherwise) : otherwise;
}

static int set_attr(BpTarget *target, const char *name, const BpValue *value) {
  const TargetPart *part = BP_NOT_NULL(target) && BP_NOT_NULL(name) && BP_NOT_NULL(value)
                               ? bp__part_table(BP_PART_TARGET)
                               : NULL;
  return part ? part->set_attr(target, name, value) : -1;
}

BpModule *bp_target_build(BpIrModule *module, const BpTarget *target) {
  const TargetPart *part =
      BP_NOT_NULL(module) && BP_NOT_NULL(target) ? bp__part_table(BP_PART_TARGET) : NULL;
  return part ? part->build(module, target) : NULL;
}

int bp__target_start(void) {
  static const BpTargetTable table = {
      .struct_size = sizeof(BpTargetTable),
      .register_kind = register_kind,
      .get_kind = bp_target_kind,
      .get_attr = bp_target_get_attr,
      .set_attr = set_attr,
  };
  return bp_host_add_table(BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION, &table);
}
