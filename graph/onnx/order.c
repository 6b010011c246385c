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

/* A node whose needed nodes are being placed. */
typedef struct Frame {
  size_t node;
  GArray *needs; /* of size_t */
  guint next;
} Frame;

static void add_producers(Order *order) {
  const Scope *scope = order->scope;
  order->producers = g_hash_table_new(g_str_hash, g_str_equal);
  for (size_t i = scope->num_nodes; i-- > 0;)
    for (size_t k = 0; k < scope->nodes[i]->n_output; k++)
      if (!is_empty(scope->nodes[i]->output[k]))
        g_hash_table_insert(order->producers, scope->nodes[i]->output[k], GSIZE_TO_POINTER(i + 1));
}

/* Adds the nodes of the scope whose outputs a node, or a node in its bodies, reads. A body that
 * cannot be read needs none; its import raises the error. */
static void add_needs(const Order *order, const OnnxNode *node, int depth, GArray *needs) {
  for (size_t i = 0; i < node->n_input; i++) {
    size_t found = is_empty(node->input[i])
                       ? 0
                       : GPOINTER_TO_SIZE(g_hash_table_lookup(order->producers, node->input[i]));
    if (found-- > 0)
      g_array_append_val(needs, found);
  }
  for (size_t i = 0; i < node->n_attribute && depth < MAX_DEPTH; i++) {
    const OnnxGraph *body;
    if (bp__scope_find_body(order->scope, node->attribute[i], &body))
      bp_error_clear();
    for (size_t k = 0; body && k < body->n_node; k++)
      add_needs(order, body->node[k], depth + 1, needs);
  }
}

static GArray *needs_of(const Order *order, size_t node) {
  GArray *needs = g_array_new(FALSE, FALSE, sizeof(size_t));
  add_needs(order, order->scope->nodes[node], 0, needs);
  return needs;
}

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

static void begin(const Order *order, size_t node, bool *is_begun, GArray *frames) {
  Frame frame = {node, needs_of(order, node), 0};
  is_begun[node] = true;
  g_array_append_val(frames, frame);
}

/* Places a node behind the nodes that it needs, and returns the number of placed nodes. In a cycle
 * some node comes before one that it needs, which is an error of the import. */
static size_t place(const Order *order, size_t node, bool *is_begun, OnnxNode **sorted,
                    size_t count) {
  GArray *frames = g_array_new(FALSE, FALSE, sizeof(Frame));
  begin(order, node, is_begun, frames);
  while (frames->len > 0) {
    Frame *frame = &g_array_index(frames, Frame, frames->len - 1);
    if (frame->next < frame->needs->len) {
      size_t need = g_array_index(frame->needs, size_t, frame->next++);
      if (!is_begun[need])
        begin(order, need, is_begun, frames);
      continue;
    }
    sorted[count++] = order->scope->nodes[frame->node];
    g_array_unref(frame->needs);
    g_array_set_size(frames, frames->len - 1);
  }
  g_array_unref(frames);
  return count;
}

void bp__scope_sort(Scope *scope) {
  Order order = {.scope = scope};
  add_producers(&order);
  if (!is_sorted(&order)) {
    bool *is_begun = g_new0(bool, scope->num_nodes);
    OnnxNode **sorted = g_new(OnnxNode *, scope->num_nodes);
    size_t count = 0;
    for (size_t i = 0; i < scope->num_nodes; i++)
      if (!is_begun[i])
        count = place(&order, i, is_begun, sorted, count);
    memcpy(scope->nodes, sorted, count * sizeof *sorted);
    g_free(sorted);
    g_free(is_begun);
  }
  g_hash_table_destroy(order.producers);
}
