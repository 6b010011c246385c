/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers: a plugin claims parts of a model, at the level of ONNX's operators.
 *
 * A plugin that has a library of operators, or compiles graphs itself, registers the global
 * function `graph_compiler.NAME`. The host calls the function with the int
 * BP_GRAPH_COMPILER_VERSION. The function returns a pointer to a BpGraphCompilerApi of that
 * version, which lives for ever, or None if the plugin has no such version. The application names
 * the graph compilers that may take part in compiling a model. While it compiles the model, the
 * host
 *
 *   1. shows the graph to each graph compiler and asks which nodes it takes (`claim`);
 *   2. gives a node that several graph compilers take to the one with the least cost, and groups
 *      connected nodes of one graph compiler into parts, so that no path leaves a part and comes
 *      back to it;
 *   3. has each part compiled to a module (`compile`). If a part fails to compile, generated code
 *      computes it, and the reason is reported;
 *   4. saves the modules in the artifact, where `runtime.module.loadbinary_KIND` of the plugin
 *      loads them. A run calls the part's function on the device of the graph.
 *
 * Before that the host has changed the graph: functions of the model are inlined, node by node;
 * shapes and types are inferred; a value that depends on constants and shapes alone is replaced by
 * a constant; nodes whose result is one of their inputs, and nodes whose results are never read,
 * are removed. The remaining nodes are unchanged: QuantizeLinear, QLinearConv, Gemm,
 * LayerNormalization are whole. Canonical forms, layouts, packing and fusion come later. Nodes with
 * bodies (If, Loop, Scan) are not shown; a value of such a node has no producer. A body is shown as
 * a graph of its own: its inputs are the values that it is given and the values that it reads from
 * the surrounding graph.
 *
 * An extent may be open, that is, known only when the model runs. A node that reads or makes a
 * value with an open extent is shown only to a graph compiler that has
 * BP_GRAPH_COMPILER_OPEN_EXTENTS. Not shown are nodes whose output shapes depend on data, and nodes
 * for which a run has to decide whether two open extents are equal or broadcast.
 *
 * These declarations belong to the ABI's second tier: they have a version of their own, and tables
 * of another version are different tables. Tables and structures begin with their size and grow at
 * their end. Since 1.0. */
#ifndef BACKPLANE_GRAPH_COMPILER_H
#define BACKPLANE_GRAPH_COMPILER_H

#include <backplane/module_api.h>
#include <backplane/target_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BP_GRAPH_COMPILER_VERSION 1

/* BpGraphCompilerApi::flags: the graph compiler compiles parts whose tensors have open extents. A
 * graph compiler that sets BP_GRAPH_COMPILER_OPEN_EXTENTS may still decline single nodes for their
 * open extents. */
#define BP_GRAPH_COMPILER_OPEN_EXTENTS UINT64_C(1)

/* ---- Graphs as a plugin reads them ------------------------------------------------------- */

/* A graph, or a part of one. A graph and everything read from it stay valid and unchanged during
 * the call that the graph was passed to. */
typedef struct BpOnnxGraph BpOnnxGraph;

/* The type of an attribute, which says which members are set: ONNX's numbers
 * (AttributeProto.AttributeType). */
#define BP_ONNX_ATTR_FLOAT   1
#define BP_ONNX_ATTR_INT     2
#define BP_ONNX_ATTR_STRING  3
#define BP_ONNX_ATTR_TENSOR  4
#define BP_ONNX_ATTR_FLOATS  6
#define BP_ONNX_ATTR_INTS    7
#define BP_ONNX_ATTR_STRINGS 8

/* A tensor that a node reads or makes. */
typedef struct BpOnnxValue {
  uint64_t struct_size; /* size in the host's version: members beyond it do not exist */
  const char *name;     /* name of the value for messages; not unique */
  BpDataType dtype;
  int32_t ndim;
  int32_t producer;     /* the node that makes the value; -1: an input, a constant, or not shown */
  const int64_t *shape; /* -1: an open extent */
  /* The text of each open extent, by dimension: a symbol of the model ("batch") or an expression of
   * symbols ("2*n+1"). The text of a known extent is NULL; `symbols` is NULL if no extent is open.
   * Equal texts are equal extents. Texts are for comparison and for messages; do not parse them. */
  const char *const *symbols;
  const void *data; /* a constant's elements, compact, at any alignment; otherwise NULL */
} BpOnnxValue;

/* An attribute of a node, a row of BpOnnxNode::attrs. */
typedef struct BpOnnxAttr {
  const char *name;
  int32_t type;             /* BP_ONNX_ATTR_* */
  int32_t count;            /* number of elements of a list; otherwise 1 */
  const int64_t *ints;      /* INT, INTS */
  const float *floats;      /* FLOAT, FLOATS */
  const char *const *strs;  /* STRING, STRINGS */
  const BpOnnxValue *value; /* TENSOR: a constant */
} BpOnnxAttr;

/* A node. Values are numbers for BpGraphTable::get_value. */
typedef struct BpOnnxNode {
  uint64_t struct_size; /* size in the host's version: members beyond it do not exist */
  const char *name;     /* unique in most models; the host invents a name if the file has none */
  const char *op;       /* ONNX's op_type */
  const char *domain;   /* "" is ONNX's own domain */
  int32_t opset;        /* version of ONNX's own operator set that the model uses */
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t num_attrs;
  const int32_t *inputs;   /* values; -1: an optional input that is omitted */
  const int32_t *outputs;  /* values; -1: an output that is never read */
  const BpOnnxAttr *attrs; /* the attributes in the model; read with bp_onnx_attr */
  uint64_t attr_size;      /* sizeof(BpOnnxAttr) of the host's headers */
} BpOnnxNode;

/* The nodes of a graph that a graph compiler claims. */
typedef struct BpClaims BpClaims;

/* ---- "graph", 1: a table of the host ----------------------------------------------------- */
#define BP_TABLE_GRAPH         "graph"
#define BP_TABLE_GRAPH_VERSION 1

/* Reading a graph, and claiming its nodes. A plugin fetches the table from BpHost::get_table while
 * it is called with a graph. Any thread; reading raises no error. */
typedef struct BpGraphTable {
  uint64_t struct_size;
  /* Nodes are numbered in an order in which they can run. */
  int32_t (*num_nodes)(const BpOnnxGraph *graph);
  /* Returns a value, owned by the graph; NULL for an invalid number. */
  const BpOnnxNode *(*get_node)(const BpOnnxGraph *graph, int32_t node);
  int32_t (*num_values)(const BpOnnxGraph *graph);
  /* Returns a node, owned by the graph; NULL for an invalid number. */
  const BpOnnxValue *(*get_value)(const BpOnnxGraph *graph, int32_t value);
  /* get_inputs returns the values that nodes read and no node makes, without constants, each once;
   * get_outputs returns the values that the graph has to make. *count is the number of values. The
   * graph owns the array. */
  const int32_t *(*get_inputs)(const BpOnnxGraph *graph, int32_t *count);
  const int32_t *(*get_outputs)(const BpOnnxGraph *graph, int32_t *count);
  /* Takes a node. `cost`: an estimate of the nanoseconds that the node takes on the target; 0:
   * unknown. If every graph compiler that takes the node gives a cost, the one with the least cost
   * gets the node; otherwise the graph compiler that was named first gets it. -1 with
   * BP_ERROR_VALUE: there is no such node, the node was taken or declined before, or the cost is
   * negative or NaN; `claim` then fails, whatever it returns. */
  int32_t (*take)(BpClaims *claims, int32_t node, double cost);
  /* Declines a node. `reason` is a text, which is copied. Errors as for take. A node that is
   * neither taken nor declined is reported without a reason. */
  int32_t (*decline)(BpClaims *claims, int32_t node, const char *reason);
} BpGraphTable;

/* ---- The plugin's table ------------------------------------------------------------------ */

/* A graph compiler. Every slot may be called from any thread, also at once from several; it returns
 * 0, or -1 with an error raised. No slot queries a device: the target has all properties that a
 * slot needs. */
typedef struct BpGraphCompilerApi {
  uint64_t struct_size;
  const char *name;    /* NAME of `graph_compiler.NAME`; static */
  void *context;       /* passed to every slot; may be NULL */
  int32_t device_type; /* device type of its parts; only targets of this type are passed */
  int32_t reserved;    /* zero */

  /* (required) Claims nodes of a graph with BpGraphTable::take, and declines others with decline.
   * Neighbouring nodes need not end up in one part. An error ends the compilation of the model. The
   * graph, the target and the claims are borrowed for the call. */
  int32_t (*claim)(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                   BpClaims *claims);

  /* (required) Compiles a part, all of whose nodes this graph compiler took, into a module
   * (*module, owned by the caller). The module can be saved (BP_MODULE_BINARY_SERIALIZABLE), and
   * the plugin loads modules of its kind. The module's bytes should have the common form
   * (BpModuleTable::encode_device_code): if the plugin is not installed, the host can then name the
   * missing plugin. The module has a function called `function`. The function is called as a kernel
   * (BpModuleTable::kernel_create). The arguments are tensors (BP_TYPE_TENSOR or
   * BP_TYPE_TENSOR_VIEW) on the device, compact and of the part's shapes: first the inputs of the
   * part, then its outputs, which it overwrites, both in the order of get_inputs and get_outputs.
   * If the part has open extents, each call has extents of its own, from 0 on, which the tensors
   * have; the host computes the extents of the outputs. A call fails with an error if the function
   * does not support its extents. No output overlaps another tensor. Constants are not passed: the
   * module stores the constants that it needs, in the form that suits the device best. If compiling
   * fails, generated code computes the part, and the error's message is reported as the reason. The
   * part, the target and the name are borrowed for the call. */
  int32_t (*compile)(void *context, const BpOnnxGraph *part, const BpTarget *target,
                     const char *function, BpModule **module);

  uint64_t flags; /* BP_GRAPH_COMPILER_*; a host ignores flags that it does not know. Since 1.0. */
} BpGraphCompilerApi;

/* ---- Single operators -------------------------------------------------------------------- */

/* A library, with or without a graph compiler, may offer operators of ONNX as packed functions, for
 * callers that have tensors and no graph.
 *
 * The global function `operator.NAME.OP`, as "operator.acme.Conv", computes the operator OP of
 * ONNX's own domain. An operator's arguments are, in this order:
 *
 *   - an int: the version of ONNX's operator set whose definition of OP applies;
 *   - an int: how many inputs follow; and the inputs, in ONNX's order: tensors on a device of the
 *     library, compact; None: an optional input that is omitted;
 *   - an int: how many outputs follow; and the outputs: tensors of the caller, compact, of the
 * types and shapes that ONNX's inference gives, which the function overwrites; None: an output that
 * is not needed. No
 *     output overlaps another tensor;
 *   - attributes, two arguments each: the name, a text; and the value: an int, a float, a text, or
 * a shape (BP_TYPE_SHAPE) for a list of ints. An omitted attribute has ONNX's default.
 *
 * The function returns None. Like a kernel that is called as a packed function, it queues its work
 * on the thread's current device and stream. The function keeps no argument, and any thread may
 * call it. The function fails with BP_ERROR_TYPE or BP_ERROR_VALUE if arguments do not have the
 * documented form or shapes, and with BP_ERROR_NOT_IMPLEMENTED if the library lacks the operator
 * for the types, shapes or attributes of a call: the caller may then try another library.
 * `operator_call.h` has helpers that read a call. Since 1.0. */

/* ---- Reading attributes ------------------------------------------------------------------ */

/* Returns attribute `index` of a node. Members beyond node->attr_size do not exist. */
static inline const BpOnnxAttr *bp_onnx_attr(const BpOnnxNode *node, int32_t index) {
  return (const BpOnnxAttr *)((const char *)node->attrs + node->attr_size * (uint64_t)index);
}

/* Returns the attribute with a name and a type, BP_ONNX_ATTR_*, or NULL. */
static inline const BpOnnxAttr *bp_onnx_find_attr(const BpOnnxNode *node, const char *name,
                                                  int32_t type) {
  for (int32_t i = 0; i < node->num_attrs; i++) {
    const BpOnnxAttr *attr = bp_onnx_attr(node, i);
    if (attr->type == type && !__builtin_strcmp(attr->name, name))
      return attr;
  }
  return NULL;
}

static inline int64_t bp_onnx_int(const BpOnnxNode *node, const char *name, int64_t otherwise) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_INT);
  return attr ? attr->ints[0] : otherwise;
}

static inline float bp_onnx_float(const BpOnnxNode *node, const char *name, float otherwise) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_FLOAT);
  return attr ? attr->floats[0] : otherwise;
}

static inline const char *bp_onnx_str(const BpOnnxNode *node, const char *name,
                                      const char *otherwise) {
  const BpOnnxAttr *attr = bp_onnx_find_attr(node, name, BP_ONNX_ATTR_STRING);
  return attr ? attr->strs[0] : otherwise;
}

#ifdef __cplusplus
}
#endif

#endif
