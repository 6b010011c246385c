/* SPDX-License-Identifier: Apache-2.0 */
/* Running a program that compiles. */

#include "core/module/command.h"

#include "core/system/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a program with more rights than its user finds compilers, whatever its user's PATH says. */
static const char *const system_folders[] = {"/usr/bin", "/bin"};

static char *find_in_system(const char *program) {
  for (size_t i = 0; i < G_N_ELEMENTS(system_folders); ++i) {
    char *path = g_build_filename(system_folders[i], program, NULL);
    if (!access(path, X_OK))
      return path;
    g_free(path);
  }
  return NULL;
}

/* The file of a program (transfer full, g_free); NULL, with errno set, if there is none. */
static char *find_program(const char *program) {
  int is_name = !strchr(program, '/');
  char *path =
      bp__is_privileged() && is_name ? find_in_system(program) : g_find_program_in_path(program);
  errno = path ? errno : ENOENT;
  return path;
}

/* Its directory, nothing to read, and its words and those of standard error to the log. */
static int add_actions(posix_spawn_file_actions_t *actions, const BpWorkdir *dir) {
  int reason = posix_spawn_file_actions_addchdir_np(actions, dir->path);
  if (!reason)
    reason = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (!reason)
    reason = posix_spawn_file_actions_addopen(actions, 1, BP_COMMAND_LOG,
                                              O_WRONLY | O_CREAT | O_TRUNC, 0600);
  return reason ? reason : posix_spawn_file_actions_adddup2(actions, 1, 2);
}

/* The environment, in which a compiler says what it has to say in ASCII (to be freed). Of the user
 * of a program with more rights nothing is in it. */
static char **plain_environment(void) {
  static char plain[] = "LC_ALL=C", system_path[] = "PATH=/usr/bin:/bin";
  size_t count = 0, used = 0;
  while (environ[count] && !bp__is_privileged())
    ++count;
  char **copy = malloc((count + 3) * sizeof *copy);
  if (!copy)
    return NULL;
  for (size_t i = 0; i < count; ++i)
    if (strncmp(environ[i], plain, strlen("LC_ALL=")))
      copy[used++] = environ[i];
  copy[used++] = plain;
  if (bp__is_privileged())
    copy[used++] = system_path;
  copy[used] = NULL;
  return copy;
}

/* Starts the child with the signals as a program expects them, whatever this process does. */
static int spawn(char *const *argv, const posix_spawn_file_actions_t *actions, pid_t *pid) {
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGCHLD);
  int reason = posix_spawnattr_init(&attributes);
  if (reason)
    return reason;
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char **environment = plain_environment();
  char *path = bp__is_privileged() ? find_program(argv[0]) : NULL;
  if (!environment)
    reason = ENOMEM;
  else if (!bp__is_privileged())
    reason = posix_spawnp(pid, argv[0], actions, &attributes, argv, environment);
  else
    reason = path ? posix_spawn(pid, path, actions, &attributes, argv, environment) : ENOENT;
  g_free(path);
  free(environment);
  posix_spawnattr_destroy(&attributes);
  return reason;
}

int bp__command_run(const BpWorkdir *dir, char *const *argv, int *status) {
  posix_spawn_file_actions_t actions;
  pid_t pid, done;
  int reason = posix_spawn_file_actions_init(&actions);
  if (reason)
    return reason;
  reason = add_actions(&actions, dir);
  if (!reason)
    reason = spawn(argv, &actions, &pid);
  posix_spawn_file_actions_destroy(&actions);
  if (reason)
    return reason;
  while ((done = waitpid(pid, status, 0)) < 0 && errno == EINTR) {
  }
  if (done < 0)
    *status = 0;
  return 0;
}

char *bp__command_identity(const char *program) {
  char *path = find_program(program), *text = NULL;
  struct stat file;
  if (path && !stat(path, &file) &&
      asprintf(&text, "%s\n%lld.%09ld %lld\n", path, (long long)file.st_mtim.tv_sec,
               file.st_mtim.tv_nsec, (long long)file.st_size) < 0)
    text = NULL;
  int reason = errno;
  g_free(path);
  errno = reason;
  return text;
}
