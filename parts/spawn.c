/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs. */

#include "parts/spawn.h"

#include "core/system/env.h"
#include "core/system/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM_FDS (3 + BP_SPAWN_PASSED_MAX)

/* ---- Preparing --------------------------------------------------------------------------- */

/* The arguments of posix_spawn. */
typedef struct Prepared {
  const BpSpawn *what;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int fds[NUM_FDS]; /* descriptors for the program, with higher numbers; -1: none */
} Prepared;

/* Returns a descriptor that can neither be read nor written, if there is no /dev, as in some
 * chroots. */
static int open_null(void) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  return fd >= 0 ? fd : open("/", O_PATH | O_CLOEXEC);
}

static int copy_above(int fd) {
  return fcntl(fd, F_DUPFD_CLOEXEC, NUM_FDS);
}

static int copy_or_null(int fd) {
  if (fd >= 0)
    return copy_above(fd);
  int null = open_null();
  int copy = null < 0 ? -1 : copy_above(null);
  if (null >= 0)
    close(null);
  return copy;
}

/* Copies the descriptors, so that moving one to its place does not close another. */
static int copy_fds(Prepared *prepared) {
  const BpSpawn *what = prepared->what;
  for (int i = 0; i < NUM_FDS; i++)
    prepared->fds[i] = -1;
  for (int i = 0; i < 3 + what->num_passed; i++) {
    prepared->fds[i] =
        i >= 3 ? copy_above(what->passed[i - 3]) : copy_or_null(i ? what->output : what->input);
    if (prepared->fds[i] < 0)
      return errno;
  }
  return 0;
}

static int add_actions(Prepared *prepared) {
  int error = copy_fds(prepared);
  if (!error && prepared->what->folder)
    error = posix_spawn_file_actions_addchdir_np(&prepared->actions, prepared->what->folder);
  for (int i = 0; i < NUM_FDS && !error; i++)
    if (prepared->fds[i] >= 0)
      error = posix_spawn_file_actions_adddup2(&prepared->actions, prepared->fds[i], i);
  return error;
}

static void set_attributes(Prepared *prepared) {
  sigset_t none, defaults;
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  sigemptyset(&none);
  sigfillset(&defaults);
  sigdelset(&defaults, SIGHUP);
  sigdelset(&defaults, SIGINT);
  sigdelset(&defaults, SIGQUIT);
  posix_spawnattr_setsigmask(&prepared->attributes, &none);
  posix_spawnattr_setsigdefault(&prepared->attributes, &defaults);
  posix_spawnattr_setpgroup(&prepared->attributes, 0);
  if (prepared->what->is_leader)
    flags |= POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(&prepared->attributes, flags);
}

static void unprepare(Prepared *prepared) {
  for (int i = 0; i < NUM_FDS; i++)
    if (prepared->fds[i] >= 0)
      close(prepared->fds[i]);
  posix_spawnattr_destroy(&prepared->attributes);
  posix_spawn_file_actions_destroy(&prepared->actions);
}

/* Prepares the arguments of posix_spawn. Returns 0 or an errno; unprepare is called in either
 * case. */
static int prepare(const BpSpawn *what, Prepared *prepared) {
  prepared->what = what;
  posix_spawn_file_actions_init(&prepared->actions);
  posix_spawnattr_init(&prepared->attributes);
  set_attributes(prepared);
  return add_actions(prepared);
}

static int start(const Prepared *prepared, pid_t *pid) {
  return posix_spawn(pid, prepared->what->program, &prepared->actions, &prepared->attributes,
                     prepared->what->arguments, prepared->what->environment);
}

int bp__spawn(const BpSpawn *what, pid_t *pid) {
  Prepared prepared;
  int error = prepare(what, &prepared);
  if (!error)
    error = start(&prepared, pid);
  unprepare(&prepared);
  return error;
}

/* ---- Waiting without the application's notice -------------------------------------------- */

/* The program is the child of an intermediate process, which alone waits for it. The intermediate
 * process shares this process' memory and has its own signal handlers and descriptors. The end of
 * the intermediate process sends no signal, and a wait for any child does not see it. If another
 * process kills the intermediate process, `error` stays ECHILD. */
typedef struct Between {
  const Prepared *prepared;
  int error;
  int status;
  atomic_int state; /* a futex: the kernel stores ENDED at the end of the process */
} Between;

enum { ENDED, STARTING, RUNNING };

#define STACK_SIZE (256 * 1024)

/* Kills a program that does not end in time. Returns 0 or ETIMEDOUT. */
static int limit_time(const BpSpawn *what, pid_t pid) {
  int end = what->seconds ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
  int is_late =
      end >= 0 && poll(&(struct pollfd){.fd = end, .events = POLLIN}, 1, what->seconds * 1000) == 0;
  if (is_late)
    kill(what->is_leader ? -pid : pid, SIGKILL);
  if (end >= 0)
    close(end);
  return is_late ? ETIMEDOUT : 0;
}

/* The intermediate process closes its copies of the application's descriptors. If these copies
 * stayed open, the reader of a pipe whose other end the application closes would wait until the
 * program has ended, and a file would stay locked. The program itself inherits the descriptors
 * without FD_CLOEXEC. */
static void start_and_wait(Between *between, int has_own_descriptors) {
  pid_t pid;
  int error = start(between->prepared, &pid);
  if (has_own_descriptors)
    closefrom(0);
  atomic_store(&between->state, RUNNING);
  syscall(SYS_futex, &between->state, FUTEX_WAKE, 1, NULL, NULL, 0);
  int late = error ? 0 : limit_time(between->prepared->what, pid);
  while (!error && waitpid(pid, &between->status, 0) < 0)
    error = errno == EINTR ? 0 : errno;
  between->error = error ? error : late;
}

#if defined(__SANITIZE_THREAD__)

/* The thread sanitizer takes the intermediate process for a fork, and would forget the threads of
 * this process. */
static int start_between(Between *between, char *stack) {
  (void)stack;
  start_and_wait(between, 0);
  return 0;
}

#else

static int run_between(void *between) {
  const struct sigaction as_ever = {.sa_handler = SIG_DFL};
  sigaction(SIGCHLD, &as_ever, NULL);
  start_and_wait(between, 1);
  return 0;
}

/* The futex is not a private one, because the kernel wakes no private futex at the end of a
 * process. */
static void wait_while(Between *between, int state) {
  while (atomic_load(&between->state) == state)
    syscall(SYS_futex, &between->state, FUTEX_WAIT, state, NULL, NULL, 0);
}

/* Returns all signals, without those with which a terminal stops a job, unless `mask` has them. */
static sigset_t add_all_but_stops(const sigset_t *mask) {
  static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (!sigismember(mask, stops[i]))
      sigdelset(&set, stops[i]);
  return set;
}

/* Runs the intermediate process. All signals are blocked in the intermediate process, so that no
 * handler of the application runs there. Both processes use the thread-local data of this thread,
 * such as errno. Therefore this thread sleeps until the program has started, and cannot be
 * cancelled. After the start Ctrl-Z stops this thread as well as the program. CLONE_VFORK would
 * suspend this thread, and a suspended thread cannot be stopped: the shell would wait for this
 * process, and this process for the stopped program. */
static int start_between(Between *between, char *stack) {
  const int flags = CLONE_VM | CLONE_CHILD_CLEARTID;
  sigset_t all, mask;
  int cancel;
  sigfillset(&all);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  between->state = STARTING;
  pid_t pid = clone(run_between, stack + STACK_SIZE, flags, between, NULL, NULL, &between->state);
  int error = pid < 0 ? errno : 0;
  if (!error) {
    wait_while(between, STARTING);
    const sigset_t others = add_all_but_stops(&mask);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    wait_while(between, RUNNING);
  }
  while (!error && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  pthread_setcancelstate(cancel, NULL);
  return error;
}

#endif

int bp__spawn_and_wait(const BpSpawn *what, int *status) {
  Prepared prepared;
  Between between = {.prepared = &prepared, .error = ECHILD};
  int error = prepare(what, &prepared);
  char *stack = MAP_FAILED;
  if (!error) {
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
                 -1, 0);
    error = stack == MAP_FAILED ? errno : start_between(&between, stack);
  }
  if (stack != MAP_FAILED)
    munmap(stack, STACK_SIZE);
  unprepare(&prepared);
  *status = between.status;
  return error ? error : between.error;
}

/* ---- Programs and their environment ------------------------------------------------------ */

static int is_set_by(char *const *settings, const char *variable) {
  size_t size = strcspn(variable, "=");
  for (; *settings; settings++)
    if (strcspn(*settings, "=") == size && !strncmp(*settings, variable, size))
      return 1;
  return 0;
}

char **bp__spawn_environment(char *const *settings) {
  size_t num_own = 0, num_settings = 0, used = 0;
  while (environ && environ[num_own] && !bp__is_privileged())
    num_own++;
  while (settings[num_settings])
    num_settings++;
  char **environment = malloc((num_own + num_settings + 1) * sizeof *environment);
  if (!environment)
    return NULL;
  for (size_t i = 0; i < num_own; i++)
    if (!is_set_by(settings, environ[i]))
      environment[used++] = environ[i];
  for (size_t i = 0; i < num_settings; i++)
    if (strchr(settings[i], '='))
      environment[used++] = settings[i];
  environment[used] = NULL;
  return environment;
}

/* Returns 0, or the errno that prevents the program from starting. */
static int check_program(const char *path) {
  struct stat status;
  if (stat(path, &status))
    return errno;
  return !S_ISREG(status.st_mode) || access(path, X_OK) ? EACCES : 0;
}

/* Joins `folder` with a name; a relative folder begins in the current directory (transfer full). */
static char *join(const char *folder, size_t length, const char *name) {
  char current[PATH_MAX], *path;
  *current = '\0';
  if (!(length && *folder == '/') && !getcwd(current, sizeof current))
    return NULL;
  int size = asprintf(&path, "%s%s%.*s%s%s", current, *current ? "/" : "", (int)length, folder,
                      length ? "/" : "", name);
  return size < 0 ? NULL : path;
}

char *bp__find_program(const char *program) {
  static const char system_folders[] = "/usr/bin:/bin";
  const char *folders = bp__env_get("PATH");
  if (!folders)
    folders = system_folders;
  if (strchr(program, '/'))
    folders = "";
  int reason = ENOENT;
  for (const char *folder = folders;; folder++) {
    size_t length = strcspn(folder, ":");
    char *path = *program == '/' ? strdup(program) : join(folder, length, program);
    int error = path ? check_program(path) : ENOMEM;
    if (!error)
      return path;
    free(path);
    reason = error == EACCES ? error : reason;
    folder += length;
    if (!*folder)
      break;
  }
  errno = reason;
  return NULL;
}
