/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds, and the table of parts/target, the part of the core for targets. */
#ifndef BACKPLANE_CORE_TARGET_TARGET_H
#define BACKPLANE_CORE_TARGET_TARGET_H

#include "core/system/shared.h"

#include "core/registry/names.h"
#include "core/registry/registration.h"

#include <backplane/target.h>

/* A target: its kind and a value for each of the kind's attributes, None if unset. */
struct BpTarget {
  BpObject header;
  const BpTargetKind *kind;
  int completing; /* whether the kind's `complete` runs, which may set attributes */
  BpValue values[];
};

/* The part's table: functions of <backplane/target.h>, whose required pointers were checked. */
typedef struct TargetPart {
  /* Checks a kind that a plugin registers. */
  int (*check_kind)(const BpTargetKind *kind);
  char **(*list_kinds)(size_t *count);
  const BpTargetKind *(*find_kind)(const char *name);
  BpTarget *(*parse)(const char *text);
  BpTarget *(*from_device)(BpDevice device);
  char *(*format_options)(const BpTarget *target);
  char *(*format_json)(const BpTarget *target);
  int (*get_attr)(const BpTarget *target, const char *name, BpValue *value);
  int64_t (*get_int)(const BpTarget *target, const char *name, int64_t otherwise);
  /* The slot of BpTargetTable. */
  int (*set_attr)(BpTarget *target, const char *name, const BpValue *value);
  BpModule *(*build)(BpIrModule *module, const BpTarget *target);
} TargetPart;

/* Starts core/target. */
int bp__target_start(void);

/* Removes the kinds of a plugin that failed. Any thread. */
BP__SHARED void bp__target_kinds_withdraw(const Registration *registration);
/* Returns the registered kind with a name, or NULL. */
BP__SHARED const BpTargetKind *bp__target_kind_registered(const char *name);
/* Adds the names of the registered kinds. 0, or -1 with an error. */
BP__SHARED int bp__target_add_registered(BpNames *names);

#endif
