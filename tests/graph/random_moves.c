/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of operators that move, find or select elements for random graphs. */
#include "tests/graph/random_make.h"

#include <string.h>

void make_transpose(RandomGraph *g, const Row *row) {
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

void make_concat(RandomGraph *g, const Row *row) {
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

/* As in versions before 10: the bounds of two axes are attributes; the last elements are counted
 * from the end. */
static void make_old_slice(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, ANY, 2, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], last = in.rank - 1, from = below(g, in.shape[0]);
  memcpy(shape, in.shape, sizeof(shape));
  shape[0] = in.shape[0] - from;
  shape[last] = between(g, 1, in.shape[last]);
  apply(g, row->op,
        g_strdup_printf("axes=0,-1 starts=%d,%d ends=1000,%d", (int)from, (int)-shape[last],
                        (int)in.shape[last]),
        &x, 1, in.type, shape, in.rank);
}

void make_slice(RandomGraph *g, const Row *row) {
  if (below(g, 6) == 0) {
    make_old_slice(g, row);
    return;
  }
  int32_t x = pick(g, ANY, 1, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank), length = in.shape[axis];
  int64_t start = length ? below(g, length) : 0, step = between(g, 1, 3);
  int64_t end = start + (below(g, 12) ? part_of(g, length - start) : 0);
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = (end - start + step - 1) / step;
  gboolean back = below(g, 3) == 0 && end > start; /* elements from end - 1 down to start */
  int64_t last = !back ? end : start ? start - 1 - length : -length - 1;
  if (back) {
    start = end - 1;
    step = -step;
  }
  int32_t reads[5] = {x, whole_list(g, &start, 1), whole_list(g, &last, 1), whole_list(g, &axis, 1),
                      whole_list(g, &step, 1)};
  apply(g, row->op, g_strdup(""), reads, 5, in.type, shape, in.rank);
}

/* Makes parts of equal lengths, the last perhaps shorter, or parts with an attribute of lengths, as
 * in versions before 13. */
static void make_equal_split(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, ANY, 1, MAX_RANK), parts = (int32_t)between(g, 1, MAX_RESULTS);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank), length = in.shape[axis];
  int64_t part = (length + parts - 1) / parts;
  GString *attrs = g_string_new(below(g, 3) ? "num_outputs=" : "split=");
  gboolean is_old = attrs->str[0] == 's';
  if (!is_old)
    g_string_append_printf(attrs, "%d", parts);
  memcpy(shape, in.shape, sizeof(shape));
  for (int32_t i = 0; i < parts; i++)
    if (is_old)
      g_string_append_printf(attrs, "%d,", (int)CLAMP(length - i * part, 0, part));
  g_string_append_printf(attrs, " axis=%d", (int)axis);
  for (int32_t i = 0; i < parts; i++) {
    shape[axis] = CLAMP(length - i * part, 0, part);
    if (i == 0)
      apply(g, row->op, g_string_free(attrs, FALSE), &x, 1, in.type, shape, in.rank);
    else
      add_result(g, in.type, shape, in.rank);
  }
}

void make_split(RandomGraph *g, const Row *row) {
  if (below(g, 3) == 0) {
    make_equal_split(g, row);
    return;
  }
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

/* Adds pads, and the value of padding, to the attributes, as operator sets before 11 need. Frees
 * the old attributes. */
static char *with_pads(char *attrs, const int64_t *pads, int32_t count) {
  GString *all = g_string_new(attrs);
  g_string_append(all, strstr(attrs, "constant") ? " value=1.0f pads=" : " pads=");
  for (int32_t i = 0; i < count; i++)
    g_string_append_printf(all, "%d,", (int)pads[i]);
  g_free(attrs);
  return g_string_free(all, FALSE);
}

void make_pad(RandomGraph *g, const Row *row) {
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
  if (first == 0 && (is_float(in.type) || !strstr(attrs, "constant")) && below(g, 6) == 0) {
    apply(g, row->op, with_pads(attrs, pads, 2 * rank), &x, 1, in.type, shape, in.rank);
    return;
  }
  if (strstr(attrs, "constant") && below(g, 2))
    fill = number(g, in.type, 1);
  int32_t amounts = int_list(g, pads, 2 * rank);
  if (first > 0)
    list = whole_list(g, axes, rank);
  apply(g, row->op, attrs, (int32_t[]){x, amounts, fill, list}, 4, in.type, shape, in.rank);
}

void make_expand(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 3), rank;
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK] = {2};
  rank = in.rank + 1;
  for (int32_t i = 0; i < in.rank; i++)
    shape[i + 1] = in.shape[i] == 1 ? 5 : in.shape[i];
  int32_t list = int_list(g, shape, rank);
  apply(g, row->op, g_strdup(""), (int32_t[]){x, list}, 2, in.type, shape, rank);
}

void make_tile(RandomGraph *g, const Row *row) {
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

/* Integers from `first` to `last`, as a constant: other numbers would not fit the node. */
int32_t integers(RandomGraph *g, int32_t type, const int64_t *shape, int32_t rank, int64_t first,
                 int64_t last) {
  int32_t list = weights(g, type, shape, rank);
  RandomValue *value = random_graph_value(g, list);
  for (int64_t i = 0; i < random_value_count(value); i++)
    put(value->data, type, i, (double)between(g, first, last));
  value->magnitude = 6;
  return list;
}

/* Makes indices into that many elements, some counted from the end. */
int32_t indices(RandomGraph *g, const int64_t *shape, int32_t rank, int64_t end) {
  int32_t list = given(g, g->whole, shape, rank, below(g, 2) == 0);
  RandomValue *value = random_graph_value(g, list);
  for (int64_t i = 0; i < random_value_count(value); i++)
    put(value->data, g->whole, i, (double)between(g, -end, end - 1));
  value->magnitude = 6;
  value->is_part = TRUE; /* other numbers would be out of bounds */
  return list;
}

void make_gather(RandomGraph *g, const Row *row) {
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
    put(value->data, g->whole, i, (double)between(g, -end, end - 1));
  }
  return list;
}

void make_gather_nd(RandomGraph *g, const Row *row) {
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

/* Picks a way to combine an element with its updates, at most 9. Frees the attributes. */
static void scatter(RandomGraph *g, const Row *row, int32_t x, int32_t list, int32_t updates,
                    char *attrs) {
  const RandomValue in = *random_graph_value(g, x);
  char *how = choice(g, in.type == BOOL ? "none" : row->attrs);
  char *own = row->attrs[0] ? g_strdup_printf("reduction=%s", how) : g_strdup("");
  int32_t magnitude = MAX(in.magnitude, random_graph_value(g, updates)->magnitude);
  int32_t fraction = MAX(in.fraction, random_graph_value(g, updates)->fraction);
  int32_t result = apply(g, row->op, joined(attrs, own), (int32_t[]){x, list, updates}, 3, in.type,
                         in.shape, in.rank);
  if (!strcmp(how, "mul"))
    bits(g, result, 10 * fraction, 10 * magnitude);
  else
    bits(g, result, fraction, magnitude + (strcmp(how, "add") ? 0 : 4));
  g_free(how);
}

void make_scatter_elements(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank);
  for (int32_t i = 0; i < in.rank; i++)
    shape[i] = i == axis && in.shape[i] ? between(g, 1, 9) : part_of(g, in.shape[i]);
  int32_t list = indices(g, shape, in.rank, in.shape[axis]);
  int32_t updates = given(g, in.type, shape, in.rank, FALSE);
  scatter(g, row, x, list, updates, g_strdup_printf("axis=%d", (int)axis));
}

void make_scatter_nd(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 1, 4), rank = 1;
  const RandomValue in = *random_graph_value(g, x);
  int64_t depth = between(g, 1, in.rank), shape[MAX_RANK] = {count_rows(g, &in, 0, depth)};
  for (int32_t i = (int32_t)depth; i < in.rank; i++)
    shape[rank++] = in.shape[i];
  int32_t list = index_rows(g, &in, 0, shape[0], depth);
  scatter(g, row, x, list, given(g, in.type, shape, rank, FALSE), g_strdup(""));
}

/* The indices distinguish equal elements. */
void make_topk(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, NUMBERS, 1, MAX_RANK, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank);
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = below(g, 3) ? part_of(g, in.shape[axis]) : in.shape[axis];
  gboolean is_old = below(g, 6) == 0; /* form before operator set 10 */
  int32_t k = is_old ? -1 : int_list(g, &shape[axis], 1);
  char *size = is_old ? g_strdup_printf("k=%d", (int)shape[axis])
                      : g_strdup_printf("largest=%d sorted=1", (int)below(g, 2));
  apply(g, row->op, g_strdup_printf("axis=%d %s", (int)axis, size), (int32_t[]){x, k},
        is_old ? 1 : 2, in.type, shape, in.rank);
  g_free(size);
  int32_t places = add_result(g, INT64, shape, in.rank);
  random_graph_value(g, places)->fraction = 0;
  random_graph_value(g, places)->magnitude = 6;
}

/* Boxes in pairs of equal boxes: of each pair the one with the better score is kept. */
void make_boxes(RandomGraph *g, const Row *row) {
  int64_t batches = between(g, 1, 2), classes = between(g, 1, 3), count = between(g, 1, 20);
  int64_t most = between(g, 1, 12), kept = MIN(most, (count + 1) / 2);
  int64_t box_shape[3] = {batches, count, 4}, score_shape[3] = {batches, classes, count};
  int32_t boxes = weights(g, FLOAT, box_shape, 3), scores = weights(g, FLOAT, score_shape, 3);
  float *numbers = (float *)random_graph_value(g, boxes)->data;
  gboolean is_centre = below(g, 3) == 0;
  for (int64_t i = 0; i < batches * count; i++) {
    float low = (float)(i % count / 2 * 4), corners[4] = {low, 1, low + 2, 3};
    float centre[4] = {low + 1, 2, 2, 2};
    memcpy(numbers + 4 * i, is_centre ? centre : corners, sizeof(corners));
  }
  int32_t reads[] = {boxes, scores, number(g, INT64, (double)most), number(g, FLOAT, 0.5), -1};
  if (below(g, 3) == 0) /* less than all scores */
    reads[4] = number(g, FLOAT, -2);
  int64_t shape[2] = {batches * classes * kept, 3};
  bits(g,
       apply(g, row->op, g_strdup_printf("center_point_box=%d", is_centre), reads,
             reads[4] >= 0 ? 5 : 4, INT64, shape, 2),
       0, 6);
}

void make_reverse_sequence(RandomGraph *g, const Row *row) {
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
void make_one_hot(RandomGraph *g, const Row *row) {
  int32_t x = pick_of(g, (g->has_rare_types ? NUMBERS : 0) | 1 << INT32 | 1 << INT64, 0,
                      MAX_RANK - 1, TRUE);
  const RandomValue in = *random_graph_value(g, x);
  int64_t shape[MAX_RANK], axis = below(g, in.rank + 1), depth = between(g, 1, 7), pair = 2;
  for (int32_t i = 0; i <= in.rank; i++)
    shape[i] = i == axis ? depth : in.shape[i - (i > axis)];
  int32_t type = below(g, 2) ? g->real : type_of(g, INT32, INTEGERS | 1 << BOOL);
  int32_t values = given(g, type, &pair, 1, below(g, 2) == 0);
  const RandomValue on_off = *random_graph_value(g, values);
  int32_t result =
      apply(g, row->op, g_strdup_printf("axis=%d", (int)axis),
            (int32_t[]){x, number(g, type_of(g, g->whole, NUMBERS), (double)depth), values}, 3,
            type, shape, in.rank + 1);
  bits(g, result, on_off.fraction, on_off.magnitude);
}

void make_eye(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, 2);
  const RandomValue in = *random_graph_value(g, x);
  static const int8_t types[] = {FLOAT, INT32, INT64, DOUBLE, BOOL};
  int32_t type = types[below(g, g->has_rare_types ? 5 : 4)];
  char *attrs = choice(g, row->attrs);
  if (below(g, 2))
    type = in.type;
  else
    attrs = joined(attrs, g_strdup_printf("dtype=%d", type));
  int32_t result = apply(g, row->op, attrs, &x, 1, type, in.shape, 2);
  bits(g, result, 0, 1);
  random_graph_value(g, result)->error = 0;
}

/* Makes a Compress or a NonZero: the number of results is the number of elements that a constant
 * marks. */
void make_marked(RandomGraph *g, const Row *row) {
  gboolean is_compress = row->op[0] == 'C';
  int32_t x = is_compress ? pick_some(g, ANY, 1, 4)
                          : weights(g, type_of(g, BOOL, ANY),
                                    (int64_t[]){extent_of_some(g), extent_of_some(g)}, 2);
  const RandomValue in = *random_graph_value(g, x);
  int64_t axis = below(g, in.rank), shape[MAX_RANK];
  int32_t mask = is_compress ? weights(g, BOOL, &in.shape[axis], 1) : x;
  const RandomValue *marks = random_graph_value(g, mask);
  int64_t count = 0;
  for (int64_t i = 0; i < random_value_count(marks); i++) {
    int64_t mark = i ? below(g, 2) : 1;
    put(marks->data, marks->type, i, (double)mark);
    count += mark;
  }
  if (!is_compress) {
    bits(g, apply(g, row->op, g_strdup(""), &x, 1, INT64, (int64_t[]){2, count}, 2), 0, 6);
    return;
  }
  memcpy(shape, in.shape, sizeof(shape));
  shape[axis] = count;
  apply(g, row->op, g_strdup_printf("axis=%d", (int)axis), (int32_t[]){x, mask}, 2, in.type, shape,
        in.rank);
}

/* Makes slices along an axis of a constant, whose different slices can be counted. Each slice
 * occurs up to three times; the elements of a slice are its number plus their places in it. */
static void make_unique_slices(RandomGraph *g, const Row *row) {
  int64_t shape[3] = {between(g, 1, 3), between(g, 1, 9), between(g, 1, 3)}, seen = 0;
  int32_t rank = (int32_t)between(g, 2, 3), x = weights(g, INT32, shape, rank);
  int64_t axis = below(g, rank), count = shape[axis], different = 0, inner = 1, all;
  int32_t *data = random_graph_value(g, x)->data, numbers[9];
  for (int64_t i = axis + 1; i < rank; i++)
    inner *= shape[i];
  for (int64_t i = 0; i < count; i++) {
    numbers[i] = (int32_t)below(g, (count + 2) / 3 + 1);
    different += (seen >> numbers[i] & 1) == 0;
    seen |= (int64_t)1 << numbers[i];
  }
  all = random_value_count(random_graph_value(g, x));
  for (int64_t i = 0; i < all; i++)
    data[i] = numbers[i / inner % count] + (int32_t)(i % inner);
  shape[axis] = different;
  char *attrs = joined(choice(g, row->attrs), g_strdup_printf("axis=%d", (int)(axis - rank)));
  apply(g, row->op, attrs, &x, 1, INT32, shape, rank);
  for (int32_t i = 1; i < 4; i++)
    bits(g, add_result(g, INT64, i == 2 ? &count : &different, 1), 0, 6);
}

void make_unique(RandomGraph *g, const Row *row) {
  if (below(g, 2)) {
    make_unique_slices(g, row);
    return;
  }
  int64_t count = extent(g), different = 0, bits_of = 0;
  static const int8_t types[] = {INT32, INT64, FLOAT, UINT8};
  int32_t type = type_of(g, types[below(g, 4)], ANY), x = weights(g, type, &count, 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t number = below(g, type == BOOL ? 2 : 8);
    put(random_graph_value(g, x)->data, type, i, (double)number);
    different += (bits_of >> number & 1) == 0;
    bits_of |= (int64_t)1 << number;
  }
  apply(g, row->op, choice(g, row->attrs), &x, 1, type, &different, 1);
  for (int32_t i = 1; i < 4; i++)
    bits(g, add_result(g, INT64, i == 2 ? &count : &different, 1), 0, 6);
}

void make_dropout(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, row->types, 0, MAX_RANK);
  const RandomValue in = *random_graph_value(g, x);
  int32_t reads[3] = {x, -1, -1}, count = (int32_t)between(g, 1, 3);
  if (count > 1)
    reads[1] = number(g, type_of(g, FLOAT, FLOATS), 0.25);
  if (count > 2)
    reads[2] = number(g, BOOL, 0);
  apply(g, row->op, choice(g, row->attrs), reads, count, in.type, in.shape, in.rank);
  int32_t mask = add_result(g, BOOL, in.shape, in.rank);
  random_graph_value(g, mask)->error = 0;
}

void make_depth_space(RandomGraph *g, const Row *row) {
  gboolean to_space = row->op[0] == 'D';
  int64_t size = between(g, 2, 3), c = between(g, 1, 9), h = between(g, 1, 6), w = between(g, 1, 6);
  int64_t deep[4] = {small_extent(g, 2), size * size * c, h, w};
  int64_t flat[4] = {deep[0], c, size * h, size * w};
  int32_t type = below(g, 3) ? g->real : type_of(g, UINT8, ANY);
  int32_t x = given(g, type, to_space ? deep : flat, 4, FALSE);
  char *mode = choice(g, row->attrs);
  apply(g, row->op, g_strdup_printf("blocksize=%d%s", (int)size, mode), &x, 1, type,
        to_space ? flat : deep, 4);
  g_free(mode);
}

void make_trilu(RandomGraph *g, const Row *row) {
  int32_t x = pick(g, ANY, 2, MAX_RANK), k = number(g, INT64, (double)between(g, -2, 2));
  const RandomValue in = *random_graph_value(g, x);
  apply(g, row->op, choice(g, row->attrs), (int32_t[]){x, k}, 2, in.type, in.shape, in.rank);
}

void make_affine_grid(RandomGraph *g, const Row *row) {
  int64_t rank = between(g, 2, 3), maps[3] = {between(g, 1, 3), rank, rank + 1};
  int64_t size[5] = {maps[0], between(g, 1, 3)}, shape[5] = {maps[0]};
  for (int64_t i = 0; i < rank; i++)
    shape[1 + i] = size[2 + i] = between(g, 1, 6);
  shape[1 + rank] = rank;
  int32_t theta = weights(g, g->real, maps, 3);
  rounded(g, apply(g, row->op, g_strdup_printf("align_corners=%d", (int)below(g, 2)),
                   (int32_t[]){theta, int_list(g, size, 2 + (int32_t)rank)}, 2, g->real, shape,
                   2 + (int32_t)rank));
}

/* Positions inside and outside of the picture. */
void make_grid_sample(RandomGraph *g, const Row *row) {
  int32_t x = pick_some(g, 1 << g->real, 4, 4);
  const RandomValue in = *random_graph_value(g, x);
  int64_t places[4] = {in.shape[0], between(g, 1, 6), between(g, 1, 6), 2};
  int64_t shape[4] = {in.shape[0], in.shape[1], places[1], places[2]};
  char *mode = choice(g, row->attrs), *padding = choice(g, "zeros|border|reflection");
  int32_t grid = weights(g, g->real, places, 4);
  rounded(g, apply(g, row->op,
                   g_strdup_printf("mode=%s padding_mode=%s align_corners=%d", mode, padding,
                                   (int)below(g, 2)),
                   (int32_t[]){x, grid}, 2, g->real, shape, 4));
  g_free(mode);
  g_free(padding);
}
