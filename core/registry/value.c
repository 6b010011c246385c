/* SPDX-License-Identifier: Apache-2.0 */
/* Values: strings, byte strings, names of types. */

#include "core/registry/argument.h"
#include "core/registry/object.h"

#include <backplane/error.h>
#include <backplane/tensor.h>
#include <stdlib.h>
#include <string.h>

void bp_value_clear(BpValue *value) {
  if (!value)
    return;
  if (value->type_index >= BP_TYPE_OBJECT)
    bp_object_release(value->v_obj);
  *value = (BpValue){.type_index = BP_TYPE_NONE};
}

static void delete_str(void *self, int flags) {
  if (flags & BP_DELETER_WEAK)
    free(self);
}

/* A string object: its characters follow it, with a NUL that `size` does not include. */
static BpStr *str_create(int32_t type_index, const char *data, size_t size) {
  BpStr *str = size < SIZE_MAX - sizeof *str ? malloc(sizeof *str + size + 1) : NULL;
  if (!str) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a string of %zu bytes", size);
    return NULL;
  }
  char *copy = (char *)(str + 1);
  memcpy(copy, data, size);
  copy[size] = '\0';
  bp__object_init(&str->header, type_index, delete_str);
  str->data = copy;
  str->size = size;
  return str;
}

static int make_string(BpValue *value, int32_t small_type, int32_t object_type, const char *data,
                       size_t size) {
  BpValue made = {.type_index = small_type};
  if (size <= BP_SMALL_STR_MAX) {
    made.small_len = (uint32_t)size;
    if (size)
      memcpy(made.v_bytes, data, size);
  } else {
    BpStr *str = str_create(object_type, data, size);
    if (!str)
      return -1;
    made.type_index = object_type;
    made.v_obj = &str->header;
  }
  *value = made;
  return 0;
}

int bp_value_make_str(BpValue *value, const char *data, size_t size) {
  if (!BP_NOT_NULL(value) || (size && !BP_NOT_NULL(data)))
    return -1;
  return make_string(value, BP_TYPE_SMALL_STR, BP_TYPE_STR, data, size);
}

int bp_value_make_bytes(BpValue *value, const char *data, size_t size) {
  if (!BP_NOT_NULL(value) || (size && !BP_NOT_NULL(data)))
    return -1;
  return make_string(value, BP_TYPE_SMALL_BYTES, BP_TYPE_BYTES, data, size);
}

int bp_value_view_str(const BpValue *value, BpByteArray *view) {
  if (!BP_NOT_NULL(value) || !BP_NOT_NULL(view))
    return -1;
  switch (value->type_index) {
  case BP_TYPE_RAW_STR:
    *view = (BpByteArray){value->v_cstr, strlen(value->v_cstr)};
    return 0;
  case BP_TYPE_BYTE_ARRAY:
    *view = *(const BpByteArray *)value->v_ptr;
    return 0;
  case BP_TYPE_SMALL_STR:
  case BP_TYPE_SMALL_BYTES:
    *view = (BpByteArray){value->v_bytes, value->small_len};
    return 0;
  case BP_TYPE_STR:
  case BP_TYPE_BYTES:
    *view = (BpByteArray){((BpStr *)value->v_obj)->data, ((BpStr *)value->v_obj)->size};
    return 0;
  default:
    return bp_error_raise(BP_ERROR_TYPE, "expected a string or bytes, not %s",
                          bp_type_name(value->type_index));
  }
}

const BpTensorView *bp_value_view_tensor(const BpValue *value) {
  if (!value)
    return NULL;
  if (value->type_index == BP_TYPE_TENSOR)
    return &((const BpTensor *)value->v_obj)->view;
  return value->type_index == BP_TYPE_TENSOR_VIEW ? value->v_view : NULL;
}

const char *bp_type_name(int32_t type_index) {
  static const struct {
    int32_t type_index;
    char name[20];
  } names[] = {
      {BP_TYPE_NONE, "None"},
      {BP_TYPE_INT, "int"},
      {BP_TYPE_BOOL, "bool"},
      {BP_TYPE_FLOAT, "float"},
      {BP_TYPE_POINTER, "pointer"},
      {BP_TYPE_DTYPE, "dtype"},
      {BP_TYPE_DEVICE, "Device"},
      {BP_TYPE_TENSOR_VIEW, "tensor view"},
      {BP_TYPE_RAW_STR, "C string"},
      {BP_TYPE_BYTE_ARRAY, "byte array"},
      {BP_TYPE_RVALUE, "rvalue reference"},
      {BP_TYPE_SMALL_STR, "str"},
      {BP_TYPE_SMALL_BYTES, "bytes"},
      {BP_TYPE_OBJECT, "Object"},
      {BP_TYPE_STR, "str"},
      {BP_TYPE_BYTES, "bytes"},
      {BP_TYPE_ERROR, "Error"},
      {BP_TYPE_FUNCTION, "Function"},
      {BP_TYPE_SHAPE, "Shape"},
      {BP_TYPE_TENSOR, "Tensor"},
      {BP_TYPE_ARRAY, "Array"},
      {BP_TYPE_MODULE, "Module"},
      {BP_TYPE_TARGET, "Target"},
      {BP_TYPE_IR_MODULE, "IRModule"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (names[i].type_index == type_index)
      return names[i].name;
  return type_index >= BP_TYPE_OBJECT ? "an object of another library" : "an unknown type";
}
