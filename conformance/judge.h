/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the conformance kit: the reference interpreter as a judge of generated code. A function is
 * called on the device and interpreted, on the same data; numbers of any type are made and read by
 * interpreted casts, so the kit has no idea of its own of narrow floats. */
#ifndef BACKPLANE_CONFORMANCE_JUDGE_H
#define BACKPLANE_CONFORMANCE_JUDGE_H

#include "conformance/kernel.h"

/* Converts `count` elements of one type to another. */
void bp__judge_convert(const char *from, const char *to, void *source, void *result, int64_t count);
/* An element as a number, for messages and for comparing floats. */
double bp__judge_number(const char *type, const void *data, int64_t index);

/* Whether element `index` of two arrays is the same number, as far as floats are to agree. slack:
 * an error that they may have whatever they are. */
gboolean bp__judge_agrees(const char *type, const void *got, const void *expected, int64_t index,
                          double slack);

/* A call of a function of buffers, and of a scalar after them if that is not None: the data as they
 * are before it and, when it was judged, as the device left them and as they are to be. */
typedef struct Judged {
  const char *types[KIT_MOST_ARGS];
  int64_t extents[KIT_MOST_ARGS];
  void *sent[KIT_MOST_ARGS], *got[KIT_MOST_ARGS], *expected[KIT_MOST_ARGS];
  int num_buffers;
  BpValue scalar;
  double slack; /* an error that floats of the last buffer may have whatever they are */
} Judged;

/* Adds a buffer, and returns what is sent, all of one byte, to be filled in. */
void *bp__judge_add(Judged *call, const char *type, int64_t extent);
/* Runs function `name` on the device and in the interpreter. The first element of the last buffer
 * that differs; -1: none does. The check fails if another buffer differs. */
int64_t bp__judge_run(const Kit *kit, const KitCode *code, const char *name, Judged *call);
void bp__judge_clear(Judged *call);

#endif
