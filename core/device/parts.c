/* SPDX-License-Identifier: Apache-2.0 */
/* Selects devices, and exchanges data between them and with other libraries, through parts that are
 * loaded on first use. */

#include "core/device/parts.h"

#include "core/device/device.h"
#include "core/registry/argument.h"
#include "core/registry/part.h"

#include <stdio.h>

/* ---- Selection --------------------------------------------------------------------------- */

int bp_device_select(const char *preferences, BpDevice *device, char **report) {
  return bp_device_select_among(NULL, 0, preferences, device, report);
}

int bp_device_select_among(const int32_t *device_types, size_t count, const char *preferences,
                           BpDevice *device, char **report) {
  const Selector *selector =
      count && !BP_NOT_NULL(device_types) ? NULL : bp__part_table(BP_PART_SELECT);
  if (report)
    *report = NULL;
  return selector ? selector->select_among(device_types, count, preferences, device, report) : -1;
}

char *bp_device_preferences(void) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->preferences() : NULL;
}

const char *bp_device_select_help(void) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->help : "";
}

size_t bp_device_identity(BpDevice device, char *text, size_t capacity) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->identify(device, text, capacity)
                  : (size_t)snprintf(text, capacity, "%s", "");
}

/* ---- Exchange ---------------------------------------------------------------------------- */

BpEvent *bp_event_create(BpDevice device) {
  const ExchangePart *part = bp__part_table(BP_PART_EXCHANGE);
  return part ? part->event_create(device) : NULL;
}

void bp_event_free(BpEvent *event) {
  const ExchangePart *part = bp__part_loaded(BP_PART_EXCHANGE);
  if (part)
    part->event_free(event);
}

int bp_event_record(BpEvent *event, void *stream) {
  const ExchangePart *part = BP_NOT_NULL(event) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->event_record(event, stream) : -1;
}

int bp_stream_wait_event(BpDevice device, void *stream, BpEvent *event) {
  const ExchangePart *part = BP_NOT_NULL(event) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->event_wait(device, stream, event) : -1;
}

int bp_event_query(BpEvent *event, int32_t *state) {
  const ExchangePart *part =
      BP_NOT_NULL(event) && BP_NOT_NULL(state) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->event_query(event, state) : -1;
}

int bp_event_synchronize(BpEvent *event, uint64_t timeout_ns, int32_t *state) {
  const ExchangePart *part =
      BP_NOT_NULL(event) && BP_NOT_NULL(state) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->event_synchronize(event, timeout_ns, state) : -1;
}

int bp_device_memory_forms(BpDevice device, uint64_t *imports, uint64_t *exports,
                           uint64_t *alignment) {
  const ExchangePart *part = bp__part_table(BP_PART_EXCHANGE);
  return part ? part->memory_forms(device, imports, exports, alignment) : -1;
}

int bp_device_import_memory(BpDevice device, const BpExternalMemory *memory, void **handle) {
  const ExchangePart *part =
      BP_NOT_NULL(memory) && BP_NOT_NULL(handle) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->memory_import(device, memory, handle) : -1;
}

int bp_device_export_memory(BpDevice device, const BpAllocation *allocation,
                            BpExternalMemory *memory, void **handle) {
  const ExchangePart *part =
      BP_NOT_NULL(memory) && BP_NOT_NULL(handle) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->memory_export(device, allocation, memory, handle) : -1;
}

BpTransfer *bp_transfer_create(BpDevice from, BpDevice to, uint64_t size) {
  const ExchangePart *part = bp__part_table(BP_PART_EXCHANGE);
  return part ? part->transfer_create(from, to, size) : NULL;
}

void bp_transfer_free(BpTransfer *transfer) {
  const ExchangePart *part = bp__part_loaded(BP_PART_EXCHANGE);
  if (part)
    part->transfer_free(transfer);
}

int bp_transfer_send(BpTransfer *transfer, const void *handle, uint64_t offset, uint64_t size,
                     void *stream) {
  const ExchangePart *part = BP_NOT_NULL(transfer) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->transfer_send(transfer, handle, offset, size, stream) : -1;
}

int bp_transfer_receive(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                        void *stream) {
  const ExchangePart *part = BP_NOT_NULL(transfer) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->transfer_receive(transfer, handle, offset, size, stream) : -1;
}

/* The host has no streams: a handle is ignored. */
static int check_stream_of_end(BpDevice device, void *stream) {
  return bp__device_is_host(device) ? 0 : bp__stream_check(device, stream);
}

int bp_device_copy_between(const BpCopy *given, void *from_stream, void *to_stream) {
  BpCopy copy;
  if (bp__copy_read(given, &copy) || check_stream_of_end(copy.from_device, from_stream) ||
      check_stream_of_end(copy.to_device, to_stream))
    return -1;
  if (copy.size == 0)
    return 0;
  if (bp__device_is_host(copy.from_device))
    return bp_device_copy(&copy, to_stream);
  int is_one_device = copy.from_device.device_type == copy.to_device.device_type &&
                      copy.from_device.device_id == copy.to_device.device_id;
  if (bp__device_is_host(copy.to_device) || (is_one_device && from_stream == to_stream))
    return bp_device_copy(&copy, from_stream);
  const ExchangePart *part = bp__part_table(BP_PART_EXCHANGE);
  return part ? part->copy_between(&copy, from_stream, to_stream) : -1;
}

BpManagedTensor *bp_tensor_to_dlpack(BpTensor *tensor) {
  const ExchangePart *part = BP_NOT_NULL(tensor) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->to_dlpack(tensor) : NULL;
}

BpManagedTensorVersioned *bp_tensor_to_dlpack_versioned(BpTensor *tensor) {
  const ExchangePart *part = BP_NOT_NULL(tensor) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->to_dlpack_versioned(tensor) : NULL;
}

BpTensor *bp_tensor_from_dlpack(BpManagedTensor *managed) {
  const ExchangePart *part = BP_NOT_NULL(managed) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->from_dlpack(managed) : NULL;
}

BpTensor *bp_tensor_from_dlpack_versioned(BpManagedTensorVersioned *managed) {
  const ExchangePart *part = BP_NOT_NULL(managed) ? bp__part_table(BP_PART_EXCHANGE) : NULL;
  return part ? part->from_dlpack_versioned(managed) : NULL;
}
