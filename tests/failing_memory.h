/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out when a test wants it to: an allocator in front of the C library's, for a
 * test program that includes this header in one file. Sanitizers have an allocator of their own. */
#ifndef BACKPLANE_TESTS_FAILING_MEMORY_H
#define BACKPLANE_TESTS_FAILING_MEMORY_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);
BP_API void *malloc(size_t size);
BP_API void *calloc(size_t count, size_t size);
BP_API void *realloc(void *memory, size_t size);
BP_API int posix_memalign(void **memory, size_t alignment, size_t size);
BP_API void free(void *memory);

/* Counts the allocations of this thread or, if defined as _Atomic, of the process. */
#ifndef FAILING_SCOPE
#define FAILING_SCOPE __thread
#endif

/* The allocation that is to fail, counted from arming; -1: none. */
static FAILING_SCOPE long fail_at = -1, count;
static FAILING_SCOPE int keep_failing;
static FAILING_SCOPE size_t least_size; /* smaller allocations do not count, and never fail */
static FAILING_SCOPE long held;         /* blocks allocated minus blocks freed */

static void (*at_failure)(void); /* called when an allocation fails; or NULL */

static int fails(size_t size) {
  if (fail_at < 0 || size < least_size)
    return 0;
  long number = count++;
  if (keep_failing ? number < fail_at : number != fail_at)
    return 0;
  if (at_failure)
    at_failure();
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) {
  void *memory = fails(size) ? NULL : __libc_malloc(size);
  held += memory != NULL;
  return memory;
}

void *calloc(size_t number, size_t size) {
  void *memory = fails(number * size) ? NULL : __libc_calloc(number, size);
  held += memory != NULL;
  return memory;
}

void *realloc(void *memory, size_t size) {
  void *moved = fails(size) ? NULL : __libc_realloc(memory, size);
  held += !memory && moved;
  return moved;
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *fresh = fails(size) ? NULL : __libc_memalign(alignment, size);
  held += fresh != NULL;
  if (fresh)
    *memory = fresh;
  return fresh ? 0 : ENOMEM;
}

void free(void *memory) {
  held -= memory != NULL;
  __libc_free(memory);
}

/* Runs `work` (0, or -1 with an error) while allocation `number` fails, and with `keeps` all later
 * ones too. Asserts that `work` succeeds or fails with a MemoryError. Returns whether `work` makes
 * that many allocations. */
G_GNUC_UNUSED static int fail_allocation(int (*work)(void), long number, int keeps) {
  count = 0;
  keep_failing = keeps;
  fail_at = number;
  int rc = work();
  fail_at = -1;
  /* The C library may report exhausted memory in its own words. */
  if (rc && strcmp(bp_error_kind(), BP_ERROR_MEMORY) && !strstr(bp_error_message(), "memory"))
    g_error("allocation %ld: %s: %s", number, bp_error_kind(), bp_error_message());
  bp_error_clear();
  g_assert_true(rc == 0 || count > number);
  return count > number;
}

/* Runs `work` repeatedly; in run n the n-th allocation fails. Asserts that no run leaks. Returns
 * the number of allocations of `work`. */
G_GNUC_UNUSED static long fail_every_allocation(int (*work)(void), int keeps) {
  g_assert_cmpint(work(), ==, 0);
  bp_error_clear(); /* an earlier error would count as freed by the first failing run */
  for (long number = 0;; number++) {
    long before = held;
    int has_failed = fail_allocation(work, number, keeps);
    if (held != before)
      g_error("allocation %ld: %ld blocks are lost", number, held - before);
    if (!has_failed)
      return number;
  }
}

#endif
