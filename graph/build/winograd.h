/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which convolutions use Winograd's algorithm, and transforms their weights. */
#ifndef BACKPLANE_GRAPH_BUILD_WINOGRAD_H
#define BACKPLANE_GRAPH_BUILD_WINOGRAD_H

#include <backplane/target.h>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

/* The maximum number of slices of an image, each with kernels of its own. */
#define BP_WINOGRAD_MOST_SLICES 8

/* A dense convolution. In the blocked layout a vector contains channels; for threads in lock-step a
 * vector contains tiles, and all channels of the output are one block. */
typedef struct BpWinogradSite {
  const BpTarget *target;
  const BpOpWindow *window;
  int64_t in_blocks, in_block; /* channels */
  int64_t out_blocks, out_block;
  int64_t threads; /* number of threads in lock-step, else 1 */
  int64_t images;
  int64_t out[2]; /* height and width of the output; likely values if open */
} BpWinogradSite;

/* The tiles and slices of a Winograd convolution. */
typedef struct BpWinogradPlan {
  int64_t tile[2]; /* outputs of a tile along height and width */
  int64_t rows;    /* output rows computed at once: whole tiles; all rows or more without slices */
} BpWinogradPlan;

/* Whether transforms pay; if so, sets the plan. */
int bp__winograd_pays(const BpWinogradSite *site, BpWinogradPlan *plan);
/* Transforms weights (out, in, h, w) to (points y, points x, out / b, in / a, a, b), with zeros
 * beyond the channels; NULL with an error. */
BpGraphValue *bp__winograd_weights(BpGraph *graph, const BpGraphValue *from, const int64_t *tile,
                                   const BpWinogradSite *site);

#endif
