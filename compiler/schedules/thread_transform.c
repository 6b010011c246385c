/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules convolutions by Winograd's algorithm for threads in lock-step, in three kernels: the
 * tiles of the input, the product, and the output. The transforms of a tile are straight-line code
 * of one thread; neighbouring threads compute neighbouring tiles. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* The dimensions of the output, whose channels may be missing, and of the transformed input. */
enum { OUT_N, OUT_BLOCK, OUT_Y, OUT_X, OUT_CHANNEL };
enum { AT_N, AT_POINT_Y, AT_POINT_X, AT_BLOCK, AT_TILE_Y, AT_TILE_X, AT_CHANNEL };

/* The axes of a kernel from the outside in: two axes over images and channels, for the blocks; axes
 * over tiles and the channels of a block, for the threads; and two axes within a tile, which are
 * unrolled. */
typedef struct Loops {
  BpTeAxis *axes[8];
  int32_t count;
} Loops;

/* Binds the loops to blocks and threads; *thread is set to the axis inside which a thread computes
 * its tile. */
static int bind_loops(BpTeStage *stage, const Loops *loops, const BpMachine *machine,
                      BpTeAxis **thread) {
  BpTeAxis *outer[2] = {loops->axes[0], loops->axes[1]}, *lane = loops->axes[2], *block;
  if (bp_te_reorder(stage, (BpTeAxis *const *)loops->axes, loops->count) != 0)
    return -1;
  for (int32_t i = 3; i < loops->count - 2; i++)
    if (bp_te_fuse(stage, lane, loops->axes[i], &lane) != 0)
      return -1;
  int64_t threads = machine->has_serial_warps
                        ? machine->threads
                        : bp__block_threads(machine, (double)bp_te_axis_extent(lane));
  if (bp_te_split(stage, lane, threads, BP_TE_TAIL_GUARD, &block, thread) != 0 ||
      bp__bind_outer(stage, outer, 2) != 0 || bp_te_bind(stage, block, "blockIdx.x") != 0 ||
      bp_te_bind(stage, *thread, "threadIdx.x") != 0)
    return -1;
  return 0;
}

/* Computes a stage as straight-line code of one thread, with its values in registers. */
static int compute_in_thread(BpTeStage *stage, BpTeStage *reader, BpTeAxis *thread) {
  for (int32_t i = 0; i < stage->ndim; i++)
    if (bp_te_unroll(stage, stage->axes[i]) != 0)
      return -1;
  if (bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) != 0)
    return -1;
  return bp_te_compute_at(stage, reader, thread);
}

static int schedule_input(const BpTransformStages *stages, const BpMachine *machine) {
  BpTeStage *stage = stages->input->stage;
  BpTeAxis **axes = stage->axes, *thread;
  Loops loops = {{axes[AT_N], axes[AT_BLOCK], axes[AT_TILE_Y], axes[AT_TILE_X], axes[AT_CHANNEL],
                  axes[AT_POINT_Y], axes[AT_POINT_X]},
                 7};
  if (bind_loops(stage, &loops, machine, &thread) != 0)
    return -1;
  return compute_in_thread(stages->input_rows->stage, stage, thread);
}

static int schedule_output(const BpTransformStages *stages, BpTeTensor *output,
                           const BpMachine *machine, BpTeAxis **thread) {
  BpTeStage *stage = output->stage;
  BpTeAxis **axes = stage->axes, *tiles[2], *inside[2];
  Loops loops = {{axes[OUT_N], axes[OUT_BLOCK]}, 2};
  for (int32_t i = 0; i < 2; i++)
    if (bp_te_split(stage, axes[OUT_Y + i], stages->tile[i], BP_TE_TAIL_GUARD, &tiles[i],
                    &inside[i]) != 0 ||
        bp_te_unroll(stage, inside[i]) != 0)
      return -1;
  loops.axes[loops.count++] = tiles[0];
  loops.axes[loops.count++] = tiles[1];
  if (output->ndim > OUT_CHANNEL)
    loops.axes[loops.count++] = axes[OUT_CHANNEL];
  loops.axes[loops.count++] = inside[0];
  loops.axes[loops.count++] = inside[1];
  if (bind_loops(stage, &loops, machine, thread) != 0)
    return -1;
  return compute_in_thread(stages->output_rows->stage, stage, *thread);
}

int bp__schedule_thread_transform(const BpAnalysis *analysis, const BpTransformStages *stages,
                                  BpTeTensor *output, const BpMachine *machine) {
  const BpStageInfo *product = bp__analysis_find(analysis, stages->product);
  BpTeAxis *thread;
  if (schedule_input(stages, machine) != 0 ||
      schedule_output(stages, output, machine, &thread) != 0 ||
      bp__schedule_thread_tile(product, product, machine) != 0)
    return -1;
  /* The remaining stages are between the product and the output. */
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    BpTeStage *stage = analysis->stages[i].stage;
    if (stage != output->stage && !bp__stage_is_scheduled(stage) &&
        compute_in_thread(stage, output->stage, thread) != 0)
      return -1;
  }
  return 0;
}
