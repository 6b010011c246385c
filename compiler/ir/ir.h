/* SPDX-License-Identifier: Apache-2.0 */
/* The internal interface of the IR, for passes: the node, inline accessors, rewriting and
 * substitution.
 *
 * Nodes are immutable and live in the arena of their module, which is freed in one go with the
 * module. A node may be shared freely: expressions are graphs, and a rewriting pass keeps sharing.
 * VAR and BUFFER nodes have identity: every use is the same node. Functions that take nodes return
 * NULL if an operand is NULL. */
#ifndef BACKPLANE_COMPILER_IR_IR_H
#define BACKPLANE_COMPILER_IR_IR_H

#include <stdbool.h>
#include <string.h>

#include <backplane/compiler/ir.h>
#include <backplane/error.h>

/* The maximum nesting of nodes: it bounds recursion over nodes, here and in plugins. */
#define BP__IR_MAX_DEPTH 4096

/* The depth up to which an expression is walked as a tree; few expressions are deeper. In a deeper
 * expression each node is visited once: it may be a graph with too many paths to walk. */
#define BP__IR_TREE_DEPTH 8

struct BpIrNode {
  int32_t kind;
  BpDataType dtype;
  int32_t num_operands;
  int32_t depth; /* depth of nesting; 1 for a node without operands */
  int64_t int_value;
  double float_value;
  const char *str_value; /* never NULL */
  const BpIrNode *operands[];
};

/* ---- Library (compiler/start.c) ---------------------------------------------------------- */

/* Registers the compiler library's host tables and global functions, once. Every public function
 * that may be the first call of a program calls bp__compiler_initialize first. Returns -1 with an
 * error on failure. */
int bp__compiler_initialize(void);

/* ---- Types ------------------------------------------------------------------------------- */

static inline BpDataType bp__dtype(uint8_t code, uint8_t bits, uint16_t lanes) {
  return (BpDataType){code, bits, lanes};
}
static inline BpDataType bp__dtype_with_lanes(BpDataType dtype, uint16_t lanes) {
  return (BpDataType){dtype.code, dtype.bits, lanes};
}
static inline BpDataType bp__dtype_element(BpDataType dtype) {
  return bp__dtype_with_lanes(dtype, 1);
}
static inline BpDataType bp__dtype_bool(uint16_t lanes) {
  return bp__dtype(BP_DTYPE_BOOL, 8, lanes);
}
static inline BpDataType bp__dtype_int64(void) {
  return bp__dtype(BP_DTYPE_INT, 64, 1);
}
static inline BpDataType bp__dtype_handle(void) {
  return bp__dtype(BP_DTYPE_HANDLE, 64, 1);
}
static inline BpDataType bp__dtype_void(void) {
  return bp__dtype(BP_DTYPE_HANDLE, 0, 0);
}
static inline bool bp__dtype_equal(BpDataType a, BpDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
static inline bool bp__dtype_is_void(BpDataType dtype) {
  return dtype.code == BP_DTYPE_HANDLE && dtype.bits == 0;
}
static inline bool bp__dtype_is_bool(BpDataType dtype) {
  return dtype.code == BP_DTYPE_BOOL;
}
/* Signed or unsigned integers, without bool. */
static inline bool bp__dtype_is_int(BpDataType dtype) {
  return dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT;
}
static inline bool bp__dtype_is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}
/* float16 and bfloat16, with any number of lanes: types for storage, computed in float32. */
static inline bool bp__dtype_is_half(BpDataType dtype) {
  return bp__dtype_is_float(dtype) && dtype.bits == 16;
}

/* ---- Reading ----------------------------------------------------------------------------- */

static inline bool bp__ir_is(const BpIrNode *node, int32_t kind) {
  return node->kind == kind;
}
/* Whether operations of a kind give quotients of integers, rounded towards 0 or downwards. */
static inline bool bp__ir_kind_is_quotient(int32_t kind) {
  return kind == BP_IR_DIV || kind == BP_IR_FLOORDIV;
}
static inline bool bp__ir_is_division(const BpIrNode *node) {
  return bp__ir_kind_is_quotient(node->kind) || node->kind == BP_IR_MOD ||
         node->kind == BP_IR_FLOORMOD;
}
static inline bool bp__ir_is_statement(const BpIrNode *node) {
  return node->kind >= BP_IR_SEQ && node->kind < BP_IR_BUFFER;
}
static inline uint16_t bp__ir_lanes(const BpIrNode *node) {
  return node->dtype.lanes;
}

/* The value of an INT_IMM, or of the INT_IMM in a BROADCAST; false for other nodes. */
static inline bool bp__ir_const_int(const BpIrNode *node, int64_t *value) {
  if (node->kind == BP_IR_BROADCAST)
    node = node->operands[0];
  if (node->kind != BP_IR_INT_IMM)
    return false;
  *value = node->int_value;
  return true;
}
static inline bool bp__ir_is_int_value(const BpIrNode *node, int64_t value) {
  int64_t found;
  return bp__ir_const_int(node, &found) && found == value;
}
/* The value of a constant mask of that many lanes, 1 or 0; -1 for a mask that is not constant or
 * that bp_ir_verify refuses. */
static inline int bp__ir_const_mask(const BpIrNode *mask, uint16_t lanes) {
  int64_t value;
  bool is_mask = mask->dtype.code == BP_DTYPE_BOOL && mask->dtype.lanes == lanes;
  return is_mask && bp__ir_const_int(mask, &value) ? value != 0 : -1;
}
/* The value of a FLOAT_IMM, or of the FLOAT_IMM in a BROADCAST; false for other nodes. */
static inline bool bp__ir_const_float(const BpIrNode *node, double *value) {
  if (node->kind == BP_IR_BROADCAST)
    node = node->operands[0];
  if (node->kind != BP_IR_FLOAT_IMM)
    return false;
  *value = node->float_value;
  return true;
}

/* Whether two nodes are the same construct with equal operands; VARs and BUFFERs are compared by
 * identity. If memory is exhausted, returns false with an error. */
bool bp__ir_equal(const BpIrNode *a, const BpIrNode *b);

/* The parts of a FUNCTION. */
static inline const BpIrNode *bp__ir_function_body(const BpIrNode *function) {
  return function->operands[function->num_operands - 1];
}
static inline int32_t bp__ir_function_num_params(const BpIrNode *function) {
  return (int32_t)function->int_value;
}
/* The ATTR with the key `key`, or NULL; and that ATTR's first int, or `otherwise`. */
const BpIrNode *bp__ir_find_attr(const BpIrNode *function, const char *key);
int64_t bp__ir_attr_int(const BpIrNode *function, const char *key, int64_t otherwise);

/* The name of a node kind in the text form, NULL if unknown; and the node kind of a name, or
 * BP_IR_NONE. */
const char *bp__ir_kind_name(int32_t kind);
int32_t bp__ir_kind_by_name(const char *name, size_t size);

/* The text of one node (transfer full, free()). */
char *bp__ir_print_node(const BpIrNode *node);
/* Writes the beginning of the node's text form to `text`, on one line, for messages. Returns
 * `text`. */
char *bp__ir_print_short(const BpIrNode *node, char *text, size_t size);

/* Verifies one function as bp_ir_verify verifies a module. */
int bp__ir_verify_function(const BpIrNode *function);
/* Verifies a function after pass `pass`, which the error names. Calls of "te.*", which exist only
 * between passes of lowering, are allowed. */
int bp__ir_verify_pass(const BpIrNode *function, const char *pass);

/* ---- Making ------------------------------------------------------------------------------ */

/* Allocates memory that is freed with the module and aligned for any type; NULL with an error. */
void *bp__ir_alloc(BpIrModule *module, size_t size);
/* Returns -1 with an error if any allocation of the module has failed: later allocations fail too,
 * so that an expression that lacks a part is not mistaken for a complete one. */
int bp__ir_check_memory(const BpIrModule *module);
/* A copy of a string in the module. */
const char *bp__ir_strdup(BpIrModule *module, const char *text);

int32_t bp__ir_module_num_functions(const BpIrModule *module);
const BpIrNode *bp__ir_module_function(const BpIrModule *module, int32_t index);
/* Replaces a function by another function of the same name; for passes. */
void bp__ir_module_replace(BpIrModule *module, int32_t index, const BpIrNode *function);

/* Shorthands for bp_ir_make and the public makers. */
const BpIrNode *bp__ir_node1(BpIrModule *module, int32_t kind, BpDataType dtype, const BpIrNode *a);
const BpIrNode *bp__ir_node2(BpIrModule *module, int32_t kind, BpDataType dtype, const BpIrNode *a,
                             const BpIrNode *b);
const BpIrNode *bp__ir_int64(BpIrModule *module, int64_t value);
const BpIrNode *bp__ir_bool(BpIrModule *module, bool value);
/* The constant `value` converted to any number type, in every lane. */
const BpIrNode *bp__ir_number(BpIrModule *module, BpDataType dtype, double value);
const BpIrNode *bp__ir_str(BpIrModule *module, const char *text);
const BpIrNode *bp__ir_evaluate(BpIrModule *module, const BpIrNode *expression);
const BpIrNode *bp__ir_barrier(BpIrModule *module, const char *scope);
const BpIrNode *bp__ir_assert(BpIrModule *module, const BpIrNode *condition, const char *message);
const BpIrNode *bp__ir_while(BpIrModule *module, const BpIrNode *condition, const BpIrNode *body);
const BpIrNode *bp__ir_reinterpret(BpIrModule *module, BpDataType dtype, const BpIrNode *a);
const BpIrNode *bp__ir_reduce(BpIrModule *module, const char *op, const BpIrNode *vector);
/* Makes a SHUFFLE: `lanes` holds `num_lanes` positions in the concatenated vectors. */
const BpIrNode *bp__ir_shuffle(BpIrModule *module, const BpIrNode *const *vectors,
                               int32_t num_vectors, const int32_t *lanes, uint16_t num_lanes);
/* One lane of a vector as a scalar. */
const BpIrNode *bp__ir_lane(BpIrModule *module, const BpIrNode *vector, uint16_t lane);
const BpIrNode *bp__ir_attr(BpIrModule *module, const char *key, const BpIrNode *const *values,
                            int32_t num_values);
/* A call of a pure intrinsic whose arguments and result have the type of the first argument. */
const BpIrNode *bp__ir_intrinsic(BpIrModule *module, const char *name, const BpIrNode *const *args,
                                 int32_t num_args);
/* The statement that does nothing. */
const BpIrNode *bp__ir_nothing(BpIrModule *module);
static inline bool bp__ir_is_nothing(const BpIrNode *node) {
  return node->kind == BP_IR_SEQ && node->num_operands == 0;
}

/* The construct `node` with other operands, folded as the makers fold; `node` itself if the
 * operands are unchanged. */
const BpIrNode *bp__ir_with_operands(BpIrModule *module, const BpIrNode *node,
                                     const BpIrNode *const *operands);

/* Makes a select that says of its branches what `node`, a select, says of its own: that both are
 * defined whatever the condition is (a value other than 0), or that only the chosen one is. */
const BpIrNode *bp__ir_select_like(BpIrModule *module, const BpIrNode *node,
                                   const BpIrNode *condition, const BpIrNode *a, const BpIrNode *b);

/* ---- Maps and rewriting (rewrite.c) ------------------------------------------------------ */

/* A hash map from nodes, by identity, to nodes or other pointers. A zeroed map is empty. */
typedef struct BpIrMap {
  const void **slots; /* key, value, key, value... */
  size_t capacity;    /* number of pairs, a power of two */
  size_t size;
} BpIrMap;

const void *bp__ir_map_get(const BpIrMap *map, const BpIrNode *key); /* value of the key, or NULL */
/* Adds or replaces the value of a key; the value is not NULL. Returns -1 with an error on
 * failure. */
int bp__ir_map_set(BpIrMap *map, const BpIrNode *key, const void *value);
void bp__ir_map_clear(BpIrMap *map);

/* A rewrite of a node and all nodes below it. Each distinct node is rewritten once, so sharing is
 * kept, also across several calls with one rewriter. Operands come first; the binding VAR of a FOR
 * or LET and the BUFFER of an access count as operands. The caller zeroes the struct, sets the
 * members that it needs, and clears the rewriter at the end. The callbacks `enter` and `leave` may
 * be NULL. */
typedef struct BpIrRewriter {
  BpIrModule *module; /* the module of new nodes */
  void *context;
  /* Called before a node's operands are rewritten. 0: continue; 1: *result replaces the node and
   * everything below it; -1: an error was raised. */
  int (*enter)(struct BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result);
  /* Called with a node whose operands are rewritten; returns the node's replacement, or NULL with
   * an error. */
  const BpIrNode *(*leave)(struct BpIrRewriter *rewriter, const BpIrNode *node);
  BpIrMap done;
} BpIrRewriter;

const BpIrNode *bp__ir_rewrite(BpIrRewriter *rewriter, const BpIrNode *node);
void bp__ir_rewriter_clear(BpIrRewriter *rewriter);
/* A callback `enter` for rewrites of expressions: the extents of a buffer stay as they are, because
 * the buffer is the same in every statement. */
int bp__ir_skip_buffer(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result);

/* Replaces the VARs (or any nodes) in `map` by their values. */
const BpIrNode *bp__ir_substitute(BpIrModule *module, const BpIrNode *node, const BpIrMap *map);
const BpIrNode *bp__ir_substitute_one(BpIrModule *module, const BpIrNode *node, const BpIrNode *var,
                                      const BpIrNode *value);
/* Copies a node with its VARs and BUFFERs into another module. `done` keeps the copied nodes, so
 * that several copies share them. */
const BpIrNode *bp__ir_copy(BpIrModule *module, const BpIrNode *node, BpIrMap *done);

/* Calls `visit` once for every distinct node, operands first, until `visit` returns non-zero, and
 * returns that number; -1 with an error if memory is exhausted. */
int bp__ir_visit_once(const BpIrNode *node, int (*visit)(void *context, const BpIrNode *node),
                      void *context);
/* Whether the node `part` occurs in the node `node`: 1, 0 or -1 with an error. */
int bp__ir_uses(const BpIrNode *node, const BpIrNode *part);

#endif
