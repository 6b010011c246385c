/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose inputs have open extents: compiled once, and run with many shapes. */
#include <float.h>
#include <glib/gstdio.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

#define WIDTH 24

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

/* Attention over three heads, whose shapes are computed from the input's shape, and the mean. */
static char *attention_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "batchxlengthx24");
  onnx_floats(builder, "w", "24x24");
  onnx_ints(builder, "zero", "0,");
  onnx_ints(builder, "one", "1,");
  onnx_ints(builder, "two", "2,");
  onnx_ints(builder, "heads", "3,8");
  onnx_ints(builder, "rest", "-1,");
  onnx_node(builder, "Shape", "x", "shape", "");
  onnx_node(builder, "Slice", "shape,zero,two", "outer", "");
  onnx_node(builder, "Concat", "outer,heads", "apart", "axis=0");
  onnx_node(builder, "Concat", "outer,rest", "together", "axis=0");
  onnx_node(builder, "MatMul", "x,w", "projected", "");
  onnx_node(builder, "Reshape", "projected,apart", "split", "");
  onnx_node(builder, "Transpose", "split", "q", "perm=0,2,1,3");
  onnx_node(builder, "Transpose", "split", "k", "perm=0,2,3,1");
  onnx_node(builder, "MatMul", "q,k", "scores", "");
  onnx_node(builder, "Softmax", "scores", "weights", "axis=-1");
  onnx_node(builder, "MatMul", "weights,q", "mixed", "");
  onnx_node(builder, "Transpose", "mixed", "back", "perm=0,2,1,3");
  onnx_node(builder, "Reshape", "back,together", "joined", "");
  onnx_node(builder, "Concat", "joined,x", "y", "axis=1");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Products with keys as they lie in a cache, whose transpose nothing else reads. */
static char *scores_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "q", ONNX_FLOAT, "3xlengthx20");
  onnx_input(builder, "keys", ONNX_FLOAT, "3xpastx20");
  onnx_node(builder, "Transpose", "keys", "turned", "perm=0,2,1");
  onnx_node(builder, "MatMul", "q,turned", "scores", "");
  onnx_node(builder, "Relu", "scores", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Rows of batch + 24 * length elements. The number of rows is a quotient: (batch * batch + 24 *
 * batch * length) / (batch + 24 * length). */
static char *quotient_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "batchxlengthx24");
  onnx_ints(builder, "one", "1,");
  onnx_ints(builder, "two", "2,");
  onnx_ints(builder, "rest", "-1,");
  onnx_node(builder, "Flatten", "x", "rows", "axis=1");
  onnx_node(builder, "Transpose", "rows", "columns", "perm=1,0");
  onnx_node(builder, "MatMul", "rows,columns", "squares", "");
  onnx_node(builder, "Concat", "squares,rows", "both", "axis=1");
  onnx_node(builder, "Shape", "both", "shape", "");
  onnx_node(builder, "Slice", "shape,one,two", "total", "");
  onnx_node(builder, "Concat", "rest,total", "same", "axis=0");
  onnx_node(builder, "Reshape", "both,same", "again", "");
  onnx_node(builder, "Tanh", "again", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Convolutions of every kind over any number of images, up to a product. */
static char *images_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "imagesx3x20x20");
  onnx_floats(builder, "w0", "16x3x3x3");
  onnx_floats(builder, "w1", "16x16x3x3");
  onnx_floats(builder, "w2", "16x1x5x5");
  onnx_floats(builder, "w3", "16x10x2x2");
  onnx_floats(builder, "b", "16");
  onnx_floats(builder, "last", "10x7");
  onnx_node(builder, "Conv", "x,w0,b", "a", "pads=1,1,1,1");
  onnx_node(builder, "Relu", "a", "b0", "");
  onnx_node(builder, "MaxPool", "b0", "c", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Conv", "c,w1,b", "d", "pads=1,1,1,1");
  onnx_node(builder, "Add", "c,d", "e", "");
  onnx_node(builder, "Conv", "e,w2", "f", "group=16 pads=2,2,2,2 strides=2,2");
  onnx_node(builder, "AveragePool", "f", "g", "kernel_shape=3,3 pads=1,1,1,1");
  onnx_node(builder, "ConvTranspose", "g,w3", "h", "strides=2,2");
  onnx_node(builder, "LRN", "h", "i", "size=3");
  onnx_node(builder, "GlobalAveragePool", "i", "j", "");
  onnx_node(builder, "Flatten", "j", "k", "");
  onnx_node(builder, "MatMul", "k,last", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* A fully convolutional model: the results at half of the height and width are combined with those
 * at a quarter, which have equal sizes only if halving left no remainder. */
static char *pictures_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "imagesx3xheightxwidth");
  onnx_floats(builder, "w0", "16x3x3x3");
  onnx_floats(builder, "w1", "16x1x3x3");
  onnx_floats(builder, "w2", "24x16x1x1");
  onnx_floats(builder, "w3", "24x16x2x2");
  onnx_floats(builder, "w4", "2x32x3x3");
  onnx_floats(builder, "w5", "2x3x3x4");
  onnx_floats(builder, "b", "16");
  onnx_node(builder, "Conv", "x,w0,b", "a", "pads=1,1,1,1 strides=2,2");
  onnx_node(builder, "Relu", "a", "half", "");
  onnx_node(builder, "MaxPool", "half", "c", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Conv", "c,w1", "d", "group=16 pads=1,1,1,1");
  onnx_node(builder, "Add", "c,d", "e", "");
  onnx_node(builder, "Conv", "e,w2", "f", "");
  onnx_node(builder, "AveragePool", "f", "g", "kernel_shape=3,3 pads=1,1,1,1");
  onnx_node(builder, "ConvTranspose", "g,w3,b", "up", "strides=2,2");
  onnx_node(builder, "LRN", "up", "i", "size=3");
  onnx_node(builder, "Concat", "half,i", "both", "axis=1");
  onnx_node(builder, "Conv", "both,w4", "j", "dilations=2,2 pads=2,2,2,2");
  onnx_node(builder, "Sigmoid", "j", "k", "");
  onnx_node(builder, "ConvTranspose", "k,w5", "y", "strides=3,2 pads=1,0,1,0 output_padding=0,1");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Features of two sizes: the smaller are enlarged, added and joined, and these sizes are equal only
 * if halving left no remainder. An extent of 1 is expanded. */
static char *pyramid_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "imagesx3xheightxwidth");
  onnx_floats(builder, "w0", "16x3x3x3");
  onnx_floats(builder, "w1", "16x16x3x3");
  onnx_floats(builder, "w2", "16x16x2x2");
  onnx_floats(builder, "w3", "10x32x1x1");
  onnx_node(builder, "Conv", "x,w0", "a", "pads=1,1,1,1 strides=2,2");
  onnx_node(builder, "Sigmoid", "a", "half", "");
  onnx_node(builder, "Conv", "half,w1", "b", "pads=1,1,1,1 strides=2,2");
  onnx_node(builder, "Sigmoid", "b", "quarter", "");
  onnx_node(builder, "ConvTranspose", "quarter,w2", "up", "strides=2,2");
  onnx_node(builder, "Add", "half,up", "sum", "");
  onnx_node(builder, "Concat", "sum,up", "both", "axis=1");
  onnx_node(builder, "Conv", "both,w3", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Parts of speech models: frames of a signal, their spectra, transforms of a fixed length along the
 * frames, and a recurrent layer with one step per frame. */
static char *speech_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, "batchxsamplesx1");
  onnx_ints(builder, "eight", "8");
  onnx_ints(builder, "twelve", "12");
  onnx_ints(builder, "one", "1");
  onnx_ints(builder, "flat", "0,0,18");
  onnx_ints(builder, "rows", "0,18");
  onnx_floats(builder, "window", "16");
  onnx_floats(builder, "w", "2x20x18");
  onnx_floats(builder, "r", "2x20x5");
  onnx_floats(builder, "last", "18x5");
  onnx_node(builder, "STFT", "x,eight,window", "spectra", "");
  onnx_node(builder, "DFT", "spectra,twelve,one", "turned", "");
  onnx_node(builder, "Transpose", "spectra", "frames", "perm=1,0,2,3");
  onnx_node(builder, "Reshape", "frames,flat", "steps", "");
  onnx_node(builder, "LSTM", "steps,w,r", "states", "direction=bidirectional hidden_size=5");
  onnx_node(builder, "ReduceMax", "turned", "most", "axes=1, keepdims=0");
  onnx_node(builder, "Reshape", "most,rows", "row", "");
  onnx_node(builder, "MatMul", "row,last", "offset", "");
  onnx_node(builder, "Add", "states,offset", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Classes of the positions that a pooling chose, and their losses. */
static char *losses_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "imagesx3xheightxwidth");
  onnx_ints(builder, "weights", "2,1,3");
  onnx_node(builder, "MaxPool", "x", "pooled,places", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "MaxUnpool", "pooled,places", "z", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "ArgMax", "z", "labels", "axis=1 keepdims=0");
  onnx_node(builder, "Cast", "weights", "w", "to=1");
  onnx_node(builder, "SoftmaxCrossEntropyLoss", "z,labels,w", "each",
            "reduction=none ignore_index=1");
  onnx_node(builder, "NegativeLogLikelihoodLoss", "z,labels,w", "mean", "reduction=mean");
  onnx_node(builder, "Add", "each,mean", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Reductions along the first axis, and of all elements. */
static char *reductions_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsxcolumns");
  onnx_node(builder, "LogSoftmax", "x", "along", "axis=0");
  onnx_node(builder, "ReduceLogSumExp", "x", "all", "keepdims=0");
  onnx_node(builder, "Add", "along,all", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Sums whose elements one thread computes one after the other. */
static char *sums_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsxcolumns");
  onnx_ints(builder, "axis", "1,");
  onnx_node(builder, "CumSum", "x,axis", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

static char *sorted_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "count");
  onnx_node(builder, "Shape", "x", "all", "");
  onnx_node(builder, "TopK", "x,all", "y,places", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* The model has float64 values, which a target may lack, with a constant and an output of that
 * type. */
static char *doubles_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "batchxlengthx24");
  onnx_floats(builder, "w", "24");
  onnx_node(builder, "Relu", "x", "a", "");
  onnx_node(builder, "Cast", "a", "b", "to=11");
  onnx_node(builder, "Cast", "w", "v", "to=11");
  onnx_node(builder, "Add", "b,v", "c", "");
  onnx_node(builder, "Cast", "c", "d", "to=1");
  onnx_node(builder, "Mul", "d,a", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

static BpModule *compile_beside(const char *path, const char *target_text,
                                const char *fallback_text, const BpInputShape *shape) {
  const BpTarget *target = bp_target_parse(target_text);
  const BpTarget *fallback = fallback_text ? bp_target_parse(fallback_text) : NULL;
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .shapes = shape,
                              .num_shapes = shape ? 1 : 0,
                              .shape_size = sizeof(BpInputShape),
                              .fallback = fallback};
  BpModule *module = bp_model_compile(path, &options);
  bp_object_release((BpTarget *)(uintptr_t)target);
  bp_object_release((BpTarget *)(uintptr_t)fallback);
  return module;
}

static BpModule *compile(const char *path, const char *target_text, const BpInputShape *shape) {
  return compile_beside(path, target_text, NULL, shape);
}

/* Random numbers from -1 to 1. */
static BpTensor *numbers(const int64_t *shape, int32_t ndim) {
  BpTensor *tensor = bp_tensor_create(shape, ndim, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, cpu, NULL);
  g_assert_nonnull(tensor);
  float *data = tensor->view.data;
  for (int64_t i = 0; i < bp_view_num_elements(&tensor->view); i++)
    data[i] = (float)((i * 37 + 11) % 101) / 50.0F - 1.0F;
  return tensor;
}

/* Returns the output (borrowed), or NULL with the error raised. */
static BpTensor *run(BpModelContext *context, const char *input, const BpTensor *value) {
  if (bp_model_set_input(context, input, &value->view) || bp_model_run(context))
    return NULL;
  return bp_model_get_output(context, 0);
}

static BpModelContext *start_on(BpModule *module, const BpDevice *devices, uint32_t count) {
  BpModel *model = module ? bp_model_create(module, devices, count) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    g_error("%s", bp_error_message());
  bp_model_release(model);
  return context;
}

static BpModelContext *start(BpModule *module) {
  return start_on(module, &cpu, 1);
}

static void assert_alike(const BpTensor *got, const BpTensor *expected) {
  if (!got)
    g_error("%s", bp_error_message());
  g_assert_cmpint(got->view.ndim, ==, expected->view.ndim);
  for (int32_t i = 0; i < got->view.ndim; i++)
    g_assert_cmpint(got->view.shape[i], ==, expected->view.shape[i]);
  const float *b = expected->view.data;
  float *a = g_malloc((gsize)bp_view_num_bytes(&got->view) + 1);
  g_assert_cmpint(bp_tensor_copy_to_host(&got->view, a, (uint64_t)bp_view_num_bytes(&got->view)),
                  ==, 0);
  for (int64_t i = 0; i < bp_view_num_elements(&got->view); i++)
    g_assert_cmpfloat_with_epsilon(a[i], b[i], 1e-4F);
  g_free(a);
}

/* Returns the output of the model compiled for this very shape. */
static void assert_as_closed(const char *path, BpModelContext *open, const int64_t *shape,
                             int32_t ndim) {
  BpTensor *x = numbers(shape, ndim);
  BpModule *module = compile(path, "llvm -opt=0", &(BpInputShape){"x", shape, ndim});
  BpModelContext *closed = start(module);
  BpTensor *expected = run(closed, "x", x);
  g_assert_nonnull(expected);
  assert_alike(run(open, "x", x), expected);
  bp_model_context_free(closed);
  bp_object_release(module);
  bp_object_release(x);
}

static void test_shapes(gconstpointer target) {
  static const int64_t shapes[][3] = {{1, 1, WIDTH},  {2, 16, WIDTH}, {1, 129, WIDTH},
                                      {3, 33, WIDTH}, {1, 1, WIDTH},  {5, 7, WIDTH}};
  char *path = attention_file();
  BpModule *module = compile(path, target, NULL);
  BpModelContext *context = start(module);
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 3);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Arithmetic on denormals is slow: a run flushes them, and the caller's mode is unchanged. */
static void test_denormals(void) {
#if defined(__x86_64__) || defined(__aarch64__)
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "length");
  onnx_node(builder, "Mul", "x,x", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  BpTensor *x = numbers((const int64_t[]){3}, 1);
  for (int i = 0; i < 3; i++)
    ((float *)x->view.data)[i] = 1e-20F;
  const BpTensor *y = run(context, "x", x);
  g_assert_cmpfloat(((const float *)y->view.data)[0], ==, 0);
  volatile float smallest = FLT_MIN;
  g_assert_cmpfloat(smallest / 2, >, 0);
  bp_object_release(x);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
#else
  g_test_skip("this processor has no mode that flushes denormals");
#endif
}

static void test_quotient(void) {
  char *path = quotient_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  assert_as_closed(path, context, (const int64_t[]){2, 5, WIDTH}, 3);
  assert_as_closed(path, context, (const int64_t[]){3, 1, WIDTH}, 3);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* The first rows of a table, as many as x has, and a constant with x's shape. */
static char *tables_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "lengthx24");
  onnx_floats(builder, "table", "64x24");
  onnx_floats(builder, "twelve", "12");
  onnx_ints(builder, "zero", "0,");
  onnx_ints(builder, "one", "1,");
  onnx_ints(builder, "rest", "-1,");
  onnx_node(builder, "Shape", "x", "shape", "");
  onnx_node(builder, "Slice", "shape,zero,one", "length", "");
  onnx_node(builder, "Slice", "table,zero,length,zero", "rows", "");
  onnx_node(builder, "Concat", "length,rest", "parts", "axis=0");
  onnx_node(builder, "Reshape", "twelve,parts", "apart", "");
  onnx_node(builder, "Add", "x,rows", "placed", "");
  onnx_node(builder, "Concat", "placed,apart", "y", "axis=1");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

static void test_tables(void) {
  char *path = tables_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  assert_as_closed(path, context, (const int64_t[]){4, WIDTH}, 2);
  assert_as_closed(path, context, (const int64_t[]){12, WIDTH}, 2);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void test_batches(gconstpointer target) {
  static const int64_t shapes[][4] = {{1, 3, 20, 20}, {5, 3, 20, 20}, {2, 3, 20, 20}};
  char *path = images_file();
  BpModule *module = compile(path, target, NULL);
  BpModelContext *context = start(module);
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 4);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void assert_run_refused(BpModelContext *context, const int64_t *shape, int32_t ndim,
                               const char *words) {
  BpTensor *x = numbers(shape, ndim);
  char **list = g_strsplit(words, "|", -1);
  g_assert_null(run(context, "x", x));
  for (char **word = list; *word; word++)
    if (!strstr(bp_error_message(), *word))
      g_error("'%s' is not in: %s", *word, bp_error_message());
  bp_error_clear();
  g_strfreev(list);
  bp_object_release(x);
}

static void assert_pictures(const char *path, BpModelContext *context) {
  static const int64_t shapes[][4] = {
      {1, 3, 20, 36}, {2, 3, 7, 3}, {1, 3, 4, 4}, {1, 3, 51, 64}, {1, 3, 20, 36}};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 4);
  /* Errors for a window, and for an extent that halving made too small. */
  assert_run_refused(context, (const int64_t[]){1, 3, 0, 9}, 4, "'the Conv'|window|larger");
  assert_run_refused(context, (const int64_t[]){1, 3, 9, 2}, 4, "'the MaxPool'|window|larger");
  assert_run_refused(context, (const int64_t[]){1, 3, 9, 8}, 4, "'the Concat'|differ");
  BpTensor *none = numbers((const int64_t[]){0, 3, 8, 8}, 4), *y = run(context, "x", none);
  if (!y)
    g_error("%s", bp_error_message());
  g_assert_cmpint(y->view.shape[0], ==, 0);
  bp_object_release(none);
}

static void test_pictures(gconstpointer target) {
  char *path = pictures_file();
  BpModule *module = compile(path, target, NULL);
  BpModelContext *context = start(module);
  assert_pictures(path, context);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void assert_empty(BpModelContext *context) {
  static const int64_t shapes[][3] = {{0, 5, WIDTH}, {2, 0, WIDTH}};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++) {
    BpTensor *x = numbers(shapes[i], 3), *y = run(context, "x", x);
    if (!y)
      g_error("%s", bp_error_message());
    g_assert_cmpint(bp_view_num_elements(&y->view), ==, 0);
    bp_object_release(x);
  }
}

/* The module has code for a device, with or without a fallback. */
typedef struct Place {
  const char *target, *fallback;
} Place;

static void test_places(gconstpointer data) {
  static const int64_t shapes[][3] = {{2, 16, WIDTH}, {1, 1, WIDTH}, {3, 313, WIDTH}};
  const Place *place = data;
  char *(*const files[])(void) = {attention_file, quotient_file, doubles_file};
  const BpTarget *target = bp_target_parse(place->target);
  BpDevice devices[] = {{bp_target_device_type(target), 0}, cpu};
  bp_object_release((BpTarget *)(uintptr_t)target);
  size_t count = place->fallback ? G_N_ELEMENTS(files) : G_N_ELEMENTS(files) - 1;
  for (size_t f = 0; f < count && has_device(devices[0].device_type); f++) {
    char *path = files[f]();
    BpModule *module = compile_beside(path, place->target, place->fallback, NULL);
    BpModelContext *context = start_on(module, devices, place->fallback ? 2 : 1);
    for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
      assert_as_closed(path, context, shapes[i], 3);
    if (files[f] != quotient_file)
      assert_empty(context);
    bp_model_context_free(context);
    bp_object_release(module);
    unlink(path);
    g_free(path);
  }
}

static void test_pictures_on_device(gconstpointer target_text) {
  const BpTarget *target = bp_target_parse(target_text);
  BpDevice device = {bp_target_device_type(target), 0};
  bp_object_release((BpTarget *)(uintptr_t)target);
  if (!has_device(device.device_type))
    return;
  char *path = pictures_file();
  BpModule *module = compile(path, target_text, NULL);
  BpModelContext *context = start_on(module, &device, 1);
  assert_pictures(path, context);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void assert_speech(const char *path, BpModelContext *context) {
  static const int64_t shapes[][3] = {{1, 160, 1}, {3, 16, 1}, {2, 101, 1}, {1, 31, 1}, {9, 64, 1}};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 3);
  assert_run_refused(context, (const int64_t[]){1, 15, 1}, 3, "'the STFT'|shorter than a frame");
}

static void assert_losses(const char *path, BpModelContext *context) {
  static const int64_t shapes[][4] = {{1, 3, 4, 6}, {2, 3, 7, 9}};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 4);
}

/* Makes a model for those of the targets that have a device. */
static void on_targets(char *path, const char *const *targets,
                       void (*check)(const char *path, BpModelContext *context)) {
  for (size_t i = 0; targets[i]; i++) {
    const BpTarget *target = bp_target_parse(targets[i]);
    BpDevice device = {bp_target_device_type(target), 0};
    bp_object_release((BpTarget *)(uintptr_t)target);
    if (!has_device(device.device_type))
      continue;
    BpModule *module = compile(path, targets[i], NULL);
    BpModelContext *context = start_on(module, &device, 1);
    check(path, context);
    bp_model_context_free(context);
    bp_object_release(module);
  }
  unlink(path);
  g_free(path);
}

static void assert_pyramid(const char *path, BpModelContext *context) {
  static const int64_t shapes[][4] = {
      {1, 3, 20, 36}, {2, 3, 8, 4}, {1, 3, 2, 2}, {3, 3, 40, 24}, {1, 3, 52, 64}};
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
    assert_as_closed(path, context, shapes[i], 4);
  assert_run_refused(context, (const int64_t[]){1, 3, 10, 8}, 4, "'the Add'|broadcast");
}

static void test_pyramid(void) {
  on_targets(pyramid_file(),
             (const char *const[]){"llvm -opt=0 -vector_bits=256", "llvm -opt=0 -vector_bits=0",
                                   "c -options=-O0", "opencl", NULL},
             assert_pyramid);
}

static void test_speech(void) {
  on_targets(speech_file(),
             (const char *const[]){"llvm -opt=0 -vector_bits=256",
                                   "llvm -opt=0 -num_cores=3 -l2_bytes=4096", "opencl", "vulkan",
                                   NULL},
             assert_speech);
}

static void test_losses(void) {
  on_targets(losses_file(), (const char *const[]){"llvm -opt=0 -vector_bits=256", "vulkan", NULL},
             assert_losses);
}

static void assert_reductions(const char *path, BpModelContext *context) {
  assert_as_closed(path, context, (const int64_t[]){5, 61}, 2);
  assert_as_closed(path, context, (const int64_t[]){130, 3}, 2);
}

static void test_reductions(void) {
  on_targets(reductions_file(), (const char *const[]){"llvm -opt=0", "opencl", "vulkan", NULL},
             assert_reductions);
}

static void assert_sums(const char *path, BpModelContext *context) {
  assert_as_closed(path, context, (const int64_t[]){41, 40}, 2);
  assert_run_refused(context, (const int64_t[]){3, 41}, 2,
                     "kernel 'fused_cumsum|more than 40 iterations|max_iterations|another device");
  assert_as_closed(path, context, (const int64_t[]){2, 39}, 2);
  assert_as_closed(path, context, (const int64_t[]){0, 41}, 2); /* nothing is launched */
}

/* The loops of a heap end where data decide, after the digits of the extent at the latest. */
static void assert_sorted(const char *path, BpModelContext *context) {
  assert_as_closed(path, context, (const int64_t[]){30}, 1);
  assert_run_refused(context, (const int64_t[]){60}, 1,
                     "kernel 'fused_topk|more than 400 iterations|max_iterations|another device");
  assert_as_closed(path, context, (const int64_t[]){31}, 1);
}

/* A device that ends the loops of a thread early refuses the shapes that need longer ones. */
static void test_short_loops(void) {
  on_targets(sums_file(), (const char *const[]){"vulkan -max_iterations=40", NULL}, assert_sums);
  on_targets(sorted_file(), (const char *const[]){"vulkan -max_iterations=400", NULL},
             assert_sorted);
}

/* Several contexts of one model have different shapes. */
static void test_contexts(void) {
  char *path = attention_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModel *model = bp_model_create(module, &cpu, 1);
  BpModelContext *first = bp_model_context_create(model), *second = bp_model_context_create(model);
  assert_as_closed(path, first, (const int64_t[]){2, 5, WIDTH}, 3);
  assert_as_closed(path, second, (const int64_t[]){1, 40, WIDTH}, 3);
  g_assert_cmpint(bp_model_get_output(first, 0)->view.shape[1], ==, 10);
  g_assert_cmpint(bp_model_get_output(second, 0)->view.shape[1], ==, 80);
  bp_model_context_free(first);
  bp_model_context_free(second);
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Runs another context in the middle of a profiled run. */
typedef struct Between {
  BpModelContext *other;
  int64_t calls, length;
} Between;

static int run_between(void *visitor, const char *node, const char *function, int64_t start_ns,
                       int64_t duration_ns) {
  Between *between = visitor;
  (void)node;
  (void)function;
  (void)start_ns;
  (void)duration_ns;
  g_assert_cmpint(++between->calls, <, 100);
  BpTensor *x = numbers((const int64_t[]){1, between->length++, WIDTH}, 3);
  g_assert_nonnull(run(between->other, "x", x));
  bp_object_release(x);
  return 0;
}

static void test_a_visitor_may_run_the_model(void) {
  char *path = attention_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModel *model = bp_model_create(module, &cpu, 1);
  BpModelContext *first = bp_model_context_create(model), *second = bp_model_context_create(model);
  BpTensor *x = numbers((const int64_t[]){2, 5, WIDTH}, 3);
  BpTensor *expected = bp_object_retain(run(second, "x", x));
  Between between = {second, 0, 40};
  g_assert_cmpint(bp_model_set_input(first, "x", &x->view), ==, 0);
  g_assert_cmpint(bp_model_profile(first, NULL, run_between, &between), ==, 0);
  g_assert_cmpint(between.calls, >, 3);
  const BpTensorView *got = &bp_model_get_output(first, 0)->view;
  g_assert_cmpmem(got->data, (size_t)bp_view_num_bytes(got), expected->view.data,
                  (size_t)bp_view_num_bytes(&expected->view));
  bp_object_release(expected);
  bp_object_release(x);
  bp_model_context_free(first);
  bp_model_context_free(second);
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Uses the context that is profiled. */
static int use_profiled(void *visitor, const char *node, const char *function, int64_t start_ns,
                        int64_t duration_ns) {
  BpModelContext *context = visitor;
  BpTensor *x = numbers((const int64_t[]){1, 3, WIDTH}, 3);
  (void)node;
  (void)function;
  (void)start_ns;
  (void)duration_ns;
  const int statuses[] = {bp_model_run(context),
                          bp_model_profile(context, NULL, use_profiled, context),
                          bp_model_set_input(context, "x", &x->view),
                          bp_model_bind_input(context, "x", x), bp_model_set_stream(context, NULL)};
  for (size_t i = 0; i < G_N_ELEMENTS(statuses); i++)
    g_assert_cmpint(statuses[i], ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_NOT_READY);
  bp_error_clear();
  bp_object_release(x);
  return 0;
}

static void test_a_visitor_may_not_use_its_context(void) {
  char *path = attention_file();
  const int64_t shape[] = {2, 5, WIDTH};
  BpTensor *x = numbers(shape, 3);
  for (int is_open = 0; is_open < 2; is_open++) {
    BpModule *module =
        compile(path, "llvm -opt=0", is_open ? NULL : &(BpInputShape){"x", shape, 3});
    BpModelContext *context = start(module);
    g_assert_cmpint(bp_model_set_input(context, "x", &x->view), ==, 0);
    g_assert_cmpint(bp_model_profile(context, NULL, use_profiled, context), ==, 0);
    assert_as_closed(path, context, shape, 3);
    bp_model_context_free(context);
    bp_object_release(module);
  }
  bp_object_release(x);
  unlink(path);
  g_free(path);
}

static void test_empty(void) {
  char *path = attention_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  assert_empty(context);
  assert_as_closed(path, context, (const int64_t[]){1, 3, WIDTH}, 3);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Of known shapes, too: a batch of no pictures, in groups of channels. */
static void test_empty_groups(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 21;
  onnx_input(builder, "x", ONNX_FLOAT, "0x6x4");
  onnx_floats(builder, "scale", "6");
  onnx_floats(builder, "bias", "6");
  onnx_node(builder, "GroupNormalization", "x,scale,bias", "y", "num_groups=3");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  BpTensor *x = numbers((const int64_t[]){0, 6, 4}, 3), *y = run(context, "x", x);
  g_assert_nonnull(y);
  g_assert_cmpint(y->view.shape[1], ==, 6);
  g_assert_cmpint(bp_view_num_elements(&y->view), ==, 0);
  bp_object_release(x);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Sums and products along an axis of no elements, for each of an open number of rows. */
static void test_empty_sums(void) {
  static const int64_t shape[] = {5, 0, 3};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsx0x3");
  onnx_ints(builder, "axis", "1,");
  onnx_node(builder, "ReduceSum", "x,axis", "sums", "keepdims=0");
  onnx_node(builder, "ReduceProd", "x", "products", "axes=1, keepdims=0");
  onnx_node(builder, "Sub", "products,sums", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  BpTensor *x = numbers(shape, 3), *y = run(context, "x", x);
  g_assert_nonnull(y);
  g_assert_cmpint(bp_view_num_elements(&y->view), ==, 15);
  for (int i = 0; i < 15; i++)
    g_assert_cmpfloat(((const float *)y->view.data)[i], ==, 1);
  bp_object_release(x);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void test_contradictions(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "nxnx4");
  onnx_node(builder, "Relu", "x", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  assert_run_refused(context, (const int64_t[]){2, 3, 4}, 3, "'x'|2|3");
  assert_run_refused(context, (const int64_t[]){2, 2, 5}, 3, "'x'|4|5");
  assert_run_refused(context, (const int64_t[]){2, 2}, 2, "'x'|3|2");
  BpTensor *x = numbers((const int64_t[]){3, 3, 4}, 3);
  g_assert_nonnull(run(context, "x", x));
  bp_object_release(x);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* The compiler makes symbols too, for the extents of a window and for the extent to which two
 * extents broadcast. A symbol that the model calls by the text of one of them stays the model's. */
static void test_names(void) {
  enum { NUM_EACH = 80, NUM_OTHERS = 2 * NUM_EACH };
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x2xnxm");
  for (int i = 0; i < NUM_OTHERS; i++) {
    char *name = g_strdup_printf("other%d", i);
    /* The numbers count symbols and expressions, the inputs' symbols first. */
    char *symbol = i < NUM_EACH ? g_strdup_printf("n|m#0|%d", i)
                                : g_strdup_printf("floor(n+1/2)-1#%d", NUM_EACH + i);
    onnx_input(builder, name, ONNX_FLOAT, symbol);
    g_free(name);
    g_free(symbol);
  }
  onnx_floats(builder, "w", "4x2x3x3");
  onnx_node(builder, "Conv", "x,w", "y", "strides=2,2");
  onnx_node(builder, "Transpose", "x", "turned", "perm=0,1,3,2");
  onnx_node(builder, "Add", "x,turned", "z", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  BpTensor *x = numbers((const int64_t[]){1, 2, 9, 9}, 4),
           *other = numbers((const int64_t[]){5}, 1);
  for (int i = 0; i < NUM_OTHERS; i++) {
    char *name = g_strdup_printf("other%d", i);
    g_assert_cmpint(bp_model_set_input(context, name, &other->view), ==, 0);
    g_free(name);
  }
  const BpTensor *y = run(context, "x", x);
  if (!y)
    g_error("%s", bp_error_message());
  g_assert_cmpint(y->view.shape[2], ==, 4);
  g_assert_cmpint(bp_model_get_output(context, 1)->view.shape[2], ==, 9);
  bp_object_release(other);
  bp_object_release(x);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* A run fails if an axis has fewer elements than `least`, which `op` chooses from it. */
static void assert_least(const char *op, const char *inputs, const char *attrs, int64_t least) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "nx4");
  onnx_ints(builder, "three", "3,");
  onnx_node(builder, op, inputs, !strcmp(op, "TopK") ? "y,places" : "y", attrs);
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  for (int64_t n = 5; n >= 0; n--) {
    BpTensor *x = numbers((const int64_t[]){n, 4}, 2);
    if (n < least)
      assert_run_refused(context, (const int64_t[]){n, 4}, 2, op);
    else
      g_assert_nonnull(run(context, "x", x));
    bp_object_release(x);
  }
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void test_least(void) {
  assert_least("TopK", "x,three", "axis=0", 3);
  assert_least("ArgMax", "x", "axis=0", 1);
  assert_least("ArgMin", "x", "axis=0 select_last_index=1", 1);
  assert_least("Hardmax", "x", "axis=0", 0);
}

/* An axis without elements has no nearest element: gathering from it gives 0. */
static void test_gather(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "n");
  onnx_ints(builder, "places", "0,-1,9");
  onnx_node(builder, "Gather", "x,places", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  for (int64_t n = 4; n >= 0; n -= 2) {
    BpTensor *x = numbers(&n, 1), *y = run(context, "x", x);
    g_assert_nonnull(y);
    const float *in = x->view.data, *out = y->view.data;
    for (int i = 0; i < 3; i++)
      g_assert_cmpfloat(out[i], ==, n == 0 ? 0.0F : in[i == 0 ? 0 : n - 1]);
    bp_object_release(x);
  }
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* 41 * (1 / 41.0F) is less than 1: a constant divisor before a step stays, also if parts with open
 * extents are between them. */
static void test_divisors(void) {
  const float divisor = 41;
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 18;
  onnx_input(builder, "x", ONNX_FLOAT, "n");
  onnx_data(builder, "divisor", ONNX_FLOAT, NULL, 0, &divisor, sizeof(divisor));
  onnx_node(builder, "Div", "x,divisor", "quotient", "");
  onnx_node(builder, "Split", "quotient", "first,second", "num_outputs=2");
  onnx_node(builder, "Floor", "first", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModelContext *context = start(module);
  for (int64_t n = 4; n <= 8; n += 4) {
    BpTensor *x = numbers(&n, 1), *y;
    for (int64_t i = 0; i < n; i++)
      ((float *)x->view.data)[i] = divisor * (float)(i + 1);
    y = run(context, "x", x);
    g_assert_nonnull(y);
    for (int64_t i = 0; i < n / 2; i++)
      g_assert_cmpfloat(((const float *)y->view.data)[i], ==, (float)(i + 1));
    bp_object_release(x);
  }
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

static void check_scores(BpModelContext *context, int64_t length, int64_t past) {
  BpTensor *q = numbers((int64_t[]){3, length, 20}, 3);
  BpTensor *keys = numbers((int64_t[]){3, past, 20}, 3);
  BpTensor *expected = numbers((int64_t[]){3, length, past}, 3);
  const float *a = q->view.data, *b = keys->view.data;
  float *c = expected->view.data;
  for (int64_t head = 0; head < 3; head++)
    for (int64_t i = 0; i < length; i++)
      for (int64_t j = 0; j < past; j++) {
        float sum = 0;
        for (int64_t k = 0; k < 20; k++)
          sum += a[(head * length + i) * 20 + k] * b[(head * past + j) * 20 + k];
        c[(head * length + i) * past + j] = sum > 0 ? sum : 0;
      }
  g_assert_cmpint(bp_model_set_input(context, "keys", &keys->view), ==, 0);
  assert_alike(run(context, "q", q), expected);
  bp_object_release(expected);
  bp_object_release(keys);
  bp_object_release(q);
}

static void test_scores(const void *target) {
  static const int64_t lengths[] = {1, 2, 3, 5, 7, 13},
                       pasts[] = {1, 2, 3, 5, 7, 16, 63, 64, 65, 130};
  char *path = scores_file();
  BpModule *module = compile(path, target, NULL);
  BpModelContext *context = start(module);
  for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++)
    for (size_t k = 0; k < G_N_ELEMENTS(pasts); k++)
      check_scores(context, lengths[i], pasts[k]);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Only inputs and output are planned, and no transposed copy of the keys. */
static void test_scores_in_place(void) {
  char *path = scores_file();
  BpModule *module = compile(path, "c -vector_bits=256 -options=-O0", NULL);
  BpModel *model = bp_model_create(module, &cpu, 1);
  const char *likely;
  g_assert_nonnull(model);
  g_assert_cmpstr(bp_model_planned_expression(model, &likely), ==,
                  "12*length*past+240*length+240*past");
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* The size of the library of a model for a target. */
static size_t code_size(const char *path, const char *target) {
  char *library = g_strconcat(path, ".so", NULL);
  BpModule *module = compile(path, target, NULL);
  GStatBuf info;
  g_assert_nonnull(module);
  g_assert_cmpint(bp_module_export_library(module, library), ==, 0);
  g_assert_cmpint(g_stat(library, &info), ==, 0);
  bp_object_release(module);
  unlink(library);
  g_free(library);
  return (size_t)info.st_size;
}

/* Each of the eight extents may be 1 or that of the result, so there are many versions of the
 * loops, some of which load 32 elements one by one. */
static void test_broadcasts_are_small(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_BOOL, "axbxcxd");
  onnx_input(builder, "y", ONNX_BOOL, "exfxgxh");
  onnx_node(builder, "Or", "x,y", "z", "");
  onnx_output(builder, "z");
  char *path = onnx_save(builder);
  g_assert_cmpuint(code_size(path, "llvm -vector_bits=256"), <, 200 << 10);
  unlink(path);
  g_free(path);
}

/* An open axis has vectors, also if they have as many lanes as the axis probably has elements, and
 * loops without vectors have few versions. */
static void test_broadcasts_of_bytes_are_small(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_UINT8, "axbxcxd");
  onnx_input(builder, "y", ONNX_UINT8, "exfxgxh");
  onnx_input(builder, "z", ONNX_UINT8, "ixjxkxl");
  onnx_node(builder, "Max", "x,y", "most", "");
  onnx_node(builder, "Min", "most,z", "least", "");
  onnx_output(builder, "least");
  char *path = onnx_save(builder);
  g_assert_cmpuint(code_size(path, "llvm -vector_bits=512"), <, 200 << 10);
  g_assert_cmpuint(code_size(path, "llvm -vector_bits=32"), <, 200 << 10);
  unlink(path);
  g_free(path);
}

/* Both branches of a choice among elements exist, so vectors load them whole. */
static void test_choices_are_small(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsxcolumns");
  onnx_input(builder, "y", ONNX_FLOAT, "rowsxcolumns");
  onnx_input(builder, "mask", ONNX_BOOL, "rowsxcolumns");
  onnx_node(builder, "LeakyRelu", "x", "a", "");
  onnx_node(builder, "Elu", "a", "b", "");
  onnx_node(builder, "PRelu", "b,y", "c", "");
  onnx_node(builder, "Where", "mask,c,y", "z", "");
  onnx_output(builder, "z");
  char *path = onnx_save(builder);
  g_assert_cmpuint(code_size(path, "c -vector_bits=512 -options=-O0"), <, 200 << 10);
  unlink(path);
  g_free(path);
}

/* A concatenation along an axis copies runs of the axes after it, without a division of places. */
static void test_concatenations_are_small(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "imagesx32xheightxwidth");
  onnx_input(builder, "y", ONNX_FLOAT, "imagesx32xheightxwidth");
  onnx_input(builder, "z", ONNX_FLOAT, "imagesx64xheightxwidth");
  onnx_node(builder, "Concat", "x,y,z", "all", "axis=1");
  onnx_output(builder, "all");
  char *path = onnx_save(builder);
  g_assert_cmpuint(code_size(path, "c -vector_bits=512 -options=-O0"), <, 60 << 10);
  unlink(path);
  g_free(path);
}

/* Of two open extents the first counts as the batch. */
static void test_planned(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsxcolumns");
  onnx_node(builder, "Softmax", "x", "a", "axis=1");
  onnx_node(builder, "Softmax", "a", "b", "axis=0");
  onnx_node(builder, "Softmax", "b", "c", "axis=1");
  onnx_node(builder, "Softmax", "c", "y", "axis=0");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModel *model = bp_model_create(module, &cpu, 1);
  const char *likely;
  uint64_t parameters, planned;
  /* The input, the output, and the two of three intermediate values that are alive at once. */
  g_assert_cmpstr(bp_model_planned_expression(model, &likely), ==, "16*rows*columns");
  g_assert_cmpstr(likely, ==, "rows=1, columns=64");
  bp_model_memory(model, &parameters, &planned);
  g_assert_cmpuint(planned, ==, 16 * 64);
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* The likely extents of a product of two inputs, with two softmaxes behind it. */
static void assert_likely_of_product(const char *left, const char *right, const char *attrs,
                                     const char *expected) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, left);
  onnx_input(builder, "w", ONNX_FLOAT, right);
  onnx_node(builder, "Gemm", "x,w", "a", attrs);
  onnx_node(builder, "Softmax", "a", "b", "axis=0");
  onnx_node(builder, "Softmax", "b", "y", "axis=1");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpModel *model = bp_model_create(module, &cpu, 1);
  const char *likely;
  g_assert_nonnull(bp_model_planned_expression(model, &likely));
  g_assert_cmpstr(likely, ==, expected);
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* Of matrices that share an extent none has a batch. */
static void test_matrices(void) {
  assert_likely_of_product("mxk", "kxn", "", "m=64, k=64, n=64");
  assert_likely_of_product("mxk", "nxk", "transB=1", "m=64, k=64, n=64");
  assert_likely_of_product("batchxlength", "lengthxbatch", "", "batch=64, length=64");
}

static size_t used_after(BpModelContext *context, int runs) {
  static const int64_t shapes[][3] = {{2, 16, WIDTH}, {1, 64, WIDTH}, {4, 9, WIDTH}};
  for (int i = 0; i < runs; i++) {
    BpTensor *x = numbers(shapes[i % 3], 3);
    g_assert_nonnull(run(context, "x", x));
    bp_object_release(x);
  }
  return mallinfo2().uordblks;
}

/* Concurrent threads need workspaces of their own, which are kept: their number varies. */
static void test_memory(void) {
  int32_t threads = bp_threads_get();
  g_assert_cmpint(bp_threads_set(1), ==, 0);
  char *path = attention_file();
  /* A thread allocates its own memory when it first gets work, which is late on a busy machine. */
  BpModule *module = compile(path, "llvm -opt=0 -num_cores=1", NULL);
  BpModelContext *context = start(module);
  size_t first = used_after(context, 30), later = used_after(context, 300);
  if (first && later) /* 0: a sanitizer's malloc does not count */
    g_assert_cmpuint(later, <=, first + 4096);
  g_assert_cmpint(bp_threads_set(threads), ==, 0);
  bp_model_context_free(context);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

/* A product with a megabyte of weights. */
static char *weights_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "lengthx512");
  onnx_floats(builder, "w", "512x512");
  onnx_node(builder, "MatMul", "x,w", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

static size_t used_bytes(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static void test_saving(void) {
  g_assert_cmpint(bp_graph_initialize(), ==, 0);
  char *path = weights_file();
  BpModule *module = compile(path, "llvm -opt=0", NULL);
  BpOwnedBytes saved, again;
  g_assert_cmpint(bp_module_save_to_bytes(module, &saved), ==, 0);
  size_t before = used_bytes();
  BpModule *loaded =
      bp_module_load_from_bytes(bp_module_kind(module), &(BpByteArray){saved.data, saved.size});
  if (!loaded)
    g_error("%s: %s", bp_module_kind(module), bp_error_message());
  size_t taken = used_bytes() - before;
  if (before) /* a sanitizer's malloc does not count */
    g_assert_cmpuint(taken, <, saved.size * 5 / 4);
  g_assert_cmpint(bp_module_save_to_bytes(loaded, &again), ==, 0);
  g_assert_cmpmem(saved.data, saved.size, again.data, again.size);
  bp_owned_bytes_clear(&saved);
  bp_owned_bytes_clear(&again);
  bp_object_release(loaded);
  bp_object_release(module);
  unlink(path);
  g_free(path);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/open-extents/one_library_takes_every_shape/llvm", "llvm -opt=0",
                       test_shapes);
  g_test_add_data_func("/open-extents/one_library_takes_every_shape/c", "c -options=-O0",
                       test_shapes);
  g_test_add_data_func("/open-extents/keys_of_every_number_are_read_as_they_lie/llvm",
                       "llvm -opt=0 -vector_bits=512 -num_cores=2", test_scores);
  g_test_add_data_func("/open-extents/keys_of_every_number_are_read_as_they_lie/c",
                       "c -vector_bits=256 -options=-O0", test_scores);
  g_test_add_data_func("/open-extents/keys_of_every_number_are_read_as_they_lie/narrow",
                       "c -vector_bits=128 -options=-O1 -num_cores=1", test_scores);
  g_test_add_data_func("/open-extents/keys_of_every_number_are_read_as_they_lie/plain",
                       "llvm -opt=0 -vector_bits=0", test_scores);
  g_test_add_func("/open-extents/keys_are_not_copied_to_be_transposed", test_scores_in_place);
  g_test_add_data_func("/open-extents/one_library_takes_every_number_of_images/llvm",
                       "llvm -opt=0 -vector_bits=256", test_batches);
  g_test_add_data_func("/open-extents/one_library_takes_every_number_of_images/plain",
                       "llvm -opt=0 -vector_bits=0 -num_cores=3", test_batches);
  g_test_add_data_func("/open-extents/one_library_takes_pictures_of_every_size/llvm",
                       "llvm -opt=0 -vector_bits=256", test_pictures);
  g_test_add_data_func("/open-extents/one_library_takes_pictures_of_every_size/plain",
                       "llvm -opt=0 -vector_bits=0 -num_cores=3", test_pictures);
  g_test_add_data_func("/open-extents/one_library_takes_pictures_of_every_size/c", "c -options=-O0",
                       test_pictures);
  g_test_add_func("/open-extents/features_of_two_sizes_are_combined", test_pyramid);
  g_test_add_data_func("/open-extents/devices_take_pictures_of_every_size/opencl", "opencl",
                       test_pictures_on_device);
  g_test_add_data_func("/open-extents/devices_take_pictures_of_every_size/vulkan", "vulkan",
                       test_pictures_on_device);
  static const Place opencl = {"opencl", NULL}, warps = {"opencl -thread_warp_size=8", NULL},
                     vulkan = {"vulkan", NULL},
                     beside = {"vulkan -supports_float64=false", "llvm -opt=0"};
  g_test_add_data_func("/open-extents/devices_take_every_shape/opencl", &opencl, test_places);
  g_test_add_data_func("/open-extents/devices_take_every_shape/opencl_in_lock_step", &warps,
                       test_places);
  g_test_add_data_func("/open-extents/devices_take_every_shape/vulkan", &vulkan, test_places);
  g_test_add_data_func("/open-extents/devices_take_every_shape/with_a_fallback", &beside,
                       test_places);
  g_test_add_func("/open-extents/signals_of_every_length_are_transformed", test_speech);
  g_test_add_func("/open-extents/losses_take_every_shape", test_losses);
  g_test_add_func("/open-extents/reductions_along_any_axes_take_every_shape", test_reductions);
  g_test_add_func("/open-extents/loops_that_the_device_would_end_early_are_refused",
                  test_short_loops);
  g_test_add_func("/open-extents/constants_are_cut_and_divided_by_extents", test_tables);
  g_test_add_func("/open-extents/a_sum_divides_its_multiples", test_quotient);
  g_test_add_func("/open-extents/contexts_have_shapes_of_their_own", test_contexts);
  g_test_add_func("/open-extents/a_visitor_may_run_the_model", test_a_visitor_may_run_the_model);
  g_test_add_func("/open-extents/a_visitor_may_not_use_its_context",
                  test_a_visitor_may_not_use_its_context);
  g_test_add_func("/open-extents/denormals_are_flushed", test_denormals);
  g_test_add_func("/open-extents/nothing_gives_nothing", test_empty);
  g_test_add_func("/open-extents/groups_of_nothing_give_nothing", test_empty_groups);
  g_test_add_func("/open-extents/sums_of_nothing_have_open_rows", test_empty_sums);
  g_test_add_func("/open-extents/shapes_that_contradict_the_model_are_errors", test_contradictions);
  g_test_add_func("/open-extents/a_symbol_of_the_model_is_not_taken_for_the_compilers", test_names);
  g_test_add_func("/open-extents/an_empty_axis_is_not_read", test_gather);
  g_test_add_func("/open-extents/a_divisor_before_a_step_is_no_factor", test_divisors);
  g_test_add_func("/open-extents/no_more_elements_are_chosen_from_an_axis_than_the_axis_has",
                  test_least);
  g_test_add_func("/open-extents/weights_are_in_memory_once", test_saving);
  g_test_add_func("/open-extents/code_of_broadcasts_is_small", test_broadcasts_are_small);
  g_test_add_func("/open-extents/code_of_broadcasts_of_bytes_is_small",
                  test_broadcasts_of_bytes_are_small);
  g_test_add_func("/open-extents/code_of_choices_is_small", test_choices_are_small);
  g_test_add_func("/open-extents/code_of_concatenations_is_small", test_concatenations_are_small);
  g_test_add_func("/open-extents/rows_of_matrices_are_no_batch", test_matrices);
  g_test_add_func("/open-extents/planned_storage_is_an_expression_of_extents", test_planned);
  g_test_add_func("/open-extents/memory_does_not_grow_from_run_to_run", test_memory);
  return g_test_run();
}
