/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor expressions: placeholders, computed tensors, reads and reductions. */

#include "compiler/ir/argument.h"
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
  if (!BP_NOT_NULL(te))
    return NULL;
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

/* ---- Open extents ------------------------------------------------------------------------ */

const BpIrNode *bp_te_open_extent(BpTe *te, const char *name, int64_t likely, int64_t greatest) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name))
    return NULL;
  if (likely < 0 || greatest < likely || greatest > INT32_MAX) {
    bp_error_raise(BP_ERROR_VALUE,
                   "open extent %s is likely %lld and at most %lld; wanted is 0 <= likely <= "
                   "greatest <= %d",
                   name, (long long)likely, (long long)greatest, INT32_MAX);
    return NULL;
  }
  BpTeOpenExtent *extent = bp__te_alloc(te, sizeof *extent);
  if (!extent || !(extent->var = bp_ir_var(te->ir, name, bp__dtype_int64())))
    return NULL;
  extent->likely = likely;
  extent->greatest = greatest;
  if (te->last_open_extent)
    te->last_open_extent->next = extent;
  else
    te->open_extents = extent;
  te->last_open_extent = extent;
  return extent->var;
}

const BpTeOpenExtent *bp__te_find_open_extent(const BpTe *te, const BpIrNode *var) {
  const BpTeOpenExtent *extent = te->open_extents;
  while (extent && extent->var != var)
    extent = extent->next;
  return extent;
}

/* The value of an extent, with likely values for open extents; -1 with an error if the extent
 * depends on anything else. */
static int likely_extent(BpTe *te, const char *name, const BpIrNode *extent, int64_t *likely) {
  BpIrMap map = {0};
  int failed = 0;
  for (const BpTeOpenExtent *open = te->open_extents; open && !failed; open = open->next) {
    const BpIrNode *value = bp__ir_int64(te->ir, open->likely);
    failed = value ? bp__ir_map_set(&map, open->var, value) : -1;
  }
  const BpIrNode *value = failed ? NULL : bp__ir_substitute(te->ir, extent, &map);
  bp__ir_map_clear(&map);
  if (!value)
    return -1;
  if (bp__dtype_equal(value->dtype, bp__dtype_int64()) && bp__ir_const_int(value, likely))
    return 0;
  char text[64];
  return bp_error_raise(
      BP_ERROR_VALUE,
      "%s has the extent %s, which is not an int64 expression of constants and open "
      "extents",
      name, bp__ir_print_short(extent, text, sizeof text));
}

/* Sets *open to an extent that is open, else to NULL. */
static int read_extent(BpTe *te, const char *name, const BpIrNode *extent, int64_t *likely,
                       const BpIrNode **open) {
  if (!BP_OPERAND(extent) || likely_extent(te, name, extent, likely) != 0)
    return -1;
  *open = extent->kind == BP_IR_INT_IMM ? NULL : extent;
  /* The likely values of two extents may contradict each other: a signal may be shorter than a
   * frame. */
  if (*open && *likely < 0)
    *likely = 1;
  return 0;
}

int bp__te_read_extents(BpTe *te, const char *name, const BpIrNode *const *extents, int32_t ndim,
                        int64_t *likely, const BpIrNode **open) {
  for (int32_t i = 0; i < ndim && i < BP_TE_MAX_NDIM; i++)
    if (read_extent(te, name, extents[i], &likely[i], &open[i]) != 0)
      return -1;
  return 0;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static int check_dtype(const char *name, BpDataType dtype) {
  char text[32];
  if (bp__dtype_is_number(dtype) && dtype.lanes == 1)
    return 0;
  bp_dtype_format(dtype, text, sizeof text);
  return bp_error_raise(BP_ERROR_TYPE,
                        "tensor %s has elements of %s; possible are bool, integers of 8 to 64 "
                        "bits, bfloat16, and floats of 16, 32 and 64",
                        name, text);
}

int bp__te_check_shape(const char *name, const int64_t *shape, int32_t ndim) {
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

int bp__te_check_count(const char *what, int32_t count) {
  if (count >= 1 && count <= BP_TE_MAX_VALUES)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "%s has %d values; 1 to %d are possible", what, count,
                        BP_TE_MAX_VALUES);
}

static const BpIrNode *open_of(BpTeShape shape, int32_t dimension) {
  return shape.open ? shape.open[dimension] : NULL;
}

static const BpIrNode *make_buffer(BpTe *te, const char *name, BpDataType dtype, BpTeShape shape) {
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  for (int32_t i = 0; i < shape.ndim; i++)
    extents[i] = open_of(shape, i) ? open_of(shape, i) : bp__ir_int64(te->ir, shape.extents[i]);
  return bp_ir_buffer(te->ir, name, dtype, BP_IR_SCOPE_GLOBAL, extents, shape.ndim);
}

BpTeTensor *bp__te_add_tensor(BpTe *te, const char *name, BpDataType dtype, BpTeShape shape) {
  if (check_dtype(name, dtype) != 0 || bp__te_check_shape(name, shape.extents, shape.ndim) != 0)
    return NULL;
  BpTeTensor *tensor = bp__te_alloc(te, sizeof *tensor);
  if (!tensor)
    return NULL;
  tensor->te = te;
  tensor->skipped = -1;
  tensor->dtype = dtype;
  tensor->ndim = shape.ndim;
  for (int32_t i = 0; i < shape.ndim; i++) {
    tensor->shape[i] = shape.extents[i];
    tensor->open[i] = open_of(shape, i);
  }
  tensor->name = bp__te_strdup(te, name);
  tensor->buffer = make_buffer(te, name, dtype, shape);
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
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_IS_LIST(shape, ndim))
    return NULL;
  return bp__te_add_tensor(te, name, dtype, (BpTeShape){shape, NULL, ndim});
}

BpTeTensor *bp_te_placeholder_open(BpTe *te, const char *name, BpDataType dtype,
                                   const BpIrNode *const *extents, int32_t ndim) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_IS_LIST(extents, ndim))
    return NULL;
  int64_t likely[BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_NDIM];
  if (bp__te_read_extents(te, name, extents, ndim, likely, open) != 0)
    return NULL;
  return bp__te_add_tensor(te, name, dtype, (BpTeShape){likely, open, ndim});
}

const BpIrNode *bp_te_tensor_extent(const BpTeTensor *tensor, int32_t dimension) {
  if (!BP_OPERAND(tensor))
    return NULL;
  if (dimension < 0 || dimension >= tensor->ndim) {
    bp_error_raise(BP_ERROR_INDEX, "dimension %d of tensor %s, which has %d", dimension,
                   tensor->name, tensor->ndim);
    return NULL;
  }
  return tensor->buffer->operands[dimension];
}

int32_t bp_te_tensor_ndim(const BpTeTensor *tensor) {
  return tensor ? tensor->ndim : 0;
}

const int64_t *bp_te_tensor_shape(const BpTeTensor *tensor) {
  return tensor ? tensor->shape : NULL;
}

double bp__te_iterations(const BpTeStage *stage) {
  double count = 1;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes; i++)
    count *= (double)stage->axes[i]->extent;
  return count;
}

double bp_te_work(const BpTe *te) {
  double work = 0;
  for (const BpTeTensor *tensor = te ? te->tensors : NULL; tensor; tensor = tensor->next)
    if (bp__te_is_first(tensor))
      work += tensor->stage->is_statements ? INFINITY : bp__te_iterations(tensor->stage);
  return work;
}

BpDataType bp_te_tensor_dtype(const BpTeTensor *tensor) {
  return tensor ? tensor->dtype : bp__dtype_void();
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
    bp_error_raise(BP_ERROR_VALUE, "tensor %s has more than %d axes", stage->tensor->name,
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
  int32_t roots = stage->ndim + stage->num_reduce_axes;
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

BpTeStage *bp__te_new_bare_stage(BpTe *te, int32_t num_tensors, BpTeShape shape,
                                 const BpIrNode *const *vars) {
  BpTeStage *stage = bp__te_alloc(te, sizeof *stage);
  if (!stage || !(stage->tensors = bp__te_alloc(te, (size_t)num_tensors * sizeof *stage->tensors)))
    return NULL;
  stage->te = te;
  stage->ndim = shape.ndim;
  stage->num_tensors = stage->num_values = num_tensors;
  stage->reduce_op = stage->scope = -1;
  for (int32_t i = 0; i < shape.ndim; i++) {
    BpTeAxis *axis = bp__te_new_axis(stage, vars[i]->str_value, shape.extents[i], 0, vars[i]);
    if (!axis)
      return NULL;
    axis->dimension = i;
    axis->open = open_of(shape, i);
  }
  bp__te_reset_leaves(stage);
  return stage;
}

int bp__te_add_output(BpTeStage *stage, int32_t index, const char *name, BpDataType dtype,
                      BpTeShape shape) {
  char text[128];
  if (stage->num_tensors > 1)
    snprintf(text, sizeof text, "%.100s.%d", name, index);
  else
    snprintf(text, sizeof text, "%.120s", name);
  BpTeTensor *tensor = bp__te_add_tensor(stage->te, text, dtype, shape);
  if (!tensor)
    return -1;
  tensor->stage = stage;
  stage->tensors[index] = tensor;
  stage->tensor = stage->tensors[0];
  return 0;
}

BpTeStage *bp__te_new_stage(BpTe *te, const char *name, const BpDataType *dtypes,
                            int32_t num_tensors, BpTeShape shape, const BpIrNode *const *vars) {
  BpTeStage *stage = bp__te_new_bare_stage(te, num_tensors, shape, vars);
  for (int32_t i = 0; stage && i < num_tensors; i++)
    if (bp__te_add_output(stage, i, name, dtypes[i], shape) != 0)
      return NULL;
  return stage;
}

/* ---- Reductions -------------------------------------------------------------------------- */

typedef struct BpTeReduceAxis {
  const BpIrNode *var;
  int64_t extent;
  const BpIrNode *open; /* like BpTeAxis.open */
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

/* The least or greatest value of an integer type, clamped to int64. */
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

static const BpIrNode *add_reduce_axis(BpTe *te, const char *name, int64_t extent,
                                       const BpIrNode *open) {
  if (extent < 0) {
    bp_error_raise(BP_ERROR_VALUE, "the extent of reduction axis %s is negative (%lld)", name,
                   (long long)extent);
    return NULL;
  }
  BpTeReduceAxis *axis = bp__te_alloc(te, sizeof *axis);
  if (!axis || !(axis->var = bp_ir_var(te->ir, name, bp__dtype_int64())))
    return NULL;
  axis->extent = extent;
  axis->open = open;
  axis->next = te->reduce_axes;
  te->reduce_axes = axis;
  return axis->var;
}

const BpIrNode *bp_te_reduce_axis(BpTe *te, const char *name, int64_t extent) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name))
    return NULL;
  return add_reduce_axis(te, name, extent, NULL);
}

const BpIrNode *bp_te_reduce_axis_open(BpTe *te, const char *name, const BpIrNode *extent) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name))
    return NULL;
  int64_t likely;
  const BpIrNode *open;
  return read_extent(te, name, extent, &likely, &open) == 0
             ? add_reduce_axis(te, name, likely, open)
             : NULL;
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

/* Adds the axes of a reduction as its last operands. */
static int add_reduce_axes(const BpTe *te, const BpIrNode *const *axes, int32_t num_axes,
                           const BpIrNode **operands) {
  if (num_axes < 0 || num_axes > BP_TE_MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "a reduction over %d axes; 0 to %d are possible",
                          num_axes, BP_TE_MAX_NDIM);
  for (int32_t i = 0; i < num_axes; i++) {
    if (!BP_OPERAND(axes[i]))
      return -1;
    if (!find_reduce_axis(te, axes[i]))
      return bp_error_raise(BP_ERROR_VALUE, "axis %d of a reduction is no reduction axis", i);
    operands[i] = axes[i];
  }
  return 0;
}

const BpIrNode *bp_te_reduce(BpTe *te, int32_t op, const BpIrNode *value,
                             const BpIrNode *const *axes, int32_t num_axes) {
  if (!BP_NOT_NULL(te) || !BP_OPERAND(value) || !BP_IS_LIST(axes, num_axes))
    return NULL;
  if (op < 0 || op >= NUM_REDUCTIONS) {
    bp_error_raise(BP_ERROR_VALUE, "%d is not a reduction operator (BP_TE_SUM ...)", op);
    return NULL;
  }
  const char *wanted = bp__ir_wanted_type(reductions[op].kind, value->dtype);
  if (wanted) {
    char text[32];
    bp_dtype_format(value->dtype, text, sizeof text);
    bp_error_raise(BP_ERROR_TYPE, "a reduction by %s takes %s, not %s", reductions[op].name, wanted,
                   text);
    return NULL;
  }
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {
      bp_ir_cast(te->ir, bp_te_accumulator(value->dtype), value)};
  if (!operands[0] || add_reduce_axes(te, axes, num_axes, operands + 1) != 0)
    return NULL;
  return bp_ir_make(te->ir, BP_IR_CALL, operands[0]->dtype, operands, 1 + num_axes,
                    BP_IR_CALL_INTRINSIC, 0, reductions[op].call);
}

/* ---- Reductions of several values -------------------------------------------------------- */

const BpIrNode *bp__te_tuple(BpIrModule *module, const BpIrNode *const *values, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (!values[i])
      return NULL;
  if (count == 1)
    return values[0];
  return bp_ir_make(module, BP_IR_CALL, bp__dtype_void(), values, count, BP_IR_CALL_INTRINSIC, 0,
                    BP__TE_TUPLE);
}

static int check_types(const char *what, const BpIrNode *const *found,
                       const BpIrNode *const *wanted, int32_t count) {
  char have[32], want[32];
  for (int32_t i = 0; i < count; i++) {
    if (!BP_OPERAND(found[i]))
      return -1;
    if (bp__dtype_equal(found[i]->dtype, wanted[i]->dtype))
      continue;
    bp_dtype_format(found[i]->dtype, have, sizeof have);
    bp_dtype_format(wanted[i]->dtype, want, sizeof want);
    return bp_error_raise(BP_ERROR_TYPE, "%s %d of a reduction is of %s, and its value of %s", what,
                          i, have, want);
  }
  return 0;
}

/* Makes variables for the two operands of a reducer and builds the combination. */
static int combine_once(BpTe *te, BpTeFold *fold, const BpTeReducer *reducer,
                        const BpIrNode *const *values) {
  int32_t count = fold->num_values;
  const BpIrNode **results = bp__te_alloc(te, (size_t)count * sizeof *results);
  for (int32_t i = 0; results && i < count; i++) {
    fold->a[i] = bp_ir_var(te->ir, "a", values[i]->dtype);
    fold->b[i] = bp_ir_var(te->ir, "b", values[i]->dtype);
    if (!fold->a[i] || !fold->b[i])
      return -1;
  }
  if (!results || reducer->combine(te, fold->a, fold->b, reducer->context, results) != 0 ||
      check_types("result", results, values, count) != 0)
    return -1;
  fold->results = bp__te_tuple(te->ir, results, count);
  return fold->results ? 0 : -1;
}

static BpTeFold *new_fold(BpTe *te, const BpTeReducer *reducer, const BpIrNode *const *values,
                          int32_t count) {
  BpTeFold *fold = bp__te_alloc(te, sizeof *fold);
  const BpIrNode **nodes = bp__te_alloc(te, 3 * (size_t)count * sizeof *nodes);
  if (!fold || !nodes || check_types("identity", reducer->identities, values, count) != 0)
    return NULL;
  fold->num_values = count;
  fold->identities = nodes;
  fold->a = nodes + count;
  fold->b = nodes + 2 * count;
  for (int32_t i = 0; i < count; i++)
    nodes[i] = reducer->identities[i];
  if (combine_once(te, fold, reducer, values) != 0)
    return NULL;
  fold->number = te->folds ? te->folds->number + 1 : 0;
  fold->next = te->folds;
  return te->folds = fold;
}

/* Makes the call that stands for a reduction of several values: its number, the values, the
 * axes. */
static const BpIrNode *make_fold_call(BpTe *te, const BpTeFold *fold, const BpIrNode *const *values,
                                      const BpIrNode *const *axes, int32_t num_axes) {
  const BpIrNode *operands[1 + BP_TE_MAX_VALUES + BP_TE_MAX_NDIM];
  int32_t count = fold->num_values;
  operands[0] = bp__ir_int64(te->ir, fold->number);
  memcpy(operands + 1, values, (size_t)count * sizeof *operands);
  if (add_reduce_axes(te, axes, num_axes, operands + 1 + count) != 0)
    return NULL;
  return bp_ir_make(te->ir, BP_IR_CALL, bp__dtype_void(), operands, 1 + count + num_axes,
                    BP_IR_CALL_INTRINSIC, 0, BP__TE_FOLD);
}

int bp_te_reduce_tuple(BpTe *te, const BpTeReducer *reducer, const BpIrNode *const *values,
                       int32_t num_values, const BpIrNode *const *axes, int32_t num_axes,
                       const BpIrNode **results) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(reducer) || !BP_NOT_NULL(reducer->combine) ||
      !BP_NOT_NULL(reducer->identities) || !BP_NOT_NULL(results) ||
      !BP_IS_LIST(values, num_values) || !BP_IS_LIST(axes, num_axes))
    return -1;
  const BpIrNode *terms[BP_TE_MAX_VALUES];
  if (bp__te_check_count("a reduction", num_values) != 0)
    return -1;
  for (int32_t i = 0; i < num_values; i++)
    if (!BP_OPERAND(values[i]) ||
        !(terms[i] = bp_ir_cast(te->ir, bp_te_accumulator(values[i]->dtype), values[i])))
      return -1;
  const BpTeFold *fold = new_fold(te, reducer, terms, num_values);
  const BpIrNode *call = fold ? make_fold_call(te, fold, terms, axes, num_axes) : NULL;
  for (int32_t i = 0; i < num_values; i++) {
    const BpIrNode *part[] = {call, bp__ir_int64(te->ir, i)};
    results[i] = part[0] && part[1] ? bp_ir_make(te->ir, BP_IR_CALL, terms[i]->dtype, part, 2,
                                                 BP_IR_CALL_INTRINSIC, 0, BP__TE_PART)
                                    : NULL;
    if (!results[i])
      return -1;
  }
  return 0;
}

static const BpTeFold *find_fold(const BpTe *te, const BpIrNode *call) {
  const BpTeFold *fold = te->folds;
  while (fold && fold->number != call->operands[0]->int_value)
    fold = fold->next;
  return fold;
}

const BpIrNode *bp__te_stage_identity(const BpTeStage *stage, int32_t index) {
  return stage->fold
             ? stage->fold->identities[index]
             : bp__te_reduce_identity(stage->te->ir, stage->reduce_op, stage->tensor->dtype);
}

/* ---- Bodies ------------------------------------------------------------------------------ */

static int32_t reduction_of(const BpIrNode *node) {
  if (node->kind != BP_IR_CALL)
    return -1;
  for (int32_t op = 0; op < NUM_REDUCTIONS; op++)
    if (strcmp(node->str_value, reductions[op].call) == 0)
      return op;
  return strcmp(node->str_value, BP__TE_PART) == 0 ? BP__TE_FOLD_OP : -1;
}

/* A callback of bp__ir_visit_once that checks the reductions in a stage's body. */
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
  if (bp__te_find_open_extent(stage->te, node))
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

static int add_reduction(BpTeStage *stage, const BpIrNode *const *axes, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const BpTeReduceAxis *source = find_reduce_axis(stage->te, axes[i]);
    BpTeAxis *axis = bp__te_new_axis(stage, source->var->str_value, source->extent, 1, source->var);
    if (!axis)
      return -1;
    axis->open = source->open;
    stage->num_reduce_axes++;
  }
  return 0;
}

/* Separates the results of a fold; result i is the stage's value i. */
static int take_fold(BpTeStage *stage, const BpIrNode *body) {
  const BpIrNode *call = bp__te_value(stage, body, 0)->operands[0];
  const BpTeFold *fold = find_fold(stage->te, call);
  bool fits = fold && fold->num_values == stage->num_tensors;
  for (int32_t i = 0; fits && i < stage->num_tensors; i++) {
    const BpIrNode *value = bp__te_value(stage, body, i);
    fits = reduction_of(value) == BP__TE_FOLD_OP && value->operands[0] == call &&
           bp__ir_is_int_value(value->operands[1], i);
  }
  if (!fits)
    return bp_error_raise(BP_ERROR_VALUE,
                          "tensor %s is one result of a reduction of several values; its "
                          "computation gives all of them, in order, and nothing else",
                          stage->tensor->name);
  const BpIrNode *const *axes = call->operands + 1 + fold->num_values;
  stage->fold = fold;
  stage->body = bp__te_tuple(stage->te->ir, call->operands + 1, fold->num_values);
  return stage->body ? add_reduction(stage, axes, call->num_operands - 1 - fold->num_values) : -1;
}

/* The scan in whose steps a tensor is computed, or NULL. */
static BpTeStage *scan_around(const BpTeTensor *tensor) {
  if (!tensor || tensor->state_of)
    return tensor ? tensor->state_of : NULL;
  return tensor->stage ? tensor->stage->inside : NULL;
}

/* A callback of bp__ir_visit_once: finds the innermost scan whose states a body reads, directly or
 * through another stage of the scan's steps. */
static int visit_scan(void *context, const BpIrNode *node) {
  BpTeStage *stage = context;
  if (!bp__te_is_read(node))
    return 0;
  BpTeStage *scan = scan_around(bp__te_tensor_of(stage->te, node->operands[0]));
  if (scan && (!stage->inside || scan->scan->depth > stage->inside->scan->depth))
    stage->inside = scan;
  return 0;
}

/* The number of products that a body is the sum of; 0 if a term is no product. */
static int32_t count_products(const BpIrNode *body) {
  int32_t count = 1;
  for (; body->kind == BP_IR_ADD && body->operands[1]->kind == BP_IR_MUL; count++)
    body = body->operands[0];
  return body->kind == BP_IR_MUL ? count : 0;
}

int bp__te_set_body(BpTeStage *stage, const BpIrNode *body) {
  int32_t op = reduction_of(bp__te_value(stage, body, 0));
  if (bp__ir_check_memory(stage->te->ir))
    return -1;
  stage->body = body;
  stage->reduce_op = op;
  if (op == BP__TE_FOLD_OP && take_fold(stage, body) != 0)
    return -1;
  if (op >= 0 && op < NUM_REDUCTIONS && stage->num_values == 1) {
    stage->body = body->operands[0];
    stage->num_products = op == BP_TE_SUM ? count_products(stage->body) : 0;
    if (add_reduction(stage, body->operands + 1, body->num_operands - 1) != 0)
      return -1;
  }
  if (bp__ir_visit_once(stage->body, check_reduction, stage) != 0 ||
      bp__ir_visit_once(stage->body, check_axis, stage) != 0)
    return -1;
  if (!stage->scan && bp__ir_visit_once(stage->body, visit_scan, stage) != 0)
    return -1;
  bp__te_reset_leaves(stage);
  return 0;
}

/* ---- Computed tensors -------------------------------------------------------------------- */

/* A stage that computes the given values; its data axes are `vars`. */
static BpTeStage *compute_stage(BpTe *te, const char *name, BpTeShape shape,
                                const BpIrNode *const *vars, const BpIrNode *const *values,
                                int32_t count) {
  BpDataType dtypes[BP_TE_MAX_VALUES];
  const BpIrNode *body = bp__te_widen(te->ir, bp__te_tuple(te->ir, values, count));
  for (int32_t i = 0; body && i < count; i++)
    dtypes[i] = (count == 1 ? body : body->operands[i])->dtype;
  BpTeStage *stage = body ? bp__te_new_stage(te, name, dtypes, count, shape, vars) : NULL;
  return stage && bp__te_set_body(stage, body) == 0 ? stage : NULL;
}

static BpTeTensor *compute(BpTe *te, const char *name, BpTeShape shape, BpTeBody body,
                           void *context) {
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  if (bp__te_check_shape(name, shape.extents, shape.ndim) != 0 ||
      bp__te_make_vars(te, shape.ndim, vars) != 0)
    return NULL;
  const BpIrNode *value = body(te, vars, context);
  const BpTeStage *stage = compute_stage(te, name, shape, vars, &value, 1);
  return stage ? stage->tensor : NULL;
}

BpTeTensor *bp_te_compute(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                          BpTeBody body, void *context) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(body) || !BP_IS_LIST(shape, ndim))
    return NULL;
  return compute(te, name, (BpTeShape){shape, NULL, ndim}, body, context);
}

BpTeTensor *bp_te_compute_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                               int32_t ndim, BpTeBody body, void *context) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(body) || !BP_IS_LIST(extents, ndim))
    return NULL;
  int64_t likely[BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_NDIM];
  if (bp__te_read_extents(te, name, extents, ndim, likely, open) != 0)
    return NULL;
  return compute(te, name, (BpTeShape){likely, open, ndim}, body, context);
}

int bp_te_compute_tuple(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                        BpTeTupleBody body, void *context, BpTeTensor **tensors,
                        int32_t num_tensors) {
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(body) || !BP_NOT_NULL(tensors) ||
      !BP_IS_LIST(shape, ndim))
    return -1;
  const BpIrNode *vars[BP_TE_MAX_NDIM], *values[BP_TE_MAX_VALUES] = {NULL};
  if (bp__te_check_shape(name, shape, ndim) != 0 || bp__te_check_count(name, num_tensors) != 0 ||
      bp__te_make_vars(te, ndim, vars) != 0 || body(te, vars, context, values) != 0)
    return -1;
  const BpTeStage *stage =
      compute_stage(te, name, (BpTeShape){shape, NULL, ndim}, vars, values, num_tensors);
  if (!stage)
    return -1;
  memcpy(tensors, stage->tensors, (size_t)num_tensors * sizeof *tensors);
  return 0;
}

int bp__te_convert_indices(BpTe *te, const BpTeTensor *tensor, const BpIrNode *const *indices,
                           const BpIrNode **converted) {
  for (int32_t i = 0; i < tensor->ndim; i++) {
    if (!BP_OPERAND(indices[i]))
      return -1;
    if (!bp__dtype_is_int(indices[i]->dtype)) {
      char text[32];
      bp_dtype_format(indices[i]->dtype, text, sizeof text);
      return bp_error_raise(BP_ERROR_TYPE, "index %d of tensor %s is of %s, and no integer", i,
                            tensor->name, text);
    }
    if (!(converted[i] = bp_ir_cast(te->ir, bp__dtype_int64(), indices[i])))
      return -1;
  }
  return 0;
}

const BpIrNode *bp_te_read(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices) {
  if (!BP_NOT_NULL(te) || !BP_OPERAND(tensor) || !BP_IS_LIST(indices, tensor->ndim))
    return NULL;
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {tensor->buffer};
  if (bp__te_convert_indices(te, tensor, indices, operands + 1) != 0)
    return NULL;
  return bp_ir_make(te->ir, BP_IR_CALL, tensor->dtype, operands, 1 + tensor->ndim,
                    BP_IR_CALL_INTRINSIC, 0, BP__TE_READ);
}

const BpIrNode *bp_te_read_if(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                              const BpIrNode *condition) {
  if (!BP_NOT_NULL(te))
    return NULL;
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

bool bp__te_reads_stage(const BpIrNode *node, const BpTeStage *stage) {
  if (!bp__te_is_read(node))
    return false;
  for (int32_t i = 0; i < stage->num_tensors; i++)
    if (node->operands[0] == stage->tensors[i]->buffer)
      return true;
  return false;
}
