/* SPDX-License-Identifier: Apache-2.0 */
/* For the conformance kit: comparing generated code with the reference interpreter. A function is
 * called on the device and interpreted, with the same data. Interpreted casts make and read numbers
 * of any type, so the kit has no narrow-float code of its own. */
#ifndef BACKPLANE_CONFORMANCE_JUDGE_H
#define BACKPLANE_CONFORMANCE_JUDGE_H

#include "conformance/kernel.h"

/* Converts `count` elements of one type to another. */
void bp__judge_convert(const char *from, const char *to, void *source, void *result, int64_t count);
/* Reads an element as a number, for messages and for comparing floats. */
double bp__judge_number(const char *type, const void *data, int64_t index);

/* Whether element `index` of two arrays is the same number, within the tolerance for floats. slack:
 * an absolute error that is always accepted. */
gboolean bp__judge_agrees(const char *type, const void *got, const void *expected, int64_t index,
                          double slack);

/* A call of a function with buffers, followed by a scalar unless that is None: the data before the
 * call and, after judging, the device's data and the expected data. */
typedef struct Judged {
  const char *types[KIT_MOST_ARGS];
  int64_t extents[KIT_MOST_ARGS];
  void *sent[KIT_MOST_ARGS], *got[KIT_MOST_ARGS], *expected[KIT_MOST_ARGS];
  int num_buffers;
  BpValue scalar;
  double slack; /* an absolute error that is always accepted for floats of the last buffer */
} Judged;

/* Adds a buffer. Returns the buffer's data, which the caller fills in before the call; all bytes
 * are equal at first. */
void *bp__judge_add(Judged *call, const char *type, int64_t extent);
/* Runs function `name` on the device and in the interpreter. Returns the first element of the last
 * buffer that differs; -1 if none differs. The check fails if another buffer differs. */
int64_t bp__judge_run(const Kit *kit, const KitCode *code, const char *name, Judged *call);
void bp__judge_clear(Judged *call);

#endif
