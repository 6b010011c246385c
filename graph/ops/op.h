/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: a table with a row for each operator, and helpers for the rows.
 *
 * To add an operator, add a row to table.c. A row has either `expand`, which replaces the node by
 * other operators, or `infer` and one of `scalar` and `compute`. Inference sees shapes and constant
 * inputs. A row accepts a node only if it computes the node as ONNX defines it, and rejects all
 * other nodes with an error made by bp__op_error. */
#ifndef BACKPLANE_GRAPH_OPS_OP_H
#define BACKPLANE_GRAPH_OPS_OP_H

#include <backplane/compiler/schedules.h>
#include <backplane/compiler/te.h>

#include "graph/ir/graph.h"

/* The maximum number of inputs of a computed node; a node with more inputs is expanded. */
#define BP_OP_MAX_INPUTS 16

/* The maximum number of tensors that statements compute. */
#define BP_OP_MAX_RESULTS 4

/* The ways in which an operator may share a function with its neighbours. */
#define BP_FUSE_ELEMENTWISE 0 /* elements depend on inputs at their own position, or broadcast */
#define BP_FUSE_INJECTIVE   1 /* elements depend on single input elements, at any position */
#define BP_FUSE_REDUCTION   2 /* elements depend on many: injective producers join it */
#define BP_FUSE_ANCHOR      3 /* elements are read often: only consumers are fused into the operator */
#define BP_FUSE_VIEW        4 /* a view of the same bytes in another shape, without a function */
#define BP_FUSE_OPAQUE      5 /* an operator that never shares its function */

/* The symbols that a function uses: the variable of each symbol, by its place in the graph's
 * extents, NULL before the first use; and the sorted places of the symbols that have a variable. */
typedef struct BpOpSymbols {
  const BpIrNode **vars;
  int32_t *places, count;
} BpOpSymbols;

/* The arguments of `compute`: the tensors of the node's inputs, NULL for absent and `known`
 * inputs. */
typedef struct BpOpCompute {
  BpTe *te;
  const BpGraphNode *node;
  BpTeTensor *const *inputs;
  /* The expressions and symbols of open extents. */
  BpExtents *extents;
  BpOpSymbols *symbols;
  BpTransformStages
      *transforms; /* array in which ConvWinograd stores its stages for the schedule, or NULL */
} BpOpCompute;

/* The open extents that a row's functions accept: they compare extents, pass them on, or use
 * bp__extent_* and bp__op_extent. Open extents that a row does not accept are rejected. */
typedef enum BpOpOpenness {
  BP_OPEN_NONE,
  BP_OPEN_FIRST, /* the extents of input 0 */
  BP_OPEN_ALL
} BpOpOpenness;

/* How a row works on channel-blocked tensors (blocked.c); graph/build/layout.c has a function for
 * each value. */
typedef enum BpOpBlocked {
  BP_BLOCKED_NOT, /* inputs and outputs are plain */
  BP_BLOCKED_ELEMENTWISE,
  BP_BLOCKED_CONV,
  BP_BLOCKED_POOL,
  BP_BLOCKED_REDUCE,
  BP_BLOCKED_RESIZE,
  BP_BLOCKED_SHAPED, /* the second input is the output's shape */
  BP_BLOCKED_CONCAT,
  BP_BLOCKED_DEPTH_TO_SPACE,
  BP_NUM_BLOCKED
} BpOpBlocked;

typedef struct BpOp {
  const char *name;   /* ONNX's op_type */
  const char *domain; /* "" is ONNX's own domain; "backplane" has the operators that passes make */
  int16_t since;      /* first version whose rules the row follows */
  int16_t min_inputs;
  int16_t max_inputs;  /* maximum number of inputs; -1: any number */
  int16_t max_outputs; /* maximum number of outputs; -1: any number */
  uint16_t known;      /* bit i: input i only steers inference and is no argument */
  int32_t fusion;      /* BP_FUSE_* */
  const char *attrs;   /* accepted attributes as "name:type ...", type i, is, f, fs, s, ss or t */

  /* Makes the outputs with bp__node_set_output. */
  int (*infer)(BpGraph *graph, BpGraphNode *node);
  /* (optional) Makes one element of the output from the elements of the inputs, for element-wise
   * rows. */
  const BpIrNode *(*scalar)(BpIrModule *ir, const BpGraphNode *node, const BpIrNode *const *args);
  /* (optional) Makes the outputs as tensor expressions, as many as the node has. */
  int (*compute)(const BpOpCompute *op, BpTeTensor **outputs);
  /* (optional) Fills outputs[0]->data from constant inputs, without the compiler; returns 1 for a
   * node that it does not fold. */
  int (*fold)(BpGraph *graph, BpGraphNode *node);
  /* (optional) Appends other nodes instead of computing the node, and sets the node's outputs to
   * their outputs; returns 1 if the node is computed. */
  int (*expand)(BpGraph *graph, BpGraphNode *node);
  BpOpOpenness open;
  BpOpBlocked blocked;
} BpOp;

/* The row of an operator; NULL without an error if the table lacks it. */
const BpOp *bp__op_find(const char *domain, const char *name);
/* The whole table, for documentation and tests. */
const BpOp *bp__op_table(int32_t *count);
/* How a row is computed: "computed", "element by element", "a view", "from the shape" or "by other
 * operators". */
const char *bp__op_how(const BpOp *op);

/* Whether rounding an operand of a node changes the result little: the function has no steps, and
 * no number turns the result into a NaN. (Division has a pole at 0, but rounding keeps the sign of
 * the operand.) A continuous node may read results before they are rounded. */
bool bp__op_is_continuous(const BpGraphNode *node);

/* Converts a result of the row's `compute` to the type of output `index`: a row may leave a result
 * of float16 or bfloat16 in the wider type in which it computes. NULL with an error. */
BpTeTensor *bp__op_round(const BpOpCompute *op, int32_t index, BpTeTensor *result);
/* Calls the row's `compute` and converts all its results. Returns -1 with an error on failure. */
int bp__op_compute(const BpOpCompute *op, BpTeTensor **outputs);

/* Translates an extent to an int64 expression of IR; `symbols` are the nodes of the symbols, by
 * place. */
const BpIrNode *bp__extent_node(const BpExtents *extents, BpIrModule *ir, int64_t extent,
                                const BpIrNode *const *symbols);
/* Makes a tensor of a row's computation with extents of the graph; NULL with an error. */
BpTeTensor *bp__op_tensor(const BpOpCompute *op, const char *name, const int64_t *shape,
                          int32_t ndim, BpTeBody body, void *context);
/* Begins a scan (bp_te_scan_begin) over a shape with extents of the graph; NULL with an error. */
BpTeScan *bp__op_scan(const BpOpCompute *op, const int64_t *shape, int32_t ndim, int32_t axis,
                      int32_t is_reverse);
/* Makes tensors that statements compute (bp_te_statements); rows and shapes are extents of the
 * graph. */
int bp__op_statements(const BpOpCompute *op, const int64_t *rows, int32_t num_rows,
                      const BpTeResult *results, int32_t num_results, BpTeStatements body,
                      void *context, BpTeTensor **tensors);
/* Makes an expression of an extent of the graph, and a reduction axis with that extent. */
const BpIrNode *bp__op_extent(const BpOpCompute *op, int64_t extent);
const BpIrNode *bp__op_reduce_axis(const BpOpCompute *op, const char *name, int64_t extent);
/* Makes an input of a computation with extents of the graph. */
BpTeTensor *bp__op_placeholder(const BpOpCompute *op, const char *name, const BpGraphValue *value);
/* Sets the only output of a row's `compute`; a NULL tensor returns the error. */
static inline int bp__op_give(BpTeTensor **outputs, BpTeTensor *tensor) {
  outputs[0] = tensor;
  return tensor ? 0 : -1;
}

/* Computes the only output, of the node's shape, by a body whose context is a BpOpCompute. */
int bp__op_give_body(const BpOpCompute *op, const char *name, BpTeBody body, BpTeTensor **outputs);

/* An input that is present and an argument of the computation, else NULL. */
BpGraphValue *bp__op_argument(const BpGraphNode *node, int32_t index);

/* Appends to the graph the nodes that compute a node: checks, infers, expands and folds constants.
 * On success the node's outputs are set. */
int bp__op_append(BpGraph *graph, BpGraphNode *node);
/* Appends a new node with one output, and returns the output. If an input is NULL because of an
 * earlier error, bp__op_apply fails too; absent inputs are left out by `num_inputs`. */
BpGraphValue *bp__op_apply(BpGraph *graph, const char *domain, const char *op, const char *name,
                           BpGraphValue *const *inputs, int32_t num_inputs,
                           const BpGraphAttr *attrs, int32_t num_attrs);
/* Apply an operator of one operand or of two, Reshape, Transpose or, along an axis from `start` up
 * to `end`, Slice, to build `node` from other operators. A NULL operand gives NULL. */
BpGraphValue *bp__op_unary(BpGraph *graph, const BpGraphNode *node, const char *op,
                           BpGraphValue *a);
BpGraphValue *bp__op_binary(BpGraph *graph, const BpGraphNode *node, const char *op,
                            BpGraphValue *a, BpGraphValue *b);
BpGraphValue *bp__op_reshape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             const int64_t *shape, int32_t ndim);
BpGraphValue *bp__op_transpose(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                               const int64_t *perm, int32_t ndim);
/* Casts a value; returns the value itself if it has the type. */
BpGraphValue *bp__op_cast(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                          BpDataType dtype);
/* A constant of the type of `like`; float32 if that is no float, which the operator that takes both
 * rejects. NULL without an error if `like` is NULL. */
BpGraphValue *bp__op_scalar(BpGraph *graph, const BpGraphNode *node, const BpGraphValue *like,
                            float value);
/* The product of the seven inputs of com.microsoft's MatMulIntegerToFloat, whose zero points and
 * bias may be NULL (quantize.c). */
BpGraphValue *bp__op_byte_product(BpGraph *graph, const BpGraphNode *node,
                                  BpGraphValue *const *inputs);
/* A scalar constant of a float type. */
BpGraphValue *bp__op_number(BpGraph *graph, const BpGraphNode *node, BpDataType dtype,
                            double value);
BpGraphValue *bp__op_slice(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                           int64_t axis, int64_t start, int64_t end);
/* Quantises float32 numbers to bytes by their range, which includes 0: of all numbers, or of those
 * along the axes (static), which stay as dimensions of extent 1. Sets `results` to the bytes, the
 * scales and the zero points (quantize.c). */
int bp__op_quantize(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x, const int64_t *axes,
                    int32_t num_axes, BpGraphValue **results);
/* The vector 0, 1, 2 and so on, as int64; `count` may be open (mark.c). */
BpGraphValue *bp__op_counting(BpGraph *graph, const BpGraphNode *node, int64_t count);
/* Makes a vector of extents for `node`. If an operator needs the vector as data, nodes compute
 * it. */
BpGraphValue *bp__op_extents(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                             int64_t count);
/* The indices of the true elements of a bool vector, which a run counts (mark.c). */
BpGraphValue *bp__op_places_of(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector);
/* Makes extents, which are in memory of the arena, the elements of a node's int64 output 0. */
int bp__op_give_extents(BpGraph *graph, BpGraphNode *node, const int64_t *elements);
/* Makes a symbol that no shape has yet, for an extent that the node computes when the model
 * runs. */
int64_t bp__op_new_symbol(BpGraph *graph, const BpGraphNode *node);
/* Makes the elements of an int64 vector of known length extents for later nodes: the extents in
 * `given`, which a run checks, and new symbols where `given` is BP_EXTENT_NONE or NULL. A run in
 * which an element is negative fails with the complaint about `node`. Returns the vector itself if
 * it is a constant that matches, or has extents that cannot be negative. */
BpGraphValue *bp__op_bind(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector,
                          const int64_t *given, const char *complaint);
/* Makes a run of the graph fail with the complaint about `node` if the extent is negative. Fails
 * now if the extent is a negative number. */
int bp__op_require(BpGraph *graph, const BpGraphNode *node, int64_t extent, const char *complaint);
/* Whether a node, which may be NULL, is the operator `name` of ONNX's own domain. */
bool bp__op_is(const BpGraphNode *node, const char *name);
/* Whether a node is made by bp__op_bind or bp__op_require. */
bool bp__op_is_bind(const BpGraphNode *node);
/* Makes extents of the inputs that steer a node's inference and that only a run knows. Returns 1 if
 * other nodes were appended instead of the node, -1 with an error. */
int bp__op_bind_inputs(BpGraph *graph, BpGraphNode *node);
/* Makes a run decide whether the input of a Reshape or an Expand has the wanted shape, and which
 * elements of an open axis a Slice takes with a step or from a bound that may be negative. Returns
 * 1 if other nodes were appended instead of the node, 0 if the node stays, -1 with an error. */
int bp__op_bind_shape(BpGraph *graph, BpGraphNode *node);
/* Returns the value with a shape of the same number of dimensions; a run checks open extents
 * (agree.c). NULL with the complaint about `node`; the value may be NULL. */
BpGraphValue *bp__op_as_shape(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                              const int64_t *shape, const char *complaint);
/* Checks that each extent is at most that of `most`; a run checks open extents (agree.c). */
int bp__op_at_most(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                   const int64_t *most, int32_t count, const char *complaint);
/* Applies an element-wise operator to x and a value that broadcasts to the shape of x; a run checks
 * open extents (agree.c). NULL with the complaint about `node`; x and the value may be NULL. */
BpGraphValue *bp__op_onto(BpGraph *graph, const BpGraphNode *node, const char *op, BpGraphValue *x,
                          BpGraphValue *value, const char *complaint);
/* Infers the outputs. If open extents leave it unknown whether the inputs match, nodes that compare
 * them in each run are appended before the node (returns 0), or instead of it (returns 1). */
int bp__op_infer_agreeing(BpGraph *graph, BpGraphNode *node);
/* Makes all inputs of an element-wise node broadcast to one shape, as bp__op_infer_agreeing does,
 * before the node becomes a chain, so that each input is expanded once (agree.c). */
int bp__op_agree_elements(BpGraph *graph, BpGraphNode *node);
/* Settles a node whose inputs are extents, some of them open: its output becomes extents, too.
 * Returns 1 if the node is unchanged. */
int bp__op_settle(BpGraph *graph, BpGraphNode *node);
/* Computes a node whose inputs are constants, which gives its output data; returns 1 if the node is
 * unchanged. */
int bp__op_fold(BpGraph *graph, BpGraphNode *node);

/* ---- For rows ---------------------------------------------------------------------------- */

/* Raises BP_ERROR_NOT_IMPLEMENTED, or `kind`, with the node's name and operator before the text. */
int bp__op_error(const BpGraphNode *node, const char *format, ...) BP_PRINTF(2, 3);
int bp__op_bad(const BpGraphNode *node, const char *format, ...) BP_PRINTF(2, 3);

/* Reads the integers of a constant input, at most `max`. Returns the count; -1 with an error if the
 * input is absent, not constant or not integer. */
int32_t bp__op_const_ints(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max);
/* Reads a constant input whose integers are extents, which may be open; otherwise as
 * bp__op_const_ints. */
int32_t bp__op_const_extents(const BpGraphNode *node, int32_t input, int64_t *values, int32_t max);
/* Reads one constant integer or extent; `otherwise` if the input is absent. Returns -1 with an
 * error on failure. */
int bp__op_const_extent(const BpGraphNode *node, int32_t input, int64_t otherwise, int64_t *value);
/* Reads integers from input `input` or, if that is absent, from the attribute `attr`; -2 without an
 * error if both are absent. */
int32_t bp__op_ints(const BpGraphNode *node, int32_t input, const char *attr, int64_t *values,
                    int32_t max);
/* Converts an axis that may be negative to one in [0, ndim). */
int bp__op_axis(const BpGraphNode *node, int64_t axis, int32_t ndim, int32_t *result);
/* Fails if input 0 is of no float type: the operator would convert its constants to integers. */
int bp__op_check_float(const BpGraphNode *node);
/* Computes the shape to which the shapes of all inputs broadcast. */
int bp__op_broadcast(const BpGraphNode *node, int64_t *shape, int32_t *ndim);

/* The type with a number of ONNX (TensorProto.DataType); -1 without an error if tensors cannot have
 * the type. */
int bp__dtype_from_onnx(int64_t number, BpDataType *dtype);

/* The number of ONNX for a type that has one. */
int64_t bp__dtype_to_onnx(BpDataType dtype);

/* ---- Types that only store (narrow.c) ---------------------------------------------------- */

int bp__dtype_is_narrow(BpDataType dtype);
/* Converts a value of a storage-only type to bytes, one for each element: the codes of floats, the
 * numbers of integers; and bytes back to the type, taking an integer from the lowest bits of its
 * byte. */
BpGraphValue *bp__op_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value);
BpGraphValue *bp__op_of_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *bytes,
                              BpDataType dtype);
/* Reinterprets the bytes of a value as another type and shape of equal size. */
BpGraphValue *bp__op_view_as(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             BpDataType dtype, const int64_t *shape, int32_t ndim);
/* Appends a node that moves elements of a storage-only type, as bytes; returns 1 if the node has no
 * such input, or does not read its elements. Fails if the node would compute in the type. */
int bp__op_by_bytes(BpGraph *graph, BpGraphNode *node);

/* The sizes of a window (convolution, pooling) over the spatial dimensions of input 0. Numbers of
 * elements of the input or the output may be open. */
typedef struct BpOpWindow {
  int32_t rank;  /* number of spatial dimensions */
  int rounds_up; /* ceil_mode */
  int64_t kernel[BP_GRAPH_MAX_NDIM];
  int64_t strides[BP_GRAPH_MAX_NDIM];
  int64_t dilations[BP_GRAPH_MAX_NDIM];
  int64_t pad_begin[BP_GRAPH_MAX_NDIM]; /* elements added before the input; may be open */
  int64_t pad_end[BP_GRAPH_MAX_NDIM];   /* elements added after the input; may be open */
  int64_t in[BP_GRAPH_MAX_NDIM];        /* extents of the input; may be open */
  int64_t room[BP_GRAPH_MAX_NDIM];      /* elements of the padded input after the first window, and
                                         * stride - 1 more with ceil_mode; negative: no window */
  int64_t out[BP_GRAPH_MAX_NDIM];       /* extents of the output; may be open */
} BpOpWindow;
/* Reads an attribute of a window: `count` integers of at least `least`; all are `otherwise` if it
 * is absent. */
int bp__op_window_list(const BpGraphNode *node, const char *name, int32_t count, int64_t least,
                       int64_t otherwise, int64_t *values);
/* Reads a window from the attributes, except `room` and `out`; if `kernel` is NULL, from
 * kernel_shape. */
int bp__op_read_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                       BpOpWindow *window);
/* Reads a window completely; fails if the window is certainly larger than the padded input. */
int bp__op_window(BpExtents *extents, const BpGraphNode *node, const int64_t *kernel,
                  BpOpWindow *window);
/* Reads a window for inference: if extents are open, a run checks that the window fits. */
int bp__op_infer_window(BpGraph *graph, const BpGraphNode *node, const int64_t *kernel,
                        BpOpWindow *window);
/* The extent of the padded input along a dimension. */
int64_t bp__op_padded(BpExtents *extents, const BpOpWindow *window, int32_t dimension);
/* Whether the pads, and the extents of input and output, are numbers. */
bool bp__op_window_is_closed(const BpOpWindow *window);
/* Sets the window of a transposed convolution: `out` has the extents of the node's output, and
 * `pad_begin` is the number of elements that are cut off at its beginning. */
int bp__op_transpose_window(BpExtents *extents, const BpGraphNode *node, BpOpWindow *window);

#endif
