/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs as ONNX files, and as text. */
#include <string.h>

#include "tests/graph/random_graph.h"

static char *shape_text(const RandomValue *value) {
  GString *text = g_string_new("");
  for (int32_t i = 0; i < value->rank; i++)
    g_string_append_printf(text, "%s%d", i ? "x" : "", (int)value->shape[i]);
  return g_string_free(text, FALSE);
}

/* Writes a shape with named extents: all, or only the first one; never 1, which broadcasts. */
static char *open_shape_text(const RandomValue *value, gboolean is_batch) {
  GString *text = g_string_new("");
  for (int32_t i = 0; i < value->rank; i++)
    g_string_append_printf(text, value->shape[i] == 1 || (is_batch && i > 0) ? "%s%d" : "%sE%d",
                           i ? "x" : "", (int)value->shape[i]);
  return g_string_free(text, FALSE);
}

/* Writes a shape with a different name for each extent. */
static char *loose_shape_text(const RandomValue *value, const char *name) {
  GString *text = g_string_new("");
  for (int32_t i = 0; i < value->rank; i++)
    g_string_append_printf(text, "%s%s.%d", i ? "x" : "", name, i);
  return g_string_free(text, FALSE);
}

/* Whether the value may determine the shape of a node. */
static gboolean is_steering(const RandomValue *value) {
  return value->rank < 2 &&
         (value->type == ONNX_INT64 || value->type == ONNX_INT32 || value->type == ONNX_BOOL);
}

/* Whether an input or output of a form is a sequence. */
static gboolean is_list(RandomForm form, int32_t index) {
  return form == FORM_LISTS && index % 2;
}

/* Takes a value out of an input that is a sequence. */
static void emit_item(OnnxBuilder *builder, const RandomValue *value, int32_t index,
                      const char *name, const char *shape) {
  char *list = g_strdup_printf("l%d", index), *second = g_strdup_printf("second%d", index);
  char *reads = g_strdup_printf("%s,%s", list, second);
  onnx_list_input(builder, list, BP_MODEL_SEQUENCE, value->type, shape);
  onnx_ints(builder, second, "1,");
  onnx_node(builder, "SequenceAt", reads, name, "");
  g_free(reads);
  g_free(second);
  g_free(list);
}

static void emit_given(OnnxBuilder *builder, const RandomGraph *graph, int32_t index,
                       const char *name, RandomForm form) {
  const RandomValue *value = random_graph_value(graph, index);
  gboolean is_data =
      form == FORM_DATA && is_steering(value) && (guint)index % 2 == graph->values->len % 2;
  if ((value->is_part && !is_data) || form >= FORM_CONSTANTS) {
    onnx_data(builder, name, value->type, value->shape, value->rank, value->data,
              random_value_bytes(value));
  } else {
    char *shape = form == FORM_OPEN || form == FORM_BATCH
                      ? open_shape_text(value, form == FORM_BATCH)
                  : form == FORM_LOOSE ? loose_shape_text(value, name)
                                       : shape_text(value);
    if (is_list(form, index))
      emit_item(builder, value, index, name, shape);
    else
      onnx_input(builder, name, value->type, shape);
    g_free(shape);
  }
}

/* Appends a node that combines a value with a vector along the last axis: `base` plus or minus some
 * roundings of `scale`, different for neighbours. */
static void emit_noise(OnnxBuilder *builder, const RandomValue *value, const char *op, double base,
                       double scale, const char *from, const char *to) {
  int64_t count = value->rank ? value->shape[value->rank - 1] : 1;
  double *numbers = g_new(double, (gsize)count);
  char *name = g_strdup_printf("%s_noise", to), *half = g_strdup_printf("%s_half", to);
  double step = 4 * random_graph_rounding(value->type) * scale;
  for (int64_t i = 0; i < count; i++)
    numbers[i] = base + (i % 3 == 1 ? -step : step);
  onnx_data(builder, name, ONNX_DOUBLE, &count, value->rank ? 1 : 0, numbers,
            (size_t)count * sizeof(double));
  char *to_type = g_strdup_printf("to=%d", value->type);
  onnx_node(builder, "Cast", name, half, to_type);
  g_free(to_type);
  char *both = g_strdup_printf("%s,%s", from, half);
  onnx_node(builder, op, both, to, "");
  g_free(both);
  g_free(half);
  g_free(name);
  g_free(numbers);
}

/* Below the least normal number the distance of two values of float16 does not shrink. */
#define LEAST_NORMAL_HALF 6e-5

static void emit_disturbed(OnnxBuilder *builder, const RandomValue *value, const char *from,
                           const char *to) {
  char *product = g_strdup_printf("%s_near", to);
  double scale = MAX(value->scale, value->type == ONNX_FLOAT16 ? LEAST_NORMAL_HALF : 0);
  emit_noise(builder, value, "Mul", 1, 1, from, scale > 0 ? product : to);
  if (scale > 0)
    emit_noise(builder, value, "Add", 0, scale, product, to);
  g_free(product);
}

static gboolean is_disturbed(const RandomValue *value, RandomForm form) {
  return form == FORM_DISTURBED && value->error > 0 && random_graph_rounding(value->type) > 0;
}

static void emit_node(OnnxBuilder *builder, const RandomGraph *graph, int32_t index,
                      RandomForm form) {
  const RandomNode *node = random_graph_node(graph, index);
  GString *reads = g_string_new(""), *results = g_string_new("");
  for (int32_t i = 0; i < node->num_reads; i++) {
    g_string_append(reads, i ? "," : "");
    if (node->reads[i] >= 0)
      g_string_append_printf(reads, "v%d", node->reads[i]);
  }
  for (int32_t i = 0; i < node->num_results; i++) {
    if (node->results[i] < 0) {
      g_string_append_c(results, ',');
      continue;
    }
    const RandomValue *value = random_graph_value(graph, node->results[i]);
    gboolean raw = value->node < 0 || is_disturbed(value, form);
    g_string_append_printf(results, "%sv%d%s", i ? "," : "", node->results[i], raw ? "_raw" : "");
  }
  onnx_node(builder, node->op, reads->str, results->str, node->attrs);
  for (int32_t i = 0; i < node->num_results; i++) {
    const RandomValue *value =
        node->results[i] < 0 ? NULL : random_graph_value(graph, node->results[i]);
    if (value && value->node >= 0 && is_disturbed(value, form)) {
      char *to = g_strdup_printf("v%d", node->results[i]), *from = g_strdup_printf("%s_raw", to);
      emit_disturbed(builder, value, from, to);
      g_free(from);
      g_free(to);
    }
  }
  g_string_free(reads, TRUE);
  g_string_free(results, TRUE);
}

static gboolean is_node_needed(const RandomGraph *graph, const gboolean *needed, int32_t index) {
  const RandomNode *node = random_graph_node(graph, index);
  for (int32_t k = 0; k < node->num_results; k++)
    if (node->results[k] >= 0 && needed[node->results[k]] &&
        random_graph_value(graph, node->results[k])->node == index)
      return TRUE;
  return FALSE;
}

/* Returns the operator set: 24, which onnxruntime supports, except for newer operators. */
static int64_t version_of(const RandomGraph *graph, const gboolean *needed) {
  static const char *const newer[] = {
      "BitCast", "CausalConvWithState", "CumProd", "LinearAttention", "SwiGLU", NULL};
  for (int32_t i = 0; i < (int32_t)graph->nodes->len; i++)
    if (is_node_needed(graph, needed, i) && g_strv_contains(newer, random_graph_node(graph, i)->op))
      return 28;
  return 24;
}

#define ITERATIONS "3,"
#define STEPS      "0,1,2"
#define LAST       "2,"

/* Makes a loop or a scan whose body contains the nodes (the builder is taken over); the last
 * iteration gives the outputs. */
static void emit_loop(OnnxBuilder *builder, const RandomGraph *graph, OnnxBuilder *body,
                      gboolean is_scan) {
  GString *all = g_string_new("");
  onnx_input(body, "iteration", ONNX_INT64, "");
  if (!is_scan) {
    onnx_input(body, "go", ONNX_BOOL, "");
    onnx_node(body, "Identity", "go", "on", "");
    onnx_output(body, "on");
  }
  for (guint i = 0; i < graph->outputs->len; i++) {
    int32_t index = g_array_index(graph->outputs, int32_t, i);
    char *name = g_strdup_printf("v%d", index);
    onnx_output(body, name);
    g_string_append_printf(all, "%sall%d", i ? "," : "", index);
    g_free(name);
  }
  onnx_ints(builder, "iterations", is_scan ? STEPS : ITERATIONS);
  onnx_ints(builder, "last", LAST);
  onnx_ints(builder, "first_axis", "0,");
  onnx_branch(builder,
              is_scan ? onnx_node(builder, "Scan", "iterations", all->str, "num_scan_inputs=1")
                      : onnx_node(builder, "Loop", "iterations,", all->str, ""),
              "body", body);
  for (guint i = 0; i < graph->outputs->len; i++) {
    int32_t index = g_array_index(graph->outputs, int32_t, i);
    char *names = g_strdup_printf("all%d,last", index), *one = g_strdup_printf("one%d", index);
    char *squeezed = g_strdup_printf("one%d,first_axis", index),
         *to = g_strdup_printf("v%d", index);
    onnx_node(builder, "Gather", names, one, "");
    onnx_node(builder, "Squeeze", squeezed, to, "");
    g_free(names);
    g_free(one);
    g_free(squeezed);
    g_free(to);
  }
  g_string_free(all, TRUE);
}

/* Lists the outputs of the graph, each name with a suffix (g_free). */
static char *output_names(const RandomGraph *graph, const char *suffix) {
  GString *names = g_string_new("");
  for (guint i = 0; i < graph->outputs->len; i++)
    g_string_append_printf(names, "%sv%d%s", i ? "," : "",
                           g_array_index(graph->outputs, int32_t, i), suffix);
  return g_string_free(names, FALSE);
}

static void emit_nodes(OnnxBuilder *builder, const RandomGraph *graph, const gboolean *needed,
                       RandomForm form) {
  for (int32_t i = 0; i < (int32_t)graph->nodes->len; i++)
    if (is_node_needed(graph, needed, i))
      emit_node(builder, graph, i, form);
}

/* Makes a choice, by an input, between branches that both contain the nodes; one branch runs. */
static void emit_choice(OnnxBuilder *builder, const RandomGraph *graph, const gboolean *needed) {
  char *names = output_names(graph, "");
  onnx_input(builder, "choice", ONNX_BOOL, "");
  Backplane__Onnx__NodeProto *node = onnx_node(builder, "If", "choice", names, "");
  for (int32_t b = 0; b < 2; b++) {
    OnnxBuilder *branch = onnx_builder_new();
    emit_nodes(branch, graph, needed, FORM_BRANCH);
    for (guint i = 0; i < graph->outputs->len; i++) {
      char *name = g_strdup_printf("v%d", g_array_index(graph->outputs, int32_t, i));
      onnx_output(branch, name);
      g_free(name);
    }
    onnx_branch(builder, node, b ? "else_branch" : "then_branch", branch);
  }
  g_free(names);
}

/* Puts each output into a sequence, with itself before or after it, and takes it out: by its
 * position, or as a part of the concatenated tensor. The position is an input if the sequences are
 * open. */
static void emit_sequences(OnnxBuilder *builder, const RandomGraph *graph, gboolean is_open) {
  if (is_open)
    onnx_input(builder, "one", ONNX_INT64, "1");
  else
    onnx_ints(builder, "one", "1,");
  onnx_ints(builder, "zero", "0,");
  for (guint i = 0; i < graph->outputs->len; i++) {
    int32_t index = g_array_index(graph->outputs, int32_t, i);
    const RandomValue *value = random_graph_value(graph, index);
    char *to = g_strdup_printf("out%d", index), *pair = g_strdup_printf("v%d,v%d", index, index);
    char *two = g_strdup_printf("two%d", index), *three = g_strdup_printf("three%d", index);
    char *more = g_strdup_printf("two%d,v%d,one", index, index);
    char *places = g_strdup_printf("three%d,%s", index, index % 2 ? "one" : "zero");
    onnx_node(builder, "SequenceConstruct", pair, two, "");
    onnx_node(builder, "SequenceInsert", more, three, "");
    if (index % 3 == 0 && value->rank < MAX_RANK) {
      char *all = g_strdup_printf("all%d", index), *part = g_strdup_printf("all%d,one", index);
      char *flat = g_strdup_printf("part%d", index), *axes = g_strdup_printf("part%d,zero", index);
      onnx_node(builder, "ConcatFromSequence", three, all, "axis=0 new_axis=1");
      onnx_node(builder, "Gather", part, flat, "axis=0");
      onnx_node(builder, "Squeeze", axes, to, "");
      g_free(all);
      g_free(part);
      g_free(flat);
      g_free(axes);
    } else {
      onnx_node(builder, "SequenceAt", places, to, "");
    }
    g_free(to);
    g_free(pair);
    g_free(two);
    g_free(three);
    g_free(more);
    g_free(places);
  }
}

GByteArray *random_graph_bytes(const RandomGraph *graph, RandomForm form) {
  OnnxBuilder *builder = onnx_builder_new();
  gboolean is_loop = form == FORM_LOOP || form == FORM_SCAN;
  OnnxBuilder *nodes = is_loop ? onnx_builder_new() : builder;
  gboolean *needed = random_graph_needed(graph);
  builder->version = version_of(graph, needed);
  for (int32_t i = 0; i < (int32_t)graph->values->len; i++) {
    const RandomValue *value = random_graph_value(graph, i);
    char *name = g_strdup_printf("v%d", i);
    if (needed[i] && value->node < 0)
      emit_given(builder, graph, i, name, form);
    g_free(name);
  }
  if (form == FORM_BRANCH)
    emit_choice(builder, graph, needed);
  else
    emit_nodes(nodes, graph, needed, form);
  if (is_loop)
    emit_loop(builder, graph, nodes, form == FORM_SCAN);
  gboolean has_sequences = form == FORM_SEQUENCE || form == FORM_OPEN_SEQUENCE;
  if (has_sequences)
    emit_sequences(builder, graph, form == FORM_OPEN_SEQUENCE);
  for (guint i = 0; i < graph->outputs->len; i++) {
    int32_t index = g_array_index(graph->outputs, int32_t, i);
    char *name = g_strdup_printf(has_sequences          ? "out%d"
                                 : is_list(form, index) ? "list%d"
                                                        : "v%d",
                                 index);
    char *twice = g_strdup_printf("v%d,v%d", index, index);
    if (is_list(form, index))
      onnx_node(builder, "SequenceConstruct", twice, name, "");
    onnx_output(builder, name);
    g_free(twice);
    g_free(name);
  }
  if (form == FORM_LOOSE || form == FORM_SEQUENCE) /* a file may have its nodes in any order */
    onnx_reverse(builder);
  GByteArray *bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  g_free(needed);
  return bytes;
}

const RandomValue *random_graph_input(const RandomGraph *graph, const char *name) {
  static guint8 holds[] = {0, 1};
  static const RandomValue choices[] = {{.type = ONNX_BOOL, .node = -1, .data = &holds[0]},
                                        {.type = ONNX_BOOL, .node = -1, .data = &holds[1]}};
  static gint64 one[] = {1};
  static const RandomValue place = {
      .type = ONNX_INT64, .rank = 1, .shape = {1}, .node = -1, .data = one};
  if (!strcmp(name, "one"))
    return &place;
  if (!strcmp(name, "choice"))
    return &choices[graph->state % 2];
  return random_graph_value(graph, (int32_t)g_ascii_strtoll(name + 1, NULL, 10));
}

char *random_graph_print(const RandomGraph *graph) {
  gboolean *needed = random_graph_needed(graph);
  GString *text = g_string_new("");
  for (int32_t i = 0; i < (int32_t)graph->nodes->len; i++) {
    const RandomNode *node = random_graph_node(graph, i);
    if (!is_node_needed(graph, needed, i))
      continue;
    g_string_append_printf(text, "  %s(", node->op);
    for (int32_t k = 0; k < node->num_reads; k++) {
      const RandomValue *value =
          node->reads[k] < 0 ? NULL : random_graph_value(graph, node->reads[k]);
      char *shape = value ? shape_text(value) : g_strdup("absent");
      if (value)
        g_string_append_printf(text, "%sv%d %s %d:%s", k ? ", " : "", node->reads[k],
                               value->node >= 0 ? "="
                               : value->is_part ? "constant"
                                                : "input",
                               value->type, shape);
      g_free(shape);
    }
    g_string_append_printf(text, ") %s -> v%d\n", node->attrs, node->results[0]);
  }
  g_free(needed);
  return g_string_free(text, FALSE);
}
