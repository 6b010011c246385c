/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the functions that bytecode calls. Arguments come from registers, so the type of
 * each argument is checked. */
#include "graph/relax/arguments.h"

#include <inttypes.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/relax/form.h"

int bp__relax_check_count(int32_t num_args, int32_t least, int32_t most) {
  if (num_args >= least && num_args <= most)
    return 0;
  return bp_error_raise(BP_ERROR_TYPE, "expected %d to %d arguments, not %d", least, most,
                        num_args);
}

int bp__relax_get_int(const BpValue *value, int64_t *number) {
  if (value->type_index != BP_TYPE_INT && value->type_index != BP_TYPE_BOOL)
    return bp__relax_wrong_type(value, "an integer");
  *number = value->v_int64;
  return 0;
}

BpTensor *bp__relax_get_tensor(const BpValue *value) {
  if (value->type_index == BP_TYPE_TENSOR)
    return (BpTensor *)value->v_obj;
  bp__relax_wrong_type(value, "a tensor object");
  return NULL;
}

int bp__relax_get_dtype(const BpValue *value, BpDataType *dtype) {
  if (value->type_index != BP_TYPE_DTYPE)
    return bp__relax_wrong_type(value, "a data type");
  *dtype = value->v_dtype;
  return 0;
}

/* The text by which the compiler names the place of a check in the program, or "". */
const char *bp__relax_text(const BpValue *value) {
  BpByteArray text = {"", 0};
  if (value->type_index != BP_TYPE_STR && value->type_index != BP_TYPE_SMALL_STR &&
      value->type_index != BP_TYPE_RAW_STR)
    return "";
  return bp_value_view_str(value, &text) == 0 ? text.data : "";
}

int bp__relax_return_tensor(BpValue *result, BpTensor *tensor) {
  if (!tensor)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  return 0;
}

/* Cell `index` of a heap. */
int64_t *bp__relax_heap_cell(const BpValue *heap, int64_t index) {
  const BpTensorView *view = bp_value_view_tensor(heap);
  if (!view || view->ndim != 1 || !bp_view_is_compact(view) ||
      view->device.device_type != BP_DEVICE_CPU || view->dtype.code != BP_DTYPE_INT ||
      view->dtype.bits != 64 || view->dtype.lanes != 1) {
    bp__relax_wrong_type(heap, "a shape heap");
    return NULL;
  }
  if (index < 0 || index >= view->shape[0]) {
    bp_error_raise(BP_ERROR_INDEX, "cell %" PRId64 " of a shape heap of %" PRId64, index,
                   view->shape[0]);
    return NULL;
  }
  return (int64_t *)(void *)((char *)view->data + view->byte_offset) + index;
}

/* The ways to make an extent: TVM's MakeShapeCode. */
int bp__relax_make_extent(const BpValue *heap, const BpValue *how, int64_t *made) {
  int64_t code, number;
  if (bp__relax_get_int(&how[0], &code) < 0 || bp__relax_get_int(&how[1], &number) < 0)
    return -1;
  *made = number;
  if (code == BP_RELAX_MAKE_NUMBER)
    return 0;
  if (code != BP_RELAX_MAKE_STORED)
    return bp_error_raise(BP_ERROR_VALUE, "unknown way %" PRId64 " to make a shape", code);
  int64_t *cell = bp__relax_heap_cell(heap, number);
  if (!cell)
    return -1;
  *made = *cell;
  return 0;
}

/* The number of a device of the machine; -1 is the host. */
int bp__relax_get_device(const BpRelaxMachine *machine, const BpValue *value, int64_t *device) {
  if (bp__relax_get_int(value, device) < 0)
    return -1;
  if (*device == -1)
    *device = (int64_t)machine->num_devices - 1;
  if (*device < 0 || *device >= machine->num_devices)
    return bp_error_raise(BP_ERROR_INDEX, "memory on device %" PRId64 " of a model that runs on %u",
                          *device, machine->num_devices);
  return 0;
}

BpTensor *bp__relax_create_pooled(BpRelaxMachine *machine, int64_t device, const int64_t *extents,
                                  size_t count, BpDataType dtype) {
  const BpTensorView view = {
      .ndim = (int32_t)count, .dtype = dtype, .shape = (int64_t *)(uintptr_t)extents};
  int64_t bytes = bp_view_num_bytes(&view);
  BpObject *storage =
      bytes < 0 ? NULL
                : bp__relax_storage_create(machine->pools[device], (uint64_t)bytes, dtype, NULL);
  BpTensor *tensor =
      storage ? bp__relax_storage_tensor(storage, 0, extents, (int32_t)count, dtype) : NULL;
  bp_object_release(storage);
  return tensor;
}

BpTensor *bp__relax_int_tensor(BpRelaxMachine *machine, int64_t number) {
  const BpDataType int64 = {BP_DTYPE_INT, 64, 1};
  const BpTensorView from = {.data = &number, .device = {BP_DEVICE_CPU, 0}, .dtype = int64};
  BpTensor *tensor = bp__relax_create_pooled(machine, 0, NULL, 0, int64);
  if (!tensor || bp_tensor_copy(&from, &tensor->view, NULL) == 0)
    return tensor;
  bp_object_release(tensor);
  return NULL;
}

/* ---- Numbers in tensors ------------------------------------------------------------------ */

int bp__relax_read_element(const BpTensorView *view, int64_t index, int64_t *number) {
  const BpDataType dtype = view->dtype;
  size_t bytes = bp_dtype_bytes(dtype);
  uint64_t bits = 0;
  if ((dtype.code > BP_DTYPE_UINT && dtype.code != BP_DTYPE_BOOL) || dtype.lanes != 1 ||
      dtype.bits % 8 || !bytes || bytes > sizeof(bits))
    return bp_error_raise(BP_ERROR_TYPE, "expected a tensor of integers of 8 to 64 bits");
  memcpy(&bits, (const char *)view->data + view->byte_offset + (size_t)index * bytes, bytes);
  uint32_t unused = 64 - 8 * (uint32_t)bytes;
  *number = dtype.code == BP_DTYPE_INT ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
  return 0;
}

BpTensor *bp__relax_get_host_tensor(const BpValue *value) {
  BpTensor *tensor = bp__relax_get_tensor(value);
  if (!tensor)
    return NULL;
  if (!bp_view_is_compact(&tensor->view)) {
    bp_error_raise(BP_ERROR_VALUE, "expected a tensor without strides; copy it first");
    return NULL;
  }
  if (tensor->view.device.device_type == BP_DEVICE_CPU)
    return bp_object_retain(tensor);
  const BpTensorView *view = &tensor->view;
  BpTensor *copy =
      bp_tensor_create(view->shape, view->ndim, view->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!copy ||
      bp_tensor_copy_to_host(view, copy->view.data, (uint64_t)bp_view_num_bytes(view)) == 0)
    return copy;
  bp_object_release(copy);
  return NULL;
}

int bp__relax_read_number(const BpValue *value, int64_t *number) {
  const BpTensorView *view = bp_value_view_tensor(value);
  if (!view)
    return bp__relax_get_int(value, number);
  if (bp_view_num_elements(view) != 1)
    return bp_error_raise(BP_ERROR_VALUE, "expected one element, not %" PRId64,
                          bp_view_num_elements(view));
  if (view->device.device_type == BP_DEVICE_CPU)
    return bp__relax_read_element(view, 0, number);
  BpTensor *tensor = bp__relax_get_host_tensor(value);
  int status = tensor ? bp__relax_read_element(&tensor->view, 0, number) : -1;
  bp_object_release(tensor);
  return status;
}
