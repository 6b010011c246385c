/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/plugin/trial_part.h"
#include "core/registry/part.h"
#include "parts/trial/trial.h"

static const TrialPart table = {.run = bp__trial_try, .try_here = bp__trial_try_here};

BP__PART(BP_PART_TRIAL, table);
