/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of the generators of random graphs: types, random numbers, values and nodes. */
#ifndef BACKPLANE_TESTS_GRAPH_RANDOM_MAKE_H
#define BACKPLANE_TESTS_GRAPH_RANDOM_MAKE_H

#include "tests/graph/random_graph.h"

enum {
  FLOAT = 1,
  UINT8 = 2,
  INT8 = 3,
  UINT16 = 4,
  INT16 = 5,
  INT32 = 6,
  INT64 = 7,
  BOOL = 9,
  FLOAT16 = 10,
  DOUBLE = 11,
  UINT32 = 12,
  UINT64 = 13,
  BFLOAT16 = 16,
  FLOAT8E4M3FN = 17,
  FLOAT8E4M3FNUZ = 18,
  FLOAT8E5M2 = 19,
  FLOAT8E5M2FNUZ = 20,
  UINT4 = 21,
  INT4 = 22,
  FLOAT4E2M1 = 23,
  UINT2 = 25,
  INT2 = 26
};

/* The types that are only stored. */
#define NARROW_TYPES                                                                               \
  FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4, FLOAT4E2M1, UINT2, INT2

/* Sets of types, by 1 << type. 16-bit floats have few exact bits. */
#define HALVES   (1 << FLOAT16 | 1 << BFLOAT16)
#define FLOATS   (1 << FLOAT | 1 << DOUBLE | HALVES)
#define UNSIGNED (1 << UINT8 | 1 << UINT16 | 1 << UINT32 | 1 << UINT64)
#define INTEGERS (UNSIGNED | 1 << INT8 | 1 << INT16 | 1 << INT32 | 1 << INT64)
#define WORDS    (1 << INT32 | 1 << INT64 | 1 << UINT32 | 1 << UINT64)
#define NUMBERS  (FLOATS | INTEGERS)
#define ANY      (NUMBERS | 1 << BOOL)

#define MAX_ELEMENTS 2500 /* most elements of a value that is read again */

/* An operator, its generator, and the generator's parameters. */
typedef struct Row {
  const char *op;
  void (*make)(RandomGraph *g, const struct Row *row);
  const char *attrs; /* choices of attributes, with bars between them */
  int32_t types;
  int32_t how; /* a set of the flags below */
} Row;

enum {
  EXACT = 1, /* results have at least the operands' precision */
  SHARP = 2, /* discontinuous: operands must be exact, because a rounding could change the result */
  WHOLE = 4, /* gives integers */
};

/* The `fraction` of a value that is a rounded result. */
enum { ROUNDED = -1 };

int64_t below(RandomGraph *g, int64_t end);
int64_t between(RandomGraph *g, int64_t first, int64_t last);
/* Return an extent of any size, and an extent from 1 to `last`; each is rarely 0. */
int64_t extent(RandomGraph *g);
int64_t small_extent(RandomGraph *g, int64_t last);
/* Returns an extent of at least 1. */
int64_t extent_of_some(RandomGraph *g);
/* Returns a number from 1 to `count`; 0 if `count` is 0. */
int64_t part_of(RandomGraph *g, int64_t count);
char *choice(RandomGraph *g, const char *words);
/* Joins two lists of attributes, which are freed. */
char *joined(char *a, char *b);
gboolean is_float(int32_t type);
void put(void *data, int32_t type, int64_t at, double value);
/* Returns `usual`, or, if the graph has rare types, a type of the set `types`. */
int32_t type_of(RandomGraph *g, int32_t usual, int32_t types);
int32_t given(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank, gboolean is_part);
int32_t weights(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank);
/* Makes a list of int64; whole_list makes a list of the type of the next node's indices. */
int32_t int_list(RandomGraph *g, const int64_t *ints, int32_t count);
int32_t whole_list(RandomGraph *g, const int64_t *ints, int32_t count);
int32_t number(RandomGraph *g, int32_t type, double content);
int32_t pick_of(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank, gboolean exact);
int32_t pick(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank);
/* Picks a value that has elements. */
int32_t pick_some(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank);
int32_t apply(RandomGraph *g, const char *op, char *attrs, const int32_t *reads, int32_t num_reads,
              int32_t type, const int64_t *shape, int32_t rank);
int32_t add_result(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank);
/* Appends a result that is absent. */
void add_absent(RandomGraph *g);
void rounded(RandomGraph *g, int32_t result);
void bits(RandomGraph *g, int32_t result, int32_t fraction, int32_t magnitude);
void finish(RandomGraph *g, const Row *row, int32_t result);
int32_t new_picture(RandomGraph *g, int32_t types);
int32_t picture(RandomGraph *g, int32_t types);
int32_t picture_without_specials(RandomGraph *g, int32_t types);
int32_t indices(RandomGraph *g, const int64_t *shape, int32_t rank, int64_t end);
int32_t integers(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank, int64_t first,
                 int64_t last);
int32_t positive(RandomGraph *g, int32_t type, int64_t count);
int32_t operand(RandomGraph *g, int32_t x, gboolean exact);
/* A scale, a power of two, and a zero point; of rank 0 or 1 (random_quantised.c). */
int32_t scale_of(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank);
int32_t zero_of(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank);
/* The attributes of windows over a picture; sets the last two extents of the output, and the
 * extents of a window (random_windows.c). */
char *any_window_attrs(RandomGraph *g, const int64_t *in, gboolean is_ceil, int64_t *out,
                       int64_t *kernel);

/* random_layers.c */
void make_unpool(RandomGraph *g, const Row *row);
void make_gated(RandomGraph *g, const Row *row);
void make_tensor_scatter(RandomGraph *g, const Row *row);
void make_causal_conv(RandomGraph *g, const Row *row);
void make_loss(RandomGraph *g, const Row *row);
void make_center(RandomGraph *g, const Row *row);
void make_norm(RandomGraph *g, const Row *row);
void make_recurrent(RandomGraph *g, const Row *row);
void make_byte_lstm(RandomGraph *g, const Row *row);

/* random_moves.c */
void make_transpose(RandomGraph *g, const Row *row);
void make_concat(RandomGraph *g, const Row *row);
void make_slice(RandomGraph *g, const Row *row);
void make_split(RandomGraph *g, const Row *row);
void make_pad(RandomGraph *g, const Row *row);
void make_expand(RandomGraph *g, const Row *row);
void make_tile(RandomGraph *g, const Row *row);
void make_gather(RandomGraph *g, const Row *row);
void make_gather_nd(RandomGraph *g, const Row *row);
void make_scatter_elements(RandomGraph *g, const Row *row);
void make_scatter_nd(RandomGraph *g, const Row *row);
void make_topk(RandomGraph *g, const Row *row);
void make_boxes(RandomGraph *g, const Row *row);
void make_reverse_sequence(RandomGraph *g, const Row *row);
void make_one_hot(RandomGraph *g, const Row *row);
void make_eye(RandomGraph *g, const Row *row);
void make_marked(RandomGraph *g, const Row *row);
void make_unique(RandomGraph *g, const Row *row);
void make_dropout(RandomGraph *g, const Row *row);
void make_depth_space(RandomGraph *g, const Row *row);
void make_trilu(RandomGraph *g, const Row *row);
void make_affine_grid(RandomGraph *g, const Row *row);
void make_grid_sample(RandomGraph *g, const Row *row);

/* random_attention.c */
void make_rotary(RandomGraph *g, const Row *row);
void make_attention(RandomGraph *g, const Row *row);
void make_microsoft_rotary(RandomGraph *g, const Row *row);
void make_multi_head(RandomGraph *g, const Row *row);
void make_microsoft_attention(RandomGraph *g, const Row *row);
void make_quantized_attention(RandomGraph *g, const Row *row);
void make_group_query(RandomGraph *g, const Row *row);

/* random_fused.c */
void make_biased(RandomGraph *g, const Row *row);
void make_skip_norm(RandomGraph *g, const Row *row);
void make_embedding(RandomGraph *g, const Row *row);
void make_fused_product(RandomGraph *g, const Row *row);
void make_fused_gemm(RandomGraph *g, const Row *row);
void make_byte_function(RandomGraph *g, const Row *row);
void make_byte_binary(RandomGraph *g, const Row *row);
void make_byte_where(RandomGraph *g, const Row *row);
void make_byte_concat(RandomGraph *g, const Row *row);
void make_byte_pool(RandomGraph *g, const Row *row);
void make_byte_product(RandomGraph *g, const Row *row);
void make_dynamic_product(RandomGraph *g, const Row *row);
void make_byte_gemm(RandomGraph *g, const Row *row);

/* random_windows.c */
void make_conv(RandomGraph *g, const Row *row);
void make_conv_transpose(RandomGraph *g, const Row *row);
void make_pool(RandomGraph *g, const Row *row);
void make_global_pool(RandomGraph *g, const Row *row);
void make_picture(RandomGraph *g, const Row *row);

/* random_pictures.c */
void make_resize(RandomGraph *g, const Row *row);
void make_col2im(RandomGraph *g, const Row *row);
void make_deform_conv(RandomGraph *g, const Row *row);
void make_roi(RandomGraph *g, const Row *row);
void make_det(RandomGraph *g, const Row *row);
void make_linear_attention(RandomGraph *g, const Row *row);

/* random_quantised.c */
void make_quantize(RandomGraph *g, const Row *row);
void make_dynamic_quantize(RandomGraph *g, const Row *row);
void make_quantized_product(RandomGraph *g, const Row *row);
void make_quantized_table(RandomGraph *g, const Row *row);
void make_few_bits_product(RandomGraph *g, const Row *row);
void make_code_product(RandomGraph *g, const Row *row);
void make_experts(RandomGraph *g, const Row *row);
void make_quantized_conv(RandomGraph *g, const Row *row);

/* random_signals.c */
void make_window(RandomGraph *g, const Row *row);
void make_mel(RandomGraph *g, const Row *row);
void make_dft(RandomGraph *g, const Row *row);
void make_stft(RandomGraph *g, const Row *row);

#endif
