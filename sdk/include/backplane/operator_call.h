/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for libraries that offer single operators (graph_compiler.h, "operator.NAME.OP"):
 * they read a call as a graph of one node, so that the code that claims nodes also serves single
 * operators. Nothing in this header is part of the ABI: a plugin carries its own copy of the
 * functions. Since 1.0. */
#ifndef BACKPLANE_OPERATOR_CALL_H
#define BACKPLANE_OPERATOR_CALL_H

#include <backplane/graph_compiler.h>
#include <backplane/part_module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest numbers of tensors and attributes of one call. */
#define BP_OPERATOR_MAX_TENSORS 16
#define BP_OPERATOR_MAX_ATTRS   16
/* Bytes of an attribute's text. */
#define BP_OPERATOR_MAX_TEXT 64

/* A parsed call. It borrows the arguments, and points into itself: do not copy it. */
typedef struct BpOperatorCall {
  BpOnnxNode node;
  int32_t num_values;
  int32_t num_inputs, num_outputs; /* number of inputs and outputs present, as in values[] */
  BpOnnxValue values[BP_OPERATOR_MAX_TENSORS];
  BpValue tensors[BP_OPERATOR_MAX_TENSORS]; /* the argument for each value */
  int32_t numbers[BP_OPERATOR_MAX_TENSORS]; /* 0, 1, ... */
  int32_t of_node[BP_OPERATOR_MAX_TENSORS]; /* values of the node's inputs and outputs; -1: None */
  BpOnnxAttr attrs[BP_OPERATOR_MAX_ATTRS];
  char names[BP_OPERATOR_MAX_ATTRS][BP_OPERATOR_MAX_TEXT];
  char texts[BP_OPERATOR_MAX_ATTRS][BP_OPERATOR_MAX_TEXT];
  const char *strs[BP_OPERATOR_MAX_ATTRS];
  float floats[BP_OPERATOR_MAX_ATTRS];
  int64_t ints[BP_OPERATOR_MAX_ATTRS];
} BpOperatorCall;

/* Reads a text of at most BP_OPERATOR_MAX_TEXT - 1 bytes. */
static inline int32_t bp_operator_text_(const BpPluginTables *host, const BpValue *arg,
                                        char *text) {
  BpByteArray view;
  if (host->object->view_str(arg, &view) != 0)
    return -1;
  if (view.size >= BP_OPERATOR_MAX_TEXT)
    return bp_plugin_raise(host, BP_ERROR_VALUE,
                           "a text of an operator's attribute has %llu bytes; "
                           "at most %d are possible",
                           (unsigned long long)view.size, BP_OPERATOR_MAX_TEXT - 1);
  __builtin_memcpy(text, view.data, view.size);
  text[view.size] = '\0';
  return 0;
}

/* Reads a number, and then that number of tensors, from args[*at] on. */
static inline int32_t bp_operator_tensors_(const BpPluginTables *host, BpOperatorCall *call,
                                           const BpValue *args, int32_t num_args, int32_t *at,
                                           int32_t producer, int32_t *count) {
  int32_t before = call->node.num_inputs + call->node.num_outputs;
  if (*at >= num_args || args[*at].type_index != BP_TYPE_INT || args[*at].v_int64 < 0 ||
      args[*at].v_int64 > BP_OPERATOR_MAX_TENSORS - before ||
      args[*at].v_int64 > num_args - *at - 1)
    return bp_plugin_raise(host, BP_ERROR_TYPE,
                           "argument %d of operator %s is not a number of tensors that follow", *at,
                           call->node.op);
  *count = (int32_t)args[(*at)++].v_int64;
  for (int32_t i = 0; i < *count; i++, (*at)++) {
    const BpTensorView *view = bp_part_tensor(&args[*at]);
    BpOnnxValue *value = &call->values[call->num_values];
    call->of_node[before + i] = -1;
    if (args[*at].type_index == BP_TYPE_NONE)
      continue;
    if (!view)
      return bp_plugin_raise(host, BP_ERROR_TYPE, "argument %d of operator %s is no tensor", *at,
                             call->node.op);
    __builtin_memset(value, 0, sizeof(*value));
    value->struct_size = sizeof(*value);
    value->name = producer < 0 ? "input" : "output";
    value->dtype = view->dtype;
    value->ndim = view->ndim;
    value->producer = producer;
    value->shape = view->shape;
    call->numbers[call->num_values] = call->num_values;
    call->tensors[call->num_values] = args[*at];
    call->of_node[before + i] = call->num_values++;
  }
  return 0;
}

static inline int32_t bp_operator_attr_(const BpPluginTables *host, BpOperatorCall *call,
                                        const BpValue *name, const BpValue *value) {
  int32_t index = call->node.num_attrs;
  BpOnnxAttr *attr = &call->attrs[index];
  if (index >= BP_OPERATOR_MAX_ATTRS)
    return bp_plugin_raise(host, BP_ERROR_VALUE, "operator %s is given more than %d attributes",
                           call->node.op, BP_OPERATOR_MAX_ATTRS);
  if (bp_operator_text_(host, name, call->names[index]) != 0)
    return -1;
  __builtin_memset(attr, 0, sizeof(*attr));
  attr->name = call->names[index];
  attr->count = 1;
  switch (value->type_index) {
  case BP_TYPE_INT:
  case BP_TYPE_BOOL:
    call->ints[index] = value->v_int64;
    attr->type = BP_ONNX_ATTR_INT;
    attr->ints = &call->ints[index];
    break;
  case BP_TYPE_FLOAT:
    call->floats[index] = (float)value->v_float64;
    attr->type = BP_ONNX_ATTR_FLOAT;
    attr->floats = &call->floats[index];
    break;
  case BP_TYPE_SHAPE:
    attr->type = BP_ONNX_ATTR_INTS;
    attr->ints = ((const BpShape *)(const void *)value->v_obj)->data;
    attr->count = (int32_t)((const BpShape *)(const void *)value->v_obj)->size;
    break;
  default:
    if (bp_operator_text_(host, value, call->texts[index]) != 0)
      return -1;
    call->strs[index] = call->texts[index];
    attr->type = BP_ONNX_ATTR_STRING;
    attr->strs = &call->strs[index];
  }
  call->node.num_attrs++;
  return 0;
}

/* Reads the arguments of `operator.NAME.OP`; `op` is static. 0, or -1 with an error raised: the
 * arguments are malformed. The plugin checks whether it supports the types, shapes and attributes.
 */
static inline int32_t bp_operator_read(const BpPluginTables *host, const char *op,
                                       const BpValue *args, int32_t num_args,
                                       BpOperatorCall *call) {
  int32_t at = 1;
  __builtin_memset(call, 0, sizeof(*call));
  call->node.struct_size = sizeof(call->node);
  call->node.name = call->node.op = op;
  call->node.domain = "";
  call->node.inputs = call->of_node;
  call->node.attrs = call->attrs;
  call->node.attr_size = sizeof(BpOnnxAttr);
  if (num_args < 1 || args[0].type_index != BP_TYPE_INT || args[0].v_int64 < 1 ||
      args[0].v_int64 > INT32_MAX)
    return bp_plugin_raise(host, BP_ERROR_TYPE,
                           "argument 0 of operator %s is not the version of an operator set", op);
  call->node.opset = (int32_t)args[0].v_int64;
  if (bp_operator_tensors_(host, call, args, num_args, &at, -1, &call->node.num_inputs) != 0)
    return -1;
  call->num_inputs = call->num_values;
  if (bp_operator_tensors_(host, call, args, num_args, &at, 0, &call->node.num_outputs) != 0)
    return -1;
  call->num_outputs = call->num_values - call->num_inputs;
  call->node.outputs = call->of_node + call->node.num_inputs;
  for (; at + 1 < num_args; at += 2)
    if (bp_operator_attr_(host, call, &args[at], &args[at + 1]) != 0)
      return -1;
  return at == num_args ? 0
                        : bp_plugin_raise(host, BP_ERROR_TYPE,
                                          "the last attribute of operator %s has no value", op);
}

/* ---- The call as a graph of one node ----------------------------------------------------- */

static inline const BpOperatorCall *bp_operator_of_(const BpOnnxGraph *graph) {
  return (const BpOperatorCall *)(const void *)graph;
}

static inline int32_t bp_operator_num_nodes_(const BpOnnxGraph *graph) {
  (void)graph;
  return 1;
}

static inline const BpOnnxNode *bp_operator_get_node_(const BpOnnxGraph *graph, int32_t node) {
  return node == 0 ? &bp_operator_of_(graph)->node : NULL;
}

static inline int32_t bp_operator_num_values_(const BpOnnxGraph *graph) {
  return bp_operator_of_(graph)->num_values;
}

static inline const BpOnnxValue *bp_operator_get_value_(const BpOnnxGraph *graph, int32_t value) {
  const BpOperatorCall *call = bp_operator_of_(graph);
  return value >= 0 && value < call->num_values ? &call->values[value] : NULL;
}

static inline const int32_t *bp_operator_get_inputs_(const BpOnnxGraph *graph, int32_t *count) {
  *count = bp_operator_of_(graph)->num_inputs;
  return bp_operator_of_(graph)->numbers;
}

static inline const int32_t *bp_operator_get_outputs_(const BpOnnxGraph *graph, int32_t *count) {
  const BpOperatorCall *call = bp_operator_of_(graph);
  *count = call->num_outputs;
  return call->numbers + call->num_inputs;
}

/* Fills a table that reads a call as the graph that bp_operator_graph returns: the graph's inputs
 * and outputs are the tensors of the call, in their order. The slots `take` and `decline` are
 * NULL. */
static inline void bp_operator_table(BpGraphTable *table) {
  __builtin_memset(table, 0, sizeof(*table));
  table->struct_size = sizeof(*table);
  table->num_nodes = bp_operator_num_nodes_;
  table->get_node = bp_operator_get_node_;
  table->num_values = bp_operator_num_values_;
  table->get_value = bp_operator_get_value_;
  table->get_inputs = bp_operator_get_inputs_;
  table->get_outputs = bp_operator_get_outputs_;
}

static inline const BpOnnxGraph *bp_operator_graph(const BpOperatorCall *call) {
  return (const BpOnnxGraph *)(const void *)call;
}

#ifdef __cplusplus
}
#endif

#endif
