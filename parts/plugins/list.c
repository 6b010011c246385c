/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of plugins and of the kinds that they declare; and the part's table. */

#include "parts/plugins/plugins.h"

#include "core/device/device.h"
#include "parts/plugins/isolate.h"
#include "parts/plugins/trial.h"
#include "core/registry/part.h"

#include <backplane/error.h>
#include <string.h>

/* ---- Snapshots --------------------------------------------------------------------------- */

/* Whether a plugin runs in a process of its own. Called without the lock, because it may load a
 * part. A plugin that cannot be isolated raises its error when it is used. */
static int is_isolated(const Plugin *plugin) {
  int is_wanted = bp__isolate_is_wanted(plugin);
  if (is_wanted < 0) {
    bp__reason_take(REASON_OK);
    bp_error_clear();
  }
  return is_wanted > 0;
}

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
      .code = bp__reason_code(plugin->code),
      .warning = plugin->warning ? plugin->warning : "",
      .nodes = descriptor->nodes,
      .files = descriptor->files,
      .variables = descriptor->variables,
      .isa = descriptor->isa,
      .sanitizer = descriptor->sanitizer,
      .priority = bp__descriptor_priority(descriptor),
  };
}

/* Adds the result that earlier processes stored about a plugin that this process has not used. */
static void add_quarantine(const Plugin *plugin, const BpCache *folder, BpPluginInfo *info) {
  Reason verdict;
  char *text;
  if (!bp__trial_cache_quarantine(folder, plugin, &verdict, &text))
    return;
  g_free((char *)(uintptr_t)info->reason);
  info->reason = text;
  info->code = bp__reason_code(verdict);
  info->state = BP_PLUGIN_QUARANTINED;
}

/* Adds the quarantines that the cache knows. Called without the lock, because it may log. */
static void add_quarantines(BpPluginList *list, const GPtrArray *all) {
  BpCache folder;
  bp__trial_cache_folder(&folder);
  for (guint i = 0; i < all->len && folder.fd >= 0; i++) {
    const Plugin *plugin = g_ptr_array_index(all, i);
    if (list->infos[i].state == BP_PLUGIN_FOUND && !plugin->entry && !plugin->host)
      add_quarantine(plugin, &folder, &list->infos[i]);
  }
  bp__cache_close(&folder);
}

/* ---- One plugin for each name ------------------------------------------------------------ */

/* Plugins of the same name on two machines are different plugins. */
static const char *key_of(const BpPluginInfo *info) {
  return g_str_has_prefix(info->path, BP_REMOTE_PREFIX) ? info->path : info->name;
}

/* Finds the plugin that is used for each name: an active plugin, or the first usable one. */
static GHashTable *find_winners(const BpPluginList *list) {
  static const int32_t states[] = {BP_PLUGIN_ACTIVE, BP_PLUGIN_FOUND};
  GHashTable *winners = g_hash_table_new(g_str_hash, g_str_equal);
  for (size_t s = 0; s < G_N_ELEMENTS(states); s++)
    for (size_t i = 0; i < list->size; i++) {
      BpPluginInfo *info = &list->infos[i];
      if (info->state == states[s] && !g_hash_table_contains(winners, key_of(info)))
        g_hash_table_insert(winners, (char *)(uintptr_t)key_of(info), info);
    }
  return winners;
}

static void add_shadows(BpPluginList *list) {
  g_autoptr(GHashTable) winners = find_winners(list);
  for (size_t i = 0; i < list->size; i++) {
    BpPluginInfo *info = &list->infos[i];
    const BpPluginInfo *first = g_hash_table_lookup(winners, key_of(info));
    if (info->state != BP_PLUGIN_FOUND || first == info)
      continue;
    g_free((char *)(uintptr_t)info->reason);
    info->reason = bp__plugin_describe_shadow(info->name, first->path);
    info->code = bp__reason_code(REASON_SHADOWED);
    info->state = BP_PLUGIN_SHADOWED;
  }
}

/* ---- Lists ------------------------------------------------------------------------------- */

static BpPluginList *list_plugins(void) {
  bp__plugins_scan(1);
  BpPluginList *list = g_new0(BpPluginList, 1);
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = g_ptr_array_copy(bp__plugins_all(), NULL, NULL);
  list->size = all->len;
  list->infos = g_new0(BpPluginInfo, all->len);
  for (guint i = 0; i < all->len; i++)
    list->infos[i] = describe(g_ptr_array_index(all, i));
  bp__plugins_unlock();
  for (guint i = 0; i < all->len; i++)
    list->infos[i].is_isolated = is_isolated(g_ptr_array_index(all, i));
  add_quarantines(list, all);
  add_shadows(list);
  return list;
}

/* ---- Kinds ------------------------------------------------------------------------------- */

/* Adds the words that a text of each usable plugin lists. 0, or -1 with an error. */
static int add_words(BpNames *names, size_t offset, int (*is_usable)(int32_t state)) {
  BpPluginList *list = list_plugins();
  int rc = 0;
  for (size_t i = 0; !rc && i < list->size; i++)
    if (is_usable(list->infos[i].state))
      rc = bp__names_add_words(names, *(const char **)((char *)&list->infos[i] + offset));
  bp_plugin_list_free(list);
  return rc;
}

static int is_valid(int32_t state) {
  return state != BP_PLUGIN_REJECTED && state != BP_PLUGIN_SHADOWED;
}

static int is_ready(int32_t state) {
  return state == BP_PLUGIN_FOUND || state == BP_PLUGIN_ACTIVE;
}

static int add_device_kinds(BpNames *names) {
  return add_words(names, offsetof(BpPluginInfo, devices), is_valid);
}

static int add_target_kinds(BpNames *names) {
  return add_words(names, offsetof(BpPluginInfo, targets), is_ready);
}

static int add_provided(BpNames *names) {
  return add_words(names, offsetof(BpPluginInfo, provides), is_valid);
}

/* Adds the kinds with a plain name of the plugins of this machine, or of the other machines.
 * Several plugins of one machine may have a kind, which is added once. Called with the lock
 * held. */
static void add_kinds_named(GPtrArray *kinds, const char *name, int is_elsewhere) {
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; i < all->len; i++) {
    const Plugin *plugin = g_ptr_array_index(all, i);
    g_auto(GStrv) words = g_strsplit(plugin->descriptor.devices, " ", -1);
    for (char **word = words; *word; word++)
      if (plugin->state != BP_PLUGIN_REJECTED && !plugin->host == !is_elsewhere &&
          !strcmp(bp__device_plain_kind(*word), name) &&
          !g_ptr_array_find_with_equal_func(kinds, *word, g_str_equal, NULL))
        g_ptr_array_add(kinds, g_strdup(*word));
  }
}

/* Returns a kind with a machine in its name, and connects to the machine; NULL with an error. */
static char *reach_kind(const char *name) {
  const char *host = name + strlen(BP_REMOTE_PREFIX), *plain = bp__device_plain_kind(name);
  g_autofree char *machine = g_strndup(host, plain > host ? (gsize)(plain - host - 1) : 0);
  return bp__remote_reach(machine) == 1 ? g_strdup(name) : NULL;
}

static char *find_device_kind(const char *name) {
  if (g_str_has_prefix(name, BP_REMOTE_PREFIX))
    return reach_kind(name);
  g_autoptr(GPtrArray) kinds = g_ptr_array_new_with_free_func(g_free);
  bp__plugins_scan(0);
  bp__plugins_lock();
  add_kinds_named(kinds, name, 0);
  if (!kinds->len)
    add_kinds_named(kinds, name, 1);
  bp__plugins_unlock();
  if (kinds->len > 1) {
    bp_error_raise(BP_ERROR_VALUE,
                   "several machines have devices of kind \"%.64s\", and this one has none; write "
                   "%s or %s",
                   name, (const char *)kinds->pdata[0], (const char *)kinds->pdata[1]);
    return NULL;
  }
  return g_strdup(kinds->len ? kinds->pdata[0] : name);
}

static char *variables_of(const char *device_kind) {
  BpPluginList *list = list_plugins();
  char *variables = NULL;
  for (size_t i = 0; i < list->size && !variables; i++) {
    const BpPluginInfo *info = &list->infos[i];
    if (info->state == BP_PLUGIN_ACTIVE && bp__words_have(info->devices, device_kind))
      variables = g_strdup(info->variables);
  }
  bp_plugin_list_free(list);
  return variables ? variables : g_strdup("");
}

static const Installed installed = {
    .activate_provider = bp__plugins_activate_provider,
    .list = list_plugins,
    .activate = bp__plugins_activate_named,
    .try_kinds = bp__plugins_try_kinds,
    .register_static = bp__plugins_register_static,
    .try_here = bp__trial_here,
    .reach_machine = bp__remote_reach,
    .add_device_kinds = add_device_kinds,
    .add_target_kinds = add_target_kinds,
    .find_device_kind = find_device_kind,
    .add_provided = add_provided,
    .variables_of = variables_of,
};

BP__PART(BP_PART_PLUGINS, installed);
