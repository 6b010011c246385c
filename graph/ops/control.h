/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow: nodes that run bodies, and nodes of sequences whose tensors a run decides. The
 * importer makes nodes of control flow, and the machine executes them (graph/build/program.c). The
 * table of operators does not contain control flow, which is not computed.
 *
 * A branch: input 0 is the condition, one bool; then come the inputs of bodies[0], which runs if
 * the condition is true, and the inputs of bodies[1]. Output k is output k of the body that ran.
 *
 * A loop: input 0 is the number of iterations, one int64, or NULL; input 1 is the condition before
 * the first iteration, one bool, or NULL. Inputs 2 and later are the carried values before the
 * first iteration, then the captured values. The inputs of the body are the number of the
 * iteration, the carried values and the captured values. The outputs of the body are the carried
 * values for the next iteration, an element of each stack and, if the loop has a condition, the
 * condition of the next iteration. The outputs of the node are the carried values after the last
 * iteration, and the stacks: the elements of all iterations, concatenated along a new first
 * dimension.
 *
 * Nodes of sequences are the operators of ONNX, with the attributes axis and new_axis or keepdims
 * always present. SequenceAt without a position is OptionalGetElement. A sequence contains the
 * inserted tensors themselves, which no node writes to. Fail is no operator of ONNX: it raises its
 * attribute error, in place of nodes that fail in each run.
 *
 * If a symbol in the shape of a body's input or of a node's output is in no input of the model, the
 * machine binds it to the tensor's extent. */
#ifndef BACKPLANE_GRAPH_OPS_CONTROL_H
#define BACKPLANE_GRAPH_OPS_CONTROL_H

#include "graph/ops/op.h"

extern const BpOp bp__op_branch;
/* A loop. The attributes of a loop are: carried, the number of carried values; condition, whether
 * the body outputs a condition; counted, whether input 0 alone determines the number of iterations;
 * backward, for each stack whether the first iteration makes its last element. */
extern const BpOp bp__op_loop;

/* The operators of sequences. */
typedef enum BpSequenceOp {
  BP_SEQUENCE_CONSTRUCT,
  BP_SEQUENCE_INSERT,
  BP_SEQUENCE_ERASE,
  BP_SEQUENCE_AT,
  BP_SEQUENCE_LENGTH,
  BP_SEQUENCE_CONCAT,
  BP_SEQUENCE_SPLIT,
  BP_SEQUENCE_FAIL,
  BP_NUM_SEQUENCE_OPS
} BpSequenceOp;
extern const BpOp bp__op_sequences[BP_NUM_SEQUENCE_OPS];

static inline int bp__op_is_control(const BpGraphNode *node) {
  return node->is_control;
}

/* The BpSequenceOp of a node, or -1. */
int32_t bp__op_sequence(const BpGraphNode *node);

/* Whether the graph may contain nodes of control flow: only a graph for a single target may. */
static inline int bp__graph_can_control(const BpGraph *graph) {
  return graph->extents.arena != NULL;
}

/* Whether an output of the node may be the tensor of input `input`, or have that tensor in its
 * sequence. The memory of an input that is handed on must stay valid as long as each output. */
bool bp__control_hands_on(const BpGraphNode *node, int32_t input);

/* Whether a node of the graph is a node of control flow. */
int bp__graph_has_control(const BpGraph *graph);

#endif
