/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin layers: one call on its way through a layer, and common code of the layers.
 *
 * forward.c wraps a table once for all layers: each slot describes its call in a BpCall, asks the
 * layer before, calls the next table, and tells the layer after. A layer is the functions `before`
 * and `after`. */
#ifndef BP_LAYERS_H
#define BP_LAYERS_H

#include <backplane/device_extensions.h>
#include <backplane/device_layer.h>
#include <backplane/plugin_helpers.h>

#include "slots.h"

/* The host's tables, set by the entry point. */
extern BpPluginTables bp_layers_host;

/* ---- forward.c --------------------------------------------------------------------------- */

/* Numbers of the slots in slots.h. */
#define BP_LAYERS_SLOT_NUMBER(number, name) SLOT_##number,
typedef enum BpSlot { BP_LAYERS_SLOTS(BP_LAYERS_SLOT_NUMBER) NUM_SLOTS } BpSlot;

/* The name of a slot; static. */
const char *bp_layers_slot_name(BpSlot slot);

/* A call of a slot. Members that the slot has no parameter for are 0. */
typedef struct BpCall {
  BpSlot slot;
  int32_t device_id; /* -1: the slot has no device parameter */
  const char *name;  /* name of an extension */
  const BpAllocation *allocation;
  const BpCopy *copy;
  const BpLaunch *launch;
  uint64_t size;   /* size of a workspace or of imported memory */
  void *handle;    /* memory, stream, timer or recording that the call receives or made */
  void *stream;    /* the stream to queue on or wait for; sync_stream_from_to: `from` */
  void *to;        /* sync_stream_from_to: `to` */
  int32_t count;   /* the answer of get_device_count; of an event: BP_EVENT_* */
  int32_t is_kept; /* set by `after`: the object made stays, although the call fails */
  int64_t began;   /* the layer's own, as is `note`: set in `before`, read in `after` */
  void *note;
} BpCall;

/* The functions of a layer. Any thread may call them, also several at once. */
typedef struct BpLayerHooks {
  /* Returns the layer's state for one table; it lives for ever. NULL with an error. */
  void *(*create)(const BpDeviceApi *next);
  /* Returns 0; or -1 with an error, and the call is not made. */
  int32_t (*before)(void *state, BpCall *call);
  /* (optional) Returns the result for the caller. `rc` is the next table's result, and *call has
   * the object that it made. If the layer fails the call, with an error, the object is undone. */
  int32_t (*after)(void *state, BpCall *call, int32_t rc);
  void (*finish)(void *state); /* (optional) as BpLayered::finish */
} BpLayerHooks;

/* Implements BpDeviceLayer::wrap; the context is the layer's BpLayerHooks. */
int32_t bp_layers_wrap(void *context, const BpDeviceApi *next, BpLayered *layered);

/* The device that a copy is queued on: the other side may be the host. */
static inline BpDevice bp_layers_copy_device(const BpCopy *copy) {
  return copy->from_device.device_type == BP_DEVICE_CPU ? copy->to_device : copy->from_device;
}

/* ---- table.c ----------------------------------------------------------------------------- */

/* Records by device and handle. The owner locks the table; a zeroed table is empty. */
typedef struct BpLayersEntry {
  struct BpLayersEntry *next;
  int32_t device_id;
  const void *handle;
} BpLayersEntry;

#define BP_LAYERS_BUCKETS 512
typedef struct BpLayersTable {
  BpLayersEntry *buckets[BP_LAYERS_BUCKETS];
} BpLayersTable;

/* Adds a record; its first member is `entry`. */
void bp_layers_add(BpLayersTable *table, BpLayersEntry *entry);
/* Returns the most recently added record of a handle, or NULL. */
void *bp_layers_find(const BpLayersTable *table, int32_t device_id, const void *handle);
void *bp_layers_take(BpLayersTable *table, int32_t device_id, const void *handle);
/* Calls `visit` for each record; `visit` may free the record. */
void bp_layers_each(const BpLayersTable *table, void (*visit)(void *record, void *context),
                    void *context);

/* ---- The layers -------------------------------------------------------------------------- */

extern const BpLayerHooks bp_layers_validate;
extern const BpLayerHooks bp_layers_trace;
extern const BpLayerHooks bp_layers_fault;

#endif
