/* SPDX-License-Identifier: Apache-2.0 */
/* Tries a plugin out and keeps the result for later processes. */

#include "parts/trial/trial.h"

#include "core/registry/names.h"
#include "core/registry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* ---- Lines of a report ------------------------------------------------------------------- */

const char *bp__trial_next(const Trial *trial, const char *key, guint *from) {
  const char *value = NULL;
  while (!value && *from < trial->lines->len)
    value = bp__line_value(g_ptr_array_index(trial->lines, (*from)++), key);
  return value;
}

Reason bp__trial_fault(const Trial *trial, const char **text) {
  guint from = 0;
  const char *line = bp__trial_next(trial, "fault", &from);
  const char *tab = line ? strchr(line, '\t') : NULL;
  if (!tab)
    return NUM_REASONS;
  g_autofree char *code = g_strndup(line, (gsize)(tab - line));
  *text = tab + 1;
  return bp__reason_by_code(code);
}

void bp__trial_clear(Trial *trial) {
  g_free(trial->text);
  g_ptr_array_unref(trial->lines);
}

/* ---- Records ----------------------------------------------------------------------------- */

/* Whether another process has the lock. A wait for such a lock ends; any other failure, such as
 * that of a file system without locks, stays. */
static int is_locked(int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR);
}

/* Keeps other processes from trying the same plugin; waits for at most `milliseconds`. Not a
 * blocking flock: the process that holds the lock may be stopped. */
static void lock(TrialCache *cache, int milliseconds) {
  if (cache->folder.fd < 0)
    return;
  g_autofree char *name = g_strconcat(cache->name, ".lock", NULL);
  cache->lock =
      openat(cache->folder.fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (cache->lock < 0) {
    bp_error_raise(BP_ERROR_IO, "cannot write \"%s/%s\": %s", cache->folder.path, name,
                   g_strerror(errno));
    bp__trial_cache_warn();
    return;
  }
  futimens(cache->lock, NULL); /* the file is in use, so it is not removed with old files */
  const struct timespec pause = {.tv_nsec = 5000000};
  for (int waited = 0; is_locked(cache->lock) && waited < milliseconds; waited += 5)
    nanosleep(&pause, NULL);
}

static GString *format_record(const TrialCache *cache, const Trial *trial) {
  GString *text = g_string_new(BP_RECORD_FIRST_LINE "\n");
  g_string_append_printf(text, "key=%s\nwatched=%s\ntime=%" G_GINT64_FORMAT "\ndeadline=%d\n",
                         cache->key, cache->watched, (gint64)time(NULL), bp__trial_deadline());
  g_string_append_printf(text, "failures=%d\nverdict=%s\ntext=%s\n",
                         trial->verdict == REASON_OK ? 0 : cache->failures + 1,
                         bp__reason_code(trial->verdict), trial->text);
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  guint from = 0;
  for (const char *path; (path = bp__trial_next(trial, "uses", &from));) {
    char hash[BP_HASH_TEXT];
    g_autofree char *bytes = g_strcompress(path);
    if (!g_hash_table_add(seen, (char *)(uintptr_t)path))
      continue;
    bp__identity_hash(bytes, hash);
    g_string_append_printf(text, "uses=%s %s\n", hash, path);
  }
  return text;
}

/* A plugin has one record: the result of its last trial. */
static void write_record(const TrialCache *cache, const Trial *trial) {
  if (cache->folder.fd < 0 || trial->is_inconclusive)
    return;
  g_autoptr(GString) text = format_record(cache, trial);
  g_autofree char *bad = g_strconcat(cache->name, BP_RECORD_QUARANTINE, NULL);
  int is_good = trial->verdict == REASON_OK;
  if (bp__cache_store(&cache->folder, is_good ? cache->name : bad, text->str, text->len))
    bp__trial_cache_warn();
  else
    unlinkat(cache->folder.fd, is_good ? bad : cache->name, 0);
}

void bp__trial_store(const Plugin *plugin, const Trial *trial) {
  TrialCache cache;
  bp__trial_cache_open(&cache, plugin);
  write_record(&cache, trial);
  bp__trial_cache_close(&cache);
}

/* ---- Requiring a trial ------------------------------------------------------------------- */

static int raise_verdict(Reason verdict, const char *text) {
  return verdict == REASON_OK ? 0 : bp__reason_raise(verdict, "%s", text);
}

/* If the helper program is not installed, plugins are used without a trial; after any other failure
 * of the trial, a plugin is not loaded. */
static int go_on_without(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  Reason reason = bp__reason_take(REASON_TRIAL_IMPOSSIBLE);
  bp__reason_note(reason);
  if (reason != REASON_HELPER_MISSING)
    return -1;
  if (!atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "plugins are used without having been tried out: %s",
            bp_error_message());
  bp_error_clear();
  bp__reason_take(REASON_OK);
  return 0;
}

/* A plugin that failed in an orderly way is not loaded into this process, because its behaviour
 * after the failure was not tried. No record is stored, so that the reason is always up to date. */
static int raise_fault(const Trial *trial) {
  const char *text;
  Reason fault = bp__trial_fault(trial, &text);
  return fault == NUM_REASONS || fault == REASON_DEVICES_FAILED ? 0 : raise_verdict(fault, text);
}

int bp__trial_learn(const Plugin *plugin, TrialCache *cache) {
  Trial trial;
  int is_known;
  lock(cache, bp__trial_deadline());
  int rc = bp__trial_recall(cache, &is_known); /* another process may have tried the plugin */
  if (is_known)
    return rc;
  if (bp__trial_try(plugin, &trial))
    return go_on_without();
  write_record(cache, &trial);
  rc = raise_verdict(trial.verdict, trial.text) || raise_fault(&trial) ? -1 : 0;
  bp__trial_clear(&trial);
  return rc;
}
