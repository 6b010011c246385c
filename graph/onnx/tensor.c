/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of an ONNX file. The elements of a tensor are in raw_data, or in the typed list that
 * list_of chooses by type. */
#include <inttypes.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/reader.h"
#include "graph/ops/op.h"

/* A typed list. The list's elements are at least as wide as the type's; wider elements are
 * narrowed. */
typedef struct List {
  const void *data;
  size_t count;
  size_t width; /* bytes of an element of the list */
} List;

static List typed_list(const OnnxTensor *tensor) {
  switch (tensor->data_type) {
  case 1: /* FLOAT */
    return (List){tensor->float_data, tensor->n_float_data, 4};
  case 11: /* DOUBLE */
    return (List){tensor->double_data, tensor->n_double_data, 8};
  case 7: /* INT64 */
    return (List){tensor->int64_data, tensor->n_int64_data, 8};
  case 12: /* UINT32 */
  case 13: /* UINT64 */
    return (List){tensor->uint64_data, tensor->n_uint64_data, 8};
  default: /* narrow integers, bool, and the bits of narrow floats */
    return (List){tensor->int32_data, tensor->n_int32_data, 4};
  }
}

static const void *narrow(BpGraph *graph, const List *list, size_t width) {
  char *data = bp__arena_alloc_array(&graph->arena, list->count, width);
  for (size_t i = 0; data && i < list->count; i++)
    memcpy(data + i * width, (const char *)list->data + i * list->width, width);
  return data;
}

static int check_storage(const OnnxTensor *tensor, const char *name) {
  if (tensor->data_location != 0)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "tensor '%s' of a function or a branch has its data in another file, "
                          "which is not read; save the model with its data inside "
                          "(onnx.save(model, path) after onnx.load)",
                          name);
  if (tensor->n_dims > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "tensor '%s' has %zu dimensions, at most %d work", name, tensor->n_dims,
                          BP_GRAPH_MAX_NDIM);
  return 0;
}

static const void *elements(BpGraph *graph, const OnnxTensor *tensor, const BpGraphValue *shape) {
  int64_t count = bp__value_num_elements(shape), bytes = bp__value_num_bytes(shape);
  int64_t listed = shape->dtype.bits < 8 ? bytes : count; /* one byte for each element */
  size_t width = count > 0 ? (size_t)(bytes / listed) : 1;
  List list = typed_list(tensor);
  static const char none[8];
  if (count == 0)
    return none;
  if (tensor->has_raw_data) {
    if (tensor->raw_data.len == (size_t)bytes)
      return tensor->raw_data.data;
    bp_error_raise(BP_ERROR_FORMAT, "tensor '%s' has %zu bytes instead of %" PRId64, shape->name,
                   tensor->raw_data.len, bytes);
    return NULL;
  }
  if (list.count != (size_t)listed) {
    bp_error_raise(BP_ERROR_FORMAT, "tensor '%s' has %zu elements instead of %" PRId64, shape->name,
                   list.count, listed);
    return NULL;
  }
  return width == list.width ? list.data : narrow(graph, &list, width);
}

BpGraphValue *bp__onnx_constant(BpGraph *graph, const OnnxTensor *tensor, const char *name) {
  BpDataType dtype;
  BpGraphValue *value;
  if (check_storage(tensor, name))
    return NULL;
  if (bp__dtype_from_onnx(tensor->data_type, &dtype)) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "tensor '%s' has type number %d, which is not supported", name,
                   tensor->data_type);
    return NULL;
  }
  value = bp__graph_value(graph, name, dtype, tensor->dims, (int32_t)tensor->n_dims);
  if (!value)
    return NULL;
  bp__graph_budget(graph)->given += bp__value_num_bytes(value);
  value->data = elements(graph, tensor, value);
  return value->data ? value : NULL;
}
