/* SPDX-License-Identifier: Apache-2.0 */
/* The host table "ir", through which code generators read nodes. */

#include <stdlib.h>

#include <backplane/object.h>

#include "compiler/ir/argument.h"
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
  return node ? node->kind : BP_IR_NONE;
}

static BpDataType node_dtype(const BpIrNode *node) {
  return node ? node->dtype : bp__dtype_void();
}

static int32_t node_num_operands(const BpIrNode *node) {
  return node ? node->num_operands : 0;
}

static const BpIrNode *node_operand(const BpIrNode *node, int32_t index) {
  return index >= 0 && index < node_num_operands(node) ? node->operands[index] : NULL;
}

static int64_t node_int_value(const BpIrNode *node) {
  return node ? node->int_value : 0;
}

static double node_float_value(const BpIrNode *node) {
  return node ? node->float_value : 0;
}

static const char *node_str_value(const BpIrNode *node) {
  return node ? node->str_value : "";
}

static const BpIrNode *find_attr(const BpIrNode *function, const char *key) {
  return function && key && function->kind == BP_IR_FUNCTION ? bp__ir_find_attr(function, key)
                                                             : NULL;
}

static int32_t num_functions(const BpIrModule *module) {
  return module ? bp__ir_module_num_functions(module) : 0;
}

static const BpIrNode *get_function(const BpIrModule *module, int32_t index) {
  return module ? bp__ir_module_function(module, index) : NULL;
}

static int32_t visit_operands(const BpIrNode *node, const BpIrVisitor *visitor) {
  int32_t rc = visitor->enter(visitor->context, node);
  if (rc < 0)
    return -1;
  for (int32_t i = 0; rc == 0 && i < node->num_operands; i++)
    if (visit_operands(node->operands[i], visitor))
      return -1;
  return visitor->leave && visitor->leave(visitor->context, node) < 0 ? -1 : 0;
}

static int32_t visit(const BpIrNode *node, const BpIrVisitor *visitor) {
  if (!BP_NOT_NULL(node) || !BP_NOT_NULL(visitor) || !BP_NOT_NULL(visitor->enter))
    return -1;
  return visit_operands(node, visitor);
}

static int32_t print(const BpIrNode *node, BpValue *result) {
  if (!BP_NOT_NULL(node) || !BP_NOT_NULL(result))
    return -1;
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
      .num_functions = num_functions,
      .get_function = get_function,
      .kind = node_kind,
      .kind_name = bp__ir_kind_name,
      .dtype = node_dtype,
      .num_operands = node_num_operands,
      .operand = node_operand,
      .int_value = node_int_value,
      .float_value = node_float_value,
      .str_value = node_str_value,
      .find_attr = find_attr,
      .visit = visit,
      .print = print,
  };
  return &table;
}
