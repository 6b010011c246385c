/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the plugin to activate for a registry name, a plugin's name or a path: the first usable
 * one. If a plugin crashed in its trial, or failed, the next one is used. */

#include "core/device/device.h"
#include "core/plugin/parallel.h"
#include "core/plugin/store.h"

#include "core/registry/given.h"
#include "core/registry/hints.h"
#include "core/registry/log.h"
#include "core/registry/registry.h"
#include "core/system/trust.h"

#include <backplane/error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- The first usable plugin ------------------------------------------------------------- */

/* Whether no usable plugin of the same name comes before this one. A rejected plugin counts as
 * usable, so that its reason is reported. */
static int has_turn(const Plugin *plugin) {
  bp__plugins_lock();
  int is_next = plugin->state == BP_PLUGIN_REJECTED || !bp__plugin_rival(plugin);
  bp__plugins_unlock();
  return is_next;
}

/* Logs why the first plugin is not the one in use. */
static void log_substitute(const Plugin *plugin, const GString *reasons) {
  if (reasons->len)
    bp__log(BP_LOG_WARNING, "plugin %s (%s) is used instead of another: %s",
            plugin->descriptor.name, *plugin->path ? plugin->path : "linked into the program",
            reasons->str);
}

/* Tries the candidates. 1: a candidate is active. 0: no candidate can be tried. -1 with the reasons
 * of all candidates. */
static int activate_first(const GPtrArray *candidates, int (*activate)(Plugin *)) {
  g_autoptr(GString) reasons = g_string_new(NULL);
  for (guint i = 0; i < candidates->len; i++) {
    Plugin *plugin = g_ptr_array_index(candidates, i);
    if (!has_turn(plugin))
      continue;
    if (!activate(plugin)) {
      log_substitute(plugin, reasons);
      return 1;
    }
    if (bp_error_is(BP_ERROR_NOT_READY))
      return -1;
    g_string_append_printf(reasons, "%s%s", reasons->len ? "; " : "", bp_error_message());
    bp_error_clear();
    if (plugin->host) /* this machine's devices were requested, not those of another one */
      break;
  }
  return reasons->len ? bp_error_raise(BP_ERROR_PLUGIN, "%s", reasons->str) : 0;
}

/* Whether the file of a candidate was replaced or removed since the search. */
static int is_outdated(const GPtrArray *candidates) {
  int is_changed = 0;
  bp__plugins_lock();
  for (guint i = 0; i < candidates->len; i++) {
    const Plugin *plugin = g_ptr_array_index(candidates, i);
    is_changed |= plugin->state == BP_PLUGIN_FAILED &&
                  (plugin->code == REASON_FILE_CHANGED || plugin->code == REASON_FILE_MISSING);
  }
  bp__plugins_unlock();
  return is_changed;
}

/* ---- By registry name -------------------------------------------------------------------- */

/* Copies the list, so that it stays valid without the lock (transfer container); empty for NULL. */
static GPtrArray *copy_plugins(const GPtrArray *plugins) {
  GPtrArray *copy = g_ptr_array_new();
  for (guint i = 0; plugins && i < plugins->len; i++)
    g_ptr_array_add(copy, g_ptr_array_index(plugins, i));
  return copy;
}

static GPtrArray *find_providers(const char *registry_name, int search_again) {
  bp__plugins_scan(search_again);
  bp__plugins_lock();
  GPtrArray *providers = copy_plugins(bp__plugins_that_provide(registry_name));
  bp__plugins_unlock();
  return providers;
}

/* The registry's resolver. */
static int activate_provider(const char *registry_name) {
  g_autoptr(GPtrArray) providers = find_providers(registry_name, 0);
  int rc = activate_first(providers, bp__plugin_activate);
  if (rc < 0 && is_outdated(providers)) {
    g_autoptr(GPtrArray) newer = find_providers(registry_name, 1);
    bp_error_clear();
    rc = activate_first(newer, bp__plugin_activate);
  }
  return rc ? MIN(rc, 0) : bp__plugins_check_search();
}

int bp__plugin_start(void) {
  bp__plugins_watch_forks();
  bp__registry_set_resolver(activate_provider);
  bp__plugins_tell_installed();
  return 0;
}

/* ---- By name ----------------------------------------------------------------------------- */

static int raise_unknown(const char *name) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  char hint[BP_HINT_MAX];
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = bp__plugins_snapshot();
  bp__plugins_unlock();
  for (guint i = 0; i < all->len; i++)
    g_ptr_array_add(names,
                    (char *)(uintptr_t)((Plugin *)g_ptr_array_index(all, i))->descriptor.name);
  bp__nearest_hint(name, (const char *const *)names->pdata, names->len, hint);
  g_autofree char *why = bp_plugin_explain_absence(name);
  return bp_error_raise(
      BP_ERROR_NOT_FOUND,
      "no plugin \"%.80s\" is installed%s%s%s; `backplane list` shows those that are, "
      "and BACKPLANE_PLUGIN_PATH adds directories to the search",
      name, hint, *why ? "; " : "", why);
}

/* A plugin that failed before its code was loaded into this process may be tried again. */
static int activate_anew(Plugin *plugin) {
  bp__plugins_lock();
  bp__plugin_forgive(plugin);
  bp__plugins_unlock();
  return bp__plugin_activate(plugin);
}

/* Returns the plugins of this machine with a name or, if there are none, those of other
 * machines. */
static GPtrArray *find_namesakes(const char *name, int search_again) {
  bp__plugins_scan(search_again);
  bp__plugins_lock();
  GPtrArray *namesakes = copy_plugins(bp__plugins_named(name));
  bp__plugins_unlock();
  for (guint i = namesakes->len; i-- > 1;)
    if (((const Plugin *)namesakes->pdata[i])->host && !((const Plugin *)namesakes->pdata[0])->host)
      g_ptr_array_remove_index(namesakes, i);
  return namesakes;
}

static int is_active(const GPtrArray *namesakes) {
  int found = 0;
  bp__plugins_lock();
  for (guint i = 0; i < namesakes->len; i++)
    found |= ((const Plugin *)g_ptr_array_index(namesakes, i))->state == BP_PLUGIN_ACTIVE;
  bp__plugins_unlock();
  return found;
}

/* Searches the path again unless a plugin with the name is active. */
static int activate_name(const char *name) {
  g_autoptr(GPtrArray) known = find_namesakes(name, 0);
  if (is_active(known))
    return 0;
  g_autoptr(GPtrArray) namesakes = find_namesakes(name, 1);
  int rc = activate_first(namesakes, activate_anew);
  return rc ? MIN(rc, 0) : raise_unknown(name);
}

/* ---- By path ----------------------------------------------------------------------------- */

/* Returns a plugin in use with the name of `plugin` and another file, or NULL. Called with the lock
 * held. */
static const Plugin *find_in_use(const Plugin *plugin) {
  const GPtrArray *namesakes = bp__plugins_named(plugin->descriptor.name);
  for (guint i = 0; namesakes && i < namesakes->len; i++) {
    const Plugin *other = g_ptr_array_index(namesakes, i);
    if ((other->state == BP_PLUGIN_ACTIVE || other->state == BP_PLUGIN_INITIALISING) &&
        !other->host && !bp__plugin_is_file(other, &plugin->status))
      return other;
  }
  return NULL;
}

/* Returns a record of the same file whose descriptor could be read, or NULL. Called with the lock
 * held. */
static Plugin *find_same_file(const Plugin *plugin) {
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; i < all->len; i++) {
    Plugin *other = g_ptr_array_index(all, i);
    if (bp__plugin_is_file(other, &plugin->status) && !bp__plugin_is_unread(other))
      return other;
  }
  return NULL;
}

/* Returns the record for the file just read, with the lock held: an existing record of the same
 * file, or the new one, which must not have the name of another plugin in use. */
static Plugin *adopt(Plugin *plugin) {
  const Plugin *in_use = plugin->state == BP_PLUGIN_REJECTED ? NULL : find_in_use(plugin);
  Plugin *known = find_same_file(plugin);
  if (in_use)
    bp_error_raise(BP_ERROR_PLUGIN,
                   "plugin \"%s\" of %s is in use, so that of %s cannot be; choose one with "
                   "BACKPLANE_PLUGIN_PATH",
                   in_use->descriptor.name, in_use->path, plugin->path);
  else if (!known) {
    bp__plugins_add(plugin);
    return plugin;
  }
  bp__plugin_free(plugin);
  return in_use ? NULL : known;
}

static int activate_path(const char *path) {
  g_autofree char *directory = g_path_get_dirname(path);
  char *problem = bp__path_problem(directory);
  Plugin *plugin = bp__plugin_read(AT_FDCWD, path, path, problem);
  free(problem);
  if (plugin->code == REASON_FILE_MISSING || bp__plugin_is_unread(plugin)) {
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

/* ---- Several at the same time ------------------------------------------------------------ */

/* The plugins to try, in rounds. */
typedef struct Round {
  GPtrArray *plugins; /* plugins of all rounds, each once */
  guint start;        /* index of the first plugin of this round */
} Round;

/* Adds the new plugins that a look-up of a name would try next. Called with the lock held. */
static void add_untried(Round *round, const char *registry_name) {
  const GPtrArray *providers = bp__plugins_that_provide(registry_name);
  for (guint i = 0; providers && i < providers->len; i++) {
    Plugin *plugin = g_ptr_array_index(providers, i);
    if (plugin->state == BP_PLUGIN_FOUND && !plugin->entry && !plugin->is_tried &&
        !bp__plugin_rival(plugin) && !g_ptr_array_find(round->plugins, plugin, NULL))
      g_ptr_array_add(round->plugins, plugin);
  }
}

static guint find_untried(Round *round, const char *const *kinds) {
  round->start = round->plugins->len;
  bp__plugins_lock();
  for (; *kinds; kinds++) {
    g_autofree char *registry_name = g_strconcat("device_api.", *kinds, NULL);
    add_untried(round, registry_name);
  }
  bp__plugins_unlock();
  return round->plugins->len - round->start;
}

static void try_one(void *context, size_t index) {
  const Round *round = context;
  bp__plugin_try(g_ptr_array_index(round->plugins, round->start + index));
  bp_error_clear();
}

/* If a plugin failed, the next one is tried in the next round. */
void bp_plugin_try(const char *const *device_kinds) {
  if (!BP_GIVEN(device_kinds))
    return;
  bp__plugins_scan(0);
  Round round = {.plugins = g_ptr_array_new()};
  for (guint count; (count = find_untried(&round, device_kinds));)
    bp__parallel_for_each(count, try_one, &round);
  g_ptr_array_unref(round.plugins);
}
