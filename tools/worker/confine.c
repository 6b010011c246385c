/* SPDX-License-Identifier: Apache-2.0 */
/* Restrictions of a worker before it loads the plugin: it gives up gaining rights through programs
 * that it starts, and, on kernels with Landlock, changing files that no driver changes, and sending
 * signals to other processes. Reading is not restricted, because the files that a driver reads
 * cannot be listed. */

#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* The kernel's interface, for systems with headers older than the kernel. */
#define CREATE_RULESET 444
#define ADD_RULE       445
#define RESTRICT_SELF  446
#define ASK_VERSION    1
#define RULE_BENEATH   1

#define WRITE_FILE  ((uint64_t)1 << 1)
#define REMOVE_DIR  ((uint64_t)1 << 4)
#define REMOVE_FILE ((uint64_t)1 << 5)
#define MAKE_CHAR   ((uint64_t)1 << 6)
#define MAKE_DIR    ((uint64_t)1 << 7)
#define MAKE_REG    ((uint64_t)1 << 8)
#define MAKE_SOCK   ((uint64_t)1 << 9)
#define MAKE_FIFO   ((uint64_t)1 << 10)
#define MAKE_BLOCK  ((uint64_t)1 << 11)
#define MAKE_SYM    ((uint64_t)1 << 12)
#define REFER       ((uint64_t)1 << 13) /* Landlock version 2 and later */
#define TRUNCATE    ((uint64_t)1 << 14) /* Landlock version 3 and later */

#define CHANGE                                                                                     \
  (WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK |           \
   MAKE_FIFO | MAKE_BLOCK | MAKE_SYM)

/* Landlock version 6 and later: signals to processes without this ruleset. */
#define SCOPE_SIGNAL ((uint64_t)1 << 1)

typedef struct Ruleset {
  uint64_t handled; /* forbidden unless a rule allows the access */
  uint64_t network; /* Landlock version 4 and later */
  uint64_t scoped;  /* Landlock version 6 and later; earlier sizes end before it */
} Ruleset;

typedef struct __attribute__((packed)) Rule {
  uint64_t allowed;
  int32_t folder;
} Rule;

/* A path that does not exist is skipped. */
static void allow(int ruleset, uint64_t handled, const char *path) {
  Rule rule = {handled, path && *path == '/' ? open(path, O_PATH | O_CLOEXEC) : -1};
  struct stat status;
  if (rule.folder < 0)
    return;
  if (!fstat(rule.folder, &status) && !S_ISDIR(status.st_mode))
    rule.allowed &= WRITE_FILE | TRUNCATE;
  syscall(ADD_RULE, ruleset, RULE_BENEATH, &rule, 0);
  close(rule.folder);
}

static void allow_below(int ruleset, uint64_t handled, const char *folder, const char *name) {
  char path[4096];
  int size = folder ? snprintf(path, sizeof path, "%s/%s", folder, name) : -1;
  if (size > 0 && (size_t)size < sizeof path)
    allow(ruleset, handled, path);
}

/* Creates a missing cache folder first: the rules do not allow creating it later. */
static void allow_cache(int ruleset, uint64_t handled, const char *folder, const char *name) {
  char path[4096];
  int size = folder ? snprintf(path, sizeof path, "%s/%s", folder, name) : -1;
  if (size > 0 && (size_t)size < sizeof path) {
    mkdir(path, 0700);
    allow(ruleset, handled, path);
  }
}

/* Allows device nodes, temporary files, and the caches of drivers and of Backplane. */
static void add_rules(int ruleset, uint64_t handled) {
  static const char *const fixed[] = {"/dev", "/tmp", "/var/tmp", "/run", "/proc", "/sys"};
  static const char *const named[] = {
      "TMPDIR",         "XDG_CACHE_HOME",  "XDG_RUNTIME_DIR",      "BACKPLANE_CACHE_DIR",
      "POCL_CACHE_DIR", "CUDA_CACHE_PATH", "MESA_SHADER_CACHE_DIR"};
  const char *home = getenv("HOME");
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    allow(ruleset, handled, fixed[i]);
  for (size_t i = 0; i < sizeof named / sizeof *named; i++)
    allow(ruleset, handled, getenv(named[i]));
  allow_cache(ruleset, handled, home, ".cache");
  allow_below(ruleset, handled, home, ".nv");
}

static void confine_by_landlock(int may_signal) {
  long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
  if (version < 1)
    return; /* a kernel without Landlock, see docs/isolation.md */
  Ruleset rules = {.handled = CHANGE | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0),
                   .scoped = version >= 6 && !may_signal ? SCOPE_SIGNAL : 0};
  size_t size = version >= 6 ? sizeof rules : sizeof rules.handled;
  int ruleset = (int)syscall(CREATE_RULESET, &rules, size, 0);
  if (ruleset >= 0)
    add_rules(ruleset, rules.handled);
  if (ruleset < 0 || syscall(RESTRICT_SELF, ruleset, 0))
    fprintf(stderr, "backplane-worker: %s may change files and send signals: Landlock: %s\n",
            worker_name, strerror(errno));
  if (ruleset >= 0)
    close(ruleset);
}

void worker_confine(int may_signal) {
  if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    confine_by_landlock(may_signal);
}
