/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of TVM up to 0.19: in one library or in several files, for the CPU, OpenCL and, in a
 * simulation of NVIDIA's driver and compiler, CUDA. */

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include <glib.h>
#include <glib/gstdio.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "plugins/cuda/driver_api.h"
#include "tests/tvm/network.h"

#define CPU0 ((BpDevice){BP_DEVICE_CPU, 0})

static char *folder;

static char *path_of(const char *name) {
  return g_build_filename(folder, name, NULL);
}

static void fail(void) {
  g_error("%s: %s", bp_error_kind(), bp_error_message());
}

static void write_bytes(const char *name, const void *data, size_t size) {
  char *path = path_of(name);
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  g_free(path);
}

static void build(const char *name, const char *header, const char *source, GByteArray *blob) {
  char *path = path_of(name);
  build_artifact(path, header, source, blob);
  if (blob)
    g_byte_array_unref(blob);
  g_free(path);
}

static void write_params(const char *name, const ArtifactParam *params, size_t count) {
  GByteArray *bytes = g_byte_array_new();
  put_params_file(bytes, params, count);
  write_bytes(name, bytes->data, bytes->len);
  g_byte_array_unref(bytes);
}

/* Each test has the folder for itself. */
static void clear_folder(void) {
  remove_artifact_folder(folder);
  folder = artifact_folder();
}

/* ---- Running ----------------------------------------------------------------------------- */

static const float input[4] = {1, 2, 3, 4};

static void set_input(BpModelContext *context) {
  const int64_t shape[] = {4};
  BpTensor *tensor = bp_tensor_create(shape, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, CPU0, NULL);
  if (!tensor)
    fail();
  memcpy(tensor->view.data, input, sizeof input);
  if (bp_model_set_input(context, "x", &tensor->view))
    fail();
  bp_object_release(tensor);
}

static void check_output(BpModelContext *context, int32_t index, BpDataType dtype, int32_t ndim,
                         const void *expected, size_t size) {
  char data[64];
  BpTensor *output = bp_model_get_output(context, index);
  if (!output)
    fail();
  g_assert_cmpmem(&output->view.dtype, sizeof dtype, &dtype, sizeof dtype);
  g_assert_cmpint(output->view.ndim, ==, ndim);
  if (bp_tensor_copy_to_host(&output->view, data, size))
    fail();
  g_assert_cmpmem(data, size, expected, size);
}

static const float doubled[] = {4, 8, 12, 16}, summed[] = {40};

static void check_outputs(BpModelContext *context) {
  const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1}, boolean = {BP_DTYPE_BOOL, 8, 1};
  check_output(context, 0, float32, 2, doubled, sizeof doubled);
  check_output(context, 1, float32, 0, summed, sizeof summed);
  check_output(context, 2, boolean, 2, "\0\0\1\1", 4);
}

static int count_node(void *visitor, const char *node, const char *function, int64_t start_ns,
                      int64_t duration_ns) {
  g_assert_cmpstr(node, ==, function);
  g_assert_cmpint(start_ns, >=, 0);
  g_assert_cmpint(duration_ns, >=, 0);
  ++*(int *)visitor;
  return 0;
}

/* Runs twice, because storages are reused, and once under the debug executor. */
static void run_model(BpModel *model, int num_nodes) {
  BpModelContext *context = bp_model_context_create(model);
  int nodes = 0;
  if (!context)
    fail();
  for (int i = 0; i < 2; i++) {
    set_input(context);
    if (bp_model_run(context))
      fail();
    check_outputs(context);
  }
  if (num_nodes && bp_model_profile(context, NULL, count_node, &nodes))
    fail();
  g_assert_cmpint(nodes, ==, num_nodes);
  check_outputs(context);
  bp_model_context_free(context);
}

static BpModel *load(const char *name, BpDevice device) {
  char *path = path_of(name);
  const BpDevice devices[] = {device, CPU0};
  BpModel *model = bp_model_load(path, devices, 2);
  g_free(path);
  return model;
}

static void load_and_run(const char *name, BpDevice device) {
  BpModel *model = load(name, device);
  if (!model)
    fail();
  g_assert_cmpint(bp_model_num_inputs(model), ==, 1);
  g_assert_cmpint(bp_model_num_outputs(model), ==, 3);
  g_assert_cmpint(bp_model_num_targets(model), ==, 0);
  run_model(model, 3);
  bp_model_release(model);
}

static void load_fails(const char *name, const char *kind, const char *text) {
  g_assert_null(load(name, CPU0));
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), text))
    g_error("\"%s\" is not in \"%s\"", text, bp_error_message());
  bp_error_clear();
}

/* ---- Libraries and files ----------------------------------------------------------------- */

static void test_one_library_has_the_whole_network(void) {
  const char *const headers[] = {artifact_llvm_header, artifact_c_header};
  for (size_t i = 0; i < G_N_ELEMENTS(headers); i++) {
    clear_folder();
    build("net.so", headers[i], network_cpu_source, network_blob(network_json, NULL, NULL, "", 0));
    load_and_run("net.so", CPU0);
  }
}

static void run_executor(BpModule *executor);

static void test_a_library_of_tvm_0_7_is_the_same(void) {
  static const char today[] = "GraphExecutorFactory", before[] = "GraphRuntimeFactory";
  GByteArray *blob = network_blob(network_json, NULL, NULL, "", 0), *old = g_byte_array_new();
  const char *name = memmem(blob->data, blob->len, today, strlen(today));
  gsize at = (gsize)(name - (const char *)blob->data);
  g_byte_array_append(old, blob->data, (guint)(at - sizeof(guint64)));
  put_str(old, before);
  at += strlen(today);
  g_byte_array_append(old, blob->data + at, (guint)(blob->len - at));
  clear_folder();
  build("net.so", artifact_llvm_header, network_cpu_source, old);
  load_and_run("net.so", CPU0);
  g_byte_array_unref(blob);
}

/* A library with the parameter p0, of storage 1, in its code, at an odd address: code that loads p0
 * as a vector needs the host's aligned copy. */
#define LINKED_SOURCE                                                                              \
  "static const struct { char odd; float p0[4]; } __attribute__((packed)) linked ="                \
  " {0, {1, 2, 3, 4}};\n"                                                                          \
  "FN(_lookup_linked_param) {\n"                                                                   \
  "  if (codes[0] != 0 || args[0].v_int64 != 1) { *ret_code = 4; return 0; }\n"                    \
  "  ret->v_handle = (void *)linked.p0; *ret_code = 3; return 0;\n"                                \
  "}\n"

static void test_parameters_are_linked_into_the_code(void) {
  const char *const headers[] = {artifact_llvm_header, artifact_c_header};
  for (size_t i = 0; i < G_N_ELEMENTS(headers); i++) {
    char *source = g_strconcat(network_cpu_source, LINKED_SOURCE, NULL);
    clear_folder();
    write_bytes("net.json", network_json, strlen(network_json));
    build("net.so", headers[i], source, NULL);
    load_and_run("net.json", CPU0);
    char *path = path_of("net.so");
    BpModule *code = bp_module_load(path);
    BpModule *executor = code ? bp_graph_executor_create(network_json, code, &CPU0, 1) : NULL;
    if (!executor)
      fail();
    run_executor(executor);
    bp_object_release(executor);
    bp_object_release(code);
    g_free(path);
    g_free(source);
  }
}

static void test_linked_parameters_have_an_address(void) {
  char *source = g_strconcat(network_cpu_source,
                             "FN(_lookup_linked_param) { *ret_code = 0; return 0; }\n", NULL);
  clear_folder();
  write_bytes("net.json", network_json, strlen(network_json));
  build("net.so", artifact_llvm_header, source, NULL);
  load_fails("net.json", BP_ERROR_TYPE, "not an address");
  g_free(source);
}

static void write_files(const char *stem, const char *header) {
  char *json = g_strconcat(stem, ".json", NULL), *so = g_strconcat(stem, ".so", NULL),
       *params = g_strconcat(stem, ".params", NULL);
  write_bytes(json, network_json, strlen(network_json));
  build(so, header, network_cpu_source, NULL);
  write_params(params, network_params, G_N_ELEMENTS(network_params));
  g_free(json);
  g_free(so);
  g_free(params);
}

static void test_files_are_found_beside_the_graph(void) {
  clear_folder();
  write_files("mod", artifact_c_header);
  load_and_run("mod.json", CPU0);
  load_and_run("", CPU0);
  char *before = path_of("mod.so"), *after = path_of("deploy_lib.so");
  g_assert_cmpint(g_rename(before, after), ==, 0);
  load_and_run("mod.json", CPU0);
  write_bytes("other.so", "", 0);
  load_fails("mod.json", BP_ERROR_VALUE, "several files .so; give the graph's files one by one");
  char *graph = path_of("mod.json"), *params = path_of("mod.params");
  BpModule *module = bp_model_open_parts(graph, after, params);
  BpModel *model = module ? bp_model_create(module, &CPU0, 1) : NULL;
  if (!model)
    fail();
  run_model(model, 3);
  bp_model_release(model);
  bp_object_release(module);
  g_free(before);
  g_free(after);
  g_free(graph);
  g_free(params);
}

/* Returns the network with other names of its nodes (transfer full). */
static char *renamed(const char *add, const char *multiply, const char *sum) {
  const char *const names[][2] = {{"\"name\":\"tvmgen_default_fused_add\"", add},
                                  {"\"name\":\"tvmgen_default_fused_multiply\"", multiply},
                                  {"\"name\":\"tvmgen_default_fused_sum_greater\"", sum}};
  GString *json = g_string_new(network_json);
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    char *name = g_strdup_printf("\"name\":\"%s\"", names[i][1]);
    g_assert_cmpuint(g_string_replace(json, names[i][0], name, 0), ==, 1);
    g_free(name);
  }
  return g_string_free(json, FALSE);
}

static int note_name(void *visitor, const char *node, const char *function, int64_t start_ns,
                     int64_t duration_ns) {
  (void)function, (void)start_ns, (void)duration_ns;
  g_string_append_printf(visitor, "%s ", node);
  return 0;
}

/* Compares a file with a tensor, and removes the file. */
static void take_dump(const char *name, BpDataType dtype, const void *expected, size_t size) {
  char *path = path_of(name);
  BpTensor *tensor = bp_npy_read(path);
  if (!tensor)
    fail();
  g_assert_cmpmem(&tensor->view.dtype, sizeof dtype, &dtype, sizeof dtype);
  g_assert_cmpmem(tensor->view.data, size, expected, size);
  bp_object_release(tensor);
  g_assert_cmpint(g_unlink(path), ==, 0);
  g_free(path);
}

static void profile_into_files(const char *names, const char *const files[4]) {
  static const float added[] = {2, 4, 6, 8};
  const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1}, boolean = {BP_DTYPE_BOOL, 8, 1};
  GString *seen = g_string_new(NULL);
  BpModel *model = load("mod.json", CPU0);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    fail();
  set_input(context);
  if (bp_model_profile(context, folder, note_name, seen))
    fail();
  g_assert_cmpstr(seen->str, ==, names);
  take_dump(files[0], float32, added, sizeof added);
  take_dump(files[1], float32, doubled, sizeof doubled);
  take_dump(files[2], float32, summed, sizeof summed);
  take_dump(files[3], boolean, "\0\0\1\1", 4);
  bp_model_context_free(context);
  bp_model_release(model);
  g_string_free(seen, TRUE);
}

static void test_nodes_of_one_name_are_dumped_apart(void) {
  static const struct {
    const char *nodes[3], *names, *files[4];
  } cases[] = {
      {{"a", "a", "a"}, "a 1:a 2:a ", {"a.npy", "1:a.npy", "2:a.npy", "2:a.1.npy"}},
      {{"b/c", "b_c", "d"}, "b/c 1:b_c d ", {"b_c.npy", "1:b_c.npy", "d.npy", "d.1.npy"}},
      {{"e.1", "f", "e"}, "e.1 f 2:e ", {"e.1.npy", "f.npy", "2:e.npy", "2:e.1.npy"}},
      {{"1:g", "g", "g"}, "1:g g 2:g ", {"1:g.npy", "g.npy", "2:g.npy", "2:g.1.npy"}},
      {{"2:h", "h", "h"}, "2:h h 2:2:h ", {"2:h.npy", "h.npy", "2:2:h.npy", "2:2:h.1.npy"}},
  };
  clear_folder();
  write_files("mod", artifact_llvm_header);
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    const char *const *nodes = cases[i].nodes;
    char *json = renamed(nodes[0], nodes[1], nodes[2]);
    write_bytes("mod.json", json, strlen(json));
    profile_into_files(cases[i].names, cases[i].files);
    g_free(json);
  }
}

/* Opening a FIFO would wait for a writer, and a device file may have no end. */
static void test_what_is_no_file_is_said(void) {
  clear_folder();
  write_files("mod", artifact_c_header);
  char *graph = path_of("mod.json"), *library = path_of("mod.so"), *fifo = path_of("fifo.json");
  g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
  const char *const pairs[][2] = {{fifo, NULL}, {"/dev/zero", NULL}, {graph, fifo}};
  for (size_t i = 0; i < G_N_ELEMENTS(pairs); i++) {
    g_assert_null(bp_model_open_parts(pairs[i][0], library, pairs[i][1]));
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_IO);
    g_assert_nonnull(strstr(bp_error_message(), "not a regular file"));
    bp_error_clear();
  }
  g_free(graph);
  g_free(library);
  g_free(fifo);
}

static void test_what_is_missing_is_said(void) {
  clear_folder();
  load_fails("", BP_ERROR_NOT_FOUND, "has no graph (.json)");
  write_bytes("mod.json", network_json, strlen(network_json));
  load_fails("", BP_ERROR_NOT_FOUND, "no library (.so)");
  build("mod.so", artifact_llvm_header, network_cpu_source, NULL);
  load_fails("mod.so", BP_ERROR_TYPE, "belongs a graph (.json)");
  BpModel *model = load("mod.json", CPU0); /* weights without values are inputs */
  if (!model)
    fail();
  g_assert_cmpint(bp_model_num_inputs(model), ==, 2);
  BpModelContext *context = bp_model_context_create(model);
  set_input(context);
  g_assert_cmpint(bp_model_run(context), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "'p0'"));
  g_assert_null(bp_model_get_output(context, 0));
  g_assert_nonnull(strstr(bp_error_message(), "has not been run"));
  bp_model_context_free(context);
  bp_model_release(model);
  write_bytes("second.json", "{}", 2);
  load_fails("", BP_ERROR_VALUE, "several files .json");
  load_fails("second.json", BP_ERROR_FORMAT, "second.json");
  build("mod.so", artifact_llvm_header, "FN(tvmgen_default_fused_add) { return 0; }\n", NULL);
  model = load("mod.json", CPU0);
  g_assert_nonnull(model);
  g_assert_null(bp_model_context_create(model));
  g_assert_nonnull(strstr(bp_error_message(), "'tvmgen_default_fused_multiply'"));
  bp_model_release(model);
}

static void test_wrong_parameters_are_refused(void) {
  static const float numbers[5] = {0};
  const ArtifactParam too_many = {"p0", numbers, 5},
                      twice[] = {{"p0", numbers, 4}, {"p0", numbers, 4}};
  clear_folder();
  write_files("mod", artifact_llvm_header);
  write_params("mod.params", &too_many, 1);
  load_fails("mod.json", BP_ERROR_FORMAT, "parameter 'p0' does not have the type and shape");
  write_params("mod.params", twice, 2);
  load_fails("mod.json", BP_ERROR_FORMAT, "given twice");
  GByteArray *bytes = g_byte_array_new();
  put_params_file(bytes, network_params, G_N_ELEMENTS(network_params));
  for (guint size = 0; size < bytes->len; size++) {
    write_bytes("mod.params", bytes->data, size);
    load_fails("mod.json", BP_ERROR_FORMAT, "mod.params");
  }
  g_byte_array_unref(bytes);
}

/* Replaces a part of the network's JSON, which must then be refused. */
static void refuse_graph(const char *part, const char *instead, const char *text) {
  char **pieces = g_strsplit(network_json, part, 2);
  g_assert_cmpuint(g_strv_length(pieces), ==, 2);
  char *json = g_strjoinv(instead, pieces);
  write_bytes("mod.json", json, strlen(json));
  g_test_message("%s instead of %s", instead, part);
  load_fails("mod.json", BP_ERROR_FORMAT, text);
  g_free(json);
  g_strfreev(pieces);
}

static void test_wrong_graphs_are_refused(void) {
  clear_folder();
  write_files("mod", artifact_llvm_header);
  refuse_graph("[2,0,0]", "[9,0,0]", "'inputs' holds 9");
  refuse_graph("[2,0,0]", "[4,0,0]", "'inputs' holds 4"); /* a cycle */
  refuse_graph("[2,0,0]", "[-1,0,0]", "'inputs' holds -1");
  refuse_graph("\"num_inputs\":\"2\"", "\"num_inputs\":\"3\"", "'num_inputs' of node");
  refuse_graph("\"num_outputs\":\"2\"", "\"num_outputs\":\"1\"", "'num_outputs' of node");
  refuse_graph("\"flatten_data\":\"1\"", "\"flatten_data\":\"yes\"", "'flatten_data' of node");
  refuse_graph("[2,2],[2,2],[]", "[2,3],[2,2],[]", "not as large as the value that it views");
  refuse_graph("[0,1,2,2,3,2,4]", "[0,1,2,2,2,3,4]", "writes into its own input");
  refuse_graph("[0,1,2,2,3,2,4]", "[0,1,0,0,3,2,4]", "writes into an input");
  refuse_graph("[0,1,2,2,3,2,4]", "[0,1,2,2,3,2,9]", "larger than the number of entries");
  refuse_graph("[5,1,0]", "[5,2,0]", "'inputs' holds 2");
  refuse_graph("[0,1,2,3,4,5,7]", "[0,1,2,3,4,7,5]", "decreases");
  refuse_graph("\"arg_nodes\":[0,1]", "\"arg_nodes\":[0,2]", "an operator");
  write_bytes("mod.json", "{\"nodes\"", 8);
  load_fails("mod.json", BP_ERROR_FORMAT, "mod.json");
  char **pieces = g_strsplit(network_json, "\"float32\"", 2);
  char *json = g_strjoinv("\"floating\"", pieces);
  write_bytes("mod.json", json, strlen(json));
  load_fails("mod.json", BP_ERROR_VALUE, "\"floating\" is not a data type");
  g_free(json);
  g_strfreev(pieces);
}

static void test_textures_are_refused(void) {
  clear_folder();
  write_files("mod", artifact_llvm_header);
  char **pieces = g_strsplit(network_json, "\"storage_id\"", 2);
  char *json = g_strjoinv("\"storage_scope\":[\"list_str\",[\"\",\"global\",\"global.texture\"]],"
                          "\"storage_id\"",
                          pieces);
  write_bytes("mod.json", json, strlen(json));
  load_fails("mod.json", BP_ERROR_NOT_IMPLEMENTED, "'global.texture'");
  g_free(json);
  g_strfreev(pieces);
}

/* ---- Packed functions -------------------------------------------------------------------- */

static BpValue call(BpModule *module, const char *name, const BpValue *args, int32_t num_args) {
  BpFunction *function;
  BpValue result = {.type_index = BP_TYPE_NONE};
  if (bp_module_get_function(module, name, 1, &function) || !function)
    g_error("no function %s: %s", name, bp_error_message());
  if (bp_function_call(function, args, num_args, &result))
    fail();
  bp_object_release(function);
  return result;
}

static BpValue int_value(int64_t number) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number};
}

static BpValue str_value(const char *text) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
}

static BpTensor *new_tensor(const int64_t *shape, int32_t ndim, const float *numbers) {
  BpTensor *tensor = bp_tensor_create(shape, ndim, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, CPU0, NULL);
  if (!tensor)
    fail();
  if (numbers)
    memcpy(tensor->view.data, numbers, 4 * sizeof(float));
  return tensor;
}

static void run_executor(BpModule *executor) {
  const int64_t four[] = {4};
  BpTensor *x = new_tensor(four, 1, input);
  const BpValue set[] = {str_value("x"), {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  call(executor, "set_input", set, 2);
  call(executor, "run", NULL, 0);
  const BpValue index = int_value(0);
  BpValue output = call(executor, "get_output", &index, 1);
  const BpTensorView *view = bp_value_view_tensor(&output);
  g_assert_cmpmem(view->data, sizeof doubled, doubled, sizeof doubled);
  bp_value_clear(&output);
  bp_object_release(x);
}

static BpModule *take_module(BpValue value) {
  g_assert_cmpint(value.type_index, ==, BP_TYPE_MODULE);
  return (BpModule *)value.v_obj;
}

static BpModule *open_library(void) {
  clear_folder();
  build("net.so", artifact_llvm_header, network_cpu_source,
        network_blob(network_json, NULL, NULL, "", 0));
  char *path = path_of("net.so");
  BpModule *module = bp_graph_initialize() ? NULL : bp_module_load(path);
  if (!module)
    fail();
  g_free(path);
  return module;
}

static void test_a_library_makes_executors(void) {
  BpModule *library = open_library();
  const BpValue device = {.type_index = BP_TYPE_DEVICE, .v_device = CPU0};
  BpModule *executor = take_module(call(library, NETWORK_NAME, &device, 1));
  g_assert_cmpstr(bp_module_kind(executor), ==, "graph_executor");
  g_assert_cmpint(call(executor, "get_num_inputs", NULL, 0).v_int64, ==, 2);
  g_assert_cmpint(call(executor, "get_num_outputs", NULL, 0).v_int64, ==, 3);
  run_executor(executor);
  /* Another executor shares the parameters of the first. */
  BpModule *bare = take_module(call(library, "remove_params", NULL, 0));
  BpModule *second = take_module(call(bare, NETWORK_NAME, &device, 1));
  BpValue params = call(library, "get_graph_params", NULL, 0);
  const BpValue share[] = {{.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)executor}, params};
  call(second, "share_params", share, 2);
  run_executor(second);
  /* A third executor is made from the library's own function. */
  BpValue json = call(library, "get_graph_json", NULL, 0);
  g_assert_cmpstr(((BpStr *)(void *)json.v_obj)->data, ==, network_json);
  BpModule *code = bp_module_get_import(library, 0);
  BpModule *third = bp_graph_executor_create(network_json, code, &CPU0, 1);
  if (!third)
    fail();
  call(third, "load_params", &params, 1);
  run_executor(third);
  bp_value_clear(&json);
  bp_value_clear(&params);
  bp_object_release(third);
  bp_object_release(second);
  bp_object_release(bare);
  bp_object_release(executor);
  bp_object_release(library);
}

static void test_a_debug_executor_shows_nodes(void) {
  BpModule *library = open_library();
  const BpValue args[] = {str_value(NETWORK_NAME),
                          {.type_index = BP_TYPE_DEVICE, .v_device = CPU0}};
  BpModule *executor = take_module(call(library, "debug_create", args, 2));
  g_assert_cmpstr(bp_module_kind(executor), ==, "graph_executor_debug");
  run_executor(executor);
  BpValue text = call(executor, "profile", NULL, 0);
  const char *profile = ((BpStr *)(void *)text.v_obj)->data;
  const char *first = strstr(profile, "\"tvmgen_default_fused_add\"");
  g_assert_nonnull(first);
  g_assert_nonnull(strstr(first, "\"tvmgen_default_fused_multiply\""));
  g_assert_nonnull(strstr(first, "\"duration_ns\""));
  const int64_t four[] = {4};
  const float sums[] = {2, 4, 6, 8};
  BpTensor *sum = new_tensor(four, 1, NULL);
  for (int by_name = 0; by_name < 2; by_name++) {
    const BpValue probe[] = {by_name ? str_value("tvmgen_default_fused_add") : int_value(2),
                             {.type_index = BP_TYPE_TENSOR, .v_obj = &sum->header}};
    memset(sum->view.data, 0, sizeof sums);
    call(executor, "debug_get_output", probe, 2);
    g_assert_cmpmem(sum->view.data, sizeof sums, sums, sizeof sums);
  }
  BpFunction *function;
  BpValue result;
  const BpValue wrong[][2] = {
      {int_value(9), {.type_index = BP_TYPE_TENSOR, .v_obj = &sum->header}},
      {int_value(0), {.type_index = BP_TYPE_TENSOR, .v_obj = &sum->header}},
      {str_value("nobody"), {.type_index = BP_TYPE_TENSOR, .v_obj = &sum->header}}};
  g_assert_cmpint(bp_module_get_function(executor, "debug_get_output", 0, &function), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
    g_assert_cmpint(bp_function_call(function, wrong[i], 2, &result), ==, -1);
  bp_object_release(function);
  bp_object_release(sum);
  bp_value_clear(&text);
  bp_object_release(executor);
  bp_object_release(library);
}

/* ---- Devices ----------------------------------------------------------------------------- */

static gboolean has_device(BpDevice device) {
  int32_t count = 0;
  if (bp_device_count(device.device_type, &count, NULL) == 0 && count > 0)
    return TRUE;
  bp_error_clear();
  g_test_skip("there is no such device");
  return FALSE;
}

static void test_graph_runs_on_opencl(void) {
  const BpDevice device = {BP_DEVICE_OPENCL, 0};
  const char *const headers[] = {artifact_llvm_header, artifact_c_header};
  if (!has_device(device))
    return;
  char *code = network_device_code("opencl");
  for (size_t i = 0; i < G_N_ELEMENTS(headers); i++) {
    clear_folder();
    build("net.so", headers[i], network_device_source,
          network_blob(network_json, "opencl", "cl", code, strlen(code)));
    load_and_run("net.so", device);
    load_fails("net.so", BP_ERROR_NOT_FOUND, "TVM compiled it for opencl");
  }
  g_free(code);
}

static void test_files_for_opencl(void) {
  const BpDevice device = {BP_DEVICE_OPENCL, 0};
  if (!has_device(device))
    return;
  char *code = network_device_code("opencl");
  clear_folder();
  write_files("mod", artifact_llvm_header);
  build("mod.so", artifact_llvm_header, network_device_source,
        network_blob(NULL, "opencl", "cl", code, strlen(code)));
  load_and_run("", device);
  g_free(code);
}

/* The addition runs on a device; all other nodes, inputs and outputs are on the CPU. */
static void test_graph_runs_on_two_devices(void) {
  const BpDevice device = {BP_DEVICE_OPENCL, 0};
  if (!has_device(device))
    return;
  char *code = network_device_code("opencl");
  char *json = network_json_on_two(BP_DEVICE_OPENCL);
  clear_folder();
  /* The CPU's and the device's functions are called by name, so the device's addition gets another
   * name than the CPU's. */
  char **parts = g_strsplit(network_device_source, "FN(", -1);
  char *both = g_strconcat(network_cpu_source, parts[0], "static FN(add_on_device) {\n",
                           strchr(parts[1], '\n') + 1,
                           "FN(tvmgen_default_fused_add_device) {\n"
                           "  return add_on_device(args, codes, num_args, ret, ret_code, resource);"
                           "\n}\n",
                           NULL);
  build("net.so", artifact_llvm_header, both,
        network_blob(json, "opencl", "cl", code, strlen(code)));
  BpModel *model = load("net.so", device);
  if (!model)
    fail();
  run_model(model, 0);
  BpModelContext *context = bp_model_context_create(model);
  if (!context)
    fail();
  set_input(context);
  BpTensor *output = bp_model_run(context) ? NULL : bp_model_get_output(context, 0);
  if (!output)
    fail();
  g_assert_cmpint(output->view.device.device_type, ==, BP_DEVICE_CPU);
  bp_model_context_free(context);
  bp_model_release(model);
  g_strfreev(parts);
  g_free(both);
  g_free(json);
  g_free(code);
}

#define DECLARE(name, parameters) nvrtcResult name parameters;
BP_NVRTC_FUNCTIONS(DECLARE)

static char *simulated(const char *name) {
  return g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs", name, NULL);
}

static void run_cuda(const char *format, const char *code, size_t size) {
  clear_folder();
  build("net.so", artifact_llvm_header, network_device_source,
        network_blob(network_json, "cuda", format, code, size));
  load_and_run("net.so", (BpDevice){BP_DEVICE_CUDA, 0});
}

/* PTX or a cubin, depending on the compiler. */
static char *compile_cuda(const char *source, const char *arch, const char *what, size_t *size) {
  char *path = simulated("fakenvrtc.so");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  g_assert_nonnull(library);
#define FIND(name) __typeof__(&(name)) name##_ = (__typeof__(&(name)))dlsym(library, #name)
  FIND(nvrtcCreateProgram);
  FIND(nvrtcCompileProgram);
  FIND(nvrtcDestroyProgram);
  FIND(nvrtcGetPTXSize);
  FIND(nvrtcGetPTX);
  FIND(nvrtcGetCUBINSize);
  FIND(nvrtcGetCUBIN);
#undef FIND
  nvrtcProgram program;
  int is_ptx = !strcmp(what, "ptx");
  g_assert_cmpint(nvrtcCreateProgram_(&program, source, "net.cu", 0, NULL, NULL), ==, 0);
  g_assert_cmpint(nvrtcCompileProgram_(program, 1, &arch), ==, 0);
  g_assert_cmpint((is_ptx ? nvrtcGetPTXSize_ : nvrtcGetCUBINSize_)(program, size), ==, 0);
  char *code = g_malloc(*size);
  g_assert_cmpint((is_ptx ? nvrtcGetPTX_ : nvrtcGetCUBIN_)(program, code), ==, 0);
  nvrtcDestroyProgram_(&program);
  dlclose(library);
  g_free(path);
  return code;
}

static void test_cuda_code_runs_in_each_format(void) {
  char *source = network_device_code("cuda");
  size_t size;
  if (!has_device((BpDevice){BP_DEVICE_CUDA, 0})) {
    g_free(source);
    return;
  }
  run_cuda("cuda", source, strlen(source));
  char *ptx = compile_cuda(source, "--gpu-architecture=compute_90", "ptx", &size);
  run_cuda("ptx", ptx, size);
  char *cubin = compile_cuda(source, "--gpu-architecture=sm_90", "cubin", &size);
  run_cuda("cubin", cubin, size);
  g_free(source);
  g_free(ptx);
  g_free(cubin);
}

static void use_simulation(void) {
  char *driver = simulated("fakecuda.so"), *compiler = simulated("fakenvrtc.so");
  g_setenv("BACKPLANE_CUDA_LIBRARY", driver, TRUE);
  g_setenv("BACKPLANE_NVRTC_LIBRARY", compiler, TRUE);
  g_free(driver);
  g_free(compiler);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  use_simulation();
  folder = artifact_folder();
  g_test_add_func("/tvm/graph/one-library-has-the-whole-network",
                  test_one_library_has_the_whole_network);
  g_test_add_func("/tvm/graph/a-library-of-tvm-0.7-is-the-same",
                  test_a_library_of_tvm_0_7_is_the_same);
  g_test_add_func("/tvm/graph/parameters-are-linked-into-the-code",
                  test_parameters_are_linked_into_the_code);
  g_test_add_func("/tvm/graph/linked-parameters-have-an-address",
                  test_linked_parameters_have_an_address);
  g_test_add_func("/tvm/graph/files-are-found-beside-the-graph",
                  test_files_are_found_beside_the_graph);
  g_test_add_func("/tvm/graph/nodes-of-one-name-are-dumped-apart",
                  test_nodes_of_one_name_are_dumped_apart);
  g_test_add_func("/tvm/graph/what-is-no-file-is-said", test_what_is_no_file_is_said);
  g_test_add_func("/tvm/graph/what-is-missing-is-said", test_what_is_missing_is_said);
  g_test_add_func("/tvm/graph/wrong-parameters-are-refused", test_wrong_parameters_are_refused);
  g_test_add_func("/tvm/graph/wrong-graphs-are-refused", test_wrong_graphs_are_refused);
  g_test_add_func("/tvm/graph/textures-are-refused", test_textures_are_refused);
  g_test_add_func("/tvm/graph/a-library-makes-executors", test_a_library_makes_executors);
  g_test_add_func("/tvm/graph/a-debug-executor-shows-nodes", test_a_debug_executor_shows_nodes);
  g_test_add_func("/tvm/graph/graph-runs-on-opencl", test_graph_runs_on_opencl);
  g_test_add_func("/tvm/graph/files-for-opencl", test_files_for_opencl);
  g_test_add_func("/tvm/graph/graph-runs-on-two-devices", test_graph_runs_on_two_devices);
  g_test_add_func("/tvm/graph/cuda-code-runs-in-each-format", test_cuda_code_runs_in_each_format);
  int status = g_test_run();
  remove_artifact_folder(folder);
  return status;
}
