/* SPDX-License-Identifier: Apache-2.0 */
/* Statements, and the names of variables. */
#include "compiler/emit/emit.h"

#include <string.h>

/* ---- Names ------------------------------------------------------------------------------- */

const char *bp__unique_name(BpEmitter *e, const char *base) {
  char name[64];
  size_t size = 0;
  for (const char *p = base; *p && size < sizeof(name) - 1; p++) {
    int is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
    int is_digit = *p >= '0' && *p <= '9';
    name[size] = is_letter || (is_digit && size > 0) ? *p : '_';
    size++;
  }
  name[size] = '\0';
  if (name[0] == 'g' && name[1] == 'l' && name[2] == '_') /* GLSL reserves such names */
    name[0] = 'v';
  int32_t number = e->next_name++;
  const char *unique = bp__format(e, "%s_%d", size ? name : "v", number);
  bp__note_name(e, number, unique);
  return unique;
}

BpSymbol *bp__declare(BpEmitter *e, const BpIrNode *node, BpDataType dtype) {
  BpSymbol *symbol = bp__arena_alloc(e, sizeof(*symbol));
  if (!symbol)
    return NULL;
  const char *name = bp__unique_name(e, e->ir->str_value(node));
  *symbol = (BpSymbol){.expr = {name, 0, 1}, .dtype = dtype, .node = node};
  if (bp_pointer_map_set(&e->symbols, node, symbol) != 0) {
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
    return NULL;
  }
  return symbol;
}

void bp__undeclare(BpEmitter *e, const BpIrNode *node) {
  if (bp_pointer_map_get(&e->symbols, node))
    bp_pointer_map_set(&e->symbols, node, NULL);
}

BpSymbol *bp__symbol(BpEmitter *e, const BpIrNode *node) {
  BpSymbol *symbol = bp_pointer_map_get(&e->symbols, node);
  if (!symbol)
    bp__fail(e, BP_ERROR_VALUE, "%s %s is used where it is not defined",
             e->ir->kind_name(e->ir->kind(node)), e->ir->str_value(node));
  return symbol;
}

const char *bp__leave(BpEmitter *e) {
  if (e->cleanup)
    return bp__format(e, "{ rc = -1; goto leave_%d; }", e->cleanup);
  return "return -1;";
}

/* ---- Loops ------------------------------------------------------------------------------- */

static int32_t find_register_store(void *context, const BpIrNode *node) {
  BpEmitter *e = context;
  if (e->ir->kind(node) != BP_IR_STORE)
    return 0;
  const BpIrNode *buffer = e->ir->operand(node, 0);
  int is_vector = e->ir->dtype(e->ir->operand(node, 2)).lanes > 1;
  return is_vector && e->ir->int_value(buffer) == BP_IR_SCOPE_LOCAL ? -1 : 1;
}

/* Whether a loop works on vectors in registers: the schedule decides how far such a loop is
 * unrolled, and the language's compiler must not unroll it further. */
static int is_register_loop(BpEmitter *e, const BpIrNode *body) {
  BpIrVisitor visitor = {sizeof(visitor), e, find_register_store, NULL};
  return e->ir->visit(body, &visitor) != 0;
}

static void unroll_hint(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *extent = e->ir->operand(node, 2);
  int64_t kind = e->ir->int_value(node);
  if (kind == BP_IR_FOR_UNROLLED && e->dialect->unroll && e->ir->kind(extent) == BP_IR_INT_IMM) {
    const char *times = bp__format(e, "%lld", (long long)e->ir->int_value(extent));
    bp__line(e, "%s", bp__apply(e, e->dialect->unroll, times));
  } else if (kind == BP_IR_FOR_SERIAL && e->dialect->no_unroll &&
             is_register_loop(e, e->ir->operand(node, 3))) {
    bp__line(e, "%s", e->dialect->no_unroll);
  }
}

/* A bound of a loop, which is read once: an element of an array may be in a variable that the body
 * changes. */
static BpExpr bound(BpEmitter *e, const BpIrNode *node, BpDataType dtype) {
  BpExpr value = bp__index(e, node);
  value.is_atom &= e->ir->kind(node) != BP_IR_LOAD;
  return bp__atom(e, value, dtype);
}

static void serial_loop(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *var = e->ir->operand(node, 0);
  const BpIrNode *min = e->ir->operand(node, 1);
  const BpIrNode *extent = e->ir->operand(node, 2);
  BpDataType dtype = e->ir->dtype(var);
  const BpIrNode *roots[] = {min, extent};
  bp__begin_statement(e, roots, 2);
  BpExpr first = bound(e, min, dtype), count = bound(e, extent, dtype);
  int from_zero = e->ir->kind(min) == BP_IR_INT_IMM && e->ir->int_value(min) == 0;
  const char *last = from_zero ? count.text : bp__format(e, "%s + %s", first.text, count.text);
  BpSymbol *symbol = bp__declare(e, var, dtype);
  if (!symbol)
    return;
  const char *name = symbol->expr.text;
  unroll_hint(e, node);
  bp__line(e, "for (%s %s = %s; %s < %s; ++%s) {", bp__type(e, dtype), name, first.text, name, last,
           name);
  bp__block(e, e->ir->operand(node, 3));
  bp__line(e, "}");
  bp__undeclare(e, var);
}

/* Whether the launch has exactly as many threads on an axis as a loop on the axis needs; otherwise
 * the other threads must skip the loop. A launch of size 0 starts one thread
 * (bp_kernel_get_launch), so that thread skips a loop whose extent may be 0. */
static int takes_all_threads(BpEmitter *e, const char *tag, const BpIrNode *extent) {
  for (int32_t i = bp__num_params(e, e->function); i < e->ir->num_operands(e->function); i++) {
    const BpIrNode *attr = e->ir->operand(e->function, i);
    if (e->ir->kind(attr) != BP_IR_ATTR || strcmp(e->ir->str_value(attr), BP_IR_ATTR_LAUNCH) != 0 ||
        strcmp(e->ir->str_value(e->ir->operand(attr, 0)), tag) != 0)
      continue;
    const BpIrNode *threads = e->ir->operand(attr, 1);
    return e->ir->kind(threads) == BP_IR_INT_IMM && e->ir->kind(extent) == BP_IR_INT_IMM &&
           e->ir->int_value(threads) == e->ir->int_value(extent) && e->ir->int_value(extent) > 0;
  }
  return 0;
}

static void bound_body(BpEmitter *e, const BpIrNode *node, const char *tag, const char *thread) {
  const BpIrNode *extent = e->ir->operand(node, 2), *body = e->ir->operand(node, 3);
  if (takes_all_threads(e, tag, extent)) {
    bp__stmt(e, body);
    return;
  }
  bp__begin_statement(e, &extent, 1);
  bp__line(e, "if (%s < %s) {", thread, bp__index(e, extent).text);
  bp__block(e, body);
  bp__line(e, "}");
}

/* A loop over a thread axis: its variable is the axis. */
static void bound_loop(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *var = e->ir->operand(node, 0);
  const BpIrNode *min = e->ir->operand(node, 1);
  const char *tag = e->ir->str_value(node);
  const char *axis = NULL;
  for (int32_t i = 0; i < e->dialect->num_axes; i++) {
    const BpDialectAxis *row = bp_dialect_axis(e->dialect, i);
    if (strcmp(row->tag, tag) == 0)
      axis = row->text;
  }
  if (!axis) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a loop bound to the thread axis \"%s\"", tag);
    return;
  }
  BpSymbol *symbol = bp__declare(e, var, e->ir->dtype(var));
  if (!symbol)
    return;
  bp__begin_statement(e, &min, 1);
  const char *type = bp__type(e, e->ir->dtype(var));
  const char *thread = bp__apply(e, e->dialect->cast, type, axis), *value = thread;
  int from_zero = e->ir->kind(min) == BP_IR_INT_IMM && e->ir->int_value(min) == 0;
  if (!from_zero)
    value = bp__format(e, "%s + %s", value, bp__index(e, min).text);
  bp__line(e, "const %s %s = %s;", type, symbol->expr.text, bp__bare(e, value));
  bound_body(e, node, tag, thread);
  bp__undeclare(e, var);
}

static void loop(BpEmitter *e, const BpIrNode *node) {
  int64_t kind = e->ir->int_value(node);
  int is_host = (e->dialect->flags & BP_DIALECT_HOST) != 0;
  if (kind == BP_IR_FOR_BOUND)
    bound_loop(e, node);
  else if (kind == BP_IR_FOR_PARALLEL && is_host && !e->in_parallel)
    bp__parallel(e, node);
  else
    serial_loop(e, node);
}

static void while_loop(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *condition = e->ir->operand(node, 0);
  int32_t num_texels = e->num_texels;
  bp__line(e, "for (;;) {");
  e->indent++;
  bp__begin_statement(e, &condition, 1);
  bp__line(e, "if (!%s)", bp__expr(e, condition).text);
  bp__line(e, "  break;");
  bp__stmt(e, e->ir->operand(node, 1));
  e->indent--;
  e->num_texels = num_texels;
  bp__line(e, "}");
}

/* ---- Others ------------------------------------------------------------------------------ */

static void let(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *var = e->ir->operand(node, 0);
  const BpIrNode *value_node = e->ir->operand(node, 1);
  bp__begin_statement(e, &value_node, 1);
  BpExpr value = bp__expr(e, value_node);
  BpDataType dtype = e->ir->dtype(var);
  BpSymbol *symbol = bp__declare(e, var, dtype);
  if (!symbol)
    return;
  symbol->expr.bits = value.bits;
  symbol->value = value_node;
  const char *type =
      dtype.code == BP_DTYPE_HANDLE ? "void *" : bp__value_type(e, dtype, value.bits);
  bp__line(e, "const %s %s = %s;", type, symbol->expr.text, bp__bare(e, value.text));
  int32_t num_texels = e->num_texels;
  bp__stmt(e, e->ir->operand(node, 2));
  e->num_texels = num_texels;
  bp__undeclare(e, var);
}

static void conditional(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *condition = e->ir->operand(node, 0);
  const BpIrNode *otherwise = e->ir->operand(node, 2);
  bp__begin_statement(e, &condition, 1);
  bp__line(e, "if (%s) {", bp__bare(e, bp__expr(e, condition).text));
  bp__block(e, e->ir->operand(node, 1));
  if (otherwise) {
    bp__line(e, "} else {");
    bp__block(e, otherwise);
  }
  bp__line(e, "}");
}

static void evaluate(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *expression = e->ir->operand(node, 0);
  bp__begin_statement(e, &expression, 1);
  BpExpr value = bp__expr(e, expression);
  if (value.text[0] && !value.is_atom)
    bp__line(e, "%s;", bp__bare(e, value.text));
}

static void assertion(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *condition = e->ir->operand(node, 0);
  if (!(e->dialect->flags & BP_DIALECT_HOST)) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "an assertion in a kernel");
    return;
  }
  bp__begin_statement(e, &condition, 1);
  bp__line(e, "if (!%s) {", bp__expr(e, condition).text);
  bp__line(e, "  bp_raise(\"%s\", \"%%s\", %s);", BP_ERROR_VALUE,
           bp__c_string(e, e->ir->str_value(node)));
  bp__line(e, "  %s", bp__leave(e));
  bp__line(e, "}");
}

/* Whether a block is one thread, so that barriers have no effect. */
static int is_alone(BpEmitter *e) {
  for (int32_t i = bp__num_params(e, e->function); i < e->ir->num_operands(e->function); i++) {
    const BpIrNode *attr = e->ir->operand(e->function, i);
    if (e->ir->kind(attr) == BP_IR_ATTR && !strcmp(e->ir->str_value(attr), BP_IR_ATTR_LAUNCH) &&
        !strncmp(e->ir->str_value(e->ir->operand(attr, 0)), "threadIdx", 9))
      return 0;
  }
  return 1;
}

static void barrier(BpEmitter *e, const BpIrNode *node) {
  int is_shared = strcmp(e->ir->str_value(node), "shared") == 0;
  const char *text = is_shared ? e->dialect->barrier_shared : e->dialect->barrier_global;
  if (!text)
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a barrier of scope \"%s\"", e->ir->str_value(node));
  else if ((e->dialect->flags & BP_DIALECT_HOST) || !is_alone(e))
    bp__line(e, "%s", text);
}

static void statement(BpEmitter *e, const BpIrNode *node) {
  int32_t kind = e->ir->kind(node);
  switch (kind) {
  case BP_IR_SEQ:
    for (int32_t i = 0; i < e->ir->num_operands(node); i++)
      bp__stmt(e, e->ir->operand(node, i));
    return;
  case BP_IR_FOR:
    loop(e, node);
    return;
  case BP_IR_STORE:
    bp__store(e, node);
    return;
  case BP_IR_LET:
    let(e, node);
    return;
  case BP_IR_IF:
    conditional(e, node);
    return;
  case BP_IR_ALLOCATE:
    bp__allocate(e, node);
    return;
  case BP_IR_EVALUATE:
    evaluate(e, node);
    return;
  case BP_IR_BARRIER:
    barrier(e, node);
    return;
  case BP_IR_ASSERT:
    assertion(e, node);
    return;
  case BP_IR_WHILE:
    while_loop(e, node);
    return;
  default: {
    const char *name = e->ir->kind_name(kind);
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "construct %s (kind %d) as a statement",
             name ? name : "unknown", kind);
  }
  }
}

void bp__stmt(BpEmitter *e, const BpIrNode *node) {
  if (!node)
    bp__fail(e, BP_ERROR_VALUE, "a statement is missing");
  if (e->failed)
    return;
  if (e->depth > 1000) {
    bp__fail(e, BP_ERROR_VALUE, "statements are nested deeper than 1000");
    return;
  }
  e->depth++;
  statement(e, node);
  e->depth--;
}

void bp__block(BpEmitter *e, const BpIrNode *node) {
  int32_t num_texels = e->num_texels;
  e->indent++;
  bp__stmt(e, node);
  e->indent--;
  e->num_texels = num_texels;
}
