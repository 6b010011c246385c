/* SPDX-License-Identifier: Apache-2.0 */
/* Names for indices that several statements use.
 *
 * Unrolled statements of a kernel repeat long parts of their indices if extents are open: a
 * driver's compiler reads the same product of extents hundreds of times. The pass makes one node of
 * equal indices, and gives an index that several statements use a name. The LET of the name is
 * around the innermost body that contains all uses.
 *
 * An index is integer arithmetic on variables and constants, so it has the same value wherever its
 * variables have values. An index may be computed in iterations that did not need the index: pass
 * `guard` has made each division harmless. */

#include <stdlib.h>

#include "compiler/lower/passes.h"

/* A body of a statement. A variable that is bound around the body has a value in all of it. */
typedef struct Scope {
  int32_t parent; /* -1 for the function's body */
  int32_t depth;
  size_t last; /* number of the scope's last index with a name, plus 1; 0: none */
} Scope;

/* A distinct index. */
typedef struct Index {
  const BpIrNode *node;
  const BpIrNode *name; /* VAR, or NULL */
  const BpIrNode *value;
  int32_t count;     /* uses as an operand of a distinct index or of a statement */
  int32_t scope;     /* the innermost scope that contains all uses */
  int32_t statement; /* number of the statement with the first use */
  bool is_spread;    /* several statements use the index, or an index that contains it */
  bool is_rebound;   /* the index uses a variable that is bound twice */
  size_t previous;   /* the previous index with a name in the scope, as in Scope */
} Index;

typedef struct Sharing {
  BpIrModule *module;
  BpIrMap equals;         /* the distinct indices */
  BpIrMap numbers;        /* index -> its number in `indices` plus 1, as a pointer */
  BpIrMap bound;          /* variables that a visited statement binds */
  BpIrMap rebound;        /* variables that two visited statements bind */
  BpIrMap seen;           /* visited expressions of the current statement that are no indices */
  const BpIrNode **table; /* distinct indices by hash; NULL: free */
  size_t table_size, num_nodes;
  Index *indices; /* operands first */
  size_t num_indices, max_indices;
  Scope *scopes;
  int32_t num_scopes, max_scopes;
  int32_t statement;
} Sharing;

/* ---- Equal indices ----------------------------------------------------------------------- */

static bool is_index_type(BpDataType dtype) {
  return dtype.lanes == 1 && (bp__dtype_is_int(dtype) || bp__dtype_is_bool(dtype));
}

/* Whether a node, whose operands are distinct already, is an index. */
static bool is_index(const Sharing *sharing, const BpIrNode *node) {
  bool is_leaf = node->kind == BP_IR_VAR || node->kind == BP_IR_INT_IMM;
  bool is_operation = node->kind >= BP_IR_ADD && node->kind <= BP_IR_CAST;
  if (!is_index_type(node->dtype) || (!is_leaf && !is_operation))
    return false;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!bp__ir_map_get(&sharing->equals, node->operands[i]))
      return false;
  return true;
}

static size_t hash_of(const BpIrNode *node) {
  uint64_t hash = (uint64_t)node->kind * 31 + node->dtype.code * 7 + node->dtype.bits;
  hash = hash * 0x9e3779b97f4a7c15u + (uint64_t)node->int_value;
  for (int32_t i = 0; i < node->num_operands; i++)
    hash = (hash ^ (uint64_t)(uintptr_t)node->operands[i]) * 0x9e3779b97f4a7c15u;
  return (size_t)(hash ^ hash >> 29);
}

/* Whether two indices with distinct operands are equal. */
static bool is_same(const BpIrNode *a, const BpIrNode *b) {
  if (a->kind != b->kind || !bp__dtype_equal(a->dtype, b->dtype) || a->int_value != b->int_value ||
      a->num_operands != b->num_operands)
    return false;
  for (int32_t i = 0; i < a->num_operands; i++)
    if (a->operands[i] != b->operands[i])
      return false;
  return true;
}

/* The slot of an equal node in the table, or a free slot. */
static const BpIrNode **find_slot(const Sharing *sharing, const BpIrNode *node) {
  size_t at = hash_of(node) & (sharing->table_size - 1);
  while (sharing->table[at] && !is_same(sharing->table[at], node))
    at = (at + 1) & (sharing->table_size - 1);
  return &sharing->table[at];
}

static int grow_table(Sharing *sharing) {
  Sharing larger = *sharing;
  larger.table_size = sharing->table_size ? sharing->table_size * 2 : 256;
  larger.table = calloc(larger.table_size, sizeof(*larger.table));
  if (!larger.table)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu indices", larger.table_size);
  for (size_t i = 0; i < sharing->table_size; i++)
    if (sharing->table[i])
      *find_slot(&larger, sharing->table[i]) = sharing->table[i];
  free(sharing->table);
  *sharing = larger;
  return 0;
}

/* The distinct index that is equal to an index; any other node itself. */
static const BpIrNode *make_distinct(BpIrRewriter *rewriter, const BpIrNode *node) {
  Sharing *sharing = rewriter->context;
  if (!is_index(sharing, node))
    return node;
  if (node->kind != BP_IR_VAR) {
    if (sharing->num_nodes * 2 >= sharing->table_size && grow_table(sharing) != 0)
      return NULL;
    const BpIrNode **slot = find_slot(sharing, node);
    if (*slot)
      return *slot;
    *slot = node;
    sharing->num_nodes++;
  }
  return bp__ir_map_set(&sharing->equals, node, node) == 0 ? node : NULL;
}

static const BpIrNode *make_all_distinct(Sharing *sharing, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = sharing->module,
                           .context = sharing,
                           .enter = bp__ir_skip_buffer,
                           .leave = make_distinct};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

/* ---- Uses -------------------------------------------------------------------------------- */

static Index *get_index(const Sharing *sharing, const BpIrNode *node) {
  uintptr_t number = (uintptr_t)bp__ir_map_get(&sharing->numbers, node);
  return number ? &sharing->indices[number - 1] : NULL;
}

/* The innermost scope that contains both scopes. */
static int32_t common_scope(const Sharing *sharing, int32_t a, int32_t b) {
  const Scope *scopes = sharing->scopes;
  while (a != b) {
    if (scopes[a].depth >= scopes[b].depth)
      a = scopes[a].parent;
    else
      b = scopes[b].parent;
  }
  return a;
}

static int append_index(Sharing *sharing, const BpIrNode *node, int32_t scope) {
  if (sharing->num_indices == sharing->max_indices) {
    size_t count = sharing->max_indices ? sharing->max_indices * 2 : 64;
    Index *indices = realloc(sharing->indices, count * sizeof(*indices));
    if (!indices)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu indices", count);
    sharing->indices = indices;
    sharing->max_indices = count;
  }
  sharing->indices[sharing->num_indices++] =
      (Index){.node = node, .count = 1, .scope = scope, .statement = sharing->statement};
  return bp__ir_map_set(&sharing->numbers, node, (const void *)(uintptr_t)sharing->num_indices);
}

static int use_index(Sharing *sharing, const BpIrNode *node, int32_t scope) {
  Index *index = get_index(sharing, node);
  if (node->num_operands == 0)
    return 0;
  if (index) {
    index->count++;
    index->scope = common_scope(sharing, index->scope, scope);
    index->is_spread |= index->statement != sharing->statement;
    return 0;
  }
  for (int32_t i = 0; i < node->num_operands; i++)
    if (use_index(sharing, node->operands[i], scope) != 0)
      return -1;
  return append_index(sharing, node, scope);
}

/* Notes the uses of indices in an expression of the current statement. */
static int use_expression(Sharing *sharing, const BpIrNode *node, int32_t scope) {
  if (bp__ir_map_get(&sharing->equals, node))
    return use_index(sharing, node, scope);
  if (node->num_operands == 0 || node->kind == BP_IR_BUFFER || bp__ir_map_get(&sharing->seen, node))
    return 0;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (use_expression(sharing, node->operands[i], scope) != 0)
      return -1;
  return bp__ir_map_set(&sharing->seen, node, node);
}

/* ---- Statements -------------------------------------------------------------------------- */

static bool is_body(const BpIrNode *statement, int32_t operand) {
  return bp__ir_is_statement(statement->operands[operand]);
}

/* Whether an operand of a statement stays as it is: a variable or buffer, or a bound of a loop over
 * threads, which the launch computes from the function's parameters. */
static bool is_fixed(const BpIrNode *statement, int32_t operand) {
  switch (statement->kind) {
  case BP_IR_FOR:
    return operand == 0 || (statement->int_value == BP_IR_FOR_BOUND && operand < 3);
  case BP_IR_LET:
  case BP_IR_STORE:
  case BP_IR_ALLOCATE:
    return operand == 0;
  default:
    return false;
  }
}

/* Adds a scope; returns its number, or -1 with an error. */
static int32_t add_scope(Sharing *sharing, int32_t parent) {
  if (sharing->num_scopes == sharing->max_scopes) {
    int32_t count = sharing->max_scopes ? sharing->max_scopes * 2 : 64;
    Scope *scopes = realloc(sharing->scopes, (size_t)count * sizeof(*scopes));
    if (!scopes) {
      bp_error_raise(BP_ERROR_MEMORY, "no memory for %d scopes", count);
      return -1;
    }
    sharing->scopes = scopes;
    sharing->max_scopes = count;
  }
  int32_t depth = parent < 0 ? 0 : sharing->scopes[parent].depth + 1;
  sharing->scopes[sharing->num_scopes] = (Scope){parent, depth, 0};
  return sharing->num_scopes++;
}

/* Notes the variable that a statement binds. */
static int bind_variable(Sharing *sharing, const BpIrNode *node) {
  if (node->kind != BP_IR_FOR && node->kind != BP_IR_LET)
    return 0;
  const BpIrNode *var = node->operands[0];
  bool is_bound = bp__ir_map_get(&sharing->bound, var) != NULL;
  return bp__ir_map_set(is_bound ? &sharing->rebound : &sharing->bound, var, var);
}

/* Visits a statement and the statements in it. The scopes get numbers in the order in which
 * rebuild_statement visits them. */
static int visit_statement(Sharing *sharing, const BpIrNode *node, int32_t scope) {
  sharing->statement++;
  bp__ir_map_clear(&sharing->seen);
  if (bind_variable(sharing, node) != 0)
    return -1;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!is_body(node, i) && !is_fixed(node, i) &&
        use_expression(sharing, node->operands[i], scope) != 0)
      return -1;
  for (int32_t i = 0; i < node->num_operands; i++) {
    if (!is_body(node, i))
      continue;
    int32_t inner = node->kind == BP_IR_SEQ ? scope : add_scope(sharing, scope);
    if (inner < 0 || visit_statement(sharing, node->operands[i], inner) != 0)
      return -1;
  }
  return 0;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* Finds the indices that use a variable that is bound twice: such an index may have two values. */
static void find_rebound(Sharing *sharing) {
  for (size_t i = 0; i < sharing->num_indices; i++) {
    Index *index = &sharing->indices[i];
    for (int32_t k = 0; k < index->node->num_operands; k++) {
      const BpIrNode *node = index->node->operands[k];
      const Index *operand = get_index(sharing, node);
      index->is_rebound |=
          operand ? operand->is_rebound : bp__ir_map_get(&sharing->rebound, node) != NULL;
    }
  }
}

/* Makes the names of indices. The scope of an index contains the scopes of the indices that use
 * it. */
static int make_names(Sharing *sharing) {
  find_rebound(sharing);
  for (size_t i = sharing->num_indices; i-- > 0;) {
    Index *index = &sharing->indices[i];
    for (int32_t k = 0; k < index->node->num_operands; k++) {
      Index *operand = get_index(sharing, index->node->operands[k]);
      if (!operand)
        continue;
      operand->scope = common_scope(sharing, operand->scope, index->scope);
      operand->is_spread |= index->is_spread;
    }
    if (index->count < 2 || !index->is_spread || index->is_rebound ||
        index->node->depth <= BP_SHORT_INDEX_DEPTH)
      continue;
    if (!(index->name = bp_ir_var(sharing->module, "t", index->node->dtype)))
      return -1;
  }
  return 0;
}

/* Makes the values of the names, and lists the names of each scope. */
static int make_values(Sharing *sharing, BpIrRewriter *expressions) {
  for (size_t i = 0; i < sharing->num_indices; i++) {
    Index *index = &sharing->indices[i];
    if (!index->name)
      continue;
    index->value = bp__ir_rewrite(expressions, index->node);
    if (!index->value || bp__ir_map_set(&expressions->done, index->node, index->name) != 0)
      return -1;
    index->previous = sharing->scopes[index->scope].last;
    sharing->scopes[index->scope].last = i + 1;
  }
  return 0;
}

/* The body of a scope, inside the LETs of the scope's names. */
static const BpIrNode *name_in(const Sharing *sharing, int32_t scope, const BpIrNode *body) {
  const Index *index;
  for (size_t i = sharing->scopes[scope].last; body && i > 0; i = index->previous) {
    index = &sharing->indices[i - 1];
    body = bp_ir_let(sharing->module, index->name, index->value, body);
  }
  return body;
}

static const BpIrNode *rebuild_statement(Sharing *sharing, BpIrRewriter *expressions,
                                         const BpIrNode *node, int32_t *scope) {
  const BpIrNode **operands =
      bp__ir_alloc(sharing->module, (size_t)(node->num_operands + 1) * sizeof(*operands));
  if (!operands)
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++) {
    if (is_fixed(node, i)) {
      operands[i] = node->operands[i];
    } else if (!is_body(node, i)) {
      operands[i] = bp__ir_rewrite(expressions, node->operands[i]);
    } else if (node->kind == BP_IR_SEQ) {
      operands[i] = rebuild_statement(sharing, expressions, node->operands[i], scope);
    } else {
      int32_t inner = ++*scope;
      operands[i] = name_in(sharing, inner,
                            rebuild_statement(sharing, expressions, node->operands[i], scope));
    }
    if (!operands[i])
      return NULL;
  }
  return bp__ir_with_operands(sharing->module, node, operands);
}

static const BpIrNode *rebuild_function(Sharing *sharing, const BpIrNode *function) {
  BpIrRewriter expressions = {.module = sharing->module, .enter = bp__ir_skip_buffer};
  int32_t scope = 0;
  const BpIrNode *body = NULL;
  if (make_values(sharing, &expressions) == 0)
    body = rebuild_statement(sharing, &expressions, bp__ir_function_body(function), &scope);
  bp__ir_rewriter_clear(&expressions);
  return body ? bp__ir_substitute_one(sharing->module, function, bp__ir_function_body(function),
                                      name_in(sharing, 0, body))
              : NULL;
}

const BpIrNode *bp__pass_share_indices(BpIrModule *module, const BpIrNode *function) {
  Sharing sharing = {.module = module};
  const BpIrNode *result = make_all_distinct(&sharing, function);
  if (result && (add_scope(&sharing, -1) < 0 ||
                 visit_statement(&sharing, bp__ir_function_body(result), 0) != 0 ||
                 make_names(&sharing) != 0))
    result = NULL;
  if (result)
    result = rebuild_function(&sharing, result);
  bp__ir_map_clear(&sharing.equals);
  bp__ir_map_clear(&sharing.numbers);
  bp__ir_map_clear(&sharing.bound);
  bp__ir_map_clear(&sharing.rebound);
  bp__ir_map_clear(&sharing.seen);
  free(sharing.table);
  free(sharing.indices);
  free(sharing.scopes);
  return result;
}
