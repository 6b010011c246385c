/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for common computations, chosen by the target's attributes, never by its name; each is
 * a function over the primitives of te.h and nothing more.
 *
 * Those of BpFusedStages take a computation as graph operators state it: the stage that does the
 * work and the last of the element-wise stages that follow it (the same stage if none does), with
 * what lies between them inlined already. Layouts are those of docs/lowering.md. All return 0, or
 * -1 with an error.
 */
#ifndef BACKPLANE_COMPILER_SCHEDULES_H
#define BACKPLANE_COMPILER_SCHEDULES_H

#include <backplane/api.h>
#include <backplane/compiler/te.h>
#include <backplane/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stages of one fused computation. */
typedef struct BpFusedStages {
  BpTeTensor *padded; /* a padded copy of the input, or NULL */
  BpTeTensor *work;   /* the reduction */
  BpTeTensor *output; /* what is stored in the end; may be `work` */
} BpFusedStages;

/* A sum of products (a matrix product, plain or with a packed operand, a batch of them): a tile of
 * accumulators in registers, the reduction in blocks that the caches hold. */
BP_API int bp_schedule_matmul(BpTe *te, const BpTarget *target, const BpFusedStages *stages);

/* How many columns of the second operand (inner, columns) of a product with `rows` rows of float32
 * a tile spans on this target: packed as (columns / panel, inner, panel), its last panel padded, it
 * is read from front to back. -1 with an error. */
BP_API int64_t bp_schedule_panel_columns(const BpTarget *target, int64_t rows, int64_t inner,
                                         int64_t columns);

/* The stages of a convolution by transforms (Winograd's algorithm) of square tiles of its output;
 * dimensions of `padded` and the output: [n, block, y, x, channel]. */
typedef struct BpTransformStages {
  int64_t tile[2];         /* outputs of a tile along y and x */
  BpTeTensor *padded;      /* the input as far as the tiles reach */
  BpTeTensor *input_rows;  /* transformed along x: [n, block, tile y, tile x, y, point, channel] */
  BpTeTensor *input;       /* along both: [n, point y, point x, block, tile y, tile x, channel] */
  BpTeTensor *product;     /* the same, reduced over [input block, input channel] */
  BpTeTensor *output_rows; /* back along y: [n, block, tile y, tile x, y, point x, channel] */
} BpTransformStages;

/* Such a convolution and the element-wise stages after it, of which `output` is the last: blocks of
 * tiles one after the other, each through all stages while the second cache holds it. */
BP_API int bp_schedule_transformed(BpTe *te, const BpTarget *target,
                                   const BpTransformStages *stages, BpTeTensor *output);

/* Element-wise and injective computations: loops fused as far as the accesses stay contiguous,
 * vectorised, and run by all cores if there is enough to do. */
BP_API int bp_schedule_elementwise(BpTe *te, BpTeTensor *tensor, const BpTarget *target);

/* Reductions over rows and what is computed from them row by row (sums, means, softmax, layer
 * normalisation): partial results in vector lanes, all stages of a row together. */
BP_API int bp_schedule_reduction(BpTe *te, BpTeTensor *output, const BpTarget *target);

/* Schedules everything that `output` is computed from, whatever it is: inlines what is cheap, finds
 * out what does the work and uses what fits. A stage that was scheduled, inlined or placed before
 * is left as it is. */
BP_API int bp_schedule_auto(BpTe *te, BpTeTensor *output, const BpTarget *target);

#ifdef __cplusplus
}
#endif

#endif
