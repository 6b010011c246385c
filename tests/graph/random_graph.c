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

/* Returns an extent that is odd, or close to the lanes of vectors. */
int64_t extent_of_some(RandomGraph *g) {
  static const int8_t extents[] = {1, 2, 3, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 19, 24, 31, 33};
  return extents[below(g, G_N_ELEMENTS(extents))];
}

/* Returns an extent that is odd or close to the lanes of vectors, and rarely 0. */
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

char *joined(char *a, char *b) {
  char *all = g_strconcat(a, *a && *b ? " " : "", b, NULL);
  g_free(a);
  g_free(b);
  return all;
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

int32_t type_of(RandomGraph *g, int32_t usual, int32_t types) {
  if (!g->has_rare_types || below(g, 3) == 0)
    return usual;
  int32_t type;
  do
    type = (int32_t)between(g, FLOAT, BFLOAT16);
  while (!(1 << type & types));
  return type;
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

int32_t whole_list(RandomGraph *g, const int64_t *ints, int32_t count) {
  int32_t value = weights(g, g->whole, (int64_t[]){count}, 1);
  for (int32_t i = 0; i < count; i++)
    put(random_graph_value(g, value)->data, g->whole, i, (double)ints[i]);
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
  if (g->operand >= 0 &&
      fits(random_graph_value(g, g->operand), 1 << random_graph_value(g, g->operand)->type,
           min_rank, max_rank, exact) &&
      (!has_elements || random_value_count(random_graph_value(g, g->operand)) > 0))
    return g->operand;
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

void add_absent(RandomGraph *g) {
  RandomNode *node = random_graph_node(g, (int32_t)g->nodes->len - 1);
  node->results[node->num_results++] = -1;
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
  int32_t x = pick(g, FLOATS, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  apply(g, row->op, choice(g, row->attrs), &x, 1, BOOL, in.shape, in.rank);
}

/* float16 holds these integers, and bool all of them. Floats beyond an integer's range have no
 * defined conversion. */
static void make_cast(RandomGraph *g, const Row *row) {
  static const int8_t to[] = {FLOAT,    FLOAT16, INT32,  INT64, BOOL,   DOUBLE,
                              BFLOAT16, INT16,   UINT16, INT8,  UINT32, UINT64};
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

/* Operators that move the elements of one operand. */
#define MOVES                                                                                      \
  "Transpose|Reshape|Flatten|Squeeze|Unsqueeze|Identity|Slice|Split|Expand|Tile|Gather|"           \
  "GatherElements|GatherND|ReverseSequence|Compress|Trilu|CenterCropPad|Pad|Shape|Size"

/* Operators that move elements of at least 8 bits: Dropout and BitCast take no smaller ones, and
 * `given`, which makes the updates of TensorScatter, makes no smaller ones. */
#define BYTE_MOVES "Dropout|BitCast|TensorScatter"

/* The row of an operator that has one; frees the name. */
static const Row *find_row(char *op);

static void to_float(RandomGraph *g, int32_t x) {
  const RandomValue in = *random_graph_value(g, x);
  int32_t result =
      apply(g, "Cast", g_strdup_printf("to=%d", FLOAT), &x, 1, FLOAT, in.shape, in.rank);
  bits(g, result, in.fraction, in.magnitude + 1);
}

/* Casts to a storage-only type, moves the elements, and casts back. */
static void make_narrow(RandomGraph *g, const Row *row) {
  static const int8_t narrow[] = {NARROW_TYPES};
  int32_t x = pick_of(g, NUMBERS, 0, MAX_RANK, TRUE);
  int32_t type = narrow[below(g, G_N_ELEMENTS(narrow))];
  const RandomValue in = *random_graph_value(g, x);
  int32_t saturate = in.type == FLOAT ? (int32_t)below(g, 2) : 1, one;
  int32_t value, like = number(g, FLOAT, 1);
  char *to = g_strdup_printf("to=%d", type);
  if (below(g, 2)) /* an attribute that matters for another type */
    to = joined(to, g_strdup("round_mode=up"));
  if (!strcmp(row->op, "CastLike")) {
    one = apply(g, "Cast", to, &like, 1, type, NULL, 0);
    value = apply(g, row->op, g_strdup_printf("round_mode=up saturate=%d", saturate),
                  (int32_t[]){x, one}, 2, type, in.shape, in.rank);
  } else {
    value = apply(g, row->op, g_strdup_printf("%s saturate=%d", to, saturate), &x, 1, type,
                  in.shape, in.rank);
    g_free(to);
  }
  int32_t first = (int32_t)g->values->len;
  gboolean is_byte = type <= FLOAT8E5M2FNUZ;
  g->operand = value;
  const Row *move = find_row(choice(g, is_byte && below(g, 4) == 0 ? BYTE_MOVES : MOVES));
  move->make(g, move);
  g->operand = -1;
  for (int32_t i = first, last = (int32_t)g->values->len; i < last; i++)
    if (random_graph_value(g, i)->type == type && random_graph_value(g, i)->node >= 0)
      to_float(g, i);
  to_float(g, value);
}

static void make_cast_or_narrow(RandomGraph *g, const Row *row) {
  (below(g, 2) ? make_cast : make_narrow)(g, row);
}

static void make_bit_cast(RandomGraph *g, const Row *row) {
  static const int8_t to[] = {[UINT8] = INT8,         [INT8] = UINT8,          [UINT16] = INT16,
                              [INT16] = UINT16,       [INT32] = UINT32,        [UINT32] = INT32,
                              [INT64] = UINT64,       [UINT64] = INT64,        [FLOAT] = INT32,
                              [DOUBLE] = INT64,       [FLOAT16] = INT16,       [BFLOAT16] = INT16,
                              [FLOAT8E4M3FN] = UINT8, [FLOAT8E4M3FNUZ] = INT8, [FLOAT8E5M2] = UINT8,
                              [FLOAT8E5M2FNUZ] = INT8};
  int32_t x = pick_of(g, NUMBERS, 0, MAX_RANK, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t type = to[in.type];
  bits(g, apply(g, row->op, g_strdup_printf("to=%d", type), &x, 1, type, in.shape, in.rank), 0, 31);
}

static void make_clip(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, NUMBERS, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  if (is_float(in.type) && below(g, 6) == 0) { /* limits as attributes, before operator set 11 */
    apply(g, row->op, g_strdup("min=-0.75f max=1.25f"), &x, 1, in.type, in.shape, in.rank);
    return;
  }
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

/* Multiplies a value by constants of one element, one after the other. */
static void multiply(RandomGraph *g, int32_t x, int32_t count) {
  for (; count > 0; count--) {
    int32_t y = weights(g, random_graph_value(g, x)->type, (int64_t[]){1}, (int32_t)below(g, 2));
    const RandomValue a = *random_graph_value(g, x), b = *random_graph_value(g, y);
    x = apply(g, "Mul", g_strdup(""), below(g, 2) ? (int32_t[]){y, x} : (int32_t[]){x, y}, 2,
              a.type, a.shape, MAX(a.rank, b.rank));
    bits(g, x, a.fraction + b.fraction, a.magnitude + b.magnitude);
  }
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
  if (is_product && a.rank > 0 && below(g, 3) == 0)
    multiply(g, result, 2);
}

/* Also powers of integers, and powers whose exponents are integers or of another type. */
static void make_power(RandomGraph *g, const Row *row) {
  static const int8_t bases[] = {INT32, INT64, FLOAT, DOUBLE};
  static const int8_t exponents[] = {INT64, INT32, FLOAT, UINT8, INT16, UINT32};
  if (!g->has_rare_types || below(g, 2)) {
    make_binary(g, row);
    return;
  }
  int32_t x = pick_of(g, 1 << bases[below(g, G_N_ELEMENTS(bases))], 0, MAX_RANK, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int32_t y = weights(g, exponents[below(g, G_N_ELEMENTS(exponents))], in.shape, in.rank);
  RandomValue *power = random_graph_value(g, y);
  for (int64_t i = 0; i < random_value_count(power); i++)
    put(power->data, power->type, i, (double)below(g, 4));
  int32_t result =
      apply(g, row->op, g_strdup(""), (int32_t[]){x, y}, 2, in.type, in.shape, in.rank);
  if (is_float(in.type))
    rounded(g, result);
  bits(g, result, is_float(in.type) ? ROUNDED : 0, 3 * in.magnitude);
}

/* Divides by numbers from 1 to 7, one for each element or one for all, or shifts by them: integers
 * are shifted by less than their width. */
static void divide(RandomGraph *g, const Row *row, int32_t x, gboolean has_one) {
  const RandomValue a = *random_graph_value(g, x);
  int32_t y = has_one ? weights(g, a.type, (int64_t[]){1}, (int32_t)below(g, 2))
                      : weights(g, a.type, a.shape, a.rank);
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

static void make_division(RandomGraph *g, const Row *row) {
  int32_t types = below(g, 2) ? row->types : row->types & INTEGERS;
  int32_t x = pick_of(g, types, 0, MAX_RANK, TRUE);
  divide(g, row, x, FALSE);
  if (random_graph_value(g, x)->rank > 0)
    divide(g, row, x, TRUE);
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
  int64_t wanted[3] = {below(g, 3) || first != in.shape[0] ? first : 0, 1, -1};
  if (below(g, 8) == 0) { /* form before operator set 5 */
    char *attrs = g_strdup_printf("shape=%d,1,-1", (int)wanted[0]);
    apply(g, row->op, attrs, &x, 1, in.type, shape, 3);
    return;
  }
  int32_t list = int_list(g, wanted, 3);
  apply(g, row->op, g_strdup(wanted[0] && below(g, 4) == 0 ? "allowzero=1" : ""),
        (int32_t[]){x, list}, 2, in.type, shape, 3);
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

/* In versions before 13 the axes are an attribute. */
static char *axis_attr(gboolean is_old, int64_t axis) {
  return is_old ? g_strdup_printf("axes=%d,", (int)axis) : g_strdup("");
}

static int32_t unsqueeze(RandomGraph *g, int32_t x) {
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank + 1);
  for (int32_t i = 0; i <= in.rank; i++)
    shape[i] = i == axis ? 1 : in.shape[i - (i > axis)];
  gboolean is_old = below(g, 6) == 0;
  int32_t reads[2] = {x, is_old ? -1 : int_list(g, &axis, 1)};
  return apply(g, "Unsqueeze", axis_attr(is_old, axis), reads, is_old ? 1 : 2, in.type, shape,
               in.rank + 1);
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
  gboolean is_old = below(g, 6) == 0;
  int32_t reads[2] = {x, is_old ? -1 : int_list(g, &axis, 1)};
  apply(g, row->op, axis_attr(is_old, axis), reads, is_old ? 1 : 2, in.type, shape, rank);
}

static void make_constant(RandomGraph *g, const Row *row) {
  char *attrs = choice(g, row->attrs);
  gboolean is_scalar = !strchr(attrs, ',');
  int32_t type = strstr(attrs, "float") ? FLOAT : INT64;
  int32_t constant = apply(g, row->op, attrs, NULL, 0, type, (int64_t[]){1}, is_scalar ? 0 : 1);
  bits(g, constant, type == FLOAT ? 2 : 0, 2);
  int32_t x = pick(g, 1 << type, is_scalar ? 0 : 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t sum = apply(g, "Add", g_strdup(""), (int32_t[]){x, constant}, 2, type, in.shape, in.rank);
  bits(g, sum, MAX(in.fraction, 2), MAX(in.magnitude, 2) + 1);
}

static void make_constant_of_shape(RandomGraph *g, const Row *row) {
  int64_t shape[2] = {extent(g), extent(g)};
  int32_t list = int_list(g, shape, 2);
  char *attrs = choice(g, row->attrs);
  int32_t type = strstr(attrs, "ints") ? INT64 : FLOAT;
  bits(g, apply(g, row->op, attrs, &list, 1, type, shape, 2), 2, 2);
}

static void make_range(RandomGraph *g, const Row *row) {
  int64_t count = extent(g);
  static const int8_t types[] = {INT64, FLOAT, INT32, INT16, DOUBLE, FLOAT16, BFLOAT16};
  int32_t type = types[below(g, g->has_rare_types ? 7 : 2)];
  int32_t reads[3] = {number(g, type, 1), number(g, type, (double)(1 + 2 * count)),
                      number(g, type, 2)};
  bits(g, apply(g, row->op, choice(g, row->attrs), reads, 3, type, &count, 1), 0, 7);
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

/* ---- Reductions ---- */

static int32_t log2_up(int64_t count) {
  return 1 + (int32_t)ceil(log2((double)MAX(count, 1)));
}

/* The axes are an input, or, as in older versions, an attribute; all of them may be left out. */
static int32_t apply_reduction(RandomGraph *g, const Row *row, int32_t x, const int64_t *axes,
                               int32_t count, gboolean keep, const int64_t *shape, int32_t rank) {
  const RandomValue in = *random_graph_value(g, x);
  GString *attrs = g_string_new("keepdims=");
  int32_t list = -1, noop = below(g, 4) == 0;
  g_string_append_printf(attrs, "%d", keep);
  if (below(g, 6) == 0) {
    g_string_append(attrs, " axes=");
    for (int32_t i = 0; i < count; i++)
      g_string_append_printf(attrs, "%d,", (int)axes[i] - (i == 0 ? in.rank : 0));
  } else if (count < in.rank || noop || below(g, 2)) {
    list = int_list(g, axes, count);
  }
  if (noop)
    g_string_append(attrs, " noop_with_empty_axes=1");
  return apply(g, row->op, g_string_free(attrs, FALSE), (int32_t[]){x, list}, list >= 0 ? 2 : 1,
               in.type, shape, rank);
}

/* Reduces no axes: neither an absent list of axes nor an empty one means all of them. */
static void make_no_reduction(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, row->types, 1, MAX_RANK, row->how & SHARP);
  const RandomValue in = *random_graph_value(g, x);
  int32_t list = below(g, 2) ? int_list(g, NULL, 0) : -1;
  int32_t result =
      apply(g, row->op, g_strdup_printf("keepdims=%d noop_with_empty_axes=1", (int)below(g, 2)),
            (int32_t[]){x, list}, list >= 0 ? 2 : 1, in.type, in.shape, in.rank);
  if (!strcmp(row->op, "ReduceSumSquare"))
    bits(g, result, 2 * in.fraction, 2 * in.magnitude);
  else
    finish(g, row, result);
}

static void make_reduce(RandomGraph *g, const Row *row) {
  if (row->op[0] == 'R' && below(g, 10) == 0) {
    make_no_reduction(g, row);
    return;
  }
  gboolean is_arg = row->op[0] == 'A', keep = below(g, 2) == 1;
  /* The mean of no integers is refused. */
  gboolean is_mean = !strcmp(row->op, "ReduceMean"), has_words = is_mean && below(g, 4) == 0;
  int32_t types = has_words ? WORDS : is_mean ? FLOATS : row->types, rank = 0;
  int32_t x = pick_any(g, types, 1, MAX_RANK, row->how & SHARP, is_arg || has_words);
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
  int32_t result = apply_reduction(g, row, x, axes, last - first + 1, keep, shape, rank);
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
  int32_t x = pick(g, FLOATS | 1 << INT32 | 1 << INT64 | 1 << UINT32 | 1 << UINT64, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t axis = number(g, g->whole, (double)below(g, in.rank));
  int32_t result =
      apply(g, row->op, choice(g, row->attrs), (int32_t[]){x, axis}, 2, in.type, in.shape, in.rank);
  if (!strcmp(row->op, "CumSum"))
    bits(g, result, in.fraction, in.magnitude + 6);
  else
    bits(g, result, ROUNDED, 33 * in.magnitude);
}

/* ---- Windows ---- */

int32_t new_picture(RandomGraph *g, int32_t types) {
  int64_t shape[4] = {small_extent(g, 2), below(g, 2) ? between(g, 1, 20) : extent_of_some(g),
                      between(g, 3, 9), between(g, 3, 9)};
  int32_t type = types & 1 << FLOAT16 && below(g, 5) == 0 ? FLOAT16 : g->real;
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
  int32_t x = pick(g, FLOATS | WORDS, 2, 4);
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
  int32_t x = pick(g, FLOATS | WORDS, 2, 2);
  const RandomValue in = *random_graph_value(g, x);
  int64_t flip_a = below(g, 2), flip_b = below(g, 2), columns = extent(g);
  int64_t rows = in.shape[flip_a], depth = in.shape[1 - flip_a];
  int64_t w_shape[2] = {flip_b ? columns : depth, flip_b ? depth : columns};
  int32_t w = given(g, in.type, w_shape, 2, below(g, 3) > 0);
  int32_t c = below(g, 2) ? weights(g, in.type, &columns, 1) : -1;
  rounded(g, apply(g, row->op,
                   g_strdup_printf("alpha=%s beta=%s transA=%d transB=%d",
                                   is_float(in.type) ? "0.5f" : "1.0f",
                                   is_float(in.type) ? "2.0f" : "1.0f", (int)flip_a, (int)flip_b),
                   (int32_t[]){x, w, c}, c >= 0 ? 3 : 2, in.type, (int64_t[]){rows, columns}, 2));
}

/* Extents given by letters are chosen at random. */
static void make_einsum(RandomGraph *g, const Row *row) {
  char *text = choice(g, row->attrs), **sides = g_strsplit(text, "->", 2);
  char **terms = g_strsplit(sides[0], ",", -1);
  int64_t extents[128], shape[MAX_RANK];
  int32_t reads[MAX_READS], count = 0, type = below(g, 4) ? g->real : type_of(g, INT32, INTEGERS);
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

/* Activation functions of FusedConv and FusedGemm. */
#define FUSED_FUNCTIONS                                                                            \
  "|activation=Relu|activation=Tanh|activation=Sigmoid|activation=LeakyRelu "                      \
  "activation_params=0.3f,|activation=Clip activation_params=-0.5f,0.75f|activation=HardSigmoid "  \
  "activation_params=0.3f,0.4f"
#define GEMM_FUNCTIONS                                                                             \
  "|activation=Relu|activation=Tanh|activation=LeakyRelu activation_alpha=0.3f|"                   \
  "activation=HardSigmoid activation_alpha=0.3f activation_beta=0.4f|activation=Selu "             \
  "activation_alpha=1.5f activation_gamma=0.5f"

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
    {"Relu", make_unary, "", NUMBERS & ~UNSIGNED, EXACT},
    UNARY("LeakyRelu", "|alpha=0.3f"),
    {"ThresholdedRelu", make_unary, "|alpha=0.3f", FLOATS, EXACT | SHARP},
    UNARY("Elu", "|alpha=0.7f"),
    UNARY("Selu", "|alpha=1.5f gamma=0.5f"),
    UNARY("Celu", "|alpha=0.7f"),
    UNARY("Sigmoid", ""),
    UNARY("HardSigmoid", "|alpha=0.3f beta=0.4f"),
    UNARY("HardSwish", ""),
    UNARY("Softplus", ""),
    UNARY("Softsign", ""),
    UNARY("Mish", ""),
    UNARY("Gelu", "|approximate=tanh"),
    UNARY("Swish", "|alpha=0.7f"),
    {"Shrink", make_unary, "lambd=0.5f|bias=0.25f lambd=0.5f", NUMBERS, EXACT | SHARP},
    {"Not", make_unary, "", 1 << BOOL, EXACT},
    {"BitwiseNot", make_unary, "", INTEGERS, EXACT},
    {"IsNaN", make_predicate, "", 0, EXACT},
    {"IsInf", make_predicate, "|detect_negative=0|detect_positive=0", 0, EXACT},
    {"BitCast", make_bit_cast, "", 0, 0},
    {"Cast", make_cast_or_narrow, "", 0, 0},
    {"CastLike", make_cast_or_narrow, "", 0, 0},
    {"Clip", make_clip, "", 0, 0},
    {"Add", make_binary, "", NUMBERS, EXACT},
    {"Sub", make_binary, "", NUMBERS, EXACT},
    {"Mul", make_binary, "", NUMBERS, EXACT},
    {"Div", make_division, "", NUMBERS, 0},
    {"Mod", make_division, "|fmod=1", NUMBERS, 0},
    {"Pow", make_power, "", FLOATS, SHARP},
    {"PRelu", make_binary, "", FLOATS | WORDS, EXACT},
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
    {"BitShift", make_division, "direction=LEFT|direction=RIGHT", INTEGERS, 0},
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
    {"Dropout", make_dropout, "|seed=7|ratio=0.25f", FLOATS, EXACT},
    {"Constant", make_constant,
     "value_float=0.75|value_floats=0.75,|value=floats:0.75,|value_int=3|value_ints=3,|value=ints:"
     "3,",
     0, 0},
    {"ConstantOfShape", make_constant_of_shape, "|value=floats:0.75,|value=ints:3,", 0, 0},
    {"Range", make_range, "|stash_type=1", 0, 0},
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
    {"SpaceToDepth", make_depth_space, "| mode=DCR", 0, 0},
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
    {"ReduceMean", make_reduce, "", FLOATS | WORDS, 0},
    {"ReduceMax", make_reduce, "", ANY, EXACT},
    {"ReduceMin", make_reduce, "", ANY, EXACT},
    {"ReduceProd", make_reduce, "", FLOATS | WORDS, 0},
    {"ReduceL1", make_reduce, "", FLOATS | WORDS, 0},
    {"ReduceL2", make_reduce, "", FLOATS, 0},
    {"ReduceSumSquare", make_reduce, "", FLOATS | WORDS, 0},
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
    {"LRN", make_picture, "size=3|size=5 alpha=0.01f|size=2 beta=0.5f bias=2.0f alpha=0.1f", FLOATS,
     0},
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
    {"com.microsoft.GatherBlockQuantized", make_quantized_table, "", 0, 0},
    {"com.microsoft.MoE", make_experts, "", 0, 0},
    {"com.microsoft.QMoE", make_experts, "", 0, 0},
    {"com.microsoft.MatMulBnb4", make_code_product,
     "|quant_type=1|quant_type=1 training_mode=1 transB=1", 0, 0},
    {"com.microsoft.MatMulNBits", make_few_bits_product, "|accuracy_level=1", 0, 0},
    {"BatchNormalization", make_norm, "", 0, 0},
    {"InstanceNormalization", make_norm, "", 0, 0},
    {"LayerNormalization", make_norm, "", 0, 0},
    {"GroupNormalization", make_norm, "", 0, 0},
    {"RMSNormalization", make_norm, "", 0, 0},
    {"SimplifiedLayerNormalization", make_norm, "", 0, 0},
    {"MeanVarianceNormalization", make_picture, "|axes=1,2", FLOATS, 0},
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
    {"LinearAttention", make_linear_attention, "|scale=0.25f|chunk_size=2", 0, 0},
    {"com.microsoft.Gelu", make_unary, "", FLOATS, 0},
    {"com.microsoft.BiasGelu", make_biased, "", 0, 0},
    {"com.microsoft.FastGelu", make_biased, "", 0, 0},
    {"com.microsoft.QuickGelu", make_unary, "|alpha=0.7f", FLOATS, 0},
    {"com.microsoft.FusedMatMul", make_fused_product, "", 0, 0},
    {"com.microsoft.FusedConv", make_conv, FUSED_FUNCTIONS, 0, 0},
    {"com.microsoft.FusedGemm", make_fused_gemm, GEMM_FUNCTIONS, 0, 0},
    {"com.microsoft.SkipLayerNormalization", make_skip_norm, "", 0, 0},
    {"com.microsoft.SkipSimplifiedLayerNormalization", make_skip_norm, "", 0, 0},
    {"com.microsoft.EmbedLayerNormalization", make_embedding, "", 0, 0},
    {"com.microsoft.QuantizeLinear", make_quantize, "", 0, 0},
    {"com.microsoft.DequantizeLinear", make_quantize, "", 0, 0},
    {"com.microsoft.QLinearAdd", make_byte_binary, "", 0, 0},
    {"com.microsoft.QLinearMul", make_byte_binary, "", 0, 0},
    {"com.microsoft.QLinearLeakyRelu", make_byte_function, "|alpha=0.25f", 0, 0},
    {"com.microsoft.QLinearSigmoid", make_byte_function, "", 0, 0},
    {"com.microsoft.QLinearSoftmax", make_byte_function, "", 0, 0},
    {"com.microsoft.QLinearGlobalAveragePool", make_byte_pool, "", 0, 0},
    {"com.microsoft.QLinearAveragePool", make_byte_pool, "", 0, 0},
    {"com.microsoft.NhwcMaxPool", make_byte_pool, "", 0, 0},
    {"com.microsoft.QLinearConcat", make_byte_concat, "", 0, 0},
    {"com.microsoft.QLinearWhere", make_byte_where, "", 0, 0},
    {"com.microsoft.QGemm", make_byte_gemm, "", 0, 0},
    {"com.microsoft.MatMulIntegerToFloat", make_byte_product, "", 0, 0},
    {"com.microsoft.DynamicQuantizeMatMul", make_dynamic_product, "", 0, 0},
    {"com.microsoft.DynamicQuantizeLSTM", make_byte_lstm, "", 0, 0},
    {"com.microsoft.RotaryEmbedding", make_microsoft_rotary, "|is_packed_batching=1 scale=2.0f", 0,
     0},
    {"com.microsoft.Attention", make_microsoft_attention,
     "|do_rotary=0 past_present_share_buffer=0", 0, 0},
    {"com.microsoft.QAttention", make_quantized_attention,
     "|do_rotary=0 past_present_share_buffer=0", 0, 0},
    {"com.microsoft.MultiHeadAttention", make_multi_head, "", 0, 0},
    {"com.microsoft.GroupQueryAttention", make_group_query,
     "||scale=0.25f|softcap=2.0f|smooth_softmax=1", 0, 0},
    {"LSTM", make_recurrent, "", 0, 0},
    {"GRU", make_recurrent, "", 0, 0},
    {"RNN", make_recurrent, "", 0, 0},
};

int32_t random_graph_num_ops(void) {
  return G_N_ELEMENTS(rows);
}

static const Row *find_row(char *op) {
  size_t i = 0;
  while (strcmp(rows[i].op, op) != 0)
    i++;
  g_free(op);
  return &rows[i];
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

static void choose_types(RandomGraph *g) {
  static const int8_t reals[] = {FLOAT, FLOAT, FLOAT, DOUBLE, FLOAT16, BFLOAT16};
  g->operand = -1;
  g->real = g->has_rare_types ? reals[below(g, G_N_ELEMENTS(reals))] : FLOAT;
  g->whole = g->has_rare_types && below(g, 2) ? INT32 : INT64;
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
    choose_types(g);
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
      is_needed |= node->results[k] >= 0 && needed[node->results[k]] &&
                   random_graph_value(graph, node->results[k])->node == i;
    for (int32_t k = 0; k < node->num_reads && is_needed; k++)
      if (node->reads[k] >= 0)
        needed[node->reads[k]] = TRUE;
  }
  return needed;
}
