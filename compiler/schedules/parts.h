/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules over an analysis that is already there, and pieces that several use. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_PARTS_H
#define BACKPLANE_COMPILER_SCHEDULES_PARTS_H

#include "compiler/schedules/analysis.h"

int bp__schedule_elementwise(const BpStageInfo *info, const BpMachine *machine);
/* The axis before `first` along which a read goes through memory, if it jumps along the axes from
 * `first` on, which are one run of the output; -1: there is none. *side: of a tile along it.
 * (permute.c) */
int32_t bp__find_permuted(const BpStageInfo *info, int32_t first, int64_t *side);
/* Schedules these in tiles of that axis and the run. */
int bp__schedule_permuted(const BpStageInfo *info, int32_t first, int32_t near, int64_t side,
                          const BpMachine *machine, int64_t cores);
/* A reduction with its accumulators in registers, and the stage that stores it: the same one, or
 * one that reads it in place. */
int bp__schedule_tile(const BpStageInfo *work, const BpStageInfo *output, const BpMachine *machine);
/* The same for a window over each channel by itself, of which there is a vector. */
int bp__schedule_window(const BpStageInfo *work, const BpStageInfo *output,
                        const BpMachine *machine);
bool bp__info_is_window(const BpStageInfo *info, const BpMachine *machine);
/* A reduction whose result `pool` reduces again over windows side by side, `scale` elements long
 * along each axis: the first is found, or NULL, and both are computed in one tile. */
const BpStageInfo *bp__find_pooled_work(const BpAnalysis *analysis, const BpStageInfo *pool,
                                        const BpMachine *machine, int64_t *scale);
int bp__schedule_pooled(const BpStageInfo *work, const BpStageInfo *pool, const int64_t *scale,
                        const BpMachine *machine);
/* A reduction along memory, its partial results in vector lanes. */
int bp__schedule_row(const BpStageInfo *info, const BpMachine *machine);
/* Reductions along the rows of `output` and what is computed from them, row by row. Sets *fits to
 * whether they are of that kind; if not, nothing was done. */
int bp__schedule_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                      const BpMachine *machine, bool *fits);

/* Whether the terms of a reduction are neighbours in memory, and the elements of its result are
 * not: then lanes go along the reduction. */
bool bp__info_reduces_rows(const BpStageInfo *info);

/* The one reduction that the output reads, in place and alone, and that does not reduce rows; NULL:
 * there is none. */
const BpStageInfo *bp__find_tiled_work(const BpAnalysis *analysis, const BpStageInfo *output);
/* The number of leading axes that count rows, where the stages reduce rows and compute from that,
 * row by row; 0: they are not of that kind. */
int32_t bp__count_row_axes(const BpAnalysis *analysis, const BpStageInfo *output);
/* Whether what a stage has of a row is of an open extent: a kernel has no memory for it. */
bool bp__has_open_rows(const BpAnalysis *analysis, int32_t rows);

/* Appends the reduction loops of `stage`, which has the axes of `info`, to `order`. An axis along
 * which operands are linear in pieces alone is taken in these, and in a rest; places in a piece are
 * the innermost loops. */
int bp__split_reduction(const BpStageInfo *info, BpTeStage *stage, BpTeAxis **order,
                        int32_t *count);

/* Inlines each stage, but those of outputs, reductions and what is scheduled, for which `pays`
 * gives 1 and not 0; -1 is an error. */
int bp__inline_where(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                     int (*pays)(const BpTe *te, const BpTeStage *stage));
/* Inlines what costs little to compute again wherever it is read. */
int bp__inline_stages(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* Schedules the scans that belong to no other one's steps, and the stages of their steps. (scan.c)
 */
int bp__schedule_scans(const BpAnalysis *analysis, const BpMachine *machine);

/* What statements compute: their rows. (statements.c) */
int bp__schedule_statements(const BpStageInfo *info, const BpMachine *machine);

/* Gives reductions copies of operands in the type that they compute with, where converting each
 * value once costs less than wherever it is read; after inlining. (types.c) */
int bp__convert_operands(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* Fuses data axes first <= i < end, which must not be split or fused yet. */
int bp__fuse_axes(BpTeStage *stage, int32_t first, int32_t end, BpTeAxis **fused);
/* Vectorises one axis in `lanes`, after giving `cores` each a share of it. */
int bp__schedule_run(BpTeStage *stage, BpTeAxis *run, int64_t lanes, int64_t cores);

#endif
