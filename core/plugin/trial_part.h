/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the core that runs trials, parts/trial. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_PART_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_PART_H

#include "core/plugin/trial.h"

/* The part's table. */
typedef struct TrialPart {
  /* bp__trial_run. */
  int (*run)(const Plugin *plugin, Trial *trial);
  /* In the process of a trial, whose report has begun: the trial of an open file. */
  void (*try_here)(int plugin_fd, const char *path);
} TrialPart;

#endif
