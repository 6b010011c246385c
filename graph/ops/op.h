/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: the one table, with a row for each, and helpers for the rows.
 *
 * To add an operator, add a row to table.c. A row has either `expand`, which replaces the node by
 * other operators, or `infer` and one of `scalar` and `compute`. Inference sees shapes and constant
 * inputs. A node that it accepts must be computed as ONNX defines it; it refuses all others with an
 * error made by bp__op_error. */
#ifndef BACKPLANE_GRAPH_OPS_OP_H
#define BACKPLANE_GRAPH_OPS_OP_H

#include <backplane/compiler/schedules.h>
#include <backplane/compiler/te.h>

#include "graph/ir/graph.h"

/* A node that is computed has at most so many inputs; one with more is expanded. */
#define BP_OP_MAX_INPUTS 16

/* Statements compute at most so many tensors. */
#define BP_OP_MAX_RESULTS 4

/* How an operator may share a function with its neighbours. */
#define BP_FUSE_ELEMENTWISE 0 /* an element needs the elements at its place, or broadcast ones */
#define BP_FUSE_INJECTIVE   1 /* an element needs single elements of the inputs, at any place */
#define BP_FUSE_REDUCTION                                                                          \
  2                      /* an element needs many; injective producers may be computed inside      \
                          */
#define BP_FUSE_ANCHOR 3 /* as before, reads elements often: only consumers join it */
#define BP_FUSE_VIEW   4 /* the same bytes in another shape: no function at all */
#define BP_FUSE_OPAQUE 5 /* a function of its own */

/* The symbols that a function uses: the variable of each, by its place in the extents of the graph,
 * NULL before the first use; and the places of those with a variable, in order. */
typedef struct BpOpSymbols {
  const BpIrNode **vars;
  int32_t *places, count;
} BpOpSymbols;

/* Arguments of `compute`: the tensors of the node's inputs, NULL for absent and `known` ones. */
typedef struct BpOpCompute {
  BpTe *te;
  const BpGraphNode *node;
  BpTeTensor *const *inputs;
  /* Where extents are open: their expressions and symbols. */
  BpExtents *extents;
  BpOpSymbols *symbols;
  BpTransformStages
      *transforms; /* where ConvWinograd leaves its stages for the schedule, or NULL */
} BpOpCompute;

/* Which open extents a row's functions take: they compare extents, hand them on, or use
 * bp__extent_* and bp__op_extent. Others are refused. */
typedef enum BpOpOpenness {
  BP_OPEN_NONE,
  BP_OPEN_FIRST, /* those of input 0 */
  BP_OPEN_ALL
} BpOpOpenness;

/* How a row works on channel-blocked tensors (blocked.c); graph/build/layout.c has a function for
 * each. */
typedef enum BpOpBlocked {
  BP_BLOCKED_NOT, /* its inputs and outputs are plain */
  BP_BLOCKED_ELEMENTWISE,
  BP_BLOCKED_CONV,
  BP_BLOCKED_POOL,
  BP_BLOCKED_REDUCE,
  BP_BLOCKED_RESIZE,
  BP_BLOCKED_CONCAT,
  BP_BLOCKED_DEPTH_TO_SPACE,
  BP_NUM_BLOCKED
} BpOpBlocked;

typedef struct BpOp {
  const char *name;   /* ONNX's op_type */
  const char *domain; /* "" is ONNX's own, "backplane" that of operators which passes make */
  int16_t since;      /* first version whose rules are followed */
  int16_t min_inputs;
  int16_t max_inputs;  /* -1: any number */
  int16_t max_outputs; /* -1: any number */
  uint16_t known;      /* bit i: input i steers inference and is no argument of the computation */
  int32_t fusion;      /* BP_FUSE_* */
  const char *attrs;   /* accepted ones as "name:type ...", type i, is, f, fs, s, ss or t */

  /* Makes the outputs with bp__node_set_output. */
  int (*infer)(BpGraph *graph, BpGraphNode *node);
  /* (optional) One element of the output from the elements of the inputs, for element-wise rows. */
  const BpIrNode *(*scalar)(BpIrModule *ir, const BpGraphNode *node, const BpIrNode *const *args);
  /* (optional) The outputs as tensor expressions, as many as the node has. */
  int (*compute)(const BpOpCompute *op, BpTeTensor **outputs);
  /* (optional) Fills outputs[0]->data from constant inputs, without the compiler; 1: not for this
   * node. */
  int (*fold)(BpGraph *graph, BpGraphNode *node);
  /* (optional) Instead of all this: appends other nodes and sets outputs to what they give; 1: this
   * node is computed. */
  int (*expand)(BpGraph *graph, BpGraphNode *node);
  BpOpOpenness open;
  BpOpBlocked blocked;
} BpOp;

/* The row, or NULL with no error raised. */
const BpOp *bp__op_find(const char *domain, const char *name);
/* The table, for documentation and tests. */
const BpOp *bp__op_table(int32_t *count);
/* How a row is computed: "computed", "element by element", "a view", "from the shape", "by other
 * operators". */
const char *bp__op_how(const BpOp *op);

/* Calls the row's `compute` and converts its results to the types of the node's outputs: a row may
 * leave a result of float16 or bfloat16 in the wider type in which it computes.
 * -1 with an error. */
int bp__op_compute(const BpOpCompute *op, BpTeTensor **outputs);

/* An extent as an expression of IR, by the nodes that stand for symbols, by place; int64. */
const BpIrNode *bp__extent_node(const BpExtents *extents, BpIrModule *ir, int64_t extent,
                                const BpIrNode *const *symbols);
/* A tensor of a row's computation, with extents of the graph. NULL with an error. */
BpTeTensor *bp__op_tensor(const BpOpCompute *op, const char *name, const int64_t *shape,
                          int32_t ndim, BpTeBody body, void *context);
/* Begins a scan (bp_te_scan_begin) over a shape of the graph. NULL with an error. */
BpTeScan *bp__op_scan(const BpOpCompute *op, const int64_t *shape, int32_t ndim, int32_t axis,
                      int32_t is_reverse);
/* Tensors that statements compute (bp_te_statements), where rows and shapes are extents of the
 * graph. */
int bp__op_statements(const BpOpCompute *op, const int64_t *rows, int32_t num_rows,
                      const BpTeResult *results, int32_t num_results, BpTeStatements body,
                      void *context, BpTeTensor **tensors);
/* An extent of the graph as an expression, and a reduction axis of that extent. */
const BpIrNode *bp__op_extent(const BpOpCompute *op, int64_t extent);
const BpIrNode *bp__op_reduce_axis(const BpOpCompute *op, const char *name, int64_t extent);
/* The input of a computation with extents of the graph. */
BpTeTensor *bp__op_placeholder(const BpOpCompute *op, const char *name, const BpGraphValue *value);
/* Makes a tensor the only output; NULL stands for an error. For the end of a `compute` with one
 * output. */
static inline int bp__op_give(BpTeTensor **outputs, BpTeTensor *tensor) {
  outputs[0] = tensor;
  return tensor ? 0 : -1;
}

/* Gives the only output, of the node's shape, by a body whose context is a BpOpCompute. */
int bp__op_give_body(const BpOpCompute *op, const char *name, BpTeBody body, BpTeTensor **outputs);

/* The input if it is there and the computation has it as an argument, else NULL. */
BpGraphValue *bp__op_argument(const BpGraphNode *node, int32_t index);

/* Appends what the node computes to the graph: checks it, infers, expands, folds constants. On
 * success its outputs are set. */
int bp__op_append(BpGraph *graph, BpGraphNode *node);
/* The same for a new node with one output, which is returned. Inputs that are NULL because their
 * maker failed make this fail too: give absent ones by count. */
BpGraphValue *bp__op_apply(BpGraph *graph, const char *domain, const char *op, const char *name,
                           BpGraphValue *const *inputs, int32_t num_inputs,
                           const BpGraphAttr *attrs, int32_t num_attrs);
/* The same for an operator of one and of two operands, for Reshape, for Transpose and, along an
 * axis from `start` up to `end`, for Slice: to say `node` in terms of others. An operand may be
 * NULL: the result is. */
BpGraphValue *bp__op_unary(BpGraph *graph, const BpGraphNode *node, const char *op,
                           BpGraphValue *a);
BpGraphValue *bp__op_binary(BpGraph *graph, const BpGraphNode *node, const char *op,
                            BpGraphValue *a, BpGraphValue *b);
BpGraphValue *bp__op_reshape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             const int64_t *shape, int32_t ndim);
BpGraphValue *bp__op_transpose(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                               const int64_t *perm, int32_t ndim);
/* The value itself if it has that type. */
BpGraphValue *bp__op_cast(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                          BpDataType dtype);
/* A constant of the type of `like`, or float32 if that is no float, which the operator that takes
 * both then refuses; NULL, no error raised, if `like` is. */
BpGraphValue *bp__op_scalar(BpGraph *graph, const BpGraphNode *node, const BpGraphValue *like,
                            float value);
BpGraphValue *bp__op_slice(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                           int64_t axis, int64_t start, int64_t end);
/* 0, 1, 2 and so on, as int64; `count` may be open. (mark.c) */
BpGraphValue *bp__op_counting(BpGraph *graph, const BpGraphNode *node, int64_t count);
/* A vector of extents, for `node`; as data where operators ask for it. */
BpGraphValue *bp__op_extents(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                             int64_t count);
/* The places of the elements of a vector of bool that are true. A run counts them. (mark.c) */
BpGraphValue *bp__op_places_of(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector);
/* Makes extents, of the arena, the elements of a node's int64 output 0. */
int bp__op_give_extents(BpGraph *graph, BpGraphNode *node, const int64_t *elements);
/* A symbol that no shape has yet, for what the node makes known when the model runs. */
int64_t bp__op_new_symbol(BpGraph *graph, const BpGraphNode *node);
/* Makes the elements of an int64 vector, of a length that is known, extents for the nodes after it:
 * those that are `given`, which a run checks, or symbols for the others, which are BP_EXTENT_NONE
 * there; `given` NULL: symbols all. A run in which one is negative fails with the complaint about
 * `node`. The vector itself where it is a constant as it has to be, or has extents that are not
 * negative. */
BpGraphValue *bp__op_bind(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector,
                          const int64_t *given, const char *complaint);
/* Lets a run of the graph fail with the complaint about `node` where the extent is negative. An
 * error now if it is a number and negative. */
int bp__op_require(BpGraph *graph, const BpGraphNode *node, int64_t extent, const char *complaint);
/* Whether it is a node that does so. */
bool bp__op_is_bind(const BpGraphNode *node);
/* Makes extents of the inputs that steer a node's inference and that only a run knows. 1: others
 * were appended in the place of the node; -1: an error. */
int bp__op_bind_inputs(BpGraph *graph, BpGraphNode *node);
/* Lets a run decide whether the input of a Reshape or an Expand has the shape that it is to have,
 * and which elements of an open axis a Slice takes by a step or from a bound that may be negative.
 * 0: the node is another; 1: others were appended in its place; -1: an error. */
int bp__op_bind_shape(BpGraph *graph, BpGraphNode *node);
/* Returns the value with that shape, which has the value's number of dimensions. A run checks open
 * extents. NULL with the complaint about `node`; the value may be NULL. (agree.c) */
BpGraphValue *bp__op_as_shape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                              const int64_t *shape, const char *complaint);
/* Checks that each extent is at most that of `most`; a run checks those that are open. (agree.c) */
int bp__op_at_most(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                   const int64_t *most, int32_t count, const char *complaint);
/* Infers the outputs. If open extents leave it unknown whether the inputs fit, nodes that check
 * this in each run are put before this node (0), or in its place (1). */
int bp__op_infer_agreeing(BpGraph *graph, BpGraphNode *node);
/* Lets all inputs of an element-wise node broadcast to one shape, as bp__op_infer_agreeing does,
 * before the node becomes a chain: each input is expanded once. (agree.c) */
int bp__op_agree_elements(BpGraph *graph, BpGraphNode *node);
/* Settles a node whose inputs are extents, some of them open: its output is extents, too. 1: it was
 * left as it is. */
int bp__op_settle(BpGraph *graph, BpGraphNode *node);
/* Computes a node whose inputs are constants, giving its output data; 1: it was left as it is. */
int bp__op_fold(BpGraph *graph, BpGraphNode *node);

/* ---- For rows ---------------------------------------------------------------------------- */

/* Raises BP_ERROR_NOT_IMPLEMENTED, or `kind`, with the node's name and operator before the text. */
int bp__op_error(const BpGraphNode *node, const char *format, ...) BP_PRINTF(2, 3);
int bp__op_bad(const BpGraphNode *node, const char *format, ...) BP_PRINTF(2, 3);

/* The integers of a constant input; at most `max`, else an error. Returns the count, -1 for an
 * error: it is not there, not constant, not integer. */
int32_t bp__op_const_ints(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max);
/* The same where the integers are extents, which may be open. */
int32_t bp__op_const_extents(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max);
/* One constant integer or extent; `otherwise` if the input is absent. 0, or -1 with an error. */
int bp__op_const_extent(const BpGraphNode *node, int32_t input, int64_t otherwise, int64_t *value);
/* The same from input `input` if it is there, else from the attribute `attr`; -2 (no error raised)
 * if there is neither. */
int32_t bp__op_ints(const BpGraphNode *node, int32_t input, const char *attr, int64_t *values,
                    int32_t max);
/* Makes an axis that may be negative one in [0, ndim). */
int bp__op_axis(const BpGraphNode *node, int64_t axis, int32_t ndim, int32_t *result);
/* The shape to which those of all inputs broadcast. */
int bp__op_broadcast(const BpGraphNode *node, int64_t *shape, int32_t *ndim);

/* The type that ONNX numbers so (TensorProto.DataType); -1, no error raised, for one that no tensor
 * here can have. */
int bp__dtype_from_onnx(int64_t number, BpDataType *dtype);

/* The other way; the type has a number. */
int64_t bp__dtype_to_onnx(BpDataType dtype);

/* ---- Types that only store (narrow.c) ---------------------------------------------------- */

int bp__dtype_is_narrow(BpDataType dtype);
/* The elements of a value of such a type as bytes, one each: the codes of floats, the numbers of
 * integers; and the reverse, which takes an integer from the lowest bits of its byte. */
BpGraphValue *bp__op_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value);
BpGraphValue *bp__op_of_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *bytes,
                              BpDataType dtype);
/* The bytes of a value as another type and shape with as many. */
BpGraphValue *bp__op_view_as(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             BpDataType dtype, const int64_t *shape, int32_t ndim);
/* Appends a node that moves elements of such a type, by their bytes; 1: it has no such input, or
 * does not read its elements. An error if it would compute in the type. */
int bp__op_by_bytes(BpGraph *graph, BpGraphNode *node);

/* Sizes of a window (convolution, pooling) over the spatial dimensions of input 0. Numbers of
 * elements of the input or the output may be open. */
typedef struct BpOpWindow {
  int32_t rank;  /* spatial dimensions */
  int rounds_up; /* ceil_mode */
  int64_t kernel[BP_GRAPH_MAX_NDIM];
  int64_t strides[BP_GRAPH_MAX_NDIM];
  int64_t dilations[BP_GRAPH_MAX_NDIM];
  int64_t pad_begin[BP_GRAPH_MAX_NDIM]; /* may be open */
  int64_t pad_end[BP_GRAPH_MAX_NDIM];   /* may be open */
  int64_t in[BP_GRAPH_MAX_NDIM];        /* may be open */
  int64_t room[BP_GRAPH_MAX_NDIM];      /* of the padded input beyond the first window */
  int64_t out[BP_GRAPH_MAX_NDIM];       /* may be open */
} BpOpWindow;
/* One of its attributes: `count` integers of at least `least`, or all `otherwise` where it is not
 * there. */
int bp__op_window_list(const BpGraphNode *node, const char *name, int32_t count, int64_t least,
                       int64_t otherwise, int64_t *values);
/* Reads it from the attributes, all but `room` and `out`; `kernel` NULL: from kernel_shape. */
int bp__op_read_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                       BpOpWindow *window);
/* The same, and all else; a window that is surely larger than the padded input is an error. */
int bp__op_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                  BpOpWindow *window);
/* The same for inference: where extents are open, a run checks that the window fits. */
int bp__op_infer_window(BpGraph *graph, const BpGraphNode *node, const int64_t *kernel,
                        BpOpWindow *window);
/* The padded input along a dimension. */
int64_t bp__op_padded(BpExtents *extents, const BpOpWindow *window, int32_t dimension);
/* Whether pads, and the extents of input and output, are numbers. */
bool bp__op_window_is_closed(const BpOpWindow *window);
/* The window of the convolution whose transpose the node is: `out` is the node's output, before
 * which `pad_begin` elements are left out. */
int bp__op_transpose_window(BpExtents *extents, const BpGraphNode *node, BpOpWindow *window);

#endif
