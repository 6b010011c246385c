/* SPDX-License-Identifier: Apache-2.0 */
/* Functions vm.builtin.* of the programs that graph/build/program.c writes: tensors that a
 * workspace keeps from run to run. `entry` is the number of the kept object
 * (graph/relax/workspace.h); an extent is two arguments, BP_RELAX_MAKE_* and a number or a cell of
 * the heap. */
#ifndef BACKPLANE_GRAPH_RELAX_KEPT_H
#define BACKPLANE_GRAPH_RELAX_KEPT_H

#include "graph/relax/machine.h"

/* Arguments and result: (machine, entry, number of cells) -> shape heap */
int bp__relax_kept_heap(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* Plans an arena. Arguments: (machine, entry, device, heap, number of parts; for each part the
 * number of values that share it; for each value its dtype, the number of its extents, and the
 * extents). A part is as large as its largest value. Memory that is large enough is kept. */
int bp__relax_plan_arena(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result);
/* Arguments and result: (machine, entry, the arena's entry, part, dtype, heap, ndim, extents) ->
 * tensor, which changes when the instruction runs again */
int bp__relax_arena_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result);
/* Arguments and result: (machine, entry, device, dtype, heap, ndim, extents) -> the tensor of the
 * last run, unless it is still referenced or has another shape */
int bp__relax_kept_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result);
/* Arguments and result: (machine, entry, tensor, dtype, heap, ndim, extents) -> a view of the
 * tensor */
int bp__relax_kept_view(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* Arguments and result: (machine, entry, items) -> the tuple of the last run, unless it is still
 * referenced */
int bp__relax_kept_tuple(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result);
/* Finds the room of an output's memory. Arguments: (machine, output, axis, heap, cell of the number
 * of rows, cell of the room, whether the cell is filled for the first time, context). Stores in the
 * cell the number of rows that the memory can hold, or checks that the cell has it (append.c). */
int bp__relax_find_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result);
/* Arguments and result: (machine, entry, output, tensor, new rows, axis, dtype, heap, ndim,
 * extents) -> a tensor that begins with the rows of both (append.c). The result is in the memory
 * that the caller keeps for the output, which already has the rows of the first tensor, or in the
 * run's own memory. */
int bp__relax_append(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                     BpValue *result);
/* Arguments and result: (machine, entry, tensor, dtype, heap, ndim, extents) -> the tensor's first
 * rows, with strides if its memory has more rows (append.c) */
int bp__relax_without_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result);

/* ---- Declarations that the files share --------------------------------------------------- */

#define BP_RELAX_MAX_NDIM 64

/* The entry that an argument gives, or NULL with an error. */
BpRelaxKept *bp__relax_get_entry(const BpValue *value);
/* The tensor of an entry, or NULL. */
BpTensor *bp__relax_kept_get(const BpRelaxKept *kept);
/* Keeps a tensor (transfer full) in an entry and makes it the result; a NULL tensor returns -1 with
 * the error raised before. */
int bp__relax_keep_tensor(BpRelaxKept *kept, BpTensor *tensor, const void *base, BpValue *result);
/* Copies `count` rows along an axis between two tensors on one device whose type and shape, except
 * along the axis, are equal; on a device the copy is queued (append.c). */
int bp__relax_copy_rows(const BpTensorView *from, int64_t from_first, const BpTensorView *to,
                        int64_t to_first, int64_t count, int64_t axis);
/* Reads the extents of a tensor from the arguments (heap, ndim, extents). */
int bp__relax_get_extents(const BpValue *args, int32_t num_args, int64_t *extents, int32_t *ndim);

#endif
