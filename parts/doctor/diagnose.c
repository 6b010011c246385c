/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnosis: every plugin, stage by stage, with its trial in a process of its own. */

#include "parts/doctor/diagnose.h"

#include "core/registry/installed.h"
#include "parts/plugins/store.h"
#include "parts/doctor/container.h"
#include "parts/doctor/reasons.h"
#include "parts/plugins/isolate.h"
#include "parts/plugins/trial.h"
#include "parts/parallel.h"
#include "core/registry/names.h"
#include "core/system/env.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The subject of a finding: a plugin, or, if NULL, the search path. */
typedef struct Subject {
  BpPluginDiagnosis *diagnosis;
  Plugin *plugin;
  const char *name;
} Subject;

static const char *keep(BpPluginDiagnosis *diagnosis, char *text) {
  g_ptr_array_add(diagnosis->strings, text);
  return text;
}

static void add(const Subject *subject, int32_t stage, Reason reason, char *text, char *remedy) {
  const BpPluginReason *info = bp__reason_info(reason);
  BpPluginDiagnosis *diagnosis = subject->diagnosis;
  BpPluginFinding finding = {
      .struct_size = sizeof finding,
      .stage = stage,
      .severity = info->severity,
      .plugin = subject->name,
      .path = subject->plugin ? subject->plugin->path : "",
      .code = info->code,
      .text = keep(diagnosis, text),
      .remedy = remedy ? keep(diagnosis, remedy) : info->remedy,
  };
  g_array_append_val(diagnosis->findings, finding);
}

static void add_ok(const Subject *subject, int32_t stage, char *text) {
  add(subject, stage, REASON_OK, text, NULL);
}

static void add_reason(const Subject *subject, Reason reason, const char *text) {
  add(subject, bp__reason_info(reason)->stage, reason, g_strdup(text), NULL);
}

/* ---- Before loading ---------------------------------------------------------------------- */

static void add_abi(const Subject *subject) {
  const Descriptor *descriptor = &subject->plugin->descriptor;
  add_ok(subject, BP_STAGE_ABI,
         g_strdup_printf("ABI %s%s%s%s%s", descriptor->abi, *descriptor->isa ? ", for " : "",
                         descriptor->isa, *descriptor->sanitizer ? ", sanitizer " : "",
                         descriptor->sanitizer));
}

/* Adds the stages before `end`, which the plugin passed. */
static void add_passed(const Subject *subject, int32_t end) {
  const Descriptor *descriptor = &subject->plugin->descriptor;
  if (end > BP_STAGE_FOUND)
    add_ok(subject, BP_STAGE_FOUND,
           g_strdup(subject->plugin->entry ? "linked into the program" : subject->plugin->path));
  /* A file for another machine is rejected before its descriptor is read. */
  if (end > BP_STAGE_DESCRIPTOR && *descriptor->name)
    add_ok(
        subject, BP_STAGE_DESCRIPTOR,
        g_strdup_printf("%s %s, %s", descriptor->name, descriptor->version, descriptor->license));
  if (end > BP_STAGE_ABI)
    add_abi(subject);
  if (end > BP_STAGE_PATH && !subject->plugin->warning)
    add_ok(subject, BP_STAGE_PATH, g_strdup("only this user and root may change it"));
  else if (end > BP_STAGE_PATH)
    add_reason(subject, REASON_PATH_WRITABLE, subject->plugin->warning);
}

/* ---- Dependencies and permissions -------------------------------------------------------- */

static char *package_remedy(const Descriptor *descriptor, const char *library) {
  g_autofree char *package = bp__descriptor_package(descriptor, library);
  g_auto(GStrv) alternatives = g_strsplit(library, "|", -1);
  g_autofree char *names = g_strjoinv(" or ", alternatives);
  return package ? g_strdup_printf("install the package %s, which holds %s", package, names)
                 : g_strdup_printf("install the package that holds %s", names);
}

/* Adds the findings about libraries; returns whether all libraries are present. */
static int add_libraries(const Subject *subject, const Trial *trial) {
  const Descriptor *descriptor = &subject->plugin->descriptor;
  int missing = 0;
  guint from = 0;
  for (const char *line; (line = bp__trial_part()->next(trial, "library", &from));) {
    g_auto(GStrv) fields = g_strsplit(line, "\t", 2);
    if (!fields[0] || !fields[1] || !*fields[1])
      continue;
    missing = 1;
    add(subject, BP_STAGE_DEPENDENCIES, REASON_LIBRARY_MISSING, g_strdup(fields[1]),
        package_remedy(descriptor, fields[0]));
  }
  if (!missing)
    add_ok(subject, BP_STAGE_DEPENDENCIES,
           g_strdup(*descriptor->libraries ? descriptor->libraries : "needs no vendor library"));
  return !missing;
}

static char *group_remedy(const struct stat *status) {
  struct group group, *found = NULL;
  char buffer[4096];
  if (!(status->st_mode & S_IWGRP))
    return g_strdup("only its owner may use it: have an administrator change its rights");
  if (getgrgid_r(status->st_gid, &group, buffer, sizeof buffer, &found) || !found)
    return g_strdup_printf("join the group with number %u and log in again",
                           (unsigned)status->st_gid);
  return g_strdup_printf("join the group %s: `sudo usermod -aG %s $USER`, and log in again",
                         group.gr_name, group.gr_name);
}

/* Adds the finding about a node; returns whether this user has access to it. */
static int add_node(const Subject *subject, const char *path) {
  struct stat status;
  if (!access(path, R_OK | W_OK))
    return 1;
  int error = errno;
  add(subject, BP_STAGE_PERMISSIONS, REASON_NODE_DENIED,
      g_strdup_printf("%s: %s", path, g_strerror(error)),
      stat(path, &status) ? NULL : group_remedy(&status));
  return 0;
}

/* Lists the nodes that match a pattern. */
typedef struct Nodes {
  const Subject *subject;
  int count;
  int faults;
} Nodes;

static void visit_node(void *context, const char *path) {
  Nodes *nodes = context;
  nodes->count++;
  nodes->faults += !add_node(nodes->subject, path);
}

/* Adds the findings about nodes; returns whether there is a fault. */
static int add_nodes_of(const Subject *subject, const char *pattern, int is_required, int *work) {
  Nodes nodes = {.subject = subject};
  bp__pattern_visit(pattern, work, visit_node, &nodes);
  if (nodes.count || !is_required || *work <= 0)
    return nodes.faults;
  add(subject, BP_STAGE_PERMISSIONS, REASON_NODE_MISSING,
      g_strdup_printf("there is no %s", pattern), NULL);
  return 1;
}

/* A plugin's `files` below /dev are the nodes of some of its devices: the nodes may be absent, but
 * if a node is present, the user must have access to it. */
static void add_permissions(const Subject *subject) {
  const Descriptor *descriptor = &subject->plugin->descriptor;
  int faults = 0, work = BP_PATTERN_WORK;
  size_t length = 0;
  for (const char *word = descriptor->nodes; (word = bp__words_next(word, &length));) {
    g_autofree char *pattern = g_strndup(word, length);
    faults |= add_nodes_of(subject, pattern, 1, &work);
  }
  length = 0;
  for (const char *word = descriptor->files; (word = bp__words_next(word, &length));) {
    g_autofree char *pattern = g_strndup(word, length);
    if (g_str_has_prefix(pattern, "/dev/"))
      faults |= add_nodes_of(subject, pattern, 0, &work);
  }
  if (!faults)
    add_ok(subject, BP_STAGE_PERMISSIONS,
           g_strdup(*descriptor->nodes ? descriptor->nodes : "requires no device node"));
}

/* ---- Probe and devices ------------------------------------------------------------------- */

/* Adds the findings about devices; returns whether there is a usable device. */
static int add_devices(const Subject *subject, const Trial *trial) {
  int usable = 0;
  guint from = 0;
  for (const char *line; (line = bp__trial_part()->next(trial, "device", &from));) {
    g_auto(GStrv) fields = g_strsplit(line, "\t", 3);
    if (g_strv_length(fields) < 3)
      continue;
    int is_there = *fields[1] == '1';
    usable |= is_there;
    add(subject, BP_STAGE_DEVICES, is_there ? REASON_OK : REASON_DEVICE_UNUSABLE,
        g_strdup_printf("%s %s", fields[0], fields[2]), NULL);
  }
  from = 0;
  for (const char *line; (line = bp__trial_part()->next(trial, "nodevice", &from));) {
    g_auto(GStrv) fields = g_strsplit(line, "\t", 2);
    add(subject, BP_STAGE_DEVICES, REASON_DEVICES_NONE,
        g_strdup_printf("no device of kind %s%s%s", fields[0], fields[1] && *fields[1] ? ": " : "",
                        fields[1] ? fields[1] : ""),
        NULL);
  }
  return usable;
}

/* Returns $XDG_CACHE_HOME or HOME/.cache, where programs usually keep this user's caches, if the
 * folder can neither be written nor created (transfer full); else NULL. */
static char *find_unwritable_home(void) {
  char *path = bp__env_user_folder("XDG_CACHE_HOME", ".cache");
  struct stat status = {0};
  if (!path)
    return NULL;
  g_autofree char *above = g_strdup(path); /* the nearest existing folder of the path */
  while (stat(above, &status) && strcmp(above, "/")) {
    char *slash = strrchr(above, '/');
    slash[slash == above] = '\0';
  }
  if (!S_ISDIR(status.st_mode) || access(above, W_OK | X_OK))
    return path;
  g_free(path);
  return NULL;
}

/* Adds possible reasons in the process' environment why there is no device. */
static void add_surroundings(const Subject *subject, int has_libraries) {
  g_autofree char *folder = has_libraries ? find_unwritable_home() : NULL;
  if (folder)
    add(subject, BP_STAGE_DEVICES, REASON_CACHE_HOME_UNWRITABLE,
        g_strdup_printf("%s cannot be written, and some drivers have no device without a "
                        "folder for their caches",
                        folder),
        NULL);
  else if (bp__container_is_here())
    add(subject, BP_STAGE_DEVICES, REASON_CONTAINER_WITHOUT_DEVICES,
        g_strdup("this process runs in a container, which may not show it the devices or "
                 "libraries of the machine"),
        bp__container_remedy(&subject->plugin->descriptor));
}

/* Adds how this process runs a plugin whose trial succeeded: in the process itself, or isolated. */
static void add_start(const Subject *subject) {
  int is_isolated = bp__isolate_is_wanted(subject->plugin);
  if (is_isolated < 0) {
    add_reason(subject, bp__reason_take(REASON_ISOLATION_IMPOSSIBLE), bp_error_message());
    bp_error_clear();
    return;
  }
  add_ok(subject, BP_STAGE_PROBE,
         g_strdup(is_isolated ? "it starts; it is used in a process of its own (BACKPLANE_ISOLATE)"
                              : "it starts"));
}

static void add_probe(const Subject *subject, const Trial *trial, int has_libraries) {
  const char *text = "";
  Reason fault = bp__trial_part()->find_fault(trial, &text);
  if (trial->verdict != REASON_OK) {
    add_reason(subject, trial->verdict, trial->text);
    return;
  }
  if (fault < NUM_REASONS && fault != REASON_DEVICES_FAILED) {
    add_reason(subject, fault, text);
    return;
  }
  add_start(subject);
  int usable = add_devices(subject, trial);
  if (fault < NUM_REASONS)
    add_reason(subject, fault, text);
  else if (!*subject->plugin->descriptor.devices)
    add_ok(subject, BP_STAGE_DEVICES,
           g_strdup_printf("has no devices of its own; provides %s",
                           subject->plugin->descriptor.provides));
  if (!usable && *subject->plugin->descriptor.devices)
    add_surroundings(subject, has_libraries);
}

static void add_trial(const Subject *subject, const Trial *trial) {
  const char *text;
  Reason fault = bp__trial_part()->find_fault(trial, &text);
  int is_unloadable = fault < NUM_REASONS && bp__reason_info(fault)->stage < BP_STAGE_PERMISSIONS;
  if (is_unloadable) {
    guint from = 0;
    const char *missing = bp__trial_part()->next(trial, "missing", &from);
    add(subject, bp__reason_info(fault)->stage, fault, g_strdup(text),
        missing ? package_remedy(&subject->plugin->descriptor, missing) : NULL);
    return;
  }
  int has_libraries = add_libraries(subject, trial);
  add_permissions(subject);
  add_probe(subject, trial, has_libraries);
}

static void try_out(const Subject *subject, Plugin *file) {
  Trial trial;
  const TrialPart *trials = bp__trial_part();
  if (!trials || trials->run(file, &trial)) {
    add_reason(subject, bp__reason_take(REASON_TRIAL_IMPOSSIBLE), bp_error_message());
    bp_error_clear();
    return;
  }
  trials->store(file, &trial);
  add_trial(subject, &trial);
  trials->clear(&trial);
}

/* ---- One plugin -------------------------------------------------------------------------- */

static void diagnose_file(const Subject *subject) {
  /* The plugin's record is a copy, because another thread may be activating the plugin. */
  Plugin *file = bp__plugin_read(AT_FDCWD, subject->plugin->path, subject->plugin->path, NULL);
  if (file->state != BP_PLUGIN_FOUND || bp__plugin_open(file)) {
    add_reason(subject, bp__reason_take(file->code),
               file->reason ? file->reason : bp_error_message());
    bp_error_clear();
  } else {
    add_passed(subject, BP_STAGE_DEPENDENCIES);
    try_out(subject, file);
  }
  bp__plugin_free(file);
}

/* Diagnoses a plugin of another machine, which tries it out itself. This process must not use the
 * device, since it forks children that use devices. */
static void diagnose_remote(const Subject *subject) {
  add_passed(subject, BP_STAGE_PATH);
  add_ok(subject, BP_STAGE_PROBE,
         g_strdup_printf("it is used on %s (BACKPLANE_REMOTE)", subject->plugin->host));
}

static Subject create_subject(BpPluginDiagnosis *diagnosis, Plugin *plugin) {
  const char *slash = strrchr(plugin->path, '/'), *name = plugin->descriptor.name;
  return (Subject){diagnosis, plugin, *name ? name : (slash ? slash + 1 : plugin->path)};
}

/* The state REJECTED and its reason do not change any more. */
static void diagnose(BpPluginDiagnosis *diagnosis, Plugin *plugin) {
  Subject subject = create_subject(diagnosis, plugin);
  bp__plugins_lock();
  int is_rejected = plugin->state == BP_PLUGIN_REJECTED;
  bp__plugins_unlock();
  if (is_rejected) {
    add_passed(&subject, bp__reason_info(plugin->code)->stage);
    add_reason(&subject, plugin->code, plugin->reason);
  } else if (plugin->entry)
    add_passed(&subject, BP_STAGE_PATH);
  else if (plugin->host)
    diagnose_remote(&subject);
  else
    diagnose_file(&subject);
}

static void add_problems(BpPluginDiagnosis *diagnosis) {
  Subject path = {diagnosis, NULL, ""};
  g_autoptr(GPtrArray) problems = bp__plugins_problems();
  for (guint i = 0; i < problems->len; i++) {
    const SearchProblem *problem = g_ptr_array_index(problems, i);
    add(&path, BP_STAGE_FOUND, problem->reason,
        g_strdup_printf("%s: %s", problem->path, problem->text), NULL);
  }
}

/* ---- All plugins ------------------------------------------------------------------------- */

static BpPluginDiagnosis *create_diagnosis(void) {
  BpPluginDiagnosis *diagnosis = g_new0(BpPluginDiagnosis, 1);
  diagnosis->findings = g_array_new(FALSE, FALSE, sizeof(BpPluginFinding));
  diagnosis->strings = g_ptr_array_new_with_free_func(g_free);
  return diagnosis;
}

/* Moves the findings of `part` to the end, and frees `part`. */
static void append_part(BpPluginDiagnosis *diagnosis, BpPluginDiagnosis *part) {
  g_array_append_vals(diagnosis->findings, part->findings->data, part->findings->len);
  g_ptr_array_extend_and_steal(diagnosis->strings, part->strings);
  g_array_unref(part->findings);
  g_free(part);
}

/* The findings of each plugin, in search order, and the plugins that are diagnosed at the same
 * time. */
typedef struct Rounds {
  GPtrArray *plugins;
  BpPluginDiagnosis **parts; /* NULL: not diagnosed yet */
  GArray *round;             /* guint: indices */
} Rounds;

static void diagnose_one(void *context, size_t at) {
  const Rounds *rounds = context;
  guint index = g_array_index(rounds->round, guint, at);
  rounds->parts[index] = create_diagnosis();
  diagnose(rounds->parts[index], g_ptr_array_index(rounds->plugins, index));
}

/* Whether a diagnosed plugin can be activated, and so shadows later plugins of its name. */
static int is_usable(const BpPluginDiagnosis *part) {
  for (guint i = 0; i < part->findings->len; i++) {
    const BpPluginFinding *finding = &g_array_index(part->findings, BpPluginFinding, i);
    if (finding->severity == BP_SEVERITY_ERROR && finding->stage <= BP_STAGE_PROBE)
      return 0;
  }
  return 1;
}

static void diagnose_shadowed(Rounds *rounds, guint index, const Plugin *first) {
  Plugin *plugin = g_ptr_array_index(rounds->plugins, index);
  BpPluginDiagnosis *part = create_diagnosis();
  Subject subject = create_subject(part, plugin);
  g_autofree char *text = bp__plugin_describe_shadow(first->descriptor.name, first->path);
  add_reason(&subject, REASON_SHADOWED, text);
  rounds->parts[index] = part;
}

/* Whether a plugin is diagnosed regardless of other plugins of its name. */
static int is_settled(const Plugin *plugin) {
  bp__plugins_lock();
  int32_t state = plugin->state;
  bp__plugins_unlock();
  return state == BP_PLUGIN_REJECTED || state == BP_PLUGIN_ACTIVE ||
         state == BP_PLUGIN_INITIALISING;
}

/* Adds a plugin to the round, or postpones it until an earlier plugin of its name is diagnosed, or
 * marks it as shadowed by that plugin. `firsts`: name, or path on another machine -> 1 + index. */
static void find_turn(Rounds *rounds, GHashTable *firsts, guint index) {
  const Plugin *plugin = g_ptr_array_index(rounds->plugins, index);
  const char *name = plugin->host ? plugin->path : plugin->descriptor.name;
  guint first = *name ? GPOINTER_TO_UINT(g_hash_table_lookup(firsts, name)) : 0;
  BpPluginDiagnosis *part = rounds->parts[index];
  if (!first && (!part || is_usable(part)))
    g_hash_table_insert(firsts, (char *)(uintptr_t)name, GUINT_TO_POINTER(1 + index));
  if (part)
    return;
  if (!first || is_settled(plugin))
    g_array_append_val(rounds->round, index);
  else if (rounds->parts[first - 1])
    diagnose_shadowed(rounds, index, g_ptr_array_index(rounds->plugins, first - 1));
}

/* Chooses the plugins of the next round: for each name the first plugin that is not known to be
 * unusable. Returns their number. */
static guint find_round(Rounds *rounds) {
  g_autoptr(GHashTable) firsts = g_hash_table_new(g_str_hash, g_str_equal);
  g_array_set_size(rounds->round, 0);
  for (guint i = 0; i < rounds->plugins->len; i++)
    find_turn(rounds, firsts, i);
  return rounds->round->len;
}

BpPluginDiagnosis *bp__diagnose(void) {
  BpPluginDiagnosis *diagnosis = create_diagnosis();
  bp__plugins_scan_for_report();
  add_problems(diagnosis);
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = g_ptr_array_copy(bp__plugins_all(), NULL, NULL);
  bp__plugins_unlock();
  Rounds rounds = {all, g_new0(BpPluginDiagnosis *, all->len),
                   g_array_new(FALSE, FALSE, sizeof(guint))};
  for (guint count; (count = find_round(&rounds));)
    bp__parallel_for_each(count, diagnose_one, &rounds);
  for (guint i = 0; i < all->len; i++)
    append_part(diagnosis, rounds.parts[i]);
  g_array_unref(rounds.round);
  g_free(rounds.parts);
  return diagnosis;
}
