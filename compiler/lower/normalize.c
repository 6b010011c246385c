/* SPDX-License-Identifier: Apache-2.0 */
/* The first step of lowering: finds the stages, substitutes inlined stages into their readers,
 * orders the stages so that producers come first, and checks where they run. */

#include "compiler/lower/nest.h"

#include <stdlib.h>

/* ---- Reads ------------------------------------------------------------------------------- */

typedef struct ReadList {
  const BpIrNode **reads; /* NULL: reads are only counted */
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

/* Replaces a read of an inlined stage by the stage's body, with the read's indices as the values of
 * its variables. */
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

/* A body with its inlined stages substituted. */
static const BpIrNode *inlined(BpLowering *lowering, const BpIrNode *body) {
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = inline_read};
  body = bp__ir_rewrite(&rewriter, bp__ir_copy(lowering->module, body, &lowering->copied));
  bp__ir_rewriter_clear(&rewriter);
  return body;
}

static int prepare_body(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes; i++) {
    s->vars[i] = bp__ir_copy(lowering->module, stage->axes[i]->var, &lowering->copied);
    if (!s->vars[i])
      return -1;
  }
  const BpIrNode *all = s->body = inlined(lowering, stage->body);
  if (s->body && stage->scan) {
    s->before = inlined(lowering, stage->scan->before);
    all = bp__te_tuple(lowering->module, (const BpIrNode *[]){s->body, s->before}, 2);
  }
  return all ? collect_reads(lowering->module, all, &s->reads, &s->num_reads) : -1;
}

/* ---- Reaching the stages ----------------------------------------------------------------- */

static bool is_arg(const BpLowering *lowering, const BpTeTensor *tensor) {
  for (int32_t i = 0; i < lowering->num_args; i++)
    if (lowering->args[i] == tensor)
      return true;
  return false;
}

static int reach(BpLowering *lowering, BpTeTensor *tensor);

static int reach_reads(BpLowering *lowering, const BpTeStage *stage, const BpIrNode *body) {
  const BpIrNode **reads;
  int32_t count;
  if (collect_reads(lowering->module, body, &reads, &count) != 0)
    return -1;
  for (int32_t i = 0; i < count; i++) {
    BpTeTensor *source = bp__te_tensor_of(lowering->te, reads[i]->operands[0]);
    if (!source)
      return bp_error_raise(BP_ERROR_VALUE,
                            "tensor %s reads buffer %s, which is not a tensor of this BpTe",
                            stage->tensor->name, reads[i]->operands[0]->str_value);
    if (!source->state_of && source->stage != stage && reach(lowering, source) != 0)
      return -1;
  }
  return 0;
}

static int reach_producers(BpLowering *lowering, const BpTeStage *stage) {
  if (reach_reads(lowering, stage, stage->body) != 0)
    return -1;
  return stage->scan ? reach_reads(lowering, stage, stage->scan->before) : 0;
}

/* Registers a tensor or state. */
static int reach_tensor(BpLowering *lowering, BpLowerStage *s, const BpTeTensor *tensor,
                        BpLowerTensor *t) {
  t->tensor = tensor;
  t->s = s;
  t->buffer = bp__ir_copy(lowering->module, tensor->buffer, &lowering->copied);
  t->is_output = is_arg(lowering, tensor);
  t->storage = t->is_output ? t->buffer : NULL;
  if (!t->buffer || bp__ir_map_set(&lowering->by_buffer, t->buffer, t) != 0)
    return -1;
  if (!t->is_output || (!s->stage->is_inlined && !s->stage->attach_stage && !s->stage->inside))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s is an output of %s and can neither be inlined nor computed "
                        "inside another stage",
                        tensor->name, lowering->name);
}

static int reach_tensors(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  int32_t num_states = stage->scan ? stage->scan->num_states : 0;
  size_t size = (size_t)(stage->num_tensors + num_states) * sizeof *s->tensors;
  s->tensors = bp__ir_alloc(lowering->module, size);
  if (!s->tensors)
    return -1;
  memset(s->tensors, 0, size);
  s->states = s->tensors + stage->num_tensors;
  for (int32_t i = 0; i < stage->num_tensors; i++)
    if (reach_tensor(lowering, s, stage->tensors[i], &s->tensors[i]) != 0)
      return -1;
  for (int32_t i = 0; i < num_states; i++)
    if (reach_tensor(lowering, s, stage->scan->states[i], &s->states[i]) != 0)
      return -1;
  return 0;
}

/* Adds the stage of a tensor after the stages that it reads. */
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

static int find_place(BpLowerStage *s, const BpTeAxis *axis) {
  const BpTeStage *consumer = s->attached_to->stage;
  for (int32_t i = 0; i < consumer->num_leaves; i++)
    if (consumer->leaves[i] == axis) {
      s->attach_position = i;
      return 0;
    }
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s is computed at axis %s of %s, which was split or fused later",
                        s->stage->tensor->name, axis->name, consumer->tensor->name);
}

/* Attaches a stage that belongs to a scan's steps where the step is known, unless the schedule
 * attaches it elsewhere. */
static int resolve_attachment(BpLowering *lowering, BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  const BpTeStage *consumer = stage->attach_stage ? stage->attach_stage : stage->inside;
  if (!consumer)
    return 0;
  s->attached_to = find_stage(lowering, consumer);
  if (!s->attached_to)
    return bp_error_raise(
        BP_ERROR_VALUE, "tensor %s is computed inside %s, which is inlined or not part of %s",
        stage->tensor->name, consumer->tensor ? consumer->tensor->name : "a scan", lowering->name);
  if (stage->attach_stage)
    return find_place(s, stage->attach_axis);
  s->attach_position = bp__scan_position(consumer);
  return 0;
}

/* Whether a stage of a scan's steps runs where the step is known. */
static int check_inside(const BpLowerStage *s) {
  const BpTeStage *scan = s->stage->inside;
  const BpLowerStage *part = s;
  while (scan && part->attached_to && part->attached_to->stage != scan)
    part = part->attached_to;
  if (!scan || (part->attached_to && part->attach_position >= bp__scan_position(scan)))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s belongs to the steps of scan %s and is not computed inside of "
                        "the loops over them",
                        s->stage->tensor->name, scan->scan->name);
}

/* Whether `part` is `axis` or derived from it. */
static bool is_part_of(const BpTeAxis *part, const BpTeAxis *axis) {
  if (part == axis)
    return true;
  if (!axis->used_by)
    return false;
  if (axis->used_by->kind == BP__TE_FUSE)
    return is_part_of(part, axis->used_by->parent);
  return is_part_of(part, axis->used_by->outer) || is_part_of(part, axis->used_by->inner);
}

/* Whether `first` counts larger steps of the scan's axis than `second`: `first` is on the outer
 * side of the split that separated them. */
static bool comes_first(const BpTeAxis *first, const BpTeAxis *second) {
  const BpTeStage *stage = first->stage;
  for (int32_t i = 0; i < stage->num_axes; i++) {
    const BpTeRelation *use = stage->axes[i]->used_by;
    if (use && use->kind == BP__TE_SPLIT && is_part_of(first, use->outer) &&
        is_part_of(second, use->inner))
      return true;
  }
  return false;
}

static int refuse_order(const BpTeAxis *inner, const BpTeAxis *outer) {
  return bp_error_raise(BP_ERROR_VALUE,
                        "axis %s of scan %s lies inside of axis %s: its steps would not run in "
                        "their order",
                        inner->name, inner->stage->scan->name, outer->name);
}

/* The steps of a scan run in order: the parts of its axis must stay in the order of the splits,
 * even after a fusion of parts. */
static int check_order(const BpTeStage *stage) {
  const BpTeAxis *before = NULL;
  for (int32_t i = 0; i < stage->num_axes && stage->scan; i++) {
    const BpTeRelation *made = stage->axes[i]->is_scan ? stage->axes[i]->made_by : NULL;
    if (made && made->kind == BP__TE_FUSE && !comes_first(made->outer, made->inner))
      return refuse_order(made->inner, made->outer);
  }
  for (int32_t i = 0; i < stage->num_leaves && stage->scan; i++) {
    const BpTeAxis *leaf = stage->leaves[i];
    if (!leaf->is_scan)
      continue;
    if (before && !comes_first(before, leaf))
      return refuse_order(leaf, before);
    before = leaf;
  }
  return 0;
}

/* Whether `reader` runs inside the loop where `s` is computed, and after `s`. */
static bool sees(const BpLowerStage *reader, const BpLowerStage *s) {
  const BpLowerStage *inside = reader;
  if (inside == s->attached_to)
    return true;
  while (inside->attached_to && inside->attached_to != s->attached_to)
    inside = inside->attached_to;
  return inside->attached_to == s->attached_to && inside->attach_position >= s->attach_position;
}

/* Fails if a vectorized or unrolled loop surrounds a stage that is computed inside it, because the
 * loop's lanes would share the stage. */
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
                              s->attached_to->stage->leaves[s->attach_position]->name,
                              reader->stage->tensor->name);
  }
  return s->attached_to ? check_loops_around(s) : 0;
}

/* Makes the tensors of a stage point to the stage's current place in the list. */
static void place_tensors(BpLowerStage *s) {
  int32_t num_states = s->stage->scan ? s->stage->scan->num_states : 0;
  for (int32_t i = 0; i < s->stage->num_tensors + num_states; i++) {
    s->tensors[i].s = s;
    s->tensors[i].mins = i < s->stage->num_tensors ? s->mins : s->state_mins;
  }
}

/* Removes the inlined stages from the list. */
static void drop_inlined(BpLowering *lowering) {
  int32_t kept = 0;
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    BpLowerStage *s = &lowering->stages[kept];
    if (lowering->stages[i].stage->is_inlined)
      continue;
    *s = lowering->stages[i];
    place_tensors(s);
    kept++;
  }
  lowering->num_stages = kept;
}

/* Finds the tensors that must be computed. */
static void find_needed(BpLowering *lowering) {
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    const BpLowerStage *s = &lowering->stages[i];
    for (int32_t k = 0; k < s->stage->num_tensors; k++)
      s->tensors[k].is_needed |=
          s->tensors[k].is_output || s->stage->reduce_op >= 0 || s->stage->is_statements;
    for (int32_t k = 0; k < s->num_reads; k++) {
      BpLowerTensor *read = bp__lower_tensor_of(lowering, s->reads[k]->operands[0]);
      if (read)
        read->is_needed = true;
    }
  }
}

/* Adds the open extents to the parameters and records their ranges. */
static int copy_open_extents(BpLowering *lowering) {
  for (const BpTeOpenExtent *open = lowering->te->open_extents; open; open = open->next) {
    const BpIrNode *var = bp__ir_copy(lowering->module, open->var, &lowering->copied);
    if (!var || bp__index_set_range(&lowering->index, var, 0, open->greatest, false) != 0)
      return -1;
    lowering->params[lowering->num_params++] = var;
  }
  return 0;
}

static int32_t count_open_extents(const BpTe *te) {
  int32_t count = 0;
  for (const BpTeOpenExtent *open = te->open_extents; open; open = open->next)
    count++;
  return count;
}

static int copy_params(BpLowering *lowering) {
  int32_t count = lowering->num_args + count_open_extents(lowering->te);
  lowering->params = bp__ir_alloc(lowering->module, (size_t)(count + 1) * sizeof(void *));
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
  lowering->num_params = lowering->num_args;
  return copy_open_extents(lowering);
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
    if (check_order(lowering->stages[i].stage) != 0 || check_inside(&lowering->stages[i]) != 0 ||
        check_readers(lowering, &lowering->stages[i]) != 0 ||
        bp__lower_check_reads(lowering, &lowering->stages[i]) != 0)
      return -1;
  return 0;
}
