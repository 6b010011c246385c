/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change a file: its owner, those with the right to write it, and those who may put another
 * in its place because a directory above it is theirs. */

#include "core/system/trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a directory with the sticky bit only its owner may replace what is another's. */
static int is_safe(const struct stat *status) {
  int is_own = !status->st_uid || status->st_uid == geteuid();
  return !bp__others_may_write(status) ||
         (S_ISDIR(status->st_mode) && is_own && (status->st_mode & S_ISVTX));
}

static char *describe_problem(const char *path, const struct stat *status) {
  char *text;
  int length = S_ISDIR(status->st_mode)
                   ? asprintf(&text, "others may write to the directory %s", path)
                   : asprintf(&text, "others may write to it");
  return length < 0 ? NULL : text;
}

char *bp__path_problem(const char *path) {
  char *real = realpath(path, NULL), *problem = NULL;
  while (real && !problem) {
    struct stat status;
    const char *at = *real ? real : "/";
    if (!stat(at, &status) && !is_safe(&status))
      problem = describe_problem(at, &status);
    if (!*real)
      break;
    *strrchr(real, '/') = '\0';
  }
  free(real);
  return problem;
}
