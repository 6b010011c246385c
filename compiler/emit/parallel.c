/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel loop becomes a function that runs one task's share of the loop; a structure holds the
 * outside values that the loop's body uses. Variables keep their names in the loop's function. */
#include "compiler/emit/emit.h"

typedef struct Captures {
  BpEmitter *e;
  BpPointerMap seen;
  BpText fields; /* declarations of the structure's fields */
  BpText loads;  /* statements of the task that load values from the structure */
  BpText values; /* initial values of the structure's fields */
} Captures;

static int is_noalias(BpEmitter *e) {
  return e->ir->find_attr(e->function, BP_IR_ATTR_NOALIAS) != NULL;
}

static int32_t capture(void *context, const BpIrNode *node) {
  Captures *captures = context;
  BpEmitter *e = captures->e;
  BpSymbol *symbol = bp_pointer_map_get(&e->symbols, node);
  if (!symbol || bp_pointer_map_get(&captures->seen, node))
    return 0;
  if (bp_pointer_map_set(&captures->seen, node, symbol) != 0) {
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
    return -1;
  }
  const char *name = symbol->expr.text;
  int is_buffer = e->ir->kind(node) == BP_IR_BUFFER;
  const char *type = "void *";
  if (is_buffer || symbol->dtype.code != BP_DTYPE_HANDLE)
    type = bp__value_type(e, symbol->dtype, symbol->expr.bits);
  const char *pointer = is_buffer ? "*" : "";
  const char *qualifier = is_buffer ? (is_noalias(e) ? "restrict " : "") : "const ";
  bp__appendf(e, &captures->fields, "  %s %s%s;\n", type, pointer, name);
  bp__appendf(e, &captures->loads, "  %s %s%s%s = context->%s;\n", type, pointer, qualifier, name,
              name);
  bp__appendf(e, &captures->values, "%s%s", captures->values.size ? ", " : "", name);
  return is_buffer ? 1 : 0; /* the body does not need the extents of a buffer */
}

/* Writes the function of one task before the current function. */
static void emit_task(BpEmitter *e, const BpIrNode *node, const Captures *captures,
                      const char *name) {
  const BpIrNode *var = e->ir->operand(node, 0);
  const char *type = bp__type(e, e->ir->dtype(var));
  BpSymbol *symbol = bp__declare(e, var, e->ir->dtype(var));
  if (!symbol)
    return;
  BpText task = {NULL, 0, 0};
  BpText *outer = e->out;
  int32_t indent = e->indent;
  int32_t cleanup = e->cleanup;
  e->out = &task;
  e->indent = 0;
  e->cleanup = 0;
  e->in_parallel = 1;
  bp__line(e, "struct %s {", name);
  bp__appendf(e, e->out, "%s", captures->fields.data ? captures->fields.data : "");
  bp__line(e, "  %s first, count;", type);
  bp__line(e, "};\n");
  bp__line(e, "static int %s(int task, bp_group *group, void *data) {", name);
  bp__line(e, "  const struct %s *context = data;", name);
  bp__appendf(e, e->out, "%s", captures->loads.data ? captures->loads.data : "");
  bp__line(e, "  const long long tasks = group->num_task;");
  bp__line(e, "  const %s first = context->first + (%s)((long long)context->count * task / tasks);",
           type, type);
  bp__line(
      e, "  const %s last = context->first + (%s)((long long)context->count * (task + 1) / tasks);",
      type, type);
  bp__line(e, "  int rc = 0;");
  const char *loop = symbol->expr.text;
  bp__line(e, "  for (%s %s = first; %s < last; ++%s) {", type, loop, loop, loop);
  e->indent = 1;
  bp__block(e, e->ir->operand(node, 3));
  bp__line(e, "}");
  bp__end_streams(e);
  e->indent = 0;
  bp__line(e, "  return rc;");
  bp__line(e, "}\n");
  bp__undeclare(e, var);
  e->in_parallel = 0;
  e->out = outer;
  e->indent = indent;
  e->cleanup = cleanup;
  bp__append(e, &e->before, task.data ? task.data : "", task.size);
  bp__text_free(&task);
}

void bp__parallel(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *roots[] = {e->ir->operand(node, 1), e->ir->operand(node, 2)};
  Captures captures = {.e = e};
  BpIrVisitor visitor = {sizeof(visitor), &captures, capture, NULL};
  e->ir->visit(e->ir->operand(node, 3), &visitor);
  bp__begin_statement(e, roots, 2);
  BpExpr first = bp__index(e, roots[0]);
  BpExpr count = bp__index(e, roots[1]);
  const char *name = bp__format(e, "task_%s_%d", e->function_name, e->next_name++);
  const char *data = bp__unique_name(e, "context");
  bp__line(e, "struct %s %s = {%s%s%s, %s};", name, data,
           captures.values.data ? captures.values.data : "", captures.values.size ? ", " : "",
           bp__bare(e, first.text), bp__bare(e, count.text));
  bp__line(e, "if (bp_parallel_launch(%s, &%s, %s))", name, data, count.text);
  bp__line(e, "  %s", bp__leave(e));
  emit_task(e, node, &captures, name);
  bp_pointer_map_free(&captures.seen);
  bp__text_free(&captures.fields);
  bp__text_free(&captures.loads);
  bp__text_free(&captures.values);
}
