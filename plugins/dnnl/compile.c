/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a part of a model as steps: the step of a convolution or product includes the Add and the
 * Relu that follow it. A module saves the bytes of its program. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

typedef struct Writer {
  const BpGraphTable *table;
  const BpOnnxGraph *part;
  BpDnnlHeader header;
  int32_t *number;   /* number of the tensor of each value, from 1 */
  int32_t *values;   /* by tensor */
  BpDnnlStep *steps; /* step that ends with a node, by node */
  char *is_step;     /* by node */
  char *is_done;     /* by node */
} Writer;

int64_t bp_dnnl_count(const BpDnnlTensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; i++)
    count *= tensor->dims[i];
  return count;
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
static int32_t take_followers(Writer *writer, int32_t node, BpDnnlStep *step) {
  for (;;) {
    int32_t value = writer->table->get_node(writer->part, node)->outputs[0];
    int32_t next = bp_dnnl_only_reader(writer->table, writer->part, value);
    const BpOnnxNode *reader = next < 0 ? NULL : writer->table->get_node(writer->part, next);
    BpDnnlStep follower;
    if (!reader || writer->is_done[next] ||
        bp_dnnl_read_node(writer->table, writer->part, reader, &follower) ||
        (follower.kind != BP_DNNL_RELU && (follower.kind != BP_DNNL_ADD || step->sum >= 0)))
      return node;
    if (follower.kind == BP_DNNL_ADD)
      step->sum = tensor_of(writer, reader, reader->inputs[0] == value);
    step->relu = follower.kind == BP_DNNL_RELU;
    writer->is_done[next] = 1;
    node = next;
    if (step->relu)
      return node;
  }
}

static int32_t write_step(Writer *writer, int32_t index) {
  const BpOnnxNode *node = writer->table->get_node(writer->part, index);
  BpDnnlStep step;
  const char *why = bp_dnnl_read_node(writer->table, writer->part, node, &step);
  int32_t last = index;
  if (why)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_NOT_IMPLEMENTED, "node '%s' (%s): %s",
                           node->name, node->op, why);
  step.src = tensor_of(writer, node, 0);
  if (step.kind == BP_DNNL_CONV || step.kind == BP_DNNL_MATMUL) {
    step.weights = tensor_of(writer, node, 1);
    step.bias = tensor_of(writer, node, 2);
    last = take_followers(writer, index, &step);
  }
  if (step.kind == BP_DNNL_ADD)
    step.sum = tensor_of(writer, node, 1);
  step.dst = number_of(writer, writer->table->get_node(writer->part, last)->outputs[0]);
  writer->steps[last] = step;
  writer->is_step[last] = 1;
  return 0;
}

/* ---- Bytes ------------------------------------------------------------------------------- */

static int64_t round_up(int64_t size) {
  return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static BpDnnlTensor describe(const BpOnnxValue *value) {
  BpDnnlTensor tensor = {.ndim = value->ndim,
                         .place = value->data ? BP_DNNL_CONSTANT : BP_DNNL_INNER};
  for (int32_t i = 0; i < value->ndim; i++)
    tensor.dims[i] = value->shape[i] < 0 ? BP_DNNL_OPEN : value->shape[i];
  return tensor;
}

/* Returns header, tensors, steps and the data of constants as one allocation (free); NULL with an
 * error. */
static char *write_bytes(Writer *writer, size_t *size) {
  BpDnnlHeader *header = &writer->header;
  int32_t num_nodes = writer->table->num_nodes(writer->part);
  int64_t data = 0;
  for (int32_t t = 0; t < header->num_tensors; t++) {
    const BpOnnxValue *value = writer->table->get_value(writer->part, writer->values[t]);
    BpDnnlTensor tensor = describe(value);
    data += value->data ? round_up(bp_dnnl_count(&tensor) * 4) : 0;
  }
  for (int32_t n = 0; n < num_nodes; n++)
    header->num_steps += writer->is_step[n];
  size_t fixed = sizeof(*header) + (size_t)header->num_tensors * sizeof(BpDnnlTensor) +
                 (size_t)header->num_steps * sizeof(BpDnnlStep);
  *size = fixed + (size_t)data;
  char *bytes = bp_plugin_calloc(&bp_dnnl_host, *size);
  if (!bytes)
    return NULL;
  memcpy(header->magic, BP_DNNL_MAGIC, sizeof(header->magic));
  memcpy(bytes, header, sizeof(*header));
  char *at = bytes + sizeof(*header), *constants = bytes + fixed;
  for (int32_t t = 0; t < header->num_tensors; t++) {
    const BpOnnxValue *value = writer->table->get_value(writer->part, writer->values[t]);
    BpDnnlTensor tensor = describe(value);
    if (value->data) {
      tensor.offset = constants - (bytes + fixed);
      memcpy(constants, value->data, (size_t)bp_dnnl_count(&tensor) * 4);
      constants += round_up(bp_dnnl_count(&tensor) * 4);
    }
    memcpy(at, &tensor, sizeof(tensor));
    at += sizeof(tensor);
  }
  for (int32_t n = 0; n < num_nodes; n++)
    if (writer->is_step[n]) {
      memcpy(at, &writer->steps[n], sizeof(BpDnnlStep));
      at += sizeof(BpDnnlStep);
    }
  return bytes;
}

/* Numbers the tensors, inputs and outputs first, and writes all steps. */
static int32_t write_steps(Writer *writer) {
  BpDnnlHeader *header = &writer->header;
  const int32_t *inputs = writer->table->get_inputs(writer->part, &header->num_inputs);
  const int32_t *outputs = writer->table->get_outputs(writer->part, &header->num_outputs);
  for (int32_t i = 0; i < header->num_inputs; i++)
    number_of(writer, inputs[i]);
  for (int32_t i = 0; i < header->num_outputs; i++)
    number_of(writer, outputs[i]);
  for (int32_t n = 0; n < writer->table->num_nodes(writer->part); n++)
    if (!writer->is_done[n] && write_step(writer, n))
      return -1;
  return 0;
}

int32_t bp_dnnl_compile_part(const BpGraphTable *table, const BpOnnxGraph *part,
                             const char *function, BpModule **module) {
  Writer writer = {.table = table, .part = part};
  size_t nodes = (size_t)table->num_nodes(part) + 1, values = (size_t)table->num_values(part) + 1;
  size_t size = 0;
  char *bytes = NULL;
  writer.number = bp_plugin_calloc(&bp_dnnl_host, values * sizeof(int32_t));
  writer.values = bp_plugin_calloc(&bp_dnnl_host, values * sizeof(int32_t));
  writer.steps = bp_plugin_calloc(&bp_dnnl_host, nodes * sizeof(BpDnnlStep));
  writer.is_step = bp_plugin_calloc(&bp_dnnl_host, nodes);
  writer.is_done = bp_plugin_calloc(&bp_dnnl_host, nodes);
  if (writer.number && writer.values && writer.steps && writer.is_step && writer.is_done &&
      write_steps(&writer) == 0)
    bytes = write_bytes(&writer, &size);
  free(writer.number);
  free(writer.values);
  free(writer.steps);
  free(writer.is_step);
  free(writer.is_done);
  *module = bytes ? bp_dnnl_module_create(function, bytes, size) : NULL;
  return *module ? 0 : -1;
}

int32_t bp_dnnl_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                        const char *function, BpModule **module) {
  const BpGraphTable *table =
      bp_dnnl_host.host->get_table(bp_dnnl_host.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
  (void)context;
  (void)target;
  return table
             ? bp_dnnl_compile_part(table, part, function, module)
             : bp_plugin_raise(&bp_dnnl_host, BP_ERROR_PLUGIN, "this host has no table of graphs");
}
