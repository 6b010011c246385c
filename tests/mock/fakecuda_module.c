/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver's modules: shared libraries that fakenvrtc made, opened from memory. */
#include "tests/mock/fakecuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The function that a compiled library has for each kernel; see fakecuda_kernel.hpp. */
typedef int (*Run)(void **params, const unsigned *grid, const unsigned *block, unsigned shared,
                   void *(*resolve)(unsigned long long data));

struct CUmod_st {
  CUmodule next;
  void *library;
  int device;
  CUfunction functions;
};

struct CUfunc_st {
  CUfunction next;
  CUmodule module;
  Run run;
  const unsigned *sizes; /* number of parameters, threads of its bounds, bytes of each parameter */
  int most_shared;
};

/* The loaded modules; a lost device keeps its modules, as with the driver. */
static CUmodule modules;

/* ---- Loading ----------------------------------------------------------------------------- */

static void *open_library(const char *data, size_t size) {
  static int libraries;
  char path[64];
  int unnumbered = memfd_create("fakecuda", MFD_CLOEXEC);
  /* dlopen treats equal names as the same library. */
  int file = unnumbered < 0 ? -1 : fcntl(unnumbered, F_DUPFD_CLOEXEC, 64 + libraries++ % 512);
  close(unnumbered);
  if (file < 0 || write(file, data, size) != (ssize_t)size)
    return NULL;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fprintf(stderr, "fakecuda: %s\n", dlerror());
  close(file);
  return library;
}

/* SASS runs on GPUs of its major version from its minor version on. */
static CUresult open_cubin(const FakeCubin *cubin, int device, void **library) {
  uint32_t arch = (uint32_t)(9 - device) * 10;
  if (memcmp(cubin->magic, FAKE_MAGIC, sizeof(FAKE_MAGIC)) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  if (cubin->arch / 10 != arch / 10 || cubin->arch > arch)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *library = open_library((const char *)(cubin + 1), cubin->size);
  return *library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static int digit(char c) {
  return c >= 'a' ? c - 'a' + 10 : c - '0';
}

/* Compiles PTX, as the driver does; PTX runs on GPUs of its version and all later ones. */
static CUresult open_ptx(const char *text, int device, void **library) {
  size_t size = strlen(text) / 2;
  char *bytes = malloc(size + sizeof(FakeCubin));
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  FakeCubin cubin;
  memcpy(&cubin, bytes, sizeof(cubin));
  CUresult status =
      cubin.arch > (uint32_t)(9 - device) * 10 ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
  if (status == CUDA_SUCCESS)
    *library = open_library(bytes + sizeof(cubin), cubin.size);
  free(bytes);
  return status == CUDA_SUCCESS && !*library ? CUDA_ERROR_INVALID_PTX : status;
}

static CUresult check_options(unsigned num_options, const int *options, void **values) {
  for (unsigned i = 0; i < num_options; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      snprintf(values[i], 32, "simulated log");
    } else if (options[i] != CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES || (uintptr_t)values[i] < 32) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned num_options, int *options,
                            void **values) {
  void *library = NULL;
  CUresult status = fake_enter_unsafe("cuModuleLoadDataEx");
  if (status == CUDA_SUCCESS)
    status = check_options(num_options, options, values);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  int device = fake_current()->device;
  if (strncmp(image, FAKE_PTX, strlen(FAKE_PTX)) == 0)
    status = open_ptx((const char *)image + strlen(FAKE_PTX), device, &library);
  else
    status = open_cubin(image, device, &library);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  *module = calloc(1, sizeof(**module));
  (*module)->library = library;
  (*module)->device = device;
  (*module)->next = modules;
  modules = *module;
  fake_add("module", 1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuModuleUnload(CUmodule module) {
  CUresult status = fake_enter("cuModuleUnload", 1);
  if (status == CUDA_SUCCESS && module->device != fake_current()->device)
    status = CUDA_ERROR_INVALID_CONTEXT;
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  fake_drain(module->device); /* queued kernels still run */
  while (module->functions) {
    CUfunction next = module->functions->next;
    free(module->functions);
    module->functions = next;
  }
  CUmodule *place = &modules;
  while (*place != module)
    place = &(*place)->next;
  *place = module->next;
  dlclose(module->library);
  free(module);
  fake_add("module", -1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  char symbol[256];
  CUresult status = fake_enter("cuModuleGetFunction", 1);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  snprintf(symbol, sizeof(symbol), "fake_run_%s", name);
  Run run = (Run)(uintptr_t)dlsym(module->library, symbol);
  snprintf(symbol, sizeof(symbol), "fake_sizes_%s", name);
  const unsigned *sizes = dlsym(module->library, symbol);
  if (!run || !sizes)
    return fake_leave(CUDA_ERROR_NOT_FOUND);
  *function = calloc(1, sizeof(**function));
  **function = (struct CUfunc_st){module->functions, module, run, sizes, 0};
  module->functions = *function;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  CUresult status = fake_enter("cuFuncSetAttribute", 1);
  if (status == CUDA_SUCCESS && (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                                 value < 0 || value > FAKE_OPTIN - FAKE_STATIC_SHARED))
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    function->most_shared = value;
  return fake_leave(status);
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  CUresult status = fake_enter("cuFuncGetAttribute", 1);
  (void)function;
  if (status == CUDA_SUCCESS && attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    *value = FAKE_STATIC_SHARED;
  return fake_leave(status);
}

/* ---- Launching --------------------------------------------------------------------------- */

static int running_device;

/* No page is mapped there. */
#define NO_MEMORY ((void *)4096)

/* A tensor without elements may lie at the end of a block: a kernel that accesses it crashes. */
static void *resolve(unsigned long long data) {
  void *memory = fake_resolve(running_device, data, 1);
  return memory || !fake_resolve(running_device, data, 0) ? memory : NO_MEMORY;
}

CUresult fake_run_kernel(FakeCommand *command, int device) {
  void *params[FAKE_MOST_ARGS];
  CUresult failure = fake_take_kernel_failure();
  if (failure != CUDA_SUCCESS)
    return failure;
  for (int i = 0; i < FAKE_MOST_ARGS; i++)
    params[i] = command->args[i];
  running_device = device;
  int rc = command->function->run(params, command->grid, command->block, command->shared, resolve);
  return rc == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult check_launch(CUfunction function, const FakeCommand *command) {
  static const unsigned most_grid[] = {2147483647, 65535, 65535}, most_block[] = {1024, 1024, 64};
  unsigned threads = command->block[0] * command->block[1] * command->block[2];
  for (int i = 0; i < 3; i++) {
    if (command->grid[i] < 1 || command->grid[i] > most_grid[i] || command->block[i] < 1 ||
        command->block[i] > most_block[i])
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads > FAKE_THREADS || threads > function->sizes[1])
    return CUDA_ERROR_INVALID_VALUE;
  if (command->shared > 49152 && command->shared > (unsigned)function->most_shared)
    return CUDA_ERROR_INVALID_VALUE;
  return function->module->device == fake_current()->device ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
  CUresult status = fake_enter("cuLaunchKernel", 1);
  FakeCommand command = {.run = fake_run_kernel,
                         .function = function,
                         .grid = {grid_x, grid_y, grid_z},
                         .block = {block_x, block_y, block_z},
                         .shared = shared_bytes};
  if (status == CUDA_SUCCESS && extra)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    status = check_launch(function, &command);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  for (unsigned i = 0; i < function->sizes[0]; i++) /* consumed by the call */
    memcpy(command.args[i], parameters[i], function->sizes[2 + i]);
  return fake_leave(fake_submit(stream, &command));
}
