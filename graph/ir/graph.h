/* SPDX-License-Identifier: Apache-2.0 */
/* The graph IR: a model while it is compiled.
 *
 * A graph is a list of nodes in the order of their execution, each an operator applied to values.
 * A value is a tensor of known type and shape: an input, a constant, or an output of one node. An
 * extent may be open (extent.h). A node may have bodies, graphs that it runs: their inputs are
 * values of the node, so a body reads nothing else of the graph around it. The graph owns
 * everything in it; passes replace the list of nodes and let what is unused lie. One thread at a
 * time. */
#ifndef BACKPLANE_GRAPH_IR_GRAPH_H
#define BACKPLANE_GRAPH_IR_GRAPH_H

#include <stdint.h>

#include <backplane/value.h>

#include "graph/ir/extent.h"

#define BP_GRAPH_MAX_NDIM 8

typedef struct BpGraphNode BpGraphNode;
typedef struct BpGraph BpGraph;
struct BpOp;

/* Where nodes run and values lie: on the device of the target, or on that of the fallback. */
#define BP_PLACE_TARGET   0
#define BP_PLACE_FALLBACK 1

/* The value of a name that is a sequence or an optional. It is settled, known while the model is
 * imported, and no node has it (graph/onnx/sequence.c); or it is open: a run decides about its
 * tensors, and nodes of sequences, branches and loops have it (graph/ops/control.h). */
typedef struct BpGraphSequence {
  struct BpGraphValue **items; /* of a settled one */
  int32_t count;
  bool is_none; /* settled: it is an optional without a value */
  bool is_open;
  bool is_optional; /* open: it has at most one tensor */
  /* The type of the tensors. If it has no bits, no tensor was inserted, and the members below are
   * undefined. */
  BpDataType dtype;
  int32_t ndim;                     /* open */
  int64_t shape[BP_GRAPH_MAX_NDIM]; /* open; BP_EXTENT_NONE: they may differ */
} BpGraphSequence;

typedef struct BpGraphValue {
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[BP_GRAPH_MAX_NDIM];
  BpGraphNode *producer; /* NULL: an input or a constant */
  const void *data;      /* of a constant: its elements, compact; else NULL */
  /* Of an int64 tensor whose elements are extents, some of them open: these; else NULL. */
  const int64_t *extents;
  /* It is no tensor, and its type and shape say nothing; else NULL. */
  BpGraphSequence *sequence;
  int32_t id;       /* dense, from 0 to num_values - 1 */
  int32_t num_uses; /* after bp__graph_count_uses: by nodes and as output of the graph */
  int32_t place;    /* where it lies: BP_PLACE_*; see graph/build/place.c */
  int64_t room; /* of a tensor with spare rows (graph/build/append.c): the extent that its memory
                   has along `room_axis`, a symbol; else 0 */
  int32_t room_axis;
  int64_t channels; /* that a channel-blocked tensor has, without spare ones; 0: it is plain */
} BpGraphValue;

/* An attribute, as ONNX has it: exactly one of the payloads, by type. */
#define BP_GRAPH_ATTR_FLOAT   1
#define BP_GRAPH_ATTR_INT     2
#define BP_GRAPH_ATTR_STRING  3
#define BP_GRAPH_ATTR_TENSOR  4
#define BP_GRAPH_ATTR_FLOATS  6
#define BP_GRAPH_ATTR_INTS    7
#define BP_GRAPH_ATTR_STRINGS 8

typedef struct BpGraphAttr {
  const char *name;
  int32_t type; /* BP_GRAPH_ATTR_* */
  int32_t count;
  const int64_t *ints;  /* INT, INTS */
  const float *floats;  /* FLOAT, FLOATS */
  const char *str;      /* STRING */
  const char **strs;    /* STRINGS */
  BpGraphValue *tensor; /* TENSOR: a constant */
} BpGraphAttr;

/* The operator set versions of the default ONNX domain that are read. */
#define BP_OP_OLDEST_VERSION 7
#define BP_OP_NEWEST_VERSION 28

struct BpGraphNode {
  const struct BpOp *op;
  const char *name;
  int32_t version; /* of the operator set that its domain was imported with */
  int32_t num_attrs;
  const BpGraphAttr *attrs;
  int32_t num_inputs; /* trailing absent ones are not counted */
  int32_t num_outputs;
  BpGraphValue **inputs; /* NULL: an absent optional input */
  BpGraphValue **outputs;
  int32_t id;         /* place in the list, after bp__graph_count_uses */
  int32_t place;      /* BP_PLACE_* */
  int32_t is_alone;   /* not fused with others: the target refuses what came of it */
  int32_t is_append;  /* a Concat that the machine does (graph/build/append.c) */
  int32_t is_kept;    /* not dropped where nobody reads its outputs: they give symbols values */
  int32_t source;     /* which of the graph's sources it is made of, from 1 on; 0: of none */
  int32_t is_control; /* the machine does it: no pass computes or replaces it
                         (graph/ops/control.h) */
  BpGraph **bodies;   /* graphs that the node runs (graph/ops/control.h) */
  int32_t num_bodies;
};

/* Limits on the work and memory that a graph may cost, so that a small file cannot ask for much.
 * Limits of 0 are the defaults of BpCompileLimits (backplane/graph/model.h), which says what is
 * counted. */
typedef struct BpGraphBudget {
  int64_t most_nodes, most_bytes, most_work, most_functions;
  int64_t nodes, bytes, work; /* used so far */
  int64_t given;              /* bytes of the constants that were there */
} BpGraphBudget;

/* A condition that a run of the graph checks: an open extent is not negative. It is checked as soon
 * as the extent is known, before anything is computed from the extent. */
typedef struct BpGraphCondition {
  int64_t extent;
  const char *complaint; /* the error of a run where it is negative */
} BpGraphCondition;

struct BpGraph {
  BpArena arena;
  BpExtents extents;     /* of the shapes */
  BpList conditions;     /* BpGraphCondition */
  BpGraphBudget budget;  /* of the outermost graph, for all bodies; see bp__graph_budget */
  struct BpGraph *outer; /* of a body: the graph that has the node; else NULL */
  BpList bodies;         /* BpGraph, owned: all that were made for nodes */
  int32_t has_sources;   /* the importer keeps them, those of bodies too; set before */
  BpList sources;        /* BpGraphNode: the model's nodes as they were read, with what they became
                            among their outputs */
  BpList nodes;          /* BpGraphNode */
  BpList inputs;         /* BpGraphValue */
  BpList outputs;        /* BpGraphValue */
  const char **output_names;
  int32_t num_values;
};

/* Graphs are made zeroed by their owner; this frees what one holds. */
void bp__graph_clear(BpGraph *graph);
/* Lets the graph, which is moved no more, have open extents. -1 with BP_ERROR_MEMORY. */
int bp__graph_can_be_open(BpGraph *graph);
/* Whether it has any. */
bool bp__graph_is_open(const BpGraph *graph);
/* A new body for a node of the graph, which owns it: it has values of its own, and the table of
 * extents and the budget of the graph. NULL with BP_ERROR_MEMORY. */
BpGraph *bp__graph_body(BpGraph *graph);
/* The budget that the graph uses. */
BpGraphBudget *bp__graph_budget(BpGraph *graph);

/* ---- Values ------------------------------------------------------------------------------ */

/* A value without producer or data. Extents are checked: open, or >= 0 and their product below 2^62
 * bytes. */
BpGraphValue *bp__graph_value(BpGraph *graph, const char *name, BpDataType dtype,
                              const int64_t *shape, int32_t ndim);
/* A constant; `data` is borrowed for the graph's life, or NULL: memory of the arena, zeroed, to be
 * filled in through the cast-away pointer that bp__graph_constant_data gives. */
BpGraphValue *bp__graph_constant(BpGraph *graph, const char *name, BpDataType dtype,
                                 const int64_t *shape, int32_t ndim, const void *data);
void *bp__graph_constant_data(BpGraphValue *constant);
/* Zeroed memory for the elements of a value that becomes a constant. NULL with an error, also where
 * the budget has no more bytes; bp__graph_has_bytes tells that beforehand. */
void *bp__graph_new_data(BpGraph *graph, const BpGraphValue *value);
int bp__graph_has_bytes(const BpGraph *graph, int64_t bytes);
/* Uses up one of the nodes that a graph may make; -1 with an error: there are no more. */
int bp__graph_use_node(BpGraph *graph);
/* Uses up some of the work; 0, and nothing was used: there is not so much left. */
int bp__graph_use_work(BpGraph *graph, double work);
/* -1 with an error if a target may not have so many different functions. */
int bp__graph_check_functions(const BpGraph *graph, int64_t count);
/* Convenience: constants of float32 and int64, or extents. A scalar has ndim 0. */
BpGraphValue *bp__graph_float_scalar(BpGraph *graph, float value);
BpGraphValue *bp__graph_int_vector(BpGraph *graph, const int64_t *values, int64_t count);

/* Of a value without open extents; where it has any, -1. */
int64_t bp__value_num_elements(const BpGraphValue *value);
int64_t bp__value_num_bytes(const BpGraphValue *value);
static inline bool bp__value_is_open(const BpGraphValue *value) {
  return bp__extents_any_open(value->shape, value->ndim);
}
int bp__value_same_shape(const BpGraphValue *a, const BpGraphValue *b);
/* Element `index` of a constant as a number of any real type; it is not checked to be one. */
double bp__value_get_float(const BpGraphValue *constant, int64_t index);
/* Sets element `index` of a constant of a float type to the nearest number that it has. */
void bp__value_put_float(BpGraphValue *constant, int64_t index, double number);
/* Element `to` of one constant becomes element `from` of another, of the same type. */
void bp__value_copy_element(BpGraphValue *target, int64_t to, const BpGraphValue *source,
                            int64_t from);
int64_t bp__value_get_int(const BpGraphValue *constant, int64_t index);
int bp__dtype_equal(BpDataType a, BpDataType b);
static inline int bp__dtype_is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}
/* "float32 1x3x48x192", at most BP_VALUE_TEXT characters; an open extent is "?". */
#define BP_VALUE_TEXT 256
const char *bp__value_format(const BpGraphValue *value, char *text);

#define BP__FLOAT32 ((BpDataType){BP_DTYPE_FLOAT, 32, 1})
#define BP__INT64   ((BpDataType){BP_DTYPE_INT, 64, 1})
#define BP__BOOL    ((BpDataType){BP_DTYPE_BOOL, 8, 1})

/* ---- Nodes ------------------------------------------------------------------------------- */

/* Makes a node that is not yet in a list, with room for its outputs, which are NULL. Inputs and
 * attributes are copied (what attributes point to is not). */
BpGraphNode *bp__graph_node(BpGraph *graph, const struct BpOp *op, const char *name,
                            BpGraphValue *const *inputs, int32_t num_inputs, int32_t num_outputs,
                            const BpGraphAttr *attrs, int32_t num_attrs);
/* Makes output `index` of a node. */
int bp__node_set_output(BpGraph *graph, BpGraphNode *node, int32_t index, BpDataType dtype,
                        const int64_t *shape, int32_t ndim);

/* The input, or NULL if it is absent or beyond those given. */
BpGraphValue *bp__node_input(const BpGraphNode *node, int32_t index);
const BpGraphAttr *bp__node_attr(const BpGraphNode *node, const char *name);
int64_t bp__node_int(const BpGraphNode *node, const char *name, int64_t otherwise);
float bp__node_float(const BpGraphNode *node, const char *name, float otherwise);
const char *bp__node_str(const BpGraphNode *node, const char *name, const char *otherwise);
/* Attributes to give to bp__graph_node; the lists are borrowed for the graph's life. */
BpGraphAttr bp__attr_int(BpGraph *graph, const char *name, int64_t value);
BpGraphAttr bp__attr_ints(const char *name, const int64_t *values, int32_t count);

/* ---- Passes ------------------------------------------------------------------------------ */

/* Fills num_uses of all values and id of all nodes. */
void bp__graph_count_uses(BpGraph *graph);
/* Drops nodes without a used output. */
void bp__graph_remove_dead(BpGraph *graph);

/* One walk over the nodes, in order, that may replace them. */
typedef struct BpRewrite {
  BpGraph *graph;        /* its list of nodes is the new one, which the walk appends to */
  BpGraphValue **mapped; /* by id: the replacement of a value, or NULL */
  int32_t num_mapped;
  void *context;
} BpRewrite;

/* Sees a node that is computed, its inputs already replaced: 0 keeps it, 1 drops it, -1 is an
 * error. It may append nodes to the graph and say with bp__rewrite_replace what stands for the
 * outputs of a dropped one.
 */
typedef int (*BpRewriteRule)(BpRewrite *rewrite, BpGraphNode *node);
int bp__graph_rewrite(BpGraph *graph, BpRewriteRule rule, void *context);
int bp__rewrite_replace(BpRewrite *rewrite, const BpGraphValue *from, BpGraphValue *to);
/* The replacement of a value of the old graph. */
BpGraphValue *bp__rewrite_value(const BpRewrite *rewrite, BpGraphValue *value);

/* Checks that every node follows the nodes whose outputs it reads, that each value comes from one
 * place, and that outputs are there; bodies, too. -1 with an error: a pass has a fault. */
int bp__graph_verify(const BpGraph *graph);

/* The graph as text, for dumps (transfer full, free); NULL with BP_ERROR_MEMORY. */
char *bp__graph_print(const BpGraph *graph);

#endif
