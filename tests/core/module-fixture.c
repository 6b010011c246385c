/* SPDX-License-Identifier: Apache-2.0 */
/* Modules made for tests. */

#include "tests/core/module-fixture.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const BpModuleTable *table;

const BpModuleTable *module_table(void) {
  return table;
}

/* ---- Modules with bytes ------------------------------------------------------------------ */

typedef struct Fake {
  BpModule *module; /* borrowed */
  const BpModuleApi *api;
  const char *payload;
  size_t size;
  void *owner; /* owner of the payload; NULL: the payload is a copy */
} Fake;

static atomic_int alive;
static int in_place;

static int answer_size(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Fake *fake = ((BpClosure *)self)->context;
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = (int64_t)fake->size};
  return 0;
}

static int32_t fake_get_function(void *context, const char *name, BpFunction **function) {
  Fake *fake = context;
  const char *own = strcmp(fake->api->kind, "test_dev") ? "other_size" : "size";
  *function = NULL;
  if (strcmp(name, own))
    return 0;
  *function = table->function_create(fake->module, answer_size, fake, NULL);
  return *function ? 0 : -1;
}

static int32_t fake_get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static int32_t fake_save_to_bytes(void *context, BpOwnedBytes *bytes) {
  Fake *fake = context;
  *bytes = (BpOwnedBytes){g_memdup2(fake->payload, fake->size), fake->size, g_free};
  return 0;
}

static void fake_destroy(void *context) {
  Fake *fake = context;
  if (fake->owner)
    bp_object_release(fake->owner);
  else
    free((void *)(uintptr_t)fake->payload);
  free(fake);
  atomic_fetch_sub(&alive, 1);
}

#define FAKE_API(name)                                                                             \
  {                                                                                                \
    .struct_size = sizeof(BpModuleApi), .kind = name, .get_function = fake_get_function,           \
    .get_property = fake_get_property, .save_to_bytes = fake_save_to_bytes,                        \
    .destroy = fake_destroy                                                                        \
  }

static const BpModuleApi dev_api = FAKE_API("test_dev");
static const BpModuleApi other_api = FAKE_API("test_other");

/* Reports exhausted memory, which a test causes. */
static BpModule *make_fake(const BpModuleApi *api, const BpByteArray *bytes, void *owner) {
  Fake *fake = calloc(1, sizeof *fake);
  char *copy = owner ? NULL : malloc(bytes->size + 1);
  if (!fake || (!owner && !copy)) {
    free(fake);
    free(copy);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a fake module");
    return NULL;
  }
  if (copy)
    memcpy(copy, bytes->data, bytes->size);
  *fake = (Fake){.api = api,
                 .payload = owner ? bytes->data : copy,
                 .size = bytes->size,
                 .owner = bp_object_retain(owner)};
  atomic_fetch_add(&alive, 1);
  BpModule *module = bp_module_create(api, fake);
  if (module)
    fake->module = module;
  return module;
}

BpModule *fake_module(const char *kind, const char *payload) {
  BpByteArray bytes = {payload, strlen(payload)};
  BpModule *module = make_fake(strcmp(kind, "test_dev") ? &other_api : &dev_api, &bytes, NULL);
  g_assert_nonnull(module);
  return module;
}

int fake_modules_alive(void) {
  return atomic_load(&alive);
}

int fake_bytes_are_in_place(void) {
  return in_place;
}

static int load_fake(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpModuleApi *api = ((BpClosure *)self)->context;
  BpByteArray bytes;
  g_assert_cmpint(num_args, >=, 1);
  if (bp_value_view_str(&args[0], &bytes))
    return -1;
  BpObject *owner = num_args > 1 ? args[1].v_obj : NULL;
  if (api == &dev_api)
    in_place = owner && (uintptr_t)bytes.data % 64 == 0;
  *result =
      (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)make_fake(api, &bytes, owner)};
  return 0;
}

/* ---- Host code --------------------------------------------------------------------------- */

typedef struct HostCode {
  const char *source;
  const char *flags;
} HostCode;

static int32_t host_get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static int32_t host_get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_COMPILATION_EXPORT;
  return 0;
}

static int32_t host_get_source(void *context, const char *format, BpOwnedBytes *source) {
  HostCode *code = context;
  const char *text = !strcmp(format, "c")        ? code->source
                     : !strcmp(format, "cflags") ? code->flags
                                                 : NULL;
  if (text)
    *source = (BpOwnedBytes){g_strdup(text), strlen(text), g_free};
  return 0;
}

static const BpModuleApi host_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "test_c",
    .get_function = host_get_function,
    .get_property = host_get_property,
    .get_source = host_get_source,
    .destroy = g_free,
};

BpModule *fake_host_module(const char *source, const char *flags) {
  HostCode *code = g_new(HostCode, 1);
  *code = (HostCode){source, flags};
  BpModule *module = bp_module_create(&host_api, code);
  g_assert_nonnull(module);
  return module;
}

/* ---- Libraries --------------------------------------------------------------------------- */

static void export_or_fail(BpModule *module, const char *path) {
  if (bp_module_export_library(module, path))
    g_error("%s", bp_error_message());
  bp_object_release(module);
}

static void import_and_release(BpModule *module, BpModule *imported) {
  g_assert_cmpint(bp_module_import(module, imported), ==, 0);
  bp_object_release(imported);
}

void export_with_imports(const char *path) {
  BpModule *module = fake_host_module(CALL_SOURCE, NULL);
  char *payload = g_strnfill(100003, 'p');
  import_and_release(module, fake_module("test_dev", payload));
  import_and_release(module, fake_module("test_other", "other"));
  g_free(payload);
  export_or_fail(module, path);
}

void export_small(const char *path) {
  BpModule *module = fake_host_module(CALL_SOURCE, NULL);
  import_and_release(module, fake_module("test_dev", "0123456789"));
  export_or_fail(module, path);
}

static int answer_number(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT,
                      .v_int64 = GPOINTER_TO_INT(((BpClosure *)self)->context)};
  return 0;
}

static void register_function(const char *name, BpPackedCall call, void *context) {
  BpFunction *function = bp_function_create(call, context, NULL);
  g_assert_cmpint(bp_registry_set(name, function, 0), ==, 0);
  bp_object_release(function);
}

void register_size(int64_t size) {
  register_function("size", answer_number, GINT_TO_POINTER((int)size));
}

/* ---- The plugin with the loaders --------------------------------------------------------- */

static int32_t initialize(void *context) {
  (void)context;
  register_function("runtime.module.loadbinary_test_dev", load_fake, (void *)(uintptr_t)&dev_api);
  register_function("runtime.module.loadbinary_test_other", load_fake,
                    (void *)(uintptr_t)&other_api);
  return 0;
}

static int32_t enter(const BpHost *host, BpPlugin *plugin) {
  table = host->get_table(host, BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}

void fixture_begin(void) {
  static const char descriptor[] =
      "abi=" BP_ABI_NEEDED_TEXT "\n"
      "name=test-module\nversion=1\nlicense=Apache-2.0\n"
      "description=Modules made for tests\n"
      "entry=bp_plugin_entry_test_module\n"
      "provides=runtime.module.loadbinary_test_dev runtime.module.loadbinary_test_other\n"
      "devices=\ntargets=\nlibraries=\n";
  if (bp_plugin_register_static(descriptor, enter) || bp_plugin_activate("test-module"))
    g_error("%s", bp_error_message());
  g_assert_nonnull(table);
}

char *temporary_path(const char *name) {
  static int count;
  return g_strdup_printf("%s/backplane-%d-%d-%s", g_get_tmp_dir(), (int)getpid(), count++, name);
}

void remove_tree(const char *path) {
  GDir *entries = g_dir_open(path, 0, NULL);
  for (const char *name; entries && (name = g_dir_read_name(entries));) {
    char *child = g_build_filename(path, name, NULL);
    remove_tree(child);
    g_free(child);
  }
  if (entries)
    g_dir_close(entries);
  g_remove(path);
}
