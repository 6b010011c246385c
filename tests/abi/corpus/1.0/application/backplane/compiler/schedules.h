/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules, chosen by the target's attributes, never by its name; each is a function over the
 * primitives of te.h and nothing more. All give -1 with an error. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_H
#define BACKPLANE_COMPILER_SCHEDULES_H

#include <backplane/api.h>
#include <backplane/compiler/te.h>
#include <backplane/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many columns of the second operand (inner, columns) of a product with `rows` rows of a number
 * type a tile spans on this target: packed as (columns / panel, inner, panel), its last panel
 * padded, it is read from front to back. -1 with an error. */
BP_API int64_t bp_schedule_panel_columns(const BpTarget *target, BpDataType dtype, int64_t rows,
                                         int64_t inner, int64_t columns);

/* The stages of a convolution by transforms (Winograd's algorithm) of tiles of its output;
 * dimensions of `padded` and the output: [n, block, y, x, channel]. In the plain layout a block is
 * a channel, the output has no last dimension, and the tiles of `input` and `product` lie in one
 * row. */
typedef struct BpTransformStages {
  int64_t tile[2];         /* outputs of a tile along y and x */
  BpTeTensor *padded;      /* the input as far as the tiles reach */
  BpTeTensor *input_rows;  /* transformed along x: [n, block, tile y, tile x, y, point, channel] */
  BpTeTensor *input;       /* along both: [n, point y, point x, block, tile y, tile x, channel] */
  BpTeTensor *product;     /* the same, reduced over [input block, input channel] */
  BpTeTensor *output_rows; /* back along y: [n, block, tile y, tile x, y, point x, channel] */
} BpTransformStages;

/* Such a convolution and the element-wise stages after it, of which `output` is the last: blocks of
 * tiles one after the other, each through all stages while the second cache holds it; three kernels
 * where threads run in lock-step. */
BP_API int bp_schedule_transformed(BpTe *te, const BpTarget *target,
                                   const BpTransformStages *stages, BpTeTensor *output);

/* Schedules everything that the outputs are computed from, whatever it is: inlines what is cheap,
 * finds out what does the work and uses what fits. The last output is the one that the schedule is
 * made around. A stage that was scheduled, inlined or placed before is left as it is. */
BP_API int bp_schedule_auto(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                            const BpTarget *target);

#ifdef __cplusplus
}
#endif

#endif
