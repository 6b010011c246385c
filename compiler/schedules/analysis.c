/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a target describes, and the memory accesses of stages. */

#include "compiler/schedules/analysis.h"

#include <backplane/object.h>

BpMachine bp__machine(const BpTarget *target) {
  bool has_kernels = target && bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0) != 0;
  BpMachine machine = {
      .vector_bits = target ? bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) : 128,
      .registers = target ? bp_target_get_int(target, BP_TARGET_VECTOR_REGISTERS, 16) : 16,
      .cores =
          target ? bp_target_get_int(target, BP_TARGET_NUM_CORES, has_kernels ? 1 : BP__MOST_CORES)
                 : 1,
      .l1 = target ? bp_target_get_int(target, BP_TARGET_L1_BYTES, 32768) : 32768,
      .l2 = target ? bp_target_get_int(target, BP_TARGET_L2_BYTES, 1 << 20) : 1 << 20,
  };
  machine.lanes = machine.vector_bits < 64 ? 1 : machine.vector_bits / 32;
  machine.has_kernels = has_kernels;
  machine.threads = machine.most_threads = 1;
  if (!machine.has_kernels)
    return machine;
  machine.threads = bp_target_get_int(target, BP_TARGET_THREAD_WARP_SIZE, 1);
  machine.most_threads = bp_target_get_int(target, BP_TARGET_MAX_NUM_THREADS, 1);
  machine.shared = bp_target_get_int(target, BP_TARGET_MAX_SHARED_MEMORY, 0);
  machine.has_serial_warps = bp_target_get_int(target, BP_TARGET_SERIAL_WARPS, 0) != 0;
  return machine;
}

int64_t bp__cores_for(const BpMachine *machine, double work, double least) {
  double cores = work / least * 2;
  if (machine->cores == 1 || work < least)
    return 1;
  return cores < (double)machine->cores ? (int64_t)cores : machine->cores;
}

/* ---- Accesses ---------------------------------------------------------------------------- */

/* Finds the tensor of a BUFFER, which is a copy like all nodes of the lowering. */
static BpTeTensor *find_tensor(const BpLowering *lowering, const BpTe *te, const BpIrNode *buffer) {
  BpTeTensor *tensor = te->tensors;
  while (tensor && bp__ir_map_get(&lowering->copied, tensor->buffer) != buffer)
    tensor = tensor->next;
  return tensor;
}

/* The element index of a read in its tensor as one expression, with likely values for open
 * extents. */
static const BpIrNode *element_index(BpLowering *lowering, const BpAccess *access) {
  const BpTeTensor *tensor = access->tensor;
  const BpIrNode *index = bp__ir_int64(lowering->module, 0);
  int64_t stride = 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    const BpIrNode *part = bp_ir_binary(lowering->module, BP_IR_MUL, access->read->operands[1 + i],
                                        bp__ir_int64(lowering->module, stride));
    index = bp_ir_binary(lowering->module, BP_IR_ADD, index, part);
    stride *= tensor->shape[i];
  }
  return index;
}

/* The greatest common divisor of all constant divisors applied to the variable in the index. */
typedef struct Divisors {
  const BpIrNode *var;
  int64_t common;
} Divisors;

static int visit_division(void *context, const BpIrNode *node) {
  Divisors *divisors = context;
  int64_t divisor;
  if (!bp__ir_is_division(node) || !bp__ir_const_int(node->operands[1], &divisor) || divisor < 1)
    return 0;
  int uses = bp__ir_uses(node->operands[0], divisors->var);
  if (uses == 1)
    divisors->common = bp__greatest_divisor(divisors->common, divisor);
  return uses < 0 ? -1 : 0;
}

/* Finds the pieces of an axis in which an index is linear: the index is computed from the piece's
 * number and the position in the piece. */
static int find_piece(BpLowering *lowering, const BpIrNode *index, const BpStageInfo *info,
                      int32_t axis, BpAccess *access) {
  BpIrModule *module = lowering->module;
  const BpIrNode *var = info->s->vars[axis], *rest;
  Divisors divisors = {var, 0};
  if (bp__ir_visit_once(index, visit_division, &divisors) != 0)
    return -1;
  if (divisors.common < 2)
    return 0;
  const BpIrNode *number = bp_ir_var(module, "piece", bp__dtype_int64());
  const BpIrNode *place = bp_ir_var(module, "place", bp__dtype_int64());
  if (!number || !place ||
      bp__index_set_range(&lowering->index, number, 0, info->extent[axis] / divisors.common,
                          false) != 0 ||
      bp__index_set_range(&lowering->index, place, 0, divisors.common - 1, false) != 0)
    return -1;
  const BpIrNode *start =
      bp_ir_binary(module, BP_IR_MUL, number, bp__ir_int64(module, divisors.common));
  index = bp__ir_substitute_one(module, index, var, bp_ir_binary(module, BP_IR_ADD, start, place));
  if (!index)
    return -1;
  if (bp__index_split(&lowering->index, index, place, &access->stride[axis], &rest))
    access->piece[axis] = divisors.common;
  return 0;
}

/* Replaces a minimum or maximum by the operand that depends on the variable, and an index times a
 * comparison by the index. */
static const BpIrNode *choose_moving_side(BpIrRewriter *rewriter, const BpIrNode *node) {
  if (node->kind == BP_IR_MUL && node->operands[1]->kind == BP_IR_CAST)
    return node->operands[0];
  if (node->kind != BP_IR_MIN && node->kind != BP_IR_MAX)
    return node;
  int uses = bp__ir_uses(node->operands[0], rewriter->context);
  return uses < 0 ? NULL : node->operands[!uses];
}

static int find_clamped_stride(BpLowering *lowering, const BpIrNode *index, const BpIrNode *var,
                               int64_t *stride) {
  BpIrRewriter rewriter = {
      .module = lowering->module, .context = (void *)var, .leave = choose_moving_side};
  const BpIrNode *moving = bp__ir_rewrite(&rewriter, index), *rest;
  bp__ir_rewriter_clear(&rewriter);
  if (moving && !bp__index_split(&lowering->index, moving, var, stride, &rest))
    *stride = 0;
  return moving ? 0 : -1;
}

/* Whether an axis moves an index of a tensor before a dimension of open extent: 1, 0, or -1 with an
 * error. */
static int moves_by_open(const BpAccess *access, const BpIrNode *var) {
  bool is_open = false;
  for (int32_t d = access->tensor->ndim - 1; d >= 0; d--) {
    int uses = is_open ? bp__ir_uses(access->read->operands[1 + d], var) : 0;
    if (uses != 0)
      return uses;
    is_open |= access->tensor->buffer->operands[d]->kind != BP_IR_INT_IMM;
  }
  return 0;
}

static int analyse_access(BpLowering *lowering, const BpStageInfo *info, BpAccess *access) {
  const BpIrNode *index = element_index(lowering, access), *rest;
  if (!index)
    return -1;
  for (int32_t i = 0; i < info->num_roots; i++) {
    int moves = moves_by_open(access, info->s->vars[i]);
    if (moves < 0)
      return -1;
    access->has_open_stride[i] = moves;
    access->is_linear[i] =
        bp__index_split(&lowering->index, index, info->s->vars[i], &access->stride[i], &rest);
    if (!access->is_linear[i] &&
        (find_piece(lowering, index, info, i, access) != 0 ||
         find_clamped_stride(lowering, index, info->s->vars[i], &access->clamped_stride[i]) != 0))
      return -1;
  }
  return 0;
}

static int analyse_stage(BpLowering *lowering, const BpLowerStage *s, BpStageInfo *info) {
  info->s = s;
  info->stage = s->stage;
  info->ndim = s->stage->ndim;
  info->num_roots = info->ndim + s->stage->num_reduce_axes;
  for (int32_t i = 0; i < info->num_roots; i++) {
    int64_t extent = info->extent[i] = s->stage->axes[i]->extent;
    if (bp__index_set_range(&lowering->index, s->vars[i], 0, extent > 0 ? extent - 1 : 0, false))
      return -1;
  }
  info->num_accesses = s->num_reads;
  size_t size = (size_t)(s->num_reads + 1) * sizeof *info->accesses;
  info->accesses = bp__ir_alloc(lowering->module, size);
  if (!info->accesses)
    return -1;
  memset(info->accesses, 0, size);
  for (int32_t i = 0; i < s->num_reads; i++) {
    info->accesses[i].read = s->reads[i];
    info->accesses[i].tensor = find_tensor(lowering, s->stage->te, s->reads[i]->operands[0]);
    if (analyse_access(lowering, info, &info->accesses[i]) != 0)
      return -1;
  }
  return bp__info_set_bits(info);
}

/* ---- Analyses ---------------------------------------------------------------------------- */

/* The placeholders and the outputs, as arguments for lowering. */
static BpTeTensor **collect_args(BpIrModule *module, BpTe *te, BpTeTensor *const *outputs,
                                 int32_t num_outputs, int32_t *count) {
  int32_t total = num_outputs;
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next)
    total += !tensor->stage;
  BpTeTensor **args = bp__ir_alloc(module, (size_t)total * sizeof *args);
  if (!args)
    return NULL;
  *count = 0;
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next)
    if (!tensor->stage)
      args[(*count)++] = tensor;
  for (int32_t i = 0; i < num_outputs; i++)
    args[(*count)++] = outputs[i];
  return args;
}

static int analyse(BpAnalysis *analysis, BpTeTensor *const *outputs, int32_t num_outputs) {
  BpLowering *lowering = &analysis->lowering;
  BpTeTensor **args =
      collect_args(lowering->module, lowering->te, outputs, num_outputs, &lowering->num_args);
  lowering->args = args;
  if (!args || bp__lower_normalize(lowering) != 0)
    return -1;
  analysis->num_stages = lowering->num_stages;
  size_t size = (size_t)(lowering->num_stages + 1) * sizeof *analysis->stages;
  analysis->stages = bp__ir_alloc(lowering->module, size);
  if (!analysis->stages)
    return -1;
  memset(analysis->stages, 0, size);
  for (int32_t i = 0; i < lowering->num_stages; i++) {
    analysis->stages[i].analysis = analysis;
    if (analyse_stage(lowering, &lowering->stages[i], &analysis->stages[i]) != 0)
      return -1;
  }
  return 0;
}

int bp__analysis_init(BpAnalysis *analysis, BpTe *te, BpTeTensor *const *outputs,
                      int32_t num_outputs) {
  memset(analysis, 0, sizeof *analysis);
  BpIrModule *module = bp_ir_module_create();
  if (!module)
    return -1;
  analysis->lowering.te = te;
  analysis->lowering.module = analysis->lowering.index.module = module;
  analysis->lowering.name = outputs[0]->name;
  if (analyse(analysis, outputs, num_outputs) == 0)
    return 0;
  bp__analysis_clear(analysis);
  return -1;
}

void bp__analysis_clear(BpAnalysis *analysis) {
  bp__ir_map_clear(&analysis->lowering.copied);
  bp__ir_map_clear(&analysis->lowering.by_buffer);
  bp__index_clear(&analysis->lowering.index);
  bp_object_release(analysis->lowering.module);
  memset(analysis, 0, sizeof *analysis);
}

const BpStageInfo *bp__analysis_find(const BpAnalysis *analysis, const BpTeTensor *tensor) {
  for (int32_t i = 0; i < analysis->num_stages; i++)
    if (analysis->stages[i].stage == tensor->stage)
      return &analysis->stages[i];
  return NULL;
}

const BpTeTensor *bp__analysis_source(const BpAnalysis *analysis, const BpIrNode *read) {
  const BpLowerTensor *t = bp__lower_tensor_of(&analysis->lowering, read->operands[0]);
  return t ? t->tensor : NULL;
}

double bp__info_size(const BpStageInfo *info, int32_t first, int32_t end) {
  double size = 1;
  for (int32_t i = first; i < end; i++)
    size *= (double)info->extent[i];
  return size;
}

bool bp__info_is_open(const BpStageInfo *info, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++)
    if (info->stage->axes[i]->open)
      return true;
  return false;
}

double bp__tensor_bytes(const BpTeTensor *tensor) {
  double bytes = (double)tensor->dtype.bits / 8;
  for (int32_t i = 0; i < tensor->ndim; i++)
    bytes *= (double)tensor->shape[i];
  return bytes;
}

bool bp__stage_is_scheduled(const BpTeStage *stage) {
  if (stage->is_inlined || stage->attach_stage)
    return true;
  for (int32_t i = 0; i < stage->num_axes; i++)
    if (stage->axes[i]->used_by || stage->axes[i]->for_kind != BP_IR_FOR_SERIAL)
      return true;
  return false;
}

bool bp__info_reads_in_place(const BpAnalysis *analysis, const BpStageInfo *consumer,
                             const BpTeTensor *producer) {
  if (consumer->ndim != producer->ndim)
    return false;
  for (int32_t i = 0; i < consumer->num_accesses; i++) {
    const BpIrNode *read = consumer->accesses[i].read;
    if (bp__analysis_source(analysis, read) != producer)
      continue;
    for (int32_t d = 0; d < consumer->ndim; d++)
      if (read->operands[1 + d] != consumer->s->vars[d] &&
          !(consumer->extent[d] == 1 && producer->shape[d] == 1))
        return false;
  }
  return true;
}

bool bp__access_depends_on(const BpAccess *access, int32_t axis) {
  return !access->is_linear[axis] || access->stride[axis] != 0;
}

bool bp__info_has_other_readers(const BpAnalysis *analysis, const BpStageInfo *reader,
                                const BpTeTensor *tensor) {
  const BpStageInfo *info = bp__analysis_find(analysis, tensor);
  if (info && bp__lower_is_output(info->s))
    return true;
  for (int32_t i = 0; i < analysis->num_stages; i++)
    for (int32_t j = 0; j < analysis->stages[i].num_accesses; j++) {
      const BpTeTensor *read = bp__analysis_source(analysis, analysis->stages[i].accesses[j].read);
      if (&analysis->stages[i] != reader && read && read->stage == tensor->stage)
        return true;
    }
  return false;
}

const BpStageInfo *bp__info_own_input(const BpStageInfo *reader, const BpAccess *access) {
  const BpTeTensor *source = bp__analysis_source(reader->analysis, access->read);
  const BpStageInfo *info = source ? bp__analysis_find(reader->analysis, source) : NULL;
  bool is_own = info && bp__te_is_pointwise(info->stage) && !bp__stage_is_scheduled(info->stage) &&
                !bp__info_has_other_readers(reader->analysis, reader, source);
  return is_own ? info : NULL;
}

/* The number of multiply-adds for each element of an input from which on it is comparatively cheap
 * to compute the input again for every row. */
#define PLACED_INTENSITY 64.0

bool bp__info_input_is_cheap(const BpStageInfo *reader, const BpStageInfo *input) {
  return bp__info_size(reader, 0, reader->num_roots) >=
         PLACED_INTENSITY * bp__info_size(input, 0, input->ndim);
}
