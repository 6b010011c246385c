/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of the interpreted function, and the calls that the function makes. */

#include <inttypes.h>
#include <stdlib.h>

#include <backplane/object.h>

#include "compiler/ir/interpreter/state.h"
#include "compiler/ir/syntax.h"

#define MAX_CALL_DEPTH 32
#define MAX_ARGS       256
#define MAX_NDIM       32

/* ---- Values ------------------------------------------------------------------------------ */

/* Reads a number from a BpValue; false if the value's type is not the type of the parameter. */
static bool from_value(BpDataType dtype, const BpValue *value, BpIrScalar *result) {
  bool is_float = bp__dtype_is_float(dtype);
  switch (value->type_index) {
  case BP_TYPE_INT:
  case BP_TYPE_BOOL:
    if (dtype.code == BP_DTYPE_HANDLE)
      return false;
    if (is_float)
      result->f = bp__scalar_round(dtype, (double)value->v_int64);
    else
      result->i = bp__scalar_wrap(dtype, value->v_int64);
    return true;
  case BP_TYPE_FLOAT:
    result->f = bp__scalar_round(dtype, value->v_float64);
    return is_float;
  case BP_TYPE_POINTER:
    result->i = (int64_t)(intptr_t)value->v_ptr;
    return dtype.code == BP_DTYPE_HANDLE;
  default:
    return false;
  }
}

static BpValue to_value(const BpOp *op, BpIrScalar scalar) {
  BpValue value = {.type_index = BP_TYPE_INT};
  value.v_int64 = scalar.i;
  if (bp__dtype_is_float(op->dtype)) {
    value.type_index = BP_TYPE_FLOAT;
    value.v_float64 = scalar.f;
  } else if (bp__dtype_is_bool(op->dtype)) {
    value.type_index = BP_TYPE_BOOL;
  } else if (op->kind == BP_IR_STR_IMM) {
    value.type_index = BP_TYPE_RAW_STR;
    value.v_cstr = op->node->str_value;
  } else if (op->dtype.code == BP_DTYPE_HANDLE) {
    value.type_index = BP_TYPE_POINTER;
    value.v_ptr = (void *)(intptr_t)scalar.i;
  }
  return value;
}

/* ---- The function's arguments ------------------------------------------------------------ */

static const BpTensorView *view_of(const BpValue *value) {
  if (value->type_index == BP_TYPE_TENSOR_VIEW)
    return value->v_view;
  if (value->type_index == BP_TYPE_TENSOR)
    return &((const BpTensor *)value->v_obj)->view;
  return NULL;
}

/* Checks that an argument is a compact tensor in host memory; -1 with an error for any other
 * tensor. */
static int check_view(const BpTensorView *view, const BpOp *param, int64_t *size) {
  const char *name = param->node->str_value;
  *size = 1;
  for (int32_t i = view->ndim - 1; i >= 0; i--) {
    if (view->strides && view->shape[i] > 1 && view->strides[i] != *size)
      return bp_error_raise(BP_ERROR_VALUE, "the tensor for '%s' is not compact", name);
    if (view->shape[i] < 0 || __builtin_mul_overflow(*size, view->shape[i], size))
      return bp_error_raise(BP_ERROR_VALUE, "the tensor for '%s' has extent %" PRId64, name,
                            view->shape[i]);
  }
  if (view->device.device_type != BP_DEVICE_CPU)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the tensor for '%s' is not in host memory; copy it to the CPU", name);
  if (!bp__dtype_equal(view->dtype, param->dtype)) {
    char is[32], should[32];
    bp__ir_format_dtype(view->dtype, is);
    bp__ir_format_dtype(param->dtype, should);
    return bp_error_raise(BP_ERROR_TYPE, "the tensor for '%s' holds %s, not %s", name, is, should);
  }
  return 0;
}

static int bind_buffer(BpThread *thread, const BpOp *param, const BpValue *arg) {
  const BpTensorView *view = view_of(arg);
  int64_t size, wanted;
  if (!view)
    return bp_error_raise(BP_ERROR_TYPE, "the argument for '%s' is %s, not a tensor",
                          param->node->str_value, bp_type_name(arg->type_index));
  if (check_view(view, param, &size) || bp__interpreter_buffer_size(thread, param, &wanted))
    return -1;
  if (size != wanted)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the tensor for '%s' has %" PRId64 " elements, not %" PRId64,
                          param->node->str_value, size, wanted);
  thread->buffers[param->buffer] =
      (BpStorage){.data = (char *)view->data + view->byte_offset, .size = size, .owned = false};
  return 0;
}

int bp__interpreter_bind_args(BpThread *thread, const BpValue *args, int32_t num_args) {
  const BpProgram *program = thread->program;
  int32_t num_params = bp__ir_function_num_params(program->function);
  if (num_args != num_params)
    return bp_error_raise(BP_ERROR_TYPE, "it takes %d arguments, not %d", num_params, num_args);
  /* Scalars are bound first: the shapes of buffers depend on their values. */
  for (int32_t i = 0; i < num_params; i++) {
    const BpOp *param = program->params[i];
    if (param->kind == BP_IR_VAR &&
        !from_value(param->dtype, &args[i], &thread->frame[param->slot]))
      return bp_error_raise(BP_ERROR_TYPE, "the argument for '%s' has type %s",
                            param->node->str_value, bp_type_name(args[i].type_index));
  }
  for (int32_t i = 0; i < num_params; i++)
    if (program->params[i]->kind == BP_IR_BUFFER &&
        bind_buffer(thread, program->params[i], &args[i]))
      return -1;
  return 0;
}

/* ---- Calls ------------------------------------------------------------------------------- */

typedef struct CallArgs {
  BpValue values[MAX_ARGS];
  BpTensorView *views;
  int64_t (*shapes)[MAX_NDIM];
} CallArgs;

static int view_buffer(BpThread *thread, const BpOp *buffer, BpTensorView *view, int64_t *shape) {
  if (buffer->num_operands > MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "buffer '%s' has more than %d dimensions",
                          buffer->node->str_value, MAX_NDIM);
  for (int32_t i = 0; i < buffer->num_operands; i++) {
    const BpIrScalar *extent = bp__interpreter_eval(thread, buffer->operands[i]);
    if (!extent)
      return -1;
    shape[i] = extent->i;
  }
  *view = (BpTensorView){.data = thread->buffers[buffer->buffer].data,
                         .device = {BP_DEVICE_CPU, 0},
                         .ndim = buffer->num_operands,
                         .dtype = buffer->dtype,
                         .shape = shape};
  return 0;
}

static int make_args(BpThread *thread, const BpOp *op, CallArgs *args) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const BpOp *operand = op->operands[i];
    if (operand->kind == BP_IR_BUFFER) {
      if (view_buffer(thread, operand, &args->views[i], args->shapes[i]))
        return -1;
      args->values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
      args->values[i].v_view = &args->views[i];
      continue;
    }
    const BpIrScalar *scalar = bp__interpreter_eval(thread, operand);
    if (!scalar)
      return -1;
    args->values[i] = to_value(operand, *scalar);
  }
  return 0;
}

static int call_registered(const BpOp *op, const CallArgs *args, BpValue *result) {
  BpFunction *function;
  if (bp_registry_get(op->node->str_value, &function))
    return -1;
  if (!function)
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "neither the IR module nor the registry has a function '%s'",
                          op->node->str_value);
  int rc = bp_function_call(function, args->values, op->num_operands, result);
  bp_object_release(function);
  return rc;
}

static int call_with(BpThread *thread, const BpOp *op, const CallArgs *args, BpIrScalar *result) {
  const BpProgram *program = thread->program;
  const BpIrNode *callee = bp_ir_module_find(program->module, op->node->str_value);
  BpValue value = {0};
  int rc = callee ? bp__interpreter_run(program->module, callee, args->values, op->num_operands,
                                        program->depth + 1, program->left)
                  : call_registered(op, args, &value);
  if (!rc && !bp__dtype_is_void(op->dtype) && !from_value(op->dtype, &value, result))
    rc = bp_error_raise(BP_ERROR_TYPE, "function '%s' returned %s", op->node->str_value,
                        bp_type_name(value.type_index));
  bp_value_clear(&value);
  return rc;
}

int bp__interpreter_call(BpThread *thread, const BpOp *op, BpIrScalar *result) {
  if (op->node->int_value == BP_IR_CALL_EXTERN)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the interpreter cannot call the C function '%s'; use a packed call",
                          op->node->str_value);
  if (op->num_operands > MAX_ARGS)
    return bp_error_raise(BP_ERROR_VALUE, "a call of '%s' with more than %d arguments",
                          op->node->str_value, MAX_ARGS);
  if (thread->program->depth >= MAX_CALL_DEPTH)
    return bp_error_raise(BP_ERROR_VALUE, "calls are nested deeper than %d at '%s'", MAX_CALL_DEPTH,
                          op->node->str_value);
  size_t count = (size_t)op->num_operands + 1;
  CallArgs *args = calloc(1, sizeof *args);
  BpTensorView *views = calloc(count, sizeof *views);
  int64_t(*shapes)[MAX_NDIM] = calloc(count, sizeof *shapes);
  int rc;
  if (args && views && shapes) {
    args->views = views;
    args->shapes = shapes;
    rc = make_args(thread, op, args) ? -1 : call_with(thread, op, args, result);
  } else {
    rc = bp_error_raise(BP_ERROR_MEMORY, "no memory to call '%s'", op->node->str_value);
  }
  free(args);
  free(views);
  free(shapes);
  return rc;
}
