/* SPDX-License-Identifier: Apache-2.0 */
/* Reading packages.d: key files with a group [packages] of lines NAME=PACKAGE. */

#include "parts/hints/hints.h"

#include "core/registry/log.h"
#include "core/system/env.h"
#include "core/system/file.h"

#include <backplane/plugin.h>
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER   "packages.d"
#define FILE_MAX 65536

static char *read_package(const char *path, const char *name) {
  g_autoptr(GKeyFile) file = g_key_file_new();
  g_autoptr(GError) error = NULL;
  char *text = bp__read_file(path, FILE_MAX, NULL), *package = NULL;
  if (!text)
    bp__log(BP_LOG_WARNING, "%s cannot be read: %s", path, g_strerror(errno));
  else if (!g_key_file_load_from_data(file, text, strlen(text), G_KEY_FILE_NONE, &error))
    bp__log(BP_LOG_WARNING, "%s is malformed: %s", path, error->message);
  else
    package = g_key_file_get_string(file, "packages", name, NULL);
  free(text);
  return package;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *search_folder(const char *folder, const char *name) {
  g_autoptr(GDir) directory = g_dir_open(folder, 0, NULL);
  g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
  char *package = NULL;
  for (const char *file; directory && (file = g_dir_read_name(directory));)
    if (g_str_has_suffix(file, ".conf"))
      g_ptr_array_add(files, g_build_filename(folder, file, NULL));
  g_ptr_array_sort(files, compare);
  for (guint i = 0; i < files->len && !package; i++)
    package = read_package(g_ptr_array_index(files, i), name);
  return package;
}

char *bp__find_package(const char *name) {
  g_autofree char *data = bp__env_user_folder("XDG_DATA_HOME", ".local/share");
  g_autofree char *plugins = data ? g_build_filename(data, BP_PLUGIN_FOLDER, NULL) : NULL;
  const char *const places[] = {plugins, BP_SYSTEM_PLUGIN_DIR};
  char *package = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS(places) && !package; i++) {
    g_autofree char *above = places[i] ? g_path_get_dirname(places[i]) : NULL;
    g_autofree char *folder = above ? g_build_filename(above, FOLDER, NULL) : NULL;
    package = folder ? search_folder(folder, name) : NULL;
  }
  return package;
}
