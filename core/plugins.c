/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions about plugins, which load the parts plugins and doctor. */

#include "core/registry/argument.h"
#include "core/registry/installed.h"
#include "core/registry/part.h"
#include "core/system/file.h"
#include "core/system/trust.h"

#include <backplane/error.h>
#include <string.h>

/* ---- Names ------------------------------------------------------------------------------- */

const char *bp_plugin_state_name(int32_t state) {
  static const char names[][12] = {"found",    "active",   "failed",
                                   "rejected", "shadowed", "quarantined"};
  return state >= 0 && state < (int32_t)(sizeof names / sizeof *names) ? names[state] : "unknown";
}

const char *bp_plugin_stage_name(int32_t stage) {
  static const char names[][13] = {"found",        "descriptor",  "abi",   "path",
                                   "dependencies", "permissions", "probe", "devices",
                                   "selected",     "code"};
  return stage >= 0 && stage < (int32_t)(sizeof names / sizeof *names) ? names[stage] : "unknown";
}

/* ---- Lists and activation ---------------------------------------------------------------- */

BpPluginList *bp_plugin_list(void) {
  const Installed *installed = bp__installed();
  return installed ? installed->list() : NULL;
}

size_t bp_plugin_list_size(const BpPluginList *list) {
  return BP_NOT_NULL(list) ? list->size : 0;
}

const BpPluginInfo *bp_plugin_list_get(const BpPluginList *list, size_t index) {
  if (!BP_NOT_NULL(list))
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
  const Installed *installed = BP_NOT_NULL(name) ? bp__installed() : NULL;
  return installed ? installed->activate(name) : -1;
}

void bp_plugin_try(const char *const *device_kinds) {
  const Installed *installed = BP_NOT_NULL(device_kinds) ? bp__installed() : NULL;
  if (installed)
    installed->try_kinds(device_kinds);
}

int bp_plugin_register_static(const char *descriptor, BpPluginEntry entry) {
  const Installed *installed =
      BP_NOT_NULL(descriptor) && BP_NOT_NULL(entry) ? bp__installed() : NULL;
  return installed ? installed->register_static(descriptor, entry) : -1;
}

/* ---- Trials and diagnoses ---------------------------------------------------------------- */

void bp_plugin_trial(int plugin_fd, const char *path, int fd) {
  const Installed *installed = bp__installed();
  if (installed && !installed->try_here(plugin_fd, path, fd))
    return;
  g_autofree char *line = g_strdup_printf("impossible=%s\n", bp_error_message());
  bp__write_all(fd, line, strlen(line));
}

void bp_assume_privileged(void) {
  bp__assume_privileged();
}

/* The part doctor uses functions of the part plugins. */
static const Doctor *find_doctor(void) {
  return bp__installed() ? bp__part_table(BP_PART_DOCTOR) : NULL;
}

const BpPluginReason *bp_plugin_reason(size_t index) {
  const Doctor *doctor = find_doctor();
  return doctor ? doctor->reason(index) : NULL;
}

BpPluginDiagnosis *bp_plugin_diagnose(void) {
  const Doctor *doctor = find_doctor();
  return doctor ? doctor->diagnose() : NULL;
}

size_t bp_plugin_diagnosis_size(const BpPluginDiagnosis *diagnosis) {
  return BP_NOT_NULL(diagnosis) ? diagnosis->findings->len : 0;
}

const BpPluginFinding *bp_plugin_diagnosis_get(const BpPluginDiagnosis *diagnosis, size_t index) {
  if (!BP_NOT_NULL(diagnosis))
    return NULL;
  if (index < diagnosis->findings->len)
    return &g_array_index(diagnosis->findings, BpPluginFinding, index);
  bp_error_raise(BP_ERROR_INDEX, "the diagnosis has no finding %zu: it has %u", index,
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
