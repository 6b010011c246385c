/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that the host offers to plugins. The tables are few, in a list that only
 * grows at its head. */

#include "core/registry/argument.h"
#include "core/registry/host.h"

#include "core/registry/installed.h"
#include "core/registry/log.h"
#include "core/registry/object.h"
#include "core/registry/part.h"
#include "core/registry/registry.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct TableEntry {
  const char *name;
  uint32_t version;
  const void *table;
  struct TableEntry *next;
} TableEntry;

static _Atomic(TableEntry *) tables;

static const void *find_table(const char *name, uint32_t version) {
  for (TableEntry *entry = atomic_load(&tables); entry; entry = entry->next)
    if (entry->version == version && !strcmp(entry->name, name))
      return entry->table;
  return NULL;
}

static int insert_table(const char *name, uint32_t version, const void *table) {
  const void *known = find_table(name, version);
  if (known == table)
    return 0;
  if (known)
    return bp_error_raise(BP_ERROR_VALUE,
                          "host table \"%s\" version %u exists already; give the new one a "
                          "version of its own",
                          name, (unsigned)version);
  TableEntry *entry = malloc(sizeof *entry);
  if (!entry)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to add host table \"%s\"", name);
  *entry = (TableEntry){name, version, table, atomic_load(&tables)};
  atomic_store(&tables, entry);
  return 0;
}

int bp_host_add_table(const char *name, uint32_t version, const void *table) {
  if (!name || !table)
    return bp_error_raise(BP_ERROR_VALUE, "a host table needs a name and an address");
  bp__lock(BP__LOCK_STATE);
  int rc = insert_table(name, version, table);
  bp__unlock(BP__LOCK_STATE);
  return rc;
}

/* While they start, the parts of the core call functions that start the core. */
int bp__core_start(void) {
  static atomic_int is_started;
  static _Thread_local int is_starting;
  if (__builtin_expect(atomic_load(&is_started), 1) || is_starting)
    return 0;
  is_starting = 1;
  bp__lock(BP__LOCK_START);
  int rc = atomic_load(&is_started) ? 0 : bp__core_start_rooms();
  atomic_store(&is_started, !rc);
  bp__unlock(BP__LOCK_START);
  is_starting = 0;
  return rc;
}

const Installed *bp__installed(void) {
  return bp__core_start() ? NULL : bp__part_table(BP_PART_PLUGINS);
}

static const void *get_table(const BpHost *host, const char *name, uint32_t version) {
  (void)host;
  return name ? find_table(name, version) : NULL;
}

const BpHost *bp__host(void) {
  static const BpHost host = {
      .struct_size = sizeof(BpHost), .abi_version = BP_ABI_VERSION, .get_table = get_table};
  return bp__core_start() ? NULL : &host;
}

static int32_t table_raise(const char *kind, const char *message) {
  return BP_NOT_NULL(message) ? bp_error_raise(kind, "%s", message) : -1;
}

static int32_t table_add_context(const char *text) {
  return text ? bp_error_add_context("%s", text) : -1;
}

static int32_t table_put(BpError *error) {
  if (!error)
    return 0;
  bp_error_put(error);
  return -1;
}

static void table_log(int32_t level, const char *message) {
  if (message)
    bp__log(level, "%s", message);
}

static const BpErrorTable error_table = {
    .struct_size = sizeof error_table,
    .raise = table_raise,
    .add_context = table_add_context,
    .take = bp_error_take,
    .put = table_put,
    .log = table_log,
};

static void table_retain(void *object) {
  bp_object_retain(object);
}

static int32_t table_make_str(const char *data, size_t size, BpValue *result) {
  return bp_value_make_str(result, data, size);
}

static int32_t table_make_bytes(const char *data, size_t size, BpValue *result) {
  return bp_value_make_bytes(result, data, size);
}

static const BpObjectTable object_table = {
    .struct_size = sizeof object_table,
    .retain = table_retain,
    .release = bp_object_release,
    .make_str = table_make_str,
    .make_bytes = table_make_bytes,
    .view_str = bp_value_view_str,
    .shape_create = bp_shape_create,
    .function_create = bp_function_create,
};

static const BpRegistryTable registry_table = {
    .struct_size = sizeof registry_table,
    .set = bp__registry_set_of_plugin,
    .get = bp_registry_get,
};

int bp__registry_start(void) {
  bp__registry_watch_forks();
  if (bp_host_add_table(BP_TABLE_ERROR, BP_TABLE_ERROR_VERSION, &error_table) ||
      bp_host_add_table(BP_TABLE_OBJECT, BP_TABLE_OBJECT_VERSION, &object_table))
    return -1;
  return bp_host_add_table(BP_TABLE_REGISTRY, BP_TABLE_REGISTRY_VERSION, &registry_table);
}
