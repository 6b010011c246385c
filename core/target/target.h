/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of targets: kinds by name, and the target object. */
#ifndef BACKPLANE_CORE_TARGET_TARGET_H
#define BACKPLANE_CORE_TARGET_TARGET_H

#include "core/system/shared.h"

#include "core/registry/registration.h"

#include <backplane/target.h>

/* A target: its kind and a value for each of the kind's attributes, None if unset. */
struct BpTarget {
  BpObject header;
  const BpTargetKind *kind;
  int completing; /* during the kind's `complete`, where attributes may be set */
  BpValue values[];
};

/* Starts core/target. */
int bp__target_start(void);

/* Registers a kind, which must stay valid for ever, for the plugin that this thread initialises. It
 * is an error if the thread initialises no plugin, if the plugin does not declare the kind, or if
 * the name is taken. */
int bp__target_kind_register(const BpTargetKind *kind);
/* Removes the kinds of a plugin that failed. Any thread. */
void bp__target_kinds_withdraw(const Registration *registration);
/* Finds a kind and activates the plugin that declares it; NULL with an error that names the nearest
 * kind. */
BP__SHARED const BpTargetKind *bp__target_kind_find(const char *name);
/* Returns the index of the kind's attribute with a name, or -1. */
int32_t bp__target_attr_index(const BpTargetKind *kind, const char *name);

/* Makes a target with the kind's defaults (transfer full), not yet completed. */
BP__SHARED BpTarget *bp__target_create(const BpTargetKind *kind);
/* Sets an attribute from text, or from a value of a matching type; an unknown attribute or an
 * unsuitable value is an error that says which attributes or values are expected. */
BP__SHARED int bp__target_set_text(BpTarget *target, const char *name, const char *text);
BP__SHARED int bp__target_set_value(BpTarget *target, const char *name, const BpValue *value);
/* Checks that a number that the host's compiler reads is in its range; other numbers are not
 * checked. */
int bp__target_check_range(const BpTargetKind *kind, const char *name, int64_t value);

#endif
