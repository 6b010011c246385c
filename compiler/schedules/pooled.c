/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules a reduction whose result is reduced again over adjacent windows (a convolution and its
 * pooling): the part that a tile of the pooled result needs is computed in registers and never
 * stored. */

#include "compiler/schedules/parts.h"

#define MOST_VECTORS 4

/* ---- Finding it -------------------------------------------------------------------------- */

/* Whether the windows of an access are adjacent: along each axis of the tensor, the step from one
 * result to the next equals the extent of one reduction axis, or 1 if no reduction axis moves along
 * it. */
static bool is_side_by_side(const BpStageInfo *pool, const BpAccess *access,
                            const BpTeTensor *source, int64_t *scale) {
  int64_t stride = 1;
  for (int32_t i = source->ndim - 1; i >= 0; i--) {
    int32_t spans = 0;
    scale[i] = source->shape[i] == 1 ? 1 : access->stride[i] / stride;
    if (!access->is_linear[i] || (source->shape[i] > 1 && access->stride[i] % stride != 0))
      return false;
    for (int32_t r = pool->ndim; r < pool->num_roots; r++)
      spans += pool->extent[r] > 1 && access->is_linear[r] && access->stride[r] == stride &&
               pool->extent[r] == scale[i];
    if (spans != (scale[i] > 1))
      return false;
    stride *= source->shape[i];
  }
  return true;
}

const BpStageInfo *bp__find_pooled_work(const BpAnalysis *analysis, const BpStageInfo *pool,
                                        const BpMachine *machine, int64_t *scale) {
  const BpStageInfo *work = NULL;
  if (pool->stage->reduce_op < 0 || pool->ndim < 4)
    return NULL;
  for (int32_t i = 0; i < pool->num_accesses; i++) {
    const BpTeTensor *source = bp__analysis_source(analysis, pool->accesses[i].read);
    const BpStageInfo *info = source ? bp__analysis_find(analysis, source) : NULL;
    if (!info)
      continue;
    if (work || info->stage->reduce_op < 0 || info->ndim != pool->ndim ||
        info->extent[info->ndim - 1] != bp__machine_for(machine, info).lanes ||
        bp__info_is_window(info, machine) || bp__info_has_other_readers(analysis, pool, source) ||
        !is_side_by_side(pool, &pool->accesses[i], source, scale))
      return NULL;
    work = info;
  }
  return work;
}

/* ---- The tile ---------------------------------------------------------------------------- */

/* A tile of the pooled result: pixels of a row and vectors of channels. */
typedef struct PooledTile {
  int64_t pixels, vectors;
} PooledTile;

/* The tile whose accumulators fit in the registers, with the fewest loads for each product. */
static PooledTile choose_tile(int64_t width, int64_t blocks, int64_t window,
                              const BpMachine *machine) {
  PooledTile best = {1, 1};
  double least = 1e30;
  for (int64_t vectors = 1; vectors <= MOST_VECTORS && vectors <= blocks; vectors++) {
    int64_t most = (vectors == 1 ? machine->registers * 2 / 3 : machine->registers) - vectors - 1;
    for (int64_t pixels = 1; pixels * window * vectors <= most && pixels <= width; pixels++) {
      double waste = (double)(bp__divide_up(width, pixels) * pixels) / (double)width;
      double loads = 1 / (double)vectors + 1 / (double)(pixels * window);
      if (blocks % vectors != 0 || waste * (1 + loads) >= least)
        continue;
      least = waste * (1 + loads);
      best = (PooledTile){pixels, vectors};
    }
  }
  return best;
}

/* ---- Stages ------------------------------------------------------------------------------ */

/* Makes the loops of the storing stage; *rows is set to the loop over rows, *tiles to the loop over
 * tiles. */
static int schedule_output(BpTeStage *stage, PooledTile tile, bool is_parallel, BpTeAxis **rows,
                           BpTeAxis **tiles) {
  int32_t x = stage->ndim - 2, y = x - 1, blocks = y - 1;
  BpTeAxis **axes = stage->axes, *channel = axes[x + 1], *block, *vector, *pixel;
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0;
  if (bp_te_split(stage, axes[blocks], tile.vectors, BP_TE_TAIL_GUARD, &block, &vector) != 0 ||
      bp_te_split(stage, axes[x], tile.pixels, BP_TE_TAIL_OVERLAP, tiles, &pixel) != 0)
    return -1;
  for (int32_t i = 0; i < blocks; i++)
    order[count++] = axes[i];
  order[count++] = block;
  order[count++] = *rows = axes[y];
  BpTeAxis *inner[] = {*tiles, vector, pixel, channel};
  memcpy(order + count, inner, sizeof inner);
  if (bp_te_reorder(stage, order, count + 4) != 0 || bp_te_unroll(stage, vector) != 0 ||
      bp_te_unroll(stage, pixel) != 0 || bp_te_vectorize(stage, channel) != 0)
    return -1;
  for (int32_t i = count - 2; i >= 0; i--)
    if (bp_te_fuse(stage, order[i], *rows, rows) != 0)
      return -1;
  return is_parallel ? bp_te_parallel(stage, *rows) : 0;
}

/* Places the accumulators in the loop `tiles` of the output: the reduction, unrolled or as loops,
 * and inside it the tile with its vectors innermost. */
static int schedule_accumulators(const BpStageInfo *info, BpTeStage *stage, BpTeStage *output,
                                 BpTeAxis *tiles, bool is_written_out) {
  int32_t ndim = stage->ndim, blocks = ndim - 4;
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0;
  if (bp__split_reduction(info, stage, order, &count) != 0)
    return -1;
  for (int32_t i = 0; i < count && is_written_out; i++)
    if (bp_te_unroll(stage, order[i]) != 0)
      return -1;
  for (int32_t i = 0; i < ndim - 1; i++)
    if (i != blocks)
      order[count++] = stage->axes[i];
  order[count++] = stage->axes[blocks];
  order[count++] = stage->axes[ndim - 1];
  if (bp_te_reorder(stage, order, count) != 0 ||
      bp_te_vectorize(stage, stage->axes[ndim - 1]) != 0 ||
      bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) != 0)
    return -1;
  for (int32_t i = 0; i < ndim - 1; i++)
    if (bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  return bp_te_compute_at(stage, output, tiles);
}

/* Computes the padded input row by row if that is cheap. */
static int place_padded(const BpStageInfo *work, BpTeStage *output, BpTeAxis *rows,
                        const BpMachine *machine) {
  /* A kernel has no workspace, so a padded input is a kernel of its own. */
  for (int32_t i = 0; i < work->num_accesses && !machine->has_kernels; i++) {
    const BpStageInfo *info = bp__info_own_input(work, &work->accesses[i]);
    if (!info || !bp__info_input_is_cheap(work, info))
      continue;
    if (bp_te_set_scope(info->stage, BP_IR_SCOPE_GLOBAL) != 0 ||
        bp_te_compute_at(info->stage, output, rows) != 0 ||
        bp__schedule_run(info->stage, info->stage->axes[info->ndim - 1],
                         bp__machine_for(machine, info).lanes, 1) != 0)
      return -1;
  }
  return 0;
}

int bp__schedule_pooled(const BpStageInfo *work, const BpStageInfo *pool, const BpStageInfo *output,
                        const int64_t *scale, const BpMachine *machine) {
  int64_t window = 1;
  BpTeAxis *rows, *tiles;
  for (int32_t i = 0; i < pool->ndim; i++)
    window *= scale[i];
  PooledTile tile =
      choose_tile(pool->extent[pool->ndim - 2], pool->extent[pool->ndim - 4], window, machine);
  double products = bp__info_size(work, 0, work->num_roots);
  bool is_parallel = bp__cores_for(machine, products, BP__PARALLEL_PRODUCTS) > 1;
  BpTeStage *stage = output->stage;
  BpTeTensor *pooled = pool->stage->tensor;
  if (pool == output && !(pooled = bp_te_cache_write(stage->te, pooled, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (schedule_output(stage, tile, is_parallel, &rows, &tiles) != 0 ||
      schedule_accumulators(pool, pooled->stage, stage, tiles, true) != 0 ||
      schedule_accumulators(work, work->stage, stage, tiles, false) != 0)
    return -1;
  return place_padded(work, stage, rows, machine);
}
