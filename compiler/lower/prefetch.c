/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the prefetches that a schedule asks for: the loop over a leaf loads into the cache the
 * regions of a tensor that its iteration some steps ahead reads. */

#include "compiler/lower/nest.h"

#define CACHE_LINE     64
#define MAX_PREFETCHES 32

typedef struct PrefetchList {
  const BpIrNode *statements[MAX_PREFETCHES + 1];
  int32_t count;
} PrefetchList;

/* Adds a prefetch, unless the list has the same one: reads of an inlined stage may be equal. */
static int add_prefetch(PrefetchList *list, const BpIrNode *statement) {
  for (int32_t i = 0; statement && i < list->count; i++)
    if (bp__ir_equal(list->statements[i], statement))
      return 0;
  list->statements[list->count++] = statement;
  return statement ? 0 : -1;
}

/* The number of rows of a region, exact up to MAX_PREFETCHES. */
static int64_t rows_of(const BpInterval *region, int32_t ndim) {
  int64_t rows = 1;
  for (int32_t i = 0; i < ndim - 1 && rows <= MAX_PREFETCHES; i++)
    rows *= region[i].extent < MAX_PREFETCHES ? region[i].extent : MAX_PREFETCHES;
  return rows;
}

/* The number of cache lines of a row, at most MAX_PREFETCHES; `line`: the elements of a line. */
static int64_t lines_of(const BpInterval *region, int32_t ndim, int64_t line) {
  int64_t lines = ndim > 0 ? (region[ndim - 1].extent + line - 1) / line : 1;
  return lines < MAX_PREFETCHES ? lines : MAX_PREFETCHES;
}

/* Makes one prefetch for each cache line of the region, up to a limit. */
static int prefetch_region(const BpNest *nest, const BpIrNode *read, const BpInterval *region,
                           PrefetchList *list) {
  BpIrModule *module = nest->lowering->module;
  int32_t ndim = read->num_operands - 1;
  int64_t line = CACHE_LINE * 8 / read->dtype.bits;
  int64_t lines = lines_of(region, ndim, line), rows = rows_of(region, ndim);
  for (int64_t n = 0; n < rows * lines && list->count < MAX_PREFETCHES; n++) {
    const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {read->operands[0]};
    int64_t row = n / lines, offset = n % lines * line;
    for (int32_t i = ndim - 1; i >= 0; i--) {
      operands[1 + i] =
          bp_ir_binary(module, BP_IR_ADD, region[i].min, bp__ir_int64(module, offset));
      int64_t above = i > 0 ? region[i - 1].extent : 1;
      offset = row % above;
      row /= above;
    }
    const BpIrNode *at = bp__nest_relocate(nest, bp__ir_with_operands(module, read, operands));
    const BpIrNode *call =
        at ? bp_ir_make(module, BP_IR_CALL, at->dtype, at->operands, at->num_operands,
                        BP_IR_CALL_INTRINSIC, 0, BP__TE_PREFETCH)
           : NULL;
    if (!call || add_prefetch(list, bp__ir_evaluate(module, call)) != 0)
      return -1;
  }
  return 0;
}

/* Whether the loop over a leaf, which does not exist yet, will be unrolled. */
static bool is_unrolled(const BpNest *nest, const BpTeAxis *leaf) {
  return leaf->for_kind == BP_IR_FOR_UNROLLED && !nest->open[leaf->index] &&
         !nest->is_bound[leaf->index];
}

/* The first leaf at `position` or inside it whose loop is unrolled; NULL if there is none. */
static const BpTeAxis *first_unrolled(const BpNest *nest, int32_t position) {
  for (int32_t i = position; i < nest->stage->num_leaves; i++)
    if (is_unrolled(nest, nest->stage->leaves[i]))
      return nest->stage->leaves[i];
  return NULL;
}

/* The number of iterations of the unrolled loops at `position` and inside it, exact up to
 * MAX_PREFETCHES. */
static int64_t unrolled_iterations(const BpNest *nest, int32_t position) {
  int64_t count = 1;
  for (int32_t i = position; i < nest->stage->num_leaves && count <= MAX_PREFETCHES; i++)
    if (is_unrolled(nest, nest->stage->leaves[i]))
      count *= nest->extent[nest->stage->leaves[i]->index];
  return count;
}

/* Prefetches the elements that one read touches in an iteration of the loop outside of `position`.
 * `iterations`: the number of unrolled iterations inside. If the region around the elements has
 * more cache lines, the unrolled iterations read places far from each other, such as the gates of a
 * recurrent layer, and each of them gets a region of its own. */
static int prefetch_read(const BpNest *nest, int32_t position, int64_t iterations,
                         const BpIrNode *read, PrefetchList *list) {
  BpInterval region[BP_TE_MAX_NDIM];
  const BpIrNode *roots[BP__TE_MAX_AXES];
  const BpTeAxis *unrolled = first_unrolled(nest, position);
  int32_t ndim = read->num_operands - 1;
  if (bp__nest_roots(nest, true, roots) != 0)
    return -1;
  for (int32_t i = 0; i < ndim; i++) {
    bool is_bounded;
    if (bp__lower_index_interval(nest->lowering, nest->s, roots, read->operands[1 + i], &region[i],
                                 &is_bounded) != 0)
      return -1;
    if (!is_bounded)
      return 0;
  }
  int64_t lines = lines_of(region, ndim, CACHE_LINE * 8 / read->dtype.bits) * rows_of(region, ndim);
  if (!unrolled || lines <= iterations)
    return prefetch_region(nest, read, region, list);
  BpNest each = *nest;
  each.is_bound[unrolled->index] = true;
  for (int64_t i = 0; i < nest->extent[unrolled->index] && list->count < MAX_PREFETCHES; i++) {
    each.value[unrolled->index] = bp__ir_int64(nest->lowering->module, i);
    if (prefetch_read(&each, position, iterations / nest->extent[unrolled->index], read, list) != 0)
      return -1;
  }
  return 0;
}

const BpIrNode *bp__nest_prefetch(const BpNest *nest, int32_t position, const BpIrNode *rest) {
  PrefetchList list = {.count = 0};
  int64_t iterations = unrolled_iterations(nest, position + 1);
  for (const BpTePrefetch *p = nest->stage->prefetches; p; p = p->next) {
    if (nest->phase != BP__NEST_MAIN || p->axis != nest->stage->leaves[position])
      continue;
    BpNest ahead = *nest;
    const BpIrNode **value = &ahead.value[p->axis->index];
    *value = bp_ir_binary(nest->lowering->module, BP_IR_ADD, *value,
                          bp__ir_int64(nest->lowering->module, p->distance));
    if (!*value)
      return NULL;
    for (int32_t i = 0; i < nest->s->num_reads; i++)
      if (nest->s->reads[i]->operands[0] ==
              bp__ir_map_get(&nest->lowering->copied, p->tensor->buffer) &&
          prefetch_read(&ahead, position + 1, iterations, nest->s->reads[i], &list) != 0)
        return NULL;
  }
  if (list.count == 0)
    return rest;
  list.statements[list.count++] = rest;
  return bp_ir_seq(nest->lowering->module, list.statements, list.count);
}
