/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion. A node and its immediate post-dominator, the first node that everything computed from it
 * flows through, may share a function if all nodes on the paths between them may: so the results of
 * the function are the results of its last node, and no group depends on itself (the algorithm is
 * TVM's; Chen et al., OSDI 2018).
 *
 * Reductions of rows and the element-wise nodes that combine their results with the rows, as in a
 * normalisation, share a function, so that each row is read from the cache. Another anchor
 * (convolution, product, pooling, reduction) is fused with the element-wise nodes after it; a
 * convolution also with a following pooling that it can compute in its tile, a reduction also with
 * the injective nodes before it. Injective nodes that join no reduction form chains. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/target.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"
#include "graph/ops/rows.h"

/* The maximum number of copies of one expression in a group: an intermediate value that is read
 * twice is computed twice, and the copies multiply along a chain. */
#define MAX_EXPRESSION_WEIGHT 256
#define MAX_COPIES            8

/* The maximum number of injective nodes that join a group. The time for scheduling a group grows
 * with the square of its nodes, and further nodes save little memory traffic. */
#define MAX_JOINED 256

/* The maximum number of injective nodes on a path through a group. An expression of the IR contains
 * the expressions of all nodes on the path, with a function such as tanh as its arithmetic, and the
 * depth of expressions is limited. */
#define MAX_PATH 24

/* The maximum number of nodes in a group that expand an input along open extents. A node that
 * expands an input clamps an index at run time, and loops are partitioned where a clamp starts to
 * matter: the number of loops grows with the square of the clamps, whose order is unknown. */
#define MAX_CLAMPS 4

/* The maximum number of elements of a row that is reduced and used in one function, if there are
 * fewer than LEAST_ROWS rows: cores share rows, and long rows are worth sharing each. */
#define MAX_ROW    32768
#define LEAST_ROWS 16

#define NOWHERE (-1) /* stands for the outputs of the graph */

typedef struct Fusion {
  const BpGraph *graph;
  int32_t count;
  int32_t most_args;  /* maximum number of arguments of a group */
  int has_lanes;      /* threads in lock-step run kernels, each with at most one reduction */
  int has_kernels;    /* kernels run over blocks of threads, which may be one thread each */
  int32_t *dominator; /* immediate post-dominator of a node, by node id; NOWHERE for none */
  int32_t *depth;     /* depth in the tree of post-dominators; NOWHERE has 0 */
  int32_t *group;     /* id of the node that began a node's group; -1 for no group yet */
  int32_t *args;   /* number of arguments of a group, by the id of its first node; an argument that
                    * two nodes read counts twice */
  int32_t *weight; /* by node id: the number of expressions in a value after an anchor, or of
                    * computed copies of a value before the end of a chain */
  int32_t *joined; /* number of injective nodes in a group, by the id of its first node */
  int32_t *clamps; /* number of nodes in a group that clamp indices, by the id of its first node */
  int32_t *path;   /* by node id: the number of injective nodes on the longest path to the value
                    * after an anchor, or from the value to the end of a chain */
} Fusion;

static BpGraphNode *node_at(const Fusion *fusion, int32_t id) {
  return fusion->graph->nodes.items[id];
}

/* ---- Post-dominators --------------------------------------------------------------------- */

static int32_t common(const Fusion *fusion, int32_t a, int32_t b) {
  while (a != b) {
    int32_t depth_a = a == NOWHERE ? 0 : fusion->depth[a];
    int32_t depth_b = b == NOWHERE ? 0 : fusion->depth[b];
    if (depth_a >= depth_b)
      a = fusion->dominator[a];
    else
      b = fusion->dominator[b];
  }
  return a;
}

#define UNSEEN (-2)

static void meet(Fusion *fusion, const BpGraphValue *value, int32_t consumer) {
  int32_t *dominator;
  if (!value || !value->producer)
    return;
  dominator = &fusion->dominator[value->producer->id];
  *dominator = *dominator == UNSEEN ? consumer : common(fusion, *dominator, consumer);
}

/* Goes from the last node to the first, so that all consumers of a node come before it. */
static void find_dominators(Fusion *fusion) {
  for (int32_t i = 0; i < fusion->count; i++) {
    fusion->dominator[i] = UNSEEN;
    fusion->group[i] = -1;
    fusion->weight[i] = 1;
  }
  for (size_t i = 0; i < fusion->graph->outputs.size; i++)
    meet(fusion, fusion->graph->outputs.items[i], NOWHERE);
  for (int32_t id = fusion->count - 1; id >= 0; id--) {
    const BpGraphNode *node = node_at(fusion, id);
    for (int32_t k = 0; k < node->num_outputs && node->is_kept; k++)
      meet(fusion, node->outputs[k], NOWHERE);
    int32_t up = fusion->dominator[id];
    fusion->depth[id] = up == NOWHERE ? 1 : fusion->depth[up] + 1;
    for (int32_t k = 0; k < node->num_inputs; k++)
      meet(fusion, node->inputs[k], id);
  }
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* The number of arguments that a node adds to the group of `leader`: the node's inputs except those
 * that the group computes, minus 1 if the group reads the node's output. */
static int32_t added_args(const Fusion *fusion, int32_t leader, int32_t id, int32_t last) {
  const BpGraphNode *node = node_at(fusion, id);
  int32_t count = 0;
  for (int32_t k = 0; k < node->num_inputs; k++) {
    const BpGraphValue *value = bp__op_argument(node, k);
    count += value && !bp__build_is_immediate(value) &&
             !(value->producer && fusion->group[value->producer->id] == leader);
  }
  for (int32_t reader = id + 1; reader <= last; reader++)
    for (int32_t k = 0; fusion->group[reader] == leader && k < node_at(fusion, reader)->num_inputs;
         k++)
      count -= node_at(fusion, reader)->inputs[k] &&
               node_at(fusion, reader)->inputs[k]->producer == node;
  return count;
}

static int32_t is_clamp(const BpGraphNode *node) {
  return node->op->compute == bp__compute_expand_in;
}

static void begin_group(Fusion *fusion, int32_t id) {
  fusion->args[id] = added_args(fusion, id, id, id);
  fusion->group[id] = id;
  fusion->clamps[id] = is_clamp(node_at(fusion, id));
  fusion->path[id] = 1;
}

/* ---- Growing groups ---------------------------------------------------------------------- */

typedef struct Growth {
  int32_t leader;
  int32_t most;              /* highest fusion class that may join */
  const BpGraphValue *shape; /* shape that a node must have to join the group; NULL: any shape */
  const BpGraphValue
      *sums; /* shape of reductions of the rows of `shape`, which may join; or NULL */
} Growth;

static int may_share(const BpGraphNode *a, const BpGraphNode *b) {
  return a->place == b->place && !a->is_alone && !b->is_alone;
}

/* Whether a node computes rows from rows and their reductions, or reduces rows. */
static int stays_in_rows(const Growth *growth, const BpGraphNode *node) {
  const BpGraphValue *result = node->outputs[0];
  if (node->op->fusion == BP_FUSE_REDUCTION)
    return node->inputs[0] && bp__value_same_shape(growth->shape, node->inputs[0]) &&
           bp__value_same_shape(growth->sums, result);
  return node->op->fusion == BP_FUSE_ELEMENTWISE && (bp__value_same_shape(growth->shape, result) ||
                                                     bp__value_same_shape(growth->sums, result));
}

static int may_grow(const Growth *growth, const BpGraphNode *node) {
  if (growth->sums)
    return stays_in_rows(growth, node);
  return node->op->fusion <= growth->most &&
         (!growth->shape || bp__value_same_shape(growth->shape, node->outputs[0]));
}

static int may_join(const Fusion *fusion, const Growth *growth, int32_t id) {
  const BpGraphNode *node = node_at(fusion, id);
  if (fusion->group[id] == growth->leader)
    return 1;
  return fusion->group[id] < 0 && may_grow(growth, node) &&
         may_share(node, node_at(fusion, growth->leader));
}

/* Marks in `reached` every node that is on a path from `from` to `to`. Returns 0 if a marked node
 * may not join the group. */
static int between(const Fusion *fusion, const Growth *growth, int32_t from, int32_t to,
                   uint8_t *reached) {
  memset(reached, 0, (size_t)(to - from + 1));
  reached[0] = 1;
  for (int32_t id = from + 1; id <= to; id++) {
    const BpGraphNode *node = node_at(fusion, id);
    for (int32_t k = 0; k < node->num_inputs; k++) {
      const BpGraphNode *producer = node->inputs[k] ? node->inputs[k]->producer : NULL;
      if (producer && producer->id >= from && reached[producer->id - from])
        reached[id - from] = 1;
    }
    if (reached[id - from] && !may_join(fusion, growth, id))
      return 0;
  }
  return 1;
}

/* Weighs the value of a node after an anchor, by the nodes before it in its group. */
static void weigh(Fusion *fusion, int32_t id, int32_t leader) {
  const BpGraphNode *node = node_at(fusion, id);
  int32_t weight = 1, path = 0;
  for (int32_t k = 0; k < node->num_inputs; k++) {
    const BpGraphNode *producer = node->inputs[k] ? node->inputs[k]->producer : NULL;
    if (!producer || fusion->group[producer->id] != leader ||
        producer->op->fusion > BP_FUSE_INJECTIVE)
      continue;
    weight += fusion->weight[producer->id];
    if (path < fusion->path[producer->id])
      path = fusion->path[producer->id];
  }
  fusion->weight[id] = weight;
  fusion->path[id] = path + 1;
}

/* Takes the nodes in `reached` into the group; returns 0, and takes none, if the group would get
 * too much weight or too many arguments. */
static int take(Fusion *fusion, const Growth *growth, int32_t from, int32_t to,
                const uint8_t *reached) {
  int32_t last = from, args = fusion->args[growth->leader];
  for (int32_t id = from + 1; id <= to; id++) {
    if (!reached[id - from])
      continue;
    args += added_args(fusion, growth->leader, id, id);
    fusion->group[id] = growth->leader;
    weigh(fusion, id, growth->leader);
    last = id;
  }
  if (fusion->weight[last] <= MAX_EXPRESSION_WEIGHT && fusion->path[last] <= MAX_PATH &&
      args <= fusion->most_args) {
    fusion->args[growth->leader] = args;
    return 1;
  }
  for (int32_t id = from + 1; id <= to; id++)
    if (reached[id - from])
      fusion->group[id] = -1;
  return 0;
}

/* Takes the post-dominator of a group's end, if it and the nodes before it may join; returns the
 * group's new end, or NOWHERE. */
static int32_t grow_once(Fusion *fusion, const Growth *growth, int32_t end, uint8_t *reached) {
  int32_t next = fusion->dominator[end];
  int takes = next != NOWHERE && may_join(fusion, growth, next) &&
              between(fusion, growth, end, next, reached) &&
              take(fusion, growth, end, next, reached);
  return takes ? next : NOWHERE;
}

/* Takes the post-dominators of a group's end, one after the other, as long as they may join. */
static void grow(Fusion *fusion, int32_t leader, int32_t most, const BpGraphValue *shape,
                 uint8_t *reached) {
  Growth growth = {leader, most, shape, NULL};
  begin_group(fusion, leader);
  for (int32_t end = leader; end != NOWHERE;)
    end = grow_once(fusion, &growth, end, reached);
}

/* Whether each element of `sums` belongs to a row of `whole`, and the rows, with likely values for
 * open extents, are worth a function. */
static int are_rows(const BpExtents *extents, const BpGraphValue *whole, const BpGraphValue *sums) {
  int32_t first = 0;
  double rows = 1, row = 1;
  if (!whole || whole->ndim != sums->ndim)
    return 0;
  for (; first < whole->ndim && whole->shape[first] == sums->shape[first]; first++)
    rows *= whole->shape[first] > 0 ? (double)whole->shape[first] : 1; /* open: at least one row */
  for (int32_t i = first; i < whole->ndim; i++) {
    if (sums->shape[i] != 1 || whole->shape[i] == 0)
      return 0;
    row *= (double)bp__extent_likely(extents, whole->shape[i]);
  }
  return row > 1 && (row <= MAX_ROW || rows >= LEAST_ROWS);
}

/* Takes nodes into the group of a reduction of rows, up to the last node that computes rows. If no
 * node computes rows, the reduction stays without a group. */
static void grow_rows(Fusion *fusion, int32_t id, uint8_t *reached) {
  const BpGraphNode *node = node_at(fusion, id);
  Growth growth = {id, BP_FUSE_ELEMENTWISE, node->inputs[0], node->outputs[0]};
  int32_t last = id - 1, args = 0;
  if (fusion->group[id] >= 0 || !are_rows(&fusion->graph->extents, growth.shape, growth.sums))
    return;
  begin_group(fusion, id);
  for (int32_t end = grow_once(fusion, &growth, id, reached); end != NOWHERE;
       end = grow_once(fusion, &growth, end, reached))
    if (bp__value_same_shape(growth.shape, node_at(fusion, end)->outputs[0])) {
      last = end;
      args = fusion->args[id];
    }
  for (int32_t i = last + 1; i < fusion->count; i++)
    if (fusion->group[i] == id)
      fusion->group[i] = -1;
  fusion->args[id] = args;
}

/* Whether a node takes the largest element of each window, and the windows are adjacent. */
static int pools_side_by_side(const Fusion *fusion, const BpGraphNode *node) {
  BpExtents extents = fusion->graph->extents;
  BpOpWindow w;
  if (node->op->domain[0] || strcmp(node->op->name, "MaxPool") ||
      bp__op_window(&extents, node, NULL, &w) || !bp__op_window_is_closed(&w))
    return 0;
  for (int32_t i = 0; i < w.rank; i++)
    if (w.kernel[i] != w.strides[i] || w.dilations[i] != 1 || w.pad_begin[i] || w.pad_end[i] ||
        w.out[i] * w.strides[i] > w.in[i])
      return 0;
  return 1;
}

/* Takes a pooling directly after a blocked convolution's group into the group. */
static void take_pooling(Fusion *fusion, int32_t leader) {
  const BpGraphNode *conv = node_at(fusion, leader);
  int32_t end = leader, next = fusion->dominator[leader];
  if (fusion->has_lanes || strcmp(conv->op->name, "ConvBlocked") || conv->inputs[1]->ndim != 6)
    return;
  for (; next != NOWHERE && fusion->group[next] == leader; next = fusion->dominator[end])
    end = next;
  if (next == NOWHERE || fusion->group[next] != next || !may_share(node_at(fusion, next), conv) ||
      !pools_side_by_side(fusion, node_at(fusion, next)) ||
      node_at(fusion, next)->inputs[0]->producer != node_at(fusion, end))
    return;
  for (int32_t id = next + 1; id < fusion->count; id++)
    if (fusion->group[id] == next)
      return;
  fusion->group[next] = leader;
}

/* The number of copies of a node's value that a group computes if it computes the value wherever it
 * is read; and the longest path from the value to the end of the group. */
static int32_t inlined_copies(const Fusion *fusion, int32_t id, int32_t to, int32_t *path) {
  int32_t copies = 0;
  *path = 0;
  for (int32_t reader = id + 1; reader <= to; reader++)
    for (int32_t k = 0; k < node_at(fusion, reader)->num_inputs; k++) {
      const BpGraphValue *value = node_at(fusion, reader)->inputs[k];
      if (!value || value->producer != node_at(fusion, id))
        continue;
      copies += fusion->weight[reader];
      if (*path < fusion->path[reader])
        *path = fusion->path[reader];
    }
  ++*path;
  return copies;
}

/* Computes an injective node inside the group of its dominator, if that is a chain of such nodes,
 * or a reduction that does not have an injective node yet; otherwise the node begins a group. */
static void join_dominator(Fusion *fusion, int32_t id, uint8_t *reached) {
  int32_t to = fusion->dominator[id], leader = to == NOWHERE ? -1 : fusion->group[to];
  Growth growth = {leader, -1, NULL, NULL};
  begin_group(fusion, id);
  if (leader < 0 || fusion->joined[leader] == MAX_JOINED ||
      node_at(fusion, leader)->op->fusion > BP_FUSE_REDUCTION ||
      !may_share(node_at(fusion, leader), node_at(fusion, id)) ||
      (node_at(fusion, leader)->op->fusion == BP_FUSE_REDUCTION && to > leader) ||
      !between(fusion, &growth, id, to, reached))
    return;
  int32_t path, args = added_args(fusion, leader, id, to);
  int32_t copies = inlined_copies(fusion, id, to, &path);
  int32_t clamps = fusion->clamps[leader] + is_clamp(node_at(fusion, id));
  if (copies > MAX_COPIES || path > MAX_PATH || clamps > MAX_CLAMPS ||
      fusion->args[leader] + args > fusion->most_args)
    return;
  fusion->joined[leader]++;
  fusion->args[leader] += args;
  fusion->group[id] = leader;
  fusion->weight[id] = copies;
  fusion->clamps[leader] = clamps;
  fusion->path[id] = path;
}

static void grow_anchor(Fusion *fusion, int32_t id, uint8_t *reached) {
  grow(fusion, id, BP_FUSE_ELEMENTWISE, node_at(fusion, id)->outputs[0], reached);
  take_pooling(fusion, id);
}

static void partition(Fusion *fusion, uint8_t *reached) {
  for (int32_t id = 0; id < fusion->count && !fusion->has_kernels; id++)
    if (node_at(fusion, id)->op->fusion == BP_FUSE_REDUCTION)
      grow_rows(fusion, id, reached);
  for (int32_t id = fusion->count - 1; id >= 0; id--) {
    const BpGraphNode *node = node_at(fusion, id);
    if (fusion->group[id] >= 0)
      continue;
    if (node->op->fusion == BP_FUSE_ANCHOR || node->op->fusion == BP_FUSE_REDUCTION)
      grow_anchor(fusion, id, reached);
    else if (node->op->fusion > BP_FUSE_REDUCTION)
      begin_group(fusion, id);
  }
  for (int32_t id = fusion->count - 1; id >= 0; id--)
    if (fusion->group[id] < 0)
      join_dominator(fusion, id, reached);
}

static void keep_apart(Fusion *fusion) {
  for (int32_t id = 0; id < fusion->count; id++)
    fusion->group[id] = id;
}

/* ---- The list of groups ------------------------------------------------------------------ */

int bp__build_is_immediate(const BpGraphValue *value) {
  return value->data && bp__value_num_elements(value) == 1;
}

static int add_arg(BpGroup *group, BpGraphValue *value) {
  for (size_t i = 0; i < group->nodes.size; i++)
    if (value->producer == group->nodes.items[i])
      return 0;
  for (size_t i = 0; i < group->args.size; i++)
    if (group->args.items[i] == value)
      return 0;
  return bp__list_push(&group->args, value);
}

/* Lists the values of a group that are outputs: the values whose id is set in `is_output`, or all
 * if it is NULL. */
static int list_outputs(BpGroup *group, const uint8_t *is_output) {
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    for (int32_t k = 0; k < node->num_outputs; k++)
      if ((!is_output || is_output[node->outputs[k]->id]) &&
          bp__list_push(&group->outputs, node->outputs[k]))
        return -1;
  }
  return 0;
}

/* Lists all values that a node of the machine reads, including constants of one element. */
static int list_inputs(BpGroup *group, const BpGraphNode *node) {
  for (int32_t k = 0; k < node->num_inputs; k++)
    if (node->inputs[k] && add_arg(group, node->inputs[k]))
      return -1;
  return 0;
}

static int finish_group(BpGroup *group, const uint8_t *is_output) {
  const BpGraphNode *last = group->nodes.items[group->nodes.size - 1];
  group->place = last->place;
  if (list_outputs(group, bp__op_is_control(last) ? NULL : is_output))
    return -1;
  if (bp__op_is_control(last))
    return list_inputs(group, last);
  if (last->op->fusion == BP_FUSE_VIEW) {
    group->view_of = last->inputs[0];
    return bp__list_push(&group->args, last->inputs[0]);
  }
  for (size_t i = 0; i < group->nodes.size; i++) {
    BpGraphNode *node = group->nodes.items[i];
    if (node->op->fusion >= BP_FUSE_REDUCTION)
      group->anchor = node;
    for (int32_t k = 0; k < node->num_inputs; k++) {
      BpGraphValue *value = bp__op_argument(node, k);
      if (value && !bp__build_is_immediate(value) && add_arg(group, value))
        return -1;
    }
  }
  return 0;
}

int bp__build_group_of(BpGroup *group, BpGraphNode *node) {
  *group = (BpGroup){0};
  return bp__list_push(&group->nodes, node) ? -1 : finish_group(group, NULL);
}

void bp__group_clear(BpGroup *group) {
  bp__list_free(&group->nodes);
  bp__list_free(&group->args);
  bp__list_free(&group->outputs);
}

/* Marks, by value id, the values that are read outside the group that computes them (free). */
static uint8_t *find_outputs(const Fusion *fusion) {
  uint8_t *is_output = calloc((size_t)fusion->graph->num_values + 1, 1);
  if (!is_output) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while fusing %d nodes", fusion->count);
    return NULL;
  }
  for (size_t i = 0; i < fusion->graph->outputs.size; i++)
    is_output[((const BpGraphValue *)fusion->graph->outputs.items[i])->id] = 1;
  for (int32_t id = 0; id < fusion->count; id++) {
    const BpGraphNode *node = node_at(fusion, id);
    for (int32_t k = 0; k < node->num_outputs && node->is_kept; k++)
      if (node->outputs[k])
        is_output[node->outputs[k]->id] = 1;
    for (int32_t k = 0; k < node_at(fusion, id)->num_inputs; k++) {
      const BpGraphValue *value = node_at(fusion, id)->inputs[k];
      if (value && value->producer && fusion->group[value->producer->id] != fusion->group[id])
        is_output[value->id] = 1;
    }
  }
  return is_output;
}

/* A group runs at the position of its last node, when all values that it reads are computed. */
static int list_groups(const Fusion *fusion, BpGroups *groups) {
  BpGroup **by_leader =
      bp__arena_alloc_array(&groups->arena, (size_t)fusion->count, sizeof(*by_leader));
  int32_t *last = bp__arena_alloc_array(&groups->arena, (size_t)fusion->count, sizeof(*last));
  if (!by_leader || !last)
    return -1;
  for (int32_t id = 0; id < fusion->count; id++)
    last[fusion->group[id]] = id;
  for (int32_t id = 0; id < fusion->count; id++) {
    BpGroup **group = &by_leader[fusion->group[id]];
    if (!*group)
      *group = bp__arena_alloc(&groups->arena, sizeof(**group));
    if (!*group || bp__list_push(&(*group)->nodes, node_at(fusion, id)))
      return -1;
    if (last[fusion->group[id]] == id && bp__list_push(&groups->groups, *group)) {
      bp__list_free(&(*group)->nodes);
      return -1;
    }
  }
  uint8_t *is_output = find_outputs(fusion);
  int status = is_output ? 0 : -1;
  for (size_t i = 0; i < groups->groups.size && !status; i++)
    status = finish_group(groups->groups.items[i], is_output);
  free(is_output);
  return status;
}

int32_t bp__build_most_arguments(const BpTarget *target) {
  return (int32_t)bp_target_get_int(target, BP_TARGET_MAX_BUFFERS, 64) * 3 / 4;
}

/* Partitions the bodies of a node that the machine executes. */
static int group_bodies(const BpBuild *build, BpGroups *groups, BpGroup *group) {
  const BpGraphNode *node = group->nodes.items[0];
  int status = 0;
  if (!bp__op_is_control(node))
    return 0;
  group->bodies =
      bp__arena_alloc_array(&groups->arena, (size_t)node->num_bodies + 1, sizeof(*group->bodies));
  for (int32_t b = 0; group->bodies && b < node->num_bodies && !status; b++)
    status = bp__build_groups(build, node->bodies[b], &group->bodies[b]);
  return group->bodies ? status : -1;
}

int bp__build_groups(const BpBuild *build, const BpGraph *graph, BpGroups *groups) {
  size_t count = graph->nodes.size;
  Fusion fusion = {.graph = graph,
                   .count = (int32_t)count,
                   .most_args = bp__build_most_arguments(build->target),
                   .has_lanes = bp_target_get_int(build->target, BP_TARGET_THREAD_WARP_SIZE, 1) > 1,
                   .has_kernels = bp_target_get_int(build->target, BP_TARGET_THREAD_AXES, 0) != 0};
  int32_t *memory;
  uint8_t *reached;
  int status = -1;
  if (count == 0)
    return 0;
  memory = calloc(count, 8 * sizeof(*memory));
  reached = calloc(count + 1, 1);
  if (memory && reached) {
    fusion.dominator = memory;
    fusion.depth = memory + count;
    fusion.group = memory + 2 * count;
    fusion.weight = memory + 3 * count;
    fusion.args = memory + 4 * count;
    fusion.joined = memory + 5 * count;
    fusion.clamps = memory + 6 * count;
    fusion.path = memory + 7 * count;
    find_dominators(&fusion);
    if (build->is_reference)
      keep_apart(&fusion);
    else
      partition(&fusion, reached);
    status = list_groups(&fusion, groups);
  } else {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while fusing %zu nodes", count);
  }
  free(memory);
  free(reached);
  for (size_t i = 0; i < groups->groups.size && !status; i++)
    status = group_bodies(build, groups, groups->groups.items[i]);
  return status;
}

void bp__groups_clear(BpGroups *groups) {
  for (size_t i = 0; i < groups->groups.size; i++) {
    BpGroup *group = groups->groups.items[i];
    for (int32_t b = 0; group->bodies && b < bp__group_control(group)->num_bodies; b++)
      bp__groups_clear(&group->bodies[b]);
    bp__group_clear(group);
  }
  bp__list_free(&groups->groups);
  bp__arena_free(&groups->arena);
}
