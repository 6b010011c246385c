/* SPDX-License-Identifier: Apache-2.0 */
/* The graph IR: makes values and nodes, reads them, and rewrites the list of nodes. */
#include "graph/ir/graph.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#define MAX_BYTES ((int64_t)1 << 62)

void bp__graph_clear(BpGraph *graph) {
  for (size_t i = 0; i < graph->bodies.size; i++)
    bp__graph_clear(graph->bodies.items[i]);
  bp__list_free(&graph->bodies);
  for (size_t i = 0; i < graph->blocks.size; i++)
    bp_tensor_release(graph->blocks.items[i]);
  bp__list_free(&graph->blocks);
  bp__list_free(&graph->conditions);
  bp__list_free(&graph->nodes);
  bp__list_free(&graph->sources);
  bp__list_free(&graph->inputs);
  bp__list_free(&graph->outputs);
  if (!graph->outer && graph->extents.expressions)
    bp__list_free(graph->extents.expressions);
  bp__arena_free(&graph->arena);
}

int bp__graph_can_be_open(BpGraph *graph) {
  graph->extents.expressions = bp__arena_alloc(&graph->arena, sizeof(*graph->extents.expressions));
  graph->extents.arena = &graph->arena;
  return graph->extents.expressions ? 0 : -1;
}

bool bp__graph_is_open(const BpGraph *graph) {
  return bp__extents_count(&graph->extents) > 0;
}

BpGraph *bp__graph_body(BpGraph *graph) {
  BpGraph *body = bp__arena_alloc(&graph->arena, sizeof(*body));
  if (!body || bp__list_push(&graph->bodies, body))
    return NULL;
  body->outer = graph;
  body->extents = graph->extents;
  body->has_sources = graph->has_sources;
  return body;
}

BpGraphBudget *bp__graph_budget(BpGraph *graph) {
  while (graph->outer)
    graph = graph->outer;
  return &graph->budget;
}

static const BpGraphBudget *budget_of(const BpGraph *graph) {
  return bp__graph_budget((BpGraph *)(uintptr_t)graph);
}

/* ---- The budget -------------------------------------------------------------------------- */

/* The defaults of BpCompileLimits. */
#define MOST_NODES       200000
#define MOST_BYTES       ((int64_t)1 << 30)
#define MOST_BYTES_GIVEN 8 /* factor on the bytes of the model's constants that a graph may use */
#define MOST_WORK        ((int64_t)1 << 34)
#define MOST_FUNCTIONS   5000

static int64_t most_bytes(const BpGraphBudget *budget) {
  return budget->most_bytes ? budget->most_bytes : MOST_BYTES + MOST_BYTES_GIVEN * budget->given;
}

int bp__graph_has_bytes(const BpGraph *graph, int64_t bytes) {
  const BpGraphBudget *budget = budget_of(graph);
  return bytes <= most_bytes(budget) - budget->bytes;
}

int bp__graph_use_work(BpGraph *graph, double work) {
  BpGraphBudget *budget = bp__graph_budget(graph);
  int64_t most = budget->most_work ? budget->most_work : MOST_WORK;
  if (!(work <= (double)(most - budget->work)))
    return 0;
  budget->work += (int64_t)work;
  return 1;
}

int bp__graph_check_functions(const BpGraph *graph, int64_t count) {
  const BpGraphBudget *budget = budget_of(graph);
  int64_t most = budget->most_functions ? budget->most_functions : MOST_FUNCTIONS;
  return count <= most ? 0
                       : bp_error_raise(BP_ERROR_VALUE,
                                        "it takes more than %lld different functions, the limit; "
                                        "where the model is trusted, raise it "
                                        "(BpCompileLimits.functions, --limit functions=N)",
                                        (long long)most);
}

int bp__graph_use_node(BpGraph *graph) {
  BpGraphBudget *budget = bp__graph_budget(graph);
  int64_t most = budget->most_nodes ? budget->most_nodes : MOST_NODES;
  if (budget->nodes < most) {
    budget->nodes++;
    return 0;
  }
  return bp_error_raise(BP_ERROR_VALUE,
                        "it takes more than %lld nodes, the limit; where the model is trusted, "
                        "raise it (BpCompileLimits.nodes, --limit nodes=N)",
                        (long long)most);
}

void *bp__graph_new_data(BpGraph *graph, const BpGraphValue *value) {
  BpGraphBudget *budget = bp__graph_budget(graph);
  int64_t bytes = bp__value_num_bytes(value);
  if (!bp__graph_has_bytes(graph, bytes)) {
    bp_error_raise(BP_ERROR_VALUE,
                   "constant '%s' takes %lld bytes, and constants that the model does not contain "
                   "may take %lld, of which %lld are left; where the model is trusted, raise that "
                   "(BpCompileLimits.constant_bytes, --limit constant-bytes=N)",
                   value->name, (long long)bytes, (long long)most_bytes(budget),
                   (long long)(most_bytes(budget) - budget->bytes));
    return NULL;
  }
  budget->bytes += bytes;
  if (bytes >= BP_GRAPH_LARGE)
    return bp__graph_new_block(graph, bytes);
  return bp__arena_alloc(&graph->arena, bytes > 0 ? (size_t)bytes : 1);
}

/* ---- Values ------------------------------------------------------------------------------ */

static int check_shape(const char *name, BpDataType dtype, const int64_t *shape, int32_t ndim) {
  int64_t bytes = (int64_t)bp_dtype_bytes(dtype);
  if (ndim < 0 || ndim > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "tensor '%s' has %d dimensions, at most %d work", name, ndim,
                          BP_GRAPH_MAX_NDIM);
  if (dtype.bits % 8 && dtype.bits != 4 && dtype.bits != 2) {
    char text[32];
    bp_dtype_format(dtype, text, sizeof text);
    return bp_error_raise(
        BP_ERROR_NOT_IMPLEMENTED,
        "tensor '%s' has elements of %s; a graph has elements of 2 or 4 bits or of whole bytes",
        name, text);
  }
  for (int32_t i = 0; i < ndim; i++)
    if (shape[i] == BP_EXTENT_NONE)
      return -1; /* the function that made the value raised the error */
  if (bp__extents_any_open(shape, ndim))
    return 0;
  for (int32_t i = 0; i < ndim; i++)
    if (shape[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE, "tensor '%s': extent %d is %lld, which is negative",
                            name, i, (long long)shape[i]);
  for (int32_t i = 0; i < ndim; i++)
    if (shape[i] == 0)
      return 0;
  for (int32_t i = 0; i < ndim; i++)
    if (__builtin_mul_overflow(bytes, shape[i], &bytes) || bytes > MAX_BYTES)
      return bp_error_raise(BP_ERROR_VALUE, "tensor '%s' is too large: its size overflows", name);
  return 0;
}

BpGraphValue *bp__graph_value(BpGraph *graph, const char *name, BpDataType dtype,
                              const int64_t *shape, int32_t ndim) {
  BpGraphValue *value;
  if (check_shape(name, dtype, shape, ndim))
    return NULL;
  value = bp__arena_alloc(&graph->arena, sizeof(*value));
  if (!value)
    return NULL;
  value->name = name;
  value->dtype = dtype;
  value->ndim = ndim;
  if (ndim > 0)
    memcpy(value->shape, shape, (size_t)ndim * sizeof(*shape));
  value->id = graph->num_values++;
  return value;
}

BpGraphValue *bp__graph_constant(BpGraph *graph, const char *name, BpDataType dtype,
                                 const int64_t *shape, int32_t ndim, const void *data) {
  BpGraphValue *value = bp__graph_value(graph, name, dtype, shape, ndim);
  if (!value)
    return NULL;
  if (data)
    bp__graph_budget(graph)->given += bp__value_num_bytes(value);
  value->data = data ? data : bp__graph_new_data(graph, value);
  return value->data ? value : NULL;
}

void *bp__graph_constant_data(BpGraphValue *constant) {
  return (void *)(uintptr_t)constant->data;
}

BpGraphValue *bp__graph_float_scalar(BpGraph *graph, float value) {
  BpGraphValue *scalar = bp__graph_constant(graph, "scalar", BP__FLOAT32, NULL, 0, NULL);
  if (scalar)
    *(float *)bp__graph_constant_data(scalar) = value;
  return scalar;
}

BpGraphValue *bp__graph_int_vector(BpGraph *graph, const int64_t *values, int64_t count) {
  BpGraphValue *vector = bp__graph_constant(graph, "vector", BP__INT64, &count, 1, NULL);
  if (vector && count > 0)
    memcpy(bp__graph_constant_data(vector), values, (size_t)count * sizeof(*values));
  if (vector && bp__extents_any_open(values, (int32_t)count)) {
    vector->extents = vector->data;
    vector->data = NULL;
  }
  return vector;
}

int64_t bp__value_num_elements(const BpGraphValue *value) {
  int64_t count = 1;
  if (bp__value_is_open(value))
    return -1;
  for (int32_t i = 0; i < value->ndim; i++)
    if (value->shape[i] == 0)
      return 0;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= value->shape[i];
  return count;
}

int64_t bp__value_num_bytes(const BpGraphValue *value) {
  int64_t count = bp__value_num_elements(value);
  if (count < 0)
    return -1;
  return value->dtype.bits < 8 ? (count * value->dtype.bits + 7) / 8
                               : count * (int64_t)bp_dtype_bytes(value->dtype);
}

int bp__value_same_shape(const BpGraphValue *a, const BpGraphValue *b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])));
}

int bp__dtype_equal(BpDataType a, BpDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Whether elements are integers of whole bytes, or bool. */
static bool has_integers(const BpGraphValue *constant) {
  BpDataType dtype = constant->dtype;
  return dtype.bits >= 8 &&
         (dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT || dtype.code == BP_DTYPE_BOOL);
}

int64_t bp__value_get_int(const BpGraphValue *constant, int64_t index) {
  const void *data = constant->data;
  if (!has_integers(constant))
    return (int64_t)bp__value_get_float(constant, index);
  switch (constant->dtype.bits + (constant->dtype.code == BP_DTYPE_INT ? 1 : 0)) {
  case 8:
    return ((const uint8_t *)data)[index];
  case 9:
    return ((const int8_t *)data)[index];
  case 16:
    return ((const uint16_t *)data)[index];
  case 17:
    return ((const int16_t *)data)[index];
  case 32:
    return ((const uint32_t *)data)[index];
  case 33:
    return ((const int32_t *)data)[index];
  default:
    return ((const int64_t *)data)[index];
  }
}

double bp__value_get_float(const BpGraphValue *constant, int64_t index) {
  double value = 0;
  if (has_integers(constant) &&
      !(constant->dtype.code == BP_DTYPE_UINT && constant->dtype.bits == 64))
    return (double)bp__value_get_int(constant, index);
  bp_dtype_decode(constant->dtype, constant->data, (uint64_t)index, &value);
  return value;
}

/* Converts the bits of a float32 to a bfloat16, rounding to nearest even; a NaN stays NaN. */
static uint16_t float_to_bfloat(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Converts the bits of a float32 to the nearest binary16, rounding ties to even. */
static uint16_t float_to_half(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  float magnitude;
  if (rest > 0x7f800000)
    return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000)
    return (uint16_t)(sign | 0x7c00);
  memcpy(&magnitude, &rest, sizeof(magnitude));
  if (rest < 0x38800000)
    return (uint16_t)(sign | (uint32_t)lrintf(ldexpf(magnitude, 24)));
  return (uint16_t)(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

void bp__value_put_float(BpGraphValue *constant, int64_t index, double number) {
  void *data = bp__graph_constant_data(constant);
  float value = (float)number;
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if (constant->dtype.code == BP_DTYPE_BFLOAT)
    ((uint16_t *)data)[index] = float_to_bfloat(bits);
  else if (constant->dtype.bits == 16)
    ((uint16_t *)data)[index] = float_to_half(bits);
  else if (constant->dtype.bits == 32)
    ((float *)data)[index] = value;
  else
    ((double *)data)[index] = number;
}

void bp__value_copy_element(BpGraphValue *target, int64_t to, const BpGraphValue *source,
                            int64_t from) {
  size_t size = bp_dtype_bytes(source->dtype);
  memcpy((char *)bp__graph_constant_data(target) + (size_t)to * size,
         (const char *)source->data + (size_t)from * size, size);
}

const char *bp__value_format(const BpGraphValue *value, char *text) {
  char dtype[32];
  int used;
  bp_dtype_format(value->dtype, dtype, sizeof dtype);
  used = snprintf(text, BP_VALUE_TEXT, "%s ", dtype);
  if (value->ndim == 0)
    snprintf(text + used, (size_t)(BP_VALUE_TEXT - used), "scalar");
  for (int32_t i = 0; i < value->ndim && used < BP_VALUE_TEXT; i++)
    used += bp__extent_is_open(value->shape[i])
                ? snprintf(text + used, (size_t)(BP_VALUE_TEXT - used), "%s?", i ? "x" : "")
                : snprintf(text + used, (size_t)(BP_VALUE_TEXT - used), "%s%lld", i ? "x" : "",
                           (long long)value->shape[i]);
  return text;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static void *copy_array(BpArena *arena, const void *items, int32_t count, size_t size) {
  void *copy = bp__arena_alloc_array(arena, (size_t)count, size);
  if (copy && count > 0)
    memcpy(copy, items, (size_t)count * size);
  return copy;
}

BpGraphNode *bp__graph_node(BpGraph *graph, const struct BpOp *op, const char *name,
                            BpGraphValue *const *inputs, int32_t num_inputs, int32_t num_outputs,
                            const BpGraphAttr *attrs, int32_t num_attrs) {
  BpGraphNode *node =
      bp__graph_use_node(graph) ? NULL : bp__arena_alloc(&graph->arena, sizeof(*node));
  if (!node)
    return NULL;
  while (num_inputs > 0 && !inputs[num_inputs - 1])
    num_inputs--;
  node->op = op;
  node->name = name;
  node->version = BP_OP_NEWEST_VERSION;
  node->num_inputs = num_inputs;
  node->num_outputs = num_outputs;
  node->num_attrs = num_attrs;
  node->inputs = copy_array(&graph->arena, inputs, num_inputs, sizeof(*inputs));
  node->outputs = bp__arena_alloc_array(&graph->arena, (size_t)num_outputs, sizeof(*node->outputs));
  node->attrs = copy_array(&graph->arena, attrs, num_attrs, sizeof(*attrs));
  return node->inputs && node->outputs && node->attrs ? node : NULL;
}

int bp__node_set_output(BpGraph *graph, BpGraphNode *node, int32_t index, BpDataType dtype,
                        const int64_t *shape, int32_t ndim) {
  BpGraphValue *value = bp__graph_value(graph, node->name, dtype, shape, ndim);
  if (!value)
    return -1;
  value->producer = node;
  node->outputs[index] = value;
  return 0;
}

BpGraphValue *bp__node_input(const BpGraphNode *node, int32_t index) {
  return index < node->num_inputs ? node->inputs[index] : NULL;
}

const BpGraphAttr *bp__node_attr(const BpGraphNode *node, const char *name) {
  for (int32_t i = 0; i < node->num_attrs; i++)
    if (!strcmp(node->attrs[i].name, name))
      return &node->attrs[i];
  return NULL;
}

int64_t bp__node_int(const BpGraphNode *node, const char *name, int64_t otherwise) {
  const BpGraphAttr *attr = bp__node_attr(node, name);
  return attr ? attr->ints[0] : otherwise;
}

float bp__node_float(const BpGraphNode *node, const char *name, float otherwise) {
  const BpGraphAttr *attr = bp__node_attr(node, name);
  return attr ? attr->floats[0] : otherwise;
}

const char *bp__node_str(const BpGraphNode *node, const char *name, const char *otherwise) {
  const BpGraphAttr *attr = bp__node_attr(node, name);
  return attr ? attr->str : otherwise;
}

BpGraphAttr bp__attr_int(BpGraph *graph, const char *name, int64_t value) {
  int64_t *copy = bp__arena_alloc(&graph->arena, sizeof(*copy));
  static const int64_t zero;
  if (copy)
    *copy = value;
  return (BpGraphAttr){
      .name = name, .type = BP_GRAPH_ATTR_INT, .count = 1, .ints = copy ? copy : &zero};
}

BpGraphAttr bp__attr_ints(const char *name, const int64_t *values, int32_t count) {
  return (BpGraphAttr){.name = name, .type = BP_GRAPH_ATTR_INTS, .count = count, .ints = values};
}

/* ---- Passes ------------------------------------------------------------------------------ */

static void add_uses(BpGraphValue *const *values, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (values[i])
      values[i]->num_uses++;
}

void bp__graph_count_uses(BpGraph *graph) {
  for (size_t i = 0; i < graph->inputs.size; i++)
    ((BpGraphValue *)graph->inputs.items[i])->num_uses = 0;
  for (size_t i = 0; i < graph->nodes.size; i++) {
    BpGraphNode *node = graph->nodes.items[i];
    node->id = (int32_t)i;
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k])
        node->inputs[k]->num_uses = 0;
    for (int32_t k = 0; k < node->num_outputs; k++)
      if (node->outputs[k])
        node->outputs[k]->num_uses = 0;
  }
  for (size_t i = 0; i < graph->nodes.size; i++) {
    BpGraphNode *node = graph->nodes.items[i];
    add_uses(node->inputs, node->num_inputs);
  }
  add_uses((BpGraphValue **)graph->outputs.items, (int32_t)graph->outputs.size);
}

void bp__graph_remove_dead(BpGraph *graph) {
  size_t kept = graph->nodes.size;
  bp__graph_count_uses(graph);
  for (size_t i = graph->nodes.size; i-- > 0;) {
    BpGraphNode *node = graph->nodes.items[i];
    int32_t used = node->is_kept;
    for (int32_t k = 0; k < node->num_outputs; k++)
      used += node->outputs[k] ? node->outputs[k]->num_uses : 0;
    if (used > 0) {
      graph->nodes.items[--kept] = node;
      continue;
    }
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k])
        node->inputs[k]->num_uses--;
  }
  if (kept > 0)
    memmove(graph->nodes.items, graph->nodes.items + kept,
            (graph->nodes.size - kept) * sizeof(*graph->nodes.items));
  graph->nodes.size -= kept;
  bp__graph_count_uses(graph);
}

BpGraphValue *bp__rewrite_value(const BpRewrite *rewrite, BpGraphValue *value) {
  while (value && value->id < rewrite->num_mapped && rewrite->mapped[value->id])
    value = rewrite->mapped[value->id];
  return value;
}

int bp__rewrite_replace(BpRewrite *rewrite, const BpGraphValue *from, BpGraphValue *to) {
  if (!to)
    return -1;
  if (from->id >= rewrite->num_mapped)
    return bp_error_raise(BP_ERROR_INTERNAL, "a rewrite replaces '%s', which it made itself",
                          from->name);
  rewrite->mapped[from->id] = to;
  return 0;
}

static int rewrite_node(BpRewrite *rewrite, BpGraphNode *node, BpRewriteRule rule) {
  int action;
  for (int32_t k = 0; k < node->num_inputs; k++)
    node->inputs[k] = bp__rewrite_value(rewrite, node->inputs[k]);
  action = node->is_control ? 0 : rule(rewrite, node);
  return action == 0 ? bp__list_push(&rewrite->graph->nodes, node) : action < 0 ? -1 : 0;
}

int bp__graph_rewrite(BpGraph *graph, BpRewriteRule rule, void *context) {
  BpRewrite rewrite = {.graph = graph, .num_mapped = graph->num_values, .context = context};
  BpList old = graph->nodes;
  int failed = 0;
  rewrite.mapped = calloc((size_t)graph->num_values + 1, sizeof(*rewrite.mapped));
  if (!rewrite.mapped)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory while rewriting the graph");
  graph->nodes = (BpList){0};
  for (size_t i = 0; i < old.size && !failed; i++)
    failed = rewrite_node(&rewrite, old.items[i], rule);
  for (size_t i = 0; i < graph->outputs.size; i++)
    graph->outputs.items[i] = bp__rewrite_value(&rewrite, graph->outputs.items[i]);
  free(rewrite.mapped);
  bp__list_free(&old);
  if (failed)
    return -1;
  bp__graph_remove_dead(graph);
  return 0;
}
