/* SPDX-License-Identifier: Apache-2.0 */
/* Loop partitioning: which decisions remain inside loops, and how much code their removal costs;
 * and the code of blocks that are transposed in registers. test-te-random-schedules checks that the
 * results do not change. */

#include <backplane/compiler/schedules.h>

#include "te-run.h"

#include <math.h>
#include <stdio.h>

#include "tests/compiler/ir-util.h"

/* The text of a lowering after the pass `pass`. */
typedef struct Seen {
  const char *pass;
  char *text;
} Seen;

static void keep_text(void *context, const char *pass, const char *text) {
  Seen *seen = context;
  if (strcmp(pass, seen->pass) == 0) {
    g_free(seen->text);
    seen->text = g_strdup(text);
  }
}

/* Returns the text after `pass` (g_free). */
static char *text_after(const char *pass, BpTe *te, BpTeTensor *const *args, int32_t count,
                        const char *without) {
  Seen seen = {.pass = pass};
  BpLowerOptions options = {
      .struct_size = sizeof options, .dump = keep_text, .dump_context = &seen, .without = without};
  BpIrModule *module = bp_ir_module_create();
  if (bp_te_lower(te, "f", args, count, &options, module) != 0)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  g_assert_nonnull(seen.text);
  return seen.text;
}

/* Fails unless `text` has a word that many times. */
static void expect_count(const char *text, const char *word, int count) {
  if (count_parts(text, word) != count)
    g_error("'%s' is there %d times and not %d:\n%s", word, count_parts(text, word), count, text);
}

/* ---- Parts ------------------------------------------------------------------------------- */

typedef struct Parts {
  BpTeTensor *first, *second;
  int64_t length; /* length of the first part */
} Parts;

static const BpIrNode *join_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Parts *parts = context;
  const BpIrNode *beyond = te_op(te, BP_IR_SUB, axes[1], te_int(te, parts->length));
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_LT, axes[1], te_int(te, parts->length)),
                      te_read2(te, parts->first, axes[0], axes[1]),
                      te_read2(te, parts->second, axes[0], beyond));
}

/* [4, length] and [4, 32 - length] joined to [4, 32]. */
static BpTeTensor *join(BpTe *te, int64_t length, BpTeTensor **args) {
  Parts parts = {bp_te_placeholder(te, "first", te_f32, (int64_t[]){4, length}, 2),
                 bp_te_placeholder(te, "second", te_f32, (int64_t[]){4, 32 - length}, 2), length};
  args[0] = parts.first;
  args[1] = parts.second;
  return args[2] = bp_te_compute(te, "joined", (int64_t[]){4, 32}, 2, join_body, &parts);
}

static void split_vectors(BpTeStage *stage, int32_t axis) {
  BpTeAxis *tile, *lane;
  if (bp_te_split(stage, bp_te_stage_axis(stage, axis), 8, BP_TE_TAIL_PEEL, &tile, &lane) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    g_error("%s", bp_error_message());
}

static void test_each_part_has_a_loop(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3];
  BpTeStage *stage = bp_te_stage(te, join(te, 16, args));
  split_vectors(stage, 1);
  char *text = text_after("partition", te, args, 3, NULL);
  expect_count(text, "select", 0);
  expect_count(text, "te.write", 2);
  g_free(text);
  bp_te_free(te);
}

/* The vector in which the parts meet keeps the select; the vectors before and after it do not. */
static void test_only_the_vector_between_parts_chooses(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3];
  BpTeStage *stage = bp_te_stage(te, join(te, 13, args));
  split_vectors(stage, 1);
  char *text = text_after("partition", te, args, 3, NULL);
  expect_count(text, "select", 1);
  expect_count(text, "te.write", 3);
  g_free(text);
  bp_te_free(te);
}

/* Splits a linear index as a memory access does: axes fused, and a quotient of the fused axis
 * compared. */
static void test_a_quotient_is_compared(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3];
  BpTeStage *stage = bp_te_stage(te, join(te, 16, args));
  BpTeAxis *rows = bp_te_stage_axis(stage, 1), *tile, *inside, *fused;
  if (bp_te_split(stage, rows, 4, BP_TE_TAIL_GUARD, &tile, &inside) != 0 ||
      bp_te_reorder(stage, (BpTeAxis *const[]){tile, bp_te_stage_axis(stage, 0), inside}, 3) != 0 ||
      bp_te_fuse(stage, tile, bp_te_stage_axis(stage, 0), &fused) != 0 ||
      bp_te_unroll(stage, inside) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("partition", te, args, 3, NULL);
  expect_count(text, "select", 0);
  g_free(text);
  bp_te_free(te);
}

/* ---- Open extents ------------------------------------------------------------------------- */

/* A sum of digits that tell the signs of quotients: one rounded towards 0, one by a negative
 * number. */
static const BpIrNode *signs_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *zero = te_int(te, 0), *ten = te_int(te, 10), *hundred = te_int(te, 100);
  const BpIrNode *place = te_op(te, BP_IR_SUB, axes[0], te_int(te, 7));
  const BpIrNode *truncated = te_op(te, BP_IR_DIV, place, te_int(te, 3));
  const BpIrNode *negated = te_op(te, BP_IR_FLOORDIV, axes[0], te_int(te, -3));
  (void)context;
  return te_op(te, BP_IR_ADD, bp_ir_select(ir, te_op(te, BP_IR_LT, truncated, zero), ten, zero),
               bp_ir_select(ir, te_op(te, BP_IR_LT, negated, zero), hundred, zero));
}

static void test_a_quotient_changes_its_sign_where_it_rounds(void) {
  BpTe *te = bp_te_create();
  const int64_t shape = 32;
  BpTeTensor *signs = bp_te_compute(te, "signs", &shape, 1, signs_body, NULL);
  split_vectors(bp_te_stage(te, signs), 0);
  TeArray *array = te_array_new(signs);
  te_run(te, &signs, &array, 1);
  for (int64_t i = 0; i < shape; i++)
    g_assert_cmpint(((const int64_t *)array->view.data)[i], ==,
                    ((i - 7) / 3 < 0 ? 10 : 0) + (i > 0 ? 100 : 0));
  te_array_free(array);
  bp_te_free(te);
}

/* ---- Regions ----------------------------------------------------------------------------- */

static const BpIrNode *twice_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  (void)context;
  return te_op(te, BP_IR_MUL, axes[0], te_int(te, 2));
}

static const BpIrNode *third_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *place = te_op(te, BP_IR_SUB, axes[0], te_int(te, 4));
  const BpIrNode *third = te_op(te, BP_IR_DIV, place, te_int(te, 3));
  return te_read1(te, context, te_op(te, BP_IR_ADD, third, te_int(te, 3)));
}

/* The stage that is read is computed in the loop, for the elements that one iteration reads. */
static void test_a_quotient_rounded_towards_0_has_its_region(void) {
  BpTe *te = bp_te_create();
  const int64_t shape = 12;
  BpTeTensor *twice = bp_te_compute(te, "twice", &shape, 1, twice_body, NULL);
  BpTeTensor *thirds = bp_te_compute(te, "thirds", &shape, 1, third_body, twice);
  BpTeStage *stage = bp_te_stage(te, thirds);
  BpTeAxis *tile, *inner;
  if (bp_te_split(stage, bp_te_stage_axis(stage, 0), 3, BP_TE_TAIL_GUARD, &tile, &inner) != 0 ||
      bp_te_compute_at(bp_te_stage(te, twice), stage, tile) != 0)
    g_error("%s", bp_error_message());
  TeArray *array = te_array_new(thirds);
  te_run(te, &thirds, &array, 1);
  for (int64_t i = 0; i < shape; i++)
    g_assert_cmpint(((const int64_t *)array->view.data)[i], ==, ((i - 4) / 3 + 3) * 2);
  te_array_free(array);
  bp_te_free(te);
}

static const BpIrNode *negated_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_op(te, BP_IR_SUB, te_float(te, 0), te_read2(te, context, axes[0], axes[1]));
}

/* Vectors of both axes of a matrix as one axis are loaded as vectors, in `loads` places. */
static void check_fused_axes(BpTe *te, const BpIrNode *rows, const BpIrNode *columns,
                             int32_t loads) {
  const BpIrNode *extents[] = {rows, columns};
  BpTeTensor *in = bp_te_placeholder_open(te, "in", te_f32, extents, 2);
  BpTeTensor *args[] = {in, bp_te_compute_open(te, "out", extents, 2, negated_body, in)};
  BpTeStage *stage = bp_te_stage(te, args[1]);
  BpTeAxis *fused, *tile, *lane;
  if (bp_te_fuse(stage, bp_te_stage_axis(stage, 0), bp_te_stage_axis(stage, 1), &fused) != 0 ||
      bp_te_split(stage, fused, 8, BP_TE_TAIL_PEEL, &tile, &lane) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("tidy", te, args, 2, NULL);
  expect_count(text, "(mod ", 0);
  expect_count(text, "(load in (ramp ", loads);
  g_free(text);
  bp_te_free(te);
}

static void test_a_fused_axis_of_open_extents_is_its_own_index(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *w = bp_te_open_extent(te, "w", 4, 100);
  check_fused_axes(te, bp_te_open_extent(te, "h", 6, 100), te_op(te, BP_IR_MUL, w, te_int(te, 8)),
                   1);
}

/* The columns are a sum of extents, of several of one extent, or of an extent and a number. */
static void test_a_fused_axis_of_a_sum_of_extents_is_its_own_index(void) {
  for (int32_t i = 0; i < 3; i++) {
    BpTe *te = bp_te_create();
    const BpIrNode *length = bp_te_open_extent(te, "length", 6, 100);
    const BpIrNode *past = i < 2 ? bp_te_open_extent(te, "past", 4, 100) : te_int(te, 3);
    const BpIrNode *more = te_op(te, BP_IR_MUL, past, te_int(te, i == 1 ? 5 : 1));
    check_fused_axes(te, length, te_op(te, BP_IR_ADD, length, more), 2);
  }
}

/* A matrix of open extents, and its number of rows. */
typedef struct Matrix {
  BpTeTensor *in;
  const BpIrNode *rows, *columns;
} Matrix;

static const BpIrNode *greatest_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Matrix *m = context;
  const BpIrNode *k[] = {bp_te_reduce_axis_open(te, "i", m->rows),
                         bp_te_reduce_axis_open(te, "j", m->columns)};
  (void)axes;
  return bp_te_reduce(te, BP_TE_MAX, bp_te_read(te, m->in, k), k, 2);
}

static const BpIrNode *triangle_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Matrix *m = context;
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_GE, axes[0], axes[1]),
                      bp_te_read(te, m->in, axes), te_float(te, 0));
}

/* The rows of the matrix twice. */
static const BpIrNode *stacked_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Matrix *m = context;
  const BpIrNode *later[] = {te_op(te, BP_IR_SUB, axes[0], m->rows), axes[1]};
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_LT, axes[0], m->rows),
                      bp_te_read(te, m->in, axes), bp_te_read(te, m->in, later));
}

/* Schedules for open extents divide no index: each lane would be divided. */
static void test_schedules_of_open_extents_divide_no_index(void) {
  const BpTeBody bodies[] = {greatest_body, triangle_body, stacked_body};
  for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++) {
    BpTe *te = bp_te_create();
    BpTarget *target = bp_target_parse("c -vector_bits=512 -num_cores=1");
    Matrix m = {.rows = bp_te_open_extent(te, "m", 64, 10000),
                .columns = bp_te_open_extent(te, "n", 64, 10000)};
    const BpIrNode *in[] = {m.rows, m.columns};
    const BpIrNode *out[] = {i == 0   ? te_int(te, 1)
                             : i == 1 ? m.rows
                                      : te_op(te, BP_IR_MUL, m.rows, te_int(te, 2)),
                             i == 0 ? te_int(te, 1) : m.columns};
    m.in = bp_te_placeholder_open(te, "in", te_f32, in, 2);
    BpTeTensor *args[] = {m.in, bp_te_compute_open(te, "out", out, 2, bodies[i], &m)};
    if (!target || !args[1] || bp_schedule_auto(te, &args[1], 1, target) != 0)
      g_error("%s", bp_error_message());
    char *text = text_after("tidy", te, args, 2, NULL);
    expect_count(text, "(mod ", 0);
    g_assert_nonnull(strstr(text, "(load in (ramp "));
    g_free(text);
    bp_object_release(target);
    bp_te_free(te);
  }
}

static const BpIrNode *pieces_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *at[] = {te_op(te, BP_IR_FLOORDIV, axes[0], te_int(te, 16)),
                          te_op(te, BP_IR_FLOORMOD, axes[0], te_int(te, 16))};
  return te_op(te, BP_IR_SUB, te_float(te, 0), bp_te_read(te, context, at));
}

/* 128 pieces of 16 elements, in tiles of three: the last tile begins where the one before ends. */
static void test_a_minimum_of_multiples_is_a_multiple(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *in = bp_te_placeholder(te, "in", te_f32, (int64_t[]){128, 16}, 2);
  BpTeTensor *args[] = {in, bp_te_compute(te, "out", (int64_t[]){2048}, 1, pieces_body, in)};
  BpTeStage *stage = bp_te_stage(te, args[1]);
  BpTeAxis *tile, *part, *piece, *lane;
  if (bp_te_split(stage, bp_te_stage_axis(stage, 0), 48, BP_TE_TAIL_OVERLAP, &tile, &part) != 0 ||
      bp_te_split(stage, part, 16, BP_TE_TAIL_PEEL, &piece, &lane) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("tidy", te, args, 2, NULL);
  expect_count(text, "(mod ", 0);
  expect_count(text, "(load in (ramp ", 1);
  g_free(text);
  bp_te_free(te);
}

typedef struct Edge {
  BpTeTensor *in;
  const BpIrNode *extent;
} Edge;

static const BpIrNode *later_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *at[] = {te_op(te, BP_IR_ADD, axes[0], te_int(te, 1)), axes[1], axes[2]};
  return te_op(te, BP_IR_SUB, te_float(te, 0), bp_te_read(te, context, at));
}

/* All blocks of [g + 1, h, w] but the first: an index into a fused axis, plus the extent of a
 * block.
 */
static void check_later_blocks(const BpIrNode *(*count)(BpTe *te)) {
  BpTe *te = bp_te_create();
  const BpIrNode *extents[] = {te_op(te, BP_IR_ADD, count(te), te_int(te, 1)),
                               bp_te_open_extent(te, "h", 6, 100),
                               bp_te_open_extent(te, "w", 4, 100)};
  BpTeTensor *in = bp_te_placeholder_open(te, "in", te_f32, extents, 3);
  extents[0] = te_op(te, BP_IR_SUB, extents[0], te_int(te, 1));
  BpTeTensor *args[] = {in, bp_te_compute_open(te, "out", extents, 3, later_body, in)};
  BpTeStage *stage = bp_te_stage(te, args[1]);
  BpTeAxis *fused = bp_te_stage_axis(stage, 0), *tile, *lane;
  for (int32_t i = 1; i < 3; i++)
    if (bp_te_fuse(stage, fused, bp_te_stage_axis(stage, i), &fused) != 0)
      g_error("%s", bp_error_message());
  if (bp_te_split(stage, fused, 8, BP_TE_TAIL_PEEL, &tile, &lane) != 0 ||
      bp_te_vectorize(stage, lane) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("tidy", te, args, 2, NULL);
  expect_count(text, "(mod ", 0);
  expect_count(text, "(load in (ramp ", 2);
  g_free(text);
  bp_te_free(te);
}

static const BpIrNode *one_block(BpTe *te) {
  return te_int(te, 1);
}

static const BpIrNode *open_blocks(BpTe *te) {
  return bp_te_open_extent(te, "g", 3, 100);
}

static void test_a_fused_axis_beside_an_open_distance_is_its_own_index(void) {
  check_later_blocks(one_block);
  check_later_blocks(open_blocks);
}

static const BpIrNode *clamped_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Edge *edges = context;
  const BpIrNode *at[3] = {axes[0], axes[1], axes[2]};
  for (int32_t i = 0; i < 2; i++)
    at[i] = te_op(te, BP_IR_MIN, axes[i], te_op(te, BP_IR_SUB, edges[i].extent, te_int(te, 1)));
  return bp_te_read(te, edges[0].in, at);
}

/* Minima of open extents outside of the innermost loop cost less than copies of that loop. */
static void test_an_open_minimum_outside_of_the_innermost_loop_stays(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *small[] = {bp_te_open_extent(te, "a", 6, 100), bp_te_open_extent(te, "b", 6, 100),
                             bp_te_open_extent(te, "c", 6, 100)};
  const BpIrNode *large[] = {bp_te_open_extent(te, "d", 6, 100), bp_te_open_extent(te, "e", 6, 100),
                             small[2]};
  BpTeTensor *in = bp_te_placeholder_open(te, "in", te_f32, small, 3);
  Edge edges[] = {{in, small[0]}, {in, small[1]}};
  BpTeTensor *args[] = {in, bp_te_compute_open(te, "out", large, 3, clamped_body, edges)};
  char *text = text_after("partition", te, args, 2, NULL);
  expect_count(text, "te.write", 1);
  expect_count(text, "(min", 2);
  g_free(text);
  bp_te_free(te);
}

/* A tile of 24 squares, and the row whose tiles are computed. */
static const BpIrNode *squares_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  (void)context;
  const BpIrNode *at = te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, axes[0], te_int(te, 24)), axes[1]);
  return bp_ir_cast(bp_te_ir(te), te_f32, te_op(te, BP_IR_MUL, at, at));
}

static const BpIrNode *row_of_tiles_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_read2(te, context, te_op(te, BP_IR_FLOORDIV, axes[0], te_int(te, 24)),
                  te_op(te, BP_IR_FLOORMOD, axes[0], te_int(te, 24)));
}

/* The last tile is computed by the code of the others, and only stored by code of its own. */
static void test_a_small_part_of_a_loop_takes_a_branch(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *extent = bp_te_open_extent(te, "n", 100, 10000);
  const BpIrNode *tiles =
      te_op(te, BP_IR_DIV, te_op(te, BP_IR_ADD, extent, te_int(te, 23)), te_int(te, 24));
  const BpIrNode *shape[] = {tiles, te_int(te, 24)};
  BpTeTensor *squares = bp_te_compute_open(te, "squares", shape, 2, squares_body, NULL);
  BpTeTensor *out = bp_te_compute_open(te, "out", &extent, 1, row_of_tiles_body, squares);
  BpTeStage *stage = bp_te_stage(te, out), *inner = bp_te_stage(te, squares);
  BpTeAxis *tile, *place;
  if (bp_te_split(stage, bp_te_stage_axis(stage, 0), 24, BP_TE_TAIL_GUARD, &tile, &place) != 0 ||
      bp_te_unroll(stage, place) != 0 || bp_te_compute_at(inner, stage, tile) != 0 ||
      bp_te_set_scope(inner, BP_IR_SCOPE_LOCAL) != 0 ||
      bp_te_unroll(inner, bp_te_stage_axis(inner, 0)) != 0 ||
      bp_te_unroll(inner, bp_te_stage_axis(inner, 1)) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("partition", te, &out, 1, NULL);
  expect_count(text, "\"te.write\" squares", 1);
  expect_count(text, "\"te.write\" out", 2);
  g_free(text);
  bp_te_free(te);
}

/* in[x] up to the extent, then zeros. */
static const BpIrNode *extended_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Edge *edge = context;
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_LT, axes[0], edge->extent),
                      te_read1(te, edge->in, axes[0]), te_float(te, 0));
}

static const BpIrNode *sum_of_two_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpTeTensor **parts = context;
  return te_op(te, BP_IR_ADD, te_read1(te, parts[0], axes[0]), te_read1(te, parts[1], axes[0]));
}

/* Two choices that change at one place divide a loop once. */
static void test_two_choices_of_one_place_divide_a_loop_once(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *n = bp_te_open_extent(te, "n", 20, 1000);
  const BpIrNode *longer[] = {te_op(te, BP_IR_ADD, n, te_int(te, 30))};
  Edge edges[2];
  BpTeTensor *args[3], *parts[2];
  for (int32_t i = 0; i < 2; i++) {
    args[i] = bp_te_placeholder_open(te, i ? "b" : "a", te_f32, &n, 1);
    edges[i] = (Edge){args[i], n};
    parts[i] =
        bp_te_compute_open(te, i ? "longer_b" : "longer_a", longer, 1, extended_body, &edges[i]);
    if (bp_te_compute_inline(bp_te_stage(te, parts[i])) != 0)
      g_error("%s", bp_error_message());
  }
  args[2] = bp_te_compute_open(te, "sum", longer, 1, sum_of_two_body, parts);
  char *text = text_after("partition", te, args, 3, NULL);
  expect_count(text, "select", 0);
  expect_count(text, "te.write", 2);
  g_free(text);
  bp_te_free(te);
}

static const BpIrNode *switched_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Edge *edges = context;
  const BpIrNode *at[2];
  for (int32_t i = 0; i < 2; i++)
    at[i] = te_op(te, BP_IR_MUL, axes[i],
                  bp_ir_cast(bp_te_ir(te), (BpDataType){BP_DTYPE_INT, 64, 1},
                             te_op(te, BP_IR_LT, te_int(te, 1), edges[i].extent)));
  return bp_te_read(te, edges[0].in, at);
}

/* Extents that are 1 or those of the result. The loop over the vectors has a version that reads
 * neighbours, and one that reads one element; the outer loop has none. */
static void test_an_index_times_a_comparison_divides_the_innermost_loop(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *from[] = {bp_te_open_extent(te, "a", 6, 100), bp_te_open_extent(te, "b", 6, 100)};
  const BpIrNode *to[] = {bp_te_open_extent(te, "c", 6, 100), bp_te_open_extent(te, "d", 6, 100)};
  BpTeTensor *in = bp_te_placeholder_open(te, "in", te_f32, from, 2);
  Edge edges[] = {{in, from[0]}, {in, from[1]}};
  BpTeTensor *args[] = {in, bp_te_compute_open(te, "out", to, 2, switched_body, edges)};
  split_vectors(bp_te_stage(te, args[1]), 1);
  char *text = text_after("tidy", te, args, 2, NULL);
  expect_count(text, "(store out ", 4); /* two for full vectors, two for the last */
  expect_count(text, "(load in (ramp ", 2);
  g_free(text);
  bp_te_free(te);
}

static const BpIrNode *shape_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *const *extents = context, *value = te_int(te, 1);
  for (int32_t i = 0; i < 2; i++)
    value = bp_ir_select(ir, te_op(te, BP_IR_EQ, axes[0], te_int(te, i)), extents[i], value);
  return value;
}

/* A shape as a tensor: each element is stored without a choice. */
static void test_elements_of_a_shape_are_stored_one_by_one(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *extents[] = {bp_te_open_extent(te, "a", 6, 100),
                               bp_te_open_extent(te, "b", 6, 100)};
  BpTeTensor *shape = bp_te_compute(te, "shape", (int64_t[]){3}, 1, shape_body, (void *)extents);
  BpTarget *target = bp_target_parse("c");
  if (!shape || !target || bp_schedule_auto(te, &shape, 1, target) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("tidy", te, &shape, 1, NULL);
  expect_count(text, "(store shape ", 3);
  expect_count(text, "select", 0);
  g_free(text);
  bp_object_release(target);
  bp_te_free(te);
}

/* A parallel loop stays one loop, with one branch inside. */
static void test_a_parallel_loop_is_not_split(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3];
  BpTeStage *stage = bp_te_stage(te, join(te, 16, args));
  BpTeAxis *const order[] = {bp_te_stage_axis(stage, 1), bp_te_stage_axis(stage, 0)};
  if (bp_te_reorder(stage, order, 2) != 0 || bp_te_parallel(stage, order[0]) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("partition", te, args, 3, NULL);
  expect_count(text, "parallel", 1);
  expect_count(text, "(if ", 1);
  expect_count(text, "select", 0);
  g_free(text);
  bp_te_free(te);
}

/* ---- Edges ------------------------------------------------------------------------------- */

#define MOST_DIMS 7

static const BpIrNode *mirror_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpTeTensor *source = context;
  const BpIrNode *at[MOST_DIMS];
  for (int32_t i = 0; i < bp_te_tensor_ndim(source); i++) {
    const BpIrNode *x = te_op(te, BP_IR_SUB, axes[i], te_int(te, 1));
    x = te_op(te, BP_IR_MAX, x, te_op(te, BP_IR_SUB, te_int(te, 0), x));
    const BpIrNode *last = te_int(te, 2 * bp_te_tensor_shape(source)[i] - 2);
    at[i] = te_op(te, BP_IR_MIN, x, te_op(te, BP_IR_SUB, last, x));
  }
  return bp_te_read(te, source, at);
}

/* A tensor mirrored at the edges of all its dimensions. */
static BpTeTensor *mirror(BpTe *te, int32_t ndim, BpTeTensor **args) {
  int64_t shape[MOST_DIMS], larger[MOST_DIMS];
  for (int32_t i = 0; i < ndim; i++)
    larger[i] = (shape[i] = 4 + i) + 2;
  args[0] = bp_te_placeholder(te, "source", te_f32, shape, ndim);
  return args[1] = bp_te_compute(te, "mirrored", larger, ndim, mirror_body, args[0]);
}

static void test_edges_have_loops_of_their_own(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[2];
  mirror(te, 2, args);
  char *text = text_after("partition", te, args, 2, NULL);
  expect_count(text, "(min", 0);
  expect_count(text, "(max", 0);
  expect_count(text, "te.write", 9);
  g_free(text);
  bp_te_free(te);
}

static const BpIrNode *window_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *tap = bp_te_reduce_axis(te, "tap", 3);
  const BpIrNode *at = te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, axes[0], te_int(te, 2)), tap);
  at = te_op(te, BP_IR_SUB, at, te_int(te, 1));
  const BpIrNode *value = bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_GE, at, te_int(te, 0)),
                                       te_read1(te, context, at), te_float(te, -INFINITY));
  return bp_te_reduce(te, BP_TE_MAX, value, &tap, 1);
}

/* Maxima of three elements, by steps of two, by vectors of eight: each of the three taps has lanes
 * on both sides of the edge, so the loop over the taps decides nothing. */
static void test_a_vector_beside_the_edge_does_not_choose(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[2];
  args[0] = bp_te_placeholder(te, "source", te_f32, (int64_t[]){64}, 1);
  args[1] = bp_te_compute(te, "maxima", (int64_t[]){32}, 1, window_body, args[0]);
  BpTeStage *stage = bp_te_stage(te, args[1]);
  BpTeAxis *outer, *inner;
  if (bp_te_split(stage, bp_te_stage_axis(stage, 0), 8, BP_TE_TAIL_PEEL, &outer, &inner) != 0)
    g_error("%s", bp_error_message());
  BpTeAxis *const order[] = {outer, bp_te_stage_axis(stage, 1), inner};
  if (bp_te_reorder(stage, order, 3) != 0 || bp_te_vectorize(stage, inner) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("partition", te, args, 2, NULL);
  expect_count(text, "(select", 1);
  expect_count(text, "\"te.read\" source", 2);
  g_free(text);
  bp_te_free(te);
}

/* Edges of seven dimensions would be 2,187 loops. */
static void test_code_grows_by_a_bounded_amount(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[2];
  mirror(te, MOST_DIMS, args);
  char *text = text_after("partition", te, args, 2, NULL);
  g_assert_cmpint(count_parts(text, "te.write"), >, 100);
  g_assert_cmpint(count_parts(text, "te.write"), <=, 513);
  g_free(text);
  bp_te_free(te);
}

/* The extents of a buffer are constant, so selects on them are no decision. */
static void test_extents_of_a_buffer_are_no_choice(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *n = bp_te_open_extent(te, "n", 8, 100);
  const BpIrNode *most =
      te_op(te, BP_IR_MAX, te_op(te, BP_IR_SUB, n, te_int(te, 1)), te_int(te, 1));
  const BpIrNode *const extents[] = {n, most};
  BpTeTensor *in = bp_te_placeholder_open(te, "in", te_f32, extents, 2);
  BpTeTensor *args[] = {in, bp_te_compute_open(te, "out", extents, 2, negated_body, in)};
  char *text = text_after("partition", te, args, 2, NULL);
  expect_count(text, "(if ", 0);
  expect_count(text, "te.write", 1);
  g_free(text);
  bp_te_free(te);
}

/* ---- Masks ------------------------------------------------------------------------------- */

/* All lanes of a vector read the same tensor: the select becomes a branch, because the address in
 * the other tensor may be far out of bounds. */
static void test_lanes_that_agree_take_a_branch(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[3];
  BpTeStage *stage = bp_te_stage(te, join(te, 16, args));
  BpTeAxis *rows = bp_te_stage_axis(stage, 0);
  BpTeAxis *const order[] = {bp_te_stage_axis(stage, 1), rows};
  if (bp_te_reorder(stage, order, 2) != 0 || bp_te_vectorize(stage, rows) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("vectorize", te, args, 3, "partition");
  expect_count(text, "(if ", 1);
  expect_count(text, "select", 0);
  expect_count(text, "(load", 2);
  g_free(text);
  bp_te_free(te);
}

/* ---- Blocks ------------------------------------------------------------------------------ */

/* Counts which comparisons of a place and of its negative with a number of a tensor are true. */
static const BpIrNode *compared_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *number = te_read1(te, context, axes[0]), *count = te_int(te, 0);
  const BpIrNode *negative = te_op(te, BP_IR_SUB, te_int(te, 0), axes[1]);
  const BpIrNode *comparisons[] = {
      te_op(te, BP_IR_LT, axes[1], number), te_op(te, BP_IR_GE, axes[1], number),
      te_op(te, BP_IR_LE, number, negative), te_op(te, BP_IR_GT, number, negative)};
  for (int i = 0; i < 4; i++)
    count = te_op(te, BP_IR_ADD, count,
                  bp_ir_select(ir, comparisons[i], te_int(te, 1 << i), te_int(te, 0)));
  return count;
}

static void test_lanes_are_compared_with_any_number(void) {
  static const int64_t numbers[] = {INT64_MIN, INT64_MIN + 9, -17, 0, 12, INT64_MAX - 9, INT64_MAX};
  const int64_t shape[] = {G_N_ELEMENTS(numbers), 40};
  BpTe *te = bp_te_create();
  BpTeTensor *args[2] = {bp_te_placeholder(te, "numbers", te_i64, shape, 1)};
  args[1] = bp_te_compute(te, "counts", shape, 2, compared_body, args[0]);
  split_vectors(bp_te_stage(te, args[1]), 1);
  TeArray *arrays[] = {te_array_new(args[0]), te_array_new(args[1])};
  memcpy(arrays[0]->view.data, numbers, sizeof numbers);
  te_run(te, args, arrays, 2);
  for (int64_t i = 0; i < shape[0]; i++)
    for (int64_t k = 0; k < shape[1]; k++)
      g_assert_cmpint(((const int64_t *)arrays[1]->view.data)[40 * i + k], ==,
                      (k < numbers[i] ? 1 : 2) + (numbers[i] <= -k ? 4 : 8));
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
  bp_te_free(te);
}

static const BpIrNode *turned_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_read2(te, context, axes[1], axes[0]);
}

/* 512 blocks of 8 rows of 8 elements: one loop has the code of one block. */
static void test_code_of_transposed_blocks_does_not_grow_with_their_number(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *in = bp_te_placeholder(te, "in", te_f32, (int64_t[]){8, 4096}, 2);
  BpTeTensor *args[] = {in, bp_te_compute(te, "out", (int64_t[]){4096, 8}, 2, turned_body, in)};
  BpTeStage *stage = bp_te_stage(te, args[1]);
  if (bp_te_vectorize(stage, bp_te_stage_axis(stage, 1)) != 0)
    g_error("%s", bp_error_message());
  char *text = text_after("tidy", te, args, 2, NULL);
  expect_count(text, "(load", 8);
  expect_count(text, "(shuffle", 24);
  expect_count(text, "(store", 8);
  g_free(text);
  bp_te_free(te);
}

/* Transposes [8, rows] to [rows, 8], in a loop of blocks or in unrolled blocks, and compares. */
static void check_transposed(int64_t rows, bool is_unrolled) {
  BpTe *te = bp_te_create();
  GRand *random = g_rand_new_with_seed(1);
  BpTeTensor *in = bp_te_placeholder(te, "in", te_f32, (int64_t[]){8, rows}, 2);
  BpTeTensor *args[] = {in, bp_te_compute(te, "out", (int64_t[]){rows, 8}, 2, turned_body, in)};
  BpTeStage *stage = bp_te_stage(te, args[1]);
  TeArray *arrays[] = {te_array_new(args[0]), te_array_new(args[1])};
  te_fill(arrays[0], random);
  if (bp_te_vectorize(stage, bp_te_stage_axis(stage, 1)) != 0 ||
      (is_unrolled && bp_te_unroll(stage, bp_te_stage_axis(stage, 0)) != 0))
    g_error("%s", bp_error_message());
  te_run(te, args, arrays, 2);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < 8; j++)
      g_assert_cmpfloat(te_floats(arrays[1])[i * 8 + j], ==, te_floats(arrays[0])[j * rows + i]);
  te_array_free(arrays[0]);
  te_array_free(arrays[1]);
  g_rand_free(random);
  bp_te_free(te);
}

static void test_transposed_blocks_in_a_loop_are_right(void) {
  check_transposed(8, false);
  check_transposed(24, false);
  check_transposed(8, true);
  check_transposed(24, true);
}

static void test_only_a_pass_can_be_left_out(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[2];
  BpIrModule *module = bp_ir_module_create();
  BpLowerOptions options = {.struct_size = sizeof options, .without = "flatten"};
  mirror(te, 1, args);
  g_assert_cmpint(bp_te_lower(te, "f", args, 2, &options, module), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "'flatten'"));
  bp_error_clear();
  bp_object_release(module);
  bp_te_free(te);
}

static void test_members_of_later_options_are_refused(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *args[2];
  BpIrModule *module = bp_ir_module_create();
  struct {
    BpLowerOptions known;
    uint64_t later;
  } options = {{.struct_size = sizeof options}, 1};
  mirror(te, 1, args);
  g_assert_cmpint(bp_te_lower(te, "f", args, 2, &options.known, module), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "does not know"));
  bp_error_clear();
  options.later = 0;
  options.known.struct_size = 0;
  g_assert_cmpint(bp_te_lower(te, "f", args, 2, &options.known, module), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "struct_size is 0"));
  bp_error_clear();
  options.known.struct_size = sizeof options;
  g_assert_cmpint(bp_te_lower(te, "f", args, 2, &options.known, module), ==, 0);
  bp_object_release(module);
  bp_te_free(te);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/partition/each-part-has-a-loop", test_each_part_has_a_loop);
  g_test_add_func("/te/partition/only-the-vector-between-parts-chooses",
                  test_only_the_vector_between_parts_chooses);
  g_test_add_func("/te/partition/a-quotient-is-compared", test_a_quotient_is_compared);
  g_test_add_func("/te/partition/a-quotient-changes-its-sign-where-it-rounds",
                  test_a_quotient_changes_its_sign_where_it_rounds);
  g_test_add_func("/te/region/a-quotient-rounded-towards-0-has-its-region",
                  test_a_quotient_rounded_towards_0_has_its_region);
  g_test_add_func("/te/partition/a-parallel-loop-is-not-split", test_a_parallel_loop_is_not_split);
  g_test_add_func("/te/partition/a-fused-axis-of-open-extents-is-its-own-index",
                  test_a_fused_axis_of_open_extents_is_its_own_index);
  g_test_add_func("/te/schedules/open-extents-divide-no-index",
                  test_schedules_of_open_extents_divide_no_index);
  g_test_add_func("/te/partition/a-minimum-of-multiples-is-a-multiple",
                  test_a_minimum_of_multiples_is_a_multiple);
  g_test_add_func("/te/partition/a-fused-axis-of-a-sum-of-extents-is-its-own-index",
                  test_a_fused_axis_of_a_sum_of_extents_is_its_own_index);
  g_test_add_func("/te/partition/a-fused-axis-beside-an-open-distance-is-its-own-index",
                  test_a_fused_axis_beside_an_open_distance_is_its_own_index);
  g_test_add_func("/te/partition/an-open-minimum-outside-of-the-innermost-loop-stays",
                  test_an_open_minimum_outside_of_the_innermost_loop_stays);
  g_test_add_func("/te/partition/a-small-part-of-a-loop-takes-a-branch",
                  test_a_small_part_of_a_loop_takes_a_branch);
  g_test_add_func("/te/partition/an-index-times-a-comparison-divides-the-innermost-loop",
                  test_an_index_times_a_comparison_divides_the_innermost_loop);
  g_test_add_func("/te/schedules/elements-of-a-shape-are-stored-one-by-one",
                  test_elements_of_a_shape_are_stored_one_by_one);
  g_test_add_func("/te/partition/two-choices-of-one-place-divide-a-loop-once",
                  test_two_choices_of_one_place_divide_a_loop_once);
  g_test_add_func("/te/partition/edges-have-loops-of-their-own",
                  test_edges_have_loops_of_their_own);
  g_test_add_func("/te/partition/a-vector-beside-the-edge-does-not-choose",
                  test_a_vector_beside_the_edge_does_not_choose);
  g_test_add_func("/te/partition/code-grows-by-a-bounded-amount",
                  test_code_grows_by_a_bounded_amount);
  g_test_add_func("/te/partition/extents-of-a-buffer-are-no-choice",
                  test_extents_of_a_buffer_are_no_choice);
  g_test_add_func("/te/vectorize/lanes-that-agree-take-a-branch",
                  test_lanes_that_agree_take_a_branch);
  g_test_add_func("/te/vectorize/lanes-are-compared-with-any-number",
                  test_lanes_are_compared_with_any_number);
  g_test_add_func("/te/blocks/code-of-transposed-blocks-does-not-grow-with-their-number",
                  test_code_of_transposed_blocks_does_not_grow_with_their_number);
  g_test_add_func("/te/blocks/transposed-blocks-in-a-loop-are-right",
                  test_transposed_blocks_in_a_loop_are_right);
  g_test_add_func("/te/passes/only-a-pass-can-be-left-out", test_only_a_pass_can_be_left_out);
  g_test_add_func("/te/partition/members-of-later-options-are-refused",
                  test_members_of_later_options_are_refused);
  return g_test_run();
}
