/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around the tables of devices (backplane/device_layer.h), as BACKPLANE_LAYERS lists them.
 */
#ifndef BACKPLANE_CORE_DEVICE_LAYERS_H
#define BACKPLANE_CORE_DEVICE_LAYERS_H

#include "core/system/shared.h"

#include <stddef.h>

#include <backplane/device_layer.h>

/* The layers of one kind of device; lives for ever. */
typedef struct BpLayering BpLayering;

/* The table of parts/layering, the part of the core that wraps devices. Each slot implements one of
 * the functions below; `list` is the value of BACKPLANE_LAYERS. */
typedef struct Layers {
  int (*check)(const char *list);
  int (*wrap)(const char *list, BpDeviceApi *api, BpLayering **layering);
  int (*wrap_kernel)(int32_t device_type, BpKernelCall *launch, void **context,
                     void (**destroy)(void *context));
  int (*find_host)(const char *list, const BpDeviceApi **api);
} Layers;

/* Wraps `api`, a checked table, in the layers of BACKPLANE_LAYERS: on return it is the outermost
 * table. *layering: the layers, or NULL if there are none. 0, or -1 with an error of a layer, or
 * because the list names an unknown layer. */
int bp__layers_wrap(BpDeviceApi *api, BpLayering **layering);

/* Returns 0 if all listed layers and kinds exist, so that device selection does not report a
 * mistyped list as a fault of each kind; -1 with an error. */
BP__SHARED int bp__layers_check(void);

/* Makes the launches of a new kernel pass through the layers of its devices: replaces all three
 * arguments if there are layers. 0, or -1 with an error and unchanged arguments. */
int bp__layers_wrap_kernel(int32_t device_type, BpKernelCall *launch, void **context,
                           void (**destroy)(void *context));

/* Gives the table through which the host's own memory is accessed: *api is NULL if no layer is
 * around device kind cpu. 0, or -1 with an error. */
int bp__layers_host(const BpDeviceApi **api);

/* A function that frees memory which the host keeps for reuse, so that layers do not report it as a
 * leak. The function is called before the layers learn that the process ends, in the same thread.
 * The workspace pool and the transfers have one such function each. bp__layers_given_before_end
 * returns the functions by index; NULL: no more. */
#define BP__MOST_BEFORE_END 2
typedef void (*BpBeforeEnd)(void);
BP__SHARED void bp__layers_before_end(BpBeforeEnd function);
BP__SHARED BpBeforeEnd bp__layers_given_before_end(size_t index);

/* Switches layers off for the rest of the process. */
BP__SHARED void bp__layers_ignore(void);

#endif
