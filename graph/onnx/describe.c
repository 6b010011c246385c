/* SPDX-License-Identifier: Apache-2.0 */
/* What an ONNX file says of its inputs and outputs, as it is. */
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/model.h>

#include "graph/io/given.h"
#include "graph/onnx/import.h"
#include "graph/ops/op.h"

static int visit_value(const OnnxValueInfo *value, int32_t role, BpTensorVisit visit,
                       void *visitor) {
  const Backplane__Onnx__TensorTypeProto *type = value->type ? value->type->tensor_type : NULL;
  BpModelTensorInfo info = {
      .struct_size = sizeof info, .name = value->name ? value->name : "", .ndim = -1};
  int64_t extents[BP_GRAPH_MAX_NDIM];
  if (!type || bp__dtype_from_onnx(type->elem_type, &info.dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "'%s' is not a tensor of a supported type",
                          info.name);
  if (type->shape && type->shape->n_dim > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "'%s' has %zu dimensions, at most %d work",
                          info.name, type->shape->n_dim, BP_GRAPH_MAX_NDIM);
  if (type->shape) {
    info.ndim = (int32_t)type->shape->n_dim;
    info.shape = extents;
  }
  for (int32_t i = 0; i < info.ndim; i++)
    extents[i] = bp__onnx_extent(type->shape->dim[i]);
  return visit(visitor, role, &info);
}

/* Older files list all initializers among the inputs; there they are constants. */
static int visit_input(const OnnxModel *model, const OnnxValueInfo *input, BpTensorVisit visit,
                       void *visitor) {
  if (!bp__onnx_initializer(model->graph, input->name))
    return visit_value(input, BP_TENSOR_INPUT, visit, visitor);
  return bp__onnx_has_defaults(model) ? visit_value(input, BP_TENSOR_DEFAULT, visit, visitor) : 0;
}

int bp_onnx_visit_tensors(const char *onnx_path, BpTensorVisit visit, void *visitor) {
  if (!BP_GIVEN(onnx_path) || !BP_GIVEN(visit))
    return -1;
  OnnxModel *model = bp__onnx_read(onnx_path);
  if (!model)
    return -1;
  const OnnxGraph *graph = model->graph;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < graph->n_input; i++)
    rc = visit_input(model, graph->input[i], visit, visitor);
  for (size_t i = 0; rc == 0 && i < graph->n_output; i++)
    rc = visit_value(graph->output[i], BP_TENSOR_OUTPUT, visit, visitor);
  bp__onnx_free(model);
  return rc < 0 ? bp_error_add_context("%s", onnx_path) : rc;
}

int bp_onnx_check_operators(const char *onnx_path) {
  if (!BP_GIVEN(onnx_path))
    return -1;
  OnnxModel *model = bp__onnx_read(onnx_path);
  int status = model ? bp__onnx_check_operators(model) : -1;
  bp__onnx_free(model);
  return status;
}
