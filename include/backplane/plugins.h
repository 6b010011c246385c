/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins, as `backplane list` and `inspect` see them. */
#ifndef BACKPLANE_PLUGINS_H
#define BACKPLANE_PLUGINS_H

#include <backplane/api.h>
#include <backplane/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* States of a plugin file found on the search path. */
#define BP_PLUGIN_FOUND    0 /* its descriptor is good; not loaded */
#define BP_PLUGIN_ACTIVE   1 /* initialised in this process */
#define BP_PLUGIN_FAILED   2 /* tried and failed; `reason` says why */
#define BP_PLUGIN_REJECTED 3 /* not usable by its descriptor, or no plugin at all */
#define BP_PLUGIN_SHADOWED 4 /* another of the same name comes first */

/* One plugin. All strings are borrowed from the list, "" when absent; those from the descriptor as
 * described in plugin.h. */
typedef struct BpPluginInfo {
  uint64_t struct_size;
  int32_t state;     /* BP_PLUGIN_* */
  int32_t is_static; /* registered with bp_plugin_register_static */
  const char *path;
  const char *reason; /* why it failed, was rejected or is shadowed, and the remedy */
  const char *abi;
  const char *name;
  const char *version;
  const char *license;
  const char *description;
  const char *provides;
  const char *devices;
  const char *targets;
  const char *libraries;
  const char *package;
} BpPluginInfo;

typedef struct BpPluginList BpPluginList;

/* A snapshot of what is on the search path, in search order, reading descriptors only: no plugin's
 * code runs. Order: BACKPLANE_PLUGIN_PATH (colon-separated), the user's data directory
 * (~/.local/share/backplane/plugins), the system's. Freed with bp_plugin_list_free. */
BP_API BpPluginList *bp_plugin_list(void);
BP_API size_t bp_plugin_list_size(const BpPluginList *list);
/* One of them, borrowed from the list; NULL with an error for an index that is not below the
 * size. */
BP_API const BpPluginInfo *bp_plugin_list_get(const BpPluginList *list, size_t index);
/* Frees a list and all that was borrowed from it; NULL is let pass. */
BP_API void bp_plugin_list_free(BpPluginList *list);

/* Loads and initialises a plugin by name, or by path if `name` contains '/'. Once it is active this
 * does nothing; of several threads one does it and the others wait. */
BP_API int bp_plugin_activate(const char *name);

/* Registers a plugin that is linked into the program: its descriptor text and its entry point. */
BP_API int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry);

/* Gives plugins a further table of host functions, which BpHost::get_table then answers: how the
 * compiler library adds "ir" and "emitter". `table` starts with its struct_size and lives for ever,
 * `name` too. The same table again is let pass; another one under the name and version is an
 * error. Any thread. */
BP_API int bp_host_add_table(const char *name, uint32_t version, const void *table);

#ifdef __cplusplus
}
#endif

#endif
