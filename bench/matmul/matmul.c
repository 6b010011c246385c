/* SPDX-License-Identifier: Apache-2.0 */
/* Measures matrix products of float32 beside oneDNN, and the sum of two vectors beside memcpy: each
 * is compiled as a model, and runs in turns with its peer in one process, on one thread and on two.
 * Prints the shortest run of each and their ratio; exits with 1 if a result is wrong.
 *
 *   bench-matmul [-t TARGET | -d DEVICE] [-r ROUNDS] [ROWSxINNERxCOLUMNS...]
 *
 * A DEVICE other than the CPU runs only the products, on as many threads as its driver uses.
 *
 * In "constant" the second operand is a constant of the model; oneDNN gets it in its preferred
 * layout, packed beforehand. In "given" the second operand is an input, in plain rows. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "bench/matmul/onednn.h"
#include "tests/graph/onnx_builder.h"

/* One measurement is a series of runs of about this duration: shorter than a time slice of the
 * scheduler, so that some series are not interrupted on a busy machine. */
#define SERIES_SECONDS 0.003
/* A pause after each measurement, in which the peer's idle threads stop spinning. */
#define PAUSE_NS      3000000
#define VECTOR_FLOATS ((int64_t)1 << 24)

static const BpDevice cpu = {BP_DEVICE_CPU, 0};
static BpDevice device = {BP_DEVICE_CPU, 0};
static const char *target_text = "c";
static int rounds = 50;

/* ---- Models ------------------------------------------------------------------------------ */

typedef struct Ours {
  BpModel *model;
  BpModelContext *context;
} Ours;

static BpTensor *tensor_on(BpDevice where, const char *shape, const float *values) {
  int64_t extents[2], count = 1;
  int32_t ndim = 0;
  for (char *at = (char *)(uintptr_t)shape; *at && ndim < 2; at += *at == 'x')
    count *= extents[ndim++] = strtoll(at, &at, 10);
  BpTensor *tensor =
      bp_tensor_create(extents, ndim, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, where, NULL);
  if (!tensor || bp_tensor_copy_from_host(&tensor->view, values, (uint64_t)count * sizeof(float)) ||
      bp_stream_sync(where, NULL))
    fail("memory");
  return tensor;
}

static BpTensor *tensor_of(const char *shape, const float *values) {
  return tensor_on(cpu, shape, values);
}

/* Compiles the builder's model, frees the builder, and binds inputs "a" and, if there is one,
 * "b". */
static void open_ours(Ours *ours, OnnxBuilder *builder, BpTensor *a, BpTensor *b) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = device.device_type == BP_DEVICE_CPU ? bp_target_parse(target_text)
                                                         : bp_target_from_device(device);
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  ours->model = module ? bp_model_create(module, &device, 1) : NULL;
  ours->context = ours->model ? bp_model_context_create(ours->model) : NULL;
  if (!ours->context || bp_model_bind_input(ours->context, "a", a) ||
      (b && bp_model_bind_input(ours->context, "b", b)))
    fail("model");
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void close_ours(Ours *ours) {
  bp_model_context_free(ours->context);
  bp_model_release(ours->model);
}

static const BpTensor *result_of(const Ours *ours) {
  const BpTensor *output = bp_model_get_output(ours->context, 0);
  if (!output)
    fail("output");
  return output;
}

static void run_ours(void *context) {
  const Ours *ours = context;
  if (bp_model_run(ours->context))
    fail("run");
  result_of(ours);
}

/* ---- Measuring --------------------------------------------------------------------------- */

typedef struct Candidate {
  void (*run)(void *context);
  void *context;
  int runs; /* runs of a series */
  double best;
} Candidate;

static double time_series(const Candidate *candidate) {
  static const struct timespec pause = {0, PAUSE_NS};
  double start = now();
  for (int i = 0; i < candidate->runs; i++)
    candidate->run(candidate->context);
  double seconds = (now() - start) / candidate->runs;
  nanosleep(&pause, NULL);
  return seconds;
}

/* Runs the candidates in turns; records the shortest time of each. */
static void measure(Candidate *candidates, int count) {
  for (int i = 0; i < count; i++) {
    Candidate *candidate = &candidates[i];
    candidate->runs = 1;
    time_series(candidate);
    candidate->best = time_series(candidate);
    candidate->runs = (int)fmin(1000, fmax(1, SERIES_SECONDS / candidate->best));
  }
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < count; i++)
      candidates[i].best = fmin(candidates[i].best, time_series(&candidates[i]));
}

/* ---- Products ---------------------------------------------------------------------------- */

typedef struct Product {
  int64_t rows, inner, columns;
} Product;

/* Returns the largest difference, relative to the largest result. */
static double difference_of(const float *got, const float *expected, int64_t count) {
  double most = 0, difference = 0;
  for (int64_t i = 0; i < count; i++) {
    most = fmax(most, fabs((double)expected[i]));
    difference = fmax(difference, fabs((double)got[i] - (double)expected[i]));
    if (isnan(got[i]))
      return INFINITY;
  }
  return difference / most;
}

/* Prints one line of the table; returns whether the results agree. */
static int compare_product(const Product *p, int is_constant, int threads) {
  char left[64], right[64];
  snprintf(left, sizeof left, "%lldx%lld", (long long)p->rows, (long long)p->inner);
  snprintf(right, sizeof right, "%lldx%lld", (long long)p->inner, (long long)p->columns);
  float *a = onnx_float_values(p->rows * p->inner), *b = onnx_float_values(p->inner * p->columns);
  BpTensor *a_tensor = tensor_of(left, a), *b_tensor = tensor_of(right, b);
  BpTensor *a_ours = tensor_on(device, left, a), *b_ours = tensor_on(device, right, b);
  float *result = g_new(float, (gsize)(p->rows * p->columns));
  OnnxBuilder *builder = onnx_builder_new();
  Ours ours;
  onnx_input(builder, "a", ONNX_FLOAT, left);
  if (is_constant)
    onnx_floats(builder, "b", right);
  else
    onnx_input(builder, "b", ONNX_FLOAT, right);
  onnx_node(builder, "MatMul", "a,b", "y", "");
  onnx_output(builder, "y");
  open_ours(&ours, builder, a_ours, is_constant ? NULL : b_ours);
  OneDnnProduct *theirs = onednn_product_new(p->rows, p->inner, p->columns, a_tensor->view.data,
                                             b_tensor->view.data, is_constant);
  Candidate candidates[] = {{run_ours, &ours, 0, 0}, {onednn_product_run, theirs, 0, 0}};
  measure(candidates, 2);
  if (bp_tensor_copy_to_host(&result_of(&ours)->view, result,
                             (uint64_t)(p->rows * p->columns) * sizeof(float)))
    fail("result");
  double difference = difference_of(result, onednn_product_result(theirs), p->rows * p->columns);
  double work = 2e-9 * (double)p->rows * (double)p->inner * (double)p->columns;
  double ratio = candidates[1].best / candidates[0].best;
  double bar = device.device_type != BP_DEVICE_CPU ? 0.8 : is_constant ? 0.9 : 0.6;
  printf("%6lld %6lld %6lld  %-8s %7d %9.1f %9.1f %7.2f  %s  %.0e\n", (long long)p->rows,
         (long long)p->inner, (long long)p->columns, is_constant ? "constant" : "given", threads,
         work / candidates[0].best, work / candidates[1].best, ratio,
         ratio >= bar ? "     " : "below", difference);
  fflush(stdout);
  onednn_product_free(theirs);
  close_ours(&ours);
  bp_object_release(a_tensor);
  bp_object_release(b_tensor);
  bp_object_release(a_ours);
  bp_object_release(b_ours);
  g_free(result);
  g_free(a);
  g_free(b);
  return difference < 1e-5;
}

/* ---- Vectors ----------------------------------------------------------------------------- */

typedef struct Copy {
  float *to;
  const float *from;
} Copy;

static void run_copy(void *context) {
  const Copy *copy = context;
  memcpy(copy->to, copy->from, (size_t)VECTOR_FLOATS * sizeof(float));
}

static int compare_sum(int threads) {
  char shape[32];
  snprintf(shape, sizeof shape, "%lld", (long long)VECTOR_FLOATS);
  float *values = onnx_float_values(VECTOR_FLOATS);
  BpTensor *a = tensor_of(shape, values), *b = tensor_of(shape, values),
           *c = tensor_of(shape, values);
  OnnxBuilder *builder = onnx_builder_new();
  Ours ours;
  onnx_input(builder, "a", ONNX_FLOAT, shape);
  onnx_input(builder, "b", ONNX_FLOAT, shape);
  onnx_node(builder, "Add", "a,b", "y", "");
  onnx_output(builder, "y");
  open_ours(&ours, builder, a, b);
  Copy copy = {c->view.data, a->view.data};
  Candidate candidates[] = {{run_ours, &ours, 0, 0}, {run_copy, &copy, 0, 0}};
  measure(candidates, 2);
  int is_right = 1;
  for (int64_t i = 0; i < VECTOR_FLOATS; i++)
    is_right &= ((const float *)result_of(&ours)->view.data)[i] == values[i] + values[i];
  double bytes = 1e-9 * sizeof(float) * (double)VECTOR_FLOATS;
  double sum = 3 * bytes / candidates[0].best, copied = 2 * bytes / candidates[1].best;
  printf("sum of 2^24 floats, threads %d: %.1f GB/s, memcpy on one %.1f, ratio %.2f %s\n", threads,
         sum, copied, sum / copied, sum / copied >= 0.75 ? "" : "below");
  close_ours(&ours);
  bp_object_release(a);
  bp_object_release(b);
  bp_object_release(c);
  g_free(values);
  return is_right;
}

/* ---- All --------------------------------------------------------------------------------- */

static int compare_all(char **words, int count) {
  static const int64_t sizes[] = {256, 512, 1024, 2048};
  int is_right = 1;
  printf("%6s %6s %6s  %-8s %7s %9s %9s %7s\n", "rows", "inner", "cols", "operand", "threads",
         "ours GF/s", "oneDNN", "ratio");
  int is_cpu = device.device_type == BP_DEVICE_CPU;
  for (int threads = is_cpu ? 1 : 2; threads <= 2; threads++) {
    if (bp_threads_set(threads))
      fail("threads");
    onednn_set_threads(threads);
    for (int i = 0; i < (count ? count : (int)G_N_ELEMENTS(sizes)); i++)
      for (int is_constant = 1; is_constant >= 0; is_constant--) {
        Product product = {sizes[i % 4], sizes[i % 4], sizes[i % 4]};
        long long rows, inner, columns;
        if (count && sscanf(words[i], "%lldx%lldx%lld", &rows, &inner, &columns) != 3) {
          fprintf(stderr, "bench-matmul: '%s' is not ROWSxINNERxCOLUMNS\n", words[i]);
          return 0;
        }
        if (count)
          product = (Product){rows, inner, columns};
        is_right &= compare_product(&product, is_constant, threads);
      }
    if (!count && is_cpu)
      is_right &= compare_sum(threads);
  }
  return is_right;
}

int main(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "t:d:r:")) != -1) {
    if (option == 't')
      target_text = optarg;
    else if (option == 'd' && bp_device_parse(optarg, &device))
      fail("device");
    else if (option == 'd')
      continue;
    else if (option == 'r')
      rounds = atoi(optarg);
    else
      return 2;
  }
  return compare_all(argv + optind, argc - optind) ? 0 : 1;
}
