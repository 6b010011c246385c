/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that reads the environment. */

#include "core/system/env.h"

#include "core/system/trust.h"

#include <glib.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

const char *bp__env_get(const char *name) {
  const char *value = bp__is_privileged() ? NULL : secure_getenv(name);
  return value && *value ? value : NULL;
}

char *bp__env_user_folder(const char *name, const char *below_home) {
  const char *folder = bp__env_get(name), *home = bp__env_get("HOME");
  if (folder && *folder == '/')
    return g_strdup(folder);
  return home && *home == '/' ? g_strconcat(home, "/", below_home, NULL) : NULL;
}

/* The folder of the effective user, if only that user and root may write to it (transfer full). */
static char *find_safe_home(void) {
  struct passwd entry, *found = NULL;
  char buffer[4096];
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) || !found ||
      *found->pw_dir != '/' || !g_file_test(found->pw_dir, G_FILE_TEST_IS_DIR))
    return NULL;
  char *problem = bp__path_problem(found->pw_dir);
  char *home = problem ? NULL : g_strdup(found->pw_dir);
  free(problem);
  return home;
}

/* Replaces the environment, but does not change or free the earlier environment, which another
 * thread may be reading. */
static void replace_environment(void) {
  static char path[] = "PATH=/usr/bin:/bin", *variables[] = {path, NULL, NULL};
  g_autofree char *home = find_safe_home();
  variables[1] = g_strconcat("HOME=", home ? home : "/dev/null", NULL);
  environ = variables;
}

void bp__env_protect(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (bp__is_privileged())
    pthread_once(&once, replace_environment);
}
