/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs, without a shell: code of each part that does so, and of no other.
 *
 * A program starts with no signal blocked, and with none ignored or handled except those that nohup
 * and shells ignore for it: SIGHUP, SIGINT, SIGQUIT. If this process has more rights than its user,
 * nothing of the user's environment reaches the program. Any thread. */
#ifndef BACKPLANE_PARTS_SPAWN_H
#define BACKPLANE_PARTS_SPAWN_H

#include <sys/types.h>

#define BP_SPAWN_PASSED_MAX 2

typedef struct BpSpawn {
  const char *program; /* absolute */
  char *const *arguments;
  char *const *environment;
  const char *folder;              /* its working directory; NULL: this process' */
  int input;                       /* its descriptor 0; -1: empty input */
  int output;                      /* its descriptors 1 and 2; -1: its output is discarded */
  int passed[BP_SPAWN_PASSED_MAX]; /* its descriptors 3 and 4 */
  int num_passed;
  int is_leader; /* gets a process group of its own */
} BpSpawn;

/* Starts a program. Returns 0 or an errno. */
int bp__spawn(const BpSpawn *what, pid_t *pid);

/* Starts a program and waits for its end without the application's notice: no SIGCHLD arrives, and
 * the result is not lost if the application ignores that signal or waits for any child. Other
 * signals reach this thread afterwards. *status is that of waitpid. Returns 0 or an errno. */
int bp__spawn_and_wait(const BpSpawn *what, int *status);

/* The environment for a program: this process' environment, or an empty one if the process has more
 * rights than its user, with `settings` ("NAME=VALUE", NULL at the end) replacing variables of
 * those names (transfer container, free). NULL: no memory. */
char **bp__spawn_environment(char *const *settings);

/* The absolute path of a program (transfer full, free), found as a shell would find it. In a
 * process with more rights than its user, a name without a slash is searched for only in the
 * system's folders. NULL with errno. */
char *bp__find_program(const char *program);

#endif
