/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that crash, hang, exit or fail otherwise: each of three plugins in turn has each defect,
 * and the other two run a kernel. Further tests check the stored results.
 *
 * Each host is a separate process of this program: `--host CODE...` uses the devices 1, 2 and so
 * on, and checks each against the reason code expected of its plugin. The text of BP_TEST_WARNING
 * must be in exactly one warning; after BP_TEST_SECONDS the host is ended. */

#include "tests/core/defects.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLUGINS 3

/* ---- A host ------------------------------------------------------------------------------ */

static void fail(const char *what) {
  fprintf(stderr, "# %s: %s\n", what, bp_error_message());
  exit(1);
}

static int warnings; /* expected warnings so far */

static void read_log(void *context, int32_t level, const char *message) {
  const char *expected = g_getenv("BP_TEST_WARNING");
  (void)context;
  fprintf(stderr, "# log %d: %s\n", level, message);
  warnings += expected && level >= BP_LOG_WARNING && strstr(message, expected);
}

/* The listed state of a plugin must be the expected one. */
static void check_listed(const char *name, const char *code) {
  BpPluginList *list = bp_plugin_list();
  const BpPluginInfo *found = NULL;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    if (!strcmp(bp_plugin_list_get(list, i)->name, name))
      found = bp_plugin_list_get(list, i);
  if (!found || strcmp(found->code, code)) {
    fprintf(stderr, "# %s: code %s, not %s: %s\n", name, found ? found->code : "none", code,
            found ? found->reason : "");
    exit(1);
  }
  bp_plugin_list_free(list);
}

static void check_plugin(int number, const char *code) {
  g_autofree char *name = defect_name(number);
  int rc = run_kernel(name);
  int is_good = !strcmp(code, "ok");
  if (is_good && rc)
    fail(name);
  if (!is_good && !rc) {
    fprintf(stderr, "# %s works although it has a defect\n", name);
    exit(1);
  }
  bp_error_clear();
  /* Missing devices are no failure of the plugin. */
  if (!g_str_has_prefix(code, "device"))
    check_listed(name, code);
}

static int be_host(char **codes) {
  const char *seconds = g_getenv("BP_TEST_SECONDS");
  alarm(seconds ? (unsigned)atoi(seconds) : 0);
  bp_log_set_callback(read_log, NULL);
  for (int i = 0; codes[i]; i++)
    check_plugin(i + 1, codes[i]);
  if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
    fputs("# a child process is left behind\n", stderr);
    return 1;
  }
  if (g_getenv("BP_TEST_WARNING") && warnings != 1) {
    fprintf(stderr, "# %d times \"%s\"\n", warnings, g_getenv("BP_TEST_WARNING"));
    return 1;
  }
  return 0;
}

static GPid start_host(const char *plugin_path, const char *const *codes, gboolean is_quiet) {
  const char *arguments[8] = {"--host"};
  for (int i = 0; codes[i]; i++)
    arguments[i + 1] = codes[i];
  g_setenv("BACKPLANE_PLUGIN_PATH", plugin_path, TRUE);
  return start_self(arguments, is_quiet);
}

/* ---- Every defect in every place --------------------------------------------------------- */

typedef struct Defect {
  const char *name;
  const char *code;
  int hangs; /* up to the deadline */
} Defect;

static const Defect defects[] = {
    {"none", "ok", 0},
    {"crash@load", "crashed", 0},
    {"exit@load", "exited", 0},
    {"sleep@load", "timed-out", 1},
    {"crash@entry", "crashed", 0},
    {"entry-fail", "entry-failed", 0},
    {"entry-abi", "entry-other-abi", 0},
    {"no-initialize", "initialize-missing", 0},
    {"crash", "crashed", 0},
    {"abort", "crashed", 0},
    {"bad-instruction", "crashed", 0},
    {"thread-crash", "crashed", 0},
    {"stack-overflow", "crashed", 0},
    {"loop", "timed-out", 1},
    {"sleep", "timed-out", 1},
    {"exit", "exited", 0},
    {"quick-exit", "exited", 0},
    {"stop", "stopped", 0},
    {"stop-parent", "timed-out", 1},
    {"kill-parent", "trial-garbled", 0},
    {"kill-group", "crashed", 0},
    {"big-file", "crashed", 0},
    {"double-fork", "leaves-processes", 0},
    {"fork-and-return", "leaves-processes", 0},
    {"fork-and-return@load", "leaves-processes", 0},
    {"fork-and-return@count", "leaves-processes", 0},
    {"close-all", "crashed", 0},
    {"many-devices", "trial-garbled", 0},
    {"fork-and-many", "trial-garbled", 0},
    {"abort@exit", "crashed", 0},
    {"sleep@exit", "timed-out", 1},
    {"flood", "ok", 0},
    {"init-fail", "initialize-failed", 0},
    {"register-less", "name-not-registered", 0},
    {"crash@count", "crashed", 0},
    {"sleep@count", "timed-out", 1},
    {"exit@count", "exited", 0},
    {"devices-fail", "devices-failed", 0},
    {"devices-none", "devices-none", 0},
};

static void write_set(const char *set, int broken, const char *defect) {
  for (int i = 1; i <= PLUGINS; i++) {
    g_autofree char *file = g_strdup_printf("%s/plugin-%d.so", set, i);
    write_defect(file, i, i == broken ? defect : "none");
  }
}

static void assert_process_is_gone(const char *pid_file) {
  g_autofree char *text = NULL;
  if (!g_file_get_contents(pid_file, &text, NULL, NULL))
    return;
  int pid = atoi(text); /* 0: the process ended before it wrote its number */
  g_assert_true(!pid || (kill(pid, 0) && errno == ESRCH));
  g_unlink(pid_file);
}

/* The plugin with the defect is replaced; the others keep their files and their stored results. */
static GPid start_with_defect(int broken, const Defect *defect) {
  g_autofree char *set = g_strdup_printf("set-%d", broken), *path = plugin_file_path(set);
  g_autofree char *file = g_strdup_printf("%s/plugin-%d.so", set, broken);
  const char *codes[PLUGINS + 1] = {"ok", "ok", "ok", NULL};
  write_defect(file, broken, defect->name);
  codes[broken - 1] = defect->code;
  return start_host(path, codes, !strcmp(defect->name, "flood"));
}

static void test_others_work(gconstpointer data) {
  const Defect *defect = data;
  g_autofree char *pid_file = plugin_file_path("pid");
  GPid hosts[PLUGINS];
  g_setenv("BP_DEFECT_PID_FILE", pid_file, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", defect->hangs ? "1" : "60", TRUE);
  for (int i = 0; i < PLUGINS; i++)
    hosts[i] = start_with_defect(i + 1, defect);
  for (int i = 0; i < PLUGINS; i++)
    g_assert_cmpint(wait_for(hosts[i]), ==, 0);
  assert_process_is_gone(pid_file);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

/* Killing a host during a trial ends the trial and the processes that the plugin started. This
 * process is their reaper, so it would wait for remaining ones. */
static void test_killed_host_leaves_no_trial(void) {
  g_autofree char *path = plugin_file_path("killed"), *pid_file = plugin_file_path("pid");
  const char *codes[] = {"timed-out", NULL};
  write_defect("killed/plugin.so", 1, "fork-and-sleep");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "3600", TRUE);
  g_setenv("BP_DEFECT_PID_FILE", pid_file, TRUE);
  g_assert_cmpint(prctl(PR_SET_CHILD_SUBREAPER, 1), ==, 0);
  GPid host = start_host(path, codes, FALSE);
  while (!g_file_test(pid_file, G_FILE_TEST_EXISTS))
    g_usleep(1000);
  g_assert_cmpint(kill(host, SIGKILL), ==, 0);
  while (waitpid(-1, NULL, 0) > 0) {
  }
  g_assert_cmpint(errno, ==, ECHILD);
  g_assert_cmpint(prctl(PR_SET_CHILD_SUBREAPER, 0), ==, 0);
  g_unlink(pid_file);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

/* ---- Stored results ---------------------------------------------------------------------- */

/* Returns how often the plugin's code ran in any process since the last call. */
static int count_traces(void) {
  g_autofree char *path = plugin_file_path("trace");
  struct stat status;
  int count = stat(path, &status) ? 0 : (int)status.st_size;
  g_unlink(path);
  return count;
}

/* Runs one host with one plugin in a directory of its own. */
static void assert_host(const char *set, const char *code) {
  g_autofree char *path = plugin_file_path(set);
  const char *codes[] = {code, NULL};
  g_assert_cmpint(wait_for(start_host(path, codes, FALSE)), ==, 0);
}

/* The host also warns of the failure, once. */
static void assert_host_warns(const char *set, const char *code, const char *warning) {
  g_setenv("BP_TEST_WARNING", warning, TRUE);
  assert_host(set, code);
  g_unsetenv("BP_TEST_WARNING");
}

static void write_one(const char *set, const char *defect) {
  g_autofree char *file = g_strdup_printf("%s/plugin.so", set);
  write_defect(file, 1, defect);
}

static void test_a_good_plugin_is_tried_once(void) {
  write_one("once", "none");
  count_traces();
  assert_host("once", "ok");
  g_assert_cmpint(count_traces(), ==, 2); /* the code ran in the trial and in the host */
  assert_host("once", "ok");
  g_assert_cmpint(count_traces(), ==, 1);
}

static void test_a_quarantined_plugin_does_not_run_again(void) {
  write_one("quarantine", "crash");
  count_traces();
  assert_host("quarantine", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  assert_host("quarantine", "crashed");
  g_assert_cmpint(count_traces(), ==, 0);
}

/* Each process tries the plugin again, and no process runs its code. */
static void test_a_failure_in_order_stays_in_the_trial(void) {
  write_one("orderly", "init-fail");
  count_traces();
  for (int i = 0; i < 2; i++) {
    assert_host("orderly", "initialize-failed");
    g_assert_cmpint(count_traces(), ==, 1);
  }
}

/* Either the plugin or the kernel, out of memory, may have ended the process. */
static void test_a_killed_trial_is_not_remembered(void) {
  write_one("killed-trial", "kill-group");
  count_traces();
  for (int i = 0; i < 2; i++) {
    assert_host("killed-trial", "crashed");
    g_assert_cmpint(count_traces(), ==, 1);
  }
}

static void test_quarantine_is_listed_without_loading(void) {
  g_autofree char *path = plugin_file_path("quarantine");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpPluginList *list = bp_plugin_list();
  const BpPluginInfo *info = bp_plugin_list_get(list, 0);
  g_assert_cmpint(info->state, ==, BP_PLUGIN_QUARANTINED);
  g_assert_cmpstr(info->code, ==, "crashed");
  g_assert_nonnull(strstr(info->reason, "while it initialised"));
  g_assert_nonnull(strstr(info->reason, "backplane doctor"));
  bp_plugin_list_free(list);
}

static void test_the_last_words_of_a_crash_are_in_its_reason(void) {
  write_one("words", "crash-words");
  assert_host("words", "crashed");
  g_autofree char *path = plugin_file_path("words");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpPluginList *list = bp_plugin_list();
  const char *reason = bp_plugin_list_get(list, 0)->reason;
  g_assert_nonnull(strstr(reason, "while it initialised; the last that it printed: \""));
  g_assert_nonnull(strstr(reason, "line 999 of a driver that prints the bus  is on ?? fire\""));
  g_assert_null(strstr(reason, "line 900"));
  bp_plugin_list_free(list);
}

static void test_what_a_plugin_depends_on_ends_its_quarantine(void) {
  g_autofree char *watched = plugin_file_path("watched");
  write_one("quarantine", "crash");
  declare("quarantine/plugin.so", NULL, NULL, NULL, watched);
  assert_host("quarantine", "crashed");
  count_traces();
  g_setenv("BP_DEFECT_VARIABLE", "changed", TRUE);
  assert_host("quarantine", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  g_assert_cmpint(g_mkdir(watched, 0700), ==, 0);
  assert_host("quarantine", "crashed");
  g_rmdir(watched);
  g_assert_cmpint(count_traces(), ==, 1);
  g_unsetenv("BP_DEFECT_VARIABLE");
  write_one("quarantine", "none");
  assert_host("quarantine", "ok");
}

/* A directory with links to itself has exponentially many paths: a host that examined all of them
 * would not end. */
static void test_patterns_without_end_are_bounded(void) {
  g_autofree char *folder = plugin_file_path("w"), *pattern = NULL;
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  for (char name = 'a'; name <= 'p'; name++) {
    g_autofree char *link = g_strdup_printf("%s/%c", folder, name);
    g_assert_cmpint(symlink(".", link), ==, 0);
  }
  pattern = g_strconcat(folder, "/*/*/*/*/*/*/*/*", NULL);
  write_one("patterns", "none");
  declare("patterns/plugin.so", NULL, NULL, NULL, pattern);
  g_setenv("BP_TEST_SECONDS", "20", TRUE);
  assert_host("patterns", "ok");
  g_unsetenv("BP_TEST_SECONDS");
}

/* A trial whose host has ended does not wait for its deadline. */
static void test_trial_of_a_host_that_ended_ends(void) {
  const char *trial = g_getenv("BACKPLANE_TRIAL_PROGRAM");
  Dl_info library;
  write_one("orphan", "sleep@load");
  g_autofree char *plugin = plugin_file_path("orphan/plugin.so");
  g_autofree char *report = plugin_file_path("report");
  g_assert_nonnull(trial);
  g_assert_cmpint(dladdr(__extension__(const void *) bp_plugin_list, &library), !=, 0);
  g_autofree char *command = g_strdup_printf("exec '%s' '%s' '%s' 3600000 1 user 3>'%s' 4<'%s'",
                                             trial, library.dli_fname, plugin, report, plugin);
  g_autofree char *text = NULL;
  g_assert_cmpint(system(command), ==, 0);
  g_assert_true(g_file_get_contents(report, &text, NULL, NULL));
  g_assert_nonnull(strstr(text, "end=timeout\n"));
}

/* Points the link that stands for a device node to another node. */
static void link_node(const char *node, const char *to) {
  g_unlink(node);
  g_assert_cmpint(symlink(to, node), ==, 0);
}

/* Only the node changes, neither the plugin's file nor any other dependency. */
static void test_a_device_node_ends_a_quarantine(void) {
  static const char *const others[] = {"/dev/zero", "/proc/nonexistent", "/dev/null"};
  g_autofree char *node = plugin_file_path("node");
  link_node(node, "/dev/null");
  write_one("node-user", "crash");
  declare("node-user/plugin.so", NULL, NULL, node, NULL);
  count_traces();
  for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
    assert_host("node-user", "crashed");
    g_assert_cmpint(count_traces(), ==, 1);
    assert_host("node-user", "crashed");
    g_assert_cmpint(count_traces(), ==, 0);
    link_node(node, others[i]);
  }
  assert_host("node-user", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
}

static void use_cache(const char *name) {
  g_autofree char *cache = plugin_file_path(name);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
}

/* Returns the cache file with the results of the only plugin: its name is a hash and the suffix
 * (transfer full). */
static char *find_record(const char *suffix) {
  g_autofree char *path = g_build_filename(g_getenv("BACKPLANE_CACHE_DIR"), "plugins", NULL);
  GDir *directory = g_dir_open(path, 0, NULL);
  char *found = NULL;
  for (const char *name; directory && (name = g_dir_read_name(directory));)
    if (strlen(name) == 64 + strlen(suffix) && g_str_has_suffix(name, suffix))
      found = g_build_filename(path, name, NULL);
  if (directory)
    g_dir_close(directory);
  return found;
}

/* Updates the trailer of a record: a mark, and the hash of the size and of the bytes before it. */
static void seal(char *record, gsize length) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  gsize digest_size = 32;
  const guint64 size = length - 8 - digest_size;
  g_checksum_update(hash, (const guchar *)&size, sizeof size);
  g_checksum_update(hash, (const guchar *)record, (gssize)size);
  g_checksum_get_digest(hash, (guint8 *)record + size + 8, &digest_size);
  g_checksum_free(hash);
}

/* Changes the record as if the trial of the only plugin had been that many seconds earlier. */
static void age_quarantine(int seconds) {
  g_autofree char *file = find_record(".quarantine"), *text = NULL;
  gsize length;
  g_assert_true(g_file_get_contents(file, &text, &length, NULL));
  gint64 then = g_ascii_strtoll(strstr(text, "\ntime=") + 6, NULL, 10) - seconds;
  g_autofree char *line = g_strdup_printf("\ntime=%" G_GINT64_FORMAT "\n", then);
  memcpy(strstr(text, "\ntime="), line, strlen(line));
  seal(text, length);
  g_assert_true(g_file_set_contents(file, text, (gssize)length, NULL));
}

/* The quarantine lasts one minute, then ten. */
static void test_time_ends_a_quarantine(void) {
  use_cache("cache-time");
  write_one("time", "crash");
  assert_host("time", "crashed");
  count_traces();
  age_quarantine(70);
  assert_host("time", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  age_quarantine(70);
  assert_host("time", "crashed");
  g_assert_cmpint(count_traces(), ==, 0);
  age_quarantine(600);
  assert_host("time", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  use_cache("cache");
}

static void test_a_diagnosis_tries_a_quarantined_plugin(void) {
  g_autofree char *doctor = g_build_filename(g_getenv("top_builddir"), "backplane", NULL);
  char *argv[] = {doctor, (char *)(uintptr_t) "doctor", NULL};
  write_one("diagnosed", "crash");
  assert_host("diagnosed", "crashed");
  count_traces();
  g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, NULL,
                             NULL, NULL));
  g_assert_cmpint(count_traces(), ==, 1);
}

/* The plugin ends the process that selects a device, by an orderly exit, and the diagnosis says
 * so. */
static void test_a_diagnosis_survives_the_choice_of_a_device(void) {
  g_autofree char *doctor = g_build_filename(g_getenv("top_builddir"), "backplane", NULL);
  g_autofree char *path = plugin_file_path("survived"), *said = NULL;
  char *argv[] = {doctor, (char *)(uintptr_t) "doctor", (char *)(uintptr_t) "--json", NULL};
  int status;
  write_one("survived", "abort!load");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_assert_true(
      g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &said, NULL, &status, NULL));
  g_assert_true(WIFEXITED(status));
  g_assert_cmpint(WEXITSTATUS(status), ==, 5);
  g_assert_nonnull(strstr(said, "a plugin that works in its trial ends a program"));
  g_assert_nonnull(strstr(said, "\"findings\""));
}

/* A plugin that exits during its trial, but not in the program: the result in the program
 * counts. */
static void test_the_command_ends_well_beside_an_end_that_crashes(void) {
  g_autofree char *command = g_build_filename(g_getenv("top_builddir"), "backplane", NULL);
  g_autofree char *path = plugin_file_path("ends"), *said = NULL, *warned = NULL;
  char *argv[] = {command, (char *)(uintptr_t) "list", (char *)(uintptr_t) "--probe", NULL};
  int status;
  write_one("ends", "fault!exit");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_assert_true(
      g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &said, &warned, &status, NULL));
  g_assert_true(WIFEXITED(status));
  g_assert_cmpint(WEXITSTATUS(status), ==, 0);
  g_assert_nonnull(strstr(said, ":0  A defect"));
  g_assert_nonnull(strstr(warned, "crashed while the program ended; the results are complete"));
}

/* A file that appears in the loader's search path may be the missing library. */
static void test_an_installed_library_ends_a_quarantine(void) {
  g_autofree char *before = g_strdup(g_getenv("LD_LIBRARY_PATH"));
  g_autofree char *folder = plugin_file_path("libraries");
  g_autofree char *path = before ? g_strdup_printf("%s:%s", before, folder) : g_strdup(folder);
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  g_setenv("LD_LIBRARY_PATH", path, TRUE);
  write_one("library", "crash");
  assert_host("library", "crashed");
  count_traces();
  assert_host("library", "crashed");
  g_assert_cmpint(count_traces(), ==, 0);
  write_plugin("libraries/libvendor.so.1", "", 0);
  assert_host("library", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  if (before)
    g_setenv("LD_LIBRARY_PATH", before, TRUE);
  else
    g_unsetenv("LD_LIBRARY_PATH");
}

static void test_more_time_ends_a_quarantine_for_lack_of_it(void) {
  write_one("slow", "sleep@load");
  count_traces();
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "0.2", TRUE);
  assert_host("slow", "timed-out");
  assert_host("slow", "timed-out");
  g_assert_cmpint(count_traces(), ==, 1);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "0.4", TRUE);
  assert_host("slow", "timed-out");
  g_assert_cmpint(count_traces(), ==, 1);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

/* The warning comes at the plugin's use, once; test-plugins checks that listing does not warn. */
static void test_a_plugin_that_others_may_change_is_warned_of(void) {
  g_autofree char *path = plugin_file_path("writable/plugin.so");
  write_one("writable", "none");
  g_assert_cmpint(g_chmod(path, 0646), ==, 0);
  assert_host_warns("writable", "ok", "others may write to it, and loading it is running it");
}

static void damage(char *text, gsize *length, int how) {
  switch (how) {
  case 0:
    *length = 0;
    break;
  case 1:
    *length /= 2;
    break;
  case 2:
    memset(text, 0xff, *length);
    break;
  case 3:
    text[*length / 3] = '\n';
    break;
  case 4:
    memcpy(strstr(text, "verdict=ok"), "verdict=no", 10);
    break;
  case 5: /* one bit */
    strstr(text, "key=")[2] ^= 1;
    break;
  default:
    text[strlen("backplane-trial ")] = '9';
    break;
  }
}

static void test_a_damaged_cache_changes_nothing(void) {
  use_cache("cache-damaged");
  write_one("damaged", "none");
  for (int how = 0; how < 7; how++) {
    assert_host("damaged", "ok");
    g_autofree char *file = find_record(""), *text = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(file, &text, &length, NULL));
    damage(text, &length, how);
    g_assert_true(g_file_set_contents(file, text, (gssize)length, NULL));
    count_traces();
    assert_host_warns("damaged", "ok", "is damaged and will be made again");
    g_assert_cmpint(count_traces(), ==, 2);
  }
  use_cache("cache");
}

/* Records that other users may write, links and directories are not trusted. */
static void test_a_foreign_cache_changes_nothing(void) {
  use_cache("cache-foreign");
  write_one("foreign", "none");
  assert_host("foreign", "ok");
  g_autofree char *file = find_record("");
  g_autofree char *moved = g_strconcat(file, ".moved", NULL);
  count_traces();
  g_assert_cmpint(g_chmod(file, 0666), ==, 0);
  assert_host_warns("foreign", "ok", "because earlier results cannot be used");
  g_assert_cmpint(count_traces(), ==, 2);
  g_assert_cmpint(g_rename(file, moved), ==, 0);
  g_assert_cmpint(symlink(moved, file), ==, 0);
  assert_host_warns("foreign", "ok", "because earlier results cannot be used");
  g_assert_cmpint(count_traces(), ==, 2);
  g_unlink(file);
  g_assert_cmpint(g_mkdir(file, 0700), ==, 0);
  assert_host_warns("foreign", "ok", "because earlier results cannot be used");
  g_assert_cmpint(count_traces(), ==, 2);
  if (!geteuid() && !chown(g_getenv("BACKPLANE_CACHE_DIR"), 65534, 65534)) {
    g_autofree char *plugins = g_build_filename(g_getenv("BACKPLANE_CACHE_DIR"), "plugins", NULL);
    g_assert_cmpint(chown(plugins, 65534, 65534), ==, 0);
    assert_host_warns("foreign", "ok", "because earlier results cannot be used");
    g_assert_cmpint(count_traces(), ==, 2);
  }
  use_cache("cache");
}

static void test_no_cache_changes_nothing(void) {
  write_one("uncached", "none");
  count_traces();
  g_setenv("BACKPLANE_CACHE_DIR", "/proc/nowhere", TRUE);
  assert_host_warns("uncached", "ok", "because earlier results cannot be used");
  assert_host("uncached", "ok");
  g_assert_cmpint(count_traces(), ==, 4);
  write_one("uncached", "crash");
  assert_host("uncached", "crashed");
  g_assert_cmpint(count_traces(), ==, 1);
  use_cache("cache");
}

static void test_old_records_are_removed(void) {
  use_cache("cache-old");
  write_one("old", "none");
  assert_host("old", "ok");
  g_autofree char *kept = find_record("");
  g_autofree char *folder = g_path_get_dirname(kept);
  g_autofree char *name = g_strdup_printf("%064x", 1);
  g_autofree char *old = g_build_filename(folder, name, NULL);
  const struct timespec long_ago[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
  g_assert_true(g_file_set_contents(old, "", 0, NULL));
  g_assert_cmpint(utimensat(AT_FDCWD, old, long_ago, 0), ==, 0);
  assert_host("old", "ok");
  g_assert_true(g_file_test(old, G_FILE_TEST_EXISTS)); /* nothing was written */
  write_one("old", "none");
  assert_host("old", "ok");
  g_assert_false(g_file_test(old, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(kept, G_FILE_TEST_EXISTS));
  use_cache("cache");
}

static void test_many_processes_at_once_share_one_trial(void) {
  enum { PROCESSES = 64 };
  const char *codes[] = {"ok", NULL};
  g_autofree char *path = plugin_file_path("many");
  GPid hosts[PROCESSES];
  write_one("many", "none");
  count_traces();
  for (int i = 0; i < PROCESSES; i++)
    hosts[i] = start_host(path, codes, FALSE);
  for (int i = 0; i < PROCESSES; i++)
    g_assert_cmpint(wait_for(hosts[i]), ==, 0);
  g_assert_cmpint(count_traces(), ==, PROCESSES + 1);
}

static void test_without_the_helper_program_plugins_are_used(void) {
  g_autofree char *program = g_strdup(g_getenv("BACKPLANE_TRIAL_PROGRAM"));
  write_one("helpless", "none");
  count_traces();
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/proc/nonexistent/backplane-trial", TRUE);
  assert_host_warns("helpless", "ok", "without having been tried out");
  g_assert_cmpint(count_traces(), ==, 1);
  g_setenv("BACKPLANE_TRIAL_PROGRAM", program, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "0", TRUE);
  assert_host("helpless", "ok");
  g_assert_cmpint(count_traces(), ==, 1);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--host"))
    return be_host(argv + 2);
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  use_cache("cache");
  g_autofree char *trace = plugin_file_path("trace");
  g_setenv("BP_DEFECT_TRACE_FILE", trace, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
  for (int i = 1; i <= PLUGINS; i++) {
    g_autofree char *set = g_strdup_printf("set-%d", i);
    write_set(set, 0, "none");
  }
  for (size_t i = 0; i < G_N_ELEMENTS(defects); i++) {
    g_autofree char *path =
        g_strdup_printf("/defects/others-work-beside-PLG-5-PLG-6-PLG-7/%s", defects[i].name);
    g_test_add_data_func(path, &defects[i], test_others_work);
  }
#define ADD(path, test) g_test_add_func("/defects/" path, test)
  ADD("killed-host-leaves-no-trial-PLG-6", test_killed_host_leaves_no_trial);
  ADD("trial-of-a-host-that-ended-ends-PLG-6", test_trial_of_a_host_that_ended_ends);
  ADD("learned/a-good-plugin-is-tried-once-PLG-8", test_a_good_plugin_is_tried_once);
  ADD("learned/a-quarantined-plugin-does-not-run-again-PLG-8",
      test_a_quarantined_plugin_does_not_run_again);
  ADD("learned/failure_in_order_runs_in_no_program_PLG-5",
      test_a_failure_in_order_stays_in_the_trial);
  ADD("learned/killed_trial_is_not_remembered_PLG-9", test_a_killed_trial_is_not_remembered);
  ADD("learned/quarantine-is-listed-without-loading", test_quarantine_is_listed_without_loading);
  ADD("learned/last-words-of-a-crash-are-in-its-reason",
      test_the_last_words_of_a_crash_are_in_its_reason);
  ADD("learned/what-a-plugin-depends-on-ends-its-quarantine-PLG-9",
      test_what_a_plugin_depends_on_ends_its_quarantine);
  ADD("learned/patterns-without-end-are-bounded-PLG-4", test_patterns_without_end_are_bounded);
  ADD("learned/a-changed-device-node-ends-a-quarantine-PLG-9",
      test_a_device_node_ends_a_quarantine);
  ADD("learned/more-time-ends-a-quarantine-for-lack-of-it-PLG-9",
      test_more_time_ends_a_quarantine_for_lack_of_it);
  ADD("learned/time-ends-a-quarantine-PLG-9", test_time_ends_a_quarantine);
  ADD("learned/a-diagnosis-tries-a-quarantined-plugin-PLG-9",
      test_a_diagnosis_tries_a_quarantined_plugin);
  ADD("diagnosis_survives_a_plugin_that_ends_programs_PLG-25",
      test_a_diagnosis_survives_the_choice_of_a_device);
  ADD("command_ends_well_beside_a_plugin_that_crashes_at_exit_PLG-7",
      test_the_command_ends_well_beside_an_end_that_crashes);
  ADD("learned/an-installed-library-ends-a-quarantine-PLG-9",
      test_an_installed_library_ends_a_quarantine);
  ADD("a-plugin-that-others-may-change-is-warned-of-when-used-PLG-16",
      test_a_plugin_that_others_may_change_is_warned_of);
  ADD("cache/a-damaged-one-changes-nothing-PLG-10", test_a_damaged_cache_changes_nothing);
  ADD("cache/a-foreign-one-changes-nothing-PLG-10", test_a_foreign_cache_changes_nothing);
  ADD("cache/none-changes-nothing-PLG-10", test_no_cache_changes_nothing);
  ADD("cache/old-records-are-removed", test_old_records_are_removed);
  ADD("cache/many-processes-at-once-share-one-trial-PLG-11",
      test_many_processes_at_once_share_one_trial);
  ADD("helper/without-it-plugins-are-used-PLG-26",
      test_without_the_helper_program_plugins_are_used);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
