/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: a bounded spin, followed by the kernel's futex. */
#ifndef BACKPLANE_CORE_DEVICE_FUTEX_H
#define BACKPLANE_CORE_DEVICE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is `value`; may return early without a wake-up. */
static inline void bp__futex_wait(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Wakes all threads that sleep on `word`. */
static inline void bp__futex_wake_all(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Tells the CPU that this is a spin loop. */
static inline void bp__cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield" ::: "memory");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/* A bounded spin: `while (!condition && bp__spin_on(&spin)) {}`. `limit_ns` 0 does not spin. */
typedef struct Spin {
  int64_t limit_ns;
  int64_t end_ns; /* 0 before the clock is first read */
  unsigned turns;
} Spin;

static inline int bp__spin_on(Spin *spin) {
  enum { TURNS_PER_LOOK = 32 }; /* reading the clock costs as much as a few turns */
  if (!spin->limit_ns)
    return 0;
  bp__cpu_relax();
  if (++spin->turns % TURNS_PER_LOOK)
    return 1;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (!spin->end_ns)
    spin->end_ns = now_ns + spin->limit_ns;
  return now_ns < spin->end_ns;
}

#endif
