/* SPDX-License-Identifier: Apache-2.0 */
/* Events that hold their latest record. Work that waits for a record holds a reference to the
 * record, so the event may be recorded again or freed. */
#ifndef BP_PLUGINS_COMMON_EVENT_H
#define BP_PLUGINS_COMMON_EVENT_H

#include <backplane/device_extensions.h>

#include "common.h"

/* A record of an event: an object of the driver, with a reference, and its value. */
typedef struct BpRecord {
  void *object; /* NULL: complete */
  uint64_t value;
  int32_t is_failed; /* work before the record had failed */
} BpRecord;

/* How the references of a driver's objects are counted. The functions never fail. */
typedef struct BpRecordKind {
  void (*retain)(void *object);
  void (*release)(void *object);
} BpRecordKind;

/* An event of one device. */
struct BpDeviceEvent {
  void *device;
  const BpRecordKind *kind;
  pthread_mutex_t lock;
  BpRecord latest; /* guarded by lock */
};

/* BpEventsApi::create: makes a complete event. If `device` is NULL, its caller has raised an error,
 * and the function returns -1. */
int32_t bp_latest_create(const BpPluginTables *host, const BpRecordKind *kind, void *device,
                         BpDeviceEvent **made);
/* The slot BpEventsApi::free. */
int32_t bp_latest_free(void *context, BpDeviceEvent *event);
/* Returns the latest record with a reference; bp_latest_release drops the reference. */
BpRecord bp_latest_use(BpDeviceEvent *event);
void bp_latest_release(const BpDeviceEvent *event, BpRecord record);
/* Takes over the reference to `latest`. */
void bp_latest_replace(BpDeviceEvent *event, BpRecord latest);

#endif
