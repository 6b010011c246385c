/* SPDX-License-Identifier: Apache-2.0 */
/* Relax executables: reading and refusing them, and how a machine runs a model. tests/tvm runs
 * executables that TVM compiled. */

#include <string.h>

#include <glib.h>
#include <glib/gstdio.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/npy.h>
#include <backplane/graph/relax.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#define MAGIC   0xD225DE2F4214151Eull
#define KIND    "relax.VMExecutable"
#define MACHINE ((INT64_C(1) << 54) + 1)
#define VOID    (INT64_C(1) << 54)
#define NUM(n)  ((INT64_C(1) << 56) | (n))
#define FUN(n)  ((INT64_C(3) << 56) | (n))

enum { CALL = 1, RET, GOTO, IF };

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

/* ---- Making executables ------------------------------------------------------------------ */

typedef struct Words {
  const int64_t *words;
  size_t count;
} Words;
#define WORDS(...)                                                                                 \
  (Words) {                                                                                        \
    (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)             \
  }

static void put(GByteArray *bytes, const void *data, size_t size) {
  g_byte_array_append(bytes, data, (guint)size);
}

static void put_number(GByteArray *bytes, int64_t number) {
  put(bytes, &number, sizeof number);
}

static void put_text(GByteArray *bytes, const char *text) {
  put_number(bytes, (int64_t)strlen(text));
  put(bytes, text, strlen(text));
}

static void put_packed(GByteArray *bytes, const char *name) {
  const int32_t kind = 0;
  put(bytes, &kind, sizeof kind);
  put_text(bytes, name);
  for (int i = 0; i < 5; i++)
    put_number(bytes, i == 2 ? -2 : 0);
}

/* Makes an executable with function 0, "forward", of `num_args` parameters p and 4 more registers,
 * and with packed functions 1 and up. */
static GByteArray *make_executable(const char *version, int64_t num_args, const char *const *packed,
                                   size_t num_packed, const Words *code, size_t length) {
  GByteArray *bytes = g_byte_array_new();
  const int32_t kind = 1;
  int64_t at = 0;
  put_number(bytes, (int64_t)MAGIC);
  put_text(bytes, version);
  put_number(bytes, 1 + (int64_t)num_packed);
  put(bytes, &kind, sizeof kind);
  put_text(bytes, "forward");
  put_number(bytes, 0);
  put_number(bytes, (int64_t)length);
  put_number(bytes, num_args);
  put_number(bytes, num_args + 4);
  put_number(bytes, num_args);
  for (int64_t i = 0; i < num_args; i++)
    put_text(bytes, "p");
  for (size_t i = 0; i < num_packed; i++)
    put_packed(bytes, packed[i]);
  put_number(bytes, 0);
  put_number(bytes, 0);
  put_number(bytes, (int64_t)length);
  for (size_t i = 0; i < length; at += (int64_t)code[i++].count)
    put_number(bytes, at);
  put_number(bytes, at);
  for (size_t i = 0; i < length; i++)
    put(bytes, code[i].words, code[i].count * sizeof(int64_t));
  return bytes;
}

static BpModule *load(GByteArray *bytes) {
  const BpByteArray view = {(const char *)bytes->data, bytes->len};
  BpModule *module = bp_module_load_from_bytes(KIND, &view);
  g_byte_array_unref(bytes);
  return module;
}

static BpModule *load_machine(GByteArray *bytes) {
  BpModule *module = load(bytes), *machine = module ? bp_relax_machine_create(module, cpu) : NULL;
  if (!machine)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  return machine;
}

static int call(BpModule *machine, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(machine, name, 0, &function), ==, 0);
  g_assert_nonnull(function);
  int status = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return status;
}

static BpValue number(int64_t value) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = value};
}

static BpValue text(const char *value) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = value};
}

static void assert_error(const char *kind, const char *part) {
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not say \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

/* forward(p) returns its argument. */
static GByteArray *identity(const char *version) {
  return make_executable(version, 1, NULL, 0, (const Words[]){WORDS(RET, 0)}, 1);
}

/* ---- Reading ----------------------------------------------------------------------------- */

static void test_another_version_is_refused(void) {
  g_assert_null(load(identity("0.99")));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "\"0.99\"");
}

static void test_truncated_executable_is_an_error(void) {
  GByteArray *whole = identity("0.14");
  for (guint size = 0; size < whole->len; size++) {
    const BpByteArray view = {(const char *)whole->data, size};
    g_assert_null(bp_module_load_from_bytes(KIND, &view));
    g_assert_cmpstr(bp_error_kind(), !=, "");
    bp_error_clear();
  }
  g_byte_array_unref(whole);
}

static void refuse(const Words *code, size_t length, const char *part) {
  static const char *const packed[] = {"vm.builtin.make_tuple"};
  g_assert_null(load(make_executable("0.14", 1, packed, 1, code, length)));
  assert_error(BP_ERROR_FORMAT, part);
}

static void test_wild_indices_are_errors(void) {
  refuse((const Words[]){WORDS(RET, 5)}, 1, "register");
  refuse((const Words[]){WORDS(RET, -1)}, 1, "register");
  refuse((const Words[]){WORDS(CALL, 9, 1, 0), WORDS(RET, 0)}, 2, "register");
  refuse((const Words[]){WORDS(CALL, 1, 2, 0), WORDS(RET, 0)}, 2, "function");
  refuse((const Words[]){WORDS(CALL, 1, 1, 1, INT64_C(2) << 56), WORDS(RET, 0)}, 2, "argument");
  refuse((const Words[]){WORDS(CALL, 1, 1, 1, FUN(2)), WORDS(RET, 0)}, 2, "argument");
  refuse((const Words[]){WORDS(CALL, 1, 1, 1, INT64_C(4) << 56), WORDS(RET, 0)}, 2, "argument");
  refuse((const Words[]){WORDS(CALL, 1, 1, 7, 0), WORDS(RET, 0)}, 2, "cut off");
  refuse((const Words[]){WORDS(CALL, 1, 1, 0)}, 1, "return");
  refuse((const Words[]){WORDS(GOTO, 2), WORDS(RET, 0)}, 2, "jumps");
  refuse((const Words[]){WORDS(GOTO, 0), WORDS(RET, 0)}, 2, "jumps");
  refuse((const Words[]){WORDS(GOTO, -1), WORDS(RET, 0)}, 2, "jumps");
  refuse((const Words[]){WORDS(IF, 0, -1), WORDS(RET, 0)}, 2, "jumps");
  refuse((const Words[]){WORDS(7, 0), WORDS(RET, 0)}, 2, "unknown instruction");
}

/* Two functions that share one long call have more arguments than there are words. */
static void test_shared_code_is_an_error(void) {
  enum { NUM_ARGS = 1000, NUM_WORDS = 4 + NUM_ARGS + 2 + 2 };
  GByteArray *bytes = g_byte_array_new();
  const int32_t kind = 1;
  put_number(bytes, (int64_t)MAGIC);
  put_text(bytes, "0.14");
  put_number(bytes, 3);
  for (int i = 0; i < 2; i++) {
    put(bytes, &kind, sizeof kind);
    put_text(bytes, i ? "other" : "forward");
    for (int k = 0; k < 5; k++)
      put_number(bytes, (const int64_t[]){0, 2, 1, 2, 0}[k]);
  }
  put_packed(bytes, "vm.builtin.make_tuple");
  /* The numbers of scopes, of constants and of instructions, and where each instruction begins. */
  for (int i = 0; i < 7; i++)
    put_number(bytes,
               (const int64_t[]){0, 0, 4, 0, NUM_WORDS - 4, NUM_WORDS - 2, NUM_WORDS - 1}[i]);
  put_number(bytes, NUM_WORDS);
  for (int i = 0; i < 4; i++)
    put_number(bytes, (const int64_t[]){CALL, 1, 2, NUM_ARGS}[i]);
  for (int i = 0; i < NUM_ARGS; i++)
    put_number(bytes, NUM(7));
  for (int i = 0; i < 4; i++)
    put_number(bytes, (const int64_t[]){RET, 1, RET, RET}[i]);
  g_assert_null(load(bytes));
  assert_error(BP_ERROR_FORMAT, "shares code");
}

static void test_unknown_builtins_are_all_named(void) {
  static const char *const packed[] = {"vm.builtin.make_tuple", "vm.builtin.brand_new",
                                       "vm.builtin.other_new"};
  g_assert_null(load(
      make_executable("0.14", 1, packed, G_N_ELEMENTS(packed), (const Words[]){WORDS(RET, 0)}, 1)));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "vm.builtin.brand_new, vm.builtin.other_new");
}

static int find_nothing(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static void destroy_nothing(void *context) {
  (void)context;
}

static const BpModuleApi other_api = {.struct_size = sizeof(BpModuleApi),
                                      .kind = "other_json",
                                      .get_function = find_nothing,
                                      .destroy = destroy_nothing};

static void test_missing_function_is_named(void) {
  static const char *const packed[] = {"no.such.function"};
  BpModule *module = load(make_executable("0.14", 1, packed, 1, (const Words[]){WORDS(RET, 0)}, 1));
  g_assert_nonnull(module);
  g_assert_null(bp_relax_machine_create(module, cpu));
  assert_error(BP_ERROR_NOT_FOUND, "no.such.function");
  /* Code of an external code generator in the library may have had the function. */
  for (int i = 0; i < 2; i++) {
    BpModule *other = bp_module_create(&other_api, NULL);
    g_assert_cmpint(bp_module_import(module, other), ==, 0);
    bp_object_release(other);
  }
  g_assert_null(bp_relax_machine_create(module, cpu));
  assert_error(BP_ERROR_NOT_FOUND, "modules of kind other_json; install");
  bp_object_release(module);
}

static void test_a_device_without_code_is_refused(void) {
  BpModule *module = load(identity("0.14"));
  g_assert_null(bp_relax_machine_create(module, (BpDevice){BP_DEVICE_OPENCL, 0}));
  assert_error(BP_ERROR_NOT_FOUND, "no code for opencl:0; TVM compiled it for cpu");
  bp_object_release(module);
}

static void test_functions_of_an_executable_need_a_machine(void) {
  BpModule *module = load(identity("0.14"));
  BpFunction *function;
  size_t count;
  char **names = bp_module_list_functions(module, &count);
  g_assert_cmpuint(count, ==, 2);
  g_assert_cmpstr(names[0], ==, "forward");
  g_assert_cmpstr(names[1], ==, "vm_load_executable");
  bp_names_free(names);
  g_assert_cmpint(bp_module_get_function(module, "forward", 1, &function), ==, -1);
  assert_error(BP_ERROR_VALUE, "through a machine");
  bp_object_release(module);
}

static void test_saved_bytes_make_the_executable_again(void) {
  BpModule *module = load(identity("0.14"));
  BpOwnedBytes bytes;
  g_assert_cmpint(bp_module_save_to_bytes(module, &bytes), ==, 0);
  const BpByteArray view = {bytes.data, bytes.size};
  BpModule *again = bp_module_load_from_bytes(KIND, &view);
  g_assert_nonnull(again);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(again);
  bp_object_release(module);
}

/* ---- Running ----------------------------------------------------------------------------- */

static void test_wrong_number_of_arguments_is_an_error(void) {
  BpModule *machine = load_machine(identity("0.14"));
  BpValue args[] = {number(1), number(2)}, result;
  g_assert_cmpint(call(machine, "forward", args, 2, &result), ==, -1);
  assert_error(BP_ERROR_TYPE, "1 argument (p)");
  bp_object_release(machine);
}

static void test_condition_chooses(void) {
  static const char *const packed[] = {"vm.builtin.read_if_cond", "vm.builtin.copy"};
  const Words code[] = {WORDS(CALL, 1, 1, 1, 0),       WORDS(IF, 1, 3),
                        WORDS(CALL, 2, 2, 1, NUM(11)), WORDS(GOTO, 2),
                        WORDS(CALL, 2, 2, 1, NUM(22)), WORDS(RET, 2)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 2, code, G_N_ELEMENTS(code)));
  for (int64_t flag = 0; flag < 2; flag++) {
    BpValue argument = number(flag), result;
    g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, 0);
    g_assert_cmpint(result.v_int64, ==, flag ? 11 : 22);
  }
  bp_object_release(machine);
}

static void test_endless_recursion_is_an_error(void) {
  const Words code[] = {WORDS(CALL, 1, 0, 1, 0), WORDS(RET, 1)};
  BpModule *machine = load_machine(make_executable("0.14", 1, NULL, 0, code, 2));
  BpValue argument = number(1), result;
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "nested");
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "nested");
  bp_object_release(machine);
}

/* The code that TVM's compiler makes for a loop. */
static void test_recursion_is_cancelled(void) {
  const Words code[] = {WORDS(CALL, 1, 0, 1, 0), WORDS(RET, 1)};
  const int64_t extent = 1;
  BpModule *executable = load(make_executable("0.14", 1, NULL, 0, code, 2));
  BpModel *model = bp_model_create(executable, &cpu, 1);
  BpModelContext *context = bp_model_context_create(model);
  BpTensor *argument = bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_INT, 64, 1}, cpu, NULL);
  g_assert_cmpint(bp_model_bind_input(context, "p", argument), ==, 0);
  g_assert_cmpint(bp_model_cancel(context), ==, 0);
  g_assert_cmpint(bp_model_run(context), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "bp_model_cancel");
  g_assert_cmpint(bp_model_run(context), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "nested");
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(argument);
  bp_object_release(executable);
}

static void test_shape_heap_is_bounded(void) {
  static const char *const packed[] = {"vm.builtin.alloc_shape_heap", "vm.builtin.make_shape"};
  const Words code[] = {WORDS(CALL, 1, 1, 2, MACHINE, NUM(2)),
                        WORDS(CALL, 2, 2, 4, 1, NUM(1), NUM(1), NUM(2)), WORDS(RET, 2)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 2, code, 3));
  BpValue argument = number(1), result;
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_INDEX, "cell 2");
  bp_object_release(machine);
}

static int read_shape(BpTensor *tensor, BpValue *shape) {
  static const char *const packed[] = {"vm.builtin.tensor_to_shape"};
  const Words code[] = {WORDS(CALL, 1, 1, 1, 0), WORDS(RET, 1)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 1, code, 2));
  BpValue argument = {.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  int status = call(machine, "forward", &argument, 1, shape);
  bp_object_release(machine);
  return status;
}

static void test_shapes_are_read_from_tensors(void) {
  const uint8_t bytes[] = {200, 3};
  const int16_t halves[] = {300, -1};
  int64_t two = 2, none = 0;
  BpValue shape;
  BpTensorView view = {.data = (void *)(uintptr_t)bytes,
                       .device = cpu,
                       .ndim = 1,
                       .dtype = {BP_DTYPE_UINT, 8, 1},
                       .shape = &two};
  for (int is_signed = 0; is_signed < 2; is_signed++) {
    if (is_signed) {
      view.data = (void *)(uintptr_t)halves;
      view.dtype = (BpDataType){BP_DTYPE_INT, 16, 1};
    }
    BpTensor *tensor = bp_tensor_wrap(&view, NULL, NULL);
    g_assert_cmpint(read_shape(tensor, &shape), ==, 0);
    g_assert_cmpint(shape.type_index, ==, BP_TYPE_SHAPE);
    g_assert_cmpint(((const BpShape *)shape.v_obj)->data[0], ==, is_signed ? 300 : 200);
    g_assert_cmpint(((const BpShape *)shape.v_obj)->data[1], ==, is_signed ? -1 : 3);
    bp_value_clear(&shape);
    bp_object_release(tensor);
  }
  view.strides = &none; /* one element that claims to be two */
  BpTensor *tensor = bp_tensor_wrap(&view, NULL, NULL);
  g_assert_cmpint(read_shape(tensor, &shape), ==, -1);
  assert_error(BP_ERROR_VALUE, "strides");
  bp_object_release(tensor);
}

/* A closure over itself keeps the machine alive, and works when it has no other owner. */
static void test_closure_keeps_the_machine(void) {
  static const char *const packed[] = {"vm.builtin.make_closure"};
  const Words code[] = {WORDS(CALL, 1, 1, 2, FUN(0), 0), WORDS(RET, 1)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 1, code, 2));
  BpValue argument = number(5), closure, result;
  g_assert_cmpint(call(machine, "forward", &argument, 1, &closure), ==, 0);
  g_assert_cmpint(closure.type_index, ==, BP_TYPE_FUNCTION);
  bp_object_release(machine);
  g_assert_cmpint(bp_function_call((BpFunction *)closure.v_obj, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_FUNCTION);
  bp_value_clear(&result);
  g_assert_cmpint(bp_function_call((BpFunction *)closure.v_obj, &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_TYPE, "takes 1 argument");
  bp_value_clear(&closure);
}

static void test_lent_argument_is_not_returned(void) {
  BpModule *machine = load_machine(identity("0.14"));
  int64_t shape[] = {1};
  float data[] = {1};
  BpTensorView view = {
      .data = data, .device = cpu, .ndim = 1, .dtype = {BP_DTYPE_FLOAT, 32, 1}, .shape = shape};
  BpValue argument = {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view}, result;
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_TYPE, "lent");
  bp_object_release(machine);
}

/* A tuple is kept from run to run; the argument of the second run is only borrowed. */
static void test_lent_argument_is_not_kept_in_a_tuple(void) {
  static const char *const packed[] = {"vm.builtin.kept_tuple"};
  const Words code[] = {WORDS(CALL, 1, 1, 4, MACHINE, NUM(0), 0, 0), WORDS(RET, 1)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 1, code, G_N_ELEMENTS(code)));
  const int64_t one = 1;
  BpTensor *tensor = bp_tensor_create(&one, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, cpu, NULL);
  BpValue argument = {.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header}, result;
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, 0);
  bp_value_clear(&result);
  argument = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &tensor->view};
  g_assert_cmpint(call(machine, "forward", &argument, 1, &result), ==, -1);
  assert_error(BP_ERROR_TYPE, "cannot keep");
  bp_object_release(tensor);
  bp_object_release(machine);
}

/* forward(p) appends to its input, for an output and along an axis. */
static void refuse_append(int64_t output, int64_t axis) {
  static const char *const packed[] = {"vm.builtin.append"};
  const int64_t value = (INT64_C(1) << 56) - 1; /* bits of an argument's word */
  const Words code[] = {WORDS(CALL, 1, 1, 9, MACHINE, NUM(0), NUM(output & value), 0, 0,
                              NUM(axis & value), NUM(0), 0, NUM(0)),
                        WORDS(RET, 1)};
  BpModule *module = load(make_executable("0.14", 1, packed, 1, code, G_N_ELEMENTS(code)));
  g_assert_nonnull(module);
  g_assert_null(bp_model_create(module, &cpu, 1));
  assert_error(BP_ERROR_FORMAT, "appends to input 'p'");
  bp_object_release(module);
}

static void test_appends_to_what_is_not_there_are_errors(void) {
  refuse_append(-1, 0);
  refuse_append(1, 0);
  refuse_append(INT64_C(1) << 40, 0);
  refuse_append(0, -1);
  refuse_append(0, 64);
}

static void test_functions_in_steps(void) {
  static const char *const packed[] = {"vm.builtin.make_tuple"};
  const Words code[] = {WORDS(CALL, 1, 1, 2, 0, NUM(7)), WORDS(RET, 1)};
  BpModule *machine = load_machine(make_executable("0.14", 1, packed, 1, code, 2));
  BpValue function = text("forward"), result;
  BpValue with_input[] = {function, number(3)}, item[] = {function, number(1)};
  BpValue no_item[] = {function, number(2)};
  g_assert_cmpint(call(machine, "invoke_stateful", &function, 1, &result), ==, -1);
  assert_error(BP_ERROR_VALUE, "set_input");
  g_assert_cmpint(call(machine, "get_output", &function, 1, &result), ==, -1);
  assert_error(BP_ERROR_VALUE, "invoke_stateful");
  g_assert_cmpint(call(machine, "set_input", with_input, 2, &result), ==, 0);
  g_assert_cmpint(call(machine, "invoke_stateful", &function, 1, &result), ==, 0);
  g_assert_cmpint(call(machine, "get_output_arity", &function, 1, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 2);
  g_assert_cmpint(call(machine, "get_output", item, 2, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 7);
  g_assert_cmpint(call(machine, "get_output", no_item, 2, &result), ==, -1);
  assert_error(BP_ERROR_INDEX, "no such item");
  g_assert_cmpint(call(machine, "get_function_arity", &function, 1, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 1);
  bp_object_release(machine);
}

/* TVM's own way: the executable makes a machine, which gets its devices later. */
static void test_machine_is_made_in_two_steps(void) {
  BpModule *module = load(identity("0.14"));
  BpValue made, result, devices[] = {number(BP_DEVICE_CPU), number(0), number(2)};
  BpValue nowhere[] = {number(BP_DEVICE_CPU), number(99), number(2)};
  BpFunction *function;
  g_assert_cmpint(call(module, "vm_load_executable", NULL, 0, &made), ==, 0);
  BpModule *machine = (BpModule *)(void *)made.v_obj;
  bp_object_release(module);
  g_assert_cmpint(bp_module_get_function(machine, "forward", 0, &function), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "vm_initialization");
  g_assert_cmpint(call(machine, "vm_initialization", devices, 2, &result), ==, -1);
  assert_error(BP_ERROR_TYPE, "each of");
  g_assert_cmpint(call(machine, "vm_initialization", nowhere, 3, &result), ==, -1);
  bp_error_clear();
  g_assert_cmpint(call(machine, "vm_initialization", devices, 3, &result), ==, 0);
  g_assert_cmpint(call(machine, "forward", devices, 1, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, BP_DEVICE_CPU);
  bp_object_release(machine);
}

static int num_made; /* calls of make_tensor */

static int make_tensor(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const int64_t two = 2;
  (void)self;
  num_made++;
  if (num_args > 0) {
    *result = args[0];
    bp_object_retain(args[0].v_obj);
    return 0;
  }
  BpTensor *tensor = bp_tensor_create(&two, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, cpu, NULL);
  memset(tensor->view.data, 0, 2 * sizeof(float));
  *result = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  return 0;
}

static void set_global(const char *name) {
  BpFunction *function = bp_function_create(make_tensor, NULL, NULL);
  g_assert_cmpint(bp_registry_set(name, function, 0), ==, 0);
  bp_object_release(function);
}

static int note_call(void *visitor, const char *node, const char *function, int64_t start_ns,
                     int64_t duration_ns) {
  g_string_append_printf(visitor, "%s %s;", node, function);
  g_assert_cmpint(start_ns, >=, 0);
  g_assert_cmpint(duration_ns, >=, 0);
  return 0;
}

/* The profiled program: makes a tensor, passes it on, and makes another. */
static BpModel *create_model(void) {
  static const char *const packed[] = {"test.make", "test.pass", "vm.builtin.copy"};
  const Words code[] = {WORDS(CALL, 0, 1, 0), WORDS(CALL, 1, 2, 1, 0), WORDS(CALL, 2, 3, 1, 1),
                        WORDS(CALL, 0, 1, 0), WORDS(RET, 2)};
  BpModule *module = load(make_executable("0.14", 0, packed, 3, code, G_N_ELEMENTS(code)));
  BpModel *model = module ? bp_model_create(module, &cpu, 1) : NULL;
  if (!model)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  return model;
}

static BpModelContext *create_context(void) {
  BpModel *model = create_model();
  BpModelContext *context = bp_model_context_create(model);
  g_assert_nonnull(context);
  bp_model_release(model);
  return context;
}

static void test_calls_are_profiled(void) {
  BpModelContext *context = create_context();
  GString *calls = g_string_new(NULL);
  char *folder = g_dir_make_tmp("backplane-relax-XXXXXX", NULL);
  char *dumped = g_build_filename(folder, "1-test.pass.npy", NULL);
  g_assert_cmpint(bp_model_profile(context, folder, note_call, calls), ==, 0);
  g_assert_cmpstr(calls->str, ==,
                  "0-test.make test.make;1-test.pass test.pass;2-test.make test.make;");
  g_assert_cmpint(bp_model_get_output(context, 0)->view.shape[0], ==, 2);
  g_assert_cmpint(g_unlink(dumped), ==, 0);
  g_assert_cmpint(g_rmdir(folder), ==, 0);
  g_string_free(calls, TRUE);
  g_free(dumped);
  g_free(folder);
  bp_model_context_free(context);
}

static void test_a_profile_ends_where_writing_fails(void) {
  BpModelContext *context = create_context();
  GString *calls = g_string_new(NULL);
  num_made = 0;
  g_assert_cmpint(bp_model_profile(context, "/nowhere/at/all", note_call, calls), ==, -1);
  assert_error(BP_ERROR_IO, "1-test.pass.npy");
  g_assert_cmpstr(calls->str, ==, "0-test.make test.make;");
  g_assert_cmpint(num_made, ==, 2);
  g_assert_cmpint(bp_model_run(context), ==, 0);
  g_string_free(calls, TRUE);
  bp_model_context_free(context);
}

static int note_one_call(void *visitor, const char *node, const char *function, int64_t start_ns,
                         int64_t duration_ns) {
  note_call(visitor, node, function, start_ns, duration_ns);
  return -7; /* any number but 0 */
}

static void test_run_is_whole_after_its_profile_ended(void) {
  BpModelContext *context = create_context();
  GString *calls = g_string_new(NULL);
  g_assert_cmpint(bp_model_profile(context, NULL, note_one_call, calls), ==, 0);
  g_assert_cmpstr(calls->str, ==, "0-test.make test.make;");
  g_assert_nonnull(bp_model_get_output(context, 0));
  g_string_free(calls, TRUE);
  bp_model_context_free(context);
}

static int end_visit(void *visitor, int32_t is_output, const BpModelTensorInfo *info) {
  g_assert_cmpint(is_output, ==, 1);
  g_assert_cmpstr(info->name, ==, "output");
  return *(int *)visitor;
}

static void test_a_visit_of_tensors_ends(void) {
  static const char *const packed[] = {"test.make"};
  const Words code[] = {WORDS(CALL, 0, 1, 0), WORDS(RET, 0)};
  BpModule *module = load(make_executable("0.14", 0, packed, 1, code, G_N_ELEMENTS(code)));
  int seven = 7;
  g_assert_cmpint(bp_model_visit_tensors(module, end_visit, &seven), ==, 7);
  bp_object_release(module);
}

static int check_unknown(void *visitor, int32_t is_output, const BpModelTensorInfo *info) {
  (void)visitor;
  g_assert_cmpint(info->ndim, ==, -1);
  g_assert_cmpstr(info->name, ==, is_output ? "output" : "p");
  return 0;
}

/* The bytecode does not check the argument. */
static void test_an_input_of_unknown_type_takes_any_tensor(void) {
  const int64_t three = 3;
  BpModule *module = load(identity("0.14"));
  g_assert_cmpint(bp_model_visit_tensors(module, check_unknown, NULL), ==, 0);
  BpModel *model = bp_model_create(module, &cpu, 1);
  BpModelContext *context = bp_model_context_create(model);
  BpTensor *given = bp_tensor_create(&three, 1, (BpDataType){BP_DTYPE_INT, 16, 1}, cpu, NULL);
  memcpy(given->view.data, "\1\0\2\0\3", 6);
  g_assert_cmpint(bp_model_set_input(context, "p", &given->view), ==, 0);
  g_assert_cmpint(bp_model_run(context), ==, 0);
  const BpTensor *output = bp_model_get_output(context, 0);
  g_assert_cmpint(output->view.dtype.bits, ==, 16);
  g_assert_cmpmem(output->view.data, 6, given->view.data, 6);
  bp_object_release(given);
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
}

/* The output of an identity is the context's copy of the input. */
static void test_a_set_input_keeps_the_outputs_of_the_last_run(void) {
  int64_t values[] = {1, 2}, extent = 1;
  BpModule *module = load(identity("0.14"));
  BpModel *model = bp_model_create(module, &cpu, 1);
  BpModelContext *context = bp_model_context_create(model);
  BpTensorView given = {.device = cpu, .ndim = 1, .dtype = {BP_DTYPE_INT, 64, 1}, .shape = &extent};
  given.data = &values[0];
  g_assert_cmpint(bp_model_set_input(context, "p", &given), ==, 0);
  g_assert_cmpint(bp_model_run(context), ==, 0);
  const BpTensor *output = bp_model_get_output(context, 0);
  given.data = &values[1];
  g_assert_cmpint(bp_model_set_input(context, "p", &given), ==, 0);
  g_assert_cmpint(*(int64_t *)output->view.data, ==, 1);
  g_assert_cmpint(bp_model_run(context), ==, 0);
  g_assert_cmpint(*(int64_t *)bp_model_get_output(context, 0)->view.data, ==, 2);
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
}

#define REFUSES(call)                                                                              \
  do {                                                                                             \
    g_assert_true(call);                                                                           \
    assert_error(BP_ERROR_VALUE, "is NULL");                                                       \
  } while (0)

static void test_null_arguments_are_errors(void) {
  BpModel *model = create_model();
  BpModelContext *context = bp_model_context_create(model);
  BpModule *module = load(identity("0.14"));
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  BpOwnedBytes params;
  uint64_t bytes = 0;
  size_t count;
  REFUSES(!bp_model_open(NULL));
  REFUSES(!bp_model_load(NULL, &cpu, 1));
  REFUSES(!bp_model_open_parts(NULL, "net.so", NULL));
  REFUSES(!bp_model_open_parts("net.json", NULL, NULL));
  REFUSES(!bp_model_create(NULL, &cpu, 1));
  REFUSES(!bp_model_create(module, NULL, 1));
  REFUSES(bp_model_select_devices(NULL, NULL, devices, 2, &count, NULL));
  REFUSES(bp_model_select_devices(module, NULL, NULL, 2, &count, NULL));
  REFUSES(bp_model_select_devices(module, NULL, devices, 2, NULL, NULL));
  REFUSES(bp_model_visit_tensors(NULL, end_visit, NULL));
  REFUSES(bp_model_visit_tensors(module, NULL, NULL));
  REFUSES(bp_onnx_visit_tensors(NULL, end_visit, NULL));
  REFUSES(bp_onnx_visit_tensors("net.onnx", NULL, NULL));
  const BpTarget *const no_target = NULL; /* as bp_target_parse gives for a wrong text */
  BpCompileOptions options = {.struct_size = sizeof options, .num_targets = 1};
  REFUSES(!bp_model_compile("net.onnx", &options));
  options.targets = &no_target;
  REFUSES(!bp_model_compile("net.onnx", &options));
  options.dump_dir = ""; /* no folder, and not "/" */
  g_assert_null(bp_model_compile("net.onnx", &options));
  assert_error(BP_ERROR_VALUE, "dump_dir is empty");
  REFUSES(bp_model_num_inputs(NULL) < 0);
  REFUSES(bp_model_num_outputs(NULL) < 0);
  REFUSES(bp_model_num_targets(NULL) < 0);
  REFUSES(!bp_model_target(NULL, 0));
  REFUSES(!bp_model_input_info(NULL, 0));
  REFUSES(!bp_model_output_info(NULL, 0));
  REFUSES(!bp_model_devices(NULL, &count));
  REFUSES(!bp_model_graph_json(NULL));
  REFUSES((bp_model_memory(NULL, &bytes, &bytes), 1));
  REFUSES(!bp_model_context_create(NULL));
  REFUSES(bp_model_set_input(NULL, "p", NULL));
  REFUSES(bp_model_set_input(context, NULL, NULL));
  REFUSES(bp_model_bind_input(context, "p", NULL));
  REFUSES(bp_model_run(NULL));
  REFUSES(!bp_model_get_output(NULL, 0));
  REFUSES(bp_model_profile(NULL, NULL, note_call, NULL));
  REFUSES(bp_model_profile(context, NULL, NULL, NULL));
  g_assert_cmpint(bp_model_profile(context, "", note_call, NULL), ==, -1);
  assert_error(BP_ERROR_VALUE, "the current one");
  REFUSES(!bp_relax_machine_create(NULL, cpu));
  REFUSES(!bp_graph_executor_create(NULL, module, &cpu, 1));
  REFUSES(!bp_graph_executor_create("{}", NULL, &cpu, 1));
  REFUSES(!bp_graph_executor_create("{}", module, NULL, 1));
  REFUSES(bp_params_encode(NULL, NULL, 1, &params));
  REFUSES(bp_params_encode(NULL, NULL, 0, NULL));
  REFUSES(bp_params_decode(NULL, NULL, NULL));
  REFUSES(!bp_npy_read(NULL));
  REFUSES(bp_npy_write(NULL, NULL));
  REFUSES(bp_npy_write("x.npy", NULL));
  bp_model_context_free(NULL);
  bp_model_release(NULL);
  bp_model_release(model);
  bp_object_release(module);
  bp_model_context_free(context);
}

static void test_builtin_outside_of_a_machine_is_an_error(void) {
  BpFunction *function;
  BpValue result;
  g_assert_cmpint(bp_registry_get("vm.builtin.make_tuple", &function), ==, 0);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "vm.builtin.make_tuple");
  bp_object_release(function);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_assert_cmpint(bp_graph_initialize(), ==, 0);
  set_global("test.make");
  set_global("test.pass");
  g_test_add_func("/relax/another-version-is-refused", test_another_version_is_refused);
  g_test_add_func("/relax/truncated-is-an-error", test_truncated_executable_is_an_error);
  g_test_add_func("/relax/wild-indices-are-errors", test_wild_indices_are_errors);
  g_test_add_func("/relax/shared-code-is-an-error", test_shared_code_is_an_error);
  g_test_add_func("/relax/unknown-builtins-are-all-named", test_unknown_builtins_are_all_named);
  g_test_add_func("/relax/missing-function-is-named", test_missing_function_is_named);
  g_test_add_func("/relax/a-device-without-code-is-refused", test_a_device_without_code_is_refused);
  g_test_add_func("/relax/functions-of-an-executable-need-a-machine",
                  test_functions_of_an_executable_need_a_machine);
  g_test_add_func("/relax/saved-bytes-make-the-executable-again",
                  test_saved_bytes_make_the_executable_again);
  g_test_add_func("/relax/wrong-number-of-arguments-is-an-error",
                  test_wrong_number_of_arguments_is_an_error);
  g_test_add_func("/relax/condition-chooses", test_condition_chooses);
  g_test_add_func("/relax/endless-recursion-is-an-error", test_endless_recursion_is_an_error);
  g_test_add_func("/relax/recursion-is-cancelled", test_recursion_is_cancelled);
  g_test_add_func("/relax/shape-heap-is-bounded", test_shape_heap_is_bounded);
  g_test_add_func("/relax/shapes-are-read-from-tensors", test_shapes_are_read_from_tensors);
  g_test_add_func("/relax/closure-keeps-the-machine", test_closure_keeps_the_machine);
  g_test_add_func("/relax/lent-argument-is-not-returned", test_lent_argument_is_not_returned);
  g_test_add_func("/relax/lent-argument-is-not-kept-in-a-tuple",
                  test_lent_argument_is_not_kept_in_a_tuple);
  g_test_add_func("/relax/appends-to-what-is-not-there-are-errors",
                  test_appends_to_what_is_not_there_are_errors);
  g_test_add_func("/relax/functions-in-steps", test_functions_in_steps);
  g_test_add_func("/relax/machine-is-made-in-two-steps", test_machine_is_made_in_two_steps);
  g_test_add_func("/relax/calls-are-profiled", test_calls_are_profiled);
  g_test_add_func("/relax/a-profile-ends-where-writing-fails",
                  test_a_profile_ends_where_writing_fails);
  g_test_add_func("/relax/run-is-whole-after-its-profile-ended",
                  test_run_is_whole_after_its_profile_ended);
  g_test_add_func("/relax/a-visit-of-tensors-ends", test_a_visit_of_tensors_ends);
  g_test_add_func("/relax/an-input-of-unknown-type-takes-any-tensor",
                  test_an_input_of_unknown_type_takes_any_tensor);
  g_test_add_func("/relax/a-set-input-keeps-the-outputs-of-the-last-run",
                  test_a_set_input_keeps_the_outputs_of_the_last_run);
  g_test_add_func("/relax/null-arguments-are-errors", test_null_arguments_are_errors);
  g_test_add_func("/relax/builtin-outside-of-a-machine-is-an-error",
                  test_builtin_outside_of_a_machine_is_an_error);
  return g_test_run();
}
