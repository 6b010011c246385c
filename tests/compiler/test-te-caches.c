/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules ask of the caches: prefetches, and stores that go around the caches. The tests
 * read the printed IR. */
#include <glib.h>
#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/compiler/ir-util.h"
#include "tests/compiler/te-run.h"

#define TARGET                                                                                     \
  "c -vector_bits=512 -vector_registers=32 -num_cores=4 -l1_bytes=32768 -l2_bytes=1048576"
/* Elements of a cache line. */
#define LINE  16
#define STEPS 64
#define GATES 4

static void keep_first(void *context, const char *pass, const char *text) {
  char **first = context;
  if (!strcmp(pass, "build") && !*first)
    *first = g_strdup(text);
}

/* Lowers y = f(x) and frees the computation. Returns the loops before they are unrolled. */
static char *lowered(BpTe *te, BpTeTensor *x, BpTeTensor *y) {
  BpTeTensor *args[] = {x, y};
  BpIrModule *module = bp_ir_module_create();
  char *text = NULL;
  BpLowerOptions options = {
      .struct_size = sizeof options, .dump = keep_first, .dump_context = &text};
  if (bp_te_lower(te, "f", args, 2, &options, module))
    g_error("%s", bp_error_message());
  g_assert_nonnull(text);
  bp_te_free(te);
  bp_object_release(module);
  return text;
}

/* ---- Prefetches -------------------------------------------------------------------------- */

typedef struct Gates {
  BpTeTensor *weights;
  int64_t distance; /* elements from a gate's weights of a step to the next gate's */
} Gates;

static const BpIrNode *gates_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Gates *in = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", STEPS);
  const BpIrNode *place =
      te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, axes[0], te_int(te, in->distance)), axes[1]);
  return bp_te_reduce(te, BP_TE_SUM, te_read2(te, in->weights, k, place), &k, 1);
}

/* Returns the number of prefetches of one step of a sum, which reads a cache line for each gate. */
static int count_prefetches(int64_t distance, gboolean is_unrolled) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {GATES, LINE}, weights[] = {STEPS, (GATES - 1) * distance + LINE};
  Gates in = {bp_te_placeholder(te, "w", te_f32, weights, 2), distance};
  BpTeTensor *y = bp_te_compute(te, "y", shape, 2, gates_body, &in);
  BpTeStage *stage = bp_te_stage(te, y);
  BpTeAxis *steps = bp_te_stage_reduce_axis(stage, 0), *gates = bp_te_stage_axis(stage, 0);
  BpTeAxis *order[] = {steps, gates, bp_te_stage_axis(stage, 1)};
  if (bp_te_reorder(stage, order, 3) || (is_unrolled && bp_te_unroll(stage, gates)) ||
      bp_te_prefetch(stage, in.weights, steps, 8))
    g_error("%s", bp_error_message());
  char *text = lowered(te, in.weights, y);
  int count = count_parts(text, "\"te.prefetch\"");
  g_free(text);
  return count;
}

static void test_distant_reads_are_prefetched_alone(void) {
  g_assert_cmpint(count_prefetches(LINE, TRUE), ==, GATES);
  g_assert_cmpint(count_prefetches(100 * LINE, TRUE), ==, GATES);
}

/* The region of all gates has two lines. */
static void test_near_reads_share_prefetches(void) {
  g_assert_cmpint(count_prefetches(LINE / 4, TRUE), ==, 2);
}

/* The gates are iterations of a loop, which prefetches outside of it cannot follow. */
static void test_region_without_unrolled_loops_is_limited(void) {
  g_assert_cmpint(count_prefetches(100 * LINE, FALSE), ==, 32);
}

/* ---- Stores ------------------------------------------------------------------------------ */

static const BpIrNode *twice_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_op(te, BP_IR_MUL, te_read1(te, context, axes[0]), te_float(te, 2));
}

static gboolean is_streamed(int64_t bytes) {
  const int64_t shape[] = {bytes / 4};
  BpTe *te = bp_te_create();
  BpTarget *target = bp_target_parse(TARGET);
  BpTeTensor *x = bp_te_placeholder(te, "x", te_f32, shape, 1);
  BpTeTensor *y = bp_te_compute(te, "y", shape, 1, twice_body, x);
  if (!y || bp_schedule_auto(te, &y, 1, target))
    g_error("%s", bp_error_message());
  char *text = lowered(te, x, y);
  gboolean streamed = strstr(text, "(attr \"streamed\"") != NULL;
  g_free(text);
  bp_object_release(target);
  return streamed;
}

static void test_outputs_from_10_mib_are_streamed(void) {
  g_assert_false(is_streamed(9 << 20));
  g_assert_true(is_streamed(10 << 20));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/caches/distant-reads-are-prefetched-alone",
                  test_distant_reads_are_prefetched_alone);
  g_test_add_func("/te/caches/near-reads-share-prefetches", test_near_reads_share_prefetches);
  g_test_add_func("/te/caches/region-without-unrolled-loops-is-limited",
                  test_region_without_unrolled_loops_is_limited);
  g_test_add_func("/te/caches/outputs-from-10-mib-are-streamed",
                  test_outputs_from_10_mib_are_streamed);
  return g_test_run();
}
