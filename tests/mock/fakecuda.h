/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation of NVIDIA's driver, libcuda.so.1, and of NVRTC, for tests of plugins/cuda on
 * machines without a GPU. It proves nothing about a GPU. What it does:
 *
 *  - memory of a device is the host's, behind handles that are no addresses;
 *  - streams are lists of commands that are run when somebody waits for them, and not before;
 *  - kernels are the CUDA C++ that NVRTC would get, compiled by the host's C++ compiler;
 *  - every call's handles, context and order are checked, and failures come when asked for.
 *
 * fakecuda.c         state, devices, contexts, failures on demand
 * fakecuda_memory.c  memory and copies
 * fakecuda_stream.c  streams, events, graphs
 * fakecuda_module.c  modules and launches
 * fakenvrtc.c        the other library, NVRTC
 * fakecuda_kernel.hpp  what makes C++ of CUDA C++ */
#ifndef TESTS_MOCK_FAKECUDA_H
#define TESTS_MOCK_FAKECUDA_H

#include "plugins/cuda/driver_api.h"

#define FAKE_API __attribute__((visibility("default")))

#define FAKE_DECLARE(name, parameters) FAKE_API CUresult name parameters;
BP_CUDA_FUNCTIONS(FAKE_DECLARE)

/* ---- What tests call --------------------------------------------------------------------- */

/* Makes the call number `after` (1: the next) of a function return `status`, once. */
FAKE_API void fakecuda_fail(const char *function, int after, CUresult status);
/* Makes the next kernel that runs fail, and its context with it, for good. */
FAKE_API void fakecuda_fail_kernel(CUresult status);
/* Things of that kind that are there: "memory", "pinned", "stream", "event", "module", "graph". */
FAKE_API int fakecuda_count(const char *what);
/* Calls of a function so far. */
FAKE_API int fakecuda_calls(const char *function);

/* ---- Code -------------------------------------------------------------------------------- */

/* How a cubin of fakenvrtc begins; a shared library follows. */
typedef struct FakeCubin {
  char magic[8]; /* FAKE_MAGIC */
  uint32_t arch; /* 90 */
  uint32_t reserved;
  uint64_t size; /* of the library */
} FakeCubin;
#define FAKE_MAGIC "FKCUBIN"
/* How PTX of it begins; the cubin in hexadecimal digits follows. */
#define FAKE_PTX "// simulated PTX\n"

/* ---- fakecuda.c -------------------------------------------------------------------------- */

#define FAKE_DEVICES 2
#define FAKE_MEMORY  ((size_t)1 << 29)
#define FAKE_OPTIN   (227 << 10)
/* Bytes of it that each kernel is taken to use itself. */
#define FAKE_STATIC_SHARED 1024
#define FAKE_THREADS       1024
#define FAKE_MOST_ARGS     64

typedef struct FakeCommand FakeCommand;

struct CUctx_st {
  int device;
  int retained;
  CUresult dead; /* sticky */
  int has_limit; /* the pool keeps what is freed */
};

extern struct CUctx_st fake_contexts[FAKE_DEVICES];

/* Begins a call: takes the lock and gives the status it is to return at once, or CUDA_SUCCESS. With
 * `needs_context`, without a current one that is alive it is an error. */
CUresult fake_enter(const char *function, int needs_context);
/* The same for one that a thread may not call while it captures a stream, unless that is relaxed.
 */
CUresult fake_enter_unsafe(const char *function);
/* Notes that this thread captures (1) or not any more (-1) a stream in another mode than relaxed.
 */
void fake_restrict(int difference);
/* Ends it. */
CUresult fake_leave(CUresult status);
/* The current context, of this thread. */
CUcontext fake_current(void);
/* Adds to the count of `what`: live objects of a kind, or calls of a function. */
void fake_add(const char *what, int difference);
/* The failure of the next kernel; taken. */
CUresult fake_take_kernel_failure(void);

/* ---- fakecuda_memory.c ------------------------------------------------------------------- */

/* The host's address of memory of a device; NULL unless all `size` bytes are of one allocation. */
void *fake_resolve(int device, CUdeviceptr data, size_t size);
/* Frees what cuMemFreeAsync was asked to. */
CUresult fake_free_now(CUdeviceptr data);

/* ---- fakecuda_stream.c ------------------------------------------------------------------- */

struct FakeCommand {
  FakeCommand *next;
  /* Runs it; on a device. */
  CUresult (*run)(FakeCommand *command, int device);
  CUdeviceptr to, from;
  void *host_to;
  const void *host_from;
  size_t size;
  int to_device;
  CUevent event;
  struct FakeRecord *record; /* of the event: which; NULL: it had none */
  CUfunction function;
  unsigned grid[3], block[3], shared;
  unsigned char args[FAKE_MOST_ARGS][8];
};

/* Appends a copy of the command to a stream, or to the graph that it is recorded into. */
CUresult fake_submit(CUstream stream, const FakeCommand *command);
/* Runs all that is queued on all streams of a device. */
CUresult fake_drain(int device);
int fake_is_stream(CUstream stream, int device);

/* ---- fakecuda_module.c ------------------------------------------------------------------- */

CUresult fake_run_kernel(FakeCommand *command, int device);

#endif
