/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a plugin may register while it initialises, and the names of a plugin that fails. The
 * plugins are linked into this program. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugin_helpers.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>

#include "tests/bare_device.h"

static BpPluginTables host;
static int32_t (*initialize)(void *context); /* initialize of the next test plugin */
static void *plugin_context;

static int32_t entry(const BpHost *from, BpPlugin *plugin) {
  plugin->abi_version = from->abi_version;
  plugin->initialize = initialize;
  plugin->context = plugin_context;
  return bp_plugin_fetch_tables(from, &host);
}

/* Activates a plugin of this name; 0, or -1 with an error. */
static int activate(const char *name, const char *provides, const char *targets,
                    int32_t (*behaviour)(void *context)) {
  g_autofree char *symbol = g_strdelimit(g_strdup(name), "-", '_');
  g_autofree char *text =
      g_strdup_printf("abi=" BP_ABI_NEEDED_TEXT "\nname=%s\nversion=1\nlicense=MIT\ndescription=x\n"
                      "entry=bp_plugin_entry_%s\nprovides=%s\ntargets=%s\n",
                      name, symbol, provides, targets);
  initialize = behaviour;
  g_assert_cmpint(bp_plugin_register_static(text, entry), ==, 0);
  return bp_plugin_activate(name);
}

static void assert_fails(int rc, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_PLUGIN));
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static gboolean is_listed(const char *name) {
  char **names = bp_registry_list(NULL);
  gboolean found = g_strv_contains((const char *const *)names, name);
  bp_names_free(names);
  return found;
}

/* ---- Functions that identify their owner ------------------------------------------------- */

static int answer_context(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)args;
  (void)num_args;
  *result =
      (BpValue){.type_index = BP_TYPE_INT, .v_int64 = *(const char *)((BpClosure *)self)->context};
  return 0;
}

static int32_t register_as(const char *name, const char *owner, int override) {
  BpFunction *function =
      host.object->function_create(answer_context, (void *)(uintptr_t)owner, NULL);
  int32_t rc = host.registry->set(name, function, override);
  host.object->release(function);
  return rc;
}

static void register_by_application(const char *name) {
  static char owner[] = "a";
  BpFunction *function = bp_function_create(answer_context, owner, NULL);
  g_assert_cmpint(bp_registry_set(name, function, 0), ==, 0);
  bp_object_release(function);
}

/* Returns the owner's letter, 0 if there is none. */
static char owner_of(const char *name) {
  BpFunction *function = NULL;
  BpValue result = {.v_int64 = 0};
  g_assert_cmpint(bp_registry_get(name, &function), ==, 0);
  if (function)
    g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  bp_object_release(function);
  return (char)result.v_int64;
}

/* ---- Names ------------------------------------------------------------------------------- */

static int32_t register_and_fail(void *context) {
  (void)context;
  return register_as("failing.name", "p", 0)
             ? -1
             : bp_plugin_raise(&host, BP_ERROR_DEVICE, "the hardware is gone");
}

static void test_failed_plugin_leaves_no_name(void) {
  assert_fails(activate("failing", "failing.name", "", register_and_fail), "hardware is gone");
  g_assert_false(is_listed("failing.name"));
}

/* Registers names like a plugin that ignores the results. */
static int32_t register_what_others_provide(void *context) {
  (void)context;
  g_assert_cmpint(register_as("device_api.cpu", "p", 1), ==, -1);
  g_assert_cmpint(register_as("undeclared.name", "p", 0), ==, -1);
  return register_as("greedy.name", "p", 0);
}

static void test_only_declared_names_are_registered(void) {
  g_assert_cmpint(activate("greedy", "greedy.name", "", register_what_others_provide), ==, 0);
  g_assert_cmpint(owner_of("greedy.name"), ==, 'p');
  g_assert_false(is_listed("undeclared.name"));
  g_assert_false(is_listed("device_api.cpu"));
}

static int32_t register_undeclared(void *context) {
  (void)context;
  return register_as("device_api.cpu", "p", 1);
}

static void test_undeclared_name_is_named(void) {
  assert_fails(activate("robber", "robber.name", "", register_undeclared),
               "plugin \"robber\" registers \"device_api.cpu\"");
}

static int32_t register_twice(void *context) {
  (void)context;
  g_assert_cmpint(register_as("twice.name", "p", 0), ==, 0);
  g_assert_cmpint(register_as("twice.name", "q", 0), ==, -1);
  return register_as("twice.name", "r", 1);
}

static void test_plugin_may_replace_its_own_name(void) {
  g_assert_cmpint(activate("twice", "twice.name", "", register_twice), ==, 0);
  g_assert_cmpint(owner_of("twice.name"), ==, 'r');
}

static int32_t register_late(void *context) {
  (void)context;
  return register_as("late.name", "p", 0);
}

static void test_names_come_from_within_initialize_alone(void) {
  g_assert_cmpint(activate("late", "late.name", "", register_late), ==, 0);
  g_assert_cmpint(register_as("late.name", "p", 1), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_RUNTIME));
  bp_error_clear();
}

/* ---- Names of the application ------------------------------------------------------------ */

static void *be_application(void *name) {
  register_by_application(name);
  return NULL;
}

static void meanwhile(const char *name) {
  pthread_t thread;
  g_assert_cmpint(pthread_create(&thread, NULL, be_application, (void *)(uintptr_t)name), ==, 0);
  pthread_join(thread, NULL);
}

static int32_t register_what_the_application_has(void *context) {
  (void)context;
  meanwhile("shared.name");
  return register_as("shared.name", "p", 1);
}

static void test_plugin_does_not_replace_the_applications_name(void) {
  assert_fails(activate("shared", "shared.name", "", register_what_the_application_has),
               "registered already, and not by plugin \"shared\"");
  g_assert_cmpint(owner_of("shared.name"), ==, 'a');
}

static int32_t register_before_the_application(void *context) {
  (void)context;
  int32_t rc = register_as("contended.first", "p", 0) || register_as("contended.last", "p", 0);
  meanwhile("contended.last");
  return rc ? -1 : 0;
}

/* The plugin has lost one of its names, so it gets no names. */
static void test_name_that_the_application_took_meanwhile_stays(void) {
  assert_fails(
      activate("contended", "contended.first contended.last", "", register_before_the_application),
      "registered already");
  g_assert_cmpint(owner_of("contended.last"), ==, 'a');
  g_assert_false(is_listed("contended.first"));
}

static int32_t look_while_initialising(void *context) {
  (void)context;
  int32_t rc = register_as("early.name", "p", 0);
  g_assert_false(is_listed("early.name"));
  return rc;
}

static void test_names_are_not_found_before_initialize_ended(void) {
  g_assert_cmpint(activate("early", "early.name", "", look_while_initialising), ==, 0);
  g_assert_true(is_listed("early.name"));
}

/* ---- Target kinds ------------------------------------------------------------------------ */

static const BpTargetAttr attrs[] = {{"size", BP_TYPE_INT, 0, NULL, "x"}};
#define KIND(text)                                                                                 \
  {                                                                                                \
    .struct_size = sizeof(BpTargetKind), .name = text, .attrs = attrs,                             \
    .attr_size = sizeof(BpTargetAttr), .num_attrs = 1, .description = "x"                          \
  }
static const BpTargetKind kinds[] = {KIND("lent"), KIND("foreign")};

static gboolean is_kind(const char *name) {
  char **names = bp_target_kinds(NULL);
  gboolean found = g_strv_contains((const char *const *)names, name);
  bp_names_free(names);
  return found;
}

static int32_t register_kind_and_fail(void *context) {
  (void)context;
  return host.target->register_kind(&kinds[0])
             ? -1
             : bp_plugin_raise(&host, BP_ERROR_DEVICE, "no compiler");
}

static int32_t register_kind(void *context) {
  (void)context;
  return host.target->register_kind(&kinds[0]) || register_as("target.build.lent", "p", 0) ? -1 : 0;
}

static void test_failed_plugin_leaves_no_target_kind(void) {
  assert_fails(activate("first", "target.build.lent", "lent", register_kind_and_fail),
               "no compiler");
  g_assert_cmpint(activate("second", "target.build.lent", "lent", register_kind), ==, 0);
  g_assert_true(is_kind("lent"));
}

static int32_t register_foreign_kind(void *context) {
  (void)context;
  return host.target->register_kind(&kinds[1]);
}

static void test_only_declared_kinds_are_registered(void) {
  assert_fails(activate("kindly", "kindly.name", "other", register_foreign_kind),
               "registers the target kind \"foreign\"");
  g_assert_false(is_kind("foreign"));
}

/* ---- Contexts ---------------------------------------------------------------------------- */

/* The context of one set of functions, which says whether they serve a plugin, a device kind or a
 * target kind. */
typedef struct Context {
  const char *device_api;
  const char *target_build;
  BpDeviceApi api;
  BpTargetKind kind;
  int64_t threads;
} Context;

static int32_t get_threads(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)device_id;
  const Context *own = context;
  return attr == BP_ATTR_MAX_THREADS_PER_BLOCK
             ? bp_plugin_answer_int(result, BP_TYPE_INT, own->threads)
             : 0;
}

static int32_t set_size(void *context, BpTarget *target) {
  const Context *own = context;
  BpValue size = {.type_index = BP_TYPE_INT, .v_int64 = own->threads};
  return host.target->set_attr(target, "size", &size);
}

static int32_t register_own(void *context) {
  Context *own = context;
  return bp_plugin_register_device_api(&host, own->device_api, &own->api) ||
                 host.target->register_kind(&own->kind) || register_as(own->target_build, "p", 0)
             ? -1
             : 0;
}

#define CONTEXT(text, number, count)                                                               \
  {                                                                                                \
    .device_api = "device_api." text, .target_build = "target.build." text, .threads = count,      \
    .api = {.struct_size = sizeof(BpDeviceApi),                                                    \
            .device_type = number,                                                                 \
            .name = text,                                                                          \
            .get_device_count = bare_count,                                                        \
            .get_attr = get_threads,                                                               \
            BARE_MEMORY},                                                                          \
    .kind = {                                                                                      \
      .struct_size = sizeof(BpTargetKind),                                                         \
      .name = text,                                                                                \
      .attrs = attrs,                                                                              \
      .attr_size = sizeof(BpTargetAttr),                                                           \
      .num_attrs = 1,                                                                              \
      .description = "x",                                                                          \
      .complete = set_size                                                                         \
    }                                                                                              \
  }
static Context twins[] = {CONTEXT("castor", 62997, 32), CONTEXT("pollux", 62998, 64)};

static void assert_threads(int32_t device_type, int64_t wanted) {
  BpValue threads;
  g_assert_cmpint(
      bp_device_get_attr((BpDevice){device_type, 0}, BP_ATTR_MAX_THREADS_PER_BLOCK, &threads), ==,
      0);
  g_assert_cmpint(threads.v_int64, ==, wanted);
}

/* Only the contexts distinguish a device kind and a target kind of one plugin from those of
 * another. */
static void test_plugins_share_their_functions(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(twins); i++) {
    Context *own = &twins[i];
    g_autofree char *provides = g_strjoin(" ", own->device_api, own->target_build, NULL);
    own->api.context = own;
    own->kind.context = own;
    plugin_context = own;
    g_assert_cmpint(activate(own->kind.name, provides, own->kind.name, register_own), ==, 0);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(twins); i++) {
    BpDevice device;
    BpTarget *target = bp_target_parse(twins[i].kind.name);
    g_assert_nonnull(target);
    g_assert_cmpint(bp_target_get_int(target, "size", 0), ==, twins[i].threads);
    bp_object_release(target);
    g_assert_cmpint(bp_device_parse(twins[i].api.name, &device), ==, 0);
    assert_threads(twins[i].api.device_type, twins[i].threads);
  }
}

/* A host that wraps another one, as a layer does. */
typedef struct Layer {
  BpHost host;
  const BpHost *below;
  int num_fetched;
} Layer;

static const void *fetch_below(const BpHost *layer, const char *name, uint32_t version) {
  Layer *own = (Layer *)(uintptr_t)layer; /* `host` is its first member */
  own->num_fetched++;
  return own->below->get_table(own->below, name, version);
}

static int32_t fetch_through_layers(void *context) {
  (void)context;
  Layer layers[2];
  for (size_t i = 0; i < G_N_ELEMENTS(layers); i++) {
    BpPluginTables tables;
    layers[i] = (Layer){.host = *host.host, .below = host.host};
    layers[i].host.get_table = fetch_below;
    g_assert_cmpint(bp_plugin_fetch_tables(&layers[i].host, &tables), ==, 0);
    g_assert_true(tables.registry == host.registry);
  }
  g_assert_cmpint(layers[0].num_fetched, ==, 6);
  g_assert_cmpint(layers[1].num_fetched, ==, 6);
  return register_as("layered.name", "p", 0);
}

static void test_tables_are_fetched_from_the_host_that_was_asked(void) {
  g_assert_cmpint(activate("layered", "layered.name", "", fetch_through_layers), ==, 0);
}

/* ---- Reserved members -------------------------------------------------------------------- */

static int32_t entry_with_reserved(const BpHost *from, BpPlugin *plugin) {
  plugin->reserved = 7;
  return entry(from, plugin);
}

static void test_reserved_member_of_an_answer(void) {
  g_assert_cmpint(
      bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT
                                "\nname=answer\nversion=1\nlicense=MIT\ndescription=x\n"
                                "entry=bp_plugin_entry_answer\nprovides=answer.name\ntargets=\n",
                                entry_with_reserved),
      ==, 0);
  assert_fails(bp_plugin_activate("answer"), "BpPlugin::reserved to 7");
}

static const BpTargetAttr reserved_attrs[] = {{"size", BP_TYPE_INT, 0, NULL, "x"},
                                              {"other", BP_TYPE_INT, 8, NULL, "x"}};
static BpTargetKind reserved_kind = KIND("reserving");

static int32_t register_reserved_kinds(void *context) {
  (void)context;
  reserved_kind.reserved = 9;
  g_assert_cmpint(host.target->register_kind(&reserved_kind), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "9 in `reserved` of the kind"));
  reserved_kind = (BpTargetKind)KIND("reserving");
  reserved_kind.attrs = reserved_attrs;
  reserved_kind.num_attrs = 2;
  return host.target->register_kind(&reserved_kind);
}

static void test_reserved_member_of_a_target_kind(void) {
  assert_fails(activate("reserving", "reserving.name", "reserving", register_reserved_kinds),
               "8 in `reserved` of an attribute");
}

static BpDeviceApi reserved_api = {
    .struct_size = sizeof(BpDeviceApi), .device_type = 62999, .reserved = 6, .name = "reserved"};

static int32_t register_reserved_device(void *context) {
  (void)context;
  return bp_plugin_register_device_api(&host, "device_api.reserved", &reserved_api);
}

static void test_reserved_member_of_a_device_api(void) {
  int32_t count;
  g_assert_cmpint(activate("reserved", "device_api.reserved", "", register_reserved_device), ==, 0);
  BpDevice device;
  assert_fails(
      bp_device_parse("reserved", &device) || bp_device_count(device.device_type, &count, NULL) ? -1
                                                                                                : 0,
      "has 6 in `reserved`");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_unsetenv("BACKPLANE_PLUGIN_PATH");
  g_setenv("XDG_DATA_HOME", "/proc/nonexistent", TRUE);
#define ADD(path, test) g_test_add_func("/registration/" path, test)
  ADD("failed-plugin-leaves-no-name-PLG-20", test_failed_plugin_leaves_no_name);
  ADD("only-declared-names-are-registered-PLG-20", test_only_declared_names_are_registered);
  ADD("undeclared-name-is-named-PLG-20", test_undeclared_name_is_named);
  ADD("plugins-share-their-functions-by-contexts", test_plugins_share_their_functions);
  ADD("tables-are-fetched-from-the-host-that-was-asked",
      test_tables_are_fetched_from_the_host_that_was_asked);
  ADD("plugin-may-replace-its-own-name", test_plugin_may_replace_its_own_name);
  ADD("names-come-from-within-initialize-alone-PLG-20",
      test_names_come_from_within_initialize_alone);
  ADD("plugin-does-not-replace-the-applications-name-PLG-20",
      test_plugin_does_not_replace_the_applications_name);
  ADD("name-that-the-application-took-meanwhile-stays-PLG-20",
      test_name_that_the_application_took_meanwhile_stays);
  ADD("names-are-not-found-before-initialize-ended-PLG-20",
      test_names_are_not_found_before_initialize_ended);
  ADD("failed-plugin-leaves-no-target-kind-PLG-20", test_failed_plugin_leaves_no_target_kind);
  ADD("only-declared-kinds-are-registered-PLG-20", test_only_declared_kinds_are_registered);
  ADD("reserved_member_of_an_answer_is_zero", test_reserved_member_of_an_answer);
  ADD("reserved_member_of_a_target_kind_is_zero", test_reserved_member_of_a_target_kind);
  ADD("reserved_member_of_a_device_api_is_zero", test_reserved_member_of_a_device_api);
  return g_test_run();
}
