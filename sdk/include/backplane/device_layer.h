/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: plugins that stand between the host and the devices of any other plugin.
 *
 * A layer sees every call of a slot of the DeviceAPI and of its extensions, and every launch of a
 * kernel. The layer may check a call, record a call, or make a call fail. The plugin of the device
 * needs no support for layers. BACKPLANE_LAYERS lists the layers in force (docs/layers.md): the
 * first is the outermost.
 *
 * A plugin registers a layer as the global function `device_layer.NAME`, which takes nothing and
 * returns the address of a BpDeviceLayer as a value of type pointer:
 *
 *   bp_plugin_register(&tables, "device_layer.count", bp_plugin_answer_context, (void *)&layer);
 *
 * The structures of layers are of the ABI's second tier, with a version of their own. Since 1.0. */
#ifndef BACKPLANE_DEVICE_LAYER_H
#define BACKPLANE_DEVICE_LAYER_H

#include <backplane/device_api.h>
#include <backplane/module_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BP_DEVICE_LAYER_VERSION 1

/* A launch of a kernel, on its way to the device. The structure is borrowed for the call. */
typedef struct BpLaunch {
  uint64_t struct_size;           /* sizeof(BpLaunch) of the host's headers */
  const char *kernel;             /* the kernel's name in its module; "": unknown */
  const BpInvocation *invocation; /* the device and the stream */
  const BpValue *args;            /* the kernel's arguments, then one int for each launch tag */
  int32_t num_args;
  int32_t reserved; /* zero */
  /* Passes `launch`, which points to this structure, to the next layer or to the kernel. A layer
   * calls it at most once per launch. Returns 0, or -1 with an error raised. */
  int32_t (*proceed)(const struct BpLaunch *launch);
} BpLaunch;

/* The result of BpDeviceLayer::wrap. The host zeroes the structure and sets struct_size before the
 * call. */
typedef struct BpLayered {
  uint64_t struct_size; /* sizeof(BpLayered) of the host's headers */

  /* The table that the host uses from now on. The table and its context are static or valid for
   * ever. The table has the `device_type` and the `name` of the next table. A slot that the next
   * table lacks stays NULL. If this table lacks a slot, or the slot lies beyond its struct_size,
   * the devices do not have the slot under this layer: an older layer hides a newer slot, which is
   * never called past the layer. get_extension returns the layer's own tables, since their slots
   * are called with the layer's context; for an extension that the layer does not know it returns
   * NULL. */
  const BpDeviceApi *api;

  void *context; /* passed to the two slots below; may be NULL */

  /* (optional: proceeds) Called for each launch of a kernel on these devices, also if the kernel is
   * called as a packed function. Returns what launch->proceed(launch) returns, or -1 with an error
   * raised. Any thread, also at once from several. */
  int32_t (*launch)(void *context, const BpLaunch *launch);

  /* (optional: nothing) Called once, in the thread that ends the process by exit() or by returning
   * from main: the last chance to write out collected data. Other threads may still run, and call
   * slots after `finish`. `finish` is not called in the child of a fork, nor where a signal ends
   * the process.
   */
  void (*finish)(void *context);
} BpLayered;

/* A layer is static: it lives as long as the plugin. */
typedef struct BpDeviceLayer {
  uint64_t struct_size; /* sizeof(BpDeviceLayer) of the plugin's headers */
  uint32_t version;     /* BP_DEVICE_LAYER_VERSION; the host refuses another */
  uint32_t reserved;    /* zero */
  const char *name;     /* the layer's NAME, as in `device_layer.NAME`; static */
  void *context;        /* the layer's context, passed to `wrap`; may be NULL */

  /* Wraps the table of a kind of device when the kind is first used. `next` is the host's copy of
   * the next table: it is valid for ever, missing slots are NULL, and its slots are called with
   * next->context. Fills *layered; with `api` left NULL the slots of `next` stay in force. Handles
   * and streams are the next table's: a layer passes them on unchanged.
   * Returns 0, or -1 with an error raised, and then using the kind fails with that error.
   * Any thread. If two threads use a kind for the first time at once, each may call `wrap`; one
   * result is used, and the other lives on unused. */
  int32_t (*wrap)(void *context, const BpDeviceApi *next, BpLayered *layered);
} BpDeviceLayer;

#ifdef __cplusplus
}
#endif

#endif
