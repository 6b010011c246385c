/* SPDX-License-Identifier: Apache-2.0 */
/* The order of nodes. ONNX wants each node behind the nodes whose outputs it reads, and import.c
 * adds them in this order. Some converters append nodes, as casts of the inputs, at the end
 * instead, and ONNX Runtime accepts their files. */

#include <string.h>

#include "graph/onnx/scope.h"

typedef struct Order {
  const Scope *scope;
  GHashTable *producers; /* output -> the number of its node, from 1 */
} Order;

/* The names that a body defines, and those of the bodies around it. */
typedef struct Names {
  GHashTable *own;
  const struct Names *outer;
} Names;

/* A node whose needed nodes are being placed. */
typedef struct Frame {
  size_t node;
  GArray *needs; /* of size_t */
  guint next;
} Frame;

typedef enum Progress { NEW, BEGUN, PLACED } Progress;

/* ---- The nodes that a node needs --------------------------------------------------------- */

static void add_outputs(const OnnxNode *node, size_t number, GHashTable *names) {
  for (size_t k = 0; k < node->n_output; k++)
    if (!is_empty(node->output[k]))
      g_hash_table_insert(names, node->output[k], GSIZE_TO_POINTER(number));
}

static GHashTable *names_of(const OnnxGraph *body) {
  GHashTable *names = g_hash_table_new(g_str_hash, g_str_equal);
  for (size_t i = 0; i < body->n_input; i++)
    if (!is_empty(body->input[i]->name))
      g_hash_table_add(names, body->input[i]->name);
  for (size_t i = 0; i < body->n_initializer; i++)
    if (!is_empty(body->initializer[i]->name))
      g_hash_table_add(names, body->initializer[i]->name);
  for (size_t i = 0; i < body->n_node; i++)
    add_outputs(body->node[i], 1, names);
  return names;
}

static bool is_inside(const Names *names, const char *name) {
  while (names && !g_hash_table_contains(names->own, name))
    names = names->outer;
  return names != NULL;
}

static void add_needs(const Order *order, const OnnxNode *node, const Names *names, int depth,
                      GArray *needs);

static void add_needs_of_body(const Order *order, const OnnxGraph *body, const Names *outer,
                              int depth, GArray *needs) {
  Names names = {names_of(body), outer};
  for (size_t i = 0; i < body->n_node; i++)
    add_needs(order, body->node[i], &names, depth, needs);
  g_hash_table_destroy(names.own);
}

/* Adds the nodes of the scope whose outputs a node, or a node in its bodies, reads. `names` are
 * those of the bodies around the node. A body that cannot be read needs none; its import raises the
 * error. */
static void add_needs(const Order *order, const OnnxNode *node, const Names *names, int depth,
                      GArray *needs) {
  for (size_t i = 0; i < node->n_input; i++) {
    const char *name = node->input[i];
    size_t found = is_empty(name) || is_inside(names, name)
                       ? 0
                       : GPOINTER_TO_SIZE(g_hash_table_lookup(order->producers, name));
    if (found-- > 0)
      g_array_append_val(needs, found);
  }
  for (size_t i = 0; i < node->n_attribute && depth < MAX_DEPTH; i++) {
    const OnnxGraph *body;
    if (bp__scope_find_body(order->scope, node->attribute[i], &body))
      bp_error_clear();
    if (body)
      add_needs_of_body(order, body, names, depth + 1, needs);
  }
}

static GArray *needs_of(const Order *order, size_t node) {
  GArray *needs = g_array_new(FALSE, FALSE, sizeof(size_t));
  add_needs(order, order->scope->nodes[node], NULL, 0, needs);
  return needs;
}

/* ---- Sorting ----------------------------------------------------------------------------- */

static bool is_sorted(const Order *order) {
  bool is_sorted = true;
  for (size_t i = 0; i < order->scope->num_nodes && is_sorted; i++) {
    GArray *needs = needs_of(order, i);
    for (guint k = 0; k < needs->len; k++)
      is_sorted &= g_array_index(needs, size_t, k) < i;
    g_array_unref(needs);
  }
  return is_sorted;
}

static void begin(const Order *order, size_t node, Progress *progress, GArray *frames) {
  Frame frame = {node, needs_of(order, node), 0};
  progress[node] = BEGUN;
  g_array_append_val(frames, frame);
}

/* Places a node behind the nodes that it needs. Returns the number of placed nodes, or 0 if a node
 * needs itself. */
static size_t place(const Order *order, size_t node, Progress *progress, OnnxNode **sorted,
                    size_t count) {
  GArray *frames = g_array_new(FALSE, FALSE, sizeof(Frame));
  bool is_cycle = false;
  begin(order, node, progress, frames);
  while (frames->len > 0) {
    Frame *frame = &g_array_index(frames, Frame, frames->len - 1);
    if (!is_cycle && frame->next < frame->needs->len) {
      size_t need = g_array_index(frame->needs, size_t, frame->next++);
      is_cycle = progress[need] == BEGUN;
      if (progress[need] == NEW)
        begin(order, need, progress, frames);
      continue;
    }
    progress[frame->node] = PLACED;
    sorted[count++] = order->scope->nodes[frame->node];
    g_array_unref(frame->needs);
    g_array_set_size(frames, frames->len - 1);
  }
  g_array_unref(frames);
  return is_cycle ? 0 : count;
}

/* Nodes in a cycle keep their places, and the import raises the error. */
static void sort(const Order *order) {
  size_t num_nodes = order->scope->num_nodes, count = 0;
  Progress *progress = g_new0(Progress, num_nodes);
  OnnxNode **sorted = g_new(OnnxNode *, num_nodes);
  bool is_cycle = false;
  for (size_t i = 0; i < num_nodes && !is_cycle; i++)
    if (progress[i] == NEW) {
      count = place(order, i, progress, sorted, count);
      is_cycle = count == 0;
    }
  if (!is_cycle)
    memcpy(order->scope->nodes, sorted, count * sizeof *sorted);
  g_free(sorted);
  g_free(progress);
}

void bp__scope_sort(Scope *scope) {
  Order order = {scope, g_hash_table_new(g_str_hash, g_str_equal)};
  for (size_t i = scope->num_nodes; i-- > 0;)
    add_outputs(scope->nodes[i], i + 1, order.producers);
  if (!is_sorted(&order))
    sort(&order);
  g_hash_table_destroy(order.producers);
}
