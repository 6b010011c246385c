/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor expressions: placeholders, computed tensors, reads and reductions. */

#include "compiler/ir/types.h"
#include "compiler/te/te_private.h"

#include <backplane/object.h>

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct BpTeChunk {
  struct BpTeChunk *next;
  alignas(max_align_t) char data[];
} BpTeChunk;

/* ---- Memory ------------------------------------------------------------------------------ */

BpTe *bp_te_create(void) {
  BpTe *te = calloc(1, sizeof *te);
  if (!te) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for tensor expressions");
    return NULL;
  }
  te->ir = bp_ir_module_create();
  if (!te->ir) {
    free(te);
    return NULL;
  }
  return te;
}

void bp_te_free(BpTe *te) {
  if (!te)
    return;
  for (BpTeChunk *chunk = te->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  bp_object_release(te->ir);
  free(te);
}

BpIrModule *bp_te_ir(BpTe *te) {
  return te->ir;
}

void *bp__te_alloc(BpTe *te, size_t size) {
  BpTeChunk *chunk = calloc(1, sizeof *chunk + size);
  if (!chunk) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for tensor expressions (%zu bytes)", size);
    return NULL;
  }
  chunk->next = te->chunks;
  te->chunks = chunk;
  return chunk->data;
}

const char *bp__te_strdup(BpTe *te, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = bp__te_alloc(te, size);
  return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static int check_dtype(const char *name, BpDataType dtype) {
  char text[32];
  if (bp__dtype_is_number(dtype) && dtype.lanes == 1)
    return 0;
  bp_dtype_format(dtype, text);
  return bp_error_raise(BP_ERROR_TYPE,
                        "tensor %s has elements of %s; possible are bool, integers of 8 to 64 "
                        "bits, bfloat16, and floats of 16, 32 and 64",
                        name, text);
}

static int check_shape(const char *name, const int64_t *shape, int32_t ndim) {
  if (ndim < 0 || ndim > BP_TE_MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "tensor %s has %d dimensions; 0 to %d are possible", name,
                          ndim, BP_TE_MAX_NDIM);
  int64_t elements = 1;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE, "dimension %d of tensor %s is negative (%lld)", i, name,
                            (long long)shape[i]);
    if (__builtin_mul_overflow(elements, shape[i], &elements) || elements > INT64_MAX / 16)
      return bp_error_raise(BP_ERROR_VALUE, "tensor %s has too many elements", name);
  }
  return 0;
}

static const BpIrNode *make_buffer(BpTe *te, const char *name, BpDataType dtype,
                                   const int64_t *shape, int32_t ndim) {
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  for (int32_t i = 0; i < ndim; i++)
    extents[i] = bp__ir_int64(te->ir, shape[i]);
  return bp_ir_buffer(te->ir, name, dtype, BP_IR_SCOPE_GLOBAL, extents, ndim);
}

static BpTeTensor *add_tensor(BpTe *te, const char *name, BpDataType dtype, const int64_t *shape,
                              int32_t ndim) {
  if (check_dtype(name, dtype) != 0 || check_shape(name, shape, ndim) != 0)
    return NULL;
  BpTeTensor *tensor = bp__te_alloc(te, sizeof *tensor);
  if (!tensor)
    return NULL;
  tensor->te = te;
  tensor->dtype = dtype;
  tensor->ndim = ndim;
  for (int32_t i = 0; i < ndim; i++)
    tensor->shape[i] = shape[i];
  tensor->name = bp__te_strdup(te, name);
  tensor->buffer = make_buffer(te, name, dtype, shape, ndim);
  if (!tensor->name || !tensor->buffer)
    return NULL;
  if (te->last_tensor)
    te->last_tensor->next = tensor;
  else
    te->tensors = tensor;
  te->last_tensor = tensor;
  return tensor;
}

BpTeTensor *bp_te_placeholder(BpTe *te, const char *name, BpDataType dtype, const int64_t *shape,
                              int32_t ndim) {
  return add_tensor(te, name, dtype, shape, ndim);
}

int32_t bp_te_tensor_ndim(const BpTeTensor *tensor) {
  return tensor->ndim;
}

const int64_t *bp_te_tensor_shape(const BpTeTensor *tensor) {
  return tensor->shape;
}

BpDataType bp_te_tensor_dtype(const BpTeTensor *tensor) {
  return tensor->dtype;
}

BpTeTensor *bp__te_tensor_of(const BpTe *te, const BpIrNode *buffer) {
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next)
    if (tensor->buffer == buffer)
      return tensor;
  return NULL;
}

/* ---- Stages and axes --------------------------------------------------------------------- */

BpTeAxis *bp__te_new_axis(BpTeStage *stage, const char *name, int64_t extent, int is_reduce,
                          const BpIrNode *var) {
  if (stage->num_axes == BP__TE_MAX_AXES) {
    bp_error_raise(BP_ERROR_VALUE, "the stage of %s has more than %d axes", stage->tensor->name,
                   BP__TE_MAX_AXES);
    return NULL;
  }
  BpTeAxis *axis = bp__te_alloc(stage->te, sizeof *axis);
  if (!axis || !(axis->name = bp__te_strdup(stage->te, name)))
    return NULL;
  axis->stage = stage;
  axis->var = var;
  axis->extent = extent;
  axis->dimension = -1;
  axis->is_reduce = is_reduce;
  axis->for_kind = BP_IR_FOR_SERIAL;
  axis->thread_axis = "";
  axis->index = stage->num_axes;
  stage->axes[stage->num_axes++] = axis;
  return axis;
}

void bp__te_reset_leaves(BpTeStage *stage) {
  int32_t roots = stage->tensor->ndim + stage->num_reduce_axes;
  for (int32_t i = 0; i < roots; i++) {
    stage->leaves[i] = stage->axes[i];
    stage->axes[i]->used_by = NULL;
  }
  stage->num_axes = stage->num_leaves = roots;
}

int bp__te_make_vars(BpTe *te, int32_t count, const BpIrNode **vars) {
  for (int32_t i = 0; i < count; i++) {
    char name[16];
    snprintf(name, sizeof name, "i%d", i);
    if (!(vars[i] = bp_ir_var(te->ir, name, bp__dtype_int64())))
      return -1;
  }
  return 0;
}

static int new_stage(BpTeTensor *tensor, const BpIrNode *const *vars) {
  BpTe *te = tensor->te;
  BpTeStage *stage = bp__te_alloc(te, sizeof *stage);
  if (!stage)
    return -1;
  stage->te = te;
  stage->tensor = tensor;
  stage->reduce_op = stage->scope = -1;
  for (int32_t i = 0; i < tensor->ndim; i++) {
    BpTeAxis *axis = bp__te_new_axis(stage, vars[i]->str_value, tensor->shape[i], 0, vars[i]);
    if (!axis)
      return -1;
    axis->dimension = i;
  }
  tensor->stage = stage;
  bp__te_reset_leaves(stage);
  return 0;
}

BpTeTensor *bp__te_new_tensor(BpTe *te, const char *name, BpDataType dtype, const int64_t *shape,
                              int32_t ndim, const BpIrNode *const *vars) {
  BpTeTensor *tensor = add_tensor(te, name, dtype, shape, ndim);
  return tensor && new_stage(tensor, vars) == 0 ? tensor : NULL;
}

/* ---- Reductions -------------------------------------------------------------------------- */

typedef struct BpTeReduceAxis {
  const BpIrNode *var;
  int64_t extent;
  struct BpTeReduceAxis *next;
} BpTeReduceAxis;

static const struct {
  const char *name, *call;
  int32_t kind;
} reductions[] = {
    [BP_TE_SUM] = {"sum", "te.sum", BP_IR_ADD},
    [BP_TE_PROD] = {"prod", "te.prod", BP_IR_MUL},
    [BP_TE_MIN] = {"min", "te.min", BP_IR_MIN},
    [BP_TE_MAX] = {"max", "te.max", BP_IR_MAX},
};
#define NUM_REDUCTIONS ((int32_t)(sizeof reductions / sizeof *reductions))

const char *bp__te_reduce_name(int32_t op) {
  return reductions[op].name;
}

int32_t bp__te_reduce_kind(int32_t op) {
  return reductions[op].kind;
}

/* The least or greatest value of an integer type, cut to int64. */
static int64_t int_limit(BpDataType dtype, int greatest) {
  if (dtype.code == BP_DTYPE_BOOL)
    return greatest;
  if (dtype.code == BP_DTYPE_UINT)
    return !greatest ? 0 : dtype.bits >= 64 ? -1 : (INT64_C(1) << dtype.bits) - 1;
  if (dtype.bits >= 64)
    return greatest ? INT64_MAX : INT64_MIN;
  return greatest ? (INT64_C(1) << (dtype.bits - 1)) - 1 : -(INT64_C(1) << (dtype.bits - 1));
}

const BpIrNode *bp__te_reduce_identity(BpIrModule *module, int32_t op, BpDataType dtype) {
  int is_float = dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
  if (op == BP_TE_SUM || op == BP_TE_PROD)
    return is_float ? bp_ir_float(module, dtype, op == BP_TE_PROD)
                    : bp_ir_int(module, dtype, op == BP_TE_PROD);
  if (is_float)
    return bp_ir_float(module, dtype, op == BP_TE_MIN ? INFINITY : -INFINITY);
  return bp_ir_int(module, dtype, int_limit(dtype, op == BP_TE_MIN));
}

const BpIrNode *bp_te_reduce_axis(BpTe *te, const char *name, int64_t extent) {
  if (extent < 0) {
    bp_error_raise(BP_ERROR_VALUE, "the extent of reduction axis %s is negative (%lld)", name,
                   (long long)extent);
    return NULL;
  }
  BpTeReduceAxis *axis = bp__te_alloc(te, sizeof *axis);
  if (!axis || !(axis->var = bp_ir_var(te->ir, name, bp__dtype_int64())))
    return NULL;
  axis->extent = extent;
  axis->next = te->reduce_axes;
  te->reduce_axes = axis;
  return axis->var;
}

static const BpTeReduceAxis *find_reduce_axis(const BpTe *te, const BpIrNode *var) {
  for (const BpTeReduceAxis *axis = te->reduce_axes; axis; axis = axis->next)
    if (axis->var == var)
      return axis;
  return NULL;
}

BpDataType bp_te_accumulator(BpDataType dtype) {
  return bp__dtype_is_half(dtype) ? bp__dtype(BP_DTYPE_FLOAT, 32, dtype.lanes) : dtype;
}

const BpIrNode *bp_te_reduce(BpTe *te, int32_t op, const BpIrNode *value,
                             const BpIrNode *const *axes, int32_t num_axes) {
  if (!value)
    return NULL;
  if (op < 0 || op >= NUM_REDUCTIONS) {
    bp_error_raise(BP_ERROR_VALUE, "%d is no reduction operator (BP_TE_SUM ...)", op);
    return NULL;
  }
  const char *wanted = bp__ir_wanted_type(reductions[op].kind, value->dtype);
  if (wanted) {
    char text[32];
    bp_dtype_format(value->dtype, text);
    bp_error_raise(BP_ERROR_TYPE, "a reduction by %s takes %s, not %s", reductions[op].name, wanted,
                   text);
    return NULL;
  }
  if (num_axes < 0 || num_axes > BP_TE_MAX_NDIM) {
    bp_error_raise(BP_ERROR_VALUE, "a reduction over %d axes; 0 to %d are possible", num_axes,
                   BP_TE_MAX_NDIM);
    return NULL;
  }
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {
      bp_ir_cast(te->ir, bp_te_accumulator(value->dtype), value)};
  if (!operands[0])
    return NULL;
  for (int32_t i = 0; i < num_axes; i++) {
    if (!axes[i])
      return NULL;
    if (!find_reduce_axis(te, axes[i])) {
      bp_error_raise(BP_ERROR_VALUE, "axis %d of a reduction is no reduction axis", i);
      return NULL;
    }
    operands[1 + i] = axes[i];
  }
  return bp_ir_make(te->ir, BP_IR_CALL, operands[0]->dtype, operands, 1 + num_axes,
                    BP_IR_CALL_INTRINSIC, 0, reductions[op].call);
}

static int32_t reduction_of(const BpIrNode *node) {
  if (node->kind == BP_IR_CALL)
    for (int32_t op = 0; op < NUM_REDUCTIONS; op++)
      if (strcmp(node->str_value, reductions[op].call) == 0)
        return op;
  return -1;
}

/* For bp__ir_visit_once, of a stage's body. */
static int check_reduction(void *context, const BpIrNode *node) {
  const BpTeStage *stage = context;
  if (reduction_of(node) < 0)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s has a reduction inside an expression; a reduction stands at the "
                        "top of a body: compute it as a tensor of its own",
                        stage->tensor->name);
}

static int check_axis(void *context, const BpIrNode *node) {
  const BpTeStage *stage = context;
  if (node->kind != BP_IR_VAR)
    return 0;
  for (int32_t i = 0; i < stage->num_axes; i++)
    if (stage->axes[i]->var == node)
      return 0;
  if (find_reduce_axis(stage->te, node))
    return bp_error_raise(BP_ERROR_VALUE,
                          "tensor %s uses reduction axis %s outside of a reduction over it",
                          stage->tensor->name, node->str_value);
  return bp_error_raise(BP_ERROR_VALUE,
                        "tensor %s uses axis %s of another tensor; an axis is known in the body "
                        "that it was given to",
                        stage->tensor->name, node->str_value);
}

int bp__te_set_body(BpTeStage *stage, const BpIrNode *body) {
  BpTe *te = stage->te;
  int32_t op = reduction_of(body);
  stage->body = body;
  if (op >= 0) {
    stage->body = body->operands[0];
    stage->reduce_op = op;
    for (int32_t i = 1; i < body->num_operands; i++) {
      const BpTeReduceAxis *source = find_reduce_axis(te, body->operands[i]);
      if (!bp__te_new_axis(stage, source->var->str_value, source->extent, 1, source->var))
        return -1;
      stage->num_reduce_axes++;
    }
  }
  if (bp__ir_visit_once(stage->body, check_reduction, stage) != 0 ||
      bp__ir_visit_once(stage->body, check_axis, stage) != 0)
    return -1;
  bp__te_reset_leaves(stage);
  return 0;
}

/* ---- Computed tensors -------------------------------------------------------------------- */

BpTeTensor *bp_te_compute(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                          BpTeBody body, void *context) {
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  if (check_shape(name, shape, ndim) != 0 || bp__te_make_vars(te, ndim, vars) != 0)
    return NULL;
  const BpIrNode *value = bp__te_widen(te->ir, body(te, vars, context));
  if (!value)
    return NULL;
  BpTeTensor *tensor = bp__te_new_tensor(te, name, value->dtype, shape, ndim, vars);
  return tensor && bp__te_set_body(tensor->stage, value) == 0 ? tensor : NULL;
}

const BpIrNode *bp_te_read(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices) {
  if (!tensor)
    return NULL;
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {tensor->buffer};
  for (int32_t i = 0; i < tensor->ndim; i++) {
    if (!indices[i])
      return NULL;
    if (!bp__dtype_is_int(indices[i]->dtype)) {
      char text[32];
      bp_dtype_format(indices[i]->dtype, text);
      bp_error_raise(BP_ERROR_TYPE, "index %d of tensor %s is of %s, and no integer", i,
                     tensor->name, text);
      return NULL;
    }
    if (!(operands[1 + i] = bp_ir_cast(te->ir, bp__dtype_int64(), indices[i])))
      return NULL;
  }
  return bp_ir_make(te->ir, BP_IR_CALL, tensor->dtype, operands, 1 + tensor->ndim,
                    BP_IR_CALL_INTRINSIC, 0, BP__TE_READ);
}

const BpIrNode *bp_te_read_if(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                              const BpIrNode *condition) {
  const BpIrNode *value = bp_te_read(te, tensor, indices);
  if (!value)
    return NULL;
  const BpIrNode *zero = value->dtype.code == BP_DTYPE_FLOAT || value->dtype.code == BP_DTYPE_BFLOAT
                             ? bp_ir_float(te->ir, value->dtype, 0)
                             : bp_ir_int(te->ir, value->dtype, 0);
  return bp_ir_select(te->ir, condition, value, zero);
}

int bp__te_is_read(const BpIrNode *node) {
  return node->kind == BP_IR_CALL && strcmp(node->str_value, BP__TE_READ) == 0;
}
