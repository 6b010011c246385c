/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's minimal filtering: `tile` neighbouring outputs of a filter of `taps` taps from as many
 * products as there are points, tile + taps - 1:
 *
 *   output = A' ((G filter) * (B' input))       (elementwise product; A', G, B' of this header)
 *
 * in each dimension separately. The matrices come from Toom and Cook's evaluation at the points 0,
 * 1, -1, 2, -2 and infinity (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray,
 * CVPR 2016). */
#ifndef BACKPLANE_GRAPH_OPS_WINOGRAD_H
#define BACKPLANE_GRAPH_OPS_WINOGRAD_H

#include <stdint.h>

/* The maximum number of points: with more, rounding errors exceed the precision of float32. */
#define BP_WINOGRAD_MAX_POINTS 6

/* The number of an image's tiles is an odd multiple of BP_WINOGRAD_MULTIPLE for threads in
 * lock-step. */
#define BP_WINOGRAD_MULTIPLE 4

typedef struct BpWinograd {
  int32_t tile, taps, points;
  double input[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS];  /* B', by point and input */
  double filter[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS]; /* G, by point and tap */
  double output[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS]; /* A', by output and point */
} BpWinograd;

/* Computes the matrices; 1 <= tile, 1 <= taps, tile + taps - 1 <= BP_WINOGRAD_MAX_POINTS. Never
 * fails. */
void bp__winograd_init(BpWinograd *winograd, int32_t tile, int32_t taps);

#endif
