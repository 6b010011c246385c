/* SPDX-License-Identifier: Apache-2.0 */
/* Section kernels: computations that are typical of models, in the schedules that the host's
 * compiler chooses for the target. The expected results come from the interpreter, for the same
 * computations without a schedule. */
#include <string.h>

#include <backplane/compiler/kernels.h>
#include <backplane/compiler/schedules.h>

#include "conformance/judge.h"
#include "conformance/programs.h"
#include "conformance/random.h"

#define MAX_INPUTS 3

/* ---- Short forms for writing bodies ------------------------------------------------------ */

static const BpDataType int64 = {BP_DTYPE_INT, 64, 1};

static const BpIrNode *number(BpTe *te, int64_t value) {
  return bp_ir_int(bp_te_ir(te), int64, value);
}

static const BpIrNode *zero(BpTe *te) {
  return bp_ir_float(bp_te_ir(te), KIT_FLOAT32, 0);
}

static const BpIrNode *op(BpTe *te, int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(bp_te_ir(te), kind, a, b);
}

static const BpIrNode *read1(BpTe *te, BpTeTensor *tensor, const BpIrNode *i) {
  return bp_te_read(te, tensor, &i);
}

static const BpIrNode *read2(BpTe *te, BpTeTensor *tensor, const BpIrNode *i, const BpIrNode *k) {
  return bp_te_read(te, tensor, (const BpIrNode *const[]){i, k});
}

/* The tensors that bodies read: inputs and intermediate results. */
typedef struct Tensors {
  BpTeTensor *inputs[MAX_INPUTS];
  BpTeTensor *first, *second, *third;
} Tensors;

static BpTeTensor *input(BpTe *te, Tensors *t, int index, BpDataType dtype, const int64_t *shape,
                         int32_t ndim) {
  static const char *const names[MAX_INPUTS] = {"a", "b", "c"};
  return t->inputs[index] = bp_te_placeholder(te, names[index], dtype, shape, ndim);
}

/* ---- Computations ------------------------------------------------------------------------ */

static const BpIrNode *limited_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *sum = op(te, BP_IR_ADD, read2(te, t->inputs[0], axes[0], axes[1]),
                           read2(te, t->inputs[1], number(te, 0), axes[1]));
  return op(te, BP_IR_MAX, op(te, BP_IR_MUL, sum, sum), zero(te));
}

/* Rows of 37 elements, too short to fill vectors, with an operand that all rows share. */
static BpTeTensor *make_elementwise(BpTe *te, Tensors *t) {
  input(te, t, 0, KIT_FLOAT32, (const int64_t[]){50, 37}, 2);
  input(te, t, 1, KIT_FLOAT32, (const int64_t[]){1, 37}, 2);
  return bp_te_compute(te, "y", (const int64_t[]){50, 37}, 2, limited_body, t);
}

static const BpIrNode *transposed_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return read2(te, ((const Tensors *)context)->inputs[0], axes[1], axes[0]);
}

static BpTeTensor *make_transposed(BpTe *te, Tensors *t) {
  input(te, t, 0, KIT_INT32, (const int64_t[]){45, 61}, 2);
  return bp_te_compute(te, "y", (const int64_t[]){61, 45}, 2, transposed_body, t);
}

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", bp_te_tensor_shape(t->inputs[0])[1]);
  const BpIrNode *product =
      op(te, BP_IR_MUL, read2(te, t->inputs[0], axes[0], k), read2(te, t->inputs[1], k, axes[1]));
  return bp_te_reduce(te, BP_TE_SUM, product, &k, 1);
}

static const BpIrNode *biased_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *sum = op(te, BP_IR_ADD, read2(te, t->first, axes[0], axes[1]),
                           read2(te, t->inputs[2], number(te, 0), axes[1]));
  return op(te, BP_IR_MAX, sum, zero(te));
}

/* No extent is a multiple of a tile's extent. */
static BpTeTensor *make_product(BpTe *te, Tensors *t) {
  const int64_t shape[] = {33, 29};
  input(te, t, 0, KIT_FLOAT32, (const int64_t[]){33, 47}, 2);
  input(te, t, 1, KIT_FLOAT32, (const int64_t[]){47, 29}, 2);
  input(te, t, 2, KIT_FLOAT32, (const int64_t[]){1, 29}, 2);
  t->first = bp_te_compute(te, "sums", shape, 2, product_body, t);
  return bp_te_compute(te, "y", shape, 2, biased_body, t);
}

#define CHANNELS 3
#define ROWS     11
#define COLUMNS  13

static const BpIrNode *within(BpTe *te, const BpIrNode *place, int64_t extent) {
  return op(te, BP_IR_AND, op(te, BP_IR_GE, place, number(te, 0)),
            op(te, BP_IR_LT, place, number(te, extent)));
}

static const BpIrNode *padded_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *y = op(te, BP_IR_SUB, axes[1], number(te, 1));
  const BpIrNode *x = op(te, BP_IR_SUB, axes[2], number(te, 1));
  return bp_te_read_if(te, t->inputs[0], (const BpIrNode *const[]){axes[0], y, x},
                       op(te, BP_IR_AND, within(te, y, ROWS), within(te, x, COLUMNS)));
}

static const BpIrNode *convolution_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *k[] = {bp_te_reduce_axis(te, "c", CHANNELS), bp_te_reduce_axis(te, "i", 3),
                         bp_te_reduce_axis(te, "j", 3)};
  const BpIrNode *from[] = {k[0], op(te, BP_IR_ADD, axes[1], k[1]),
                            op(te, BP_IR_ADD, axes[2], k[2])};
  const BpIrNode *weight[] = {axes[0], k[0], k[1], k[2]};
  return bp_te_reduce(
      te, BP_TE_SUM,
      op(te, BP_IR_MUL, bp_te_read(te, t->first, from), bp_te_read(te, t->inputs[1], weight)), k,
      3);
}

/* A convolution with a window of 3 by 3 and a border of zeros. */
static BpTeTensor *make_convolution(BpTe *te, Tensors *t) {
  input(te, t, 0, KIT_FLOAT32, (const int64_t[]){CHANNELS, ROWS, COLUMNS}, 3);
  input(te, t, 1, KIT_FLOAT32, (const int64_t[]){8, CHANNELS, 3, 3}, 4);
  t->first = bp_te_compute(te, "padded", (const int64_t[]){CHANNELS, ROWS + 2, COLUMNS + 2}, 3,
                           padded_body, t);
  return bp_te_compute(te, "y", (const int64_t[]){8, ROWS, COLUMNS}, 3, convolution_body, t);
}

static const BpIrNode *column_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", bp_te_tensor_shape(t->inputs[0])[0]);
  return bp_te_reduce(te, BP_TE_SUM, read2(te, t->inputs[0], k, axes[0]), &k, 1);
}

static BpTeTensor *make_columns(BpTe *te, Tensors *t) {
  input(te, t, 0, KIT_INT32, (const int64_t[]){61, 45}, 2);
  return bp_te_compute(te, "y", (const int64_t[]){45}, 1, column_body, t);
}

#define ROW 203

static const BpIrNode *most_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *k = bp_te_reduce_axis(te, "k", ROW);
  return bp_te_reduce(te, BP_TE_MAX, read2(te, ((const Tensors *)context)->inputs[0], axes[0], k),
                      &k, 1);
}

static const BpIrNode *power_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  const BpIrNode *below =
      op(te, BP_IR_SUB, read2(te, t->inputs[0], axes[0], axes[1]), read1(te, t->first, axes[0]));
  return bp_ir_call(bp_te_ir(te), KIT_FLOAT32, BP_IR_CALL_INTRINSIC, "exp", &below, 1);
}

static const BpIrNode *sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *k = bp_te_reduce_axis(te, "k", ROW);
  return bp_te_reduce(te, BP_TE_SUM, read2(te, ((const Tensors *)context)->second, axes[0], k), &k,
                      1);
}

static const BpIrNode *share_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Tensors *t = context;
  return op(te, BP_IR_DIV, read2(te, t->second, axes[0], axes[1]), read1(te, t->third, axes[0]));
}

static BpTeTensor *make_softmax(BpTe *te, Tensors *t) {
  const int64_t shape[] = {5, ROW};
  input(te, t, 0, KIT_FLOAT32, shape, 2);
  t->first = bp_te_compute(te, "most", shape, 1, most_body, t);
  t->second = bp_te_compute(te, "powers", shape, 2, power_body, t);
  t->third = bp_te_compute(te, "sums", shape, 1, sum_body, t);
  return bp_te_compute(te, "y", shape, 2, share_body, t);
}

/* ---- Lowering ---------------------------------------------------------------------------- */

typedef BpTeTensor *Make(BpTe *te, Tensors *t);

/* A lowered computation: a function of its inputs and, last, its output. */
typedef struct Lowered {
  BpTe *te;
  BpIrModule *module;
  BpTeTensor *args[MAX_INPUTS + 1];
  int32_t num_args;
} Lowered;

/* Lowers a computation with the schedule for a target, or without a schedule. */
static Lowered lower(Make *make, const BpTarget *target) {
  Lowered lowered = {.te = bp_te_create(), .module = bp_ir_module_create()};
  BpLowerOptions options = {.struct_size = sizeof options, .target = target};
  Tensors t = {.first = NULL};
  KIT_TRUE(lowered.te && lowered.module, "the kit's own computation: %s", bp_error_message());
  BpTeTensor *output = make(lowered.te, &t);
  while (lowered.num_args < MAX_INPUTS && t.inputs[lowered.num_args]) {
    lowered.args[lowered.num_args] = t.inputs[lowered.num_args];
    lowered.num_args++;
  }
  lowered.args[lowered.num_args++] = output;
  KIT_TRUE(output && (!target || bp_schedule_auto(lowered.te, &output, 1, target) == 0) &&
               bp_te_lower(lowered.te, "f", lowered.args, lowered.num_args, &options,
                           lowered.module) == 0,
           "the kit's own computation: %s", bp_error_message());
  return lowered;
}

static void lowered_clear(Lowered *lowered) {
  bp_object_release(lowered->module);
  bp_te_free(lowered->te);
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Makes small integers, so that sums are exact in any order. */
static void *make_data(BpTeTensor *tensor, int64_t elements, uint64_t *state) {
  int32_t *ints = g_new0(int32_t, (gsize)elements);
  for (int64_t i = 0; i < elements; i++) {
    ints[i] = (int32_t)(bp__random_next(state) % 9) - 4;
    float value = (float)ints[i];
    if (bp_te_tensor_dtype(tensor).code == BP_DTYPE_FLOAT)
      memcpy(&ints[i], &value, sizeof value);
  }
  return ints;
}

static int64_t count_elements(BpTeTensor *tensor) {
  int64_t elements = 1;
  for (int32_t i = 0; i < bp_te_tensor_ndim(tensor); i++)
    elements *= bp_te_tensor_shape(tensor)[i];
  return elements;
}

/* Returns a view with the tensor's shape and type. */
static void shape_view(BpTensorView *view, BpTeTensor *tensor) {
  view->ndim = bp_te_tensor_ndim(tensor);
  view->shape = (int64_t *)(uintptr_t)bp_te_tensor_shape(tensor);
}

/* Runs the kernels one after another, and allocates the buffers between them. */
static void run_kernels(const Kit *kit, const Lowered *lowered, KitBuffer *params) {
  BpIrModule *module = bp_ir_module_create();
  const BpKernelList *list = module ? bp_ir_split_kernels(lowered->module, "f", 1, module) : NULL;
  KIT_TRUE(list, "the kit's own computation: %s", bp_error_message());
  char *text = bp_ir_print(module);
  KitCode code = bp__kit_build(kit, text);
  KitBuffer *between = g_new0(KitBuffer, (gsize)list->num_buffers + 1);
  for (int32_t i = 0; i < list->num_buffers; i++)
    bp__kit_buffer_create(kit, &between[i], list->buffer_dtypes[i],
                          bp_ir_table()->int_value(list->buffer_elements[i]));
  for (int32_t i = 0; i < list->num_kernels; i++) {
    const BpKernelLaunch *kernel = bp_kernel_list_get(list, i);
    KitArgs args = {.count = 0};
    for (int32_t k = 0; k < kernel->num_args; k++)
      bp__kit_args_add(&args,
                       bp__kit_buffer_value(kernel->args[k] < 0 ? &between[-1 - kernel->args[k]]
                                                                : &params[kernel->args[k]]));
    for (int32_t k = 0; k < kernel->num_launch && bp__kit_has_threads(kit); k++)
      bp__kit_args_add_int(&args, bp_ir_table()->int_value(kernel->launch[k]));
    BpFunction *function = bp__kit_function(code.module, kernel->name);
    KIT_OK(bp__kit_launch(function, &args), "the call of a function");
    bp_object_release(function);
  }
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync after calls");
  for (int32_t i = 0; i < list->num_buffers; i++)
    bp__kit_buffer_free(kit, &between[i]);
  g_free(between);
  bp_str_free(text);
  bp__kit_code_clear(&code);
  bp_object_release(module);
}

static void run_function(const Kit *kit, const Lowered *lowered, KitBuffer *params) {
  char *text = bp_ir_print(lowered->module);
  KitCode code = bp__kit_build(kit, text);
  BpFunction *function = bp__kit_function(code.module, "f");
  KitArgs args = {.count = 0};
  for (int32_t i = 0; i < lowered->num_args; i++)
    bp__kit_args_add(&args, bp__kit_buffer_value(&params[i]));
  bp__kit_call(kit, function, &args, NULL);
  bp_object_release(function);
  bp_str_free(text);
  bp__kit_code_clear(&code);
}

static void interpret(const Lowered *plain, void *const *data) {
  BpTensorView views[MAX_INPUTS + 1];
  BpValue args[MAX_INPUTS + 1];
  for (int32_t i = 0; i < plain->num_args; i++) {
    views[i] = (BpTensorView){.data = data[i], .device = KIT_HOST};
    views[i].dtype = bp_te_tensor_dtype(plain->args[i]);
    shape_view(&views[i], plain->args[i]);
    args[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
    args[i].v_view = &views[i];
  }
  KIT_OK(bp_ir_interpret(plain->module, "f", args, plain->num_args), "the interpreter");
}

static void expect_result(BpTeTensor *tensor, const void *got, const void *expected) {
  const char *type = bp_te_tensor_dtype(tensor).code == BP_DTYPE_FLOAT ? "float32" : "int32";
  for (int64_t i = 0; i < count_elements(tensor); i++)
    KIT_TRUE(bp__judge_agrees(type, got, expected, i, 0),
             "element %" G_GINT64_FORMAT " of the result is %.9g and not %.9g", i,
             bp__judge_number(type, got, i), bp__judge_number(type, expected, i));
}

/* Checks that an input has not changed. */
static void expect_unchanged(const Kit *kit, const KitBuffer *input, const void *data, int32_t i) {
  char *got = g_malloc(input->bytes);
  bp__kit_buffer_get(kit, input, got, NULL);
  KIT_TRUE(memcmp(got, data, input->bytes) == 0, "input %d has changed", i);
  g_free(got);
}

static void run_computation(Kit *kit, Make *make) {
  KitBuffer params[MAX_INPUTS + 1];
  void *data[MAX_INPUTS + 1];
  uint64_t state = kit->seed;
  bp__kit_open_target(kit);
  Lowered plain = lower(make, NULL), scheduled = lower(make, kit->target);
  int32_t last = plain.num_args - 1;
  for (int32_t i = 0; i <= last; i++) {
    BpTeTensor *tensor = plain.args[i];
    data[i] = make_data(tensor, count_elements(tensor), &state);
    bp__kit_buffer_create(kit, &params[i], bp_te_tensor_dtype(tensor), count_elements(tensor));
    bp__kit_buffer_set(kit, &params[i], data[i], NULL);
    shape_view(&params[i].view, tensor);
  }
  (bp__kit_runs_on_host(kit) && !bp__kit_has_threads(kit) ? run_function
                                                          : run_kernels)(kit, &scheduled, params);
  void *got = g_malloc0((gsize)count_elements(plain.args[last]) * 4);
  bp__kit_buffer_get(kit, &params[last], got, NULL);
  interpret(&plain, data);
  expect_result(plain.args[last], got, data[last]);
  for (int32_t i = 0; i < last; i++)
    expect_unchanged(kit, &params[i], data[i], i);
  for (int32_t i = 0; i <= last; i++) {
    bp__kit_buffer_free(kit, &params[i]);
    g_free(data[i]);
  }
  g_free(got);
  lowered_clear(&plain);
  lowered_clear(&scheduled);
}

/* ---- Checks ------------------------------------------------------------------------------ */

/* X(name, description, prerequisites, tags) */
#define COMPUTATIONS(X)                                                                            \
  X(elementwise, "rows that share an operand, element by element", NUMBERS, CHECK_CORE)            \
  X(transposed, "a matrix, transposed", NUMBERS, CHECK_CORE)                                       \
  X(columns, "sums of columns", NUMBERS, CHECK_CORE)                                               \
  X(product, "a matrix product with a bias", NUMBERS, CHECK_CORE)                                  \
  X(convolution, "a convolution with a border", NUMBERS, CHECK_CORE)                               \
  X(softmax, "softmax", NUMBERS " intrinsics.exp", CHECK_OPTIONAL)
#define NUMBERS "types.int32 types.float32"

#define RUN(name, text, after, tags)                                                               \
  static void run_##name(Kit *kit) {                                                               \
    run_computation(kit, make_##name);                                                             \
  }
COMPUTATIONS(RUN)

#define CHECK(name, text, after, tags)                                                             \
  {"kernels." #name, text ", in the host's schedule for the target", after, tags, run_##name},

static const Check checks[] = {COMPUTATIONS(CHECK)};

const Section bp__kit_kernels_section = {"kernels", NEEDS_TARGET, checks, G_N_ELEMENTS(checks)};
