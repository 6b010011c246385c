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
#define BP_PLUGIN_SHADOWED 4 /* another of the same name is used, or comes first */
/* It crashed, hung or the like when it was tried out; it is tried again after a while, and as soon
 * as anything changed on which it depends. */
#define BP_PLUGIN_QUARANTINED 5

/* "found", "active", ...; static. */
BP_API const char *bp_plugin_state_name(int32_t state);

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
  const char *code;    /* the code of `reason` (bp_plugin_reason), "ok" if there is none */
  const char *warning; /* what is wrong with its path although it is used */
  const char *nodes;
  const char *files;
  const char *variables;
  const char *isa;
  const char *sanitizer;
  int64_t priority;
  int64_t is_isolated; /* 1: BACKPLANE_ISOLATE has it run in a process of its own */
} BpPluginInfo;

typedef struct BpPluginList BpPluginList;

/* A snapshot of what is on the search path, in search order, reading descriptors only: no plugin's
 * code runs. Order: those of the program; the directories of BACKPLANE_PLUGIN_PATH
 * (colon-separated), the user's data directory (~/.local/share/backplane/plugins), the system's; in
 * a directory the higher `priority`, then the file's name. Freed with bp_plugin_list_free. */
BP_API BpPluginList *bp_plugin_list(void);
BP_API size_t bp_plugin_list_size(const BpPluginList *list);
/* One of them, borrowed from the list; NULL with an error for an index that is not below the
 * size. */
BP_API const BpPluginInfo *bp_plugin_list_get(const BpPluginList *list, size_t index);
/* Frees a list and all that was borrowed from it; NULL is ignored. */
BP_API void bp_plugin_list_free(BpPluginList *list);

/* Why there is no plugin, kind of device or target kind `name`: the path and the reason of a plugin
 * that cannot be used; that the name is of a kind of device and not of a target kind, or the other
 * way round; where no plugin has it, the package that does, if an installed file names it; ""
 * otherwise. One whose descriptor cannot be read is known by its file: backplane-opencl.so is of
 * "opencl". Never NULL; freed with bp_str_free. Any thread. As everywhere here a NULL where none is
 * allowed is an error of kind BP_ERROR_VALUE. */
BP_API char *bp_plugin_explain_absence(const char *name);

/* Loads and initialises a plugin by name, or by path if `name` contains '/'. Of several plugins of
 * the name it is the first that can be used. Once it is active this does nothing; of several
 * threads one does it and the others wait. A plugin that is new or changed is first tried out in a
 * process of its own; one that failed there, or could not be loaded, is tried again by each call.
 * Any thread. */
BP_API int bp_plugin_activate(const char *name);

/* Tries out, up to 16 at once, the plugins of the device kinds (a NULL-terminated list) that are
 * new or changed, as the first use of each would one after another: up to 16 that hang take about
 * as long as one. Loads none; what speaks against one is met when it is used, and listed. Plugins
 * that are in use, and kinds that no plugin has, are ignored. Any thread. */
BP_API void bp_plugin_try(const char *const *device_kinds);

/* ---- Diagnosis --------------------------------------------------------------------------- */

/* What a plugin goes through, in this order. */
#define BP_STAGE_FOUND        0
#define BP_STAGE_DESCRIPTOR   1
#define BP_STAGE_ABI          2
#define BP_STAGE_PATH         3
#define BP_STAGE_DEPENDENCIES 4
#define BP_STAGE_PERMISSIONS  5
#define BP_STAGE_PROBE        6
#define BP_STAGE_DEVICES      7
#define BP_STAGE_SELECTED     8
#define BP_STAGE_CODE         9 /* a model is compiled for its targets; bp_plugin_diagnose does not */

#define BP_SEVERITY_OK      0
#define BP_SEVERITY_NOTE    1
#define BP_SEVERITY_WARNING 2 /* works, but not as well as it should */
#define BP_SEVERITY_ERROR   3 /* cannot be used */

/* "found", "descriptor", ...; static. */
BP_API const char *bp_plugin_stage_name(int32_t stage);

/* Something that can be the matter. Codes are stable. All strings are static. */
typedef struct BpPluginReason {
  uint64_t struct_size;
  int32_t stage;    /* BP_STAGE_*: where it shows */
  int32_t severity; /* BP_SEVERITY_* */
  const char *code; /* "library-missing" */
  const char *meaning;
  const char *remedy;
} BpPluginReason;

/* All reasons, by index from 0 on; NULL, without an error, beyond the last; NULL with an
 * error if the library's part `doctor` is not installed. Any thread. */
BP_API const BpPluginReason *bp_plugin_reason(size_t index);

/* One thing found out about one plugin. Strings are borrowed from the diagnosis, "" when absent. */
typedef struct BpPluginFinding {
  uint64_t struct_size;
  int32_t stage;
  int32_t severity;
  const char *plugin; /* its name, or its file's where it has none; "" for the search path itself */
  const char *path;
  const char *code;
  const char *text;   /* what is the matter, or what was found */
  const char *remedy; /* what to do about it */
} BpPluginFinding;

typedef struct BpPluginDiagnosis BpPluginDiagnosis;

/* Looks at every plugin on the search path, stage by stage up to its devices, and tries each out in
 * a process of its own, whatever was learned of it before; what is learned now is kept. Nothing is
 * loaded into this process. Up to 16 are tried out at once, so it is there soon after one deadline
 * for each 16 that hang. Findings are ordered by plugin, in search order, and by stage; freed with
 * bp_plugin_diagnosis_free. */
BP_API BpPluginDiagnosis *bp_plugin_diagnose(void);
BP_API size_t bp_plugin_diagnosis_size(const BpPluginDiagnosis *diagnosis);
/* One of them, borrowed from the diagnosis; NULL with an error beyond the last. */
BP_API const BpPluginFinding *bp_plugin_diagnosis_get(const BpPluginDiagnosis *diagnosis,
                                                      size_t index);
/* Frees a diagnosis and all that was borrowed from it; NULL is ignored. */
BP_API void bp_plugin_diagnosis_free(BpPluginDiagnosis *diagnosis);

/* For the program that tries plugins out (backplane-trial), in a process that may crash: activates
 * the plugin open as `plugin_fd`, lists its devices and writes what happens to `report_fd`. `path`
 * is its name in messages. The process is of no use afterwards but to end, which is part of the
 * trial. */
BP_API void bp_plugin_trial(int plugin_fd, const char *path, int report_fd);

/* Makes this process one with more rights than its user, as if it had been started set-user-ID: the
 * environment and the user's folders are ignored, and what others may change is refused. For the
 * program that tries plugins out, and for services that act for other users. Call it before
 * anything else here; it cannot be taken back. */
BP_API void bp_assume_privileged(void);

/* ---- In the program ---------------------------------------------------------------------- */

/* Registers a plugin that is linked into the program: its descriptor text and its entry point. */
BP_API int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry);

/* Gives plugins a further table of host functions, which BpHost::get_table then answers: how the
 * compiler library adds "ir" and "emitter". `table` starts with its struct_size and lives for ever,
 * `name` too. The same table again is no error; another one under the name and version is an
 * error. Any thread. */
BP_API int bp_host_add_table(const char *name, uint32_t version, const void *table);

#ifdef __cplusplus
}
#endif

#endif
