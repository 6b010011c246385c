/* SPDX-License-Identifier: Apache-2.0 */
/* backplane-trial: tries a plugin out in a process of its own, for libbackplane, which starts it.
 *
 *   backplane-trial LIBRARY PLUGIN MILLISECONDS HOST RIGHTS
 *
 * LIBRARY is the calling libbackplane, PLUGIN the plugin's path for messages, HOST the number of
 * the calling process; RIGHTS are "user", or "privileged" if that process has more rights than its
 * user. Input on descriptor 0, or closing it, ends the trial; the report goes to descriptor 3;
 * descriptor 4 is the plugin's file. The plugin runs in a child. At the deadline, or when the host
 * ends, this process ends the child and all processes that the child started, in any group or
 * session. This process writes the first and the last lines of the report:
 *
 *   helper=1                    the version of this protocol
 *   impossible=WHY              the trial could not begin
 *   left=yes                    processes were still there a while after the child's end
 *   words=TEXT                  the end of what the child printed, in one line
 *   end=exit N|signal N|stop N|timeout */

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_FD 0
#define NULL_FD    1
#define REPORT_FD  3
#define PLUGIN_FD  4

/* The time in which processes that the plugin started may end before they count as left behind. */
#define GRACE_MS 200
/* How long to continue killing processes that start others. */
#define KILL_MS 2000

/* The child's status if the plugin closed the report's descriptor. */
#define REPORT_CLOSED 113

#define FILE_SIZE_MAX (256u << 20)

/* Bytes kept from the end of the child's output. */
#define WORDS_SIZE 500

/* The seconds of processor time that the child has after SIGXCPU. */
#define CPU_GRACE 2

/* The signal that arrives when the host has ended. */
#define HOST_ENDED SIGTERM

/* How often to check the child if no event reports its end. */
#define POLL_MS 50

/* Waits are at most WAIT_MS long. If GAP_MS pass between the ends of two waits, this process did
 * not run: the machine or all processes of a job were stopped. The time of such a stop does not
 * count for the deadline. */
#define WAIT_MS 500
#define GAP_MS  1500

/* How long a child may stay stopped before its trial counts as ended. If all processes of a job are
 * stopped and continued one by one, the child is stopped for a moment while this process runs. */
#define STOP_MS 200

typedef void (*TrialFunction)(int plugin_fd, const char *path, int report_fd);

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* If the report has no reader any more, the trial still ends its processes. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof line - 1)
    length = (int)sizeof line - 2;
  line[length++] = '\n';
  while (write(REPORT_FD, line, (size_t)length) < 0 && errno == EINTR) {
  }
}

/* ---- The child's output ------------------------------------------------------------------ */

/* The end of the child's output, and the read end of its pipe, or -1. */
typedef struct Words {
  int fd;
  size_t size;
  char text[WORDS_SIZE];
} Words;

/* Makes a pipe for the child's output. Neither end blocks: output is lost if the pipe is full,
 * because a plugin must not hang when it prints. Returns the write end, or -1: all output is
 * lost. */
static int open_words(Words *words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
    ends[0] = ends[1] = -1;
  *words = (Words){.fd = ends[0]};
  return ends[1];
}

/* Reads the output that has arrived, but no more than a pipe holds: the child may continue
 * printing. */
static void read_words(Words *words) {
  char bytes[4096];
  ssize_t got;
  for (int i = 0; i < 16 && words->fd >= 0 && (got = read(words->fd, bytes, sizeof bytes)) > 0;
       i++) {
    size_t taken = (size_t)got < WORDS_SIZE ? (size_t)got : WORDS_SIZE;
    size_t kept = words->size + taken > WORDS_SIZE ? WORDS_SIZE - taken : words->size;
    memmove(words->text, words->text + words->size - kept, kept);
    memcpy(words->text + kept, bytes + (size_t)got - taken, taken);
    words->size = kept + taken;
  }
}

/* Converts the output to one line of ASCII: the report's lines are UTF-8, and the output may be
 * truncated inside a character. */
static void say_words(Words *words) {
  read_words(words);
  for (size_t i = 0; i < words->size; i++)
    if (isspace((unsigned char)words->text[i]))
      words->text[i] = ' ';
    else if (words->text[i] < ' ' || words->text[i] > '~')
      words->text[i] = '?';
  while (words->size > 0 && words->text[words->size - 1] == ' ')
    words->size--;
  if (words->size > 0)
    say("words=%.*s", (int)words->size, words->text);
}

/* ---- The child --------------------------------------------------------------------------- */

static void limit(int resource, rlim_t value, rlim_t most) {
  struct rlimit now;
  if (getrlimit(resource, &now))
    return;
  if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most)
    now.rlim_max = most;
  now.rlim_cur = now.rlim_max < value ? now.rlim_max : value;
  setrlimit(resource, &now);
}

/* No address-space limit: GPU drivers reserve far more than they use. If memory runs out, the
 * kernel should kill this process first. */
static void set_limits(int milliseconds) {
  rlim_t seconds = (rlim_t)milliseconds / 1000 + 2;
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_FSIZE, FILE_SIZE_MAX, FILE_SIZE_MAX);
  limit(RLIMIT_CPU, seconds, seconds + CPU_GRACE);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  if (write(fd, "1000", 4) < 0)
    errno = 0; /* a container may forbid the write */
  close(fd);
}

static void (*find_function(void *library, const char *name))(void) {
  void *symbol = dlsym(library, name);
  void (*function)(void);
  memcpy(&function, &symbol, sizeof function);
  return function;
}

/* Loads the calling library and finds its function; the library and this program belong
 * together. */
static TrialFunction load_library(const char *path, int is_privileged) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void (*trial)(void) = library ? find_function(library, "bp_plugin_trial") : NULL;
  void (*assume)(void) = library ? find_function(library, "bp_assume_privileged") : NULL;
  if (!trial || !assume) {
    say("impossible=cannot load this library; install the two together: %s", dlerror());
    _exit(127);
  }
  if (is_privileged)
    assume();
  return (TrialFunction)trial;
}

/* Whether `fd` is closed or a different file than `before`. */
static int is_closed(int fd, const struct stat *before) {
  struct stat now;
  if (fstat(fd, &now))
    return errno == EBADF;
  return now.st_dev != before->st_dev || now.st_ino != before->st_ino;
}

/* Exit handlers are part of the trial. */
static _Noreturn void run_trial(char **argv, int milliseconds, int output) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(NULL_FD, CONTROL_FD);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  set_limits(milliseconds);
  TrialFunction trial = load_library(argv[1], strcmp(argv[5], "user") != 0);
  struct stat report;
  if (fstat(REPORT_FD, &report)) {
    say("impossible=cannot tell which file its report is: %s", strerror(errno));
    _exit(127);
  }
  trial(PLUGIN_FD, argv[2], REPORT_FD);
  exit(is_closed(REPORT_FD, &report) ? REPORT_CLOSED : 0);
}

/* ---- Ending remaining processes ---------------------------------------------------------- */

/* A process, as /proc/PID/status describes it. In the /proc of another PID namespace a process has
 * another number than in this process' namespace: NSpid lists all numbers of a process, from the
 * namespace of /proc inwards. */
typedef struct Process {
  pid_t number; /* number in the namespace of /proc */
  pid_t parent;
  const char *numbers; /* value of NSpid, in `text`; "" if it does not fit */
  char text[4096];
} Process;

static long number_after(const char *text, const char *key) {
  const char *found = strstr(text, key);
  return found ? atol(found + strlen(key)) : 0;
}

/* -1: the process is gone. */
static int read_process(const char *pid, Process *process) {
  static const char key[] = "\nNSpid:";
  char path[64];
  snprintf(path, sizeof path, "/proc/%.20s/status", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, process->text, sizeof process->text - 1);
  if (fd >= 0)
    close(fd);
  if (got <= 0)
    return -1;
  process->text[got] = '\0';
  process->number = (pid_t)number_after(process->text, "\nPid:");
  process->parent = (pid_t)number_after(process->text, "\nPPid:");
  const char *numbers = strstr(process->text, key);
  process->numbers = numbers ? numbers + strlen(key) : "";
  return 0;
}

/* Returns the number after `depth` other numbers; 0 if there are fewer. */
static pid_t number_at(const char *numbers, int depth) {
  long number = 0;
  for (int i = 0; i <= depth; i++) {
    char *end;
    number = strtol(numbers, &end, 10);
    if (end == numbers || *numbers == '\n')
      return 0;
    numbers = end;
  }
  return (pid_t)number;
}

/* Returns the number of namespaces between that of /proc and that of this process; -1: unknown. */
static int find_depth(const Process *self) {
  int count = 0;
  while (number_at(self->numbers, count))
    count++;
  return count ? count - 1 : self->number == getpid() ? 0 : -1;
}

/* This process is the reaper of its descendants: an orphaned descendant becomes a child of this
 * process. */
static void kill_children(void) {
  Process self, other;
  int depth = read_process("self", &self) ? -1 : find_depth(&self);
  DIR *processes = depth < 0 ? NULL : opendir("/proc");
  for (const struct dirent *entry; processes && (entry = readdir(processes));) {
    if (!isdigit((unsigned char)*entry->d_name) || read_process(entry->d_name, &other) ||
        other.parent != self.number)
      continue;
    pid_t child = depth ? number_at(other.numbers, depth) : other.number;
    if (child > 0)
      kill(child, SIGKILL);
  }
  if (processes)
    closedir(processes);
}

/* Reaps ended children until there are no children (1) or none that has ended (0). */
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

/* Whether children remain after a while. */
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

/* A child, and what is known about it. */
typedef struct Child {
  pid_t pid;
  int64_t deadline;
  int64_t checked; /* time of the last check */
  int64_t stopped; /* time at which a signal stopped the child; 0: the child runs */
  int stop;        /* that signal */
} Child;

/* Moves the deadline by the time during which this process did not run. */
static void exclude_gap(Child *child) {
  int64_t now = now_ms(), gap = now - child->checked;
  child->checked = now;
  if (gap < GAP_MS)
    return;
  child->deadline += gap;
  child->stopped = child->stopped ? now : 0;
}

static int64_t min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The time until the deadline, or until a stop of the child is its end. */
static int64_t time_left(const Child *child) {
  int64_t left = child->deadline - child->checked;
  return child->stopped ? min(left, child->stopped + STOP_MS - child->checked) : left;
}

/* Returns how the child ended: 1 if it exited or a signal ended it, 0 if a signal stopped it, -1 if
 * it still runs. */
static int take_end(Child *child, char *end, size_t size) {
  int status;
  exclude_gap(child);
  for (pid_t got; (got = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
    if (got != child->pid)
      continue;
    if (WIFEXITED(status))
      return snprintf(end, size, "exit %d", WEXITSTATUS(status)), 1;
    if (WIFSIGNALED(status))
      return snprintf(end, size, "signal %d", WTERMSIG(status)), 1;
    child->stopped = WIFSTOPPED(status) ? child->checked : 0;
    child->stop = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
  }
  if (!child->stopped || time_left(child) > 0)
    return -1;
  return snprintf(end, size, "stop %d", child->stop), 0;
}

/* Waits until the child ends or is stopped, until the deadline, or until `host` has ended or needs
 * no more; writes the line `end`. Returns 1 if the child ended by itself. */
static int watch(Child *child, pid_t host, Words *words, char *end, size_t size) {
  int is_parent_seen = getppid() != 0; /* 0: the host is in another PID namespace */
  sigset_t ended;
  struct signalfd_siginfo info;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigaddset(&ended, HOST_ENDED);
  int signals = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
  struct pollfd fds[] = {{.fd = CONTROL_FD, .events = POLLIN},
                         {.fd = signals, .events = POLLIN},
                         {.fd = words->fd, .events = POLLIN}};
  int is_ended;
  while ((is_ended = take_end(child, end, size)) < 0) {
    int64_t left = time_left(child);
    if (left <= 0 || (is_parent_seen && getppid() != host) || fds[0].revents) {
      snprintf(end, size, "timeout");
      return 0;
    }
    poll(fds, 3, (int)min(left, signals < 0 ? POLL_MS : WAIT_MS));
    if (fds[2].revents & POLLHUP) /* the child closed all its output */
      fds[2].fd = -1;
    read_words(words);
    while (signals >= 0 && read(signals, &info, sizeof info) > 0) {
    }
  }
  return is_ended;
}

int main(int argc, char **argv) {
  sigset_t all;
  if (argc != 6 || atoi(argv[3]) <= 0)
    return 2;
  int milliseconds = atoi(argv[3]);
  pid_t host = (pid_t)atol(argv[4]);     /* the parent may have ended already */
  closefrom(PLUGIN_FD + 1);              /* the caller left descriptors open by accident */
  fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC); /* programs that the plugin starts must not inherit them */
  fcntl(PLUGIN_FD, F_SETFD, FD_CLOEXEC);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); /* signals from the plugin to its parent have no effect */
  prctl(PR_SET_PDEATHSIG, HOST_ENDED);
  Child child = {.checked = now_ms()};
  child.deadline = child.checked + milliseconds;
  say("helper=1");
  if (prctl(PR_SET_CHILD_SUBREAPER, 1)) {
    say("impossible=cannot become its descendants' reaper: %s", strerror(errno));
    return 1;
  }
  Words words;
  int output = open_words(&words);
  child.pid = fork();
  if (child.pid < 0) {
    say("impossible=cannot start a process: %s", strerror(errno));
    return 1;
  }
  if (!child.pid)
    run_trial(argv, milliseconds, output);
  if (output >= 0)
    close(output);
  char end[64];
  int is_ended = watch(&child, host, &words, end, sizeof end);
  if (is_ended && has_children_left())
    say("left=yes");
  end_children(child.pid);
  say_words(&words);
  say("end=%s", end);
  return 0;
}
