/* SPDX-License-Identifier: Apache-2.0 */
/* The artifact of bench-start: one function, which adds 1 to the first element of a tensor. */
#include <backplane/value.h>

__attribute__((visibility("default"))) int __tvm_ffi_first(void *self, const BpValue *args,
                                                           int32_t num_args, BpValue *result);
int __tvm_ffi_first(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 1 || args[0].type_index != BP_TYPE_TENSOR_VIEW)
    return -1;
  *(float *)args[0].v_view->data += 1;
  result->type_index = BP_TYPE_NONE;
  return 0;
}
