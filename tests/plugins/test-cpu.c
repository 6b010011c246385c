/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins cpu and cpu-llvm: the device, targets for this CPU and others, and modules of the
 * kinds c and llvm: their bytes, sources, and exported libraries. */

#include <backplane/device.h>
#include <backplane/tensor.h>
#include <stdio.h>

#include "tests/compiler/codegen-util.h"

#define CPU ((BpDevice){BP_DEVICE_CPU, 0})

/* ---- The device -------------------------------------------------------------------------- */

static void test_attributes_have_their_types(void) {
  static const struct {
    int32_t attr;
    int32_t type;
  } attrs[] = {
      {BP_ATTR_EXIST, BP_TYPE_BOOL},
      {BP_ATTR_HOST_ACCESSIBLE, BP_TYPE_BOOL},
      {BP_ATTR_MULTI_PROCESSOR_COUNT, BP_TYPE_INT},
      {BP_ATTR_TOTAL_GLOBAL_MEMORY, BP_TYPE_INT},
      {BP_ATTR_AVAILABLE_GLOBAL_MEMORY, BP_TYPE_INT},
      {BP_ATTR_DATA_ALIGNMENT, BP_TYPE_INT},
      {BP_ATTR_RANK, BP_TYPE_INT},
      {BP_ATTR_WARP_SIZE, BP_TYPE_NONE},
      {BP_ATTR_MAX_THREADS_PER_BLOCK, BP_TYPE_NONE},
      {BP_ATTR_MAX_GRID_DIMENSIONS, BP_TYPE_NONE},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(attrs); i++) {
    BpValue value;
    assert_ok(bp_device_get_attr(CPU, attrs[i].attr, &value));
    g_assert_cmpint(value.type_index, ==, attrs[i].type);
    if (value.type_index == BP_TYPE_INT)
      g_assert_cmpint(value.v_int64, >, 0);
    bp_value_clear(&value);
  }
}

static void test_device_has_a_name_and_a_target(void) {
  BpValue value;
  BpByteArray text;
  assert_ok(bp_device_get_attr(CPU, BP_ATTR_DEVICE_NAME, &value));
  assert_ok(bp_value_view_str(&value, &text));
  g_assert_cmpint(text.size, >, 0);
  bp_value_clear(&value);
  BpTarget *target = bp_target_from_device(CPU);
  assert_ok(target == NULL);
  g_assert_cmpstr(bp_target_kind(target), ==, "c");
  g_assert_cmpint(bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0), >=, 128);
  bp_object_release(target);
}

static int try_alloc(uint64_t size, uint64_t alignment, const char *scope, void **handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation,
                                   .size = size,
                                   .alignment = alignment,
                                   .dtype = dtype_of("float32"),
                                   .scope = scope};
  return bp_device_alloc(CPU, &allocation, handle);
}

static void test_memory_has_its_alignment(void) {
  void *handle = NULL;
  assert_ok(try_alloc(1000, 4096, NULL, &handle));
  g_assert_cmpint((uintptr_t)handle % 4096, ==, 0);
  memset(handle, 1, 1000);
  assert_ok(bp_device_free(CPU, handle));
  assert_ok(try_alloc(0, 64, "global", &handle));
  g_assert_nonnull(handle);
  assert_ok(bp_device_free(CPU, handle));
  g_assert_cmpint(try_alloc(8, 64, "texture", &handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "texture");
  g_assert_cmpint(try_alloc((uint64_t)1 << 60, 64, NULL, &handle), ==, -1);
  assert_error(BP_ERROR_MEMORY, "no host memory");
}

static void test_copies_are_exact(void) {
  char from[] = "abcdefgh", to[] = "........";
  BpCopy copy = {.struct_size = sizeof(BpCopy), .from = from, .from_offset = 2, .from_device = CPU};
  copy.to = to;
  copy.to_offset = 1;
  copy.to_device = CPU;
  copy.size = 3;
  assert_ok(bp_device_copy(&copy, NULL));
  assert_ok(bp_stream_sync(CPU, NULL));
  g_assert_cmpstr(to, ==, ".cde....");
}

/* ---- Targets ----------------------------------------------------------------------------- */

static void test_native_target_names_the_cpu(gconstpointer kind) {
  BpTarget *target = bp_target_parse(kind);
  assert_ok(target == NULL);
  char *text = bp_target_format(target);
  g_assert_null(strstr(text, "native"));
  BpTarget *again = bp_target_parse(text);
  assert_ok(again == NULL);
  char *same = bp_target_format(again);
  g_assert_cmpstr(text, ==, same);
  g_assert_cmpint(bp_target_device_type(target), ==, BP_DEVICE_CPU);
  bp_str_free(text);
  bp_str_free(same);
  bp_object_release(again);
  bp_object_release(target);
}

static void test_wrong_targets_are_refused(gconstpointer kind) {
  static const char *const cases[][3] = {
      {"-mcpu=pentium", BP_ERROR_VALUE, "unknown CPU \"pentium\""},
      {"-mattr=avx512f,frobnicate", BP_ERROR_VALUE, "unknown feature \"frobnicate\""},
      {"-mcpu=7", BP_ERROR_VALUE, "unknown CPU"},
      {"-vector_bits=4096", BP_ERROR_VALUE, "-vector_bits=4096: it is from 0 to 2048"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *text = g_strdup_printf("%s %s", (const char *)kind, cases[i][0]);
    g_assert_null(bp_target_parse(text));
    assert_error(cases[i][1], cases[i][2]);
    g_free(text);
  }
}

static void test_target_of_another_cpu_has_its_vectors(gconstpointer kind) {
  char *text = g_strdup_printf("%s -mcpu=cortex-a72", (const char *)kind);
  BpTarget *target = bp_target_parse(text);
  assert_ok(target == NULL);
  g_assert_cmpint(bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0), ==, 128);
  bp_object_release(target);
  g_free(text);
}

/* ---- Modules ----------------------------------------------------------------------------- */

#define ADD_ONE                                                                                    \
  "(module (function \"add_one\" (buffer A int32 global 8)"                                        \
  " (for i:int64 0 8 parallel (store A i (add (load A i) 1:int32)))))"

static BpModule *build_text(const char *text, const char *target) {
  BpIrModule *module = parse_verified(text);
  BpModule *built = build_ok(module, target);
  bp_object_release(module);
  return built;
}

/* Calls add_one of the module; returns 0 if its result is right. */
static int run_add_one(BpModule *module) {
  int32_t data[8] = {0};
  Array array;
  BpFunction *function = NULL;
  BpValue arg = array_value(&array, data, dtype_of("int32"), 8), result;
  if (bp_module_get_function(module, "add_one", 1, &function))
    return -1;
  g_assert_nonnull(function);
  int rc = bp_function_call(function, &arg, 1, &result);
  bp_object_release(function);
  for (int i = 0; rc == 0 && i < 8; i++)
    g_assert_cmpint(data[i], ==, 1);
  return rc;
}

static void test_functions_are_found_by_name(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  BpFunction *function = NULL;
  size_t count;
  assert_ok(run_add_one(module));
  assert_ok(bp_module_get_function(module, "add_two", 1, &function));
  g_assert_null(function);
  assert_ok(bp_module_get_function(module, "add", 1, &function));
  g_assert_null(function);
  char **names = bp_module_list_functions(module, &count);
  g_assert_cmpint(count, ==, 1);
  g_assert_cmpstr(names[0], ==, "add_one");
  bp_names_free(names);
  g_assert_cmpstr(bp_module_kind(module), ==, kind);
  g_assert_cmpint(bp_module_get_property(module), ==,
                  BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE |
                      BP_MODULE_COMPILATION_EXPORT);
  bp_object_release(module);
}

static void test_function_outlives_module(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  BpFunction *function = NULL;
  int32_t data[8] = {0};
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("int32"), 8), result;
  assert_ok(bp_module_get_function(module, "add_one", 1, &function));
  bp_object_release(module);
  assert_ok(bp_function_call(function, &arg, 1, &result));
  g_assert_cmpint(data[7], ==, 1);
  bp_object_release(function);
}

static gpointer run_in_thread(gpointer module) {
  for (int i = 0; i < 20; i++)
    assert_ok(run_add_one(module));
  return NULL;
}

static void test_threads_call_at_once(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  GThread *threads[4];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new("run", run_in_thread, module);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
  bp_object_release(module);
}

static void test_saved_module_is_loaded_and_runs(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  BpOwnedBytes bytes;
  assert_ok(bp_module_save_to_bytes(module, &bytes));
  bp_object_release(module);
  BpByteArray view = {bytes.data, bytes.size};
  BpModule *loaded = bp_module_load_from_bytes(kind, &view);
  assert_ok(loaded == NULL);
  assert_ok(run_add_one(loaded));
  bp_object_release(loaded);
  bp_owned_bytes_clear(&bytes);
}

/* Loaders get the owner of the bytes if the bytes are in a library. */
static void test_loader_gets_the_owner_of_the_bytes(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  char *name = g_strdup_printf("runtime.module.loadbinary_%s", (const char *)kind);
  BpFunction *loader = NULL;
  BpOwnedBytes bytes;
  BpValue args[2] = {{0}, {0}}, result;
  assert_ok(bp_module_save_to_bytes(module, &bytes));
  bp_object_release(module);
  assert_ok(bp_registry_get(name, &loader));
  assert_ok(bp_value_make_bytes(&args[0], bytes.data, bytes.size));
  assert_ok(bp_function_call(loader, args, 2, &result));
  g_assert_cmpint(result.type_index, ==, BP_TYPE_MODULE);
  assert_ok(run_add_one((BpModule *)(void *)result.v_obj));
  bp_value_clear(&result);
  bp_value_clear(&args[0]);
  bp_object_release(loader);
  bp_owned_bytes_clear(&bytes);
  g_free(name);
}

/* Every truncation of the head, and some of the rest, gives an error or a module, never a crash. */
static void test_damaged_bytes_are_no_crash(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  BpOwnedBytes bytes;
  assert_ok(bp_module_save_to_bytes(module, &bytes));
  bp_object_release(module);
  for (size_t size = 0; size < bytes.size; size += size < 200 ? 1 : bytes.size / 50 + 1) {
    char *copy = g_memdup2(bytes.data, size); /* exact size, for the sanitizers */
    BpByteArray view = {copy, size};
    g_assert_null(bp_module_load_from_bytes(kind, &view));
    g_assert_true(bp_error_is(BP_ERROR_FORMAT));
    bp_error_clear();
    g_free(copy);
  }
  for (size_t i = 0; i < bytes.size && i < 400; i++) {
    char *copy = g_memdup2(bytes.data, bytes.size);
    copy[i] ^= (char)0x81;
    BpByteArray view = {copy, bytes.size};
    BpModule *loaded = bp_module_load_from_bytes(kind, &view);
    if (!loaded)
      g_assert_true(bp_error_is(BP_ERROR_FORMAT));
    bp_error_clear();
    bp_object_release(loaded);
    g_free(copy);
  }
  bp_owned_bytes_clear(&bytes);
}

static char *source_of(BpModule *module, const char *format) {
  BpOwnedBytes source;
  assert_ok(bp_module_get_source(module, format, &source));
  char *text = g_strndup(source.data, source.size);
  bp_owned_bytes_clear(&source);
  return text;
}

static void test_modules_of_c_have_their_sources(void) {
  BpModule *module = build_text(ADD_ONE, "c -mcpu=haswell");
  char *text = source_of(module, "c");
  g_assert_nonnull(strstr(text, "__tvm_ffi_add_one"));
  g_assert_null(strstr(text, "#include"));
  g_free(text);
  text = source_of(module, "cflags");
  g_assert_nonnull(strstr(text, "-march=x86-64-v3\n"));
  g_assert_nonnull(strstr(text, "-mtune=haswell\n"));
  g_free(text);
  bp_object_release(module);
}

/* Features that a compiler assumes from a CPU's name, such as AVX512-FP16, are not all checked at
 * run time. */
static void test_code_uses_only_what_is_checked(void) {
  BpModule *module = build_text(ADD_ONE, "c -mcpu=sapphirerapids");
  char *text = source_of(module, "cflags");
  g_assert_null(strstr(text, "-march=sapphirerapids"));
  g_assert_nonnull(strstr(text, "-march=x86-64-v4\n"));
  g_assert_nonnull(strstr(text, "-mavx512bf16\n"));
  g_free(text);
  bp_object_release(module);
  module = build_text(ADD_ONE, "c -mcpu=alderlake");
  text = source_of(module, "cflags");
  g_assert_nonnull(strstr(text, "-march=x86-64-v3\n"));
  g_assert_nonnull(strstr(text, "-mavxvnni\n"));
  g_free(text);
  bp_object_release(module);
}

static void test_modules_of_llvm_have_their_sources(void) {
  BpModule *module = build_text(ADD_ONE, "llvm");
  char *text = source_of(module, "ll");
  g_assert_nonnull(strstr(text, "@__tvm_ffi_add_one"));
  g_free(text);
  BpOwnedBytes object;
  assert_ok(bp_module_get_source(module, "o", &object));
  g_assert_cmpmem(object.data, 4, "\177ELF", 4);
  bp_owned_bytes_clear(&object);
  bp_object_release(module);
}

/* ---- Other CPUs -------------------------------------------------------------------------- */

static void test_other_architecture_does_not_run(gconstpointer kind) {
  char *target = g_strdup_printf("%s -mcpu=cortex-a72", (const char *)kind);
  BpModule *module = build_text(ADD_ONE, target);
  g_assert_cmpint(run_add_one(module), ==, -1);
  assert_error(BP_ERROR_DEVICE, "compiled for the CPU cortex-a72 and cannot run here");
  g_assert_false(bp_module_get_property(module) & BP_MODULE_RUNNABLE);
  bp_object_release(module);
  g_free(target);
}

/* A CPU with more features than this one: its code is refused before it runs, also in a library.
 * No CPU has both AVX-512 and FMA4. The error is raised without these features. */
static void test_foreign_cpu_does_not_run(gconstpointer kind) {
  char *target = g_strdup_printf("%s -mcpu=skylake-avx512 -mattr=fma4", (const char *)kind);
  BpModule *module = build_text(ADD_ONE, target);
  g_free(target);
  g_assert_cmpint(run_add_one(module), ==, -1);
  assert_error(BP_ERROR_DEVICE,
               "compiled for the CPU skylake-avx512 with fma4 and cannot run here");
  char *dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  char *path = g_build_filename(dir, "foreign.so", NULL);
  assert_ok(bp_module_export_library(module, path));
  bp_object_release(module);
  module = bp_module_load(path);
  assert_ok(module == NULL);
  g_assert_cmpint(run_add_one(module), ==, -1);
  assert_error(BP_ERROR_DEVICE, "compiled for the CPU ");
  bp_object_release(module);
  remove(path);
  remove(dir);
  g_free(path);
  g_free(dir);
}

static void test_exported_library_runs(gconstpointer kind) {
  BpModule *module = build_text(ADD_ONE, kind);
  char *dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  char *path = g_build_filename(dir, "code.so", NULL);
  assert_ok(bp_module_export_library(module, path));
  bp_object_release(module);
  module = bp_module_load(path);
  assert_ok(module == NULL);
  assert_ok(run_add_one(module));
  bp_object_release(module);
  remove(path);
  remove(dir);
  g_free(path);
  g_free(dir);
}

static void add_kind_tests(const char *kind) {
  static const struct {
    const char *name;
    GTestDataFunc function;
  } tests[] = {
      {"native-target-names-the-cpu", test_native_target_names_the_cpu},
      {"wrong-targets-are-refused", test_wrong_targets_are_refused},
      {"target-of-another-cpu-has-its-vectors", test_target_of_another_cpu_has_its_vectors},
      {"functions-are-found-by-name", test_functions_are_found_by_name},
      {"function-outlives-module", test_function_outlives_module},
      {"threads-call-at-once", test_threads_call_at_once},
      {"saved-module-is-loaded-and-runs", test_saved_module_is_loaded_and_runs},
      {"loader-gets-the-owner-of-the-bytes", test_loader_gets_the_owner_of_the_bytes},
      {"damaged-bytes-are-no-crash", test_damaged_bytes_are_no_crash},
      {"other-architecture-does-not-run", test_other_architecture_does_not_run},
      {"foreign-cpu-does-not-run", test_foreign_cpu_does_not_run},
      {"exported-library-runs", test_exported_library_runs},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    char *path = g_strdup_printf("/cpu/%s/%s", kind, tests[i].name);
    g_test_add_data_func(path, kind, tests[i].function);
    g_free(path);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/cpu/device/attributes-have-their-types", test_attributes_have_their_types);
  g_test_add_func("/cpu/device/device-has-a-name-and-a-target",
                  test_device_has_a_name_and_a_target);
  g_test_add_func("/cpu/device/memory-has-its-alignment", test_memory_has_its_alignment);
  g_test_add_func("/cpu/device/copies-are-exact", test_copies_are_exact);
  g_test_add_func("/cpu/c/modules-of-c-have-their-sources", test_modules_of_c_have_their_sources);
  g_test_add_func("/cpu/c/code-uses-only-what-is-checked", test_code_uses_only_what_is_checked);
  add_kind_tests("c");
  if (bp_target_kind_info("llvm")) {
    g_test_add_func("/cpu/llvm/modules-of-llvm-have-their-sources",
                    test_modules_of_llvm_have_their_sources);
    add_kind_tests("llvm");
  }
  bp_error_clear();
  return g_test_run();
}
