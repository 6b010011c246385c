/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver's memory. Handles are far from all host addresses; handles beyond the end of
 * an allocation are invalid. */
#include "tests/mock/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS 4096
/* The address is not canonical on x86-64, so reading it faults. */
#define FIRST_HANDLE ((CUdeviceptr)0x0de0 << 48)
#define HANDLE_STEP  ((CUdeviceptr)1 << 32)
/* Offset of a small allocation in its page, which it shares; larger allocations have pages of their
 * own. */
#define SMALL_OFFSET 512
#define PAGE_BYTES   ((size_t)2 << 20)

typedef struct Block {
  CUdeviceptr base; /* 0: free */
  size_t size;
  int device;
  int is_pooled;
  void *data;
} Block;

static Block blocks[MOST_BLOCKS];
static CUdeviceptr next_handle = FIRST_HANDLE;
static size_t in_use[FAKE_DEVICES], in_reserve[FAKE_DEVICES];

/* The block that an address is in or at the end of, where an arena may have a tensor without
 * elements. */
static Block *find_block(CUdeviceptr data) {
  for (size_t i = 0; i < MOST_BLOCKS; i++) {
    if (blocks[i].base && data >= blocks[i].base && data - blocks[i].base <= blocks[i].size)
      return &blocks[i];
  }
  return NULL;
}

void *fake_resolve(int device, CUdeviceptr data, size_t size) {
  Block *block = find_block(data);
  if (!block || block->device != device || size > block->size - (data - block->base))
    return NULL;
  return (char *)block->data + (data - block->base);
}

/* ---- Allocation -------------------------------------------------------------------------- */

static CUresult allocate(CUdeviceptr *data, size_t size, int is_pooled) {
  int device = fake_current()->device;
  if (size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (is_pooled) /* reserved memory is used again */
    in_reserve[device] = in_reserve[device] > size ? in_reserve[device] - size : 0;
  if (size > FAKE_MEMORY - in_use[device] - in_reserve[device])
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < MOST_BLOCKS; i++) {
    if (blocks[i].base)
      continue;
    void *memory = malloc(size);
    if (!memory)
      return CUDA_ERROR_OUT_OF_MEMORY;
    memset(memory, 0xfb, size < 1 << 20 ? size : 1 << 20); /* a NaN in every float type */
    *data = next_handle + (size < PAGE_BYTES ? SMALL_OFFSET : 0);
    blocks[i] = (Block){*data, size, device, is_pooled, memory};
    next_handle += HANDLE_STEP;
    in_use[device] += size;
    fake_add("memory", 1);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_free_now(CUdeviceptr data) {
  Block *block = find_block(data);
  if (!block || block->base != data)
    return CUDA_ERROR_INVALID_VALUE;
  in_use[block->device] -= block->size;
  if (block->is_pooled && fake_contexts[block->device].has_limit)
    in_reserve[block->device] += block->size;
  free(block->data);
  *block = (Block){.base = 0};
  fake_add("memory", -1);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *data, size_t size) {
  CUresult status = fake_enter_unsafe("cuMemAlloc_v2");
  return fake_leave(status == CUDA_SUCCESS ? allocate(data, size, 0) : status);
}

/* Waits for queued work, as the driver does. */
CUresult cuMemFree_v2(CUdeviceptr data) {
  CUresult status = fake_enter_unsafe("cuMemFree_v2");
  Block *block = find_block(data);
  if (status == CUDA_SUCCESS && (!block || block->base != data))
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    status = fake_drain(block->device);
  return fake_leave(status == CUDA_SUCCESS ? fake_free_now(data) : status);
}

CUresult cuMemAllocAsync(CUdeviceptr *data, size_t size, CUstream stream) {
  CUresult status = fake_enter("cuMemAllocAsync", 1);
  if (status == CUDA_SUCCESS && !fake_is_stream(stream, fake_current()->device))
    status = CUDA_ERROR_INVALID_HANDLE;
  return fake_leave(status == CUDA_SUCCESS ? allocate(data, size, 1) : status);
}

static CUresult run_free(FakeCommand *command, int device) {
  (void)device;
  return fake_free_now(command->to);
}

CUresult cuMemFreeAsync(CUdeviceptr data, CUstream stream) {
  CUresult status = fake_enter("cuMemFreeAsync", 1);
  Block *block = find_block(data);
  FakeCommand command = {.run = run_free, .to = data};
  if (status == CUDA_SUCCESS && (!block || block->base != data))
    status = CUDA_ERROR_INVALID_VALUE;
  return fake_leave(status == CUDA_SUCCESS ? fake_submit(stream, &command) : status);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  CUresult status = fake_enter("cuMemPoolTrimTo", 0);
  CUcontext context = (CUcontext)(void *)pool;
  if (status == CUDA_SUCCESS && in_reserve[context->device] > bytes_to_keep)
    in_reserve[context->device] = bytes_to_keep;
  return fake_leave(status);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  CUresult status = fake_enter("cuMemGetInfo_v2", 1);
  if (status == CUDA_SUCCESS) {
    int device = fake_current()->device;
    *total = FAKE_MEMORY;
    *available = FAKE_MEMORY - in_use[device] - in_reserve[device];
  }
  return fake_leave(status);
}

CUresult cuMemHostAlloc(void **data, size_t size, unsigned flags) {
  CUresult status = fake_enter_unsafe("cuMemHostAlloc");
  if (status == CUDA_SUCCESS && flags != 0)
    status = CUDA_ERROR_INVALID_VALUE;
  *data = status == CUDA_SUCCESS ? malloc(size) : NULL;
  if (*data)
    fake_add("pinned", 1);
  return fake_leave(*data || status != CUDA_SUCCESS ? status : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemFreeHost(void *data) {
  CUresult status = fake_enter("cuMemFreeHost", 1);
  if (status == CUDA_SUCCESS) {
    free(data);
    fake_add("pinned", -1);
  }
  return fake_leave(status);
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr data) {
  CUresult status = fake_enter("cuPointerGetAttribute", 1);
  const Block *block = find_block(data);
  if (status == CUDA_SUCCESS && (!block || attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL))
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    *(int *)value = block->device;
  return fake_leave(status);
}

/* ---- Copies ------------------------------------------------------------------------------ */

/* Reads its source, on the host or the device, only when the command runs. */
static CUresult run_copy(FakeCommand *command, int device) {
  void *to = command->host_to ? command->host_to
                              : fake_resolve(command->to_device, command->to, command->size);
  const void *from =
      command->host_from ? command->host_from : fake_resolve(device, command->from, command->size);
  if (!to || !from)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  memmove(to, from, command->size);
  return CUDA_SUCCESS;
}

static CUresult submit_copy(const char *function, FakeCommand command, CUstream stream) {
  CUresult status = fake_enter(function, 1);
  int device = status == CUDA_SUCCESS ? fake_current()->device : 0;
  command.run = run_copy;
  if (command.to_device < 0)
    command.to_device = device;
  int is_valid = (command.host_to || fake_resolve(command.to_device, command.to, command.size)) &&
                 (command.host_from || fake_resolve(device, command.from, command.size));
  if (status == CUDA_SUCCESS && !is_valid)
    status = CUDA_ERROR_INVALID_VALUE;
  return fake_leave(status == CUDA_SUCCESS ? fake_submit(stream, &command) : status);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  FakeCommand command = {.to = to, .host_from = from, .size = size, .to_device = -1};
  return submit_copy("cuMemcpyHtoDAsync_v2", command, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  FakeCommand command = {.host_to = to, .from = from, .size = size, .to_device = -1};
  return submit_copy("cuMemcpyDtoHAsync_v2", command, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  FakeCommand command = {.to = to, .from = from, .size = size, .to_device = -1};
  return submit_copy("cuMemcpyDtoDAsync_v2", command, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size, CUstream stream) {
  FakeCommand command = {.to = to, .from = from, .size = size, .to_device = to_context->device};
  if (from_context != fake_current())
    return CUDA_ERROR_INVALID_CONTEXT; /* the stream belongs to the source */
  return submit_copy("cuMemcpyPeerAsync", command, stream);
}
