/* SPDX-License-Identifier: Apache-2.0 */
/* Single operators (backplane/graph_compiler.h): a call is read as a part of one node, compiled
 * like a part of a model, and run with its tensors. The most recent parts are kept, so that calls
 * of one shape make primitives once. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

#define FUNCTION  "operator"
#define MOST_KEPT 64

/* Identifies the calls that can share a part: versions, types, shapes and attributes, but no
 * data. */
typedef struct Key {
  const char *op; /* static */
  size_t size;
  char bytes[1024];
} Key;

typedef struct Kept {
  struct Kept *next;
  Key key;
  BpFunction *function; /* the function of a part, which keeps the part alive */
} Kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Kept *kept; /* most recently used first */

/* Appends to a key. A key that overflows stays full; its call is never kept. */
static void add(Key *key, const void *data, size_t size) {
  if (size <= sizeof(key->bytes) - key->size)
    memcpy(key->bytes + key->size, data, size);
  key->size = size <= sizeof(key->bytes) - key->size ? key->size + size : sizeof(key->bytes);
}

static void add_attr(Key *key, const BpOnnxAttr *attr) {
  add(key, attr->name, strlen(attr->name) + 1);
  add(key, &attr->type, sizeof(attr->type));
  add(key, &attr->count, sizeof(attr->count));
  if (attr->floats)
    add(key, attr->floats, sizeof(*attr->floats));
  if (attr->strs)
    add(key, attr->strs[0], strlen(attr->strs[0]) + 1);
  if (attr->ints)
    add(key, attr->ints, (size_t)attr->count * sizeof(*attr->ints));
}

static void make_key(const BpOperatorCall *call, Key *key) {
  memset(key, 0, sizeof(*key));
  key->op = call->node.op;
  add(key, &call->node.opset, sizeof(call->node.opset));
  add(key, &call->node.num_inputs, sizeof(int32_t));
  add(key, &call->node.num_outputs, sizeof(int32_t));
  add(key, call->of_node,
      (size_t)(call->node.num_inputs + call->node.num_outputs) * sizeof(*call->of_node));
  for (int32_t i = 0; i < call->num_values; i++) {
    const BpOnnxValue *value = &call->values[i];
    add(key, &value->dtype, sizeof(value->dtype));
    add(key, &value->ndim, sizeof(value->ndim));
    add(key, value->shape, (size_t)value->ndim * sizeof(*value->shape));
  }
  for (int32_t i = 0; i < call->node.num_attrs; i++)
    add_attr(key, &call->attrs[i]);
}

/* Finds the function of an earlier call with an equal key (a reference); NULL if no call had that
 * key. */
static BpFunction *find_kept(const Key *key) {
  BpFunction *function = NULL;
  pthread_mutex_lock(&lock);
  for (Kept **link = &kept; *link; link = &(*link)->next) {
    Kept *found = *link;
    if (found->key.op != key->op || found->key.size != key->size ||
        memcmp(found->key.bytes, key->bytes, key->size))
      continue;
    function = found->function;
    bp_dnnl_host.object->retain(function);
    *link = found->next;
    found->next = kept;
    kept = found;
    break;
  }
  pthread_mutex_unlock(&lock);
  return function;
}

static void free_kept(Kept *last) {
  while (last) {
    Kept *next = last->next;
    bp_dnnl_host.object->release(last->function);
    free(last);
    last = next;
  }
}

/* Keeps a function. Beyond the limit, the least recently used function is freed. */
static void keep(const Key *key, BpFunction *function) {
  Kept *entry = key->size < sizeof(key->bytes) ? malloc(sizeof(*entry)) : NULL, *last = NULL;
  if (!entry)
    return; /* the key is full: the next equal call makes its own function */
  *entry = (Kept){NULL, *key, function};
  bp_dnnl_host.object->retain(function);
  pthread_mutex_lock(&lock);
  entry->next = kept;
  kept = entry;
  Kept *each = kept;
  for (int32_t i = 1; each && i < MOST_KEPT; i++)
    each = each->next;
  if (each) {
    last = each->next;
    each->next = NULL;
  }
  pthread_mutex_unlock(&lock);
  free_kept(last);
}

/* Attributes of the operators. The importer has checked the attributes of a model; a direct call
 * may have any attribute, and an ignored attribute would make the result wrong. */
static const struct {
  const char *op, *name;
  int32_t type;
} attributes[] = {
    {"Conv", "auto_pad", BP_ONNX_ATTR_STRING},
    {"Conv", "dilations", BP_ONNX_ATTR_INTS},
    {"Conv", "group", BP_ONNX_ATTR_INT},
    {"Conv", "kernel_shape", BP_ONNX_ATTR_INTS},
    {"Conv", "pads", BP_ONNX_ATTR_INTS},
    {"Conv", "strides", BP_ONNX_ATTR_INTS},
    {"MaxPool", "auto_pad", BP_ONNX_ATTR_STRING},
    {"MaxPool", "ceil_mode", BP_ONNX_ATTR_INT},
    {"MaxPool", "dilations", BP_ONNX_ATTR_INTS},
    {"MaxPool", "kernel_shape", BP_ONNX_ATTR_INTS},
    {"MaxPool", "pads", BP_ONNX_ATTR_INTS},
    {"MaxPool", "storage_order", BP_ONNX_ATTR_INT},
    {"MaxPool", "strides", BP_ONNX_ATTR_INTS},
    {"AveragePool", "auto_pad", BP_ONNX_ATTR_STRING},
    {"AveragePool", "ceil_mode", BP_ONNX_ATTR_INT},
    {"AveragePool", "count_include_pad", BP_ONNX_ATTR_INT},
    {"AveragePool", "dilations", BP_ONNX_ATTR_INTS},
    {"AveragePool", "kernel_shape", BP_ONNX_ATTR_INTS},
    {"AveragePool", "pads", BP_ONNX_ATTR_INTS},
    {"AveragePool", "strides", BP_ONNX_ATTR_INTS},
    {"Gemm", "alpha", BP_ONNX_ATTR_FLOAT},
    {"Gemm", "beta", BP_ONNX_ATTR_FLOAT},
    {"Gemm", "transA", BP_ONNX_ATTR_INT},
    {"Gemm", "transB", BP_ONNX_ATTR_INT},
    {"Softmax", "axis", BP_ONNX_ATTR_INT},
};

#define NUM_ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static int32_t check_attribute(const char *op, const BpOnnxAttr *attr) {
  size_t i = 0;
  while (i < NUM_ATTRIBUTES &&
         (strcmp(attributes[i].op, op) != 0 || strcmp(attributes[i].name, attr->name) != 0))
    i++;
  if (i == NUM_ATTRIBUTES)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_NOT_IMPLEMENTED,
                           "operator.dnnl.%s: the plugin knows no attribute %s of it", op,
                           attr->name);
  if (attributes[i].type == attr->type)
    return 0;
  return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_TYPE, "operator.dnnl.%s: its attribute %s is %s",
                         op, attr->name,
                         attributes[i].type == BP_ONNX_ATTR_INT     ? "an int"
                         : attributes[i].type == BP_ONNX_ATTR_FLOAT ? "a float"
                         : attributes[i].type == BP_ONNX_ATTR_INTS  ? "a shape"
                                                                    : "a text");
}

static BpFunction *compile_call(const BpOperatorCall *call) {
  BpGraphTable table;
  BpDnnlStep step;
  BpModule *module = NULL;
  BpFunction *function = NULL;
  const BpOnnxGraph *graph = bp_operator_graph(call);
  const char *why = bp_dnnl_load();
  if (why) {
    bp_plugin_raise(&bp_dnnl_host, BP_ERROR_PLUGIN, "%s", why);
    return NULL;
  }
  for (int32_t i = 0; i < call->node.num_attrs; i++)
    if (check_attribute(call->node.op, &call->attrs[i]) != 0)
      return NULL;
  bp_operator_table(&table);
  why = bp_dnnl_read_node(&table, graph, &call->node, &step);
  if (why) {
    bp_plugin_raise(&bp_dnnl_host, BP_ERROR_NOT_IMPLEMENTED, "operator.dnnl.%s: %s", call->node.op,
                    why);
    return NULL;
  }
  why = bp_dnnl_check_window(&table, graph, &call->node, &step);
  if (why) {
    bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE, "operator.dnnl.%s: %s", call->node.op, why);
    return NULL;
  }
  if (bp_dnnl_compile_part(&table, graph, FUNCTION, &module) == 0)
    bp_dnnl_host.module->get_function(module, FUNCTION, 0, &function);
  bp_dnnl_host.object->release(module);
  return function;
}

static int call_operator(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const char *op = ((BpClosure *)self)->context;
  BpOperatorCall call;
  Key key;
  if (bp_operator_read(&bp_dnnl_host, op, args, num_args, &call) != 0)
    return -1;
  make_key(&call, &key);
  BpFunction *function = find_kept(&key);
  if (!function) {
    function = compile_call(&call);
    if (!function)
      return -1;
    keep(&key, function);
  }
  int status = function->call(function, call.tensors, call.num_values, result);
  bp_dnnl_host.object->release(function);
  return status;
}

int32_t bp_dnnl_register_operators(void) {
  static const char *const names[] = {
#define NAME(op, read, least) "operator.dnnl." #op,
      BP_DNNL_OPERATORS(NAME)
#undef NAME
  };
  const char *const prefix = "operator.dnnl.";
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (bp_plugin_register(&bp_dnnl_host, names[i], call_operator,
                           (void *)(uintptr_t)(names[i] + strlen(prefix))) != 0)
      return -1;
  return 0;
}
