/* SPDX-License-Identifier: Apache-2.0 */
/* The graph executor behind packed functions. */
#include <backplane/graph/executor.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/executor.h"
#include "graph/exec/graph_module.h"
#include "graph/relax/module.h"

typedef struct ExecutorModule {
  BpModule *module; /* this one; it owns the context, so no reference is held */
  BpGraph *graph;
  BpModule *code;
  BpTensor **no_params; /* all NULL: every argument is an input here */
  BpExecutor *executor;
} ExecutorModule;

static const BpModuleApi api;

static void destroy(void *context) {
  ExecutorModule *self = context;
  if (!self)
    return;
  bp__executor_free(self->executor);
  bp__graph_free(self->graph);
  bp_object_release(self->code);
  free(self->no_params);
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
  if (value->type_index == BP_TYPE_TENSOR_VIEW)
    return value->v_view;
  if (value->type_index == BP_TYPE_TENSOR)
    return &((BpTensor *)(void *)value->v_obj)->view;
  bp_error_raise(BP_ERROR_TYPE, "a tensor is needed, and a value of type %s was given",
                 bp_type_name(value->type_index));
  return NULL;
}

static int64_t find_arg(const BpGraph *graph, const char *name, size_t size) {
  for (uint32_t i = 0; i < graph->num_args; i++) {
    const char *have = graph->nodes[graph->arg_nodes[i]].name;
    if (strlen(have) == size && memcmp(have, name, size) == 0)
      return i;
  }
  return -1;
}

/* An input by its name or its index. */
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
  int64_t found = find_arg(self->graph, name.data, name.size);
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

/* A tensor over the executor's memory (transfer full), which it keeps alive. */
static BpTensor *wrap(const ExecutorModule *self, const BpTensorView *view) {
  BpTensor *tensor = bp_tensor_wrap(view, bp_object_release, self->module);
  if (tensor)
    bp_object_retain(self->module);
  return tensor;
}

static void give_int(BpValue *result, int64_t value) {
  result->type_index = BP_TYPE_INT;
  result->v_int64 = value;
}

/* ---- Functions --------------------------------------------------------------------------- */

typedef int (*Method)(ExecutorModule *self, const BpValue *args, int32_t num_args, BpValue *result);

static int set_input(ExecutorModule *self, const BpValue *args, int32_t num_args, BpValue *result) {
  uint32_t arg;
  (void)result;
  if (check_count("set_input", num_args, 2, 2) < 0 || as_arg(self, &args[0], &arg) < 0)
    return -1;
  const BpTensorView *view = as_view(&args[1]);
  return view ? bp__executor_set_input(self->executor, arg, view) : -1;
}

static int set_input_zero_copy(ExecutorModule *self, const BpValue *args, int32_t num_args,
                               BpValue *result) {
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

static int get_input(ExecutorModule *self, const BpValue *args, int32_t num_args, BpValue *result) {
  uint32_t arg;
  if (check_count("get_input", num_args, 1, 1) < 0 || as_arg(self, &args[0], &arg) < 0)
    return -1;
  BpTensor *tensor = wrap(self, bp__executor_arg(self->executor, arg));
  if (!tensor)
    return -1;
  give_tensor(result, tensor);
  return 0;
}

static int get_num_inputs(ExecutorModule *self, const BpValue *args, int32_t num_args,
                          BpValue *result) {
  (void)args;
  give_int(result, self->graph->num_args);
  return check_count("get_num_inputs", num_args, 0, 0);
}

static int get_num_outputs(ExecutorModule *self, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  (void)args;
  give_int(result, self->graph->num_heads);
  return check_count("get_num_outputs", num_args, 0, 0);
}

static int run(ExecutorModule *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)args;
  (void)result;
  return check_count("run", num_args, 0, 0) < 0 ? -1 : bp__executor_run(self->executor);
}

static int get_output(ExecutorModule *self, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  if (check_count("get_output", num_args, 1, 2) < 0)
    return -1;
  if (args[0].type_index != BP_TYPE_INT || args[0].v_int64 < 0 ||
      args[0].v_int64 >= self->graph->num_heads)
    return bp_error_raise(BP_ERROR_INDEX, "get_output takes an index below %u",
                          self->graph->num_heads);
  if (bp__executor_sync(self->executor) < 0)
    return -1;
  BpTensor *output = bp__executor_output(self->executor, (uint32_t)args[0].v_int64);
  if (num_args == 1) {
    BpTensor *tensor = wrap(self, &output->view);
    if (!tensor)
      return -1;
    give_tensor(result, tensor);
    return 0;
  }
  const BpTensorView *to = as_view(&args[1]);
  if (!to || bp_tensor_copy(&output->view, to, NULL) < 0 ||
      bp_stream_sync(output->view.device, NULL) < 0)
    return -1;
  return bp_stream_sync(to->device, NULL);
}

static int load_param(void *context, const char *name, BpTensor *tensor) {
  ExecutorModule *self = context;
  int64_t arg = find_arg(self->graph, name, strlen(name));
  if (arg < 0)
    return 0; /* TVM's files may name parameters that folding removed from the graph */
  return bp__executor_set_input(self->executor, (uint32_t)arg, &tensor->view);
}

static int load_params(ExecutorModule *self, const BpValue *args, int32_t num_args,
                       BpValue *result) {
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
  int64_t mine = find_arg(sharing->self->graph, name, strlen(name));
  int64_t theirs = find_arg(sharing->other->graph, name, strlen(name));
  (void)tensor;
  if (mine < 0)
    return 0;
  if (theirs < 0)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "the other executor has no parameter '%s'", name);
  BpTensor *shared =
      wrap(sharing->other, bp__executor_arg(sharing->other->executor, (uint32_t)theirs));
  if (!shared)
    return -1;
  int status = bp__executor_bind_input(sharing->self->executor, (uint32_t)mine, shared);
  bp_object_release(shared);
  return status;
}

static int share_params(ExecutorModule *self, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  BpByteArray bytes;
  (void)result;
  if (check_count("share_params", num_args, 2, 2) < 0 || bp_value_view_str(&args[1], &bytes) < 0)
    return -1;
  BpModule *other = args[0].type_index == BP_TYPE_MODULE ? (BpModule *)(void *)args[0].v_obj : NULL;
  Sharing sharing = {self, other ? bp_module_get_context(other, &api) : NULL};
  if (!sharing.other)
    return bp_error_raise(BP_ERROR_TYPE, "share_params takes another graph executor first");
  if (sharing.other == self)
    return 0;
  return bp_params_decode(&bytes, share_param, &sharing);
}

static const struct {
  const char *name;
  Method method;
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
};
#define NUM_METHODS (sizeof(methods) / sizeof(methods[0]))

/* ---- The module -------------------------------------------------------------------------- */

typedef struct Bound {
  ExecutorModule *self; /* outlives the function, which a module made keeps alive */
  Method method;
} Bound;

static int call_method(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  const Bound *bound = ((BpClosure *)function)->context;
  return bound->method(bound->self, args, num_args, result);
}

static int get_function(void *context, const char *name, BpFunction **function) {
  *function = NULL;
  for (size_t i = 0; i < NUM_METHODS; i++) {
    if (strcmp(methods[i].name, name) != 0)
      continue;
    Bound *bound = malloc(sizeof(*bound));
    if (!bound)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for a function");
    *bound = (Bound){context, methods[i].method};
    *function =
        bp_module_function_create(((ExecutorModule *)context)->module, call_method, bound, free);
    return *function ? 0 : -1;
  }
  return 0;
}

static int visit_functions(void *context,
                           int32_t (*visit)(void *visitor, const char *name, const char *signature),
                           void *visitor) {
  (void)context;
  for (size_t i = 0; i < NUM_METHODS; i++)
    if (visit(visitor, methods[i].name, NULL))
      break;
  return 0;
}

static int get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE;
  return 0;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "graph_executor",
    .get_function = get_function,
    .get_property = get_property,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

static int build(ExecutorModule *self, const char *graph_json, BpModule *code, BpDevice device) {
  self->code = bp_object_retain(code);
  self->graph = bp__graph_parse(graph_json);
  if (!self->graph)
    return -1;
  self->no_params = calloc((size_t)self->graph->num_args + 1, sizeof(*self->no_params));
  if (!self->no_params)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph executor");
  const BpExecutorPlan plan = {self->graph, self->code, self->no_params, {device}, 1};
  self->executor = bp__executor_create(&plan);
  return self->executor ? 0 : -1;
}

BpModule *bp_graph_executor_create(const char *graph_json, BpModule *code, BpDevice device) {
  ExecutorModule *self = calloc(1, sizeof(*self));
  if (!self) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph executor");
    return NULL;
  }
  if (build(self, graph_json, code, device) < 0) {
    destroy(self);
    return NULL;
  }
  BpModule *module = bp_module_create(&api, self);
  if (module)
    self->module = module;
  return module;
}

/* ---- Global functions -------------------------------------------------------------------- */

static int create_executor(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray json;
  (void)function;
  if (check_count("create", num_args, 3, 3) < 0 || bp_value_view_str(&args[0], &json) < 0)
    return -1;
  if (args[1].type_index != BP_TYPE_MODULE || args[2].type_index != BP_TYPE_DEVICE)
    return bp_error_raise(BP_ERROR_TYPE,
                          "graph_executor.create takes graph JSON, a module and a device");
  char *text = strndup(json.data, json.size);
  if (!text)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the graph's text");
  BpModule *module =
      bp_graph_executor_create(text, (BpModule *)(void *)args[1].v_obj, args[2].v_device);
  free(text);
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}

static int initialized = -1;

static void initialize(void) {
  BpFunction *create = bp_function_create(create_executor, NULL, NULL);
  if (create && bp_registry_set("graph_executor.create", create, 1) == 0)
    initialized = bp__graph_module_register() < 0 ? -1 : bp__relax_register();
  bp_object_release(create);
}

int bp_graph_initialize(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  if (initialized < 0 && !*bp_error_kind())
    bp_error_raise(BP_ERROR_INTERNAL, "the graph library could not register its functions");
  return initialized;
}
