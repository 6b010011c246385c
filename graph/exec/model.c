/* SPDX-License-Identifier: Apache-2.0 */
/* Models and their contexts: implements backplane/graph/model.h with the executor of the model's
 * module. */
#include <backplane/graph/model.h>

#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "graph/exec/graph_module.h"
#include "graph/exec/model.h"
#include "graph/exec/special.h"
#include "graph/io/argument.h"
#include "graph/io/npy.h"
#include "graph/relax/model.h"
#include "graph/relax/module.h"

/* The maximum bytes of names that a message lists: error messages are cut at 1024 bytes. */
#define MAX_LISTED 800

struct BpModel {
  atomic_int references;
  BpModule *module; /* keeps content and code alive */
  const BpModelExecutor *executor;
  void *loaded;            /* model of the executor */
  BpSpecialList *specials; /* specialised models of a program with open extents, else NULL */
  GHashTable *inputs;      /* index + 1 of each input name; the executor owns the names */
};

struct BpModelContext {
  BpModel *model;
  void *running;               /* the executor's context */
  BpSpecialContexts *specials; /* contexts of specialised models, or NULL */
  void *stream;                /* the caller's stream, if the executor does not queue on it */
  bool has_stream;
  bool is_running; /* in a run or profile, whose callbacks may not use the context */
};

/* ---- Making a model ---------------------------------------------------------------------- */

/* Finds the executor of a module, and replaces the module by the one that it runs; NULL with an
 * error. */
static const BpModelExecutor *find_executor(BpModule **module) {
  static const BpModelExecutor *const executors[] = {&bp__relax_executor, &bp__graph_executor};
  for (size_t i = 0; i < sizeof executors / sizeof *executors; i++) {
    BpModule *found = executors[i]->find(*module);
    if (found) {
      *module = found;
      return executors[i];
    }
  }
  bp_error_raise(
      BP_ERROR_TYPE,
      "this is a module of kind '%s', which holds functions and no model: `backplane inspect "
      "module` lists them. A model is of kind " BP_GRAPH_KIND
      ", which `backplane compile` makes, or, as TVM makes it, of kind " BP_RELAX_EXECUTABLE_KIND
      " or " BP_FACTORY_KIND
      "; to a library of TVM 0.19 or older belongs a graph (.json), which relay.build makes "
      "for the executor \"graph\" and not for \"aot\"",
      bp_module_kind(*module));
  return NULL;
}

int bp_model_select_devices(BpModule *module, const char *preferences, BpDevice *devices,
                            size_t capacity, size_t *num_devices, char **report) {
  if (report)
    *report = NULL;
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(devices) || !BP_NOT_NULL(num_devices) ||
      bp_graph_initialize() < 0)
    return -1;
  if (!capacity)
    return bp_error_raise(BP_ERROR_VALUE, "a model runs on at least 1 device, and there is room "
                                          "for 0; pass an array of BP_MODEL_MAX_DEVICES");
  const BpModelExecutor *executor = find_executor(&module);
  if (!executor)
    return -1;
  if (executor->select_devices(module, preferences, devices, capacity, num_devices, report) == 0)
    return 0;
  if (report) {
    bp_str_free(*report);
    *report = NULL;
  }
  return -1;
}

/* Whether the model can be specialised: an input is open, and none is a list. */
static bool has_open_inputs(const BpModel *model) {
  uint32_t count;
  const BpModelTensorInfo *infos = model->executor->infos(model->loaded, BP_TENSOR_INPUT, &count);
  bool is_open = false, has_list = false;
  for (uint32_t i = 0; i < count; i++) {
    has_list |= infos[i].kind != BP_MODEL_TENSOR;
    for (int32_t d = 0; d < infos[i].ndim; d++)
      is_open |= infos[i].shape[d] < 0;
  }
  return is_open && !has_list;
}

/* Indexes the inputs by name: callers name an input at each run, and a model may have thousands. */
static void index_inputs(BpModel *model) {
  uint32_t count;
  const BpModelTensorInfo *infos = model->executor->infos(model->loaded, BP_TENSOR_INPUT, &count);
  model->inputs = g_hash_table_new(g_str_hash, g_str_equal);
  for (uint32_t i = count; i > 0; i--) /* the first of several inputs with one name is found */
    g_hash_table_replace(model->inputs, (char *)(uintptr_t)infos[i - 1].name, GUINT_TO_POINTER(i));
}

/* Loads the module; a program with open extents gets a list of specialised models. */
static int load(BpModel *model, const BpDevice *devices, size_t num_devices) {
  model->loaded = model->executor->create(model->module, devices, num_devices);
  if (!model->loaded)
    return -1;
  index_inputs(model);
  if (model->executor != &bp__relax_executor || !has_open_inputs(model))
    return 0;
  model->specials = bp__special_list_create();
  return model->specials ? 0 : -1;
}

BpModel *bp_model_create(BpModule *module, const BpDevice *devices, size_t num_devices) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(devices) || bp_graph_initialize() < 0)
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
  model->executor = find_executor(&module);
  model->module = bp_object_retain(module);
  if (model->executor && load(model, devices, num_devices) == 0)
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
  bp__special_list_free(model->specials);
  g_clear_pointer(&model->inputs, g_hash_table_unref);
  if (model->loaded)
    model->executor->free(model->loaded);
  bp_object_release(model->module);
  free(model);
}

/* ---- Facts ------------------------------------------------------------------------------- */

int bp_model_visit_tensors(BpModule *module, BpTensorVisit visit, void *visitor) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(visit) || bp_graph_initialize() < 0)
    return -1;
  const BpModelExecutor *executor = find_executor(&module);
  return executor ? executor->visit_tensors(module, visit, visitor) : -1;
}

static int32_t num_infos(const BpModel *model, int32_t role) {
  uint32_t count;
  if (!BP_NOT_NULL(model))
    return -1;
  model->executor->infos(model->loaded, role, &count);
  return (int32_t)count;
}

static const BpModelTensorInfo *get_info(const BpModel *model, int32_t role, int32_t index) {
  uint32_t count;
  if (!BP_NOT_NULL(model))
    return NULL;
  const BpModelTensorInfo *infos = model->executor->infos(model->loaded, role, &count);
  if (index >= 0 && (uint32_t)index < count)
    return &infos[index];
  bp_error_raise(BP_ERROR_INDEX, "%s %d of a model that has %u",
                 role == BP_TENSOR_INPUT ? "input" : "output", index, count);
  return NULL;
}

int32_t bp_model_num_inputs(const BpModel *model) {
  return num_infos(model, BP_TENSOR_INPUT);
}

const BpModelTensorInfo *bp_model_input_info(const BpModel *model, int32_t index) {
  return get_info(model, BP_TENSOR_INPUT, index);
}

int32_t bp_model_num_outputs(const BpModel *model) {
  return num_infos(model, BP_TENSOR_OUTPUT);
}

const BpModelTensorInfo *bp_model_output_info(const BpModel *model, int32_t index) {
  return get_info(model, BP_TENSOR_OUTPUT, index);
}

const BpDevice *bp_model_devices(const BpModel *model, size_t *num_devices) {
  if (!BP_NOT_NULL(model) || !BP_NOT_NULL(num_devices))
    return NULL;
  return model->executor->devices(model->loaded, num_devices);
}

int32_t bp_model_num_targets(const BpModel *model) {
  int32_t count = 0;
  if (!BP_NOT_NULL(model))
    return -1;
  while (bp_model_target(model, count))
    count++;
  return count;
}

const char *bp_model_target(const BpModel *model, int32_t index) {
  if (!BP_NOT_NULL(model) || index < 0 || !model->executor->target)
    return NULL;
  return model->executor->target(model->loaded, index);
}

void bp_model_memory(const BpModel *model, uint64_t *parameters, uint64_t *planned) {
  if (BP_NOT_NULL(model) && BP_NOT_NULL(parameters) && BP_NOT_NULL(planned))
    model->executor->memory(model->loaded, parameters, planned);
}

const char *bp_model_planned_expression(const BpModel *model, const char **likely) {
  const char *extents = NULL, *expression = NULL;
  if (BP_NOT_NULL(model) && model->executor->storage)
    expression = model->executor->storage(model->loaded, &extents);
  if (likely)
    *likely = expression ? extents : NULL;
  return expression;
}

char *bp_model_graph_json(const BpModel *model) {
  if (!BP_NOT_NULL(model))
    return NULL;
  if (!model->executor->graph_json) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "a Relax executable has no graph to show");
    return NULL;
  }
  char *json = strdup(model->executor->graph_json(model->loaded));
  if (!json)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the graph's text");
  return json;
}

const BpRelaxModel *bp__model_open_program(const BpModel *model, BpSpecialList **list) {
  *list = model->specials;
  return model->specials ? model->loaded : NULL;
}

int bp_model_visit_specialized(const BpModel *model, BpSpecializedVisit visit, void *visitor) {
  if (!BP_NOT_NULL(model) || !BP_NOT_NULL(visit))
    return -1;
  return model->specials ? bp__special_list_visit(model->specials, visit, visitor) : 0;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

BpModelContext *bp_model_context_create(BpModel *model) {
  if (!BP_NOT_NULL(model))
    return NULL;
  BpModelContext *context = calloc(1, sizeof(*context));
  if (!context) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
    return NULL;
  }
  context->model = bp_model_retain(model);
  context->running = model->executor->context_create(model->loaded);
  if (context->running && model->specials)
    context->specials = bp__special_contexts_create(model->specials, context->running);
  if (context->running && (context->specials || !model->specials))
    return context;
  bp_model_context_free(context);
  return NULL;
}

/* Checks that no callback of a run, such as the visitor of a profile, uses the run's context. */
static int check_idle(const BpModelContext *context) {
  if (!BP_NOT_NULL(context))
    return -1;
  return context->is_running
             ? bp_error_raise(
                   BP_ERROR_NOT_READY,
                   "the context is in the middle of a run; use it after the run, or make "
                   "another context of the model")
             : 0;
}

/* ---- Streams */

static BpDevice first_device(const BpModel *model) {
  size_t num_devices;
  return model->executor->devices(model->loaded, &num_devices)[0];
}

/* Makes the default stream, which an executor uses for the context, wait for the caller's
 * stream. */
static int follow_stream(const BpModelContext *context) {
  return context->has_stream
             ? bp_stream_sync_from_to(first_device(context->model), context->stream, NULL)
             : 0;
}

/* Makes the caller's stream wait for the default stream, whether or not the work succeeded. */
static int lead_stream(const BpModelContext *context, int status) {
  if (!context->has_stream)
    return status;
  BpError *error = bp_error_take();
  if (bp_stream_sync_from_to(first_device(context->model), NULL, context->stream) < 0)
    status = -1;
  if (error) /* the first error says more */
    bp_error_put(error);
  return status;
}

int bp_model_set_stream(BpModelContext *context, void *stream) {
  if (check_idle(context) < 0)
    return -1;
  const BpModelExecutor *executor = context->model->executor;
  if (executor->set_stream)
    return executor->set_stream(context->running, stream);
  if (follow_stream(context) < 0 ||
      bp_stream_sync_from_to(first_device(context->model), NULL, stream) < 0)
    return -1;
  context->stream = stream;
  context->has_stream = true;
  return 0;
}

/* ---- Life, inputs and runs */

void bp_model_context_free(BpModelContext *context) {
  if (!context)
    return;
  if (context->running && follow_stream(context) < 0)
    bp_error_clear();
  bp__special_contexts_free(context->specials);
  if (context->running)
    context->model->executor->context_free(context->running);
  bp_model_release(context->model);
  free(context);
}

/* Formats the names of the inputs, without the last ones if there are too many (transfer full,
 * g_free). */
static char *list_inputs(const BpModel *model) {
  GString *names = g_string_new(NULL);
  for (int32_t i = 0; i < bp_model_num_inputs(model) && names->len < MAX_LISTED; i++)
    g_string_append_printf(names, "%s%s", i ? ", " : "", bp_model_input_info(model, i)->name);
  if (names->len > MAX_LISTED) {
    g_string_truncate(names, MAX_LISTED);
    g_string_append(names, "...");
  }
  return g_string_free(names, FALSE);
}

static int find_input(const BpModel *model, const char *name, uint32_t *index) {
  uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(model->inputs, name));
  if (found) {
    *index = found - 1;
    return 0;
  }
  char *names = list_inputs(model);
  bp_error_raise(BP_ERROR_NOT_FOUND, "the model has no input '%s'; it has: %s", name, names);
  g_free(names);
  return -1;
}

static int find_output(const BpModel *model, const char *name, uint32_t *index) {
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++)
    if (strcmp(bp_model_output_info(model, i)->name, name) == 0) {
      *index = (uint32_t)i;
      return 0;
    }
  return bp_error_raise(BP_ERROR_NOT_FOUND, "the model has no output '%s'", name);
}

static const BpModelTensorInfo *info_of(const BpModel *model, int32_t role, uint32_t index) {
  uint32_t count;
  return &model->executor->infos(model->loaded, role, &count)[index];
}

/* Fails unless an input or output is a tensor, or unless it is a list; `advice` names the function
 * for the other kind. */
static int check_kind(const char *role, const BpModelTensorInfo *info, bool is_list,
                      const char *advice) {
  if ((info->kind != BP_MODEL_TENSOR) == is_list)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "%s '%s' is %s; %s", role, info->name,
                        is_list                          ? "a tensor"
                        : info->kind & BP_MODEL_OPTIONAL ? "an optional"
                                                         : "a sequence",
                        advice);
}

static int check_input(const BpModel *model, uint32_t index, bool is_list) {
  return check_kind("input", info_of(model, BP_TENSOR_INPUT, index), is_list,
                    is_list ? "set it with bp_model_set_input"
                            : "set it with bp_model_set_input_list");
}

static int check_output(const BpModel *model, int32_t index, bool is_list) {
  const BpModelTensorInfo *info = bp_model_output_info(model, index);
  return info ? check_kind("output", info, is_list,
                           is_list ? "get it with bp_model_get_output"
                                   : "get it with bp_model_get_output_item")
              : -1;
}

int bp_model_set_input(BpModelContext *context, const char *name, const BpTensorView *value) {
  uint32_t input;
  if (check_idle(context) < 0 || !BP_NOT_NULL(name) || !BP_NOT_NULL(value) ||
      find_input(context->model, name, &input) < 0 || check_input(context->model, input, false) < 0)
    return -1;
  if (context->specials)
    bp__special_contexts_change(context->specials);
  if (follow_stream(context) < 0)
    return -1;
  return lead_stream(context, context->model->executor->set_input(context->running, input, value));
}

/* Checks the tensors for an input that is a list. */
static int check_list(const BpModelTensorInfo *info, const BpTensorView *const *values,
                      int64_t count) {
  bool is_optional = (info->kind & BP_MODEL_OPTIONAL) != 0;
  if (count == BP_MODEL_NO_VALUE && !is_optional)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is a sequence, which may be empty, but not without a value",
                          info->name);
  if (count < 0 && count != BP_MODEL_NO_VALUE)
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' is %s, which cannot have %" PRId64 " tensors",
                          info->name, is_optional ? "an optional" : "a sequence", count);
  if (info->kind == BP_MODEL_OPTIONAL && count != BP_MODEL_NO_VALUE && count != 1)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is an optional tensor: it takes one or none, "
                          "not %" PRId64,
                          info->name, count);
  if (count > 0 && !BP_NOT_NULL(values))
    return -1;
  for (int64_t i = 0; i < count; i++)
    if (!BP_NOT_NULL(values[i]))
      return bp_error_add_context("tensor %" PRId64 " of input '%s'", i, info->name);
  return 0;
}

int bp_model_set_input_list(BpModelContext *context, const char *name,
                            const BpTensorView *const *values, int64_t count) {
  uint32_t input;
  if (check_idle(context) < 0 || !BP_NOT_NULL(name) ||
      find_input(context->model, name, &input) < 0 ||
      check_input(context->model, input, true) < 0 ||
      check_list(info_of(context->model, BP_TENSOR_INPUT, input), values, count) < 0 ||
      follow_stream(context) < 0)
    return -1;
  return lead_stream(
      context, context->model->executor->set_input_list(context->running, input, values, count));
}

int bp_model_bind_input(BpModelContext *context, const char *name, BpTensor *value) {
  uint32_t input;
  if (check_idle(context) < 0 || !BP_NOT_NULL(name) || !BP_NOT_NULL(value) ||
      find_input(context->model, name, &input) < 0 || check_input(context->model, input, false) < 0)
    return -1;
  if (context->specials)
    bp__special_contexts_change(context->specials);
  return context->model->executor->bind_input(context->running, input, value);
}

int bp_model_bind_cache(BpModelContext *context, const char *input, const char *output,
                        BpTensor *memory, int64_t length) {
  uint32_t from = 0, to = 0;
  if (check_idle(context) < 0 || !BP_NOT_NULL(input) || !BP_NOT_NULL(output) ||
      !BP_NOT_NULL(memory) || find_input(context->model, input, &from) < 0 ||
      find_output(context->model, output, &to) < 0)
    return -1;
  if (context->specials)
    bp__special_contexts_change(context->specials);
  const BpModelExecutor *executor = context->model->executor;
  if (executor->bind_cache)
    return executor->bind_cache(context->running, from, to, memory, length);
  return bp_error_raise(
      BP_ERROR_VALUE,
      "input '%s': the model was compiled for one shape of it, and a cache grows; "
      "compile the model with the extent left open",
      input);
}

/* Finds an input to which a cache can be bound. */
static int find_cached(const BpModelContext *context, const char *input, uint32_t *index) {
  if (!BP_NOT_NULL(context) || !BP_NOT_NULL(input) || find_input(context->model, input, index) < 0)
    return -1;
  return context->model->executor->bind_cache
             ? 0
             : bp_error_raise(BP_ERROR_VALUE, "no cache is bound to input '%s'", input);
}

int64_t bp_model_cache_length(BpModelContext *context, const char *input) {
  uint32_t index;
  return find_cached(context, input, &index) < 0
             ? -1
             : context->model->executor->cache_length(context->running, index);
}

int bp_model_set_cache_length(BpModelContext *context, const char *input, int64_t length) {
  uint32_t index;
  return check_idle(context) < 0 || find_cached(context, input, &index) < 0
             ? -1
             : context->model->executor->set_cache_length(context->running, index, length);
}

int bp_model_cancel(BpModelContext *context) {
  if (!BP_NOT_NULL(context))
    return -1;
  if (context->model->executor->cancel)
    context->model->executor->cancel(context->running);
  return 0;
}

/* The executor's context that runs the current inputs; NULL with an error. */
static void *choose(BpModelContext *context) {
  return context->specials ? bp__special_contexts_choose(context->specials) : context->running;
}

/* Runs the context with `visit`, or NULL: a run that is not profiled. */
static int run(BpModelContext *context, BpModelCallVisit visit, void *visitor) {
  const BpModelExecutor *executor = context->model->executor;
  if (follow_stream(context) < 0)
    return -1;
  void *running = choose(context);
  context->is_running = true;
  int status = !running ? -1
               : visit  ? executor->profile(running, visit, visitor)
                        : executor->run(running);
  context->is_running = false;
  return lead_stream(context, status);
}

int bp_model_run(BpModelContext *context) {
  return check_idle(context) < 0 ? -1 : run(context, NULL, NULL);
}

/* The executor's context that ran last. */
static void *chosen(const BpModelContext *context) {
  return context->specials ? bp__special_contexts_chosen(context->specials) : context->running;
}

BpTensor *bp_model_get_queued_output(BpModelContext *context, int32_t index) {
  if (!BP_NOT_NULL(context) || check_output(context->model, index, false) < 0)
    return NULL;
  return context->model->executor->output(chosen(context), (uint32_t)index);
}

BpTensor *bp_model_get_output(BpModelContext *context, int32_t index) {
  BpTensor *output = bp_model_get_queued_output(context, index);
  return output && context->model->executor->wait(chosen(context)) == 0 ? output : NULL;
}

int bp_model_get_output_length(BpModelContext *context, int32_t index, int64_t *length) {
  if (!BP_NOT_NULL(context) || !BP_NOT_NULL(length) ||
      check_output(context->model, index, true) < 0)
    return -1;
  const BpModelExecutor *executor = context->model->executor;
  void *running = chosen(context);
  return executor->output_length(running, (uint32_t)index, length) == 0 ? executor->wait(running)
                                                                        : -1;
}

BpTensor *bp_model_get_output_item(BpModelContext *context, int32_t index, int64_t position) {
  int64_t length;
  if (bp_model_get_output_length(context, index, &length) < 0)
    return NULL;
  if (position < 0 || position >= length) {
    bp_error_raise(BP_ERROR_INDEX, "tensor %" PRId64 " of output '%s', which has %" PRId64,
                   position, bp_model_output_info(context->model, index)->name,
                   length < 0 ? 0 : length);
    return NULL;
  }
  return context->model->executor->output_item(chosen(context), (uint32_t)index, position);
}

/* ---- Profiling --------------------------------------------------------------------------- */

typedef struct Profile {
  const char *dump_dir;
  int (*visit)(void *visitor, const char *node, const char *function, int64_t start_ns,
               int64_t duration_ns);
  void *visitor;
} Profile;

static int dump_output(const char *dir, const BpModelCall *call, uint32_t index) {
  char *file = bp_npy_file_name(call->name, index);
  if (!file)
    return -1;
  size_t size = strlen(dir) + strlen(file) + 2;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%s/%s", dir, file);
  int status = path ? bp__npy_replace(path, &call->outputs[index])
                    : bp_error_raise(BP_ERROR_MEMORY, "no memory for a file name");
  free(path);
  bp_str_free(file);
  return status;
}

static int dump_outputs(const char *dir, const BpModelCall *call) {
  for (uint32_t i = 0; i < call->num_outputs; i++)
    if (dump_output(dir, call, i) < 0)
      return -1;
  return 0;
}

static int profile_call(void *context, const BpModelCall *call) {
  const Profile *profile = context;
  if (profile->dump_dir && dump_outputs(profile->dump_dir, call) < 0)
    return -1;
  return profile->visit(profile->visitor, call->name, call->function, call->start_ns,
                        call->duration_ns) != 0;
}

int bp_model_profile(BpModelContext *context, const char *dump_dir,
                     int (*visit)(void *visitor, const char *node, const char *function,
                                  int64_t start_ns, int64_t duration_ns),
                     void *visitor) {
  Profile profile = {dump_dir, visit, visitor};
  if (dump_dir && !*dump_dir)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the folder of a profile is \"\"; the current one is \".\"");
  return check_idle(context) < 0 || !BP_NOT_NULL(visit) ? -1 : run(context, profile_call, &profile);
}
