/* SPDX-License-Identifier: Apache-2.0 */
/* Small ONNX files for tests: turns the words of onnx_builder.h into messages. All memory of a
 * builder is freed by onnx_builder_free. */
#include "tests/graph/onnx_builder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory allocated for one builder, in a list. */
typedef struct Pool {
  OnnxBuilder builder;
  GPtrArray *memory;
  GPtrArray *functions; /* FunctionProto */
  GPtrArray *bodies;    /* builders of function bodies */
} Pool;

static void *take(OnnxBuilder *builder, void *memory) {
  g_ptr_array_add(((Pool *)builder)->memory, memory);
  return memory;
}

static char *copy(OnnxBuilder *builder, const char *text) {
  return take(builder, g_strdup(text));
}

OnnxBuilder *onnx_builder_new(void) {
  Pool *pool = g_new0(Pool, 1);
  OnnxBuilder *builder = &pool->builder;
  pool->memory = g_ptr_array_new_with_free_func(g_free);
  pool->functions = g_ptr_array_new();
  pool->bodies = g_ptr_array_new_with_free_func((GDestroyNotify)onnx_builder_free);
  backplane__onnx__model_proto__init(&builder->model);
  builder->nodes = g_ptr_array_new();
  builder->initializers = g_ptr_array_new();
  builder->model.has_ir_version = 1;
  builder->model.ir_version = 8;
  builder->inputs = g_ptr_array_new();
  builder->outputs = g_ptr_array_new();
  builder->declared = g_ptr_array_new();
  builder->version = 13;
  return builder;
}

void onnx_builder_free(OnnxBuilder *builder) {
  g_ptr_array_unref(((Pool *)builder)->memory);
  g_ptr_array_unref(((Pool *)builder)->functions);
  g_ptr_array_unref(((Pool *)builder)->bodies);
  g_ptr_array_unref(builder->nodes);
  g_ptr_array_unref(builder->initializers);
  g_ptr_array_unref(builder->inputs);
  g_ptr_array_unref(builder->outputs);
  g_ptr_array_unref(builder->declared);
  g_free(builder);
}

#define NEW(builder, Type, type)                                                                   \
  ({                                                                                               \
    Backplane__Onnx__##Type *message = take(builder, g_new0(Backplane__Onnx__##Type, 1));          \
    backplane__onnx__##type##__init(message);                                                      \
    message;                                                                                       \
  })

static Backplane__Onnx__ValueInfoProto *value_info(OnnxBuilder *builder, const char *name,
                                                   int32_t type, const char *shape) {
  Backplane__Onnx__ValueInfoProto *info = NEW(builder, ValueInfoProto, value_info_proto);
  char **parts = g_strsplit(shape ? shape : "", "x", -1);
  size_t count = shape && shape[0] ? g_strv_length(parts) : 0;
  info->name = copy(builder, name);
  if (type) {
    Backplane__Onnx__TensorShapeProto *dims = NEW(builder, TensorShapeProto, tensor_shape_proto);
    info->type = NEW(builder, TypeProto, type_proto);
    info->type->tensor_type = NEW(builder, TensorTypeProto, tensor_type_proto);
    info->type->tensor_type->has_elem_type = 1;
    info->type->tensor_type->elem_type = type;
    info->type->tensor_type->shape = dims;
    dims->dim = take(builder, g_new0(Backplane__Onnx__Dimension *, count + 1));
    dims->n_dim = count;
    for (size_t i = 0; i < count; i++) {
      Backplane__Onnx__Dimension *dim = dims->dim[i] = NEW(builder, Dimension, dimension);
      dim->has_dim_value = g_ascii_isdigit(parts[i][0]);
      dim->dim_value = g_ascii_strtoll(parts[i], NULL, 10);
      dim->dim_param = dim->has_dim_value ? NULL : copy(builder, parts[i]);
    }
  }
  g_strfreev(parts);
  return info;
}

void onnx_input(OnnxBuilder *builder, const char *name, int32_t type, const char *shape) {
  g_ptr_array_add(builder->inputs, value_info(builder, name, type, shape));
}

/* The bytes of the type of a list of `element`. */
static ProtobufCBinaryData list_type(OnnxBuilder *builder, Backplane__Onnx__TypeProto *element) {
  Backplane__Onnx__ListTypeProto list = BACKPLANE__ONNX__LIST_TYPE_PROTO__INIT;
  list.elem_type = element;
  size_t size = backplane__onnx__list_type_proto__get_packed_size(&list);
  uint8_t *data = take(builder, g_malloc(size));
  backplane__onnx__list_type_proto__pack(&list, data);
  return (ProtobufCBinaryData){size, data};
}

void onnx_list_input(OnnxBuilder *builder, const char *name, int32_t kind, int32_t type,
                     const char *shape) {
  Backplane__Onnx__ValueInfoProto *info = value_info(builder, name, type, shape);
  for (int32_t bit = BP_MODEL_SEQUENCE; bit <= BP_MODEL_OPTIONAL; bit *= 2) {
    if (!(kind & bit))
      continue;
    Backplane__Onnx__TypeProto *around = NEW(builder, TypeProto, type_proto);
    around->has_sequence_type = bit == BP_MODEL_SEQUENCE;
    around->has_optional_type = bit == BP_MODEL_OPTIONAL;
    *(around->has_sequence_type ? &around->sequence_type : &around->optional_type) =
        list_type(builder, info->type);
    info->type = around;
  }
  g_ptr_array_add(builder->inputs, info);
}

void onnx_output(OnnxBuilder *builder, const char *name) {
  g_ptr_array_add(builder->outputs, value_info(builder, name, 0, NULL));
}

void onnx_declare(OnnxBuilder *builder, const char *name, int32_t type, const char *shape) {
  g_ptr_array_add(builder->declared, value_info(builder, name, type, shape));
}

void onnx_typed_output(OnnxBuilder *builder, const char *name, int32_t type, const char *shape) {
  g_ptr_array_add(builder->outputs, value_info(builder, name, type, shape));
}

float *onnx_float_values(int64_t count) {
  float *values = g_new(float, (size_t)count);
  uint32_t state = 12345;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
  }
  return values;
}

void onnx_floats(OnnxBuilder *builder, const char *name, const char *shape) {
  Backplane__Onnx__TensorProto *tensor = NEW(builder, TensorProto, tensor_proto);
  char **parts = g_strsplit(shape, "x", -1);
  int64_t count = 1;
  tensor->name = copy(builder, name);
  tensor->has_data_type = 1;
  tensor->data_type = ONNX_FLOAT;
  tensor->n_dims = shape[0] ? g_strv_length(parts) : 0;
  tensor->dims = take(builder, g_new0(int64_t, tensor->n_dims + 1));
  for (size_t i = 0; i < tensor->n_dims; i++)
    count *= tensor->dims[i] = g_ascii_strtoll(parts[i], NULL, 10);
  tensor->float_data = take(builder, onnx_float_values(count));
  tensor->n_float_data = (size_t)count;
  g_strfreev(parts);
  g_ptr_array_add(builder->initializers, tensor);
}

static int64_t *parse_ints(OnnxBuilder *builder, const char *text, size_t *count) {
  char **parts = g_strsplit(text, ",", -1);
  int64_t *values = take(builder, g_new0(int64_t, g_strv_length(parts) + 1));
  *count = 0;
  for (char **part = parts; *part; part++)
    if (**part)
      values[(*count)++] = g_ascii_strtoll(*part, NULL, 10);
  g_strfreev(parts);
  return values;
}

void onnx_ints(OnnxBuilder *builder, const char *name, const char *values) {
  Backplane__Onnx__TensorProto *tensor = NEW(builder, TensorProto, tensor_proto);
  tensor->name = copy(builder, name);
  tensor->has_data_type = 1;
  tensor->data_type = ONNX_INT64;
  tensor->int64_data = parse_ints(builder, values, &tensor->n_int64_data);
  tensor->n_dims = 1;
  tensor->dims = take(builder, g_new0(int64_t, 1));
  tensor->dims[0] = (int64_t)tensor->n_int64_data;
  g_ptr_array_add(builder->initializers, tensor);
}

void onnx_data(OnnxBuilder *builder, const char *name, int32_t type, const int64_t *shape,
               int32_t rank, const void *data, size_t size) {
  Backplane__Onnx__TensorProto *tensor = NEW(builder, TensorProto, tensor_proto);
  tensor->name = copy(builder, name);
  tensor->has_data_type = 1;
  tensor->data_type = type;
  tensor->n_dims = (size_t)rank;
  tensor->dims = take(builder, g_new0(int64_t, tensor->n_dims + 1));
  if (rank) /* a number has no shape */
    memcpy(tensor->dims, shape, tensor->n_dims * sizeof(*shape));
  tensor->has_raw_data = 1;
  tensor->raw_data.len = size;
  tensor->raw_data.data = take(builder, g_malloc0(size + 1));
  memcpy(tensor->raw_data.data, data, size);
  g_ptr_array_add(builder->initializers, tensor);
}

static ProtobufCBinaryData *parse_strings(OnnxBuilder *builder, const char *text, size_t *count) {
  char **parts = g_strsplit(text, ",", -1);
  ProtobufCBinaryData *list = take(builder, g_new0(ProtobufCBinaryData, g_strv_length(parts)));
  *count = 0;
  for (char **part = parts; *part; part++)
    if (**part) {
      list[*count].data = (uint8_t *)copy(builder, *part);
      list[(*count)++].len = strlen(*part);
    }
  g_strfreev(parts);
  return list;
}

static float *parse_floats(OnnxBuilder *builder, const char *text, size_t *count) {
  char **parts = g_strsplit(text, ",", -1);
  float *values = take(builder, g_new0(float, g_strv_length(parts) + 1));
  *count = 0;
  for (char **part = parts; *part; part++)
    if (**part)
      values[(*count)++] = (float)g_ascii_strtod(*part, NULL);
  g_strfreev(parts);
  return values;
}

/* Reads a vector from "floats:0.5,1" or "ints:1,2". */
static Backplane__Onnx__TensorProto *parse_vector(OnnxBuilder *builder, const char *text) {
  Backplane__Onnx__TensorProto *tensor = NEW(builder, TensorProto, tensor_proto);
  const char *numbers = strchr(text, ':') + 1;
  tensor->has_data_type = 1;
  tensor->data_type = text[0] == 'f' ? ONNX_FLOAT : ONNX_INT64;
  if (text[0] == 'f')
    tensor->float_data = parse_floats(builder, numbers, &tensor->n_float_data);
  else
    tensor->int64_data = parse_ints(builder, numbers, &tensor->n_int64_data);
  tensor->n_dims = 1;
  tensor->dims = take(builder, g_new0(int64_t, 1));
  tensor->dims[0] = (int64_t)(tensor->n_float_data + tensor->n_int64_data);
  return tensor;
}

static Backplane__Onnx__AttributeProto *attribute(OnnxBuilder *builder, const char *word) {
  Backplane__Onnx__AttributeProto *attr = NEW(builder, AttributeProto, attribute_proto);
  char **sides = g_strsplit(word, "=", 2);
  const char *value = sides[1];
  int is_number = g_ascii_isdigit(value[0]) || value[0] == '-';
  attr->name = copy(builder, sides[0]);
  attr->has_type = 1;
  gboolean is_quoted = value[0] == '\'';
  if (value[0] == '@') {
    attr->ref_attr_name = copy(builder, value + 1);
    attr->has_type = 0;
  } else if (g_str_has_prefix(value, "floats:") || g_str_has_prefix(value, "ints:")) {
    attr->type = 4;
    attr->t = parse_vector(builder, value);
  } else if (!is_number && !is_quoted && strchr(value, ',')) {
    attr->type = 8;
    attr->strings = parse_strings(builder, value, &attr->n_strings);
  } else if (!is_number) {
    attr->type = 3;
    attr->has_s = 1;
    attr->s.data = (uint8_t *)copy(builder, value + is_quoted);
    attr->s.len = strlen(value) - (is_quoted ? 2 : 0);
  } else if (strchr(value, ',') && strpbrk(value, ".f")) {
    attr->type = 6;
    attr->floats = parse_floats(builder, value, &attr->n_floats);
  } else if (strchr(value, ',')) {
    attr->type = 7;
    attr->ints = parse_ints(builder, value, &attr->n_ints);
  } else if (strpbrk(value, ".f")) {
    attr->type = 1;
    attr->has_f = 1;
    attr->f = (float)g_ascii_strtod(value, NULL);
  } else {
    attr->type = 2;
    attr->has_i = 1;
    attr->i = g_ascii_strtoll(value, NULL, 10);
  }
  g_strfreev(sides);
  return attr;
}

static char **names(OnnxBuilder *builder, const char *text, size_t *count) {
  char **parts = g_strsplit(text, ",", -1);
  char **list;
  *count = g_strv_length(parts);
  list = take(builder, g_new0(char *, *count + 1));
  for (size_t i = 0; i < *count; i++)
    list[i] = copy(builder, parts[i]);
  g_strfreev(parts);
  return list;
}

Backplane__Onnx__NodeProto *onnx_node(OnnxBuilder *builder, const char *op, const char *inputs,
                                      const char *outputs, const char *attrs) {
  Backplane__Onnx__NodeProto *node = NEW(builder, NodeProto, node_proto);
  char **words = g_strsplit(attrs, " ", -1);
  size_t count = attrs[0] ? g_strv_length(words) : 0;
  const char *domain_end = strrchr(op, '.');
  node->op_type = copy(builder, domain_end ? domain_end + 1 : op);
  if (domain_end)
    node->domain = take(builder, g_strndup(op, (gsize)(domain_end - op)));
  node->name = take(builder, g_strdup_printf("the %s", op));
  node->input = names(builder, inputs, &node->n_input);
  node->output = names(builder, outputs, &node->n_output);
  node->attribute = take(builder, g_new0(Backplane__Onnx__AttributeProto *, count + 1));
  node->n_attribute = count;
  for (size_t i = 0; i < count; i++)
    node->attribute[i] = attribute(builder, words[i]);
  g_strfreev(words);
  g_ptr_array_add(builder->nodes, node);
  return node;
}

/* Makes the graph of the builder; the graph borrows all memory. */
static Backplane__Onnx__GraphProto graph_of(const OnnxBuilder *builder) {
  Backplane__Onnx__GraphProto graph = BACKPLANE__ONNX__GRAPH_PROTO__INIT;
  graph.node = (void *)builder->nodes->pdata;
  graph.n_node = builder->nodes->len;
  graph.initializer = (void *)builder->initializers->pdata;
  graph.n_initializer = builder->initializers->len;
  graph.input = (void *)builder->inputs->pdata;
  graph.n_input = builder->inputs->len;
  graph.output = (void *)builder->outputs->pdata;
  graph.n_output = builder->outputs->len;
  graph.value_info = (void *)builder->declared->pdata;
  graph.n_value_info = builder->declared->len;
  return graph;
}

void onnx_reverse(OnnxBuilder *builder) {
  gpointer *nodes = builder->nodes->pdata;
  for (guint i = 0, k = builder->nodes->len; i + 1 < k--; i++) {
    gpointer node = nodes[i];
    nodes[i] = nodes[k];
    nodes[k] = node;
  }
}

void onnx_branch(OnnxBuilder *builder, Backplane__Onnx__NodeProto *node, const char *name,
                 OnnxBuilder *branch) {
  Backplane__Onnx__GraphProto graph = graph_of(branch);
  Backplane__Onnx__AttributeProto *attr = NEW(builder, AttributeProto, attribute_proto);
  Backplane__Onnx__AttributeProto **attrs =
      take(builder, g_new0(Backplane__Onnx__AttributeProto *, node->n_attribute + 1));
  attr->name = copy(builder, name);
  attr->has_type = attr->has_g = 1;
  attr->type = 5;
  attr->g.len = backplane__onnx__graph_proto__get_packed_size(&graph);
  attr->g.data = take(builder, g_malloc0(attr->g.len + 1));
  backplane__onnx__graph_proto__pack(&graph, attr->g.data);
  for (size_t i = 0; i < node->n_attribute; i++)
    attrs[i] = node->attribute[i];
  attrs[node->n_attribute++] = attr;
  node->attribute = attrs;
  onnx_builder_free(branch);
}

void onnx_function(OnnxBuilder *builder, const char *name, const char *inputs, const char *outputs,
                   const char *attrs, OnnxBuilder *body) {
  Backplane__Onnx__FunctionProto *function = NEW(builder, FunctionProto, function_proto);
  Pool *pool = (Pool *)builder;
  char **words = g_strsplit(attrs, " ", -1);
  size_t count = attrs[0] ? g_strv_length(words) : 0;
  function->name = copy(builder, name);
  function->domain = copy(builder, "own");
  function->input = names(builder, inputs, &function->n_input);
  function->output = names(builder, outputs, &function->n_output);
  function->node = (void *)body->nodes->pdata;
  function->n_node = body->nodes->len;
  function->attribute = take(builder, g_new0(char *, count + 1));
  function->attribute_proto = take(builder, g_new0(Backplane__Onnx__AttributeProto *, count + 1));
  for (size_t i = 0; i < count; i++) {
    if (strchr(words[i], '='))
      function->attribute_proto[function->n_attribute_proto++] = attribute(builder, words[i]);
    else
      function->attribute[function->n_attribute++] = copy(builder, words[i]);
  }
  g_strfreev(words);
  g_ptr_array_add(pool->functions, function);
  g_ptr_array_add(pool->bodies, body);
}

GByteArray *onnx_bytes(OnnxBuilder *builder) {
  Backplane__Onnx__GraphProto graph = graph_of(builder);
  Backplane__Onnx__OperatorSetIdProto set = BACKPLANE__ONNX__OPERATOR_SET_ID_PROTO__INIT;
  Backplane__Onnx__OperatorSetIdProto microsoft = BACKPLANE__ONNX__OPERATOR_SET_ID_PROTO__INIT;
  Backplane__Onnx__OperatorSetIdProto *sets[2] = {&set, &microsoft};
  GByteArray *bytes = g_byte_array_new();
  set.has_version = 1;
  set.version = builder->version;
  microsoft.domain = (char[]){"com.microsoft"};
  microsoft.has_version = 1;
  microsoft.version = 1;
  graph.name = (char[]){"test"};
  builder->model.graph = &graph;
  builder->model.functions = (void *)((Pool *)builder)->functions->pdata;
  builder->model.n_functions = ((Pool *)builder)->functions->len;
  builder->model.opset_import = sets;
  builder->model.n_opset_import = 2;
  g_byte_array_set_size(bytes,
                        (guint)backplane__onnx__model_proto__get_packed_size(&builder->model));
  backplane__onnx__model_proto__pack(&builder->model, bytes->data);
  builder->model.graph = NULL;
  builder->model.n_functions = 0;
  builder->model.n_opset_import = 0;
  return bytes;
}

char *onnx_write(const GByteArray *bytes) {
  GError *error = NULL;
  char *path = NULL;
  int file = g_file_open_tmp("backplane-XXXXXX.onnx", &path, &error);
  g_assert_no_error(error);
  close(file);
  g_assert_true(g_file_set_contents(path, (const char *)bytes->data, bytes->len, NULL));
  return path;
}

char *onnx_save(OnnxBuilder *builder) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return path;
}
