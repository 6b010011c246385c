/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: names become values, nodes become operators of the table. */
#include "graph/onnx/import.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/ops/op.h"

typedef struct Import {
  BpGraph *graph;
  const OnnxModel *model;
  const OnnxGraph *onnx;
  int32_t version;            /* of the default operator set */
  struct hsearch_data values; /* by name: BpGraphValue */
} Import;

static int is_empty(const char *text) {
  return !text || !text[0];
}

/* Names go into JSON and file names, so they must be text. */
static const char *check_name(const char *name, const char *what) {
  if (is_empty(name))
    bp_error_raise(BP_ERROR_FORMAT, "%s of the model has no name", what);
  else if (!g_utf8_validate(name, -1, NULL))
    bp_error_raise(BP_ERROR_FORMAT, "%s of the model has a name that is not UTF-8", what);
  else
    return name;
  return NULL;
}

/* ---- Names ------------------------------------------------------------------------------- */

static int create_names(Import *import) {
  size_t count = import->onnx->n_input + import->onnx->n_initializer;
  for (size_t i = 0; i < import->onnx->n_node; i++)
    count += import->onnx->node[i]->n_output;
  if (!hcreate_r(count + count / 2 + 1, &import->values))
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu names of the model", count);
  return 0;
}

static BpGraphValue *find_value(Import *import, const char *name) {
  ENTRY key = {.key = (char *)(uintptr_t)name}, *found = NULL;
  return hsearch_r(key, FIND, &found, &import->values) ? found->data : NULL;
}

static int add_value(Import *import, const char *name, BpGraphValue *value) {
  ENTRY entry = {.key = (char *)(uintptr_t)name, .data = value}, *found = NULL;
  if (!value)
    return -1;
  if (!hsearch_r(entry, ENTER, &found, &import->values))
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory for the names of the model");
  if (found->data != value)
    return bp_error_raise(BP_ERROR_FORMAT, "the model gives the name '%s' to two values", name);
  return 0;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

static const BpInputShape *find_shape(const BpInputShape *shapes, int32_t count, const char *name) {
  for (int32_t i = 0; i < count; i++)
    if (!strcmp(shapes[i].name, name))
      return &shapes[i];
  return NULL;
}

/* A dimension that the file fixes, or -1. */
static int64_t fixed_extent(const OnnxDimension *dimension) {
  return dimension->has_dim_value && dimension->dim_value > 0 ? dimension->dim_value : -1;
}

/* The extent that another input's shape gives to a symbol, or -1. */
static int64_t symbol_extent(const Import *import, const BpInputShape *shapes, int32_t num_shapes,
                             const char *symbol) {
  for (size_t i = 0; i < import->onnx->n_input && !is_empty(symbol); i++) {
    const OnnxValueInfo *info = import->onnx->input[i];
    const BpInputShape *given =
        is_empty(info->name) ? NULL : find_shape(shapes, num_shapes, info->name);
    const Backplane__Onnx__TensorShapeProto *shape =
        info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
    for (size_t d = 0; given && shape && d < shape->n_dim && (int32_t)d < given->ndim; d++)
      if (shape->dim[d]->dim_param && !strcmp(shape->dim[d]->dim_param, symbol) &&
          fixed_extent(shape->dim[d]) < 0)
        return given->shape[d];
  }
  return -1;
}

/* The example of a shape has what the file fixes, and 1 for the rest. */
static int unbound_dimension(const OnnxValueInfo *info, size_t index) {
  const Backplane__Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
  const char *symbol = shape->dim[index]->dim_param;
  char example[BP_GRAPH_MAX_NDIM * 21 + 1] = "";
  size_t used = 0;
  for (size_t i = 0; i < shape->n_dim; i++) {
    int64_t fixed = fixed_extent(shape->dim[i]);
    used += (size_t)snprintf(example + used, sizeof(example) - used, "%s%" PRId64, i ? "x" : "",
                             fixed < 0 ? 1 : fixed);
  }
  return bp_error_raise(BP_ERROR_VALUE,
                        "dimension %zu of input '%s'%s%s%s is not fixed by the model; give the "
                        "input's shape in \"shapes\", for the command by --shape %s=%s",
                        index, info->name, is_empty(symbol) ? "" : " ('",
                        is_empty(symbol) ? "" : symbol, is_empty(symbol) ? "" : "')", info->name,
                        example);
}

/* The shape of an input: the one given, checked against the file, or that of the file. */
static int input_shape(const Import *import, const OnnxValueInfo *info, const BpInputShape *shapes,
                       int32_t num_shapes, int64_t *extents, int32_t *ndim) {
  const BpInputShape *given = find_shape(shapes, num_shapes, info->name);
  const Backplane__Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
  *ndim = given ? given->ndim : shape ? (int32_t)shape->n_dim : -1;
  if (*ndim < 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the model does not say the shape of input '%s'; give it in \"shapes\", "
                          "for the command as in --shape %s=1x3x224x224",
                          info->name, info->name);
  if (*ndim > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "input '%s' has %d dimensions, at most %d work",
                          info->name, *ndim, BP_GRAPH_MAX_NDIM);
  if (shape && (int32_t)shape->n_dim != *ndim)
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' has %zu dimensions, and %d were given",
                          info->name, shape->n_dim, *ndim);
  for (int32_t i = 0; i < *ndim; i++) {
    int64_t fixed = shape ? fixed_extent(shape->dim[i]) : -1;
    extents[i] = given        ? given->shape[i]
                 : fixed >= 0 ? fixed
                              : symbol_extent(import, shapes, num_shapes, shape->dim[i]->dim_param);
    if (extents[i] < 0 && !given)
      return unbound_dimension(info, (size_t)i);
    if (fixed >= 0 && extents[i] != fixed)
      return bp_error_raise(BP_ERROR_VALUE,
                            "dimension %d of input '%s' is %" PRId64 " in the model, and %" PRId64
                            " was given",
                            i, info->name, fixed, extents[i]);
  }
  return 0;
}

static int add_input(Import *import, const OnnxValueInfo *info, const BpInputShape *shapes,
                     int32_t num_shapes) {
  int64_t extents[BP_GRAPH_MAX_NDIM];
  BpDataType dtype;
  BpGraphValue *value;
  int32_t ndim;
  if (!check_name(info->name, "an input"))
    return -1;
  if (find_value(import, info->name))
    return 0; /* an initializer, which older files list as inputs too */
  if (!info->type || !info->type->tensor_type ||
      bp__dtype_from_onnx(info->type->tensor_type->elem_type, &dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "input '%s' is not a tensor of a supported type", info->name);
  if (input_shape(import, info, shapes, num_shapes, extents, &ndim))
    return -1;
  value = bp__graph_value(import->graph, info->name, dtype, extents, ndim);
  return add_value(import, info->name, value) || bp__list_push(&import->graph->inputs, value);
}

/* Before the inputs are added: what the map of values holds then are initializers. */
static int is_input(Import *import, const char *name) {
  for (size_t i = 0; i < import->onnx->n_input; i++)
    if (!is_empty(import->onnx->input[i]->name) && !strcmp(import->onnx->input[i]->name, name))
      return !find_value(import, name);
  return 0;
}

static const char *first_input(Import *import) {
  for (size_t i = 0; i < import->onnx->n_input; i++)
    if (!is_empty(import->onnx->input[i]->name) && is_input(import, import->onnx->input[i]->name))
      return import->onnx->input[i]->name;
  return "";
}

static int check_given_shapes(Import *import, const BpInputShape *shapes, int32_t num_shapes) {
  for (int32_t i = 0; i < num_shapes; i++) {
    if (!is_input(import, shapes[i].name))
      return bp_error_raise(BP_ERROR_NOT_FOUND,
                            "a shape was given for '%s', which is no input of the model (its first "
                            "is '%s')",
                            shapes[i].name, first_input(import));
    if (find_shape(shapes, i, shapes[i].name))
      return bp_error_raise(BP_ERROR_VALUE, "two shapes were given for input '%s'", shapes[i].name);
  }
  return 0;
}

static int add_inputs(Import *import, const BpInputShape *shapes, int32_t num_shapes) {
  for (size_t i = 0; i < import->onnx->n_initializer; i++) {
    const OnnxTensor *tensor = import->onnx->initializer[i];
    if (!check_name(tensor->name, "an initializer") ||
        add_value(import, tensor->name, bp__onnx_constant(import->graph, tensor, tensor->name)))
      return -1;
  }
  if (import->onnx->n_sparse_initializer > 0)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the model has sparse initializers, which are not supported");
  if (check_given_shapes(import, shapes, num_shapes))
    return -1;
  for (size_t i = 0; i < import->onnx->n_input; i++)
    if (add_input(import, import->onnx->input[i], shapes, num_shapes))
      return -1;
  return 0;
}

/* ---- Operators --------------------------------------------------------------------------- */

static const char *domain_of(const OnnxNode *node) {
  return is_empty(node->domain) || !strcmp(node->domain, "ai.onnx") ? "" : node->domain;
}

static const BpOp *find_op(const Import *import, const OnnxNode *node) {
  const BpOp *op;
  if (is_empty(node->op_type) || !strcmp(domain_of(node), "backplane"))
    return NULL;
  op = bp__op_find(domain_of(node), node->op_type);
  return op && op->since <= import->version ? op : NULL;
}

static const char *node_name(Import *import, size_t index) {
  const OnnxNode *node = import->onnx->node[index];
  if (!is_empty(node->name))
    return check_name(node->name, "a node");
  return bp__arena_printf(&import->graph->arena, "%s_%zu",
                          is_empty(node->op_type) ? "" : node->op_type, index);
}

static int already_named(const Import *import, size_t before, const OnnxNode *node) {
  for (size_t i = 0; i < before; i++)
    if (!is_empty(import->onnx->node[i]->op_type) &&
        !strcmp(import->onnx->node[i]->op_type, node->op_type) &&
        !strcmp(domain_of(import->onnx->node[i]), domain_of(node)))
      return 1;
  return 0;
}

#define MAX_NAMED_OPERATORS 64

/* Names every operator that the table lacks, with the first node that has it. */
static int check_operators(Import *import) {
  const char *missing = "";
  int32_t count = 0;
  for (size_t i = 0; i < import->onnx->n_node && count < MAX_NAMED_OPERATORS; i++) {
    const OnnxNode *node = import->onnx->node[i];
    const char *name;
    if (find_op(import, node))
      continue;
    name = node_name(import, i);
    if (!name || !check_name(node->op_type, "the operator of a node") ||
        !g_utf8_validate(domain_of(node), -1, NULL))
      return bp_error_raise(BP_ERROR_FORMAT, "node %zu of the model has no proper operator", i);
    if (already_named(import, i, node))
      continue;
    missing = bp__arena_printf(&import->graph->arena, "%s%s%s%s%s (node '%s')", missing,
                               count ? ", " : "", domain_of(node), domain_of(node)[0] ? "::" : "",
                               node->op_type, name);
    if (!missing)
      return -1;
    count++;
  }
  if (count == 0)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "the model uses %d operator%s that operator set %d of this importer lacks: "
                        "%s; docs/operators.md lists those that are there",
                        count, count > 1 ? "s" : "", import->version, missing);
}

/* ---- Attributes -------------------------------------------------------------------------- */

/* The letter of an attribute's type in a row's list, by ONNX's number. */
static const char *attribute_letter(int32_t type) {
  static const char *const letters[] = {
      [BP_GRAPH_ATTR_FLOAT] = "f",   [BP_GRAPH_ATTR_INT] = "i",     [BP_GRAPH_ATTR_STRING] = "s",
      [BP_GRAPH_ATTR_TENSOR] = "t",  [BP_GRAPH_ATTR_FLOATS] = "fs", [BP_GRAPH_ATTR_INTS] = "is",
      [BP_GRAPH_ATTR_STRINGS] = "ss"};
  return type > 0 && type < (int32_t)(sizeof(letters) / sizeof(letters[0])) ? letters[type] : NULL;
}

/* Whether the row's list has "name:letter". */
static int is_accepted(const BpOp *op, const char *name, const char *letter) {
  size_t name_size = strlen(name), letter_size = strlen(letter);
  for (const char *at = op->attrs; (at = strstr(at, name)) != NULL; at++)
    if ((at == op->attrs || at[-1] == ' ') && at[name_size] == ':' &&
        !strncmp(at + name_size + 1, letter, letter_size) &&
        (at[name_size + 1 + letter_size] == ' ' || !at[name_size + 1 + letter_size]))
      return 1;
  return 0;
}

static const char *attribute_text(BpGraph *graph, const ProtobufCBinaryData *bytes) {
  char *text = bp__arena_alloc(&graph->arena, bytes->len + 1);
  if (text && bytes->len > 0)
    memcpy(text, bytes->data, bytes->len);
  return text;
}

static int read_strings(BpGraph *graph, const OnnxAttribute *from, BpGraphAttr *attr) {
  attr->strs = bp__arena_alloc_array(&graph->arena, from->n_strings, sizeof(*attr->strs));
  attr->count = (int32_t)from->n_strings;
  for (size_t i = 0; attr->strs && i < from->n_strings; i++)
    if (!(attr->strs[i] = attribute_text(graph, &from->strings[i])))
      return -1;
  return attr->strs ? 0 : -1;
}

static int read_attribute(Import *import, const BpGraphNode *node, const OnnxAttribute *from,
                          BpGraphAttr *attr) {
  const char *letter = attribute_letter(from->type);
  if (!check_name(from->name, "an attribute"))
    return bp_error_add_context("node '%s'", node->name);
  if (!is_empty(from->ref_attr_name) || !letter || !is_accepted(node->op, from->name, letter))
    return bp__op_error(node, "attribute '%s' of type %s is not supported", from->name,
                        letter ? letter : "?");
  *attr = (BpGraphAttr){.name = from->name, .type = from->type, .count = 1};
  if (from->n_ints > INT32_MAX || from->n_floats > INT32_MAX || from->n_strings > INT32_MAX)
    return bp__op_bad(node, "attribute '%s' is too long", from->name);
  switch (from->type) {
  case BP_GRAPH_ATTR_FLOAT:
    attr->floats = &from->f;
    return 0;
  case BP_GRAPH_ATTR_INT:
    attr->ints = &from->i;
    return 0;
  case BP_GRAPH_ATTR_STRING:
    attr->str = attribute_text(import->graph, &from->s);
    return attr->str ? 0 : -1;
  case BP_GRAPH_ATTR_TENSOR:
    if (!from->t)
      return bp__op_bad(node, "attribute '%s' has no tensor", from->name);
    attr->tensor = bp__onnx_constant(import->graph, from->t, node->name);
    return attr->tensor ? 0 : -1;
  case BP_GRAPH_ATTR_FLOATS:
    attr->floats = from->floats;
    attr->count = (int32_t)from->n_floats;
    return 0;
  case BP_GRAPH_ATTR_STRINGS:
    return read_strings(import->graph, from, attr);
  default:
    attr->ints = from->ints;
    attr->count = (int32_t)from->n_ints;
    return 0;
  }
}

/* Removed from the list: what the row's name says already, or no one reads. */
static int is_ignored(const OnnxNode *node, const OnnxAttribute *attribute) {
  return is_empty(attribute->name)
             ? 0
             : !strcmp(attribute->name, "consumed_inputs") ||
                   (!strcmp(node->op_type, "Constant") && !strcmp(attribute->name, "doc_string"));
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static int read_inputs(Import *import, const OnnxNode *node, const char *name,
                       BpGraphValue **inputs) {
  for (size_t i = 0; i < node->n_input; i++) {
    if (is_empty(node->input[i]))
      continue;
    inputs[i] = find_value(import, node->input[i]);
    if (!inputs[i])
      return bp_error_raise(
          BP_ERROR_FORMAT,
          "node '%s' (%s) reads '%s', which no input, initializer or earlier node "
          "gives",
          name, node->op_type, node->input[i]);
  }
  return 0;
}

static BpGraphNode *make_node(Import *import, const OnnxNode *from, const char *name) {
  BpGraph *graph = import->graph;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, from->n_input, sizeof(*inputs));
  BpGraphAttr *attrs = bp__arena_alloc_array(&graph->arena, from->n_attribute, sizeof(*attrs));
  size_t num_outputs = from->n_output;
  BpGraphNode *node;
  int32_t num_attrs = 0;
  while (num_outputs > 0 && is_empty(from->output[num_outputs - 1]))
    num_outputs--;
  if (!inputs || !attrs || read_inputs(import, from, name, inputs))
    return NULL;
  if (from->n_input > INT16_MAX || num_outputs > INT16_MAX) {
    bp_error_raise(BP_ERROR_FORMAT, "node '%s' has %zu inputs and %zu outputs, at most %d work",
                   name, from->n_input, num_outputs, INT16_MAX);
    return NULL;
  }
  node = bp__graph_node(graph, find_op(import, from), name, inputs, (int32_t)from->n_input,
                        (int32_t)num_outputs, NULL, 0);
  if (!node)
    return NULL;
  node->version = import->version;
  node->attrs = attrs;
  for (size_t i = 0; i < from->n_attribute; i++)
    if (!is_ignored(from, from->attribute[i]) &&
        read_attribute(import, node, from->attribute[i], &attrs[num_attrs++]))
      return NULL;
  node->num_attrs = num_attrs;
  return node;
}

static int add_node(Import *import, size_t index) {
  const OnnxNode *from = import->onnx->node[index];
  const char *name = node_name(import, index);
  BpGraphNode *node = name ? make_node(import, from, name) : NULL;
  if (!node || bp__op_append(import->graph, node))
    return -1;
  for (int32_t i = 0; i < node->num_outputs; i++) {
    if (is_empty(from->output[i]))
      continue;
    if (!node->outputs[i])
      return bp__op_error(node, "its output %d is not supported", i);
    if (add_value(import, from->output[i], node->outputs[i]))
      return -1;
  }
  return 0;
}

static int add_outputs(Import *import) {
  BpGraph *graph = import->graph;
  size_t count = import->onnx->n_output;
  if (count == 0)
    return bp_error_raise(BP_ERROR_FORMAT, "the model has no outputs");
  graph->output_names = bp__arena_alloc_array(&graph->arena, count, sizeof(char *));
  if (!graph->output_names)
    return -1;
  for (size_t i = 0; i < count; i++) {
    const char *name = check_name(import->onnx->output[i]->name, "an output");
    BpGraphValue *value = name ? find_value(import, name) : NULL;
    if (!name)
      return -1;
    if (!value)
      return bp_error_raise(BP_ERROR_FORMAT, "no node of the model gives its output '%s'", name);
    graph->output_names[i] = name;
    if (bp__list_push(&graph->outputs, value))
      return -1;
  }
  return 0;
}

static int read_version(Import *import) {
  for (size_t i = 0; i < import->model->n_opset_import; i++) {
    const Backplane__Onnx__OperatorSetIdProto *set = import->model->opset_import[i];
    if (!is_empty(set->domain) && strcmp(set->domain, "ai.onnx"))
      continue;
    if (set->version < BP_OP_OLDEST_VERSION || set->version > BP_OP_NEWEST_VERSION)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "the model uses operator set %" PRId64
                            ", %d to %d work; convert it with "
                            "onnx.version_converter",
                            set->version, BP_OP_OLDEST_VERSION, BP_OP_NEWEST_VERSION);
    import->version = (int32_t)set->version;
    return 0;
  }
  import->version = BP_OP_NEWEST_VERSION; /* no node may be of ONNX's own set then */
  return 0;
}

static int import_graph(Import *import, const BpInputShape *shapes, int32_t num_shapes) {
  if (read_version(import) || check_operators(import) || add_inputs(import, shapes, num_shapes))
    return -1;
  for (size_t i = 0; i < import->onnx->n_node; i++)
    if (add_node(import, i))
      return -1;
  return add_outputs(import);
}

int bp__onnx_import(BpGraph *graph, const OnnxModel *model, const BpInputShape *shapes,
                    int32_t num_shapes) {
  Import import = {.graph = graph, .model = model, .onnx = model->graph};
  int status;
  if (create_names(&import))
    return -1;
  status = import_graph(&import, shapes, num_shapes);
  hdestroy_r(&import.values);
  return status;
}
