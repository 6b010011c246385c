/* SPDX-License-Identifier: Apache-2.0 */
/* Exhausted memory: whichever allocation fails, once or from then on, the compiler library raises
 * MemoryError and leaks no memory. */

#include <backplane/compiler/schedules.h>
#include <backplane/target.h>

#include "tests/compiler/ir-util.h"
#include "tests/compiler/te-run.h"
#include "tests/failing_memory.h"

static const char text[] =
    "(module (function \"f\" (buffer A float32 global 64) (attr \"noalias\" 1)"
    " (for b:int64 0 4 bound \"blockIdx.x\" (allocate (buffer L float32 local 16) (seq"
    " (for i:int64 0 4 serial (let x:float32x4 (load A (ramp (add (mul b 16) (mul i 4)) 1 4))"
    "  (store L (ramp (mul i 4) 1 4) (mul x (call float32x4 intrinsic \"tanh\" x)))))"
    " (for i.1:int64 0 16 unrolled (store A (add (mul b 16) i.1) (load L i.1))))))))";

static BpFunction *legalize;
static BpTarget *target;
static float data[64];

/* Parses, verifies, prints, legalises and runs a text. 0, or -1 if a step failed. */
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

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpTeTensor *const *read = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", 16);
  const BpIrNode *a = k ? bp_te_read(te, read[0], (const BpIrNode *[]){axes[0], k}) : NULL;
  const BpIrNode *b = k ? bp_te_read(te, read[1], (const BpIrNode *[]){k, axes[1]}) : NULL;
  return bp_te_reduce(te, BP_TE_SUM, bp_ir_binary(bp_te_ir(te), BP_IR_MUL, a, b), &k, 1);
}

/* Schedules and lowers a product whose tiles the target computes in blocks of threads. */
static int schedule_product(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3] = {NULL};
  if (te)
    args[0] = bp_te_placeholder(te, "a", te_f32, (const int64_t[]){64, 16}, 2);
  if (args[0])
    args[1] = bp_te_placeholder(te, "b", te_f32, (const int64_t[]){16, 64}, 2);
  if (args[1])
    args[2] = bp_te_compute(te, "c", (const int64_t[]){64, 64}, 2, product_body, args);
  BpIrModule *module = args[2] ? bp_ir_module_create() : NULL;
  int rc = module && bp_schedule_auto(te, &args[2], 1, target) == 0
               ? bp_te_lower(te, "f", args, 3, NULL, module)
               : -1;
  bp_object_release(module);
  bp_te_free(te);
  return rc;
}

static void test_every_allocation_of_a_schedule(void) {
  target = bp_target_parse("cuda");
  if (!target)
    g_error("%s", bp_error_message());
  g_assert_cmpint(fail_every_allocation(schedule_product, 0), >, 50);
  bp_object_release(target);
}

static void test_every_allocation(gconstpointer keeps) {
  target = bp_target_parse("c");
  BpIrModule *first = bp_ir_module_create();
  if (!target || bp_registry_get("compiler.legalize", &legalize) || !legalize)
    g_error("%s", bp_error_message());
  g_assert_cmpint(fail_every_allocation(work, GPOINTER_TO_INT(keeps)), >, 50);
  bp_object_release(legalize);
  bp_object_release(first);
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/ir/memory/one-allocation-fails", GINT_TO_POINTER(0),
                       test_every_allocation);
  g_test_add_data_func("/ir/memory/all-allocations-from-one-on-fail", GINT_TO_POINTER(1),
                       test_every_allocation);
  g_test_add_func("/ir/memory/one-allocation-of-a-schedule-fails",
                  test_every_allocation_of_a_schedule);
  return g_test_run();
}
