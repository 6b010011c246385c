/* SPDX-License-Identifier: Apache-2.0 */
/* Names and their values, as import.c and control.c share them. */
#ifndef BACKPLANE_GRAPH_ONNX_SCOPE_H
#define BACKPLANE_GRAPH_ONNX_SCOPE_H

#include <search.h>

#include <glib.h>

#include "graph/onnx/import.h"

typedef struct Import {
  BpGraph *graph; /* to which nodes are added now: of the model, or a body */
  const OnnxModel *model;
  const OnnxGraph *onnx;
  const BpInputShape *shapes;
  int32_t num_shapes;
  struct hsearch_data functions; /* by domain, name and overload: OnnxFunction */
  GHashTable *branches;          /* by the bytes of a subgraph: OnnxGraph */
} Import;

/* A body while it is imported, and what it reads of the graph around it. */
typedef struct Body {
  BpGraph *graph;
  BpList captured;   /* BpGraphValue of the graph around it: the last inputs of the body */
  GHashTable *known; /* by a value of the graph around it: the body's input that captures it */
} Body;

/* How deep calls, branches and loops may nest. */
#define MAX_DEPTH 32

/* Nodes, and the names that they see: of the model, of a call of a function, or of a body. */
typedef struct Scope {
  Import *import;
  const struct Scope *outer; /* whose names they see as well, or NULL */
  Body *body;                /* whose graph has the values; NULL: the model's graph */
  const char *path;          /* comes before the names of nodes in errors */
  OnnxNode *const *nodes;
  size_t num_nodes;
  const OnnxAttribute **actuals; /* the attributes of the function in this call, by their names */
  size_t num_actuals;
  int32_t version; /* of the default operator set */
  int32_t depth;
  struct hsearch_data values; /* by name: BpGraphValue, NULL for an input that a call leaves out */
} Scope;

static inline int is_empty(const char *text) {
  return !text || !text[0];
}

/* ---- import.c ---------------------------------------------------------------------------- */

/* The name, or NULL with an error: it is none, or no text. `what` begins the message. */
const char *bp__onnx_check_name(const char *name, const char *what);
/* The attribute of that name, or NULL. */
const OnnxAttribute *bp__onnx_find_attribute(OnnxAttribute *const *list, size_t count,
                                             const char *name);
/* The attribute of the call to which a node's attribute inside of a function refers; NULL if the
 * call leaves it out. */
int bp__scope_resolve_attribute(const Scope *scope, const OnnxAttribute *from,
                                const OnnxAttribute **result);

/* Begins what a node holds; a node of the budget is used up for it. */
int bp__scope_enter(const Scope *scope, const char *name, Scope *inner);
/* Makes room for the names of the scope's nodes and `count` others; hdestroy_r frees it. */
int bp__scope_create_names(Scope *scope, size_t count);
int bp__scope_set(Scope *scope, const char *name, BpGraphValue *value);
/* The same; -1 for NULL, whose maker raised the error. */
int bp__scope_add(Scope *scope, const char *name, BpGraphValue *value);
/* The value of a name, or NULL. */
BpGraphValue *bp__scope_find(Scope *scope, const char *name);
/* The inputs of a node, NULL for those left out; the first also gives sequences, which the second
 * refuses. */
int bp__scope_read_names(Scope *scope, const OnnxNode *node, const char *name,
                         BpGraphValue **inputs);
int bp__scope_read_inputs(Scope *scope, const OnnxNode *node, const char *name,
                          BpGraphValue **inputs);
int bp__scope_add_initializers(Scope *scope, const OnnxGraph *onnx);
/* Names every operator of the scope that the table lacks in one error. */
int bp__scope_check_operators(const Scope *scope);
int bp__scope_add_nodes(Scope *scope);

/* ---- control.c --------------------------------------------------------------------------- */

/* Whether the operator of ONNX's own domain runs bodies. */
int bp__onnx_is_control(const char *op_type);
/* Adds a SequenceMap over open sequences: each sequence of `inputs` is open. results[k] becomes
 * output k. */
int bp__scope_add_map(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue **inputs,
                      BpGraphValue **results);
/* Adds a node of an operator that runs bodies. */
int bp__scope_add_control(Scope *scope, const OnnxNode *node, const char *name);
/* The input of the body that captures a value of the graph around it. NULL with BP_ERROR_MEMORY. */
BpGraphValue *bp__body_capture(Body *body, BpGraphValue *value);
/* The graph that an attribute of the node has; NULL with an error. */
const OnnxGraph *bp__scope_read_graph(const Scope *scope, const OnnxNode *node, const char *name,
                                      const char *attribute_name);
/* Adds the nodes of a subgraph, to a body or, where that is NULL, to the graph of the scope.
 * `inputs` are what the subgraph's inputs stand for. */
int bp__scope_add_subgraph(Scope *scope, const OnnxNode *node, const char *name,
                           const OnnxGraph *onnx, Body *body, BpGraphValue *const *inputs,
                           BpList *outputs);

/* ---- sequence.c -------------------------------------------------------------------------- */

/* Whether the operator of ONNX's own domain, in that version of it, is one of sequences or
 * optionals. */
bool bp__onnx_is_sequence(const char *op_type, int32_t version);
/* Settles such a node, or adds one that the machine runs. */
int bp__scope_add_sequence(Scope *scope, const OnnxNode *from, const char *name);
/* A name for a settled sequence whose tensors are to be filled in. */
BpGraphValue *bp__graph_sequence(BpGraph *graph, const char *name, int32_t count);

/* ---- open_sequence.c --------------------------------------------------------------------- */

/* Values that are open sequences, and nodes that the machine runs on them. `named` says the name
 * and the operator of errors. NULL or -1 with an error. */

static inline bool bp__is_open_sequence(const BpGraphValue *value) {
  return value && value->sequence && value->sequence->is_open;
}

/* The open sequence of a settled one, or of an optional, whose value is a tensor; an open one is
 * returned. */
BpGraphValue *bp__sequence_open(BpGraph *graph, const BpGraphNode *named, BpGraphValue *value);
/* An open sequence of a type; no node gives it yet. */
BpGraphValue *bp__sequence_value(BpGraph *graph, const char *name, const BpGraphSequence *type);
/* Widens the type so that the tensors of `other` have it as well. Returns the number of changes, or
 * -1 with an error if the two types differ in more than extents. */
int bp__sequence_join(const BpGraphNode *named, BpGraphSequence *type,
                      const BpGraphSequence *other);

/* What the operators give; a position may be NULL. */
BpGraphValue *bp__sequence_insert(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  BpGraphValue *tensor, BpGraphValue *position);
BpGraphValue *bp__sequence_erase(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                 BpGraphValue *position);
BpGraphValue *bp__sequence_at(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                              BpGraphValue *position);
BpGraphValue *bp__sequence_length(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence);
BpGraphValue *bp__sequence_concat(BpGraph *graph, const BpGraphNode *named, BpGraphValue *sequence,
                                  int64_t axis, bool is_new);
/* `split` may be NULL: each part has 1. */
BpGraphValue *bp__sequence_split(BpGraph *graph, const BpGraphNode *named, BpGraphValue *tensor,
                                 BpGraphValue *split, int32_t axis, bool keeps_axis);

#endif
