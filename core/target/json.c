/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a target: one flat object, {"kind": "c", "mcpu": "x86-64-v3"}. */
#include "core/target/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <jansson.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* ---- Reading ----------------------------------------------------------------------------- */

static int apply_member(BpTarget *target, const char *name, const json_t *member) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (json_is_object(member) || json_is_array(member))
    return bp_error_raise(BP_ERROR_TYPE,
                          "a target's JSON is one flat object, and its member \"%s\" is another "
                          "list or object",
                          name);
  if (json_is_integer(member)) {
    value.type_index = BP_TYPE_INT;
    value.v_int64 = json_integer_value(member);
  } else if (json_is_boolean(member)) {
    value.type_index = BP_TYPE_BOOL;
    value.v_int64 = json_is_true(member);
  } else if (json_is_real(member)) {
    value.type_index = BP_TYPE_FLOAT;
    value.v_float64 = json_real_value(member);
  } else if (json_is_string(member)) {
    value.type_index = BP_TYPE_RAW_STR;
    value.v_cstr = json_string_value(member);
  }
  return bp__target_set_value(target, name, &value);
}

/* Applies the members in order and removes them. json_object_iter_next, which walks an object, is
 * also a function of json-glib, and in a program that links json-glib it is the other one. */
static int apply_members(BpTarget *target, json_t *object) {
  void *first;
  while ((first = json_object_iter(object))) {
    const char *name = json_object_iter_key(first);
    if (strcmp(name, "kind") != 0 && apply_member(target, name, json_object_iter_value(first)) < 0)
      return -1;
    json_object_del(object, name);
  }
  return 0;
}

static BpTarget *from_object(json_t *object) {
  const char *name = json_string_value(json_object_get(object, "kind"));
  if (!name) {
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON needs a member \"kind\" with a string");
    return NULL;
  }
  const BpTargetKind *kind = bp__target_kind_find(name);
  BpTarget *target = kind ? bp__target_create(kind) : NULL;
  if (target && apply_members(target, object) < 0) {
    bp_object_release(target);
    return NULL;
  }
  return target;
}

BpTarget *bp__target_parse_json(const char *text) {
  json_error_t error;
  errno = 0; /* jansson reports some failed allocations as bad tokens */
  json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  BpTarget *target = NULL;
  if (document)
    target = from_object(document);
  else if (errno == ENOMEM)
    bp_error_raise(BP_ERROR_MEMORY, "no memory to read a target's JSON");
  else
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON cannot be read: line %d, column %d: %s",
                   error.line, error.column, error.text);
  json_decref(document);
  return target;
}

/* ---- Writing ----------------------------------------------------------------------------- */

static json_t *make_member(const BpValue *value) {
  BpByteArray text;
  switch (value->type_index) {
  case BP_TYPE_INT:
    return json_integer(value->v_int64);
  case BP_TYPE_BOOL:
    return json_boolean(value->v_int64);
  case BP_TYPE_FLOAT:
    return json_real(value->v_float64);
  default:
    return bp_value_view_str(value, &text) < 0 ? NULL : json_stringn(text.data, text.size);
  }
}

static int add_member(json_t *object, const char *name, const BpValue *value) {
  BpByteArray text;
  if (json_object_set_new(object, name, make_member(value)) == 0)
    return 0;
  if (value->type_index != BP_TYPE_FLOAT && bp_value_view_str(value, &text) == 0 &&
      !g_utf8_validate_len(text.data, text.size, NULL))
    return bp_error_raise(BP_ERROR_VALUE, "the attribute %s is not UTF-8, as JSON is", name);
  return bp_error_raise(BP_ERROR_MEMORY, "no memory for a target's JSON");
}

static int add_members(json_t *object, const BpTarget *target) {
  const BpTargetKind *kind = target->kind;
  const BpValue name = {.type_index = BP_TYPE_RAW_STR, .v_cstr = kind->name};
  if (add_member(object, "kind", &name) < 0)
    return -1;
  for (int32_t i = 0; i < kind->num_attrs; i++)
    if (target->values[i].type_index != BP_TYPE_NONE &&
        add_member(object, bp_target_kind_attr(kind, i)->name, &target->values[i]) < 0)
      return -1;
  return 0;
}

/* Not json_dumps: the application may have given jansson another allocator, and bp_str_free would
 * not match it. */
static char *dump(const json_t *object) {
  size_t size = json_dumpb(object, NULL, 0, JSON_COMPACT);
  char *text = size ? malloc(size + 1) : NULL;
  if (!text || json_dumpb(object, text, size, JSON_COMPACT) != size) {
    free(text);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a target's JSON");
    return NULL;
  }
  text[size] = '\0';
  return text;
}

char *bp_target_format_json(const BpTarget *target) {
  json_t *object = json_object();
  char *text = add_members(object, target) == 0 ? dump(object) : NULL;
  json_decref(object);
  return text;
}
