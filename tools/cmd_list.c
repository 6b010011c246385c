/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane list`: what is installed, from the descriptors alone; with --probe the devices too. */
#include "tools/command.h"

#include <stdio.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

static const char *const state_names[] = {"found", "active", "failed", "rejected", "shadowed"};

static const char *state_name(int32_t state) {
  return state >= 0 && state < (int32_t)G_N_ELEMENTS(state_names) ? state_names[state] : "unknown";
}

/* ---- Devices ------------------------------------------------------------------------------------
 */

typedef void (*DeviceVisitor)(void *context, BpDevice device, const char *name, const char *why);

static void visit_device(BpDevice device, DeviceVisitor visit, void *context) {
  BpValue name = {.type_index = BP_TYPE_NONE};
  if (bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &name) < 0) {
    visit(context, device, NULL, bp_error_message());
    bp_error_clear();
    return;
  }
  char *text = value_to_text(&name);
  visit(context, device, text, NULL);
  g_free(text);
  bp_value_clear(&name);
}

/* Visits every device of the kind, or once, with why there is none and a negative index. */
static void visit_kind(const char *kind, DeviceVisitor visit, void *context) {
  BpDevice device;
  int32_t count = 0;
  const char *why = "";
  if (bp_device_parse(kind, &device) < 0 || bp_device_count(device.device_type, &count, &why) < 0) {
    visit(context, (BpDevice){0, -1}, NULL, bp_error_message());
    bp_error_clear();
    return;
  }
  if (count == 0)
    visit(context, (BpDevice){device.device_type, -1}, NULL, why);
  for (device.device_id = 0; device.device_id < count; device.device_id++)
    visit_device(device, visit, context);
}

static void print_device(void *context, BpDevice device, const char *name, const char *why) {
  char text[64];
  bp_device_format(device, text);
  table_add(context, device.device_id < 0 ? "-" : text, name ? name : "none",
            why && *why ? why : "");
}

static void print_devices(void) {
  static const char *const headers[] = {"DEVICE", "NAME", "REASON", NULL};
  Table *table = table_new(headers);
  char **kinds = bp_device_kinds(NULL);
  for (char **kind = kinds; kind && *kind; kind++)
    visit_kind(*kind, print_device, table);
  bp_names_free(kinds);
  putchar('\n');
  table_print(table);
}

static void add_device_json(void *context, BpDevice device, const char *name, const char *why) {
  JsonBuilder *builder = context;
  char text[64];
  bp_device_format(device, text);
  json_builder_begin_object(builder);
  if (device.device_id >= 0)
    json_add_str(builder, "device", text);
  if (name)
    json_add_str(builder, "name", name);
  if (why && *why)
    json_add_str(builder, "reason", why);
  json_builder_end_object(builder);
}

static void add_devices_json(JsonBuilder *builder) {
  json_builder_set_member_name(builder, "devices");
  json_builder_begin_array(builder);
  char **kinds = bp_device_kinds(NULL);
  for (char **kind = kinds; kind && *kind; kind++)
    visit_kind(*kind, add_device_json, builder);
  bp_names_free(kinds);
  json_builder_end_array(builder);
}

/* ---- Plugins ------------------------------------------------------------------------------------
 */

static void add_plugin_json(JsonBuilder *builder, const BpPluginInfo *info) {
  json_builder_begin_object(builder);
  json_add_str(builder, "name", info->name);
  json_add_str(builder, "version", info->version);
  json_add_str(builder, "state", state_name(info->state));
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

static void print_json(const BpPluginList *list, gboolean probe) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_builder_set_member_name(builder, "plugins");
  json_builder_begin_array(builder);
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    add_plugin_json(builder, bp_plugin_list_get(list, i));
  json_builder_end_array(builder);
  if (probe)
    add_devices_json(builder);
  json_builder_end_object(builder);
  command_print_json(builder);
}

static void print_text(const BpPluginList *list, gboolean probe) {
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
                state_name(info->state), info->devices, info->targets,
                *info->reason ? info->reason : info->description);
    }
    table_print(table);
  }
  if (probe)
    print_devices();
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
  BpPluginList *list = bp_plugin_list();
  if (!list)
    return command_fail(json);
  if (json)
    print_json(list, probe);
  else
    print_text(list, probe);
  bp_plugin_list_free(list);
  return EXIT_OK;
}
