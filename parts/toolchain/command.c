/* SPDX-License-Identifier: Apache-2.0 */
/* Running a compiler. */

#include "parts/toolchain/command.h"

#include "core/system/env.h"
#include "core/system/trust.h"
#include "parts/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Settings with which a compiler writes messages in ASCII, finds its parts, such as `ld`, writes no
 * search path of the user's into libraries, and has its temporary files in the working folder,
 * which is removed even if a signal ends the compiler. */
static char **make_environment(void) {
  static char plain[] = "LC_ALL=C", temporary[] = "TMPDIR=.", run_path[] = "LD_RUN_PATH",
              system_path[] = "PATH=/usr/bin:/bin";
  int has_path = !bp__is_privileged() && bp__env_get("PATH");
  char *const settings[] = {plain, temporary, run_path, has_path ? NULL : system_path, NULL};
  return bp__spawn_environment(settings);
}

/* Makes the command with the program's absolute path as its first word (transfer container, free).
 * The program runs in another folder, where a relative path would not lead to its parts. */
static char **make_arguments(char *const *argv, char *program) {
  size_t count = 0;
  while (argv[count])
    count++;
  char **arguments = malloc((count + 1) * sizeof *arguments);
  if (arguments) {
    memcpy(arguments, argv, (count + 1) * sizeof *arguments);
    arguments[0] = program;
  }
  return arguments;
}

static int run(const BpWorkdir *dir, char *const *argv, char *program, int log, int *status) {
  char **environment = make_environment(), **arguments = make_arguments(argv, program);
  const BpSpawn what = {.program = program,
                        .arguments = arguments,
                        .environment = environment,
                        .folder = dir->path,
                        .input = -1,
                        .output = log};
  int error = environment && arguments ? bp__spawn_and_wait(&what, status) : ENOMEM;
  free(environment);
  free(arguments);
  return error;
}

int bp__command_run(const BpWorkdir *dir, char *const *argv, int *status) {
  char *program = bp__find_program(argv[0]);
  if (!program)
    return errno;
  int log = openat(dir->fd, BP_COMMAND_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int error = log < 0 ? errno : run(dir, argv, program, log, status);
  if (log >= 0)
    close(log);
  free(program);
  return error;
}

char *bp__command_identity(const char *program) {
  char *path = bp__find_program(program), *text = NULL;
  struct stat file;
  if (path && !stat(path, &file) &&
      asprintf(&text, "%s\n%lld.%09ld %lld\n", path, (long long)file.st_mtim.tv_sec,
               file.st_mtim.tv_nsec, (long long)file.st_size) < 0)
    text = NULL;
  int reason = errno;
  free(path);
  errno = reason;
  return text;
}
