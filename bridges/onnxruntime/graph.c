/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a graph of ONNX Runtime: its values by name, and its nodes. */
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"

typedef struct Block {
  struct Block *next;
  max_align_t content[];
} Block;

void *graph_alloc(Graph *graph, size_t count, size_t size) {
  size_t bytes;
  Block *block = __builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2
                     ? NULL
                     : calloc(1, sizeof(Block) + bytes + 1);
  if (!block) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu items of a graph", count);
    return NULL;
  }
  block->next = graph->blocks;
  graph->blocks = block;
  return block->content;
}

const char *graph_print(Graph *graph, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = size < 0 ? NULL : graph_alloc(graph, 1, (size_t)size + 1);
  if (!text) {
    bp_error_clear();
    return "";
  }
  va_start(args, format);
  vsnprintf(text, (size_t)size + 1, format, args);
  va_end(args);
  return text;
}

/* The types whose elements are whole bytes, by ONNX's number. */
static const BpDataType types[] = {
    [1] = {BP_DTYPE_FLOAT, 32, 1},
    [2] = {BP_DTYPE_UINT, 8, 1},
    [3] = {BP_DTYPE_INT, 8, 1},
    [4] = {BP_DTYPE_UINT, 16, 1},
    [5] = {BP_DTYPE_INT, 16, 1},
    [6] = {BP_DTYPE_INT, 32, 1},
    [7] = {BP_DTYPE_INT, 64, 1},
    [9] = {BP_DTYPE_BOOL, 8, 1},
    [10] = {BP_DTYPE_FLOAT, 16, 1},
    [11] = {BP_DTYPE_FLOAT, 64, 1},
    [12] = {BP_DTYPE_UINT, 32, 1},
    [13] = {BP_DTYPE_UINT, 64, 1},
    [16] = {BP_DTYPE_BFLOAT, 16, 1},
    [17] = {BP_DTYPE_FLOAT8_E4M3FN, 8, 1},
    [18] = {BP_DTYPE_FLOAT8_E4M3FNUZ, 8, 1},
    [19] = {BP_DTYPE_FLOAT8_E5M2, 8, 1},
    [20] = {BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 1},
};

bool type_has_bytes(int32_t type) {
  return type >= 0 && (size_t)type < sizeof types / sizeof *types && types[type].bits;
}

bool type_is(int32_t type, BpDataType dtype) {
  return type_has_bytes(type) && !memcmp(&types[type], &dtype, sizeof dtype);
}

/* ---- Values ------------------------------------------------------------------------------ */

/* The rank is unknown if the runtime is too old to distinguish such a tensor from a scalar. */
static bool has_shape(const Graph *graph, const OrtTensorInfo *info, size_t ndim) {
  if (ndim > 0)
    return true;
  return graph->ort->version >= 24 && graph->ort->api->TensorTypeAndShape_HasShape(info);
}

static int read_type(Graph *graph, const OrtValueInfo *from, Value *value) {
  const OrtApi *api = graph->ort->api;
  const OrtTypeInfo *type = NULL;
  const OrtTensorInfo *info = NULL;
  size_t ndim = 0;
  value->ndim = -1;
  if (bridge_check(graph->ort, api->GetValueInfoTypeInfo(from, &type)) || !type ||
      bridge_check(graph->ort, api->CastTypeInfoToTensorInfo(type, &info)) || !info) {
    bp_error_clear(); /* the value has no type */
    return 0;
  }
  if (bridge_check(graph->ort, api->GetTensorElementType(info, &value->type)) ||
      bridge_check(graph->ort, api->GetDimensionsCount(info, &ndim)))
    return -1;
  if (!has_shape(graph, info, ndim))
    return 0;
  value->shape = graph_alloc(graph, ndim, sizeof(*value->shape));
  value->symbols = graph_alloc(graph, ndim, sizeof(*value->symbols));
  if (!value->shape || !value->symbols ||
      bridge_check(graph->ort, api->GetDimensions(info, value->shape, ndim)) ||
      bridge_check(graph->ort, api->GetSymbolicDimensions(info, value->symbols, ndim)))
    return -1;
  value->ndim = (int32_t)ndim;
  return 0;
}

/* Reads the elements of a constant, except texts. The constant's shape is that of the tensor. */
static int read_constant(Graph *graph, const OrtValueInfo *from, Value *value) {
  const OrtApi *api = graph->ort->api;
  const OrtValue *tensor = NULL;
  bool is_constant = false;
  size_t bytes = 0, ndim = 0;
  OrtTensorInfo *info = NULL;
  if (bridge_check(graph->ort, api->ValueInfo_IsConstantInitializer(from, &is_constant)))
    return -1;
  if (!is_constant || value->type == 8 || value->type == 0)
    return 0;
  if (bridge_check(graph->ort, api->ValueInfo_GetInitializerValue(from, &tensor)))
    return -1;
  if (!tensor)
    return 0;
  if (bridge_check(graph->ort, api->GetTensorSizeInBytes(tensor, &bytes)) ||
      bridge_check(graph->ort, api->GetTensorTypeAndShape(tensor, &info)))
    return -1;
  int status = bridge_check(graph->ort, api->GetDimensionsCount(info, &ndim));
  value->shape = graph_alloc(graph, ndim, sizeof(*value->shape));
  if (status == 0 && value->shape)
    status = bridge_check(graph->ort, api->GetDimensions(info, value->shape, ndim));
  api->ReleaseTensorInfo(info);
  if (status || !value->shape ||
      bridge_check(graph->ort, api->GetTensorData(tensor, &value->constant)))
    return -1;
  value->ndim = (int32_t)ndim;
  value->bytes = bytes;
  if (!value->constant)
    value->constant = ""; /* no elements */
  return 0;
}

/* Finds the value with a name, and adds it if it is new; -1 with an error. */
static int32_t find_value(Graph *graph, const OrtValueInfo *from) {
  const char *name = NULL;
  if (bridge_check(graph->ort, graph->ort->api->GetValueInfoName(from, &name)))
    return -1;
  ENTRY entry = {.key = (char *)(uintptr_t)name, .data = (void *)(intptr_t)graph->num_values};
  ENTRY *found = NULL;
  if (!hsearch_r(entry, ENTER, &found, graph->names)) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the names of a graph");
    return -1;
  }
  int32_t index = (int32_t)(intptr_t)found->data;
  if (index < graph->num_values)
    return index;
  Value *value = &graph->values[graph->num_values++];
  *value = (Value){.name = name, .producer = -1};
  return read_type(graph, from, value) || read_constant(graph, from, value) ? -1 : index;
}

/* Reads a list of values; an omitted value is -1. */
static int find_values(Graph *graph, const OrtValueInfo *const *from, size_t count, int32_t *to) {
  for (size_t i = 0; i < count; i++) {
    to[i] = from[i] ? find_value(graph, from[i]) : -1;
    if (from[i] && to[i] < 0)
      return -1;
  }
  return 0;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

typedef struct NodeCounts {
  size_t inputs, implicit, outputs;
} NodeCounts;

static int count_values(const Runtime *ort, const OrtNode *node, NodeCounts *counts) {
  return bridge_check(ort, ort->api->Node_GetNumInputs(node, &counts->inputs)) ||
                 bridge_check(ort, ort->api->Node_GetNumImplicitInputs(node, &counts->implicit)) ||
                 bridge_check(ort, ort->api->Node_GetNumOutputs(node, &counts->outputs))
             ? -1
             : 0;
}

static int read_node(Graph *graph, const OrtNode *from, Node *node) {
  const Runtime *ort = graph->ort;
  const OrtApi *api = ort->api;
  NodeCounts counts;
  node->ort = from;
  node->group = -1;
  if (count_values(ort, from, &counts) || bridge_check(ort, api->Node_GetName(from, &node->name)) ||
      bridge_check(ort, api->Node_GetOperatorType(from, &node->op)) ||
      bridge_check(ort, api->Node_GetDomain(from, &node->domain)))
    return -1;
  size_t num_inputs = counts.inputs + counts.implicit;
  const OrtValueInfo **values =
      graph_alloc(graph, num_inputs + counts.outputs, sizeof(OrtValueInfo *));
  node->inputs = graph_alloc(graph, num_inputs, sizeof(int32_t));
  node->outputs = graph_alloc(graph, counts.outputs, sizeof(int32_t));
  if (!values || !node->inputs || !node->outputs ||
      bridge_check(ort, api->Node_GetInputs(from, values, counts.inputs)) ||
      bridge_check(ort,
                   api->Node_GetImplicitInputs(from, values + counts.inputs, counts.implicit)) ||
      bridge_check(ort, api->Node_GetOutputs(from, values + num_inputs, counts.outputs)) ||
      find_values(graph, values, num_inputs, node->inputs) ||
      find_values(graph, values + num_inputs, counts.outputs, node->outputs))
    return -1;
  node->num_inputs = (int32_t)num_inputs;
  node->num_own_inputs = (int32_t)counts.inputs;
  node->num_outputs = (int32_t)counts.outputs;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] >= 0)
      graph->values[node->outputs[i]].producer = (int32_t)(node - graph->nodes);
  return 0;
}

/* Makes room for every value that may have a name. */
static int make_room(Graph *graph, const OrtNode *const *nodes, size_t num_nodes, size_t count) {
  for (size_t i = 0; i < num_nodes; i++) {
    NodeCounts counts;
    if (count_values(graph->ort, nodes[i], &counts))
      return -1;
    count += counts.inputs + counts.implicit + counts.outputs;
  }
  graph->values = graph_alloc(graph, count, sizeof(Value));
  graph->nodes = graph_alloc(graph, num_nodes, sizeof(Node));
  struct hsearch_data *names = graph_alloc(graph, 1, sizeof(*names));
  if (!graph->values || !graph->nodes || !names)
    return -1;
  if (!hcreate_r(count + count / 2 + 1, names))
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu names of a graph", count);
  graph->names = names;
  return 0;
}

static int read_nodes(Graph *graph, const OrtNode *const *nodes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    graph->num_nodes++;
    if (read_node(graph, nodes[i], &graph->nodes[i]))
      return -1;
  }
  return 0;
}

/* ---- The graph --------------------------------------------------------------------------- */

static int read_borders(Graph *graph, const OrtValueInfo **inputs, size_t num_inputs,
                        const OrtValueInfo **outputs, size_t num_outputs) {
  const OrtApi *api = graph->ort->api;
  int32_t *values = graph_alloc(graph, num_outputs, sizeof(int32_t));
  graph->inputs = graph_alloc(graph, num_inputs, sizeof(int32_t));
  if (!values || !graph->inputs ||
      bridge_check(graph->ort, api->Graph_GetInputs(graph->graph, inputs, num_inputs)) ||
      bridge_check(graph->ort, api->Graph_GetOutputs(graph->graph, outputs, num_outputs)) ||
      find_values(graph, inputs, num_inputs, graph->inputs) ||
      find_values(graph, outputs, num_outputs, values))
    return -1;
  graph->num_inputs = (int32_t)num_inputs;
  for (size_t i = 0; i < num_outputs; i++)
    graph->values[values[i]].is_output = true;
  return 0;
}

int graph_read(const Runtime *ort, const OrtGraph *from, Graph *graph) {
  const OrtApi *api = ort->api;
  size_t num_nodes = 0, num_inputs = 0, num_outputs = 0;
  *graph = (Graph){.ort = ort, .graph = from, .name = ""};
  if (bridge_check(ort, api->Graph_GetName(from, &graph->name)) ||
      bridge_check(ort, api->Graph_GetNumNodes(from, &num_nodes)) ||
      bridge_check(ort, api->Graph_GetNumInputs(from, &num_inputs)) ||
      bridge_check(ort, api->Graph_GetNumOutputs(from, &num_outputs)))
    return -1;
  const OrtNode **nodes = graph_alloc(graph, num_nodes, sizeof(OrtNode *));
  const OrtValueInfo **inputs = graph_alloc(graph, num_inputs, sizeof(OrtValueInfo *));
  const OrtValueInfo **outputs = graph_alloc(graph, num_outputs, sizeof(OrtValueInfo *));
  if (!nodes || !inputs || !outputs ||
      bridge_check(ort, api->Graph_GetNodes(from, nodes, num_nodes)) ||
      make_room(graph, nodes, num_nodes, num_inputs + num_outputs) ||
      read_nodes(graph, nodes, num_nodes) ||
      read_borders(graph, inputs, num_inputs, outputs, num_outputs))
    return -1;
  return 0;
}

void graph_free(Graph *graph) {
  if (graph->names)
    hdestroy_r(graph->names);
  while (graph->blocks) {
    Block *block = graph->blocks;
    graph->blocks = block->next;
    free(block);
  }
  *graph = (Graph){0};
}
