/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for plugins: fetching the host's tables and registering functions. Nothing here is
 * part of the ABI: a plugin carries its own copy of what it uses. */
#ifndef BACKPLANE_PLUGIN_HELPERS_H
#define BACKPLANE_PLUGIN_HELPERS_H

#include <backplane/plugin.h>

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

/* Fetches all of them. Returns -1 if the host lacks one; an error is raised if that can be done. */
static inline int32_t bp_plugin_fetch_tables(const BpHost *host, BpPluginTables *tables) {
  tables->host = host;
  tables->error = (const BpErrorTable *)host->get_table(BP_TABLE_ERROR, BP_TABLE_ERROR_VERSION);
  tables->object = (const BpObjectTable *)host->get_table(BP_TABLE_OBJECT, BP_TABLE_OBJECT_VERSION);
  tables->registry =
      (const BpRegistryTable *)host->get_table(BP_TABLE_REGISTRY, BP_TABLE_REGISTRY_VERSION);
  tables->module = (const BpModuleTable *)host->get_table(BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION);
  tables->target = (const BpTargetTable *)host->get_table(BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  tables->runtime =
      (const BpRuntimeTable *)host->get_table(BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION);
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

/* The packed function behind a `device_api.NAME`: answers the table that is its context. */
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

/* ---- Answers of BpDeviceApi::get_attr, and of others ------------------------------------- */

/* An integer, or a bool. type: BP_TYPE_INT or BP_TYPE_BOOL. */
static inline int32_t bp_plugin_answer_int(BpValue *result, int32_t type, int64_t number) {
  result->type_index = type;
  result->v_int64 = number;
  return 0;
}

static inline int32_t bp_plugin_answer_str(const BpPluginTables *tables, BpValue *result,
                                           const char *text) {
  return tables->object->make_str(text, __builtin_strlen(text), result);
}

/* A shape of three extents. */
static inline int32_t bp_plugin_answer_extents(const BpPluginTables *tables, BpValue *result,
                                               const int64_t extents[3]) {
  BpShape *shape = tables->object->shape_create(extents, 3);
  if (!shape)
    return -1;
  result->type_index = BP_TYPE_SHAPE;
  result->v_obj = &shape->header;
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
