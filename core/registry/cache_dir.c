/* SPDX-License-Identifier: Apache-2.0 */
/* The cache directory: made, and found to be this user's alone. */

#include "core/registry/cache_dir.h"

#include "core/system/env.h"

#include <backplane/error.h>
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "; set BACKPLANE_CACHE_DIR to a directory that you own"

/* Puts the root of the cache into `path`; returns its length as snprintf does, -1 if there is none.
 */
static int format_root(char *path, size_t size) {
  const char *dir = bp__env_get("BACKPLANE_CACHE_DIR");
  if (dir)
    return snprintf(path, size, "%s", dir);
  dir = bp__env_get("XDG_CACHE_HOME");
  if (dir && *dir == '/')
    return snprintf(path, size, "%s/backplane", dir);
  dir = bp__env_get("HOME");
  if (dir && *dir == '/')
    return snprintf(path, size, "%s/.cache/backplane", dir);
  return -1;
}

static int make_directory(const char *path) {
  if (!mkdir(path, 0700) || errno == EEXIST)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot make the cache directory %s: %s" REMEDY, path,
                        strerror(errno));
}

/* Makes `path` and what lies above it. A parent that exists but may not be written is fine. */
static int make_directories(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    int rc = access(path, F_OK) ? make_directory(path) : 0;
    *slash = '/';
    if (rc)
      return -1;
  }
  return make_directory(path);
}

static int check_private(const char *path) {
  struct stat status;
  if (stat(path, &status))
    return bp_error_raise(BP_ERROR_IO, "cannot look at the cache directory %s: %s" REMEDY, path,
                          strerror(errno));
  if (!S_ISDIR(status.st_mode))
    return bp_error_raise(BP_ERROR_IO, "the cache directory %s is not a directory" REMEDY, path);
  if (status.st_uid != geteuid())
    return bp_error_raise(BP_ERROR_IO, "the cache directory %s belongs to another user" REMEDY,
                          path);
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return bp_error_raise(BP_ERROR_IO,
                          "others may write to the cache directory %s, and what lies there is run "
                          "as code; `chmod go-w` it",
                          path);
  if (access(path, W_OK | X_OK))
    return bp_error_raise(BP_ERROR_IO, "cannot write to the cache directory %s: %s" REMEDY, path,
                          strerror(errno));
  return 0;
}

static int is_subject(const char *text) {
  return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_")];
}

int32_t bp__cache_dir(const char *subject, char *path, size_t size) {
  if (!subject || !is_subject(subject))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the subject of a cache directory is letters, digits, '-' and '_'");
  int length = format_root(path, size);
  if (length < 0)
    return bp_error_raise(BP_ERROR_IO, "there is no cache directory: HOME is not set" REMEDY);
  if ((size_t)length < size)
    length += snprintf(path + length, size - (size_t)length, "/%s", subject);
  if ((size_t)length >= size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the path of the cache directory takes more than %zu bytes", size);
  return make_directories(path) || check_private(path) ? -1 : 0;
}

char *bp__cache_home_unwritable(void) {
  const char *dir = bp__env_get("XDG_CACHE_HOME"), *home = bp__env_get("HOME");
  struct stat status;
  if ((!dir || *dir != '/') && (!home || *home != '/'))
    return NULL;
  char *path = dir && *dir == '/' ? g_strdup(dir) : g_strconcat(home, "/.cache", NULL);
  g_autofree char *above = g_strdup(path); /* the nearest of it that is there */
  while (stat(above, &status)) {
    char *slash = strrchr(above, '/');
    slash[slash == above] = '\0';
  }
  if (!S_ISDIR(status.st_mode) || access(above, W_OK | X_OK))
    return path;
  g_free(path);
  return NULL;
}
