/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds: what a plugin says of the code it can generate.
 *
 * A target kind has a name, a device type and typed attributes with defaults; a target is a kind
 * with values for them, written as `cuda -arch=sm_90` or `{"kind":"cuda","arch":"sm_90"}`. A
 * plugin registers its kinds with BpTargetTable::register_kind when it initialises, and for each
 * the global function `target.build.KIND`: it takes an IR module (BP_TYPE_IR_MODULE) and a target
 * (BP_TYPE_TARGET), both borrowed, and returns a module. It never asks a device anything. */
#ifndef BACKPLANE_TARGET_API_H
#define BACKPLANE_TARGET_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A target: an immutable, reference-counted object of type BP_TYPE_TARGET. */
typedef struct BpTarget BpTarget;

/* One attribute of a kind, a row of BpTargetKind::attrs. */
typedef struct BpTargetAttr {
  const char *name;          /* "max_num_threads" */
  int32_t type;              /* BP_TYPE_INT, BP_TYPE_BOOL, BP_TYPE_FLOAT or BP_TYPE_STR */
  int32_t reserved;          /* zero */
  const char *default_value; /* as text, or NULL: unset */
  const char *description;   /* one line, for `backplane targets` */
} BpTargetAttr;

/* Attributes that the host's compiler reads when a kind has them; they steer schedules and
 * legalisation, whatever the kind is called. A kind that lacks one has the value in brackets. The
 * host refuses numbers that are not what is said here. */
/* int: width of a vector register, a power of two from 32 to 65536, or 0 [0: scalar] */
#define BP_TARGET_VECTOR_BITS      "vector_bits"
#define BP_TARGET_VECTOR_REGISTERS "vector_registers" /* int: how many of them, 1 to 1024 [16] */
#define BP_TARGET_INDEX_BITS       "index_bits" /* int: 32: indices that fit are int32; or 64 [64] */
/* bool: functions may have 64-bit integers [true]. Without, indices are int32, and a function whose
 * values are 64-bit integers, or whose indices may be beyond int32, is refused before the generator
 * sees it: what it meets of int64 are numbers in attributes, extents of buffers and shuffles. */
#define BP_TARGET_SUPPORTS_INT64 "supports_int64"
/* int: cores that share memory, 1 to 65536; code runs on any number, but work is cut into shares
 * for at most so many [1 with thread_axes, else 64] */
#define BP_TARGET_NUM_CORES "num_cores"
#define BP_TARGET_L1_BYTES  "l1_bytes" /* int: data cache of a core, 1024 to 2^40 [32768] */
#define BP_TARGET_L2_BYTES  "l2_bytes" /* int, 1024 to 2^40 [1048576] */
#define BP_TARGET_WINOGRAD  "winograd" /* bool: convolutions by transforms [false] */
/* bool: functions are kernels, launched over blockIdx and threadIdx [false]. Without it a function
 * is called with its arguments alone and has loops, no launch, no barrier and no shared memory. If
 * the target's device is not the CPU, such a function is one step of the work, as a kernel is: its
 * buffers are the device's, it allocates local memory alone, and calls intrinsics alone. */
#define BP_TARGET_THREAD_AXES "thread_axes"
/* int: threads in a block, 1 to 2^31-1 [1]. No launch has more; 1 is a device without threads whose
 * blocks are its grid. */
#define BP_TARGET_MAX_NUM_THREADS   "max_num_threads"
#define BP_TARGET_THREAD_WARP_SIZE  "thread_warp_size" /* int: a power of two from 1 to 1024 [1] */
#define BP_TARGET_MAX_SHARED_MEMORY "max_shared_memory_per_block" /* int, bytes, 0 to 2^40 [0] */
/* int: bytes of a tensor that a kernel takes, 1024 to 2^40 [134217728] */
#define BP_TARGET_MAX_BUFFER_BYTES "max_buffer_bytes"
/* bool: a core runs one warp after the other, as drivers for CPUs do [false]: more of them hide no
 * latency, and memory that they share is no faster */
#define BP_TARGET_SERIAL_WARPS "serial_warps"
#define BP_TARGET_MAX_BUFFERS  "max_buffers" /* int: tensors that a kernel takes, 4 to 64 [64] */
/* int: iterations of all loops of a thread together, after which the driver ends them without an
 * error, 1 to 2^40, or 0: any number; what has more is refused [0] */
#define BP_TARGET_MAX_ITERATIONS "max_iterations"

/* A target kind, as a plugin registers it with BpTargetTable::register_kind. */
typedef struct BpTargetKind {
  uint64_t struct_size;
  const char *name; /* "c", "llvm", "opencl": static */
  int32_t device_type;
  int32_t ir_level;          /* the newest BP_IR_LEVEL whose constructs the generator accepts */
  const BpTargetAttr *attrs; /* read with bp_target_kind_attr: rows may be longer, or shorter */
  uint64_t attr_size;        /* sizeof(BpTargetAttr) of the plugin's headers */
  int32_t num_attrs;
  int32_t reserved; /* zero */
  const char *description;
  void *context; /* the plugin's, passed to `complete`; may be NULL; valid for ever */

  /* (optional: nothing) Checks and completes a target after its text was parsed: reads attributes
   * with BpTargetTable::get_attr and sets dependent ones with set_attr. Called by any thread. */
  int32_t (*complete)(void *context, BpTarget *target);
} BpTargetKind;

/* Attribute `index` of a kind. Members beyond kind->attr_size are not there. */
static inline const BpTargetAttr *bp_target_kind_attr(const BpTargetKind *kind, int32_t index) {
  return (const BpTargetAttr *)((const char *)kind->attrs + kind->attr_size * (uint64_t)index);
}

#ifdef __cplusplus
}
#endif

#endif
