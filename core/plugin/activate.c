/* SPDX-License-Identifier: Apache-2.0 */
/* Activation: dlopen, the entry point, the handshake of versions, and initialize(), once for each
 * plugin and process. One thread does it with no lock held; others wait, save those that are
 * initialising a plugin themselves: two plugins that ask for each other would wait for ever. */

#include "core/plugin/store.h"

#include "core/registry/host.h"
#include "core/registry/registry.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- What it registers ------------------------------------------------------------------- */

static int is_registered(const char *name) {
  BpFunction *function = NULL;
  int found = !bp__registry_find(name, &function) && function;
  bp_object_release(function);
  return found;
}

/* Checks that the provided names are all registered (`expected` 1) or none is (0). */
static int check_provided(const Plugin *plugin, int expected) {
  g_auto(GStrv) names = g_strsplit(plugin->descriptor.provides, " ", -1);
  for (char **name = names; *name; name++) {
    if (!**name || is_registered(*name) == expected)
      continue;
    if (expected)
      return bp_error_raise(BP_ERROR_PLUGIN,
                            "its descriptor says that it provides %s, but it did not register it; "
                            "this is a defect of the plugin",
                            *name);
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "it provides %s, which is registered already; remove one of the two that "
                          "provide it",
                          *name);
  }
  return 0;
}

/* After a failure: nothing may lead into the plugin's code any more. */
static void remove_provided(const Plugin *plugin) {
  g_auto(GStrv) names = g_strsplit(plugin->descriptor.provides, " ", -1);
  for (char **name = names; *name; name++)
    if (**name && is_registered(*name))
      bp_registry_remove(*name);
}

/* ---- Loading ----------------------------------------------------------------------------- */

static int explain_dlopen(const Plugin *plugin) {
  const Descriptor *descriptor = &plugin->descriptor;
  const char *cause = dlerror();
  if (!cause)
    cause = "the loader gives no reason";
  if (*descriptor->package)
    return bp_error_raise(BP_ERROR_PLUGIN, "it cannot be loaded: %s; install the package %s", cause,
                          descriptor->package);
  return bp_error_raise(BP_ERROR_PLUGIN,
                        "it cannot be loaded: %s; install the package that holds what is missing",
                        cause);
}

static BpPluginEntry find_entry(const Plugin *plugin) {
  if (plugin->entry)
    return plugin->entry;
  /* Plugins stay mapped for ever: the handle is not kept because it is never closed. */
  void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    explain_dlopen(plugin);
    return NULL;
  }
  void *symbol = dlsym(library, plugin->descriptor.entry);
  if (!symbol) {
    bp_error_raise(BP_ERROR_PLUGIN,
                   "it does not export its entry point %s; this is a defect of the plugin",
                   plugin->descriptor.entry);
    return NULL;
  }
  BpPluginEntry entry;
  memcpy(&entry, &symbol, sizeof entry);
  return entry;
}

static int check_failed(const char *what) {
  if (!*bp_error_kind())
    bp_error_raise(BP_ERROR_PLUGIN, "it gave no reason");
  return bp_error_add_context("its %s failed", what);
}

static int shake_hands(BpPluginEntry entry, BpPlugin *plugin) {
  *plugin = (BpPlugin){.struct_size = sizeof *plugin};
  if (entry(bp__host(), plugin))
    return check_failed("entry point");
  uint32_t major = plugin->abi_version >> 16, minor = plugin->abi_version & 0xffff;
  if (major != BP_ABI_MAJOR || (BP_ABI_MAJOR == 0 ? minor != BP_ABI_MINOR : minor > BP_ABI_MINOR))
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "its entry point answers with plugin ABI %u.%u and this host has %s; "
                          "install a build of the plugin that matches",
                          major, minor, BP_ABI_TEXT);
  if (!plugin->initialize)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "its entry point gives no initialize; this is a defect of the plugin");
  return 0;
}

static int initialize(const Plugin *plugin) {
  BpPlugin answer;
  BpPluginEntry entry = find_entry(plugin);
  if (!entry || shake_hands(entry, &answer) || check_provided(plugin, 0))
    return -1;
  int rc = answer.initialize() ? check_failed("initialisation") : check_provided(plugin, 1);
  if (rc) {
    BpError *error = bp_error_take();
    remove_provided(plugin);
    bp_error_put(error);
  }
  return rc;
}

/* ---- Once -------------------------------------------------------------------------------- */

/* The plugin is INITIALISING and this thread its owner. */
static int run_initialize(Plugin *plugin) {
  bp_error_clear();
  bp__host_set_initialising(plugin->descriptor.name);
  int rc = initialize(plugin);
  bp__host_set_initialising(NULL);
  bp__plugins_lock();
  if (rc)
    bp__plugin_reject(plugin, BP_PLUGIN_FAILED);
  else
    plugin->state = BP_PLUGIN_ACTIVE;
  bp__plugins_wake();
  bp__plugins_unlock();
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
                        plugin->descriptor.name, bp__host_initialising());
}

/* With the lock held. Whether this thread is to initialise the plugin: 1; 0: it is active; -1. */
static int claim(Plugin *plugin) {
  while (plugin->state == BP_PLUGIN_INITIALISING && !bp__host_initialising())
    bp__plugins_wait();
  if (plugin->state == BP_PLUGIN_ACTIVE)
    return 0;
  if (plugin->state == BP_PLUGIN_FAILED || plugin->state == BP_PLUGIN_REJECTED)
    return raise_unusable(plugin);
  if (bp__host_initialising())
    return raise_not_ready(plugin);
  plugin->state = BP_PLUGIN_INITIALISING;
  plugin->owner = pthread_self();
  return 1;
}

int bp__plugin_activate(Plugin *plugin) {
  bp__plugins_lock();
  int claimed = claim(plugin);
  bp__plugins_unlock();
  if (claimed <= 0)
    return claimed;
  if (!run_initialize(plugin))
    return 0;
  bp__plugins_lock();
  raise_unusable(plugin);
  bp__plugins_unlock();
  return -1;
}
