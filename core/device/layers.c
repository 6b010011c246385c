/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps devices in layers through the part parts/layering, which is loaded if BACKPLANE_LAYERS is
 * set. Without BACKPLANE_LAYERS a kind's table and its kernels are the plugin's own, and no call is
 * intercepted. */

#include "core/device/layers.h"

#include "core/registry/part.h"
#include "core/system/env.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_int is_ignored;
static atomic_int is_host_plain; /* set once BACKPLANE_LAYERS is known to be empty */
static _Atomic(BpBeforeEnd) before_end[BP__MOST_BEFORE_END];

void bp__layers_ignore(void) {
  atomic_store(&is_ignored, 1);
}

void bp__layers_before_end(BpBeforeEnd function) {
  for (size_t i = 0; i < BP__MOST_BEFORE_END; i++) {
    BpBeforeEnd given = NULL;
    if (atomic_compare_exchange_strong(&before_end[i], &given, function) || given == function)
      return;
  }
}

BpBeforeEnd bp__layers_given_before_end(size_t index) {
  return index < BP__MOST_BEFORE_END ? atomic_load(&before_end[index]) : NULL;
}

/* Returns the list of layers, NULL if it is empty. */
static const char *read_list(void) {
  return atomic_load(&is_ignored) ? NULL : bp__env_get("BACKPLANE_LAYERS");
}

int bp__layers_check(void) {
  const char *list = read_list();
  const Layers *layers = list ? bp__part_table(BP_PART_LAYERING) : NULL;
  return layers ? layers->check(list) : list ? -1 : 0;
}

int bp__layers_wrap(BpDeviceApi *api, BpLayering **layering) {
  const char *list = read_list();
  const Layers *layers = list ? bp__part_table(BP_PART_LAYERING) : NULL;
  *layering = NULL;
  return layers ? layers->wrap(list, api, layering) : list ? -1 : 0;
}

int bp__layers_wrap_kernel(int32_t device_type, BpKernelCall *launch, void **context,
                           void (**destroy)(void *context)) {
  const char *list = read_list();
  const Layers *layers = list ? bp__part_table(BP_PART_LAYERING) : NULL;
  return layers ? layers->wrap_kernel(device_type, launch, context, destroy) : list ? -1 : 0;
}

int bp__layers_host(const BpDeviceApi **api) {
  *api = NULL;
  if (__builtin_expect(atomic_load_explicit(&is_host_plain, memory_order_relaxed), 1))
    return 0;
  const char *list = read_list();
  const Layers *layers = list ? bp__part_table(BP_PART_LAYERING) : NULL;
  if (!list)
    atomic_store(&is_host_plain, 1);
  return layers ? layers->find_host(list, api) : list ? -1 : 0;
}
