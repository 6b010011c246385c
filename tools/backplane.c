/* SPDX-License-Identifier: Apache-2.0 */
/* The `backplane` command: finds the subcommand and runs it. */
#include "tools/command.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <backplane/version.h>

const char command_program[] = "backplane";

/* The maximum duration of exit, in seconds. */
#define EXIT_SECONDS 30

static const Command commands[] = {
    {"list", "list the installed plugins, with their devices and targets", cmd_list},
    {"demo", "classify handwritten digits on every device", cmd_demo},
    {"doctor", "examine the plugins, and name the remedy of each fault", cmd_doctor},
    {"inspect", "show the properties of a plugin, device, module, function or model", cmd_inspect},
    {"targets", "list the target kinds and their attributes", cmd_targets},
    {"operators", "list the supported operators of ONNX", cmd_operators},
    {"compile", "compile an ONNX model into a shared library", cmd_compile},
    {"run", "run a model on a device", cmd_run},
    {"compare", "compare a model on two devices, or two models, node by node", cmd_compare},
    {"bench", "measure latency and throughput of models", cmd_bench},
    {"profile", "measure each operator of a model", cmd_profile},
    {"report", "write a page about a model's run: graph, roofline, memory", cmd_report},
    {"cache", "show the size and the folder of the compiled code, or remove it", cmd_cache},
    {"verify", "check that a plugin conforms to the ABI", cmd_verify},
    {"new-plugin", "write a plugin for devices of a new kind", cmd_new_plugin},
};

static void print_help(FILE *out) {
  fputs("Usage: backplane COMMAND [OPTION...] [ARGUMENT...]\n\n"
        "Runs models and kernels on the compute devices that plugins provide.\n\nCommands:\n",
        out);
  for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
    fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fputs(
      "\n`backplane COMMAND --help` explains a command, `backplane --version` prints the version.\n"
      "Every command takes --json and --verbose, which shows the library's log.\n\n"
      "Environment (backplane(1) lists all variables, `backplane inspect plugin NAME` a "
      "plugin's):\n"
      "  BACKPLANE_DEVICE           devices to use, in order of preference: opencl:1,cpu\n"
      "  BACKPLANE_PLUGIN_PATH      folders with plugins, before the system's\n"
      "  BACKPLANE_PLUGIN_DEADLINE  time limit in seconds for the trial of a new plugin (20)\n"
      "  BACKPLANE_TRIAL_PROGRAM    the program that tries new plugins out\n"
      "  BACKPLANE_NUM_THREADS      threads of the host\n"
      "  BACKPLANE_CACHE_DIR        the folder of the cache of compiled code\n"
      "  BACKPLANE_CACHE_SIZE       limit in MiB of each folder of the cache; 0: none (1024)\n"
      "  BACKPLANE_CC               the C compiler\n"
      "  NO_COLOR                   if not empty: no colours on a terminal\n",
      out);
}

static void print_log(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING)
    command_print(stderr, "backplane: warning: %s\n", message);
  else if (command_is_verbose())
    command_print(stderr, "backplane: %s\n", message);
}

const char *command_summary(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].summary;
  return "";
}

static int raise_no_command(const char *name) {
  const char *words[G_N_ELEMENTS(commands) + 3] = {"help", "version"};
  for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
    words[i + 2] = commands[i].name;
  const char *nearest = nearest_word(name, words);
  return command_usage_error("there is no command '%s'%s%s%s; `backplane --help` lists them", name,
                             nearest ? ", did you mean '" : "", nearest ? nearest : "",
                             nearest ? "'?" : "");
}

static int run_named(const char *name, int argc, char **argv) {
  for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].run(argc, argv);
  return raise_no_command(name);
}

static int run_command(int argc, char **argv) {
  command_begin(argv);
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  gboolean wants_help = strcmp(argv[1], "help") == 0;
  if (wants_help && argc == 3)
    return run_named(argv[2], 2, (char *[]){argv[2], (char *)"--help", NULL});
  if (wants_help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help(stdout);
    return EXIT_OK;
  }
  if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
    printf("backplane %s\n", bp_version());
    return EXIT_OK;
  }
  return run_named(argv[1], argc - 1, argv + 1);
}

static volatile sig_atomic_t status = EXIT_OK;
static volatile sig_atomic_t is_done;

/* ---- The end ----------------------------------------------------------------------------- */

/* Whether the output was written; a second call returns TRUE. A usage error is reported on
 * stderr. */
static gboolean check_output(void) {
  static gboolean is_checked;
  if (is_checked || status == EXIT_USAGE)
    return TRUE;
  is_checked = TRUE;
  return command_flush();
}

/* GLib ends the program itself after a command's --help, and a plugin's code may end the program at
 * any time, with any status. */
static void check_output_at_exit(void) {
  static const char ended[] = "backplane: a plugin or driver ended the program before the command "
                              "was done; its results are not complete\n";
  if (!is_done && command_has_begun()) {
    ssize_t size = write(STDERR_FILENO, ended, sizeof ended - 1);
    (void)size;
    _exit(EXIT_FAIL);
  }
  if (!check_output())
    _exit(EXIT_FAIL);
}

static void end_at_once(int number) {
  static const char crashed[] = "backplane: warning: a plugin or driver crashed while the program "
                                "ended; the results are complete\n",
                    hung[] = "backplane: warning: a plugin or driver did not let the program end; "
                             "the results are complete\n";
  ssize_t size = number == SIGALRM ? write(STDERR_FILENO, hung, sizeof hung - 1)
                                   : write(STDERR_FILENO, crashed, sizeof crashed - 1);
  (void)size;
  _exit(status);
}

/* Exit handlers of plugins and drivers may crash or hang. At that point the work is done and its
 * output is written, so the exit status is that of the work. */
static void guard_exit(void) {
  static const int signals[] = {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  const struct sigaction action = {.sa_handler = end_at_once};
  sigset_t unblocked;
  sigemptyset(&unblocked);
  for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
    sigaction(signals[i], &action, NULL);
    sigaddset(&unblocked, signals[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &unblocked, NULL);
  alarm(EXIT_SECONDS);
}

/* ---- The stack --------------------------------------------------------------------------- */

/* Bytes of stack for the program's threads and for the compilers that it starts. */
#define STACK_BYTES (8 << 20)

static void set_stack_of_threads(size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

/* Raises a low limit as far as permitted: a stack that is too small ends the program without a
 * message. */
static void raise_stack_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES)
    return;
  limit.rlim_cur = MIN(limit.rlim_max, STACK_BYTES);
  if (setrlimit(RLIMIT_STACK, &limit) == 0)
    set_stack_of_threads(limit.rlim_cur);
}

/* ---- Standard streams -------------------------------------------------------------------- */

/* Opens each closed standard descriptor in the wrong direction, so that its use still fails. A file
 * that the program opens would get the number otherwise, and messages would go into the file. */
static void fill_standard_descriptors(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
      continue;
    int filler = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (filler < 0) /* a chroot without /dev */
      open("/", O_PATH);
  }
}

int main(int argc, char **argv) {
  fill_standard_descriptors();
  raise_stack_limit();
  atexit(check_output_at_exit);
  /* Programs inherit an ignored SIGCHLD. A compiler in a driver could then not wait for `ld`. */
  signal(SIGCHLD, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with EFBIG */
  setlocale(LC_CTYPE, "");
  bp_log_set_callback(print_log, NULL);
  status = run_command(argc, argv);
  is_done = TRUE;
  if (!check_output())
    status = EXIT_FAIL;
  guard_exit();
  return status;
}
