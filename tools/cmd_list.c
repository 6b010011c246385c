/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane list`: the installed plugins, read from their descriptors alone; with --probe also
 * their devices. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

/* ---- Devices ----------------------------------------------------------------------------- */

/* A row: a device, or a kind without a device. The row owns its strings. */
typedef struct DeviceRow {
  char *kind;
  char device[DEVICE_TEXT_MAX]; /* "opencl:0"; "" if the kind has no device */
  char hardware[64];            /* "pci:0000:01:00.0", or "" */
  const char *same;             /* the first device of the same hardware; "" if it is this row */
  char *name;                   /* or NULL */
  char *why;                    /* why there is no device or no name, or "" */
} DeviceRow;

static void free_row(void *data) {
  DeviceRow *row = data;
  g_free(row->kind);
  g_free(row->name);
  g_free(row->why);
  g_free(row);
}

static DeviceRow *add_row(GPtrArray *rows, const char *kind) {
  DeviceRow *row = g_new0(DeviceRow, 1);
  row->kind = g_strdup(kind);
  row->same = "";
  g_ptr_array_add(rows, row);
  return row;
}

static void add_device(GPtrArray *rows, const char *kind, BpDevice device) {
  BpValue name = {.type_index = BP_TYPE_NONE};
  DeviceRow *row = add_row(rows, kind);
  bp_device_format(device, row->device, sizeof row->device);
  bp_device_identity(device, row->hardware, sizeof row->hardware);
  if (bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &name) == 0)
    row->name = value_to_text(&name);
  row->why = g_strdup(row->name ? "" : bp_error_message());
  bp_error_clear();
  bp_value_clear(&name);
}

/* Adds a row for every device of the kind, or one row that says why there is none. */
static void add_kind(GPtrArray *rows, const char *kind) {
  BpDevice device;
  int32_t count = 0;
  const char *why = "";
  int failed =
      bp_device_parse(kind, &device) < 0 || bp_device_count(device.device_type, &count, &why) < 0;
  if (count == 0)
    add_row(rows, kind)->why = g_strdup(failed ? bp_error_message() : why);
  bp_error_clear();
  for (device.device_id = 0; device.device_id < count; device.device_id++)
    add_device(rows, kind, device);
}

/* Whether two devices belong to one machine: their names are equal up to the last slash. */
static gboolean is_same_machine(const char *a, const char *b) {
  const char *ends[] = {strrchr(a, '/'), strrchr(b, '/')};
  gsize sizes[] = {ends[0] ? (gsize)(ends[0] - a) : 0, ends[1] ? (gsize)(ends[1] - b) : 0};
  return sizes[0] == sizes[1] && strncmp(a, b, sizes[0]) == 0;
}

/* Moves devices of the same hardware, which several plugins of a machine may show, behind the first
 * of these devices. */
static void group_rows(GPtrArray *rows) {
  for (guint i = 0; i < rows->len; i++) {
    const DeviceRow *first = rows->pdata[i];
    guint next = i + 1;
    for (guint j = next; j < rows->len && *first->hardware && !*first->same; j++) {
      DeviceRow *row = rows->pdata[j];
      if (strcmp(row->hardware, first->hardware) != 0 ||
          !is_same_machine(row->device, first->device))
        continue;
      row->same = first->device;
      memmove(rows->pdata + next + 1, rows->pdata + next, (j - next) * sizeof(gpointer));
      rows->pdata[next++] = row;
    }
  }
}

/* Makes all rows for the kinds (transfer full). */
static GPtrArray *collect_rows(char *const *kinds) {
  GPtrArray *rows = g_ptr_array_new_with_free_func(free_row);
  bp_plugin_try((const char *const *)kinds);
  for (; *kinds; kinds++)
    add_kind(rows, *kinds);
  group_rows(rows);
  return rows;
}

static void print_devices(const GPtrArray *rows) {
  static const char *const headers[] = {"DEVICE", "NAME", "HARDWARE", "REASON", NULL};
  Table *table = table_new(headers);
  for (guint i = 0; i < rows->len; i++) {
    const DeviceRow *row = rows->pdata[i];
    char *hardware =
        *row->same ? g_strconcat("the same as ", row->same, NULL) : g_strdup(row->hardware);
    table_add(table, *row->device ? row->device : row->kind, row->name ? row->name : "none",
              hardware, row->why);
    g_free(hardware);
  }
  fputc('\n', command_out());
  table_print(table);
}

static json_t *device_json(const DeviceRow *row) {
  json_t *object = json_object();
  json_add_str(object, "kind", row->kind);
  if (*row->device)
    json_add_str(object, "device", row->device);
  if (row->name)
    json_add_str(object, "name", row->name);
  if (*row->hardware)
    json_add_str(object, "hardware", row->hardware);
  if (*row->why)
    json_add_str(object, "reason", row->why);
  return object;
}

static json_t *devices_json(const GPtrArray *rows) {
  json_t *array = json_array();
  for (guint i = 0; i < rows->len; i++)
    json_append(array, device_json(rows->pdata[i]));
  return array;
}

/* ---- Whether a plugin can be used ---------------------------------------------------------- */

/* Whether one of the kinds, space-separated, has a device; FALSE if there are no kinds. */
static gboolean has_device(const char *kinds, const GPtrArray *rows) {
  char **words = g_strsplit(kinds, " ", -1);
  gboolean has = FALSE;
  for (guint i = 0; i < rows->len; i++) {
    const DeviceRow *row = rows->pdata[i];
    has |= *row->device && g_strv_contains((const char *const *)words, row->kind);
  }
  g_strfreev(words);
  return has;
}

/* "unknown": the plugin was not tried. A plugin without devices, such as one for targets, counts as
 * usable if it is active. `rows`: the devices, or NULL. */
static const char *usable(const BpPluginInfo *info, const GPtrArray *rows) {
  if (info->state == BP_PLUGIN_FOUND)
    return "unknown";
  if (info->state != BP_PLUGIN_ACTIVE)
    return "no";
  return !*info->devices || !rows || has_device(info->devices, rows) ? "yes" : "no";
}

/* ---- Plugins ----------------------------------------------------------------------------- */

static json_t *plugin_json(const BpPluginInfo *info, const GPtrArray *rows) {
  json_t *object = json_object();
  json_add_str(object, "name", info->name);
  json_add_str(object, "version", info->version);
  json_add_str(object, "state", bp_plugin_state_name(info->state));
  json_add(object, "isolated", json_boolean(info->is_isolated));
  json_add_str(object, "usable", usable(info, rows));
  json_add_str(object, "code", info->code);
  json_add_str(object, "reason", info->reason);
  json_add_str(object, "path", info->path);
  json_add_str(object, "abi", info->abi);
  json_add_str(object, "license", info->license);
  json_add_str(object, "description", info->description);
  json_add_words(object, "devices", info->devices);
  json_add_words(object, "targets", info->targets);
  json_add_words(object, "provides", info->provides);
  json_add_words(object, "libraries", info->libraries);
  return object;
}

/* Says where the plugin runs, if not in this process. */
static const char *describe_place(const BpPluginInfo *info) {
  if (g_str_has_prefix(info->path, "remote:"))
    return " (remote)";
  return info->is_isolated ? " (isolated)" : "";
}

/* `rows`: the devices, or NULL. */
static void print_json(const BpPluginList *list, const GPtrArray *rows) {
  json_t *root = json_object(), *plugins = json_array();
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    json_append(plugins, plugin_json(bp_plugin_list_get(list, i), rows));
  json_add(root, "plugins", plugins);
  if (rows)
    json_add(root, "devices", devices_json(rows));
  command_print_json(root);
}

static void print_text(const BpPluginList *list, const GPtrArray *rows) {
  static const char *const headers[] = {"PLUGIN",  "VERSION", "STATE", "USABLE",
                                        "DEVICES", "TARGETS", "ABOUT", NULL};
  if (bp_plugin_list_size(list) == 0)
    fputs("No plugins are installed. Each backend is a package of its own, as "
          "backplane-plugin-cpu;\nBACKPLANE_PLUGIN_PATH names further folders to look in.\n",
          command_out());
  else {
    Table *table = table_new(headers);
    for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
      const BpPluginInfo *info = bp_plugin_list_get(list, i);
      g_autofree char *state =
          g_strdup_printf("%s%s", bp_plugin_state_name(info->state), describe_place(info));
      table_add(table, *info->name ? info->name : info->path, info->version, state,
                usable(info, rows), info->devices, info->targets,
                *info->reason ? info->reason : info->description);
    }
    table_print(table);
  }
  if (rows)
    print_devices(rows);
}

/* Whether `kinds` contains the device kinds of all plugins that may be usable. The search for kinds
 * may have missed a plugin whose descriptor is missing, or a plugin may have been installed
 * since. */
static gboolean has_all_kinds(const BpPluginList *list, char *const *kinds) {
  gboolean has_all = TRUE;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (info->state == BP_PLUGIN_REJECTED || info->state == BP_PLUGIN_SHADOWED)
      continue;
    char **words = g_strsplit(info->devices, " ", -1);
    for (char **word = words; *word; word++)
      has_all &= !**word || g_strv_contains((const char *const *)kinds, *word);
    g_strfreev(words);
  }
  return has_all;
}

/* Makes the rows of all kinds (transfer full); NULL with an error. */
static GPtrArray *probe_devices(void) {
  GPtrArray *rows = NULL;
  gboolean has_all = FALSE;
  for (int i = 0; i < 2 && !has_all; i++) {
    char **kinds = bp_device_kinds(NULL);
    if (rows)
      g_ptr_array_unref(rows);
    rows = kinds ? collect_rows(kinds) : NULL;
    BpPluginList *list = kinds ? bp_plugin_list() : NULL;
    has_all = !kinds || has_all_kinds(list, kinds);
    bp_plugin_list_free(list);
    bp_names_free(kinds);
  }
  return rows;
}

/* ---- Slurm ------------------------------------------------------------------------------- */

/* Whether Slurm counts the device's kind. Slurm knows CPUs itself, and hardware that two kinds show
 * counts for the first kind. */
static gboolean is_counted(const DeviceRow *row) {
  return *row->device && !*row->same && strcmp(row->kind, "cpu") != 0;
}

/* Counts the devices of the row's kind, from this row on; 0 if an earlier row has the kind. */
static guint count_kind(const GPtrArray *rows, guint at) {
  const DeviceRow *row = rows->pdata[at];
  guint count = 0;
  for (guint i = 0; i < rows->len; i++) {
    const DeviceRow *other = rows->pdata[i];
    if (!is_counted(other) || strcmp(other->kind, row->kind) != 0)
      continue;
    if (i < at)
      return 0;
    count++;
  }
  return is_counted(row) ? count : 0;
}

/* Prints a generic resource ("GRES") of Slurm for each kind of device, as lines of gres.conf;
 * comments say what slurm.conf needs. (Slurm's manual, gres.conf(5).) */
static int list_slurm(void) {
  GPtrArray *rows = probe_devices();
  if (!rows)
    return command_fail(FALSE);
  GString *types = g_string_new(NULL), *node = g_string_new(NULL), *lines = g_string_new(NULL);
  for (guint i = 0; i < rows->len; i++) {
    const DeviceRow *row = rows->pdata[i];
    guint count = count_kind(rows, i);
    if (!count)
      continue;
    g_string_append_printf(types, "%sbackplane_%s", types->len ? "," : "", row->kind);
    g_string_append_printf(node, "%sbackplane_%s:%u", node->len ? "," : "", row->kind, count);
    g_string_append_printf(lines, "Name=backplane_%s Count=%u Flags=CountOnly\n", row->kind, count);
  }
  if (types->len)
    fprintf(command_out(), "# In slurm.conf: GresTypes=%s, and for this node Gres=%s\n%s",
            types->str, node->str, lines->str);
  else
    fputs("# This node has no device but CPUs, which Slurm counts itself.\n", command_out());
  g_string_free(lines, TRUE);
  g_string_free(node, TRUE);
  g_string_free(types, TRUE);
  g_ptr_array_unref(rows);
  return EXIT_OK;
}

/* Lists the plugins after the devices, with the results of loading the plugins. */
static int list_plugins(gboolean json, gboolean probe) {
  GPtrArray *rows = probe ? probe_devices() : NULL;
  if (probe && !rows)
    return command_fail(json);
  BpPluginList *list = bp_plugin_list();
  int status = EXIT_OK;
  if (!list)
    status = command_fail(json);
  else if (json)
    print_json(list, rows);
  else
    print_text(list, rows);
  bp_plugin_list_free(list);
  if (rows)
    g_ptr_array_unref(rows);
  return status;
}

int cmd_list(int argc, char **argv) {
  gboolean json = FALSE, probe = FALSE, slurm = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {"probe", 0, 0, G_OPTION_ARG_NONE, &probe, "load the plugins and list their devices", NULL},
      {"slurm", 0, 0, G_OPTION_ARG_NONE, &slurm,
       "load the plugins and print their devices as Slurm's gres.conf has them", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, NULL,
                     "Lists the plugins on the search path from their descriptors; none is loaded.",
                     NULL))
    return EXIT_USAGE;
  if (argc > 1)
    return command_usage_error("list takes no argument, and got '%s'", argv[1]);
  if (slurm && json)
    return command_usage_error("--slurm prints lines of gres.conf, and --json JSON; leave one out");
  return slurm ? list_slurm() : list_plugins(json, probe);
}
