/* SPDX-License-Identifier: Apache-2.0 */
/* The order of plugins does not depend on the order of directory entries: this program replaces
 * readdir for the library, and returns the entries in any order. */

#include "tests/core/defects.h"

#include <backplane/plugins.h>
#include <dirent.h>
#include <dlfcn.h>

static GRand *randomness;
static int shuffles; /* the number of directories that were read in a random order */

/* The entries of the directory that is being read, shuffled. */
static struct {
  DIR *stream;
  GPtrArray *entries;
  guint next;
} reading;

static struct dirent *read_next(DIR *stream) {
  static struct dirent *(*original)(DIR *);
  if (!original) {
    void *symbol = dlsym(RTLD_NEXT, "readdir");
    memcpy(&original, &symbol, sizeof original);
  }
  return original(stream);
}

static void read_all(DIR *stream) {
  if (reading.entries)
    g_ptr_array_unref(reading.entries);
  reading.entries = g_ptr_array_new_with_free_func(g_free);
  for (const struct dirent *entry; (entry = read_next(stream));)
    g_ptr_array_add(reading.entries, g_memdup2(entry, entry->d_reclen));
  for (guint i = reading.entries->len; i > 1; i--) {
    gpointer *entries = reading.entries->pdata;
    guint other = (guint)g_rand_int_range(randomness, 0, (gint32)i);
    gpointer last = entries[i - 1];
    entries[i - 1] = entries[other];
    entries[other] = last;
  }
  reading.stream = stream;
  reading.next = 0;
  shuffles++;
}

__attribute__((visibility("default"))) struct dirent *readdir(DIR *stream) {
  if (!randomness)
    return read_next(stream);
  if (reading.stream != stream)
    read_all(stream);
  if (reading.next < reading.entries->len)
    return g_ptr_array_index(reading.entries, reading.next++);
  reading.stream = NULL;
  return NULL;
}

/* Returns the files of the plugins, in the order of the list. */
static char *list_files(void) {
  BpPluginList *list = bp_plugin_list();
  GString *text = g_string_new(NULL);
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    g_string_append_printf(text, "%s ", strrchr(bp_plugin_list_get(list, i)->path, '/') + 1);
  bp_plugin_list_free(list);
  return g_string_free(text, FALSE);
}

static void set_priority(const char *file, const char *priority) {
  g_autofree char *data = NULL, *path = plugin_file_path(file);
  g_autofree char *line = g_strdup_printf("priority=%s\n", priority);
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  replace_bytes(data, size, "priority=+000\n", line);
  write_plugin(file, data, size);
}

/* The order is by directory, then by priority, then by name. */
static void test_order(void) {
  for (int round = 0; round < 20; round++) {
    g_autofree char *files = list_files();
    g_assert_cmpstr(files, ==, "z-best.so a.so b.so c.so d.so y-worst.so 0-second.so 1-second.so ");
  }
  g_assert_cmpint(shuffles, >=, 40);
}

/* Of two files with one plugin name in a directory, the same file wins each time. */
static void test_winner(void) {
  BpPluginList *list = bp_plugin_list();
  g_assert_cmpint(bp_plugin_list_get(list, 1)->state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpint(bp_plugin_list_get(list, 2)->state, ==, BP_PLUGIN_SHADOWED);
  g_assert_nonnull(strstr(bp_plugin_list_get(list, 2)->reason, "/a.so"));
  bp_plugin_list_free(list);
}

int main(int argc, char **argv) {
  static const char *const files[] = {"first/c.so",         "first/d.so",
                                      "first/z-best.so",    "first/y-worst.so",
                                      "second/1-second.so", "second/0-second.so"};
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
    write_defect(files[i], (int)i + 1, "none");
  write_defect("first/a.so", 0, "none");
  write_defect("first/b.so", 0, "none");
  set_priority("first/z-best.so", "+100");
  set_priority("first/y-worst.so", "-100");
  set_priority("second/0-second.so", "+500");
  g_autofree char *first = plugin_file_path("first"), *second = plugin_file_path("second");
  g_autofree char *path = g_strdup_printf("%s:%s", first, second);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("XDG_DATA_HOME", "/proc/nonexistent", TRUE);
  randomness = g_rand_new_with_seed(1);
  g_test_add_func("/order/by-directory-priority-and-name-PLG-13", test_order);
  g_test_add_func("/order/the-same-of-a-name-wins-PLG-14", test_winner);
  int rc = g_test_run();
  g_rand_free(randomness);
  randomness = NULL;
  g_ptr_array_unref(reading.entries);
  remove_plugin_directory();
  return rc;
}
