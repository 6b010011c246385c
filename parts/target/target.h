/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of targets. */
#ifndef BACKPLANE_PARTS_TARGET_TARGET_H
#define BACKPLANE_PARTS_TARGET_TARGET_H

#include "core/target/target.h"

/* Separators of words. The text forms are independent of the locale, because a target's text is
 * stored in artifacts. */
#define SPACE " \t\n\v\f\r"

/* Checks a kind and its defaults. */
int bp__target_check_kind(const BpTargetKind *kind);
/* Finds a kind and activates the plugin that declares it; NULL with an error that names the nearest
 * kind. */
const BpTargetKind *bp__target_kind_find(const char *name);
/* bp_target_kinds. */
char **bp__target_list_kinds(size_t *count);
/* Returns the index of the kind's attribute with a name, or -1. */
int32_t bp__target_attr_index(const BpTargetKind *kind, const char *name);

/* Makes a target with the kind's defaults (transfer full), not yet completed. */
BpTarget *bp__target_create(const BpTargetKind *kind);
/* Sets an attribute from text, or from a value of a matching type; an unknown attribute or an
 * unsuitable value is an error that says which attributes or values are expected. */
int bp__target_set_text(BpTarget *target, const char *name, const char *text);
int bp__target_set_value(BpTarget *target, const char *name, const BpValue *value);
/* bp_target_get_attr. */
int bp__target_get_attr(const BpTarget *target, const char *name, BpValue *value);
/* Checks that a number that the host's compiler reads is in its range; other numbers are not
 * checked. */
int bp__target_check_range(const BpTargetKind *kind, const char *name, int64_t value);

/* Parse and format the two text forms: a kind with options, `c -mcpu=x86-64-v3`, and an object in
 * JSON. A parsed target is not yet completed. */
BpTarget *bp__target_parse_options(const char *text);
BpTarget *bp__target_parse_json(const char *text);
char *bp__target_format_options(const BpTarget *target);
char *bp__target_format_json(const BpTarget *target);

#endif
