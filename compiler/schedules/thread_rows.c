/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules reductions that the threads of a block share: each of n threads adds up every n-th
 * term, and a tree in the block's shared memory adds up the threads' sums. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* The number of partial results that are added up in one step of the tree. */
#define TREE_WIDTH 8

/* Fuses the reduction axes of a stage. */
static int fuse_reduction(const BpStageInfo *info, BpTeAxis **run) {
  BpTeStage *stage = info->stage;
  *run = stage->axes[info->ndim];
  for (int32_t i = info->ndim + 1; i < info->num_roots; i++)
    if (bp_te_fuse(stage, *run, stage->axes[i], run) != 0)
      return -1;
  return 0;
}

/* Makes a register that holds each thread's sum until it is complete, to be computed inside a loop
 * of the storing stage; NULL with an error. */
static BpTeStage *sum_in_register(BpTeTensor *tensor) {
  BpTeTensor *sum = bp_te_cache_write(tensor->te, tensor, BP_IR_SCOPE_LOCAL);
  if (!sum)
    return NULL;
  BpTeAxis *terms = sum->stage->axes[sum->ndim];
  bool is_short = sum->stage->num_reduce_axes == 1 && !terms->open && terms->extent <= TREE_WIDTH;
  return is_short && bp_te_unroll(sum->stage, terms) != 0 ? NULL : sum->stage;
}

/* Makes the last reduction leaf `axis` a data axis of a new stage, which threads share. */
static BpTeTensor *spread(BpTeStage *stage, BpTeAxis *axis) {
  BpTeTensor *part = bp_te_rfactor(stage->te, stage->tensor, axis);
  BpTeStage *sum = part ? sum_in_register(part) : NULL;
  if (!sum)
    return NULL;
  BpTeAxis *thread = part->stage->axes[part->ndim - 1];
  if (bp_te_compute_at(sum, part->stage, thread) != 0 ||
      bp_te_bind(part->stage, thread, "threadIdx.x") != 0 ||
      bp_te_set_scope(part->stage, BP_IR_SCOPE_SHARED) != 0)
    return NULL;
  return part;
}

/* The stages of a tree, from the first sums to the last. */
typedef struct Tree {
  BpTeTensor *parts[4];
  int32_t count;
  BpTeStage *sum; /* the last stage, which is in a register, or NULL */
} Tree;

/* Splits the reduction of a stage into a tree; the stage's data axes stay unchanged. */
static int make_tree(const BpStageInfo *info, int64_t threads, Tree *tree) {
  BpTeStage *stage = info->stage;
  BpTeAxis *run, *outer, *inner;
  *tree = (Tree){.count = 0};
  if (fuse_reduction(info, &run) != 0)
    return -1;
  for (int64_t width = threads; width > 1 && bp_te_axis_extent(run) > width;
       width = width > TREE_WIDTH ? TREE_WIDTH : 1) {
    if (bp_te_split(stage, run, width, BP_TE_TAIL_GUARD, &outer, &inner) != 0 ||
        !(tree->parts[tree->count++] = spread(stage, inner)))
      return -1;
    run = stage->axes[info->ndim];
  }
  if (tree->count > 0 && !(tree->sum = sum_in_register(stage->tensor)))
    return -1;
  return 0;
}

static int attach_tree(const Tree *tree, BpTeStage *consumer, BpTeAxis *axis) {
  for (int32_t i = 0; i < tree->count; i++)
    if (bp_te_compute_at(tree->parts[i]->stage, consumer, axis) != 0)
      return -1;
  return 0;
}

/* The number of threads for a row of `count` elements, so that each thread has several elements. */
static int64_t row_threads(const BpMachine *machine, double count) {
  return machine->has_serial_warps ? machine->threads : bp__block_threads(machine, count / 4);
}

/* Schedules a reduction to one number: a kernel for partial sums, before the kernel that adds them
 * up. */
static int schedule_one_sum(const BpStageInfo *info, int64_t threads) {
  BpTeAxis *run, *outer, *inner;
  if (fuse_reduction(info, &run) != 0 ||
      bp_te_split(info->stage, run, threads, BP_TE_TAIL_GUARD, &outer, &inner) != 0)
    return -1;
  BpTeTensor *part = bp_te_rfactor(info->stage->te, info->stage->tensor, inner);
  return part ? bp_te_bind(part->stage, part->stage->axes[0], "threadIdx.x") : -1;
}

int bp__schedule_block_reduction(const BpStageInfo *info, const BpMachine *machine) {
  BpTeStage *stage = info->stage;
  BpTeAxis *block;
  Tree tree;
  int64_t threads = row_threads(machine, bp__info_size(info, info->ndim, info->num_roots));
  if (info->ndim == 0)
    return schedule_one_sum(info, threads);
  if (make_tree(info, threads, &tree) != 0)
    return -1;
  if (bp__fuse_axes(stage, 0, info->ndim, &block) != 0 ||
      bp_te_bind(stage, block, "blockIdx.x") != 0 ||
      (tree.sum && bp_te_compute_at(tree.sum, stage, block) != 0))
    return -1;
  return attach_tree(&tree, stage, block);
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* The bytes of shared memory that the stages of a row need. */
static double row_bytes(const BpAnalysis *analysis, const BpStageInfo *output, int32_t rows,
                        int64_t threads) {
  double bytes = 0;
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (info == output)
      continue;
    double size = (double)info->stage->tensor->dtype.bits / 8;
    bytes += size * bp__info_size(info, rows < info->ndim ? rows : info->ndim, info->ndim);
    if (info->num_roots > info->ndim)
      bytes += size * (double)(threads + TREE_WIDTH);
  }
  return bytes;
}

/* Schedules one stage of a row, which the whole block computes. */
static int schedule_in_row(const BpStageInfo *info, BpTeStage *output, BpTeAxis *row,
                           int64_t threads) {
  BpTeAxis *run;
  Tree tree;
  if (bp_te_compute_at(info->stage, output, row) != 0 ||
      bp_te_set_scope(info->stage, BP_IR_SCOPE_SHARED) != 0)
    return -1;
  if (info->num_roots > info->ndim) {
    if (make_tree(info, threads, &tree) != 0 ||
        (tree.sum &&
         bp_te_compute_at(tree.sum, info->stage, info->stage->axes[info->ndim - 1]) != 0))
      return -1;
    return attach_tree(&tree, output, row);
  }
  if (bp__fuse_axes(info->stage, 0, info->ndim, &run) != 0)
    return -1;
  return bp__bind_run(info->stage, run, threads, false);
}

int bp__schedule_block_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                            const BpMachine *machine, bool *fits) {
  int32_t rows = bp__count_row_axes(analysis, output);
  BpTeAxis *row, *run;
  *fits = false;
  if (rows == 0 || bp__has_open_rows(analysis, rows))
    return 0;
  int64_t threads = row_threads(machine, bp__info_size(output, rows, output->ndim));
  if (row_bytes(analysis, output, rows, threads) > (double)machine->shared)
    return 0;
  *fits = true;
  if (bp__fuse_axes(output->stage, 0, rows, &row) != 0 ||
      bp__fuse_axes(output->stage, rows, output->ndim, &run) != 0 ||
      bp_te_bind(output->stage, row, "blockIdx.x") != 0 ||
      bp__bind_run(output->stage, run, threads, false) != 0)
    return -1;
  for (int32_t i = 0; i < analysis->num_stages; i++)
    if (&analysis->stages[i] != output &&
        schedule_in_row(&analysis->stages[i], output->stage, row, threads) != 0)
      return -1;
  return 0;
}
