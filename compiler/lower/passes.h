/* SPDX-License-Identifier: Apache-2.0 */
/* Passes from IR to IR, for any function: the steps of legalisation. Each returns the new function,
 * the old one if nothing changed, or NULL with an error. */
#ifndef BACKPLANE_COMPILER_LOWER_PASSES_H
#define BACKPLANE_COMPILER_LOWER_PASSES_H

#include <backplane/target.h>

#include "compiler/ir/ir.h"

/* Simplifies conditions, masks, divisions and minima of indices by the ranges of loop variables; a
 * loop with one iteration becomes its body. Sums in indices are assumed not to overflow. */
const BpIrNode *bp__pass_simplify(BpIrModule *module, const BpIrNode *function);
/* Replaces division by zero, shifts by the width or more, and floats beyond the range of an integer
 * type, as docs/ir.md defines them, by operations that are defined on every machine. */
const BpIrNode *bp__pass_guard(BpIrModule *module, const BpIrNode *function);
/* Expands exp, log, tanh, erf, sigmoid of float32 and narrower types, and pow with a small constant
 * exponent, into arithmetic that can be vectorised; docs/ir.md states the errors. */
const BpIrNode *bp__pass_expand_intrinsics(BpIrModule *module, const BpIrNode *function);
/* The same; and sin, cos and any pow, into float64 arithmetic. */
const BpIrNode *bp__pass_expand_by_doubles(BpIrModule *module, const BpIrNode *function);
/* Whether that computes a node of float32 or narrower in float64. */
bool bp__expands_by_doubles(const BpIrNode *node);
/* Splits vectors into scalars; the result has no vectors. */
const BpIrNode *bp__pass_scalarize(BpIrModule *module, const BpIrNode *function);
/* Computes int64 arithmetic in int32 if the ranges of loop variables show that it fits. */
const BpIrNode *bp__pass_narrow(BpIrModule *module, const BpIrNode *function);
/* Refuses 64-bit integers, with an error of kind NotImplementedError that names the construct. */
const BpIrNode *bp__pass_refuse_int64(BpIrModule *module, const BpIrNode *function);
/* Names each expression that a statement uses more than once, by a LET, so that it is written and
 * computed only once. */
const BpIrNode *bp__pass_name_shared(BpIrModule *module, const BpIrNode *function);
/* Turns bound loops into parallel and serial ones, for a target without thread axes. Refuses a
 * barrier, by name. */
const BpIrNode *bp__pass_serialize_grids(BpIrModule *module, const BpIrNode *function);

/* Turns a function into a kernel for a device and states its launch. Refuses work that cannot be
 * one kernel. */
const BpIrNode *bp__pass_mark_kernels(BpIrModule *module, const BpIrNode *function);

/* Refuses a function whose loops have more iterations than the target's max_iterations, if it is
 * set. */
int bp__check_iterations(const BpIrNode *function, const BpTarget *target);

/* A new module (transfer full) with the functions of `module`, legalised for the target's kind; an
 * error names the function and the unsupported construct. */
BpIrModule *bp__legalize(const BpIrModule *module, const BpTarget *target);
/* The global function `compiler.legalize` (module, target) -> module. */
int bp__legalize_packed(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
