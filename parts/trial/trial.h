/* SPDX-License-Identifier: Apache-2.0 */
/* Trials of plugins. */
#ifndef BACKPLANE_PARTS_TRIAL_TRIAL_H
#define BACKPLANE_PARTS_TRIAL_TRIAL_H

#include "core/plugin/trial.h"

/* The functions of the part's table (core/plugin/trial_part.h). */
int bp__trial_try(const Plugin *plugin, Trial *trial);
void bp__trial_try_here(int plugin_fd, const char *path);

#endif
