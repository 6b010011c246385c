/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock of profiles. */
#ifndef BACKPLANE_GRAPH_IO_CLOCK_H
#define BACKPLANE_GRAPH_IO_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an unspecified moment; they never decrease. */
static inline int64_t bp__graph_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
