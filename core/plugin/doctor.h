/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts/doctor, the part of the core that diagnoses plugins. */
#ifndef BACKPLANE_CORE_PLUGIN_DOCTOR_H
#define BACKPLANE_CORE_PLUGIN_DOCTOR_H

#include <backplane/plugins.h>
#include <glib.h>

/* Strings of a finding that are not static are owned by `strings`. */
struct BpPluginDiagnosis {
  GArray *findings; /* BpPluginFinding */
  GPtrArray *strings;
};

/* The part's table. */
typedef struct Doctor {
  BpPluginDiagnosis *(*diagnose)(void);
  const BpPluginReason *(*reason)(size_t index);
} Doctor;

#endif
