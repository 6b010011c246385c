/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of tests of generated code: a module's functions run on the same random arguments in
 * the reference interpreter and as code built for a target, and the results must agree. */
#ifndef TESTS_COMPILER_CODEGEN_UTIL_H
#define TESTS_COMPILER_CODEGEN_UTIL_H

#include <backplane/device.h>
#include <backplane/module.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <math.h>

#include "tests/compiler/ir-util.h"

#define MAX_ARGS 10

/* The arguments of one call: tensors of constant shape, scalars of small value. */
typedef struct Args {
  int32_t count;
  BpValue values[MAX_ARGS];
  BpTensorView views[MAX_ARGS];
  int64_t shapes[MAX_ARGS][8];
  size_t bytes[MAX_ARGS];
  int64_t elements[MAX_ARGS];
} Args;

static inline uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 11;
}

static inline double random_number(uint64_t *state) {
  return (double)(next_random(state) % 16001) / 2000 - 4;
}

static inline uint16_t half_of(float value) {
  _Static_assert(sizeof(float) == 4, "float is binary32");
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (value == 0)
    return 0;
  return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                    (bits >> 13 & 0x3ff));
}

static inline float float_of_half(uint16_t half) {
  int exponent = half >> 10 & 31;
  float fraction = (float)(half & 0x3ff);
  float value = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                : exponent     ? ldexpf(fraction + 1024, exponent - 25)
                               : ldexpf(fraction, -24);
  return half & 0x8000 ? -value : value;
}

static inline float float_of_bfloat(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

/* Returns an integer at which operations have edge cases. */
static inline uint64_t odd_bits(BpDataType dtype, uint64_t choice) {
  uint64_t top = UINT64_C(1) << (dtype.bits - 1);
  const uint64_t odd[] = {0, 1, UINT64_MAX, top, top - 1, dtype.bits, dtype.bits - 1u};
  return odd[choice % G_N_ELEMENTS(odd)];
}

/* Fills one element with a value of its type; every 13th float and every fifth integer is an edge
 * case. */
static inline void fill_element(void *data, int64_t i, BpDataType dtype, uint64_t *state) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
  double number = random_number(state);
  uint64_t bits = next_random(state) << 13 ^ next_random(state);
  if (bits % 5 == 0)
    bits = odd_bits(dtype, next_random(state));
  if (next_random(state) % 13 == 0)
    number = odd[next_random(state) % G_N_ELEMENTS(odd)];
  float single = (float)number;
  uint32_t single_bits;
  memcpy(&single_bits, &single, 4);
  if (dtype.code == BP_DTYPE_BFLOAT)
    ((uint16_t *)data)[i] = (uint16_t)(single_bits >> 16);
  else if (dtype.code == BP_DTYPE_FLOAT && dtype.bits == 16)
    ((uint16_t *)data)[i] = isfinite(single) ? half_of(single) : isnan(single) ? 0x7e00 : 0x7c00;
  else if (dtype.code == BP_DTYPE_FLOAT && dtype.bits == 32)
    ((float *)data)[i] = single;
  else if (dtype.code == BP_DTYPE_FLOAT)
    ((double *)data)[i] = number;
  else if (dtype.code == BP_DTYPE_BOOL)
    ((uint8_t *)data)[i] = bits & 1;
  else
    memcpy((char *)data + i * (dtype.bits / 8), &bits, dtype.bits / 8);
}

static inline double read_element(const void *data, int64_t i, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BFLOAT)
    return float_of_bfloat(((const uint16_t *)data)[i]);
  if (dtype.bits == 16)
    return float_of_half(((const uint16_t *)data)[i]);
  return dtype.bits == 32 ? ((const float *)data)[i] : ((const double *)data)[i];
}

/* Makes arguments that fit the function; scalars are 5. Equal seeds give equal arguments. */
static inline void make_args(Args *args, const BpIrNode *function, uint64_t seed) {
  const BpIrTable *ir = bp_ir_table();
  args->count = (int32_t)ir->int_value(function);
  g_assert_cmpint(args->count, <=, MAX_ARGS);
  for (int32_t i = 0; i < args->count; i++) {
    const BpIrNode *param = ir->operand(function, i);
    BpDataType dtype = ir->dtype(param);
    args->views[i] = (BpTensorView){.device = {BP_DEVICE_CPU, 0}, .dtype = dtype};
    args->bytes[i] = args->elements[i] = 0;
    args->values[i] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 5};
    if (ir->kind(param) == BP_IR_VAR) {
      if (dtype.code == BP_DTYPE_FLOAT)
        args->values[i] = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = 5};
      continue;
    }
    args->elements[i] = dtype.lanes;
    args->views[i].ndim = ir->num_operands(param);
    args->views[i].shape = args->shapes[i];
    for (int32_t k = 0; k < args->views[i].ndim; k++) {
      const BpIrNode *extent = ir->operand(param, k);
      args->shapes[i][k] = ir->kind(extent) == BP_IR_INT_IMM ? ir->int_value(extent) : 5;
      args->elements[i] *= args->shapes[i][k];
    }
    args->bytes[i] = (size_t)args->elements[i] * ((dtype.bits + 7u) / 8);
    args->views[i].data = aligned_alloc(64, (args->bytes[i] + 127) / 64 * 64);
    for (int64_t k = 0; k < args->elements[i]; k++)
      fill_element(args->views[i].data, k, dtype, &seed);
    args->values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
    args->values[i].v_view = &args->views[i];
  }
}

static inline void free_args(Args *args) {
  for (int32_t i = 0; i < args->count; i++)
    free(args->views[i].data);
}

/* The largest difference of two floats, relative to the larger one: fused multiply-add and vector
 * forms of functions round differently from the interpreter. */
static inline double tolerance_of(BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BFLOAT)
    return 0x1p-7;
  return dtype.bits == 16 ? 0x1p-10 : dtype.bits == 32 ? 4e-6 : 1e-13;
}

static inline void assert_same_element(const char *name, const void *got, const void *expected,
                                       int64_t i, BpDataType dtype) {
  if (dtype.code != BP_DTYPE_FLOAT && dtype.code != BP_DTYPE_BFLOAT) {
    size_t size = (dtype.bits + 7u) / 8;
    int64_t x = 0, y = 0;
    memcpy(&x, (const char *)got + (size_t)i * size, size);
    memcpy(&y, (const char *)expected + (size_t)i * size, size);
    if (x != y)
      g_error("%s: element %" G_GINT64_FORMAT ": %" G_GINT64_FORMAT
              ", interpreted %" G_GINT64_FORMAT,
              name, i, x, y);
    return;
  }
  double x = read_element(got, i, dtype);
  double y = read_element(expected, i, dtype);
  double bound = tolerance_of(dtype) * fmax(fabs(x), fabs(y)) + 1e-30;
  gboolean is_same = isnan(y) ? isnan(x) : isinf(y) ? x == y : fabs(x - y) <= bound;
  if (!is_same)
    g_error("%s: element %" G_GINT64_FORMAT ": %.17g, interpreted %.17g", name, i, x, y);
}

static inline BpModule *build_ok(BpIrModule *module, const char *target_text) {
  BpTarget *target = bp_target_parse(target_text);
  if (!target)
    g_error("%s: %s", target_text, bp_error_message());
  BpModule *built = bp_target_build(module, target);
  if (!built)
    g_error("%s: %s", target_text, bp_error_message());
  bp_object_release(target);
  return built;
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Whether code for the target can run: there is a device of its type. */
static inline gboolean has_device_for(const char *target_text) {
  BpTarget *target = bp_target_parse(target_text);
  int32_t count = 0;
  const char *why = "";
  if (!target)
    g_error("%s: %s", target_text, bp_error_message());
  assert_ok(bp_device_count(bp_target_device_type(target), &count, &why));
  if (count == 0)
    g_test_skip(why);
  bp_object_release(target);
  return count > 0;
}

/* Returns the module as generators get it: kernels state their launch in it. */
static inline BpIrModule *legalize_ok(BpIrModule *module, const char *target_text) {
  BpTarget *target = bp_target_parse(target_text);
  BpFunction *legalize = NULL;
  BpValue args[2] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}}, legal;
  args[0].v_obj = (BpObject *)(void *)module;
  args[1].v_obj = (BpObject *)(void *)target;
  assert_ok(bp_registry_get("compiler.legalize", &legalize));
  assert_ok(bp_function_call(legalize, args, 2, &legal));
  bp_object_release(legalize);
  bp_object_release(target);
  return (BpIrModule *)(void *)legal.v_obj;
}

/* Makes the arguments on a device, followed by one int for each launch tag. */
typedef struct DeviceArgs {
  BpTensor *tensors[MAX_ARGS];
  BpValue values[MAX_ARGS + 6];
  int32_t count;
} DeviceArgs;

static inline void place_args(DeviceArgs *placed, const Args *args, BpDevice device) {
  placed->count = args->count;
  for (int32_t i = 0; i < args->count; i++) {
    const BpTensorView *view = &args->views[i];
    placed->values[i] = args->values[i];
    placed->tensors[i] = NULL;
    if (args->values[i].type_index != BP_TYPE_TENSOR_VIEW)
      continue;
    BpTensor *tensor = bp_tensor_create(view->shape, view->ndim, view->dtype, device, NULL);
    assert_ok(tensor == NULL);
    assert_ok(bp_tensor_copy_from_host(&tensor->view, view->data, args->bytes[i]));
    placed->tensors[i] = tensor;
    placed->values[i] = (BpValue){.type_index = BP_TYPE_TENSOR};
    placed->values[i].v_obj = (BpObject *)(void *)tensor;
  }
}

static inline void add_launch(DeviceArgs *placed, const BpIrNode *kernel) {
  const BpIrTable *ir = bp_ir_table();
  for (int32_t i = (int32_t)ir->int_value(kernel); i < ir->num_operands(kernel); i++) {
    const BpIrNode *attr = ir->operand(kernel, i);
    if (ir->kind(attr) != BP_IR_ATTR || strcmp(ir->str_value(attr), BP_IR_ATTR_LAUNCH) != 0)
      continue;
    int64_t extent = value_of_extent(ir->operand(attr, 1), 5);
    placed->values[placed->count++] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = extent};
  }
}

static inline void fetch_args(DeviceArgs *placed, Args *args) {
  for (int32_t i = 0; i < args->count; i++) {
    if (!placed->tensors[i])
      continue;
    assert_ok(
        bp_tensor_copy_to_host(&placed->tensors[i]->view, args->views[i].data, args->bytes[i]));
    bp_object_release(placed->tensors[i]);
  }
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* Code built for a target, and the device that runs it. */
typedef struct Built {
  BpModule *code;
  BpIrModule *legal; /* the legalised module, for a device with kernels; else NULL */
  BpDevice device;
} Built;

static inline Built build_for(BpIrModule *module, const char *target_text) {
  BpTarget *target = bp_target_parse(target_text);
  Built built = {.code = build_ok(module, target_text)};
  built.device.device_type = bp_target_device_type(target);
  if (built.device.device_type != BP_DEVICE_CPU)
    built.legal = legalize_ok(module, target_text);
  bp_object_release(target);
  return built;
}

static inline void built_clear(Built *built) {
  bp_object_release(built->code);
  bp_object_release(built->legal);
}

static inline int call_built(const Built *built, const char *name, BpFunction *compiled,
                             Args *args) {
  BpValue result;
  if (!built->legal) {
    int rc = bp_function_call(compiled, args->values, args->count, &result);
    g_assert_true(rc != 0 || result.type_index == BP_TYPE_NONE);
    return rc;
  }
  DeviceArgs placed;
  place_args(&placed, args, built->device);
  add_launch(&placed, bp_ir_module_find(built->legal, name));
  int rc = bp_function_call(compiled, placed.values, placed.count, &result);
  if (rc == 0)
    rc = bp_stream_sync(built->device, NULL);
  if (rc == 0)
    fetch_args(&placed, args);
  return rc;
}

/* Runs one function of a built module and compares it with the interpreter. */
static inline void assert_agrees(BpIrModule *module, const Built *built, const BpIrNode *function) {
  const char *name = bp_ir_table()->str_value(function);
  Args expected, got;
  BpFunction *compiled = NULL;
  make_args(&expected, function, 42);
  make_args(&got, function, 42);
  if (bp_ir_interpret(module, name, expected.values, expected.count))
    g_error("%s: interpreter: %s", name, bp_error_message());
  assert_ok(bp_module_get_function(built->code, name, 1, &compiled));
  if (!compiled)
    g_error("%s is not in the module", name);
  if (call_built(built, name, compiled, &got))
    g_error("%s: %s", name, bp_error_message());
  for (int32_t i = 0; i < got.count; i++)
    for (int64_t k = 0; got.bytes[i] && k < got.elements[i]; k++)
      assert_same_element(name, got.views[i].data, expected.views[i].data, k, got.views[i].dtype);
  bp_object_release(compiled);
  free_args(&expected);
  free_args(&got);
}

/* Checks that all functions of a text agree. */
static inline void assert_text_agrees(const char *text, const char *target) {
  BpIrModule *module = parse_verified(text);
  Built built = build_for(module, target);
  const BpIrTable *ir = bp_ir_table();
  for (int32_t i = 0; i < ir->num_functions(module); i++)
    assert_agrees(module, &built, ir->get_function(module, i));
  built_clear(&built);
  bp_object_release(module);
}

#endif
