/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace pool, for devices without one: blocks of data space that each thread keeps for
 * reuse, because operators allocate the same sizes again and again.
 *
 * A block belongs to the stream that was current when it was allocated. Work queued on that stream
 * may still use the block after it is freed, so only that stream gets the block again. */
#include <pthread.h>
#include <stdlib.h>

#include <backplane/error.h>

#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/registry/argument.h"

#define ALIGNMENT 256
#define PAGE      4096

typedef struct Block {
  struct Block *next;
  BpDevice device;
  uint64_t stream; /* number of the stream */
  uint64_t size;
  void *handle;
} Block;

/* One thread's blocks: some in use, some free, the most recently freed first. */
typedef struct Pool {
  Block *used;
  Block *unused;
} Pool;

static pthread_key_t pool_key;
static int key_status = -1;

static void free_block(Block *block) {
  if (bp_device_free(block->device, block->handle) < 0)
    bp_error_clear();
  free(block);
}

static void free_blocks(Block *block) {
  while (block) {
    Block *next = block->next;
    free_block(block);
    block = next;
  }
}

static void destroy_pool(void *context) {
  Pool *pool = context;
  free_blocks(pool->used);
  free_blocks(pool->unused);
  free(pool);
}

/* Frees the blocks that this thread keeps for reuse. */
static void give_up(void) {
  Pool *pool = pthread_getspecific(pool_key);
  if (!pool)
    return;
  free_blocks(pool->unused);
  pool->unused = NULL;
}

static void create_key(void) {
  key_status = pthread_key_create(&pool_key, destroy_pool);
  if (!key_status)
    bp__layers_before_end(give_up);
}

/* This thread's pool. */
static Pool *get_pool(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, create_key);
  Pool *pool = key_status == 0 ? pthread_getspecific(pool_key) : NULL;
  if (pool || key_status != 0)
    return pool;
  pool = calloc(1, sizeof(*pool));
  if (pool && pthread_setspecific(pool_key, pool) != 0) {
    free(pool);
    pool = NULL;
  }
  return pool;
}

static int same_device(BpDevice a, BpDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

static int belongs_to(const Block *block, BpDevice device, uint64_t stream) {
  return same_device(block->device, device) && block->stream == stream;
}

static Block *unlink_block(Block **link) {
  Block *block = *link;
  *link = block->next;
  return block;
}

/* Takes the smallest free block of the stream that is large enough. */
static Block *take_unused(Pool *pool, BpDevice device, uint64_t stream, uint64_t size) {
  Block **best = NULL;
  for (Block **link = &pool->unused; *link; link = &(*link)->next)
    if (belongs_to(*link, device, stream) && (*link)->size >= size &&
        (!best || (*link)->size < (*best)->size))
      best = link;
  return best ? unlink_block(best) : NULL;
}

/* Frees the blocks of streams that were freed. */
static void drop_orphans(Pool *pool) {
  for (Block **link = &pool->unused; *link;)
    if (bp__stream_is_alive((*link)->stream))
      link = &(*link)->next;
    else
      free_block(unlink_block(link));
}

/* Frees the stream's largest free block, which is too small. So a stream never has more blocks than
 * were in use at the same time. */
static void drop_unused(Pool *pool, BpDevice device, uint64_t stream) {
  Block **largest = NULL;
  for (Block **link = &pool->unused; *link; link = &(*link)->next)
    if (belongs_to(*link, device, stream) && (!largest || (*link)->size > (*largest)->size))
      largest = link;
  if (largest)
    free_block(unlink_block(largest));
}

static Block *create_block(BpDevice device, uint64_t stream, uint64_t size, BpDataType hint) {
  Block *block = calloc(1, sizeof(*block));
  if (!block) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a workspace");
    return NULL;
  }
  block->device = device;
  block->stream = stream;
  block->size = (size + PAGE - 1) / PAGE * PAGE;
  if (bp_device_alloc(device,
                      &(BpAllocation){sizeof(BpAllocation), block->size, ALIGNMENT, hint, 0, NULL},
                      &block->handle) == 0)
    return block;
  free(block);
  return NULL;
}

static int pool_alloc(BpDevice device, uint64_t size, BpDataType hint, void **handle) {
  Pool *pool = get_pool();
  if (!pool)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a workspace pool");
  if (size > UINT64_MAX - PAGE)
    return bp_error_raise(BP_ERROR_MEMORY, "a workspace larger than any memory");
  uint64_t stream = bp__stream_current_number(device);
  Block *block = take_unused(pool, device, stream, size);
  if (!block) {
    drop_orphans(pool);
    drop_unused(pool, device, stream);
    block = create_block(device, stream, size, hint);
  }
  if (!block)
    return -1;
  block->next = pool->used;
  pool->used = block;
  *handle = block->handle;
  return 0;
}

static Block *take_used(Pool *pool, BpDevice device, const void *handle) {
  for (Block **link = &pool->used; *link; link = &(*link)->next)
    if ((*link)->handle == handle && same_device((*link)->device, device))
      return unlink_block(link);
  return NULL;
}

static int pool_free(BpDevice device, void *handle) {
  Pool *pool = get_pool();
  Block *block = pool ? take_used(pool, device, handle) : NULL;
  if (!block)
    return bp_error_raise(BP_ERROR_VALUE, "a workspace that this thread does not have: it is freed "
                                          "twice, or was another thread's");
  block->next = pool->unused;
  pool->unused = block;
  return 0;
}

int bp_workspace_alloc(BpDevice device, uint64_t size, BpDataType hint, void **handle) {
  if (!BP_NOT_NULL(handle))
    return -1;
  *handle = NULL;
  if (device.device_type == BP_DEVICE_CPU)
    return bp__device_check_fork() ? -1 : pool_alloc(device, size, hint, handle);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (!api->alloc_workspace)
    return pool_alloc(device, size, hint, handle);
  return api->alloc_workspace(api->context, device.device_id, size, hint, handle)
             ? bp__device_failed(device, "allocating workspace")
             : 0;
}

int bp_workspace_free(BpDevice device, void *handle) {
  if (device.device_type == BP_DEVICE_CPU)
    return pool_free(device, handle);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (!api->free_workspace)
    return pool_free(device, handle);
  return api->free_workspace(api->context, device.device_id, handle)
             ? bp__device_failed(device, "freeing workspace")
             : 0;
}
