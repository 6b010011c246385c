/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the libraries and the plugins beside it, kept as it is. It prints a line of
 * TAP for each part. Its argument is a folder that it may write to. */
#include <backplane/backplane.h>
#include <backplane/compiler/ir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* y = Relu(Add(x, {1, 1, -3, 0.5})), of four float32. */
static const unsigned char model[] = {
    8,   8,   18,  6,   102, 114, 111, 122, 101, 110, 58, 110, 10,  19,  10,  1,  120, 10,  1,
    119, 18,  1,   115, 26,  3,   97,  100, 100, 34,  3,  65,  100, 100, 10,  18, 10,  1,   115,
    18,  1,   121, 26,  4,   114, 101, 108, 117, 34,  4,  82,  101, 108, 117, 18, 6,   102, 114,
    111, 122, 101, 110, 42,  25,  8,   4,   16,  1,   66, 1,   119, 74,  16,  0,  0,   128, 63,
    0,   0,   128, 63,  0,   0,   64,  192, 0,   0,   0,  63,  90,  15,  10,  1,  120, 18,  10,
    10,  8,   8,   1,   18,  4,   10,  2,   8,   4,   98, 15,  10,  1,   121, 18, 10,  10,  8,
    8,   1,   18,  4,   10,  2,   8,   4,   66,  4,   10, 0,   16,  17};

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

static int fails(const char *what) {
  printf("# %s: %s: %s\n", what, bp_error_kind(), bp_error_message());
  return -1;
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return fails(#condition);                                                                    \
  } while (0)

static BpTensor *make_tensor(BpDevice device, const float *values, int64_t count) {
  const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};
  BpTensor *tensor = bp_tensor_create(&count, 1, float32, device, NULL);
  if (tensor && values && bp_tensor_copy_from_host(&tensor->view, values, (uint64_t)count * 4)) {
    bp_tensor_release(tensor);
    return NULL;
  }
  return tensor;
}

static int check_device(const char *folder) {
  const float sent[4] = {1, 2, 3, 4};
  float got[4] = {0};
  BpDevice device;
  BpEvent *event;
  int32_t state = BP_EVENT_PENDING;
  (void)folder;
  CHECK(bp_device_parse("frozen-device", &device) == 0);
  BpTensor *here = make_tensor(device, sent, 4), *there = make_tensor(device, NULL, 4);
  CHECK(here && there);
  CHECK(bp_tensor_copy(&here->view, &there->view, NULL) == 0);
  CHECK((event = bp_event_create(device)) != NULL);
  CHECK(bp_event_record(event, NULL) == 0);
  CHECK(bp_event_synchronize(event, BP_WAIT_FOREVER, &state) == 0 && state == BP_EVENT_COMPLETE);
  bp_event_free(event);
  CHECK(bp_tensor_copy_to_host(&there->view, got, sizeof got) == 0);
  CHECK(memcmp(got, sent, sizeof got) == 0);
  const BpAllocation attic = {sizeof attic, 16, 64, {BP_DTYPE_INT, 8, 1}, 0, "attic"};
  void *handle;
  CHECK(bp_device_alloc(device, &attic, &handle) == -1 && bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  bp_tensor_release(here);
  bp_tensor_release(there);
  return 0;
}

static int add(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  if (num_args != 1)
    return bp_error_raise(BP_ERROR_TYPE, "add takes one integer");
  result->type_index = BP_TYPE_INT;
  result->v_int64 = args[0].v_int64 + *(const int64_t *)((BpClosure *)self)->context;
  return 0;
}

static int check_functions(const char *folder) {
  static int64_t addend = 40;
  BpValue arg = {.type_index = BP_TYPE_INT, .v_int64 = 2}, result;
  BpFunction *made = bp_function_create(add, &addend, NULL), *found;
  (void)folder;
  CHECK(made && bp_registry_set("frozen.add", made, 0) == 0);
  bp_function_release(made);
  CHECK(bp_registry_get("frozen.add", &found) == 0 && found);
  CHECK(bp_function_call(found, &arg, 1, &result) == 0 && result.v_int64 == 42);
  CHECK(bp_function_call(found, &arg, 0, &result) == -1 && bp_error_is(BP_ERROR_TYPE));
  bp_error_clear();
  bp_function_release(found);
  return bp_registry_remove("frozen.add");
}

static const char serial_text[] =
    "(module (function \"f\" (buffer A float32 global 16) (buffer B float32 global 16)"
    " (attr \"noalias\" 1) (for i:int64 0 16 serial (store B i"
    " (select (gt (load A i) 4.0:float32) (mul (load A i) 2.0:float32) (load A i))))))";
static const char kernel_text[] =
    "(module (function \"f\" (buffer A float32 global 16) (buffer B float32 global 16)"
    " (attr \"noalias\" 1) (attr \"kernel\" 1) (attr \"launch\" \"blockIdx.x\" 2)"
    " (attr \"launch\" \"threadIdx.x\" 8) (for b:int64 0 2 bound \"blockIdx.x\""
    " (for t:int64 0 8 bound \"threadIdx.x\" (store B (add (mul b 8) t)"
    " (load A (add (mul b 8) t)))))))";

static BpModule *build(const char *text, const char *kind) {
  BpTarget *target = bp_target_parse(kind);
  BpIrModule *ir = bp_ir_parse(text, strlen(text));
  BpModule *module = target && ir && bp_ir_verify(ir) == 0 ? bp_target_build(ir, target) : NULL;
  bp_target_release(target);
  bp_object_release(ir);
  return module;
}

static int check_generator(const char *kind) {
  float from[16], to[16] = {0};
  int64_t extent = 16;
  BpTensorView views[2] = {{from, cpu, 1, {BP_DTYPE_FLOAT, 32, 1}, &extent, NULL, 0},
                           {to, cpu, 1, {BP_DTYPE_FLOAT, 32, 1}, &extent, NULL, 0}};
  const BpValue args[2] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[0]},
                           {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[1]}};
  BpFunction *function;
  BpValue result;
  BpModule *module = build(serial_text, kind);
  CHECK(module && bp_module_get_function(module, "f", 1, &function) == 0 && function);
  for (int i = 0; i < 16; i++)
    from[i] = (float)i;
  CHECK(bp_function_call(function, args, 2, &result) == 0);
  for (int i = 0; i < 16; i++)
    CHECK(to[i] == (float)(i > 4 ? 2 * i : i));
  bp_function_release(function);
  bp_module_release(module);
  return 0;
}

static int check_walk(const char *folder) {
  (void)folder;
  return check_generator("frozen-walk");
}

static int check_emitter(const char *folder) {
  (void)folder;
  return check_generator("frozen-c");
}

static int check_dialects(const char *folder) {
  static const char *const words[3][2] = {
      {"opencl", "__kernel"}, {"cuda", "__global__"}, {"glsl", "#version"}};
  (void)folder;
  BpModule *module = build(kernel_text, "frozen-text");
  CHECK(module);
  for (int i = 0; i < 3; i++) {
    BpOwnedBytes source;
    CHECK(bp_module_get_source(module, words[i][0], &source) == 0);
    CHECK(strstr(source.data, words[i][1]));
    bp_owned_bytes_clear(&source);
  }
  bp_module_release(module);
  return 0;
}

static int run_model(const char *path) {
  const float x[4] = {1, -2, 3, 4}, expected[4] = {2, 0, 0, 4.5F};
  float y[4];
  BpModel *loaded = bp_model_load(path, &cpu, 1);
  BpModelContext *context = loaded ? bp_model_context_create(loaded) : NULL;
  BpTensor *input = make_tensor(cpu, x, 4), *output;
  CHECK(context && input);
  CHECK(strcmp(bp_model_input_info(loaded, 0)->name, "x") == 0);
  CHECK(bp_model_set_input(context, "x", &input->view) == 0 && bp_model_run(context) == 0);
  CHECK((output = bp_model_get_output(context, 0)) != NULL);
  CHECK(bp_tensor_copy_to_host(&output->view, y, sizeof y) == 0);
  CHECK(memcmp(y, expected, sizeof y) == 0);
  bp_tensor_release(input);
  bp_model_context_free(context);
  bp_model_release(loaded);
  return 0;
}

static int compile_and_run(const char *folder, const char *const *compilers, int32_t count) {
  char onnx[4096], library[4096];
  snprintf(onnx, sizeof onnx, "%s/model.onnx", folder);
  snprintf(library, sizeof library, "%s/model.so", folder);
  FILE *file = fopen(onnx, "wb");
  CHECK(file && fwrite(model, sizeof model, 1, file) == 1 && fclose(file) == 0);
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[1] = {target};
  const BpCompileOptions options = {.struct_size = sizeof options,
                                    .targets = targets,
                                    .num_targets = 1,
                                    .graph_compilers = compilers,
                                    .num_graph_compilers = count,
                                    .least_claimed = count ? 1 : 0};
  BpModule *module = target ? bp_model_compile(onnx, &options) : NULL;
  CHECK(module && bp_module_export_library(module, library) == 0);
  bp_module_release(module);
  bp_target_release(target);
  return run_model(library);
}

static int check_model(const char *folder) {
  return compile_and_run(folder, NULL, 0);
}

static int check_graph_compiler(const char *folder) {
  static const char *const compilers[] = {"frozen"};
  return compile_and_run(folder, compilers, 1);
}

/* The layer has seen the allocations of check_device. */
static int check_layer(const char *folder) {
  BpFunction *count;
  BpValue result;
  (void)folder;
  CHECK(bp_registry_get("frozen-layer.count", &count) == 0 && count);
  CHECK(bp_function_call(count, NULL, 0, &result) == 0 && result.v_int64 >= 2);
  bp_function_release(count);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(const char *folder);
  } parts[] = {{"device", check_device},
               {"functions", check_functions},
               {"generator_by_a_walk", check_walk},
               {"generator_by_the_emitter", check_emitter},
               {"dialects", check_dialects},
               {"model", check_model},
               {"graph_compiler", check_graph_compiler},
               {"layer", check_layer}};
  int failed = argc != 2;
  for (size_t i = 0; !failed && i < sizeof parts / sizeof *parts; i++) {
    int rc = parts[i].run(argv[1]);
    printf("%s %zu - %s\n", rc ? "not ok" : "ok", i + 1, parts[i].name);
    failed |= rc != 0;
  }
  return failed;
}
