/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a GRU. The gates of a GRU are update, reset and hidden. The GRU's own input is a
 * bias that is added to the product of the state for the last gate: (hidden). */
#include "graph/ops/recurrent.h"

enum { UPDATE, RESET, HIDDEN };

typedef struct Gru {
  BpCell cell;
  int resets_product;  /* linear_before_reset: reset multiplies the product, not the state */
  BpTeTensor *product; /* product of the state for all gates, or for all but the last */
  BpTeTensor *kept;    /* the state after the reset gate */
  BpTeTensor *of_kept; /* product of `kept` for the last gate */
} Gru;

static const BpIrNode *gate(const Gru *gru, const BpIrNode *const *axes, int64_t which) {
  const BpIrNode *product = bp__cell_gate(&gru->cell, gru->product, axes, which);
  return bp__cell_activate(&gru->cell, 0,
                           x_add(gru->cell.ir, product, bp__cell_input(&gru->cell, axes, which)));
}

static const BpIrNode *kept_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Gru *gru = context;
  return x_mul(gru->cell.ir, gate(gru, axes, RESET),
               x_wide(gru->cell.ir, bp_te_read(te, gru->cell.state, axes)));
}

/* The part of the last gate that depends on the state, with the gate's bias. */
static const BpIrNode *from_state(const Gru *gru, const BpIrNode *const *axes) {
  BpIrModule *ir = gru->cell.ir;
  const BpIrNode *product = gru->resets_product
                                ? bp__cell_gate(&gru->cell, gru->product, axes, HIDDEN)
                                : bp__cell_gate(&gru->cell, gru->of_kept, axes, 0);
  if (gru->cell.op->inputs[4])
    product = x_add(ir, product, bp__cell_vector(&gru->cell, gru->cell.op->inputs[4], axes, 0));
  return gru->resets_product ? x_mul(ir, gate(gru, axes, RESET), product) : product;
}

/* The new state: update * before + (1 - update) * fresh. */
static int step_body(BpTe *te, const BpIrNode *const *axes, void *context,
                     const BpIrNode **values) {
  const Gru *gru = context;
  BpIrModule *ir = gru->cell.ir;
  const BpIrNode *before = x_wide(ir, bp_te_read(te, gru->cell.state, axes));
  const BpIrNode *update = gate(gru, axes, UPDATE);
  const BpIrNode *fresh = bp__cell_activate(
      &gru->cell, 1, x_add(ir, bp__cell_input(&gru->cell, axes, HIDDEN), from_state(gru, axes)));
  const BpIrNode *state = x_add(ir, fresh, x_mul(ir, update, x_sub(ir, before, fresh)));
  values[0] = state ? bp_ir_cast(ir, gru->cell.op->node->outputs[0]->dtype, state) : NULL;
  return values[0] ? 0 : -1;
}

BP_ROW_COMPUTE(gru_steps) {
  Gru gru = {.resets_product = bp__node_int(op->node, "linear_before_reset", 0) != 0};
  const BpGraphValue *out = op->node->outputs[0];
  if (bp__cell_begin(&gru.cell, op) ||
      !(gru.product = bp__cell_product(&gru.cell, gru.cell.state, 0, gru.resets_product ? 3 : 2)))
    return -1;
  if (!gru.resets_product) {
    gru.kept = bp__op_tensor(op, "kept", out->shape, out->ndim, kept_body, &gru);
    gru.of_kept = gru.kept ? bp__cell_product(&gru.cell, gru.kept, HIDDEN, 1) : NULL;
    if (!gru.of_kept)
      return -1;
  }
  return bp__cell_end(&gru.cell, step_body, &gru, outputs);
}
