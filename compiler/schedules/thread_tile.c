/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions with a tile of the result in each thread's registers. The threads of a block lie along
 * the last axis of the result; a thread's tile spans an axis along which what it loads there serves
 * again, so that each load feeds several multiply-adds. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

#define MOST_TILED   8   /* elements of a tile along either axis */
#define TILE_THREADS 128 /* of a block */
/* Warps that a core should have, before tiles grow. */
#define WARPS_PER_CORE 8
/* Steps of the innermost reduction loop that are written out. */
#define UNROLLED 4

typedef struct ThreadTile {
  int32_t first_lane; /* threads run along this axis and those after it, fused */
  int32_t axis;       /* the tiled one, or -1 */
  int64_t size;       /* of the tile along it */
  int64_t columns;    /* neighbours along the threads' axis that one thread has */
  int64_t threads;
} ThreadTile;

/* Whether the same accesses depend on two axes. */
static bool are_alike(const BpStageInfo *info, int32_t a, int32_t b) {
  for (int32_t i = 0; i < info->num_accesses; i++)
    if (bp__access_depends_on(&info->accesses[i], a) !=
        bp__access_depends_on(&info->accesses[i], b))
      return false;
  return true;
}

static int32_t last_long_axis(const BpStageInfo *info) {
  int32_t last = info->ndim - 1;
  while (last > 0 && info->extent[last] == 1)
    last--;
  return last;
}

/* As many axes as fill a block. */
static int32_t first_lane_axis(const BpStageInfo *info, int64_t threads) {
  int32_t last = last_long_axis(info), first = last;
  while (first > 0 && bp__info_size(info, first, info->ndim) < (double)threads &&
         (info->extent[first - 1] == 1 || are_alike(info, first - 1, last)))
    first--;
  return first;
}

/* Whether what a thread loads along its lanes serves again along `axis`. */
static bool has_reuse(const BpStageInfo *info, int32_t axis, int32_t last) {
  for (int32_t i = 0; i < info->num_accesses; i++)
    if (bp__access_depends_on(&info->accesses[i], last) &&
        !bp__access_depends_on(&info->accesses[i], axis))
      return true;
  return false;
}

static int32_t tiled_axis(const BpStageInfo *info, int32_t first_lane) {
  int32_t best = -1;
  for (int32_t i = 0; i < first_lane; i++)
    if (info->extent[i] > 1 && has_reuse(info, i, last_long_axis(info)) &&
        (best < 0 || info->extent[i] >= info->extent[best]))
      best = i;
  return best;
}

/* The size up to `most` that wastes least on the last tile; of those the largest. */
static int64_t tile_size(int64_t extent, int64_t most) {
  int64_t best = 1, best_work = INT64_MAX;
  for (int64_t size = 1; size <= most && size <= extent; size++) {
    int64_t work = bp__divide_up(extent, size) * size;
    /* A smaller tile loads more: it has to save an eighth. */
    if (work <= best_work || (work - best_work) * 8 < work) {
      best = size;
      best_work = work;
    }
  }
  return best;
}

/* Whether neighbours along the lanes are neighbours in memory, or the same, wherever they are read;
 * then a thread may have several. */
static bool runs_along(const BpStageInfo *info, int32_t axis) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!access->is_linear[axis] || (access->stride[axis] != 0 && access->stride[axis] != 1))
      return false;
  }
  return true;
}

static ThreadTile choose_tile(const BpStageInfo *info, const BpMachine *machine) {
  double sums = bp__info_size(info, 0, info->ndim);
  double wanted = (double)(WARPS_PER_CORE * machine->cores * machine->threads);
  int64_t most = 1;
  ThreadTile tile = {.columns = 1};
  tile.threads = bp__block_threads(machine, sums);
  if (tile.threads > TILE_THREADS)
    tile.threads = TILE_THREADS;
  tile.first_lane = first_lane_axis(info, tile.threads);
  tile.axis = tiled_axis(info, tile.first_lane);
  while (most < MOST_TILED && sums / (double)(2 * most) >= wanted)
    most *= 2;
  tile.size = tile.axis >= 0 ? tile_size(info->extent[tile.axis], most) : 1;
  int32_t last = last_long_axis(info);
  bool is_one_axis = bp__info_size(info, tile.first_lane, info->ndim) == (double)info->extent[last];
  double tiles = sums / (double)tile.size;
  while (tile.columns < MOST_TILED / 2 && tile.axis >= 0 && is_one_axis && runs_along(info, last) &&
         tiles / (double)(2 * tile.columns) >= wanted &&
         info->extent[last] >= 2 * tile.columns * tile.threads)
    tile.columns *= 2;
  while (tile.threads / 2 >= machine->threads && bp__info_size(info, tile.first_lane, info->ndim) <=
                                                     (double)(tile.threads / 2 * tile.columns))
    tile.threads /= 2;
  return tile;
}

/* ---- Applying it ------------------------------------------------------------------------- */

int bp__bind_outer(BpTeStage *stage, BpTeAxis **order, int32_t count) {
  BpTeAxis *serial;
  for (int32_t i = 1; i < count; i++)
    if (bp_te_fuse(stage, order[0], order[i], &order[0]) != 0)
      return -1;
  int64_t each = bp__divide_up(bp_te_axis_extent(order[0]), BP__MOST_BLOCKS);
  if (each > 1 && bp_te_split(stage, order[0], each, BP_TE_TAIL_GUARD, &order[0], &serial) != 0)
    return -1;
  return bp_te_bind(stage, order[0], "blockIdx.y");
}

/* Blocks for each tile, threads along the lanes; *inside: the axis inside of which a thread's tile
 * is computed. */
static int tile_output(const BpStageInfo *work, BpTeStage *stage, const ThreadTile *tile,
                       BpTeAxis **inside) {
  BpTeAxis *order[BP__TE_MAX_AXES], *lane, *block, *thread, *column = NULL, *row = NULL;
  int32_t count = 0;
  if (bp__fuse_axes(stage, tile->first_lane, work->ndim, &lane) != 0)
    return -1;
  if (tile->columns > 1 &&
      bp_te_split(stage, lane, tile->columns, BP_TE_TAIL_GUARD, &lane, &column) != 0)
    return -1;
  if (bp_te_split(stage, lane, tile->threads, BP_TE_TAIL_GUARD, &block, &thread) != 0)
    return -1;
  for (int32_t i = 0; i < tile->first_lane; i++) {
    order[count] = stage->axes[i];
    if (i == tile->axis && tile->size > 1 &&
        bp_te_split(stage, order[count], tile->size, BP_TE_TAIL_OVERLAP, &order[count], &row) != 0)
      return -1;
    count++;
  }
  int32_t outer = count;
  order[count++] = block;
  order[count++] = thread;
  if (row)
    order[count++] = row;
  if (column)
    order[count++] = column;
  if (bp_te_reorder(stage, order, count) != 0)
    return -1;
  if ((outer > 0 && bp__bind_outer(stage, order, outer) != 0) ||
      bp_te_bind(stage, block, "blockIdx.x") != 0 ||
      bp_te_bind(stage, thread, "threadIdx.x") != 0 || (row && bp_te_unroll(stage, row) != 0) ||
      (column && bp_te_unroll(stage, column) != 0))
    return -1;
  *inside = thread;
  return 0;
}

/* The reduction outside, a few of its steps written out, and the tile inside. */
static int tile_work(BpTeStage *stage) {
  BpTeAxis *order[BP__TE_MAX_AXES], *last = NULL, *steps = NULL;
  int32_t count = 0, ndim = stage->tensor->ndim;
  for (int32_t i = 0; i < stage->num_reduce_axes; i++)
    if (bp_te_axis_extent(stage->axes[ndim + i]) > 1)
      last = stage->axes[ndim + i];
  if (last && bp_te_axis_extent(last) % UNROLLED == 0 && bp_te_axis_extent(last) > UNROLLED &&
      bp_te_split(stage, last, UNROLLED, BP_TE_TAIL_PEEL, &last, &steps) != 0)
    return -1;
  for (int32_t i = ndim; i < stage->num_axes; i++)
    if (!stage->axes[i]->used_by && stage->axes[i] != steps)
      order[count++] = stage->axes[i];
  if (steps) {
    order[count++] = steps;
    if (bp_te_unroll(stage, steps) != 0)
      return -1;
  }
  for (int32_t i = 0; i < ndim; i++) {
    order[count++] = stage->axes[i];
    if (bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  }
  return bp_te_reorder(stage, order, count);
}

int bp__schedule_thread_tile(const BpStageInfo *work, const BpStageInfo *output,
                             const BpMachine *machine) {
  BpTeTensor *sums = work->stage->tensor;
  BpTeAxis *inside;
  if (work->ndim == 0 || bp__info_size(work, 0, work->num_roots) == 0)
    return 0;
  bool fits = false;
  if (bp__schedule_block_tile(work, output, machine, &fits) != 0 || fits)
    return fits ? 0 : -1;
  ThreadTile tile = choose_tile(work, machine);
  if (work == output && !(sums = bp_te_cache_write(work->stage->te, sums, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (tile_output(work, output->stage, &tile, &inside) != 0 ||
      bp_te_set_scope(sums->stage, BP_IR_SCOPE_LOCAL) != 0 ||
      bp_te_compute_at(sums->stage, output->stage, inside) != 0)
    return -1;
  return tile_work(sums->stage);
}
