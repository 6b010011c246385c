/* SPDX-License-Identifier: Apache-2.0 */
/* Running a compiler without a shell. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_COMMAND_H
#define BACKPLANE_PARTS_TOOLCHAIN_COMMAND_H

#include "parts/toolchain/workdir.h"

/* The output of a program, in the directory in which the program ran. */
#define BP_COMMAND_LOG "compiler.log"

/* Runs `argv` (NULL-terminated) in a directory and waits. The program is found as a shell in this
 * process' working directory would find it, and its messages are in ASCII. If this process has more
 * rights than its user, the program must belong to the system and gets an empty environment.
 * *status is that of waitpid. Returns 0, or the errno that prevented the program from starting. */
int bp__command_run(const BpWorkdir *dir, char *const *argv, int *status);

/* Returns a text that changes when the program changes: its path, its file's time of change and
 * size (transfer full, free); NULL, with errno set, if there is no such program. */
char *bp__command_identity(const char *program);

#endif
