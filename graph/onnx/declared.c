/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the types that a graph declares for its values with the types that its nodes compute.
 * Shapes of nodes' outputs are not compared: files often declare extents of another batch. */
#include <inttypes.h>
#include <stdio.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/onnx/scope.h"
#include "graph/ops/op.h"

#define TYPE_TEXT 48

static const char *format_declared(const OnnxValueInfo *info, char text[TYPE_TEXT]) {
  const Backplane__Onnx__TensorTypeProto *tensor = info->type->tensor_type;
  BpDataType dtype;
  if (!tensor)
    return "a sequence";
  if (bp__dtype_from_onnx(tensor->elem_type, &dtype))
    snprintf(text, TYPE_TEXT, "the type of number %" PRId32, tensor->elem_type);
  else
    bp_dtype_format(dtype, text, TYPE_TEXT);
  return text;
}

static const char *format_computed(const BpGraphValue *value, char text[TYPE_TEXT]) {
  if (value->sequence)
    return "a sequence or an optional";
  bp_dtype_format(value->dtype, text, TYPE_TEXT);
  return text;
}

/* Whether a value can be of the declared type; 1 if the file declares none. */
static int fits(const OnnxValueInfo *info, const BpGraphValue *value) {
  const Backplane__Onnx__TypeProto *type = info->type;
  BpDataType dtype;
  if (!type || !type->tensor_type)
    return !type || !type->has_sequence_type || value->sequence;
  if (!type->tensor_type->elem_type)
    return 1;
  return !value->sequence && !bp__dtype_from_onnx(type->tensor_type->elem_type, &dtype) &&
         bp__dtype_equal(dtype, value->dtype);
}

static int raise_other(const OnnxValueInfo *info, const BpGraphValue *value, const char *what) {
  char declared[TYPE_TEXT], computed[TYPE_TEXT];
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s '%s' is %s, but the model declares %s for it; correct the declared "
                        "type in the model",
                        what, info->name, format_computed(value, computed),
                        format_declared(info, declared));
}

GHashTable *bp__onnx_declared(const OnnxGraph *onnx) {
  GHashTable *declared = g_hash_table_new(g_str_hash, g_str_equal);
  for (size_t i = 0; i < onnx->n_value_info; i++)
    if (!is_empty(onnx->value_info[i]->name))
      g_hash_table_insert(declared, onnx->value_info[i]->name, onnx->value_info[i]);
  for (size_t i = 0; i < onnx->n_output; i++)
    if (!is_empty(onnx->output[i]->name))
      g_hash_table_insert(declared, onnx->output[i]->name, onnx->output[i]);
  return declared;
}

int bp__onnx_check_type(const OnnxValueInfo *info, const BpGraphValue *value, const char *what) {
  return fits(info, value) ? 0 : raise_other(info, value, what);
}

int bp__onnx_check_default(const OnnxValueInfo *info, const BpGraphValue *value) {
  const Backplane__Onnx__TensorTypeProto *type = info->type ? info->type->tensor_type : NULL;
  if (bp__onnx_check_type(info, value, "the initializer of input"))
    return -1;
  if (!type || !type->shape)
    return 0;
  int is_same = type->shape->n_dim == (size_t)value->ndim;
  for (size_t i = 0; i < type->shape->n_dim && is_same; i++) {
    int64_t extent = bp__onnx_extent(type->shape->dim[i]);
    is_same = extent < 0 || extent == value->shape[i];
  }
  return is_same ? 0
                 : bp_error_raise(BP_ERROR_FORMAT,
                                  "the initializer of input '%s' has another shape than the model "
                                  "declares for the input; correct one of the two in the model",
                                  info->name);
}
