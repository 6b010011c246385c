/* SPDX-License-Identifier: Apache-2.0 */
/* Values, objects, functions, data types and errors. */

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>

/* ---- Strings and shapes ------------------------------------------------------------------ */

static void test_short_strings_need_no_object(void) {
  BpValue value;
  BpByteArray view;
  for (size_t size = 0; size <= BP_SMALL_STR_MAX; ++size) {
    g_assert_cmpint(bp_value_make_str(&value, "1234567", size), ==, 0);
    g_assert_cmpint(value.type_index, ==, BP_TYPE_SMALL_STR);
    g_assert_cmpuint(value.small_len, ==, size);
    for (size_t i = size; i < sizeof value.v_bytes; ++i)
      g_assert_cmpint(value.v_bytes[i], ==, 0);
    g_assert_cmpint(bp_value_view_str(&value, &view), ==, 0);
    g_assert_cmpmem(view.data, view.size, "1234567", size);
  }
  g_assert_cmpint(bp_value_make_bytes(&value, "\0\1", 2), ==, 0);
  g_assert_cmpint(value.type_index, ==, BP_TYPE_SMALL_BYTES);
}

static void test_long_strings_are_copied(void) {
  char text[] = "longer than seven";
  BpValue value;
  BpByteArray view;
  g_assert_cmpint(bp_value_make_str(&value, text, sizeof text - 1), ==, 0);
  memset(text, 'x', sizeof text - 1);
  g_assert_cmpint(value.type_index, ==, BP_TYPE_STR);
  g_assert_cmpint(bp_value_view_str(&value, &view), ==, 0);
  g_assert_cmpstr(view.data, ==, "longer than seven");
  bp_value_clear(&value);
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
  g_assert_cmpint(bp_value_make_bytes(&value, "a\0b\0c\0d\0e", 9), ==, 0);
  g_assert_cmpint(value.type_index, ==, BP_TYPE_BYTES);
  g_assert_cmpint(bp_value_view_str(&value, &view), ==, 0);
  g_assert_cmpmem(view.data, view.size, "a\0b\0c\0d\0e", 9);
  bp_value_clear(&value);
}

static void test_every_kind_of_string_is_viewed(void) {
  BpByteArray bytes = {"raw bytes", 9}, view;
  BpValue raw = {.type_index = BP_TYPE_RAW_STR, .v_cstr = "text"};
  BpValue array = {.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = &bytes};
  BpValue number = {.type_index = BP_TYPE_INT, .v_int64 = 3};
  g_assert_cmpint(bp_value_view_str(&raw, &view), ==, 0);
  g_assert_cmpmem(view.data, view.size, "text", 4);
  g_assert_cmpint(bp_value_view_str(&array, &view), ==, 0);
  g_assert_cmpmem(view.data, view.size, "raw bytes", 9);
  g_assert_cmpint(bp_value_view_str(&number, &view), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_TYPE));
  g_assert_nonnull(strstr(bp_error_message(), "int"));
}

static void test_string_beyond_memory_is_an_error(void) {
  BpValue value = {.type_index = BP_TYPE_INT, .v_int64 = 5};
  g_assert_cmpint(bp_value_make_str(&value, "", SIZE_MAX), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_MEMORY));
  g_assert_cmpint(value.v_int64, ==, 5);
  g_assert_null(bp_shape_create(&value.v_int64, SIZE_MAX / 8));
  g_assert_true(bp_error_is(BP_ERROR_MEMORY));
}

static void test_null_is_an_error(void) {
  BpValue value = {0};
  bp_error_clear();
#define EXPECT_NULL(call, failed)                                                                  \
  g_assert_true((call) == (failed));                                                               \
  g_assert_true(bp_error_is(BP_ERROR_VALUE));                                                      \
  bp_error_clear()
  EXPECT_NULL(bp_value_make_str(NULL, "x", 1), -1);
  EXPECT_NULL(bp_value_make_bytes(&value, NULL, 1), -1);
  EXPECT_NULL(bp_value_view_str(&value, NULL), -1);
  EXPECT_NULL(bp_shape_create(NULL, 1), NULL);
  EXPECT_NULL(bp_array_create(NULL, 1), NULL);
  EXPECT_NULL(bp_dtype_parse("int8", NULL), -1);
  EXPECT_NULL(bp_function_call(NULL, NULL, 0, &value), -1);
  EXPECT_NULL(bp_registry_get("test.null", NULL), -1);
  bp_value_clear(NULL);
  bp_owned_bytes_clear(NULL);
  g_assert_null(bp_value_view_tensor(NULL));
  g_assert_cmpint(bp_view_is_compact(NULL), ==, 0);
  g_assert_cmpint(bp_tensor_is_read_only(NULL), ==, 0);
  g_assert_cmpstr(bp_error_kind(), ==, "");
}

static void test_shape_copies_its_extents(void) {
  int64_t extents[] = {2, 3, 4};
  BpShape *shape = bp_shape_create(extents, 3), *scalar = bp_shape_create(NULL, 0);
  extents[0] = 9;
  g_assert_cmpint(shape->header.type_index, ==, BP_TYPE_SHAPE);
  g_assert_cmpuint(shape->size, ==, 3);
  g_assert_cmpint(shape->data[0], ==, 2);
  g_assert_cmpuint(scalar->size, ==, 0);
  bp_object_release(shape);
  bp_object_release(scalar);
}

/* ---- References -------------------------------------------------------------------------- */

static int destroyed;

static void count_destroyed(void *context) {
  destroyed += GPOINTER_TO_INT(context);
}

static int add(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 2)
    return bp_error_raise(BP_ERROR_TYPE, "add takes 2 arguments, not %d", num_args);
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = args[0].v_int64 + args[1].v_int64};
  return 0;
}

static void test_last_reference_destroys(void) {
  destroyed = 0;
  BpFunction *function = bp_function_create(add, GINT_TO_POINTER(1), count_destroyed);
  g_assert_true(bp_object_retain(function) == function);
  bp_object_release(function);
  g_assert_cmpint(destroyed, ==, 0);
  bp_object_release(function);
  g_assert_cmpint(destroyed, ==, 1);
  g_assert_null(bp_object_retain(NULL));
  bp_object_release(NULL);
}

static void test_failed_creation_destroys_the_context(void) {
  destroyed = 0;
  g_assert_null(bp_function_create(NULL, GINT_TO_POINTER(1), count_destroyed));
  g_assert_cmpint(destroyed, ==, 1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
}

/* An object made by another library, which keeps a weak reference of its own. */
static int deleter_flags;

static void record_flags(void *self, int flags) {
  (void)self;
  deleter_flags |= flags;
}

static void test_weak_reference_keeps_the_memory(void) {
  BpObject object = {
      .combined_count = (2ull << 32) | 1, .type_index = BP_TYPE_OBJECT, .deleter = record_flags};
  deleter_flags = 0;
  bp_object_release(&object);
  g_assert_cmpint(deleter_flags, ==, BP_DELETER_STRONG);
  g_assert_cmpuint(object.combined_count, ==, 1ull << 32);
  object.combined_count = (1ull << 32) | 1;
  deleter_flags = 0;
  bp_object_release(&object);
  g_assert_cmpint(deleter_flags, ==, BP_DELETER_STRONG | BP_DELETER_WEAK);
}

static void *retain_and_release(void *object) {
  for (int i = 0; i < 100000; ++i)
    bp_object_release(bp_object_retain(object));
  return NULL;
}

static void test_references_are_counted_from_all_threads(void) {
  pthread_t threads[4];
  destroyed = 0;
  BpFunction *function = bp_function_create(add, GINT_TO_POINTER(1), count_destroyed);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); ++i)
    g_assert_cmpint(pthread_create(&threads[i], NULL, retain_and_release, function), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); ++i)
    pthread_join(threads[i], NULL);
  g_assert_cmpint(destroyed, ==, 0);
  bp_object_release(function);
  g_assert_cmpint(destroyed, ==, 1);
}

static void test_function_is_called(void) {
  BpFunction *function = bp_function_create(add, NULL, NULL);
  BpValue args[] = {{.type_index = BP_TYPE_INT, .v_int64 = 40},
                    {.type_index = BP_TYPE_INT, .v_int64 = 2}};
  BpValue result;
  g_assert_cmpint(bp_function_call(function, args, 2, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 42);
  g_assert_cmpint(bp_function_call(function, args, 1, &result), ==, -1);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_NONE);
  g_assert_cmpstr(bp_error_message(), ==, "add takes 2 arguments, not 1");
  bp_object_release(function);
}

/* ---- Data types -------------------------------------------------------------------------- */

static void test_data_types_have_names(void) {
  static const struct {
    const char *text;
    BpDataType dtype;
    size_t bytes;
  } cases[] = {
      {"float32", {BP_DTYPE_FLOAT, 32, 1}, 4},
      {"int8x4", {BP_DTYPE_INT, 8, 4}, 4},
      {"uint64", {BP_DTYPE_UINT, 64, 1}, 8},
      {"bool", {BP_DTYPE_BOOL, 8, 1}, 1},
      {"boolx16", {BP_DTYPE_BOOL, 8, 16}, 16},
      {"bfloat16", {BP_DTYPE_BFLOAT, 16, 1}, 2},
      {"handle", {BP_DTYPE_HANDLE, 64, 1}, 8},
      {"void", {BP_DTYPE_HANDLE, 0, 0}, 0},
      {"complex128", {BP_DTYPE_COMPLEX, 128, 1}, 16},
      {"int4", {BP_DTYPE_INT, 4, 1}, 1},
      {"float8_e4m3fn", {10, 8, 1}, 1},
      {"float8_e4m3fnuz", {11, 8, 1}, 1},
      {"float8_e4m3", {8, 8, 1}, 1},
      {"float4_e2m1fnx2", {17, 4, 2}, 1},
      {"float32x65535", {BP_DTYPE_FLOAT, 32, 65535}, 262140},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); ++i) {
    BpDataType dtype;
    char text[32];
    g_assert_cmpint(bp_dtype_parse(cases[i].text, &dtype), ==, 0);
    g_assert_cmpint(dtype.code, ==, cases[i].dtype.code);
    g_assert_cmpint(dtype.bits, ==, cases[i].dtype.bits);
    g_assert_cmpint(dtype.lanes, ==, cases[i].dtype.lanes);
    bp_dtype_format(dtype, text, sizeof text);
    g_assert_cmpstr(text, ==, cases[i].text);
    g_assert_cmpuint(bp_dtype_bytes(dtype), ==, cases[i].bytes);
  }
}

static void test_32_bytes_hold_every_data_type(void) {
  for (unsigned code = 0; code < 256; ++code)
    for (unsigned bits = 0; bits < 256; ++bits) {
      char text[33];
      BpDataType dtype = {(uint8_t)code, (uint8_t)bits, 65535};
      text[32] = '#';
      g_assert_cmpuint(bp_dtype_format(dtype, text, 32), ==, strlen(text));
      g_assert_cmpuint(strlen(text), <, 32);
      g_assert_cmpint(text[32], ==, '#');
    }
}

static void test_short_buffer_takes_the_beginning_of_a_data_type(void) {
  const BpDataType wide = {BP_DTYPE_FLOAT, 32, 65535}, none = {BP_DTYPE_HANDLE, 0, 0};
  char text[] = "############";
  g_assert_cmpuint(bp_dtype_format(wide, text, 10), ==, strlen("float32x65535"));
  g_assert_cmpmem(text, sizeof text, "float32x6\0##", sizeof text);
  g_assert_cmpuint(bp_dtype_format(none, text, 3), ==, strlen("void"));
  g_assert_cmpmem(text, 4, "vo\0a", 4);
  g_assert_cmpuint(bp_dtype_format(wide, NULL, 0), ==, strlen("float32x65535"));
}

static void test_malformed_data_type_is_an_error(void) {
  static const char *const texts[] = {
      "",         "float",      "float0",      "float032", "float32x", "int8x0",
      "int256",   "int8x65536", "int-8",       "float32 ", "f32",      "boolean",
      "int8x4x2", "int8X4",     "99999999999", "float8_",  "handle ",  "int99999999999999999999"};
  BpDataType dtype;
  for (size_t i = 0; i < G_N_ELEMENTS(texts); ++i) {
    bp_error_clear();
    g_assert_cmpint(bp_dtype_parse(texts[i], &dtype), ==, -1);
    g_assert_true(bp_error_is(BP_ERROR_VALUE));
  }
  g_assert_cmpint(bp_dtype_parse(NULL, &dtype), ==, -1);
}

/* ---- Errors ------------------------------------------------------------------------------ */

static void test_no_error_at_first(void) {
  bp_error_clear();
  g_assert_cmpstr(bp_error_message(), ==, "");
  g_assert_cmpstr(bp_error_kind(), ==, "");
  g_assert_null(bp_error_take());
  g_assert_false(bp_error_is(""));
}

static void test_messages_are_utf8(void) {
  bp_error_raise(BP_ERROR_IO, "%.4s, %s", "\xc3\xa9\xe2\x82\xac", "na\xefve\xff");
  g_assert_cmpstr(bp_error_message(), ==, "\xc3\xa9??, na?ve?");
  bp_error_add_context("in \"%.1s\"", "\xc3\xa9");
  g_assert_cmpstr(bp_error_message(), ==, "in \"?\": \xc3\xa9??, na?ve?");
  bp_error_clear();
}

static void test_error_is_read_where_it_was_raised(void) {
  g_assert_cmpint(bp_error_raise(BP_ERROR_VALUE, "%s is %d", "x", 7), ==, -1);
  g_assert_cmpstr(bp_error_message(), ==, "x is 7");
  g_assert_cmpstr(bp_error_kind(), ==, "ValueError");
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_false(bp_error_is(BP_ERROR_TYPE));
  bp_error_clear();
}

static void test_context_goes_before_the_message(void) {
  bp_error_raise(BP_ERROR_IO, "no such file");
  g_assert_cmpint(bp_error_add_context("reading \"%s\"", "a"), ==, -1);
  g_assert_cmpint(bp_error_add_context("loading"), ==, -1);
  g_assert_cmpstr(bp_error_message(), ==, "loading: reading \"a\": no such file");
  g_assert_true(bp_error_is(BP_ERROR_IO));
  bp_error_clear();
  bp_error_add_context("nothing");
  g_assert_cmpstr(bp_error_message(), ==, "");
}

static void test_new_error_may_quote_the_old(void) {
  bp_error_raise(BP_ERROR_IO, "first");
  bp_error_raise(BP_ERROR_VALUE, "second, after %s of kind %s", bp_error_message(),
                 bp_error_kind());
  g_assert_cmpstr(bp_error_message(), ==, "second, after first of kind OSError");
  bp_error_clear();
}

static void *raise_in_thread(void *unused) {
  (void)unused;
  g_assert_cmpstr(bp_error_message(), ==, "");
  bp_error_raise(BP_ERROR_DEVICE, "of a thread");
  BpError *error = bp_error_take();
  bp_error_raise(BP_ERROR_DEVICE, "left behind");
  return error;
}

static void test_error_moves_between_threads(void) {
  pthread_t thread;
  void *error;
  bp_error_raise(BP_ERROR_VALUE, "of main");
  g_assert_cmpint(pthread_create(&thread, NULL, raise_in_thread, NULL), ==, 0);
  pthread_join(thread, &error);
  g_assert_cmpstr(bp_error_message(), ==, "of main");
  bp_error_put(error);
  g_assert_cmpstr(bp_error_message(), ==, "of a thread");
  g_assert_true(bp_error_is(BP_ERROR_DEVICE));
  bp_error_clear();
}

static void test_error_object_has_the_shared_layout(void) {
  static const BpByteArray trace = {"here", 4}, more = {" and there", 10};
  bp_error_raise("OddError", "message");
  BpError *error = bp_error_take();
  g_assert_cmpint(error->header.type_index, ==, BP_TYPE_ERROR);
  g_assert_cmpmem(error->kind.data, error->kind.size, "OddError", 8);
  g_assert_cmpmem(error->message.data, error->message.size, "message", 7);
  g_assert_cmpuint(error->backtrace.size, ==, 0);
  error->update_backtrace(&error->header, &trace, 0);
  error->update_backtrace(&error->header, &more, 1);
  g_assert_cmpmem(error->backtrace.data, error->backtrace.size, "here and there", 14);
  error->update_backtrace(&error->header, &trace, 0);
  g_assert_cmpmem(error->backtrace.data, error->backtrace.size, "here", 4);
  bp_object_release(error);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/value/short-strings-need-no-object", test_short_strings_need_no_object);
  g_test_add_func("/value/long-strings-are-copied", test_long_strings_are_copied);
  g_test_add_func("/value/every-kind-of-string-is-viewed", test_every_kind_of_string_is_viewed);
  g_test_add_func("/value/string-beyond-memory-is-an-error", test_string_beyond_memory_is_an_error);
  g_test_add_func("/object/null-is-an-error", test_null_is_an_error);
  g_test_add_func("/object/shape-copies-its-extents", test_shape_copies_its_extents);
  g_test_add_func("/object/last-reference-destroys", test_last_reference_destroys);
  g_test_add_func("/object/failed-creation-destroys-the-context",
                  test_failed_creation_destroys_the_context);
  g_test_add_func("/object/weak-reference-keeps-the-memory", test_weak_reference_keeps_the_memory);
  g_test_add_func("/object/references-are-counted-from-all-threads",
                  test_references_are_counted_from_all_threads);
  g_test_add_func("/object/function-is-called", test_function_is_called);
  g_test_add_func("/dtype/data-types-have-names", test_data_types_have_names);
  g_test_add_func("/dtype/32-bytes-hold-every-text", test_32_bytes_hold_every_data_type);
  g_test_add_func("/dtype/short-buffer-takes-the-beginning",
                  test_short_buffer_takes_the_beginning_of_a_data_type);
  g_test_add_func("/dtype/malformed-is-an-error", test_malformed_data_type_is_an_error);
  g_test_add_func("/error/none-at-first", test_no_error_at_first);
  g_test_add_func("/error/messages-are-utf8", test_messages_are_utf8);
  g_test_add_func("/error/is-read-where-it-was-raised", test_error_is_read_where_it_was_raised);
  g_test_add_func("/error/context-goes-before-the-message", test_context_goes_before_the_message);
  g_test_add_func("/error/new-error-may-quote-the-old-error", test_new_error_may_quote_the_old);
  g_test_add_func("/error/moves-between-threads", test_error_moves_between_threads);
  g_test_add_func("/error/object-has-the-shared-layout", test_error_object_has_the_shared_layout);
  return g_test_run();
}
