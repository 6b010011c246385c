/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/registry/part.h"
#include "parts/trial/report.h"
#include "parts/trial/trial.h"

static const TrialPart table = {
    .learn = bp__trial_learn,
    .run = bp__trial_try,
    .store = bp__trial_store,
    .next = bp__trial_next,
    .find_fault = bp__trial_fault,
    .clear = bp__trial_clear,
    .try_here = bp__trial_try_here,
    .report_stage = bp__trial_report_stage,
    .report = bp__trial_report,
};

BP__PART(BP_PART_TRIAL, table);
