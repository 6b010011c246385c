/* SPDX-License-Identifier: Apache-2.0 */
/* A graph on a device and the host, or another device, in two halves of about equal length, beside
 * each half alone, in one process, in turns. Prints the shortest run of each in microseconds, and
 * the ratio of the whole to the longer half: 1 is full overlap, 2 is none.
 *
 *   bench-overlap [-t HOST_TARGET] [-m MILLISECONDS] DEVICE [OTHER]
 *
 * Without OTHER the second half is the host's, with code for HOST_TARGET (c). The halves take about
 * MILLISECONDS (20) each. A device that computes on the host's own cores shares them with the other
 * half, of which the host's uses one. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#define COUNT   16384
#define SECONDS 3.0
#define ROUNDS  10 /* at least */
#define PASSES  4  /* in which the halves are made equal */

static const BpDevice host = {BP_DEVICE_CPU, 0};

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void must(bool is_done, const char *what) {
  if (is_done)
    return;
  fprintf(stderr, "bench-overlap: %s: %s\n", what, bp_error_message());
  exit(1);
}

/* ---- Code -------------------------------------------------------------------------------- */

#define BUFFERS "(buffer X float32 global 16384) (buffer Y float32 global 16384)"
#define AT      "(add (mul b 64) t)"
#define THREADS " (for b:int64 0 256 bound \"blockIdx.x\" (for t:int64 0 64 bound \"threadIdx.x\" "
/* Y[i] goes towards 1 in small steps, whose number stands in between. */
#define BEFORE(I) "(seq (store Y " I " (load X " I ")) (for r:int64 0 "
#define AFTER(I)  " serial (store Y " I " (add (mul (load Y " I ") 0.99:float32) 0.01:float32))))"

static BpModule *build(const BpTarget *target, const char *before, long long steps,
                       const char *after) {
  char text[2048];
  int size = snprintf(text, sizeof(text), "%s%lld%s", before, steps, after);
  BpIrModule *ir = bp_ir_parse(text, (size_t)size);
  must(ir != NULL && !bp_ir_verify(ir), "the program");
  BpModule *module = bp_target_build(ir, target);
  must(module != NULL, "code");
  bp_object_release(ir);
  return module;
}

/* The functions "on_other" and, imported, "on_device" and "join", of so many steps. */
static BpModule *build_code(const BpTarget *device_target, const BpTarget *other_target,
                            bool is_other_host, const long long steps[2]) {
  BpModule *code =
      is_other_host
          ? build(other_target,
                  "(module (function \"on_other\" " BUFFERS
                  " (for i:int64 0 16384 serial " BEFORE("i"),
                  steps[1], AFTER("i") ")))")
          : build(other_target, "(module (function \"on_other\" " BUFFERS THREADS BEFORE(AT),
                  steps[1], AFTER(AT) "))))");
  BpModule *imported =
      build(device_target, "(module (function \"on_device\" " BUFFERS THREADS BEFORE(AT), steps[0],
            AFTER(AT) "))) (function \"join\" (buffer X float32 global 16384) (buffer Z float32 "
                      "global 16384)"
                      " (buffer Y float32 global 16384)" THREADS "(store Y " AT " (add (load X " AT
                      ") (load Z " AT ")))))))");
  must(!bp_module_import(code, imported), "an import");
  bp_object_release(imported);
  return code;
}

/* ---- Graphs ------------------------------------------------------------------------------ */

#define LAUNCH ",\"launch\":\"256 64\""
#define DEVICE                                                                                     \
  "{\"op\":\"tvm_op\",\"name\":\"d\",\"attrs\":{\"func_name\":\"on_device\"" LAUNCH "},"           \
  "\"inputs\":[[0,0,0]]}"
#define OTHER_HALF                                                                                 \
  "{\"op\":\"tvm_op\",\"name\":\"c\",\"attrs\":{\"func_name\":\"__copy\"},\"inputs\":[[0,0,0]]},"  \
  "{\"op\":\"tvm_op\",\"name\":\"h\",\"attrs\":{\"func_name\":\"on_other\"%s},\"inputs\":[[1,0,0]" \
  "]},"                                                                                            \
  "{\"op\":\"tvm_op\",\"name\":\"b\",\"attrs\":{\"func_name\":\"__copy\"},\"inputs\":[[2,0,0]]}"
#define JOIN                                                                                       \
  "{\"op\":\"tvm_op\",\"name\":\"j\",\"attrs\":{\"func_name\":\"join\"" LAUNCH "},"                \
  "\"inputs\":[[3,0,0],[4,0,0]]}"

/* Nodes after the input, with the launch of "on_other" left open, and for each, 1 if its output is
 * the other device's. */
static const struct {
  const char *name, *nodes;
  int count, is_on_other[6];
} graphs[] = {
    {"device", DEVICE, 1, {0}},
    {"other", OTHER_HALF, 3, {1, 1, 0}},
    {"both", OTHER_HALF "," DEVICE "," JOIN, 5, {1, 1, 0, 0, 0}},
};
enum { DEVICE_HALF, OTHER_HALF_ALONE, BOTH, NUM_GRAPHS };

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

static BpModule *create(int which, BpModule *code, const BpDevice devices[2]) {
  char json[4096] = "", nodes[2048] = "", rows[64] = "0", types[128] = "", shapes[128] = "",
       storages[64] = "", places[64] = "";
  for (int i = 0; i <= graphs[which].count; i++) {
    const char *comma = i ? "," : "";
    append(rows, sizeof(rows), ",%d", i + 1);
    append(types, sizeof(types), "%s\"float32\"", comma);
    append(shapes, sizeof(shapes), "%s[%d]", comma, COUNT);
    append(storages, sizeof(storages), "%s%d", comma, i);
    append(places, sizeof(places), "%s%d", comma,
           devices[i && graphs[which].is_on_other[i - 1]].device_type);
  }
  const char *launch = strstr(graphs[which].nodes, "%s");
  append(nodes, sizeof(nodes), "%.*s%s%s",
         (int)(launch ? (size_t)(launch - graphs[which].nodes) : strlen(graphs[which].nodes)),
         graphs[which].nodes, launch && devices[1].device_type != BP_DEVICE_CPU ? LAUNCH : "",
         launch ? launch + 2 : "");
  append(json, sizeof(json),
         "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},%s],\"arg_nodes\":[0],"
         "\"heads\":[[%d,0,0]],\"node_row_ptr\":[%s],\"attrs\":{\"dltype\":[\"list_str\",[%s]],"
         "\"shape\":[\"list_shape\",[%s]],\"storage_id\":[\"list_int\",[%s]],"
         "\"device_index\":[\"list_int\",[%s]]}}",
         nodes, graphs[which].count, rows, types, shapes, storages, places);
  BpModule *module = bp_graph_executor_create(json, code, devices, 2);
  must(module != NULL, graphs[which].name);
  return module;
}

static void call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                 BpValue *result) {
  BpFunction *function;
  must(!bp_module_get_function(module, name, 0, &function) &&
           !bp_function_call(function, args, num_args, result),
       name);
  bp_object_release(function);
}

static void set_input(BpModule *module) {
  const int64_t extent = COUNT;
  BpValue result;
  BpTensor *x = bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  must(x != NULL, "an input");
  for (int i = 0; i < COUNT; i++)
    ((float *)x->view.data)[i] = (float)(i % 97) / 97.0F;
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"},
                          {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  call(module, "set_input", args, 2, &result);
  bp_object_release(x);
}

/* ---- Measuring --------------------------------------------------------------------------- */

static double run(BpModule *module) {
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  double begin = now_us();
  call(module, "run", NULL, 0, &result);
  call(module, "get_output", &index, 1, &result); /* waits */
  double took = now_us() - begin;
  bp_value_clear(&result);
  return took;
}

static void measure(BpModule *code, const BpDevice devices[2], double seconds,
                    double least[NUM_GRAPHS]) {
  BpModule *modules[NUM_GRAPHS];
  for (int i = 0; i < NUM_GRAPHS; i++) {
    modules[i] = create(i, code, devices);
    set_input(modules[i]);
    least[i] = run(modules[i]); /* builds what is built with a first run */
  }
  double begin = now_us();
  for (int round = 0; round < ROUNDS || now_us() - begin < seconds * 1e6; round++)
    for (int i = 0; i < NUM_GRAPHS; i++) {
      double took = run(modules[i]);
      least[i] = took < least[i] ? took : least[i];
    }
  for (int i = 0; i < NUM_GRAPHS; i++)
    bp_object_release(modules[i]);
}

int main(int argc, char **argv) {
  const char *host_text = "c";
  double wanted_us = 20000, least[NUM_GRAPHS];
  int at = 1;
  BpDevice devices[2] = {host, host};
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (!strcmp(argv[at], "-t"))
      host_text = argv[at + 1];
    else if (!strcmp(argv[at], "-m"))
      wanted_us = strtod(argv[at + 1], NULL) * 1e3;
  }
  if (at + 1 != argc && at + 2 != argc) {
    fprintf(stderr, "usage: bench-overlap [-t HOST_TARGET] [-m MILLISECONDS] DEVICE [OTHER]\n");
    return 2;
  }
  const bool is_other_host = at + 1 == argc;
  for (int i = 0; at + i < argc; i++)
    must(!bp_device_parse(argv[at + i], &devices[i]), argv[at + i]);
  BpTarget *targets[] = {bp_target_from_device(devices[0]),
                         is_other_host ? bp_target_parse(host_text)
                                       : bp_target_from_device(devices[1])};
  must(targets[0] && targets[1], "a target");
  long long steps[2] = {100, 100};
  for (int pass = 0; pass <= PASSES; pass++) { /* the last is what is printed */
    BpModule *code = build_code(targets[0], targets[1], is_other_host, steps);
    measure(code, devices, pass < PASSES ? 0.5 : SECONDS, least);
    bp_object_release(code);
    for (int i = 0; i < 2 && pass < PASSES; i++)
      steps[i] = 1 + (long long)((double)steps[i] * wanted_us / least[i]);
  }
  double longer =
      least[DEVICE_HALF] > least[OTHER_HALF_ALONE] ? least[DEVICE_HALF] : least[OTHER_HALF_ALONE];
  printf("%s %.1f us, %s %.1f us, both %.1f us, ratio to the longer half %.2f\n", argv[at],
         least[DEVICE_HALF], is_other_host ? "host" : argv[at + 1], least[OTHER_HALF_ALONE],
         least[BOTH], least[BOTH] / longer);
  for (int i = 0; i < 2; i++)
    bp_object_release(targets[i]);
  return 0;
}
