/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: a compiled part of a model, as saved in artifacts and as it runs. Loading checks that
 * the bytes fit the chip, which needs no chip. */
#include "simdev.h"

#include <stdlib.h>
#include <string.h>

typedef struct Module {
  BpModule *self; /* not a reference */
  char *function; /* name of the function */
  char *bytes;
  size_t size;
  const SimdevHeader *header; /* points into `bytes`, like the three members below */
  const SimdevArgument *arguments;
  const ChipInstruction *instructions;
  const char *constants;
  /* Addresses in the chip's memory; -1: not loaded yet. Guarded by simdev_lock. */
  int32_t program_at, constants_at, between_at;
} Module;

#define REFUSE(...)                                                                                \
  bp_plugin_raise(&simdev_host, BP_ERROR_FORMAT, "bytes of a simdev module: " __VA_ARGS__)

/* ---- Bytes, which are untrusted ---------------------------------------------------------- */

static int32_t argument_bytes(const SimdevArgument *argument, int64_t *size) {
  if ((argument->ndim != 2 && argument->ndim != 4) || (argument->is_unsigned & ~1))
    return REFUSE("an argument has %d dimensions; expected 2 or 4 of int8 or uint8",
                  argument->ndim);
  *size = 1;
  for (int32_t i = 0; i < argument->ndim; i++) {
    if (argument->shape[i] < 1 || argument->shape[i] > CHIP_MEMORY / *size)
      return REFUSE("an argument does not fit the chip's memory");
    *size *= argument->shape[i];
  }
  return 0;
}

static int32_t check_header(const SimdevHeader *header, size_t size) {
  static const char magic[8] = SIMDEV_MAGIC;
  if (size < sizeof *header || memcmp(header->magic, magic, sizeof magic))
    return REFUSE("they do not begin as one");
  if (header->chip_version != CHIP_VERSION)
    return REFUSE("they are for version %d of the chip, and this plugin drives version %d; compile "
                  "the model again",
                  header->chip_version, CHIP_VERSION);
  if (header->num_inputs < 0 || header->num_outputs < 1 || header->num_inputs > SIMDEV_MAX_ARGS ||
      header->num_outputs > SIMDEV_MAX_ARGS - header->num_inputs || header->num_instructions < 1 ||
      header->num_instructions > CHIP_MEMORY / (int32_t)sizeof(ChipInstruction))
    return REFUSE("there are %d inputs, %d outputs and %d instructions", header->num_inputs,
                  header->num_outputs, header->num_instructions);
  if (header->constant_bytes < 0 || header->between_bytes < 0 ||
      header->constant_bytes % CHIP_LINE ||
      (int64_t)header->constant_bytes + header->between_bytes > CHIP_MEMORY)
    return REFUSE("they take %lld bytes of memory, and the chip has %d",
                  (long long)header->constant_bytes + header->between_bytes, CHIP_MEMORY);
  return 0;
}

/* Finds the sections of the bytes, and checks each instruction as the chip does. */
static int32_t read_bytes(Module *module) {
  const SimdevHeader *header = (const SimdevHeader *)(const void *)module->bytes;
  ChipRegion regions[CHIP_MAX_REGIONS] = {{0, 0}};
  if (check_header(header, module->size))
    return -1;
  size_t num_args = (size_t)(header->num_inputs + header->num_outputs);
  module->header = header;
  module->arguments = (const SimdevArgument *)(const void *)(header + 1);
  module->instructions = (const ChipInstruction *)(const void *)(module->arguments + num_args);
  module->constants = (const char *)(module->instructions + header->num_instructions);
  if (module->size != sizeof *header + num_args * sizeof(SimdevArgument) +
                          (size_t)header->num_instructions * sizeof(ChipInstruction) +
                          (size_t)header->constant_bytes)
    return REFUSE("there are %zu of them, which is not what their header says", module->size);
  regions[0].size = header->constant_bytes;
  regions[1].size = header->between_bytes;
  for (size_t i = 0; i < num_args; i++) {
    int64_t size = 0;
    if (argument_bytes(&module->arguments[i], &size))
      return -1;
    regions[2 + i].size = (int32_t)size;
  }
  for (int32_t i = 0; i < header->num_instructions; i++)
    if (chip_check(&module->instructions[i], regions, (int32_t)num_args + 2))
      return REFUSE("instruction %d is none that the chip can run", i);
  return 0;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Finds argument `index` in the chip's memory. */
static int32_t take_argument(const Module *module, const BpValue *value, int32_t index,
                             ChipRegion *region) {
  const SimdevArgument *argument = &module->arguments[index];
  const BpTensorView *view = bp_part_tensor(value);
  if (!view || view->dtype.bits != 8 || view->dtype.lanes != 1 ||
      view->dtype.code != (argument->is_unsigned ? BP_DTYPE_UINT : BP_DTYPE_INT))
    return bp_plugin_raise(&simdev_host, BP_ERROR_TYPE, "%s: argument %d is no tensor of %s",
                           module->function, index, argument->is_unsigned ? "uint8" : "int8");
  if (view->device.device_type != SIMDEV_DEVICE_TYPE || view->device.device_id != 0)
    return bp_plugin_raise(&simdev_host, BP_ERROR_VALUE,
                           "%s: argument %d is not on simdev:0; copy it there first",
                           module->function, index);
  int32_t size = 1;
  int is_fitting = view->ndim == argument->ndim;
  for (int32_t i = argument->ndim - 1; is_fitting && i >= 0; i--) {
    is_fitting = view->shape[i] == argument->shape[i] &&
                 (!view->strides || view->shape[i] == 1 || view->strides[i] == size);
    size *= argument->shape[i];
  }
  if (!is_fitting)
    return bp_plugin_raise(&simdev_host, BP_ERROR_VALUE,
                           "%s: argument %d does not have the shape that the part was compiled "
                           "for, or is not compact",
                           module->function, index);
  *region = (ChipRegion){simdev_find(view->data, view->byte_offset, (uint64_t)size), size};
  return region->address < 0
             ? bp_plugin_add_context(&simdev_host, "%s: argument %d", module->function, index)
             : 0;
}

static int32_t put(int32_t *at, const void *bytes, int32_t size) {
  if (*at >= 0 || !size)
    return 0;
  *at = simdev_reserve(size);
  return *at < 0 ? -1 : bytes ? simdev_link_write(*at, bytes, size) : 0;
}

/* Loads the program and its constants into the chip's memory, where they stay as long as the
 * module. */
static int32_t put_module(Module *module) {
  const SimdevHeader *header = module->header;
  return put(&module->constants_at, module->constants, header->constant_bytes) ||
                 put(&module->between_at, NULL, header->between_bytes) ||
                 put(&module->program_at, module->instructions,
                     header->num_instructions * (int32_t)sizeof(ChipInstruction))
             ? -1
             : 0;
}

static void remove_module(Module *module) {
  int32_t *const all[] = {&module->program_at, &module->constants_at, &module->between_at};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (*all[i] >= 0) {
      simdev_release(*all[i]);
      *all[i] = -1;
    }
}

static int32_t run(Module *module, const BpValue *args) {
  const SimdevHeader *header = module->header;
  ChipRegion regions[CHIP_MAX_REGIONS];
  int32_t num_args = header->num_inputs + header->num_outputs;
  for (int32_t i = 0; i < num_args; i++)
    if (take_argument(module, &args[i], i, &regions[2 + i]))
      return -1;
  if (put_module(module)) {
    remove_module(module);
    return -1;
  }
  regions[0] =
      (ChipRegion){header->constant_bytes ? module->constants_at : 0, header->constant_bytes};
  regions[1] = (ChipRegion){header->between_bytes ? module->between_at : 0, header->between_bytes};
  return simdev_link_run(module->program_at, header->num_instructions, regions, num_args + 2);
}

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  Module *module = context;
  if (bp_plugin_check_flags(&simdev_host, "simdev", "launch", invocation->flags) != 0)
    return -1; /* the other launch options have no effect: there is one device, with one queue */
  if (num_args != module->header->num_inputs + module->header->num_outputs)
    return bp_plugin_raise(&simdev_host, BP_ERROR_TYPE, "%s: expected %d tensors, got %d",
                           module->function,
                           module->header->num_inputs + module->header->num_outputs, num_args);
  pthread_mutex_lock(&simdev_lock);
  int32_t status = run(module, args);
  pthread_mutex_unlock(&simdev_lock);
  return status;
}

/* ---- The module's table ------------------------------------------------------------------ */

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = context;
  *function = NULL;
  if (strcmp(name, module->function))
    return 0;
  *function =
      simdev_host.module->kernel_create(module->self, SIMDEV_DEVICE_TYPE, launch, module, NULL);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE | BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = context;
  return bp_part_save(&simdev_host, "simdev", module->function,
                      module->header->num_inputs + module->header->num_outputs, module->bytes,
                      module->size, bytes);
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
  pthread_mutex_lock(&simdev_lock);
  remove_module(module);
  pthread_mutex_unlock(&simdev_lock);
  free(module->function);
  free(module->bytes);
  free(module);
}

static const BpModuleApi api = {.struct_size = sizeof(BpModuleApi),
                                .kind = "simdev",
                                .get_function = get_function,
                                .get_property = get_property,
                                .save_to_bytes = save_to_bytes,
                                .visit_functions = visit_functions,
                                .destroy = destroy};

BpModule *simdev_module_create(const char *function, char *bytes, size_t size) {
  Module *module = bp_plugin_calloc(&simdev_host, sizeof *module);
  if (!module) {
    free(bytes);
    return NULL;
  }
  *module = (Module){.bytes = bytes,
                     .size = size,
                     .function = strdup(function),
                     .program_at = -1,
                     .constants_at = -1,
                     .between_at = -1};
  if (!module->function)
    bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "no host memory for a module");
  if (!module->function || read_bytes(module)) {
    destroy(module);
    return NULL;
  }
  module->self = simdev_host.module->create(&api, module);
  return module->self;
}

/* ---- Loading ----------------------------------------------------------------------------- */

int simdev_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpPartBytes part;
  (void)self;
  if (bp_part_load(&simdev_host, "simdev", args, num_args, &part))
    return -1;
  BpModule *module = simdev_module_create(part.function, part.code, part.size);
  free(part.function); /* the module has its own copies of the function's name and of the code */
  return bp_plugin_answer_module(result, module);
}
