/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules statements: cores or threads share their rows; neighbouring rows form a vector if
 * vectors can express the statements. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* Bounds on the vectors of a run: LEAST_VECTORS keeps memory accesses long, MOST_VECTORS keeps the
 * run in the first-level cache. */
#define LEAST_VECTORS 16
#define MOST_VECTORS  64

/* The number of elements that the statements read and write, as an estimate of the work. */
static double elements_of(const BpStageInfo *info) {
  double count = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpTeTensor *tensor = info->accesses[i].tensor;
    count += bp__tensor_bytes(tensor) * 8 / tensor->dtype.bits;
  }
  for (int32_t i = 0; i < info->stage->num_tensors; i++) {
    const BpTeTensor *tensor = info->stage->tensors[i];
    count += bp__tensor_bytes(tensor) * 8 / tensor->dtype.bits;
  }
  return count;
}

/* Whether neighbours along the last axis read neighbouring elements. */
static bool has_neighbours(const BpStageInfo *info) {
  int32_t last = info->ndim - 1;
  bool is_any = false;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!access->is_linear[last])
      continue;
    if (access->stride[last] != 0 && access->stride[last] != 1)
      return false;
    is_any |= access->stride[last] == 1;
  }
  return is_any && info->extent[last] > 1;
}

/* Divides the last axis into runs of vectors. Loops that are the same for all rows are around the
 * vectors of a run, so that memory is read and written in long pieces. Runs get shorter, down to
 * LEAST_VECTORS, until every core has one. */
static int split_last(const BpStageInfo *info, int64_t lanes, int64_t cores, BpTeAxis **runs) {
  BpTeStage *stage = info->stage;
  BpTeAxis *run = stage->axes[info->ndim - 1], *vectors, *lane;
  double others = bp__info_size(info, 0, info->ndim - 1);
  bool has_few = others >= 1 && others < (double)cores;
  int64_t shares = has_few ? bp__divide_up(cores, (int64_t)others) : 1;
  int64_t each = bp__divide_up(bp__divide_up(info->extent[info->ndim - 1], lanes), shares);
  each = each < LEAST_VECTORS ? LEAST_VECTORS : each > MOST_VECTORS ? MOST_VECTORS : each;
  if (bp_te_split(stage, run, each * lanes, BP_TE_TAIL_PEEL, runs, &run) != 0 ||
      bp_te_split(stage, run, lanes, BP_TE_TAIL_PEEL, &vectors, &lane) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    return -1;
  vectors->is_sunk = lane->is_sunk = 1;
  return 0;
}

int bp__schedule_statements(const BpStageInfo *info, const BpMachine *machine) {
  BpTeStage *stage = info->stage;
  BpTeAxis *rows;
  if (info->ndim == 0)
    return 0;
  if (machine->threads > 1) {
    double count = bp__info_size(info, 0, info->ndim);
    if (bp__fuse_axes(stage, 0, info->ndim, &rows) != 0)
      return -1;
    return bp__bind_run(stage, rows, bp__block_threads(machine, count), true);
  }
  int64_t lanes = bp__machine_for(machine, info).lanes;
  int64_t cores = bp__cores_for(machine, elements_of(info) * 2, BP__PARALLEL_ELEMENTS);
  bool has_vectors = lanes > 1 && has_neighbours(info);
  if (bp__fuse_axes(stage, 0, has_vectors ? info->ndim - 1 : info->ndim, &rows) != 0)
    return -1;
  if (has_vectors) {
    BpTeAxis *runs;
    if (split_last(info, lanes, cores, &runs) != 0)
      return -1;
    if (info->ndim == 1)
      rows = runs;
    else if (bp_te_fuse(stage, rows, runs, &rows) != 0)
      return -1;
  }
  return cores > 1 ? bp_te_parallel(stage, rows) : 0;
}
