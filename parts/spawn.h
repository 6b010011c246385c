/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs, without a shell. Each part that starts programs contains a copy of this code.
 *
 * A program starts with no signal blocked, and with default actions for all signals, except that
 * SIGHUP, SIGINT and SIGQUIT stay ignored if nohup or a shell ignores them. If this process has
 * more rights than its user, nothing of the user's environment reaches the program. Any thread. */
#ifndef BACKPLANE_PARTS_SPAWN_H
#define BACKPLANE_PARTS_SPAWN_H

#include <sys/types.h>

#define BP_SPAWN_PASSED_MAX 2

typedef struct BpSpawn {
  const char *program; /* absolute */
  char *const *arguments;
  char *const *environment;
  const char *folder;              /* working directory of the program; NULL: as this process */
  int input;                       /* descriptor 0 of the program; -1: empty input */
  int output;                      /* descriptors 1 and 2 of the program; -1: output is discarded */
  int passed[BP_SPAWN_PASSED_MAX]; /* descriptors 3 and 4 of the program */
  int num_passed;
  int is_leader; /* gets a process group of its own */
  int seconds;   /* bp__spawn_and_wait: a program that takes longer is killed; 0: no limit */
} BpSpawn;

/* Starts a program. Returns 0 or an errno. */
int bp__spawn(const BpSpawn *what, pid_t *pid);

/* Starts a program and waits for its end without the application's notice: no SIGCHLD arrives, and
 * the result is not lost if the application ignores that signal or waits for any child. The
 * calling thread handles signals after the program's end, except for SIGTSTP, SIGTTIN and SIGTTOU,
 * which stop it while the program runs. *status is that of waitpid. Returns 0 or an errno:
 * ETIMEDOUT if the program was killed. */
int bp__spawn_and_wait(const BpSpawn *what, int *status);

/* Makes the environment for a program: this process' environment, or an empty one if the process
 * has more rights than its user. `settings` (NULL at the end) replace variables, "NAME=VALUE", or
 * remove them, "NAME" (transfer container, free). NULL: no memory. */
char **bp__spawn_environment(char *const *settings);

/* Finds the absolute path of a program (transfer full, free), as a shell would. In a process with
 * more rights than its user, a name without a slash is searched for only in the system's folders.
 * NULL with errno. */
char *bp__find_program(const char *program);

#endif
