/* SPDX-License-Identifier: Apache-2.0 */
/* What Resize has where its tables are made when compiling (resize.c), and where a run makes them
 * (resize_in.c). */
#ifndef BACKPLANE_GRAPH_OPS_RESIZE_H
#define BACKPLANE_GRAPH_OPS_RESIZE_H

#include "graph/ops/op.h"

#define BP__RESIZE_MOST_TAPS   64 /* the code of an element names each */
#define BP__RESIZE_LEAST_SCALE (4.0f / BP__RESIZE_MOST_TAPS)

typedef struct BpResize {
  const BpGraphNode *node;
  const char *mode;       /* nearest, linear, cubic */
  const char *coordinate; /* coordinate_transformation_mode */
  const char *nearest;    /* nearest_mode; "shrinking": ceil where an axis shrinks, else floor */
  float cubic_a;
  int exclude_outside, antialias;
  float extrapolation;
  BpGraphValue *scales, *sizes, *region; /* inputs, or NULL */
} BpResize;

bool bp__resize_is_crop(const BpResize *r);
/* The neighbours that an element is made of where an axis is resized by such a scale. */
int32_t bp__resize_num_taps(const BpResize *r, float scale);

/* The factor by which each element is repeated in turn where an axis of any extent is resized by
 * the scale, or 0. */
int64_t bp__resize_repeats(const BpResize *r, float scale);

/* Resizes axes of which a run knows how: by scales, sizes or a region of the data, or of open
 * extents. */
int bp__resize_in(BpGraph *graph, BpGraphNode *node, const BpResize *r, const int32_t *dims,
                  int32_t count);

#endif
