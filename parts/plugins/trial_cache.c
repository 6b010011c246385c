/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files with the results of trials, which parts/trial/learn.c writes.
 *
 *   backplane-trial 3
 *   key=HASH
 *   watched=HASH            of the files and nodes that the descriptor names
 *   time=SECONDS            since 1970
 *   deadline=MILLISECONDS   the trial's deadline
 *   failures=N              quarantines in a row
 *   verdict=CODE            "ok" or a trial's verdict
 *   text=WHY
 *   uses=HASH PATH          a library that the trial saw, or a directory in which the loader
 *                           searched, and its identity at that time; PATH is escaped as in C
 */

#include "parts/plugins/trial.h"

#include "core/registry/names.h"
#include "core/registry/log.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The duration of a quarantine if none of its conditions changes, by the number of failures in a
 * row. */
static const int64_t quarantine_seconds[] = {60, 600, 3600, 86400};

void bp__trial_cache_warn(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "plugins are tried again, because earlier results cannot be used: %s",
            bp_error_message());
  bp_error_clear();
}

/* ---- Opening ----------------------------------------------------------------------------- */

void bp__trial_cache_folder(BpCache *folder) {
  if (bp__cache_open(folder, "plugins"))
    bp__trial_cache_warn();
}

static void name_file(const Plugin *plugin, char name[BP_HASH_TEXT]) {
  g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, plugin->path, -1);
  g_strlcpy(name, hash, BP_HASH_TEXT);
}

void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin) {
  *cache = (TrialCache){.lock = -1};
  bp__trial_cache_folder(&cache->folder);
  if (cache->folder.fd < 0)
    return;
  name_file(plugin, cache->name);
  bp__plugin_key(plugin, cache->key);
  bp__plugin_watched(plugin, cache->watched);
}

void bp__trial_cache_close(TrialCache *cache) {
  if (cache->lock >= 0)
    close(cache->lock);
  bp__cache_close(&cache->folder);
}

/* ---- Lines of "key=value" ---------------------------------------------------------------- */

char *bp__line_next(char **rest) {
  char *line = *rest;
  if (!*line)
    return NULL;
  char *end = line + strcspn(line, "\n");
  *rest = *end ? end + 1 : end;
  *end = '\0';
  return line;
}

const char *bp__line_value(const char *line, const char *key) {
  size_t length = strlen(key);
  return !strncmp(line, key, length) && line[length] == '=' ? line + length + 1 : NULL;
}

/* ---- Reading ----------------------------------------------------------------------------- */

void bp__identity_hash(const char *path, char hash[BP_HASH_TEXT]) {
  g_autoptr(GString) identity = g_string_new(NULL);
  bp__identity_append(identity, path);
  g_autofree char *text = g_compute_checksum_for_string(G_CHECKSUM_SHA256, identity->str, -1);
  g_strlcpy(hash, text, BP_HASH_TEXT);
}

static int is_unchanged(const char *used) {
  char hash[BP_HASH_TEXT];
  if (strlen(used) < BP_HASH_TEXT || used[BP_HASH_TEXT - 1] != ' ')
    return 0;
  g_autofree char *path = g_strcompress(used + BP_HASH_TEXT);
  bp__identity_hash(path, hash);
  return !memcmp(used, hash, BP_HASH_TEXT - 1);
}

/* A record; its strings are borrowed from the lines. */
typedef struct Record {
  Reason verdict;
  const char *key;
  const char *text;
  int64_t time;
  int deadline;
  int failures;
  int has_changed; /* a watched file of the plugin, or a library of the trial, has changed */
} Record;

static void read_line(const TrialCache *cache, const char *line, Record *record) {
  const char *value;
  if ((value = bp__line_value(line, "key")))
    record->key = value;
  else if ((value = bp__line_value(line, "watched")))
    record->has_changed |= *cache->watched && strcmp(value, cache->watched);
  else if ((value = bp__line_value(line, "time")))
    record->time = g_ascii_strtoll(value, NULL, 10);
  else if ((value = bp__line_value(line, "deadline")))
    record->deadline = (int)g_ascii_strtoll(value, NULL, 10);
  else if ((value = bp__line_value(line, "failures")))
    record->failures = (int)CLAMP(g_ascii_strtoll(value, NULL, 10), 0, 1000);
  else if ((value = bp__line_value(line, "verdict")))
    record->verdict = bp__reason_by_code(value);
  else if ((value = bp__line_value(line, "text")))
    record->text = value;
  else if ((value = bp__line_value(line, "uses")))
    record->has_changed = record->has_changed || !is_unchanged(value);
}

/* Whether the record was made under the present conditions. */
static int is_current(const TrialCache *cache, const Record *record) {
  int has_more_time =
      record->verdict == REASON_TIMED_OUT && record->deadline < bp__trial_deadline();
  return !strcmp(record->key, cache->key) && !record->has_changed && !has_more_time &&
         (record->verdict == REASON_OK || bp__trial_is_verdict(record->verdict));
}

/* Reads the lines, and modifies them, up to the first line that makes the record invalid. The key
 * comes first: libraries are compared only if the key matches. */
static int read_record(const TrialCache *cache, char *lines, Record *record) {
  *record = (Record){.verdict = NUM_REASONS, .key = "", .text = ""};
  const char *line = bp__line_next(&lines);
  if (!line || strcmp(line, BP_RECORD_FIRST_LINE))
    return 0;
  while ((line = bp__line_next(&lines))) {
    read_line(cache, line, record);
    if (strcmp(record->key, cache->key) || record->has_changed)
      return 0;
  }
  return is_current(cache, record);
}

/* Returns the seconds left of the quarantine; 0 after its end. A clock that was set back ends the
 * quarantine. */
static int64_t seconds_left(const Record *record) {
  int last = (int)G_N_ELEMENTS(quarantine_seconds) - 1;
  int64_t since = (int64_t)time(NULL) - record->time;
  int64_t lasts = quarantine_seconds[CLAMP(record->failures - 1, 0, last)];
  return since < 0 || since >= lasts ? 0 : lasts - since;
}

/* Applies a record. Returns 0 if the record has no verdict, or has expired; its failures still
 * count. */
static int apply(TrialCache *cache, const Record *record, Reason *verdict, char **text) {
  cache->failures = record->failures;
  *verdict = record->verdict;
  if (record->verdict == REASON_OK) {
    *text = g_strdup("");
    return 1;
  }
  int64_t left = seconds_left(record);
  if (!left)
    return 0;
  *text = g_strdup_printf("%s (it is tried again in %" G_GINT64_FORMAT " s, when the plugin, a "
                          "library or a device changes, or by `backplane doctor`)",
                          record->text, left);
  return 1;
}

static int read_file(TrialCache *cache, const char *suffix, Reason *verdict, char **text) {
  g_autofree char *name = g_strconcat(cache->name, suffix, NULL);
  char *lines;
  size_t size;
  if (bp__cache_load(&cache->folder, name, &lines, &size))
    bp__trial_cache_warn();
  if (!lines)
    return 0;
  Record record;
  int rc = read_record(cache, lines, &record) && apply(cache, &record, verdict, text);
  free(lines);
  return rc;
}

int bp__trial_recall(TrialCache *cache, int *is_known) {
  Reason verdict;
  char *text;
  *is_known = read_file(cache, BP_RECORD_QUARANTINE, &verdict, &text) ||
              read_file(cache, "", &verdict, &text);
  if (!*is_known)
    return 0;
  int rc = verdict == REASON_OK ? 0 : bp__reason_raise(verdict, "%s", text);
  g_free(text);
  return rc;
}

int bp__trial_cache_quarantine(const BpCache *folder, const Plugin *plugin, Reason *verdict,
                               char **text) {
  TrialCache cache = {.folder = *folder, .lock = -1};
  name_file(plugin, cache.name);
  g_autofree char *name = g_strconcat(cache.name, BP_RECORD_QUARANTINE, NULL);
  if (folder->fd < 0 || faccessat(folder->fd, name, F_OK, 0))
    return 0;
  bp__plugin_key(plugin, cache.key);
  return read_file(&cache, BP_RECORD_QUARANTINE, verdict, text);
}
