/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the devices. A handle is a number and no address: whoever uses it as one faults at
 * once, and whoever uses it after it was freed gets an error. */
#include "simdev.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLACES      4096
#define HANDLE_MARK (UINT64_C(0x51de) << 48) /* no address begins so */

static struct {
  SimdevBuffer *buffer; /* NULL: free */
  uint32_t count;       /* how many buffers were here */
} places[PLACES];
static uint64_t in_use[SIMDEV_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both */

static uint64_t handle_of(uint64_t place) {
  return HANDLE_MARK | (uint64_t)places[place].count << 16 | place;
}

/* With the lock held: the place of a buffer; -1 with an error. */
static int find_place(int32_t device_id, const void *handle) {
  uint64_t number = (uintptr_t)handle, place = number % 65536;
  if (place < PLACES && places[place].buffer && number == handle_of(place) &&
      places[place].buffer->device_id == device_id)
    return (int)place;
  return simdev_host.error->raise(BP_ERROR_VALUE, "%p is no handle of memory on simdev:%d", handle,
                                  device_id);
}

/* With the lock held. */
static int32_t enter(SimdevBuffer *buffer, uint64_t alignment, void **handle) {
  uint64_t place = 0, used = in_use[buffer->device_id];
  void *memory;
  while (place < PLACES && places[place].buffer)
    place++;
  if (place == PLACES || buffer->size > SIMDEV_MEMORY - used ||
      posix_memalign(&memory, alignment, buffer->size + 1))
    return simdev_host.error->raise(
        BP_ERROR_MEMORY, "simdev:%d: no room for %" PRIu64 " bytes: %" PRIu64 " of %u are in use",
        buffer->device_id, buffer->size, used, SIMDEV_MEMORY);
  buffer->memory = memory;
  places[place].buffer = buffer;
  places[place].count++;
  in_use[buffer->device_id] += buffer->size;
  *handle = (void *)(uintptr_t)handle_of(place);
  return 0;
}

/* `dtype_hint` is for devices that lay out elements by their type. */
int32_t simdev_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType dtype_hint,
                     const char *mem_scope, void **handle) {
  (void)dtype_hint;
  if (mem_scope && strcmp(mem_scope, "global") != 0)
    return simdev_host.error->raise(BP_ERROR_VALUE, "simdev has memory \"global\", no \"%s\"",
                                    mem_scope);
  SimdevBuffer *buffer = malloc(sizeof *buffer);
  if (!buffer)
    return simdev_host.error->raise(BP_ERROR_MEMORY, "simdev: no memory for a buffer");
  *buffer = (SimdevBuffer){NULL, size, device_id, 1};
  pthread_mutex_lock(&lock);
  int32_t rc = enter(buffer, alignment < SIMDEV_ALIGNMENT ? SIMDEV_ALIGNMENT : alignment, handle);
  pthread_mutex_unlock(&lock);
  if (rc)
    free(buffer);
  return rc;
}

/* With the lock held. */
static void drop(SimdevBuffer *buffer) {
  if (--buffer->uses)
    return;
  in_use[buffer->device_id] -= buffer->size;
  free(buffer->memory);
  free(buffer);
}

/* Commands that are queued still use the buffer; the handle is void at once. */
int32_t simdev_free(int32_t device_id, void *handle) {
  pthread_mutex_lock(&lock);
  int place = find_place(device_id, handle);
  if (place >= 0) {
    drop(places[place].buffer);
    places[place].buffer = NULL;
  }
  pthread_mutex_unlock(&lock);
  return place < 0 ? -1 : 0;
}

SimdevBuffer *simdev_use(int32_t device_id, const void *handle, uint64_t offset, uint64_t size) {
  pthread_mutex_lock(&lock);
  int place = find_place(device_id, handle);
  SimdevBuffer *buffer = place < 0 ? NULL : places[place].buffer;
  if (buffer && (offset > buffer->size || size > buffer->size - offset)) {
    simdev_host.error->raise(BP_ERROR_INDEX,
                             "%" PRIu64 " bytes from %" PRIu64 " on do not lie in %" PRIu64, size,
                             offset, buffer->size);
    buffer = NULL;
  }
  if (buffer)
    buffer->uses++;
  pthread_mutex_unlock(&lock);
  return buffer;
}

void simdev_unuse(SimdevBuffer *buffer) {
  pthread_mutex_lock(&lock);
  if (buffer)
    drop(buffer);
  pthread_mutex_unlock(&lock);
}

uint64_t simdev_memory_in_use(int32_t device_id) {
  pthread_mutex_lock(&lock);
  uint64_t size = in_use[device_id];
  pthread_mutex_unlock(&lock);
  return size;
}
