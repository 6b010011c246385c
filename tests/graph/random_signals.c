/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of spectra for random graphs: windows, mel bands and Fourier transforms. */
#include "tests/graph/random_make.h"

#include <string.h>

/* The type of a result that an attribute names. */
static int32_t result_type(RandomGraph *g) {
  static const int8_t types[] = {FLOAT, DOUBLE, FLOAT16, BFLOAT16};
  return g->has_rare_types ? types[below(g, G_N_ELEMENTS(types))] : FLOAT;
}

static char *with_type(RandomGraph *g, const Row *row, int32_t type) {
  char *own = type == FLOAT ? g_strdup("") : g_strdup_printf("output_datatype=%d", (int)type);
  return joined(choice(g, row->attrs), own);
}

void make_window(RandomGraph *g, const Row *row) {
  int64_t count = 1 + extent(g);
  int32_t size = number(g, g->whole, (double)count), type = result_type(g);
  rounded(g, apply(g, row->op, with_type(g, row, type), &size, 1, type, &count, 1));
}

void make_mel(RandomGraph *g, const Row *row) {
  int64_t length = between(g, 8, 64), shape[2] = {length / 2 + 1, between(g, 1, 9)};
  int32_t reads[5] = {number(g, g->whole, (double)shape[1]), number(g, g->whole, (double)length),
                      number(g, g->whole, 8000),
                      number(g, type_of(g, FLOAT, FLOATS), (double)(8 * between(g, 0, 30))),
                      number(g, type_of(g, FLOAT, FLOATS), (double)(128 * between(g, 7, 31)))};
  int32_t type = result_type(g);
  rounded(g, apply(g, row->op, with_type(g, row, type), reads, 5, type, shape, 2));
}

/* Lengths whose transform is one product, and lengths with several. */
static int64_t signal_length(RandomGraph *g) {
  static const int16_t lengths[] = {1, 2, 3, 7, 16, 31, 64, 66, 71, 80, 96, 128, 142, 210};
  return lengths[below(g, G_N_ELEMENTS(lengths))];
}

/* A real signal has a onesided spectrum, from which the inverse gives a real signal. */
void make_dft(RandomGraph *g, const Row *row) {
  gboolean is_inverse = below(g, 2) == 1, is_half = below(g, 2) == 1, has_length = below(g, 4) > 0;
  int64_t length = signal_length(g);
  if (!has_length && is_half && is_inverse)
    length += length % 2; /* the usual length of the inverse of a onesided spectrum */
  int64_t near = length + (has_length ? between(g, -2, 2) : 0), used = MAX(1, near);
  int64_t parts = is_half ? 1 + is_inverse : between(g, 1, 2), axis = between(g, 0, 1);
  int64_t in[3] = {between(g, 1, 3), between(g, 1, 3), parts}, out[3];
  memcpy(out, in, sizeof(out));
  in[axis] = is_half && is_inverse ? used / 2 + 1 : used;
  out[axis] = is_half && !is_inverse ? length / 2 + 1 : length;
  out[2] = is_half && is_inverse ? 1 : 2;
  int32_t reads[3] = {given(g, g->real, in, 3, FALSE),
                      has_length ? number(g, g->whole, (double)length) : -1,
                      number(g, g->whole, (double)axis)};
  rounded(g, apply(g, row->op, g_strdup_printf("inverse=%d onesided=%d", is_inverse, is_half),
                   reads, 3, g->real, out, 3));
}

void make_stft(RandomGraph *g, const Row *row) {
  int64_t length = signal_length(g), step = between(g, 1, length), count = between(g, 1, 4);
  gboolean is_half = below(g, 2) == 1;
  int64_t in[3] = {between(g, 1, 2), length + (count - 1) * step + below(g, step), 1};
  int64_t out[4] = {in[0], count, is_half ? length / 2 + 1 : length, 2};
  in[2] = is_half ? 1 : between(g, 1, 2);
  int32_t reads[4] = {given(g, g->real, in, 3, FALSE), number(g, g->whole, (double)step),
                      below(g, 2) ? weights(g, g->real, &length, 1) : -1,
                      number(g, g->whole, (double)length)};
  rounded(g, apply(g, row->op, g_strdup_printf("onesided=%d", is_half), reads, 4, g->real, out, 4));
}
