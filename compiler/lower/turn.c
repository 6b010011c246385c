/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes blocks in registers. A loop that stores, in each iteration, a vector of elements that
 * are far apart reads a neighbour of each element in its next iteration. As many iterations as a
 * vector has lanes store a square block of elements, whose rows can be loaded as vectors and
 * exchanged by shuffles, instead of loading each element by itself. */

#include "compiler/lower/lowering.h"

/* The maximum number of lanes: a block has the square of it as elements. */
#define MAX_LANES 32
/* The bits inside which processors shuffle at the lowest cost. */
#define PART_BITS 128

/* A loop that stores blocks. */
typedef struct Turning {
  BpIrModule *module;
  const BpIrNode *loop, *store, *load;
  const BpIrNode *condition; /* condition of all stores, or NULL */
  const BpIrNode *limit;     /* the number of lanes in use, of `limit_dtype`; NULL: all lanes */
  int32_t lanes;
  int64_t first, count; /* range of the loop variable */
} Turning;

/* ---- Finding ----------------------------------------------------------------------------- */

static bool is_mask_of_first_lanes(const BpIrNode *mask) {
  return mask->kind == BP_IR_LT && mask->operands[0]->kind == BP_IR_RAMP &&
         bp__ir_is_int_value(mask->operands[0]->operands[0], 0) &&
         bp__ir_is_int_value(mask->operands[0]->operands[1], 1) &&
         mask->operands[1]->kind == BP_IR_BROADCAST;
}

/* Finds the number of lanes that load and store use. Returns false if the two numbers, or the
 * masks, differ. */
static bool find_limit(Turning *turning) {
  const BpIrNode *load = turning->load, *store = turning->store;
  if (load->num_operands == 2 && store->num_operands == 3)
    return true;
  if (load->num_operands != 3 || store->num_operands != 4 ||
      !bp__ir_equal(load->operands[2], store->operands[3]) ||
      !is_mask_of_first_lanes(load->operands[2]))
    return false;
  turning->limit = load->operands[2]->operands[1]->operands[0];
  return true;
}

/* Whether an expression is the same in all iterations: 1, 0, or -1 with an error. */
static int is_fixed(const Turning *turning, const BpIrNode *node) {
  int uses = node ? bp__ir_uses(node, turning->loop->operands[0]) : 0;
  return uses < 0 ? -1 : !uses;
}

/* Whether the elements of a load are apart, and the next iteration reads their neighbours. */
static int reads_neighbours(BpLowering *lowering, const Turning *turning) {
  const BpIrNode *index = turning->load->operands[1], *rest;
  int64_t stride = 0, multiple;
  if (index->kind != BP_IR_RAMP)
    return 0;
  bool is_known = bp__ir_const_int(index->operands[1], &stride);
  if (is_known && stride < turning->lanes && stride > -turning->lanes)
    return 0;
  if (!bp__index_split(&lowering->index, index->operands[0], turning->loop->operands[0], &multiple,
                       &rest) ||
      multiple != 1)
    return 0;
  const BpIrNode *const outer[] = {index->operands[1], turning->limit, turning->condition};
  int fixed = 1;
  for (size_t i = 0; i < sizeof outer / sizeof *outer && fixed > 0; i++)
    fixed = is_fixed(turning, outer[i]);
  return fixed;
}

/* Whether a loop is one that stores blocks: 1, 0, or -1 with an error. */
static int find_turning(BpLowering *lowering, const BpIrNode *loop, Turning *turning) {
  const BpIrNode *body = loop->operands[3];
  *turning = (Turning){.module = lowering->module, .loop = loop, .store = body};
  if (body->kind == BP_IR_IF && body->num_operands == 2) {
    turning->condition = body->operands[0];
    turning->store = body->operands[1];
  }
  bool is_loop = loop->int_value == BP_IR_FOR_SERIAL || loop->int_value == BP_IR_FOR_UNROLLED;
  if (!is_loop || turning->store->kind != BP_IR_STORE ||
      turning->store->operands[2]->kind != BP_IR_LOAD ||
      !bp__ir_const_int(loop->operands[1], &turning->first) ||
      !bp__ir_const_int(loop->operands[2], &turning->count))
    return 0;
  const BpIrNode *index = turning->store->operands[1];
  turning->load = turning->store->operands[2];
  turning->lanes = index->dtype.lanes;
  BpDataType dtype = turning->load->dtype;
  if (turning->lanes < 2 || turning->lanes > MAX_LANES || (turning->lanes & (turning->lanes - 1)) ||
      turning->count < 1 || turning->count % turning->lanes != 0 || dtype.bits < 8 ||
      bp__dtype_is_bool(dtype) || turning->load->operands[0] == turning->store->operands[0] ||
      index->kind != BP_IR_RAMP || !bp__ir_is_int_value(index->operands[1], 1) ||
      !find_limit(turning))
    return 0;
  return reads_neighbours(lowering, turning);
}

/* ---- Exchanging -------------------------------------------------------------------------- */

/* The lanes of the pair (a, b) that make up a row after a step that exchanges pieces of `size`
 * lanes. Pieces inside a part are interleaved, the lower or the upper half of each part; larger
 * pieces change places. */
static void pick_lanes(int32_t lanes, int32_t part, int32_t size, bool is_upper, int32_t *picks) {
  for (int32_t i = 0; i < lanes; i++) {
    int32_t piece = i / size, source = piece % 2 * lanes;
    if (size < part) {
      int32_t first = i / part * part + (is_upper ? part / 2 : 0);
      picks[i] = source + first + i % part / (2 * size) * size + i % size;
    } else {
      picks[i] = source + (piece / 2 * 2 + is_upper) * size + i % size;
    }
  }
}

/* The row of the shuffled block that has column `column`: interleaving reverses the bits of the
 * column's place in its part. */
static int32_t row_of(int32_t column, int32_t part) {
  int32_t reversed = 0;
  for (int32_t size = 1; size < part; size *= 2)
    reversed = reversed * 2 + (column / size & 1);
  return column / part * part + reversed;
}

/* The statements of one block while they are made: names of values, from the outside in. */
typedef struct Block {
  const BpIrNode **vars, **values;
  int32_t count;
} Block;

static const BpIrNode *name_value(const Turning *turning, Block *block, const BpIrNode *value) {
  const BpIrNode *var = value ? bp_ir_var(turning->module, "turned", value->dtype) : NULL;
  if (!var)
    return NULL;
  block->vars[block->count] = var;
  block->values[block->count++] = value;
  return var;
}

/* Loads row `row` of the block that begins at iteration `first`: `lanes` neighbours of the element
 * in lane `row`. */
static const BpIrNode *load_row(const Turning *turning, const BpIrNode *first, int32_t row) {
  BpIrModule *module = turning->module;
  const BpIrNode *ramp = turning->load->operands[1], *mask = NULL;
  BpDataType dtype = ramp->operands[0]->dtype;
  const BpIrNode *base =
      bp__ir_substitute_one(module, ramp->operands[0], turning->loop->operands[0], first);
  const BpIrNode *step =
      bp_ir_binary(module, BP_IR_MUL, ramp->operands[1], bp_ir_int(module, dtype, row));
  if (!base || !step)
    return NULL;
  base = bp_ir_binary(module, BP_IR_ADD, base, step);
  if (turning->limit)
    mask = bp_ir_broadcast(module,
                           bp_ir_binary(module, BP_IR_GT, turning->limit,
                                        bp_ir_int(module, turning->limit->dtype, row)),
                           (uint16_t)turning->lanes);
  if (turning->limit && !mask)
    return NULL;
  return bp_ir_load(module, turning->load->operands[0],
                    bp_ir_ramp(module, base, bp_ir_int(module, dtype, 1), (uint16_t)turning->lanes),
                    mask);
}

/* Exchanges pieces of `size` lanes between all pairs of rows that are `size` apart. */
static int exchange(const Turning *turning, Block *block, const BpIrNode **rows, int32_t part,
                    int32_t size) {
  for (int32_t row = 0; row < turning->lanes; row++) {
    int32_t picks[2][MAX_LANES];
    const BpIrNode *pair[] = {rows[row], rows[row + size]};
    if (row & size)
      continue;
    for (int upper = 0; upper < 2; upper++) {
      pick_lanes(turning->lanes, part, size, upper, picks[upper]);
      const BpIrNode *value =
          bp__ir_shuffle(turning->module, pair, 2, picks[upper], (uint16_t)turning->lanes);
      if (!(rows[row + upper * size] = name_value(turning, block, value)))
        return -1;
    }
  }
  return 0;
}

/* Stores row `row` of the block that begins at iteration `first`. */
static const BpIrNode *store_row(const Turning *turning, const BpIrNode *first, int32_t row,
                                 const BpIrNode *value) {
  BpIrModule *module = turning->module;
  const BpIrNode *const *store = turning->store->operands, *var = turning->loop->operands[0];
  const BpIrNode *at = bp_ir_binary(module, BP_IR_ADD, first, bp_ir_int(module, var->dtype, row));
  const BpIrNode *index = at ? bp__ir_substitute_one(module, store[1], var, at) : NULL;
  return index ? bp_ir_store(module, store[0], index, value, turning->limit ? store[3] : NULL)
               : NULL;
}

/* The iterations from `first` on that store one block. */
static const BpIrNode *turn_block(const Turning *turning, const BpIrNode *first) {
  BpIrModule *module = turning->module;
  int32_t lanes = turning->lanes, part = PART_BITS / turning->load->dtype.bits, steps = 0;
  const BpIrNode *rows[MAX_LANES], *stores[MAX_LANES];
  while (1 << steps < lanes)
    steps++;
  size_t names = (size_t)lanes * (size_t)(steps + 1);
  Block block = {bp__ir_alloc(module, names * sizeof *block.vars),
                 bp__ir_alloc(module, names * sizeof *block.values), 0};
  if (!block.vars || !block.values)
    return NULL;
  part = part < lanes ? part : lanes;
  for (int32_t i = 0; i < lanes; i++)
    if (!(rows[i] = name_value(turning, &block, load_row(turning, first, i))))
      return NULL;
  for (int32_t size = 1; size < lanes; size *= 2)
    if (exchange(turning, &block, rows, part, size) != 0)
      return NULL;
  for (int32_t i = 0; i < lanes; i++)
    if (!(stores[i] = store_row(turning, first, i, rows[row_of(i, part)])))
      return NULL;
  const BpIrNode *body = bp_ir_seq(module, stores, lanes);
  while (body && block.count > 0) {
    block.count--;
    body = bp_ir_let(module, block.vars[block.count], block.values[block.count], body);
  }
  return body;
}

/* All blocks of a loop, in a loop of its kind: the pass unroll bounds the size of unrolled code. */
static const BpIrNode *turn_blocks(const Turning *turning) {
  BpIrModule *module = turning->module;
  const BpIrNode *loop = turning->loop;
  BpDataType dtype = loop->operands[0]->dtype;
  const BpIrNode *first = bp_ir_int(module, dtype, turning->first);
  int64_t blocks = turning->count / turning->lanes;
  if (blocks == 1)
    return turn_block(turning, first);
  const BpIrNode *var = bp_ir_var(module, loop->operands[0]->str_value, dtype);
  const BpIrNode *start =
      bp_ir_binary(module, BP_IR_MUL, var, bp_ir_int(module, dtype, turning->lanes));
  const BpIrNode *body = turn_block(turning, bp_ir_binary(module, BP_IR_ADD, start, first));
  return bp_ir_for(module, var, bp_ir_int(module, dtype, 0), bp_ir_int(module, dtype, blocks),
                   (int32_t)loop->int_value, "", body);
}

static const BpIrNode *turn_loop(BpIrRewriter *rewriter, const BpIrNode *node) {
  Turning turning;
  int found = node->kind == BP_IR_FOR ? find_turning(rewriter->context, node, &turning) : 0;
  if (found <= 0)
    return found < 0 ? NULL : node;
  const BpIrNode *all = turn_blocks(&turning);
  return all && turning.condition ? bp_ir_if(rewriter->module, turning.condition, all, NULL) : all;
}

static int visit_bound(void *context, const BpIrNode *node) {
  (void)context;
  return node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_BOUND;
}

/* A thread of a kernel has few registers, and most languages of kernels no shuffles. */
const BpIrNode *bp__lower_turn(BpLowering *lowering, const BpIrNode *body) {
  int has_threads = bp__ir_visit_once(body, visit_bound, NULL);
  if (has_threads != 0)
    return has_threads < 0 ? NULL : body;
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = turn_loop};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
