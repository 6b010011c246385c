/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of attention and rotary embeddings for random graphs, of ONNX and of com.microsoft. */
#include "tests/graph/random_make.h"

#include <string.h>

/* Appends the attribute to a list of attributes. */
static void append(GString *attrs, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void append(GString *attrs, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (attrs->len)
    g_string_append_c(attrs, ' ');
  g_string_append_vprintf(attrs, format, args);
  va_end(args);
}

/* ---- Rotary embeddings ------------------------------------------------------------------- */

typedef struct Rotary {
  int64_t batch, heads, length, half, size;
  gboolean has_axis; /* whether the heads are an axis */
  int64_t shape[4];
  int32_t rank;
} Rotary;

static Rotary any_rotary(RandomGraph *g) {
  Rotary r = {.batch = small_extent(g, 2),
              .heads = between(g, 1, 3),
              .length = small_extent(g, 5),
              .half = between(g, 1, 4),
              .has_axis = below(g, 2) == 1};
  r.size = 2 * r.half + below(g, 2) * 3;
  const int64_t with_axis[4] = {r.batch, r.heads, r.length, r.size};
  const int64_t without[4] = {r.batch, r.length, r.heads * r.size};
  memcpy(r.shape, r.has_axis ? with_axis : without, sizeof(r.shape));
  r.rank = r.has_axis ? 4 : 3;
  return r;
}

static char *rotary_attrs(RandomGraph *g, const Rotary *r) {
  return g_strdup_printf("num_heads=%d interleaved=%d rotary_embedding_dim=%d", (int)r->heads,
                         (int)below(g, 2), (int)(2 * r->half));
}

/* One token after the other, or in any order by their positions. */
void make_rotary(RandomGraph *g, const Row *row) {
  Rotary r = any_rotary(g);
  gboolean has_places = below(g, 2) == 1;
  int64_t rows = 7, cache[3] = {r.batch, has_places ? rows : r.length, r.half};
  int32_t x = given(g, g->real, r.shape, r.rank, FALSE);
  int32_t reads[4] = {x, given(g, g->real, cache + has_places, 3 - has_places, TRUE),
                      given(g, g->real, cache + has_places, 3 - has_places, TRUE), -1};
  if (has_places)
    reads[3] = indices(g, (int64_t[]){r.batch, r.length}, 2, rows);
  rounded(g, apply(g, row->op, rotary_attrs(g, &r), reads, has_places ? 4 : 3, g->real, r.shape,
                   r.rank));
}

/* The position of each token, or the position of the first token alone. */
void make_microsoft_rotary(RandomGraph *g, const Row *row) {
  Rotary r = any_rotary(g);
  gboolean is_first = below(g, 2) == 1;
  int64_t one = 1, places[2] = {r.batch, r.length}, cache[2] = {9, r.half};
  int32_t reads[4] = {given(g, g->real, r.shape, r.rank, FALSE),
                      is_first ? integers(g, INT64, &one, 1, 0, 4)
                               : integers(g, INT64, places, 2, 0, 8),
                      given(g, g->real, cache, 2, TRUE), given(g, g->real, cache, 2, TRUE)};
  char *attrs = joined(rotary_attrs(g, &r), choice(g, row->attrs));
  rounded(g, apply(g, row->op, attrs, reads, 4, g->real, r.shape, r.rank));
}

/* ---- ONNX's attention -------------------------------------------------------------------- */

typedef struct Heads {
  int32_t type;
  int64_t batch, heads, groups;       /* heads of keys, and queries' heads for each of them */
  int64_t queries, keys, past, spare; /* spare: places of the past after its last key */
  int64_t size, width;                /* size of queries' and keys' heads, and of values' heads */
  gboolean has_axis;                  /* whether the heads are an axis */
} Heads;

static Heads any_heads(RandomGraph *g) {
  Heads h = {.type = g->real,
             .batch = small_extent(g, 2),
             .heads = between(g, 1, 2),
             .groups = between(g, 1, 3),
             .queries = small_extent(g, 5),
             .keys = between(g, 1, 7),
             .past = below(g, 2) ? between(g, 1, 4) : 0,
             .size = between(g, 1, 9),
             .has_axis = below(g, 2) == 1};
  h.width = below(g, 3) ? h.size : between(g, 1, 9);
  return h;
}

/* Makes queries, keys or values: (batch, heads, length, size), or (batch, length, heads * size). */
static int32_t with_heads(RandomGraph *g, const Heads *h, int64_t heads, int64_t length,
                          int64_t size) {
  int64_t with_axis[4] = {h->batch, heads, length, size};
  int64_t without[3] = {h->batch, length, heads * size};
  return given(g, h->type, h->has_axis ? with_axis : without, h->has_axis ? 4 : 3, FALSE);
}

/* A mask for all keys or, as bool or as numbers, for the first keys; with up to two leading axes.
 */
static int32_t any_mask(RandomGraph *g, const Heads *h) {
  int64_t all = h->past + h->keys, columns = below(g, 4) ? all : between(g, 1, all);
  int64_t shape[4] = {below(g, 2) ? h->batch : 1, below(g, 2) ? h->heads * h->groups : 1,
                      h->queries, columns};
  int32_t rank = (int32_t)between(g, 2, 4);
  return given(g, below(g, 2) ? BOOL : type_of(g, h->type, ANY), shape + 4 - rank, rank,
               below(g, 2) == 0);
}

static char *attention_attrs(RandomGraph *g, const Row *row, const Heads *h) {
  char *first = choice(g, row->attrs);
  GString *attrs = g_string_new(first);
  g_free(first);
  if (!h->has_axis)
    append(attrs, "q_num_heads=%d kv_num_heads=%d", (int)(h->heads * h->groups), (int)h->heads);
  if (below(g, 4) == 0)
    append(attrs, "left_window_size=%d", (int)below(g, 4));
  if (below(g, 4) == 0)
    append(attrs, "right_window_size=%d", (int)below(g, 4));
  return g_string_free(attrs, FALSE);
}

/* The outputs after the first one: the keys, the values, and the products at one of their
 * stages. */
static void add_presents(RandomGraph *g, const Heads *h, int32_t count) {
  int64_t all = h->past + MAX(h->keys, h->spare), heads = h->heads * h->groups;
  int64_t shapes[3][4] = {{h->batch, h->heads, all, h->size},
                          {h->batch, h->heads, all, h->width},
                          {h->batch, heads, h->queries, all}};
  for (int32_t i = 0; i < count; i++)
    rounded(g, add_result(g, h->type, shapes[i], 4));
}

/* Adds the error of a result that the operator rounds to float32. */
static void round_to_float(RandomGraph *g, int32_t result) {
  RandomValue *value = random_graph_value(g, result);
  value->error = MAX(value->error, random_graph_rounding(FLOAT));
}

/* Attention with queries that share keys; with past keys, or with a number of valid keys for each
 * batch; with masks and windows. */
void make_attention(RandomGraph *g, const Row *row) {
  Heads h = any_heads(g);
  int64_t old[2][4] = {{h.batch, h.heads, h.past, h.size}, {h.batch, h.heads, h.past, h.width}};
  int64_t heads = h.heads * h.groups;
  int64_t shapes[2][4] = {{h.batch, h.queries, heads * h.width},
                          {h.batch, heads, h.queries, h.width}};
  char *attrs = attention_attrs(g, row, &h);
  int32_t reads[7] = {with_heads(g, &h, heads, h.queries, h.size),
                      with_heads(g, &h, h.heads, h.keys, h.size),
                      with_heads(g, &h, h.heads, h.keys, h.width),
                      -1,
                      -1,
                      -1,
                      -1};
  if (below(g, 2))
    reads[3] = any_mask(g, &h);
  for (int32_t i = 0; i < 2 && h.past; i++)
    reads[4 + i] = given(g, h.type, old[i], 4, FALSE);
  if (!h.past && below(g, 3) == 0)
    reads[6] = integers(g, INT64, &h.batch, 1, 0, h.keys);
  int32_t outputs = below(g, 2) ? 0 : (int32_t)below(g, 4);
  if (outputs == 3)
    attrs = joined(attrs, g_strdup_printf("qk_matmul_output_mode=%d", (int)below(g, 4)));
  gboolean has_float = strstr(attrs, "softmax_precision=1") != NULL;
  int32_t result =
      apply(g, row->op, attrs, reads, 7, h.type, shapes[h.has_axis], h.has_axis ? 4 : 3);
  rounded(g, result);
  if (has_float)
    round_to_float(g, result);
  add_presents(g, &h, outputs);
}

/* ---- com.microsoft's attention ----------------------------------------------------------- */

/* The attributes of both operators. A mask adds a number to the products of keys that it hides. */
static GString *microsoft_attrs(RandomGraph *g, const Heads *h) {
  GString *attrs = g_string_new("");
  append(attrs, "num_heads=%d", (int)h->heads);
  if (below(g, 4) == 0)
    append(attrs, "mask_filter_value=-100.0f");
  if (below(g, 4) == 0)
    append(attrs, "scale=0.25f");
  return attrs;
}

/* The number of valid keys of each batch, or a mask of keys, or of queries and keys. */
static int32_t key_mask(RandomGraph *g, const Heads *h) {
  int64_t all = h->past + h->keys, shape[3] = {h->batch, all, all},
          each[] = {h->batch, h->queries, all};
  int32_t rank = (int32_t)between(g, 1, 3);
  return rank == 1 ? integers(g, INT32, shape, 1, 1, all)
                   : integers(g, INT32, rank == 3 ? each : shape, rank, 0, 1);
}

static int32_t products_bias(RandomGraph *g, const Heads *h) {
  int64_t shape[4] = {below(g, 2) ? h->batch : 1, below(g, 2) ? h->heads * h->groups : 1,
                      h->queries, h->past + h->keys};
  return given(g, h->type, shape, 4, FALSE);
}

/* Keys and values of three or four dimensions beside queries of three, with one bias for all. */
void make_multi_head(RandomGraph *g, const Row *row) {
  Heads h = any_heads(g);
  h.groups = 1;
  h.has_axis = FALSE;
  gboolean is_causal = below(g, 4) == 0, has_axis = below(g, 3) == 0;
  if (is_causal) {
    h.queries = h.keys;
    h.past = 0;
  }
  int64_t old[2][4] = {{h.batch, h.heads, h.past, h.size}, {h.batch, h.heads, h.past, h.width}};
  int64_t shape[3] = {h.batch, h.queries, h.heads * h.width};
  int64_t bias = h.heads * (2 * h.size + h.width);
  int32_t reads[8] = {with_heads(g, &h, h.heads, h.queries, h.size), -1, -1, -1, -1, -1, -1, -1};
  h.has_axis = has_axis;
  reads[1] = with_heads(g, &h, h.heads, h.keys, h.size);
  reads[2] = with_heads(g, &h, h.heads, h.keys, h.width);
  if (!has_axis && below(g, 2))
    reads[3] = weights(g, h.type, &bias, 1);
  if (below(g, 3) == 0)
    reads[4] = key_mask(g, &h);
  if (below(g, 3) == 0)
    reads[5] = products_bias(g, &h);
  for (int32_t i = 0; i < 2 && h.past; i++)
    reads[6 + i] = given(g, h.type, old[i], 4, FALSE);
  GString *attrs = microsoft_attrs(g, &h);
  if (is_causal)
    append(attrs, "unidirectional=1");
  rounded(g, apply(g, row->op, g_string_free(attrs, FALSE), reads, 8, h.type, shape, 3));
  add_presents(g, &h, h.past ? 2 : 0);
}

/* The weights of queries, keys and values are one matrix; past keys and values are one tensor. */
void make_microsoft_attention(RandomGraph *g, const Row *row) {
  Heads h = any_heads(g);
  h.groups = 1;
  h.has_axis = FALSE;
  h.keys = h.queries = between(g, 1, 5);
  if (h.past || below(g, 2))
    h.width = h.size;
  int64_t inputs = between(g, 1, 9), columns = h.heads * (2 * h.size + h.width);
  int64_t x[3] = {h.batch, h.queries, inputs}, w[2] = {inputs, columns};
  int64_t old[5] = {2, h.batch, h.heads, h.past, h.size};
  int64_t present[5] = {2, h.batch, h.heads, h.past + h.keys, h.size};
  int64_t out[3] = {h.batch, h.queries, h.heads * h.width};
  int32_t reads[6] = {given(g, h.type, x, 3, FALSE),
                      weights(g, h.type, w, 2),
                      below(g, 4) ? weights(g, h.type, &columns, 1) : -1,
                      below(g, 3) == 0 ? key_mask(g, &h) : -1,
                      h.past ? given(g, h.type, old, 5, FALSE) : -1,
                      below(g, 3) == 0 ? products_bias(g, &h) : -1};
  GString *attrs = microsoft_attrs(g, &h);
  if (below(g, 3) == 0)
    append(attrs, "unidirectional=1");
  if (h.width != h.size || below(g, 3) == 0)
    append(attrs, "qkv_hidden_sizes=%d,%d,%d", (int)(h.heads * h.size), (int)(h.heads * h.size),
           (int)(h.heads * h.width));
  char *more = joined(g_string_free(attrs, FALSE), choice(g, row->attrs));
  rounded(g, apply(g, row->op, more, reads, 6, h.type, out, 3));
  if (h.past)
    rounded(g, add_result(g, h.type, present, 5));
}

/* Bytes and a matrix of bytes, with a scale and a zero point for each column or for all. */
void make_quantized_attention(RandomGraph *g, const Row *row) {
  Heads h = any_heads(g);
  h.type = FLOAT;
  h.groups = 1;
  h.has_axis = FALSE;
  h.keys = h.queries = between(g, 1, 5);
  h.width = h.size;
  int64_t inputs = between(g, 1, 9), columns = 3 * h.heads * h.size, rank = below(g, 2);
  int64_t x[3] = {h.batch, h.queries, inputs}, w[2] = {inputs, columns};
  int64_t old[5] = {2, h.batch, h.heads, h.past, h.size};
  int64_t present[5] = {2, h.batch, h.heads, h.past + h.keys, h.size};
  int64_t out[3] = {h.batch, h.queries, h.heads * h.size};
  int32_t types[2] = {below(g, 2) ? UINT8 : INT8, below(g, 2) ? UINT8 : INT8};
  int32_t reads[9] = {given(g, types[0], x, 3, FALSE),
                      weights(g, types[1], w, 2),
                      weights(g, FLOAT, &columns, 1),
                      scale_of(g, FLOAT, NULL, 0),
                      scale_of(g, FLOAT, &columns, (int32_t)rank),
                      below(g, 3) == 0 ? key_mask(g, &h) : -1,
                      below(g, 4) ? zero_of(g, types[0], NULL, 0) : -1,
                      below(g, 4) ? zero_of(g, types[1], &columns, (int32_t)rank) : -1,
                      h.past ? given(g, FLOAT, old, 5, FALSE) : -1};
  GString *attrs = microsoft_attrs(g, &h);
  if (below(g, 3) == 0)
    append(attrs, "unidirectional=1");
  char *more = joined(g_string_free(attrs, FALSE), choice(g, row->attrs));
  rounded(g, apply(g, row->op, more, reads, 9, FLOAT, out, 3));
  if (h.past)
    rounded(g, add_result(g, FLOAT, present, 5));
}

/* Sets the inputs that count keys; a batch may have fewer keys than the longest batch. With fewer
 * keys, elements of the presents are undefined; onnxruntime's differ from ours. */
static void count_keys(RandomGraph *g, const Heads *h, int32_t *reads) {
  int64_t all = h->past + h->keys, one = 1;
  int32_t least = (int32_t)(g->has_rare_types && h->batch > 1 ? h->keys - 1 : all - 1);
  reads[5] = integers(g, INT32, &h->batch, 1, least, all - 1);
  reads[6] = integers(g, INT32, &one, 1, all, all);
}

static void set_rotary(RandomGraph *g, const Heads *h, GString *attrs, int32_t *reads) {
  int64_t cache[2] = {h->past + MAX(h->keys, h->spare) + below(g, 3), between(g, 1, h->size / 2)};
  int64_t places[2] = {h->batch, h->keys};
  append(attrs, "do_rotary=1 rotary_interleaved=%d", (int)below(g, 2));
  reads[7] = given(g, h->type, cache, 2, TRUE);
  reads[8] = given(g, h->type, cache, 2, TRUE);
  if (below(g, 3) == 0)
    reads[9] = integers(g, INT64, places, 2, 0, h->past ? cache[0] - 1 : 0);
}

void make_group_query(RandomGraph *g, const Row *row) {
  Heads h = any_heads(g);
  h.has_axis = FALSE;
  h.batch = between(g, 1, 2);
  h.width = h.size = between(g, 1, 4) * 2;
  h.queries = h.keys = between(g, 1, 4);
  h.spare = h.past && g->has_rare_types && below(g, 2) ? between(g, 1, 5) : 0;
  gboolean is_packed = below(g, 3) == 0;
  int64_t heads = h.heads * h.groups, old[4] = {h.batch, h.heads, h.past + h.spare, h.size};
  int64_t out[3] = {h.batch, h.queries, heads * h.size};
  int32_t reads[12] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  reads[0] = with_heads(g, &h, heads + (is_packed ? 2 * h.heads : 0), h.keys, h.size);
  for (int32_t i = 0; i < 2; i++) {
    if (!is_packed)
      reads[1 + i] = with_heads(g, &h, h.heads, h.keys, h.size);
    if (h.past)
      reads[3 + i] = given(g, h.type, old, 4, FALSE);
  }
  count_keys(g, &h, reads);
  GString *attrs = g_string_new("");
  append(attrs, "num_heads=%d kv_num_heads=%d", (int)heads, (int)h.heads);
  if (below(g, 2))
    set_rotary(g, &h, attrs, reads);
  if (below(g, 3) == 0)
    reads[10] = products_bias(g, &h);
  if (below(g, 3) == 0)
    reads[11] = given(g, h.type, &heads, 1, FALSE);
  if (below(g, 3) == 0)
    append(attrs, "local_window_size=%d", (int)between(g, 0, 4));
  char *all = joined(g_string_free(attrs, FALSE), choice(g, row->attrs));
  rounded(g, apply(g, row->op, all, reads, 12, h.type, out, 3));
  add_presents(g, &h, 2);
}
