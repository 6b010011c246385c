/* SPDX-License-Identifier: Apache-2.0 */
/* One function for every extent: computations with open extents, under the schedule that the
 * compiler chooses, built for the processor and compared with the interpreter. */

#include <backplane/compiler/schedules.h>

#include "te-run.h"
#include "tests/compiler/codegen-util.h"

#define WIDTH 12

/* The inputs of a computation: m rows of n elements, and an inner extent k. */
typedef struct Open {
  BpTe *te;
  const BpIrNode *m, *n, *k;
  BpTeTensor *args[5], *computed[3];
  int32_t num_args;
} Open;

static BpTeTensor *input(Open *o, const char *name, const BpIrNode *first, const BpIrNode *second) {
  BpTeTensor *tensor = bp_te_placeholder_open(o->te, name, te_f32,
                                              (const BpIrNode *[]){first, second}, second ? 2 : 1);
  assert_ok(!tensor);
  return o->args[o->num_args++] = tensor;
}

static BpTeTensor *compute(Open *o, const char *name, const BpIrNode *first, const BpIrNode *second,
                           BpTeBody body) {
  BpTeTensor *tensor =
      bp_te_compute_open(o->te, name, (const BpIrNode *[]){first, second}, second ? 2 : 1, body, o);
  assert_ok(!tensor);
  return tensor;
}

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis_open(te, "k", o->k);
  return bp_te_reduce(te, BP_TE_SUM,
                      te_op(te, BP_IR_MUL, te_read2(te, o->args[0], axes[0], k),
                            te_read2(te, o->args[1], k, axes[1])),
                      &k, 1);
}

static const BpIrNode *relu_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *x =
      te_op(te, BP_IR_ADD, bp_te_read(te, o->computed[0], axes), te_read1(te, o->args[2], axes[1]));
  return te_op(te, BP_IR_MAX, x, te_float(te, 0));
}

static void make_product(Open *o) {
  input(o, "a", o->m, o->k);
  input(o, "b", o->k, o->n);
  input(o, "bias", o->n, NULL);
  o->computed[0] = compute(o, "product", o->m, o->n, product_body);
  o->args[o->num_args++] = compute(o, "out", o->m, o->n, relu_body);
}

/* The second operand is computed from b and the bias: for many rows it is stored in panels. */
static const BpIrNode *dear_product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis_open(te, "k", o->k);
  const BpIrNode *b = te_op(
      te, BP_IR_ADD, te_op(te, BP_IR_MUL, te_read2(te, o->args[1], k, axes[1]), te_float(te, 2)),
      te_read1(te, o->args[2], axes[1]));
  b = te_op(te, BP_IR_SUB, te_op(te, BP_IR_MUL, b, te_float(te, 0.5)), te_float(te, 1));
  return bp_te_reduce(te, BP_TE_SUM, te_op(te, BP_IR_MUL, te_read2(te, o->args[0], axes[0], k), b),
                      &k, 1);
}

static void make_dear_product(Open *o) {
  input(o, "a", o->m, o->k);
  input(o, "b", o->k, o->n);
  input(o, "bias", o->n, NULL);
  o->computed[0] = compute(o, "product", o->m, o->n, dear_product_body);
  o->args[o->num_args++] = compute(o, "out", o->m, o->n, relu_body);
}

static const BpIrNode *most_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis_open(te, "k", o->n);
  return bp_te_reduce(te, BP_TE_MAX, te_read2(te, o->args[0], axes[0], k), &k, 1);
}

static const BpIrNode *power_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *x =
      te_op(te, BP_IR_SUB, bp_te_read(te, o->args[0], axes), te_read1(te, o->computed[0], axes[0]));
  return bp_ir_call(bp_te_ir(te), te_f32, BP_IR_CALL_INTRINSIC, "exp", &x, 1);
}

static const BpIrNode *sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis_open(te, "k", o->n);
  return bp_te_reduce(te, BP_TE_SUM, te_read2(te, o->computed[1], axes[0], k), &k, 1);
}

static const BpIrNode *share_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  return te_op(te, BP_IR_DIV, bp_te_read(te, o->computed[1], axes),
               te_read1(te, o->computed[2], axes[0]));
}

static void make_softmax(Open *o) {
  input(o, "x", o->m, o->n);
  o->computed[0] = compute(o, "most", o->m, NULL, most_body);
  o->computed[1] = compute(o, "power", o->m, o->n, power_body);
  o->computed[2] = compute(o, "sum", o->m, NULL, sum_body);
  o->args[o->num_args++] = compute(o, "out", o->m, o->n, share_body);
}

/* Reshapes one after the other: transposed, and in one dimension. */
static const BpIrNode *flat_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *size = te_op(te, BP_IR_MUL, o->m, o->n);
  const BpIrNode *at = te_op(te, BP_IR_SUB, axes[0], size);
  const BpIrNode *first = te_read2(te, o->args[0], te_op(te, BP_IR_FLOORMOD, axes[0], o->m),
                                   te_op(te, BP_IR_FLOORDIV, axes[0], o->m));
  const BpIrNode *second = te_read2(te, o->args[1], te_op(te, BP_IR_FLOORDIV, at, o->n),
                                    te_op(te, BP_IR_FLOORMOD, at, o->n));
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_LT, axes[0], size), first, second);
}

static void make_flat(Open *o) {
  input(o, "x", o->m, o->n);
  input(o, "y", o->k, o->n);
  const BpIrNode *rows = te_op(o->te, BP_IR_ADD, o->m, o->k);
  o->args[o->num_args++] = compute(o, "out", te_op(o->te, BP_IR_MUL, rows, o->n), NULL, flat_body);
}

/* k steps, each with a product of the states of n rows; rows end before the last step. */
static const BpIrNode *step_product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", WIDTH);
  const BpIrNode *state = bp_te_read(te, o->computed[0], (const BpIrNode *[]){axes[0], axes[1], k});
  return bp_te_reduce(te, BP_TE_SUM,
                      te_op(te, BP_IR_MUL, state, te_read2(te, o->args[1], k, axes[2])), &k, 1);
}

static const BpIrNode *start_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_read2(te, ((Open *)context)->args[2], axes[0], axes[1]);
}

static const BpIrNode *limit_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  return te_op(te, BP_IR_SUB, te_op(te, BP_IR_ADD, o->k, te_int(te, 2)), axes[0]);
}

static int step_body(BpTe *te, const BpIrNode *const *axes, void *context,
                     const BpIrNode **values) {
  Open *o = context;
  const BpIrNode *sum =
      te_op(te, BP_IR_ADD, bp_te_read(te, o->computed[1], axes), bp_te_read(te, o->args[0], axes));
  sum = te_op(te, BP_IR_MAX, sum, te_float(te, -8));
  values[0] = te_op(te, BP_IR_MIN, sum, te_float(te, 8)); /* sums stay exact */
  return 0;
}

static void make_scan(Open *o, int32_t is_reverse) {
  const BpIrNode *width = te_int(o->te, WIDTH), *extents[] = {o->k, o->n, width};
  BpTeTensor *each, *last;
  o->args[0] = bp_te_placeholder_open(o->te, "x", te_f32, extents, 3);
  o->num_args = 1;
  input(o, "w", width, width);
  input(o, "start", o->n, width);
  BpTeScan *scan = bp_te_scan_begin_open(o->te, "steps", extents, 3, 0, is_reverse);
  assert_ok(!scan);
  o->computed[0] = bp_te_scan_state(scan, "state", te_f32, start_body, o);
  if (is_reverse)
    assert_ok(bp_te_scan_limit(scan, limit_body, o));
  o->computed[1] = bp_te_compute_open(o->te, "product", extents, 3, step_product_body, o);
  assert_ok(!o->computed[1] || bp_te_scan_end(scan, step_body, o, 1, &each, &last));
  o->args[o->num_args++] = last;
  o->args[o->num_args++] = each;
}

static void make_forward_scan(Open *o) {
  make_scan(o, 0);
}

static void make_backward_scan(Open *o) {
  make_scan(o, 1);
}

/* The sums of all rows so far: no element depends on its neighbours. */
static int running_body(BpTe *te, const BpIrNode *const *axes, void *context,
                        const BpIrNode **values) {
  Open *o = context;
  values[0] =
      te_op(te, BP_IR_ADD, bp_te_read(te, o->computed[0], axes), bp_te_read(te, o->args[0], axes));
  return 0;
}

static void make_sums(Open *o) {
  BpTeTensor *each, *last;
  input(o, "x", o->m, o->n);
  BpTeScan *scan = bp_te_scan_begin_open(o->te, "sums", (const BpIrNode *[]){o->m, o->n}, 2, 0, 0);
  assert_ok(!scan);
  o->computed[0] = bp_te_scan_state(scan, "sum", te_f32, NULL, NULL);
  assert_ok(bp_te_scan_end(scan, running_body, o, 1, &each, &last));
  o->args[o->num_args++] = each;
}

static const struct {
  const char *name;
  void (*make)(Open *o);
  int64_t most; /* largest extent of a run */
  int needed;   /* extents that must be open, as bits */
} computations[] = {
    {"product", make_product, 100, 0},
    {"softmax", make_softmax, 100, 0},
    {"flat", make_flat, 100, 0},
    {"forward scan", make_forward_scan, 16, 4},
    {"backward scan", make_backward_scan, 16, 6},
    {"sums", make_sums, 100, 3},
    {"dear product", make_dear_product, 100, 0},
};

/* Indices among the computations. */
#define SOFTMAX      1
#define DEAR_PRODUCT 6

#define GREATEST 5000

static int64_t likely = 40;

/* Makes a computation. The bits of `open` say which of m, n and k are open; the others have the
 * given extents. */
static void make_open(Open *o, size_t which, int open, const int64_t *extents) {
  const BpIrNode **nodes[] = {&o->m, &o->n, &o->k};
  static const char *const names[] = {"m", "n", "k"};
  *o = (Open){.te = bp_te_create()};
  for (int i = 0; i < 3; i++)
    *nodes[i] = open & 1 << i ? bp_te_open_extent(o->te, names[i], likely, GREATEST)
                              : te_int(o->te, extents[i]);
  computations[which].make(o);
}

static BpIrModule *lowered(Open *o) {
  BpIrModule *module = bp_ir_module_create();
  assert_ok(bp_te_lower(o->te, "f", o->args, o->num_args, NULL, module));
  assert_ok(bp_ir_verify(module));
  return module;
}

/* Makes arrays for the arguments of a computation whose extents are all known. */
static void make_arrays(const Open *closed, TeArray **arrays) {
  GRand *random = g_rand_new_with_seed(7);
  for (int32_t i = 0; i < closed->num_args; i++) {
    arrays[i] = te_array_new(closed->args[i]);
    te_fill(arrays[i], random);
  }
  g_rand_free(random);
}

static int call_open(BpFunction *f, TeArray **arrays, int32_t count, int open,
                     const int64_t *extents) {
  BpValue values[8], result;
  for (int32_t i = 0; i < count; i++)
    values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &arrays[i]->view};
  for (int i = 0; i < 3; i++)
    if (open & 1 << i)
      values[count++] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = extents[i]};
  return bp_function_call(f, values, count, &result);
}

/* Runs a computation for these extents and compares it with the interpreter. */
static void check_extents(BpFunction *f, size_t which, int open, const int64_t *extents) {
  Open closed;
  TeArray *expected[5], *found[5];
  make_open(&closed, which, 0, extents);
  make_arrays(&closed, expected);
  make_arrays(&closed, found);
  te_run(closed.te, closed.args, expected, closed.num_args);
  assert_ok(call_open(f, found, closed.num_args, open, extents));
  char *name =
      g_strdup_printf("%s %d of %" G_GINT64_FORMAT "x%" G_GINT64_FORMAT "x%" G_GINT64_FORMAT,
                      computations[which].name, open, extents[0], extents[1], extents[2]);
  for (int32_t i = 0; i < closed.num_args; i++) {
    for (int64_t k = 0; k < found[i]->size; k++)
      assert_same_element(name, found[i]->view.data, expected[i]->view.data, k, te_f32);
    te_array_free(expected[i]);
    te_array_free(found[i]);
  }
  g_free(name);
  bp_te_free(closed.te);
}

static BpFunction *build_open(size_t which, int open, const int64_t *extents, const char *text,
                              BpModule **code) {
  Open o;
  BpFunction *f = NULL;
  BpTarget *target = bp_target_parse(text);
  assert_ok(!target);
  make_open(&o, which, open, extents);
  assert_ok(bp_schedule_auto(o.te, &o.args[o.num_args - 1], 1, target));
  BpIrModule *module = lowered(&o);
  *code = build_ok(module, text);
  assert_ok(bp_module_get_function(*code, "f", 1, &f));
  g_assert_nonnull(f);
  bp_object_release(module);
  bp_object_release(target);
  bp_te_free(o.te);
  return f;
}

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 64, 100};

static void check_target(const char *target, int open) {
  for (size_t which = 0; which < G_N_ELEMENTS(computations); which++) {
    if ((open & computations[which].needed) != computations[which].needed)
      continue;
    int64_t extents[] = {13, 11, 9};
    BpModule *code;
    BpFunction *f = build_open(which, open, extents, target, &code);
    for (size_t i = 0; i < 3 * G_N_ELEMENTS(sizes); i++) {
      int64_t some[] = {13, 11, 9};
      for (int d = 0; d < 3; d++)
        if (open & 1 << d)
          some[d] = sizes[(i * (size_t)(2 * d + 1) + i / G_N_ELEMENTS(sizes) * (size_t)d) %
                          G_N_ELEMENTS(sizes)];
      if (some[0] <= computations[which].most && some[1] <= computations[which].most &&
          some[2] <= computations[which].most)
        check_extents(f, which, open, some);
    }
    bp_object_release(f);
    bp_object_release(code);
  }
}

/* Only one target is compiled with optimization, which takes most of the time. An optimizer that
 * gets wrong facts about the code generates wrong code. */
static void test_c_code_takes_every_extent(void) {
  check_target("c -options=-O0", 1);
  check_target("c -vector_bits=128 -options=-O1", 7);
  check_target("c -vector_bits=0 -options=-O0", 2);
}

static void test_llvm_code_takes_every_extent(void) {
  for (int open = 1; open < 8; open++)
    check_target(open == 7 ? "llvm -opt=1" : "llvm -opt=0", open);
}

/* ---- Panels ------------------------------------------------------------------------------ */

/* Returns how many versions of the dear product of `rows` rows, or an open number if 0, have a
 * panel; *has_branch is set to whether the number of rows chooses a version. */
static int count_panels(int64_t rows, bool *has_branch) {
  int count = 0;
  Open o;
  BpTarget *target = bp_target_parse("c -vector_bits=256 -num_cores=2");
  make_open(&o, DEAR_PRODUCT, rows == 0, (const int64_t[]){rows, 48, 64});
  assert_ok(bp_schedule_auto(o.te, &o.args[o.num_args - 1], 1, target));
  BpIrModule *module = lowered(&o);
  char *text = bp_ir_print(module);
  for (const char *at = text; (at = strstr(at, "(allocate (buffer product_panel")); at++)
    count++;
  *has_branch = strstr(text, "(if (ge (add m -17) 0)") != NULL;
  bp_str_free(text);
  bp_object_release(module);
  bp_object_release(target);
  bp_te_free(o.te);
  return count;
}

/* A panel of the operand is stored for many rows, and its values stay in registers for few rows;
 * one function for any number of rows has both versions. */
static void test_dear_operands_are_stored_for_many_rows(void) {
  bool has_branch;
  g_assert_cmpint(count_panels(4, &has_branch), ==, 0);
  g_assert_false(has_branch);
  g_assert_cmpint(count_panels(40, &has_branch), ==, 1);
  g_assert_false(has_branch);
  g_assert_cmpint(count_panels(0, &has_branch), ==, 1);
  g_assert_true(has_branch);
}

/* Rows of an open length are reduced in lanes, also if they are probably shorter than two vectors.
 */
static void test_open_rows_are_reduced_in_lanes(void) {
  Open o;
  BpTarget *target = bp_target_parse("c -vector_bits=1024");
  make_open(&o, SOFTMAX, 3, (const int64_t[]){0, 0, 0});
  assert_ok(bp_schedule_auto(o.te, &o.args[o.num_args - 1], 1, target));
  BpIrModule *module = lowered(&o);
  char *text = bp_ir_print(module);
  g_assert_nonnull(strstr(text, "(reduce max "));
  g_assert_nonnull(strstr(text, "(reduce add "));
  bp_str_free(text);
  bp_object_release(module);
  bp_object_release(target);
  bp_te_free(o.te);
}

/* The text of a computation under the schedule for a target (transfer full, bp_str_free). */
static char *scheduled_text(size_t which, int open, const int64_t *extents) {
  Open o;
  BpTarget *target = bp_target_parse("c -vector_bits=256 -num_cores=1");
  make_open(&o, which, open, extents);
  assert_ok(bp_schedule_auto(o.te, &o.args[o.num_args - 1], 1, target));
  BpIrModule *module = lowered(&o);
  char *text = bp_ir_print(module);
  bp_object_release(module);
  bp_object_release(target);
  bp_te_free(o.te);
  return text;
}

/* The memory of a row of open length serves all rows, also if there is probably one row. */
static void test_memory_of_open_rows_is_allocated_once(void) {
  likely = 1;
  char *text = scheduled_text(SOFTMAX, 3, (const int64_t[]){0, 0, 0});
  likely = 40;
  const char *memory = strstr(text, "(allocate (buffer power float32 local 1 n)");
  const char *rows = strstr(text, "(for i0");
  if (!memory || !rows || memory > rows)
    g_error("%s", text);
  bp_str_free(text);
}

/* The place after an operand, which begins at `at`. */
static const char *after_operand(const char *at) {
  int depth = 0;
  at += strspn(at, " \n");
  do
    depth += (*at == '(') - (*at == ')');
  while (*++at && (depth > 0 || !strchr(" )\n", *at)));
  return at;
}

/* Accumulators of columns fewer than a tile's are stored without masks, so they are in registers.
 */
static void test_sums_of_few_columns_are_in_registers(void) {
  char *text = scheduled_text(0, 2, (const int64_t[]){8, 0, 16});
  int count = 0;
  for (const char *at = text; (at = strstr(at, "(store product")); count++) {
    at = after_operand(after_operand(after_operand(at + strlen("(store "))));
    if (*at != ')')
      g_error("%s", text);
  }
  g_assert_cmpint(count, >, 0);
  bp_str_free(text);
}

/* ---- Tails ------------------------------------------------------------------------------- */

/* Returns the number of conditions in the code if the open number of rows of the sum, or of the
 * output that reads it, is split into unrolled tiles of 4. */
static int count_conditions(bool is_product, int32_t tail) {
  int count = 0;
  Open o;
  BpTeAxis *outer, *inner;
  make_open(&o, 0, 1, (const int64_t[]){13, 8, 8});
  BpTeStage *stage = bp_te_stage(o.te, is_product ? o.computed[0] : o.args[o.num_args - 1]);
  assert_ok(bp_te_split(stage, bp_te_stage_axis(stage, 0), 4, tail, &outer, &inner));
  assert_ok(bp_te_unroll(stage, inner));
  BpIrModule *module = lowered(&o);
  char *text = bp_ir_print(module);
  for (const char *at = text; (at = strstr(at, "(if ")); at++)
    count++;
  bp_str_free(text);
  bp_object_release(module);
  bp_te_free(o.te);
  return count;
}

/* The last tile moves back, so the only condition asks whether there is a whole tile. Sums must not
 * be added twice, so their last tile skips its elements beyond the end. */
static void test_last_tile_moves_back_unless_it_accumulates(void) {
  g_assert_cmpint(count_conditions(false, BP_TE_TAIL_BALANCE), ==, 1);
  g_assert_cmpint(count_conditions(false, BP_TE_TAIL_OVERLAP), ==, 1);
  g_assert_cmpint(count_conditions(false, BP_TE_TAIL_PEEL), >=, 4);
  g_assert_cmpint(count_conditions(true, BP_TE_TAIL_BALANCE), >=, 4);
}

/* A product that is doubled 64 times: an expression of few nodes, and of 2^64 paths. */
static const BpIrNode *doubled_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Open *o = context;
  const BpIrNode *k = bp_te_reduce_axis_open(te, "k", o->k);
  const BpIrNode *product = te_op(te, BP_IR_MUL, te_read2(te, o->args[0], axes[0], k),
                                  te_read2(te, o->args[1], k, axes[1]));
  for (int i = 0; i < 64; i++)
    product = te_op(te, BP_IR_ADD, product, product);
  return bp_te_reduce(te, BP_TE_SUM, product, &k, 1);
}

/* ---- Lanes beyond a limit ---------------------------------------------------------------- */

#define COLUMNS 5

static BpTeTensor *mirrored_input, *doubled;

static const BpIrNode *double_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  (void)context;
  const BpIrNode *x = bp_te_read(te, mirrored_input, axes);
  return bp_ir_binary(bp_te_ir(te), BP_IR_ADD, x, x);
}

/* An element plus that in the same row in the mirrored column. */
static const BpIrNode *mirror_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  (void)context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *mirror[] = {
      axes[0], bp_ir_binary(ir, BP_IR_SUB, bp_ir_int(ir, te_i64, COLUMNS - 1), axes[1])};
  return bp_ir_binary(ir, BP_IR_ADD, bp_te_read(te, doubled, axes),
                      bp_te_read(te, doubled, mirror));
}

/* Makes the function "f" of `x`, n rows, and a result; a tile of eight rows has doubled elements,
 * computed in vectors along both axes. */
static BpIrModule *make_mirror(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *shape[] = {bp_te_open_extent(te, "n", 40, 5000),
                             bp_ir_int(bp_te_ir(te), te_i64, COLUMNS)};
  mirrored_input = bp_te_placeholder_open(te, "x", te_f32, shape, 2);
  doubled = bp_te_compute_open(te, "doubled", shape, 2, double_body, NULL);
  BpTeTensor *y = bp_te_compute_open(te, "y", shape, 2, mirror_body, NULL);
  BpTeStage *outer = bp_te_stage(te, y), *inner = bp_te_stage(te, doubled);
  BpTeAxis *tile, *row, *fused, *vectors, *lanes;
  assert_ok(bp_te_split(outer, bp_te_stage_axis(outer, 0), 8, BP_TE_TAIL_OVERLAP, &tile, &row));
  BpTeAxis *order[] = {tile, bp_te_stage_axis(outer, 1), row};
  assert_ok(bp_te_reorder(outer, order, 3));
  assert_ok(bp_te_vectorize(outer, row));
  assert_ok(bp_te_compute_at(inner, outer, tile));
  assert_ok(bp_te_set_scope(inner, BP_IR_SCOPE_LOCAL));
  assert_ok(bp_te_fuse(inner, bp_te_stage_axis(inner, 0), bp_te_stage_axis(inner, 1), &fused));
  assert_ok(bp_te_split(inner, fused, 16, BP_TE_TAIL_GUARD, &vectors, &lanes));
  assert_ok(bp_te_vectorize(inner, lanes));
  BpIrModule *module = bp_ir_module_create();
  assert_ok(bp_te_lower(te, "f", (BpTeTensor *[]){mirrored_input, y}, 2, NULL, module));
  bp_te_free(te);
  return module;
}

/* The interpreter refuses reads beyond the input. */
static void test_lanes_of_fused_axes_read_inside(void) {
  BpIrModule *module = make_mirror();
  for (int64_t n = 0; n <= 17; n++) {
    int64_t shape[] = {n, COLUMNS};
    float x[17 * COLUMNS], y[17 * COLUMNS];
    for (int64_t i = 0; i < n * COLUMNS; i++)
      x[i] = (float)(i + 1);
    BpTensorView in = {x, {BP_DEVICE_CPU, 0}, 2, te_f32, shape, NULL, 0}, out = in;
    out.data = y;
    BpValue args[] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &in},
                      {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &out},
                      {.type_index = BP_TYPE_INT, .v_int64 = n}};
    assert_ok(bp_ir_interpret(module, "f", args, 3));
    for (int64_t i = 0; i < n * COLUMNS; i++)
      g_assert_cmpfloat(y[i], ==, 2 * x[i] + 2 * x[i + COLUMNS - 1 - 2 * (i % COLUMNS)]);
  }
  bp_object_release(module);
}

static void test_shared_terms_are_looked_at_once(void) {
  Open o;
  BpTarget *target = bp_target_parse("c -vector_bits=256 -num_cores=2");
  make_open(&o, DEAR_PRODUCT, false, (const int64_t[]){40, 48, 64});
  BpTeTensor *sums = compute(&o, "sums", o.m, o.n, doubled_body);
  assert_ok(bp_schedule_auto(o.te, &sums, 1, target));
  bp_object_release(target);
  bp_te_free(o.te);
}

/* ---- Refused computations ---------------------------------------------------------------- */

static void assert_refused(BpFunction *f, TeArray **arrays, const int64_t *extents,
                           const char *why) {
  g_assert_cmpint(call_open(f, arrays, 2, 3, extents), !=, 0);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  if (!strstr(bp_error_message(), why))
    g_error("'%s' does not say: %s", bp_error_message(), why);
  bp_error_clear();
}

static void test_extents_that_do_not_fit_are_refused(void) {
  static const char *const targets[] = {"c", "llvm"};
  int64_t extents[] = {4, 6, 0};
  for (size_t i = 0; i < G_N_ELEMENTS(targets); i++) {
    Open closed;
    TeArray *arrays[2];
    BpModule *code;
    BpFunction *f = build_open(1, 3, extents, targets[i], &code);
    make_open(&closed, 1, 0, extents);
    make_arrays(&closed, arrays);
    assert_ok(call_open(f, arrays, 2, 3, extents));
    assert_refused(f, arrays, (const int64_t[]){5, 6, 0}, "dimension 0: expected extent 5");
    assert_refused(f, arrays, (const int64_t[]){4, -6, 0}, "dimension 1");
    arrays[0]->shape[0] = arrays[1]->shape[0] = GREATEST + 1;
    assert_refused(f, arrays, (const int64_t[]){GREATEST + 1, 6, 0}, "0 to 5000");
    for (int k = 0; k < 2; k++)
      te_array_free(arrays[k]);
    bp_te_free(closed.te);
    bp_object_release(f);
    bp_object_release(code);
  }
}

static void test_what_is_no_extent_is_refused(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *axis = bp_te_reduce_axis(te, "axis", 4);
  g_assert_null(bp_te_placeholder_open(te, "x", te_f32, &axis, 1));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  const BpIrNode *real = te_float(te, 4);
  g_assert_null(bp_te_placeholder_open(te, "x", te_f32, &real, 1));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  static const int64_t wrong[][2] = {{-1, 5}, {6, 5}, {1, INT64_C(1) << 31}};
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
    g_assert_null(bp_te_open_extent(te, "n", wrong[i][0], wrong[i][1]));
    g_assert_true(bp_error_is(BP_ERROR_VALUE));
    bp_error_clear();
  }
  bp_te_free(te);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/open/c-code-takes-every-extent", test_c_code_takes_every_extent);
  g_test_add_func("/te/open/llvm-code-takes-every-extent", test_llvm_code_takes_every_extent);
  g_test_add_func("/te/open/extents-that-do-not-fit-are-refused",
                  test_extents_that_do_not_fit_are_refused);
  g_test_add_func("/te/open/dear-operands-are-stored-for-many-rows",
                  test_dear_operands_are_stored_for_many_rows);
  g_test_add_func("/te/open/open-rows-are-reduced-in-lanes", test_open_rows_are_reduced_in_lanes);
  g_test_add_func("/te/open/memory-of-open-rows-is-allocated-once",
                  test_memory_of_open_rows_is_allocated_once);
  g_test_add_func("/te/open/sums-of-few-columns-are-in-registers",
                  test_sums_of_few_columns_are_in_registers);
  g_test_add_func("/te/open/last-tile-moves-back-unless-it-accumulates",
                  test_last_tile_moves_back_unless_it_accumulates);
  g_test_add_func("/te/open/lanes-of-fused-axes-read-inside", test_lanes_of_fused_axes_read_inside);
  g_test_add_func("/te/open/shared-terms-are-looked-at-once", test_shared_terms_are_looked_at_once);
  g_test_add_func("/te/open/what-is-no-extent-is-refused", test_what_is_no_extent_is_refused);
  return g_test_run();
}
