/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of IR tests: parsing a text, running it on arrays, checking a message. */
#ifndef TESTS_COMPILER_IR_UTIL_H
#define TESTS_COMPILER_IR_UTIL_H

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* Checks that this thread's error has this kind and contains this text; clears the error. */
#define assert_error(error_kind, part)                                                             \
  do {                                                                                             \
    if (!strstr(bp_error_message(), part))                                                         \
      g_error("%s:%d: '%s' is not in: %s", __FILE__, __LINE__, part, bp_error_message());          \
    g_assert_cmpstr(bp_error_kind(), ==, error_kind);                                              \
    bp_error_clear();                                                                              \
  } while (0)

/* Checks that a call succeeds; otherwise prints its error. */
#define assert_ok(call)                                                                            \
  do {                                                                                             \
    if (call)                                                                                      \
      g_error("%s:%d: %s", __FILE__, __LINE__, bp_error_message());                                \
  } while (0)

/* The number of times that a text contains another text. */
static inline int count_parts(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)); text++)
    count++;
  return count;
}

static inline BpIrModule *parse_ok(const char *text) {
  BpIrModule *module = bp_ir_parse(text, strlen(text));
  if (!module)
    g_error("%s\n%s", bp_error_message(), text);
  return module;
}

/* Parses a text that the verifier accepts. */
static inline BpIrModule *parse_verified(const char *text) {
  BpIrModule *module = parse_ok(text);
  if (bp_ir_verify(module))
    g_error("%s\n%s", bp_error_message(), text);
  return module;
}

/* One argument of a function: an array viewed as a tensor of one dimension. */
typedef struct Array {
  BpTensorView view;
  int64_t extent;
} Array;

static inline BpValue array_value(Array *array, void *data, BpDataType dtype, int64_t extent) {
  array->extent = extent;
  array->view = (BpTensorView){.data = data,
                               .device = {BP_DEVICE_CPU, 0},
                               .ndim = 1,
                               .dtype = dtype,
                               .shape = &array->extent};
  BpValue value = {.type_index = BP_TYPE_TENSOR_VIEW};
  value.v_view = &array->view;
  return value;
}

static inline BpDataType dtype_of(const char *text) {
  BpDataType dtype;
  assert_ok(bp_dtype_parse(text, &dtype));
  return dtype;
}

/* Runs function "f" of the text on one array; returns 0 or -1. */
static inline int run_on(const char *text, void *data, const char *dtype, int64_t extent) {
  BpIrModule *module = parse_verified(text);
  Array array;
  BpValue arg = array_value(&array, data, dtype_of(dtype), extent);
  int rc = bp_ir_interpret(module, "f", &arg, 1);
  bp_object_release(module);
  return rc;
}

/* Wraps a body in a function f of one buffer A. */
static inline char *with_buffer(const char *dtype, int64_t extent, const char *body) {
  return g_strdup_printf("(module (function \"f\" (buffer A %s global %" G_GINT64_FORMAT ") %s))",
                         dtype, extent, body);
}

/* Evaluates an extent; scalar parameters are `scalar`. */
static inline int64_t value_of_extent(const BpIrNode *node, int64_t scalar) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = ir->kind(node);
  if (kind == BP_IR_INT_IMM || kind == BP_IR_VAR)
    return kind == BP_IR_VAR ? scalar : ir->int_value(node);
  int64_t a = value_of_extent(ir->operand(node, 0), scalar);
  if (kind == BP_IR_CAST)
    return a;
  int64_t b = value_of_extent(ir->operand(node, 1), scalar);
  switch (kind) {
  case BP_IR_ADD:
    return a + b;
  case BP_IR_SUB:
    return a - b;
  case BP_IR_MUL:
    return a * b;
  case BP_IR_DIV:
    return a / b;
  case BP_IR_FLOORMOD:
    return a % b;
  case BP_IR_MIN:
    return MIN(a, b);
  case BP_IR_MAX:
    return MAX(a, b);
  default:
    g_error("the kind %s is not among the extents of the tests", ir->kind_name(kind));
  }
}

#endif
