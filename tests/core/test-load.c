/* SPDX-License-Identifier: Apache-2.0 */
/* The checked file is the loaded file; and plugins when processes fork, threads exit and
 * descriptors are closed. Each host is a separate process of this program with `--NAME`. */

#include "tests/core/defects.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "# %s: %s\n", what, bp_error_message());
  _exit(1);
}

static int count_devices(const char *kind) {
  BpDevice device;
  int32_t count = 0;
  return bp_device_parse(kind, &device) || bp_device_count(device.device_type, &count, NULL)
             ? -1
             : count;
}

static int use_number(int number) {
  g_autofree char *name = defect_name(number);
  return count_devices(name);
}

static void assert_host(const char *host, const char *plugins) {
  const char *arguments[] = {host, NULL};
  g_autofree char *path = plugin_file_path(plugins);
  int status;
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  GPid pid = start_self(arguments, FALSE);
  g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
  g_assert_cmpint(status, ==, 0);
}

static int has_trace(void) {
  g_autofree char *path = plugin_file_path("trace");
  int is_there = g_file_test(path, G_FILE_TEST_EXISTS);
  g_unlink(path);
  return is_there;
}

/* ---- A swap race ------------------------------------------------------------------------- */

/* Alternates two files at one path: a good plugin, and a plugin that its descriptor rejects but
 * whose constructor leaves a trace if it runs. */
static void *swap(void *data) {
  atomic_int *goes_on = data;
  g_autofree char *path = plugin_file_path("swapped/plugin.so");
  g_autofree char *next = plugin_file_path("swap/next.so");
  g_autofree char *good = plugin_file_path("swap/good.so");
  g_autofree char *bad = plugin_file_path("swap/bad.so");
  for (unsigned i = 0; atomic_load(goes_on); i++) {
    g_unlink(next);
    if (link(i % 2 ? bad : good, next) || rename(next, path))
      g_error("cannot swap");
  }
  return NULL;
}

/* The good plugin leaves no trace: it is another binary. */
static int be_swapped(void) {
  for (int i = 0; i < 20; i++) {
    bp_plugin_list_free(bp_plugin_list());
    bp_plugin_activate("odd-good");
    bp_error_clear();
  }
  return 0;
}

static void test_swap(void) {
  pthread_t thread;
  atomic_int goes_on = 1;
  g_autofree char *bad = plugin_file_path("swap/bad.so"), *data = NULL;
  gsize size;
  copy_plugin("odd-good", "swap/good.so", NULL, NULL);
  copy_plugin("odd-good", "swapped/plugin.so", NULL, NULL);
  write_defect("swap/bad.so", 1, "none");
  g_assert_true(g_file_get_contents(bad, &data, &size, NULL));
  replace_bytes(data, size, "abi=" BP_ABI_NEEDED_TEXT, "abi=1.9");
  write_plugin("swap/bad.so", data, size);
  has_trace();
  g_assert_cmpint(pthread_create(&thread, NULL, swap, &goes_on), ==, 0);
  for (int i = 0; i < 30; i++)
    assert_host("--swapped", "swapped");
  atomic_store(&goes_on, 0);
  pthread_join(thread, NULL);
  g_assert_false(has_trace());
}

/* A file that is replaced between the search and the first use is not loaded in place of the
 * original. */
static int be_replaced(void) {
  bp_plugin_list_free(bp_plugin_list());
  write_defect("replaced/plugin.so", 3, "none");
  if (use_number(2) != -1 || !bp_error_is(BP_ERROR_NOT_FOUND))
    fail("the replaced plugin was used");
  bp_error_clear();
  return use_number(3) == 1 ? 0 : 1;
}

/* Another build of the plugin replaces the plugin's file. */
static int be_upgraded(void) {
  bp_plugin_list_free(bp_plugin_list());
  write_defect("replaced/plugin.so", 2, "device-unusable");
  return use_number(2) == 1 ? 0 : 1;
}

static void test_replaced(void) {
  write_defect("replaced/plugin.so", 2, "none");
  assert_host("--replaced", "replaced");
  write_defect("replaced/plugin.so", 2, "none");
  assert_host("--upgraded", "replaced");
}

/* ---- Descriptors ------------------------------------------------------------------------- */

/* The program closes all descriptors, and the loader does not confuse the next plugin with the
 * first. */
static int be_closed(void) {
  if (use_number(4) != 1)
    fail("the first plugin");
  for (int fd = 3; fd < 256; fd++)
    close(fd);
  return use_number(5) == 1 && use_number(4) == 1 ? 0 : 1;
}

static void test_closed(void) {
  write_defect("closed/a.so", 4, "none");
  write_defect("closed/b.so", 5, "none");
  assert_host("--closed", "closed");
}

/* Builds of a plugin replace each other and fail in this process: each stays mapped, without a
 * descriptor. */
static int be_failing(void) {
  int unused[4];
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "0", TRUE);
  for (size_t i = 0; i < G_N_ELEMENTS(unused); i++) {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    write_defect("failing/plugin.so", 9, "init-fail");
    bp_plugin_list_free(bp_plugin_list());
    if (use_number(9) != -1 || !strstr(bp_error_message(), "its initialisation failed"))
      fail("a build that fails");
    bp_error_clear();
    unused[i] = fd;
  }
  write_defect("failing/plugin.so", 9, "none");
  bp_plugin_list_free(bp_plugin_list());
  return use_number(9) == 1 && unused[0] == unused[G_N_ELEMENTS(unused) - 1] ? 0 : 1;
}

static void test_failing(void) {
  write_defect("failing/plugin.so", 9, "none");
  assert_host("--failing", "failing");
}

/* ---- Forks ------------------------------------------------------------------------------- */

static int wait_child(pid_t child) {
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Before any device was used, the child may start using devices, and so may its parent
 * afterwards. */
static int be_forked_before(void) {
  bp_plugin_list_free(bp_plugin_list());
  pid_t child = fork();
  if (!child)
    _exit(use_number(6) == 1 ? 0 : 1);
  return wait_child(child) || use_number(6) != 1;
}

/* After a device was used, the child gets an error at once. */
static int be_forked_after(void) {
  if (use_number(6) != 1)
    fail("the device");
  pid_t child = fork();
  if (!child)
    _exit(use_number(6) == -1 && strstr(bp_error_message(), "fork") ? 0 : 1);
  return wait_child(child) || use_number(6) != 1;
}

static void *activate_for_ever(void *unused) {
  use_number(7);
  return unused;
}

/* Forks while another thread initialises a plugin: in the child that never ends, and the error says
 * so. */
static int be_forked_meanwhile(void) {
  pthread_t thread;
  const char *trace = g_getenv("BP_DEFECT_TRACE_FILE");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "0", TRUE);
  g_unlink(trace);
  pthread_create(&thread, NULL, activate_for_ever, NULL);
  while (!g_file_test(trace, G_FILE_TEST_EXISTS))
    g_usleep(1000);
  g_usleep(20000);
  pid_t child = fork();
  if (!child) {
    BpPluginList *list = bp_plugin_list();
    _exit(strcmp(bp_plugin_list_get(list, 0)->code, "forked") || use_number(7) != -1);
  }
  _exit(wait_child(child));
}

static void test_forks(void) {
  write_defect("forked/plugin.so", 6, "none");
  assert_host("--forked-before", "forked");
  assert_host("--forked-after", "forked");
  write_defect("meanwhile/plugin.so", 7, "sleep");
  assert_host("--forked-meanwhile", "meanwhile");
}

/* ---- Threads ----------------------------------------------------------------------------- */

static void *use_for_ever(void *unused) {
  while (use_number(8) == 1) {
  }
  fail("the device");
  return unused;
}

static void *exit_here(void *unused) {
  if (use_number(8) != 1)
    fail("the device");
  exit(0);
  return unused;
}

/* Exits from another thread than the first, while others use the device. */
static int be_exiting(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    pthread_create(&threads[i], NULL, i + 1 < G_N_ELEMENTS(threads) ? use_for_ever : exit_here,
                   NULL);
  pthread_join(threads[0], NULL);
  return 1;
}

/* Exits while another thread tries out a hanging plugin. */
static int be_exiting_meanwhile(void) {
  pthread_t thread;
  const char *trace = g_getenv("BP_DEFECT_TRACE_FILE");
  pthread_create(&thread, NULL, activate_for_ever, NULL);
  while (!g_file_test(trace, G_FILE_TEST_EXISTS))
    g_usleep(1000);
  exit(0);
}

static void *use_in_thread(void *unused) {
  static int failed;
  return use_number(8) == 1 ? unused : &failed;
}

/* 32 threads use a device for the first time at once: there is one trial and one initialisation. */
static int be_crowded(void) {
  pthread_t threads[32];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    pthread_create(&threads[i], NULL, use_in_thread, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++) {
    void *result;
    pthread_join(threads[i], &result);
    if (result)
      fail("a thread");
  }
  return 0;
}

static void test_threads(void) {
  struct stat status;
  g_autofree char *trace = plugin_file_path("trace");
  write_defect("threads/plugin.so", 8, "none");
  has_trace();
  assert_host("--crowded", "threads");
  g_assert_cmpint(stat(trace, &status), ==, 0);
  g_assert_cmpint(status.st_size, ==, 2);
  assert_host("--exiting", "threads");
  has_trace();
  assert_host("--exiting-meanwhile", "meanwhile");
}

/* ---- One of many ------------------------------------------------------------------------- */

/* The first use of one of a hundred plugins maps only that plugin. */
static int be_one_of_many(void) {
  g_autofree char *maps = NULL;
  if (use_number(77) != 1 || !g_file_get_contents("/proc/self/maps", &maps, NULL, NULL))
    fail("the device");
  const char *found = strstr(maps, "/many/plugin-77.so");
  for (const char *at = maps; (at = strstr(at, "/many/plugin-")); at++)
    if (strncmp(at, "/many/plugin-77.so", strlen("/many/plugin-77.so")))
      return 1;
  return found ? 0 : 2;
}

static void test_one_of_many(void) {
  struct stat status;
  g_autofree char *trace = plugin_file_path("trace");
  for (int i = 0; i < 100; i++) {
    g_autofree char *file = g_strdup_printf("many/plugin-%d.so", i);
    write_defect(file, i, "none");
  }
  has_trace();
  assert_host("--one-of-many", "many");
  g_assert_cmpint(stat(trace, &status), ==, 0);
  g_assert_cmpint(status.st_size, ==, 2); /* the code ran in the trial and in the host */
}

/* ---- Several at once --------------------------------------------------------------------- */

/* Uses plugins that each wait until all have started: one after another they would miss the
 * deadline. */
static void check_all_work(void) {
  for (int i = 0; i < DEFECT_MEETING; i++)
    if (use_number(10 + i) != 1)
      fail("one that was to meet others");
}

static int be_selecting(void) {
  BpDevice device;
  if (bp_device_select("auto", &device, NULL))
    fail("the selection");
  check_all_work();
  return 0;
}

static int be_diagnosing(void) {
  BpPluginDiagnosis *diagnosis = bp_plugin_diagnose();
  int size = (int)bp_plugin_diagnosis_size(diagnosis), worst = BP_SEVERITY_OK;
  for (int i = 0; i < size; i++)
    worst = MAX(worst, bp_plugin_diagnosis_get(diagnosis, (size_t)i)->severity);
  bp_plugin_diagnosis_free(diagnosis);
  check_all_work();
  return size < DEFECT_MEETING || worst != BP_SEVERITY_OK;
}

static void test_meeting(void) {
  for (int i = 0; i < DEFECT_MEETING; i++) {
    g_autofree char *file = g_strdup_printf("meeting/plugin-%d.so", i);
    write_defect(file, 10 + i, "meet");
  }
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "20", TRUE);
  has_trace();
  assert_host("--selecting", "meeting");
  g_assert_true(has_trace());
  assert_host("--diagnosing", "meeting");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

/* ---- Without /proc ----------------------------------------------------------------------- */

#define CANNOT_UNMOUNT 77

static int be_without_proc(void) {
#if defined(__SANITIZE_ADDRESS__)
  return CANNOT_UNMOUNT; /* the leak checker reads /proc itself */
#endif
  if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      umount2("/proc", MNT_DETACH))
    return CANNOT_UNMOUNT;
  if (use_number(9) != -1 || !strstr(bp_error_message(), "/proc is not mounted"))
    fail("the device");
  BpPluginList *list = bp_plugin_list();
  /* Exits without the leak checker, which reads /proc. */
  _exit(strcmp(bp_plugin_list_get(list, 0)->code, "proc-missing") != 0);
}

static void test_without_proc(void) {
  const char *arguments[] = {"--without-proc", NULL};
  g_autofree char *path = plugin_file_path("without-proc");
  write_defect("without-proc/plugin.so", 9, "none");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  int status = wait_child(start_self(arguments, FALSE));
  if (status == CANNOT_UNMOUNT)
    g_test_skip("this process may not unmount /proc for itself");
  else
    g_assert_cmpint(status, ==, 0);
}

/* ---- The current directory --------------------------------------------------------------- */

static int be_relative(void) {
  BpPluginList *list = bp_plugin_list();
  int size = (int)bp_plugin_list_size(list);
  bp_plugin_list_free(list);
  return size;
}

static void test_current_directory(void) {
  static const char *const paths[] = {".", "", ":", "threads", "./threads:", "../x:."};
  g_autofree char *before = g_get_current_dir();
  const char *arguments[] = {"--relative", NULL};
  g_assert_cmpint(g_chdir(plugin_directory), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
    g_setenv("BACKPLANE_PLUGIN_PATH", paths[i], TRUE);
    g_assert_cmpint(wait_child(start_self(arguments, TRUE)), ==, 0);
  }
  g_assert_cmpint(g_chdir(before), ==, 0);
}

typedef struct Host {
  const char *name;
  int (*run)(void);
} Host;

static const Host hosts[] = {
    {"--swapped", be_swapped},           {"--replaced", be_replaced},
    {"--upgraded", be_upgraded},         {"--closed", be_closed},
    {"--failing", be_failing},           {"--forked-before", be_forked_before},
    {"--forked-after", be_forked_after}, {"--forked-meanwhile", be_forked_meanwhile},
    {"--exiting", be_exiting},           {"--exiting-meanwhile", be_exiting_meanwhile},
    {"--crowded", be_crowded},           {"--one-of-many", be_one_of_many},
    {"--selecting", be_selecting},       {"--diagnosing", be_diagnosing},
    {"--without-proc", be_without_proc}, {"--relative", be_relative},
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < G_N_ELEMENTS(hosts); i++)
    if (!strcmp(argv[1], hosts[i].name)) {
      plugin_directory = g_strdup(g_getenv("BP_TEST_DIRECTORY"));
      return hosts[i].run();
    }
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  g_autofree char *cache = plugin_file_path("cache"), *trace = plugin_file_path("trace");
  g_setenv("BP_TEST_DIRECTORY", plugin_directory, TRUE);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
  g_setenv("BP_DEFECT_TRACE_FILE", trace, TRUE);
  g_setenv("XDG_DATA_HOME", "/proc/nonexistent", TRUE);
  g_test_add_func("/load/swapped-file-never-runs-unchecked-PLG-12", test_swap);
  g_test_add_func("/load/replaced-file-is-not-loaded-in-the-name-of-the-other-PLG-12",
                  test_replaced);
  g_test_add_func("/load/reused-descriptor-leads-to-its-file-PLG-12", test_closed);
  g_test_add_func("/load/failed-plugins-keep-no-descriptor", test_failing);
  g_test_add_func("/load/forks-PLG-21", test_forks);
  g_test_add_func("/load/threads-PLG-22", test_threads);
  g_test_add_func("/load/first-use-of-one-of-a-hundred-maps-one-PLG-18", test_one_of_many);
  g_test_add_func("/load/new-plugins-are-tried-out-at-once-PLG-31", test_meeting);
  g_test_add_func("/load/without-proc-nothing-is-loaded-PLG-12", test_without_proc);
  g_test_add_func("/load/never-from-the-current-directory-PLG-17", test_current_directory);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
