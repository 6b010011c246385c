/* SPDX-License-Identifier: Apache-2.0 */
/* The first step of lowering: which stages there are, with inlined ones substituted into their
 * readers, in an order in which producers come first; and the checks of where they run. */

#include "compiler/lower/lowering.h"

#include <stdlib.h>

/* ---- Reads ------------------------------------------------------------------------------- */

typedef struct ReadList {
  const BpIrNode **reads; /* NULL: only count */
  int32_t count;
} ReadList;

static int visit_read(void *context, const BpIrNode *node) {
  ReadList *list = context;
  if (!bp__te_is_read(node))
    return 0;
  if (list->reads)
    list->reads[list->count] = node;
  list->count++;
  return 0;
}

static int collect_reads(BpIrModule *module, const BpIrNode *body, const BpIrNode ***reads,
                         int32_t *count) {
  ReadList list = {0};
  if (bp__ir_visit_once(body, visit_read, &list) != 0)
    return -1;
  list.reads = bp__ir_alloc(module, (size_t)(list.count + 1) * sizeof *list.reads);
  list.count = 0;
  if (!list.reads || bp__ir_visit_once(body, visit_read, &list) != 0)
    return -1;
  *reads = list.reads;
  *count = list.count;
  return 0;
}

/* ---- Inlining ---------------------------------------------------------------------------- */

/* At a read of an inlined stage: its body with the indices for its variables. */
static const BpIrNode *inline_read(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpLowering *lowering = rewriter->context;
  if (!bp__te_is_read(node))
    return node;
  const BpLowerTensor *read = bp__lower_tensor_of(lowering, node->operands[0]);
  const BpLowerStage *producer = read ? read->s : NULL;
  if (!producer || !producer->stage->is_inlined)
    return node;
  BpIrMap map = {0};
  const BpIrNode *body = NULL;
  int failed = 0;
  for (int32_t i = 0; i < producer->stage->ndim && !failed; i++)
    failed = bp__ir_map_set(&map, producer->vars[i], node->operands[1 + i]);
  if (!failed)
    body = bp__ir_substitute(
        lowering->module,
        bp__te_value(producer->stage, producer->body, (int32_t)(read - producer->tensors)), &map);
  bp__ir_map_clear(&map);
  return body;
}

static int prepare_body(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes; i++) {
    s->vars[i] = bp__ir_copy(lowering->module, stage->axes[i]->var, &lowering->copied);
    if (!s->vars[i])
      return -1;
  }
  const BpIrNode *body = bp__ir_copy(lowering->module, stage->body, &lowering->copied);
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = inline_read};
  s->body = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return s->body ? collect_reads(lowering->module, s->body, &s->reads, &s->num_reads) : -1;
}

/* ---- Reaching the stages ----------------------------------------------------------------- */

static bool is_arg(const BpLowering *lowering, const BpTeTensor *tensor) {
  for (int32_t i = 0; i < lowering->num_args; i++)
    if (lowering->args[i] == tensor)
      return true;
  return false;
}

static int reach(BpLowering *lowering, BpTeTensor *tensor);

static int reach_producers(BpLowering *lowering, const BpTeStage *stage) {
  const BpIrNode **reads;
  int32_t count;
  if (collect_reads(lowering->module, stage->body, &reads, &count) != 0)
    return -1;
  for (int32_t i = 0; i < count; i++) {
    BpTeTensor *source = bp__te_tensor_of(lowering->te, reads[i]->operands[0]);
    if (!source)
      return bp_error_raise(BP_ERROR_VALUE,
                            "tensor %s reads buffer %s, which is no tensor of this BpTe",
                            stage->tensor->name, reads[i]->operands[0]->str_value);
    if (reach(lowering, source) != 0)
      return -1;
  }
  return 0;
}

/* Makes the tensors of a stage known. */
static int reach_tensors(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  size_t size = (size_t)stage->num_tensors * sizeof *s->tensors;
  s->tensors = bp__ir_alloc(lowering->module, size);
  if (!s->tensors)
    return -1;
  memset(s->tensors, 0, size);
  for (int32_t i = 0; i < stage->num_tensors; i++) {
    const BpTeTensor *tensor = stage->tensors[i];
    BpLowerTensor *t = &s->tensors[i];
    t->tensor = tensor;
    t->s = s;
    t->buffer = bp__ir_copy(lowering->module, tensor->buffer, &lowering->copied);
    t->is_output = is_arg(lowering, tensor);
    t->storage = t->is_output ? t->buffer : NULL;
    if (!t->buffer || bp__ir_map_set(&lowering->by_buffer, t->buffer, t) != 0)
      return -1;
    if (t->is_output && (stage->is_inlined || stage->attach_stage))
      return bp_error_raise(BP_ERROR_VALUE,
                            "tensor %s is an output of %s and can neither be inlined nor computed "
                            "inside another stage",
                            tensor->name, lowering->name);
  }
  return 0;
}

/* Adds the stage of a tensor after those it reads. */
static int reach(BpLowering *lowering, BpTeTensor *tensor) {
  const BpIrNode *buffer = bp__ir_copy(lowering->module, tensor->buffer, &lowering->copied);
  if (!buffer)
    return -1;
  if (!tensor->stage) {
    if (is_arg(lowering, tensor))
      return 0;
    return bp_error_raise(BP_ERROR_VALUE,
                          "placeholder %s is read but is not among the arguments of %s",
                          tensor->name, lowering->name);
  }
  if (bp__lower_stage_of(lowering, buffer))
    return 0;
  if (!tensor->stage->body)
    return bp_error_raise(BP_ERROR_VALUE, "tensor %s has no body", tensor->name);
  if (reach_producers(lowering, tensor->stage) != 0)
    return -1;
  BpLowerStage *s = &lowering->stages[lowering->num_stages++];
  s->stage = tensor->stage;
  return reach_tensors(lowering, s) != 0 ? -1 : prepare_body(lowering, s);
}

/* ---- Attachment -------------------------------------------------------------------------- */

static BpLowerStage *find_stage(BpLowering *lowering, const BpTeStage *stage) {
  for (int32_t i = 0; i < lowering->num_stages; i++)
    if (lowering->stages[i].stage == stage && !stage->is_inlined)
      return &lowering->stages[i];
  return NULL;
}

static int resolve_attachment(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  if (!stage->attach_stage || stage->is_inlined)
    return 0;
  s->attached_to = find_stage(lowering, stage->attach_stage);
  if (!s->attached_to)
    return bp_error_raise(BP_ERROR_VALUE,
                          "tensor %s is computed inside %s, which is inlined or not part of %s",
                          stage->tensor->name, stage->attach_stage->tensor->name, lowering->name);
  const BpTeStage *consumer = s->attached_to->stage;
  for (int32_t i = 0; i < consumer->num_leaves; i++)
    if (consumer->leaves[i] == stage->attach_axis) {
      s->attach_position = i;
      return 0;
    }
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s is computed at axis %s of %s, which was split or fused later",
                        stage->tensor->name, stage->attach_axis->name, consumer->tensor->name);
}

/* Whether `reader` runs inside the loop where `s` is computed, and after it. */
static bool sees(const BpLowerStage *reader, const BpLowerStage *s) {
  const BpLowerStage *inside = reader;
  if (inside == s->attached_to)
    return true;
  while (inside->attached_to && inside->attached_to != s->attached_to)
    inside = inside->attached_to;
  return inside->attached_to == s->attached_to && inside->attach_position >= s->attach_position;
}

/* No vectorized or unrolled loop may lie around a stage computed inside: vector lanes share it. */
static int check_loops_around(const BpLowerStage *s) {
  const BpTeStage *consumer = s->attached_to->stage;
  for (int32_t i = 0; i <= s->attach_position; i++)
    if (consumer->leaves[i]->for_kind == BP_IR_FOR_VECTORIZED)
      return bp_error_raise(
          BP_ERROR_VALUE, "tensor %s is computed inside axis %s of %s, which is vectorized",
          s->stage->tensor->name, consumer->leaves[i]->name, consumer->tensor->name);
  return 0;
}

static int check_readers(BpLowering *lowering, const BpLowerStage *s) {
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    const BpLowerStage *reader = &lowering->stages[i];
    for (int32_t j = 0; j < reader->num_reads && s->attached_to; j++)
      if (bp__lower_stage_of(lowering, reader->reads[j]->operands[0]) == s && !sees(reader, s))
        return bp_error_raise(BP_ERROR_VALUE,
                              "tensor %s is computed inside %s at axis %s, but %s reads it from "
                              "outside that loop",
                              s->stage->tensor->name, s->attached_to->stage->tensor->name,
                              s->stage->attach_axis->name, reader->stage->tensor->name);
  }
  return s->attached_to ? check_loops_around(s) : 0;
}

/* Drops the inlined stages. */
static void drop_inlined(BpLowering *lowering) {
  int32_t kept = 0;
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    BpLowerStage *s = &lowering->stages[kept];
    if (lowering->stages[i].stage->is_inlined)
      continue;
    *s = lowering->stages[i];
    for (int32_t k = 0; k < s->stage->num_tensors; k++)
      s->tensors[k].s = s;
    kept++;
  }
  lowering->num_stages = kept;
}

/* Finds the tensors that need not be computed. */
static void find_needed(BpLowering *lowering) {
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    const BpLowerStage *s = &lowering->stages[i];
    for (int32_t k = 0; k < s->stage->num_tensors; k++)
      s->tensors[k].is_needed |= s->tensors[k].is_output || s->stage->reduce_op >= 0;
    for (int32_t k = 0; k < s->num_reads; k++) {
      BpLowerTensor *read = bp__lower_tensor_of(lowering, s->reads[k]->operands[0]);
      if (read)
        read->is_needed = true;
    }
  }
}

static int copy_params(BpLowering *lowering) {
  lowering->params =
      bp__ir_alloc(lowering->module, (size_t)(lowering->num_args + 1) * sizeof(void *));
  if (!lowering->params)
    return -1;
  for (int32_t i = 0; i < lowering->num_args; i++) {
    if (!lowering->args[i])
      return bp_error_raise(BP_ERROR_VALUE, "argument %d of %s is NULL", i, lowering->name);
    for (int32_t j = 0; j < i; j++)
      if (lowering->args[j] == lowering->args[i])
        return bp_error_raise(BP_ERROR_VALUE, "tensor %s stands twice among the arguments of %s",
                              lowering->args[i]->name, lowering->name);
    lowering->params[i] =
        bp__ir_copy(lowering->module, lowering->args[i]->buffer, &lowering->copied);
    if (!lowering->params[i])
      return -1;
  }
  return 0;
}

int bp__lower_normalize(BpLowering *lowering) {
  int32_t tensors = 0;
  for (const BpTeTensor *tensor = lowering->te->tensors; tensor; tensor = tensor->next)
    tensors++;
  lowering->stages = bp__ir_alloc(lowering->module, (size_t)(tensors + 1) * sizeof(BpLowerStage));
  if (!lowering->stages || copy_params(lowering) != 0)
    return -1;
  memset(lowering->stages, 0, (size_t)(tensors + 1) * sizeof(BpLowerStage));
  for (int32_t i = 0; i < lowering->num_args; i++)
    if (lowering->args[i]->stage && reach(lowering, lowering->args[i]) != 0)
      return -1;
  drop_inlined(lowering);
  find_needed(lowering);
  for (int32_t i = 0; i < lowering->num_stages; i++)
    if (resolve_attachment(lowering, &lowering->stages[i]) != 0)
      return -1;
  for (int32_t i = 0; i < lowering->num_stages; i++)
    if (check_readers(lowering, &lowering->stages[i]) != 0 ||
        bp__lower_check_reads(lowering, &lowering->stages[i]) != 0)
      return -1;
  return 0;
}
