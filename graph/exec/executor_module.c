/* SPDX-License-Identifier: Apache-2.0 */
/* The graph executor as packed functions of a module. */
#include <backplane/graph/executor.h>

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/executor.h"
#include "graph/exec/graph_module.h"
#include "graph/exec/linked.h"
#include "graph/io/argument.h"
#include "graph/io/json.h"

typedef struct ExecutorModule {
  BpModule *module; /* module that owns the context, so no reference is held */
  BpCallGraph *graph;
  BpModule *code;
  BpTensor **params; /* parameters in the code, by argument; NULL for inputs */
  BpExecutor *executor;
  int is_debug;
} ExecutorModule;

static const BpModuleApi api, debug_api;

/* The executor of a module, plain or debug; NULL without an error for other modules. */
static ExecutorModule *find_executor(BpModule *module) {
  ExecutorModule *self = bp_module_get_context(module, &api);
  return self ? self : bp_module_get_context(module, &debug_api);
}

static void destroy(void *context) {
  ExecutorModule *self = context;
  if (!self)
    return;
  bp__executor_free(self->executor);
  for (uint32_t i = 0; self->params && i < self->graph->num_args; i++)
    bp_object_release(self->params[i]);
  free(self->params);
  bp__graph_free(self->graph);
  bp_object_release(self->code);
  free(self);
}

/* ---- Arguments --------------------------------------------------------------------------- */

static int check_count(const char *name, int32_t num_args, int32_t min, int32_t max) {
  if (num_args >= min && num_args <= max)
    return 0;
  if (min == max)
    return bp_error_raise(BP_ERROR_TYPE, "graph_executor.%s takes %d argument%s, and got %d", name,
                          min, min == 1 ? "" : "s", num_args);
  return bp_error_raise(BP_ERROR_TYPE, "graph_executor.%s takes %d to %d arguments, and got %d",
                        name, min, max, num_args);
}

static const BpTensorView *as_view(const BpValue *value) {
  const BpTensorView *view = bp_value_view_tensor(value);
  if (!view)
    bp_error_raise(BP_ERROR_TYPE, "a tensor is needed, and a value of type %s was given",
                   bp_type_name(value->type_index));
  return view;
}

/* Finds an input by its name or its index. */
static int as_arg(const ExecutorModule *self, const BpValue *value, uint32_t *arg) {
  BpByteArray name;
  if (value->type_index == BP_TYPE_INT) {
    if (value->v_int64 < 0 || value->v_int64 >= self->graph->num_args)
      return bp_error_raise(BP_ERROR_INDEX, "input %lld of a graph that has %u",
                            (long long)value->v_int64, self->graph->num_args);
    *arg = (uint32_t)value->v_int64;
    return 0;
  }
  if (bp_value_view_str(value, &name) < 0)
    return -1;
  int64_t found = bp__graph_find_arg(self->graph, name.data, name.size);
  if (found < 0)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "the graph has no input '%.*s'", (int)name.size,
                          name.data);
  *arg = (uint32_t)found;
  return 0;
}

static void give_tensor(BpValue *result, BpTensor *tensor) {
  result->type_index = BP_TYPE_TENSOR;
  result->v_obj = &tensor->header;
}

/* A tensor on the executor's memory (transfer full), which keeps the executor alive. */
static BpTensor *wrap(const ExecutorModule *self, const BpTensorView *view) {
  BpTensor *tensor = bp_tensor_wrap(view, bp_object_release, self->module);
  if (tensor)
    bp_object_retain(self->module);
  return tensor;
}

/* The tensor of an argument (transfer full), which keeps its memory. */
static BpTensor *wrap_arg(const ExecutorModule *self, uint32_t arg) {
  BpTensor *bound = bp__executor_bound(self->executor, arg);
  return bound ? bp_object_retain(bound) : wrap(self, bp__executor_arg(self->executor, arg));
}

static void give_int(BpValue *result, int64_t value) {
  result->type_index = BP_TYPE_INT;
  result->v_int64 = value;
}

/* ---- Functions --------------------------------------------------------------------------- */

/* The module's context, to which a method is bound and which the method keeps alive. */
static ExecutorModule *self_of(void *closure) {
  return ((BpClosure *)closure)->context;
}

static int set_input(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  uint32_t arg;
  (void)result;
  if (check_count("set_input", num_args, 2, 2) < 0 || as_arg(self, &args[0], &arg) < 0)
    return -1;
  const BpTensorView *view = as_view(&args[1]);
  return view ? bp__executor_set_input(self->executor, arg, view) : -1;
}

static int set_input_zero_copy(void *closure, const BpValue *args, int32_t num_args,
                               BpValue *result) {
  ExecutorModule *self = self_of(closure);
  uint32_t arg;
  (void)result;
  if (check_count("set_input_zero_copy", num_args, 2, 2) < 0 || as_arg(self, &args[0], &arg) < 0)
    return -1;
  if (args[1].type_index != BP_TYPE_TENSOR)
    return bp_error_raise(BP_ERROR_TYPE,
                          "set_input_zero_copy takes a tensor object, which it keeps alive, and "
                          "got %s",
                          bp_type_name(args[1].type_index));
  return bp__executor_bind_input(self->executor, arg, (BpTensor *)(void *)args[1].v_obj);
}

static int get_input(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  uint32_t arg;
  if (check_count("get_input", num_args, 1, 1) < 0 || as_arg(self, &args[0], &arg) < 0)
    return -1;
  BpTensor *tensor = wrap_arg(self, arg);
  if (!tensor)
    return -1;
  give_tensor(result, tensor);
  return 0;
}

static int get_num_inputs(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  (void)args;
  give_int(result, self->graph->num_args);
  return check_count("get_num_inputs", num_args, 0, 0);
}

static int get_num_outputs(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  (void)args;
  give_int(result, self->graph->num_heads);
  return check_count("get_num_outputs", num_args, 0, 0);
}

static int run(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  (void)args;
  (void)result;
  return check_count("run", num_args, 0, 0) < 0 ? -1 : bp__executor_run(self->executor);
}

static int get_output(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  if (check_count("get_output", num_args, 1, 2) < 0)
    return -1;
  if (args[0].type_index != BP_TYPE_INT || args[0].v_int64 < 0 ||
      args[0].v_int64 >= self->graph->num_heads)
    return bp_error_raise(BP_ERROR_INDEX, "get_output takes an index below %u",
                          self->graph->num_heads);
  if (bp__executor_sync(self->executor) < 0)
    return -1;
  uint32_t head = (uint32_t)args[0].v_int64;
  BpTensor *output = bp__executor_output(self->executor, head);
  if (num_args == 1) {
    give_tensor(result, bp_object_retain(output));
    return 0;
  }
  const BpTensorView *to = as_view(&args[1]);
  if (!to || bp_tensor_copy(&output->view, to, NULL) < 0 ||
      bp_stream_sync(output->view.device, NULL) < 0)
    return -1;
  return bp_stream_sync(to->device, NULL);
}

/* Loads a parameter; a callback of bp_params_decode. */
static int load_param(void *context, const char *name, BpTensor *tensor) {
  ExecutorModule *self = context;
  int64_t arg = bp__graph_find_arg(self->graph, name, strlen(name));
  if (arg < 0)
    return 0; /* TVM's files may contain parameters that folding removed from the graph */
  return bp__executor_set_input(self->executor, (uint32_t)arg, &tensor->view);
}

static int load_params(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  BpByteArray bytes;
  (void)result;
  if (check_count("load_params", num_args, 1, 1) < 0 || bp_value_view_str(&args[0], &bytes) < 0)
    return -1;
  return bp_params_decode(&bytes, load_param, self);
}

typedef struct Sharing {
  ExecutorModule *self;
  ExecutorModule *other;
} Sharing;

static int share_param(void *context, const char *name, BpTensor *tensor) {
  const Sharing *sharing = context;
  int64_t mine = bp__graph_find_arg(sharing->self->graph, name, strlen(name));
  int64_t theirs = bp__graph_find_arg(sharing->other->graph, name, strlen(name));
  (void)tensor;
  if (mine < 0)
    return 0;
  if (theirs < 0)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "the other executor has no parameter '%s'", name);
  BpTensor *shared = wrap_arg(sharing->other, (uint32_t)theirs);
  if (!shared)
    return -1;
  int status = bp__executor_bind_input(sharing->self->executor, (uint32_t)mine, shared);
  bp_object_release(shared);
  return status;
}

static int share_params(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  BpByteArray bytes;
  (void)result;
  if (check_count("share_params", num_args, 2, 2) < 0 || bp_value_view_str(&args[1], &bytes) < 0)
    return -1;
  BpModule *other = args[0].type_index == BP_TYPE_MODULE ? (BpModule *)(void *)args[0].v_obj : NULL;
  Sharing sharing = {self, other ? find_executor(other) : NULL};
  if (!sharing.other)
    return bp_error_raise(BP_ERROR_TYPE, "share_params takes another graph executor first");
  if (sharing.other == self)
    return 0;
  return bp_params_decode(&bytes, share_param, &sharing);
}

/* ---- Debugging --------------------------------------------------------------------------- */

static int add_node(void *context, const BpCallNode *node, const BpTensorView *outputs,
                    int64_t start_ns, int64_t duration_ns) {
  json_t *entry =
      json_pack("{s:s, s:s, s:I, s:I}", "name", node->name, "function", node->function, "start_ns",
                (json_int_t)start_ns, "duration_ns", (json_int_t)duration_ns);
  (void)outputs;
  if (json_array_append_new(context, entry) < 0)
    return bp_error_raise(BP_ERROR_MEMORY, "profile: no memory for a node");
  return 0;
}

static int profile(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  (void)args;
  if (check_count("profile", num_args, 0, 0) < 0)
    return -1;
  json_t *nodes = json_array();
  if (bp__executor_profile(self->executor, add_node, nodes) < 0) {
    json_decref(nodes);
    return -1;
  }
  char *text = bp__json_take_text(nodes);
  int status = text ? bp_value_make_str(result, text, strlen(text)) : -1;
  free(text);
  return status;
}

/* Finds a node by its index or its name. */
static int as_node(const ExecutorModule *self, const BpValue *value, const BpCallNode **node) {
  const BpCallGraph *graph = self->graph;
  BpByteArray name;
  if (value->type_index == BP_TYPE_INT) {
    if (value->v_int64 < 0 || value->v_int64 >= graph->num_nodes)
      return bp_error_raise(BP_ERROR_INDEX, "node %lld of a graph that has %u",
                            (long long)value->v_int64, graph->num_nodes);
    *node = &graph->nodes[value->v_int64];
    return 0;
  }
  if (bp_value_view_str(value, &name) < 0)
    return -1;
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    if (strlen(graph->nodes[i].name) == name.size &&
        memcmp(graph->nodes[i].name, name.data, name.size) == 0) {
      *node = &graph->nodes[i];
      return 0;
    }
  return bp_error_raise(BP_ERROR_NOT_FOUND, "the graph has no node '%.*s'", (int)name.size,
                        name.data);
}

/* Runs the graph up to a node, and copies the node's output. */
typedef struct Probe {
  const BpCallNode *node;
  const BpTensorView *to;
  int found; /* whether the node has run */
} Probe;

static int probe_node(void *context, const BpCallNode *node, const BpTensorView *outputs,
                      int64_t start_ns, int64_t duration_ns) {
  Probe *probe = context;
  (void)start_ns;
  (void)duration_ns;
  if (node != probe->node || node->num_outputs == 0)
    return 0;
  probe->found = 1;
  return bp_tensor_copy(outputs, probe->to, NULL) < 0 ||
                 bp_stream_sync(outputs->device, NULL) < 0 ||
                 bp_stream_sync(probe->to->device, NULL) < 0
             ? -1
             : 1;
}

static int debug_get_output(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  ExecutorModule *self = self_of(closure);
  Probe probe = {.found = 0};
  (void)result;
  if (check_count("debug_get_output", num_args, 2, 2) < 0 ||
      as_node(self, &args[0], &probe.node) < 0 || !(probe.to = as_view(&args[1])) ||
      bp__executor_profile(self->executor, probe_node, &probe) < 0)
    return -1;
  return probe.found
             ? 0
             : bp_error_raise(BP_ERROR_VALUE, "node '%s' is no operator that computes something",
                              probe.node->name);
}

static const struct {
  const char *name;
  BpPackedCall call;
} methods[] = {
    {"set_input", set_input},
    {"set_input_zero_copy", set_input_zero_copy},
    {"get_input", get_input},
    {"get_num_inputs", get_num_inputs},
    {"run", run},
    {"get_output", get_output},
    {"get_num_outputs", get_num_outputs},
    {"load_params", load_params},
    {"share_params", share_params},
    /* Methods that only the debug executor has. */
    {"profile", profile},
    {"debug_get_output", debug_get_output},
};
#define NUM_DEBUG_METHODS (sizeof(methods) / sizeof(methods[0]))
#define NUM_METHODS       (NUM_DEBUG_METHODS - 2)

/* ---- The module -------------------------------------------------------------------------- */

static size_t num_methods(const ExecutorModule *self) {
  return self->is_debug ? NUM_DEBUG_METHODS : NUM_METHODS;
}

static int get_function(void *context, const char *name, BpFunction **function) {
  ExecutorModule *self = context;
  *function = NULL;
  for (size_t i = 0; i < num_methods(self); i++) {
    if (strcmp(methods[i].name, name) != 0)
      continue;
    *function = bp_module_function_create(self->module, methods[i].call, self, NULL);
    return *function ? 0 : -1;
  }
  return 0;
}

static int visit_functions(void *context,
                           int32_t (*visit)(void *visitor, const char *name, const char *signature),
                           void *visitor) {
  for (size_t i = 0; i < num_methods(context); i++)
    if (visit(visitor, methods[i].name, NULL))
      break;
  return 0;
}

static int get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE;
  return 0;
}

#define EXECUTOR_API(name)                                                                         \
  {                                                                                                \
    .struct_size = sizeof(BpModuleApi), .kind = name, .get_function = get_function,                \
    .get_property = get_property, .visit_functions = visit_functions, .destroy = destroy           \
  }

static const BpModuleApi api = EXECUTOR_API("graph_executor");
static const BpModuleApi debug_api = EXECUTOR_API("graph_executor_debug");

static int build(ExecutorModule *self, const char *graph_json, BpModule *code,
                 const BpDevice *devices, size_t num_devices) {
  self->code = bp_object_retain(code);
  if (num_devices < 1)
    return bp_error_raise(BP_ERROR_VALUE, "a graph executor needs a device");
  self->graph = bp__graph_parse(graph_json);
  if (!self->graph)
    return -1;
  self->params = calloc((size_t)self->graph->num_args + 1, sizeof(*self->params));
  if (!self->params)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph executor");
  BpExecutorPlan plan = {self->graph, self->code, self->params, {{0}}};
  if (bp__places_take(&self->graph->places, devices, num_devices, plan.devices) < 0 ||
      bp__executor_take_linked(&plan, self->params) < 0)
    return -1;
  self->executor = bp__executor_create(&plan);
  return self->executor ? 0 : -1;
}

BpModule *bp__graph_executor_create(const char *graph_json, BpModule *code, const BpDevice *devices,
                                    size_t num_devices, int is_debug) {
  ExecutorModule *self = calloc(1, sizeof(*self));
  if (!self) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph executor");
    return NULL;
  }
  self->is_debug = is_debug;
  if (build(self, graph_json, code, devices, num_devices) < 0) {
    destroy(self);
    return NULL;
  }
  BpModule *module = bp_module_create(is_debug ? &debug_api : &api, self);
  if (module)
    self->module = module;
  return module;
}

BpModule *bp_graph_executor_create(const char *graph_json, BpModule *code, const BpDevice *devices,
                                   size_t num_devices) {
  if (!BP_NOT_NULL(graph_json) || !BP_NOT_NULL(code) || !BP_NOT_NULL(devices))
    return NULL;
  return bp__graph_executor_create(graph_json, code, devices, num_devices, 0);
}

int bp__graph_executor_load(BpModule *executor, const char *name, BpTensor *tensor) {
  return load_param(find_executor(executor), name, tensor);
}

/* ---- Global functions -------------------------------------------------------------------- */

int bp__graph_read_devices(const BpValue *args, int32_t num_args, BpDevice *devices,
                           size_t *num_devices) {
  if (num_args < 1 || num_args > BP_PLACES_MAX)
    return bp_error_raise(BP_ERROR_TYPE, "a graph executor takes 1 to %d devices, not %d",
                          BP_PLACES_MAX, num_args);
  for (int32_t i = 0; i < num_args; i++) {
    if (args[i].type_index != BP_TYPE_DEVICE)
      return bp_error_raise(BP_ERROR_TYPE, "a device is needed, and a value of type %s was given",
                            bp_type_name(args[i].type_index));
    devices[i] = args[i].v_device;
  }
  *num_devices = (size_t)num_args;
  return 0;
}

static int create_executor(const BpValue *args, int32_t num_args, int is_debug, BpValue *result) {
  BpByteArray json;
  BpDevice devices[BP_PLACES_MAX];
  size_t num_devices;
  if (num_args < 3 || args[1].type_index != BP_TYPE_MODULE)
    return bp_error_raise(BP_ERROR_TYPE,
                          "graph_executor.create takes graph JSON, a module and devices");
  if (bp_value_view_str(&args[0], &json) < 0 ||
      bp__graph_read_devices(args + 2, num_args - 2, devices, &num_devices) < 0)
    return -1;
  char *text = strndup(json.data, json.size);
  if (!text)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the graph's text");
  BpModule *module = bp__graph_executor_create(text, (BpModule *)(void *)args[1].v_obj, devices,
                                               num_devices, is_debug);
  free(text);
  if (!module)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)module};
  return 0;
}

static int create(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)function;
  return create_executor(args, num_args, 0, result);
}

static int create_debug(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)function;
  return create_executor(args, num_args, 1, result);
}

int bp__graph_register(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  int status = function ? bp_registry_set(name, function, 1) : -1;
  bp_object_release(function);
  return status;
}

int bp__executor_register(void) {
  if (bp__graph_register("graph_executor.create", create) < 0)
    return -1;
  return bp__graph_register("graph_executor_debug.create", create_debug);
}
