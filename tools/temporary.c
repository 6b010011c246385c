/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files and folders of the command. SIGHUP, SIGINT and SIGTERM remove these files before
 * they end the program. */
#include "tools/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* A signal removes at most this number of paths; a command has fewer. */
#define MAX_PATHS 64

/* The paths are neither changed nor freed, because the signal handler may read them at any time. */
static struct {
  _Atomic(const char *) path;
  atomic_int is_live;
} entries[MAX_PATHS];

static int num_entries;

/* The actions before handle_signals, by signal. */
static struct sigaction earlier[SIGTERM + 1];

/* ---- Removing ---------------------------------------------------------------------------- */

/* The functions that the signal handler calls use only async-signal-safe functions. */

/* Removes the files in a folder. readdir would allocate memory. */
static void empty_folder(int folder) {
  _Alignas(struct dirent64) char names[4096];
  for (ssize_t size; (size = getdents64(folder, names, sizeof names)) > 0;)
    for (ssize_t at = 0; at < size;) {
      const struct dirent64 *entry = (const struct dirent64 *)(const void *)(names + at);
      unlinkat(folder, entry->d_name, 0);
      at += entry->d_reclen;
    }
}

/* Other threads may add files until the program ends, so a folder is emptied a few times. */
static void remove_path(const char *path) {
  if (unlink(path) == 0 || errno == ENOENT)
    return;
  for (int tries = 0; tries < 8 && rmdir(path) != 0 && errno != ENOENT; tries++) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
      return;
    empty_folder(folder);
    close(folder);
  }
}

/* After the removal the action that was set before runs. LLVM's handler may call this handler
 * again, which then ends the program. */
static void remove_all_and_end(int number) {
  const struct sigaction action = earlier[number];
  for (int i = 0; i < MAX_PATHS; i++)
    if (atomic_load(&entries[i].is_live))
      remove_path(atomic_load(&entries[i].path));
  earlier[number] = (struct sigaction){.sa_handler = SIG_DFL};
  sigaction(number, &action, NULL);
  raise(number); /* takes effect when this handler returns */
}

/* ---- The commands' part ------------------------------------------------------------------ */

/* A signal that is ignored, as by nohup, stays ignored. Code generators, such as LLVM, may have
 * handlers of their own. */
static void handle_signals(void) {
  static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
  const struct sigaction action = {.sa_handler = remove_all_and_end};
  struct sigaction before;
  for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
    if (sigaction(signals[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN ||
        before.sa_handler == remove_all_and_end)
      continue;
    earlier[signals[i]] = before;
    sigaction(signals[i], &action, NULL);
  }
}

void temporary_add(const char *path) {
  handle_signals();
  if (num_entries == MAX_PATHS)
    return;
  atomic_store(&entries[num_entries].path, g_strdup(path));
  atomic_store(&entries[num_entries].is_live, 1);
  num_entries++;
}

void temporary_remove(const char *path) {
  remove_path(path);
  for (int i = 0; i < num_entries; i++)
    if (strcmp(atomic_load(&entries[i].path), path) == 0)
      atomic_store(&entries[i].is_live, 0);
}
