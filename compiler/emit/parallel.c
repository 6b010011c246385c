/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel loop becomes a function that runs one task's share of the loop. Its parameters are the
 * outside values that the loop's body uses, under their names: compilers heed `restrict` on
 * parameters, but not on pointers that are read from memory. A second function, the task, takes the
 * values from a structure. */
#include "compiler/emit/emit.h"

typedef struct Captures {
  BpEmitter *e;
  BpPointerMap seen;
  BpText fields;     /* declarations of the structure's fields */
  BpText parameters; /* declarations of the parameters */
  BpText arguments;  /* the structure's fields as arguments */
  BpText values;     /* initial values of the structure's fields */
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
  bp__appendf(e, &captures->parameters, "%s %s%s%s, ", type, pointer, qualifier, name);
  bp__appendf(e, &captures->arguments, "context->%s, ", name);
  bp__appendf(e, &captures->values, "%s%s", captures->values.size ? ", " : "", name);
  return is_buffer ? 1 : 0; /* the body does not need the extents of a buffer */
}

/* Writes the loop over a share of the iterations as a function of its own. The function is not
 * inlined: inlining would turn its parameters into pointers that are read from memory. */
static void emit_share(BpEmitter *e, const BpIrNode *node, const Captures *captures,
                       const char *name, const char *loop) {
  const char *type = bp__type(e, e->ir->dtype(e->ir->operand(node, 0)));
  bp__line(e, "__attribute__((noinline))");
  bp__line(e, "static int share_of_%s(%sconst %s first, const %s last) {", name,
           captures->parameters.data ? captures->parameters.data : "", type, type);
  bp__line(e, "  int rc = 0;");
  bp__line(e, "  for (%s %s = first; %s < last; ++%s) {", type, loop, loop, loop);
  e->indent = 1;
  bp__block(e, e->ir->operand(node, 3));
  bp__line(e, "}");
  bp__end_streams(e);
  e->indent = 0;
  bp__line(e, "  return rc;");
  bp__line(e, "}\n");
}

/* Writes the function of one task, which computes its share, by function `share`, from the number
 * of tasks. */
static void emit_task(BpEmitter *e, const BpIrNode *node, const Captures *captures,
                      const char *name, const char *share) {
  const char *type = bp__type(e, e->ir->dtype(e->ir->operand(node, 0)));
  bp__line(e, "struct %s {", name);
  bp__appendf(e, e->out, "%s", captures->fields.data ? captures->fields.data : "");
  bp__line(e, "  %s first, count;", type);
  bp__line(e, "};\n");
  bp__line(e, "static int %s(int task, bp_group *group, void *data) {", name);
  bp__line(e, "  const struct %s *context = data;", name);
  bp__line(e, "  const long long tasks = group->num_task;");
  bp__line(e, "  const %s first = context->first + (%s)((long long)context->count * task / tasks);",
           type, type);
  bp__line(
      e, "  const %s last = context->first + (%s)((long long)context->count * (task + 1) / tasks);",
      type, type);
  bp__line(e, "  return %s(%sfirst, last);", share,
           captures->arguments.data ? captures->arguments.data : "");
  bp__line(e, "}\n");
}

/* Writes both functions before the current function. */
static void emit_functions(BpEmitter *e, const BpIrNode *node, const Captures *captures,
                           const char *name, int32_t number) {
  const BpIrNode *var = e->ir->operand(node, 0);
  BpSymbol *symbol = bp__declare(e, var, e->ir->dtype(var));
  if (!symbol)
    return;
  BpText functions = {NULL, 0, 0}, share = {NULL, 0, 0};
  BpText *outer = e->out;
  int32_t indent = e->indent;
  int32_t cleanup = e->cleanup;
  e->out = &share;
  e->indent = 0;
  e->cleanup = 0;
  e->in_parallel = 1;
  emit_share(e, node, captures, name, symbol->expr.text);
  e->out = &functions;
  const char *called = bp__write_once(e, &share, bp__format(e, "share_of_%s", name), number);
  emit_task(e, node, captures, name, called);
  bp__undeclare(e, var);
  e->in_parallel = 0;
  e->out = outer;
  e->indent = indent;
  e->cleanup = cleanup;
  bp__append(e, &e->before, functions.data ? functions.data : "", functions.size);
  bp__text_free(&functions);
  bp__text_free(&share);
}

void bp__parallel(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *roots[] = {e->ir->operand(node, 1), e->ir->operand(node, 2)};
  Captures captures = {.e = e};
  BpIrVisitor visitor = {sizeof(visitor), &captures, capture, NULL};
  e->ir->visit(e->ir->operand(node, 3), &visitor);
  bp__begin_statement(e, roots, 2);
  BpExpr first = bp__index(e, roots[0]);
  BpExpr count = bp__index(e, roots[1]);
  int32_t number = e->next_name++;
  const char *name = bp__format(e, "task_%s_%d", e->function_name, number);
  const char *data = bp__unique_name(e, "context");
  bp__line(e, "struct %s %s = {%s%s%s, %s};", name, data,
           captures.values.data ? captures.values.data : "", captures.values.size ? ", " : "",
           bp__bare(e, first.text), bp__bare(e, count.text));
  bp__line(e, "if (bp_parallel_launch(%s, &%s, %s))", name, data, count.text);
  bp__line(e, "  %s", bp__leave(e));
  emit_functions(e, node, &captures, name, number);
  bp_pointer_map_free(&captures.seen);
  bp__text_free(&captures.fields);
  bp__text_free(&captures.parameters);
  bp__text_free(&captures.arguments);
  bp__text_free(&captures.values);
}
