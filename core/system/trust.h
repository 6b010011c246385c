/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change the files that are run: plugins and libraries. In a program that runs with more
 * rights than its user those that others may change are refused, elsewhere they are reported. */
#ifndef BACKPLANE_CORE_SYSTEM_TRUST_H
#define BACKPLANE_CORE_SYSTEM_TRUST_H

#include <sys/stat.h>

/* Whether somebody who is neither this process' user nor root may change a file, or add to a
 * directory. A group of the owner's number is taken for the owner's own, as systems make one for
 * each user. */
int bp__others_may_write(const struct stat *status);
/* Whether others may put another file in the place of `path`: they may write to the directory, and
 * it has no sticky bit. */
int bp__others_may_replace(const char *path);
/* How others than this user and root may change what `path` leads to: itself or a directory above
 * it (transfer full, free); NULL when they cannot. */
char *bp__path_problem(const char *path);
/* Whether the program runs with more rights than its user: setuid, setgid, capabilities. */
int bp__is_privileged(void);

#endif
