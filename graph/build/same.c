/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of functions: two groups can share a function exactly if they compute the same
 * results from their arguments. The comparison covers everything that an operator's computation may
 * read: all contents of attributes, types and shapes, and the data of constants that are written
 * into the code. */
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

int32_t bp__value_output_index(const BpGraphValue *value) {
  int32_t index = 0;
  while (value->producer->outputs[index] != value)
    index++;
  return index;
}

/* Kinds of inputs of a node, as seen from inside its group: absent, a number written into the code,
 * an argument of the group, or an output of another node of the group. */
enum { ABSENT, WRITTEN, ARGUMENT, INNER };

typedef struct Source {
  int32_t kind;
  int32_t index;  /* index of the argument, or of the node in the group */
  int32_t output; /* index of the node's output */
} Source;

static Source inner_source(const BpGroup *group, const BpGraphValue *value) {
  return (Source){INNER, bp__list_index(&group->nodes, value->producer),
                  bp__value_output_index(value)};
}

static Source source_of(const BpGroup *group, const BpGraphNode *node, int32_t input) {
  const BpGraphValue *value = node->inputs[input];
  /* An input that is no argument and has no elements only gives its type, as the second input of
   * CastLike. */
  if (!value || (!value->data && !value->extents && !bp__op_argument(node, input)))
    return (Source){ABSENT, 0, 0};
  int32_t index = bp__list_index(&group->args, value);
  if ((index < 0 && bp__build_is_immediate(value)) || !bp__op_argument(node, input))
    return (Source){WRITTEN, 0, 0};
  return index >= 0 ? (Source){ARGUMENT, index, 0} : inner_source(group, value);
}

/* ---- Numbers ----------------------------------------------------------------------------- */

/* The kind of the only operation of a node with two inputs: BP_IR_ADD to BP_IR_DIV, or BP_IR_NONE
 * for other computations. */
static int32_t arithmetic_of(const BpGraphNode *node) {
  BpIrModule *ir = bp_ir_module_create();
  const BpIrNode *args[] = {ir ? bp_ir_var(ir, "a", node->inputs[0]->dtype) : NULL,
                            ir ? bp_ir_var(ir, "b", node->inputs[1]->dtype) : NULL};
  const BpIrNode *result = args[0] && args[1] ? node->op->scalar(ir, node, args) : NULL;
  const BpIrTable *table = bp_ir_table();
  int32_t kind = result ? table->kind(result) : BP_IR_NONE;
  bool is_alone = result && kind >= BP_IR_ADD && kind <= BP_IR_DIV &&
                  table->operand(result, 0) == args[0] && table->operand(result, 1) == args[1];
  if (!result)
    bp_error_clear();
  bp_object_release(ir);
  return is_alone ? kind : BP_IR_NONE;
}

bool bp__group_has_number(const BpGroup *group, const BpGraphNode *node, int32_t input) {
  const BpGraphValue *value = node->inputs[input];
  if (!node->op->scalar || node->num_inputs != 2 || !node->inputs[0] || !node->inputs[1] ||
      source_of(group, node, input).kind != WRITTEN || !value->data)
    return false;
  bool is_float = bp__dtype_is_float(value->dtype);
  bool is_integer = value->dtype.code == BP_DTYPE_INT || value->dtype.code == BP_DTYPE_UINT;
  if (!is_float && (!is_integer || value->dtype.bits == 64))
    return false;
  int32_t kind = arithmetic_of(node);
  return kind != BP_IR_NONE && (is_float || kind != BP_IR_DIV);
}

/* ---- Equality ---------------------------------------------------------------------------- */

static int same_type(const BpGraphValue *a, const BpGraphValue *b) {
  return bp__dtype_equal(a->dtype, b->dtype) && bp__value_same_shape(a, b) && a->room == b->room &&
         a->room_axis == b->room_axis;
}

int bp__value_same_data(const BpGraphValue *a, const BpGraphValue *b) {
  size_t bytes = (size_t)bp__value_num_bytes(a);
  return same_type(a, b) && (bytes == 0 || !memcmp(a->data, b->data, bytes));
}

/* Whether two optional arrays of `count` elements are both present and equal, or both absent. */
static int same_part(const void *a, const void *b, int32_t count, size_t size) {
  return !a == !b && (!a || count == 0 || !memcmp(a, b, (size_t)count * size));
}

static int same_text(const char *a, const char *b) {
  return !a == !b && (!a || !strcmp(a, b));
}

static int same_attr(const BpGraphAttr *a, const BpGraphAttr *b) {
  if (strcmp(a->name, b->name) || a->count != b->count || !a->strs != !b->strs ||
      !a->tensor != !b->tensor || !same_part(a->ints, b->ints, a->count, sizeof(*a->ints)) ||
      !same_part(a->floats, b->floats, a->count, sizeof(*a->floats)) ||
      !same_text(a->str, b->str) || (a->tensor && !bp__value_same_data(a->tensor, b->tensor)))
    return 0;
  for (int32_t i = 0; a->strs && i < a->count; i++)
    if (!same_text(a->strs[i], b->strs[i]))
      return 0;
  return 1;
}

/* Whether two constants, or two values whose elements are extents, have equal elements. */
static int same_elements(const BpGraphValue *a, const BpGraphValue *b) {
  if (!a->extents || !b->extents)
    return !a->extents && !b->extents && bp__value_same_data(a, b);
  return same_type(a, b) &&
         !memcmp(a->extents, b->extents, (size_t)bp__value_num_elements(a) * sizeof(*a->extents));
}

static int same_input(const BpGroup *a, const BpGraphNode *x, const BpGroup *b,
                      const BpGraphNode *y, int32_t input, bool is_loose) {
  Source p = source_of(a, x, input), q = source_of(b, y, input);
  if (memcmp(&p, &q, sizeof(p)))
    return 0;
  if (p.kind == WRITTEN && same_elements(x->inputs[input], y->inputs[input]))
    return 1;
  if (p.kind == WRITTEN &&
      !(is_loose && bp__group_has_number(a, x, input) && bp__group_has_number(b, y, input)))
    return 0;
  return p.kind == ABSENT || same_type(x->inputs[input], y->inputs[input]);
}

static int same_node(const BpGroup *a, const BpGraphNode *x, const BpGroup *b, const BpGraphNode *y,
                     bool is_loose) {
  if (x->op != y->op || x->version != y->version || x->num_attrs != y->num_attrs ||
      x->num_inputs != y->num_inputs || x->num_outputs != y->num_outputs)
    return 0;
  for (int32_t i = 0; i < x->num_outputs; i++)
    if (!same_type(x->outputs[i], y->outputs[i]) ||
        (x->outputs[i]->extents && !same_elements(x->outputs[i], y->outputs[i])))
      return 0;
  for (int32_t i = 0; i < x->num_attrs; i++)
    if (!same_attr(&x->attrs[i], &y->attrs[i]))
      return 0;
  for (int32_t i = 0; i < x->num_inputs; i++)
    if (!same_input(a, x, b, y, i, is_loose))
      return 0;
  return 1;
}

static gboolean same_group(const BpGroup *a, const BpGroup *b, bool is_loose) {
  if (a->place != b->place || a->nodes.size != b->nodes.size || a->args.size != b->args.size ||
      a->outputs.size != b->outputs.size)
    return FALSE;
  for (size_t i = 0; i < a->nodes.size; i++)
    if (!same_node(a, a->nodes.items[i], b, b->nodes.items[i], is_loose))
      return FALSE;
  for (size_t i = 0; i < a->outputs.size; i++) {
    Source p = inner_source(a, a->outputs.items[i]), q = inner_source(b, b->outputs.items[i]);
    if (memcmp(&p, &q, sizeof(p)))
      return FALSE;
  }
  return TRUE;
}

gboolean bp__group_equal(gconstpointer a, gconstpointer b) {
  return same_group(a, b, false);
}

gboolean bp__group_alike(gconstpointer a, gconstpointer b) {
  return same_group(a, b, true);
}

/* ---- Hashes ------------------------------------------------------------------------------ */

uint64_t bp__hash_bytes(uint64_t hash, const void *data, size_t size) {
  const uint8_t *bytes = data;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  for (; size > 0; size--, bytes++)
    hash = (hash ^ *bytes) * 0x100000001b3u;
  return hash;
}

/* Hashes the operators and shapes, which usually distinguish groups. Groups that are equal but for
 * numbers have equal hashes. */
guint bp__group_hash(gconstpointer key) {
  const BpGroup *group = key;
  uint64_t hash = (uint64_t)group->place + 1;
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    const BpGraphValue *out = node->outputs[0];
    hash = bp__hash_bytes(hash, node->op->name, strlen(node->op->name));
    hash = bp__hash_bytes(hash, out->shape, (size_t)out->ndim * sizeof(*out->shape));
    for (int32_t k = 0; k < node->num_inputs; k++) {
      Source source = source_of(group, node, k);
      hash = bp__hash_bytes(hash, &source, sizeof(source));
      const BpGraphValue *value = node->inputs[k];
      if (source.kind == WRITTEN && !bp__group_has_number(group, node, k))
        hash = bp__hash_bytes(hash, value->extents ? value->extents : value->data,
                              (size_t)bp__value_num_bytes(value));
    }
    for (int32_t k = 0; k < node->num_attrs; k++)
      if (node->attrs[k].ints)
        hash = bp__hash_bytes(hash, node->attrs[k].ints,
                              (size_t)node->attrs[k].count * sizeof(*node->attrs[k].ints));
  }
  return (guint)(hash ^ hash >> 32);
}
