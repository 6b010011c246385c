/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that grow from run to run in memory that the caller keeps: any sequence of steps gives the
 * results of plain loops that get all rows as an input each time. */
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>

#include "tests/graph/onnx_builder.h"

#define MAX_CACHES 2
#define MAX_NDIM   4
#define STEPS      9

static const BpDevice cpu = {BP_DEVICE_CPU, 0};
static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};

/* A model with the inputs x and past_N, and the outputs y and present_N. */
typedef struct Case {
  const char *name;
  char *(*write)(void);
  int32_t num_caches, ndim, axis;
  int64_t shape[MAX_NDIM]; /* shape of x and of the caches, except along the axis */
} Case;

static char *attention_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x3xlengthx8");
  onnx_input(builder, "past_0", ONNX_FLOAT, "1x3xpastx8");
  onnx_input(builder, "past_1", ONNX_FLOAT, "1x3xpastx8");
  onnx_floats(builder, "w", "8x8");
  onnx_node(builder, "MatMul", "x,w", "key", "");
  onnx_node(builder, "Sigmoid", "x", "value", "");
  onnx_node(builder, "Concat", "past_0,key", "present_0", "axis=2");
  onnx_node(builder, "Concat", "past_1,value", "present_1", "axis=2");
  onnx_node(builder, "Transpose", "present_0", "keys", "perm=0,1,3,2");
  onnx_node(builder, "MatMul", "x,keys", "scores", "");
  onnx_node(builder, "Softmax", "scores", "weights", "axis=-1");
  onnx_node(builder, "MatMul", "weights,present_1", "y", "");
  onnx_output(builder, "y");
  onnx_output(builder, "present_0");
  onnx_output(builder, "present_1");
  return onnx_save(builder);
}

/* Readers that sum rows, and readers of each element. */
static char *sums_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "past_0", ONNX_FLOAT, "batchxpastx6");
  onnx_input(builder, "x", ONNX_FLOAT, "batchxlengthx6");
  onnx_ints(builder, "rows", "1,");
  onnx_node(builder, "Neg", "x", "row", "");
  onnx_node(builder, "Concat", "past_0,row", "present_0", "axis=1");
  onnx_node(builder, "Mul", "present_0,present_0", "squares", "");
  onnx_node(builder, "ReduceSum", "squares,rows", "sum", "keepdims=1");
  onnx_node(builder, "Add", "present_0,sum", "y", "");
  onnx_output(builder, "y");
  onnx_output(builder, "present_0");
  return onnx_save(builder);
}

/* Rows of one element, along the last dimension, from an input. */
static char *columns_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "past_0", ONNX_FLOAT, "5xpast");
  onnx_input(builder, "x", ONNX_FLOAT, "5xlength");
  onnx_node(builder, "Concat", "past_0,x", "present_0", "axis=-1");
  onnx_node(builder, "Transpose", "present_0", "y", "perm=1,0");
  onnx_output(builder, "y");
  onnx_output(builder, "present_0");
  return onnx_save(builder);
}

static const Case cases[] = {
    {"attention", attention_file, 2, 4, 2, {1, 3, 0, 8}},
    {"sums", sums_file, 1, 3, 1, {2, 0, 6}},
    {"columns", columns_file, 1, 2, 1, {5, 0}},
};

/* ---- Models ------------------------------------------------------------------------------ */

static BpModelContext *start(const char *path, const char *target_text, int is_reference,
                             BpDevice device) {
  const BpTarget *target = bp_target_parse(target_text);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .is_reference = is_reference};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  BpModel *model = module ? bp_model_create(module, &device, 1) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    g_error("%s", bp_error_message());
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  return context;
}

static BpTensor *create(const Case *test, int64_t rows, BpDevice device) {
  int64_t shape[MAX_NDIM];
  memcpy(shape, test->shape, sizeof(shape));
  shape[test->axis] = rows;
  BpTensor *tensor = bp_tensor_create(shape, test->ndim, float32, device, NULL);
  g_assert_nonnull(tensor);
  return tensor;
}

static void fill(BpTensor *tensor) {
  float *data = tensor->view.data;
  for (int64_t i = 0; i < bp_view_num_elements(&tensor->view); i++)
    data[i] = (float)g_test_rand_double_range(-1, 1);
}

/* Copies the elements to the host, without strides (g_free). */
static float *elements(const BpTensor *tensor, int32_t axis) {
  BpTensorView whole = tensor->view;
  int64_t shape[MAX_NDIM], rows = axis >= 0 ? whole.shape[axis] : 1, room = rows, row = 1;
  memcpy(shape, whole.shape, (size_t)whole.ndim * sizeof(*shape));
  for (int32_t i = axis + 1; axis >= 0 && i < whole.ndim; i++)
    row *= shape[i];
  if (axis > 0 && row > 0)
    room = whole.strides[axis - 1] / row;
  if (axis >= 0)
    shape[axis] = room;
  whole.shape = shape;
  whole.strides = NULL;
  uint64_t size = (uint64_t)bp_view_num_bytes(&whole);
  float *all = g_malloc(size + 1), *packed = g_malloc(size + 1);
  if (bp_tensor_copy_to_host(&whole, all, size))
    g_error("%s", bp_error_message());
  int64_t blocks = room > 0 && row > 0 ? (int64_t)(size / sizeof(float)) / (room * row) : 0;
  for (int64_t i = 0; i < blocks; i++)
    memcpy(packed + i * rows * row, all + i * room * row, (size_t)(rows * row) * sizeof(float));
  g_free(all);
  return packed;
}

static void assert_alike(const BpTensor *got, int32_t axis, const BpTensor *expected) {
  if (!got || !expected)
    g_error("%s", bp_error_message());
  g_assert_cmpint(got->view.ndim, ==, expected->view.ndim);
  for (int32_t i = 0; i < got->view.ndim; i++)
    g_assert_cmpint(got->view.shape[i], ==, expected->view.shape[i]);
  float *a = elements(got, axis);
  const float *b = expected->view.data;
  for (int64_t i = 0; i < bp_view_num_elements(&got->view); i++)
    g_assert_cmpfloat_with_epsilon(a[i], b[i], 1e-4F);
  g_free(a);
}

/* ---- Steps ------------------------------------------------------------------------------- */

static const char *numbered(const char *name, int32_t number) {
  static char text[2][32];
  static int turn;
  turn = !turn;
  g_snprintf(text[turn], sizeof(text[turn]), "%s_%d", name, number);
  return text[turn];
}

static void bind_caches(const Case *test, BpModelContext *context, int64_t room, int64_t length,
                        BpDevice device) {
  for (int32_t i = 0; i < test->num_caches; i++) {
    BpTensor *memory = create(test, room, device);
    if (bp_model_bind_cache(context, numbered("past", i), numbered("present", i), memory, length))
      g_error("%s", bp_error_message());
    bp_object_release(memory);
  }
}

/* The first rows of the reference's output become its past. */
static void keep_rows(const Case *test, BpModelContext *reference, int64_t rows) {
  for (int32_t i = 0; i < test->num_caches; i++) {
    BpTensor *past = create(test, rows, cpu);
    const BpTensor *present = rows ? bp_model_get_output(reference, 1 + i) : NULL;
    if (present) {
      int64_t outer = 1, row = 1, before = present->view.shape[test->axis];
      for (int32_t d = 0; d < test->ndim; d++)
        *(d < test->axis ? &outer : &row) *= d == test->axis ? 1 : test->shape[d];
      for (int64_t o = 0; o < outer; o++)
        memcpy((float *)past->view.data + o * rows * row,
               (const float *)present->view.data + o * before * row,
               (size_t)(rows * row) * sizeof(float));
    }
    g_assert_cmpint(bp_model_set_input(reference, numbered("past", i), &past->view), ==, 0);
    bp_object_release(past);
  }
}

static void step(const Case *test, BpModelContext *context, BpModelContext *reference,
                 int64_t count) {
  BpTensor *x = create(test, count, cpu);
  fill(x);
  if (bp_model_set_input(context, "x", &x->view) || bp_model_set_input(reference, "x", &x->view) ||
      bp_model_run(context) || bp_model_run(reference))
    g_error("%s", bp_error_message());
  assert_alike(bp_model_get_output(context, 0), -1, bp_model_get_output(reference, 0));
  for (int32_t i = 0; i < test->num_caches; i++)
    assert_alike(bp_model_get_output(context, 1 + i), test->axis,
                 bp_model_get_output(reference, 1 + i));
  bp_object_release(x);
}

/* Steps of any length, and resets to any earlier length. */
static void check_steps(const Case *test, BpModelContext *context, BpModelContext *reference,
                        int64_t room) {
  int64_t length = 0;
  keep_rows(test, reference, 0);
  for (int i = 0; i < STEPS && length < room; i++) {
    int64_t count = g_test_rand_int_range(1, 1 + (int32_t)MIN(room - length, i == 0 ? 12 : 4));
    step(test, context, reference, count);
    length += count;
    g_assert_cmpint(bp_model_cache_length(context, "past_0"), ==, length);
    if (i == STEPS / 2) {
      length = g_test_rand_int_range(0, (int32_t)length + 1);
      for (int32_t k = 0; k < test->num_caches; k++)
        g_assert_cmpint(bp_model_set_cache_length(context, numbered("past", k), length), ==, 0);
    }
    keep_rows(test, reference, length);
  }
}

static int has_device(int32_t device_type) {
  int32_t count = 0;
  int status = bp_device_count(device_type, &count, NULL);
  bp_error_clear();
  return status == 0 && count > 0;
}

static const char *const targets[] = {"llvm -opt=0 -vector_bits=256", "llvm -opt=0 -num_cores=3",
                                      "opencl", "vulkan"};

static void test_steps(gconstpointer data) {
  const Case *test = data;
  char *path = test->write();
  BpModelContext *reference = start(path, "llvm -opt=0", 1, cpu);
  for (size_t t = 0; t < G_N_ELEMENTS(targets); t++) {
    BpTarget *target = bp_target_parse(targets[t]);
    if (!target) {
      bp_error_clear();
      continue;
    }
    BpDevice device = {bp_target_device_type(target), 0};
    bp_object_release(target);
    if (!has_device(device.device_type))
      continue;
    BpModelContext *context = start(path, targets[t], 0, device);
    for (int round = 0; round < 3; round++) {
      int64_t room = g_test_rand_int_range(12, 40);
      bind_caches(test, context, room, 0, device);
      check_steps(test, context, reference, room);
    }
    bp_model_context_free(context);
  }
  bp_model_context_free(reference);
  unlink(path);
  g_free(path);
}

/* ---- Misuse ------------------------------------------------------------------------------ */

static void assert_error(int status, const char *kind, const char *part) {
  g_assert_cmpint(status, ==, -1);
  if (!bp_error_is(kind) || !strstr(bp_error_message(), part))
    g_error("expected '%s', got: %s", part, bp_error_message());
  bp_error_clear();
}

static int run_with(BpModelContext *context, const Case *test, int64_t rows) {
  BpTensor *x = create(test, rows, cpu);
  fill(x);
  int status = bp_model_set_input(context, "x", &x->view) || bp_model_run(context) ? -1 : 0;
  bp_object_release(x);
  return status;
}

static void test_more_rows_than_there_is_room_for_write_nothing(void) {
  const Case *test = &cases[0];
  char *path = test->write();
  BpModelContext *context = start(path, "llvm -opt=0", 0, cpu);
  BpTensor *memories[MAX_CACHES];
  for (int32_t i = 0; i < test->num_caches; i++) {
    memories[i] = create(test, 4, cpu);
    memset(memories[i]->view.data, 0, (size_t)bp_view_num_bytes(&memories[i]->view));
    g_assert_cmpint(
        bp_model_bind_cache(context, numbered("past", i), numbered("present", i), memories[i], 0),
        ==, 0);
  }
  assert_error(run_with(context, test, 5), BP_ERROR_VALUE, "room for 4");
  for (int32_t i = 0; i < test->num_caches; i++)
    for (int64_t k = 0; k < bp_view_num_elements(&memories[i]->view); k++)
      g_assert_cmpfloat(((const float *)memories[i]->view.data)[k], ==, 0);
  g_assert_cmpint(bp_model_cache_length(context, "past_0"), ==, 0);
  g_assert_cmpint(run_with(context, test, 4), ==, 0);
  g_assert_true(bp_model_get_output(context, 1)->view.data == memories[0]->view.data);
  assert_error(run_with(context, test, 1), BP_ERROR_VALUE, "room for 4");
  g_assert_cmpint(bp_model_set_cache_length(context, "past_0", 3), ==, 0);
  assert_error(run_with(context, test, 1), BP_ERROR_VALUE, "'past_1'");
  assert_error(bp_model_set_cache_length(context, "past_0", 5), BP_ERROR_VALUE, "cannot have 5");
  for (int32_t i = 0; i < test->num_caches; i++)
    bp_object_release(memories[i]);
  bp_model_context_free(context);
  unlink(path);
  g_free(path);
}

static void test_caches_that_differ_or_overlap_are_refused(void) {
  const Case *test = &cases[0];
  char *path = test->write();
  BpModelContext *context = start(path, "llvm -opt=0", 0, cpu);
  BpTensor *memory = create(test, 8, cpu), *longer = create(test, 9, cpu),
           *x = create(test, 2, cpu);
  g_assert_cmpint(bp_model_bind_cache(context, "past_0", "present_0", memory, 0), ==, 0);
  g_assert_cmpint(bp_model_bind_cache(context, "past_1", "present_1", memory, 0), ==, 0);
  assert_error(run_with(context, test, 1), BP_ERROR_VALUE, "overlaps the memory of input");
  g_assert_cmpint(bp_model_bind_cache(context, "past_1", "present_1", longer, 0), ==, 0);
  assert_error(run_with(context, test, 1), BP_ERROR_VALUE, "caches of one capacity");
  bp_object_release(longer);
  longer = create(test, 8, cpu);
  g_assert_cmpint(bp_model_bind_cache(context, "past_1", "present_1", longer, 0), ==, 0);
  int64_t shape[] = {1, 3, 2, 8};
  BpTensor *within = bp_tensor_create_view(memory, shape, 4, float32, 64);
  g_assert_cmpint(bp_model_bind_input(context, "x", within), ==, 0);
  assert_error(bp_model_run(context), BP_ERROR_VALUE, "overlaps the memory of input 'x'");
  g_assert_cmpint(run_with(context, test, 2), ==, 0);
  bp_object_release(within);
  bp_object_release(x);
  bp_object_release(longer);
  bp_object_release(memory);
  bp_model_context_free(context);
  unlink(path);
  g_free(path);
}

/* Numbers of rows whose texts are equal, past+new+more, are no equal numbers. */
static void test_rooms_of_different_numbers_differ(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "past_0", ONNX_FLOAT, "5xpast");
  onnx_input(builder, "x", ONNX_FLOAT, "5xnew+more");
  onnx_input(builder, "past_1", ONNX_FLOAT, "5xpast+new");
  onnx_input(builder, "x_1", ONNX_FLOAT, "5xmore");
  onnx_node(builder, "Concat", "past_0,x", "present_0", "axis=1");
  onnx_node(builder, "Concat", "past_1,x_1", "present_1", "axis=1");
  onnx_node(builder, "Neg", "present_1", "y", "");
  onnx_output(builder, "y");
  onnx_output(builder, "present_0");
  onnx_output(builder, "present_1");
  char *path = onnx_save(builder);
  const Case test = {.ndim = 2, .axis = 1, .shape = {5, 0}};
  BpModelContext *context = start(path, "llvm -opt=0", 0, cpu);
  BpTensor *memories[] = {create(&test, 8, cpu), create(&test, 9, cpu)}, *x = create(&test, 2, cpu);
  for (int32_t i = 0; i < 2; i++)
    g_assert_cmpint(
        bp_model_bind_cache(context, numbered("past", i), numbered("present", i), memories[i], 0),
        ==, 0);
  fill(x);
  g_assert_cmpint(bp_model_set_input(context, "x_1", &x->view), ==, 0);
  if (run_with(context, &test, 3) < 0)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_model_cache_length(context, "past_0"), ==, 3);
  g_assert_cmpint(bp_model_cache_length(context, "past_1"), ==, 2);
  bp_object_release(x);
  for (int32_t i = 0; i < 2; i++)
    bp_object_release(memories[i]);
  bp_model_context_free(context);
  unlink(path);
  g_free(path);
}

static void test_other_memory_and_other_outputs_are_refused(void) {
  const Case *test = &cases[0];
  char *path = test->write();
  BpModelContext *context = start(path, "llvm -opt=0", 0, cpu);
  const int64_t wrong[] = {1, 3, 8, 9}, right[] = {1, 3, 8, 8};
  BpTensor *other = bp_tensor_create(wrong, 4, float32, cpu, NULL), *memory = create(test, 8, cpu);
  BpTensor *ints = bp_tensor_create(right, 4, (BpDataType){BP_DTYPE_INT, 32, 1}, cpu, NULL);
  assert_error((int)bp_model_cache_length(context, "past_0"), BP_ERROR_VALUE, "no cache is bound");
  assert_error(bp_model_bind_cache(context, "past_0", "present_0", other, 0), BP_ERROR_VALUE,
               "dimension 3");
  assert_error(bp_model_bind_cache(context, "past_0", "present_0", ints, 0), BP_ERROR_VALUE,
               "int32");
  assert_error(bp_model_bind_cache(context, "past_0", "present_1", memory, 0), BP_ERROR_VALUE,
               "is not input 'past_0' with rows behind it");
  assert_error(bp_model_bind_cache(context, "x", "y", memory, 0), BP_ERROR_VALUE,
               "is not input 'x' with rows behind it");
  assert_error(bp_model_bind_cache(context, "past_0", "present_0", memory, 9), BP_ERROR_VALUE,
               "room for 8 rows cannot have 9");
  assert_error(bp_model_bind_cache(context, "past", "present_0", memory, 0), BP_ERROR_NOT_FOUND,
               "past_0, past_1");
  g_assert_cmpint(bp_model_bind_cache(context, "past_0", "present_0", memory, 0), ==, 0);
  g_assert_cmpint(bp_model_bind_input(context, "past_0", memory), ==, 0);
  assert_error((int)bp_model_cache_length(context, "past_0"), BP_ERROR_VALUE, "no cache is bound");
  bp_object_release(ints);
  bp_object_release(other);
  bp_object_release(memory);
  bp_model_context_free(context);
  unlink(path);
  g_free(path);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *path = g_strdup_printf("/caches/%s/steps_agree_with_plain_loops", cases[i].name);
    g_test_add_data_func(path, &cases[i], test_steps);
    g_free(path);
  }
  g_test_add_func("/caches/more_rows_than_there_is_room_for_write_nothing",
                  test_more_rows_than_there_is_room_for_write_nothing);
  g_test_add_func("/caches/caches_that_differ_or_overlap_are_refused",
                  test_caches_that_differ_or_overlap_are_refused);
  g_test_add_func("/caches/rooms_of_different_numbers_of_rows_differ",
                  test_rooms_of_different_numbers_differ);
  g_test_add_func("/caches/other_memory_and_other_outputs_are_refused",
                  test_other_memory_and_other_outputs_are_refused);
  return g_test_run();
}
