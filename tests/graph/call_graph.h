/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of calls on several devices, in TVM's JSON form, as tests write them: by hand, or at
 * random. All tensors are vectors of one length. */
#ifndef BACKPLANE_TESTS_GRAPH_CALL_GRAPH_H
#define BACKPLANE_TESTS_GRAPH_CALL_GRAPH_H

#include <backplane/device.h>
#include <glib.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* A node: its function and inputs, and the storage of its output with the storage's place. */
typedef struct Node {
  const char *function; /* NULL: the input */
  int inputs[2], num_inputs;
  int storage, place;
} Node;

static inline void append(GString *text, gboolean is_first, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
static inline void append(GString *text, gboolean is_first, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_string_append(text, is_first ? "" : ",");
  g_string_append_vprintf(text, format, args);
  va_end(args);
}

static inline gboolean is_copy(const Node *node) {
  return node->function && !strcmp(node->function, "__copy");
}

static inline void append_node(GString *text, const Node *node, int index, const char *launch) {
  g_autoptr(GString) inputs = g_string_new("");
  for (int k = 0; k < node->num_inputs; k++)
    append(inputs, k == 0, "[%d,0,0]", node->inputs[k]);
  if (node->function)
    append(text, index == 0,
           "{\"op\":\"tvm_op\",\"name\":\"n%d\",\"attrs\":{\"func_name\":\"%s\"%s%s%s},"
           "\"inputs\":[%s]}",
           index, node->function, launch ? ",\"launch\":\"" : "", launch ? launch : "",
           launch ? "\"" : "", inputs->str);
  else
    append(text, index == 0, "{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}");
}

/* Returns how many of the places before a place have devices of the same type, on any machine. */
static inline int ordinal_of(const BpDevice *devices, int place) {
  int ordinal = 0;
  for (int i = 0; i < place; i++)
    ordinal += BP_DEVICE_TYPE_OF_CODE(devices[i].device_type) ==
               BP_DEVICE_TYPE_OF_CODE(devices[place].device_type);
  return ordinal;
}

/* Writes a graph whose output is the last node (g_free). `devices` has the device of each place.
 * `launches` has the launch of each place's functions if they are kernels, or is NULL. The ordinals
 * are left out if all are 0. */
static inline char *write_graph(const Node *nodes, int count, const BpDevice *devices,
                                const char *type, int extent, const char *const *launches) {
  g_autoptr(GString) text = g_string_new(""), rows = g_string_new("0"), types = g_string_new(""),
                     shapes = g_string_new(""), storages = g_string_new(""),
                     places = g_string_new(""), ordinals = g_string_new("");
  gboolean has_ordinals = FALSE;
  for (int i = 0; i < count; i++) {
    int ordinal = ordinal_of(devices, nodes[i].place);
    append_node(text, &nodes[i], i,
                launches && !is_copy(&nodes[i]) ? launches[nodes[i].place] : NULL);
    append(rows, FALSE, "%d", i + 1);
    append(types, i == 0, "\"%s\"", type);
    append(shapes, i == 0, "[%d]", extent);
    append(storages, i == 0, "%d", nodes[i].storage);
    append(places, i == 0, "%d", BP_DEVICE_TYPE_OF_CODE(devices[nodes[i].place].device_type));
    append(ordinals, i == 0, "%d", ordinal);
    has_ordinals |= ordinal > 0;
  }
  g_autofree char *numbers =
      has_ordinals ? g_strdup_printf(",\"device_ordinal\":[\"list_int\",[%s]]", ordinals->str)
                   : g_strdup("");
  return g_strdup_printf("{\"nodes\":[%s],\"arg_nodes\":[0],\"heads\":[[%d,0,0]],"
                         "\"node_row_ptr\":[%s],\"attrs\":{\"dltype\":[\"list_str\",[%s]],"
                         "\"shape\":[\"list_shape\",[%s]],\"storage_id\":[\"list_int\",[%s]],"
                         "\"device_index\":[\"list_int\",[%s]]%s}}",
                         text->str, count - 1, rows->str, types->str, shapes->str, storages->str,
                         places->str, numbers);
}

#define MOST_NODES 60

/* A graph at random: the input, then nodes that compute and nodes that copy. */
typedef struct Random {
  Node nodes[MOST_NODES];
  int last_use[MOST_NODES];
  int count;
} Random;

/* A storage of the place that no later node reads, or a new one. */
static inline int random_storage(GRand *rand, const Random *graph, int place, int *num_storages) {
  int at = graph->count;
  for (int tries = 0; tries < 4 && at > 1; tries++) {
    int storage = graph->nodes[g_rand_int_range(rand, 0, at)].storage, is_free = 1;
    for (int i = 0; i < at; i++)
      if (graph->nodes[i].storage == storage &&
          (i == 0 || graph->last_use[i] >= at || graph->nodes[i].place != place))
        is_free = 0;
    if (is_free)
      return storage;
  }
  return (*num_storages)++;
}

/* Deals nodes onto places. Nodes read values of their own place, and copy values of other places;
 * the input has place 0. The last use of each value is drawn first: no later node reads the value.
 * `functions`: by place. */
static inline void make_random(GRand *rand, Random *graph, int count, int num_places,
                               const char *const *functions) {
  int num_storages = 1;
  *graph = (Random){.nodes = {{NULL, {0}, 0, 0, 0}}, .count = 1};
  for (int i = 0; i < count; i++)
    graph->last_use[i] = i + g_rand_int_range(rand, 1, 1 + count / 2);
  while (graph->count < count) {
    int at = graph->count, place = g_rand_int_range(rand, 0, num_places), own[MOST_NODES];
    int across[MOST_NODES], num_across = 0, num_own = 0;
    for (int i = 0; i < at; i++)
      if (graph->last_use[i] >= at) {
        if (graph->nodes[i].place == place)
          own[num_own++] = i;
        else
          across[num_across++] = i;
      }
    if (!num_across && !num_own) {
      graph->last_use[at - 1] = at; /* a value that the next nodes can read */
      continue;
    }
    int copies = num_across && (!num_own || g_rand_int_range(rand, 0, 3) == 0);
    Node *node = &graph->nodes[at];
    *node = (Node){.function = copies ? "__copy" : functions[place],
                   .num_inputs = copies ? 1 : g_rand_int_range(rand, 1, 3),
                   .place = place};
    for (int i = 0; i < node->num_inputs; i++)
      node->inputs[i] = copies ? across[g_rand_int_range(rand, 0, num_across)]
                               : own[g_rand_int_range(rand, 0, num_own)];
    node->storage = random_storage(rand, graph, place, &num_storages);
    graph->count++;
  }
}

#endif
