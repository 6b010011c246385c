/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parameters: constants as tensors, equal ones once. */
#include <string.h>

#include <backplane/object.h>
#include <backplane/tensor.h>

#include "graph/build/build.h"

static int is_equal(const BpTensor *tensor, const BpGraphValue *constant) {
  return tensor->view.ndim == constant->ndim &&
         bp__dtype_equal(tensor->view.dtype, constant->dtype) &&
         (constant->ndim == 0 || !memcmp(tensor->view.shape, constant->shape,
                                         (size_t)constant->ndim * sizeof(constant->shape[0]))) &&
         !memcmp(tensor->view.data, constant->data, (size_t)bp__value_num_bytes(constant));
}

int64_t bp__params_add(BpParamTable *table, const BpGraphValue *constant) {
  int64_t bytes = bp__value_num_bytes(constant);
  BpTensor *tensor;
  for (size_t i = 0; i < table->tensors.size; i++)
    if (is_equal(table->tensors.items[i], constant))
      return (int64_t)i;
  tensor = bp_tensor_create(constant->shape, constant->ndim, constant->dtype,
                            (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    return -1;
  if (bytes > 0)
    memcpy((char *)tensor->view.data + tensor->view.byte_offset, constant->data, (size_t)bytes);
  if (bp__list_push(&table->tensors, tensor)) {
    bp_object_release(tensor);
    return -1;
  }
  return (int64_t)table->tensors.size - 1;
}

void bp__params_clear(BpParamTable *table) {
  for (size_t i = 0; i < table->tensors.size; i++)
    bp_object_release(table->tensors.items[i]);
  bp__list_free(&table->tensors);
}
