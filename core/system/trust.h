/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out who may change files that are run as code: plugins, libraries, cached files. A program
 * with more rights than its user refuses files that others may change; other programs report
 * them. */
#ifndef BACKPLANE_CORE_SYSTEM_TRUST_H
#define BACKPLANE_CORE_SYSTEM_TRUST_H

#include "core/system/shared.h"

#include <sys/stat.h>

/* Whether users other than this process' user and root may change a file, or add to a directory,
 * given by its path or, if `path` is NULL, its descriptor, and its status. A group with the owner's
 * number counts as the owner: systems make one for each user. A file that an access control list
 * lets anyone else write to may count as one that others may change. */
BP__SHARED int bp__others_may_write(const char *path, int fd, const struct stat *status);

/* Says how users other than this user and root may change the file that `path` leads to: the file
 * itself, a directory on the path, or a directory on the path of a link. Text for people (transfer
 * full, free); NULL if no other user can change the file, or if the file does not exist. A safe
 * path stays safe: only this user and root can change it. */
BP__SHARED char *bp__path_problem(const char *path);

/* Whether the program has more rights than its user (setuid, setgid, capabilities), or runs with
 * rights inherited from one that has. Any thread. */
BP__SHARED int bp__is_privileged(void);
/* Treats this process as a program with more rights than its user from now on. */
void bp__assume_privileged(void);

#endif
