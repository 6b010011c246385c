/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run: its report, which is written completely or not at all, and its folder. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/run.h"

/* ---- The report -------------------------------------------------------------------------- */

static int raise_output(const Output *output, int code) {
  return bp_error_raise(BP_ERROR_IO, "the report cannot be written to %s: %s",
                        output->path ? output->path : "the standard output", g_strerror(code));
}

/* A regular file is replaced when the report is complete, by a file of the same mode; any other
 * file (a terminal, a pipe) is written directly. */
int bp__output_open(Output *output, const char *path) {
  struct stat status;
  *output = (Output){.file = stdout};
  if (!path)
    return 0;
  char *real = realpath(path, NULL);
  output->path = g_strdup(real ? real : path);
  free(real);
  gboolean is_there = stat(path, &status) == 0;
  if (is_there && !S_ISREG(status.st_mode)) {
    output->file = fopen(path, "we");
  } else {
    output->partial = g_strconcat(output->path, ".XXXXXX", NULL);
    int fd = g_mkstemp_full(output->partial, O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0 && is_there)
      fchmod(fd, status.st_mode & 0777);
    output->file = fd < 0 ? NULL : fdopen(fd, "w");
  }
  return output->file ? 0 : raise_output(output, errno);
}

/* The first error while writing, or 0. */
static int finish_file(const Output *output) {
  int code = fflush(output->file) != 0 ? errno : ferror(output->file) ? EIO : 0;
  if (output->path && fclose(output->file) != 0 && code == 0)
    code = errno;
  return code;
}

int bp__output_close(Output *output, gboolean is_complete) {
  int code = output->file ? finish_file(output) : 0;
  gboolean is_kept = output->file && is_complete && code == 0;
  if (is_kept && output->partial && rename(output->partial, output->path) != 0)
    code = errno;
  if (output->partial && (!is_kept || code != 0))
    unlink(output->partial);
  int rc = code ? raise_output(output, code) : 0;
  g_free(output->partial);
  g_free(output->path);
  return rc;
}

/* ---- The folder -------------------------------------------------------------------------- */

char *bp__folder_create(void) {
  GError *error = NULL;
  char *path = g_dir_make_tmp("backplane-conformance-XXXXXX", &error);
  if (!path) {
    bp_error_raise(BP_ERROR_IO, "a folder for the run's files: %s", error->message);
    g_error_free(error);
  }
  return path;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status;
  (void)kind;
  (void)at;
  remove(path);
  return 0;
}

void bp__folder_remove(char *path) {
  if (path)
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  g_free(path);
}
