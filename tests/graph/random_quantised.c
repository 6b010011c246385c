/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of quantised operators for random graphs. */
#include "tests/graph/random_make.h"

#include <string.h>

#define BYTES (1 << UINT8 | 1 << INT8)

static int32_t byte_type(RandomGraph *g) {
  return below(g, 2) ? UINT8 : INT8;
}

/* A scale: a power of two, so that division is exact. */
int32_t scale_of(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank) {
  int32_t scale = weights(g, type, shape, rank);
  RandomValue *value = random_graph_value(g, scale);
  for (int64_t i = 0; i < random_value_count(value); i++)
    put(value->data, type, i, 0.25 * (double)(1 << below(g, 3)));
  value->fraction = 2;
  return scale;
}

/* A zero point, sometimes the limit of its type. */
int32_t zero_of(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank) {
  int32_t zero = weights(g, type, shape, rank);
  RandomValue *value = random_graph_value(g, zero);
  if (value->type != INT32 && random_value_count(value) > 0 && below(g, 2))
    put(value->data, type, 0, type == UINT8 ? 250 : -120);
  value->magnitude = 8;
  return zero;
}

/* Quantisation of the whole of x, along an axis or in blocks along it: the shape of scales, and the
 * attributes. */
static char *choose_scales(RandomGraph *g, const RandomValue *x, int64_t *shape, int32_t *rank) {
  int64_t how = x->rank ? below(g, 3) : 0;
  int32_t axis = x->rank ? (int32_t)below(g, x->rank) : 0;
  *rank = how == 2 ? x->rank : how == 1;
  if (how == 0)
    return g_strdup("");
  if (how == 1) {
    shape[0] = x->shape[axis];
    return g_strdup_printf("axis=%d", axis);
  }
  int64_t block = between(g, 1, 4);
  memcpy(shape, x->shape, sizeof(x->shape));
  shape[axis] = (x->shape[axis] + block - 1) / block;
  return g_strdup_printf("axis=%d block_size=%d", axis, (int)block);
}

/* Returns a zero point of a type that is only stored, or of 16 bits; 0 for floats of few bits. */
static int32_t narrow_zero(RandomGraph *g, int32_t type) {
  gboolean is_real = (type >= FLOAT8E4M3FN && type <= FLOAT8E5M2FNUZ) || type == FLOAT4E2M1;
  int32_t content = number(g, FLOAT, is_real ? 0 : 1);
  return apply(g, "Cast", g_strdup_printf("to=%d", type), &content, 1, type, NULL, 0);
}

/* Quantises to a type that is only stored, or to 16 bits, and back. */
static void make_narrow_quantize(RandomGraph *g) {
  static const int8_t types[] = {UINT16, INT16, NARROW_TYPES};
  int32_t x = pick_of(g, 1 << FLOAT, 0, 4, TRUE), type = types[below(g, G_N_ELEMENTS(types))];
  const RandomValue in = *random_graph_value(g, x);
  int32_t scale = scale_of(g, FLOAT, NULL, 0), to = below(g, 2) ? FLOAT : FLOAT16;
  gboolean is_byte = type >= FLOAT8E4M3FN && type <= FLOAT8E5M2FNUZ;
  char *attrs = g_strdup_printf("output_dtype=%d", type);
  if (is_byte)
    attrs = joined(attrs, g_strdup_printf("saturate=%d", (int)below(g, 2)));
  if (below(g, 2))
    attrs = joined(attrs, g_strdup("precision=1"));
  int32_t reads[3] = {x, scale, below(g, 2) ? narrow_zero(g, type) : -1};
  int32_t count = reads[2] >= 0 ? 3 : 2;
  int32_t value = apply(g, "QuantizeLinear", attrs, reads, count, type, in.shape, in.rank);
  reads[0] = value;
  int32_t result = apply(g, "DequantizeLinear", g_strdup_printf("output_dtype=%d", to), reads,
                         count, to, in.shape, in.rank);
  bits(g, result, in.fraction + 4, MAX(in.magnitude, 6));
}

void make_quantize(RandomGraph *g, const Row *row) {
  gboolean has_types = !g_str_has_prefix(row->op, "com.") && g->has_rare_types;
  if (has_types && below(g, 2)) {
    make_narrow_quantize(g);
    return;
  }
  gboolean is_back = g_str_has_suffix(row->op, "DequantizeLinear");
  gboolean has_words = has_types && below(g, 4) == 0;
  int32_t types = is_back ? BYTES | 1 << INT32 : has_words ? 1 << INT32 : FLOATS;
  int32_t x = pick_of(g, types, 0, 4, TRUE), rank;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK];
  int32_t real = !is_back      ? (has_words ? FLOAT : in.type)
                 : below(g, 3) ? FLOAT
                               : type_of(g, FLOAT16, HALVES);
  int32_t whole = is_back ? in.type : byte_type(g);
  char *attrs = choose_scales(g, &in, shape, &rank);
  int32_t scale = scale_of(g, real, shape, rank);
  int32_t zero = whole == INT8 || below(g, 2) ? zero_of(g, whole, shape, rank) : -1;
  int32_t result = apply(g, row->op, attrs, (int32_t[]){x, scale, zero}, zero >= 0 ? 3 : 2,
                         is_back ? real : whole, in.shape, in.rank);
  if (is_back)
    bits(g, result, 2, MAX(in.magnitude, 8) + 1);
  else
    bits(g, result, 0, 8);
}

/* Elements from -16 to 15.875: the scale is 1/8. */
void make_dynamic_quantize(RandomGraph *g, const Row *row) {
  int64_t shape[2] = {extent_of_some(g), extent(g) + 1};
  int32_t x = given(g, FLOAT, shape, 2, below(g, 2) == 0);
  RandomValue *value = random_graph_value(g, x);
  put(value->data, FLOAT, 0, 15.875);
  put(value->data, FLOAT, 1, -16);
  value->magnitude = 5;
  int32_t result = apply(g, row->op, g_strdup(""), &x, 1, UINT8, shape, 2);
  bits(g, result, 0, 8);
  add_result(g, FLOAT, NULL, 0);
  random_graph_value(g, add_result(g, UINT8, NULL, 0))->fraction = 0;
}

/* Adds the operator's inputs for a product or convolution of x and w, with `channels` scales and
 * zero points of w; returns their number. */
static int32_t quantized_reads(RandomGraph *g, const Row *row, int32_t x, int32_t w,
                               int64_t channels, int32_t *reads, int32_t *type) {
  int32_t zero_x = zero_of(g, random_graph_value(g, x)->type, NULL, 0);
  int32_t rank = (int32_t)below(g, 2);
  int32_t zero_w = zero_of(g, random_graph_value(g, w)->type, &channels, rank);
  *type = INT32;
  if (g_str_has_suffix(row->op, "Integer")) {
    memcpy(reads, (int32_t[]){x, w, zero_x, zero_w}, 4 * sizeof(*reads));
    return (int32_t)between(g, 2, 4);
  }
  *type = byte_type(g);
  gboolean is_product = !strcmp(row->op, "QLinearMatMul");
  int32_t real = is_product ? type_of(g, FLOAT, 1 << FLOAT | HALVES) : FLOAT;
  const int32_t all[8] = {x,
                          scale_of(g, real, NULL, 0),
                          zero_x,
                          w,
                          scale_of(g, real, &channels, rank),
                          zero_w,
                          scale_of(g, real, NULL, 0),
                          zero_of(g, *type, NULL, 0)};
  memcpy(reads, all, sizeof(all));
  return 8;
}

void make_quantized_product(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, BYTES, 2, 4, TRUE), reads[MAX_READS], type;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], columns = extent(g);
  memcpy(shape, in.shape, sizeof(shape));
  shape[in.rank - 1] = columns;
  int32_t w =
      given(g, byte_type(g), (int64_t[]){in.shape[in.rank - 1], columns}, 2, below(g, 3) > 0);
  int32_t count = quantized_reads(g, row, x, w, columns, reads, &type);
  bits(g, apply(g, row->op, g_strdup(""), reads, count, type, shape, in.rank), 0,
       type == INT32 ? 24 : 8);
}

/* Few or many rows, columns that fill panels of 16 or not, and a last block that is full or not. */
void make_few_bits_product(RandomGraph *g, const Row *row) {
  int64_t size = between(g, 1, 3), num_bits = 1 << size, block = 16, blocks = between(g, 1, 3);
  int64_t used = blocks * block - (below(g, 3) == 0 ? below(g, (uint32_t)block) : 0);
  int64_t columns = below(g, 2) ? 16 * between(g, 1, 4) : extent_of_some(g);
  int64_t shape[3] = {between(g, 1, 3), below(g, 2) ? between(g, 14, 18) : between(g, 1, 40), used};
  int32_t rank = 2 + (int32_t)below(g, 2);
  int32_t x = given(g, FLOAT, shape + 3 - rank, rank, FALSE);
  int64_t b[3] = {columns, blocks, block * num_bits / 8}, scales = columns * blocks;
  int64_t zeros = columns * ((blocks * num_bits + 7) / 8);
  int32_t reads[6] = {x, weights(g, UINT8, b, 3), scale_of(g, FLOAT, &scales, 1), -1, -1, -1};
  const RandomValue in = *random_graph_value(g, x);
  if (below(g, 2))
    reads[3] = weights(g, UINT8, &zeros, 1);
  if (below(g, 3) == 0)
    reads[4] = integers(g, INT32, &used, 1, 0, blocks - 1);
  if (below(g, 2))
    reads[5] = weights(g, FLOAT, &columns, 1);
  shape[2] = columns;
  bits(g,
       apply(g, row->op,
             joined(g_strdup_printf("bits=%d K=%d N=%d block_size=%d", (int)num_bits, (int)used,
                                    (int)columns, (int)block),
                    choice(g, row->attrs)),
             reads, 6, FLOAT, shape + 3 - rank, rank),
       in.fraction + 3, in.magnitude + 16);
}

/* Codes of the formats FP4 and NF4, in blocks that do not end with a column. */
void make_code_product(RandomGraph *g, const Row *row) {
  int64_t columns = between(g, 1, 20), block = 16 << below(g, 3);
  int64_t rows = below(g, 2) ? block * between(g, 1, 2) : between(g, 1, 40);
  int64_t count = rows * columns, bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
  int64_t shape[2] = {between(g, 1, 18), rows};
  int32_t x = given(g, FLOAT, shape, 2, FALSE);
  int32_t reads[3] = {x, weights(g, UINT8, &bytes, 1), scale_of(g, FLOAT, &blocks, 1)};
  shape[1] = columns;
  rounded(g, apply(g, row->op,
                   joined(g_strdup_printf("K=%d N=%d block_size=%d", (int)rows, (int)columns,
                                          (int)block),
                          choice(g, row->attrs)),
                   reads, 3, FLOAT, shape, 2));
}

/* Different numbers for all experts in each row. */
static int32_t router(RandomGraph *g, int64_t rows, int64_t experts) {
  int32_t scores = weights(g, FLOAT, (int64_t[]){rows, experts}, 2);
  int64_t first = below(g, 9);
  for (int64_t i = 0; i < rows * experts; i++)
    put(random_graph_value(g, scores)->data, FLOAT, i,
        0.25 * (double)(1 + (i / experts + 2 * first + i) % experts));
  return scores;
}

/* Reads the quantised weights of a projection: bytes, scales and, perhaps, zero points. */
static void read_projection(RandomGraph *g, int64_t num_bits, int64_t block, const int64_t *shape,
                            int32_t *numbers, int32_t *scales, int32_t *zeros) {
  int64_t bytes[] = {shape[0], shape[1], shape[2] * num_bits / 8};
  int64_t blocks[] = {shape[0], shape[1], block ? shape[2] / block : 1};
  int64_t of_blocks[] = {shape[0], shape[1], (blocks[2] * num_bits + 7) / 8};
  int64_t of_rows[] = {shape[0], (shape[1] * num_bits + 7) / 8};
  *numbers = weights(g, UINT8, bytes, 3);
  *scales = scale_of(g, FLOAT, blocks, block ? 3 : 2);
  if (below(g, 2))
    *zeros = block ? weights(g, UINT8, of_blocks, 3) : weights(g, UINT8, of_rows, 2);
}

static char *expert_attrs(RandomGraph *g, int64_t k, gboolean is_gated) {
  char *attrs = g_strdup_printf("k=%d", (int)k);
  attrs = joined(attrs, choice(g, "|normalize_routing_weights=1 use_sparse_mixer=0 "
                                  "swiglu_limit_after_activation=0"));
  return joined(attrs, is_gated
                           ? choice(g, "activation_type=swiglu swiglu_fusion=1|"
                                       "activation_type=swiglu swiglu_fusion=1 swiglu_limit=1.5f "
                                       "activation_alpha=1.5f activation_beta=1.0f")
                           : choice(g, "|activation_type=gelu|activation_type=silu|"
                                       "activation_type=identity"));
}

static char *quantized_expert_attrs(RandomGraph *g, int num_bits, int64_t block) {
  char *attrs = g_strdup_printf("expert_weight_bits=%d%s", num_bits, block ? " block_size=16" : "");
  if (below(g, 2))
    attrs = joined(attrs, g_strdup("quant_type=int weights_prepacked=0 accuracy_level=1"));
  if (below(g, 2))
    attrs = joined(attrs, g_strdup_printf("fc1_expert_weight_bits=%d fc2_expert_weight_bits=%d "
                                          "fc3_expert_weight_bits=%d",
                                          num_bits, num_bits, num_bits));
  return attrs;
}

void make_experts(RandomGraph *g, const Row *row) {
  gboolean is_quantized = strchr(row->op, 'Q') != NULL, is_gated = below(g, 2) == 0;
  int64_t num_bits = 2 << below(g, 3), block = below(g, 2) ? 16 : 0, experts = between(g, 1, 5);
  int64_t width = is_quantized ? 16 * between(g, 1, 2) : between(g, 1, 20);
  int64_t inner = is_quantized ? 16 * between(g, 1, 2) : between(g, 1, 20);
  int64_t first[] = {experts, is_gated ? 2 * inner : inner, width};
  int64_t second[] = {experts, width, inner}, shape[] = {between(g, 1, 2), between(g, 1, 5), width};
  int32_t rank = 2 + (int32_t)below(g, 2), reads[15], count = is_quantized ? 15 : 6;
  int64_t rows = rank == 3 ? shape[0] * shape[1] : shape[1];
  for (int32_t i = 0; i < 15; i++)
    reads[i] = -1;
  reads[0] = given(g, FLOAT, shape + 3 - rank, rank, FALSE);
  reads[1] = router(g, rows, experts);
  if (is_quantized) {
    read_projection(g, num_bits, block, first, &reads[2], &reads[3], &reads[11]);
    read_projection(g, num_bits, block, second, &reads[5], &reads[6], &reads[12]);
    if (below(g, 2))
      reads[14] = weights(g, FLOAT, (int64_t[]){rows, experts}, 2);
  } else {
    reads[2] = weights(g, FLOAT, first, 3);
    reads[4] = weights(g, FLOAT, second, 3);
  }
  if (below(g, 2))
    reads[is_quantized ? 4 : 3] = weights(g, FLOAT, first, 2);
  if (below(g, 2))
    reads[is_quantized ? 7 : 5] = weights(g, FLOAT, second, 2);
  char *attrs = expert_attrs(g, between(g, 1, experts), is_gated);
  if (is_quantized)
    attrs = joined(attrs, quantized_expert_attrs(g, (int)num_bits, block));
  int32_t result = apply(g, row->op, attrs, reads, count, FLOAT, shape + 3 - rank, rank);
  rounded(g, result);
  random_graph_value(g, result)->scale = is_quantized ? 4096 : 64; /* terms that cancel */
}

/* Integers of a type, also of one that is only stored. */
static int32_t stored(RandomGraph *g, int32_t type, const int64_t *shape) {
  if (type == UINT8)
    return weights(g, type, shape, 2);
  int32_t numbers = integers(g, FLOAT, shape, 2, type == INT4 ? -8 : 0, type == INT4 ? 7 : 15);
  return apply(g, "Cast", g_strdup_printf("to=%d", type), &numbers, 1, type, shape, 2);
}

/* Rows of a table of bytes, which are one element or two, or rows or columns of a table of elements
 * of 4 bits. */
void make_quantized_table(RandomGraph *g, const Row *row) {
  static const int8_t types[] = {UINT8, UINT8, UINT4, INT4};
  int64_t kind = below(g, 4), block = 16, rows = between(g, 1, 9), columns = 2 * between(g, 1, 20);
  int64_t blocks = (columns + block - 1) / block, is_pair = kind == 0 ? 2 : 1;
  int32_t turned = kind > 1 && below(g, 2), rank = (int32_t)between(g, 1, 2);
  int64_t data[2], scales[2], zeros[2], places[2] = {small_extent(g, 4), between(g, 1, 3)}, out[3];
  data[turned] = scales[turned] = zeros[turned] = rows;
  data[!turned] = columns / is_pair;
  scales[!turned] = blocks;
  zeros[!turned] = (blocks + is_pair - 1) / is_pair;
  int32_t reads[4] = {stored(g, types[kind], data), indices(g, places, rank, rows),
                      scale_of(g, FLOAT, scales, 2), -1};
  if (below(g, 2))
    reads[3] = stored(g, types[kind], zeros);
  memcpy(out + turned, places, sizeof(places));
  out[turned ? 0 : rank] = columns;
  char *attrs = g_strdup_printf("bits=%d block_size=%d gather_axis=%d quantize_axis=%d",
                                kind == 1 ? 8 : 4, (int)block, turned, !turned);
  bits(g, apply(g, row->op, attrs, reads, 4, FLOAT, out, rank + 1), 2, 11);
}

void make_quantized_conv(RandomGraph *g, const Row *row) {
  int32_t reads[MAX_READS], type, group = below(g, 3) ? 1 : 2;
  int64_t channels = group * between(g, 1, 20), per_group = between(g, 1, 9), kernel[2];
  int64_t x_shape[4] = {between(g, 1, 2), group * per_group, between(g, 3, 9), between(g, 3, 17)};
  int64_t shape[4] = {x_shape[0], channels};
  char *attrs = any_window_attrs(g, x_shape, FALSE, shape, kernel);
  int32_t x = given(g, byte_type(g), x_shape, 4, FALSE);
  int32_t w = weights(g, byte_type(g), (int64_t[]){channels, per_group, kernel[0], kernel[1]}, 4);
  int32_t count = quantized_reads(g, row, x, w, channels, reads, &type);
  if (type != INT32 && below(g, 2))
    reads[count++] = weights(g, INT32, &channels, 1);
  attrs = joined(attrs, g_strdup_printf("group=%d", (int)group));
  bits(g, apply(g, row->op, attrs, reads, count, type, shape, 4), 0, type == INT32 ? 24 : 8);
}
