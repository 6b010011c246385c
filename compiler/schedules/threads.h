/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for devices whose kernels run over blocks of threads. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_THREADS_H
#define BACKPLANE_COMPILER_SCHEDULES_THREADS_H

#include "compiler/schedules/analysis.h"

/* Blocks on one axis, which all devices allow. */
#define BP__MOST_BLOCKS 65535

/* What is read where it is computed goes into its reader: each stage that is left is a kernel, and
 * its result a trip through memory. (kernels.c) */
int bp__inline_for_kernels(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs);

/* Schedules all stages for threads in lock-step. (threads.c) */
int bp__schedule_threads(const BpAnalysis *analysis, const BpTeTensor *output,
                         const BpMachine *machine);

/* A register tile for each thread: `work` accumulates, `output` stores. (thread_tile.c) */
int bp__schedule_thread_tile(const BpStageInfo *work, const BpStageInfo *output,
                             const BpMachine *machine);

/* A product whose operands pass through the memory that a block shares; *fits: whether it is one,
 * and large enough, else nothing was done. (thread_block.c) */
int bp__schedule_block_tile(const BpStageInfo *work, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits);

/* Reductions by all threads of a block together, partial results in shared memory. (thread_rows.c)
 */
int bp__schedule_block_reduction(const BpStageInfo *info, const BpMachine *machine);
/* Reductions of rows and what is computed from them, a block for each row; *fits: whether the
 * stages are of that kind, else nothing was done. */
int bp__schedule_block_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits);

/* A convolution by transforms; its padding is inlined. (thread_transform.c) */
int bp__schedule_thread_transform(const BpAnalysis *analysis, const BpTransformStages *stages,
                                  BpTeTensor *output, const BpMachine *machine);

/* The threads of a block for work of `count` elements. */
int64_t bp__block_threads(const BpMachine *machine, double count);
/* Fuses leading loops and shares them among blocks. (thread_tile.c) */
int bp__bind_outer(BpTeStage *stage, BpTeAxis **order, int32_t count);
/* Shares an axis among the threads of a block, and the rest among the blocks if `blocks`. */
int bp__bind_run(BpTeStage *stage, BpTeAxis *run, int64_t threads, bool blocks);

#endif
