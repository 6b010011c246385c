/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: names and their values, shared by import.c and control.c. */
#ifndef BACKPLANE_GRAPH_ONNX_SCOPE_H
#define BACKPLANE_GRAPH_ONNX_SCOPE_H

#include <search.h>

#include <glib.h>

#include "graph/onnx/import.h"

typedef struct Import {
  BpGraph *graph; /* graph to which nodes are added: the model's, or a body */
  const OnnxModel *model;
  const OnnxGraph *onnx;
  const BpInputShape *shapes;
  int32_t num_shapes;
  struct hsearch_data functions; /* OnnxFunction by domain, name and overload */
  GHashTable *branches;          /* OnnxGraph by the bytes of a subgraph */
  const char *failing;           /* the error, if each run of its node fails; else NULL */
  bool is_query; /* whether a caller asks which nodes work: a failing one does not */
} Import;

/* A body during its import, and the values of the surrounding graph that it reads. */
typedef struct Body {
  BpGraph *graph;
  BpList captured;   /* BpGraphValue of the surrounding graph: the last inputs of the body */
  GHashTable *known; /* value of the surrounding graph -> the body's input that captures it */
} Body;

/* The maximum nesting of calls, branches and loops. */
#define MAX_DEPTH 32

/* Nodes, and the names that they can use: the nodes of the model, of a function call, or of a
 * body. */
typedef struct Scope {
  Import *import;
  const struct Scope *outer; /* scope whose names the nodes can use as well, or NULL */
  Body *body;                /* body whose graph has the values; NULL: the model's graph */
  const char *path;          /* prefix of the names of nodes in errors */
  OnnxNode **nodes;
  size_t num_nodes;
  const OnnxGraph *onnx; /* the graph, or else the function, whose nodes they are */
  const OnnxFunction *function;
  OnnxNode **rest; /* the nodes after the one that is being added */
  size_t num_rest;
  const OnnxAttribute **actuals; /* attributes of the called function, by their names */
  size_t num_actuals;
  int32_t version; /* version of the default operator set */
  int32_t depth;
  struct hsearch_data values; /* BpGraphValue by name; NULL for an input that a call leaves out */
} Scope;

static inline int is_empty(const char *text) {
  return !text || !text[0];
}

/* ---- import.c ---------------------------------------------------------------------------- */

/* Returns a name; NULL with an error if it is empty or invalid text. The message begins with
 * `what`. */
const char *bp__onnx_check_name(const char *name, const char *what);
/* Begins the scope of a node's subgraph, and uses one node of the budget for it. */
int bp__scope_enter(const Scope *scope, const char *name, Scope *inner);
/* Allocates space for the names of the scope's nodes and for `count` further names; hdestroy_r
 * frees it. */
int bp__scope_create_names(Scope *scope, size_t count);
int bp__scope_set(Scope *scope, const char *name, BpGraphValue *value);
/* Keeps the text of the error that is raised, because each run that executes the node fails.
 * Returns -1. */
int bp__scope_note_failing(const Scope *scope);
/* Adds a name with its value; fails with -1 for a NULL value, whose maker raised the error. */
int bp__scope_add(Scope *scope, const char *name, BpGraphValue *value);
/* The value of a name, or NULL. */
BpGraphValue *bp__scope_find(Scope *scope, const char *name);
/* Reads the inputs of a node; an omitted input is NULL. bp__scope_read_names accepts sequences,
 * bp__scope_read_inputs rejects them. */
int bp__scope_read_names(Scope *scope, const OnnxNode *node, const char *name,
                         BpGraphValue **inputs);
int bp__scope_read_inputs(Scope *scope, const OnnxNode *node, const char *name,
                          BpGraphValue **inputs);
int bp__scope_add_initializers(Scope *scope, const OnnxGraph *onnx);
/* Names every operator of the scope that the table lacks in one error. */
int bp__scope_check_operators(const Scope *scope);
/* Adds the nodes, and checks the types that the graph declares for their outputs. */
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

/* ---- control.c --------------------------------------------------------------------------- */

/* Whether an operator of ONNX's own domain runs bodies. */
int bp__onnx_is_control(const char *op_type);
/* Adds a SequenceMap over open sequences: each sequence of `inputs` is open. results[k] is set to
 * output k. */
int bp__scope_add_map(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue **inputs,
                      BpGraphValue **results);
/* Adds a node whose operator runs bodies. Returns 1 if the bodies contain the rest of the scope's
 * nodes, too. */
int bp__scope_add_control(Scope *scope, const OnnxNode *node, const char *name);
/* The input of the body that captures a value of the surrounding graph; NULL with
 * BP_ERROR_MEMORY. */
BpGraphValue *bp__body_capture(Body *body, BpGraphValue *value);
/* Decodes the graph in an attribute of the node; NULL with an error. */
const OnnxGraph *bp__scope_read_graph(const Scope *scope, const OnnxNode *node, const char *name,
                                      const char *attribute_name);
/* Adds the nodes of a subgraph to a body or, if `body` is NULL, to the graph of the scope. `inputs`
 * are the values of the subgraph's inputs. */
int bp__scope_add_subgraph(Scope *scope, const OnnxNode *node, const char *name,
                           const OnnxGraph *onnx, Body *body, BpGraphValue *const *inputs,
                           BpList *outputs);

/* ---- sequence.c -------------------------------------------------------------------------- */

/* Whether an operator of ONNX's own domain, in a version, works on sequences or optionals. */
bool bp__onnx_is_sequence(const char *op_type, int32_t version);
/* Imports a node that works on sequences: settles it, or adds a node that the machine executes. */
int bp__scope_add_sequence(Scope *scope, const OnnxNode *from, const char *name);
/* Makes a value for a settled sequence whose tensors the caller fills in. */
BpGraphValue *bp__graph_sequence(BpGraph *graph, const char *name, int32_t count);

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
/* Whether no run can put a tensor into the sequence or optional. */
bool bp__sequence_is_never_filled(const BpGraphValue *sequence);
/* Makes a value whose computation raises an error: a tensor of the type, or a sequence. */
BpGraphValue *bp__sequence_fail(BpGraph *graph, const BpGraphNode *named, const char *error,
                                const BpGraphSequence *type, bool is_sequence);
/* A NULL `split` makes parts of extent 1. */
BpGraphValue *bp__sequence_split(BpGraph *graph, const BpGraphNode *named, BpGraphValue *tensor,
                                 BpGraphValue *split, int32_t axis, bool keeps_axis);

#endif
