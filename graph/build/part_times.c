/* SPDX-License-Identifier: Apache-2.0 */
/* The time that each claimed part takes, and the time of generated code for the same nodes. A group
 * of generated code that has nodes of several parts is shared among the parts by the number of
 * nodes. Other nodes that are fused into the group count too, so the times only propose which parts
 * to keep. */
#include <string.h>

#include <glib.h>
#include <jansson.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/build/choose.h"

#define MOST_PROFILES 10
#define MOST_NS       INT64_C(300000000) /* time of all profiles of a side */

/* The least time of each operator (int64_t, in nanoseconds), by its name. */
typedef struct Times {
  GHashTable *least;
  int64_t total;
  gboolean is_by_function;
} Times;

static int note_time(void *context, const char *node, const char *function, int64_t start_ns,
                     int64_t duration_ns) {
  Times *times = context;
  const char *name = times->is_by_function ? function : node;
  (void)start_ns;
  times->total += duration_ns;
  int64_t *known = g_hash_table_lookup(times->least, name);
  if (!known) {
    known = g_new(int64_t, 1);
    *known = duration_ns;
    g_hash_table_insert(times->least, g_strdup(name), known);
  }
  *known = MIN(*known, duration_ns);
  return 0;
}

/* Profiles a model several times; NULL with an error (g_hash_table_destroy). */
static GHashTable *profile(BpModelContext *context, gboolean is_by_function) {
  Times times = {g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free), 0, is_by_function};
  for (int i = 0; i < MOST_PROFILES && times.total < MOST_NS; i++)
    if (bp_model_profile(context, NULL, note_time, &times)) {
      g_hash_table_destroy(times.least);
      return NULL;
    }
  return times.least;
}

/* Adds the time of a group to the parts that its nodes belong to. */
static void share_time(const BpPartNodes *nodes, BpPartTime *times, const char *names,
                       int64_t time) {
  char **list = g_strsplit(names, "\n", -1);
  int32_t count = 0;
  for (char **name = list; *name; name++)
    count += g_hash_table_contains(nodes->part_of, *name);
  for (char **name = list; *name; name++)
    if (g_hash_table_contains(nodes->part_of, *name))
      times[GPOINTER_TO_INT(g_hash_table_lookup(nodes->part_of, *name))].generated_ns +=
          time / count;
  g_strfreev(list);
}

/* Adds the times of generated code, which its graph lists by operator name. */
static void add_generated(const BpPartNodes *nodes, BpPartTime *times, GHashTable *least,
                          const char *json) {
  json_t *graph = json_loads(json, 0, NULL), *row;
  json_t *names = json_array_get(json_object_get(json_object_get(graph, "attrs"), "node_names"), 1);
  size_t index;
  json_array_foreach(json_object_get(graph, "nodes"), index, row) {
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *of_model = json_string_value(json_array_get(names, index));
    const int64_t *time = name ? g_hash_table_lookup(least, name) : NULL;
    if (time && of_model)
      share_time(nodes, times, of_model, *time);
  }
  json_decref(graph);
}

int bp__build_part_times(const BpPartNodes *nodes, BpModel *generated_model,
                         BpModelContext *claimed, BpModelContext *generated, BpPartTime *times) {
  char *json = bp_model_graph_json(generated_model);
  GHashTable *of_claimed = json ? profile(claimed, TRUE) : NULL;
  GHashTable *of_generated = of_claimed ? profile(generated, FALSE) : NULL;
  for (int32_t i = 0; i < nodes->num_parts && of_generated; i++) {
    const char *function = nodes->functions[i];
    const int64_t *time = function ? g_hash_table_lookup(of_claimed, function) : NULL;
    times[i].claimed_ns = time ? *time : 0;
  }
  if (of_generated)
    add_generated(nodes, times, of_generated, json);
  int status = of_generated ? 0 : -1;
  if (of_claimed)
    g_hash_table_destroy(of_claimed);
  if (of_generated)
    g_hash_table_destroy(of_generated);
  bp_str_free(json);
  return status;
}
