/* SPDX-License-Identifier: Apache-2.0 */
/* Running a program that compiles, without a shell. */
#ifndef BACKPLANE_CORE_MODULE_COMMAND_H
#define BACKPLANE_CORE_MODULE_COMMAND_H

#include "core/module/workdir.h"

/* What a program said, in the directory in which it ran. */
#define BP_COMMAND_LOG "compiler.log"

/* Runs `argv` (NULL-terminated) in a directory and waits. The program is found as a shell would
 * find it from this process' working directory, and its messages are in ASCII. Where this process
 * has more rights than its user, the program is one of the system's and is given nothing of the
 * environment. *status is what waitpid gives. Returns 0, or the errno that kept it from starting.
 */
int bp__command_run(const BpWorkdir *dir, char *const *argv, int *status);

/* Text that changes when the program does: its path, its file's time of change and size (transfer
 * full, free); NULL, with errno set, if there is no such program. */
char *bp__command_identity(const char *program);

#endif
