/* SPDX-License-Identifier: Apache-2.0 */
/* Functions vm.builtin.* of the programs that graph/build/program.c writes: sequences, which are
 * tuples of tensors on the first device (vm.builtin.make_tuple makes one). A sequence is immutable;
 * each function returns a new sequence of the same tensors. TVM has no functions on sequences. The
 * argument `context` is the beginning of error messages. */
#ifndef BACKPLANE_GRAPH_RELAX_SEQUENCE_H
#define BACKPLANE_GRAPH_RELAX_SEQUENCE_H

#include "graph/relax/machine.h"

/* Arguments and result: (sequence, tensor, position or None: the end, context) -> sequence */
int bp__relax_sequence_insert(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* Arguments and result: (sequence, position or None: the last, context) -> sequence */
int bp__relax_sequence_erase(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result);
/* Arguments and result: (sequence, position or None: the only tensor of an optional, context) ->
 * tensor */
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

#endif
