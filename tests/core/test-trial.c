/* SPDX-License-Identifier: Apache-2.0 */
/* Trials whose set-up is at fault, not the plugin: no process, no memory, another helper program,
 * unusual working directories, namespaces and file systems. A plugin never runs untried unless no
 * helper is installed, and a failure that is not the plugin's fault is not stored.
 *
 * Each host is a separate process of this program: `--use FILE [FOLDER]` activates a plugin, after
 * changing to the folder, and prints its state, code and error. */

#include "tests/core/defects.h"

#include <backplane/error.h>
#include <backplane/plugins.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOME_USER 65534
#define NO_SETUP  77 /* exit status of a host that could not be set up for the test */

/* ---- A host ------------------------------------------------------------------------------ */

static int is_untried;

static void read_log(void *context, int32_t level, const char *message) {
  (void)context;
  is_untried |= level >= BP_LOG_WARNING && strstr(message, "without having been tried out");
}

static int be_host(const char *path, const char *folder) {
  bp_log_set_callback(read_log, NULL);
  if (folder && chdir(folder))
    return NO_SETUP;
  const char *state = bp_plugin_activate(path) ? "unusable" : "active";
  printf("%s%s: %s\n", state, is_untried ? " untried" : "", bp_error_message());
  return 0;
}

/* The address sanitizer needs memory, processes and files that a set-up denies, and reports an
 * overflow of the stack in its own way. */
#if defined(__SANITIZE_ADDRESS__)
#define CAN_BE_SET_UP 0
#else
#define CAN_BE_SET_UP 1
#endif

/* Changes a process before it becomes a host; -1 with errno if it may not. */
typedef int (*SetUp)(void);

static void start(const char *file, const char *folder, SetUp set_up) {
  g_autofree char *path = plugin_file_path(file);
  if (set_up && (!CAN_BE_SET_UP || set_up()))
    _exit(NO_SETUP);
  execl("/proc/self/exe", "test-trial", "--use", path, folder, (char *)NULL);
  _exit(NO_SETUP);
}

/* Returns the output of a host (transfer full); NULL if the host cannot be set up. */
static char *use_in(const char *file, const char *folder, SetUp set_up) {
  int ends[2], status;
  char said[4096];
  g_assert_cmpint(pipe(ends), ==, 0);
  pid_t child = fork();
  if (!child) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    start(file, folder, set_up);
  }
  close(ends[1]);
  size_t size = 0;
  for (ssize_t got; (got = read(ends[0], said + size, sizeof said - 1 - size)) > 0;)
    size += (size_t)got;
  close(ends[0]);
  said[size] = '\0';
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SETUP)
    return NULL;
  if (status)
    g_error("%s: the host ended with status %d, saying \"%s\"", file, status, said);
  return g_strdup(said);
}

/* Returns whether the host could be set up. The output of the host must begin with `state` and
 * contain `part`. */
static int try_says(const char *file, const char *folder, SetUp set_up, const char *state,
                    const char *part) {
  g_autofree char *said = use_in(file, folder, set_up);
  if (!said) {
    g_test_skip("this process may not be set up so");
    return 0;
  }
  g_autofree char *prefix = g_strconcat(state, ":", NULL);
  if (!g_str_has_prefix(said, prefix) || !strstr(said, part))
    g_error("%s: the host says \"%s\", not \"%s ... %s\"", file, said, prefix, part);
  return 1;
}

static void assert_says(const char *file, const char *state, const char *part) {
  try_says(file, NULL, NULL, state, part);
}

/* Returns how often the plugin's code ran in any process since the last call. */
static int count_traces(void) {
  g_autofree char *path = plugin_file_path("trace");
  struct stat status;
  int count = stat(path, &status) ? 0 : (int)status.st_size;
  g_unlink(path);
  return count;
}

/* Begins with a new plugin and an empty cache. */
static void begin(const char *file, const char *defect) {
  g_autofree char *name = g_strdup_printf("cache-%s", file), *cache = plugin_file_path(name);
  write_defect(file, 1, defect);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  count_traces();
}

/* ---- The helper program ------------------------------------------------------------------ */

/* A program that is not a helper, by its path and whether it is in the directory. */
typedef struct Wrong {
  const char *program;
  const char *script; /* contents; NULL: a program of the system */
  mode_t mode;
  const char *why;
} Wrong;

static const Wrong wrongs[] = {
    {"/bin/true", NULL, 0, "not a helper program"},
    {"/bin/cat", NULL, 0, "not a helper program"},
    {"forger", "#!/bin/sh\necho end=exit 0 >&3\necho done=yes >&3\n", 0700, "not a helper program"},
    {"killed", "#!/bin/sh\nkill -9 $$\n", 0700, "not a helper program"},
    {"later", "#!/bin/sh\necho helper=1 >&3\nkill -9 $$\n", 0700, "the helper program was killed"},
    {"endless", "#!/bin/sh\nexec yes >&3\n", 0700, "not a helper program"},
    {"plain", "#!/bin/sh\n", 0600, "Permission denied"},
    {"garbage", "\1\2\3", 0700, "Exec format error"},
    {"./backplane-trial", NULL, 0, "absolute path"},
};

static void test_wrong_programs(void) {
  g_autofree char *program = g_strdup(g_getenv("BACKPLANE_TRIAL_PROGRAM"));
  begin("wrong.so", "abort");
  for (size_t i = 0; i < G_N_ELEMENTS(wrongs); i++) {
    const Wrong *wrong = &wrongs[i];
    g_autofree char *path = plugin_file_path(wrong->program);
    if (wrong->script) {
      g_assert_true(g_file_set_contents(path, wrong->script, -1, NULL));
      g_assert_cmpint(g_chmod(path, wrong->mode), ==, 0);
    }
    g_setenv("BACKPLANE_TRIAL_PROGRAM", wrong->script ? path : wrong->program, TRUE);
    assert_says("wrong.so", "unusable", wrong->why);
    g_assert_cmpint(count_traces(), ==, 0);
  }
  g_setenv("BACKPLANE_TRIAL_PROGRAM", program, TRUE);
  write_defect("wrong.so", 1, "none");
  assert_says("wrong.so", "active", "");
}

/* Once BACKPLANE_TRIAL_PROGRAM is correct again, the next process tries the plugin at once. */
static void test_nothing_is_remembered_of_a_wrong_program(void) {
  g_autofree char *program = g_strdup(g_getenv("BACKPLANE_TRIAL_PROGRAM"));
  begin("corrected.so", "none");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/bin/true", TRUE);
  assert_says("corrected.so", "unusable", "not a helper program");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", program, TRUE);
  assert_says("corrected.so", "active", "");
}

static void test_missing_program(void) {
  g_autofree char *program = g_strdup(g_getenv("BACKPLANE_TRIAL_PROGRAM"));
  begin("missing.so", "none");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/proc/nonexistent/backplane-trial", TRUE);
  assert_says("missing.so", "active untried", "");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/dev/null/backplane-trial", TRUE);
  assert_says("missing.so", "active untried", "");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", program, TRUE);
}

/* The sender of the signal is unknown: each process tries again, and none runs the plugin. */
static void test_helper_that_is_killed(void) {
  begin("killer.so", "kill-parent");
  for (int i = 0; i < 3; i++) {
    assert_says("killer.so", "unusable", "the helper program was killed");
    g_assert_cmpint(count_traces(), ==, 1);
  }
}

/* SIGTERM may come from a service manager that ends all processes of a service. */
static void test_trial_that_is_terminated(void) {
  begin("term.so", "term");
  for (int i = 0; i < 2; i++) {
    assert_says("term.so", "unusable", "crashed (signal 15");
    g_assert_cmpint(count_traces(), ==, 1);
  }
}

/* ---- Limits ------------------------------------------------------------------------------ */

static int num_processes;

/* Runs as a user to whom the limit applies. */
static int limit_processes(void) {
  const struct rlimit few = {(rlim_t)num_processes, (rlim_t)num_processes};
  if (!geteuid() && setresuid(SOME_USER, SOME_USER, SOME_USER))
    return -1;
  return setrlimit(RLIMIT_NPROC, &few);
}

static int be_user(void) {
  return geteuid() ? 0 : setresuid(SOME_USER, SOME_USER, SOME_USER);
}

/* From no helper, through a helper that cannot fork, to a successful trial: a plugin that ends the
 * process never runs in the host, whose end would show. */
static void test_limit_of_processes(void) {
  begin("processes.so", "abort");
  for (num_processes = 0; num_processes < 6; num_processes++) {
    g_autofree char *said = use_in("processes.so", NULL, limit_processes);
    if (!said) {
      g_test_skip("processes cannot be limited, or others may not run this program");
      return;
    }
    g_assert_true(g_str_has_prefix(said, "unusable:"));
  }
  write_defect("processes.so", 1, "none");
  num_processes = 1;
  if (try_says("processes.so", NULL, limit_processes, "unusable", "cannot be tried out"))
    try_says("processes.so", NULL, be_user, "active", "");
}

static int limit_stack(void) {
  const struct rlimit little = {256 << 10, 256 << 10};
  return setrlimit(RLIMIT_STACK, &little);
}

/* A verdict holds for processes with the same limit. */
static void test_limit_of_stack(void) {
  begin("stack.so", "big-stack");
  if (!try_says("stack.so", NULL, limit_stack, "unusable", "crashed"))
    return;
  g_assert_cmpint(count_traces(), ==, 1);
  try_says("stack.so", NULL, limit_stack, "unusable", "crashed");
  g_assert_cmpint(count_traces(), ==, 0);
  assert_says("stack.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 2);
}

static int limit_memory(void) {
  const struct rlimit little = {40 << 20, 40 << 20};
  return setrlimit(RLIMIT_AS, &little);
}

/* There is no result for the plugin: the trial did not get that far, or ended in an orderly way. */
static void test_limit_of_memory(void) {
  begin("memory.so", "none");
  g_autofree char *said = use_in("memory.so", NULL, limit_memory);
  if (!said)
    g_test_skip("this program needs more memory");
  assert_says("memory.so", "active", "");
}

static int limit_files(void) {
  const struct rlimit none = {0, 0};
  signal(SIGXFSZ, SIG_DFL);
  g_unsetenv("BP_DEFECT_TRACE_FILE"); /* the plugin cannot write either */
  return setrlimit(RLIMIT_FSIZE, &none);
}

/* The result cannot be stored; standard output is a pipe. */
static void test_limit_of_file_sizes(void) {
  begin("files.so", "none");
  try_says("files.so", NULL, limit_files, "active", "");
}

static int ignore_children(void) {
  return signal(SIGCHLD, SIG_IGN) == SIG_ERR ? -1 : 0;
}

static void test_ignored_children(void) {
  begin("ignored.so", "none");
  try_says("ignored.so", NULL, ignore_children, "active", "");
  write_defect("ignored.so", 1, "abort");
  try_says("ignored.so", NULL, ignore_children, "unusable", "crashed");
}

/* Makes locking fail as on a file system without locks. */
static int deny_locks(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {G_N_ELEMENTS(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Ends the process at a system call that only the plugin makes. */
static int kill_at_umask(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_umask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {G_N_ELEMENTS(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* A verdict holds for processes with the same filters of system calls. */
static void test_filter(void) {
  begin("filter.so", "change-process");
  if (!try_says("filter.so", NULL, kill_at_umask, "unusable", "crashed"))
    return;
  g_assert_cmpint(count_traces(), ==, 1);
  try_says("filter.so", NULL, kill_at_umask, "unusable", "crashed");
  g_assert_cmpint(count_traces(), ==, 0);
  assert_says("filter.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 2);
  try_says("filter.so", NULL, kill_at_umask, "unusable", "crashed");
}

/* As systemd's MemoryDenyWriteExecute does; PR_SET_MDWE of Linux 6.3. */
static int deny_written_code(void) {
  return prctl(65, 1UL, 0UL, 0UL, 0UL);
}

static void test_written_code(void) {
  begin("written.so", "none");
  if (!try_says("written.so", NULL, deny_written_code, "active", ""))
    return;
  g_assert_cmpint(count_traces(), ==, 2);
  try_says("written.so", NULL, deny_written_code, "active", "");
  g_assert_cmpint(count_traces(), ==, 1);
  assert_says("written.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 2);
}

static void test_cache_without_locks(void) {
  begin("unlocked.so", "none");
  gint64 began = g_get_monotonic_time();
  if (!try_says("unlocked.so", NULL, deny_locks, "active", ""))
    return;
  g_assert_cmpint(g_get_monotonic_time() - began, <, 30 * G_USEC_PER_SEC);
  g_assert_cmpint(count_traces(), ==, 2);
  try_says("unlocked.so", NULL, deny_locks, "active", "");
  g_assert_cmpint(count_traces(), ==, 1);
}

/* ---- The library ------------------------------------------------------------------------- */

static char *library_folder; /* relative folder that contains libbackplane */

static int use_relative_library(void) {
  g_autofree char *before = g_strdup(g_getenv("LD_LIBRARY_PATH"));
  g_autofree char *path = before ? g_strdup_printf("lib:%s", before) : g_strdup("lib");
  g_setenv("LD_LIBRARY_PATH", path, TRUE);
  return chdir(library_folder);
}

/* The loader reports a library by the requested path, relative to a folder that is no longer the
 * current one: another library is at that path now. */
static void test_library_by_a_relative_path(void) {
  Dl_info library;
  g_assert_cmpint(dladdr(__extension__(const void *) bp_plugin_list, &library), !=, 0);
  g_autofree char *real = realpath(library.dli_fname, NULL);
  g_autofree char *soname = g_path_get_basename(library.dli_fname);
  g_autofree char *link = g_strdup_printf("found/lib/%s", soname);
  g_autofree char *planted = g_strdup_printf("current/lib/%s", soname);
  g_autofree char *at = plugin_file_path(link), *current = plugin_file_path("current");
  begin("library.so", "none");
  write_defect(planted, 2, "none"); /* leaves a trace when it is loaded */
  write_plugin(link, "", 0);
  g_unlink(at);
  g_assert_cmpint(symlink(real, at), ==, 0);
  library_folder = plugin_file_path("found");
  if (try_says("library.so", current, use_relative_library, "active", ""))
    g_assert_cmpint(count_traces(), ==, 2); /* traces of the plugin, in the trial and in the host */
  write_defect("library.so", 1, "abort");
  try_says("library.so", current, use_relative_library, "unusable", "crashed");
  g_free(library_folder);
}

static void search_first_in(const char *file, const char *folder) {
  g_autofree char *data = NULL, *path = plugin_file_path(file), *first = NULL;
  gsize size;
  first = g_strdup_printf("%-*s", (int)strlen(DEFECT_RUNPATH), folder);
  g_strdelimit(first, " ", '/');
  g_assert_cmpuint(strlen(first), ==, strlen(DEFECT_RUNPATH));
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  replace_bytes(data, size, DEFECT_RUNPATH, first);
  write_plugin(file, data, size);
}

/* A library that appears in a folder of the plugin's search path is loaded instead of the one in
 * the trial. */
static void assert_tried_anew_when_there_is(const char *name) {
  g_autofree char *folder = plugin_file_path(name), *new_file = g_build_filename(name, "l", NULL);
  begin("search.so", "none");
  search_first_in("search.so", folder);
  assert_says("search.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 2);
  assert_says("search.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 1);
  write_plugin(new_file, "", 0);
  assert_says("search.so", "active", "");
  g_assert_cmpint(count_traces(), ==, 2);
}

static void test_folders_of_the_loader(void) {
  assert_tried_anew_when_there_is("run");
  assert_tried_anew_when_there_is("r\xfc\x01");
}

static void test_current_folder_of_the_loader(void) {
  g_autofree char *before = g_strdup(g_getenv("LD_LIBRARY_PATH"));
  g_autofree char *path = g_strconcat(before ? before : "/lib", ";", NULL);
  g_autofree char *folder = plugin_file_path("here"), *other = plugin_file_path("there");
  g_assert_cmpint(g_mkdir(folder, 0700) || g_mkdir(other, 0700), ==, 0);
  begin("current.so", "none");
  g_setenv("LD_LIBRARY_PATH", path, TRUE);
  try_says("current.so", folder, NULL, "active", "");
  try_says("current.so", folder, NULL, "active", "");
  g_assert_cmpint(count_traces(), ==, 3);
  try_says("current.so", other, NULL, "active", "");
  write_plugin("there/libnew.so", "", 0);
  try_says("current.so", other, NULL, "active", "");
  g_assert_cmpint(count_traces(), ==, 4);
  if (before)
    g_setenv("LD_LIBRARY_PATH", before, TRUE);
  else
    g_unsetenv("LD_LIBRARY_PATH");
}

/* ---- The deadline ------------------------------------------------------------------------ */

static void test_deadline_that_is_nearly_nothing(void) {
  begin("deadline.so", "abort");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "1e-400", TRUE);
  assert_says("deadline.so", "unusable", "crashed");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

static void test_paused_job(void) {
  begin("paused.so", "pause-job");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "1", TRUE);
  assert_says("paused.so", "active", "");
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
}

/* ---- The file ---------------------------------------------------------------------------- */

/* The trial overwrites the plugin's file in place, as cp would at that moment. */
static void test_overwritten_file(void) {
  begin("overwritten.so", "overwritten");
  g_autofree char *path = plugin_file_path("overwritten.so");
  g_setenv("BP_DEFECT_OVERWRITTEN_FILE", path, TRUE);
  assert_says("overwritten.so", "unusable", "was overwritten");
  g_assert_cmpint(count_traces(), ==, 1);
  g_unsetenv("BP_DEFECT_OVERWRITTEN_FILE");
  assert_says("overwritten.so", "active", "");
}

static void test_crash_of_overwritten_file(void) {
  begin("written.so", "overwritten-crash");
  g_autofree char *path = plugin_file_path("written.so");
  g_setenv("BP_DEFECT_OVERWRITTEN_FILE", path, TRUE);
  assert_says("written.so", "unusable", "was overwritten while it was tried out");
  g_unsetenv("BP_DEFECT_OVERWRITTEN_FILE");
}

/* ---- Its descriptors --------------------------------------------------------------------- */

static void test_taken_descriptors(void) {
  g_autofree char *path = plugin_file_path("taken-file"), *data = NULL;
  gsize size;
  begin("taken.so", "take-descriptors");
  g_setenv("BP_DEFECT_TAKEN_FILE", path, TRUE);
  assert_says("taken.so", "unusable", "closed a descriptor that is not its own");
  g_unsetenv("BP_DEFECT_TAKEN_FILE");
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  g_assert_cmpuint(size, ==, 0);
}

/* ---- Namespaces and file systems --------------------------------------------------------- */

/* The host is the second process of a PID namespace that does not match /proc. */
static int enter_pid_namespace(void) {
  int status;
  if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
    return -1;
  pid_t first = fork();
  if (first > 0) {
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  pid_t second = first < 0 ? -1 : fork();
  if (second > 0) {
    waitpid(second, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  return second;
}

static void test_proc_of_another_namespace(void) {
  begin("namespace.so", "none");
  if (!try_says("namespace.so", NULL, enter_pid_namespace, "active", ""))
    return;
  g_assert_cmpint(count_traces(), ==, 2);
  write_defect("namespace.so", 1, "double-fork");
  try_says("namespace.so", NULL, enter_pid_namespace, "unusable", "left processes behind");
}

static int leave_pid_namespace(void) {
  return unshare(CLONE_NEWPID) ? unshare(CLONE_NEWUSER | CLONE_NEWPID) : 0;
}

static int leave_pid_namespace_with_a_child(void) {
  pid_t first = leave_pid_namespace() ? -1 : fork();
  if (!first) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    _exit(0);
  }
  return first < 0 ? -1 : 0;
}

/* The trial's parent is in another namespace, which must not count as a host that has ended. */
static void test_children_in_another_namespace(void) {
  begin("children.so", "none");
  if (!try_says("children.so", NULL, leave_pid_namespace_with_a_child, "active", ""))
    return;
  g_assert_cmpint(count_traces(), ==, 2);
  write_defect("children.so", 1, "abort");
  try_says("children.so", NULL, leave_pid_namespace_with_a_child, "unusable", "crashed");
  write_defect("children.so", 1, "none");
  count_traces();
  try_says("children.so", NULL, leave_pid_namespace, "unusable", "the first process of");
  g_assert_cmpint(count_traces(), ==, 0);
  assert_says("children.so", "active", "");
}

static int mount_over(const char *folder) {
  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
    return -1;
  return mount("tmpfs", folder, "tmpfs", 0, "size=64k,mode=755");
}

static int hide_devices(void) {
  return mount_over("/dev");
}

static void test_without_devices(void) {
  begin("devices.so", "none");
  if (!try_says("devices.so", NULL, hide_devices, "active", ""))
    return;
  write_defect("devices.so", 1, "abort");
  try_says("devices.so", NULL, hide_devices, "unusable", "crashed");
}

/* The host program is found through /proc. */
static void start_without_proc(void) {
  g_autofree char *path = plugin_file_path("proc.so");
  if (mount_over("/proc"))
    _exit(NO_SETUP);
  int status = be_host(path, NULL);
  fflush(stdout);
  _exit(status);
}

static int hide_proc(void) {
  start_without_proc();
  return -1;
}

static void test_without_proc(void) {
  begin("proc.so", "none");
  try_says("proc.so", NULL, hide_proc, "unusable", "/proc is not mounted");
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "--use"))
    return be_host(argv[2], argv[3]);
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  g_assert_cmpint(g_chmod(plugin_directory, 0755), ==, 0); /* some hosts run as another user */
  g_autofree char *trace = plugin_file_path("trace");
  g_setenv("BP_DEFECT_TRACE_FILE", trace, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "60", TRUE);
#define ADD(path, test) g_test_add_func("/trial/" path, test)
  ADD("wrong_helper_program_lets_nothing_run_PLG-26", test_wrong_programs);
  ADD("wrong_helper_program_is_not_remembered_PLG-9",
      test_nothing_is_remembered_of_a_wrong_program);
  ADD("missing_helper_program_lets_plugins_run_PLG-26", test_missing_program);
  ADD("killed_helper_program_is_not_remembered_PLG-9", test_helper_that_is_killed);
  ADD("terminated_trial_is_not_remembered_PLG-9", test_trial_that_is_terminated);
  ADD("limit_of_processes_lets_nothing_run_untried_PLG-5", test_limit_of_processes);
  ADD("limit_of_stack_is_a_condition_of_the_verdict_PLG-9", test_limit_of_stack);
  ADD("filter_of_system_calls_is_a_condition_of_the_verdict_PLG-9", test_filter);
  ADD("denied_written_code_is_a_condition_of_the_verdict_PLG-9", test_written_code);
  ADD("limit_of_memory_is_not_remembered_PLG-9", test_limit_of_memory);
  ADD("limit_of_file_sizes_ends_nothing_PLG-10", test_limit_of_file_sizes);
  ADD("cache_without_locks_delays_no_trial_PLG-11", test_cache_without_locks);
  ADD("ignored_SIGCHLD_changes_nothing_PLG-7", test_ignored_children);
  ADD("library_found_by_a_relative_path_is_the_one_tried_with_PLG-17",
      test_library_by_a_relative_path);
  ADD("library_that_may_come_first_is_tried_with_PLG-9", test_folders_of_the_loader);
  ADD("library_of_the_current_folder_is_tried_with_PLG-9", test_current_folder_of_the_loader);
  ADD("deadline_that_is_nearly_nothing_is_no_word_for_none_PLG-26",
      test_deadline_that_is_nearly_nothing);
  ADD("pause_of_all_processes_does_not_count_for_the_deadline_PLG-26", test_paused_job);
  ADD("file_that_is_overwritten_during_its_trial_is_not_loaded_PLG-12", test_overwritten_file);
  ADD("crash_after_the_file_was_overwritten_is_no_verdict_PLG-26", test_crash_of_overwritten_file);
  ADD("descriptors_that_a_plugin_takes_get_no_report", test_taken_descriptors);
  ADD("proc_of_another_PID_namespace_serves_PLG-6", test_proc_of_another_namespace);
  ADD("children_in_another_PID_namespace_are_tried_and_not_its_first_PLG-8",
      test_children_in_another_namespace);
  ADD("trial_needs_no_dev_null_PLG-5", test_without_devices);
  ADD("missing_proc_is_named", test_without_proc);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
