/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as JSON, in TVM's published form; graph/exec/artifact.h says what holds beyond it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"

typedef struct Writer {
  const BpBuild *build;
  const BpGraph *graph;
  BpGroups *groups;
  const BpMemoryPlan *plan;
  JsonBuilder *json;
  BpList entries;   /* BpGraphValue, by node: every node has one entry */
  int32_t *node_of; /* by value id: node index, or -1 */
  size_t num_args;  /* the first nodes: inputs and parameters */
} Writer;

static int add_entry(Writer *writer, BpGraphValue *value) {
  if (writer->node_of[value->id] >= 0)
    return 0;
  writer->node_of[value->id] = (int32_t)writer->entries.size;
  return bp__list_push(&writer->entries, value);
}

/* Inputs, parameters, then the groups in order. */
static int number_nodes(Writer *writer) {
  for (int32_t i = 0; i < writer->graph->num_values; i++)
    writer->node_of[i] = -1;
  for (size_t i = 0; i < writer->graph->inputs.size; i++)
    if (add_entry(writer, writer->graph->inputs.items[i]))
      return -1;
  for (size_t g = 0; g < writer->groups->groups.size; g++) {
    const BpGroup *group = writer->groups->groups.items[g];
    for (size_t i = 0; i < group->args.size; i++)
      if (((BpGraphValue *)group->args.items[i])->data && add_entry(writer, group->args.items[i]))
        return -1;
  }
  writer->num_args = writer->entries.size;
  for (size_t g = 0; g < writer->groups->groups.size; g++)
    if (add_entry(writer, ((BpGroup *)writer->groups->groups.items[g])->output))
      return -1;
  return 0;
}

static void write_string(Writer *writer, const char *key, const char *value) {
  json_builder_set_member_name(writer->json, key);
  json_builder_add_string_value(writer->json, value);
}

static void write_reference(Writer *writer, const BpGraphValue *value) {
  json_builder_begin_array(writer->json);
  json_builder_add_int_value(writer->json, writer->node_of[value->id]);
  json_builder_add_int_value(writer->json, 0);
  json_builder_add_int_value(writer->json, 0);
  json_builder_end_array(writer->json);
}

static void write_argument(Writer *writer, const char *name) {
  json_builder_begin_object(writer->json);
  write_string(writer, "op", "null");
  write_string(writer, "name", name);
  json_builder_set_member_name(writer->json, "inputs");
  json_builder_begin_array(writer->json);
  json_builder_end_array(writer->json);
  json_builder_end_object(writer->json);
}

/* The extents of the launch, in the order of the kernel's tags. */
static void write_launch(Writer *writer, const BpKernelLaunch *kernel) {
  GString *text = g_string_new(NULL);
  for (int32_t i = 0; i < kernel->num_launch; i++)
    g_string_append_printf(text, "%s%" PRId64, i ? " " : "", kernel->launch[i]);
  write_string(writer, "launch", text->str);
  g_string_free(text, TRUE);
}

static void write_group(Writer *writer, const BpGroup *group, size_t index) {
  char text[32];
  char *name = g_strdup_printf("%zu:%s", index, group->output->name);
  json_builder_begin_object(writer->json);
  write_string(writer, "op", "tvm_op");
  write_string(writer, "name", name);
  json_builder_set_member_name(writer->json, "attrs");
  json_builder_begin_object(writer->json);
  write_string(writer, "func_name",
               group->is_copy    ? "__copy"
               : group->function ? group->function
                                 : "__nop");
  write_string(writer, "flatten_data", "0");
  snprintf(text, sizeof(text), "%zu", group->args.size);
  write_string(writer, "num_inputs", text);
  write_string(writer, "num_outputs", "1");
  if (group->kernel)
    write_launch(writer, group->kernel);
  json_builder_end_object(writer->json);
  json_builder_set_member_name(writer->json, "inputs");
  json_builder_begin_array(writer->json);
  for (size_t i = 0; i < group->args.size; i++)
    write_reference(writer, group->args.items[i]);
  json_builder_end_array(writer->json);
  json_builder_end_object(writer->json);
  g_free(name);
}

static void write_nodes(Writer *writer, const BpGraphParam *params) {
  json_builder_set_member_name(writer->json, "nodes");
  json_builder_begin_array(writer->json);
  for (size_t i = 0; i < writer->graph->inputs.size; i++)
    write_argument(writer, ((BpGraphValue *)writer->graph->inputs.items[i])->name);
  for (size_t i = writer->graph->inputs.size; i < writer->num_args; i++)
    write_argument(writer, params[i - writer->graph->inputs.size].name);
  for (size_t i = 0; i < writer->groups->groups.size; i++)
    write_group(writer, writer->groups->groups.items[i], i);
  json_builder_end_array(writer->json);
}

static void begin_list(Writer *writer, const char *key, const char *tag) {
  json_builder_set_member_name(writer->json, key);
  json_builder_begin_array(writer->json);
  json_builder_add_string_value(writer->json, tag);
  json_builder_begin_array(writer->json);
}

static void end_list(Writer *writer) {
  json_builder_end_array(writer->json);
  json_builder_end_array(writer->json);
}

static void write_shape(Writer *writer, const BpGraphValue *value) {
  json_builder_begin_array(writer->json);
  for (int32_t i = 0; i < value->ndim; i++)
    json_builder_add_int_value(writer->json, value->shape[i]);
  json_builder_end_array(writer->json);
}

/* The device type of each entry, as heterogeneous graphs of TVM have it. */
static void write_devices(Writer *writer) {
  begin_list(writer, "device_index", "list_int");
  for (size_t i = 0; i < writer->entries.size; i++) {
    const BpGraphValue *value = writer->entries.items[i];
    const BpTarget *target =
        value->place == BP_PLACE_FALLBACK ? writer->build->fallback : writer->build->target;
    json_builder_add_int_value(writer->json, bp_target_device_type(target));
  }
  end_list(writer);
}

static void write_attrs(Writer *writer) {
  char dtype[32];
  json_builder_set_member_name(writer->json, "attrs");
  json_builder_begin_object(writer->json);
  begin_list(writer, "shape", "list_shape");
  for (size_t i = 0; i < writer->entries.size; i++)
    write_shape(writer, writer->entries.items[i]);
  end_list(writer);
  begin_list(writer, "dltype", "list_str");
  for (size_t i = 0; i < writer->entries.size; i++) {
    bp_dtype_format(((BpGraphValue *)writer->entries.items[i])->dtype, dtype);
    json_builder_add_string_value(writer->json, dtype);
  }
  end_list(writer);
  begin_list(writer, "storage_id", "list_int");
  for (size_t i = 0; i < writer->entries.size; i++)
    json_builder_add_int_value(
        writer->json, writer->plan->storage[((BpGraphValue *)writer->entries.items[i])->id]);
  end_list(writer);
  if (writer->build->fallback)
    write_devices(writer);
  begin_list(writer, "output_names", "list_str");
  for (size_t i = 0; i < writer->graph->outputs.size; i++)
    json_builder_add_string_value(writer->json, writer->graph->output_names[i]);
  end_list(writer);
  json_builder_end_object(writer->json);
}

static void write_indices(Writer *writer, const char *key, size_t count) {
  json_builder_set_member_name(writer->json, key);
  json_builder_begin_array(writer->json);
  for (size_t i = 0; i < count; i++)
    json_builder_add_int_value(writer->json, (gint64)i);
  json_builder_end_array(writer->json);
}

static char *write_graph(Writer *writer, const BpGraphParam *params) {
  JsonGenerator *generator;
  JsonNode *root;
  char *text;
  json_builder_begin_object(writer->json);
  write_nodes(writer, params);
  write_indices(writer, "arg_nodes", writer->num_args);
  json_builder_set_member_name(writer->json, "heads");
  json_builder_begin_array(writer->json);
  for (size_t i = 0; i < writer->graph->outputs.size; i++)
    write_reference(writer, writer->graph->outputs.items[i]);
  json_builder_end_array(writer->json);
  write_indices(writer, "node_row_ptr", writer->entries.size + 1);
  write_attrs(writer);
  json_builder_end_object(writer->json);
  root = json_builder_get_root(writer->json);
  generator = json_generator_new();
  json_generator_set_root(generator, root);
  text = json_generator_to_data(generator, NULL);
  g_object_unref(generator);
  json_node_unref(root);
  return text;
}

static int is_input_name(const BpGraph *graph, const char *name) {
  for (size_t i = 0; i < graph->inputs.size; i++)
    if (!strcmp(((const BpGraphValue *)graph->inputs.items[i])->name, name))
      return 1;
  return 0;
}

/* A parameter is named after its constant, with its index, so that no two are the same; nor is it
 * that of an input. */
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
    int64_t tensor = bp__params_add(table, constant);
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
  writer.node_of = calloc((size_t)graph->num_values + 1, sizeof(*writer.node_of));
  if (!writer.node_of) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while writing the graph");
    return NULL;
  }
  if (!number_nodes(&writer)) {
    *params = list_params(&writer, table, num_params);
    writer.json = json_builder_new();
    text = *params ? write_graph(&writer, *params) : NULL;
    g_object_unref(writer.json);
  }
  bp__list_free(&writer.entries);
  free(writer.node_of);
  return text;
}
