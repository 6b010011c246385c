/* SPDX-License-Identifier: Apache-2.0 */
/* Stages: a graph is cut into parts of about equal work, in the order of its nodes, and one part
 * becomes the graph. The cut does not depend on the target, so stages that are compiled one by one,
 * for different devices, fit together. */
#include <inttypes.h>
#include <stdlib.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"

typedef struct Cut {
  BpGraph *graph;
  int32_t num_nodes, num_stages;
  double *work;       /* work of the nodes before a node, by the node's index, and of all nodes */
  double *crossing;   /* bytes that a cut before a node passes on, by the node's index */
  int32_t *first;     /* first node of each stage, then the number of nodes */
  int32_t *stage;     /* stage of each node */
  BpGraphValue **all; /* inputs of the graph and outputs of its nodes, by id */
  BpList *inputs;     /* values of earlier stages that each stage reads */
  BpList *binds;      /* nodes of earlier stages that bind extents and are repeated in a stage */
  bool *marked;       /* expressions that the current stage needs, by place */
} Cut;

/* ---- Where to cut ------------------------------------------------------------------------ */

/* The bytes of a sequence, so large that no cut passes it on. */
#define SEQUENCE_BYTES 1e15

/* The bytes of a value, with likely values for open extents. */
static double likely_bytes(const BpGraph *graph, const BpGraphValue *value) {
  if (value->sequence)
    return SEQUENCE_BYTES;
  double bytes = (double)value->dtype.bits * value->dtype.lanes / 8;
  for (int32_t i = 0; i < value->ndim; i++)
    bytes *= (double)bp__extent_likely(&graph->extents, value->shape[i]);
  return bytes;
}

/* The last possible cut after `begin` for which no stage does more than `most` work; each stage has
 * a node. */
static int32_t reach(const Cut *cut, int32_t begin, double most) {
  int32_t end = begin + 1;
  while (end < cut->num_nodes && cut->work[end + 1] - cut->work[begin] <= most)
    end++;
  return end;
}

/* Whether the stages cover all nodes if each does at most `most` work. */
static bool is_enough(const Cut *cut, double most) {
  int32_t at = 0;
  for (int32_t s = 0; s < cut->num_stages && at < cut->num_nodes; s++)
    at = reach(cut, at, most);
  return at == cut->num_nodes;
}

/* The least possible work of the largest stage, to within a thousandth. */
static double least_work(const Cut *cut) {
  double most = cut->work[cut->num_nodes], least = most / cut->num_stages;
  for (int32_t i = 0; i < cut->num_nodes; i++)
    least = MAX(least, cut->work[i + 1] - cut->work[i]);
  while (!is_enough(cut, least) && most - least > least / 1000) {
    double middle = (least + most) / 2;
    *(is_enough(cut, middle) ? &most : &least) = middle;
  }
  return is_enough(cut, least) ? least : most;
}

/* The factor by which the largest stage may exceed the least work if the cuts pass on less. */
#define SLACK 1.1

/* Finds the earliest first node of each stage for which the stages from it on can do the rest of
 * the work. */
static void find_earliest(Cut *cut, double most) {
  int32_t end = cut->num_nodes;
  cut->first[cut->num_stages] = end;
  for (int32_t s = cut->num_stages - 1; s > 0; s--) {
    int32_t at = end - 1;
    while (at > s && cut->work[end] - cut->work[at - 1] <= most)
      at--;
    cut->first[s] = end = at;
  }
}

/* Places the cuts one after another, each where it passes on the fewest bytes. */
static void place_cuts(Cut *cut, double most) {
  find_earliest(cut, most);
  for (int32_t s = 1; s < cut->num_stages; s++) {
    int32_t begin = cut->first[s - 1];
    int32_t latest =
        MIN(reach(cut, begin, most), cut->num_nodes - (cut->num_stages - s)); /* later stages */
    int32_t best = latest;
    for (int32_t at = latest; at >= cut->first[s] && at > begin; at--)
      if (cut->crossing[at] < cut->crossing[best])
        best = at;
    cut->first[s] = best;
  }
}

/* Finds the bytes that a cut at each node passes on: values that are made before and read after the
 * cut. */
static void find_crossing(Cut *cut) {
  int32_t *last = g_new0(int32_t, (gsize)cut->graph->num_values + 1);
  for (int32_t i = 0; i < cut->num_nodes; i++) {
    const BpGraphNode *node = cut->graph->nodes.items[i];
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k])
        last[node->inputs[k]->id] = i;
  }
  for (int32_t id = 0; id < cut->graph->num_values; id++) {
    const BpGraphValue *value = cut->all[id];
    int32_t from = value && value->producer ? value->producer->id + 1 : 1;
    if (!value || from > last[id])
      continue;
    cut->crossing[from] += likely_bytes(cut->graph, value);
    cut->crossing[last[id] + 1] -= likely_bytes(cut->graph, value);
  }
  for (int32_t i = 1; i <= cut->num_nodes; i++)
    cut->crossing[i] += cut->crossing[i - 1];
  g_free(last);
}

static void find_cuts(Cut *cut) {
  for (int32_t i = 0; i < cut->num_nodes; i++)
    cut->work[i + 1] = cut->work[i] + 1 + bp__build_work(cut->graph, cut->graph->nodes.items[i]);
  find_crossing(cut);
  place_cuts(cut, least_work(cut) * SLACK);
  for (int32_t s = 0; s < cut->num_stages; s++)
    for (int32_t i = cut->first[s]; i < cut->first[s + 1]; i++)
      cut->stage[i] = s;
}

/* ---- Values that stages pass on ---------------------------------------------------------- */

static void find_values(Cut *cut) {
  const BpGraph *graph = cut->graph;
  for (size_t i = 0; i < graph->inputs.size; i++)
    cut->all[((BpGraphValue *)graph->inputs.items[i])->id] = graph->inputs.items[i];
  for (size_t i = 0; i < graph->nodes.size; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t k = 0; k < node->num_outputs; k++)
      cut->all[node->outputs[k]->id] = node->outputs[k];
  }
}

/* The stage that makes a value; -1 for an input of the graph. */
static int32_t maker_of(const Cut *cut, const BpGraphValue *value) {
  return value->producer ? cut->stage[value->producer->id] : -1;
}

/* Adds a value of an earlier stage, or an input of the graph, to the stage's inputs. */
static int add_input(Cut *cut, int32_t stage, BpGraphValue *value) {
  if (!value || !cut->all[value->id] || maker_of(cut, value) >= stage ||
      bp__list_index(&cut->inputs[stage], value) >= 0)
    return 0;
  if (value->sequence)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "stage %" PRId32 " of the model would get '%s', a sequence, which is "
                          "not supported; ask for fewer stages, or none",
                          stage, value->name ? value->name : "");
  return bp__list_push(&cut->inputs[stage], value);
}

static void need_extents(Cut *cut, const int64_t *extents, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (bp__extent_is_open(extents[i]))
      bp__extent_mark_symbols(&cut->graph->extents, extents[i], cut->marked);
}

static void need_value(Cut *cut, const BpGraphValue *value) {
  if (!value)
    return;
  need_extents(cut, value->shape, value->ndim);
  if (value->extents)
    need_extents(cut, value->extents, bp__value_num_elements(value));
}

/* Marks the symbols that nodes read in shapes, attributes and bodies. */
static void need_nodes(Cut *cut, BpGraphNode *const *nodes, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const BpGraphNode *node = nodes[i];
    for (int32_t k = 0; k < node->num_inputs; k++)
      need_value(cut, node->inputs[k]);
    for (int32_t k = 0; k < node->num_outputs; k++)
      need_value(cut, node->outputs[k]);
    for (int32_t k = 0; k < node->num_attrs; k++)
      if (node->attrs[k].ints)
        need_extents(cut, node->attrs[k].ints, node->attrs[k].count);
    for (int32_t b = 0; b < node->num_bodies; b++)
      need_nodes(cut, (BpGraphNode **)node->bodies[b]->nodes.items,
                 (int32_t)node->bodies[b]->nodes.size);
  }
}

/* Whether the extent of a dimension of the value is the symbol itself. */
static bool has_symbol(const BpGraphValue *value, int64_t symbol) {
  for (int32_t d = 0; d < value->ndim; d++)
    if (value->shape[d] == symbol)
      return true;
  return false;
}

static bool binds_symbol(const BpGraphNode *node, int64_t symbol) {
  const BpGraphValue *vector = bp__op_is_bind(node) ? node->outputs[0] : NULL;
  for (int64_t i = 0; vector && i < vector->shape[0]; i++)
    if (vector->extents[i] == symbol)
      return true;
  return false;
}

/* Provides a symbol that no input of the stage has and no node of the stage binds: by the smallest
 * value that has it, or by repeating the node that binds it. */
static int provide_symbol(Cut *cut, int32_t stage, int64_t symbol) {
  const BpList *nodes = &cut->graph->nodes;
  BpGraphValue *best = NULL;
  for (size_t i = 0; i < cut->inputs[stage].size; i++)
    if (has_symbol(cut->inputs[stage].items[i], symbol))
      return 0;
  for (int32_t id = 0; id < cut->graph->num_values; id++) {
    BpGraphValue *value = cut->all[id];
    if (value && maker_of(cut, value) < stage && has_symbol(value, symbol) &&
        (!best || likely_bytes(cut->graph, value) < likely_bytes(cut->graph, best)))
      best = value;
  }
  if (best)
    return add_input(cut, stage, best);
  for (int32_t i = 0; i < cut->first[stage]; i++)
    if (binds_symbol(nodes->items[i], symbol)) {
      BpGraphNode *node = nodes->items[i];
      return bp__list_push(&cut->binds[stage], node) || add_input(cut, stage, node->inputs[0]);
    }
  return 0; /* a node of the stage binds the symbol */
}

/* Removes the inputs that nodes give which the stage repeats. */
static void remove_repeated(Cut *cut, int32_t stage) {
  BpList *inputs = &cut->inputs[stage];
  size_t count = 0;
  for (size_t i = 0; i < inputs->size; i++) {
    const BpGraphValue *value = inputs->items[i];
    if (!value->producer || bp__list_index(&cut->binds[stage], value->producer) < 0)
      inputs->items[count++] = inputs->items[i];
  }
  inputs->size = count;
}

static int find_inputs(Cut *cut, int32_t stage) {
  BpGraphNode *const *nodes = (BpGraphNode **)cut->graph->nodes.items;
  int32_t begin = cut->first[stage], end = cut->first[stage + 1];
  int32_t num_extents = bp__extents_count(&cut->graph->extents);
  int status = 0;
  /* The first stage checks all inputs of the graph, so all of them are its inputs. */
  for (size_t i = 0; stage == 0 && i < cut->graph->inputs.size && !status; i++)
    status = add_input(cut, 0, cut->graph->inputs.items[i]);
  for (int32_t i = begin; i < end && !status; i++)
    for (int32_t k = 0; k < nodes[i]->num_inputs && !status; k++)
      status = add_input(cut, stage, nodes[i]->inputs[k]);
  for (int32_t i = 0; i < num_extents; i++)
    cut->marked[i] = false;
  need_nodes(cut, nodes + begin, end - begin);
  for (int32_t i = 0; i < num_extents && !status; i++)
    if (cut->marked[i])
      status = provide_symbol(cut, stage, bp__extents_at(i));
  remove_repeated(cut, stage);
  return status;
}

/* ---- One stage as the graph -------------------------------------------------------------- */

/* Gives each value that is passed on a unique name. All stages use the same names. Inputs of the
 * graph keep their names, by which the caller sets them: an output of the same name has the same
 * elements. */
static int name_values(Cut *cut) {
  BpGraph *graph = cut->graph;
  GHashTable *names = g_hash_table_new(g_str_hash, g_str_equal);
  int status = 0;
  for (size_t i = 0; i < graph->inputs.size; i++)
    g_hash_table_insert(names, (gpointer)(uintptr_t)((BpGraphValue *)graph->inputs.items[i])->name,
                        graph->inputs.items[i]);
  for (size_t i = 0; i < graph->outputs.size; i++) {
    ((BpGraphValue *)graph->outputs.items[i])->name = graph->output_names[i];
    g_hash_table_insert(names, (gpointer)(uintptr_t)graph->output_names[i],
                        graph->outputs.items[i]);
  }
  for (int32_t s = 0; s < cut->num_stages; s++)
    for (size_t i = 0; i < cut->inputs[s].size && !status; i++) {
      BpGraphValue *value = cut->inputs[s].items[i];
      if (maker_of(cut, value) < 0)
        continue;
      const BpGraphValue *other = g_hash_table_lookup(names, value->name ? value->name : "");
      if (!value->name || (other && other != value))
        value->name = bp__arena_printf(&graph->arena, "%s#%" PRId32, value->name ? value->name : "",
                                       value->id);
      status = value->name ? 0 : -1;
      if (value->name)
        g_hash_table_insert(names, (gpointer)(uintptr_t)value->name, value);
    }
  g_hash_table_destroy(names);
  return status;
}

/* Lists the outputs of a stage: its values that later stages read, or that are outputs of the
 * graph. */
static int list_outputs(const Cut *cut, int32_t stage, BpList *outputs, BpList *names) {
  const BpGraph *graph = cut->graph;
  for (size_t i = 0; i < graph->outputs.size; i++)
    if (maker_of(cut, graph->outputs.items[i]) == stage &&
        (bp__list_push(outputs, graph->outputs.items[i]) ||
         bp__list_push(names, (gpointer)(uintptr_t)graph->output_names[i])))
      return -1;
  for (int32_t s = stage + 1; s < cut->num_stages; s++)
    for (size_t i = 0; i < cut->inputs[s].size; i++) {
      BpGraphValue *value = cut->inputs[s].items[i];
      if (maker_of(cut, value) == stage && bp__list_index(outputs, value) < 0 &&
          (bp__list_push(outputs, value) || bp__list_push(names, (gpointer)(uintptr_t)value->name)))
        return -1;
    }
  return 0;
}

/* A model needs outputs. A stage has none if its nodes only check the model's inputs. */
static int check_outputs(const Cut *cut) {
  int status = 0;
  for (int32_t s = 0; s < cut->num_stages && !status; s++) {
    BpList outputs = {0}, names = {0};
    status = list_outputs(cut, s, &outputs, &names);
    if (!status && outputs.size == 0)
      status = bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                              "stage %" PRId32 " of the model would only check values and give "
                              "nothing, which is not supported; ask for another number of stages",
                              s);
    bp__list_free(&outputs);
    bp__list_free(&names);
  }
  return status;
}

static int list_nodes(const Cut *cut, int32_t stage, BpList *nodes) {
  for (size_t i = 0; i < cut->binds[stage].size; i++)
    if (bp__list_index(nodes, cut->binds[stage].items[i]) < 0 &&
        bp__list_push(nodes, cut->binds[stage].items[i]))
      return -1;
  for (int32_t i = cut->first[stage]; i < cut->first[stage + 1]; i++)
    if (bp__list_push(nodes, cut->graph->nodes.items[i]))
      return -1;
  return 0;
}

static void replace_list(BpList *list, BpList *by) {
  BpList old = *list;
  *list = *by;
  *by = old;
}

/* Reduces the graph to the nodes and values of the stage. */
static int keep_stage(Cut *cut, int32_t stage) {
  BpGraph *graph = cut->graph;
  BpList outputs = {0}, names = {0}, nodes = {0};
  const char **own = NULL;
  int status = list_outputs(cut, stage, &outputs, &names) || list_nodes(cut, stage, &nodes);
  if (!status)
    own = bp__arena_alloc_array(&graph->arena, names.size + 1, sizeof(*own));
  for (size_t i = 0; own && i < names.size; i++)
    own[i] = names.items[i];
  if (own) {
    for (size_t i = 0; i < cut->inputs[stage].size; i++)
      ((BpGraphValue *)cut->inputs[stage].items[i])->producer = NULL;
    graph->output_names = own;
    replace_list(&graph->outputs, &outputs);
    replace_list(&graph->nodes, &nodes);
    replace_list(&graph->inputs, &cut->inputs[stage]);
    bp__graph_remove_dead(graph);
  }
  bp__list_free(&outputs);
  bp__list_free(&names);
  bp__list_free(&nodes);
  return own ? 0 : -1;
}

static int check_count(const BpGraph *graph, int32_t num_stages) {
  if ((size_t)num_stages <= graph->nodes.size)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "the model has %zu operators, once constants are folded, and cannot be cut "
                        "into %" PRId32 " stages; ask for at most %zu",
                        graph->nodes.size, num_stages, graph->nodes.size);
}

static void cut_begin(Cut *cut) {
  gsize nodes = (gsize)cut->num_nodes, stages = (gsize)cut->num_stages;
  cut->work = g_new0(double, nodes + 2);
  cut->crossing = g_new0(double, nodes + 2);
  cut->first = g_new0(int32_t, stages + 1);
  cut->stage = g_new0(int32_t, nodes);
  cut->all = g_new0(BpGraphValue *, (gsize)cut->graph->num_values + 1);
  cut->inputs = g_new0(BpList, stages);
  cut->binds = g_new0(BpList, stages);
  cut->marked = g_new0(bool, (gsize)bp__extents_count(&cut->graph->extents) + 1);
}

static void cut_end(Cut *cut) {
  for (int32_t s = 0; s < cut->num_stages; s++) {
    bp__list_free(&cut->inputs[s]);
    bp__list_free(&cut->binds[s]);
  }
  g_free(cut->marked);
  g_free(cut->binds);
  g_free(cut->inputs);
  g_free(cut->all);
  g_free(cut->stage);
  g_free(cut->first);
  g_free(cut->crossing);
  g_free(cut->work);
}

int bp__build_cut(BpGraph *graph, int32_t num_stages, int32_t stage) {
  if (check_count(graph, num_stages))
    return -1;
  bp__graph_count_uses(graph);
  Cut cut = {.graph = graph, .num_nodes = (int32_t)graph->nodes.size, .num_stages = num_stages};
  cut_begin(&cut);
  find_values(&cut);
  find_cuts(&cut);
  int status = 0;
  for (int32_t s = 0; s < num_stages && !status; s++)
    status = find_inputs(&cut, s);
  if (!status)
    status = name_values(&cut) || check_outputs(&cut) || keep_stage(&cut, stage) ? -1 : 0;
  cut_end(&cut);
  return status;
}
