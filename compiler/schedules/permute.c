/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules computations whose reads are contiguous along another axis than their writes:
 * transposes, and conversions between layouts. Tiles use each cache line completely while it is in
 * the cache. */

#include "compiler/schedules/parts.h"

/* Elements of a tile along the axis of the reads: a cache line of float32. */
#define SIDE 16
/* The elements of a tile, and of a vector, along the output. A tile reads its elements from as many
 * lines as it has elements along the output, which a cache with eight or more ways holds even if
 * all lines map to one set, as with rows of 4096 bytes. */
#define WIDTH 8
/* The extent of an axis below which a line is still in the cache when the loop reaches the line's
 * next element. */
#define LEAST_EXTENT 8

/* Whether axes first <= i < end may have enough elements; an open extent may. */
static bool is_long(const BpStageInfo *info, int32_t first, int32_t end) {
  return bp__info_is_open(info, first, end) || bp__info_size(info, first, end) >= LEAST_EXTENT;
}

/* Whether a read moves from line to line along the last axes, and inside a line along axis `d`. */
static bool is_near(const BpStageInfo *info, const BpAccess *access, int32_t last, int32_t d) {
  bool is_far = !access->is_linear[last] || access->stride[last] > 1 || access->stride[last] < -1;
  bool is_piece = !access->is_linear[d] && access->piece[d] >= LEAST_EXTENT;
  return is_far && is_long(info, d, d + 1) && access->stride[d] == 1 &&
         (access->is_linear[d] || is_piece);
}

int32_t bp__find_permuted(const BpStageInfo *info, int32_t first, int64_t *side) {
  if (!is_long(info, first, info->ndim))
    return -1;
  for (int32_t i = 0; i < info->num_accesses; i++)
    for (int32_t d = first - 1; d >= 0; d--) {
      const BpAccess *access = &info->accesses[i];
      int64_t piece = access->is_linear[d] ? SIDE : access->piece[d];
      *side = piece > SIDE ? SIDE : piece;
      if (is_near(info, access, info->ndim - 1, d))
        return d;
    }
  return -1;
}

int bp__schedule_permuted(const BpStageInfo *info, int32_t first, int32_t near, int64_t side,
                          const BpMachine *machine, int64_t cores) {
  BpTeStage *stage = info->stage;
  int64_t lanes = bp__machine_for(machine, info).lanes, width = lanes < WIDTH ? lanes : WIDTH;
  BpTeAxis *run, *tiles, *place, *run_tiles, *run_place, *order[BP_TE_MAX_NDIM + 3];
  int32_t count = 0;
  if (bp__fuse_axes(stage, first, info->ndim, &run) != 0)
    return -1;
  BpTeAxis *axis = bp_te_stage_axis(stage, near);
  for (int32_t i = 0; i < first; i++)
    if (i != near)
      order[count++] = bp_te_stage_axis(stage, i);
  if (bp_te_split(stage, axis, side, BP_TE_TAIL_PEEL, &tiles, &place) != 0 ||
      bp_te_split(stage, run, lanes == 1 ? WIDTH : width, BP_TE_TAIL_PEEL, &run_tiles,
                  &run_place) != 0)
    return -1;
  BpTeAxis *inner[] = {tiles, run_tiles, place, run_place};
  memcpy(order + count, inner, sizeof inner);
  if (bp_te_reorder(stage, order, count + 4) != 0 ||
      (lanes > 1 && bp_te_vectorize(stage, run_place) != 0))
    return -1;
  if (cores == 1)
    return 0;
  BpTeAxis *shared = tiles;
  for (int32_t i = count - 1; i >= 0; i--)
    if (bp_te_fuse(stage, order[i], shared, &shared) != 0)
      return -1;
  return bp_te_parallel(stage, shared);
}
