/* SPDX-License-Identifier: Apache-2.0 */
/* Scans: their results under several schedules, and refused scans. */

#include "te-run.h"

#define STEPS 5
#define ROWS  3
#define WIDTH 4

/* Sums of x along dimension 0 or 1, and the differences of each step. */
typedef struct Sums {
  BpTeTensor *x, *lengths, *sum;
  BpTeTensor *each[2], *last[1];
  int32_t axis;
} Sums;

static const BpIrNode *start_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  (void)context;
  return bp_ir_cast(bp_te_ir(te), te_f32, axes[0]);
}

static int sum_body(BpTe *te, const BpIrNode *const *axes, void *context, const BpIrNode **values) {
  const Sums *sums = context;
  const BpIrNode *x = bp_te_read(te, sums->x, axes), *sum = bp_te_read(te, sums->sum, axes);
  values[0] = te_op(te, BP_IR_ADD, sum, x);
  values[1] = te_op(te, BP_IR_SUB, sum, x);
  return 0;
}

static const BpIrNode *length_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_read1(te, ((Sums *)context)->lengths, axes[0]);
}

static BpTe *make_sums(Sums *sums, int32_t axis, bool is_reverse, bool is_bounded) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {axis ? ROWS : STEPS, axis ? STEPS : ROWS};
  const int64_t rows = ROWS;
  *sums = (Sums){.x = bp_te_placeholder(te, "x", te_f32, shape, 2), .axis = axis};
  BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, axis, is_reverse);
  sums->sum = bp_te_scan_state(scan, "sum", te_f32, start_body, sums);
  if (is_bounded) {
    sums->lengths = bp_te_placeholder(te, "lengths", te_i64, &rows, 1);
    g_assert_cmpint(bp_te_scan_limit(scan, length_body, sums), ==, 0);
  }
  if (bp_te_scan_end(scan, sum_body, sums, 2, sums->each, sums->last) != 0)
    g_error("%s", bp_error_message());
  return te;
}

static const int64_t some_lengths[] = {2, -1, STEPS + 3};

static void check_sums(BpTe *te, Sums *sums, bool is_reverse) {
  BpTeTensor *args[] = {sums->x, sums->each[0], sums->each[1], sums->last[0], sums->lengths};
  int32_t count = sums->lengths ? 5 : 4;
  TeArray *arrays[5];
  int64_t stride = sums->axis ? 1 : ROWS, row_stride = sums->axis ? STEPS : 1;
  for (int32_t i = 0; i < count; i++)
    arrays[i] = te_array_new(args[i]);
  for (int32_t i = 0; i < STEPS * ROWS; i++)
    te_floats(arrays[0])[i] = (float)(i * i % 7);
  if (sums->lengths)
    memcpy(arrays[4]->view.data, some_lengths, sizeof some_lengths);
  te_run(te, args, arrays, count);
  for (int64_t row = 0; row < ROWS; row++) {
    float sum = (float)row;
    int64_t length = sums->lengths ? CLAMP(some_lengths[row], 0, STEPS) : STEPS;
    for (int64_t i = 0; i < STEPS; i++) {
      int64_t place = is_reverse ? STEPS - 1 - i : i, at = row * row_stride + place * stride;
      float x = te_floats(arrays[0])[at], difference = sum - x;
      sum += place < length ? x : 0;
      g_assert_cmpfloat(te_floats(arrays[1])[at], ==, place < length ? sum : 0);
      g_assert_cmpfloat(te_floats(arrays[2])[at], ==, place < length ? difference : 0);
    }
    g_assert_cmpfloat(te_floats(arrays[3])[row], ==, sum);
  }
  for (int32_t i = 0; i < count; i++)
    te_array_free(arrays[i]);
}

/* Schedules for the two axes; `steps` is the axis of the scan. */
static void must(int rc) {
  if (rc != 0)
    g_error("a schedule primitive failed: %s", bp_error_message());
}

static void leave_alone(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  (void)stage;
  (void)rows;
  (void)steps;
}

static void steps_inside(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  must(bp_te_reorder(stage, (BpTeAxis *[]){rows, steps}, 2));
  must(bp_te_parallel(stage, rows));
}

static void rows_in_vectors(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  must(bp_te_reorder(stage, (BpTeAxis *[]){steps, rows}, 2));
  must(bp_te_vectorize(stage, rows));
}

static void steps_in_pieces(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  BpTeAxis *outer, *inner, *some, *row;
  must(bp_te_split(stage, steps, 2, BP_TE_TAIL_GUARD, &outer, &inner));
  must(bp_te_split(stage, rows, 2, BP_TE_TAIL_PEEL, &some, &row));
  must(bp_te_reorder(stage, (BpTeAxis *[]){some, outer, inner, row}, 4));
  must(bp_te_unroll(stage, inner));
}

static void rows_are_threads(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  must(bp_te_reorder(stage, (BpTeAxis *[]){rows, steps}, 2));
  must(bp_te_bind(stage, rows, "threadIdx.x"));
}

static void threads_in_steps(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  must(bp_te_reorder(stage, (BpTeAxis *[]){steps, rows}, 2));
  must(bp_te_bind(stage, rows, "threadIdx.x"));
}

static void tasks_in_steps(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps) {
  must(bp_te_reorder(stage, (BpTeAxis *[]){steps, rows}, 2));
  must(bp_te_parallel(stage, rows));
}

typedef void (*Schedule)(BpTeStage *stage, BpTeAxis *rows, BpTeAxis *steps);
static const Schedule schedules[] = {leave_alone,     steps_inside,     rows_in_vectors,
                                     steps_in_pieces, rows_are_threads, threads_in_steps,
                                     tasks_in_steps};

static void check_all_schedules(bool is_bounded) {
  for (int32_t axis = 0; axis < 2; axis++)
    for (int reverse = 0; reverse < 2; reverse++)
      for (size_t i = 0; i < G_N_ELEMENTS(schedules); i++) {
        Sums sums;
        BpTe *te = make_sums(&sums, axis, reverse, is_bounded);
        BpTeStage *stage = bp_te_stage(te, sums.last[0]);
        schedules[i](stage, bp_te_stage_axis(stage, !axis), bp_te_stage_axis(stage, axis));
        check_sums(te, &sums, reverse);
        bp_te_free(te);
      }
}

static void test_states_go_from_step_to_step(void) {
  check_all_schedules(false);
}

static void test_each_row_ends_at_its_limit(void) {
  check_all_schedules(true);
}

/* ---- Steps with stages of their own ------------------------------------------------------ */

/* state' = state W + x, and a second state: the first one shifted by an element. */
typedef struct Recurrence {
  BpTeTensor *x, *w, *state, *shifted, *product;
  BpTeTensor *each[2], *last[2];
} Recurrence;

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Recurrence *r = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", WIDTH);
  const BpIrNode *state = bp_te_read(te, r->state, (const BpIrNode *[]){axes[0], axes[1], k});
  return bp_te_reduce(te, BP_TE_SUM, te_op(te, BP_IR_MUL, state, te_read2(te, r->w, k, axes[2])),
                      &k, 1);
}

static int recurrence_body(BpTe *te, const BpIrNode *const *axes, void *context,
                           const BpIrNode **values) {
  const Recurrence *r = context;
  const BpIrNode *before = te_op(te, BP_IR_SUB, axes[2], te_int(te, 1));
  values[0] = te_op(te, BP_IR_ADD, bp_te_read(te, r->product, axes), bp_te_read(te, r->x, axes));
  values[1] = te_op(te, BP_IR_ADD,
                    bp_te_read_if(te, r->state, (const BpIrNode *[]){axes[0], axes[1], before},
                                  te_op(te, BP_IR_GT, axes[2], te_int(te, 0))),
                    bp_te_read(te, r->shifted, axes));
  return 0;
}

static BpTe *make_recurrence(Recurrence *r) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {STEPS, ROWS, WIDTH}, square[] = {WIDTH, WIDTH};
  *r = (Recurrence){.x = bp_te_placeholder(te, "x", te_f32, shape, 3),
                    .w = bp_te_placeholder(te, "w", te_f32, square, 2)};
  BpTeScan *scan = bp_te_scan_begin(te, "h", shape, 3, 0, 0);
  r->state = bp_te_scan_state(scan, "state", te_f32, NULL, NULL);
  r->shifted = bp_te_scan_state(scan, "shifted", te_f32, NULL, NULL);
  r->product = bp_te_compute(te, "product", shape, 3, product_body, r);
  if (bp_te_scan_end(scan, recurrence_body, r, 2, r->each, r->last) != 0)
    g_error("%s", bp_error_message());
  return te;
}

static void check_recurrence(BpTe *te, const Recurrence *r) {
  BpTeTensor *args[] = {r->x, r->w, r->each[0], r->last[0], r->last[1]};
  TeArray *arrays[5];
  float state[ROWS][WIDTH] = {{0}}, shifted[ROWS][WIDTH] = {{0}};
  for (int i = 0; i < 5; i++)
    arrays[i] = te_array_new(args[i]);
  for (int i = 0; i < STEPS * ROWS * WIDTH; i++)
    te_floats(arrays[0])[i] = (float)(i % 5 - 2);
  for (int i = 0; i < WIDTH * WIDTH; i++)
    te_floats(arrays[1])[i] = (float)(i % 3 - 1);
  te_run(te, args, arrays, 5);
  for (int t = 0; t < STEPS; t++)
    for (int b = 0; b < ROWS; b++) {
      float next[WIDTH];
      for (int j = 0; j < WIDTH; j++) {
        next[j] = te_floats(arrays[0])[(t * ROWS + b) * WIDTH + j];
        for (int k = 0; k < WIDTH; k++)
          next[j] += state[b][k] * te_floats(arrays[1])[k * WIDTH + j];
        shifted[b][j] += j > 0 ? state[b][j - 1] : 0;
      }
      memcpy(state[b], next, sizeof next);
      for (int j = 0; j < WIDTH; j++)
        g_assert_cmpfloat(te_floats(arrays[2])[(t * ROWS + b) * WIDTH + j], ==, next[j]);
    }
  g_assert_cmpmem(arrays[3]->view.data, sizeof state, state, sizeof state);
  g_assert_cmpmem(arrays[4]->view.data, sizeof shifted, shifted, sizeof shifted);
  for (int i = 0; i < 5; i++)
    te_array_free(arrays[i]);
}

static void test_a_step_has_stages_of_its_own(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  check_recurrence(te, &r);
  bp_te_free(te);
}

/* Rows outside of the steps, each with its own states; the product is vectorised. */
static void test_rows_of_a_recurrence_run_by_themselves(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpTeStage *scan = bp_te_stage(te, r.last[0]), *product = bp_te_stage(te, r.product);
  BpTeAxis *steps = bp_te_stage_axis(scan, 0), *rows = bp_te_stage_axis(scan, 1), *some, *row;
  must(bp_te_split(scan, rows, 2, BP_TE_TAIL_GUARD, &some, &row));
  must(bp_te_reorder(scan, (BpTeAxis *[]){some, steps, row}, 3));
  must(bp_te_parallel(scan, some));
  must(bp_te_compute_at(product, scan, steps));
  must(bp_te_vectorize(product, bp_te_stage_axis(product, 2)));
  check_recurrence(te, &r);
  bp_te_free(te);
}

/* Threads share states and products, with barriers between them. */
static void test_threads_of_a_block_share_states(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpTeStage *scan = bp_te_stage(te, r.last[0]), *product = bp_te_stage(te, r.product);
  BpTeAxis *steps = bp_te_stage_axis(scan, 0), *rows = bp_te_stage_axis(scan, 1);
  must(bp_te_reorder(scan, (BpTeAxis *[]){rows, steps}, 2));
  must(bp_te_bind(scan, rows, "blockIdx.x"));
  must(bp_te_bind(scan, bp_te_stage_axis(scan, 2), "threadIdx.x"));
  must(bp_te_compute_at(product, scan, steps));
  must(bp_te_set_scope(product, BP_IR_SCOPE_SHARED));
  must(bp_te_bind(product, bp_te_stage_axis(product, 2), "threadIdx.x"));
  check_recurrence(te, &r);
  bp_te_free(te);
}

/* The product of an element is computed when other elements are stored: products are kept until the
 * step ends. */
static void test_states_that_are_read_late_are_kept(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpTeStage *scan = bp_te_stage(te, r.last[0]), *product = bp_te_stage(te, r.product);
  must(bp_te_compute_at(product, scan, bp_te_stage_axis(scan, 2)));
  check_recurrence(te, &r);
  bp_te_free(te);
}

/* ---- Scans in scans ---------------------------------------------------------------------- */

/* The running sum of each row of a table; each row starts where the previous row ended. */
typedef struct Table {
  BpTeTensor *x, *carried, *sum, *inner_each[1], *inner_last[1], *each[1], *last[1];
} Table;

static const BpIrNode *carried_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return bp_te_read(te, ((Table *)context)->carried, axes);
}

static int inner_body(BpTe *te, const BpIrNode *const *axes, void *context,
                      const BpIrNode **values) {
  const Table *table = context;
  values[0] =
      te_op(te, BP_IR_ADD, bp_te_read(te, table->sum, axes), bp_te_read(te, table->x, axes));
  return 0;
}

static int outer_body(BpTe *te, const BpIrNode *const *axes, void *context,
                      const BpIrNode **values) {
  values[0] = bp_te_read(te, ((Table *)context)->inner_last[0], axes);
  return 0;
}

static void test_scans_nest(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {ROWS, STEPS}, rows = ROWS;
  Table table = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2)};
  BpTeScan *outer = bp_te_scan_begin(te, "rows", &rows, 1, 0, 0);
  table.carried = bp_te_scan_state(outer, "carried", te_f32, NULL, NULL);
  BpTeScan *inner = bp_te_scan_begin(te, "row", shape, 2, 1, 0);
  table.sum = bp_te_scan_state(inner, "sum", te_f32, carried_body, &table);
  must(bp_te_scan_end(inner, inner_body, &table, 1, table.inner_each, table.inner_last));
  must(bp_te_scan_end(outer, outer_body, &table, 1, table.each, table.last));
  BpTeTensor *args[] = {table.x, table.each[0], table.last[0]};
  TeArray *arrays[3];
  for (int i = 0; i < 3; i++)
    arrays[i] = te_array_new(args[i]);
  for (int i = 0; i < ROWS * STEPS; i++)
    te_floats(arrays[0])[i] = (float)i;
  te_run(te, args, arrays, 3);
  float sum = 0;
  for (int row = 0; row < ROWS; row++) {
    for (int i = 0; i < STEPS; i++)
      sum += (float)(row * STEPS + i);
    g_assert_cmpfloat(te_floats(arrays[1])[row], ==, sum);
  }
  g_assert_cmpfloat(te_floats(arrays[2])[0], ==, sum);
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
  bp_te_free(te);
}

/* A scan without steps returns its initial states. */
static void test_no_steps_leave_the_first_states(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {ROWS, 0};
  Sums sums = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2)};
  BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, 1, 0);
  sums.sum = bp_te_scan_state(scan, "sum", te_f32, start_body, NULL);
  must(bp_te_scan_end(scan, sum_body, &sums, 2, sums.each, sums.last));
  TeArray *arrays[] = {te_array_new(sums.x), te_array_new(sums.last[0])};
  te_run(te, (BpTeTensor *[]){sums.x, sums.last[0]}, arrays, 2);
  for (int i = 0; i < ROWS; i++)
    g_assert_cmpfloat(te_floats(arrays[1])[i], ==, (float)i);
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
  bp_te_free(te);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void refuse(int rc, const char *words) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  if (!strstr(bp_error_message(), words))
    g_error("not \"%s\": %s", words, bp_error_message());
  bp_error_clear();
}

static int lower_recurrence(BpTe *te, const Recurrence *r) {
  BpIrModule *module = bp_ir_module_create();
  int rc = bp_te_lower(te, "f", (BpTeTensor *[]){r->x, r->w, r->each[0]}, 3, NULL, module);
  bp_object_release(module);
  return rc;
}

static void test_the_axis_runs_in_order(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpTeStage *scan = bp_te_stage(te, r.last[0]);
  BpTeAxis *steps = bp_te_stage_axis(scan, 0), *outer, *inner;
  refuse(bp_te_parallel(scan, steps), "run one after the other");
  refuse(bp_te_vectorize(scan, steps), "run one after the other");
  refuse(bp_te_bind(scan, steps, "threadIdx.x"), "run one after the other");
  refuse(bp_te_fuse(scan, steps, bp_te_stage_axis(scan, 1), &outer), "cannot be fused");
  refuse(bp_te_split(scan, steps, 2, BP_TE_TAIL_OVERLAP, &outer, &inner), "not that of a scan");
  must(bp_te_split(scan, steps, 2, BP_TE_TAIL_GUARD, &outer, &inner));
  must(bp_te_reorder(scan, (BpTeAxis *[]){inner, outer}, 2));
  refuse(lower_recurrence(te, &r), "would not run in their order");
  bp_te_free(te);
}

/* Elements of a row depend on the whole row: rows cannot be outside of the steps. */
static void test_elements_that_depend_on_others_stay_in_the_steps(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpTeStage *scan = bp_te_stage(te, r.last[0]);
  must(
      bp_te_reorder(scan, (BpTeAxis *[]){bp_te_stage_axis(scan, 2), bp_te_stage_axis(scan, 0)}, 2));
  refuse(lower_recurrence(te, &r), "not among those");
  bp_te_free(te);
}

static void test_a_step_is_not_read_from_outside(void) {
  Recurrence r;
  BpTe *te = make_recurrence(&r);
  BpIrModule *module = bp_ir_module_create();
  refuse(bp_te_lower(te, "f", (BpTeTensor *[]){r.x, r.w, r.product}, 3, NULL, module),
         "computed inside");
  bp_object_release(module);
  bp_te_free(te);
}

static int earlier_body(BpTe *te, const BpIrNode *const *axes, void *context,
                        const BpIrNode **values) {
  const Sums *sums = context;
  const BpIrNode *before =
      te_op(te, BP_IR_MAX, te_op(te, BP_IR_SUB, axes[0], te_int(te, 1)), te_int(te, 0));
  values[0] = te_read2(te, sums->sum, before, axes[1]);
  return 0;
}

static void test_a_step_reads_its_own_place(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {STEPS, ROWS};
  Sums sums = {.x = NULL};
  BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, 0, 0);
  sums.sum = bp_te_scan_state(scan, "sum", te_f32, NULL, NULL);
  must(bp_te_scan_end(scan, earlier_body, &sums, 1, sums.each, sums.last));
  BpIrModule *module = bp_ir_module_create();
  refuse(bp_te_lower(te, "f", sums.each, 1, NULL, module), "another step");
  bp_object_release(module);
  bp_te_free(te);
}

static void test_a_scan_has_a_state(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {STEPS, ROWS};
  Sums sums = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2)};
  BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, 0, 0);
  sums.sum = sums.x;
  refuse(bp_te_scan_end(scan, sum_body, &sums, 2, sums.each, sums.last), "at least one state");
  refuse(bp_te_scan_begin(te, "sums", shape, 2, 2, 0) ? 0 : -1, "dimension 2 of 2");
  bp_te_free(te);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/scan/states-go-from-step-to-step", test_states_go_from_step_to_step);
  g_test_add_func("/te/scan/each-row-ends-at-its-limit", test_each_row_ends_at_its_limit);
  g_test_add_func("/te/scan/a-step-has-stages-of-its-own", test_a_step_has_stages_of_its_own);
  g_test_add_func("/te/scan/rows-run-by-themselves", test_rows_of_a_recurrence_run_by_themselves);
  g_test_add_func("/te/scan/threads-share-states", test_threads_of_a_block_share_states);
  g_test_add_func("/te/scan/states-that-are-read-late-are-kept",
                  test_states_that_are_read_late_are_kept);
  g_test_add_func("/te/scan/scans-nest", test_scans_nest);
  g_test_add_func("/te/scan/no-steps-leave-the-first-states", test_no_steps_leave_the_first_states);
  g_test_add_func("/te/scan/the-axis-runs-in-order", test_the_axis_runs_in_order);
  g_test_add_func("/te/scan/elements-that-depend-on-others-stay-in-the-steps",
                  test_elements_that_depend_on_others_stay_in_the_steps);
  g_test_add_func("/te/scan/a-step-is-not-read-from-outside", test_a_step_is_not_read_from_outside);
  g_test_add_func("/te/scan/a-step-reads-its-own-place", test_a_step_reads_its_own_place);
  g_test_add_func("/te/scan/a-scan-has-a-state", test_a_scan_has_a_state);
  return g_test_run();
}
