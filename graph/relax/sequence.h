/* SPDX-License-Identifier: Apache-2.0 */
/* Functions vm.builtin.* of the programs that graph/build/program.c writes: sequences, which are
 * tuples of tensors on the first device (vm.builtin.make_tuple makes one). An optional is a tuple
 * of at most one tensor or sequence. A sequence is immutable; each function returns a new sequence
 * of the same tensors. TVM has no functions on sequences. The argument `context` is the beginning
 * of error messages. */
#ifndef BACKPLANE_GRAPH_RELAX_SEQUENCE_H
#define BACKPLANE_GRAPH_RELAX_SEQUENCE_H

#include "graph/relax/machine.h"

/* Arguments and result: (sequence, tensor, position or None: the end, context) -> sequence */
int bp__relax_sequence_insert(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* Arguments and result: (sequence, position or None: the last, context) -> sequence */
int bp__relax_sequence_erase(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result);
/* Arguments and result: (sequence, position or None: the value of an optional, context) -> tensor,
 * or the sequence in an optional */
int bp__relax_sequence_at(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result);
/* Arguments and result: (machine, sequence) -> int64 tensor without dimensions */
int bp__relax_sequence_length(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* Arguments and result: (machine, sequence, axis, whether the axis is new, context) -> tensor */
int bp__relax_sequence_concat(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* Arguments and result: (machine, tensor, the extent of all parts, a vector of the parts' extents,
 * or None: 1; axis, whether the parts have the axis, context) -> sequence */
int bp__relax_sequence_split(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result);

/* Raises its argument, a text, as an error. */
int bp__relax_fail(BpRelaxMachine *machine, const BpValue *args, int32_t num_args, BpValue *result);

/* The type of a list is the arguments (kind, BP_MODEL_*; dtype of its tensors; number of their
 * extents, -1: any; extents, -1: any). */

/* Checks an input of the model. Arguments: (list, type, context) */
int bp__relax_check_list(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result);
/* Makes an output of the model, whose tensors nothing else reads or writes. Arguments and result:
 * (machine, list, type) -> list of copies */
int bp__relax_copy_list(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);

#endif
