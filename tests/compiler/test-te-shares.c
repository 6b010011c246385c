/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of automatic schedules divide work among threads into equal shares. The tests read the
 * loops from the printed IR: a loop that goes beyond the end of its data has idle places, and the
 * thread that gets them waits for the others. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/compiler/te-run.h"

#define TARGET                                                                                     \
  "c -vector_bits=512 -vector_registers=32 -num_cores=64 -l1_bytes=32768 -l2_bytes=1048576"
#define ROWS  128
#define TERMS 384
#define PANEL 48
#define DEPTH 32

typedef struct Operands {
  BpTeTensor *a, *b;
} Operands;

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Operands *in = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", TERMS), *panel = te_int(te, PANEL);
  const BpIrNode *b[] = {te_op(te, BP_IR_FLOORDIV, axes[1], panel), k,
                         te_op(te, BP_IR_FLOORMOD, axes[1], panel)};
  const BpIrNode *weight = bp_ir_cast(bp_te_ir(te), te_f32, bp_te_read(te, in->b, b));
  const BpIrNode *product = te_op(te, BP_IR_MUL, te_read2(te, in->a, axes[0], k), weight);
  return bp_te_reduce(te, BP_TE_SUM, product, &k, 1);
}

/* The text of a function after one pass. */
typedef struct Dumped {
  const char *pass;
  char *text;
} Dumped;

static void keep_text(void *context, const char *pass, const char *text) {
  Dumped *dumped = context;
  if (!strcmp(pass, dumped->pass) && !dumped->text)
    dumped->text = g_strdup(text);
}

/* Returns the scheduled product of `num_rows` rows and `panels` panels of type `type`, after a
 * pass. */
static char *scheduled_product_of(int64_t num_rows, int64_t panels, BpDataType type,
                                  const char *pass) {
  const int64_t rows[] = {num_rows, TERMS}, packed[] = {panels, TERMS, PANEL};
  const int64_t shape[] = {num_rows, panels * PANEL};
  BpTe *te = bp_te_create();
  BpTarget *target = bp_target_parse(TARGET);
  BpIrModule *module = bp_ir_module_create();
  Operands in = {bp_te_placeholder(te, "a", te_f32, rows, 2),
                 bp_te_placeholder(te, "b", type, packed, 3)};
  BpTeTensor *args[] = {in.a, in.b, bp_te_compute(te, "y", shape, 2, product_body, &in)};
  Dumped dumped = {pass, NULL};
  BpLowerOptions options = {
      .struct_size = sizeof options, .target = target, .dump = keep_text, .dump_context = &dumped};
  if (!args[2] || bp_schedule_auto(te, &args[2], 1, target) ||
      bp_te_lower(te, "f", args, 3, &options, module))
    g_error("%s", bp_error_message());
  g_assert_nonnull(dumped.text);
  bp_te_free(te);
  bp_object_release(module);
  bp_object_release(target);
  return dumped.text;
}

static char *scheduled_product(int64_t num_rows, int64_t panels, const char *pass) {
  return scheduled_product_of(num_rows, panels, te_f32, pass);
}

/* Returns the largest number of iterations of nested loops. Each line is indented more than the
 * loop that it is in. */
static double most_iterations(const char *text) {
  double most = 0, inside[DEPTH + 1] = {1};
  size_t indents[DEPTH + 1] = {0};
  int depth = 0;
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++) {
    size_t indent = strspn(*line, " ");
    while (depth > 0 && indents[depth] >= indent)
      depth--;
    char **words = g_strsplit(*line + indent, " ", 5);
    if (g_strv_length(words) >= 5 && !strcmp(words[0], "(for")) {
      g_assert_cmpint(depth, <, DEPTH);
      indents[++depth] = indent;
      inside[depth] = inside[depth - 1] * g_ascii_strtod(words[3], NULL);
      most = MAX(most, inside[depth]);
    }
    g_strfreev(words);
  }
  g_strfreev(lines);
  return most;
}

/* 32 panels have more than the second-level cache, which holds seven panels beside the rest: blocks
 * of seven would give one thread a block with three idle places. */
static void test_blocks_are_equal(void) {
  static const int64_t panels[] = {32, 8, 30, 64};
  for (size_t i = 0; i < G_N_ELEMENTS(panels); i++) {
    double wanted = (double)(ROWS * TERMS * PANEL * panels[i]);
    char *text = scheduled_product(ROWS, panels[i], "build");
    g_assert_nonnull(strstr(text, " parallel\n"));
    double places = most_iterations(text);
    if (places < wanted || places > 1.04 * wanted)
      g_error("%d panels: %.0f places for %.0f products:\n%s", (int)panels[i], places, wanted,
              text);
    g_free(text);
  }
}

static int count_of(const char *text, const char *word) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, word)); at++)
    count++;
  return count;
}

/* A product of one row waits for memory. Streams of several panels are read side by side, if 16
 * shares remain, and if the number of panels is a multiple of the streams. */
static void test_one_row_reads_panels_side_by_side(void) {
  static const struct {
    int64_t panels;
    int streams, prefetches;
  } cases[] = {{256, 4, 0}, {48, 3, 0}, {32, 2, 0}, {509, 1, 3}, {30, 1, 3}};
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *text = scheduled_product(1, cases[i].panels, "tidy");
    int streams = count_of(text, "(allocate "), prefetches = count_of(text, "\"prefetch\"");
    if (streams != cases[i].streams || prefetches != cases[i].prefetches)
      g_error("%d panels: %d streams, %d prefetches:\n%s", (int)cases[i].panels, streams,
              prefetches, text);
    g_free(text);
  }
}

/* A line of narrow elements takes so much work that a processor sees few lines ahead: each stream
 * prefetches what the next iteration reads, four panels later. */
static void test_narrow_streams_prefetch_the_next_iteration(void) {
  static const BpDataType types[] = {{BP_DTYPE_UINT, 8, 1}, {BP_DTYPE_FLOAT, 16, 1}};
  for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
    char *text = scheduled_product_of(1, 256, types[i], "tidy");
    char **loop = g_strsplit(strstr(text, "(for ") + strlen("(for "), ":", 2);
    char *next = g_strdup_printf("(add %s 1)", loop[0]);
    int prefetches = count_of(text, "\"prefetch\"");
    if (count_of(text, "(allocate ") != 4 || prefetches < 4 || count_of(text, next) != prefetches)
      g_error("%d bits:\n%s", types[i].bits, text);
    g_free(next);
    g_strfreev(loop);
    g_free(text);
  }
}

/* The sum that element `at` of a product is. */
static float expected_element(const float *a, const float *b, int64_t at, int64_t columns) {
  int64_t row = at / columns, column = at % columns;
  float sum = 0;
  for (int64_t k = 0; k < TERMS; k++)
    sum += a[row * TERMS + k] * b[(column / PANEL * TERMS + k) * PANEL + column % PANEL];
  return sum;
}

/* Runs a product whose tiles are jammed, and compares it with sums. */
static void check_jammed(int64_t num_rows, int64_t panels) {
  const int64_t rows[] = {num_rows, TERMS}, packed[] = {panels, TERMS, PANEL};
  const int64_t shape[] = {num_rows, panels * PANEL};
  BpTe *te = bp_te_create();
  BpTarget *target = bp_target_parse("c -vector_bits=512 -vector_registers=32 -num_cores=2");
  BpIrModule *module = bp_ir_module_create();
  Operands in = {bp_te_placeholder(te, "a", te_f32, rows, 2),
                 bp_te_placeholder(te, "b", te_f32, packed, 3)};
  BpTeTensor *args[] = {in.a, in.b, bp_te_compute(te, "y", shape, 2, product_body, &in)};
  TeArray *arrays[3];
  GRand *random = g_rand_new_with_seed(7);
  Dumped dumped = {"jam", NULL};
  BpLowerOptions options = {
      .struct_size = sizeof options, .target = target, .dump = keep_text, .dump_context = &dumped};
  if (bp_schedule_auto(te, &args[2], 1, target) || bp_te_lower(te, "f", args, 3, &options, module))
    g_error("%s", bp_error_message());
  if (count_of(dumped.text, "(allocate ") < 2)
    g_error("%d rows of %d panels are not jammed:\n%s", (int)num_rows, (int)panels, dumped.text);
  for (int i = 0; i < 3; i++) {
    arrays[i] = te_array_new(args[i]);
    te_fill(arrays[i], random);
  }
  te_run_module(module, arrays, 3);
  for (int64_t i = 0; i < arrays[2]->size; i++)
    g_assert_cmpfloat(te_floats(arrays[2])[i], ==,
                      expected_element(te_floats(arrays[0]), te_floats(arrays[1]), i, shape[1]));
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
  g_rand_free(random);
  g_free(dumped.text);
  bp_te_free(te);
  bp_object_release(module);
  bp_object_release(target);
}

static void test_jammed_products_are_right(void) {
  check_jammed(1, 16);
  check_jammed(2, 16);
}

/* The accumulators of many rows fill the registers. */
static void test_many_rows_read_one_panel(void) {
  char *text = scheduled_product(ROWS, 512, "tidy");
  g_assert_nonnull(strstr(text, "\"prefetch\""));
  g_free(text);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/shares/one-row-reads-panels-side-by-side",
                  test_one_row_reads_panels_side_by_side);
  g_test_add_func("/te/shares/narrow-streams-prefetch-the-next-iteration",
                  test_narrow_streams_prefetch_the_next_iteration);
  g_test_add_func("/te/shares/jammed-products-are-right", test_jammed_products_are_right);
  g_test_add_func("/te/shares/many-rows-read-one-panel", test_many_rows_read_one_panel);
  g_test_add_func("/te/shares/blocks-are-equal", test_blocks_are_equal);
  return g_test_run();
}
