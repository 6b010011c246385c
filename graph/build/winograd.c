/* SPDX-License-Identifier: Apache-2.0 */
/* Decides, by a count of cycles, which convolutions Winograd's algorithm replaces, and transforms
 * the weights when compiling. */
#include "graph/build/winograd.h"

#include <math.h>

#include <backplane/compiler/te.h>

#include "graph/ops/winograd.h"

/* Assumed rates of a core in a cycle: multiply-adds of vectors, bytes from the second-level cache,
 * and bytes from memory. */
#define PRODUCTS_PER_CYCLE 2.0
#define NEAR_BYTES         32.0
#define FAR_BYTES          8.0
/* The cycles for transforming a vector of one point, into the tile or out of it, beyond the
 * products. */
#define TRANSFORM_CYCLES 2.5
/* The cycles for transforming a vector of one point with threads in lock-step, whose transforms go
 * through memory. */
#define THREAD_TRANSFORM_CYCLES 8.0
/* The size in bytes of a tensor that a kernel of every device accepts. */
#define LEAST_MAX_BUFFER (1 << 27)
/* The least speed-up that justifies the larger weights and the larger rounding error. */
#define LEAST_GAIN 1.15

static double weight_cycles(const BpWinogradSite *site, double points) {
  double bytes = 4 * points * (double)(site->in_blocks * site->in_block) *
                 (double)(site->out_blocks * site->out_block);
  double near = (double)bp_target_get_int(site->target, BP_TARGET_L2_BYTES, 1 << 20) / 2;
  return bytes / (bytes <= near ? NEAR_BYTES : FAR_BYTES);
}

/* The number of vectors for all channels of the output. */
static double out_vectors(const BpWinogradSite *site) {
  return (double)(site->threads > 1 ? site->out_blocks * site->out_block : site->out_blocks);
}

/* The cycles of products for `places` times `points` positions in all input and output channels. */
static double product_cycles(const BpWinogradSite *site, double places, double points) {
  double vectors = (double)(site->in_blocks * site->in_block) * out_vectors(site);
  return places / (double)site->threads * points * vectors / PRODUCTS_PER_CYCLE +
         weight_cycles(site, points);
}

/* The number of tile rows that are transformed at a time: all, or those of a slice of the image if
 * a tensor between two kernels would be too large; 0: too few. */
static int64_t tile_rows_at_once(const BpWinogradSite *site, const int64_t *tiles, double points) {
  double most =
      (double)bp_target_get_int(site->target, BP_TARGET_MAX_BUFFER_BYTES, LEAST_MAX_BUFFER);
  double channels = fmax((double)site->in_blocks, out_vectors(site));
  double fit = most / (4 * (double)site->images * points * channels) - 2 * BP_WINOGRAD_MULTIPLE;
  if (site->threads == 1 || fit >= (double)(tiles[0] * tiles[1]))
    return tiles[0];
  int64_t rows = (int64_t)(fit / (double)tiles[1]);
  if (rows < 1 || (tiles[0] + rows - 1) / rows > BP_WINOGRAD_MOST_SLICES)
    return 0;
  int64_t slices = (tiles[0] + rows - 1) / rows;
  return (tiles[0] + slices - 1) / slices;
}

/* The cycles for each image; HUGE_VAL if the transform is impossible. Sets the number of output
 * rows that are computed at once. */
static double winograd_cycles(const BpWinogradSite *site, BpWinogradPlan *plan) {
  const int64_t *tile = plan->tile;
  double points = 1;
  int64_t grid[2];
  for (int32_t i = 0; i < 2; i++) {
    points *= (double)(tile[i] + site->window->kernel[i] - 1);
    grid[i] = (site->out[i] + tile[i] - 1) / tile[i];
  }
  plan->rows = tile_rows_at_once(site, grid, points) * tile[0];
  if (plan->rows == 0)
    return HUGE_VAL;
  double tiles = (double)grid[0] * (double)grid[1];
  double vectors = tiles / (double)site->threads * ((double)site->in_blocks + out_vectors(site));
  double cycles = site->threads > 1 ? THREAD_TRANSFORM_CYCLES : TRANSFORM_CYCLES;
  return product_cycles(site, tiles, points) + vectors * points * cycles;
}

static int is_plain_window(const BpOpWindow *window) {
  int64_t taps = 1;
  for (int32_t i = 0; i < 2; i++) {
    taps *= window->kernel[i];
    if (window->strides[i] != 1 || window->dilations[i] != 1)
      return 0;
  }
  return taps > 1;
}

/* Whether the points form pairs p, -p; an odd number of points leaves one over. */
static int is_even(int64_t points) {
  return points == 1 || points % 2 == 0;
}

int bp__winograd_pays(const BpWinogradSite *site, BpWinogradPlan *plan) {
  const int64_t *kernel = site->window->kernel, *out = site->out;
  double taps = (double)(kernel[0] * kernel[1]), best;
  if (!bp_target_get_int(site->target, BP_TARGET_WINOGRAD, 0) || !is_plain_window(site->window))
    return 0;
  best = product_cycles(site, (double)(out[0] * out[1]), taps) / LEAST_GAIN;
  *plan = (BpWinogradPlan){.rows = 0};
  for (int64_t y = 1; y + kernel[0] - 1 <= BP_WINOGRAD_MAX_POINTS; y++)
    for (int64_t x = 1; x + kernel[1] - 1 <= BP_WINOGRAD_MAX_POINTS; x++) {
      BpWinogradPlan candidate = {.tile = {y, x}};
      double cycles = winograd_cycles(site, &candidate);
      if (!is_even(y + kernel[0] - 1) || !is_even(x + kernel[1] - 1) || cycles >= best)
        continue;
      best = cycles;
      *plan = candidate;
    }
  return plan->rows > 0;
}

/* Computes G filter G' for one pair of channels; `step` is the distance between the points of the
 * result. */
static void transform_filter(const BpWinograd *height, const BpWinograd *width,
                             const BpGraphValue *from, int64_t first, BpGraphValue *to, int64_t at,
                             int64_t step) {
  double taps[BP_WINOGRAD_MAX_POINTS * BP_WINOGRAD_MAX_POINTS];
  for (int32_t i = 0; i < height->taps * width->taps; i++)
    taps[i] = bp__value_get_float(from, first + i);
  for (int32_t py = 0; py < height->points; py++)
    for (int32_t px = 0; px < width->points; px++) {
      double sum = 0;
      for (int32_t y = 0; y < height->taps; y++)
        for (int32_t x = 0; x < width->taps; x++)
          sum += height->filter[py][y] * width->filter[px][x] * taps[y * width->taps + x];
      bp__value_put_float(to, at + (py * width->points + px) * step, sum);
    }
}

BpGraphValue *bp__winograd_weights(BpGraph *graph, const BpGraphValue *from, const int64_t *tile,
                                   const BpWinogradSite *site) {
  const int64_t *s = from->shape, a = site->in_block, b = site->out_block;
  BpWinograd height, width;
  bp__winograd_init(&height, (int32_t)tile[0], (int32_t)s[2]);
  bp__winograd_init(&width, (int32_t)tile[1], (int32_t)s[3]);
  int64_t shape[6] = {height.points, width.points, site->out_blocks, site->in_blocks, a, b};
  /* Transformed weights need more digits than the result. */
  BpGraphValue *to =
      bp__graph_constant(graph, from->name, bp_te_accumulator(from->dtype), shape, 6, NULL);
  int64_t step = site->out_blocks * site->in_blocks * a * b;
  for (int64_t o = 0; to && o < s[0]; o++)
    for (int64_t i = 0; i < s[1]; i++) {
      int64_t at = (((o / b) * site->in_blocks + i / a) * a + i % a) * b + o % b;
      transform_filter(&height, &width, from, (o * s[1] + i) * s[2] * s[3], to, at, step);
    }
  return to;
}
