/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of two parts of the core: parts/select, which selects devices; and parts/exchange, for
 * programs that use several devices, or memory of other libraries: events, external memory, copies
 * between devices, DLPack. */
#ifndef BACKPLANE_CORE_DEVICE_PARTS_H
#define BACKPLANE_CORE_DEVICE_PARTS_H

#include <backplane/device.h>
#include <backplane/tensor.h>

/* The functions bp_device_select_among, bp_device_preferences and bp_device_identity, and the text
 * that bp_device_select_help returns. */
typedef struct Selector {
  int (*select_among)(const int32_t *device_types, size_t count, const char *preferences,
                      BpDevice *device, char **report);
  char *(*preferences)(void);
  size_t (*identify)(BpDevice device, char *text, size_t capacity);
  const char *help;
} Selector;

/* The part's table: functions of <backplane/device.h> and <backplane/tensor.h>. Required pointers
 * were checked before: an error about a pointer names the public function. */
typedef struct ExchangePart {
  BpEvent *(*event_create)(BpDevice device);
  void (*event_free)(BpEvent *event);
  int (*event_record)(BpEvent *event, void *stream);
  int (*event_wait)(BpDevice device, void *stream, BpEvent *event);
  int (*event_query)(BpEvent *event, int32_t *state);
  int (*event_synchronize)(BpEvent *event, uint64_t timeout_ns, int32_t *state);
  int (*memory_forms)(BpDevice device, uint64_t *imports, uint64_t *exports, uint64_t *alignment);
  int (*memory_import)(BpDevice device, const BpExternalMemory *memory, void **handle);
  int (*memory_export)(BpDevice device, const BpAllocation *allocation, BpExternalMemory *memory,
                       void **handle);
  BpTransfer *(*transfer_create)(BpDevice from, BpDevice to, uint64_t size);
  void (*transfer_free)(BpTransfer *transfer);
  int (*transfer_send)(BpTransfer *transfer, const void *handle, uint64_t offset, uint64_t size,
                       void *stream);
  int (*transfer_receive)(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                          void *stream);
  /* The slot for bp_device_copy_between: arguments were checked, and neither side is the host;
   * within one device, the copy is from one stream to another. */
  int (*copy_between)(const BpCopy *copy, void *from_stream, void *to_stream);
  BpManagedTensor *(*to_dlpack)(BpTensor *tensor);
  BpManagedTensorVersioned *(*to_dlpack_versioned)(BpTensor *tensor);
  BpTensor *(*from_dlpack)(BpManagedTensor *managed);
  BpTensor *(*from_dlpack_versioned)(BpManagedTensorVersioned *managed);
} ExchangePart;

#endif
