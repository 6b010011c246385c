/* SPDX-License-Identifier: Apache-2.0 */
/* The "runtime" table for plugins: host memory, host threads and similar functions; and the start
 * of core/device. */

#include "core/device/device.h"
#include "core/device/library_slots.h"
#include "core/registry/cache.h"
#include "core/system/env.h"
#include "core/registry/host.h"

#include <backplane/cache.h>
#include <backplane/plugins.h>
#include <string.h>

/* Plugins may read only BACKPLANE_* variables. */
static const char *get_option(const char *name) {
  return name && !strncmp(name, "BACKPLANE_", strlen("BACKPLANE_")) ? bp__env_get(name) : NULL;
}

static const BpRuntimeTable runtime_table = {
    .struct_size = sizeof runtime_table,
    .host_alloc = bp__host_alloc,
    .host_free = bp__host_free,
    .parallel_launch = bp_parallel_launch,
    .parallel_barrier = bp_parallel_barrier,
    .num_threads = bp_threads_get,
    .get_current = bp_device_get_current,
    .get_cache_dir = bp__cache_dir,
    .get_option = get_option,
    .cache_read = bp_cache_read,
    .cache_write = bp_cache_write,
};

int bp__device_start(void) {
  if (bp_host_add_table(BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION, &runtime_table))
    return -1;
  return bp__device_add_library_slots();
}
