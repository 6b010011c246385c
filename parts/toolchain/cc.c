/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the system's C compiler. */

#include "parts/toolchain/cc.h"

#include "parts/toolchain/command.h"
#include "core/registry/hints.h"
#include "core/system/env.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_SHOWN 3000

static const char *cc_command(void) {
  const char *command = bp__env_get("BACKPLANE_CC");
  return command ? command : "cc";
}

/* Returns the words of the compiler's command (g_strfreev), or NULL with an error. */
static char **split_command(int *count) {
  char **words = NULL;
  if (!g_shell_parse_argv(cc_command(), count, &words, NULL))
    bp_error_raise(BP_ERROR_VALUE, "BACKPLANE_CC=\"%s\" is no command", cc_command());
  return words;
}

/* ---- Running ----------------------------------------------------------------------------- */

static int no_compiler(const char *program, int reason) {
  if (reason != ENOENT && reason != EACCES)
    return bp_error_raise(BP_ERROR_COMPILE, "cannot run the C compiler \"%s\": %s", program,
                          strerror(reason));
  g_autofree char *package = bp__package_of("c-compiler");
  return bp_error_raise(BP_ERROR_COMPILE,
                        "cannot run the C compiler \"%s\": %s; install %s, or name one in "
                        "BACKPLANE_CC",
                        program, strerror(reason), package ? package : "one");
}

/* Removes an incomplete UTF-8 character at the end of the text. */
static void drop_partial(char *text) {
  size_t size = strlen(text);
  for (size_t back = 1; back <= 3 && back <= size; ++back)
    if (g_utf8_get_char_validated(text + size - back, (gssize)back) == (gunichar)-2)
      text[size - back] = '\0';
}

static int run_argv(const BpWorkdir *dir, char **argv, const char *purpose) {
  char log[LOG_SHOWN];
  int status, reason = bp__command_run(dir, argv, &status);
  if (reason)
    return no_compiler(argv[0], reason);
  if (!status)
    return 0;
  bp__workdir_read(dir, BP_COMMAND_LOG, log, sizeof log);
  drop_partial(log);
  return bp_error_raise(BP_ERROR_COMPILE, "\"%s\" failed to %s (%s %d):\n%s", cc_command(), purpose,
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), log);
}

int bp__cc_run(const BpWorkdir *dir, const char *const *args, const char *purpose) {
  int num_words, num_args = 0, rc = -1;
  char **words = split_command(&num_words);
  if (!words)
    return -1;
  while (args[num_args])
    ++num_args;
  char **argv = malloc(((size_t)num_words + (size_t)num_args + 1) * sizeof *argv);
  if (argv) {
    memcpy(argv, words, (size_t)num_words * sizeof *argv);
    memcpy(argv + num_words, args, ((size_t)num_args + 1) * sizeof *argv);
    rc = run_argv(dir, argv, purpose);
  } else {
    bp_error_raise(BP_ERROR_MEMORY, "no memory to run the C compiler");
  }
  free(argv);
  g_strfreev(words);
  return rc;
}

/* ---- Identity ---------------------------------------------------------------------------- */

/* Asking a compiler for its version takes milliseconds, so the answer is kept for the process,
 * together with the identity of the command's file. */
static struct {
  char *file; /* command, path, time and size */
  char *identity;
} known;

static char *print(const char *format, ...) BP_PRINTF(1, 2);
static char *print(const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) {
    text = NULL;
    bp_error_raise(BP_ERROR_MEMORY, "no memory to describe the C compiler");
  }
  va_end(args);
  return text;
}

/* Returns the compiler's command, path, time of change and size. */
static char *describe_file(void) {
  int count;
  char **words = split_command(&count);
  if (!words)
    return NULL;
  char *file = bp__command_identity(words[0]), *text = NULL;
  if (file)
    text = print("%s\n%s", cc_command(), file);
  else
    no_compiler(words[0], errno);
  free(file);
  g_strfreev(words);
  return text;
}

static char *ask_version(const char *file) {
  static const char *const args[] = {"--version", NULL};
  char version[1024];
  BpWorkdir dir;
  if (bp__workdir_create(&dir, NULL))
    return NULL;
  int rc = bp__cc_run(&dir, args, "tell its version");
  if (!rc)
    bp__workdir_read(&dir, BP_COMMAND_LOG, version, sizeof version);
  bp__workdir_remove(&dir);
  return rc ? NULL : print("%s%s", file, version);
}

/* Replaces the remembered answer, under the lock. */
static void remember(const char *file, const char *identity) {
  char *file_copy = strdup(file), *identity_copy = strdup(identity);
  if (!file_copy || !identity_copy) {
    free(file_copy);
    free(identity_copy);
    return;
  }
  free(known.file);
  free(known.identity);
  known.file = file_copy;
  known.identity = identity_copy;
}

char *bp__cc_identity(void) {
  char *file = describe_file(), *identity = NULL;
  if (!file)
    return NULL;
  bp__lock(BP__LOCK_STATE);
  int is_known = known.file && !strcmp(known.file, file);
  if (is_known && !(identity = strdup(known.identity)))
    bp_error_raise(BP_ERROR_MEMORY, "no memory to describe the C compiler");
  bp__unlock(BP__LOCK_STATE);
  if (!is_known && (identity = ask_version(file))) {
    bp__lock(BP__LOCK_STATE);
    remember(file, identity);
    bp__unlock(BP__LOCK_STATE);
  }
  free(file);
  return identity;
}

int bp__cc_is_clang(void) {
  char *identity = bp__cc_identity();
  int is_clang = identity && strstr(identity, "clang version");
  if (!identity)
    bp_error_clear();
  free(identity);
  return is_clang;
}
