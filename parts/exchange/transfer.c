/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two devices, in the order of a stream of each.
 *
 * The bytes pass through staging memory of the host. If the destination can wait for other devices
 * and its streams take turns with imported host memory, no thread waits: the source's stream fills
 * the memory and the destination's stream reads it after the event of the filling. With any other
 * destination the receiving thread waits for the event.
 *
 * The staging memory lives until both events are complete: the event after its filling and the
 * event after its reading. A transfer that is freed earlier is retired. Retired transfers are used
 * again or freed, the oldest first. Only a copy that would need more staging memory than
 * MOST_RETIRED waits for them. */
#include <stdlib.h>

#include <backplane/device_extensions.h>
#include <backplane/error.h>
#include <backplane/tensor.h>

#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/system/lock.h"
#include "parts/exchange/event.h"
#include "parts/exchange/exchange.h"

#define PAGE UINT64_C(4096)

/* The least and the most bytes of one transfer of bp_device_copy_between: larger copies are
 * split. */
#define LEAST_PART ((uint64_t)64 << 10)
#define MOST_PART  ((uint64_t)16 << 20)

/* The most bytes of staging memory of retired transfers: a copy that needs more waits for the
 * oldest transfer. */
#define MOST_RETIRED ((uint64_t)64 << 20)

struct BpTransfer {
  BpDevice from, to;
  uint64_t size;
  void *staging;
  void *from_handle; /* the staging memory, imported; NULL: the source copies to the host */
  void *to_handle;   /* the staging memory, imported; NULL: the receiving thread waits */
  BpEvent *filled, *emptied;
  void *sender;   /* the stream of the last send */
  int has_events; /* the source has the extension "events" */
  int is_unasked; /* sent bytes may be in flight, and only waiting for the source can tell */
  int is_lost;    /* work that no event covers may use the memory */
  uint64_t turn;  /* order of retiring */
  BpTransfer *next;
};

/* The retired transfers, the oldest first; guarded by BP__LOCK_STATE. */
static struct {
  BpTransfer *first, *last;
  uint64_t size, turns;
} retired;

/* ---- Capabilities of devices ------------------------------------------------------------- */

static int is_same(BpDevice a, BpDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* Whether streams of the device take turns with imported host memory. -1 with an error. */
static int imports_in_turn(BpDevice device, uint64_t *alignment) {
  const uint64_t needed = BP_EXTERNAL_HOST_POINTER | BP_EXTERNAL_IN_TURN;
  uint64_t imports;
  if (bp__memory_forms(device, &imports, NULL, alignment))
    return -1;
  return (imports & needed) == needed;
}

/* Whether a stream of `to` can wait for `from` and then read the memory that `from` wrote; -1 with
 * an error. *has_events: whether `from` has events; the host counts as having them, because its
 * work ends with the call. */
static int is_queued(BpDevice from, BpDevice to, int *has_events, uint64_t *alignment) {
  const BpEventsApi *from_events, *to_events;
  if (bp__event_table(from, &from_events) || bp__event_table(to, &to_events))
    return -1;
  *has_events = from_events || bp__device_is_host(from);
  if (bp__device_is_host(from) || bp__device_is_host(to))
    return 0;
  int imports = imports_in_turn(to, alignment);
  return imports < 0 ? -1 : imports && from_events && bp__event_can_hold(to_events);
}

/* ---- Life -------------------------------------------------------------------------------- */

/* Frees a transfer whose memory is not in use. Keeps the thread's error. */
static void destroy(BpTransfer *transfer) {
  BpError *pending = bp_error_take();
  if (transfer->from_handle)
    bp_device_free(transfer->from, transfer->from_handle);
  if (transfer->to_handle)
    bp_device_free(transfer->to, transfer->to_handle);
  bp__event_free(transfer->filled);
  bp__event_free(transfer->emptied);
  bp__host_free(transfer->staging);
  free(transfer);
  bp_error_clear();
  if (pending)
    bp_error_put(pending);
}

/* Returns a handle of the staging memory; NULL if the device cannot import the memory now. */
static void *import(const BpTransfer *transfer, BpDevice device) {
  const BpExternalMemory memory = {
      sizeof memory, transfer->size, transfer->staging, -1, BP_EXTERNAL_HOST_POINTER, 0};
  void *handle;
  if (bp__memory_import(device, &memory, &handle) == 0)
    return handle;
  bp_error_clear();
  return NULL;
}

static int allocate(BpTransfer *transfer) {
  uint64_t from_alignment = 0, to_alignment = 0, alignment = PAGE;
  int queues = is_queued(transfer->from, transfer->to, &transfer->has_events, &to_alignment);
  int fills = queues > 0 ? imports_in_turn(transfer->from, &from_alignment) : 0;
  if (queues < 0 || fills < 0)
    return -1;
  alignment = alignment < from_alignment ? from_alignment : alignment;
  alignment = alignment < to_alignment ? to_alignment : alignment;
  transfer->staging = bp__host_alloc(transfer->size, alignment);
  transfer->filled = transfer->staging ? bp__event_create(transfer->from) : NULL;
  transfer->emptied = transfer->filled ? bp__event_create(transfer->to) : NULL;
  if (!transfer->emptied)
    return -1;
  transfer->to_handle = queues ? import(transfer, transfer->to) : NULL;
  transfer->from_handle = transfer->to_handle && fills ? import(transfer, transfer->from) : NULL;
  return 0;
}

BpTransfer *bp__transfer_create(BpDevice from, BpDevice to, uint64_t size) {
  if (bp__device_check_fork())
    return NULL;
  if (size > UINT64_MAX - PAGE) {
    bp_error_raise(BP_ERROR_VALUE, "a transfer of %llu bytes is larger than any memory",
                   (unsigned long long)size);
    return NULL;
  }
  BpTransfer *transfer = calloc(1, sizeof *transfer);
  if (!transfer) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a transfer");
    return NULL;
  }
  transfer->from = from;
  transfer->to = to;
  transfer->size = size ? (size + PAGE - 1) / PAGE * PAGE : PAGE;
  if (allocate(transfer) == 0)
    return transfer;
  destroy(transfer);
  return NULL;
}

/* Returns 1 if the memory is not in use, 0 if work may use it, -1 if that can no longer be
 * determined. With a timeout of 0 the call does not wait. Keeps the thread's error. */
static int is_idle(const BpTransfer *transfer, uint64_t timeout_ns) {
  int32_t filled = BP_EVENT_PENDING, emptied = BP_EVENT_PENDING;
  if (transfer->is_unasked && timeout_ns == 0)
    return 0;
  BpError *pending = bp_error_take();
  int rc = transfer->is_lost || bp__event_synchronize(transfer->filled, timeout_ns, &filled) ||
                   bp__event_synchronize(transfer->emptied, timeout_ns, &emptied)
               ? -1
               : filled != BP_EVENT_PENDING && emptied != BP_EVENT_PENDING;
  bp_error_clear();
  if (pending)
    bp_error_put(pending);
  return rc;
}

/* ---- Retired transfers ------------------------------------------------------------------- */

/* Inserts a transfer by its turn. */
static void keep(BpTransfer *transfer) {
  bp__lock(BP__LOCK_STATE);
  if (!transfer->turn)
    transfer->turn = ++retired.turns;
  int is_newest = retired.last && retired.last->turn < transfer->turn;
  BpTransfer **link = is_newest ? &retired.last->next : &retired.first;
  while (*link && (*link)->turn < transfer->turn)
    link = &(*link)->next;
  transfer->next = *link;
  *link = transfer;
  if (!transfer->next)
    retired.last = transfer;
  retired.size += transfer->size;
  bp__unlock(BP__LOCK_STATE);
}

/* Removes the transfer after `before`, or the first transfer if `before` is NULL. Called with the
 * lock held. */
static BpTransfer *unlink_behind(BpTransfer *before) {
  BpTransfer **link = before ? &before->next : &retired.first, *transfer = *link;
  *link = transfer->next;
  if (!*link)
    retired.last = before;
  retired.size -= transfer->size;
  return transfer;
}

/* Takes the oldest transfer if more than `most` bytes are kept. */
static BpTransfer *take_oldest(uint64_t most) {
  bp__lock(BP__LOCK_STATE);
  BpTransfer *transfer = retired.size > most ? unlink_behind(NULL) : NULL;
  bp__unlock(BP__LOCK_STATE);
  return transfer;
}

static int fits(const BpTransfer *transfer, BpDevice from, BpDevice to, uint64_t size) {
  return is_same(transfer->from, from) && is_same(transfer->to, to) && transfer->size == size;
}

/* Takes the oldest transfer between two devices with that size, or NULL. */
static BpTransfer *take_fitting(BpDevice from, BpDevice to, uint64_t size) {
  bp__lock(BP__LOCK_STATE);
  BpTransfer *before = NULL, *at = retired.first;
  for (; at && !fits(at, from, to, size); at = at->next)
    before = at;
  BpTransfer *transfer = at ? unlink_behind(before) : NULL;
  bp__unlock(BP__LOCK_STATE);
  return transfer;
}

/* Runs at the end of the program. The memory of a transfer that may be in use for ever, such as
 * that of a lost device, is not freed. */
static void free_all(void) {
  BpTransfer *transfer;
  while ((transfer = take_oldest(0)) != NULL)
    if (is_idle(transfer, BP_WAIT_FOREVER) == 1)
      destroy(transfer);
}

static void retire(BpTransfer *transfer) {
  bp__layers_before_end(free_all);
  transfer->turn = 0;
  keep(transfer);
}

/* Frees the oldest transfers beyond MOST_RETIRED, up to the first that is in use. */
static void free_idle(void) {
  BpTransfer *transfer;
  while ((transfer = take_oldest(MOST_RETIRED)) != NULL) {
    int idle = is_idle(transfer, 0);
    if (idle == 0) {
      keep(transfer);
      return;
    }
    if (idle == 1)
      destroy(transfer);
  }
}

void bp__transfer_free(BpTransfer *transfer) {
  if (!transfer)
    return;
  int idle = is_idle(transfer, 0);
  if (idle == 1)
    destroy(transfer);
  else if (idle == 0)
    retire(transfer);
  free_idle();
}

/* Waits for the oldest transfers until `size` more bytes can be kept. Returns a transfer that fits,
 * which ends the waiting, or NULL. */
static BpTransfer *wait_for_oldest(BpDevice from, BpDevice to, uint64_t size) {
  BpTransfer *transfer;
  while ((transfer = take_oldest(MOST_RETIRED - size)) != NULL) {
    if (is_idle(transfer, BP_WAIT_FOREVER) != 1)
      continue;
    if (fits(transfer, from, to, size))
      return transfer;
    destroy(transfer);
  }
  return NULL;
}

/* Returns an idle transfer for `size` bytes, at most MOST_PART: a retired one, or a new one. */
static BpTransfer *take_transfer(BpDevice from, BpDevice to, uint64_t size) {
  uint64_t capacity = LEAST_PART;
  while (capacity < size)
    capacity *= 2;
  BpTransfer *transfer = take_fitting(from, to, capacity);
  int idle = transfer ? is_idle(transfer, 0) : -1;
  if (idle == 1)
    return transfer;
  if (idle == 0)
    keep(transfer);
  transfer = wait_for_oldest(from, to, capacity);
  return transfer ? transfer : bp__transfer_create(from, to, capacity);
}

/* ---- Sending and receiving --------------------------------------------------------------- */

static int check_size(const BpTransfer *transfer, uint64_t size) {
  return size <= transfer->size
             ? 0
             : bp_error_raise(BP_ERROR_VALUE, "%llu bytes by a transfer for at most %llu",
                              (unsigned long long)size, (unsigned long long)transfer->size);
}

/* Waits, after a failure, for work that no event covers. The first synchronisation may raise the
 * failure of earlier work; the second shows whether the stream still responds. Returns -1. */
static int settle(BpTransfer *transfer, BpDevice device, void *stream) {
  BpError *error = bp_error_take();
  if (bp_stream_sync(device, stream) && bp_stream_sync(device, stream))
    transfer->is_lost = 1;
  bp_error_clear();
  if (error)
    bp_error_put(error);
  return -1;
}

/* Makes a stream wait until the latest filling and reading of the memory are complete. */
static int wait_for_use(const BpTransfer *transfer, BpDevice device, void *stream) {
  return bp__event_wait(device, stream, transfer->filled) ||
                 bp__event_wait(device, stream, transfer->emptied)
             ? -1
             : 0;
}

/* Copies the staging memory to its own place, which hands it over between a device and the host. */
static int take_turn(const BpTransfer *transfer, int is_to_host, uint64_t size, void *stream) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  BpCopy turn = {sizeof turn, transfer->staging, 0,    host, transfer->to_handle,
                 0,           transfer->to,      size, 0};
  if (is_to_host)
    turn = (BpCopy){
        sizeof turn, transfer->from_handle, 0, transfer->from, transfer->staging, 0, host, size, 0};
  return bp_device_copy(&turn, stream);
}

static int fill(BpTransfer *transfer, const void *handle, uint64_t offset, uint64_t size,
                void *stream) {
  BpCopy copy = {sizeof copy,        handle, offset, transfer->from, transfer->staging, 0,
                 {BP_DEVICE_CPU, 0}, size,   0};
  if (!transfer->from_handle)
    return bp_device_copy(&copy, stream);
  copy.to = transfer->from_handle;
  copy.to_device = transfer->from;
  return bp_device_copy(&copy, stream) ? -1 : take_turn(transfer, 1, size, stream);
}

int bp__transfer_send(BpTransfer *transfer, const void *handle, uint64_t offset, uint64_t size,
                      void *stream) {
  if (check_size(transfer, size))
    return -1;
  transfer->sender = stream;
  if (size == 0)
    return 0;
  if (wait_for_use(transfer, transfer->from, stream))
    return -1;
  transfer->is_unasked = !transfer->has_events;
  return fill(transfer, handle, offset, size, stream) || bp__event_record(transfer->filled, stream)
             ? settle(transfer, transfer->from, stream)
             : 0;
}

/* Waits in the calling thread, which raises a failure of the source. */
static int wait_for_source(BpTransfer *transfer) {
  int32_t state = BP_EVENT_PENDING;
  int rc = bp__event_synchronize(transfer->filled, BP_WAIT_FOREVER, &state);
  transfer->is_unasked = 0;
  if (rc || state != BP_EVENT_FAILED)
    return rc;
  if (bp_stream_sync(transfer->from, transfer->sender) == 0)
    bp_error_raise(BP_ERROR_DEVICE, "work of the device failed before its result was copied");
  return -1;
}

static int empty_in_turn(const BpTransfer *transfer, const BpCopy *given, void *stream) {
  BpCopy copy = *given;
  copy.from = transfer->to_handle;
  copy.from_device = transfer->to;
  return take_turn(transfer, 0, copy.size, stream) || bp_device_copy(&copy, stream) ||
                 bp__event_record(transfer->emptied, stream)
             ? -1
             : 0;
}

int bp__transfer_receive(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                         void *stream) {
  if (check_size(transfer, size))
    return -1;
  if (size == 0)
    return 0;
  const BpCopy copy = {
      sizeof copy, transfer->staging, 0, {BP_DEVICE_CPU, 0}, handle, offset, transfer->to, size, 0};
  if (!transfer->to_handle)
    return wait_for_source(transfer) ? -1 : bp_device_copy(&copy, stream);
  if (wait_for_use(transfer, transfer->to, stream))
    return -1;
  return empty_in_turn(transfer, &copy, stream) ? settle(transfer, transfer->to, stream) : 0;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static int copy_part(const BpCopy *copy, uint64_t at, uint64_t size, void *from_stream,
                     void *to_stream) {
  BpTransfer *transfer = take_transfer(copy->from_device, copy->to_device, size);
  if (!transfer)
    return -1;
  int rc = bp__transfer_send(transfer, copy->from, copy->from_offset + at, size, from_stream) ||
                   bp__transfer_receive(transfer, copy->to, copy->to_offset + at, size, to_stream)
               ? -1
               : 0;
  retire(transfer);
  return rc;
}

static int copy_by_transfers(const BpCopy *copy, void *from_stream, void *to_stream) {
  int rc = 0;
  for (uint64_t at = 0; rc == 0 && at < copy->size; at += MOST_PART) {
    uint64_t left = copy->size - at;
    rc = copy_part(copy, at, left < MOST_PART ? left : MOST_PART, from_stream, to_stream);
  }
  return rc;
}

/* Copies in the source's stream, by the plugin. The copy waits for to_stream, and to_stream waits
 * for the copy. */
static int copy_within_kind(const BpCopy *copy, void *from_stream, void *to_stream) {
  BpEvent *before = bp__event_create(copy->to_device), *after = bp__event_create(copy->from_device);
  int rc = before && after && !bp__event_record(before, to_stream) &&
                   !bp__event_wait(copy->from_device, from_stream, before) &&
                   !bp_device_copy(copy, from_stream) && !bp__event_record(after, from_stream) &&
                   !bp__event_wait(copy->to_device, to_stream, after)
               ? 0
               : -1;
  bp__event_free(before);
  bp__event_free(after);
  return rc;
}

int bp__copy_between(const BpCopy *copy, void *from_stream, void *to_stream) {
  int has_events;
  uint64_t alignment;
  int queues = 1;
  if (is_same(copy->from_device, copy->to_device))
    queues = 0;
  else if (copy->from_device.device_type == copy->to_device.device_type)
    queues = is_queued(copy->from_device, copy->to_device, &has_events, &alignment);
  if (queues < 0)
    return -1;
  return queues ? copy_by_transfers(copy, from_stream, to_stream)
                : copy_within_kind(copy, from_stream, to_stream);
}
