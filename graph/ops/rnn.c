/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plain recurrent layer: one activation function of the sum of both products. */
#include "graph/ops/recurrent.h"

typedef struct Rnn {
  BpCell cell;
  BpTeTensor *product;
} Rnn;

static int step_body(BpTe *te, const BpIrNode *const *axes, void *context,
                     const BpIrNode **values) {
  const Rnn *rnn = context;
  BpIrModule *ir = rnn->cell.ir;
  const BpIrNode *sum = x_add(ir, bp__cell_gate(&rnn->cell, rnn->product, axes, 0),
                              bp__cell_input(&rnn->cell, axes, 0));
  const BpIrNode *state = bp__cell_activate(&rnn->cell, 0, sum);
  (void)te;
  values[0] = state ? bp_ir_cast(ir, rnn->cell.op->node->outputs[0]->dtype, state) : NULL;
  return values[0] ? 0 : -1;
}

BP_ROW_COMPUTE(rnn_steps) {
  Rnn rnn = {.product = NULL};
  if (bp__cell_begin(&rnn.cell, op) ||
      !(rnn.product = bp__cell_product(&rnn.cell, rnn.cell.state, 0, 1)))
    return -1;
  return bp__cell_end(&rnn.cell, step_body, &rnn, outputs);
}
