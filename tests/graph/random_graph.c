/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs: input values, and a generator for each operator. */
#include "tests/graph/random_make.h"

#include <math.h>
#include <string.h>

/* ---- Random numbers ---------------------------------------------------------------------- */

int64_t below(RandomGraph *g, int64_t end) {
  g->state ^= g->state << 13;
  g->state ^= g->state >> 7;
  g->state ^= g->state << 17;
  return (int64_t)((g->state * 0x2545f4914f6cdd1du >> 33) % (uint64_t)end);
}

int64_t between(RandomGraph *g, int64_t first, int64_t last) {
  return first + below(g, last - first + 1);
}

/* Extents that are odd, or close to the lanes of vectors. */
int64_t extent_of_some(RandomGraph *g) {
  static const int8_t extents[] = {1, 2, 3, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 19, 24, 31, 33};
  return extents[below(g, G_N_ELEMENTS(extents))];
}

/* The same, and rarely 0. */
int64_t extent(RandomGraph *g) {
  return below(g, g->zero_share) ? extent_of_some(g) : 0;
}

int64_t small_extent(RandomGraph *g, int64_t last) {
  return below(g, g->zero_share) ? between(g, 1, last) : 0;
}

int64_t part_of(RandomGraph *g, int64_t count) {
  return count ? between(g, 1, count) : 0;
}

/* Returns one of the words between bars. */
char *choice(RandomGraph *g, const char *words) {
  char **parts = g_strsplit(words, "|", -1);
  char *word = g_strdup(parts[0] ? parts[below(g, g_strv_length(parts))] : "");
  g_strfreev(parts);
  return word;
}

/* ---- Values ------------------------------------------------------------------------------ */

static size_t width_of(int32_t type) {
  static const int8_t widths[] = {
      [FLOAT] = 4,   [UINT16] = 2, [INT16] = 2,  [INT32] = 4,  [INT64] = 8,
      [FLOAT16] = 2, [DOUBLE] = 8, [UINT32] = 4, [UINT64] = 8, [BFLOAT16] = 2};
  return type < (int32_t)G_N_ELEMENTS(widths) && widths[type] ? (size_t)widths[type] : 1;
}

gboolean is_float(int32_t type) {
  return (1 << type & FLOATS) != 0;
}

RandomValue *random_graph_value(const RandomGraph *graph, int32_t index) {
  return &g_array_index(graph->values, RandomValue, index);
}

gboolean random_value_is_narrow(const RandomValue *value) {
  return value->type > BFLOAT16;
}

RandomNode *random_graph_node(const RandomGraph *graph, int32_t index) {
  return &g_array_index(graph->nodes, RandomNode, index);
}

int64_t random_value_count(const RandomValue *value) {
  int64_t count = 1;
  for (int32_t i = 0; i < value->rank; i++)
    count *= value->shape[i];
  return count;
}

size_t random_value_bytes(const RandomValue *value) {
  return (size_t)random_value_count(value) * width_of(value->type);
}

/* Returns a float16 that is exact: a small multiple of 1/8. */
static uint16_t half_of(double value) {
  int exponent;
  double significand = frexp(fabs(value), &exponent);
  uint16_t sign = value < 0 ? 0x8000 : 0;
  if (value == 0)
    return 0;
  return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexp(significand, 11) & 0x3ff));
}

/* Returns a bfloat16 that is exact: the upper half of the float. */
static uint16_t bfloat_of(double value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

void put(void *data, int32_t type, int64_t at, double value) {
  if (type == FLOAT)
    ((float *)data)[at] = (float)value;
  else if (type == DOUBLE)
    ((double *)data)[at] = value;
  else if (type == FLOAT16 || type == BFLOAT16)
    ((uint16_t *)data)[at] = type == FLOAT16 ? half_of(value) : bfloat_of(value);
  else if (type == INT64 || type == UINT64)
    ((int64_t *)data)[at] = (int64_t)value;
  else if (type == INT32 || type == UINT32)
    ((int32_t *)data)[at] = (int32_t)value;
  else if (type == INT16 || type == UINT16)
    ((int16_t *)data)[at] = (int16_t)value;
  else
    ((uint8_t *)data)[at] = (uint8_t)(int)value;
}

/* Fills a value with multiples of 1/8 below 2, with integers below 8 (not negative if unsigned), or
 * with bools. */
static void fill(RandomGraph *g, RandomValue *value) {
  value->data = g_malloc0(random_value_bytes(value) + 1);
  value->fraction = is_float(value->type) ? 3 : 0;
  value->magnitude = is_float(value->type) ? 1 : 3;
  value->error = 0;
  for (int64_t i = 0; i < random_value_count(value); i++)
    put(value->data, value->type, i,
        value->type == BOOL             ? (double)below(g, 2)
        : is_float(value->type)         ? (double)between(g, -15, 15) / 8
        : (1 << value->type & UNSIGNED) ? (double)below(g, 8)
                                        : (double)between(g, -7, 7));
}

static int32_t add_value(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank) {
  RandomValue value = {.type = type, .rank = rank, .node = -1};
  g_assert_cmpint(rank, <=, MAX_RANK);
  if (rank > 0)
    memcpy(value.shape, shape, (size_t)rank * sizeof(*shape));
  g_array_append_val(g->values, value);
  return (int32_t)g->values->len - 1;
}

/* Makes an input value, as a constant or an input. */
int32_t given(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank, gboolean is_part) {
  int32_t value = add_value(g, type, shape, rank);
  fill(g, random_graph_value(g, value));
  random_graph_value(g, value)->is_part = is_part;
  return value;
}

int32_t weights(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank) {
  return given(g, type, shape, rank, TRUE);
}

int32_t int_list(RandomGraph *g, const int64_t *ints, int32_t count) {
  int32_t value = weights(g, INT64, (int64_t[]){count}, 1);
  memcpy(random_graph_value(g, value)->data, ints, (size_t)count * sizeof(*ints));
  return value;
}

int32_t number(RandomGraph *g, int32_t type, double content) {
  int32_t value = weights(g, type, NULL, 0);
  put(random_graph_value(g, value)->data, type, 0, content);
  return value;
}

/* Adds infinities and NaN at random: values computed from them are not exact. */
static void add_specials(RandomGraph *g, RandomValue *value) {
  static const float specials[] = {INFINITY, -INFINITY, NAN, -0.0f};
  int64_t count = random_value_count(value);
  if (value->type != FLOAT || count == 0)
    return;
  for (int64_t i = 0; i < 1 + count / 50; i++)
    ((float *)value->data)[below(g, count)] = specials[below(g, G_N_ELEMENTS(specials))];
  value->error = 1.2e-7;
  value->has_specials = TRUE;
}

static int32_t new_input(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank,
                         gboolean has_elements) {
  static const int8_t usual[] = {FLOAT, FLOAT, FLOAT, FLOAT, FLOAT, FLOAT16,
                                 INT32, INT64, UINT8, INT8,  BOOL};
  static const int8_t rare[] = {DOUBLE, BFLOAT16, INT16, UINT16, UINT32, UINT64};
  int32_t type, rank = (int32_t)between(g, min_rank, max_rank);
  int64_t shape[MAX_RANK], count = 1;
  do
    type = g->has_rare_types && below(g, 2) ? rare[below(g, G_N_ELEMENTS(rare))]
                                            : usual[below(g, G_N_ELEMENTS(usual))];
  while (!(1 << type & types));
  for (int32_t i = 0; i < rank; i++) {
    shape[i] = i == 0 && rank > 2 ? has_elements ? between(g, 1, 2) : small_extent(g, 2)
               : has_elements ? extent_of_some(g)
                                  : extent(g);
    while (count * shape[i] > MAX_ELEMENTS)
      shape[i] = (shape[i] + 1) / 2;
    count *= shape[i];
  }
  int32_t value = given(g, type, shape, rank, FALSE);
  return value;
}

static gboolean fits(const RandomValue *value, int32_t types, int32_t min_rank, int32_t max_rank,
                     gboolean exact) {
  return (1 << value->type & types) && value->rank >= min_rank && value->rank <= max_rank &&
         (!exact || value->error == 0) && !value->is_part &&
         random_value_count(value) <= MAX_ELEMENTS;
}

/* Picks a value for a node to read, mostly the result of another node; a new value if none fits. */
static int32_t pick_any(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank,
                        gboolean exact, gboolean has_elements) {
  for (int32_t tries = 0; tries < 12 && g->values->len; tries++) {
    int32_t back = (int32_t)below(g, tries < 6 ? MIN(g->values->len, 6) : g->values->len);
    int32_t value = (int32_t)g->values->len - 1 - back;
    if (fits(random_graph_value(g, value), types, min_rank, max_rank, exact) &&
        (!has_elements || random_value_count(random_graph_value(g, value)) > 0))
      return value;
  }
  int32_t value = new_input(g, types, min_rank, max_rank, has_elements);
  if (!exact && below(g, 8) == 0)
    add_specials(g, random_graph_value(g, value));
  return value;
}

int32_t pick_of(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank, gboolean exact) {
  return pick_any(g, types, min_rank, max_rank, exact, FALSE);
}

int32_t pick(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank) {
  return pick_of(g, types, min_rank, max_rank, FALSE);
}

int32_t pick_some(RandomGraph *g, int32_t types, int32_t min_rank, int32_t max_rank) {
  return pick_any(g, types, min_rank, max_rank, FALSE, TRUE);
}

/* ---- Nodes ------------------------------------------------------------------------------- */

double random_graph_rounding(int32_t type) {
  return type == FLOAT16    ? 1e-3
         : type == BFLOAT16 ? 8e-3
         : type == DOUBLE   ? 4e-16
         : is_float(type)   ? 2e-7
                            : 0;
}

/* Records how exact a result is: with `grows` more bits than the operands, or not exact. */
static void set_error(RandomGraph *g, const RandomNode *node, int32_t result, int32_t fraction,
                      int32_t magnitude) {
  RandomValue *value = random_graph_value(g, result);
  double error = 0;
  for (int32_t i = 0; i < node->num_reads; i++)
    if (node->reads[i] >= 0) {
      const RandomValue *read = random_graph_value(g, node->reads[i]);
      error = MAX(error, read->error);
      value->has_specials |= read->has_specials;
    }
  int32_t bits = value->type == BFLOAT16  ? 6
                 : value->type == FLOAT16 ? 9
                 : value->type == FLOAT   ? 20
                 : value->type == DOUBLE  ? 50
                                          : 30;
  if (is_float(value->type) && (fraction == ROUNDED || fraction + magnitude > bits))
    error = MAX(error, random_graph_rounding(value->type));
  value->error = error;
  value->fraction = MAX(fraction, 0);
  value->magnitude = magnitude;
}

/* Appends a node with one result; takes over `attrs`. */
int32_t apply(RandomGraph *g, const char *op, char *attrs, const int32_t *reads, int32_t num_reads,
              int32_t type, const int64_t *shape, int32_t rank) {
  RandomNode node = {.op = op, .attrs = attrs, .num_reads = num_reads, .num_results = 1};
  int32_t fraction = 0, magnitude = 0, result = add_value(g, type, shape, rank);
  memcpy(node.reads, reads, (size_t)num_reads * sizeof(*reads));
  node.results[0] = result;
  random_graph_value(g, result)->node = (int32_t)g->nodes->len;
  for (int32_t i = 0; i < num_reads; i++)
    if (reads[i] >= 0) {
      fraction = MAX(fraction, random_graph_value(g, reads[i])->fraction);
      magnitude = MAX(magnitude, random_graph_value(g, reads[i])->magnitude);
    }
  g_array_append_val(g->nodes, node);
  set_error(g, &node, result, fraction, magnitude);
  return result;
}

int32_t add_result(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank) {
  int32_t result = add_value(g, type, shape, rank);
  RandomNode *node = random_graph_node(g, (int32_t)g->nodes->len - 1);
  const RandomValue *first = random_graph_value(g, node->results[0]);
  RandomValue *value = random_graph_value(g, result);
  node->results[node->num_results++] = result;
  value->node = first->node;
  value->error = first->error;
  value->has_specials = first->has_specials;
  value->fraction = first->fraction;
  value->magnitude = first->magnitude;
  return result;
}

void rounded(RandomGraph *g, int32_t result) {
  RandomValue *value = random_graph_value(g, result);
  value->error = MAX(value->error, random_graph_rounding(value->type));
}

void bits(RandomGraph *g, int32_t result, int32_t fraction, int32_t magnitude) {
  set_error(g, random_graph_node(g, random_graph_value(g, result)->node), result, fraction,
            magnitude);
}

int32_t positive(RandomGraph *g, int32_t type, int64_t count) {
  int32_t value = weights(g, type, &count, 1);
  for (int64_t i = 0; i < count; i++)
    put(random_graph_value(g, value)->data, type, i, (double)between(g, 4, 15) / 8);
  return value;
}

/* ---- Generators -------------------------------------------------------------------------- */

void finish(RandomGraph *g, const Row *row, int32_t result) {
  if (!(row->how & EXACT))
    rounded(g, result);
  if (row->how & WHOLE)
    random_graph_value(g, result)->fraction = 0;
}

static void make_unary(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, row->types, 0, MAX_RANK, row->how & SHARP);
  const RandomValue in = *random_graph_value(g, x);
  finish(g, row, apply(g, row->op, choice(g, row->attrs), &x, 1, in.type, in.shape, in.rank));
}

static void make_predicate(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, 1 << FLOAT, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  apply(g, row->op, choice(g, row->attrs), &x, 1, BOOL, in.shape, in.rank);
}

/* float16 holds these integers, and bool all of them. Floats beyond an integer's range have no
 * defined conversion. */
static void make_cast(RandomGraph *g, const Row *row) {
  static const int8_t to[] = {FLOAT, FLOAT16, INT32, INT64, BOOL, DOUBLE, BFLOAT16, INT16};
  int32_t x = pick_of(g, ANY, 0, MAX_RANK, TRUE);
  int32_t type = to[below(g, g->has_rare_types ? (int64_t)G_N_ELEMENTS(to) : 5)];
  const RandomValue in = *random_graph_value(g, x);
  gboolean is_like = !strcmp(row->op, "CastLike");
  if (in.magnitude > 10)
    type = BOOL;
  if (is_float(type) && in.type != BOOL && in.magnitude + in.fraction > (type == BFLOAT16 ? 6 : 9))
    type = in.type == FLOAT ? FLOAT : BOOL;
  int32_t reads[2] = {x, is_like ? given(g, type, (int64_t[]){3}, 1, below(g, 2) == 0) : -1};
  int32_t result = apply(g, row->op, is_like ? g_strdup("") : g_strdup_printf("to=%d", type), reads,
                         is_like ? 2 : 1, type, in.shape, in.rank);
  random_graph_value(g, result)->fraction = is_float(type) ? in.fraction : 0;
}

/* Casts to a storage-only type, moves the elements, and casts back. */
static void make_narrow(RandomGraph *g, const Row *row) {
  static const int8_t narrow[] = {17, 18, 19, 20, 21, 22, 23, 25, 26};
  int32_t x = pick_of(g, NUMBERS, 0, MAX_RANK, TRUE);
  int32_t type = narrow[below(g, G_N_ELEMENTS(narrow))];
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK];
  for (int32_t i = 0; i < in.rank; i++)
    shape[i] = in.shape[in.rank - 1 - i];
  char *attrs = g_strdup_printf("to=%d saturate=%d", type, in.type == FLOAT ? (int)below(g, 2) : 1);
  int32_t value = apply(g, row->op, attrs, &x, 1, type, in.shape, in.rank);
  if (in.rank > 1)
    value = apply(g, "Transpose", g_strdup(""), &value, 1, type, shape, in.rank);
  else
    memcpy(shape, in.shape, sizeof(shape));
  int32_t result =
      apply(g, row->op, g_strdup_printf("to=%d", FLOAT), &value, 1, FLOAT, shape, in.rank);
  bits(g, result, in.fraction, in.magnitude + 1);
}

static void make_cast_or_narrow(RandomGraph *g, const Row *row) {
  (below(g, 2) ? make_cast : make_narrow)(g, row);
}

static void make_bit_cast(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, 1 << UINT8 | 1 << INT8, 0, MAX_RANK, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t type = in.type == UINT8 ? INT8 : UINT8;
  bits(g, apply(g, row->op, g_strdup_printf("to=%d", type), &x, 1, type, in.shape, in.rank), 0, 8);
}

static void make_clip(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, NUMBERS & ~HALVES, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t low = below(g, 3) ? number(g, in.type, is_float(in.type) ? -0.75 : 1) : -1;
  int32_t high = below(g, 3) ? number(g, in.type, is_float(in.type) ? 1.25 : 5) : -1;
  apply(g, row->op, g_strdup(""), (int32_t[]){x, low, high},
        high >= 0  ? 3
        : low >= 0 ? 2
                   : 1,
        in.type, in.shape, in.rank);
}

/* Picks a second operand: a value of that shape, or a new one that broadcasts to it. */
int32_t operand(RandomGraph *g, int32_t x, gboolean exact) {
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK];
  int32_t first = (int32_t)below(g, in.rank + 1);
  if (below(g, 3) == 0)
    first = 0;
  for (int32_t tries = 0; tries < 10; tries++) {
    int32_t other = (int32_t)below(g, g->values->len);
    const RandomValue *value = random_graph_value(g, other);
    if (other == x && in.error != 0)
      continue; /* a value minus itself would leave only rounding errors */
    if (value->type == in.type && value->rank == in.rank && (!exact || value->error == 0) &&
        !value->is_part && !memcmp(value->shape, in.shape, (size_t)in.rank * sizeof(*in.shape)))
      return other;
  }
  for (int32_t i = first; i < in.rank; i++)
    shape[i - first] = below(g, 3) ? in.shape[i] : 1;
  return given(g, in.type, shape, in.rank - first, below(g, 2) == 0);
}

static void make_binary(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, row->types, 0, MAX_RANK, row->how & SHARP);
  int32_t y = operand(g, x, row->how & SHARP);
  const RandomValue a = *random_graph_value(g, x), b = *random_graph_value(g, y);
  gboolean is_product = !strcmp(row->op, "Mul"),
           is_sum = !strcmp(row->op, "Add") || !strcmp(row->op, "Sub");
  gboolean swaps = strcmp(row->op, "PRelu") && below(g, 2);
  int32_t result =
      apply(g, row->op, choice(g, row->attrs), swaps ? (int32_t[]){y, x} : (int32_t[]){x, y}, 2,
            row->how & WHOLE ? BOOL : a.type, a.shape, a.rank);
  if (is_product || !strcmp(row->op, "PRelu"))
    bits(g, result, a.fraction + b.fraction, a.magnitude + b.magnitude);
  else if (is_sum)
    bits(g, result, MAX(a.fraction, b.fraction), MAX(a.magnitude, b.magnitude) + 1);
  else
    finish(g, row, result);
}

/* Integers are divided by numbers other than 0, and shifted by less than their width. */
static void make_division(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, row->types, 0, MAX_RANK, TRUE);
  const RandomValue a = *random_graph_value(g, x);
  int32_t y = weights(g, a.type, a.shape, a.rank);
  RandomValue *b = random_graph_value(g, y);
  for (int64_t i = 0; i < random_value_count(b); i++)
    put(b->data, b->type, i, (double)between(g, 1, 7));
  char *attrs = choice(g, row->attrs);
  if (!strcmp(row->op, "Mod") && is_float(a.type)) {
    g_free(attrs);
    attrs = g_strdup("fmod=1");
  }
  int32_t result = apply(g, row->op, attrs, (int32_t[]){x, y}, 2, a.type, a.shape, a.rank);
  if (is_float(a.type))
    rounded(g, result);
}

static void make_where(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 0, MAX_RANK), y = operand(g, x, FALSE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t condition = given(g, BOOL, in.shape, in.rank, below(g, 2) == 0);
  apply(g, row->op, g_strdup(""), (int32_t[]){condition, x, y}, 3, in.type, in.shape, in.rank);
}

static void make_many(RandomGraph *g, const Row *row) {
  int32_t reads[MAX_READS], count = (int32_t)between(g, 1, below(g, 5) ? 4 : 16);
  int32_t x = pick(g, row->types, 0, MAX_RANK), fraction = 0, magnitude = 0;
  reads[0] = x;
  for (int32_t i = 1; i < count; i++)
    reads[i] = operand(g, x, FALSE);
  for (int32_t i = 0; i < count; i++) {
    fraction = MAX(fraction, random_graph_value(g, reads[i])->fraction);
    magnitude = MAX(magnitude, random_graph_value(g, reads[i])->magnitude);
  }
  const RandomValue in = *random_graph_value(g, x);
  int32_t result = apply(g, row->op, g_strdup(""), reads, count, in.type, in.shape, in.rank);
  if (!strcmp(row->op, "Sum"))
    bits(g, result, fraction, magnitude + 4);
  else
    finish(g, row, result);
}

/* ---- Shapes ---- */

static void make_reshape(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, ANY, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t count = random_value_count(&in), first = below(g, 2) ? in.shape[in.rank - 1] : 1;
  int64_t shape[3] = {first, 1, count / first};
  int32_t list = int_list(g, (int64_t[]){first, 1, -1}, 3);
  apply(g, row->op, g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, 3);
}

static void make_flatten(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK), axis;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[2] = {1, 1};
  axis = (int32_t)below(g, in.rank + 1);
  for (int32_t i = 0; i < in.rank; i++)
    shape[i >= axis] *= in.shape[i];
  apply(g, row->op, g_strdup_printf("axis=%d", axis), &x, 1, in.type, shape, 2);
}

static int32_t unsqueeze(RandomGraph *g, int32_t x) {
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank + 1);
  for (int32_t i = 0; i <= in.rank; i++)
    shape[i] = i == axis ? 1 : in.shape[i - (i > axis)];
  int32_t list = int_list(g, &axis, 1);
  return apply(g, "Unsqueeze", g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, in.rank + 1);
}

static void make_unsqueeze(RandomGraph *g, const Row *row) {
  (void)row;
  unsqueeze(g, pick(g, ANY, 0, MAX_RANK - 1));
}

static void make_squeeze(RandomGraph *g, const Row *row) {
  int32_t x = unsqueeze(g, pick(g, ANY, 0, MAX_RANK - 1)), rank = 0;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = 0;
  while (in.shape[axis] != 1)
    axis++;
  for (int32_t i = 0; i < in.rank; i++)
    if (i != axis)
      shape[rank++] = in.shape[i];
  int32_t list = int_list(g, &axis, 1);
  apply(g, row->op, g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, rank);
}

static void make_constant(RandomGraph *g, const Row *row) {
  int32_t constant = apply(g, row->op, g_strdup("value_float=0.75"), NULL, 0, FLOAT, NULL, 0);
  random_graph_value(g, constant)->fraction = 2;
  int32_t x = pick(g, 1 << FLOAT, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t sum =
      apply(g, "Add", g_strdup(""), (int32_t[]){x, constant}, 2, FLOAT, in.shape, in.rank);
  bits(g, sum, MAX(in.fraction, 2), in.magnitude + 1);
}

static void make_constant_of_shape(RandomGraph *g, const Row *row) {
  int64_t shape[2] = {extent(g), extent(g)};
  int32_t list = int_list(g, shape, 2);
  apply(g, row->op, g_strdup(""), &list, 1, FLOAT, shape, 2);
}

static void make_range(RandomGraph *g, const Row *row) {
  int64_t count = extent(g);
  int32_t type = below(g, 2) ? INT64 : FLOAT;
  int32_t reads[3] = {number(g, type, 1), number(g, type, (double)(1 + 2 * count)),
                      number(g, type, 2)};
  bits(g, apply(g, row->op, g_strdup(""), reads, 3, type, &count, 1), 0, 7);
}

static void make_shape(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK);
  gboolean is_size = !strcmp(row->op, "Size"), is_part = !is_size && below(g, 3) == 0;
  int64_t rank = random_graph_value(g, x)->rank, first = 0, last = rank;
  if (is_part) {
    first = below(g, rank + 1);
    last = between(g, first, rank);
  }
  char *attrs = is_part ? g_strdup_printf("start=%d end=%d",
                                          (int)(first - (first < rank ? rank : 0)), (int)last)
                        : g_strdup("");
  int64_t count = last - first;
  int32_t result = apply(g, row->op, attrs, &x, 1, INT64, &count, is_size ? 0 : 1);
  random_graph_value(g, result)->error = 0;
  bits(g, result, 0, 12);
  random_graph_value(g, result)->error = 0;
}

/* ---- Moves ---- */

static void make_transpose(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, MAX_RANK), perm[MAX_RANK];
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK];
  GString *attrs = g_string_new("perm=");
  for (int32_t i = 0; i < in.rank; i++) {
    int32_t at = (int32_t)below(g, i + 1);
    perm[i] = perm[at];
    perm[at] = i;
  }
  for (int32_t i = 0; i < in.rank; i++) {
    shape[i] = in.shape[perm[i]];
    g_string_append_printf(attrs, "%d,", perm[i]);
  }
  apply(g, row->op, g_string_free(attrs, FALSE), &x, 1, in.type, shape, in.rank);
}

static void make_concat(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK), reads[MAX_READS], count = (int32_t)between(g, 1, 4);
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = (int32_t)(below(g, 2) && in.rank > 1 ? 1 : below(g, in.rank));
  int64_t shape[MAX_RANK], total = 0;
  for (int32_t i = 0; i < count; i++) {
    memcpy(shape, in.shape, sizeof(shape));
    shape[axis] = between(g, below(g, 12) ? 1 : 0, MIN(in.shape[axis] + 3, 20));
    reads[i] = i == count / 2 ? x : given(g, in.type, shape, in.rank, below(g, 3) == 0);
    total += random_graph_value(g, reads[i])->shape[axis];
  }
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = total;
  apply(g, row->op, g_strdup_printf("axis=%d", axis), reads, count, in.type, shape, in.rank);
}

static void make_slice(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank), length = in.shape[axis];
  int64_t start = length ? below(g, length) : 0, step = between(g, 1, 3);
  int64_t end = start + (below(g, 12) ? part_of(g, length - start) : 0);
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = (end - start + step - 1) / step;
  gboolean back = below(g, 3) == 0 && end > start; /* elements from end - 1 down to start */
  int32_t reads[5] = {x, int_list(g, (int64_t[]){back ? end - 1 : start}, 1),
                      int_list(g, (int64_t[]){back ? start - 1 - length : end}, 1),
                      int_list(g, &axis, 1), int_list(g, (int64_t[]){back ? -step : step}, 1)};
  if (back && start == 0)
    ((int64_t *)random_graph_value(g, reads[2])->data)[0] = -length - 1;
  apply(g, row->op, g_strdup(""), reads, 5, in.type, shape, in.rank);
}

static void make_split(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank),
                           first = below(g, 12) ? part_of(g, in.shape[axis]) : 0;
  int64_t rest = in.shape[axis] - first;
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = first;
  int32_t list = int_list(g, (int64_t[]){first, rest}, rest ? 2 : 1);
  apply(g, row->op, g_strdup_printf("axis=%d", (int)axis), (int32_t[]){x, list}, 2, in.type, shape,
        in.rank);
  shape[axis] = rest;
  if (rest)
    add_result(g, in.type, shape, in.rank);
}

/* The pads of one axis: begin and end. Negative pads leave some of the axis; positive pads add to
 * it. */
static void pad_axis(RandomGraph *g, const char *mode, int64_t count, int64_t *begin,
                     int64_t *end) {
  int64_t left = count, *sides[] = {begin, end};
  for (int32_t i = 0; i < 2; i++)
    if (left > 1 && below(g, 8) == 0)
      left += *sides[i] = -between(g, 1, MIN(2, left - 1));
  int64_t most = strstr(mode, "reflect")    ? left - 1
                 : strstr(mode, "constant") ? 3
                 : strstr(mode, "wrap")     ? 2 * left
                                            : 3 * MIN(left, 1);
  for (int32_t i = 0; i < 2; i++)
    if (*sides[i] == 0 && most > 0 && below(g, 2))
      *sides[i] = between(g, 0, below(g, 4) ? MIN(most, 3) : most);
}

static void make_pad(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4), fill = -1, list = -1, rank = 0;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], pads[2 * MAX_RANK] = {0}, axes[MAX_RANK];
  char *attrs = choice(g, row->attrs);
  int32_t first = below(g, 3) ? 0 : (int32_t)below(g, in.rank);
  memcpy(shape, in.shape, sizeof(shape));
  for (int32_t i = first; i < in.rank; i++) {
    int64_t *begin = &pads[i - first], *end = &pads[in.rank - first + i - first];
    pad_axis(g, attrs, in.shape[i], begin, end);
    shape[i] += *begin + *end;
    axes[rank++] = below(g, 2) ? i : i - in.rank;
  }
  if (strstr(attrs, "constant") && below(g, 2))
    fill = number(g, in.type, 1);
  int32_t amounts = int_list(g, pads, 2 * rank);
  if (first > 0)
    list = int_list(g, axes, rank);
  apply(g, row->op, attrs, (int32_t[]){x, amounts, fill, list}, 4, in.type, shape, in.rank);
}

static void make_expand(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 3), rank;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK] = {2};
  rank = in.rank + 1;
  for (int32_t i = 0; i < in.rank; i++)
    shape[i + 1] = in.shape[i] == 1 ? 5 : in.shape[i];
  int32_t list = int_list(g, shape, rank);
  apply(g, row->op, g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, rank);
}

static void make_tile(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], repeats[MAX_RANK], axis = below(g, in.rank);
  for (int32_t i = 0; i < in.rank; i++) {
    repeats[i] = i == axis ? between(g, below(g, 12) ? 1 : 0, 3) : 1;
    shape[i] = in.shape[i] * repeats[i];
  }
  int32_t list = int_list(g, repeats, in.rank);
  apply(g, row->op, g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, in.rank);
}

/* Makes indices into that many elements, some counted from the end. */
int32_t indices(RandomGraph *g, const int64_t *shape, int32_t rank, int64_t end) {
  int32_t list = given(g, INT64, shape, rank, below(g, 2) == 0);
  RandomValue *value = random_graph_value(g, list);
  for (int64_t i = 0; i < random_value_count(value); i++)
    ((int64_t *)value->data)[i] = between(g, -end, end - 1);
  value->magnitude = 6;
  value->is_part = TRUE; /* other numbers would be out of bounds */
  return list;
}

static void make_gather(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4);
  const RandomValue in = *random_graph_value(g, x);
  gboolean by_element = !strcmp(row->op, "GatherElements");
  int64_t shape[MAX_RANK], axis = below(g, in.rank), count = in.shape[axis] ? between(g, 1, 9) : 0;
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = count;
  int32_t list = by_element ? indices(g, shape, in.rank, in.shape[axis])
                            : indices(g, &count, 1, in.shape[axis]);
  int32_t result = apply(g, row->op, g_strdup_printf("axis=%d", (int)axis), (int32_t[]){x, list}, 2,
                         in.type, shape, in.rank);
  bits(g, result, in.fraction, in.magnitude);
}

/* Returns a number of rows of `depth` indices from axis `batch` on: none if an axis is empty. */
static int64_t count_rows(RandomGraph *g, const RandomValue *in, int32_t batch, int64_t depth) {
  for (int64_t i = batch; i < batch + depth; i++)
    if (in->shape[i] == 0)
      return 0;
  return between(g, 1, 9);
}

/* Makes a row of indices for each place, each index for its own axis from `batch` on. */
static int32_t index_rows(RandomGraph *g, const RandomValue *in, int32_t batch, int64_t count,
                          int64_t depth) {
  int64_t shape[MAX_RANK] = {in->shape[0], count, depth};
  int32_t list = indices(g, shape + (batch ? 0 : 1), batch ? 3 : 2, 1);
  RandomValue *value = random_graph_value(g, list);
  for (int64_t i = 0; i < random_value_count(value); i++) {
    int64_t end = in->shape[batch + i % depth];
    ((int64_t *)value->data)[i] = between(g, -end, end - 1);
  }
  return list;
}

static void make_gather_nd(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, 4), batch = (int32_t)below(g, 2), rank = batch;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK] = {in.shape[0]}, depth = between(g, 1, in.rank - batch);
  int64_t count = count_rows(g, &in, batch, depth);
  shape[rank++] = count;
  for (int32_t i = batch + (int32_t)depth; i < in.rank; i++)
    shape[rank++] = in.shape[i];
  int32_t list = index_rows(g, &in, batch, count, depth);
  bits(g,
       apply(g, row->op, g_strdup_printf("batch_dims=%d", batch), (int32_t[]){x, list}, 2, in.type,
             shape, rank),
       in.fraction, in.magnitude);
}

/* Picks a way to combine an element with its updates, of which there are at most 9. */
static void scatter(RandomGraph *g, const Row *row, int32_t x, int32_t list, int32_t updates,
                    const char *attrs) {
  const RandomValue in = *random_graph_value(g, x);
  char *how = choice(g, in.type == BOOL ? "none" : row->attrs);
  char *all = row->attrs[0] ? g_strdup_printf("%s%sreduction=%s", attrs, attrs[0] ? " " : "", how)
                            : g_strdup(attrs);
  int32_t magnitude = MAX(in.magnitude, random_graph_value(g, updates)->magnitude);
  int32_t fraction = MAX(in.fraction, random_graph_value(g, updates)->fraction);
  int32_t result =
      apply(g, row->op, all, (int32_t[]){x, list, updates}, 3, in.type, in.shape, in.rank);
  if (!strcmp(how, "mul"))
    bits(g, result, 10 * fraction, 10 * magnitude);
  else
    bits(g, result, fraction, magnitude + (strcmp(how, "add") ? 0 : 4));
  g_free(how);
}

static void make_scatter_elements(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank);
  for (int32_t i = 0; i < in.rank; i++)
    shape[i] = i == axis && in.shape[i] ? between(g, 1, 9) : part_of(g, in.shape[i]);
  int32_t list = indices(g, shape, in.rank, in.shape[axis]);
  int32_t updates = given(g, in.type, shape, in.rank, FALSE);
  char *attrs = g_strdup_printf("axis=%d", (int)axis);
  scatter(g, row, x, list, updates, attrs);
  g_free(attrs);
}

static void make_scatter_nd(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4), rank = 1;
  const RandomValue in = *random_graph_value(g, x);
  int64_t depth = between(g, 1, in.rank), shape[MAX_RANK] = {count_rows(g, &in, 0, depth)};
  for (int32_t i = (int32_t)depth; i < in.rank; i++)
    shape[rank++] = in.shape[i];
  int32_t list = index_rows(g, &in, 0, shape[0], depth);
  scatter(g, row, x, list, given(g, in.type, shape, rank, FALSE), "");
}

/* The indices distinguish equal elements. */
static void make_topk(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, NUMBERS, 1, MAX_RANK, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank);
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = below(g, 3) ? part_of(g, in.shape[axis]) : in.shape[axis];
  int32_t k = int_list(g, &shape[axis], 1);
  apply(g, row->op, g_strdup_printf("axis=%d largest=%d", (int)axis, (int)below(g, 2)),
        (int32_t[]){x, k}, 2, in.type, shape, in.rank);
  int32_t places = add_result(g, INT64, shape, in.rank);
  random_graph_value(g, places)->fraction = 0;
  random_graph_value(g, places)->magnitude = 6;
}

/* Boxes in pairs of equal boxes: of each pair the one with the better score is kept. */
static void make_boxes(RandomGraph *g, const Row *row) {
  int64_t batches = between(g, 1, 2), classes = between(g, 1, 3), count = between(g, 1, 20);
  int64_t most = between(g, 1, 12), kept = MIN(most, (count + 1) / 2);
  int64_t box_shape[3] = {batches, count, 4}, score_shape[3] = {batches, classes, count};
  int32_t boxes = weights(g, FLOAT, box_shape, 3), scores = weights(g, FLOAT, score_shape, 3);
  float *numbers = (float *)random_graph_value(g, boxes)->data;
  for (int64_t i = 0; i < batches * count; i++) {
    float low = (float)(i % count / 2 * 4), box[4] = {low, 1, low + 2, 3};
    memcpy(numbers + 4 * i, box, sizeof(box));
  }
  int32_t reads[] = {boxes, scores, number(g, INT64, (double)most), number(g, FLOAT, 0.5)};
  int64_t shape[2] = {batches * classes * kept, 3};
  bits(g, apply(g, row->op, choice(g, row->attrs), reads, 4, INT64, shape, 2), 0, 6);
}

static void make_reverse_sequence(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, 4), batch = (int32_t)below(g, 2);
  const RandomValue in = *random_graph_value(g, x);
  int32_t lengths = weights(g, INT64, &in.shape[batch], 1);
  for (int64_t i = 0; i < in.shape[batch]; i++)
    ((int64_t *)random_graph_value(g, lengths)->data)[i] = part_of(g, in.shape[1 - batch]);
  int32_t result =
      apply(g, row->op, g_strdup_printf("batch_axis=%d time_axis=%d", batch, 1 - batch),
            (int32_t[]){x, lengths}, 2, in.type, in.shape, in.rank);
  bits(g, result, in.fraction, in.magnitude);
}

/* Some indices are beyond the depth. */
static void make_one_hot(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, 1 << INT32 | 1 << INT64, 0, MAX_RANK - 1);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank + 1), depth = between(g, 1, 7), pair = 2;
  for (int32_t i = 0; i <= in.rank; i++)
    shape[i] = i == axis ? depth : in.shape[i - (i > axis)];
  int32_t type = below(g, 2) ? FLOAT : INT32;
  int32_t values = given(g, type, &pair, 1, below(g, 2) == 0);
  const RandomValue on_off = *random_graph_value(g, values);
  int32_t result =
      apply(g, row->op, g_strdup_printf("axis=%d", (int)axis),
            (int32_t[]){x, number(g, INT64, (double)depth), values}, 3, type, shape, in.rank + 1);
  bits(g, result, on_off.fraction, on_off.magnitude);
}

static void make_eye(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, 2);
  const RandomValue in = *random_graph_value(g, x);
  int32_t result = apply(g, row->op, choice(g, row->attrs), &x, 1, in.type, in.shape, 2);
  random_graph_value(g, result)->error = 0;
}

/* Both results have as many elements as a constant marks. */
static void make_marked(RandomGraph *g, const Row *row) {
  gboolean is_compress = row->op[0] == 'C';
  int32_t x = is_compress ? pick_some(g, ANY, 1, 4)
                          : weights(g, BOOL, (int64_t[]){extent_of_some(g), extent_of_some(g)}, 2);
  const RandomValue in = *random_graph_value(g, x);
  int64_t axis = below(g, in.rank), shape[MAX_RANK];
  int32_t mask = is_compress ? weights(g, BOOL, &in.shape[axis], 1) : x;
  const RandomValue *marks = random_graph_value(g, mask);
  int64_t count = 0;
  ((uint8_t *)marks->data)[0] = 1;
  for (int64_t i = 0; i < random_value_count(marks); i++)
    count += ((const uint8_t *)marks->data)[i];
  if (!is_compress) {
    bits(g, apply(g, row->op, g_strdup(""), &x, 1, INT64, (int64_t[]){2, count}, 2), 0, 6);
    return;
  }
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = count;
  apply(g, row->op, g_strdup_printf("axis=%d", (int)axis), (int32_t[]){x, mask}, 2, in.type, shape,
        in.rank);
}

/* Uses a constant, so that the number of different elements is known. */
static void make_unique(RandomGraph *g, const Row *row) {
  int64_t count = extent(g), different = 0, bits_of = 0;
  int32_t x = weights(g, INT32, &count, 1);
  const int32_t *data = random_graph_value(g, x)->data;
  for (int64_t i = 0; i < count; i++) {
    different += (bits_of >> (data[i] + 8) & 1) == 0;
    bits_of |= (int64_t)1 << (data[i] + 8);
  }
  apply(g, row->op, choice(g, row->attrs), &x, 1, INT32, &different, 1);
  for (int32_t i = 1; i < 4; i++)
    bits(g, add_result(g, INT64, i == 2 ? &count : &different, 1), 0, 6);
}

static void make_dropout(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, row->types, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  apply(g, row->op, g_strdup(""), &x, 1, in.type, in.shape, in.rank);
  int32_t mask = add_result(g, BOOL, in.shape, in.rank);
  random_graph_value(g, mask)->error = 0;
}

static void make_depth_space(RandomGraph *g, const Row *row) {
  gboolean to_space = row->op[0] == 'D';
  int64_t size = between(g, 2, 3), c = between(g, 1, 9), h = between(g, 1, 6), w = between(g, 1, 6);
  int64_t deep[4] = {small_extent(g, 2), size * size * c, h, w};
  int64_t flat[4] = {deep[0], c, size * h, size * w};
  int32_t type = below(g, 3) ? FLOAT : UINT8;
  int32_t x = given(g, type, to_space ? deep : flat, 4, FALSE);
  char *mode = choice(g, row->attrs);
  apply(g, row->op, g_strdup_printf("blocksize=%d%s", (int)size, mode), &x, 1, type,
        to_space ? flat : deep, 4);
  g_free(mode);
}

static void make_trilu(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, MAX_RANK), k = number(g, INT64, (double)between(g, -2, 2));
  const RandomValue in = *random_graph_value(g, x);
  apply(g, row->op, choice(g, row->attrs), (int32_t[]){x, k}, 2, in.type, in.shape, in.rank);
}

static void make_affine_grid(RandomGraph *g, const Row *row) {
  int64_t rank = between(g, 2, 3), maps[3] = {between(g, 1, 3), rank, rank + 1};
  int64_t size[5] = {maps[0], between(g, 1, 3)}, shape[5] = {maps[0]};
  for (int64_t i = 0; i < rank; i++)
    shape[1 + i] = size[2 + i] = between(g, 1, 6);
  shape[1 + rank] = rank;
  int32_t theta = weights(g, FLOAT, maps, 3);
  rounded(g, apply(g, row->op, g_strdup_printf("align_corners=%d", (int)below(g, 2)),
                   (int32_t[]){theta, int_list(g, size, 2 + (int32_t)rank)}, 2, FLOAT, shape,
                   2 + (int32_t)rank));
}

/* Positions inside and outside of the picture. */
static void make_grid_sample(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, 1 << FLOAT, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t places[4] = {in.shape[0], between(g, 1, 6), between(g, 1, 6), 2};
  int64_t shape[4] = {in.shape[0], in.shape[1], places[1], places[2]};
  char *mode = choice(g, row->attrs), *padding = choice(g, "zeros|border|reflection");
  int32_t grid = weights(g, FLOAT, places, 4);
  rounded(g, apply(g, row->op,
                   g_strdup_printf("mode=%s padding_mode=%s align_corners=%d", mode, padding,
                                   (int)below(g, 2)),
                   (int32_t[]){x, grid}, 2, FLOAT, shape, 4));
  g_free(mode);
  g_free(padding);
}

/* ---- Reductions ---- */

static int32_t log2_up(int64_t count) {
  return 1 + (int32_t)ceil(log2((double)MAX(count, 1)));
}

static void make_reduce(RandomGraph *g, const Row *row) {
  gboolean is_arg = row->op[0] == 'A', keep = below(g, 2) == 1;
  int32_t x = pick_any(g, row->types, 1, MAX_RANK, row->how & SHARP, is_arg), rank = 0;
  const RandomValue in = *random_graph_value(g, x);
  int32_t first = (int32_t)below(g, in.rank), last = (int32_t)between(g, first, in.rank - 1);
  int64_t shape[MAX_RANK], axes[MAX_RANK], count = 1;
  if (is_arg)
    last = first;
  for (int32_t i = 0; i < in.rank; i++) {
    if (i < first || i > last || keep)
      shape[rank++] = i < first || i > last ? in.shape[i] : 1;
    if (i >= first && i <= last)
      axes[i - first] = i;
    count *= i >= first && i <= last ? in.shape[i] : 1;
  }
  if (is_arg) {
    bits(g,
         apply(g, row->op,
               g_strdup_printf("axis=%d keepdims=%d select_last_index=%d", first, keep,
                               (int)below(g, 2)),
               &x, 1, INT64, shape, rank),
         0, 6);
    return;
  }
  /* In older versions all reductions but ReduceSum have their axes as an attribute. */
  int32_t list = int_list(g, axes, last - first + 1);
  int32_t result = apply(g, row->op, g_strdup_printf("keepdims=%d", keep), (int32_t[]){x, list}, 2,
                         in.type, shape, rank);
  int32_t more = log2_up(count);
  if (!strcmp(row->op, "ReduceSum") || !strcmp(row->op, "ReduceL1"))
    bits(g, result, in.fraction, in.magnitude + more);
  else if (!strcmp(row->op, "ReduceSumSquare"))
    bits(g, result, 2 * in.fraction, 2 * in.magnitude + more);
  else
    finish(g, row, result);
}

static void make_along(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, row->types, 1, MAX_RANK, row->how & SHARP);
  const RandomValue in = *random_graph_value(g, x);
  char *attrs = g_strdup_printf("%saxis=%d", row->attrs, (int)below(g, in.rank));
  finish(g, row, apply(g, row->op, attrs, &x, 1, in.type, in.shape, in.rank));
}

static void make_cumsum(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, 1 << FLOAT | 1 << INT32 | 1 << INT64, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = number(g, INT64, (double)below(g, in.rank));
  int32_t result =
      apply(g, row->op, choice(g, row->attrs), (int32_t[]){x, axis}, 2, in.type, in.shape, in.rank);
  if (!strcmp(row->op, "CumSum"))
    bits(g, result, in.fraction, in.magnitude + 6);
  else
    bits(g, result, ROUNDED, 33 * in.magnitude);
}

/* ---- Windows ---- */

static int32_t new_picture(RandomGraph *g, int32_t types) {
  int64_t shape[4] = {small_extent(g, 2), below(g, 2) ? between(g, 1, 20) : extent_of_some(g),
                      between(g, 3, 9), between(g, 3, 9)};
  int32_t type = types & 1 << FLOAT16 && below(g, 5) == 0 ? FLOAT16 : FLOAT;
  while (shape[0] * shape[1] * shape[2] * shape[3] > MAX_ELEMENTS)
    shape[2] = shape[3] = 3;
  return given(g, type, shape, 4, FALSE);
}

/* Picks a picture, often the result of another node, so that layers follow each other. Rarely its
 * batch is empty. */
int32_t picture(RandomGraph *g, int32_t types) {
  for (int32_t tries = 0; tries < 12 && g->values->len; tries++) {
    int32_t value = (int32_t)below(g, g->values->len);
    const RandomValue *known = random_graph_value(g, value);
    if (fits(known, types, 4, 4, FALSE) && known->shape[1] && known->shape[2] && known->shape[3])
      return value;
  }
  return new_picture(g, types);
}

/* Winograd's algorithm makes NaN of a tile with an infinity. */
int32_t picture_without_specials(RandomGraph *g, int32_t types) {
  int32_t x = picture(g, types);
  return random_graph_value(g, x)->has_specials ? new_picture(g, types) : x;
}

/* ---- Products ---- */

static void make_matmul(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, FLOATS, 2, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], depth = in.shape[in.rank - 1], columns = extent(g);
  int64_t w_shape[MAX_RANK];
  int32_t w_rank = below(g, 2) ? 2 : in.rank;
  memcpy(shape, in.shape, sizeof(shape));
  memcpy(w_shape, in.shape + in.rank - w_rank, (size_t)w_rank * sizeof(*w_shape));
  shape[in.rank - 1] = columns;
  w_shape[w_rank - 2] = depth;
  w_shape[w_rank - 1] = columns;
  int32_t w = given(g, in.type, w_shape, w_rank, below(g, 3) > 0);
  bits(g, apply(g, row->op, g_strdup(""), (int32_t[]){x, w}, 2, in.type, shape, in.rank),
       in.fraction + 3, in.magnitude + 1 + log2_up(depth));
}

static void make_gemm(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, FLOATS, 2, 2);
  const RandomValue in = *random_graph_value(g, x);
  int64_t flip_a = below(g, 2), flip_b = below(g, 2), columns = extent(g);
  int64_t rows = in.shape[flip_a], depth = in.shape[1 - flip_a];
  int64_t w_shape[2] = {flip_b ? columns : depth, flip_b ? depth : columns};
  int32_t w = given(g, in.type, w_shape, 2, below(g, 3) > 0);
  int32_t c = below(g, 2) ? weights(g, in.type, &columns, 1) : -1;
  rounded(g, apply(g, row->op,
                   g_strdup_printf("alpha=0.5f beta=2.0f transA=%d transB=%d", (int)flip_a,
                                   (int)flip_b),
                   (int32_t[]){x, w, c}, c >= 0 ? 3 : 2, in.type, (int64_t[]){rows, columns}, 2));
}

/* Extents given by letters are chosen at random. */
static void make_einsum(RandomGraph *g, const Row *row) {
  char *text = choice(g, row->attrs), **sides = g_strsplit(text, "->", 2);
  char **terms = g_strsplit(sides[0], ",", -1);
  int64_t extents[128], shape[MAX_RANK];
  int32_t reads[MAX_READS], count = 0, type = below(g, 4) ? FLOAT : INT32;
  for (int32_t i = 0; i < 128; i++)
    extents[i] = between(g, 1, 9);
  for (; terms[count]; count++) {
    for (int32_t i = 0; terms[count][i]; i++)
      shape[i] = extents[(int)terms[count][i]];
    reads[count] = given(g, type, shape, (int32_t)strlen(terms[count]), below(g, 3) == 0);
  }
  for (int32_t i = 0; sides[1][i]; i++)
    shape[i] = extents[(int)sides[1][i]];
  bits(g,
       apply(g, row->op, g_strdup_printf("equation='%s'", text), reads, count, type, shape,
             (int32_t)strlen(sides[1])),
       9, 12);
  g_strfreev(terms);
  g_strfreev(sides);
  g_free(text);
}

#define UNARY(op, attrs)                                                                           \
  { op, make_unary, attrs, FLOATS, 0 }

static const Row rows[] = {
    {"Abs", make_unary, "", NUMBERS, EXACT},
    {"Neg", make_unary, "", NUMBERS & ~UNSIGNED, EXACT},
    UNARY("Sqrt", ""),
    UNARY("Exp", ""),
    UNARY("Log", ""),
    UNARY("Sin", ""),
    UNARY("Cos", ""),
    UNARY("Tan", ""),
    UNARY("Asin", ""),
    UNARY("Acos", ""),
    UNARY("Atan", ""),
    UNARY("Sinh", ""),
    UNARY("Cosh", ""),
    UNARY("Tanh", ""),
    UNARY("Asinh", ""),
    UNARY("Acosh", ""),
    UNARY("Atanh", ""),
    UNARY("Erf", ""),
    {"Floor", make_unary, "", FLOATS, EXACT | SHARP | WHOLE},
    {"Ceil", make_unary, "", FLOATS, EXACT | SHARP | WHOLE},
    {"Round", make_unary, "", FLOATS, EXACT | SHARP | WHOLE},
    {"Sign", make_unary, "", NUMBERS, EXACT | SHARP | WHOLE},
    UNARY("Reciprocal", ""),
    {"Relu", make_unary, "", FLOATS, EXACT},
    UNARY("LeakyRelu", "|alpha=0.3f"),
    {"ThresholdedRelu", make_unary, "|alpha=0.3f", FLOATS, EXACT | SHARP},
    UNARY("Elu", "|alpha=0.7f"),
    UNARY("Selu", ""),
    UNARY("Celu", "|alpha=0.7f"),
    UNARY("Sigmoid", ""),
    UNARY("HardSigmoid", "|alpha=0.3f beta=0.4f"),
    UNARY("HardSwish", ""),
    UNARY("Softplus", ""),
    UNARY("Softsign", ""),
    UNARY("Mish", ""),
    UNARY("Gelu", "|approximate=tanh"),
    UNARY("Swish", "|alpha=0.7f"),
    {"Shrink", make_unary, "lambd=0.5f|bias=0.25f lambd=0.5f", FLOATS, EXACT | SHARP},
    {"Not", make_unary, "", 1 << BOOL, EXACT},
    {"BitwiseNot", make_unary, "", INTEGERS, EXACT},
    {"IsNaN", make_predicate, "", 0, EXACT},
    {"IsInf", make_predicate, "|detect_negative=0", 0, EXACT},
    {"BitCast", make_bit_cast, "", 0, 0},
    {"Cast", make_cast_or_narrow, "", 0, 0},
    {"CastLike", make_cast, "", 0, 0},
    {"Clip", make_clip, "", 0, 0},
    {"Add", make_binary, "", NUMBERS, EXACT},
    {"Sub", make_binary, "", NUMBERS, EXACT},
    {"Mul", make_binary, "", NUMBERS, EXACT},
    {"Div", make_division, "", NUMBERS, 0},
    {"Mod", make_division, "|fmod=1", 1 << FLOAT | INTEGERS, 0},
    {"Pow", make_binary, "", 1 << FLOAT, SHARP},
    {"PRelu", make_binary, "", FLOATS, EXACT},
    {"Equal", make_binary, "", ANY, EXACT | SHARP | WHOLE},
    {"Less", make_binary, "", NUMBERS, EXACT | SHARP | WHOLE},
    {"LessOrEqual", make_binary, "", NUMBERS, EXACT | SHARP | WHOLE},
    {"Greater", make_binary, "", NUMBERS, EXACT | SHARP | WHOLE},
    {"GreaterOrEqual", make_binary, "", NUMBERS, EXACT | SHARP | WHOLE},
    {"And", make_binary, "", 1 << BOOL, EXACT},
    {"Or", make_binary, "", 1 << BOOL, EXACT},
    {"Xor", make_binary, "", 1 << BOOL, EXACT},
    {"BitwiseAnd", make_binary, "", INTEGERS, EXACT},
    {"BitwiseOr", make_binary, "", INTEGERS, EXACT},
    {"BitwiseXor", make_binary, "", INTEGERS, EXACT},
    {"BitShift", make_division, "direction=LEFT|direction=RIGHT", UNSIGNED, 0},
    {"Where", make_where, "", 0, 0},
    {"Min", make_many, "", NUMBERS, EXACT},
    {"Max", make_many, "", NUMBERS, EXACT},
    {"Sum", make_many, "", FLOATS, EXACT},
    {"Mean", make_many, "", FLOATS, 0},
    {"SwiGLU", make_gated, "|alpha=0.7f", FLOATS, 0},
    {"Reshape", make_reshape, "", 0, 0},
    {"Flatten", make_flatten, "", 0, 0},
    {"Squeeze", make_squeeze, "", 0, 0},
    {"Unsqueeze", make_unsqueeze, "", 0, 0},
    {"Identity", make_unary, "", ANY, EXACT},
    {"Dropout", make_dropout, "", FLOATS, EXACT},
    {"Constant", make_constant, "", 0, 0},
    {"ConstantOfShape", make_constant_of_shape, "", 0, 0},
    {"Range", make_range, "", 0, 0},
    {"Shape", make_shape, "", 0, 0},
    {"Size", make_shape, "", 0, 0},
    {"Transpose", make_transpose, "", 0, 0},
    {"Concat", make_concat, "", 0, 0},
    {"Slice", make_slice, "", 0, 0},
    {"Split", make_split, "", 0, 0},
    {"Pad", make_pad, "mode=constant|mode=constant|mode=reflect|mode=edge|mode=wrap", 0, 0},
    {"CenterCropPad", make_center, "", 0, 0},
    {"Expand", make_expand, "", 0, 0},
    {"Tile", make_tile, "", 0, 0},
    {"Gather", make_gather, "", 0, 0},
    {"GatherElements", make_gather, "", 0, 0},
    {"GatherND", make_gather_nd, "", 0, 0},
    {"ScatterElements", make_scatter_elements, "none|add|mul|max|min", 0, 0},
    {"Scatter", make_scatter_elements, "", 0, 0},
    {"ScatterND", make_scatter_nd, "none|add|mul|max|min", 0, 0},
    {"TensorScatter", make_tensor_scatter, "", 0, 0},
    {"CausalConvWithState", make_causal_conv, "|activation=silu", 0, 0},
    {"NegativeLogLikelihoodLoss", make_loss, "", 0, 0},
    {"SoftmaxCrossEntropyLoss", make_loss, "", 0, 0},
    {"TopK", make_topk, "", 0, 0},
    {"ReverseSequence", make_reverse_sequence, "", 0, 0},
    {"OneHot", make_one_hot, "", 0, 0},
    {"EyeLike", make_eye, "|k=1|k=-2", 0, 0},
    {"NonZero", make_marked, "", 0, 0},
    {"Compress", make_marked, "", 0, 0},
    {"Unique", make_unique, "|sorted=0", 0, 0},
    {"NonMaxSuppression", make_boxes, "", 0, 0},
    {"DepthToSpace", make_depth_space, "| mode=CRD", 0, 0},
    {"SpaceToDepth", make_depth_space, "", 0, 0},
    {"Trilu", make_trilu, "upper=1|upper=0", 0, 0},
    {"Resize", make_resize,
     "mode=nearest|mode=nearest nearest_mode=floor|mode=nearest nearest_mode=ceil|mode=linear|"
     "mode=linear antialias=1|mode=cubic|mode=cubic cubic_coeff_a=-0.5f|mode=cubic "
     "exclude_outside=1",
     0, 0},
    {"AffineGrid", make_affine_grid, NULL, 0, 0},
    {"GridSample", make_grid_sample, "linear|nearest|cubic", 0, 0},
    {"Upsample", make_resize, "mode=nearest|mode=linear", 0, 0},
    {"ReduceSum", make_reduce, "", NUMBERS & ~(1 << UINT8 | 1 << INT8 | 1 << UINT16 | 1 << INT16),
     0},
    {"ReduceMean", make_reduce, "", FLOATS, 0},
    {"ReduceMax", make_reduce, "", NUMBERS, EXACT},
    {"ReduceMin", make_reduce, "", NUMBERS, EXACT},
    {"ReduceProd", make_reduce, "", 1 << FLOAT, 0},
    {"ReduceL1", make_reduce, "", FLOATS, 0},
    {"ReduceL2", make_reduce, "", FLOATS, 0},
    {"ReduceSumSquare", make_reduce, "", FLOATS, 0},
    {"ReduceLogSum", make_reduce, "", FLOATS, 0},
    {"ReduceLogSumExp", make_reduce, "", FLOATS, 0},
    {"ArgMax", make_reduce, "", NUMBERS, SHARP},
    {"ArgMin", make_reduce, "", NUMBERS, SHARP},
    {"Softmax", make_along, "", FLOATS, 0},
    {"Hardmax", make_along, "", FLOATS, EXACT | SHARP | WHOLE},
    {"LogSoftmax", make_along, "", FLOATS, 0},
    {"CumSum", make_cumsum, "|reverse=1|exclusive=1|exclusive=1 reverse=1", 0, 0},
    {"CumProd", make_cumsum, "|reverse=1|exclusive=1|exclusive=1 reverse=1", 0, 0},
    {"GlobalAveragePool", make_global_pool, "", 0, 0},
    {"GlobalMaxPool", make_global_pool, "", 0, EXACT},
    {"Conv", make_conv, "", 0, 0},
    {"ConvTranspose", make_conv_transpose, "", 0, 0},
    {"GlobalLpPool", make_global_pool, "|p=1|p=3", 0, 0},
    {"MaxPool", make_pool, "| storage_order=1", 0, EXACT},
    {"MaxUnpool", make_unpool, "kernel_shape=2,2 strides=2,2", 0, 0},
    {"LpPool", make_pool, "| p=1| p=3", 0, 0},
    {"AveragePool", make_pool, "| count_include_pad=1", 0, 0},
    {"LRN", make_picture, "size=3|size=5 alpha=0.01f|size=2 beta=0.5f bias=2.0f alpha=0.1f",
     1 << FLOAT, 0},
    {"Col2Im", make_col2im, "", 0, 0},
    {"DeformConv", make_deform_conv, "", 0, 0},
    {"RoiAlign", make_roi,
     "|mode=max|sampling_ratio=2|coordinate_transformation_mode=output_half_pixel", 0, 0},
    {"MaxRoiPool", make_roi, "", 0, 0},
    {"Det", make_det, "", 0, 0},
    {"MatMul", make_matmul, "", 0, 0},
    {"Gemm", make_gemm, "", 0, 0},
    {"Einsum", make_einsum,
     "ij,jk->ik|bij,bkj->bik|bhid,bhjd->bhij|ii->i|iji->ji|ij->ji|ij,ij->i|i,j->ji|ij,jk,kl->il|"
     "ijk->k|ij,k->i|bq,bqa,a->b",
     0, 0},
    {"QuantizeLinear", make_quantize, "", 0, 0},
    {"DequantizeLinear", make_quantize, "", 0, 0},
    {"DynamicQuantizeLinear", make_dynamic_quantize, "", 0, 0},
    {"MatMulInteger", make_quantized_product, "", 0, 0},
    {"ConvInteger", make_quantized_conv, "", 0, 0},
    {"QLinearMatMul", make_quantized_product, "", 0, 0},
    {"QLinearConv", make_quantized_conv, "", 0, 0},
    {"com.microsoft.MatMulNBits", make_few_bits_product, "", 0, 0},
    {"BatchNormalization", make_norm, "", 0, 0},
    {"InstanceNormalization", make_norm, "", 0, 0},
    {"LayerNormalization", make_norm, "", 0, 0},
    {"GroupNormalization", make_norm, "", 0, 0},
    {"RMSNormalization", make_norm, "", 0, 0},
    {"SimplifiedLayerNormalization", make_norm, "", 0, 0},
    {"MeanVarianceNormalization", make_picture, "|axes=1,2", 1 << FLOAT, 0},
    {"LpNormalization", make_along, "p=2 ", FLOATS, 0},
    {"HannWindow", make_window, "|periodic=0", 0, 0},
    {"HammingWindow", make_window, "|periodic=0", 0, 0},
    {"BlackmanWindow", make_window, "|periodic=0", 0, 0},
    {"MelWeightMatrix", make_mel, "", 0, 0},
    {"DFT", make_dft, "", 0, 0},
    {"STFT", make_stft, "", 0, 0},
    {"RotaryEmbedding", make_rotary, "", 0, 0},
    {"Attention", make_attention,
     "|is_causal=1|scale=0.25f is_causal=1|softcap=2.0f|softmax_precision=1", 0, 0},
    {"LinearAttention", make_linear_attention, "", 0, 0},
    {"LSTM", make_recurrent, "", 0, 0},
    {"GRU", make_recurrent, "", 0, 0},
    {"RNN", make_recurrent, "", 0, 0},
};

int32_t random_graph_num_ops(void) {
  return G_N_ELEMENTS(rows);
}

const char *random_graph_op(int32_t index) {
  return rows[index].op;
}

/* ---- Graphs ------------------------------------------------------------------------------ */

/* Outputs are the values that no node reads, and sometimes a value that a node reads. */
static void choose_outputs(RandomGraph *g) {
  gboolean *read = g_new0(gboolean, g->values->len);
  for (guint i = 0; i < g->nodes->len; i++) {
    const RandomNode *node = random_graph_node(g, (int32_t)i);
    for (int32_t k = 0; k < node->num_reads; k++)
      if (node->reads[k] >= 0)
        read[node->reads[k]] = TRUE;
  }
  for (int32_t i = 0; i < (int32_t)g->values->len; i++)
    if (random_graph_value(g, i)->node >= 0 && (!read[i] || below(g, 6) == 0) &&
        !random_value_is_narrow(random_graph_value(g, i)))
      g_array_append_val(g->outputs, i);
  g_free(read);
}

/* One graph of so many has many extents of 0. */
#define ZEROS_SHARE 12

RandomGraph *random_graph_new(uint64_t seed, int32_t first, int32_t num_first, int32_t size,
                              gboolean has_rare_types) {
  RandomGraph *g = g_new0(RandomGraph, 1);
  g->values = g_array_new(FALSE, TRUE, sizeof(RandomValue));
  g->nodes = g_array_new(FALSE, TRUE, sizeof(RandomNode));
  g->outputs = g_array_new(FALSE, TRUE, sizeof(int32_t));
  g->state = seed * 0x9e3779b97f4a7c15u + 0x1234567;
  g->has_rare_types = has_rare_types;
  g->zero_share = seed % ZEROS_SHARE == 0 ? 6 : 40;
  for (int32_t i = 0; i < 4; i++)
    below(g, 2);
  for (int32_t i = 0; i < size; i++) {
    gboolean is_first = i % 2 == 0 && i / 2 < num_first;
    const Row *row = &rows[is_first ? (first + i / 2) % random_graph_num_ops()
                                    : below(g, random_graph_num_ops())];
    row->make(g, row);
  }
  choose_outputs(g);
  return g;
}

void random_graph_free(RandomGraph *graph) {
  for (guint i = 0; i < graph->values->len; i++)
    g_free(random_graph_value(graph, (int32_t)i)->data);
  for (guint i = 0; i < graph->nodes->len; i++)
    g_free(random_graph_node(graph, (int32_t)i)->attrs);
  g_array_unref(graph->values);
  g_array_unref(graph->nodes);
  g_array_unref(graph->outputs);
  g_free(graph);
}

void random_graph_cut(RandomGraph *graph, int32_t value) {
  random_graph_value(graph, value)->node = -1;
  fill(graph, random_graph_value(graph, value));
}

void random_graph_uncut(RandomGraph *graph, int32_t value, const RandomValue *old) {
  g_free(random_graph_value(graph, value)->data);
  *random_graph_value(graph, value) = *old;
}

gboolean *random_graph_needed(const RandomGraph *graph) {
  gboolean *needed = g_new0(gboolean, graph->values->len);
  for (guint i = 0; i < graph->outputs->len; i++)
    needed[g_array_index(graph->outputs, int32_t, i)] = TRUE;
  for (int32_t i = (int32_t)graph->nodes->len - 1; i >= 0; i--) {
    const RandomNode *node = random_graph_node(graph, i);
    gboolean is_needed = FALSE;
    for (int32_t k = 0; k < node->num_results; k++)
      is_needed |=
          needed[node->results[k]] && random_graph_value(graph, node->results[k])->node == i;
    for (int32_t k = 0; k < node->num_reads && is_needed; k++)
      if (node->reads[k] >= 0)
        needed[node->reads[k]] = TRUE;
  }
  return needed;
}
