/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an LSTM. The gates of an LSTM are input, output, forget and cell. The LSTM's own
 * inputs are the cell before the first step, and the peepholes, three times (hidden). */
#include "graph/ops/recurrent.h"

enum { INPUT, OUTPUT, FORGET, CELL };

/* The peepholes, in their order in the input. */
enum { OF_INPUT, OF_OUTPUT, OF_FORGET };

typedef struct Lstm {
  BpCell cell;
  BpTeTensor *content; /* content of the cell before a step */
  BpTeTensor *product;
} Lstm;

/* The argument of a gate's activation function; with peepholes it depends on the cell's content. */
static const BpIrNode *gate_input(const Lstm *lstm, const BpIrNode *const *axes, int64_t gate,
                                  int64_t peephole, const BpIrNode *content) {
  BpIrModule *ir = lstm->cell.ir;
  const BpIrNode *sum = x_add(ir, bp__cell_gate(&lstm->cell, lstm->product, axes, gate),
                              bp__cell_input(&lstm->cell, axes, gate));
  BpTeTensor *peepholes = lstm->cell.op->inputs[5];
  if (!peepholes || peephole < 0)
    return sum;
  return x_add(ir, sum,
               x_mul(ir, bp__cell_vector(&lstm->cell, peepholes, axes, peephole), content));
}

static int step_body(BpTe *te, const BpIrNode *const *axes, void *context,
                     const BpIrNode **values) {
  const Lstm *lstm = context;
  const BpCell *cell = &lstm->cell;
  BpIrModule *ir = cell->ir;
  const BpIrNode *before = x_wide(ir, bp_te_read(te, lstm->content, axes));
  const BpIrNode *input =
      bp__cell_activate(cell, 0, gate_input(lstm, axes, INPUT, OF_INPUT, before));
  const BpIrNode *forget =
      bp__node_int(cell->op->node, "input_forget", 0)
          ? x_sub(ir, x_number(ir, x_dtype(input), 1), input)
          : bp__cell_activate(cell, 0, gate_input(lstm, axes, FORGET, OF_FORGET, before));
  const BpIrNode *fresh = bp__cell_activate(cell, 1, gate_input(lstm, axes, CELL, -1, NULL));
  const BpIrNode *content = x_add(ir, x_mul(ir, forget, before), x_mul(ir, input, fresh));
  const BpIrNode *output =
      bp__cell_activate(cell, 0, gate_input(lstm, axes, OUTPUT, OF_OUTPUT, content));
  const BpIrNode *state = x_mul(ir, output, bp__cell_activate(cell, 2, content));
  BpDataType dtype = cell->op->node->outputs[0]->dtype;
  values[0] = state ? bp_ir_cast(ir, dtype, state) : NULL;
  values[1] = content ? bp_ir_cast(ir, dtype, content) : NULL;
  return values[0] && values[1] ? 0 : -1;
}

BP_ROW_COMPUTE(lstm_steps) {
  Lstm lstm = {.product = NULL};
  BpTeTensor *state;
  if (bp__cell_begin(&lstm.cell, op) || !(lstm.content = bp__cell_state(&lstm.cell, "content", 4)))
    return -1;
  state = op->inputs[6] ? bp__cell_quantized(&lstm.cell) : lstm.cell.state;
  if (!state || !(lstm.product = bp__cell_product(&lstm.cell, state, 0, 4)))
    return -1;
  return bp__cell_end(&lstm.cell, step_body, &lstm, outputs);
}
