/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the user with files of package names, for tests of messages. */
#ifndef BACKPLANE_TESTS_CORE_PACKAGE_NAMES_H
#define BACKPLANE_TESTS_CORE_PACKAGE_NAMES_H

#include <backplane/plugin.h>
#include <glib.h>
#include <glib/gstdio.h>

/* Returns the path of a file in the folder, which the first call makes and names in XDG_DATA_HOME
 * (transfer full, g_free). */
static inline char *package_file(const char *file) {
  static char *folder;
  if (!folder) {
    g_autofree char *data = g_dir_make_tmp("backplane-names-XXXXXX", NULL);
    g_autofree char *plugins = g_build_filename(data, BP_PLUGIN_FOLDER, NULL);
    g_autofree char *above = g_path_get_dirname(plugins);
    g_assert_nonnull(data);
    folder = g_build_filename(above, "packages.d", NULL);
    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_setenv("XDG_DATA_HOME", data, TRUE);
  }
  return g_build_filename(folder, file, NULL);
}

static inline void write_package_file(const char *file, const char *text) {
  g_autofree char *path = package_file(file);
  g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* Removes a written file, and folders that became empty. */
static inline void remove_package_file(const char *file) {
  g_autofree char *path = package_file(file);
  g_remove(path);
  for (int i = 0; i < 3; i++) {
    char *above = g_path_get_dirname(path);
    g_free(path);
    path = above;
    g_rmdir(path);
  }
}

#endif
