/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane list`: what is installed, from the descriptors alone; with --probe the devices too. */
#include "tools/command.h"

#include <stdio.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

/* ---- Devices ------------------------------------------------------------------------------------
 */

/* One row: a device, or a kind without one. */
typedef struct DeviceRow {
  const char *kind;
  char device[64]; /* "opencl:0"; "" when the kind has none */
  const char *name;
  const char *why; /* there is no device or no name, or "" */
} DeviceRow;

typedef void (*DeviceVisitor)(void *context, const DeviceRow *row);

static void visit_device(BpDevice device, DeviceRow *row, DeviceVisitor visit, void *context) {
  BpValue name = {.type_index = BP_TYPE_NONE};
  char *text = NULL;
  bp_device_format(device, row->device);
  if (bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &name) == 0)
    text = value_to_text(&name);
  row->name = text;
  row->why = text ? "" : bp_error_message();
  visit(context, row);
  bp_error_clear();
  bp_value_clear(&name);
  g_free(text);
}

/* Visits every device of the kind, or once, with why there is none. */
static void visit_kind(const char *kind, DeviceVisitor visit, void *context) {
  DeviceRow row = {.kind = kind, .why = ""};
  BpDevice device;
  int32_t count = 0;
  int failed = bp_device_parse(kind, &device) < 0 ||
               bp_device_count(device.device_type, &count, &row.why) < 0;
  if (failed)
    row.why = bp_error_message();
  if (count == 0)
    visit(context, &row);
  bp_error_clear();
  for (device.device_id = 0; device.device_id < count; device.device_id++)
    visit_device(device, &row, visit, context);
}

static void print_device(void *context, const DeviceRow *row) {
  table_add(context, *row->device ? row->device : row->kind, row->name ? row->name : "none",
            row->why);
}

static void print_devices(char *const *kinds) {
  static const char *const headers[] = {"DEVICE", "NAME", "REASON", NULL};
  Table *table = table_new(headers);
  for (; *kinds; kinds++)
    visit_kind(*kinds, print_device, table);
  putchar('\n');
  table_print(table);
}

static void add_device_json(void *context, const DeviceRow *row) {
  JsonBuilder *builder = context;
  json_builder_begin_object(builder);
  json_add_str(builder, "kind", row->kind);
  if (*row->device)
    json_add_str(builder, "device", row->device);
  if (row->name)
    json_add_str(builder, "name", row->name);
  if (*row->why)
    json_add_str(builder, "reason", row->why);
  json_builder_end_object(builder);
}

static void add_devices_json(JsonBuilder *builder, char *const *kinds) {
  json_builder_set_member_name(builder, "devices");
  json_builder_begin_array(builder);
  for (; *kinds; kinds++)
    visit_kind(*kinds, add_device_json, builder);
  json_builder_end_array(builder);
}

/* ---- Plugins ------------------------------------------------------------------------------------
 */

static void add_plugin_json(JsonBuilder *builder, const BpPluginInfo *info) {
  json_builder_begin_object(builder);
  json_add_str(builder, "name", info->name);
  json_add_str(builder, "version", info->version);
  json_add_str(builder, "state", bp_plugin_state_name(info->state));
  json_add_str(builder, "reason", info->reason);
  json_add_str(builder, "path", info->path);
  json_add_str(builder, "abi", info->abi);
  json_add_str(builder, "license", info->license);
  json_add_str(builder, "description", info->description);
  json_add_words(builder, "devices", info->devices);
  json_add_words(builder, "targets", info->targets);
  json_add_words(builder, "provides", info->provides);
  json_add_words(builder, "libraries", info->libraries);
  json_builder_end_object(builder);
}

/* `kinds`: those whose devices are shown, or NULL. */
static void print_json(const BpPluginList *list, char *const *kinds) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_builder_set_member_name(builder, "plugins");
  json_builder_begin_array(builder);
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    add_plugin_json(builder, bp_plugin_list_get(list, i));
  json_builder_end_array(builder);
  if (kinds)
    add_devices_json(builder, kinds);
  json_builder_end_object(builder);
  command_print_json(builder);
}

static void print_text(const BpPluginList *list, char *const *kinds) {
  static const char *const headers[] = {"PLUGIN",  "VERSION", "STATE", "DEVICES",
                                        "TARGETS", "ABOUT",   NULL};
  if (bp_plugin_list_size(list) == 0)
    puts("No plugins are installed. Each backend is a package of its own, as "
         "backplane-plugin-cpu;\nBACKPLANE_PLUGIN_PATH names further folders to look in.");
  else {
    Table *table = table_new(headers);
    for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
      const BpPluginInfo *info = bp_plugin_list_get(list, i);
      table_add(table, *info->name ? info->name : info->path, info->version,
                bp_plugin_state_name(info->state), info->devices, info->targets,
                *info->reason ? info->reason : info->description);
    }
    table_print(table);
  }
  if (kinds)
    print_devices(kinds);
}

static int list_plugins(gboolean json, gboolean probe) {
  BpPluginList *list = bp_plugin_list();
  char **kinds = list && probe ? bp_device_kinds(NULL) : NULL;
  int is_complete = list && (kinds || !probe);
  if (is_complete && json)
    print_json(list, kinds);
  else if (is_complete)
    print_text(list, kinds);
  bp_names_free(kinds);
  bp_plugin_list_free(list);
  return is_complete ? EXIT_OK : command_fail(json);
}

int cmd_list(int argc, char **argv) {
  gboolean json = FALSE, probe = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {"probe", 0, 0, G_OPTION_ARG_NONE, &probe, "load the plugins and list their devices", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, NULL,
                     "Lists the plugins on the search path from their descriptors; none is loaded.",
                     NULL))
    return EXIT_USAGE;
  if (argc > 1)
    return command_usage_error("list takes no argument, and got '%s'", argv[1]);
  return list_plugins(json, probe);
}
