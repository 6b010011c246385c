/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of the plugins: snapshots, activation by name or path, those that are linked into
 * the program, and the registry's hook. */

#include "core/device/device.h"
#include "core/plugin/parallel.h"
#include "core/plugin/trial_cache.h"

#include "core/registry/given.h"
#include "core/registry/log.h"
#include "core/registry/names.h"
#include "core/registry/nearest.h"
#include "core/registry/registry.h"
#include "core/system/trust.h"

#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Snapshots --------------------------------------------------------------------------- */

struct BpPluginList {
  size_t size;
  BpPluginInfo *infos; /* `reason` is owned */
};

static BpPluginInfo describe(const Plugin *plugin) {
  const Descriptor *descriptor = &plugin->descriptor;
  int32_t state = plugin->state;
  return (BpPluginInfo){
      .struct_size = sizeof(BpPluginInfo),
      .state = state == BP_PLUGIN_INITIALISING ? BP_PLUGIN_FOUND : state,
      .is_static = plugin->entry != NULL,
      .path = plugin->path,
      .reason = g_strdup(plugin->reason ? plugin->reason : ""),
      .abi = descriptor->abi,
      .name = descriptor->name,
      .version = descriptor->version,
      .license = descriptor->license,
      .description = descriptor->description,
      .provides = descriptor->provides,
      .devices = descriptor->devices,
      .targets = descriptor->targets,
      .libraries = descriptor->libraries,
      .package = descriptor->package,
      .code = bp__reason_info(plugin->code)->code,
      .warning = plugin->warning ? plugin->warning : "",
      .nodes = descriptor->nodes,
      .files = descriptor->files,
      .variables = descriptor->variables,
      .isa = descriptor->isa,
      .sanitizer = descriptor->sanitizer,
      .rank = bp__descriptor_rank(descriptor),
  };
}

/* What earlier processes learned of a plugin that this one has not used. */
static void add_quarantine(const Plugin *plugin, int directory, BpPluginInfo *info) {
  Reason verdict;
  char *text;
  if (!bp__trial_cache_quarantine(directory, plugin, &verdict, &text))
    return;
  g_free((char *)(uintptr_t)info->reason);
  info->reason = g_strdup(text ? text : "");
  info->code = bp__reason_info(verdict)->code;
  info->state = BP_PLUGIN_QUARANTINED;
  free(text);
}

/* Without the lock: it may have something to log. */
static void add_quarantines(BpPluginList *list, const GPtrArray *all) {
  int directory = bp__trial_cache_directory();
  for (guint i = 0; i < all->len && directory >= 0; i++) {
    const Plugin *plugin = g_ptr_array_index(all, i);
    if (list->infos[i].state == BP_PLUGIN_FOUND && !plugin->entry)
      add_quarantine(plugin, directory, &list->infos[i]);
  }
  if (directory >= 0)
    close(directory);
}

BpPluginList *bp_plugin_list(void) {
  bp__plugins_scan(1);
  BpPluginList *list = g_new0(BpPluginList, 1);
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = bp__plugins_snapshot();
  list->size = all->len;
  list->infos = g_new0(BpPluginInfo, all->len);
  for (guint i = 0; i < all->len; i++)
    list->infos[i] = describe(g_ptr_array_index(all, i));
  bp__plugins_unlock();
  add_quarantines(list, all);
  return list;
}

size_t bp_plugin_list_size(const BpPluginList *list) {
  return BP_GIVEN(list) ? list->size : 0;
}

const BpPluginInfo *bp_plugin_list_get(const BpPluginList *list, size_t index) {
  if (!BP_GIVEN(list))
    return NULL;
  if (index < list->size)
    return &list->infos[index];
  bp_error_raise(BP_ERROR_INDEX, "plugin %zu of a list of %zu", index, list->size);
  return NULL;
}

void bp_plugin_list_free(BpPluginList *list) {
  if (!list)
    return;
  for (size_t i = 0; i < list->size; i++)
    g_free((char *)(uintptr_t)list->infos[i].reason);
  g_free(list->infos);
  g_free(list);
}

/* ---- What is not there ------------------------------------------------------------------- */

/* Whether a file's name without ".so" is the word or ends in it: "backplane-opencl". */
static int is_file_of(const char *path, const char *word) {
  g_autofree char *file = g_path_get_basename(path);
  if (g_str_has_suffix(file, ".so"))
    file[strlen(file) - strlen(".so")] = '\0';
  size_t length = strlen(file), tail = strlen(word);
  return tail && tail <= length && !strcmp(file + length - tail, word) &&
         (tail == length || !g_ascii_isalnum(file[length - tail - 1]));
}

static int is_meant(const BpPluginInfo *info, const char *name) {
  if (!*info->name)
    return is_file_of(info->path, name);
  return !strcmp(info->name, name) || bp__words_have(info->devices, name) ||
         bp__words_have(info->targets, name);
}

/* What the name is of, if it is that of a kind of device or of a target kind alone, where the other
 * may have been asked for (transfer full); else NULL. */
static char *tell_apart(const BpPluginInfo *info, const char *name) {
  int is_device = bp__words_have(info->devices, name);
  int is_target = bp__words_have(info->targets, name);
  const char *others = is_device ? info->targets : info->devices;
  if (is_device == is_target)
    return NULL;
  return g_strdup_printf("\"%s\" is a %s%s%s", name, is_device ? "kind of device" : "target kind",
                         !*others    ? ""
                         : is_device ? ", for which there is the target kind "
                                     : ", for devices of kind ",
                         others);
}

/* The package of this project's that has a plugin or kinds of that name; NULL: there is none. */
static const char *package_of(const char *name) {
  static const char *const packages[][2] = {
      {"cpu", "cpu"},       {"c", "cpu"},         {"llvm", "cpu-llvm"}, {"cpu-llvm", "cpu-llvm"},
      {"opencl", "opencl"}, {"vulkan", "vulkan"}, {"cuda", "cuda"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(packages); i++)
    if (!strcmp(packages[i][0], name))
      return packages[i][1];
  return NULL;
}

char *bp_plugin_explain_absence(const char *name) {
  if (!BP_GIVEN(name))
    return g_strdup("");
  BpPluginList *list = bp_plugin_list();
  char *text = NULL;
  int is_there = 0;
  for (size_t i = 0; i < list->size && !text; i++) {
    const BpPluginInfo *info = &list->infos[i];
    if (!is_meant(info, name))
      continue;
    is_there = 1;
    if (*info->reason && info->state != BP_PLUGIN_SHADOWED)
      text = g_strdup_printf("plugin %s: %s", info->path, info->reason);
    else
      text = tell_apart(info, name);
  }
  bp_plugin_list_free(list);
  if (!is_there && package_of(name))
    text = g_strdup_printf("install one, as the package backplane-plugin-%s", package_of(name));
  return text ? text : g_strdup("");
}

/* ---- By name ----------------------------------------------------------------------------- */

static Plugin *find_by_name(const char *name, int scan_again) {
  bp__plugins_scan(scan_again);
  bp__plugins_lock();
  Plugin *plugin = bp__plugins_by_name(name);
  /* One that was rejected is not in that index, but it can say why. */
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; !plugin && i < all->len; i++) {
    Plugin *other = g_ptr_array_index(all, i);
    if (!strcmp(other->descriptor.name, name))
      plugin = other;
  }
  bp__plugins_unlock();
  return plugin;
}

static int raise_unknown(const char *name) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  char hint[BP_HINT_MAX];
  bp__plugins_lock();
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; i < all->len; i++)
    g_ptr_array_add(names,
                    (char *)(uintptr_t)((Plugin *)g_ptr_array_index(all, i))->descriptor.name);
  bp__nearest_hint(name, (const char *const *)names->pdata, names->len, hint);
  bp__plugins_unlock();
  g_autofree char *why = bp_plugin_explain_absence(name);
  return bp_error_raise(
      BP_ERROR_NOT_FOUND,
      "no plugin \"%.80s\" is installed%s%s%s; `backplane list` shows those that are, "
      "and BACKPLANE_PLUGIN_PATH adds directories to the search",
      name, hint, *why ? "; " : "", why);
}

/* One that failed before its code came into this process may be tried again. */
static void forgive(Plugin *plugin) {
  bp__plugins_lock();
  int has_failed = plugin->state == BP_PLUGIN_FAILED || plugin->state == BP_PLUGIN_QUARANTINED;
  if (has_failed && !plugin->is_mapped && !plugin->entry && plugin->code != REASON_FORKED) {
    free(plugin->reason);
    plugin->reason = NULL;
    plugin->code = REASON_OK;
    plugin->is_tried = 0;
    plugin->state = BP_PLUGIN_FOUND;
  }
  bp__plugins_unlock();
}

static int activate_anew(Plugin *plugin) {
  forgive(plugin);
  return bp__plugin_activate(plugin);
}

static int activate_name(const char *name) {
  Plugin *plugin = find_by_name(name, 0);
  if (!plugin)
    plugin = find_by_name(name, 1);
  return plugin ? activate_anew(plugin) : raise_unknown(name);
}

/* ---- By path ----------------------------------------------------------------------------- */

/* With the lock held: the record that stands for the file just read: a known one of the same file,
 * or the new one, which must not bear the name of another that is in use. */
static Plugin *adopt(Plugin *plugin) {
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; i < all->len; i++) {
    Plugin *other = g_ptr_array_index(all, i);
    if (other->state != BP_PLUGIN_SHADOWED && bp__plugin_is_file(other, &plugin->status)) {
      bp__plugin_free(plugin);
      return other;
    }
  }
  Plugin *namesake = bp__plugins_by_name(plugin->descriptor.name);
  if (namesake && plugin->state != BP_PLUGIN_REJECTED &&
      (namesake->state == BP_PLUGIN_ACTIVE || namesake->state == BP_PLUGIN_INITIALISING)) {
    bp_error_raise(BP_ERROR_PLUGIN,
                   "plugin \"%s\" of %s is in use, so that of %s cannot be; choose one with "
                   "BACKPLANE_PLUGIN_PATH",
                   namesake->descriptor.name, namesake->path, plugin->path);
    bp__plugin_free(plugin);
    return NULL;
  }
  bp__plugins_add(plugin);
  return plugin;
}

static int activate_path(const char *path) {
  g_autofree char *directory = g_path_get_dirname(path);
  char *problem = bp__path_problem(directory);
  Plugin *plugin = bp__plugin_read(AT_FDCWD, path, path, problem);
  free(problem);
  if (!plugin)
    return -1;
  if (plugin->code == REASON_FILE_MISSING || plugin->code == REASON_FILE_UNREADABLE) {
    bp_error_raise(BP_ERROR_IO, "plugin %s %s", path, plugin->reason);
    bp__plugin_free(plugin);
    return -1;
  }
  bp__plugins_scan(0);
  bp__plugins_lock();
  plugin = adopt(plugin);
  bp__plugins_unlock();
  return plugin ? activate_anew(plugin) : -1;
}

int bp_plugin_activate(const char *name) {
  if (!BP_GIVEN(name))
    return -1;
  return strchr(name, '/') ? activate_path(name) : activate_name(name);
}

/* ---- Several at once ---------------------------------------------------------------------- */

/* Those that provide devices of the kinds, each once (transfer container). */
static GPtrArray *find_by_kinds(const char *const *kinds) {
  GPtrArray *found = g_ptr_array_new();
  bp__plugins_lock();
  for (; *kinds; kinds++) {
    g_autofree char *registry_name = g_strconcat("device_api.", *kinds, NULL);
    Plugin *plugin = bp__plugins_by_provided(registry_name);
    if (plugin && !g_ptr_array_find(found, plugin, NULL))
      g_ptr_array_add(found, plugin);
  }
  bp__plugins_unlock();
  return found;
}

static void try_one(void *plugins, size_t index) {
  bp__plugin_try(g_ptr_array_index((GPtrArray *)plugins, index));
  bp_error_clear();
}

void bp_plugin_try(const char *const *device_kinds) {
  if (!BP_GIVEN(device_kinds))
    return;
  bp__plugins_scan(0);
  g_autoptr(GPtrArray) plugins = find_by_kinds(device_kinds);
  bp__parallel_for_each(plugins->len, try_one, plugins);
}

/* ---- Linked into the program ------------------------------------------------------------- */

int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry) {
  if (!BP_GIVEN(descriptor) || !BP_GIVEN(entry))
    return -1;
  Plugin *plugin = bp__plugin_create("");
  if (!plugin)
    return -1;
  plugin->entry = entry;
  if (bp__descriptor_parse(&plugin->descriptor, descriptor, strlen(descriptor))) {
    bp__plugin_free(plugin);
    return bp_error_add_context("a plugin of the program cannot be registered");
  }
  bp__plugins_scan(0);
  bp__plugins_lock();
  Plugin *namesake = bp__plugins_by_name(plugin->descriptor.name);
  int is_taken = namesake && (namesake->entry || namesake->state != BP_PLUGIN_FOUND);
  if (!is_taken)
    bp__plugins_add(plugin);
  bp__plugins_unlock();
  if (!is_taken)
    return 0;
  bp_error_raise(BP_ERROR_VALUE, "a plugin \"%s\" is in use already; register before first use",
                 plugin->descriptor.name);
  bp__plugin_free(plugin);
  return -1;
}

/* ---- The registry's hook ----------------------------------------------------------------- */

static int activate_provider(const char *registry_name) {
  bp__plugins_scan(0);
  bp__plugins_lock();
  Plugin *plugin = bp__plugins_by_provided(registry_name);
  bp__plugins_unlock();
  return plugin ? bp__plugin_activate(plugin) : 0;
}

int bp__plugin_start(void) {
  if (bp__plugins_start())
    return -1;
  bp__registry_set_resolver(activate_provider);
  return 0;
}
