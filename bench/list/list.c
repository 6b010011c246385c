/* SPDX-License-Identifier: Apache-2.0 */
/* Process start to the end of `backplane list` with a hundred plugins installed: warm, and with
 * every file of it dropped from the page cache. Beside it, the start of a process that does
 * nothing.
 *
 *   bench-list BACKPLANE PLUGIN.so
 *
 * PLUGIN.so (bench/list/plugin.c) is copied under a hundred names. Its code must not run. */
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

/* Writes copy number `index`: the digits 000 in the descriptor's names become its own. */
static void copy_plugin(const char *folder, const char *data, gsize size, int index) {
  char *copy = g_memdup2(data, size), digits[8];
  char *path = g_strdup_printf("%s/backplane-bench-%03d.so", folder, index);
  snprintf(digits, sizeof(digits), "%03d", index);
  for (gsize i = 0; i + 9 <= size; i++)
    if (!memcmp(copy + i, "bench-000", 9) || !memcmp(copy + i, "bench_000", 9))
      memcpy(copy + i + 6, digits, 3);
    else if (!memcmp(copy + i, "bench000", 8))
      memcpy(copy + i + 5, digits, 3);
  if (!g_file_set_contents(path, copy, (gssize)size, NULL))
    fail(path);
  g_free(path);
  g_free(copy);
}

static double time_run(char *const *argv) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  double start = now_ms();
  if (posix_spawn(&child, argv[0], &actions, NULL, argv, environ) != 0 ||
      waitpid(child, &status, 0) < 0)
    fail(argv[0]);
  double end = now_ms();
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
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
  for (int i = 0; i < PLUGINS; i++) {
    char *path = g_strdup_printf("%s/backplane-bench-%03d.so", folder, i);
    g_unlink(path);
    g_free(path);
  }
  g_rmdir(folder);
}

static int count_listed(const char *backplane) {
  char *argv[] = {(char *)(uintptr_t)backplane, "list", "--json", NULL}, *output = NULL;
  int count = 0;
  if (!g_spawn_sync(NULL, argv, NULL, 0, NULL, NULL, &output, NULL, NULL, NULL))
    fail(backplane);
  for (const char *c = output; (c = strstr(c, "\"bench-")); c++)
    count++;
  g_free(output);
  return count;
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
  int listed = count_listed(argv[1]);
  for (int i = 0; i < RUNS; i++) {
    idle = fmin(idle, time_run(nothing));
    warm = fmin(warm, time_run(list));
  }
  for (int i = 0; i < COLD_RUNS; i++) {
    drop_folder(folder);
    cold = fmin(cold, time_run(list));
  }
  int ran = g_file_test(witness, G_FILE_TEST_EXISTS);
  printf("list with %d plugins: warm %.2f ms (bar 5), plugins out of the page cache %.2f ms (bar "
         "20), /bin/true %.2f ms; their code %s\n",
         listed, warm, cold, idle, ran ? "RAN" : "did not run");
  g_unlink(witness);
  remove_folder(folder);
  return listed == PLUGINS && !ran ? 0 : 1;
}
