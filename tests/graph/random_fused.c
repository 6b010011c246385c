/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of operators of com.microsoft for random graphs: operators that optimisers write for a
 * chain of nodes, and quantised operators. */
#include "tests/graph/random_make.h"

#include <string.h>

/* ---- Activations and norms --------------------------------------------------------------- */

/* A function of x + bias; the bias may be absent if the operator has it as an option. */
void make_biased(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, 1 << g->real, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  gboolean has_bias = row->op[strlen("com.microsoft.")] == 'B' || below(g, 2);
  int32_t reads[2] = {x, has_bias ? weights(g, in.type, &in.shape[in.rank - 1], 1) : -1};
  rounded(g, apply(g, row->op, choice(g, row->attrs), reads, has_bias ? 2 : 1, in.type, in.shape,
                   in.rank));
}

static char *any_epsilon(RandomGraph *g) {
  return choice(g, "epsilon=0.00001f|epsilon=0.125f");
}

/* The normalised sum of x, of a part that broadcasts to x and of a bias; the last output is the
 * sum. */
void make_skip_norm(RandomGraph *g, const Row *row) {
  gboolean has_beta = !strstr(row->op, "Simplified"), is_whole = below(g, 2) == 1;
  int32_t x = pick_some(g, 1 << g->real, 3, 3), last = has_beta ? 4 : 3;
  const RandomValue in = *random_graph_value(g, x);
  int64_t part[3] = {1, in.shape[1], in.shape[2]};
  int32_t reads[5] = {x, given(g, g->real, is_whole ? in.shape : part, 3, FALSE),
                      positive(g, g->real, in.shape[2]), -1, -1};
  if (has_beta && below(g, 2))
    reads[3] = weights(g, g->real, &in.shape[2], 1);
  if (below(g, 2))
    reads[last] = weights(g, g->real, &in.shape[2], 1);
  int32_t result = apply(g, row->op, any_epsilon(g), reads, last + 1, g->real, in.shape, 3);
  int32_t results[2] = {result, -1};
  if (below(g, 2)) {
    add_absent(g);
    add_absent(g);
    results[1] = add_result(g, g->real, in.shape, 3);
  }
  for (int32_t i = 0; i < 2; i++)
    if (results[i] >= 0) {
      rounded(g, results[i]);
      random_graph_value(g, results[i])->scale = 4; /* size of terms that cancel */
    }
}

static int32_t places(RandomGraph *g, const int64_t *shape, int64_t end) {
  int32_t list = weights(g, INT32, shape, 2);
  RandomValue *value = random_graph_value(g, list);
  for (int64_t i = 0; i < random_value_count(value); i++)
    put(value->data, INT32, i, (double)below(g, end));
  return list;
}

/* Sums of rows of two or three tables. */
void make_embedding(RandomGraph *g, const Row *row) {
  int64_t shape[3] = {between(g, 1, 2), between(g, 1, 5), extent_of_some(g)};
  int64_t words[2] = {9, shape[2]}, rows[2] = {7, shape[2]}, segments[2] = {2, shape[2]};
  gboolean has_segments = below(g, 2) == 1;
  int32_t reads[9] = {places(g, shape, words[0]),
                      has_segments ? places(g, shape, segments[0]) : -1,
                      given(g, g->real, words, 2, TRUE),
                      given(g, g->real, rows, 2, TRUE),
                      has_segments ? given(g, g->real, segments, 2, TRUE) : -1,
                      positive(g, g->real, shape[2]),
                      weights(g, g->real, &shape[2], 1),
                      below(g, 2) ? places(g, shape, 2) : -1,
                      below(g, 2) ? places(g, shape, rows[0]) : -1};
  char *epsilon = any_epsilon(g);
  gboolean has_sum = below(g, 2) == 1;
  int32_t result =
      apply(g, row->op, g_strdup_printf("%s mask_index_type=%d", epsilon, reads[7] >= 0), reads, 9,
            g->real, shape, 3);
  g_free(epsilon);
  rounded(g, result);
  random_graph_value(g, result)->scale = 4;
  random_graph_value(g, add_result(g, INT32, shape, 1))->error = 0;
  if (has_sum)
    rounded(g, add_result(g, g->real, shape, 3));
}

/* ---- Products ---------------------------------------------------------------------------- */

/* Exchanges the last two axes of a shape, and moves the axis before the last one to the front. */
static void turn(int64_t *shape, int32_t rank, gboolean is_turned, gboolean moves_batch) {
  int64_t old[MAX_RANK];
  memcpy(old, shape, sizeof(old));
  if (is_turned) {
    old[rank - 1] = shape[rank - 2];
    old[rank - 2] = shape[rank - 1];
  }
  memcpy(shape, old, sizeof(old));
  if (moves_batch) {
    shape[0] = old[rank - 2];
    memcpy(shape + 1, old, (size_t)(rank - 2) * sizeof(*shape));
  }
}

void make_fused_product(RandomGraph *g, const Row *row) {
  int64_t batch = small_extent(g, 3), rows = extent(g), depth = extent(g), columns = extent(g);
  int64_t out[MAX_RANK] = {batch, rows, columns}, flags[4];
  int64_t a[MAX_RANK] = {batch, rows, depth}, b[MAX_RANK] = {batch, depth, columns};
  int32_t first = below(g, 3) == 0, rank = 3 - first;
  for (int32_t i = 0; i < 4; i++)
    flags[i] = below(g, 2) && (i < 2 || rank > 2);
  turn(a + first, rank, flags[0] != 0, flags[2] != 0);
  turn(b + first, rank, flags[1] != 0, flags[3] != 0);
  int32_t reads[2] = {given(g, g->real, a + first, rank, FALSE),
                      given(g, g->real, b + first, rank, below(g, 2) == 0)};
  bits(g,
       apply(g, row->op,
             g_strdup_printf("alpha=0.5f transA=%d transB=%d transBatchA=%d transBatchB=%d",
                             (int)flags[0], (int)flags[1], (int)flags[2], (int)flags[3]),
             reads, 2, g->real, out + first, rank),
       7, 9);
}

/* The functions that are discontinuous are absent: a rounding could change their results. */
void make_fused_gemm(RandomGraph *g, const Row *row) {
  int64_t rows = extent(g), depth = extent(g), columns = extent(g), out[2] = {rows, columns};
  int64_t flip_a = below(g, 2), flip_b = below(g, 2);
  int64_t a[2] = {flip_a ? depth : rows, flip_a ? rows : depth};
  int64_t b[2] = {flip_b ? columns : depth, flip_b ? depth : columns};
  int32_t reads[3] = {given(g, g->real, a, 2, FALSE), given(g, g->real, b, 2, below(g, 2) == 0),
                      below(g, 2) ? weights(g, g->real, &columns, 1) : -1};
  char *attrs =
      g_strdup_printf("alpha=0.5f beta=2.0f transA=%d transB=%d", (int)flip_a, (int)flip_b);
  rounded(g, apply(g, row->op, joined(attrs, choice(g, row->attrs)), reads, reads[2] >= 0 ? 3 : 2,
                   g->real, out, 2));
}

/* ---- Quantised --------------------------------------------------------------------------- */

static int32_t byte_type(RandomGraph *g) {
  return below(g, 2) ? UINT8 : INT8;
}

/* Sets the scale and the zero point of integers of a type. */
static void add_both(RandomGraph *g, int32_t type, int32_t *reads, int32_t at) {
  reads[at] = scale_of(g, FLOAT, NULL, 0);
  reads[at + 1] = zero_of(g, type, NULL, 0);
}

/* Sets the scale and the zero point of integers of a type; rarely the zero point is absent. */
static void add_scale(RandomGraph *g, int32_t type, int32_t *reads, int32_t at) {
  add_both(g, type, reads, at);
  if (below(g, 6) == 0)
    reads[at + 1] = -1;
}

static int32_t finish_bytes(RandomGraph *g, int32_t result) {
  bits(g, result, 0, 8);
  random_graph_value(g, result)->error = 0;
  return result;
}

/* The scale of the output of a function is small enough that no exact half is rounded. */
void make_byte_function(RandomGraph *g, const Row *row) {
  gboolean is_softmax = g_str_has_suffix(row->op, "Softmax");
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 1, MAX_RANK, TRUE), reads[5] = {x, -1, -1, -1, -1};
  const RandomValue in = *random_graph_value(g, x);
  add_scale(g, in.type, reads, 1);
  add_scale(g, in.type, reads, 3);
  if (!g_str_has_suffix(row->op, "Relu"))
    put(random_graph_value(g, reads[3])->data, FLOAT, 0, 1.0 / 256);
  char *attrs = is_softmax ? g_strdup_printf("axis=%d opset=13", (int)below(g, in.rank))
                           : choice(g, row->attrs);
  finish_bytes(g, apply(g, row->op, attrs, reads, 5, in.type, in.shape, in.rank));
}

void make_byte_binary(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 0, MAX_RANK, TRUE), y = operand(g, x, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t reads[8] = {x, -1, -1, y, -1, -1, -1, -1};
  for (int32_t i = 1; i < 8; i += i == 4 ? 2 : 3)
    add_scale(g, in.type, reads, i);
  finish_bytes(g, apply(g, row->op, g_strdup(""), reads, 8, in.type, in.shape, in.rank));
}

void make_byte_where(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 0, MAX_RANK, TRUE), y = operand(g, x, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t reads[9] = {given(g, BOOL, in.shape, in.rank, below(g, 2) == 0), x, -1, -1, y};
  add_scale(g, in.type, reads, 2);
  add_scale(g, in.type, reads, 5);
  add_scale(g, in.type, reads, 7);
  finish_bytes(g, apply(g, row->op, g_strdup(""), reads, 9, in.type, in.shape, in.rank));
}

void make_byte_concat(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 1, MAX_RANK, TRUE), reads[MAX_READS];
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = (int32_t)below(g, in.rank), count = (int32_t)between(g, 1, 4);
  int64_t shape[MAX_RANK], total = 0;
  add_both(g, in.type, reads, 0);
  for (int32_t i = 0; i < count; i++) {
    memcpy(shape, in.shape, sizeof(shape));
    shape[axis] = between(g, 1, 5);
    reads[2 + 3 * i] = i == count / 2 ? x : given(g, in.type, shape, in.rank, below(g, 3) == 0);
    total += random_graph_value(g, reads[2 + 3 * i])->shape[axis];
    add_both(g, in.type, reads, 3 + 3 * i);
  }
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = total;
  finish_bytes(g, apply(g, row->op, g_strdup_printf("axis=%d", axis), reads, 2 + 3 * count, in.type,
                        shape, in.rank));
}

/* Moves the channels of a picture's shape to the end. */
static void channels_last(int64_t *shape) {
  int64_t channels = shape[1];
  shape[1] = shape[2];
  shape[2] = shape[3];
  shape[3] = channels;
}

/* Windows over pictures of bytes whose channels are the second or the last axis. */
void make_byte_pool(RandomGraph *g, const Row *row) {
  gboolean is_max = g_str_has_suffix(row->op, "MaxPool"),
           is_global = strstr(row->op, "Global") != NULL;
  gboolean is_last = is_max || below(g, 2);
  int32_t reads[5] = {-1, -1, -1, -1, -1}, type = byte_type(g);
  int64_t in[4] = {small_extent(g, 2), extent_of_some(g), between(g, 3, 9), between(g, 3, 9)};
  int64_t out[4] = {in[0], in[1], 1, 1}, kernel[2];
  gboolean is_ceil = below(g, 3) == 0;
  char *windows = is_global ? g_strdup("") : any_window_attrs(g, in, is_ceil, out, kernel);
  GString *attrs = g_string_new(windows);
  g_free(windows);
  if (is_last) {
    channels_last(in);
    channels_last(out);
  }
  reads[0] = given(g, type, in, 4, FALSE);
  if (!is_max) {
    add_scale(g, type, reads, 1);
    add_scale(g, type, reads, 3);
    g_string_append_printf(attrs, "%schannels_last=%d", is_global ? "" : " ", is_last);
  }
  if (!is_global)
    g_string_append_printf(attrs, " ceil_mode=%d", is_ceil);
  if (!is_max && !is_global && !is_ceil && below(g, 2))
    g_string_append(attrs, " count_include_pad=1");
  finish_bytes(g,
               apply(g, row->op, g_string_free(attrs, FALSE), reads, is_max ? 1 : 5, type, out, 4));
}

/* Products of bytes as floats, with a scale and a zero point for each column or for all. */
static void add_column_scale(RandomGraph *g, int32_t type, int64_t columns, int32_t *scale,
                             int32_t *zero) {
  int32_t rank = (int32_t)below(g, 2);
  *scale = scale_of(g, FLOAT, &columns, rank);
  *zero = below(g, 4) ? zero_of(g, type, &columns, rank) : -1;
}

void make_byte_product(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 2, 4, TRUE), type = byte_type(g), zero;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], w[2] = {in.shape[in.rank - 1], extent(g)};
  memcpy(shape, in.shape, sizeof(shape));
  shape[in.rank - 1] = w[1];
  int32_t reads[7] = {x, given(g, type, w, 2, below(g, 3) > 0), scale_of(g, FLOAT, NULL, 0), -1,
                      below(g, 4) ? zero_of(g, in.type, NULL, 0) : -1};
  add_column_scale(g, type, w[1], &reads[3], &zero);
  reads[5] = zero;
  reads[6] = below(g, 2) ? weights(g, FLOAT, &w[1], 1) : -1;
  bits(g, apply(g, row->op, g_strdup(""), reads, 7, FLOAT, shape, in.rank), 4, 24);
}

/* Floats from -16 to 15.875, which are quantised with the scale 1/8, and bytes. */
void make_dynamic_product(RandomGraph *g, const Row *row) {
  int64_t shape[2] = {extent_of_some(g), extent_of_some(g) + 1}, w[2] = {shape[1], extent(g)};
  int32_t type = byte_type(g), x = given(g, FLOAT, shape, 2, below(g, 2) == 0), zero;
  put(random_graph_value(g, x)->data, FLOAT, 0, 15.875);
  put(random_graph_value(g, x)->data, FLOAT, 1, -16);
  random_graph_value(g, x)->is_part = TRUE;
  random_graph_value(g, x)->magnitude = 5;
  int32_t reads[5] = {x, given(g, type, w, 2, below(g, 3) > 0), -1, -1, -1};
  add_column_scale(g, type, w[1], &reads[2], &zero);
  reads[3] = zero;
  reads[4] = below(g, 2) ? weights(g, FLOAT, &w[1], 1) : -1;
  bits(g, apply(g, row->op, g_strdup(""), reads, 5, FLOAT, (int64_t[]){shape[0], w[1]}, 2), 5, 24);
}

/* The result is float, or is quantised. */
void make_byte_gemm(RandomGraph *g, const Row *row) {
  int64_t rows = extent_of_some(g), depth = extent_of_some(g), columns = extent_of_some(g);
  int64_t flip_a = below(g, 2), flip_b = below(g, 2), out[2] = {rows, columns};
  int64_t a[2] = {flip_a ? depth : rows, flip_a ? rows : depth};
  int64_t b[2] = {flip_b ? columns : depth, flip_b ? depth : columns};
  int32_t type = byte_type(g), other = byte_type(g), rank = (int32_t)below(g, 2);
  int32_t reads[9] = {given(g, type, a, 2, FALSE),
                      scale_of(g, FLOAT, NULL, 0),
                      zero_of(g, type, NULL, 0),
                      given(g, other, b, 2, below(g, 3) > 0),
                      scale_of(g, FLOAT, &columns, rank),
                      zero_of(g, other, &columns, rank),
                      below(g, 2) ? weights(g, INT32, &columns, 1) : -1,
                      -1,
                      -1};
  gboolean is_float_result = below(g, 2) == 1;
  if (!is_float_result) {
    reads[7] = scale_of(g, FLOAT, NULL, 0);
    reads[8] = zero_of(g, type, NULL, 0);
  }
  int32_t result =
      apply(g, row->op, g_strdup_printf("alpha=0.5f transA=%d transB=%d", (int)flip_a, (int)flip_b),
            reads, is_float_result ? 7 : 9, is_float_result ? FLOAT : type, out, 2);
  if (is_float_result)
    bits(g, result, 5, 24);
  else
    finish_bytes(g, result);
}
