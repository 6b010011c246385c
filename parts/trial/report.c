/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a trial, written by the process of the trial. */

#include "parts/trial/report.h"

#include "core/system/file.h"

#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_fd = -1;
static pid_t reporter;          /* the process that the helper started */
static struct stat report_pipe; /* the original file of report_fd; zeros while unknown */
static int report_error;        /* errno of the first line that could not be written */

int bp__trial_report_begin(int fd) {
  report_fd = fd;
  reporter = getpid();
  if (fstat(fd, &report_pipe))
    report_error = errno;
  return !report_error;
}

/* Does not write if the plugin closed the report, because the descriptor's number may belong to
 * another file now. The report then lacks its end, which shows the fault. */
static int write_report(const char *line) {
  struct stat now;
  if (fstat(report_fd, &now))
    return errno == EBADF ? 0 : -1;
  int is_other = now.st_dev != report_pipe.st_dev || now.st_ino != report_pipe.st_ino;
  return report_pipe.st_mode && is_other ? 0 : bp__write_all(report_fd, line, strlen(line));
}

void bp__trial_report(const char *key, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *raw = g_strdup_vprintf(format, arguments);
  g_autofree char *value = g_utf8_make_valid(raw, -1);
  va_end(arguments);
  for (char *at = value; *at; at++)
    if ((unsigned char)*at < ' ' && *at != '\t')
      *at = ' ';
  g_autofree char *line = g_strdup_printf("%s=%s\n", key, value);
  if (write_report(line) && !report_error)
    report_error = errno ? errno : EIO;
}

void bp__trial_report_end(void) {
  if (report_error)
    bp__trial_report("impossible", "cannot write its report: %s", g_strerror(report_error));
}

void bp__trial_end_copy(void) {
  if (getpid() == reporter)
    return;
  bp__trial_report("forked", "yes");
  _exit(0);
}

void bp__trial_report_stage(const char *stage) {
  bp__trial_end_copy();
  bp__trial_report("stage", "%s", stage);
}
