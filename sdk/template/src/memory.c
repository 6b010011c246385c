/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the devices. A handle is a number, not an address: using it as an address faults at
 * once, and using it after freeing is an error. */
#include "simdev.h"

#include <backplane/handle_table.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct SimdevBuffer {
  char *memory;
  uint64_t size;
  int32_t device_id;
  int32_t uses;                                   /* references: the owner and queued work */
  void (*give_back)(void *memory, uint64_t size); /* NULL: the memory belongs to another owner */
  uint64_t counted;                               /* bytes counted in in_use */
};

static BpHandleTable buffers;
static uint64_t in_use[SIMDEV_DEVICES];
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards buffers, their `uses`, and in_use */

/* Returns the buffer of a handle, with the lock held; NULL with an error. */
static SimdevBuffer *find(int32_t device_id, const void *handle) {
  SimdevBuffer *buffer = bp_handle_get(&buffers, handle);
  if (buffer && buffer->device_id == device_id)
    return buffer;
  bp_plugin_raise(&simdev_host, BP_ERROR_VALUE, "%p is no handle of memory on simdev:%d", handle,
                  device_id);
  return NULL;
}

static void free_memory(void *memory, uint64_t size) {
  (void)size;
  free(memory);
}

void *simdev_add(int32_t device_id, void *memory, uint64_t size, uint64_t counted,
                 void (*give_back)(void *memory, uint64_t size)) {
  void *handle = NULL;
  SimdevBuffer *buffer = malloc(sizeof *buffer);
  if (buffer) {
    *buffer = (SimdevBuffer){memory, size, device_id, 1, give_back, counted};
    pthread_mutex_lock(&lock);
    if (counted <= SIMDEV_MEMORY - in_use[device_id])
      handle = bp_handle_add(&buffers, buffer);
    if (handle)
      in_use[device_id] += counted;
    pthread_mutex_unlock(&lock);
  }
  if (handle)
    return handle;
  free(buffer);
  if (give_back)
    give_back(memory, size);
  bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY,
                  "simdev:%d: no room for %" PRIu64 " bytes: %" PRIu64 " of %u are in use",
                  device_id, size, simdev_memory_in_use(device_id), SIMDEV_MEMORY);
  return NULL;
}

/* `dtype_hint` is for devices whose layout depends on the element type. */
int32_t simdev_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle) {
  (void)context;
  if (bp_plugin_check_allocation(&simdev_host, "simdev", allocation))
    return -1;
  void *memory = NULL;
  uint64_t size = allocation->size, alignment = allocation->alignment;
  if (alignment < SIMDEV_ALIGNMENT)
    alignment = SIMDEV_ALIGNMENT;
  if (size > SIMDEV_MEMORY || posix_memalign(&memory, alignment, size + 1))
    return bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY,
                           "simdev:%d: no room for %" PRIu64 " bytes in %u", device_id, size,
                           SIMDEV_MEMORY);
  *handle = simdev_add(device_id, memory, size, size, free_memory);
  return *handle ? 0 : -1;
}

/* Queued work still uses the buffer; the handle becomes invalid at once. */
int32_t simdev_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  pthread_mutex_lock(&lock);
  SimdevBuffer *buffer = find(device_id, handle);
  if (buffer)
    bp_handle_remove(&buffers, handle);
  pthread_mutex_unlock(&lock);
  simdev_unuse(buffer);
  return buffer ? 0 : -1;
}

char *simdev_use(BpDevice device, const void *data, uint64_t offset, uint64_t size,
                 SimdevBuffer **used) {
  char *address = NULL;
  if (device.device_type != SIMDEV_DEVICE_TYPE)
    return (char *)(uintptr_t)data + offset;
  pthread_mutex_lock(&lock);
  SimdevBuffer *buffer = find(device.device_id, data);
  if (buffer && (offset > buffer->size || size > buffer->size - offset)) {
    bp_plugin_raise(&simdev_host, BP_ERROR_INDEX,
                    "%" PRIu64 " bytes from %" PRIu64 " on do not lie in %" PRIu64, size, offset,
                    buffer->size);
  } else if (buffer) {
    buffer->uses++;
    *used = buffer;
    address = buffer->memory + offset;
  }
  pthread_mutex_unlock(&lock);
  return address;
}

void simdev_unuse(SimdevBuffer *buffer) {
  pthread_mutex_lock(&lock);
  if (buffer && --buffer->uses == 0) {
    in_use[buffer->device_id] -= buffer->counted;
    if (buffer->give_back)
      buffer->give_back(buffer->memory, buffer->size);
    free(buffer);
  }
  pthread_mutex_unlock(&lock);
}

uint64_t simdev_memory_in_use(int32_t device_id) {
  pthread_mutex_lock(&lock);
  uint64_t size = in_use[device_id];
  pthread_mutex_unlock(&lock);
  return size;
}
