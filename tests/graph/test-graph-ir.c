/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of graphs refuses graphs that a faulty pass could produce: each rule is broken once.
 * The library does not export the verifier, so the program contains the files of graph/ir. */
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/ir/graph.h"

static const int64_t shape[] = {2, 3};

/* ---- A graph without faults -------------------------------------------------------------- */

/* b = first(x, absent, c); y = second(b) with a body: z = inner(s). */
typedef struct Model {
  BpGraph graph;
  BpGraph *body;
  BpGraphNode *first, *second, *inner;
  BpGraphValue *x, *c;
} Model;

static BpGraphValue *make_value(BpGraph *graph, const char *name) {
  BpGraphValue *value = bp__graph_value(graph, name, BP__FLOAT32, shape, 2);
  g_assert_nonnull(value);
  return value;
}

static BpGraphNode *add_node(BpGraph *graph, const char *name, BpGraphValue *const *inputs,
                             int32_t num_inputs) {
  BpGraphNode *node = bp__graph_node(graph, NULL, name, inputs, num_inputs, 1, NULL, 0);
  g_assert_nonnull(node);
  g_assert_cmpint(bp__node_set_output(graph, node, 0, BP__FLOAT32, shape, 2), ==, 0);
  g_assert_cmpint(bp__list_push(&graph->nodes, node), ==, 0);
  return node;
}

static void make_body(Model *model) {
  model->body = bp__graph_body(&model->graph);
  g_assert_nonnull(model->body);
  BpGraphValue *s = make_value(model->body, "s");
  g_assert_cmpint(bp__list_push(&model->body->inputs, s), ==, 0);
  model->inner = add_node(model->body, "inner", &s, 1);
  g_assert_cmpint(bp__list_push(&model->body->outputs, model->inner->outputs[0]), ==, 0);
  model->second->bodies = &model->body;
  model->second->num_bodies = 1;
}

static void make_model(Model *model) {
  BpGraph *graph = &model->graph;
  memset(model, 0, sizeof *model);
  model->x = make_value(graph, "x");
  model->c = bp__graph_float_scalar(graph, 1);
  g_assert_nonnull(model->c);
  g_assert_cmpint(bp__list_push(&graph->inputs, model->x), ==, 0);
  BpGraphValue *const inputs[] = {model->x, NULL, model->c};
  model->first = add_node(graph, "first", inputs, 3);
  model->second = add_node(graph, "second", model->first->outputs, 1);
  make_body(model);
  g_assert_cmpint(bp__list_push(&graph->outputs, model->second->outputs[0]), ==, 0);
}

/* ---- Faults ------------------------------------------------------------------------------ */

static void swap_nodes(Model *model) {
  model->graph.nodes.items[0] = model->second;
  model->graph.nodes.items[1] = model->first;
}

static void drop_node(Model *model) {
  model->graph.nodes.items[0] = model->second;
  model->graph.nodes.size = 1;
}

static void read_itself(Model *model) {
  model->first->inputs[0] = model->first->outputs[0];
}

static void read_value_of_nobody(Model *model) {
  model->second->inputs[0] = make_value(&model->graph, "stray");
}

static void read_value_of_body(Model *model) {
  model->second->inputs[0] = model->inner->outputs[0];
}

static void read_outer_value(Model *model) {
  model->inner->inputs[0] = model->first->outputs[0];
}

static void read_negative(Model *model) {
  model->c->id = -1;
}

static void read_beyond(Model *model) {
  model->c->id = model->graph.num_values;
}

static void forget_output(Model *model) {
  model->first->outputs[0] = NULL;
}

static void give_negative(Model *model) {
  model->second->outputs[0]->id = -1;
}

static void give_beyond(Model *model) {
  model->second->outputs[0]->id = model->graph.num_values;
}

static void give_what_another_makes(Model *model) {
  model->first->outputs[0]->producer = model->second;
}

static void give_input(Model *model) {
  model->first->outputs[0] = model->x;
  model->x->producer = model->first;
}

static void list_node_twice(Model *model) {
  g_assert_cmpint(bp__list_push(&model->graph.nodes, model->second), ==, 0);
}

static void share_number(Model *model) {
  model->second->outputs[0]->id = model->first->outputs[0]->id;
}

static void share_number_with_constant(Model *model) {
  model->second->outputs[0]->id = model->c->id;
}

static void break_input(Model *model) {
  model->x->id = model->graph.num_values;
}

static void list_input_twice(Model *model) {
  BpGraphValue *other = make_value(&model->graph, "other");
  other->id = model->x->id;
  g_assert_cmpint(bp__list_push(&model->graph.inputs, other), ==, 0);
}

static void end_with_stray(Model *model) {
  model->graph.outputs.items[0] = make_value(&model->graph, "stray");
}

static void break_body(Model *model) {
  model->inner->outputs[0]->producer = NULL;
}

static void end_body_with_stray(Model *model) {
  model->body->outputs.items[0] = model->second->outputs[0];
}

typedef struct Fault {
  const char *name;
  void (*make)(Model *model);
  const char *complaint;
} Fault;

static const Fault faults[] = {
    {"nodes_in_wrong_order", swap_nodes, "node 'second': an input comes from no node before it"},
    {"node_that_was_dropped", drop_node, "node 'second': an input comes from no node before it"},
    {"node_that_reads_its_output", read_itself,
     "node 'first': an input comes from no node before it"},
    {"value_of_no_node", read_value_of_nobody,
     "node 'second': an input comes from no node before it"},
    {"value_of_a_body", read_value_of_body, "node 'second': an input comes from no node before it"},
    {"body_that_reads_the_outer_graph", read_outer_value,
     "node 'inner': an input comes from no node before it"},
    {"input_of_negative_number", read_negative,
     "node 'first': an input comes from no node before it"},
    {"input_of_too_large_number", read_beyond,
     "node 'first': an input comes from no node before it"},
    {"absent_output", forget_output, "node 'first': an output is not a value of the graph"},
    {"output_of_negative_number", give_negative,
     "node 'second': an output is not a value of the graph"},
    {"output_of_too_large_number", give_beyond,
     "node 'second': an output is not a value of the graph"},
    {"output_of_another_node", give_what_another_makes,
     "node 'first': an output says that another node gives it"},
    {"output_that_is_an_input", give_input, "node 'first': an output was given before"},
    {"node_that_is_listed_twice", list_node_twice, "node 'second': an output was given before"},
    {"two_values_of_one_number", share_number, "node 'second': an output was given before"},
    {"output_with_the_number_of_a_constant", share_number_with_constant,
     "node 'second': an output was given before"},
    {"graph_input_of_too_large_number", break_input, "an input of the graph is not a value of it"},
    {"two_inputs_of_one_number", list_input_twice, "an input of the graph was given before"},
    {"graph_output_of_no_node", end_with_stray, "no node gives an output of the graph"},
    {"fault_of_a_body", break_body, "body 0 of node 'second'"},
    {"body_output_of_the_outer_graph", end_body_with_stray, "body 0 of node 'second'"},
};

static void test_fault_is_refused(gconstpointer data) {
  const Fault *fault = data;
  Model model;
  make_model(&model);
  fault->make(&model);
  g_assert_cmpint(bp__graph_verify(&model.graph), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_RUNTIME));
  if (!strstr(bp_error_message(), fault->complaint))
    g_error("\"%s\" is not in \"%s\"", fault->complaint, bp_error_message());
  bp_error_clear();
  bp__graph_clear(&model.graph);
}

static void test_graph_without_faults(void) {
  Model model;
  make_model(&model);
  g_assert_cmpint(bp__graph_verify(&model.graph), ==, 0);
  model.second->inputs[0] = bp__graph_int_vector(&model.graph, shape, 2);
  g_assert_cmpint(bp__graph_verify(&model.graph), ==, 0);
  bp__graph_clear(&model.graph);
}

/* A vector of extents is computed when the model runs. */
static void test_extents_come_from_no_node(void) {
  Model model;
  make_model(&model);
  model.second->inputs[0] = make_value(&model.graph, "extents");
  model.second->inputs[0]->extents = shape;
  g_assert_cmpint(bp__graph_verify(&model.graph), ==, 0);
  bp__graph_clear(&model.graph);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/graph-ir/verify/graph_without_faults_passes", test_graph_without_faults);
  g_test_add_func("/graph-ir/verify/extents_come_from_no_node", test_extents_come_from_no_node);
  for (size_t i = 0; i < G_N_ELEMENTS(faults); i++) {
    g_autofree char *path = g_strdup_printf("/graph-ir/verify/%s_is_refused", faults[i].name);
    g_test_add_data_func(path, &faults[i], test_fault_is_refused);
  }
  return g_test_run();
}
