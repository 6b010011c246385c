/* SPDX-License-Identifier: Apache-2.0 */
/* No operator is slower than expected by orders of magnitude. One model has a node for each case,
 * and the profile of its runs times them in turn, on one core: a busy machine slows all cases
 * alike, and minimum times are compared. The unit of a case is the time of Relu for as many bytes,
 * or of a matrix product for as many multiply-adds. Caches are cold for each case. A case fails if
 * it takes ten times as long as when its time was recorded. */
#include "tests/graph/compile_check.h"

#include <string.h>
#include <unistd.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

/* Inputs and constants, by the first letters of their names. */
static const struct {
  const char *name, *shape, *open_shape;
  int64_t count;
} inputs[] = {
    {"rows", "512x512", "nxn", 262144},
    {"other", "512x512", "nxn", 262144},
    {"row", "512", "n", 512},
    {"column", "512x1", "nx1", 512},
    {"picture", "1x32x56x56", "1x32xhxw", 100352},
    {"channels", "32", "32", 32},
    {"long", "65536x4", "mx4", 262144},
    {"batch", "8x128x256", "pxqxr", 262144},
    {"token", "1x512", "sx512", 512},
    {"left", "512x512", "ixk", 262144},
    {"right", "512x512", "kxj", 262144},
    {"turned", "512x512", "jxk", 262144},
    {"samples", "2x56x56x2", "vxhxwx2", 12544},
    {"pictures", "2x8x56x56", "vx8xhxw", 50176},
};

static const struct {
  const char *name, *shape;
} weights[] = {
    {"w1", "32x32x1x1"}, {"w3", "32x32x3x3"}, {"wd", "32x1x3x3"},    {"wg", "32x8x3x3"},
    {"wt", "32x16x4x4"}, {"wtd", "32x1x4x4"}, {"scales", "2048x16"},
};

static const struct {
  const char *name, *values;
} lists[] = {
    {"zero", "0"},
    {"one", "1"},
    {"two", "2"},
    {"three", "3"},
    {"last", "509"},
    {"all", "512"},
    {"tiles", "2,2"},
    {"square", "512,512"},
    {"frame", "0,0,1,1,0,0,1,1"},
    {"sides", "0,9,0,9"},
    {"twice", "1,32,112,112"},
    {"backwards", "15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0"},
};

typedef struct Case {
  const char *op, *inputs, *attrs;
  int64_t output;  /* elements */
  double products; /* multiply-adds per output element */
  double times;    /* measured time in units, rounded up; 0: up to 2 units */
} Case;

#define ROWS    262144
#define PICTURE 100352
enum { COPY, PRODUCT }; /* the cases that give the units of time */

static const Case cases[] = {
    {"Relu", "rows", "", ROWS, 0, 0},
    {"MatMul", "rows,other", "", ROWS, 512, 0},
    {"Sigmoid", "rows", "", ROWS, 0, 0},
    {"Tanh", "rows", "", ROWS, 0, 0},
    {"Exp", "rows", "", ROWS, 0, 0},
    {"Log", "rows", "", ROWS, 0, 0},
    {"Sqrt", "rows", "", ROWS, 0, 0},
    {"Erf", "rows", "", ROWS, 0, 0},
    {"Sin", "rows", "", ROWS, 0, 5},
    {"Cos", "rows", "", ROWS, 0, 5},
    {"Floor", "rows", "", ROWS, 0, 0},
    {"Softplus", "rows", "", ROWS, 0, 3},
    {"Elu", "rows", "", ROWS, 0, 0},
    {"HardSwish", "rows", "", ROWS, 0, 0},
    {"Add", "rows,other", "", ROWS, 0, 0},
    {"Mul", "rows,row", "", ROWS, 0, 0},
    {"Sub", "rows,column", "", ROWS, 0, 0},
    {"Div", "rows,other", "", ROWS, 0, 0},
    {"Pow", "rows,other", "", ROWS, 0, 5},
    {"Max", "rows,other", "", ROWS, 0, 0},
    {"Greater", "rows,other", "", ROWS, 0, 0},
    {"Cast", "rows", "to=10", ROWS, 0, 0},
    {"Transpose", "rows", "perm=1,0", ROWS, 0, 3},
    {"Transpose", "batch", "perm=0,2,1", ROWS, 0, 3},
    {"Transpose", "batch", "perm=1,0,2", ROWS, 0, 0},
    {"Transpose", "left", "perm=1,0", ROWS, 0, 3},
    {"Concat", "rows,other", "axis=0", 2 * ROWS, 0, 0},
    {"Concat", "rows,column", "axis=1", 513 * 512, 0, 0},
    {"Slice", "rows,three,last,one", "", 506 * 512, 0, 0},
    {"Slice", "rows,zero,all,one,two", "", ROWS / 2, 0, 0},
    {"Pad", "picture,frame", "", 32 * 58 * 58, 0, 0},
    {"Pad", "rows,sides", "mode=reflect", 512 * 530, 0, 0},
    {"Pad", "picture,frame", "mode=reflect", 32 * 58 * 58, 0, 5},
    {"Gather", "rows,backwards", "", 16 * 512, 0, 0},
    {"Gather", "rows,backwards", "axis=1", 16 * 512, 0, 0},
    {"Expand", "row,square", "", ROWS, 0, 0},
    {"Tile", "rows,tiles", "", 4 * ROWS, 0, 3},
    {"DepthToSpace", "picture", "blocksize=2", PICTURE, 0, 3},
    {"SpaceToDepth", "picture", "blocksize=2", PICTURE, 0, 0},
    {"Trilu", "rows", "", ROWS, 0, 0},
    {"CumSum", "rows,one", "", ROWS, 0, 0},
    {"CumSum", "rows,zero", "", ROWS, 0, 0},
    {"Resize", "picture,,,twice", "mode=nearest", 4 * PICTURE, 0, 0},
    {"Resize", "picture,,,twice", "mode=linear", 4 * PICTURE, 0, 6},
    {"ReduceSum", "rows,one", "", 512, 0, 0},
    {"ReduceSum", "rows,zero", "", 512, 0, 0},
    {"ReduceMax", "rows", "", 1, 0, 0},
    {"ReduceMean", "long", "axes=1,", 65536, 0, 0},
    {"ArgMax", "rows", "axis=1", 512, 0, 0},
    {"ArgMax", "long", "axis=1", 65536, 0, 0},
    {"Softmax", "rows", "", ROWS, 0, 0},
    {"Softmax", "rows", "axis=0", ROWS, 0, 3},
    {"Softmax", "long", "", ROWS, 0, 5},
    {"LayerNormalization", "rows,row", "", ROWS, 0, 0},
    {"InstanceNormalization", "picture,channels,channels", "", PICTURE, 0, 0},
    {"LRN", "picture", "size=5", PICTURE, 0, 3},
    {"MaxPool", "picture", "kernel_shape=2,2 strides=2,2", PICTURE / 4, 0, 0},
    {"MaxPool", "picture", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", PICTURE / 4, 0, 5},
    {"MaxPool", "picture", "kernel_shape=3,3 pads=1,1,1,1", PICTURE, 0, 3},
    {"LpPool", "picture", "kernel_shape=3,3 pads=1,1,1,1", PICTURE, 0, 3},
    {"MaxPool", "picture", "kernel_shape=3,3", 32 * 54 * 54, 0, 3},
    {"AveragePool", "picture", "kernel_shape=3,3", 32 * 54 * 54, 0, 0},
    {"GlobalAveragePool", "picture", "", 32, 0, 0},
    {"GridSample", "pictures,samples", "align_corners=1", 50176, 4, 30},
    {"MatMul", "left,right", "", ROWS, 512, 0},
    {"Gemm", "left,turned", "transB=1", ROWS, 512, 0},
    {"Gemm", "rows,other", "transB=1", ROWS, 512, 0},
    {"com.microsoft.MatMulNBits", "token,w8,scales", "K=512 N=2048 bits=8 block_size=32", 2048, 512,
     4},
    {"com.microsoft.MatMulNBits", "token,w4,scales", "K=512 N=2048 bits=4 block_size=32", 2048, 512,
     4},
    {"Conv", "picture,w1", "", PICTURE, 32, 3},
    {"Conv", "picture,w3", "pads=1,1,1,1", PICTURE, 288, 0},
    {"Conv", "picture,w3", "pads=1,1,1,1 strides=2,2", PICTURE / 4, 288, 0},
    {"Conv", "picture,wd", "pads=1,1,1,1 group=32", PICTURE, 9, 4},
    {"Conv", "picture,wg", "pads=1,1,1,1 group=4", PICTURE, 72, 0},
    {"ConvTranspose", "picture,wt", "pads=1,1,1,1 strides=2,2", 2 * PICTURE, 128, 0},
    {"ConvTranspose", "picture,wtd", "pads=1,1,1,1 strides=2,2 group=32", 4 * PICTURE, 4, 4},
};

#define NUM_CASES G_N_ELEMENTS(cases)

static double ns[NUM_CASES]; /* least time over all runs; in a run, of all nodes of a case */

static int64_t elements_of(const Case *c) {
  char **names = g_strsplit(c->inputs, ",", -1);
  int64_t count = c->output;
  for (char **name = names; *name; name++)
    for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++)
      if (!strcmp(*name, inputs[i].name))
        count += inputs[i].count;
  g_strfreev(names);
  return count;
}

static int add_node(void *visitor, const char *node, const char *function, int64_t start_ns,
                    int64_t duration_ns) {
  double *run = visitor;
  (void)function;
  (void)start_ns;
  const char *found = strstr(node, "case ");
  if (found)
    run[g_ascii_strtoull(found + strlen("case "), NULL, 10)] += (double)duration_ns;
  return 0;
}

/* ---- The model --------------------------------------------------------------------------- */

/* Weights of a product with 512 rows and 2,048 columns, in blocks of 32 rows. */
static void add_packed_weights(OnnxBuilder *builder, const char *name, int bits) {
  int64_t shape[] = {2048, 16, 4 * bits};
  gsize size = (gsize)(shape[0] * shape[1] * shape[2]);
  guint8 *bytes = g_new(guint8, size);
  for (gsize i = 0; i < size; i++)
    bytes[i] = (guint8)(i * 7919 % 251);
  onnx_data(builder, name, ONNX_UINT8, shape, 3, bytes, size);
  g_free(bytes);
}

static char *write_model(gboolean is_open) {
  OnnxBuilder *builder = onnx_builder_new();
  static char names[NUM_CASES][16];
  builder->version = 17;
  for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++)
    onnx_input(builder, inputs[i].name, ONNX_FLOAT,
               is_open ? inputs[i].open_shape : inputs[i].shape);
  for (size_t i = 0; i < G_N_ELEMENTS(weights); i++)
    onnx_floats(builder, weights[i].name, weights[i].shape);
  add_packed_weights(builder, "w8", 8);
  add_packed_weights(builder, "w4", 4);
  for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
    onnx_ints(builder, lists[i].name, lists[i].values);
  for (size_t i = 0; i < NUM_CASES; i++) {
    char *output = g_strdup_printf("y%zu", i);
    g_snprintf(names[i], sizeof names[i], "case %zu", i);
    onnx_node(builder, cases[i].op, cases[i].inputs, output, cases[i].attrs)->name = names[i];
    onnx_output(builder, output);
    g_free(output);
  }
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return path;
}

static BpModel *compile_model(gboolean is_open) {
  char *path = write_model(is_open);
  BpTarget *target = bp_target_parse("c -num_cores=1");
  BpModule *module = compile_for(path, target);
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  if (!model)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  return model;
}

/* Stores the shape of an input, and returns the number of its dimensions. */
static int32_t shape_of(const char *name, int64_t shape[4]) {
  int32_t ndim = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++) {
    if (strcmp(name, inputs[i].name) != 0)
      continue;
    char **extents = g_strsplit(inputs[i].shape, "x", 4);
    while (extents[ndim]) {
      shape[ndim] = g_ascii_strtoll(extents[ndim], NULL, 10);
      ndim++;
    }
    g_strfreev(extents);
  }
  return ndim;
}

/* Random numbers between 1/2 and 3/2. */
static void set_inputs(BpModel *model, BpModelContext *context) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    int64_t shape[4];
    BpTensor *input;
    if (!info || !(input = bp_tensor_create(shape, shape_of(info->name, shape), info->dtype,
                                            (BpDevice){BP_DEVICE_CPU, 0}, NULL)))
      g_error("%s", bp_error_message());
    int64_t count = bp_view_num_elements(&input->view);
    float *values = g_new(float, (gsize)count);
    for (int64_t k = 0; k < count; k++)
      values[k] = 0.5f + (float)(k * 7919 % 1000) * 1e-3f;
    if (bp_tensor_copy_from_host(&input->view, values, (uint64_t)count * sizeof(float)) ||
        bp_model_set_input(context, info->name, &input->view))
      g_error("%s", bp_error_message());
    g_free(values);
    bp_object_release(input);
  }
}

/* ---- Times ------------------------------------------------------------------------------- */

#define LEAST_RUNS   5
#define MOST_SECONDS 8

static double bound_of(const Case *c) {
  double copy = ns[COPY] / (double)elements_of(&cases[COPY]);
  double product = ns[PRODUCT] / (cases[PRODUCT].products * (double)cases[PRODUCT].output);
  double bytes = copy * (double)elements_of(c);
  double products = product * c->products * (double)c->output;
  return products > bytes ? products : bytes;
}

/* The limit: ten times the recorded time, plus 20 us for the effect of a busy machine on the
 * shortest cases. */
static double limit_of(const Case *c) {
  return 10 * (c->times > 2 ? c->times : 2) * bound_of(c) + 20000;
}

static gboolean is_any_above(void) {
  for (size_t i = 0; i < NUM_CASES; i++)
    if (ns[i] > limit_of(&cases[i]))
      return TRUE;
  return FALSE;
}

/* Continues while a case is above its limit, in case the machine was busy. */
static void measure(BpModelContext *context) {
  gint64 end = g_get_monotonic_time() + MOST_SECONDS * G_USEC_PER_SEC;
  for (int run = 0; run < LEAST_RUNS || (is_any_above() && g_get_monotonic_time() < end); run++) {
    double now[NUM_CASES] = {0};
    if (bp_model_profile(context, NULL, add_node, now))
      g_error("%s", bp_error_message());
    for (size_t i = 0; i < NUM_CASES; i++)
      ns[i] = run == 0 || now[i] < ns[i] ? now[i] : ns[i];
  }
}

static void check_times(gboolean is_open) {
  BpModel *model = compile_model(is_open);
  BpModelContext *context = bp_model_context_create(model);
  g_assert_nonnull(context);
  set_inputs(model, context);
  measure(context);
  for (size_t i = 0; i < NUM_CASES; i++) {
    const Case *c = &cases[i];
    if (ns[i] <= 0) /* each case is a node of its own */
      g_error("%s(%s) has no node of its own", c->op, c->inputs);
    g_test_message("%s(%s) %s: %.1f us, %.1f times its bound", c->op, c->inputs, c->attrs,
                   ns[i] * 1e-3, ns[i] / bound_of(c));
    if (ns[i] > limit_of(c)) {
      g_test_message("that is above its limit of %.1f us", limit_of(c) * 1e-3);
      g_test_fail();
    }
  }
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_no_operator_is_slow_by_orders_of_magnitude(void) {
  check_times(FALSE);
}

static void test_no_operator_with_open_extents_is_slow_by_orders_of_magnitude(void) {
  check_times(TRUE);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/cliffs/no_operator_is_slow_by_orders_of_magnitude",
                  test_no_operator_is_slow_by_orders_of_magnitude);
  g_test_add_func("/cliffs/no_operator_with_open_extents_is_slow_by_orders_of_magnitude",
                  test_no_operator_with_open_extents_is_slow_by_orders_of_magnitude);
  return g_test_run();
}
