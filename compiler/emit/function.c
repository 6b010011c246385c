/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and kernels, and the packed function around a host function, which checks the arguments
 * before the body runs. */
#include "compiler/emit/emit.h"

#include <string.h>

int32_t bp__num_params(BpEmitter *e, const BpIrNode *function) {
  return (int32_t)e->ir->int_value(function);
}

static int is_buffer(BpEmitter *e, const BpIrNode *param) {
  return e->ir->kind(param) == BP_IR_BUFFER;
}

static const char *no_alias_of(BpEmitter *e, const BpIrNode *function) {
  return e->ir->find_attr(function, BP_IR_ATTR_NOALIAS) ? e->dialect->no_alias : "";
}

/* The declarations of all parameters, separated by `separator`. */
static const char *params_text(BpEmitter *e, const BpIrNode *function, const char *separator) {
  const char *no_alias = no_alias_of(e, function);
  const char *text = "";
  for (int32_t i = 0; i < bp__num_params(e, function); i++) {
    const BpIrNode *param = e->ir->operand(function, i);
    BpDataType dtype = e->ir->dtype(param);
    BpSymbol *symbol = bp__declare(e, param, dtype);
    if (!symbol)
      return "";
    const char *form = is_buffer(e, param) ? e->dialect->buffer_param : e->dialect->scalar_param;
    const char *type =
        !is_buffer(e, param) && dtype.code == BP_DTYPE_HANDLE ? "void *" : bp__type(e, dtype);
    const char *position = bp__format(e, "%d", i);
    text = bp__format(e, "%s%s%s", text, i ? separator : "",
                      bp__apply(e, form, type, symbol->expr.text, position, no_alias));
  }
  return text;
}

/* The type of a scalar parameter that is declared before the function: 32 bits or more. */
static BpDataType global_dtype(BpEmitter *e, BpDataType dtype) {
  dtype = bp__compute_dtype(e, dtype);
  if (bp__is_bool(dtype))
    return bp__dtype(BP_DTYPE_UINT, 32, 1);
  return dtype.bits < 32 ? bp__dtype(dtype.code, 32, 1) : dtype;
}

/* Writes parameters as declarations before the function. A narrow scalar is declared wider; its
 * narrow declaration inside the function goes to `narrowed`. */
static void global_params(BpEmitter *e, const BpIrNode *function, BpText *narrowed) {
  const char *no_alias = no_alias_of(e, function), *scalars = "";
  for (int32_t i = 0; i < bp__num_params(e, function); i++) {
    const BpIrNode *param = e->ir->operand(function, i);
    BpDataType dtype = e->ir->dtype(param), wide = dtype;
    BpSymbol *symbol = bp__declare(e, param, dtype);
    if (!symbol)
      return;
    const char *position = bp__format(e, "%d", i), *name = symbol->expr.text;
    if (is_buffer(e, param)) {
      symbol->texel_lanes = bp__texel_lanes(e, function, param);
      const char *form = symbol->texel_lanes ? e->dialect->texel_param : e->dialect->buffer_param;
      const char *lanes = bp__format(e, "%d", symbol->texel_lanes);
      bp__line(e, "%s",
               bp__apply(e, form, bp__memory_type(e, dtype), name, position,
                         symbol->texel_lanes ? lanes : no_alias));
      continue;
    }
    wide = global_dtype(e, dtype);
    const char *member = bp__same_dtype(wide, dtype) ? name : bp__format(e, "%s_wide", name);
    if (member != name)
      bp__appendf(e, narrowed, "  const %s %s = %s;\n", bp__type(e, dtype), name,
                  bp__bare(e, bp__cast(e, dtype, wide, bp__text(member)).text));
    scalars = bp__format(
        e, "%s%s%s", scalars, scalars[0] ? " " : "",
        bp__apply(e, e->dialect->scalar_param, bp__type(e, wide), member, position, no_alias));
  }
  if (scalars[0])
    bp__line(e, "%s",
             e->dialect->scalar_block ? bp__apply(e, e->dialect->scalar_block, scalars) : scalars);
}

static int is_host(BpEmitter *e) {
  return (e->dialect->flags & BP_DIALECT_HOST) != 0;
}

/* ---- Kernels ----------------------------------------------------------------------------- */

/* The extents of threadIdx.x, .y and .z; 1 for an axis without a loop. */
static void block_extents(BpEmitter *e, const BpIrNode *function, int64_t extents[3]) {
  extents[0] = extents[1] = extents[2] = 1;
  for (int32_t i = bp__num_params(e, function); i < e->ir->num_operands(function); i++) {
    const BpIrNode *attr = e->ir->operand(function, i);
    if (e->ir->kind(attr) != BP_IR_ATTR || strcmp(e->ir->str_value(attr), BP_IR_ATTR_LAUNCH) != 0)
      continue;
    const char *tag = e->ir->str_value(e->ir->operand(attr, 0));
    const BpIrNode *extent = e->ir->operand(attr, 1);
    if (strncmp(tag, "threadIdx.", 10) != 0 || tag[10] < 'x' || tag[10] > 'z')
      continue;
    if (e->ir->kind(extent) != BP_IR_INT_IMM) {
      bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a block whose size is not a constant");
      return;
    }
    int64_t threads = e->ir->int_value(extent);
    extents[tag[10] - 'x'] = threads > 0 ? threads : 1; /* as bp_kernel_get_launch launches it */
  }
}

static const char *kernel_head(BpEmitter *e, const BpIrNode *function, const char *params) {
  int64_t extents[3];
  block_extents(e, function, extents);
  const char *text[3];
  for (int i = 0; i < 3; i++)
    text[i] = bp__format(e, "%lld", (long long)extents[i]);
  const char *threads = bp__format(e, "%lld", (long long)(extents[0] * extents[1] * extents[2]));
  return bp__apply(e, e->dialect->kernel, e->function_name, params, threads, text[0], text[1],
                   text[2]);
}

/* ---- The packed function ----------------------------------------------------------------- */

static int64_t constant_extent(BpEmitter *e, const BpIrNode *buffer, int32_t dim) {
  const BpIrNode *extent = e->ir->operand(buffer, dim);
  return e->ir->kind(extent) == BP_IR_INT_IMM ? e->ir->int_value(extent) : -1;
}

static int64_t alignment_of(BpEmitter *e, const BpIrNode *function, BpDataType dtype) {
  const BpIrNode *attr = e->ir->find_attr(function, BP_IR_ATTR_ALIGNMENT);
  int64_t natural = (dtype.bits + 7) / 8;
  if (!attr)
    return natural;
  int64_t asked = e->ir->int_value(e->ir->operand(attr, 0));
  return asked > natural ? asked : natural;
}

/* The tables that describe the parameters: shapes, then one row for each parameter. */
static void param_tables(BpEmitter *e, const BpIrNode *function) {
  BpText rows = {NULL, 0, 0};
  for (int32_t i = 0; i < bp__num_params(e, function); i++) {
    const BpIrNode *param = e->ir->operand(function, i);
    BpDataType dtype = e->ir->dtype(param);
    const char *name = bp__c_string(e, e->ir->str_value(param));
    if (!is_buffer(e, param)) {
      bp__appendf(e, &rows, "  {%s, %d, %d, %d, -1, 0, 0},\n", name, dtype.code, dtype.bits,
                  dtype.lanes);
      continue;
    }
    int32_t ndim = e->ir->num_operands(param);
    bp__appendf(e, e->out, "static const long long shape_%s_%d[] = {", e->function_name, i);
    for (int32_t k = 0; k < ndim; k++)
      bp__appendf(e, e->out, "%lld, ", (long long)constant_extent(e, param, k));
    bp__appendf(e, e->out, "0};\n");
    bp__appendf(e, &rows, "  {%s, %d, %d, %d, %d, %lld, shape_%s_%d},\n", name, dtype.code,
                dtype.bits, dtype.lanes, ndim, (long long)alignment_of(e, function, dtype),
                e->function_name, i);
  }
  bp__appendf(e, e->out,
              "static const bp_param params_%s[] = {\n%s  {0, 0, 0, 0, 0, 0, 0},\n};\n\n",
              e->function_name, rows.data ? rows.data : "");
  bp__text_free(&rows);
}

/* Checks extents that are expressions of the scalar parameters, by one call: a C compiler takes
 * milliseconds for a function with a call and a branch for each extent. */
static void check_symbolic_extents(BpEmitter *e, const BpIrNode *function) {
  BpText places = {NULL, 0, 0}, expected = {NULL, 0, 0};
  int count = 0;
  for (int32_t i = 0; i < bp__num_params(e, function); i++) {
    const BpIrNode *param = e->ir->operand(function, i);
    for (int32_t k = 0; is_buffer(e, param) && k < e->ir->num_operands(param); k++) {
      if (constant_extent(e, param, k) >= 0)
        continue;
      const BpIrNode *extent = e->ir->operand(param, k);
      const char *comma = count++ ? ", " : "";
      bp__begin_statement(e, &extent, 1);
      bp__appendf(e, &places, "%s{%d, %d}", comma, i, k);
      bp__appendf(e, &expected, "%s%s", comma, bp__bare(e, bp__index(e, extent).text));
    }
  }
  if (count > 0) {
    bp__line(e, "static const int places[][2] = {%s};", places.data ? places.data : "");
    bp__line(e, "const long long expected[] = {%s};", expected.data ? expected.data : "");
    bp__line(e, "if (bp_check_extents(\"%s\", params_%s, args, places, expected, %d))",
             e->function_name, e->function_name, count);
    bp__line(e, "  return -1;");
  }
  bp__text_free(&places);
  bp__text_free(&expected);
}

static const char *scalar_argument(BpEmitter *e, BpDataType dtype, int32_t i) {
  if (dtype.code == BP_DTYPE_HANDLE)
    return bp__format(e, "args[%d].v.p", i);
  if (bp__is_bool(dtype))
    return bp__format(e, "(unsigned char)(bp_as_int(&args[%d]) != 0)", i);
  int is_number = bp__is_float(dtype);
  BpDataType given = is_number ? bp__dtype(BP_DTYPE_FLOAT, 64, 1) : bp__dtype(BP_DTYPE_INT, 64, 1);
  const char *text =
      bp__format(e, is_number ? "bp_as_float(&args[%d])" : "bp_as_int(&args[%d])", i);
  return bp__cast(e, dtype, given, bp__text(text)).text;
}

void bp__packed_function(BpEmitter *e, const BpIrNode *function) {
  int32_t count = bp__num_params(e, function);
  const char *name = e->function_name;
  param_tables(e, function);
  bp__line(e, "__attribute__((visibility(\"default\")))");
  bp__line(e,
           "int __tvm_ffi_%s(void *self, const bp_value *args, int num_args, bp_value *result) {",
           name);
  e->indent++;
  bp__line(e, "void *data[%d];", count + 1);
  bp__line(e, "(void)self, (void)result;");
  if (e->dialect->entry)
    bp__line(e, "%s", bp__apply(e, e->dialect->entry, name));
  bp__line(e, "if (bp_check_args(\"%s\", params_%s, %d, args, num_args, data))", name, name, count);
  bp__line(e, "  return -1;");
  const char *values = "";
  for (int32_t i = 0; i < count; i++) {
    const BpIrNode *param = e->ir->operand(function, i);
    const char *value = bp__format(e, "data[%d]", i);
    if (!is_buffer(e, param)) {
      BpSymbol *symbol = bp__symbol(e, param);
      value = symbol ? symbol->expr.text : "";
      BpDataType dtype = e->ir->dtype(param);
      bp__line(e, "const %s %s = %s;",
               dtype.code == BP_DTYPE_HANDLE ? "void *" : bp__type(e, dtype), value,
               bp__bare(e, scalar_argument(e, dtype, i)));
    }
    values = bp__format(e, "%s%s%s", values, i ? ", " : "", value);
  }
  check_symbolic_extents(e, function);
  bp__line(e, "return body_%s(%s);", name, values);
  e->indent--;
  bp__line(e, "}\n");
}

/* ---- Any function ------------------------------------------------------------------------ */

static int is_identifier(const char *name) {
  for (const char *p = name; *p; p++) {
    int is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
    if (!is_letter && (p == name || *p < '0' || *p > '9'))
      return 0;
  }
  return name[0] != '\0';
}

/* Marks the parameters that the "streamed" attribute names. */
static void mark_streamed(BpEmitter *e, const BpIrNode *function) {
  const BpIrNode *attr = e->ir->find_attr(function, BP_IR_ATTR_STREAMED);
  e->streams = 0;
  for (int32_t i = 0; attr && e->dialect->vector_stream && i < e->ir->num_operands(attr); i++) {
    int64_t position = e->ir->int_value(e->ir->operand(attr, i));
    BpSymbol *symbol = position >= 0 && position < bp__num_params(e, function)
                           ? bp__symbol(e, e->ir->operand(function, (int32_t)position))
                           : NULL;
    if (symbol)
      symbol->is_streamed = e->streams = 1;
  }
}

void bp__end_streams(BpEmitter *e) {
  if (e->streams && e->dialect->stream_end)
    bp__line(e, "%s", e->dialect->stream_end);
}

/* Writes global declarations and the function's head. */
static void open_function(BpEmitter *e, const BpIrNode *function) {
  const BpDialect *d = e->dialect;
  int is_kernel = e->ir->find_attr(function, BP_IR_ATTR_KERNEL) != NULL;
  int are_global = !is_host(e) && (d->flags & BP_DIALECT_PARAMS_GLOBAL);
  int are_local = !is_host(e) && (d->flags & BP_DIALECT_PARAMS_LOCAL);
  if (is_kernel ? !d->kernel : !d->function) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED,
             is_kernel
                 ? "a kernel"
                 : "a function that is not a kernel, as the target attribute thread_axes has it");
    return;
  }
  BpText narrowed = {NULL, 0, 0};
  const char *params = "", *locals = "";
  if (are_global)
    global_params(e, function, &narrowed);
  else if (are_local)
    locals = bp__format(e, "  %s\n", params_text(e, function, "\n  "));
  else
    params = params_text(e, function, ", ");
  if (!is_kernel)
    params = params[0] ? params : "void";
  const char *head = is_kernel ? kernel_head(e, function, params)
                               : bp__apply(e, d->function, e->function_name, params);
  bp__append(e, &e->before, e->body.data ? e->body.data : "", e->body.size);
  e->body.size = 0;
  bp__appendf(e, &e->opening, "%s {\n%s%s", head, locals, narrowed.data ? narrowed.data : "");
  bp__text_free(&narrowed);
}

static void finish_function(BpEmitter *e) {
  const BpText *parts[] = {&e->before, &e->opening, &e->body};
  for (int i = 0; i < 3; i++)
    bp__append(e, &e->done, parts[i]->data ? parts[i]->data : "", parts[i]->size);
  e->before.size = e->opening.size = e->body.size = 0;
}

void bp__function(BpEmitter *e, const BpIrNode *function) {
  int32_t last = e->ir->num_operands(function) - 1;
  e->function = function;
  e->function_name = e->ir->str_value(function);
  e->next_name = 0;
  e->indent = 0;
  e->cleanup = 0;
  e->out = &e->body;
  e->texels = NULL;
  e->num_texels = 0;
  bp_pointer_map_clear(&e->symbols);
  bp_pointer_map_clear(&e->lets);
  bp_pointer_map_clear(&e->places);
  bp_pointer_map_clear(&e->stable);
  bp_pointer_map_clear(&e->same);
  if (!is_identifier(e->function_name))
    bp__fail(e, BP_ERROR_VALUE, "the name is not an identifier of C");
  open_function(e, function);
  if (e->failed)
    return;
  mark_streamed(e, function);
  e->indent = 1;
  if (is_host(e))
    bp__line(e, "int rc = 0;");
  bp__stmt(e, e->ir->operand(function, last));
  bp__end_streams(e);
  if (is_host(e))
    bp__line(e, "return rc;");
  e->indent = 0;
  bp__line(e, "}\n");
  finish_function(e);
  if (is_host(e)) {
    bp__packed_function(e, function);
    finish_function(e);
  }
  bp__arena_free(e);
  e->function_name = NULL;
}
