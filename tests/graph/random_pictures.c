/* SPDX-License-Identifier: Apache-2.0 */
/* Generators for random graphs: operators on parts of pictures, and two operators on matrices, Det
 * and LinearAttention. */
#include "tests/graph/random_make.h"

#include <string.h>

/* The last two axes alone, in any order, with one factor for both, which one of the two sizes
 * determines. onnxruntime leaves the axis -1 as it is. */
static void make_resize_by_policy(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, 1 << g->real, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t factor = between(g, 1, 2), more = between(g, 0, 3), sizes[2];
  int64_t shape[4] = {in.shape[0], in.shape[1], in.shape[2] * factor, in.shape[3] * factor};
  gboolean is_turned = below(g, 2) == 1, is_larger = below(g, 2) == 1;
  int64_t given_sizes[2] = {shape[2], MAX(1, shape[3] + (is_larger ? more : -more))};
  for (int32_t i = 0; i < 2; i++)
    sizes[i] = given_sizes[is_turned ? 1 - i : i];
  char *attrs = g_strdup_printf("axes=%s keep_aspect_ratio_policy=%s",
                                is_turned           ? "3,2"
                                : g->has_rare_types ? "2,-1"
                                                    : "2,3",
                                is_larger ? "not_larger" : "not_smaller");
  int32_t reads[4] = {x, -1, -1, int_list(g, sizes, 2)};
  rounded(g, apply(g, row->op, joined(choice(g, row->attrs), attrs), reads, 4, g->real, shape, 4));
}

/* A part of the picture, with places outside of it. No place is at an edge, where a rounding could
 * decide. */
static void make_crop(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, 1 << g->real, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[4] = {in.shape[0], in.shape[1], between(g, 1, 9), between(g, 1, 9)}, count = 8;
  static const float parts[] = {0, 0, -0.31f, 0.17f, 1, 1, 0.83f, 1.07f};
  int32_t type = type_of(g, FLOAT, 1 << FLOAT | 1 << DOUBLE | 1 << FLOAT16);
  int32_t reads[4] = {x, weights(g, type, &count, 1), -1, int_list(g, shape, 4)};
  for (int32_t i = 0; i < count; i++)
    put(random_graph_value(g, reads[1])->data, type, i, parts[i]);
  rounded(g, apply(g, row->op,
                   g_strdup("mode=linear coordinate_transformation_mode=tf_crop_and_resize "
                            "extrapolation_value=0.75f"),
                   reads, 4, g->real, shape, 4));
}

void make_resize(RandomGraph *g, const Row *row) {
  if (row->op[0] == 'R' && below(g, 6) == 0) {
    (below(g, 2) ? make_crop : make_resize_by_policy)(g, row);
    return;
  }
  char *mode = choice(g, row->attrs);
  gboolean is_nearest = strstr(mode, "nearest") != NULL;
  gboolean is_exact = is_nearest || !strcmp(mode, "mode=linear") || !strcmp(mode, "mode=cubic");
  gboolean is_whole = g->has_rare_types && is_exact && row->op[0] == 'R' && below(g, 2);
  int32_t whole = is_nearest ? INTEGERS : INTEGERS & ~(1 << INT64 | 1 << UINT64);
  int32_t x = pick_some(g, is_whole ? whole : 1 << g->real, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[4] = {in.shape[0], in.shape[1], in.shape[2] * 2, in.shape[3] * 2};
  gboolean is_sum = is_whole && !is_nearest; /* with weights that are multiples of 1/256 */
  gboolean is_upsample = row->op[0] == 'U', has_sizes = !is_upsample && !is_sum && below(g, 2);
  char *places = choice(g, is_sum      ? "half_pixel|asymmetric|pytorch_half_pixel"
                           : has_sizes ? "half_pixel|asymmetric|align_corners|pytorch_half_pixel|"
                                         "half_pixel_symmetric"
                                       : "half_pixel|asymmetric|align_corners|pytorch_half_pixel|"
                                         "half_pixel_symmetric|tf_half_pixel_for_nn");
  char *attrs = is_upsample || below(g, 3) == 0
                    ? g_strdup(mode)
                    : g_strdup_printf("%s coordinate_transformation_mode=%s", mode, places);
  int32_t scales = weights(g, FLOAT, (int64_t[]){4}, 1);
  memcpy(random_graph_value(g, scales)->data, (float[]){1, 1, 2, 2}, 4 * sizeof(float));
  for (int32_t i = 2; i < 4 && has_sizes; i++) /* antialiasing takes scales down to 1/16 */
    shape[i] = below(g, 12) + (strstr(mode, "antialias") ? (in.shape[i] + 9) / 10 : 1);
  int32_t reads[4] = {x, is_upsample ? scales : -1, has_sizes ? -1 : scales,
                      has_sizes ? int_list(g, shape, 4) : -1};
  gboolean is_old = is_upsample && below(g, 3) == 0; /* form of operator set 7 */
  if (is_old)
    attrs = joined(attrs, g_strdup("scales=1.0,1.0,2.0,2.0"));
  rounded(g, apply(g, row->op, attrs, reads,
                   is_old        ? 1
                   : is_upsample ? 2
                   : has_sizes   ? 4
                                 : 3,
                   in.type, shape, 4));
  g_free(mode);
  g_free(places);
}

/* Blocks that overlap, leave gaps or extend into the padding. */
void make_col2im(RandomGraph *g, const Row *row) {
  int64_t image[2], block[2], step[2], pad = between(g, 0, 1), columns = 1, size = 1;
  int64_t batch = between(g, 1, 2), channels = between(g, 1, 5);
  int32_t type = below(g, 3) ? g->real : type_of(g, INT32, INTEGERS);
  for (int32_t i = 0; i < 2; i++) {
    block[i] = between(g, 1, 3);
    step[i] = between(g, 1, 3);
    image[i] = between(g, 5, 9);
    columns *= (image[i] + 2 * pad - 2 * (block[i] - 1) - 1) / step[i] + 1;
    size *= block[i];
  }
  int64_t in[3] = {batch, channels * size, columns};
  int64_t out[4] = {batch, channels, image[0], image[1]};
  int32_t reads[3] = {given(g, type, in, 3, FALSE), int_list(g, image, 2), int_list(g, block, 2)};
  int32_t result =
      apply(g, row->op,
            g_strdup_printf("dilations=2,2 strides=%d,%d pads=%d,%d,%d,%d", (int)step[0],
                            (int)step[1], (int)pad, (int)pad, (int)pad, (int)pad),
            reads, 3, type, out, 4);
  const RandomValue *first = random_graph_value(g, reads[0]);
  bits(g, result, first->fraction, first->magnitude + 4);
}

void make_deform_conv(RandomGraph *g, const Row *row) {
  int64_t batch = between(g, 1, 2), groups = between(g, 1, 2), parts = between(g, 1, 2);
  int64_t channels = groups * parts * between(g, 1, 3), outputs = groups * between(g, 1, 9);
  int64_t kernel[2] = {between(g, 1, 3), between(g, 1, 3)}, pad = between(g, 0, 2);
  int64_t stride = between(g, 1, 2), dilation = below(g, 3) ? 1 : 2;
  int64_t in[4] = {batch, channels, between(g, 5, 8), between(g, 5, 8)}, out[4] = {batch, outputs};
  for (int32_t i = 0; i < 2; i++)
    out[2 + i] = (in[2 + i] + 2 * pad - dilation * (kernel[i] - 1) - 1) / stride + 1;
  int64_t rows[4] = {outputs, channels / groups, kernel[0], kernel[1]};
  int64_t places[4] = {batch, parts * kernel[0] * kernel[1], out[2], out[3]};
  int64_t offsets[4] = {batch, 2 * places[1], out[2], out[3]};
  int32_t reads[5] = {given(g, g->real, in, 4, FALSE), weights(g, g->real, rows, 4),
                      given(g, g->real, offsets, 4, FALSE),
                      below(g, 2) ? weights(g, g->real, &outputs, 1) : -1,
                      below(g, 2) ? given(g, g->real, places, 4, FALSE) : -1};
  char *attrs =
      g_strdup_printf("pads=%d,%d,%d,%d strides=%d,%d dilations=%d,%d group=%d offset_group=%d",
                      (int)pad, (int)pad, (int)pad, (int)pad, (int)stride, (int)stride,
                      (int)dilation, (int)dilation, (int)groups, (int)parts);
  if (below(g, 2))
    attrs = joined(attrs, g_strdup_printf("kernel_shape=%d,%d", (int)kernel[0], (int)kernel[1]));
  rounded(g, apply(g, row->op, attrs, reads, 5, g->real, out, 4));
}

/* Regions that extend beyond the picture, and some that end before they begin. The sizes keep
 * positions away from edges, where rounding would decide. */
void make_roi(RandomGraph *g, const Row *row) {
  gboolean is_align = row->op[0] == 'R';
  int32_t x = pick_some(g, 1 << g->real, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t count = between(g, 1, 4), first = is_align ? 0 : 1;
  int64_t shape[2] = {count, 4 + first};
  int64_t out[4] = {count, in.shape[1], 1 << below(g, 3), 1 << below(g, 3)};
  int32_t reads[3] = {x, weights(g, g->real, shape, 2), -1};
  void *numbers = random_graph_value(g, reads[1])->data;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i * shape[1];
    put(numbers, g->real, at, (double)below(g, in.shape[0]));
    for (int32_t k = 0; k < 2; k++) {
      int64_t extent = in.shape[3 - k], from = between(g, -8, 4 * extent);
      put(numbers, g->real, at + first + k, (double)from / 4);
      put(numbers, g->real, at + first + 2 + k,
          (double)(from + between(g, -4, 4 * extent + 8)) / 4);
    }
  }
  char *attrs = choice(g, row->attrs);
  if (is_align)
    reads[2] = indices(g, &count, 1, in.shape[0]);
  char *sizes = is_align
                    ? g_strdup_printf("output_height=%d output_width=%d", (int)out[2], (int)out[3])
                    : g_strdup_printf("pooled_shape=%d,%d", (int)out[2], (int)out[3]);
  char *more = joined(g_strdup("spatial_scale=0.5f"), attrs);
  int32_t result = apply(g, row->op, joined(sizes, more), reads, is_align ? 3 : 2, g->real, out, 4);
  if (is_align)
    rounded(g, result);
}

void make_det(RandomGraph *g, const Row *row) {
  int64_t size = between(g, 1, 5), shape[4] = {between(g, 1, 3), extent(g), size, size};
  int32_t rank = (int32_t)between(g, 2, 4), first = 4 - rank;
  int32_t x = given(g, g->real, shape + first, rank, FALSE);
  int32_t result = apply(g, row->op, g_strdup(""), &x, 1, g->real, shape + first, rank - 2);
  rounded(g, result);
  random_graph_value(g, result)->scale = 8;
}

/* A few tokens of small heads, with each of the update rules. */
void make_linear_attention(RandomGraph *g, const Row *row) {
  int64_t batch = between(g, 1, 2), tokens = between(g, 1, 3), heads = between(g, 1, 2);
  int64_t queries = heads * between(g, 1, 2), keys = between(g, 1, 3), values = between(g, 1, 9);
  int32_t rule = (int32_t)below(g, 4);
  static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
  int64_t q[3] = {batch, tokens, queries * keys}, k[3] = {batch, tokens, heads * keys};
  int64_t v[3] = {batch, tokens, heads * values}, out[3] = {batch, tokens, queries * values};
  int64_t state[4] = {batch, heads, keys, values};
  int64_t decay[3] = {batch, tokens, below(g, 2) ? heads : heads * keys};
  int64_t beta[3] = {batch, tokens, below(g, 2) ? heads : 1};
  int32_t reads[6] = {given(g, g->real, q, 3, FALSE),
                      given(g, g->real, k, 3, FALSE),
                      given(g, g->real, v, 3, FALSE),
                      below(g, 2) ? given(g, g->real, state, 4, FALSE) : -1,
                      rule & 1 ? given(g, g->real, decay, 3, FALSE) : -1,
                      rule & 2 ? given(g, g->real, beta, 3, FALSE) : -1};
  char *attrs = g_strdup_printf("q_num_heads=%d kv_num_heads=%d update_rule=%s", (int)queries,
                                (int)heads, rules[rule]);
  attrs = joined(attrs, choice(g, row->attrs));
  int32_t result = apply(g, row->op, attrs, reads, 6, g->real, out, 3);
  int32_t results[] = {result, add_result(g, g->real, state, 4)};
  for (int32_t i = 0; i < 2; i++) {
    rounded(g, results[i]);
    random_graph_value(g, results[i])->scale = 64; /* size of the terms that cancel */
  }
}
