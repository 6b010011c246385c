/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation of NVIDIA's driver, libcuda.so.1, of NVRTC, and of cuBLAS and cuDNN, for tests of
 * plugins/cuda and plugins/cudalibs on machines without a GPU. The simulation proves nothing about
 * a GPU. The simulation:
 *
 *  - device memory is host memory, behind handles that are not addresses;
 *  - streams are lists of commands that run only when a caller waits for them;
 *  - kernels are the CUDA C++ for NVRTC, compiled by the host's C++ compiler;
 *  - every call's handles, context and order are checked, and failures occur on request.
 *
 * fakecuda.c         state, devices, contexts, failures on demand
 * fakecuda_memory.c  memory and copies
 * fakecuda_stream.c  streams, events, graphs
 * fakecuda_module.c  modules and launches
 * fakecublas.c, fakecudnn.c  the functions of cuBLAS and cuDNN, in the same library as the driver
 * fakenvrtc.c        the other library, NVRTC
 * fakecuda_kernel.hpp  what makes C++ of CUDA C++ */
#ifndef TESTS_MOCK_FAKECUDA_H
#define TESTS_MOCK_FAKECUDA_H

#include "plugins/cuda/driver_api.h"

#define FAKE_API __attribute__((visibility("default")))

#define FAKE_DECLARE(name, parameters) FAKE_API CUresult name parameters;
BP_CUDA_FUNCTIONS(FAKE_DECLARE)

/* ---- Functions for tests ----------------------------------------------------------------- */

/* Makes the call number `after` (1: the next) of a function return `status`, once. */
FAKE_API void fakecuda_fail(const char *function, int after, CUresult status);
/* Makes the next kernel fail, and its context permanently. */
FAKE_API void fakecuda_fail_kernel(CUresult status);
/* Counts existing objects of a kind: "memory", "pinned", "stream", "event", "module", "graph",
 * "handle" and "descriptor" of cuBLAS and cuDNN; and calls that permit TF32, "tf32". */
FAKE_API int fakecuda_count(const char *what);
/* Counts the calls of a function so far. */
FAKE_API int fakecuda_calls(const char *function);

/* ---- Code -------------------------------------------------------------------------------- */

/* The beginning of a fakenvrtc cubin; a shared library follows. */
typedef struct FakeCubin {
  char magic[8]; /* FAKE_MAGIC */
  uint32_t arch; /* 90 */
  uint32_t reserved;
  uint64_t size; /* size of the library */
} FakeCubin;
#define FAKE_MAGIC "FKCUBIN"
/* The beginning of a fakenvrtc PTX; the cubin in hexadecimal digits follows. */
#define FAKE_PTX "// simulated PTX\n"

/* ---- fakecuda.c -------------------------------------------------------------------------- */

#define FAKE_DEVICES 2
#define FAKE_MEMORY  ((size_t)1 << 29)
#define FAKE_OPTIN   (227 << 10)
/* Bytes of shared memory that each kernel is assumed to declare itself. */
#define FAKE_STATIC_SHARED 1024
#define FAKE_THREADS       1024
#define FAKE_MOST_ARGS     64

#define CUDA_ERROR_STREAM_CAPTURE_IMPLICIT 906

typedef struct FakeCommand FakeCommand;

struct CUctx_st {
  int device;
  int retained;
  CUresult dead; /* sticky */
  int has_limit; /* the pool keeps freed memory */
};

extern struct CUctx_st fake_contexts[FAKE_DEVICES];

/* Begins a call: takes the lock and returns the status that the call must return at once, or
 * CUDA_SUCCESS. With `needs_context`, a live current context is required. */
CUresult fake_enter(const char *function, int needs_context);
/* Begins a call that a thread may not make while it captures a stream, except in relaxed mode. */
CUresult fake_enter_unsafe(const char *function);
/* Notes that this thread begins (1) or ends (-1) the capture of a stream in a mode other than
 * relaxed. */
void fake_restrict(int difference);
/* Ends it. */
CUresult fake_leave(CUresult status);
/* Returns the current context of this thread. */
CUcontext fake_current(void);
/* Adds to the count of `what`: existing objects of a kind, or calls of a function. */
void fake_add(const char *what, int difference);
/* Returns and resets the failure of the next kernel. */
CUresult fake_take_kernel_failure(void);

/* ---- fakecuda_memory.c ------------------------------------------------------------------- */

/* Returns the host's address of device memory; NULL unless all `size` bytes are in one
 * allocation. */
void *fake_resolve(int device, CUdeviceptr data, size_t size);
/* Frees memory that cuMemFreeAsync was called for. */
CUresult fake_free_now(CUdeviceptr data);

/* ---- fakecuda_stream.c ------------------------------------------------------------------- */

struct FakeCommand {
  FakeCommand *next;
  /* Runs the command on a device. */
  CUresult (*run)(FakeCommand *command, int device);
  CUdeviceptr to, from;
  void *host_to;
  const void *host_from;
  size_t size;
  int to_device;
  CUevent event;
  struct FakeRecord *record; /* the record of an event; NULL: none */
  CUfunction function;
  unsigned grid[3], block[3], shared;
  unsigned char args[FAKE_MOST_ARGS][8];
};

/* Appends a copy of the command to a stream, or to the graph that records the stream. */
CUresult fake_submit(CUstream stream, const FakeCommand *command);
/* Runs all queued commands on all streams of a device. */
CUresult fake_drain(int device);
int fake_is_stream(CUstream stream, int device);

/* ---- fakecuda_module.c ------------------------------------------------------------------- */

CUresult fake_run_kernel(FakeCommand *command, int device);

#endif
