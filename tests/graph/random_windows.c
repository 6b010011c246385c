/* SPDX-License-Identifier: Apache-2.0 */
/* Generators for random graphs: convolutions and pooling. */
#include "tests/graph/random_make.h"

#include <string.h>

/* Windows over the two axes of a picture. */
typedef struct Windows {
  int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
} Windows;

static int64_t span(const Windows *windows, int32_t axis) {
  return (windows->kernel[axis] - 1) * windows->dilation[axis] + 1;
}

/* Windows that fit into pictures of that shape; mostly squares. */
static Windows any_windows(RandomGraph *g, const int64_t *shape, gboolean is_odd) {
  Windows windows;
  for (int32_t axis = 0; axis < 2; axis++) {
    int64_t kernel = is_odd ? between(g, 0, 2) * 2 + 1 : between(g, 1, 3);
    windows.kernel[axis] = MIN(kernel, shape[2 + axis]);
    windows.begin[axis] = between(g, 0, windows.kernel[axis] / 2);
    windows.end[axis] = below(g, 3) ? windows.begin[axis] : between(g, 0, windows.kernel[axis] / 2);
    windows.stride[axis] = below(g, 8) ? between(g, 1, 2) : 3;
    windows.dilation[axis] = below(g, 4) ? 1 : 2;
    if (axis == 1 && windows.kernel[0] <= shape[3] && below(g, 3)) {
      windows.kernel[1] = windows.kernel[0];
      windows.stride[1] = windows.stride[0];
      windows.dilation[1] = windows.dilation[0];
      windows.begin[1] = windows.begin[0];
      windows.end[1] = windows.end[0];
    }
    if (span(&windows, axis) > shape[2 + axis])
      windows.dilation[axis] = 1;
  }
  return windows;
}

static char *attrs_of(const Windows *w) {
  char *attrs =
      g_strdup_printf("kernel_shape=%d,%d strides=%d,%d pads=%d,%d,%d,%d", (int)w->kernel[0],
                      (int)w->kernel[1], (int)w->stride[0], (int)w->stride[1], (int)w->begin[0],
                      (int)w->begin[1], (int)w->end[0], (int)w->end[1]);
  if (w->dilation[0] == 1 && w->dilation[1] == 1)
    return attrs;
  return joined(attrs,
                g_strdup_printf("dilations=%d,%d", (int)w->dilation[0], (int)w->dilation[1]));
}

/* The number of windows along an axis. With `is_ceil` a last window may extend beyond the padding,
 * but not begin in the padding at the end. */
static int64_t num_windows(const Windows *w, int32_t axis, int64_t extent, gboolean is_ceil) {
  int64_t stride = w->stride[axis];
  int64_t rest = extent + w->begin[axis] + w->end[axis] - span(w, axis);
  int64_t count = (rest + (is_ceil ? stride - 1 : 0)) / stride + 1;
  return count - (is_ceil && (count - 1) * stride >= extent + w->begin[axis]);
}

/* Whether a word for the pads may replace them. Where windows leave elements out, onnxruntime pads
 * by less than 0; of dilated windows it computes other extents. */
static gboolean may_have_word(RandomGraph *g, const Windows *w) {
  for (int32_t axis = 0; axis < 2; axis++)
    if (!g->has_rare_types && (w->dilation[axis] > 1 || w->stride[axis] > w->kernel[axis]))
      return FALSE;
  return below(g, 4) == 0;
}

/* Replaces the pads by a value of auto_pad. */
static char *pad_by_word(RandomGraph *g, Windows *w, const int64_t *in, int64_t *shape) {
  char *word = choice(g, "SAME_UPPER|SAME_LOWER|VALID");
  for (int32_t axis = 0; axis < 2; axis++) {
    int64_t stride = w->stride[axis], extent = in[2 + axis];
    shape[2 + axis] = strcmp(word, "VALID") ? (extent + stride - 1) / stride
                                            : (extent - span(w, axis)) / stride + 1;
  }
  char *attrs = g_strdup_printf("auto_pad=%s kernel_shape=%d,%d strides=%d,%d dilations=%d,%d",
                                word, (int)w->kernel[0], (int)w->kernel[1], (int)w->stride[0],
                                (int)w->stride[1], (int)w->dilation[0], (int)w->dilation[1]);
  g_free(word);
  return attrs;
}

/* Multiplies the result of a convolution by constants, one for each channel or one for all, divides
 * it by them, adds or subtracts them, a few times: compilers fold them into the weights. */
static void scale_channels(RandomGraph *g, int32_t result) {
  static const char *const ops[] = {"Mul", "Add", "Div", "Sub"};
  const RandomValue in = *random_graph_value(g, result);
  for (int64_t count = below(g, 4); count > 0; count--) {
    int64_t shape[4] = {1, below(g, 3) ? in.shape[1] : 1, 1, 1}, op = below(g, 4);
    int32_t rank = (int32_t)between(g, 3, 4);
    int32_t constant = weights(g, in.type, shape + 4 - rank, rank);
    for (int64_t i = 0; i < shape[1]; i++)
      put(random_graph_value(g, constant)->data, in.type, i, (double)between(g, 4, 15) / 8);
    gboolean swaps = op < 2 && below(g, 2);
    result = apply(g, ops[op], g_strdup(""),
                   swaps ? (int32_t[]){constant, result} : (int32_t[]){result, constant}, 2,
                   in.type, in.shape, 4);
    rounded(g, result);
  }
}

/* Also FusedConv, which may add a value before an activation function. */
void make_conv(RandomGraph *g, const Row *row) {
  int32_t x = picture_without_specials(g, FLOATS);
  const RandomValue in = *random_graph_value(g, x);
  Windows windows = any_windows(g, in.shape, TRUE);
  int64_t group = below(g, 4) ? 1 : in.shape[1];
  int64_t channels = group > 1 ? group * between(g, 1, 2) : between(g, 1, 20);
  int64_t shape[4] = {in.shape[0], channels, num_windows(&windows, 0, in.shape[2], FALSE),
                      num_windows(&windows, 1, in.shape[3], FALSE)};
  char *attrs = below(g, 6) ? attrs_of(&windows) : pad_by_word(g, &windows, in.shape, shape);
  int32_t w =
      weights(g, in.type,
              (int64_t[]){channels, in.shape[1] / group, windows.kernel[0], windows.kernel[1]}, 4);
  int32_t b = below(g, 2) ? weights(g, in.type, &channels, 1) : -1;
  gboolean is_fused = g_str_has_suffix(row->op, "FusedConv");
  int32_t more = is_fused && below(g, 2) ? given(g, in.type, shape, 4, FALSE) : -1;
  attrs = joined(attrs, g_strdup_printf("group=%d", (int)group));
  int32_t result =
      apply(g, row->op, joined(attrs, choice(g, row->attrs)), (int32_t[]){x, w, b, more},
            more >= 0 ? 4
            : b >= 0  ? 3
                      : 2,
            in.type, shape, 4);
  rounded(g, result); /* Winograd's algorithm rounds */
  scale_channels(g, result);
}

/* Chooses the pads, by an auto_pad or by numbers with which the output is not empty. */
static char *transposed_pads(RandomGraph *g, const Windows *w, const int64_t *in, int64_t *shape) {
  gboolean is_covered = TRUE;
  int64_t begin[2], end[2], more[2];
  for (int32_t axis = 0; axis < 2; axis++) {
    int64_t whole = (in[2 + axis] - 1) * w->stride[axis] + span(w, axis);
    is_covered &= span(w, axis) >= w->stride[axis];
    more[axis] = below(g, w->stride[axis]);
    begin[axis] = between(g, 0, MIN(w->kernel[axis] / 2, whole - 1));
    end[axis] = between(g, 0, MIN(w->kernel[axis] / 2, whole - 1 - begin[axis]));
    shape[2 + axis] = whole + more[axis] - begin[axis] - end[axis];
  }
  if (is_covered && below(g, 4) == 0) { /* output_shape determines the pads */
    int64_t least[2] = {MAX(1, in[2] * w->stride[0] - 1), MAX(1, in[3] * w->stride[1] - 1)};
    shape[2] = least[0];
    shape[3] = least[1];
    return g_strdup_printf("output_shape=%d,%d auto_pad=%s", (int)least[0], (int)least[1],
                           below(g, 2) ? "SAME_UPPER" : "NOTSET");
  }
  if (!is_covered || below(g, 2))
    return g_strdup_printf("pads=%d,%d,%d,%d output_padding=%d,%d", (int)begin[0], (int)begin[1],
                           (int)end[0], (int)end[1], (int)more[0], (int)more[1]);
  for (int32_t axis = 0; axis < 2; axis++)
    shape[2 + axis] = in[2 + axis] * w->stride[axis];
  return choice(g, "auto_pad=SAME_UPPER|auto_pad=SAME_LOWER");
}

void make_conv_transpose(RandomGraph *g, const Row *row) {
  int32_t x = picture_without_specials(g, 1 << g->real);
  const RandomValue in = *random_graph_value(g, x);
  int64_t channels = between(g, 1, 9), groups = 1;
  Windows windows = {
      {between(g, 1, 4), 0}, {between(g, 1, 2), 0}, {below(g, 6) ? 1 : 2, 0}, {0}, {0}};
  windows.kernel[1] = below(g, 3) ? windows.kernel[0] : between(g, 1, 4);
  windows.stride[1] = below(g, 3) ? windows.stride[0] : between(g, 1, 3);
  windows.dilation[1] = windows.dilation[0];
  if (below(g, 2))
    for (groups = between(g, 2, 5); in.shape[1] % groups != 0; groups--)
      continue;
  int64_t all = groups * channels, shape[4] = {in.shape[0], all};
  char *pads = transposed_pads(g, &windows, in.shape, shape);
  int32_t w = weights(g, in.type,
                      (int64_t[]){in.shape[1], channels, windows.kernel[0], windows.kernel[1]}, 4);
  int32_t b = below(g, 2) ? weights(g, in.type, &all, 1) : -1;
  int32_t result =
      apply(g, row->op,
            g_strdup_printf("%s kernel_shape=%d,%d strides=%d,%d dilations=%d,%d group=%d", pads,
                            (int)windows.kernel[0], (int)windows.kernel[1], (int)windows.stride[0],
                            (int)windows.stride[1], (int)windows.dilation[0],
                            (int)windows.dilation[1], (int)groups),
            (int32_t[]){x, w, b}, b >= 0 ? 3 : 2, in.type, shape, 4);
  g_free(pads);
  rounded(g, result); /* Winograd's algorithm rounds */
  scale_channels(g, result);
}

void make_pool(RandomGraph *g, const Row *row) {
  static const int8_t bytes[] = {UINT8, INT8};
  gboolean has_bytes = row->op[0] == 'M' && g->has_rare_types && below(g, 3) == 0;
  if (has_bytes)
    g->real = bytes[below(g, 2)];
  int32_t x = has_bytes ? new_picture(g, 1 << g->real) : picture(g, FLOATS);
  const RandomValue in = *random_graph_value(g, x);
  Windows windows = any_windows(g, in.shape, FALSE);
  gboolean is_ceil = below(g, 3) == 0;
  int64_t shape[4] = {in.shape[0], in.shape[1], num_windows(&windows, 0, in.shape[2], is_ceil),
                      num_windows(&windows, 1, in.shape[3], is_ceil)};
  char *attrs = !is_ceil && may_have_word(g, &windows) ? pad_by_word(g, &windows, in.shape, shape)
                                                       : attrs_of(&windows);
  char *more = choice(g, row->attrs);
  gboolean has_places = !strcmp(row->op, "MaxPool") && in.error == 0 && below(g, 2);
  int32_t result = apply(g, row->op, g_strdup_printf("%s ceil_mode=%d%s", attrs, is_ceil, more), &x,
                         1, in.type, shape, 4);
  g_free(attrs);
  g_free(more);
  finish(g, row, result);
  if (has_places)
    random_graph_value(g, add_result(g, INT64, shape, 4))->magnitude = 12;
}

char *any_window_attrs(RandomGraph *g, const int64_t *in, gboolean is_ceil, int64_t *out,
                       int64_t *kernel) {
  Windows windows = any_windows(g, in, FALSE);
  memcpy(kernel, windows.kernel, sizeof(windows.kernel));
  for (int32_t axis = 0; axis < 2; axis++)
    out[2 + axis] = num_windows(&windows, axis, in[2 + axis], is_ceil);
  return !is_ceil && may_have_word(g, &windows) ? pad_by_word(g, &windows, in, out)
                                                : attrs_of(&windows);
}

void make_global_pool(RandomGraph *g, const Row *row) {
  int32_t x = picture(g, FLOATS);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[4] = {in.shape[0], in.shape[1], 1, 1};
  finish(g, row, apply(g, row->op, choice(g, row->attrs), &x, 1, in.type, shape, 4));
}

void make_picture(RandomGraph *g, const Row *row) {
  int32_t x = picture(g, row->types);
  const RandomValue in = *random_graph_value(g, x);
  finish(g, row, apply(g, row->op, choice(g, row->attrs), &x, 1, in.type, in.shape, 4));
}
