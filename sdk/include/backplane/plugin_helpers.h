/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for plugins: fetching the host's tables and registering functions. Nothing in this
 * header is part of the ABI: a plugin carries its own copy of the functions. */
#ifndef BACKPLANE_PLUGIN_HELPERS_H
#define BACKPLANE_PLUGIN_HELPERS_H

#include <backplane/plugin.h>

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tables that every host has. */
typedef struct BpPluginTables {
  const BpHost *host;
  const BpErrorTable *error;
  const BpObjectTable *object;
  const BpRegistryTable *registry;
  const BpModuleTable *module;
  const BpTargetTable *target;
  const BpRuntimeTable *runtime;
} BpPluginTables;

/* ---- Errors and messages, formatted as by printf ------------------------------------------ */

#define BP_PLUGIN_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define BP_PLUGIN_TEXT_SIZE         512

/* Formats a text: into `room` (BP_PLUGIN_TEXT_SIZE) if the text fits or memory is exhausted, else
 * into *memory, which the caller frees with __builtin_free. */
BP_PLUGIN_PRINTF(3, 0)
static inline const char *bp_plugin_format_(char *room, char **memory, const char *format,
                                            va_list args) {
  va_list again;
  va_copy(again, args);
  int size = __builtin_vsnprintf(room, BP_PLUGIN_TEXT_SIZE, format, args);
  *memory = size < BP_PLUGIN_TEXT_SIZE ? NULL : (char *)__builtin_malloc((size_t)size + 1);
  if (*memory)
    __builtin_vsnprintf(*memory, (size_t)size + 1, format, again);
  va_end(again);
  return *memory ? *memory : room;
}

/* Raises an error of a kind, BP_ERROR_*, in this thread. Returns -1. */
BP_PLUGIN_PRINTF(3, 4)
static inline int32_t bp_plugin_raise(const BpPluginTables *tables, const char *kind,
                                      const char *format, ...) {
  char room[BP_PLUGIN_TEXT_SIZE], *memory;
  va_list args;
  va_start(args, format);
  tables->error->raise(kind, bp_plugin_format_(room, &memory, format, args));
  va_end(args);
  __builtin_free(memory);
  return -1;
}

/* Puts a formatted text and ": " before the message of this thread's error. Returns -1. */
BP_PLUGIN_PRINTF(2, 3)
static inline int32_t bp_plugin_add_context(const BpPluginTables *tables, const char *format, ...) {
  char room[BP_PLUGIN_TEXT_SIZE], *memory;
  va_list args;
  va_start(args, format);
  tables->error->add_context(bp_plugin_format_(room, &memory, format, args));
  va_end(args);
  __builtin_free(memory);
  return -1;
}

/* Hands a message to the application's log. level: BP_LOG_*. */
BP_PLUGIN_PRINTF(3, 4)
static inline void bp_plugin_log(const BpPluginTables *tables, int32_t level, const char *format,
                                 ...) {
  char room[BP_PLUGIN_TEXT_SIZE], *memory;
  va_list args;
  va_start(args, format);
  tables->error->log(level, bp_plugin_format_(room, &memory, format, args));
  va_end(args);
  __builtin_free(memory);
}

/* ---- Tables and registration -------------------------------------------------------------- */

/* Fetches all tables. Returns -1 if the host lacks one; an error is raised if the host has the
 * error table. */
static inline int32_t bp_plugin_fetch_tables(const BpHost *host, BpPluginTables *tables) {
  tables->host = host;
  tables->error =
      (const BpErrorTable *)host->get_table(host, BP_TABLE_ERROR, BP_TABLE_ERROR_VERSION);
  tables->object =
      (const BpObjectTable *)host->get_table(host, BP_TABLE_OBJECT, BP_TABLE_OBJECT_VERSION);
  tables->registry =
      (const BpRegistryTable *)host->get_table(host, BP_TABLE_REGISTRY, BP_TABLE_REGISTRY_VERSION);
  tables->module =
      (const BpModuleTable *)host->get_table(host, BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION);
  tables->target =
      (const BpTargetTable *)host->get_table(host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  tables->runtime =
      (const BpRuntimeTable *)host->get_table(host, BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION);
  if (tables->error && tables->object && tables->registry && tables->module && tables->target &&
      tables->runtime)
    return 0;
  return tables->error ? tables->error->raise(BP_ERROR_PLUGIN,
                                              "this host lacks a table that the plugin needs; "
                                              "install a version of the plugin made for it")
                       : -1;
}

/* Registers a global function that gets `context` through its BpClosure. Returns 0 or -1. */
static inline int32_t bp_plugin_register(const BpPluginTables *tables, const char *name,
                                         BpPackedCall call, void *context) {
  BpFunction *function = tables->object->function_create(call, context, NULL);
  int32_t rc = function ? tables->registry->set(name, function, 0) : -1;
  tables->object->release(function);
  return rc;
}

/* The packed function behind `device_api.NAME`: answers with the table that is its context. */
static inline int bp_plugin_answer_context(void *self, const BpValue *args, int32_t num_args,
                                           BpValue *result) {
  (void)args;
  (void)num_args;
  result->type_index = BP_TYPE_POINTER;
  result->v_ptr = ((BpClosure *)self)->context;
  return 0;
}

/* Registers a device's table, which lives for ever, under `name`: "device_api." and api->name. */
static inline int32_t bp_plugin_register_device_api(const BpPluginTables *tables, const char *name,
                                                    const BpDeviceApi *api) {
  return bp_plugin_register(tables, name, bp_plugin_answer_context, (void *)(uintptr_t)api);
}

/* ---- Memory, targets ---------------------------------------------------------------- */

/* Allocates zeroed memory through the host, for free(); NULL with an error. */
static inline void *bp_plugin_calloc(const BpPluginTables *tables, size_t size) {
  void *memory = __builtin_calloc(1, size);
  if (!memory)
    bp_plugin_raise(tables, BP_ERROR_MEMORY, "no host memory for %zu bytes", size);
  return memory;
}

/* Refuses flags in a BpAllocation, BpCopy or BpInvocation: a flag of a later version must not be
 * ignored. `kind` and `request` are for the message: "vulkan", "copy". */
static inline int32_t bp_plugin_check_flags(const BpPluginTables *tables, const char *kind,
                                            const char *request, uint64_t flags) {
  return flags ? bp_plugin_raise(tables, BP_ERROR_NOT_IMPLEMENTED,
                                 "%s: a %s with flags %#llx is not supported by this plugin", kind,
                                 request, (unsigned long long)flags)
               : 0;
}

/* For alloc_data_space of a device with a single memory scope: refuses other scopes, and flags.
 * `kind` is the device's, for the message. */
static inline int32_t bp_plugin_check_allocation(const BpPluginTables *tables, const char *kind,
                                                 const BpAllocation *allocation) {
  if (allocation->scope && *allocation->scope && __builtin_strcmp(allocation->scope, "global"))
    return bp_plugin_raise(tables, BP_ERROR_VALUE,
                           "%s: no memory scope \"%s\"; there is \"global\"", kind,
                           allocation->scope);
  return bp_plugin_check_flags(tables, kind, "memory allocation", allocation->flags);
}

/* For BpTargetKind::complete: refuses an integer attribute outside the bounds; an unset attribute
 * is accepted. */
static inline int32_t bp_plugin_check_range(const BpPluginTables *tables, const BpTarget *target,
                                            const char *attr, int64_t least, int64_t most) {
  BpValue value;
  if (tables->target->get_attr(target, attr, &value) != 0)
    return -1;
  if (value.type_index == BP_TYPE_NONE || (value.v_int64 >= least && value.v_int64 <= most))
    return 0;
  return bp_plugin_raise(tables, BP_ERROR_VALUE, "target %s: -%s=%lld: it is from %lld to %lld",
                         tables->target->get_kind(target), attr, (long long)value.v_int64,
                         (long long)least, (long long)most);
}

/* ---- Answers of BpDeviceApi::get_attr and other slots ------------------------------------ */

/* Answers with an integer or a bool. type: BP_TYPE_INT or BP_TYPE_BOOL. */
static inline int32_t bp_plugin_answer_int(BpValue *result, int32_t type, int64_t number) {
  result->type_index = type;
  result->v_int64 = number;
  return 0;
}

/* An attribute whose value is a constant number. */
typedef struct BpPluginNumber {
  int32_t attr;
  int32_t type; /* BP_TYPE_INT or BP_TYPE_BOOL */
  int64_t number;
} BpPluginNumber;

/* Answers with an attribute from a list of numbers, or None if the list lacks it. */
static inline int32_t bp_plugin_answer_number(BpValue *result, const BpPluginNumber *numbers,
                                              size_t count, int32_t attr) {
  for (size_t i = 0; i < count; i++)
    if (numbers[i].attr == attr)
      return bp_plugin_answer_int(result, numbers[i].type, numbers[i].number);
  return 0;
}

static inline int32_t bp_plugin_answer_str(const BpPluginTables *tables, BpValue *result,
                                           const char *text) {
  return tables->object->make_str(text, __builtin_strlen(text), result);
}

/* Answers with a shape of three extents. */
static inline int32_t bp_plugin_answer_extents(const BpPluginTables *tables, BpValue *result,
                                               const int64_t extents[3]) {
  BpShape *shape = tables->object->shape_create(extents, 3);
  if (!shape)
    return -1;
  result->type_index = BP_TYPE_SHAPE;
  result->v_obj = &shape->header;
  return 0;
}

/* Answers with a module, which the caller of the function then owns. If `module` is NULL, returns
 * -1: an error was raised before. */
static inline int32_t bp_plugin_answer_module(BpValue *result, BpModule *module) {
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
