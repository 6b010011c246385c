/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the cells of recurrent layers.
 *
 * A layer is, for each direction, one product of all inputs with their weights, and an operator of
 * this project that makes the steps: LSTMSteps, GRUSteps, RNNSteps. Its inputs:
 *
 * - 0: the product with the inputs, biases added: (steps, batch, gates * hidden)
 * - 1: the weights of the state: (hidden, gates * hidden), or in panels: (panels, hidden, panel)
 * - 2: the state before the first step: (batch, hidden); absent: zero
 * - 3: sequence lengths: (batch); absent: all steps
 * - 4, 5: the cell's own; they may be absent, too
 *
 * Its outputs are the states after each step, (steps, batch, hidden), and those after the last
 * one. */
#ifndef BACKPLANE_GRAPH_OPS_RECURRENT_H
#define BACKPLANE_GRAPH_OPS_RECURRENT_H

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* A cell while it is computed. */
typedef struct BpCell {
  const BpOpCompute *op;
  BpTe *te;
  BpIrModule *ir;
  BpTeScan *scan;
  int64_t steps, batch; /* may be open */
  int64_t hidden;
  BpTeTensor *state; /* before a step */
} BpCell;

/* Begins the scan with its first state, whose input is there, or zero. */
int bp__cell_begin(BpCell *cell, const BpOpCompute *op);
/* One more state, from input `input`. NULL with an error. */
BpTeTensor *bp__cell_state(BpCell *cell, const char *name, int32_t input);
/* In a step, the product of `state` with the weights of gates [first, first + gates):
 * (steps, batch, gates, hidden). */
BpTeTensor *bp__cell_product(BpCell *cell, BpTeTensor *state, int64_t first, int64_t gates);
/* Ends the scan and gives the node's outputs; `body` gets `context`. */
int bp__cell_end(BpCell *cell, BpTeTupleBody body, void *context, BpTeTensor **outputs);

/* The part of a gate that depends on the inputs, in the type in which the gate is computed. */
const BpIrNode *bp__cell_input(const BpCell *cell, const BpIrNode *const *axes, int64_t gate);
/* A read of (steps, batch, gates, hidden) and of (hidden), or of (batch, hidden) by its last axis.
 */
const BpIrNode *bp__cell_gate(const BpCell *cell, BpTeTensor *product, const BpIrNode *const *axes,
                              int64_t gate);
const BpIrNode *bp__cell_vector(const BpCell *cell, BpTeTensor *vector, const BpIrNode *const *axes,
                                int64_t part);
/* Function `index` of the cell, of a value that is clipped first, if the node says so. */
const BpIrNode *bp__cell_activate(const BpCell *cell, int32_t index, const BpIrNode *value);

#endif
