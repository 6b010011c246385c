/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin as it was written for ABI 1.0, kept as it is: it is built against the headers beside it
 * and against today's, and both must work in today's host. It uses every table that every host has.
 * Its slots find the host in their context.
 *
 * FROZEN: the word after "frozen-" in its names; FROZEN_DEVICE_TYPE: a private number;
 * FROZEN_LATER: defined if it fills in the member `later` that each structure has in the headers
 * that it is built with. */

#include <backplane/plugin.h>
#include <backplane/plugin_helpers.h>

#include <stdlib.h>
#include <string.h>

#define JOIN_TEXT(a, b) a##b
#define JOIN(a, b)      JOIN_TEXT(a, b)
#define TEXT_OF(symbol) #symbol
#define TEXT(symbol)    TEXT_OF(symbol)
#define NAME            "frozen-" TEXT(FROZEN)
#define ENTRY           JOIN(bp_plugin_entry_frozen_, FROZEN)

/* clang-format off: one line for each key */
BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=" NAME "\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=A plugin of ABI 1.0\n"
                     "entry=" TEXT(ENTRY) "\n"
                                          "provides=device_api." NAME " target.build." NAME " "
                                          "runtime.module.loadbinary_" NAME " " NAME ".sum\n"
                                          "devices=" NAME "\n"
                                          "targets=" NAME "\n"
                                          "libraries=libc.so.6|libc.so.0\n");
/* clang-format on */

static BpPluginTables tables;

#ifdef FROZEN_LATER
static void later(void) {
}
#endif

/* ---- The device: memory behind handles, and work that is done at once -------------------- */

typedef struct Memory {
  uint64_t size;
  char *bytes;
} Memory;

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 1;
  *why = "";
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  const BpPluginTables *host = context;
  static const int64_t extents[3] = {4, 2, 1};
  (void)device_id;
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_WARP_SIZE:
    return bp_plugin_answer_int(result, BP_TYPE_INT, 8);
  case BP_ATTR_DEVICE_NAME:
    return bp_plugin_answer_str(host, result, "A frozen device");
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return bp_plugin_answer_extents(host, result, extents);
  default:
    return 0;
  }
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  const BpPluginTables *host = context;
  uint64_t size = allocation->size;
  (void)device_id;
  if (bp_plugin_check_allocation(host, NAME, allocation))
    return -1;
  Memory *memory = malloc(sizeof *memory);
  char *bytes = memory ? host->runtime->host_alloc(size, allocation->alignment) : NULL;
  if (!bytes) {
    free(memory);
    return bp_plugin_raise(host, BP_ERROR_MEMORY, "no %llu bytes", (unsigned long long)size);
  }
  *memory = (Memory){size, bytes};
  *handle = memory;
  return 0;
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  const BpPluginTables *host = context;
  Memory *memory = handle;
  (void)device_id;
  host->runtime->host_free(memory->bytes);
  free(memory);
  return 0;
}

static char *end_of_copy(const void *data, uint64_t offset, BpDevice device) {
  const char *bytes = device.device_type == BP_DEVICE_CPU ? data : ((const Memory *)data)->bytes;
  return (char *)(uintptr_t)bytes + offset;
}

static int32_t copy_bytes(void *context, const BpCopy *copy, void *stream) {
  (void)stream;
  if (bp_plugin_check_flags((const BpPluginTables *)context, NAME, "copy", copy->flags))
    return -1;
  memmove(end_of_copy(copy->to, copy->to_offset, copy->to_device),
          end_of_copy(copy->from, copy->from_offset, copy->from_device), copy->size);
  return 0;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  return 0;
}

static const BpDeviceApi device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = FROZEN_DEVICE_TYPE,
    .name = NAME,
    .context = &tables,
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy_bytes,
    .stream_sync = stream_sync,
#ifdef FROZEN_LATER
    .later = later,
#endif
};

/* ---- A function: the sum of its integers, made in tasks of the host's pool --------------- */

typedef struct Sum {
  const BpValue *args;
  int64_t partial[2];
} Sum;

static int add_half(int task_id, BpParallelGroup *group, void *data) {
  Sum *sum = data;
  (void)group;
  sum->partial[task_id] = sum->args[task_id].v_int64;
  return 0;
}

static int call_sum(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Sum sum = {.args = args};
  (void)self;
  if (num_args != 2 || args[0].type_index != BP_TYPE_INT || args[1].type_index != BP_TYPE_INT)
    return tables.error->raise(BP_ERROR_TYPE, NAME ".sum takes two integers");
  if (tables.runtime->parallel_launch(add_half, &sum, 2))
    return -1;
  return bp_plugin_answer_int(result, BP_TYPE_INT, sum.partial[0] + sum.partial[1]);
}

/* ---- A module: its bytes, which its one function answers as a string --------------------- */

typedef struct Stored {
  uint64_t size;
  char bytes[];
} Stored;

static void free_stored(void *context) {
  free(context);
}

static int call_answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Stored *stored = ((BpClosure *)self)->context;
  (void)args;
  (void)num_args;
  return tables.object->make_str(stored->bytes, stored->size, result);
}

/* The function has a copy: the host calls it when the module may be gone. */
static int32_t get_function(void *context, const char *name, BpFunction **function) {
  const Stored *stored = context;
  *function = NULL;
  if (strcmp(name, "answer") != 0)
    return 0;
  Stored *copy = malloc(sizeof *copy + stored->size);
  if (!copy)
    return tables.error->raise(BP_ERROR_MEMORY, "no memory for a function");
  memcpy(copy, stored, sizeof *copy + stored->size);
  *function = tables.object->function_create(call_answer, copy, free_stored);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Stored *stored = context;
  char *data = malloc(stored->size + 1);
  if (!data)
    return tables.error->raise(BP_ERROR_MEMORY, "no memory for a module's bytes");
  memcpy(data, stored->bytes, stored->size);
  *bytes = (BpOwnedBytes){data, stored->size, free};
  return 0;
}

static const BpModuleApi module_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = NAME,
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .destroy = free_stored,
#ifdef FROZEN_LATER
    .later = later,
#endif
};

static int make_module(const BpByteArray *bytes, BpValue *result) {
  Stored *stored = malloc(sizeof *stored + bytes->size);
  if (!stored)
    return tables.error->raise(BP_ERROR_MEMORY, "no memory for a module");
  stored->size = bytes->size;
  memcpy(stored->bytes, bytes->data, bytes->size);
  BpModule *module = tables.module->create(&module_api, stored);
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_ptr = module;
  return 0;
}

static int loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)self;
  if (num_args < 1 || tables.object->view_str(&args[0], &bytes))
    return tables.error->raise(BP_ERROR_TYPE, "loadbinary_" NAME " takes a byte string");
  return make_module(&bytes, result);
}

/* ---- A target kind, whose generator stores the value of an attribute --------------------- */

static const BpTargetAttr attrs[] = {
    {"word", BP_TYPE_STR, 0, "cold", "what a module answers"},
    {"length", BP_TYPE_INT, 0, NULL, "of the word; computed"},
};

static int32_t complete(void *context, BpTarget *target) {
  const BpPluginTables *host = context;
  BpValue word, length = {.type_index = BP_TYPE_INT};
  BpByteArray view;
  if (host->target->get_attr(target, "word", &word) || host->object->view_str(&word, &view))
    return -1;
  length.v_int64 = (int64_t)view.size;
  return host->target->set_attr(target, "length", &length);
}

static const BpTargetKind target_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = NAME,
    .device_type = FROZEN_DEVICE_TYPE,
    .ir_level = 1,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof attrs / sizeof *attrs,
    .description = "A frozen target",
    .context = &tables,
    .complete = complete,
#ifdef FROZEN_LATER
    .later = later,
#endif
};

static int build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpValue word;
  BpByteArray view;
  (void)self;
  if (num_args != 2 || tables.target->get_attr((const BpTarget *)args[1].v_ptr, "word", &word) ||
      tables.object->view_str(&word, &view))
    return tables.error->add_context("target.build." NAME);
  return make_module(&view, result);
}

/* ---- The entry point --------------------------------------------------------------------- */

static int32_t initialize(void *context) {
  const BpPluginTables *host = context;
  if (host->target->register_kind(&target_kind) ||
      bp_plugin_register_device_api(host, "device_api." NAME, &device_api) ||
      bp_plugin_register(host, "target.build." NAME, build, NULL) ||
      bp_plugin_register(host, NAME ".sum", call_sum, NULL))
    return -1;
  return bp_plugin_register(host, "runtime.module.loadbinary_" NAME, loadbinary, NULL);
}

BP_PLUGIN_EXPORT int32_t ENTRY(const BpHost *its_host, BpPlugin *plugin);

int32_t ENTRY(const BpHost *its_host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->context = &tables;
  plugin->initialize = initialize;
#ifdef FROZEN_LATER
  if (plugin->struct_size >= sizeof *plugin)
    plugin->later = later;
#endif
  return bp_plugin_fetch_tables(its_host, &tables);
}
