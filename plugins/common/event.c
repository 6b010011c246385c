/* SPDX-License-Identifier: Apache-2.0 */
/* The latest record of an event. Several threads may use the event. */
#include "event.h"

#include <stdlib.h>

int32_t bp_latest_create(const BpPluginTables *host, const BpRecordKind *kind, void *device,
                         BpDeviceEvent **made) {
  if (!device)
    return -1;
  BpDeviceEvent *event = bp_plugin_calloc(host, sizeof(*event));
  if (!event)
    return -1;
  event->device = device;
  event->kind = kind;
  pthread_mutex_init(&event->lock, NULL);
  *made = event;
  return 0;
}

void bp_latest_release(const BpDeviceEvent *event, BpRecord record) {
  if (record.object)
    event->kind->release(record.object);
}

BpRecord bp_latest_use(BpDeviceEvent *event) {
  pthread_mutex_lock(&event->lock);
  BpRecord latest = event->latest;
  if (latest.object)
    event->kind->retain(latest.object);
  pthread_mutex_unlock(&event->lock);
  return latest;
}

void bp_latest_replace(BpDeviceEvent *event, BpRecord latest) {
  pthread_mutex_lock(&event->lock);
  BpRecord before = event->latest;
  event->latest = latest;
  pthread_mutex_unlock(&event->lock);
  bp_latest_release(event, before);
}

int32_t bp_latest_free(void *context, BpDeviceEvent *event) {
  (void)context;
  bp_latest_release(event, event->latest);
  pthread_mutex_destroy(&event->lock);
  free(event);
  return 0;
}
