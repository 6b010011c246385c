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

/* A tensor's data on the host. Memory beyond it is poisoned, so that tools see what strays. */
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

/* Small integers as floats, so that sums are exact in any order. */
static inline void te_fill(TeArray *array, GRand *random) {
  BpDataType dtype = array->view.dtype;
  for (int64_t i = 0; i < array->size; i++) {
    int value = g_rand_int_range(random, -4, 5);
    if (dtype.code == BP_DTYPE_FLOAT && dtype.bits == 32)
      ((float *)array->view.data)[i] = (float)value;
    else if (dtype.code == BP_DTYPE_FLOAT && dtype.bits == 64)
      ((double *)array->view.data)[i] = value;
    else if (dtype.bits == 64)
      ((int64_t *)array->view.data)[i] = value;
    else if (dtype.bits == 32)
      ((int32_t *)array->view.data)[i] = value;
    else if (dtype.bits == 8)
      ((int8_t *)array->view.data)[i] = (int8_t)(dtype.code == BP_DTYPE_INT ? value : value & 1);
    else
      g_assert_not_reached();
  }
}

/* Lowers to function "f" of a new module, checks it and runs it. */
static inline void te_run(BpTe *te, BpTeTensor *const *args, TeArray *const *arrays,
                          int32_t count) {
  BpIrModule *module = bp_ir_module_create();
  BpValue values[16];
  g_assert_nonnull(module);
  if (bp_te_lower(te, "f", args, count, NULL, module) != 0)
    g_error("lowering failed: %s", bp_error_message());
  if (bp_ir_verify(module) != 0)
    g_error("not well-formed: %s\n%s", bp_error_message(), bp_ir_print(module));
  for (int32_t i = 0; i < count; i++)
    values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &arrays[i]->view};
  if (bp_ir_interpret(module, "f", values, count) != 0)
    g_error("running failed: %s\n%s", bp_error_message(), bp_ir_print(module));
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
