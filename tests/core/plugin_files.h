/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of plugin files for a test: copies of the plugins of tests/mock, with changed bytes.
 * Failures end the test. */
#ifndef BACKPLANE_TESTS_PLUGIN_FILES_H
#define BACKPLANE_TESTS_PLUGIN_FILES_H

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

static char *plugin_directory;

/* Returns the folder of the built plugins of tests/mock (transfer none). */
static inline const char *mock_directory(void) {
  static char *path;
  const char *build = g_getenv("top_builddir");
  if (!path)
    path = g_build_filename(build ? build : ".", "tests/mock/.libs", NULL);
  return path;
}

static inline void make_plugin_directory(void) {
  plugin_directory = g_dir_make_tmp("backplane-plugins-XXXXXX", NULL);
  g_assert_nonnull(plugin_directory);
}

/* Returns a path in the directory (transfer full). */
static inline char *plugin_file_path(const char *name) {
  return g_build_filename(plugin_directory, name, NULL);
}

static inline void read_plugin(const char *mock, char **data, gsize *size) {
  g_autofree char *file = g_strdup_printf("%s/%s.so", mock_directory(), mock);
  if (!g_file_get_contents(file, data, size, NULL))
    g_error("%s is not there; build it first", file);
}

static inline void write_plugin(const char *name, const char *data, gsize size) {
  g_autofree char *path = plugin_file_path(name);
  g_autofree char *parent = g_path_get_dirname(path);
  g_assert_cmpint(g_mkdir_with_parents(parent, 0700), ==, 0);
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
}

/* Overwrites each `from` by `to`, of the same length. Returns whether `data` contained `from`. */
static inline int try_replace(char *data, gsize size, const char *from, const char *to) {
  gsize length = strlen(from);
  int found = 0;
  g_assert_cmpint(length, ==, strlen(to));
  for (gsize i = 0; i + length <= size; i++)
    if (!memcmp(data + i, from, length)) {
      memcpy(data + i, to, length);
      found = 1;
    }
  return found;
}

static inline void replace_bytes(char *data, gsize size, const char *from, const char *to) {
  if (!try_replace(data, size, from, to))
    g_error("there is no \"%s\"", from);
}

/* '-' in a plugin's name is '_' in its entry. */
static inline void replace_name(char *data, gsize size, const char *from, const char *to) {
  g_autofree char *from_symbol = g_strdelimit(g_strdup(from), "-", '_');
  g_autofree char *to_symbol = g_strdelimit(g_strdup(to), "-", '_');
  replace_bytes(data, size, from, to);
  if (g_str_has_prefix(from, "bulk"))
    replace_bytes(data, size, from_symbol, to_symbol);
}

/* Copies a plugin of tests/mock; replaces `from` (unless NULL) by `to` in the copy. */
static inline void copy_plugin(const char *mock, const char *name, const char *from,
                               const char *to) {
  g_autofree char *data = NULL;
  gsize size;
  read_plugin(mock, &data, &size);
  if (from)
    replace_name(data, size, from, to);
  write_plugin(name, data, size);
}

/* Makes a file of the directory need a missing library; sanitizers' libraries stand in for the C
 * library where they provide all functions that the plugin calls. */
static inline void lose_library(const char *name) {
  static const char *const needed[] = {"libc.so", "libtsan.so", "libasan.so", "libubsan.so"};
  g_autofree char *data = NULL, *path = plugin_file_path(name);
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  int lost = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++) {
    g_autofree char *absent = g_strdup(needed[i]);
    absent[3] = 'q';
    lost |= try_replace(data, size, needed[i], absent);
  }
  g_assert_true(lost);
  write_plugin(name, data, size);
}

static inline void remove_plugin_tree(const char *path) {
  GDir *directory = g_dir_open(path, 0, NULL);
  for (const char *name; directory && (name = g_dir_read_name(directory));) {
    g_autofree char *child = g_build_filename(path, name, NULL);
    if (g_unlink(child))
      remove_plugin_tree(child);
  }
  if (directory)
    g_dir_close(directory);
  g_rmdir(path);
}

static inline void remove_plugin_directory(void) {
  remove_plugin_tree(plugin_directory);
  g_free(plugin_directory);
}

#endif
