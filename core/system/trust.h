/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change the files that are run as code: plugins, libraries, cached files. A program with
 * more rights than its user refuses those that others may change; elsewhere they are reported. */
#ifndef BACKPLANE_CORE_SYSTEM_TRUST_H
#define BACKPLANE_CORE_SYSTEM_TRUST_H

#include <sys/stat.h>

/* Whether somebody who is neither this process' user nor root may change a file, or add to a
 * directory. A group of the owner's number counts as the owner's own: systems make one for each
 * user. */
int bp__others_may_write(const struct stat *status);

/* How others than this user and root may change what `path` leads to: the file itself, a directory
 * on the way, or one on the way of a link on the way. Text for people (transfer full, free); NULL
 * if they cannot, or if there is no such file. What was found safe stays so: only this user and
 * root can change that. */
char *bp__path_problem(const char *path);

/* Whether the program runs with more rights than its user (setuid, setgid, capabilities), or with
 * the rights of one that does. Any thread. */
int bp__is_privileged(void);
/* From now on this process counts as such a program. */
void bp__assume_privileged(void);

#endif
