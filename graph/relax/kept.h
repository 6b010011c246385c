/* SPDX-License-Identifier: Apache-2.0 */
/* Functions vm.builtin.* of the programs that graph/build/program.c writes: tensors that a
 * workspace keeps from run to run. `entry` is the number of what is kept (graph/relax/workspace.h);
 * an extent is two arguments, BP_RELAX_MAKE_* and a number or a cell of the heap. */
#ifndef BACKPLANE_GRAPH_RELAX_KEPT_H
#define BACKPLANE_GRAPH_RELAX_KEPT_H

#include "graph/relax/machine.h"

/* (machine, entry, number of cells) -> shape heap */
int bp__relax_kept_heap(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* (machine, entry, device, heap, number of parts; of each part the number of values that take turns
 * in it; of each value its dtype, the number of its extents, and these). A part is as large as its
 * largest value. Memory that is large enough is kept. */
int bp__relax_plan_arena(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result);
/* (machine, entry, the arena's entry, part, dtype, heap, ndim, extents) -> tensor. It changes when
 * the instruction is run again. */
int bp__relax_arena_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result);
/* (machine, entry, device, dtype, heap, ndim, extents) -> tensor: that of the last run, unless
 * somebody still has it or the shape is another */
int bp__relax_kept_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result);
/* (machine, entry, tensor, dtype, heap, ndim, extents) -> a view of the tensor */
int bp__relax_kept_view(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* (machine, entry, items) -> tuple: that of the last run, unless somebody still has it */
int bp__relax_kept_tuple(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result);
/* (machine, output, axis, heap, cell of the number of rows, cell of the room, whether the cell is
 * filled for the first time, context): fills the cell with the rows that the output's memory has
 * room for, or checks that it is the same. (append.c) */
int bp__relax_find_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* (machine, entry, output, tensor, new rows, axis, dtype, heap, ndim, extents) -> a tensor that
 * begins with the rows of both: in the memory that the caller keeps for the output, which has those
 * of the first tensor already, or of the run's own. (append.c) */
int bp__relax_append(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                     BpValue *result);
/* (machine, entry, tensor, dtype, heap, ndim, extents) -> its first rows: a tensor with strides
 * where it has room for more. (append.c) */
int bp__relax_without_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result);

/* ---- What the files share ---------------------------------------------------------------- */

#define BP_RELAX_MAX_NDIM 64

/* The entry that an argument says, or NULL with an error. */
BpRelaxKept *bp__relax_get_entry(const BpValue *value);
/* The tensor that an entry has, or NULL. */
BpTensor *bp__relax_kept_get(const BpRelaxKept *kept);
/* Keeps a tensor (transfer full; NULL: -1 with the error that was raised) and makes it the result.
 */
int bp__relax_keep_tensor(BpRelaxKept *kept, BpTensor *tensor, const void *base, BpValue *result);
/* Copies `count` rows along an axis between two tensors of one device, type and shape, but for that
 * axis; on a device it is queued. (append.c) */
int bp__relax_copy_rows(const BpTensorView *from, int64_t from_first, const BpTensorView *to,
                        int64_t to_first, int64_t count, int64_t axis);
/* (heap, ndim, extents): the extents of a tensor. */
int bp__relax_get_extents(const BpValue *args, int32_t num_args, int64_t *extents, int32_t *ndim);

#endif
