/* SPDX-License-Identifier: Apache-2.0 */
/* Divides a graph: the importer says which nodes can be compiled, connected nodes become parts, and
 * parts that do not become faster are not claimed. Parts are compiled before they are claimed. */
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"

/* The most compilations of one graph that may fail: a part that fails is divided. */
#define MOST_FAILURES 32
/* The most nodes that a report lists. */
#define MOST_REASONS 1000

/* For estimates: rough speeds of a CPU, and the cost of entering a part. */
#define FLOPS_PER_NS    20.0
#define BYTES_PER_NS    5.0
#define NODE_NS         1000.0 /* least time of a node in ONNX Runtime */
#define PART_NS         3000.0
#define DEVICE_PART_NS  60000.0
#define LIKELY_EXTENT   64
#define LIKELY_ELEMENTS 1000.0
#define LEAST_GAIN      4.0 /* least ratio of a part's work to its borders */

typedef struct Partition {
  Graph *graph;
  const Purpose *purpose;
  OrtGraphSupportInfo *info;
  Claims *claims;
  int32_t failures;
} Partition;

/* ---- Which nodes can be compiled ---------------------------------------------------------- */

static int hear(void *context, const BpOnnxQueried *queried) {
  Graph *graph = context;
  Node *node = &graph->nodes[queried->index];
  node->why = queried->why ? graph_print(graph, "%s", queried->why) : NULL;
  return 0;
}

static int query(Graph *graph) {
  Selection all = {.num_nodes = graph->num_nodes};
  OnnxPart onnx;
  all.nodes = graph_alloc(graph, (size_t)graph->num_nodes, sizeof(int32_t));
  all.inputs = graph_alloc(graph, (size_t)graph->num_inputs, sizeof(int32_t));
  if (!all.nodes || !all.inputs)
    return -1;
  for (int32_t i = 0; i < graph->num_nodes; i++)
    all.nodes[i] = i;
  for (int32_t i = 0; i < graph->num_inputs; i++) {
    const Value *value = &graph->values[graph->inputs[i]];
    if (!value->constant && value->ndim >= 0 && type_has_bytes(value->type))
      all.inputs[all.num_inputs++] = graph->inputs[i];
  }
  int status = onnx_write(graph, &all, false, true, &onnx);
  BpOnnxBytes bytes = {.struct_size = sizeof bytes,
                       .name = *graph->name ? graph->name : "graph",
                       .data = onnx.bytes.data,
                       .size = onnx.bytes.size,
                       .tensors = onnx.tensors,
                       .tensor_size = sizeof(BpOnnxTensor),
                       .num_tensors = onnx.num_tensors};
  if (status == 0)
    status = bp_onnx_query(&bytes, hear, graph);
  onnx_part_free(&onnx);
  return status;
}

/* The first version that passes the values that bodies read to the node of a part. */
#define PASSES_CAPTURES 28

static void refuse_captures(Graph *graph) {
  for (int32_t i = 0; i < graph->num_nodes && graph->ort->version < PASSES_CAPTURES; i++) {
    Node *node = &graph->nodes[i];
    for (int32_t k = node->num_own_inputs; k < node->num_inputs && !node->why; k++)
      if (node->inputs[k] >= 0 && !graph->values[node->inputs[k]].constant)
        node->why = graph_print(graph,
                                "a body reads '%s' of the graph around it, which ONNX Runtime "
                                "passes from 1.%d on",
                                graph->values[node->inputs[k]].name, PASSES_CAPTURES);
  }
}

/* ---- Groups ------------------------------------------------------------------------------ */

static bool is_taken(const Node *node) {
  return !node->why;
}

/* Computes the level of each node: the largest number of rejected nodes on a path into the node. No
 * rejected node is between two accepted nodes of one level: together they are convex. */
static void find_levels(Graph *graph) {
  for (int32_t i = 0; i < graph->num_nodes; i++) {
    Node *node = &graph->nodes[i];
    for (int32_t k = 0; k < node->num_inputs; k++) {
      int32_t from = node->inputs[k] < 0 ? -1 : graph->values[node->inputs[k]].producer;
      if (from < 0 || from >= i)
        continue;
      const Node *before = &graph->nodes[from];
      int32_t level = before->level + (!is_taken(before) && is_taken(node));
      if (level > node->level)
        node->level = level;
    }
  }
}

static int32_t root(Graph *graph, int32_t node) {
  while (graph->nodes[node].group != node) {
    graph->nodes[node].group = graph->nodes[graph->nodes[node].group].group;
    node = graph->nodes[node].group;
  }
  return node;
}

/* Joins two claimed nodes of the same level if one reads an output of the other. The first node
 * identifies a group. */
static void find_groups(Graph *graph) {
  for (int32_t i = 0; i < graph->num_nodes; i++)
    graph->nodes[i].group = i;
  for (int32_t i = 0; i < graph->num_nodes; i++) {
    const Node *node = &graph->nodes[i];
    for (int32_t k = 0; k < node->num_inputs && is_taken(node); k++) {
      int32_t from = node->inputs[k] < 0 ? -1 : graph->values[node->inputs[k]].producer;
      if (from < 0 || from >= i || !is_taken(&graph->nodes[from]) ||
          graph->nodes[from].level != node->level)
        continue;
      int32_t a = root(graph, from), b = root(graph, i);
      graph->nodes[a > b ? a : b].group = a > b ? b : a;
    }
  }
  for (int32_t i = 0; i < graph->num_nodes; i++)
    graph->nodes[i].group = root(graph, i);
}

/* ---- Borders ----------------------------------------------------------------------------- */

enum { INSIDE = 1, BORDER = 2 };

/* Appends to the inputs the values that the nodes read and do not make themselves. */
static void add_inputs(Graph *graph, Selection *selection) {
  for (int32_t i = 0; i < selection->num_nodes; i++) {
    const Node *node = &graph->nodes[selection->nodes[i]];
    for (int32_t k = 0; k < node->num_inputs; k++) {
      Value *value = node->inputs[k] < 0 ? NULL : &graph->values[node->inputs[k]];
      if (!value || value->constant || value->mark)
        continue;
      value->mark = BORDER;
      selection->inputs[selection->num_inputs++] = node->inputs[k];
    }
  }
}

/* Whether a node outside the selection reads the value. The selection is in order. */
static void mark_read_outside(Graph *graph, const Selection *selection) {
  for (int32_t i = 0, next = 0; i < graph->num_nodes; i++) {
    if (next < selection->num_nodes && selection->nodes[next] == i) {
      next++;
      continue;
    }
    const Node *node = &graph->nodes[i];
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].mark == INSIDE)
        graph->values[node->inputs[k]].mark = BORDER;
  }
}

static int find_borders(Graph *graph, Selection *selection) {
  selection->inputs = graph_alloc(graph, (size_t)graph->num_values, sizeof(int32_t));
  selection->outputs = graph_alloc(graph, (size_t)graph->num_values, sizeof(int32_t));
  if (!selection->inputs || !selection->outputs)
    return -1;
  selection->num_inputs = selection->num_outputs = 0;
  for (int32_t i = 0; i < graph->num_values; i++)
    graph->values[i].mark = 0;
  for (int32_t i = 0; i < selection->num_nodes; i++) {
    const Node *node = &graph->nodes[selection->nodes[i]];
    for (int32_t k = 0; k < node->num_outputs; k++)
      if (node->outputs[k] >= 0)
        graph->values[node->outputs[k]].mark = INSIDE;
  }
  add_inputs(graph, selection);
  mark_read_outside(graph, selection);
  for (int32_t i = 0; i < selection->num_nodes; i++) {
    const Node *node = &graph->nodes[selection->nodes[i]];
    for (int32_t k = 0; k < node->num_outputs; k++) {
      const Value *value = node->outputs[k] < 0 ? NULL : &graph->values[node->outputs[k]];
      if (value && (value->is_output || value->mark == BORDER))
        selection->outputs[selection->num_outputs++] = node->outputs[k];
    }
  }
  return 0;
}

/* Says why the selection's borders exclude a part, or NULL. */
static const char *check_borders(Graph *graph, const Selection *selection) {
  if (selection->num_outputs == 0)
    return "nothing reads its outputs";
  for (int32_t i = 0; i < selection->num_inputs + selection->num_outputs; i++) {
    const Value *value =
        &graph->values[i < selection->num_inputs ? selection->inputs[i]
                                                 : selection->outputs[i - selection->num_inputs]];
    if (!type_has_bytes(value->type))
      return graph_print(graph,
                         "'%s', at the border of its part, is of ONNX's type %d, which is not "
                         "passed between providers",
                         value->name, value->type);
    if (i < selection->num_inputs && value->ndim < 0)
      return graph_print(graph, "the rank of '%s', which its part reads, is not known",
                         value->name);
  }
  return NULL;
}

/* ---- Gain -------------------------------------------------------------------------------- */

static double elements_of(const Value *value) {
  double count = 1;
  if (value->ndim < 0)
    return LIKELY_ELEMENTS;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= value->shape[i] < 0 ? (i == 0 ? 1 : LIKELY_EXTENT) : (double)value->shape[i];
  return count;
}

static double bytes_of(const Value *value) {
  return 4 * elements_of(value);
}

static const Value *input_of(const Graph *graph, const Node *node, int32_t index) {
  return index < node->num_own_inputs && node->inputs[index] >= 0
             ? &graph->values[node->inputs[index]]
             : NULL;
}

/* Returns the number of products and sums for each element that a node makes. */
static double depth_of(const Graph *graph, const Node *node) {
  const Value *a = input_of(graph, node, 0), *b = input_of(graph, node, 1);
  if (strstr(node->op, "Conv")) {
    const Value *weights = !strcmp(node->op, "QLinearConv") ? input_of(graph, node, 3) : b;
    return weights && weights->ndim > 0 && weights->shape[0] > 0
               ? elements_of(weights) / (double)weights->shape[0]
               : 1;
  }
  if (strstr(node->op, "MatMul") || !strcmp(node->op, "Gemm") || !strcmp(node->op, "Einsum"))
    return a && a->ndim > 0 ? elements_of(&(Value){.ndim = 1, .shape = &a->shape[a->ndim - 1]}) : 1;
  if (!strcmp(node->op, "LSTM") || !strcmp(node->op, "GRU") || !strcmp(node->op, "RNN") ||
      strstr(node->op, "Attention"))
    return b && b->ndim > 0 ? 4 * elements_of(&(Value){.ndim = 1, .shape = &b->shape[b->ndim - 1]})
                            : LIKELY_EXTENT;
  return node->num_inputs > node->num_own_inputs ? LIKELY_EXTENT : 1; /* the node has subgraphs */
}

/* Estimates the time that ONNX Runtime takes for a node. */
static double node_ns(const Graph *graph, const Node *node) {
  double elements = 0;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] >= 0)
      elements += elements_of(&graph->values[node->outputs[i]]);
  return NODE_NS + 4 * elements / BYTES_PER_NS +
         2 * elements * depth_of(graph, node) / FLOPS_PER_NS;
}

/* Returns NULL if the part's gain exceeds the cost of its borders, else why not. */
static const char *check_gain(const Partition *partition, const Selection *selection) {
  Graph *graph = partition->graph;
  bool is_host = partition->purpose->device.device_type == BP_DEVICE_CPU;
  double work = 0, bytes = 0;
  if (partition->purpose->options->claims_all || selection->num_nodes == graph->num_nodes)
    return NULL;
  for (int32_t i = 0; i < selection->num_nodes; i++)
    work += node_ns(graph, &graph->nodes[selection->nodes[i]]);
  for (int32_t i = 0; i < selection->num_inputs && !is_host; i++)
    bytes += bytes_of(&graph->values[selection->inputs[i]]);
  for (int32_t i = 0; i < selection->num_outputs; i++)
    bytes += bytes_of(&graph->values[selection->outputs[i]]);
  double border = (is_host ? PART_NS : DEVICE_PART_NS) + bytes / BYTES_PER_NS;
  if (work >= LEAST_GAIN * border)
    return NULL;
  return graph_print(
      graph,
      "its part does not become faster: %d node%s, about %.0f us of work, and %.0f us to pass "
      "its inputs and outputs; set option claim=all to claim it",
      selection->num_nodes, selection->num_nodes > 1 ? "s" : "", work / 1e3, border / 1e3);
}

/* ---- Claiming ---------------------------------------------------------------------------- */

static void refuse(Graph *graph, const Selection *selection, const char *why) {
  for (int32_t i = 0; i < selection->num_nodes; i++)
    graph->nodes[selection->nodes[i]].why = why;
}

/* `has_constants`: the part contains the constants that the nodes read. */
static int claim(Partition *partition, const Selection *selection, Part *part, bool has_constants) {
  const Graph *graph = partition->graph;
  Claims *claims = partition->claims;
  OrtFusionOptions options = {.version = ORT_OLDEST_VERSION,
                              .drop_constant_initializers = has_constants};
  const OrtNode **nodes =
      graph_alloc(partition->graph, (size_t)selection->num_nodes, sizeof(*nodes));
  if (!nodes) {
    part_free(part);
    return -1;
  }
  claims->parts[claims->num_parts++] = part;
  claims->num_claimed += selection->num_nodes;
  for (int32_t i = 0; i < selection->num_nodes; i++)
    nodes[i] = graph->nodes[selection->nodes[i]].ort;
  return bridge_check(graph->ort,
                      graph->ort->ep->AddNodesToFuse(partition->info, nodes,
                                                     (size_t)selection->num_nodes, &options));
}

/* Compiles the part; NULL with an error. */
static Part *compile(Partition *partition, const Selection *selection) {
  Graph *graph = partition->graph;
  const Options *options = partition->purpose->options;
  OnnxPart onnx;
  Part *part = NULL;
  if (onnx_write(graph, selection, options->makes_contexts, false, &onnx) == 0) {
    BpOnnxBytes bytes = {.struct_size = sizeof bytes,
                         .name = *graph->name ? graph->name : "graph",
                         .data = onnx.bytes.data,
                         .size = onnx.bytes.size,
                         .tensors = onnx.tensors,
                         .tensor_size = sizeof(BpOnnxTensor),
                         .num_tensors = onnx.num_tensors};
    part = part_create(partition->purpose, &bytes, graph->values[selection->outputs[0]].name);
    if (part && options->makes_contexts)
      part_keep_onnx(part, &onnx.bytes);
  }
  onnx_part_free(&onnx);
  return part;
}

/* Claims the selection, or the halves of it that can be compiled and become faster. */
static int try_selection(Partition *partition, Selection *selection) {
  Graph *graph = partition->graph;
  if (find_borders(graph, selection))
    return -1;
  const char *why = check_borders(graph, selection);
  why = why ? why : check_gain(partition, selection);
  if (why) {
    refuse(graph, selection, why);
    return 0;
  }
  Part *part = compile(partition, selection);
  if (part)
    return claim(partition, selection, part, true);
  why = graph_print(graph, "%s", bp_error_message());
  bp_error_clear();
  refuse(graph, selection, why);
  if (selection->num_nodes == 1 || ++partition->failures > MOST_FAILURES)
    return 0;
  /* In topological order, both halves of a convex part are convex. */
  Selection first = {.nodes = selection->nodes, .num_nodes = selection->num_nodes / 2};
  Selection second = {.nodes = selection->nodes + first.num_nodes,
                      .num_nodes = selection->num_nodes - first.num_nodes};
  refuse(graph, selection, NULL);
  return try_selection(partition, &first) || try_selection(partition, &second) ? -1 : 0;
}

static int claim_group(Partition *partition, int32_t group) {
  Graph *graph = partition->graph;
  Selection selection = {0};
  selection.nodes = graph_alloc(graph, (size_t)graph->num_nodes, sizeof(int32_t));
  if (!selection.nodes)
    return -1;
  for (int32_t i = group; i < graph->num_nodes; i++)
    if (graph->nodes[i].group == group && is_taken(&graph->nodes[i]))
      selection.nodes[selection.num_nodes++] = i;
  return selection.num_nodes > 0 ? try_selection(partition, &selection) : 0;
}

/* ---- Nodes that contain a part ----------------------------------------------------------- */

/* Reads a text attribute of a node (transfer full, free) and its size; NULL if the node has no
 * attribute of that name. */
static char *read_text(const Runtime *ort, const OrtNode *node, const char *name, size_t *size) {
  const OrtOpAttr *attr = NULL;
  *size = 0;
  if (bridge_check(ort, ort->api->Node_GetAttributeByName(node, name, &attr)) || !attr) {
    bp_error_clear();
    return NULL;
  }
  OrtStatus *status = ort->api->ReadOpAttr(attr, ORT_ATTR_STRING, NULL, 0, size);
  if (status)
    ort->api->ReleaseStatus(status);
  char *text = calloc(1, *size + 1);
  if (text && *size > 0 &&
      bridge_check(ort, ort->api->ReadOpAttr(attr, ORT_ATTR_STRING, text, *size, size))) {
    bp_error_clear();
    free(text);
    return NULL;
  }
  return text;
}

static bool holds_part(const Graph *graph, const Node *node) {
  size_t size;
  if (strcmp(node->op, "EPContext") != 0)
    return false;
  char *source = read_text(graph->ort, node->ort, "source", &size);
  bool is_ours = source && !strcmp(source, CONTEXT_SOURCE);
  free(source);
  return is_ours;
}

/* Checks that a value of the node has the name and the type of the part's value, a tensor: a part
 * reads and writes as many bytes as its own types have. */
static int check_tensor(const Graph *graph, const int32_t *values, int32_t count, const char *role,
                        const BpModelTensorInfo *info) {
  if (info->kind != BP_MODEL_TENSOR)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "the model in its ep_cache_context has the %s '%s', which is no tensor",
                          role, info->name);
  for (int32_t i = 0; i < count; i++) {
    const Value *value = values[i] < 0 ? NULL : &graph->values[values[i]];
    if (value && strcmp(value->name, info->name) == 0 && type_is(value->type, info->dtype))
      return 0;
  }
  char dtype[32];
  bp_dtype_format(info->dtype, dtype, sizeof dtype);
  return bp_error_raise(BP_ERROR_FORMAT,
                        "the model in its ep_cache_context has the %s '%s' of %s, which the node "
                        "does not have",
                        role, info->name, dtype);
}

/* Checks that the part computes the node's output. */
static int check_computed(const Value *value, const BpModel *model) {
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++)
    if (!strcmp(value->name, bp_model_output_info(model, i)->name))
      return 0;
  return bp_error_raise(BP_ERROR_FORMAT,
                        "the node has the output '%s', which the model in its ep_cache_context "
                        "does not have",
                        value->name);
}

static int check_held(const Graph *graph, const Node *node, const BpModel *model) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    if (check_tensor(graph, node->inputs, node->num_own_inputs, "input",
                     bp_model_input_info(model, i)))
      return -1;
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++)
    if (check_tensor(graph, node->outputs, node->num_outputs, "output",
                     bp_model_output_info(model, i)))
      return -1;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] >= 0 && check_computed(&graph->values[node->outputs[i]], model))
      return -1;
  return 0;
}

/* Compiles the ONNX model that the node contains, which is data, not code. */
static int claim_held(Partition *partition, int32_t index) {
  Graph *graph = partition->graph;
  Node *node = &graph->nodes[index];
  Selection selection = {.nodes = &index, .num_nodes = 1};
  size_t size;
  char *data = read_text(graph->ort, node->ort, "ep_cache_context", &size);
  Part *part = NULL;
  if (data && node->num_outputs > 0 && node->outputs[0] >= 0) {
    BpOnnxBytes bytes = {
        .struct_size = sizeof bytes, .name = "EPContext", .data = data, .size = size};
    part = part_create(partition->purpose, &bytes, graph->values[node->outputs[0]].name);
    if (part && check_held(graph, node, part_model(part))) {
      part_free(part);
      part = NULL;
    }
  } else {
    bp_error_raise(BP_ERROR_FORMAT, "the node has no ep_cache_context");
  }
  free(data);
  node->why = part ? NULL : graph_print(graph, "%s", bp_error_message());
  bp_error_clear();
  return part ? claim(partition, &selection, part, false) : 0;
}

/* ---- The partition ----------------------------------------------------------------------- */

static void list_reasons(const Graph *graph, Claims *claims) {
  int32_t count = 0;
  for (int32_t i = 0; i < graph->num_nodes; i++) {
    const Node *node = &graph->nodes[i];
    if (!node->why || count == MOST_REASONS)
      continue;
    if (count++ == 0)
      claims->first_why =
          graph_print((Graph *)(uintptr_t)graph, "%s '%s': %s", node->op, node->name, node->why);
    bytes_print(&claims->reasons, "%s{\"node\": ", count > 1 ? ", " : "");
    bytes_put_json(&claims->reasons, node->name);
    bytes_print(&claims->reasons, ", \"operator\": ");
    bytes_put_json(&claims->reasons, node->op);
    bytes_print(&claims->reasons, ", \"why\": ");
    bytes_put_json(&claims->reasons, node->why);
    bytes_print(&claims->reasons, "}");
  }
}

int partition(Graph *graph, const Purpose *purpose, OrtGraphSupportInfo *info, Claims *claims) {
  Partition state = {graph, purpose, info, claims, 0};
  *claims = (Claims){.num_nodes = graph->num_nodes};
  claims->parts = calloc((size_t)graph->num_nodes + 1, sizeof(*claims->parts));
  if (!claims->parts)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the parts of a graph");
  if (graph->num_nodes == 0)
    return 0;
  if (query(graph))
    return -1;
  refuse_captures(graph);
  find_levels(graph);
  find_groups(graph);
  for (int32_t i = 0; i < graph->num_nodes; i++) {
    int status = holds_part(graph, &graph->nodes[i]) ? claim_held(&state, i)
                 : graph->nodes[i].group == i        ? claim_group(&state, i)
                                                     : 0;
    if (status)
      return -1;
  }
  list_reasons(graph, claims);
  return 0;
}
