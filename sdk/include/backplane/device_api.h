/* SPDX-License-Identifier: Apache-2.0 */
/* DeviceAPI: the table that a plugin gives the host for one kind of device.
 *
 * The plugin registers the table as the global `device_api.NAME` (NAME: "cpu", "opencl", ...), with
 * bp_plugin_register_device_api() of plugin_helpers.h. The host reads the table once, when the kind
 * is first used, and calls its slots through a copy.
 *
 * Rules for every slot, unless its comment says otherwise:
 *  - Threads: any thread may call a slot, also several at once. The host holds no lock.
 *  - Errors: a slot returns 0, or -1 with an error raised through the host's error table. On
 *    failure the slot's results are not read.
 *  - `context` is BpDeviceApi::context. One set of functions can serve several kinds.
 *  - `device_id` is in [0, device count): the host checks it.
 *  - Pointers to structures and texts are borrowed for the call.
 *  - A slot may call any table of the host. A slot does not call back into its own kind of device
 *    through the host, except to raise errors.
 *  - A slot marked (optional) may be NULL, or lie beyond `struct_size`. The comment of an optional
 *    slot says what the host does without the slot.
 *
 * Streams. A stream is a handle that create_stream made on the same device, or NULL for the
 * device's default stream. No stream is ordered with another one, the default stream included,
 * unless sync_stream_from_to or an event (device_extensions.h) orders them. Several threads may
 * queue on one stream: each call is queued whole, in the order of the calls.
 *
 * Indices. A device keeps its index, and an index its device, until the process ends. The index of
 * a device that is lost or removed stays: its BP_ATTR_EXIST is false, and each slot that needs the
 * device raises BP_ERROR_DEVICE_LOST. Handles and streams of a lost device are freed like any
 * others. A device that is added, and a lost device that the driver brings back, gets a new index.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_DEVICE_API_H
#define BACKPLANE_DEVICE_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attributes of a device, with the type of the value. get_attr returns None for an attribute that
 * the device does not have. Numbers are permanent and Backplane's own: later numbers of TVM are not
 * adopted. Numbers from 65536 on belong to the vendor. */
#define BP_ATTR_EXIST                       0  /* bool: the device is usable now */
#define BP_ATTR_MAX_THREADS_PER_BLOCK       1  /* int */
#define BP_ATTR_WARP_SIZE                   2  /* int: number of threads that run in lock-step */
#define BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK 3  /* int, bytes */
#define BP_ATTR_COMPUTE_VERSION             4  /* str: "9.0", "OpenCL C 3.0" */
#define BP_ATTR_DEVICE_NAME                 5  /* str */
#define BP_ATTR_MAX_CLOCK_RATE              6  /* int, kHz */
#define BP_ATTR_MULTI_PROCESSOR_COUNT       7  /* int: independent execution units */
#define BP_ATTR_MAX_THREAD_DIMENSIONS       8  /* shape of 3: largest block in x, y, z */
#define BP_ATTR_MAX_REGISTERS_PER_BLOCK     9  /* int */
#define BP_ATTR_ARCH_NAME                   10 /* str: the vendor's architecture name */
#define BP_ATTR_API_VERSION                 11 /* str: version of the vendor's API */
#define BP_ATTR_DRIVER_VERSION              12 /* str */
#define BP_ATTR_L2_CACHE_SIZE               13 /* int, bytes */
#define BP_ATTR_TOTAL_GLOBAL_MEMORY         14 /* int, bytes */
#define BP_ATTR_AVAILABLE_GLOBAL_MEMORY     15 /* int, bytes, now */
#define BP_ATTR_IMAGE_PITCH_ALIGNMENT       16 /* int */
#define BP_ATTR_MAX_GRID_DIMENSIONS         17 /* shape of 3: most thread blocks in x, y, z */
#define BP_ATTR_MAX_ALLOCATION              18 /* int, bytes: the largest single data space */
#define BP_ATTR_DATA_ALIGNMENT              19 /* int, bytes: alignment of views into data space */
#define BP_ATTR_VENDOR                      20 /* str */
#define BP_ATTR_UUID                        21 /* str: stable across processes */
#define BP_ATTR_PCI_ADDRESS                 22 /* str "0000:01:00.0" */
/* bool: a handle of the memory scope "global" is an address that the host may use */
#define BP_ATTR_HOST_ACCESSIBLE 23
#define BP_ATTR_TARGET          24 /* str: text of the target that fits this device best */
#define BP_ATTR_RANK            25 /* int: `auto` takes the largest, see below */

/* The scale of BP_ATTR_RANK. Ranks compare devices of independent plugins.
 *  - 200 to 999: hardware that runs models faster than the host's CPU; the rank grows with the
 *    speed. If several plugins reach the same hardware, the fastest of them has the highest rank (a
 *    GPU through OpenCL has 300).
 *  - 100: the host's CPU.
 *  - 1 to 99: software drivers that run on the host's CPU.
 *  - None or 0: devices that are the last choice.
 * If ranks are equal, `auto` takes the first device of the kind that is first in the alphabet. */

/* A copy. The device types of the source and destination determine the direction: the host's side
 * has device_type BP_DEVICE_CPU and an address. A copy within one kind may go between two devices
 * of the kind. Offsets and sizes are in bytes. Before the host passes a copy to a plugin, it has
 * checked the bounds of tensors, and `size` is not 0. */
typedef struct BpCopy {
  uint64_t struct_size; /* sizeof(BpCopy) of the filling side's headers */
  const void *from;
  uint64_t from_offset;
  BpDevice from_device;
  void *to;
  uint64_t to_offset;
  BpDevice to_device;
  uint64_t size;
  uint64_t flags; /* 0: no flag is defined. A device refuses unknown flags */
} BpCopy;

/* A request for memory. */
typedef struct BpAllocation {
  uint64_t struct_size; /* sizeof(BpAllocation) of the filling side's headers */
  uint64_t size;        /* bytes; a size of 0 gives a valid handle, too */
  uint64_t alignment;   /* bytes: a power of two from 1 to 4096 */
  BpDataType dtype;     /* type of the elements; a hint */
  uint32_t flags;       /* as BpCopy::flags */
  const char *scope;    /* a memory scope of the device; NULL or "": "global" */
} BpAllocation;

/* The table of a kind of device is static: it lives as long as the plugin. */
typedef struct BpDeviceApi {
  uint64_t struct_size; /* sizeof(BpDeviceApi) of the plugin's headers */

  int32_t device_type; /* BP_DEVICE_* */
  int32_t reserved;    /* zero; the host refuses another value */
  const char *name;    /* the kind's NAME, as in `device_api.NAME`; static */
  void *context;       /* passed to each slot; may be NULL; the host never frees it */

  /* Counts the devices.
   * *count: the number of devices at present, including lost devices. If a vendor library or driver
   * is missing, the count is 0, without an error. *why: if the count is 0, the reason and the
   * remedy, a static or thread-local text that is never freed. */
  int32_t (*get_device_count)(void *context, int32_t *count, const char **why);

  /* Reads an attribute.
   * attr: BP_ATTR_*, or a number of the vendor. *result: None when the slot is called; after
   * success the caller owns the object in it. An unknown attribute stays None and is no error. */
  int32_t (*get_attr)(void *context, int32_t device_id, int32_t attr, BpValue *result);

  /* (optional: nothing) Makes the device current for the calling thread, for vendor APIs that have
   * a current device. The host calls it when the thread selects another device; a thread that has
   * not selected a device uses index 0. Slots with a `device_id` do not rely on it. */
  int32_t (*set_device)(void *context, int32_t device_id);

  /* Allocates memory.
   * *handle: the memory, never NULL, which the caller frees with free_data_space.
   * Errors: BP_ERROR_MEMORY if memory is exhausted; the device then stays usable; BP_ERROR_VALUE
   * for an unknown scope; BP_ERROR_NOT_IMPLEMENTED for an unknown flag. */
  int32_t (*alloc_data_space)(void *context, int32_t device_id, const BpAllocation *allocation,
                              void **handle);

  /* Frees memory.
   * handle: made by alloc_data_space on this device, not NULL. Queued work that uses the memory
   * still completes. */
  int32_t (*free_data_space)(void *context, int32_t device_id, void *handle);

  /* (optional, with free_workspace: the host pools data space) Allocates short-lived memory.
   * *handle: not NULL; the same thread frees it with free_workspace, in any order.
   * Errors: BP_ERROR_MEMORY. */
  int32_t (*alloc_workspace)(void *context, int32_t device_id, uint64_t size, BpDataType dtype_hint,
                             void **handle);

  /* (optional) Frees memory of alloc_workspace. Queued work that uses the memory still
   * completes. */
  int32_t (*free_workspace)(void *context, int32_t device_id, void *handle);

  /* Queues a copy on `stream`, or waits for the stream and copies at once.
   * stream: a stream of the device, if the other side is the host; a stream of the source, if both
   * sides are devices of this kind. Work on the destination's streams is not ordered with the copy.
   * Host to device: the source has been read when the slot returns. Device to host: the destination
   * stays valid until the stream is synchronised. Any offset and any size is valid: a device that
   * moves memory in larger units reads, changes and writes the first and the last unit.
   * Errors: BP_ERROR_NOT_IMPLEMENTED for an unknown flag, and nothing is copied. */
  int32_t (*copy)(void *context, const BpCopy *copy, void *stream);

  /* (optional, with the next two: the device has one queue, its default stream) Makes a stream.
   * *stream: not NULL; the caller frees it with free_stream. */
  int32_t (*create_stream)(void *context, int32_t device_id, void **stream);

  /* (optional) Frees a stream. Work that is queued on the stream still completes.
   * stream: made by create_stream, not NULL. No thread uses the stream during or after the call. */
  int32_t (*free_stream)(void *context, int32_t device_id, void *stream);

  /* (optional) Orders two streams of the device: work that is queued on `to` later waits for the
   * work that is queued on `from` now. The call does not wait. */
  int32_t (*sync_stream_from_to)(void *context, int32_t device_id, void *from, void *to);

  /* Waits until all work that is queued on the stream has ended.
   * Errors: a failure of work on the stream, raised once, to one of the threads that wait. */
  int32_t (*stream_sync)(void *context, int32_t device_id, void *stream);

  /* (optional: none) Lists further properties, for `backplane inspect`. visit: called with
   * `visitor`, a static name and a borrowed value for each property, in the calling thread, until
   * it returns a value other than 0: that ends the visit, and the slot succeeds. */
  int32_t (*visit_properties)(void *context, int32_t device_id,
                              int32_t (*visit)(void *visitor, const char *name,
                                               const BpValue *value),
                              void *visitor);

  /* (optional: none) Finds an extension by name and version (device_extensions.h).
   * Returns a table that stays valid for ever, or NULL, with no error raised, if the devices of
   * this kind do not have the extension in that version. */
  const void *(*get_extension)(void *context, const char *name, uint32_t version);
} BpDeviceApi;

#ifdef __cplusplus
}
#endif

#endif
