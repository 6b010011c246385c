/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over an imported graph. */
#include <stddef.h>
#include <stdio.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/build/options.h"

/* Keeps one stage of the graph if the options cut it. */
static int cut(const BpBuild *build, BpGraph *graph) {
  const BpCompileOptions *options = build->options;
  if (!HAS_MEMBER(options, stage) || options->num_stages < 2)
    return 0;
  return bp__build_own_outputs(build, graph) ||
                 bp__build_cut(graph, options->num_stages, options->stage)
             ? -1
             : 0;
}

/* The passes in the order in which they run. docs/graph.md describes each pass. A reference is
 * built without the passes that only improve speed. */
static const struct {
  const char *name;
  int (*run)(const BpBuild *build, BpGraph *graph);
  bool is_for_speed;
  bool is_for_bodies; /* the pass also runs on each body of a node */
} passes[] = {
    {"claim", bp__build_claim, false, false},
    {"fold_scales", bp__build_fold_scales, true, true},
    {"canonical", bp__build_canonical, true, true},
    /* The passes from here on follow all passes that do not depend on the target, so that no cut
     * separates nodes that they join. */
    {"cut", cut, false, false},
    {"dequantized", bp__build_dequantized, true, true},
    {"byte_products", bp__build_byte_products, true, true},
    {"byte_bits", bp__build_byte_bits, false, true},
    {"layout", bp__build_layout, true, true},
    {"pack", bp__build_pack, true, true},
    {"own_outputs", bp__build_own_outputs, false, false},
    {"appends", bp__build_appends, true, false},
    {"place", bp__build_place, false, false},
};

static int run_pass(const BpBuild *build, BpGraph *graph, size_t index) {
  if (passes[index].run(build, graph))
    return -1;
  for (size_t i = 0; passes[index].is_for_bodies && i < graph->nodes.size; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t b = 0; b < node->num_bodies; b++)
      if (run_pass(build, node->bodies[b], index))
        return -1;
  }
  return 0;
}

static int check_pass(const BpBuild *build, const BpGraph *graph, size_t index) {
  char name[64];
  snprintf(name, sizeof name, "graph.%zu-%s.txt", index + 1, passes[index].name);
  if (bp__build_dump_graph(build, graph, name))
    return -1;
  if (bp__graph_verify(graph) == 0)
    return 0;
  return bp_error_add_context("after pass %s, a fault of the compiler", passes[index].name);
}

void bp__build_release_others(const BpBuild *build, BpGraph *graph, const BpList *live) {
  bp__graph_release(graph, live);
  if (build->spent)
    bp__onnx_release(build->spent, live);
}

int bp__build_release(const BpBuild *build, BpGraph *graph) {
  BpList live = {0};
  int status = bp__live_of_graph(graph, &live);
  if (!status)
    bp__build_release_others(build, graph, &live);
  bp__list_free(&live);
  return status;
}

int bp__build_passes(const BpBuild *build, BpGraph *graph) {
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    if (build->is_reference && passes[i].is_for_speed)
      continue;
    if (run_pass(build, graph, i) || check_pass(build, graph, i) || bp__build_release(build, graph))
      return -1;
  }
  return 0;
}
