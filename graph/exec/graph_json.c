/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TVM's graph JSON. The document is bounded in size, jansson bounds its depth, and each
 * member is checked, so that executors can index without checks. */
#include "graph/exec/graph_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#define MAX_BYTES   (256u << 20)
#define MAX_COUNT   (1u << 20) /* maximum number of nodes, of entries and of storages */
#define MAX_NDIM    32
#define MAX_STORAGE ((uint64_t)1 << 48)

#define LARGER(a, b) ((a) > (b) ? (a) : (b))

BP_PRINTF(1, 2) static int bad_graph(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char text[256];
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return bp_error_raise(BP_ERROR_FORMAT,
                        "graph JSON: %s; the file is damaged or was not made by "
                        "a compiler of this form",
                        text);
}

/* ---- JSON access, each step checked ------------------------------------------------------ */

static json_t *get_member(const json_t *object, const char *name) {
  json_t *member = json_object_get(object, name);
  if (!member)
    bad_graph("'%s' is missing", name);
  return member;
}

static json_t *as_array(json_t *json, const char *what) {
  if (json && !json_is_array(json))
    bad_graph("'%s' is not a list", what);
  return json_is_array(json) ? json : NULL;
}

static json_t *as_object(json_t *json, const char *what) {
  if (json && !json_is_object(json))
    bad_graph("'%s' is not an object", what);
  return json_is_object(json) ? json : NULL;
}

static const char *as_string(const json_t *json, const char *what) {
  if (json && !json_is_string(json))
    bad_graph("'%s' is not a string", what);
  return json_string_value(json);
}

static int as_int(const json_t *json, const char *what, int64_t min, int64_t max, int64_t *value) {
  if (!json_is_integer(json))
    return bad_graph("'%s' holds something that is no whole number", what);
  *value = json_integer_value(json);
  if (*value < min || *value > max)
    return bad_graph("'%s' holds %" PRId64 ", outside %" PRId64 " to %" PRId64, what, *value, min,
                     max);
  return 0;
}

static json_t *get_array(json_t *object, const char *name) {
  return as_array(get_member(object, name), name);
}

/* Returns the list of attrs.NAME, which is [type tag, list]. */
static json_t *get_attr_list(json_t *attrs, const char *name) {
  json_t *pair = get_array(attrs, name);
  if (!pair)
    return NULL;
  if (json_array_size(pair) != 2) {
    bad_graph("'attrs.%s' is not [type, list]", name);
    return NULL;
  }
  return as_array(json_array_get(pair, 1), name);
}

/* Reads a list of integers in [0, limit) (transfer full). */
static uint32_t *read_indices(json_t *array, const char *what, uint32_t limit, uint32_t *count) {
  size_t length = json_array_size(array);
  uint32_t *indices = calloc(length ? length : 1, sizeof(*indices));
  if (!indices) {
    bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for '%s'", what);
    return NULL;
  }
  for (size_t i = 0; i < length; i++) {
    int64_t value;
    if (as_int(json_array_get(array, i), what, 0, (int64_t)limit - 1, &value) < 0) {
      free(indices);
      return NULL;
    }
    indices[i] = (uint32_t)value;
  }
  *count = (uint32_t)length;
  return indices;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

/* Reads an input, which is [node, output index, version]; the node must be an earlier one. */
static int read_input(BpCallGraph *graph, uint32_t node, json_t *json, uint32_t *entry) {
  json_t *triple = as_array(json, "inputs");
  int64_t source, index;
  if (!triple)
    return -1;
  if (json_array_size(triple) < 2)
    return bad_graph("an input of node %u is not [node, index, version]", node);
  if (as_int(json_array_get(triple, 0), "inputs", 0, (int64_t)node - 1, &source) < 0 ||
      as_int(json_array_get(triple, 1), "inputs", 0, (int64_t)graph->nodes[source].num_outputs - 1,
             &index) < 0)
    return -1;
  *entry = graph->nodes[source].first_entry + (uint32_t)index;
  return 0;
}

static int read_inputs(BpCallGraph *graph, uint32_t index, json_t *inputs) {
  BpCallNode *node = &graph->nodes[index];
  node->num_inputs = (uint32_t)json_array_size(inputs);
  node->inputs = calloc(node->num_inputs ? node->num_inputs : 1, sizeof(*node->inputs));
  if (!node->inputs)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for a node's inputs");
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (read_input(graph, index, json_array_get(inputs, i), &node->inputs[i]) < 0)
      return -1;
  return 0;
}

/* Reads attrs.launch, which only this project writes: integers of at least 1, separated by
 * spaces. */
static int read_launch(BpCallNode *node, json_t *attrs) {
  const char *text = as_string(json_object_get(attrs, "launch"), "launch");
  if (!text)
    return -1;
  while (*text) {
    char *end;
    if (node->num_launch == BP_GRAPH_MAX_LAUNCH)
      return bad_graph("node '%s' has more than %d launch extents", node->name,
                       BP_GRAPH_MAX_LAUNCH);
    if (*text < '0' || *text > '9')
      return bad_graph("'launch' of node '%s' is no list of numbers", node->name);
    unsigned long long extent = strtoull(text, &end, 10);
    if (extent < 1 || extent > INT32_MAX || (*end && *end != ' '))
      return bad_graph("'launch' of node '%s' holds '%.32s'", node->name, text);
    node->launch[node->num_launch++] = (int64_t)extent;
    text = *end ? end + 1 : end;
  }
  return 0;
}

/* Checks an attribute, which is a number in a string; a missing attribute has the value
 * `expected`. */
static int check_attr(const BpCallNode *node, json_t *attrs, const char *name, uint32_t expected) {
  char wanted[16];
  if (!json_object_get(attrs, name))
    return 0;
  const char *text = as_string(json_object_get(attrs, name), name);
  if (!text)
    return -1;
  snprintf(wanted, sizeof(wanted), "%u", expected);
  return strcmp(text, wanted) == 0 ? 0
                                   : bad_graph("'%s' of node '%s' is %.16s, and there are %u", name,
                                               node->name, text, expected);
}

static int read_flattens(BpCallNode *node, json_t *attrs) {
  if (!json_object_get(attrs, "flatten_data"))
    return 0;
  const char *text = as_string(json_object_get(attrs, "flatten_data"), "flatten_data");
  if (!text)
    return -1;
  node->flattens = strcmp(text, "1") == 0;
  return node->flattens || strcmp(text, "0") == 0
             ? 0
             : bad_graph("'flatten_data' of node '%s' is '%.16s', not 0 or 1", node->name, text);
}

static int read_attrs(BpCallNode *node, json_t *attrs) {
  if (read_flattens(node, attrs) < 0)
    return -1;
  return json_object_get(attrs, "launch") ? read_launch(node, attrs) : 0;
}

static int read_function(BpCallNode *node, json_t *object) {
  const char *op = as_string(get_member(object, "op"), "op");
  if (!op)
    return -1;
  if (strcmp(op, "null") == 0)
    return 0;
  if (strcmp(op, "tvm_op") != 0)
    return bad_graph("node '%s' has the unknown op '%s'", node->name, op);
  json_t *attrs = as_object(get_member(object, "attrs"), "attrs");
  const char *function = attrs ? as_string(get_member(attrs, "func_name"), "func_name") : NULL;
  if (!function)
    return -1;
  node->is_copy = strcmp(function, "__copy") == 0;
  node->function = strdup(strcmp(function, "__nop") == 0 ? "" : function);
  if (!node->function)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for a node");
  return read_attrs(node, attrs);
}

/* Checks the numbers of inputs and outputs that an operator states. */
static int check_counts(const BpCallNode *node, json_t *object) {
  if (!node->function)
    return 0;
  json_t *attrs = json_object_get(object, "attrs");
  return check_attr(node, attrs, "num_inputs", node->num_inputs) < 0
             ? -1
             : check_attr(node, attrs, "num_outputs", node->num_outputs);
}

static int read_node(BpCallGraph *graph, uint32_t index, json_t *json) {
  BpCallNode *node = &graph->nodes[index];
  json_t *object = as_object(json, "nodes");
  const char *name = object ? as_string(get_member(object, "name"), "name") : NULL;
  json_t *inputs = name ? get_array(object, "inputs") : NULL;
  if (!inputs)
    return -1;
  node->name = strdup(name);
  if (!node->name)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for a node");
  if (read_function(node, object) < 0 || read_inputs(graph, index, inputs) < 0 ||
      check_counts(node, object) < 0)
    return -1;
  if (!node->function && (node->num_inputs || node->num_outputs != 1))
    return bad_graph("the input '%s' has inputs of its own, or not one output", name);
  if (node->function && !*node->function && (node->num_inputs != 1 || node->num_outputs != 1))
    return bad_graph("the view '%s' has not one input and one output", name);
  return 0;
}

/* Reads node_row_ptr: the first entry of each node, then the number of entries. */
static int read_row_ptr(BpCallGraph *graph, json_t *array) {
  uint32_t count;
  uint32_t *rows = read_indices(array, "node_row_ptr", MAX_COUNT, &count);
  if (!rows)
    return -1;
  int status = 0;
  if (count != graph->num_nodes + 1 || rows[0] != 0)
    status = bad_graph("'node_row_ptr' has not one number more than there are nodes");
  for (uint32_t i = 0; status == 0 && i < graph->num_nodes; i++) {
    if (rows[i + 1] < rows[i])
      status = bad_graph("'node_row_ptr' decreases at node %u", i);
    graph->nodes[i].first_entry = rows[i];
    graph->nodes[i].num_outputs = rows[i + 1] - rows[i];
  }
  graph->num_entries = status == 0 ? rows[graph->num_nodes] : 0;
  free(rows);
  return status;
}

static int read_nodes(BpCallGraph *graph, json_t *root) {
  json_t *nodes = get_array(root, "nodes");
  json_t *row_ptr = nodes ? get_array(root, "node_row_ptr") : NULL;
  if (!row_ptr)
    return -1;
  uint32_t count = (uint32_t)json_array_size(nodes);
  if (count == 0 || count > MAX_COUNT)
    return bad_graph("it has %u nodes", count);
  graph->nodes = calloc(count, sizeof(*graph->nodes));
  if (!graph->nodes)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for %u nodes", count);
  graph->num_nodes = count;
  if (read_row_ptr(graph, row_ptr) < 0)
    return -1;
  for (uint32_t i = 0; i < count; i++)
    if (read_node(graph, i, json_array_get(nodes, i)) < 0)
      return -1;
  return 0;
}

/* ---- Entries ----------------------------------------------------------------------------- */

static int read_shape(BpCallEntry *entry, json_t *json) {
  json_t *array = as_array(json, "shape");
  if (!array)
    return -1;
  size_t length = json_array_size(array);
  if (length > MAX_NDIM)
    return bad_graph("a shape has %zu dimensions, more than %d", length, MAX_NDIM);
  entry->shape = calloc(length ? length : 1, sizeof(*entry->shape));
  if (!entry->shape)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for a shape");
  entry->ndim = (int32_t)length;
  for (size_t i = 0; i < length; i++)
    if (as_int(json_array_get(array, i), "shape", 0, INT64_MAX, &entry->shape[i]) < 0)
      return -1;
  return 0;
}

/* Reads a type. TVM before 0.20 writes its boolean, a byte for each element, as an unsigned integer
 * of one bit. */
static int read_dtype(const char *text, BpDataType *dtype) {
  if (!text || bp_dtype_parse(text, dtype) < 0)
    return -1;
  if (dtype->code == BP_DTYPE_UINT && dtype->bits == 1)
    *dtype = (BpDataType){BP_DTYPE_BOOL, 8, dtype->lanes};
  return 0;
}

static int read_entry(BpCallEntry *entry, json_t *shape, json_t *dtype, json_t *storage) {
  int64_t storage_id;
  if (read_dtype(as_string(dtype, "dltype"), &entry->dtype) < 0 || read_shape(entry, shape) < 0 ||
      as_int(storage, "storage_id", 0, MAX_COUNT - 1, &storage_id) < 0)
    return -1;
  BpTensorView view = {.ndim = entry->ndim, .dtype = entry->dtype, .shape = entry->shape};
  int64_t bytes = bp_view_num_bytes(&view);
  if (bytes < 0 || (uint64_t)bytes > MAX_STORAGE)
    return bad_graph("an entry's shape is too large for any memory");
  entry->storage_id = (int32_t)storage_id;
  entry->bytes = (uint64_t)bytes;
  return 0;
}

static int read_entries(BpCallGraph *graph, json_t *attrs) {
  json_t *shapes = get_attr_list(attrs, "shape");
  json_t *dtypes = shapes ? get_attr_list(attrs, "dltype") : NULL;
  json_t *storages = dtypes ? get_attr_list(attrs, "storage_id") : NULL;
  if (!storages)
    return -1;
  uint32_t count = graph->num_entries;
  if (json_array_size(shapes) != count || json_array_size(dtypes) != count ||
      json_array_size(storages) != count)
    return bad_graph("'attrs' does not describe each of the %u entries", count);
  graph->entries = calloc(count ? count : 1, sizeof(*graph->entries));
  if (!graph->entries)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for %u entries", count);
  for (uint32_t i = 0; i < count; i++)
    if (read_entry(&graph->entries[i], json_array_get(shapes, i), json_array_get(dtypes, i),
                   json_array_get(storages, i)) < 0)
      return -1;
  for (uint32_t n = 0; n < graph->num_nodes; n++)
    for (uint32_t i = 0; i < graph->nodes[n].num_outputs; i++)
      graph->entries[graph->nodes[n].first_entry + i].node = n;
  return 0;
}

static int read_place(BpCallGraph *graph, BpCallEntry *entry, BpPlace place) {
  for (uint32_t i = 0; i < graph->places.count; i++)
    if (graph->places.all[i].device_type == place.device_type &&
        graph->places.all[i].ordinal == place.ordinal) {
      entry->place = i;
      return 0;
    }
  if (graph->places.count == BP_PLACES_MAX)
    return bad_graph("it lies on more than %d devices", BP_PLACES_MAX);
  entry->place = graph->places.count;
  graph->places.all[graph->places.count++] = place;
  return 0;
}

/* Checks attrs.storage_scope, if present: it may request textures, which are not supported. */
static int check_scopes(const BpCallGraph *graph, json_t *attrs) {
  if (!json_object_get(attrs, "storage_scope"))
    return 0;
  json_t *scopes = get_attr_list(attrs, "storage_scope");
  if (!scopes)
    return -1;
  for (size_t i = 0; i < json_array_size(scopes); i++) {
    const char *scope = as_string(json_array_get(scopes, i), "storage_scope");
    if (!scope)
      return -1;
    if (*scope && strcmp(scope, "global") != 0 && i < graph->num_entries)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "graph JSON: node '%s' wants memory of scope '%.32s', and there is "
                            "global memory alone; compile the model without textures",
                            graph->nodes[graph->entries[i].node].name, scope);
  }
  return 0;
}

/* Reads a list with a number for each entry, if there is one. */
static int read_device_list(const BpCallGraph *graph, json_t *attrs, const char *name,
                            json_t **list) {
  *list = NULL;
  if (!json_object_get(attrs, name))
    return 0;
  *list = get_attr_list(attrs, name);
  if (!*list)
    return -1;
  return json_array_size(*list) == graph->num_entries
             ? 0
             : bad_graph("'%s' has not one number for each of the %u entries", name,
                         graph->num_entries);
}

/* attrs.device_index, of a graph on several devices, is the device type of each entry.
 * attrs.device_ordinal, which TVM lacks, is the number of each entry's device among the devices of
 * its type, 0 if absent. */
static int read_devices(BpCallGraph *graph, json_t *attrs) {
  json_t *types, *ordinals;
  if (read_device_list(graph, attrs, "device_index", &types) < 0 ||
      read_device_list(graph, attrs, "device_ordinal", &ordinals) < 0)
    return -1;
  if (ordinals && !types)
    return bad_graph("'device_ordinal' has no 'device_index' beside it");
  for (uint32_t i = 0; types && i < graph->num_entries; i++) {
    int64_t type, ordinal = 0;
    if (as_int(json_array_get(types, i), "device_index", 1, INT32_MAX, &type) < 0 ||
        (ordinals && as_int(json_array_get(ordinals, i), "device_ordinal", 0, BP_PLACES_MAX - 1,
                            &ordinal) < 0) ||
        read_place(graph, &graph->entries[i], (BpPlace){(int32_t)type, (uint32_t)ordinal}) < 0)
      return -1;
  }
  graph->places.count = LARGER(graph->places.count, 1); /* one place: the model's device */
  return 0;
}

/* Computes the sizes of the storages, and lists the entries of each. */
static int plan_storage(BpCallGraph *graph) {
  for (uint32_t i = 0; i < graph->num_entries; i++)
    graph->num_storages = LARGER(graph->num_storages, (uint32_t)graph->entries[i].storage_id + 1);
  if (graph->num_storages > graph->num_entries)
    return bad_graph("a storage_id is larger than the number of entries");
  graph->storages = calloc(graph->num_storages ? graph->num_storages : 1, sizeof(*graph->storages));
  if (!graph->storages)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for the storage plan");
  for (uint32_t i = 0; i < graph->num_storages; i++)
    graph->storages[i].last_entry = BP_NO_ENTRY;
  for (uint32_t i = 0; i < graph->num_entries; i++) {
    BpCallEntry *entry = &graph->entries[i];
    BpCallStorage *storage = &graph->storages[entry->storage_id];
    if (storage->last_entry != BP_NO_ENTRY &&
        graph->entries[storage->last_entry].place != entry->place)
      return bad_graph("storage %d lies on two devices", entry->storage_id);
    storage->bytes = LARGER(storage->bytes, entry->bytes);
    entry->previous = storage->last_entry;
    storage->last_entry = i;
  }
  return 0;
}

/* The state of the memory during a walk over the nodes in order. */
typedef struct Walk {
  const BpCallGraph *graph;
  uint32_t *held; /* entry whose value a storage holds, by storage; BP_NO_ENTRY: none yet */
  uint32_t *root; /* entry that an entry views in the end, or itself, by entry */
} Walk;

static int is_held(const Walk *walk, uint32_t entry) {
  return walk->held[walk->graph->entries[entry].storage_id] == walk->root[entry];
}

/* Enters an input or a parameter, whose value stays from run to run. */
static int enter_arg(const Walk *walk, const BpCallNode *node) {
  uint32_t entry = node->first_entry;
  uint32_t *held = &walk->held[walk->graph->entries[entry].storage_id];
  if (*held != BP_NO_ENTRY)
    return bad_graph("the input '%s' shares its storage with another value", node->name);
  *held = entry;
  return 0;
}

static int enter_view(const Walk *walk, const BpCallNode *node) {
  const BpCallEntry *in = &walk->graph->entries[node->inputs[0]];
  const BpCallEntry *out = &walk->graph->entries[node->first_entry];
  if (in->storage_id != out->storage_id || in->bytes != out->bytes)
    return bad_graph("the view '%s' is not as large as the value that it views", node->name);
  walk->root[node->first_entry] = walk->root[node->inputs[0]];
  return 0;
}

static int enter_outputs(const Walk *walk, const BpCallNode *node) {
  const BpCallGraph *graph = walk->graph;
  for (uint32_t i = node->first_entry; i < node->first_entry + node->num_outputs; i++) {
    uint32_t *held = &walk->held[graph->entries[i].storage_id];
    if (*held != BP_NO_ENTRY && !graph->nodes[graph->entries[*held].node].function)
      return bad_graph("node '%s' writes into an input or a parameter", node->name);
    if (*held != BP_NO_ENTRY && *held >= node->first_entry)
      return bad_graph("two outputs of node '%s' have one storage", node->name);
    *held = i;
  }
  return 0;
}

/* Checks that a function runs on one device, and a copy goes from one device to another. */
static int check_devices(const Walk *walk, const BpCallNode *node) {
  const BpCallEntry *entries = walk->graph->entries, *out = &entries[node->first_entry];
  if (node->is_copy)
    return node->num_inputs == 1 && node->num_outputs == 1 &&
                   entries[node->inputs[0]].bytes == out->bytes
               ? 0
               : bad_graph("the copy '%s' has not one input and one output of its size",
                           node->name);
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (node->num_outputs > 0 && entries[node->inputs[i]].place != out->place)
      return bad_graph("node '%s' has tensors on two devices", node->name);
  for (uint32_t i = 1; i < node->num_outputs; i++)
    if (out[i].place != out->place)
      return bad_graph("node '%s' has tensors on two devices", node->name);
  return 0;
}

static int check_inputs(const Walk *walk, const BpCallNode *node, const char *problem) {
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (!is_held(walk, node->inputs[i]))
      return bad_graph("node '%s' %s", node->name, problem);
  return 0;
}

static int walk_nodes(const Walk *walk) {
  const BpCallGraph *graph = walk->graph;
  for (uint32_t n = 0; n < graph->num_nodes; n++) {
    const BpCallNode *node = &graph->nodes[n];
    if (check_inputs(walk, node, "reads a value that an earlier node has overwritten") < 0 ||
        check_devices(walk, node) < 0)
      return -1;
    int status = !node->function    ? enter_arg(walk, node)
                 : !*node->function ? enter_view(walk, node)
                                    : enter_outputs(walk, node);
    if (status < 0 || check_inputs(walk, node, "writes into its own input") < 0)
      return -1;
  }
  for (uint32_t i = 0; i < graph->num_heads; i++)
    if (!is_held(walk, graph->heads[i]))
      return bad_graph("output '%s' is overwritten by a later node", graph->output_names[i]);
  return 0;
}

/* Checks that storages are shared in turns: each reader of a value finds it in its storage. */
static int check_storage(const BpCallGraph *graph) {
  Walk walk = {graph, malloc(((size_t)graph->num_storages + 1) * sizeof(*walk.held)),
               malloc(((size_t)graph->num_entries + 1) * sizeof(*walk.root))};
  int status = -1;
  if (walk.held && walk.root) {
    for (uint32_t i = 0; i < graph->num_storages; i++)
      walk.held[i] = BP_NO_ENTRY;
    for (uint32_t i = 0; i < graph->num_entries; i++)
      walk.root[i] = i;
    status = walk_nodes(&walk);
  } else {
    bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for the storage plan");
  }
  free(walk.held);
  free(walk.root);
  return status;
}

/* ---- The whole --------------------------------------------------------------------------- */

static int read_args(BpCallGraph *graph, json_t *root) {
  json_t *args = get_array(root, "arg_nodes");
  if (!args)
    return -1;
  graph->arg_nodes = read_indices(args, "arg_nodes", graph->num_nodes, &graph->num_args);
  if (!graph->arg_nodes)
    return -1;
  uint32_t nulls = 0;
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    nulls += !graph->nodes[i].function;
  for (uint32_t i = 0; i < graph->num_args; i++)
    if (graph->nodes[graph->arg_nodes[i]].function)
      return bad_graph("'arg_nodes' names node %u, which is an operator", graph->arg_nodes[i]);
  return nulls == graph->num_args ? 0 : bad_graph("'arg_nodes' does not list each input once");
}

static int read_heads(BpCallGraph *graph, json_t *root) {
  json_t *heads = get_array(root, "heads");
  if (!heads)
    return -1;
  size_t count = json_array_size(heads);
  graph->heads = calloc(count ? count : 1, sizeof(*graph->heads));
  if (!graph->heads)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for its outputs");
  for (size_t i = 0; i < count; i++)
    if (read_input(graph, graph->num_nodes, json_array_get(heads, i), &graph->heads[i]) < 0)
      return -1;
  graph->num_heads = (uint32_t)count;
  return 0;
}

/* Reads attrs.output_names, which only this project writes; the outputs of graphs without it are
 * numbered. */
static int read_output_names(BpCallGraph *graph, json_t *attrs) {
  json_t *names = NULL;
  if (json_object_get(attrs, "output_names") && !(names = get_attr_list(attrs, "output_names")))
    return -1;
  if (names && json_array_size(names) != graph->num_heads)
    return bad_graph("'output_names' has not one name for each output");
  graph->output_names = calloc((size_t)graph->num_heads + 1, sizeof(*graph->output_names));
  if (!graph->output_names)
    return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for its outputs");
  for (uint32_t i = 0; i < graph->num_heads; i++) {
    char number[32];
    snprintf(number, sizeof(number), "output%u", i);
    const char *name = names ? as_string(json_array_get(names, i), "output_names") : number;
    if (!name)
      return -1;
    graph->output_names[i] = strdup(name);
    if (!graph->output_names[i])
      return bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for its outputs");
  }
  return 0;
}

static int read_graph(BpCallGraph *graph, json_t *root) {
  json_t *attrs = root ? as_object(get_member(root, "attrs"), "attrs") : NULL;
  if (!attrs)
    return -1;
  if (read_nodes(graph, root) < 0 || read_entries(graph, attrs) < 0 || read_args(graph, root) < 0)
    return -1;
  if (read_heads(graph, root) < 0 || read_output_names(graph, attrs) < 0)
    return -1;
  if (read_devices(graph, attrs) < 0 || check_scopes(graph, attrs) < 0)
    return -1;
  return plan_storage(graph) < 0 ? -1 : check_storage(graph);
}

typedef struct Text {
  const char *next;
  size_t left;
  int lacks_memory;
} Text;

/* Reads a single byte: if jansson has no memory for a longer token, it drops a byte and continues,
 * and the next number clears errno. */
static size_t read_byte(void *buffer, size_t size, void *data) {
  Text *text = data;
  (void)size;
  text->lacks_memory |= errno == ENOMEM;
  if (text->lacks_memory || !text->left)
    return 0;
  *(char *)buffer = *text->next++;
  text->left--;
  return 1;
}

/* Duplicate names are an error: readers disagree on which of them counts. */
static json_t *load(const char *text) {
  json_error_t error;
  size_t size = strlen(text);
  if (size > MAX_BYTES) {
    bad_graph("longer than %u MiB", MAX_BYTES >> 20);
    return NULL;
  }
  Text rest = {text, size, 0};
  errno = 0;
  json_t *document = json_load_callback(read_byte, &rest, JSON_REJECT_DUPLICATES, &error);
  if (rest.lacks_memory || errno == ENOMEM) {
    json_decref(document);
    bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for %zu bytes of text", size);
    return NULL;
  }
  if (!document)
    bad_graph("line %d, column %d: %s", error.line, error.column, error.text);
  return document;
}

BpCallGraph *bp__graph_parse(const char *text) {
  json_t *document = load(text);
  if (!document)
    return NULL;
  BpCallGraph *graph = calloc(1, sizeof(*graph));
  int status = graph ? read_graph(graph, as_object(document, "graph"))
                     : bp_error_raise(BP_ERROR_MEMORY, "graph JSON: no memory for the graph");
  json_decref(document);
  if (status == 0)
    return graph;
  bp__graph_free(graph);
  return NULL;
}

void bp__graph_free(BpCallGraph *graph) {
  if (!graph)
    return;
  for (uint32_t i = 0; graph->nodes && i < graph->num_nodes; i++) {
    free(graph->nodes[i].name);
    free(graph->nodes[i].function);
    free(graph->nodes[i].inputs);
  }
  for (uint32_t i = 0; graph->entries && i < graph->num_entries; i++)
    free(graph->entries[i].shape);
  for (uint32_t i = 0; graph->output_names && i < graph->num_heads; i++)
    free(graph->output_names[i]);
  free(graph->nodes);
  free(graph->entries);
  free(graph->arg_nodes);
  free(graph->heads);
  free(graph->output_names);
  free(graph->storages);
  free(graph);
}

int64_t bp__graph_find_arg(const BpCallGraph *graph, const char *name, size_t size) {
  for (uint32_t i = 0; i < graph->num_args; i++) {
    const char *have = graph->nodes[graph->arg_nodes[i]].name;
    if (strlen(have) == size && memcmp(have, name, size) == 0)
      return i;
  }
  return -1;
}
