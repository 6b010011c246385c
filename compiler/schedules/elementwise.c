/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise and injective computations. */

#include "compiler/schedules/analysis.h"
#include "compiler/schedules/parts.h"

/* Whether axes d and d + 1 are one run through memory in every read. */
static bool is_one_run(const BpStageInfo *info, int32_t d) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!access->is_linear[d] || !access->is_linear[d + 1] ||
        access->stride[d] != access->stride[d + 1] * info->extent[d + 1])
      return false;
  }
  return true;
}

/* The first of the axes that can be fused with the last one. */
static int32_t first_of_run(const BpStageInfo *info) {
  int32_t d = info->ndim - 1;
  while (d > 0 && (info->extent[d - 1] == 1 || is_one_run(info, d - 1)))
    d--;
  return d;
}

static int visit_call(void *context, const BpIrNode *node) {
  (void)context;
  return (node->kind == BP_IR_CALL && !bp__te_is_read(node)) || node->kind == BP_IR_SELECT;
}

/* Whether vectors pay: where elements are not neighbours only if there is something to compute. */
static bool wants_vectors(const BpStageInfo *info, int32_t axis) {
  if (bp__ir_visit_once(info->s->body, visit_call, NULL) != 0)
    return true;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!access->is_linear[axis] || (access->stride[axis] != 0 && access->stride[axis] != 1))
      return false;
  }
  return true;
}

int bp__fuse_axes(BpTeStage *stage, int32_t first, int32_t end, BpTeAxis **fused) {
  *fused = bp_te_stage_axis(stage, first);
  for (int32_t i = first + 1; i < end; i++)
    if (bp_te_fuse(stage, *fused, bp_te_stage_axis(stage, i), fused) != 0)
      return -1;
  return *fused ? 0 : -1;
}

int bp__schedule_elementwise(const BpStageInfo *info, const BpMachine *machine) {
  BpTeStage *stage = info->stage;
  if (info->ndim == 0)
    return 0;
  bool is_parallel =
      machine->cores > 1 && bp__info_size(info, 0, info->ndim) >= BP__PARALLEL_ELEMENTS;
  int32_t first = first_of_run(info);
  bool has_vectors = wants_vectors(info, info->ndim - 1);
  BpTeAxis *run, *outer;
  if (bp__fuse_axes(stage, first, info->ndim, &run) != 0)
    return -1;
  if (first > 0) {
    if (bp__fuse_axes(stage, 0, first, &outer) != 0)
      return -1;
    if (is_parallel && bp_te_axis_extent(outer) >= machine->cores) {
      is_parallel = false;
      if (bp_te_parallel(stage, outer) != 0)
        return -1;
    }
  }
  return bp__schedule_run(stage, run, has_vectors ? machine->lanes : 1,
                          is_parallel && first == 0 ? machine->cores : 1);
}

int bp__schedule_run(BpTeStage *stage, BpTeAxis *run, int64_t lanes, int64_t cores) {
  BpTeAxis *share, *tile, *lane;
  int64_t extent = bp_te_axis_extent(run);
  if (cores > 1 && extent >= cores * lanes) {
    int64_t each = ((extent + cores - 1) / cores + lanes - 1) / lanes * lanes;
    if (bp_te_split(stage, run, each, BP_TE_TAIL_PEEL, &share, &run) != 0 ||
        bp_te_parallel(stage, share) != 0)
      return -1;
  }
  if (lanes == 1 || extent == 1)
    return 0;
  if (extent <= lanes)
    return bp_te_vectorize(stage, run);
  if (bp_te_split(stage, run, lanes, BP_TE_TAIL_PEEL, &tile, &lane) != 0)
    return -1;
  return bp_te_vectorize(stage, lane);
}

int bp_schedule_elementwise(BpTe *te, BpTeTensor *tensor, const BpTarget *target) {
  BpAnalysis analysis;
  BpMachine machine = bp__machine(target);
  if (bp__analysis_init(&analysis, te, tensor) != 0)
    return -1;
  int rc = bp__schedule_elementwise(bp__analysis_find(&analysis, tensor), &machine);
  bp__analysis_clear(&analysis);
  return rc;
}
