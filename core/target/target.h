/* SPDX-License-Identifier: Apache-2.0 */
/* Targets inside: kinds by name, and the target object. */
#ifndef BACKPLANE_CORE_TARGET_TARGET_H
#define BACKPLANE_CORE_TARGET_TARGET_H

#include "core/registry/registration.h"

#include <backplane/target.h>

/* A target: its kind and a value for each of the kind's attributes, None where unset. */
struct BpTarget {
  BpObject header;
  const BpTargetKind *kind;
  int completing; /* within the kind's `complete`, where attributes may be set */
  BpValue values[];
};

/* The start of this room. */
int bp__target_start(void);

/* Registers a kind, which lives for ever, of the plugin that this thread initialises. An error: it
 * initialises none, its plugin does not declare the kind, or the name is taken. */
int bp__target_kind_register(const BpTargetKind *kind);
/* Removes the kinds of a plugin that failed. Any thread. */
void bp__target_kinds_withdraw(const Registration *registration);
/* Finds a kind, activating the plugin that declares it; NULL with an error that names the nearest.
 */
const BpTargetKind *bp__target_kind_find(const char *name);
/* The kind's attribute of that name, or -1. */
int32_t bp__target_attr_index(const BpTargetKind *kind, const char *name);

/* A target with the kind's defaults (transfer full), not yet completed. */
BpTarget *bp__target_create(const BpTargetKind *kind);
/* Sets an attribute from text, or from a value of a type that fits; an unknown one or one that does
 * not fit is an error that says what does. */
int bp__target_set_text(BpTarget *target, const char *name, const char *text);
int bp__target_set_value(BpTarget *target, const char *name, const BpValue *value);
/* A number that the host's compiler reads is one that it can use; others may be any. */
int bp__target_check_range(const BpTargetKind *kind, const char *name, int64_t value);
/* Lets the kind check the target and fill in the rest. */
int bp__target_complete(BpTarget *target);

/* Reads the JSON form (transfer full). Untrusted input. */
BpTarget *bp__target_parse_json(const char *text);

#endif
