/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: graphs as JSON. The reader returns an executor or an error, and an executor runs
 * inside the memory that it planned: its functions touch every byte of their arguments. */

#include <stdlib.h>
#include <string.h>

#include <backplane/graph/executor.h>

#include "tests/bare_device.h"
#include "tests/fuzz/fuzz.h"

#define INPUT(name) "{\"op\":\"null\",\"name\":\"" name "\",\"inputs\":[]}"
#define CALL(name, function, inputs)                                                               \
  "{\"op\":\"tvm_op\",\"name\":\"" name "\",\"attrs\":{\"func_name\":\"" function                  \
  "\"},\"inputs\":[" inputs "]}"
#define SHARED                                                                                     \
  "\"node_row_ptr\":[0,1,2,3,4,5],\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\","   \
  "\"float32\",\"int8\",\"int8\"]],\"shape\":[\"list_shape\",[[4],[4],[4],[4,2],[8]]],"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(
        "{\"nodes\":[" INPUT("x") "," INPUT("w") "," CALL("a", "f", "[0,0,0],[1,0,0]") "," CALL(
            "b", "f",
            "[2,0,0]") "," CALL("v", "__nop",
                                "[3,0,0]") "],"
                                           "\"arg_nodes\":[0,1],\"heads\":[[4,0,0]]," SHARED
                                           "\"output_names\":[\"list_str\",[\"y\"]],"
                                           "\"storage_id\":[\"list_int\",[0,1,2,3,3]]}}"),
    FUZZ_TEXT("{\"nodes\":[" INPUT("x") "," CALL("a", "f", "[0,0,0]") "," CALL(
        "b", "f", "[1,0,0]") "," CALL("c", "f",
                                      "[2,0,0]") "," CALL("d", "f",
                                                          "[3,0,0]") "],"
                                                                     "\"arg_nodes\":[0],\"heads\":["
                                                                     "[4,0,0]]," SHARED
                                                                     "\"storage_id\":[\"list_int\","
                                                                     "[0,1,2,1,2]]}}"),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("["),
    FUZZ_TEXT("]"),
    FUZZ_TEXT("{"),
    FUZZ_TEXT("}"),
    FUZZ_TEXT(","),
    FUZZ_TEXT("\""),
    FUZZ_TEXT("0"),
    FUZZ_TEXT("9"),
    FUZZ_TEXT("-1"),
    FUZZ_TEXT("[4,0,0]"),
    FUZZ_TEXT("1e9"),
    FUZZ_TEXT("9223372036854775807"),
    FUZZ_TEXT("null"),
    FUZZ_TEXT("\"int4\""),
    FUZZ_TEXT("\"bool\""),
    FUZZ_TEXT("\"float32x4\""),
    FUZZ_TEXT("\\u0000"),
    FUZZ_TEXT("\\ud800"),
    FUZZ_TEXT("\xff"),
    FUZZ_TEXT("\"__nop\""),
    FUZZ_TEXT("[2,1,0],"),
    FUZZ_TEXT("\"tvm_op\""),
    FUZZ_TEXT(",\"flatten_data\":\"1\""),
    FUZZ_TEXT("\"__copy\""),
    FUZZ_TEXT(",\"num_inputs\":\"1\""),
    FUZZ_TEXT("\"device_index\":[\"list_int\",[1,1,1,1,1]],"),
    FUZZ_TEXT("// \"\n"),
    FUZZ_TEXT("/* \" */"),
    FUZZ_TEXT("[[[[[[[[[[[[[[[["),
    FUZZ_TEXT("{\"a\":{\"a\":{\"a\":{\"a\":"),
    FUZZ_TEXT("\"shape\":[\"list_shape\",[]],"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* ---- A device with little memory, since graphs may request any amount -------------------- */

#define LITTLE 65536

static int32_t alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle) {
  return allocation->size > LITTLE ? bp_error_raise(BP_ERROR_MEMORY, "more than the device has")
                                   : bare_host_alloc(context, device_id, allocation, handle);
}

static const BpDeviceApi little_api = {.struct_size = sizeof little_api,
                                       .device_type = 61440 + 99,
                                       .name = "little",
                                       .get_device_count = bare_count,
                                       .get_attr = bare_attr,
                                       .alloc_data_space = alloc,
                                       .free_data_space = bare_host_free,
                                       .copy = bare_host_copy,
                                       .stream_sync = bare_nothing};

/* ---- Code -------------------------------------------------------------------------------- */

/* Writes and reads all bytes of all arguments. */
static int touch(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  for (int32_t i = 0; i < num_args; i++) {
    char *data = args[i].v_view->data;
    int64_t bytes = bp_view_num_bytes(args[i].v_view);
    for (int64_t at = 0; at < bytes; at++)
      data[at]++;
  }
  return 0;
}

static int get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  *function = strcmp(name, "f") ? NULL : bp_function_create(touch, NULL, NULL);
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static const BpModuleApi code_api = {.struct_size = sizeof code_api,
                                     .kind = "touch",
                                     .get_function = get_function,
                                     .destroy = destroy};

static BpModule *code;
static BpDevice device;

static void begin(void) {
  code = bp_module_create(&code_api, NULL);
  if (!code || bare_register("device_api.little", &little_api) ||
      bp_device_parse("little:0", &device))
    abort();
}

/* ---- The target -------------------------------------------------------------------------- */

static int call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  if (bp_module_get_function(module, name, 0, &function) || !function)
    abort();
  int rc = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return rc;
}

/* Sets each input to the memory that it already has. */
static void set_inputs(BpModule *executor) {
  BpValue count, result;
  if (call(executor, "get_num_inputs", NULL, 0, &count))
    abort();
  for (int64_t i = 0; i < count.v_int64; i++) {
    BpValue args[2] = {{.type_index = BP_TYPE_INT, .v_int64 = i}};
    if (call(executor, "get_input", args, 1, &args[1]) ||
        call(executor, "set_input", args, 2, &result))
      abort();
    bp_value_clear(&args[1]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  BpValue result;
  if (!code)
    begin();
  char *json = size ? strndup((const char *)data, size) : strdup("");
  BpModule *executor = bp_graph_executor_create(json, code, &device, 1);
  if (!executor && !*bp_error_message())
    abort();
  if (executor) {
    set_inputs(executor);
    if (call(executor, "run", NULL, 0, &result))
      abort();
  }
  bp_object_release(executor);
  bp_error_clear();
  free(json);
  return 0;
}
