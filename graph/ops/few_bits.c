/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights of few bits. A column of the second operand of com.microsoft's MatMulNBits
 * is divided into blocks, each with a scale and a zero point. Weights stay packed in memory. A
 * product of few rows converts weights in registers; a product of many rows converts a panel of
 * weights. The weights of MatMulBnb4 are codes of 4 bits, which stand for numbers of a table. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* The number of columns that are stored side by side, and so the maximum length of vectors. */
#define PANEL 16

/* The second operand, a matrix of numbers with `columns` columns and `rows` rows. */
typedef struct Weights {
  int64_t columns, rows, bits;
  int64_t block;      /* rows of a block */
  int64_t num_blocks; /* of a column; the last may be partly used */
  int64_t bytes;      /* bytes of a block */
} Weights;

static int check_count(const BpGraphNode *node, int32_t input, int64_t count) {
  const BpGraphValue *value = node->inputs[input];
  char text[BP_VALUE_TEXT];
  if (!bp__extents_any_open(value->shape, value->ndim) && bp__value_num_elements(value) == count)
    return 0;
  return bp__op_bad(node, "input %d is %s; expected %lld elements", input,
                    bp__value_format(value, text), (long long)count);
}

static int check_numbers(const BpGraphNode *node, const Weights *w) {
  const int64_t most = INT64_C(1) << 31;
  if (w->bits != 2 && w->bits != 4 && w->bits != 8)
    return bp__op_error(node, "weights of %lld bits are not supported; 2, 4 and 8 are",
                        (long long)w->bits);
  if (w->columns < 1 || w->rows < 1 || w->columns > most || w->rows > most || w->block < 8 ||
      w->block > most || w->block % 8 != 0)
    return bp__op_bad(node, "N is %lld, K %lld, and block_size %lld", (long long)w->columns,
                      (long long)w->rows, (long long)w->block);
  return 0;
}

static int read_weights(const BpGraphNode *node, Weights *w) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  *w = (Weights){.columns = bp__node_int(node, "N", 0),
                 .rows = bp__node_int(node, "K", 0),
                 .bits = bp__node_int(node, "bits", 4),
                 .block = bp__node_int(node, "block_size", 0)};
  if (check_numbers(node, w))
    return -1;
  w->num_blocks = (w->rows + w->block - 1) / w->block;
  w->bytes = w->block * w->bits / 8;
  if (a->ndim < 1 || a->shape[a->ndim - 1] != w->rows || !bp__dtype_is_float(a->dtype))
    return bp__op_bad(node, "input 0 is not of floats in rows of K = %lld", (long long)w->rows);
  if (!bp__dtype_equal(b->dtype, BP__UINT8))
    return bp__op_bad(node, "input 1 is not of bytes");
  return check_count(node, 1, w->columns * w->num_blocks * w->bytes) ||
                 check_count(node, 2, w->columns * w->num_blocks)
             ? -1
             : 0;
}

/* Arranges columns of `inner` elements in panels: [panels, inner, PANEL], or one panel of all
 * columns. */
static BpGraphValue *in_panels(BpGraph *graph, const BpGraphNode *node, const Weights *w,
                               BpGraphValue *value, int64_t inner) {
  int64_t panel = w->columns % PANEL == 0 ? PANEL : w->columns;
  const int64_t shape[] = {w->columns / panel, panel, inner}, perm[] = {0, 2, 1};
  value = value ? bp__op_reshape(graph, node, value, shape, 3) : NULL;
  return value ? bp__op_transpose(graph, node, value, perm, 3) : NULL;
}

/* Unpacks `columns` columns of `bytes` bytes each: [columns, bytes * 8 / bits]. */
static BpGraphValue *unpacked(BpGraph *graph, const BpGraphNode *node, const Weights *w,
                              BpGraphValue *value, int64_t bytes) {
  int64_t each = 8 / w->bits;
  const int64_t flat = w->columns * bytes, shape[] = {w->columns, bytes * each};
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "bits", w->bits),
                               bp__attr_int(graph, "is_signed", 0),
                               bp__attr_int(graph, "count", flat * each)};
  value = bp__op_reshape(graph, node, value, &flat, 1);
  if (value && each > 1)
    value = bp__op_apply(graph, "backplane", "Unpack", node->name, &value, 1, attrs, 3);
  return bp__op_reshape(graph, node, value, shape, 2);
}

/* Unpacks zero points of `bits` bits each, whose columns begin at whole bytes, to [columns,
 * blocks]. */
static BpGraphValue *unpacked_zeros(BpGraph *graph, const BpGraphNode *node, const Weights *w) {
  int64_t each = 8 / w->bits, bytes = (w->num_blocks + each - 1) / each;
  if (check_count(node, 3, w->columns * bytes))
    return NULL;
  return bp__op_slice(graph, node, unpacked(graph, node, w, node->inputs[3], bytes), 1, 0,
                      w->num_blocks);
}

/* The zero points as floats: the given ones, or the middle of the numbers that `bits` bits can
 * represent. */
static BpGraphValue *zeros(BpGraph *graph, const BpGraphNode *node, const Weights *w) {
  BpGraphValue *value = bp__node_input(node, 3);
  if (!value)
    return bp__graph_float_scalar(graph, (float)(1 << (w->bits - 1)));
  if (bp__dtype_equal(value->dtype, BP__UINT8))
    return bp__op_cast(graph, node, unpacked_zeros(graph, node, w), BP__FLOAT32);
  if (check_count(node, 3, w->columns * w->num_blocks))
    return NULL;
  return bp__op_cast(graph, node, value, BP__FLOAT32);
}

/* The offset that is added to each weight times its scale: the negated product of zero point and
 * scale. */
static BpGraphValue *offsets(BpGraph *graph, const BpGraphNode *node, const Weights *w,
                             BpGraphValue *scales) {
  const int64_t shape[] = {w->columns, w->num_blocks};
  BpGraphValue *zero = zeros(graph, node, w);
  if (zero && zero->ndim > 0)
    zero = bp__op_reshape(graph, node, zero, shape, 2);
  BpGraphValue *product = zero ? bp__op_binary(graph, node, "Mul", zero, scales) : NULL;
  return product ? bp__op_unary(graph, node, "Neg", product) : NULL;
}

/* The product with weights that stay packed. Rows of zeros meet the elements behind the last row of
 * the last block. If `offset` is NULL, the weights are codes of table number `table`. */
static BpGraphValue *packed_product(BpGraph *graph, const BpGraphNode *node, const Weights *w,
                                    BpGraphValue *a, BpGraphValue *scales, BpGraphValue *offset,
                                    int64_t table) {
  const BpGraphAttr attrs[] = {
      offset ? bp__attr_int(graph, "bits", w->bits) : bp__attr_int(graph, "table", table),
      bp__attr_int(graph, "accuracy_level", bp__node_int(node, "accuracy_level", 0))};
  int64_t pads[2 * BP_GRAPH_MAX_NDIM] = {0}, ndim = node->inputs[0]->ndim;
  pads[2 * ndim - 1] = w->num_blocks * w->block - w->rows;
  if (pads[2 * ndim - 1])
    a = bp__op_binary(graph, node, "Pad", a, bp__graph_int_vector(graph, pads, 2 * ndim));
  BpGraphValue *inputs[] = {
      a,
      in_panels(graph, node, w, node->inputs[1], w->num_blocks * w->bytes),
      in_panels(graph, node, w, scales, w->num_blocks),
      offset ? in_panels(graph, node, w, offset, w->num_blocks) : NULL,
  };
  if (!inputs[0] || !inputs[1] || !inputs[2] || (offset && !inputs[3]))
    return NULL;
  return bp__op_apply(graph, "backplane", "MatMulBits", node->name, inputs, offset ? 4 : 3, attrs,
                      2);
}

/* The elements of the blocks to which g_idx assigns the rows: [columns, rows]. */
static BpGraphValue *of_rows(BpGraph *graph, const BpGraphNode *node, BpGraphValue *blocks) {
  BpGraphAttr axis = bp__attr_int(graph, "axis", 1);
  BpGraphValue *inputs[] = {blocks, node->inputs[4]};
  return blocks ? bp__op_apply(graph, "", "Gather", node->name, inputs, 2, &axis, 1) : NULL;
}

/* The product with weights whose rows have the scales and zero points of any block, not of the
 * block where they are stored: the weights become floats first. */
static BpGraphValue *ordered_product(BpGraph *graph, const BpGraphNode *node, const Weights *w,
                                     BpGraphValue *a, BpGraphValue *scales, BpGraphValue *offset) {
  static const int64_t turn[] = {1, 0};
  const BpGraphValue *order = node->inputs[4];
  if (order->ndim != 1 || order->shape[0] != w->rows || order->dtype.code != BP_DTYPE_INT) {
    bp__op_bad(node, "its g_idx is not an integer for each of K = %lld rows", (long long)w->rows);
    return NULL;
  }
  BpGraphValue *weights = unpacked(graph, node, w, node->inputs[1], w->num_blocks * w->bytes);
  weights =
      bp__op_cast(graph, node, bp__op_slice(graph, node, weights, 1, 0, w->rows), BP__FLOAT32);
  weights = bp__op_binary(graph, node, "Mul", weights, of_rows(graph, node, scales));
  weights = bp__op_binary(graph, node, "Add", weights, of_rows(graph, node, offset));
  return bp__op_binary(graph, node, "MatMul", a, bp__op_transpose(graph, node, weights, turn, 2));
}

BP_ROW_EXPAND(matmul_nbits) {
  Weights w;
  if (read_weights(node, &w))
    return -1;
  const int64_t shape[] = {w.columns, w.num_blocks};
  BpGraphValue *a = bp__op_cast(graph, node, node->inputs[0], BP__FLOAT32);
  BpGraphValue *scales = bp__op_cast(graph, node, node->inputs[2], BP__FLOAT32);
  scales = bp__op_reshape(graph, node, scales, shape, 2);
  BpGraphValue *offset = scales ? offsets(graph, node, &w, scales) : NULL;
  if (!offset)
    return -1;
  BpGraphValue *sum = bp__node_input(node, 4)
                          ? ordered_product(graph, node, &w, a, scales, offset)
                          : packed_product(graph, node, &w, a, scales, offset, 0);
  sum = bp__op_cast(graph, node, sum, node->inputs[0]->dtype);
  if (sum && bp__node_input(node, 5))
    sum = bp__op_onto(graph, node, "Add", sum, node->inputs[5],
                      "its bias does not broadcast to the product");
  node->outputs[0] = sum;
  return sum ? 0 : -1;
}

/* ---- The formats of bitsandbytes --------------------------------------------------------- */

/* The second operand of MatMulBnb4: for each of its columns the rows, one after the other, in
 * blocks that may continue in the next column. */
typedef struct Codes {
  int64_t columns, rows, block;
  int64_t count, num_blocks; /* of all columns */
} Codes;

/* The numbers that the codes of 4 bits stand for: FP4 and NF4. */
static const float code_numbers[2][16] = {
    {0, 1.0f / 192, 2.0f / 3, 1, 1.0f / 3, 0.5f, 1.0f / 6, 0.25f, 0, -1.0f / 192, -2.0f / 3, -1,
     -1.0f / 3, -0.5f, -1.0f / 6, -0.25f},
    {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1}};

static int read_codes(const BpGraphNode *node, Codes *c) {
  const BpGraphValue *a = node->inputs[0];
  const int64_t most = INT64_C(1) << 30, type = bp__node_int(node, "quant_type", 0);
  *c = (Codes){.columns = bp__node_int(node, "N", 0),
               .rows = bp__node_int(node, "K", 0),
               .block = bp__node_int(node, "block_size", 0)};
  if (type != 0 && type != 1)
    return bp__op_bad(node, "quant_type is %lld; 0 (FP4) and 1 (NF4) are supported",
                      (long long)type);
  if (bp__node_int(node, "transB", 1) != 1)
    return bp__op_error(node, "transB of 0 is not supported");
  if (c->columns < 1 || c->rows < 1 || c->columns > most || c->rows > most || c->block < 1)
    return bp__op_bad(node, "N is %lld, K %lld, and block_size %lld", (long long)c->columns,
                      (long long)c->rows, (long long)c->block);
  c->count = c->columns * c->rows;
  c->num_blocks = (c->count - 1) / c->block + 1;
  if (a->ndim < 1 || a->shape[a->ndim - 1] != c->rows || !bp__dtype_is_float(a->dtype))
    return bp__op_bad(node, "input 0 is not of floats in rows of K = %lld", (long long)c->rows);
  if (!bp__dtype_equal(node->inputs[1]->dtype, BP__UINT8))
    return bp__op_bad(node, "input 1 is not of bytes");
  return check_count(node, 1, (c->count + 1) / 2) || check_count(node, 2, c->num_blocks) ? -1 : 0;
}

/* The numbers of the codes, a vector; the first code of a byte is in the high bits. */
static BpGraphValue *numbers_of_codes(BpGraph *graph, const BpGraphNode *node, const Codes *c) {
  const int64_t bytes = (c->count + 1) / 2, num_codes = 2 * bytes, pairs[] = {bytes, 2}, most = 16;
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "bits", 4), bp__attr_int(graph, "is_signed", 0),
                               bp__attr_int(graph, "count", num_codes)};
  const BpGraphAttr axis = bp__attr_int(graph, "axis", 1);
  BpGraphValue *codes = bp__op_reshape(graph, node, node->inputs[1], &bytes, 1);
  codes =
      codes ? bp__op_apply(graph, "backplane", "Unpack", node->name, &codes, 1, attrs, 3) : NULL;
  BpGraphValue *inputs[] = {bp__op_reshape(graph, node, codes, pairs, 2),
                            bp__graph_int_vector(graph, (int64_t[]){1, 0}, 2)};
  codes = inputs[0] ? bp__op_apply(graph, "", "Gather", node->name, inputs, 2, &axis, 1) : NULL;
  codes = bp__op_cast(graph, node, bp__op_reshape(graph, node, codes, &num_codes, 1), BP__INT32);
  BpGraphValue *table = bp__graph_constant(graph, node->name, BP__FLOAT32, &most, 1,
                                           code_numbers[bp__node_int(node, "quant_type", 0)]);
  return table && codes
             ? bp__op_slice(graph, node, bp__op_binary(graph, node, "Gather", table, codes), 0, 0,
                            c->count)
             : NULL;
}

/* Multiplies each number by the scale of its block. */
static BpGraphValue *scaled_numbers(BpGraph *graph, const BpGraphNode *node, const Codes *c,
                                    BpGraphValue *numbers) {
  const int64_t blocks[] = {c->num_blocks, c->block}, column[] = {c->num_blocks, 1};
  const int64_t more = c->num_blocks * c->block - c->count, all = c->count + more;
  BpGraphValue *scales = bp__op_cast(graph, node, node->inputs[2], BP__FLOAT32);
  if (numbers && more)
    numbers = bp__op_binary(graph, node, "Pad", numbers,
                            bp__graph_int_vector(graph, (int64_t[]){0, more}, 2));
  numbers = bp__op_reshape(graph, node, numbers, blocks, 2);
  scales = bp__op_reshape(graph, node, scales, column, 2);
  if (!numbers || !scales)
    return NULL;
  numbers = bp__op_binary(graph, node, "Mul", numbers, scales);
  return bp__op_slice(graph, node, bp__op_reshape(graph, node, numbers, &all, 1), 0, 0, c->count);
}

/* The product with weights that become floats first. */
static BpGraphValue *unpacked_product(BpGraph *graph, const BpGraphNode *node, const Codes *c,
                                      BpGraphValue *a) {
  static const int64_t turn[] = {1, 0};
  const int64_t shape[] = {c->columns, c->rows};
  BpGraphValue *b = scaled_numbers(graph, node, c, numbers_of_codes(graph, node, c));
  b = b ? bp__op_reshape(graph, node, b, shape, 2) : NULL;
  b = b ? bp__op_transpose(graph, node, b, turn, 2) : NULL;
  return b ? bp__op_binary(graph, node, "MatMul", a, b) : NULL;
}

/* The product with codes that stay packed, if each column begins with a block. */
static BpGraphValue *coded_product(BpGraph *graph, const BpGraphNode *node, const Codes *c,
                                   BpGraphValue *a) {
  const Weights w = {.columns = c->columns,
                     .rows = c->rows,
                     .block = c->block,
                     .num_blocks = c->rows / c->block,
                     .bytes = c->block / 2};
  BpGraphValue *scales = bp__op_cast(graph, node, node->inputs[2], BP__FLOAT32);
  return packed_product(graph, node, &w, a, scales, NULL, bp__node_int(node, "quant_type", 0));
}

BP_ROW_EXPAND(matmul_bnb4) {
  Codes c;
  if (read_codes(node, &c))
    return -1;
  BpGraphValue *a = bp__op_cast(graph, node, node->inputs[0], BP__FLOAT32), *product;
  if (!a)
    return -1;
  product = c.rows % c.block == 0 && c.block % 2 == 0 ? coded_product(graph, node, &c, a)
                                                      : unpacked_product(graph, node, &c, a);
  node->outputs[0] = bp__op_cast(graph, node, product, node->inputs[0]->dtype);
  return node->outputs[0] ? 0 : -1;
}

/* ---- The product ------------------------------------------------------------------------- */

/* The inputs are a, the bytes, the scales and, for integers, the offsets; all but a are in panels.
 * The attribute `bits` states the bits of integers, whose first is in the low bits of a byte, or
 * `table` the table of codes of 4 bits, whose first is in the high bits. */
BP_ROW_INFER(matmul_bits) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  memcpy(shape, a->shape, (size_t)a->ndim * sizeof(*shape));
  shape[a->ndim - 1] = b->shape[0] * b->shape[2];
  return bp__node_set_output(graph, node, 0, a->dtype, shape, a->ndim);
}

/* Number `place` of the numbers in a byte. */
static const BpIrNode *number_in(BpIrModule *ir, const BpIrNode *byte, int64_t place,
                                 int64_t bits) {
  const BpIrNode *shift = x_number(ir, BP__INT32, (double)(place * bits));
  const BpIrNode *mask = x_number(ir, BP__INT32, (double)((1 << bits) - 1));
  const BpIrNode *value = place ? bp_ir_binary(ir, BP_IR_SHR, byte, shift) : byte;
  if ((place + 1) * bits < 8)
    value = bp_ir_binary(ir, BP_IR_BIT_AND, value, mask);
  return value ? bp_ir_cast(ir, BP__FLOAT32, value) : NULL;
}

/* The number of a table that the code in four bits of a byte stands for. Selects of constants for
 * each bit of the code are faster than reads of a table at indices in lanes. */
static const BpIrNode *number_of_code(BpIrModule *ir, const BpIrNode *byte, int64_t first_bit,
                                      const float *table) {
  const BpIrNode *numbers[16];
  for (int64_t i = 0; i < 16; i++)
    numbers[i] = x_number(ir, BP__FLOAT32, (double)table[i]);
  for (int64_t bit = 0; bit < 4; bit++) {
    const BpIrNode *mask = x_number(ir, BP__INT32, (double)(1 << (first_bit + bit)));
    const BpIrNode *is_set = bp_ir_binary(ir, BP_IR_NE, bp_ir_binary(ir, BP_IR_BIT_AND, byte, mask),
                                          x_number(ir, BP__INT32, 0));
    for (int64_t i = 0; i < 8 >> bit; i++)
      numbers[i] = x_choose(ir, is_set, numbers[2 * i + 1], numbers[2 * i]);
  }
  return numbers[0];
}

/* Weight `place` of the weights in a byte; an integer has an offset. */
static const BpIrNode *weight_in(const BpOpCompute *op, const BpIrNode *byte, int64_t place,
                                 const BpIrNode *scale, const BpIrNode *offset) {
  BpIrModule *ir = bp_te_ir(op->te);
  if (!offset)
    return x_mul(ir, scale,
                 number_of_code(ir, byte, 4 * (1 - place),
                                code_numbers[bp__node_int(op->node, "table", 0)]));
  const BpIrNode *number = number_in(ir, byte, place, bp__node_int(op->node, "bits", 4));
  return x_add(ir, x_mul(ir, number, scale), offset);
}

static const BpIrNode *matmul_bits_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *a = op->node->inputs[0], *b = op->node->inputs[1];
  int64_t bits = bp__node_int(op->node, "bits", 4), each = 8 / bits;
  int64_t num_blocks = op->node->inputs[2]->shape[1], bytes = b->shape[1] / num_blocks;
  int32_t last = a->ndim - 1;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *k[] = {bp__op_reduce_axis(op, "block", num_blocks),
                         bp__op_reduce_axis(op, "byte", bytes)};
  const BpIrNode *panel = x_index(ir, b->shape[2]), *ia[BP_GRAPH_MAX_NDIM], *sum = NULL;
  const BpIrNode *at[] = {bp_ir_binary(ir, BP_IR_FLOORDIV, axes[last], panel), k[0],
                          bp_ir_binary(ir, BP_IR_FLOORMOD, axes[last], panel)};
  const BpIrNode *scale = bp_te_read(te, op->inputs[2], at);
  const BpIrNode *offset = op->inputs[3] ? bp_te_read(te, op->inputs[3], at) : NULL;
  at[1] = x_add(ir, x_mul(ir, k[0], x_index(ir, bytes)), k[1]);
  const BpIrNode *byte = bp_te_read(te, op->inputs[1], at);
  byte = byte ? bp_ir_cast(ir, BP__INT32, byte) : NULL;
  memcpy(ia, axes, (size_t)last * sizeof(*ia));
  for (int64_t i = 0; i < each; i++) {
    ia[last] = x_add(ir, x_mul(ir, at[1], x_index(ir, each)), x_index(ir, i));
    const BpIrNode *product =
        x_mul(ir, bp_te_read(te, op->inputs[0], ia), weight_in(op, byte, i, scale, offset));
    sum = i ? x_add(ir, sum, product) : product;
  }
  return bp_te_reduce(te, BP_TE_SUM, sum, k, 2);
}

BP_ROW_COMPUTE(matmul_bits) {
  return bp__op_give_body(op, "matmul", matmul_bits_body, outputs);
}

/* ---- The product of bytes ---------------------------------------------------------------- */

/* The inputs are those of graph/build/byte_bits.c: the words, scales and sums of the rows, and the
 * words, scales and offsets of the columns, in panels. A term is `step` words. */
BP_ROW_INFER(matmul_bits_dot) {
  const BpGraphValue *words = node->inputs[3];
  const int64_t shape[] = {node->inputs[0]->shape[0], words->shape[0] * words->shape[2]};
  return bp__node_set_output(graph, node, 0, BP__FLOAT32, shape, 2);
}

/* The bytes at a place of each byte of a word: unsigned bytes, four in a word. */
static const BpIrNode *bytes_in(BpIrModule *ir, const BpIrNode *word, int64_t place, int64_t bits) {
  int64_t mask = (1 << bits) - 1;
  if (bits == 8)
    return word;
  if (place)
    word = bp_ir_binary(ir, BP_IR_SHR, word, x_number(ir, BP__INT32, (double)(place * bits)));
  return bp_ir_binary(ir, BP_IR_BIT_AND, word,
                      x_number(ir, BP__INT32, (double)(mask * 0x01010101)));
}

/* The dot products of the words from word `first` on. */
static const BpIrNode *dots_of(BpTe *te, const BpOpCompute *op, const BpIrNode *const *axes,
                               const BpIrNode *first, const BpIrNode *column[2]) {
  BpIrModule *ir = bp_te_ir(te);
  int64_t bits = bp__node_int(op->node, "bits", 4), step = bp__node_int(op->node, "step", 1);
  const BpIrNode *sum = x_number(ir, BP__INT32, 0);
  for (int64_t i = 0; i < step; i++) {
    const BpIrNode *at = x_add(ir, first, x_index(ir, i));
    const BpIrNode *word =
        bp_te_read(te, op->inputs[3], (const BpIrNode *[]){column[0], at, column[1]});
    for (int64_t place = 0; place < 8 / bits; place++) {
      const BpIrNode *row =
          bp_te_read(te, op->inputs[0], (const BpIrNode *[]){axes[0], at, x_index(ir, place)});
      const BpIrNode *args[] = {bytes_in(ir, word, place, bits), row, sum};
      sum = args[0] && row && sum
                ? bp_ir_call(ir, BP__INT32, BP_IR_CALL_INTRINSIC, "dot4_us", args, 3)
                : NULL;
    }
  }
  return sum;
}

static const BpIrNode *matmul_bits_dot_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *words = op->node->inputs[3];
  BpIrModule *ir = bp_te_ir(te);
  int64_t num_blocks = op->node->inputs[1]->shape[1], step = bp__node_int(op->node, "step", 1);
  int64_t terms = words->shape[1] / num_blocks / step;
  const BpIrNode *k[] = {bp__op_reduce_axis(op, "block", num_blocks),
                         bp__op_reduce_axis(op, "term", terms)};
  const BpIrNode *panel = x_index(ir, words->shape[2]);
  const BpIrNode *column[] = {bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], panel),
                              bp_ir_binary(ir, BP_IR_FLOORMOD, axes[1], panel)};
  const BpIrNode *of_column[] = {column[0], k[0], column[1]}, *of_row[] = {axes[0], k[0]};
  const BpIrNode *term = x_add(ir, x_mul(ir, k[0], x_index(ir, terms)), k[1]);
  const BpIrNode *dots = dots_of(te, op, axes, x_mul(ir, term, x_index(ir, step)), column);
  dots = dots ? bp_ir_cast(ir, BP__FLOAT32, dots) : NULL;
  const BpIrNode *scaled = x_mul(ir, x_mul(ir, dots, bp_te_read(te, op->inputs[1], of_row)),
                                 bp_te_read(te, op->inputs[4], of_column));
  const BpIrNode *moved =
      x_mul(ir, bp_te_read(te, op->inputs[2], (const BpIrNode *[]){axes[0], term}),
            bp_te_read(te, op->inputs[5], of_column));
  return bp_te_reduce(te, BP_TE_SUM, x_add(ir, scaled, moved), k, 2);
}

BP_ROW_COMPUTE(matmul_bits_dot) {
  return bp__op_give_body(op, "matmul", matmul_bits_dot_body, outputs);
}
