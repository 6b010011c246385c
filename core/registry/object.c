/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counts, shapes and function objects. */

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
    /* Nobody else can reach the object any more: the weak count need not be brought to zero. */
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

/* A closure and what it keeps alive. */
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
  *result = (BpValue){.type_index = BP_TYPE_NONE};
  return function->call(function, args, num_args, result);
}
