/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that grow from run to run (graph/build/append.c), in memory that the caller keeps or in
 * the run's own memory. Rows extend along one dimension; the rows at one index of the dimensions
 * before it are one copy. */
#include <inttypes.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/relax/arguments.h"
#include "graph/relax/kept.h"
#include "graph/relax/workspace.h"

int bp__relax_find_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  int64_t output, axis, rows_cell, room_cell, is_first;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 8, 8) < 0 || bp__relax_get_int(&args[1], &output) < 0 ||
      bp__relax_get_int(&args[2], &axis) < 0 || bp__relax_get_int(&args[4], &rows_cell) < 0 ||
      bp__relax_get_int(&args[5], &room_cell) < 0 || bp__relax_get_int(&args[6], &is_first) < 0)
    return -1;
  const int64_t *rows = bp__relax_heap_cell(&args[3], rows_cell);
  int64_t *cell = bp__relax_heap_cell(&args[3], room_cell);
  if (!rows || !cell)
    return -1;
  const BpTensor *memory = bp__relax_workspace_memory(bp__relax_workspace_current(), output);
  if (memory && (axis < 0 || axis >= memory->view.ndim))
    return bp_error_raise(BP_ERROR_INDEX, "%s axis %" PRId64 " of a tensor of %d dimensions",
                          bp__relax_text(&args[7]), axis, memory->view.ndim);
  int64_t room = memory ? memory->view.shape[axis] : *rows;
  if (*rows > room)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s it has %" PRId64 " rows, and its cache has room for %" PRId64
                          "; bind a larger one",
                          bp__relax_text(&args[7]), *rows, room);
  if (!is_first && *cell != room)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s its memory has room for %" PRId64 " rows, and that of another output "
                          "with as many rows for %" PRId64
                          "; bind caches of one capacity to all of "
                          "them, or to none",
                          bp__relax_text(&args[7]), room, *cell);
  *cell = room;
  return 0;
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* The rows of tensors that have one shape except along `axis`. */
typedef struct Rows {
  uint64_t outer; /* number of indices of the dimensions before the axis */
  uint64_t size;  /* bytes of a row */
} Rows;

static Rows describe_rows(const BpTensorView *view, int64_t axis) {
  Rows rows = {1, (uint64_t)view->dtype.bits * view->dtype.lanes / 8};
  for (int32_t i = 0; i < view->ndim; i++) {
    if (i < axis)
      rows.outer *= (uint64_t)view->shape[i];
    else if (i > axis)
      rows.size *= (uint64_t)view->shape[i];
  }
  return rows;
}

int bp__relax_copy_rows(const BpTensorView *from, int64_t from_first, const BpTensorView *to,
                        int64_t to_first, int64_t count, int64_t axis) {
  const Rows rows = describe_rows(from, axis);
  uint64_t bytes = (uint64_t)count * rows.size;
  uint64_t from_stride = (uint64_t)from->shape[axis] * rows.size;
  uint64_t to_stride = (uint64_t)to->shape[axis] * rows.size;
  bool is_host = from->device.device_type == BP_DEVICE_CPU;
  for (uint64_t i = 0; i < rows.outer && bytes > 0; i++) {
    uint64_t source = from->byte_offset + i * from_stride + (uint64_t)from_first * rows.size;
    uint64_t target = to->byte_offset + i * to_stride + (uint64_t)to_first * rows.size;
    const BpCopy copy = {sizeof(BpCopy), from->data, source, from->device, to->data, target,
                         to->device,     bytes,      0};
    if (is_host)
      memcpy((char *)to->data + target, (const char *)from->data + source, bytes);
    else if (bp_device_copy(&copy, NULL) < 0)
      return -1;
  }
  return 0;
}

/* Copies all rows of `from` to the rows of `to` from `first` on. */
static int copy_rows(const BpTensorView *from, const BpTensorView *to, int64_t axis,
                     int64_t first) {
  return bp__relax_copy_rows(from, 0, to, first, from->shape[axis], axis);
}

/* Whether a tensor has the type and shape of another one, except the extent along the axis. */
static bool fits(const BpTensorView *view, const BpTensorView *like, int64_t axis) {
  if (view->ndim != like->ndim || memcmp(&view->dtype, &like->dtype, sizeof(like->dtype)) != 0 ||
      memcmp(&view->device, &like->device, sizeof(like->device)) != 0)
    return false;
  for (int32_t i = 0; i < like->ndim; i++)
    if (i != axis && view->shape[i] != like->shape[i])
      return false;
  return true;
}

/* ---- Appending --------------------------------------------------------------------------- */

/* Sets *result to the tensor of an entry, if it can be used again, or to a new tensor. */
static BpTensor *take_own(BpRelaxMachine *machine, BpRelaxKept *kept, const BpTensorView *wanted,
                          BpValue *result) {
  BpTensor *tensor = bp__relax_kept_get(kept);
  if (tensor && bp__relax_kept_is_unshared(kept) && fits(&tensor->view, wanted, -1)) {
    bp__relax_return_tensor(result, bp_object_retain(tensor));
    return tensor;
  }
  bp__relax_kept_clear(kept);
  tensor = bp__relax_create_pooled(machine, 0, wanted->shape, (size_t)wanted->ndim, wanted->dtype);
  return bp__relax_keep_tensor(kept, tensor, NULL, result) < 0 ? NULL : tensor;
}

static int check_rows(const BpTensorView *past, const BpTensorView *new_rows,
                      const BpTensorView *wanted, int64_t axis) {
  if (axis < 0 || axis >= wanted->ndim || wanted->dtype.bits % 8 || !fits(past, wanted, axis) ||
      !fits(new_rows, wanted, axis) || !bp_view_is_compact(new_rows) ||
      past->shape[axis] > wanted->shape[axis] ||
      new_rows->shape[axis] != wanted->shape[axis] - past->shape[axis])
    return bp_error_raise(BP_ERROR_VALUE, "rows that do not fit are appended to a tensor");
  return 0;
}

int bp__relax_append(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                     BpValue *result) {
  int64_t extents[BP_RELAX_MAX_NDIM], output, axis;
  BpTensorView wanted = {.shape = extents, .device = machine->devices[0]};
  if (bp__relax_check_count(num_args, 9, INT32_MAX) < 0 ||
      bp__relax_get_int(&args[2], &output) < 0 || bp__relax_get_int(&args[5], &axis) < 0 ||
      bp__relax_get_dtype(&args[6], &wanted.dtype) < 0 ||
      bp__relax_get_extents(&args[7], num_args - 7, extents, &wanted.ndim) < 0)
    return -1;
  BpRelaxKept *kept = bp__relax_get_entry(&args[1]);
  const BpTensorView *past = bp_value_view_tensor(&args[3]);
  const BpTensorView *new_rows = bp_value_view_tensor(&args[4]);
  if (!kept || !past || !new_rows || check_rows(past, new_rows, &wanted, axis) < 0)
    return kept && past && new_rows ? -1
                                    : bp_error_raise(BP_ERROR_TYPE, "append takes two tensors");
  BpTensor *memory = bp__relax_workspace_memory(bp__relax_workspace_current(), output);
  if (memory) {
    if (!fits(&memory->view, &wanted, axis) || memory->view.shape[axis] < wanted.shape[axis] ||
        past->data != memory->view.data || past->byte_offset != memory->view.byte_offset)
      return bp_error_raise(BP_ERROR_VALUE,
                            "the cache of output %" PRId64
                            " does not have the shape of the output; bind it again",
                            output);
    return copy_rows(new_rows, &memory->view, axis, past->shape[axis]) < 0
               ? -1
               : bp__relax_return_tensor(result, bp_object_retain(memory));
  }
  if (!bp_view_is_compact(past))
    return bp_error_raise(BP_ERROR_VALUE, "rows are appended to a tensor with strides");
  const BpTensor *own = take_own(machine, kept, &wanted, result);
  if (own && copy_rows(past, &own->view, axis, 0) == 0 &&
      copy_rows(new_rows, &own->view, axis, past->shape[axis]) == 0)
    return 0;
  bp_value_clear(result);
  return -1;
}

int bp__relax_without_room(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  int64_t extents[BP_RELAX_MAX_NDIM], strides[BP_RELAX_MAX_NDIM];
  uint64_t stride = 1;
  int32_t ndim;
  (void)machine;
  if (bp__relax_check_count(num_args, 6, INT32_MAX) < 0 ||
      bp__relax_get_extents(&args[4], num_args - 4, extents, &ndim) < 0)
    return -1;
  BpRelaxKept *kept = bp__relax_get_entry(&args[1]);
  BpTensor *whole = kept ? bp__relax_get_tensor(&args[2]) : NULL;
  if (!whole)
    return -1;
  BpTensorView view = whole->view;
  if (view.ndim != ndim || !bp_view_is_compact(&view))
    return bp_error_raise(BP_ERROR_VALUE, "the first rows of a tensor of other dimensions");
  bool is_whole = true;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (extents[i] < 0 || extents[i] > view.shape[i])
      return bp_error_raise(BP_ERROR_INDEX, "the first %" PRId64 " rows of %" PRId64, extents[i],
                            view.shape[i]);
    is_whole &= extents[i] == view.shape[i];
    strides[i] = (int64_t)stride;
    stride *= view.shape[i] > 0 ? (uint64_t)view.shape[i] : 1;
  }
  if (is_whole)
    return bp__relax_return_tensor(result, bp_object_retain(whole));
  BpTensor *rows = bp__relax_kept_get(kept);
  if (rows && kept->base == whole && bp__relax_kept_is_unshared(kept) &&
      rows->view.data == view.data && rows->view.byte_offset == view.byte_offset &&
      !memcmp(rows->view.strides, strides, (size_t)ndim * sizeof(*strides))) {
    memcpy(rows->view.shape, extents, (size_t)ndim * sizeof(*extents));
    return bp__relax_return_tensor(result, bp_object_retain(rows));
  }
  view.shape = extents;
  view.strides = strides;
  rows = bp_tensor_wrap(&view, bp_object_release, whole);
  if (rows)
    bp_object_retain(whole);
  return bp__relax_keep_tensor(kept, rows, whole, result);
}
