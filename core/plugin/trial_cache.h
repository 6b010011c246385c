/* SPDX-License-Identifier: Apache-2.0 */
/* Results of trials, kept for later processes of this user.
 *
 * There is one small file for each plugin, in the user's cache. It is valid only for the key with
 * which it was written, and while the libraries of the trial are unchanged. A cache or a file that
 * cannot be used is treated as absent, with one warning per process. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_CACHE_H

#include "core/system/shared.h"

#include "core/plugin/trial.h"
#include "core/registry/cache.h"

#define BP_HASH_TEXT 65 /* SHA-256 in hexadecimal and a NUL */

#define BP_RECORD_FIRST_LINE "backplane-trial 3"
#define BP_RECORD_QUARANTINE ".quarantine" /* the end of a quarantine file's name */

/* The cache file of one plugin. */
typedef struct TrialCache {
  BpCache folder;
  int lock;                /* -1: not held */
  char name[BP_HASH_TEXT]; /* name of the file; a quarantine's file has a suffix */
  char key[BP_HASH_TEXT];
  char watched[BP_HASH_TEXT]; /* key; "" if a record is only listed */
  int failures;               /* trials in a row that ended in quarantine, as read */
} TrialCache;

/* Opens the folder of all files. Never fails: without a folder no record is found or
 * kept. */
BP__SHARED void bp__trial_cache_folder(BpCache *folder);

/* Returns 1 with *verdict and *text (transfer full, g_free) if a plugin is in quarantine, else 0.
 * For lists: the usual case, no quarantine, is fast, and the files and nodes that the descriptor
 * names are not examined. */
BP__SHARED int bp__trial_cache_quarantine(const BpCache *folder, const Plugin *plugin,
                                          Reason *verdict, char **text);

BP__SHARED void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin);
BP__SHARED void bp__trial_cache_close(TrialCache *cache);

/* Raises the verdict of a valid stored result: 0, or -1 with an error. *is_known: whether there is
 * a valid result. */
BP__SHARED int bp__trial_recall(TrialCache *cache, int *is_known);

/* Logs this thread's error, once per process, and clears it; the process continues without the
 * cache. */
BP__SHARED void bp__trial_cache_warn(void);

/* Computes the key: a hash of everything that is known before a trial and may change its result,
 * except the files and nodes that the descriptor names (identity.c). */
void bp__plugin_key(const Plugin *plugin, char key[BP_HASH_TEXT]);
/* Computes a hash of the files and nodes that the descriptor names: they are patterns, which take
 * time to evaluate. */
void bp__plugin_watched(const Plugin *plugin, char hash[BP_HASH_TEXT]);

/* Appends a description that changes when the file at a path changes, and a newline. */
void bp__identity_append(GString *text, const char *path);
/* Returns the hash of a path's description. */
BP__SHARED void bp__identity_hash(const char *path, char hash[BP_HASH_TEXT]);

#endif
