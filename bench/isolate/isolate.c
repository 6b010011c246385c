/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a device whose plugin runs in a process of its own (BACKPLANE_ISOLATE), or on another
 * machine (BACKPLANE_REMOTE), with the same device whose plugin runs in the program: two processes
 * measure in turns. Prints the shortest time of each and the ratio for a launch of a small kernel
 * and a wait for it, queued launches, a small copy, and a model; for copies of 64 KiB to 64 MiB the
 * program prints both bandwidths, and the share of the bandwidth that memcpy to shared memory has
 * in the second process. The two copies and memcpy run in turns.
 *
 * Program and worker each have half of the processors: otherwise the scheduler of a busy machine
 * keeps both on one processor, where each call costs two context switches.
 *
 *   bench-isolate KIND [MODEL.onnx [HOST]] */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <backplane/backplane.h>
#include <backplane/compiler/ir.h>

#define ROUNDS     12
#define BUDGET_US  100e3 /* runs of one figure in a round */
#define SMALL      4096
#define NUM_SIZES  6
#define LARGEST    ((uint64_t)64 << 20)
#define ARRAY_SIZE 65536

/* Sizes of large copies: each is 4 times the one before. */
static uint64_t size_of(int i) {
  return (uint64_t)65536 << 2 * i;
}

enum { LAUNCH, QUEUED, SMALL_IN, SMALL_OUT, MODEL, NUM_CALLS };
enum { IN, OUT, SHARED, NUM_WAYS };

/* Least times. */
typedef struct Figures {
  double calls[NUM_CALLS];
  double copies[NUM_SIZES][NUM_WAYS];
} Figures;
#define NUM_FIGURES (sizeof(Figures) / sizeof(double))

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void must(bool is_done, const char *what) {
  if (is_done)
    return;
  fprintf(stderr, "bench-isolate: %s: %s\n", what, bp_error_message());
  exit(1);
}

/* ---- One process ------------------------------------------------------------------------- */

typedef struct Bench {
  BpDevice device;
  BpFunction *function;
  void *array, *space;
  char *memory, *shared; /* memory of this process, and memory that another process could see */
  BpModelContext *model;
} Bench;

static void *allocate(BpDevice device, uint64_t size) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = size, .alignment = 64};
  void *handle = NULL;
  must(!bp_device_alloc(device, &allocation, &handle), "memory");
  return handle;
}

static BpFunction *build_kernel(BpDevice device) {
  static const char text[] =
      "(module (function \"touch\" (buffer X float32 global 16384) (for b:int64 0 1 bound "
      "\"blockIdx.x\" (for t:int64 0 1 bound \"threadIdx.x\" (store X (add b t) 1.0:float32)))))";
  BpIrModule *ir = bp_ir_parse(text, sizeof text - 1);
  BpTarget *target = bp_target_from_device(device);
  BpModule *module = ir && target ? bp_target_build(ir, target) : NULL;
  BpFunction *function = NULL;
  must(module && !bp_module_get_function(module, "touch", 0, &function) && function, "a kernel");
  return function;
}

static void load_model(Bench *bench, const char *path, const char *kind) {
  BpModel *model = bp_model_load_for(path, kind, NULL, NULL);
  bench->model = model ? bp_model_context_create(model) : NULL;
  must(bench->model != NULL, path);
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    int64_t shape[8] = {0};
    must(info->ndim >= 0 && info->ndim <= 8, info->name);
    for (int32_t k = 0; k < info->ndim; k++)
      shape[k] = info->shape[k] < 0 ? 1 : info->shape[k]; /* an open extent is 1 */
    BpTensor *zeros =
        bp_tensor_create(shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    must(zeros != NULL, info->name);
    memset(zeros->view.data, 0, (size_t)bp_view_num_bytes(&zeros->view));
    must(!bp_model_set_input(bench->model, info->name, &zeros->view), info->name);
    bp_tensor_release(zeros);
  }
}

static void launch(const Bench *bench) {
  const BpInvocation invocation = {.struct_size = sizeof invocation, .device = bench->device};
  const BpValue args[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = bench->array},
                          {.type_index = BP_TYPE_INT, .v_int64 = 1},
                          {.type_index = BP_TYPE_INT, .v_int64 = 1}};
  BpValue result;
  must(!bp_function_launch(bench->function, &invocation, args, 3, &result), "a launch");
}

static void sync_device(const Bench *bench) {
  must(!bp_stream_sync(bench->device, NULL), "waiting");
}

static void copy(const Bench *bench, bool is_in, uint64_t size) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  const BpCopy in = {.struct_size = sizeof in,
                     .from = bench->memory,
                     .from_device = host,
                     .to = bench->space,
                     .to_device = bench->device,
                     .size = size};
  const BpCopy out = {.struct_size = sizeof out,
                      .from = bench->space,
                      .from_device = bench->device,
                      .to = bench->memory,
                      .to_device = host,
                      .size = size};
  must(!bp_device_copy(is_in ? &in : &out, NULL), "a copy");
  sync_device(bench);
}

static void launch_and_wait(const Bench *bench) {
  launch(bench);
  sync_device(bench);
}

static void copy_small_in(const Bench *bench) {
  copy(bench, true, SMALL);
}

static void copy_small_out(const Bench *bench) {
  copy(bench, false, SMALL);
}

static void run_model(const Bench *bench) {
  must(!bp_model_run(bench->model) && bp_model_get_output(bench->model, 0), "the model");
  sync_device(bench);
}

/* Runs the measured action. Work that the action leaves queued is waited for outside the measured
 * time. */
static const struct {
  const char *name;
  void (*run)(const Bench *bench);
} work[NUM_CALLS] = {
    [LAUNCH] = {"launch and wait", launch_and_wait},
    [QUEUED] = {"launch, queued", launch},
    [SMALL_IN] = {"copy of 4 KiB in", copy_small_in},
    [SMALL_OUT] = {"copy of 4 KiB out", copy_small_out},
    [MODEL] = {"model", run_model},
};

/* Returns the shortest of at least two runs. */
static double measure_call(const Bench *bench, int figure) {
  double least = 0;
  double until = now_us() + BUDGET_US;
  for (int i = 0; i < 2 || now_us() < until; i++) {
    double began = now_us();
    work[figure].run(bench);
    double time = now_us() - began;
    sync_device(bench);
    if (i == 0 || time < least)
      least = time;
  }
  return least;
}

static void copy_one_way(const Bench *bench, int way, uint64_t size) {
  if (way == SHARED)
    memcpy(bench->shared, bench->memory, size);
  else
    copy(bench, way == IN, size);
}

/* Measures all ways for one size, in turns. The copy out is followed by one of the two copies from
 * this process's memory, alternately, because the first reader finds the data in other caches. */
static void measure_copies(const Bench *bench, uint64_t size, double least[NUM_WAYS]) {
  static const int orders[2][NUM_WAYS] = {{IN, SHARED, OUT}, {SHARED, IN, OUT}};
  double until = now_us() + NUM_WAYS * BUDGET_US;
  for (int i = 0; i < 2 || now_us() < until; i++)
    for (int k = 0; k < NUM_WAYS; k++) {
      int way = orders[i % 2][k];
      double began = now_us();
      copy_one_way(bench, way, size);
      double time = now_us() - began;
      if (i == 0 || time < least[way])
        least[way] = time;
    }
}

static void measure(const Bench *bench, Figures *figures) {
  for (int i = 0; i < NUM_CALLS; i++)
    figures->calls[i] = i == MODEL && !bench->model ? 0 : measure_call(bench, i);
  for (int i = 0; i < NUM_SIZES; i++)
    measure_copies(bench, size_of(i), figures->copies[i]);
}

/* Restricts this thread, and the processes that it starts, to the upper or the lower half of the
 * processors. */
static void use_half(const cpu_set_t *all, bool is_upper) {
  const int count = CPU_COUNT(all);
  cpu_set_t half;
  CPU_ZERO(&half);
  for (int cpu = 0, seen = 0; seen < count; cpu++)
    if (CPU_ISSET(cpu, all) && (seen++ >= count / 2) == is_upper)
      CPU_SET(cpu, &half);
  if (count > 1)
    must(!sched_setaffinity(0, sizeof half, &half), "processors");
}

/* Measures once for each byte that `from` receives. */
static void serve(const char *kind, const char *model, bool is_apart, int from, int to) {
  Bench bench = {.memory = malloc(LARGEST)};
  Figures figures;
  char byte;
  cpu_set_t all;
  must(!sched_getaffinity(0, sizeof all, &all), "the processors");
  if (is_apart)
    use_half(&all, true);
  must(bench.memory && !bp_device_parse(kind, &bench.device), kind);
  memset(bench.memory, 1, LARGEST);
  bench.shared = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(bench.shared != MAP_FAILED, "shared memory");
  bench.function = build_kernel(bench.device);
  bench.array = allocate(bench.device, ARRAY_SIZE);
  bench.space = allocate(bench.device, LARGEST);
  if (is_apart)
    use_half(&all, false);
  if (model)
    load_model(&bench, model, kind);
  measure(&bench, &figures);
  while (read(from, &byte, 1) == 1) {
    measure(&bench, &figures);
    if (write(to, &figures, sizeof figures) != sizeof figures)
      break;
  }
}

/* ---- Two processes in turns -------------------------------------------------------------- */

typedef struct Side {
  pid_t pid;
  int to, from;
  Figures least;
} Side;

/* Starts a process in which `variable` is set to `value`; NULL: neither. */
static void start(Side *side, const char *kind, const char *model, const char *variable,
                  const char *value) {
  int commands[2], results[2];
  must(!pipe(commands) && !pipe(results), "a pipe");
  side->pid = fork();
  if (!side->pid) {
    close(commands[1]);
    close(results[0]);
    unsetenv("BACKPLANE_ISOLATE");
    unsetenv("BACKPLANE_REMOTE");
    if (variable)
      setenv(variable, value, 1);
    serve(kind, model, variable || !strncmp(kind, "remote:", 7), commands[0], results[1]);
    _exit(0);
  }
  close(commands[0]);
  close(results[1]);
  side->to = commands[1];
  side->from = results[0];
}

static void take(Side *side, bool is_first) {
  Figures figures;
  if (write(side->to, "", 1) != 1 || read(side->from, &figures, sizeof figures) != sizeof figures)
    exit(1); /* the measuring process said why */
  const double *now = (const double *)&figures;
  double *least = (double *)&side->least;
  for (size_t i = 0; i < NUM_FIGURES; i++)
    if (is_first || now[i] < least[i])
      least[i] = now[i];
}

static void print_times(const Side sides[2], int figure) {
  double within = sides[0].least.calls[figure], isolated = sides[1].least.calls[figure];
  printf("%-28s %10.2f us %10.2f us   ratio %5.2f   + %.2f us\n", work[figure].name, within,
         isolated, isolated / within, isolated - within);
}

static void print_bandwidth(const Side sides[2], int size, int way) {
  const double scale = (double)size_of(size) / 1e3;
  const double *isolated = sides[1].least.copies[size];
  double within = sides[0].least.copies[size][way];
  printf("copy of %5llu KiB %-11s %8.2f GB/s %8.2f GB/s   ratio %5.2f   %.2f of shared memory's\n",
         (unsigned long long)size_of(size) >> 10, way == IN ? "in" : "out", scale / within,
         scale / isolated[way], isolated[way] / within, isolated[SHARED] / isolated[way]);
}

int main(int argc, char **argv) {
  Side sides[2] = {{.pid = 0}};
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: bench-isolate KIND [MODEL.onnx [HOST]]\n");
    return 2;
  }
  const char *model = argc > 2 ? argv[2] : NULL;
  const char *host = argc > 3 ? argv[3] : NULL;
  start(&sides[0], argv[1], model, NULL, NULL);
  char remote[512];
  snprintf(remote, sizeof remote, "remote:%s/%s", host ? host : "", argv[1]);
  start(&sides[1], host ? remote : argv[1], model, host ? NULL : "BACKPLANE_ISOLATE", argv[1]);
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < 2; i++)
      take(&sides[i], round == 0);
  printf("%-28s %13s %13s\n", argv[1], "in process", host ? "remote" : "isolated");
  for (int i = 0; i < NUM_CALLS; i++)
    if (i != MODEL || model)
      print_times(sides, i);
  for (int i = 0; i < NUM_SIZES; i++)
    for (int way = IN; way <= OUT; way++)
      print_bandwidth(sides, i, way);
  for (int i = 0; i < 2; i++) /* the second process would hold the first one's pipe */
    close(sides[i].to);
  for (int i = 0; i < 2; i++)
    waitpid(sides[i].pid, NULL, 0);
  return 0;
}
