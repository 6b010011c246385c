/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of intermediate values: blocks that return to a pool, which keeps them for the next
 * run. */
#ifndef BACKPLANE_GRAPH_RELAX_STORAGE_H
#define BACKPLANE_GRAPH_RELAX_STORAGE_H

#include <backplane/tensor.h>

/* A pool of one device's memory, for any thread. A pool lives as long as its owner or one of its
 * blocks. */
typedef struct BpRelaxPool BpRelaxPool;

BpRelaxPool *bp__relax_pool_create(BpDevice device);
/* Releases a pool; NULL is ignored. */
void bp__relax_pool_release(BpRelaxPool *pool);

/* The lock of the lists of all pools, for other lists that a run takes objects from and returns
 * them to. While the lock of the pools is held, no other lock is taken and no callback is called. A
 * fork waits for the lock of the pools. */
void bp__relax_lock(void);
void bp__relax_unlock(void);

/* Allocates a block of at least `size` bytes as an object (transfer full). mem_scope is NULL or a
 * scope of the device, whose memory is not pooled. */
BpObject *bp__relax_storage_create(BpRelaxPool *pool, uint64_t size, BpDataType hint,
                                   const char *mem_scope);
int bp__relax_is_storage(const BpValue *value);
/* Makes a tensor within a block (transfer full), which keeps the block alive; fails if it would
 * exceed the block. */
BpTensor *bp__relax_storage_tensor(BpObject *storage, int64_t offset, const int64_t *extents,
                                   int32_t ndim, BpDataType dtype);
/* The address of a block's first byte. */
void *bp__relax_storage_handle(const BpObject *storage);

#endif
