/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules, chosen by the target's attributes, never by its name. Each schedule is a function that
 * uses only the primitives of te.h. All functions return -1 with an error. If `target` is NULL, no
 * attributes are used. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_H
#define BACKPLANE_COMPILER_SCHEDULES_H

#include <backplane/api.h>
#include <backplane/compiler/te.h>
#include <backplane/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the width of a panel of the second operand (inner, columns) of a matrix product on this
 * target: the number of columns that a tile spans. Packed as (columns / panel, inner, panel), with
 * the last panel padded, the operand is read from front to back. -1 with an error. */
BP_API int64_t bp_schedule_panel_columns(const BpTarget *target, BpDataType dtype, int64_t rows,
                                         int64_t inner, int64_t columns);

/* The stages of a convolution by Winograd's algorithm, which transforms tiles of the output.
 * `padded` and the output have the dimensions [n, block, y, x, channel]. In the plain layout a
 * block is a channel, the output has no last dimension, and the tiles of `input` and `product` lie
 * in one row. */
typedef struct BpTransformStages {
  int64_t tile[2];         /* outputs of a tile along y and x */
  BpTeTensor *padded;      /* the padded input, as far as the tiles reach */
  BpTeTensor *input_rows;  /* tiles, along x: [n, block, tile y, tile x, y, point, channel] */
  BpTeTensor *input;       /* along x, y: [n, point y, point x, block, tile y, tile x, channel] */
  BpTeTensor *product;     /* input reduced over [input block, input channel] */
  BpTeTensor *output_rows; /* back along y: [n, block, tile y, tile x, y, point x, channel] */
} BpTransformStages;

/* Schedules a convolution by Winograd's algorithm and the element-wise stages after it, of which
 * `output` is the last. Blocks of tiles pass one after the other through all stages while the
 * second-level cache holds them; where threads run in lock-step there are three kernels. */
BP_API int bp_schedule_transformed(BpTe *te, const BpTarget *target,
                                   const BpTransformStages *stages, BpTeTensor *output);

/* Schedules all tensors that the outputs are computed from: inlines cheap stages, finds the stages
 * that do most of the work, and applies the schedule that fits. The schedule is built around the
 * last output. A stage that was scheduled, inlined or placed before is not changed. */
BP_API int bp_schedule_auto(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                            const BpTarget *target);

#ifdef __cplusplus
}
#endif

#endif
