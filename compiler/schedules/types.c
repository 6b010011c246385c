/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of a stage's types on its schedule: the number of its values in a vector, and the
 * operands that are worth a copy in the type in which they are computed. */

#include "compiler/lower/passes.h"
#include "compiler/schedules/parts.h"

#include <stdio.h>

/* ---- Lanes ------------------------------------------------------------------------------- */

static int64_t bits_of(BpDataType dtype) {
  return bp__dtype_is_bool(dtype) ? 0 : dtype.bits;
}

/* The width of the widest type from which each node is computed, in bits plus 1, as a pointer; 1
 * for index arithmetic, which needs no vectors. */
typedef struct Widths {
  BpIrMap known;
  int64_t widest;
} Widths;

static int64_t width_of(const Widths *widths, const BpIrNode *node) {
  return (int64_t)(uintptr_t)bp__ir_map_get(&widths->known, node) - 1;
}

static int visit_width(void *context, const BpIrNode *node) {
  Widths *widths = context;
  int64_t width = 0;
  bool is_read = bp__te_is_read(node);
  for (int32_t i = 0; i < node->num_operands && !is_read; i++)
    if (width_of(widths, node->operands[i]) > width)
      width = width_of(widths, node->operands[i]);
  if ((is_read || width > 0 || bp__dtype_is_float(node->dtype)) && bits_of(node->dtype) > width)
    width = bits_of(node->dtype);
  if (bp__expands_by_doubles(node))
    width = 64;
  if (width > widths->widest)
    widths->widest = width;
  return bp__ir_map_set(&widths->known, node, (const void *)(uintptr_t)(width + 1));
}

int bp__info_set_bits(BpStageInfo *info) {
  Widths widths = {.widest = 8};
  for (int32_t i = 0; i < info->stage->num_tensors; i++)
    if (bits_of(info->stage->tensors[i]->dtype) > widths.widest)
      widths.widest = bits_of(info->stage->tensors[i]->dtype);
  int rc = bp__ir_visit_once(info->s->body, visit_width, &widths);
  bp__ir_map_clear(&widths.known);
  info->bits = widths.widest;
  return rc;
}

/* The maximum number of lanes of a vectorised loop. */
#define MOST_LANES 64

BpMachine bp__machine_for(const BpMachine *machine, const BpStageInfo *info) {
  BpMachine own = *machine;
  /* Languages of kernels have vectors of at most 16 lanes. */
  int64_t most = machine->has_kernels ? machine->vector_bits / 32 : MOST_LANES;
  own.lanes = machine->vector_bits / info->bits;
  own.lanes = own.lanes > most ? most : own.lanes;
  if (own.lanes < 1 || machine->vector_bits < 64)
    own.lanes = 1;
  return own;
}

/* ---- Operands ---------------------------------------------------------------------------- */

/* The number of reads of an operand from which on it is converted once: the first for a load that
 * feeds a single multiply-add, the second for a load whose value is broadcast to many lanes.
 * Vectors that a whole tile uses are converted when they are loaded. */
#define OWN_READS       2.0
#define BROADCAST_READS 4.0

#define MAX_OPERANDS 8

/* The casts of a reduction's operands. */
typedef struct Operands {
  const BpTeStage *reader;
  const BpIrNode *casts[MAX_OPERANDS];
  int32_t count;
  BpTe *te;
} Operands;

static int visit_cast(void *context, const BpIrNode *node) {
  Operands *operands = context;
  if (node->kind == BP_IR_CAST && bp__te_is_read(node->operands[0]) &&
      node->dtype.bits > node->operands[0]->dtype.bits && operands->count < MAX_OPERANDS)
    operands->casts[operands->count++] = node;
  return 0;
}

/* Whether a read's index depends on a data axis: 1, 0 or -1 with an error. */
static int depends_on(const BpIrNode *read, const BpTeAxis *axis) {
  for (int32_t i = 1; i < read->num_operands; i++) {
    int uses = bp__ir_uses(read->operands[i], axis->var);
    if (uses != 0)
      return uses;
  }
  return 0;
}

/* Whether converting a tensor once pays: 1, 0, or -1 with an error. */
static int pays_to_convert(const BpTeStage *reader, const BpTeTensor *tensor,
                           const BpIrNode *read) {
  double elements = 1;
  bool is_own = true, is_broadcast = false, is_last = true;
  for (int32_t i = 0; i < tensor->ndim; i++)
    elements *= (double)tensor->shape[i];
  for (int32_t i = reader->ndim - 1; i >= 0; i--) {
    if (reader->axes[i]->extent == 1)
      continue;
    int depends = depends_on(read, reader->axes[i]);
    if (depends < 0)
      return -1;
    is_own &= depends;
    is_broadcast |= is_last && !depends;
    is_last = false;
  }
  double reads = bp__te_iterations(reader) / (elements > 0 ? elements : 1);
  return (is_own && reads >= OWN_READS) || (is_broadcast && reads >= BROADCAST_READS);
}

static const BpIrNode *converted_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *cast = context;
  return bp_ir_cast(bp_te_ir(te), cast->dtype,
                    bp_te_read(te, bp__te_tensor_of(te, cast->operands[0]->operands[0]), axes));
}

static bool is_output(BpTeTensor *const *outputs, int32_t num_outputs, const BpTeTensor *tensor) {
  for (int32_t i = 0; i < num_outputs; i++)
    if (outputs[i]->stage == tensor->stage)
      return true;
  return false;
}

/* Whether a stage other than `other` reads the tensor, or `reader` still does: 1, 0, or -1 with an
 * error. */
static int has_other_readers(const BpTe *te, const BpTeTensor *tensor, const BpTeStage *reader,
                             const BpTeStage *other) {
  for (const BpTeTensor *t = te->tensors; t; t = t->next) {
    if (!t->stage || t->stage == reader || t->stage == other)
      continue;
    int uses = t->stage->body ? bp__ir_uses(t->stage->body, tensor->buffer) : 1;
    if (uses != 0)
      return uses;
  }
  return bp__ir_uses(reader->body, tensor->buffer);
}

/* Makes `reader` read a copy of the tensor in the type to which the reader casts its elements. A
 * stage that computes the tensor only for `reader`, usually a padded input, computes the copy
 * instead of the tensor. */
static int convert_operand(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                           BpTeStage *reader, const BpIrNode *cast) {
  BpTeTensor *tensor = bp__te_tensor_of(te, cast->operands[0]->operands[0]);
  char name[128];
  snprintf(name, sizeof name, "%.100s_wide", tensor->name);
  BpTeTensor *copy = bp_te_compute_open(te, name, tensor->buffer->operands, tensor->ndim,
                                        converted_body, (void *)(uintptr_t)cast);
  if (!copy || bp__te_read_copy(reader, tensor, copy) != 0)
    return -1;
  BpTeStage *stage = tensor->stage;
  if (!stage || !bp__te_is_pointwise(stage) || stage->num_tensors > 1 || stage->inside ||
      bp__stage_is_scheduled(stage) || is_output(outputs, num_outputs, tensor))
    return 0;
  int has_others = has_other_readers(te, tensor, reader, copy->stage);
  return has_others == 0 ? bp_te_compute_inline(stage) : has_others < 0 ? -1 : 0;
}

static int convert_operands_of(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                               BpTeStage *reader) {
  Operands operands = {.reader = reader, .te = te};
  if (bp__ir_visit_once(reader->body, visit_cast, &operands) != 0)
    return -1;
  for (int32_t i = 0; i < operands.count; i++) {
    const BpIrNode *cast = operands.casts[i], *read = cast->operands[0];
    const BpTeTensor *tensor = bp__te_tensor_of(te, read->operands[0]);
    int uses = bp__ir_uses(reader->body, cast);
    int pays = uses > 0 ? pays_to_convert(reader, tensor, read) : uses;
    if (pays < 0 || (pays && convert_operand(te, outputs, num_outputs, reader, cast) != 0))
      return -1;
  }
  return 0;
}

int bp__convert_operands(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs) {
  const BpTeTensor *last = te->last_tensor;
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    BpTeStage *stage = tensor->stage;
    if (stage && stage->tensor == tensor && stage->reduce_op >= 0 && !stage->scan &&
        !stage->inside && !bp__stage_is_scheduled(stage) &&
        convert_operands_of(te, outputs, num_outputs, stage) != 0)
      return -1;
    if (tensor == last)
      break;
  }
  return 0;
}
