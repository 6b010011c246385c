/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting with a timeout for drivers that only have waits without one. */
#include "common.h"

#include <time.h>

int32_t bp_poll(int32_t (*ask)(void *data, int32_t *state), void *data, uint64_t timeout_ns,
                int32_t *state) {
  struct timespec begin, now, pause = {0, 10000};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (;;) {
    int32_t rc = ask(data, state);
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t passed = (uint64_t)((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) +
                                 (now.tv_nsec - begin.tv_nsec));
    if (rc != 0 || *state || passed >= timeout_ns)
      return rc;
    if ((uint64_t)pause.tv_nsec > timeout_ns - passed)
      pause.tv_nsec = (long)(timeout_ns - passed);
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < 500000)
      pause.tv_nsec *= 2;
  }
}
