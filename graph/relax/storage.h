/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of intermediate values: blocks that go back to a pool, which keeps them for the next
 * run. */
#ifndef BACKPLANE_GRAPH_RELAX_STORAGE_H
#define BACKPLANE_GRAPH_RELAX_STORAGE_H

#include <backplane/tensor.h>

/* A pool of one device's memory. Any thread. It lives as long as its owner or a block of it. */
typedef struct BpRelaxPool BpRelaxPool;

BpRelaxPool *bp__relax_pool_create(BpDevice device);
/* NULL is ignored. */
void bp__relax_pool_release(BpRelaxPool *pool);

/* The lock of the lists of all pools, for other lists that a run takes things from and gives them
 * back to. Nothing else is locked or called while it is held. A fork waits for it. */
void bp__relax_lock(void);
void bp__relax_unlock(void);

/* A block of at least `size` bytes as an object (transfer full). mem_scope: NULL or a scope of the
 * device, whose memory is not pooled. */
BpObject *bp__relax_storage_create(BpRelaxPool *pool, uint64_t size, BpDataType hint,
                                   const char *mem_scope);
int bp__relax_is_storage(const BpValue *value);
/* A tensor within a block (transfer full), which it keeps. Out of bounds is an error. */
BpTensor *bp__relax_storage_tensor(BpObject *storage, int64_t offset, const int64_t *extents,
                                   int32_t ndim, BpDataType dtype);
/* Where a block begins. */
void *bp__relax_storage_handle(const BpObject *storage);

#endif
