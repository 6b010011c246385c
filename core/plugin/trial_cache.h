/* SPDX-License-Identifier: Apache-2.0 */
/* What trials found, kept for later processes of this user.
 *
 * One small file for each plugin, in the user's cache, readable for its owner alone, replaced as a
 * whole. It counts only for the key that it was written with, and while the libraries that the
 * trial saw are unchanged; anything else about it that is not as it should be makes it as if it
 * were not there, with one warning a process. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H

#include "core/plugin/trial.h"

#define BP_HASH_TEXT 65 /* SHA-256 in hexadecimal and a NUL */

/* The file of one plugin. */
typedef struct TrialCache {
  int directory;           /* -1: nothing is kept */
  int lock;                /* -1: not held */
  char name[BP_HASH_TEXT]; /* of the file; one of a quarantine is called so with a suffix */
  char key[BP_HASH_TEXT];
  int failures; /* trials in a row that ended in quarantine, as read */
} TrialCache;

/* Never fails: where no cache can be used, nothing is found and nothing kept. */
void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin);
void bp__trial_cache_close(TrialCache *cache);

/* Holds off other processes that are about to try the same plugin, for at most `milliseconds`. */
void bp__trial_cache_lock(TrialCache *cache, int milliseconds);

/* 1: *verdict and *text (transfer full, free) are what counts now; 0: nothing is known. */
int bp__trial_cache_read(TrialCache *cache, Reason *verdict, char **text);

/* The directory of all files, opened; -1 if there is none. */
int bp__trial_cache_directory(void);

/* As bp__trial_cache_read, of a quarantine alone; quick where there is none, as there usually is.
 */
int bp__trial_cache_quarantine(int directory, const Plugin *plugin, Reason *verdict, char **text);

/* Keeps a trial's verdict. */
void bp__trial_cache_write(const TrialCache *cache, const Trial *trial);

/* The key: a hash of all that is known before a trial and may change its outcome (identity.c). */
void bp__plugin_key(const Plugin *plugin, char key[BP_HASH_TEXT]);

/* Appends what tells a file from what was there before under its path, and a line's end. */
void bp__identity_append(GString *text, const char *path);

#endif
