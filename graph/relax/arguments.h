/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of the functions that bytecode calls. */
#ifndef BACKPLANE_GRAPH_RELAX_ARGUMENTS_H
#define BACKPLANE_GRAPH_RELAX_ARGUMENTS_H

#include <backplane/error.h>

#include "graph/relax/machine.h"

/* Raises an error for an argument that is not `wanted`, and returns -1. */
static inline int bp__relax_wrong_type(const BpValue *value, const char *wanted) {
  bp_error_raise(BP_ERROR_TYPE, "expected %s, not %s", wanted, bp_type_name(value->type_index));
  return -1;
}
/* Check an argument, which may come from any code of a program: 0, or -1 with an error. */
int bp__relax_check_count(int32_t num_args, int32_t least, int32_t most);
int bp__relax_get_int(const BpValue *value, int64_t *number);
int bp__relax_get_dtype(const BpValue *value, BpDataType *dtype);
/* The index of one of the machine's devices; -1 is the host. */
int bp__relax_get_device(const BpRelaxMachine *machine, const BpValue *value, int64_t *device);
/* Borrowed. */
BpTensor *bp__relax_get_tensor(const BpValue *value);
/* The extent that two arguments give: BP_RELAX_MAKE_* and a number, or a cell of the heap. */
int bp__relax_make_extent(const BpValue *heap, const BpValue *how, int64_t *made);
/* Cell `index` of a heap (borrowed). */
int64_t *bp__relax_heap_cell(const BpValue *heap, int64_t index);
/* The text in a value, or "". */
const char *bp__relax_text(const BpValue *value);
/* Makes a tensor the result, which takes the reference; -1 for a NULL tensor. */
int bp__relax_return_tensor(BpValue *result, BpTensor *tensor);
/* Allocates a tensor in the pool of one of the machine's devices (transfer full). */
BpTensor *bp__relax_create_pooled(BpRelaxMachine *machine, int64_t device, const int64_t *extents,
                                  size_t count, BpDataType dtype);
/* Makes an int64 tensor without dimensions in the pool of the first device (transfer full). */
BpTensor *bp__relax_int_tensor(BpRelaxMachine *machine, int64_t number);

/* Reads element `index` of integers or bools in host memory. */
int bp__relax_read_element(const BpTensorView *view, int64_t index, int64_t *number);
/* The tensor in a value, compact and in host memory: itself or a copy (transfer full). */
BpTensor *bp__relax_get_host_tensor(const BpValue *value);
/* Reads a number, or the only element of a tensor of integers or bools. */
int bp__relax_read_number(const BpValue *value, int64_t *number);

#endif
