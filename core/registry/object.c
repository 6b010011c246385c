/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counts, shapes and function objects. */

#include "core/registry/argument.h"
#include "core/registry/object.h"

#include <backplane/error.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STRONG_ONE  1ull
#define WEAK_ONE    (1ull << 32)
#define STRONG_MASK (WEAK_ONE - 1)

void bp__object_init(BpObject *header, int32_t type_index, void (*deleter)(void *self, int flags)) {
  *header = (BpObject){
      .combined_count = WEAK_ONE + STRONG_ONE, .type_index = type_index, .deleter = deleter};
}

void *bp_object_retain(void *object) {
  if (object)
    __atomic_fetch_add(&((BpObject *)object)->combined_count, STRONG_ONE, __ATOMIC_RELAXED);
  return object;
}

void bp_object_release(void *object) {
  BpObject *header = object;
  if (!header)
    return;
  uint64_t before = __atomic_fetch_sub(&header->combined_count, STRONG_ONE, __ATOMIC_ACQ_REL);
  if (before == WEAK_ONE + STRONG_ONE) {
    /* No other code can reach the object any more, so the weak count need not be decreased to
     * zero. */
    header->deleter(object, BP_DELETER_STRONG | BP_DELETER_WEAK);
  } else if ((before & STRONG_MASK) == STRONG_ONE) {
    header->deleter(object, BP_DELETER_STRONG);
    before = __atomic_fetch_sub(&header->combined_count, WEAK_ONE, __ATOMIC_ACQ_REL);
    if (before == WEAK_ONE)
      header->deleter(object, BP_DELETER_WEAK);
  }
}

static void delete_plain(void *self, int flags) {
  if (flags & BP_DELETER_WEAK)
    free(self);
}

BpShape *bp_shape_create(const int64_t *extents, size_t size) {
  BpShape *shape = NULL;
  size_t bytes;
  if (size && !BP_NOT_NULL(extents))
    return NULL;
  if (!__builtin_mul_overflow(size, sizeof *extents, &bytes) &&
      !__builtin_add_overflow(bytes, sizeof *shape, &bytes))
    shape = malloc(bytes);
  if (!shape) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a shape of %zu extents", size);
    return NULL;
  }
  int64_t *copy = (int64_t *)(shape + 1);
  if (size)
    memcpy(copy, extents, size * sizeof *extents);
  bp__object_init(&shape->header, BP_TYPE_SHAPE, delete_plain);
  shape->data = copy;
  shape->size = size;
  return shape;
}

static void delete_array(void *self, int flags) {
  BpArray *array = self;
  if (flags & BP_DELETER_STRONG)
    for (int64_t i = 0; i < array->size; ++i)
      bp_value_clear(&array->data[i]);
  if (flags & BP_DELETER_WEAK)
    free(array);
}

static int keep_value(const BpValue *value, BpValue *kept) {
  int32_t type = value->type_index;
  if (type == BP_TYPE_TENSOR_VIEW || type == BP_TYPE_RAW_STR || type == BP_TYPE_BYTE_ARRAY ||
      type == BP_TYPE_RVALUE)
    return bp_error_raise(BP_ERROR_TYPE, "a list cannot keep a %s, which somebody else owns",
                          bp_type_name(type));
  if (type >= BP_TYPE_OBJECT)
    bp_object_retain(value->v_obj);
  *kept = *value;
  return 0;
}

BpArray *bp_array_create(const BpValue *values, size_t size) {
  if (size && !BP_NOT_NULL(values))
    return NULL;
  BpArray *array =
      size < SIZE_MAX / sizeof(BpValue) - 4 ? malloc(sizeof *array + size * sizeof(BpValue)) : NULL;
  if (!array) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a list of %zu values", size);
    return NULL;
  }
  *array = (BpArray){.data = (BpValue *)(array + 1), .capacity = (int64_t)size};
  bp__object_init(&array->header, BP_TYPE_ARRAY, delete_array);
  for (size_t i = 0; i < size; ++i, ++array->size)
    if (keep_value(&values[i], &array->data[i])) {
      bp_object_release(array);
      return NULL;
    }
  return array;
}

/* A closure and the object that it keeps alive. */
typedef struct OwnedClosure {
  BpClosure closure;
  void *owner;
} OwnedClosure;

static void delete_closure(void *self, int flags) {
  OwnedClosure *closure = self;
  if (flags & BP_DELETER_STRONG) {
    void *owner = closure->owner;
    if (closure->closure.destroy)
      closure->closure.destroy(closure->closure.context);
    bp_object_release(owner);
  }
  if (flags & BP_DELETER_WEAK)
    free(closure);
}

BpFunction *bp__function_create_owned(BpPackedCall call, void *context, void (*destroy)(void *),
                                      void *owner) {
  OwnedClosure *closure = call ? malloc(sizeof *closure) : NULL;
  if (!closure) {
    if (call)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for a function object");
    else
      bp_error_raise(BP_ERROR_VALUE, "a function object needs a function to call");
    if (destroy)
      destroy(context);
    return NULL;
  }
  *closure = (OwnedClosure){
      .closure = {.function = {.call = call}, .context = context, .destroy = destroy},
      .owner = bp_object_retain(owner)};
  bp__object_init(&closure->closure.function.header, BP_TYPE_FUNCTION, delete_closure);
  return &closure->closure.function;
}

BpFunction *bp_function_create(BpPackedCall call, void *context, void (*destroy)(void *)) {
  return bp__function_create_owned(call, context, destroy, NULL);
}

int bp_function_call(BpFunction *function, const BpValue *args, int32_t num_args, BpValue *result) {
  if (!BP_NOT_NULL(function) || !BP_NOT_NULL(result) || (num_args > 0 && !BP_NOT_NULL(args)))
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_NONE};
  return function->call(function, args, num_args, result);
}
