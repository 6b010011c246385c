/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting. Code that TVM compiles for the CPU calls its runtime for it. */
#ifndef BACKPLANE_GRAPH_EXEC_SORT_H
#define BACKPLANE_GRAPH_EXEC_SORT_H

/* Makes the functions `tvm.contrib.sort.*` global:
 *
 * - sort(in, values, axis, ascending)
 * - argsort(in, indices, axis, ascending)
 * - argsort_nms(in, lengths, indices, axis, ascending): of each row only the first so many; the
 *   indices of the others stay what they are
 * - topk(in, outputs..., k, axis, "both"|"values"|"indices", ascending); k < 1 takes all
 *
 * Equal elements stay in order, and what is not a number counts as the largest. */
int bp__sort_register(void);

#endif
