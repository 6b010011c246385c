/* SPDX-License-Identifier: Apache-2.0 */
/* Pad with pads, or along axes, that depend on the data. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* The numbers that a run computes for each axis: the new extent; the number of elements added
 * before the axis; and the start and the length of the kept part of the input. */
enum { EXTENT, BEFORE, START, LEFT, NUM_KINDS };

/* Puts the pads into the order of the input's axes; *is_valid tells whether each axis is valid and
 * occurs once. */
static int spread_pads(BpVectorMaker m, BpGraphValue **begin, BpGraphValue **end,
                       BpGraphValue **is_valid) {
  int32_t ndim = m.node->inputs[0]->ndim;
  int64_t count, num_axes;
  BpGraphValue *zero = v_number(m, 0), *one = v_number(m, 1);
  BpGraphValue *axes = bp__vector_read(m, 3, BP_GRAPH_MAX_NDIM, &num_axes);
  if (!axes && bp__node_input(m.node, 3))
    return -1;
  if (!axes) {
    axes = v_places(m, ndim);
    num_axes = ndim;
  }
  BpGraphValue *pads = bp__vector_read_as(m, 1, 2 * BP_GRAPH_MAX_NDIM, 2 * num_axes, &count);
  if (!pads)
    return -1;
  if (count != 2 * num_axes || num_axes > ndim)
    return bp__op_bad(m.node, "it has %d pads for %d axes", (int)count, (int)num_axes);
  axes = v_choose(m, v_binary(m, "Less", axes, zero), v_binary(m, "Add", axes, v_number(m, ndim)),
                  axes);
  BpGraphValue *is_at = v_binary(m, "Equal", v_column(m, v_places(m, ndim)), axes);
  BpGraphValue *times = v_sum_rows(m, v_choose(m, is_at, one, zero));
  BpGraphValue *found = v_reduce(m, "ReduceSum", v_least(m, times, one));
  *is_valid = v_binary(m, "Equal", found, v_number(m, num_axes));
  BpGraphValue *first = bp__op_slice(m.graph, m.node, pads, 0, 0, num_axes);
  BpGraphValue *second = bp__op_slice(m.graph, m.node, pads, 0, num_axes, count);
  *begin = v_sum_rows(m, v_choose(m, is_at, first, zero));
  *end = v_sum_rows(m, v_choose(m, is_at, second, zero));
  return *begin && *end && *is_valid ? 0 : -1;
}

/* Whether pads are small; a larger pad is treated as impossible. */
static BpGraphValue *is_small(BpVectorMaker m, BpGraphValue *pads) {
  return v_binary(m, "And", v_binary(m, "LessOrEqual", pads, v_number(m, INT32_MAX)),
                  v_binary(m, "GreaterOrEqual", pads, v_number(m, -INT32_MAX)));
}

/* Computes the numbers that are known when the pads are constants; the others are
 * BP_EXTENT_NONE. */
static int know_kinds(BpVectorMaker m, const BpGraphValue *begin, const BpGraphValue *end,
                      int64_t *known) {
  const BpGraphValue *in = m.node->inputs[0];
  for (int32_t i = 0; i < NUM_KINDS * in->ndim; i++)
    known[i] = BP_EXTENT_NONE;
  for (int32_t i = 0; i < in->ndim && begin->data && end->data; i++) {
    int64_t before = bp__value_get_int(begin, i), behind = bp__value_get_int(end, i);
    if (llabs(before) > INT32_MAX || llabs(behind) > INT32_MAX)
      continue;
    known[EXTENT * in->ndim + i] = bp__extent_add(&m.graph->extents, in->shape[i], before + behind);
    if (known[EXTENT * in->ndim + i] == BP_EXTENT_NONE)
      return -1;
    known[BEFORE * in->ndim + i] = before > 0 ? before : 0;
    known[START * in->ndim + i] = before < 0 ? -before : 0;
    if (before >= 0 && behind >= 0)
      known[LEFT * in->ndim + i] = in->shape[i];
  }
  return 0;
}

int bp__bind_pad(BpVectorMaker m, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0], *fill = bp__node_input(node, 2);
  const char *mode = bp__node_str(node, "mode", "constant");
  bool is_constant = !strcmp(mode, "constant");
  BpGraphValue *begin = NULL, *end = NULL, *is_valid = NULL, *zero = v_number(m, 0);
  if (in->ndim == 0)
    return bp__op_error(node, "its input is a scalar, and its pads depend on the data");
  if (fill && (bp__value_num_elements(fill) != 1 || !bp__dtype_equal(fill->dtype, in->dtype)))
    return bp__op_bad(node, "its fill value is not a scalar of the input's type");
  if (!is_constant && strcmp(mode, "reflect") && strcmp(mode, "edge") && strcmp(mode, "wrap"))
    return bp__op_bad(node, "mode '%s' is not one of constant, reflect, edge and wrap", mode);
  int64_t known[NUM_KINDS * BP_GRAPH_MAX_NDIM];
  if (spread_pads(m, &begin, &end, &is_valid) || know_kinds(m, begin, end, known))
    return -1;
  BpGraphValue *own = v_extents(m, in->shape, in->ndim);
  BpGraphValue *start = v_greatest(m, v_binary(m, "Sub", zero, begin), zero);
  BpGraphValue *cut = v_greatest(m, v_binary(m, "Sub", zero, end), zero);
  BpGraphValue *left = v_binary(m, "Sub", v_binary(m, "Sub", own, start), cut);
  BpGraphValue *extent = v_binary(m, "Add", v_binary(m, "Add", own, begin), end);
  BpGraphValue *fits = v_binary(m, "And", is_small(m, begin), is_small(m, end));
  if (!is_constant)
    fits = v_binary(
        m, "And", fits,
        v_binary(m, "Or", v_binary(m, "Greater", left, zero), v_binary(m, "Equal", extent, zero)));
  fits = v_binary(m, "And", fits, is_valid);
  BpGraphValue *parts[NUM_KINDS] = {[EXTENT] = v_choose(m, fits, extent, v_number(m, -1)),
                                    [BEFORE] = v_greatest(m, begin, zero),
                                    [START] = start,
                                    [LEFT] = v_greatest(m, left, zero)};
  BpGraphValue *vector =
      bp__op_bind(m.graph, node, v_join(m, parts, NUM_KINDS), known,
                  "its pads remove more than there is, have nothing to copy, or their axes are not "
                  "its input's");
  BpGraphValue *none =
      fill ? node->inputs[2] : bp__graph_constant(m.graph, node->name, in->dtype, NULL, 0, NULL);
  none = bp__op_reshape(m.graph, node, none, NULL, 0);
  BpGraphAttr attr = {.name = "mode", .type = BP_GRAPH_ATTR_STRING, .str = mode};
  node->outputs[0] = bp__op_apply(m.graph, "backplane", "PadIn", node->name,
                                  (BpGraphValue *[]){node->inputs[0], vector, none}, 3, &attr, 1);
  return node->outputs[0] ? 1 : -1;
}

static int read_kinds(const BpGraphNode *node, int64_t *kinds) {
  return bp__op_const_extents(node, 1, kinds, NUM_KINDS * BP_GRAPH_MAX_NDIM) < 0 ? -1 : 0;
}

BP_ROW_INFER(pad_in) {
  const BpGraphValue *in = node->inputs[0];
  int64_t kinds[NUM_KINDS * BP_GRAPH_MAX_NDIM];
  return read_kinds(node, kinds) ? -1
                                 : bp__node_set_output(graph, node, 0, in->dtype, kinds, in->ndim);
}

/* The position, in the kept part of an axis, that a position before, in or after that part copies,
 * for pads of any length. */
static const BpIrNode *copied(BpIrModule *ir, const char *mode, const BpIrNode *place,
                              const BpIrNode *left) {
  const BpIrNode *zero = x_index(ir, 0), *one = x_index(ir, 1), *last = x_sub(ir, left, one);
  if (!strcmp(mode, "wrap"))
    return bp_ir_binary(ir, BP_IR_FLOORMOD, place, x_max(ir, left, one));
  if (!strcmp(mode, "reflect")) {
    const BpIrNode *period = x_max(ir, x_mul(ir, last, x_index(ir, 2)), one);
    place = bp_ir_binary(ir, BP_IR_FLOORMOD, place, period);
    place = x_min(ir, place, x_sub(ir, period, place));
  }
  return x_max(ir, x_min(ir, place, last), zero);
}

/* The same for pads shorter than the kept part, without a division. */
static const BpIrNode *copied_once(BpIrModule *ir, const char *mode, const BpIrNode *place,
                                   const BpIrNode *left) {
  const BpIrNode *zero = x_index(ir, 0), *twice = x_index(ir, 2);
  if (!strcmp(mode, "wrap"))
    return bp_ir_select(ir, x_lt(ir, place, zero), x_add(ir, place, left),
                        bp_ir_select(ir, x_lt(ir, place, left), place, x_sub(ir, place, left)));
  place = x_max(ir, place, x_sub(ir, zero, place));
  return x_min(ir, place, x_sub(ir, x_mul(ir, x_sub(ir, left, x_index(ir, 1)), twice), place));
}

/* The parts of PadIn's computation: indices of the input, by axis. */
typedef struct PadIn {
  const BpOpCompute *op;
  const char *mode;
  int32_t ndim;
  int64_t kinds[NUM_KINDS * BP_GRAPH_MAX_NDIM];
} PadIn;

static const BpIrNode *kind_of(const PadIn *pad, int kind, int32_t i) {
  return bp__op_extent(pad->op, pad->kinds[kind * pad->ndim + i]);
}

/* Whether an axis has no pads. */
static bool is_whole(const PadIn *pad, int32_t i) {
  const int64_t *kinds = pad->kinds;
  return kinds[BEFORE * pad->ndim + i] == 0 &&
         kinds[LEFT * pad->ndim + i] == kinds[EXTENT * pad->ndim + i];
}

/* Whether all pads are shorter than the kept parts: a condition of the whole computation, for which
 * lowering makes one branch. NULL: no axis has pads. */
static const BpIrNode *are_short(BpIrModule *ir, const PadIn *pad) {
  const BpIrNode *all = NULL;
  for (int32_t i = 0; i < pad->ndim; i++) {
    if (is_whole(pad, i))
      continue;
    const BpIrNode *left = kind_of(pad, LEFT, i), *before = kind_of(pad, BEFORE, i);
    const BpIrNode *behind = x_sub(ir, x_sub(ir, kind_of(pad, EXTENT, i), before), left);
    const BpIrNode *is_short = x_and(ir, x_lt(ir, before, left), x_lt(ir, behind, left));
    all = all ? x_and(ir, all, is_short) : is_short;
  }
  return all;
}

static const BpIrNode *pad_in_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  PadIn pad = {.op = context};
  BpIrModule *ir = bp_te_ir(te);
  pad.mode = bp__node_str(pad.op->node, "mode", "constant");
  pad.ndim = pad.op->node->inputs[0]->ndim;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *inside = NULL;
  if (read_kinds(pad.op->node, pad.kinds))
    return NULL;
  bool is_constant = !strcmp(pad.mode, "constant"), is_edge = !strcmp(pad.mode, "edge");
  const BpIrNode *is_short = is_constant || is_edge ? NULL : are_short(ir, &pad);
  for (int32_t i = 0; i < pad.ndim; i++) {
    const BpIrNode *left = kind_of(&pad, LEFT, i);
    const BpIrNode *place = x_sub(ir, axes[i], kind_of(&pad, BEFORE, i));
    const BpIrNode *is_inside = x_and(ir, x_ge(ir, place, x_index(ir, 0)), x_lt(ir, place, left));
    inside = inside ? x_and(ir, inside, is_inside) : is_inside;
    const BpIrNode *any = is_constant ? place : copied(ir, pad.mode, place, left);
    if (is_short && !is_whole(&pad, i))
      place = bp_ir_select(ir, is_short, copied_once(ir, pad.mode, place, left), any);
    else if (!is_whole(&pad, i))
      place = any;
    indices[i] = x_add(ir, place, kind_of(&pad, START, i));
  }
  const BpIrNode *element = bp_te_read(te, pad.op->inputs[0], indices);
  if (!is_constant)
    return element;
  return bp_ir_select(ir, inside, element, bp_te_read(te, pad.op->inputs[2], NULL));
}

BP_ROW_COMPUTE(pad_in) {
  return bp__op_give_body(op, "Pad", pad_in_body, outputs);
}
