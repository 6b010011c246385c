/* SPDX-License-Identifier: Apache-2.0 */
/* Backplane's half of the benchmarks of device plugins. */
#include "bench/beside_driver.h"

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Ours ours;
char *host;

BpTensor *our_tensor(int64_t floats) {
  BpTensor *tensor =
      bp_tensor_create(&floats, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, ours.device, NULL);
  must(!tensor, "tensor");
  return tensor;
}

BpFunction *our_function(BpModule *module, const char *name) {
  BpFunction *function = NULL;
  must(bp_module_get_function(module, name, 0, &function) || !function, name);
  return function;
}

void our_wait(void) {
  must(bp_stream_sync(ours.device, NULL), "sync");
}

/* ---- Opening ----------------------------------------------------------------------------- */

/* Makes the chain as graph JSON, which the caller frees; NULL if memory is exhausted. Each tensor
 * of the chain has `elements` floats, each launch 4 blocks. */
static char *chain_json(int kernels, int elements) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  fputs("{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}", out);
  for (int i = 0; i < kernels; i++)
    fprintf(out,
            ",{\"op\":\"tvm_op\",\"name\":\"n%d\",\"attrs\":{\"func_name\":\"add_one\","
            "\"num_inputs\":\"1\",\"num_outputs\":\"1\",\"flatten_data\":\"0\",\"launch\":\"4\"},"
            "\"inputs\":[[%d,0,0]]}",
            i, i);
  fprintf(out, "],\"arg_nodes\":[0],\"heads\":[[%d,0,0]],\"node_row_ptr\":[0", kernels);
  for (int i = 0; i <= kernels; i++)
    fprintf(out, ",%d", i + 1);
  fputs("],\"attrs\":{\"dltype\":[\"list_str\",[\"float32\"", out);
  for (int i = 0; i < kernels; i++)
    fputs(",\"float32\"", out);
  fprintf(out, "]],\"shape\":[\"list_shape\",[[%d]", elements);
  for (int i = 0; i < kernels; i++)
    fprintf(out, ",[%d]", elements);
  fputs("]],\"storage_id\":[\"list_int\",[0", out);
  for (int i = 0; i < kernels; i++)
    fprintf(out, ",%d", i + 1);
  fputs("]]}}", out);
  return fclose(out) ? NULL : text;
}

static void open_graph(void) {
  char *json = chain_json(KERNELS, ELEMENTS);
  must(!json, "memory");
  BpTensor *input = our_tensor(ELEMENTS);
  BpValue result,
      args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"}, {.type_index = BP_TYPE_TENSOR}};
  args[1].v_obj = (BpObject *)(void *)input;
  must(bp_tensor_copy_from_host(&input->view, host, ELEMENTS * sizeof(float)), "input");
  ours.graph = bp_graph_executor_create(json, ours.code, &ours.device, 1);
  must(!ours.graph, "graph");
  BpFunction *set_input = our_function(ours.graph, "set_input");
  must(bp_function_call(set_input, args, 2, &result), "set_input");
  ours.run = our_function(ours.graph, "run");
  ours.get_output = our_function(ours.graph, "get_output");
  bp_object_release(set_input);
  bp_object_release(input);
  free(json);
}

static void open_code(const char *ir_text) {
  BpTarget *target = bp_target_from_device(ours.device);
  BpIrModule *ir = bp_ir_parse(ir_text, strlen(ir_text));
  ours.code = target && ir ? bp_target_build(ir, target) : NULL;
  must(!ours.code, "code");
  ours.empty = our_function(ours.code, "empty");
  bp_object_release(ir);
  bp_object_release(target);
}

int open_ours(const char *program, int32_t device_type, const char *ir_text) {
  int32_t count = 0;
  const char *why = "";
  ours.program = program;
  ours.device = (BpDevice){device_type, 0};
  if (bp_device_count(device_type, &count, &why))
    why = bp_error_message();
  if (count == 0) {
    printf("skipped: %s\n", why);
    return 0;
  }
  host = malloc(COPY_BYTES);
  must(!host, "memory");
  memset(host, 1, COPY_BYTES);
  open_code(ir_text);
  ours.large = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  ours.small = our_tensor(1);
  open_graph();
  return 1;
}

void close_ours(void) {
  void *objects[] = {ours.get_output, ours.run,   ours.graph, ours.empty,
                     ours.large,      ours.small, ours.code};
  for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
    bp_object_release(objects[i]);
  free(host);
}

/* ---- Seconds for one operation ----------------------------------------------------------- */

static double our_call(void) {
  BpValue result, arg = {.type_index = BP_TYPE_TENSOR};
  arg.v_obj = (BpObject *)(void *)ours.small;
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    must(bp_function_call(ours.empty, &arg, 1, &result), "call");
    our_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double our_launch(void) {
  const BpInvocation invocation = {sizeof invocation, ours.device, NULL, 0};
  BpValue result, arg = {.type_index = BP_TYPE_TENSOR};
  arg.v_obj = (BpObject *)(void *)ours.small;
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    must(bp_function_launch(ours.empty, &invocation, &arg, 1, &result), "launch");
    our_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double our_copy_in(void) {
  double began = now();
  must(bp_tensor_copy_from_host(&ours.large->view, host, COPY_BYTES), "copy");
  our_wait();
  return now() - began;
}

static double our_copy_out(void) {
  double began = now();
  must(bp_tensor_copy_to_host(&ours.large->view, host, COPY_BYTES), "copy");
  return now() - began;
}

static double our_graph(void) {
  const BpValue index = {.type_index = BP_TYPE_INT};
  BpValue result;
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    must(bp_function_call(ours.run, NULL, 0, &result), "run");
    must(bp_function_call(ours.get_output, &index, 1, &result), "get_output"); /* waits */
    bp_value_clear(&result);
  }
  return (now() - began) / GRAPH_RUNS;
}

/* ---- Comparing --------------------------------------------------------------------------- */

void compare(const char *what, int rounds, Bar bar, double (*our)(void), double (*their)(void)) {
  double our_least = 1e9, their_least = 1e9;
  our(), their(); /* code is compiled or loaded with the first launch */
  for (int i = 0; i < rounds; i++) {
    double took = our();
    our_least = took < our_least ? took : our_least;
    took = their();
    their_least = took < their_least ? took : their_least;
  }
  printf("%-28s %12.2f us  driver %12.2f us  ratio %.2f  at most %.2f\n", what, our_least * 1e6,
         their_least * 1e6, our_least / their_least, bar.times + bar.more / their_least);
}

void compare_with_driver(int rounds, const Driver *driver) {
  const Bar copy_bar = {1.05, 0}, graph_bar = {1.15, 0};
  compare("empty kernel and wait", rounds, driver->launch_bar, our_call, driver->launch);
  compare("the same with an invocation", rounds, driver->launch_bar, our_launch, driver->launch);
  compare("64 MiB to the device", rounds / 5 + 1, copy_bar, our_copy_in, driver->copy_in);
  compare("64 MiB from the device", rounds / 5 + 1, copy_bar, our_copy_out, driver->copy_out);
  compare("graph of 50 small kernels", rounds, graph_bar, our_graph, driver->graph);
}
