/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier checks operand counts, types, and that every VAR and BUFFER is used only in its
 * scope. */

#include <stdarg.h>
#include <math.h>
#include <stdio.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/intrinsics.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/syntax.h"
#include "compiler/ir/types.h"

/* The statements around a place, the innermost first. */
typedef struct Place {
  const struct Place *outer;
  const BpIrNode *node;
} Place;

typedef struct Verifier {
  const BpIrNode *function;
  const Place *place;
  BpIrMap scope; /* VAR or BUFFER -> IN_SCOPE or LEFT */
  /* Node -> the epoch in which the node was verified; an epoch ends when a name leaves its
   * scope. */
  BpIrMap good;
  uintptr_t epoch;
  bool is_between_passes;
} Verifier;

static char in_scope_mark, left_mark;
#define IN_SCOPE ((const void *)&in_scope_mark)
#define LEFT     ((const void *)&left_mark)

static int verify(Verifier *verifier, const BpIrNode *node);

/* ---- Errors ------------------------------------------------------------------------------ */

static size_t describe_place(const Place *place, char *text, size_t size) {
  if (!place)
    return 0;
  size_t length = describe_place(place->outer, text, size);
  if (length + 80 > size)
    return length;
  const BpIrNode *node = place->node;
  const char *name = "";
  if ((node->kind == BP_IR_FOR || node->kind == BP_IR_LET || node->kind == BP_IR_ALLOCATE ||
       node->kind == BP_IR_STORE) &&
      node->num_operands > 0)
    name = node->operands[0]->str_value;
  int written = snprintf(text + length, size - length, ", %s%s%.40s",
                         bp__ir_kind_name(node->kind) ? bp__ir_kind_name(node->kind) : "?",
                         *name ? " " : "", name);
  return length + (size_t)written;
}

__attribute__((format(printf, 3, 4))) static int fail(Verifier *verifier, const BpIrNode *node,
                                                      const char *format, ...) {
  char place[512] = "", message[256], shown[120];
  describe_place(verifier->place, place, sizeof place);
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  bp__ir_print_short(node, shown, sizeof shown);
  return bp_error_raise(BP_ERROR_VALUE, "IR function '%.100s'%s: %s, in %s",
                        verifier->function->str_value, place, message, shown);
}

static int fail_type(Verifier *verifier, const BpIrNode *node, int32_t operand,
                     const char *wanted) {
  char found[32];
  bp__ir_format_dtype(node->operands[operand]->dtype, found);
  return fail(verifier, node, "operand %d of %s is %s, not %s", operand,
              bp__ir_kind_name(node->kind), found, wanted);
}

/* ---- Types ------------------------------------------------------------------------------- */

static bool is_scalar_int(const BpIrNode *node) {
  return bp__dtype_is_int(node->dtype) && bp__dtype_is_number(node->dtype) &&
         node->dtype.lanes == 1;
}

static bool is_bool(const BpIrNode *node, uint16_t lanes) {
  return bp__dtype_equal(node->dtype, bp__dtype_bool(lanes));
}

static bool is_value(const BpIrNode *node) {
  return bp__dtype_is_number(node->dtype) || bp__dtype_equal(node->dtype, bp__dtype_handle());
}

/* The operands that a kind requires, a letter for each: 'v' a value, 's' a statement, 'b' a BUFFER,
 * 'n' a VAR; '?' makes all further operands optional, '*' allows any number of the next. */
static const char *shape_of(int32_t kind) {
  switch (kind) {
  case BP_IR_INT_IMM:
  case BP_IR_FLOAT_IMM:
  case BP_IR_STR_IMM:
  case BP_IR_VAR:
  case BP_IR_BARRIER:
    return "";
  case BP_IR_NOT:
  case BP_IR_CAST:
  case BP_IR_REINTERPRET:
  case BP_IR_BROADCAST:
  case BP_IR_REDUCE:
  case BP_IR_ASSERT:
    return "v";
  case BP_IR_EVALUATE:
    return "e";
  case BP_IR_SELECT:
    return "vvv";
  case BP_IR_LOAD:
    return "bv?v";
  case BP_IR_ADDRESS:
    return "bv";
  case BP_IR_SHUFFLE:
  case BP_IR_ATTR:
  case BP_IR_BUFFER:
    return "*v";
  case BP_IR_CALL:
    return "*a";
  case BP_IR_SEQ:
    return "*s";
  case BP_IR_FOR:
    return "nvvs";
  case BP_IR_STORE:
    return "bvv?v";
  case BP_IR_LET:
    return "nvs";
  case BP_IR_IF:
    return "vs?s";
  case BP_IR_ALLOCATE:
    return "bs";
  case BP_IR_WHILE:
    return "vs";
  default: /* kinds ADD to SHR, and RAMP */
    return "vv";
  }
}

static bool fits_letter(const BpIrNode *operand, char letter) {
  switch (letter) {
  case 'v':
    return operand->kind != BP_IR_BUFFER && is_value(operand);
  case 'a':
    return operand->kind == BP_IR_BUFFER || is_value(operand);
  case 'e':
    return operand->kind < BP_IR_SEQ;
  case 's':
    return bp__ir_is_statement(operand);
  case 'b':
    return operand->kind == BP_IR_BUFFER;
  default:
    return operand->kind == BP_IR_VAR;
  }
}

static const char *letter_words(char letter) {
  switch (letter) {
  case 's':
    return "a statement";
  case 'b':
    return "a buffer";
  case 'n':
    return "a variable";
  default:
    return "a value";
  }
}

static int check_shape(Verifier *verifier, const BpIrNode *node) {
  const char *shape = shape_of(node->kind);
  bool optional = false;
  int32_t i = 0;
  for (; *shape; shape++) {
    if (*shape == '?') {
      optional = true;
      continue;
    }
    if (*shape == '*')
      break;
    if (i == node->num_operands)
      return optional ? 0
                      : fail(verifier, node, "%s lacks operand %d, %s",
                             bp__ir_kind_name(node->kind), i, letter_words(*shape));
    if (!fits_letter(node->operands[i++], *shape))
      return fail(verifier, node, "operand %d of %s is not %s", i - 1, bp__ir_kind_name(node->kind),
                  letter_words(*shape));
  }
  if (!*shape && i < node->num_operands)
    return fail(verifier, node, "%s has %d operands, at most %d are allowed",
                bp__ir_kind_name(node->kind), node->num_operands, i);
  for (; *shape && i < node->num_operands; i++)
    if (!fits_letter(node->operands[i], shape[1]))
      return fail(verifier, node, "operand %d of %s is not %s", i, bp__ir_kind_name(node->kind),
                  letter_words(shape[1]));
  return 0;
}

/* ---- Expressions ------------------------------------------------------------------------- */

static int check_constant(Verifier *verifier, const BpIrNode *node) {
  if (node->kind == BP_IR_STR_IMM)
    return bp__dtype_equal(node->dtype, bp__dtype_handle())
               ? 0
               : fail(verifier, node, "a string's type is handle");
  bool is_float = node->kind == BP_IR_FLOAT_IMM;
  if (!bp__dtype_is_number(node->dtype) || node->dtype.lanes != 1 ||
      bp__dtype_is_float(node->dtype) != is_float)
    return fail(verifier, node, "the constant's type is no scalar %s type",
                is_float ? "float" : "integer or bool");
  double value = node->float_value;
  if (is_float ? !isnan(value) && bp__scalar_round(node->dtype, value) != value
               : bp__scalar_wrap(node->dtype, node->int_value) != node->int_value)
    return fail(verifier, node, "the constant is not representable in its type");
  return 0;
}

static int check_binary(Verifier *verifier, const BpIrNode *node) {
  BpDataType a = node->operands[0]->dtype;
  if (!bp__dtype_equal(a, node->operands[1]->dtype)) {
    char wanted[32];
    bp__ir_format_dtype(a, wanted);
    return fail_type(verifier, node, 1, wanted);
  }
  const char *wanted = bp__ir_wanted_type(node->kind, a);
  return wanted ? fail_type(verifier, node, 0, wanted) : 0;
}

static int check_conversion(Verifier *verifier, const BpIrNode *node) {
  BpDataType from = node->operands[0]->dtype, to = node->dtype;
  if (!bp__dtype_is_number(from) || !bp__dtype_is_number(to))
    return fail(verifier, node, "%s is between numbers", bp__ir_kind_name(node->kind));
  if (node->kind == BP_IR_CAST)
    return from.lanes == to.lanes ? 0 : fail(verifier, node, "cast changes the number of lanes");
  if (bp__dtype_is_bool(from) || bp__dtype_is_bool(to) ||
      (unsigned)from.bits * from.lanes != (unsigned)to.bits * to.lanes)
    return fail(verifier, node, "reinterpret is between numbers, not bool, of one size");
  return 0;
}

static int check_access(Verifier *verifier, const BpIrNode *node) {
  const BpIrNode *index = node->operands[1];
  if (!bp__dtype_is_int(index->dtype))
    return fail_type(verifier, node, 1, "an integer");
  int32_t mask = node->kind == BP_IR_STORE ? 3 : 2;
  if (node->num_operands > mask && !is_bool(node->operands[mask], index->dtype.lanes))
    return fail_type(verifier, node, mask, "bool with the lanes of the index");
  if (node->kind == BP_IR_ADDRESS && index->dtype.lanes != 1)
    return fail_type(verifier, node, 1, "a scalar");
  BpDataType held = bp__dtype_with_lanes(node->operands[0]->dtype, index->dtype.lanes);
  if (node->kind == BP_IR_STORE && !bp__dtype_equal(node->operands[2]->dtype, held)) {
    char wanted[32];
    bp__ir_format_dtype(held, wanted);
    return fail_type(verifier, node, 2, wanted);
  }
  return 0;
}

static int check_shuffle(Verifier *verifier, const BpIrNode *node) {
  int64_t num_vectors = node->int_value, total = 0;
  if (num_vectors < 1 || num_vectors >= node->num_operands ||
      node->num_operands - num_vectors > UINT16_MAX)
    return fail(verifier, node, "shuffle needs vectors and then the lanes to pick");
  BpDataType element = bp__dtype_element(node->operands[0]->dtype);
  for (int64_t i = 0; i < num_vectors; i++) {
    if (!bp__dtype_equal(bp__dtype_element(node->operands[i]->dtype), element))
      return fail(verifier, node, "shuffle has vectors of different types");
    total += node->operands[i]->dtype.lanes;
  }
  for (int32_t i = (int32_t)num_vectors; i < node->num_operands; i++) {
    const BpIrNode *lane = node->operands[i];
    if (lane->kind != BP_IR_INT_IMM || lane->int_value < 0 || lane->int_value >= total)
      return fail(verifier, node, "operand %d of shuffle is not a constant from 0 to %lld", i,
                  (long long)total - 1);
  }
  return 0;
}

static int check_vector(Verifier *verifier, const BpIrNode *node) {
  static const char *const reductions[] = {"add", "mul", "min", "max"};
  const BpIrNode *first = node->operands[0];
  if (node->kind != BP_IR_REDUCE) {
    if (node->dtype.lanes < 2 || first->dtype.lanes != 1)
      return fail(verifier, node, "%s makes a vector of a scalar", bp__ir_kind_name(node->kind));
    if (node->kind == BP_IR_RAMP && (!is_scalar_int(first) || !is_scalar_int(node->operands[1]) ||
                                     !bp__dtype_equal(first->dtype, node->operands[1]->dtype)))
      return fail(verifier, node, "base and stride of a ramp are scalar integers of one type");
    return 0;
  }
  if (first->dtype.lanes < 2 || bp__dtype_is_bool(first->dtype))
    return fail_type(verifier, node, 0, "a vector of numbers");
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
    if (!strcmp(node->str_value, reductions[i]))
      return 0;
  return fail(verifier, node, "a reduction is add, mul, min or max, not '%.20s'", node->str_value);
}

static int check_intrinsic(Verifier *verifier, const BpIrNode *node) {
  char why[160];
  if (verifier->is_between_passes && strncmp(node->str_value, "te.", 3) == 0)
    return 0;
  return bp__intrinsic_check(node->str_value, node->dtype, node->operands, node->num_operands, why,
                             sizeof why)
             ? 0
             : fail(verifier, node, "%s", why);
}

static int check_call(Verifier *verifier, const BpIrNode *node) {
  if (node->int_value == BP_IR_CALL_INTRINSIC)
    return check_intrinsic(verifier, node);
  if (node->int_value != BP_IR_CALL_EXTERN && node->int_value != BP_IR_CALL_PACKED)
    return fail(verifier, node, "call of unknown kind %lld", (long long)node->int_value);
  if (!*node->str_value)
    return fail(verifier, node, "call of a function without a name");
  if (!bp__dtype_is_void(node->dtype) && (!is_value(node) || node->dtype.lanes != 1))
    return fail(verifier, node, "a called function gives a scalar or nothing");
  for (int32_t i = 0; i < node->num_operands; i++)
    if (node->operands[i]->dtype.lanes != 1)
      return fail_type(verifier, node, i, "a scalar or a buffer");
  return 0;
}

/* ---- Statements -------------------------------------------------------------------------- */

static const char *const thread_axes[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                          "threadIdx.x", "threadIdx.y", "threadIdx.z"};

static int check_bound(Verifier *verifier, const BpIrNode *node) {
  bool known = false;
  for (size_t i = 0; i < sizeof thread_axes / sizeof *thread_axes; i++)
    known |= !strcmp(thread_axes[i], node->str_value);
  if (!known)
    return fail(verifier, node,
                "a bound loop's axis is blockIdx or threadIdx .x, .y or .z, not '%.40s'",
                node->str_value);
  for (const Place *place = verifier->place; place; place = place->outer)
    if (place->node != node && place->node->kind == BP_IR_FOR &&
        !strcmp(place->node->str_value, node->str_value))
      return fail(verifier, node, "'%s' is bound by a loop around this one", node->str_value);
  return 0;
}

static int check_for(Verifier *verifier, const BpIrNode *node) {
  if (!is_scalar_int(node->operands[0]))
    return fail_type(verifier, node, 0, "a scalar integer");
  for (int32_t i = 1; i <= 2; i++)
    if (!bp__dtype_equal(node->operands[i]->dtype, node->operands[0]->dtype))
      return fail_type(verifier, node, i, "the variable's type");
  if (node->int_value < BP_IR_FOR_SERIAL || node->int_value > BP_IR_FOR_BOUND)
    return fail(verifier, node, "a loop of unknown kind %lld", (long long)node->int_value);
  if (node->int_value == BP_IR_FOR_BOUND)
    return check_bound(verifier, node);
  if (*node->str_value)
    return fail(verifier, node, "only a bound loop has a thread axis");
  bool needs_constant =
      node->int_value == BP_IR_FOR_VECTORIZED || node->int_value == BP_IR_FOR_UNROLLED;
  if (needs_constant && node->operands[2]->kind != BP_IR_INT_IMM)
    return fail(verifier, node, "a %s loop has a constant extent",
                bp__ir_for_words[node->int_value]);
  return 0;
}

static int check_buffer(Verifier *verifier, const BpIrNode *node) {
  if (!bp__dtype_is_number(node->dtype) || node->dtype.lanes != 1)
    return fail(verifier, node, "buffer '%.40s' has no scalar number type", node->str_value);
  if (node->int_value < BP_IR_SCOPE_GLOBAL || node->int_value > BP_IR_SCOPE_LOCAL)
    return fail(verifier, node, "buffer '%.40s' has unknown scope %lld", node->str_value,
                (long long)node->int_value);
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!is_scalar_int(node->operands[i]))
      return fail(verifier, node, "extent %d of buffer '%.40s' is not a scalar integer", i,
                  node->str_value);
  return 0;
}

static int check_statement(Verifier *verifier, const BpIrNode *node) {
  switch (node->kind) {
  case BP_IR_FOR:
    return check_for(verifier, node);
  case BP_IR_STORE:
    return check_access(verifier, node);
  case BP_IR_LET:
    return bp__dtype_equal(node->operands[0]->dtype, node->operands[1]->dtype)
               ? 0
               : fail_type(verifier, node, 1, "of the variable's type");
  case BP_IR_IF:
  case BP_IR_WHILE:
  case BP_IR_ASSERT:
    return is_bool(node->operands[0], 1) ? 0 : fail_type(verifier, node, 0, "a scalar bool");
  case BP_IR_BARRIER:
    return !strcmp(node->str_value, "shared") || !strcmp(node->str_value, "global")
               ? 0
               : fail(verifier, node, "a barrier's scope is shared or global");
  default:
    return 0;
  }
}

/* ---- One construct ----------------------------------------------------------------------- */

static int check_construct(Verifier *verifier, const BpIrNode *node) {
  if (node->kind >= BP_IR_ADD && node->kind <= BP_IR_SHR && node->kind != BP_IR_NOT)
    return check_binary(verifier, node);
  switch (node->kind) {
  case BP_IR_INT_IMM:
  case BP_IR_FLOAT_IMM:
  case BP_IR_STR_IMM:
    return check_constant(verifier, node);
  case BP_IR_VAR:
    return is_value(node) ? 0 : fail(verifier, node, "a variable has no value's type");
  case BP_IR_NOT:
    return bp__ir_wanted_type(BP_IR_NOT, node->dtype) ? fail_type(verifier, node, 0, "bool") : 0;
  case BP_IR_SELECT:
    if (!bp__dtype_equal(node->operands[1]->dtype, node->operands[2]->dtype))
      return fail(verifier, node, "the choices of a select have different types");
    if (node->int_value != 0 && node->int_value != 1)
      return fail(verifier, node, "the int of a select is neither 0 nor 1");
    return is_bool(node->operands[0], node->dtype.lanes)
               ? 0
               : fail_type(verifier, node, 0, "bool with the lanes of the choices");
  case BP_IR_CAST:
  case BP_IR_REINTERPRET:
    return check_conversion(verifier, node);
  case BP_IR_LOAD:
  case BP_IR_ADDRESS:
    return check_access(verifier, node);
  case BP_IR_RAMP:
  case BP_IR_BROADCAST:
  case BP_IR_REDUCE:
    return check_vector(verifier, node);
  case BP_IR_SHUFFLE:
    return check_shuffle(verifier, node);
  case BP_IR_CALL:
    return check_call(verifier, node);
  case BP_IR_BUFFER:
    return check_buffer(verifier, node);
  case BP_IR_ATTR:
    return *node->str_value ? 0 : fail(verifier, node, "an attribute has no key");
  default:
    return check_statement(verifier, node);
  }
}

static int check_dtype(Verifier *verifier, const BpIrNode *node) {
  BpDataType expected;
  if (!bp__ir_infer_dtype(node->kind, node->operands, node->num_operands, node->dtype.lanes,
                          node->int_value, &expected) ||
      bp__dtype_equal(expected, node->dtype))
    return 0;
  char is[32], should[32];
  bp__ir_format_dtype(node->dtype, is);
  bp__ir_format_dtype(expected, should);
  return fail(verifier, node, "%s has type %s, its operands give %s", bp__ir_kind_name(node->kind),
              is, should);
}

static int use_name(Verifier *verifier, const BpIrNode *node) {
  const void *state = bp__ir_map_get(&verifier->scope, node);
  if (state == IN_SCOPE)
    return 0;
  return fail(verifier, node, "%s '%.40s' is used %s",
              node->kind == BP_IR_VAR ? "variable" : "buffer", node->str_value,
              state ? "outside its scope" : "but nothing defines it");
}

static int enter_scope(Verifier *verifier, const BpIrNode *name) {
  if (bp__ir_map_get(&verifier->scope, name) == IN_SCOPE)
    return fail(verifier, name, "'%.40s' is defined within its own scope", name->str_value);
  return bp__ir_map_set(&verifier->scope, name, IN_SCOPE);
}

static int leave_scope(Verifier *verifier, const BpIrNode *name) {
  verifier->epoch++;
  return bp__ir_map_set(&verifier->scope, name, LEFT);
}

static int verify_range(Verifier *verifier, const BpIrNode *node, int32_t from, int32_t to) {
  for (int32_t i = from; i < to; i++)
    if (verify(verifier, node->operands[i]))
      return -1;
  return 0;
}

/* Verifies a FOR, LET or ALLOCATE: its operand 0 is a name that only its last operand may use. */
static int verify_binding(Verifier *verifier, const BpIrNode *node) {
  const BpIrNode *name = node->operands[0];
  int32_t body = node->num_operands - 1;
  if (check_construct(verifier, name) || verify_range(verifier, name, 0, name->num_operands) ||
      verify_range(verifier, node, 1, body) || enter_scope(verifier, name) ||
      verify(verifier, node->operands[body]))
    return -1;
  return leave_scope(verifier, name);
}

static int verify_operands(Verifier *verifier, const BpIrNode *node) {
  switch (node->kind) {
  case BP_IR_VAR:
  case BP_IR_BUFFER:
    return use_name(verifier, node);
  case BP_IR_FOR:
  case BP_IR_LET:
  case BP_IR_ALLOCATE:
    return verify_binding(verifier, node);
  default:
    return verify_range(verifier, node, 0, node->num_operands);
  }
}

static int verify(Verifier *verifier, const BpIrNode *node) {
  if ((uintptr_t)bp__ir_map_get(&verifier->good, node) == verifier->epoch)
    return 0;
  Place place = {verifier->place, node};
  if (bp__ir_is_statement(node))
    verifier->place = &place;
  if (!bp__ir_kind_name(node->kind))
    return fail(verifier, node, "unknown construct %d", node->kind);
  if (node->kind == BP_IR_FUNCTION)
    return fail(verifier, node, "a function within a function");
  if (node->kind != BP_IR_BUFFER && check_shape(verifier, node))
    return -1;
  if (check_construct(verifier, node) || check_dtype(verifier, node) ||
      verify_operands(verifier, node))
    return -1;
  verifier->place = place.outer;
  return bp__ir_map_set(&verifier->good, node, (const void *)verifier->epoch);
}

/* ---- Functions --------------------------------------------------------------------------- */

static int define_params(Verifier *verifier, const BpIrNode *function) {
  int64_t num_params = function->int_value;
  for (int32_t pass = BP_IR_VAR; pass != BP_IR_NONE; pass = pass == BP_IR_VAR ? BP_IR_BUFFER : 0)
    for (int64_t i = 0; i < num_params; i++) {
      const BpIrNode *param = function->operands[i];
      if (param->kind != BP_IR_VAR && param->kind != BP_IR_BUFFER)
        return fail(verifier, param, "parameter %lld is neither a variable nor a buffer",
                    (long long)i);
      if (param->kind != pass)
        continue;
      if (pass == BP_IR_BUFFER && param->int_value != BP_IR_SCOPE_GLOBAL)
        return fail(verifier, param, "parameter '%.40s' is not a global buffer", param->str_value);
      if (pass == BP_IR_VAR && param->dtype.lanes != 1)
        return fail(verifier, param, "parameter '%.40s' is no scalar", param->str_value);
      if (check_construct(verifier, param) ||
          verify_range(verifier, param, 0, param->num_operands) || enter_scope(verifier, param))
        return -1;
    }
  return 0;
}

static int verify_function(Verifier *verifier, const BpIrNode *function) {
  int32_t last = function->num_operands - 1;
  if (!*function->str_value)
    return fail(verifier, function, "the function has no name");
  if (last < 0 || function->int_value < 0 || function->int_value > last)
    return fail(verifier, function, "the function has %lld parameters but %d operands",
                (long long)function->int_value, function->num_operands);
  if (define_params(verifier, function))
    return -1;
  for (int32_t i = (int32_t)function->int_value; i < last; i++)
    if (function->operands[i]->kind != BP_IR_ATTR)
      return fail(verifier, function->operands[i], "operand %d of the function is not an attribute",
                  i);
  if (!bp__ir_is_statement(function->operands[last]))
    return fail(verifier, function->operands[last], "the function's body is no statement");
  return verify_range(verifier, function, (int32_t)function->int_value, last + 1);
}

static int verify_with(Verifier *verifier, const BpIrNode *function) {
  verifier->function = function;
  verifier->epoch = 1;
  int rc = verify_function(verifier, function);
  bp__ir_map_clear(&verifier->scope);
  bp__ir_map_clear(&verifier->good);
  return rc;
}

int bp__ir_verify_function(const BpIrNode *function) {
  Verifier verifier = {.is_between_passes = false};
  return verify_with(&verifier, function);
}

int bp__ir_verify_pass(const BpIrNode *function, const char *pass) {
  Verifier verifier = {.is_between_passes = true};
  if (verify_with(&verifier, function) == 0)
    return 0;
  return bp_error_add_context("after pass %s, a fault of the compiler", pass);
}

int bp_ir_verify(const BpIrModule *module) {
  if (!BP_NOT_NULL(module))
    return -1;
  for (int32_t i = 0; i < bp__ir_module_num_functions(module); i++)
    if (bp__ir_verify_function(bp__ir_module_function(module, i)))
      return -1;
  return 0;
}
