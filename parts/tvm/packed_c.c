/* SPDX-License-Identifier: Apache-2.0 */
/* Converts calls in both directions between Backplane's calling convention and that of TVM up to
 * 0.19. */

#include "parts/tvm/packed_c.h"

#include "core/module/library.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>
#include <stdlib.h>
#include <string.h>

/* TVMValue and its type codes. */
typedef union PackedValue {
  int64_t v_int64;
  double v_float64;
  void *v_handle;
  const char *v_str;
  BpDataType v_dtype;
  BpDevice v_device;
} PackedValue;

enum {
  CODE_INT = 0,
  CODE_UINT = 1,
  CODE_FLOAT = 2,
  CODE_HANDLE = 3,
  CODE_NULL = 4,
  CODE_DTYPE = 5,
  CODE_DEVICE = 6,
  CODE_TENSOR = 7,
  CODE_FUNCTION = 10,
  CODE_STR = 11,
  CODE_BYTES = 12,
  CODE_NDARRAY = 13,
  CODE_BOOL = 15 /* TVM since 0.18; booleans of earlier versions are integers */
};

typedef int (*PackedCFunction)(PackedValue *args, int *codes, int num_args, PackedValue *result,
                               int *result_code, void *resource);

/* Compiled code loads whole vectors from the beginning of a tensor, which must be aligned. */
#define DATA_ALIGNMENT 64

/* The number of arguments that fit without allocation, in either form; most calls have fewer. */
#define FEW_ARGS 24

typedef struct PackedArgs {
  PackedValue *values;
  int *codes;
  BpTensorView *views; /* changed views of tensors, for the callee */
  PackedValue few_values[FEW_ARGS];
  int few_codes[FEW_ARGS];
  BpTensorView few_views[FEW_ARGS];
} PackedArgs;

static void free_args(PackedArgs *packed) {
  if (packed->values == packed->few_values)
    return;
  free(packed->values);
  free(packed->codes);
  free(packed->views);
}

static int allocate_args(PackedArgs *packed, int32_t count) {
  packed->values = packed->few_values;
  packed->codes = packed->few_codes;
  packed->views = packed->few_views;
  if (count <= FEW_ARGS)
    return 0;
  packed->values = malloc((size_t)count * sizeof *packed->values);
  packed->codes = malloc((size_t)count * sizeof *packed->codes);
  packed->views = malloc((size_t)count * sizeof *packed->views);
  if (packed->values && packed->codes && packed->views)
    return 0;
  free_args(packed);
  return bp_error_raise(BP_ERROR_MEMORY, "no memory for %d arguments", count);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

/* In the old convention a boolean is an unsigned integer of one bit; an element takes a byte in
 * both conventions. */
static const BpDataType bool_here = {BP_DTYPE_BOOL, 8, 1}, bool_there = {BP_DTYPE_UINT, 1, 1};

static int is_like(BpDataType dtype, BpDataType scalar) {
  return dtype.code == scalar.code && dtype.bits == scalar.bits;
}

static void set_type(BpTensorView *view, BpDataType scalar) {
  view->dtype.code = scalar.code;
  view->dtype.bits = scalar.bits;
}

/* Old code ignores offsets: if handles are addresses, the offset is added to the address. */
static int fold_offset(BpTensorView *view, int32_t index) {
  if (view->device.device_type != BP_DEVICE_CPU && view->device.device_type != BP_DEVICE_CUDA)
    return bp_error_raise(BP_ERROR_VALUE,
                          "argument %d: the tensor begins within its memory, which code of TVM "
                          "0.19 or older does not take on this device; copy it first",
                          index);
  view->data = (char *)view->data + view->byte_offset;
  view->byte_offset = 0;
  return 0;
}

/* Before 0.20 TVM stores sub-byte elements in whole bytes; Backplane packs them. */
static int refuse_subbyte(BpDataType dtype, int32_t index) {
  char text[32];
  bp_dtype_format(dtype, text, sizeof text);
  return bp_error_raise(BP_ERROR_TYPE,
                        "argument %d: a tensor of %s; code of TVM 0.19 or older takes elements of "
                        "whole bytes",
                        index, text);
}

/* Code generated as C checks no arguments, so the packed function checks every condition that would
 * make the code's result wrong or crash the code. */
static int pack_tensor(const BpTensorView *view, int32_t index, BpTensorView *changed,
                       PackedValue *value) {
  if (bp__library_check_machine(view, index))
    return -1;
  if (!bp_view_is_compact(view))
    return bp_error_raise(BP_ERROR_VALUE,
                          "argument %d: the tensor has strides, and is expected to be compact",
                          index);
  if (view->dtype.bits % 8)
    return refuse_subbyte(view->dtype, index);
  if (view->byte_offset || is_like(view->dtype, bool_here)) {
    *changed = *view;
    if (is_like(view->dtype, bool_here))
      set_type(changed, bool_there);
    if (view->byte_offset && fold_offset(changed, index))
      return -1;
    view = changed;
  }
  if (view->device.device_type == BP_DEVICE_CPU && (uintptr_t)view->data % DATA_ALIGNMENT)
    return bp_error_raise(BP_ERROR_VALUE,
                          "argument %d: the data of the tensor is not aligned to %d bytes, as code "
                          "of TVM 0.19 or older needs it; copy it to a tensor that is",
                          index, DATA_ALIGNMENT);
  value->v_handle = (void *)(uintptr_t)view;
  return 0;
}

/* ---- Conversion to the old convention ---------------------------------------------------- */

/* Returns the old code of a value whose bits stay the same; -1: another type. */
static int plain_code(int32_t type_index) {
  switch (type_index) {
  case BP_TYPE_NONE:
    return CODE_NULL;
  case BP_TYPE_INT:
  case BP_TYPE_BOOL:
    return CODE_INT;
  case BP_TYPE_FLOAT:
    return CODE_FLOAT;
  case BP_TYPE_POINTER:
    return CODE_HANDLE;
  case BP_TYPE_DTYPE:
    return CODE_DTYPE;
  case BP_TYPE_DEVICE:
    return CODE_DEVICE;
  case BP_TYPE_RAW_STR:
    return CODE_STR;
  case BP_TYPE_BYTE_ARRAY:
    return CODE_BYTES;
  case BP_TYPE_FUNCTION:
    return CODE_FUNCTION;
  default:
    return -1;
  }
}

static int pack_arg(PackedArgs *packed, int32_t index, const BpValue *arg) {
  PackedValue *value = &packed->values[index];
  int *code = &packed->codes[index];
  *code = plain_code(arg->type_index);
  if (*code >= 0) {
    value->v_int64 = arg->v_int64;
    return 0;
  }
  switch (arg->type_index) {
  case BP_TYPE_TENSOR_VIEW:
    *code = CODE_TENSOR;
    return pack_tensor(arg->v_view, index, &packed->views[index], value);
  case BP_TYPE_TENSOR:
    *code = CODE_TENSOR;
    return pack_tensor(&((const BpTensor *)arg->v_obj)->view, index, &packed->views[index], value);
  case BP_TYPE_SMALL_STR: /* a string of at most 7 bytes, with a NUL at its end */
    *code = CODE_STR;
    value->v_str = arg->v_bytes;
    return 0;
  case BP_TYPE_STR:
    *code = CODE_STR;
    value->v_str = ((const BpStr *)arg->v_obj)->data;
    return 0;
  default:
    return bp_error_raise(BP_ERROR_TYPE,
                          "argument %d: a value of type %s cannot be passed to code of TVM 0.19 "
                          "or older",
                          index, bp_type_name(arg->type_index));
  }
}

/* Returns the type of an old code whose value keeps its bits; -1: another code. */
static int32_t plain_type(int code) {
  switch (code) {
  case CODE_INT:
  case CODE_UINT:
    return BP_TYPE_INT;
  case CODE_BOOL:
    return BP_TYPE_BOOL;
  case CODE_FLOAT:
    return BP_TYPE_FLOAT;
  case CODE_HANDLE:
    return BP_TYPE_POINTER;
  case CODE_NULL:
    return BP_TYPE_NONE;
  case CODE_DTYPE:
    return BP_TYPE_DTYPE;
  case CODE_DEVICE:
    return BP_TYPE_DEVICE;
  default:
    return -1;
  }
}

static int take_result(PackedValue value, int code, BpValue *result) {
  int32_t type = plain_type(code);
  if (type < 0)
    return bp_error_raise(BP_ERROR_TYPE,
                          "a function compiled by TVM 0.19 or older returned a value of its type "
                          "code %d, which this version does not translate",
                          code);
  *result = (BpValue){.type_index = type};
  if (code != CODE_NULL)
    result->v_int64 = value.v_int64;
  return 0;
}

static int call_symbol(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  PackedCFunction function = (PackedCFunction)((BpClosure *)self)->context;
  PackedArgs packed;
  if (allocate_args(&packed, num_args))
    return -1;
  int rc = 0;
  for (int32_t i = 0; i < num_args && !rc; ++i)
    rc = pack_arg(&packed, i, &args[i]);
  if (!rc) {
    PackedValue value = {0};
    int code = CODE_NULL;
    bp_error_clear(); /* otherwise a failure without an error would report an earlier error */
    rc = function(packed.values, packed.codes, num_args, &value, &code, NULL);
    if (!rc)
      rc = take_result(value, code, result);
    else if (!*bp_error_kind())
      bp_error_raise(BP_ERROR_RUNTIME,
                     "a function compiled by TVM 0.19 or older failed with status %d, without a "
                     "message",
                     rc);
  }
  free_args(&packed);
  return rc ? -1 : 0;
}

BpFunction *bp__packed_c_function_create(BpModule *module, void *symbol) {
  return bp_module_function_create(module, call_symbol, symbol, NULL);
}

/* ---- Conversion from the old convention -------------------------------------------------- */

static int unpack_arg(PackedValue value, int code, int index, BpTensorView *changed, BpValue *arg) {
  int32_t type = plain_type(code);
  *arg = (BpValue){.type_index = type, .v_int64 = value.v_int64};
  switch (code) {
  case CODE_NULL:
    arg->v_int64 = 0;
    return 0;
  case CODE_TENSOR:
  case CODE_NDARRAY: /* the object begins with the view */
    arg->type_index = BP_TYPE_TENSOR_VIEW;
    if (is_like(arg->v_view->dtype, bool_there)) {
      *changed = *arg->v_view;
      set_type(changed, bool_here);
      arg->v_view = changed;
    }
    return 0;
  case CODE_FUNCTION:
    arg->type_index = BP_TYPE_FUNCTION;
    return 0;
  case CODE_STR:
    arg->type_index = BP_TYPE_RAW_STR;
    return 0;
  case CODE_BYTES:
    arg->type_index = BP_TYPE_BYTE_ARRAY;
    return 0;
  default:
    return type >= 0 ? 0
                     : bp_error_raise(BP_ERROR_TYPE,
                                      "argument %d: code of TVM 0.19 or older passes a value of "
                                      "its type code %d, which this version does not translate",
                                      index, code);
  }
}

static int give_result(BpValue *result, PackedValue *value, int *code) {
  *code = plain_code(result->type_index);
  if (*code >= 0 && *code < CODE_FUNCTION) {
    value->v_int64 = result->v_int64;
    return 0;
  }
  *code = CODE_NULL;
  bp_error_raise(BP_ERROR_TYPE, "code of TVM 0.19 or older cannot take a result of type %s",
                 bp_type_name(result->type_index));
  bp_value_clear(result);
  return -1;
}

static int call_unpacked(BpFunction *function, const PackedValue *values, const int *codes,
                         int num_args, BpValue *args, BpTensorView *views, BpValue *result) {
  for (int i = 0; i < num_args; ++i)
    if (unpack_arg(values[i], codes[i], i, &views[i], &args[i]))
      return -1;
  return bp_function_call(function, args, num_args, result);
}

/* TVMFuncCall */
static int func_call(void *function, PackedValue *values, int *codes, int num_args,
                     PackedValue *value, int *code) {
  BpValue few_args[FEW_ARGS], *args = few_args, result = {.type_index = BP_TYPE_NONE};
  BpTensorView few_views[FEW_ARGS], *views = few_views;
  if (num_args > FEW_ARGS) {
    args = malloc((size_t)num_args * sizeof *args);
    views = malloc((size_t)num_args * sizeof *views);
  }
  int rc = args && views ? call_unpacked(function, values, codes, num_args, args, views, &result)
                         : bp_error_raise(BP_ERROR_MEMORY, "no memory for %d arguments", num_args);
  if (!rc)
    rc = give_result(&result, value, code);
  if (num_args > FEW_ARGS) {
    free(args);
    free(views);
  }
  return rc;
}

/* TVMAPISetLastError */
static void set_last_error(const char *message) {
  bp_error_raise(BP_ERROR_RUNTIME, "%s", message ? message : "");
}

/* ---- Half precision ---------------------------------------------------------------------- */

/* Functions that code compiled by LLVM calls by name, in libraries of any version. */

static float gnu_h2f_ieee(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
           mantissa = half & 0x3ff, bits;
  float number;
  if (!exponent) {
    number = (float)mantissa * 0x1p-24f;
    memcpy(&bits, &number, sizeof bits);
  } else {
    bits = (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
  }
  bits |= sign;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static uint16_t gnu_f2h_ieee(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) /* not a number */
    return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000) /* 65520, halfway beyond the largest value */
    return (uint16_t)(sign | 0x7c00);
  if (bits >= 0x38800000) /* rounds to nearest, ties to even */
    return (uint16_t)(sign | (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13);
  /* Below the smallest normal value: adding rounds to a multiple of the smallest subnormal value,
   * 2^-24. */
  memcpy(&number, &bits, sizeof number);
  number += 0.5f;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(sign | (bits - 0x3f000000));
}

int bp__packed_c_add_slots(void) {
  static const struct {
    const char *name;
    void (*function)(void);
  } slots[] = {
      {"__TVMFuncCall", (void (*)(void))func_call},
      {"__TVMAPISetLastError", (void (*)(void))set_last_error},
      {"__TVMBackendGetFuncFromEnv", (void (*)(void))bp__library_look_up},
      {"__gnu_h2f_ieee", (void (*)(void))gnu_h2f_ieee},
      {"__gnu_f2h_ieee", (void (*)(void))gnu_f2h_ieee},
  };
  for (size_t i = 0; i < sizeof slots / sizeof *slots; ++i)
    if (bp__library_add_slot(slots[i].name, slots[i].function))
      return -1;
  return 0;
}
