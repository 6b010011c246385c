/* SPDX-License-Identifier: Apache-2.0 */
/* Backplane's side of bench_tvm.py: runs libraries that TVM compiled. Prints nanoseconds, the
 * minimum of many batches.
 *
 *   tvm call LIBRARY FUNCTION   a call of a function of two integers: direct, and through Backplane
 *   tvm model LIBRARY CALLS     a run of the model in a Relax executable, with zeros as inputs
 *   tvm start LIBRARY FUNCTION  a new process, to its end, that calls the function once
 *   tvm once LIBRARY FUNCTION   that process */

#include "bench/bench.h"

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/relax.h>
#include <backplane/module.h>
#include <backplane/object.h>

#define BATCHES 200

static BpFunction *find(BpModule *module, const char *name) {
  BpFunction *function = NULL;
  if (!module || bp_module_get_function(module, name, 1, &function) || !function)
    fail(name);
  return function;
}

static const BpValue two[] = {{.type_index = BP_TYPE_INT, .v_int64 = 1},
                              {.type_index = BP_TYPE_INT, .v_int64 = 2}};

static void bench_call(const char *path, const char *name) {
  const int calls = 20000;
  BpModule *module = bp_module_load(path);
  BpFunction *function = find(module, name);
  double direct = INFINITY, ours = INFINITY;
  BpPackedCall symbol = function->call;
  for (int batch = 0; batch < BATCHES; batch++) {
    BpValue result;
    double began = now();
    for (int i = 0; i < calls; i++) {
      result = (BpValue){.type_index = BP_TYPE_NONE};
      symbol(NULL, two, 2, &result);
    }
    direct = fmin(direct, (now() - began) * 1e9 / calls);
    began = now();
    for (int i = 0; i < calls; i++)
      bp_function_call(function, two, 2, &result);
    ours = fmin(ours, (now() - began) * 1e9 / calls);
  }
  printf("%.3f %.3f\n", direct, ours);
  bp_object_release(function);
  bp_object_release(module);
}

static BpTensor *zeros(const BpModelTensorInfo *info) {
  BpTensor *tensor =
      bp_tensor_create(info->shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    fail("memory");
  memset(tensor->view.data, 0, (size_t)bp_view_num_bytes(&tensor->view));
  return tensor;
}

static void bench_model(const char *path, int calls) {
  if (bp_graph_initialize())
    fail("the graph library");
  BpDevice cpu = {BP_DEVICE_CPU, 0};
  BpModule *module = bp_module_load(path);
  BpModel *model = module ? bp_model_create(module, &cpu, 1) : NULL;
  BpModule *machine = model ? bp_relax_machine_create(module, cpu) : NULL;
  BpFunction *forward = find(machine, "forward");
  BpValue args[16], result;
  int32_t num_args = bp_model_num_inputs(model);
  for (int32_t i = 0; i < num_args && i < 16; i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    if (!info)
      fail("an input");
    args[i] = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &zeros(info)->header};
  }
  double least = INFINITY;
  for (int batch = 0; batch < BATCHES; batch++) {
    double began = now();
    for (int i = 0; i < calls; i++) {
      if (bp_function_call(forward, args, num_args, &result))
        fail("a call");
      bp_value_clear(&result);
    }
    least = fmin(least, (now() - began) * 1e9 / calls);
  }
  printf("%.1f\n", least);
}

static void run_once(const char *path, const char *name) {
  BpValue result;
  if (bp_function_call(find(bp_module_load(path), name), two, 2, &result))
    fail(name);
}

static void bench_start(char *path, char *name) {
  static char self[] = "/proc/self/exe", once[] = "once";
  char program[4096];
  ssize_t size = readlink(self, program, sizeof program - 1);
  program[size > 0 ? size : 0] = '\0';
  char *const args[] = {program, once, path, name, NULL};
  double least = INFINITY;
  for (int i = 0; i < BATCHES / 4; i++) {
    pid_t child;
    int status;
    double began = now();
    if (posix_spawn(&child, program, NULL, NULL, args, environ) ||
        waitpid(child, &status, 0) != child || status)
      exit(1);
    least = fmin(least, (now() - began) * 1e9);
  }
  printf("%.0f\n", least);
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  if (!strcmp(argv[1], "call"))
    bench_call(argv[2], argv[3]);
  else if (!strcmp(argv[1], "model"))
    bench_model(argv[2], atoi(argv[3]));
  else if (!strcmp(argv[1], "start"))
    bench_start(argv[2], argv[3]);
  else
    run_once(argv[2], argv[3]);
  return 0;
}
