/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the cells of recurrent layers.
 *
 * For each direction a layer is one product of all inputs with their weights, and an operator of
 * Backplane that makes the steps: LSTMSteps, GRUSteps or RNNSteps. The inputs of the operator for
 * the steps are:
 *
 * - 0: the product with the inputs, biases added: (steps, batch, gates * hidden)
 * - 1: the weights of the state: (hidden, gates * hidden), or in panels: (panels, hidden, panel)
 * - 2: the state before the first step: (batch, hidden); absent: zero
 * - 3: sequence lengths: (batch); absent: all steps
 * - 4, 5: further inputs of the cell; absent: none
 * - 6: the scale of each column of the weights, (gates * hidden), or of all, (1). Then the weights
 *   are integers, and the state is quantised before each step's product, each row of the batch by
 *   a range of its own; absent: the weights are numbers
 * - 7: the sum of each column of the weights, int32 (gates * hidden). Then the weights are words
 *   of four signed bytes, and the attributes hidden and is_dot are set
 * - 8: the shift that was subtracted from the weights of each column, like 7; absent: 0
 *
 * The outputs are the states after each step, (steps, batch, hidden), and the states after the last
 * step. */
#ifndef BACKPLANE_GRAPH_OPS_RECURRENT_H
#define BACKPLANE_GRAPH_OPS_RECURRENT_H

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* A cell during its computation. */
typedef struct BpCell {
  const BpOpCompute *op;
  BpTe *te;
  BpIrModule *ir;
  BpTeScan *scan;
  int64_t steps, batch; /* extents, may be open */
  int64_t hidden;
  int64_t terms;            /* of the product with the state: elements, or words of four bytes */
  BpTeTensor *state;        /* the state before a step */
  BpTeTensor *least, *most; /* with integer weights: ends of the state's range */
  BpTeTensor *scale, *zero; /* scale and zero point of the quantised state */
  BpTeTensor *codes, *sum;  /* with words: codes of the state, and their sum if there are shifts */
} BpCell;

/* Begins the scan with the cell's first state: an input if it is present, else zero. */
int bp__cell_begin(BpCell *cell, const BpOpCompute *op);
/* Adds a state to the scan, whose first value is input `input`; NULL with an error. */
BpTeTensor *bp__cell_state(BpCell *cell, const char *name, int32_t input);
/* Makes the product of `state`, in a step, with the weights of gates [first, first + gates):
 * (steps, batch, gates, hidden). */
BpTeTensor *bp__cell_product(BpCell *cell, BpTeTensor *state, int64_t first, int64_t gates);
/* Quantises the state for a product with integer weights: returns its differences from the zero
 * point, or its words; NULL with an error. */
BpTeTensor *bp__cell_quantized(BpCell *cell);
/* The number that a sum of products of integers stands for. */
const BpIrNode *bp__cell_scaled(const BpCell *cell, const BpIrNode *sum,
                                const BpIrNode *const *axes, int64_t gate);
/* Ends the scan and makes the node's outputs; `body` is called with `context`. */
int bp__cell_end(BpCell *cell, BpTeTupleBody body, void *context, BpTeTensor **outputs);

/* The part of a gate that depends on the inputs, in the type in which the gate is computed. */
const BpIrNode *bp__cell_input(const BpCell *cell, const BpIrNode *const *axes, int64_t gate);
/* Read a gate of a product (steps, batch, gates, hidden), and an element of a vector (hidden) or of
 * (batch, hidden) by its last axis. */
const BpIrNode *bp__cell_gate(const BpCell *cell, BpTeTensor *product, const BpIrNode *const *axes,
                              int64_t gate);
const BpIrNode *bp__cell_vector(const BpCell *cell, BpTeTensor *vector, const BpIrNode *const *axes,
                                int64_t part);
/* Applies activation function `index` of the cell to a value, which is clipped first if the node
 * has the attribute clip. */
const BpIrNode *bp__cell_activate(const BpCell *cell, int32_t index, const BpIrNode *value);

#endif
