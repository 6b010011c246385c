/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a graph with two halves of about equal duration, on a device and on the host or another
 * device, and each half alone, in one process, in turns. Prints the shortest run of each in
 * microseconds with the number of processors that it kept busy, and the ratio of the whole graph to
 * the longer half: 1 is full overlap, 2 is none. If the whole graph kept only one processor busy,
 * other programs used the processors: measure again.
 *
 *   bench-overlap [-t HOST_TARGET] [-m MILLISECONDS] [-s SECONDS] DEVICE [OTHER]
 *
 * Without OTHER the second half runs on the host, with code for HOST_TARGET (c), in one thread.
 * Each half takes about MILLISECONDS (20); the last pass takes SECONDS (3).
 *
 * Drivers that compute on the host's processors (PoCL, lavapipe) start a thread for each processor,
 * and halves that share processors cannot overlap. So each half has its own half of the processors
 * that the program may use: the threads of its driver run there, one for each processor unless the
 * driver's own variable sets another number. */
#include "bench/bench.h"

#include <sched.h>
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

#define COUNT       4096
#define ROUNDS      10 /* least number of rounds */
#define PASSES      4  /* passes that equalise the halves */
#define LEAST_STEPS 64 /* lavapipe unrolls shorter loops, which then run several times as fast */

static const BpDevice host = {BP_DEVICE_CPU, 0};

/* Seconds that this process' threads were on processors. */
static double busy_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- Code -------------------------------------------------------------------------------- */

#define BUFFERS "(buffer X float32 global 4096) (buffer Y float32 global 4096)"
#define AT      "(add (mul b 64) t)"
#define THREADS " (for b:int64 0 64 bound \"blockIdx.x\" (for t:int64 0 64 bound \"threadIdx.x\" "
/* Y[i] approaches 1 in small steps, as many as the number inserted in between. */
#define BEFORE(I) "(seq (store Y " I " (load X " I ")) (for r:int64 0 "
#define AFTER(I)  " serial (store Y " I " (add (mul (load Y " I ") 0.99:float32) 0.01:float32))))"

static BpModule *build(const BpTarget *target, const char *before, long long steps,
                       const char *after) {
  char text[2048];
  int size = snprintf(text, sizeof(text), "%s%lld%s", before, steps, after);
  BpIrModule *ir = bp_ir_parse(text, (size_t)size);
  must(!ir || bp_ir_verify(ir), "the program");
  BpModule *module = bp_target_build(ir, target);
  must(!module, "code");
  bp_object_release(ir);
  return module;
}

/* Builds the functions "on_other" and, imported, "on_device" and "join", of `steps` steps. */
static BpModule *build_code(const BpTarget *device_target, const BpTarget *other_target,
                            bool is_other_host, const long long steps[2]) {
  BpModule *code =
      is_other_host
          ? build(other_target,
                  "(module (function \"on_other\" " BUFFERS
                  " (for i:int64 0 4096 serial " BEFORE("i"),
                  steps[1], AFTER("i") ")))")
          : build(other_target, "(module (function \"on_other\" " BUFFERS THREADS BEFORE(AT),
                  steps[1], AFTER(AT) "))))");
  BpModule *imported =
      build(device_target, "(module (function \"on_device\" " BUFFERS THREADS BEFORE(AT), steps[0],
            AFTER(AT) "))) (function \"join\" (buffer X float32 global 4096) (buffer Z float32 "
                      "global 4096)"
                      " (buffer Y float32 global 4096)" THREADS "(store Y " AT " (add (load X " AT
                      ") (load Z " AT ")))))))");
  must(bp_module_import(code, imported), "an import");
  bp_object_release(imported);
  return code;
}

/* ---- Graphs ------------------------------------------------------------------------------ */

#define LAUNCH ",\"launch\":\"64 64\""
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

/* The nodes after the input, without the launch of "on_other"; and for each, 1 if its output is on
 * the other device. */
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
  must(!module, graphs[which].name);
  return module;
}

static void call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                 BpValue *result) {
  BpFunction *function;
  must(bp_module_get_function(module, name, 0, &function) ||
           bp_function_call(function, args, num_args, result),
       name);
  bp_object_release(function);
}

static void set_input(BpModule *module) {
  const int64_t extent = COUNT;
  BpValue result;
  BpTensor *x = bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  must(!x, "an input");
  for (int i = 0; i < COUNT; i++)
    ((float *)x->view.data)[i] = (float)(i % 97) / 97.0F;
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"},
                          {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  call(module, "set_input", args, 2, &result);
  bp_object_release(x);
}

/* ---- Measuring --------------------------------------------------------------------------- */

typedef struct Run {
  double us, processors; /* number of processors that the process kept busy */
} Run;

static Run run(BpModule *module) {
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  double busy = busy_seconds(), began = now();
  call(module, "run", NULL, 0, &result);
  call(module, "get_output", &index, 1, &result); /* waits */
  double took = now() - began;
  busy = busy_seconds() - busy;
  bp_value_clear(&result);
  return (Run){took * 1e6, busy / took};
}

static void measure(BpModule *code, const BpDevice devices[2], double seconds,
                    Run least[NUM_GRAPHS]) {
  BpModule *modules[NUM_GRAPHS];
  for (int i = 0; i < NUM_GRAPHS; i++) {
    modules[i] = create(i, code, devices);
    set_input(modules[i]);
    least[i] = run(modules[i]); /* the first run builds the code */
  }
  double began = now();
  for (int round = 0; round < ROUNDS || now() - began < seconds; round++)
    for (int i = 0; i < NUM_GRAPHS; i++) {
      Run took = run(modules[i]);
      least[i] = took.us < least[i].us ? took : least[i];
    }
  for (int i = 0; i < NUM_GRAPHS; i++)
    bp_object_release(modules[i]);
}

/* ---- Processors -------------------------------------------------------------------------- */

/* The processors of each half, and of both. */
typedef struct Processors {
  cpu_set_t halves[2], all;
} Processors;

/* If there is one processor, both halves have it. */
static void find_processors(Processors *processors) {
  *processors = (Processors){0};
  must(sched_getaffinity(0, sizeof(cpu_set_t), &processors->all), "the processors");
  const int count = CPU_COUNT(&processors->all);
  for (int cpu = 0, seen = 0; seen < count; cpu++)
    if (CPU_ISSET(cpu, &processors->all)) {
      CPU_SET(cpu, &processors->halves[count > 1 && seen >= count / 2]);
      seen++;
    }
  if (count == 1)
    processors->halves[1] = processors->all;
}

/* Sets the processors of this thread, and of the threads that it starts. */
static void use_processors(const cpu_set_t *processors) {
  must(sched_setaffinity(0, sizeof(cpu_set_t), processors), "processors");
}

/* Limits the threads of drivers that are loaded later. */
static void limit_threads(const Processors *processors) {
  static const char *const variables[] = {"POCL_MAX_PTHREAD_COUNT", "LP_NUM_THREADS",
                                          "BACKPLANE_NUM_THREADS"};
  char text[16];
  snprintf(text, sizeof(text), "%d", CPU_COUNT(&processors->halves[0]));
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
    setenv(variables[i], text, 0);
}

/* ---- The program ------------------------------------------------------------------------- */

typedef struct Options {
  const char *host_text, *names[2];
  double wanted_us, seconds;
  bool is_other_host;
} Options;

/* Returns whether the arguments are valid. */
static bool read_options(int argc, char **argv, Options *options) {
  int at = 1;
  *options = (Options){.host_text = "c", .wanted_us = 20000, .seconds = 3};
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (!strcmp(argv[at], "-t"))
      options->host_text = argv[at + 1];
    else if (!strcmp(argv[at], "-m"))
      options->wanted_us = strtod(argv[at + 1], NULL) * 1e3;
    else if (!strcmp(argv[at], "-s"))
      options->seconds = strtod(argv[at + 1], NULL);
    else
      return false;
  }
  if (at + 1 != argc && at + 2 != argc)
    return false;
  options->is_other_host = at + 1 == argc;
  options->names[0] = argv[at];
  options->names[1] = options->is_other_host ? "host" : argv[at + 1];
  return true;
}

/* Drivers start their threads with the first allocation or the first work. */
static BpTarget *open_device(const char *name, BpDevice *device) {
  void *memory = NULL;
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 64, .alignment = 64};
  must(bp_device_parse(name, device), name);
  must(bp_device_alloc(*device, &allocation, &memory) || bp_device_free(*device, memory) ||
           bp_stream_sync(*device, NULL),
       name);
  return bp_target_from_device(*device);
}

static void print(const Options *options, const Run least[NUM_GRAPHS]) {
  const char *const names[] = {options->names[0], options->names[1], "both"};
  double longer = least[DEVICE_HALF].us > least[OTHER_HALF_ALONE].us ? least[DEVICE_HALF].us
                                                                     : least[OTHER_HALF_ALONE].us;
  for (int i = 0; i < NUM_GRAPHS; i++)
    printf("%s %.1f us (%.2f processors), ", names[i], least[i].us, least[i].processors);
  printf("ratio to the longer half %.2f\n", least[BOTH].us / longer);
}

static long long next_steps(long long steps, double factor) {
  long long next = (long long)((double)steps * factor);
  return next > LEAST_STEPS ? next : LEAST_STEPS;
}

static void compare(const Options *options, BpTarget *const targets[2], const BpDevice devices[2]) {
  long long steps[2] = {100, 100};
  Run least[NUM_GRAPHS];
  for (int pass = 0; pass <= PASSES; pass++) { /* the last pass is printed */
    BpModule *code = build_code(targets[0], targets[1], options->is_other_host, steps);
    measure(code, devices, pass < PASSES ? 0.5 : options->seconds, least);
    bp_object_release(code);
    for (int i = 0; i < 2 && pass < PASSES; i++)
      steps[i] = next_steps(steps[i], options->wanted_us / least[i].us);
  }
  print(options, least);
}

int main(int argc, char **argv) {
  Options options;
  Processors processors;
  BpTarget *targets[2];
  BpDevice devices[2] = {host, host};
  if (!read_options(argc, argv, &options)) {
    fprintf(stderr, "usage: bench-overlap [-t HOST_TARGET] [-m MILLISECONDS] [-s SECONDS] DEVICE "
                    "[OTHER]\n");
    return 2;
  }
  find_processors(&processors);
  limit_threads(&processors);
  for (int i = 0; i < 2; i++) {
    use_processors(&processors.halves[i]);
    targets[i] = i && options.is_other_host ? bp_target_parse(options.host_text)
                                            : open_device(options.names[i], &devices[i]);
    must(!targets[i], "a target");
  }
  if (!options.is_other_host) /* neither half runs in this thread */
    use_processors(&processors.all);
  compare(&options, targets, devices);
  for (int i = 0; i < 2; i++)
    bp_object_release(targets[i]);
  return 0;
}
