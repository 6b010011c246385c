/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals. The importer settles sequences with a known length that nodes access at
 * known positions: a settled sequence is the list of its tensors, a settled optional is its value
 * or none, and no node of the graph computes either. All other sequences are open
 * (open_sequence.c). */
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/op.h"

/* A node of the model with its inputs, for errors and for readers of constants. */
typedef struct Sequencing {
  Scope *scope;
  const OnnxNode *from;
  BpGraph *graph;
  BpOp op;
  BpGraphNode node;
} Sequencing;

/* ---- Values ------------------------------------------------------------------------------ */

static bool is_none(const BpGraphValue *value) {
  return value->sequence && value->sequence->is_none;
}

static BpGraphValue *sequence_of(const Sequencing *s, int32_t input) {
  BpGraphValue *value = bp__node_input(&s->node, input);
  if (value && value->sequence && !is_none(value) && !value->sequence->is_optional)
    return value;
  bp__op_bad(&s->node, "input %d is no sequence", input);
  return NULL;
}

static bool is_constant(const BpGraphValue *value) {
  return !value || value->data;
}

static BpGraphValue *tensor_of(const Sequencing *s, int32_t input) {
  BpGraphValue *value = bp__node_input(&s->node, input);
  if (value && !value->sequence)
    return value;
  bp__op_bad(&s->node, "input %d is no tensor", input);
  return NULL;
}

static BpGraphValue *new_sequence(const Sequencing *s, int64_t count) {
  if (count > INT32_MAX) {
    bp__op_error(&s->node, "its sequence has %lld tensors", (long long)count);
    return NULL;
  }
  return bp__graph_sequence(s->graph, s->node.name, (int32_t)count);
}

/* Outputs a settled sequence. The tensors of the sequence have one type: `dtype` or, if dtype.bits
 * is 0, the type of the first tensor. */
static int give(const Sequencing *s, BpGraphValue *value, BpDataType dtype,
                BpGraphValue **results) {
  BpGraphSequence *sequence = value ? value->sequence : NULL;
  if (!sequence)
    return -1;
  sequence->dtype = dtype;
  for (int32_t i = 0; i < sequence->count; i++) {
    if (!sequence->items[i])
      return -1;
    if (i == 0 && !sequence->dtype.bits)
      sequence->dtype = sequence->items[0]->dtype;
    if (!bp__dtype_equal(sequence->items[i]->dtype, sequence->dtype))
      return bp__op_bad(&s->node, "the tensors of its sequence differ in type");
  }
  results[0] = value;
  return 0;
}

/* Reads an attribute that is an integer. */
static int read_int(const Sequencing *s, const char *name, int64_t *value) {
  const OnnxAttribute *attribute =
      bp__onnx_find_attribute(s->from->attribute, s->from->n_attribute, name);
  if (attribute && bp__scope_resolve_attribute(s->scope, attribute, &attribute))
    return -1;
  if (attribute)
    *value = attribute->i;
  return 0;
}

/* Reads a position in a sequence from input `input`; `otherwise` if that is absent. The position
 * may count from the end, and is less than `end`. */
static int read_place(const Sequencing *s, int32_t input, int64_t otherwise, int64_t count,
                      int64_t end, int64_t *place) {
  int64_t given = otherwise;
  if (bp__node_input(&s->node, input)) {
    int32_t found = bp__op_const_ints(&s->node, input, &given, 1);
    if (found < 0)
      return -1;
    if (found != 1)
      return bp__op_bad(&s->node, "its position is not one number");
  }
  *place = given < 0 ? given + count : given;
  if (*place >= 0 && *place < end)
    return 0;
  return bp__op_bad(&s->node, "its position is %lld, in a sequence of %lld tensors",
                    (long long)given, (long long)count);
}

/* Outputs an open sequence, or NULL. */
static int give_open(BpGraphValue *value, BpGraphValue **results) {
  results[0] = value;
  return value ? 0 : -1;
}

/* The open sequence of input 0; NULL with an error. */
static BpGraphValue *open_sequence_of(const Sequencing *s) {
  BpGraphValue *value = sequence_of(s, 0);
  return value ? bp__sequence_open(s->graph, &s->node, value) : NULL;
}

static const BpDataType any_type = {0};

/* ---- Sequences --------------------------------------------------------------------------- */

static int add_construct(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *value = new_sequence(s, s->node.num_inputs);
  for (int32_t i = 0; value && i < s->node.num_inputs; i++)
    if (!(value->sequence->items[i] = tensor_of(s, i)))
      return -1;
  return give(s, value, any_type, results);
}

static int add_empty(Sequencing *s, BpGraphValue **results) {
  BpDataType dtype;
  int64_t type = 1; /* float32 */
  if (read_int(s, "dtype", &type))
    return -1;
  if (type < 0 || type > INT32_MAX || bp__dtype_from_onnx((int32_t)type, &dtype))
    return bp__op_error(&s->node, "its tensors would be of type %lld, which is not supported",
                        (long long)type);
  return give(s, new_sequence(s, 0), dtype, results);
}

/* Adds a node for an open sequence, or for one that becomes open because the data give the
 * position. */
static int add_open_at(Sequencing *s, BpGraphValue *position, BpGraphValue **results) {
  BpGraphValue *sequence = open_sequence_of(s);
  return give_open(sequence ? bp__sequence_at(s->graph, &s->node, sequence, position) : NULL,
                   results);
}

static int add_at(Sequencing *s, BpGraphValue **results) {
  const BpGraphValue *value = sequence_of(s, 0);
  const BpGraphSequence *sequence = value ? value->sequence : NULL;
  BpGraphValue *position = sequence ? tensor_of(s, 1) : NULL;
  int64_t place;
  if (!position)
    return -1;
  if (sequence->is_open || !is_constant(position))
    return add_open_at(s, position, results);
  if (read_place(s, 1, 0, sequence->count, sequence->count, &place))
    return -1;
  results[0] = sequence->items[place];
  return 0;
}

static int add_insert(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *from = sequence_of(s, 0), *position = bp__node_input(&s->node, 2);
  const BpGraphSequence *sequence = from ? from->sequence : NULL;
  BpGraphValue *tensor = sequence ? tensor_of(s, 1) : NULL, *value;
  int64_t place, count;
  if (!tensor || (position && !tensor_of(s, 2)))
    return -1;
  if (sequence->is_open || !is_constant(position))
    return give_open((from = open_sequence_of(s))
                         ? bp__sequence_insert(s->graph, &s->node, from, tensor, position)
                         : NULL,
                     results);
  count = sequence->count;
  if (read_place(s, 2, count, count, count + 1, &place) || !(value = new_sequence(s, count + 1)))
    return -1;
  for (int64_t i = 0; i <= count; i++)
    value->sequence->items[i] = i == place ? tensor : sequence->items[i - (i > place)];
  return give(s, value, sequence->dtype, results);
}

static int add_erase(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *from = sequence_of(s, 0), *position = bp__node_input(&s->node, 1);
  const BpGraphSequence *sequence = from ? from->sequence : NULL;
  BpGraphValue *value;
  int64_t place;
  if (!sequence || (position && !tensor_of(s, 1)))
    return -1;
  if (sequence->is_open || !is_constant(position))
    return give_open((from = open_sequence_of(s))
                         ? bp__sequence_erase(s->graph, &s->node, from, position)
                         : NULL,
                     results);
  if (read_place(s, 1, -1, sequence->count, sequence->count, &place) ||
      !(value = new_sequence(s, sequence->count - 1)))
    return -1;
  for (int32_t i = 0; i < value->sequence->count; i++)
    value->sequence->items[i] = sequence->items[i + (i >= place)];
  return give(s, value, sequence->dtype, results);
}

static int add_length(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *from = sequence_of(s, 0);
  const BpGraphSequence *sequence = from ? from->sequence : NULL;
  if (sequence && sequence->is_open)
    return give_open(bp__sequence_length(s->graph, &s->node, from), results);
  results[0] =
      sequence ? bp__graph_constant(s->graph, s->node.name, BP__INT64, NULL, 0, NULL) : NULL;
  if (results[0])
    *(int64_t *)bp__graph_constant_data(results[0]) = sequence->count;
  return results[0] ? 0 : -1;
}

/* Computes how an axis is split: into parts of `size` (the last part may be smaller), or into
 * `sizes`. */
static int split_parts(const Sequencing *s, BpGraphValue *in, int32_t axis, int64_t size,
                       const BpGraphValue *sizes, BpGraphValue **results) {
  int64_t extent = in->shape[axis], at = 0;
  int64_t count = sizes ? bp__value_num_elements(sizes) : (extent + size - 1) / size;
  BpGraphValue *value = new_sequence(s, count);
  for (int64_t i = 0; value && i < count; i++) {
    int64_t part = sizes ? bp__value_get_int(sizes, i) : extent - at < size ? extent - at : size;
    if (part < 0 || part > extent - at)
      return bp__op_bad(&s->node, "its split does not add up to %lld", (long long)extent);
    value->sequence->items[i] = bp__op_slice(s->graph, &s->node, in, axis, at, at + part);
    if (!value->sequence->items[i])
      return -1;
    at += part;
  }
  if (value && at != extent)
    return bp__op_bad(&s->node, "its split does not add up to %lld", (long long)extent);
  return give(s, value, in->dtype, results);
}

static int add_split(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *in = tensor_of(s, 0), *split = bp__node_input(&s->node, 1);
  int64_t axis_number = 0, keepdims = 1, size = 1;
  int32_t axis;
  if (!in || read_int(s, "axis", &axis_number) || read_int(s, "keepdims", &keepdims) ||
      bp__op_axis(&s->node, axis_number, in->ndim, &axis))
    return -1;
  if (split && (!tensor_of(s, 1) || split->ndim > 1 || split->dtype.code != BP_DTYPE_INT))
    return bp__op_bad(&s->node, "its split is no integer and no vector of integers");
  if (bp__extent_is_open(in->shape[axis]) || !is_constant(split))
    return give_open(bp__sequence_split(s->graph, &s->node, in, split, axis, keepdims || split),
                     results);
  bool is_given = split != NULL;
  if (split && split->ndim == 0) {
    if (bp__op_const_ints(&s->node, 1, &size, 1) != 1)
      return -1;
    if (size < 1)
      return bp__op_bad(&s->node, "its split is %lld", (long long)size);
    size = size < in->shape[axis] || in->shape[axis] < 1 ? size : in->shape[axis];
    split = NULL;
  }
  if (split_parts(s, in, axis, size, split, results))
    return -1;
  int64_t axes[] = {axis};
  BpGraphSequence *sequence = results[0]->sequence;
  for (int32_t i = 0; i < sequence->count && !keepdims && !is_given; i++)
    if (!(sequence->items[i] = bp__op_binary(s->graph, &s->node, "Squeeze", sequence->items[i],
                                             bp__graph_int_vector(s->graph, axes, 1))))
      return -1;
  return 0;
}

static int add_concat(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *from = sequence_of(s, 0);
  const BpGraphSequence *sequence = from ? from->sequence : NULL;
  int64_t axis = 0, is_new = 0;
  if (!sequence || read_int(s, "axis", &axis) || read_int(s, "new_axis", &is_new))
    return -1;
  if (sequence->is_open)
    return give_open(bp__sequence_concat(s->graph, &s->node, from, axis, is_new != 0), results);
  if (sequence->count == 0)
    return bp__op_bad(&s->node, "its sequence is empty");
  BpGraphValue **parts =
      bp__arena_alloc_array(&s->graph->arena, (size_t)sequence->count, sizeof(*parts));
  for (int32_t i = 0; parts && i < sequence->count; i++)
    parts[i] = is_new ? bp__op_binary(s->graph, &s->node, "Unsqueeze", sequence->items[i],
                                      bp__graph_int_vector(s->graph, &axis, 1))
                      : sequence->items[i];
  BpGraphAttr attr = bp__attr_int(s->graph, "axis", axis);
  results[0] =
      parts ? bp__op_apply(s->graph, "", "Concat", s->node.name, parts, sequence->count, &attr, 1)
            : NULL;
  return results[0] ? 0 : -1;
}

/* Makes the inputs of the body for element `index`. Returns the number of inputs, or -1 with an
 * error. */
static int64_t map_inputs(const Sequencing *s, int32_t index, BpGraphValue **inputs) {
  int64_t count = 0;
  for (int32_t i = 0; i < s->node.num_inputs; i++) {
    BpGraphValue *value = s->node.inputs[i];
    const BpGraphSequence *sequence = value ? value->sequence : NULL;
    if (!value || is_none(value))
      return bp__op_bad(&s->node, "input %d is missing", i);
    if (i == 0 && !sequence)
      return bp__op_bad(&s->node, "input 0 is no sequence");
    if (i == 0)
      count = sequence->count;
    if (sequence && sequence->count != count)
      return bp__op_bad(&s->node, "its sequences have %lld and %d tensors", (long long)count,
                        sequence->count);
    inputs[i] = !sequence ? value : index < count ? sequence->items[index] : NULL;
  }
  return count;
}

/* Whether an input sequence is open; if so, makes all of them open. Returns -1 with an error. */
static int open_inputs(const Sequencing *s) {
  int is_any = 0;
  for (int32_t i = 0; i < s->node.num_inputs; i++)
    is_any |= bp__is_open_sequence(s->node.inputs[i]);
  for (int32_t i = 0; i < s->node.num_inputs && is_any; i++) {
    BpGraphValue *value = s->node.inputs[i];
    if (!value || is_none(value) || (value->sequence && value->sequence->is_optional))
      return bp__op_bad(&s->node, "input %d is missing", i);
    if (value->sequence && !(s->node.inputs[i] = bp__sequence_open(s->graph, &s->node, value)))
      return -1;
  }
  return is_any;
}

/* Adds the nodes of the body of a SequenceMap once for each element. */
static int add_map(Sequencing *s, BpGraphValue **results) {
  int is_open = open_inputs(s);
  if (is_open)
    return is_open < 0
               ? bp__scope_note_unfit(s->scope, &s->node)
               : bp__scope_add_map(s->scope, s->from, s->node.name, s->node.inputs, results);
  const OnnxGraph *body = bp__scope_read_graph(s->scope, s->from, s->node.name, "body");
  BpGraphValue **inputs =
      bp__arena_alloc_array(&s->graph->arena, s->from->n_input + 1, sizeof(*inputs));
  if (!body || !inputs)
    return -1;
  int64_t count = map_inputs(s, 0, inputs);
  if (count < 0)
    return bp__scope_note_unfit(s->scope, &s->node);
  if (body->n_input != s->from->n_input || body->n_output != s->from->n_output)
    return bp__op_bad(&s->node, "its body has %zu inputs and %zu outputs, the node %zu and %zu",
                      body->n_input, body->n_output, s->from->n_input, s->from->n_output);
  for (size_t k = 0; k < s->from->n_output; k++)
    if (!(results[k] = new_sequence(s, count)))
      return -1;
  for (int32_t i = 0; i < count; i++) {
    BpList outputs = {0};
    const char *name = bp__arena_printf(&s->graph->arena, "%s/%d", s->node.name, i);
    int status =
        !name || map_inputs(s, i, inputs) < 0 ||
        bp__scope_add_subgraph(s->scope, s->from, name, body, NULL, inputs, false, &outputs);
    for (size_t k = 0; !status && k < outputs.size; k++) {
      results[k]->sequence->items[i] = outputs.items[k];
      if (results[k]->sequence->items[i]->sequence)
        status = bp__op_error(&s->node, "its body gives a sequence");
    }
    bp__list_free(&outputs);
    if (status)
      return -1;
  }
  return 0;
}

/* ---- Optionals --------------------------------------------------------------------------- */

static int add_optional(Sequencing *s, BpGraphValue **results) {
  results[0] = bp__node_input(&s->node, 0);
  if (results[0])
    return 0;
  results[0] = new_sequence(s, 0);
  if (results[0])
    results[0]->sequence->is_none = true;
  return results[0] ? 0 : -1;
}

static bool is_open_optional(const BpGraphValue *value) {
  return bp__is_open_sequence(value) && value->sequence->is_optional;
}

static int add_get_element(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *value = bp__node_input(&s->node, 0);
  if (is_open_optional(value))
    return give_open(bp__sequence_at(s->graph, &s->node, value, NULL), results);
  results[0] = value;
  return value && !is_none(value) ? 0 : bp__op_bad(&s->node, "its optional has no value");
}

static int add_has_element(Sequencing *s, BpGraphValue **results) {
  BpGraphValue *value = bp__node_input(&s->node, 0);
  if (is_open_optional(value))
    return give_open(
        bp__op_cast(s->graph, &s->node, bp__sequence_length(s->graph, &s->node, value), BP__BOOL),
        results);
  results[0] = bp__graph_constant(s->graph, s->node.name, BP__BOOL, NULL, 0, NULL);
  if (results[0])
    *(uint8_t *)bp__graph_constant_data(results[0]) = value && !is_none(value);
  return results[0] ? 0 : -1;
}

/* ---- All --------------------------------------------------------------------------------- */

static const struct {
  const char *op_type;
  int32_t since, min_inputs, max_inputs;
  int (*add)(Sequencing *s, BpGraphValue **results);
} operators[] = {
    {"SequenceConstruct", 11, 1, INT16_MAX, add_construct},
    {"SequenceEmpty", 11, 0, 0, add_empty},
    {"SequenceAt", 11, 2, 2, add_at},
    {"SequenceInsert", 11, 2, 3, add_insert},
    {"SequenceErase", 11, 1, 2, add_erase},
    {"SequenceLength", 11, 1, 1, add_length},
    {"SplitToSequence", 11, 1, 2, add_split},
    {"ConcatFromSequence", 11, 1, 1, add_concat},
    {"SequenceMap", 17, 1, INT16_MAX, add_map},
    {"Optional", 15, 0, 1, add_optional},
    {"OptionalGetElement", 15, 1, 1, add_get_element},
    {"OptionalHasElement", 15, 0, 1, add_has_element},
};

bool bp__onnx_is_sequence(const char *op_type, int32_t version) {
  for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
    if (!strcmp(operators[i].op_type, op_type))
      return operators[i].since <= version;
  return false;
}

int bp__scope_add_sequence(Scope *scope, const OnnxNode *from, const char *name) {
  BpGraph *graph = scope->import->graph;
  Sequencing s = {.scope = scope, .from = from, .graph = graph, .op = {.name = from->op_type}};
  size_t i = 0;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, from->n_input + 1, sizeof(*inputs));
  BpGraphValue **results =
      bp__arena_alloc_array(&graph->arena, from->n_output + 1, sizeof(*results));
  while (strcmp(operators[i].op_type, from->op_type))
    i++;
  if (!inputs || !results || bp__graph_use_node(graph) ||
      bp__scope_read_names(scope, from, name, inputs))
    return -1;
  s.node = (BpGraphNode){.name = name, .op = &s.op, .version = scope->version, .inputs = inputs};
  if (from->n_input < (size_t)operators[i].min_inputs ||
      from->n_input > (size_t)operators[i].max_inputs || from->n_output < 1 ||
      (from->n_output > 1 && operators[i].add != add_map))
    return bp__op_bad(&s.node, "it has %zu inputs and %zu outputs", from->n_input, from->n_output);
  s.node.num_inputs = (int32_t)from->n_input;
  if (operators[i].add(&s, results)) /* an error of the map's body is one of the body's node */
    return operators[i].add == add_map ? -1 : bp__scope_note_unfit(scope, &s.node);
  for (size_t k = 0; k < from->n_output; k++)
    if (!is_empty(from->output[k]) && bp__scope_add(scope, from->output[k], results[k]))
      return -1;
  return 0;
}
