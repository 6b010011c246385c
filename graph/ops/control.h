/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow: nodes that run bodies, and nodes of sequences whose tensors a run decides. The
 * importer makes them, the machine runs them (graph/build/program.c); the table of operators, which
 * is for nodes that are computed, does not have them.
 *
 * A branch: input 0 is the condition, one bool; then come the inputs of bodies[0], which runs where
 * it holds, and those of bodies[1]. Output k is output k of the body that ran.
 *
 * A loop: input 0 is the number of iterations, one int64, or NULL; input 1 is the condition before
 * the first, one bool, or NULL. Then come the carried values before the first iteration, and what
 * the body captures. The inputs of the body are the number of the iteration, the carried values and
 * what is captured. Its outputs are the carried values for the next iteration, an element of each
 * stack, and last, where the loop has a condition, that of the next iteration. The outputs of the
 * node are the carried values after the last iteration, and the stacks: the elements of all
 * iterations, one behind the other along a new first dimension.
 *
 * Nodes of sequences are as ONNX has them, with the attributes axis and new_axis or keepdims, which
 * are always there. SequenceAt without a position is OptionalGetElement. Tensors in a sequence are
 * those that were put there: nobody writes them.
 *
 * Symbols in the shapes of a body's inputs and of the node's outputs which no input of the model
 * has are bound by the tensors that the machine has there. */
#ifndef BACKPLANE_GRAPH_OPS_CONTROL_H
#define BACKPLANE_GRAPH_OPS_CONTROL_H

#include "graph/ops/op.h"

extern const BpOp bp__op_branch;
/* Its attributes: carried, how many values; condition, whether the body gives one; counted, whether
 * input 0 alone says how many iterations there are; backward, for each stack whether the element of
 * the first iteration is its last. */
extern const BpOp bp__op_loop;

/* The nodes of sequences. */
typedef enum BpSequenceOp {
  BP_SEQUENCE_CONSTRUCT,
  BP_SEQUENCE_INSERT,
  BP_SEQUENCE_ERASE,
  BP_SEQUENCE_AT,
  BP_SEQUENCE_LENGTH,
  BP_SEQUENCE_CONCAT,
  BP_SEQUENCE_SPLIT,
  BP_NUM_SEQUENCE_OPS
} BpSequenceOp;
extern const BpOp bp__op_sequences[BP_NUM_SEQUENCE_OPS];

static inline int bp__op_is_control(const BpGraphNode *node) {
  return node->is_control;
}

/* Which of the nodes of sequences it is, or -1. */
int32_t bp__op_sequence(const BpGraphNode *node);

/* Whether the graph may have such nodes: it is for one target. */
static inline int bp__graph_can_control(const BpGraph *graph) {
  return graph->extents.arena != NULL;
}

/* Whether an output of the node may be the tensor of input `input`, or have that tensor in its
 * sequence. The memory of the input must then last as long as each output. */
bool bp__control_hands_on(const BpGraphNode *node, int32_t input);

/* Whether a node of the graph is one. */
int bp__graph_has_control(const BpGraph *graph);

#endif
