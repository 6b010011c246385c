/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose data is in files next to the model: files are read from the model's folder, and
 * never from outside it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/graph/compile_check.h"

#define COUNT 4

/* A folder with a model, and with data files inside and outside of it. */
typedef struct Fixture {
  char *outer, *folder, *model;
  const char *inside; /* the field of the tensor that also has elements, or NULL */
} Fixture;

static char *path_of(const char *folder, const char *name) {
  return g_build_filename(folder, name, NULL);
}

static void write_floats(const char *folder, const char *name, float first, int count) {
  float *values = g_new(float, (gsize)count);
  char *path = path_of(folder, name);
  for (int i = 0; i < count; i++)
    values[i] = first + (float)i;
  g_assert_true(
      g_file_set_contents(path, (const char *)values, count * (gssize)sizeof(float), NULL));
  g_free(path);
  g_free(values);
}

static void begin(Fixture *t, gconstpointer unused) {
  char *sub;
  (void)unused;
  t->outer = g_dir_make_tmp("backplane-XXXXXX", NULL);
  g_assert_nonnull(t->outer);
  t->folder = path_of(t->outer, "model");
  sub = path_of(t->folder, "sub");
  g_assert_cmpint(g_mkdir_with_parents(sub, 0700), ==, 0);
  t->model = path_of(t->folder, "m.onnx");
  write_floats(t->folder, "w.bin", 1, 100);
  write_floats(t->folder, "sub/w.bin", 3, 100);
  write_floats(t->outer, "secret.bin", 7, 100);
  g_free(sub);
}

static void remove_all(const char *path) {
  GDir *dir = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir))) {
    char *inner = path_of(path, name);
    remove_all(inner);
    g_free(inner);
  }
  if (dir)
    g_dir_close(dir);
  g_remove(path);
}

static void end(Fixture *t, gconstpointer unused) {
  (void)unused;
  remove_all(t->outer);
  g_free(t->outer);
  g_free(t->folder);
  g_free(t->model);
}

/* Sets an entry from "KEY=VALUE"; '!' in a value is a NUL byte. */
static void set_entry(Backplane__Onnx__StringStringEntry *entry, char *word) {
  char *sign = strchr(word, '=');
  backplane__onnx__string_string_entry__init(entry);
  *sign = '\0';
  entry->key = word;
  entry->has_value = 1;
  entry->value = (ProtobufCBinaryData){strlen(sign + 1), (uint8_t *)sign + 1};
  for (size_t i = 0; i < entry->value.len; i++)
    if (entry->value.data[i] == '!')
      entry->value.data[i] = '\0';
}

/* y = x + w; x has a shape, and w the last axis of it. `entries` are the tensor's entries,
 * "location=w.bin offset=8"; the tensor occurs that many times. */
static BpModule *compile_of(const Fixture *t, const char *shape, const char *entries, int copies,
                            BpProgress progress) {
  OnnxBuilder *builder = onnx_builder_new();
  Backplane__Onnx__StringStringEntry parts[4], *list[4];
  uint8_t elements[COUNT * sizeof(float)] = {0};
  char **words = g_strsplit(entries, " ", -1);
  const BpTarget *target = bp_target_parse("c -options=-O0");
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .progress = progress,
                              .progress_context = (void *)(uintptr_t)t};
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  onnx_floats(builder, "w", strchr(shape, 'x') ? strchr(shape, 'x') + 1 : shape);
  onnx_node(builder, "Add", "x,w", "y", "");
  onnx_output(builder, "y");
  Backplane__Onnx__TensorProto *tensor = g_ptr_array_index(builder->initializers, 0);
  if (g_strcmp0(t->inside, "float_data"))
    tensor->n_float_data = 0;
  if (!g_strcmp0(t->inside, "raw_data"))
    tensor->raw_data = (ProtobufCBinaryData){sizeof(elements), elements};
  tensor->has_raw_data = t->inside != NULL; /* empty raw_data is no data */
  tensor->has_data_location = 1;
  tensor->data_location = 1;
  tensor->external_data = list;
  for (; words[tensor->n_external_data]; tensor->n_external_data++) {
    list[tensor->n_external_data] = &parts[tensor->n_external_data];
    set_entry(&parts[tensor->n_external_data], words[tensor->n_external_data]);
  }
  for (int i = 1; i < copies; i++)
    g_ptr_array_add(builder->initializers, tensor);
  GByteArray *bytes = onnx_bytes(builder);
  g_assert_true(g_file_set_contents(t->model, (const char *)bytes->data, bytes->len, NULL));
  BpModule *module = bp_model_compile(t->model, &options);
  bp_object_release((BpTarget *)(uintptr_t)target);
  g_byte_array_unref(bytes);
  g_strfreev(words);
  onnx_builder_free(builder);
  return module;
}

static BpModule *compile(const Fixture *t, const char *entries, int copies) {
  return compile_of(t, "4", entries, copies, NULL);
}

static void assert_reads(const Fixture *t, const char *entries, float first) {
  float x[COUNT] = {10, 20, 30, 40};
  int64_t count;
  BpModule *module = compile(t, entries, 1);
  if (!module)
    g_error("%s: %s", entries, bp_error_message());
  float *y = run_module(module, BP_DEVICE_CPU, x, &count);
  g_assert_cmpint(count, ==, COUNT);
  for (int i = 0; i < COUNT; i++)
    g_assert_cmpfloat(y[i], ==, x[i] + first + (float)i);
  g_free(y);
  bp_object_release(module);
}

static void assert_refused(const Fixture *t, const char *entries, const char *kind,
                           const char *words) {
  BpModule *module = compile(t, entries, 1);
  if (module)
    g_error("'%s' was read", entries);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), words) || !strstr(bp_error_message(), "'w'"))
    g_error("'%s' is not in: %s", words, bp_error_message());
  bp_error_clear();
}

static void test_read(Fixture *t, gconstpointer unused) {
  (void)unused;
  assert_reads(t, "location=w.bin", 1);
  assert_reads(t, "location=./sub/w.bin length=16", 3);
  assert_reads(t, "location=w.bin offset=8 length=16 checksum=unused", 3);
  assert_reads(t, "location=w.bin offset=384", 97);
}

/* Elements of a large tensor are used where they lie, if their place is aligned. */
#define LARGE 65536

static void test_large(Fixture *t, gconstpointer unused) {
  static const int offsets[] = {0, 16384, 4, 192};
  float *x = g_new0(float, LARGE);
  (void)unused;
  write_floats(t->folder, "large.bin", 1, 2 * LARGE);
  for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++) {
    char *entries = g_strdup_printf("location=large.bin offset=%d", offsets[i]);
    int64_t count;
    BpModule *module = compile_of(t, "65536", entries, 1, NULL);
    if (!module)
      g_error("%s: %s", entries, bp_error_message());
    float *y = run_module(module, BP_DEVICE_CPU, x, &count);
    g_assert_cmpint(count, ==, LARGE);
    for (int k = 0; k < LARGE; k++)
      g_assert_cmpfloat(y[k], ==, (float)(1 + offsets[i] / 4 + k));
    g_free(y);
    g_free(entries);
    bp_object_release(module);
  }
  g_free(x);
}

static int change(void *context, const char *stage, int32_t done, int32_t total) {
  const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  const Fixture *t = context;
  char *path = path_of(t->folder, "large.bin");
  (void)stage;
  (void)done;
  (void)total;
  g_assert_cmpint(utimensat(AT_FDCWD, path, times, 0), ==, 0);
  g_free(path);
  return 0;
}

static void test_changed(Fixture *t, gconstpointer unused) {
  (void)unused;
  static const char *const shapes[] = {"65536", "nx65536"};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++) {
    write_floats(t->folder, "large.bin", 1, LARGE);
    g_assert_null(compile_of(t, shapes[i], "location=large.bin", 1, change));
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_IO);
    g_assert_nonnull(strstr(bp_error_message(), "'large.bin'"));
    g_assert_nonnull(strstr(bp_error_message(), "changed while it was read"));
    bp_error_clear();
  }
}

static void test_outside(Fixture *t, gconstpointer unused) {
  char *absolute = g_strdup_printf("location=%s/w.bin", t->folder);
  static const char *const locations[] = {"location=../secret.bin", "location=sub/../../secret.bin",
                                          "location=sub/../w.bin",  "location=..",
                                          "location=sub/.",         "location=sub//w.bin"};
  (void)unused;
  for (size_t i = 0; i < G_N_ELEMENTS(locations); i++)
    assert_refused(t, locations[i], BP_ERROR_FORMAT, "no path below the model's folder");
  assert_refused(t, absolute, BP_ERROR_FORMAT, "no path below the model's folder");
  g_free(absolute);
}

static void test_links(Fixture *t, gconstpointer unused) {
  char *file = path_of(t->folder, "link.bin"), *folder = path_of(t->folder, "link");
  (void)unused;
  g_assert_cmpint(symlink("../secret.bin", file), ==, 0);
  g_assert_cmpint(symlink("..", folder), ==, 0);
  assert_refused(t, "location=link.bin", BP_ERROR_FORMAT, "links are not followed");
  assert_refused(t, "location=link/secret.bin", BP_ERROR_FORMAT, "links are not followed");
  g_free(file);
  g_free(folder);
}

static void test_no_files(Fixture *t, gconstpointer unused) {
  char *pipe = path_of(t->folder, "pipe");
  (void)unused;
  g_assert_cmpint(mkfifo(pipe, 0600), ==, 0);
  assert_refused(t, "location=pipe", BP_ERROR_FORMAT, "not a regular file");
  assert_refused(t, "location=sub", BP_ERROR_FORMAT, "not a regular file");
  assert_refused(t, "location=missing.bin", BP_ERROR_IO, "cannot open 'missing.bin'");
  assert_refused(t, "offset=0", BP_ERROR_FORMAT, "does not say in which");
  g_free(pipe);
}

static void test_sizes(Fixture *t, gconstpointer unused) {
  (void)unused;
  assert_refused(t, "location=w.bin length=12", BP_ERROR_FORMAT, "12 bytes in 'w.bin' instead of");
  assert_refused(t, "location=w.bin offset=388", BP_ERROR_FORMAT, "which has 400");
  assert_refused(t, "location=w.bin offset=9223372036854775800", BP_ERROR_FORMAT, "which has 400");
  assert_refused(t, "location=w.bin offset=-4", BP_ERROR_FORMAT, "no number");
  assert_refused(t, "location=w.bin offset=99999999999999999999", BP_ERROR_FORMAT, "no number");
}

static void test_nul(Fixture *t, gconstpointer unused) {
  (void)unused;
  assert_refused(t, "location=w.bin!.txt", BP_ERROR_FORMAT,
                 "a NUL byte in the value of 'location'");
  assert_refused(t, "location=w.bin!", BP_ERROR_FORMAT, "a NUL byte in the value of 'location'");
  assert_refused(t, "location=w.bin offset=8!4", BP_ERROR_FORMAT,
                 "a NUL byte in the value of 'offset'");
}

static void test_inside(Fixture *t, gconstpointer unused) {
  (void)unused;
  t->inside = "raw_data";
  assert_refused(t, "location=w.bin", BP_ERROR_FORMAT, "both in the model and in another file");
  t->inside = "float_data";
  assert_refused(t, "location=w.bin", BP_ERROR_FORMAT, "both in the model and in another file");
  t->inside = "none";
  assert_reads(t, "location=w.bin", 1);
}

/* A small file and a small model that request any amount of memory. */
static void test_sharing(Fixture *t, gconstpointer unused) {
  (void)unused;
  write_floats(t->folder, "one.bin", 1, 4);
  g_assert_null(compile(t, "location=one.bin", 6));
  g_assert_nonnull(strstr(bp_error_message(), "again and again"));
  bp_error_clear();
}

#define ADD(name, test) g_test_add("/external-data/" name, Fixture, NULL, begin, test, end)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("is_read_from_the_folder_of_the_model", test_read);
  ADD("of_a_large_tensor_is_read_at_any_offset", test_large);
  ADD("that_changes_while_it_is_read_is_an_error", test_changed);
  ADD("outside_of_the_folder_is_refused", test_outside);
  ADD("behind_a_link_is_refused", test_links);
  ADD("that_is_no_file_is_refused", test_no_files);
  ADD("of_another_size_is_refused", test_sizes);
  ADD("with_a_nul_byte_in_its_location_is_refused", test_nul);
  ADD("beside_data_in_the_model_is_refused", test_inside);
  ADD("of_many_tensors_is_bounded", test_sharing);
  return g_test_run();
}
