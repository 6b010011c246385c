/* SPDX-License-Identifier: Apache-2.0 */
/* Activation: dlopen, the entry point, the handshake of versions, and initialize(), once for each
 * plugin and process. One thread activates a plugin, with no lock held, and other threads wait,
 * except threads that are initialising a plugin themselves: two plugins that request each other
 * would wait for ever. */

#include "parts/plugins/isolate.h"
#include "parts/plugins/trial.h"

#include "core/registry/host.h"
#include "core/registry/log.h"
#include "core/registry/registry.h"
#include "core/system/env.h"
#include "core/target/target.h"

#include <backplane/error.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Registered names -------------------------------------------------------------------- */

/* Checks that no other plugin has registered a name that the plugin provides. */
static int check_free(const Plugin *plugin) {
  g_auto(GStrv) names = g_strsplit(plugin->descriptor.provides, " ", -1);
  for (char **name = names; *name; name++)
    if (**name && bp__registry_has(*name))
      return bp__reason_raise(
          REASON_NAME_TAKEN,
          "it provides %s, which is registered already; remove one of the two that "
          "provide it",
          *name);
  return 0;
}

/* Checks that the plugin has registered every name that it provides. */
static int check_complete(const Plugin *plugin, const Registration *registration) {
  g_auto(GStrv) names = g_strsplit(plugin->descriptor.provides, " ", -1);
  for (char **name = names; *name; name++)
    if (**name && !bp__registration_has(registration, *name))
      return bp__reason_raise(
          REASON_NAME_NOT_REGISTERED,
          "its descriptor says that it provides %s, but it did not register it; "
          "this is a defect of the plugin",
          *name);
  return 0;
}

static int publish(const Registration *registration) {
  if (!bp__registration_publish(registration))
    return 0;
  bp__reason_note(REASON_NAME_TAKEN);
  return -1;
}

/* ---- The handshake ----------------------------------------------------------------------- */

static int check_failed(Reason reason, const char *what) {
  if (!*bp_error_kind())
    bp_error_raise(BP_ERROR_PLUGIN, "it gave no reason");
  bp__reason_note(reason);
  return bp_error_add_context("its %s failed", what);
}

static int shake_hands(BpPluginEntry entry, BpPlugin *plugin) {
  *plugin = (BpPlugin){.struct_size = sizeof *plugin};
  const BpHost *host = bp__host();
  if (!host)
    return -1;
  if (entry(host, plugin))
    return check_failed(REASON_ENTRY_FAILED, "entry point");
  if (!bp_abi_fits(plugin->abi_version, BP_ABI_OLDEST, BP_ABI_VERSION))
    return bp__reason_raise(REASON_ENTRY_OTHER_ABI,
                            "its entry point answers with plugin ABI %u.%u and this host loads "
                            "%d.%d to %s; install a build of the plugin that matches",
                            plugin->abi_version >> 16, plugin->abi_version & 0xffff, BP_ABI_MAJOR,
                            BP_ABI_OLDEST_MINOR, BP_ABI_TEXT);
  if (plugin->reserved)
    return bp__reason_raise(REASON_ENTRY_FAILED,
                            "its entry point sets BpPlugin::reserved to %u, which has to be 0; "
                            "this is a defect of the plugin",
                            plugin->reserved);
  if (!plugin->initialize)
    return bp__reason_raise(REASON_INITIALIZE_MISSING,
                            "its entry point gives no initialize; this is a defect of the plugin");
  return 0;
}

/* Opens the plugin's file and checks, if necessary by a trial, that the file may be loaded into
 * this process. */
static int require_trial(Plugin *plugin) {
  if (plugin->fd < 0 && bp__plugin_open(plugin))
    return -1;
  if (!plugin->is_tried && bp__trial_require(plugin, &plugin->was_tried))
    return -1;
  plugin->is_tried = 1;
  return 0;
}

static void close_file(Plugin *plugin) {
  if (plugin->fd >= 0)
    close(plugin->fd);
  plugin->fd = -1;
}

/* Returns true the first time that a given warning is due: a warning that plugins share (about one
 * directory) is logged once. */
static int claim_warning(Plugin *plugin) {
  bp__plugins_lock();
  int is_first = plugin->warning && !plugin->is_warned_of;
  const GPtrArray *all = bp__plugins_all();
  for (guint i = 0; i < all->len && is_first; i++) {
    const Plugin *other = g_ptr_array_index(all, i);
    is_first = !other->is_warned_of || strcmp(other->warning, plugin->warning);
  }
  plugin->is_warned_of |= is_first;
  bp__plugins_unlock();
  return is_first;
}

static void warn(Plugin *plugin) {
  if (claim_warning(plugin))
    bp__log(BP_LOG_WARNING, "plugin %s: %s, and loading it is running it", plugin->path,
            plugin->warning);
}

/* Finds the entry point, after all checks have passed. */
static BpPluginEntry find_entry(Plugin *plugin) {
  bp__env_protect();
  if (plugin->entry)
    return plugin->entry;
  warn(plugin);
  return require_trial(plugin) ? NULL : bp__plugin_load(plugin);
}

/* Prepares a plugin that runs in a process of its own; its file is not loaded into this process. */
static int initialize_isolated(Plugin *plugin, const Registration *registration) {
  warn(plugin);
  if (!plugin->host && require_trial(plugin)) /* the other machine tries the plugin out */
    return -1;
  if (check_free(plugin))
    return -1;
  if (bp__isolate_initialize(plugin))
    return check_failed(REASON_INITIALIZE_FAILED, "initialisation in a process of its own");
  return check_complete(plugin, registration) || publish(registration) ? -1 : 0;
}

static int initialize(Plugin *plugin, Registration *registration) {
  BpPlugin answer;
  int is_isolated = bp__isolate_is_wanted(plugin);
  if (is_isolated)
    return is_isolated < 0 ? -1 : initialize_isolated(plugin, registration);
  BpPluginEntry entry = find_entry(plugin);
  registration->was_tried = plugin->was_tried;
  bp__trial_stage("entry");
  if (!entry || shake_hands(entry, &answer) || check_free(plugin))
    return -1;
  bp__trial_stage("initialize");
  if (answer.initialize(answer.context))
    return check_failed(REASON_INITIALIZE_FAILED, "initialisation");
  return check_complete(plugin, registration) || publish(registration) ? -1 : 0;
}

/* ---- Activating a plugin once ------------------------------------------------------------ */

static void reject(Plugin *plugin) {
  bp__plugin_reject(plugin, BP_PLUGIN_FAILED);
  if (bp__trial_is_verdict(plugin->code))
    plugin->state = BP_PLUGIN_QUARANTINED;
}

/* Begin and end this thread's initialisation of a plugin that it owns and whose state is
 * INITIALISING. */
static void begin(void) {
  bp_error_clear();
  bp__reason_take(REASON_OK);
}

static void end(Plugin *plugin, int rc, int32_t state) {
  bp__plugins_lock();
  int cancel = plugin->owner_cancel;
  if (rc)
    reject(plugin);
  else
    plugin->state = state;
  bp__plugins_wake();
  bp__plugins_unlock();
  bp_error_clear(); /* the plugin may have left an error although it succeeded */
  pthread_setcancelstate(cancel, NULL);
}

static int run_initialize(Plugin *plugin) {
  const Descriptor *descriptor = &plugin->descriptor;
  Registration registration = {
      .plugin = descriptor->name, .provides = descriptor->provides, .targets = descriptor->targets};
  begin();
  bp__registration_begin(&registration);
  int rc = initialize(plugin, &registration);
  if (rc)
    bp__target_kinds_withdraw(&registration);
  bp__registration_end(&registration);
  if (rc || !plugin->is_mapped)
    close_file(plugin);
  end(plugin, rc, BP_PLUGIN_ACTIVE);
  return rc;
}

static int raise_unusable(const Plugin *plugin) {
  return bp_error_raise(BP_ERROR_PLUGIN, "plugin %s (%s) cannot be used: %s",
                        *plugin->descriptor.name ? plugin->descriptor.name : "without a name",
                        *plugin->path ? plugin->path : "linked into the program",
                        plugin->reason ? plugin->reason : "it failed");
}

static int raise_not_ready(const Plugin *plugin) {
  return bp_error_raise(BP_ERROR_NOT_READY,
                        "plugin %s is not active, and it is not activated while plugin %s "
                        "initialises itself; ask for it when it is needed, after that",
                        plugin->descriptor.name, bp__registration_current()->plugin);
}

/* Makes this thread the owner of a plugin, which it is about to initialise. Other threads wait for
 * the owner, so it cannot be cancelled until end(). Called with the lock held. */
static void own(Plugin *plugin) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &plugin->owner_cancel);
  plugin->state = BP_PLUGIN_INITIALISING;
  plugin->owner = pthread_self();
}

/* Claims a plugin, with the lock held. 1: this thread is to initialise the plugin; 0: the plugin is
 * active; -1 with an error. */
static int claim(Plugin *plugin) {
  while (plugin->state == BP_PLUGIN_INITIALISING && !bp__registration_current())
    bp__plugins_wait();
  if (plugin->state == BP_PLUGIN_ACTIVE)
    return 0;
  if (plugin->state == BP_PLUGIN_FAILED || plugin->state == BP_PLUGIN_REJECTED ||
      plugin->state == BP_PLUGIN_QUARANTINED)
    return raise_unusable(plugin);
  if (bp__registration_current())
    return raise_not_ready(plugin);
  own(plugin);
  return 1;
}

void bp__plugin_forgive(Plugin *plugin) {
  int has_failed = plugin->state == BP_PLUGIN_FAILED || plugin->state == BP_PLUGIN_QUARANTINED;
  if (!has_failed || plugin->is_mapped || plugin->entry || plugin->code == REASON_FORKED)
    return;
  free(plugin->reason);
  plugin->reason = NULL;
  plugin->code = REASON_OK;
  plugin->is_tried = 0;
  plugin->state = BP_PLUGIN_FOUND;
}

/* Forgets a failure that is not the plugin's fault, except the report of a trial. Called with the
 * lock held. */
static void forgive_passing(Plugin *plugin) {
  if (bp__trial_is_here())
    return;
  if (plugin->code == REASON_RESOURCES || plugin->code == REASON_TRIAL_IMPOSSIBLE)
    bp__plugin_forgive(plugin);
}

/* Activates the plugin worker before a plugin that needs it. The plugin that needs it then raises
 * an error of the plugin worker. */
static void prepare_isolation(Plugin *plugin) {
  bp__plugins_lock();
  int is_new = plugin->state == BP_PLUGIN_FOUND;
  bp__plugins_unlock();
  if (!is_new || bp__registration_current() || bp__isolate_is_wanted(plugin) <= 0 ||
      bp__isolate_prepare())
    bp_error_clear();
}

int bp__plugin_activate(Plugin *plugin) {
  prepare_isolation(plugin);
  bp__plugins_lock();
  int claimed = claim(plugin);
  bp__plugins_unlock();
  if (claimed <= 0)
    return claimed;
  if (!run_initialize(plugin))
    return 0;
  bp__plugins_lock();
  raise_unusable(plugin);
  forgive_passing(plugin);
  bp__plugins_unlock();
  return -1;
}

void bp__plugin_try(Plugin *plugin) {
  bp__plugins_lock();
  int is_new =
      plugin->state == BP_PLUGIN_FOUND && !plugin->entry && !plugin->host && !plugin->is_tried;
  if (is_new)
    own(plugin);
  bp__plugins_unlock();
  if (!is_new)
    return;
  begin();
  int rc = require_trial(plugin);
  close_file(plugin);
  end(plugin, rc, BP_PLUGIN_FOUND);
  bp__plugins_lock();
  forgive_passing(plugin);
  bp__plugins_unlock();
}
