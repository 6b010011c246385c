/* SPDX-License-Identifier: Apache-2.0 */
/* Events that hold their latest record: what waits for a record has a reference of its own, so the
 * event may be recorded again or freed. */
#ifndef BP_PLUGINS_COMMON_EVENT_H
#define BP_PLUGINS_COMMON_EVENT_H

#include <backplane/device_extensions.h>

#include "common.h"

/* A record: an object of the driver that has a reference, and what else it is known by. */
typedef struct BpRecord {
  void *object; /* NULL: complete */
  uint64_t value;
  int32_t is_failed; /* work before it had failed */
} BpRecord;

/* How a driver's objects are counted. Neither function fails. */
typedef struct BpRecordKind {
  void (*retain)(void *object);
  void (*release)(void *object);
} BpRecordKind;

/* An event of a device of the plugin's. */
struct BpDeviceEvent {
  void *device;
  const BpRecordKind *kind;
  pthread_mutex_t lock;
  BpRecord latest; /* guarded by lock */
};

/* For BpEventsApi::create: a complete event. With `device` NULL an error has been raised, and it is
 * the result. */
int32_t bp_latest_create(const BpPluginTables *host, const BpRecordKind *kind, void *device,
                         BpDeviceEvent **made);
/* The slot BpEventsApi::free. */
int32_t bp_latest_free(void *context, BpDeviceEvent *event);
/* The latest record, with a reference, which bp_latest_release gives back. */
BpRecord bp_latest_use(BpDeviceEvent *event);
void bp_latest_release(const BpDeviceEvent *event, BpRecord record);
/* Takes the reference. */
void bp_latest_replace(BpDeviceEvent *event, BpRecord latest);

#endif
