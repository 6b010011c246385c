/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules any computation: inlines stages, then chooses a schedule for each remaining stage. */

#include "compiler/ir/argument.h"
#include "compiler/schedules/parts.h"
#include "compiler/schedules/threads.h"

/* ---- Inlining ---------------------------------------------------------------------------- */

/* The maximum number of nodes of an expression that is computed wherever it is read; a larger
 * expression is computed once. */
#define CHEAP_NODES 16
/* A number larger than any number of computations. */
#define MANY 1e300

typedef struct Expense {
  int32_t nodes;
  bool is_dear; /* whether the expression has a select, a call or a division of floats */
} Expense;

static int visit_expense(void *context, const BpIrNode *node) {
  Expense *expense = context;
  expense->nodes++;
  if ((node->kind == BP_IR_CALL && !bp__te_is_read(node)) || node->kind == BP_IR_SELECT ||
      (node->kind == BP_IR_DIV && bp__dtype_is_float(node->dtype)))
    expense->is_dear = true;
  return 0;
}

/* Whether a stage's expression is cheap: 1, 0, or -1 with an error. */
static int is_cheap(const BpTeStage *stage) {
  Expense expense = {0};
  if (bp__ir_visit_once(stage->body, visit_expense, &expense) != 0)
    return -1;
  return !expense.is_dear && expense.nodes <= CHEAP_NODES;
}

/* The reads of one stage by another stage. */
typedef struct Reader {
  const BpTeStage *stage, *source;
  bool is_in_place; /* whether the reader reads element i for its own element i */
  int32_t reads;    /* number of other reads */
} Reader;

static int visit_reader(void *context, const BpIrNode *node) {
  Reader *reader = context;
  const BpTeTensor *tensor = reader->stage->tensor, *source = reader->source->tensor;
  if (!bp__te_reads_stage(node, reader->source))
    return 0;
  bool is_in_place = tensor->ndim == source->ndim && !reader->stage->is_statements;
  for (int32_t i = 0; is_in_place && i < source->ndim; i++)
    is_in_place = tensor->shape[i] == source->shape[i] &&
                  (source->shape[i] == 1 || node->operands[1 + i] == reader->stage->axes[i]->var);
  reader->is_in_place |= is_in_place;
  reader->reads += !is_in_place;
  return 0;
}

bool bp__stage_turns(const BpTeStage *stage) {
  const BpIrNode *body = stage->body;
  int32_t ndim = stage->ndim;
  if (ndim < 2 || !bp__te_is_read(body) || body->num_operands != 1 + ndim)
    return false;
  for (int32_t i = 0; i < ndim - 2; i++)
    if (body->operands[1 + i] != stage->axes[i]->var)
      return false;
  return body->operands[ndim - 1] == stage->axes[ndim - 1]->var &&
         body->operands[ndim] == stage->axes[ndim - 2]->var;
}

static bool is_product(const BpTeStage *stage) {
  return stage->reduce_op == BP_TE_SUM && stage->num_reduce_axes == 1 &&
         stage->body->kind == BP_IR_MUL;
}

/* Whether inlining the stage repeats only cheap computations, or none: 1, 0, or -1 with an
 * error. */
static int pays_to_inline(const BpTe *te, const BpTeStage *stage) {
  double reads = 0;
  bool is_in_place = false, are_products = true;
  for (const BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    Reader reader = {.stage = tensor->stage, .source = stage};
    if (!bp__te_is_first(tensor))
      continue;
    if (bp__ir_visit_once(tensor->stage->body, visit_reader, &reader) != 0)
      return -1;
    /* The number of reads by statements is unknown. */
    reads +=
        reader.reads * (tensor->stage->is_statements ? MANY : bp__te_iterations(tensor->stage));
    is_in_place |= reader.is_in_place;
    are_products &= reader.reads == 0 || is_product(tensor->stage);
  }
  /* All reads in place end in one element of the output, where the value is computed once. */
  reads += is_in_place ? bp__te_iterations(stage) : 0;
  if (reads <= bp__te_iterations(stage))
    return 1;
  /* A product would gather the elements of each vector; its schedule transposes panels. */
  if (are_products && bp__stage_turns(stage))
    return 0;
  /* A stage is not inlined into the steps of a scan, the innermost loops: a product's input would
   * be computed again for each element. */
  return stage->inside ? 0 : is_cheap(stage);
}

static bool is_output(const BpTeStage *stage, BpTeTensor *const *outputs, int32_t num_outputs) {
  for (int32_t i = 0; i < num_outputs; i++)
    if (outputs[i]->stage == stage)
      return true;
  return false;
}

int bp__inline_where(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                     int (*pays)(const BpTe *te, const BpTeStage *stage)) {
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    BpTeStage *stage = tensor->stage;
    if (!bp__te_is_first(tensor) || is_output(stage, outputs, num_outputs) ||
        !bp__te_is_pointwise(stage) || bp__stage_is_scheduled(stage))
      continue;
    int found = pays(te, stage);
    if (found < 0 || (found && bp_te_compute_inline(stage) != 0))
      return -1;
  }
  return 0;
}

int bp__inline_stages(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs) {
  return bp__inline_where(te, outputs, num_outputs, pays_to_inline);
}

/* ---- Choosing ---------------------------------------------------------------------------- */

static bool is_reduction(const BpStageInfo *info) {
  return info->stage->reduce_op >= 0;
}

/* Schedules a reduction and the stage that stores it, which may be the same stage. */
static int schedule_work(const BpStageInfo *work, const BpStageInfo *output,
                         const BpMachine *machine) {
  return bp__info_is_window(work, machine) ? bp__schedule_window(work, output, machine)
                                           : bp__schedule_tile(work, output, machine);
}

/* Whether a stage is not a scan and does not belong to the steps of a scan. */
static bool is_for_itself(const BpTeStage *stage) {
  return !stage->scan && !stage->inside;
}

/* Schedules a single stage. */
static int schedule_stage(const BpStageInfo *info, const BpMachine *machine) {
  if (bp__stage_is_scheduled(info->stage) || !is_for_itself(info->stage))
    return 0;
  if (info->stage->is_statements)
    return bp__schedule_statements(info, machine);
  if (!is_reduction(info))
    return bp__schedule_elementwise(info, machine);
  return bp__info_reduces_rows(info) ? bp__schedule_row(info, machine)
                                     : schedule_work(info, info, machine);
}

const BpStageInfo *bp__find_tiled_work(const BpAnalysis *analysis, const BpStageInfo *output) {
  const BpStageInfo *work = NULL;
  if (!bp__te_is_pointwise(output->stage) || bp__stage_is_scheduled(output->stage))
    return NULL;
  for (int32_t i = 0; i < output->num_accesses; i++) {
    const BpTeTensor *source = bp__analysis_source(analysis, output->accesses[i].read);
    const BpStageInfo *info = source ? bp__analysis_find(analysis, source) : NULL;
    if (!info || info == work)
      continue;
    if (work || !is_reduction(info))
      return NULL;
    work = info;
  }
  if (!work || bp__stage_is_scheduled(work->stage) || bp__info_reduces_rows(work) ||
      !bp__info_reads_in_place(analysis, output, work->stage->tensor))
    return NULL;
  return bp__info_has_other_readers(analysis, output, work->stage->tensor) ? NULL : work;
}

static bool is_tiled(const BpStageInfo *info) {
  return is_reduction(info) && is_for_itself(info->stage) && !info->stage->is_statements &&
         !bp__stage_is_scheduled(info->stage) && !bp__info_reduces_rows(info);
}

static int schedule_all(const BpAnalysis *analysis, const BpTeTensor *tensor,
                        const BpMachine *machine) {
  const BpStageInfo *output = bp__analysis_find(analysis, tensor);
  bool are_rows = false;
  if (bp__schedule_rows(analysis, output, machine, &are_rows) != 0)
    return -1;
  if (are_rows)
    return 0;
  int64_t scale[BP_TE_MAX_NDIM];
  const BpStageInfo *work = bp__find_tiled_work(analysis, output), *pool = work ? work : output;
  const BpStageInfo *pooled = bp__find_pooled_work(analysis, pool, machine, scale);
  if (pooled && bp__schedule_pooled(pooled, pool, output, scale, machine) != 0)
    return -1;
  if (pooled)
    work = NULL;
  else if (!work && is_tiled(output))
    work = output; /* before its producers, which it may compute in its tiles */
  if (work && schedule_work(work, output, machine) != 0)
    return -1;
  /* The output in which the work was placed keeps its loops, even if no axis was tiled. */
  for (int32_t i = 0; i < analysis->num_stages; i++)
    if (!(work && &analysis->stages[i] == output) &&
        schedule_stage(&analysis->stages[i], machine) != 0)
      return -1;
  return 0;
}

int bp_schedule_auto(BpTe *te, BpTeTensor *const *outputs, int32_t num_outputs,
                     const BpTarget *target) {
  if (!BP_NOT_NULL(te) || !BP_IS_LIST(outputs, num_outputs))
    return -1;
  if (num_outputs < 1)
    return bp_error_raise(BP_ERROR_VALUE, "scheduling takes at least one output");
  for (int32_t i = 0; i < num_outputs; i++)
    if (!bp_te_stage(te, outputs[i]))
      return -1;
  const BpTeTensor *last = outputs[num_outputs - 1];
  BpMachine machine = bp__machine(target);
  BpAnalysis analysis;
  int rc = machine.has_kernels ? bp__inline_for_kernels(te, outputs, num_outputs)
                               : bp__inline_stages(te, outputs, num_outputs);
  if (rc == 0 && machine.threads == 1)
    rc = bp__convert_operands(te, outputs, num_outputs);
  if (rc == 0 && !machine.has_kernels)
    rc = bp__hoist_operands(te);
  if (rc != 0 || bp__analysis_init(&analysis, te, outputs, num_outputs) != 0)
    return -1;
  if (bp__schedule_scans(&analysis, &machine) != 0)
    rc = -1;
  else
    rc = machine.threads > 1 ? bp__schedule_threads(&analysis, last, &machine)
                             : schedule_all(&analysis, last, &machine);
  bp__analysis_clear(&analysis);
  return rc;
}
