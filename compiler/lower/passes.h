/* SPDX-License-Identifier: Apache-2.0 */
/* Passes from IR to IR for any function: the steps of legalisation. Each pass returns the new
 * function, the unchanged function, or NULL with an error. */
#ifndef BACKPLANE_COMPILER_LOWER_PASSES_H
#define BACKPLANE_COMPILER_LOWER_PASSES_H

#include <backplane/target.h>

#include "compiler/ir/ir.h"

/* Indices up to this depth, such as a sum of two variables, are as short as a name. */
#define BP_SHORT_INDEX_DEPTH 2

/* Simplifies conditions, masks, divisions and minima of indices by the ranges of loop variables;
 * replaces a loop with one iteration by its body. Sums in indices are assumed not to overflow. */
const BpIrNode *bp__pass_simplify(BpIrModule *module, const BpIrNode *function);
/* Replaces division by zero, shifts by the width or more, and conversion of floats beyond the range
 * of an integer type by operations that are defined on every machine; docs/ir.md defines the
 * results. */
const BpIrNode *bp__pass_guard(BpIrModule *module, const BpIrNode *function);
/* Replaces loads of vectors whose lanes are at constant distances from one another by loads of
 * neighbours and a shuffle. */
const BpIrNode *bp__pass_shuffle(BpIrModule *module, const BpIrNode *function);
/* Replaces masked loads of vectors whose lanes are not neighbours by loads without a mask. */
const BpIrNode *bp__pass_gather(BpIrModule *module, const BpIrNode *function);
/* Expands exp, log, tanh, erf, sigmoid of float32 and narrower types, and pow with a small constant
 * exponent, into arithmetic that can be vectorised; docs/ir.md states the errors. */
const BpIrNode *bp__pass_expand_intrinsics(BpIrModule *module, const BpIrNode *function);
/* Expands the intrinsics that bp__pass_expand_intrinsics expands; and sin, cos and any pow, into
 * float64 arithmetic. */
const BpIrNode *bp__pass_expand_by_doubles(BpIrModule *module, const BpIrNode *function);
/* Expands dot products of bytes into products of int32. */
const BpIrNode *bp__pass_expand_dots(BpIrModule *module, const BpIrNode *function);
/* Whether bp__pass_expand_by_doubles computes a node, of float32 or a narrower type, in float64. */
bool bp__expands_by_doubles(const BpIrNode *node);
/* Splits vectors into scalars; the result has no vectors. */
const BpIrNode *bp__pass_scalarize(BpIrModule *module, const BpIrNode *function);
/* Computes int64 arithmetic in int32 if the ranges of loop variables show that its values fit. */
const BpIrNode *bp__pass_narrow(BpIrModule *module, const BpIrNode *function);
/* Rejects 64-bit integers with an error of kind NotImplementedError that names the construct. */
const BpIrNode *bp__pass_refuse_int64(BpIrModule *module, const BpIrNode *function);
/* Names each index that several statements use by a LET around the uses. */
const BpIrNode *bp__pass_share_indices(BpIrModule *module, const BpIrNode *function);
/* Names each expression that a statement uses more than once by a LET, so that it is written and
 * computed only once. */
const BpIrNode *bp__pass_name_shared(BpIrModule *module, const BpIrNode *function);
/* Turns bound loops into parallel and serial loops, for a target without thread axes. Fails on a
 * barrier, which the error names. */
const BpIrNode *bp__pass_serialize_grids(BpIrModule *module, const BpIrNode *function);

/* Turns a function into a kernel for a device and states its launch. Fails if the function's work
 * cannot be one kernel. */
const BpIrNode *bp__pass_mark_kernels(BpIrModule *module, const BpIrNode *function);

/* An upper bound of the iterations of all loops that one thread executes, INT32_MAX for more: an
 * expression of the function's scalars, NULL with an error. A WHILE without a known end, and a
 * loop whose extent is data, count as one. */
const BpIrNode *bp__count_iterations(BpIrModule *module, const BpIrNode *function);
/* Fails if this number is a constant above the target's max_iterations, if that is set. */
int bp__check_iterations(BpIrModule *module, const BpIrNode *function, const BpTarget *target);

/* A new module (transfer full) with the functions of `module`, legalised for the target's kind; an
 * error names the function and the unsupported construct. */
BpIrModule *bp__legalize(const BpIrModule *module, const BpTarget *target);
/* The global function `compiler.legalize` (module, target) -> module. */
int bp__legalize_packed(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
