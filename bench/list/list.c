/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the time from process start to the end of `backplane list` with a hundred plugins
 * installed: with a warm page cache, and with all its files dropped from the page cache. For
 * comparison the program measures the start of a process that does nothing.
 *
 *   bench-list BACKPLANE PLUGIN.so
 *
 * PLUGIN.so (bench/list/plugin.c) is copied under a hundred names. The code of PLUGIN.so must not
 * run. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <glib.h>
#include <glib/gstdio.h>

#define PLUGINS   100
#define RUNS      200
#define COLD_RUNS 20

extern char **environ;

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "bench-list: %s: %s\n", what, g_strerror(errno));
  exit(1);
}

/* Returns the end of a copy's name: its bits as pairs. */
static void format_pairs(int index, char pairs[15]) {
  pairs[14] = '\0';
  for (int i = 0; i < 7; i++)
    memcpy(pairs + 2 * i, index >> i & 1 ? "c8" : "az", 2);
}

/* Writes copy number `index`: the pairs in its names are those of the index. */
static void copy_plugin(const char *folder, const char *data, gsize size, int index) {
  char *copy = g_memdup2(data, size), first[15], pairs[15];
  char *path = g_strdup_printf("%s/backplane-bench-%03d.so", folder, index);
  format_pairs(0, first);
  format_pairs(index, pairs);
  for (gsize i = 0; i + 14 <= size; i++)
    if (!memcmp(copy + i, first, 14))
      memcpy(copy + i, pairs, 14);
  if (!g_file_set_contents(path, copy, (gssize)size, NULL))
    fail(path);
  g_free(path);
  g_free(copy);
}

/* Ends the benchmark if the command does not exit with `expected`. */
static double time_run(char *const *argv, int expected) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  double start = now_ms();
  if (posix_spawn(&child, argv[0], &actions, NULL, argv, environ) != 0 ||
      waitpid(child, &status, 0) < 0)
    fail(argv[0]);
  double end = now_ms();
  posix_spawn_file_actions_destroy(&actions);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
    errno = ECHILD;
    fail(argv[0]);
  }
  return end - start;
}

/* Asks the kernel to forget a file's clean pages. */
static void drop_file(const char *path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0)
    return;
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

static void drop_folder(const char *folder) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir))) {
    char *path = g_build_filename(folder, name, NULL);
    drop_file(path);
    g_free(path);
  }
  if (dir)
    g_dir_close(dir);
}

static void remove_folder(const char *folder) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir))) {
    char *path = g_build_filename(folder, name, NULL);
    if (g_unlink(path))
      remove_folder(path);
    g_free(path);
  }
  if (dir)
    g_dir_close(dir);
  g_rmdir(folder);
}

static int count_listed(const char *backplane) {
  char *argv[] = {(char *)(uintptr_t)backplane, "list", "--json", NULL}, *output = NULL;
  int count = 0;
  if (!g_spawn_sync(NULL, argv, NULL, 0, NULL, NULL, &output, NULL, NULL, NULL))
    fail(backplane);
  for (const char *c = output; (c = strstr(c, "\"name\" : \"bench-")); c++)
    count++;
  g_free(output);
  return count;
}

/* Measures the first use of one of the hundred plugins after they were tried out: its time, and how
 * many processes ran code of any plugin. The plugin has no device, so the command fails. */
static void time_first_use(const char *backplane, const char *witness) {
  char pairs[15], *device;
  double first = INFINITY;
  struct stat status;
  format_pairs(42, pairs);
  device = g_strconcat("device_api.bench-", pairs, NULL);
  char *use[] = {(char *)(uintptr_t)backplane, "inspect", "function", device, NULL};
  double tried = time_run(use, 1);
  g_unlink(witness);
  for (int i = 0; i < RUNS; i++)
    first = fmin(first, time_run(use, 1));
  int ran = stat(witness, &status) ? 0 : (int)status.st_size;
  printf("first use of one of %d: %.2f ms, with its trial %.2f ms; %.2f plugins loaded by each\n",
         PLUGINS, first, tried, (double)ran / RUNS);
  g_free(device);
}

int main(int argc, char **argv) {
  char *data, *nothing[] = {"/bin/true", NULL};
  gsize size;
  if (argc != 3 || !g_file_get_contents(argv[2], &data, &size, NULL)) {
    fprintf(stderr, "usage: bench-list BACKPLANE PLUGIN.so\n");
    return 2;
  }
  char *list[] = {argv[1], "list", NULL};
  char *folder = g_dir_make_tmp("bench-list-XXXXXX", NULL);
  char *witness = g_build_filename(folder, "witness", NULL);
  double idle = INFINITY, warm = INFINITY, cold = INFINITY;
  for (int i = 0; i < PLUGINS; i++)
    copy_plugin(folder, data, size, i);
  g_setenv("BACKPLANE_PLUGIN_PATH", folder, TRUE);
  g_setenv("BENCH_LIST_WITNESS", witness, TRUE);
  char *cache = g_build_filename(folder, "cache", NULL);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  int listed = count_listed(argv[1]);
  for (int i = 0; i < RUNS; i++) {
    idle = fmin(idle, time_run(nothing, 0));
    warm = fmin(warm, time_run(list, 0));
  }
  for (int i = 0; i < COLD_RUNS; i++) {
    drop_folder(folder);
    cold = fmin(cold, time_run(list, 0));
  }
  int ran = g_file_test(witness, G_FILE_TEST_EXISTS);
  printf("list with %d plugins: warm %.2f ms (bar 5), plugins out of the page cache %.2f ms (bar "
         "20), /bin/true %.2f ms; %.0f us a plugin (bar 50); their code %s\n",
         listed, warm, cold, idle, (warm - idle) * 1e3 / PLUGINS, ran ? "RAN" : "did not run");
  time_first_use(argv[1], witness);
  g_unlink(witness);
  remove_folder(cache);
  remove_folder(folder);
  return listed == PLUGINS && !ran ? 0 : 1;
}
