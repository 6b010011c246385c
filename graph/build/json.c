/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the graph as JSON in TVM's published form; graph/exec/artifact.h documents the
 * extensions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <jansson.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/io/json.h"

#define MOST_WORK 1e18 /* maximum written number: readers take 64-bit integers */

typedef struct Writer {
  const BpBuild *build;
  const BpGraph *graph;
  BpGroups *groups;
  const BpMemoryPlan *plan;
  BpList entries;   /* BpGraphValue: outputs of nodes, in the order of the nodes */
  int32_t *node_of; /* index of the node that makes a value, or -1, and its output; by value id */
  int32_t *output_of;
  int32_t num_nodes;
  size_t num_args; /* number of the first nodes: inputs and parameters, with one entry each */
} Writer;

/* Adds an entry (an output) of the node that is written next. */
static int add_entry(Writer *writer, BpGraphValue *value, int32_t output) {
  writer->node_of[value->id] = writer->num_nodes;
  writer->output_of[value->id] = output;
  return bp__list_push(&writer->entries, value);
}

/* Adds a node with one output for a value, unless the value has one. */
static int add_argument(Writer *writer, BpGraphValue *value) {
  if (writer->node_of[value->id] >= 0)
    return 0;
  int status = add_entry(writer, value, 0);
  writer->num_nodes++;
  return status;
}

static int add_group(Writer *writer, const BpGroup *group) {
  int status = 0;
  for (size_t i = 0; i < group->outputs.size; i++)
    status |= add_entry(writer, group->outputs.items[i], (int32_t)i);
  writer->num_nodes++;
  return status;
}

/* Numbers inputs, parameters, then the groups in order. */
static int number_nodes(Writer *writer) {
  for (int32_t i = 0; i < writer->graph->num_values; i++)
    writer->node_of[i] = -1;
  for (size_t i = 0; i < writer->graph->inputs.size; i++)
    if (add_argument(writer, writer->graph->inputs.items[i]))
      return -1;
  for (size_t g = 0; g < writer->groups->groups.size; g++) {
    const BpGroup *group = writer->groups->groups.items[g];
    for (size_t i = 0; i < group->args.size; i++)
      if (((BpGraphValue *)group->args.items[i])->data &&
          add_argument(writer, group->args.items[i]))
        return -1;
  }
  writer->num_args = writer->entries.size;
  for (size_t g = 0; g < writer->groups->groups.size; g++)
    if (add_group(writer, writer->groups->groups.items[g]))
      return -1;
  return 0;
}

/* ---- JSON -------------------------------------------------------------------------------- */

/* Returns a finished part of the document; NULL if `status` tells that memory ran out. */

static json_t *finish(json_t *json, int status) {
  if (status == 0)
    return json;
  json_decref(json);
  return NULL;
}

static json_t *make_reference(const Writer *writer, const BpGraphValue *value) {
  json_t *triple = json_array();
  int status = json_array_append_new(triple, json_integer(writer->node_of[value->id]));
  status |= json_array_append_new(triple, json_integer(writer->output_of[value->id]));
  status |= json_array_append_new(triple, json_integer(0));
  return finish(triple, status);
}

static json_t *make_references(const Writer *writer, const BpList *values) {
  json_t *references = json_array();
  int status = references ? 0 : -1;
  for (size_t i = 0; i < values->size; i++)
    status |= json_array_append_new(references, make_reference(writer, values->items[i]));
  return finish(references, status);
}

static json_t *make_argument(const char *name) {
  json_t *node = json_object();
  int status = json_object_set_new(node, "op", json_string("null"));
  status |= json_object_set_new(node, "name", json_string(name));
  status |= json_object_set_new(node, "inputs", json_array());
  return finish(node, status);
}

/* Formats the extents of the launch, in the order of the kernel's tags. */
static json_t *make_launch(const BpKernelLaunch *kernel) {
  char text[BP_KERNEL_MAX_LAUNCH * sizeof("-9223372036854775808")] = "";
  size_t size = 0;
  for (int32_t i = 0; i < kernel->num_launch; i++)
    size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%" PRId64, i ? " " : "",
                             bp_ir_table()->int_value(kernel->launch[i]));
  return json_string(text);
}

static json_t *make_attrs_of_group(const BpGroup *group) {
  const char *function = group->function ? group->function : "__nop";
  json_t *attrs = json_object();
  int status =
      json_object_set_new(attrs, "func_name", json_string(group->is_copy ? "__copy" : function));
  status |= json_object_set_new(attrs, "flatten_data", json_string("0"));
  status |= json_object_set_new(attrs, "num_inputs", json_sprintf("%zu", group->args.size));
  status |= json_object_set_new(attrs, "num_outputs", json_sprintf("%zu", group->outputs.size));
  if (group->kernel)
    status |= json_object_set_new(attrs, "launch", make_launch(group->kernel));
  return finish(attrs, status);
}

static json_t *make_group(const Writer *writer, const BpGroup *group, size_t index) {
  const BpGraphValue *first = group->outputs.items[0];
  json_t *node = json_object();
  int status = json_object_set_new(node, "op", json_string("tvm_op"));
  status |= json_object_set_new(node, "name", json_sprintf("%zu:%s", index, first->name));
  status |= json_object_set_new(node, "attrs", make_attrs_of_group(group));
  status |= json_object_set_new(node, "inputs", make_references(writer, &group->args));
  return finish(node, status);
}

static json_t *make_nodes(const Writer *writer, const BpGraphParam *params) {
  const BpList *inputs = &writer->graph->inputs, *groups = &writer->groups->groups;
  json_t *nodes = json_array();
  int status = nodes ? 0 : -1;
  for (size_t i = 0; i < inputs->size; i++)
    status |= json_array_append_new(nodes, make_argument(((BpGraphValue *)inputs->items[i])->name));
  for (size_t i = inputs->size; i < writer->num_args; i++)
    status |= json_array_append_new(nodes, make_argument(params[i - inputs->size].name));
  for (size_t i = 0; i < groups->size; i++)
    status |= json_array_append_new(nodes, make_group(writer, groups->items[i], i));
  return finish(nodes, status);
}

static json_t *make_shape(const Writer *writer, const BpGraphValue *value) {
  json_t *shape = json_array();
  int status = shape ? 0 : -1;
  (void)writer;
  for (int32_t i = 0; i < value->ndim; i++)
    status |= json_array_append_new(shape, json_integer(value->shape[i]));
  return finish(shape, status);
}

static json_t *make_dtype(const Writer *writer, const BpGraphValue *value) {
  char text[32];
  (void)writer;
  bp_dtype_format(value->dtype, text, sizeof text);
  return json_string(text);
}

static json_t *make_storage(const Writer *writer, const BpGraphValue *value) {
  return json_integer(writer->plan->storage[value->id]);
}

/* The device type of an entry, as in heterogeneous graphs of TVM. */
static json_t *make_device(const Writer *writer, const BpGraphValue *value) {
  return json_integer(bp_target_device_type(writer->build->chain[value->place]));
}

/* The number of an entry's device among those of its type. */
static json_t *make_ordinal(const Writer *writer, const BpGraphValue *value) {
  return json_integer(bp__build_ordinal(writer->build, value->place));
}

static bool has_ordinals(const Writer *writer) {
  for (size_t i = 0; i < writer->entries.size; i++) {
    const BpGraphValue *value = writer->entries.items[i];
    if (bp__build_ordinal(writer->build, value->place) > 0)
      return true;
  }
  return false;
}

/* Makes a list in TVM's form: [tag, list]. */
static json_t *tag_list(const char *tag, json_t *list) {
  json_t *pair = json_array();
  int status = json_array_append_new(pair, json_string(tag));
  status |= json_array_append_new(pair, list);
  return finish(pair, status);
}

/* Makes a list with one property of each entry. */
static json_t *make_list(const Writer *writer, const char *tag,
                         json_t *(*make)(const Writer *writer, const BpGraphValue *value)) {
  json_t *list = json_array();
  int status = list ? 0 : -1;
  for (size_t i = 0; i < writer->entries.size; i++)
    status |= json_array_append_new(list, make(writer, writer->entries.items[i]));
  return tag_list(tag, finish(list, status));
}

static json_t *make_output_names(const BpGraph *graph) {
  json_t *names = json_array();
  int status = names ? 0 : -1;
  for (size_t i = 0; i < graph->outputs.size; i++)
    status |= json_array_append_new(names, json_string(graph->output_names[i]));
  return tag_list("list_str", finish(names, status));
}

/* The names of the nodes of the model's file that became one group, each once, with line breaks
 * between them. */
static json_t *make_node_names(const BpGroup *group) {
  GString *names = g_string_new(NULL);
  const char *last = "";
  for (size_t i = 0; i < group->nodes.size; i++) {
    const char *name = ((const BpGraphNode *)group->nodes.items[i])->name;
    if (name && strcmp(name, last))
      g_string_append_printf(names, "%s%s", names->len ? "\n" : "", name), last = name;
  }
  json_t *text = json_string(names->str);
  g_string_free(names, TRUE);
  return text;
}

static json_t *make_all_node_names(const Writer *writer) {
  json_t *list = json_array();
  int status = list ? 0 : -1;
  for (size_t i = 0; i < writer->num_args; i++)
    status |= json_array_append_new(list, json_string(""));
  for (size_t i = 0; i < writer->groups->groups.size; i++)
    status |= json_array_append_new(list, make_node_names(writer->groups->groups.items[i]));
  return tag_list("list_str", finish(list, status));
}

/* Makes a list of one number of each node as text, "" for 0: TVM's reader does not support numbers
 * that large. */
static json_t *make_numbers(const Writer *writer, double (*get)(const BpGroup *group)) {
  json_t *list = json_array();
  int status = list ? 0 : -1;
  for (size_t i = 0; i < writer->num_args + writer->groups->groups.size; i++) {
    double number =
        i < writer->num_args ? 0 : get(writer->groups->groups.items[i - writer->num_args]);
    char text[32] = "";
    if (number > 0 && number < MOST_WORK)
      snprintf(text, sizeof text, "%.0f", number);
    status |= json_array_append_new(list, json_string(text));
  }
  return tag_list("list_str", finish(list, status));
}

static double work_of(const BpGroup *group) {
  return group->work;
}

static double channels_of(const BpGroup *group) {
  return (double)((const BpGraphValue *)group->outputs.items[0])->channels;
}

static json_t *make_attrs(const Writer *writer) {
  json_t *attrs = json_object();
  int status = json_object_set_new(attrs, "shape", make_list(writer, "list_shape", make_shape));
  status |= json_object_set_new(attrs, "dltype", make_list(writer, "list_str", make_dtype));
  status |= json_object_set_new(attrs, "storage_id", make_list(writer, "list_int", make_storage));
  if (writer->build->num_places > 1)
    status |=
        json_object_set_new(attrs, "device_index", make_list(writer, "list_int", make_device));
  if (has_ordinals(writer))
    status |=
        json_object_set_new(attrs, "device_ordinal", make_list(writer, "list_int", make_ordinal));
  status |= json_object_set_new(attrs, "output_names", make_output_names(writer->graph));
  status |= json_object_set_new(attrs, "node_names", make_all_node_names(writer));
  status |= json_object_set_new(attrs, "work", make_numbers(writer, work_of));
  status |= json_object_set_new(attrs, "channels", make_numbers(writer, channels_of));
  return finish(attrs, status);
}

/* A list of the numbers 0 to count - 1. */
static json_t *make_indices(size_t count) {
  json_t *indices = json_array();
  int status = indices ? 0 : -1;
  for (size_t i = 0; i < count; i++)
    status |= json_array_append_new(indices, json_integer((json_int_t)i));
  return finish(indices, status);
}

/* Makes the list of the first entry of each node, followed by the number of entries. */
static json_t *make_row_ptr(const Writer *writer) {
  json_t *rows = make_indices(writer->num_args);
  json_int_t entry = (json_int_t)writer->num_args;
  int status = rows ? 0 : -1;
  for (size_t i = 0; i < writer->groups->groups.size; i++) {
    status |= json_array_append_new(rows, json_integer(entry));
    entry += (json_int_t)((const BpGroup *)writer->groups->groups.items[i])->outputs.size;
  }
  status |= json_array_append_new(rows, json_integer(entry));
  return finish(rows, status);
}

static json_t *make_graph(const Writer *writer, const BpGraphParam *params) {
  json_t *graph = json_object();
  int status = json_object_set_new(graph, "nodes", make_nodes(writer, params));
  status |= json_object_set_new(graph, "arg_nodes", make_indices(writer->num_args));
  status |= json_object_set_new(graph, "heads", make_references(writer, &writer->graph->outputs));
  status |= json_object_set_new(graph, "node_row_ptr", make_row_ptr(writer));
  status |= json_object_set_new(graph, "attrs", make_attrs(writer));
  return finish(graph, status);
}

static int is_input_name(const BpGraph *graph, const char *name) {
  for (size_t i = 0; i < graph->inputs.size; i++)
    if (!strcmp(((const BpGraphValue *)graph->inputs.items[i])->name, name))
      return 1;
  return 0;
}

/* The name of a parameter: its constant's name and its index, so that no two parameters, and no
 * parameter and input, have the same name. */
static const char *param_name(Writer *writer, size_t index, const char *constant) {
  BpArena *arena = &writer->groups->arena;
  const char *name = bp__arena_printf(arena, "p%zu:%s", index, constant);
  while (name && is_input_name(writer->graph, name))
    name = bp__arena_printf(arena, "p%s", name);
  return name;
}

static BpGraphParam *list_params(Writer *writer, BpParamTable *table, int32_t *count) {
  size_t first = writer->graph->inputs.size, number = writer->num_args - first;
  BpGraphParam *params = bp__arena_alloc_array(&writer->groups->arena, number, sizeof(*params));
  if (!params)
    return NULL;
  for (size_t i = 0; i < number; i++) {
    const BpGraphValue *constant = writer->entries.items[first + i];
    int64_t tensor = bp__params_add(table, writer->graph, constant);
    params[i].name = param_name(writer, i, constant->name);
    if (tensor < 0 || !params[i].name)
      return NULL;
    params[i].tensor = (uint32_t)tensor;
  }
  *count = (int32_t)number;
  return params;
}

char *bp__build_json(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                     const BpMemoryPlan *plan, BpParamTable *table, BpGraphParam **params,
                     int32_t *num_params) {
  Writer writer = {.build = build, .graph = graph, .groups = groups, .plan = plan};
  char *text = NULL;
  size_t count = (size_t)graph->num_values + 1;
  writer.node_of = calloc(count, 2 * sizeof(*writer.node_of));
  writer.output_of = writer.node_of ? writer.node_of + count : NULL;
  if (!writer.node_of) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while writing the graph");
    return NULL;
  }
  if (!number_nodes(&writer)) {
    *params = list_params(&writer, table, num_params);
    text = *params ? bp__json_take_text(make_graph(&writer, *params)) : NULL;
  }
  bp__list_free(&writer.entries);
  free(writer.node_of);
  return text;
}
