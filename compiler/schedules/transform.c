/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules convolutions by Winograd's algorithm: one block of tiles at a time is padded,
 * transformed, multiplied and transformed back, so that intermediate values stay in the
 * second-level cache. The transforms of a tile are straight-line code over vectors of channels. */

#include "compiler/ir/argument.h"
#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* The dimensions of the output, and of the transformed input and the product. */
enum { OUT_N, OUT_BLOCK, OUT_Y, OUT_X, OUT_CHANNEL, OUT_NDIM };
enum { AT_N, AT_POINT_Y, AT_POINT_X, AT_BLOCK, AT_TILE_Y, AT_TILE_X, AT_CHANNEL, AT_NDIM };

/* The minimum number of tiles of a block that justifies reading the weights: the tiles make a
 * register tile of the product, or three if the weights do not come from the second-level cache. */
#define WANTED_TILES     12
#define WANTED_TILES_FAR 36
/* The number of blocks for each core, so that all cores end at about the same time. */
#define BLOCKS_PER_CORE 4

/* The maximum number of rows and columns of a block if height or width are open: all tiles of a
 * block are computed, and an image that is smaller than was likely has few tiles. */
#define OPEN_ROWS    2
#define OPEN_COLUMNS 10

/* The size of a block, in tiles. */
typedef struct Block {
  int64_t rows, columns;
} Block;

/* The smallest size of equal parts that makes no more parts than `size` does. */
static int64_t even_part(int64_t whole, int64_t size) {
  return bp__divide_up(whole, bp__divide_up(whole, size < 1 ? 1 : size < whole ? size : whole));
}

static Block open_block(int64_t rows, int64_t columns, int64_t most) {
  columns = columns > OPEN_COLUMNS ? OPEN_COLUMNS : columns;
  rows = rows > OPEN_ROWS ? OPEN_ROWS : rows;
  if (rows * columns > most)
    rows = most > columns ? most / columns : 1;
  return (Block){rows, columns};
}

/* Chooses a block that takes half the second-level cache, of whole rows of tiles if they fit; a
 * smaller one if cores would wait for each other. */
static Block choose_block(const BpTransformStages *stages, const BpMachine *machine,
                          int64_t cores) {
  const int64_t *in = stages->input->shape, *out = stages->product->shape;
  int64_t channels = in[AT_BLOCK] * in[AT_CHANNEL] + out[AT_BLOCK] * out[AT_CHANNEL];
  int64_t bytes = 4 * in[AT_POINT_Y] * in[AT_POINT_X] * channels;
  int64_t most = machine->l2 / 2 / bytes, tiles = in[AT_N] * in[AT_TILE_Y] * in[AT_TILE_X];
  int64_t share = tiles / (cores * BLOCKS_PER_CORE);
  double weights = 4.0 * (double)(in[AT_POINT_Y] * in[AT_POINT_X]) *
                   (double)(in[AT_BLOCK] * in[AT_CHANNEL]) *
                   (double)(out[AT_BLOCK] * out[AT_CHANNEL]);
  int64_t least = weights * 2 > (double)machine->l2 ? WANTED_TILES_FAR : WANTED_TILES;
  if (share < least)
    share = least;
  if (cores > 1 && share < most)
    most = share;
  const BpTeStage *product = stages->product->stage;
  if (product->axes[AT_TILE_Y]->open || product->axes[AT_TILE_X]->open)
    return open_block(in[AT_TILE_Y], in[AT_TILE_X], most);
  Block block = {1, even_part(in[AT_TILE_X], most)};
  if (block.columns == in[AT_TILE_X])
    block.rows = even_part(in[AT_TILE_Y], most / block.columns);
  return block;
}

/* ---- Stages ------------------------------------------------------------------------------ */

/* Makes the loops of the output; *blocks is set to the loop over blocks of tiles, *tiles to the
 * innermost loop over tiles. */
static int schedule_output(BpTeStage *stage, const int64_t *tile, Block block, bool is_parallel,
                           BpTeAxis **blocks, BpTeAxis **tiles) {
  BpTeAxis **axes = stage->axes, *channel = axes[OUT_CHANNEL];
  BpTeAxis *ty, *y, *tx, *x, *block_y, *block_x;
  /* A version for the last rows would have the code of all stages. With guards the transform has
   * one version for all tiles (keep_tiles). */
  int32_t rows = axes[OUT_Y]->open ? BP_TE_TAIL_GUARD : BP_TE_TAIL_PEEL;
  int32_t columns = axes[OUT_X]->open ? BP_TE_TAIL_GUARD : BP_TE_TAIL_PEEL;
  if (bp_te_split(stage, axes[OUT_Y], tile[0], rows, &ty, &y) != 0 ||
      bp_te_split(stage, axes[OUT_X], tile[1], columns, &tx, &x) != 0 ||
      bp_te_split(stage, ty, block.rows, BP_TE_TAIL_GUARD, &block_y, &ty) != 0 ||
      bp_te_split(stage, tx, block.columns, BP_TE_TAIL_GUARD, &block_x, &tx) != 0)
    return -1;
  BpTeAxis *order[] = {axes[OUT_N], block_y, block_x, axes[OUT_BLOCK], ty, tx, y, x, channel};
  if (bp_te_reorder(stage, order, 9) != 0 || bp_te_unroll(stage, y) != 0 ||
      bp_te_unroll(stage, x) != 0 || bp_te_vectorize(stage, channel) != 0 ||
      bp_te_fuse(stage, axes[OUT_N], block_y, blocks) != 0 ||
      bp_te_fuse(stage, *blocks, block_x, blocks) != 0)
    return -1;
  *tiles = tx;
  return is_parallel ? bp_te_parallel(stage, *blocks) : 0;
}

/* Computes a stage as straight-line code in the loop `axis` of `reader`, with its values in
 * registers. */
static int compute_in_registers(BpTeStage *stage, BpTeStage *reader, BpTeAxis *axis) {
  int32_t ndim = stage->ndim;
  for (int32_t i = 0; i < ndim - 1; i++)
    if (stage->axes[i]->for_kind == BP_IR_FOR_SERIAL && bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  if (bp_te_vectorize(stage, stage->axes[ndim - 1]) != 0 ||
      bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) != 0)
    return -1;
  return bp_te_compute_at(stage, reader, axis);
}

/* Computes a stage for a block in workspace; a kernel has no workspace, so its block of threads
 * uses shared memory. */
static int compute_for_block(BpTeStage *stage, BpTeStage *output, BpTeAxis *blocks,
                             const BpMachine *machine) {
  if (bp_te_set_scope(stage, machine->has_kernels ? BP_IR_SCOPE_SHARED : BP_IR_SCOPE_GLOBAL) != 0)
    return -1;
  return bp_te_compute_at(stage, output, blocks);
}

/* Computes all points of a tile together, from the transformed rows of the tile. */
static int schedule_input(BpTeStage *stage, BpTeStage *rows) {
  BpTeAxis **axes = stage->axes;
  BpTeAxis *order[] = {axes[AT_N],       axes[AT_BLOCK],   axes[AT_TILE_Y], axes[AT_TILE_X],
                       axes[AT_POINT_Y], axes[AT_POINT_X], axes[AT_CHANNEL]};
  BpTeAxis *tiles = axes[AT_TILE_X];
  if (bp_te_reorder(stage, order, AT_NDIM) != 0 || bp_te_vectorize(stage, axes[AT_CHANNEL]) != 0)
    return -1;
  return compute_in_registers(rows, stage, tiles);
}

/* Schedules the product in register tiles, whose size follows from the block. */
static int schedule_product(const BpStageInfo *info, Block block, const BpMachine *machine) {
  BpStageInfo part = *info;
  part.extent[AT_N] = 1;
  part.extent[AT_TILE_Y] = block.rows;
  part.extent[AT_TILE_X] = block.columns;
  return bp__schedule_tile(&part, &part, machine);
}

static int schedule_stages(const BpAnalysis *analysis, const BpTransformStages *stages,
                           BpTeStage *kept, BpTeStage *output, const BpMachine *machine) {
  const BpStageInfo *product = bp__analysis_find(analysis, stages->product);
  const BpStageInfo *padding = bp__analysis_find(analysis, stages->padded);
  BpTeStage *padded = stages->padded->stage;
  double products = bp__info_size(product, 0, product->num_roots);
  int64_t cores = bp__cores_for(machine, products, BP__PARALLEL_PRODUCTS);
  Block block = choose_block(stages, machine, cores);
  BpTeAxis *blocks, *tiles;
  if (schedule_output(output, stages->tile, block, cores > 1, &blocks, &tiles) != 0 ||
      compute_for_block(padded, output, blocks, machine) != 0 ||
      bp__schedule_run(padded, padded->axes[OUT_CHANNEL], bp__machine_for(machine, padding).lanes,
                       1) != 0 ||
      schedule_input(stages->input->stage, stages->input_rows->stage) != 0 ||
      compute_for_block(stages->input->stage, output, blocks, machine) != 0 ||
      schedule_product(product, block, machine) != 0 ||
      compute_for_block(stages->product->stage, output, blocks, machine) != 0 ||
      compute_in_registers(stages->output_rows->stage, output, tiles) != 0 ||
      (kept && compute_in_registers(kept, output, tiles) != 0))
    return -1;
  /* The remaining stages are between the product and the output. */
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    BpTeStage *stage = analysis->stages[i].stage;
    if (stage != output && !bp__stage_is_scheduled(stage) &&
        compute_in_registers(stage, output, tiles) != 0)
      return -1;
  }
  return 0;
}

/* Unrolls the points of the input's tiles before stages are inlined, so that the input keeps its
 * stage: if tiles have one row, the input looks like a copy of their rows, which the product would
 * compute again for each block of the output. */
static int unroll_points(BpTeStage *input) {
  if (bp_te_unroll(input, input->axes[AT_POINT_Y]) != 0)
    return -1;
  return bp_te_unroll(input, input->axes[AT_POINT_X]);
}

static int visit_rows(void *context, const BpIrNode *node) {
  return bp__te_reads_stage(node, context);
}

/* Finds the transformed tiles of the output, which are computed from the rows. If the height or
 * width is open, the tiles keep their stage, so that the last tiles differ from others only in the
 * elements that the output takes. *tiles is set to the stage, or to NULL. */
static int keep_tiles(BpTe *te, const BpTransformStages *stages, const BpTeStage *output,
                      BpTeStage **tiles) {
  *tiles = NULL;
  if (!output->axes[OUT_Y]->open && !output->axes[OUT_X]->open)
    return 0;
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    BpTeStage *rows = stages->output_rows->stage;
    if (tensor->ndim != AT_NDIM || !bp__te_is_pointwise(tensor->stage))
      continue;
    int reads = bp__ir_visit_once(tensor->stage->body, visit_rows, rows);
    if (reads < 0)
      return -1;
    if (reads)
      *tiles = tensor->stage;
  }
  return *tiles ? bp_te_unroll(*tiles, (*tiles)->axes[AT_NDIM - 2]) : 0;
}

int bp_schedule_transformed(BpTe *te, const BpTarget *target, const BpTransformStages *stages,
                            BpTeTensor *output) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(stages) || !BP_OPERAND(output) ||
      !BP_OPERAND(stages->padded) || !BP_OPERAND(stages->input_rows) ||
      !BP_OPERAND(stages->input) || !BP_OPERAND(stages->product) ||
      !BP_OPERAND(stages->output_rows))
    return -1;
  BpMachine machine = bp__machine(target);
  BpAnalysis analysis;
  BpTeStage *tiles = NULL;
  bool is_lock_step = machine.threads > 1;
  if ((!is_lock_step && keep_tiles(te, stages, output->stage, &tiles) != 0) ||
      (is_lock_step && bp_te_compute_inline(stages->padded->stage) != 0) ||
      unroll_points(stages->input->stage) != 0 || bp__inline_stages(te, &output, 1) != 0 ||
      bp__analysis_init(&analysis, te, &output, 1) != 0)
    return -1;
  int rc = is_lock_step ? bp__schedule_thread_transform(&analysis, stages, output, &machine)
                        : schedule_stages(&analysis, stages, tiles, output->stage, &machine);
  bp__analysis_clear(&analysis);
  return rc;
}
