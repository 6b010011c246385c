/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins: listing, activating and diagnosing them. */
#ifndef BACKPLANE_PLUGINS_H
#define BACKPLANE_PLUGINS_H

#include <backplane/api.h>
#include <backplane/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* States of a plugin file found on the search path. */
#define BP_PLUGIN_FOUND    0 /* the descriptor is valid; the plugin is not loaded */
#define BP_PLUGIN_ACTIVE   1 /* initialised in this process */
#define BP_PLUGIN_FAILED   2 /* loading or initialising failed; `reason` says why */
#define BP_PLUGIN_REJECTED 3 /* unusable according to its descriptor, or not a plugin */
#define BP_PLUGIN_SHADOWED 4 /* another plugin of the same name is used, or comes first */
/* The plugin crashed or hung when it was tried out. The plugin is tried again after a while, and as
 * soon as anything that it depends on has changed. */
#define BP_PLUGIN_QUARANTINED 5

/* Returns the name of a state: "found", "active", ...; static. */
BP_API const char *bp_plugin_state_name(int32_t state);

/* A plugin. All strings are borrowed from the list, and "" if absent; plugin.h describes the
 * strings that come from the descriptor. */
typedef struct BpPluginInfo {
  uint64_t struct_size;
  int32_t state;     /* BP_PLUGIN_* */
  int32_t is_static; /* registered with bp_plugin_register_static */
  const char *path;
  const char *reason; /* why the plugin failed, was rejected or is shadowed, and the remedy */
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
  const char *code;    /* code of `reason` (bp_plugin_reason), "ok" if there is no reason */
  const char *warning; /* a problem with the path of a plugin that is used nevertheless */
  const char *nodes;
  const char *files;
  const char *variables;
  const char *isa;
  const char *sanitizer;
  int64_t priority;
  int64_t is_isolated; /* 1: BACKPLANE_ISOLATE isolates the plugin in its own process */
} BpPluginInfo;

typedef struct BpPluginList BpPluginList;

/* Lists the plugins on the search path, in search order. Only descriptors are read: no plugin's
 * code runs. Order: the plugins of the program; the directories of BACKPLANE_PLUGIN_PATH
 * (colon-separated), the user's data directory (~/.local/share/backplane-1/plugins), the system's
 * directory. Within a directory the higher `priority` comes first, then the file name decides.
 * Freed with bp_plugin_list_free. NULL with an error if the part of libbackplane that lists plugins
 * cannot be loaded; the functions below take NULL. */
BP_API BpPluginList *bp_plugin_list(void);
BP_API size_t bp_plugin_list_size(const BpPluginList *list);
/* Returns a plugin, borrowed from the list; NULL with an error for an index that is not below the
 * size. */
BP_API const BpPluginInfo *bp_plugin_list_get(const BpPluginList *list, size_t index);
/* Frees a list and all data borrowed from it; NULL is ignored. */
BP_API void bp_plugin_list_free(BpPluginList *list);

/* Says why there is no plugin, kind of device or target kind `name`. The text has the path and the
 * reason of a plugin that cannot be used; or it says that the name is a kind of device and not a
 * target kind, or the reverse; or, if no plugin has the name, it names the package that has it, if
 * an installed file lists that package. Without a known reason the text is "". A plugin whose
 * descriptor cannot be read is identified by its file: backplane-opencl.so is "opencl". Never NULL;
 * freed with bp_str_free. Any thread. As in all functions of this header, a NULL where none is
 * allowed is an error of kind BP_ERROR_VALUE. */
BP_API char *bp_plugin_explain_absence(const char *name);

/* Loads and initialises a plugin by name, or by path if `name` contains '/'. If several plugins
 * have the name, the first usable one is activated. If the plugin is active already, the call does
 * nothing. If several threads activate a plugin at once, one loads it and the others wait. A new or
 * changed plugin is first tried out in a process of its own. Each call tries again a plugin that
 * failed in that process or could not be loaded. Any thread. */
BP_API int bp_plugin_activate(const char *name);

/* Tries out the new or changed plugins of the device kinds (a NULL-terminated list), up to 16 at
 * once; without this call, the first use of each plugin tries it out. Up to 16 plugins that hang
 * take about as long as one. The call loads no plugin. The result of a failed trial appears in the
 * list, and when the plugin is used. Plugins in use, and kinds that no plugin has, are ignored. Any
 * thread. */
BP_API void bp_plugin_try(const char *const *device_kinds);

/* ---- Diagnosis --------------------------------------------------------------------------- */

/* The stages of using a plugin, in order. */
#define BP_STAGE_FOUND        0
#define BP_STAGE_DESCRIPTOR   1
#define BP_STAGE_ABI          2
#define BP_STAGE_PATH         3
#define BP_STAGE_DEPENDENCIES 4
#define BP_STAGE_PERMISSIONS  5
#define BP_STAGE_PROBE        6
#define BP_STAGE_DEVICES      7
#define BP_STAGE_SELECTED     8
#define BP_STAGE_CODE         9 /* compiling for the targets; bp_plugin_diagnose omits it */

#define BP_SEVERITY_OK      0
#define BP_SEVERITY_NOTE    1
#define BP_SEVERITY_WARNING 2 /* works, but with restrictions */
#define BP_SEVERITY_ERROR   3 /* cannot be used */

/* Returns the name of a stage: "found", "descriptor", ...; static. */
BP_API const char *bp_plugin_stage_name(int32_t stage);

/* A reason for a finding. Codes are stable. All strings are static. */
typedef struct BpPluginReason {
  uint64_t struct_size;
  int32_t stage;    /* BP_STAGE_*: the stage of the problem */
  int32_t severity; /* BP_SEVERITY_* */
  const char *code; /* "library-missing" */
  const char *meaning;
  const char *remedy;
} BpPluginReason;

/* Returns the reasons, by index from 0 on; NULL, without an error, beyond the last; NULL with an
 * error if the library's part `doctor` is not installed. Any thread. */
BP_API const BpPluginReason *bp_plugin_reason(size_t index);

/* A finding about a plugin. Strings are borrowed from the diagnosis, and "" if absent. */
typedef struct BpPluginFinding {
  uint64_t struct_size;
  int32_t stage;
  int32_t severity;
  const char *plugin; /* name of the plugin, or of its file; "" for the search path itself */
  const char *path;
  const char *code;
  const char *text;   /* the problem, or the observation */
  const char *remedy; /* the remedy */
} BpPluginFinding;

typedef struct BpPluginDiagnosis BpPluginDiagnosis;

/* Examines every plugin on the search path, stage by stage up to its devices. Tries each plugin out
 * in a process of its own, regardless of earlier results, and keeps the new results. No plugin is
 * loaded into this process. Up to 16 plugins are tried out at once, so the call takes little more
 * than one deadline for each 16 plugins that hang. Findings are ordered by plugin, in search order,
 * and by stage; freed with bp_plugin_diagnosis_free. */
BP_API BpPluginDiagnosis *bp_plugin_diagnose(void);
BP_API size_t bp_plugin_diagnosis_size(const BpPluginDiagnosis *diagnosis);
/* Returns a finding, borrowed from the diagnosis; NULL with an error beyond the last. */
BP_API const BpPluginFinding *bp_plugin_diagnosis_get(const BpPluginDiagnosis *diagnosis,
                                                      size_t index);
/* Frees a diagnosis and all data borrowed from it; NULL is ignored. */
BP_API void bp_plugin_diagnosis_free(BpPluginDiagnosis *diagnosis);

/* For the program that tries plugins out (backplane-trial), whose process may crash: activates the
 * plugin open as `plugin_fd`, lists its devices and writes a report to `report_fd`. `path` is the
 * plugin's name in messages. Afterwards the process can only exit, which is part of the trial. */
BP_API void bp_plugin_trial(int plugin_fd, const char *path, int report_fd);

/* Treats this process as one with more rights than its user, as if it had been started set-user-ID:
 * the environment and the user's folders are ignored, and files that other users may change are
 * refused. The process's environment is replaced before the first plugin is loaded, because drivers
 * read it. For the program that tries plugins out, and for services that act for other users. This
 * function is called before any other of this header, and cannot be undone. */
BP_API void bp_assume_privileged(void);

/* ---- Plugins and tables within the program ----------------------------------------------- */

/* Registers a plugin that is linked into the program: its descriptor text and its entry point. */
BP_API int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry);

/* Gives plugins a further table of host functions, which BpHost::get_table then returns. The
 * compiler library adds the tables "ir" and "emitter". `table` starts with its struct_size; `table`
 * and `name` live for ever. Adding the same table again is no error; another table with the same
 * name and version is an error. Any thread. */
BP_API int bp_host_add_table(const char *name, uint32_t version, const void *table);

#ifdef __cplusplus
}
#endif

#endif
