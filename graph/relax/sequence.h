/* SPDX-License-Identifier: Apache-2.0 */
/* Functions vm.builtin.* of the programs that graph/build/program.c writes: sequences, which are
 * tuples of tensors on the first device (vm.builtin.make_tuple makes one). A sequence does not
 * change; each function gives a new one that has the same tensors. TVM has no such functions. The
 * context begins errors. */
#ifndef BACKPLANE_GRAPH_RELAX_SEQUENCE_H
#define BACKPLANE_GRAPH_RELAX_SEQUENCE_H

#include "graph/relax/machine.h"

/* (sequence, tensor, position or None: the end, context) -> sequence */
int bp__relax_sequence_insert(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* (sequence, position or None: the last, context) -> sequence */
int bp__relax_sequence_erase(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result);
/* (sequence, position or None: that of the only tensor of an optional, context) -> tensor */
int bp__relax_sequence_at(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result);
/* (machine, sequence) -> int64 tensor of no dimensions */
int bp__relax_sequence_length(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* (machine, sequence, axis, whether it is a new one, context) -> tensor */
int bp__relax_sequence_concat(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);
/* (machine, tensor, the extent of all parts, a vector of those of each, or None: 1; axis, whether
 * the parts have the axis, context) -> sequence */
int bp__relax_sequence_split(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result);

#endif
