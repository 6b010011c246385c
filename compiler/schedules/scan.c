/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules scans. Axes along which no element depends on its neighbours are rows: their loops are
 * outside the steps, so that each core, block or thread makes all steps of its own rows. The steps
 * then contain only products with the states: the tiles of the products stay in registers and end
 * up in the new states. Cores share the tiles if the weights do not fit into the cache of one
 * core. */

#include <math.h>

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* The number of interleaved rows if a scan has no vectors of rows: interleaved rows hide each
 * other's latency. */
#define INTERLEAVED_ROWS 4
/* The minimum number of shares of neighbours that cores get. */
#define NEIGHBOUR_SHARES 4
/* The number of multiply-adds of a step from which on cores share the step. */
#define SHARED_STEP 400000.0
/* The maximum number of parts of a product's element that come from one tile, such as the gates of
 * a cell. */
#define MOST_PARTS 8

typedef struct Scan {
  const BpAnalysis *analysis;
  const BpStageInfo *info;
  BpTeStage *stage;
  int32_t axis;
  bool is_row[BP_TE_MAX_NDIM]; /* whether elements along the axis are independent of each other */
  const BpMachine *machine;
} Scan;

/* ---- Dependences ------------------------------------------------------------------------- */

static bool is_inside(const BpStageInfo *info, const Scan *scan) {
  return info->stage->inside == scan->stage;
}

static bool is_open(const Scan *scan, int32_t axis) {
  return scan->stage->axes[axis]->open != NULL;
}

/* Whether the extent of an axis may be more than 1. */
static bool has_places(const Scan *scan, int32_t axis) {
  return scan->info->extent[axis] > 1 || is_open(scan, axis);
}

/* The axis of the scan that corresponds to each dimension of a stage in the analysis, or -1. */
typedef int32_t Alignment[BP_TE_MAX_NDIM];

/* The data axis whose variable is the index, or -1. */
static int32_t axis_of_index(const BpStageInfo *info, const BpIrNode *index) {
  for (int32_t i = 0; i < info->ndim; i++)
    if (index == info->s->vars[i])
      return i;
  return -1;
}

/* The axis of the scan that corresponds to an index, or -1; an axis of extent 1 corresponds to
 * any. */
static int32_t aligned_index(const BpStageInfo *reader, const int32_t *alignment,
                             const BpIrNode *index) {
  int32_t axis = axis_of_index(reader, index);
  return axis < 0 ? -1 : alignment[axis];
}

static int32_t number_of(const BpAnalysis *analysis, const BpStageInfo *info) {
  return (int32_t)(info - analysis->stages);
}

/* Takes the alignment of a stage's dimensions from one reader; a dimension on which readers
 * disagree has none. */
static void align_with(const BpStageInfo *reader, const int32_t *alignment, const BpIrNode *read,
                       const BpStageInfo *source, int32_t *found, bool is_first) {
  for (int32_t d = 0; d < source->ndim; d++) {
    int32_t axis = aligned_index(reader, alignment, read->operands[1 + d]);
    found[d] = is_first || found[d] == axis ? axis : -1;
  }
}

/* Aligns the stages of the steps with the scan, readers first. */
static int align_stages(const Scan *scan, Alignment *alignments) {
  const BpAnalysis *analysis = scan->analysis;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    alignments[number_of(analysis, scan->info)][i] = i;
  for (int32_t i = number_of(analysis, scan->info) - 1; i >= 0; i--) {
    const BpStageInfo *source = &analysis->stages[i];
    bool is_first = true;
    for (int32_t r = i + 1; r < analysis->num_stages && is_inside(source, scan); r++) {
      const BpStageInfo *reader = &analysis->stages[r];
      for (int32_t k = 0; k < reader->num_accesses; k++) {
        const BpIrNode *read = reader->accesses[k].read;
        const BpTeTensor *tensor = bp__analysis_source(analysis, read);
        if (!tensor || tensor->stage != source->stage)
          continue;
        align_with(reader, alignments[r], read, source, alignments[i], is_first);
        is_first = false;
      }
    }
  }
  return 0;
}

/* Finds the rows: an axis is not a row if a state or a stage of the steps is read across it. */
static void find_rows(Scan *scan, Alignment *alignments) {
  const BpAnalysis *analysis = scan->analysis;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    scan->is_row[i] = i != scan->axis;
  for (int32_t r = 0; r < analysis->num_stages; r++) {
    const BpStageInfo *reader = &analysis->stages[r];
    for (int32_t k = 0; k < reader->num_accesses; k++) {
      const BpIrNode *read = reader->accesses[k].read;
      const BpLowerTensor *t = bp__lower_tensor_of(&analysis->lowering, read->operands[0]);
      bool is_state = t && t->tensor->state_of == scan->stage;
      const BpStageInfo *source =
          t && t->tensor->stage ? bp__analysis_find(analysis, t->tensor) : NULL;
      if (!is_state && (!source || !is_inside(source, scan)))
        continue;
      for (int32_t a = 0; a < scan->info->ndim; a++) {
        bool goes_along = false;
        for (int32_t d = 0; d < t->tensor->ndim; d++) {
          int32_t of_source = is_state ? d : alignments[number_of(analysis, source)][d];
          goes_along |=
              of_source == a && aligned_index(reader, alignments[r], read->operands[1 + d]) == a;
        }
        scan->is_row[a] &= goes_along || !has_places(scan, a);
      }
    }
  }
}

/* ---- Single elements --------------------------------------------------------------------- */

static bool has_stages(const Scan *scan) {
  for (int32_t i = 0; i < scan->analysis->num_stages; i++)
    if (is_inside(&scan->analysis->stages[i], scan))
      return true;
  return false;
}

static bool are_all_rows(const Scan *scan) {
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && !scan->is_row[i])
      return false;
  return true;
}

static int64_t lanes_for(const Scan *scan) {
  return bp__machine_for(scan->machine, scan->info).lanes;
}

/* Divides the leading leaves of `order` among cores. */
static int share_rows(BpTeStage *stage, BpTeAxis **order, int32_t count, int64_t cores) {
  BpTeAxis *fused = count > 0 ? order[0] : NULL;
  for (int32_t i = 1; i < count && bp_te_axis_extent(fused) < cores; i++)
    if (bp_te_fuse(stage, fused, order[i], &fused) != 0)
      return -1;
  return fused && cores > 1 ? bp_te_parallel(stage, fused) : 0;
}

/* The number of neighbours along axis `last` that go through all steps together: as many vectors as
 * half the registers hold, since long pieces of lines at each step are loaded faster than short
 * ones. */
static int64_t neighbours_of(const Scan *scan, int32_t last, double cores) {
  int64_t lanes = lanes_for(scan), vectors = bp__divide_up(scan->info->extent[last], lanes);
  int64_t most = scan->machine->registers / 2;
  int64_t shares = bp__divide_up(vectors, most > 1 ? most : 1);
  double rows = bp__info_size(scan->info, 0, scan->info->ndim) /
                (double)(scan->info->extent[last] * scan->info->extent[scan->axis]);
  double wanted = fmin(cores, NEIGHBOUR_SHARES) / rows;
  if ((double)shares < wanted)
    shares = (int64_t)fmin(ceil(wanted), (double)vectors);
  return bp__divide_up(vectors, shares > 1 ? shares : 1) * lanes;
}

/* Schedules a scan of single elements: neighbours along the last axis in vectors, or interleaved
 * rows, go through all steps together. */
static int schedule_elements(const Scan *scan) {
  BpTeStage *stage = scan->stage;
  BpTeAxis *order[BP_TE_MAX_NDIM + 4], *inner = NULL;
  int32_t count = 0, last = scan->info->ndim - 1, outer;
  bool has_vectors = scan->axis != last && has_places(scan, last);
  int64_t lanes = lanes_for(scan);
  int64_t cores = bp__cores_for(scan->machine, bp__info_size(scan->info, 0, scan->info->ndim),
                                BP__PARALLEL_ELEMENTS);
  if (!has_vectors)
    for (last = scan->info->ndim - 1; last >= 0; last--)
      if (last != scan->axis && has_places(scan, last))
        break;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && i != last)
      order[count++] = stage->axes[i];
  if (last >= 0) {
    int64_t width = has_vectors ? neighbours_of(scan, last, (double)cores) : INTERLEAVED_ROWS;
    if (bp_te_split(stage, stage->axes[last], width, BP_TE_TAIL_PEEL, &order[count++], &inner))
      return -1;
  }
  outer = count;
  order[count++] = stage->axes[scan->axis];
  if (inner && has_vectors) {
    BpTeAxis *vector, *lane;
    if (bp_te_split(stage, inner, lanes, BP_TE_TAIL_PEEL, &vector, &lane) != 0 ||
        bp_te_unroll(stage, vector) != 0 || (lanes > 1 && bp_te_vectorize(stage, lane) != 0))
      return -1;
    order[count++] = vector;
    order[count++] = lane;
  } else if (inner) {
    if (bp_te_unroll(stage, inner) != 0)
      return -1;
    order[count++] = inner;
  }
  if (bp_te_reorder(stage, order, count) != 0)
    return -1;
  return share_rows(stage, order, outer, cores);
}

/* ---- Products ---------------------------------------------------------------------------- */

/* The loops of a scan whose steps have stages. */
typedef struct Steps {
  int32_t row, vector;   /* axes that tiles extend along; -1: none */
  int64_t rows, vectors; /* number of rows and of vectors in a tile */
  bool shares_steps;     /* whether cores share a step instead of the rows */
  bool has_all_rows;     /* whether each step makes all rows */
  bool shares_rows;
  BpTeAxis *steps, *tile; /* loops that stages are attached to: once a step, once a tile */
} Steps;

/* Whether only the scan itself reads a stage, and only the elements of the same tile; *parts is set
 * to the number of elements that a place of the tile reads. */
static bool is_of_tile(const Scan *scan, const BpStageInfo *info, const int32_t *alignment,
                       const Steps *steps, double *parts) {
  *parts = 1;
  bool has_row = steps->row < 0, has_vector = steps->vector < 0;
  if (bp__info_has_other_readers(scan->analysis, scan->info, info->stage->tensor))
    return false;
  for (int32_t d = 0; d < info->ndim; d++) {
    has_row |= alignment[d] == steps->row;
    has_vector |= alignment[d] == steps->vector;
    if (alignment[d] < 0)
      *parts *= (double)info->extent[d];
  }
  return has_row && has_vector && *parts <= MOST_PARTS;
}

/* Measures the multiply-adds of a step, and the bytes of other tensors that all rows read. */
static void measure_steps(const Scan *scan, double *work, double *bytes) {
  *work = *bytes = 0;
  for (int32_t i = 0; i < scan->analysis->num_stages; i++) {
    const BpStageInfo *info = &scan->analysis->stages[i];
    if (!is_inside(info, scan) || info->num_roots == info->ndim)
      continue;
    *work += bp__info_size(info, 0, info->num_roots) / (double)scan->info->extent[scan->axis];
    for (int32_t k = 0; k < info->num_accesses; k++) {
      const BpLowerTensor *t =
          bp__lower_tensor_of(&scan->analysis->lowering, info->accesses[k].read->operands[0]);
      if (!t)
        *bytes += bp__tensor_bytes(info->accesses[k].tensor);
    }
  }
}

/* The largest number of parts that a stage of the tiles has for each place; 0 if the tiles have no
 * stage. */
static double parts_of_tiles(const Scan *scan, Alignment *alignments, const Steps *steps) {
  double most = 0, parts;
  for (int32_t i = 0; i < scan->analysis->num_stages; i++) {
    const BpStageInfo *info = &scan->analysis->stages[i];
    if (is_inside(info, scan) && is_of_tile(scan, info, alignments[i], steps, &parts) &&
        parts > most)
      most = parts;
  }
  return most;
}

/* Chooses a tile of as many rows of accumulators as the registers hold beside a vector of each
 * part. */
static void choose_steps(const Scan *scan, Alignment *alignments, Steps *steps) {
  const BpMachine *machine = scan->machine;
  double work, bytes;
  *steps = (Steps){.row = -1, .vector = -1, .rows = 1, .vectors = lanes_for(scan)};
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (scan->is_row[i] && has_places(scan, i))
      steps->row = i;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && i != steps->row && has_places(scan, i))
      steps->vector = i;
  double parts = parts_of_tiles(scan, alignments, steps);
  double rows = parts > 0 ? ((double)machine->registers - parts - 2) / parts : 4;
  if (steps->row >= 0 && rows > 1)
    steps->rows = (int64_t)rows < scan->info->extent[steps->row] ? (int64_t)rows
                                                                 : scan->info->extent[steps->row];
  if (parts > 0 && steps->rows == 1 && parts * 2 <= (double)machine->registers / 2)
    steps->vectors *= 2;
  measure_steps(scan, &work, &bytes);
  double all = work * (double)scan->info->extent[scan->axis];
  bool has_large_weights = bytes * 2 > (double)machine->l2;
  steps->shares_steps =
      !machine->has_kernels && work >= SHARED_STEP &&
      (has_large_weights || steps->row < 0 || scan->info->extent[steps->row] <= steps->rows) &&
      bp__cores_for(machine, work, BP__PARALLEL_PRODUCTS) > 1;
  steps->has_all_rows = steps->shares_steps && steps->row >= 0 && !is_open(scan, steps->row);
  steps->shares_rows =
      !steps->shares_steps && steps->row >= 0 &&
      (machine->has_kernels || bp__cores_for(machine, all, BP__PARALLEL_PRODUCTS) > 1);
}

/* Makes the scan's own loops: rows, steps, tiles of the elements, and the elements of a tile. */
static int loop_steps(const Scan *scan, Steps *steps) {
  BpTeStage *stage = scan->stage;
  BpTeAxis *order[2 * BP_TE_MAX_NDIM + 4], *rows = NULL, *row = NULL, *tiles = NULL, *vector = NULL;
  int32_t count = 0, outer;
  if (steps->row >= 0 && bp_te_split(stage, stage->axes[steps->row], steps->rows,
                                     BP_TE_TAIL_BALANCE, &rows, &row) != 0)
    return -1;
  if (steps->vector >= 0 && bp_te_split(stage, stage->axes[steps->vector], steps->vectors,
                                        BP_TE_TAIL_PEEL, &tiles, &vector) != 0)
    return -1;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (scan->is_row[i] && i != steps->row && i != steps->vector)
      order[count++] = stage->axes[i];
  if (rows && !steps->has_all_rows)
    order[count++] = rows;
  outer = count;
  order[count++] = steps->steps = stage->axes[scan->axis];
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (!scan->is_row[i] && i != scan->axis && i != steps->vector)
      order[count++] = stage->axes[i];
  if (tiles)
    order[count++] = tiles;
  if (rows && steps->has_all_rows)
    order[count++] = rows;
  steps->tile = order[count - 1];
  if (row && bp_te_unroll(stage, row) != 0)
    return -1;
  if (row)
    order[count++] = row;
  if ((vector && bp__vectorize_part(stage, vector, lanes_for(scan), order, &count) != 0) ||
      bp_te_reorder(stage, order, count) != 0)
    return -1;
  if (steps->shares_steps && tiles)
    return bp_te_parallel(stage, tiles);
  return steps->shares_rows ? share_rows(stage, order, outer, scan->machine->cores) : 0;
}

/* Schedules a reduction in the registers of a tile: loops over its terms, with the tile inside. */
static int accumulate_in_tile(const Scan *scan, const BpStageInfo *info, const int32_t *alignment,
                              const Steps *steps) {
  BpTeStage *stage = info->stage;
  BpTeAxis *order[BP__TE_MAX_AXES];
  int32_t count = 0, vector = -1;
  if (bp_te_compute_at(stage, scan->stage, steps->tile) != 0 ||
      bp_te_set_scope(stage, BP_IR_SCOPE_LOCAL) != 0)
    return -1;
  for (int32_t i = info->ndim; i < info->num_roots; i++)
    order[count++] = stage->axes[i];
  for (int32_t d = 0; d < info->ndim; d++) {
    if (steps->vector >= 0 && alignment[d] == steps->vector) {
      vector = d;
      continue;
    }
    order[count++] = stage->axes[d];
    if (alignment[d] != scan->axis && bp_te_unroll(stage, stage->axes[d]) != 0)
      return -1;
  }
  if (vector >= 0 &&
      bp__vectorize_part(stage, stage->axes[vector], lanes_for(scan), order, &count) != 0)
    return -1;
  return bp_te_reorder(stage, order, count);
}

/* Makes the outermost loop over tiles of a stage's last axis the first loop, which cores share. */
static int share_columns(const BpStageInfo *info) {
  BpTeStage *stage = info->stage;
  BpTeAxis *axis = stage->axes[info->ndim - 1], *order[BP__TE_MAX_AXES];
  while (axis->used_by)
    axis = axis->used_by->kind == BP__TE_SPLIT ? axis->used_by->outer : axis->used_by->parent;
  if (axis->for_kind != BP_IR_FOR_SERIAL)
    return 0;
  int32_t count = 0;
  order[count++] = axis;
  for (int32_t i = 0; i < stage->num_leaves && stage->leaves[i] != axis; i++)
    order[count++] = stage->leaves[i];
  return bp_te_reorder(stage, order, count) != 0 ? -1 : bp_te_parallel(stage, axis);
}

/* Schedules a stage that is computed once in each step, for the rows that run together. */
static int compute_in_step(const Scan *scan, const BpStageInfo *info, const int32_t *alignment,
                           const Steps *steps) {
  BpMachine alone = bp__machine_for(scan->machine, info);
  BpStageInfo part = *info;
  alone.cores = 1;
  for (int32_t d = 0; d < info->ndim; d++) {
    int64_t rows = steps->has_all_rows ? info->extent[d] : steps->rows;
    bool is_row = alignment[d] >= 0 && alignment[d] != scan->axis && scan->is_row[alignment[d]];
    if (alignment[d] == scan->axis || (is_row && alignment[d] != steps->row))
      part.extent[d] = 1;
    else if (is_row)
      part.extent[d] = rows;
  }
  if (bp_te_compute_at(info->stage, scan->stage, steps->steps) != 0 ||
      (steps->shares_steps && bp_te_set_scope(info->stage, BP_IR_SCOPE_GLOBAL) != 0))
    return -1;
  if (info->num_roots == info->ndim)
    return info->ndim == 0
               ? 0
               : bp__schedule_run(info->stage, info->stage->axes[info->ndim - 1], alone.lanes, 1);
  if (bp__info_reduces_rows(&part))
    return bp__schedule_row(&part, &alone);
  if (bp__schedule_tile(&part, &part, &alone) != 0)
    return -1;
  return steps->shares_steps ? share_columns(info) : 0;
}

static int schedule_steps(const Scan *scan, Alignment *alignments) {
  Steps steps;
  double parts;
  choose_steps(scan, alignments, &steps);
  if (loop_steps(scan, &steps) != 0)
    return -1;
  for (int32_t i = 0; i < scan->analysis->num_stages; i++) {
    const BpStageInfo *info = &scan->analysis->stages[i];
    if (!is_inside(info, scan) || bp__stage_is_scheduled(info->stage) || info->stage->scan)
      continue;
    bool is_product = info->num_roots > info->ndim;
    int rc = is_product && is_of_tile(scan, info, alignments[i], &steps, &parts)
                 ? accumulate_in_tile(scan, info, alignments[i], &steps)
                 : compute_in_step(scan, info, alignments[i], &steps);
    if (rc != 0)
      return -1;
  }
  return 0;
}

/* ---- Threads in lock-step ---------------------------------------------------------------- */

/* Appends the axes of the scan that are rows, or the other axes. */
static void gather_axes(const Scan *scan, bool rows, BpTeAxis **order, int32_t *count) {
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && scan->is_row[i] == rows)
      order[(*count)++] = scan->stage->axes[i];
}

static int fuse_run(BpTeStage *stage, BpTeAxis *const *axes, int32_t count, BpTeAxis **fused) {
  *fused = count > 0 ? axes[0] : NULL;
  for (int32_t i = 1; i < count; i++)
    if (bp_te_fuse(stage, *fused, axes[i], fused) != 0)
      return -1;
  return 0;
}

/* The bytes that a block would share: states, new states, and the results of stages in the scan's
 * steps. */
static double shared_bytes(const Scan *scan, Alignment *alignments) {
  double row = 1, bytes = 0;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && !scan->is_row[i])
      row *= (double)scan->info->extent[i];
  for (int32_t i = 0; i < scan->stage->scan->num_states; i++)
    bytes += 2 * row * (double)scan->stage->scan->states[i]->dtype.bits / 8;
  for (int32_t i = 0; i < scan->analysis->num_stages; i++) {
    const BpStageInfo *info = &scan->analysis->stages[i];
    double size = (double)info->stage->tensor->dtype.bits / 8;
    for (int32_t d = 0; d < info->ndim; d++) {
      int32_t axis = alignments[i][d];
      if (axis != scan->axis && (axis < 0 || !scan->is_row[axis]))
        size *= (double)info->extent[d];
    }
    bytes += is_inside(info, scan) ? size : 0;
  }
  return bytes;
}

/* Schedules a scan in which a thread makes all steps of its row, with all data in private
 * memory. */
static int schedule_row_threads(const Scan *scan) {
  BpTeAxis *order[BP_TE_MAX_NDIM], *rows;
  int32_t count = 0, num_rows;
  gather_axes(scan, true, order, &count);
  num_rows = count;
  order[count++] = scan->stage->axes[scan->axis];
  gather_axes(scan, false, order, &count);
  if (bp_te_reorder(scan->stage, order, count) != 0 ||
      fuse_run(scan->stage, order, num_rows, &rows) != 0)
    return -1;
  if (!rows)
    return 0;
  double size = (double)bp_te_axis_extent(rows);
  return bp__bind_run(scan->stage, rows, bp__block_threads(scan->machine, size), true);
}

/* Schedules a stage of the steps that the threads of the block compute together. */
static int share_in_block(const Scan *scan, const BpStageInfo *info, int64_t threads) {
  BpTeAxis *run;
  if (bp_te_compute_at(info->stage, scan->stage, scan->stage->axes[scan->axis]) != 0 ||
      bp_te_set_scope(info->stage, BP_IR_SCOPE_SHARED) != 0)
    return -1;
  if (info->ndim == 0)
    return 0;
  if (bp__fuse_axes(info->stage, 0, info->ndim, &run) != 0)
    return -1;
  return bp__bind_run(info->stage, run, threads, false);
}

/* Schedules a scan in which a block makes all steps of a row, and its threads share the elements of
 * a step. */
static int schedule_row_blocks(const Scan *scan) {
  BpTeStage *stage = scan->stage;
  BpTeAxis *order[BP_TE_MAX_NDIM], *rows, *run;
  int32_t count = 0, num_rows, first;
  gather_axes(scan, true, order, &count);
  num_rows = count;
  order[count++] = stage->axes[scan->axis];
  first = count;
  gather_axes(scan, false, order, &count);
  double width = 1;
  for (int32_t i = 0; i < scan->info->ndim; i++)
    if (i != scan->axis && !scan->is_row[i])
      width *= (double)scan->info->extent[i];
  int64_t threads = bp__block_threads(scan->machine, width);
  if (bp_te_reorder(stage, order, count) != 0 || fuse_run(stage, order, num_rows, &rows) != 0 ||
      fuse_run(stage, order + first, count - first, &run) != 0 ||
      (rows && bp_te_bind(stage, rows, "blockIdx.x") != 0) ||
      bp__bind_run(stage, run, threads, false) != 0)
    return -1;
  for (int32_t i = 0; i < scan->analysis->num_stages; i++) {
    const BpStageInfo *info = &scan->analysis->stages[i];
    if (is_inside(info, scan) && !bp__stage_is_scheduled(info->stage) && !info->stage->scan &&
        share_in_block(scan, info, threads) != 0)
      return -1;
  }
  return 0;
}

static int schedule_threads(const Scan *scan, Alignment *alignments) {
  bool is_shared = !are_all_rows(scan) && scan->machine->shared > 0 &&
                   shared_bytes(scan, alignments) <= (double)scan->machine->shared;
  return is_shared ? schedule_row_blocks(scan) : schedule_row_threads(scan);
}

/* ---- Choosing ---------------------------------------------------------------------------- */

static int schedule_scan(const BpAnalysis *analysis, const BpStageInfo *info,
                         const BpMachine *machine) {
  Scan scan = {.analysis = analysis,
               .info = info,
               .stage = info->stage,
               .axis = info->stage->scan->axis,
               .machine = machine};
  size_t size = (size_t)analysis->num_stages * sizeof(Alignment);
  Alignment *alignments = bp__ir_alloc(analysis->lowering.module, size);
  if (!alignments)
    return -1;
  memset(alignments, 0xff, size);
  if (align_stages(&scan, alignments) != 0)
    return -1;
  find_rows(&scan, alignments);
  if (machine->threads > 1)
    return schedule_threads(&scan, alignments);
  return are_all_rows(&scan) && !has_stages(&scan) ? schedule_elements(&scan)
                                                   : schedule_steps(&scan, alignments);
}

int bp__schedule_scans(const BpAnalysis *analysis, const BpMachine *machine) {
  for (int32_t i = 0; i < analysis->num_stages; i++) {
    const BpStageInfo *info = &analysis->stages[i];
    if (info->stage->scan && !info->stage->inside && !bp__stage_is_scheduled(info->stage) &&
        schedule_scan(analysis, info, machine) != 0)
      return -1;
  }
  return 0;
}
