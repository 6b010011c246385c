/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules matrix products with a tile of the result in each block of threads: the block loads the
 * parts of both operands for a few steps of the reduction into shared memory, and each thread
 * accumulates a square of the tile in registers. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

#define SIDE  16 /* threads along each side of a block */
#define STEPS 16 /* reduction steps in shared memory at once */
#define WIDE  4  /* unrolled steps, loaded together */

typedef struct BlockTile {
  int32_t rows, columns; /* data axes; the first operand depends on rows, the second on columns */
  BpTeTensor *operands[2];
  int64_t each; /* number of rows, and of columns, of one thread */
} BlockTile;

/* The tensor that an access reads, if it is in memory: an input or a kernel's result. */
static BpTeTensor *operand_of(const BpStageInfo *work, const BpAccess *access) {
  const BpLowering *lowering = &work->analysis->lowering;
  for (BpTeTensor *tensor = work->stage->te->tensors; tensor; tensor = tensor->next)
    if (bp__ir_map_get(&lowering->copied, tensor->buffer) == access->read->operands[0])
      return tensor->stage && tensor->stage->attach_stage ? NULL : tensor;
  return NULL;
}

static bool is_linear(const BpStageInfo *work, const BpAccess *access) {
  for (int32_t i = 0; i < work->num_roots; i++)
    if (!access->is_linear[i])
      return false;
  return true;
}

/* Whether the stage has exactly one long reduction axis, along which both operands move. */
static bool reduces_along_one(const BpStageInfo *work) {
  int32_t axes = 0;
  for (int32_t i = work->ndim; i < work->num_roots; i++) {
    axes += work->extent[i] > 1;
    if (work->extent[i] > 1 && (!bp__access_depends_on(&work->accesses[0], i) ||
                                !bp__access_depends_on(&work->accesses[1], i)))
      return false;
  }
  return axes == 1;
}

/* Finds the axes of rows and columns: *b depends only on the last long axis, *a only on another
 * axis. */
static bool find_sides(const BpStageInfo *work, BlockTile *tile, const BpAccess **a,
                       const BpAccess **b) {
  tile->columns = work->ndim - 1;
  while (tile->columns > 0 && work->extent[tile->columns] == 1)
    tile->columns--;
  *a = &work->accesses[bp__access_depends_on(&work->accesses[0], tile->columns)];
  *b = &work->accesses[!bp__access_depends_on(&work->accesses[0], tile->columns)];
  tile->rows = -1;
  for (int32_t i = 0; i < tile->columns; i++)
    if (bp__access_depends_on(*a, i) && !bp__access_depends_on(*b, i) &&
        (tile->rows < 0 || work->extent[i] > work->extent[tile->rows]))
      tile->rows = i;
  return tile->rows >= 0 && bp__access_depends_on(*b, tile->columns) &&
         !bp__access_depends_on(*a, tile->columns);
}

/* The side of the largest square for a thread that keeps every core busy; 0 if none does. */
static int64_t choose_each(const BpStageInfo *work, const BlockTile *tile,
                           const BpMachine *machine) {
  double sums = bp__info_size(work, 0, work->ndim);
  int64_t bytes = work->stage->tensor->dtype.bits / 8;
  for (int64_t each = 8; each >= 4; each /= 2) {
    int64_t side = SIDE * each;
    if (work->extent[tile->rows] >= side && work->extent[tile->columns] >= side &&
        !work->stage->axes[tile->rows]->open && !work->stage->axes[tile->columns]->open &&
        2 * side * STEPS * bytes <= machine->shared &&
        (each == 4 || sums / (double)(side * side) >= (double)machine->cores))
      return each;
  }
  return 0;
}

static bool choose_tile(const BpStageInfo *work, const BpMachine *machine, BlockTile *tile) {
  const BpAccess *a, *b;
  if (machine->has_serial_warps || machine->most_threads < SIDE * SIDE || work->num_accesses != 2 ||
      work->ndim < 2 || !is_linear(work, &work->accesses[0]) ||
      !is_linear(work, &work->accesses[1]) || !reduces_along_one(work) ||
      !find_sides(work, tile, &a, &b))
    return false;
  tile->operands[0] = operand_of(work, a);
  tile->operands[1] = operand_of(work, b);
  tile->each = choose_each(work, tile, machine);
  return tile->each > 0 && tile->operands[0] && tile->operands[1] &&
         tile->operands[0] != tile->operands[1];
}

/* ---- Applying it ------------------------------------------------------------------------- */

/* Splits an axis into blocks, the threads of a block, and the elements of one thread. */
static int split_side(BpTeStage *stage, BpTeAxis *axis, int64_t each, BpTeAxis *parts[3]) {
  BpTeAxis *inside;
  return bp_te_split(stage, axis, SIDE * each, BP_TE_TAIL_OVERLAP, &parts[0], &inside) != 0 ||
                 bp_te_split(stage, inside, each, BP_TE_TAIL_GUARD, &parts[1], &parts[2]) != 0
             ? -1
             : 0;
}

/* Makes the loops of the output; *inside is set to the axis inside which a thread's square is
 * computed. */
static int tile_output(const BpStageInfo *work, BpTeStage *stage, const BlockTile *tile,
                       BpTeAxis **inside) {
  BpTeAxis *order[BP__TE_MAX_AXES], *rows[3], *columns[3];
  int32_t count = 0;
  if (split_side(stage, stage->axes[tile->rows], tile->each, rows) != 0 ||
      split_side(stage, stage->axes[tile->columns], tile->each, columns) != 0)
    return -1;
  for (int32_t i = 0; i < work->ndim; i++)
    if (i != tile->rows && i != tile->columns)
      order[count++] = stage->axes[i];
  order[count++] = rows[0];
  int32_t outer = count;
  for (int i = 0; i < 3; i++) {
    order[count++] = i == 0 ? columns[0] : rows[i];
    if (i > 0)
      order[count++] = columns[i];
  }
  if (bp_te_reorder(stage, order, count) != 0 || bp__bind_outer(stage, order, outer) != 0 ||
      bp_te_bind(stage, columns[0], "blockIdx.x") != 0 ||
      bp_te_bind(stage, rows[1], "threadIdx.y") != 0 ||
      bp_te_bind(stage, columns[1], "threadIdx.x") != 0 || bp_te_unroll(stage, rows[2]) != 0 ||
      bp_te_unroll(stage, columns[2]) != 0)
    return -1;
  *inside = columns[1];
  return 0;
}

/* Makes the loops of the sums: the steps of the reduction, in groups that are in shared memory
 * together, and the square inside them. */
static int tile_sums(const BpStageInfo *work, BpTeStage *stage, BpTeAxis **steps) {
  BpTeAxis *order[BP__TE_MAX_AXES], *inner, *wide;
  int32_t count = 0, ndim = stage->ndim, reduced = ndim, axes = stage->num_reduce_axes;
  while (work->extent[work->ndim + reduced - ndim] == 1)
    reduced++;
  if (bp_te_split(stage, stage->axes[reduced], STEPS, BP_TE_TAIL_GUARD, steps, &inner) != 0 ||
      bp_te_split(stage, inner, WIDE, BP_TE_TAIL_GUARD, &inner, &wide) != 0 ||
      bp_te_unroll(stage, wide) != 0)
    return -1;
  order[count++] = *steps;
  for (int32_t i = ndim; i < ndim + axes; i++)
    order[count++] = i == reduced ? inner : stage->axes[i];
  order[count++] = wide;
  for (int32_t i = 0; i < ndim; i++) {
    order[count++] = stage->axes[i];
    if (bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  }
  return bp_te_reorder(stage, order, count);
}

/* Makes all threads of the block load an operand's part together; neighbouring threads load
 * neighbouring elements. */
static int fetch_operand(BpTeTensor *operand, BpTeTensor *sums, BpTeAxis *steps) {
  BpTeTensor *copy = bp_te_cache_read(sums->te, operand, BP_IR_SCOPE_SHARED, &sums, 1);
  BpTeAxis *run, *serial, *threads, *rows, *columns;
  if (!copy || bp__fuse_axes(copy->stage, 0, copy->ndim, &run) != 0 ||
      bp_te_split(copy->stage, run, SIDE * SIDE, BP_TE_TAIL_GUARD, &serial, &threads) != 0 ||
      bp_te_split(copy->stage, threads, SIDE, BP_TE_TAIL_GUARD, &rows, &columns) != 0 ||
      bp_te_bind(copy->stage, rows, "threadIdx.y") != 0 ||
      bp_te_bind(copy->stage, columns, "threadIdx.x") != 0)
    return -1;
  return bp_te_compute_at(copy->stage, sums->stage, steps);
}

int bp__schedule_block_tile(const BpStageInfo *work, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits) {
  BpTeTensor *sums = work->stage->tensor;
  BpTeAxis *inside, *steps;
  BlockTile tile;
  *fits = choose_tile(work, machine, &tile);
  if (!*fits)
    return 0;
  if (work == output && !(sums = bp_te_cache_write(work->stage->te, sums, BP_IR_SCOPE_LOCAL)))
    return -1;
  if (tile_output(work, output->stage, &tile, &inside) != 0 ||
      bp_te_set_scope(sums->stage, BP_IR_SCOPE_LOCAL) != 0 ||
      bp_te_compute_at(sums->stage, output->stage, inside) != 0 ||
      tile_sums(work, sums->stage, &steps) != 0)
    return -1;
  for (int i = 0; i < 2; i++)
    if (fetch_operand(tile.operands[i], sums, steps) != 0)
      return -1;
  return 0;
}
