/* SPDX-License-Identifier: Apache-2.0 */
/* Values and objects: the arguments and results of packed functions.
 *
 * The layouts are those of the tvm-ffi C ABI 0.x (Apache TVM FFI, `tvm/ffi/c_api.h`) on 64-bit
 * little-endian machines: a value passes between tvm-ffi and Backplane unchanged. Data types,
 * devices and tensor views are those of DLPack 1.x. If tvm-ffi changes a layout, these headers keep
 * theirs. The names and the comments are Backplane's.
 *
 * Ownership in the whole ABI: an argument is borrowed for the call. The caller owns a result, and
 * releases the object in the result, if there is one.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_VALUE_H
#define BACKPLANE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX != 0xffffffffffffffffu || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Backplane's layouts are those of 64-bit little-endian machines; this one is another"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data types (DLDataType) ------------------------------------------------------------- */

/* Type codes of an element: DLPack's DLDataTypeCode. */
#define BP_DTYPE_INT     0
#define BP_DTYPE_UINT    1
#define BP_DTYPE_FLOAT   2
#define BP_DTYPE_HANDLE  3
#define BP_DTYPE_BFLOAT  4
#define BP_DTYPE_COMPLEX 5
#define BP_DTYPE_BOOL    6 /* bool of 8 bits */
/* Floats of 8, 6 and 4 bits, named by their bits of exponent and mantissa. */
#define BP_DTYPE_FLOAT8_E3M4        7
#define BP_DTYPE_FLOAT8_E4M3        8
#define BP_DTYPE_FLOAT8_E4M3B11FNUZ 9
#define BP_DTYPE_FLOAT8_E4M3FN      10
#define BP_DTYPE_FLOAT8_E4M3FNUZ    11
#define BP_DTYPE_FLOAT8_E5M2        12
#define BP_DTYPE_FLOAT8_E5M2FNUZ    13
#define BP_DTYPE_FLOAT8_E8M0FNU     14
#define BP_DTYPE_FLOAT6_E2M3FN      15
#define BP_DTYPE_FLOAT6_E3M2FN      16
#define BP_DTYPE_FLOAT4_E2M1FN      17

/* The type of one element: `lanes` values of `bits` bits each. 4 bytes. */
typedef struct BpDataType {
  uint8_t code;   /* BP_DTYPE_* */
  uint8_t bits;   /* width of one lane */
  uint16_t lanes; /* 1 for a scalar */
} BpDataType;

/* Computes the bytes of `count` consecutive elements. Elements are packed, as in DLPack 1.1:
 * element i begins at bit i * bits * lanes, counted from the lowest bit of the first byte, and the
 * last byte is padded. Returns 0; -1 if *bytes would exceed UINT64_MAX. Any thread. */
static inline int bp_dtype_array_bytes(BpDataType dtype, uint64_t count, uint64_t *bytes) {
  uint64_t bits = (uint64_t)dtype.bits * dtype.lanes, rest = (count % 8 * bits + 7) / 8;
  if (bits && count / 8 > (UINT64_MAX - rest) / bits)
    return -1;
  *bytes = count / 8 * bits + rest;
  return 0;
}

/* ---- Devices (DLDevice) ------------------------------------------------------------------ */

/* Device types are DLPack's numbers. Numbers from BP_DEVICE_VENDOR_FIRST on are assigned to vendors
 * permanently, in sdk/device-types.txt; the range BP_DEVICE_PRIVATE_FIRST to BP_DEVICE_PRIVATE_LAST
 * is for experiments and never appears in a published artifact. */
#define BP_DEVICE_CPU           1
#define BP_DEVICE_CUDA          2
#define BP_DEVICE_CUDA_HOST     3
#define BP_DEVICE_OPENCL        4
#define BP_DEVICE_VULKAN        7
#define BP_DEVICE_METAL         8
#define BP_DEVICE_ROCM          10
#define BP_DEVICE_EXT           12
#define BP_DEVICE_HEXAGON       16
#define BP_DEVICE_VENDOR_FIRST  4096
#define BP_DEVICE_PRIVATE_FIRST 61440
#define BP_DEVICE_PRIVATE_LAST  65535

/* One device: its type and its index among the devices of that type. 8 bytes. */
typedef struct BpDevice {
  int32_t device_type; /* BP_DEVICE_* */
  int32_t device_id;   /* index from 0 */
} BpDevice;

/* ---- Tensor views (DLTensor) ------------------------------------------------------------- */

/* A view of an n-dimensional array, 48 bytes. A view owns nothing. `data` is a handle of the
 * device: an address on the CPU and CUDA, opaque elsewhere. The first element is `byte_offset`
 * bytes after `data`. Shape and strides count elements; `strides` NULL means compact and row-major.
 * A view without elements has a valid handle or NULL, which is never read. */
typedef struct BpTensorView {
  void *data;
  BpDevice device;
  int32_t ndim;
  BpDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} BpTensorView;

/* ---- Values (TVMFFIAny) ------------------------------------------------------------------ */

/* Types of a BpValue. Values of a type below BP_TYPE_OBJECT are stored in the BpValue itself. */
#define BP_TYPE_NONE        0
#define BP_TYPE_INT         1  /* v_int64 */
#define BP_TYPE_BOOL        2  /* v_int64, 0 or 1 */
#define BP_TYPE_FLOAT       3  /* v_float64 */
#define BP_TYPE_POINTER     4  /* v_ptr, opaque */
#define BP_TYPE_DTYPE       5  /* v_dtype */
#define BP_TYPE_DEVICE      6  /* v_device */
#define BP_TYPE_TENSOR_VIEW 7  /* v_view, borrowed */
#define BP_TYPE_RAW_STR     8  /* v_cstr, borrowed, NUL-terminated */
#define BP_TYPE_BYTE_ARRAY  9  /* v_ptr to a BpByteArray, borrowed */
#define BP_TYPE_RVALUE      10 /* v_ptr to an object handle that the callee may take */
#define BP_TYPE_SMALL_STR   11 /* v_bytes, small_len bytes */
#define BP_TYPE_SMALL_BYTES 12 /* v_bytes, small_len bytes */
#define BP_TYPE_OBJECT      64 /* types from this one on: v_obj */
#define BP_TYPE_STR         65
#define BP_TYPE_BYTES       66
#define BP_TYPE_ERROR       67
#define BP_TYPE_FUNCTION    68
#define BP_TYPE_SHAPE       69
#define BP_TYPE_TENSOR      70
#define BP_TYPE_ARRAY       71
/* Backplane's own types, far from the numbers that tvm-ffi allocates at run time. Objects of these
 * types never reach tvm-ffi's code. */
#define BP_TYPE_MODULE    0x42500001
#define BP_TYPE_TARGET    0x42500002
#define BP_TYPE_IR_MODULE 0x42500003

/* The longest string that a value holds without an object. */
#define BP_SMALL_STR_MAX 7

struct BpObject;

/* A dynamically typed value, 16 bytes. Bytes that the type does not use are zero. */
typedef struct BpValue {
  int32_t type_index; /* BP_TYPE_* */
  union {
    uint32_t zero_padding;
    uint32_t small_len; /* length of a small string: 0..7 */
  };
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    const char *v_cstr;
    BpDataType v_dtype;
    BpDevice v_device;
    BpTensorView *v_view;
    struct BpObject *v_obj;
    char v_bytes[8];
  };
} BpValue;

/* Bytes, without a NUL at their end unless a comment says so (TVMFFIByteArray). */
typedef struct BpByteArray {
  const char *data;
  size_t size;
} BpByteArray;

/* ---- Objects (TVMFFIObject) -------------------------------------------------------------- */

#define BP_DELETER_STRONG 1 /* the last strong reference was dropped: destroy the contents */
#define BP_DELETER_WEAK   2 /* the last weak reference was dropped: free the memory */

/* Header of every reference-counted object, 24 bytes. The strong count is the low half of
 * `combined_count`, the weak count the high half; all strong references together hold one weak
 * one. Counts are changed atomically. `deleter` gets BP_DELETER_* flags, both in the common case.
 */
typedef struct BpObject {
  uint64_t combined_count;
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
} BpObject;

/* An immutable string or byte string. `data` of a string is NUL-terminated. */
typedef struct BpStr {
  BpObject header;
  const char *data;
  size_t size; /* without the NUL */
} BpStr;
typedef BpStr BpBytes;

/* An immutable list of extents. */
typedef struct BpShape {
  BpObject header;
  const int64_t *data;
  size_t size;
} BpShape;

/* A list, which owns its values (TVMFFISeqCell). A model with several outputs returns a list. */
typedef struct BpArray {
  BpObject header;
  BpValue *data;
  int64_t size;
  int64_t capacity;
  void (*free_data)(void *data); /* destroys `data`, or NULL: `data` is part of the object */
} BpArray;

/* A tensor that owns its memory. */
typedef struct BpTensor {
  BpObject header;
  BpTensorView view;
} BpTensor;

/* The calling convention of every packed function (TVMFFISafeCallType).
 * self: the function object; NULL is possible for a symbol that a library exports, which ignores
 * `self`. args: borrowed for the call. result: zeroed by the caller, which owns the object in it
 * after success. Any thread, unless the function's own comment says otherwise. Returns 0, or -1
 * with an error raised in this thread. */
typedef int (*BpPackedCall)(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* A function object. `cpp_call` is tvm-ffi's second pointer, NULL in Backplane. */
typedef struct BpFunction {
  BpObject header;
  BpPackedCall call;
  void *cpp_call;
} BpFunction;

/* An error object. Only the members that are declared here are stable. */
typedef struct BpError {
  BpObject header;
  BpByteArray kind;
  BpByteArray message;
  BpByteArray backtrace;
  void (*update_backtrace)(BpObject *self, const BpByteArray *backtrace, int32_t update_mode);
} BpError;

#ifdef __cplusplus
}
#endif

#endif
