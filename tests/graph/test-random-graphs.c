/* SPDX-License-Identifier: Apache-2.0 */
/* Random whole graphs, compiled for several targets and compared with the interpreter. With
 * constant inputs, the importer computes a graph operator by operator, as each is defined; no pass
 * over graphs, no fusion, no layout and no schedule takes part. The permitted error of a result is
 * found in the same way, from a graph whose inner values are changed by a few roundings each.
 *
 * A graph whose results differ is reduced as long as they still differ, and written to tests/graph
 * of the build. In the environment: BP_TEST_SEED, the first seed; BP_TEST_COUNT, how many graphs;
 * BP_TEST_SECONDS, how long to go on with more (ten minutes with BP_TEST_LONG); BP_TEST_TARGET, the
 * only one of the targets below; BP_TEST_RARE, that all graphs have rare types.
 *
 * The same graphs in small are compiled with open extents, as far as their operators take open
 * extents.
 *
 * With BP_TEST_WRITE, a folder, nothing is compared: for each graph SEED.onnx is written there,
 * with the value of every node as an output, and SEED.values with what the interpreter says they
 * are, for tests/graph/onnxruntime_cases.py. */
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"
#include "tests/graph/random_graph.h"

/* A target runs one graph in `share`. LLVM's optimizer turns a wrong attribute of generated code
 * into a wrong result. The optimizer takes four fifths of the time, so only the first target uses
 * it. The C compiler is slower than LLVM. */
typedef struct Share {
  const char *text;
  int32_t share;
} Share;

static const Share shares[] = {
    {"llvm -opt=1", 1},
    {"llvm -opt=0 -vector_bits=0", 4},
    {"llvm -opt=0 -vector_bits=256 -num_cores=3 -l2_bytes=65536", 2},
    {"llvm -opt=0 -vector_bits=128", 4},
    {"llvm -opt=0 -num_cores=2", 16},
    {"llvm -opt=0 -num_cores=7 -l2_bytes=65536", 8},
    {"c -options=-O1", 8},
    {"opencl", 8},
    {"opencl -thread_warp_size=8", 16},
    {"vulkan", 8},
};

/* ---- Running ----------------------------------------------------------------------------- */

/* Outputs as numbers, in double for all types. */
typedef struct Results {
  GPtrArray *outputs; /* GArray of double */
} Results;

static void results_free(Results *results) {
  if (results)
    g_ptr_array_unref(results->outputs);
  g_free(results);
}

static double half_to_double(uint16_t bits) {
  double sign = bits >> 15 ? -1 : 1;
  int exponent = bits >> 10 & 31, significand = bits & 1023;
  if (exponent == 31)
    return significand ? (double)NAN : sign * (double)INFINITY;
  return sign * (exponent ? ldexp(1024 + significand, exponent - 25) : ldexp(significand, -24));
}

static double bfloat_to_double(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof(value));
  return (double)value;
}

static double float_element(const void *data, BpDataType dtype, int64_t i) {
  return dtype.code == BP_DTYPE_BFLOAT ? bfloat_to_double(((const uint16_t *)data)[i])
         : dtype.bits == 64            ? ((const double *)data)[i]
         : dtype.bits == 32            ? (double)((const float *)data)[i]
                                       : half_to_double(((const uint16_t *)data)[i]);
}

static double element(const void *data, BpDataType dtype, int64_t i) {
  if (dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT)
    return float_element(data, dtype, i);
  gboolean is_signed = dtype.code == BP_DTYPE_INT;
  switch (dtype.bits) {
  case 64:
    return is_signed ? (double)((const int64_t *)data)[i] : (double)((const uint64_t *)data)[i];
  case 32:
    return is_signed ? (double)((const int32_t *)data)[i] : (double)((const uint32_t *)data)[i];
  case 16:
    return is_signed ? ((const int16_t *)data)[i] : ((const uint16_t *)data)[i];
  default:
    return is_signed ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
  }
}

static GArray *read_output(BpTensor *tensor) {
  GArray *values = g_array_new(FALSE, FALSE, sizeof(double));
  uint64_t bytes = (uint64_t)bp_view_num_bytes(&tensor->view);
  void *data = g_malloc0(bytes + 1);
  if (bp_tensor_copy_to_host(&tensor->view, data, bytes))
    g_error("%s", bp_error_message());
  for (int64_t i = 0; i < bp_view_num_elements(&tensor->view); i++) {
    double value = element(data, tensor->view.dtype, i);
    g_array_append_val(values, value);
  }
  g_free(data);
  return values;
}

static int set_input(BpModelContext *context, const BpModelTensorInfo *info,
                     const BpTensorView *value) {
  const BpTensorView *twice[] = {value, value};
  return info->kind ? bp_model_set_input_list(context, info->name, twice, 2)
                    : bp_model_set_input(context, info->name, value);
}

/* An output, or the second tensor of one that is a sequence; NULL with an error. */
static BpTensor *get_output(const BpModel *model, BpModelContext *context, int32_t index) {
  return bp_model_output_info(model, index)->kind ? bp_model_get_output_item(context, index, 1)
                                                  : bp_model_get_output(context, index);
}

static int set_inputs(BpModel *model, BpModelContext *context, const RandomGraph *graph) {
  int status = 0;
  for (int32_t i = 0; i < bp_model_num_inputs(model) && !status; i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    if (!info)
      return -1;
    const RandomValue *value = random_graph_input(graph, info->name);
    BpTensor *tensor = bp_tensor_create(value->shape, value->rank, info->dtype,
                                        (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    status = !tensor ||
             bp_tensor_copy_from_host(&tensor->view, value->data, random_value_bytes(value)) ||
             set_input(context, info, &tensor->view);
    bp_object_release(tensor);
  }
  return status;
}

/* Whether an input has an open extent. */
static gboolean is_open(const BpModel *model) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    for (int32_t k = 0; info && k < info->ndim; k++)
      if (info->shape[k] < 0)
        return TRUE;
  }
  return FALSE;
}

/* A graph runs with zeros, and with other open extents than those of the graph, larger ones or 0:
 * the run succeeds or fails with an error. */
static void run_resized(BpModel *model, BpModelContext *context, const RandomGraph *graph,
                        gboolean is_larger) {
  int status = 0;
  for (int32_t i = 0; i < bp_model_num_inputs(model) && !status; i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    const RandomValue *value = random_graph_input(graph, info->name);
    int64_t shape[MAX_RANK];
    for (int32_t k = 0; k < info->ndim; k++)
      shape[k] = info->shape[k] >= 0 ? value->shape[k] : is_larger ? value->shape[k] + 3 : 0;
    BpTensor *tensor =
        bp_tensor_create(shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    if (tensor)
      memset(tensor->view.data, 0, (size_t)bp_view_num_bytes(&tensor->view));
    status = !tensor || set_input(context, info, &tensor->view);
    bp_object_release(tensor);
  }
  if (status || bp_model_run(context))
    bp_error_clear();
}

/* Runs with other shapes between two runs. The caller keeps the first run's outputs, and no later
 * run may write them. */
static int run_in_turns(BpModel *model, BpModelContext *context, const RandomGraph *graph) {
  if (bp_model_run(context))
    return -1;
  BpTensor *kept = is_open(model) ? bp_object_retain(get_output(model, context, 0)) : NULL;
  if (!kept)
    return is_open(model) ? -1 : 0;
  GArray *before = read_output(kept);
  run_resized(model, context, graph, TRUE);
  run_resized(model, context, graph, FALSE);
  int status = set_inputs(model, context, graph) || bp_model_run(context) ? -1 : 0;
  GArray *after = read_output(kept);
  if (before->len && memcmp(before->data, after->data, before->len * sizeof(double)) != 0)
    status = bp_error_raise(BP_ERROR_RUNTIME, "a later run wrote an output that was kept");
  g_array_unref(before);
  g_array_unref(after);
  bp_object_release(kept);
  return status;
}

/* NULL with an error. */
static Results *run(BpModule *module, const RandomGraph *graph, int32_t device_type) {
  BpModel *model = bp_model_create(module, &(BpDevice){device_type, 0}, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  Results *results = NULL;
  if (context && !set_inputs(model, context, graph) && !run_in_turns(model, context, graph)) {
    results = g_new0(Results, 1);
    results->outputs = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (int32_t i = 0; i < bp_model_num_outputs(model) && results; i++) {
      BpTensor *output = get_output(model, context, i);
      if (output)
        g_ptr_array_add(results->outputs, read_output(output));
      if (!output)
        g_clear_pointer(&results, results_free);
    }
  }
  bp_model_context_free(context);
  bp_model_release(model);
  return results;
}

/* NULL with an error. */
static Results *compute(const RandomGraph *graph, RandomForm form, const char *target_text) {
  GByteArray *bytes = random_graph_bytes(graph, form);
  char *path = onnx_write(bytes);
  const BpTarget *target = bp_target_parse(target_text);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .is_reference = form >= FORM_CONSTANTS};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  Results *results = module ? run(module, graph, bp_target_device_type(target)) : NULL;
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  return results;
}

/* Returns the target of the reference. The interpreter folds all operators of a graph of constants,
 * so the target's code only copies the results to the outputs. */
static const char *reference_target(void) {
  BpTarget *target = bp_target_parse("llvm");
  bp_object_release(target);
  bp_error_clear();
  return target ? "llvm -opt=0" : "c -options=-O0";
}

/* ---- Overflows --------------------------------------------------------------------------- */

/* Collects the results of float16 from which the nodes compute a value. */
static void collect_halves(const RandomGraph *graph, int32_t index, GArray *halves) {
  const RandomValue *value = random_graph_value(graph, index);
  if (value->node < 0)
    return;
  const RandomNode *node = random_graph_node(graph, value->node);
  for (int32_t i = 0; i < node->num_reads; i++) {
    int32_t read = node->reads[i];
    gboolean is_known = read < 0;
    for (guint k = 0; k < halves->len && !is_known; k++)
      is_known = g_array_index(halves, int32_t, k) == read;
    if (is_known)
      continue;
    if (random_graph_value(graph, read)->type == ONNX_FLOAT16 &&
        random_graph_value(graph, read)->node >= 0)
      g_array_append_val(halves, read);
    collect_halves(graph, read, halves);
  }
}

static gboolean has_overflow(const Results *results) {
  for (guint i = 0; results && i < results->outputs->len; i++) {
    const GArray *values = results->outputs->pdata[i];
    for (guint k = 0; k < values->len; k++)
      if (!isfinite(g_array_index(values, double, k)))
        return TRUE;
  }
  return FALSE;
}

/* Whether a value is computed from a float16 that overflows in the reference. Operators that share
 * a function pass on the same value in float32, in which it does not overflow. */
static gboolean depends_on_overflow(const RandomGraph *graph, int32_t index) {
  RandomGraph part = *graph;
  part.outputs = g_array_new(FALSE, FALSE, sizeof(int32_t));
  collect_halves(graph, index, part.outputs);
  Results *halves = part.outputs->len ? compute(&part, FORM_CONSTANTS, reference_target()) : NULL;
  gboolean overflows = has_overflow(halves);
  results_free(halves);
  g_array_unref(part.outputs);
  return overflows;
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* The expected results, and the results of the disturbed graph. */
typedef struct Expected {
  Results *plain, *disturbed;
} Expected;

static void expected_clear(Expected *expected) {
  results_free(expected->plain);
  results_free(expected->disturbed);
}

static gboolean is_close(double got, double want, double disturbed, double error, double largest) {
  if (isnan(want) || isinf(want) || isnan(disturbed) || isinf(disturbed)) {
    gboolean alike = (isnan(want) && isnan(disturbed)) || want == disturbed;
    return !alike || (isnan(want) ? isnan(got) : got == want);
  }
  /* In some order, a product of many factors may become smaller than the least normal number. */
  double most =
      30 * fabs(want - disturbed) + 50 * error * fabs(want) + 20 * error * largest + FLT_MIN;
  return fabs(got - want) <= most;
}

/* Returns the first output that differs, -1 for none, and why (g_free). */
static int32_t difference(const RandomGraph *graph, const Results *got, const Expected *expected,
                          char **why) {
  for (guint i = 0; i < got->outputs->len; i++) {
    int32_t index = g_array_index(graph->outputs, int32_t, i);
    const RandomValue *value = random_graph_value(graph, index);
    const GArray *a = got->outputs->pdata[i], *b = expected->plain->outputs->pdata[i],
                 *c = expected->disturbed->outputs->pdata[i];
    double largest = 0;
    if (a->len != b->len || a->len != random_value_count(value)) {
      *why = g_strdup_printf("v%d has %u elements instead of %u (%d)", index, a->len, b->len,
                             (int)random_value_count(value));
      return (int32_t)i;
    }
    for (guint k = 0; k < b->len; k++)
      if (isfinite(g_array_index(b, double, k)))
        largest = fmax(largest, fabs(g_array_index(b, double, k)));
    for (guint k = 0; k < a->len; k++) {
      double x = g_array_index(a, double, k), y = g_array_index(b, double, k);
      double z = g_array_index(c, double, k);
      if (!is_close(x, y, z, value->error, largest)) {
        if (depends_on_overflow(graph, index))
          break;
        *why = g_strdup_printf("v%d[%u] is %.9g instead of %.9g (%.9g disturbed; error %g)", index,
                               k, x, y, z, value->error);
        return (int32_t)i;
      }
    }
  }
  return -1;
}

static int expect(const RandomGraph *graph, Expected *expected) {
  *expected = (Expected){compute(graph, FORM_CONSTANTS, reference_target()),
                         compute(graph, FORM_DISTURBED, reference_target())};
  if (expected->plain && expected->disturbed)
    return 0;
  expected_clear(expected);
  return -1;
}

/* The targets of the CPU have all types. */
static gboolean lacks_types(const char *target) {
  return !g_str_has_prefix(target, "llvm") && !g_str_has_prefix(target, "c ");
}

/* Returns the fault of a graph on a target (g_free), or NULL. An error is a fault, unless the
 * target lacks a type. */
static char *fault(const RandomGraph *graph, const Expected *expected, const char *target) {
  char *why = NULL;
  Results *got = compute(graph, FORM_INPUTS, target);
  if (got)
    difference(graph, got, expected, &why);
  else if (!bp_error_is(BP_ERROR_NOT_IMPLEMENTED) || !lacks_types(target))
    why = g_strdup(bp_error_message());
  else
    g_test_message("not run on %s: %s", target, bp_error_message());
  bp_error_clear();
  results_free(got);
  return why;
}

/* ---- Reducing graphs --------------------------------------------------------------------- */

static char *fault_alone(const RandomGraph *graph, const char *target) {
  Expected expected;
  char *why;
  if (expect(graph, &expected)) {
    why = NULL;
    bp_error_clear();
    return why;
  }
  why = fault(graph, &expected, target);
  expected_clear(&expected);
  return why;
}

/* Keeps only the first wrong output. */
static void reduce_outputs(RandomGraph *graph, const char *target) {
  GArray *all = graph->outputs;
  graph->outputs = g_array_new(FALSE, TRUE, sizeof(int32_t));
  for (guint i = 0; i < all->len; i++) {
    g_array_set_size(graph->outputs, 0);
    g_array_append_val(graph->outputs, g_array_index(all, int32_t, i));
    char *why = fault_alone(graph, target);
    g_free(why);
    if (why) {
      g_array_unref(all);
      return;
    }
  }
  g_array_unref(graph->outputs);
  graph->outputs = all;
}

/* Replaces results of nodes by inputs, as long as the graph stays wrong. */
static void reduce_nodes(RandomGraph *graph, const char *target) {
  for (int32_t i = (int32_t)graph->values->len - 1; i >= 0; i--) {
    RandomValue old = *random_graph_value(graph, i);
    gboolean *needed = random_graph_needed(graph), is_output = FALSE, use = needed[i];
    g_free(needed);
    for (guint k = 0; k < graph->outputs->len; k++)
      is_output |= g_array_index(graph->outputs, int32_t, k) == i;
    if (old.node < 0 || is_output || !use)
      continue;
    random_graph_cut(graph, i);
    char *why = fault_alone(graph, target);
    if (!why)
      random_graph_uncut(graph, i, &old);
    g_free(why);
  }
}

static char *report(RandomGraph *graph, const char *target, uint64_t seed, const char *why) {
  reduce_outputs(graph, target);
  reduce_nodes(graph, target);
  GByteArray *bytes = random_graph_bytes(graph, FORM_INPUTS);
  char *small = fault_alone(graph, target), *text = random_graph_print(graph);
  char *path = g_strdup_printf("%s/tests/graph/random-graph-%" G_GUINT64_FORMAT ".onnx",
                               g_getenv("top_builddir") ? g_getenv("top_builddir") : ".", seed);
  gboolean written = g_file_set_contents(path, (const char *)bytes->data, bytes->len, NULL);
  char *result = g_strdup_printf("BP_TEST_SEED=%" G_GUINT64_FORMAT " BP_TEST_COUNT=1 "
                                 "BP_TEST_TARGET='%s': %s\nin %s, the part:\n%swhere %s",
                                 seed, target, why, written ? path : "no file", text,
                                 small ? small : "nothing is wrong any more");
  g_byte_array_unref(bytes);
  g_free(path);
  g_free(text);
  g_free(small);
  return result;
}

/* ---- Tests ------------------------------------------------------------------------------- */

static uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = g_getenv(name);
  return text ? g_ascii_strtoull(text, NULL, 10) : otherwise;
}

static gboolean takes_part(const Share *share, size_t index, uint64_t seed) {
  const char *only = g_getenv("BP_TEST_TARGET");
  BpTarget *target;
  if (only ? strcmp(only, share->text) : (seed + index) % (uint64_t)share->share != 0)
    return FALSE;
  target = bp_target_parse(share->text);
  gboolean has = target && has_device(bp_target_device_type(target));
  bp_error_clear();
  bp_object_release(target);
  return has;
}

/* The graph of a seed has consecutive operators of the table, and others. */
#define FIRST_OPS 7
#define NUM_NODES 14

/* Graphs for onnxruntime have no rare types: it lacks many operators for them. */
static gboolean has_rare_types(uint64_t seed) {
  return (seed / 3 % 4 == 0 || g_getenv("BP_TEST_RARE")) && !g_getenv("BP_TEST_WRITE");
}

static RandomGraph *graph_of(uint64_t seed) {
  return random_graph_new(seed, (int32_t)(seed * FIRST_OPS % (uint64_t)random_graph_num_ops()),
                          FIRST_OPS, NUM_NODES, has_rare_types(seed));
}

static void append_number(GByteArray *bytes, double number) {
  g_byte_array_append(bytes, (const guint8 *)&number, sizeof(number));
}

/* Appends ONNX's number of the type, the rank, the extents and the elements, all as doubles. */
static void append_value(GByteArray *bytes, const RandomValue *value, const GArray *elements) {
  g_assert_cmpint(elements->len, ==, random_value_count(value));
  append_number(bytes, value->type);
  append_number(bytes, value->rank);
  for (int32_t i = 0; i < value->rank; i++)
    append_number(bytes, (double)value->shape[i]);
  for (guint i = 0; i < elements->len; i++)
    append_number(bytes, g_array_index(elements, double, i));
}

static void write_file(const char *folder, uint64_t seed, const char *suffix,
                       const GByteArray *bytes) {
  char *path = g_strdup_printf("%s/%" G_GUINT64_FORMAT ".%s", folder, seed, suffix);
  GError *error = NULL;
  if (!g_file_set_contents(path, (const char *)bytes->data, bytes->len, &error))
    g_error("%s", error->message);
  g_free(path);
}

static void write_seed(uint64_t seed, const char *folder) {
  RandomGraph *graph = graph_of(seed);
  g_array_set_size(graph->outputs, 0);
  for (int32_t i = 0; i < (int32_t)graph->values->len; i++)
    if (random_graph_value(graph, i)->node >= 0 &&
        !random_value_is_narrow(random_graph_value(graph, i)))
      g_array_append_val(graph->outputs, i);
  Results *results = compute(graph, FORM_CONSTANTS, reference_target());
  if (!results)
    g_error("seed %" G_GUINT64_FORMAT ": %s", seed, bp_error_message());
  GByteArray *model = random_graph_bytes(graph, FORM_CONSTANTS), *values = g_byte_array_new();
  for (guint i = 0; i < results->outputs->len; i++)
    append_value(values, random_graph_value(graph, g_array_index(graph->outputs, int32_t, i)),
                 results->outputs->pdata[i]);
  write_file(folder, seed, "onnx", model);
  write_file(folder, seed, "values", values);
  g_byte_array_unref(values);
  g_byte_array_unref(model);
  results_free(results);
  random_graph_free(graph);
}

static void check_seed(uint64_t seed) {
  RandomGraph *graph = graph_of(seed);
  Expected expected;
  if (expect(graph, &expected)) {
    char *text = random_graph_print(graph);
    g_test_message("seed %" G_GUINT64_FORMAT ": %s\n%s", seed, bp_error_message(), text);
    g_test_fail();
    bp_error_clear();
    g_free(text);
    random_graph_free(graph);
    return;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(shares); i++) {
    char *why = takes_part(&shares[i], i, seed) ? fault(graph, &expected, shares[i].text) : NULL;
    if (why) {
      char *text = report(graph, shares[i].text, seed, why);
      g_test_message("%s", text);
      g_test_fail();
      g_free(text);
      g_free(why);
      break;
    }
  }
  expected_clear(&expected);
  random_graph_free(graph);
}

static void test_results(void) {
  uint64_t first = setting("BP_TEST_SEED", 1);
  uint64_t all = (uint64_t)(random_graph_num_ops() + FIRST_OPS - 1) / FIRST_OPS;
  uint64_t count = setting("BP_TEST_COUNT", all);
  uint64_t seconds = setting("BP_TEST_SECONDS", g_getenv("BP_TEST_LONG") ? 600 : 0);
  gint64 end = g_get_monotonic_time() + (gint64)seconds * G_USEC_PER_SEC;
  const char *folder = g_getenv("BP_TEST_WRITE");
  for (uint64_t i = 0; i < count || g_get_monotonic_time() < end; i++)
    if (folder)
      write_seed(first + i, folder);
    else
      check_seed(first + i);
}

/* ---- Open extents ------------------------------------------------------------------------ */

static const Share open_shares[] = {
    {"llvm -opt=1", 3},
    {"llvm -opt=0 -vector_bits=128 -num_cores=3", 3},
    {"llvm -opt=0 -vector_bits=0", 3},
    {"opencl", 12},
    {"opencl -thread_warp_size=8", 24},
    {"vulkan", 12},
};

/* Whether the target supports the graph with open extents; its results are then checked. */
static gboolean check_open_on(const RandomGraph *graph, const Expected *expected, uint64_t seed,
                              const char *target) {
  static const RandomForm forms[] = {FORM_OPEN,          FORM_BATCH, FORM_LOOSE,  FORM_DATA,
                                     FORM_LOOP,          FORM_SCAN,  FORM_BRANCH, FORM_SEQUENCE,
                                     FORM_OPEN_SEQUENCE, FORM_LISTS};
  char *why = NULL;
  Results *got = compute(graph, forms[seed / 2 % G_N_ELEMENTS(forms)], target);
  gboolean is_open = got != NULL;
  if (got)
    difference(graph, got, expected, &why);
  else if (!bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    why = g_strdup(bp_error_message());
  else if (g_getenv("BP_TEST_TARGET"))
    g_test_message("seed %" G_GUINT64_FORMAT ": %s", seed, bp_error_message());
  if (why) {
    char *text = random_graph_print(graph);
    g_test_message("BP_TEST_SEED=%" G_GUINT64_FORMAT " BP_TEST_COUNT=1, target %s: %s\n%s", seed,
                   target, why, text);
    g_test_fail();
    g_free(text);
  }
  bp_error_clear();
  g_free(why);
  results_free(got);
  return is_open;
}

/* Runs the graph of a seed on the targets whose turn it is; counts the runs, and those with open
 * extents. */
static void check_open(uint64_t seed, uint64_t *runs, uint64_t *open) {
  RandomGraph *graph = random_graph_new(seed, (int32_t)(seed % (uint64_t)random_graph_num_ops()), 1,
                                        1 + (int32_t)(seed / 64 % 4), has_rare_types(seed));
  Expected expected;
  if (expect(graph, &expected))
    g_error("seed %" G_GUINT64_FORMAT ": %s", seed, bp_error_message());
  for (size_t i = 0; i < G_N_ELEMENTS(open_shares); i++)
    if (takes_part(&open_shares[i], i, seed)) {
      *open += (uint64_t)check_open_on(graph, &expected, seed, open_shares[i].text);
      ++*runs;
    }
  expected_clear(&expected);
  random_graph_free(graph);
}

static void test_open(void) {
  uint64_t first = setting("BP_TEST_SEED", 1), count = setting("BP_TEST_COUNT", 120);
  uint64_t seconds = setting("BP_TEST_SECONDS", g_getenv("BP_TEST_LONG") ? 600 : 0);
  gint64 end = g_get_monotonic_time() + (gint64)seconds * G_USEC_PER_SEC;
  uint64_t done = 0, runs = 0, open = 0;
  for (; done < count || g_get_monotonic_time() < end; done++)
    check_open(first + done, &runs, &open);
  g_test_message("%d of %d runs took open extents", (int)open, (int)runs);
  g_assert_true(done < 100 || open >= runs / 4);
}

/* ---- Inputs in the caller's memory ------------------------------------------------------- */

/* Binds inputs to new tensors on a device; returns the tensors (transfer full), or NULL. */
static GPtrArray *bind_inputs(BpModel *model, BpModelContext *context, const RandomGraph *graph,
                              BpDevice device) {
  GPtrArray *tensors = g_ptr_array_new_with_free_func((GDestroyNotify)bp_object_release);
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    const RandomValue *value = random_graph_input(graph, info->name);
    BpTensor *tensor = bp_tensor_create(value->shape, value->rank, info->dtype, device, NULL);
    g_ptr_array_add(tensors, tensor);
    if (!tensor ||
        bp_tensor_copy_from_host(&tensor->view, value->data, random_value_bytes(value)) ||
        bp_model_bind_input(context, info->name, tensor)) {
      g_ptr_array_unref(tensors);
      return NULL;
    }
  }
  return tensors;
}

static void assert_alike(BpTensor *a, const void *expected, size_t size) {
  guint8 *bytes = g_malloc0(size + 1);
  g_assert_cmpint(bp_view_num_bytes(&a->view), ==, (int64_t)size);
  g_assert_cmpint(bp_tensor_copy_to_host(&a->view, bytes, size), ==, 0);
  g_assert_cmpmem(bytes, size, expected, size);
  g_free(bytes);
}

/* Compares a run on copies of the inputs with runs on the inputs in place. */
static void compare_bound(BpModel *model, const RandomGraph *graph, BpDevice device) {
  BpModelContext *copied = bp_model_context_create(model), *bound = bp_model_context_create(model);
  GPtrArray *tensors = bind_inputs(model, bound, graph, device);
  if (!tensors || set_inputs(model, copied, graph) || bp_model_run(copied))
    g_error("%s", bp_error_message());
  for (int turn = 0; turn < 2; turn++) {
    if (bp_model_run(bound))
      g_error("%s", bp_error_message());
    for (int32_t i = 0; i < bp_model_num_outputs(model); i++) {
      BpTensor *output = bp_model_get_output(copied, i);
      size_t size = (size_t)bp_view_num_bytes(&output->view);
      guint8 *bytes = g_malloc0(size + 1);
      g_assert_cmpint(bp_tensor_copy_to_host(&output->view, bytes, size), ==, 0);
      assert_alike(bp_model_get_output(bound, i), bytes, size);
      g_free(bytes);
    }
    for (guint i = 0; i < tensors->len; i++) {
      const RandomValue *value =
          random_graph_input(graph, bp_model_input_info(model, (int32_t)i)->name);
      assert_alike(tensors->pdata[i], value->data, random_value_bytes(value));
    }
  }
  bp_model_context_free(copied);
  bp_model_context_free(bound);
  g_ptr_array_unref(tensors);
}

static void check_bound(uint64_t seed, const char *target_text, RandomForm form) {
  RandomGraph *graph = random_graph_new(seed, (int32_t)(seed % (uint64_t)random_graph_num_ops()), 1,
                                        1 + (int32_t)(seed / 8 % 6), has_rare_types(seed));
  GByteArray *bytes = random_graph_bytes(graph, form);
  char *path = onnx_write(bytes);
  const BpTarget *target = bp_target_parse(target_text);
  BpDevice device = {bp_target_device_type(target), 0};
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = &target, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  BpModel *model = module ? bp_model_create(module, &device, 1) : NULL;
  g_test_message("seed %" G_GUINT64_FORMAT " on %s%s%s", seed, target_text, model ? "" : ": ",
                 model ? "" : bp_error_message());
  if (model)
    compare_bound(model, graph, device);
  else if (!bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    g_test_fail();
  bp_error_clear();
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  random_graph_free(graph);
}

static void test_bound(void) {
  static const RandomForm forms[] = {FORM_INPUTS, FORM_OPEN,   FORM_INPUTS, FORM_LOOP,
                                     FORM_SCAN,   FORM_BRANCH, FORM_DATA};
  uint64_t first = setting("BP_TEST_SEED", 1), count = setting("BP_TEST_COUNT", 40);
  uint64_t seconds = setting("BP_TEST_SECONDS", g_getenv("BP_TEST_LONG") ? 300 : 0);
  gint64 end = g_get_monotonic_time() + (gint64)seconds * G_USEC_PER_SEC;
  for (uint64_t i = first; i < first + count || g_get_monotonic_time() < end; i++)
    for (size_t k = 0; k < G_N_ELEMENTS(open_shares); k++)
      if (takes_part(&open_shares[k], k, i))
        check_bound(i, open_shares[k].text, forms[i % G_N_ELEMENTS(forms)]);
}

/* ---- Operators without a generator ------------------------------------------------------- */

/* Uses that the importer refuses, and the axis of a DFT, an attribute before version 20 alone. */
static const char *const left_out[] = {
    "BatchNormalization output 1",
    "BatchNormalization output 2",
    "BatchNormalization output 3",
    "BatchNormalization output 4",
    "DFT axis",
    "com.microsoft.MoE input 6",
    "com.microsoft.MoE input 7",
    "com.microsoft.QMoE input 8",
    "com.microsoft.QMoE input 9",
    "com.microsoft.QMoE input 10",
    "com.microsoft.QMoE input 13",
    "com.microsoft.SkipLayerNormalization output 1",
    "com.microsoft.SkipLayerNormalization output 2",
    "com.microsoft.SkipSimplifiedLayerNormalization output 1",
    "com.microsoft.SkipSimplifiedLayerNormalization output 2",
    NULL,
};

/* Adds "OP", and "OP ATTRIBUTE", "OP input N" and "OP output N" for all that a node has. */
static void add_uses(GHashTable *uses, const RandomNode *node) {
  char **words = g_strsplit(node->attrs, " ", -1);
  g_hash_table_add(uses, g_strdup(node->op));
  for (char **word = words; *word; word++)
    g_hash_table_add(uses, g_strdup_printf("%s %.*s", node->op, (int)strcspn(*word, "="), *word));
  for (int32_t i = 0; i < node->num_reads; i++)
    if (node->reads[i] >= 0)
      g_hash_table_add(uses, g_strdup_printf("%s input %d", node->op, i));
  for (int32_t i = 0; i < node->num_results; i++)
    if (node->results[i] >= 0)
      g_hash_table_add(uses, g_strdup_printf("%s output %d", node->op, i));
  g_strfreev(words);
}

/* Collects the uses of operators in small graphs, a number of graphs for each generator. */
static GHashTable *all_uses(void) {
  GHashTable *uses = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (int32_t op = 0; op < random_graph_num_ops(); op++)
    for (uint64_t seed = 1; seed <= 200; seed++) {
      RandomGraph *graph = random_graph_new(seed, op, 1, 1, seed % 2 == 0);
      for (int32_t i = 0; i < (int32_t)graph->nodes->len; i++)
        add_uses(uses, random_graph_node(graph, i));
      random_graph_free(graph);
    }
  return uses;
}

/* Fails the test if no graph has the use. */
static void expect_use(GHashTable *uses, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void expect_use(GHashTable *uses, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *use = g_strdup_vprintf(format, args);
  va_end(args);
  if (!g_hash_table_contains(uses, use) && !g_strv_contains(left_out, use)) {
    g_test_message("no random graph has: %s", use);
    g_test_fail();
  }
  g_free(use);
}

static int32_t member(const json_t *op, const char *name) {
  return (int32_t)json_integer_value(json_object_get(op, name));
}

static void test_generators(void) {
  char *text = bp_onnx_list_operators();
  json_t *document = text ? json_loads(text, 0, NULL) : NULL, *op, *attr;
  GHashTable *uses = all_uses();
  int32_t count = 0;
  size_t i, k;
  json_array_foreach(json_object_get(document, "operators"), i, op) {
    const char *domain = json_string_value(json_object_get(op, "domain"));
    char *name = g_strconcat(domain, *domain ? "." : "",
                             json_string_value(json_object_get(op, "name")), NULL);
    expect_use(uses, "%s", name);
    count += g_hash_table_contains(uses, name);
    json_array_foreach(json_object_get(op, "attributes"), k, attr)
        expect_use(uses, "%s %s", name, json_string_value(attr));
    for (int32_t n = 0; n < member(op, "most_inputs"); n++)
      expect_use(uses, "%s input %d", name, n);
    for (int32_t n = 0; n < member(op, "most_outputs"); n++)
      expect_use(uses, "%s output %d", name, n);
    g_free(name);
  }
  g_assert_cmpint(count, ==, random_graph_num_ops());
  g_hash_table_unref(uses);
  json_decref(document);
  bp_str_free(text);
}

int main(int argc, char **argv) {
  /* More threads than most of the tested targets have cores, and possibly than this machine has. */
  g_setenv("BACKPLANE_NUM_THREADS", "7", FALSE);
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/random-graphs/every_attribute_input_and_output_of_an_operator_is_generated",
                  test_generators);
  g_test_add_func("/random-graphs/compiled_graphs_agree_with_the_interpreter", test_results);
  if (!g_getenv("BP_TEST_WRITE"))
    g_test_add_func("/random-graphs/graphs_with_open_extents_agree_with_the_interpreter",
                    test_open);
  if (!g_getenv("BP_TEST_WRITE"))
    g_test_add_func("/random-graphs/inputs_in_the_callers_memory_are_read_and_not_written",
                    test_bound);
  return g_test_run();
}
