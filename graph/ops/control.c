/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of control flow, which are not computed, and whose shapes no pass infers. */
#include "graph/ops/control.h"

const BpOp bp__op_branch = {.name = "Branch",
                            .domain = "backplane",
                            .since = 1,
                            .min_inputs = 1,
                            .max_inputs = -1,
                            .max_outputs = -1,
                            .fusion = BP_FUSE_OPAQUE,
                            .attrs = "",
                            .open = BP_OPEN_ALL};

const BpOp bp__op_loop = {.name = "Loop",
                          .domain = "backplane",
                          .since = 1,
                          .max_inputs = -1,
                          .max_outputs = -1,
                          .fusion = BP_FUSE_OPAQUE,
                          .attrs = "carried:i condition:i counted:i backward:is",
                          .open = BP_OPEN_ALL};

#define SEQUENCE_OP(op_name, least, most, attributes)                                              \
  {                                                                                                \
    .name = op_name, .domain = "backplane", .since = 1, .min_inputs = least, .max_inputs = most,   \
    .max_outputs = 1, .fusion = BP_FUSE_OPAQUE, .attrs = attributes, .open = BP_OPEN_ALL           \
  }

const BpOp bp__op_sequences[BP_NUM_SEQUENCE_OPS] = {
    [BP_SEQUENCE_CONSTRUCT] = SEQUENCE_OP("SequenceConstruct", 0, -1, ""),
    [BP_SEQUENCE_INSERT] = SEQUENCE_OP("SequenceInsert", 2, 3, ""),
    [BP_SEQUENCE_ERASE] = SEQUENCE_OP("SequenceErase", 1, 2, ""),
    [BP_SEQUENCE_AT] = SEQUENCE_OP("SequenceAt", 1, 2, ""),
    [BP_SEQUENCE_LENGTH] = SEQUENCE_OP("SequenceLength", 1, 1, ""),
    [BP_SEQUENCE_CONCAT] = SEQUENCE_OP("ConcatFromSequence", 1, 1, "axis:i new_axis:i"),
    [BP_SEQUENCE_SPLIT] = SEQUENCE_OP("SplitToSequence", 1, 2, "axis:i keepdims:i"),
    [BP_SEQUENCE_FAIL] = SEQUENCE_OP("Fail", 0, 0, "error:s"),
};

int32_t bp__op_sequence(const BpGraphNode *node) {
  for (int32_t i = 0; i < BP_NUM_SEQUENCE_OPS; i++)
    if (node->op == &bp__op_sequences[i])
      return i;
  return -1;
}

int bp__graph_has_control(const BpGraph *graph) {
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (bp__op_is_control(graph->nodes.items[i]))
      return 1;
  return 0;
}

/* The value whose memory a value uses. */
static const BpGraphValue *root(const BpGraphValue *value) {
  while (value->producer && value->producer->op->fusion == BP_FUSE_VIEW)
    value = value->producer->inputs[0];
  return value;
}

/* Whether an output of a body may be one of its inputs, directly or through a node that the machine
 * executes. */
static bool body_hands_on(const BpGraph *body, const BpGraphValue *input) {
  for (size_t i = 0; i < body->outputs.size; i++)
    if (root(body->outputs.items[i]) == input)
      return true;
  for (size_t n = 0; n < body->nodes.size; n++) {
    const BpGraphNode *node = body->nodes.items[n];
    for (int32_t k = 0; k < node->num_inputs && bp__op_is_control(node); k++)
      if (node->inputs[k] && root(node->inputs[k]) == input && bp__control_hands_on(node, k))
        return true;
  }
  return false;
}

bool bp__control_hands_on(const BpGraphNode *node, int32_t input) {
  int32_t sequence = bp__op_sequence(node);
  if (sequence >= 0)
    return sequence == BP_SEQUENCE_CONSTRUCT || (sequence == BP_SEQUENCE_INSERT && input == 1);
  bool is_loop = node->op == &bp__op_loop;
  int32_t first = is_loop ? 2 : 1, carried = (int32_t)bp__node_int(node, "carried", 0);
  if (is_loop && input >= first && input < first + carried)
    return true; /* without an iteration the carried value is the input */
  first += carried;
  for (int32_t b = 0; b < node->num_bodies; b++) {
    const BpList *inputs = &node->bodies[b]->inputs;
    int32_t given = is_loop ? 1 + carried : 0, count = (int32_t)inputs->size - given;
    if (input >= first && input < first + count)
      return body_hands_on(node->bodies[b], inputs->items[given + input - first]);
    first += count;
  }
  return false;
}
