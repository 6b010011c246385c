/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's minimal filtering: `tile` neighbouring outputs of a filter of `taps` taps from as many
 * products as there are points, tile + taps - 1:
 *
 *   output = A' ((G filter) * (B' input))       (elementwise product; A', G, B' of this header)
 *
 * in each dimension by itself. The matrices are those of Toom and Cook's evaluation at the points
 * 0, 1, -1, 2, -2 and infinity (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and
 * Gray, CVPR 2016). */
#ifndef BACKPLANE_GRAPH_OPS_WINOGRAD_H
#define BACKPLANE_GRAPH_OPS_WINOGRAD_H

#include <stdint.h>

/* With more points rounding errors grow beyond what float32 bears. */
#define BP_WINOGRAD_MAX_POINTS 6

/* Where threads run in lock-step, the tiles of an image are filled up to an odd multiple of this.
 */
#define BP_WINOGRAD_MULTIPLE 4

typedef struct BpWinograd {
  int32_t tile, taps, points;
  double input[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS];  /* B': by point, input */
  double filter[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS]; /* G: by point, tap */
  double output[BP_WINOGRAD_MAX_POINTS][BP_WINOGRAD_MAX_POINTS]; /* A': by output, point */
} BpWinograd;

/* 1 <= tile, 1 <= taps, tile + taps - 1 <= BP_WINOGRAD_MAX_POINTS. Never fails. */
void bp__winograd_init(BpWinograd *winograd, int32_t tile, int32_t taps);

#endif
