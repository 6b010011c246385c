/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules element-wise and injective computations. */

#include "compiler/schedules/analysis.h"
#include "compiler/schedules/parts.h"

/* The number of a parallel loop's iterations for each core, so that all cores end at about the same
 * time. */
#define SHARES_PER_CORE 8

/* The time of a function or a division of vectors, in cheap elements. */
#define DEAR_ELEMENTS 3

/* The least size of an output, in second-level caches of a core and in bytes, that non-temporal
 * stores write: a shared third-level cache cannot hold the output besides the inputs. For a smaller
 * output, non-temporal stores take up to 1.8 times as long, and the output's reader waits for
 * memory. */
#define STREAMED_CACHES 8.0
#define STREAMED_BYTES  (10.0 * 1048576)

/* The maximum number of values, in all, of axes that are unrolled because a choice depends on
 * them. */
#define MAX_CHOICES 64

/* The maximum number of elements, computed from extents, that are written without loops. */
#define MAX_EXTENTS 16

/* The number of elements of a run from which on a further loop around the run costs nothing. */
#define LEAST_RUN 128

/* Whether axis d and the run that begins at axis `next` are contiguous together in every read. */
static bool is_one_run(const BpStageInfo *info, int32_t d, int32_t next) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    if (!access->is_linear[d] || !access->is_linear[next] ||
        access->stride[d] != access->stride[next] * info->extent[next])
      return false;
  }
  return true;
}

/* The last axis whose extent is open or above 1; the last axis if there is none. */
static int32_t last_long_axis(const BpStageInfo *info) {
  for (int32_t d = info->ndim - 1; d >= 0; d--)
    if (bp__info_is_long(info, d))
      return d;
  return info->ndim - 1;
}

static int visit_choosing(void *context, const BpIrNode *node) {
  return node->kind == BP_IR_SELECT ? bp__ir_uses(node->operands[0], context) : 0;
}

static bool is_open_run(const BpStageInfo *info, int32_t first) {
  for (int32_t d = first; d < info->ndim; d++)
    if (info->stage->axes[d]->open)
      return true;
  return false;
}

/* Whether a choice depends on axis d, and a loop over it should stay outside of the run that begins
 * with axis `next`: it is short and the run long, or the run is open, so that a place in the fused
 * run would be divided by an open extent for each choice. Returns 1, 0 or -1 with an error. */
static int chooses_outside(const BpStageInfo *info, int32_t d, int32_t next) {
  bool is_short = !info->stage->axes[d]->open && info->extent[d] <= MAX_CHOICES;
  bool is_long = bp__info_size(info, next, info->ndim) >= LEAST_RUN;
  if (!is_open_run(info, next) && !(is_short && is_long))
    return 0;
  return bp__ir_visit_once(info->s->body, visit_choosing, (void *)info->s->vars[d]);
}

/* The first of the axes that can be fused with the last axis; -1 with an error. An axis of extent
 * 1, which is not open, joins the run after it, and its stride says nothing about the axes outside
 * it. */
static int32_t first_of_run(const BpStageInfo *info) {
  int32_t next = last_long_axis(info), first = next;
  for (int32_t d = next - 1; d >= 0; d--) {
    if (bp__info_is_long(info, d)) {
      int chooses = chooses_outside(info, d, next);
      if (chooses < 0)
        return -1;
      if (chooses || !is_one_run(info, d, next))
        break;
      next = d;
    }
    first = d;
  }
  return first;
}

static int visit_call(void *context, const BpIrNode *node) {
  (void)context;
  return (node->kind == BP_IR_CALL && !bp__te_is_read(node)) || node->kind == BP_IR_SELECT;
}

/* Whether vectors pay: 1, 0, or -1 with an error. If elements are not contiguous, vectors pay only
 * if the stage computes something. */
static int wants_vectors(const BpStageInfo *info, int32_t axis) {
  int computes = bp__ir_visit_once(info->s->body, visit_call, NULL);
  if (computes != 0)
    return computes;
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpAccess *access = &info->accesses[i];
    int64_t stride = access->is_linear[axis] ? access->stride[axis] : access->clamped_stride[axis];
    bool is_fixed = access->is_linear[axis] && stride == 0;
    if (!is_fixed && stride != 1 && stride != -1)
      return 0;
  }
  return 1;
}

int bp__fuse_axes(BpTeStage *stage, int32_t first, int32_t end, BpTeAxis **fused) {
  *fused = bp_te_stage_axis(stage, first);
  for (int32_t i = first + 1; i < end; i++)
    if (bp_te_fuse(stage, *fused, bp_te_stage_axis(stage, i), fused) != 0)
      return -1;
  return *fused ? 0 : -1;
}

/* ---- Choices ----------------------------------------------------------------------------- */

typedef struct Choices {
  const BpStageInfo *info;
  int32_t first;                  /* index of the run's first axis */
  bool is_chosen[BP_TE_MAX_NDIM]; /* whether a choice depends on a data axis */
} Choices;

static int visit_choice(void *context, const BpIrNode *node) {
  Choices *choices = context;
  const BpStageInfo *info = choices->info;
  bool is_used[BP_TE_MAX_NDIM];
  if (node->kind != BP_IR_SELECT)
    return 0;
  for (int32_t i = info->ndim - 1; i >= 0; i--) {
    int uses = bp__ir_uses(node->operands[0], info->s->vars[i]);
    if (uses < 0 || (uses && i >= choices->first))
      return uses < 0 ? -1 : 0;
    is_used[i] = uses;
  }
  for (int32_t i = 0; i < choices->first; i++)
    choices->is_chosen[i] |= is_used[i] && !info->stage->axes[i]->open;
  return 0;
}

/* Finds the axes that decide which value is computed (which input of a concatenation): if loops
 * over them are unrolled, the loops inside have no choices. */
static int find_choices(Choices *choices) {
  double count = 1;
  if (bp__ir_visit_once(choices->info->s->body, visit_choice, choices) != 0)
    return -1;
  for (int32_t i = 0; i < choices->first; i++)
    count *= choices->is_chosen[i] ? (double)choices->info->extent[i] : 1;
  /* Loops around an open run are divided at the choices instead (compiler/lower/partition.c). */
  if (count > MAX_CHOICES || is_open_run(choices->info, choices->first))
    memset(choices->is_chosen, 0, sizeof choices->is_chosen);
  return 0;
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* Orders the loops around the run: loops to share among cores, then choices, which are unrolled,
 * and inside them one loop that does the work. *count is set to the number of loops to share. */
static int order_outer(const BpStageInfo *info, int32_t first, BpTeAxis *run, BpTeAxis **outer,
                       int32_t *count) {
  Choices choices = {.info = info, .first = first};
  BpTeAxis *order[BP_TE_MAX_NDIM + 1];
  int32_t shared = 0, all;
  if (find_choices(&choices) != 0)
    return -1;
  for (int32_t i = 0; i < first; i++)
    if (!choices.is_chosen[i] && info->extent[i] > 1)
      outer[shared++] = info->stage->axes[i];
  *count = shared < first && shared > 1 ? shared - 1 : shared;
  memcpy(order, outer, (size_t)*count * sizeof *order);
  all = *count;
  for (int32_t i = 0; i < first; i++)
    if (choices.is_chosen[i] || info->extent[i] == 1) {
      if (choices.is_chosen[i] && bp_te_unroll(info->stage, info->stage->axes[i]) != 0)
        return -1;
      order[all++] = info->stage->axes[i];
    }
  if (*count < shared)
    order[all++] = outer[*count];
  order[all++] = run;
  return bp_te_reorder(info->stage, order, all);
}

/* Divides the leading loops among the cores and fuses as many of them as necessary; *done tells
 * whether the loops were divided. */
static int share_outer(BpTeStage *stage, BpTeAxis **outer, int32_t count, int64_t cores,
                       bool *done) {
  BpTeAxis *fused = count > 0 ? outer[0] : NULL;
  for (int32_t i = 1; i < count && bp_te_axis_extent(fused) < SHARES_PER_CORE * cores; i++)
    if (bp_te_fuse(stage, fused, outer[i], &fused) != 0)
      return -1;
  *done = fused && bp_te_axis_extent(fused) > 1;
  return *done ? bp_te_parallel(stage, fused) : 0;
}

/* Makes stores non-temporal for an output that does not stay in the caches, so that its lines need
 * not be read before they are written. The output must be written line by line: tiles of a
 * transpose write parts of lines, and each part takes a transfer. */
static int stream_output(const BpStageInfo *info, const BpMachine *machine) {
  double bytes = bp__info_size(info, 0, info->ndim) * info->stage->tensor->dtype.bits / 8;
  if (!bp__lower_is_output(info->s) || bytes < STREAMED_BYTES ||
      bytes < STREAMED_CACHES * (double)machine->l2)
    return 0;
  return bp_te_stream(info->stage);
}

static int count_dear(void *context, const BpIrNode *node) {
  *(int32_t *)context += (node->kind == BP_IR_CALL && !bp__te_is_read(node)) ||
                         (node->kind == BP_IR_DIV && bp__dtype_is_float(node->dtype));
  return 0;
}

/* Whether the stage writes a few elements that it computes from extents alone, such as a shape.
 * Each element is often a choice by its own number, which unrolled code does not have. */
static bool writes_extents(const BpStageInfo *info, const BpMachine *machine) {
  return !machine->has_kernels && info->num_accesses == 0 &&
         !bp__info_is_open(info, 0, info->ndim) &&
         bp__info_size(info, 0, info->ndim) <= MAX_EXTENTS;
}

static int unroll_all(const BpStageInfo *info) {
  for (int32_t i = 0; i < info->ndim; i++)
    if (bp_te_unroll(info->stage, info->stage->axes[i]) != 0)
      return -1;
  return 0;
}

int bp__schedule_elementwise(const BpStageInfo *info, const BpMachine *machine) {
  BpTeAxis *run, *outer[BP_TE_MAX_NDIM];
  int32_t count, dear = 0;
  if (info->ndim == 0)
    return 0;
  if (writes_extents(info, machine))
    return unroll_all(info);
  if (bp__ir_visit_once(info->s->body, count_dear, &dear) != 0)
    return -1;
  double work = bp__info_size(info, 0, info->ndim) * (1 + DEAR_ELEMENTS * dear);
  int64_t cores = bp__cores_for(machine, work, BP__PARALLEL_ELEMENTS);
  bool is_shared = false;
  int32_t first = first_of_run(info);
  int has_vectors = wants_vectors(info, last_long_axis(info));
  if (has_vectors < 0 || first < 0)
    return -1;
  int64_t side;
  int32_t near = bp__find_permuted(info, first, &side);
  if (near >= 0)
    return bp__schedule_permuted(info, first, near, side, machine, cores);
  if (stream_output(info, machine) != 0 ||
      bp__fuse_axes(info->stage, first, info->ndim, &run) != 0 ||
      order_outer(info, first, run, outer, &count) != 0)
    return -1;
  if (cores > 1 && share_outer(info->stage, outer, count, cores, &is_shared) != 0)
    return -1;
  BpMachine own = bp__machine_for(machine, info);
  return bp__schedule_run(info->stage, run, has_vectors ? own.lanes : 1,
                          !is_shared && first == 0 ? cores : 1);
}

/* The number of elements in each share of a run, for at most `cores` shares. Equal shares, which
 * need no separate version of the loop, are chosen if their number is not much smaller. */
static int64_t share_of(int64_t extent, int64_t lanes, int64_t cores) {
  for (int64_t shares = cores; shares * 2 > cores; shares--)
    if (extent % (shares * lanes) == 0)
      return extent / shares;
  return bp__divide_up(bp__divide_up(extent, cores), lanes) * lanes;
}

/* Whether all elements of an axis are one vector; an open axis may always be longer. */
static bool is_one_vector(const BpTeAxis *axis, int64_t lanes) {
  return !axis->open && bp_te_axis_extent(axis) <= lanes;
}

int bp__schedule_run(BpTeStage *stage, BpTeAxis *run, int64_t lanes, int64_t cores) {
  BpTeAxis *share, *tile, *lane;
  int64_t extent = bp_te_axis_extent(run);
  if (cores > 1 && extent >= cores * lanes) {
    int64_t each = share_of(extent, lanes, cores);
    if (bp_te_split(stage, run, each, BP_TE_TAIL_PEEL, &share, &run) != 0 ||
        bp_te_parallel(stage, share) != 0)
      return -1;
  }
  if (lanes == 1 || (extent == 1 && !run->open))
    return 0;
  if (is_one_vector(run, lanes))
    return bp_te_vectorize(stage, run);
  if (bp_te_split(stage, run, lanes, BP_TE_TAIL_PEEL, &tile, &lane) != 0)
    return -1;
  return bp_te_vectorize(stage, lane);
}

int bp__vectorize_part(BpTeStage *stage, BpTeAxis *axis, int64_t lanes, BpTeAxis **order,
                       int32_t *count) {
  BpTeAxis *vector, *lane = axis;
  if (!is_one_vector(axis, lanes)) {
    if (bp_te_split(stage, axis, lanes, BP_TE_TAIL_PEEL, &vector, &lane) != 0 ||
        bp_te_unroll(stage, vector) != 0)
      return -1;
    order[(*count)++] = vector;
  }
  order[(*count)++] = lane;
  return lanes > 1 ? bp_te_vectorize(stage, lane) : 0;
}
