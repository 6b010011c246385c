/* SPDX-License-Identifier: Apache-2.0 */
/* The process' use of threads, descriptors and heap memory; and limiting its memory. */
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conformance/kit.h"

typedef struct Usage {
  gint64 threads, descriptors, bytes;
} Usage;

/* Counts the entries of a folder in /proc; 0 if there is none. */
static gint64 count_entries(const char *path) {
  GDir *folder = g_dir_open(path, 0, NULL);
  gint64 count = 0;
  while (folder && g_dir_read_name(folder))
    count++;
  if (folder)
    g_dir_close(folder);
  return count;
}

/* Returns the bytes allocated by malloc; 0 if unknown, as under the sanitizers. */
static gint64 heap_bytes(void) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
  struct mallinfo2 info = mallinfo2();
  return (gint64)(info.uordblks + info.hblkhd);
#endif
#endif
  return 0;
}

static Usage usage_now(void) {
  return (Usage){.threads = count_entries("/proc/self/task"),
                 .descriptors = count_entries("/proc/self/fd"),
                 .bytes = heap_bytes()};
}

/* The least number of additional threads or descriptors that counts as a leak. */
#define SLACK 4

static gboolean has_grown(Usage before, Usage after, gint64 bytes) {
  return after.threads >= before.threads + SLACK ||
         after.descriptors >= before.descriptors + SLACK || after.bytes >= before.bytes + bytes;
}

void bp__kit_expect_no_leak(void (*work)(void *data), void *data, gint64 bytes, const char *what) {
  enum { TRIES = 3 };
  gboolean is_leak = TRUE;
  Usage before, after = {0, 0, 0};
  for (int i = 0; i <= TRIES && is_leak; i++) {
    before = i ? after : (Usage){0, 0, 0};
    work(data);
    after = usage_now();
    is_leak = i == 0 || has_grown(before, after, bytes);
  }
  KIT_TRUE(!is_leak,
           "%s: each time the process has more than before: %d and then %d threads, %d and then %d"
           " open descriptors, %" G_GINT64_FORMAT " and then %" G_GINT64_FORMAT
           " bytes of host memory",
           what, (int)before.threads, (int)after.threads, (int)before.descriptors,
           (int)after.descriptors, before.bytes, after.bytes);
}

/* ---- A limit ----------------------------------------------------------------------------- */

static struct rlimit unlimited;

/* Returns the bytes of address space that this process uses; 0 if unknown. */
static uint64_t address_space(void) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file)
    return 0;
  if (fscanf(file, "%llu", &pages) != 1)
    pages = 0;
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void bp__kit_limit_memory(size_t spare) {
  uint64_t used = address_space();
  if (used == 0 || getrlimit(RLIMIT_AS, &unlimited) != 0)
    bp__kit_absent("the process cannot limit its memory");
  struct rlimit tight = unlimited;
  tight.rlim_cur = used + spare;
  KIT_TRUE(setrlimit(RLIMIT_AS, &tight) == 0, "the process cannot limit its memory");
}

void bp__kit_unlimit_memory(void) {
  setrlimit(RLIMIT_AS, &unlimited);
}
