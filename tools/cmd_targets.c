/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane targets`: lists the targets that code can be generated for. */
#include "tools/command.h"

#include <stdio.h>

#include <backplane/object.h>
#include <backplane/target.h>

static const char *attr_default(const BpTargetAttr *attr) {
  return attr->default_value ? attr->default_value : "";
}

static json_t *attr_json(const BpTargetAttr *attr) {
  json_t *object = json_object();
  json_add_str(object, "name", attr->name);
  json_add_str(object, "type", bp_type_name(attr->type));
  if (attr->default_value)
    json_add_str(object, "default", attr->default_value);
  json_add_str(object, "description", attr->description);
  return object;
}

static json_t *kind_json(const char *name) {
  const BpTargetKind *kind = bp_target_kind_info(name);
  json_t *object = json_object();
  json_add_str(object, "kind", name);
  if (!kind) {
    json_add_str(object, "reason", bp_error_message());
    bp_error_clear();
    return object;
  }
  char device[DEVICE_TEXT_MAX];
  json_t *attrs = json_array();
  bp_device_format((BpDevice){kind->device_type, 0}, device, sizeof device);
  json_add_str(object, "device", device);
  json_add_str(object, "description", kind->description);
  for (int32_t i = 0; i < kind->num_attrs; i++)
    json_append(attrs, attr_json(bp_target_kind_attr(kind, i)));
  json_add(object, "attributes", attrs);
  return object;
}

static void print_json(char *const *kinds) {
  json_t *root = json_object(), *targets = json_array();
  for (char *const *name = kinds; *name; name++)
    json_append(targets, kind_json(*name));
  json_add(root, "targets", targets);
  command_print_json(root);
}

static void print_kind(const char *name) {
  static const char *const headers[] = {"  ATTRIBUTE", "TYPE", "DEFAULT", "ABOUT", NULL};
  const BpTargetKind *kind = bp_target_kind_info(name);
  if (!kind) {
    command_print(command_out(), "%s: cannot be used: %s\n", name, bp_error_message());
    bp_error_clear();
    return;
  }
  command_print(command_out(), "%s: %s\n", name, kind->description);
  Table *table = table_new(headers);
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    char *indented = g_strdup_printf("  %s", attr->name);
    table_add(table, indented, bp_type_name(attr->type), attr_default(attr), attr->description);
    g_free(indented);
  }
  table_print(table);
}

static int list_targets(gboolean json) {
  char **kinds = bp_target_kinds(NULL);
  if (!kinds)
    return command_fail(json);
  if (json)
    print_json(kinds);
  else
    for (char **name = kinds; *name; name++)
      print_kind(*name);
  if (!json && !*kinds)
    fputs("No installed plugin generates code; backplane-plugin-cpu is one that does.\n",
          command_out());
  bp_names_free(kinds);
  return EXIT_OK;
}

/* Shows one kind; an unknown kind is an error. */
static int show_target(const char *name, gboolean json) {
  char *const kinds[] = {(char *)name, NULL};
  if (!bp_target_kind_info(name))
    return command_fail(json);
  if (json)
    print_json(kinds);
  else
    print_kind(name);
  return EXIT_OK;
}

int cmd_targets(int argc, char **argv) {
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, "[KIND]",
                     "Lists the target kinds of the installed plugins, or one of them, with their "
                     "attributes.",
                     "A target is written `kind -name=value ...` or as JSON, "
                     "{\"kind\":\"c\",\"mcpu\":\"x86-64-v3\"}."))
    return EXIT_USAGE;
  if (argc > 2)
    return command_usage_error("targets takes one kind at most, and got '%s' too", argv[2]);
  return argc == 2 ? show_target(argv[1], json) : list_targets(json);
}
