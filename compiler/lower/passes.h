/* SPDX-License-Identifier: Apache-2.0 */
/* Passes from IR to IR, on any function: what legalisation is made of. Each gives the new function,
 * the old one if nothing changed, or NULL with an error. */
#ifndef BACKPLANE_COMPILER_LOWER_PASSES_H
#define BACKPLANE_COMPILER_LOWER_PASSES_H

#include <backplane/target.h>

#include "compiler/ir/ir.h"

/* What the ranges of loop variables decide: conditions, masks, divisions and minima of indices;
 * loops of one iteration become their body. Sums in indices are taken not to overflow. */
const BpIrNode *bp__pass_simplify(BpIrModule *module, const BpIrNode *function);
/* Division by zero, shifts by the width and more, and floats beyond the range of an integer type as
 * docs/ir.md defines them, by operations that are defined on every machine. */
const BpIrNode *bp__pass_guard(BpIrModule *module, const BpIrNode *function);
/* exp, log, tanh, erf, sigmoid of float32 and narrower, and pow with a small constant exponent, as
 * arithmetic that vectorises; see docs/ir.md for their errors. */
const BpIrNode *bp__pass_expand_intrinsics(BpIrModule *module, const BpIrNode *function);
/* The same; and sin, cos and any pow by arithmetic of float64. */
const BpIrNode *bp__pass_expand_by_doubles(BpIrModule *module, const BpIrNode *function);
/* Whether that computes a node of float32 or narrower in float64. */
bool bp__expands_by_doubles(const BpIrNode *node);
/* Vectors lane by lane: what is left has none. */
const BpIrNode *bp__pass_scalarize(BpIrModule *module, const BpIrNode *function);
/* int64 arithmetic in int32 where the ranges of loop variables show that it fits. */
const BpIrNode *bp__pass_narrow(BpIrModule *module, const BpIrNode *function);
/* Refuses 64-bit integers, with an error of kind NotImplementedError that names what needs one. */
const BpIrNode *bp__pass_refuse_int64(BpIrModule *module, const BpIrNode *function);
/* Within a statement, each expression that is used more than once gets a name by a LET, so that
 * nobody writes or computes it twice. */
const BpIrNode *bp__pass_name_shared(BpIrModule *module, const BpIrNode *function);
/* Bound loops as parallel and serial ones, for a target without thread axes. A barrier is refused:
 * the error names it. */
const BpIrNode *bp__pass_serialize_grids(BpIrModule *module, const BpIrNode *function);

/* A function that is to run on a device as a kernel, with its launch stated. Work that cannot be
 * one kernel is refused. */
const BpIrNode *bp__pass_mark_kernels(BpIrModule *module, const BpIrNode *function);

/* Refuses a function whose loops have more iterations than the target's max_iterations, if it has
 * that. */
int bp__check_iterations(const BpIrNode *function, const BpTarget *target);

/* A new module (transfer full) whose functions are those of `module`, made fit for the target's
 * kind; an error names the function and the construct that it cannot have. */
BpIrModule *bp__legalize(const BpIrModule *module, const BpTarget *target);
/* The global function `compiler.legalize` (module, target) -> module. */
int bp__legalize_packed(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
