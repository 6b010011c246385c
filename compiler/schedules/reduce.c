/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules reductions along contiguous elements, with partial results in the lanes of several
 * vectors, which are added up to one vector and then to one number; and computations that reduce
 * each row and use the result in the row. */

#include "compiler/schedules/parts.h"

/* The number of vectors of partial results that hides the latency of an addition. */
#define MOST_PARTIALS 4

static bool moves_along(const BpAccess *access, int32_t axis) {
  bool is_next = access->stride[axis] == 1 && !access->has_open_stride[axis];
  return access->is_linear[axis] && (is_next || access->stride[axis] == 0);
}

static bool all_move_along(const BpStageInfo *info, int32_t axis) {
  for (int32_t i = 0; i < info->num_accesses; i++)
    if (!moves_along(&info->accesses[i], axis))
      return false;
  return true;
}

/* The last long axis among first <= i < end, or -1. */
static int32_t last_long_axis(const BpStageInfo *info, int32_t first, int32_t end) {
  for (int32_t i = end - 1; i >= first; i--)
    if (bp__info_is_long(info, i))
      return i;
  return -1;
}

/* The first of the reduction axes that are contiguous together with the last reduction axis. */
static int32_t first_of_run(const BpStageInfo *info) {
  int32_t first = info->num_roots - 1;
  while (first > info->ndim) {
    bool fits = true;
    for (int32_t i = 0; i < info->num_accesses && fits; i++) {
      const BpAccess *access = &info->accesses[i];
      fits = access->is_linear[first - 1] && access->is_linear[first] &&
             access->stride[first - 1] == access->stride[first] * info->extent[first];
    }
    if (!fits && bp__info_is_long(info, first - 1))
      break;
    first--;
  }
  return first;
}

/* The minimum length of a vectorised run; a pooling window, for example, is shorter. */
#define LEAST_RUN 8

bool bp__info_reduces_rows(const BpStageInfo *info) {
  int32_t data = last_long_axis(info, 0, info->ndim);
  int32_t reduced = last_long_axis(info, info->ndim, info->num_roots);
  if (reduced < 0 || !all_move_along(info, reduced))
    return false;
  if (data >= 0 && info->extent[data] >= LEAST_RUN &&
      bp__info_size(info, first_of_run(info), info->num_roots) < LEAST_RUN)
    return false;
  return data < 0 || !all_move_along(info, data);
}

/* ---- One reduction ----------------------------------------------------------------------- */

/* Fuses the last reduction axes as far as they are contiguous together. */
static int fuse_reduction(const BpStageInfo *info, BpTeAxis **run) {
  BpTeStage *stage = info->stage;
  int32_t first = first_of_run(info);
  *run = stage->axes[first];
  for (int32_t i = first + 1; i < info->num_roots; i++)
    if (bp_te_fuse(stage, *run, stage->axes[i], run) != 0)
      return -1;
  return 0;
}

static BpTeAxis *last_axis(BpTeStage *stage) {
  return stage->axes[stage->ndim - 1];
}

/* Schedules vectors of partial results; the last dimension of `partial` contains the lanes of all
 * vectors. */
static int schedule_partial(BpTeTensor *partial, int64_t lanes, bool has_tail) {
  BpTeStage *stage = partial->stage;
  BpTeAxis *vector, *lane, *most, *last;
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0;
  BpTeAxis *steps = stage->axes[partial->ndim + stage->num_reduce_axes - 1];
  if (bp_te_split(stage, last_axis(stage), lanes, BP_TE_TAIL_GUARD, &vector, &lane) != 0)
    return -1;
  for (int32_t i = 0; i < stage->num_reduce_axes; i++)
    order[count++] = stage->axes[partial->ndim + i];
  order[count++] = vector;
  order[count++] = lane;
  if (bp_te_reorder(stage, order, count) != 0 || bp_te_unroll(stage, vector) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    return -1;
  /* Only the last step can go beyond the end: a separate version of that step keeps masks out of
   * the other steps. */
  if (has_tail && bp_te_axis_extent(steps) > 1)
    return bp_te_split(stage, steps, bp_te_axis_extent(steps) - 1, BP_TE_TAIL_PEEL, &most, &last);
  return 0;
}

/* Adds up the vectors of partial results to one vector. */
static int schedule_folded(BpTeTensor *folded) {
  BpTeStage *stage = folded->stage;
  BpTeAxis *vector = stage->axes[folded->ndim], *lane = last_axis(stage);
  if (bp_te_reorder(stage, (BpTeAxis *[]){vector, lane}, 2) != 0 ||
      bp_te_unroll(stage, vector) != 0)
    return -1;
  return bp_te_vectorize(stage, lane);
}

/* The stages of partial results, computed inside the stage that adds them up. */
typedef struct Parts {
  BpTeTensor *tensors[2];
  int32_t count;
} Parts;

/* Computes the parts in the loop `axis` of the stage `whole`; a NULL axis means that the whole is
 * one number. */
static int attach_parts(const Parts *parts, BpTeStage *whole, BpTeAxis *axis) {
  for (int32_t i = 0; i < parts->count; i++) {
    BpTeStage *part = parts->tensors[i]->stage;
    if (bp_te_set_scope(part, BP_IR_SCOPE_LOCAL) != 0 ||
        (axis && bp_te_compute_at(part, whole, axis) != 0))
      return -1;
  }
  return 0;
}

/* Splits the reduction of a stage into lanes; its data axes stay unchanged. */
static int use_lanes(const BpStageInfo *info, const BpMachine *machine, Parts *parts) {
  BpTe *te = info->stage->te;
  BpTeStage *stage = info->stage;
  BpTeAxis *run, *blocks, *part, *vector, *lane;
  parts->count = 0;
  if (info->num_roots == info->ndim || fuse_reduction(info, &run) != 0)
    return info->num_roots == info->ndim ? 0 : -1;
  int64_t extent = bp_te_axis_extent(run), lanes = bp__machine_for(machine, info).lanes;
  if (lanes == 1 || (extent < 2 * lanes && !run->open))
    return 0;
  int64_t vectors = extent / lanes < MOST_PARTIALS ? extent / lanes : MOST_PARTIALS;
  vectors = vectors > 1 ? vectors : 1;
  if (bp_te_split(stage, run, vectors * lanes, BP_TE_TAIL_GUARD, &blocks, &part) != 0)
    return -1;
  BpTeTensor *partial = bp_te_rfactor(te, stage->tensor, part), *folded = NULL;
  if (!partial)
    return -1;
  if (vectors > 1) {
    if (bp_te_split(stage, stage->axes[info->ndim], lanes, BP_TE_TAIL_GUARD, &vector, &lane) != 0 ||
        !(folded = bp_te_rfactor(te, stage->tensor, lane)))
      return -1;
    if (schedule_folded(folded) != 0)
      return -1;
    parts->tensors[parts->count++] = folded;
  }
  if (schedule_partial(partial, lanes, extent % (vectors * lanes) != 0) != 0)
    return -1;
  parts->tensors[parts->count++] = partial;
  return bp_te_vectorize(stage, stage->axes[info->ndim]);
}

int bp__schedule_row(const BpStageInfo *info, const BpMachine *machine) {
  Parts parts;
  BpTeAxis *inside, *shared;
  double work = bp__info_size(info, 0, info->num_roots);
  int64_t cores = bp__cores_for(machine, work, BP__PARALLEL_ELEMENTS);
  if (use_lanes(info, machine, &parts) != 0)
    return -1;
  if (info->ndim == 0)
    return attach_parts(&parts, info->stage, NULL);
  /* The last axis stays a loop if the axes before it give enough shares. */
  bool has_loop = info->ndim > 1 && bp__info_size(info, 0, info->ndim - 1) >= (double)cores;
  if (bp__fuse_axes(info->stage, 0, has_loop ? info->ndim - 1 : info->ndim, &shared) != 0)
    return -1;
  inside = has_loop ? last_axis(info->stage) : shared;
  if (attach_parts(&parts, info->stage, inside) != 0)
    return -1;
  return cores > 1 ? bp_te_parallel(info->stage, shared) : 0;
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* The number of leading dimensions; all dimensions after them have extent 1. */
static int32_t leading_dims(const BpStageInfo *info) {
  return last_long_axis(info, 0, info->ndim) + 1;
}

/* Whether every read of another stage stays in the reader's row, given by the dimensions below
 * `rows`. */
static bool stays_in_row(const BpAnalysis *analysis, const BpStageInfo *info, int32_t rows) {
  for (int32_t i = 0; i < info->num_accesses; i++) {
    const BpIrNode *read = info->accesses[i].read;
    const BpTeTensor *source = bp__analysis_source(analysis, read);
    for (int32_t d = 0; source && d < rows; d++)
      if (d >= source->ndim || d >= info->ndim ||
          (read->operands[1 + d] != info->s->vars[d] &&
           bp__info_is_long(bp__analysis_find(analysis, source), d)))
        return false;
  }
  return true;
}

int32_t bp__count_row_axes(const BpAnalysis *analysis, const BpStageInfo *output) {
  int32_t rows = 0;
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (info->num_roots > info->ndim && info != output && leading_dims(info) > rows)
      rows = leading_dims(info);
  }
  if (rows == 0 || rows >= output->ndim || output->num_roots > output->ndim)
    return 0;
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (info->stage->scan || info->stage->is_statements || bp__stage_is_scheduled(info->stage) ||
        !stays_in_row(analysis, info, rows) || (info != output && bp__lower_is_output(info->s)))
      return 0;
    if (info->num_roots > info->ndim && !bp__info_reduces_rows(info))
      return 0;
  }
  return rows;
}

bool bp__has_open_rows(const BpAnalysis *analysis, int32_t rows) {
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (bp__info_is_open(info, rows < info->ndim ? rows : info->ndim, info->ndim))
      return true;
  }
  return false;
}

/* The number of vectors that a core computes in about the time of a reduction across lanes, and the
 * maximum number of rows that are computed side by side. */
#define LANE_VECTORS   32
#define MOST_NEAR_ROWS 8

/* The number of adjacent rows that are computed side by side: each step of the computation goes
 * through all of them, so that short rows do not wait for their reductions one after the other. The
 * last of the `rows` axes is divided into that many rows. */
static int64_t near_rows(const BpStageInfo *output, int32_t rows, int64_t lanes) {
  int64_t count = MOST_NEAR_ROWS, extent = output->extent[rows - 1];
  double row = bp__info_size(output, rows, output->ndim);
  if (bp__info_is_open(output, rows - 1, output->ndim))
    return 1;
  while (count > 1 && (extent % count != 0 || (double)count * row > (double)(LANE_VECTORS * lanes)))
    count /= 2;
  return count;
}

int bp__schedule_rows(const BpAnalysis *analysis, const BpStageInfo *output,
                      const BpMachine *machine, bool *fits) {
  int32_t rows = bp__count_row_axes(analysis, output);
  BpTeAxis *row, *near, *run;
  *fits = rows > 0 && !(machine->has_kernels && bp__has_open_rows(analysis, rows));
  if (!*fits)
    return 0;
  double work = bp__info_size(output, 0, output->ndim) * 4;
  bool is_parallel = bp__cores_for(machine, work, BP__PARALLEL_ELEMENTS) > 1;
  int64_t lanes = bp__machine_for(machine, output).lanes, count = near_rows(output, rows, lanes);
  if (bp__fuse_axes(output->stage, 0, rows, &row) != 0 ||
      bp__fuse_axes(output->stage, rows, output->ndim, &run) != 0 ||
      (count > 1 && bp_te_split(output->stage, row, count, BP_TE_TAIL_PEEL, &row, &near) != 0) ||
      bp__schedule_run(output->stage, run, lanes, 1) != 0 ||
      (is_parallel && bp_te_parallel(output->stage, row) != 0))
    return -1;
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (info == output)
      continue;
    if (bp_te_compute_at(info->stage, output->stage, row) != 0)
      return -1;
    if (info->num_roots > info->ndim) {
      Parts parts;
      BpTeAxis *last = info->ndim > 0 ? last_axis(info->stage) : NULL;
      if (use_lanes(info, machine, &parts) != 0 || attach_parts(&parts, info->stage, last) != 0)
        return -1;
    } else if (bp__schedule_run(info->stage, last_axis(info->stage),
                                bp__machine_for(machine, info).lanes, 1) != 0) {
      return -1;
    }
  }
  return 0;
}
