/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of the simulated device: functions that queue an operation on the stream that is current
 * in the thread that calls them. */

#include "tests/mock/simdev.h"

#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_MAX 16
#define ARGS          5 /* in, out, n, blockIdx.x, threadIdx.x */

typedef const char *(*Operation)(SimCommand *command);

typedef struct Function {
  char name[64];
  Operation operation;
} Function;

typedef struct Module {
  BpModule *self; /* borrowed: the module outlives its context's users */
  Function functions[FUNCTIONS_MAX];
  int32_t num_functions;
  BpOwnedBytes bytes;
} Module;

/* ---- Operations, run by a stream's thread ------------------------------------------------ */

static const char *add_one(SimCommand *command) {
  const float *in =
      (const float *)(const void *)(command->buffers[0]->memory + command->offsets[0]);
  float *out = (float *)(void *)(command->buffers[1]->memory + command->offsets[1]);
  for (int64_t i = 0; i < command->count; i++)
    out[i] = in[i] + 1;
  return NULL;
}

static const char *fail(SimCommand *command) {
  (void)command;
  return "the operation fail failed on the device, as it should";
}

static const struct {
  const char *name;
  Operation operation;
} operations[] = {{"add_one", add_one}, {"fail", fail}};

/* ---- Calls ------------------------------------------------------------------------------- */

static int32_t get_buffer(const BpValue *arg, int32_t device_id, SimBuffer **buffer,
                          uint64_t *offset) {
  const void *handle = NULL;
  *offset = 0;
  if (arg->type_index == BP_TYPE_POINTER) {
    handle = arg->v_ptr;
  } else if (arg->type_index == BP_TYPE_TENSOR_VIEW || arg->type_index == BP_TYPE_TENSOR) {
    const BpTensorView *view =
        arg->type_index == BP_TYPE_TENSOR ? &((BpTensor *)(void *)arg->v_obj)->view : arg->v_view;
    handle = view->data;
    *offset = view->byte_offset;
  } else {
    return sim_host.error->raise(BP_ERROR_TYPE, "a buffer is a handle or a tensor");
  }
  *buffer = sim_use(device_id, handle);
  return *buffer ? 0 : -1;
}

static int32_t check_call(const BpValue *args, int32_t num_args) {
  if (num_args != ARGS)
    return sim_host.error->raise(BP_ERROR_TYPE, "%d arguments; the kernel takes %d", num_args,
                                 ARGS);
  for (int i = 2; i < ARGS; i++)
    if (args[i].type_index != BP_TYPE_INT)
      return sim_host.error->raise(BP_ERROR_TYPE, "argument %d is not an int", i);
  if (args[3].v_int64 * args[4].v_int64 < args[2].v_int64)
    return sim_host.error->raise(BP_ERROR_VALUE, "fewer threads than elements");
  return 0;
}

static int call_kernel(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Function *function = ((BpClosure *)self)->context;
  int32_t device_id;
  void *stream;
  (void)result;
  if (check_call(args, num_args))
    return -1;
  sim_host.runtime->get_current(SIM_DEVICE_TYPE, &device_id, &stream);
  SimCommand *command = sim_command_create(function->operation);
  if (!command)
    return -1;
  command->count = args[2].v_int64;
  uint64_t size = (uint64_t)command->count * sizeof(float);
  for (int i = 0; i < 2; i++) {
    if (get_buffer(&args[i], device_id, &command->buffers[i], &command->offsets[i])) {
      sim_command_destroy(command);
      return -1;
    }
    uint64_t room = command->buffers[i]->size;
    if (command->offsets[i] > room || size > room - command->offsets[i]) {
      sim_command_destroy(command);
      return sim_host.error->raise(BP_ERROR_INDEX, "argument %d is too small a buffer", i);
    }
  }
  return sim_submit(device_id, stream, command);
}

/* ---- Modules ----------------------------------------------------------------------------- */

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = context;
  *function = NULL;
  for (int32_t i = 0; i < module->num_functions; i++)
    if (!strcmp(module->functions[i].name, name)) {
      *function =
          sim_host.module->function_create(module->self, call_kernel, &module->functions[i], NULL);
      return *function ? 0 : -1;
    }
  return 0;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = context;
  char *copy = malloc(module->bytes.size + 1);
  if (!copy)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory to save a module");
  memcpy(copy, module->bytes.data, module->bytes.size);
  *bytes = (BpOwnedBytes){copy, module->bytes.size, free};
  return 0;
}

static void destroy(void *context) {
  Module *module = context;
  free(module->bytes.data);
  free(module);
}

static const BpModuleApi module_api = {.struct_size = sizeof module_api,
                                       .kind = "simdev",
                                       .get_function = get_function,
                                       .get_property = get_property,
                                       .save_to_bytes = save_to_bytes,
                                       .destroy = destroy};

/* ---- Loading ----------------------------------------------------------------------------- */

static int32_t add_function(void *context, const BpKernelInfo *kernel) {
  Module *module = context;
  if (module->num_functions == FUNCTIONS_MAX || strlen(kernel->name) >= 64 || kernel->num_args != 3)
    return sim_host.error->raise(BP_ERROR_FORMAT, "an odd function table");
  Function *function = &module->functions[module->num_functions++];
  memcpy(function->name, kernel->name, strlen(kernel->name) + 1);
  return 0;
}

/* Finds `name=` in the code's lines; the operation after it. */
static Operation find_operation(const char *code, const char *name) {
  size_t length = strlen(name);
  for (const char *line = code; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (strncmp(line, name, length) || line[length] != '=')
      continue;
    const char *word = line + length + 1;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
      if (strcspn(word, "\n") == strlen(operations[i].name) &&
          !strncmp(word, operations[i].name, strlen(operations[i].name)))
        return operations[i].operation;
  }
  return NULL;
}

static int32_t resolve(Module *module, const BpByteArray *format, const BpByteArray *code) {
  if (format->size != strlen("simdev") || memcmp(format->data, "simdev", format->size))
    return sim_host.error->raise(BP_ERROR_FORMAT, "not the format simdev");
  char *text = calloc(1, code->size + 1);
  if (!text)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory to load a module");
  memcpy(text, code->data, code->size);
  int32_t rc = 0;
  for (int32_t i = 0; !rc && i < module->num_functions; i++) {
    Function *function = &module->functions[i];
    function->operation = find_operation(text, function->name);
    if (!function->operation)
      rc = sim_host.error->raise(BP_ERROR_FORMAT, "no operation for %s", function->name);
  }
  free(text);
  return rc;
}

static int32_t load(Module *module, const BpByteArray *bytes) {
  BpByteArray format, code;
  module->bytes.data = malloc(bytes->size + 1);
  if (!module->bytes.data)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory to load a module");
  if (bytes->size)
    memcpy(module->bytes.data, bytes->data, bytes->size);
  module->bytes.size = bytes->size;
  if (sim_host.module->decode_device_code(bytes, &format, add_function, module, &code))
    return -1;
  return resolve(module, &format, &code);
}

int sim_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)self;
  if (num_args != 1 || sim_host.object->view_str(&args[0], &bytes))
    return sim_host.error->raise(BP_ERROR_TYPE, "a simdev module is made of bytes");
  Module *module = calloc(1, sizeof *module);
  if (!module)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory to load a module");
  if (load(module, &bytes)) {
    destroy(module);
    return -1;
  }
  module->self = sim_host.module->create(&module_api, module);
  if (!module->self)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module->self;
  return 0;
}
