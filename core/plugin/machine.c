/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the instruction set and the sanitizer of this process with those of a plugin. */

#include "core/plugin/machine.h"

#include "core/plugin/reasons.h"
#include "core/registry/names.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <sys/platform/x86.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HOST_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define HOST_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define HOST_SANITIZER "thread"
#endif
#endif
#ifndef HOST_SANITIZER
#define HOST_SANITIZER ""
#endif

typedef struct Extension {
  const char *word;
  int is_there;
} Extension;

/* Whether this CPU has the feature that a word of BP_PLUGIN_DESCRIPTOR names: 0 or 1, and 0 for
 * another architecture's; -1 if the word is unknown. */
static int cpu_has(const char *word, size_t length) {
#if defined(__x86_64__)
/* libc has examined the CPU already; __builtin_cpu_supports would examine it again whenever this
 * library is loaded. */
#define HAS(feature) (CPU_FEATURE_ACTIVE(feature) != 0)
  int v2 = HAS(SSE4_2) && HAS(POPCNT) && HAS(SSSE3);
  int v3 = v2 && HAS(AVX2) && HAS(FMA) && HAS(BMI1) && HAS(BMI2);
  int v4 = v3 && HAS(AVX512F) && HAS(AVX512BW) && HAS(AVX512CD) && HAS(AVX512DQ) && HAS(AVX512VL);
  int avx = HAS(AVX), avx2 = HAS(AVX2), fma = HAS(FMA), avx512f = HAS(AVX512F);
#undef HAS
#else
  int v2 = 0, v3 = 0, v4 = 0, avx = 0, avx2 = 0, fma = 0, avx512f = 0;
#endif
#if defined(__aarch64__)
  unsigned long has = getauxval(AT_HWCAP);
  int lse = (has & HWCAP_ATOMICS) != 0, sve = (has & HWCAP_SVE) != 0;
#else
  int lse = 0, sve = 0;
#endif
  const Extension extensions[] = {
      {"x86-64-v2", v2}, {"x86-64-v3", v3}, {"x86-64-v4", v4},    {"avx", avx}, {"avx2", avx2},
      {"fma", fma},      {"lse", lse},      {"avx512f", avx512f}, {"sve", sve},
  };
  for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
    if (strlen(extensions[i].word) == length && !memcmp(extensions[i].word, word, length))
      return extensions[i].is_there;
  return -1;
}

static int check_isa(const char *word, size_t length) {
  int shown = (int)(length < 80 ? length : 80);
  switch (cpu_has(word, length)) {
  case 0:
    return bp__reason_raise(REASON_CPU_TOO_OLD,
                            "it needs a CPU with %.*s, which this one lacks; install a build "
                            "for an older CPU",
                            shown, word);
  case -1:
    return bp__reason_raise(REASON_CPU_TOO_OLD,
                            "it needs a CPU with %.*s, an instruction set that this host cannot "
                            "look for; install a newer backplane, or a build for an older CPU",
                            shown, word);
  default:
    return 0;
  }
}

int bp__machine_check(const char *isa, const char *sanitizer) {
  size_t length = 0;
  for (const char *word = isa; (word = bp__words_next(word, &length));)
    if (check_isa(word, length))
      return -1;
  int needs_runtime = strstr(sanitizer, "address") || strstr(sanitizer, "thread");
  if (needs_runtime && !strstr(sanitizer, *HOST_SANITIZER ? HOST_SANITIZER : "none"))
    return bp__reason_raise(
        REASON_SANITIZER_MISMATCH,
        "it was built with the %s sanitizer and this program was not; rebuild one "
        "of them",
        sanitizer);
  return 0;
}
