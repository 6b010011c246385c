/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules windows over each channel separately (depthwise convolution and pooling), with a vector
 * of channels as the innermost axis: a few neighbouring pixels of a row are in registers, and the
 * taps are unrolled. Rows are computed in blocks, so that the padded copy of a block's input is
 * still in the cache. */

#include "compiler/schedules/parts.h"

/* The maximum number of unrolled taps, and the maximum for all pixels of a tile together. */
#define MAX_TAPS     49
#define MAX_PRODUCTS 280
/* The number of pixels of a tile: enough to hide the latency of a sum, and no more than registers
 * hold. */
#define LEAST_PIXELS 6
#define MOST_PIXELS  14

bool bp__info_is_window(const BpStageInfo *info, const BpMachine *machine) {
  int32_t vector = info->ndim - 1;
  int64_t lanes = bp__machine_for(machine, info).lanes;
  double taps = bp__info_size(info, info->ndim, info->num_roots);
  if (info->ndim < 3 || lanes == 1 || taps < 2 || taps > MAX_TAPS || info->extent[vector] > lanes ||
      info->extent[vector] * 4 < lanes)
    return false;
  for (int32_t i = 0; i < info->num_accesses; i++)
    if (!info->accesses[i].is_linear[vector] || info->accesses[i].stride[vector] != 1)
      return false;
  return info->num_accesses > 0;
}

/* Chooses the number of pixels of a tile that repeats the fewest pixels; the largest of equally
 * good numbers. */
static int64_t choose_pixels(int64_t width, double taps) {
  int64_t most = (int64_t)(MAX_PRODUCTS / taps), best = 1;
  most = most > MOST_PIXELS ? MOST_PIXELS : most < LEAST_PIXELS ? LEAST_PIXELS : most;
  if (width <= most)
    return width;
  for (int64_t size = LEAST_PIXELS; size <= most; size++)
    if (best == 1 || bp__divide_up(width, size) * size <= bp__divide_up(width, best) * best)
      best = size;
  return best;
}

/* The window's padded input, or NULL. */
static const BpStageInfo *find_padded(const BpStageInfo *work) {
  for (int32_t i = 0; i < work->num_accesses; i++) {
    const BpStageInfo *info = bp__info_own_input(work, &work->accesses[i]);
    if (info && info->ndim == work->ndim)
      return info;
  }
  return NULL;
}

/* The number of rows of a block, whose input takes a part of the second-level cache; each core gets
 * several blocks. */
static int64_t choose_rows(const BpStageInfo *work, const BpStageInfo *padded, int32_t rows,
                           const BpMachine *machine, int64_t cores) {
  double planes = bp__info_size(work, 0, rows);
  double plane_bytes =
      bp__info_size(padded, rows, padded->ndim) * (double)padded->stage->tensor->dtype.bits / 8;
  int64_t extent = work->extent[rows],
          blocks = bp__divide_up((int64_t)plane_bytes, machine->l2 / 8);
  while (cores > 1 && planes * (double)blocks < 4.0 * (double)cores && extent >= 8 * (blocks + 1))
    blocks++;
  return bp__divide_up(extent, blocks > extent ? extent : blocks < 1 ? 1 : blocks);
}

/* Makes the loops of the storing stage: blocks of rows, rows, tiles of a row. */
static int schedule_output(const BpStageInfo *work, BpTeStage *stage, int64_t rows, int64_t pixels,
                           bool is_parallel, BpTeAxis **blocks, BpTeAxis **tiles) {
  int32_t x = work->ndim - 2, y = x - 1;
  BpTeAxis **axes = stage->axes, *row, *pixel, *vector = axes[x + 1];
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0;
  if (bp_te_split(stage, axes[y], rows, BP_TE_TAIL_GUARD, blocks, &row) != 0 ||
      bp_te_split(stage, axes[x], pixels, BP_TE_TAIL_OVERLAP, tiles, &pixel) != 0)
    return -1;
  for (int32_t i = 0; i < y; i++)
    order[count++] = axes[i];
  order[count++] = *blocks;
  order[count++] = row;
  order[count++] = *tiles;
  order[count++] = pixel;
  order[count++] = vector;
  if (bp_te_reorder(stage, order, count) != 0 || bp_te_unroll(stage, pixel) != 0 ||
      bp_te_vectorize(stage, vector) != 0)
    return -1;
  for (int32_t i = y; i > 0; i--)
    if (bp_te_fuse(stage, order[i - 1], *blocks, blocks) != 0)
      return -1;
  return is_parallel ? bp_te_parallel(stage, *blocks) : 0;
}

/* Schedules all taps of a tile as straight-line code. */
static int schedule_sums(BpTeStage *stage, BpTeStage *output, BpTeAxis *tiles) {
  int32_t ndim = stage->ndim;
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < stage->num_reduce_axes; i++)
    order[count++] = stage->axes[ndim + i];
  for (int32_t i = 0; i < ndim; i++)
    order[count++] = stage->axes[i];
  if (bp_te_reorder(stage, order, count) != 0)
    return -1;
  for (int32_t i = 0; i < count - 1; i++)
    if (bp_te_unroll(stage, order[i]) != 0)
      return -1;
  if (bp_te_vectorize(stage, order[count - 1]) != 0 ||
      bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) != 0)
    return -1;
  return bp_te_compute_at(stage, output, tiles);
}

int bp__schedule_window(const BpStageInfo *work, const BpStageInfo *output,
                        const BpMachine *machine) {
  int32_t x = work->ndim - 2, y = x - 1;
  /* A kernel has no workspace, so a padded input is a kernel of its own. */
  const BpStageInfo *padded = machine->has_kernels ? NULL : find_padded(work);
  double taps = bp__info_size(work, work->ndim, work->num_roots);
  double products = bp__info_size(work, 0, work->num_roots);
  int64_t cores = bp__cores_for(machine, products, BP__PARALLEL_PRODUCTS);
  int64_t rows = padded ? choose_rows(work, padded, y, machine, cores) : 1;
  BpTeTensor *sums = work->stage->tensor;
  BpTeAxis *blocks, *tiles;
  if (products == 0)
    return 0;
  if (work == output && !(sums = bp_te_cache_write(work->stage->te, sums, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (schedule_output(work, output->stage, rows, choose_pixels(work->extent[x], taps), cores > 1,
                      &blocks, &tiles) != 0 ||
      schedule_sums(sums->stage, output->stage, tiles) != 0)
    return -1;
  if (!padded)
    return 0;
  BpTeStage *copy = padded->stage;
  if (bp_te_set_scope(copy, BP_IR_SCOPE_GLOBAL) != 0 ||
      bp_te_compute_at(copy, output->stage, blocks) != 0)
    return -1;
  return bp_te_vectorize(copy, copy->axes[padded->ndim - 1]);
}
