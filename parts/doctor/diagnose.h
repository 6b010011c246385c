/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnosis of all plugins. */
#ifndef BACKPLANE_PARTS_DOCTOR_DIAGNOSE_H
#define BACKPLANE_PARTS_DOCTOR_DIAGNOSE_H

#include <backplane/plugins.h>

/* bp_plugin_diagnose. */
BpPluginDiagnosis *bp__diagnose(void);

#endif
