/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the time from the start of a process to its first kernel: a program that loads an
 * artifact and calls one of its functions, compared with an empty program. Runs alternate, and
 * minima are compared.
 *
 *   bench-start EMPTY ARTIFACT.so
 *
 * With --device the program also chooses the CPU's device and lets it allocate the tensor, which
 * loads the plugin cpu. `bench-start --load ARTIFACT.so` and `--device ARTIFACT.so` are the
 * measured programs. */
#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#define RUNS 300

extern char **environ;

/* ---- The measured programs --------------------------------------------------------------- */

static int call_first(const char *path, const BpTensorView *view) {
  BpFunction *function = NULL;
  BpModule *module = bp_module_load(path);
  BpValue argument = {.type_index = BP_TYPE_TENSOR_VIEW}, result;
  argument.v_view = (BpTensorView *)(uintptr_t)view;
  int rc = !module || bp_module_get_function(module, "first", 0, &function) || !function ||
           bp_function_call(function, &argument, 1, &result);
  bp_object_release(function);
  bp_object_release(module);
  return rc;
}

static int load_and_call(const char *path) {
  float element = 1;
  int64_t shape[] = {1};
  const BpTensorView view = {.data = &element,
                             .device = {BP_DEVICE_CPU, 0},
                             .ndim = 1,
                             .dtype = {BP_DTYPE_FLOAT, 32, 1},
                             .shape = shape};
  return call_first(path, &view) || element != 2;
}

static int select_and_call(const char *path) {
  static const int64_t shape[] = {1};
  BpDevice device;
  if (bp_device_select("cpu", &device, NULL))
    return 1;
  BpTensor *tensor = bp_tensor_create(shape, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  if (!tensor)
    return 1;
  *(float *)tensor->view.data = 1;
  int rc = call_first(path, &tensor->view) || *(float *)tensor->view.data != 2;
  bp_tensor_release(tensor);
  return rc;
}

/* ---- Measuring --------------------------------------------------------------------------- */

static double time_run(char *const *argv) {
  pid_t child;
  int status;
  double start = now() * 1e3;
  if (posix_spawn(&child, argv[0], NULL, NULL, argv, environ) != 0 ||
      waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
    fprintf(stderr, "bench-start: %s %s fails\n", argv[0], argv[1] ? argv[1] : "");
    exit(1);
  }
  return now() * 1e3 - start;
}

static int measure(char *self, char *empty, char *artifact) {
  char load[] = "--load", select[] = "--device";
  char *nothing[] = {empty, NULL};
  char *loads[] = {self, load, artifact, NULL}, *selects[] = {self, select, artifact, NULL};
  double least[3] = {INFINITY, INFINITY, INFINITY};
  for (int i = 0; i < RUNS; i++) {
    least[0] = fmin(least[0], time_run(nothing));
    least[1] = fmin(least[1], time_run(loads));
    least[2] = fmin(least[2], time_run(selects));
  }
  printf("empty program %.2f ms; first kernel from an artifact %.2f ms, %.2f above (bar 1); with "
         "the device cpu %.2f ms, %.2f above\n",
         least[0], least[1], least[1] - least[0], least[2], least[2] - least[0]);
  return 0;
}

int main(int argc, char **argv) {
  int rc;
  if (argc != 3) {
    fprintf(stderr, "usage: bench-start EMPTY ARTIFACT.so\n");
    return 2;
  }
  if (!strcmp(argv[1], "--load"))
    rc = load_and_call(argv[2]);
  else if (!strcmp(argv[1], "--device"))
    rc = select_and_call(argv[2]);
  else
    return measure(argv[0], argv[1], argv[2]);
  if (rc)
    fprintf(stderr, "bench-start: %s\n", bp_error_message());
  return rc;
}
