/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that statements compute: sorting, scattering, and other computations that are not one
 * expression for each element. */

#include "compiler/ir/argument.h"
#include "compiler/te/te_private.h"

#include <backplane/object.h>

const BpIrNode *bp_te_write(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                            const BpIrNode *value) {
  if (!BP_NOT_NULL(te) || !BP_OPERAND(tensor) || !BP_OPERAND(value) ||
      !BP_IS_LIST(indices, tensor->ndim))
    return NULL;
  const BpIrNode *operands[2 + BP_TE_MAX_NDIM] = {tensor->buffer, value};
  if (!bp__dtype_equal(value->dtype, tensor->dtype)) {
    char have[32], want[32];
    bp_dtype_format(value->dtype, have, sizeof have);
    bp_dtype_format(tensor->dtype, want, sizeof want);
    bp_error_raise(BP_ERROR_TYPE, "tensor %s is of %s, and a value of %s is written to it",
                   tensor->name, want, have);
    return NULL;
  }
  if (bp__te_convert_indices(te, tensor, indices, operands + 2) != 0)
    return NULL;
  const BpIrNode *call = bp_ir_make(te->ir, BP_IR_CALL, tensor->dtype, operands, 2 + tensor->ndim,
                                    BP_IR_CALL_INTRINSIC, 0, BP__TE_WRITE);
  return call ? bp__ir_evaluate(te->ir, call) : NULL;
}

/* ---- Checks ------------------------------------------------------------------------------ */

/* The variables and buffers that a body may use. */
typedef struct Scope {
  const BpTeStage *stage;
  BpIrMap bound; /* VARs and BUFFERs that FOR, LET and ALLOCATE bind */
} Scope;

static int visit_binding(void *context, const BpIrNode *node) {
  Scope *scope = context;
  if (node->kind == BP_IR_FOR || node->kind == BP_IR_LET || node->kind == BP_IR_ALLOCATE)
    return bp__ir_map_set(&scope->bound, node->operands[0], node);
  return 0;
}

static bool is_row(const BpTeStage *stage, const BpIrNode *var) {
  for (int32_t i = 0; i < stage->num_axes; i++)
    if (stage->axes[i]->var == var)
      return true;
  return false;
}

static int visit_use(void *context, const BpIrNode *node) {
  const Scope *scope = context;
  const BpTeStage *stage = scope->stage;
  if (node->kind == BP_IR_VAR && !is_row(stage, node) && !bp__ir_map_get(&scope->bound, node) &&
      !bp__te_find_open_extent(stage->te, node))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the statements of tensor %s use variable %s, which is neither one of "
                          "their rows nor bound by them",
                          stage->tensor->name, node->str_value);
  if (node->kind != BP_IR_EVALUATE || strcmp(node->operands[0]->str_value, BP__TE_WRITE) != 0)
    return 0;
  const BpTeTensor *written = bp__te_tensor_of(stage->te, node->operands[0]->operands[0]);
  if (written && written->stage == stage)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "the statements of tensor %s write to %s, a tensor of another computation",
                        stage->tensor->name, written ? written->name : "a buffer");
}

static int check_statements(const BpTeStage *stage) {
  Scope scope = {.stage = stage};
  int rc = bp__ir_visit_once(stage->body, visit_binding, &scope);
  if (rc == 0)
    rc = bp__ir_visit_once(stage->body, visit_use, &scope);
  bp__ir_map_clear(&scope.bound);
  return rc;
}

/* ---- Making ------------------------------------------------------------------------------ */

/* The tensors and shapes of a computation by statements. */
typedef struct Computation {
  const char *name;
  BpTeShape rows;
  BpTeShape shapes[BP_TE_MAX_VALUES];
  BpDataType dtypes[BP_TE_MAX_VALUES];
  int32_t num_results;
} Computation;

static BpTeStage *new_stage(BpTe *te, const Computation *computation) {
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  const BpTeShape *rows = &computation->rows;
  if (bp__te_check_shape(computation->name, rows->extents, rows->ndim) != 0 ||
      bp__te_make_vars(te, rows->ndim, vars) != 0)
    return NULL;
  BpTeStage *stage = bp__te_new_bare_stage(te, computation->num_results, *rows, vars);
  for (int32_t i = 0; stage && i < computation->num_results; i++)
    if (bp__te_add_output(stage, i, computation->name, computation->dtypes[i],
                          computation->shapes[i]) != 0)
      return NULL;
  if (stage)
    stage->is_statements = 1;
  return stage;
}

static int compute(BpTe *te, const Computation *computation, BpTeStatements body, void *context,
                   BpTeTensor **tensors) {
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  BpTeStage *stage = new_stage(te, computation);
  BpIrBlock *block = stage ? bp_ir_block_begin(te->ir) : NULL;
  if (!block)
    return -1;
  for (int32_t i = 0; i < computation->rows.ndim; i++)
    vars[i] = stage->axes[i]->var;
  int rc = body(te, block, vars, stage->tensors, context);
  const BpIrNode *statements = bp_ir_block_end(block);
  if (rc != 0 || !(stage->body = bp__te_widen(te->ir, statements)) || check_statements(stage) != 0)
    return -1;
  if (te->open_scan)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "tensor %s is computed by statements in the steps of scan %s",
                          stage->tensor->name, te->open_scan->name);
  memcpy(tensors, stage->tensors, (size_t)computation->num_results * sizeof *tensors);
  return 0;
}

int bp_te_statements(BpTe *te, const char *name, const int64_t *rows, int32_t num_rows,
                     const BpTeResult *results, int32_t num_results, BpTeStatements body,
                     void *context, BpTeTensor **tensors) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(body) || !BP_NOT_NULL(tensors) ||
      !BP_IS_LIST(rows, num_rows) || !BP_IS_LIST(results, num_results))
    return -1;
  Computation computation = {name, {rows, NULL, num_rows}, .num_results = num_results};
  if (bp__te_check_count(name, num_results) != 0)
    return -1;
  for (int32_t i = 0; i < num_results; i++) {
    computation.shapes[i] = (BpTeShape){results[i].shape, NULL, results[i].ndim};
    computation.dtypes[i] = results[i].dtype;
  }
  return compute(te, &computation, body, context, tensors);
}

int bp_te_statements_open(BpTe *te, const char *name, const BpIrNode *const *rows, int32_t num_rows,
                          const BpTeOpenResult *results, int32_t num_results, BpTeStatements body,
                          void *context, BpTeTensor **tensors) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(body) || !BP_NOT_NULL(tensors) ||
      !BP_IS_LIST(rows, num_rows) || !BP_IS_LIST(results, num_results))
    return -1;
  int64_t likely[BP_TE_MAX_VALUES + 1][BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_VALUES + 1][BP_TE_MAX_NDIM];
  Computation computation = {name, {likely[0], open[0], num_rows}, .num_results = num_results};
  if (bp__te_check_count(name, num_results) != 0 ||
      bp__te_read_extents(te, name, rows, num_rows, likely[0], open[0]) != 0)
    return -1;
  for (int32_t i = 0; i < num_results; i++) {
    if (bp__te_read_extents(te, name, results[i].extents, results[i].ndim, likely[i + 1],
                            open[i + 1]) != 0)
      return -1;
    computation.shapes[i] = (BpTeShape){likely[i + 1], open[i + 1], results[i].ndim};
    computation.dtypes[i] = results[i].dtype;
  }
  return compute(te, &computation, body, context, tensors);
}
