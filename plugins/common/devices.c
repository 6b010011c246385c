/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices, found once, and its state after a fork. */
#include "common.h"

static int32_t is_forked; /* atomic */

static void mark_forked(void) {
  __atomic_store_n(&is_forked, 1, __ATOMIC_RELAXED);
}

void bp_device_list_watch_forks(void) {
  pthread_atfork(NULL, NULL, mark_forked);
}

int bp_device_list_is_forked(void) {
  return __atomic_load_n(&is_forked, __ATOMIC_RELAXED);
}

int32_t bp_device_list_count(BpDeviceList *list, int32_t *count, const char **why) {
  pthread_once(&list->once, list->find);
  *count = list->count;
  *why = list->why ? list->why : "";
  return 0;
}

int32_t bp_device_list_check(BpDeviceList *list, int32_t device_id) {
  if (bp_device_list_is_forked())
    return bp_plugin_raise(list->host, BP_ERROR_DEVICE,
                           "%s: this process was forked from one that used the device, "
                           "which does not survive that; fork before the first use, or "
                           "start a new program",
                           list->api->name);
  pthread_once(&list->once, list->find);
  if (device_id >= 0 && device_id < list->count)
    return 0;
  return bp_plugin_raise(list->host, BP_ERROR_VALUE, "%s: no device %d; there are %d%s%s",
                         list->api->name, device_id, list->count, list->why ? ": " : "",
                         list->why ? list->why : "");
}

int bp_device_is_open(const BpDeviceOpening *opening) {
  return __atomic_load_n(&opening->is_open, __ATOMIC_ACQUIRE);
}

int32_t bp_device_open_once(BpDeviceOpening *opening, int32_t (*open)(void *device), void *device) {
  if (bp_device_is_open(opening))
    return 0;
  pthread_mutex_lock(&opening->lock);
  int32_t rc = opening->is_open ? 0 : open(device);
  __atomic_store_n(&opening->is_open, rc == 0, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&opening->lock);
  return rc;
}
