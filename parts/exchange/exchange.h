/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the part's table (core/device/parts.h). */
#ifndef BACKPLANE_PARTS_EXCHANGE_EXCHANGE_H
#define BACKPLANE_PARTS_EXCHANGE_EXCHANGE_H

#include "core/device/parts.h"

BpEvent *bp__event_create(BpDevice device);
void bp__event_free(BpEvent *event);
int bp__event_record(BpEvent *event, void *stream);
int bp__event_wait(BpDevice device, void *stream, BpEvent *event);
int bp__event_query(BpEvent *event, int32_t *state);
int bp__event_synchronize(BpEvent *event, uint64_t timeout_ns, int32_t *state);
int bp__memory_forms(BpDevice device, uint64_t *imports, uint64_t *exports, uint64_t *alignment);
int bp__memory_import(BpDevice device, const BpExternalMemory *memory, void **handle);
int bp__memory_export(BpDevice device, const BpAllocation *allocation, BpExternalMemory *memory,
                      void **handle);
BpTransfer *bp__transfer_create(BpDevice from, BpDevice to, uint64_t size);
void bp__transfer_free(BpTransfer *transfer);
int bp__transfer_send(BpTransfer *transfer, const void *handle, uint64_t offset, uint64_t size,
                      void *stream);
int bp__transfer_receive(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                         void *stream);
int bp__copy_between(const BpCopy *copy, void *from_stream, void *to_stream);
BpManagedTensor *bp__to_dlpack(BpTensor *tensor);
BpManagedTensorVersioned *bp__to_dlpack_versioned(BpTensor *tensor);
BpTensor *bp__from_dlpack(BpManagedTensor *managed);
BpTensor *bp__from_dlpack_versioned(BpManagedTensorVersioned *managed);

#endif
