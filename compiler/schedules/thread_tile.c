/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules reductions with a tile of the result in each thread's registers. The threads of a block
 * are along the last axis of the result; a thread's tile extends along an axis that reuses its
 * loads, so that each load feeds several multiply-adds. */

#include <math.h>

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

#define TILE_THREADS 128 /* maximum number of threads of a block */
#define TILE_WARPS   4   /* maximum number of warps of a block */
/* The number of warps that a core should have before tiles grow. If no latency needs hiding, a few
 * warps suffice for the cores to end together. */
#define WARPS_PER_CORE        8
#define SERIAL_WARPS_PER_CORE 4
/* The maximum number of elements of a tile along the tiled axis, along the lanes, and in all. On a
 * core that runs one warp, only the multiply-adds that a load feeds hide the load's latency, so
 * tiles are larger. */
#define MOST_ROWS           8
#define MOST_COLUMNS        4
#define MOST_SERIAL_ROWS    16
#define MOST_SERIAL_COLUMNS 16
#define MOST_SUMS           128
/* The costs of a load, and of a step of the reduction, in multiply-adds. */
#define LOAD_COST 4
#define STEP_COST 8
/* The length up to which a reduction loop is unrolled, the number of unrolled steps of a longer
 * loop, and the maximum number of unrolled multiply-adds. */
#define SHORT_LOOP       8
#define UNROLLED         4
#define MOST_WRITTEN_OUT 512

typedef struct ThreadTile {
  int32_t first_lane; /* first of the axes that threads run along, fused to the last */
  int32_t axis;       /* tiled axis, or -1 */
  int64_t rows;       /* number of elements of the tile along the tiled axis */
  int64_t columns;    /* number of neighbours along the last axis for one thread */
  int64_t threads;
} ThreadTile;

/* Whether the same accesses depend on the axes a and b. */
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

/* Number of threads along the axes from `first` on if each thread computes `columns` columns. */
static double lanes_from(const BpStageInfo *info, int32_t first, int64_t columns) {
  int32_t last = last_long_axis(info);
  double lanes = (double)bp__divide_up(info->extent[last], columns);
  return lanes * bp__info_size(info, first, last);
}

/* The number of axes that fill at least eight ninths of a block. */
static int32_t first_lane_axis(const BpStageInfo *info, int64_t threads, int64_t columns) {
  int32_t last = last_long_axis(info), first = last;
  for (; first > 0; first--) {
    double lanes = lanes_from(info, first, columns);
    double blocks = ceil(lanes / (double)threads);
    bool is_full = 9 * lanes >= 8 * blocks * (double)threads;
    if (is_full || (info->extent[first - 1] > 1 && !are_alike(info, first - 1, last)))
      break;
  }
  return first;
}

/* Whether the elements that a thread loads along its lanes are used again along `axis`. */
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

/* Whether a thread may compute several neighbours along an axis: in every read the neighbours'
 * elements are contiguous or equal. Serial warps do not load jointly, so any linear read is
 * allowed. */
static bool runs_along(const BpStageInfo *info, int32_t axis, const BpMachine *machine) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    bool is_near = access->stride[axis] == 0 || access->stride[axis] == 1;
    if (!access->is_linear[axis] || (!is_near && !machine->has_serial_warps))
      return false;
  }
  return true;
}

static int64_t most_threads(const BpStageInfo *info, const BpMachine *machine) {
  int64_t threads = bp__block_threads(machine, bp__info_size(info, 0, info->ndim));
  int64_t most = machine->has_serial_warps ? machine->threads : TILE_WARPS * machine->threads;
  most = most < TILE_THREADS ? most : TILE_THREADS;
  return threads < most ? threads : most;
}

static ThreadTile make_tile(const BpStageInfo *info, int64_t threads, int64_t columns) {
  ThreadTile tile = {.rows = 1, .columns = columns, .threads = threads};
  tile.first_lane = first_lane_axis(info, threads, columns);
  tile.axis = tiled_axis(info, tile.first_lane);
  return tile;
}

/* The number of blocks that a tile makes. */
static double num_blocks(const BpStageInfo *info, const ThreadTile *tile) {
  double lanes = lanes_from(info, tile->first_lane, tile->columns);
  double blocks = ceil(lanes / (double)tile->threads);
  for (int32_t i = 0; i < tile->first_lane; i++)
    blocks *=
        (double)(i == tile->axis ? bp__divide_up(info->extent[i], tile->rows) : info->extent[i]);
  return blocks;
}

/* The cost of one step of the reduction in all blocks. */
static double tile_cost(const BpStageInfo *info, const ThreadTile *tile) {
  int32_t last = last_long_axis(info);
  int64_t loads = 0;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    bool has_rows = tile->axis >= 0 && bp__access_depends_on(access, tile->axis);
    loads +=
        (has_rows ? tile->rows : 1) * (bp__access_depends_on(access, last) ? tile->columns : 1);
  }
  return num_blocks(info, tile) * (double)tile->threads *
         (double)(tile->rows * tile->columns + LOAD_COST * loads + STEP_COST);
}

/* The cheapest tile that keeps every core busy. */
static ThreadTile choose_tile(const BpStageInfo *info, const BpMachine *machine) {
  bool is_serial = machine->has_serial_warps;
  int64_t most_rows = is_serial ? MOST_SERIAL_ROWS : MOST_ROWS;
  int64_t most_columns = is_serial ? MOST_SERIAL_COLUMNS : MOST_COLUMNS;
  int64_t threads = most_threads(info, machine), width = info->extent[last_long_axis(info)];
  double wanted = (double)((is_serial ? SERIAL_WARPS_PER_CORE : WARPS_PER_CORE) * machine->cores *
                           machine->threads);
  ThreadTile best = make_tile(info, threads, 1);
  double least = tile_cost(info, &best);
  if (!runs_along(info, last_long_axis(info), machine))
    most_columns = 1;
  for (int64_t columns = 1; columns <= most_columns && columns <= width;
       columns += columns < 4 ? columns : 4) {
    ThreadTile tile = make_tile(info, threads, columns);
    int64_t rows = tile.axis >= 0 ? info->extent[tile.axis] : 1;
    for (; tile.rows <= most_rows && tile.rows <= rows; tile.rows++) {
      double cost = tile_cost(info, &tile);
      if (cost >= least || tile.rows * columns > MOST_SUMS ||
          num_blocks(info, &tile) * (double)threads < wanted)
        continue;
      best = tile;
      least = cost;
    }
  }
  while (best.threads / 2 >= machine->threads &&
         lanes_from(info, best.first_lane, best.columns) <= (double)(best.threads / 2))
    best.threads /= 2;
  return best;
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

/* Splits an axis into tiles; if the number of tiles is unknown, the last tile skips the elements
 * beyond the end. */
static int split_tiles(BpTeStage *stage, BpTeAxis *axis, int64_t factor, BpTeAxis **outer,
                       BpTeAxis **inner) {
  int32_t tail = axis->open ? BP_TE_TAIL_GUARD : BP_TE_TAIL_OVERLAP;
  return bp_te_split(stage, axis, factor, tail, outer, inner);
}

/* Makes the axis of the threads: the rest of the last axis after each thread's columns, and the
 * axes before it. */
static int make_lanes(const BpStageInfo *work, BpTeStage *stage, const ThreadTile *tile,
                      BpTeAxis **lane, BpTeAxis **column) {
  int32_t last = last_long_axis(work);
  BpTeAxis *row = NULL, *run = stage->axes[last];
  if (tile->columns > 1 && split_tiles(stage, run, tile->columns, &run, column) != 0)
    return -1;
  for (int32_t i = last + 1; i < work->ndim; i++)
    if (!*column && bp_te_fuse(stage, run, stage->axes[i], &run) != 0)
      return -1;
  if (tile->first_lane < last && (bp__fuse_axes(stage, tile->first_lane, last, &row) != 0 ||
                                  bp_te_fuse(stage, row, run, &run) != 0))
    return -1;
  *lane = run;
  return 0;
}

/* Makes the loops of the output: blocks for each tile, threads along the lanes; *inside is set to
 * the axis inside which a thread's tile is computed. A core that runs one warp runs blocks in
 * order: blocks that load the same data along the lanes follow one another, so that the core's
 * caches hold the data. */
static int tile_output(const BpStageInfo *work, BpTeStage *stage, const ThreadTile *tile,
                       const BpMachine *machine, BpTeAxis **inside) {
  BpTeAxis *order[BP__TE_MAX_AXES], *lane, *block, *thread, *column = NULL, *row = NULL;
  BpTeAxis *rows = NULL;
  int32_t count = 0;
  if (make_lanes(work, stage, tile, &lane, &column) != 0 ||
      bp_te_split(stage, lane, tile->threads, BP_TE_TAIL_GUARD, &block, &thread) != 0)
    return -1;
  for (int32_t i = 0; i < tile->first_lane; i++) {
    BpTeAxis *axis = stage->axes[i];
    if (i == tile->axis && tile->rows > 1 && split_tiles(stage, axis, tile->rows, &axis, &row) != 0)
      return -1;
    if (i == tile->axis && machine->has_serial_warps)
      rows = axis;
    else
      order[count++] = axis;
  }
  if (rows)
    order[count++] = block;
  int32_t outer = count;
  BpTeAxis *next = order[count++] = rows ? rows : block;
  order[count++] = thread;
  bool is_column_first = column && stage->axes[last_long_axis(work)]->open;
  if (is_column_first)
    order[count++] = column;
  if (row)
    order[count++] = row;
  if (column && !is_column_first)
    order[count++] = column;
  if (bp_te_reorder(stage, order, count) != 0)
    return -1;
  if ((outer > 0 && bp__bind_outer(stage, order, outer) != 0) ||
      bp_te_bind(stage, next, "blockIdx.x") != 0 || bp_te_bind(stage, thread, "threadIdx.x") != 0 ||
      (row && bp_te_unroll(stage, row) != 0) || (column && bp_te_unroll(stage, column) != 0))
    return -1;
  *inside = thread;
  return 0;
}

/* Unrolls short reduction loops from the innermost on, and a few steps of the next loop; returns
 * the axes that must be inside all other axes. */
static int write_out(BpTeStage *stage, int64_t sums, BpTeAxis **inside, int32_t *count) {
  int32_t ndim = stage->ndim;
  int64_t extent = 1;
  *count = 0;
  for (int32_t i = stage->num_reduce_axes - 1; i >= 0 && extent <= SHORT_LOOP; i--) {
    BpTeAxis *axis = stage->axes[ndim + i], *outer;
    extent = bp_te_axis_extent(axis);
    if (axis->open)
      break;
    int64_t steps = extent <= SHORT_LOOP ? extent : extent % UNROLLED == 0 ? UNROLLED : 1;
    if (extent == 1)
      continue;
    if (steps == 1 || sums * steps > MOST_WRITTEN_OUT)
      break;
    if (steps < extent && bp_te_split(stage, axis, steps, BP_TE_TAIL_PEEL, &outer, &axis) != 0)
      return -1;
    sums *= steps;
    inside[(*count)++] = axis;
    if (bp_te_unroll(stage, axis) != 0)
      return -1;
  }
  return 0;
}

/* Appends the unrolled loops of the tile along open axes, or along the others. */
static int add_tile(BpTeStage *stage, bool are_open, BpTeAxis **order, int32_t *count) {
  for (int32_t i = 0; i < stage->ndim; i++) {
    if ((stage->axes[i]->open != NULL) != are_open)
      continue;
    order[(*count)++] = stage->axes[i];
    if (bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  }
  return 0;
}

/* Makes the loops of the work: the reduction outside, with a few of its steps unrolled, and the
 * tile inside. The tile's loops along open axes are outside of the unrolled steps: the condition
 * that ends the last tile then stands once before all steps, not before each. */
static int tile_work(BpTeStage *stage, const ThreadTile *tile) {
  BpTeAxis *order[BP__TE_MAX_AXES], *steps[BP__TE_MAX_AXES];
  int32_t count = 0, num_steps = 0, ndim = stage->ndim;
  if (write_out(stage, tile->rows * tile->columns, steps, &num_steps) != 0)
    return -1;
  for (int32_t i = ndim; i < stage->num_axes; i++) {
    bool is_step = false;
    for (int32_t k = 0; k < num_steps; k++)
      is_step |= stage->axes[i] == steps[k];
    if (!stage->axes[i]->used_by && !is_step)
      order[count++] = stage->axes[i];
  }
  if (add_tile(stage, true, order, &count) != 0)
    return -1;
  while (num_steps > 0)
    order[count++] = steps[--num_steps];
  return add_tile(stage, false, order, &count) != 0 ? -1 : bp_te_reorder(stage, order, count);
}

int bp__schedule_thread_tile(const BpStageInfo *work, const BpStageInfo *output,
                             const BpMachine *machine) {
  BpTeTensor *sums = work->stage->tensor;
  BpTeAxis *inside;
  if (work->ndim == 0)
    return 0;
  bool fits = false;
  int rc = bp__schedule_block_tile(work, output, machine, &fits);
  if (rc != 0 || fits)
    return rc;
  ThreadTile tile = choose_tile(work, machine);
  if (work == output && !(sums = bp_te_cache_write(work->stage->te, sums, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (tile_output(work, output->stage, &tile, machine, &inside) != 0 ||
      bp_te_set_scope(sums->stage, BP_IR_SCOPE_LOCAL) != 0 ||
      bp_te_compute_at(sums->stage, output->stage, inside) != 0)
    return -1;
  return tile_work(sums->stage, &tile);
}
