/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration file. The file is read again for each value, because a process asks for
 * one or two values. */

#include "parts/select/config.h"

#include "core/system/env.h"
#include "core/system/file.h"

#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536

static char *user_path(void) {
  g_autofree char *folder = bp__env_user_folder("XDG_CONFIG_HOME", ".config");
  return folder ? g_strconcat(folder, "/backplane/backplane.conf", NULL) : NULL;
}

/* Reads the text of a file, up to a limit. *text is NULL if the file does not exist. */
static int read_text(const char *path, char **text) {
  struct stat status;
  int fd = bp__file_open(AT_FDCWD, path, &status);
  *text = fd < 0 ? NULL : bp__read_all(fd, FILE_MAX, NULL);
  int error = errno;
  if (fd >= 0)
    close(fd);
  if (*text || (fd < 0 && (error == ENOENT || error == ENOTDIR)))
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot read the configuration %s: %s", path,
                        error && error != EFBIG ? strerror(error)
                                                : "it is not a file of at most 64 KiB");
}

static int get_from(const char *path, const char *group, const char *key, char **value) {
  g_autofree char *text = NULL;
  g_autoptr(GKeyFile) file = g_key_file_new();
  g_autoptr(GError) error = NULL;
  *value = NULL;
  if (!path)
    return 0;
  if (read_text(path, &text))
    return -1;
  if (!text)
    return 0;
  if (!g_key_file_load_from_data(file, text, strlen(text), G_KEY_FILE_NONE, &error))
    return bp_error_raise(BP_ERROR_FORMAT, "the configuration %s is malformed: %s", path,
                          error->message);
  *value = g_key_file_get_value(file, group, key, NULL);
  return 0;
}

int bp__config_get(const char *group, const char *key, char **value, char **path) {
  *path = user_path();
  if (get_from(*path, group, key, value))
    return -1;
  if (*value)
    return 0;
  g_free(*path);
  *path = g_strdup(BP_CONFIG_FILE);
  return get_from(*path, group, key, value);
}
