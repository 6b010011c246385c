/* SPDX-License-Identifier: Apache-2.0 */
/* Two kinds of modules: the executable, and the machine that runs it. */
#include "graph/relax/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/relax.h>

#include "graph/io/argument.h"
#include "graph/io/stream.h"
#include "graph/relax/builtin.h"
#include "graph/relax/model.h"

/* ---- The machine ------------------------------------------------------------------------- */

/* The inputs and results that set_input and invoke_stateful keep for a function. */
typedef struct State {
  BpValue *inputs; /* NULL if no inputs were set */
  BpValue output;
  int has_output;
} State;

typedef struct MachineModule {
  BpModule *module;        /* module that owns the context; borrowed */
  BpModule *executable;    /* module of the executable, retained */
  BpRelaxMachine *machine; /* NULL before vm_initialization */
  State *states;           /* state of each function */
} MachineModule;

/* The module's context, to which a method is bound and which the method keeps alive. */
static MachineModule *self_of(void *closure) {
  return ((BpClosure *)closure)->context;
}

static void clear_inputs(State *state, const BpRelaxFunction *function) {
  for (uint32_t i = 0; state->inputs && i < function->num_args; i++)
    bp_value_clear(&state->inputs[i]);
  free(state->inputs);
  state->inputs = NULL;
}

static void destroy_machine(void *context) {
  MachineModule *self = context;
  const BpRelaxExecutable *executable = bp__relax_module_executable(self->executable);
  for (uint32_t i = 0; self->states && i < executable->num_functions; i++) {
    clear_inputs(&self->states[i], &executable->functions[i]);
    bp_value_clear(&self->states[i].output);
  }
  free(self->states);
  bp__relax_machine_free(self->machine);
  bp_object_release(self->executable);
  free(self);
}

/* Checks the devices; some of several may only serve host code. */
static int check_devices(BpModule *executable, const BpDevice *devices, uint32_t count) {
  for (uint32_t i = count; i > 1; i--) {
    if (bp__code_check_device(executable, devices[i - 1]) == 0)
      return 0;
    bp_error_clear();
  }
  return bp__code_check_device(executable, devices[0]);
}

static int initialize_machine(MachineModule *self, const BpDevice *devices, uint32_t count) {
  const BpRelaxExecutable *executable = bp__relax_module_executable(self->executable);
  if (self->machine)
    return bp_error_raise(BP_ERROR_RUNTIME, "the machine is initialized already");
  if (check_devices(self->executable, devices, count) < 0)
    return -1;
  self->states = calloc((size_t)executable->num_functions + 1, sizeof(*self->states));
  if (!self->states)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax machine");
  self->machine =
      bp__relax_machine_create(executable, self->executable, self->module, devices, count);
  if (self->machine)
    return 0;
  free(self->states);
  self->states = NULL;
  return -1;
}

static int check_initialized(const MachineModule *self) {
  if (self->machine)
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "the machine has no device yet; call vm_initialization first");
}

/* ---- Methods ----------------------------------------------------------------------------- */

/* Arguments: (device type, device index, allocator) for each device */
static int vm_initialization(void *closure, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  MachineModule *self = self_of(closure);
  BpDevice devices[BP_RELAX_MAX_DEVICES];
  (void)result;
  if (num_args < 3 || num_args % 3 || num_args / 3 >= BP_RELAX_MAX_DEVICES)
    return bp_error_raise(BP_ERROR_TYPE,
                          "vm_initialization takes device type, device index and allocator for "
                          "each of 1 to %d devices",
                          BP_RELAX_MAX_DEVICES - 1);
  for (int32_t i = 0; i < num_args; i++)
    if (args[i].type_index != BP_TYPE_INT)
      return bp_error_raise(BP_ERROR_TYPE, "vm_initialization takes numbers");
  for (int32_t i = 0; i < num_args / 3; i++)
    devices[i] = (BpDevice){(int32_t)args[3 * i].v_int64, (int32_t)args[3 * i + 1].v_int64};
  return initialize_machine(self, devices, (uint32_t)num_args / 3);
}

/* Finds the function that the first argument names: bytecode or compiled. */
static int find_function(const MachineModule *self, const BpValue *args, int32_t num_args,
                         uint32_t *index) {
  const BpRelaxExecutable *executable = bp__relax_module_executable(self->executable);
  BpByteArray name;
  if (num_args < 1 || bp_value_view_str(&args[0], &name) < 0)
    return bp_error_raise(BP_ERROR_TYPE, "the first argument is the name of a function");
  for (uint32_t i = 0; i < executable->num_functions; i++) {
    const BpRelaxFunction *function = &executable->functions[i];
    if (function->kind != BP_RELAX_PACKED && strlen(function->name) == name.size &&
        !memcmp(function->name, name.data, name.size)) {
      *index = i;
      return 0;
    }
  }
  return bp_error_raise(BP_ERROR_NOT_FOUND, "the model has no function '%.*s'", (int)name.size,
                        name.data);
}

/* Copies a value that is to be kept, by way of a list, which rejects values that cannot be kept. */
static int keep_value(const BpValue *value, BpValue *kept) {
  BpArray *array = bp_array_create(value, 1);
  if (!array)
    return -1;
  *kept = array->data[0];
  array->data[0] = (BpValue){.type_index = BP_TYPE_NONE};
  bp_object_release(array);
  return 0;
}

/* Prepares an argument that is to be kept: copies views, and moves tensors to the device. */
static int place_input(const MachineModule *self, const BpValue *value, BpValue *placed) {
  BpDevice device = self->machine->devices[0];
  BpTensor *tensor = NULL;
  if (value->type_index == BP_TYPE_TENSOR_VIEW) {
    BpTensor *wrapped = bp_tensor_wrap(value->v_view, NULL, NULL);
    tensor = wrapped ? bp__relax_copy(wrapped, device, NULL) : NULL;
    bp_object_release(wrapped);
  } else if (value->type_index == BP_TYPE_TENSOR) {
    tensor = bp__relax_to_device((BpTensor *)value->v_obj, device, NULL);
  } else {
    return keep_value(value, placed);
  }
  if (!tensor)
    return -1;
  *placed = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  return 0;
}

/* Arguments: (function, arguments) */
static int set_input(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  MachineModule *self = self_of(closure);
  uint32_t index;
  (void)result;
  if (check_initialized(self) < 0 || find_function(self, args, num_args, &index) < 0)
    return -1;
  const BpRelaxFunction *function = &self->machine->executable->functions[index];
  State *state = &self->states[index];
  if ((uint32_t)num_args - 1 != function->num_args)
    return bp_error_raise(BP_ERROR_TYPE, "'%s' takes %u arguments, and %d were given",
                          function->name, function->num_args, num_args - 1);
  clear_inputs(state, function);
  state->inputs = calloc((size_t)num_args, sizeof(*state->inputs));
  if (!state->inputs)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the arguments of '%s'", function->name);
  for (uint32_t i = 0; i < function->num_args; i++)
    if (place_input(self, &args[1 + i], &state->inputs[i]) < 0) {
      clear_inputs(state, function);
      return bp_error_add_context("argument %u of '%s'", i, function->name);
    }
  return 0;
}

static int invoke_stateful(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  MachineModule *self = self_of(closure);
  uint32_t index;
  BpValue output = {.type_index = BP_TYPE_NONE};
  (void)result;
  if (check_initialized(self) < 0 || find_function(self, args, num_args, &index) < 0)
    return -1;
  State *state = &self->states[index];
  const BpRelaxFunction *function = &self->machine->executable->functions[index];
  if (!state->inputs)
    return bp_error_raise(BP_ERROR_VALUE, "'%s' has no arguments yet; call set_input first",
                          function->name);
  if (bp__relax_machine_call(self->machine, NULL, index, state->inputs, (int32_t)function->num_args,
                             &output))
    return -1;
  bp_value_clear(&state->output);
  state->output = output;
  state->has_output = 1;
  return 0;
}

/* Finds the output of a function, or the item of it at the indices in the further arguments. */
static const BpValue *find_output(const MachineModule *self, const BpValue *args,
                                  int32_t num_args) {
  uint32_t index;
  if (check_initialized(self) < 0 || find_function(self, args, num_args, &index) < 0)
    return NULL;
  const State *state = &self->states[index];
  const BpValue *value = &state->output;
  if (!state->has_output) {
    bp_error_raise(BP_ERROR_VALUE, "'%s' has no output yet; call invoke_stateful first",
                   self->machine->executable->functions[index].name);
    return NULL;
  }
  for (int32_t i = 1; i < num_args; i++) {
    if (value->type_index != BP_TYPE_ARRAY || args[i].type_index != BP_TYPE_INT ||
        args[i].v_int64 < 0 || args[i].v_int64 >= ((const BpArray *)value->v_obj)->size) {
      bp_error_raise(BP_ERROR_INDEX, "the output has no such item");
      return NULL;
    }
    value = &((const BpArray *)value->v_obj)->data[args[i].v_int64];
  }
  return value;
}

static int get_output(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  MachineModule *self = self_of(closure);
  const BpValue *value = find_output(self, args, num_args);
  if (!value)
    return -1;
  if (value->type_index >= BP_TYPE_OBJECT)
    bp_object_retain(value->v_obj);
  *result = *value;
  return 0;
}

static int get_output_arity(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  MachineModule *self = self_of(closure);
  const BpValue *value = find_output(self, args, num_args);
  if (!value)
    return -1;
  *result = (BpValue){
      .type_index = BP_TYPE_INT,
      .v_int64 = value->type_index == BP_TYPE_ARRAY ? ((const BpArray *)value->v_obj)->size : -1};
  return 0;
}

static int get_function_arity(void *closure, const BpValue *args, int32_t num_args,
                              BpValue *result) {
  MachineModule *self = self_of(closure);
  uint32_t index;
  if (find_function(self, args, num_args, &index) < 0)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_INT,
                      .v_int64 =
                          bp__relax_module_executable(self->executable)->functions[index].num_args};
  return 0;
}

static int get_function_param_name(void *closure, const BpValue *args, int32_t num_args,
                                   BpValue *result) {
  MachineModule *self = self_of(closure);
  uint32_t index;
  if (find_function(self, args, num_args, &index) < 0)
    return -1;
  const BpRelaxFunction *function =
      &bp__relax_module_executable(self->executable)->functions[index];
  if (num_args != 2 || args[1].type_index != BP_TYPE_INT || args[1].v_int64 < 0 ||
      args[1].v_int64 >= function->num_params)
    return bp_error_raise(BP_ERROR_INDEX, "'%s' names %u parameters", function->name,
                          function->num_params);
  const char *name = function->param_names[args[1].v_int64];
  return bp_value_make_str(result, name, strlen(name));
}

static const struct {
  const char *name;
  BpPackedCall call;
} methods[] = {
    {"vm_initialization", vm_initialization},
    {"set_input", set_input},
    {"invoke_stateful", invoke_stateful},
    {"get_output", get_output},
    {"get_output_arity", get_output_arity},
    {"get_function_arity", get_function_arity},
    {"get_function_param_name", get_function_param_name},
};
#define NUM_METHODS (sizeof(methods) / sizeof(methods[0]))

/* ---- Functions of the machine ------------------------------------------------------------ */

/* A function of the machine as a packed function. */
typedef struct Entry {
  BpRelaxMachine *machine; /* outlives the function, which keeps the module alive */
  uint32_t index;
} Entry;

static int call_entry(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  const Entry *entry = ((BpClosure *)function)->context;
  return bp__relax_machine_call(entry->machine, NULL, entry->index, args, num_args, result);
}

static BpFunction *create_entry(const MachineModule *self, uint32_t index) {
  Entry *entry = malloc(sizeof(*entry));
  if (!entry) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a function");
    return NULL;
  }
  *entry = (Entry){self->machine, index};
  return bp_module_function_create(self->module, call_entry, entry, free);
}

static int get_machine_function(void *context, const char *name, BpFunction **function) {
  MachineModule *self = context;
  *function = NULL;
  for (size_t i = 0; i < NUM_METHODS; i++)
    if (strcmp(methods[i].name, name) == 0) {
      *function = bp_module_function_create(self->module, methods[i].call, self, NULL);
      return *function ? 0 : -1;
    }
  const BpRelaxExecutable *executable = bp__relax_module_executable(self->executable);
  int64_t index = bp__relax_executable_find(executable, name);
  if (index < 0 || executable->functions[index].kind == BP_RELAX_PACKED)
    return 0;
  *function = check_initialized(self) < 0 ? NULL : create_entry(self, (uint32_t)index);
  return *function ? 0 : -1;
}

static int visit_machine_functions(void *context,
                                   int32_t (*visit)(void *visitor, const char *name,
                                                    const char *signature),
                                   void *visitor) {
  MachineModule *self = context;
  const BpRelaxExecutable *executable = bp__relax_module_executable(self->executable);
  for (uint32_t i = 0; i < executable->num_functions; i++)
    if (executable->functions[i].kind != BP_RELAX_PACKED &&
        visit(visitor, executable->functions[i].name, NULL))
      return 0;
  for (size_t i = 0; i < NUM_METHODS; i++)
    if (visit(visitor, methods[i].name, NULL))
      break;
  return 0;
}

static int get_machine_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE;
  return 0;
}

static const BpModuleApi machine_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "relax.VirtualMachine",
    .get_function = get_machine_function,
    .get_property = get_machine_property,
    .visit_functions = visit_machine_functions,
    .destroy = destroy_machine,
};

BpRelaxMachine *bp__relax_module_machine(BpModule *module) {
  MachineModule *self = bp_module_get_context(module, &machine_api);
  return self ? self->machine : NULL;
}

/* Makes the module of a machine that has no device yet. */
static MachineModule *create_machine_module(BpModule *executable) {
  MachineModule *self = calloc(1, sizeof(*self));
  if (!self) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax machine");
    return NULL;
  }
  self->executable = bp_object_retain(executable);
  BpModule *module = bp_module_create(&machine_api, self);
  if (!module)
    return NULL;
  self->module = module;
  return self;
}

BpModule *bp__relax_machine_module_create(BpModule *executable, const BpDevice *devices,
                                          uint32_t num_devices) {
  MachineModule *self = create_machine_module(executable);
  if (!self)
    return NULL;
  if (initialize_machine(self, devices, num_devices) == 0)
    return self->module;
  bp_object_release(self->module);
  return NULL;
}

BpModule *bp_relax_machine_create(BpModule *executable, BpDevice device) {
  if (!BP_NOT_NULL(executable) || bp_graph_initialize() < 0)
    return NULL;
  if (!bp__relax_module_executable(executable)) {
    bp_error_raise(BP_ERROR_TYPE,
                   "a Relax machine runs a module of kind " BP_RELAX_EXECUTABLE_KIND
                   ", and this one is of kind '%s'",
                   bp_module_kind(executable));
    return NULL;
  }
  return bp__relax_machine_module_create(executable, &device, 1);
}

/* ---- The executable ---------------------------------------------------------------------- */

typedef struct ExecutableModule {
  BpModule *module; /* module that owns the context; borrowed */
  BpRelaxExecutable *executable;
  /* The `size` bytes from which the executable was read, for saving it again: in `whole`, after
   * BP_RELAX_HEAD bytes; or in `rest`, without the data of tensors, which the executable's
   * constants have. */
  BpTensor *whole;
  char *rest;
  size_t size;
} ExecutableModule;

static void destroy_executable(void *context) {
  ExecutableModule *self = context;
  bp__relax_executable_free(self->executable);
  bp_tensor_release(self->whole);
  free(self->rest);
  free(self);
}

static int call_vm_load_executable(void *function, const BpValue *args, int32_t num_args,
                                   BpValue *result) {
  const ExecutableModule *self = ((BpClosure *)function)->context;
  (void)args;
  (void)num_args;
  MachineModule *machine = create_machine_module(self->module);
  if (!machine)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)machine->module};
  return 0;
}

static int get_executable_function(void *context, const char *name, BpFunction **function) {
  ExecutableModule *self = context;
  int64_t index = bp__relax_executable_find(self->executable, name);
  *function = NULL;
  if (index >= 0 && self->executable->functions[index].kind != BP_RELAX_PACKED)
    return bp_error_raise(BP_ERROR_VALUE,
                          "'%s' is a function of a Relax executable, which has no device: call "
                          "it " BP_RELAX_BY_MACHINE,
                          name);
  if (strcmp(name, "vm_load_executable") != 0)
    return 0;
  *function = bp_module_function_create(self->module, call_vm_load_executable, self, NULL);
  return *function ? 0 : -1;
}

static int visit_executable_functions(void *context,
                                      int32_t (*visit)(void *visitor, const char *name,
                                                       const char *signature),
                                      void *visitor) {
  const BpRelaxExecutable *executable = ((const ExecutableModule *)context)->executable;
  for (uint32_t i = 0; i < executable->num_functions; i++)
    if (executable->functions[i].kind != BP_RELAX_PACKED &&
        visit(visitor, executable->functions[i].name, NULL))
      return 0;
  visit(visitor, "vm_load_executable", NULL);
  return 0;
}

static int get_executable_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

/* The next tensor among the constants from *index on, and the range of its data in the saved bytes;
 * NULL after the last. */
static const BpTensorView *next_tensor(const BpRelaxExecutable *executable, uint32_t *index,
                                       size_t *begin, size_t *end) {
  while (*index < executable->num_constants && !executable->data_ends[*index])
    ++*index;
  if (*index == executable->num_constants)
    return NULL;
  const BpTensorView *view = bp_value_view_tensor(&executable->constants[*index]);
  *end = executable->data_ends[(*index)++];
  *begin = *end - (size_t)bp_view_num_bytes(view);
  return view;
}

static void join_bytes(const ExecutableModule *self, char *bytes) {
  const char *rest = self->rest;
  const BpTensorView *view;
  size_t at = 0, begin, end;
  for (uint32_t i = 0; (view = next_tensor(self->executable, &i, &begin, &end)); at = end) {
    memcpy(bytes + at, rest, begin - at);
    rest += begin - at;
    if (end > begin)
      memcpy(bytes + begin, (const char *)view->data + view->byte_offset, end - begin);
  }
  memcpy(bytes + at, rest, self->size - at);
}

static int keep_rest(ExecutableModule *self, const BpByteArray *bytes) {
  size_t at = 0, kept = 0, begin, end, data = 0;
  for (uint32_t i = 0; next_tensor(self->executable, &i, &begin, &end);)
    data += end - begin;
  self->rest = malloc(bytes->size - data + 1);
  if (!self->rest)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax executable");
  for (uint32_t i = 0; next_tensor(self->executable, &i, &begin, &end); at = end) {
    memcpy(self->rest + kept, bytes->data + at, begin - at);
    kept += begin - at;
  }
  memcpy(self->rest + kept, bytes->data + at, bytes->size - at);
  return 0;
}

/* Frees bytes in a tensor, which begins with its own address. */
static void free_whole(void *data) {
  bp_tensor_release(*(BpTensor **)(void *)((char *)data - BP_RELAX_HEAD));
}

static int save_executable(void *context, BpOwnedBytes *bytes) {
  const ExecutableModule *self = context;
  if (self->whole) {
    BpTensor *whole = bp_object_retain(self->whole);
    *bytes = (BpOwnedBytes){(char *)whole->view.data + BP_RELAX_HEAD, self->size, free_whole};
    return 0;
  }
  char *data = malloc(self->size + 1);
  *bytes = (BpOwnedBytes){data, self->size, free};
  if (!data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu bytes of a Relax executable",
                          self->size);
  join_bytes(self, data);
  return 0;
}

static const BpModuleApi executable_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = BP_RELAX_EXECUTABLE_KIND,
    .get_function = get_executable_function,
    .get_property = get_executable_property,
    .save_to_bytes = save_executable,
    .visit_functions = visit_executable_functions,
    .destroy = destroy_executable,
};

const BpRelaxExecutable *bp__relax_module_executable(BpModule *module) {
  ExecutableModule *self = bp_module_get_context(module, &executable_api);
  return self ? self->executable : NULL;
}

/* ---- Loading ----------------------------------------------------------------------------- */

/* Names, in one error, all functions vm.builtin.* that an executable calls and that do not
 * exist. */
static int check_builtins(const BpRelaxExecutable *executable) {
  char names[1024] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < executable->num_functions; i++) {
    const BpRelaxFunction *function = &executable->functions[i];
    BpFunction *found = NULL;
    if (function->kind != BP_RELAX_PACKED ||
        strncmp(function->name, BP_RELAX_BUILTIN_PREFIX, strlen(BP_RELAX_BUILTIN_PREFIX)) != 0 ||
        bp__relax_builtin_find(function->name))
      continue;
    if (bp_registry_get(function->name, &found) < 0)
      return -1;
    if (!found && used < sizeof(names))
      used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
                               function->name);
    bp_object_release(found);
  }
  if (!used)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "the model needs %s, which this version does not have; compile it without "
                        "them, or register functions of these names",
                        names);
}

static int read_executable(ExecutableModule *self, const BpByteArray *bytes, BpObject *owner) {
  self->executable = bp__relax_executable_read(bytes, owner);
  return self->executable ? check_builtins(self->executable) : -1;
}

/* Makes a module of an executable, whose bytes are kept in `whole` if that is given. */
static BpModule *make_executable(const BpByteArray *bytes, BpObject *owner, BpTensor *whole) {
  ExecutableModule *self = calloc(1, sizeof(*self));
  if (!self) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a Relax executable");
    return NULL;
  }
  self->size = bytes->size;
  self->whole = whole ? bp_object_retain(whole) : NULL;
  if (read_executable(self, bytes, owner) < 0 || (!whole && keep_rest(self, bytes) < 0)) {
    destroy_executable(self);
    return NULL;
  }
  BpModule *module = bp_module_create(&executable_api, self);
  if (module)
    self->module = module;
  return module;
}

BpModule *bp__relax_module_read(const BpByteArray *bytes, BpObject *owner) {
  return make_executable(bytes, owner, NULL);
}

BpModule *bp__relax_module_take(BpTensor *whole) {
  char *data = whole->view.data;
  BpByteArray bytes = {data + BP_RELAX_HEAD, (size_t)whole->view.shape[0] - BP_RELAX_HEAD};
  *(BpTensor **)(void *)data = whole;
  return make_executable(&bytes, &whole->header, whole);
}

/* The global function runtime.module.loadbinary_relax.VMExecutable. */
static int load_executable(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)function;
  if (num_args < 1 || bp_value_view_str(&args[0], &bytes) < 0)
    return bp_error_raise(BP_ERROR_TYPE, "the loader of " BP_RELAX_EXECUTABLE_KIND " takes bytes");
  BpModule *module = bp__relax_module_read(&bytes, bp__stream_owner(args, num_args));
  if (!module)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)module};
  return 0;
}

int bp__relax_register(void) {
  BpFunction *loader = bp_function_create(load_executable, NULL, NULL);
  if (!loader)
    return -1;
  int status = bp_registry_set("runtime.module.loadbinary_" BP_RELAX_EXECUTABLE_KIND, loader, 1);
  bp_object_release(loader);
  return status < 0 ? -1 : bp__relax_builtin_register();
}
