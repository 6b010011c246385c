/* SPDX-License-Identifier: Apache-2.0 */
/* DeviceAPI tables by device type. A plugin registers `device_api.NAME`, a function that returns
 * the table's address; the address is kept here, so that a later look-up is one atomic read. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "core/device/device.h"
#include "core/registry/host.h"

#define MAX_TABLES 64

/* Tables found so far: only added to, `count` published after the entry. */
static struct {
  pthread_mutex_t lock;
  const BpDeviceApi *tables[MAX_TABLES];
  atomic_size_t count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const BpDeviceApi *find_known(int32_t device_type) {
  size_t count = atomic_load_explicit(&known.count, memory_order_acquire);
  for (size_t i = 0; i < count; i++)
    if (known.tables[i]->device_type == device_type)
      return known.tables[i];
  return NULL;
}

const char *bp__device_api_name(int32_t device_type) {
  const BpDeviceApi *api = find_known(device_type);
  return api ? api->name : NULL;
}

/* ---- Fork --------------------------------------------------------------------------------- */

/* Drivers, their threads and ours do not survive a fork: a child that goes on would hang. */
static atomic_int forked_after_use;

static void mark_child(void) {
  if (atomic_load_explicit(&known.count, memory_order_relaxed))
    atomic_store_explicit(&forked_after_use, 1, memory_order_relaxed);
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, mark_child);
}

int bp__device_check_fork(void) {
  if (!atomic_load_explicit(&forked_after_use, memory_order_relaxed))
    return 0;
  return bp_error_raise(BP_ERROR_DEVICE,
                        "this process was forked after devices had been used, and drivers do not "
                        "survive that; fork before the first use, or start a new program with "
                        "posix_spawn");
}

/* ---- Looking up --------------------------------------------------------------------------- */

static int check_table(const BpDeviceApi *api, const char *name) {
  if (!BP_TABLE_HAS(api, get_device_count) || !BP_TABLE_HAS(api, get_attr) ||
      !BP_TABLE_HAS(api, alloc_data_space) || !BP_TABLE_HAS(api, free_data_space) ||
      !BP_TABLE_HAS(api, copy) || !BP_TABLE_HAS(api, stream_sync) || !api->name)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the table of device_api.%s lacks a function that is not optional; the "
                          "plugin is defective",
                          name);
  if (strcmp(api->name, name) != 0)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the table of device_api.%s calls itself '%s'; the plugin is defective",
                          name, api->name);
  return 0;
}

static int remember(const BpDeviceApi *api) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&known.lock);
  size_t count = atomic_load_explicit(&known.count, memory_order_relaxed);
  int status = 0;
  if (!find_known(api->device_type)) {
    if (count < MAX_TABLES) {
      known.tables[count] = api;
      atomic_store_explicit(&known.count, count + 1, memory_order_release);
    } else {
      status = -1;
    }
  }
  pthread_mutex_unlock(&known.lock);
  return status == 0 ? 0
                     : bp_error_raise(BP_ERROR_MEMORY, "more than %d kinds of device", MAX_TABLES);
}

/* Calls `device_api.NAME`; NULL with no error raised if there is no such function. */
static const BpDeviceApi *fetch(const char *name, int *status) {
  char function_name[96] = "device_api.";
  BpFunction *function = NULL;
  BpValue result = {.type_index = BP_TYPE_NONE};
  strncat(function_name, name, sizeof(function_name) - strlen(function_name) - 1);
  *status = bp_registry_get(function_name, &function);
  if (*status < 0 || !function)
    return NULL;
  *status = bp_function_call(function, NULL, 0, &result);
  bp_object_release(function);
  if (*status < 0)
    return NULL;
  if (result.type_index != BP_TYPE_POINTER || !result.v_ptr) {
    *status = bp_error_raise(BP_ERROR_PLUGIN, "%s did not return a table", function_name);
    bp_value_clear(&result);
    return NULL;
  }
  const BpDeviceApi *api = result.v_ptr;
  *status = check_table(api, name);
  if (*status == 0)
    *status = remember(api);
  return *status == 0 ? api : NULL;
}

/* Looks among plugins' own kinds, which have no number before their table is there. */
int32_t bp__device_api_type(const char *name, size_t size) {
  char copy[64];
  int status;
  if (size == 0 || size >= sizeof(copy))
    return -1;
  memcpy(copy, name, size);
  copy[size] = '\0';
  const BpDeviceApi *api = fetch(copy, &status);
  if (!api)
    bp_error_clear();
  return api ? api->device_type : -1;
}

static const BpDeviceApi *fetch_by_type(int32_t device_type) {
  const char *name = bp__device_type_name(device_type);
  int status = 0;
  const BpDeviceApi *api = name ? fetch(name, &status) : NULL;
  if (status < 0)
    return NULL;
  if (!api) {
    bp_error_raise(
        BP_ERROR_NOT_FOUND,
        "no installed plugin has %s devices; the package backplane-plugin-%s would bring "
        "them, `backplane list` shows what is there",
        name ? name : "such", name ? name : "NAME");
    return NULL;
  }
  if (api->device_type == device_type)
    return api;
  bp_error_raise(BP_ERROR_PLUGIN, "device_api.%s has device type %d, not %d", name,
                 api->device_type, device_type);
  return NULL;
}

const BpDeviceApi *bp_device_api(int32_t device_type) {
  const BpDeviceApi *api = find_known(device_type);
  if (bp__device_check_fork() < 0)
    return NULL;
  return api ? api : fetch_by_type(device_type);
}

int bp_device_count(int32_t device_type, int32_t *count, const char **why) {
  const char *reason = NULL;
  const BpDeviceApi *api = bp_device_api(device_type);
  if (!api)
    return -1;
  *count = 0;
  if (api->get_device_count(count, &reason) < 0)
    return -1;
  if (why)
    *why = *count == 0 && reason ? reason : "";
  return 0;
}

const BpDeviceApi *bp__device_get(BpDevice device) {
  int32_t count;
  const BpDeviceApi *api = bp_device_api(device.device_type);
  const char *why;
  if (!api || bp_device_count(device.device_type, &count, &why) < 0)
    return NULL;
  if (device.device_id >= 0 && device.device_id < count)
    return api;
  if (count == 0)
    bp_error_raise(BP_ERROR_INDEX, "there is no %s device: %s", api->name, why);
  else
    bp_error_raise(BP_ERROR_INDEX, "there is no device %s:%d; the last is %s:%d", api->name,
                   device.device_id, api->name, count - 1);
  return NULL;
}
