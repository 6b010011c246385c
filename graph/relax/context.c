/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of Relax executables: the inputs, caches, runs and outputs of a context. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/relax.h>
#include <backplane/object.h>

#include "graph/io/clock.h"
#include "graph/io/overlap.h"
#include "graph/relax/builtin.h"
#include "graph/relax/kept.h"
#include "graph/relax/model.h"
#include "graph/relax/module.h"

/* The inputs and outputs of one run at a time; the model is borrowed. */
typedef struct Context {
  const BpRelaxModel *model;
  BpRelaxWorkspace *workspace;
  BpValue *inputs;          /* values of the inputs; None until they are set */
  bool *copied;             /* whether an input's value is the context's own copy, by input */
  BpValue *outputs;         /* values of the last run's outputs; None before a run */
  BpTensor **memories;      /* cache that is bound to an output, or NULL, by output */
  bool must_check;          /* whether bound tensors may overlap */
  atomic_bool is_cancelled; /* set until the cancelled run has ended */
  atomic_bool *stops;       /* own flag, or the flag of the context that is followed */
} Context;

void bp__relax_context_forget_outputs(void *data) {
  Context *context = data;
  for (uint32_t i = 0; context->outputs && i < context->model->num_outputs; i++)
    bp_value_clear(&context->outputs[i]);
}

static void free_context(void *data) {
  Context *context = data;
  for (uint32_t i = 0; context->inputs && i < context->model->num_inputs; i++)
    bp_value_clear(&context->inputs[i]);
  bp__relax_context_forget_outputs(context);
  for (uint32_t i = 0; context->memories && i < context->model->num_outputs; i++)
    bp_object_release(context->memories[i]);
  free(context->memories);
  bp__relax_workspace_free(context->workspace);
  free(context->inputs);
  free(context->copied);
  free(context->outputs);
  free(context);
}

static void *create_context(void *data) {
  const BpRelaxModel *model = data;
  Context *context = calloc(1, sizeof(*context));
  if (context) {
    context->model = model;
    context->stops = &context->is_cancelled;
    context->inputs = calloc((size_t)model->num_inputs + 1, sizeof(*context->inputs));
    context->copied = calloc((size_t)model->num_inputs + 1, sizeof(*context->copied));
    context->outputs = calloc((size_t)model->num_outputs + 1, sizeof(*context->outputs));
    context->memories = calloc((size_t)model->num_outputs + 1, sizeof(*context->memories));
    context->workspace = bp__relax_workspace_create(model->machine->executable);
    if (context->inputs && context->copied && context->outputs && context->memories &&
        context->workspace) {
      bp__relax_workspace_set_memories(context->workspace, context->memories, model->num_outputs);
      return context;
    }
  }
  if (context)
    free_context(context);
  bp_error_raise(BP_ERROR_MEMORY, "no memory for a context");
  return NULL;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

static int check_type(const BpModelTensorInfo *info, const BpTensorView *value) {
  char wanted[32], given[32];
  if (info->ndim < 0 && !info->dtype.bits) /* the function's code does not describe the argument */
    return 0;
  bp_dtype_format(info->dtype, wanted, sizeof wanted);
  bp_dtype_format(value->dtype, given, sizeof given);
  int is_of_type = memcmp(&info->dtype, &value->dtype, sizeof(info->dtype)) == 0;
  if (!is_of_type && info->ndim < 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is %s, and the value given is %s; convert it to %s",
                          info->name, wanted, given, wanted);
  if (!is_of_type || (info->ndim >= 0 && info->ndim != value->ndim))
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is %s of %d dimensions, and the value given is %s of %d%s%s",
                          info->name, wanted, info->ndim, given, value->ndim,
                          is_of_type ? "" : "; convert it to ", is_of_type ? "" : wanted);
  for (int32_t i = 0; i < info->ndim; i++)
    if (info->shape[i] >= 0 && info->shape[i] != value->shape[i])
      return bp_error_raise(BP_ERROR_VALUE,
                            "dimension %d of input '%s' is %" PRId64
                            ", and that of the value given %" PRId64,
                            i, info->name, info->shape[i], value->shape[i]);
  return 0;
}

static int check_value(const BpModelTensorInfo *info, const BpTensorView *value) {
  if (check_type(info, value) < 0)
    return -1;
  if (!bp_view_is_compact(value))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the value given for input '%s' has strides; copy it to a compact tensor",
                          info->name);
  return 0;
}

/* The append whose past is an input, or NULL. */
static const BpRelaxAppend *find_append(const Context *context, uint32_t input) {
  for (uint32_t i = 0; i < context->model->num_appends; i++)
    if (context->model->appends[i].input == input)
      return &context->model->appends[i];
  return NULL;
}

/* Unbinds the cache of an input when the input gets another value. */
static void unbind_cache(Context *context, uint32_t input) {
  const BpRelaxAppend *append = find_append(context, input);
  if (append) {
    bp_object_release(context->memories[append->output]);
    context->memories[append->output] = NULL;
  }
}

static void take_input(Context *context, uint32_t index, BpObject *value, int32_t type_index,
                       bool is_copied) {
  bp__relax_workspace_forget_views(context->workspace);
  unbind_cache(context, index);
  context->must_check = true;
  bp_value_clear(&context->inputs[index]);
  context->inputs[index] = (BpValue){.type_index = type_index, .v_obj = value};
  context->copied[index] = is_copied;
}

/* The tensor in a value; NULL for a list and for None. */
static BpTensor *tensor_in(const BpValue *value) {
  return value->type_index == BP_TYPE_TENSOR ? (BpTensor *)value->v_obj : NULL;
}

BpTensor *bp__relax_context_input(const void *data, uint32_t index) {
  const Context *context = data;
  return tensor_in(&context->inputs[index]);
}

/* Whether an output of the last run, or the value of another input, shares memory with the value of
 * an input. Such a tensor holds a reference to the value's memory. */
static bool is_read_elsewhere(const Context *context, uint32_t index, const BpTensor *value) {
  const BpRelaxModel *model = context->model;
  if ((uint32_t)__atomic_load_n(&value->header.combined_count, __ATOMIC_ACQUIRE) == 1)
    return false;
  for (uint32_t i = 0; i < model->num_outputs; i++) {
    const BpTensor *output = tensor_in(&context->outputs[i]); /* lists have copies */
    if (output && bp__views_overlap(&output->view, &value->view))
      return true;
  }
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    const BpTensor *other = bp__relax_context_input(context, i);
    if (i != index && other && bp__views_overlap(&other->view, &value->view))
      return true;
  }
  return false;
}

/* The copy of an input's last value that the context made, if it has the shape of the new value and
 * may be overwritten. */
static BpTensor *find_copy(const Context *context, uint32_t index, const BpTensorView *value) {
  BpTensor *copy = context->copied[index] ? tensor_in(&context->inputs[index]) : NULL;
  return copy && copy->view.ndim == value->ndim &&
                 !memcmp(&copy->view.dtype, &value->dtype, sizeof(value->dtype)) &&
                 (value->ndim == 0 || !memcmp(copy->view.shape, value->shape,
                                              (size_t)value->ndim * sizeof(*value->shape))) &&
                 !is_read_elsewhere(context, index, copy)
             ? copy
             : NULL;
}

static int set_input(void *data, uint32_t index, const BpTensorView *value) {
  Context *context = data;
  const BpModelTensorInfo *info = &context->model->inputs[index];
  if (check_value(info, value) < 0)
    return -1;
  BpTensor *copy = find_copy(context, index, value);
  if (copy)
    return bp__relax_copy_into(value, &copy->view) < 0
               ? bp_error_add_context("input '%s'", info->name)
               : 0;
  BpTensor *wrapped = bp_tensor_wrap(value, NULL, NULL);
  copy = wrapped ? bp__relax_copy(wrapped, context->model->machine->devices[0], NULL) : NULL;
  bp_object_release(wrapped);
  if (!copy)
    return bp_error_add_context("input '%s'", info->name);
  take_input(context, index, &copy->header, BP_TYPE_TENSOR, true);
  return 0;
}

/* Copies a tensor of a list to the model's device (transfer full). */
static BpTensor *copy_item(const Context *context, const BpModelTensorInfo *info,
                           const BpTensorView *value) {
  BpTensor *wrapped = check_value(info, value) < 0 ? NULL : bp_tensor_wrap(value, NULL, NULL);
  BpTensor *copy =
      wrapped ? bp__relax_copy(wrapped, context->model->machine->devices[0], NULL) : NULL;
  bp_object_release(wrapped);
  return copy;
}

/* Makes the list of an input: an optional is a list of its value, if it has one. */
static BpArray *make_list(const BpModelTensorInfo *info, const BpValue *items, int64_t count) {
  BpArray *list = bp_array_create(items, count == BP_MODEL_NO_VALUE ? 0 : (size_t)count);
  if (!list || info->kind != (BP_MODEL_OPTIONAL | BP_MODEL_SEQUENCE) || count == BP_MODEL_NO_VALUE)
    return list;
  BpArray *outer =
      bp_array_create(&(BpValue){.type_index = BP_TYPE_ARRAY, .v_obj = &list->header}, 1);
  bp_object_release(list);
  return outer;
}

static int set_input_list(void *data, uint32_t index, const BpTensorView *const *values,
                          int64_t count) {
  Context *context = data;
  const BpModelTensorInfo *info = &context->model->inputs[index];
  BpValue *items = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof(*items));
  BpArray *list = NULL;
  int64_t done = 0;
  if (!items)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for input '%s'", info->name);
  for (; done < count; done++) {
    BpTensor *copy = copy_item(context, info, values[done]);
    if (!copy)
      break;
    items[done] = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &copy->header};
  }
  if (done < count)
    bp_error_add_context("tensor %" PRId64, done);
  else
    list = make_list(info, items, count);
  for (int64_t i = 0; i < done; i++)
    bp_value_clear(&items[i]);
  free(items);
  if (list)
    take_input(context, index, &list->header, BP_TYPE_ARRAY, false);
  return list ? 0 : -1;
}

static int bind_input(void *data, uint32_t index, BpTensor *value) {
  Context *context = data;
  const BpModelTensorInfo *info = &context->model->inputs[index];
  if (check_value(info, &value->view) < 0)
    return -1;
  if (memcmp(&value->view.device, &context->model->machine->devices[0], sizeof(BpDevice)) != 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is bound to memory of the model's device, and the tensor is "
                          "on another; copy it in instead",
                          info->name);
  take_input(context, index, bp_object_retain(value), BP_TYPE_TENSOR, false);
  return 0;
}

void bp__relax_context_forget_inputs(void *data) {
  Context *context = data;
  bp__relax_workspace_forget_views(context->workspace);
  for (uint32_t i = 0; i < context->model->num_inputs; i++) {
    unbind_cache(context, i);
    bp_value_clear(&context->inputs[i]);
    context->copied[i] = false;
  }
}

bool bp__relax_context_has_cache(const void *data) {
  const Context *context = data;
  for (uint32_t i = 0; i < context->model->num_outputs; i++)
    if (context->memories[i])
      return true;
  return false;
}

/* ---- Caches ------------------------------------------------------------------------------ */

static BpTensor *memory_of(const Context *context, const BpRelaxAppend *append) {
  return append ? context->memories[append->output] : NULL;
}

/* The first rows of a cache (transfer full). */
static BpTensor *first_rows(BpTensor *memory, int64_t axis, int64_t length) {
  int64_t shape[BP_RELAX_MAX_NDIM], strides[BP_RELAX_MAX_NDIM];
  uint64_t stride = 1;
  BpTensorView view = memory->view;
  for (int32_t i = view.ndim - 1; i >= 0; i--) {
    shape[i] = i == axis ? length : view.shape[i];
    strides[i] = (int64_t)stride;
    stride *= view.shape[i] > 0 ? (uint64_t)view.shape[i] : 1;
  }
  view.shape = shape;
  view.strides = strides;
  BpTensor *rows = bp_tensor_wrap(&view, bp_object_release, memory);
  if (rows)
    bp_object_retain(memory);
  return rows;
}

static int check_length(const BpModelTensorInfo *info, int64_t length, int64_t room) {
  if (length >= 0 && length <= room)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "input '%s': a cache with room for %" PRId64 " rows cannot have %" PRId64,
                        info->name, room, length);
}

/* Makes the first rows of a cache the value of the cache's input. */
static int set_rows(Context *context, const BpRelaxAppend *append, int64_t length) {
  BpValue *input = &context->inputs[append->input];
  BpTensor *memory = memory_of(context, append);
  BpTensor *rows = check_length(&context->model->inputs[append->input], length,
                                memory->view.shape[append->axis]) < 0
                       ? NULL
                       : first_rows(memory, append->axis, length);
  if (!rows)
    return -1;
  bp_value_clear(input);
  *input = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &rows->header};
  return 0;
}

/* Checks that a tensor can be the cache of an input. */
static int check_memory(const Context *context, const BpRelaxAppend *append,
                        const BpTensor *memory) {
  const BpModelTensorInfo *info = &context->model->inputs[append->input];
  BpModelTensorInfo wanted = *info;
  int64_t shape[BP_RELAX_MAX_NDIM];
  for (int32_t i = 0; i < info->ndim && i < BP_RELAX_MAX_NDIM; i++)
    shape[i] = i == append->axis ? -1 : info->shape[i];
  wanted.shape = shape;
  if (check_value(&wanted, &memory->view) < 0)
    return -1;
  if (memcmp(&memory->view.device, &context->model->machine->devices[0], sizeof(BpDevice)) != 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s': the cache is not in memory of the model's device; create it "
                          "there",
                          info->name);
  if (bp_tensor_is_read_only(memory))
    return bp_error_raise(BP_ERROR_VALUE, "input '%s': the cache is read-only", info->name);
  return 0;
}

static int bind_cache(void *data, uint32_t input, uint32_t output, BpTensor *memory,
                      int64_t length) {
  Context *context = data;
  const BpRelaxModel *model = context->model;
  const BpModelTensorInfo *info = &model->inputs[input];
  const BpRelaxAppend *append = find_append(context, input);
  if (!append || append->output != output)
    return bp_error_raise(
        BP_ERROR_VALUE,
        "output '%s' is not input '%s' with rows behind it: a cache is for "
        "Concat('%s', new), whose first input nothing else reads and whose result "
        "is read by no reshape",
        model->outputs[output].name, info->name, info->name);
  if (check_memory(context, append, memory) < 0 ||
      check_length(info, length, memory->view.shape[append->axis]) < 0)
    return -1;
  BpTensor *rows = first_rows(memory, append->axis, length);
  if (!rows)
    return -1;
  take_input(context, input, &rows->header, BP_TYPE_TENSOR, false);
  context->memories[output] = bp_object_retain(memory);
  return 0;
}

/* The append whose cache is bound to an input; NULL with an error if no cache is bound. */
static const BpRelaxAppend *find_cache(const Context *context, uint32_t input) {
  const BpRelaxAppend *append = find_append(context, input);
  if (memory_of(context, append))
    return append;
  bp_error_raise(BP_ERROR_VALUE, "no cache is bound to input '%s'",
                 context->model->inputs[input].name);
  return NULL;
}

static int64_t cache_length(const void *data, uint32_t input) {
  const Context *context = data;
  const BpRelaxAppend *append = find_cache(context, input);
  return append ? ((const BpTensor *)context->inputs[input].v_obj)->view.shape[append->axis] : -1;
}

static int set_cache_length(void *data, uint32_t input, int64_t length) {
  Context *context = data;
  const BpRelaxAppend *append = find_cache(context, input);
  return append ? set_rows(context, append, length) : -1;
}

/* Makes the rows that a run appended part of the next run's past. */
static int advance_caches(Context *context) {
  for (uint32_t i = 0; i < context->model->num_appends; i++) {
    const BpRelaxAppend *append = &context->model->appends[i];
    const BpTensorView *output = &tensor_in(&context->outputs[append->output])->view;
    int64_t rows = append->axis < output->ndim ? output->shape[append->axis] : -1;
    if (memory_of(context, append) && set_rows(context, append, rows) < 0)
      return -1;
  }
  return 0;
}

/* Checks that no cache overlaps an input: a cache is written while the inputs are read. */
static int check_overlaps(Context *context) {
  const BpRelaxModel *model = context->model;
  for (uint32_t i = 0; i < model->num_appends && context->must_check; i++) {
    const BpTensor *memory = memory_of(context, &model->appends[i]);
    for (uint32_t k = 0; memory && k < model->num_inputs; k++) {
      const BpTensor *other = memory_of(context, find_append(context, k));
      if (!other)
        other = tensor_in(&context->inputs[k]);
      if (other && k != model->appends[i].input && bp__views_overlap(&memory->view, &other->view))
        return bp_error_raise(
            BP_ERROR_VALUE,
            "the cache of input '%s' overlaps the memory of input '%s', and a run "
            "writes it; use other memory",
            model->inputs[model->appends[i].input].name, model->inputs[k].name);
    }
  }
  context->must_check = false;
  return 0;
}

/* ---- Runs -------------------------------------------------------------------------------- */

static bool has_items(const BpArray *list, int32_t type_index) {
  for (int64_t i = 0; i < list->size; i++)
    if (list->data[i].type_index != type_index)
      return false;
  return true;
}

/* Whether the value of an output is of its kind. */
static bool is_of_kind(const BpValue *value, int32_t kind) {
  const BpArray *list = value->type_index == BP_TYPE_ARRAY ? (const BpArray *)value->v_obj : NULL;
  if (kind == BP_MODEL_TENSOR)
    return value->type_index == BP_TYPE_TENSOR;
  if (!list || ((kind & BP_MODEL_OPTIONAL) && list->size > 1))
    return false;
  if (kind != (BP_MODEL_OPTIONAL | BP_MODEL_SEQUENCE))
    return has_items(list, BP_TYPE_TENSOR);
  return has_items(list, BP_TYPE_ARRAY) &&
         (!list->size || has_items((const BpArray *)list->data[0].v_obj, BP_TYPE_TENSOR));
}

static int take_outputs(Context *context, const BpValue *result) {
  const BpArray *tuple =
      result->type_index == BP_TYPE_ARRAY ? (const BpArray *)result->v_obj : NULL;
  uint32_t count = context->model->num_outputs;
  if (tuple && tuple->size != count)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the model gives %" PRId64 " values where %u were expected", tuple->size,
                          count);
  for (uint32_t i = 0; i < count; i++) {
    const BpValue *value = tuple ? &tuple->data[i] : result;
    if (!is_of_kind(value, context->model->outputs[i].kind))
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "output %u of the model is a %s, not a tensor; call the function "
                            "itself, " BP_RELAX_BY_MACHINE,
                            i, bp_type_name(value->type_index));
    bp_object_retain(value->v_obj);
    context->outputs[i] = *value;
  }
  return 0;
}

static int check_inputs(const Context *context) {
  const BpRelaxModel *model = context->model;
  for (uint32_t i = 0; i < model->num_inputs; i++)
    if (context->inputs[i].type_index == BP_TYPE_NONE)
      return bp_error_raise(BP_ERROR_VALUE, "input '%s' has not been set", model->inputs[i].name);
  return 0;
}

static void cancel(void *data) {
  Context *context = data;
  atomic_store(&context->is_cancelled, true);
}

void bp__relax_context_follow(void *data, void *leader) {
  Context *context = data, *first = leader;
  context->stops = &first->is_cancelled;
}

/* Runs the model; `visit` is a visitor or NULL. */
static int run_machine(Context *context, BpRelaxVisitor visit, void *visitor, BpValue *result) {
  const BpRelaxModel *model = context->model;
  const atomic_bool *before = bp__relax_machine_watch(context->stops);
  int32_t num_inputs = (int32_t)model->num_inputs;
  int status = visit
                   ? bp__relax_machine_profile(model->machine, context->workspace, model->function,
                                               context->inputs, num_inputs, visit, visitor, result)
                   : bp__relax_machine_call(model->machine, context->workspace, model->function,
                                            context->inputs, num_inputs, result);
  bp__relax_machine_watch(before);
  atomic_store(context->stops, false);
  return status;
}

static int run(void *data) {
  Context *context = data;
  BpValue result = {.type_index = BP_TYPE_NONE};
  if (check_inputs(context) < 0 || check_overlaps(context) < 0)
    return -1;
  bp__relax_context_forget_outputs(context);
  if (run_machine(context, NULL, NULL, &result))
    return -1;
  int status = take_outputs(context, &result);
  bp_value_clear(&result);
  return status < 0 ? -1 : advance_caches(context);
}

typedef struct Watch {
  BpModelCallVisit visit;
  void *visitor;
  const BpRelaxExecutable *executable;
  const BpRelaxFunction *function; /* the model's */
  const BpRelaxFunction *names; /* BP_RELAX_NODE_NAMES, or NULL: only our compiler stores names */
  unsigned num_calls;
} Watch;

static int calls_library(const BpRelaxExecutable *executable, const BpRelaxInstruction *code) {
  return code->op == BP_RELAX_CALL &&
         strncmp(executable->functions[code->function].name, BP_RELAX_BUILTIN_PREFIX,
                 strlen(BP_RELAX_BUILTIN_PREFIX)) != 0;
}

/* The name of the node that a call of the model's function computes, or NULL. */
static const char *node_of(const Watch *self, const BpRelaxInstruction *call) {
  const BpRelaxInstruction *code = self->function->code;
  uint32_t number = 0;
  for (uint32_t i = 0; self->names && i < self->function->num_instructions; i++) {
    if (&code[i] == call)
      return number < self->names->num_params ? self->names->param_names[number] : NULL;
    number += (uint32_t)calls_library(self->executable, &code[i]);
  }
  return NULL;
}

/* Visits a call. A loop may repeat it, so the calls are numbered. */
static int visit_call(Watch *self, const char *node, const char *function, const BpTensorView *last,
                      int64_t start_ns, int64_t duration_ns) {
  char name[256];
  snprintf(name, sizeof(name), node ? "%u:%.200s" : "%u-%.200s", self->num_calls++,
           node ? node : function);
  const BpModelCall call = {name, function, last, last != NULL, start_ns, duration_ns};
  return self->visit(self->visitor, &call);
}

static int watch(void *data, const BpRelaxInstruction *call, const BpTensorView *last,
                 int64_t start_ns, int64_t duration_ns) {
  Watch *self = data;
  return visit_call(self, node_of(self, call), self->executable->functions[call->function].name,
                    last, start_ns, duration_ns);
}

/* Profiles a run. A function that was compiled as a whole makes no calls that the machine sees, so
 * it counts as one call. */
static int profile(void *data, BpModelCallVisit visit, void *visitor) {
  Context *context = data;
  const BpRelaxModel *model = context->model;
  const BpRelaxFunction *function = &model->machine->executable->functions[model->function];
  BpValue result = {.type_index = BP_TYPE_NONE};
  Watch self = {visit, visitor, model->machine->executable, function, NULL, 0};
  int64_t names = bp__relax_executable_find(self.executable, BP_RELAX_NODE_NAMES);
  if (names >= 0)
    self.names = &self.executable->functions[names];
  if (check_inputs(context) < 0 || check_overlaps(context) < 0)
    return -1;
  bp__relax_context_forget_outputs(context);
  int64_t start = bp__graph_now_ns();
  if (run_machine(context, watch, &self, &result))
    return -1;
  int status = take_outputs(context, &result);
  bp_value_clear(&result);
  if (status == 0)
    status = advance_caches(context);
  if (status < 0 || self.num_calls)
    return status;
  if (bp_stream_sync(model->machine->devices[0], NULL) < 0)
    return -1;
  int64_t duration = bp__graph_now_ns() - start;
  return visit_call(&self, NULL, function->name, NULL, 0, duration) < 0 ? -1 : 0;
}

static int check_was_run(const Context *context, uint32_t index) {
  return context->outputs[index].type_index != BP_TYPE_NONE
             ? 0
             : bp_error_raise(BP_ERROR_VALUE, "the model has not been run");
}

static BpTensor *get_output(void *data, uint32_t index) {
  const Context *context = data;
  return check_was_run(context, index) < 0 ? NULL : tensor_in(&context->outputs[index]);
}

/* The tensors of an output that is a list; NULL for an optional without a value. */
static const BpArray *list_of(const Context *context, uint32_t index) {
  int32_t kind = context->model->outputs[index].kind;
  const BpArray *list = (const BpArray *)context->outputs[index].v_obj;
  if (!(kind & BP_MODEL_OPTIONAL))
    return list;
  if (!list->size)
    return NULL;
  return kind & BP_MODEL_SEQUENCE ? (const BpArray *)list->data[0].v_obj : list;
}

static int get_output_length(void *data, uint32_t index, int64_t *length) {
  const Context *context = data;
  if (check_was_run(context, index) < 0)
    return -1;
  const BpArray *list = list_of(context, index);
  *length = list ? list->size : BP_MODEL_NO_VALUE;
  return 0;
}

static BpTensor *get_output_item(void *data, uint32_t index, int64_t position) {
  const Context *context = data;
  return tensor_in(&list_of(context, index)->data[position]);
}

static int wait_for_run(void *data) {
  const Context *context = data;
  return bp_stream_sync(context->model->machine->devices[0], NULL);
}

const BpModelExecutor bp__relax_executor = {
    .find = bp__relax_find_module,
    .select_devices = bp__relax_select_devices,
    .visit_tensors = bp__relax_visit_tensors,
    .create = bp__relax_model_create,
    .free = bp__relax_model_free,
    .devices = bp__relax_model_devices,
    .infos = bp__relax_model_infos,
    .memory = bp__relax_model_memory,
    .storage = bp__relax_model_storage,
    .context_create = create_context,
    .context_free = free_context,
    .set_input = set_input,
    .set_input_list = set_input_list,
    .bind_input = bind_input,
    .bind_cache = bind_cache,
    .cache_length = cache_length,
    .set_cache_length = set_cache_length,
    .run = run,
    .cancel = cancel,
    .profile = profile,
    .output = get_output,
    .output_length = get_output_length,
    .output_item = get_output_item,
    .wait = wait_for_run,
};
