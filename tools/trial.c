/* SPDX-License-Identifier: Apache-2.0 */
/* backplane-trial: tries a plugin out in a process of its own, for libbackplane, which starts it.
 *
 *   backplane-trial LIBRARY PLUGIN MILLISECONDS HOST
 *
 * LIBRARY is the libbackplane that asks, PLUGIN the plugin's path for messages, HOST the number of
 * the process that asks. Descriptor 3 takes the report, 4 is the plugin's file. The plugin runs in
 * a child. This process watches it, ends it at the deadline, or with the host, and all that it
 * started too, whatever group or session that is in, and adds the report's last lines:
 *
 *   left=yes                    processes were still there a while after the child's end
 *   end=exit N|signal N|stop N|timeout */

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPORT_FD 3
#define PLUGIN_FD 4

/* Processes that the plugin started may end on their own before they count as left behind. */
#define GRACE_MS 200
/* How long to go on killing what starts others. */
#define KILL_MS 2000

#define FILE_SIZE_MAX (256u << 20)

/* Comes when the host has ended. */
#define HOST_ENDED SIGTERM

typedef void (*TrialFunction)(int plugin_fd, const char *path, int report_fd);

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(const char *line) {
  if (write(REPORT_FD, line, strlen(line)) < 0)
    _exit(1);
}

/* ---- The child --------------------------------------------------------------------------- */

static void limit(int resource, rlim_t value) {
  struct rlimit now;
  if (getrlimit(resource, &now))
    return;
  if (now.rlim_max == RLIM_INFINITY || now.rlim_max > value)
    setrlimit(resource, &(struct rlimit){value, value});
}

/* No address-space limit: GPU drivers reserve far more than they use. When memory runs out, this
 * process is the one to go. */
static void set_limits(int milliseconds) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, FILE_SIZE_MAX);
  limit(RLIMIT_CPU, (rlim_t)milliseconds / 1000 + 2);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  if (write(fd, "1000", 4) < 0)
    errno = 0; /* a container may forbid it */
  close(fd);
}

static _Noreturn void run_trial(const char *library, const char *path, int milliseconds) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_limits(milliseconds);
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void *symbol = handle ? dlsym(handle, "bp_plugin_trial") : NULL;
  if (!symbol)
    _exit(127);
  TrialFunction trial;
  memcpy(&trial, &symbol, sizeof trial);
  trial(PLUGIN_FD, path, REPORT_FD);
  _exit(0); /* nothing of the plugin's runs after the report */
}

/* ---- Ending what is left ----------------------------------------------------------------- */

/* The parent of a process, from its /proc/PID/stat; 0 if it is gone. */
static pid_t parent_of(const char *pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  if (got <= 0)
    return 0;
  text[got] = '\0';
  const char *after_name = strrchr(text, ')');
  int parent = 0;
  if (!after_name || sscanf(after_name + 1, " %*c %d", &parent) != 1)
    return 0;
  return parent;
}

/* This process is its descendants' reaper: whoever loses its parent becomes a child of it. */
static void kill_children(void) {
  DIR *processes = opendir("/proc");
  for (const struct dirent *entry; processes && (entry = readdir(processes));)
    if (isdigit((unsigned char)*entry->d_name) && parent_of(entry->d_name) == getpid())
      kill((pid_t)atol(entry->d_name), SIGKILL);
  if (processes)
    closedir(processes);
}

/* Takes up ended children until there is none at all (1) or none that has ended (0). */
static int reap_children(void) {
  pid_t got;
  do
    got = waitpid(-1, NULL, WNOHANG);
  while (got > 0 || (got < 0 && errno == EINTR));
  return got < 0;
}

static void end_children(pid_t child) {
  const struct timespec pause = {.tv_nsec = 1000000};
  int64_t until = now_ms() + KILL_MS;
  kill(-child, SIGKILL);
  while (!reap_children() && now_ms() < until) {
    kill_children();
    nanosleep(&pause, NULL);
  }
}

/* Whether there are children after a while. */
static int has_children_left(void) {
  const struct timespec pause = {.tv_nsec = 2000000};
  int64_t until = now_ms() + GRACE_MS;
  while (!reap_children()) {
    if (now_ms() >= until)
      return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}

/* ---- Watching ---------------------------------------------------------------------------- */

/* Waits for the child's end, or its stop, until the deadline, or until nobody asks any more because
 * `host` has ended; writes what `end` says. 1 if the child ended by itself. */
static int watch(pid_t child, pid_t host, int64_t deadline, char *end, size_t size) {
  sigset_t ended;
  int status;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigaddset(&ended, HOST_ENDED);
  for (;;) {
    pid_t got = waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (got == child && WIFEXITED(status))
      return snprintf(end, size, "end=exit %d\n", WEXITSTATUS(status)), 1;
    if (got == child && WIFSIGNALED(status))
      return snprintf(end, size, "end=signal %d\n", WTERMSIG(status)), 1;
    if (got == child && WIFSTOPPED(status))
      return snprintf(end, size, "end=stop %d\n", WSTOPSIG(status)), 0;
    if (got > 0)
      continue;
    int64_t left = deadline - now_ms();
    if (left <= 0 || getppid() != host)
      return snprintf(end, size, "end=timeout\n"), 0;
    struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    sigtimedwait(&ended, NULL, &wait);
  }
}

/* What the program that asks had open and did not mean to pass on. */
static void close_others(void) {
  if (!syscall(SYS_close_range, PLUGIN_FD + 1, ~0u, 0))
    return;
  for (int fd = PLUGIN_FD + 1; fd < 1024; fd++)
    close(fd);
}

int main(int argc, char **argv) {
  sigset_t all;
  if (argc != 5 || atoi(argv[3]) <= 0)
    return 2;
  int milliseconds = atoi(argv[3]);
  pid_t host = (pid_t)atol(argv[4]); /* who is the parent now may be another already */
  close_others();
  fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC); /* programs that the plugin starts need neither */
  fcntl(PLUGIN_FD, F_SETFD, FD_CLOEXEC);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); /* what the plugin sends its parent has no effect */
  prctl(PR_SET_PDEATHSIG, HOST_ENDED);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int64_t deadline = now_ms() + milliseconds;
  pid_t child = fork();
  if (child < 0)
    return 1;
  if (!child)
    run_trial(argv[1], argv[2], milliseconds);
  char end[64];
  int is_ended = watch(child, host, deadline, end, sizeof end);
  if (is_ended && has_children_left())
    say("left=yes\n");
  end_children(child);
  say(end);
  return 0;
}
