/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for devices whose kernels run over blocks of threads. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_THREADS_H
#define BACKPLANE_COMPILER_SCHEDULES_THREADS_H

#include "compiler/schedules/analysis.h"

/* The maximum number of blocks on one axis that all devices allow. */
#define BP__MOST_BLOCKS 65535

/* Inlines stages that are read at the reader's own place: each remaining stage is a kernel, whose
 * result goes through memory (kernels.c). */
int bp__inline_for_kernels(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* Schedules all stages for threads in lock-step (threads.c). */
int bp__schedule_threads(const BpAnalysis *analysis, const BpTeTensor *output,
                         const BpMachine *machine);

/* Schedules a reduction `work`, which each thread accumulates in a register tile, and the stage
 * `output` that stores it (thread_tile.c). */
int bp__schedule_thread_tile(const BpStageInfo *work, const BpStageInfo *output,
                             const BpMachine *machine);

/* Schedules a matrix product whose operands go through the block's shared memory (thread_block.c).
 * *fits tells whether the stages are a matrix product of sufficient size; if not, nothing is
 * changed. */
int bp__schedule_block_tile(const BpStageInfo *work, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits);

/* Schedules a reduction that all threads of a block compute together, with partial results in
 * shared memory (thread_rows.c). */
int bp__schedule_block_reduction(const BpStageInfo *info, const BpMachine *machine);
/* Schedules reductions of rows and the stages computed from them, one block for each row. *fits
 * tells whether the stages reduce rows; if not, nothing is changed. */
int bp__schedule_block_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits);

/* Schedules a convolution by Winograd's algorithm; its padding is inlined (thread_transform.c). */
int bp__schedule_thread_transform(const BpAnalysis *analysis, const BpTransformStages *stages,
                                  BpTeTensor *output, const BpMachine *machine);

/* The number of threads of a block for work of `count` elements. */
int64_t bp__block_threads(const BpMachine *machine, double count);
/* Fuses leading loops and divides them among blocks (thread_tile.c). */
int bp__bind_outer(BpTeStage *stage, BpTeAxis **order, int32_t count);
/* Divides an axis among the threads of a block and, if `blocks`, the rest among the blocks. */
int bp__bind_run(BpTeStage *stage, BpTeAxis *run, int64_t threads, bool blocks);

#endif
