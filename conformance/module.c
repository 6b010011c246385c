/* SPDX-License-Identifier: Apache-2.0 */
/* Section module: building code, calling it, refused calls, saving and loading. The IR of kernels
 * has bound loops, which a target for the host runs as loops. */
#include <pthread.h>
#include <string.h>

#include <backplane/tensor.h>

#include "conformance/kernel.h"
#include "conformance/programs.h"
#include "conformance/random.h"

/* b[i] = a[i] + x, one element for each thread, by default 8 blocks of 4. */
#define EXTENT 32
#define THREAD                                                                                     \
  "(for b:int64 0 @blocks bound \"blockIdx.x\" (for t:int64 0 @threads bound \"threadIdx.x\""
#define ELEMENT "(add (mul b @threads) t)"
#define ADD(name)                                                                                  \
  "(function \"" name "\" (buffer A int32 global 32) (buffer B int32 global 32) x:int32 " THREAD   \
  " (store B " ELEMENT " (add (load A " ELEMENT ") x)))))"
static const char add_text[] =
    "(module " ADD("add") " (function \"negate\" (buffer A int32 global 32) " THREAD
                          " (store A " ELEMENT " (sub 0:int32 (load A " ELEMENT ")))))))";
static const char other_text[] = "(module " ADD("other") ")";

static KitCode build_text(const Kit *kit, const char *template) {
  int64_t threads = bp__kit_block(kit, 4);
  char *blocks = g_strdup_printf("%" G_GINT64_FORMAT, EXTENT / threads);
  char *block = g_strdup_printf("%" G_GINT64_FORMAT, threads);
  const char *const words[][2] = {{"@blocks", blocks}, {"@threads", block}, {NULL, NULL}};
  char *text = bp__program_fill(template, words);
  KitCode code = bp__kit_build(kit, text);
  g_free(blocks);
  g_free(block);
  g_free(text);
  return code;
}

static KitCode build_add(const Kit *kit) {
  return build_text(kit, add_text);
}

/* Buffers and arguments of `add`. */
typedef struct Add {
  KitBuffer a, b;
  KitArgs args;
  int32_t sent[EXTENT];
} Add;

static void add_create(const Kit *kit, const KitCode *code, Add *add) {
  *add = (Add){.args = {.count = 0}};
  bp__kit_fill(add->sent, sizeof add->sent, kit->seed);
  for (int i = 0; i < EXTENT; i++)
    add->sent[i] >>= 2;
  bp__kit_buffer_create(kit, &add->a, KIT_INT32, EXTENT);
  bp__kit_buffer_create(kit, &add->b, KIT_INT32, EXTENT);
  bp__kit_buffer_set(kit, &add->a, add->sent, NULL);
  bp__kit_buffer_set(kit, &add->b, add->sent, NULL);
  bp__kit_args_add(&add->args, bp__kit_buffer_value(&add->a));
  bp__kit_args_add(&add->args, bp__kit_buffer_value(&add->b));
  bp__kit_args_add_int(&add->args, 7);
  bp__kit_args_add_launch(&add->args, code, "add", EXTENT);
}

static void add_clear(const Kit *kit, Add *add) {
  bp__kit_buffer_free(kit, &add->a);
  bp__kit_buffer_free(kit, &add->b);
}

static void expect_sums(const int32_t *got, const int32_t *sent, int32_t x, const char *what) {
  for (int i = 0; i < EXTENT; i++)
    KIT_TRUE(got[i] == sent[i] + x, "%s: element %d is %d and not %d", what, i, got[i],
             sent[i] + x);
}

/* Calls a function, which must behave as `add`. */
static void expect_adds(const Kit *kit, const KitCode *code, BpFunction *function,
                        const char *what) {
  Add add;
  int32_t got[EXTENT] = {0};
  add_create(kit, code, &add);
  bp__kit_call(kit, function, &add.args, NULL);
  bp__kit_buffer_get(kit, &add.b, got, NULL);
  expect_sums(got, add.sent, 7, what);
  add_clear(kit, &add);
}

/* Code that contains `add`, and its arguments. */
typedef struct Built {
  KitCode code;
  BpFunction *function;
  Add add;
} Built;

static void open_built(Kit *kit, Built *built) {
  bp__kit_open_target(kit);
  built->code = build_add(kit);
  built->function = bp__kit_function(built->code.module, "add");
  add_create(kit, &built->code, &built->add);
}

/* Checks that `add` still works after other operations. */
static void close_built(const Kit *kit, Built *built, const char *what) {
  expect_adds(kit, &built->code, built->function, what);
  add_clear(kit, &built->add);
  bp_object_release(built->function);
  bp__kit_code_clear(&built->code);
}

static void run_build(Kit *kit) {
  BpFunction *function = NULL;
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  bp_object_release(bp__kit_function(code.module, "add"));
  bp_object_release(bp__kit_function(code.module, "negate"));
  KIT_OK(bp_module_get_function(code.module, "no_such_function", 1, &function),
         "get_function of an unknown name");
  KIT_TRUE(!function, "an unknown name has a function");
  bp__kit_code_clear(&code);
}

static void run_call(Kit *kit) {
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  BpFunction *function = bp__kit_function(code.module, "add");
  for (int i = 0; i < 3; i++)
    expect_adds(kit, &code, function, "add, called");
  bp_object_release(function);
  bp__kit_code_clear(&code);
}

/* ---- Launches: every thread of the launch runs once, and no other threads run ------------ */

/* Each thread writes its number to a cell of its own; the cells after them must not change. */
static void expect_grid(const Kit *kit, const char *body, int64_t threads) {
  char *text =
      g_strdup_printf("(module (function \"f\" (buffer A int32 global %" G_GINT64_FORMAT ") %s))",
                      threads + 64, body);
  bp__kit_expect_agrees(kit, text, "f", threads + 64);
  g_free(text);
}

static void run_grid_x(Kit *kit) {
  bp__kit_open_target(kit);
  expect_grid(kit, "(for b:int64 0 1 bound \"blockIdx.x\" (store A b 5:int32))", 1);
  expect_grid(kit, "(for b:int64 0 1000 bound \"blockIdx.x\" (store A b (cast int32 b)))", 1000);
}

static void run_grid_yz(Kit *kit) {
  bp__kit_open_target(kit);
  expect_grid(kit,
              "(for z:int64 0 3 bound \"blockIdx.z\" (for y:int64 0 4 bound \"blockIdx.y\""
              " (for x:int64 0 5 bound \"blockIdx.x\" (store A (add (mul (add (mul z 4) y) 5) x)"
              " (cast int32 (add (add (mul z 100) (mul y 10)) x))))))",
              60);
}

/* Thirteen threads, or as many as the target allows. */
static void run_block(Kit *kit) {
  bp__kit_open_target(kit);
  int64_t most = bp_target_get_int(kit->target, BP_TARGET_MAX_NUM_THREADS, 1);
  int64_t threads = bp__kit_has_threads(kit) ? CLAMP(most, 1, 13) : 13;
  char *count = g_strdup_printf("%" G_GINT64_FORMAT, threads);
  const char *const words[][2] = {{"@threads", count}, {NULL, NULL}};
  char *body = bp__program_fill(
      "(for b:int64 0 7 bound \"blockIdx.x\" (for t:int64 0 @threads bound \"threadIdx.x\""
      " (store A (add (mul b @threads) t) (cast int32 (add (mul b 100) t)))))",
      words);
  expect_grid(kit, body, 7 * threads);
  g_free(body);
  g_free(count);
}

/* The axes have different extents if the target's block is large enough. */
static void run_block_yz(Kit *kit) {
  bp__kit_open_target(kit);
  gboolean has_room = bp__kit_block(kit, 32) == 32;
  int64_t side = bp__kit_block(kit, 8) == 8 ? 2 : 1;
  int64_t x = has_room ? 4 : side, y = has_room ? 3 : side, z = has_room ? 2 : side;
  char *body = g_strdup_printf(
      "(for b:int64 0 2 bound \"blockIdx.x\" (for z:int64 0 %d bound \"threadIdx.z\""
      " (for y:int64 0 %d bound \"threadIdx.y\" (for x:int64 0 %d bound \"threadIdx.x\""
      " (store A (add (mul (add (mul (add (mul b %d) z) %d) y) %d) x)"
      " (cast int32 (add (add (mul z 100) (mul y 10)) x)))))))",
      (int)z, (int)y, (int)x, (int)z, (int)y, (int)x);
  expect_grid(kit, body, 2 * x * y * z);
  g_free(body);
}

/* Returns the most blocks of a launch along x; `otherwise` if the device does not report it. */
static int64_t most_blocks(const Kit *kit, int64_t otherwise) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  KIT_OK(bp_device_get_attr(kit->target_device, BP_ATTR_MAX_GRID_DIMENSIONS, &value), "get_attr");
  if (value.type_index == BP_TYPE_SHAPE)
    otherwise = ((const BpShape *)(const void *)value.v_obj)->data[0];
  bp_value_clear(&value);
  return otherwise;
}

/* Launches 70,000 blocks, or as many as the device allows; every thousandth block records that it
 * ran. */
static void run_large_grid(Kit *kit) {
  bp__kit_open_target(kit);
  int64_t blocks = MIN(most_blocks(kit, 70000), 70000);
  char *body = g_strdup_printf("(for b:int64 0 %" G_GINT64_FORMAT " bound \"blockIdx.x\""
                               " (if (eq (mod b 1000) 0) (store A (div b 1000) (cast int32 b))))",
                               blocks);
  expect_grid(kit, body, (blocks + 999) / 1000);
  g_free(body);
}

/* Launches a block with the target's largest number of threads. */
static void run_most_threads(Kit *kit) {
  bp__kit_open_target(kit);
  int64_t threads = bp_target_get_int(kit->target, BP_TARGET_MAX_NUM_THREADS, 1);
  KIT_TRUE(threads >= 1, "the target's max_num_threads is %" G_GINT64_FORMAT, threads);
  char *body = g_strdup_printf("(for b:int64 0 3 bound \"blockIdx.x\""
                               " (for t:int64 0 %" G_GINT64_FORMAT " bound \"threadIdx.x\""
                               " (store A (add (mul b %" G_GINT64_FORMAT
                               ") t) (cast int32 (add (mul b 1000) t)))))",
                               threads, threads);
  expect_grid(kit, body, 3 * threads);
  g_free(body);
}

/* Uses all the shared memory that the target allows; after a barrier each end reads the other
 * end. */
static void run_most_shared(Kit *kit) {
  bp__kit_open_target(kit);
  int64_t words = bp_target_get_int(kit->target, BP_TARGET_MAX_SHARED_MEMORY, 0) / 4;
  int64_t threads = bp__kit_block(kit, 32);
  if (words < 2 * threads || !bp__kit_has_threads(kit))
    bp__kit_skip("the target has no shared memory");
  char *text = g_strdup_printf(
      "(module (function \"f\" (buffer A int32 global %d) (for b:int64 0 2 bound \"blockIdx.x\""
      " (allocate (buffer S int32 shared %" G_GINT64_FORMAT ") (for t:int64 0 %d bound"
      " \"threadIdx.x\" (seq (store S t (cast int32 (add (mul b 100) t)))"
      " (store S (sub %" G_GINT64_FORMAT " t) (cast int32 (sub (mul b 100) t)))"
      " (barrier \"shared\") (store A (add (mul b %d) t) (load S (sub %d t)))"
      " (store A (add (add (mul b %d) %d) t) (load S (add %" G_GINT64_FORMAT " t)))))))))",
      4 * (int)threads, words, (int)threads, words - 1, 2 * (int)threads, (int)threads - 1,
      2 * (int)threads, (int)threads, words - threads);
  bp__kit_expect_agrees(kit, text, "f", 4 * threads);
  g_free(text);
}

/* ---- Arguments --------------------------------------------------------------------------- */

static void run_scalars(Kit *kit) {
  static const char text[] =
      "(module (function \"f\" (buffer I int32 global 4) (buffer X float32 global 4) a:int32"
      " b:int32 x:float32 y:float32 (for t:int64 0 1 bound \"blockIdx.x\" (seq (store I 0 a)"
      " (store I 1 b) (store X 0 x) (store X 1 y)))))";
  const int32_t expected_ints[2] = {INT32_MIN, 123456789};
  const float expected_floats[2] = {-0.15625f, 3e38f};
  KitBuffer ints, floats;
  KitArgs args = {.count = 0};
  int32_t got_ints[4];
  float got_floats[4];
  bp__kit_open_target(kit);
  KitCode code = bp__kit_build(kit, text);
  BpFunction *function = bp__kit_function(code.module, "f");
  bp__kit_buffer_create(kit, &ints, KIT_INT32, 4);
  bp__kit_buffer_create(kit, &floats, KIT_FLOAT32, 4);
  bp__kit_args_add(&args, bp__kit_buffer_value(&ints));
  bp__kit_args_add(&args, bp__kit_buffer_value(&floats));
  for (int i = 0; i < 2; i++)
    bp__kit_args_add_int(&args, expected_ints[i]);
  for (int i = 0; i < 2; i++)
    bp__kit_args_add(
        &args, (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = (double)expected_floats[i]});
  bp__kit_args_add_launch(&args, &code, "f", 1);
  bp__kit_call(kit, function, &args, NULL);
  bp__kit_buffer_get(kit, &ints, got_ints, NULL);
  bp__kit_buffer_get(kit, &floats, got_floats, NULL);
  bp__kit_expect_bytes(got_ints, expected_ints, sizeof expected_ints, "int32 arguments");
  bp__kit_expect_bytes(got_floats, expected_floats, sizeof expected_floats, "float32 arguments");
  bp__kit_buffer_free(kit, &ints);
  bp__kit_buffer_free(kit, &floats);
  bp_object_release(function);
  bp__kit_code_clear(&code);
}

/* Returns the bytes between views into one data space: the device's alignment, and at least 256. */
static uint64_t bytes_between_views(const Kit *kit) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  KIT_OK(bp_device_get_attr(kit->target_device, BP_ATTR_DATA_ALIGNMENT, &value), "get_attr");
  return value.type_index == BP_TYPE_INT ? MAX((uint64_t)value.v_int64, 256) : 256;
}

/* Views into the middle of data space. */
static void run_views(Kit *kit) {
  Built built;
  KitBuffer wide;
  open_built(kit, &built);
  Add *add = &built.add;
  uint64_t step = bytes_between_views(kit);
  uint64_t count = 4 * (step / sizeof(int32_t)) + EXTENT;
  int32_t *held = g_new(int32_t, count), *got = g_new0(int32_t, count);
  bp__kit_buffer_create(kit, &wide, KIT_INT32, (int64_t)count);
  bp__kit_fill(held, count * sizeof *held, kit->seed + 9);
  bp__kit_buffer_set(kit, &wide, held, NULL);
  for (uint64_t i = 0; i <= 4; i += 2) {
    BpTensorView view = wide.view;
    int64_t extent = EXTENT;
    view.shape = &extent;
    view.byte_offset = i * step;
    add->args.values[1].v_view = &view;
    bp__kit_call(kit, built.function, &add->args, NULL);
    for (int k = 0; k < EXTENT; k++)
      held[i * step / 4 + (uint64_t)k] = add->sent[k] + 7;
  }
  bp__kit_buffer_get(kit, &wide, got, NULL);
  bp__kit_expect_bytes(got, held, count * sizeof *held, "a buffer to which views were written");
  BpTensorView view = wide.view;
  int64_t extent = EXTENT;
  view.shape = &extent;
  view.byte_offset = 2 * step;
  add->args.values[0].v_view = &view;
  add->args.values[1] = bp__kit_buffer_value(&add->b);
  bp__kit_call(kit, built.function, &add->args, NULL);
  bp__kit_buffer_get(kit, &add->b, got, NULL);
  expect_sums(got, add->sent, 14, "a view that is read");
  bp__kit_buffer_free(kit, &wide);
  close_built(kit, &built, "add, called after views were passed");
  g_free(held);
  g_free(got);
}

/* A buffer argument may be a handle without a view. */
static void run_handles(Kit *kit) {
  Built built;
  int32_t got[EXTENT] = {0};
  open_built(kit, &built);
  Add *add = &built.add;
  if (bp__kit_runs_on_host(kit))
    bp__kit_skip("the target's functions run on the host, where a buffer is a tensor");
  add->args.values[0] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = add->a.handle};
  add->args.values[1] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = add->b.handle};
  bp__kit_call(kit, built.function, &add->args, NULL);
  bp__kit_buffer_get(kit, &add->b, got, NULL);
  expect_sums(got, add->sent, 7, "a call with handles for buffers");
  close_built(kit, &built, "add, called after one with handles");
}

/* A wrong call is refused, and the next call works. */
static void run_count(Kit *kit) {
  Built built;
  open_built(kit, &built);
  Add *add = &built.add;
  int32_t count = add->args.count;
  const int32_t wrong[] = {0, 1, count - 1, count + 1};
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
    KitArgs args = add->args;
    args.values[count] = args.values[2];
    args.count = wrong[i];
    char what[64];
    g_snprintf(what, sizeof what, "a call with %d arguments, not %d,", wrong[i], count);
    KIT_REFUSED(bp__kit_launch(built.function, &args), BP_ERROR_TYPE, what);
  }
  close_built(kit, &built, "add, called after wrong calls");
}

static void run_types(Kit *kit) {
  Built built;
  open_built(kit, &built);
  Add *add = &built.add;
  const struct {
    const char *what;
    int32_t index;
    BpValue value;
  } wrong[] = {
      {"an int for a buffer", 0, {.type_index = BP_TYPE_INT, .v_int64 = 64}},
      {"None for a buffer", 1, {.type_index = BP_TYPE_NONE}},
      {"a string for a buffer", 1, {.type_index = BP_TYPE_RAW_STR, .v_cstr = "text"}},
      {"a string for an int", 2, {.type_index = BP_TYPE_RAW_STR, .v_cstr = "7"}},
      {"None for an int", 2, {.type_index = BP_TYPE_NONE}},
      {"a float for an int", 2, {.type_index = BP_TYPE_FLOAT, .v_float64 = 7.5}},
      {"a float, whose bits are an int's, for an int", 2, {.type_index = BP_TYPE_FLOAT}},
      {"a buffer for an int", 2, add->args.values[0]},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
    KitArgs args = add->args;
    args.values[wrong[i].index] = wrong[i].value;
    KIT_REFUSED(bp__kit_launch(built.function, &args), NULL, wrong[i].what);
  }
  close_built(kit, &built, "add, called after wrong calls");
}

/* Passes a tensor on another device, so its `data` is not a handle of this device. */
static void run_device(Kit *kit) {
  Built built;
  int32_t host[EXTENT] = {0};
  open_built(kit, &built);
  Add *add = &built.add;
  BpTensorView view = add->a.view;
  view.device.device_type =
      view.device.device_type == BP_DEVICE_CPU ? BP_DEVICE_PRIVATE_LAST : BP_DEVICE_CPU;
  view.data = host;
  add->args.values[0].v_view = &view;
  KIT_REFUSED(bp__kit_launch(built.function, &add->args), NULL,
              "a call with a tensor of another device");
  close_built(kit, &built, "add, called after a wrong call");
}

static void run_extents(Kit *kit) {
  static const int64_t wrong[] = {-1, INT64_MIN};
  Built built;
  open_built(kit, &built);
  Add *add = &built.add;
  if (add->args.count == 3)
    bp__kit_skip("the target has no thread axes, and its functions no launch");
  for (int32_t k = 3; k < add->args.count; k++)
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
      KitArgs args = add->args;
      char what[64];
      args.values[k].v_int64 = wrong[i];
      g_snprintf(what, sizeof what, "a launch of %" G_GINT64_FORMAT " blocks or threads", wrong[i]);
      KIT_REFUSED(bp__kit_launch(built.function, &args), NULL, what);
    }
  KitArgs args = add->args;
  args.values[3].v_int64 = args.values[4].v_int64 = INT64_MAX;
  KIT_REFUSED(bp__kit_launch(built.function, &args), NULL,
              "a launch of more threads than there can be");
  close_built(kit, &built, "add, called after wrong launches");
}

/* ---- Lifetime, threads ------------------------------------------------------------------- */

static void run_lifetime(Kit *kit) {
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  BpFunction *function = bp__kit_function(code.module, "add");
  bp_object_release(code.module);
  code.module = NULL;
  expect_adds(kit, &code, function, "a function whose module was released");
  bp_object_release(function);
  bp__kit_code_clear(&code);
}

typedef struct Shared {
  Kit *kit;
  KitCode code;
} Shared;

static void *call_often(void *context) {
  Shared *shared = context;
  KIT_OK(bp_device_set_current(shared->kit->target_device, NULL), "set_device in a thread");
  for (int i = 0; i < 20; i++) {
    BpFunction *function = bp__kit_function(shared->code.module, "add");
    expect_adds(shared->kit, &shared->code, function, "add, called by several threads at once");
    bp_object_release(function);
  }
  return NULL;
}

#define THREADS 4

/* Several threads make the first call, which may build the code, at the same time. */
static void run_threads(Kit *kit) {
  pthread_t threads[THREADS];
  bp__kit_open_target(kit);
  Shared shared = {kit, build_add(kit)};
  for (int i = 0; i < THREADS; i++)
    KIT_TRUE(pthread_create(&threads[i], NULL, call_often, &shared) == 0, "no thread");
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  bp__kit_code_clear(&shared.code);
}

/* ---- A module's description of itself ---------------------------------------------------- */

static void run_names(Kit *kit) {
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  char **names = bp_module_list_functions(code.module, NULL);
  KIT_TRUE(names, "visit_functions failed: %s", bp_error_message());
  if (!names[0] && bp_module_num_imports(code.module) == 0)
    bp__kit_skip("the module does not list its functions");
  KIT_TRUE(g_strv_contains((const char *const *)names, "add") &&
               g_strv_contains((const char *const *)names, "negate"),
           "the list of functions lacks a function of the module");
  bp_names_free(names);
  bp__kit_code_clear(&code);
}

static void run_source(Kit *kit) {
  BpOwnedBytes source = {0};
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  KIT_REFUSED(bp_module_get_source(code.module, "no-such-format", &source), BP_ERROR_VALUE,
              "get_source in an unknown format");
  if (bp_module_get_source(code.module, "", &source) != 0)
    bp__kit_skip("the module has no source: %s", bp_error_message());
  KIT_TRUE(source.size > 0, "the source is empty");
  bp_owned_bytes_clear(&source);
  bp__kit_code_clear(&code);
}

/* ---- Saving ------------------------------------------------------------------------------ */

/* Finds the first module that is saved as bytes: this one or an import. NULL: there is none. */
static BpModule *find_serializable(BpModule *module) {
  if (bp_module_get_property(module) & BP_MODULE_BINARY_SERIALIZABLE)
    return module;
  for (size_t i = 0; i < bp_module_num_imports(module); i++) {
    BpModule *found = find_serializable(bp_module_get_import(module, i));
    if (found)
      return found;
  }
  return NULL;
}

static BpModule *require_serializable(const KitCode *code) {
  BpModule *module = find_serializable(code->module);
  if (!module)
    bp__kit_skip("modules of kind %s are not saved as bytes", bp_module_kind(code->module));
  return module;
}

static BpModule *load_copy(BpModule *of, const BpOwnedBytes *bytes) {
  BpByteArray view = {bytes->data, bytes->size};
  return bp_module_load_from_bytes(bp_module_kind(of), &view);
}

static void run_save(Kit *kit) {
  BpOwnedBytes bytes = {0}, again = {0};
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  BpModule *saved = require_serializable(&code);
  KIT_OK(bp_module_save_to_bytes(saved, &bytes), "save_to_bytes");
  BpModule *loaded = load_copy(saved, &bytes);
  KIT_TRUE(loaded, "loading what was saved: %s", bp_error_message());
  KIT_TRUE(strcmp(bp_module_kind(loaded), bp_module_kind(saved)) == 0,
           "a module of kind %s was loaded as one of kind %s", bp_module_kind(saved),
           bp_module_kind(loaded));
  KIT_OK(bp_module_save_to_bytes(loaded, &again), "save_to_bytes of a loaded module");
  KIT_TRUE(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0,
           "a loaded module is saved as other bytes than it was loaded from");
  memset(bytes.data, 0xa5, bytes.size);
  bp_owned_bytes_clear(&bytes);
  bp_owned_bytes_clear(&again);
  BpFunction *function = bp__kit_function(loaded, "add"),
             *other = bp__kit_function(loaded, "negate");
  expect_adds(kit, &code, function, "a function of a loaded module");
  bp_object_release(other);
  bp_object_release(function);
  bp_object_release(loaded);
  bp__kit_code_clear(&code);
}

typedef struct Reload {
  const Kit *kit;
  const KitCode *code;
  BpModule *saved;
  const BpOwnedBytes *bytes;
} Reload;

#define RELOADS 5

static void reload_often(void *data) {
  const Reload *reload = data;
  for (int i = 0; i < RELOADS; i++) {
    BpModule *loaded = load_copy(reload->saved, reload->bytes);
    KIT_TRUE(loaded, "loading what was saved: %s", bp_error_message());
    BpFunction *function = bp__kit_function(loaded, "add");
    expect_adds(reload->kit, reload->code, function, "a function of a loaded module");
    bp_object_release(function);
    bp_object_release(loaded);
  }
}

static void run_leaks(Kit *kit) {
  BpOwnedBytes bytes = {0};
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  Reload reload = {kit, &code, require_serializable(&code), &bytes};
  KIT_OK(bp_module_save_to_bytes(reload.saved, &bytes), "save_to_bytes");
  bp__kit_expect_no_leak(reload_often, &reload, RELOADS * ((gint64)128 << 10),
                         "modules that came, ran and went");
  bp_owned_bytes_clear(&bytes);
  bp__kit_code_clear(&code);
}

/* Exports a library with everything that belongs to the module, and another module as its
 * import. */
static void run_export(Kit *kit) {
  bp__kit_open_target(kit);
  KitCode code = build_add(kit), other = build_text(kit, other_text);
  int32_t flags = bp_module_get_property(code.module);
  if (!(flags & (BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_COMPILATION_EXPORT)))
    bp__kit_skip("modules of kind %s are not exported", bp_module_kind(code.module));
  if (!g_getenv("BACKPLANE_CC") && !g_find_program_in_path("cc"))
    bp__kit_absent("no C compiler, which links libraries");
  char *path = g_build_filename(kit->folder, "exported.so", NULL);
  KIT_OK(bp_module_import(code.module, other.module), "importing a module");
  BpFunction *function = bp__kit_function(code.module, "other");
  expect_adds(kit, &code, function, "a function of an import");
  bp_object_release(function);
  KIT_OK(bp_module_export_library(code.module, path), "export_library");
  BpModule *loaded = bp_module_load(path);
  KIT_TRUE(loaded, "loading an exported library: %s", bp_error_message());
  function = bp__kit_function(loaded, "add");
  expect_adds(kit, &code, function, "a function of an exported library");
  bp_object_release(function);
  function = bp__kit_function(loaded, "other");
  expect_adds(kit, &code, function, "a function of an exported library's import");
  bp_object_release(function);
  bp_object_release(loaded);
  bp__kit_code_clear(&other);
  bp__kit_code_clear(&code);
  g_free(path);
}

/* ---- Damage ------------------------------------------------------------------------------ */

/* Loads bytes that are not a module; loading must fail with an error, or work. Asking for a
 * function may start a compiler. */
static void load_damaged(BpModule *of, const char *data, size_t size, gboolean asks) {
  char *copy = g_memdup2(data, size); /* exact size, to detect overreading */
  BpByteArray view = {copy, size};
  BpFunction *function = NULL;
  BpModule *module = bp_module_load_from_bytes(bp_module_kind(of), &view);
  KIT_TRUE(module || *bp_error_message(), "loading damaged bytes failed without an error");
  if (module && asks && bp_module_get_function(module, "add", 1, &function) == 0)
    bp_object_release(function);
  bp_error_clear();
  bp_object_release(module);
  g_free(copy);
}

static void run_truncated(Kit *kit) {
  BpOwnedBytes bytes = {0};
  Built built;
  open_built(kit, &built);
  BpModule *saved = require_serializable(&built.code);
  KIT_OK(bp_module_save_to_bytes(saved, &bytes), "save_to_bytes");
  size_t step = MAX(bytes.size / 200, 1);
  for (size_t size = 0; size < bytes.size; size += size < 64 ? 1 : step) {
    BpByteArray view = {bytes.data, size};
    char what[80];
    g_snprintf(what, sizeof what, "loading %zu of %zu bytes", size, bytes.size);
    BpModule *module = bp_module_load_from_bytes(bp_module_kind(saved), &view);
    KIT_REFUSED(module ? 0 : -1, NULL, what);
  }
  bp_owned_bytes_clear(&bytes);
  close_built(kit, &built, "add, after damaged bytes were loaded");
}

static void run_flipped(Kit *kit) {
  BpOwnedBytes bytes = {0};
  uint64_t state = kit->seed;
  Built built;
  open_built(kit, &built);
  BpModule *saved = require_serializable(&built.code);
  KIT_OK(bp_module_save_to_bytes(saved, &bytes), "save_to_bytes");
  for (int i = 0; i < 400; i++) {
    /* the first bytes, with sizes and counts, are chosen more often */
    size_t at = bp__random_next(&state) % (i % 2 ? bytes.size : MIN(bytes.size, 160));
    char flip = (char)(1 << bp__random_next(&state) % 8);
    bytes.data[at] ^= flip;
    load_damaged(saved, bytes.data, bytes.size, i % 9 == 0);
    bytes.data[at] ^= flip;
  }
  bp_owned_bytes_clear(&bytes);
  close_built(kit, &built, "add, after damaged bytes were loaded");
}

/* If the bytes contain source code, the vendor's compiler gets invalid source code. */
static void run_compile_error(Kit *kit) {
  static const char garbage[] = "@@ this is no program @@ ";
  BpOwnedBytes bytes = {0}, source = {0};
  Add add;
  bp__kit_open_target(kit);
  KitCode code = build_add(kit);
  BpModule *saved = require_serializable(&code);
  KIT_OK(bp_module_save_to_bytes(saved, &bytes), "save_to_bytes");
  if (bp_module_get_source(saved, "", &source) != 0 || source.size < sizeof garbage)
    bp__kit_skip("the module has no source");
  char *at = memmem(bytes.data, bytes.size, source.data, source.size);
  if (!at)
    bp__kit_skip("the module's bytes do not hold its source");
  memcpy(at, garbage, sizeof garbage - 1);
  add_create(kit, &code, &add);
  BpModule *module = load_copy(saved, &bytes);
  BpFunction *function = NULL;
  int rc = module ? bp_module_get_function(module, "add", 1, &function) : -1;
  if (rc == 0 && function)
    rc = bp__kit_launch(function, &add.args);
  if (rc == 0)
    rc = bp_stream_sync(kit->target_device, NULL);
  if (rc == 0 && function) {
    expect_adds(kit, &code, function, "a function with a damaged program");
    bp__kit_skip("the module does not need its source to run");
  }
  KIT_REFUSED(rc, BP_ERROR_COMPILE, "building a damaged program");
  bp_object_release(function);
  bp_object_release(module);
  function = bp__kit_function(code.module, "add");
  expect_adds(kit, &code, function, "add, after another program was refused");
  bp_object_release(function);
  add_clear(kit, &add);
  bp_owned_bytes_clear(&bytes);
  bp_owned_bytes_clear(&source);
  bp__kit_code_clear(&code);
}

static const Check checks[] = {
    {"module.build", "code is built, and its functions are found by name", "plugin.activate",
     CHECK_CORE, run_build},
    {"module.call", "a function of buffers and a scalar computes what the IR defines",
     "module.build copy.roundtrip", CHECK_CORE, run_call},
    {"module.launch.grid-x", "every block runs once, and none more", "module.call", CHECK_CORE,
     run_grid_x},
    {"module.launch.grid-yz", "blocks along y and z", "module.launch.grid-x", CHECK_CORE,
     run_grid_yz},
    {"module.launch.block", "every thread of a block runs once, and none more",
     "module.launch.grid-x", CHECK_CORE, run_block},
    {"module.launch.block-yz", "threads along y and z", "module.launch.block", CHECK_CORE,
     run_block_yz},
    {"module.launch.large", "as many blocks as the device allows, up to 70,000",
     "module.launch.grid-x", CHECK_CORE | CHECK_STRESS, run_large_grid},
    {"module.launch.most-threads", "a block of as many threads as the target allows",
     "module.launch.block", CHECK_CORE, run_most_threads},
    {"module.launch.most-shared", "all the shared memory that the target allows, and a barrier",
     "module.launch.block", CHECK_OPTIONAL, run_most_shared},
    {"module.arguments.scalars", "scalars arrive in order and in full", "module.call", CHECK_CORE,
     run_scalars},
    {"module.arguments.views", "a tensor's byte offset counts, read and written", "module.call",
     CHECK_CORE, run_views},
    {"module.arguments.handles", "a kernel accepts a bare handle as a buffer", "module.call",
     CHECK_OPTIONAL, run_handles},
    {"module.refuses.count", "a call with too few or too many arguments is a TypeError",
     "module.call", CHECK_CORE | CHECK_FAULT, run_count},
    {"module.refuses.types", "an argument of the wrong type is refused", "module.call",
     CHECK_CORE | CHECK_FAULT, run_types},
    {"module.refuses.device", "a tensor of another kind of device is refused", "module.call",
     CHECK_CORE | CHECK_FAULT, run_device},
    {"module.refuses.extents",
     "a launch of a negative number of threads, or of too many, is refused", "module.call",
     CHECK_OPTIONAL | CHECK_FAULT, run_extents},
    {"module.lifetime", "a function keeps its module alive", "module.call", CHECK_CORE,
     run_lifetime},
    {"module.threads", "several threads find and call functions at once", "module.call",
     CHECK_CORE | CHECK_STRESS, run_threads},
    {"module.names", "the module lists its functions", "module.build", CHECK_OPTIONAL, run_names},
    {"module.source", "the module has a source, but not in an unknown format", "module.build",
     CHECK_OPTIONAL, run_source},
    {"module.save", "a saved module is loaded, works, and is saved as the same bytes",
     "module.call", CHECK_OPTIONAL, run_save},
    {"module.export", "a module exported as a library, with an import, is loaded and works",
     "module.call", CHECK_OPTIONAL, run_export},
    {"module.truncated", "every truncation of the bytes is refused", "module.save",
     CHECK_OPTIONAL | CHECK_FAULT, run_truncated},
    {"module.flipped", "flipping any bit of the bytes causes no crash", "module.save",
     CHECK_OPTIONAL | CHECK_FAULT, run_flipped},
    {"module.compile-error", "a program that cannot be built is a CompileError with a reason",
     "module.save", CHECK_OPTIONAL | CHECK_FAULT, run_compile_error},
};

static const Check reload_checks[] = {
    {"module.leaks", "modules that come and go leave no threads, descriptors or memory behind",
     "module.save launch.leaks", CHECK_OPTIONAL, run_leaks},
};

const Section bp__kit_reload_section = {"module", NEEDS_TARGET, reload_checks,
                                        G_N_ELEMENTS(reload_checks)};
const Section bp__kit_module_section = {"module", NEEDS_TARGET, checks, G_N_ELEMENTS(checks)};
