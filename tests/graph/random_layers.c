/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of layers for random graphs: gates, norms, losses, attention, recurrent layers, and
 * operators with a state. */
#include "tests/graph/random_make.h"

#include <string.h>

/* Indices of elements anywhere in their window of 2x2. onnxruntime takes them as indices into a
 * larger output, ONNX as those of an output of the usual size. */
void make_unpool(RandomGraph *g, const Row *row) {
  int64_t shape[4] = {between(g, 1, 2), between(g, 1, 9), between(g, 1, 6), between(g, 1, 6)};
  int64_t out[4] = {shape[0], shape[1], 2 * shape[2], 2 * shape[3]};
  int32_t x = given(g, FLOAT, shape, 4, FALSE), places = weights(g, INT64, shape, 4);
  int64_t *data = random_graph_value(g, places)->data;
  for (int64_t row_of = 0, i = 0; row_of < shape[0] * shape[1] * shape[2]; row_of++)
    for (int64_t column = 0; column < shape[3]; column++)
      data[i++] = (2 * row_of + below(g, 2)) * out[3] + 2 * column + below(g, 2);
  gboolean has_shape = below(g, 2) == 1;
  if (has_shape)
    for (int32_t i = 0; i < 4; i++)
      out[i] += g->has_rare_types ? below(g, 3) : 0;
  int32_t reads[3] = {x, places, has_shape ? int_list(g, out, 4) : -1};
  apply(g, row->op, choice(g, row->attrs), reads, has_shape ? 3 : 2, FLOAT, out, 4);
}

void make_gated(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, FLOATS, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t y = given(g, in.type, in.shape, in.rank, below(g, 2) == 0);
  finish(
      g, row,
      apply(g, row->op, choice(g, row->attrs), (int32_t[]){x, y}, 2, in.type, in.shape, in.rank));
}

/* An update in a cache, at a position for each batch. */
void make_tensor_scatter(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, ANY, 2, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = between(g, 1, in.rank - 1), length = in.shape[axis];
  gboolean is_circular = below(g, 2) == 1;
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = between(g, 1, length);
  int32_t reads[3] = {x, given(g, in.type, shape, in.rank, FALSE), weights(g, INT64, in.shape, 1)};
  for (int64_t i = 0; i < in.shape[0]; i++)
    ((int64_t *)random_graph_value(g, reads[2])->data)[i] =
        between(g, 0, is_circular ? length - 1 : length - shape[axis]);
  int32_t fraction = MAX(in.fraction, random_graph_value(g, reads[1])->fraction);
  int32_t magnitude = MAX(in.magnitude, random_graph_value(g, reads[1])->magnitude);
  bits(g,
       apply(g, row->op,
             g_strdup_printf("axis=%d mode=%s", (int)axis, is_circular ? "circular" : "linear"),
             reads, (int32_t)between(g, 2, 3), in.type, in.shape, in.rank),
       fraction, magnitude);
}

/* A kernel for each channel, also over the previous state. */
void make_causal_conv(RandomGraph *g, const Row *row) {
  int64_t kernel = between(g, 1, 5), past = kernel - 1;
  int64_t shape[3] = {small_extent(g, 2), extent_of_some(g), between(g, 1, 9)};
  int32_t reads[4] = {given(g, FLOAT, shape, 3, FALSE),
                      weights(g, FLOAT, (int64_t[]){shape[1], 1, kernel}, 3),
                      below(g, 2) ? weights(g, FLOAT, &shape[1], 1) : -1, -1};
  if (past > 0 && below(g, 2))
    reads[3] = given(g, FLOAT, (int64_t[]){shape[0], shape[1], past}, 3, FALSE);
  rounded(g, apply(g, row->op, choice(g, row->attrs), reads, 4, FLOAT, shape, 3));
  if (past > 0)
    add_result(g, FLOAT, (int64_t[]){shape[0], shape[1], past}, 3);
}

/* Scores, a label for each position, and weights of the classes. */
void make_loss(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, FLOATS, 2, 4), rank = 0;
  const RandomValue in = *random_graph_value(g, x);
  int64_t places[MAX_RANK];
  gboolean has_logarithm = row->op[0] == 'S';
  for (int32_t i = 0; i < in.rank; i++)
    if (i != 1)
      places[rank++] = in.shape[i];
  int32_t labels = weights(g, INT64, places, rank);
  for (int64_t i = 0; i < random_value_count(random_graph_value(g, labels)); i++)
    ((int64_t *)random_graph_value(g, labels)->data)[i] = below(g, in.shape[1]);
  char *reduction = choice(g, "none|sum|mean");
  gboolean is_whole = !strcmp(reduction, "none");
  int32_t reads[3] = {x, labels, below(g, 2) ? positive(g, in.type, in.shape[1]) : -1};
  rounded(g,
          apply(g, row->op,
                g_strdup_printf("reduction=%s%s", reduction, below(g, 2) ? " ignore_index=0" : ""),
                reads, 3, in.type, places, is_whole ? rank : 0));
  g_free(reduction);
  if (has_logarithm && below(g, 2))
    add_result(g, in.type, in.shape, in.rank);
}

void make_center(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank);
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = between(g, 1, in.shape[axis] + 3);
  int32_t list = int_list(g, &shape[axis], 1);
  apply(g, row->op, g_strdup_printf("axes=%d,", (int)axis), (int32_t[]){x, list}, 2, in.type, shape,
        in.rank);
}

/* ---- Norms and recurrent layers ---- */

/* Scale and bias, and for batches mean and variance, with one element for each channel, or for each
 * element from an axis on. */
void make_norm(RandomGraph *g, const Row *row) {
  gboolean is_rms = row->op[0] == 'R' || row->op[0] == 'S', is_layer = row->op[0] == 'L' || is_rms;
  gboolean is_batch = row->op[0] == 'B', is_group = row->op[0] == 'G';
  int32_t x = is_layer ? pick(g, 1 << FLOAT, 2, 4) : picture(g, 1 << FLOAT);
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = !is_layer ? 1 : below(g, 3) ? in.rank - 1 : (int32_t)between(g, 1, in.rank - 1);
  int32_t rank = is_layer ? in.rank - axis : 1;
  int32_t reads[5] = {x, positive(g, FLOAT, in.shape[axis]),
                      weights(g, FLOAT, in.shape + axis, rank), -1, -1};
  if (rank > 1)
    reads[1] = weights(g, FLOAT, in.shape + axis, rank);
  if (is_batch) {
    reads[3] = weights(g, FLOAT, in.shape + 1, 1);
    reads[4] = positive(g, FLOAT, in.shape[1]);
  }
  int64_t groups = is_group ? between(g, 1, 4) : 1;
  while (in.shape[1] % groups)
    groups--;
  char *epsilon = choice(g, "epsilon=0.00001f|epsilon=0.125f");
  char *attrs = is_group   ? g_strdup_printf("%s num_groups=%d", epsilon, (int)groups)
                : is_layer ? g_strdup_printf("%s axis=%d", epsilon,
                                             (int)(below(g, 2) ? axis : axis - in.rank))
                           : g_strdup(epsilon);
  g_free(epsilon);
  int32_t num_reads = is_batch ? 5 : is_rms ? 2 : 3;
  int32_t result = apply(g, row->op, attrs, reads, num_reads, FLOAT, in.shape, in.rank);
  rounded(g, result);
  random_graph_value(g, result)->scale = is_rms ? 0 : 2; /* size of terms that cancel */
}

/* One token after the other, or in any order by their positions. */
void make_rotary(RandomGraph *g, const Row *row) {
  int64_t batch = small_extent(g, 2), heads = between(g, 1, 3), length = small_extent(g, 5);
  int64_t half = between(g, 1, 4), size = 2 * half + below(g, 2) * 3, rows = 7;
  gboolean has_axis = below(g, 2) == 1, has_places = below(g, 2) == 1;
  int64_t with_axis[4] = {batch, heads, length, size}, without[3] = {batch, length, heads * size};
  int64_t cache[3] = {batch, length, half};
  const int64_t *shape = has_axis ? with_axis : without;
  if (has_places)
    cache[1] = rows;
  int32_t reads[4] = {given(g, FLOAT, shape, has_axis ? 4 : 3, FALSE),
                      given(g, FLOAT, cache + has_places, 3 - has_places, TRUE),
                      given(g, FLOAT, cache + has_places, 3 - has_places, TRUE), -1};
  if (has_places)
    reads[3] = indices(g, (int64_t[]){batch, length}, 2, rows);
  rounded(g, apply(g, row->op,
                   g_strdup_printf("num_heads=%d interleaved=%d rotary_embedding_dim=%d",
                                   (int)heads, (int)below(g, 2), (int)(2 * half)),
                   reads, has_places ? 4 : 3, FLOAT, shape, has_axis ? 4 : 3));
}

/* Attention with queries that share keys, with past keys, masks and windows. */
void make_attention(RandomGraph *g, const Row *row) {
  int64_t batch = small_extent(g, 2), heads = between(g, 1, 2), groups = between(g, 1, 3);
  int64_t queries = small_extent(g, 5), keys = between(g, 1, 7), size = between(g, 1, 9);
  int64_t past = below(g, 2) ? between(g, 1, 4) : 0, all = past + keys;
  int64_t k[4] = {batch, heads, keys, size}, old[4] = {batch, heads, past, size};
  int64_t q[4] = {batch, heads * groups, queries, size}, mask[2] = {queries, all};
  int32_t reads[6] = {given(g, FLOAT, q, 4, FALSE),
                      given(g, FLOAT, k, 4, FALSE),
                      given(g, FLOAT, k, 4, FALSE),
                      -1,
                      -1,
                      -1};
  if (below(g, 2))
    reads[3] = given(g, below(g, 2) ? BOOL : FLOAT, mask, 2, below(g, 2) == 0);
  for (int32_t i = 4; i < 6 && past; i++)
    reads[i] = given(g, FLOAT, old, 4, FALSE);
  rounded(g, apply(g, row->op, choice(g, row->attrs), reads, past ? 6 : 4, FLOAT, q, 4));
}

/* The optional inputs of a recurrent layer, from the fifth on: lengths, initial states, and the
 * weights of LSTM's peepholes. */
static void set_optional(RandomGraph *g, int64_t gates, const int64_t *state, int64_t steps,
                         int32_t *reads) {
  int64_t peepholes[2] = {state[0], 3 * state[2]};
  if (steps > 0 && below(g, 3) == 0) {
    reads[4] = weights(g, INT32, state + 1, 1);
    for (int64_t i = 0; i < state[1]; i++)
      ((int32_t *)random_graph_value(g, reads[4])->data)[i] = (int32_t)between(g, 1, steps);
  }
  if (below(g, 2))
    reads[5] = given(g, FLOAT, state, 3, FALSE);
  if (gates == 4 && below(g, 2))
    reads[6] = given(g, FLOAT, state, 3, FALSE);
  if (gates == 4 && below(g, 3) == 0)
    reads[7] = weights(g, FLOAT, peepholes, 2);
}

/* Without rare types, the graph may be for onnxruntime, which ends its process if the batch is
 * empty, and does not clip what LSTM's last activation reads. */
void make_recurrent(RandomGraph *g, const Row *row) {
  int64_t gates = row->op[0] == 'L' ? 4 : row->op[0] == 'G' ? 3 : 1;
  int64_t steps = g->has_rare_types ? small_extent(g, 4) : between(g, 1, 4);
  int64_t batch = g->has_rare_types ? small_extent(g, 3) : between(g, 1, 3);
  int64_t inputs = extent_of_some(g);
  int64_t hidden = between(g, 1, 9), directions = between(g, 1, 2);
  int64_t state[3] = {directions, batch, hidden};
  int32_t reads[8] = {given(g, FLOAT, (int64_t[]){steps, batch, inputs}, 3, FALSE),
                      weights(g, FLOAT, (int64_t[]){directions, gates * hidden, inputs}, 3),
                      weights(g, FLOAT, (int64_t[]){directions, gates * hidden, hidden}, 3),
                      -1,
                      -1,
                      -1,
                      -1,
                      -1};
  if (below(g, 2))
    reads[3] = weights(g, FLOAT, (int64_t[]){directions, 2 * gates * hidden}, 2);
  set_optional(g, gates, state, steps, reads);
  char *more =
      choice(g, gates == 3   ? "||linear_before_reset=1|clip=0.5f"
                : gates == 4 ? g->has_rare_types ? "||input_forget=1|clip=0.5f" : "||input_forget=1"
                             : "||clip=0.5f");
  const char *direction = directions == 2 ? "bidirectional" : below(g, 2) ? "forward" : "reverse";
  rounded(g, apply(g, row->op,
                   g_strdup_printf("hidden_size=%d direction=%s%s%s", (int)hidden, direction,
                                   *more ? " " : "", more),
                   reads, gates == 4 ? 8 : 6, FLOAT, (int64_t[]){steps, directions, batch, hidden},
                   4));
  add_result(g, FLOAT, state, 3);
  g_free(more);
}
