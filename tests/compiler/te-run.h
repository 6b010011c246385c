/* SPDX-License-Identifier: Apache-2.0 */
/* Running lowered functions on the reference interpreter, for the tests of schedules. */
#ifndef BACKPLANE_TESTS_TE_RUN_H
#define BACKPLANE_TESTS_TE_RUN_H

#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/compiler/te.h>
#include <backplane/error.h>
#include <backplane/object.h>

static const BpDataType te_f32 = {BP_DTYPE_FLOAT, 32, 1};
static const BpDataType te_i64 = {BP_DTYPE_INT, 64, 1};

/* A tensor's data on the host. Memory beyond the data is poisoned, so that tools detect accesses
 * out of bounds. */
typedef struct TeArray {
  BpTensorView view;
  int64_t shape[BP_TE_MAX_NDIM];
  int64_t size; /* elements */
} TeArray;

static inline TeArray *te_array_new(BpTeTensor *tensor) {
  TeArray *array = g_new0(TeArray, 1);
  array->size = 1;
  for (int32_t i = 0; i < bp_te_tensor_ndim(tensor); i++)
    array->size *= array->shape[i] = bp_te_tensor_shape(tensor)[i];
  BpDataType dtype = bp_te_tensor_dtype(tensor);
  array->view.ndim = bp_te_tensor_ndim(tensor);
  array->view.dtype = dtype;
  array->view.shape = array->shape;
  array->view.device = (BpDevice){BP_DEVICE_CPU, 0};
  array->view.data = g_malloc0((gsize)array->size * bp_dtype_bytes(dtype) + 1);
  return array;
}

static inline void te_array_free(TeArray *array) {
  g_free(array->view.data);
  g_free(array);
}

static inline float *te_floats(TeArray *array) {
  return array->view.data;
}

/* Returns the bits of one element. */
static inline uint64_t te_bits(const TeArray *array, int64_t i) {
  size_t size = bp_dtype_bytes(array->view.dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)array->view.data + (size_t)i * size, size);
  return bits;
}

/* Returns a small integer as a number of the type, as bits. */
static inline uint64_t te_bits_of(BpDataType dtype, int value) {
  union {
    float f;
    double d;
    uint32_t u32;
    uint64_t u64;
  } number = {.u64 = 0};
  if (dtype.code != BP_DTYPE_FLOAT && dtype.code != BP_DTYPE_BFLOAT)
    return dtype.code == BP_DTYPE_INT ? (uint64_t)(int64_t)value : (uint64_t)(value & 1);
  if (dtype.bits == 64) {
    number.d = value;
    return number.u64;
  }
  number.f = (float)value;
  if (dtype.bits == 32)
    return number.u32;
  if (dtype.code == BP_DTYPE_BFLOAT)
    return number.u32 >> 16;
  uint32_t rest = number.u32 & 0x7fffffff;
  return (number.u32 >> 16 & 0x8000) | (rest ? (rest >> 13) - 0x1c000 : 0);
}

/* Fills a tensor with small integers, so that sums are exact in any order. */
static inline void te_fill(TeArray *array, GRand *random) {
  size_t size = bp_dtype_bytes(array->view.dtype);
  for (int64_t i = 0; i < array->size; i++) {
    uint64_t bits = te_bits_of(array->view.dtype, g_rand_int_range(random, -4, 5));
    memcpy((char *)array->view.data + (size_t)i * size, &bits, size);
  }
}

/* Checks function "f" of a module and runs it; `extents` are the open extents. */
static inline void te_run_open(BpIrModule *module, TeArray *const *arrays, int32_t count,
                               const int64_t *extents, int32_t num_extents) {
  BpValue values[48];
  if (bp_ir_verify(module) != 0)
    g_error("not well-formed: %s\n%s", bp_error_message(), bp_ir_print(module));
  for (int32_t i = 0; i < count; i++)
    values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &arrays[i]->view};
  for (int32_t i = 0; i < num_extents; i++)
    values[count + i] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = extents[i]};
  if (bp_ir_interpret(module, "f", values, count + num_extents) != 0)
    g_error("running failed: %s\n%s", bp_error_message(), bp_ir_print(module));
}

static inline void te_run_module(BpIrModule *module, TeArray *const *arrays, int32_t count) {
  te_run_open(module, arrays, count, NULL, 0);
}

/* Lowers to function "f" of a new module, checks the function and runs it. */
static inline void te_run(BpTe *te, BpTeTensor *const *args, TeArray *const *arrays,
                          int32_t count) {
  BpIrModule *module = bp_ir_module_create();
  g_assert_nonnull(module);
  if (bp_te_lower(te, "f", args, count, NULL, module) != 0)
    g_error("lowering failed: %s", bp_error_message());
  te_run_module(module, arrays, count);
  bp_object_release(module);
}

/* ---- Short forms for writing bodies ------------------------------------------------------ */

static inline const BpIrNode *te_op(BpTe *te, int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(bp_te_ir(te), kind, a, b);
}
static inline const BpIrNode *te_int(BpTe *te, int64_t value) {
  return bp_ir_int(bp_te_ir(te), te_i64, value);
}
static inline const BpIrNode *te_float(BpTe *te, double value) {
  return bp_ir_float(bp_te_ir(te), te_f32, value);
}
static inline const BpIrNode *te_read1(BpTe *te, BpTeTensor *t, const BpIrNode *i) {
  return bp_te_read(te, t, &i);
}
static inline const BpIrNode *te_read2(BpTe *te, BpTeTensor *t, const BpIrNode *i,
                                       const BpIrNode *j) {
  return bp_te_read(te, t, (const BpIrNode *[]){i, j});
}

#endif
