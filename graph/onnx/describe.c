/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs and outputs of an ONNX file, as the file declares them. */
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <jansson.h>

#include <backplane/error.h>
#include <backplane/graph/model.h>

#include "graph/io/argument.h"
#include "graph/io/json.h"
#include "graph/onnx/import.h"
#include "graph/ops/op.h"

static int visit_value(const OnnxValueInfo *value, int32_t role, BpTensorVisit visit,
                       void *visitor) {
  OnnxType type;
  if (bp__onnx_read_type(value, role == BP_TENSOR_OUTPUT ? "output" : "input", &type))
    return -1;
  const BpModelTensorInfo info = {.struct_size = sizeof info,
                                  .name = value->name ? value->name : "",
                                  .dtype = type.dtype,
                                  .ndim = type.ndim,
                                  .shape = type.ndim < 0 ? NULL : type.shape,
                                  .kind = type.kind};
  return visit(visitor, role, &info);
}

/* Visits an input of the model. Older files list all initializers among the inputs; the listed
 * initializers are constants. */
static int visit_input(const OnnxModel *model, const OnnxValueInfo *input, BpTensorVisit visit,
                       void *visitor) {
  if (!bp__onnx_initializer(model->graph, input->name))
    return visit_value(input, BP_TENSOR_INPUT, visit, visitor);
  return bp__onnx_has_defaults(model) ? visit_value(input, BP_TENSOR_DEFAULT, visit, visitor) : 0;
}

int bp_onnx_visit_tensors(const char *onnx_path, BpTensorVisit visit, void *visitor) {
  if (!BP_NOT_NULL(onnx_path) || !BP_NOT_NULL(visit))
    return -1;
  OnnxModel *model = bp__onnx_read(onnx_path);
  if (!model)
    return -1;
  const OnnxGraph *graph = model->graph;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < graph->n_input; i++)
    rc = visit_input(model, graph->input[i], visit, visitor);
  for (size_t i = 0; rc == 0 && i < graph->n_output; i++)
    rc = visit_value(graph->output[i], BP_TENSOR_OUTPUT, visit, visitor);
  bp__onnx_free(model);
  return rc < 0 ? bp_error_add_context("%s", onnx_path) : rc;
}

int bp_onnx_check_operators(const char *onnx_path) {
  if (!BP_NOT_NULL(onnx_path))
    return -1;
  OnnxModel *model = bp__onnx_read(onnx_path);
  int status = model ? bp__onnx_check_operators(model) : -1;
  bp__onnx_free(model);
  return status;
}

/* ---- As JSON ----------------------------------------------------------------------------- */

/* If memory is exhausted, the member is left out, and formatting the whole text fails. */
static void add(json_t *object, const char *name, json_t *value) {
  json_object_set_new(object, name, value);
}

/* A string from a file, which may be invalid UTF-8, as JSON; null for no string. */
static json_t *text_of(const char *text) {
  char *valid = text ? g_utf8_make_valid(text, -1) : NULL;
  json_t *json = valid ? json_string(valid) : json_null();
  g_free(valid);
  return json;
}

static json_t *extent_of(const BpExtents *extents, int64_t extent) {
  char text[256];
  return bp__extent_is_open(extent) ? text_of(bp__extent_format(extents, extent, text, sizeof text))
                                    : json_integer(extent);
}

static json_t *dtype_of(BpDataType dtype) {
  char text[32];
  bp_dtype_format(dtype, text, sizeof text);
  return json_string(text);
}

/* Describes a tensor that a node produces. */
static json_t *value_of(const BpExtents *extents, const char *name, const BpGraphValue *value) {
  json_t *object = json_object(), *shape = json_array();
  add(object, "name", text_of(name));
  for (int32_t i = 0; value && i < value->ndim; i++)
    json_array_append_new(shape, extent_of(extents, value->shape[i]));
  add(object, "dtype", value ? dtype_of(value->dtype) : json_null());
  add(object, "shape", value ? json_incref(shape) : json_null());
  json_decref(shape);
  return object;
}

/* Describes an input or output as the file declares it: an extent is a number, the name of a
 * symbol, or null. */
static json_t *declared_of(const OnnxValueInfo *info) {
  static const char *const kinds[] = {"tensor", "sequence", "optional", "optional sequence"};
  json_t *object = json_object(), *shape = json_array();
  OnnxType type;
  bool is_known = bp__onnx_read_type(info, "value", &type) == 0;
  const Backplane__Onnx__TensorTypeProto *tensor =
      is_known && !type.kind ? info->type->tensor_type : NULL; /* a file may give several types */
  bp_error_clear();
  add(object, "name", text_of(info->name));
  for (int32_t i = 0; i < type.ndim; i++) {
    const char *symbol = tensor ? bp__onnx_symbol(tensor->shape->dim[i]) : "";
    json_array_append_new(shape, type.shape[i] >= 0 ? json_integer(type.shape[i])
                                 : *symbol          ? text_of(symbol)
                                                    : json_null());
  }
  add(object, "dtype", is_known ? dtype_of(type.dtype) : json_null());
  add(object, "shape", type.ndim >= 0 ? json_incref(shape) : json_null());
  add(object, "kind", is_known ? json_string(kinds[type.kind]) : json_null());
  json_decref(shape);
  return object;
}

/* The bytes of a tensor's elements; 0 for an unsupported type. */
static double bytes_of(const OnnxTensor *tensor) {
  BpDataType dtype;
  double bytes = 0;
  if (bp__dtype_from_onnx(tensor->data_type, &dtype) == 0)
    bytes = dtype.bits / 8.0;
  bp_error_clear();
  for (size_t i = 0; i < tensor->n_dims; i++)
    bytes *= (double)MAX(tensor->dims[i], 0);
  return MIN(bytes, 9e18);
}

static int add_node(void *nodes, const BpExtents *extents, const OnnxNode *node, const char *name,
                    const char *how, BpGraphValue *const *outputs) {
  json_t *object = json_object(), *values = json_array();
  add(object, "name", text_of(name));
  add(object, "operator", text_of(node->op_type));
  add(object, "domain",
      text_of(node->domain && strcmp(node->domain, "ai.onnx") ? node->domain : ""));
  add(object, "computed", how ? json_string(how) : json_null());
  for (size_t i = 0; i < node->n_output; i++)
    json_array_append_new(values, value_of(extents, node->output[i], outputs[i]));
  add(object, "outputs", values);
  return json_array_append_new(nodes, object)
             ? bp_error_raise(BP_ERROR_MEMORY, "no memory for a description of the model")
             : 0;
}

static void add_tensors(json_t *root, const OnnxModel *model) {
  const OnnxGraph *graph = model->graph;
  json_t *inputs = json_array(), *outputs = json_array();
  double bytes = 0;
  for (size_t i = 0; i < graph->n_input; i++)
    if (!bp__onnx_initializer(graph, graph->input[i]->name))
      json_array_append_new(inputs, declared_of(graph->input[i]));
  for (size_t i = 0; i < graph->n_output; i++)
    json_array_append_new(outputs, declared_of(graph->output[i]));
  for (size_t i = 0; i < graph->n_initializer; i++)
    bytes += bytes_of(graph->initializer[i]);
  add(root, "inputs", inputs);
  add(root, "outputs", outputs);
  add(root, "parameters", json_integer((json_int_t)graph->n_initializer));
  add(root, "parameter_bytes", json_integer((json_int_t)MIN(bytes, 9e18)));
}

/* Lists the files beside the model that have elements of its tensors, in alphabetical order. */
static void add_files(json_t *root, GHashTable *files) {
  json_t *paths = json_array();
  GList *sorted = g_list_sort(g_hash_table_get_keys(files), (GCompareFunc)strcmp);
  for (const GList *file = sorted; file; file = file->next)
    json_array_append_new(paths, text_of(file->data));
  g_list_free(sorted);
  add(root, "files", paths);
}

static void add_versions(json_t *root, const OnnxModel *model) {
  json_t *sets = json_array();
  for (size_t i = 0; i < model->n_opset_import; i++) {
    const Backplane__Onnx__OperatorSetIdProto *set = model->opset_import[i];
    json_t *object = json_object();
    add(object, "domain", text_of(set->domain ? set->domain : ""));
    add(object, "version", json_integer(set->version));
    json_array_append_new(sets, object);
  }
  add(root, "ir_version", json_integer(model->ir_version));
  add(root, "producer", text_of(model->producer_name));
  add(root, "producer_version", text_of(model->producer_version));
  add(root, "operator_sets", sets);
}

static char *describe(const OnnxFile *file) {
  const OnnxModel *model = file->model;
  json_t *root = json_object(), *nodes = json_array();
  char *why;
  add_versions(root, model);
  add_tensors(root, model);
  add_files(root, file->files);
  int status = bp__onnx_visit_nodes(model, add_node, nodes, &why);
  add(root, "nodes", nodes);
  if (why)
    add(root, "incomplete", text_of(why));
  g_free(why);
  if (status == 0)
    return bp__json_take_text(root);
  json_decref(root);
  return NULL;
}

char *bp_onnx_describe(const char *onnx_path) {
  if (!BP_NOT_NULL(onnx_path))
    return NULL;
  OnnxFile file;
  char *text = bp__onnx_open_file(onnx_path, &file) == 0 ? describe(&file) : NULL;
  if (file.model && !text)
    bp_error_add_context("%s", onnx_path);
  bp__onnx_close_file(&file);
  return text;
}

/* The names of a row's attributes, which are words "name:type". */
static json_t *attributes_of(const BpOp *op) {
  json_t *names = json_array();
  for (const char *word = op->attrs; *word; word += strspn(word, " ")) {
    size_t length = strcspn(word, " ");
    json_array_append_new(names, json_stringn(word, strcspn(word, ": ")));
    word += length;
  }
  return names;
}

static json_t *operator_of(const BpOp *op) {
  static const char *const open[] = {
      [BP_OPEN_NONE] = "none", [BP_OPEN_FIRST] = "input 0", [BP_OPEN_ALL] = "all"};
  json_t *object = json_object();
  add(object, "name", json_string(op->name));
  add(object, "domain", json_string(op->domain));
  add(object, "since", json_integer(op->since));
  add(object, "computed", json_string(bp__op_how(op)));
  add(object, "open_extents", json_string(open[op->open]));
  add(object, "attributes", attributes_of(op));
  add(object, "least_inputs", json_integer(op->min_inputs));
  add(object, "most_inputs", json_integer(op->max_inputs));
  add(object, "most_outputs", json_integer(op->max_outputs));
  return object;
}

/* Compares two operators by domain, then by name. */
static int in_order(const void *a, const void *b) {
  const BpOp *x = *(const BpOp *const *)a, *y = *(const BpOp *const *)b;
  int domains = strcmp(x->domain, y->domain);
  return domains ? domains : strcmp(x->name, y->name);
}

char *bp_onnx_list_operators(void) {
  int32_t count, kept = 0;
  const BpOp *table = bp__op_table(&count);
  const BpOp **order = malloc((size_t)count * sizeof(*order));
  if (!order) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the list of operators");
    return NULL;
  }
  for (int32_t i = 0; i < count; i++)
    if (strcmp(table[i].domain, "backplane")) /* the domain of operators made by passes */
      order[kept++] = &table[i];
  qsort(order, (size_t)kept, sizeof(*order), in_order);
  json_t *root = json_object(), *operators = json_array();
  for (int32_t i = 0; i < kept; i++)
    json_array_append_new(operators, operator_of(order[i]));
  free(order);
  add(root, "oldest_version", json_integer(BP_OP_OLDEST_VERSION));
  add(root, "newest_version", json_integer(BP_OP_NEWEST_VERSION));
  add(root, "operators", operators);
  return bp__json_take_text(root);
}
