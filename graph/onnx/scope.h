/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: nodes, and names and their values. */
#ifndef BACKPLANE_GRAPH_ONNX_SCOPE_H
#define BACKPLANE_GRAPH_ONNX_SCOPE_H

#include <search.h>

#include <glib.h>

#include "graph/onnx/import.h"
#include "graph/ops/op.h"

typedef struct Import {
  BpGraph *graph; /* graph to which nodes are added: the model's, or a body */
  const OnnxModel *model;
  const OnnxGraph *onnx;
  const BpInputShape *shapes;
  int32_t num_shapes;
  struct hsearch_data functions; /* OnnxFunction by domain, name and overload */
  GHashTable *branches;          /* OnnxGraph by the bytes of a subgraph */
  GHashTable *symbols;           /* Symbol by name (import.c); NULL before inputs are added */
  const char *failing;           /* the error, if each run of its node fails; else NULL */
  struct Scope *place; /* scope in which the import goes on, if a node has added others, too */
  bool is_query;       /* whether a caller asks which nodes work: a failing one does not */
} Import;

/* A body during its import, and the values of the surrounding graph that it reads. */
typedef struct Body {
  BpGraph *graph;
  struct Body *outer; /* body whose graph surrounds it; NULL: the model's graph does */
  BpList captured;    /* BpGraphValue of the surrounding graph: the last inputs of the body */
  GHashTable *known;  /* value of the surrounding graph -> the body's input that captures it */
  BpList twins;       /* Scope, owned */
  bool is_branch;     /* whether the node runs one of several bodies */
} Body;

/* The maximum nesting of calls, branches and loops. */
#define MAX_DEPTH 32

/* Nodes, and the names that they can use: the nodes of the model, of a function call, or of a
 * body. */
typedef struct Scope {
  Import *import;
  struct Scope *outer; /* scope whose names the nodes can use as well, or NULL */
  Body *body;          /* body whose graph has the values; NULL: the model's graph */
  const char *path;    /* prefix of the names of nodes in errors */
  OnnxNode **nodes;
  size_t num_nodes;
  size_t next;           /* the index of the node to add next */
  const OnnxGraph *onnx; /* the graph, or else the function, whose nodes they are */
  const OnnxFunction *function;
  /* The scope of the If or call whose outputs are the outputs of this scope; NULL for the model,
   * and for bodies of other nodes. The node is caller->nodes[caller->next - 1]. */
  struct Scope *caller;
  int32_t level;                 /* number of direct and indirect callers */
  const OnnxAttribute **actuals; /* attributes of the called function, by their names */
  size_t num_actuals;
  int32_t version; /* version of the default operator set */
  int32_t depth;
  GHashTable *values;    /* BpGraphValue by name; NULL for an input that a call leaves out */
  GHashTable *declared;  /* bp__onnx_declared of the graph, or NULL */
  GHashTable *last_uses; /* bp__scope_last_uses, or NULL */
  bool is_twin;          /* whether declared and last_uses belong to another scope */
} Scope;

/* A stand-in for a node of the model in errors. */
typedef struct Named {
  BpOp op;
  BpGraphNode node;
} Named;

static inline int is_empty(const char *text) {
  return !text || !text[0];
}

/* The name of an output of the scope's graph or function. */
static inline const char *bp__scope_output(const Scope *scope, size_t index) {
  return scope->onnx ? scope->onnx->output[index]->name : scope->function->output[index];
}

/* ---- scope.c ----------------------------------------------------------------------------- */

/* Makes the table of a scope's names, which bp__scope_close frees. */
void bp__scope_open(Scope *scope);
void bp__scope_close(Scope *scope);
/* Makes a value for a settled sequence whose tensors the caller fills in. */
BpGraphValue *bp__graph_sequence(BpGraph *graph, const char *name, int32_t count);
/* The input of the body that captures a value of the surrounding graph; NULL with
 * BP_ERROR_MEMORY. bp__body_see captures a value of an outer body, or of the model's graph. */
BpGraphValue *bp__body_capture(Body *body, BpGraphValue *value);
BpGraphValue *bp__body_see(Body *body, const Body *from, BpGraphValue *value);
/* Looks up a name. Returns 1 and sets *value, 0 if the name is unknown, -1 with an error. */
int bp__scope_look_up(Scope *scope, const char *name, BpGraphValue **value);
/* The value of a name, or NULL. */
BpGraphValue *bp__scope_find(Scope *scope, const char *name);
int bp__scope_set(Scope *scope, const char *name, BpGraphValue *value);
/* Adds the name of a node's output. Fails with -1 if an outer scope has the name, or if the value
 * is NULL (its maker raised the error). */
int bp__scope_add(Scope *scope, const char *name, BpGraphValue *value);
/* Adds the outputs of a node. */
int bp__scope_add_values(Scope *scope, const OnnxNode *node, BpGraphValue *const *values);
/* Makes the outputs of `inner` the outputs of a node of the scope. */
int bp__scope_return(Scope *inner, Scope *scope, const OnnxNode *node, const char *name);
/* Makes a scope in a body for the nodes that a scope has not added yet (transfer none). It sees the
 * scope's names. */
Scope *bp__scope_twin(Scope *of, Body *body);
/* Whether an output, or a node that is not added yet, has a name. The scope is a twin. */
bool bp__scope_is_live(const Scope *scope, const char *name);

/* ---- import.c ---------------------------------------------------------------------------- */

/* Returns a name; NULL with an error if it is empty or invalid text. The message begins with
 * `what`. */
const char *bp__onnx_check_name(const char *name, const char *what);
/* Begins the scope of a node's subgraph, and uses one node of the budget for it. The caller opens
 * it. */
int bp__scope_enter(const Scope *scope, const char *name, Scope *inner);
/* Keeps the text of the error that is raised, because each run that executes the node fails.
 * Returns -1. */
int bp__scope_note_failing(const Scope *scope);
/* Calls bp__scope_note_failing if the error is that an operator does not fit its inputs, whose
 * shapes a run may never have. Returns -1. */
int bp__scope_note_unfit(const Scope *scope, const BpGraphNode *node);
/* The name of a node in errors; NULL with an error. */
const char *bp__scope_node_name(const Scope *scope, size_t index);
/* Reads the inputs of a node; an omitted input is NULL. bp__scope_read_names accepts sequences,
 * bp__scope_read_inputs rejects them. */
int bp__scope_read_names(Scope *scope, const OnnxNode *node, const char *name,
                         BpGraphValue **inputs);
int bp__scope_read_inputs(Scope *scope, const OnnxNode *node, const char *name,
                          BpGraphValue **inputs);
int bp__scope_add_initializers(Scope *scope, const OnnxGraph *onnx);
/* Whether a node of the scope is an operator of the table: no call, and without bodies. */
bool bp__scope_is_plain(const Scope *scope, size_t index);
/* Names every operator of the scope that the table lacks in one error. */
int bp__scope_check_operators(const Scope *scope);
/* Adds one node or all nodes that are left, and checks the types that the graph declares for their
 * outputs. Returns 1 if the import goes on behind the scope, in import->place, or -1 with an
 * error. */
int bp__scope_add_next(Scope *scope);
int bp__scope_add_nodes(Scope *scope);

/* ---- declared.c -------------------------------------------------------------------------- */

/* The declared types of a graph's values, OnnxValueInfo by name (transfer full). The declaration of
 * an output of the graph precedes others of the name. */
GHashTable *bp__onnx_declared(const OnnxGraph *onnx);
/* Raises BP_ERROR_FORMAT if a value is not of the declared type; the message begins with `what`.
 * bp__onnx_check_default compares an initializer with the type and shape of its input. */
int bp__onnx_check_type(const OnnxValueInfo *info, const BpGraphValue *value, const char *what);
int bp__onnx_check_default(const OnnxValueInfo *info, const BpGraphValue *value);

/* ---- attribute.c ------------------------------------------------------------------------- */

/* The attribute with a name, or NULL. */
const OnnxAttribute *bp__onnx_find_attribute(OnnxAttribute *const *list, size_t count,
                                             const char *name);
/* Sets *result to the attribute of the call to which `from`, an attribute inside a function,
 * refers; NULL if the call has no such attribute. */
int bp__scope_resolve_attribute(const Scope *scope, const OnnxAttribute *from,
                                const OnnxAttribute **result);
/* Sets *body to the graph in an attribute; NULL if the attribute has none. */
int bp__scope_find_body(const Scope *scope, const OnnxAttribute *attribute, const OnnxGraph **body);

/* ---- order.c ----------------------------------------------------------------------------- */

/* Sorts the scope's nodes, which keep their order if each is behind the nodes whose outputs it
 * reads. */
void bp__scope_sort(Scope *scope);
/* For each name that a node of the scope or a body of it reads: the number of the last such node,
 * from 1; G_MAXSIZE for an output of the scope (transfer full). */
GHashTable *bp__scope_last_uses(const Scope *scope);

/* ---- body.c ------------------------------------------------------------------------------ */

/* Begins a body of a node of the graph to which the scope adds nodes; bp__body_clear frees what the
 * graph does not own. */
int bp__body_begin(const Scope *scope, Body *body);
void bp__body_clear(Body *body);
/* Removes unused nodes and unused captured inputs of a body; the other inputs stay. */
void bp__body_forget_unused(Body *body);
/* Lists an output of a body. A sequence becomes open. */
int bp__body_list_output(const Body *body, const BpGraphNode *named, BpGraphValue *value,
                         BpList *outputs);
int64_t bp__body_new_symbol(BpGraph *graph, const char *name);
/* Whether an extent contains a symbol that is newer than the first `count` expressions: an extent
 * with a new symbol has no meaning outside the body that was imported since. */
int bp__body_is_local(const BpGraph *graph, int64_t extent, int32_t count);
/* The extent outside the body; an extent without meaning there is bound to a new symbol. */
int64_t bp__body_outer_extent(BpGraph *graph, const char *name, int64_t extent, int32_t count);
/* The type of a sequence or tensor outside a body; an extent without meaning there may have any
 * value. */
BpGraphSequence bp__body_outer_type(BpGraph *graph, const BpGraphValue *value, int32_t count);
/* Makes a node whose inputs are the listed inputs and the values that its bodies capture. */
BpGraphNode *bp__body_make_node(BpGraph *graph, const BpOp *op, const char *name, BpList *inputs,
                                Body *const *bodies, int32_t num_bodies, int32_t num_outputs,
                                const BpGraphAttr *attrs, int32_t num_attrs);
/* Keeps a node if symbols get their values from the shapes of its outputs. */
void bp__body_keep_measured(const BpGraph *graph, BpGraphNode *node, int32_t count);
/* Makes an output of a node a sequence of a given type. */
int bp__body_set_sequence(BpGraph *graph, BpGraphNode *node, int32_t index,
                          const BpGraphSequence *type);
/* Makes all extents of a value 1, which a run checks. NULL with the complaint if they are not, or
 * if the value is of another type; the value may be NULL. */
BpGraphValue *bp__onnx_single(BpGraph *graph, const BpGraphNode *named, BpGraphValue *value,
                              BpDataType dtype, const char *complaint);
const BpGraphNode *bp__onnx_name_node(Named *named, const OnnxNode *node, const char *name);
/* Decodes the graph in an attribute of the node; NULL with an error. */
const OnnxGraph *bp__scope_read_graph(const Scope *scope, const OnnxNode *node, const char *name,
                                      const char *attribute_name);
/* Adds the nodes of a subgraph to a body or, if `body` is NULL, to the graph of the scope. `inputs`
 * are the values of the subgraph's inputs. If `returns`, the outputs will be those of the node.
 * Returns as bp__scope_add_nodes. */
int bp__scope_add_subgraph(Scope *scope, const OnnxNode *node, const char *name,
                           const OnnxGraph *onnx, Body *body, BpGraphValue *const *inputs,
                           bool returns, BpList *outputs);

/* ---- branch.c ---------------------------------------------------------------------------- */

/* Adds the outputs of a node to the scope, for one value of its condition. Returns as
 * bp__scope_add_nodes. */
typedef int (*BpAddCase)(Scope *scope, const OnnxNode *node, const char *name, bool is_true,
                         const void *context);
/* Adds a node with a body for each value of a condition, which depends on the data. Returns as
 * bp__scope_add_nodes. */
int bp__scope_branch(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue *condition,
                     BpAddCase add_case, const void *context);
int bp__scope_add_if(Scope *scope, const OnnxNode *node, const char *name);

/* ---- control.c --------------------------------------------------------------------------- */

/* Whether an operator of ONNX's own domain runs bodies. */
int bp__onnx_is_control(const char *op_type);
/* Adds a SequenceMap over open sequences: each sequence of `inputs` is open. results[k] is set to
 * output k. */
int bp__scope_add_map(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue **inputs,
                      BpGraphValue **results);
/* Adds a node whose operator runs bodies. Returns as bp__scope_add_nodes. */
int bp__scope_add_control(Scope *scope, const OnnxNode *node, const char *name);

/* ---- sequence.c -------------------------------------------------------------------------- */

/* Whether an operator of ONNX's own domain, in a version, works on sequences or optionals. */
bool bp__onnx_is_sequence(const char *op_type, int32_t version);
/* Imports a node that works on sequences: settles it, or adds a node that the machine executes. */
int bp__scope_add_sequence(Scope *scope, const OnnxNode *from, const char *name);

/* ---- open_sequence.c --------------------------------------------------------------------- */

/* Values that are open sequences, and the nodes that the machine executes on them. `named` gives
 * the name and operator in errors. The functions on open sequences return NULL or -1 with an error
 * on failure. */

static inline bool bp__is_optional(const BpGraphValue *value) {
  return value->sequence && (value->sequence->is_none || value->sequence->is_optional);
}

static inline bool bp__is_open_sequence(const BpGraphValue *value) {
  return value && value->sequence && value->sequence->is_open;
}

/* Makes an open sequence of a settled sequence, or of the tensor of an optional; an open sequence
 * is returned unchanged. */
BpGraphValue *bp__sequence_open(BpGraph *graph, const BpGraphNode *named, BpGraphValue *value);
/* Makes an open optional of any value; an open optional is returned unchanged. */
BpGraphValue *bp__sequence_make_optional(BpGraph *graph, const BpGraphNode *named,
                                         BpGraphValue *value);
/* Makes an open sequence of a type; no node produces it yet. */
BpGraphValue *bp__sequence_value(BpGraph *graph, const char *name, const BpGraphSequence *type);
/* Widens a type so that it includes the tensors of `other`. Returns the number of changes, or -1
 * with an error if the types differ in more than extents. */
int bp__sequence_join(const BpGraphNode *named, BpGraphSequence *type,
                      const BpGraphSequence *other);

/* The results of operators on open sequences; a position may be NULL. */
BpGraphValue *bp__sequence_insert(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  BpGraphValue *tensor, BpGraphValue *position);
BpGraphValue *bp__sequence_erase(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                 BpGraphValue *position);
BpGraphValue *bp__sequence_at(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                              BpGraphValue *position);
BpGraphValue *bp__sequence_length(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence);
BpGraphValue *bp__sequence_concat(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  int64_t axis, bool is_new);
/* Makes a value whose computation raises an error: a tensor of the type, or a sequence. */
BpGraphValue *bp__sequence_fail(BpGraph *graph, const BpGraphNode *named, const char *error,
                                const BpGraphSequence *type, bool is_sequence);
/* A NULL `split` makes parts of extent 1. */
BpGraphValue *bp__sequence_split(BpGraph *graph, const BpGraphNode *named, BpGraphValue *tensor,
                                 BpGraphValue *split, int32_t axis, bool keeps_axis);

#endif
