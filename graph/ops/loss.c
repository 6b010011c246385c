/* SPDX-License-Identifier: Apache-2.0 */
/* Losses, built from other operators. Axis 1 of the scores is the classes; each position along the
 * other axes has one label. */
#include <string.h>

#include "graph/ops/rows.h"

typedef struct Loss {
  BpGraph *graph;
  const BpGraphNode *node;
  BpGraphValue *scores;  /* logarithms of probabilities */
  BpGraphValue *labels;  /* int64 labels; the shape of the scores, but with one class */
  BpGraphValue *ignored; /* bool for each label, whether it is ignored; or NULL */
  BpGraphValue *weights; /* a weight for each class; NULL: all are 1 */
} Loss;

static BpGraphValue *where(const Loss *loss, BpGraphValue *then, BpGraphValue *otherwise) {
  return bp__op_apply(loss->graph, "", "Where", loss->node->name,
                      (BpGraphValue *[]){loss->ignored, then, otherwise}, 3, NULL, 0);
}

/* Checks the labels; a run checks open extents. */
static int check_labels(Loss *loss) {
  const BpGraphNode *node = loss->node;
  const BpGraphValue *scores = loss->scores, *labels = node->inputs[1];
  BpGraphValue *weights = bp__node_input(node, 2);
  char text[BP_VALUE_TEXT];
  int64_t places[BP_GRAPH_MAX_NDIM];
  int fits = scores->ndim >= 2 && labels->ndim == scores->ndim - 1 && scores->shape[1] != 0;
  for (int32_t i = 0; fits && i < labels->ndim; i++) {
    places[i] = scores->shape[i + (i > 0)];
    fits = !bp__extent_differs(&loss->graph->extents, labels->shape[i], places[i]);
  }
  if (!fits || (labels->dtype.code != BP_DTYPE_INT && labels->dtype.code != BP_DTYPE_UINT))
    return bp__op_bad(node, "its labels are %s, not an integer for each place of the scores",
                      bp__value_format(labels, text));
  loss->labels = bp__op_as_shape(loss->graph, node, node->inputs[1], places,
                                 "its labels are not one for each place of the scores");
  if (weights && (weights->ndim != 1 ||
                  bp__extent_differs(&loss->graph->extents, weights->shape[0], scores->shape[1])))
    return bp__op_bad(node, "its weights are %s, not one for each class of its scores",
                      bp__value_format(weights, text));
  loss->weights =
      bp__op_as_shape(loss->graph, node, weights, &scores->shape[1],
                      "its weights do not have one element for each class of its scores");
  return loss->labels && (loss->weights || !weights) ? 0 : -1;
}

/* Reads the labels: an ignored label selects class 0, and its weight is 0. */
static int read_labels(Loss *loss) {
  const BpGraphNode *node = loss->node;
  BpGraphValue *weights = loss->weights;
  int64_t shape[BP_GRAPH_MAX_NDIM], zero = 0, ignored = bp__node_int(node, "ignore_index", 0);
  memcpy(shape, loss->scores->shape, sizeof(shape));
  shape[1] = 1;
  loss->labels =
      bp__op_reshape(loss->graph, node, bp__op_cast(loss->graph, node, loss->labels, BP__INT64),
                     shape, loss->scores->ndim);
  if (bp__node_attr(node, "ignore_index")) {
    loss->ignored = bp__op_binary(loss->graph, node, "Equal", loss->labels,
                                  bp__graph_int_vector(loss->graph, &ignored, 1));
    loss->labels = where(loss, bp__graph_int_vector(loss->graph, &zero, 1), loss->labels);
  }
  if (weights)
    weights = bp__op_binary(loss->graph, node, "Gather", weights, loss->labels);
  else if (loss->ignored)
    weights = bp__op_scalar(loss->graph, node, loss->scores, 1);
  if (weights && loss->ignored)
    weights = where(loss, bp__op_scalar(loss->graph, node, loss->scores, 0), weights);
  loss->weights = weights;
  return loss->labels && (!loss->ignored || weights) ? 0 : -1;
}

static BpGraphValue *total(const Loss *loss, const char *op, BpGraphValue *value) {
  BpGraphAttr keepdims = bp__attr_int(loss->graph, "keepdims", 0);
  return bp__op_apply(loss->graph, "", op, loss->node->name, &value, 1, &keepdims, 1);
}

/* The loss of the labels, reduced as the attribute `reduction` states. */
static BpGraphValue *make_loss(Loss *loss) {
  const BpGraphNode *node = loss->node;
  const char *reduction = bp__node_str(node, "reduction", "mean");
  BpGraphAttr axis = bp__attr_int(loss->graph, "axis", 1);
  int64_t places[BP_GRAPH_MAX_NDIM];
  if (strcmp(reduction, "none") && strcmp(reduction, "sum") && strcmp(reduction, "mean")) {
    bp__op_bad(node, "its reduction '%s' is not one of none, sum and mean", reduction);
    return NULL;
  }
  if (check_labels(loss) || read_labels(loss))
    return NULL;
  memcpy(places, loss->scores->shape, sizeof(places));
  memmove(places + 1, places + 2, (size_t)(loss->scores->ndim - 2) * sizeof(*places));
  BpGraphValue *value = bp__op_apply(loss->graph, "", "GatherElements", node->name,
                                     (BpGraphValue *[]){loss->scores, loss->labels}, 2, &axis, 1);
  value = bp__op_unary(loss->graph, node, "Neg", value);
  if (loss->weights)
    value = bp__op_binary(loss->graph, node, "Mul", value, loss->weights);
  if (loss->ignored)
    value = where(loss, bp__op_scalar(loss->graph, node, loss->scores, 0), value);
  if (!strcmp(reduction, "none"))
    return bp__op_reshape(loss->graph, node, value, places, loss->scores->ndim - 1);
  if (!strcmp(reduction, "sum") || !loss->weights)
    return total(loss, !strcmp(reduction, "sum") ? "ReduceSum" : "ReduceMean", value);
  return bp__op_binary(loss->graph, node, "Div", total(loss, "ReduceSum", value),
                       total(loss, "ReduceSum", loss->weights));
}

BP_ROW_EXPAND(negative_log_likelihood_loss) {
  Loss loss = {.graph = graph, .node = node, .scores = node->inputs[0]};
  node->outputs[0] = make_loss(&loss);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(softmax_cross_entropy_loss) {
  BpGraphAttr axis = bp__attr_int(graph, "axis", 1);
  Loss loss = {.graph = graph, .node = node};
  loss.scores = node->inputs[0]->ndim < 2
                    ? node->inputs[0]
                    : bp__op_apply(graph, "", "LogSoftmax", node->name, node->inputs, 1, &axis, 1);
  node->outputs[0] = loss.scores ? make_loss(&loss) : NULL;
  if (node->num_outputs > 1)
    node->outputs[1] = loss.scores;
  return node->outputs[0] ? 0 : -1;
}
