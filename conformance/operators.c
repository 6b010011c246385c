/* SPDX-License-Identifier: Apache-2.0 */
/* Section operators: single operators of ONNX that a plugin offers as packed functions
 * (backplane/graph_compiler.h) agree with the reference code of the host, and refuse wrong
 * calls. */
#include <math.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/graph/model.h>
#include <backplane/operator_call.h>
#include <backplane/tensor.h>

#include "conformance/kit.h"
#include "conformance/onnx.h"

#define MOST_ARGS 40
#define OPSET     17 /* operator set of the kit's models */

/* ---- Samples ----------------------------------------------------------------------------- */

/* A sample: inputs "f32 2x3 ...", and attributes as in the kit's models. */
typedef struct Sample {
  const char *op, *inputs, *attrs;
} Sample;

static const Sample samples[] = {
    {"Conv", "1x3x12x11 5x3x3x3 5", "kernel_shape=3,3 pads=1,1,1,1 strides=2,2"},
    {"Conv", "2x4x9x8 6x2x2x3", "kernel_shape=2,3 group=2"},
    {"MatMul", "3x17 17x9", ""},
    {"MatMul", "2x5x7 2x7x3", ""},
    {"Gemm", "4x9 6x9 6", "transB=1"},
    {"MaxPool", "2x3x9x10", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
    {"AveragePool", "2x3x9x10", "kernel_shape=2,2"},
    {"GlobalAveragePool", "2x3x9x10", ""},
    {"Softmax", "3x4x7", "axis=-1"},
    {"Relu", "2x3x4x5", ""},
    {"Add", "2x3x4 2x3x4", ""},
    {"Mul", "2x3x4 2x3x4", ""},
    {"Sigmoid", "3x8", ""},
    {"Tanh", "3x8", ""},
};

/* Returns the names after "operator." of the functions that the plugin provides (g_strfreev). */
static char **list_operators(const Kit *kit) {
  char **names = g_strsplit(kit->info->provides, " ", -1);
  GPtrArray *operators = g_ptr_array_new();
  for (char **name = names; *name; name++)
    if (g_str_has_prefix(*name, "operator."))
      g_ptr_array_add(operators, g_strdup(*name));
  g_ptr_array_add(operators, NULL);
  g_strfreev(names);
  return (char **)g_ptr_array_free(operators, FALSE);
}

static BpFunction *find_function(const char *name) {
  BpFunction *function = NULL;
  KIT_OK(bp_registry_get(name, &function), name);
  KIT_TRUE(function, "%s is not registered", name);
  return function;
}

/* ---- Calls ------------------------------------------------------------------------------- */

/* A call of a sample: its arguments, and the objects that they refer to. */
typedef struct Call {
  BpValue args[MOST_ARGS];
  int32_t count;
  BpTensor *inputs[BP_OPERATOR_MAX_TENSORS], *output;
  int32_t num_inputs;
  GPtrArray *shapes; /* BpShape */
  char **attrs;
} Call;

static BpDevice device_of(const Kit *kit) {
  return kit->kinds[0] ? kit->device : KIT_HOST;
}

static BpTensor *make_tensor(const Kit *kit, const int64_t *shape, int32_t ndim) {
  BpTensor *tensor = bp_tensor_create(shape, ndim, KIT_FLOAT32, device_of(kit), NULL);
  KIT_TRUE(tensor, "a tensor for an operator: %s", bp_error_message());
  return tensor;
}

/* Returns floats from -1 to 1 (g_free). */
static float *random_floats(gsize count, uint64_t seed) {
  GRand *random = g_rand_new_with_seed((guint32)seed);
  float *floats = g_new0(float, count + 1);
  for (gsize i = 0; i < count; i++)
    floats[i] = (float)g_rand_double_range(random, -1, 1);
  g_rand_free(random);
  return floats;
}

/* Returns the numbers of input `index` (g_free). */
static float *input_floats(const Kit *kit, const BpTensorView *view, int32_t index) {
  return random_floats((gsize)bp_view_num_elements(view), kit->seed + (uint64_t)index);
}

static void push(Call *call, BpValue value) {
  KIT_TRUE(call->count < MOST_ARGS, "a call has too many arguments");
  call->args[call->count++] = value;
}

static BpValue tensor_value(BpTensor *tensor) {
  return (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &tensor->view};
}

static int32_t read_numbers(const char *text, char between, int64_t *numbers) {
  int32_t count = 0;
  for (char *at = (char *)(uintptr_t)text; *at; at += *at == between)
    numbers[count++] = g_ascii_strtoll(at, &at, 10);
  return count;
}

static void push_attribute(Call *call, char *text) {
  char *value = strchr(text, '=');
  int64_t numbers[8];
  *value++ = '\0';
  int32_t count = read_numbers(value, ',', numbers);
  push(call, (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text});
  if (count == 1) {
    push(call, (BpValue){.type_index = BP_TYPE_INT, .v_int64 = numbers[0]});
    return;
  }
  BpShape *shape = bp_shape_create(numbers, (size_t)count);
  g_ptr_array_add(call->shapes, shape);
  push(call, (BpValue){.type_index = BP_TYPE_SHAPE, .v_obj = &shape->header});
}

static void make_inputs(const Kit *kit, const Sample *sample, Call *call) {
  char **texts = g_strsplit(sample->inputs, " ", -1);
  for (char **text = texts; *text; text++) {
    int64_t shape[8];
    BpTensor *tensor = make_tensor(kit, shape, read_numbers(*text, 'x', shape));
    float *floats = input_floats(kit, &tensor->view, call->num_inputs);
    KIT_OK(
        bp_tensor_copy_from_host(&tensor->view, floats, (uint64_t)bp_view_num_bytes(&tensor->view)),
        "an input of an operator");
    call->inputs[call->num_inputs++] = tensor;
    g_free(floats);
  }
  g_strfreev(texts);
}

/* Makes the call whose output has the shape of `like`. */
static void make_call(const Kit *kit, const Sample *sample, const BpTensorView *like, Call *call) {
  *call = (Call){.shapes = g_ptr_array_new_with_free_func(bp_object_release)};
  make_inputs(kit, sample, call);
  call->output = make_tensor(kit, like->shape, like->ndim);
  push(call, (BpValue){.type_index = BP_TYPE_INT, .v_int64 = OPSET});
  push(call, (BpValue){.type_index = BP_TYPE_INT, .v_int64 = call->num_inputs});
  for (int32_t i = 0; i < call->num_inputs; i++)
    push(call, tensor_value(call->inputs[i]));
  push(call, (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 1});
  push(call, tensor_value(call->output));
  call->attrs = g_strsplit(sample->attrs, " ", -1);
  for (char **attr = call->attrs; *attr && **attr; attr++)
    push_attribute(call, *attr);
}

static void clear_call(Call *call) {
  for (int32_t i = 0; i < call->num_inputs; i++)
    bp_tensor_release(call->inputs[i]);
  bp_tensor_release(call->output);
  g_ptr_array_unref(call->shapes);
  g_strfreev(call->attrs);
}

/* Calls an operator and waits for its work. */
static int run_call(const Kit *kit, BpFunction *function, const BpValue *args, int32_t count) {
  BpValue result;
  return bp_function_call(function, args, count, &result) || bp_stream_sync(device_of(kit), NULL)
             ? -1
             : 0;
}

/* ---- The reference ----------------------------------------------------------------------- */

/* Returns the sample as the text of one of the kit's models (g_free). */
static char *model_of(const Sample *sample) {
  GString *text = g_string_new(NULL), *names = g_string_new(NULL);
  char **shapes = g_strsplit(sample->inputs, " ", -1);
  for (int i = 0; shapes[i]; i++) {
    g_string_append_printf(text, "input v%d f32 %s\n", i, shapes[i]);
    g_string_append_printf(names, "%sv%d", i ? "," : "", i);
  }
  g_string_append_printf(text, "node %s %s y %s\noutput y", sample->op, names->str, sample->attrs);
  g_strfreev(shapes);
  g_string_free(names, TRUE);
  return g_string_free(text, FALSE);
}

static BpModule *compile_reference(const Kit *kit, const Sample *sample) {
  char *text = model_of(sample), *path = g_strdup_printf("%s/%s.onnx", kit->folder, sample->op);
  GByteArray *bytes = bp__kit_onnx(text);
  BpTarget *c = bp_target_parse("c");
  if (!c)
    bp__kit_absent("there is no target c, of the plugin cpu, for the reference: %s",
                   bp_error_message());
  const BpTarget *const targets[] = {c};
  const BpCompileOptions options = {
      .struct_size = sizeof options, .targets = targets, .num_targets = 1, .is_reference = 1};
  KIT_TRUE(g_file_set_contents(path, (const char *)bytes->data, bytes->len, NULL),
           "%s cannot be written", path);
  BpModule *module = bp_model_compile(path, &options);
  KIT_TRUE(module, "the reference of %s: %s", sample->op, bp_error_message());
  bp_object_release(c);
  g_byte_array_unref(bytes);
  g_free(path);
  g_free(text);
  return module;
}

/* Computes the reference's output (transfer full), on the host. */
static BpTensor *compute_reference(const Kit *kit, const Sample *sample) {
  BpModule *module = compile_reference(kit, sample);
  BpModel *model = bp_model_create(module, &KIT_HOST, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  KIT_TRUE(context, "the reference of %s: %s", sample->op, bp_error_message());
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    BpTensorView view = {.device = KIT_HOST,
                         .ndim = info->ndim,
                         .dtype = info->dtype,
                         .shape = (int64_t *)(uintptr_t)info->shape};
    view.data = input_floats(kit, &view, i);
    KIT_OK(bp_model_set_input(context, info->name, &view), info->name);
    g_free(view.data);
  }
  KIT_OK(bp_model_run(context), "running the reference");
  BpTensor *output = bp_model_get_output(context, 0);
  KIT_TRUE(output, "the reference of %s: %s", sample->op, bp_error_message());
  BpTensor *copy =
      bp_tensor_create(output->view.shape, output->view.ndim, KIT_FLOAT32, KIT_HOST, NULL);
  KIT_TRUE(copy, "a tensor: %s", bp_error_message());
  KIT_OK(bp_tensor_copy_to_host(&output->view, copy->view.data,
                                (uint64_t)bp_view_num_bytes(&output->view)),
         "the reference's output");
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
  return copy;
}

/* ---- Checks ------------------------------------------------------------------------------ */

static void run_names(Kit *kit) {
  char **operators = list_operators(kit);
  for (char **name = operators; *name; name++) {
    BpFunction *function = find_function(*name);
    const BpValue wrong[] = {{.type_index = BP_TYPE_INT, .v_int64 = OPSET},
                             {.type_index = BP_TYPE_INT, .v_int64 = 1},
                             {.type_index = BP_TYPE_INT, .v_int64 = 1}};
    for (int32_t count = 0; count <= (int32_t)G_N_ELEMENTS(wrong); count++)
      KIT_REFUSED(run_call(kit, function, wrong, count), NULL, *name);
    bp_object_release(function);
  }
  g_strfreev(operators);
}

/* Compares the outputs, and checks that no input was written. */
static void judge_call(const Kit *kit, const char *name, const Call *call, const BpTensor *want) {
  gsize count = (gsize)bp_view_num_elements(&want->view);
  float *got = g_new0(float, count + 1);
  const float *expected = want->view.data;
  KIT_OK(bp_tensor_copy_to_host(&call->output->view, got, count * sizeof(float)), name);
  for (gsize i = 0; i < count; i++)
    KIT_TRUE(fabsf(got[i] - expected[i]) <= 1e-4f + 1e-4f * fabsf(expected[i]),
             "%s: element %zu is %g, and that of the reference %g", name, i, (double)got[i],
             (double)expected[i]);
  g_free(got);
  for (int32_t i = 0; i < call->num_inputs; i++) {
    const BpTensorView *view = &call->inputs[i]->view;
    gsize size = (gsize)bp_view_num_bytes(view);
    float *given = input_floats(kit, view, i), *now = g_malloc0(size + 1);
    KIT_OK(bp_tensor_copy_to_host(view, now, size), name);
    bp__kit_expect_bytes(now, given, size, "an input of the operator, after the call,");
    g_free(given);
    g_free(now);
  }
}

/* A call with an output of another shape is refused. */
static void judge_wrong_shape(const Kit *kit, BpFunction *function, const char *name,
                              const Call *call) {
  int64_t shape[8];
  BpValue args[MOST_ARGS];
  BpTensorView wrong = call->output->view;
  memcpy(shape, wrong.shape, (size_t)wrong.ndim * sizeof *shape);
  shape[wrong.ndim - 1]--;
  wrong.shape = shape;
  memcpy(args, call->args, sizeof args);
  args[call->num_inputs + 3].v_view = &wrong;
  KIT_REFUSED(run_call(kit, function, args, call->count), NULL, name);
}

/* Calls an operator on the kit's samples of that operator. A sample that the operator refuses as
 * not implemented counts as called. */
static int call_samples(Kit *kit, const char *name) {
  const char *op = strrchr(name, '.') + 1;
  BpFunction *function = find_function(name);
  int num_called = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    if (strcmp(samples[i].op, op))
      continue;
    BpTensor *want = compute_reference(kit, &samples[i]);
    Call call;
    make_call(kit, &samples[i], &want->view, &call);
    int rc = run_call(kit, function, call.args, call.count);
    gboolean is_lacking = rc && bp_error_is(BP_ERROR_NOT_IMPLEMENTED);
    KIT_TRUE(!rc || is_lacking, "%s with inputs %s %s: %s", name, samples[i].inputs,
             samples[i].attrs, bp_error_message());
    bp_error_clear();
    if (!is_lacking) {
      judge_call(kit, name, &call, want);
      judge_wrong_shape(kit, function, name, &call);
      KIT_OK(run_call(kit, function, call.args, call.count), name);
      judge_call(kit, name, &call, want);
      num_called++;
    }
    clear_call(&call);
    bp_tensor_release(want);
    bp__kit_go_on();
  }
  bp_object_release(function);
  return num_called;
}

static void run_results(Kit *kit) {
  char **operators = list_operators(kit);
  int num_called = 0;
  if (kit->kinds[0]) {
    bp__kit_require_device(kit);
    bp__kit_open_device(kit);
  }
  for (char **name = operators; *name; name++)
    num_called += call_samples(kit, *name);
  g_strfreev(operators);
  if (!num_called)
    bp__kit_skip("the plugin has no operator of the kit's samples");
}

static const Check checks[] = {
    {"operators.names",
     "each operator that the descriptor names is a function, which refuses calls "
     "without tensors",
     "plugin.activate", CHECK_CORE, run_names},
    {"operators.result",
     "operators compute what the reference does, keep their inputs, and refuse "
     "an output of another shape",
     "operators.names", CHECK_OPTIONAL, run_results},
};

const Section bp__kit_operators_section = {"operators", NEEDS_OPERATORS, checks,
                                           G_N_ELEMENTS(checks)};
