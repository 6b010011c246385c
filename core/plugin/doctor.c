/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the part that diagnoses plugins, and reads its diagnoses. */

#include "core/plugin/doctor.h"

#include "core/registry/given.h"
#include "core/registry/part.h"

#include <backplane/error.h>

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
