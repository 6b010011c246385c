/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs give the results of the reference interpreter on every device, also after
 * legalisation, whose passes are verified one by one. Results must be equal, except for the sign of
 * zero. A fifth of the time is for programs that are legalised and interpreted alone, which is much
 * faster.
 *
 *   BP_TEST_SEED=N      number of the first program [1]; later programs count up
 *   BP_TEST_SECONDS=N   duration of the test [15; 600 with BP_TEST_LONG]
 *   BP_TEST_TARGET=T    one target, instead of a list
 *   BP_TEST_LEGAL=1     legalises and interprets programs, and does not compile them
 *
 * A program that fails is reduced as long as it still fails, and printed with its number. */

#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "tests/compiler/codegen-util.h"
#include "tests/compiler/random_program.h"

#define BATCH 4 /* programs that are compiled together */

typedef RandomProgram Program;

static char *text_of(const BpIrNode *function) {
  BpValue printed;
  BpByteArray view = {NULL, 0};
  assert_ok(bp_ir_table()->print(function, &printed) || bp_value_view_str(&printed, &view));
  char *text = g_strndup(view.data, view.size);
  bp_value_clear(&printed);
  return text;
}

/* A target of the programs. */
typedef struct Place {
  const char *text;
  gboolean has_threads; /* barriers work; a function of several loops is refused */
  gboolean has_nan;     /* exact floats may be NaN or infinite */
  gboolean is_known;    /* the plugin was built */
  gboolean is_here;     /* there is a device */
} Place;

static gboolean is_legal_only; /* programs are legalised, and not compiled */

/* ---- Arguments --------------------------------------------------------------------------- */

static void set_float(void *data, int64_t i, BpDataType dtype, double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  if (dtype.code == BP_DTYPE_BFLOAT)
    ((uint16_t *)data)[i] = isnan(single) ? 0x7fc0 : (uint16_t)(bits >> 16);
  else if (dtype.bits == 16)
    ((uint16_t *)data)[i] = isnan(single)   ? 0x7e00
                            : isinf(single) ? (uint16_t)(0x7c00 | (bits >> 16 & 0x8000))
                                            : half_of(single);
  else if (dtype.bits == 32)
    ((float *)data)[i] = single;
  else
    ((double *)data)[i] = value;
}

/* All values are float16 as well, except the last ones. */
static const double odd_floats[] = {0.5,   -0.5, 1.5,      -2.5,      127.5, -128.5, 255.5, 256,
                                    -129,  300,  32768,    -32768,    65504, -65504, 0.25,  -0.75,
                                    65536, 1e9,  2.2e9,    -2.2e9,    5e9,   -5e9,   1e19,  2e19,
                                    -1e19, 1e30, HUGE_VAL, -HUGE_VAL, NAN};
#define NUM_HALVES 16

static double any_float(BpDataType dtype, gboolean is_exact, gboolean has_nan, uint64_t *state) {
  static const double special[] = {NAN, HUGE_VAL, -HUGE_VAL, -0.0};
  uint64_t choice = next_random(state);
  if (!is_exact && dtype.code == BP_DTYPE_FLOAT && dtype.bits == 16)
    return choice % 8 ? odd_floats[choice % NUM_HALVES] : special[choice / 8 % 4];
  if (!is_exact)
    return odd_floats[choice % G_N_ELEMENTS(odd_floats)];
  return has_nan && choice % 9 == 0 ? special[choice / 9 % 4] : (double)(choice / 9 % 15) - 7;
}

/* Fills inputs at random and outputs with 0. The buffer after the outputs has the odd floats. */
static void fill_args(Args *args, const BpIrNode *function, const Place *place, uint64_t seed) {
  make_args(args, function, seed);
  for (int32_t i = 0; i < args->count; i++) {
    BpDataType dtype = args->views[i].dtype;
    gboolean is_output = i >= NUM_TYPES && i < 2 * NUM_TYPES;
    if (args->values[i].type_index == BP_TYPE_INT && bp__program_letter(dtype) == 'b')
      args->values[i].v_int64 = 1;
    if (is_output)
      memset(args->views[i].data, 0, args->bytes[i]);
    for (int64_t k = 0; k < args->elements[i] && !is_output; k++)
      if (bp__program_letter(dtype) == 'f')
        set_float(args->views[i].data, k, dtype,
                  any_float(dtype, i < 2 * NUM_TYPES, place->has_nan, &seed));
  }
}

static gboolean is_same(const void *a, const void *b, int64_t i, BpDataType dtype) {
  size_t size = (dtype.bits + 7u) / 8;
  if (bp__program_letter(dtype) != 'f')
    return !memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size);
  double x = read_element(a, i, dtype), y = read_element(b, i, dtype);
  return isnan(y) ? isnan(x) : x == y;
}

static char *element_text(const void *data, int64_t i, BpDataType dtype) {
  int64_t value = 0;
  if (bp__program_letter(dtype) == 'f')
    return g_strdup_printf("%.9g", read_element(data, i, dtype));
  memcpy(&value, (const char *)data + (size_t)i * (dtype.bits / 8u), dtype.bits / 8u);
  return g_strdup_printf("%" G_GINT64_FORMAT, value);
}

/* Describes the first difference (g_free), or returns NULL. */
static char *difference_of(const Args *got, const Args *expected) {
  for (int32_t i = 0; i < got->count; i++)
    for (int64_t k = 0; k < got->elements[i]; k++) {
      const void *a = got->views[i].data, *b = expected->views[i].data;
      BpDataType dtype = got->views[i].dtype;
      if (is_same(a, b, k, dtype))
        continue;
      g_autofree char *x = element_text(a, k, dtype), *y = element_text(b, k, dtype);
      return g_strdup_printf("argument %d, element %d is %s, interpreted %s", (int)i, (int)k, x, y);
    }
  return NULL;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Lavapipe gets comparisons of int64 wrong (docs/plugin-vulkan.md). */
static Place places[] = {
    {.text = "c -options=-O1", .has_nan = TRUE},
    {.text = "opencl", .has_nan = TRUE},
    {.text = "vulkan -supports_float64 -supports_int64=false", .has_nan = TRUE},
    {.text = "llvm -opt=1", .has_nan = TRUE},
    {.text = "vulkan -supports_float64 -supports_int64=false -supports_float16", .has_nan = TRUE},
    {.text = "c -mcpu=x86-64 -options=-O1", .has_nan = TRUE},
    {.text = "cuda", .has_nan = TRUE},
};
static size_t num_places = G_N_ELEMENTS(places);

/* The program in progress, which is printed if the process ends. */
static char in_work[160];

static void tell_what_was_in_work(int signal_number) {
  ssize_t written = write(2, in_work, strlen(in_work));
  (void)written;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static int64_t num_run, num_refused;

/* Runs function `name` of a module, compiled and legalised; returns the difference (g_free) or
 * NULL. */
static char *run_function(const BpIrModule *module, const char *name, const Built *built,
                          const Place *place, uint64_t seed) {
  const BpIrNode *function = bp_ir_module_find(module, name);
  Args expected, got;
  BpFunction *compiled = NULL;
  char *difference = NULL;
  fill_args(&expected, function, place, seed);
  fill_args(&got, function, place, seed);
  if (bp_ir_interpret(module, name, expected.values, expected.count))
    difference = g_strdup_printf("interpreter: %s", bp_error_message());
  else if (bp_module_get_function(built->code, name, 1, &compiled) || !compiled ||
           call_built(built, name, compiled, &got))
    difference = g_strdup_printf("the call: %s", bp_error_message());
  else
    difference = difference_of(&got, &expected);
  bp_error_clear();
  num_run++;
  bp_object_release(compiled);
  free_args(&expected);
  free_args(&got);
  return difference;
}

/* Compares with the legalised module, which is interpreted. */
static char *interpret_legal(const BpIrModule *module, const BpIrModule *legal, const char *name,
                             const Place *place, uint64_t seed) {
  const BpIrNode *function = bp_ir_module_find(module, name);
  Args expected, got;
  fill_args(&expected, function, place, seed);
  fill_args(&got, function, place, seed);
  char *difference = NULL;
  if (bp_ir_interpret(module, name, expected.values, expected.count) ||
      bp_ir_interpret(legal, name, got.values, got.count))
    difference = g_strdup_printf("interpreter: %s", bp_error_message());
  else
    difference = difference_of(&got, &expected);
  bp_error_clear();
  free_args(&expected);
  free_args(&got);
  return difference;
}

static BpIrModule *try_legalize(BpIrModule *module, BpTarget *target) {
  BpFunction *legalize = NULL;
  BpValue args[2] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}};
  BpValue legal = {0};
  args[0].v_obj = (BpObject *)(void *)module;
  args[1].v_obj = (BpObject *)(void *)target;
  assert_ok(bp_registry_get("compiler.legalize", &legalize));
  int rc = bp_function_call(legalize, args, 2, &legal);
  bp_object_release(legalize);
  return rc ? NULL : (BpIrModule *)(void *)legal.v_obj;
}

/* Whether the error is a fault of the C compiler. */
static gboolean is_fault_of_compiler(const char *wrong) {
  return wrong && strstr(wrong, "internal compiler error");
}

/* Compiles a text of functions "f0".. for a place, and runs those with a given seed. Returns the
 * failure (g_free) and which function failed; a refusal is no failure. */
static char *run_text(const char *text, const Place *place, const uint64_t *seeds, int count,
                      int *which) {
  BpIrModule *module = parse_verified(text);
  BpTarget *target = bp_target_parse(place->text);
  if (!target)
    g_error("%s", bp_error_message());
  Built built = {.device = {bp_target_device_type(target), 0}};
  char *wrong = NULL;
  BpIrModule *legal = try_legalize(module, target);
  *which = -1;
  for (int i = 0; legal && i < count && !wrong; i++) {
    g_autofree char *name = g_strdup_printf("f%d", i);
    g_autofree char *found = interpret_legal(module, legal, name, place, seeds[i]);
    wrong = found ? g_strdup_printf("legalised: %s", found) : NULL;
    *which = i;
  }
  gboolean is_wanted = !legal || (place->is_here && !is_legal_only && !wrong);
  built.code = legal && is_wanted ? bp_target_build(module, target) : NULL;
  if (!built.code && is_wanted && !wrong && !bp_error_is(BP_ERROR_NOT_IMPLEMENTED)) {
    wrong = g_strdup_printf("compiling: %s", bp_error_message());
    *which = -1;
  }
  if (!built.code && is_wanted && !wrong) {
    g_test_message("refused: %s", bp_error_message());
    num_refused += count;
  }
  bp_error_clear();
  if (built.device.device_type != BP_DEVICE_CPU)
    built.legal = legal;
  for (int i = 0; built.code && i < count && !wrong; i++) {
    g_autofree char *name = g_strdup_printf("f%d", i);
    wrong = run_function(module, name, &built, place, seeds[i]);
    *which = i;
  }
  if (is_fault_of_compiler(wrong))
    g_clear_pointer(&wrong, g_free);
  bp_object_release(built.code);
  bp_object_release(legal);
  bp_object_release(target);
  bp_object_release(module);
  return wrong;
}

/* ---- Reducing a failing program ---------------------------------------------------------- */

typedef struct Reduction {
  Program *program;
  const Place *place;
  const BpIrNode *function; /* the smallest failing function */
  char *wrong;
  gint64 until; /* g_get_monotonic_time */
} Reduction;

/* Returns the node with `part` replaced. */
static const BpIrNode *replace(BpIrModule *module, const BpIrNode *whole, const BpIrNode *part,
                               const BpIrNode *by) {
  const BpIrTable *ir = bp_ir_table();
  int32_t count = ir->num_operands(whole), kind = ir->kind(whole);
  if (whole == part)
    return by;
  if (count == 0 || kind == BP_IR_BUFFER)
    return whole;
  g_autofree const BpIrNode **operands = g_new(const BpIrNode *, (gsize)count);
  gboolean is_changed = FALSE;
  for (int32_t i = 0; i < count; i++) {
    operands[i] = replace(module, ir->operand(whole, i), part, by);
    is_changed |= operands[i] != ir->operand(whole, i);
  }
  return is_changed ? bp_ir_make(module, kind, ir->dtype(whole), operands, count,
                                 ir->int_value(whole), 0, ir->str_value(whole))
                    : whole;
}

/* The length of the beginning of a message that tells the kind of a failure. */
static size_t kind_length(const char *wrong) {
  return g_str_has_prefix(wrong, "compiling") ? MIN(strlen(wrong), 28) : strcspn(wrong, " ");
}

/* Whether a function still fails; if so, it becomes the smallest. */
static gboolean accept(Reduction *reduction, const BpIrNode *function) {
  g_autofree char *inside = text_of(function), *text = g_strdup_printf("(module %s)", inside);
  BpIrModule *module = bp_ir_parse(text, strlen(text));
  gboolean is_legal = module && bp_ir_verify(module) == 0;
  Args args;
  if (is_legal) {
    fill_args(&args, bp_ir_module_find(module, "f0"), reduction->place, reduction->program->seed);
    is_legal = bp_ir_interpret(module, "f0", args.values, args.count) == 0;
    free_args(&args);
  }
  bp_object_release(module);
  bp_error_clear();
  int which;
  char *wrong =
      is_legal ? run_text(text, reduction->place, &reduction->program->seed, 1, &which) : NULL;
  /* A failure of another kind is another fault. */
  if (!wrong || strncmp(wrong, reduction->wrong, kind_length(reduction->wrong)) != 0) {
    g_free(wrong);
    return FALSE;
  }
  g_free(reduction->wrong);
  reduction->wrong = wrong;
  reduction->function = function;
  return TRUE;
}

static gboolean try_instead(Reduction *reduction, const BpIrNode *part, const BpIrNode *by) {
  if (!by || by == part || g_get_monotonic_time() > reduction->until)
    return FALSE;
  return accept(reduction,
                replace(reduction->program->random.module, reduction->function, part, by));
}

/* Replaces a statement by nothing or by a statement inside it. */
static gboolean shrink_statement(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  const BpIrNode *nothing = bp_ir_seq(reduction->program->random.module, NULL, 0);
  if (ir->kind(part) == BP_IR_BARRIER || (ir->kind(part) == BP_IR_SEQ && !ir->num_operands(part)))
    return FALSE;
  if (try_instead(reduction, part, nothing))
    return TRUE;
  for (int32_t i = 0; i < ir->num_operands(part); i++)
    if (ir->kind(ir->operand(part, i)) >= BP_IR_SEQ &&
        ir->kind(ir->operand(part, i)) < BP_IR_BUFFER &&
        try_instead(reduction, part, ir->operand(part, i)))
      return TRUE;
  return FALSE;
}

/* Replaces an expression by a constant or by an operand of its type. */
static gboolean shrink_expression(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  BpIrModule *module = reduction->program->random.module;
  int32_t kind = ir->kind(part);
  BpDataType dtype = ir->dtype(part);
  if (kind <= BP_IR_VAR || (kind == BP_IR_BROADCAST && ir->kind(ir->operand(part, 0)) <= BP_IR_VAR))
    return FALSE;
  for (int64_t value = 0; value < 2; value++) {
    BpDataType element = dtype;
    element.lanes = 1;
    const BpIrNode *constant = bp__program_letter(dtype) == 'f'
                                   ? bp_ir_float(module, element, (double)value)
                                   : bp_ir_int(module, element, value);
    if (try_instead(reduction, part, bp_ir_broadcast(module, constant, dtype.lanes)))
      return TRUE;
  }
  for (int32_t i = 0; i < ir->num_operands(part); i++) {
    BpDataType other = ir->dtype(ir->operand(part, i));
    if (ir->kind(ir->operand(part, i)) != BP_IR_BUFFER && !memcmp(&other, &dtype, sizeof dtype) &&
        try_instead(reduction, part, ir->operand(part, i)))
      return TRUE;
  }
  return FALSE;
}

/* Parts that must stay, so that the program has the same meaning everywhere: loops end, memory is
 * set before it is read, threads do not conflict. */
static gboolean is_whole(const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = ir->kind(part);
  return kind == BP_IR_WHILE || kind == BP_IR_BARRIER || kind == BP_IR_BUFFER ||
         (kind == BP_IR_ALLOCATE && ir->int_value(ir->operand(part, 0)) == BP_IR_SCOPE_SHARED);
}

static gboolean shrink(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = ir->kind(part), first = 0;
  gboolean is_statement = kind >= BP_IR_SEQ && kind < BP_IR_BUFFER;
  if (is_statement ? shrink_statement(reduction, part)
                   : kind < BP_IR_SEQ && shrink_expression(reduction, part))
    return TRUE;
  if (is_whole(part))
    return FALSE;
  const BpIrNode *body = kind == BP_IR_ALLOCATE ? ir->operand(part, 1) : part;
  if (kind == BP_IR_ALLOCATE || kind == BP_IR_LOAD || kind == BP_IR_STORE)
    first = kind == BP_IR_ALLOCATE ? 1 : 2;
  for (int32_t i = first; i < ir->num_operands(body); i++)
    if (shrink(reduction, ir->operand(body, i)))
      return TRUE;
  return FALSE;
}

static void fail_with(Program *program, const Place *place, char *wrong) {
  Reduction reduction = {program, place, program->function, wrong,
                         g_get_monotonic_time() + 90 * G_USEC_PER_SEC};
  g_test_message("BP_TEST_SEED=%" G_GUINT64_FORMAT ": %s", program->seed, wrong);
  while (shrink(&reduction, reduction.function))
    ;
  g_autofree char *text = text_of(reduction.function);
  g_error("BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s: %s, in\n%s", program->seed, place->text,
          reduction.wrong, text);
}

/* ---- Batches ----------------------------------------------------------------------------- */

/* Runs the programs of a batch that a place supports, as one module; if it fails, each program
 * alone. */
static void run_batch(uint64_t first, const Place *place) {
  GString *text = g_string_new("(module");
  uint64_t seeds[BATCH] = {0};
  int count = 0, which;
  for (uint64_t seed = first; seed < first + BATCH; seed++) {
    g_autofree char *name = g_strdup_printf("f%d", count);
    Program program;
    random_program_make(&program, seed, name);
    if (place->has_threads ? !program.is_series : !program.has_barriers) {
      g_autofree char *function = text_of(program.function);
      g_string_append_printf(text, "\n%s", function);
      seeds[count++] = seed;
    }
    bp_object_release(program.random.module);
  }
  g_string_append(text, ")");
  g_snprintf(in_work, sizeof in_work, "# in work: BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s\n",
             first, place->text);
  gint64 refused_before = num_refused;
  g_autofree char *wrong = run_text(text->str, place, seeds, count, &which);
  gboolean is_refused = num_refused > refused_before;
  num_refused = refused_before;
  for (int i = 0; (wrong || is_refused) && i < count; i++) {
    Program program;
    random_program_make(&program, seeds[i], "f0");
    g_autofree char *alone = text_of(program.function),
                    *one = g_strdup_printf("(module %s)", alone);
    char *found = run_text(one, place, &seeds[i], 1, &which);
    if (found)
      fail_with(&program, place, found);
    bp_object_release(program.random.module);
  }
  if (wrong)
    g_error("BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s: only together: %s, in\n%s", first,
            place->text, wrong, text->str);
  g_string_free(text, TRUE);
}

static int64_t setting(const char *name, int64_t otherwise) {
  const char *value = g_getenv(name);
  return value ? g_ascii_strtoll(value, NULL, 10) : otherwise;
}

/* Runs programs from a seed on, on all places; returns the seed of the first program that was not
 * run. */
static uint64_t run_programs(uint64_t seed, gint64 until) {
  for (size_t i = 0; g_get_monotonic_time() < until; i++) {
    if (places[i % num_places].is_known)
      run_batch(seed, &places[i % num_places]);
    if ((i + 1) % num_places == 0)
      seed += BATCH;
  }
  return seed;
}

static void test_programs(void) {
  uint64_t seed = (uint64_t)setting("BP_TEST_SEED", 1);
  int64_t seconds = setting("BP_TEST_SECONDS", g_getenv("BP_TEST_LONG") ? 600 : 15);
  gint64 begin = g_get_monotonic_time(), end = begin + seconds * G_USEC_PER_SEC;
  signal(SIGSEGV, tell_what_was_in_work);
  signal(SIGFPE, tell_what_was_in_work);
  is_legal_only = TRUE;
  uint64_t legalised = run_programs(seed, g_getenv("BP_TEST_LEGAL") ? end : (4 * begin + end) / 5);
  is_legal_only = FALSE;
  num_refused = 0;
  uint64_t run = run_programs(seed, end);
  g_test_message("legalised up to seed %" G_GUINT64_FORMAT ", run up to seed %" G_GUINT64_FORMAT
                 ": %d runs, %d refused",
                 legalised, run, (int)num_run, (int)num_refused);
  g_assert_true(num_run > num_refused || g_getenv("BP_TEST_LEGAL") || g_getenv("BP_TEST_TARGET"));
}

/* Finds out whether the target's plugin was built, and whether it has a device. */
static void look_for(Place *place) {
  BpTarget *target = bp_target_parse(place->text);
  int32_t count = 0;
  const char *why;
  place->is_known = target != NULL;
  if (target)
    assert_ok(bp_device_count(bp_target_device_type(target), &count, &why));
  place->has_threads = target && bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0);
  place->is_here = count > 0;
  bp_error_clear();
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (g_getenv("BP_TEST_TARGET")) {
    num_places = 1;
    places[0] = (Place){.text = g_getenv("BP_TEST_TARGET"), .has_nan = TRUE};
  }
  for (size_t i = 0; i < num_places; i++)
    look_for(&places[i]);
  g_test_add_func("/ir/programs/random_programs_mean_the_same_everywhere", test_programs);
  return g_test_run();
}
