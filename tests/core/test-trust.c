/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change a plugin: every way of redirecting its path is detected. */

#include "tests/core/plugin_files.h"

#include <backplane/plugins.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SOME_USER 65534

static void link_to(const char *target, const char *name) {
  g_autofree char *to = plugin_file_path(target), *path = plugin_file_path(name);
  g_assert_cmpint(symlink(*target == '/' ? target : to, path), ==, 0);
}

static void set_mode(const char *name, mode_t mode) {
  g_autofree char *path = plugin_file_path(name);
  g_assert_cmpint(g_chmod(path, mode), ==, 0);
}

static void make_folder(const char *name, mode_t mode) {
  g_autofree char *path = plugin_file_path(name);
  g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
  set_mode(name, mode);
}

/* Returns the warning about the only plugin of a directory (transfer full). */
static char *warning_of(const char *directory) {
  g_autofree char *path = plugin_file_path(directory);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpPluginList *list = bp_plugin_list();
  char *warning = NULL;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    if (g_str_has_prefix(bp_plugin_list_get(list, i)->path, path))
      warning = g_strdup(bp_plugin_list_get(list, i)->warning);
  bp_plugin_list_free(list);
  g_assert_nonnull(warning);
  return warning;
}

static void assert_warns(const char *directory, const char *part) {
  g_autofree char *warning = warning_of(directory);
  if (*part ? !strstr(warning, part) : *warning)
    g_error("%s: the warning is \"%s\", not \"%s\"", directory, warning, part);
}

static void test_safe_path(void) {
  assert_warns("good", "");
  link_to("good", "link");
  assert_warns("link", "");
  assert_warns("link/../good", "");
}

static void test_link_in_shared_folder(void) {
  link_to("good", "shared/folder");
  assert_warns("shared/folder", "shared");
  assert_warns("shared/folder/../good", "shared");
}

/* a.so -> shared/hop.so -> good/a.so: neither the first link nor the file is in the folder. */
static void test_link_through_shared_folder(void) {
  make_folder("hops", 0700);
  link_to("good/a.so", "shared/hop.so");
  link_to("shared/hop.so", "hops/a.so");
  assert_warns("hops", "shared");
}

static void test_folder_above(void) {
  make_folder("shared/private", 0700);
  copy_plugin("odd-good", "shared/private/a.so", NULL, NULL);
  assert_warns("shared/private", "shared");
}

/* As in /tmp: other users may add links, but cannot replace this user's files. */
static void test_sticky_folder(void) {
  make_folder("sticky", 01777);
  link_to("good", "sticky/ours");
  assert_warns("sticky/ours", "");
  if (geteuid()) {
    g_test_skip("only root can give a link to another user");
    return;
  }
  g_autofree char *theirs = plugin_file_path("sticky/theirs");
  link_to("good", "sticky/theirs");
  g_assert_cmpint(lchown(theirs, SOME_USER, SOME_USER), ==, 0);
  assert_warns("sticky/theirs", "belongs to another user");
}

/* The mode and the group of the folder are those of a private folder. */
static void test_access_control_list(void) {
  /* The version; the owner, a user, the group, the most that the entries grant, others: what each
   * may do (7: all) and its kind, and its number. */
  static const uint32_t list[] = {2,   0x70001, ~0u, 0x70002, SOME_USER, 0x00004,
                                  ~0u, 0x70010, ~0u, 0x00020, ~0u};
  make_folder("listed", 0770);
  copy_plugin("odd-good", "listed/a.so", NULL, NULL);
  g_autofree char *path = plugin_file_path("listed");
  if (geteuid() != getegid()) {
    g_test_skip("the user's group has another number");
    return;
  }
  if (setxattr(path, "system.posix_acl_access", list, sizeof list, 0)) {
    g_test_skip("the file system has no access control lists");
    return;
  }
  assert_warns("listed", "others may write to the directory");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  copy_plugin("odd-good", "good/a.so", NULL, NULL);
  make_folder("shared", 0777);
#define ADD(path, test) g_test_add_func("/trust/" path, test)
  ADD("path_of_this_user_is_safe_PLG-16", test_safe_path);
  ADD("link_in_a_folder_of_all_is_seen_PLG-16", test_link_in_shared_folder);
  ADD("link_by_way_of_a_folder_of_all_is_seen_PLG-16", test_link_through_shared_folder);
  ADD("folder_of_all_above_is_seen_PLG-16", test_folder_above);
  ADD("link_of_another_user_in_a_sticky_folder_is_seen_PLG-16", test_sticky_folder);
  ADD("access_control_list_is_seen_PLG-16", test_access_control_list);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
