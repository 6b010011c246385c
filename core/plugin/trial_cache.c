/* SPDX-License-Identifier: Apache-2.0 */
/* The files of what was learned.
 *
 *   backplane-learned 1
 *   key=HASH
 *   time=SECONDS            since 1970
 *   deadline=MILLISECONDS   that it had
 *   failures=N              quarantines in a row
 *   verdict=CODE            "ok" or a trial's verdict
 *   text=WHY
 *   uses=HASH PATH          a library that the trial saw, and its identity then
 *   end
 */

#include "core/plugin/trial_cache.h"

#include "core/registry/cache_dir.h"
#include "core/registry/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define FIRST_LINE "backplane-learned 1"
#define QUARANTINE ".quarantine"
#define OLD_DAYS   90
#define FILE_MAX   (1024 * 1024)

/* How long a quarantine lasts when nothing changes that would end it, by failures in a row. */
static const int64_t quarantine_seconds[] = {60, 600, 3600, 86400};

/* Once a process: it goes on without. */
static void warn_once(const char *why) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "plugins are tried out anew, without what was learned of them: %s",
            why);
}

static void warn_errno(const char *doing, const char *name) {
  g_autofree char *text =
      g_strdup_printf("cannot %s %s%s: %s", doing, *name == '/' ? "" : "the cache's plugins/", name,
                      g_strerror(errno));
  warn_once(text);
}

/* ---- Opening ----------------------------------------------------------------------------- */

int bp__trial_cache_directory(void) {
  char path[PATH_MAX];
  if (bp__cache_dir("plugins", path, sizeof path)) {
    warn_once(bp_error_message());
    bp_error_clear();
    return -1;
  }
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    warn_errno("open", path);
  return directory;
}

static void name_file(const Plugin *plugin, char name[BP_HASH_TEXT]) {
  g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, plugin->path, -1);
  g_strlcpy(name, hash, BP_HASH_TEXT);
}

void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin) {
  *cache = (TrialCache){.directory = bp__trial_cache_directory(), .lock = -1};
  if (cache->directory < 0)
    return;
  name_file(plugin, cache->name);
  bp__plugin_key(plugin, cache->key);
}

void bp__trial_cache_close(TrialCache *cache) {
  if (cache->lock >= 0)
    close(cache->lock);
  if (cache->directory >= 0)
    close(cache->directory);
}

/* Not a waiting flock: its holder may be stopped. */
void bp__trial_cache_lock(TrialCache *cache, int milliseconds) {
  if (cache->directory < 0)
    return;
  g_autofree char *name = g_strconcat(cache->name, ".lock", NULL);
  cache->lock =
      openat(cache->directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (cache->lock < 0) {
    warn_errno("write", name);
    return;
  }
  const struct timespec pause = {.tv_nsec = 5000000};
  for (int waited = 0; flock(cache->lock, LOCK_EX | LOCK_NB) && waited < milliseconds; waited += 5)
    nanosleep(&pause, NULL);
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* The whole file if it is private to this user (transfer full); NULL if not, or if there is none.
 */
static char *read_private(int directory, const char *name) {
  struct stat status;
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno != ENOENT)
      warn_errno("read", name);
    return NULL;
  }
  char *text = NULL;
  if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) || status.st_size > FILE_MAX)
    warn_once("a file in its place is not this user's own, or not of its form");
  else if ((text = calloc(1, (size_t)status.st_size + 1)) &&
           read(fd, text, (size_t)status.st_size) != status.st_size) {
    free(text);
    text = NULL;
  }
  close(fd);
  return text;
}

/* The value of a line `key=value`; NULL if it is another. */
static const char *value_of(const char *line, const char *key) {
  size_t length = strlen(key);
  return !strncmp(line, key, length) && line[length] == '=' ? line + length + 1 : NULL;
}

static void hash_identity(const char *path, char hash[BP_HASH_TEXT]) {
  g_autoptr(GString) identity = g_string_new(NULL);
  bp__identity_append(identity, path);
  g_autofree char *text = g_compute_checksum_for_string(G_CHECKSUM_SHA256, identity->str, -1);
  g_strlcpy(hash, text, BP_HASH_TEXT);
}

static int is_unchanged(const char *used) {
  char hash[BP_HASH_TEXT];
  if (strlen(used) < BP_HASH_TEXT || used[BP_HASH_TEXT - 1] != ' ')
    return 0;
  hash_identity(used + BP_HASH_TEXT, hash);
  return !memcmp(used, hash, BP_HASH_TEXT - 1);
}

typedef struct Record {
  Reason verdict;
  const char *text;
  int64_t time;
  int deadline;
  int failures;
  int is_current; /* the key fits, and the libraries are as they were */
} Record;

static void parse_line(const TrialCache *cache, const char *line, Record *record) {
  const char *value;
  if ((value = value_of(line, "key")))
    record->is_current &= !strcmp(value, cache->key);
  else if ((value = value_of(line, "time")))
    record->time = g_ascii_strtoll(value, NULL, 10);
  else if ((value = value_of(line, "deadline")))
    record->deadline = (int)g_ascii_strtoll(value, NULL, 10);
  else if ((value = value_of(line, "failures")))
    record->failures = (int)CLAMP(g_ascii_strtoll(value, NULL, 10), 0, 1000);
  else if ((value = value_of(line, "verdict")))
    record->verdict = bp__reason_by_code(value);
  else if ((value = value_of(line, "text")))
    record->text = value;
  else if ((value = value_of(line, "uses")))
    record->is_current = record->is_current && is_unchanged(value);
}

/* Whether the lines are a whole record; strings of it are borrowed from them. */
static int parse(const TrialCache *cache, char **lines, Record *record) {
  guint count = g_strv_length(lines);
  *record = (Record){.verdict = NUM_REASONS, .text = "", .is_current = 1};
  if (count < 4 || strcmp(lines[0], FIRST_LINE) || strcmp(lines[count - 2], "end") ||
      *lines[count - 1])
    return 0;
  for (char **line = lines + 1; *line; line++)
    parse_line(cache, *line, record);
  return record->verdict == REASON_OK || bp__trial_is_verdict(record->verdict);
}

/* Seconds for which a quarantine holds still; 0 when it is over. A clock that was set back ends it.
 */
static int64_t seconds_left(const Record *record) {
  int last = (int)G_N_ELEMENTS(quarantine_seconds) - 1;
  int64_t since = (int64_t)time(NULL) - record->time;
  int64_t lasts = quarantine_seconds[CLAMP(record->failures - 1, 0, last)];
  return since < 0 || since >= lasts ? 0 : lasts - since;
}

static int read_file(TrialCache *cache, const char *suffix, Reason *verdict, char **text) {
  g_autofree char *name = g_strconcat(cache->name, suffix, NULL);
  char *data = read_private(cache->directory, name);
  if (!data)
    return 0;
  Record record;
  g_auto(GStrv) lines = g_strsplit(data, "\n", -1);
  int is_whole = parse(cache, lines, &record);
  free(data);
  if (!is_whole)
    warn_once("the file of what was learned is damaged");
  int has_more_time = record.verdict == REASON_TIMED_OUT && record.deadline < bp__trial_deadline();
  if (!is_whole || !record.is_current || has_more_time)
    return 0;
  cache->failures = record.failures;
  int64_t left = record.verdict == REASON_OK ? 0 : seconds_left(&record);
  if (record.verdict != REASON_OK && !left)
    return 0;
  *verdict = record.verdict;
  if (asprintf(text,
               "%s (it is tried again in %" G_GINT64_FORMAT " s, when the plugin, a "
               "library or a device changes, or by `backplane doctor`)",
               record.text, left) < 0)
    *text = NULL;
  return 1;
}

int bp__trial_cache_read(TrialCache *cache, Reason *verdict, char **text) {
  return cache->directory >= 0 &&
         (read_file(cache, QUARANTINE, verdict, text) || read_file(cache, "", verdict, text));
}

int bp__trial_cache_quarantine(int directory, const Plugin *plugin, Reason *verdict, char **text) {
  TrialCache cache = {.directory = directory, .lock = -1};
  name_file(plugin, cache.name);
  g_autofree char *name = g_strconcat(cache.name, QUARANTINE, NULL);
  if (directory < 0 || faccessat(directory, name, F_OK, 0))
    return 0;
  bp__plugin_key(plugin, cache.key);
  return read_file(&cache, QUARANTINE, verdict, text);
}

/* ---- Writing ----------------------------------------------------------------------------- */

static GString *format_record(const TrialCache *cache, const Trial *trial) {
  const BpPluginReason *verdict = bp__reason_info(trial->verdict);
  GString *text = g_string_new(FIRST_LINE "\n");
  g_string_append_printf(text, "key=%s\ntime=%" G_GINT64_FORMAT "\ndeadline=%d\n", cache->key,
                         (gint64)time(NULL), bp__trial_deadline());
  g_string_append_printf(text, "failures=%d\nverdict=%s\ntext=%s\n",
                         trial->verdict == REASON_OK ? 0 : cache->failures + 1, verdict->code,
                         trial->text);
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  guint from = 0;
  for (const char *path; (path = bp__trial_next(trial, "uses", &from));) {
    char hash[BP_HASH_TEXT];
    if (!g_hash_table_add(seen, (char *)(uintptr_t)path))
      continue;
    hash_identity(path, hash);
    g_string_append_printf(text, "uses=%s %s\n", hash, path);
  }
  g_string_append(text, "end\n");
  return text;
}

static int write_all(int fd, const GString *text) {
  for (size_t done = 0; done < text->len;) {
    ssize_t wrote = write(fd, text->str + done, text->len - done);
    if (wrote < 0 && errno != EINTR)
      return -1;
    done += wrote > 0 ? (size_t)wrote : 0;
  }
  return 0;
}

/* Removes what nobody has written for long: records of plugins that are gone. One that is still
 * used is tried out again, at most. */
static void remove_old(int directory) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd < 0 ? NULL : fdopendir(fd);
  if (!stream) {
    if (fd >= 0)
      close(fd);
    return;
  }
  time_t oldest = time(NULL) - OLD_DAYS * 24 * 3600;
  struct stat status;
  for (const struct dirent *entry; (entry = readdir(stream));)
    if (!fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode) &&
        status.st_mtim.tv_sec < oldest)
      unlinkat(fd, entry->d_name, 0);
  closedir(stream);
}

void bp__trial_cache_write(const TrialCache *cache, const Trial *trial) {
  if (cache->directory < 0)
    return;
  remove_old(cache->directory);
  g_autoptr(GString) text = format_record(cache, trial);
  static atomic_int number;
  g_autofree char *name =
      g_strdup_printf("%s.%d-%d.new", cache->name, (int)getpid(), atomic_fetch_add(&number, 1));
  int fd =
      openat(cache->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  int failed = fd < 0 || write_all(fd, text);
  if (fd >= 0 && close(fd))
    failed = 1;
  int is_good = trial->verdict == REASON_OK;
  g_autofree char *bad = g_strconcat(cache->name, QUARANTINE, NULL);
  if (!failed && !renameat(cache->directory, name, cache->directory, is_good ? cache->name : bad)) {
    unlinkat(cache->directory, is_good ? bad : cache->name, 0);
    return;
  }
  warn_errno("write", cache->name);
  if (fd >= 0)
    unlinkat(cache->directory, name, 0);
}
