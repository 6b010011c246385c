/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins: descriptors, the search, activation, and every way in which a plugin can be unusable.
 *
 * The plugins are those of tests/mock, copied into a directory of this test's own, some of them
 * damaged on the way. */

#include "tests/core/package_names.h"
#include "tests/core/plugin_files.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <elf.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The messages of the log callback, one a line. */
static GString *messages;
static pthread_mutex_t messages_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_message(void *context, int32_t level, const char *message) {
  (void)context;
  pthread_mutex_lock(&messages_lock);
  g_string_append_printf(messages, "%d %s\n", level, message);
  pthread_mutex_unlock(&messages_lock);
}

/* Returns the function's answer: how often its plugin was initialised; -1 if there is no function,
 * -2 with an error. */
static int64_t call(const char *name) {
  BpFunction *function;
  BpValue result;
  if (bp_registry_get(name, &function))
    return -2;
  if (!function)
    return -1;
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  bp_object_release(function);
  return result.v_int64;
}

/* Returns the first plugin whose path has this end. The plugin's list lives as long as the test. */
static BpPluginInfo find_plugin(const char *file) {
  static GPtrArray *lists;
  if (!lists)
    lists = g_ptr_array_new_with_free_func((GDestroyNotify)bp_plugin_list_free);
  BpPluginList *list = bp_plugin_list();
  g_assert_nonnull(list);
  g_ptr_array_add(lists, list);
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (g_str_has_suffix(info->path, file))
      return *info;
  }
  g_error("no plugin file %s", file);
}

static void assert_contains(const char *text, const char *part) {
  if (!strstr(text, part))
    g_error("\"%s\" does not contain \"%s\"", text, part);
}

static void assert_rejected(const char *file, const char *reason) {
  BpPluginInfo info = find_plugin(file);
  g_assert_cmpint(info.state, ==, BP_PLUGIN_REJECTED);
  assert_contains(info.reason, reason);
  g_autofree char *logged = g_strdup_printf("%s is not used: ", info.path);
  assert_contains(messages->str, logged);
}

/* A failing plugin gives the same error each time, is listed as failed, and leaves no registered
 * name. */
static void assert_fails(const char *name, const char *reason) {
  g_autofree char *registry_name = g_strdup_printf("test.%s", name);
  g_autofree char *file = g_strdup_printf("/%s.so", name);
  for (int i = 0; i < 2; i++) {
    g_assert_cmpint(call(registry_name), ==, -2);
    g_assert_true(bp_error_is(BP_ERROR_PLUGIN));
    assert_contains(bp_error_message(), reason);
    assert_contains(bp_error_message(), name);
    bp_error_clear();
  }
  BpPluginInfo info = find_plugin(file);
  g_assert_cmpint(info.state, ==, BP_PLUGIN_FAILED);
  assert_contains(info.reason, reason);
  size_t count;
  char **listed = bp_registry_list(&count);
  g_assert_false(g_strv_contains((const char *const *)listed, registry_name));
  bp_names_free(listed);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static void test_descriptor_is_read_without_loading(void) {
  BpPluginInfo info = find_plugin("/odd-unused.so");
  g_assert_cmpint(info.state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpstr(info.name, ==, "odd-bulk-777");
  g_assert_cmpstr(info.abi, ==, BP_ABI_TEXT);
  g_assert_cmpstr(info.version, ==, "1.0");
  g_assert_cmpstr(info.license, ==, "Apache-2.0");
  g_assert_cmpstr(info.description, ==, "A plugin for tests");
  g_assert_cmpstr(info.provides, ==, "test.odd-bulk-777");
  g_assert_cmpstr(info.devices, ==, "");
  g_assert_cmpstr(info.libraries, ==, "libodd.so.1");
  g_assert_cmpstr(info.package, ==, "odd-driver");
  g_assert_cmpstr(info.reason, ==, "");
  g_autofree char *maps = NULL;
  g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
  g_assert_null(strstr(maps, "odd-unused"));
}

static void test_descriptor_survives_strip(void) {
  g_autofree char *strip = g_find_program_in_path("strip");
  if (!strip) {
    g_test_skip("strip is not installed");
    return;
  }
  g_autofree char *path = plugin_file_path("odd-stripped.so");
  copy_plugin("odd-bulk-000", "odd-stripped.so", "bulk-000", "bulk-555");
  const char *argv[] = {strip, path, NULL};
  int status = -1;
  g_assert_true(
      g_spawn_sync(NULL, (char **)(uintptr_t)argv, NULL, 0, NULL, NULL, NULL, NULL, &status, NULL));
  g_assert_cmpint(status, ==, 0);
  g_assert_cmpint(find_plugin("/odd-stripped.so").state, ==, BP_PLUGIN_FOUND);
}

static void test_malformed_descriptors_are_rejected(void) {
  assert_rejected("/bad-key-twice.so", "has the key \"name\" twice");
  assert_rejected("/bad-no-key.so", "lacks the key \"license\"");
  assert_rejected("/bad-line.so", "is not key=value");
  assert_rejected("/bad-name.so", "is not of lower-case letters");
  assert_rejected("/bad-entry.so", "but must be \"bp_plugin_entry_odd_bulk_000\"");
  assert_rejected("/bad-provides.so", "in its provides is not a name");
  assert_rejected("/bad-control.so", "control character");
  assert_rejected("/bad-c1.so", "control character");
  assert_rejected("/bad-direction.so", "control character");
  assert_rejected("/bad-utf8.so", "not UTF-8");
  assert_rejected("/bad-abi.so", "is not MAJOR.MINOR");
}

static void test_other_abi_is_rejected(void) {
  assert_rejected("/odd-other-abi.so", "plugin ABI 1.999");
  BpPluginInfo info = find_plugin("/odd-other-abi.so");
  g_assert_cmpstr(info.name, ==, "odd-other-abi");
  g_assert_cmpint(bp_plugin_activate("odd-other-abi"), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_PLUGIN));
  assert_contains(bp_error_message(), "install a build of the plugin that matches");
  bp_error_clear();
}

/* ---- Files that are no plugins ----------------------------------------------------------- */

static void test_files_that_are_no_plugins_are_rejected(void) {
  assert_rejected("/not-elf.so", "is not an ELF file");
  assert_rejected("/empty.so", "is not an ELF file");
  assert_rejected("/directory.so", "is not a regular file");
  assert_rejected("/odd-no-note.so", "has no Backplane descriptor");
  assert_rejected("/other-machine.so", "is for another machine");
  assert_rejected("/other-class.so", "is for another machine");
  assert_rejected("/program.so", "no shared object");
  assert_rejected("/truncated-header.so", "is truncated");
  assert_rejected("/truncated-half.so", "is truncated");
  assert_rejected("/truncated-end.so", "is truncated");
}

/* A megabyte of empty notes is read once, however many segments contain it; and sections are
 * counted by the header alone. */
static void test_files_that_would_take_long_are_rejected(void) {
  assert_rejected("/many-notes.so", "malformed");
  assert_rejected("/many-sections.so", "malformed");
}

/* Lists every prefix of a plugin, and the plugin with each byte at its beginning changed: listing
 * never fails. */
static void test_damaged_files_never_crash_the_search(void) {
  g_autofree char *data = NULL;
  gsize size;
  read_plugin("odd-good", &data, &size);
  g_autofree char *path = plugin_file_path("damaged.so");
  for (gsize i = 0; i < MIN(size, 1200); i += 7) {
    g_autofree char *copy = g_memdup2(data, size);
    copy[i] = (char)~copy[i];
    g_assert_true(g_file_set_contents(path, copy, (gssize)size, NULL));
    bp_plugin_list_free(bp_plugin_list());
    g_assert_true(g_file_set_contents(path, data, (gssize)i, NULL));
    bp_plugin_list_free(bp_plugin_list());
  }
  g_assert_cmpint(g_unlink(path), ==, 0);
}

static void test_a_dangling_link_and_a_fifo_do_not_stop_the_search(void) {
  g_autofree char *link_path = plugin_file_path("dangling.so");
  g_autofree char *fifo_path = plugin_file_path("fifo.so");
  g_assert_cmpint(symlink("/proc/nonexistent/plugin.so", link_path), ==, 0);
  g_assert_cmpint(mkfifo(fifo_path, 0600), ==, 0);
  assert_rejected("/fifo.so", "is not a regular file");
  assert_contains(messages->str, "dangling.so");
  g_unlink(link_path);
  g_unlink(fifo_path);
}

/* ---- The search -------------------------------------------------------------------------- */

static void test_first_of_a_name_wins_and_the_other_is_reported(void) {
  BpPluginInfo first = find_plugin("/a/odd-twice.so"), second = find_plugin("/b/odd-twice.so");
  g_assert_cmpint(first.state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpint(second.state, ==, BP_PLUGIN_SHADOWED);
  assert_contains(second.reason, first.path);
  assert_contains(messages->str, second.path);
  g_assert_cmpint(call("test.odd-twice"), ==, 1);
  g_assert_cmpint(find_plugin("/a/odd-twice.so").state, ==, BP_PLUGIN_ACTIVE);
  g_assert_cmpint(find_plugin("/b/odd-twice.so").state, ==, BP_PLUGIN_SHADOWED);
}

static void test_a_plugin_installed_later_is_found_by_a_list(void) {
  g_assert_cmpint(call("test.odd-later"), ==, -1);
  copy_plugin("odd-later", "odd-later.so", NULL, NULL);
  g_assert_cmpint(call("test.odd-later"), ==, -1);
  g_assert_cmpint(find_plugin("/odd-later.so").state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpint(call("test.odd-later"), ==, 1);
}

static void test_a_hundred_plugins_are_listed_and_not_loaded(void) {
  for (int i = 800; i < 900; i++) {
    g_autofree char *name = g_strdup_printf("odd-many-%d.so", i);
    g_autofree char *number = g_strdup_printf("bulk-%d", i);
    copy_plugin("odd-bulk-000", name, "bulk-000", number);
  }
  BpPluginList *list = bp_plugin_list();
  size_t found = 0;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    found += strstr(bp_plugin_list_get(list, i)->path, "odd-many-") != NULL &&
             bp_plugin_list_get(list, i)->state == BP_PLUGIN_FOUND;
  g_assert_cmpint(found, ==, 100);
  bp_plugin_list_free(list);
  g_autofree char *maps = NULL;
  g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
  g_assert_null(strstr(maps, "odd-many"));
}

static void test_missing_directory_of_the_path_is_reported_once(void) {
  static const char message[] = "plugin directory /proc/nonexistent/plugins: it cannot be searched";
  bp_plugin_list_free(bp_plugin_list());
  bp_plugin_list_free(bp_plugin_list());
  const char *found = strstr(messages->str, message);
  g_assert_nonnull(found);
  g_assert_null(strstr(found + 1, message));
}

/* ---- Activation -------------------------------------------------------------------------- */

static void test_first_use_of_a_name_activates_its_plugin(void) {
  g_assert_cmpint(find_plugin("/odd-good.so").state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpint(call("test.odd-good"), ==, 1);
  g_assert_cmpstr(bp_error_kind(), ==, ""); /* no code of the plugin */
  g_assert_cmpint(call("test.odd-good"), ==, 1);
  g_assert_cmpint(find_plugin("/odd-good.so").state, ==, BP_PLUGIN_ACTIVE);
  g_assert_cmpint(bp_plugin_activate("odd-good"), ==, 0);
  g_assert_cmpint(call("test.odd-good"), ==, 1);
}

static void test_activation_by_path(void) {
  g_autofree char *path = g_build_filename(mock_directory(), "odd-by-path.so", NULL);
  g_assert_cmpint(bp_plugin_activate(path), ==, 0);
  g_assert_cmpint(bp_plugin_activate(path), ==, 0);
  g_assert_cmpint(call("test.odd-by-path"), ==, 1);
  g_assert_cmpint(bp_plugin_activate("/proc/nonexistent/odd.so"), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_IO));
  g_autofree char *bad = plugin_file_path("not-elf.so");
  g_assert_cmpint(bp_plugin_activate(bad), ==, -1);
  assert_contains(bp_error_message(), "is not an ELF file");
  bp_error_clear();
}

static void test_unknown_plugin_is_an_error_with_the_nearest(void) {
  g_assert_cmpint(bp_plugin_activate("odd-goood"), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  assert_contains(bp_error_message(), "did you mean \"odd-good\"");
  bp_error_clear();
}

/* A caller gets no messages about plugins that it did not request. */
static void test_what_is_not_used_is_no_warning(void) {
  g_autofree char *path = plugin_file_path("odd-writable.so");
  copy_plugin("odd-bulk-000", "odd-writable.so", "bulk-000", "bulk-666");
  g_assert_cmpint(g_chmod(path, 0646), ==, 0);
  assert_contains(find_plugin("/odd-writable.so").warning, "others may write to it");
  g_autofree char *warning = g_strdup_printf("%d plugin %s/", BP_LOG_WARNING, plugin_directory);
  g_autofree char *line =
      g_strdup_printf("%d plugin %s/not-elf.so is not used", BP_LOG_INFO, plugin_directory);
  assert_contains(messages->str, line);
  g_assert_null(strstr(messages->str, warning));
}

/* Removes the plugin of the previous test: it cannot be activated, and each try would warn
 * again. */
static void test_a_plugin_that_others_may_change_is_warned_of_once(void) {
  static const char warning[] = "others may write to it, and loading it is running it";
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(bp_plugin_activate("odd-bulk-666"), ==, -1);
    bp_error_clear();
  }
  const char *found = strstr(messages->str, warning);
  g_assert_nonnull(found);
  g_assert_null(strstr(found + 1, warning));
}

static void assert_explains(const char *name, const char *part) {
  char *why = bp_plugin_explain_absence(name);
  if (*part)
    assert_contains(why, part);
  else
    g_assert_cmpstr(why, ==, "");
  bp_str_free(why);
}

static void test_absence_is_explained_by_a_plugin_that_cannot_be_used(void) {
  assert_explains("no-such-thing", "");
  assert_explains("odd-good", "");
  assert_explains("elf", "/not-elf.so: is not an ELF file");
  assert_explains("not-elf", "/not-elf.so: is not an ELF file");
  assert_explains("lf", "");
  assert_explains("", "");
  assert_explains("opencl", "install the package deb-opencl");
  assert_explains("llvm", "install the package deb-llvm");
  assert_explains("metal", ""); /* a known kind, without a package */
  g_assert_null(bp_target_parse("opencl"));
  assert_contains(bp_error_message(), "install the package deb-opencl");
  g_assert_cmpint(bp_plugin_activate("elf"), ==, -1);
  assert_contains(bp_error_message(), "/not-elf.so: is not an ELF file");
  bp_error_clear();
}

/* The first file in name order counts; a malformed file is logged and skipped. */
static void test_packages_are_named_by_installed_files(void) {
  write_package_file("a.conf", "[packages]\nopencl=the-first\n");
  assert_explains("opencl", "install the package the-first, or name the folder of its plugin");
  assert_explains("llvm", "install the package deb-llvm");
  write_package_file("a.conf", "opencl=no-group\n");
  assert_explains("opencl", "install the package deb-opencl");
  assert_contains(messages->str, "a.conf is malformed");
  write_package_file("a.conf", "");
  write_package_file("a.txt", "[packages]\nopencl=no-conf\n");
  assert_explains("opencl", "install the package deb-opencl");
  g_autofree char *first = package_file("a.conf"), *other = package_file("a.txt");
  g_remove(first);
  g_remove(other);
}

static void test_unusable_plugins_say_why_and_the_host_goes_on(void) {
  assert_fails("odd-no-entry", "does not export its entry point bp_plugin_entry_odd_no_entry");
  assert_fails("odd-entry-abi", "answers with plugin ABI 7.0");
  assert_fails("odd-entry-fails", "its entry point failed");
  assert_fails("odd-init-fails", "its initialisation failed: no such hardware; buy some");
  assert_fails("odd-init-fails-silently", "it gave no reason");
  assert_fails("odd-registers-less", "it provides test.odd-missing");
}

static void test_plugin_whose_name_is_taken_fails(void) {
  BpFunction *function = NULL;
  g_assert_cmpint(bp_registry_get("test.odd-good", &function), ==, 0);
  g_assert_cmpint(bp_registry_set("test.odd-taken", function, 0), ==, 0);
  bp_object_release(function);
  g_assert_cmpint(bp_plugin_activate("odd-taken"), ==, -1);
  assert_contains(bp_error_message(), "which is registered already");
  g_assert_cmpint(call("test.odd-taken"), ==, 1);
  bp_error_clear();
}

static void test_missing_vendor_library_is_named_with_the_package(void) {
  g_assert_cmpint(call("test.odd-vendor"), ==, -2);
  assert_contains(bp_error_message(), "libq");
  assert_contains(bp_error_message(), "install the package that holds what is missing");
  bp_error_clear();
}

static void test_names_of_others_are_not_ready_while_a_plugin_initialises(void) {
  g_assert_cmpint(call("test.odd-asks-other"), ==, 1);
  g_assert_cmpint(find_plugin("/odd-good.so").state, ==, BP_PLUGIN_FOUND);
  g_assert_cmpint(call("test.odd-asks-itself"), ==, 1);
}

/* ---- Threads ----------------------------------------------------------------------------- */

#define THREADS 32

static void *call_in_thread(void *data) {
  return (void *)(intptr_t)call(data);
}

static void call_in_threads(const char *const *names, size_t count) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    g_assert_cmpint(
        pthread_create(&threads[i], NULL, call_in_thread, (void *)(uintptr_t)names[i % count]), ==,
        0);
  for (size_t i = 0; i < THREADS; i++) {
    void *result;
    g_assert_cmpint(pthread_join(threads[i], &result), ==, 0);
    g_assert_cmpint((intptr_t)result, ==, 1);
  }
}

static void test_first_use_by_many_threads_initialises_once(void) {
  static const char *const names[] = {"test.odd-slow"};
  call_in_threads(names, 1);
}

/* Each of two plugins requests the other's name: neither waits for the other. */
static void test_plugins_that_ask_for_each_other_do_not_hang(void) {
  static const char *const names[] = {"test.odd-asks-cycle-a", "test.odd-asks-cycle-b"};
  call_in_threads(names, 2);
}

static atomic_int go;

static void *list_in_thread(void *data) {
  while (atomic_load(&go))
    bp_plugin_list_free(bp_plugin_list());
  return data;
}

static void test_lists_during_activation(void) {
  pthread_t lister;
  static const char *const names[] = {"test.odd-listed-a", "test.odd-listed-b"};
  atomic_store(&go, 1);
  g_assert_cmpint(pthread_create(&lister, NULL, list_in_thread, NULL), ==, 0);
  call_in_threads(names, 2);
  atomic_store(&go, 0);
  g_assert_cmpint(pthread_join(lister, NULL), ==, 0);
}

/* ---- Linked into the program ------------------------------------------------------------- */

static int static_answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 1};
  return 0;
}

static int32_t static_initialize(void *context) {
  (void)context;
  BpFunction *function = bp_function_create(static_answer, NULL, NULL);
  int rc = bp_registry_set("test.in-program", function, 0);
  bp_object_release(function);
  return rc;
}

/* Initialises a plugin in a thread that is being cancelled. */
static int32_t cancelled_initialize(void *context) {
  (void)context;
  pthread_cancel(pthread_self());
  pthread_testcancel();
  BpFunction *function = bp_function_create(static_answer, NULL, NULL);
  int rc = bp_registry_set("test.cancelled", function, 0);
  bp_object_release(function);
  return rc;
}

static int32_t cancelled_entry(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = host->abi_version;
  plugin->initialize = cancelled_initialize;
  return 0;
}

static int32_t static_entry(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = host->abi_version;
  plugin->initialize = static_initialize;
  return 0;
}

#define STATIC_DESCRIPTOR(name, entry)                                                             \
  "abi=" BP_ABI_NEEDED_TEXT "\nname=" name "\nversion=1\nlicense=MIT\ndescription=x\nentry=" entry \
  "\nprovides=test." name "\n"

static void test_plugin_linked_into_the_program(void) {
  static const char descriptor[] = STATIC_DESCRIPTOR("in-program", "bp_plugin_entry_in_program");
  g_assert_cmpint(bp_plugin_register_static(descriptor, static_entry), ==, 0);
  g_assert_cmpint(call("test.in-program"), ==, 1);
  BpPluginList *list = bp_plugin_list();
  const BpPluginInfo *info = bp_plugin_list_get(list, 0);
  g_assert_cmpint(info->is_static, ==, 1);
  g_assert_cmpint(info->state, ==, BP_PLUGIN_ACTIVE);
  g_assert_cmpstr(info->name, ==, "in-program");
  g_assert_null(bp_plugin_list_get(list, bp_plugin_list_size(list)));
  g_assert_true(bp_error_is(BP_ERROR_INDEX));
  bp_plugin_list_free(list);
  g_assert_cmpint(bp_plugin_register_static(descriptor, static_entry), ==, -1);
  g_assert_cmpint(bp_plugin_register_static(STATIC_DESCRIPTOR("other", "wrong"), static_entry), ==,
                  -1);
  g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  bp_error_clear();
}

/* ---- The host's tables ------------------------------------------------------------------- */

static void *activate_in_thread(void *name) {
  bp_plugin_activate(name);
  pthread_testcancel();
  return NULL;
}

/* Other threads that want the plugin would wait for ever. */
static void test_a_cancelled_thread_completes_the_initialisation(void) {
  static char name[] = "cancelled";
  pthread_t thread;
  void *result;
  g_assert_cmpint(bp_plugin_register_static(
                      STATIC_DESCRIPTOR("cancelled", "bp_plugin_entry_cancelled"), cancelled_entry),
                  ==, 0);
  g_assert_cmpint(pthread_create(&thread, NULL, activate_in_thread, name), ==, 0);
  g_assert_cmpint(pthread_join(thread, &result), ==, 0);
  g_assert_true(result == PTHREAD_CANCELED);
  g_assert_cmpint(call("test.cancelled"), ==, 1);
}

static void test_host_tables_are_added_once(void) {
  static const uint64_t table = sizeof table, other = sizeof other;
  g_assert_cmpint(bp_host_add_table("test", 1, &table), ==, 0);
  g_assert_cmpint(bp_host_add_table("test", 1, &table), ==, 0);
  g_assert_cmpint(bp_host_add_table("test", 1, &other), ==, -1);
  g_assert_cmpint(bp_host_add_table("test", 2, &other), ==, 0);
  bp_error_clear();
}

/* ---- The directories --------------------------------------------------------------------- */

static void make_bad_descriptors(void) {
  static const char *const changes[][3] = {
      {"bad-key-twice.so", "version=1.0", "name=twelve"},
      {"bad-no-key.so", "license=", "licence="},
      {"bad-line.so", "unknown=is", "unknown is"},
      {"bad-name.so", "name=odd-bulk", "name=Odd-bulk"},
      {"bad-entry.so", "entry=bp_plugin_e", "entry=bp_plugin_x"},
      {"bad-provides.so", "provides=test.", "provides=test/"},
      {"bad-control.so", "A plugin for", "A\033plugin for"},
      {"bad-c1.so", "A plugin for", "A\302\233lugin for"},
      {"bad-direction.so", "A plugin for", "A\342\200\256ugin for"},
      {"bad-utf8.so", "A plugin for", "A\377plugin for"},
      {"bad-abi.so", "abi=1.", "abi=x."},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(changes); i++)
    copy_plugin("odd-bulk-000", changes[i][0], changes[i][1], changes[i][2]);
}

static void write_many_notes(const Elf64_Ehdr *header) {
  enum { SEGMENTS = 250, START = 32768, NOTES = 1 << 20 };
  g_autofree char *data = g_malloc0(START + NOTES);
  Elf64_Ehdr *start = memcpy(data, header, sizeof *header);
  Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(data + sizeof *header);
  start->e_phoff = sizeof *header;
  start->e_phnum = SEGMENTS;
  start->e_shoff = 0;
  start->e_shnum = 0;
  for (int i = 0; i < SEGMENTS; i++)
    segments[i] =
        (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = START, .p_filesz = NOTES, .p_align = 4};
  write_plugin("many-notes.so", data, START + NOTES);
}

/* Writes a file whose first section header claims 2^56 sections. */
static void write_many_sections(const char *plugin, gsize size) {
  g_autofree char *data = g_memdup2(plugin, size);
  Elf64_Ehdr *header = (void *)data;
  header->e_shnum = 0;
  ((Elf64_Shdr *)(void *)(data + header->e_shoff))->sh_size = (uint64_t)1 << 56;
  write_plugin("many-sections.so", data, size);
}

static void make_bad_files(void) {
  g_autofree char *data = NULL, *directory = plugin_file_path("directory.so");
  gsize size;
  read_plugin("odd-bulk-000", &data, &size);
  write_plugin("not-elf.so", "#!/bin/sh\n", 10);
  write_plugin("empty.so", "", 0);
  g_assert_cmpint(g_mkdir(directory, 0700), ==, 0);
  write_plugin("truncated-header.so", data, 40);
  write_plugin("truncated-half.so", data, size / 2);
  write_plugin("truncated-end.so", data, size - 1);
  Elf64_Ehdr *header = (void *)data;
  write_many_notes(header);
  write_many_sections(data, size);
  header->e_machine = EM_SPARCV9;
  write_plugin("other-machine.so", data, size);
  header->e_ident[EI_CLASS] = ELFCLASS32;
  write_plugin("other-class.so", data, size);
  g_autofree char *self = NULL;
  read_plugin("odd-bulk-000", &self, &size);
  ((Elf64_Ehdr *)(void *)self)->e_type = ET_EXEC;
  write_plugin("program.so", self, size);
}

static void make_plugins(void) {
  static const char *const plain[] = {
      "odd-good",           "odd-other-abi",   "odd-no-note",      "odd-no-entry",
      "odd-entry-abi",      "odd-entry-fails", "odd-init-fails",   "odd-init-fails-silently",
      "odd-asks-other",     "odd-asks-itself", "odd-asks-cycle-a", "odd-asks-cycle-b",
      "odd-registers-less", "odd-taken",       "odd-slow",         "odd-vendor",
      "odd-listed-a",       "odd-listed-b"};
  for (size_t i = 0; i < G_N_ELEMENTS(plain); i++) {
    g_autofree char *file = g_strdup_printf("%s.so", plain[i]);
    copy_plugin(plain[i], file, NULL, NULL);
  }
  copy_plugin("odd-bulk-000", "odd-unused.so", "bulk-000", "bulk-777");
  copy_plugin("odd-twice", "a/odd-twice.so", NULL, NULL);
  copy_plugin("odd-twice", "b/odd-twice.so", NULL, NULL);
  lose_library("odd-vendor.so");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  messages = g_string_new(NULL);
  bp_log_set_callback(keep_message, NULL);
  make_plugin_directory();
  make_plugins();
  make_bad_descriptors();
  make_bad_files();
  g_autofree char *a = plugin_file_path("a"), *b = plugin_file_path("b");
  g_autofree char *all = plugin_file_path("");
  g_autofree char *path = g_strdup_printf("%s:%s:%s:/proc/nonexistent/plugins", a, b, all);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  write_package_file("names.conf", "[packages]\nopencl=deb-opencl\nllvm=deb-llvm\n");
#define ADD(path, test) g_test_add_func("/plugins/" path, test)
  ADD("descriptor/is-read-without-loading-PLG-1", test_descriptor_is_read_without_loading);
  ADD("descriptor/survives-strip-PLG-3", test_descriptor_survives_strip);
  ADD("descriptor/malformed-ones-are-rejected-PLG-4", test_malformed_descriptors_are_rejected);
  ADD("descriptor/other-abi-is-rejected-PLG-2", test_other_abi_is_rejected);
  ADD("file/that-is-no-plugin-is-rejected", test_files_that_are_no_plugins_are_rejected);
  ADD("file/that-would-take-long-is-rejected-PLG-4", test_files_that_would_take_long_are_rejected);
  ADD("file/damaged-ones-never-crash-the-search-PLG-4", test_damaged_files_never_crash_the_search);
  ADD("file/a-dangling-link-and-a-fifo-do-not-stop-the-search",
      test_a_dangling_link_and_a_fifo_do_not_stop_the_search);
  ADD("search/first-of-a-name-wins-and-the-other-is-reported-PLG-14",
      test_first_of_a_name_wins_and_the_other_is_reported);
  ADD("search/a-plugin-installed-later-is-found-by-a-list",
      test_a_plugin_installed_later_is_found_by_a_list);
  ADD("search/a-hundred-plugins-are-listed-and-not-loaded-PLG-1",
      test_a_hundred_plugins_are_listed_and_not_loaded);
  ADD("search/missing-directory-is-reported-once",
      test_missing_directory_of_the_path_is_reported_once);
  ADD("activation/asking-for-others-meanwhile-is-not-ready-PLG-19",
      test_names_of_others_are_not_ready_while_a_plugin_initialises);
  ADD("activation/on-first-use-of-a-name-PLG-18", test_first_use_of_a_name_activates_its_plugin);
  ADD("activation/by-path", test_activation_by_path);
  ADD("activation/unknown-plugin-is-an-error-with-the-nearest",
      test_unknown_plugin_is_an_error_with_the_nearest);
  ADD("search/what-is-not-used-is-no-warning-PLG-32", test_what_is_not_used_is_no_warning);
  ADD("activation/a-plugin-that-others-may-change-is-warned-of-once-PLG-16",
      test_a_plugin_that_others_may_change_is_warned_of_once);
  ADD("search/absence-is-explained-by-a-plugin-that-cannot-be-used-PLG-32",
      test_absence_is_explained_by_a_plugin_that_cannot_be_used);
  ADD("search/packages-are-named-by-installed-files-PLG-32",
      test_packages_are_named_by_installed_files);
  ADD("activation/unusable-plugins-say-why-PLG-20",
      test_unusable_plugins_say_why_and_the_host_goes_on);
  ADD("activation/plugin-whose-name-is-taken-fails", test_plugin_whose_name_is_taken_fails);
  ADD("activation/missing-vendor-library-is-named-with-the-package-PLG-24",
      test_missing_vendor_library_is_named_with_the_package);
  ADD("threads/first-use-by-many-initialises-once-PLG-18",
      test_first_use_by_many_threads_initialises_once);
  ADD("threads/plugins-that-ask-for-each-other-do-not-hang-PLG-19",
      test_plugins_that_ask_for_each_other_do_not_hang);
  ADD("threads/lists-during-activation-PLG-19", test_lists_during_activation);
  ADD("program/plugin-linked-into-it", test_plugin_linked_into_the_program);
  ADD("program/a-cancelled-thread-completes-its-initialisation",
      test_a_cancelled_thread_completes_the_initialisation);
  ADD("host/tables-are-added-once", test_host_tables_are_added_once);
  int rc = g_test_run();
  remove_package_file("names.conf");
  remove_plugin_directory();
  return rc;
}
