/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set and the sanitizer of this process, against those of a plugin. */

#include "core/plugin/machine.h"

#include <backplane/error.h>
#include <string.h>

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

#if defined(__x86_64__)
static int has_v2(void) {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") &&
         __builtin_cpu_supports("ssse3");
}

static int has_v3(void) {
  return has_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static int has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

static int cpu_has(const char *isa) {
  if (!strcmp(isa, "x86-64-v2"))
    return has_v2();
  if (!strcmp(isa, "x86-64-v3"))
    return has_v3();
  if (!strcmp(isa, "x86-64-v4"))
    return has_v4();
  return 1;
}
#else
static int cpu_has(const char *isa) {
  (void)isa;
  return 1;
}
#endif

int bp__machine_check(const char *isa, const char *sanitizer) {
  if (!cpu_has(isa))
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "it needs a CPU with %s, which this one is not; install a build for an "
                          "older CPU",
                          isa);
  int needs_runtime = strstr(sanitizer, "address") || strstr(sanitizer, "thread");
  if (needs_runtime && !strstr(sanitizer, *HOST_SANITIZER ? HOST_SANITIZER : "none"))
    return bp_error_raise(
        BP_ERROR_PLUGIN,
        "it was built with the %s sanitizer and this program was not; rebuild one "
        "of them",
        sanitizer);
  return 0;
}
