/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files and folders of the command, which a signal that ends the program removes too. */
#include "tools/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* A command has few; a signal leaves those beyond. */
#define MAX_PATHS 64

/* Entries are neither changed nor freed, because a signal handler may read them at any time. */
static struct {
  _Atomic(const char *) path;
  atomic_int is_live;
} entries[MAX_PATHS];

static atomic_int num_entries;

/* ---- Removing ---------------------------------------------------------------------------- */

/* The functions of this part are async-signal-safe: they allocate nothing. */

/* Removes the files in a folder; the system's own form of a list of names needs no memory. */
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

static void remove_all_and_end(int number) {
  for (int i = 0; i < MAX_PATHS; i++)
    if (atomic_load(&entries[i].is_live))
      remove_path(atomic_load(&entries[i].path));
  signal(number, SIG_DFL);
  raise(number); /* takes effect when this handler returns */
}

/* ---- The commands' part ------------------------------------------------------------------ */

/* A signal that is ignored, as by nohup, stays ignored. */
static void handle_signals(void) {
  static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
  const struct sigaction action = {.sa_handler = remove_all_and_end};
  struct sigaction before;
  for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(signals[i], &action, NULL);
}

void temporary_add(const char *path) {
  int i = atomic_fetch_add(&num_entries, 1);
  handle_signals();
  if (i >= MAX_PATHS)
    return;
  atomic_store(&entries[i].path, g_strdup(path));
  atomic_store(&entries[i].is_live, 1);
}

void temporary_remove(const char *path) {
  remove_path(path);
  for (int i = 0; i < MAX_PATHS; i++)
    if (g_strcmp0(atomic_load(&entries[i].path), path) == 0)
      atomic_store(&entries[i].is_live, 0);
}
