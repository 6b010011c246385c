/* SPDX-License-Identifier: Apache-2.0 */
/* vm.builtin.*: shapes and their checks, memory, tuples, closures. The functions vm.builtin.* have
 * the arguments and behaviour of TVM's functions. Arguments come from registers, so the type of
 * each argument is checked. */
#include "graph/relax/builtin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/relax/arguments.h"
#include "graph/relax/form.h"
#include "graph/relax/kept.h"
#include "graph/relax/sequence.h"

/* ---- Arguments --------------------------------------------------------------------------- */

static int get_shape(const BpValue *value, const BpShape **shape) {
  if (value->type_index != BP_TYPE_SHAPE)
    return bp__relax_wrong_type(value, "a shape");
  *shape = (const BpShape *)value->v_obj;
  return 0;
}

static int get_array(const BpValue *value, BpArray **array) {
  if (value->type_index != BP_TYPE_ARRAY)
    return bp__relax_wrong_type(value, "a tuple");
  *array = (BpArray *)value->v_obj;
  return 0;
}

/* Reads a memory scope; NULL stands for "global". */
static int get_scope(const BpValue *value, const char **scope) {
  BpByteArray text;
  if (bp_value_view_str(value, &text) < 0)
    return -1;
  *scope = !text.size || !strcmp(text.data, "global") ? NULL : text.data;
  return 0;
}

static void set_object(BpValue *result, int32_t type_index, void *object) {
  *result = (BpValue){.type_index = type_index, .v_obj = object};
}

static int return_shape(BpValue *result, const int64_t *extents, size_t count) {
  BpShape *shape = bp_shape_create(extents, count);
  if (!shape)
    return -1;
  set_object(result, BP_TYPE_SHAPE, shape);
  return 0;
}

/* ---- The shape heap ---------------------------------------------------------------------- */

/* The shape heap contains the values of a function's symbolic extents in one call. The heap is a
 * tensor, because compiled code computes with its values. */

static const BpDataType int64 = {BP_DTYPE_INT, 64, 1};

static int alloc_shape_heap(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                            BpValue *result) {
  int64_t size;
  (void)machine;
  if (bp__relax_check_count(num_args, 2, 2) < 0 || bp__relax_get_int(&args[1], &size) < 0)
    return -1;
  return bp__relax_return_tensor(
      result, bp_tensor_create(&size, 1, int64, (BpDevice){BP_DEVICE_CPU, 0}, NULL));
}

/* Matches one extent in one of the ways of TVM's MatchShapeCode. */
static int match_one(int64_t value, const BpValue *heap, const BpValue *how, int32_t index,
                     const char *context) {
  int64_t code, number, *cell = NULL;
  if (bp__relax_get_int(&how[0], &code) < 0 || bp__relax_get_int(&how[1], &number) < 0)
    return -1;
  if (code == BP_RELAX_MATCH_NOTHING)
    return 0;
  if (code != BP_RELAX_MATCH_EQUAL && !(cell = bp__relax_heap_cell(heap, number)))
    return -1;
  if (code == BP_RELAX_MATCH_STORE) {
    *cell = value;
    return 0;
  }
  int64_t wanted = cell ? *cell : number;
  if (code != BP_RELAX_MATCH_EQUAL && code != BP_RELAX_MATCH_EQUAL_TO_STORED)
    return bp_error_raise(BP_ERROR_VALUE, "unknown way %" PRId64 " to match a shape", code);
  if (value == wanted)
    return 0;
  if (index < 0)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "%s match_cast error, the value %" PRId64 " is not %" PRId64, context,
                          value, wanted);
  return bp_error_raise(BP_ERROR_VALUE,
                        "%s match_cast error, shape[%d] is %" PRId64 ", and %s %" PRId64, context,
                        index, value, cell ? "elsewhere it was" : "must be", wanted);
}

/* The extents of a tensor or of a shape. */
static int get_extents(const BpValue *value, const int64_t **extents, size_t *count) {
  const BpTensorView *view = bp_value_view_tensor(value);
  if (view) {
    *extents = view->shape;
    *count = (size_t)view->ndim;
    return 0;
  }
  if (value->type_index != BP_TYPE_SHAPE)
    return bp__relax_wrong_type(value, "a tensor or a shape");
  *extents = ((const BpShape *)value->v_obj)->data;
  *count = ((const BpShape *)value->v_obj)->size;
  return 0;
}

/* Matches all extents; the arguments after the first are (heap, n, n x (code, number), context). */
static int match_all(const int64_t *extents, size_t count, const BpValue *args, int32_t num_args) {
  int64_t wanted;
  if (bp__relax_get_int(&args[2], &wanted) < 0)
    return -1;
  if (wanted < 0 || wanted > (num_args - 4) / 2)
    return bp_error_raise(BP_ERROR_VALUE, "a match of %" PRId64 " extents in %d arguments", wanted,
                          num_args);
  const char *context = bp__relax_text(&args[3 + 2 * wanted]);
  if (count != (size_t)wanted)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "%s match_cast shape size mismatch: %zu dimensions, not %" PRId64,
                          context, count, wanted);
  for (int32_t i = 0; i < (int32_t)count; i++)
    if (match_one(extents[i], &args[1], &args[3 + 2 * i], i, context) < 0)
      return -1;
  return 0;
}

/* Arguments: (value, heap, n, n x (code, number), context) */
static int match_shape(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                       BpValue *result) {
  const int64_t *extents;
  size_t count;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 4, INT32_MAX) < 0 ||
      get_extents(&args[0], &extents, &count) < 0)
    return -1;
  return match_all(extents, count, args, num_args);
}

/* Arguments: (value, heap, code, number, context) */
static int match_prim_value(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                            BpValue *result) {
  int64_t value;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 5, 5) < 0 || bp__relax_get_int(&args[0], &value) < 0)
    return -1;
  return match_one(value, &args[1], &args[2], -1, bp__relax_text(&args[4]));
}

/* Arguments and result: (heap, n, n x (code, number)) -> shape */
static int make_shape(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  int64_t count;
  (void)machine;
  if (bp__relax_check_count(num_args, 2, INT32_MAX) < 0 || bp__relax_get_int(&args[1], &count) < 0)
    return -1;
  if (count < 0 || count > (num_args - 2) / 2)
    return bp_error_raise(BP_ERROR_VALUE, "a shape of %" PRId64 " extents in %d arguments", count,
                          num_args);
  int64_t *extents = malloc(((size_t)count + 1) * sizeof(*extents));
  if (!extents)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a shape");
  int status = 0;
  for (int64_t i = 0; status == 0 && i < count; i++)
    status = bp__relax_make_extent(&args[0], &args[2 + 2 * i], &extents[i]);
  if (status == 0)
    status = return_shape(result, extents, (size_t)count);
  free(extents);
  return status;
}

/* Arguments and result: (heap, code, number) -> int */
static int make_prim_value(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  int64_t made;
  (void)machine;
  if (bp__relax_check_count(num_args, 3, 3) < 0 ||
      bp__relax_make_extent(&args[0], &args[1], &made) < 0)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = made};
  return 0;
}

/* ---- Computing with cells ----------------------------------------------------------------- */

/* The maximum number of operands on the stack of vm.builtin.compute, which computes extents from
 * others. TVM's machine computes extents by compiled code. */

#define MOST_OPERANDS 64

typedef struct Stack {
  int64_t items[MOST_OPERANDS];
  int32_t count;
} Stack;

static int push(Stack *stack, int64_t item) {
  if (stack->count == MOST_OPERANDS)
    return bp_error_raise(BP_ERROR_VALUE, "an extent is computed from more than %d operands",
                          MOST_OPERANDS);
  stack->items[stack->count++] = item;
  return 0;
}

static int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Applies an operation to two numbers. */
static int apply(int64_t op, int64_t a, int64_t b, int64_t *result) {
  bool overflows = false;
  if (op >= BP_RELAX_DIVIDE && op <= BP_RELAX_FLOOR_MODULO &&
      (b == 0 || (a == INT64_MIN && b == -1)))
    return bp_error_raise(BP_ERROR_VALUE, "an extent is computed as %" PRId64 " by %" PRId64, a, b);
  switch (op) {
  case BP_RELAX_ADD:
    overflows = __builtin_add_overflow(a, b, result);
    break;
  case BP_RELAX_SUBTRACT:
    overflows = __builtin_sub_overflow(a, b, result);
    break;
  case BP_RELAX_MULTIPLY:
    overflows = __builtin_mul_overflow(a, b, result);
    break;
  case BP_RELAX_DIVIDE:
    *result = a / b;
    break;
  case BP_RELAX_MODULO:
    *result = a % b;
    break;
  case BP_RELAX_FLOOR_DIVIDE:
    *result = floor_divide(a, b);
    break;
  case BP_RELAX_FLOOR_MODULO:
    *result = a - floor_divide(a, b) * b;
    break;
  case BP_RELAX_LEAST:
    *result = a < b ? a : b;
    break;
  case BP_RELAX_GREATEST:
    *result = a > b ? a : b;
    break;
  default:
    return bp_error_raise(BP_ERROR_VALUE, "unknown step %" PRId64 " of a computed extent", op);
  }
  return overflows ? bp_error_raise(BP_ERROR_VALUE,
                                    "an extent is too large: it is computed from %" PRId64
                                    " and %" PRId64,
                                    a, b)
                   : 0;
}

static int compute_step(Stack *stack, const BpValue *heap, int64_t op, int64_t operand) {
  if (op == BP_RELAX_PUSH_NUMBER)
    return push(stack, operand);
  int64_t *cell = NULL;
  if ((op == BP_RELAX_PUSH_CELL || op == BP_RELAX_TAKE_CELL) &&
      !(cell = bp__relax_heap_cell(heap, operand)))
    return -1;
  if (op == BP_RELAX_PUSH_CELL)
    return push(stack, *cell);
  if (stack->count < (cell ? 1 : 2))
    return bp_error_raise(BP_ERROR_VALUE, "a computed extent lacks an operand");
  int64_t top = stack->items[--stack->count];
  if (!cell)
    return apply(op, stack->items[stack->count - 1], top, &stack->items[stack->count - 1]);
  *cell = top;
  return 0;
}

/* Arguments and result: (heap, n x (step, operand)) -> the number left on the stack, or None */
static int compute(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                   BpValue *result) {
  Stack stack = {.count = 0};
  (void)machine;
  if (bp__relax_check_count(num_args, 1, INT32_MAX) < 0)
    return -1;
  for (int32_t i = 1; i + 1 < num_args; i += 2) {
    int64_t op, operand;
    if (bp__relax_get_int(&args[i], &op) < 0 || bp__relax_get_int(&args[i + 1], &operand) < 0 ||
        compute_step(&stack, &args[0], op, operand) < 0)
      return -1;
  }
  if (stack.count > 0)
    *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = stack.items[stack.count - 1]};
  return 0;
}

/* Arguments and result: (heap, cell) -> int, which is checked to be a valid open extent
 * (bp_te_open_extent) */
static int open_extent(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                       BpValue *result) {
  int64_t index;
  (void)machine;
  if (bp__relax_check_count(num_args, 2, 2) < 0 || bp__relax_get_int(&args[1], &index) < 0)
    return -1;
  const int64_t *cell = bp__relax_heap_cell(&args[0], index);
  if (!cell)
    return -1;
  if (*cell < 0 || *cell > INT32_MAX)
    return bp_error_raise(BP_ERROR_VALUE, "an open extent is %" PRId64 "; code takes 0 to %d",
                          *cell, INT32_MAX);
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = *cell};
  return 0;
}

static int shape_of(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                    BpValue *result) {
  (void)machine;
  if (bp__relax_check_count(num_args, 1, 1) < 0)
    return -1;
  const BpTensorView *view = bp_value_view_tensor(&args[0]);
  if (!view)
    return bp__relax_wrong_type(&args[0], "a tensor");
  return return_shape(result, view->shape, (size_t)view->ndim);
}

/* ---- Checks ------------------------------------------------------------------------------ */

/* Arguments: (heap, cell, error message for a negative extent) */
static int check_extent(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  int64_t index;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 3, 3) < 0 || bp__relax_get_int(&args[1], &index) < 0)
    return -1;
  const int64_t *cell = bp__relax_heap_cell(&args[0], index);
  if (cell && *cell < 0)
    return bp_error_raise(BP_ERROR_VALUE, "%s", bp__relax_text(&args[2]));
  return cell ? 0 : -1;
}

/* Arguments: (value, ndim or -1, dtype (may be left out or None), context) */
static int check_tensor_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  int64_t ndim;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 3, 4) < 0 || bp__relax_get_int(&args[1], &ndim) < 0)
    return -1;
  const char *context = bp__relax_text(&args[num_args - 1]);
  const BpTensorView *view = bp_value_view_tensor(&args[0]);
  if (!view)
    return bp_error_raise(BP_ERROR_TYPE, "%s expect a Tensor but get %s", context,
                          bp_type_name(args[0].type_index));
  if (ndim != -1 && ndim != view->ndim)
    return bp_error_raise(BP_ERROR_VALUE, "%s expect Tensor with ndim %" PRId64 " but get %d",
                          context, ndim, view->ndim);
  if (num_args == 4 && args[2].type_index == BP_TYPE_DTYPE &&
      memcmp(&args[2].v_dtype, &view->dtype, sizeof(BpDataType))) {
    char wanted[32], given[32];
    bp_dtype_format(args[2].v_dtype, wanted, sizeof wanted);
    bp_dtype_format(view->dtype, given, sizeof given);
    return bp_error_raise(BP_ERROR_VALUE, "%s expect Tensor with dtype %s but get %s", context,
                          wanted, given);
  }
  return 0;
}

/* Arguments: (value, ndim or -1, context) */
static int check_shape_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                            BpValue *result) {
  int64_t ndim;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 3, 3) < 0 || bp__relax_get_int(&args[1], &ndim) < 0)
    return -1;
  if (args[0].type_index != BP_TYPE_SHAPE)
    return bp_error_raise(BP_ERROR_TYPE, "%s expect a Shape but get %s", bp__relax_text(&args[2]),
                          bp_type_name(args[0].type_index));
  size_t size = ((const BpShape *)args[0].v_obj)->size;
  if (ndim != -1 && (uint64_t)ndim != size)
    return bp_error_raise(BP_ERROR_VALUE, "%s expect Shape with ndim %" PRId64 " but get %zu",
                          bp__relax_text(&args[2]), ndim, size);
  return 0;
}

static int prim_value_fits(const BpValue *value, BpDataType dtype) {
  int32_t type = value->type_index;
  switch (dtype.code) {
  case BP_DTYPE_BOOL:
  case BP_DTYPE_INT:
  case BP_DTYPE_UINT:
    return type == BP_TYPE_INT || type == BP_TYPE_BOOL;
  case BP_DTYPE_FLOAT:
    return type == BP_TYPE_FLOAT || type == BP_TYPE_INT || type == BP_TYPE_BOOL;
  default:
    return dtype.code == BP_DTYPE_HANDLE && type < BP_TYPE_OBJECT;
  }
}

/* Arguments: (value, dtype, context) */
static int check_prim_value_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                                 BpValue *result) {
  BpDataType dtype;
  char wanted[32];
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 3, 3) < 0 || bp__relax_get_dtype(&args[1], &dtype) < 0)
    return -1;
  if (prim_value_fits(&args[0], dtype))
    return 0;
  bp_dtype_format(dtype, wanted, sizeof wanted);
  return bp_error_raise(BP_ERROR_TYPE, "%s expect a %s but get %s", bp__relax_text(&args[2]),
                        wanted, bp_type_name(args[0].type_index));
}

/* Arguments of check_string_info: (value, context) */
static int check_string_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 2, 2) < 0)
    return -1;
  int32_t type = args[0].type_index;
  if (type == BP_TYPE_STR || type == BP_TYPE_SMALL_STR || type == BP_TYPE_RAW_STR)
    return 0;
  return bp_error_raise(BP_ERROR_TYPE, "%s expect a string but get %s", bp__relax_text(&args[1]),
                        bp_type_name(type));
}

/* Arguments: (value, number of items, context) */
static int check_tuple_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                            BpValue *result) {
  int64_t size;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 3, 3) < 0 || bp__relax_get_int(&args[1], &size) < 0)
    return -1;
  if (args[0].type_index != BP_TYPE_ARRAY)
    return bp_error_raise(BP_ERROR_TYPE, "%s expect a Tuple but get %s", bp__relax_text(&args[2]),
                          bp_type_name(args[0].type_index));
  int64_t given = ((const BpArray *)args[0].v_obj)->size;
  if (given != size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s expect a Tuple with %" PRId64 " elements but get one with %" PRId64,
                          bp__relax_text(&args[2]), size, given);
  return 0;
}

/* Arguments of check_func_info: (value, context) */
static int check_func_info(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 2, 2) < 0)
    return -1;
  if (args[0].type_index == BP_TYPE_FUNCTION)
    return 0;
  return bp_error_raise(BP_ERROR_TYPE, "%s expect a Function but get %s", bp__relax_text(&args[1]),
                        bp_type_name(args[0].type_index));
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Arguments and result: (machine, shape, device or -1 for the host, dtype, scope) -> storage */
static int alloc_storage(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  const BpShape *shape;
  const char *scope;
  int64_t device;
  BpDataType dtype;
  if (bp__relax_check_count(num_args, 5, 5) < 0 || get_shape(&args[1], &shape) < 0 ||
      bp__relax_get_device(machine, &args[2], &device) < 0 ||
      bp__relax_get_dtype(&args[3], &dtype) < 0 || get_scope(&args[4], &scope) < 0)
    return -1;
  const BpTensorView view = {
      .ndim = (int32_t)shape->size, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape->data};
  int64_t bytes = bp_view_num_bytes(&view);
  if (bytes < 0)
    return -1;
  BpObject *storage =
      bp__relax_storage_create(machine->pools[device], (uint64_t)bytes, dtype, scope);
  if (!storage)
    return -1;
  set_object(result, BP_TYPE_OBJECT, storage);
  return 0;
}

/* Arguments and result: (storage, offset, shape, dtype, scope (may be left out)) -> tensor */
static int alloc_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  const BpShape *shape;
  int64_t offset;
  BpDataType dtype;
  (void)machine;
  if (bp__relax_check_count(num_args, 4, 5) < 0 || bp__relax_get_int(&args[1], &offset) < 0 ||
      get_shape(&args[2], &shape) < 0 || bp__relax_get_dtype(&args[3], &dtype) < 0)
    return -1;
  if (!bp__relax_is_storage(&args[0]))
    return bp__relax_wrong_type(&args[0], "a storage");
  return bp__relax_return_tensor(
      result,
      bp__relax_storage_tensor(args[0].v_obj, offset, shape->data, (int32_t)shape->size, dtype));
}

/* Arguments and result: (tensor, shape, dtype (by default the tensor's)) -> tensor. TVM's reshape
 * has no argument dtype. */
static int reshape(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                   BpValue *result) {
  const BpShape *shape;
  (void)machine;
  BpDataType dtype = {0};
  if (bp__relax_check_count(num_args, 2, 3) < 0 || get_shape(&args[1], &shape) < 0 ||
      (num_args == 3 && bp__relax_get_dtype(&args[2], &dtype) < 0))
    return -1;
  BpTensor *tensor, *wrapped = NULL;
  if (args[0].type_index == BP_TYPE_TENSOR_VIEW)
    tensor = wrapped = bp_tensor_wrap(args[0].v_view, NULL, NULL);
  else
    tensor = bp__relax_get_tensor(&args[0]);
  if (!tensor)
    return -1;
  int status = bp__relax_return_tensor(
      result, bp_tensor_create_view(tensor, shape->data, (int32_t)shape->size,
                                    num_args == 3 ? dtype : tensor->view.dtype, 0));
  bp_object_release(wrapped);
  return status;
}

/* Arguments and result: (tensor, device type, device index, scope (may be left out)) -> tensor */
static int to_device(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                     BpValue *result) {
  int64_t type, index;
  const char *scope = NULL;
  (void)machine;
  if (bp__relax_check_count(num_args, 3, 4) < 0 || bp__relax_get_int(&args[1], &type) < 0 ||
      bp__relax_get_int(&args[2], &index) < 0 || (num_args == 4 && get_scope(&args[3], &scope) < 0))
    return -1;
  BpTensor *tensor = bp__relax_get_tensor(&args[0]);
  if (!tensor)
    return -1;
  return bp__relax_return_tensor(
      result, bp__relax_to_device(tensor, (BpDevice){(int32_t)type, (int32_t)index}, scope));
}

/* Makes a tensor whose data begin at its handle. */
static int ensure_zero_offset(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result) {
  (void)machine;
  if (bp__relax_check_count(num_args, 1, 1) < 0)
    return -1;
  BpTensor *tensor = bp__relax_get_tensor(&args[0]);
  if (!tensor)
    return -1;
  const BpTensorView *view = &tensor->view;
  if (!view->byte_offset)
    return bp__relax_return_tensor(result, bp_object_retain(tensor));
  BpTensor *copy = bp_tensor_create(view->shape, view->ndim, view->dtype, view->device, NULL);
  if (!copy)
    return -1;
  if (bp_tensor_copy(view, &copy->view, NULL) == 0)
    return bp__relax_return_tensor(result, copy);
  bp_object_release(copy);
  return -1;
}

static int null_value(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  (void)machine;
  (void)args;
  (void)num_args;
  (void)result;
  return 0;
}

static int copy(BpRelaxMachine *machine, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)machine;
  if (bp__relax_check_count(num_args, 1, 1) < 0)
    return -1;
  if (args[0].type_index >= BP_TYPE_OBJECT)
    bp_object_retain(args[0].v_obj);
  *result = args[0];
  return 0;
}

/* ---- Numbers in tensors ------------------------------------------------------------------ */

/* Arguments and result: a bool, or a tensor with one bool -> bool */
static int read_if_cond(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  int64_t number;
  (void)machine;
  if (bp__relax_check_count(num_args, 1, 1) < 0 || bp__relax_read_number(&args[0], &number) < 0)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = number != 0};
  return 0;
}

#define MAX_EXTENTS 64

/* Reads the elements of a vector of integers; returns their number, or -1 with an error. */
static int64_t read_extents(const BpValue *value, int64_t extents[MAX_EXTENTS]) {
  BpTensor *tensor = bp__relax_get_host_tensor(value);
  if (!tensor)
    return -1;
  const BpTensorView *view = &tensor->view;
  int64_t count = -1;
  if (view->ndim != 1 || view->shape[0] > MAX_EXTENTS)
    bp_error_raise(BP_ERROR_VALUE, "a shape is read from a list of at most %d integers",
                   MAX_EXTENTS);
  else
    count = view->shape[0];
  for (int64_t i = 0; i < count; i++)
    if (bp__relax_read_element(view, i, &extents[i]) < 0)
      count = -1;
  bp_object_release(tensor);
  return count;
}

static int tensor_to_shape(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  int64_t extents[MAX_EXTENTS];
  (void)machine;
  int64_t count = bp__relax_check_count(num_args, 1, 1) < 0 ? -1 : read_extents(&args[0], extents);
  return count < 0 ? -1 : return_shape(result, extents, (size_t)count);
}

/* Matches the elements of a vector as match_shape matches extents; a negative element is an error
 * with the context. TVM has no function match_elements. */
static int match_elements(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result) {
  int64_t extents[MAX_EXTENTS];
  (void)machine;
  (void)result;
  int64_t count =
      bp__relax_check_count(num_args, 4, INT32_MAX) < 0 ? -1 : read_extents(&args[0], extents);
  if (count < 0)
    return -1;
  for (int64_t i = 0; i < count; i++)
    if (extents[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE, "%s", bp__relax_text(&args[num_args - 1]));
  return match_all(extents, (size_t)count, args, num_args);
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* Functions for loops, which TVM's machine lacks: it uses recursion. */

/* Arguments and result: (machine, number of the iteration, number of iterations or None, condition
 * or None) -> bool */
static int loop_holds(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  (void)machine;
  int64_t number, most = INT64_MAX, condition = 1;
  if (bp__relax_check_count(num_args, 4, 4) < 0 || bp__relax_get_int(&args[1], &number) < 0 ||
      (args[2].type_index != BP_TYPE_NONE && bp__relax_read_number(&args[2], &most) < 0) ||
      (args[3].type_index != BP_TYPE_NONE && bp__relax_read_number(&args[3], &condition) < 0))
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = condition != 0 && number < most};
  return 0;
}

/* Argument and result: number -> the next number */
static int next_number(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                       BpValue *result) {
  int64_t number;
  (void)machine;
  if (bp__relax_check_count(num_args, 1, 1) < 0 || bp__relax_get_int(&args[0], &number) < 0)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number + (number < INT64_MAX)};
  return 0;
}

/* Arguments and result: (machine, tensor, device or -1 for the host) -> the tensor on that
 * device */
static int to_machine_device(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  int64_t device;
  if (bp__relax_check_count(num_args, 3, 3) < 0 ||
      bp__relax_get_device(machine, &args[2], &device) < 0)
    return -1;
  const BpTensor *tensor = bp__relax_get_tensor(&args[1]);
  if (!tensor)
    return -1;
  const BpTensorView *view = &tensor->view;
  if (!memcmp(&view->device, &machine->devices[device], sizeof(BpDevice)))
    return bp__relax_return_tensor(result, bp_object_retain(args[1].v_obj));
  BpTensor *copy =
      bp__relax_create_pooled(machine, device, view->shape, (size_t)view->ndim, view->dtype);
  if (!copy)
    return -1;
  if (bp__relax_copy_into(view, &copy->view) == 0)
    return bp__relax_return_tensor(result, copy);
  bp_object_release(copy);
  return -1;
}

/* Arguments and result: (machine, number) -> int64 tensor without dimensions */
static int int_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  int64_t number;
  if (bp__relax_check_count(num_args, 2, 2) < 0 || bp__relax_get_int(&args[1], &number) < 0)
    return -1;
  return bp__relax_return_tensor(result, bp__relax_int_tensor(machine, number));
}

/* A view of the first rows of a tensor: of all its storage, or of `count` rows. */
static BpTensorView rows_of(const BpTensorView *stack, int64_t first, int64_t count,
                            int64_t *shape) {
  BpTensorView rows = *stack;
  int64_t all = stack->shape[0];
  if (stack->ndim > 0)
    memcpy(shape, stack->shape, (size_t)stack->ndim * sizeof(*shape));
  shape[0] = count;
  rows.shape = shape;
  rows.strides = NULL;
  rows.byte_offset += all > 0 ? (uint64_t)(bp_view_num_bytes(stack) / all * first) : 0;
  return rows;
}

#define MAX_STACK_NDIM 64
#define FIRST_ROWS     16

/* Makes a stack with space for `rows` elements, and copies the elements of the old stack, which may
 * be NULL. */
static BpTensor *create_stack(BpRelaxMachine *machine, const BpTensorView *element, int64_t rows,
                              const BpTensorView *old, int64_t filled) {
  int64_t shape[MAX_STACK_NDIM + 1], to_shape[MAX_STACK_NDIM + 1], from_shape[MAX_STACK_NDIM + 1];
  shape[0] = rows;
  if (element->ndim > 0)
    memcpy(shape + 1, element->shape, (size_t)element->ndim * sizeof(*shape));
  BpTensor *stack =
      bp__relax_create_pooled(machine, 0, shape, (size_t)element->ndim + 1, element->dtype);
  if (!stack || !old || !filled)
    return stack;
  const BpTensorView from = rows_of(old, 0, filled, from_shape);
  const BpTensorView to = rows_of(&stack->view, 0, filled, to_shape);
  if (bp_tensor_copy(&from, &to, NULL) == 0)
    return stack;
  bp_object_release(stack);
  return NULL;
}

static int check_element(const BpTensorView *stack, const BpTensorView *element,
                         const char *context) {
  for (int32_t i = 0; i < element->ndim; i++)
    if (element->shape[i] != stack->shape[i + 1])
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s extent %d of the element of an iteration is %" PRId64
                            ", and was %" PRId64
                            " before; the elements of an output have one shape",
                            context, i, element->shape[i], stack->shape[i + 1]);
  return 0;
}

/* Arguments and result: (machine, stack or None, element, number of the iteration, number of
 * iterations or None, whether the first element is stored last, context) -> the stack itself, or a
 * larger one */
static int push_element(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  int64_t number, most = -1, is_backward, shape[MAX_STACK_NDIM + 1];
  if (bp__relax_check_count(num_args, 7, 7) < 0 || bp__relax_get_int(&args[3], &number) < 0 ||
      (args[4].type_index != BP_TYPE_NONE && bp__relax_read_number(&args[4], &most) < 0) ||
      bp__relax_get_int(&args[5], &is_backward) < 0)
    return -1;
  const BpTensorView *element = bp_value_view_tensor(&args[2]);
  BpTensor *stack = args[1].type_index == BP_TYPE_NONE ? NULL : bp__relax_get_tensor(&args[1]);
  if (!element || !bp_view_is_compact(element) || element->ndim > MAX_STACK_NDIM || number < 0 ||
      (most >= 0 && number >= most) || (is_backward && most < 0) ||
      (stack && stack->view.ndim != element->ndim + 1))
    return bp_error_raise(BP_ERROR_VALUE, "%s the output of an iteration does not fit on its stack",
                          bp__relax_text(&args[6]));
  if (stack && check_element(&stack->view, element, bp__relax_text(&args[6])) < 0)
    return -1;
  if (stack && number < stack->view.shape[0]) {
    bp_object_retain(stack);
  } else {
    int64_t rows = most >= 0 ? most : number < FIRST_ROWS ? FIRST_ROWS : 2 * number;
    stack = create_stack(machine, element, rows, stack ? &stack->view : NULL, number);
    if (!stack)
      return bp_error_add_context("%s its output of %" PRId64 " elements", bp__relax_text(&args[6]),
                                  rows);
  }
  const BpTensorView row =
      rows_of(&stack->view, is_backward ? most - 1 - number : number, 1, shape);
  BpTensorView from = *element;
  from.ndim++;
  from.shape = shape;
  from.strides = NULL;
  if (bp_tensor_copy(&from, &row, NULL) == 0)
    return bp__relax_return_tensor(result, stack);
  bp_object_release(stack);
  return -1;
}

/* Arguments and result: (machine, stack or None, number of elements, shape for an empty stack,
 * dtype) -> tensor */
static int take_elements(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  int64_t count, extents[MAX_STACK_NDIM + 1];
  const BpShape *shape;
  BpDataType dtype;
  if (bp__relax_check_count(num_args, 5, 5) < 0 || bp__relax_get_int(&args[2], &count) < 0 ||
      get_shape(&args[3], &shape) < 0 || bp__relax_get_dtype(&args[4], &dtype) < 0)
    return -1;
  if (args[1].type_index == BP_TYPE_NONE)
    return bp__relax_return_tensor(
        result, bp__relax_create_pooled(machine, 0, shape->data, shape->size, dtype));
  BpTensor *stack = bp__relax_get_tensor(&args[1]);
  if (!stack)
    return -1;
  const BpTensorView rows = rows_of(&stack->view, 0, count, extents);
  return bp__relax_return_tensor(result,
                                 bp_tensor_create_view(stack, rows.shape, rows.ndim, dtype, 0));
}

/* ---- Tuples ------------------------------------------------------------------------------ */

static int make_tuple(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                      BpValue *result) {
  (void)machine;
  BpArray *array = bp_array_create(args, (size_t)num_args);
  if (!array)
    return -1;
  set_object(result, BP_TYPE_ARRAY, array);
  return 0;
}

/* Finds an item of a tuple; the arguments are (tuple, index). */
static BpValue *find_item(const BpValue *args, int32_t num_args) {
  BpArray *array;
  int64_t index;
  if (bp__relax_check_count(num_args, 2, 2) < 0 || get_array(&args[0], &array) < 0 ||
      bp__relax_get_int(&args[1], &index) < 0)
    return NULL;
  if (index >= 0 && index < array->size)
    return &array->data[index];
  bp_error_raise(BP_ERROR_INDEX, "item %" PRId64 " of a tuple of %" PRId64, index, array->size);
  return NULL;
}

static int tuple_getitem(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  const BpValue *item = find_item(args, num_args);
  return item ? copy(machine, item, 1, result) : -1;
}

static int tuple_reset_item(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                            BpValue *result) {
  BpValue *item = find_item(args, num_args);
  (void)machine;
  (void)result;
  if (!item)
    return -1;
  bp_value_clear(item);
  return 0;
}

/* ---- Functions --------------------------------------------------------------------------- */

static int get_function(const BpValue *value, BpFunction **function) {
  if (value->type_index != BP_TYPE_FUNCTION)
    return bp__relax_wrong_type(value, "a function");
  *function = (BpFunction *)value->v_obj;
  return 0;
}

/* Arguments and result: (function, arguments to bind) -> function */
static int make_closure(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  BpFunction *function;
  if (bp__relax_check_count(num_args, 1, INT32_MAX) < 0 || get_function(&args[0], &function) < 0)
    return -1;
  BpFunction *closure = bp__relax_bind_last(machine, function, args + 1, num_args - 1);
  if (!closure)
    return -1;
  set_object(result, BP_TYPE_FUNCTION, closure);
  return 0;
}

/* Arguments and result: (machine, function, arguments) -> the function's result */
static int invoke_closure(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result) {
  BpFunction *function;
  (void)machine;
  if (bp__relax_check_count(num_args, 2, INT32_MAX) < 0 || get_function(&args[1], &function) < 0)
    return -1;
  return bp_function_call(function, args + 2, num_args - 2, result);
}

/* Arguments: (function, arguments, shape); the function gets the extents as further arguments. */
static int call_tir_dyn(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  BpFunction *function;
  const BpShape *shape;
  (void)machine;
  if (bp__relax_check_count(num_args, 2, INT32_MAX) < 0 || get_function(&args[0], &function) < 0 ||
      get_shape(&args[num_args - 1], &shape) < 0)
    return -1;
  size_t given = (size_t)num_args - 2, all = given + shape->size;
  BpValue *values = malloc((all + 1) * sizeof(*values));
  if (!values)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the arguments of a call");
  memcpy(values, args + 1, given * sizeof(*values));
  for (size_t i = 0; i < shape->size; i++)
    values[given + i] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = shape->data[i]};
  int status = bp_function_call(function, values, (int32_t)all, result);
  free(values);
  return status;
}

/* ---- The table --------------------------------------------------------------------------- */

typedef struct Builtin {
  const char *name; /* name after the prefix */
  BpRelaxBuiltin call;
} Builtin;

static const Builtin builtins[] = {
    {"alloc_shape_heap", alloc_shape_heap},
    {"alloc_storage", alloc_storage},
    {"alloc_tensor", alloc_tensor},
    {"append", bp__relax_append},
    {"arena_tensor", bp__relax_arena_tensor},
    {"call_tir_dyn", call_tir_dyn},
    {"check_extent", check_extent},
    {"check_func_info", check_func_info},
    {"check_list", bp__relax_check_list},
    {"check_prim_value_info", check_prim_value_info},
    {"check_shape_info", check_shape_info},
    {"check_string_info", check_string_info},
    {"check_tensor_info", check_tensor_info},
    {"check_tuple_info", check_tuple_info},
    {"compute", compute},
    {"copy", copy},
    {"copy_list", bp__relax_copy_list},
    {"ensure_zero_offset", ensure_zero_offset},
    {"fail", bp__relax_fail},
    {"find_room", bp__relax_find_room},
    {"int_tensor", int_tensor},
    {"invoke_closure", invoke_closure},
    {"kept_heap", bp__relax_kept_heap},
    {"kept_tensor", bp__relax_kept_tensor},
    {"kept_tuple", bp__relax_kept_tuple},
    {"kept_view", bp__relax_kept_view},
    {"loop_holds", loop_holds},
    {"make_closure", make_closure},
    {"make_prim_value", make_prim_value},
    {"make_shape", make_shape},
    {"make_tuple", make_tuple},
    {"match_elements", match_elements},
    {"match_prim_value", match_prim_value},
    {"match_shape", match_shape},
    {"next_number", next_number},
    {"null_value", null_value},
    {"open_extent", open_extent},
    {"plan_arena", bp__relax_plan_arena},
    {"push_element", push_element},
    {"read_if_cond", read_if_cond},
    {"reshape", reshape},
    {"sequence_at", bp__relax_sequence_at},
    {"sequence_concat", bp__relax_sequence_concat},
    {"sequence_erase", bp__relax_sequence_erase},
    {"sequence_insert", bp__relax_sequence_insert},
    {"sequence_length", bp__relax_sequence_length},
    {"sequence_split", bp__relax_sequence_split},
    {"shape_of", shape_of},
    {"take_elements", take_elements},
    {"tensor_to_shape", tensor_to_shape},
    {"to_device", to_device},
    {"to_machine_device", to_machine_device},
    {"tuple_getitem", tuple_getitem},
    {"tuple_reset_item", tuple_reset_item},
    {"without_room", bp__relax_without_room},
};
#define NUM_BUILTINS (sizeof(builtins) / sizeof(builtins[0]))

BpRelaxBuiltin bp__relax_builtin_find(const char *name) {
  size_t prefix = strlen(BP_RELAX_BUILTIN_PREFIX);
  if (strncmp(name, BP_RELAX_BUILTIN_PREFIX, prefix) != 0)
    return NULL;
  for (size_t i = 0; i < NUM_BUILTINS; i++)
    if (strcmp(builtins[i].name, name + prefix) == 0)
      return builtins[i].call;
  return NULL;
}

static int call_builtin(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Builtin *builtin = ((BpClosure *)self)->context;
  BpRelaxMachine *machine = bp__relax_machine_current();
  if (!machine)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          BP_RELAX_BUILTIN_PREFIX "%s is for code that a Relax machine runs",
                          builtin->name);
  return builtin->call(machine, args, num_args, result);
}

static int register_one(const Builtin *builtin) {
  char name[64] = BP_RELAX_BUILTIN_PREFIX;
  strncat(name, builtin->name, sizeof(name) - sizeof(BP_RELAX_BUILTIN_PREFIX));
  BpFunction *function = bp_function_create(call_builtin, (void *)(uintptr_t)builtin, NULL);
  if (!function)
    return -1;
  int status = bp_registry_set(name, function, 1);
  bp_object_release(function);
  return status;
}

int bp__relax_builtin_register(void) {
  for (size_t i = 0; i < NUM_BUILTINS; i++)
    if (register_one(&builtins[i]) < 0)
      return -1;
  return 0;
}
