/* SPDX-License-Identifier: Apache-2.0 */
/* DeviceAPI: the table that a plugin gives the host for one kind of device.
 *
 * It is registered as the global `device_api.NAME` (NAME: "cpu", "opencl", ...), with the inline
 * helper bp_plugin_register_device_api() in plugin_helpers.h.
 * The host reads the table once, when the kind is first used, and calls through a copy.
 *
 * Rules for every slot, unless its comment says otherwise:
 *  - it may be called from any thread, also at once from several; the host holds no lock;
 *  - it returns 0, or -1 with an error raised through the host's error table;
 *  - `context` is BpDeviceApi::context, so that one set of functions serves several kinds;
 *  - `device_id` was checked by the host to lie in [0, device count);
 *  - a stream is a handle that create_stream made on the same device, or NULL for the device's
 *    default stream. Streams, the default one among them, are not ordered with each other unless
 *    sync_stream_from_to or an event (device_extensions.h) orders them. Several threads may queue
 *    on one stream: each call is queued whole, in the order in which the calls were made.
 * A slot marked (optional) may be NULL, or lie beyond `struct_size`: its default is stated.
 *
 * A device keeps its index, and an index its device, until the process ends: one that is lost, or
 * taken out, leaves its index behind, where BP_ATTR_EXIST is false and each slot that needs the
 * device raises BP_ERROR_DEVICE_LOST; one that is added gets an index that no other had. What a
 * lost device gave (handles, streams) is freed as that of any other. A driver that brings a lost
 * device back does so under a new index. */
#ifndef BACKPLANE_DEVICE_API_H
#define BACKPLANE_DEVICE_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attributes of a device, with the type of the answer. A device that has no such attribute
 * answers None. Numbers are permanent; from 65536 on they are the vendor's own. */
#define BP_ATTR_EXIST                       0  /* bool: the device is usable now */
#define BP_ATTR_MAX_THREADS_PER_BLOCK       1  /* int */
#define BP_ATTR_WARP_SIZE                   2  /* int: threads in lock-step */
#define BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK 3  /* int, bytes */
#define BP_ATTR_COMPUTE_VERSION             4  /* str: "9.0", "OpenCL C 3.0" */
#define BP_ATTR_DEVICE_NAME                 5  /* str */
#define BP_ATTR_MAX_CLOCK_RATE              6  /* int, kHz */
#define BP_ATTR_MULTI_PROCESSOR_COUNT       7  /* int: independent execution units */
#define BP_ATTR_MAX_THREAD_DIMENSIONS       8  /* shape of 3: largest block in x, y, z */
#define BP_ATTR_MAX_REGISTERS_PER_BLOCK     9  /* int */
#define BP_ATTR_ARCH_NAME                   10 /* str: the vendor's architecture name */
#define BP_ATTR_API_VERSION                 11 /* str: of the vendor's API */
#define BP_ATTR_DRIVER_VERSION              12 /* str */
#define BP_ATTR_L2_CACHE_SIZE               13 /* int, bytes */
#define BP_ATTR_TOTAL_GLOBAL_MEMORY         14 /* int, bytes */
#define BP_ATTR_AVAILABLE_GLOBAL_MEMORY     15 /* int, bytes, now */
#define BP_ATTR_IMAGE_PITCH_ALIGNMENT       16 /* int */
#define BP_ATTR_MAX_GRID_DIMENSIONS         17 /* shape of 3: most groups in x, y, z */
#define BP_ATTR_MAX_ALLOCATION              18 /* int, bytes: the largest single data space */
#define BP_ATTR_DATA_ALIGNMENT              19 /* int, bytes: views into one data space start at multiples */
#define BP_ATTR_VENDOR                      20 /* str */
#define BP_ATTR_UUID                        21 /* str, stable across processes */
#define BP_ATTR_PCI_ADDRESS                 22 /* str "0000:01:00.0" */
#define BP_ATTR_HOST_ACCESSIBLE             23 /* bool: `data` is an address that the host may use */
#define BP_ATTR_TARGET                      24 /* str: the target, as text, that fits this device best */
#define BP_ATTR_RANK                        25 /* int: the largest is what `auto` takes, see below */

/* The scale of BP_ATTR_RANK, which compares devices of plugins that know nothing of each other:
 *   200 to 999  hardware that runs models faster than the host's CPU, by how much faster; if
 * several plugins reach the same hardware, the fastest of them has the highest rank (a GPU through
 * OpenCL has 300) 100         the host's CPU 1 to 99     software drivers, which run on the host's
 * CPU None, 0     the last choice Of equal ranks, the first device of the kind that comes first in
 * the alphabet is taken. */

/* Directions are told from the device types of the two ends; the host's side of a copy has
 * device_type BP_DEVICE_CPU and `data` an address. A copy within one kind of device may go between
 * two of its devices. Offsets and sizes are in bytes and were checked against the tensors; `size`
 * is not 0. */
typedef struct BpCopy {
  uint64_t struct_size; /* sizeof(BpCopy) of the filling side's headers */
  const void *from;
  uint64_t from_offset;
  BpDevice from_device;
  void *to;
  uint64_t to_offset;
  BpDevice to_device;
  uint64_t size;
} BpCopy;

/* Memory that is asked for. */
typedef struct BpAllocation {
  uint64_t struct_size; /* sizeof(BpAllocation) of the filling side's headers */
  uint64_t size;        /* bytes; 0 gives a valid handle as well */
  uint64_t alignment;   /* bytes: a power of two from 1 to 4096 */
  BpDataType dtype;     /* of the elements, for devices that care; a hint */
  uint32_t flags;       /* none is defined yet: 0 */
  const char *scope; /* the name of a kind of memory; NULL: "global". An unknown one is an error */
} BpAllocation;

/* The table itself; static, for the plugin's life. */
typedef struct BpDeviceApi {
  uint64_t struct_size; /* sizeof(BpDeviceApi) of the plugin's headers */

  int32_t device_type; /* BP_DEVICE_* */
  int32_t reserved;    /* zero */
  const char *name;    /* as in `device_api.NAME`; static */
  void *context;       /* the plugin's, passed to each slot; may be NULL; valid for ever */

  /* How many devices there are now. A missing vendor library or driver is count 0 and returns 0;
   * then *why (static or thread-local text, never freed) says the reason and the remedy. */
  int32_t (*get_device_count)(void *context, int32_t *count, const char **why);

  /* Answers BP_ATTR_*; *result is zeroed and then owned by the caller. An unknown kind is None. */
  int32_t (*get_attr)(void *context, int32_t device_id, int32_t attr, BpValue *result);

  /* (optional: nothing) Makes the device current for the calling thread, for vendor APIs that have
   * such a notion. The host calls it when the thread chooses another device (index 0 is current in
   * one that chose none); slots that get a device_id do not rely on it. */
  int32_t (*set_device)(void *context, int32_t device_id);

  /* Allocates memory; `allocation` is borrowed for the call. Exhaustion raises BP_ERROR_MEMORY and
   * the device stays usable. */
  int32_t (*alloc_data_space)(void *context, int32_t device_id, const BpAllocation *allocation,
                              void **handle);

  /* Frees what alloc_data_space gave. Work queued before that uses it still completes. */
  int32_t (*free_data_space)(void *context, int32_t device_id, void *handle);

  /* (optional: the host pools data space) Short-lived memory, freed in any order by the thread
   * that asked for it. */
  int32_t (*alloc_workspace)(void *context, int32_t device_id, uint64_t size, BpDataType dtype_hint,
                             void **handle);
  int32_t (*free_workspace)(void *context, int32_t device_id, void *handle);

  /* Queues a copy on `stream`, or waits for the stream and copies at once. The stream is one of the
   * device if the other end is the host, and of the source if both ends are devices of this kind:
   * what is queued on the destination's streams is not ordered with the copy. Host to device: the
   * source has been consumed on return. Device to host: the destination must stay valid until the
   * stream is synchronised. Any offset and any size is valid; a device whose memory is moved in
   * larger units reads, changes and writes the units at both ends. */
  int32_t (*copy)(void *context, const BpCopy *copy, void *stream);

  /* (optional, the three together: the device has one queue, its default stream) */
  int32_t (*create_stream)(void *context, int32_t device_id, void **stream);
  /* What is queued on the stream still completes. */
  int32_t (*free_stream)(void *context, int32_t device_id, void *stream);
  /* Makes work queued on `to` later wait for what is queued on `from` now. */
  int32_t (*sync_stream_from_to)(void *context, int32_t device_id, void *from, void *to);

  /* Waits until all that is queued is done; raises a failure of that work, once. */
  int32_t (*stream_sync)(void *context, int32_t device_id, void *stream);

  /* (optional: none) Further properties, for `backplane inspect`, name by name: calls `visit` with
   * `visitor`, a static name and a borrowed value for each, until it returns non-zero. */
  int32_t (*visit_properties)(void *context, int32_t device_id,
                              int32_t (*visit)(void *visitor, const char *name,
                                               const BpValue *value),
                              void *visitor);

  /* (optional: none) The table of an extension, for ever valid, by its name and version
   * (device_extensions.h); NULL, with no error raised, if the devices of this kind have none. */
  const void *(*get_extension)(void *context, const char *name, uint32_t version);
} BpDeviceApi;

#ifdef __cplusplus
}
#endif

#endif
