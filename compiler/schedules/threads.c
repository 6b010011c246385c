/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules work for threads in lock-step: neighbouring threads compute neighbouring elements, so
 * that they load and store contiguous memory together. */

#include "compiler/schedules/threads.h"

#include "compiler/schedules/parts.h"

/* The number of threads of a block: enough that several warps hide each other's latency. */
#define BLOCK_THREADS 256
/* The number of terms of a sum from which on the threads of a block share the sum, if the result
 * has few sums. */
#define SHARED_TERMS 64
/* The number of threads that a core should run before one thread computes several elements. */
#define THREADS_PER_CORE 1024
/* The number of sums for each lane of each core from which on one sum for each thread keeps all
 * lanes busy. */
#define SUMS_PER_LANE 4

int64_t bp__block_threads(const BpMachine *machine, double count) {
  int64_t most = machine->most_threads < BLOCK_THREADS ? machine->most_threads : BLOCK_THREADS;
  int64_t threads = machine->threads;
  while (threads * 2 <= most && (double)threads < count)
    threads *= 2;
  return threads < most ? threads : most;
}

int bp__bind_run(BpTeStage *stage, BpTeAxis *run, int64_t threads, bool blocks) {
  BpTeAxis *block = NULL, *thread = run, *serial;
  int64_t extent = bp_te_axis_extent(run);
  if ((run->open || extent > threads) &&
      bp_te_split(stage, run, threads, BP_TE_TAIL_GUARD, &block, &thread) != 0)
    return -1;
  if (bp_te_bind(stage, thread, "threadIdx.x") != 0)
    return -1;
  if (!block || !blocks)
    return 0;
  int64_t each = bp__divide_up(bp_te_axis_extent(block), BP__MOST_BLOCKS);
  if (each > 1 && bp_te_split(stage, block, each, BP_TE_TAIL_GUARD, &block, &serial) != 0)
    return -1;
  return bp_te_bind(stage, block, "blockIdx.x");
}

/* The number of neighbours along the last axis that a thread loads and stores in one piece: a
 * vector, if the work still keeps every core busy and reads are contiguous; else one element. */
static int64_t wide_elements(const BpStageInfo *info, const BpMachine *machine) {
  int64_t lanes = machine->lanes;
  int32_t last = info->ndim - 1;
  double enough = (double)(machine->cores * THREADS_PER_CORE * lanes);
  if (lanes == 1 || bp__info_is_open(info, 0, info->num_roots) || info->extent[last] % lanes != 0 ||
      info->stage->tensor->dtype.bits != 32 || bp__info_size(info, 0, info->ndim) < enough)
    return 1;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (access->read->dtype.bits != 32)
      return 1;
    for (int32_t k = 0; k < info->num_roots; k++) {
      bool is_aligned = k == last ? access->stride[k] <= 1 : access->stride[k] % lanes == 0;
      if (!access->is_linear[k] || !is_aligned)
        return 1;
    }
  }
  return lanes;
}

static int schedule_elementwise(const BpStageInfo *info, const BpMachine *machine) {
  BpTeStage *stage = info->stage;
  BpTeAxis *run, *lane;
  double count = bp__info_size(info, 0, info->ndim);
  if (info->ndim == 0)
    return 0;
  int64_t wide = wide_elements(info, machine);
  run = stage->axes[info->ndim - 1];
  if (wide > 1 && (bp_te_split(stage, run, wide, BP_TE_TAIL_GUARD, &run, &lane) != 0 ||
                   bp_te_vectorize(stage, lane) != 0))
    return -1;
  BpTeAxis *outer = NULL;
  if (info->ndim > 1 && (bp__fuse_axes(stage, 0, info->ndim - 1, &outer) != 0 ||
                         bp_te_fuse(stage, outer, run, &run) != 0))
    return -1;
  return bp__bind_run(stage, run, bp__block_threads(machine, count / (double)wide), true);
}

/* Whether one thread for each sum would leave most of the device idle, or would make neighbouring
 * threads load distant elements, while threads that share a sum would load neighbours. */
static bool wants_whole_blocks(const BpStageInfo *info, const BpMachine *machine) {
  double sums = bp__info_size(info, 0, info->ndim);
  double terms = bp__info_size(info, info->ndim, info->num_roots);
  bool is_scattered = info->num_accesses == 1 && bp__info_reduces_rows(info);
  return machine->shared > 0 && terms >= SHARED_TERMS &&
         (is_scattered || sums < SUMS_PER_LANE * (double)(machine->threads * machine->cores));
}

static int schedule_stage(const BpStageInfo *info, const BpMachine *machine) {
  if (bp__stage_is_scheduled(info->stage) || info->stage->scan || info->stage->inside)
    return 0;
  if (info->stage->is_statements)
    return bp__schedule_statements(info, machine);
  if (info->stage->reduce_op < 0)
    return schedule_elementwise(info, machine);
  if (wants_whole_blocks(info, machine))
    return bp__schedule_block_reduction(info, machine);
  return bp__schedule_thread_tile(info, info, machine);
}

int bp__schedule_threads(const BpAnalysis *analysis, const BpTeTensor *tensor,
                         const BpMachine *machine) {
  const BpStageInfo *output = bp__analysis_find(analysis, tensor);
  bool are_rows = false;
  if (bp__schedule_block_rows(analysis, output, machine, &are_rows) != 0)
    return -1;
  if (are_rows)
    return 0;
  const BpStageInfo *work = bp__find_tiled_work(analysis, output);
  if (work && !wants_whole_blocks(work, machine) &&
      bp__schedule_thread_tile(work, output, machine) != 0)
    return -1;
  for (int32_t i = 0; i < analysis->num_stages; i++)
    if (schedule_stage(&analysis->stages[i], machine) != 0)
      return -1;
  return 0;
}
