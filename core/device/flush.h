/* SPDX-License-Identifier: Apache-2.0 */
/* Flushing denormal floats to zero, as results and as operands, in the calling thread: arithmetic
 * on denormals is up to 150 times slower. */
#ifndef BACKPLANE_CORE_DEVICE_FLUSH_H
#define BACKPLANE_CORE_DEVICE_FLUSH_H

#include <stdint.h>

/* Turns flushing on and returns the state that bp__flush_end() restores. Takes a few
 * nanoseconds. */
static inline uint64_t bp__flush_begin(void) {
#if defined(__x86_64__)
  uint32_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040); /* FTZ, DAZ */
  return before;
#elif defined(__aarch64__)
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" ::"r"(before | 1u << 24)); /* FZ */
  return before;
#else
  return 0;
#endif
}

static inline void bp__flush_end(uint64_t before) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(before));
#else
  (void)before;
#endif
}

#endif
