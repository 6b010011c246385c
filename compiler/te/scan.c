/* SPDX-License-Identifier: Apache-2.0 */
/* Scans: computations in steps along an axis, with states that each step updates. */

#include "compiler/ir/argument.h"
#include "compiler/te/te_private.h"

#include <backplane/object.h>

#include <string.h>

static BpTeScan *begin(BpTe *te, const char *name, BpTeShape shape, int32_t axis,
                       int32_t is_reverse) {
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  if (bp__te_check_shape(name, shape.extents, shape.ndim) != 0)
    return NULL;
  if (axis < 0 || axis >= shape.ndim) {
    bp_error_raise(BP_ERROR_VALUE, "scan %s runs along dimension %d of %d", name, axis, shape.ndim);
    return NULL;
  }
  BpTeScan *scan = bp__te_alloc(te, sizeof *scan);
  if (!scan || bp__te_make_vars(te, shape.ndim, vars) != 0 ||
      !(scan->name = bp__te_strdup(te, name)) ||
      !(scan->stage = bp__te_new_bare_stage(te, BP_TE_MAX_VALUES, shape, vars)))
    return NULL;
  scan->axis = axis;
  scan->is_reverse = is_reverse != 0;
  scan->outer = te->open_scan;
  scan->depth = scan->outer ? scan->outer->depth + 1 : 0;
  scan->stage->scan = scan;
  scan->stage->inside = scan->outer ? scan->outer->stage : NULL;
  scan->stage->axes[axis]->is_scan = 1;
  return te->open_scan = scan;
}

BpTeScan *bp_te_scan_begin(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                           int32_t axis, int32_t is_reverse) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_IS_LIST(shape, ndim))
    return NULL;
  return begin(te, name, (BpTeShape){shape, NULL, ndim}, axis, is_reverse);
}

BpTeScan *bp_te_scan_begin_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                                int32_t ndim, int32_t axis, int32_t is_reverse) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_IS_LIST(extents, ndim))
    return NULL;
  int64_t likely[BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_NDIM];
  if (bp__te_read_extents(te, name, extents, ndim, likely, open) != 0)
    return NULL;
  return begin(te, name, (BpTeShape){likely, open, ndim}, axis, is_reverse);
}

/* The extents of a scan's domain, or of a part of the domain, and the variables of its
 * dimensions. */
typedef struct Domain {
  int64_t likely[BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_NDIM], *vars[BP_TE_MAX_NDIM];
  int32_t ndim;
} Domain;

/* The dimensions of a scan's domain except `left_out`; -1 leaves out none. */
static Domain domain_of(const BpTeScan *scan, int32_t left_out) {
  Domain domain = {.ndim = 0};
  for (int32_t i = 0; i < scan->stage->ndim; i++) {
    const BpTeAxis *axis = scan->stage->axes[i];
    if (i == left_out)
      continue;
    domain.likely[domain.ndim] = axis->extent;
    domain.open[domain.ndim] = axis->open;
    domain.vars[domain.ndim++] = axis->var;
  }
  return domain;
}

static BpTeShape shape_of(const Domain *domain) {
  return (BpTeShape){domain->likely, domain->open, domain->ndim};
}

static int check_open(const BpTeScan *scan) {
  if (scan->stage->te->open_scan == scan)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "scan %s has ended, or one that began inside of it has not",
                        scan->name);
}

/* Fails if the type of a value is not the type of the state. */
static int check_type(const BpTeTensor *state, const char *what, const BpIrNode *value) {
  char have[32], want[32];
  if (bp__dtype_equal(value->dtype, state->dtype))
    return 0;
  bp_dtype_format(value->dtype, have, sizeof have);
  bp_dtype_format(state->dtype, want, sizeof want);
  return bp_error_raise(BP_ERROR_TYPE, "state %s is of %s, and its value %s of %s", state->name,
                        want, what, have);
}

/* Evaluates `body` over the scan's dimensions except its axis. */
static const BpIrNode *evaluate_before(BpTeScan *scan, BpTeBody body, void *context) {
  BpTe *te = scan->stage->te;
  Domain domain = domain_of(scan, scan->axis);
  return bp__te_widen(te->ir, body(te, domain.vars, context));
}

static const BpIrNode *zero_of(BpIrModule *ir, BpDataType dtype) {
  return bp__dtype_is_float(dtype) ? bp_ir_float(ir, dtype, 0) : bp_ir_int(ir, dtype, 0);
}

BpTeTensor *bp_te_scan_state(BpTeScan *scan, const char *name, BpDataType dtype, BpTeBody initial,
                             void *context) {
  if (!BP_NOT_NULL(name))
    return NULL;
  if (!BP_OPERAND(scan) || check_open(scan) != 0 ||
      bp__te_check_count(scan->name, scan->num_states + 1) != 0)
    return NULL;
  BpTeStage *stage = scan->stage;
  Domain domain = domain_of(scan, -1);
  BpTeTensor *state = bp__te_add_tensor(stage->te, name, dtype, shape_of(&domain));
  const BpIrNode *value =
      initial ? evaluate_before(scan, initial, context) : zero_of(stage->te->ir, dtype);
  if (!state || !value || check_type(state, "before the first step", value) != 0)
    return NULL;
  state->state_of = stage;
  scan->initial[scan->num_states] = value;
  return scan->states[scan->num_states++] = state;
}

int bp_te_scan_limit(BpTeScan *scan, BpTeBody limit, void *context) {
  if (!BP_NOT_NULL(limit))
    return -1;
  if (!BP_OPERAND(scan) || check_open(scan) != 0)
    return -1;
  BpIrModule *ir = scan->stage->te->ir;
  const BpIrNode *value = evaluate_before(scan, limit, context);
  if (!value)
    return -1;
  if (!bp__dtype_is_int(value->dtype))
    return bp_error_raise(BP_ERROR_TYPE, "the limit of scan %s is no integer", scan->name);
  const BpTeAxis *steps = scan->stage->axes[scan->axis];
  const BpIrNode *extent = steps->open ? steps->open : bp__ir_int64(ir, steps->extent);
  value = bp_ir_cast(ir, bp__dtype_int64(), value);
  value = bp_ir_binary(ir, BP_IR_MAX, value, bp__ir_int64(ir, 0));
  scan->limit = bp_ir_binary(ir, BP_IR_MIN, value, extent);
  return scan->limit ? 0 : -1;
}

/* ---- The end ----------------------------------------------------------------------------- */

static int check_values(const BpTeScan *scan, const BpIrNode *const *values, int32_t num_values) {
  if (scan->num_states < 1 || num_values < scan->num_states)
    return bp_error_raise(BP_ERROR_VALUE,
                          "scan %s has %d states and gives %d values; at least one state, and a "
                          "value for each, are wanted",
                          scan->name, scan->num_states, num_values);
  for (int32_t i = 0; i < scan->num_states; i++)
    if (check_type(scan->states[i], "after a step", values[i]) != 0)
      return -1;
  return 0;
}

/* Adds the scan's tensors: the values of all steps, then the last states. */
static int add_tensors(const BpTeScan *scan, const BpIrNode *body, int32_t num_values) {
  BpTeStage *stage = scan->stage;
  Domain whole = domain_of(scan, -1), rest = domain_of(scan, scan->axis);
  stage->num_values = num_values;
  stage->num_tensors = num_values + scan->num_states;
  for (int32_t i = 0; i < num_values; i++)
    if (bp__te_add_output(stage, i, scan->name, bp__te_value(stage, body, i)->dtype,
                          shape_of(&whole)) != 0)
      return -1;
  for (int32_t i = 0; i < scan->num_states; i++) {
    if (bp__te_add_output(stage, num_values + i, scan->name, scan->states[i]->dtype,
                          shape_of(&rest)) != 0)
      return -1;
    stage->tensors[num_values + i]->skipped = scan->axis;
  }
  return 0;
}

/* Rejects a step's variables and states in values that are evaluated before the first step. */
static int visit_step(void *context, const BpIrNode *node) {
  const BpTeScan *scan = context;
  const BpTeTensor *read =
      bp__te_is_read(node) ? bp__te_tensor_of(scan->stage->te, node->operands[0]) : NULL;
  if (!read ||
      (read->state_of != scan->stage && (!read->stage || read->stage->inside != scan->stage)))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "scan %s reads %s, which belongs to its steps, before the first step",
                        scan->name, read->name);
}

static int set_before(BpTeScan *scan) {
  const BpIrNode *before[BP_TE_MAX_VALUES + 1];
  int32_t count = 0;
  for (; count < scan->num_states; count++)
    before[count] = scan->initial[count];
  if (scan->limit)
    before[count++] = scan->limit;
  scan->before = bp__te_tuple(scan->stage->te->ir, before, count);
  return scan->before ? bp__ir_visit_once(scan->before, visit_step, scan) : -1;
}

int bp_te_scan_end(BpTeScan *scan, BpTeTupleBody body, void *context, int32_t num_values,
                   BpTeTensor **each, BpTeTensor **last) {
  if (!BP_NOT_NULL(body) || !BP_NOT_NULL(last) || !BP_IS_LIST(each, num_values))
    return -1;
  const BpIrNode *vars[BP_TE_MAX_NDIM], *values[BP_TE_MAX_VALUES] = {NULL};
  if (!BP_OPERAND(scan) || check_open(scan) != 0 ||
      bp__te_check_count(scan->name, num_values) != 0 ||
      bp__te_check_count(scan->name, num_values + scan->num_states) != 0)
    return -1;
  BpTeStage *stage = scan->stage;
  for (int32_t i = 0; i < stage->ndim; i++)
    vars[i] = stage->axes[i]->var;
  if (body(stage->te, vars, context, values) != 0)
    return -1;
  for (int32_t i = 0; i < num_values; i++)
    if (!(values[i] = bp__te_widen(stage->te->ir, values[i])))
      return -1;
  const BpIrNode *step = bp__te_tuple(stage->te->ir, values, num_values);
  if (!step || check_values(scan, values, num_values) != 0 || set_before(scan) != 0 ||
      add_tensors(scan, step, num_values) != 0 || bp__te_set_body(stage, step) != 0)
    return -1;
  stage->te->open_scan = scan->outer;
  memcpy(each, stage->tensors, (size_t)num_values * sizeof *each);
  memcpy(last, stage->tensors + num_values, (size_t)scan->num_states * sizeof *last);
  return 0;
}
