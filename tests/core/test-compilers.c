/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers as programs that the host runs: how they are found, how their end is detected whatever
 * the application does with its children, and which processes and files remain. */

#include "tests/core/module-fixture.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *scratch;

static char *path_of(const char *name) {
  return g_build_filename(scratch, name, NULL);
}

/* Makes a compiler for the test: shell commands, optionally followed by `cc` (its arguments are
 * "$@"). */
static void write_compiler(const char *name, const char *commands) {
  g_autofree char *path = path_of(name);
  g_autofree char *text = g_strdup_printf("#!/bin/sh\n%s\n", commands);
  g_autofree char *folder = g_path_get_dirname(path);
  g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
  g_assert_true(g_file_set_contents(path, text, -1, NULL));
  g_assert_cmpint(g_chmod(path, 0700), ==, 0);
}

static void use_compiler(const char *name, const char *commands) {
  g_autofree char *path = path_of(name);
  write_compiler(name, commands);
  g_setenv("BACKPLANE_CC", path, TRUE);
}

/* Each test has a cache of its own. */
static void begin(const char *name) {
  g_autofree char *cache = path_of(name);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  bp_error_clear();
}

static BpModule *load_with(const char *source, const char *const *flags) {
  const BpByteArray bytes = {source, strlen(source)};
  return module_table()->load_from_c(&bytes, flags);
}

static BpModule *load_c(const char *source) {
  return load_with(source, NULL);
}

static void assert_compiles_with(const char *const *flags) {
  BpModule *module = load_with(ADD_SOURCE, flags);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(module);
}

static void assert_compiles(void) {
  assert_compiles_with(NULL);
}

/* ---- Arguments --------------------------------------------------------------------------- */

static void test_level_of_clang(void) {
  static const char *const flags[] = {"-O1", "-fexpensive-optimizations", NULL};
  begin("level");
  use_compiler("gcc", "case \"$*\" in --version) echo 'gcc 99';; *'-O1 -fexpensive-optimizations'*)"
                      " exec cc \"$@\";; *) exit 3;; esac");
  assert_compiles_with(flags);
  use_compiler("clang", "case \"$*\" in --version) echo 'clang version 99';; *'-O1 -O3'*)"
                        " exec cc \"$@\";; *) exit 3;; esac");
  assert_compiles_with(flags);
}

/* ---- Finding a compiler ------------------------------------------------------------------ */

static void test_relative_path(void) {
  g_autofree char *before = g_get_current_dir();
  begin("relative");
  write_compiler("mycc", "exec cc \"$@\"");
  g_assert_cmpint(g_chdir(scratch), ==, 0);
  g_setenv("BACKPLANE_CC", "./mycc", TRUE);
  assert_compiles();
  g_assert_cmpint(g_chdir(before), ==, 0);
}

static void test_relative_folder_of_the_path(void) {
  g_autofree char *before = g_get_current_dir(), *path = g_strdup(g_getenv("PATH"));
  g_autofree char *longer = g_strdup_printf("bin:%s", path);
  begin("relative-folder");
  write_compiler("bin/mycc", "exec cc \"$@\"");
  g_assert_cmpint(g_chdir(scratch), ==, 0);
  g_setenv("BACKPLANE_CC", "mycc", TRUE);
  g_setenv("PATH", longer, TRUE);
  assert_compiles();
  g_setenv("PATH", path, TRUE);
  g_assert_cmpint(g_chdir(before), ==, 0);
}

static void test_file_that_is_no_program(void) {
  begin("no-program");
  use_compiler("plain", "exec cc \"$@\"");
  g_autofree char *path = path_of("plain");
  g_assert_cmpint(g_chmod(path, 0600), ==, 0);
  g_assert_null(load_c(ADD_SOURCE));
  g_assert_nonnull(strstr(bp_error_message(), "Permission denied"));
}

static void test_absent_path(void) {
  g_autofree char *path = g_strdup(g_getenv("PATH"));
  if (!g_file_test("/usr/bin/cc", G_FILE_TEST_IS_EXECUTABLE)) {
    g_test_skip("no /usr/bin/cc");
    return;
  }
  begin("absent-path");
  g_unsetenv("BACKPLANE_CC");
  g_unsetenv("PATH");
  assert_compiles();
  g_setenv("PATH", path, TRUE);
}

/* ---- The compiler's end ------------------------------------------------------------------ */

/* A compiler that kills itself in its first run, after writing half of the file. */
#define DIES_ONCE                                                                                  \
  "if [ \"$1\" = -c ] && mkdir '%s' 2>/dev/null; then\n"                                           \
  "  while [ \"$1\" != -o ]; do shift; done; echo half >\"$2\"; kill -9 $$\n"                      \
  "fi\nexec cc \"$@\""

static void use_compiler_that_dies_once(const char *name) {
  g_autofree char *mark = g_strdup_printf("%s/%s-died", scratch, name);
  g_autofree char *commands = g_strdup_printf(DIES_ONCE, mark);
  use_compiler(name, commands);
}

/* Runs in a child, which exits with 0 if the result is right. */
static void run_in_child(int (*act)(void)) {
  int status;
  pid_t child = fork();
  if (!child)
    _exit(act());
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_cmpint(status, ==, 0);
}

static int fails_with(const char *source, const char *part) {
  BpModule *module = load_c(source);
  int is_right = !module && bp_error_is(BP_ERROR_COMPILE) && strstr(bp_error_message(), part);
  if (!is_right)
    g_printerr("# %s\n", module ? "it compiled" : bp_error_message());
  bp_object_release(module);
  bp_error_clear();
  return is_right;
}

static int compile_with_ignored_children(void) {
  signal(SIGCHLD, SIG_IGN);
  return !fails_with(ADD_SOURCE, "signal 9") || !fails_with("int f( {", "error:");
}

/* The compiler's parent is the process that the library starts between itself and the compiler. */
static void test_killed_intermediate_process(void) {
  begin("intermediate");
  use_compiler("cc-that-kills-its-parent", "kill -9 $PPID");
  g_assert_true(fails_with(ADD_SOURCE, "No child processes"));
}

static void test_ignored_children(void) {
  begin("ignored");
  use_compiler_that_dies_once("half-cc");
  run_in_child(compile_with_ignored_children);
  assert_compiles();
}

static atomic_int is_over, num_signals;

static void count_signal(int number) {
  (void)number;
  atomic_fetch_add(&num_signals, 1);
}

static void *wait_for_any(void *unused) {
  while (!atomic_load(&is_over))
    if (waitpid(-1, NULL, 0) < 0)
      g_usleep(100);
  return unused;
}

static int compile_beside_a_waiter(void) {
  pthread_t waiter;
  signal(SIGCHLD, count_signal);
  if (pthread_create(&waiter, NULL, wait_for_any, NULL))
    return 1;
  int is_right = fails_with(ADD_SOURCE, "signal 9") && fails_with("int f( {", "error:");
  atomic_store(&is_over, 1);
  pthread_join(waiter, NULL);
  return !is_right || atomic_load(&num_signals);
}

static void test_application_that_waits_for_any_child(void) {
  begin("waiter");
  use_compiler_that_dies_once("half-cc-2");
  run_in_child(compile_beside_a_waiter);
  assert_compiles();
}

/* The program's own child is not reaped by the library. */
static void test_children_of_the_application(void) {
  int status;
  begin("children");
  use_compiler("cc-of-children", "exec cc \"$@\"");
  pid_t child = fork();
  if (!child)
    _exit(7);
  assert_compiles();
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_cmpint(WEXITSTATUS(status), ==, 7);
}

/* The program starts with no signal blocked, and with no signal ignored that it does not expect.
 * The program reports its signals itself, because a shell that waits for a child blocks signals. */
static void test_signals_of_the_application(void) {
  sigset_t blocked, before;
  begin("signals");
  g_autofree char *status = path_of("status");
  g_autofree char *commands =
      g_strdup_printf("while read -r line; do echo \"$line\"; done </proc/$$/status >'%s'\n"
                      "exec cc \"$@\"",
                      status);
  use_compiler("cc-of-signals", commands);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
  assert_compiles();
  signal(SIGPIPE, pipe_before);
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, &before, &now);
  g_assert_true(sigismember(&now, SIGUSR1));
  g_assert_false(sigismember(&now, SIGTERM));
  g_autofree char *text = NULL;
  g_assert_true(g_file_get_contents(status, &text, NULL, NULL));
  g_assert_nonnull(strstr(text, "SigBlk:\t0000000000000000"));
  guint64 ignored = g_ascii_strtoull(strstr(text, "SigIgn:") + 7, NULL, 16);
  g_assert_cmpuint(ignored >> (SIGPIPE - 1) & 1, ==, 0);
}

/* The compiler stops its process group, as Ctrl-Z in a terminal does. */
static int compile_in_a_group(void) {
  setpgid(0, 0);
  assert_compiles();
  return 0;
}

static void test_stop_of_a_job(void) {
  int status = 0;
  begin("job");
  use_compiler("cc-of-job", "kill -TSTP 0; exec cc \"$@\"");
  pid_t child = fork();
  if (!child)
    _exit(compile_in_a_group());
  gint64 until = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;
  while (waitpid(child, &status, WNOHANG | WUNTRACED) == 0 && g_get_monotonic_time() < until)
    g_usleep(1000);
  int is_stopped = WIFSTOPPED(status);
  do {
    kill(-child, SIGCONT);
    g_usleep(1000);
  } while (waitpid(child, &status, WNOHANG) == 0);
  g_assert_true(is_stopped);
  g_assert_cmpint(status, ==, 0);
}

static void *compile_in_thread(void *unused) {
  assert_compiles();
  return unused;
}

/* Waits until a file exists. */
static void await_file(const char *path) {
  gint64 until = g_get_monotonic_time() + 20 * G_USEC_PER_SEC;
  while (!g_file_test(path, G_FILE_TEST_EXISTS) && g_get_monotonic_time() < until)
    g_usleep(1000);
}

/* While the compiler runs, the reader of a pipe sees that the program closes the other end. */
static void test_descriptors_that_are_closed_meanwhile(void) {
  int ends[2];
  pthread_t thread;
  begin("descriptors");
  g_autofree char *started = path_of("started"), *go = path_of("go");
  g_autofree char *commands = g_strdup_printf(
      ": >'%s'\nfor i in $(seq 200); do [ -e '%s' ] || sleep 0.1; done\nexec cc \"$@\"", started,
      go);
  use_compiler("cc-that-waits", commands);
  g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
  g_assert_cmpint(pthread_create(&thread, NULL, compile_in_thread, NULL), ==, 0);
  await_file(started);
  close(ends[1]);
  struct pollfd reader = {.fd = ends[0], .events = POLLIN};
  int got = poll(&reader, 1, 5000);
  g_assert_true(g_file_set_contents(go, "", 0, NULL));
  pthread_join(thread, NULL);
  g_assert_cmpint(got, ==, 1);
  close(ends[0]);
}

/* ---- Remaining files --------------------------------------------------------------------- */

static atomic_int num_umasks;

/* Replaces the C library's function, for libbackplane too: a umask that it changed, even for a
 * moment, would affect files that other threads make. */
__attribute__((visibility("default"))) mode_t umask(mode_t mask);
mode_t umask(mode_t mask) {
  atomic_fetch_add(&num_umasks, 1);
  return (mode_t)syscall(SYS_umask, mask);
}

static void test_mode_of_an_exported_library(void) {
  struct stat status;
  begin("umask");
  use_compiler("cc-of-export", "exec cc \"$@\"");
  g_autofree char *path = path_of("exported.so");
  mode_t before = umask(027);
  atomic_store(&num_umasks, 0);
  export_small(path);
  g_assert_cmpint(atomic_load(&num_umasks), ==, 0);
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_cmpuint(status.st_mode & 0777, ==, 0750);
  umask(before);
}

static void test_nothing_is_left_of_a_failure(void) {
  begin("failure");
  use_compiler("cc-that-fails", "case \"$*\" in *-shared*) exit 1;; esac\nexec cc \"$@\"");
  g_autofree char *folder = path_of("failed"), *path = g_build_filename(folder, "a.so", NULL);
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  BpModule *module = fake_host_module(CALL_SOURCE, NULL);
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  bp_object_release(module);
  g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* A compiler that a signal ends leaves its temporary files. */
static void test_nothing_is_left_of_a_killed_compiler(void) {
  g_autofree char *before = g_strdup(g_getenv("TMPDIR")), *folder = path_of("temporary");
  begin("killed-compiler");
  use_compiler("cc-that-is-killed", "mktemp >&2\nkill -9 $$");
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  g_setenv("TMPDIR", folder, TRUE);
  g_assert_null(load_c(ADD_SOURCE));
  if (before)
    g_setenv("TMPDIR", before, TRUE);
  else
    g_unsetenv("TMPDIR");
  g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* While a library is linked, which takes most of the time. */
static void test_nothing_is_left_of_a_kill(void) {
  begin("kill");
  use_compiler("cc-that-kills",
               "case \"$*\" in *-shared*) kill -9 $BP_TEST_EXPORTER;; esac\nexec cc \"$@\"");
  g_autofree char *folder = path_of("killed"), *path = g_build_filename(folder, "a.so", NULL);
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600), status;
  if (fd < 0) {
    g_test_skip("the file system has no files without a name");
    return;
  }
  close(fd);
  pid_t child = fork();
  if (!child) {
    g_autofree char *number = g_strdup_printf("%d", (int)getpid());
    g_setenv("BP_TEST_EXPORTER", number, TRUE);
    bp_module_export_library(fake_host_module(CALL_SOURCE, NULL), path);
    _exit(0);
  }
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_true(WIFSIGNALED(status));
  g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* Sets the time of a folder to an hour ago. */
static void make_old(const char *path) {
  const struct timespec then = {.tv_sec = time(NULL) - 3600}, times[] = {then, then};
  g_assert_cmpint(utimensat(AT_FDCWD, path, times, 0), ==, 0);
}

/* Returns the path of the only entry of a folder (transfer full). */
static char *only_entry(const char *folder) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  char *path = g_build_filename(folder, g_dir_read_name(dir), NULL);
  g_assert_null(g_dir_read_name(dir));
  g_dir_close(dir);
  return path;
}

/* Ends a process while a compiler, which kills the process, tells its version. */
static void end_within_a_compiler(void) {
  int status;
  use_compiler("cc-that-kills-early", "kill -9 $BP_TEST_EXPORTER");
  pid_t child = fork();
  if (!child) {
    g_autofree char *number = g_strdup_printf("%d", (int)getpid());
    g_setenv("BP_TEST_EXPORTER", number, TRUE);
    load_c(ADD_SOURCE);
    _exit(0);
  }
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_true(WIFSIGNALED(status));
}

static void test_folder_of_a_killed_process_is_removed_later(void) {
  static const char *const names[] = {".backplane-00000000000000ff", ".backplane-0", "other"};
  g_autofree char *folder = path_of("temporary"), *before = g_strdup(g_getenv("TMPDIR"));
  begin("killed-early");
  g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
  g_setenv("TMPDIR", folder, TRUE);
  end_within_a_compiler();
  g_autofree char *left = only_entry(folder);
  use_compiler("cc-after-a-minute", "exec cc \"$@\"");
  assert_compiles();
  g_assert_true(g_file_test(left, G_FILE_TEST_IS_DIR)); /* the folder may be in use */
  make_old(left);
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *path = g_build_filename(folder, names[i], NULL);
    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    make_old(path);
  }
  g_autofree char *used = g_build_filename(folder, names[0], NULL);
  int lock = open(used, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  g_assert_cmpint(flock(lock, LOCK_EX), ==, 0);
  use_compiler("cc-after-an-hour", "exec cc \"$@\"");
  assert_compiles();
  g_assert_false(g_file_test(left, G_FILE_TEST_EXISTS));
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *path = g_build_filename(folder, names[i], NULL);
    g_assert_cmpint(g_rmdir(path), ==, 0);
  }
  close(lock);
  if (before)
    g_setenv("TMPDIR", before, TRUE);
  else
    g_unsetenv("TMPDIR");
}

/* Compiles with a cache that forbids execution, in a separate mount namespace, and then with
 * temporary files there. */
static int compile_on_noexec(void) {
  g_autofree char *cache = g_strdup(g_getenv("BACKPLANE_CACHE_DIR"));
  if (g_mkdir(cache, 0700) || unshare(CLONE_NEWNS) ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("tmpfs", cache, "tmpfs", MS_NOEXEC, "mode=700"))
    return 77;
  BpModule *module = load_c(ADD_SOURCE);
  if (!module)
    g_printerr("%s\n", bp_error_message());
  g_setenv("TMPDIR", cache, TRUE);
  return !module || load_c(ADD_SOURCE) || !strstr(bp_error_message(), "mounted noexec");
}

static void test_cache_mounted_noexec(void) {
  int status;
  begin("noexec");
  use_compiler("cc-of-noexec", "exec cc \"$@\"");
  pid_t child = fork();
  if (!child)
    _exit(compile_on_noexec());
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    g_test_skip("this process may mount nothing");
  else
    g_assert_cmpint(status, ==, 0);
}

/* Every run of the compiler but the one that tells its version removes the cache. */
static void test_cache_that_is_removed(void) {
  begin("removed");
  use_compiler("cc-that-removes",
               "case \"$*\" in *--version*) ;; *) rm -rf \"$BACKPLANE_CACHE_DIR\";; esac\n"
               "exec cc \"$@\"");
  g_autofree char *path = path_of("removed.so");
  assert_compiles();
  export_small(path);
  g_assert_true(g_file_test(path, G_FILE_TEST_IS_REGULAR));
}

/* Replaces the C library's function: the clock may be set. */
static time_t ahead;

BP_API time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result)
    *result = now.tv_sec + ahead;
  return now.tv_sec + ahead;
}

/* Each file is older than those that the cache keeps, as on a file system that stores no times. */
static void test_clock_that_jumps(void) {
  begin("clock");
  use_compiler("cc-of-clock", "exec cc \"$@\"");
  g_autofree char *path = path_of("clock.so");
  ahead = (time_t)100 * 24 * 3600;
  assert_compiles();
  export_small(path);
  ahead = 0;
  g_assert_true(g_file_test(path, G_FILE_TEST_IS_REGULAR));
}

/* The object file is in the cache, the library is not. */
static void test_object_that_is_removed_meanwhile(void) {
  begin("object");
  use_compiler("cc-of-object", "case \"$BP_TEST_REMOVES $*\" in 1*-shared*)\n"
                               "  rm \"$BACKPLANE_CACHE_DIR\"/c/*.o;; esac\n"
                               "exec cc \"$@\"");
  assert_compiles();
  g_assert_cmpint(system("rm \"$BACKPLANE_CACHE_DIR\"/c/*.so"), ==, 0);
  g_setenv("BP_TEST_REMOVES", "1", TRUE);
  assert_compiles();
  g_unsetenv("BP_TEST_REMOVES");
}

/* Replaces the C library's function: some file systems cannot reserve space. */
static int cannot_reserve;

BP_API int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (!cannot_reserve)
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
  errno = EOPNOTSUPP;
  return -1;
}

/* Exports a module that has more bytes than the cache has space, in a separate mount namespace. */
static int export_more_than_fits(void) {
  g_autofree char *cache = g_strdup(g_getenv("BACKPLANE_CACHE_DIR")), *path = path_of("large.so");
  g_autofree char *payload = g_strnfill((gsize)48 << 20, 'p');
  if (g_mkdir(cache, 0700) || unshare(CLONE_NEWNS) ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("tmpfs", cache, "tmpfs", 0, "size=40m,mode=700"))
    return 77;
  BpModule *module = fake_host_module(CALL_SOURCE, NULL);
  bp_module_import(module, fake_module("test_dev", payload));
  int rc = bp_module_export_library(module, path);
  if (rc)
    g_printerr("%s\n", bp_error_message());
  return rc != 0;
}

static void assert_more_than_fits(const char *name) {
  int status;
  begin(name);
  use_compiler("cc-of-full", "exec cc \"$@\"");
  pid_t child = fork();
  if (!child)
    _exit(export_more_than_fits());
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    g_test_skip("this process may mount nothing");
  else
    g_assert_cmpint(status, ==, 0);
}

static void test_cache_that_becomes_full(void) {
  assert_more_than_fits("becomes-full");
}

static void test_cache_that_reserves_no_space(void) {
  cannot_reserve = 1;
  assert_more_than_fits("becomes-full-unseen");
  cannot_reserve = 0;
}

static void test_file_that_is_not_regular(void) {
  struct stat status;
  begin("fifo");
  use_compiler("cc-of-fifo", "exec cc \"$@\"");
  g_autofree char *path = path_of("fifo.so");
  g_assert_cmpint(mkfifo(path, 0600), ==, 0);
  BpModule *module = fake_host_module(CALL_SOURCE, NULL);
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "fifo.so\" exists, and is not a regular file"));
  bp_object_release(module);
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_true(S_ISFIFO(status.st_mode));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  scratch = g_dir_make_tmp("backplane-compilers-XXXXXX", NULL);
  fixture_begin();
#define ADD(path, test) g_test_add_func("/compilers/" path, test)
  ADD("clang_gets_a_level_for_passes_of_gcc", test_level_of_clang);
  ADD("relative_path_begins_in_the_folder_of_this_process", test_relative_path);
  ADD("relative_folder_of_PATH_is_one_of_this_process", test_relative_folder_of_the_path);
  ADD("file_that_is_no_program_is_denied", test_file_that_is_no_program);
  ADD("absent_PATH_is_that_of_the_system", test_absent_path);
  ADD("nothing_is_left_of_a_compiler_that_a_signal_ends",
      test_nothing_is_left_of_a_killed_compiler);
  ADD("killed_intermediate_process_is_an_error", test_killed_intermediate_process);
  ADD("half_a_file_is_not_kept_where_SIGCHLD_is_ignored", test_ignored_children);
  ADD("application_that_waits_for_any_child_takes_nothing_and_sees_nothing",
      test_application_that_waits_for_any_child);
  ADD("children_of_the_application_stay_its_own", test_children_of_the_application);
  ADD("signals_of_the_application_do_not_reach_the_compiler", test_signals_of_the_application);
  ADD("job_is_stopped_while_its_compiler_runs", test_stop_of_a_job);
  ADD("descriptors_of_the_application_are_closed_while_a_compiler_runs",
      test_descriptors_that_are_closed_meanwhile);
  ADD("exported_library_has_the_mode_of_the_umask_which_is_not_touched",
      test_mode_of_an_exported_library);
  ADD("nothing_is_left_beside_a_library_that_failed", test_nothing_is_left_of_a_failure);
  ADD("nothing_is_left_beside_a_library_whose_program_was_killed", test_nothing_is_left_of_a_kill);
  ADD("folder_of_a_killed_process_is_removed_later",
      test_folder_of_a_killed_process_is_removed_later);
  ADD("cache_mounted_noexec_is_not_used", test_cache_mounted_noexec);
  ADD("cache_that_is_removed_while_a_compiler_runs_is_no_error", test_cache_that_is_removed);
  ADD("clock_that_jumps_while_a_compiler_runs_is_no_error", test_clock_that_jumps);
  ADD("object_that_is_removed_from_the_cache_before_it_is_linked_is_no_error",
      test_object_that_is_removed_meanwhile);
  ADD("cache_that_becomes_full_is_no_error", test_cache_that_becomes_full);
  ADD("cache_that_reserves_no_space_and_becomes_full_is_no_error",
      test_cache_that_reserves_no_space);
  ADD("fifo_is_not_replaced_by_a_library", test_file_that_is_not_regular);
  int rc = g_test_run();
  remove_tree(scratch);
  g_free(scratch);
  return rc;
}
