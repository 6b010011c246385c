/* SPDX-License-Identifier: Apache-2.0 */
/* If: a node with two bodies or, if the condition is a constant, the nodes of the chosen branch.
 *
 * Each node is computed for one number of dimensions. If a value that later nodes read has another
 * number of dimensions in each branch, the nodes behind the If are added to both branches, one
 * after the other, until the branches agree. The nodes of a branch or function are followed by
 * those behind the If or call whose outputs they give. The import goes on where the branches agree.
 */
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"

/* A branch during its import. */
typedef struct Branch {
  Body body;
  Scope *scope;      /* a twin in the body, which has its nodes before scope->next */
  const char *error; /* why each run of the body fails, or NULL */
} Branch;

typedef struct Branching {
  Scope *scope;
  const OnnxNode *node;
  const char *name;
  BpGraphValue *condition;
  int32_t count;     /* of the expressions of extents before the node */
  size_t num_before; /* number of the scope's nodes up to the node */
  Branch branches[2];
  BpList names;    /* of the values that a branch made and that nodes behind its place read */
  int32_t level;   /* of the scope that has the names */
  size_t num_seen; /* number of the scope's nodes whose outputs were considered for the list */
} Branching;

/* ---- One branch -------------------------------------------------------------------------- */

/* Ends a step of a branch. A branch may fail in each run, because no run takes it, for example
 * behind an OptionalHasElement: the run that takes it fails. */
static int end_step(Branching *b, Branch *branch, int status) {
  Import *import = b->scope->import;
  import->graph = branch->body.graph->outer;
  if (status > 0)
    branch->scope = import->place;
  if (status >= 0)
    return 0;
  if (bp_error_is(BP_ERROR_VALUE) || bp_error_is(BP_ERROR_MEMORY))
    return -1; /* a limit, which no branch is to blame for */
  if (!import->failing || b->branches[0].error || b->branches[1].error)
    return bp_error_add_context("node '%s' (%s) has a condition that depends on the data, so both "
                                "of its branches have to work",
                                b->name, b->node->op_type);
  branch->error = import->failing;
  import->failing = NULL;
  bp_error_clear();
  return 0;
}

static void begin_step(const Branching *b, const Branch *branch) {
  Import *import = b->scope->import;
  import->graph = branch->body.graph;
  import->failing = NULL;
}

/* Continues behind the If or call whose outputs the branch's scope gives. */
static int leave_scope(Branch *branch) {
  Scope *scope = branch->scope, *caller = bp__scope_twin(scope->caller, &branch->body);
  if (!caller)
    return -1;
  branch->scope = caller;
  const OnnxNode *node = caller->nodes[caller->next - 1];
  const char *name = bp__scope_node_name(caller, caller->next - 1);
  return name ? bp__scope_return(scope, caller, node, name) : -1;
}

/* Adds the next node to a branch. */
static int advance(Branching *b, Branch *branch) {
  Scope *scope = branch->scope;
  begin_step(b, branch);
  return end_step(b, branch,
                  scope->next < scope->num_nodes ? bp__scope_add_next(scope) : leave_scope(branch));
}

/* ---- Both branches ----------------------------------------------------------------------- */

static Scope *scope_of_level(const Branching *b, int32_t level) {
  Scope *scope = b->scope;
  while (scope->level > level)
    scope = scope->caller;
  return scope;
}

/* The number of the scope's nodes up to the If, or to the node that it is part of. */
static size_t num_before(const Branching *b, int32_t level) {
  return level == b->scope->level ? b->num_before : scope_of_level(b, level)->next;
}

/* The place of both branches, or of the one that works. */
static Scope *place_of(const Branching *b) {
  return b->branches[b->branches[0].error ? 1 : 0].scope;
}

/* Whether the branches made the value of a name. */
static bool has_value(const Branching *b, const char *name) {
  if (b->level == b->scope->level && g_hash_table_contains(b->scope->values, name))
    return false; /* the value of a node that was added before the If */
  for (int32_t i = 0; i < 2; i++)
    if (!b->branches[i].error && !bp__scope_find(b->branches[i].scope, name))
      return false;
  return true;
}

/* Lists the names that nodes behind the place of both branches read. */
static int list_names(Branching *b) {
  Scope *place = place_of(b);
  size_t kept = 0;
  if (b->level != place->level) {
    b->level = place->level;
    b->num_seen = num_before(b, place->level) - 1;
    b->names.size = 0;
  }
  for (; b->num_seen < place->next; b->num_seen++) {
    const OnnxNode *node = place->nodes[b->num_seen];
    for (size_t k = 0; k < node->n_output; k++)
      if (!is_empty(node->output[k]) && bp__list_push(&b->names, node->output[k]))
        return -1;
  }
  for (size_t i = 0; i < b->names.size; i++)
    if (bp__scope_is_live(place, b->names.items[i]) && has_value(b, b->names.items[i]))
      b->names.items[kept++] = b->names.items[i];
  b->names.size = kept;
  return 0;
}

/* The number of dimensions of a tensor, or of the tensors in a sequence or optional, or BP_NDIM_*.
 */
static int32_t rank_of(const BpGraphValue *value) {
  const BpGraphSequence *sequence = value->sequence;
  int32_t rank = BP_NDIM_NONE;
  if (!sequence)
    return value->ndim;
  if (sequence->is_open)
    return sequence->dtype.bits > 0 ? sequence->ndim : BP_NDIM_NONE;
  for (int32_t i = 0; i < sequence->count; i++) {
    int32_t ndim = sequence->items[i]->ndim;
    rank = rank == BP_NDIM_NONE || rank == ndim ? ndim : BP_NDIM_ANY;
  }
  return rank;
}

/* Whether both branches give a value with the same number of dimensions or, if `exactly`, with the
 * same type, so that later nodes know as much of the value as nodes in the branch. */
static bool agree(const BpGraphValue *then, const BpGraphValue *otherwise, bool exactly) {
  bool is_sequence = then->sequence || otherwise->sequence;
  int32_t rank = rank_of(then), other = rank_of(otherwise);
  if (!exactly && is_sequence && (rank == BP_NDIM_NONE || other == BP_NDIM_NONE))
    return true;
  if (!exactly) /* the numbers of dimensions are known of each tensor in a settled sequence */
    return rank == other &&
           (rank != BP_NDIM_ANY || (bp__is_open_sequence(then) && bp__is_open_sequence(otherwise)));
  return !is_sequence && !then->data && !otherwise->data && !then->extents && !otherwise->extents &&
         bp__dtype_equal(then->dtype, otherwise->dtype) && bp__value_same_shape(then, otherwise);
}

/* Whether the If can end where both branches are, at one place. Between two nodes it ends only if
 * that hides nothing from the later nodes. */
static bool can_end(const Branching *b) {
  Scope *then = b->branches[0].scope, *otherwise = b->branches[1].scope;
  bool is_end = then->next == then->num_nodes;
  bool is_behind = then->next == num_before(b, then->level);
  if (is_end && !then->caller)
    return true;
  for (size_t i = 0; i < b->names.size; i++) {
    const char *name = b->names.items[i];
    if (!agree(bp__scope_find(then, name), bp__scope_find(otherwise, name), !is_end && !is_behind))
      return false;
  }
  return true;
}

static bool is_before(const Scope *a, const Scope *b) {
  return a->level == b->level ? a->next < b->next : a->level > b->level;
}

/* Adds the next node of the scope before the If, if the node reads no value of the branches.
 * Returns 1 if it did. */
static int add_before(Branching *b) {
  Scope *then = b->branches[0].scope, *scope = b->scope;
  if (then->level != scope->level || then->next == then->num_nodes ||
      !bp__scope_is_plain(then, then->next))
    return 0;
  const OnnxNode *node = then->nodes[then->next];
  for (size_t i = 0; i < node->n_input; i++)
    if (!is_empty(node->input[i]) && g_hash_table_contains(then->values, node->input[i]))
      return 0;
  scope->next = then->next;
  if (bp__scope_add_next(scope))
    return -1;
  then->next = b->branches[1].scope->next = scope->next;
  return 1;
}

/* The declared number of dimensions of an output; -1 if the model declares none. */
static int64_t declared_rank(const Scope *scope, const char *name) {
  const OnnxValueInfo *info = scope->declared ? g_hash_table_lookup(scope->declared, name) : NULL;
  const Backplane__Onnx__TensorTypeProto *type =
      info && info->type ? info->type->tensor_type : NULL;
  return type && type->shape ? (int64_t)type->shape->n_dim : -1;
}

/* An output of the model has one number of dimensions: if only one branch gives the declared
 * number, a run that takes the other branch fails. */
static int fail_undeclared(Branching *b) {
  const Import *import = b->scope->import;
  const Scope *end = b->branches[0].scope;
  for (size_t i = 0; i < b->names.size && end->next == end->num_nodes && !import->graph->outer;
       i++) {
    const char *name = b->names.items[i];
    int64_t declared = declared_rank(end, name), ranks[2];
    for (int32_t k = 0; k < 2; k++)
      ranks[k] = rank_of(bp__scope_find(b->branches[k].scope, name));
    if (declared < 0 || ranks[0] == ranks[1] || (ranks[0] != declared && ranks[1] != declared))
      continue;
    Branch *wrong = &b->branches[ranks[0] == declared ? 1 : 0];
    wrong->error = bp__arena_printf(&import->graph->arena,
                                    "node '%s' (%s): the branch gives '%s' another number of "
                                    "dimensions than the model declares",
                                    b->name, b->node->op_type, name);
    return wrong->error ? 0 : -1;
  }
  return 0;
}

/* Adds nodes to both branches until the If can end. */
static int meet(Branching *b) {
  Branch *then = &b->branches[0], *otherwise = &b->branches[1];
  while (!then->error && !otherwise->error) {
    Branch *behind = is_before(otherwise->scope, then->scope) ? otherwise : then;
    if (behind == then && !is_before(then->scope, otherwise->scope)) {
      if (list_names(b))
        return -1;
      if (can_end(b))
        return fail_undeclared(b);
      int added = add_before(b);
      if (added < 0)
        return -1;
      if (added)
        continue;
    }
    if (advance(b, behind))
      return -1;
  }
  return list_names(b);
}

/* ---- The node ---------------------------------------------------------------------------- */

/* Makes the outputs of a branch that works. */
static int list_outputs(const Branching *b, Branch *branch) {
  Named named;
  bp__onnx_name_node(&named, b->node, b->name);
  for (size_t i = 0; i < b->names.size; i++) {
    BpGraphValue *value = bp__scope_find(branch->scope, b->names.items[i]);
    if (!value ||
        bp__body_list_output(&branch->body, &named.node, value, &branch->body.graph->outputs))
      return -1;
  }
  return 0;
}

/* Replaces a branch by one that fails. The new branch's outputs have the types of the other
 * branch's outputs. */
static int make_failing(const Branching *b, Branch *branch, const Branch *other) {
  BpGraph *graph = b->scope->import->graph;
  const BpList *outputs = &other->body.graph->outputs;
  Named named;
  bp__onnx_name_node(&named, b->node, b->name);
  bp__body_clear(&branch->body);
  if (bp__body_begin(b->scope, &branch->body))
    return -1;
  for (size_t i = 0; i < outputs->size; i++) {
    const BpGraphValue *like = outputs->items[i];
    const BpGraphSequence type = bp__body_outer_type(graph, like, b->count);
    BpGraphValue *value = bp__sequence_fail(branch->body.graph, &named.node, branch->error, &type,
                                            like->sequence != NULL);
    if (!value || bp__list_push(&branch->body.graph->outputs, value))
      return -1;
  }
  return 0;
}

/* If an output is an optional in one branch, makes the other branch's output an optional, too. */
static int open_optionals(const BpGraphNode *named, const Branching *b) {
  BpGraph *graphs[] = {b->branches[0].body.graph, b->branches[1].body.graph};
  for (size_t i = 0; i < b->names.size; i++)
    for (int32_t k = 0; k < 2; k++) {
      const BpGraphValue *one = graphs[k]->outputs.items[i];
      BpGraphValue **other = (BpGraphValue **)&graphs[1 - k]->outputs.items[i];
      if (bp__is_optional(one) && !bp__is_optional(*other) &&
          !(*other = bp__sequence_make_optional(graphs[1 - k], named, *other)))
        return -1;
    }
  return 0;
}

/* Makes an output that is a sequence or an optional in both branches. */
static int set_sequence(BpGraph *graph, const BpGraphNode *named, BpGraphNode *node, int32_t index,
                        int32_t count) {
  BpGraphSequence type = bp__body_outer_type(graph, node->bodies[0]->outputs.items[index], count);
  BpGraphSequence other = bp__body_outer_type(graph, node->bodies[1]->outputs.items[index], count);
  return bp__sequence_join(named, &type, &other) < 0
             ? -1
             : bp__body_set_sequence(graph, node, index, &type);
}

/* Makes an output whose type holds for both branches: extents that differ between the branches are
 * bound after the branch has run. */
static int set_output(BpGraph *graph, const BpGraphNode *named, BpGraphNode *node, int32_t index,
                      int32_t count) {
  const BpGraphValue *then = node->bodies[0]->outputs.items[index];
  const BpGraphValue *otherwise = node->bodies[1]->outputs.items[index];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  if (!then->sequence != !otherwise->sequence)
    return bp__op_bad(named, "it gives a tensor in one case and a sequence in another");
  if (then->sequence)
    return set_sequence(graph, named, node, index, count);
  if (!bp__dtype_equal(then->dtype, otherwise->dtype) || then->ndim != otherwise->ndim)
    return bp__op_error(named,
                        "whether it gives %s or %s depends on the data, and they differ in type or "
                        "number of dimensions",
                        bp__value_format(then, a), bp__value_format(otherwise, b));
  for (int32_t d = 0; d < then->ndim; d++)
    shape[d] = then->shape[d] == otherwise->shape[d]
                   ? bp__body_outer_extent(graph, node->name, then->shape[d], count)
                   : bp__body_new_symbol(graph, node->name);
  return bp__node_set_output(graph, node, index, then->dtype, shape, then->ndim);
}

/* Makes the node, whose outputs are the values with the listed names. */
static BpGraphNode *make_node(Branching *b) {
  BpGraph *graph = b->scope->import->graph;
  Body *bodies[] = {&b->branches[0].body, &b->branches[1].body};
  int32_t num_outputs = (int32_t)b->names.size;
  BpList inputs = {0};
  BpGraphNode *node = NULL;
  Named named;
  for (int32_t i = 0; i < 2; i++)
    if (!b->branches[i].error && list_outputs(b, &b->branches[i]))
      return NULL;
  for (int32_t i = 0; i < 2; i++)
    if (b->branches[i].error && make_failing(b, &b->branches[i], &b->branches[1 - i]))
      return NULL;
  if (open_optionals(bp__onnx_name_node(&named, b->node, b->name), b))
    return NULL;
  bp__body_forget_unused(bodies[0]);
  bp__body_forget_unused(bodies[1]);
  if (!bp__list_push(&inputs, b->condition))
    node = bp__body_make_node(graph, &bp__op_branch, b->name, &inputs, bodies, 2, num_outputs, NULL,
                              0);
  bp__list_free(&inputs);
  for (int32_t i = 0; node && i < num_outputs; i++)
    if (set_output(graph, &named.node, node, i, b->count))
      return NULL;
  if (node)
    bp__body_keep_measured(graph, node, b->count);
  return node;
}

/* Ends the If where both branches are: its outputs get their names, and the import goes on. */
static int end(Branching *b) {
  const Scope *place = place_of(b);
  Scope *scope = scope_of_level(b, place->level);
  BpGraphNode *node = make_node(b);
  if (!node)
    return -1;
  if (scope->body != b->scope->body && !(scope = bp__scope_twin(scope, b->scope->body)))
    return -1;
  for (size_t i = 0; i < b->names.size; i++)
    if (bp__scope_add(scope, b->names.items[i], node->outputs[i]))
      return -1;
  scope->next = place->next;
  scope->import->place = scope;
  return scope != b->scope;
}

/* Adds the nodes of one case. */
static int begin_branch(Branching *b, int32_t index, BpAddCase add_case, const void *context) {
  Branch *branch = &b->branches[index];
  if (bp__body_begin(b->scope, &branch->body) ||
      !(branch->scope = bp__scope_twin(b->scope, &branch->body)))
    return -1;
  branch->body.is_branch = true;
  begin_step(b, branch);
  return end_step(b, branch, add_case(branch->scope, b->node, b->name, index == 0, context));
}

int bp__scope_branch(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue *condition,
                     BpAddCase add_case, const void *context) {
  Branching b = {.scope = scope,
                 .node = node,
                 .name = name,
                 .condition = condition,
                 .count = bp__extents_count(&scope->import->graph->extents),
                 .num_before = scope->next,
                 .level = -1};
  int status =
      begin_branch(&b, 0, add_case, context) || begin_branch(&b, 1, add_case, context) || meet(&b)
          ? -1
          : end(&b);
  bp__body_clear(&b.branches[0].body);
  bp__body_clear(&b.branches[1].body);
  bp__list_free(&b.names);
  return status;
}

/* ---- If ---------------------------------------------------------------------------------- */

static const OnnxGraph *read_branch(const Scope *scope, const OnnxNode *node, const char *name,
                                    bool is_then) {
  const OnnxGraph *onnx =
      bp__scope_read_graph(scope, node, name, is_then ? "then_branch" : "else_branch");
  if (!onnx || (onnx->n_input == 0 && onnx->n_output == node->n_output))
    return onnx;
  bp_error_raise(BP_ERROR_FORMAT,
                 "node '%s' (If): a branch has %zu inputs and %zu outputs instead of 0 and %zu",
                 name, onnx->n_input, onnx->n_output, node->n_output);
  return NULL;
}

static int list_branch(Scope *scope, const OnnxNode *node, const char *name, bool is_then,
                       BpList *outputs) {
  const OnnxGraph *onnx = read_branch(scope, node, name, is_then);
  return onnx ? bp__scope_add_subgraph(scope, node, name, onnx, NULL, NULL, true, outputs) : -1;
}

/* Adds the nodes of the chosen branch. */
static int add_chosen(Scope *scope, const OnnxNode *node, const char *name, bool is_then,
                      const void *context) {
  BpList outputs = {0};
  (void)context;
  int status = list_branch(scope, node, name, is_then, &outputs);
  if (!status)
    status = bp__scope_add_values(scope, node, (BpGraphValue **)outputs.items);
  bp__list_free(&outputs);
  return status;
}

/* Selects the output of one branch. */
static BpGraphValue *select_output(BpGraph *graph, const char *name, BpGraphValue *condition,
                                   BpGraphValue *then, BpGraphValue *otherwise) {
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  if (then->sequence || otherwise->sequence) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "node '%s' (If): its condition depends on the data, and its branches give a "
                   "sequence or an optional, which needs one --target",
                   name);
    return NULL;
  }
  if (!bp__dtype_equal(then->dtype, otherwise->dtype) || !bp__value_same_shape(then, otherwise)) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "node '%s' (If): its condition depends on the data, and its branches give %s "
                   "and %s, which differ in type or shape; that needs one --target",
                   name, bp__value_format(then, a), bp__value_format(otherwise, b));
    return NULL;
  }
  return bp__op_apply(graph, "", "Where", name, (BpGraphValue *[]){condition, then, otherwise}, 3,
                      NULL, 0);
}

/* Computes both branches and selects the outputs of one, for an artifact of several targets. */
static int add_both(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue *condition) {
  BpGraph *graph = scope->import->graph;
  BpList outputs = {0}, others = {0};
  condition = bp__op_reshape(graph, &(BpGraphNode){.name = name}, condition, NULL, 0);
  int status = !condition || list_branch(scope, node, name, true, &outputs) ||
               list_branch(scope, node, name, false, &others);
  if (status)
    bp_error_add_context("node '%s' (If) has a condition that depends on the data, so both of its "
                         "branches have to work",
                         name);
  for (size_t i = 0; i < node->n_output && !status; i++) {
    outputs.items[i] = select_output(graph, name, condition, outputs.items[i], others.items[i]);
    status = !outputs.items[i];
  }
  if (!status)
    status = bp__scope_add_values(scope, node, (BpGraphValue **)outputs.items);
  bp__list_free(&outputs);
  bp__list_free(&others);
  return status ? -1 : 0;
}

int bp__scope_add_if(Scope *scope, const OnnxNode *node, const char *name) {
  BpGraph *graph = scope->import->graph;
  BpGraphValue *condition = NULL;
  Named named;
  if (node->n_input == 1 && bp__scope_read_inputs(scope, node, name, &condition))
    return -1;
  condition = bp__onnx_single(graph, bp__onnx_name_node(&named, node, name), condition, BP__BOOL,
                              "its condition is no bool of one element");
  if (!condition)
    return bp__scope_note_failing(scope);
  if (condition->data)
    return add_chosen(scope, node, name, bp__value_get_int(condition, 0) != 0, NULL);
  return bp__graph_can_control(graph)
             ? bp__scope_branch(scope, node, name, condition, add_chosen, NULL)
             : add_both(scope, node, name, condition);
}
