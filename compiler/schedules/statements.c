/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: cores or threads share their rows; neighbouring rows form a vector, if vectors can
 * express the statements. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

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

/* Whether neighbours along the last axis read neighbours. */
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

int bp__schedule_statements(const BpStageInfo *info, const BpMachine *machine) {
  BpTeStage *stage = info->stage;
  BpTeAxis *rows, *lane;
  if (info->ndim == 0)
    return 0;
  if (machine->threads > 1) {
    double count = bp__info_size(info, 0, info->ndim);
    if (bp__fuse_axes(stage, 0, info->ndim, &rows) != 0)
      return -1;
    return bp__bind_run(stage, rows, bp__block_threads(machine, count), true);
  }
  int64_t lanes = bp__machine_for(machine, info).lanes;
  bool has_vectors = lanes > 1 && has_neighbours(info);
  if (bp__fuse_axes(stage, 0, has_vectors ? info->ndim - 1 : info->ndim, &rows) != 0)
    return -1;
  if (has_vectors) {
    BpTeAxis *tiles;
    if (bp_te_split(stage, stage->axes[info->ndim - 1], lanes, BP_TE_TAIL_PEEL, &tiles, &lane) !=
            0 ||
        bp_te_vectorize(stage, lane) != 0)
      return -1;
    if (info->ndim == 1)
      rows = tiles;
    else if (bp_te_fuse(stage, rows, tiles, &rows) != 0)
      return -1;
  }
  bool is_parallel = bp__cores_for(machine, elements_of(info), BP__PARALLEL_ELEMENTS) > 1;
  return is_parallel ? bp_te_parallel(stage, rows) : 0;
}
