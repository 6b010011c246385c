/* SPDX-License-Identifier: Apache-2.0 */
/* Which convolutions become Winograd's, and their weights. */
#ifndef BACKPLANE_GRAPH_BUILD_WINOGRAD_H
#define BACKPLANE_GRAPH_BUILD_WINOGRAD_H

#include <backplane/target.h>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

/* Slices of an image at most, each of kernels of its own. */
#define BP_WINOGRAD_MOST_SLICES 8

/* A dense convolution. In the blocked layout a vector holds channels; for threads in lock-step it
 * holds tiles, and all channels of the output are one block. */
typedef struct BpWinogradSite {
  const BpTarget *target;
  const BpOpWindow *window;
  int64_t in_blocks, in_block; /* channels */
  int64_t out_blocks, out_block;
  int64_t threads; /* in lock-step, else 1 */
  int64_t images;
  int64_t out[2]; /* the output's height and width; their likely values if they are open */
} BpWinogradSite;

/* How it is done. */
typedef struct BpWinogradPlan {
  int64_t tile[2]; /* outputs of a tile along height and width */
  int64_t rows;    /* of the output that are computed at once: whole tiles, or all and more */
} BpWinogradPlan;

/* Whether transforms pay; then sets the plan. */
int bp__winograd_pays(const BpWinogradSite *site, BpWinogradPlan *plan);
/* Weights (out, in, h, w) as (points y, points x, out / b, in / a, a, b), transformed, zero beyond
 * the channels; NULL with an error. */
BpGraphValue *bp__winograd_weights(BpGraph *graph, const BpGraphValue *from, const int64_t *tile,
                                   const BpWinogradSite *site);

#endif
