/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: registers are values, and every called function was found beforehand. */
#include "graph/relax/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/tensor.h>

#include "graph/io/clock.h"
#include "graph/relax/builtin.h"

/* The maximum depth of calls: TVM compiles loops to recursion, and the thread's stack is finite. */
#define MAX_DEPTH 2048

typedef struct Profile {
  const BpRelaxInstruction *call; /* the call that is being made */
  BpRelaxVisitor visit;           /* NULL if the visitor wants no more calls */
  void *visitor;
  int64_t begin;
} Profile;

/* The active runs of the current thread. */
static _Thread_local struct {
  BpRelaxMachine *machine;
  uint32_t depth;
  Profile *profile;         /* profile of the run, or NULL */
  const atomic_bool *stops; /* flag that tells loops to end, or NULL */
} running;

BpRelaxMachine *bp__relax_machine_current(void) {
  return running.machine;
}

const atomic_bool *bp__relax_machine_watch(const atomic_bool *stops) {
  const atomic_bool *before = running.stops;
  running.stops = stops;
  return before;
}

/* Returns -1 with an error if the run was cancelled. */
static int check_stop(void) {
  if (!running.stops || !atomic_load_explicit(running.stops, memory_order_relaxed))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME, "bp_model_cancel stopped the run in a loop or a call");
}

static void keep(BpValue *kept, const BpValue *value) {
  if (value->type_index >= BP_TYPE_OBJECT)
    bp_object_retain(value->v_obj);
  *kept = *value;
}

/* ---- Running ----------------------------------------------------------------------------- */

static int call_function(BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                         int32_t num_args, BpValue *result);

/* One call of a bytecode function: its registers, followed by space for the arguments of its
 * calls. */
typedef struct Frame {
  BpRelaxMachine *machine;
  const BpRelaxFunction *function;
  BpValue *registers;
  BpValue *args;
} Frame;

static BpValue load(const Frame *frame, const BpRelaxArg *arg) {
  switch (arg->kind) {
  case BP_RELAX_REGISTER:
    return frame->registers[arg->value];
  case BP_RELAX_IMMEDIATE:
    return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = arg->value};
  case BP_RELAX_CONSTANT:
    return frame->machine->constants[arg->value];
  case BP_RELAX_FUNCTION:
    return frame->machine->functions[arg->value];
  case BP_RELAX_CONTEXT:
    return (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = frame->machine};
  default:
    return (BpValue){.type_index = BP_TYPE_NONE};
  }
}

/* Adds to an error, once, its place in the model. */
static int call_failed(const Frame *frame, const BpRelaxInstruction *instruction) {
  const BpRelaxFunction *callee = &frame->machine->executable->functions[instruction->function];
  if (callee->kind == BP_RELAX_PACKED)
    bp_error_add_context("'%s', called by '%s'", callee->name, frame->function->name);
  return -1;
}

static int run_call(Frame *frame, const BpRelaxInstruction *instruction) {
  BpValue result = {.type_index = BP_TYPE_NONE};
  for (uint32_t i = 0; i < instruction->num_args; i++)
    frame->args[i] = load(frame, &instruction->args[i]);
  if (running.profile)
    running.profile->call = instruction;
  if (call_function(frame->machine, instruction->function, frame->args,
                    (int32_t)instruction->num_args, &result))
    return call_failed(frame, instruction);
  if (instruction->dst < 0) {
    bp_value_clear(&result);
  } else {
    bp_value_clear(&frame->registers[instruction->dst]);
    frame->registers[instruction->dst] = result;
  }
  return 0;
}

/* Tests a condition: 1 or 0; -1 with an error if the value is no condition. */
static int test_condition(const Frame *frame, const BpRelaxInstruction *instruction) {
  BpValue value = load(frame, instruction->args);
  if (value.type_index == BP_TYPE_INT || value.type_index == BP_TYPE_BOOL)
    return value.v_int64 != 0;
  return bp_error_raise(BP_ERROR_TYPE, "'%s': a condition is a %s, not a number",
                        frame->function->name, bp_type_name(value.type_index));
}

static int run_code(Frame *frame, BpValue *result) {
  const BpRelaxInstruction *code = frame->function->code;
  for (int64_t at = 0;;) {
    const BpRelaxInstruction *instruction = &code[at];
    if (instruction->op == BP_RELAX_CALL) {
      if (run_call(frame, instruction))
        return -1;
      at++;
    } else if (instruction->op == BP_RELAX_RET) {
      BpValue value = load(frame, instruction->args);
      keep(result, &value);
      return 0;
    } else if (instruction->op == BP_RELAX_GOTO) {
      if (instruction->target <= at && check_stop() < 0)
        return -1;
      at = instruction->target;
    } else {
      int holds = test_condition(frame, instruction);
      if (holds < 0)
        return -1;
      at = holds ? at + 1 : instruction->target;
    }
  }
}

/* Raises an error such as "'forward' takes 2 arguments (x, y), and 1 was given." */
static int wrong_count(const BpRelaxFunction *function, int32_t num_args) {
  char names[512] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < function->num_params && used < sizeof(names); i++)
    used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : " (",
                             function->param_names[i]);
  return bp_error_raise(BP_ERROR_TYPE, "'%s' takes %u argument%s%s%s, and %d were given",
                        function->name, function->num_args, function->num_args == 1 ? "" : "s",
                        names, *names ? ")" : "", num_args);
}

/* Makes registers; the first registers contain the arguments. */
static BpValue *enter(const BpRelaxFunction *function, const BpValue *args, int32_t num_args) {
  if (num_args < 0 || (uint32_t)num_args != function->num_args) {
    wrong_count(function, num_args);
    return NULL;
  }
  BpValue *registers = bp__relax_workspace_enter(bp__relax_workspace_current(), function);
  if (!registers) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the registers of '%s'", function->name);
    return NULL;
  }
  for (int32_t i = 0; i < num_args; i++)
    keep(&registers[i], &args[i]);
  return registers;
}

static void leave(const BpRelaxFunction *function, BpValue *registers) {
  bp__relax_workspace_leave(bp__relax_workspace_current(), function, registers);
}

static int run_bytecode(BpRelaxMachine *machine, const BpRelaxFunction *function,
                        const BpValue *args, int32_t num_args, BpValue *result) {
  BpValue *registers = enter(function, args, num_args);
  if (!registers)
    return -1;
  Frame frame = {machine, function, registers, registers + function->num_registers};
  int status = run_code(&frame, result);
  leave(function, registers);
  return status;
}

/* Runs a compiled function, which gets its registers and stores its result after the arguments. */
static int run_compiled(BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                        int32_t num_args, BpValue *result) {
  const BpRelaxFunction *function = &machine->executable->functions[index];
  BpFunction *code = machine->callees[index].compiled;
  BpValue *registers = enter(function, args, num_args), ignored;
  if (!registers)
    return -1;
  BpValue tables[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = machine},
                      {.type_index = BP_TYPE_POINTER, .v_ptr = registers},
                      {.type_index = BP_TYPE_POINTER, .v_ptr = machine->constants},
                      {.type_index = BP_TYPE_POINTER, .v_ptr = machine->functions}};
  int status = bp_function_call(code, tables, 4, &ignored);
  if (status == 0) {
    bp_value_clear(&ignored);
    keep(result, &registers[function->num_args]);
  }
  leave(function, registers);
  return status;
}

static int call_own(BpRelaxMachine *machine, uint32_t index, const BpValue *args, int32_t num_args,
                    BpValue *result) {
  const BpRelaxFunction *function = &machine->executable->functions[index];
  if (running.depth >= MAX_DEPTH)
    return bp_error_raise(BP_ERROR_RUNTIME, "'%s': calls are nested more than %d deep",
                          function->name, MAX_DEPTH);
  if (running.depth && check_stop() < 0) /* TVM's loops are recursion */
    return -1;
  running.depth++;
  int status = function->kind == BP_RELAX_BYTECODE
                   ? run_bytecode(machine, function, args, num_args, result)
                   : run_compiled(machine, index, args, num_args, result);
  running.depth--;
  return status;
}

/* Reports a call to the visitor, until it wants no more; -1 if the visitor fails. */
static int visit_call(Profile *profile, const BpRelaxInstruction *call, const BpTensorView *last,
                      int64_t start, int64_t end) {
  int stop = profile->visit
                 ? profile->visit(profile->visitor, call, last, start - profile->begin, end - start)
                 : 0;
  if (stop)
    profile->visit = NULL;
  return stop < 0 ? -1 : 0;
}

/* The last tensor among the arguments of a call, which is its output: extents may follow it. NULL
 * if no argument is a tensor. */
static const BpTensorView *find_last_tensor(const BpValue *args, int32_t num_args) {
  const BpTensorView *last = NULL;
  for (int32_t i = num_args - 1; i >= 0 && !last; i--)
    last = bp_value_view_tensor(&args[i]);
  return last;
}

/* Waits for the work of all devices, and raises its failures. */
static int sync_devices(const BpRelaxMachine *machine) {
  for (uint32_t i = 0; i < machine->num_devices; i++)
    if (bp_stream_sync(machine->devices[i], NULL) < 0)
      return -1;
  return 0;
}

/* Calls a function while the devices do nothing else, and waits for its work. */
static int call_timed(const BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                      int32_t num_args, BpValue *result) {
  BpFunction *function = machine->callees[index].function;
  const BpRelaxInstruction *instruction = running.profile->call;
  if (sync_devices(machine) < 0)
    return -1;
  int64_t start = bp__graph_now_ns();
  if (function->call(function, args, num_args, result))
    return -1;
  if (sync_devices(machine) == 0 &&
      visit_call(running.profile, instruction, find_last_tensor(args, num_args), start,
                 bp__graph_now_ns()) == 0)
    return 0;
  bp_value_clear(result);
  return -1;
}

/* Makes the device of the last tensor the thread's current one of its type. */
static int choose_device(const BpValue *args, int32_t num_args) {
  const BpTensorView *last = find_last_tensor(args, num_args);
  return last && last->device.device_type != BP_DEVICE_CPU
             ? bp_device_set_current(last->device, NULL)
             : 0;
}

static int call_packed(const BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                       int32_t num_args, BpValue *result) {
  BpFunction *function = machine->callees[index].function;
  if (machine->is_switching && choose_device(args, num_args) < 0)
    return -1;
  return running.profile ? call_timed(machine, index, args, num_args, result)
                         : function->call(function, args, num_args, result);
}

static int call_function(BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                         int32_t num_args, BpValue *result) {
  const BpRelaxCallee *callee = &machine->callees[index];
  if (callee->builtin)
    return callee->builtin(machine, args, num_args, result);
  if (machine->executable->functions[index].kind == BP_RELAX_PACKED)
    return call_packed(machine, index, args, num_args, result);
  return call_own(machine, index, args, num_args, result);
}

/* ---- Entering ---------------------------------------------------------------------------- */

/* The functions of callees do not keep the machine alive, because the machine owns them. */
typedef struct Entry {
  BpRelaxMachine *machine;
  uint32_t index;
} Entry;

static int call_entry(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Entry *entry = ((BpClosure *)self)->context;
  return bp__relax_machine_call(entry->machine, NULL, entry->index, args, num_args, result);
}

static BpFunction *create_entry(BpRelaxMachine *machine, uint32_t index) {
  Entry *entry = malloc(sizeof(*entry));
  if (!entry) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a function");
    return NULL;
  }
  *entry = (Entry){machine, index};
  return bp_function_create(call_entry, entry, free);
}

/* Makes a result valid beyond the run, for the machine's caller. */
static int release_result(BpRelaxMachine *machine, BpValue *result) {
  if (result->type_index == BP_TYPE_FUNCTION && ((BpFunction *)result->v_obj)->call == call_entry) {
    BpFunction *own = bp__relax_bind_last(machine, (BpFunction *)result->v_obj, NULL, 0);
    bp_value_clear(result);
    if (!own)
      return -1;
    *result = (BpValue){.type_index = BP_TYPE_FUNCTION, .v_obj = &own->header};
  }
  if (result->type_index == BP_TYPE_TENSOR_VIEW || result->type_index == BP_TYPE_RAW_STR) {
    *result = (BpValue){.type_index = BP_TYPE_NONE};
    return bp_error_raise(BP_ERROR_TYPE, "the model returns an argument that was only lent to it; "
                                         "pass it as a tensor object");
  }
  return 0;
}

/* The devices and streams that were the thread's current ones before a call. */
typedef struct Current {
  BpDevice devices[BP_RELAX_MAX_DEVICES];
  void *streams[BP_RELAX_MAX_DEVICES];
  uint32_t count;
} Current;

/* Restores the current streams, the last one first. Keeps the thread's error. */
static int restore(const Current *before, int status) {
  BpError *error = bp_error_take();
  for (uint32_t i = before->count; i > 0; i--)
    if (bp_device_set_current(before->devices[i - 1], before->streams[i - 1]) < 0)
      bp_error_clear();
  if (error)
    bp_error_put(error);
  return status;
}

/* A call from outside the machine. */
typedef struct Run {
  BpRelaxMachine *machine;
  uint32_t index;
  const BpValue *args;
  int32_t num_args;
  BpValue *result;
} Run;

static int run_task(int task_id, BpParallelGroup *group, void *data) {
  const Run *run = data;
  (void)task_id;
  (void)group;
  return call_own(run->machine, run->index, run->args, run->num_args, run->result);
}

/* A run is a parallel launch of one task: its functions may launch in parallel as usual, and
 * denormals are flushed during the whole run, outside launches, too. */
static int run_flushed(BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                       int32_t num_args, BpValue *result) {
  Run run = {machine, index, args, num_args, result};
  return bp_parallel_launch(run_task, &run, 1);
}

/* The first device comes last, so it is the current one of its type. */
static int call_on_devices(BpRelaxMachine *machine, uint32_t index, const BpValue *args,
                           int32_t num_args, BpValue *result) {
  Current before;
  before.count = 0;
  for (uint32_t i = machine->num_devices; i > 0; i--) {
    BpDevice device = machine->devices[i - 1], *old = &before.devices[before.count];
    if (device.device_type == BP_DEVICE_CPU)
      continue;
    *old = device;
    bp_device_get_current(device.device_type, &old->device_id, &before.streams[before.count]);
    if (bp_device_set_current(device, NULL) < 0)
      return restore(&before, -1);
    before.count++;
  }
  return restore(&before, run_flushed(machine, index, args, num_args, result));
}

static BpRelaxWorkspace *take_workspace(BpRelaxMachine *machine) {
  bp__relax_lock();
  BpRelaxWorkspace *workspace = bp__relax_workspace_pop(&machine->idle);
  bp__relax_unlock();
  return workspace ? workspace : bp__relax_workspace_create(machine->executable);
}

static void give_workspace(BpRelaxMachine *machine, BpRelaxWorkspace *workspace) {
  bp__relax_lock();
  machine->idle = bp__relax_workspace_push(machine->idle, workspace);
  bp__relax_unlock();
}

/* Raises the errors of failed work if there are several devices beside the host: the caller waits
 * for only one of them, and copies between devices raise no errors. */
static int wait_for_devices(const BpRelaxMachine *machine) {
  return machine->num_devices > 2 ? sync_devices(machine) : 0;
}

/* Runs a function from outside the machine. A run has its own workspace and its own profile, or
 * none: a visitor or a called function may run a machine in the middle of another run. */
static int call_from_outside(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, Profile *profile,
                             uint32_t index, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  BpRelaxMachine *machine_before = running.machine;
  Profile *profile_before = running.profile;
  BpRelaxWorkspace *workspace_before = bp__relax_workspace_use(workspace);
  running.machine = machine;
  running.profile = profile;
  int status = call_on_devices(machine, index, args, num_args, result);
  if (status == 0 && wait_for_devices(machine) < 0) {
    bp_value_clear(result);
    status = -1;
  }
  running.machine = machine_before;
  running.profile = profile_before;
  bp__relax_workspace_use(workspace_before);
  return status ? status : release_result(machine, result);
}

int bp__relax_machine_call(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                           const BpValue *args, int32_t num_args, BpValue *result) {
  if (workspace)
    return call_from_outside(machine, workspace, NULL, index, args, num_args, result);
  if (running.machine == machine)
    return call_own(machine, index, args, num_args, result);
  BpRelaxWorkspace *own = take_workspace(machine);
  if (!own)
    return -1;
  int status = call_from_outside(machine, own, NULL, index, args, num_args, result);
  give_workspace(machine, own);
  return status;
}

int bp__relax_machine_profile(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                              const BpValue *args, int32_t num_args, BpRelaxVisitor visit,
                              void *visitor, BpValue *result) {
  Profile profile = {NULL, visit, visitor, bp__graph_now_ns()};
  return call_from_outside(machine, workspace, &profile, index, args, num_args, result);
}

/* ---- Binding arguments ------------------------------------------------------------------- */

typedef struct Bound {
  BpFunction *function;
  int32_t num_args;
  BpValue args[];
} Bound;

static void free_bound(void *context) {
  Bound *bound = context;
  for (int32_t i = 0; i < bound->num_args; i++)
    bp_value_clear(&bound->args[i]);
  bp_object_release(bound->function);
  free(bound);
}

static int call_bound(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Bound *bound = ((BpClosure *)self)->context;
  size_t given = num_args > 0 ? (size_t)num_args : 0, more = (size_t)bound->num_args;
  if (!more)
    return bp_function_call(bound->function, args, num_args, result);
  BpValue *all = malloc((given + more) * sizeof(*all));
  if (!all)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the arguments of a closure");
  if (given)
    memcpy(all, args, given * sizeof(*all));
  memcpy(all + given, bound->args, more * sizeof(*all));
  int status = bp_function_call(bound->function, all, (int32_t)(given + more), result);
  free(all);
  return status;
}

BpFunction *bp__relax_bind_last(BpRelaxMachine *machine, BpFunction *function, const BpValue *args,
                                int32_t num_args) {
  Bound *bound = calloc(1, sizeof(*bound) + (size_t)num_args * sizeof(*args));
  if (!bound) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a closure");
    return NULL;
  }
  bound->function = bp_object_retain(function);
  for (; bound->num_args < num_args; bound->num_args++) {
    BpValue *value = &bound->args[bound->num_args];
    keep(value, &args[bound->num_args]);
    if (release_result(machine, value)) {
      free_bound(bound);
      return NULL;
    }
  }
  return bp_module_function_create(machine->self, call_bound, bound, free_bound);
}

/* ---- Moving ------------------------------------------------------------------------------ */

int bp__relax_copy_into(const BpTensorView *from, const BpTensorView *to) {
  if (to->device.device_type == BP_DEVICE_CPU)
    return bp_tensor_copy_to_host(from, to->data, (uint64_t)bp_view_num_bytes(from));
  return bp_tensor_copy_between(from, to, NULL, NULL);
}

BpTensor *bp__relax_copy(BpTensor *tensor, BpDevice device, const char *mem_scope) {
  const BpTensorView *view = &tensor->view;
  BpTensor *copy = bp_tensor_create(view->shape, view->ndim, view->dtype, device, mem_scope);
  if (!copy)
    return NULL;
  if (bp__relax_copy_into(view, &copy->view) == 0)
    return copy;
  bp_object_release(copy);
  return NULL;
}

BpTensor *bp__relax_to_device(BpTensor *tensor, BpDevice device, const char *mem_scope) {
  if (!memcmp(&tensor->view.device, &device, sizeof(device)) && !mem_scope)
    return bp_object_retain(tensor);
  return bp__relax_copy(tensor, device, mem_scope);
}

/* ---- Making ------------------------------------------------------------------------------ */

static int place_constants(BpRelaxMachine *machine) {
  const BpRelaxExecutable *executable = machine->executable;
  for (uint32_t i = 0; i < executable->num_constants; i++) {
    const BpValue *value = &executable->constants[i];
    if (value->type_index != BP_TYPE_TENSOR) {
      keep(&machine->constants[i], value);
      continue;
    }
    BpTensor *tensor =
        bp__relax_to_device((BpTensor *)value->v_obj, machine->devices[0], executable->scopes[i]);
    if (!tensor)
      return bp_error_add_context("constant %u of the model", i);
    machine->constants[i] = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  }
  return bp_stream_sync(machine->devices[0], NULL);
}

/* Finds a function in the imports; *function is NULL if no import has it. */
static int find_import(BpRelaxMachine *machine, const char *name, BpFunction **function) {
  size_t num_imports = bp_module_num_imports(machine->code);
  *function = NULL;
  for (size_t i = 0; i < num_imports && !*function; i++)
    if (bp_module_get_function(bp_module_get_import(machine->code, i), name, 1, function) < 0)
      return -1;
  return 0;
}

/* Whether a kind is in a list such as "a, b". */
static int is_listed(const char *kinds, const char *kind) {
  size_t length = strlen(kind);
  for (const char *at = kinds; length && (at = strstr(at, kind)); at += length)
    if ((at == kinds || at[-1] == ' ') && (at[length] == ',' || !at[length]))
      return 1;
  return 0;
}

/* Appends the kinds of the modules below that no installed plugin loads, each once. The functions
 * of a module that is not loaded are unknown. */
static size_t list_absent(BpModule *module, int depth, char *kinds, size_t size, size_t used) {
  for (size_t i = 0; i < bp_module_num_imports(module) && used < size; i++) {
    BpModule *import = bp_module_get_import(module, i);
    if (!(bp_module_get_property(import) & BP_MODULE_RUNNABLE) &&
        !is_listed(kinds, bp_module_kind(import)))
      used += (size_t)snprintf(kinds + used, size - used, "%s%s", used ? ", " : "",
                               bp_module_kind(import));
    if (depth > 0)
      used = list_absent(import, depth - 1, kinds, size, used);
  }
  return used;
}

static int raise_missing(const BpRelaxMachine *machine, const char *name) {
  char kinds[256] = "";
  if (list_absent(machine->code, 2, kinds, sizeof(kinds), 0) > 0)
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "the model calls '%s', which is neither in its library nor in the "
                          "registry, and nothing here runs the library's modules of kind %s; "
                          "install the plugin that does, or build the model without them",
                          name, kinds);
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "the model calls '%s', which is neither in its library nor in the "
                        "registry; register it, or install the plugin that provides it",
                        name);
}

/* Finds a packed function: in the imports, then among the machine's own functions, then in the
 * registry. */
static int find_packed(BpRelaxMachine *machine, const char *name, BpRelaxCallee *callee) {
  if (find_import(machine, name, &callee->function) < 0)
    return -1;
  if (callee->function)
    return 0;
  callee->builtin = bp__relax_builtin_find(name);
  if (bp_registry_get(name, &callee->function) < 0)
    return -1;
  return callee->function ? 0 : raise_missing(machine, name);
}

static int find_compiled(BpRelaxMachine *machine, const char *name, BpRelaxCallee *callee) {
  char *symbol;
  if (asprintf(&symbol, "__vmtir__%s", name) < 0)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a function's name");
  int status = find_import(machine, symbol, &callee->compiled);
  if (status == 0 && !callee->compiled)
    status = raise_missing(machine, symbol);
  free(symbol);
  return status;
}

static int find_function(BpRelaxMachine *machine, uint32_t index) {
  const BpRelaxFunction *function = &machine->executable->functions[index];
  BpRelaxCallee *callee = &machine->callees[index];
  if (function->kind == BP_RELAX_PACKED) {
    if (find_packed(machine, function->name, callee) < 0)
      return -1;
  } else if ((function->kind == BP_RELAX_COMPILED &&
              find_compiled(machine, function->name, callee) < 0) ||
             !(callee->function = create_entry(machine, index))) {
    return -1;
  }
  machine->functions[index] =
      (BpValue){.type_index = BP_TYPE_FUNCTION, .v_obj = &callee->function->header};
  return 0;
}

static int add_devices(BpRelaxMachine *machine, const BpDevice *devices, uint32_t num_devices) {
  if (!num_devices || num_devices >= BP_RELAX_MAX_DEVICES)
    return bp_error_raise(BP_ERROR_VALUE, "a model runs on 1 to %d devices, not %u",
                          BP_RELAX_MAX_DEVICES - 1, num_devices);
  memcpy(machine->devices, devices, num_devices * sizeof(*devices));
  if (devices[num_devices - 1].device_type != BP_DEVICE_CPU)
    machine->devices[num_devices++] = (BpDevice){BP_DEVICE_CPU, 0};
  for (uint32_t i = 0; i < num_devices; i++)
    for (uint32_t k = 0; k < i; k++)
      machine->is_switching |= machine->devices[i].device_type != BP_DEVICE_CPU &&
                               machine->devices[i].device_type == machine->devices[k].device_type;
  for (; machine->num_devices < num_devices; machine->num_devices++) {
    BpRelaxPool *pool = bp__relax_pool_create(machine->devices[machine->num_devices]);
    if (!pool)
      return -1;
    machine->pools[machine->num_devices] = pool;
  }
  return 0;
}

static int build(BpRelaxMachine *machine, const BpDevice *devices, uint32_t num_devices) {
  const BpRelaxExecutable *executable = machine->executable;
  machine->constants = calloc((size_t)executable->num_constants + 1, sizeof(BpValue));
  machine->callees = calloc((size_t)executable->num_functions + 1, sizeof(BpRelaxCallee));
  machine->functions = calloc((size_t)executable->num_functions + 1, sizeof(BpValue));
  if (!machine->constants || !machine->callees || !machine->functions)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax machine");
  if (add_devices(machine, devices, num_devices) < 0)
    return -1;
  for (uint32_t i = 0; i < executable->num_functions; i++)
    if (find_function(machine, i) < 0)
      return -1;
  return place_constants(machine);
}

BpRelaxMachine *bp__relax_machine_create(const BpRelaxExecutable *executable, BpModule *code,
                                         BpModule *self, const BpDevice *devices,
                                         uint32_t num_devices) {
  BpRelaxMachine *machine = calloc(1, sizeof(*machine));
  if (!machine) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax machine");
    return NULL;
  }
  machine->executable = executable;
  machine->code = bp_object_retain(code);
  machine->self = self;
  if (build(machine, devices, num_devices) == 0)
    return machine;
  bp__relax_machine_free(machine);
  return NULL;
}

static void free_callee(BpRelaxCallee *callee) {
  bp_object_release(callee->compiled);
  bp_object_release(callee->function);
}

void bp__relax_machine_free(BpRelaxMachine *machine) {
  if (!machine)
    return;
  const BpRelaxExecutable *executable = machine->executable;
  for (uint32_t i = 0; machine->constants && i < executable->num_constants; i++)
    bp_value_clear(&machine->constants[i]);
  for (uint32_t i = 0; machine->callees && i < executable->num_functions; i++)
    free_callee(&machine->callees[i]);
  for (BpRelaxWorkspace *idle; (idle = bp__relax_workspace_pop(&machine->idle));)
    bp__relax_workspace_free(idle);
  for (uint32_t i = 0; i < machine->num_devices; i++)
    bp__relax_pool_release(machine->pools[i]);
  free(machine->constants);
  free(machine->callees);
  free(machine->functions);
  bp_object_release(machine->code);
  free(machine);
}
