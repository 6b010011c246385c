/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of device memory. A request takes the smallest free block that is large enough; if none is,
 * the largest free block is freed before a new one is allocated. So a pool never has more blocks
 * than were once in use together. */
#include "graph/relax/storage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#define ALIGNMENT 256

typedef struct Block {
  void *handle;
  uint64_t size;
} Block;

/* Guards the lists of all pools and machines, in short sections. A fork takes the lock; if each
 * pool had a lock of its own, a thread that the child lacks could hold one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct BpRelaxPool {
  atomic_int references;
  BpDevice device;
  Block *free; /* free blocks; `lock` guards `free`, `num_free` and `capacity` */
  size_t num_free;
  size_t capacity;
};

typedef struct Storage {
  BpObject header;
  BpRelaxPool *pool;
  Block block;
  int is_scoped;
} Storage;

void bp__relax_lock(void) {
  pthread_mutex_lock(&lock);
}

void bp__relax_unlock(void) {
  pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
  pthread_atfork(bp__relax_lock, bp__relax_unlock, bp__relax_unlock);
}

BpRelaxPool *bp__relax_pool_create(BpDevice device) {
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  pthread_once(&watched, watch_forks);
  BpRelaxPool *pool = calloc(1, sizeof(*pool));
  if (!pool) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a pool");
    return NULL;
  }
  atomic_init(&pool->references, 1);
  pool->device = device;
  return pool;
}

static void free_block(BpDevice device, void *handle) {
  BpError *pending = bp_error_take();
  if (bp_device_free(device, handle) < 0)
    bp_error_clear();
  if (pending)
    bp_error_put(pending);
}

void bp__relax_pool_release(BpRelaxPool *pool) {
  if (!pool || atomic_fetch_sub(&pool->references, 1) != 1)
    return;
  for (size_t i = 0; i < pool->num_free; i++)
    free_block(pool->device, pool->free[i].handle);
  free(pool->free);
  free(pool);
}

/* ---- Blocks ------------------------------------------------------------------------------ */

/* Takes from the list the block that fits best, or else the largest one, which is too small. The
 * many equal blocks of a sequence are not compared. */
static Block take_block(BpRelaxPool *pool, uint64_t size) {
  Block taken = {NULL, 0};
  bp__relax_lock();
  size_t best = 0;
  for (size_t i = 1; i < pool->num_free && pool->free[best].size != size; i++) {
    uint64_t have = pool->free[best].size, other = pool->free[i].size;
    if (have < size ? other > have : other >= size && other < have)
      best = i;
  }
  if (pool->num_free) {
    taken = pool->free[best];
    pool->free[best] = pool->free[--pool->num_free];
  }
  bp__relax_unlock();
  return taken;
}

/* Keeps a block for reuse; -1 without an error if the list cannot grow. */
static int keep_block(BpRelaxPool *pool, Block block) {
  int status = 0;
  bp__relax_lock();
  if (pool->num_free == pool->capacity) {
    size_t capacity = 2 * pool->capacity + 16;
    Block *grown = realloc(pool->free, capacity * sizeof(*grown));
    if (grown) {
      pool->free = grown;
      pool->capacity = capacity;
    } else {
      status = -1;
    }
  }
  if (status == 0)
    pool->free[pool->num_free++] = block;
  bp__relax_unlock();
  return status;
}

static int get_block(Storage *storage, uint64_t size, BpDataType hint, const char *mem_scope) {
  BpRelaxPool *pool = storage->pool;
  storage->is_scoped = mem_scope != NULL;
  if (!mem_scope) {
    storage->block = take_block(pool, size);
    if (storage->block.handle && storage->block.size >= size)
      return 0;
    if (storage->block.handle)
      free_block(pool->device, storage->block.handle);
  }
  storage->block = (Block){NULL, size};
  if (bp_device_alloc(pool->device,
                      &(BpAllocation){sizeof(BpAllocation), size, ALIGNMENT, hint, 0, mem_scope},
                      &storage->block.handle) == 0)
    return 0;
  return bp_error_add_context("%" PRIu64 " bytes for an intermediate value", size);
}

static void delete_storage(void *object, int flags) {
  Storage *storage = object;
  if (flags & BP_DELETER_STRONG && storage->block.handle &&
      (storage->is_scoped || keep_block(storage->pool, storage->block) < 0))
    free_block(storage->pool->device, storage->block.handle);
  if (flags & BP_DELETER_STRONG)
    bp__relax_pool_release(storage->pool);
  if (flags & BP_DELETER_WEAK)
    free(storage);
}

BpObject *bp__relax_storage_create(BpRelaxPool *pool, uint64_t size, BpDataType hint,
                                   const char *mem_scope) {
  Storage *storage = calloc(1, sizeof(*storage));
  if (!storage) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an intermediate value");
    return NULL;
  }
  storage->header = (BpObject){.combined_count = (UINT64_C(1) << 32) | 1,
                               .type_index = BP_TYPE_OBJECT,
                               .deleter = delete_storage};
  storage->pool = pool;
  atomic_fetch_add(&pool->references, 1);
  if (get_block(storage, size ? size : 1, hint, mem_scope) == 0)
    return &storage->header;
  storage->block.handle = NULL;
  bp_object_release(storage);
  return NULL;
}

int bp__relax_is_storage(const BpValue *value) {
  return value->type_index == BP_TYPE_OBJECT && value->v_obj->deleter == delete_storage;
}

void *bp__relax_storage_handle(const BpObject *storage) {
  return ((const Storage *)storage)->block.handle;
}

BpTensor *bp__relax_storage_tensor(BpObject *object, int64_t offset, const int64_t *extents,
                                   int32_t ndim, BpDataType dtype) {
  Storage *storage = (Storage *)object;
  BpTensorView view = {.data = storage->block.handle,
                       .device = storage->pool->device,
                       .ndim = ndim,
                       .dtype = dtype,
                       .shape = (int64_t *)(uintptr_t)extents};
  int64_t bytes = bp_view_num_bytes(&view);
  if (bytes < 0)
    return NULL;
  if (offset < 0 || (uint64_t)offset > storage->block.size ||
      (uint64_t)bytes > storage->block.size - (uint64_t)offset) {
    bp_error_raise(BP_ERROR_INDEX,
                   "a tensor of %" PRId64 " bytes at byte %" PRId64 " of a storage of %" PRIu64,
                   bytes, offset, storage->block.size);
    return NULL;
  }
  if (view.device.device_type == BP_DEVICE_CPU)
    view.data = (char *)view.data + offset;
  else
    view.byte_offset = (uint64_t)offset;
  BpTensor *tensor = bp_tensor_wrap(&view, bp_object_release, storage);
  if (tensor)
    bp_object_retain(storage);
  return tensor;
}
