/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: names become values, nodes become operators of the table. A call of a model-local
 * function becomes the nodes of the function's body; control.c imports operators that run
 * bodies. */
#include "graph/onnx/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"
#include "graph/ops/op.h"

/* Names go into JSON and file names, so they must be valid text. */
const char *bp__onnx_check_name(const char *name, const char *what) {
  if (is_empty(name))
    bp_error_raise(BP_ERROR_FORMAT, "%s of the model has no name", what);
  else if (!g_utf8_validate(name, -1, NULL))
    bp_error_raise(BP_ERROR_FORMAT, "%s of the model has a name that is not UTF-8", what);
  else
    return name;
  return NULL;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

static const BpInputShape *find_shape(const Import *import, const char *name) {
  for (int32_t i = 0; i < import->num_shapes; i++)
    if (!strcmp(import->shapes[i].name, name))
      return &import->shapes[i];
  return NULL;
}

static int is_listed(const OnnxGraph *onnx, const char *name) {
  for (size_t i = 0; i < onnx->n_input; i++)
    if (!is_empty(onnx->input[i]->name) && !strcmp(onnx->input[i]->name, name))
      return 1;
  return 0;
}

/* A default value of an input whose shape the caller gives is ignored: the caller sets the
 * input. */
static int is_set_instead(const Scope *scope, const char *name) {
  const Import *import = scope->import;
  return scope->depth == 0 && find_shape(import, name) && bp__onnx_has_defaults(import->model) &&
         is_listed(import->onnx, name);
}

/* ---- Symbols ----------------------------------------------------------------------------- */

/* What the inputs tell about a symbol. */
typedef struct Symbol {
  const int64_t *given; /* extent in the first shape that the caller gives; NULL: none */
  bool is_later;        /* whether it is the extent of a later dimension than the first */
  size_t first, last;   /* the first and the last input with it */
} Symbol;

/* What is known about a symbol; NULL: nothing, or no name. */
static Symbol *find_symbol(const Import *import, const char *name) {
  return is_empty(name) ? NULL : g_hash_table_lookup(import->symbols, name);
}

/* Reads a symbol of a dimension of input `i`. */
static void read_symbol(Import *import, const char *name, size_t i, size_t dimension,
                        const int64_t *given) {
  Symbol *symbol = find_symbol(import, name);
  if (is_empty(name))
    return;
  if (!symbol) {
    symbol = g_new0(Symbol, 1);
    symbol->first = i;
    g_hash_table_insert(import->symbols, (char *)(uintptr_t)name, symbol);
  }
  symbol->last = i;
  symbol->given = symbol->given ? symbol->given : given;
  symbol->is_later |= dimension > 0;
}

static void read_symbols(Import *import) {
  import->symbols = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
  for (size_t i = 0; i < import->onnx->n_input; i++) {
    const OnnxValueInfo *info = import->onnx->input[i];
    const BpInputShape *given = is_empty(info->name) ? NULL : find_shape(import, info->name);
    const Backplane__Onnx__TensorShapeProto *shape =
        info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
    for (size_t d = 0; shape && d < shape->n_dim; d++) {
      bool is_given = given && (int32_t)d < given->ndim && bp__onnx_extent(shape->dim[d]) < 0;
      read_symbol(import, bp__onnx_symbol(shape->dim[d]), i, d, is_given ? &given->shape[d] : NULL);
    }
  }
}

/* The extent that another input's shape gives to a symbol, or -1. */
static int64_t symbol_extent(const Import *import, const char *name) {
  const Symbol *symbol = find_symbol(import, name);
  return symbol && symbol->given ? *symbol->given : -1;
}

/* Whether a symbol is the extent of a later dimension than the first in any input. */
static bool is_of_later_dimension(const Import *import, const char *name) {
  const Symbol *symbol = find_symbol(import, name);
  return symbol && symbol->is_later;
}

/* ---- Shapes of inputs -------------------------------------------------------------------- */

/* An example extent for an open dimension: a batch of one picture with three colours, or of one
 * sequence. */
static int64_t example_extent(size_t index, size_t ndim) {
  return index == 0 ? 1 : ndim < 4 ? 128 : index == 1 ? 3 : 224;
}

/* An example option, "--shape NAME=1x3x224x224", for an input; NULL with an error. */
static const char *example_of(BpArena *arena, const OnnxValueInfo *info) {
  const Backplane__Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
  const char *example = bp__arena_printf(arena, "--shape %s=", info->name);
  for (size_t i = 0; example && i < shape->n_dim; i++) {
    int64_t fixed = bp__onnx_extent(shape->dim[i]);
    example = bp__arena_printf(arena, "%s%s%" PRId64, example, i ? "x" : "",
                               fixed < 0 ? example_extent(i, shape->n_dim) : fixed);
  }
  return example;
}

static int raise_open(BpArena *arena, const OnnxValueInfo *info, size_t index) {
  const char *symbol = bp__onnx_symbol(info->type->tensor_type->shape->dim[index]);
  const char *example = example_of(arena, info);
  if (!example)
    return -1;
  return bp_error_raise(BP_ERROR_VALUE,
                        "dimension %zu of input '%s'%s%s%s is not fixed by the model; give the "
                        "input's shape, for example %s (in C and Python: shapes)",
                        index, info->name, is_empty(symbol) ? "" : " ('",
                        is_empty(symbol) ? "" : symbol, is_empty(symbol) ? "" : "')", example);
}

static bool has_open_dimension(const OnnxValueInfo *info) {
  const Backplane__Onnx__TensorShapeProto *shape =
      info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
  for (size_t i = 0; shape && i < shape->n_dim; i++)
    if (bp__onnx_extent(shape->dim[i]) < 0)
      return true;
  return false;
}

/* Adds to the error which fixed shapes may make a model with open extents compile. */
static int suggest_shapes(const Import *import) {
  const char *examples = "";
  if (!bp__graph_is_open(import->graph) || !bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    return -1;
  for (size_t i = 0; examples && i < import->onnx->n_input; i++) {
    const OnnxValueInfo *info = import->onnx->input[i];
    const char *example = "";
    if (has_open_dimension(info) && !find_shape(import, info->name))
      example = example_of(&import->graph->arena, info);
    examples = example ? bp__arena_printf(&import->graph->arena, "%s%s%s", examples,
                                          *examples && *example ? " " : "", example)
                       : NULL;
  }
  return examples && *examples
             ? bp_error_add_context("with open extents, which %s would fix", examples)
             : -1;
}

/* Likely values of open extents, which schedules use. Generated functions are correct for every
 * value of an open extent. */
#define LIKELY_BATCH  1
#define LIKELY_SIDE   256
#define LIKELY_EXTENT 64

static bool has_symbol(const OnnxValueInfo *info, const char *name) {
  const Backplane__Onnx__TensorShapeProto *shape =
      info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
  for (size_t d = 0; !is_empty(name) && shape && d < shape->n_dim; d++)
    if (g_strcmp0(bp__onnx_symbol(shape->dim[d]), name) == 0)
      return true;
  return false;
}

/* Whether an input is one of several matrices of floats: another has an extent of its second
 * dimension, and none of its first. Its rows are then no batch. The first input with a symbol
 * decides about it. */
static bool is_matrix(const Import *import, const OnnxValueInfo *info) {
  const Backplane__Onnx__TensorTypeProto *type = info->type->tensor_type;
  const char *names[] = {bp__onnx_symbol(type->shape->dim[0]),
                         bp__onnx_symbol(type->shape->dim[1])};
  const Symbol *rows = find_symbol(import, names[0]), *columns = find_symbol(import, names[1]);
  OnnxValueInfo *const *inputs = import->onnx->input;
  BpDataType dtype;
  if (!columns || (rows && inputs[rows->first] != info) ||
      bp__dtype_from_onnx(type->elem_type, &dtype) || !bp__dtype_is_float(dtype))
    return false;
  for (size_t i = columns->first; i <= columns->last; i++)
    if (inputs[i] != info && has_symbol(inputs[i], names[1]) && !has_symbol(inputs[i], names[0]))
      return true;
  return false;
}

/* Returns the symbol of an open dimension of the model: the named symbol, or a new symbol. */
static int64_t open_extent(const Import *import, const OnnxValueInfo *info, int32_t dimension) {
  BpGraph *graph = import->graph;
  const Backplane__Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
  const char *symbol = bp__onnx_symbol(shape->dim[dimension]);
  bool is_of_picture = shape->n_dim == 4 && dimension > 1;
  bool is_batch = dimension == 0 && !is_of_later_dimension(import, symbol) &&
                  (shape->n_dim > 2 || (shape->n_dim == 2 && bp__onnx_extent(shape->dim[1]) < 0 &&
                                        !is_matrix(import, info)));
  int64_t likely = is_batch ? LIKELY_BATCH : is_of_picture ? LIKELY_SIDE : LIKELY_EXTENT;
  if (!is_empty(symbol))
    return bp__extent_symbol(&graph->extents, symbol, likely);
  const char *place = bp__arena_printf(&graph->arena, "%s[%d]", info->name, dimension);
  return place ? bp__extent_make_symbol(&graph->extents, place, likely) : BP_EXTENT_NONE;
}

/* Checks the shape that the caller gives an input, or the tensors in it, against the file. */
static int check_given(const char *name, const OnnxType *type, const BpInputShape *given) {
  if (given->ndim > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "input '%s' has %d dimensions, at most %d work",
                          name, given->ndim, BP_GRAPH_MAX_NDIM);
  if (type->ndim >= 0 && type->ndim != given->ndim)
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' has %d dimensions, and %d were given", name,
                          type->ndim, given->ndim);
  for (int32_t i = 0; i < type->ndim; i++)
    if (type->shape[i] >= 0 && given->shape[i] != type->shape[i])
      return bp_error_raise(BP_ERROR_VALUE,
                            "dimension %d of input '%s' is %" PRId64 " in the model, and %" PRId64
                            " was given",
                            i, name, type->shape[i], given->shape[i]);
  return 0;
}

/* The shape of an input: the given shape, checked against the file, or the file's shape. */
static int input_shape(const Import *import, const OnnxValueInfo *info, const OnnxType *type,
                       int64_t *extents, int32_t *ndim) {
  const BpInputShape *given = find_shape(import, info->name);
  const Backplane__Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
  *ndim = given ? given->ndim : type->ndim;
  if (*ndim < 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the model does not say the shape of input '%s'; give it, for example "
                          "--shape %s=1x3x224x224 (in C and Python: shapes)",
                          info->name, info->name);
  if (given && check_given(info->name, type, given))
    return -1;
  for (int32_t i = 0; i < *ndim; i++) {
    extents[i] = given                 ? given->shape[i]
                 : type->shape[i] >= 0 ? type->shape[i]
                                       : symbol_extent(import, bp__onnx_symbol(shape->dim[i]));
    if (extents[i] < 0 && !given && !import->graph->extents.arena)
      return raise_open(&import->graph->arena, info, (size_t)i);
    if (extents[i] < 0 && !given)
      extents[i] = open_extent(import, info, i);
    if (extents[i] == BP_EXTENT_NONE)
      return -1;
  }
  return 0;
}

static int check_can_list(const Import *import, const char *role, const char *name) {
  return bp__graph_can_control(import->graph)
             ? 0
             : bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                              "%s '%s' is a sequence or an optional, which needs one --target; "
                              "compile the model for each target alone",
                              role, name);
}

/* Makes the value of an input that is a sequence or an optional. The tensors may differ in each
 * extent that neither the file nor the caller fixes. */
static BpGraphValue *make_list_input(const Import *import, const OnnxValueInfo *info,
                                     const OnnxType *declared) {
  const BpInputShape *given = find_shape(import, info->name);
  bool is_optional = (declared->kind & BP_MODEL_OPTIONAL) != 0;
  BpGraphSequence type = {.is_open = true,
                          .is_optional = is_optional,
                          .has_sequences = is_optional && (declared->kind & BP_MODEL_SEQUENCE),
                          .dtype = declared->dtype,
                          .ndim = given                ? given->ndim
                                  : declared->ndim < 0 ? BP_NDIM_ANY
                                                       : declared->ndim};
  if (check_can_list(import, "input", info->name) ||
      (given && check_given(info->name, declared, given)))
    return NULL;
  for (int32_t i = 0; i < type.ndim; i++)
    type.shape[i] = given                    ? given->shape[i]
                    : declared->shape[i] < 0 ? BP_EXTENT_NONE
                                             : declared->shape[i];
  return bp__sequence_value(import->graph, info->name, &type);
}

static int add_input(Scope *scope, const OnnxValueInfo *info) {
  int64_t extents[BP_GRAPH_MAX_NDIM];
  Import *import = scope->import;
  OnnxType type;
  BpGraphValue *value;
  int32_t ndim;
  if (!bp__onnx_check_name(info->name, "an input"))
    return -1;
  value = bp__scope_find(scope, info->name);
  if (value && bp__list_index(&import->graph->inputs, value) >= 0)
    return bp_error_raise(BP_ERROR_FORMAT, "the model gives the name '%s' to two inputs",
                          info->name);
  if (value) /* the input is a constant, or its default value is used */
    return bp__onnx_check_default(info, value);
  if (bp__onnx_read_type(info, "input", &type) ||
      (!type.kind && input_shape(import, info, &type, extents, &ndim)))
    return -1;
  value = type.kind ? make_list_input(import, info, &type)
                    : bp__graph_value(import->graph, info->name, type.dtype, extents, ndim);
  return bp__scope_add(scope, info->name, value) || bp__list_push(&import->graph->inputs, value);
}

static const char *first_input(const OnnxGraph *onnx) {
  for (size_t i = 0; i < onnx->n_input; i++)
    if (!is_empty(onnx->input[i]->name) && !bp__onnx_initializer(onnx, onnx->input[i]->name))
      return onnx->input[i]->name;
  return "";
}

static int check_shape(const Import *import, const BpInputShape *shape) {
  const OnnxGraph *onnx = import->onnx;
  if (!is_listed(onnx, shape->name))
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "a shape was given for '%s', which is no input of the model (its first "
                          "is '%s')",
                          shape->name, first_input(onnx));
  if (bp__onnx_initializer(onnx, shape->name) && !bp__onnx_has_defaults(import->model))
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "a shape was given for '%s', which is a constant of the model: it "
                          "declares IR version %" PRId64
                          ", and an initializer can be set as an input from version 4 on",
                          shape->name, import->model->ir_version);
  if (find_shape(import, shape->name) != shape)
    return bp_error_raise(BP_ERROR_VALUE, "two shapes were given for input '%s'", shape->name);
  return 0;
}

int bp__scope_add_initializers(Scope *scope, const OnnxGraph *onnx) {
  for (size_t i = 0; i < onnx->n_initializer; i++) {
    const OnnxTensor *tensor = onnx->initializer[i];
    if (!bp__onnx_check_name(tensor->name, "an initializer"))
      return -1;
    if (is_set_instead(scope, tensor->name))
      continue;
    BpGraphValue *value = bp__onnx_constant(scope->import->graph, tensor, tensor->name);
    if (!value || bp__scope_set(scope, tensor->name, value))
      return -1;
  }
  if (onnx->n_sparse_initializer > 0)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "the model has sparse initializers, which are not supported");
  return 0;
}

static int add_inputs(Scope *scope) {
  const Import *import = scope->import;
  for (int32_t i = 0; i < import->num_shapes; i++)
    if (check_shape(import, &import->shapes[i]))
      return -1;
  read_symbols(scope->import);
  if (bp__scope_add_initializers(scope, import->onnx))
    return -1;
  for (size_t i = 0; i < import->onnx->n_input; i++)
    if (add_input(scope, import->onnx->input[i]))
      return -1;
  return 0;
}

/* ---- Functions of the model -------------------------------------------------------------- */

static const char *domain_of(const char *domain) {
  return is_empty(domain) || !strcmp(domain, "ai.onnx") ? "" : domain;
}

/* The key of a model-local function: domain, name and overload. */
static char *function_key(Import *import, const char *domain, const char *name,
                          const char *overload) {
  return bp__arena_printf(&import->graph->arena, "%s\n%s\n%s", domain_of(domain), name,
                          is_empty(overload) ? "" : overload);
}

static int add_functions(Import *import) {
  size_t count = import->model->n_functions;
  if (!hcreate_r(count + count / 2 + 1, &import->functions))
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu functions of the model", count);
  for (size_t i = 0; i < count; i++) {
    OnnxFunction *function = import->model->functions[i];
    ENTRY entry = {.data = function}, *found = NULL;
    if (!bp__onnx_check_name(function->name, "a function") ||
        !(entry.key = function_key(import, function->domain, function->name, function->overload)))
      return -1;
    if (!hsearch_r(entry, ENTER, &found, &import->functions) || found->data != function)
      return bp_error_raise(BP_ERROR_FORMAT, "the model has two functions '%s'", function->name);
  }
  return 0;
}

/* The model-local function that the node calls, or NULL. */
static const OnnxFunction *find_function(Import *import, const OnnxNode *node) {
  ENTRY key = {0}, *found = NULL;
  if (import->model->n_functions == 0 || is_empty(node->op_type))
    return NULL;
  key.key = function_key(import, node->domain, node->op_type, node->overload);
  if (!key.key)
    bp_error_clear();
  return key.key && hsearch_r(key, FIND, &found, &import->functions) ? found->data : NULL;
}

/* ---- Operators --------------------------------------------------------------------------- */

static const BpOp *find_op(const Scope *scope, const OnnxNode *node) {
  const BpOp *op;
  if (is_empty(node->op_type) || !strcmp(domain_of(node->domain), "backplane"))
    return NULL;
  op = bp__op_find(domain_of(node->domain), node->op_type);
  return op && op->since <= scope->version ? op : NULL;
}

static int is_control(const OnnxNode *node) {
  return !is_empty(node->op_type) && !*domain_of(node->domain) &&
         bp__onnx_is_control(node->op_type);
}

static int is_sequence(const Scope *scope, const OnnxNode *node) {
  return !is_empty(node->op_type) && !*domain_of(node->domain) &&
         bp__onnx_is_sequence(node->op_type, scope->version);
}

bool bp__scope_is_plain(const Scope *scope, size_t index) {
  const OnnxNode *node = scope->nodes[index];
  return find_op(scope, node) && !is_control(node) && !is_sequence(scope, node) &&
         !find_function(scope->import, node);
}

const char *bp__scope_node_name(const Scope *scope, size_t index) {
  const OnnxNode *node = scope->nodes[index];
  BpArena *arena = &scope->import->graph->arena;
  if (is_empty(node->name))
    return bp__arena_printf(arena, "%s%s_%zu", scope->path,
                            is_empty(node->op_type) ? "" : node->op_type, index);
  if (!bp__onnx_check_name(node->name, "a node"))
    return NULL;
  return *scope->path ? bp__arena_printf(arena, "%s%s", scope->path, node->name) : node->name;
}

static int already_named(const Scope *scope, size_t before, const OnnxNode *node) {
  for (size_t i = 0; i < before; i++)
    if (!is_empty(scope->nodes[i]->op_type) && !strcmp(scope->nodes[i]->op_type, node->op_type) &&
        !strcmp(domain_of(scope->nodes[i]->domain), domain_of(node->domain)))
      return 1;
  return 0;
}

#define MAX_NAMED_OPERATORS 64

int bp__scope_check_operators(const Scope *scope) {
  const char *missing = "", *set = ""; /* the operator set is that of ONNX's own domain */
  int32_t count = 0;
  for (size_t i = 0; i < scope->num_nodes && count < MAX_NAMED_OPERATORS; i++) {
    const OnnxNode *node = scope->nodes[i];
    const char *name, *domain = domain_of(node->domain);
    if (find_op(scope, node) || is_control(node) || is_sequence(scope, node) ||
        find_function(scope->import, node))
      continue;
    name = bp__scope_node_name(scope, i);
    if (!name || !bp__onnx_check_name(node->op_type, "the operator of a node") ||
        !g_utf8_validate(domain, -1, NULL))
      return bp_error_raise(BP_ERROR_FORMAT, "node %zu of the model has no proper operator", i);
    if (already_named(scope, i, node))
      continue;
    missing = bp__arena_printf(&scope->import->graph->arena, "%s%s%s%s%s (node '%s')", missing,
                               count ? ", " : "", domain, *domain ? "::" : "", node->op_type, name);
    if (*domain == 0)
      set = bp__arena_printf(&scope->import->graph->arena, "operator set %d of ", scope->version);
    if (!missing || !set)
      return -1;
    count++;
  }
  if (count == 0)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "the model uses %d operator%s that %sthis importer lacks: %s; "
                        "docs/operators.md lists the supported operators",
                        count, count > 1 ? "s" : "", set, missing);
}

/* ---- Attributes -------------------------------------------------------------------------- */

/* The letter of an attribute's type in the attribute list of an operator's row, by ONNX's
 * number. */
static const char *attribute_letter(int32_t type) {
  static const char *const letters[] = {
      [BP_GRAPH_ATTR_FLOAT] = "f",   [BP_GRAPH_ATTR_INT] = "i",     [BP_GRAPH_ATTR_STRING] = "s",
      [BP_GRAPH_ATTR_TENSOR] = "t",  [BP_GRAPH_ATTR_FLOATS] = "fs", [BP_GRAPH_ATTR_INTS] = "is",
      [BP_GRAPH_ATTR_STRINGS] = "ss"};
  return type > 0 && type < (int32_t)(sizeof(letters) / sizeof(letters[0])) ? letters[type] : NULL;
}

/* Whether the attribute list of an operator's row contains "name:letter". */
static int is_accepted(const BpOp *op, const char *name, const char *letter) {
  size_t name_size = strlen(name), letter_size = strlen(letter);
  for (const char *at = op->attrs; (at = strstr(at, name)) != NULL; at++)
    if ((at == op->attrs || at[-1] == ' ') && at[name_size] == ':' &&
        !strncmp(at + name_size + 1, letter, letter_size) &&
        (at[name_size + 1 + letter_size] == ' ' || !at[name_size + 1 + letter_size]))
      return 1;
  return 0;
}

static const char *attribute_text(BpGraph *graph, const ProtobufCBinaryData *bytes) {
  char *text = bp__arena_alloc(&graph->arena, bytes->len + 1);
  if (text && bytes->len > 0)
    memcpy(text, bytes->data, bytes->len);
  return text;
}

static int read_strings(BpGraph *graph, const OnnxAttribute *from, BpGraphAttr *attr) {
  attr->strs = bp__arena_alloc_array(&graph->arena, from->n_strings, sizeof(*attr->strs));
  attr->count = (int32_t)from->n_strings;
  for (size_t i = 0; attr->strs && i < from->n_strings; i++)
    if (!(attr->strs[i] = attribute_text(graph, &from->strings[i])))
      return -1;
  return attr->strs ? 0 : -1;
}

/* Reads the integers of an attribute. The least int64 numbers stand for open extents, so they
 * become the least number that is not an open extent. */
static int read_ints(BpGraph *graph, const int64_t *from, size_t count, BpGraphAttr *attr) {
  int64_t *own = NULL;
  attr->ints = from;
  attr->count = (int32_t)count;
  for (size_t i = 0; i < count; i++) {
    if (!bp__extent_is_open(from[i]))
      continue;
    if (!own && !(own = bp__arena_alloc_array(&graph->arena, count, sizeof(*own))))
      return -1;
    if (attr->ints == from)
      memcpy(own, from, count * sizeof(*own));
    own[i] = BP_EXTENT_LAST_OPEN + 1;
    attr->ints = own;
  }
  return 0;
}

static int read_attribute(Import *import, const BpGraphNode *node, const OnnxAttribute *from,
                          BpGraphAttr *attr) {
  const char *letter = attribute_letter(from->type);
  if (!bp__onnx_check_name(from->name, "an attribute"))
    return bp_error_add_context("node '%s'", node->name);
  if (!letter || !is_accepted(node->op, from->name, letter))
    return bp__op_error(node, "attribute '%s' of type %s is not supported", from->name,
                        letter ? letter : "?");
  *attr = (BpGraphAttr){.name = from->name, .type = from->type, .count = 1};
  if (from->n_ints > INT32_MAX || from->n_floats > INT32_MAX || from->n_strings > INT32_MAX)
    return bp__op_bad(node, "attribute '%s' is too long", from->name);
  switch (from->type) {
  case BP_GRAPH_ATTR_FLOAT:
    attr->floats = &from->f;
    return 0;
  case BP_GRAPH_ATTR_INT:
    return read_ints(import->graph, &from->i, 1, attr);
  case BP_GRAPH_ATTR_STRING:
    attr->str = attribute_text(import->graph, &from->s);
    return attr->str ? 0 : -1;
  case BP_GRAPH_ATTR_TENSOR:
    if (!from->t)
      return bp__op_bad(node, "attribute '%s' has no tensor", from->name);
    attr->tensor = bp__onnx_constant(import->graph, from->t, node->name);
    return attr->tensor ? 0 : -1;
  case BP_GRAPH_ATTR_FLOATS:
    attr->floats = from->floats;
    attr->count = (int32_t)from->n_floats;
    return 0;
  case BP_GRAPH_ATTR_STRINGS:
    return read_strings(import->graph, from, attr);
  default:
    return read_ints(import->graph, from->ints, from->n_ints, attr);
  }
}

/* Whether an attribute is one that old models and some exporters write, and that has no effect. */
static int is_ignored(const OnnxNode *node, const OnnxAttribute *attribute) {
  return is_empty(attribute->name)
             ? 0
             : !strcmp(attribute->name, "consumed_inputs") ||
                   (!strcmp(node->op_type, "Constant") && !strcmp(attribute->name, "doc_string"));
}

/* ---- Nodes ------------------------------------------------------------------------------- */

int bp__scope_read_names(Scope *scope, const OnnxNode *node, const char *name,
                         BpGraphValue **inputs) {
  for (size_t i = 0; i < node->n_input; i++) {
    int found = is_empty(node->input[i]) ? 1 : bp__scope_look_up(scope, node->input[i], &inputs[i]);
    if (found == 0)
      return bp_error_raise(
          BP_ERROR_FORMAT,
          "node '%s' (%s) reads '%s', which no input, initializer or earlier node gives", name,
          node->op_type, node->input[i]);
    if (found < 0)
      return -1;
  }
  return 0;
}

int bp__scope_read_inputs(Scope *scope, const OnnxNode *node, const char *name,
                          BpGraphValue **inputs) {
  if (bp__scope_read_names(scope, node, name, inputs))
    return -1;
  for (size_t i = 0; i < node->n_input; i++)
    if (inputs[i] && inputs[i]->sequence)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "node '%s' (%s): its input '%s' is a sequence or an optional, which it "
                            "does not take",
                            name, node->op_type, node->input[i]);
  return 0;
}

static int read_attributes(const Scope *scope, const OnnxNode *from, BpGraphNode *node,
                           BpGraphAttr *attrs) {
  node->attrs = attrs;
  for (size_t i = 0; i < from->n_attribute; i++) {
    const OnnxAttribute *attribute;
    if (is_ignored(from, from->attribute[i]))
      continue;
    if (bp__scope_resolve_attribute(scope, from->attribute[i], &attribute) ||
        (attribute && read_attribute(scope->import, node, attribute, &attrs[node->num_attrs])))
      return -1;
    node->num_attrs += attribute != NULL;
  }
  return 0;
}

static BpGraphNode *make_node(Scope *scope, const OnnxNode *from, const char *name) {
  BpGraph *graph = scope->import->graph;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, from->n_input, sizeof(*inputs));
  BpGraphAttr *attrs = bp__arena_alloc_array(&graph->arena, from->n_attribute, sizeof(*attrs));
  size_t num_outputs = from->n_output;
  BpGraphNode *node;
  while (num_outputs > 0 && is_empty(from->output[num_outputs - 1]))
    num_outputs--;
  if (!inputs || !attrs || bp__scope_read_inputs(scope, from, name, inputs))
    return NULL;
  if (from->n_input > INT16_MAX || num_outputs > INT16_MAX) {
    bp_error_raise(BP_ERROR_FORMAT, "node '%s' has %zu inputs and %zu outputs, at most %d work",
                   name, from->n_input, num_outputs, INT16_MAX);
    return NULL;
  }
  node = bp__graph_node(graph, find_op(scope, from), name, inputs, (int32_t)from->n_input,
                        (int32_t)num_outputs, NULL, 0);
  if (!node)
    return NULL;
  node->version = scope->version;
  return read_attributes(scope, from, node, attrs) ? NULL : node;
}

int bp__scope_note_failing(const Scope *scope) {
  Import *import = scope->import;
  if (!import->is_query)
    import->failing = bp__arena_printf(&import->graph->arena, "%s", bp_error_message());
  return -1;
}

int bp__scope_note_unfit(const Scope *scope, const BpGraphNode *node) {
  bool is_open = false;
  for (int32_t i = 0; i < node->num_inputs; i++)
    is_open |= node->inputs[i] && bp__value_is_open(node->inputs[i]);
  if (!bp_error_is(BP_ERROR_FORMAT) && !(is_open && bp_error_is(BP_ERROR_NOT_IMPLEMENTED)))
    return -1;
  if (is_open) /* an operator that does not take open extents may be at fault, and not the model */
    bp_error_add_context("with open extents, which --shape fixes");
  return bp__scope_note_failing(scope);
}

/* Appends the nodes that compute a node of the model and, if sources are kept, keeps the node as
 * the model has it. */
static int append_op(const Scope *scope, BpGraphNode *node) {
  BpGraph *graph = scope->import->graph;
  size_t first = graph->nodes.size;
  BpGraphNode *source = NULL;
  if (graph->has_sources) {
    source = bp__graph_node(graph, node->op, node->name, node->inputs, node->num_inputs, 0,
                            node->attrs, node->num_attrs);
    if (!source || bp__list_push(&graph->sources, source))
      return -1;
    source->version = node->version;
  }
  if (bp__op_append(graph, node))
    return bp__scope_note_unfit(scope, node);
  if (source) {
    source->num_outputs = node->num_outputs;
    source->outputs = node->outputs;
  }
  for (size_t i = first; i < graph->nodes.size; i++)
    ((BpGraphNode *)graph->nodes.items[i])->source = (int32_t)graph->sources.size;
  return 0;
}

static int add_op(Scope *scope, size_t index, const char *name) {
  const OnnxNode *from = scope->nodes[index];
  BpGraphNode *node = make_node(scope, from, name);
  if (!node || append_op(scope, node))
    return -1;
  for (int32_t i = 0; i < node->num_outputs; i++) {
    if (is_empty(from->output[i]))
      continue;
    if (!node->outputs[i])
      return bp__op_error(node, "its output %d is not supported", i);
    if (bp__scope_add(scope, from->output[i], node->outputs[i]))
      return -1;
  }
  return 0;
}

/* ---- Calls ------------------------------------------------------------------------------- */

static int read_version(Backplane__Onnx__OperatorSetIdProto *const *sets, size_t count,
                        int32_t *version) {
  for (size_t i = 0; i < count; i++) {
    if (*domain_of(sets[i]->domain))
      continue;
    if (sets[i]->version < BP_OP_OLDEST_VERSION || sets[i]->version > BP_OP_NEWEST_VERSION)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "the model uses operator set %" PRId64
                            ", %d to %d work; convert it with "
                            "onnx.version_converter",
                            sets[i]->version, BP_OP_OLDEST_VERSION, BP_OP_NEWEST_VERSION);
    *version = (int32_t)sets[i]->version;
    return 0;
  }
  return 0;
}

int bp__scope_enter(const Scope *scope, const char *name, Scope *inner) {
  *inner = (Scope){.import = scope->import,
                   .body = scope->body,
                   .actuals = scope->actuals,
                   .num_actuals = scope->num_actuals,
                   .version = scope->version,
                   .depth = scope->depth + 1};
  if (inner->depth > MAX_DEPTH)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' is a call or has bodies in %d others, which is the limit; a "
                          "function may not call itself",
                          name, MAX_DEPTH);
  inner->path = bp__arena_printf(&scope->import->graph->arena, "%s/", name);
  return inner->path ? bp__graph_use_node(scope->import->graph) : -1;
}

/* Reads the attributes of a function: the values of the call, or the defaults. */
static int read_actuals(const Scope *scope, const OnnxNode *call, const OnnxFunction *function,
                        Scope *inner) {
  size_t count = function->n_attribute + function->n_attribute_proto;
  inner->num_actuals = 0;
  inner->actuals =
      bp__arena_alloc_array(&scope->import->graph->arena, count, sizeof(*inner->actuals));
  for (size_t i = 0; inner->actuals && i < count; i++) {
    const OnnxAttribute *otherwise =
        i < function->n_attribute ? NULL : function->attribute_proto[i - function->n_attribute];
    const char *name = otherwise ? otherwise->name : function->attribute[i];
    const OnnxAttribute *actual = NULL, *given;
    if (!bp__onnx_check_name(name, "an attribute of a function"))
      return -1;
    given = bp__onnx_find_attribute(call->attribute, call->n_attribute, name);
    if (given && bp__scope_resolve_attribute(scope, given, &actual))
      return -1;
    actual = actual ? actual : otherwise;
    if (actual)
      inner->actuals[inner->num_actuals++] = actual;
  }
  return inner->actuals ? 0 : -1;
}

static int bind_inputs(Scope *scope, const OnnxNode *call, const char *name,
                       const OnnxFunction *function, Scope *inner) {
  BpGraphValue **inputs =
      bp__arena_alloc_array(&scope->import->graph->arena, call->n_input, sizeof(*inputs));
  if (!inputs || bp__scope_read_names(scope, call, name, inputs))
    return -1;
  for (size_t i = 0; i < function->n_input; i++)
    if (!bp__onnx_check_name(function->input[i], "an input of a function") ||
        bp__scope_set(inner, function->input[i], i < call->n_input ? inputs[i] : NULL))
      return -1;
  return 0;
}

static int add_body(Scope *scope, const OnnxNode *call, const char *name,
                    const OnnxFunction *function, Scope *inner) {
  if (bind_inputs(scope, call, name, function, inner) || bp__scope_check_operators(inner))
    return -1;
  int status = bp__scope_add_nodes(inner);
  return status ? status : bp__scope_return(inner, scope, call, name);
}

static int add_call(Scope *scope, const OnnxNode *call, const char *name,
                    const OnnxFunction *function) {
  Scope inner;
  if (call->n_input > function->n_input || call->n_output > function->n_output)
    return bp_error_raise(
        BP_ERROR_FORMAT, "node '%s' has %zu inputs and %zu outputs; function '%s' has %zu and %zu",
        name, call->n_input, call->n_output, function->name, function->n_input, function->n_output);
  if (bp__scope_enter(scope, name, &inner) || read_actuals(scope, call, function, &inner) ||
      read_version(function->opset_import, function->n_opset_import, &inner.version))
    return -1;
  inner.nodes = function->node;
  inner.num_nodes = function->n_node;
  inner.function = function;
  inner.caller = scope;
  inner.level = scope->level + 1;
  bp__scope_open(&inner);
  int status = add_body(scope, call, name, function, &inner);
  bp__scope_close(&inner);
  return status;
}

/* ---- The whole --------------------------------------------------------------------------- */

/* The sequence or optional that is the input of an Identity, or NULL. */
static BpGraphValue *identical_sequence(Scope *scope, const OnnxNode *node) {
  if (is_empty(node->op_type) || *domain_of(node->domain) || strcmp(node->op_type, "Identity") ||
      node->n_input != 1 || node->n_output != 1 || is_empty(node->input[0]))
    return NULL;
  BpGraphValue *value = bp__scope_find(scope, node->input[0]);
  return value && value->sequence ? value : NULL;
}

static int add_node(Scope *scope, size_t index) {
  const OnnxNode *node = scope->nodes[index];
  const OnnxFunction *function = find_function(scope->import, node);
  const char *name = bp__scope_node_name(scope, index);
  if (!name)
    return -1;
  BpGraphValue *identical = function ? NULL : identical_sequence(scope, node);
  if (identical)
    return bp__scope_add(scope, node->output[0], identical);
  return function                   ? add_call(scope, node, name, function)
         : is_control(node)         ? bp__scope_add_control(scope, node, name)
         : is_sequence(scope, node) ? bp__scope_add_sequence(scope, node, name)
                                    : add_op(scope, index, name);
}

static int check_output(Scope *scope, size_t index, const OnnxValueInfo *info) {
  const BpGraphValue *value = bp__scope_find(scope, info->name);
  if (!value || !bp__onnx_check_type(info, value, "its output"))
    return 0;
  const char *name = bp__scope_node_name(scope, index);
  return name ? bp_error_add_context("node '%s' (%s)", name, scope->nodes[index]->op_type) : -1;
}

/* Checks the types that the graph declares for the outputs of a node. */
static int check_outputs(Scope *scope, size_t index) {
  const OnnxNode *node = scope->nodes[index];
  for (size_t k = 0; k < node->n_output && scope->declared; k++) {
    const char *name = node->output[k];
    const OnnxValueInfo *info = is_empty(name) ? NULL : g_hash_table_lookup(scope->declared, name);
    if (info && check_output(scope, index, info))
      return -1;
  }
  return 0;
}

int bp__scope_add_next(Scope *scope) {
  size_t index = scope->next++;
  int status = add_node(scope, index);
  if (status > 0 && scope->import->place != scope)
    return 1;
  return status < 0 ? -1 : check_outputs(scope, index);
}

int bp__scope_add_nodes(Scope *scope) {
  int status = 0;
  bp__scope_sort(scope);
  if (scope->onnx)
    scope->declared = bp__onnx_declared(scope->onnx);
  while (scope->next < scope->num_nodes && !status)
    status = bp__scope_add_next(scope);
  return status;
}

/* Makes an output open if it is a sequence or an optional, or is declared as an optional. An output
 * that is declared as a sequence is one, also if an optional has it. */
static BpGraphValue *open_output(Scope *scope, const OnnxValueInfo *info, BpGraphValue *value) {
  const BpOp op = {.name = "output of the model"};
  const BpGraphNode named = {.name = info->name, .op = &op};
  BpGraph *graph = scope->import->graph;
  bool is_optional = info->type && info->type->has_optional_type;
  if (!value->sequence && !is_optional)
    return value;
  if (check_can_list(scope->import, "output", info->name))
    return NULL;
  if (info->type && info->type->has_sequence_type && bp__is_open_sequence(value) &&
      value->sequence->has_sequences)
    return bp__sequence_at(graph, &named, value, NULL);
  return is_optional ? bp__sequence_make_optional(graph, &named, value)
                     : bp__sequence_open(graph, &named, value);
}

static int add_outputs(Scope *scope) {
  BpGraph *graph = scope->import->graph;
  const OnnxGraph *onnx = scope->import->onnx;
  size_t count = onnx->n_output;
  if (count == 0)
    return bp_error_raise(BP_ERROR_FORMAT, "the model has no outputs");
  graph->output_names = bp__arena_alloc_array(&graph->arena, count, sizeof(char *));
  if (!graph->output_names)
    return -1;
  for (size_t i = 0; i < count; i++) {
    const char *name = bp__onnx_check_name(onnx->output[i]->name, "an output");
    BpGraphValue *value = name ? bp__scope_find(scope, name) : NULL;
    if (!name)
      return -1;
    if (!value)
      return bp_error_raise(BP_ERROR_FORMAT, "no node of the model gives its output '%s'", name);
    value = open_output(scope, onnx->output[i], value);
    graph->output_names[i] = name;
    if (!value || bp__list_push(&graph->outputs, value))
      return -1;
  }
  return 0;
}

/* Opens the scope of the model's nodes, without names. */
static int open_scope(Import *import, Scope *scope) {
  const OnnxModel *model = import->model;
  /* Without a version, no node may be of ONNX's own operator set. */
  *scope = (Scope){.import = import,
                   .path = "",
                   .nodes = model->graph->node,
                   .num_nodes = model->graph->n_node,
                   .onnx = model->graph,
                   .version = BP_OP_NEWEST_VERSION};
  return add_functions(import) ||
                 read_version(model->opset_import, model->n_opset_import, &scope->version)
             ? -1
             : 0;
}

/* Missing operators are reported before a missing input. */
static int import_model(Import *import) {
  Scope scope;
  if (open_scope(import, &scope) || bp__scope_check_operators(&scope))
    return -1;
  bp__scope_open(&scope);
  int status = add_inputs(&scope)            ? -1
               : bp__scope_add_nodes(&scope) ? suggest_shapes(import)
                                             : add_outputs(&scope);
  bp__scope_close(&scope);
  return status;
}

static void clear_import(Import *import) {
  hdestroy_r(&import->functions);
  g_hash_table_destroy(import->branches);
  if (import->symbols)
    g_hash_table_destroy(import->symbols);
}

int bp__onnx_import(BpGraph *graph, const OnnxModel *model, const BpInputShape *shapes,
                    int32_t num_shapes) {
  Import import = {.graph = graph,
                   .model = model,
                   .onnx = model->graph,
                   .shapes = shapes,
                   .num_shapes = num_shapes};
  import.branches = g_hash_table_new(NULL, NULL);
  int status = import_model(&import);
  clear_import(&import);
  return status;
}

int bp__onnx_check_operators(const OnnxModel *model) {
  BpGraph graph = {0};
  Import import = {.graph = &graph, .model = model, .onnx = model->graph};
  Scope scope;
  int status = open_scope(&import, &scope) || bp__scope_check_operators(&scope) ? -1 : 0;
  hdestroy_r(&import.functions);
  bp__arena_free(&graph.arena);
  return status;
}

/* ---- Describing -------------------------------------------------------------------------- */

static const char *how_computed(const Scope *scope, const OnnxNode *node) {
  const BpOp *op = find_op(scope, node);
  return find_function(scope->import, node) ? "function"
         : is_control(node)                 ? "control flow"
         : is_sequence(scope, node)         ? "while it is read"
         : op                               ? bp__op_how(op)
                                            : NULL;
}

static int visit_node(Scope *scope, size_t index, int has_values, BpOnnxNodeVisit visit,
                      void *context) {
  const OnnxNode *node = scope->nodes[index];
  const char *name = bp__scope_node_name(scope, index);
  BpGraphValue **outputs =
      bp__arena_alloc_array(&scope->import->graph->arena, node->n_output + 1, sizeof(*outputs));
  if (!name || !outputs)
    return -1;
  for (size_t i = 0; i < node->n_output && has_values; i++) {
    outputs[i] = is_empty(node->output[i]) ? NULL : bp__scope_find(scope, node->output[i]);
    if (outputs[i] && outputs[i]->sequence)
      outputs[i] = NULL;
  }
  return visit(context, &scope->import->graph->extents, node, name, how_computed(scope, node),
               outputs);
}

int bp__onnx_visit_nodes(const OnnxModel *model, BpOnnxNodeVisit visit, void *context, char **why) {
  BpGraph graph = {0};
  Import import = {.graph = &graph, .model = model, .onnx = model->graph};
  Scope scope;
  import.branches = g_hash_table_new(NULL, NULL);
  *why = NULL;
  int status = bp__graph_can_be_open(&graph);
  int is_open = status == 0 && !open_scope(&import, &scope);
  int has_values = is_open && !bp__scope_check_operators(&scope);
  if (has_values)
    bp__scope_open(&scope);
  if (status == 0 && (!has_values || add_inputs(&scope) || bp__scope_add_nodes(&scope))) {
    *why = g_strdup(bp_error_message());
    bp_error_clear();
  }
  int can_visit = status == 0 && import.functions.table; /* NULL table: memory was exhausted */
  for (size_t i = 0; can_visit && status == 0 && i < scope.num_nodes; i++)
    status = visit_node(&scope, i, has_values, visit, context);
  if (has_values)
    bp__scope_close(&scope);
  clear_import(&import);
  bp__graph_clear(&graph);
  return status;
}

/* ---- Querying ---------------------------------------------------------------------------- */

/* Adds the inputs that can be imported; the others stay unknown. */
static int add_known_inputs(Scope *scope) {
  const OnnxGraph *onnx = scope->import->onnx;
  read_symbols(scope->import);
  if (bp__scope_add_initializers(scope, onnx))
    return -1;
  for (size_t i = 0; i < onnx->n_input; i++)
    if (add_input(scope, onnx->input[i]))
      bp_error_clear();
  return 0;
}

/* Raises an error if the node reads an unknown value; bodies of the node are not checked. */
static int check_inputs_known(Scope *scope, const OnnxNode *node) {
  BpGraphValue *value;
  for (size_t i = 0; i < node->n_input; i++)
    if (!is_empty(node->input[i]) && bp__scope_look_up(scope, node->input[i], &value) != 1)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "the type of its input '%s' is not known, or is not supported",
                            node->input[i]);
  return 0;
}

/* Imports one node, and no node behind it; -1 with the reason as an error if that is impossible. */
static int try_node(Scope *scope, size_t index) {
  Scope one = *scope;
  one.nodes = &scope->nodes[index];
  one.num_nodes = 1;
  scope->num_nodes = scope->next = index + 1;
  return check_inputs_known(scope, scope->nodes[index]) || bp__scope_check_operators(&one) ||
                 add_node(scope, index)
             ? -1
             : 0;
}

/* Adds the outputs of a node that was left out as inputs of the graph. */
static void add_outputs_as_inputs(Scope *scope, GHashTable *infos, const OnnxNode *node) {
  BpGraphValue *value;
  for (size_t i = 0; i < node->n_output; i++) {
    const OnnxValueInfo *info =
        is_empty(node->output[i]) ? NULL : g_hash_table_lookup(infos, node->output[i]);
    if (info && bp__scope_look_up(scope, node->output[i], &value) == 0 && add_input(scope, info))
      bp_error_clear();
  }
}

static int query_nodes(Scope *scope, BpOnnxQueryNode visit, void *context) {
  const OnnxGraph *onnx = scope->import->onnx;
  GHashTable *infos = g_hash_table_new(g_str_hash, g_str_equal);
  int status = 0;
  for (size_t i = 0; i < onnx->n_value_info; i++)
    if (!is_empty(onnx->value_info[i]->name))
      g_hash_table_insert(infos, onnx->value_info[i]->name, onnx->value_info[i]);
  for (size_t i = 0; i < onnx->n_node && status == 0; i++) {
    char *why = NULL;
    if (try_node(scope, i)) {
      why = g_strdup(bp_error_message());
      bp_error_clear();
      add_outputs_as_inputs(scope, infos, scope->nodes[i]);
    }
    status = visit(context, i, why);
    g_free(why);
  }
  g_hash_table_destroy(infos);
  return status;
}

int bp__onnx_query_nodes(const OnnxModel *model, BpOnnxQueryNode visit, void *context) {
  BpGraph graph = {0};
  Import import = {.graph = &graph, .model = model, .onnx = model->graph, .is_query = true};
  Scope scope;
  int status = -1;
  import.branches = g_hash_table_new(NULL, NULL);
  if (!bp__graph_can_be_open(&graph) && !open_scope(&import, &scope)) {
    bp__scope_open(&scope);
    status = add_known_inputs(&scope) ? -1 : query_nodes(&scope, visit, context);
    bp__scope_close(&scope);
  }
  clear_import(&import);
  bp__graph_clear(&graph);
  return status;
}
