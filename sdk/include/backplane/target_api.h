/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds: the code that a plugin can generate.
 *
 * A target kind has a name, a device type and typed attributes with defaults. A target is a kind
 * with values for its attributes, written as `cuda -arch=sm_90` or
 * `{"kind":"cuda","arch":"sm_90"}`.
 *
 * A plugin registers its kinds with BpTargetTable::register_kind when it initialises, and for each
 * kind the global function `target.build.KIND`. The function takes an IR module (BP_TYPE_IR_MODULE)
 * and a target (BP_TYPE_TARGET), both borrowed, and returns a module. Any thread may call the
 * function, also several at once. The function queries no device: the target has all properties
 * that it needs. If it cannot generate a function, it fails with BP_ERROR_NOT_IMPLEMENTED; code of
 * another target may then be used instead. Any error except BP_ERROR_NOT_IMPLEMENTED ends the
 * compilation.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
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
  const char *default_value; /* default as text; NULL: unset */
  const char *description;   /* one line, for `backplane targets` */
} BpTargetAttr;

/* Attributes that the host's compiler reads. These attributes control schedules and legalisation
 * for every kind, whatever its name. The value in brackets applies to a kind that lacks the
 * attribute. The host refuses a number outside the range given here. */
/* int: width of a vector register, a power of two from 32 to 65536, or 0 [0: scalar] */
#define BP_TARGET_VECTOR_BITS      "vector_bits"
#define BP_TARGET_VECTOR_REGISTERS "vector_registers" /* int: vector registers, 1 to 1024 [16] */
#define BP_TARGET_INDEX_BITS       "index_bits"       /* int: 32 (indices that fit) or 64 [64] */
/* bool: functions may have 64-bit integers [true]. Without 64-bit integers indices are int32. A
 * function with values that are 64-bit integers, or with indices that may be beyond int32, is
 * refused before the generator sees it. The generator meets int64 in attributes, extents of buffers
 * and shuffles.
 */
#define BP_TARGET_SUPPORTS_INT64 "supports_int64"
/* int: cores that share memory, 1 to 65536. Code runs on any number of cores, but work is divided
 * into at most this number of tasks [1 with thread_axes, else 64] */
#define BP_TARGET_NUM_CORES "num_cores"
#define BP_TARGET_L1_BYTES  "l1_bytes" /* int: data cache bytes per core, 1024 to 2^40 [32768] */
#define BP_TARGET_L2_BYTES  "l2_bytes" /* int: bytes of cache, 1024 to 2^40 [1048576] */
#define BP_TARGET_WINOGRAD  "winograd" /* bool: convolutions use Winograd's algorithm [false] */
/* bool: functions are kernels, launched over blockIdx and threadIdx [false]. Without thread axes a
 * function is called with its arguments alone; it has loops, but no launch, barrier or shared
 * memory. On a device that is not the CPU such a function is one step of the work, like a kernel:
 * its buffers are in the device's memory, it allocates only local memory and calls only
 * intrinsics. */
#define BP_TARGET_THREAD_AXES "thread_axes"
/* int: threads in a block, 1 to 2^31-1 [1]. No launch has more threads in a block. 1 means a device
 * without threads: it runs blocks. */
#define BP_TARGET_MAX_NUM_THREADS   "max_num_threads"
#define BP_TARGET_THREAD_WARP_SIZE  "thread_warp_size" /* int: a power of two, 1 to 1024 [1] */
#define BP_TARGET_MAX_SHARED_MEMORY "max_shared_memory_per_block" /* int: bytes, 0 to 2^40 [0] */
/* int: bytes of a kernel's largest tensor argument, 1024 to 2^40 [134217728]. A hint for schedules:
 * a function with a larger tensor is not refused. */
#define BP_TARGET_MAX_BUFFER_BYTES "max_buffer_bytes"
/* bool: a core runs one warp after the other, as drivers for CPUs do [false]. If true, more warps
 * hide no latency, and shared memory is not faster. */
#define BP_TARGET_SERIAL_WARPS "serial_warps"
#define BP_TARGET_MAX_BUFFERS  "max_buffers" /* int: most tensors of a kernel, 4 to 64 [64] */
/* int: the number of iterations, over all loops of a thread, after which the driver ends the loops
 * without an error, 1 to 2^40. A function with more iterations is refused. 0: no limit [0] */
#define BP_TARGET_MAX_ITERATIONS "max_iterations"

/* A target kind; a plugin registers it with BpTargetTable::register_kind. */
typedef struct BpTargetKind {
  uint64_t struct_size;
  const char *name; /* "c", "llvm", "opencl": static */
  int32_t device_type;
  int32_t ir_level;          /* the newest BP_IR_LEVEL whose constructs the generator accepts */
  const BpTargetAttr *attrs; /* NULL: none. Read with bp_target_kind_attr: rows may have any size */
  uint64_t attr_size;        /* sizeof(BpTargetAttr) of the plugin's headers */
  int32_t num_attrs;
  int32_t reserved; /* zero */
  const char *description;
  void *context; /* passed to `complete`; may be NULL; the host never frees it */

  /* (optional: nothing) Checks and completes a target whose text was parsed. It reads attributes
   * with BpTargetTable::get_attr and sets dependent ones with set_attr.
   * target: borrowed for the call; no other code has access to it. Any thread, also several at
   * once.
   * Returns 0, or -1 with an error raised: then the text is rejected. */
  int32_t (*complete)(void *context, BpTarget *target);
} BpTargetKind;

/* Returns attribute `index` of a kind. Members beyond kind->attr_size do not exist. */
static inline const BpTargetAttr *bp_target_kind_attr(const BpTargetKind *kind, int32_t index) {
  return (const BpTargetAttr *)((const char *)kind->attrs + kind->attr_size * (uint64_t)index);
}

#ifdef __cplusplus
}
#endif

#endif
