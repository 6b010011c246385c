/* SPDX-License-Identifier: Apache-2.0 */
/* Inlining for kernels: each remaining stage becomes a kernel of its own, whose result goes through
 * memory, so more inlining pays than for stages that are loops of one function. */

#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* The maximum number of reads of a stage's element by a body into which the stage is inlined: the
 * language's compiler computes equal elements once. */
#define MOST_READS 4
/* The number of multiply-adds for each element that a reduction reads at other places than its own,
 * below which computing the element again is cheaper than storing it in memory. */
#define KEPT_INTENSITY 32.0

typedef struct Reads {
  const BpTeStage *source;
  const BpTeStage *reader;
  int32_t count;
  bool are_in_place;
} Reads;

static int visit_read(void *context, const BpIrNode *node) {
  Reads *reads = context;
  const BpTeTensor *tensor = reads->source->tensor, *result = reads->reader->tensor;
  if (!bp__te_reads_stage(node, reads->source))
    return 0;
  reads->count++;
  reads->are_in_place &= tensor->ndim == result->ndim && !reads->reader->is_statements;
  for (int32_t i = 0; i < tensor->ndim && i < result->ndim; i++)
    reads->are_in_place &= node->operands[1 + i] == reads->reader->axes[i]->var ||
                           (tensor->shape[i] == 1 && result->shape[i] == 1);
  return 0;
}

/* Whether the only reader of a stage reads each element at its own place, or does little work with
 * the element: 1, 0, or -1 with an error. */
static int pays_to_inline(const BpTe *te, const BpTeStage *stage) {
  int32_t readers = 0;
  bool pays = true;
  for (const BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    Reads reads = {stage, tensor->stage, 0, true};
    if (!bp__te_is_first(tensor))
      continue;
    if (bp__ir_visit_once(tensor->stage->body, visit_read, &reads) != 0)
      return -1;
    if (reads.count == 0)
      continue;
    readers++;
    bool is_light = reads.count == 1 && tensor->stage->reduce_op >= 0 &&
                    bp__te_iterations(tensor->stage) < KEPT_INTENSITY * bp__te_iterations(stage);
    pays &= (reads.are_in_place && reads.count <= MOST_READS) || is_light;
  }
  return readers == 1 && pays;
}

int bp__inline_for_kernels(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs) {
  return bp__inline_where(te, outputs, num_outputs, pays_to_inline)
             ? -1
             : bp__inline_stages(te, outputs, num_outputs);
}
