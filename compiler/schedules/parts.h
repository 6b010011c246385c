/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the schedules, which take an existing analysis, and helpers that several
 * schedules share. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_PARTS_H
#define BACKPLANE_COMPILER_SCHEDULES_PARTS_H

#include "compiler/schedules/analysis.h"

int bp__schedule_elementwise(const BpStageInfo *info, const BpMachine *machine);
/* Finds the axis before `first` along which a read is contiguous, if the axes from `first` on are
 * contiguous in the output and the read jumps along them; -1 if no read does. *side is set to the
 * size of a tile along the axis (permute.c). */
int32_t bp__find_permuted(const BpStageInfo *info, int32_t first, int64_t *side);
/* Schedules a stage in tiles of a permuted axis and the run of the output. */
int bp__schedule_permuted(const BpStageInfo *info, int32_t first, int32_t near, int64_t side,
                          const BpMachine *machine, int64_t cores);
/* Schedules a reduction with its accumulators in registers, and the stage that stores the result:
 * the same stage, or one that reads it in place. */
int bp__schedule_tile(const BpStageInfo *work, const BpStageInfo *output, const BpMachine *machine);
/* Schedules a window over each channel separately, with accumulators in registers and a vector of
 * channels, and the stage that stores the result. */
int bp__schedule_window(const BpStageInfo *work, const BpStageInfo *output,
                        const BpMachine *machine);
bool bp__info_is_window(const BpStageInfo *info, const BpMachine *machine);
/* Finds a reduction whose result `pool` reduces again over adjacent windows, `scale` elements long
 * along each axis; NULL if `pool` has none. bp__schedule_pooled computes both stages in one
 * tile of `output`, which is `pool` or reads it in place. */
const BpStageInfo *bp__find_pooled_work(const BpAnalysis *analysis, const BpStageInfo *pool,
                                        const BpMachine *machine, int64_t *scale);
int bp__schedule_pooled(const BpStageInfo *work, const BpStageInfo *pool, const BpStageInfo *output,
                        const int64_t *scale, const BpMachine *machine);
/* Schedules a reduction along contiguous elements, with partial results in vector lanes. */
int bp__schedule_row(const BpStageInfo *info, const BpMachine *machine);
/* Schedules reductions along the rows of `output` and the stages computed from them, row by row.
 * *fits tells whether the stages reduce rows; if not, nothing is changed. */
int bp__schedule_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                      const BpMachine *machine, bool *fits);

/* Whether the terms of a reduction are contiguous and the elements of its result are not: lanes
 * then go along the reduction. */
bool bp__info_reduces_rows(const BpStageInfo *info);

/* The only reduction that the output reads, if the output is its only reader, reads it in place,
 * and the reduction is not along rows; else NULL. */
const BpStageInfo *bp__find_tiled_work(const BpAnalysis *analysis, const BpStageInfo *output);
/* The number of leading axes that count rows, if the stages reduce rows and compute from the
 * results, row by row; 0 for other stages. */
int32_t bp__count_row_axes(const BpAnalysis *analysis, const BpStageInfo *output);
/* Whether the part of a stage that belongs to one row has an open extent: a kernel cannot allocate
 * memory for it. */
bool bp__has_open_rows(const BpAnalysis *analysis, int32_t rows);

/* Appends the reduction loops of `stage`, which has the axes of `info`, to `order`. An axis along
 * which operands are linear only in pieces is divided into pieces and a remainder; the elements of
 * a piece are the innermost loop. */
int bp__split_reduction(const BpStageInfo *info, BpTeStage *stage, BpTeAxis **order,
                        int32_t *count);

/* Whether a stage only exchanges the last two axes of a tensor. */
bool bp__stage_turns(const BpTeStage *stage);
/* Inlines each stage for which `pays` returns 1, except outputs, reductions and scheduled stages.
 * `pays` returns -1 with an error on failure. */
int bp__inline_where(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                     int (*pays)(const BpTe *te, const BpTeStage *stage));
/* Inlines stages that are cheap to compute wherever they are read. */
int bp__inline_stages(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* Schedules the scans that are not part of another scan's steps, and the stages of their steps
 * (scan.c). */
int bp__schedule_scans(const BpAnalysis *analysis, const BpMachine *machine);

/* Schedules the rows of statements (statements.c). */
int bp__schedule_statements(const BpStageInfo *info, const BpMachine *machine);

/* Copies operands of reductions to the type in which they are computed, if it is cheaper to convert
 * each value once than at each read (types.c). The caller inlines stages before it converts
 * operands. */
int bp__convert_operands(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* The number of rows up to which a product computes the values of an operand where it reads
 * them. */
#define BP__FEW_ROWS 16
/* Makes stages of the operands that products compute from their inputs, if more than BP__FEW_ROWS
 * rows, or an open number, share each value (hoist.c). The caller has inlined stages before. */
int bp__hoist_operands(BpTe *te);

/* Fuses data axes first <= i < end, which must not be split or fused yet. */
int bp__fuse_axes(BpTeStage *stage, int32_t first, int32_t end, BpTeAxis **fused);
/* Vectorises one axis in `lanes` lanes, after dividing it among `cores` cores. */
int bp__schedule_run(BpTeStage *stage, BpTeAxis *run, int64_t lanes, int64_t cores);
/* Splits an axis into unrolled vectors and `lanes` lanes, and adds them to `order`. */
int bp__vectorize_part(BpTeStage *stage, BpTeAxis *axis, int64_t lanes, BpTeAxis **order,
                       int32_t *count);

#endif
