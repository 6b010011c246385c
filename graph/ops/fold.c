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

/* 1: something about it is not constant, or too large. */
static int is_foldable(const BpGraphNode *node) {
  if (!node->op->compute || node->num_inputs > MAX_FOLDED_INPUTS ||
      bp__value_num_elements(node->outputs[0]) > MAX_FOLDED_ELEMENTS)
    return 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] &&
        (!node->inputs[i]->data || bp__value_num_elements(node->inputs[i]) > MAX_FOLDED_ELEMENTS))
      return 0;
  return 1;
}

static BpTeTensor *build(BpTe *te, const BpGraphNode *node, BpTeTensor **args, int32_t *num_args) {
  BpTeTensor *inputs[MAX_FOLDED_INPUTS] = {NULL};
  BpOpCompute op = {.te = te, .node = node, .inputs = inputs};
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *in = bp__op_argument(node, i);
    if (!in)
      continue;
    inputs[i] = bp_te_placeholder(te, "input", in->dtype, in->shape, in->ndim);
    if (!inputs[i])
      return NULL;
    args[(*num_args)++] = inputs[i];
  }
  args[*num_args] = bp__op_compute(&op);
  return args[(*num_args)++];
}

static BpTensorView view_of(const BpGraphValue *value) {
  return (BpTensorView){.data = (void *)(uintptr_t)value->data,
                        .device = {BP_DEVICE_CPU, 0},
                        .ndim = value->ndim,
                        .dtype = value->dtype,
                        .shape = (int64_t *)(uintptr_t)value->shape};
}

static int interpret(BpIrModule *module, const BpGraphNode *node) {
  BpTensorView views[MAX_FOLDED_INPUTS + 1];
  BpValue values[MAX_FOLDED_INPUTS + 1] = {{0}};
  int32_t count = 0;
  for (int32_t i = 0; i <= node->num_inputs; i++) {
    const BpGraphValue *value = i < node->num_inputs ? bp__op_argument(node, i) : node->outputs[0];
    if (!value)
      continue;
    views[count] = view_of(value);
    values[count].type_index = BP_TYPE_TENSOR_VIEW;
    values[count].v_view = &views[count];
    count++;
  }
  return bp_ir_interpret(module, "folded", values, count);
}

static int evaluate(BpGraph *graph, BpGraphNode *node) {
  BpTeTensor *args[MAX_FOLDED_INPUTS + 1];
  BpLowerOptions options = {.struct_size = sizeof(options)};
  BpTe *te = bp_te_create();
  BpIrModule *module = bp_ir_module_create();
  void *data = bp__arena_alloc(&graph->arena, (size_t)bp__value_num_bytes(node->outputs[0]));
  int32_t count = 0;
  int status = -1;
  node->outputs[0]->data = data;
  if (te && module && data && build(te, node, args, &count))
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
  if (status > 0 && is_foldable(node)) {
    if (bp__value_num_elements(node->outputs[0]) > 0)
      status = evaluate(graph, node);
    else
      status = 0, node->outputs[0]->data = bp__arena_alloc(&graph->arena, 1);
  }
  if (status == 0)
    node->outputs[0]->producer = NULL;
  return status;
}
