/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin to activate for a registry name: the first usable one. If a plugin crashed in its
 * trial, or failed, the next one is used. Lists of plugins, activation by name or path and
 * diagnoses are in the parts plugins and doctor. */

#include "core/plugin/store.h"

#include "core/registry/given.h"
#include "core/registry/installed.h"
#include "core/registry/log.h"
#include "core/registry/part.h"
#include "core/registry/registry.h"

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

/* The registry's resolver. */
static int activate_provider(const char *registry_name) {
  g_autoptr(GPtrArray) providers = find_providers(registry_name, 0);
  int rc = bp__plugins_activate_first(providers, bp__plugin_activate);
  if (rc < 0 && is_outdated(providers)) {
    g_autoptr(GPtrArray) newer = find_providers(registry_name, 1);
    bp_error_clear();
    rc = bp__plugins_activate_first(newer, bp__plugin_activate);
  }
  return rc ? MIN(rc, 0) : bp__plugins_check_search();
}

int bp__plugin_start(void) {
  bp__plugins_watch_forks();
  bp__registry_set_resolver(activate_provider);
  return 0;
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

int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry) {
  if (!BP_GIVEN(descriptor) || !BP_GIVEN(entry))
    return -1;
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

/* ---- Lists and diagnoses ----------------------------------------------------------------- */

BpPluginList *bp_plugin_list(void) {
  const Installed *installed = bp__installed();
  return installed ? installed->list() : NULL;
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

int bp_plugin_activate(const char *name) {
  const Installed *installed = BP_GIVEN(name) ? bp__installed() : NULL;
  return installed ? installed->activate(name) : -1;
}

void bp_plugin_try(const char *const *device_kinds) {
  const Installed *installed = BP_GIVEN(device_kinds) ? bp__installed() : NULL;
  if (installed)
    installed->try_kinds(device_kinds);
}

const BpPluginReason *bp_plugin_reason(size_t index) {
  const Doctor *doctor = bp__part_table(BP_PART_DOCTOR);
  return doctor ? doctor->reason(index) : NULL;
}

BpPluginDiagnosis *bp_plugin_diagnose(void) {
  const Doctor *doctor = bp__part_table(BP_PART_DOCTOR);
  return doctor ? doctor->diagnose() : NULL;
}

size_t bp_plugin_diagnosis_size(const BpPluginDiagnosis *diagnosis) {
  return BP_GIVEN(diagnosis) ? diagnosis->findings->len : 0;
}

const BpPluginFinding *bp_plugin_diagnosis_get(const BpPluginDiagnosis *diagnosis, size_t index) {
  if (!BP_GIVEN(diagnosis))
    return NULL;
  if (index < diagnosis->findings->len)
    return &g_array_index(diagnosis->findings, BpPluginFinding, index);
  bp_error_raise(BP_ERROR_INDEX, "finding %zu of a diagnosis of %u", index,
                 diagnosis->findings->len);
  return NULL;
}

void bp_plugin_diagnosis_free(BpPluginDiagnosis *diagnosis) {
  if (!diagnosis)
    return;
  g_array_unref(diagnosis->findings);
  g_ptr_array_unref(diagnosis->strings);
  g_free(diagnosis);
}
