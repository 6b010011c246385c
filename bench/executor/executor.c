/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a run of a 64-32-10 MLP by Backplane and by onnxruntime through its C API, in one
 * process, in turns. Prints the shortest run of either runtime in microseconds and their ratio.
 *
 *   bench-executor LIBONNXRUNTIME.so MLP.onnx
 *
 * onnxruntime's C API is a table that only grows; the program names the entries by their index, so
 * it needs no header of onnxruntime. bench/executor/make_mlp.py writes the model. */
#include "bench/bench.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>

#define INPUTS  64
#define OUTPUTS 10
#define ROUNDS  40
#define RUNS    500

/* ---- onnxruntime ------------------------------------------------------------------------- */

enum {
  ORT_GET_ERROR_MESSAGE = 2,
  ORT_CREATE_ENV = 3,
  ORT_CREATE_SESSION = 7,
  ORT_RUN = 9,
  ORT_CREATE_SESSION_OPTIONS = 10,
  ORT_SET_INTRA_OP_NUM_THREADS = 24,
  ORT_CREATE_TENSOR_WITH_DATA = 49,
  ORT_CREATE_CPU_MEMORY_INFO = 69,
};
#define ORT_API_VERSION 17
#define ORT_FLOAT       1

typedef struct OrtBase {
  void *const *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} OrtBase;

typedef struct Ort {
  void *const *api;
  void *session;
  void *input;
  void *output;
} Ort;

static void ort_check(const Ort *ort, void *status) {
  if (status)
    fail(((const char *(*)(const void *))ort->api[ORT_GET_ERROR_MESSAGE])(status));
}

static void *ort_tensor(const Ort *ort, void *memory, float *data, const int64_t *shape) {
  void *tensor = NULL;
  ort_check(ort, ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int,
                             void **))ort->api[ORT_CREATE_TENSOR_WITH_DATA])(
                     memory, data, (size_t)(shape[0] * shape[1]) * sizeof(float), shape, 2,
                     ORT_FLOAT, &tensor));
  return tensor;
}

static void ort_open(Ort *ort, const char *library, const char *model, float *x, float *y) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void *environment, *options, *memory;
  if (!handle)
    fail(dlerror());
  OrtBase *(*get_base)(void) = (OrtBase * (*)(void)) dlsym(handle, "OrtGetApiBase");
  if (!get_base)
    fail("onnxruntime's library has no OrtGetApiBase");
  ort->api = get_base()->get_api(ORT_API_VERSION);
  printf("onnxruntime %s\n", get_base()->get_version());
  ort_check(ort, ((void *(*)(int, const char *, void **))ort->api[ORT_CREATE_ENV])(3, "bench",
                                                                                   &environment));
  ort_check(ort, ((void *(*)(void **))ort->api[ORT_CREATE_SESSION_OPTIONS])(&options));
  ort_check(ort, ((void *(*)(void *, int))ort->api[ORT_SET_INTRA_OP_NUM_THREADS])(options, 1));
  ort_check(ort, ((void *(*)(void *, const char *, void *, void **))ort->api[ORT_CREATE_SESSION])(
                     environment, model, options, &ort->session));
  ort_check(ort,
            ((void *(*)(int, int, void **))ort->api[ORT_CREATE_CPU_MEMORY_INFO])(1, 0, &memory));
  ort->input = ort_tensor(ort, memory, x, (const int64_t[]){1, INPUTS});
  ort->output = ort_tensor(ort, memory, y, (const int64_t[]){1, OUTPUTS});
}

static void ort_run(const Ort *ort) {
  static const char *const inputs[] = {"x"}, *const outputs[] = {"y"};
  void *output = ort->output;
  ort_check(ort, ((void *(*)(void *, void *, const char *const *, const void *const *, size_t,
                             const char *const *, size_t, void **))ort->api[ORT_RUN])(
                     ort->session, NULL, inputs, (const void *const *)&ort->input, 1, outputs, 1,
                     &output));
}

/* ---- Ours -------------------------------------------------------------------------------- */

static BpModelContext *open_ours(const char *path, const float *x) {
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  BpTarget *target = bp_target_from_device(cpu);
  must(!target, "the target");
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  BpModel *model = module ? bp_model_create(module, &cpu, 1) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  must(!context, path);
  int64_t shape[] = {1, INPUTS};
  const BpTensorView view = {.data = (void *)(uintptr_t)x,
                             .device = cpu,
                             .ndim = 2,
                             .dtype = {BP_DTYPE_FLOAT, 32, 1},
                             .shape = shape};
  must(bp_model_set_input(context, "x", &view), "the input");
  return context;
}

/* Runs the model with the result in host memory, as onnxruntime has it. */
static const float *run_ours(BpModelContext *context) {
  must(bp_model_run(context), "a run");
  const BpTensor *output = bp_model_get_output(context, 0);
  must(!output, "the output");
  return output->view.data;
}

int main(int argc, char **argv) {
  float x[INPUTS], y[OUTPUTS];
  Ort ort;
  double best_ours = INFINITY, best_theirs = INFINITY;
  if (argc != 3)
    fail("usage: bench-executor LIBONNXRUNTIME.so MLP.onnx");
  for (int i = 0; i < INPUTS; i++)
    x[i] = (float)(i % 17) / 17.0f;
  must(bp_threads_set(1), "the threads");
  ort_open(&ort, argv[1], argv[2], x, y);
  BpModelContext *ours = open_ours(argv[2], x);
  for (int round = 0; round < ROUNDS; round++) {
    double start = now() * 1e6;
    for (int i = 0; i < RUNS; i++)
      ort_run(&ort);
    double middle = now() * 1e6;
    for (int i = 0; i < RUNS; i++)
      run_ours(ours);
    double end = now() * 1e6;
    best_theirs = fmin(best_theirs, (middle - start) / RUNS);
    best_ours = fmin(best_ours, (end - middle) / RUNS);
  }
  double difference = 0;
  const float *result = run_ours(ours);
  for (int i = 0; i < OUTPUTS; i++)
    difference = fmax(difference, fabs((double)result[i] - (double)y[i]));
  printf("64-32-10 MLP, one run: ours %.3f us, onnxruntime %.3f us, ratio %.3f (bar 0.5); largest "
         "difference %.1e\n",
         best_ours, best_theirs, best_ours / best_theirs, difference);
  bp_model_context_free(ours);
  return difference < 1e-4 ? 0 : 1;
}
