/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of graphs made by `backplane compile`, and by TVM until 0.19. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "graph/exec/executor.h"
#include "graph/exec/graph_module.h"
#include "graph/exec/linked.h"
#include "graph/exec/model.h"
#include "graph/io/device_text.h"
#include "graph/relax/model.h"

/* A graph with its parameters, on its devices. */
typedef struct GraphModel {
  BpModule *module; /* module of the artifact; borrowed */
  BpGraphVariant *variant;
  BpExecutorPlan plan;                    /* `params` is NULL until all parameters are loaded */
  BpDevice devices[BP_MODEL_MAX_DEVICES]; /* the model's device, then the plan's other devices in
                                             the given order */
  uint32_t num_devices;
  BpTensor **params; /* by argument; NULL for an input */
  uint32_t *inputs;  /* indices of the arguments that are inputs, in order */
  uint32_t num_inputs;
  BpModelTensorInfo *infos; /* infos of the inputs, then of the outputs */
} GraphModel;

/* ---- Modules ----------------------------------------------------------------------------- */

/* The module with the graph: the module itself, or the first import of a loaded library. */
static BpModule *find_module(BpModule *module) {
  if (bp__graph_module_content(module))
    return module;
  for (size_t i = 0; i < bp_module_num_imports(module); i++) {
    BpModule *import = bp_module_get_import(module, i);
    if (import && bp__graph_module_content(import))
      return import;
  }
  return NULL;
}

/* The variant of a graph for a device type. The one variant of a graph that TVM compiled is for all
 * devices that its code supports. */
static BpGraphVariant *find_variant(const BpGraphContent *content, int32_t device_type) {
  int32_t type = BP_DEVICE_TYPE_OF_CODE(device_type);
  if (content->factory)
    return &content->targets[0];
  for (uint32_t i = 0; i < content->num_targets; i++)
    if (content->targets[i].device_type == type)
      return &content->targets[i];
  return NULL;
}

static int select_by_target(const BpGraphContent *content, const char *preferences,
                            BpDevice *device, char **report) {
  int32_t *types = calloc((size_t)content->num_targets + 1, sizeof(*types));
  if (!types)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to choose a device");
  for (uint32_t i = 0; i < content->num_targets; i++)
    types[i] = content->targets[i].device_type;
  int status = bp_device_select_among(types, content->num_targets, preferences, device, report);
  free(types);
  return status;
}

static int select_devices(BpModule *module, const char *preferences, BpDevice *devices,
                          size_t capacity, size_t *num_devices, char **report) {
  const BpGraphContent *content = bp__graph_module_content(module);
  *num_devices = 1;
  if ((content->factory ? bp__code_select_device(module, preferences, devices, report)
                        : select_by_target(content, preferences, devices, report)) < 0)
    return -1;
  const BpCallGraph *graph = bp__graph_variant_graph(find_variant(content, devices[0].device_type));
  return graph ? bp__places_select(&graph->places, preferences, devices, capacity, num_devices)
               : -1;
}

static BpModelTensorInfo tensor_info(const BpCallGraph *graph, uint32_t entry, const char *name) {
  return (BpModelTensorInfo){.struct_size = sizeof(BpModelTensorInfo),
                             .name = name,
                             .dtype = graph->entries[entry].dtype,
                             .ndim = graph->entries[entry].ndim,
                             .shape = graph->entries[entry].shape};
}

static BpModelTensorInfo head_info(const BpCallGraph *graph, uint32_t index) {
  return tensor_info(graph, graph->heads[index], graph->output_names[index]);
}

static int is_param(const BpGraphVariant *variant, const char *name) {
  for (uint32_t i = 0; i < variant->num_params; i++)
    if (strcmp(variant->param_names[i], name) == 0)
      return 1;
  return 0;
}

static int visit_graph(BpGraphVariant *variant, BpTensorVisit visit, void *visitor) {
  const BpCallGraph *graph = bp__graph_variant_graph(variant);
  BpModelTensorInfo info;
  int rc = graph ? 0 : -1;
  for (uint32_t i = 0; rc == 0 && i < graph->num_args; i++) {
    const BpCallNode *node = &graph->nodes[graph->arg_nodes[i]];
    info = tensor_info(graph, node->first_entry, node->name);
    if (!is_param(variant, node->name))
      rc = visit(visitor, BP_TENSOR_INPUT, &info);
  }
  for (uint32_t i = 0; rc == 0 && i < graph->num_heads; i++) {
    info = head_info(graph, i);
    rc = visit(visitor, BP_TENSOR_OUTPUT, &info);
  }
  return rc;
}

static int visit_tensors(BpModule *module, BpTensorVisit visit, void *visitor) {
  return visit_graph(&bp__graph_module_content(module)->targets[0], visit, visitor);
}

/* ---- Models ------------------------------------------------------------------------------ */

/* Formats the names of the targets that a module has code for. */
static void list_targets(const BpGraphContent *content, char *names, size_t size) {
  size_t used = 0;
  *names = '\0';
  for (uint32_t i = 0; i < content->num_targets && used < size; i++)
    used +=
        (size_t)snprintf(names + used, size - used, "%s%.*s", i ? ", " : "",
                         (int)strcspn(content->targets[i].target, " "), content->targets[i].target);
}

static int no_variant(const BpGraphContent *content, BpDevice device) {
  char wanted[BP_DEVICE_TEXT_MAX], names[1024];
  bp_device_format(device, wanted, sizeof wanted);
  list_targets(content, names, sizeof(names));
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the model has no code for %s; it was compiled for %s. Compile it for a "
                        "target of that device too, or choose another device",
                        wanted, names);
}

/* Chooses the code for the model's device, and the graph that calls the code. */
static int choose_variant(GraphModel *model, const BpGraphContent *content) {
  if (content->factory && bp__code_check_device(model->module, model->devices[0]) < 0)
    return -1;
  model->variant = find_variant(content, model->devices[0].device_type);
  if (!model->variant)
    return no_variant(content, model->devices[0]);
  model->plan.code =
      bp_module_get_import(model->module, (size_t)(model->variant - content->targets));
  if (!model->plan.code)
    return bp_error_add_context("the code of the model");
  model->plan.graph = bp__graph_variant_graph(model->variant);
  return model->plan.graph ? 0 : -1;
}

static int take_devices(GraphModel *model, const BpDevice *devices, size_t num_devices) {
  BpDevice used[BP_PLACES_MAX + 1];
  const BpPlaces *places = &model->plan.graph->places;
  if (bp__places_take(places, devices, num_devices, model->plan.devices) < 0)
    return -1;
  model->num_devices =
      bp__places_list(model->plan.devices, places->count, devices, num_devices, used);
  if (model->num_devices > BP_MODEL_MAX_DEVICES)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the model runs on more than %d devices, the one of its inputs included",
                          BP_MODEL_MAX_DEVICES);
  memcpy(model->devices, used, model->num_devices * sizeof *used);
  return 0;
}

/* A parameter on a device: the tensor itself on the CPU, a copy elsewhere (transfer full). */
static BpTensor *place_param(BpTensor *tensor, BpDevice device) {
  if (device.device_type == BP_DEVICE_CPU)
    return bp_object_retain(tensor);
  BpTensor *copy =
      bp_tensor_create(tensor->view.shape, tensor->view.ndim, tensor->view.dtype, device, NULL);
  if (copy && bp_tensor_copy_from_host(&copy->view, tensor->view.data,
                                       (uint64_t)bp_view_num_bytes(&tensor->view)) < 0) {
    bp_object_release(copy);
    copy = NULL;
  }
  return copy;
}

static int check_param(const BpCallGraph *graph, uint32_t arg, const BpTensor *tensor) {
  const BpCallNode *node = &graph->nodes[graph->arg_nodes[arg]];
  const BpCallEntry *entry = &graph->entries[node->first_entry];
  if (memcmp(&entry->dtype, &tensor->view.dtype, sizeof(BpDataType)) == 0 &&
      entry->ndim == tensor->view.ndim &&
      (entry->ndim == 0 ||
       memcmp(entry->shape, tensor->view.shape, (size_t)entry->ndim * sizeof(*entry->shape)) == 0))
    return 0;
  return bp_error_raise(
      BP_ERROR_FORMAT,
      "parameter '%s' does not have the type and shape that the graph gives it; the "
      "file is damaged, or of another model",
      node->name);
}

static BpDevice device_of_arg(const GraphModel *model, uint32_t arg) {
  const BpCallGraph *graph = model->plan.graph;
  uint32_t entry = graph->nodes[graph->arg_nodes[arg]].first_entry;
  return model->plan.devices[graph->entries[entry].place];
}

static int place_params(GraphModel *model, const BpGraphContent *content) {
  const BpGraphVariant *variant = model->variant;
  for (uint32_t i = 0; i < variant->num_params; i++) {
    const char *name = variant->param_names[i];
    int64_t arg = bp__graph_find_arg(model->plan.graph, name, strlen(name));
    if (arg < 0 && content->factory)
      continue;
    if (arg < 0 || model->params[arg])
      return bp_error_raise(BP_ERROR_FORMAT,
                            "parameter '%s' is no input of the graph, or given twice; the file is "
                            "damaged",
                            name);
    BpTensor *tensor = content->tensors[variant->param_tensors[i]];
    if (check_param(model->plan.graph, (uint32_t)arg, tensor) < 0)
      return -1;
    model->params[arg] = place_param(tensor, device_of_arg(model, (uint32_t)arg));
    if (!model->params[arg])
      return bp_error_add_context("parameter '%s'", name);
  }
  if (content->factory && bp__executor_take_linked(&model->plan, model->params) < 0)
    return -1;
  for (uint32_t i = 0; i < model->plan.graph->num_args; i++)
    if (!model->params[i])
      model->inputs[model->num_inputs++] = i;
  /* Contexts run on streams of their own. */
  for (uint32_t i = 0; i < model->num_devices; i++)
    if (bp_stream_sync(model->devices[i], NULL) < 0)
      return -1;
  return 0;
}

static int describe_tensors(GraphModel *model) {
  const BpCallGraph *graph = model->plan.graph;
  model->infos = calloc((size_t)model->num_inputs + graph->num_heads + 1, sizeof(*model->infos));
  if (!model->infos)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    const BpCallNode *node = &graph->nodes[graph->arg_nodes[model->inputs[i]]];
    model->infos[i] = tensor_info(graph, node->first_entry, node->name);
  }
  for (uint32_t i = 0; i < graph->num_heads; i++)
    model->infos[model->num_inputs + i] = head_info(graph, i);
  return 0;
}

static int build(GraphModel *model, const BpDevice *devices, size_t num_devices) {
  const BpGraphContent *content = bp__graph_module_content(model->module);
  model->devices[model->num_devices++] = devices[0];
  if (choose_variant(model, content) < 0 || take_devices(model, devices, num_devices) < 0)
    return -1;
  uint32_t num_args = model->plan.graph->num_args;
  model->params = calloc((size_t)num_args + 1, sizeof(*model->params));
  model->inputs = calloc((size_t)num_args + 1, sizeof(*model->inputs));
  model->plan.params = model->params;
  if (!model->params || !model->inputs)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
  return place_params(model, content) ? -1 : describe_tensors(model);
}

static void free_model(void *data) {
  GraphModel *model = data;
  for (uint32_t i = 0; model->params && i < model->plan.graph->num_args; i++)
    bp_object_release(model->params[i]);
  free(model->params);
  free(model->inputs);
  free(model->infos);
  free(model);
}

static void *create_model(BpModule *module, const BpDevice *devices, size_t num_devices) {
  GraphModel *model = calloc(1, sizeof(*model));
  if (!model) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
    return NULL;
  }
  model->module = module;
  if (build(model, devices, num_devices) == 0)
    return model;
  free_model(model);
  return NULL;
}

static const BpDevice *model_devices(const void *data, size_t *num_devices) {
  const GraphModel *model = data;
  *num_devices = model->num_devices;
  return model->devices;
}

static const BpModelTensorInfo *model_infos(const void *data, int32_t role, uint32_t *count) {
  const GraphModel *model = data;
  bool is_input = role == BP_TENSOR_INPUT;
  *count = is_input ? model->num_inputs : model->plan.graph->num_heads;
  return is_input ? model->infos : model->infos + model->num_inputs;
}

static void model_memory(const void *data, uint64_t *parameters, uint64_t *planned) {
  const GraphModel *model = data;
  const BpCallGraph *graph = model->plan.graph;
  *parameters = *planned = 0;
  for (uint32_t i = 0; i < graph->num_storages; i++)
    *planned += graph->storages[i].bytes;
  for (uint32_t i = 0; i < graph->num_args; i++)
    if (model->params[i])
      *parameters += graph->entries[graph->nodes[graph->arg_nodes[i]].first_entry].bytes;
  *planned -= *parameters;
}

static const char *model_target(const void *data, int32_t index) {
  const BpGraphContent *content = bp__graph_module_content(((const GraphModel *)data)->module);
  return !content->factory && (uint32_t)index < content->num_targets
             ? content->targets[index].target
             : NULL;
}

static const char *model_graph_json(const void *data) {
  return ((const GraphModel *)data)->variant->graph_json;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

typedef struct GraphContext {
  const GraphModel *model;
  BpExecutor *executor;
  bool has_run; /* whether the context's outputs contain values of the last run */
} GraphContext;

static void *create_context(void *model) {
  GraphContext *context = calloc(1, sizeof(*context));
  if (!context) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
    return NULL;
  }
  context->model = model;
  context->executor = bp__executor_create(&context->model->plan);
  if (context->executor)
    return context;
  free(context);
  return NULL;
}

static void free_context(void *data) {
  GraphContext *context = data;
  bp__executor_free(context->executor);
  free(context);
}

static int set_input(void *data, uint32_t input, const BpTensorView *value) {
  const GraphContext *context = data;
  return bp__executor_set_input(context->executor, context->model->inputs[input], value);
}

static int bind_input(void *data, uint32_t input, BpTensor *value) {
  const GraphContext *context = data;
  return bp__executor_bind_input(context->executor, context->model->inputs[input], value);
}

static int run(void *data) {
  GraphContext *context = data;
  int status = bp__executor_run(context->executor);
  context->has_run = status == 0;
  return status;
}

typedef struct Profile {
  BpModelCallVisit visit;
  void *visitor;
  GHashTable *files; /* names of the outputs' files so far */
  unsigned num_calls;
} Profile;

/* The names of the files for the outputs of a node (transfer full); NULL with an error. */
static GPtrArray *name_files(const char *name, uint32_t num_outputs) {
  GPtrArray *names = g_ptr_array_new_with_free_func(free);
  for (uint32_t i = 0; i < num_outputs; i++) {
    char *file = bp_npy_file_name(name, i);
    if (!file) {
      g_ptr_array_unref(names);
      return NULL;
    }
    g_ptr_array_add(names, file);
  }
  return names;
}

/* Reserves the files of a node: returns 1, 0 if one of them belongs to another node, or -1 with an
 * error. */
static int take_files(GHashTable *files, const char *name, uint32_t num_outputs) {
  g_autoptr(GPtrArray) names = name_files(name, num_outputs);
  if (!names)
    return -1;
  for (guint i = 0; i < names->len; i++)
    if (g_hash_table_contains(files, g_ptr_array_index(names, i)))
      return 0;
  g_ptr_array_set_free_func(names, NULL);
  for (guint i = 0; i < names->len; i++)
    g_hash_table_add(files, g_ptr_array_index(names, i));
  return 1;
}

/* A unique name for a node: usually its own name. If another node, or a file, has the name, the
 * number of the call comes first, as in the graphs of Backplane's compiler: "12:conv1". */
static char *find_free_name(const Profile *self, const BpCallNode *node) {
  char *name = g_strdup(node->name);
  for (int taken; (taken = take_files(self->files, name, node->num_outputs)) <= 0;) {
    char *longer = taken < 0 ? NULL : g_strdup_printf("%u:%s", self->num_calls, name);
    g_free(name);
    if (!(name = longer))
      return NULL;
  }
  return name;
}

static int profile_node(void *data, const BpCallNode *node, const BpTensorView *outputs,
                        int64_t start_ns, int64_t duration_ns) {
  Profile *self = data;
  g_autofree char *name = find_free_name(self, node);
  const BpModelCall call = {name,     node->function, outputs, node->num_outputs,
                            start_ns, duration_ns};
  self->num_calls++;
  return name ? self->visit(self->visitor, &call) : -1;
}

static int profile(void *data, BpModelCallVisit visit, void *visitor) {
  GraphContext *context = data;
  g_autoptr(GHashTable) files = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL);
  Profile self = {visit, visitor, files, 0};
  int status = bp__executor_profile(context->executor, profile_node, &self);
  context->has_run = status == 0;
  return status;
}

static BpTensor *get_output(void *data, uint32_t output) {
  const GraphContext *context = data;
  if (context->has_run)
    return bp__executor_output(context->executor, output);
  bp_error_raise(BP_ERROR_VALUE, "the model has not been run, or its last run failed");
  return NULL;
}

static int wait_for_run(void *data) {
  const GraphContext *context = data;
  return bp__executor_sync(context->executor);
}

static int set_stream(void *data, void *stream) {
  const GraphContext *context = data;
  return bp__executor_set_stream(context->executor, stream);
}

/* A graph is queued as a whole, with one shape for each input: cancelling and growing inputs are
 * not supported. */
const BpModelExecutor bp__graph_executor = {
    .find = find_module,
    .select_devices = select_devices,
    .visit_tensors = visit_tensors,
    .create = create_model,
    .free = free_model,
    .devices = model_devices,
    .infos = model_infos,
    .memory = model_memory,
    .target = model_target,
    .graph_json = model_graph_json,
    .context_create = create_context,
    .context_free = free_context,
    .set_stream = set_stream,
    .set_input = set_input,
    .bind_input = bind_input,
    .run = run,
    .profile = profile,
    .output = get_output,
    .wait = wait_for_run,
};
