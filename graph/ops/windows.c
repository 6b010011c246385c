/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of Fourier transforms: windows and the weights of mel bands. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

#define PI 3.14159265358979323846

static int output_dtype(const BpGraphNode *node, BpDataType *dtype) {
  int64_t number = bp__node_int(node, "output_datatype", 1);
  if (bp__dtype_from_onnx(number, dtype) || !bp__dtype_is_float(*dtype))
    return bp__op_error(node, "its output_datatype is number %lld, not a float type that works",
                        (long long)number);
  return 0;
}

/* ---- Windows ----------------------------------------------------------------------------- */

/* The windows: sums of cosines of multiples of the angle. */
static const struct {
  const char *name;
  double factors[3];
} windows[] = {
    {"HannWindow", {0.5, -0.5, 0}},
    {"HammingWindow", {25.0 / 46, -21.0 / 46, 0}},
    {"BlackmanWindow", {0.42, -0.5, 0.08}},
};

/* Computes a window, whose size only a run knows, by nodes, in the type `wide`. */
static BpGraphValue *window_in(BpGraph *graph, const BpGraphNode *node, const double *factors,
                               BpDataType wide) {
  BpGraphValue *size = node->inputs[0], *zero, *one;
  zero = bp__op_cast(graph, node, bp__graph_float_scalar(graph, 0), size->dtype);
  one = bp__op_cast(graph, node, bp__graph_float_scalar(graph, 1), size->dtype);
  size = bp__op_reshape(graph, node, size, NULL, 0);
  BpGraphValue *places =
      bp__op_apply(graph, "", "Range", node->name, (BpGraphValue *[]){zero, size, one}, 3, NULL, 0);
  BpGraphValue *last =
      bp__node_int(node, "periodic", 1) ? size : bp__op_binary(graph, node, "Sub", size, one);
  if (!places || !last)
    return NULL;
  BpGraphValue *angle = bp__op_binary(graph, node, "Mul", bp__op_number(graph, node, wide, 2 * PI),
                                      bp__op_cast(graph, node, places, wide));
  angle = bp__op_binary(graph, node, "Div", angle, bp__op_cast(graph, node, last, wide));
  BpGraphValue *sum = bp__op_number(graph, node, wide, factors[0]);
  for (int i = 1; i < 3; i++) {
    BpGraphValue *turned =
        bp__op_binary(graph, node, "Mul", angle, bp__op_number(graph, node, wide, i));
    BpGraphValue *wave = bp__op_unary(graph, node, "Cos", turned);
    wave = bp__op_binary(graph, node, "Mul", wave, bp__op_number(graph, node, wide, factors[i]));
    sum = bp__op_binary(graph, node, "Add", sum, wave);
  }
  return sum;
}

BP_ROW_EXPAND(window) {
  const double *factors = windows[0].factors;
  const BpGraphValue *given = node->inputs[0];
  BpDataType dtype;
  int64_t size;
  for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
    if (!strcmp(node->op->name, windows[i].name))
      factors = windows[i].factors;
  if (output_dtype(node, &dtype))
    return -1;
  if (!given->data) {
    if (bp__value_is_open(given) || bp__value_num_elements(given) != 1)
      return bp__op_bad(node, "its size is not one number");
    BpGraphValue *out = window_in(graph, node, factors, bp_te_accumulator(dtype));
    node->outputs[0] = out ? bp__op_cast(graph, node, out, dtype) : NULL;
    return node->outputs[0] ? 0 : -1;
  }
  if (bp__op_const_extent(node, 0, 0, &size))
    return -1;
  if (size < 0)
    return bp__op_bad(node, "its size is %lld", (long long)size);
  BpGraphValue *out = bp__graph_constant(graph, node->name, dtype, &size, 1, NULL);
  double step = 2 * PI / (double)(bp__node_int(node, "periodic", 1) ? size : size - 1);
  for (int64_t i = 0; out && i < size; i++)
    bp__value_put_float(out, i,
                        factors[0] + factors[1] * cos(step * (double)i) +
                            factors[2] * cos(2 * step * (double)i));
  node->outputs[0] = out;
  return out ? 0 : -1;
}

/* ---- MelWeightMatrix --------------------------------------------------------------------- */

typedef struct Mel {
  int64_t bands, length, rate;
  double low, high; /* ends of the bands in mel */
} Mel;

static int read_mel(const BpGraphNode *node, Mel *mel) {
  double edges[2];
  if (bp__op_const_extent(node, 0, 0, &mel->bands) ||
      bp__op_const_extent(node, 1, 0, &mel->length) || bp__op_const_extent(node, 2, 0, &mel->rate))
    return -1;
  for (int32_t i = 0; i < 2; i++) {
    const BpGraphValue *edge = node->inputs[3 + i];
    if (!edge->data || bp__value_num_elements(edge) != 1)
      return bp__op_error(node, "input %d must be a constant number", 3 + i);
    edges[i] = bp__value_get_float(edge, 0);
  }
  if (mel->bands < 1 || mel->length < 1 || mel->rate < 1 || !(edges[0] >= 0) ||
      !(edges[1] >= edges[0]) || edges[1] > (double)mel->rate / 2)
    return bp__op_bad(
        node, "%lld bands from %g to %g of a transform of %lld at a rate of %lld are not valid",
        (long long)mel->bands, edges[0], edges[1], (long long)mel->length, (long long)mel->rate);
  mel->low = log10(1 + edges[0] / 700);
  mel->high = log10(1 + edges[1] / 700);
  return 0;
}

/* The bin that contains edge `i` of the bands. */
static int64_t mel_bin(const Mel *mel, int64_t i) {
  double at = mel->low + (mel->high - mel->low) * (double)i / (double)(mel->bands + 2);
  double bin = (double)(mel->length + 1) * 700 * (pow(10, at) - 1) / (double)mel->rate;
  return bin < (double)mel->length / 2 ? (int64_t)bin : mel->length / 2;
}

/* The numbers of the bands that only a run knows, as float64 values that broadcast. */
typedef struct MelOfData {
  BpVectorMaker m;
  BpGraphValue *length, *rate, *low, *step; /* `step` is the distance of edges in mel */
} MelOfData;

static BpGraphValue *wide_number(BpVectorMaker m, double value) {
  int64_t one = 1;
  BpGraphValue *number = bp__graph_constant(m.graph, m.node->name, BP__FLOAT64, &one, 1, NULL);
  if (number)
    bp__value_put_float(number, 0, value);
  return number;
}

static BpGraphValue *wide_input(BpVectorMaker m, int32_t input) {
  int64_t one = 1;
  BpGraphValue *value = m.node->inputs[input];
  if (bp__value_is_open(value) || bp__value_num_elements(value) != 1) {
    bp__op_bad(m.node, "input %d is not one number", input);
    return NULL;
  }
  return bp__op_cast(m.graph, m.node, bp__op_reshape(m.graph, m.node, value, &one, 1), BP__FLOAT64);
}

static BpGraphValue *mel_of(BpVectorMaker m, BpGraphValue *edge) {
  edge = v_binary(m, "Add", v_binary(m, "Div", edge, wide_number(m, 700)), wide_number(m, 1));
  return v_binary(m, "Div", bp__op_unary(m.graph, m.node, "Log", edge), wide_number(m, log(10)));
}

/* Binds the extents of the output, and reads the other inputs; NULL with an error. */
static BpGraphValue *read_mel_of_data(MelOfData *mel) {
  BpVectorMaker m = mel->m;
  BpGraphValue *numbers[3], *one = v_number(m, 1), *two = v_number(m, 2), *edges[2];
  int64_t count;
  for (int32_t i = 0; i < 3; i++) {
    numbers[i] = bp__vector_read(m, i, 1, &count);
    if (numbers[i] && count != 1)
      bp__op_bad(m.node, "input %d is not one number", i);
    if (!numbers[i] || count != 1)
      return NULL;
  }
  if (!(edges[0] = wide_input(m, 3)) || !(edges[1] = wide_input(m, 4)))
    return NULL;
  BpGraphValue *least = v_reduce(m, "ReduceMin", v_join(m, numbers, 3));
  mel->length = bp__op_cast(m.graph, m.node, numbers[1], BP__FLOAT64);
  mel->rate = bp__op_cast(m.graph, m.node, numbers[2], BP__FLOAT64);
  BpGraphValue *fits = v_binary(m, "GreaterOrEqual", least, one);
  fits = v_binary(m, "And", fits, v_binary(m, "GreaterOrEqual", edges[0], wide_number(m, 0)));
  fits = v_binary(m, "And", fits, v_binary(m, "GreaterOrEqual", edges[1], edges[0]));
  fits = v_binary(
      m, "And", fits,
      v_binary(m, "LessOrEqual", edges[1], v_binary(m, "Div", mel->rate, wide_number(m, 2))));
  mel->low = mel_of(m, edges[0]);
  mel->step = v_binary(m, "Sub", mel_of(m, edges[1]), mel->low);
  mel->step =
      v_binary(m, "Div", mel->step,
               bp__op_cast(m.graph, m.node, v_binary(m, "Add", numbers[0], two), BP__FLOAT64));
  BpGraphValue *bins = v_binary(m, "Add", v_binary(m, "Div", numbers[1], two), one);
  BpGraphValue *shape = v_join(m, (BpGraphValue *[]){bins, numbers[0]}, 2);
  return bp__op_bind(
      m.graph, m.node, v_choose(m, fits, shape, v_number(m, -1)), NULL,
      "its number of bands, length, sample rate or edge frequencies are out of range");
}

/* The bins that contain the edges from `first` on of the bands, as mel_bin computes them. */
static BpGraphValue *mel_bins(const MelOfData *mel, BpGraphValue *bands, double first) {
  BpVectorMaker m = mel->m;
  BpGraphValue *at = v_binary(m, "Add", bands, wide_number(m, first));
  at = v_binary(m, "Add", mel->low, v_binary(m, "Mul", mel->step, at));
  at = v_binary(m, "Sub", v_binary(m, "Pow", wide_number(m, 10), at), wide_number(m, 1));
  BpGraphValue *factor =
      v_binary(m, "Mul", v_binary(m, "Add", mel->length, wide_number(m, 1)), wide_number(m, 700));
  at = v_binary(m, "Div", v_binary(m, "Mul", factor, at), mel->rate);
  BpGraphValue *half = v_binary(m, "Div", mel->length, wide_number(m, 2));
  return bp__op_unary(m.graph, m.node, "Floor", v_binary(m, "Min", at, half));
}

/* (a - b) / (c - b), or 0 if c equals b. */
static BpGraphValue *slope(BpVectorMaker m, BpGraphValue *a, BpGraphValue *b, BpGraphValue *c) {
  BpGraphValue *length = v_binary(m, "Sub", c, b), *zero = wide_number(m, 0);
  BpGraphValue *is_none = v_binary(m, "Equal", length, zero);
  length = v_choose(m, is_none, wide_number(m, 1), length);
  return v_choose(m, is_none, zero, v_binary(m, "Div", v_binary(m, "Sub", a, b), length));
}

/* Computes the weights if only a run knows an input, in float64: an edge must be in the same bin as
 * with constant inputs. */
static int mel_of_data(BpGraph *graph, BpGraphNode *node, BpDataType dtype) {
  MelOfData mel = {.m = {graph, node}};
  BpVectorMaker m = mel.m;
  BpGraphValue *bound = read_mel_of_data(&mel);
  if (!bound)
    return -1;
  BpGraphValue *bin = bp__op_counting(graph, node, v_extent(bound, 0));
  BpGraphValue *band = bp__op_counting(graph, node, v_extent(bound, 1));
  bin = v_column(m, bp__op_cast(graph, node, bin, BP__FLOAT64));
  band = bp__op_cast(graph, node, band, BP__FLOAT64);
  BpGraphValue *left = mel_bins(&mel, band, 0), *top = mel_bins(&mel, band, 1);
  BpGraphValue *right = mel_bins(&mel, band, 2), *zero = wide_number(m, 0);
  BpGraphValue *up = v_choose(m, v_binary(m, "Less", bin, left), zero, slope(m, bin, left, top));
  BpGraphValue *down =
      v_choose(m, v_binary(m, "Less", right, bin), zero, slope(m, bin, right, top));
  BpGraphValue *out = v_choose(m, v_binary(m, "Less", bin, top), up, down);
  out = v_choose(m, v_binary(m, "Equal", bin, top), wide_number(m, 1), out);
  node->outputs[0] = bp__op_cast(graph, node, out, dtype);
  return node->outputs[0] ? 0 : -1;
}

/* MelWeightMatrix: a triangle for each band, over the bins between three edges. */
BP_ROW_EXPAND(mel_weight_matrix) {
  BpDataType dtype;
  Mel mel;
  if (output_dtype(node, &dtype))
    return -1;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (!node->inputs[i]->data)
      return mel_of_data(graph, node, dtype);
  if (read_mel(node, &mel))
    return -1;
  int64_t shape[2] = {mel.length / 2 + 1, mel.bands};
  BpGraphValue *out = bp__graph_constant(graph, node->name, dtype, shape, 2, NULL);
  for (int64_t i = 0; out && i < mel.bands; i++) {
    int64_t left = mel_bin(&mel, i), top = mel_bin(&mel, i + 1), right = mel_bin(&mel, i + 2);
    for (int64_t j = left; j < top; j++)
      bp__value_put_float(out, j * mel.bands + i, (double)(j - left) / (double)(top - left));
    bp__value_put_float(out, top * mel.bands + i, 1);
    for (int64_t j = top + 1; j < right; j++)
      bp__value_put_float(out, j * mel.bands + i, (double)(right - j) / (double)(right - top));
  }
  node->outputs[0] = out;
  return out ? 0 : -1;
}
