/* SPDX-License-Identifier: Apache-2.0 */
/* Backplane's half of the benchmarks of device plugins: launches, copies and a graph of small
 * kernels. Each benchmark compares Backplane's half with the same calls of its driver's own API. */
#ifndef BENCH_BESIDE_DRIVER_H
#define BENCH_BESIDE_DRIVER_H

#include "bench/bench.h"

#include <backplane/module.h>
#include <backplane/tensor.h>

#define LAUNCHES   100 /* launches in a batch */
#define GRAPH_RUNS 10  /* runs in a batch */
#define KERNELS    50  /* kernels of the graph */
#define ELEMENTS   256 /* floats of each tensor of the graph */
#define COPY_BYTES ((size_t)64 << 20)

/* The functions `empty` and `add_one` of open_ours(). `add_one` has 4 blocks of threads with
 * vectors; a device without vectors has its own version. */
#define EMPTY_IR "(function \"empty\" (buffer A float32 global 1) (seq))"
#define ADD_ONE_IR                                                                                 \
  "(function \"add_one\" (buffer A float32 global 256) (buffer B float32 global 256)"              \
  " (for i:int64 0 4 parallel (for j:int64 0 4 serial (store B (ramp (add (mul i 64) (mul j 16))"  \
  " 1 16) (add (load A (ramp (add (mul i 64) (mul j 16)) 1 16)) (broadcast 1:float32 16))))))"

/* The most time that Backplane may take: a multiple of the driver's time, plus some seconds. */
typedef struct Bar {
  double times, more;
} Bar;

/* A driver's own calls: each returns the seconds of one operation. */
typedef struct Driver {
  Bar launch_bar;
  double (*launch)(void); /* launches an empty kernel and waits for it */
  double (*copy_in)(void);
  double (*copy_out)(void);
  double (*graph)(void);
} Driver;

typedef struct Ours {
  const char *program;
  BpDevice device;
  BpModule *code, *graph;
  BpFunction *empty, *run, *get_output;
  BpTensor *large, *small;
} Ours;

extern Ours ours;
extern char *host; /* COPY_BYTES bytes of host memory */

BpTensor *our_tensor(int64_t floats);
BpFunction *our_function(BpModule *module, const char *name);
void our_wait(void);

/* Builds the code and the graph, a chain of add_one. Returns 0, after a message, if there is no
 * such device. */
int open_ours(const char *program, int32_t device_type, const char *ir_text);
void close_ours(void);

/* Prints the shortest time of both over alternating rounds, their ratio, and the bar as a ratio. */
void compare(const char *what, int rounds, Bar bar, double (*our)(void), double (*their)(void));
void compare_with_driver(int rounds, const Driver *driver);

#endif
