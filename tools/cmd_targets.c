/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane targets`: for what code can be generated. */
#include "tools/command.h"

#include <stdio.h>

#include <backplane/object.h>
#include <backplane/target.h>

static const char *attr_default(const BpTargetAttr *attr) {
  return attr->default_value ? attr->default_value : "";
}

static void add_attr_json(JsonBuilder *builder, const BpTargetAttr *attr) {
  json_builder_begin_object(builder);
  json_add_str(builder, "name", attr->name);
  json_add_str(builder, "type", bp_type_name(attr->type));
  if (attr->default_value)
    json_add_str(builder, "default", attr->default_value);
  json_add_str(builder, "description", attr->description);
  json_builder_end_object(builder);
}

static void add_kind_json(JsonBuilder *builder, const char *name) {
  const BpTargetKind *kind = bp_target_kind_info(name);
  json_builder_begin_object(builder);
  json_add_str(builder, "kind", name);
  if (!kind) {
    json_add_str(builder, "reason", bp_error_message());
    bp_error_clear();
  } else {
    char device[64];
    bp_device_format((BpDevice){kind->device_type, 0}, device);
    json_add_str(builder, "device", device);
    json_add_str(builder, "description", kind->description);
    json_builder_set_member_name(builder, "attributes");
    json_builder_begin_array(builder);
    for (int32_t i = 0; i < kind->num_attrs; i++)
      add_attr_json(builder, &kind->attrs[i]);
    json_builder_end_array(builder);
  }
  json_builder_end_object(builder);
}

static void print_json(char *const *kinds) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_builder_set_member_name(builder, "targets");
  json_builder_begin_array(builder);
  for (char *const *name = kinds; *name; name++)
    add_kind_json(builder, *name);
  json_builder_end_array(builder);
  json_builder_end_object(builder);
  command_print_json(builder);
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
    const BpTargetAttr *attr = &kind->attrs[i];
    char *indented = g_strdup_printf("  %s", attr->name);
    table_add(table, indented, bp_type_name(attr->type), attr_default(attr), attr->description);
    g_free(indented);
  }
  table_print(table);
}

int cmd_targets(int argc, char **argv) {
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, NULL,
                     "Lists the target kinds of the installed plugins, with their attributes.",
                     "A target is written `kind -name=value ...` or as JSON, "
                     "{\"kind\":\"c\",\"mcpu\":\"x86-64-v3\"}."))
    return EXIT_USAGE;
  if (argc > 1)
    return command_usage_error("targets takes no argument, and got '%s'", argv[1]);
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
