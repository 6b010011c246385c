/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind dnnl, which have one function. If all extents of a part are known, its primitives
 * are made when the function is first asked for. If some are open, the primitives are made at the
 * first run with new extents, and kept for the most recent extents. The bytes that a module is
 * loaded from are untrusted. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS  BP_KERNEL_MAX_ARGS /* most tensors of a function */
#define MOST_ELEMENTS ((int64_t)1 << 38)
#define MOST_STEPS    65536
#define MOST_PLANS    8 /* plans kept for a part with open extents */

/* The primitives for a run with certain extents. */
typedef struct Plan {
  struct Plan *next;
  BpDnnlShapes shapes;
  BpDnnlProgram program; /* copy of the program, for a part with open extents */
  BpDnnlPlan *plan;      /* NULL: the outputs are empty and nothing runs */
  int32_t num_users;     /* runs that use the plan now */
} Plan;

typedef struct Module {
  BpModule *self;
  char *function;
  char *bytes;
  size_t size;
  BpDnnlProgram program;
  pthread_mutex_t lock; /* guards the members below */
  Plan *plans;          /* most recently used first; at most one without open extents */
  BpDnnlPacked *packed;
} Module;

/* ---- Checking ---------------------------------------------------------------------------- */

#define REFUSE(...)                                                                                \
  bp_plugin_raise(&bp_dnnl_host, BP_ERROR_FORMAT,                                                  \
                  "these bytes are no valid module of kind dnnl: " __VA_ARGS__)

static int is_tensor(const BpDnnlProgram *program, int32_t tensor) {
  return tensor >= 0 && tensor < program->header.num_tensors;
}

static int is_constant(const BpDnnlProgram *program, int32_t tensor) {
  return tensor >= program->header.num_inputs + program->header.num_outputs &&
         program->tensors[tensor].place == BP_DNNL_CONSTANT;
}

/* Whether a tensor has the plain layout when a step reads it. */
static int is_given(const BpDnnlProgram *program, int32_t tensor) {
  return is_tensor(program, tensor) &&
         (tensor < program->header.num_inputs || is_constant(program, tensor));
}

static int same_dims(const BpDnnlProgram *program, int32_t a, int32_t b) {
  const BpDnnlTensor *x = &program->tensors[a], *y = &program->tensors[b];
  return x->ndim == y->ndim && !memcmp(x->dims, y->dims, (size_t)x->ndim * sizeof(int64_t));
}

static int32_t check_tensor(const BpDnnlProgram *program, int32_t index) {
  const BpDnnlTensor *tensor = &program->tensors[index];
  int64_t count = 1;
  if (tensor->ndim < 1 || tensor->ndim > BP_DNNL_MAX_NDIM)
    return REFUSE("tensor %d has %d dimensions; expected 1 to %d", index, tensor->ndim,
                  BP_DNNL_MAX_NDIM);
  for (int32_t i = 0; i < tensor->ndim; i++) {
    if (program->is_open && tensor->dims[i] == BP_DNNL_OPEN && !is_constant(program, index))
      continue;
    if (tensor->dims[i] < 1 || tensor->dims[i] > MOST_ELEMENTS / count)
      return REFUSE(
          "dimension %d of tensor %d has the extent %lld; expected 1 or more, and at most "
          "%lld elements in all",
          i, index, (long long)tensor->dims[i], (long long)MOST_ELEMENTS);
    count *= tensor->dims[i];
  }
  if (is_constant(program, index) &&
      (tensor->offset < 0 || tensor->offset % 4 || tensor->offset > program->data_size ||
       count * 4 > program->data_size - tensor->offset))
    return REFUSE("constant %d has %lld elements at byte %lld of %lld bytes of data; expected a "
                  "multiple of 4 and all elements within the data",
                  index, (long long)count, (long long)tensor->offset,
                  (long long)program->data_size);
  return 0;
}

static int is_within(int64_t value, int64_t least) {
  return value >= least && value <= INT32_MAX;
}

/* Checks the sizes of a window with `rank` spatial dimensions. The bounds make sums and products of
 * the sizes fit into int64. */
static int32_t check_window(const BpDnnlStep *step, int32_t rank) {
  const BpDnnlWindow *w = &step->window;
  for (int32_t i = 0; i < rank; i++)
    if (!is_within(w->kernel[i], 1) || !is_within(w->strides[i], 1) ||
        !is_within(w->dilations[i], 1) || !is_within(w->pad_begin[i], 0) ||
        !is_within(w->pad_end[i], -INT32_MAX) || (w->kernel[i] - 1) * w->dilations[i] >= INT32_MAX)
      return REFUSE("spatial dimension %d of a window has kernel %lld, stride %lld, dilation %lld, "
                    "and padding %lld before and %lld behind; the first three are 1 or more, the "
                    "padding before is 0 or more, and neither a size nor the window's whole extent "
                    "exceeds %d",
                    i, (long long)w->kernel[i], (long long)w->strides[i],
                    (long long)w->dilations[i], (long long)w->pad_begin[i],
                    (long long)w->pad_end[i], INT32_MAX);
  return 0;
}

static int32_t check_conv(const BpDnnlProgram *program, const BpDnnlStep *step) {
  const BpDnnlTensor *src = &program->tensors[step->src], *dst = &program->tensors[step->dst];
  const BpDnnlTensor *weights =
      is_tensor(program, step->weights) ? &program->tensors[step->weights] : NULL;
  if (!weights || !is_given(program, step->weights))
    return REFUSE("a convolution has tensor %d as weights, which is no constant and no input",
                  step->weights);
  if (src->ndim < 3 || src->ndim > 2 + BP_DNNL_MAX_SPATIAL || weights->ndim != src->ndim ||
      dst->ndim != src->ndim)
    return REFUSE("the source, weights and result of a convolution have %d, %d and %d dimensions; "
                  "expected equal numbers from 3 to %d",
                  src->ndim, weights->ndim, dst->ndim, 2 + BP_DNNL_MAX_SPATIAL);
  if (step->groups < 1 || weights->dims[0] % step->groups)
    return REFUSE("a convolution has %d groups, which do not divide its %lld output channels",
                  step->groups, (long long)weights->dims[0]);
  if (step->bias >= 0 &&
      (!is_given(program, step->bias) || program->tensors[step->bias].ndim != 1 ||
       program->tensors[step->bias].dims[0] != weights->dims[0]))
    return REFUSE("a convolution has tensor %d as bias, which is not given with %lld elements",
                  step->bias, (long long)weights->dims[0]);
  if (step->is_global)
    return REFUSE("a convolution has a global window, which only a pooling has");
  for (int32_t i = 2; i < src->ndim; i++)
    if (step->window.kernel[i - 2] != weights->dims[i])
      return REFUSE("spatial dimension %d of a convolution has the kernel %lld, but weights of the "
                    "extent %lld",
                    i - 2, (long long)step->window.kernel[i - 2], (long long)weights->dims[i]);
  return check_window(step, src->ndim - 2);
}

static int32_t check_matmul(const BpDnnlProgram *program, const BpDnnlStep *step) {
  const BpDnnlTensor *src = &program->tensors[step->src], *dst = &program->tensors[step->dst];
  const BpDnnlTensor *weights =
      is_tensor(program, step->weights) ? &program->tensors[step->weights] : NULL;
  if (!weights)
    return REFUSE("a matrix product has no second operand");
  if (src->ndim < 2 || dst->ndim != src->ndim || weights->ndim < 2 ||
      (weights->ndim != src->ndim && weights->ndim != 2))
    return REFUSE("the operands and the result of a matrix product have %d, %d and %d dimensions; "
                  "expected equal numbers from 2 on, or 2 for the second operand",
                  src->ndim, weights->ndim, dst->ndim);
  if ((step->transposes_a || step->transposes_b) && src->ndim != 2)
    return REFUSE("a matrix product transposes an operand of %d dimensions; expected 2", src->ndim);
  if (step->bias >= 0 && (!is_given(program, step->bias) || dst->ndim != 2 ||
                          bp_dnnl_count(&program->tensors[step->bias]) != dst->dims[1]))
    return REFUSE("a matrix product has tensor %d as addend, which is not given as a row of "
                  "its result",
                  step->bias);
  return 0;
}

static int32_t check_pool(const BpDnnlProgram *program, const BpDnnlStep *step) {
  int32_t ndim = program->tensors[step->src].ndim, of_result = program->tensors[step->dst].ndim;
  if (ndim < 3 || ndim > 2 + BP_DNNL_MAX_SPATIAL || of_result != ndim)
    return REFUSE("the source and the result of a pooling have %d and %d dimensions; expected "
                  "equal numbers from 3 to %d",
                  ndim, of_result, 2 + BP_DNNL_MAX_SPATIAL);
  if (step->sum >= 0)
    return REFUSE("a pooling adds tensor %d; only convolutions, products and sums add", step->sum);
  for (int32_t i = 0; step->is_global && i + 2 < ndim; i++)
    if (step->window.strides[i] != 1 || step->window.dilations[i] != 1 ||
        step->window.pad_begin[i] || step->window.pad_end[i])
      return REFUSE("a global pooling has a stride or a dilation that is not 1, or padding");
  return check_window(step, ndim - 2);
}

static int32_t check_softmax(const BpDnnlProgram *program, const BpDnnlStep *step) {
  int32_t ndim = program->tensors[step->src].ndim;
  if (step->axis < 0 || step->axis >= ndim)
    return REFUSE("a softmax has the axis %d, but %d dimensions", step->axis, ndim);
  if (step->sum >= 0)
    return REFUSE("a softmax adds tensor %d; only convolutions, products and sums add", step->sum);
  return same_dims(program, step->src, step->dst)
             ? 0
             : REFUSE("tensors %d and %d, read and computed by a softmax, differ in shape",
                      step->src, step->dst);
}

static int32_t check_elementwise(const BpDnnlProgram *program, const BpDnnlStep *step) {
  if ((step->sum >= 0) != (step->kind == BP_DNNL_ADD))
    return REFUSE("%s second operand", step->kind == BP_DNNL_ADD ? "a sum has no" : "a relu has a");
  return same_dims(program, step->src, step->dst)
             ? 0
             : REFUSE("tensors %d and %d, read and computed by a sum or a relu, differ in shape",
                      step->src, step->dst);
}

static int32_t check_kind(const BpDnnlProgram *program, const BpDnnlStep *step) {
  switch (step->kind) {
  case BP_DNNL_CONV:
    return check_conv(program, step);
  case BP_DNNL_MATMUL:
    return check_matmul(program, step);
  case BP_DNNL_POOL:
    return check_pool(program, step);
  case BP_DNNL_SOFTMAX:
    return check_softmax(program, step);
  case BP_DNNL_RELU:
  case BP_DNNL_ADD:
    return check_elementwise(program, step);
  default:
    return REFUSE("a step has the kind %d; expected 0 to %d", step->kind, BP_DNNL_NUM_KINDS - 1);
  }
}

/* Checks that a step reads only inputs, constants and computed tensors, and computes a new one. */
static int32_t check_step(const BpDnnlProgram *program, const BpDnnlStep *step, char *is_known) {
  const int32_t reads[] = {step->src, step->weights, step->bias, step->sum};
  for (int i = 0; i < 4; i++)
    if (i == 0 || reads[i] >= 0) {
      if (!is_tensor(program, reads[i]) || !is_known[reads[i]])
        return REFUSE("a step reads tensor %d, which is not computed before it", reads[i]);
    }
  if (!is_tensor(program, step->dst) || is_known[step->dst])
    return REFUSE("a step computes tensor %d, which does not exist or has a value already",
                  step->dst);
  if (step->sum >= 0 && !same_dims(program, step->sum, step->dst))
    return REFUSE("a step adds tensor %d to tensor %d, whose shape differs", step->sum, step->dst);
  if (check_kind(program, step) != 0)
    return -1;
  is_known[step->dst] = 1;
  return 0;
}

static int32_t check_steps(const BpDnnlProgram *program) {
  const BpDnnlHeader *header = &program->header;
  char *is_known = bp_plugin_calloc(&bp_dnnl_host, (size_t)header->num_tensors + 1);
  int32_t status = is_known ? 0 : -1;
  for (int32_t t = 0; t < header->num_tensors && !status; t++)
    is_known[t] = t < header->num_inputs || is_constant(program, t);
  for (int32_t s = 0; s < header->num_steps && !status; s++)
    status = check_step(program, &program->steps[s], is_known);
  for (int32_t i = 0; i < header->num_outputs && !status; i++)
    if (!is_known[header->num_inputs + i])
      status = REFUSE("no step computes output %d", i);
  free(is_known);
  return status;
}

static int32_t check_program(const BpDnnlProgram *program) {
  for (int32_t t = 0; t < program->header.num_tensors; t++)
    if (check_tensor(program, t) != 0)
      return -1;
  return check_steps(program);
}

static int32_t has_open(const BpDnnlProgram *program) {
  for (int32_t t = 0; t < program->header.num_tensors; t++)
    for (int32_t i = 0; i < BP_DNNL_MAX_NDIM; i++)
      if (program->tensors[t].dims[i] == BP_DNNL_OPEN)
        return 1;
  return 0;
}

/* Finds the parts of a program in aligned bytes, and checks every field that is read later. */
static int32_t read_program(const char *bytes, size_t size, BpDnnlProgram *program) {
  BpDnnlHeader *header = &program->header;
  if (size < sizeof(*header))
    return REFUSE("there are %zu of them, and the header has %zu", size, sizeof(*header));
  memcpy(header, bytes, sizeof(*header));
  size_t left = size - sizeof(*header);
  if (memcmp(header->magic, BP_DNNL_MAGIC, sizeof(header->magic)))
    return REFUSE("they do not begin with %s", BP_DNNL_MAGIC);
  if (header->num_inputs < 0 || header->num_outputs < 1 || header->num_inputs > MOST_TENSORS ||
      header->num_outputs > MOST_TENSORS - header->num_inputs ||
      header->num_tensors < header->num_inputs + header->num_outputs || header->num_steps < 1 ||
      header->num_steps > MOST_STEPS || (size_t)header->num_tensors > left / sizeof(BpDnnlTensor) ||
      (size_t)header->num_steps >
          (left - (size_t)header->num_tensors * sizeof(BpDnnlTensor)) / sizeof(BpDnnlStep))
    return REFUSE("the header has %d inputs, %d outputs, %d tensors and %d steps; expected at most "
                  "%d inputs and outputs, 1 to %d steps, and all of them within the %zu bytes",
                  header->num_inputs, header->num_outputs, header->num_tensors, header->num_steps,
                  MOST_TENSORS, MOST_STEPS, size);
  program->tensors = (BpDnnlTensor *)(uintptr_t)(bytes + sizeof(*header));
  program->steps = (BpDnnlStep *)(void *)(program->tensors + header->num_tensors);
  program->data = (const char *)(program->steps + header->num_steps);
  program->data_size = (int64_t)(size - (size_t)(program->data - bytes));
  program->is_open = has_open(program);
  return check_program(program);
}

/* ---- Plans ------------------------------------------------------------------------------- */

static void free_plan(Plan *plan) {
  bp_dnnl_plan_free(plan->plan);
  bp_dnnl_resolved_free(&plan->program);
  free(plan);
}

/* Counts the tensors that have no elements. */
static int32_t count_empty(const BpDnnlProgram *program, int32_t first, int32_t end) {
  int32_t count = 0;
  for (int32_t t = first; t < end; t++) {
    int32_t is_empty = 0;
    for (int32_t i = 0; i < program->tensors[t].ndim; i++)
      is_empty |= program->tensors[t].dims[i] == 0;
    count += is_empty;
  }
  return count;
}

/* Makes the primitives for the extents of a run; none if all outputs are empty. */
static int32_t make_resolved(Module *module, Plan *plan) {
  const BpDnnlHeader *header = &module->program.header;
  int32_t first = header->num_inputs, end = first + header->num_outputs;
  if (bp_dnnl_resolve(&module->program, &plan->shapes, &plan->program) != 0)
    return -1;
  if (count_empty(&plan->program, first, end) == header->num_outputs)
    return 0;
  if (count_empty(&plan->program, 0, header->num_tensors) > 0)
    return bp_plugin_raise(
        &bp_dnnl_host, BP_ERROR_NOT_IMPLEMENTED,
        "%s: a tensor of this run has an extent of 0, and an output has elements; "
        "the plugin dnnl computes no output of empty tensors",
        module->function);
  if (check_program(&plan->program) != 0)
    return -1;
  plan->plan = bp_dnnl_plan_create(&plan->program, &module->packed);
  return plan->plan ? 0 : -1;
}

static int32_t fill_plan(Module *module, Plan *plan) {
  if (module->program.is_open)
    return make_resolved(module, plan);
  plan->plan = bp_dnnl_plan_create(&module->program, &module->packed);
  return plan->plan ? 0 : -1;
}

/* Frees the least recently used plans beyond the limit, except those that a run uses. */
static void forget_plans(Module *module) {
  int32_t count = 0;
  for (Plan **link = &module->plans; *link;) {
    Plan *plan = *link;
    if (++count <= MOST_PLANS || plan->num_users > 0) {
      link = &plan->next;
      continue;
    }
    *link = plan->next;
    free_plan(plan);
  }
}

/* Returns the plan for the extents, and makes it if there is none; the plan becomes the first. The
 * module is locked. */
static Plan *find_plan(Module *module, const BpDnnlShapes *shapes) {
  Plan **link = &module->plans;
  while (*link && memcmp(&(*link)->shapes, shapes, sizeof(*shapes)))
    link = &(*link)->next;
  Plan *plan = *link;
  if (plan) {
    *link = plan->next;
  } else {
    plan = bp_plugin_calloc(&bp_dnnl_host, sizeof(*plan));
    if (!plan)
      return NULL;
    plan->shapes = *shapes;
    if (fill_plan(module, plan) != 0) {
      free_plan(plan);
      return NULL;
    }
  }
  plan->next = module->plans;
  module->plans = plan;
  return plan;
}

/* Runs the part on tensors with the extents in `shapes`. */
static int32_t run(Module *module, const BpDnnlShapes *shapes, void *const *data) {
  pthread_mutex_lock(&module->lock);
  Plan *plan = find_plan(module, shapes);
  if (plan)
    plan->num_users++;
  pthread_mutex_unlock(&module->lock);
  if (!plan)
    return -1;
  int32_t status = plan->plan ? bp_dnnl_plan_run(plan->plan, data) : 0;
  pthread_mutex_lock(&module->lock);
  plan->num_users--;
  forget_plans(module);
  pthread_mutex_unlock(&module->lock);
  return status;
}

/* ---- Calls ------------------------------------------------------------------------------- */

/* Checks an argument, and stores its extents in `shapes`. */
static int32_t check_argument(const Module *module, const BpValue *arg, int32_t index,
                              BpDnnlShapes *shapes) {
  const BpDnnlTensor *tensor = &module->program.tensors[index];
  const BpTensorView *view = bp_part_tensor(arg);
  if (!view)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_TYPE, "%s: argument %d is no tensor",
                           module->function, index);
  if (view->dtype.code != BP_DTYPE_FLOAT || view->dtype.bits != 32 || view->dtype.lanes != 1)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_TYPE,
                           "%s: argument %d has elements of type code %d, %d bits and %d lanes; "
                           "expected float32",
                           module->function, index, view->dtype.code, view->dtype.bits,
                           view->dtype.lanes);
  if (view->device.device_type != BP_DEVICE_CPU)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE,
                           "%s: argument %d is on a device of type %d; expected the CPU; copy it "
                           "first",
                           module->function, index, view->device.device_type);
  if (view->ndim != tensor->ndim)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE,
                           "%s: argument %d has %d dimensions; expected %d", module->function,
                           index, view->ndim, tensor->ndim);
  int64_t stride = 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    int64_t extent = view->shape[i];
    if (tensor->dims[i] == BP_DNNL_OPEN ? extent < 0 || extent > INT32_MAX
                                        : extent != tensor->dims[i])
      return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE,
                             "%s: dimension %d of argument %d has the extent %lld; expected %lld "
                             "(%d: from 0 to 2147483647)",
                             module->function, i, index, (long long)extent,
                             (long long)tensor->dims[i], BP_DNNL_OPEN);
    if (view->strides && extent != 1 && view->strides[i] != stride)
      return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE,
                             "%s: dimension %d of argument %d has the stride %lld; expected %lld, "
                             "that of a compact tensor; copy it first",
                             module->function, i, index, (long long)view->strides[i],
                             (long long)stride);
    if (extent > 0 && stride > MOST_ELEMENTS / extent)
      return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_VALUE,
                             "%s: argument %d has more than %lld elements", module->function, index,
                             (long long)MOST_ELEMENTS);
    stride *= extent > 0 ? extent : 1;
    shapes->dims[index][i] = extent;
  }
  return 0;
}

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  Module *module = context;
  const BpDnnlHeader *header = &module->program.header;
  void *data[MOST_TENSORS];
  BpDnnlShapes shapes = {{{0}}};
  if (bp_plugin_check_flags(&bp_dnnl_host, "dnnl", "launch", invocation->flags) != 0)
    return -1; /* the other launch options have no effect: the CPU has no streams */
  if (num_args != header->num_inputs + header->num_outputs)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_TYPE, "%s: expected %d tensors, got %d",
                           module->function, header->num_inputs + header->num_outputs, num_args);
  for (int32_t i = 0; i < num_args; i++) {
    if (check_argument(module, &args[i], i, &shapes) != 0)
      return -1;
    const BpTensorView *view = bp_part_tensor(&args[i]);
    data[i] = (char *)view->data + view->byte_offset;
  }
  return run(module, &shapes, data);
}

/* ---- The module -------------------------------------------------------------------------- */

/* Opens the library, and makes the primitives if all extents are known. */
static int32_t prepare(Module *module) {
  const BpDnnlHeader *header = &module->program.header;
  BpDnnlShapes shapes = {{{0}}};
  const char *problem = bp_dnnl_load();
  if (problem)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_PLUGIN, "%s", problem);
  if (module->program.is_open)
    return 0;
  for (int32_t t = 0; t < header->num_inputs + header->num_outputs; t++)
    memcpy(shapes.dims[t], module->program.tensors[t].dims,
           (size_t)module->program.tensors[t].ndim * sizeof(int64_t));
  pthread_mutex_lock(&module->lock);
  int32_t status = find_plan(module, &shapes) ? 0 : -1;
  pthread_mutex_unlock(&module->lock);
  return status;
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = context;
  *function = NULL;
  if (strcmp(name, module->function))
    return 0;
  if (prepare(module) != 0)
    return -1;
  *function = bp_dnnl_host.module->kernel_create(module->self, BP_DEVICE_CPU, launch, module, NULL);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE | BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = context;
  const BpDnnlHeader *header = &module->program.header;
  return bp_part_save(&bp_dnnl_host, "dnnl", module->function,
                      header->num_inputs + header->num_outputs, module->bytes, module->size, bytes);
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const Module *module = context;
  visit(visitor, module->function, NULL);
  return 0;
}

static void destroy(void *context) {
  Module *module = context;
  while (module->plans) {
    Plan *plan = module->plans;
    module->plans = plan->next;
    free_plan(plan);
  }
  bp_dnnl_packed_free(module->packed);
  pthread_mutex_destroy(&module->lock);
  free(module->function);
  free(module->bytes);
  free(module);
}

static const BpModuleApi api = {.struct_size = sizeof(BpModuleApi),
                                .kind = "dnnl",
                                .get_function = get_function,
                                .get_property = get_property,
                                .save_to_bytes = save_to_bytes,
                                .visit_functions = visit_functions,
                                .destroy = destroy};

BpModule *bp_dnnl_module_create(const char *function, char *bytes, size_t size) {
  Module *module = bp_plugin_calloc(&bp_dnnl_host, sizeof(*module));
  if (!module) {
    free(bytes);
    return NULL;
  }
  pthread_mutex_init(&module->lock, NULL);
  module->bytes = bytes;
  module->size = size;
  module->function = strdup(function);
  if (!module->function)
    bp_plugin_raise(&bp_dnnl_host, BP_ERROR_MEMORY, "no memory for a module");
  if (!module->function || read_program(bytes, size, &module->program) != 0) {
    destroy(module);
    return NULL;
  }
  module->self = bp_dnnl_host.module->create(&api, module);
  return module->self;
}

/* ---- Loading ----------------------------------------------------------------------------- */

int bp_dnnl_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpPartBytes part;
  (void)self;
  if (bp_part_load(&bp_dnnl_host, "dnnl", args, num_args, &part) != 0)
    return -1;
  BpModule *module = bp_dnnl_module_create(part.function, part.code, part.size);
  free(part.function); /* the module has its own copies of the function's name and of the code */
  return bp_plugin_answer_module(result, module);
}
