/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/registry/installed.h"
#include "parts/plugins/store.h"
#include "core/registry/part.h"
#include "parts/doctor/diagnose.h"
#include "parts/doctor/reasons.h"

static const Doctor doctor = {.diagnose = bp__diagnose, .reason = bp__reason_at};

BP__PART(BP_PART_DOCTOR, doctor);
