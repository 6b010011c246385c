/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and windows in the blocked layout NCHWc: the innermost axis is a vector of channels.
 *
 * The convolution keeps a register tile of `tile` pixels in a row by `blocks` vectors of output
 * channels: one load of `blocks` weight vectors serves `tile` pixels, and one broadcast pixel
 * serves `blocks` vectors. Twelve accumulators or more hide the latency of a fused multiply-add;
 * tile x blocks + blocks + 1 is bounded by the registers that the target has. */
#include <backplane/compiler/schedules.h>

#include <backplane/error.h>

#define WANTED_ACCUMULATORS 12
/* Below this many multiply-adds waking a second thread costs more than it saves. */
#define PARALLEL_WORK 200000
/* A window's taps are unrolled up to this many. */
#define MAX_TAPS 32

/* Data axes of the blocked layout. */
enum { AXIS_N, AXIS_BLOCK, AXIS_Y, AXIS_X, AXIS_CHANNEL, NUM_DATA_AXES };

static int64_t extent(BpTeTensor *tensor, int32_t axis) {
  return bp_te_tensor_shape(tensor)[axis];
}

static int check_layout(BpTeTensor *tensor) {
  if (bp_te_tensor_ndim(tensor) == NUM_DATA_AXES)
    return 0;
  return bp_error_raise(
      BP_ERROR_VALUE,
      "a blocked schedule is for [n, block, y, x, channel], and the tensor has %d "
      "dimensions",
      bp_te_tensor_ndim(tensor));
}

/* ---- Choosing the tile ----------------------------------------------------------------------- */

typedef struct Tile {
  int64_t pixels; /* of one row */
  int64_t blocks; /* vectors of channels */
} Tile;

/* How many elements are computed for one that is wanted, when tiles of `factor` cover `extent`. */
static double waste(int64_t whole, int64_t factor) {
  return (double)((whole + factor - 1) / factor * factor) / (double)whole;
}

/* The cost of a tile per useful multiply-add: repeated work at the edge, loads beside arithmetic
 * (one broadcast and one vector load feed pixels x blocks), and latency that too few accumulators
 * leave in sight. */
static double tile_cost(int64_t width, int64_t channels, Tile tile) {
  double accumulators = (double)(tile.pixels * tile.blocks);
  double loads = 1.0 / (double)tile.pixels + 1.0 / (double)tile.blocks;
  double latency =
      accumulators < WANTED_ACCUMULATORS ? (double)WANTED_ACCUMULATORS / accumulators : 1.0;
  return waste(width, tile.pixels) * waste(channels, tile.blocks) * latency * (1.0 + 0.1 * loads);
}

static Tile choose_tile(int64_t width, int64_t channels, int64_t registers) {
  Tile best = {1, 1};
  double best_cost = 1e30;
  for (int64_t blocks = 1; blocks <= 8 && blocks <= channels; blocks++)
    for (int64_t pixels = 1; pixels <= width; pixels++) {
      Tile tile = {pixels, blocks};
      if (pixels * blocks + blocks + 1 > registers)
        break;
      double cost = tile_cost(width, channels, tile);
      if (cost < best_cost) {
        best_cost = cost;
        best = tile;
      }
    }
  return best;
}

/* ---- Pieces shared by both ------------------------------------------------------------------- */

/* Runs `axis` on all threads if the whole stage is worth waking them. */
static int maybe_parallel(BpTeStage *stage, BpTeAxis *axis, double work, const BpTarget *target) {
  if (work < PARALLEL_WORK || bp_target_get_int(target, BP_TARGET_NUM_CORES, 2) < 2)
    return 0;
  return bp_te_parallel(stage, axis);
}

static double num_elements(BpTeTensor *tensor) {
  double count = 1;
  for (int32_t i = 0; i < bp_te_tensor_ndim(tensor); i++)
    count *= (double)extent(tensor, i);
  return count;
}

/* The reduction axes of a stage, and how many terms they sum. */
static double reduction_size(BpTeStage *stage) {
  double size = 1;
  for (int32_t i = 0; i < bp_te_stage_num_reduce_axes(stage); i++)
    size *= (double)bp_te_axis_extent(bp_te_stage_reduce_axis(stage, i));
  return size;
}

/* A padded copy is made where `axis` of the output runs, in workspace, its rows vectorised. */
static int place_padding(BpTe *te, BpTeTensor *padded, BpTeStage *output, BpTeAxis *axis) {
  BpTeStage *stage = bp_te_stage(te, padded);
  if (bp_te_compute_at(stage, output, axis) < 0 || bp_te_set_scope(stage, BP_IR_SCOPE_GLOBAL) < 0)
    return -1;
  if (bp_te_tensor_ndim(padded) != NUM_DATA_AXES)
    return 0;
  return bp_te_vectorize(stage, bp_te_stage_axis(stage, AXIS_CHANNEL));
}

/* Reduction axes outermost, then the data axes, the channel vectorised and the others unrolled: the
 * tile of accumulators lives in registers. */
static int make_accumulators(BpTeStage *stage, int unroll_reduction) {
  BpTeAxis *order[NUM_DATA_AXES + 8];
  int32_t count = 0, num_reduce = bp_te_stage_num_reduce_axes(stage);
  if (bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) < 0)
    return -1;
  for (int32_t i = 0; i < num_reduce && i < 8; i++)
    order[count++] = bp_te_stage_reduce_axis(stage, i);
  for (int32_t i = 0; i < NUM_DATA_AXES; i++)
    order[count++] = bp_te_stage_axis(stage, i);
  if (bp_te_reorder(stage, order, count) < 0 ||
      bp_te_vectorize(stage, bp_te_stage_axis(stage, AXIS_CHANNEL)) < 0)
    return -1;
  for (int32_t i = 0; i < AXIS_CHANNEL; i++)
    if (bp_te_unroll(stage, bp_te_stage_axis(stage, i)) < 0)
      return -1;
  for (int32_t i = 0; unroll_reduction && i < num_reduce; i++)
    if (bp_te_unroll(stage, bp_te_stage_reduce_axis(stage, i)) < 0)
      return -1;
  return 0;
}

/* When the output is the reduction itself, accumulates in a copy in registers. */
static BpTeTensor *accumulators_of(BpTe *te, const BpFusedStages *stages) {
  if (stages->work != stages->output)
    return stages->work;
  return bp_te_cache_write(te, stages->output, BP_IR_SCOPE_LOCAL);
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* Loops of the output: [n, blocks, y] fused and parallel, tiles of x, then the tile itself. */
static int tile_output(BpTeStage *stage, Tile tile, double work, const BpTarget *target,
                       BpTeAxis **fused, BpTeAxis **tiles) {
  BpTeAxis *outer, *inner, *pixel;
  BpTeAxis *n = bp_te_stage_axis(stage, AXIS_N), *y = bp_te_stage_axis(stage, AXIS_Y);
  BpTeAxis *channel = bp_te_stage_axis(stage, AXIS_CHANNEL);
  if (bp_te_split(stage, bp_te_stage_axis(stage, AXIS_BLOCK), tile.blocks, BP_TE_TAIL_OVERLAP,
                  &outer, &inner) < 0 ||
      bp_te_split(stage, bp_te_stage_axis(stage, AXIS_X), tile.pixels, BP_TE_TAIL_OVERLAP, tiles,
                  &pixel) < 0)
    return -1;
  BpTeAxis *order[] = {n, outer, y, *tiles, inner, pixel, channel};
  if (bp_te_reorder(stage, order, 7) < 0 || bp_te_fuse(stage, n, outer, fused) < 0 ||
      bp_te_fuse(stage, *fused, y, fused) < 0)
    return -1;
  if (bp_te_unroll(stage, inner) < 0 || bp_te_unroll(stage, pixel) < 0 ||
      bp_te_vectorize(stage, channel) < 0)
    return -1;
  return maybe_parallel(stage, *fused, work, target);
}

int bp_schedule_conv2d(BpTe *te, const BpTarget *target, const BpFusedStages *stages) {
  if (check_layout(stages->output) < 0)
    return -1;
  Tile tile = choose_tile(extent(stages->output, AXIS_X), extent(stages->output, AXIS_BLOCK),
                          bp_target_get_int(target, BP_TARGET_VECTOR_REGISTERS, 16));
  BpTeTensor *work = accumulators_of(te, stages);
  BpTeStage *output = bp_te_stage(te, stages->output), *sum = bp_te_stage(te, work);
  BpTeAxis *fused, *tiles;
  if (!work || !sum)
    return -1;
  double amount = num_elements(work) * reduction_size(sum);
  if (tile_output(output, tile, amount, target, &fused, &tiles) < 0 ||
      bp_te_compute_at(sum, output, tiles) < 0 || make_accumulators(sum, 0) < 0)
    return -1;
  return stages->padded ? place_padding(te, stages->padded, output, fused) : 0;
}

/* ---- Windows --------------------------------------------------------------------------------- */

int bp_schedule_window(BpTe *te, const BpTarget *target, const BpFusedStages *stages) {
  if (check_layout(stages->output) < 0)
    return -1;
  BpTeTensor *work = accumulators_of(te, stages);
  BpTeStage *output = bp_te_stage(te, stages->output), *sum = bp_te_stage(te, work);
  BpTeAxis *planes, *tiles, *pixel;
  if (!work || !sum)
    return -1;
  int64_t registers = bp_target_get_int(target, BP_TARGET_VECTOR_REGISTERS, 16);
  Tile tile = choose_tile(extent(stages->output, AXIS_X), 1, registers / 2);
  double taps = reduction_size(sum);
  if (bp_te_split(output, bp_te_stage_axis(output, AXIS_X), tile.pixels, BP_TE_TAIL_OVERLAP, &tiles,
                  &pixel) < 0 ||
      bp_te_fuse(output, bp_te_stage_axis(output, AXIS_N), bp_te_stage_axis(output, AXIS_BLOCK),
                 &planes) < 0 ||
      bp_te_unroll(output, pixel) < 0 ||
      bp_te_vectorize(output, bp_te_stage_axis(output, AXIS_CHANNEL)) < 0)
    return -1;
  if (maybe_parallel(output, planes, num_elements(work) * taps, target) < 0 ||
      bp_te_compute_at(sum, output, tiles) < 0 || make_accumulators(sum, taps <= MAX_TAPS) < 0)
    return -1;
  return stages->padded ? place_padding(te, stages->padded, output, planes) : 0;
}
