/* SPDX-License-Identifier: Apache-2.0 */
/* The host table "ir", through which code generators read nodes. */

#include <stdlib.h>

#include <backplane/object.h>

#include "compiler/ir/ir.h"

typedef struct KindName {
  int32_t kind;
  const char *name;
} KindName;

static const KindName kind_names[] = {
#define KIND_NAME(name, number, text, meaning) {number, text},
    BP_IR_KINDS(KIND_NAME)
#undef KIND_NAME
};

#define NUM_KINDS (sizeof kind_names / sizeof kind_names[0])

const char *bp__ir_kind_name(int32_t kind) {
  for (size_t i = 0; i < NUM_KINDS; i++)
    if (kind_names[i].kind == kind)
      return kind_names[i].name;
  return NULL;
}

int32_t bp__ir_kind_by_name(const char *name, size_t size) {
  for (size_t i = 0; i < NUM_KINDS; i++)
    if (strlen(kind_names[i].name) == size && !memcmp(kind_names[i].name, name, size))
      return kind_names[i].kind;
  return BP_IR_NONE;
}

static int32_t node_kind(const BpIrNode *node) {
  return node->kind;
}

static BpDataType node_dtype(const BpIrNode *node) {
  return node->dtype;
}

static int32_t node_num_operands(const BpIrNode *node) {
  return node->num_operands;
}

static const BpIrNode *node_operand(const BpIrNode *node, int32_t index) {
  return index >= 0 && index < node->num_operands ? node->operands[index] : NULL;
}

static int64_t node_int_value(const BpIrNode *node) {
  return node->int_value;
}

static double node_float_value(const BpIrNode *node) {
  return node->float_value;
}

static const char *node_str_value(const BpIrNode *node) {
  return node->str_value;
}

static int32_t visit(const BpIrNode *node, const BpIrVisitor *visitor) {
  int32_t rc = visitor->enter(visitor->context, node);
  if (rc < 0)
    return -1;
  for (int32_t i = 0; rc == 0 && i < node->num_operands; i++)
    if (visit(node->operands[i], visitor))
      return -1;
  return visitor->leave && visitor->leave(visitor->context, node) < 0 ? -1 : 0;
}

static int32_t print(const BpIrNode *node, BpValue *result) {
  char *text = bp__ir_print_node(node);
  if (!text)
    return -1;
  int rc = bp_value_make_str(result, text, strlen(text));
  free(text);
  return rc;
}

const BpIrTable *bp_ir_table(void) {
  static const BpIrTable table = {
      .struct_size = sizeof table,
      .num_functions = bp__ir_module_num_functions,
      .get_function = bp__ir_module_function,
      .kind = node_kind,
      .kind_name = bp__ir_kind_name,
      .dtype = node_dtype,
      .num_operands = node_num_operands,
      .operand = node_operand,
      .int_value = node_int_value,
      .float_value = node_float_value,
      .str_value = node_str_value,
      .find_attr = bp__ir_find_attr,
      .visit = visit,
      .print = print,
  };
  return &table;
}
