/* SPDX-License-Identifier: Apache-2.0 */
/* What trials found, kept for later processes of this user.
 *
 * One small file for each plugin, in the user's cache. It counts only for the key that it was
 * written with, and while the libraries that the trial saw are unchanged. A cache or a file that
 * cannot be used is as if it were not there, with one warning a process. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H

#include "core/plugin/trial.h"
#include "core/registry/cache.h"

#define BP_HASH_TEXT 65 /* SHA-256 in hexadecimal and a NUL */

/* The file of one plugin. */
typedef struct TrialCache {
  BpCache folder;
  int lock;                /* -1: not held */
  char name[BP_HASH_TEXT]; /* of the file; one of a quarantine is called so with a suffix */
  char key[BP_HASH_TEXT];
  char watched[BP_HASH_TEXT]; /* "" when a record is only to be listed */
  int failures;               /* trials in a row that ended in quarantine, as read */
} TrialCache;

/* The folder of all files. Never fails: where there is none, nothing is found and nothing kept. */
void bp__trial_cache_folder(BpCache *folder);

/* As bp__trial_cache_read, of a quarantine alone and for a list: quick where there is none, as
 * there usually is, and without a look at the files and nodes that the descriptor names. */
int bp__trial_cache_quarantine(const BpCache *folder, const Plugin *plugin, Reason *verdict,
                               char **text);

void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin);
void bp__trial_cache_close(TrialCache *cache);

/* Holds off other processes that are about to try the same plugin, for at most `milliseconds`. */
void bp__trial_cache_lock(TrialCache *cache, int milliseconds);

/* 1: *verdict and *text (transfer full, g_free) are what counts now; 0: nothing is known. */
int bp__trial_cache_read(TrialCache *cache, Reason *verdict, char **text);

/* Keeps a trial's verdict, if it is conclusive. */
void bp__trial_cache_write(const TrialCache *cache, const Trial *trial);

/* The key: a hash of all that is known before a trial and may change its outcome, but the files and
 * nodes that the descriptor names (identity.c). */
void bp__plugin_key(const Plugin *plugin, char key[BP_HASH_TEXT]);
/* A hash of those: patterns of a descriptor, which take a moment. */
void bp__plugin_watched(const Plugin *plugin, char hash[BP_HASH_TEXT]);

/* Appends what tells a file from what was there before under its path, and a line's end. */
void bp__identity_append(GString *text, const char *path);

#endif
