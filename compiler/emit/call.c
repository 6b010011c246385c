/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of intrinsics (by the dialect's table), of C functions and of packed functions. */
#include "compiler/emit/emit.h"

#include <string.h>

/* The arguments of a call as text. */
typedef struct Args {
  int32_t count;
  BpExpr *exprs;
  const char **texts; /* texts of the arguments */
  BpDataType *dtypes;
} Args;

static int read_args(BpEmitter *e, const BpIrNode *node, Args *args) {
  args->count = e->ir->num_operands(node);
  size_t room = (size_t)args->count + 1;
  args->exprs = bp__arena_alloc(e, room * sizeof(*args->exprs));
  args->texts = bp__arena_alloc(e, room * sizeof(*args->texts));
  args->dtypes = bp__arena_alloc(e, room * sizeof(*args->dtypes));
  if (!args->exprs || !args->texts || !args->dtypes)
    return -1;
  for (int32_t i = 0; i < args->count; i++) {
    const BpIrNode *operand = e->ir->operand(node, i);
    args->dtypes[i] = e->ir->dtype(operand);
    args->exprs[i] = e->ir->kind(operand) == BP_IR_STR_IMM
                         ? (BpExpr){bp__c_string(e, e->ir->str_value(operand)), 0, 1}
                         : bp__expr(e, operand);
    args->texts[i] = args->exprs[i].text;
  }
  return 0;
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

/* The dialect's row for an intrinsic and a type; with `any`, also a row for all types of the type's
 * code. */
static const BpDialectIntrinsic *find_intrinsic(BpEmitter *e, const char *name, BpDataType dtype,
                                                int any) {
  for (int32_t i = 0; i < e->dialect->num_intrinsics; i++) {
    const BpDialectIntrinsic *row = bp_dialect_intrinsic(e->dialect, i);
    if (strcmp(row->name, name) == 0 && row->code == dtype.code &&
        ((any && row->bits == 0) || row->bits == dtype.bits))
      return row;
  }
  return NULL;
}

const char *bp__vector_intrinsic(BpEmitter *e, const char *name, BpDataType dtype) {
  const BpDialectIntrinsic *row = find_intrinsic(e, name, dtype, 1);
  int is_converted = !bp__same_dtype(bp__compute_dtype(e, dtype), dtype);
  return row && row->vectors && !is_converted ? row->text : NULL;
}

/* One call of an intrinsic, with scalars or with vectors. */
static BpExpr apply_intrinsic(BpEmitter *e, const BpDialectIntrinsic *row, const Args *args,
                              const BpExpr *values, BpDataType dtype) {
  const char *texts[9];
  for (int32_t i = 0; i < args->count; i++) {
    BpExpr value = values[i];
    if (bp__template_uses(row->text, i + 1) > 1)
      value = bp__atom(e, value, bp__with_lanes(args->dtypes[i], dtype.lanes));
    texts[i] = value.text;
  }
  return bp__text(bp__template(e, row->text, texts, args->count));
}

static BpExpr intrinsic_lanes(BpEmitter *e, const BpDialectIntrinsic *row, const Args *args,
                              BpDataType result) {
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * result.lanes);
  BpExpr values[9];
  if (!lanes)
    return bp__text("");
  for (int32_t k = 0; k < args->count; k++)
    args->exprs[k] = bp__atom(e, args->exprs[k], args->dtypes[k]);
  for (int32_t i = 0; i < result.lanes; i++) {
    for (int32_t k = 0; k < args->count; k++)
      values[k] = bp__lane(e, args->exprs[k], args->dtypes[k], i);
    lanes[i] = apply_intrinsic(e, row, args, values, bp__scalar(result));
  }
  return bp__make_vector(e, result, lanes);
}

static BpExpr intrinsic(BpEmitter *e, const BpIrNode *node) {
  const char *name = e->ir->str_value(node);
  BpDataType result = e->ir->dtype(node);
  Args args;
  if (strcmp(name, "prefetch") == 0 && !(e->dialect->flags & BP_DIALECT_POINTERS))
    return bp__text(""); /* a call without effect, in a dialect that needs no address */
  if (read_args(e, node, &args) != 0)
    return bp__text("");
  BpDataType given = args.count ? args.dtypes[0] : result;
  const BpDialectIntrinsic *row =
      bp__has_halves(e, given) ? find_intrinsic(e, name, given, 0) : NULL;
  BpDataType compute = row ? given : bp__compute_dtype(e, given);
  if (!row)
    row = find_intrinsic(e, name, compute, 1);
  if (!row || args.count > 9)
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "intrinsic %s of %s", name,
                             bp__dtype_name(e, given)));
  for (int32_t i = 0; i < args.count; i++) {
    BpDataType wanted =
        row->bits == args.dtypes[i].bits ? args.dtypes[i] : bp__compute_dtype(e, args.dtypes[i]);
    args.exprs[i] = bp__cast(e, wanted, args.dtypes[i], args.exprs[i]);
    args.dtypes[i] = wanted;
  }
  BpDataType type = bp__same_dtype(result, given) ? compute : result;
  BpExpr value = result.lanes > 1 && !row->vectors
                     ? intrinsic_lanes(e, row, &args, type)
                     : apply_intrinsic(e, row, &args, args.exprs, type);
  if (bp__is_bool(result) && result.lanes > 1 && row->vectors)
    value.bits = compute.bits;
  return bp__is_void(result) ? value : bp__cast(e, result, type, value);
}

/* ---- C functions ------------------------------------------------------------------------- */

static const char *c_type(BpEmitter *e, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_HANDLE && !bp__is_void(dtype))
    return "void *";
  return bp__type(e, dtype);
}

static BpExpr extern_call(BpEmitter *e, const BpIrNode *node) {
  const char *name = e->ir->str_value(node);
  Args args;
  if (read_args(e, node, &args) != 0)
    return bp__text("");
  const char *types = args.count ? "" : "void";
  const char *values = "";
  for (int32_t i = 0; i < args.count; i++) {
    int is_buffer = e->ir->kind(e->ir->operand(node, i)) == BP_IR_BUFFER;
    const char *comma = i ? ", " : "";
    types = bp__format(e, "%s%s%s", types, comma, is_buffer ? "void *" : c_type(e, args.dtypes[i]));
    values = bp__format(e, "%s%s%s", values, comma, bp__bare(e, args.texts[i]));
  }
  const char *type = c_type(e, e->ir->dtype(node));
  bp__declare_once(e, bp__format(e, "extern %s %s(%s);\n", type, name, types));
  return bp__text(bp__format(e, "%s(%s)", name, values));
}

/* ---- Packed functions -------------------------------------------------------------------- */

/* Writes a view of a buffer as lines before the statement; returns the expression of the view's
 * address. */
static const char *view_of(BpEmitter *e, const BpIrNode *buffer, const char *data) {
  int32_t ndim = e->ir->num_operands(buffer);
  const char *name = bp__unique_name(e, "view");
  const char *extents = "";
  for (int32_t i = 0; i < ndim; i++)
    extents = bp__format(e, "%s%s%s", extents, i ? ", " : "",
                         bp__index(e, e->ir->operand(buffer, i)).text);
  BpDataType dtype = e->ir->dtype(buffer);
  bp__line(e, "long long %s_shape[] = {%s};", name, ndim ? extents : "0");
  bp__line(e, "bp_view %s = {(void *)%s, 1, 0, %d, %d, %d, %d, %s_shape, 0, 0};", name, data, ndim,
           dtype.code, dtype.bits, dtype.lanes, name);
  return bp__format(e, "&%s", name);
}

static const char *packed_value(BpEmitter *e, const BpIrNode *operand, BpExpr expr) {
  BpDataType dtype = e->ir->dtype(operand);
  int32_t kind = e->ir->kind(operand);
  if (kind == BP_IR_BUFFER)
    return bp__format(e, "{7, 0, {.p = %s}}", view_of(e, operand, expr.text));
  if (kind == BP_IR_STR_IMM)
    return bp__format(e, "{8, 0, {.p = (void *)%s}}", expr.text);
  if (dtype.code == BP_DTYPE_HANDLE)
    return bp__format(e, "{4, 0, {.p = (void *)%s}}", expr.text);
  if (dtype.lanes > 1)
    return bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a vector as argument of a packed call");
  if (bp__is_float(dtype)) {
    BpExpr number = bp__cast(e, bp__dtype(BP_DTYPE_FLOAT, 64, 1), dtype, expr);
    return bp__format(e, "{3, 0, {.f = %s}}", number.text);
  }
  return bp__format(e, "{%d, 0, {.i = (long long)%s}}", bp__is_bool(dtype) ? 2 : 1, expr.text);
}

static BpExpr packed_result(BpEmitter *e, BpDataType dtype, const char *name) {
  if (bp__is_void(dtype))
    return bp__text("");
  if (dtype.lanes > 1)
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a vector as result of a packed call"));
  if (dtype.code == BP_DTYPE_HANDLE)
    return (BpExpr){bp__format(e, "%s.v.p", name), 0, 1};
  const char *member =
      bp__format(e, bp__is_float(dtype) ? "bp_as_float(&%s)" : "bp_as_int(&%s)", name);
  BpDataType given =
      bp__is_float(dtype) ? bp__dtype(BP_DTYPE_FLOAT, 64, 1) : bp__dtype(BP_DTYPE_INT, 64, 1);
  return bp__atom(e, bp__cast(e, dtype, given, bp__text(member)), dtype);
}

static BpExpr packed_call(BpEmitter *e, const BpIrNode *node) {
  Args args;
  if (!(e->dialect->flags & BP_DIALECT_HOST))
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a packed call"));
  if (read_args(e, node, &args) != 0)
    return bp__text("");
  const char *values = "";
  for (int32_t i = 0; i < args.count; i++)
    values = bp__format(e, "%s%s%s", values, i ? ", " : "",
                        packed_value(e, e->ir->operand(node, i), args.exprs[i]));
  const char *name = bp__unique_name(e, "call");
  bp__line(e, "bp_value %s_args[] = {%s};", name, args.count ? values : "{0, 0, {0}}");
  bp__line(e, "bp_value %s = {0, 0, {0}};", name);
  bp__line(e, "static void *%s_function;", name);
  bp__line(e, "if (bp_call_packed(&%s_function, %s, %s_args, %d, &%s))", name,
           bp__c_string(e, e->ir->str_value(node)), name, args.count, name);
  bp__line(e, "  %s", bp__leave(e));
  return packed_result(e, e->ir->dtype(node), name);
}

BpExpr bp__call(BpEmitter *e, const BpIrNode *node) {
  switch (e->ir->int_value(node)) {
  case BP_IR_CALL_INTRINSIC:
    return intrinsic(e, node);
  case BP_IR_CALL_EXTERN:
    return extern_call(e, node);
  case BP_IR_CALL_PACKED:
    return packed_call(e, node);
  default:
    return bp__text(
        bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "call kind %lld", (long long)e->ir->int_value(node)));
  }
}
