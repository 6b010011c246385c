/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a part of a graph as an ONNX model. The numbers of fields and types are ONNX's. */
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"

/* Fields, by message. */
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPERATOR_SET = 8 };
enum { SET_DOMAIN = 1, SET_VERSION = 2 };
enum {
  GRAPH_NODE = 1,
  GRAPH_NAME = 2,
  GRAPH_INITIALIZER = 5,
  GRAPH_INPUT = 11,
  GRAPH_OUTPUT = 12,
  GRAPH_VALUE_INFO = 13
};
enum {
  NODE_INPUT = 1,
  NODE_OUTPUT = 2,
  NODE_NAME = 3,
  NODE_OP = 4,
  NODE_ATTR = 5,
  NODE_DOMAIN = 7
};
enum {
  ATTR_NAME = 1,
  ATTR_F = 2,
  ATTR_I = 3,
  ATTR_S = 4,
  ATTR_T = 5,
  ATTR_G = 6,
  ATTR_FLOATS = 7,
  ATTR_INTS = 8,
  ATTR_STRINGS = 9,
  ATTR_TYPE = 20
};
enum {
  TENSOR_DIMS = 1,
  TENSOR_TYPE = 2,
  TENSOR_NAME = 8,
  TENSOR_RAW_DATA = 9,
  TENSOR_EXTERNAL = 13,
  TENSOR_LOCATION = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { INFO_NAME = 1, INFO_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

/* How deep subgraphs may be nested. */
#define MAX_DEPTH 16
/* Constants of at most this many bytes are stored in the model. */
#define FEW_BYTES 64

static int write_graph(const Runtime *ort, const OrtGraph *from, int depth, Bytes *to);

/* ---- Tensors ----------------------------------------------------------------------------- */

/* Writes a constant, with its elements or with a reference to external elements. */
static void put_constant(Bytes *to, uint32_t field, const Value *value, bool has_data) {
  Bytes tensor = {0};
  for (int32_t i = 0; i < value->ndim; i++)
    bytes_put_int(&tensor, TENSOR_DIMS, value->shape[i]);
  bytes_put_int(&tensor, TENSOR_TYPE, value->type);
  bytes_put_text(&tensor, TENSOR_NAME, value->name);
  if (has_data) {
    bytes_put_data(&tensor, TENSOR_RAW_DATA, value->constant, value->bytes);
  } else {
    Bytes entry = {0};
    bytes_put_text(&entry, ENTRY_KEY, "location");
    bytes_put_text(&entry, ENTRY_VALUE, "memory");
    bytes_put_message(&tensor, TENSOR_EXTERNAL, &entry);
    bytes_put_int(&tensor, TENSOR_LOCATION, 1);
  }
  bytes_put_message(to, field, &tensor);
}

static void put_info(Bytes *to, uint32_t field, const Value *value) {
  Bytes info = {0}, type = {0}, tensor = {0}, shape = {0};
  bytes_put_text(&info, INFO_NAME, value->name);
  for (int32_t i = 0; i < value->ndim; i++) {
    Bytes dim = {0};
    if (value->shape[i] >= 0)
      bytes_put_int(&dim, DIM_VALUE, value->shape[i]);
    else if (value->symbols && value->symbols[i] && *value->symbols[i])
      bytes_put_text(&dim, DIM_PARAM, value->symbols[i]);
    bytes_put_message(&shape, SHAPE_DIM, &dim);
  }
  bytes_put_int(&tensor, TENSOR_ELEMENT, value->type);
  if (value->ndim >= 0)
    bytes_put_message(&tensor, TENSOR_SHAPE, &shape);
  bytes_put_message(&type, TYPE_TENSOR, &tensor);
  if (value->type > 0)
    bytes_put_message(&info, INFO_TYPE, &type);
  bytes_free(&type);
  bytes_put_message(to, field, &info);
}

/* Writes the tensor of an attribute, which has no name. */
static int put_tensor(const Runtime *ort, const OrtValue *from, Bytes *to) {
  const OrtApi *api = ort->api;
  OrtTensorInfo *info = NULL;
  Value value = {.name = ""};
  size_t ndim = 0;
  int64_t shape[16];
  if (bridge_check(ort, api->GetTensorTypeAndShape(from, &info)))
    return -1;
  int status = bridge_check(ort, api->GetTensorElementType(info, &value.type)) ||
                       bridge_check(ort, api->GetDimensionsCount(info, &ndim))
                   ? -1
                   : 0;
  if (status == 0 && ndim > 16)
    status = bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "a tensor has %zu dimensions", ndim);
  if (status == 0)
    status = bridge_check(ort, api->GetDimensions(info, shape, ndim));
  api->ReleaseTensorInfo(info);
  if (status == 0 && value.type == 8)
    status = bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "an attribute is a tensor of texts");
  size_t bytes = 0;
  if (status || bridge_check(ort, api->GetTensorSizeInBytes(from, &bytes)) ||
      bridge_check(ort, api->GetTensorData(from, &value.constant)))
    return -1;
  value.shape = shape;
  value.ndim = (int32_t)ndim;
  value.bytes = bytes;
  put_constant(to, ATTR_T, &value, true);
  return 0;
}

/* ---- Attributes -------------------------------------------------------------------------- */

/* Returns the bytes of an attribute (transfer full, free), and a NUL; NULL with an error. */
static char *read_attr(const Runtime *ort, const OrtOpAttr *attr, int32_t type, size_t *size) {
  *size = 0;
  OrtStatus *status = ort->api->ReadOpAttr(attr, type, NULL, 0, size);
  if (status)
    ort->api->ReleaseStatus(status); /* the room is too small if *size is set */
  char *data = calloc(1, *size + 1);
  if (!data)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an attribute of %zu bytes", *size);
  if (data && *size > 0 && bridge_check(ort, ort->api->ReadOpAttr(attr, type, data, *size, size))) {
    free(data);
    return NULL;
  }
  return data;
}

static int put_numbers(int32_t type, const char *data, size_t size, Bytes *to) {
  size_t width = type == ORT_ATTR_FLOAT || type == ORT_ATTR_FLOATS ? 4 : 8;
  for (size_t i = 0; i + width <= size; i += width) {
    float real;
    int64_t integer;
    if (width == 4) {
      memcpy(&real, data + i, 4);
      bytes_put_float(to, type == ORT_ATTR_FLOAT ? ATTR_F : ATTR_FLOATS, real);
    } else {
      memcpy(&integer, data + i, 8);
      bytes_put_int(to, type == ORT_ATTR_INT ? ATTR_I : ATTR_INTS, integer);
    }
  }
  return 0;
}

/* Writes texts, each followed by a NUL in the data. */
static void put_strings(const char *data, size_t size, Bytes *to) {
  for (size_t at = 0; at < size;) {
    size_t length = strnlen(data + at, size - at);
    bytes_put_data(to, ATTR_STRINGS, data + at, length);
    at += length + 1;
  }
}

static int put_value(const Runtime *ort, const OrtOpAttr *attr, int32_t type, Bytes *to) {
  size_t size;
  if (type == ORT_ATTR_TENSOR) {
    OrtValue *tensor = NULL;
    if (bridge_check(ort, ort->api->OpAttr_GetTensorAttributeAsOrtValue(attr, &tensor)))
      return -1;
    int status = put_tensor(ort, tensor, to);
    ort->api->ReleaseValue(tensor);
    return status;
  }
  char *data = read_attr(ort, attr, type, &size);
  if (!data)
    return -1;
  if (type == ORT_ATTR_STRING)
    bytes_put_data(to, ATTR_S, data, size);
  else if (type == ORT_ATTR_STRINGS)
    put_strings(data, size, to);
  else
    put_numbers(type, data, size, to);
  free(data);
  return 0;
}

/* Returns ONNX's number of an attribute's type; 0 for a type that this file does not write. */
static int32_t onnx_type(int32_t type) {
  static const int32_t types[] = {
      [ORT_ATTR_INT] = 2,    [ORT_ATTR_INTS] = 7,    [ORT_ATTR_FLOAT] = 1, [ORT_ATTR_FLOATS] = 6,
      [ORT_ATTR_STRING] = 3, [ORT_ATTR_STRINGS] = 8, [ORT_ATTR_TENSOR] = 4};
  return type >= 0 && type <= ORT_ATTR_TENSOR ? types[type] : 0;
}

static int put_attr(const Runtime *ort, const OrtOpAttr *attr, Bytes *to) {
  const char *name;
  int32_t type;
  Bytes message = {0};
  if (bridge_check(ort, ort->api->OpAttr_GetName(attr, &name)) ||
      bridge_check(ort, ort->api->OpAttr_GetType(attr, &type)))
    return -1;
  if (onnx_type(type) == 0)
    return 0; /* a graph, which is written as a subgraph */
  bytes_put_text(&message, ATTR_NAME, name);
  int status = put_value(ort, attr, type, &message);
  bytes_put_int(&message, ATTR_TYPE, onnx_type(type));
  bytes_put_message(to, NODE_ATTR, &message);
  return status;
}

static int put_attrs(const Runtime *ort, const OrtNode *node, Bytes *to) {
  size_t count = 0;
  if (bridge_check(ort, ort->api->Node_GetNumAttributes(node, &count)))
    return -1;
  const OrtOpAttr **attrs = calloc(count + 1, sizeof(*attrs));
  if (!attrs)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu attributes", count);
  int status = bridge_check(ort, ort->api->Node_GetAttributes(node, attrs, count));
  for (size_t i = 0; i < count && status == 0; i++)
    status = put_attr(ort, attrs[i], to);
  free(attrs);
  return status;
}

static int put_subgraphs(const Runtime *ort, const OrtNode *node, int depth, Bytes *to) {
  size_t count = 0;
  if (bridge_check(ort, ort->api->Node_GetNumSubgraphs(node, &count)))
    return -1;
  if (count == 0)
    return 0;
  const OrtGraph **graphs = calloc(count, sizeof(*graphs));
  const char **names = calloc(count, sizeof(*names));
  int status = graphs && names
                   ? bridge_check(ort, ort->api->Node_GetSubgraphs(node, graphs, count, names))
                   : bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu subgraphs", count);
  for (size_t i = 0; i < count && status == 0; i++) {
    Bytes attr = {0}, graph = {0};
    bytes_put_text(&attr, ATTR_NAME, names[i]);
    status = write_graph(ort, graphs[i], depth + 1, &graph);
    bytes_put_message(&attr, ATTR_G, &graph);
    bytes_put_int(&attr, ATTR_TYPE, 5);
    bytes_put_message(to, NODE_ATTR, &attr);
  }
  free(graphs);
  free(names);
  return status;
}

/* ---- Nodes and graphs -------------------------------------------------------------------- */

static const char *name_of(const Graph *graph, int32_t value) {
  return value < 0 ? "" : graph->values[value].name;
}

static int put_node(const Graph *graph, const Node *node, int depth, Bytes *to) {
  Bytes message = {0};
  for (int32_t i = 0; i < node->num_own_inputs; i++)
    bytes_put_text(&message, NODE_INPUT, name_of(graph, node->inputs[i]));
  for (int32_t i = 0; i < node->num_outputs; i++)
    bytes_put_text(&message, NODE_OUTPUT, name_of(graph, node->outputs[i]));
  bytes_put_text(&message, NODE_NAME, node->name);
  bytes_put_text(&message, NODE_OP, node->op);
  int status = put_attrs(graph->ort, node->ort, &message) ||
                       put_subgraphs(graph->ort, node->ort, depth, &message)
                   ? -1
                   : 0;
  bytes_put_text(&message, NODE_DOMAIN, node->domain);
  bytes_put_message(to, GRAPH_NODE, &message);
  return status;
}

/* Writes the whole subgraph of a node. The subgraph names the values of outer graphs that it
 * reads. */
static int write_graph(const Runtime *ort, const OrtGraph *from, int depth, Bytes *to) {
  Graph graph;
  size_t num_outputs = 0;
  if (depth > MAX_DEPTH)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "subgraphs nest deeper than %d", MAX_DEPTH);
  int status = graph_read(ort, from, &graph);
  bytes_put_text(to, GRAPH_NAME, "body");
  for (int32_t i = 0; i < graph.num_nodes && status == 0; i++)
    status = put_node(&graph, &graph.nodes[i], depth, to);
  for (int32_t i = 0; i < graph.num_inputs && status == 0; i++)
    put_info(to, GRAPH_INPUT, &graph.values[graph.inputs[i]]);
  for (int32_t i = 0; i < graph.num_values && status == 0; i++)
    if (graph.values[i].constant)
      put_constant(to, GRAPH_INITIALIZER, &graph.values[i], true);
  const OrtValueInfo **outputs = NULL;
  if (status == 0 && (bridge_check(ort, ort->api->Graph_GetNumOutputs(from, &num_outputs)) ||
                      !(outputs = graph_alloc(&graph, num_outputs, sizeof(*outputs))) ||
                      bridge_check(ort, ort->api->Graph_GetOutputs(from, outputs, num_outputs))))
    status = -1;
  for (size_t i = 0; i < num_outputs && status == 0; i++) {
    Value value = {.ndim = -1};
    status = bridge_check(ort, ort->api->GetValueInfoName(outputs[i], &value.name));
    if (status == 0)
      put_info(to, GRAPH_OUTPUT, &value);
  }
  graph_free(&graph);
  return status;
}

/* ---- Parts ------------------------------------------------------------------------------- */

static int put_operator_sets(const Graph *graph, Bytes *to) {
  const Runtime *ort = graph->ort;
  size_t count = 0;
  if (bridge_check(ort, ort->api->Graph_GetNumOperatorSets(graph->graph, &count)))
    return -1;
  const char **domains = calloc(count + 1, sizeof(*domains));
  int64_t *versions = calloc(count + 1, sizeof(*versions));
  int status = domains && versions
                   ? bridge_check(ort, ort->api->Graph_GetOperatorSets(graph->graph, domains,
                                                                       versions, count))
                   : bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu operator sets", count);
  for (size_t i = 0; i < count && status == 0; i++) {
    Bytes set = {0};
    bytes_put_text(&set, SET_DOMAIN, domains[i]);
    bytes_put_int(&set, SET_VERSION, versions[i]);
    bytes_put_message(to, MODEL_OPERATOR_SET, &set);
  }
  free(domains);
  free(versions);
  return status;
}

/* Writes the constants that the nodes read, each once. */
static int put_constants(Graph *graph, const Selection *selection, bool has_data, OnnxPart *part,
                         Bytes *to) {
  part->tensors = calloc((size_t)graph->num_values + 1, sizeof(*part->tensors));
  if (!part->tensors)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the constants of a graph");
  for (int32_t i = 0; i < graph->num_values; i++)
    graph->values[i].mark = 0;
  for (int32_t i = 0; i < selection->num_nodes; i++) {
    const Node *node = &graph->nodes[selection->nodes[i]];
    for (int32_t k = 0; k < node->num_inputs; k++) {
      Value *value = node->inputs[k] < 0 ? NULL : &graph->values[node->inputs[k]];
      if (!value || !value->constant || value->mark)
        continue;
      bool is_inside = has_data || value->bytes <= FEW_BYTES;
      value->mark = 1;
      put_constant(to, GRAPH_INITIALIZER, value, is_inside);
      if (!is_inside)
        part->tensors[part->num_tensors++] =
            (BpOnnxTensor){value->name, value->constant, value->bytes};
    }
  }
  return 0;
}

static int put_graph(Graph *graph, const Selection *selection, bool has_data, bool has_types,
                     OnnxPart *part, Bytes *to) {
  bytes_put_text(to, GRAPH_NAME, *graph->name ? graph->name : "part");
  for (int32_t i = 0; i < selection->num_nodes; i++) {
    const Node *node = &graph->nodes[selection->nodes[i]];
    if (put_node(graph, node, 0, to))
      return -1;
    for (int32_t k = 0; k < node->num_outputs && has_types; k++) {
      const Value *value = node->outputs[k] < 0 ? NULL : &graph->values[node->outputs[k]];
      if (value && value->ndim >= 0 && type_has_bytes(value->type))
        put_info(to, GRAPH_VALUE_INFO, value);
    }
  }
  for (int32_t i = 0; i < selection->num_inputs; i++)
    put_info(to, GRAPH_INPUT, &graph->values[selection->inputs[i]]);
  for (int32_t i = 0; i < selection->num_outputs; i++)
    put_info(to, GRAPH_OUTPUT, &graph->values[selection->outputs[i]]);
  return put_constants(graph, selection, has_data, part, to);
}

int onnx_write(Graph *graph, const Selection *selection, bool has_data, bool has_types,
               OnnxPart *part) {
  Bytes body = {0};
  int64_t version = 0;
  *part = (OnnxPart){0};
  int status =
      bridge_check(graph->ort, graph->ort->api->Graph_GetOnnxIRVersion(graph->graph, &version)) ||
              put_graph(graph, selection, has_data, has_types, part, &body) ||
              put_operator_sets(graph, &part->bytes)
          ? -1
          : 0;
  /* From IR version 4 on, an initializer need not be an input. */
  bytes_put_int(&part->bytes, MODEL_IR_VERSION, version < 4 ? 4 : version);
  bytes_put_text(&part->bytes, MODEL_PRODUCER, "backplane-onnxruntime");
  bytes_put_message(&part->bytes, MODEL_GRAPH, &body);
  return status || bytes_end(&part->bytes) ? -1 : 0;
}

void onnx_part_free(OnnxPart *part) {
  bytes_free(&part->bytes);
  free(part->tensors);
  *part = (OnnxPart){0};
}
