/* SPDX-License-Identifier: Apache-2.0 */
/* The cache and foreign files, paths that other users may redirect, and failing file systems. Tests
 * that change this process run in a child process. */

#include "tests/core/plugin_files.h"

#include <backplane/cache.h>
#include <backplane/error.h>
#include <backplane/plugin_helpers.h>
#include <backplane/plugins.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOME_USER 65534
#define DAY       (24 * 3600)

/* ---- The host as plugins see it ---------------------------------------------------------- */

static const BpRuntimeTable *runtime;

static int32_t keep_table(const BpHost *host, BpPlugin *plugin) {
  (void)plugin;
  runtime = host->get_table(host, BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION);
  return -1;
}

static void fetch_table(void) {
  g_assert_cmpint(bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT
                                            "\nname=looker\nversion=1\nlicense=MIT\n"
                                            "description=x\nentry=bp_plugin_entry_looker\n"
                                            "provides=test.looker\n",
                                            keep_table),
                  ==, 0);
  g_assert_cmpint(bp_plugin_activate("looker"), ==, -1);
  g_assert_nonnull(runtime);
}

static GString *said; /* warnings since the last use_cache */

static void keep_message(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING)
    g_string_append_printf(said, "%s\n", message);
}

static void assert_said(const char *part) {
  if (!strstr(said->str, part))
    g_error("the log says \"%s\", not \"%s\"", said->str, part);
}

static void use_cache(const char *path) {
  g_setenv("BACKPLANE_CACHE_DIR", path, TRUE);
  g_string_truncate(said, 0);
}

/* Returns a folder of the test for a cache (transfer full). */
static char *use_cache_of(const char *name) {
  char *path = plugin_file_path(name);
  use_cache(path);
  return path;
}

static void keep_bytes(const char *key, const char *data, size_t size) {
  const BpByteArray entry = {key, strlen(key)}, bytes = {data, size};
  runtime->cache_write("x", &entry, &bytes);
}

static void keep(const char *key, const char *text) {
  keep_bytes(key, text, strlen(text));
}

static int is_kept(const char *key, const char *expected) {
  const BpByteArray entry = {key, strlen(key)};
  BpOwnedBytes bytes;
  runtime->cache_read("x", &entry, &bytes);
  int is_same = !g_strcmp0(bytes.data, expected);
  if (bytes.data)
    bytes.free_data(bytes.data);
  return is_same;
}

/* ---- Files ------------------------------------------------------------------------------- */

static void set_age(const char *path, int seconds) {
  const struct timespec then = {.tv_sec = time(NULL) - seconds}, times[] = {then, then};
  g_assert_cmpint(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), ==, 0);
}

/* Makes a file that was not used for long (transfer full). */
static char *put_old(const char *folder, const char *name) {
  char *path = g_build_filename(folder, name, NULL);
  g_autofree char *parent = g_path_get_dirname(path);
  g_assert_cmpint(g_mkdir_with_parents(parent, 0700), ==, 0);
  g_assert_true(g_file_set_contents(path, "somebody's", -1, NULL));
  set_age(path, 100 * DAY);
  return path;
}

/* Counts the files of a folder. */
static int count_files(const char *folder) {
  GDir *directory = g_dir_open(folder, 0, NULL);
  int count = 0;
  while (directory && g_dir_read_name(directory))
    count++;
  if (directory)
    g_dir_close(directory);
  return count;
}

/* ---- Files that do not belong to the cache ----------------------------------------------- */

static void test_other_names_stay(void) {
  static const char *const names[] = {
      "model.bin", "backplane-models/weights.npy", "backplane-aaaaaa/notes", "core",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.onnx"};
  char *paths[G_N_ELEMENTS(names)];
  g_autofree char *cache = use_cache_of("own"), *folder = g_build_filename(cache, "x", NULL);
  g_setenv("BACKPLANE_CACHE_SIZE", "1", TRUE);
  keep("first", "1");
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
    paths[i] = put_old(folder, names[i]);
  g_assert_cmpint(truncate(paths[0], 4 << 20), ==, 0);
  set_age(paths[0], 100 * DAY);
  for (size_t i = 1; i < 3; i++) {
    g_autofree char *parent = g_path_get_dirname(paths[i]);
    set_age(parent, 100 * DAY);
  }
  keep("second", "2");
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    g_assert_true(g_file_test(paths[i], G_FILE_TEST_EXISTS));
    g_free(paths[i]);
  }
  g_unsetenv("BACKPLANE_CACHE_SIZE");
}

static void test_own_old_files_go(void) {
  g_autofree char *cache = use_cache_of("old"), *folder = g_build_filename(cache, "x", NULL);
  g_autofree char *name = g_strdup_printf("%064x", 1), *kept = put_old(folder, name);
  g_autofree char *unfinished = put_old(folder, ".backplane-0123456789abcdef");
  keep("second", "2");
  g_assert_false(g_file_test(kept, G_FILE_TEST_EXISTS));
  g_assert_false(g_file_test(unfinished, G_FILE_TEST_EXISTS));
}

static void test_clearing_removes_unfinished_files(void) {
  g_autofree char *cache = use_cache_of("cleared"), *folder = g_build_filename(cache, "x", NULL);
  keep("first", "1");
  g_autofree char *unfinished = put_old(folder, ".backplane-0123456789abcdef");
  g_autofree char *inside = put_old(folder, ".backplane-aaaaaaaaaaaaaaaa/module.c");
  g_autofree char *working = g_path_get_dirname(inside);
  set_age(working, DAY);
  g_assert_cmpint(bp_cache_measure(NULL, NULL), ==, 0);
  g_assert_true(g_file_test(unfinished, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(working, G_FILE_TEST_EXISTS));
  g_assert_cmpint(bp_cache_clear(NULL, NULL), ==, 0);
  g_assert_false(g_file_test(unfinished, G_FILE_TEST_EXISTS));
  g_assert_false(g_file_test(working, G_FILE_TEST_EXISTS));
}

/* The clock was set back after the files were used. */
static void test_times_in_the_future(void) {
  g_autofree char *cache = use_cache_of("future"), *folder = g_build_filename(cache, "x", NULL);
  g_autofree char *name = g_strdup_printf("%064x", 1), *kept = put_old(folder, name);
  g_autofree char *unfinished = put_old(folder, ".backplane-0123456789abcdef");
  struct stat status;
  uint64_t files;
  set_age(kept, -100 * DAY);
  set_age(unfinished, -100 * DAY);
  keep("second", "2");
  g_assert_false(g_file_test(unfinished, G_FILE_TEST_EXISTS));
  g_assert_cmpint(stat(kept, &status), ==, 0);
  /* The file system's clock may be ahead of time(), which is read from the last tick. */
  g_assert_cmpint(status.st_mtime, <=, time(NULL) + 1);
  set_age(kept, -100 * DAY);
  g_assert_cmpint(bp_cache_clear(&files, NULL), ==, 0);
  g_assert_cmpint((int)files, ==, 1);
  g_assert_false(g_file_test(kept, G_FILE_TEST_EXISTS));
}

static void test_old_files_go_without_a_limit(void) {
  g_autofree char *cache = use_cache_of("unlimited"), *folder = g_build_filename(cache, "x", NULL);
  g_autofree char *name = g_strdup_printf("%064x", 1), *kept = put_old(folder, name);
  g_setenv("BACKPLANE_CACHE_SIZE", "0", TRUE);
  keep("second", "2");
  g_assert_false(g_file_test(kept, G_FILE_TEST_EXISTS));
  g_unsetenv("BACKPLANE_CACHE_SIZE");
}

/* A service may have a umask that denies the owner, too. */
static void test_umask(void) {
  g_autofree char *cache = use_cache_of("masked"), *folder = g_build_filename(cache, "x", NULL);
  struct stat status;
  mode_t before = umask(0177);
  keep("first", "1");
  umask(before);
  g_assert_cmpint(stat(folder, &status), ==, 0);
  g_assert_cmpint(status.st_mode & 0777, ==, 0700);
  g_assert_true(is_kept("first", "1"));
}

/* ---- Where a path may lead --------------------------------------------------------------- */

static void assert_refused(const char *why) {
  keep("k", "bytes");
  g_assert_true(is_kept("k", NULL));
  assert_said(why);
}

static void test_relative_folder(void) {
  g_autofree char *before = g_get_current_dir();
  g_assert_cmpint(g_chdir(plugin_directory), ==, 0);
  use_cache("relative");
  assert_refused("is relative");
  g_assert_false(g_file_test("relative", G_FILE_TEST_EXISTS));
  g_assert_cmpint(g_chdir(before), ==, 0);
}

/* Nobody can make a folder in /sys. */
static void test_folder_that_cannot_be_made(void) {
  int rc = mkdir("/sys/backplane-test", 0700);
  g_autofree char *why = g_strdup_printf("/sys/backplane-test: %s", g_strerror(errno));
  if (!rc) {
    rmdir("/sys/backplane-test");
    g_test_skip("/sys is an ordinary folder");
    return;
  }
  use_cache("/sys/backplane-test");
  assert_refused(why);
}

static void test_folder_of_all_above(void) {
  g_autofree char *shared = plugin_file_path("shared"),
                  *cache = g_build_filename(shared, "c", NULL);
  g_assert_cmpint(g_mkdir(shared, 0700), ==, 0);
  use_cache(cache);
  keep("k", "bytes");
  g_assert_true(is_kept("k", "bytes"));
  g_assert_cmpint(g_chmod(shared, 0777), ==, 0);
  assert_refused("others may write to the directory");
  g_assert_cmpint(g_chmod(shared, 01777), ==, 0);
  g_assert_true(is_kept("k", "bytes"));
}

static void test_file_of_others(void) {
  g_autofree char *cache = use_cache_of("file"), *folder = g_build_filename(cache, "x", NULL);
  keep("k", "bytes");
  GDir *directory = g_dir_open(folder, 0, NULL);
  g_autofree char *file = g_build_filename(folder, g_dir_read_name(directory), NULL);
  g_autofree char *moved = plugin_file_path("moved");
  g_dir_close(directory);
  g_assert_cmpint(g_chmod(file, 0666), ==, 0);
  g_assert_true(is_kept("k", NULL));
  assert_said("not a file that this user alone may write");
  g_assert_cmpint(g_chmod(file, 0600), ==, 0);
  g_assert_true(is_kept("k", "bytes"));
  g_assert_cmpint(g_rename(file, moved), ==, 0);
  g_assert_cmpint(symlink(moved, file), ==, 0);
  g_assert_true(is_kept("k", NULL));
  keep("k", "others");
  g_assert_true(is_kept("k", "others"));
}

/* If root has the HOME of a user, that user's links could redirect root's writes. */
static void test_home_of_another_user(void) {
  if (geteuid()) {
    g_test_skip("only root follows links of another user");
    return;
  }
  g_autofree char *home = plugin_file_path("home"), *victim = plugin_file_path("victim");
  g_autofree char *link = g_build_filename(home, ".cache/backplane/x", NULL);
  g_autofree char *parent = g_path_get_dirname(link), *above = g_path_get_dirname(parent);
  g_autofree char *name = g_strdup_printf("%064x", 1), *old = put_old(victim, name);
  g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
  g_assert_cmpint(symlink(victim, link), ==, 0);
  const char *const paths[] = {home, above, parent, link};
  for (size_t i = 0; i < G_N_ELEMENTS(paths); i++)
    g_assert_cmpint(lchown(paths[i], SOME_USER, SOME_USER), ==, 0);
  g_autofree char *before = g_strdup(g_getenv("HOME"));
  g_string_truncate(said, 0);
  g_unsetenv("BACKPLANE_CACHE_DIR");
  g_unsetenv("XDG_CACHE_HOME");
  g_setenv("HOME", home, TRUE);
  assert_refused("others may write to the directory");
  g_assert_true(g_file_test(old, G_FILE_TEST_EXISTS));
  g_assert_cmpint(count_files(victim), ==, 1);
  g_assert_cmpint(count_files(parent), ==, 1);
  if (before)
    g_setenv("HOME", before, TRUE);
}

/* The folder of the subject belongs to root; the folder above it belongs to another user. */
static void test_folder_of_another_user(void) {
  g_autofree char *cache = use_cache_of("theirs");
  keep("k", "bytes");
  if (geteuid()) {
    g_test_skip("only root can give a folder away");
    return;
  }
  g_assert_cmpint(chown(cache, SOME_USER, SOME_USER), ==, 0);
  assert_refused("others may write to the directory");
  g_assert_cmpint(chown(cache, 0, 0), ==, 0);
}

/* ---- Limits ------------------------------------------------------------------------------ */

/* Runs in a child. Returns 0 if the result is right, 77 if the child cannot run the test, or -1
 * with errno as the reason. */
typedef int (*Act)(void);

static void run_in_child(Act act, const char *impossible) {
  int status;
  pid_t child = fork();
  if (!child) {
    signal(SIGXFSZ, SIG_DFL);
    _exit(act());
  }
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    g_test_skip(impossible);
  else if (status)
    g_error("it ended with status %d", status);
}

/* A file over the limit is not kept, and no part of it remains. */
static int write_over_limit(void) {
  static char much[100000];
  const struct rlimit few = {10000, 10000};
  g_autofree char *cache = use_cache_of("limit"), *folder = g_build_filename(cache, "x", NULL);
  keep("little", "bytes");
  if (setrlimit(RLIMIT_FSIZE, &few))
    return 77;
  keep_bytes("much", much, sizeof much);
  sigset_t pending;
  sigpending(&pending);
  return !is_kept("much", NULL) || !is_kept("little", "bytes") || count_files(folder) != 1 ||
         !strstr(said->str, "File too large") || sigismember(&pending, SIGXFSZ);
}

static void test_limit_of_file_sizes(void) {
  run_in_child(write_over_limit, "file sizes cannot be limited");
}

/* ---- File systems ------------------------------------------------------------------------ */

/* Mounts a file system for the cache that no other process sees. */
static int mount_cache(const char *options) {
  g_autofree char *path = use_cache_of("mounted");
  g_assert_true(g_mkdir_with_parents(path, 0700) == 0);
  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("tmpfs", path, "tmpfs", 0, options))
    return -1;
  return 0;
}

static const char no_mount[] = "this process may mount nothing";

static int fill_up(void) {
  static char much[300000];
  if (mount_cache("size=64k,mode=700"))
    return 77;
  g_autofree char *folder = plugin_file_path("mounted/x");
  keep("little", "bytes");
  keep_bytes("much", much, sizeof much);
  return !is_kept("much", NULL) || !is_kept("little", "bytes") || count_files(folder) != 1 ||
         !strstr(said->str, "No space left");
}

static void test_full(void) {
  run_in_child(fill_up, no_mount);
}

static int use_read_only(void) {
  if (mount_cache("size=1m,mode=700"))
    return 77;
  g_autofree char *path = plugin_file_path("mounted");
  keep("before", "bytes");
  if (mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL))
    return 77;
  keep("after", "bytes");
  return !is_kept("before", NULL) || !is_kept("after", NULL) ||
         !strstr(said->str, "Read-only file system");
}

static void test_read_only(void) {
  run_in_child(use_read_only, no_mount);
}

/* Network file systems and FUSE may show the cache's folder as another user's. */
static int use_foreign(void) {
  if (mount_cache("size=1m,mode=777,uid=65534"))
    return 77;
  g_autofree char *path = plugin_file_path("mounted");
  keep("k", "bytes");
  return !is_kept("k", NULL) || count_files(path) || !strstr(said->str, "others may write");
}

static void test_foreign(void) {
  run_in_child(use_foreign, no_mount);
}

static void assert_null_refused(void) {
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_VALUE);
  bp_error_clear();
}

static void test_null(void) {
  BpOwnedBytes bytes = {(char *)1, 1, NULL};
  const BpByteArray key = {"key", 3};
  bp_cache_read("x", NULL, &bytes);
  assert_null_refused();
  g_assert_null(bytes.data);
  bp_cache_read(NULL, &key, &bytes);
  assert_null_refused();
  bp_cache_read("x", &key, NULL);
  assert_null_refused();
  bp_cache_write(NULL, &key, &key);
  assert_null_refused();
  bp_cache_write("x", NULL, &key);
  assert_null_refused();
  bp_cache_write("x", &key, NULL);
  assert_null_refused();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  said = g_string_new(NULL);
  bp_log_set_callback(keep_message, NULL);
  fetch_table();
#define ADD(path, test) g_test_add_func("/cache/" path, test)
  ADD("null_is_an_error", test_null);
  ADD("files_of_other_names_stay", test_other_names_stay);
  ADD("files_of_the_cache_go_after_90_days", test_own_old_files_go);
  ADD("clearing_removes_what_killed_processes_left", test_clearing_removes_unfinished_files);
  ADD("files_of_the_future_become_old", test_times_in_the_future);
  ADD("files_of_the_cache_go_after_90_days_without_a_limit", test_old_files_go_without_a_limit);
  ADD("folder_is_the_owners_under_any_umask", test_umask);
  ADD("relative_folder_is_not_used", test_relative_folder);
  ADD("folder_that_cannot_be_made_is_named_with_the_cause", test_folder_that_cannot_be_made);
  ADD("folder_below_a_folder_of_all_users_is_not_used", test_folder_of_all_above);
  ADD("file_of_other_users_and_link_are_not_trusted", test_file_of_others);
  ADD("home_of_another_user_does_not_lead_root", test_home_of_another_user);
  ADD("folder_in_a_folder_of_another_user_is_not_used", test_folder_of_another_user);
  ADD("limit_of_file_sizes_ends_nothing_PLG-10", test_limit_of_file_sizes);
  ADD("full_file_system_keeps_what_was_kept_PLG-10", test_full);
  ADD("read_only_file_system_is_one_warning_PLG-10", test_read_only);
  ADD("file_system_of_another_user_is_not_used_PLG-10", test_foreign);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
