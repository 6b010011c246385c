/* SPDX-License-Identifier: Apache-2.0 */
/* States of recurrent layers that are quantised before the product with integer weights. The codes
 * of a row of the batch are bytes, in the range of the row. The product is one of float32, whose
 * factors are the codes minus their zero point; or dot products of the codes, in words of four,
 * from whose sums the zero point is subtracted afterwards (graph/build/byte_products.c). */
#include "graph/ops/recurrent.h"

/* The least or the largest element of a row of the state; the axes are step and row. */
static const BpIrNode *end_of_range(BpTe *te, const BpIrNode *const *axes, const BpCell *cell,
                                    int32_t reduction) {
  const BpIrNode *k = bp_te_reduce_axis(te, "k", cell->hidden);
  const BpIrNode *element = bp_te_read(te, cell->state, (const BpIrNode *[]){axes[0], axes[1], k});
  return bp_te_reduce(te, reduction, element, &k, 1);
}

static const BpIrNode *least_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return end_of_range(te, axes, context, BP_TE_MIN);
}

static const BpIrNode *most_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return end_of_range(te, axes, context, BP_TE_MAX);
}

/* The range includes 0; if it is empty, any scale is correct. */
static const BpIrNode *scale_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpCell *cell = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *zero = x_number(ir, BP__FLOAT32, 0);
  const BpIrNode *range = x_sub(ir, x_max(ir, bp_te_read(te, cell->most, axes), zero),
                                x_min(ir, bp_te_read(te, cell->least, axes), zero));
  return x_choose(ir, x_lt(ir, zero, range), x_div(ir, range, x_number(ir, BP__FLOAT32, UINT8_MAX)),
                  x_number(ir, BP__FLOAT32, 1));
}

static const BpIrNode *clip_code(BpIrModule *ir, const BpIrNode *code) {
  return x_min(ir, x_max(ir, code, x_number(ir, BP__FLOAT32, 0)),
               x_number(ir, BP__FLOAT32, UINT8_MAX));
}

static const BpIrNode *zero_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpCell *cell = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *zero = x_number(ir, BP__FLOAT32, 0);
  const BpIrNode *least = x_min(ir, bp_te_read(te, cell->least, axes), zero);
  const BpIrNode *below = x_div(ir, x_sub(ir, zero, least), bp_te_read(te, cell->scale, axes));
  return clip_code(ir, x_call1(ir, "round", below));
}

static const BpIrNode *code_of(BpTe *te, const BpIrNode *const *axes, const BpCell *cell) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *steps =
      x_div(ir, bp_te_read(te, cell->state, axes), bp_te_read(te, cell->scale, axes));
  return clip_code(ir, x_add(ir, x_call1(ir, "round", steps), bp_te_read(te, cell->zero, axes)));
}

static const BpIrNode *difference_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpCell *cell = context;
  return x_sub(bp_te_ir(te), code_of(te, axes, cell), bp_te_read(te, cell->zero, axes));
}

static const BpIrNode *code_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *code = code_of(te, axes, context);
  return code ? bp_ir_cast(bp_te_ir(te), BP__INT32, code) : NULL;
}

/* Four codes as the bytes of a word. Codes after the last one meet weights of 0. */
static const BpIrNode *word_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpCell *cell = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *word = NULL, *last = x_index(ir, cell->hidden - 1);
  for (int64_t i = 0; i < 4; i++) {
    const BpIrNode *at = x_add(ir, x_mul(ir, axes[2], x_index(ir, 4)), x_index(ir, i));
    if (cell->hidden % 4)
      at = x_min(ir, at, last);
    const BpIrNode *code = bp_te_read(te, cell->codes, (const BpIrNode *[]){axes[0], axes[1], at});
    if (i)
      code = bp_ir_binary(ir, BP_IR_SHL, code, x_number(ir, BP__INT32, 8 * (double)i));
    word = i ? bp_ir_binary(ir, BP_IR_BIT_OR, word, code) : code;
  }
  return word;
}

static const BpIrNode *sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpCell *cell = context;
  const BpIrNode *k = bp_te_reduce_axis(te, "k", cell->hidden);
  const BpIrNode *code = bp_te_read(te, cell->codes, (const BpIrNode *[]){axes[0], axes[1], k});
  return bp_te_reduce(te, BP_TE_SUM, code, &k, 1);
}

BpTeTensor *bp__cell_quantized(BpCell *cell) {
  const BpOpCompute *op = cell->op;
  int64_t shape[] = {cell->steps, cell->batch, cell->hidden};
  if (!(cell->least = bp__op_tensor(op, "least", shape, 2, least_body, cell)) ||
      !(cell->most = bp__op_tensor(op, "most", shape, 2, most_body, cell)) ||
      !(cell->scale = bp__op_tensor(op, "scale", shape, 2, scale_body, cell)) ||
      !(cell->zero = bp__op_tensor(op, "zero", shape, 2, zero_body, cell)))
    return NULL;
  if (!op->inputs[7])
    return bp__op_tensor(op, "codes", shape, 3, difference_body, cell);
  if (!(cell->codes = bp__op_tensor(op, "codes", shape, 3, code_body, cell)) ||
      (op->inputs[8] && !(cell->sum = bp__op_tensor(op, "sum", shape, 2, sum_body, cell))))
    return NULL;
  shape[2] = cell->terms;
  return bp__op_tensor(op, "words", shape, 3, word_body, cell);
}

/* The product of a number of each row of the state and an element of a vector, of int32. */
static const BpIrNode *of_row(const BpCell *cell, const BpIrNode *row, int32_t vector,
                              const BpIrNode *column) {
  return x_mul(cell->ir, row, bp_te_read(cell->te, cell->op->inputs[vector], &column));
}

const BpIrNode *bp__cell_scaled(const BpCell *cell, const BpIrNode *sum,
                                const BpIrNode *const *axes, int64_t gate) {
  BpIrModule *ir = cell->ir;
  const BpIrNode *column = x_add(ir, axes[2], x_index(ir, gate * cell->hidden));
  if (cell->codes) {
    const BpIrNode *zero = bp_te_read(cell->te, cell->zero, axes);
    zero = zero ? bp_ir_cast(ir, BP__INT32, zero) : NULL;
    sum = x_sub(ir, sum, of_row(cell, zero, 7, column));
    if (cell->sum)
      sum = x_add(ir, sum, of_row(cell, bp_te_read(cell->te, cell->sum, axes), 8, column));
    sum = sum ? bp_ir_cast(ir, BP__FLOAT32, sum) : NULL;
  }
  if (cell->op->node->inputs[6]->shape[0] == 1)
    column = x_index(ir, 0);
  return x_mul(ir, sum,
               x_mul(ir, bp_te_read(cell->te, cell->scale, axes),
                     bp_te_read(cell->te, cell->op->inputs[6], &column)));
}
