/* SPDX-License-Identifier: Apache-2.0 */
/* Trials of plugins: the functions of the part's table (parts/plugins/trial.h). */
#ifndef BACKPLANE_PARTS_TRIAL_TRIAL_H
#define BACKPLANE_PARTS_TRIAL_TRIAL_H

#include "parts/plugins/trial.h"

int bp__trial_learn(const Plugin *plugin, TrialCache *cache);
int bp__trial_try(const Plugin *plugin, Trial *trial);
void bp__trial_store(const Plugin *plugin, const Trial *trial);
const char *bp__trial_next(const Trial *trial, const char *key, guint *from);
Reason bp__trial_fault(const Trial *trial, const char **text);
void bp__trial_clear(Trial *trial);
void bp__trial_try_here(int plugin_fd, const char *path, int fd);

#endif
