/* SPDX-License-Identifier: Apache-2.0 */
/* Small plugins, built from this file with one macro each: a good one, and others with one defect
 * or peculiarity. Each provides the name `test.NAME`, a function that returns how often the plugin
 * was initialised.
 *
 * ODD_NAME: the plugin's name; ODD_ENTRY: its entry point. The defects: ODD_ABI, ODD_NO_NOTE,
 * ODD_NO_ENTRY, ODD_ENTRY_ABI, ODD_ENTRY_FAILS, ODD_INIT_FAILS, ODD_INIT_FAILS_SILENTLY, ODD_SLOW;
 * ODD_PROVIDES: names other than the one it registers; ODD_ASKS: a registry name that it requests
 * while it initialises; the name must exist or be not ready. */

#include <backplane/plugin.h>

#include <string.h>
#include <time.h>

#ifndef ODD_ABI
#define ODD_ABI BP_ABI_NEEDED_TEXT
#endif
#ifndef ODD_PROVIDES
#define ODD_PROVIDES "test." ODD_NAME
#endif

#define TEXT_OF(symbol) #symbol
#define TEXT(symbol)    TEXT_OF(symbol)

#ifndef ODD_NO_NOTE
BP_PLUGIN_DESCRIPTOR("abi=" ODD_ABI "\n"
                     "name=" ODD_NAME "\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=A plugin for tests\n"
                     "entry=" TEXT(ODD_ENTRY) "\n"
                                              "provides=" ODD_PROVIDES "\n"
                                              "devices=\n"
                                              "targets=\n"
                                              "libraries=libodd.so.1\n"
                                              "package=odd-driver\n"
                                              "unknown=is ignored\n");
#endif

static const BpErrorTable *error_table;
static const BpRegistryTable *registry_table;
static const BpObjectTable *object_table;
static int64_t initialised;

#ifdef ODD_NO_ENTRY
#define ENTRY bp_plugin_entry_of_another_name
#else
#define ENTRY ODD_ENTRY
#endif

BP_PLUGIN_EXPORT int32_t ENTRY(const BpHost *host, BpPlugin *plugin);

static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  result->type_index = BP_TYPE_INT;
  result->v_int64 = initialised;
  return 0;
}

static int32_t register_function(const char *name) {
  BpFunction *function = object_table->function_create(answer, NULL, NULL);
  int32_t rc = function ? registry_table->set(name, function, 0) : -1;
  object_table->release(function);
  return rc;
}

#ifdef ODD_ASKS
static int32_t ask(void) {
  BpFunction *function = NULL;
  int32_t rc = registry_table->get(ODD_ASKS, &function);
  object_table->release(function);
  if (!rc)
    return 0;
  BpError *error = error_table->take();
  int32_t is_not_ready = error && error->kind.size == strlen(BP_ERROR_NOT_READY) &&
                         !memcmp(error->kind.data, BP_ERROR_NOT_READY, error->kind.size);
  object_table->release(error);
  return is_not_ready ? 0 : error_table->raise(BP_ERROR_PLUGIN, "another error");
}
#endif

static int32_t initialize(void *context) {
  (void)context;
  initialised++;
#ifdef ODD_SLOW
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
#endif
#ifdef ODD_ASKS
  if (ask())
    return -1;
#endif
  if (register_function("test." ODD_NAME))
    return -1;
#ifdef ODD_INIT_FAILS
  return error_table->raise(BP_ERROR_DEVICE, "no such hardware; buy some");
#elif defined(ODD_INIT_FAILS_SILENTLY)
  return -1;
#else
  error_table->raise(BP_ERROR_DEVICE, "left behind by a plugin that works");
  return 0;
#endif
}

int32_t ENTRY(const BpHost *host, BpPlugin *plugin) {
  error_table = host->get_table(host, BP_TABLE_ERROR, BP_TABLE_ERROR_VERSION);
  object_table = host->get_table(host, BP_TABLE_OBJECT, BP_TABLE_OBJECT_VERSION);
  registry_table = host->get_table(host, BP_TABLE_REGISTRY, BP_TABLE_REGISTRY_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
#ifdef ODD_ENTRY_ABI
  plugin->abi_version = (uint32_t)7 << 16;
#endif
  plugin->initialize = initialize;
#ifdef ODD_ENTRY_FAILS
  return -1;
#else
  return error_table && object_table && registry_table ? 0 : -1;
#endif
}
