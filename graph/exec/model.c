/* SPDX-License-Identifier: Apache-2.0 */
/* Models and their contexts: a graph with its parameters on its devices, and one executor each; or
 * what TVM compiled, which graph/relax runs. */
#include <backplane/graph/model.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "graph/exec/executor.h"
#include "graph/exec/graph_module.h"
#include "graph/exec/linked.h"
#include "graph/io/given.h"
#include "graph/relax/model.h"
#include "graph/relax/module.h"

struct BpModel {
  atomic_int references;
  BpModule *module; /* keeps content and code alive */
  BpGraphVariant *variant;
  BpExecutorPlan plan; /* without params until they are all there */
  BpTensor **params;   /* by argument; NULL for an input */
  uint32_t *inputs;    /* arguments that are inputs, in order */
  uint32_t num_inputs;
  BpModelTensorInfo *infos; /* of the inputs and then of the outputs */
  BpRelaxModel *relax;      /* instead of a graph, or NULL */
};

struct BpModelContext {
  BpModel *model;
  BpExecutor *executor;
  BpRelaxContext *relax; /* instead of an executor, or NULL */
  int has_run;           /* the executor; its outputs hold what the last run made */
};

/* ---- Making a model ---------------------------------------------------------------------- */

/* Names the targets that a module has code for. */
static void list_targets(const BpGraphContent *content, char *names, size_t size) {
  size_t used = 0;
  *names = '\0';
  for (uint32_t i = 0; i < content->num_targets && used < size; i++)
    used +=
        (size_t)snprintf(names + used, size - used, "%s%.*s", i ? ", " : "",
                         (int)strcspn(content->targets[i].target, " "), content->targets[i].target);
}

static int no_variant(const BpGraphContent *content, BpDevice device) {
  char wanted[64], names[1024];
  bp_device_format(device, wanted, sizeof wanted);
  list_targets(content, names, sizeof(names));
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the model has no code for %s; it was compiled for %s. Compile it for a "
                        "target of that device too, or choose another device",
                        wanted, names);
}

/* That of a graph which TVM compiled is for all devices that there is code for. */
static BpGraphVariant *find_variant(const BpGraphContent *content, int32_t device_type) {
  if (content->factory)
    return &content->targets[0];
  for (uint32_t i = 0; i < content->num_targets; i++)
    if (content->targets[i].device_type == device_type)
      return &content->targets[i];
  return NULL;
}

/* The code for the model's device, and the graph that calls it. */
static int choose_variant(BpModel *model, const BpGraphContent *content) {
  if (content->factory && bp__code_check_device(model->module, model->plan.devices[0]) < 0)
    return -1;
  model->variant = find_variant(content, model->plan.devices[0].device_type);
  if (!model->variant)
    return no_variant(content, model->plan.devices[0]);
  model->plan.code =
      bp_module_get_import(model->module, (size_t)(model->variant - content->targets));
  if (!model->plan.code)
    return bp_error_add_context("the code of the model");
  model->plan.graph = bp__graph_variant_graph(model->variant);
  return model->plan.graph ? 0 : -1;
}

/* The kind of device that a graph needs beside its target's; 0: none. */
static int32_t type_beside(const BpGraph *graph, int32_t device_type) {
  for (uint32_t i = 0; i < graph->num_device_types; i++)
    if (graph->device_types[i] != device_type)
      return graph->device_types[i];
  return 0;
}

/* To the error of a second device that is not there: what to ask for. */
static int add_second_device(int32_t first, int32_t second) {
  char kinds[2][64];
  bp_device_format((BpDevice){first, 0}, kinds[0], sizeof kinds[0]);
  bp_device_format((BpDevice){second, 0}, kinds[1], sizeof kinds[1]);
  for (int i = 0; i < 2; i++)
    kinds[i][strcspn(kinds[i], ":")] = '\0';
  return bp_error_add_context(
      "some nodes of the graph run on a second device, of kind %s; name one "
      "after the first, as in \"%s,%s\"",
      kinds[1], kinds[0], kinds[1]);
}

/* Takes the second device that the graph needs, if it needs one. */
static int choose_second(BpModel *model, const BpDevice *devices, size_t num_devices) {
  int32_t type = type_beside(model->plan.graph, model->plan.devices[0].device_type);
  for (size_t i = 1; type && i < num_devices; i++)
    if (devices[i].device_type == type) {
      model->plan.devices[model->plan.num_devices++] = devices[i];
      return 0;
    }
  if (!type)
    return 0;
  bp_error_raise(BP_ERROR_VALUE, "no such device was given");
  return add_second_device(model->plan.devices[0].device_type, type);
}

/* The tensor itself on the CPU, a copy on the device elsewhere (transfer full). */
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

static int check_param(const BpGraph *graph, uint32_t arg, const BpTensor *tensor) {
  const BpGraphNode *node = &graph->nodes[graph->arg_nodes[arg]];
  const BpGraphEntry *entry = &graph->entries[node->first_entry];
  if (memcmp(&entry->dtype, &tensor->view.dtype, sizeof(BpDataType)) == 0 &&
      entry->ndim == tensor->view.ndim &&
      (entry->ndim == 0 ||
       memcmp(entry->shape, tensor->view.shape, (size_t)entry->ndim * sizeof(*entry->shape)) == 0))
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT,
                        "parameter '%s' has not the type and shape that the graph gives it; the "
                        "file is damaged, or of another model",
                        node->name);
}

static BpDevice device_of_arg(const BpModel *model, uint32_t arg) {
  const BpGraph *graph = model->plan.graph;
  uint32_t entry = graph->nodes[graph->arg_nodes[arg]].first_entry;
  return model->plan.devices[bp__executor_place(&model->plan, entry)];
}

static int place_params(BpModel *model, const BpGraphContent *content) {
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
  for (uint32_t i = 0; i < model->plan.num_devices; i++)
    if (bp_stream_sync(model->plan.devices[i], NULL) < 0)
      return -1;
  return 0;
}

static const BpGraphContent *get_content(BpModule *module) {
  const BpGraphContent *content = bp__graph_module_content(module);
  if (!content)
    bp_error_raise(
        BP_ERROR_TYPE,
        "this is a module of kind '%s', which holds functions and no model: `backplane inspect "
        "module` lists them. A model is of kind " BP_GRAPH_KIND
        ", which `backplane compile` makes, or, as TVM makes it, of kind " BP_RELAX_EXECUTABLE_KIND
        " or " BP_FACTORY_KIND
        "; to a library of TVM 0.19 or older belongs a graph (.json), which relay.build makes "
        "for the executor \"graph\" and not for \"aot\"",
        bp_module_kind(module));
  return content;
}

static BpModelTensorInfo tensor_info(const BpGraph *graph, uint32_t entry, const char *name) {
  return (BpModelTensorInfo){sizeof(BpModelTensorInfo), name, graph->entries[entry].dtype,
                             graph->entries[entry].ndim, graph->entries[entry].shape};
}

static BpModelTensorInfo head_info(const BpGraph *graph, uint32_t index) {
  return tensor_info(graph, graph->heads[index], graph->output_names[index]);
}

static int describe_tensors(BpModel *model) {
  const BpGraph *graph = model->plan.graph;
  model->infos = calloc((size_t)model->num_inputs + graph->num_heads + 1, sizeof(*model->infos));
  if (!model->infos)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    const BpGraphNode *node = &graph->nodes[graph->arg_nodes[model->inputs[i]]];
    model->infos[i] = tensor_info(graph, node->first_entry, node->name);
  }
  for (uint32_t i = 0; i < graph->num_heads; i++)
    model->infos[model->num_inputs + i] = head_info(graph, i);
  return 0;
}

static int build_model(BpModel *model, const BpDevice *devices, size_t num_devices) {
  model->plan.devices[0] = devices[0];
  model->plan.num_devices = 1;
  if (bp__relax_module_executable(model->module)) {
    model->relax = bp__relax_model_create(model->module, devices[0]);
    return model->relax ? 0 : -1;
  }
  const BpGraphContent *content = get_content(model->module);
  if (!content || choose_variant(model, content) < 0 ||
      choose_second(model, devices, num_devices) < 0)
    return -1;
  uint32_t num_args = model->plan.graph->num_args;
  model->params = calloc((size_t)num_args + 1, sizeof(*model->params));
  model->inputs = calloc((size_t)num_args + 1, sizeof(*model->inputs));
  model->plan.params = model->params;
  if (!model->params || !model->inputs)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
  return place_params(model, content) ? -1 : describe_tensors(model);
}

/* The graph module within: the module itself, or the first import of a loaded library. */
static BpModule *find_graph_module(BpModule *module) {
  if (bp__graph_module_content(module))
    return module;
  for (size_t i = 0; i < bp_module_num_imports(module); i++) {
    BpModule *import = bp_module_get_import(module, i);
    if (import && bp__graph_module_content(import))
      return import;
  }
  return module;
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

/* The device of the second kind that a graph needs on the first one, by the same list. */
static int select_second(const BpGraphContent *content, const char *preferences, BpDevice *devices,
                         size_t capacity, size_t *num_devices) {
  const BpGraph *graph = bp__graph_variant_graph(find_variant(content, devices[0].device_type));
  int32_t type = graph ? type_beside(graph, devices[0].device_type) : 0;
  if (!type)
    return graph ? 0 : -1;
  if (capacity < 2)
    return bp_error_raise(
        BP_ERROR_VALUE,
        "the model runs on 2 devices, and there is room for %zu; pass an array of "
        "BP_MODEL_MAX_DEVICES",
        capacity);
  if (bp_device_select_among(&type, 1, preferences, &devices[1], NULL) < 0)
    return add_second_device(devices[0].device_type, type);
  *num_devices = 2;
  return 0;
}

int bp_model_select_devices(BpModule *module, const char *preferences, BpDevice *devices,
                            size_t capacity, size_t *num_devices, char **report) {
  if (report)
    *report = NULL;
  if (!BP_GIVEN(module) || !BP_GIVEN(devices) || !BP_GIVEN(num_devices) ||
      bp_graph_initialize() < 0)
    return -1;
  if (!capacity)
    return bp_error_raise(BP_ERROR_VALUE, "a model runs on at least 1 device, and there is room "
                                          "for 0; pass an array of BP_MODEL_MAX_DEVICES");
  *num_devices = 1;
  if (bp__relax_module_executable(module))
    return bp__code_select_device(module, preferences, devices, report);
  module = find_graph_module(module);
  const BpGraphContent *content = get_content(module);
  if (!content)
    return -1;
  if ((content->factory ? bp__code_select_device(module, preferences, devices, report)
                        : select_by_target(content, preferences, devices, report)) < 0)
    return -1;
  if (select_second(content, preferences, devices, capacity, num_devices) == 0)
    return 0;
  if (report) {
    bp_str_free(*report);
    *report = NULL;
  }
  return -1;
}

BpModel *bp_model_create(BpModule *module, const BpDevice *devices, size_t num_devices) {
  if (!BP_GIVEN(module) || !BP_GIVEN(devices) || bp_graph_initialize() < 0)
    return NULL;
  if (!num_devices) {
    bp_error_raise(BP_ERROR_VALUE, "a model needs a device");
    return NULL;
  }
  BpModel *model = calloc(1, sizeof(*model));
  if (!model) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a model");
    return NULL;
  }
  atomic_init(&model->references, 1);
  model->module = bp_object_retain(find_graph_module(module));
  if (build_model(model, devices, num_devices) == 0)
    return model;
  bp_model_release(model);
  return NULL;
}

BpModel *bp_model_load(const char *path, const BpDevice *devices, size_t num_devices) {
  if (bp_graph_initialize() < 0)
    return NULL;
  BpModule *module = bp_model_open(path);
  BpModel *model = module ? bp_model_create(module, devices, num_devices) : NULL;
  if (module && !model)
    bp_error_add_context("%s", path);
  bp_object_release(module);
  return model;
}

BpModel *bp_model_retain(BpModel *model) {
  if (model)
    atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
  return model;
}

void bp_model_release(BpModel *model) {
  if (!model || atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) != 1)
    return;
  bp__relax_model_free(model->relax);
  for (uint32_t i = 0; model->params && i < model->plan.graph->num_args; i++)
    bp_object_release(model->params[i]);
  free(model->params);
  free(model->inputs);
  free(model->infos);
  bp_object_release(model->module);
  free(model);
}

/* ---- Facts ------------------------------------------------------------------------------- */

static int is_param(const BpGraphVariant *variant, const char *name) {
  for (uint32_t i = 0; i < variant->num_params; i++)
    if (strcmp(variant->param_names[i], name) == 0)
      return 1;
  return 0;
}

static int visit_graph(BpGraphVariant *variant, BpTensorVisit visit, void *visitor) {
  const BpGraph *graph = bp__graph_variant_graph(variant);
  BpModelTensorInfo info;
  int rc = graph ? 0 : -1;
  for (uint32_t i = 0; rc == 0 && i < graph->num_args; i++) {
    const BpGraphNode *node = &graph->nodes[graph->arg_nodes[i]];
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

int bp_model_visit_tensors(BpModule *module, BpTensorVisit visit, void *visitor) {
  if (!BP_GIVEN(module) || !BP_GIVEN(visit) || bp_graph_initialize() < 0)
    return -1;
  if (bp__relax_module_executable(module))
    return bp__relax_visit_tensors(module, visit, visitor);
  const BpGraphContent *content = get_content(find_graph_module(module));
  return content ? visit_graph(&content->targets[0], visit, visitor) : -1;
}

int32_t bp_model_num_inputs(const BpModel *model) {
  if (!BP_GIVEN(model))
    return -1;
  return (int32_t)(model->relax ? model->relax->num_inputs : model->num_inputs);
}

const BpModelTensorInfo *bp_model_input_info(const BpModel *model, int32_t index) {
  if (!BP_GIVEN(model))
    return NULL;
  if (index >= 0 && index < bp_model_num_inputs(model))
    return model->relax ? &model->relax->inputs[index] : &model->infos[index];
  bp_error_raise(BP_ERROR_INDEX, "input %d of a model that has %d", index,
                 bp_model_num_inputs(model));
  return NULL;
}

int32_t bp_model_num_outputs(const BpModel *model) {
  if (!BP_GIVEN(model))
    return -1;
  return (int32_t)(model->relax ? model->relax->num_outputs : model->plan.graph->num_heads);
}

const BpModelTensorInfo *bp_model_output_info(const BpModel *model, int32_t index) {
  if (!BP_GIVEN(model))
    return NULL;
  if (index >= 0 && index < bp_model_num_outputs(model))
    return model->relax ? &model->relax->outputs[index]
                        : &model->infos[model->num_inputs + (uint32_t)index];
  bp_error_raise(BP_ERROR_INDEX, "output %d of a model that has %d", index,
                 bp_model_num_outputs(model));
  return NULL;
}

const BpDevice *bp_model_devices(const BpModel *model, size_t *num_devices) {
  if (!BP_GIVEN(model) || !BP_GIVEN(num_devices))
    return NULL;
  *num_devices = model->plan.num_devices;
  return model->plan.devices;
}

int32_t bp_model_num_targets(const BpModel *model) {
  if (!BP_GIVEN(model))
    return -1;
  const BpGraphContent *content = bp__graph_module_content(model->module);
  return content && !content->factory ? (int32_t)content->num_targets : 0;
}

const char *bp_model_target(const BpModel *model, int32_t index) {
  if (index < 0 || index >= bp_model_num_targets(model))
    return NULL;
  return bp__graph_module_content(model->module)->targets[index].target;
}

void bp_model_memory(const BpModel *model, uint64_t *parameters, uint64_t *planned) {
  if (!BP_GIVEN(model) || !BP_GIVEN(parameters) || !BP_GIVEN(planned))
    return;
  const BpGraph *graph = model->plan.graph;
  *parameters = model->relax ? bp__relax_model_constant_bytes(model->relax) : 0;
  *planned = 0;
  if (model->relax)
    return;
  for (uint32_t i = 0; i < graph->num_storages; i++)
    *planned += graph->storages[i].bytes;
  for (uint32_t i = 0; i < graph->num_args; i++)
    if (model->params[i])
      *parameters += graph->entries[graph->nodes[graph->arg_nodes[i]].first_entry].bytes;
  *planned -= *parameters;
}

char *bp_model_graph_json(const BpModel *model) {
  if (!BP_GIVEN(model))
    return NULL;
  if (model->relax) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "a Relax executable has no graph to show");
    return NULL;
  }
  char *json = strdup(model->variant->graph_json);
  if (!json)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the graph's text");
  return json;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

BpModelContext *bp_model_context_create(BpModel *model) {
  if (!BP_GIVEN(model))
    return NULL;
  BpModelContext *context = calloc(1, sizeof(*context));
  if (!context) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
    return NULL;
  }
  context->model = bp_model_retain(model);
  if (model->relax)
    context->relax = bp__relax_context_create(model->relax);
  else
    context->executor = bp__executor_create(&model->plan);
  if (context->relax || context->executor)
    return context;
  bp_model_context_free(context);
  return NULL;
}

void bp_model_context_free(BpModelContext *context) {
  if (!context)
    return;
  bp__executor_free(context->executor);
  bp__relax_context_free(context->relax);
  bp_model_release(context->model);
  free(context);
}

/* The argument behind an input's name: of the graph, or of the Relax function. */
static int find_input(const BpModel *model, const char *name, uint32_t *arg) {
  char names[1024] = "";
  size_t used = 0;
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    if (strcmp(info->name, name) == 0) {
      *arg = model->relax ? (uint32_t)i : model->inputs[i];
      return 0;
    }
    if (used < sizeof(names))
      used +=
          (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", info->name);
  }
  return bp_error_raise(BP_ERROR_NOT_FOUND, "the model has no input '%s'; it has: %s", name, names);
}

int bp_model_set_input(BpModelContext *context, const char *name, const BpTensorView *value) {
  uint32_t arg;
  if (!BP_GIVEN(context) || !BP_GIVEN(name) || !BP_GIVEN(value) ||
      find_input(context->model, name, &arg) < 0)
    return -1;
  if (context->relax)
    return bp__relax_context_set_input(context->relax, arg, value);
  return bp__executor_set_input(context->executor, arg, value);
}

int bp_model_bind_input(BpModelContext *context, const char *name, BpTensor *value) {
  uint32_t arg;
  if (!BP_GIVEN(context) || !BP_GIVEN(name) || !BP_GIVEN(value) ||
      find_input(context->model, name, &arg) < 0)
    return -1;
  if (context->relax)
    return bp__relax_context_bind_input(context->relax, arg, value);
  return bp__executor_bind_input(context->executor, arg, value);
}

int bp_model_cancel(BpModelContext *context) {
  if (!BP_GIVEN(context))
    return -1;
  if (context->relax)
    bp__relax_context_cancel(context->relax);
  return 0;
}

int bp_model_run(BpModelContext *context) {
  if (!BP_GIVEN(context))
    return -1;
  if (context->relax)
    return bp__relax_context_run(context->relax);
  int rc = bp__executor_run(context->executor);
  context->has_run = rc == 0;
  return rc;
}

BpTensor *bp_model_get_output(BpModelContext *context, int32_t index) {
  if (!BP_GIVEN(context) || !bp_model_output_info(context->model, index))
    return NULL;
  if (context->relax)
    return bp__relax_context_output(context->relax, (uint32_t)index);
  if (!context->has_run) {
    bp_error_raise(BP_ERROR_VALUE, "the model has not been run, or its last run failed");
    return NULL;
  }
  if (bp__executor_sync(context->executor) < 0)
    return NULL;
  return bp__executor_output(context->executor, (uint32_t)index);
}

/* ---- Profiling --------------------------------------------------------------------------- */

typedef struct Profile {
  const char *dump_dir;
  int (*visit)(void *visitor, const char *node, const char *function, int64_t start_ns,
               int64_t duration_ns);
  void *visitor;
  unsigned num_calls;
} Profile;

/* Writes outputs as DIR/NODE.npy, or DIR/NODE.1.npy and on for further ones. */
static int dump_outputs(const char *dir, const char *node, const BpTensorView *outputs,
                        uint32_t num_outputs) {
  for (uint32_t i = 0; i < num_outputs; i++) {
    char number[16] = "";
    if (i)
      snprintf(number, sizeof(number), ".%u", i);
    size_t size = strlen(dir) + strlen(node) + sizeof(number) + 8;
    char *path = malloc(size);
    if (!path)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for a file name");
    int start = snprintf(path, size, "%s/", dir);
    snprintf(path + start, size - (size_t)start, "%s%s.npy", node, number);
    for (char *c = path + start; *c; c++)
      if (*c == '/')
        *c = '_';
    int status = bp_npy_write(path, &outputs[i]);
    free(path);
    if (status < 0)
      return -1;
  }
  return 0;
}

static int profile_node(void *context, const BpGraphNode *node, const BpTensorView *outputs,
                        int64_t start_ns, int64_t duration_ns) {
  Profile *profile = context;
  if (profile->dump_dir &&
      dump_outputs(profile->dump_dir, node->name, outputs, node->num_outputs) < 0)
    return -1;
  return profile->visit(profile->visitor, node->name, node->function, start_ns, duration_ns) != 0;
}

/* A call of bytecode has no name of its own: it is numbered. */
static int profile_relax_call(void *context, const char *function, const BpTensorView *last,
                              int64_t start_ns, int64_t duration_ns) {
  Profile *profile = context;
  char node[256];
  snprintf(node, sizeof(node), "%u-%.200s", profile->num_calls++, function);
  if (profile->dump_dir && last && dump_outputs(profile->dump_dir, node, last, 1) < 0)
    return -1;
  return profile->visit(profile->visitor, node, function, start_ns, duration_ns) != 0;
}

int bp_model_profile(BpModelContext *context, const char *dump_dir,
                     int (*visit)(void *visitor, const char *node, const char *function,
                                  int64_t start_ns, int64_t duration_ns),
                     void *visitor) {
  if (!BP_GIVEN(context) || !BP_GIVEN(visit))
    return -1;
  Profile profile = {dump_dir, visit, visitor, 0};
  if (context->relax)
    return bp__relax_context_profile(context->relax, profile_relax_call, &profile);
  int rc = bp__executor_profile(context->executor, profile_node, &profile);
  context->has_run = rc == 0;
  return rc;
}
