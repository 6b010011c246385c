/* SPDX-License-Identifier: Apache-2.0 */
/* Folding: a node whose inputs are constants is computed now. Shape arithmetic disappears so. Rows
 * that have a `fold` do it themselves; all others are lowered as they are and interpreted, which is
 * slow and therefore bounded. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/ops/op.h"

/* Elements beyond which interpreting takes longer than a person waits. */
#define MAX_FOLDED_ELEMENTS (1 << 20)
#define MAX_FOLDED_INPUTS   16
#define MAX_FOLDED_OUTPUTS  16
#define MAX_FOLDED_ARGS     (MAX_FOLDED_INPUTS + MAX_FOLDED_OUTPUTS)

/* Whether it is constant and not too large. */
static int is_foldable(const BpGraphNode *node) {
  if (!node->op->compute || node->num_inputs > MAX_FOLDED_INPUTS ||
      node->num_outputs > MAX_FOLDED_OUTPUTS)
    return 0;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (bp__value_num_elements(node->outputs[i]) > MAX_FOLDED_ELEMENTS)
      return 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] &&
        (!node->inputs[i]->data || bp__value_num_elements(node->inputs[i]) > MAX_FOLDED_ELEMENTS))
      return 0;
  return 1;
}

/* The arguments of its function: the inputs that it has, then the outputs; -1 is an error. */
static int build(BpTe *te, const BpGraphNode *node, BpTeTensor **args, int32_t *num_args) {
  BpTeTensor *inputs[MAX_FOLDED_INPUTS] = {NULL};
  BpOpCompute op = {.te = te, .node = node, .inputs = inputs};
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *in = bp__op_argument(node, i);
    if (!in)
      continue;
    inputs[i] = bp_te_placeholder(te, "input", in->dtype, in->shape, in->ndim);
    if (!inputs[i])
      return -1;
    args[(*num_args)++] = inputs[i];
  }
  if (bp__op_compute(&op, args + *num_args) != 0)
    return -1;
  *num_args += node->num_outputs;
  return 0;
}

static BpTensorView view_of(const BpGraphValue *value) {
  return (BpTensorView){.data = (void *)(uintptr_t)value->data,
                        .device = {BP_DEVICE_CPU, 0},
                        .ndim = value->ndim,
                        .dtype = value->dtype,
                        .shape = (int64_t *)(uintptr_t)value->shape};
}

static int interpret(BpIrModule *module, const BpGraphNode *node) {
  BpTensorView views[MAX_FOLDED_ARGS];
  BpValue values[MAX_FOLDED_ARGS] = {{0}};
  int32_t count = 0;
  for (int32_t i = 0; i < node->num_inputs + node->num_outputs; i++) {
    const BpGraphValue *value =
        i < node->num_inputs ? bp__op_argument(node, i) : node->outputs[i - node->num_inputs];
    if (!value)
      continue;
    views[count] = view_of(value);
    values[count].type_index = BP_TYPE_TENSOR_VIEW;
    values[count].v_view = &views[count];
    count++;
  }
  return bp_ir_interpret(module, "folded", values, count);
}

/* Gives the outputs memory. */
static int give_memory(BpGraph *graph, const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_outputs; i++) {
    size_t size = (size_t)bp__value_num_bytes(node->outputs[i]);
    node->outputs[i]->data = bp__arena_alloc(&graph->arena, size ? size : 1);
    if (!node->outputs[i]->data)
      return -1;
  }
  return 0;
}

static int evaluate(BpGraph *graph, BpGraphNode *node) {
  BpTeTensor *args[MAX_FOLDED_ARGS];
  BpLowerOptions options = {.struct_size = sizeof(options)};
  BpTe *te = bp_te_create();
  BpIrModule *module = bp_ir_module_create();
  int32_t count = 0;
  int status = -1;
  if (te && module && give_memory(graph, node) == 0 && build(te, node, args, &count) == 0)
    status = bp_te_lower(te, "folded", args, count, &options, module);
  if (!status)
    status = interpret(module, node);
  bp_te_free(te);
  bp_object_release(module);
  if (status)
    bp_error_add_context("while computing the constant '%s'", node->name);
  return status;
}

int bp__op_fold(BpGraph *graph, BpGraphNode *node) {
  int status = node->op->fold ? node->op->fold(graph, node) : 1;
  if (status > 0 && is_foldable(node))
    status = evaluate(graph, node);
  for (int32_t i = 0; i < node->num_outputs && status == 0; i++)
    node->outputs[i]->producer = NULL;
  return status;
}
