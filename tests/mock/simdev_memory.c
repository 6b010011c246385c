/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the simulated devices. A handle is a number, and no address that the host could use by
 * mistake. */

#include "tests/mock/simdev.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS_MAX  4096
#define HANDLE_FIRST 0x51 /* handles are odd: nothing is aligned so */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SimBuffer *buffers[BUFFERS_MAX];
static uint64_t in_use[SIM_DEVICES];

static void *handle_of(size_t index) {
  return (void *)(uintptr_t)(HANDLE_FIRST + 2 * index);
}

/* With the lock held; NULL if there is no such buffer. */
static SimBuffer **find_buffer(int32_t device_id, const void *handle) {
  uintptr_t number = (uintptr_t)handle;
  size_t index = (number - HANDLE_FIRST) / 2;
  if (number < HANDLE_FIRST || number % 2 == 0 || index >= BUFFERS_MAX || !buffers[index] ||
      buffers[index]->device_id != device_id)
    return NULL;
  return &buffers[index];
}

static int32_t raise_handle(int32_t device_id, const void *handle) {
  return sim_host.error->raise(BP_ERROR_VALUE, "%p is no handle of simdev:%d", handle, device_id);
}

static SimBuffer *create_buffer(int32_t device_id, uint64_t size, uint64_t alignment) {
  SimBuffer *buffer = calloc(1, sizeof *buffer);
  void *memory = NULL;
  if (buffer && !posix_memalign(&memory, alignment < 64 ? 64 : alignment, size ? size : 1)) {
    *buffer = (SimBuffer){memory, size, device_id, 1};
    return buffer;
  }
  free(buffer);
  sim_host.error->raise(BP_ERROR_MEMORY, "no memory to simulate %" PRIu64 " bytes", size);
  return NULL;
}

/* With the lock held. */
static int32_t enter_buffer(SimBuffer *buffer, void **handle) {
  for (size_t i = 0; i < BUFFERS_MAX; i++) {
    if (buffers[i])
      continue;
    buffers[i] = buffer;
    *handle = handle_of(i);
    return 0;
  }
  return sim_host.error->raise(BP_ERROR_MEMORY, "more than %d buffers", BUFFERS_MAX);
}

static int32_t reserve(int32_t device_id, uint64_t size) {
  if (size > SIM_MEMORY || in_use[device_id] > SIM_MEMORY - size)
    return sim_host.error->raise(BP_ERROR_MEMORY,
                                 "no room for %" PRIu64 " bytes beside the %" PRIu64 " in use",
                                 size, in_use[device_id]);
  in_use[device_id] += size;
  return 0;
}

int32_t sim_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType dtype_hint,
                  const char *mem_scope, void **handle) {
  (void)dtype_hint;
  if (mem_scope && strcmp(mem_scope, "global") && strcmp(mem_scope, "fast"))
    return sim_host.error->raise(BP_ERROR_VALUE, "there is no memory scope \"%s\"", mem_scope);
  pthread_mutex_lock(&lock);
  int32_t rc = reserve(device_id, size);
  SimBuffer *buffer = rc ? NULL : create_buffer(device_id, size, alignment);
  if (!rc && (!buffer || enter_buffer(buffer, handle))) {
    if (buffer)
      free(buffer->memory);
    free(buffer);
    in_use[device_id] -= size;
    rc = -1;
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

/* With the lock held. */
static void drop(SimBuffer *buffer) {
  if (--buffer->uses)
    return;
  in_use[buffer->device_id] -= buffer->size;
  free(buffer->memory);
  free(buffer);
}

int32_t sim_free(int32_t device_id, void *handle) {
  pthread_mutex_lock(&lock);
  SimBuffer **slot = find_buffer(device_id, handle);
  if (slot) {
    drop(*slot);
    *slot = NULL;
  }
  pthread_mutex_unlock(&lock);
  return slot ? 0 : raise_handle(device_id, handle);
}

SimBuffer *sim_use(int32_t device_id, const void *handle) {
  pthread_mutex_lock(&lock);
  SimBuffer **slot = find_buffer(device_id, handle);
  SimBuffer *buffer = slot ? *slot : NULL;
  if (buffer)
    buffer->uses++;
  pthread_mutex_unlock(&lock);
  if (!buffer)
    raise_handle(device_id, handle);
  return buffer;
}

void sim_unuse(SimBuffer *buffer) {
  if (!buffer)
    return;
  pthread_mutex_lock(&lock);
  drop(buffer);
  pthread_mutex_unlock(&lock);
}

uint64_t sim_memory_in_use(int32_t device_id) {
  pthread_mutex_lock(&lock);
  uint64_t size = in_use[device_id];
  pthread_mutex_unlock(&lock);
  return size;
}
