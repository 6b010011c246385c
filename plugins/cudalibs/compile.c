/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a part of a model as steps: the step of a convolution or product includes the Add and the
 * Relu that follow it. A module saves the bytes of its program. */
#include "cudalibs.h"

#include <stdlib.h>
#include <string.h>

typedef struct Writer {
  BpCudalibsView view;
  BpCudalibsHeader header;
  int32_t *number;       /* number of the tensor of each value, from 1 */
  int32_t *values;       /* by tensor */
  BpCudalibsStep *steps; /* step that ends with a node, by node */
  char *is_step;         /* by node */
  char *is_done;         /* by node */
} Writer;

static const BpOnnxNode *node_of(const Writer *writer, int32_t node) {
  return writer->view.table->get_node(writer->view.graph, node);
}

static const BpOnnxValue *value_of(const Writer *writer, int32_t tensor) {
  return writer->view.table->get_value(writer->view.graph, writer->values[tensor]);
}

static int32_t number_of(Writer *writer, int32_t value) {
  if (!writer->number[value]) {
    writer->values[writer->header.num_tensors] = value;
    writer->number[value] = ++writer->header.num_tensors;
  }
  return writer->number[value] - 1;
}

static int32_t tensor_of(Writer *writer, const BpOnnxNode *node, int32_t input) {
  return input < node->num_inputs && node->inputs[input] >= 0
             ? number_of(writer, node->inputs[input])
             : -1;
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Adds to the step the nodes that follow it and that no earlier step includes; returns the last
 * node of the step. */
static int32_t take_followers(Writer *writer, int32_t node, BpCudalibsStep *step) {
  for (;;) {
    int32_t other, is_bias = 0;
    int32_t next = bp_cudalibs_follow(&writer->view, node_of(writer, node)->outputs[0],
                                      writer->is_done, step, &other, &is_bias);
    if (next < 0)
      return node;
    if (other >= 0)
      *(is_bias ? &step->bias : &step->sum) = number_of(writer, other);
    writer->is_done[next] = 1;
    node = next;
  }
}

/* Whether both operands of an Add have the shape of its result. */
static int adds_one_shape(const Writer *writer, const BpOnnxNode *node) {
  const BpOnnxValue *values[3];
  const int32_t numbers[] = {node->inputs[0], node->inputs[1], node->outputs[0]};
  for (int i = 0; i < 3; i++)
    values[i] = writer->view.table->get_value(writer->view.graph, numbers[i]);
  for (int i = 0; i < 2; i++)
    if (values[i]->ndim != values[2]->ndim ||
        memcmp(values[i]->shape, values[2]->shape, (size_t)values[2]->ndim * sizeof(int64_t)))
      return 0;
  return 1;
}

static int32_t write_step(Writer *writer, int32_t index) {
  const BpOnnxNode *node = node_of(writer, index);
  BpCudalibsStep step;
  const char *why = bp_cudalibs_read_node(&writer->view, index, &step);
  int32_t last = index;
  if (!why && step.kind == BP_CUDALIBS_ADD && !adds_one_shape(writer, node))
    why = "its part lacks the product whose rows it changes";
  if (why)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_NOT_IMPLEMENTED, "node '%s' (%s): %s",
                           node->name, node->op, why);
  step.src = tensor_of(writer, node, 0);
  if (step.kind == BP_CUDALIBS_CONV || step.kind == BP_CUDALIBS_PRODUCT) {
    step.weights = tensor_of(writer, node, 1);
    step.bias = tensor_of(writer, node, 2);
    last = take_followers(writer, index, &step);
  }
  if (step.kind == BP_CUDALIBS_ADD)
    step.sum = tensor_of(writer, node, 1);
  step.dst = number_of(writer, node_of(writer, last)->outputs[0]);
  writer->steps[last] = step;
  writer->is_step[last] = 1;
  return 0;
}

/* Numbers the tensors, inputs and outputs first, and writes all steps. */
static int32_t write_steps(Writer *writer) {
  BpCudalibsHeader *header = &writer->header;
  const BpCudalibsView *view = &writer->view;
  const int32_t *inputs = view->table->get_inputs(view->graph, &header->num_inputs);
  const int32_t *outputs = view->table->get_outputs(view->graph, &header->num_outputs);
  for (int32_t i = 0; i < header->num_inputs; i++)
    number_of(writer, inputs[i]);
  for (int32_t i = 0; i < header->num_outputs; i++)
    number_of(writer, outputs[i]);
  for (int32_t n = 0; n < view->table->num_nodes(view->graph); n++)
    if (!writer->is_done[n] && write_step(writer, n))
      return -1;
  for (int32_t n = 0; n < view->table->num_nodes(view->graph); n++)
    header->num_steps += writer->is_step[n];
  return 0;
}

/* ---- Bytes ------------------------------------------------------------------------------- */

static BpCudalibsTensor describe(const BpOnnxValue *value) {
  BpCudalibsTensor tensor = {.ndim = value->ndim,
                             .type = bp_cudalibs_type_of(value->dtype),
                             .place = value->data ? BP_CUDALIBS_CONSTANT : BP_CUDALIBS_INNER};
  memcpy(tensor.dims, value->shape, (size_t)value->ndim * sizeof(int64_t));
  return tensor;
}

static char *append(char *at, const void *data, size_t size) {
  memcpy(at, data, size);
  return at + size;
}

/* Returns header, tensors, steps and the data of constants as one allocation (free); NULL with an
 * error. */
static char *write_bytes(Writer *writer, size_t *size) {
  BpCudalibsHeader *header = &writer->header;
  int64_t data = 0;
  for (int32_t t = 0; t < header->num_tensors; t++) {
    BpCudalibsTensor tensor = describe(value_of(writer, t));
    data +=
        tensor.place == BP_CUDALIBS_CONSTANT ? bp_cudalibs_round_up(bp_cudalibs_bytes(&tensor)) : 0;
  }
  size_t fixed = sizeof(*header) + (size_t)header->num_tensors * sizeof(BpCudalibsTensor) +
                 (size_t)header->num_steps * sizeof(BpCudalibsStep);
  *size = fixed + (size_t)data;
  char *bytes = bp_plugin_calloc(&bp_cudalibs_host, *size);
  if (!bytes)
    return NULL;
  memcpy(header->magic, BP_CUDALIBS_MAGIC, sizeof(header->magic));
  char *at = append(bytes, header, sizeof(*header));
  int64_t offset = 0;
  for (int32_t t = 0; t < header->num_tensors; t++) {
    BpCudalibsTensor tensor = describe(value_of(writer, t));
    if (tensor.place == BP_CUDALIBS_CONSTANT) {
      tensor.offset = offset;
      memcpy(bytes + fixed + offset, value_of(writer, t)->data, (size_t)bp_cudalibs_bytes(&tensor));
      offset += bp_cudalibs_round_up(bp_cudalibs_bytes(&tensor));
    }
    at = append(at, &tensor, sizeof(tensor));
  }
  for (int32_t n = 0; n < writer->view.table->num_nodes(writer->view.graph); n++)
    if (writer->is_step[n])
      at = append(at, &writer->steps[n], sizeof(BpCudalibsStep));
  return bytes;
}

static char *write_part(Writer *writer, size_t *size) {
  const BpCudalibsView *view = &writer->view;
  size_t nodes = (size_t)view->table->num_nodes(view->graph) + 1;
  size_t values = (size_t)view->table->num_values(view->graph) + 1;
  char *bytes = NULL;
  writer->number = bp_plugin_calloc(&bp_cudalibs_host, values * sizeof(int32_t));
  writer->values = bp_plugin_calloc(&bp_cudalibs_host, values * sizeof(int32_t));
  writer->steps = bp_plugin_calloc(&bp_cudalibs_host, nodes * sizeof(BpCudalibsStep));
  writer->is_step = bp_plugin_calloc(&bp_cudalibs_host, nodes);
  writer->is_done = bp_plugin_calloc(&bp_cudalibs_host, nodes);
  if (writer->number && writer->values && writer->steps && writer->is_step && writer->is_done &&
      write_steps(writer) == 0)
    bytes = write_bytes(writer, size);
  free(writer->number);
  free(writer->values);
  free(writer->steps);
  free(writer->is_step);
  free(writer->is_done);
  return bytes;
}

int32_t bp_cudalibs_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                            const char *function, BpModule **module) {
  Writer writer = {.view = {bp_cudalibs_host.host->get_table(bp_cudalibs_host.host, BP_TABLE_GRAPH,
                                                             BP_TABLE_GRAPH_VERSION),
                            part}};
  size_t size = 0;
  (void)context;
  (void)target;
  if (!writer.view.table)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_PLUGIN, "this host has no table of graphs");
  char *bytes = write_part(&writer, &size);
  *module = bytes ? bp_cudalibs_module_create(function, bytes, size) : NULL;
  return *module ? 0 : -1;
}
