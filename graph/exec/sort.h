/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting functions, which code that TVM compiles for the CPU calls in its runtime. */
#ifndef BACKPLANE_GRAPH_EXEC_SORT_H
#define BACKPLANE_GRAPH_EXEC_SORT_H

/* Makes the functions `tvm.contrib.sort.*` global:
 *
 * - sort(in, values, axis, ascending)
 * - argsort(in, indices, axis, ascending)
 * - argsort_nms(in, lengths, indices, axis, ascending): sorts only the first `lengths` elements of
 *   each row; the indices of the others are unchanged
 * - topk(in, outputs..., k, axis, "both"|"values"|"indices", ascending); k < 1 takes all elements
 *
 * Equal elements keep their order, and NaN counts as the largest number. */
int bp__sort_register(void);

#endif
