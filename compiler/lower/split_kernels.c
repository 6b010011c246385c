/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a function into kernels.
 *
 * A device runs one nest of bound loops at a time, and threads of different blocks synchronise only
 * between launches. So each sequence of top-level statements of a function that write the same
 * buffers becomes a kernel; only names and global buffers may surround top-level statements. A
 * buffer that only one kernel uses, with a scope smaller than global, moves into that kernel,
 * together with the statements before the kernel that write the buffer. A kernel takes the scalar
 * parameters that it uses; the caller of the kernels checks top-level assertions about its
 * parameters. */

#include <stdio.h>

#include <backplane/compiler/kernels.h>
#include <backplane/object.h>

#include "compiler/ir/argument.h"
#include "compiler/lower/passes.h"

/* A name around statements, and the names around it. */
typedef struct Names {
  const BpIrNode *let;
  const struct Names *outer;
} Names;

/* The statements of one kernel, and the buffers that they write. */
typedef struct Unit {
  const BpIrNode *body;
  bool *writes;
  struct Unit *next;
} Unit;

typedef struct Split {
  BpIrModule *scratch; /* the module of the kernels */
  BpIrModule *result;
  const BpIrNode *function;
  const BpIrNode **buffers; /* the parameters that are buffers, then the buffers between kernels */
  int32_t num_buffers, num_params, num_results;
  const BpIrNode *const *scalars; /* the parameters after the buffers */
  int32_t num_scalars;
  BpIrMap copied;            /* expressions of the scalar parameters -> their copies in `result` */
  int32_t most_buffers;      /* capacity of `buffers` */
  const BpIrNode **elements; /* number of elements of each buffer between kernels */
  const BpIrNode **own;      /* smaller-scope buffers around global buffers, the outermost first */
  int32_t num_own;
  const BpIrNode *pending; /* statements that write only buffers of `own`, or NULL */
  Unit *first, *last;
  int32_t num_units;
} Split;

static int refuse(const Split *split, const char *what) {
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "function '%s' cannot be taken apart into kernels: %s",
                        split->function->str_value, what);
}

/* ---- Expressions of the scalars ---------------------------------------------------------- */

static int check_scalar(void *context, const BpIrNode *node) {
  const Split *split = context;
  bool is_known = node->kind != BP_IR_VAR && node->kind != BP_IR_LOAD;
  for (int32_t i = 0; i < split->num_scalars; i++)
    is_known |= node == split->scalars[i];
  return is_known ? 0 : refuse(split, "an extent is not an expression of its scalars");
}

/* Copies an extent to the result. */
static const BpIrNode *copy_extent(Split *split, const BpIrNode *extent) {
  if (!extent || bp__ir_visit_once(extent, check_scalar, split) != 0)
    return NULL;
  return bp__ir_copy(split->result, extent, &split->copied);
}

static const BpIrNode *without_let(const Split *split, const BpIrNode *node, const BpIrNode *let) {
  return node ? bp__ir_substitute_one(split->scratch, node, let->operands[0], let->operands[1])
              : NULL;
}

/* An extent with the names at the top of a kernel's body replaced by their values. */
static const BpIrNode *without_names(const Split *split, const BpIrNode *body,
                                     const BpIrNode *extent) {
  if (body->kind != BP_IR_LET && body->kind != BP_IR_ALLOCATE)
    return extent;
  extent = without_names(split, body->operands[body->num_operands - 1], extent);
  return body->kind == BP_IR_LET ? without_let(split, extent, body) : extent;
}

/* The number of elements of a buffer that is declared inside names. */
static const BpIrNode *count_elements(const Split *split, const Names *names,
                                      const BpIrNode *buffer) {
  const BpIrNode *count = bp__ir_int64(split->scratch, 1);
  for (int32_t k = 0; k < buffer->num_operands; k++)
    count = bp_ir_binary(split->scratch, BP_IR_MUL, count, buffer->operands[k]);
  for (; names; names = names->outer)
    count = without_let(split, count, names->let);
  return count;
}

/* ---- Statements -------------------------------------------------------------------------- */

typedef struct Written {
  const Split *split;
  bool *writes; /* whether the statement writes a buffer, by the buffer's index */
  bool is_any;  /* whether the statement writes any of the buffers */
  bool may_end; /* whether the statement may raise an error */
} Written;

/* Whether a statement is a hint, which changes no value and raises no error. */
static bool is_hint(const BpIrNode *node) {
  const BpIrNode *call = node->operands[0];
  return call->kind == BP_IR_CALL && call->int_value == BP_IR_CALL_INTRINSIC &&
         !strcmp(call->str_value, "prefetch");
}

static int visit_store(void *context, const BpIrNode *node) {
  Written *written = context;
  written->may_end |=
      node->kind == BP_IR_ASSERT || (node->kind == BP_IR_EVALUATE && !is_hint(node));
  for (int32_t i = 0; i < written->split->num_buffers && node->kind == BP_IR_STORE; i++)
    if (written->split->buffers[i] == node->operands[0])
      written->writes[i] = written->is_any = true;
  return 0;
}

/* Whether the value of a name reads a buffer that statements so far write, so that the value would
 * change between kernels: 1, 0, or -1 with an error. */
static int is_changed(const Split *split, const BpIrNode *value) {
  int uses = 0;
  for (const Unit *unit = split->first; unit; unit = unit->next)
    for (int32_t i = 0; i < split->num_buffers && uses == 0; i++)
      uses = unit->writes[i] ? bp__ir_uses(value, split->buffers[i]) : 0;
  for (int32_t i = 0; i < split->num_own && uses == 0; i++)
    uses = bp__ir_uses(value, split->own[i]);
  if (uses > 0)
    refuse(split, "a name at its top level reads a buffer that it writes");
  return uses;
}

/* Wraps a statement in the LETs of the names that it uses. */
static const BpIrNode *wrap(const Split *split, const Names *names, const BpIrNode *statement) {
  for (; names && statement; names = names->outer) {
    int used = bp__ir_uses(statement, names->let->operands[0]);
    if (used < 0 || (used && is_changed(split, names->let->operands[1]) != 0))
      return NULL;
    if (used)
      statement =
          bp_ir_let(split->scratch, names->let->operands[0], names->let->operands[1], statement);
  }
  return statement;
}

/* Two statements in sequence; each may be NULL. */
static const BpIrNode *after(const Split *split, const BpIrNode *first, const BpIrNode *second) {
  const BpIrNode *both[] = {first, second};
  return first && second ? bp_ir_seq(split->scratch, both, 2) : second;
}

static bool *new_marks(const Split *split) {
  size_t size = (size_t)split->most_buffers * sizeof(bool);
  bool *marks = bp__ir_alloc(split->scratch, size + 1);
  if (marks)
    memset(marks, 0, size);
  return marks;
}

static bool shares_output(const Split *split, const Unit *unit, const bool *writes) {
  for (int32_t i = 0; i < split->num_buffers; i++)
    if (unit->writes[i] && writes[i])
      return true;
  return false;
}

static int add_unit(Split *split, const BpIrNode *body, bool *writes) {
  Unit *unit = bp__ir_alloc(split->scratch, sizeof *unit);
  if (!unit)
    return -1;
  *unit = (Unit){.body = body, .writes = writes};
  *(split->last ? &split->last->next : &split->first) = unit;
  split->last = unit;
  split->num_units++;
  return 0;
}

/* Adds a statement to the previous kernel, whose output buffers the statement writes again. */
static int extend_unit(const Split *split, Unit *unit, const BpIrNode *statement,
                       const bool *writes) {
  for (int32_t i = 0; i < split->num_buffers; i++)
    unit->writes[i] |= writes[i];
  unit->body = after(split, unit->body, statement);
  return unit->body ? 0 : -1;
}

/* Whether a statement uses a buffer outside global memory that the unit uses: 1, 0, or -1 with an
 * error. */
static int shares_own(const Split *split, const Unit *unit, const BpIrNode *statement) {
  for (int32_t i = 0; i < split->num_own; i++) {
    int used = bp__ir_uses(statement, split->own[i]);
    int before = used > 0 ? bp__ir_uses(unit->body, split->own[i]) : used;
    if (before != 0)
      return before;
  }
  return 0;
}

static int add_statement(Split *split, const Names *names, const BpIrNode *statement) {
  Written written = {.split = split, .writes = new_marks(split)};
  if (!written.writes || bp__ir_visit_once(statement, visit_store, &written) < 0)
    return -1;
  if (!written.is_any && split->num_own == 0)
    return written.may_end ? refuse(split, "a statement at its top level writes nothing") : 0;
  statement = after(split, split->pending, wrap(split, names, statement));
  split->pending = NULL;
  if (!statement)
    return -1;
  if (!written.is_any) {
    split->pending = statement;
    return 0;
  }
  bool is_open = split->num_scalars > 0;
  bool extends = split->last && shares_output(split, split->last, written.writes);
  int shares = extends && is_open ? shares_own(split, split->last, statement) : extends;
  if (shares < 0)
    return -1;
  extends = shares > 0;
  /* In a graph of constant extents each launch makes new values, so a kernel's outputs must be
   * complete: a later kernel could not keep elements that an earlier kernel wrote. */
  for (const Unit *unit = split->first; unit && !is_open; unit = unit->next)
    if ((unit != split->last || !extends) && shares_output(split, unit, written.writes))
      return refuse(split, "it writes a buffer, another one, and the first again");
  return extends ? extend_unit(split, split->last, statement, written.writes)
                 : add_unit(split, statement, written.writes);
}

/* Makes every result an output of a kernel, even if the result has no elements. Only a function
 * that writes nothing has no kernel yet; its kernel does nothing. */
static int give_results(Split *split) {
  for (int32_t i = split->num_params - split->num_results; i < split->num_params; i++) {
    bool is_written = false;
    for (const Unit *unit = split->first; unit; unit = unit->next)
      is_written |= unit->writes[i];
    if (is_written)
      continue;
    bool *writes = split->last ? split->last->writes : new_marks(split);
    if (!writes || (!split->last && add_unit(split, bp__ir_nothing(split->scratch), writes) != 0))
      return -1;
    writes[i] = true;
  }
  return 0;
}

static bool allocates_global(const BpIrNode *node) {
  return node->kind == BP_IR_ALLOCATE && node->operands[0]->int_value == BP_IR_SCOPE_GLOBAL;
}

static int visit_global(void *context, const BpIrNode *node) {
  *(bool *)context |= allocates_global(node);
  return 0;
}

static int walk(Split *split, const Names *names, const BpIrNode *node) {
  bool holds_global = false;
  if (node->kind == BP_IR_ASSERT)
    return 0;
  if (node->kind == BP_IR_SEQ) {
    for (int32_t i = 0; i < node->num_operands; i++)
      if (walk(split, names, node->operands[i]) != 0)
        return -1;
    return 0;
  }
  if (node->kind == BP_IR_LET) {
    Names inner = {node, names};
    return walk(split, &inner, node->operands[2]);
  }
  if (allocates_global(node)) {
    split->elements[split->num_buffers] = count_elements(split, names, node->operands[0]);
    split->buffers[split->num_buffers++] = node->operands[0];
    return walk(split, names, node->operands[1]);
  }
  if (node->kind == BP_IR_ALLOCATE && bp__ir_visit_once(node, visit_global, &holds_global) < 0)
    return -1;
  if (holds_global) {
    split->own[split->num_own++] = node->operands[0];
    return walk(split, names, node->operands[1]);
  }
  return add_statement(split, names, node);
}

/* Moves each buffer that only one kernel uses into that kernel. */
static int give_own(const Split *split) {
  for (int32_t i = split->num_own - 1; i >= 0; i--) {
    bool is_given = false;
    for (Unit *unit = split->first; unit; unit = unit->next) {
      int used = bp__ir_uses(unit->body, split->own[i]);
      if (used > 0 && is_given)
        return refuse(split, "two kernels use a buffer outside global memory");
      if (used > 0)
        unit->body = bp_ir_allocate(split->scratch, split->own[i], unit->body);
      is_given |= used > 0;
      if (used < 0 || !unit->body)
        return -1;
    }
  }
  return 0;
}

/* ---- Kernels ----------------------------------------------------------------------------- */

/* The buffer or scalar that an argument passes. */
static const BpIrNode *argument_of(const Split *split, int32_t arg) {
  if (arg < 0)
    return split->buffers[split->num_params - 1 - arg];
  return arg < split->num_params ? split->buffers[arg] : split->scalars[arg - split->num_params];
}

/* Whether the kernel uses a scalar, for example in the extents of buffers that it accesses. */
static int uses_scalar(const Split *split, const Unit *unit, const BpKernelLaunch *kernel,
                       const BpIrNode *scalar) {
  int uses = bp__ir_uses(unit->body, scalar);
  for (int32_t i = 0; i < kernel->num_args && uses == 0; i++)
    uses = bp__ir_uses(argument_of(split, kernel->args[i]), scalar);
  return uses;
}

/* Lists the scalars that the kernel uses, after its buffers. */
static int list_scalars(const Split *split, const Unit *unit, int32_t *args,
                        BpKernelLaunch *kernel) {
  int32_t count = 0;
  for (int32_t i = 0; i < split->num_scalars; i++) {
    int uses = uses_scalar(split, unit, kernel, split->scalars[i]);
    if (uses < 0)
      return -1;
    if (uses)
      args[kernel->num_args + count++] = split->num_params + i;
  }
  kernel->num_args += count;
  kernel->num_scalars = count;
  return 0;
}

/* Lists the buffers that the kernel reads, in the order of split->buffers, then the buffers that it
 * writes. */
static int list_args(const Split *split, const Unit *unit, int32_t *args, BpKernelLaunch *kernel) {
  kernel->args = args;
  for (int outputs = 0; outputs < 2; outputs++)
    for (int32_t i = 0; i < split->num_buffers; i++) {
      int used = bp__ir_uses(unit->body, split->buffers[i]);
      if (used < 0)
        return -1;
      if (unit->writes[i] != outputs || (!outputs && !used))
        continue;
      args[kernel->num_args++] = i < split->num_params ? i : split->num_params - 1 - i;
      kernel->num_outputs += outputs;
    }
  return list_scalars(split, unit, args, kernel);
}

static const BpIrNode *make_function(const Split *split, const Unit *unit, const char *name,
                                     const int32_t *args, int32_t count) {
  int32_t num_params = split->num_params + split->num_scalars;
  int32_t num_attrs = split->function->num_operands - num_params - 1;
  const BpIrNode **params = bp__ir_alloc(split->scratch, (size_t)(count + 1) * sizeof *params);
  if (!params)
    return NULL;
  for (int32_t i = 0; i < count; i++)
    params[i] = argument_of(split, args[i]);
  const BpIrNode *function =
      bp_ir_function(split->scratch, name, params, count, split->function->operands + num_params,
                     num_attrs, unit->body);
  return function ? bp__pass_mark_kernels(split->scratch, function) : NULL;
}

static int read_launch(Split *split, const BpIrNode *function, BpKernelLaunch *kernel) {
  const BpIrNode *body = bp__ir_function_body(function);
  for (int32_t i = bp__ir_function_num_params(function); i < function->num_operands - 1; i++) {
    const BpIrNode *attr = function->operands[i];
    if (attr->kind != BP_IR_ATTR || strcmp(attr->str_value, BP_IR_ATTR_LAUNCH) != 0)
      continue;
    if (attr->num_operands != 2 || !bp__dtype_is_int(attr->operands[1]->dtype))
      return refuse(split, "the extent of a launch is no integer");
    if (kernel->num_launch == BP_KERNEL_MAX_LAUNCH)
      return refuse(split, "it states more extents of a launch than there are axes");
    const BpIrNode *extent = copy_extent(split, without_names(split, body, attr->operands[1]));
    if (!extent)
      return -1;
    kernel->launch[kernel->num_launch++] = extent;
  }
  return 0;
}

static int count_iterations(Split *split, const BpIrNode *function, BpKernelLaunch *kernel) {
  const BpIrNode *iterations = bp__count_iterations(split->scratch, function);
  kernel->iterations = iterations ? bp__ir_copy(split->result, iterations, &split->copied) : NULL;
  return kernel->iterations ? 0 : -1;
}

static int add_function(const Split *split, const BpIrNode *function, BpKernelLaunch *kernel) {
  BpIrMap done = {0};
  const BpIrNode *copy = bp__ir_copy(split->result, function, &done);
  bp__ir_map_clear(&done);
  if (!copy || bp_ir_module_add(split->result, copy) != 0)
    return -1;
  kernel->name = copy->str_value;
  return 0;
}

static int make_kernel(Split *split, const Unit *unit, int32_t index, BpKernelLaunch *kernel) {
  char name[256];
  size_t most = (size_t)(split->num_buffers + split->num_scalars) + 1;
  int32_t *args = bp__ir_alloc(split->result, most * sizeof *args);
  if (!args || list_args(split, unit, args, kernel) != 0)
    return -1;
  if (unit->next)
    snprintf(name, sizeof name, "%.200s_part%d", split->function->str_value, index);
  else
    snprintf(name, sizeof name, "%.200s", split->function->str_value);
  const BpIrNode *function = make_function(split, unit, name, args, kernel->num_args);
  if (!function || add_function(split, function, kernel) != 0 ||
      read_launch(split, function, kernel) != 0)
    return -1;
  return count_iterations(split, function, kernel);
}

static int make_kernels(Split *split, BpKernelList *list) {
  size_t size = (size_t)split->num_units * sizeof(BpKernelLaunch);
  BpKernelLaunch *kernels = bp__ir_alloc(split->result, size + 1);
  int32_t index = 0;
  if (!kernels)
    return -1;
  memset(kernels, 0, size);
  for (const Unit *unit = split->first; unit; unit = unit->next, index++)
    if (make_kernel(split, unit, index, &kernels[index]) != 0)
      return -1;
  list->kernels = kernels;
  list->kernel_size = sizeof *kernels;
  list->num_kernels = split->num_units;
  return 0;
}

static int describe_scalars(Split *split, BpKernelList *list) {
  const BpIrNode **scalars =
      bp__ir_alloc(split->result, ((size_t)split->num_scalars + 1) * sizeof *scalars);
  if (!scalars)
    return -1;
  for (int32_t i = 0; i < split->num_scalars; i++)
    if (!(scalars[i] = bp__ir_copy(split->result, split->scalars[i], &split->copied)))
      return -1;
  list->scalars = scalars;
  list->num_scalars = split->num_scalars;
  return 0;
}

static int describe_buffers(Split *split, BpKernelList *list) {
  size_t count = (size_t)(split->num_buffers - split->num_params);
  BpDataType *dtypes = bp__ir_alloc(split->result, (count + 1) * sizeof *dtypes);
  const BpIrNode **elements = bp__ir_alloc(split->result, (count + 1) * sizeof *elements);
  if (!dtypes || !elements)
    return -1;
  for (size_t i = 0; i < count; i++) {
    dtypes[i] = split->buffers[split->num_params + (int32_t)i]->dtype;
    elements[i] = copy_extent(split, split->elements[split->num_params + (int32_t)i]);
    if (!elements[i])
      return -1;
  }
  list->num_buffers = (int32_t)count;
  list->buffer_dtypes = dtypes;
  list->buffer_elements = elements;
  return 0;
}

/* ---- The whole function ------------------------------------------------------------------ */

static int visit_allocate(void *context, const BpIrNode *node) {
  *(int32_t *)context += node->kind == BP_IR_ALLOCATE;
  return 0;
}

/* Sorts the parameters: buffers come before scalars. */
static int sort_params(Split *split) {
  const BpIrNode *const *params = split->function->operands;
  int32_t count = bp__ir_function_num_params(split->function);
  while (split->num_params < count && params[split->num_params]->kind == BP_IR_BUFFER)
    split->num_params++;
  split->scalars = params + split->num_params;
  split->num_scalars = count - split->num_params;
  for (int32_t i = 0; i < split->num_scalars; i++)
    if (split->scalars[i]->kind == BP_IR_BUFFER)
      return refuse(split, "a buffer stands behind a scalar among its parameters");
  return 0;
}

static int split_function(Split *split, BpKernelList *list) {
  const BpIrNode *body = bp__ir_function_body(split->function);
  if (sort_params(split) != 0)
    return -1;
  int32_t most = split->num_params;
  if (bp__ir_visit_once(body, visit_allocate, &most) < 0)
    return -1;
  split->most_buffers = most;
  split->buffers = bp__ir_alloc(split->scratch, (size_t)(most + 1) * sizeof *split->buffers);
  split->elements = bp__ir_alloc(split->scratch, (size_t)(most + 1) * sizeof *split->elements);
  split->own = bp__ir_alloc(split->scratch, (size_t)(most + 1) * sizeof *split->own);
  if (!split->buffers || !split->elements || !split->own)
    return -1;
  for (; split->num_buffers < split->num_params; split->num_buffers++)
    split->buffers[split->num_buffers] = split->function->operands[split->num_buffers];
  if (walk(split, NULL, body) != 0 || give_own(split) != 0 || give_results(split) != 0 ||
      describe_scalars(split, list) != 0)
    return -1;
  return describe_buffers(split, list) != 0 ? -1 : make_kernels(split, list);
}

const BpKernelList *bp_ir_split_kernels(const BpIrModule *from, const char *function,
                                        int32_t num_results, BpIrModule *module) {
  if (!BP_NOT_NULL(from) || !BP_NOT_NULL(function) || !BP_NOT_NULL(module))
    return NULL;
  Split split = {
      .result = module, .function = bp_ir_module_find(from, function), .num_results = num_results};
  BpKernelList *list = bp__ir_alloc(module, sizeof *list);
  if (!list)
    return NULL;
  *list = (BpKernelList){.struct_size = sizeof *list};
  if (!split.function) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "the module has no function '%s'", function);
    return NULL;
  }
  split.scratch = bp_ir_module_create();
  int rc = split.scratch ? split_function(&split, list) : -1;
  bp__ir_map_clear(&split.copied);
  bp_object_release(split.scratch);
  return rc ? NULL : list;
}
