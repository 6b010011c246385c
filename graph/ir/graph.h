/* SPDX-License-Identifier: Apache-2.0 */
/* The graph IR: a model while it is compiled.
 *
 * A graph is a list of nodes in the order of their execution, each an operator applied to values. A
 * value is a tensor of known type and shape: an input, a constant, or an output of one node. An
 * extent may be open (extent.h). A node may have bodies, graphs that it runs: their inputs are
 * values of the node, so a body reads no other value of the graph around it. The graph owns
 * everything in it; passes replace the list of nodes, and unused nodes stay in memory. A graph is
 * not thread-safe. */
#ifndef BACKPLANE_GRAPH_IR_GRAPH_H
#define BACKPLANE_GRAPH_IR_GRAPH_H

#include <math.h>
#include <stdint.h>

#include <backplane/tensor.h>
#include <backplane/value.h>

#include "graph/ir/extent.h"

#define BP_GRAPH_MAX_NDIM 8

typedef struct BpGraphNode BpGraphNode;
typedef struct BpGraph BpGraph;
struct BpOp;

/* Where nodes run and values lie: place 0 is the device of the target. The devices of its
 * fallbacks, in order, are the places from 1 on. */
#define BP_PLACE_TARGET 0

/* The value of a name that is a sequence or an optional. A settled sequence is known while the
 * model is imported, and no node computes it (graph/onnx/sequence.c). The tensors of an open
 * sequence are known only in a run; nodes of sequences, branches and loops compute it
 * (graph/ops/control.h). */
typedef struct BpGraphSequence {
  struct BpGraphValue **items; /* tensors of a settled sequence */
  int32_t count;
  bool is_none; /* whether a settled optional has no value */
  bool is_open;
  bool is_optional;   /* whether an open sequence is an optional: it has at most one item */
  bool has_sequences; /* whether the items of an open optional are sequences, not tensors */
  /* The type of an open sequence's tensors. If dtype.bits is 0, no tensor was inserted, and the
   * members below are undefined. */
  BpDataType dtype;
  int32_t ndim;                     /* or BP_NDIM_* */
  int64_t shape[BP_GRAPH_MAX_NDIM]; /* extents, maybe open; BP_EXTENT_NONE: they may differ */
} BpGraphSequence;

/* The number of dimensions of the tensors in an open sequence, if there is no tensor, and if the
 * numbers may differ. */
#define BP_NDIM_NONE (-1)
#define BP_NDIM_ANY  (-2)

typedef struct BpGraphValue {
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[BP_GRAPH_MAX_NDIM];
  BpGraphNode *producer; /* node that computes it; NULL: an input or a constant */
  const void *data;      /* compact elements of a constant; else NULL */
  /* The elements of an int64 tensor whose elements are extents, if some of them are open; else
   * NULL. */
  const int64_t *extents;
  /* The sequence, if the value is a sequence instead of a tensor, so that its type and shape are
   * undefined; else NULL. */
  BpGraphSequence *sequence;
  int32_t id;       /* dense, from 0 to num_values - 1 */
  int32_t num_uses; /* uses by nodes and as an output, after bp__graph_count_uses */
  int32_t place;    /* index of the target whose device has the value (graph/build/place.c) */
  int64_t room; /* of a tensor with spare rows (graph/build/append.c): the extent that its memory
                   has along `room_axis`, a symbol; else 0 */
  int32_t room_axis;
  int64_t channels; /* channels of a channel-blocked tensor, without spare ones; 0: plain */
} BpGraphValue;

/* An attribute as in ONNX: it has exactly one payload, which its type selects. */
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
  const int64_t *ints;  /* values of an INT or INTS */
  const float *floats;  /* values of a FLOAT or FLOATS */
  const char *str;      /* STRING */
  const char **strs;    /* STRINGS */
  BpGraphValue *tensor; /* constant of a TENSOR */
} BpGraphAttr;

/* The oldest and newest operator set version of the default ONNX domain that the importer reads. */
#define BP_OP_OLDEST_VERSION 7
#define BP_OP_NEWEST_VERSION 28

struct BpGraphNode {
  const struct BpOp *op;
  const char *name;
  int32_t version; /* version of the operator set that the model imports for the node's domain */
  int32_t num_attrs;
  const BpGraphAttr *attrs;
  int32_t num_inputs; /* number of inputs without trailing absent inputs */
  int32_t num_outputs;
  BpGraphValue **inputs; /* inputs; NULL for an absent optional input */
  BpGraphValue **outputs;
  int32_t id;         /* place in the list, after bp__graph_count_uses */
  int32_t place;      /* index of the target that the node runs on */
  int32_t is_alone;   /* not fused with others, because the target refused the fused function */
  int32_t is_append;  /* a Concat that the machine does (graph/build/append.c) */
  int32_t is_kept;    /* not dropped if its outputs are unused: they give symbols values */
  int32_t source;     /* number of the graph's source that the node comes from, from 1; 0: none */
  int32_t is_control; /* the machine executes the node: no pass computes or replaces it
                         (graph/ops/control.h) */
  BpGraph **bodies;   /* graphs that the node runs (graph/ops/control.h) */
  int32_t num_bodies;
};

/* Limits on the work and memory that a graph may cost, so that a small file cannot cost much. A
 * limit of 0 is the default of BpCompileLimits (backplane/graph/model.h), which documents the
 * units. */
typedef struct BpGraphBudget {
  int64_t most_nodes, most_bytes, most_work, most_functions;
  int64_t nodes, bytes, work; /* amounts used so far */
  int64_t given;              /* bytes of the constants in the model */
} BpGraphBudget;

/* A condition that a run of the graph checks: an open extent is not negative. The run checks the
 * condition as soon as the extent is known, before any computation from the extent. */
typedef struct BpGraphCondition {
  int64_t extent;
  const char *complaint; /* error message of a run in which the extent is negative */
} BpGraphCondition;

struct BpGraph {
  BpArena arena;
  BpExtents extents;     /* expressions of the shapes */
  BpList conditions;     /* BpGraphCondition */
  BpGraphBudget budget;  /* budget of the outermost graph, for all bodies; see bp__graph_budget */
  struct BpGraph *outer; /* graph of the node that a body belongs to; else NULL */
  BpList bodies;         /* BpGraph, owned: all bodies that were made for nodes */
  BpList blocks;         /* BpTensor, owned: memory of large constants, also of the bodies' */
  int32_t has_sources;   /* set before importing: the importer keeps the sources, also of bodies */
  BpList sources;        /* BpGraphNode: the nodes of the model as they were read, with imported
                          * values as outputs */
  BpList nodes;          /* BpGraphNode */
  BpList inputs;         /* BpGraphValue */
  BpList outputs;        /* BpGraphValue */
  const char **output_names;
  int32_t num_values;
};

/* Frees the contents of a graph. The owner makes the graph zeroed. */
void bp__graph_clear(BpGraph *graph);
/* Allows open extents in the graph, which must not be moved afterwards. Returns -1 with
 * BP_ERROR_MEMORY. */
int bp__graph_can_be_open(BpGraph *graph);
/* Whether the graph has open extents. */
bool bp__graph_is_open(const BpGraph *graph);
/* Makes a body for a node of the graph, which owns the body. The body has its own values, and
 * shares the graph's table of extents and budget. NULL with BP_ERROR_MEMORY. */
BpGraph *bp__graph_body(BpGraph *graph);
/* The budget that the graph uses. */
BpGraphBudget *bp__graph_budget(BpGraph *graph);

/* ---- Values ------------------------------------------------------------------------------ */

/* Makes a value without producer or data. Fails unless each extent is open or >= 0, and their
 * product is below 2^62 bytes. */
BpGraphValue *bp__graph_value(BpGraph *graph, const char *name, BpDataType dtype,
                              const int64_t *shape, int32_t ndim);
/* Makes a constant. `data` is borrowed for the graph's life; if it is NULL, the constant gets
 * zeroed memory of the arena, which the caller fills through bp__graph_constant_data. */
BpGraphValue *bp__graph_constant(BpGraph *graph, const char *name, BpDataType dtype,
                                 const int64_t *shape, int32_t ndim, const void *data);
void *bp__graph_constant_data(BpGraphValue *constant);
/* Allocates zeroed memory for the elements of a value that becomes a constant; NULL with an error,
 * also if the budget has too few bytes. bp__graph_has_bytes returns whether the budget has
 * enough. */
void *bp__graph_new_data(BpGraph *graph, const BpGraphValue *value);
int bp__graph_has_bytes(const BpGraph *graph, int64_t bytes);
/* Uses one of the nodes that the budget allows; -1 with an error if the budget is used up. */
int bp__graph_use_node(BpGraph *graph);
/* Uses some of the work that the budget allows; returns 0, and uses none, if too little is left. */
int bp__graph_use_work(BpGraph *graph, double work);
/* Returns -1 with an error if `count` exceeds the budget's limit on different functions of a
 * target. */
int bp__graph_check_functions(const BpGraph *graph, int64_t count);
/* Makes a constant of float32 or int64, or a vector of extents. A scalar has ndim 0. */
BpGraphValue *bp__graph_float_scalar(BpGraph *graph, float value);
BpGraphValue *bp__graph_int_vector(BpGraph *graph, const int64_t *values, int64_t count);

/* The number of elements of a value; -1 if an extent is open. */
int64_t bp__value_num_elements(const BpGraphValue *value);
int64_t bp__value_num_bytes(const BpGraphValue *value);
static inline bool bp__value_is_open(const BpGraphValue *value) {
  return bp__extents_any_open(value->shape, value->ndim);
}
int bp__value_same_shape(const BpGraphValue *a, const BpGraphValue *b);
/* Element `index` of a constant of any real type as a number. The type is not checked. */
double bp__value_get_float(const BpGraphValue *constant, int64_t index);
/* Sets element `index` of a constant of a float type to the nearest representable number. */
void bp__value_put_float(BpGraphValue *constant, int64_t index, double number);
/* Copies element `from` of a constant to element `to` of another constant of the same type. */
void bp__value_copy_element(BpGraphValue *target, int64_t to, const BpGraphValue *source,
                            int64_t from);
int64_t bp__value_get_int(const BpGraphValue *constant, int64_t index);
int bp__dtype_equal(BpDataType a, BpDataType b);
static inline int bp__dtype_is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}
/* Whether a number or its negative is a power of two: a product with the number changes only the
 * exponent, so a product with its reciprocal is the exact quotient. */
static inline bool bp__is_power_of_two(double number) {
  int exponent;
  return fabs(frexp(number, &exponent)) == 0.5;
}
/* Formats a value, "float32 1x3x48x192", as at most BP_VALUE_TEXT characters; an open extent is
 * "?". */
#define BP_VALUE_TEXT 256
const char *bp__value_format(const BpGraphValue *value, char *text);

#define BP__FLOAT32 ((BpDataType){BP_DTYPE_FLOAT, 32, 1})
#define BP__FLOAT64 ((BpDataType){BP_DTYPE_FLOAT, 64, 1})
#define BP__INT8    ((BpDataType){BP_DTYPE_INT, 8, 1})
#define BP__UINT8   ((BpDataType){BP_DTYPE_UINT, 8, 1})
#define BP__INT32   ((BpDataType){BP_DTYPE_INT, 32, 1})
#define BP__INT64   ((BpDataType){BP_DTYPE_INT, 64, 1})
#define BP__BOOL    ((BpDataType){BP_DTYPE_BOOL, 8, 1})

/* ---- Memory of large constants (live.c) -------------------------------------------------- */

/* Constants from this size on have a block of memory of their own. A block is a tensor of bytes,
 * and outlives the graph if another owner retains it. */
#define BP_GRAPH_LARGE ((int64_t)1 << 16)

/* Makes a zeroed block, which the outermost graph owns; NULL with an error. */
void *bp__graph_new_block(BpGraph *graph, int64_t bytes);
/* The block whose bytes are exactly a constant's (transfer none); NULL if the elements lie
 * elsewhere or in a part of a block. */
BpTensor *bp__graph_block(const BpGraph *graph, const BpGraphValue *constant);
/* Collects, sorted, the addresses of all constants that the nodes, bodies and outputs of a graph
 * have; the caller frees the list, also after -1 with an error. */
int bp__live_of_graph(const BpGraph *graph, BpList *live);
/* Adds the addresses of a value. The caller sorts the list after the last value. */
int bp__live_add(BpList *live, const BpGraphValue *value);
void bp__live_sort(BpList *live);
/* Whether one of the addresses lies in the memory. */
bool bp__live_has(const BpList *live, const void *memory, size_t size);
/* Releases the outermost graph's blocks in which none of the addresses lies. */
void bp__graph_release(BpGraph *graph, const BpList *live);

/* ---- Nodes ------------------------------------------------------------------------------- */

/* Makes a node that is in no list yet, with space for its outputs, which are NULL. Inputs and
 * attributes are copied, but the data to which attributes point are not. */
BpGraphNode *bp__graph_node(BpGraph *graph, const struct BpOp *op, const char *name,
                            BpGraphValue *const *inputs, int32_t num_inputs, int32_t num_outputs,
                            const BpGraphAttr *attrs, int32_t num_attrs);
/* Makes output `index` of a node. */
int bp__node_set_output(BpGraph *graph, BpGraphNode *node, int32_t index, BpDataType dtype,
                        const int64_t *shape, int32_t ndim);

/* Returns an input of a node; NULL if the input is absent or the node has fewer inputs. */
BpGraphValue *bp__node_input(const BpGraphNode *node, int32_t index);
const BpGraphAttr *bp__node_attr(const BpGraphNode *node, const char *name);
int64_t bp__node_int(const BpGraphNode *node, const char *name, int64_t otherwise);
float bp__node_float(const BpGraphNode *node, const char *name, float otherwise);
const char *bp__node_str(const BpGraphNode *node, const char *name, const char *otherwise);
/* Makes an attribute for bp__graph_node; a list is borrowed for the graph's life. */
BpGraphAttr bp__attr_int(BpGraph *graph, const char *name, int64_t value);
BpGraphAttr bp__attr_ints(const char *name, const int64_t *values, int32_t count);

/* ---- Passes ------------------------------------------------------------------------------ */

/* Sets num_uses of all values and id of all nodes. */
void bp__graph_count_uses(BpGraph *graph);
/* Removes nodes whose outputs are all unused. */
void bp__graph_remove_dead(BpGraph *graph);

/* A walk over the nodes, in order, that may replace nodes. */
typedef struct BpRewrite {
  BpGraph *graph;        /* the graph whose new list of nodes the walk appends to */
  BpGraphValue **mapped; /* replacement of a value, by the value's id, or NULL */
  int32_t num_mapped;
  void *context;
} BpRewrite;

/* A callback for each node that the graph computes, after replacing the node's inputs. Returns 0 to
 * keep the node, 1 to drop it, -1 with an error. The callback may append nodes to the graph, and
 * sets the replacements of a dropped node's outputs with bp__rewrite_replace. */
typedef int (*BpRewriteRule)(BpRewrite *rewrite, BpGraphNode *node);
int bp__graph_rewrite(BpGraph *graph, BpRewriteRule rule, void *context);
int bp__rewrite_replace(BpRewrite *rewrite, const BpGraphValue *from, BpGraphValue *to);
/* The replacement of a value of the old graph. */
BpGraphValue *bp__rewrite_value(const BpRewrite *rewrite, BpGraphValue *value);

/* Checks a graph and its bodies: every node follows the nodes whose outputs it reads, each value
 * has one producer, and all outputs exist. Returns -1 with an error if a pass has a fault. */
int bp__graph_verify(const BpGraph *graph);

/* Formats the graph as text, for dumps (transfer full, free); NULL with BP_ERROR_MEMORY. */
char *bp__graph_print(const BpGraph *graph);

#endif
