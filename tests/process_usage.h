/* SPDX-License-Identifier: Apache-2.0 */
/* The threads and open files of the test's process. */
#ifndef BACKPLANE_TESTS_PROCESS_USAGE_H
#define BACKPLANE_TESTS_PROCESS_USAGE_H

#include <glib.h>

static inline int count_entries(const char *path) {
  int count = 0;
  GDir *folder = g_dir_open(path, 0, NULL);
  g_assert_nonnull(folder);
  while (g_dir_read_name(folder))
    count++;
  g_dir_close(folder);
  return count;
}

static inline int count_threads(void) {
  return count_entries("/proc/self/task");
}

/* The descriptor by which it counts is among them. */
static inline int count_descriptors(void) {
  return count_entries("/proc/self/fd");
}

#endif
