/* SPDX-License-Identifier: Apache-2.0 */
/* When memory is exhausted: whichever allocation fails, once or from then on, the compiler library
 * ends in an error of that kind and holds nothing back. The test brings its own allocator in front
 * of the C library's. */

#include <errno.h>

#include <backplane/target.h>

#include "tests/compiler/ir-util.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);
BP_API void *malloc(size_t size);
BP_API void *calloc(size_t count, size_t size);
BP_API void *realloc(void *memory, size_t size);
BP_API void free(void *memory);

/* The allocation that is to fail, counted from arming; -1: none. */
static __thread long fail_at = -1, count;
static __thread int keep_failing;
static __thread long held; /* blocks allocated less those freed, while armed */

static int fails(void) {
  long number = count++;
  if (fail_at < 0 || (keep_failing ? number < fail_at : number != fail_at))
    return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) {
  void *memory = fails() ? NULL : __libc_malloc(size);
  held += memory != NULL;
  return memory;
}

void *calloc(size_t number, size_t size) {
  void *memory = fails() ? NULL : __libc_calloc(number, size);
  held += memory != NULL;
  return memory;
}

void *realloc(void *memory, size_t size) {
  void *moved = fails() ? NULL : __libc_realloc(memory, size);
  held += !memory && moved;
  return moved;
}

void free(void *memory) {
  held -= memory != NULL;
  __libc_free(memory);
}

static const char text[] =
    "(module (function \"f\" (buffer A float32 global 64) (attr \"noalias\" 1)"
    " (for b:int64 0 4 bound \"blockIdx.x\" (allocate (buffer L float32 local 16) (seq"
    " (for i:int64 0 4 serial (let x:float32x4 (load A (ramp (add (mul b 16) (mul i 4)) 1 4))"
    "  (store L (ramp (mul i 4) 1 4) (mul x (call float32x4 intrinsic \"tanh\" x)))))"
    " (for i.1:int64 0 16 unrolled (store A (add (mul b 16) i.1) (load L i.1))))))))";

static BpFunction *legalize;
static BpTarget *target;
static float data[64];

/* Parses, verifies, prints, legalises and runs. 0, or -1 where something failed. */
static int work(void) {
  BpIrModule *module = bp_ir_parse(text, sizeof text - 1);
  char *printed = module && !bp_ir_verify(module) ? bp_ir_print(module) : NULL;
  BpValue args[] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}};
  BpValue legal = {0};
  args[0].v_ptr = module;
  args[1].v_ptr = target;
  int rc = printed ? bp_function_call(legalize, args, 2, &legal) : -1;
  Array array;
  BpValue arg = array_value(&array, data, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, 64);
  if (!rc)
    rc = bp_ir_interpret(legal.v_ptr, "f", &arg, 1);
  if (!rc)
    rc = bp_ir_interpret(module, "f", &arg, 1);
  bp_str_free(printed);
  bp_value_clear(&legal);
  bp_object_release(module);
  return rc;
}

/* One run with the allocation failing; 1 once the number is beyond the last one. */
static int run_failing(long number, int keeps) {
  long before = held;
  count = 0;
  keep_failing = keeps;
  fail_at = number;
  int rc = work();
  fail_at = -1;
  if (rc && strcmp(bp_error_kind(), BP_ERROR_MEMORY))
    g_error("allocation %ld: %s: %s", number, bp_error_kind(), bp_error_message());
  bp_error_clear();
  if (held != before)
    g_error("allocation %ld: %ld blocks are lost", number, held - before);
  return !rc;
}

static void test_every_allocation(gconstpointer keeps) {
  target = bp_target_parse("c");
  BpIrModule *first = bp_ir_module_create();
  if (!target || bp_registry_get("compiler.legalize", &legalize) || !legalize)
    g_error("%s", bp_error_message());
  g_assert_cmpint(work(), ==, 0);
  long number = 0;
  while (!run_failing(number, GPOINTER_TO_INT(keeps)))
    number++;
  g_test_message("%ld allocations", number);
  g_assert_cmpint(number, >, 50);
  bp_object_release(legalize);
  bp_object_release(first);
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/ir/memory/one-allocation-fails", GINT_TO_POINTER(0),
                       test_every_allocation);
  g_test_add_data_func("/ir/memory/all-from-one-on-fail", GINT_TO_POINTER(1),
                       test_every_allocation);
  return g_test_run();
}
