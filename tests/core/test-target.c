/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: their text and JSON forms, defaults and the completion hook, errors, and finding the
 * code generator. The kinds belong to a plugin linked into this program. */

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>

/* ---- A plugin with two kinds ------------------------------------------------------------- */

static const BpTargetTable *table;
static const BpTargetAttr attrs[] = {
    {"arch", BP_TYPE_STR, 0, "base", "the architecture"},
    {"max_num_threads", BP_TYPE_INT, 0, "256", "threads in a block"},
    {"fast", BP_TYPE_BOOL, 0, "false", "whether to hurry"},
    {"ratio", BP_TYPE_FLOAT, 0, NULL, "a number"},
    {"doubled", BP_TYPE_INT, 0, NULL, "twice max_num_threads, unless it is given"},
    {"options", BP_TYPE_STR, 0, NULL, "free text"},
};

static int32_t complete(void *context, BpTarget *target) {
  (void)context;
  BpValue threads, doubled;
  if (table->get_attr(target, "max_num_threads", &threads) ||
      table->get_attr(target, "doubled", &doubled))
    return -1;
  if (threads.v_int64 > 1024)
    return bp_error_raise(BP_ERROR_VALUE, "max_num_threads must be at most 1024");
  if (doubled.type_index != BP_TYPE_NONE)
    return 0;
  doubled = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 2 * threads.v_int64};
  return table->set_attr(target, "doubled", &doubled);
}

static const BpTargetKind odd_kind = {.struct_size = sizeof odd_kind,
                                      .name = "odd",
                                      .device_type = BP_DEVICE_EXT,
                                      .ir_level = BP_IR_LEVEL,
                                      .attrs = attrs,
                                      .attr_size = sizeof(BpTargetAttr),
                                      .num_attrs = G_N_ELEMENTS(attrs),
                                      .description = "A kind for tests",
                                      .complete = complete};
static const BpTargetKind plain_kind = {.struct_size = sizeof plain_kind,
                                        .name = "plain",
                                        .device_type = BP_DEVICE_CPU,
                                        .ir_level = BP_IR_LEVEL,
                                        .attrs = attrs,
                                        .attr_size = sizeof(BpTargetAttr),
                                        .num_attrs = 1,
                                        .description = "Another"};

static const BpTargetAttr number_attrs[] = {
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_VECTOR_REGISTERS, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_INDEX_BITS, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_L1_BYTES, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_L2_BYTES, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_MAX_BUFFER_BYTES, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_MAX_BUFFERS, BP_TYPE_INT, 0, NULL, "x"},
    {BP_TARGET_MAX_ITERATIONS, BP_TYPE_INT, 0, NULL, "x"},
    {"other", BP_TYPE_INT, 0, NULL, "x"},
};
static const BpTargetKind numbers_kind = {.struct_size = sizeof numbers_kind,
                                          .name = "numbers",
                                          .device_type = BP_DEVICE_CPU,
                                          .ir_level = BP_IR_LEVEL,
                                          .attrs = number_attrs,
                                          .attr_size = sizeof(BpTargetAttr),
                                          .num_attrs = G_N_ELEMENTS(number_attrs),
                                          .description = "What the compiler reads"};

static int32_t find_nothing(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static void destroy_nothing(void *context) {
  (void)context;
}

static const BpModuleApi module_api = {.struct_size = sizeof module_api,
                                       .kind = "odd",
                                       .get_function = find_nothing,
                                       .destroy = destroy_nothing};

static int build_odd(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE ||
      args[1].type_index != BP_TYPE_TARGET)
    return bp_error_raise(BP_ERROR_TYPE, "not an IR module and a target");
  if (bp_target_get_int((BpTarget *)(void *)args[1].v_obj, "fast", 0))
    return bp_error_raise(BP_ERROR_COMPILE, "cannot hurry");
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)bp_module_create(&module_api, NULL);
  return result->v_obj ? 0 : -1;
}

static int build_plain(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 1};
  return 0;
}

static int32_t register_build(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  int rc = bp_registry_set(name, function, 0);
  bp_object_release(function);
  return rc;
}

static int32_t initialize(void *context) {
  (void)context;
  return table->register_kind(&odd_kind) || table->register_kind(&plain_kind) ||
                 table->register_kind(&numbers_kind) ||
                 register_build("target.build.odd", build_odd) ||
                 register_build("target.build.plain", build_plain) ||
                 register_build("target.build.numbers", build_plain)
             ? -1
             : 0;
}

static int32_t entry(const BpHost *host, BpPlugin *plugin) {
  table = host->get_table(host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}

static const char descriptor[] = "abi=" BP_ABI_NEEDED_TEXT "\nname=kinds\nversion=1\nlicense=MIT\n"
                                 "description=x\nentry=bp_plugin_entry_kinds\n"
                                 "provides=target.build.odd target.build.plain "
                                 "target.build.numbers\n"
                                 "targets=odd plain numbers\n";

/* ---- Helpers ----------------------------------------------------------------------------- */

static BpTarget *parse(const char *text) {
  BpTarget *target = bp_target_parse(text);
  if (!target)
    g_error("%s: %s", text, bp_error_message());
  return target;
}

static void assert_error(const void *result, const char *kind, const char *part) {
  g_assert_null(result);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static void assert_str(const BpTarget *target, const char *name, const char *expected) {
  BpValue value;
  BpByteArray text;
  g_assert_cmpint(bp_target_get_attr(target, name, &value), ==, 0);
  g_assert_cmpint(bp_value_view_str(&value, &text), ==, 0);
  g_assert_cmpmem(text.data, text.size, expected, strlen(expected));
}

/* Checks that both text forms of the target parse back to a target with the same texts. */
static void assert_round_trip(const BpTarget *target) {
  char *text = bp_target_format(target), *json = bp_target_format_json(target);
  const char *forms[] = {text, json};
  for (int i = 0; i < 2; i++) {
    BpTarget *again = parse(forms[i]);
    char *again_text = bp_target_format(again), *again_json = bp_target_format_json(again);
    g_assert_cmpstr(again_text, ==, text);
    g_assert_cmpstr(again_json, ==, json);
    bp_str_free(again_text);
    bp_str_free(again_json);
    bp_object_release(again);
  }
  bp_str_free(text);
  bp_str_free(json);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_defaults_and_completion(void) {
  BpValue value;
  BpTarget *target = parse("odd");
  g_assert_cmpstr(bp_target_kind(target), ==, "odd");
  g_assert_cmpint(bp_target_device_type(target), ==, BP_DEVICE_EXT);
  assert_str(target, "arch", "base");
  g_assert_cmpint(bp_target_get_int(target, "max_num_threads", -1), ==, 256);
  g_assert_cmpint(bp_target_get_int(target, "doubled", -1), ==, 512);
  g_assert_cmpint(bp_target_get_int(target, "vector_bits", 77), ==, 77);
  g_assert_cmpint(bp_target_get_attr(target, "ratio", &value), ==, 0);
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
  assert_round_trip(target);
  bp_object_release(target);
}

static void test_options_are_read(void) {
  BpValue value;
  BpTarget *target = parse("  odd -arch=v2 --max_num_threads=64 -fast -ratio=0.5 "
                           "-options=\"a \\\"b\\\"  c\\\\\" -doubled=-3 ");
  assert_str(target, "arch", "v2");
  assert_str(target, "options", "a \"b\"  c\\");
  g_assert_cmpint(bp_target_get_int(target, "max_num_threads", -1), ==, 64);
  g_assert_cmpint(bp_target_get_int(target, "doubled", -1), ==, -3);
  g_assert_cmpint(bp_target_get_int(target, "fast", -1), ==, 1);
  g_assert_cmpint(bp_target_get_attr(target, "ratio", &value), ==, 0);
  g_assert_true(value.type_index == BP_TYPE_FLOAT && value.v_float64 == 0.5);
  assert_round_trip(target);
  bp_object_release(target);
}

static void test_any_white_space_separates_options_or_is_quoted(void) {
  BpTarget *target = parse("\v\f\r odd \v-arch=v2\f-fast\r\n-options=\"a\vb\fc\rd\"\v");
  assert_str(target, "arch", "v2");
  assert_str(target, "options", "a\vb\fc\rd");
  g_assert_cmpint(bp_target_get_int(target, "fast", -1), ==, 1);
  assert_round_trip(target);
  bp_object_release(target);
}

static void test_json_is_read(void) {
  BpTarget *target = parse("{\"kind\": \"odd\", \"arch\": \"v\\u0032 {[\", \"fast\": true, "
                           "\"ratio\": 2, \"max_num_threads\": 3}");
  assert_str(target, "arch", "v2 {[");
  g_assert_cmpint(bp_target_get_int(target, "fast", -1), ==, 1);
  g_assert_cmpint(bp_target_get_int(target, "doubled", -1), ==, 6);
  assert_round_trip(target);
  bp_object_release(target);
}

/* A text of an attribute in JSON, and its value. */
static void test_json_strings_and_numbers_are_read_as_json_defines_them(void) {
  static const struct {
    const char *json, *name, *text;
  } cases[] = {
      {"{\"kind\":\"odd\",\"arch\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "arch", "\"\\/\b\f\n\r\t"},
      {"{\"kind\":\"odd\",\"arch\":\"\\u00e9\\uD83D\\ude00\"}", "arch", "\u00e9\U0001F600"},
      {" {\t\"arch\" :\n\"\" ,\r\"kind\":\"odd\" } ", "arch", ""},
      {"{\"kind\":\"odd\",\"ratio\":-12.5e-1}", "ratio", "-1.25"},
      {"{\"kind\":\"odd\",\"ratio\":1E2}", "ratio", "100"},
      {"{\"kind\":\"odd\",\"ratio\":-0}", "ratio", "0"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpTarget *target = parse(cases[i].json);
    BpValue value;
    if (!strcmp(cases[i].name, "arch")) {
      assert_str(target, "arch", cases[i].text);
    } else {
      g_assert_cmpint(bp_target_get_attr(target, cases[i].name, &value), ==, 0);
      g_assert_cmpint(value.type_index, ==, BP_TYPE_FLOAT);
      g_assert_cmpfloat(value.v_float64, ==, g_ascii_strtod(cases[i].text, NULL));
    }
    assert_round_trip(target);
    bp_object_release(target);
  }
}

static void test_control_characters_come_back_from_json(void) {
  BpTarget *target = parse("odd -arch=\"a\x01\x1f\x7f\n\\\"z\"");
  assert_round_trip(target);
  bp_object_release(target);
}

static void test_text_that_is_not_utf8_has_no_json(void) {
  BpTarget *target = parse("plain -arch=\xff");
  assert_error(bp_target_format_json(target), BP_ERROR_VALUE, "arch");
  char *text = bp_target_format(target);
  g_assert_cmpstr(text, ==, "plain -arch=\xff");
  bp_str_free(text);
  bp_object_release(target);
}

static void test_canonical_text_leaves_defaults_out(void) {
  BpTarget *target = parse("plain -arch=base");
  char *text = bp_target_format(target);
  g_assert_cmpstr(text, ==, "plain");
  bp_str_free(text);
  bp_object_release(target);
}

static void test_a_target_that_is_null_is_an_error(void) {
  BpValue value;
  assert_error(bp_target_parse(NULL), BP_ERROR_VALUE, "'text' is NULL");
  assert_error(bp_target_kind_info(NULL), BP_ERROR_VALUE, "'kind' is NULL");
  assert_error(bp_target_kind(NULL), BP_ERROR_VALUE, "'target' is NULL");
  assert_error(bp_target_format(NULL), BP_ERROR_VALUE, "'target' is NULL");
  assert_error(bp_target_format_json(NULL), BP_ERROR_VALUE, "'target' is NULL");
  g_assert_cmpint(bp_target_device_type(NULL), ==, -1);
  g_assert_cmpint(bp_target_get_attr(NULL, "fast", &value), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  g_assert_cmpint(bp_target_get_int(NULL, "fast", 7), ==, 7);
  g_assert_false(bp_error_is(BP_ERROR_VALUE));
}

static void test_unknown_names_are_errors_with_the_nearest(void) {
  assert_error(bp_target_parse("ood"), BP_ERROR_NOT_FOUND, "did you mean \"odd\"");
  assert_error(bp_target_parse("odd -arhc=x"), BP_ERROR_NOT_FOUND, "did you mean \"arch\"");
  assert_error(bp_target_parse("{\"kind\":\"ood\"}"), BP_ERROR_NOT_FOUND, "did you mean \"odd\"");
  assert_error(bp_target_parse("{\"kind\":\"odd\",\"fsat\":1}"), BP_ERROR_NOT_FOUND,
               "did you mean \"fast\"");
  BpTarget *target = parse("odd");
  BpValue value;
  g_assert_cmpint(bp_target_get_attr(target, "nothing", &value), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  bp_error_clear();
  bp_object_release(target);
}

static void test_wrong_types_are_errors(void) {
  static const char *const texts[] = {"odd -max_num_threads=many",
                                      "odd -max_num_threads=1.5",
                                      "odd -max_num_threads=",
                                      "odd -max_num_threads=99999999999999999999",
                                      "odd -fast=perhaps",
                                      "odd -ratio=half",
                                      "odd -ratio=nan",
                                      "odd -max_num_threads",
                                      "{\"kind\":\"odd\",\"arch\":1}",
                                      "{\"kind\":\"odd\",\"fast\":1}",
                                      "{\"kind\":\"odd\",\"ratio\":\"\"}"};
  for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
    assert_error(bp_target_parse(texts[i]), BP_ERROR_TYPE, "target kind 'odd'");
}

/* The host checks numbers that the compiler reads, for every kind; the error names the attribute,
 * the value and the range. Other numbers may have any value. */
static void test_numbers_out_of_range_are_errors(void) {
  static const struct {
    const char *name, *allowed;
    const char *good[3], *bad[4];
  } cases[] = {
      {"vector_bits",
       "0 or a power of two from 32 to 65536",
       {"0", "32", "65536"},
       {"-32", "7", "96", "131072"}},
      {"vector_registers",
       "from 1 to 1024",
       {"1", "17", "1024"},
       {"-1", "0", "1025", "4611686018427387904"}},
      {"index_bits", "a power of two from 32 to 64", {"32", "64", "64"}, {"0", "-32", "48", "128"}},
      {"num_cores",
       "from 1 to 65536",
       {"1", "3", "65536"},
       {"0", "-1", "65537", "9223372036854775807"}},
      {"l1_bytes",
       "from 1024 to 1099511627776",
       {"1024", "49152", "65536"},
       {"0", "-1", "1023", "1099511627777"}},
      {"l2_bytes",
       "from 1024 to 1099511627776",
       {"1024", "1310720", "1099511627776"},
       {"0", "-1", "1", "9223372036854775807"}},
      {"max_num_threads",
       "from 1 to 2147483647",
       {"1", "100", "2147483647"},
       {"0", "-3", "2147483648", "9223372036854775807"}},
      {"thread_warp_size",
       "a power of two from 1 to 1024",
       {"1", "64", "1024"},
       {"0", "-32", "7", "2048"}},
      {"max_shared_memory_per_block",
       "from 0 to 1099511627776",
       {"0", "49152", "1"},
       {"-1", "-49152", "1099511627777", "9223372036854775807"}},
      {"max_buffer_bytes",
       "from 1024 to 1099511627776",
       {"1024", "134217728", "1099511627776"},
       {"0", "-1", "1023", "1099511627777"}},
      {"max_buffers", "from 4 to 64", {"4", "32", "64"}, {"0", "-1", "3", "65"}},
      {"max_iterations",
       "from 0 to 1099511627776",
       {"0", "65535", "1099511627776"},
       {"-1", "-65535", "1099511627777", "9223372036854775807"}},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    for (size_t k = 0; k < G_N_ELEMENTS(cases[i].good); k++) {
      g_autofree char *text = g_strdup_printf("numbers -%s=%s", cases[i].name, cases[i].good[k]);
      bp_object_release(parse(text));
    }
    for (size_t k = 0; k < G_N_ELEMENTS(cases[i].bad); k++) {
      const char *name = cases[i].name, *bad = cases[i].bad[k];
      g_autofree char *text = g_strdup_printf("numbers -%s=%s", name, bad);
      g_autofree char *json = g_strdup_printf("{\"kind\":\"numbers\",\"%s\":%s}", name, bad);
      g_autofree char *part =
          g_strdup_printf("target numbers: -%s=%s: it is %s", name, bad, cases[i].allowed);
      assert_error(bp_target_parse(text), BP_ERROR_VALUE, part);
      assert_error(bp_target_parse(json), BP_ERROR_VALUE, part);
    }
  }
  bp_object_release(parse("numbers -other=-3"));
}

static void test_malformed_texts_are_errors(void) {
  static const char *const texts[] = {"",
                                      "   ",
                                      "odd arch=x",
                                      "odd -",
                                      "odd -arch=\"x",
                                      "{",
                                      "{}",
                                      "{\"kind\":1}",
                                      "{\"kind\":\"odd\"",
                                      "{\"kind\":\"odd\"} x",
                                      "{/**/\"kind\":\"odd\"}",
                                      "{\"kind\":\"odd\"} // x",
                                      "{\"kind\":\"odd\",}",
                                      "{'kind':'odd'}",
                                      "{\"kind\":\"odd\",\"kind\":\"odd\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"a\\u0000b\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\xff\"}",
                                      "{\"kind\":\"odd\",\"ratio\":1e999}",
                                      "{\"kind\":\"odd\",\"ratio\":.5}",
                                      "{\"kind\":\"odd\",\"ratio\":1.}",
                                      "{\"kind\":\"odd\",\"ratio\":1e}",
                                      "{\"kind\":\"odd\",\"ratio\":01}",
                                      "{\"kind\":\"odd\",\"ratio\":-}",
                                      "{\"kind\":\"odd\",\"ratio\":+1}",
                                      "{\"kind\":\"odd\",\"ratio\":nan}",
                                      "{\"kind\":\"odd\",\"ratio\":}",
                                      "{\"kind\":\"odd\",\"ratio\"}",
                                      "{\"kind\":\"odd\" \"ratio\":1}",
                                      "{\"kind\":\"odd\",\"fast\":truely}",
                                      "{\"kind\":\"odd\",\"arch\":\"a\nb\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\x\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\u12\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\ud83d\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\ud83dx\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\ude00\"}",
                                      "{\"kind\":\"odd\",\"arch\":\"\\",
                                      "{\"kind\":\"odd\",\"arch\":[\"]}",
                                      "{\"kind\":\"odd\",\"doubled\":9223372036854775808}"};
  for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
    assert_error(bp_target_parse(texts[i]), BP_ERROR_VALUE, "target");
  assert_error(bp_target_parse("{\"kind\":\"odd\",\"arch\":[1]}"), BP_ERROR_TYPE, "flat");
}

/* The thread sanitizer's malloc uses much stack. */
#if defined(__SANITIZE_THREAD__)
#define SMALL_STACK (2 << 20)
#else
#define SMALL_STACK (256 << 10)
#endif

static void *parse_deep_in_thread(void *text) {
  assert_error(bp_target_parse(text), BP_ERROR_VALUE, "cannot be read");
  return NULL;
}

/* After a comment, 65,000 levels of nesting once reached a parser with unbounded recursion. */
static void test_deep_and_long_texts_are_errors(void) {
  static const char *const beginnings[] = {"{\"kind\":\"odd\",\"arch\":", "{ /* \" */ \"a\": "};
  pthread_attr_t small;
  pthread_attr_init(&small);
  g_assert_cmpint(pthread_attr_setstacksize(&small, SMALL_STACK), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(beginnings); i++) {
    g_autofree char *levels = g_strnfill(65000, '[');
    g_autofree char *deep = g_strconcat(beginnings[i], levels, NULL);
    pthread_t thread;
    g_assert_cmpint(pthread_create(&thread, &small, parse_deep_in_thread, deep), ==, 0);
    pthread_join(thread, NULL);
  }
  pthread_attr_destroy(&small);
  g_autofree char *blanks = g_strnfill(100000, ' ');
  assert_error(bp_target_parse(blanks), BP_ERROR_VALUE, "longer than");
}

static void test_completion_may_refuse(void) {
  assert_error(bp_target_parse("odd -max_num_threads=2048"), BP_ERROR_VALUE, "at most 1024");
}

static void test_targets_do_not_change(void) {
  BpTarget *target = parse("odd");
  const BpValue value = {.type_index = BP_TYPE_INT, .v_int64 = 1};
  g_assert_cmpint(table->set_attr(target, "doubled", &value), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_RUNTIME));
  g_assert_cmpstr(table->get_kind(target), ==, "odd");
  bp_error_clear();
  bp_object_release(target);
}

static void assert_kind_refused(const BpTargetKind *kind) {
  g_assert_cmpint(table->register_kind(kind), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE) || bp_error_is(BP_ERROR_TYPE));
  bp_error_clear();
}

static int32_t register_bad_kinds(void *context) {
  (void)context;
  BpTargetAttr attr = {"x", BP_TYPE_INT, 0, "not an int", "x"};
  BpTargetKind kind = {.struct_size = sizeof kind,
                       .name = "bad",
                       .attrs = &attr,
                       .attr_size = sizeof(BpTargetAttr),
                       .num_attrs = 1,
                       .description = "x"};
  assert_kind_refused(&kind);
  attr = (BpTargetAttr){"x", BP_TYPE_SHAPE, 0, NULL, "x"};
  assert_kind_refused(&kind);
  attr = (BpTargetAttr){"kind", BP_TYPE_INT, 0, NULL, "x"};
  assert_kind_refused(&kind);
  kind.name = "";
  assert_kind_refused(&kind);
  kind.name = "bad";
  attr = (BpTargetAttr){BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "7", "x"};
  assert_kind_refused(&kind);
  assert_kind_refused(&odd_kind);
  return bp_error_raise(BP_ERROR_PLUGIN, "nothing was registered");
}

static int32_t bad_entry(const BpHost *host, BpPlugin *plugin) {
  (void)host;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = register_bad_kinds;
  return 0;
}

static void test_kinds_that_cannot_serve_are_refused(void) {
  bp_object_release(parse("odd"));
  g_assert_cmpint(
      bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT "\nname=bad\nversion=1\n"
                                "license=MIT\ndescription=x\n"
                                "entry=bp_plugin_entry_bad\nprovides=target.build.bad\n",
                                bad_entry),
      ==, 0);
  g_assert_cmpint(bp_plugin_activate("bad"), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "nothing was registered"));
  bp_error_clear();
}

static void test_kinds_come_while_a_plugin_initialises(void) {
  static const BpTargetKind late = {.struct_size = sizeof late,
                                    .name = "late",
                                    .attrs = attrs,
                                    .attr_size = sizeof(BpTargetAttr),
                                    .description = "x"};
  bp_object_release(parse("odd"));
  g_assert_cmpint(table->register_kind(&late), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_RUNTIME));
  g_assert_nonnull(strstr(bp_error_message(), "\"late\" comes too late"));
  bp_error_clear();
}

static void test_kinds_are_listed_without_activation(void) {
  char **kinds = bp_target_kinds(NULL);
  g_assert_true(g_strv_contains((const char *const *)kinds, "odd"));
  g_assert_true(g_strv_contains((const char *const *)kinds, "plain"));
  g_assert_null(table);
  bp_names_free(kinds);
  g_assert_cmpstr(bp_target_kind_info("odd")->description, ==, "A kind for tests");
  g_assert_nonnull(table);
}

static void test_build_calls_the_generator_of_the_kind(void) {
  BpIrModule *ir = bp_ir_module_create();
  BpTarget *target = parse("odd"), *hurried = parse("odd -fast"), *plain = parse("plain");
  BpModule *module = bp_target_build(ir, target);
  g_assert_nonnull(module);
  g_assert_cmpstr(bp_module_kind(module), ==, "odd");
  assert_error(bp_target_build(ir, hurried), BP_ERROR_COMPILE, "cannot hurry");
  assert_error(bp_target_build(ir, plain), BP_ERROR_TYPE, "not a module");
  bp_object_release(module);
  bp_object_release(target);
  bp_object_release(hurried);
  bp_object_release(plain);
  bp_object_release(ir);
}

static void test_target_of_a_device(void) {
  BpTarget *target = bp_target_from_device((BpDevice){BP_DEVICE_CPU, 0});
  if (!target) {
    g_test_skip(bp_error_message());
    bp_error_clear();
    return;
  }
  g_assert_cmpint(bp_target_device_type(target), ==, BP_DEVICE_CPU);
  assert_round_trip(target);
  bp_object_release(target);
}

static void *parse_in_thread(void *data) {
  for (int i = 0; i < 50; i++) {
    BpTarget *target = parse("odd -max_num_threads=5");
    g_assert_cmpint(bp_target_get_int(target, "doubled", 0), ==, 10);
    bp_object_release(target);
  }
  return data;
}

static void test_threads_parse_at_once(void) {
  pthread_t threads[8];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, parse_in_thread, NULL), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (bp_plugin_register_static(descriptor, entry))
    g_error("%s", bp_error_message());
#define ADD(path, test) g_test_add_func("/target/" path, test)
  ADD("kinds-are-listed-without-activation", test_kinds_are_listed_without_activation);
  ADD("defaults-and-completion", test_defaults_and_completion);
  ADD("options-are-read", test_options_are_read);
  ADD("any-white-space-separates-options-or-is-quoted",
      test_any_white_space_separates_options_or_is_quoted);
  ADD("json-is-read", test_json_is_read);
  ADD("json-strings-and-numbers-are-read-as-json-defines-them",
      test_json_strings_and_numbers_are_read_as_json_defines_them);
  ADD("control-characters-come-back-from-json", test_control_characters_come_back_from_json);
  ADD("text-that-is-not-utf8-has-no-json", test_text_that_is_not_utf8_has_no_json);
  ADD("canonical-text-leaves-defaults-out", test_canonical_text_leaves_defaults_out);
  ADD("error/a-target-that-is-null", test_a_target_that_is_null_is_an_error);
  ADD("error/unknown-names-with-the-nearest", test_unknown_names_are_errors_with_the_nearest);
  ADD("error/wrong-types", test_wrong_types_are_errors);
  ADD("error/numbers-out-of-range", test_numbers_out_of_range_are_errors);
  ADD("error/malformed-texts", test_malformed_texts_are_errors);
  ADD("error/deep-and-long-texts", test_deep_and_long_texts_are_errors);
  ADD("error/completion-may-refuse", test_completion_may_refuse);
  ADD("error/kinds-that-cannot-serve", test_kinds_that_cannot_serve_are_refused);
  ADD("kinds-come-while-a-plugin-initialises", test_kinds_come_while_a_plugin_initialises);
  ADD("targets-do-not-change", test_targets_do_not_change);
  ADD("build-calls-the-generator-of-the-kind", test_build_calls_the_generator_of_the_kind);
  ADD("of-a-device", test_target_of_a_device);
  ADD("threads-parse-at-once", test_threads_parse_at_once);
  return g_test_run();
}
