/* SPDX-License-Identifier: Apache-2.0 */
/* Selecting a device by preferences. The kinds belong to plugins linked into this program: `slow`
 * with one device, `fast` with two, `empty` with none, `broken`, which fails to initialise, and
 * `cuda`, which has the table of another kind. */

#include "tests/bare_device.h"
#include "tests/core/package_names.h"

#include <backplane/plugins.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The devices ------------------------------------------------------------------------- */

static int32_t answer_text(BpValue *result, const char *text) {
  return bp_value_make_str(result, text, strlen(text));
}

/* A text without a NUL, in the last bytes of a page before an inaccessible page. */
static int32_t answer_last_bytes(BpValue *result, const char *text) {
  static BpByteArray bytes;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), length = strlen(text);
  if (!bytes.data) {
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    g_assert_true(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    bytes = (BpByteArray){memcpy(pages + page - length, text, length), length};
  }
  *result = (BpValue){.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = &bytes};
  return 0;
}

static int32_t answer_int(BpValue *result, int32_t type, int64_t number) {
  *result = (BpValue){.type_index = type, .v_int64 = number};
  return 0;
}

static int32_t slow_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  if (attr == BP_ATTR_EXIST)
    return answer_int(result, BP_TYPE_BOOL, 1);
  if (attr == BP_ATTR_RANK)
    return answer_int(result, BP_TYPE_INT, 1);
  return attr == BP_ATTR_DEVICE_NAME ? answer_text(result, "A slow one") : 0;
}

/* fast:0 has a low rank, fast:1 a high one, fast:2 cannot be used now. */
static int32_t fast_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 3;
  *why = "";
  return 0;
}

static int32_t fast_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  static const char *const names[] = {"Fast Little", "Fast Large (R)", "Fast Lost"};
  if (attr == BP_ATTR_EXIST)
    return answer_int(result, BP_TYPE_BOOL, device_id != 2);
  if (attr == BP_ATTR_RANK)
    return answer_int(result, BP_TYPE_INT, 100 * (device_id + 1));
  if (attr == BP_ATTR_UUID && device_id == 0)
    return answer_last_bytes(result, "fast-0");
  if (attr == BP_ATTR_PCI_ADDRESS && device_id == 1)
    return answer_text(result, "0000:01:00.0");
  return attr == BP_ATTR_DEVICE_NAME ? answer_text(result, names[device_id]) : 0;
}

static int32_t empty_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 0;
  *why = "no driver; install empty-driver";
  return 0;
}

#define API(variable, type, text, count, attr)                                                     \
  static const BpDeviceApi variable = {.struct_size = sizeof variable,                             \
                                       .device_type = type,                                        \
                                       .name = text,                                               \
                                       .get_device_count = count,                                  \
                                       .get_attr = attr,                                           \
                                       BARE_MEMORY}
API(slow_api, 61500, "slow", bare_count, slow_attr);
API(fast_api, 61501, "fast", fast_count, fast_attr);
API(empty_api, 61502, "empty", empty_count, slow_attr);
API(stolen_api, BP_DEVICE_VULKAN, "cuda", bare_count, slow_attr);

/* ---- The plugins ------------------------------------------------------------------------- */

static int32_t initialize_good(void *context) {
  (void)context;
  return bare_register("device_api.slow", &slow_api) ||
                 bare_register("device_api.fast", &fast_api) ||
                 bare_register("device_api.empty", &empty_api) ||
                 bare_register("device_api.cuda", &stolen_api)
             ? -1
             : 0;
}

static int32_t initialize_broken(void *context) {
  (void)context;
  return bp_error_raise(BP_ERROR_DEVICE, "the hardware is on fire");
}

static int32_t good_entry(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = host->abi_version;
  plugin->initialize = initialize_good;
  return 0;
}

static int32_t broken_entry(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = host->abi_version;
  plugin->initialize = initialize_broken;
  return 0;
}

#define DESCRIPTOR(name, provides, devices)                                                        \
  "abi=" BP_ABI_NEEDED_TEXT "\nname=" name "\nversion=1\nlicense=MIT\ndescription=x\n"             \
  "entry=bp_plugin_entry_" name "\nprovides=" provides "\ndevices=" devices "\n"

static void register_plugins(void) {
  if (bp_plugin_register_static(DESCRIPTOR("good",
                                           "device_api.slow device_api.fast device_api.empty "
                                           "device_api.cuda",
                                           "slow fast empty cuda"),
                                good_entry) ||
      bp_plugin_register_static(DESCRIPTOR("broken", "device_api.broken", "broken"), broken_entry))
    g_error("%s", bp_error_message());
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void assert_contains(const char *text, const char *part) {
  if (!strstr(text, part))
    g_error("\"%s\" does not contain \"%s\"", text, part);
}

/* `passed` is a part of the report; "" if nothing is reported. */
static void assert_selects(const char *preferences, const char *expected, const char *passed) {
  BpDevice device;
  char text[64], *report;
  if (bp_device_select(preferences, &device, &report))
    g_error("%s: %s", preferences, bp_error_message());
  bp_device_format(device, text, sizeof text);
  g_assert_cmpstr(text, ==, expected);
  if (*passed)
    assert_contains(report, passed);
  else
    g_assert_cmpstr(report, ==, "");
  bp_str_free(report);
}

static void assert_selects_nothing(const char *preferences, const char *kind, const char *part) {
  BpDevice device;
  char *report = NULL;
  g_assert_cmpint(bp_device_select(preferences, &device, &report), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  assert_contains(bp_error_message(), part);
  g_assert_null(report);
  bp_error_clear();
}

static void test_kind_means_its_best_device(void) {
  assert_selects("fast", "fast:1", "");
  assert_selects("slow", "slow:0", "");
}

static void test_kind_and_index(void) {
  assert_selects("fast:0", "fast:0", "");
  assert_selects("fast:1", "fast:1", "");
  assert_selects_nothing("fast:3", BP_ERROR_NOT_FOUND, "there is no device fast:3");
  assert_selects_nothing("fast:2", BP_ERROR_NOT_FOUND, "cannot be used now");
  assert_selects_nothing("fast:99999999999999999999", BP_ERROR_NOT_FOUND,
                         "no device of that index");
}

static void test_kind_and_name(void) {
  assert_selects("fast:*little*", "fast:0", "");
  assert_selects("fast:Fast L*", "fast:1", "");
  assert_selects_nothing("fast:*lost*", BP_ERROR_NOT_FOUND, "cannot be used now");
  assert_selects_nothing("fast:*nowhere*", BP_ERROR_NOT_FOUND, "no device of that name");
}

static void test_auto_takes_the_best_and_says_what_it_skipped(void) {
  assert_selects("auto", "fast:1", "broken: ");
  assert_selects("", "fast:1", "the hardware is on fire");
  assert_selects("auto", "fast:1", "empty: no driver; install empty-driver");
}

static void test_first_entry_that_is_there_wins(void) {
  assert_selects("slow,fast", "slow:0", "");
  assert_selects(" empty , slow:0 ,fast", "slow:0", "empty: no driver; install empty-driver");
  assert_selects("vulkan,slow", "slow:0", "vulkan: no installed plugin");
  assert_selects("broken,auto", "fast:1", "the hardware is on fire");
}

static void test_excluded_devices_are_not_selected(void) {
  assert_selects("!fast", "slow:0", "empty: ");
  assert_selects("!fast,fast,slow", "slow:0", "fast: excluded by the same list");
  assert_selects_nothing("!fast,!slow,!empty,!broken,!cuda", BP_ERROR_NOT_FOUND,
                         "leaves no kind to be tried");
}

static void test_nothing_there_is_an_error_that_lists_what_is(void) {
  assert_selects_nothing(
      "empty", BP_ERROR_NOT_FOUND,
      "There is: fast:0 (Fast Little), fast:1 (Fast Large (R)), slow:0 (A slow one)");
  assert_selects_nothing("empty", BP_ERROR_NOT_FOUND, "install empty-driver");
  assert_selects_nothing("broken", BP_ERROR_NOT_FOUND, "the hardware is on fire");
  assert_selects_nothing("fsat", BP_ERROR_NOT_FOUND, "did you mean \"fast\"");
  assert_selects_nothing("cuda", BP_ERROR_NOT_FOUND, "which is not its own");
}

/* A meaningless entry is an error even if a later entry would match. */
static void test_words_that_nobody_knows_are_errors(void) {
  static const char *const lists[] = {"fsat,slow", "slow,fsat", "!fsat",
                                      "+fsat",     "fsat=3",    "slow,fsat:*x*"};
  for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
    assert_selects_nothing(lists[i], BP_ERROR_NOT_FOUND, "did you mean \"fast\"");
  assert_selects_nothing("FAST:0", BP_ERROR_NOT_FOUND, "did you mean \"fast\"");
  assert_selects_nothing("plugin:goood", BP_ERROR_NOT_FOUND, "did you mean \"good\"");
}

/* A published kind is known even if no plugin for it is installed. */
static void test_kinds_without_a_plugin_are_known(void) {
  assert_selects_nothing("vulcan", BP_ERROR_NOT_FOUND, "did you mean \"vulkan\"");
  assert_selects_nothing("vulcan", BP_ERROR_NOT_FOUND, "package deb-vulkan");
  assert_selects_nothing("metal", BP_ERROR_NOT_FOUND, "BACKPLANE_PLUGIN_PATH");
}

/* A different first letter makes a different short word: "gpu" is not a misspelt "cpu". */
static void test_short_words_are_near_by_their_first_letter(void) {
  BpDevice device;
  g_assert_cmpint(bp_device_select("vast", &device, NULL), ==, -1);
  assert_contains(bp_error_message(), "(installed: ");
  g_assert_null(strstr(bp_error_message(), "did you mean"));
  bp_error_clear();
  assert_selects_nothing("afst", BP_ERROR_NOT_FOUND, "did you mean \"fast\"");
  assert_selects_nothing("fasst", BP_ERROR_NOT_FOUND, "did you mean \"fast\"");
}

static void test_exclusion_of_devices(void) {
  assert_selects("!fast:1", "fast:0", "empty: ");
  assert_selects("!name:*large*", "fast:0", "empty: ");
  assert_selects("fast,!fast:*LARGE*", "fast:0", "");
  assert_selects("fast:1,!fast:1,slow", "slow:0", "fast:1: excluded by the same list");
  assert_selects_nothing("!plugin:good,slow", BP_ERROR_NOT_FOUND, "excluded by the same list");
}

static void test_only(void) {
  assert_selects("+slow", "slow:0", "");
  assert_selects("+slow,+fast:0", "fast:0", "");
  assert_selects("+plugin:good", "fast:1", "empty: ");
  assert_selects("fast,slow,+slow", "slow:0",
                 "fast: not among the devices that the same list allows");
  assert_selects_nothing("fast,+slow", BP_ERROR_NOT_FOUND,
                         "not among the devices that the same list allows");
  assert_selects("+name:*Little*", "fast:0", "empty: ");
}

static void test_rank(void) {
  assert_selects("slow=1000", "slow:0", "empty: ");
  assert_selects("fast:0=1000", "fast:0", "empty: ");
  assert_selects("fast,fast:1=-5", "fast:0", "");
  assert_selects("name:*little*=999,auto", "fast:0", "empty: ");
}

static void test_identities(void) {
  assert_selects("uuid:fast-0", "fast:0", "empty: ");
  assert_selects("pci:0000:01:00.0", "fast:1", "empty: ");
  assert_selects("pci:0000:09:00.0,slow", "slow:0", "no device of that PCI address");
  assert_selects("+uuid:FAST-0", "fast:0", "empty: ");
  assert_selects("name:*slow*", "slow:0", "empty: ");
  assert_selects("plugin:good", "fast:1", "empty: ");
  assert_selects_nothing("plugin:broken", BP_ERROR_NOT_FOUND, "the hardware is on fire");
}

/* An entry that excludes, allows or ranks a missing device is an error, because its author expects
 * an effect. */
static void test_entries_that_match_nothing_are_errors(void) {
  assert_selects_nothing("!name:Fast Lrge (R)", BP_ERROR_NOT_FOUND,
                         "did you mean \"Fast Large (R)\"");
  assert_selects_nothing("!pci:0000:01:00.1", BP_ERROR_NOT_FOUND, "did you mean \"0000:01:00.0\"");
  assert_selects_nothing("+uuid:fast-9", BP_ERROR_NOT_FOUND, "\"+uuid:fast-9\" matches no device");
  assert_selects_nothing("fast:7=3", BP_ERROR_NOT_FOUND, "\"fast:7\" matches no device");
  assert_selects_nothing("fast:*lrge*", BP_ERROR_NOT_FOUND, "no device of that name");
  /* The plugin was not searched for. */
  assert_selects("slow,!fast:7", "slow:0", "");
}

static void test_help_explains_the_grammar(void) {
  assert_selects_nothing("help", BP_ERROR_VALUE, "plugin:NAME");
  assert_selects_nothing("slow, help", BP_ERROR_VALUE, bp_device_select_help());
}

static void test_short_buffer_takes_the_beginning_of_a_device(void) {
  char text[] = "########";
  BpDevice device;
  g_assert_cmpint(bp_device_parse("fast:1", &device), ==, 0);
  g_assert_cmpuint(bp_device_format(device, text, 4), ==, strlen("fast:1"));
  g_assert_cmpmem(text, sizeof text, "fas\0####", sizeof text);
  g_assert_cmpuint(bp_device_identity(device, text, 5), ==, strlen("pci:0000:01:00.0"));
  g_assert_cmpmem(text, sizeof text, "pci:\0###", sizeof text);
}

static void test_hardware(void) {
  char text[64];
  BpDevice device;
  static const char *const expected[][2] = {
      {"fast:0", "uuid:fast-0"}, {"fast:1", "pci:0000:01:00.0"}, {"slow:0", ""}};
  for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
    g_assert_cmpint(bp_device_parse(expected[i][0], &device), ==, 0);
    bp_device_identity(device, text, sizeof text);
    g_assert_cmpstr(text, ==, expected[i][1]);
  }
}

static void write_configuration(const char *folder, const char *text) {
  g_autofree char *directory = g_build_filename(folder, "backplane", NULL);
  g_autofree char *path = g_build_filename(directory, "backplane.conf", NULL);
  g_assert_cmpint(g_mkdir_with_parents(directory, 0700), ==, 0);
  g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* The argument has priority, then the environment, then the file. */
static void test_configuration_file(void) {
  g_autofree char *folder = g_dir_make_tmp("backplane-config-XXXXXX", NULL);
  g_setenv("XDG_CONFIG_HOME", folder, TRUE);
  assert_selects(NULL, "fast:1", "broken: ");
  write_configuration(folder, "[device]\n# comment\nselect=slow,fast\n");
  assert_selects(NULL, "slow:0", "");
  char *list = bp_device_preferences();
  g_assert_cmpstr(list, ==, "slow,fast");
  bp_str_free(list);
  assert_selects("fast", "fast:1", "");
  g_setenv("BACKPLANE_DEVICE", "fast:0", TRUE);
  assert_selects(NULL, "fast:0", "");
  g_unsetenv("BACKPLANE_DEVICE");
  write_configuration(folder, "[device]\nselect=fsat\n");
  assert_selects_nothing(NULL, BP_ERROR_NOT_FOUND, "backplane.conf: no installed plugin");
  write_configuration(folder, "nonsense\n");
  assert_selects_nothing(NULL, BP_ERROR_FORMAT, "is malformed");
  assert_selects("fast", "fast:1", "");
  write_configuration(folder, "[other]\n");
  assert_selects(NULL, "fast:1", "broken: ");
  g_autofree char *path = g_build_filename(folder, "backplane/backplane.conf", NULL);
  g_unlink(path);
  g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
  assert_selects_nothing(NULL, BP_ERROR_IO, "cannot read the configuration");
  g_rmdir(path);
  g_autofree char *directory = g_path_get_dirname(path);
  g_rmdir(directory);
  g_rmdir(folder);
  g_setenv("XDG_CONFIG_HOME", "/proc/nonexistent", TRUE);
}

static void test_malformed_preferences_are_errors(void) {
  static const char *const lists[] = {"fast:",      ":0",    "!",      "fast,!",    "a b",
                                      "slow,,fast", ",",     "auto:1", "fast,sl*w", "!auto",
                                      "+",          "+auto", "auto=5", "!fast=5",   "name",
                                      "plugin:",    "pci:",  "uuid",   "plugin:/"};
  for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
    assert_selects_nothing(lists[i], BP_ERROR_VALUE, "not a preference for a device");
}

static void test_variable_of_the_environment_lists_preferences(void) {
  g_setenv("BACKPLANE_DEVICE", "slow", TRUE);
  assert_selects(NULL, "slow:0", "");
  g_unsetenv("BACKPLANE_DEVICE");
  assert_selects(NULL, "fast:1", "broken: ");
}

static void test_kinds_without_code_are_left_out(void) {
  const int32_t types[] = {61500, BP_DEVICE_OPENCL};
  BpDevice device;
  char *report;
  g_assert_cmpint(bp_device_select_among(types, 2, "auto", &device, &report), ==, 0);
  g_assert_cmpint(device.device_type, ==, 61500);
  assert_contains(report, "fast: there is no code for it");
  bp_str_free(report);
  g_assert_cmpint(bp_device_select_among(types, 2, "fast:1,slow", &device, NULL), ==, 0);
  g_assert_cmpint(device.device_type, ==, 61500);
  g_assert_cmpint(bp_device_select_among(types, 2, "fast", &device, &report), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_NOT_FOUND);
  assert_contains(bp_error_message(), "fast: there is no code for it");
  g_assert_null(report);
  /* A plugin whose kind has a published number is not even tried: this one would report that the
   * number is not its own. */
  g_assert_cmpint(bp_device_select_among(types, 2, "cuda,slow", &device, &report), ==, 0);
  g_assert_cmpstr(report, ==, "cuda: there is no code for it");
  bp_str_free(report);
  /* If there is no device at all, the missing plugin is the reason. */
  g_assert_cmpint(bp_device_select_among(&types[1], 1, "auto", &device, NULL), ==, -1);
  assert_contains(bp_error_message(), "among the kinds that the code is for (opencl)");
  assert_contains(bp_error_message(), "opencl: no installed plugin has devices of kind");
  assert_contains(bp_error_message(), "install the package deb-opencl");
  bp_error_clear();
}

/* If no device is left to select, the error lists all obstacles. */
static void test_absence_is_said_beside_the_lack_of_code(void) {
  static const char *const cases[][3] = {
      {"cuda", "cuda: there is no code for it", "cuda: the DeviceAPI of cuda has device type"},
      {"fast:9", "fast: there is no code for it", "fast:9: there is no device fast:9"},
      {"empty", "empty: there is no code for it", "empty: no driver; install empty-driver"}};
  const int32_t types[] = {61500};
  BpDevice device;
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_assert_cmpint(bp_device_select_among(types, 1, cases[i][0], &device, NULL), ==, -1);
    assert_contains(bp_error_message(), cases[i][1]);
    assert_contains(bp_error_message(), cases[i][2]);
    bp_error_clear();
  }
}

/* A kind whose name is a word of the grammar could not be selected, so it is refused. */
static void test_words_of_the_grammar_are_no_kinds(void) {
  static const char *const words[] = {"auto", "help", "name", "pci", "plugin", "uuid"};
  for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
    g_autofree char *descriptor =
        g_strdup_printf(DESCRIPTOR("worded", "device_api.%s", "some %s"), words[i], words[i]);
    g_autofree char *expected = g_strdup_printf("\"%s\" in its devices is not a kind", words[i]);
    g_assert_cmpint(bp_plugin_register_static(descriptor, good_entry), ==, -1);
    assert_contains(bp_error_message(), expected);
    bp_error_clear();
  }
}

static void test_missing_arguments_are_errors(void) {
  g_assert_cmpint(bp_plugin_register_static(NULL, good_entry), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_cmpint(bp_plugin_register_static("", NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  bp_plugin_try(NULL);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  char *why = bp_plugin_explain_absence(NULL);
  g_assert_cmpstr(why, ==, "");
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_str_free(why);
  bp_error_clear();
  g_assert_cmpuint(bp_plugin_list_size(NULL), ==, 0);
  g_assert_null(bp_plugin_list_get(NULL, 0));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

static void test_kinds_are_listed(void) {
  size_t count;
  char **kinds = bp_device_kinds(&count);
  g_autofree char *all = g_strjoinv(" ", kinds);
  g_assert_cmpstr(all, ==, "broken cuda empty fast slow");
  g_assert_cmpint(count, ==, 5);
  bp_names_free(kinds);
}

static void test_numbers_and_names(void) {
  BpDevice device;
  char text[64];
  g_assert_cmpint(bp_device_parse("vulkan:3", &device), ==, 0);
  g_assert_cmpint(device.device_type, ==, BP_DEVICE_VULKAN);
  g_assert_cmpint(device.device_id, ==, 3);
  bp_device_format((BpDevice){4711, 2}, text, sizeof text);
  g_assert_cmpstr(text, ==, "type 4711:2");
  g_assert_null(bp_device_api(4711));
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  static const char *const bad[] = {"", ":", "fast:", "fast:x", "fast:-1", "fast:1:2"};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_assert_cmpint(bp_device_parse(bad[i], &device), ==, -1);
    g_assert_true(bp_error_is(BP_ERROR_VALUE));
  }
  g_assert_cmpint(bp_device_parse("fsat", &device), ==, -1);
  assert_contains(bp_error_message(), "did you mean \"fast\"");
  bp_error_clear();
}

/* The host knows the types of sdk/device-types.txt. */
static void test_host_knows_the_published_numbers(void) {
  const char *sources = g_getenv("top_srcdir");
  g_autofree char *path = g_build_filename(sources ? sources : ".", "sdk/device-types.txt", NULL);
  g_autofree char *text = NULL;
  g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  int count = 0;
  for (char **line = lines; *line; line++) {
    g_auto(GStrv) fields = g_strsplit(*line, " ", 3);
    BpDevice device;
    if (**line == '#' || !**line)
      continue;
    g_assert_cmpint(bp_device_parse(fields[1], &device), ==, 0);
    g_assert_cmpint(device.device_type, ==, (int32_t)g_ascii_strtoll(fields[0], NULL, 10));
    count++;
  }
  g_assert_cmpint(count, >=, 9);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_unsetenv("BACKPLANE_PLUGIN_PATH");
  write_package_file("names.conf", "[packages]\nopencl=deb-opencl\nvulkan=deb-vulkan\n");
  g_setenv("XDG_CONFIG_HOME", "/proc/nonexistent", TRUE);
  g_unsetenv("BACKPLANE_DEVICE");
  register_plugins();
#define ADD(path, test) g_test_add_func("/select/" path, test)
  ADD("kind-means-its-best-device", test_kind_means_its_best_device);
  ADD("kind-and-index", test_kind_and_index);
  ADD("kind-and-name", test_kind_and_name);
  ADD("auto-takes-the-best-and-says-what-it-skipped-PLG-27",
      test_auto_takes_the_best_and_says_what_it_skipped);
  ADD("first-entry-that-is-there-wins-PLG-27", test_first_entry_that_is_there_wins);
  ADD("excluded-devices-are-not-selected", test_excluded_devices_are_not_selected);
  ADD("nothing-there-is-an-error-that-lists-what-is-PLG-27",
      test_nothing_there_is_an_error_that_lists_what_is);
  ADD("malformed-preferences-are-errors", test_malformed_preferences_are_errors);
  ADD("words-that-nobody-knows-are-errors-PLG-28", test_words_that_nobody_knows_are_errors);
  ADD("short-words-are-near-by-their-first-letter-PLG-28",
      test_short_words_are_near_by_their_first_letter);
  ADD("kinds-without-a-plugin-are-known-PLG-28", test_kinds_without_a_plugin_are_known);
  ADD("exclusion-of-devices-PLG-29", test_exclusion_of_devices);
  ADD("only-PLG-29", test_only);
  ADD("rank-PLG-29", test_rank);
  ADD("identities-PLG-29", test_identities);
  ADD("entries-that-match-nothing-are-errors-PLG-28", test_entries_that_match_nothing_are_errors);
  ADD("help-explains-the-grammar", test_help_explains_the_grammar);
  ADD("hardware-PLG-30", test_hardware);
  ADD("short-buffer-takes-the-beginning", test_short_buffer_takes_the_beginning_of_a_device);
  ADD("configuration-file-PLG-29", test_configuration_file);
  ADD("variable-of-the-environment-lists-preferences",
      test_variable_of_the_environment_lists_preferences);
  ADD("kinds-without-code-are-left-out", test_kinds_without_code_are_left_out);
  ADD("absence-is-said-beside-the-lack-of-code-PLG-27",
      test_absence_is_said_beside_the_lack_of_code);
  ADD("words-of-the-grammar-are-no-kinds", test_words_of_the_grammar_are_no_kinds);
  ADD("missing-arguments-are-errors", test_missing_arguments_are_errors);
  ADD("kinds-are-listed", test_kinds_are_listed);
  ADD("numbers-and-names", test_numbers_and_names);
  ADD("host-knows-the-published-numbers", test_host_knows_the_published_numbers);
  int rc = g_test_run();
  remove_package_file("names.conf");
  return rc;
}
