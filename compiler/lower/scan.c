/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the loops of a scan: initial states, the steps, the last states.
 *
 * The states are allocated around the loops over the axis, for the part of the domain that the
 * loops cover. A step first computes the stages attached to the axis; then, for each element, it
 * computes all values and stores the values and states. If the old state of another element may be
 * read after its new state is stored, the new states are kept in separate buffers until the step
 * ends. */

#include "compiler/lower/nest.h"

/* ---- Positions --------------------------------------------------------------------------- */

int32_t bp__scan_position(const BpTeStage *stage) {
  int32_t position = stage->num_leaves - 1;
  while (!stage->leaves[position]->is_scan)
    position--;
  return position;
}

/* The stage through whose attachment `s` runs inside `scan`, or NULL. */
static const BpLowerStage *attached_part(const BpLowerStage *s, const BpLowerStage *scan) {
  while (s && s->attached_to != scan)
    s = s->attached_to;
  return s;
}

/* Whether a state's element is read only to compute the same element. */
static bool is_read_in_place(const BpLowerStage *s, const BpIrNode *read) {
  const BpTeStage *stage = s->stage;
  for (int32_t i = 0; i < stage->ndim; i++)
    if (i != stage->scan->axis && read->operands[1 + i] != s->vars[i] &&
        (stage->axes[i]->extent != 1 || stage->axes[i]->open))
      return false;
  return true;
}

/* Whether a step may still read the state of other elements after it stores the state of one. */
static bool is_read_late(const BpLowering *lowering, const BpLowerStage *s,
                         const BpLowerTensor *state) {
  int32_t last = bp__scan_position(s->stage);
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    const BpLowerStage *reader = &lowering->stages[i];
    const BpLowerStage *part = reader == s ? NULL : attached_part(reader, s);
    for (int32_t k = 0; k < reader->num_reads; k++) {
      if (reader->reads[k]->operands[0] != state->buffer)
        continue;
      if (reader == s ? !is_read_in_place(s, reader->reads[k]) : part->attach_position > last)
        return true;
    }
  }
  return false;
}

/* The kinds of the loops inside the axis' outermost loop. */
typedef struct Inside {
  bool has_threads, has_tasks;
} Inside;

static int look_inside(const BpTeStage *stage, int32_t position, Inside *inside) {
  *inside = (Inside){false, false};
  for (int32_t i = position; i < stage->num_leaves; i++) {
    const BpTeAxis *leaf = stage->leaves[i];
    bool is_bound = leaf->for_kind == BP_IR_FOR_BOUND;
    if (is_bound && strncmp(leaf->thread_axis, "blockIdx", 8) == 0)
      return bp_error_raise(BP_ERROR_VALUE,
                            "axis %s of scan %s is bound to %s inside of the steps, at whose ends "
                            "blocks do not meet; put it around them",
                            leaf->name, stage->scan->name, leaf->thread_axis);
    inside->has_threads |= is_bound;
    inside->has_tasks |= leaf->for_kind == BP_IR_FOR_PARALLEL;
  }
  return 0;
}

/* ---- States ------------------------------------------------------------------------------ */

static int32_t scope_of_states(const BpLowering *lowering, const BpTeStage *stage,
                               const Inside *inside) {
  if (stage->scope >= 0)
    return stage->scope;
  if (inside->has_threads)
    return BP_IR_SCOPE_SHARED;
  return inside->has_tasks && !lowering->is_in_parallel ? BP_IR_SCOPE_GLOBAL : BP_IR_SCOPE_LOCAL;
}

/* How much of an axis' value the existing loops determine. */
enum { NONE_SETTLED, SOME_SETTLED, ALL_SETTLED };

static bool has_one_place(const BpNest *nest, const BpTeAxis *axis) {
  return nest->extent[axis->index] == 1 && !nest->open[axis->index];
}

static int settled(const BpNest *nest, const BpTeAxis *axis) {
  const BpTeRelation *use = axis->used_by;
  if (has_one_place(nest, axis))
    return ALL_SETTLED;
  if (!use)
    return nest->is_bound[axis->index] ? ALL_SETTLED : NONE_SETTLED;
  if (use->kind == BP__TE_FUSE)
    return settled(nest, use->parent);
  if (has_one_place(nest, use->inner))
    return settled(nest, use->outer);
  int outer = settled(nest, use->outer), inner = settled(nest, use->inner);
  return outer == inner ? outer : SOME_SETTLED;
}

/* Whether the loops not built yet cover all elements of an axis between the first and the last. */
static bool goes_through_all(const BpNest *nest, const BpTeAxis *axis) {
  const BpTeRelation *use = axis->used_by;
  if (settled(nest, axis) != SOME_SETTLED)
    return true;
  if (!use || use->kind == BP__TE_FUSE)
    return false;
  if (settled(nest, use->outer) == ALL_SETTLED)
    return goes_through_all(nest, use->inner);
  if (has_one_place(nest, use->inner))
    return goes_through_all(nest, use->outer);
  return settled(nest, use->inner) == NONE_SETTLED && goes_through_all(nest, use->outer);
}

/* Finds the interval that the loops not built yet cover in one step, along a dimension other than
 * the steps. */
static int find_interval(const BpNest *nest, int32_t dimension, const BpIrNode *root,
                         BpInterval *part) {
  const BpTeAxis *axis = nest->stage->axes[dimension];
  BpInterval whole;
  bool is_bounded;
  if (bp__lower_whole(nest->lowering, axis->extent, axis->open, &whole) != 0 ||
      bp__index_interval(&nest->lowering->index, root, part, &is_bounded) != 0)
    return -1;
  if (!is_bounded)
    *part = whole;
  if (bp__lower_clamp(nest->lowering, part, &whole) != 0)
    return -1;
  return !part->open ? 0
                     : bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                                      "axis %s of scan %s is open, and a step goes along all of "
                                      "it; put its loop around the steps",
                                      axis->name, nest->stage->scan->name);
}

/* Finds the part of the domain that the loops not built yet cover in one step. The part is clamped
 * like the regions of stages in the steps, which read no element outside it. */
static int find_part(const BpNest *nest, BpInterval *part) {
  const BpIrNode *roots[BP__TE_MAX_AXES];
  if (bp__nest_roots(nest, true, roots) != 0)
    return -1;
  for (int32_t i = 0; i < nest->stage->ndim; i++) {
    part[i] = bp__interval(roots[i], 1);
    if (i != nest->stage->scan->axis && find_interval(nest, i, roots[i], &part[i]) != 0)
      return -1;
  }
  return 0;
}

static int make_states(const BpNest *nest, int32_t scope) {
  BpLowering *lowering = nest->lowering;
  BpLowerStage *s = nest->s;
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  BpInterval part[BP_TE_MAX_NDIM];
  if (find_part(nest, part) != 0)
    return -1;
  for (int32_t i = 0; i < nest->stage->ndim; i++) {
    s->state_mins[i] = part[i].min;
    extents[i] = bp__ir_int64(lowering->module, part[i].extent);
  }
  for (int32_t i = 0; i < nest->stage->scan->num_states; i++) {
    BpLowerTensor *state = &s->states[i];
    state->storage = bp_ir_buffer(lowering->module, state->tensor->name, state->tensor->dtype,
                                  scope, extents, nest->stage->ndim);
    s->next[i] = NULL;
    if (is_read_late(lowering, s, state))
      s->next[i] = bp_ir_buffer(lowering->module, "next", state->tensor->dtype, scope, extents,
                                nest->stage->ndim);
    if (!state->storage)
      return -1;
  }
  return 0;
}

static const BpIrNode *in_states(const BpNest *nest, const BpIrNode *statement) {
  BpIrModule *module = nest->lowering->module;
  for (int32_t i = nest->stage->scan->num_states - 1; i >= 0; i--) {
    if (nest->s->next[i])
      statement = bp_ir_allocate(module, nest->s->next[i], statement);
    statement = bp_ir_allocate(module, nest->s->states[i].storage, statement);
  }
  return statement;
}

/* The CALL that reads or writes the stored element of a state in the current iteration. */
static const BpIrNode *access_state(const BpNest *nest, const BpIrNode *storage,
                                    const BpIrNode *written) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *roots[BP__TE_MAX_AXES], *operands[2 + BP_TE_MAX_NDIM] = {storage};
  int32_t count = 1;
  if (bp__nest_roots(nest, false, roots) != 0)
    return NULL;
  if (written)
    operands[count++] = written;
  for (int32_t i = 0; i < nest->stage->ndim; i++) {
    const BpIrNode *index = bp__ir_int64(module, 0);
    if (i != nest->stage->scan->axis)
      index = bp__index_simplify(&nest->lowering->index,
                                 bp_ir_binary(module, BP_IR_SUB, roots[i], nest->s->state_mins[i]));
    if (!(operands[count++] = index))
      return NULL;
  }
  return bp_ir_make(module, BP_IR_CALL, storage->dtype, operands, count, BP_IR_CALL_INTRINSIC, 0,
                    written ? BP__TE_WRITE : BP__TE_READ);
}

static const BpIrNode *write_state(const BpNest *nest, const BpIrNode *storage,
                                   const BpIrNode *value) {
  const BpIrNode *write = value ? access_state(nest, storage, value) : NULL;
  return write ? bp__ir_evaluate(nest->lowering->module, write) : NULL;
}

/* Whether an index of a state is in the part of the domain that the step covers: 1, 0, or -1 with
 * an error. */
static int is_of_step(const BpNest *nest, const BpLowerTensor *state, int32_t dimension,
                      const BpIrNode *index) {
  BpIndexContext *context = &nest->lowering->index;
  const BpInterval *part = &state->s->step_part[dimension];
  const BpIrNode *roots[BP__TE_MAX_AXES];
  int64_t difference;
  if (state->s->has_gaps[dimension])
    part = NULL;
  else if (part->extent == state->tensor->shape[dimension] && !state->tensor->open[dimension])
    return 1;
  const BpIrNode *place =
      part ? bp_ir_binary(nest->lowering->module, BP_IR_SUB, index, part->min) : index;
  if (!place || !(place = bp__index_simplify(context, place)))
    return -1;
  BpRange range = bp__index_range(context, place);
  if (part && range.min >= 0 && range.max < part->extent)
    return 1;
  if (nest->s != state->s || dimension == state->tensor->state_of->scan->axis)
    return 0;
  if (bp__nest_roots(nest, false, roots) != 0)
    return -1;
  return bp__index_difference(context, index, roots[dimension], &difference) && difference == 0;
}

int bp__scan_check_read(const BpNest *nest, const BpLowerTensor *state, const BpIrNode *read) {
  const BpTeScan *scan = state->tensor->state_of->scan;
  for (int32_t i = 0; i < state->tensor->ndim; i++) {
    int inside = is_of_step(nest, state, i, read->operands[1 + i]);
    if (inside < 0)
      return -1;
    if (inside)
      continue;
    return bp_error_raise(
        BP_ERROR_VALUE,
        i == scan->axis
            ? "tensor %s reads state %s of scan %s at another step than its own (dimension %d)"
            : "tensor %s reads elements of state %s of scan %s that are not among those which one "
              "iteration of the loops around the steps computes (dimension %d)",
        nest->stage->tensor->name, read->operands[0]->str_value, scan->name, i);
  }
  return 0;
}

/* ---- Innermost statements ---------------------------------------------------------------- */

/* Part `index` of the tuple of values that are evaluated before the first step. */
static const BpIrNode *before_part(const BpNest *nest, int32_t index) {
  const BpTeScan *scan = nest->stage->scan;
  const BpIrNode *roots[BP__TE_MAX_AXES], *before = nest->s->before;
  bool is_tuple = scan->num_states + (scan->limit != NULL) > 1;
  if (bp__nest_roots(nest, true, roots) != 0)
    return NULL;
  return bp__nest_rewrite(nest, roots, is_tuple ? before->operands[index] : before);
}

static const BpIrNode *limit_here(const BpNest *nest) {
  return before_part(nest, nest->stage->scan->num_states);
}

static const BpIrNode *store_initial(const BpNest *nest) {
  const BpIrNode *writes[BP_TE_MAX_VALUES];
  for (int32_t i = 0; i < nest->stage->scan->num_states; i++)
    if (!(writes[i] = write_state(nest, nest->s->states[i].storage, before_part(nest, i))))
      return NULL;
  return bp_ir_seq(nest->lowering->module, writes, nest->stage->scan->num_states);
}

static const BpIrNode *store_copies(const BpNest *nest) {
  const BpIrNode *writes[BP_TE_MAX_VALUES];
  int32_t count = 0;
  for (int32_t i = 0; i < nest->stage->scan->num_states; i++) {
    const BpIrNode *next = nest->s->next[i];
    if (next && !(writes[count++] = write_state(nest, nest->s->states[i].storage,
                                                access_state(nest, next, NULL))))
      return NULL;
  }
  return bp_ir_seq(nest->lowering->module, writes, count);
}

static const BpIrNode *store_last(const BpNest *nest) {
  const BpTeStage *stage = nest->stage;
  const BpIrNode *writes[BP_TE_MAX_VALUES];
  int32_t count = 0;
  for (int32_t i = 0; i < stage->scan->num_states; i++) {
    const BpLowerTensor *last = &nest->s->tensors[stage->num_values + i];
    if (last->is_needed && !(writes[count++] = bp__nest_write(
                                 nest, last, access_state(nest, nest->s->states[i].storage, NULL))))
      return NULL;
  }
  return bp_ir_seq(nest->lowering->module, writes, count);
}

static const BpIrNode *store_zeros(const BpNest *nest) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *writes[BP_TE_MAX_VALUES];
  int32_t count = 0;
  for (int32_t i = 0; i < nest->stage->num_values; i++) {
    const BpLowerTensor *each = &nest->s->tensors[i];
    if (each->is_needed && !(writes[count++] = bp__nest_write(
                                 nest, each, bp__ir_number(module, each->tensor->dtype, 0))))
      return NULL;
  }
  return bp_ir_seq(module, writes, count);
}

/* Raises the number of steps to the limit of the current element: the scan makes as many steps as
 * the element with the largest limit. */
static const BpIrNode *raise_limit(const BpNest *nest) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *operands[] = {nest->steps, bp__ir_int64(module, 0)};
  const BpIrNode *known = bp_ir_make(module, BP_IR_CALL, bp__dtype_int64(), operands, 2,
                                     BP_IR_CALL_INTRINSIC, 0, BP__TE_READ);
  const BpIrNode *write[] = {nest->steps, bp_ir_binary(module, BP_IR_MAX, known, limit_here(nest)),
                             operands[1]};
  if (!write[1])
    return NULL;
  return bp__ir_evaluate(module, bp_ir_make(module, BP_IR_CALL, bp__dtype_int64(), write, 3,
                                            BP_IR_CALL_INTRINSIC, 0, BP__TE_WRITE));
}

/* The condition under which the current element makes the current step; NULL without an error if it
 * always does. */
static int makes_step(const BpNest *nest, const BpIrNode *const *roots,
                      const BpIrNode **condition) {
  *condition = NULL;
  if (!nest->is_masked)
    return 0;
  *condition = bp_ir_binary(nest->lowering->module, BP_IR_LT, roots[nest->stage->scan->axis],
                            limit_here(nest));
  return *condition ? 0 : -1;
}

/* Computes all values from the states before it stores any value. */
static const BpIrNode *store_step(const BpNest *nest) {
  const BpTeStage *stage = nest->stage;
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *roots[BP__TE_MAX_AXES], *writes[2 * BP_TE_MAX_VALUES], *condition;
  BpNames names = {.count = 0};
  int32_t count = 0;
  if (bp__nest_roots(nest, false, roots) != 0 || makes_step(nest, roots, &condition) != 0)
    return NULL;
  const BpIrNode *body = bp__nest_rewrite(nest, roots, nest->s->body), *values[BP_TE_MAX_VALUES];
  for (int32_t i = 0; body && i < stage->num_values; i++)
    if (i < stage->scan->num_states || nest->s->tensors[i].is_needed)
      values[i] = bp__nest_name(nest, &names, "v", bp__te_value(stage, body, i));
  for (int32_t i = 0; body && i < stage->num_values; i++) {
    const BpLowerTensor *each = &nest->s->tensors[i];
    const BpIrNode *zero = bp__ir_number(module, each->tensor->dtype, 0);
    if (each->is_needed)
      writes[count++] = bp__nest_write(
          nest, each, condition ? bp_ir_select(module, condition, values[i], zero) : values[i]);
  }
  for (int32_t i = 0; body && i < stage->scan->num_states; i++) {
    const BpIrNode *state = nest->s->states[i].storage;
    const BpIrNode *value = values[i];
    if (condition)
      value = bp_ir_select(module, condition, value, access_state(nest, state, NULL));
    writes[count++] = write_state(nest, nest->s->next[i] ? nest->s->next[i] : state, value);
  }
  return body ? bp__nest_wrap_names(nest, &names, bp_ir_seq(module, writes, count)) : NULL;
}

const BpIrNode *bp__scan_innermost(const BpNest *nest) {
  switch (nest->phase) {
  case BP__NEST_INIT:
    return store_initial(nest);
  case BP__NEST_LIMIT:
    return raise_limit(nest);
  case BP__NEST_COPY:
    return store_copies(nest);
  case BP__NEST_ZERO:
    return store_zeros(nest);
  case BP__NEST_LAST:
    return store_last(nest);
  default:
    return store_step(nest);
  }
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* A barrier if the threads of a block share the states; otherwise NULL. */
static const BpIrNode *turn(const BpNest *nest) {
  const BpIrNode *storage = nest->s->states[0].storage;
  Inside inside;
  if (look_inside(nest->stage, bp__scan_position(nest->stage), &inside) != 0 ||
      !inside.has_threads || storage->int_value == BP_IR_SCOPE_LOCAL)
    return NULL;
  return bp__ir_barrier(nest->lowering->module,
                        storage->int_value == BP_IR_SCOPE_SHARED ? "shared" : "global");
}

/* Puts statements in sequence, without NULL statements and statements that do nothing. */
static const BpIrNode *in_sequence(const BpNest *nest, const BpIrNode *const *parts,
                                   int32_t count) {
  const BpIrNode *kept[8];
  int32_t num_kept = 0;
  for (int32_t i = 0; i < count; i++)
    if (parts[i] && !bp__ir_is_nothing(parts[i]))
      kept[num_kept++] = parts[i];
  return bp_ir_seq(nest->lowering->module, kept, num_kept);
}

/* Makes the loops of a phase from `position` on. */
static const BpIrNode *phase_of(const BpNest *nest, int32_t position, int phase) {
  BpNest other = *nest;
  other.phase = phase;
  other.is_around = phase != BP__NEST_ZERO;
  return bp__nest_loops(&other, position);
}

int bp__scan_enter(const BpNest *nest) {
  int32_t axis = nest->stage->scan->axis;
  if (find_part(nest, nest->s->step_part) != 0)
    return -1;
  for (int32_t i = 0; i < nest->stage->ndim; i++)
    nest->s->has_gaps[i] = !goes_through_all(nest, nest->stage->axes[i]);
  nest->s->state_mins[axis] = nest->s->step_part[axis].min;
  return 0;
}

const BpIrNode *bp__scan_step(const BpNest *nest, int32_t position) {
  bool has_next = false;
  for (int32_t i = 0; i < nest->stage->scan->num_states; i++)
    has_next |= nest->s->next[i] != NULL;
  const BpIrNode *parts[4] = {bp__nest_loops(nest, position), turn(nest), NULL, NULL};
  if (has_next) {
    parts[2] = phase_of(nest, position, BP__NEST_COPY);
    parts[3] = turn(nest);
  }
  if (!parts[0] || (has_next && !parts[2]))
    return NULL;
  return in_sequence(nest, parts, 4);
}

/* ---- The whole scan ---------------------------------------------------------------------- */

static const BpIrNode *extent_of(const BpNest *nest) {
  const BpTeAxis *axis = nest->stage->axes[nest->stage->scan->axis];
  const BpInterval steps = {NULL, nest->extent[axis->index], nest->open[axis->index]};
  return bp__lower_extent_node(nest->lowering, &steps);
}

/* The greatest number of steps of a scan. */
static int64_t most_steps(const BpNest *nest) {
  return nest->extent[nest->stage->axes[nest->stage->scan->axis]->index];
}

/* The limit counts steps from the first; a backward scan skips steps before the first. */
const BpIrNode *bp__scan_loop(const BpNest *nest, int32_t position) {
  BpLowering *lowering = nest->lowering;
  BpIrModule *module = lowering->module;
  const BpTeAxis *leaf = nest->stage->leaves[position];
  const BpIrNode *zero = bp__ir_int64(module, 0), *whole = extent_of(nest);
  const BpIrNode *rest = bp_ir_binary(module, BP_IR_SUB, whole, nest->steps);
  bool is_reverse = nest->stage->scan->is_reverse;
  const BpIrNode *min =
      nest->phase == BP__NEST_ZERO ? (is_reverse ? zero : nest->steps) : (is_reverse ? rest : zero);
  const BpIrNode *extent = nest->phase == BP__NEST_ZERO ? rest : nest->steps;
  const BpIrNode *var = bp_ir_var(module, leaf->name, bp__dtype_int64());
  BpNest inner = *nest;
  if (!var || !min || !extent ||
      bp__index_set_range(&lowering->index, var, 0, most_steps(nest) - 1, false) != 0)
    return NULL;
  inner.value[leaf->index] = var;
  inner.is_bound[leaf->index] = true;
  int32_t num_assumed = lowering->index.num_assumed;
  const BpIrNode *after = bp_ir_binary(module, BP_IR_ADD, var, bp__ir_int64(module, 1));
  bp__index_assume(&lowering->index, bp_ir_binary(module, BP_IR_SUB, whole, after));
  const BpIrNode *body = bp__nest_from(&inner, position + 1);
  bp__index_reset(&lowering->index, num_assumed);
  return bp_ir_for(module, var, min, extent, BP_IR_FOR_SERIAL, "", body);
}

/* Makes the main loops, and the loops that store zeros at places that no element reaches. */
static const BpIrNode *build_steps(const BpNest *nest, int32_t position) {
  const BpIrNode *parts[2] = {bp__nest_loops(nest, position), NULL};
  bool has_values = false;
  for (int32_t i = 0; i < nest->stage->num_values; i++)
    has_values |= nest->s->tensors[i].is_needed;
  if (!nest->steps || !has_values)
    return parts[0];
  parts[1] = phase_of(nest, position, BP__NEST_ZERO);
  return parts[0] && parts[1] ? in_sequence(nest, parts, 2) : NULL;
}

/* Makes the steps, as many as the element with the largest limit makes. */
static const BpIrNode *count_steps(const BpNest *nest, int32_t position) {
  BpLowering *lowering = nest->lowering;
  BpIrModule *module = lowering->module;
  const BpIrNode *one = bp__ir_int64(module, 1), *zero = bp__ir_int64(module, 0);
  const BpIrNode *count =
      bp_ir_buffer(module, "count", bp__dtype_int64(), BP_IR_SCOPE_LOCAL, &one, 1);
  const BpIrNode *var = bp_ir_var(module, "steps", bp__dtype_int64());
  const BpIrNode *limit = limit_here(nest);
  int sweeps = limit ? bp__index_has_free(&lowering->index, limit) : -1;
  BpNest bounded = *nest, counting = *nest;
  bounded.steps = var;
  bounded.is_masked = sweeps != 0;
  counting.steps = count;
  counting.phase = BP__NEST_LIMIT;
  counting.is_around = counting.is_serial = true;
  if (sweeps < 0 || !count || !var ||
      bp__index_set_range(&lowering->index, var, 0, most_steps(nest), false) != 0)
    return NULL;
  const BpIrNode *steps = build_steps(&bounded, position);
  if (!sweeps)
    return bp_ir_let(module, var, limit, steps);
  const BpIrNode *start[] = {count, zero, zero}, *read[] = {count, zero};
  const BpIrNode *parts[] = {
      bp__ir_evaluate(module, bp_ir_make(module, BP_IR_CALL, bp__dtype_int64(), start, 3,
                                         BP_IR_CALL_INTRINSIC, 0, BP__TE_WRITE)),
      bp__nest_loops(&counting, position),
      bp_ir_let(module, var,
                bp_ir_make(module, BP_IR_CALL, bp__dtype_int64(), read, 2, BP_IR_CALL_INTRINSIC, 0,
                           BP__TE_READ),
                steps)};
  return bp_ir_allocate(module, count, bp_ir_seq(module, parts, 3));
}

const BpIrNode *bp__scan_begin(const BpNest *nest, int32_t position) {
  const BpTeScan *scan = nest->stage->scan;
  BpNest whole = *nest;
  Inside inside;
  whole.is_masked = scan->limit != NULL;
  if (look_inside(nest->stage, position, &inside) != 0 ||
      make_states(nest, scope_of_states(nest->lowering, nest->stage, &inside)) != 0)
    return NULL;
  bool is_one_loop = nest->stage->leaves[position] == nest->stage->axes[scan->axis];
  const BpIrNode *parts[4] = {phase_of(nest, position, BP__NEST_INIT), turn(nest),
                              scan->limit && is_one_loop ? count_steps(nest, position)
                                                         : build_steps(&whole, position),
                              phase_of(nest, position, BP__NEST_LAST)};
  if (!parts[0] || !parts[2] || !parts[3])
    return NULL;
  return in_states(nest, in_sequence(nest, parts, 4));
}
