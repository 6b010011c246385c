/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of statements, and tensors that they compute. */

#include "te-run.h"

#define ROWS  5
#define WIDTH 9
#define BINS  4

static void must(int rc) {
  if (rc != 0)
    g_error("%s", bp_error_message());
}

/* ---- Sorting ----------------------------------------------------------------------------- */

typedef struct Table {
  BpTeTensor *x, *places;
  bool by_columns;
} Table;

static const BpIrNode *at(BpTe *te, const Table *table, BpTeTensor *tensor, const BpIrNode *row,
                          const BpIrNode *place) {
  return table->by_columns ? te_read2(te, tensor, place, row) : te_read2(te, tensor, row, place);
}

static const BpIrNode *put(BpTe *te, const Table *table, BpTeTensor *tensor, const BpIrNode *row,
                           const BpIrNode *place, const BpIrNode *value) {
  const BpIrNode *by_row[] = {row, place}, *by_column[] = {place, row};
  return bp_te_write(te, tensor, table->by_columns ? by_column : by_row, value);
}

/* Insertion sort: each value in turn moves down until it meets a smaller one. */
static int insertion_sort(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                          BpTeTensor *const *tensors, void *context) {
  const Table *table = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *one = te_int(te, 1), *zero = te_int(te, 0);
  const BpIrNode *i = bp_ir_block_for(block, "i", zero, te_int(te, WIDTH));
  const BpIrNode *x = bp_ir_block_let(block, "x", at(te, table, table->x, rows[0], i));
  const BpIrNode *place = bp_ir_block_variable(block, "place", i);
  const BpIrNode *before = te_op(te, BP_IR_SUB, bp_ir_block_value(block, place), one);
  const BpIrNode *larger = te_op(
      te, BP_IR_GT, at(te, table, tensors[0], rows[0], te_op(te, BP_IR_MAX, before, zero)), x);
  bp_ir_block_while(block, te_op(te, BP_IR_AND, te_op(te, BP_IR_GE, before, zero), larger));
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], bp_ir_block_value(block, place),
                             at(te, table, tensors[0], rows[0], before)));
  bp_ir_block_assign(block, place, before);
  bp_ir_block_close(block);
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], bp_ir_block_value(block, place), x));
  bp_ir_block_close(block);
  (void)ir;
  return 0;
}

static BpTe *make_sorted(Table *table, BpTeTensor **sorted) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {table->by_columns ? WIDTH : ROWS, table->by_columns ? ROWS : WIDTH};
  const int64_t rows = ROWS;
  const BpTeResult result = {te_f32, shape, 2};
  table->x = bp_te_placeholder(te, "x", te_f32, shape, 2);
  must(bp_te_statements(te, "sorted", &rows, 1, &result, 1, insertion_sort, table, sorted));
  return te;
}

static void check_sorted(BpTe *te, const Table *table, BpTeTensor *sorted) {
  TeArray *arrays[] = {te_array_new(table->x), te_array_new(sorted)};
  int64_t stride = table->by_columns ? ROWS : 1, row_stride = table->by_columns ? 1 : WIDTH;
  for (int i = 0; i < ROWS * WIDTH; i++)
    te_floats(arrays[0])[i] = (float)(i * 7 % 11);
  te_run(te, (BpTeTensor *[]){table->x, sorted}, arrays, 2);
  for (int64_t row = 0; row < ROWS; row++) {
    float sum = 0;
    for (int64_t i = 0; i < WIDTH; i++) {
      const float *found = te_floats(arrays[1]) + row * row_stride + i * stride;
      sum += *found - te_floats(arrays[0])[row * row_stride + i * stride];
      if (i > 0)
        g_assert_cmpfloat(found[0], >=, found[-stride]);
    }
    g_assert_cmpfloat(sum, ==, 0);
  }
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
}

static void test_rows_are_sorted(void) {
  Table table = {.by_columns = false};
  BpTeTensor *sorted;
  BpTe *te = make_sorted(&table, &sorted);
  check_sorted(te, &table, sorted);
  bp_te_free(te);
}

/* A loop that runs until each row is done cannot be vectorised: the rows run one after the
 * other. */
static void test_what_vectors_cannot_do_runs_in_order(void) {
  Table table = {.by_columns = true};
  BpTeTensor *sorted;
  BpTe *te = make_sorted(&table, &sorted);
  BpTeStage *stage = bp_te_stage(te, sorted);
  must(bp_te_vectorize(stage, bp_te_stage_axis(stage, 0)));
  check_sorted(te, &table, sorted);
  bp_te_free(te);
}

static void test_rows_are_threads(void) {
  Table table = {.by_columns = true};
  BpTeTensor *sorted;
  BpTe *te = make_sorted(&table, &sorted);
  BpTeStage *stage = bp_te_stage(te, sorted);
  must(bp_te_bind(stage, bp_te_stage_axis(stage, 0), "threadIdx.x"));
  check_sorted(te, &table, sorted);
  bp_te_free(te);
}

/* ---- Names ------------------------------------------------------------------------------- */

#define PLACES 12

/* One name, bound to i and then to 11 - i, around shared statements that compare it. */
static int bind_twice(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                      BpTeTensor *const *tensors, void *context) {
  (void)context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *i = bp_ir_block_for(block, "i", te_int(te, 0), te_int(te, 8));
  const BpIrNode *at = bp_ir_var(ir, "at", te_i64);
  const BpIrNode *side =
      bp_ir_select(ir, te_op(te, BP_IR_LT, at, te_int(te, 6)), te_float(te, 1), te_float(te, 2));
  const BpIrNode *body = bp_te_write(te, tensors[0], (const BpIrNode *[]){rows[0], at}, side);
  bp_ir_block_add(block, bp_ir_let(ir, at, i, body));
  bp_ir_block_add(block, bp_ir_let(ir, at, te_op(te, BP_IR_SUB, te_int(te, PLACES - 1), i), body));
  bp_ir_block_close(block);
  return 0;
}

static void test_name_bound_twice_is_two_names(void) {
  BpTe *te = bp_te_create();
  const int64_t rows = 2, shape[] = {rows, PLACES};
  const BpTeResult result = {te_f32, shape, 2};
  BpTeTensor *tensor;
  must(bp_te_statements(te, "sides", &rows, 1, &result, 1, bind_twice, NULL, &tensor));
  TeArray *array = te_array_new(tensor);
  te_run(te, &tensor, &array, 1);
  for (int i = 0; i < rows * PLACES; i++)
    g_assert_cmpfloat(te_floats(array)[i], ==, i % PLACES < 6 ? 1 : 2);
  te_array_free(array);
  bp_te_free(te);
}

#define NUMBERS 3

/* Names a number of a tensor, and compares and divides sums and products of the name. */
static int compare_numbers(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                           BpTeTensor *const *tensors, void *context) {
  BpTeTensor *numbers = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *x = bp_ir_block_let(block, "x", bp_te_read(te, numbers, rows));
  const BpIrNode *least = bp_ir_block_let(block, "least", te_op(te, BP_IR_MAX, x, te_int(te, 0)));
  const BpIrNode *is_less = te_op(te, BP_IR_LT, x, te_op(te, BP_IR_ADD, x, te_int(te, 1)));
  const BpIrNode *is_positive =
      te_op(te, BP_IR_GE, te_op(te, BP_IR_ADD, least, te_int(te, 1)), te_int(te, 1));
  const BpIrNode *values[] = {
      bp_ir_select(ir, is_less, te_int(te, 1), te_int(te, 2)),
      bp_ir_select(ir, is_positive, te_int(te, 1), te_int(te, 2)),
      te_op(te, BP_IR_FLOORMOD, te_op(te, BP_IR_MUL, x, te_int(te, 3)), te_int(te, 3))};
  for (int i = 0; i < 3; i++)
    bp_ir_block_add(block, bp_te_write(te, tensors[0], (const BpIrNode *[]){rows[0], te_int(te, i)},
                                       values[i]));
  return 0;
}

static void test_names_of_numbers_wrap(void) {
  static const int64_t given[NUMBERS] = {5, INT64_MAX, INT64_MAX / 3 + 1};
  static const int64_t expected[NUMBERS][3] = {{1, 1, 0}, {2, 2, 2}, {1, 1, 2}};
  BpTe *te = bp_te_create();
  const int64_t rows = NUMBERS, shape[] = {rows, 3};
  const BpTeResult result = {te_i64, shape, 2};
  BpTeTensor *numbers = bp_te_placeholder(te, "numbers", te_i64, &rows, 1), *tensor;
  must(bp_te_statements(te, "compared", &rows, 1, &result, 1, compare_numbers, numbers, &tensor));
  TeArray *arrays[] = {te_array_new(numbers), te_array_new(tensor)};
  memcpy(arrays[0]->view.data, given, sizeof given);
  te_run(te, (BpTeTensor *[]){numbers, tensor}, arrays, 2);
  for (int i = 0; i < 3 * NUMBERS; i++)
    g_assert_cmpint(((int64_t *)arrays[1]->view.data)[i], ==, expected[i / 3][i % 3]);
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
  bp_te_free(te);
}

/* ---- Counting ---------------------------------------------------------------------------- */

/* How many elements of a column are in each bin, other elements not being counted, and their first
 * index; the running count is in memory that no caller requested. */
static int count_bins(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                      BpTeTensor *const *tensors, void *context) {
  const Table *table = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *zero = te_int(te, 0), *bins = te_int(te, BINS);
  const BpIrNode *bin = bp_ir_block_for(block, "bin", zero, bins);
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], bin, zero));
  bp_ir_block_add(block, put(te, table, tensors[1], rows[0], bin, te_int(te, -1)));
  bp_ir_block_close(block);
  const BpIrNode *i = bp_ir_block_for(block, "i", zero, te_int(te, WIDTH));
  const BpIrNode *x = bp_ir_cast(ir, te_i64, at(te, table, table->x, rows[0], i));
  x = bp_ir_block_let(block, "x", x);
  bp_ir_block_if(block,
                 te_op(te, BP_IR_AND, te_op(te, BP_IR_GE, x, zero), te_op(te, BP_IR_LT, x, bins)));
  const BpIrNode *count = at(te, table, tensors[0], rows[0], x);
  bp_ir_block_add(
      block, put(te, table, tensors[0], rows[0], x, te_op(te, BP_IR_ADD, count, te_int(te, 1))));
  bp_ir_block_if(block, te_op(te, BP_IR_LT, at(te, table, tensors[1], rows[0], x), zero));
  bp_ir_block_add(block, put(te, table, tensors[1], rows[0], x, i));
  bp_ir_block_close(block);
  bp_ir_block_add(block, put(te, table, tensors[2], rows[0], i, x));
  bp_ir_block_else(block);
  bp_ir_block_add(block, put(te, table, tensors[2], rows[0], i, te_int(te, -7)));
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  return 0;
}

/* Vectorised with masks: a lane counts only its own column. */
static void check_counts(bool is_vector) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {WIDTH, ROWS}, bins[] = {BINS, ROWS}, rows = ROWS;
  const BpTeResult results[] = {{te_i64, bins, 2}, {te_i64, bins, 2}, {te_i64, shape, 2}};
  Table table = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2), .by_columns = true};
  BpTeTensor *counted[3];
  must(bp_te_statements(te, "counted", &rows, 1, results, 3, count_bins, &table, counted));
  BpTeStage *stage = bp_te_stage(te, counted[0]);
  if (is_vector)
    must(bp_te_vectorize(stage, bp_te_stage_axis(stage, 0)));
  BpTeTensor *args[] = {table.x, counted[0], counted[1]};
  TeArray *arrays[3];
  for (int i = 0; i < 3; i++)
    arrays[i] = te_array_new(args[i]);
  for (int i = 0; i < ROWS * WIDTH; i++)
    te_floats(arrays[0])[i] = (float)(i * i % 7 - 2);
  te_run(te, args, arrays, 3);
  for (int row = 0; row < ROWS; row++)
    for (int bin = 0; bin < BINS; bin++) {
      int64_t count = 0, first = -1;
      for (int i = WIDTH - 1; i >= 0; i--)
        if ((int)te_floats(arrays[0])[i * ROWS + row] == bin) {
          count++;
          first = i;
        }
      g_assert_cmpint(((int64_t *)arrays[1]->view.data)[bin * ROWS + row], ==, count);
      g_assert_cmpint(((int64_t *)arrays[2]->view.data)[bin * ROWS + row], ==, first);
    }
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
  bp_te_free(te);
}

static void test_statements_have_memory_of_their_own(void) {
  check_counts(false);
}

static void test_choices_in_vectors_are_masks(void) {
  check_counts(true);
  BpTe *te = bp_te_create();
  const int64_t shape[] = {WIDTH, ROWS}, bins[] = {BINS, ROWS}, rows = ROWS;
  const BpTeResult results[] = {{te_i64, bins, 2}, {te_i64, bins, 2}, {te_i64, shape, 2}};
  Table table = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2), .by_columns = true};
  BpTeTensor *counted[3];
  must(bp_te_statements(te, "counted", &rows, 1, results, 3, count_bins, &table, counted));
  BpTeStage *stage = bp_te_stage(te, counted[0]);
  must(bp_te_vectorize(stage, bp_te_stage_axis(stage, 0)));
  BpIrModule *module = bp_ir_module_create();
  must(bp_te_lower(te, "f", (BpTeTensor *[]){table.x, counted[0], counted[1]}, 3, NULL, module));
  char *text = bp_ir_print(module);
  g_assert_nonnull(strstr(text, "ramp"));
  g_assert_null(strstr(text, "(if "));
  free(text);
  bp_object_release(module);
  bp_te_free(te);
}

/* Where the first element of a column is positive, makes it -1 and the second element 2, else makes
 * it 5: the condition is read once, before the branches change it. */
static int mark_signs(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                      BpTeTensor *const *tensors, void *context) {
  const Table *table = context;
  const BpIrNode *zero = te_int(te, 0), *one = te_int(te, 1);
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], one, te_float(te, 0)));
  bp_ir_block_add(
      block, put(te, table, tensors[0], rows[0], zero, at(te, table, table->x, rows[0], zero)));
  bp_ir_block_if(block,
                 te_op(te, BP_IR_GT, at(te, table, tensors[0], rows[0], zero), te_float(te, 0)));
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], zero, te_float(te, -1)));
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], one, te_float(te, 2)));
  bp_ir_block_else(block);
  bp_ir_block_add(block, put(te, table, tensors[0], rows[0], zero, te_float(te, 5)));
  bp_ir_block_close(block);
  return 0;
}

static void test_conditions_of_vectors_are_read_once(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {2, ROWS}, rows = ROWS;
  const BpTeResult result = {te_f32, shape, 2};
  Table table = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2), .by_columns = true};
  BpTeTensor *marked;
  must(bp_te_statements(te, "marked", &rows, 1, &result, 1, mark_signs, &table, &marked));
  BpTeStage *stage = bp_te_stage(te, marked);
  must(bp_te_vectorize(stage, bp_te_stage_axis(stage, 0)));
  TeArray *arrays[] = {te_array_new(table.x), te_array_new(marked)};
  for (int i = 0; i < ROWS; i++)
    te_floats(arrays[0])[i] = i % 2 ? 3 : -3;
  te_run(te, (BpTeTensor *[]){table.x, marked}, arrays, 2);
  for (int i = 0; i < ROWS; i++) {
    g_assert_cmpfloat(te_floats(arrays[1])[i], ==, i % 2 ? -1 : 5);
    g_assert_cmpfloat(te_floats(arrays[1])[ROWS + i], ==, i % 2 ? 2 : 0);
  }
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
  bp_te_free(te);
}

/* Copies the element of the table that a named number chooses, and 9 where there is none. */
static int choose_elements(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                           BpTeTensor *const *tensors, void *context) {
  BpTeTensor *const *inputs = context;
  const BpIrNode *x = bp_ir_block_let(block, "x", te_read1(te, inputs[0], rows[0]));
  const BpIrNode *is_inside = te_op(te, BP_IR_AND, te_op(te, BP_IR_GE, x, te_int(te, 0)),
                                    te_op(te, BP_IR_LT, x, te_int(te, BINS)));
  bp_ir_block_add(block, bp_te_write(te, tensors[0], rows,
                                     bp_ir_select(bp_te_ir(te), is_inside,
                                                  te_read1(te, inputs[1], x), te_float(te, 9))));
  return 0;
}

static void test_named_numbers_guard_reads(void) {
  BpTe *te = bp_te_create();
  const int64_t rows = ROWS, bins = BINS;
  const BpTeResult result = {te_f32, &rows, 1};
  BpTeTensor *inputs[] = {bp_te_placeholder(te, "x", te_i64, &rows, 1),
                          bp_te_placeholder(te, "table", te_f32, &bins, 1)};
  BpTeTensor *chosen;
  must(bp_te_statements(te, "chosen", &rows, 1, &result, 1, choose_elements, inputs, &chosen));
  BpTeStage *stage = bp_te_stage(te, chosen);
  must(bp_te_vectorize(stage, bp_te_stage_axis(stage, 0)));
  TeArray *arrays[] = {te_array_new(inputs[0]), te_array_new(inputs[1]), te_array_new(chosen)};
  for (int i = 0; i < ROWS; i++)
    ((int64_t *)arrays[0]->view.data)[i] = 3 * i - 3;
  for (int i = 0; i < BINS; i++)
    te_floats(arrays[1])[i] = (float)i;
  te_run(te, (BpTeTensor *[]){inputs[0], inputs[1], chosen}, arrays, 3);
  for (int i = 0; i < ROWS; i++)
    g_assert_cmpfloat(te_floats(arrays[2])[i], ==,
                      3 * i - 3 >= 0 && 3 * i - 3 < BINS ? (float)(3 * i - 3) : 9);
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
  bp_te_free(te);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static int write_elsewhere(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                           BpTeTensor *const *tensors, void *context) {
  (void)tensors;
  bp_ir_block_add(block,
                  bp_te_write(te, ((Table *)context)->x,
                              (const BpIrNode *[]){rows[0], te_int(te, 0)}, te_float(te, 1)));
  return 0;
}

static int write_an_integer(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                            BpTeTensor *const *tensors, void *context) {
  (void)context;
  bp_ir_block_add(block, bp_te_write(te, tensors[0], (const BpIrNode *[]){rows[0], te_int(te, 0)},
                                     te_int(te, 1)));
  return 0;
}

static int leave_a_loop_open(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                             BpTeTensor *const *tensors, void *context) {
  (void)rows;
  (void)tensors;
  (void)context;
  bp_ir_block_for(block, "i", te_int(te, 0), te_int(te, 4));
  return 0;
}

static int close_too_often(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                           BpTeTensor *const *tensors, void *context) {
  (void)te;
  (void)rows;
  (void)tensors;
  (void)context;
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  return 0;
}

static int choose_again(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                        BpTeTensor *const *tensors, void *context) {
  (void)te;
  (void)rows;
  (void)tensors;
  (void)context;
  bp_ir_block_else(block);
  return 0;
}

static int use_what_is_not_bound(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                                 BpTeTensor *const *tensors, void *context) {
  const BpIrNode *i = bp_ir_block_for(block, "i", te_int(te, 0), te_int(te, 4));
  bp_ir_block_close(block);
  (void)context;
  bp_ir_block_add(block, bp_te_write(te, tensors[0], (const BpIrNode *[]){rows[0], te_int(te, 0)},
                                     bp_ir_cast(bp_te_ir(te), te_f32,
                                                bp_ir_var(bp_te_ir(te), "free", te_i64))));
  (void)i;
  return 0;
}

static void test_bad_statements_are_refused(void) {
  static const struct {
    BpTeStatements body;
    const char *says;
  } cases[] = {
      {write_elsewhere, "write to x"},
      {write_an_integer, "a value of int64 is written"},
      {leave_a_loop_open, "while a construct in it is open"},
      {close_too_often, "closes more than it opened"},
      {choose_again, "no IF is open"},
      {use_what_is_not_bound, "use variable free"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpTe *te = bp_te_create();
    const int64_t shape[] = {ROWS, WIDTH}, rows = ROWS;
    const BpTeResult result = {te_f32, shape, 2};
    Table table = {.x = bp_te_placeholder(te, "x", te_f32, shape, 2)};
    BpTeTensor *tensor;
    g_assert_cmpint(bp_te_statements(te, "y", &rows, 1, &result, 1, cases[i].body, &table, &tensor),
                    ==, -1);
    if (!strstr(bp_error_message(), cases[i].says))
      g_error("not \"%s\": %s", cases[i].says, bp_error_message());
    bp_error_clear();
    bp_te_free(te);
  }
}

static void test_statements_stay_at_the_root(void) {
  Table table = {.by_columns = false};
  BpTeTensor *sorted;
  BpTe *te = make_sorted(&table, &sorted);
  BpTeStage *stage = bp_te_stage(te, sorted);
  g_assert_cmpint(bp_te_compute_inline(stage), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "computation by statements"));
  bp_error_clear();
  g_assert_null(bp_te_cache_write(te, sorted, BP_IR_SCOPE_LOCAL));
  g_assert_nonnull(strstr(bp_error_message(), "computed by statements"));
  bp_error_clear();
  bp_te_free(te);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/statements/rows-are-sorted", test_rows_are_sorted);
  g_test_add_func("/te/statements/rows-are-threads", test_rows_are_threads);
  g_test_add_func("/te/statements/what-vectors-cannot-do-runs-in-order",
                  test_what_vectors_cannot_do_runs_in_order);
  g_test_add_func("/te/statements/names-of-numbers-wrap", test_names_of_numbers_wrap);
  g_test_add_func("/te/statements/name-bound-twice-is-two-names",
                  test_name_bound_twice_is_two_names);
  g_test_add_func("/te/statements/memory-of-their-own", test_statements_have_memory_of_their_own);
  g_test_add_func("/te/statements/choices-in-vectors-are-masks", test_choices_in_vectors_are_masks);
  g_test_add_func("/te/statements/conditions-of-vectors-are-read-once",
                  test_conditions_of_vectors_are_read_once);
  g_test_add_func("/te/statements/named-numbers-guard-reads", test_named_numbers_guard_reads);
  g_test_add_func("/te/statements/bad-statements-are-refused", test_bad_statements_are_refused);
  g_test_add_func("/te/statements/stay-at-the-root", test_statements_stay_at_the_root);
  return g_test_run();
}
