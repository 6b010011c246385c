/* SPDX-License-Identifier: Apache-2.0 */
/* The graph executor: graphs run, and every fault of a graph is an error. */
#include <float.h>
#include <pthread.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/object.h>

/* y = (x + w) + 1, viewed as 2x2. */
static const char graph_json[] =
    "{\"nodes\":["
    "{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
    "{\"op\":\"null\",\"name\":\"w\",\"inputs\":[]},"
    "{\"op\":\"tvm_op\",\"name\":\"sum\",\"attrs\":{\"func_name\":\"add\",\"num_inputs\":\"2\","
    "\"num_outputs\":\"1\",\"flatten_data\":\"0\"},\"inputs\":[[0,0,0],[1,0,0]]},"
    "{\"op\":\"tvm_op\",\"name\":\"more\",\"attrs\":{\"func_name\":\"add_one\",\"num_inputs\":"
    "\"1\","
    "\"num_outputs\":\"1\",\"flatten_data\":\"0\"},\"inputs\":[[2,0,0]]},"
    "{\"op\":\"tvm_op\",\"name\":\"square\",\"attrs\":{\"func_name\":\"__nop\",\"num_inputs\":"
    "\"1\","
    "\"num_outputs\":\"1\",\"flatten_data\":\"0\"},\"inputs\":[[3,0,0]]}],"
    "\"arg_nodes\":[0,1],\"heads\":[[4,0,0]],\"node_row_ptr\":[0,1,2,3,4,5],"
    "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\",\"float32\",\"float32\","
    "\"float32\"]],"
    "\"shape\":[\"list_shape\",[[4],[4],[4],[4],[2,2]]],"
    "\"storage_id\":[\"list_int\",[0,1,2,3,3]]}}";

/* x, plus one four times, with alternating storages. */
static const char chain_json[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
    "{\"op\":\"tvm_op\",\"name\":\"a\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[0,0,0]]},"
    "{\"op\":\"tvm_op\",\"name\":\"b\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[1,0,0]]},"
    "{\"op\":\"tvm_op\",\"name\":\"c\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[2,0,0]]},"
    "{\"op\":\"tvm_op\",\"name\":\"d\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[3,0,0]]}]"
    ","
    "\"arg_nodes\":[0],\"heads\":[[4,0,0]],\"node_row_ptr\":[0,1,2,3,4,5],"
    "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\",\"float32\",\"float32\","
    "\"float32\"]],"
    "\"shape\":[\"list_shape\",[[4],[4],[4],[4],[4]]],"
    "\"storage_id\":[\"list_int\",[0,1,2,1,2]]}}";

/* ---- Functions of the test --------------------------------------------------------------- */

static int add(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 3);
  for (int i = 0; i < 4; i++)
    ((float *)args[2].v_view->data)[i] =
        ((float *)args[0].v_view->data)[i] + ((float *)args[1].v_view->data)[i];
  return 0;
}

static int add_one(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 2);
  for (int i = 0; i < 4; i++)
    ((float *)args[1].v_view->data)[i] = ((float *)args[0].v_view->data)[i] + 1;
  return 0;
}

static int halve(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 2);
  for (int i = 0; i < 4; i++)
    ((float *)args[1].v_view->data)[i] = ((float *)args[0].v_view->data)[i] / 2;
  return 0;
}

/* A kernel: its tensors are followed by the extents of its launch. */
static int launched(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 4);
  g_assert_cmpint(args[2].type_index, ==, BP_TYPE_INT);
  g_assert_cmpint(args[3].type_index, ==, BP_TYPE_INT);
  for (int i = 0; i < 4; i++)
    ((float *)args[1].v_view->data)[i] = (float)(args[2].v_int64 * 100 + args[3].v_int64);
  return 0;
}

/* An operator called only for its effect. */
static int look(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)result;
  g_assert_cmpint(num_args, ==, 1);
  return 0;
}

static int get_function(void *context, const char *name, BpFunction **function) {
  static const struct {
    const char *name;
    BpPackedCall call;
  } functions[] = {
      {"add", add}, {"add_one", add_one}, {"halve", halve}, {"launched", launched}, {"look", look}};
  BpPackedCall call = NULL;
  (void)context;
  for (size_t i = 0; i < G_N_ELEMENTS(functions); i++)
    if (!strcmp(functions[i].name, name))
      call = functions[i].call;
  *function = call ? bp_function_create(call, NULL, NULL) : NULL;
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static const BpModuleApi code_api = {.struct_size = sizeof(BpModuleApi),
                                     .kind = "test",
                                     .get_function = get_function,
                                     .destroy = destroy};

static BpModule *create(const char *json) {
  BpModule *code = bp_module_create(&code_api, NULL);
  const BpDevice device = {BP_DEVICE_CPU, 0};
  BpModule *executor = bp_graph_executor_create(json, code, &device, 1);
  bp_object_release(code);
  return executor;
}

static int call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(module, name, 0, &function), ==, 0);
  g_assert_nonnull(function);
  int status = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return status;
}

static BpTensor *tensor_of(float first) {
  const int64_t shape[] = {4};
  BpTensor *tensor = bp_tensor_create(shape, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1},
                                      (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  g_assert_nonnull(tensor);
  for (int i = 0; i < 4; i++)
    ((float *)tensor->view.data)[i] = first + (float)i;
  return tensor;
}

static int set(BpModule *module, const char *function, const char *name, BpTensor *tensor) {
  BpValue result;
  const BpValue args[] = {
      {.type_index = BP_TYPE_RAW_STR, .v_cstr = name},
      {.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header},
  };
  return call(module, function, args, 2, &result);
}

static void assert_output(BpModule *module, float first) {
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  const BpTensorView *view = &((BpTensor *)(void *)result.v_obj)->view;
  g_assert_cmpint(view->ndim, ==, 2);
  for (int i = 0; i < 4; i++)
    g_assert_cmpfloat(((float *)view->data)[i], ==, first + 2 * (float)i);
  bp_value_clear(&result);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_run(void) {
  BpModule *module = create(graph_json);
  g_assert_nonnull(module);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(module, "set_input", "w", w), ==, 0);
  assert_output(module, 12);
  ((float *)x->view.data)[0] = 100;
  assert_output(module, 12);
  ((float *)x->view.data)[0] = 5;
  ((float *)x->view.data)[1] = 6;
  ((float *)x->view.data)[2] = 7;
  ((float *)x->view.data)[3] = 8;
  g_assert_cmpint(set(module, "set_input_zero_copy", "x", x), ==, 0);
  assert_output(module, 16);
  bp_object_release(x);
  bp_object_release(w);
  bp_object_release(module);
}

static BpTensor *get_output(BpModule *module, int64_t index) {
  const BpValue arg = {.type_index = BP_TYPE_INT, .v_int64 = index};
  BpValue result;
  g_assert_cmpint(call(module, "get_output", &arg, 1, &result), ==, 0);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_TENSOR);
  return (BpTensor *)(void *)result.v_obj;
}

/* Each output of a run is the other input of the next one, which writes the first output before it
 * reads the second input. */
static void test_an_output_bound_as_an_input_is_copied(void) {
  static const char json[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
      "{\"op\":\"null\",\"name\":\"w\",\"inputs\":[]},"
      "{\"op\":\"tvm_op\",\"name\":\"a\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[0,0,0]]"
      "},"
      "{\"op\":\"tvm_op\",\"name\":\"b\",\"attrs\":{\"func_name\":\"halve\"},\"inputs\":[[1,0,0]]}]"
      ","
      "\"arg_nodes\":[0,1],\"heads\":[[2,0,0],[3,0,0]],\"node_row_ptr\":[0,1,2,3,4],"
      "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\",\"float32\",\"float32\"]],"
      "\"shape\":[\"list_shape\",[[4],[4],[4],[4]]],\"storage_id\":[\"list_int\",[0,1,2,3]]}}";
  BpModule *module = create(json);
  BpValue result;
  BpTensor *x = tensor_of(1), *w = tensor_of(8);
  float expected_x = 1, expected_w = 8;
  for (int run = 0; run < 4; run++) {
    g_assert_cmpint(set(module, "set_input_zero_copy", "x", x), ==, 0);
    g_assert_cmpint(set(module, "set_input_zero_copy", "w", w), ==, 0);
    g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
    bp_object_release(x);
    bp_object_release(w);
    w = get_output(module, 0);
    x = get_output(module, 1);
    float sum = expected_x + 1;
    expected_x = expected_w / 2;
    expected_w = sum;
    g_assert_cmpfloat(*(float *)x->view.data, ==, expected_x);
    g_assert_cmpfloat(*(float *)w->view.data, ==, expected_w);
  }
  bp_object_release(x);
  bp_object_release(w);
  bp_object_release(module);
}

/* Arithmetic on denormals is slow: a run flushes them, and the caller's mode is unchanged. */
static void test_denormals(void) {
  static const char json[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
      "{\"op\":\"tvm_op\",\"name\":\"a\",\"attrs\":{\"func_name\":\"halve\"},\"inputs\":[[0,0,0]]}]"
      ","
      "\"arg_nodes\":[0],\"heads\":[[1,0,0]],\"node_row_ptr\":[0,1,2],"
      "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\"]],"
      "\"shape\":[\"list_shape\",[[4],[4]]],\"storage_id\":[\"list_int\",[0,1]]}}";
#if defined(__x86_64__) || defined(__aarch64__)
  BpModule *module = create(json);
  BpTensor *x = tensor_of(1);
  for (int i = 0; i < 4; i++)
    ((float *)x->view.data)[i] = FLT_MIN;
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  g_assert_cmpfloat(*(float *)((BpTensor *)(void *)result.v_obj)->view.data, ==, 0);
  volatile float smallest = FLT_MIN;
  g_assert_cmpfloat(smallest / 2, >, 0);
  bp_value_clear(&result);
  bp_object_release(x);
  bp_object_release(module);
#else
  g_test_skip("this processor has no mode that flushes denormals");
  (void)json;
#endif
}

static void test_function_outlives_module(void) {
  BpModule *module = create(graph_json);
  BpFunction *count;
  BpValue result;
  g_assert_cmpint(bp_module_get_function(module, "get_num_inputs", 0, &count), ==, 0);
  bp_object_release(module);
  g_assert_cmpint(bp_function_call(count, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 2);
  bp_object_release(count);
}

static void test_params(void) {
  BpModule *first = create(graph_json), *second = create(graph_json);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  const char *const names[] = {"w"};
  BpTensor *const tensors[] = {w};
  BpOwnedBytes bytes;
  BpValue result;
  g_assert_cmpint(bp_params_encode(names, tensors, 1, &bytes), ==, 0);
  BpByteArray view = {bytes.data, bytes.size};
  const BpValue load = {.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = &view};
  g_assert_cmpint(call(first, "load_params", &load, 1, &result), ==, 0);
  const BpValue share[] = {{.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)first},
                           load};
  g_assert_cmpint(call(second, "share_params", share, 2, &result), ==, 0);
  g_assert_cmpint(set(first, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(second, "set_input", "x", x), ==, 0);
  assert_output(first, 12);
  assert_output(second, 12);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(x);
  bp_object_release(w);
  bp_object_release(second);
  bp_object_release(first);
}

static int ignore(void *context, const char *name, BpTensor *tensor) {
  (void)context;
  (void)name;
  (void)tensor;
  return 0;
}

static void test_damaged_params(void) {
  BpTensor *w = tensor_of(10);
  const char *const names[] = {"w"};
  BpTensor *const tensors[] = {w};
  BpOwnedBytes bytes;
  g_assert_cmpint(bp_params_encode(names, tensors, 1, &bytes), ==, 0);
  for (size_t size = 0; size < bytes.size; size++) {
    const BpByteArray part = {bytes.data, size};
    g_assert_cmpint(bp_params_decode(&part, ignore, NULL), ==, -1);
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
    bp_error_clear();
  }
  const BpByteArray whole = {bytes.data, bytes.size};
  for (size_t bit = 0; bit < bytes.size * 8; bit++) {
    bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
    if (bp_params_decode(&whole, ignore, NULL) < 0)
      g_assert_true(*bp_error_kind());
    bp_error_clear();
    bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
  }
  bp_owned_bytes_clear(&bytes);
  bp_object_release(w);
}

static void test_wrong_inputs(void) {
  BpModule *module = create(graph_json);
  BpTensor *x = tensor_of(1);
  BpValue result;
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "'x' has not been set"));
  g_assert_cmpint(set(module, "set_input", "z", x), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_NOT_FOUND);
  x->view.shape[0] = 3;
  g_assert_cmpint(set(module, "set_input", "x", x), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "float32 4"));
  x->view.shape[0] = 4;
  x->view.dtype.bits = 64;
  g_assert_cmpint(set(module, "set_input", "x", x), ==, -1);
  x->view.dtype.bits = 32;
  bp_error_clear();
  bp_object_release(x);
  bp_object_release(module);
}

static char *replaced(const char *graph, const char *part, const char *instead) {
  char **parts = g_strsplit(graph, part, 2);
  g_assert_nonnull(parts[1]);
  char *json = g_strjoinv(instead, parts);
  g_strfreev(parts);
  return json;
}

static void test_kernel_gets_its_launch(void) {
  char *json = replaced(graph_json, "\"add_one\",", "\"launched\",\"launch\":\"30 4\",");
  BpModule *module = create(json);
  BpTensor *x = tensor_of(0);
  BpValue result, index = {.type_index = BP_TYPE_INT};
  g_assert_nonnull(module);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(module, "set_input", "w", x), ==, 0);
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  g_assert_cmpfloat(((float *)((BpTensor *)(void *)result.v_obj)->view.data)[3], ==, 3004);
  bp_value_clear(&result);
  bp_object_release(x);
  bp_object_release(module);
  g_free(json);
}

static void test_wrong_arguments(void) {
  BpModule *module = create(graph_json), *code = bp_module_create(&code_api, NULL);
  BpTensor *x = tensor_of(1);
  const BpValue none = {.type_index = BP_TYPE_NONE};
  const BpValue name = {.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"};
  const BpValue number = {.type_index = BP_TYPE_INT, .v_int64 = 7};
  const BpValue other = {.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)code};
  BpTensorView view = x->view;
  const struct {
    const char *function;
    BpValue args[2];
    int32_t num_args;
    const char *kind, *says;
  } cases[] = {
      {"set_input", {name}, 1, BP_ERROR_TYPE, "set_input takes 2 arguments, and got 1"},
      {"set_input", {name, name}, 2, BP_ERROR_TYPE, "a tensor is needed"},
      {"set_input", {number, name}, 2, BP_ERROR_INDEX, "input 7 of a graph that has 2"},
      {"set_input", {none, name}, 2, BP_ERROR_TYPE, ""},
      {"set_input_zero_copy",
       {name, {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view}},
       2,
       BP_ERROR_TYPE,
       "takes a tensor object"},
      {"get_input", {number, number}, 2, BP_ERROR_TYPE, "get_input takes 1 argument,"},
      {"run", {number}, 1, BP_ERROR_TYPE, "run takes 0 arguments, and got 1"},
      {"get_output", {number}, 1, BP_ERROR_INDEX, "an index below 1"},
      {"get_output", {number, name}, 0, BP_ERROR_TYPE, "get_output takes 1 to 2 arguments"},
      {"get_output", {name}, 1, BP_ERROR_INDEX, "an index below 1"},
      {"get_num_outputs", {number}, 1, BP_ERROR_TYPE, "get_num_outputs takes 0 arguments"},
      {"load_params", {number}, 1, BP_ERROR_TYPE, ""},
      {"share_params", {other, name}, 2, BP_ERROR_TYPE, "another graph executor"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpValue result;
    g_assert_cmpint(call(module, cases[i].function, cases[i].args, cases[i].num_args, &result), ==,
                    -1);
    if (strcmp(bp_error_kind(), cases[i].kind) || !strstr(bp_error_message(), cases[i].says))
      g_error("case %zu: %s: %s", i, bp_error_kind(), bp_error_message());
    bp_error_clear();
  }
  bp_object_release(x);
  bp_object_release(code);
  bp_object_release(module);
}

/* Replaces one part of a graph: the error names the fault of the result. */
typedef struct Refused {
  const char *part, *instead, *says;
} Refused;

static void assert_refused(const char *graph, const Refused *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *json = replaced(graph, cases[i].part, cases[i].instead);
    g_assert_null(create(json));
    if (!strstr(bp_error_message(), cases[i].says))
      g_error("case %zu: \"%s\" does not say \"%s\"", i, bp_error_message(), cases[i].says);
    bp_error_clear();
    g_free(json);
  }
}

static void test_refused_graphs(void) {
  static const Refused cases[] = {
      {"\"add\"", "\"nothing\"", "does not have"},
      {"\"op\":\"null\",\"name\":\"x\"", "\"op\":\"magic\",\"name\":\"x\"", "unknown op"},
      {"[[0,0,0],[1,0,0]]", "[[0,0,0],[3,0,0]]", "inputs"},
      {"[[0,0,0],[1,0,0]]", "[[0,0,0],[1,1,0]]", "inputs"},
      {"[[0,0,0],[1,0,0]]", "7", "not a list"},
      {"\"arg_nodes\":[0,1]", "\"arg_nodes\":[0]", "arg_nodes"},
      {"\"arg_nodes\":[0,1]", "\"arg_nodes\":[0,9]", "arg_nodes"},
      {"\"heads\":[[4,0,0]]", "\"heads\":[[5,0,0]]", "inputs"},
      {"[0,1,2,3,4,5]", "[0,1,2,3,4]", "node_row_ptr"},
      {"[0,1,2,3,4,5]", "[0,2,1,3,4,5]", "node_row_ptr"},
      {"[0,1,2,3,3]", "[0,1,0,3,3]", "writes into"},
      {"[0,1,2,3,3]", "[0,0,2,3,3]", "shares its storage"},
      {"[0,1,2,3,3]", "[0,1,2,2,2]", "its own input"},
      {"[0,1,2,3,3]", "[0,1,2,3,99]", "storage_id"},
      {"[0,1,2,3,3]", "[0,1,2,3,-1]", "storage_id"},
      {"[2,2]]", "[2,3]]", "view"},
      {"[2,2]]", "[4611686018427387904,8]]", ""},
      {"\"float32\"]]", "\"floaty\"]]", ""},
      {"\"node_row_ptr\"", "\"rows\"", "node_row_ptr"},
      {"\"add_one\",", "\"add_one\",\"launch\":\"1 x\",", "'launch'"},
      {"\"add_one\",", "\"add_one\",\"launch\":\"0\",", "'launch'"},
      {"\"add_one\",", "\"add_one\",\"launch\":\"99999999999999999999999\",", "'launch'"},
      {"\"add_one\",", "\"add_one\",\"launch\":\"1 1 1 1 1 1 1\",", "launch extents"},
      {"\"add_one\",", "\"add_one\",\"launch\":7,", "'launch'"},
      {"\"attrs\":{\"dltype\"", "\"attrs\":{\"device_index\":[\"list_int\",[1,1]],\"dltype\"",
       "'device_index'"},
      {"\"attrs\":{\"dltype\"", "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,0,1]],\"dltype\"",
       "'device_index'"},
      {"\"attrs\":{\"dltype\"", "\"attrs\":{\"device_index\":[\"list_int\",[1,1,4,4,4]],\"dltype\"",
       "on two devices"},
      {"\"attrs\":{\"dltype\"", "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,4]],\"dltype\"",
       "on two devices"},
      {"\"attrs\":{\"dltype\"", "\"attrs\":{\"device_index\":[\"list_int\",[4,4,4,4,4]],\"dltype\"",
       "needs 1 device of kind opencl; name its devices in order, as in \"cpu,opencl\""},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,1]],\"device_ordinal\":[\"list_int\",[0,"
       "0,0,0]],\"dltype\"",
       "'device_ordinal' has not one number"},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,1]],\"device_ordinal\":[\"list_int\",[0,"
       "0,0,0,-1]],\"dltype\"",
       "'device_ordinal' holds -1"},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,1]],\"device_ordinal\":[\"list_int\",[0,"
       "0,8,0,0]],\"dltype\"",
       "'device_ordinal' holds 8"},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_ordinal\":[\"list_int\",[0,0,0,0,0]],\"dltype\"",
       "'device_ordinal' has no 'device_index'"},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,1]],\"device_ordinal\":[\"list_int\",[0,"
       "0,0,0,1]],\"dltype\"",
       "on two devices"},
      {"\"attrs\":{\"dltype\"",
       "\"attrs\":{\"device_index\":[\"list_int\",[1,1,1,1,1]],\"device_ordinal\":[\"list_int\",[1,"
       "1,1,1,1]],\"dltype\"",
       "needs 2 devices of kind cpu; name its devices in order, as in \"cpu:0,cpu:1\": 1 such "
       "device was given"},
      {"\"func_name\":\"add\"", "\"func_name\":\"__copy\"", "the copy 'sum'"},
      {"\"num_inputs\":\"2\"", "\"num_inputs\":\"1\"", "'num_inputs'"},
      {"\"flatten_data\":\"0\"", "\"flatten_data\":\"2\"", "'flatten_data'"},
  };
  assert_refused(graph_json, cases, G_N_ELEMENTS(cases));
}

/* Folding may leave a graph whose output is its input. */
static void test_an_input_may_be_an_output(void) {
  char *json = replaced(graph_json, "\"heads\":[[4,0,0]]", "\"heads\":[[1,0,0]]");
  BpModule *module = create(json);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  g_assert_nonnull(module);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(module, "set_input_zero_copy", "w", w), ==, 0);
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  g_assert_true(bp_value_view_tensor(&result)->data == w->view.data);
  bp_value_clear(&result);
  bp_object_release(x);
  bp_object_release(w);
  bp_object_release(module);
  g_free(json);
}

/* Writes other numbers into a tensor. */
static void fill(BpTensor *tensor, float first) {
  for (int i = 0; i < 4; i++)
    ((float *)tensor->view.data)[i] = first + (float)i;
}

static void assert_first(const BpTensor *tensor, float first) {
  g_assert_cmpfloat(*(float *)tensor->view.data, ==, first);
}

/* The outputs are the inputs: w, and x as a view. */
static char *passing_json(void) {
  g_autofree char *heads =
      replaced(graph_json, "\"heads\":[[4,0,0]]", "\"heads\":[[1,0,0],[4,0,0]]");
  g_autofree char *inputs = replaced(heads, "\"inputs\":[[3,0,0]]", "\"inputs\":[[0,0,0]]");
  return replaced(inputs, "[0,1,2,3,3]", "[0,1,2,3,0]");
}

static void run_module(BpModule *module) {
  BpValue result;
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
}

static void test_an_output_that_is_an_input_stays_until_the_next_run(gconstpointer function) {
  g_autofree char *json = passing_json();
  BpModule *module = create(json);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  g_assert_nonnull(module);
  g_assert_cmpint(set(module, function, "x", x), ==, 0);
  g_assert_cmpint(set(module, function, "w", w), ==, 0);
  bp_object_release(x);
  bp_object_release(w);
  for (int run = 0; run < 3; run++) {
    float step = (float)run;
    run_module(module);
    BpTensor *first = get_output(module, 0), *second = get_output(module, 1);
    x = tensor_of(2 + step);
    w = tensor_of(20 + step);
    g_assert_cmpint(set(module, run == 1 ? "set_input" : function, "x", x), ==, 0);
    g_assert_cmpint(set(module, run == 1 ? "set_input" : function, "w", w), ==, 0);
    assert_first(first, run ? 19 + step : 10);
    assert_first(second, run ? 1 + step : 1);
    BpTensor *again = get_output(module, 0);
    assert_first(again, run ? 19 + step : 10);
    bp_object_release(again);
    bp_object_release(first);
    bp_object_release(second);
    bp_object_release(x);
    bp_object_release(w);
  }
  bp_object_release(module);
}

/* The tensor that an input shares with an output lives as long as one of them. */
static void test_an_input_keeps_the_tensor_that_an_output_views(void) {
  g_autofree char *json = passing_json();
  BpModule *module = create(json);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  g_assert_cmpint(set(module, "set_input_zero_copy", "x", x), ==, 0);
  g_assert_cmpint(set(module, "set_input_zero_copy", "w", w), ==, 0);
  bp_object_release(w);
  run_module(module);
  BpTensor *output = get_output(module, 0);
  g_assert_cmpint(set(module, "set_input_zero_copy", "x", output), ==, 0);
  bp_object_release(output);
  g_assert_cmpint(set(module, "set_input", "w", x), ==, 0);
  run_module(module);
  output = get_output(module, 0);
  assert_first(output, 1);
  bp_object_release(output);
  output = get_output(module, 1);
  assert_first(output, 10);
  bp_object_release(output);
  bp_object_release(x);
  bp_object_release(module);
}

static BpTensor *get_input(BpModule *module, const char *name) {
  const BpValue arg = {.type_index = BP_TYPE_RAW_STR, .v_cstr = name};
  BpValue result;
  g_assert_cmpint(call(module, "get_input", &arg, 1, &result), ==, 0);
  return (BpTensor *)(void *)result.v_obj;
}

static void test_the_tensor_of_an_input_keeps_its_memory(void) {
  BpModule *module = create(graph_json);
  BpTensor *x = tensor_of(1), *w = tensor_of(10);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(module, "set_input_zero_copy", "w", w), ==, 0);
  bp_object_release(w);
  BpTensor *input = get_input(module, "w");
  g_assert_cmpint(set(module, "set_input", "w", input), ==, 0);
  assert_first(input, 10);
  bp_object_release(input);
  assert_output(module, 12);
  bp_object_release(x);
  bp_object_release(module);
}

/* An input is set to the memory that it has: by a copy, or in place. */
static void test_an_input_may_be_set_to_its_own_memory(void) {
  BpModule *module = create(graph_json);
  BpTensor *w = tensor_of(10), *x = get_input(module, "x");
  g_assert_cmpint(set(module, "set_input", "w", w), ==, 0);
  fill(x, 1);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  assert_output(module, 12);
  fill(x, 2);
  g_assert_cmpint(set(module, "set_input_zero_copy", "x", x), ==, 0);
  assert_output(module, 13);
  bp_object_release(x);
  bp_object_release(w);
  bp_object_release(module); /* LeakSanitizer finds a module that its input keeps alive */
}

static void test_shared_storage(void) {
  static const Refused cases[] = {
      {"[[4,0,0]]", "[[4,0,0],[2,0,0]]", "output 'output1' is overwritten"},
      {"[[3,0,0]]", "[[1,0,0]]", "node 'd' reads a value that an earlier node has overwritten"},
      {"[0,1,2,1,2]", "[0,1,2,1,1]", "node 'd' writes into its own input"},
      {"[0,1,2,1,2]", "[0,1,2,0,2]", "node 'c' writes into an input"},
      {"[0,1,2,3,4,5]", "[0,1,3,3,4,5]", "'inputs' holds"},
      {"[0,1,2,3,4,5]", "[0,1,2,3,3,5]", "'inputs' holds"},
  };
  BpModule *module = create(chain_json);
  BpTensor *x = tensor_of(1);
  g_assert_nonnull(module);
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  g_assert_cmpint(call(module, "run", NULL, 0, &result), ==, 0);
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  const BpTensorView *view = &((BpTensor *)(void *)result.v_obj)->view;
  for (int i = 0; i < 4; i++)
    g_assert_cmpfloat(((float *)view->data)[i], ==, 5 + (float)i);
  bp_value_clear(&result);
  bp_object_release(x);
  bp_object_release(module);
  assert_refused(chain_json, cases, G_N_ELEMENTS(cases));
}

/* Two values that are alive at the same time cannot share a storage. */
static void test_outputs_in_one_storage(void) {
  static const Refused cases[] = {
      {"[0,1,2]", "[0,1,1]", "two outputs of node 'a' have one storage"}};
  static const char json[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
      "{\"op\":\"tvm_op\",\"name\":\"a\",\"attrs\":{\"func_name\":\"add\"},\"inputs\":[[0,0,0]]}],"
      "\"arg_nodes\":[0],\"heads\":[[1,0,0],[1,1,0]],\"node_row_ptr\":[0,1,3],"
      "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\",\"float32\"]],"
      "\"shape\":[\"list_shape\",[[4],[4],[4]]],\"storage_id\":[\"list_int\",[0,1,2]]}}";
  BpModule *module = create(json);
  g_assert_nonnull(module);
  bp_object_release(module);
  assert_refused(json, cases, G_N_ELEMENTS(cases));
}

static void test_damaged_graph(void) {
  char *copy = g_strdup(graph_json);
  for (size_t size = 0; size < strlen(graph_json); size++) {
    char *part = g_strndup(graph_json, size);
    g_assert_null(create(part));
    bp_error_clear();
    g_free(part);
  }
  for (size_t i = 0; i < strlen(graph_json); i++) {
    copy[i] ^= 1;
    BpModule *module = create(copy);
    g_assert_true(module || *bp_error_kind());
    bp_object_release(module);
    bp_error_clear();
    copy[i] ^= 1;
  }
  g_free(copy);
}

static void *create_in_thread(void *text) {
  g_assert_null(create(text));
  g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  bp_error_clear();
  return NULL;
}

/* The thread sanitizer's malloc uses much stack. */
#if defined(__SANITIZE_THREAD__)
#define SMALL_STACK (2 << 20)
#else
#define SMALL_STACK (256 << 10)
#endif

/* JSON has no comments: a quote in a comment must not hide nesting from the depth check. */
static void test_deep_graphs_are_errors_on_a_small_stack(void) {
  static const char *const beginnings[] = {"", "{\"nodes\":", "{ /* \" */ \"a\": ", "// \"\n"};
  pthread_attr_t small;
  pthread_attr_init(&small);
  g_assert_cmpint(pthread_attr_setstacksize(&small, SMALL_STACK), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(beginnings); i++)
    for (gsize depth = 2000; depth <= 2000000; depth *= 10) {
      g_autofree char *levels = g_strnfill(depth, '[');
      g_autofree char *text = g_strconcat(beginnings[i], levels, NULL);
      pthread_t thread;
      g_assert_cmpint(pthread_create(&thread, &small, create_in_thread, text), ==, 0);
      pthread_join(thread, NULL);
    }
  pthread_attr_destroy(&small);
}

static void test_comments_and_duplicates_are_errors(void) {
  g_autofree char *comment = g_strconcat("/**/", graph_json, NULL);
  g_autofree char *twice = g_strconcat("{\"nodes\":[],", graph_json + 1, NULL);
  g_assert_null(create(comment));
  g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  bp_error_clear();
  g_assert_null(create(twice));
  g_assert_nonnull(strstr(bp_error_message(), "duplicate"));
  bp_error_clear();
}

static void test_a_node_without_outputs_has_none_to_show(void) {
  static const char json[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},"
      "{\"op\":\"tvm_op\",\"name\":\"a\",\"attrs\":{\"func_name\":\"look\"},\"inputs\":[[0,0,0]]},"
      "{\"op\":\"tvm_op\",\"name\":\"b\",\"attrs\":{\"func_name\":\"add_one\"},\"inputs\":[[0,0,0]]"
      "}],"
      "\"arg_nodes\":[0],\"heads\":[[2,0,0]],\"node_row_ptr\":[0,1,1,2],"
      "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\"]],"
      "\"shape\":[\"list_shape\",[[4],[4]]],\"storage_id\":[\"list_int\",[0,1]]}}";
  BpModule *code = bp_module_create(&code_api, NULL);
  BpTensor *x = tensor_of(1), *shown = tensor_of(0);
  BpFunction *create_debug;
  BpValue result;
  const BpValue args[] = {
      {.type_index = BP_TYPE_RAW_STR, .v_cstr = json},
      {.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)code},
      {.type_index = BP_TYPE_DEVICE, .v_device = {BP_DEVICE_CPU, 0}},
  };
  g_assert_cmpint(bp_graph_initialize(), ==, 0);
  g_assert_cmpint(bp_registry_get("graph_executor_debug.create", &create_debug), ==, 0);
  g_assert_cmpint(bp_function_call(create_debug, args, 3, &result), ==, 0);
  BpModule *module = (BpModule *)(void *)result.v_obj;
  g_assert_cmpint(set(module, "set_input", "x", x), ==, 0);
  g_assert_cmpint(set(module, "debug_get_output", "a", shown), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "node 'a'"));
  g_assert_cmpint(set(module, "debug_get_output", "b", shown), ==, 0);
  g_assert_cmpfloat(((float *)shown->view.data)[0], ==, 2);
  bp_object_release(create_debug);
  bp_object_release(module);
  bp_object_release(shown);
  bp_object_release(x);
  bp_object_release(code);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/executor/run/copied-and-bound-inputs", test_run);
  g_test_add_func("/executor/run/an-output-bound-as-an-input-is-copied",
                  test_an_output_bound_as_an_input_is_copied);
  g_test_add_func("/executor/run/denormals-are-flushed", test_denormals);
  g_test_add_func("/executor/function-outlives-module", test_function_outlives_module);
  g_test_add_func("/executor/params/load-and-share", test_params);
  g_test_add_func("/executor/params/damaged-bytes-are-an-error", test_damaged_params);
  g_test_add_func("/executor/set-input/wrong-name-shape-dtype-or-none", test_wrong_inputs);
  g_test_add_func("/executor/run/kernel-gets-its-launch", test_kernel_gets_its_launch);
  g_test_add_func("/executor/wrong-arguments-are-errors", test_wrong_arguments);
  g_test_add_func("/executor/create/inconsistent-graph-says-what", test_refused_graphs);
  g_test_add_func("/executor/an-input-may-be-an-output", test_an_input_may_be_an_output);
  g_test_add_data_func("/executor/an-output-that-is-an-input-stays-until-the-next-run/copied",
                       "set_input", test_an_output_that_is_an_input_stays_until_the_next_run);
  g_test_add_data_func("/executor/an-output-that-is-an-input-stays-until-the-next-run/bound",
                       "set_input_zero_copy",
                       test_an_output_that_is_an_input_stays_until_the_next_run);
  g_test_add_func("/executor/an-input-keeps-the-tensor-that-an-output-views",
                  test_an_input_keeps_the_tensor_that_an_output_views);
  g_test_add_func("/executor/the-tensor-of-an-input-keeps-its-memory",
                  test_the_tensor_of_an_input_keeps_its_memory);
  g_test_add_func("/executor/an-input-may-be-set-to-its-own-memory",
                  test_an_input_may_be_set_to_its_own_memory);
  g_test_add_func("/executor/debug/a-node-without-outputs-has-none-to-show",
                  test_a_node_without_outputs_has_none_to_show);
  g_test_add_func("/executor/create/values-in-one-storage-take-turns", test_shared_storage);
  g_test_add_func("/executor/create/outputs-in-one-storage-are-an-error",
                  test_outputs_in_one_storage);
  g_test_add_func("/executor/create/damaged-graph-is-no-crash", test_damaged_graph);
  g_test_add_func("/executor/create/deep-graphs-are-errors-on-a-small-stack",
                  test_deep_graphs_are_errors_on_a_small_stack);
  g_test_add_func("/executor/create/comments-and-duplicates-are-errors",
                  test_comments_and_duplicates_are_errors);
  return g_test_run();
}
