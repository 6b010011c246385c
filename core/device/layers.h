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

/* The table of parts/layering, the part of the core that wraps devices. Each function does what the
 * one below does; `list` is the value of BACKPLANE_LAYERS. */
typedef struct Layers {
  int (*check)(const char *list);
  int (*wrap)(const char *list, BpDeviceApi *api, BpLayering **layering);
  int (*wrap_kernel)(int32_t device_type, BpKernelCall *launch, void **context,
                     void (**destroy)(void *context));
  int (*find_host)(const char *list, const BpDeviceApi **api);
} Layers;

/* Wraps `api`, a table that was checked, in the layers that are asked for: it is the outermost
 * table on return. *layering: those layers, or NULL if there are none. 0, or -1 with an error: of a
 * layer, or of a list that names one that is not there. */
int bp__layers_wrap(BpDeviceApi *api, BpLayering **layering);

/* 0 if the layers and kinds that are listed are there, so that choosing a device does not take a
 * mistyped list for a fault of each kind; -1 with an error. */
BP__SHARED int bp__layers_check(void);

/* Lets the launches of a kernel that is being made pass through the layers of its devices: replaces
 * all three, if layers are asked for at all. 0, or -1 with an error and nothing replaced. */
int bp__layers_wrap_kernel(int32_t device_type, BpKernelCall *launch, void **context,
                           void (**destroy)(void *context));

/* The table through which the host's own memory is reached: *api is NULL if no layer is around
 * device kind cpu. 0, or -1 with an error. */
int bp__layers_host(const BpDeviceApi **api);

/* Called before the layers are told that the process ends, in the same thread. It frees memory that
 * the host keeps for reuse, so that layers do not report it as a leak. There are two such
 * functions: the workspace pool's and that of transfers. The second function below gives them by
 * index; NULL: no more. */
#define BP__MOST_BEFORE_END 2
typedef void (*BpBeforeEnd)(void);
BP__SHARED void bp__layers_before_end(BpBeforeEnd function);
BP__SHARED BpBeforeEnd bp__layers_given_before_end(size_t index);

/* From now on no layer is asked for in this process. */
BP__SHARED void bp__layers_ignore(void);

#endif
