/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: nodes whose result may change much with the last bit of an input, such as Floor. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* Whether the last bit of an input may change the result of a node much. A node with bodies and a
 * claimed part may contain such a node. */
static int is_step(const BpGraphNode *node) {
  for (int32_t k = 0; k < node->num_outputs; k++)
    if (node->outputs[k] && !bp__dtype_is_float(node->outputs[k]->dtype))
      return 1;
  return node->is_control || bp__build_part_function(node) ||
         (node->op->fusion == BP_FUSE_ELEMENTWISE && !bp__op_is_continuous(node));
}

static int is_one_of(const BpGraphNode *node, const char *const *names) {
  while (*names && strcmp(node->op->name, *names))
    names++;
  return *names != NULL;
}

/* Whether input 1 of a node has coordinates that the node rounds to elements. */
static int rounds_places(const BpGraphNode *node) {
  static const char *const samplers[] = {"GridSample", "MaxRoiPool", "RoiAlign", NULL};
  return !node->op->domain[0] && is_one_of(node, samplers);
}

/* Whether an element of the result may depend on few elements of the inputs. The last bit of a long
 * sum depends on the order of the sum in any case. */
static int depends_on_few(const BpGraphNode *node) {
  static const char *const choices[] = {"ReduceMax", "ReduceMin", "MaxPool", "ResizeIn", NULL};
  static const char *const sums[] = {"Softmax", "LogSoftmax", NULL};
  switch (node->op->fusion) {
  case BP_FUSE_ANCHOR:
  case BP_FUSE_REDUCTION:
    return is_one_of(node, choices);
  case BP_FUSE_OPAQUE:
    return !node->op->domain[0] && !is_one_of(node, sums);
  default:
    return 1;
  }
}

char *bp__build_mark_exact(const BpGraph *graph) {
  char *is_exact = calloc((size_t)graph->num_values + 1, 1);
  if (!is_exact) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while rewriting the graph");
    return NULL;
  }
  for (size_t i = 0; i < graph->outputs.size && graph->outer; i++)
    is_exact[((const BpGraphValue *)graph->outputs.items[i])->id] = 1;
  for (size_t i = graph->nodes.size; i-- > 0;) {
    const BpGraphNode *node = graph->nodes.items[i];
    int must_be_exact = is_step(node);
    for (int32_t k = 0; k < node->num_outputs; k++)
      must_be_exact |= node->outputs[k] && is_exact[node->outputs[k]->id] && depends_on_few(node);
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k] && (must_be_exact || (k == 1 && rounds_places(node))))
        is_exact[node->inputs[k]->id] = 1;
  }
  return is_exact;
}
