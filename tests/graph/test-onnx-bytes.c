/* SPDX-License-Identifier: Apache-2.0 */
/* Models in memory: compiling them, and querying which nodes can be compiled. */
#include <glib.h>
#include <string.h>

#include <backplane/backplane.h>
#include <backplane/cache.h>
#include <backplane/graph/model.h>

typedef struct Model {
  char *data;
  gsize size;
} Model;

static Model read_digits(void) {
  Model model;
  char *path = g_build_filename(g_getenv("top_srcdir"), "examples", "digits", "digits.onnx", NULL);
  g_assert_true(g_file_get_contents(path, &model.data, &model.size, NULL));
  g_free(path);
  return model;
}

static BpOnnxBytes bytes_of(const Model *model) {
  return (BpOnnxBytes){.struct_size = sizeof(BpOnnxBytes),
                       .name = "digits in memory",
                       .data = model->data,
                       .size = model->size};
}

static BpModule *compile(const BpOnnxBytes *bytes) {
  BpTarget *target = bp_target_parse("c");
  g_assert_nonnull(target);
  const BpTarget *targets[] = {target};
  BpCompileOptions options = {.struct_size = sizeof options, .targets = targets, .num_targets = 1};
  BpModule *module = bp_model_compile_bytes(bytes, &options);
  bp_target_release(target);
  return module;
}

static void expect_error(const char *text) {
  if (!strstr(bp_error_message(), text))
    g_error("the error is '%s', without '%s'", bp_error_message(), text);
  bp_error_clear();
}

/* Tests with onnxruntime check that the results are those of the file. */
static void test_compiles(void) {
  Model model = read_digits();
  BpOnnxBytes bytes = bytes_of(&model);
  BpModule *module = compile(&bytes);
  g_assert_nonnull(module);
  memset(model.data, 0, model.size); /* the module borrows no memory any more */
  BpDevice cpu = {BP_DEVICE_CPU, 0};
  BpModel *made = bp_model_create(module, &cpu, 1);
  g_assert_nonnull(made);
  g_assert_cmpstr(bp_model_input_info(made, 0)->name, ==, "image");
  bp_model_release(made);
  bp_module_release(module);
  g_free(model.data);
}

static void test_bad_bytes(void) {
  Model model = read_digits();
  BpOnnxBytes bytes = bytes_of(&model);
  bytes.size /= 2;
  g_assert_null(compile(&bytes));
  expect_error("digits in memory");
  bytes.size = 0;
  g_assert_null(compile(&bytes));
  expect_error("0 bytes");
  bytes = bytes_of(&model);
  bytes.struct_size = 8;
  g_assert_null(compile(&bytes));
  expect_error("sizeof(BpOnnxBytes)");
  bytes = bytes_of(&model);
  bytes.num_tensors = 1;
  g_assert_null(compile(&bytes));
  expect_error("tensors");
  g_assert_null(bp_model_compile_bytes(NULL, NULL));
  expect_error("targets");
  g_free(model.data);
}

/* A program built with later headers, whose structure has a member that this version does not
 * know. */
static void test_later_bytes(void) {
  Model model = read_digits();
  struct {
    BpOnnxBytes known;
    uint64_t later;
  } bytes = {bytes_of(&model), 1};
  bytes.known.struct_size = sizeof bytes;
  g_assert_null(compile(&bytes.known));
  expect_error("does not know");
  bytes.later = 0;
  BpModule *module = compile(&bytes.known);
  g_assert_nonnull(module);
  bp_module_release(module);
  g_free(model.data);
}

static int count(void *context, const BpOnnxQueried *node) {
  int *counts = context;
  g_assert_cmpuint(node->index, ==, counts[0]);
  counts[0]++;
  counts[1] += node->why != NULL;
  return counts[0] == counts[2] ? 7 : 0;
}

/* Changes the name of an operator in the bytes: its length stays. */
static void rename_operator(Model *model, const char *from, const char *to) {
  for (gsize i = 0; i + strlen(from) <= model->size; i++)
    if (!memcmp(model->data + i, from, strlen(from))) {
      memcpy(model->data + i, to, strlen(to));
      return;
    }
  g_assert_not_reached();
}

static void test_query(void) {
  Model model = read_digits();
  BpOnnxBytes bytes = bytes_of(&model);
  int counts[3] = {0, 0, -1};
  g_assert_cmpint(bp_onnx_query(&bytes, count, counts), ==, 0);
  g_assert_cmpint(counts[0], ==, 8);
  g_assert_cmpint(counts[1], ==, 0);
  int stopped[3] = {0, 0, 3};
  g_assert_cmpint(bp_onnx_query(&bytes, count, stopped), ==, 7);
  g_assert_cmpint(stopped[0], ==, 3);
  /* The outputs of an unknown node are unknown, too, without value_info. */
  rename_operator(&model, "MaxPool", "MinPool");
  int refused[3] = {0, 0, -1};
  g_assert_cmpint(bp_onnx_query(&bytes, count, refused), ==, 0);
  g_assert_cmpint(refused[0], ==, 8);
  g_assert_cmpint(refused[1], >, 1);
  g_assert_cmpint(refused[1], <, 8);
  bytes.size /= 2;
  g_assert_cmpint(bp_onnx_query(&bytes, count, refused), ==, -1);
  expect_error("digits in memory");
  g_free(model.data);
}

/* ---- The folder of the cache --------------------------------------------------------------- */

static void test_folder(void) {
  char *before = bp_cache_folder();
  g_assert_nonnull(before);
  g_assert_cmpint(bp_cache_set_folder("here"), ==, -1);
  expect_error("absolute");
  g_assert_cmpint(bp_cache_set_folder("/nowhere/backplane"), ==, 0);
  char *chosen = bp_cache_folder();
  g_assert_cmpstr(chosen, ==, "/nowhere/backplane");
  g_assert_cmpint(bp_cache_set_folder(NULL), ==, 0);
  char *after = bp_cache_folder();
  g_assert_cmpstr(after, ==, before);
  bp_str_free(before);
  bp_str_free(chosen);
  bp_str_free(after);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/onnx-bytes/model_in_memory_compiles", test_compiles);
  g_test_add_func("/onnx-bytes/bad_bytes_are_errors", test_bad_bytes);
  g_test_add_func("/onnx-bytes/later_bytes_have_no_unknown_member", test_later_bytes);
  g_test_add_func("/onnx-bytes/query_says_why_nodes_cannot_be", test_query);
  g_test_add_func("/onnx-bytes/program_chooses_the_folder_of_the_cache", test_folder);
  return g_test_run();
}
