/* SPDX-License-Identifier: Apache-2.0 */
/* The generated C source of some computations equals the files in tests/compiler/emitted/, so that
 * a review shows how a change affects generated code. The schedules are made for the machine that
 * TARGET describes. `make regenerate-emitted` rewrites the files. */
#include <glib.h>
#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/compiler/te-run.h"

#define TARGET                                                                                     \
  "c -mcpu=x86-64-v4 -vector_bits=512 -vector_registers=32 -num_cores=4 -l1_bytes=32768 "          \
  "-l2_bytes=1048576"
#define MAX_INPUTS 3

/* The tensors that a body reads. */
typedef struct Inputs {
  BpTeTensor *tensors[MAX_INPUTS];
} Inputs;

static BpTeTensor *input(BpTe *te, const char *name, int64_t rows, int64_t columns) {
  return bp_te_placeholder(te, name, te_f32, (const int64_t[]){rows, columns}, 2);
}

static const BpIrNode *call1(BpTe *te, const char *name, const BpIrNode *x) {
  return bp_ir_call(bp_te_ir(te), te_f32, BP_IR_CALL_INTRINSIC, name, &x, 1);
}

/* ---- Element by element ------------------------------------------------------------------ */

/* docs/lowering.md quotes this computation and its IR. */
static const BpIrNode *example_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Inputs *in = context;
  const BpIrNode *a = te_read2(te, in->tensors[0], axes[0], axes[1]);
  const BpIrNode *b = te_read1(te, in->tensors[1], axes[1]);
  return te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, a, te_float(te, 0.5)), b);
}

static BpTeTensor *make_example(BpTe *te, Inputs *in) {
  const int64_t shape[] = {4, 37};
  in->tensors[0] = bp_te_placeholder(te, "a", te_f32, shape, 2);
  in->tensors[1] = bp_te_placeholder(te, "b", te_f32, shape + 1, 1);
  return bp_te_compute(te, "y", shape, 2, example_body, in);
}

static const BpIrNode *scaled_sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Inputs *in = context;
  const BpIrNode *a = te_read2(te, in->tensors[0], axes[0], axes[1]);
  const BpIrNode *b = te_read2(te, in->tensors[1], te_int(te, 0), axes[1]);
  return te_op(te, BP_IR_MAX, te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, a, te_float(te, 0.5)), b),
               te_float(te, 0));
}

/* Rows of 37 elements, too short to fill three vectors, with an operand that all rows share. */
static BpTeTensor *make_elementwise(BpTe *te, Inputs *in) {
  in->tensors[0] = input(te, "a", 2000, 37);
  in->tensors[1] = input(te, "b", 1, 37);
  return bp_te_compute(te, "y", (const int64_t[]){2000, 37}, 2, scaled_sum_body, in);
}

static const BpIrNode *sum_of_two_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Inputs *in = context;
  return te_op(te, BP_IR_ADD, te_read1(te, in->tensors[0], axes[0]),
               te_read1(te, in->tensors[1], axes[0]));
}

/* A tensor longer than the caches. */
static BpTeTensor *make_long_sum(BpTe *te, Inputs *in) {
  const int64_t shape[] = {1 << 24};
  in->tensors[0] = bp_te_placeholder(te, "a", te_f32, shape, 1);
  in->tensors[1] = bp_te_placeholder(te, "b", te_f32, shape, 1);
  return bp_te_compute(te, "y", shape, 1, sum_of_two_body, in);
}

/* ---- Products ---------------------------------------------------------------------------- */

static const BpIrNode *product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Inputs *in = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", bp_te_tensor_shape(in->tensors[0])[1]);
  return bp_te_reduce(te, BP_TE_SUM,
                      te_op(te, BP_IR_MUL, te_read2(te, in->tensors[0], axes[0], k),
                            te_read2(te, in->tensors[1], k, axes[1])),
                      &k, 1);
}

static const BpIrNode *packed_product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Inputs *in = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", bp_te_tensor_shape(in->tensors[0])[1]);
  const BpIrNode *panel = te_int(te, bp_te_tensor_shape(in->tensors[1])[2]);
  const BpIrNode *b[] = {te_op(te, BP_IR_FLOORDIV, axes[1], panel), k,
                         te_op(te, BP_IR_FLOORMOD, axes[1], panel)};
  return bp_te_reduce(te, BP_TE_SUM,
                      te_op(te, BP_IR_MUL, te_read2(te, in->tensors[0], axes[0], k),
                            bp_te_read(te, in->tensors[1], b)),
                      &k, 1);
}

typedef struct Biased {
  BpTeTensor *sums, *bias;
} Biased;

static const BpIrNode *biased_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Biased *biased = context;
  const BpIrNode *sum = te_op(te, BP_IR_ADD, te_read2(te, biased->sums, axes[0], axes[1]),
                              te_read2(te, biased->bias, te_int(te, 0), axes[1]));
  return te_op(te, BP_IR_MAX, sum, te_float(te, 0));
}

static BpTeTensor *make_product(BpTe *te, Inputs *in) {
  in->tensors[0] = input(te, "a", 12, 40);
  in->tensors[1] = input(te, "b", 40, 64);
  return bp_te_compute(te, "y", (const int64_t[]){12, 64}, 2, product_body, in);
}

/* The second operand is packed in panels, the last of them not full; a bias and a limit are in the
 * same tile. */
static BpTeTensor *make_packed_product(BpTe *te, Inputs *in) {
  const int64_t shape[] = {4, 180}, panels[] = {4, 90, 48};
  in->tensors[0] = input(te, "a", 4, 90);
  in->tensors[1] = bp_te_placeholder(te, "b", te_f32, panels, 3);
  in->tensors[2] = input(te, "bias", 1, 180);
  Biased biased = {bp_te_compute(te, "sums", shape, 2, packed_product_body, in), in->tensors[2]};
  return bp_te_compute(te, "y", shape, 2, biased_body, &biased);
}

/* ---- Rows -------------------------------------------------------------------------------- */

typedef struct Softmax {
  BpTeTensor *x, *most, *powers, *sums;
} Softmax;

static const BpIrNode *most_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Softmax *softmax = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", 200);
  return bp_te_reduce(te, BP_TE_MAX, te_read2(te, softmax->x, axes[0], k), &k, 1);
}

static const BpIrNode *power_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Softmax *softmax = context;
  return call1(te, "exp",
               te_op(te, BP_IR_SUB, te_read2(te, softmax->x, axes[0], axes[1]),
                     te_read1(te, softmax->most, axes[0])));
}

static const BpIrNode *sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Softmax *softmax = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", 200);
  return bp_te_reduce(te, BP_TE_SUM, te_read2(te, softmax->powers, axes[0], k), &k, 1);
}

static const BpIrNode *quotient_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Softmax *softmax = context;
  return te_op(te, BP_IR_DIV, te_read2(te, softmax->powers, axes[0], axes[1]),
               te_read1(te, softmax->sums, axes[0]));
}

static BpTeTensor *make_softmax(BpTe *te, Inputs *in) {
  const int64_t shape[] = {50, 200};
  Softmax softmax = {.x = in->tensors[0] = input(te, "x", 50, 200)};
  softmax.most = bp_te_compute(te, "most", shape, 1, most_body, &softmax);
  softmax.powers = bp_te_compute(te, "powers", shape, 2, power_body, &softmax);
  softmax.sums = bp_te_compute(te, "sums", shape, 1, sum_body, &softmax);
  return bp_te_compute(te, "y", shape, 2, quotient_body, &softmax);
}

/* ---- Comparing --------------------------------------------------------------------------- */

typedef struct Case {
  const char *name;
  BpTeTensor *(*make)(BpTe *te, Inputs *in);
} Case;

static const Case cases[] = {
    {"example", make_example},   {"elementwise", make_elementwise},
    {"long-sum", make_long_sum}, {"product", make_product},
    {"softmax", make_softmax},   {"packed-product", make_packed_product},
};

static void append_pass(void *context, const char *pass, const char *text) {
  g_string_append_printf(context, "; after %s\n%s\n", pass, text);
}

/* If `passes` is not NULL, the IR after each pass is appended to it. */
static BpIrModule *lower(const Case *c, const BpTarget *target, GString *passes) {
  BpTe *te = bp_te_create();
  BpIrModule *module = bp_ir_module_create();
  BpLowerOptions options = {.struct_size = sizeof options,
                            .target = target,
                            .dump = passes ? append_pass : NULL,
                            .dump_context = passes};
  BpTeTensor *args[MAX_INPUTS + 1];
  Inputs in = {{NULL}};
  int32_t count = 0;
  BpTeTensor *output = c->make(te, &in);
  while (count < MAX_INPUTS && in.tensors[count]) {
    args[count] = in.tensors[count];
    count++;
  }
  args[count++] = output;
  if (!output || bp_schedule_auto(te, &output, 1, target) ||
      bp_te_lower(te, "f", args, count, &options, module))
    g_error("%s: %s", c->name, bp_error_message());
  bp_te_free(te);
  return module;
}

/* Returns the source without the helpers that every file begins with. */
static char *own_source(BpModule *built, const char *name) {
  BpOwnedBytes source;
  if (bp_module_get_source(built, "c", &source))
    g_error("%s: %s", name, bp_error_message());
  char *text = g_strndup(source.data, source.size);
  const char *last = strstr(text, "int bp_check_cpu(");
  const char *end = last ? strstr(last, "\n}\n\n") : NULL;
  g_assert_nonnull(end);
  char *own = g_strdup(end + strlen("\n}\n\n"));
  bp_owned_bytes_clear(&source);
  g_free(text);
  return own;
}

static void assert_same_text(const char *path, const char *text, const char *expected) {
  int line = 1;
  size_t i = 0;
  for (; text[i] && text[i] == expected[i]; i++)
    line += text[i] == '\n';
  if (text[i] != expected[i])
    g_error("%s:%d: the emitter now writes\n%.200s\ninstead of\n%.200s\nif that is meant, `make "
            "regenerate-emitted`",
            path, line, text + i, expected + i);
}

/* Compares the text with the stored file, or stores the text if the files are to be regenerated. */
static void assert_is_stored(const char *file, const char *text) {
  char *path = g_build_filename(g_getenv("top_srcdir"), "tests/compiler/emitted", file, NULL);
  char *expected = NULL;
  if (g_getenv("BP_TEST_REGENERATE"))
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
  g_assert_true(g_file_get_contents(path, &expected, NULL, NULL));
  assert_same_text(path, text, expected);
  g_free(expected);
  g_free(path);
}

static void test_case(gconstpointer data) {
  const Case *c = data;
  BpTarget *target = bp_target_parse(TARGET);
  BpIrModule *ir = target ? lower(c, target, NULL) : NULL;
  BpModule *built = ir ? bp_target_build(ir, target) : NULL;
  if (!built)
    g_error("%s: %s", c->name, bp_error_message());
  char *file = g_strdup_printf("%s.c.txt", c->name), *text = own_source(built, c->name);
  assert_is_stored(file, text);
  g_free(text);
  g_free(file);
  bp_object_release(built);
  bp_object_release(ir);
  bp_object_release(target);
}

static void test_passes_of_example(void) {
  BpTarget *target = bp_target_parse(TARGET);
  GString *passes = g_string_new(NULL);
  bp_object_release(lower(&cases[0], target, passes));
  assert_is_stored("example.ir.txt", passes->str);
  g_string_free(passes, TRUE);
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/emitted/passes-of-the-example-are-what-is-stored", test_passes_of_example);
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *name = g_strdup_printf("/emitted/is-what-is-stored/%s", cases[i].name);
    g_test_add_data_func(name, &cases[i], test_case);
    g_free(name);
  }
  return g_test_run();
}
