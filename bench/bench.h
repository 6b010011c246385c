/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of the programs that measure: a clock, and the end of the program at a failure. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <backplane/error.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds of a clock that never goes back. */
static inline double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Ends the program with a message: the program, the failed action, and the thread's error, if it
 * has one. */
static inline _Noreturn void fail(const char *what) {
  fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, *bp_error_kind() ? ": " : "",
          *bp_error_kind() ? bp_error_message() : "");
  exit(1);
}

static inline void must(int failed, const char *what) {
  if (failed)
    fail(what);
}

#endif
