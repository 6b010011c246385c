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

static void add_reads(const Scope *scope, const OnnxNode *node, const Names *names, int depth,
                      GPtrArray *reads);

static void add_read(const char *name, const Names *names, GPtrArray *reads) {
  if (!is_empty(name) && !is_inside(names, name))
    g_ptr_array_add(reads, (char *)(uintptr_t)name);
}

static void add_reads_of_body(const Scope *scope, const OnnxGraph *body, const Names *outer,
                              int depth, GPtrArray *reads) {
  Names names = {names_of(body), outer};
  for (size_t i = 0; i < body->n_node; i++)
    add_reads(scope, body->node[i], &names, depth, reads);
  for (size_t i = 0; i < body->n_output; i++)
    add_read(body->output[i]->name, &names, reads);
  g_hash_table_destroy(names.own);
}

/* Adds the names of the scope that a node, or a node in its bodies, reads. `names` are those of the
 * bodies around the node. A body that cannot be read reads none; its import raises the error. */
static void add_reads(const Scope *scope, const OnnxNode *node, const Names *names, int depth,
                      GPtrArray *reads) {
  for (size_t i = 0; i < node->n_input; i++)
    add_read(node->input[i], names, reads);
  for (size_t i = 0; i < node->n_attribute && depth < MAX_DEPTH; i++) {
    const OnnxGraph *body;
    if (bp__scope_find_body(scope, node->attribute[i], &body))
      bp_error_clear();
    if (body)
      add_reads_of_body(scope, body, names, depth + 1, reads);
  }
}

static GPtrArray *reads_of(const Scope *scope, size_t node) {
  GPtrArray *reads = g_ptr_array_new();
  add_reads(scope, scope->nodes[node], NULL, 0, reads);
  return reads;
}

/* The nodes of the scope whose outputs a node reads. */
static GArray *needs_of(const Order *order, size_t node) {
  GArray *needs = g_array_new(FALSE, FALSE, sizeof(size_t));
  GPtrArray *reads = reads_of(order->scope, node);
  for (guint i = 0; i < reads->len; i++) {
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(order->producers, reads->pdata[i]));
    if (found-- > 0)
      g_array_append_val(needs, found);
  }
  g_ptr_array_unref(reads);
  return needs;
}

GHashTable *bp__scope_last_uses(const Scope *scope) {
  GHashTable *uses = g_hash_table_new(g_str_hash, g_str_equal);
  size_t num_outputs = scope->onnx ? scope->onnx->n_output : scope->function->n_output;
  for (size_t i = 0; i < scope->num_nodes; i++) {
    GPtrArray *reads = reads_of(scope, i);
    for (guint k = 0; k < reads->len; k++)
      g_hash_table_insert(uses, reads->pdata[k], GSIZE_TO_POINTER(i + 1));
    g_ptr_array_unref(reads);
  }
  for (size_t i = 0; i < num_outputs; i++) {
    const char *name = bp__scope_output(scope, i);
    if (!is_empty(name))
      g_hash_table_insert(uses, (char *)(uintptr_t)name, GSIZE_TO_POINTER(G_MAXSIZE));
  }
  return uses;
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
