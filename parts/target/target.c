/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: a kind with values for its attributes. */
#include "parts/target/target.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "core/registry/hints.h"
#include "core/registry/object.h"

/* ---- The object -------------------------------------------------------------------------- */

static void delete_target(void *object, int flags) {
  BpTarget *target = object;
  if (flags & BP_DELETER_STRONG)
    for (int32_t i = 0; i < target->kind->num_attrs; i++)
      bp_value_clear(&target->values[i]);
  if (flags & BP_DELETER_WEAK)
    free(target);
}

BpTarget *bp__target_create(const BpTargetKind *kind) {
  BpTarget *target = calloc(1, sizeof(*target) + (size_t)kind->num_attrs * sizeof(BpValue));
  if (!target) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a target");
    return NULL;
  }
  bp__object_init(&target->header, BP_TYPE_TARGET, delete_target);
  target->kind = kind;
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    if (attr->default_value && bp__target_set_text(target, attr->name, attr->default_value) < 0) {
      bp_error_add_context("default of '%s'", attr->name);
      bp_object_release(target);
      return NULL;
    }
  }
  return target;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int unknown_attr(const BpTargetKind *kind, const char *name) {
  char hint[BP_HINT_MAX];
  const char **names = calloc((size_t)kind->num_attrs + 1, sizeof(*names));
  for (int32_t i = 0; names && i < kind->num_attrs; i++)
    names[i] = bp_target_kind_attr(kind, i)->name;
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "target kind '%s' has no attribute '%s'%s; `backplane targets` lists them",
                 kind->name, name,
                 names ? bp__nearest_hint(name, names, (size_t)kind->num_attrs, hint) : "");
  free(names);
  return -1;
}

static int find_attr(const BpTarget *target, const char *name) {
  int32_t index = bp__target_attr_index(target->kind, name);
  return index < 0 ? unknown_attr(target->kind, name) : index;
}

static int wrong_type(const BpTargetKind *kind, int32_t index, const char *got) {
  const BpTargetAttr *attr = bp_target_kind_attr(kind, index);
  return bp_error_raise(BP_ERROR_TYPE,
                        "attribute '%s' of target kind '%s' is of type %s, and was "
                        "given %s",
                        attr->name, kind->name, bp_type_name(attr->type), got);
}

static int parse_bool(const char *text, int64_t *value) {
  static const char *const words[] = {"false", "true", "0", "1", "off", "on", "no", "yes"};
  for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
    if (strcmp(text, words[i]) == 0) {
      *value = (int64_t)(i & 1);
      return 0;
    }
  return -1;
}

/* Parses text as a value of `type` (owned); -1 without an error if the text is malformed. */
static int parse_value(int32_t type, const char *text, BpValue *value) {
  char *end = NULL;
  *value = (BpValue){.type_index = type};
  errno = 0;
  switch (type) {
  case BP_TYPE_INT:
    value->v_int64 = g_ascii_strtoll(text, &end, 10);
    return *text && !*end && !errno ? 0 : -1;
  case BP_TYPE_FLOAT:
    value->v_float64 = g_ascii_strtod(text, &end);
    return *text && !*end && !errno && isfinite(value->v_float64) ? 0 : -1;
  case BP_TYPE_BOOL:
    return parse_bool(text, &value->v_int64);
  default:
    *value = (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
    return 0;
  }
}

int bp__target_set_text(BpTarget *target, const char *name, const char *text) {
  int32_t index = find_attr(target, name);
  if (index < 0)
    return -1;
  BpValue value;
  if (parse_value(bp_target_kind_attr(target->kind, index)->type, text, &value) < 0) {
    char quoted[80];
    g_snprintf(quoted, sizeof(quoted), "'%s'", text);
    return wrong_type(target->kind, index, quoted);
  }
  return bp__target_set_value(target, name, &value);
}

int bp__target_set_value(BpTarget *target, const char *name, const BpValue *value) {
  int32_t index = find_attr(target, name);
  if (index < 0)
    return -1;
  int32_t type = bp_target_kind_attr(target->kind, index)->type;
  BpValue copy = {.type_index = BP_TYPE_NONE};
  BpByteArray text;
  if (type == BP_TYPE_STR) {
    if (bp_value_view_str(value, &text) < 0)
      return wrong_type(target->kind, index, bp_type_name(value->type_index));
    if (bp_value_make_str(&copy, text.data, text.size) < 0)
      return -1;
  } else if (value->type_index == type) {
    copy = *value;
  } else if (type == BP_TYPE_FLOAT && value->type_index == BP_TYPE_INT) {
    copy = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = (double)value->v_int64};
  } else if (value->type_index != BP_TYPE_NONE) {
    return wrong_type(target->kind, index, bp_type_name(value->type_index));
  }
  if (copy.type_index == BP_TYPE_INT && bp__target_check_range(target->kind, name, copy.v_int64))
    return -1;
  bp_value_clear(&target->values[index]);
  target->values[index] = copy;
  return 0;
}

int bp__target_get_attr(const BpTarget *target, const char *name, BpValue *value) {
  int32_t index = find_attr(target, name);
  if (index < 0)
    return -1;
  *value = target->values[index];
  return 0;
}
