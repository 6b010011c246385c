/* SPDX-License-Identifier: Apache-2.0 */
/* Jamming: iterations of a parallel loop that each read one long stream of memory become one
 * iteration that reads several streams side by side. A processor fetches a stream from memory no
 * faster than one access after the other permits, and stops at each page; several streams overlap.
 * A product of one row by a matrix reads every weight once, and takes little more than half of the
 * time. */
#include "compiler/lower/lowering.h"

#include <backplane/target_api.h>

#include <string.h>

/* The most streams that are read side by side: a fifth gains nothing. */
#define MAX_STREAMS 4
/* The most accumulators of all streams: more of them leave the registers. */
#define MAX_ACCUMULATORS 12
/* The number of iterations that remain at least: two for each core, but no more than as many cores
 * as memory can serve. */
#define SHARES_OF_CORE 2
#define LEAST_SHARES   16
/* The most elements that a body allocates: larger buffers are not in registers, and would take a
 * multiple of the memory. */
#define MAX_ELEMENTS 1024
/* The most nested nodes of a loop; the names of all copies are nested in each other. */
#define MAX_DEPTH 512

/* ---- Which loops ------------------------------------------------------------------------- */

static bool is_prefetch(const BpIrNode *node) {
  const BpIrNode *call = node->kind == BP_IR_EVALUATE ? node->operands[0] : NULL;
  return call && call->kind == BP_IR_CALL && call->int_value == BP_IR_CALL_INTRINSIC &&
         strcmp(call->str_value, "prefetch") == 0;
}

/* What a piece of code contains. */
typedef struct Content {
  int64_t stores;
  bool has_prefetch;
} Content;

static int visit_content(void *context, const BpIrNode *node) {
  Content *content = context;
  content->stores += node->kind == BP_IR_STORE;
  content->has_prefetch |= is_prefetch(node);
  return node->kind == BP_IR_FOR; /* not innermost */
}

/* What the body of a parallel loop contains. */
typedef struct Body {
  const BpIrNode *var; /* of the parallel loop */
  int64_t divisor;     /* the greatest that divides all numbers by which `var` is divided */
  int64_t streams;     /* the most accumulators of an innermost loop that reads a stream */
  bool is_plain;       /* whether it consists of serial loops, stores and small buffers */
} Body;

/* Whether a buffer has at most MAX_ELEMENTS elements. */
static bool is_small(const BpIrNode *buffer) {
  int64_t elements = 1, extent;
  for (int32_t i = 0; i < buffer->num_operands; i++) {
    if (!bp__ir_const_int(buffer->operands[i], &extent) || extent > MAX_ELEMENTS)
      return false;
    elements *= extent > 0 ? extent : 1;
    if (elements > MAX_ELEMENTS)
      return false;
  }
  return true;
}

static int visit_body(void *context, const BpIrNode *node) {
  Body *body = context;
  Content content = {0};
  int64_t by;
  if (bp__ir_kind_is_quotient(node->kind) && node->operands[0] == body->var)
    body->divisor = bp__ir_const_int(node->operands[1], &by) && by > 0
                        ? bp__greatest_divisor(body->divisor, by)
                        : 1;
  if (node->kind == BP_IR_WHILE || node->kind == BP_IR_IF ||
      (node->kind == BP_IR_ALLOCATE && !is_small(node->operands[0])) ||
      (node->kind == BP_IR_EVALUATE && !is_prefetch(node)))
    body->is_plain = false;
  if (node->kind != BP_IR_FOR)
    return 0;
  /* Loops whose ends differ among the copies do not merge. */
  int differs =
      bp__ir_uses(node->operands[1], body->var) | bp__ir_uses(node->operands[2], body->var);
  if (differs < 0)
    return -1;
  body->is_plain &= !differs && node->int_value == BP_IR_FOR_SERIAL;
  int is_outer = bp__ir_visit_once(node->operands[3], visit_content, &content);
  if (is_outer < 0)
    return -1;
  if (!is_outer && content.has_prefetch && content.stores > body->streams)
    body->streams = content.stores;
  return 0;
}

/* A number that divides an extent in every run: the constant, which is the last factor. */
static int64_t divisor_of(const BpIrNode *extent) {
  int64_t value = 1;
  const BpIrNode *last = extent->kind == BP_IR_MUL ? extent->operands[1] : extent;
  bp__ir_const_int(last, &value);
  return value;
}

int64_t bp__lower_count_streams(int64_t iterations, int64_t divisor, int64_t accumulators,
                                int64_t cores) {
  int64_t count = MAX_STREAMS;
  int64_t least = cores * SHARES_OF_CORE < LEAST_SHARES ? cores * SHARES_OF_CORE : LEAST_SHARES;
  while (count > 1 && (divisor % count != 0 || count * accumulators > MAX_ACCUMULATORS ||
                       iterations / count < least))
    count--;
  return count;
}

/* The number of iterations to jam; 1 for none, -1 with an error. Quotients of the loop's variable
 * by a constant are equal in all of them, so that they differ only in their stream. */
static int64_t count_streams(const BpLowering *lowering, const BpIrNode *loop) {
  const BpTarget *target = lowering->options ? lowering->options->target : NULL;
  int64_t cores = target ? bp_target_get_int(target, BP_TARGET_NUM_CORES, BP__MOST_CORES) : 1;
  int64_t iterations = divisor_of(loop->operands[2]);
  Body body = {loop->operands[0], iterations, 0, true};
  if (bp__ir_visit_once(loop->operands[3], visit_body, &body) != 0)
    return -1;
  bool has_streams = body.is_plain && body.streams > 0 &&
                     bp__ir_is_int_value(loop->operands[1], 0) && loop->depth < MAX_DEPTH;
  return has_streams ? bp__lower_count_streams(iterations, body.divisor, body.streams, cores) : 1;
}

/* ---- Jamming ----------------------------------------------------------------------------- */

/* Copies of an iteration, which become one. */
typedef struct Jam {
  BpIrModule *module;
  const BpIrNode *loop; /* the parallel loop */
  int64_t count;        /* of the copies */
} Jam;

/* Whether the copies are the same construct: loops over the same values, sequences of equal
 * length. */
static bool are_alike(const BpIrNode *const *copies, int64_t count) {
  const BpIrNode *first = copies[0];
  int32_t shared = first->kind == BP_IR_FOR ? 3 : 0;
  for (int64_t i = 1; i < count; i++) {
    if (copies[i]->kind != first->kind || copies[i]->num_operands != first->num_operands)
      return false;
    for (int32_t k = 0; k < shared; k++)
      if (copies[i]->operands[k] != first->operands[k])
        return false;
  }
  return true;
}

static const BpIrNode *merge(const Jam *jam, const BpIrNode *const *copies);

/* Merges operand `operand` of the copies. */
static const BpIrNode *merge_operand(const Jam *jam, const BpIrNode *const *copies,
                                     int32_t operand) {
  const BpIrNode *parts[MAX_STREAMS];
  for (int64_t i = 0; i < jam->count; i++)
    parts[i] = copies[i]->operands[operand];
  return merge(jam, parts);
}

static bool are_prefetches(const Jam *jam, const BpIrNode *const *copies, int32_t place) {
  for (int64_t i = 0; i < jam->count; i++)
    if (!is_prefetch(copies[i]->operands[place]))
      return false;
  return true;
}

/* Whether a prefetch is for elements of less than 32 bits, which loops widen. */
static bool is_of_narrow(const BpIrNode *prefetch) {
  const BpIrNode *address = prefetch->operands[0]->operands[0];
  return address->kind == BP_IR_ADDRESS && address->operands[0]->dtype.bits < 32;
}

/* Merges prefetches, each for one stream. Several streams keep the memory busy, and processors
 * recognise them. But narrow elements take much work per line, so a processor runs few lines ahead:
 * each iteration of the jammed loop prefetches the narrow elements of the next one. */
static const BpIrNode *merge_prefetches(const Jam *jam, const BpIrNode *const *copies,
                                        int32_t place) {
  const BpIrNode *parts[MAX_STREAMS], *var = jam->loop->operands[0];
  const BpIrNode *next = bp_ir_binary(jam->module, BP_IR_ADD, var, bp__ir_int64(jam->module, 1));
  int32_t num_parts = 0;
  for (int64_t i = 0; i < jam->count && next; i++) {
    const BpIrNode *prefetch = copies[i]->operands[place];
    if (is_of_narrow(prefetch) &&
        !(parts[num_parts++] = bp__ir_substitute_one(jam->module, prefetch, var, next)))
      return NULL;
  }
  return next ? bp_ir_seq(jam->module, parts, num_parts) : NULL;
}

static const BpIrNode *merge_sequence(const Jam *jam, const BpIrNode *const *copies) {
  int32_t count = copies[0]->num_operands;
  const BpIrNode **parts = bp__ir_alloc(jam->module, (size_t)(count + 1) * sizeof *parts);
  for (int32_t k = 0; parts && k < count; k++)
    if (!(parts[k] = are_prefetches(jam, copies, k) ? merge_prefetches(jam, copies, k)
                                                    : merge_operand(jam, copies, k)))
      return NULL;
  return parts ? bp_ir_seq(jam->module, parts, count) : NULL;
}

/* Puts the names or allocations of all copies around their merged bodies. */
static const BpIrNode *merge_bindings(const Jam *jam, const BpIrNode *const *copies) {
  int32_t body = copies[0]->num_operands - 1;
  const BpIrNode *merged = merge_operand(jam, copies, body);
  for (int64_t i = jam->count - 1; i >= 0 && merged; i--) {
    const BpIrNode *operands[3] = {copies[i]->operands[0], copies[i]->operands[1]};
    operands[body] = merged;
    merged = bp__ir_with_operands(jam->module, copies[i], operands);
  }
  return merged;
}

/* Merges copies of a statement: the statements inside alternate. Iterations of a parallel loop do
 * not depend on each other, so any order is right. */
static const BpIrNode *merge(const Jam *jam, const BpIrNode *const *copies) {
  const BpIrNode *first = copies[0];
  if (!are_alike(copies, jam->count))
    return bp_ir_seq(jam->module, copies, (int32_t)jam->count);
  switch (first->kind) {
  case BP_IR_SEQ:
    return merge_sequence(jam, copies);
  case BP_IR_LET:
  case BP_IR_ALLOCATE:
    return merge_bindings(jam, copies);
  case BP_IR_FOR: {
    const BpIrNode *body = merge_operand(jam, copies, 3);
    return body ? bp_ir_for(jam->module, first->operands[0], first->operands[1], first->operands[2],
                            (int32_t)first->int_value, first->str_value, body)
                : NULL;
  }
  default:
    return bp_ir_seq(jam->module, copies, (int32_t)jam->count);
  }
}

static const BpIrNode *jam_loop(BpLowering *lowering, const BpIrNode *loop, int64_t count) {
  Jam jam = {lowering->module, loop, count};
  const BpIrNode *var = loop->operands[0], *copies[MAX_STREAMS];
  const BpIrNode *streams = bp__ir_int64(jam.module, count);
  const BpIrNode *first = streams ? bp_ir_binary(jam.module, BP_IR_MUL, var, streams) : NULL;
  for (int64_t i = 0; i < count; i++)
    if (!first ||
        !(copies[i] = bp__lower_iteration(
              lowering, loop,
              bp_ir_binary(jam.module, BP_IR_ADD, first, bp__ir_int64(jam.module, i)), true)))
      return NULL;
  const BpIrNode *extent = bp_ir_binary(jam.module, BP_IR_DIV, loop->operands[2], streams);
  const BpIrNode *body = merge(&jam, copies);
  return extent && body ? bp_ir_for(jam.module, var, loop->operands[1], extent, BP_IR_FOR_PARALLEL,
                                    loop->str_value, body)
                        : NULL;
}

static const BpIrNode *jam_node(BpIrRewriter *rewriter, const BpIrNode *node) {
  if (node->kind != BP_IR_FOR || node->int_value != BP_IR_FOR_PARALLEL ||
      !bp__dtype_equal(node->operands[0]->dtype, bp__dtype_int64()))
    return node;
  int64_t count = count_streams(rewriter->context, node);
  return count < 0 ? NULL : count > 1 ? jam_loop(rewriter->context, node, count) : node;
}

const BpIrNode *bp__lower_jam(BpLowering *lowering, const BpIrNode *body) {
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = jam_node};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
