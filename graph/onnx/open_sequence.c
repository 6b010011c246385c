/* SPDX-License-Identifier: Apache-2.0 */
/* Open sequences, whose tensors only a run knows. The machine executes the nodes that make and read
 * open sequences (graph/ops/control.h). The type of an open sequence has the element type of its
 * tensors and their common extents; if extents differ, each tensor that is taken out gets new
 * symbols. */
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"

/* ---- Types ------------------------------------------------------------------------------- */

static BpGraphSequence type_of(const BpGraphValue *tensor) {
  BpGraphSequence type = {.is_open = true, .dtype = tensor->dtype, .ndim = tensor->ndim};
  memcpy(type.shape, tensor->shape, sizeof(type.shape));
  return type;
}

static bool has_tensors(const BpGraphSequence *type) {
  return type->dtype.bits > 0;
}

/* Whether all that is known of an optional is that it has no value. */
static bool is_none(const BpGraphSequence *type) {
  return !has_tensors(type) && !type->has_sequences;
}

static int raise_types(const BpGraphNode *named, BpDataType a, BpDataType b) {
  char one[32], other[32];
  bp_dtype_format(a, one, sizeof one);
  bp_dtype_format(b, other, sizeof other);
  return bp__op_bad(named, "the tensors of its sequence differ in type: %s and %s", one, other);
}

int bp__sequence_join(const BpGraphNode *named, BpGraphSequence *type,
                      const BpGraphSequence *other) {
  int changed = 0;
  if (type->is_optional != other->is_optional)
    return bp__op_bad(named, "it gives a sequence in one case and an optional in another");
  if (is_none(other))
    return 0;
  if (is_none(type)) {
    *type = *other;
    return 1;
  }
  if (type->has_sequences != other->has_sequences)
    return bp__op_bad(named, "it gives an optional tensor in one case and an optional sequence in "
                             "another");
  if (has_tensors(type) && has_tensors(other) && !bp__dtype_equal(type->dtype, other->dtype))
    return raise_types(named, type->dtype, other->dtype);
  if (!has_tensors(other))
    return 0;
  if (!has_tensors(type)) {
    *type = *other;
    return 1;
  }
  if (other->ndim == BP_NDIM_NONE || type->ndim == BP_NDIM_ANY)
    return 0;
  if (type->ndim == BP_NDIM_NONE) {
    *type = *other;
    return 1;
  }
  if (type->ndim != other->ndim) {
    type->ndim = BP_NDIM_ANY;
    return 1;
  }
  for (int32_t d = 0; d < type->ndim; d++) {
    if (type->shape[d] == other->shape[d] || type->shape[d] == BP_EXTENT_NONE)
      continue;
    type->shape[d] = BP_EXTENT_NONE;
    changed++;
  }
  return changed;
}

BpGraphValue *bp__sequence_value(BpGraph *graph, const char *name, const BpGraphSequence *type) {
  BpGraphValue *value = bp__graph_value(graph, name, BP__INT64, NULL, 0);
  if (!value || !(value->sequence = bp__arena_alloc(&graph->arena, sizeof(*value->sequence))))
    return NULL;
  *value->sequence = *type;
  return value;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static BpGraphNode *add_node(BpGraph *graph, const BpGraphNode *named, BpSequenceOp op,
                             BpGraphValue *const *inputs, int32_t num_inputs,
                             const BpGraphAttr *attrs, int32_t num_attrs) {
  if (!bp__graph_can_control(graph)) {
    bp__op_error(named, "the data decides about its sequence, which needs one --target");
    return NULL;
  }
  BpGraphNode *node = bp__graph_use_node(graph)
                          ? NULL
                          : bp__graph_node(graph, &bp__op_sequences[op], named->name, inputs,
                                           num_inputs, 1, attrs, num_attrs);
  if (!node || bp__list_push(&graph->nodes, node))
    return NULL;
  node->is_control = 1;
  return node;
}

/* Makes the sequence that a node outputs. */
static BpGraphValue *give_sequence(BpGraph *graph, BpGraphNode *node, const BpGraphSequence *type) {
  if (!node || bp__node_set_output(graph, node, 0, BP__INT64, NULL, 0))
    return NULL;
  BpGraphSequence *sequence = bp__arena_alloc(&graph->arena, sizeof(*sequence));
  if (!sequence)
    return NULL;
  *sequence = *type;
  node->outputs[0]->sequence = sequence;
  return node->outputs[0];
}

/* Makes the tensor that a node outputs. An extent of BP_EXTENT_NONE is known after the node has
 * run. */
static BpGraphValue *give_tensor(BpGraph *graph, BpGraphNode *node, BpDataType dtype,
                                 const int64_t *extents, int32_t ndim) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  for (int32_t d = 0; node && d < ndim; d++) {
    shape[d] = extents[d] == BP_EXTENT_NONE ? bp__op_new_symbol(graph, node) : extents[d];
    if (shape[d] == BP_EXTENT_NONE)
      return NULL;
    node->is_kept |= extents[d] == BP_EXTENT_NONE;
  }
  return node && !bp__node_set_output(graph, node, 0, dtype, shape, ndim) ? node->outputs[0] : NULL;
}

BpGraphValue *bp__sequence_open(BpGraph *graph, const BpGraphNode *named, BpGraphValue *value) {
  const BpGraphSequence *settled = value->sequence;
  if (bp__is_open_sequence(value))
    return value;
  BpGraphSequence type = {.is_open = true,
                          .is_optional = !settled || settled->is_none,
                          .dtype = settled ? settled->dtype : value->dtype,
                          .ndim = BP_NDIM_NONE};
  BpGraphValue *const *items = settled ? settled->items : &value;
  int32_t count = settled ? settled->count : 1;
  for (int32_t i = 0; i < count; i++) {
    BpGraphSequence one = type_of(items[i]);
    one.is_optional = type.is_optional;
    if (bp__sequence_join(named, &type, &one) < 0)
      return NULL;
  }
  return give_sequence(graph, add_node(graph, named, BP_SEQUENCE_CONSTRUCT, items, count, NULL, 0),
                       &type);
}

BpGraphValue *bp__sequence_make_optional(BpGraph *graph, const BpGraphNode *named,
                                         BpGraphValue *value) {
  bool is_sequence = value->sequence && !bp__is_optional(value);
  value = bp__sequence_open(graph, named, value);
  if (!value || !is_sequence)
    return value;
  BpGraphSequence type = *value->sequence;
  type.is_optional = type.has_sequences = true;
  return give_sequence(graph, add_node(graph, named, BP_SEQUENCE_CONSTRUCT, &value, 1, NULL, 0),
                       &type);
}

BpGraphValue *bp__sequence_insert(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  BpGraphValue *tensor, BpGraphValue *position) {
  BpGraphSequence type = *sequence->sequence, one = type_of(tensor);
  BpGraphValue *inputs[] = {sequence, tensor, position};
  one.is_optional = type.is_optional;
  if (bp__sequence_join(named, &type, &one) < 0)
    return NULL;
  return give_sequence(
      graph, add_node(graph, named, BP_SEQUENCE_INSERT, inputs, position ? 3 : 2, NULL, 0), &type);
}

BpGraphValue *bp__sequence_erase(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                 BpGraphValue *position) {
  BpGraphValue *inputs[] = {sequence, position};
  return give_sequence(graph,
                       add_node(graph, named, BP_SEQUENCE_ERASE, inputs, position ? 2 : 1, NULL, 0),
                       sequence->sequence);
}

/* Whether no run can put a tensor into the sequence or optional. */
static bool is_never_filled(const BpGraphSequence *type) {
  return is_none(type) || (!type->has_sequences && type->ndim == BP_NDIM_NONE);
}

/* Fails with -1 if no run can insert a given tensor into the sequence, or if the number of
 * dimensions of its tensors is not known. */
static int check_tensors(const BpGraphNode *named, const BpGraphValue *sequence) {
  const BpGraphSequence *type = sequence->sequence;
  if (!is_never_filled(type))
    return type->ndim != BP_NDIM_ANY
               ? 0
               : bp__op_error(named,
                              "the tensors of its sequence may differ in their number of "
                              "dimensions, which is not supported where the data decides about "
                              "it; --shape gives the tensors of an input one shape");
  return bp__op_bad(named, "its %s never has a %s", type->is_optional ? "optional" : "sequence",
                    type->is_optional ? "value" : "tensor");
}

BpGraphValue *bp__sequence_at(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                              BpGraphValue *position) {
  const BpGraphSequence *type = sequence->sequence;
  BpGraphValue *inputs[] = {sequence, position};
  if (!type->has_sequences && check_tensors(named, sequence))
    return NULL;
  BpGraphNode *node = add_node(graph, named, BP_SEQUENCE_AT, inputs, position ? 2 : 1, NULL, 0);
  if (!type->has_sequences)
    return give_tensor(graph, node, type->dtype, type->shape, type->ndim);
  BpGraphSequence inner = *type;
  inner.is_optional = inner.has_sequences = false;
  return give_sequence(graph, node, &inner);
}

BpGraphValue *bp__sequence_length(BpGraph *graph, const BpGraphNode *named,
                                  BpGraphValue *sequence) {
  return give_tensor(graph, add_node(graph, named, BP_SEQUENCE_LENGTH, &sequence, 1, NULL, 0),
                     BP__INT64, NULL, 0);
}

static int check_moves(const BpGraphNode *named, BpDataType dtype) {
  return dtype.bits % 8
             ? bp__op_error(named, "its tensors have elements of less than a byte, which is not "
                                   "supported where the data decides about a sequence")
             : 0;
}

BpGraphValue *bp__sequence_concat(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  int64_t axis_number, bool is_new) {
  const BpGraphSequence *type = sequence->sequence;
  int64_t shape[BP_GRAPH_MAX_NDIM + 1];
  int32_t axis, ndim = type->ndim + is_new;
  if (check_tensors(named, sequence) || check_moves(named, type->dtype) ||
      bp__op_axis(named, axis_number, ndim, &axis))
    return NULL;
  if (ndim > BP_GRAPH_MAX_NDIM) {
    bp__op_error(named, "its output has %d dimensions, at most %d work", ndim, BP_GRAPH_MAX_NDIM);
    return NULL;
  }
  for (int32_t d = 0; d < ndim; d++)
    shape[d] = d == axis ? BP_EXTENT_NONE : type->shape[d - (is_new && d > axis)];
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "axis", axis),
                               bp__attr_int(graph, "new_axis", is_new)};
  return give_tensor(graph, add_node(graph, named, BP_SEQUENCE_CONCAT, &sequence, 1, attrs, 2),
                     type->dtype, shape, ndim);
}

BpGraphValue *bp__sequence_split(BpGraph *graph, const BpGraphNode *named, BpGraphValue *tensor,
                                 BpGraphValue *split, int32_t axis, bool keeps_axis) {
  BpGraphSequence type = type_of(tensor);
  BpGraphValue *inputs[] = {tensor, split};
  if (check_moves(named, type.dtype))
    return NULL;
  type.shape[axis] = split ? BP_EXTENT_NONE : 1;
  if (!keeps_axis) {
    type.ndim--;
    memmove(type.shape + axis, type.shape + axis + 1,
            (size_t)(type.ndim - axis) * sizeof(*type.shape));
  }
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "axis", axis),
                               bp__attr_int(graph, "keepdims", keeps_axis)};
  return give_sequence(
      graph, add_node(graph, named, BP_SEQUENCE_SPLIT, inputs, split ? 2 : 1, attrs, 2), &type);
}

/* ---- Failing ----------------------------------------------------------------------------- */

BpGraphValue *bp__sequence_fail(BpGraph *graph, const BpGraphNode *named, const char *error,
                                const BpGraphSequence *type, bool is_sequence) {
  const BpGraphAttr attr = {.name = "error", .type = BP_GRAPH_ATTR_STRING, .str = error};
  BpGraphNode *node = add_node(graph, named, BP_SEQUENCE_FAIL, NULL, 0, &attr, 1);
  BpGraphValue *value = is_sequence
                            ? give_sequence(graph, node, type)
                            : give_tensor(graph, node, type->dtype, type->shape, type->ndim);
  if (value)
    node->is_kept = 1;
  return value;
}
