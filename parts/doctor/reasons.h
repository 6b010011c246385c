/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of each reason, and its remedy. */
#ifndef BACKPLANE_PARTS_DOCTOR_REASONS_H
#define BACKPLANE_PARTS_DOCTOR_REASONS_H

#include "parts/plugins/reasons.h"

/* Returns the row of a reason; static. */
const BpPluginReason *bp__reason_info(Reason reason);
/* bp_plugin_reason. */
const BpPluginReason *bp__reason_at(size_t index);

#endif
