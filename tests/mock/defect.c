/* SPDX-License-Identifier: Apache-2.0 */
/* A device plugin with one defect, or none. The plugin's file contains the plugin's name, defect
 * and priority, which tests change in copies (tests/core/defects.h). A copy's entry point is found
 * by the hash of its name, which must stay the same: the name is made of pairs "az". A copy may
 * have "c8" instead of each pair, since 33 * 'a' + 'z' is 33 * 'c' + '8'.
 *
 * The device's memory is the host's. `NAME.add_one`(data, n) is its kernel: adds 1 to n floats of a
 * handle. */

#include "tests/mock/defect.h"

#include <backplane/plugin_helpers.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_SECONDS 3

#define NAME  "defect-azazazazazazaz"
#define ENTRY bp_plugin_entry_defect_azazazazazazaz

BP_PLUGIN_DESCRIPTOR(DEFECT_DEPENDS DEFECT_PADDING "abi=" BP_ABI_NEEDED_TEXT "\n"
                                                   "name=" NAME "\n"
                                                   "version=1.0\n"
                                                   "license=Apache-2.0\n"
                                                   "description=A device for tests\n"
                                                   "entry=bp_plugin_entry_defect_azazazazazazaz\n"
                                                   "provides=device_api." NAME " " NAME ".add_one\n"
                                                   "devices=" NAME "\n"
                                                   "targets=\n"
                                                   "libraries=libc.so.6\n"
                                                   "package=defect-driver\n"
                                                   "priority=+000\n"
                                                   "variables=BP_DEFECT_VARIABLE\n");

/* The defect: "OUTCOME", which this file checks by name, or "ACT@PLACE", an act of the table below
 * and its place (default "initialize"). With '!' instead of '@' the act is done only outside of
 * trials. */
static const volatile char defect[48] = "defect=none                                   ";
static const char *const volatile name = NAME; /* volatile, so that the compiler does not fold it */

static BpPluginTables host;

/* Returns the length of `what` if this word is at position `at` of the defect, else 0. */
static size_t word_at(size_t at, const char *what) {
  size_t length = strlen(what), i = 0;
  while (i < length && defect[at + i] == what[i])
    i++;
  char end = i == length ? defect[at + i] : 'x';
  return end == ' ' || end == '@' || end == '!' ? length : 0;
}

/* Whether the defect has this name. */
static int is(const char *what) {
  size_t length = word_at(7, what);
  return length && defect[7 + length] == ' ';
}

/* ---- Ways to go wrong -------------------------------------------------------------------- */

/* Ends the process so that no handler of a sanitizer turns the signal into an exit. */
static void die_of(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

static void crash(void) {
  die_of(SIGSEGV);
}

/* Prints much text, and then the reason for its crash. */
static void crash_with_words(void) {
  for (int i = 0; i < 1000; i++)
    fprintf(stderr, "line %d of a driver that prints\n", i);
  fprintf(stderr, "the bus\n\tis on \xc3\xbc fire\n\n");
  die_of(SIGSEGV);
}

/* Crashes like code that installs no handler. */
static void fault(void) {
  raise(SIGSEGV);
}

static void die_of_abort(void) {
  die_of(SIGABRT);
}

static void run_bad_instruction(void) {
  die_of(SIGILL);
}

static void raise_term(void) {
  die_of(SIGTERM);
}

static void loop(void) {
  static volatile int goes_on = 1;
  while (goes_on) {
  }
}

static void sleep_for_ever(void) {
  for (;;)
    pause();
}

static void end_in_order(void) {
  exit(0);
}

static void end_at_once(void) {
  syscall(SYS_exit_group, 0);
}

/* Waits until that many processes have run this code. */
static void meet(void) {
  const char *path = getenv("BP_DEFECT_TRACE_FILE");
  struct stat status;
  while (!path || stat(path, &status) || status.st_size < DEFECT_MEETING)
    usleep(1000);
}

static int recurse(int depth) {
  volatile char frame[65536];
  frame[0] = (char)depth;
  return depth > 1000000 ? frame[0] : recurse(depth + 1) + frame[0];
}

static void overflow_stack(void) {
  signal(SIGSEGV, SIG_DFL);
  recurse(0);
}

static void use_stack(void) {
  volatile char frame[1 << 20];
  signal(SIGSEGV, SIG_DFL);
  for (size_t i = 0; i < sizeof frame; i += 1024)
    frame[i] = 1;
}

/* Leaves a process in a session of its own, and reports its number to the test. */
static void leave_process(void) {
  if (fork())
    return;
  setsid();
  if (fork())
    _exit(0);
  const char *path = getenv("BP_DEFECT_PID_FILE");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%d", (int)getpid());
    fclose(file);
  }
  sleep_for_ever();
}

/* Forks, and both processes continue with the host's next step. */
static void return_twice(void) {
  if (fork() < 0)
    crash();
}

static void leave_process_and_sleep(void) {
  leave_process();
  sleep_for_ever();
}

static void flood(void) {
  static char page[65536];
  memset(page, 'x', sizeof page);
  for (int i = 0; i < 256; i++)
    if (write(1, page, sizeof page) < 0 || write(2, page, sizeof page) < 0)
      return;
}

static void ignore(int number) {
  (void)number;
}

/* Interrupts the system calls of the process from now on, without SA_RESTART. */
static void interrupt(void) {
  const struct sigaction action = {.sa_handler = ignore};
  const struct itimerval often = {{0, 10000}, {0, 10000}};
  if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
    crash();
}

static void stop(void) {
  raise(SIGSTOP);
}

static void stop_parent(void) {
  kill(getppid(), SIGSTOP);
  sleep_for_ever();
}

static void kill_parent(void) {
  kill(getppid(), SIGKILL);
  sleep_for_ever();
}

static void kill_group(void) {
  kill(0, SIGKILL);
}

/* Makes a file of a terabyte that takes no space. */
static void grow_file(void) {
  FILE *file = tmpfile();
  if (file && ftruncate(fileno(file), (off_t)1 << 40))
    fclose(file);
}

/* Makes an unnamed file of the largest permitted size. */
static void fill_disk(void) {
  static char page[65536];
  FILE *file = tmpfile();
  while (file && write(fileno(file), page, sizeof page) > 0) {
  }
}

/* Allocates memory, for processes whose memory is limited. */
static void take_memory(void) {
  for (size_t size = (size_t)1 << 30; size >= 64; size /= 2)
    for (void *volatile taken = malloc(size); taken;)
      taken = malloc(size);
}

static void *crash_in_thread(void *unused) {
  raise(SIGSEGV);
  return unused;
}

static void crash_elsewhere(void) {
  pthread_t thread;
  signal(SIGSEGV, SIG_DFL);
  if (!pthread_create(&thread, NULL, crash_in_thread, NULL))
    pthread_join(thread, NULL);
}

static void close_files(void) {
  for (int fd = 0; fd < 256; fd++)
    close(fd);
}

static void close_files_and_abort(void) {
  signal(SIGABRT, SIG_DFL);
  close_files();
  abort();
}

/* Redirects descriptors of other code in the process to a file of this plugin. */
static void take_descriptors(void) {
  const char *path = getenv("BP_DEFECT_TAKEN_FILE");
  close_files();
  for (int fd = 0; path && fd < 16; fd++)
    if (open(path, O_RDWR | O_CREAT, 0600) < 0)
      return;
}

/* Changes state that all code of a process shares. */
static void change_process(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  umask(0777);
  if (chdir("/proc"))
    return;
}

/* Rewrites the file as cp would: with the same bytes, so that only its times change. */
static void overwrite_file(void) {
  const char *path = getenv("BP_DEFECT_OVERWRITTEN_FILE");
  char byte;
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd >= 0 && pread(fd, &byte, 1, 0) == 1 && pwrite(fd, &byte, 1, 0) == 1)
    close(fd);
}

static void overwrite_and_crash(void) {
  overwrite_file();
  crash();
}

/* The kernel kills a trial when its helper ends. */
static int is_trial(void) {
  int number = 0;
  return prctl(PR_GET_PDEATHSIG, &number) == 0 && number;
}

static pid_t parent_of(pid_t pid) {
  char path[64];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
    crash();
  fclose(file);
  return parent;
}

/* A process outside of the job stops the host, the helper and this process, and continues them
 * later, as a batch system does. */
static void pause_job(void) {
  if (!is_trial())
    return;
  const pid_t job[] = {parent_of(getppid()), getppid(), getpid()};
  pid_t outside = fork();
  if (outside) {
    waitpid(outside, NULL, 0);
    return;
  }
  for (int i = 0; i < 3; i++)
    kill(job[i], SIGSTOP);
  sleep(PAUSE_SECONDS);
  for (int i = 0; i < 3; i++)
    kill(job[i], SIGCONT);
  _exit(0);
}

static const struct {
  const char *name;
  void (*run)(void);
} acts[] = {
    {"crash", crash},
    {"crash-words", crash_with_words},
    {"fault", fault},
    {"abort", die_of_abort},
    {"bad-instruction", run_bad_instruction},
    {"term", raise_term},
    {"thread-crash", crash_elsewhere},
    {"stack-overflow", overflow_stack},
    {"big-stack", use_stack},
    {"loop", loop},
    {"sleep", sleep_for_ever},
    {"meet", meet},
    {"exit", end_in_order},
    {"quick-exit", end_at_once},
    {"stop", stop},
    {"stop-parent", stop_parent},
    {"kill-parent", kill_parent},
    {"kill-group", kill_group},
    {"double-fork", leave_process},
    {"fork-and-many", leave_process},
    {"fork-and-return", return_twice},
    {"fork-and-sleep", leave_process_and_sleep},
    {"flood", flood},
    {"interrupt", interrupt},
    {"big-file", grow_file},
    {"fill-disk", fill_disk},
    {"take-memory", take_memory},
    {"close-files", close_files},
    {"close-all", close_files_and_abort},
    {"take-descriptors", take_descriptors},
    {"change-process", change_process},
    {"overwritten", overwrite_file},
    {"overwritten-crash", overwrite_and_crash},
    {"pause-job", pause_job},
};

/* Whether the act whose name has that length is due at this place. */
static int is_due(size_t length, const char *place) {
  char mark = defect[7 + length];
  if (mark == ' ')
    return !strcmp(place, "initialize");
  return word_at(7 + length + 1, place) && (mark == '@' || !is_trial());
}

/* Performs the defect if it is due at this place. */
static void misbehave(const char *place) {
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
    size_t length = word_at(7, acts[i].name);
    if (length && is_due(length, place))
      acts[i].run();
  }
}

static void misbehave_at_exit(void) {
  misbehave("exit");
}

__attribute__((destructor)) static void destruct(void) {
  misbehave("unload");
}

/* Adds a byte to a file, for each process that runs this code. */
static void leave_trace(void) {
  const char *path = getenv("BP_DEFECT_TRACE_FILE");
  int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
  if (fd >= 0 && write(fd, "x", 1) == 1)
    close(fd);
}

/* Runs in a constructor, before the host can call any function. */
__attribute__((constructor)) static void construct(void) {
  leave_trace();
  misbehave("load");
}

/* ---- The device -------------------------------------------------------------------------- */

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  misbehave("count");
  if (is("devices-fail"))
    return bp_plugin_raise(&host, BP_ERROR_DEVICE, "the bus is gone");
  *count = is("many-devices") || is("fork-and-many") ? 100000
                                                     : !is("devices-none") && !is("devices-odd");
  *why = is("devices-odd") ? "\377 nothing is plugged in" : "nothing is plugged in";
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  misbehave("attr");
  if (attr == BP_ATTR_EXIST) {
    result->type_index = BP_TYPE_BOOL;
    result->v_int64 = !is("device-unusable");
  } else if (attr == BP_ATTR_DEVICE_NAME)
    return host.object->make_str("A defect", 8, result);
  else if (attr == BP_ATTR_PCI_ADDRESS && is("same-hardware"))
    return host.object->make_str("0000:42:00.0", 12, result);
  return 0;
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  (void)context;
  (void)device_id;
  uint64_t size = allocation->size, alignment = allocation->alignment;
  misbehave("alloc");
  *handle = aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  return *handle ? 0 : bp_plugin_raise(&host, BP_ERROR_MEMORY, "no memory");
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  free(handle);
  return 0;
}

static int32_t copy(void *context, const BpCopy *what, void *stream) {
  (void)context;
  (void)stream;
  misbehave("copy");
  memcpy((char *)what->to + what->to_offset, (const char *)what->from + what->from_offset,
         what->size);
  return 0;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  return 0;
}

static int add_one(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  misbehave("call");
  if (num_args != 2)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "add_one takes 2 arguments");
  float *data = args[0].v_ptr;
  for (int64_t i = 0; i < args[1].v_int64; i++)
    data[i] += 1.0f;
  return 0;
}

static BpDeviceApi device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .name = NAME,
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy,
    .stream_sync = stream_sync,
};

/* ---- The plugin -------------------------------------------------------------------------- */

/* Returns a number with one bit for each pair in the name. */
static int number_of(const char *pairs) {
  int number = 0;
  for (; *pairs; pairs += 2)
    number = 2 * number + (*pairs == 'c');
  return number;
}

static int32_t initialize(void *context) {
  (void)context;
  atexit(misbehave_at_exit);
  misbehave("initialize");
  if (is("init-fail"))
    return bp_plugin_raise(&host, BP_ERROR_DEVICE, "no such hardware");
  device_api.device_type = 62000 + number_of(name + strlen("defect-"));
  if (bp_plugin_register_device_api(&host, "device_api." NAME, &device_api))
    return -1;
  if (is("register-less"))
    return 0;
  return bp_plugin_register(&host, NAME ".add_one", add_one, NULL);
}

BP_PLUGIN_EXPORT int32_t ENTRY(const BpHost *from, BpPlugin *plugin);

int32_t ENTRY(const BpHost *from, BpPlugin *plugin) {
  misbehave("entry");
  if (is("entry-fail"))
    return -1;
  plugin->abi_version = is("entry-abi") ? (uint32_t)7 << 16 : BP_ABI_NEEDED;
  plugin->initialize = is("no-initialize") ? NULL : initialize;
  return bp_plugin_fetch_tables(from, &host);
}
