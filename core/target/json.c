/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a target: one flat object, {"kind": "c", "mcpu": "x86-64-v3"}. */
#include "core/target/target.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* Nothing in a target nests, so json-glib, which recurses, never sees a document that does. */
static int check_flat(const char *text) {
  gboolean quoted = FALSE;
  for (const char *c = text + 1; *c; c++) {
    if (quoted && *c == '\\' && c[1])
      c++;
    else if (*c == '"')
      quoted = !quoted;
    else if (!quoted && (*c == '{' || *c == '['))
      return bp_error_raise(BP_ERROR_TYPE,
                            "a target's JSON is one flat object, and its byte %zu opens another "
                            "list or object",
                            (size_t)(c - text));
  }
  return 0;
}

static int apply_member(BpTarget *target, const char *name, JsonNode *node) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  GType type = JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : G_TYPE_NONE;
  if (type == G_TYPE_INT64) {
    value.type_index = BP_TYPE_INT;
    value.v_int64 = json_node_get_int(node);
  } else if (type == G_TYPE_BOOLEAN) {
    value.type_index = BP_TYPE_BOOL;
    value.v_int64 = json_node_get_boolean(node);
  } else if (type == G_TYPE_DOUBLE) {
    value.type_index = BP_TYPE_FLOAT;
    value.v_float64 = json_node_get_double(node);
  } else if (type == G_TYPE_STRING) {
    value.type_index = BP_TYPE_RAW_STR;
    value.v_cstr = json_node_get_string(node);
  }
  return bp__target_set_value(target, name, &value);
}

static int apply_members(BpTarget *target, JsonObject *object) {
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  json_object_iter_init_ordered(&iter, object);
  while (json_object_iter_next_ordered(&iter, &name, &node))
    if (strcmp(name, "kind") != 0 && apply_member(target, name, node) < 0)
      return -1;
  return 0;
}

static BpTarget *from_object(JsonObject *object) {
  JsonNode *name = json_object_get_member(object, "kind");
  if (!name || !JSON_NODE_HOLDS_VALUE(name) || json_node_get_value_type(name) != G_TYPE_STRING) {
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON needs a member \"kind\" with a string");
    return NULL;
  }
  const BpTargetKind *kind = bp__target_kind_find(json_node_get_string(name));
  BpTarget *target = kind ? bp__target_create(kind) : NULL;
  if (target && apply_members(target, object) < 0) {
    bp_object_release(target);
    return NULL;
  }
  return target;
}

BpTarget *bp__target_parse_json(const char *text) {
  if (check_flat(text) < 0)
    return NULL;
  JsonParser *parser = json_parser_new();
  GError *error = NULL;
  BpTarget *target = NULL;
  if (!json_parser_load_from_data(parser, text, -1, &error)) {
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON cannot be read: %s", error->message);
    g_error_free(error);
  } else if (!JSON_NODE_HOLDS_OBJECT(json_parser_get_root(parser))) {
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON is not an object");
  } else {
    target = from_object(json_node_get_object(json_parser_get_root(parser)));
  }
  g_object_unref(parser);
  return target;
}

static void add_value(JsonObject *object, const char *name, const BpValue *value) {
  BpByteArray text;
  if (value->type_index == BP_TYPE_INT) {
    json_object_set_int_member(object, name, value->v_int64);
  } else if (value->type_index == BP_TYPE_BOOL) {
    json_object_set_boolean_member(object, name, value->v_int64 != 0);
  } else if (value->type_index == BP_TYPE_FLOAT) {
    json_object_set_double_member(object, name, value->v_float64);
  } else if (bp_value_view_str(value, &text) == 0) {
    char *copy = g_strndup(text.data, text.size);
    json_object_set_string_member(object, name, copy);
    g_free(copy);
  }
}

char *bp_target_format_json(const BpTarget *target) {
  JsonObject *object = json_object_new();
  json_object_set_string_member(object, "kind", target->kind->name);
  for (int32_t i = 0; i < target->kind->num_attrs; i++)
    if (target->values[i].type_index != BP_TYPE_NONE)
      add_value(object, target->kind->attrs[i].name, &target->values[i]);
  JsonNode *root = json_node_alloc();
  json_node_init_object(root, object);
  char *text = json_to_string(root, FALSE);
  json_node_unref(root);
  json_object_unref(object);
  return text;
}
