/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that compiling and exporting a model takes, compilers included, is bounded by twice
 * its parameters. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/graph/compile_check.h"

#define EXTENT 1024
#define MATRIX ((size_t)EXTENT * EXTENT * sizeof(float))
#define FEW    2
#define MANY   24

/* The memory that compiling may need: bytes for each further byte of parameters, and bytes beyond
 * twice the parameters. Each limit is half of the benchmarks' bound (docs/models.md). */
#define MOST_FACTOR 2.25
#define MOST_REST   ((size_t)100 << 20)

typedef struct Model {
  char *folder, *path, *library;
  const char *rows; /* extent of the rows; a symbol makes a program of the model */
  int is_external;  /* whether the weights are in a file of their own */
} Model;

/* ---- The model --------------------------------------------------------------------------- */

/* Moves the elements of a tensor to the end of a file beside the model. */
static void move_out(Backplane__Onnx__TensorProto *tensor, FILE *data) {
  static Backplane__Onnx__StringStringEntry parts[MANY][2], *lists[MANY][2];
  static char location[] = "location", offset[] = "offset", name[] = "weights.bin";
  static char texts[MANY][32];
  long at = ftell(data);
  size_t index = (size_t)at / MATRIX;
  g_assert_cmpuint(fwrite(tensor->raw_data.data, 1, MATRIX, data), ==, MATRIX);
  g_snprintf(texts[index], sizeof(texts[index]), "%ld", at);
  for (int i = 0; i < 2; i++) {
    lists[index][i] = &parts[index][i];
    backplane__onnx__string_string_entry__init(&parts[index][i]);
    parts[index][i].key = i ? offset : location;
    parts[index][i].has_value = 1;
    parts[index][i].value.data = (uint8_t *)(i ? texts[index] : name);
    parts[index][i].value.len = strlen(i ? texts[index] : name);
  }
  tensor->has_raw_data = 0;
  tensor->has_data_location = 1;
  tensor->data_location = 1;
  tensor->n_external_data = 2;
  tensor->external_data = lists[index];
}

/* A chain of products with different weights. */
static void write_model(const Model *model, int count) {
  OnnxBuilder *builder = onnx_builder_new();
  char *shape = g_strdup_printf("%sx%d", model->rows, EXTENT), *from = g_strdup("x");
  char *weights = g_build_filename(model->folder, "weights.bin", NULL);
  FILE *data = g_fopen(weights, "we");
  float *values = onnx_float_values(EXTENT * EXTENT);
  const int64_t extents[] = {EXTENT, EXTENT};
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  for (int i = 0; i < count; i++) {
    char *name = g_strdup_printf("w%d", i), *to = g_strdup_printf("y%d", i);
    char *inputs = g_strdup_printf("%s,%s", from, name);
    values[0] = (float)i; /* equal constants would be stored once */
    onnx_data(builder, name, ONNX_FLOAT, extents, 2, values, MATRIX);
    onnx_node(builder, "MatMul", inputs, to, "");
    g_free(from);
    from = to;
    g_free(inputs);
    g_free(name);
  }
  onnx_output(builder, from);
  for (guint i = 0; model->is_external && i < builder->initializers->len; i++)
    move_out(g_ptr_array_index(builder->initializers, i), data);
  fclose(data);
  GByteArray *bytes = onnx_bytes(builder);
  g_assert_true(g_file_set_contents(model->path, (char *)bytes->data, bytes->len, NULL));
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  g_free(from);
  g_free(values);
  g_free(weights);
  g_free(shape);
}

static void compile_model(const Model *model, int count) {
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(model->path, target);
  (void)count;
  if (!module || bp_module_export_library(module, model->library) < 0)
    g_error("%s", bp_error_message());
  bp_module_release(module);
  bp_target_release(target);
}

/* ---- Measuring --------------------------------------------------------------------------- */

/* Runs a step in a process of its own; returns the largest resident set of it and its children. */
static size_t peak_of(void (*step)(const Model *model, int count), const Model *model, int count) {
  struct rusage usage;
  int status;
  pid_t child = fork();
  g_assert_cmpint(child, >=, 0);
  if (child == 0) {
    step(model, count);
    _exit(0);
  }
  g_assert_cmpint(wait4(child, &status, 0, &usage), ==, child);
  g_assert_cmpint(status, ==, 0);
  return (size_t)usage.ru_maxrss * 1024;
}

static size_t peak_of_compiling(const Model *model, int count) {
  peak_of(write_model, model, count);
  return peak_of(compile_model, model, count);
}

static void assert_bounded(const char *rows, int is_external) {
  Model model = {.folder = g_dir_make_tmp("backplane-XXXXXX", NULL)};
  model.path = g_build_filename(model.folder, "m.onnx", NULL);
  model.library = g_build_filename(model.folder, "m.so", NULL);
  model.rows = rows;
  model.is_external = is_external;
  char *weights = g_build_filename(model.folder, "weights.bin", NULL);
  double few = (double)peak_of_compiling(&model, FEW),
         many = (double)peak_of_compiling(&model, MANY);
  g_test_message("peak of %d matrices %.0f MiB, of %d %.0f MiB", FEW, few / (1 << 20), MANY,
                 many / (1 << 20));
  g_assert_cmpfloat(many, <=, 2.0 * MANY * (double)MATRIX + (double)MOST_REST);
  g_assert_cmpfloat(many - few, <=, MOST_FACTOR * (MANY - FEW) * (double)MATRIX);
  g_unlink(model.path);
  g_unlink(model.library);
  g_unlink(weights);
  g_rmdir(model.folder);
  g_free(weights);
  g_free(model.path);
  g_free(model.library);
  g_free(model.folder);
}

static void test_fixed(void) {
  assert_bounded("128", 0);
}

static void test_open(void) {
  assert_bounded("n", 0);
}

static void test_external(void) {
  assert_bounded("n", 1);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/compile-memory/is_bounded_for_fixed_extents", test_fixed);
  g_test_add_func("/compile-memory/is_bounded_for_open_extents", test_open);
  g_test_add_func("/compile-memory/is_bounded_for_weights_in_another_file", test_external);
  return g_test_run();
}
