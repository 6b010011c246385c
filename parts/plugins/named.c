/* SPDX-License-Identifier: Apache-2.0 */
/* Activates a plugin by its name or path, and tries several plugins at the same time. */

#include "parts/plugins/plugins.h"

#include "parts/plugins/store.h"
#include "core/registry/hints.h"
#include "core/system/trust.h"
#include "parts/parallel.h"

#include <backplane/error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- By name ----------------------------------------------------------------------------- */

static int raise_unknown(const char *name) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  char hint[BP_HINT_MAX];
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = g_ptr_array_copy(bp__plugins_all(), NULL, NULL);
  bp__plugins_unlock();
  for (guint i = 0; i < all->len; i++)
    g_ptr_array_add(names,
                    (char *)(uintptr_t)((Plugin *)g_ptr_array_index(all, i))->descriptor.name);
  bp__nearest_hint(name, (const char *const *)names->pdata, names->len, hint);
  g_autofree char *why = bp_plugin_explain_absence(name);
  return bp_error_raise(
      BP_ERROR_NOT_FOUND,
      "no plugin \"%.80s\" is installed%s%s%s; `backplane list` shows the installed ones, "
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
  GPtrArray *named = bp__plugins_named(name);
  GPtrArray *namesakes = named ? g_ptr_array_copy(named, NULL, NULL) : g_ptr_array_new();
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
  int rc = bp__plugins_activate_first(namesakes, activate_anew);
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
    bp_error_raise(
        BP_ERROR_PLUGIN,
        "plugin \"%s\" of %s is in use, so the plugin in %s cannot be used; choose one with "
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

int bp__plugins_activate_named(const char *name) {
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
void bp__plugins_try_kinds(const char *const *device_kinds) {
  bp__plugins_scan(0);
  Round round = {.plugins = g_ptr_array_new()};
  for (guint count; (count = find_untried(&round, device_kinds));)
    bp__parallel_for_each(count, try_one, &round);
  g_ptr_array_unref(round.plugins);
}
