/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns over paths, evaluated with a bound on the work. */

#include "core/plugin/pattern.h"

#include <dirent.h>
#include <fnmatch.h>
#include <glib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Walk {
  GString *path; /* the path so far, without a '/' at its end */
  int *work;
  void (*visit)(void *context, const char *path);
  void *context;
} Walk;

static void walk(const Walk *from, const char *rest);

/* Continues with the name in the current directory. */
static void enter(const Walk *from, const char *name, size_t length, const char *rest) {
  size_t before = from->path->len;
  g_string_append_c(from->path, '/');
  g_string_append_len(from->path, name, (gssize)length);
  walk(from, rest);
  g_string_truncate(from->path, before);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory that match, sorted (transfer full). */
static GPtrArray *find_names(const Walk *from, const char *pattern) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  DIR *stream = opendir(from->path->len ? from->path->str : "/");
  const struct dirent *entry;
  while (stream && *from->work > 0 && (entry = readdir(stream))) {
    --*from->work;
    if (!fnmatch(pattern, entry->d_name, FNM_PERIOD))
      g_ptr_array_add(names, g_strdup(entry->d_name));
  }
  if (stream)
    closedir(stream);
  g_ptr_array_sort(names, compare_names);
  return names;
}

static void enter_all(const Walk *from, const char *pattern, const char *rest) {
  g_autoptr(GPtrArray) names = find_names(from, pattern);
  for (guint i = 0; i<names->len && * from->work> 0; i++) {
    const char *name = g_ptr_array_index(names, i);
    enter(from, name, strlen(name), rest);
  }
}

static void walk(const Walk *from, const char *rest) {
  struct stat status;
  rest += strspn(rest, "/");
  size_t length = strcspn(rest, "/");
  if (!length) {
    const char *path = from->path->len ? from->path->str : "/";
    if ((*from->work)-- > 0 && !lstat(path, &status))
      from->visit(from->context, path);
    return;
  }
  g_autofree char *name = g_strndup(rest, length);
  if (strpbrk(name, "*?[\\"))
    enter_all(from, name, rest + length);
  else
    enter(from, name, length, rest + length);
}

void bp__pattern_visit(const char *pattern, int *work,
                       void (*visit)(void *context, const char *path), void *context) {
  g_autoptr(GString) path = g_string_new(NULL);
  walk(&(Walk){path, work, visit, context}, pattern);
}

void bp__pattern_visit_inside(const char *directory, int *work,
                              void (*visit)(void *context, const char *path), void *context) {
  g_autoptr(GString) path = g_string_new(directory);
  enter_all(&(Walk){path, work, visit, context}, "*", "");
}
