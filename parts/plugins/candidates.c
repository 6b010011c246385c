/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin to activate for a registry name: the first usable one. If a plugin crashed in its
 * trial, or failed, the next plugin is used. The rest of this file is about plugins that are linked
 * into the program. */

#include "parts/plugins/plugins.h"
#include "parts/plugins/store.h"

#include "core/registry/log.h"

#include <backplane/error.h>
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

int bp__plugins_activate_first(const GPtrArray *candidates, int (*activate)(Plugin *)) {
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

/* Returns a list that stays valid without the lock (transfer container). */
static GPtrArray *find_providers(const char *registry_name, int search_again) {
  bp__plugins_scan(search_again);
  bp__plugins_lock();
  GPtrArray *providers = bp__plugins_that_provide(registry_name);
  providers = providers ? g_ptr_array_copy(providers, NULL, NULL) : g_ptr_array_new();
  bp__plugins_unlock();
  return providers;
}

int bp__plugins_activate_provider(const char *registry_name) {
  g_autoptr(GPtrArray) providers = find_providers(registry_name, 0);
  int rc = bp__plugins_activate_first(providers, bp__plugin_activate);
  if (rc < 0 && is_outdated(providers)) {
    g_autoptr(GPtrArray) newer = find_providers(registry_name, 1);
    bp_error_clear();
    rc = bp__plugins_activate_first(newer, bp__plugin_activate);
  }
  return rc ? MIN(rc, 0) : bp__plugins_check_search();
}

/* ---- Linked into the program ------------------------------------------------------------- */

/* Whether a plugin of the name is linked into the program, or already in use. Called with the lock
 * held. */
static int is_in_use(const char *name) {
  const GPtrArray *namesakes = bp__plugins_named(name);
  int is_used = 0;
  for (guint i = 0; namesakes && i < namesakes->len; i++) {
    const Plugin *plugin = g_ptr_array_index(namesakes, i);
    is_used |= plugin->entry || (!plugin->host && (plugin->state == BP_PLUGIN_ACTIVE ||
                                                   plugin->state == BP_PLUGIN_INITIALISING));
  }
  return is_used;
}

int bp__plugins_register_static(const char *descriptor, BpPluginEntry entry) {
  Plugin *plugin = bp__plugin_create("");
  plugin->entry = entry;
  if (bp__descriptor_parse(&plugin->descriptor, descriptor, strlen(descriptor))) {
    bp__plugin_free(plugin);
    return bp_error_add_context("a plugin of the program cannot be registered");
  }
  bp__plugins_scan(0);
  bp__plugins_lock();
  int is_taken = is_in_use(plugin->descriptor.name);
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
