/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers: parts that a plugin's library of two operators claims (tests/mock/tiny.c) give
 * the results of generated code; a fault of such a plugin is an error, or generated code computes
 * the part. */
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/onnx_builder.h"

static char *plugin_folder;

/* ---- Compiling and running --------------------------------------------------------------- */

/* Records a report: "node op compiler function why", a line each, "-" for NULL. */
static int note(void *context, const BpClaimedNode *node) {
  g_assert_cmpuint(node->struct_size, >=, sizeof(*node));
  g_assert_true(!node->compiler == !node->function && !node->compiler == !!node->why);
  g_string_append_printf(context, "%s %s %s %s %s\n", node->node, node->op,
                         node->compiler ? node->compiler : "-",
                         node->function ? node->function : "-", node->why ? node->why : "-");
  return 0;
}

/* The target compiles C without optimization, because optimizing takes most of the C compiler's
 * time. */
#define C_TARGET "c -options=-O0"

typedef struct Compiled {
  char *path;
  GString *report;
  BpModule *module; /* NULL with an error raised */
} Compiled;

static void compiled_clear(Compiled *compiled) {
  unlink(compiled->path);
  g_free(compiled->path);
  g_string_free(compiled->report, TRUE);
  bp_object_release(compiled->module);
}

/* Compiles for targets and graph compilers, each a comma-separated list; frees the builder. */
static Compiled compile_with(OnnxBuilder *builder, const char *target_texts, const char *names,
                             double least) {
  GByteArray *bytes = onnx_bytes(builder);
  Compiled compiled = {.path = onnx_write(bytes), .report = g_string_new(NULL)};
  char **texts = g_strsplit(target_texts, ",", -1), **compilers = g_strsplit(names, ",", -1);
  const BpTarget *targets[4] = {NULL}, *fallback = bp_target_parse(C_TARGET);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = targets,
                              .fallback = strcmp(target_texts, "tiny") ? NULL : fallback,
                              .num_graph_compilers = (int32_t)g_strv_length(compilers),
                              .graph_compilers = (const char *const *)compilers,
                              .least_claimed = least,
                              .claimed = note,
                              .claimed_context = compiled.report};
  for (; texts[options.num_targets]; options.num_targets++)
    if (!(targets[options.num_targets] = bp_target_parse(texts[options.num_targets])))
      g_error("%s", bp_error_message());
  compiled.module = bp_model_compile(compiled.path, &options);
  for (int32_t i = 0; i < options.num_targets; i++)
    bp_object_release((BpTarget *)(uintptr_t)targets[i]);
  bp_object_release((BpTarget *)(uintptr_t)fallback);
  g_strfreev(texts);
  g_strfreev(compilers);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return compiled;
}

static BpModel *model_of(const Compiled *compiled) {
  BpModel *model =
      compiled->module ? bp_model_create(compiled->module, &(BpDevice){BP_DEVICE_CPU, 0}, 1) : NULL;
  if (!model)
    g_error("%s", bp_error_message());
  return model;
}

/* Returns all outputs, one after the other, of a float32 model whose inputs are all `x`; open
 * extents are `open`. */
static GArray *run_open(const Compiled *compiled, const float *x, int64_t open) {
  BpModel *model = model_of(compiled);
  BpModelContext *context = bp_model_context_create(model);
  GArray *all = g_array_new(FALSE, FALSE, sizeof(float));
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    int64_t shape[4];
    for (int32_t d = 0; d < info->ndim; d++)
      shape[d] = info->shape[d] < 0 ? open : info->shape[d];
    BpTensor *tensor =
        bp_tensor_create(shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    if (bp_tensor_copy_from_host(&tensor->view, x, (uint64_t)bp_view_num_bytes(&tensor->view)) ||
        bp_model_set_input(context, info->name, &tensor->view))
      g_error("%s", bp_error_message());
    bp_object_release(tensor);
  }
  for (int again = 0; again < 2; again++)
    if (bp_model_run(context))
      g_error("%s", bp_error_message());
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++) {
    BpTensor *output = bp_model_get_output(context, i);
    guint old = all->len;
    g_array_set_size(all, old + (guint)bp_view_num_elements(&output->view));
    if (bp_tensor_copy_to_host(&output->view, &g_array_index(all, float, old),
                               (uint64_t)bp_view_num_bytes(&output->view)))
      g_error("%s", bp_error_message());
  }
  bp_model_context_free(context);
  bp_model_release(model);
  return all;
}

static GArray *run(const Compiled *compiled, const float *x) {
  return run_open(compiled, x, 2);
}

static void assert_raised(const char *kind, const char *text) {
  if (!bp_error_is(kind) || !strstr(bp_error_message(), text))
    g_error("no %s with \"%s\": %s", kind, text, bp_error_message());
  bp_error_clear();
}

/* ---- Parts ------------------------------------------------------------------------------- */

static void add_node(OnnxBuilder *builder, const char *name, const char *op, const char *inputs,
                     const char *output) {
  Backplane__Onnx__NodeProto *node = onnx_node(builder, op, inputs, output, "");
  node->name = (char *)(uintptr_t)name;
}

/* a = relu(x); b = -a; y = a + b: the library supports both ends of a path that leaves it. */
static OnnxBuilder *bent_model_of(const char *shape) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  add_node(builder, "first", "Relu", "x", "a");
  add_node(builder, "between", "Neg", "a", "b");
  add_node(builder, "last", "Add", "a,b", "y");
  onnx_output(builder, "y");
  return builder;
}

static OnnxBuilder *bent_model(void) {
  return bent_model_of("2x3");
}

static const float signs[] = {1, -2, 3, -4, 5, -6};

static void test_path_that_comes_back(void) {
  Compiled compiled = compile_with(bent_model(), C_TARGET, "tiny", 0);
  GArray *got = run(&compiled, signs);
  for (int i = 0; i < 6; i++)
    g_assert_true(g_array_index(got, float, i) == 0);
  g_assert_cmpstr(compiled.report->str, ==,
                  "first Relu tiny part_0_tiny -\n"
                  "between Neg - - tiny: it has Add and Relu alone\n"
                  "last Add tiny part_1_tiny -\n");
  g_array_unref(got);
  compiled_clear(&compiled);
}

/* Reads the whole file and removes it (transfer full). */
static char *take_file(const char *folder, const char *name) {
  char *path = g_build_filename(folder, name, NULL), *text = NULL;
  g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_assert_cmpint(g_unlink(path), ==, 0);
  g_free(path);
  return text;
}

static void remove_folder(char *folder) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  for (const char *name; (name = g_dir_read_name(dir));)
    g_free(take_file(folder, name));
  g_dir_close(dir);
  g_assert_cmpint(g_rmdir(folder), ==, 0);
  g_free(folder);
}

static void test_dump_has_the_source_of_each_part(void) {
  char *folder = g_dir_make_tmp("backplane-dump-XXXXXX", NULL);
  OnnxBuilder *builder = bent_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  const BpTarget *target = bp_target_parse(C_TARGET);
  const char *const compilers[] = {"tiny"};
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = &target,
                                    .num_targets = 1,
                                    .dump_dir = folder,
                                    .num_graph_compilers = 1,
                                    .graph_compilers = compilers};
  BpModule *module = bp_model_compile(path, &options);
  g_assert_nonnull(module);
  char *first = take_file(folder, "0-c-tiny.txt"), *second = take_file(folder, "0-c-tiny.2.txt");
  g_assert_cmpstr(first, ==, "part_0_tiny");
  g_assert_cmpstr(second, ==, "part_1_tiny");
  g_free(first);
  g_free(second);
  bp_object_release(module);
  bp_object_release((void *)(uintptr_t)target);
  g_unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  remove_folder(folder);
}

/* No node is left for the target's generator. */
static void test_whole_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  onnx_floats(builder, "w", "2x3");
  onnx_node(builder, "Add", "x,w", "a", "");
  onnx_node(builder, "Relu", "a", "y", "");
  onnx_node(builder, "Add", "a,y", "z", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  onnx_output(builder, "a");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny", 1);
  GArray *got = run(&compiled, signs);
  BpModel *model = model_of(&compiled);
  char *json = bp_model_graph_json(model);
  g_assert_nonnull(strstr(json, "the Add\\nthe Relu\\nthe Add"));
  bp_str_free(json);
  bp_model_release(model);
  float *w = onnx_float_values(6);
  for (int i = 0; i < 6; i++) {
    float a = signs[i] + w[i], y = a > 0 ? a : 0;
    g_assert_true(g_array_index(got, float, i) == y);
    g_assert_true(g_array_index(got, float, 6 + i) == a + y);
    g_assert_true(g_array_index(got, float, 12 + i) == a);
  }
  g_assert_cmpstr(compiled.report->str, ==,
                  "the Add Add tiny part_0_tiny -\n"
                  "the Relu Relu tiny part_0_tiny -\n"
                  "the Add Add tiny part_0_tiny -\n");
  g_free(w);
  g_array_unref(got);
  compiled_clear(&compiled);
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

#define NODES    18
#define ELEMENTS 6

/* The numbers are so small that they are exact. */
static float compute(const char *op, float a, float b) {
  return !strcmp(op, "Add")    ? a + b
         : !strcmp(op, "Sub")  ? a - b
         : !strcmp(op, "Max")  ? (a > b ? a : b)
         : !strcmp(op, "Neg")  ? -a
         : !strcmp(op, "Relu") ? (a > 0 ? a : 0)
                               : a;
}

/* Adds nodes, some of them supported by the library, each reading earlier values at random; appends
 * the expected outputs for inputs that are all `x` to `want`. */
static OnnxBuilder *random_model(uint32_t seed, const char *shape, const float *x, GArray *want) {
  static const char *const ops[] = {"Add", "Relu", "Sub", "Neg", "Add", "Max", "Relu", "Identity"};
  OnnxBuilder *builder = onnx_builder_new();
  float values[NODES + 2][ELEMENTS];
  uint32_t state = seed;
  memcpy(values[0], x, sizeof(values[0]));
  memcpy(values[1], x, sizeof(values[1]));
  onnx_input(builder, "v0", ONNX_FLOAT, shape);
  onnx_input(builder, "v1", ONNX_FLOAT, shape);
  for (uint32_t known = 2; known < NODES + 2; known++) {
    const char *op = ops[next_random(&state) % G_N_ELEMENTS(ops)];
    uint32_t a = known - 1 - next_random(&state) % MIN(known, 5), b = next_random(&state) % known;
    gboolean is_binary = !strcmp(op, "Add") || !strcmp(op, "Sub") || !strcmp(op, "Max");
    char inputs[32], output[16];
    g_snprintf(inputs, sizeof(inputs), is_binary ? "v%u,v%u" : "v%u", a, b);
    g_snprintf(output, sizeof(output), "v%u", known);
    onnx_node(builder, op, inputs, output, "");
    for (int i = 0; i < ELEMENTS; i++)
      values[known][i] = compute(op, values[a][i], values[b][i]);
    if (known + 1 < NODES + 2 && next_random(&state) % 6)
      continue;
    onnx_output(builder, output);
    g_array_append_vals(want, values[known], ELEMENTS);
  }
  return builder;
}

static gboolean has_target(const char *target) {
  BpTarget *parsed = bp_target_parse(target);
  bp_object_release(parsed);
  bp_error_clear();
  return parsed != NULL;
}

static void test_random_graphs(gconstpointer compiler) {
  const char *target = has_target("llvm") ? "llvm -opt=0" : C_TARGET;
  for (uint32_t seed = 1; seed <= 12; seed++) {
    GArray *want = g_array_new(FALSE, FALSE, sizeof(float));
    const char *shape = strstr(compiler, "open") ? "Nx3" : "2x3";
    OnnxBuilder *builder = random_model(seed, shape, signs, want);
    Compiled compiled = compile_with(builder, target, compiler, 0);
    GArray *got = run(&compiled, signs);
    g_assert_cmpuint(got->len, ==, want->len);
    for (guint i = 0; i < want->len; i++)
      if (g_array_index(got, float, i) != g_array_index(want, float, i))
        g_error("seed %u, element %u: %g instead of %g\n%s", seed, i,
                (double)g_array_index(got, float, i), (double)g_array_index(want, float, i),
                compiled.report->str);
    g_assert_nonnull(strstr(compiled.report->str, "part_"));
    g_array_unref(want);
    g_array_unref(got);
    compiled_clear(&compiled);
  }
}

/* Nodes that the importer computes, or finds to be equal to an input, are not offered. */
static void test_settled_nodes_are_not_offered(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  onnx_floats(builder, "w", "2x3");
  onnx_node(builder, "Relu", "w", "v", "");
  onnx_node(builder, "Identity", "x", "same", "");
  onnx_node(builder, "Add", "same,v", "y", "");
  onnx_node(builder, "Relu", "x", "unread", "");
  onnx_output(builder, "y");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny", 1);
  GArray *got = run(&compiled, signs);
  g_assert_cmpstr(compiled.report->str, ==, "the Add Add tiny part_0_tiny -\n");
  g_assert_cmpuint(got->len, ==, 6);
  g_array_unref(got);
  compiled_clear(&compiled);
}

/* ---- Several graph compilers, and several targets ---------------------------------------- */

/* The least cost decides only if all costs are known; otherwise the first graph compiler gets the
 * node. */
static void test_cheaper_graph_compiler_gets_the_node(void) {
  static const char *const cases[][2] = {
      {"tiny-dear,tiny-cheap", " tiny-cheap part_0_tiny_cheap "},
      {"tiny-cheap,tiny-dear", " tiny-cheap part_0_tiny_cheap "},
      {"tiny-dear,tiny", " tiny-dear part_0_tiny_dear "},
      {"tiny,tiny-cheap", " tiny part_0_tiny "},
      {"tiny-dear,tiny-cheap,tiny", " tiny-dear part_0_tiny_dear "},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    Compiled compiled = compile_with(bent_model(), C_TARGET, cases[i][0], 0);
    GArray *got = run(&compiled, signs);
    g_assert_nonnull(strstr(compiled.report->str, cases[i][1]));
    g_array_unref(got);
    compiled_clear(&compiled);
  }
}

static void test_several_targets(void) {
  if (!has_target("opencl")) {
    g_test_skip("there is no target opencl");
    return;
  }
  Compiled compiled = compile_with(bent_model(), "opencl,c", "tiny", 0.6);
  GArray *got = run(&compiled, signs);
  g_assert_nonnull(strstr(compiled.report->str, "first Relu tiny"));
  g_array_unref(got);
  compiled_clear(&compiled);
  compiled = compile_with(bent_model(), "opencl", "tiny", 0);
  g_assert_null(compiled.module);
  assert_raised(BP_ERROR_VALUE, "tiny compiles for devices of kind cpu, and no target is");
  compiled_clear(&compiled);
}

/* A device has only a library: its target refuses other nodes, which the CPU runs. */
static void test_target_without_generator(void) {
  Compiled compiled = compile_with(bent_model(), "tiny", "tiny-device", 0);
  char *library = g_strconcat(compiled.path, ".so", NULL);
  if (!compiled.module || bp_module_export_library(compiled.module, library))
    g_error("%s", bp_error_message());
  BpModule *loaded = bp_model_open(library);
  if (!loaded)
    g_error("%s", bp_error_message());
  g_assert_nonnull(strstr(compiled.report->str, "first Relu tiny-device part_0_tiny_device -"));
  BpModule *code = bp_module_get_import(compiled.module, 0);
  g_assert_cmpstr(bp_module_kind(code), ==, "tiny");
  g_assert_cmpuint(bp_module_num_imports(code), ==, 2);
  bp_object_release(loaded);
  unlink(library);
  g_free(library);
  compiled_clear(&compiled);
}

/* ---- Faults of the plugin ---------------------------------------------------------------- */

static void test_defects_are_named(void) {
  static const struct {
    const char *names, *kind, *text;
  } cases[] = {
      {"nobody", BP_ERROR_NOT_FOUND, "no installed plugin has a graph compiler \"nobody\""},
      {"tiny,tiny", BP_ERROR_VALUE, "tiny is named twice"},
      {"tiny-cuda", BP_ERROR_VALUE, "tiny-cuda compiles for devices of kind cuda"},
      {"tiny-short", BP_ERROR_PLUGIN, "lacks a slot"},
      {"tiny-reserved", BP_ERROR_PLUGIN, "has 1 in `reserved`"},
      {"tiny-renamed", BP_ERROR_PLUGIN, "gives the table of another graph compiler, \"another\""},
      {"tiny-older", BP_ERROR_PLUGIN, "has no table of version 1"},
      {"tiny-nowhere", BP_ERROR_PLUGIN, "node 3 of 3: there is no such node"},
      {"tiny-twice", BP_ERROR_PLUGIN, "node 0 of 3: it was taken or declined before"},
      {"tiny-nan", BP_ERROR_PLUGIN, "its cost is not a number"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    Compiled compiled = compile_with(bent_model(), C_TARGET, cases[i].names, 0);
    g_assert_null(compiled.module);
    assert_raised(cases[i].kind, cases[i].text);
    compiled_clear(&compiled);
  }
}

/* Generated code computes a part that could not be compiled. */
static void test_parts_are_handed_back(void) {
  static const char *const cases[][2] = {
      {"tiny-fails", "tiny-fails: node 'first' does not fit"},
      {"tiny-everything", "tiny-everything: node 'between' does not fit"},
      {"tiny-nameless", "tiny-nameless: its module has no function \"part_0_tiny_nameless\""},
      {"tiny-unsaved", "tiny-unsaved: its module of kind tiny cannot be saved"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    Compiled compiled = compile_with(bent_model(), C_TARGET, cases[i][0], 0);
    GArray *got = run(&compiled, signs);
    for (int k = 0; k < 6; k++)
      g_assert_true(g_array_index(got, float, k) == 0);
    g_assert_nonnull(strstr(compiled.report->str, cases[i][1]));
    g_assert_null(strstr(compiled.report->str, " part_0"));
    g_array_unref(got);
    compiled_clear(&compiled);
  }
}

static void test_too_few_claims(void) {
  Compiled compiled = compile_with(bent_model(), C_TARGET, "tiny", 0.67);
  g_assert_null(compiled.module);
  assert_raised(BP_ERROR_NOT_IMPLEMENTED,
                "claim 2 of 3 nodes, and the share that is required is 0.67 "
                "(BpCompileOptions.least_claimed, --require): 'between' (Neg): tiny: it has Add");
  compiled_clear(&compiled);
  compiled = compile_with(bent_model(), C_TARGET, "tiny", 1.5);
  g_assert_null(compiled.module);
  assert_raised(BP_ERROR_VALUE, "least_claimed is 1.5; it is from 0 to 1");
  compiled_clear(&compiled);
}

/* ---- Open extents and bodies ------------------------------------------------------------- */

/* One artifact computes inputs of every extent, including 0. */
static void test_open_extents_are_claimed(void) {
  Compiled compiled = compile_with(bent_model_of("Nx3"), C_TARGET, "tiny-open", 0.6);
  g_assert_nonnull(strstr(compiled.report->str, "first Relu tiny-open part_0_tiny_open -"));
  g_assert_nonnull(strstr(compiled.report->str, "last Add tiny-open part_1_tiny_open -"));
  for (int64_t rows = 0; rows < 3; rows++) {
    GArray *got = run_open(&compiled, signs, rows);
    g_assert_cmpuint(got->len, ==, (guint)(3 * rows));
    for (guint i = 0; i < got->len; i++)
      g_assert_true(g_array_index(got, float, i) == 0);
    g_array_unref(got);
  }
  compiled_clear(&compiled);
}

/* A graph compiler without the flag is not shown nodes with open extents, but all other nodes. */
static void test_open_extents_are_not_shown_without_the_flag(void) {
  OnnxBuilder *builder = bent_model_of("Nx3");
  onnx_input(builder, "z", ONNX_FLOAT, "2x3");
  add_node(builder, "known", "Relu", "z", "v");
  onnx_output(builder, "v");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny", 0);
  g_assert_nonnull(strstr(compiled.report->str,
                          "first Relu - - tiny: it takes known extents alone, and dimension 0 of "
                          "value 'x' has the open extent N; give shapes with --shape"));
  g_assert_nonnull(strstr(compiled.report->str, "known Relu tiny part_0_tiny -"));
  GArray *got = run(&compiled, signs);
  g_assert_cmpuint(got->len, ==, 12);
  for (int i = 0; i < 6; i++)
    g_assert_true(g_array_index(got, float, 6 + i) == (signs[i] > 0 ? signs[i] : 0));
  g_array_unref(got);
  compiled_clear(&compiled);
}

/* A run checks whether x and z have one shape, before the parts after the check compute. */
static void test_parts_compute_after_a_run_has_checked_shapes(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "Nx3");
  onnx_input(builder, "z", ONNX_FLOAT, "Mx3");
  add_node(builder, "first", "Relu", "x", "a");
  add_node(builder, "checked", "Add", "a,z", "b");
  add_node(builder, "last", "Relu", "b", "y");
  onnx_output(builder, "y");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny-open", 0);
  g_assert_nonnull(strstr(compiled.report->str, "first Relu tiny-open part_0_tiny_open -"));
  g_assert_nonnull(strstr(compiled.report->str, "checked Add - - it is not offered: its shapes"));
  g_assert_nonnull(strstr(compiled.report->str, "last Relu tiny-open part_1_tiny_open -"));
  GArray *got = run(&compiled, signs);
  for (int i = 0; i < 6; i++)
    g_assert_true(g_array_index(got, float, i) == (signs[i] > 0 ? 2 * signs[i] : 0));
  g_array_unref(got);
  compiled_clear(&compiled);
}

/* Only a run knows the extent of NonZero's output; some parts compute its input, and other parts
 * read its output. */
static void test_parts_around_shapes_of_data(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  add_node(builder, "first", "Relu", "x", "a");
  add_node(builder, "where", "NonZero", "a", "places");
  onnx_node(builder, "Cast", "places", "numbers", "to=1");
  add_node(builder, "twice", "Add", "numbers,numbers", "y");
  add_node(builder, "beside", "Add", "a,x", "z");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny-open", 0);
  g_assert_nonnull(strstr(compiled.report->str, "where NonZero - - it is not offered"));
  g_assert_nonnull(strstr(compiled.report->str, "twice Add tiny-open part_"));
  GArray *got = run(&compiled, signs);
  const float want[] = {0, 0, 2, 0, 4, 2, 2, -2, 6, -4, 10, -6};
  g_assert_cmpuint(got->len, ==, G_N_ELEMENTS(want));
  for (guint i = 0; i < got->len; i++)
    g_assert_true(g_array_index(got, float, i) == want[i]);
  g_array_unref(got);
  compiled_clear(&compiled);
}

/* A branch whose nodes, some of them supported by the library, read the surrounding graph. */
static OnnxBuilder *branch(const char *op) {
  OnnxBuilder *builder = onnx_builder_new();
  add_node(builder, "inside", op, "a", "p");
  add_node(builder, "sum", "Add", "p,x", "q");
  onnx_output(builder, "q");
  return builder;
}

static void test_bodies_are_claimed(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "Nx3");
  onnx_floats(builder, "zero", "1");
  onnx_node(builder, "ReduceSum", "x", "sum of x", "keepdims=0");
  onnx_node(builder, "Greater", "sum of x,zero", "condition", "");
  onnx_node(builder, "Squeeze", "condition", "chosen", "");
  add_node(builder, "before", "Relu", "x", "a");
  Backplane__Onnx__NodeProto *node = onnx_node(builder, "If", "chosen", "b", "");
  onnx_branch(builder, node, "then_branch", branch("Relu"));
  onnx_branch(builder, node, "else_branch", branch("Neg"));
  add_node(builder, "behind", "Relu", "b", "y");
  onnx_output(builder, "y");
  Compiled compiled = compile_with(builder, C_TARGET, "tiny-open", 0);
  g_assert_nonnull(
      strstr(compiled.report->str, "the If Branch - - it is not offered: it runs bodies"));
  g_assert_nonnull(strstr(compiled.report->str, "behind Relu tiny-open part_"));
  g_assert_nonnull(strstr(compiled.report->str, "inside Relu tiny-open part_"));
  g_assert_nonnull(strstr(compiled.report->str, "inside Neg - - tiny-open: it has Add and Relu"));
  const float more[] = {5, -2, 3, -4, 5, -6};
  for (int positive = 0; positive < 2; positive++) {
    const float *x = positive ? more : signs;
    GArray *got = run(&compiled, x);
    g_assert_cmpuint(got->len, ==, 6);
    for (int i = 0; i < 6; i++) {
      float a = x[i] > 0 ? x[i] : 0, b = (positive ? a : -a) + x[i];
      g_assert_true(g_array_index(got, float, i) == (b > 0 ? b : 0));
    }
    g_array_unref(got);
  }
  compiled_clear(&compiled);
}

/* ---- Artifacts --------------------------------------------------------------------------- */

/* Runs `backplane profile` on the library in a child process, with that plugin path. */
static int run_command(const char *library, const char *plugin_path, char **output) {
  char *program = g_build_filename(g_getenv("top_builddir"), "backplane", NULL);
  const char *const command[] = {program,  "profile", library,     "--device", "cpu",
                                 "--runs", "1",       "--seconds", "0",        NULL};
  char **environment = g_environ_setenv(g_get_environ(), "BACKPLANE_PLUGIN_PATH", plugin_path, 1);
  int status = 0;
  GError *error = NULL;
  if (!g_spawn_sync(NULL, (char **)(uintptr_t)command, environment, 0, NULL, NULL, NULL, output,
                    &status, &error))
    g_error("%s", error->message);
  g_strfreev(environment);
  g_free(program);
  return status;
}

/* ---- Selection by time ------------------------------------------------------------------- */

static void note_times(void *context, const BpMeasuredClaims *measured) {
  g_assert_cmpuint(measured->struct_size, >=, sizeof(*measured));
  *(BpMeasuredClaims *)context = *measured;
}

/* A model without cached times: Add and Relu of four million elements. */
static char *write_new_model(void) {
  char *name = g_strdup_printf("at-%" G_GINT64_FORMAT "-%d", g_get_real_time(), (int)getpid());
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x2000000");
  onnx_node(builder, "Add", "x,x", "a", "");
  add_node(builder, name, "Relu", "a", "y");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  g_free(name);
  return path;
}

static BpModule *compile_measured(const char *path, const char *name, const BpTarget *target,
                                  BpMeasuredClaims *measured, GString *report) {
  *measured = (BpMeasuredClaims){0};
  g_string_truncate(report, 0);
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = &target,
                                    .num_targets = 1,
                                    .graph_compilers = &name,
                                    .num_graph_compilers = 1,
                                    .claimed = note,
                                    .claimed_context = report,
                                    .measures_claims = 1,
                                    .measured = note_times,
                                    .measured_context = measured};
  return bp_model_compile(path, &options);
}

/* Slow parts are dropped, fast parts are kept; the second compilation reads the times of the first
 * from the cache. */
static void check_choice(const char *name, int keeps) {
  char *path = write_new_model();
  BpTarget *target = bp_target_parse(C_TARGET);
  GString *report = g_string_new(NULL);
  for (int again = 0; again < 2; again++) {
    BpMeasuredClaims measured;
    BpModule *module = compile_measured(path, name, target, &measured, report);
    if (!module)
      g_error("%s", bp_error_message());
    g_assert_cmpint(measured.keeps_claimed, ==, keeps);
    g_assert_cmpint(measured.is_recalled, ==, again);
    g_assert_cmpint(measured.claimed_ns < measured.generated_ns, ==, keeps);
    g_assert_cmpint(strstr(report->str, name) != NULL, ==, keeps);
    bp_object_release(module);
  }
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
}

/* With cached times, a reference with graph compilers is still an error. */
static void test_recalled_times_hide_no_error(void) {
  char *path = write_new_model();
  const char *name = "tiny-slow";
  BpTarget *target = bp_target_parse(C_TARGET);
  GString *report = g_string_new(NULL);
  BpMeasuredClaims measured;
  BpModule *module = compile_measured(path, name, target, &measured, report);
  g_assert_nonnull(module);
  g_assert_cmpint(measured.keeps_claimed, ==, 0);
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = (const BpTarget *const[]){target},
                                    .num_targets = 1,
                                    .is_reference = 1,
                                    .graph_compilers = &name,
                                    .num_graph_compilers = 1,
                                    .measures_claims = 1};
  g_assert_null(bp_model_compile(path, &options));
  assert_raised(BP_ERROR_VALUE, "is_reference");
  bp_object_release(module);
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
}

static void test_slower_claims_lose(void) {
  check_choice("tiny-slow", 0);
}

static void test_faster_claims_are_kept(void) {
  check_choice("tiny-idle", 1);
}

/* Of a large fast part and a small slow one, the artifact has only the large one. */
static void test_each_part_is_chosen_separately(void) {
  static const char *const values[] = {"x", "a", "b", "c", "d", "e", "f"};
  char *name = g_strdup_printf("at-%" G_GINT64_FORMAT "-%d", g_get_real_time(), (int)getpid());
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x2000000");
  onnx_input(builder, "z", ONNX_FLOAT, "2x3");
  for (size_t i = 1; i < G_N_ELEMENTS(values); i++) {
    char *inputs = g_strdup_printf("%s,x", values[i - 1]);
    add_node(builder, values[i], "Add", inputs, values[i]);
    onnx_output(builder, values[i]);
    g_free(inputs);
  }
  add_node(builder, name, "Relu", "z", "y");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes),
       *loss = g_strconcat(name, " Relu - - tiny-uneven: generated", NULL);
  BpTarget *target = bp_target_parse(C_TARGET);
  GString *report = g_string_new(NULL);
  for (int again = 0; again < 2; again++) {
    BpMeasuredClaims measured;
    BpModule *module = compile_measured(path, "tiny-uneven", target, &measured, report);
    if (!module)
      g_error("%s", bp_error_message());
    g_assert_cmpint(measured.is_recalled, ==, again);
    g_assert_cmpint(measured.num_parts, ==, 2);
    g_assert_cmpint(measured.kept_parts, ==, 1);
    g_assert_cmpint(measured.keeps_claimed, ==, 1);
    g_assert_cmpint(measured.mixed_ns, <, measured.generated_ns);
    g_assert_cmpint(measured.mixed_ns, <, measured.claimed_ns);
    g_assert_nonnull(strstr(report->str, "a Add tiny-uneven part_0_tiny_uneven"));
    if (!strstr(report->str, loss))
      g_error("%s", report->str);
    bp_object_release(module);
  }
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_free(loss);
  g_free(name);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* If no node is claimed, there is no measurement, and the reasons are reported. */
static void test_nothing_to_measure(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  onnx_node(builder, "Neg", "x", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse(C_TARGET);
  GString *report = g_string_new(NULL);
  BpMeasuredClaims measured;
  BpModule *module = compile_measured(path, "tiny", target, &measured, report);
  if (!module || measured.struct_size || !strstr(report->str, "it has Add and Relu alone"))
    g_error("%s: %s", report->str, bp_error_message());
  bp_object_release(module);
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* A model with open extents has no inputs for a measurement. */
static void test_measuring_needs_known_extents(void) {
  OnnxBuilder *builder = bent_model_of("Nx3");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse(C_TARGET);
  GString *report = g_string_new(NULL);
  BpMeasuredClaims measured;
  g_assert_null(compile_measured(path, "tiny-open", target, &measured, report));
  assert_raised(BP_ERROR_VALUE, "dimension 0 of input 'x' is open; give its shape (--shape");
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* Code for a missing device cannot be measured. */
static void test_measuring_needs_a_device(void) {
  char *path = write_new_model();
  BpTarget *target = bp_target_parse("tiny");
  GString *report = g_string_new(NULL);
  BpMeasuredClaims measured;
  g_assert_null(compile_measured(path, "tiny-device", target, &measured, report));
  assert_raised(BP_ERROR_NOT_FOUND, "no device for target tiny");
  g_string_free(report, TRUE);
  bp_object_release(target);
  unlink(path);
  g_free(path);
}

static void test_measuring_too_much_is_refused(void) {
  char *path = write_new_model();
  const char *name = "tiny";
  BpTarget *target = bp_target_parse(C_TARGET);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = (const BpTarget *const[]){target},
                              .num_targets = 1,
                              .graph_compilers = &name,
                              .num_graph_compilers = 1,
                              .least_claimed = 0.5,
                              .measures_claims = 1};
  g_assert_null(bp_model_compile(path, &options));
  assert_raised(BP_ERROR_VALUE, "no least_claimed (--require)");
  options.least_claimed = 0;
  options.num_graph_compilers = 0;
  g_assert_null(bp_model_compile(path, &options));
  assert_raised(BP_ERROR_VALUE, "at least one graph compiler");
  bp_object_release(target);
  unlink(path);
  g_free(path);
}

static void test_artifact_needs_the_plugin(void) {
  const char *without = g_getenv("BP_TEST_OTHER_PLUGINS");
  Compiled compiled = compile_with(bent_model(), C_TARGET, "tiny", 0);
  char *library = g_strconcat(compiled.path, ".so", NULL), *output;
  if (!compiled.module || bp_module_export_library(compiled.module, library))
    g_error("%s", bp_error_message());
  int status = run_command(library, g_getenv("BACKPLANE_PLUGIN_PATH"), &output);
  if (status)
    g_error("%s", output);
  g_free(output);
  status = run_command(library, without, &output);
  g_assert_cmpint(status, !=, 0);
  if (!strstr(output, "no installed plugin provides \"runtime.module.loadbinary_tiny\""))
    g_error("%s", output);
  g_free(output);
  unlink(library);
  g_free(library);
  compiled_clear(&compiled);
}

/* ---- The program ------------------------------------------------------------------------- */

/* Puts the plugin into a folder of its own, without other files, and first on the search path. */
static void install_plugin(void) {
  char *from = g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs/tiny.so", NULL);
  plugin_folder = g_dir_make_tmp("bp-claims-XXXXXX", NULL);
  char *to = g_build_filename(plugin_folder, "backplane-tiny.so", NULL);
  const char *others = g_getenv("BACKPLANE_PLUGIN_PATH");
  char *path = g_strconcat(plugin_folder, ":", others, NULL);
  if (symlink(from, to))
    g_error("cannot link %s", from);
  g_setenv("BP_TEST_OTHER_PLUGINS", others, TRUE);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_free(path);
  g_free(to);
  g_free(from);
}

static void remove_plugin(void) {
  char *file = g_build_filename(plugin_folder, "backplane-tiny.so", NULL);
  g_remove(file);
  g_rmdir(plugin_folder);
  g_free(file);
  g_free(plugin_folder);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  install_plugin();
  g_test_add_func("/claims/path_that_comes_back_splits_a_part", test_path_that_comes_back);
  g_test_add_func("/claims/dump_has_the_source_of_each_part",
                  test_dump_has_the_source_of_each_part);
  g_test_add_func("/claims/whole_model_needs_no_generator", test_whole_model);
  g_test_add_data_func("/claims/random_graphs_compute_the_same", "tiny", test_random_graphs);
  g_test_add_data_func("/claims/random_graphs_of_which_parts_fail", "tiny-fails-once",
                       test_random_graphs);
  g_test_add_func("/claims/settled_nodes_are_not_offered", test_settled_nodes_are_not_offered);
  g_test_add_func("/claims/cheaper_graph_compiler_gets_the_node",
                  test_cheaper_graph_compiler_gets_the_node);
  g_test_add_func("/claims/several_targets", test_several_targets);
  g_test_add_func("/claims/target_without_generator", test_target_without_generator);
  g_test_add_func("/claims/defects_are_named", test_defects_are_named);
  g_test_add_func("/claims/parts_are_handed_back", test_parts_are_handed_back);
  g_test_add_func("/claims/too_few_claims_are_an_error", test_too_few_claims);
  g_test_add_func("/claims/open_extents_are_claimed", test_open_extents_are_claimed);
  g_test_add_data_func("/claims/random_graphs_with_open_extents", "tiny-open", test_random_graphs);
  g_test_add_func("/claims/open_extents_are_not_shown_without_the_flag",
                  test_open_extents_are_not_shown_without_the_flag);
  g_test_add_func("/claims/parts_compute_after_a_run_has_checked_shapes",
                  test_parts_compute_after_a_run_has_checked_shapes);
  g_test_add_func("/claims/parts_around_shapes_of_data", test_parts_around_shapes_of_data);
  g_test_add_func("/claims/bodies_are_claimed", test_bodies_are_claimed);
  g_test_add_func("/claims/slower_claims_lose", test_slower_claims_lose);
  g_test_add_func("/claims/recalled_times_hide_no_error", test_recalled_times_hide_no_error);
  g_test_add_func("/claims/faster_claims_are_kept", test_faster_claims_are_kept);
  g_test_add_func("/claims/each_part_is_chosen_separately", test_each_part_is_chosen_separately);
  g_test_add_func("/claims/nothing_to_measure", test_nothing_to_measure);
  g_test_add_func("/claims/measuring_needs_known_extents", test_measuring_needs_known_extents);
  g_test_add_func("/claims/measuring_needs_a_device", test_measuring_needs_a_device);
  g_test_add_func("/claims/measuring_too_much_is_refused", test_measuring_too_much_is_refused);
  g_test_add_func("/claims/artifact_needs_the_plugin", test_artifact_needs_the_plugin);
  int status = g_test_run();
  remove_plugin();
  return status;
}
