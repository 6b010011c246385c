/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of layers for random graphs: gates, norms, losses, recurrent layers, and operators
 * with a state. */
#include "tests/graph/random_make.h"

#include <string.h>

/* Indices of elements anywhere in their window of 2x2. onnxruntime takes them as indices into a
 * larger output, ONNX as those of an output of the usual size. */
void make_unpool(RandomGraph *g, const Row *row) {
  int64_t shape[4] = {between(g, 1, 2), between(g, 1, 9), between(g, 1, 6), between(g, 1, 6)};
  int64_t out[4] = {shape[0], shape[1], 2 * shape[2], 2 * shape[3]};
  int32_t x = given(g, g->real, shape, 4, FALSE), places = weights(g, INT64, shape, 4);
  int64_t *data = random_graph_value(g, places)->data;
  for (int64_t row_of = 0, i = 0; row_of < shape[0] * shape[1] * shape[2]; row_of++)
    for (int64_t column = 0; column < shape[3]; column++)
      data[i++] = (2 * row_of + below(g, 2)) * out[3] + 2 * column + below(g, 2);
  gboolean has_shape = below(g, 2) == 1;
  if (has_shape)
    for (int32_t i = 0; i < 4; i++)
      out[i] += g->has_rare_types ? below(g, 3) : 0;
  int32_t reads[3] = {x, places, has_shape ? int_list(g, out, 4) : -1};
  char *pads = has_shape && below(g, 2) ? g_strdup("pads=0,0,0,0") : g_strdup("");
  apply(g, row->op, joined(choice(g, row->attrs), pads), reads, has_shape ? 3 : 2, g->real, out, 4);
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
  int32_t reads[4] = {given(g, g->real, shape, 3, FALSE),
                      weights(g, g->real, (int64_t[]){shape[1], 1, kernel}, 3),
                      below(g, 2) ? weights(g, g->real, &shape[1], 1) : -1, -1};
  if (past > 0 && below(g, 2))
    reads[3] = given(g, g->real, (int64_t[]){shape[0], shape[1], past}, 3, FALSE);
  rounded(g, apply(g, row->op, choice(g, row->attrs), reads, 4, g->real, shape, 3));
  if (past > 0)
    add_result(g, g->real, (int64_t[]){shape[0], shape[1], past}, 3);
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
  int32_t labels = weights(g, g->whole, places, rank);
  for (int64_t i = 0; i < random_value_count(random_graph_value(g, labels)); i++)
    put(random_graph_value(g, labels)->data, g->whole, i, (double)below(g, in.shape[1]));
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
  int32_t list = whole_list(g, &shape[axis], 1);
  apply(g, row->op, g_strdup_printf("axes=%d,", (int)axis), (int32_t[]){x, list}, 2, in.type, shape,
        in.rank);
}

/* ---- Norms and recurrent layers ---- */

/* The mean and the reciprocal of the deviation over the axes from one on, in the type of
 * stash_type. */
static void add_moments(RandomGraph *g, const RandomValue *in, int32_t axis, int32_t type,
                        int32_t count) {
  int64_t shape[MAX_RANK];
  for (int32_t i = 0; i < in->rank; i++)
    shape[i] = i < axis ? in->shape[i] : 1;
  for (int32_t i = 0; i < count; i++)
    rounded(g, add_result(g, type, shape, in->rank));
}

/* Scale and bias, and for batches mean and variance, with one element for each channel, or for each
 * element from an axis on. */
void make_norm(RandomGraph *g, const Row *row) {
  gboolean is_rms = row->op[0] == 'R' || row->op[0] == 'S', is_layer = row->op[0] == 'L' || is_rms;
  gboolean is_batch = row->op[0] == 'B', is_group = row->op[0] == 'G';
  int32_t x = is_layer ? pick(g, 1 << g->real, 2, 4) : picture(g, 1 << g->real);
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = !is_layer ? 1 : below(g, 3) ? in.rank - 1 : (int32_t)between(g, 1, in.rank - 1);
  int32_t rank = is_layer ? in.rank - axis : 1;
  int32_t reads[5] = {x, positive(g, g->real, in.shape[axis]),
                      weights(g, g->real, in.shape + axis, rank), -1, -1};
  if (rank > 1)
    reads[1] = weights(g, g->real, in.shape + axis, rank);
  if (is_batch) {
    reads[3] = weights(g, g->real, in.shape + 1, 1);
    reads[4] = positive(g, g->real, in.shape[1]);
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
  if (is_batch)
    attrs = joined(attrs, choice(g, "|momentum=0.5f training_mode=0|spatial=1"));
  int32_t stash = (is_layer || is_group) && below(g, 2) ? type_of(g, FLOAT, FLOATS) : FLOAT;
  if ((is_layer || is_group) && (stash != FLOAT || below(g, 2)))
    attrs = joined(attrs, g_strdup_printf("stash_type=%d", stash));
  int32_t num_reads = is_batch ? 5 : is_rms ? 2 : 3;
  int32_t result = apply(g, row->op, attrs, reads, num_reads, g->real, in.shape, in.rank);
  rounded(g, result);
  random_graph_value(g, result)->scale = is_rms ? 0 : 2; /* size of terms that cancel */
  if (row->op[0] == 'L')
    add_moments(g, &in, axis, stash, (int32_t)below(g, 3));
}

/* The extents of a recurrent layer. */
typedef struct Layer {
  int64_t gates, functions, directions, steps, batch, inputs, hidden;
  gboolean has_batch_first; /* layout 1 */
  int64_t state[3];
} Layer;

/* Without rare types, the graph may be for onnxruntime, which ends its process if the batch is
 * empty, and does not take a batch as the first axis. */
static Layer any_layer(RandomGraph *g, const Row *row) {
  Layer l = {.gates = row->op[0] == 'L'   ? 4
                      : row->op[0] == 'G' ? 3
                                          : 1,
             .functions = row->op[0] == 'L'   ? 3
                          : row->op[0] == 'G' ? 2
                                              : 1,
             .directions = between(g, 1, 2),
             .steps = g->has_rare_types ? small_extent(g, 4) : between(g, 1, 4),
             .batch = g->has_rare_types ? small_extent(g, 3) : between(g, 1, 3),
             .inputs = extent_of_some(g),
             .hidden = between(g, 1, 9),
             .has_batch_first = g->has_rare_types && below(g, 2)};
  const int64_t first[3] = {l.directions, l.batch, l.hidden};
  const int64_t second[3] = {l.batch, l.directions, l.hidden};
  memcpy(l.state, l.has_batch_first ? second : first, sizeof(l.state));
  return l;
}

/* The optional inputs of a recurrent layer, from the fifth on: lengths, initial states, and the
 * weights of LSTM's peepholes. */
static void set_optional(RandomGraph *g, const Layer *l, int32_t *reads) {
  int64_t peepholes[2] = {l->directions, 3 * l->hidden};
  if (l->steps > 0 && below(g, 3) == 0) {
    reads[4] = weights(g, INT32, &l->batch, 1);
    for (int64_t i = 0; i < l->batch; i++)
      ((int32_t *)random_graph_value(g, reads[4])->data)[i] = (int32_t)between(g, 1, l->steps);
  }
  if (below(g, 2))
    reads[5] = given(g, g->real, l->state, 3, FALSE);
  if (l->gates == 4 && below(g, 2))
    reads[6] = given(g, g->real, l->state, 3, FALSE);
  if (l->gates == 4 && below(g, 3) == 0)
    reads[7] = weights(g, g->real, peepholes, 2);
}

/* Names a function for each gate and direction, with its numbers. Discontinuous functions are
 * absent, because a rounding could change their results. For onnxruntime, Softplus is absent,
 * because it is infinite from 89 on. */
static char *any_functions(RandomGraph *g, const Layer *l) {
  static const char *const names[] = {"Sigmoid",   "Tanh", "Relu",   "Softsign",   "HardSigmoid",
                                      "LeakyRelu", "Elu",  "Affine", "ScaledTanh", "Softplus"};
  GString *functions = g_string_new("activations="), *alphas = g_string_new(" activation_alpha=");
  GString *betas = g_string_new(" activation_beta=");
  for (int64_t i = 0; i < l->functions * l->directions; i++) {
    const char *name = names[below(g, (int64_t)G_N_ELEMENTS(names) - !g->has_rare_types)];
    gboolean has_beta =
        !strcmp(name, "HardSigmoid") || !strcmp(name, "Affine") || !strcmp(name, "ScaledTanh");
    g_string_append_printf(functions, "%s,", name);
    if (has_beta || !strcmp(name, "LeakyRelu") || !strcmp(name, "Elu"))
      g_string_append_printf(alphas, "0.%d,", (int)between(g, 1, 9));
    if (has_beta)
      g_string_append_printf(betas, "0.%d,", (int)between(g, 1, 9));
  }
  if (strchr(alphas->str, ','))
    g_string_append(functions, alphas->str);
  if (strchr(betas->str, ','))
    g_string_append(functions, betas->str);
  g_string_free(alphas, TRUE);
  g_string_free(betas, TRUE);
  return g_string_free(functions, FALSE);
}

/* For onnxruntime, which does not clip what LSTM's last activation reads, LSTM has no clip. */
static char *layer_attrs(RandomGraph *g, const Layer *l) {
  const char *direction = l->directions == 2 ? "bidirectional"
                          : below(g, 2)      ? "forward"
                                             : "reverse";
  char *attrs = g_strdup_printf("hidden_size=%d direction=%s", (int)l->hidden, direction);
  if (l->gates == 4 && below(g, 3) == 0)
    attrs = joined(attrs, g_strdup("input_forget=1"));
  if (l->gates == 3 && below(g, 3) == 0)
    attrs = joined(attrs, g_strdup("linear_before_reset=1"));
  if ((l->gates != 4 || g->has_rare_types) && below(g, 4) == 0)
    attrs = joined(attrs, g_strdup("clip=0.5f"));
  if (below(g, 3) == 0)
    attrs = joined(attrs, any_functions(g, l));
  return l->has_batch_first ? joined(attrs, g_strdup("layout=1")) : attrs;
}

/* Integers for the weights of a recurrent layer, with a scale and a zero point for each direction
 * or for each row of it. */
static void set_bytes(RandomGraph *g, const int64_t *shape, int32_t *weight, int32_t *scale) {
  const int64_t parameters[2] = {shape[0], shape[2]};
  int32_t type = below(g, 2) ? UINT8 : INT8, rank = (int32_t)between(g, 1, 2);
  weight[0] = given(g, type, shape, 3, below(g, 3) > 0);
  scale[0] = scale_of(g, FLOAT, parameters, rank);
  scale[1] = below(g, 4) ? zero_of(g, type, parameters, rank) : -1;
}

/* Applies a recurrent layer. Its states are sums of terms that cancel. */
static void apply_layer(RandomGraph *g, const Row *row, const Layer *l, const int32_t *reads,
                        int32_t num_reads, const int64_t *states) {
  int32_t result = apply(g, row->op, layer_attrs(g, l), reads, num_reads, g->real, states, 4);
  rounded(g, result);
  add_result(g, g->real, l->state, 3);
  if (l->gates == 4 && below(g, 2))
    add_result(g, g->real, l->state, 3);
  const RandomNode *node = random_graph_node(g, random_graph_value(g, result)->node);
  for (int32_t i = 0; i < node->num_results; i++)
    random_graph_value(g, node->results[i])->scale = 1;
}

/* Its numbers are float32. */
void make_byte_lstm(RandomGraph *g, const Row *row) {
  int32_t real = g->real;
  g->real = FLOAT;
  Layer l = any_layer(g, &(Row){.op = "LSTM"});
  l.has_batch_first = FALSE;
  memcpy(l.state, (int64_t[]){l.directions, l.batch, l.hidden}, sizeof(l.state));
  const int64_t rows = 4 * l.hidden, x[3] = {l.steps, l.batch, l.inputs};
  const int64_t states[4] = {l.steps, l.directions, l.batch, l.hidden};
  int32_t reads[12] = {given(g, FLOAT, x, 3, FALSE), -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  set_bytes(g, (int64_t[]){l.directions, l.inputs, rows}, &reads[1], &reads[8]);
  set_bytes(g, (int64_t[]){l.directions, l.hidden, rows}, &reads[2], &reads[10]);
  if (below(g, 2))
    reads[3] = weights(g, FLOAT, (int64_t[]){l.directions, 2 * rows}, 2);
  set_optional(g, &l, reads);
  apply_layer(g, row, &l, reads, 12, states);
  g->real = real;
}

void make_recurrent(RandomGraph *g, const Row *row) {
  Layer l = any_layer(g, row);
  int64_t rows = l.gates * l.hidden;
  int64_t x[3] = {l.has_batch_first ? l.batch : l.steps, l.has_batch_first ? l.steps : l.batch,
                  l.inputs};
  int64_t usual[4] = {l.steps, l.directions, l.batch, l.hidden};
  int64_t batch_first[4] = {l.batch, l.steps, l.directions, l.hidden};
  int32_t reads[8] = {given(g, g->real, x, 3, FALSE),
                      weights(g, g->real, (int64_t[]){l.directions, rows, l.inputs}, 3),
                      weights(g, g->real, (int64_t[]){l.directions, rows, l.hidden}, 3),
                      -1,
                      -1,
                      -1,
                      -1,
                      -1};
  if (below(g, 2))
    reads[3] = weights(g, g->real, (int64_t[]){l.directions, 2 * rows}, 2);
  set_optional(g, &l, reads);
  apply_layer(g, row, &l, reads, l.gates == 4 ? 8 : 6, l.has_batch_first ? batch_first : usual);
}
