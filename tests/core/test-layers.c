/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around devices: which layers apply, in which order, which calls they see, and refused
 * lists. The layers and the kinds of device are the test's own; each test has a kind of its own,
 * since a kind is wrapped when it is first used. */
#include "tests/core/asserts.h"
#include "tests/bare_device.h"

#include <backplane/device_extensions.h>
#include <backplane/device_layer.h>
#include <backplane/module.h>
#include <glib.h>
#include <pthread.h>

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

/* ---- Layers that log calls --------------------------------------------------------------- */

static GString *seen;
static GPtrArray *made; /* all Noting */
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct Noting {
  const char *name;
  const BpDeviceApi *next;
  BpDeviceApi api;
} Noting;

static int32_t noting_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                            void **handle) {
  const Noting *noting = context;
  g_string_append_printf(seen, "%s alloc; ", noting->name);
  return noting->next->alloc_data_space(noting->next->context, device_id, allocation, handle);
}

static int32_t noting_launch(void *context, const BpLaunch *launch) {
  const Noting *noting = context;
  g_string_append_printf(seen, "%s %s:%d of %d; ", noting->name, launch->kernel,
                         launch->invocation->device.device_id, launch->num_args);
  return launch->proceed(launch);
}

/* Returns a copy of the next table, with one slot of the layer's own; other calls bypass the layer,
 * which only works if the next table has no context. */
static int32_t noting_wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  Noting *noting = g_new0(Noting, 1);
  g_assert_cmpuint(layered->struct_size, ==, sizeof *layered);
  g_assert_null(layered->api);
  noting->name = context;
  pthread_mutex_lock(&made_lock);
  g_ptr_array_add(made, noting);
  pthread_mutex_unlock(&made_lock);
  noting->next = next;
  noting->api = *next;
  noting->api.context = noting;
  noting->api.alloc_data_space = noting_alloc;
  layered->api = &noting->api;
  layered->context = noting;
  layered->launch = noting_launch;
  return 0;
}

static int32_t failing_wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  (void)context, (void)next, (void)layered;
  return bp_error_raise(BP_ERROR_IO, "it cannot write its file");
}

/* Makes a table without a slot that every table must have. */
static int32_t lacking_wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  static BpDeviceApi api;
  (void)context;
  api = *next;
  api.copy = NULL;
  layered->api = &api;
  return 0;
}

/* A layer that was built before some slots were added: its table has fewer slots than the
 * host's. */
static int32_t older_wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  static BpDeviceApi api;
  (void)context;
  api = *next;
  api.struct_size = offsetof(BpDeviceApi, visit_properties);
  layered->api = &api;
  return 0;
}

#define LAYER(variable, text, function)                                                            \
  static const BpDeviceLayer variable = {.struct_size = sizeof(BpDeviceLayer),                     \
                                         .version = BP_DEVICE_LAYER_VERSION,                       \
                                         .name = (text),                                           \
                                         .context = (void *)(uintptr_t)(text),                     \
                                         .wrap = (function)}
LAYER(one, "one", noting_wrap);
LAYER(two, "two", noting_wrap);
LAYER(failing, "failing", failing_wrap);
LAYER(lacking, "lacking", lacking_wrap);
LAYER(older, "older", older_wrap);

static const BpDeviceLayer later = {.struct_size = sizeof later,
                                    .version = BP_DEVICE_LAYER_VERSION + 1,
                                    .name = "later",
                                    .wrap = noting_wrap};

static void register_layer(const char *name, const BpDeviceLayer *layer) {
  BpFunction *function =
      bp_function_create(bp_plugin_answer_context, (void *)(uintptr_t)layer, NULL);
  assert_ok(bp_registry_set(name, function, 0));
  bp_object_release(function);
}

/* ---- Kinds of device --------------------------------------------------------------------- */

static int32_t no_properties(void *context, int32_t device_id,
                             int32_t (*visit)(void *visitor, const char *name,
                                              const BpValue *value),
                             void *visitor) {
  (void)context, (void)device_id, (void)visit, (void)visitor;
  return 0;
}

/* Registers a kind named by its number, without using it. */
static int32_t add_kind(const char *layers) {
  static int32_t number = BP_DEVICE_PRIVATE_FIRST + 500;
  BpDeviceApi *api = g_new0(BpDeviceApi, 1);
  number++;
  *api = (BpDeviceApi){.struct_size = sizeof *api,
                       .device_type = number,
                       .name = g_strdup_printf("kind%d", number),
                       .get_device_count = bare_count,
                       .get_attr = bare_attr,
                       .alloc_data_space = bare_host_alloc,
                       .free_data_space = bare_host_free,
                       .copy = bare_host_copy,
                       .stream_sync = bare_nothing,
                       .visit_properties = no_properties};
  g_autofree char *name = g_strdup_printf("device_api.%s", api->name);
  assert_ok(bare_register(name, api));
  if (layers)
    g_setenv("BACKPLANE_LAYERS", layers, TRUE);
  else
    g_unsetenv("BACKPLANE_LAYERS");
  return number;
}

static BpDevice use(int32_t type) {
  g_autofree char *text = g_strdup_printf("kind%d:0", type);
  BpDevice device;
  assert_ok(bp_device_parse(text, &device));
  return device;
}

static void assert_unusable(int32_t type, const char *kind, const char *part) {
  g_autofree char *text = g_strdup_printf("kind%d:0", type);
  BpDevice device;
  assert_error(bp_device_parse(text, &device), kind, part);
}

/* Checks the calls that the layers see of an allocation. */
static void assert_alloc_is_seen(BpDevice device, const char *expected) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 8, .alignment = 8};
  void *handle;
  g_string_truncate(seen, 0);
  assert_ok(bp_device_alloc(device, &allocation, &handle));
  assert_ok(bp_device_free(device, handle));
  g_assert_cmpstr(seen->str, ==, expected);
}

/* ---- Kernels ----------------------------------------------------------------------------- */

static int32_t launched;

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  (void)context, (void)args, (void)num_args;
  launched++;
  return invocation->device.device_id ? bp_error_raise(BP_ERROR_DEVICE, "no such device") : 0;
}

static BpModule *module;
static int32_t kernel_type;

static void count_destroyed(void *context) {
  ++*(int *)context;
}

static int destroyed;

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  (void)context, (void)name;
  *function = bp_module_kernel_create(module, kernel_type, launch, &destroyed, count_destroyed);
  return *function ? 0 : -1;
}

static void destroy_nothing(void *context) {
  (void)context;
}

static BpFunction *make_kernel(int32_t type) {
  static const BpModuleApi api = {.struct_size = sizeof api,
                                  .kind = "layered",
                                  .get_function = get_function,
                                  .destroy = destroy_nothing};
  BpFunction *function;
  kernel_type = type;
  launched = destroyed = 0;
  module = bp_module_create(&api, NULL);
  assert_ok(bp_module_get_function(module, "add_one", 0, &function));
  bp_module_release(module);
  g_string_truncate(seen, 0);
  return function;
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_first_of_the_list_is_the_outermost(void) {
  assert_alloc_is_seen(use(add_kind("one,two")), "one alloc; two alloc; ");
  assert_alloc_is_seen(use(add_kind(" two , one ")), "two alloc; one alloc; ");
}

static void test_without_the_variable_there_is_no_layer(void) {
  int32_t type = add_kind(NULL);
  assert_alloc_is_seen(use(type), "");
  BpFunction *kernel = make_kernel(type);
  BpValue result;
  assert_ok(bp_function_call(kernel, NULL, 0, &result));
  g_assert_cmpstr(seen->str, ==, "");
  bp_object_release(kernel);
}

static void test_layer_of_a_kind_is_around_that_kind_alone(void) {
  int32_t type = add_kind(NULL);
  g_autofree char *list = g_strdup_printf("two,one:kind%d", type + 1);
  g_setenv("BACKPLANE_LAYERS", list, TRUE);
  assert_alloc_is_seen(use(add_kind(list)), "two alloc; one alloc; ");
  g_unsetenv("BACKPLANE_LAYERS");
  assert_alloc_is_seen(use(type), "");
}

static void test_layer_listed_twice_is_there_once(void) {
  int32_t type = add_kind(NULL);
  g_autofree char *list = g_strdup_printf("one,one:kind%d", type);
  g_setenv("BACKPLANE_LAYERS", list, TRUE);
  assert_alloc_is_seen(use(type), "one alloc; ");
}

static void test_layers_see_launches_with_the_kernels_name(void) {
  int32_t type = add_kind("one,two");
  BpFunction *kernel = make_kernel(type);
  BpValue result, args[2] = {{.type_index = BP_TYPE_NONE}};
  const BpInvocation there = {sizeof there, use(type), NULL, 0};
  assert_ok(bp_function_call(kernel, args, 2, &result));
  assert_ok(bp_function_launch(kernel, &there, args, 1, &result));
  g_assert_cmpstr(seen->str, ==,
                  "one add_one:0 of 2; two add_one:0 of 2; "
                  "one add_one:0 of 1; two add_one:0 of 1; ");
  g_assert_cmpint(launched, ==, 2);
  bp_object_release(kernel);
  g_assert_cmpint(destroyed, ==, 1);
}

static void test_kernel_may_be_made_before_its_kind_is_used(void) {
  int32_t type = add_kind("one");
  BpFunction *kernel = make_kernel(type);
  BpValue result;
  assert_error(bp_function_call(kernel, NULL, 0, &result), BP_ERROR_NOT_FOUND, "device type");
  use(type);
  assert_ok(bp_function_call(kernel, NULL, 0, &result));
  g_assert_cmpstr(seen->str, ==, "one add_one:0 of 0; ");
  bp_object_release(kernel);
}

static void *use_in_a_thread(void *type) {
  use(GPOINTER_TO_INT(type));
  return NULL;
}

/* Each thread may wrap the table; one result is used, and the others stay valid. */
static void test_threads_that_use_a_kind_first_at_once_get_one_table(void) {
  pthread_t threads[8];
  int32_t type = add_kind("one,two");
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, use_in_a_thread, GINT_TO_POINTER(type)), ==,
                    0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    pthread_join(threads[i], NULL);
  g_autofree char *name = g_strdup_printf("kind%d", type);
  for (size_t i = 0; i < made->len; i++)
    if (((const Noting *)g_ptr_array_index(made, i))->next->device_type == type)
      g_assert_cmpstr(((const Noting *)g_ptr_array_index(made, i))->next->name, ==, name);
  assert_alloc_is_seen(use(type), "one alloc; two alloc; ");
}

static void test_unknown_layer_is_an_error_that_lists_all_layers(void) {
  int32_t type = add_kind("one,validat");
  assert_unusable(type, BP_ERROR_NOT_FOUND,
                  "BACKPLANE_LAYERS: there is no layer \"validat\"; did you mean \"validate\"? "
                  "(installed: failing, fault, lacking, later, older, one, trace, two, validate)");
  BpDevice device;
  assert_error(bp_device_select("auto", &device, NULL), BP_ERROR_NOT_FOUND, "no layer \"validat\"");
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 8, .alignment = 8};
  void *handle;
  assert_error(bp_device_alloc((BpDevice){BP_DEVICE_CPU, 0}, &allocation, &handle),
               BP_ERROR_NOT_FOUND, "no layer \"validat\"");
  g_setenv("BACKPLANE_LAYERS", "one", TRUE);
  assert_alloc_is_seen(use(type), "one alloc; ");
}

static void test_unknown_kind_is_an_error_also_where_another_is_used(void) {
  assert_unusable(add_kind("one:vulcan"), BP_ERROR_NOT_FOUND,
                  "no installed plugin has devices of kind \"vulcan\"; did you mean \"vulkan\"?");
}

static void test_empty_entry_is_an_error(void) {
  assert_unusable(add_kind("one,,two"), BP_ERROR_VALUE, "an entry is empty");
  assert_unusable(add_kind("one:"), BP_ERROR_VALUE, "an entry is empty");
}

static void test_layer_that_fails_makes_the_kind_unusable(void) {
  int32_t type = add_kind("failing");
  g_autofree char *part =
      g_strdup_printf("layer failing around device kind kind%d: it cannot write its file", type);
  assert_unusable(type, BP_ERROR_IO, part);
}

static void test_table_without_a_needed_slot_is_refused(void) {
  assert_unusable(add_kind("lacking"), BP_ERROR_PLUGIN, "lacks copy");
}

static void test_layer_of_another_version_is_refused(void) {
  assert_unusable(add_kind("later"), BP_ERROR_PLUGIN, "no layer of version 1");
}

static void test_slots_that_a_layer_does_not_know_are_hidden(void) {
  const BpDeviceApi *api = bp_device_api(use(add_kind("older")).device_type);
  g_assert_nonnull(api->stream_sync);
  g_assert_null(api->visit_properties);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  seen = g_string_new(NULL);
  made = g_ptr_array_new();
  register_layer("device_layer.one", &one);
  register_layer("device_layer.two", &two);
  register_layer("device_layer.failing", &failing);
  register_layer("device_layer.lacking", &lacking);
  register_layer("device_layer.older", &older);
  register_layer("device_layer.later", &later);
#define ADD(path, test) g_test_add_func("/layers/" path, test)
  ADD("unknown-layer-is-an-error-that-lists-all-layers",
      test_unknown_layer_is_an_error_that_lists_all_layers);
  ADD("first-of-the-list-is-the-outermost", test_first_of_the_list_is_the_outermost);
  ADD("without-the-variable-there-is-no-layer", test_without_the_variable_there_is_no_layer);
  ADD("layer-of-a-kind-is-around-that-kind-alone", test_layer_of_a_kind_is_around_that_kind_alone);
  ADD("layer-listed-twice-is-there-once", test_layer_listed_twice_is_there_once);
  ADD("layers-see-launches-with-the-kernels-name", test_layers_see_launches_with_the_kernels_name);
  ADD("kernel-may-be-made-before-its-kind-is-used",
      test_kernel_may_be_made_before_its_kind_is_used);
  ADD("threads-that-use-a-kind-first-at-once-get-one-table",
      test_threads_that_use_a_kind_first_at_once_get_one_table);
  ADD("unknown-kind-is-an-error-also-where-another-is-used",
      test_unknown_kind_is_an_error_also_where_another_is_used);
  ADD("empty-entry-is-an-error", test_empty_entry_is_an_error);
  ADD("layer-that-fails-makes-the-kind-unusable", test_layer_that_fails_makes_the_kind_unusable);
  ADD("table-without-a-needed-slot-is-refused", test_table_without_a_needed_slot_is_refused);
  ADD("layer-of-another-version-is-refused", test_layer_of_another_version_is_refused);
  ADD("slots-that-a-layer-does-not-know-are-hidden",
      test_slots_that_a_layer_does_not_know_are_hidden);
  int rc = g_test_run();
  g_string_free(seen, TRUE);
  return rc;
}
