/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of Resize with tables made when compiling (resize.c), and with tables that a run
 * makes (resize_in.c). */
#ifndef BACKPLANE_GRAPH_OPS_RESIZE_H
#define BACKPLANE_GRAPH_OPS_RESIZE_H

#include "graph/ops/op.h"

#define BP__RESIZE_MOST_TAPS   64 /* the code of an element names each tap */
#define BP__RESIZE_LEAST_SCALE (4.0f / BP__RESIZE_MOST_TAPS)

typedef struct BpResize {
  const BpGraphNode *node;
  const char *mode;       /* nearest, linear or cubic */
  const char *coordinate; /* coordinate_transformation_mode */
  const char *nearest;    /* nearest_mode; "shrinking": ceil if an axis shrinks, else floor */
  float cubic_a;
  int exclude_outside, antialias;
  float extrapolation;
  BpGraphValue *scales, *sizes, *region; /* inputs of the node, or NULL */
} BpResize;

bool bp__resize_is_crop(const BpResize *r);
/* Whether coordinates and weights are computed in float64: the input has that type. */
bool bp__resize_is_wide(const BpResize *r);
/* The number of neighbours in the weighted sum of an element if an axis is resized by a scale. */
int32_t bp__resize_num_taps(const BpResize *r, float scale);

/* The factor by which each element is repeated in turn if an axis of any extent is resized by the
 * scale, or 0. */
int64_t bp__resize_repeats(const BpResize *r, float scale);

/* The product of a neighbour of an element, `value`, and of the neighbour's weight, which is in row
 * `row` of input 2. */
const BpIrNode *bp__resize_weighted(const BpOpCompute *op, const BpIrNode *value,
                                    const BpIrNode *const *row);

/* Resizes axes by tables that a run makes: scales, sizes or a region are data, extents are
 * open, or the input is of float64. */
int bp__resize_in(BpGraph *graph, BpGraphNode *node, const BpResize *r, const int32_t *dims,
                  int32_t count);

#endif
