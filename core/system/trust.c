/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out who may change a file, by the owners and modes of all parts of its path. */

#include "core/system/trust.h"

#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */

static atomic_int is_assumed;

int bp__is_privileged(void) {
  return getauxval(AT_SECURE) != 0 || atomic_load(&is_assumed);
}

void bp__assume_privileged(void) {
  atomic_store(&is_assumed, 1);
}

static int is_own(const struct stat *status) {
  return !status->st_uid || status->st_uid == geteuid();
}

/* With an access control list the group's bits are the list's mask: the most that it grants named
 * users and all groups. */
static int has_acl(const char *path, int fd) {
  static const char list[] = "system.posix_acl_access";
  return (path ? getxattr(path, list, NULL, 0) : fgetxattr(fd, list, NULL, 0)) > 0;
}

int bp__others_may_write(const char *path, int fd, const struct stat *status) {
  int is_shared_group =
      status->st_mode & S_IWGRP && (status->st_gid != status->st_uid || has_acl(path, fd));
  return !is_own(status) || status->st_mode & S_IWOTH || is_shared_group;
}

/* ---- The path to a file ------------------------------------------------------------------ */

/* A walk from the root, one name at a time. */
typedef struct Walk {
  char at[PATH_MAX];   /* the path so far, without links; "" is the root */
  char rest[PATH_MAX]; /* the remaining names */
  int is_shared; /* other users may add files to the directory `at`, which has the sticky bit */
  int num_links;
} Walk;

/* Ends the process if memory runs out: a missing text would mean that the path is safe. */
static char *join(const char *before, const char *path, const char *after) {
  return g_strconcat(before, path, after, NULL);
}

/* In a directory with the sticky bit other users cannot replace files that they do not own. */
static char *find_problem(Walk *walk, const struct stat *status) {
  walk->is_shared = bp__others_may_write(*walk->at ? walk->at : "/", -1, status);
  if (!walk->is_shared)
    return NULL;
  if (!S_ISDIR(status->st_mode))
    return join("others may write to it", "", "");
  if (is_own(status) && status->st_mode & S_ISVTX)
    return NULL;
  return join("others may write to the directory ", *walk->at ? walk->at : "/", "");
}

static int too_long(void) {
  errno = ENAMETOOLONG;
  return -1;
}

/* Inserts a link's content before the remaining names. */
static int follow(Walk *walk) {
  char target[PATH_MAX], rest[PATH_MAX];
  ssize_t size = readlink(walk->at, target, sizeof target - 1);
  if (size < 0 || ++walk->num_links > LINKS_MAX)
    return -1; /* opening the file fails, too */
  target[size] = '\0';
  int length = snprintf(rest, sizeof rest, "%s/%s", target, walk->rest);
  if (length < 0 || (size_t)length >= sizeof rest)
    return too_long();
  memcpy(walk->rest, rest, (size_t)length + 1);
  *(*target == '/' ? walk->at : strrchr(walk->at, '/')) = '\0';
  return 0;
}

/* Goes to a name in the current directory; -1 with errno. */
static int enter(Walk *walk, const char *name, size_t size, char **problem) {
  struct stat status;
  size_t length = strlen(walk->at);
  if (length + size + 2 > sizeof walk->at)
    return too_long();
  walk->at[length] = '/';
  memcpy(walk->at + length + 1, name, size);
  walk->at[length + 1 + size] = '\0';
  if (lstat(walk->at, &status))
    return -1;
  if (!S_ISLNK(status.st_mode)) {
    *problem = find_problem(walk, &status);
    return 0;
  }
  if (walk->is_shared && !is_own(&status))
    *problem = join("the link ", walk->at, " belongs to another user");
  return follow(walk);
}

static int step_up(Walk *walk) {
  struct stat status;
  char *slash = strrchr(walk->at, '/');
  if (slash)
    *slash = '\0';
  /* The directory was found to be safe when it was entered. */
  const char *path = *walk->at ? walk->at : "/";
  walk->is_shared = !stat(path, &status) && bp__others_may_write(path, -1, &status);
  return 0;
}

/* Takes the next of the remaining names. Returns 0 if no name remains. */
static size_t next_name(Walk *walk, char *name) {
  const char *start = walk->rest + strspn(walk->rest, "/");
  size_t size = strcspn(start, "/");
  memcpy(name, start, size);
  name[size] = '\0';
  memmove(walk->rest, start + size, strlen(start + size) + 1);
  return size;
}

static int begin(Walk *walk, const char *path) {
  char folder[PATH_MAX];
  *folder = '\0';
  if (*path != '/' && !getcwd(folder, sizeof folder))
    return -1;
  *walk = (Walk){.num_links = 0};
  int length = snprintf(walk->rest, sizeof walk->rest, "%s/%s", folder, path);
  return length < 0 || (size_t)length >= sizeof walk->rest ? too_long() : 0;
}

static int go(Walk *walk, const char *path, char **problem) {
  struct stat root;
  char name[PATH_MAX];
  if (begin(walk, path) || stat("/", &root))
    return -1;
  *problem = find_problem(walk, &root);
  for (size_t size; !*problem && (size = next_name(walk, name));) {
    int rc = !strcmp(name, ".")    ? 0
             : !strcmp(name, "..") ? step_up(walk)
                                   : enter(walk, name, size, problem);
    if (rc)
      return -1;
  }
  return 0;
}

/* A file that cannot be reached cannot be opened, and is no danger. A file whose real path is
 * longer than this function can follow may still be opened. */
char *bp__path_problem(const char *path) {
  Walk walk;
  char *problem = NULL;
  if (go(&walk, path, &problem) && errno == ENAMETOOLONG)
    return join("its path is too long to find out who may change it", "", "");
  return problem;
}
