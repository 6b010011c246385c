/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of control flow. Nothing is computed for them, and no pass infers their shapes. */
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

int bp__graph_has_control(const BpGraph *graph) {
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (bp__op_is_control(graph->nodes.items[i]))
      return 1;
  return 0;
}

/* The value whose memory this one is. */
static const BpGraphValue *root(const BpGraphValue *value) {
  while (value->producer && value->producer->op->fusion == BP_FUSE_VIEW)
    value = value->producer->inputs[0];
  return value;
}

/* Whether a body, or a node in it that runs bodies, may give one of the body's inputs. */
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
  bool is_loop = node->op == &bp__op_loop;
  int32_t first = is_loop ? 2 : 1, carried = (int32_t)bp__node_int(node, "carried", 0);
  if (is_loop && input >= first && input < first + carried)
    return true; /* where no iteration runs */
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
