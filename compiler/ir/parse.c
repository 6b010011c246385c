/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of the text form. The text is untrusted: nesting is bounded, every number is checked,
 * memory use is proportional to the text read so far. The verifier, not the parser, checks whether
 * a construct makes sense. */

#include <stdarg.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <glib.h>

#include <backplane/object.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/syntax.h"
#include "compiler/ir/text.h"
#include "compiler/ir/types.h"

#define MAX_NUMBER_SIZE 64

typedef struct Token {
  char kind; /* '(' or ')' or '"' for a string, 'a' for an atom, '\0' for the end */
  const char *start;
  size_t size; /* size of the text; a string is without its quotes, still escaped */
} Token;

typedef struct Parser {
  const char *start, *next, *end;
  Token token; /* the current token */
  BpIrModule *module;
  BpNames names; /* names of the function's VAR and BUFFER nodes */
  int depth;
  const BpIrNode **stack; /* operands of the lists that are open */
  size_t stack_size, stack_capacity;
} Parser;

static const BpIrNode *parse_node(Parser *parser);

/* ---- Errors ------------------------------------------------------------------------------ */

/* Raises an error at a place in the text. Always returns NULL. */
__attribute__((format(printf, 3, 4))) static void *fail_at(Parser *parser, const char *place,
                                                           const char *format, ...) {
  int line = 1, column = 1;
  for (const char *c = parser->start; c < place; c++) {
    column = *c == '\n' ? 1 : column + 1;
    line += *c == '\n';
  }
  char message[256];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  bp_error_raise(BP_ERROR_FORMAT, "IR text, line %d, column %d: %s", line, column, message);
  return NULL;
}

static const char *token_text(const Token *token, char *text, size_t size) {
  if (token->kind == '\0')
    snprintf(text, size, "the end of the text");
  else if (token->kind == '"')
    snprintf(text, size, "a string");
  else
    snprintf(text, size, "'%.*s'", (int)(token->size < 40 ? token->size : 40), token->start);
  return text;
}

static void *fail_expected(Parser *parser, const char *expected) {
  char found[64];
  return fail_at(parser, parser->token.start, "expected %s, found %s", expected,
                 token_text(&parser->token, found, sizeof found));
}

/* ---- Tokens ------------------------------------------------------------------------------ */

static void skip_space(Parser *parser) {
  for (; parser->next < parser->end; parser->next++) {
    if (*parser->next == ';')
      while (parser->next < parser->end && *parser->next != '\n')
        parser->next++;
    if (parser->next == parser->end || !strchr(" \t\r\n", *parser->next) || !*parser->next)
      return;
  }
}

static int lex_string(Parser *parser) {
  const char *start = ++parser->next;
  for (; parser->next < parser->end && *parser->next != '"'; parser->next++)
    if (*parser->next == '\\' && parser->next + 1 < parser->end)
      parser->next++;
  if (parser->next == parser->end) {
    fail_at(parser, start - 1, "a string without its closing quote");
    return -1;
  }
  parser->token = (Token){'"', start, (size_t)(parser->next++ - start)};
  return 0;
}

static bool is_atom_char(char c) {
  return g_ascii_isalnum(c) || (c && strchr("_.:+-", c));
}

/* Moves to the next token; -1 with an error. */
static int advance(Parser *parser) {
  skip_space(parser);
  const char *start = parser->next;
  parser->token = (Token){'\0', start, 0};
  if (start == parser->end)
    return 0;
  if (*start == '"')
    return lex_string(parser);
  if (*start == '(' || *start == ')') {
    parser->next++;
    parser->token = (Token){*start, start, 1};
    return 0;
  }
  while (parser->next < parser->end && is_atom_char(*parser->next))
    parser->next++;
  if (parser->next == start) {
    fail_at(parser, start, "unexpected character 0x%02x", (unsigned char)*start);
    return -1;
  }
  parser->token = (Token){'a', start, (size_t)(parser->next - start)};
  return 0;
}

static int expect(Parser *parser, char kind, const char *what) {
  if (parser->token.kind != kind) {
    fail_expected(parser, what);
    return -1;
  }
  return advance(parser);
}

static bool is_atom(const Parser *parser, const char *word) {
  const Token *token = &parser->token;
  return token->kind == 'a' && token->size == strlen(word) &&
         !memcmp(token->start, word, token->size);
}

/* Parses an atom that is one of `words`; returns the word's index, or -1 with an error. */
static int64_t parse_word(Parser *parser, const char *const *words, const char *what) {
  for (int64_t i = 0; words[i]; i++)
    if (is_atom(parser, words[i]))
      return advance(parser) ? -1 : i;
  fail_expected(parser, what);
  return -1;
}

static int hex_digit(char c) {
  return g_ascii_isxdigit(c) ? g_ascii_xdigit_value(c) : -1;
}

/* Reads one character of a string, escaped or not, and moves *text past it; -1 for a malformed
 * escape. */
static int unescape(const char **text, const char *end) {
  char c = *(*text)++;
  if (c != '\\')
    return c ? (unsigned char)c : -1;
  c = *(*text)++;
  if (c == 'n')
    return '\n';
  if (c == '"' || c == '\\')
    return c;
  if (c != 'x' || end - *text < 2 || hex_digit((*text)[0]) < 0 || hex_digit((*text)[1]) < 0)
    return -1;
  int value = hex_digit((*text)[0]) * 16 + hex_digit((*text)[1]);
  *text += 2;
  return value ? value : -1;
}

/* Parses a string; NULL with an error. */
static const char *parse_string(Parser *parser) {
  Token token = parser->token;
  if (expect(parser, '"', "a string"))
    return NULL;
  char *copy = bp__ir_alloc(parser->module, token.size + 1);
  if (!copy)
    return NULL;
  size_t size = 0;
  const char *end = token.start + token.size;
  for (const char *text = token.start; text < end;) {
    const char *place = text;
    int c = unescape(&text, end);
    if (c < 0)
      return fail_at(parser, place, "a string may hold \\n, \\\", \\\\ and \\xHH, and no NUL");
    copy[size++] = (char)c;
  }
  copy[size] = '\0';
  return copy;
}

static int parse_dtype(Parser *parser, BpDataType *dtype) {
  const Token *token = &parser->token;
  if (token->kind != 'a' || !bp__ir_parse_dtype(token->start, token->size, dtype)) {
    fail_expected(parser, "a data type such as float32x4");
    return -1;
  }
  return advance(parser);
}

/* Parses a number from `least` to `largest` that has no type. */
static int parse_count(Parser *parser, int64_t least, int64_t largest, int64_t *value) {
  char text[MAX_NUMBER_SIZE], *end;
  const Token *token = &parser->token;
  if (token->kind != 'a' || token->size >= sizeof text) {
    fail_expected(parser, "a number");
    return -1;
  }
  memcpy(text, token->start, token->size);
  text[token->size] = '\0';
  errno = 0;
  *value = strtoll(text, &end, 10);
  if (errno || *end || *value < least || *value > largest) {
    fail_at(parser, token->start, "expected a number from %" PRId64 " to %" PRId64, least, largest);
    return -1;
  }
  return advance(parser);
}

/* Copies `size` bytes of the text into the module. */
static const char *copy_text(Parser *parser, const char *text, size_t size) {
  char *copy = bp__ir_alloc(parser->module, size + 1);
  if (!copy)
    return NULL;
  memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}

/* ---- Atoms ------------------------------------------------------------------------------- */

static const BpIrNode *parse_int(Parser *parser, const char *text, BpDataType dtype) {
  char *end;
  errno = 0;
  int64_t value = dtype.code == BP_DTYPE_UINT ? (int64_t)strtoull(text, &end, 10)
                                              : (int64_t)strtoll(text, &end, 10);
  bool negative_unsigned = dtype.code == BP_DTYPE_UINT && *text == '-';
  if (*end || end == text)
    return fail_at(parser, parser->token.start, "'%s' is no integer", text);
  if (errno || negative_unsigned || bp__scalar_wrap(dtype, value) != value)
    return fail_at(parser, parser->token.start, "%s is out of the range of its type", text);
  return bp_ir_int(parser->module, dtype, value);
}

static const BpIrNode *parse_float(Parser *parser, const char *text, BpDataType dtype) {
  char *end;
  double value = g_ascii_strtod(text, &end);
  if (*end || end == text)
    return fail_at(parser, parser->token.start, "'%s' is no number", text);
  return bp_ir_float(parser->module, dtype, value);
}

/* Parses an atom VALUE:TYPE; `number` is the text before the colon. */
static const BpIrNode *parse_number(Parser *parser, size_t size, const BpDataType *dtype) {
  char text[MAX_NUMBER_SIZE];
  if (size >= sizeof text)
    return fail_at(parser, parser->token.start, "a number of %zu characters is too long", size);
  memcpy(text, parser->token.start, size);
  text[size] = '\0';
  if (!dtype)
    return parse_int(parser, text, bp__dtype_int64());
  bool sane = dtype->lanes == 1 &&
              (dtype->bits == 8 || dtype->bits == 16 || dtype->bits == 32 || dtype->bits == 64);
  if (sane && bp__dtype_is_float(*dtype))
    return parse_float(parser, text, *dtype);
  if (sane && bp__dtype_is_int(*dtype))
    return parse_int(parser, text, *dtype);
  return fail_at(parser, parser->token.start, "a constant's type is an integer or a float");
}

static const BpIrNode *parse_name(Parser *parser, size_t size, const BpDataType *dtype) {
  const char *name = parser->token.start;
  const BpIrNode *node = bp__names_get(&parser->names, name, size);
  int shown = (int)(size < 40 ? size : 40);
  if (node) {
    if (dtype && (node->kind != BP_IR_VAR || !bp__dtype_equal(node->dtype, *dtype)))
      return fail_at(parser, name, "'%.*s' is known with another type", shown, name);
    return node;
  }
  if (!dtype)
    return fail_at(parser, name,
                   "unknown name '%.*s'; its first occurrence has a type, as in i:int64", shown,
                   name);
  const char *copy = copy_text(parser, name, size);
  node = copy ? bp_ir_var(parser->module, copy, *dtype) : NULL;
  return node && !bp__names_set(&parser->names, name, size, (void *)node, NULL) ? node : NULL;
}

static bool is_word(const char *text, size_t size, const char *word) {
  return size == strlen(word) && !memcmp(text, word, size);
}

static const BpIrNode *parse_atom_node(Parser *parser) {
  const Token *token = &parser->token;
  const char *text = token->start;
  if (is_word(text, token->size, "true") || is_word(text, token->size, "false"))
    return bp__ir_bool(parser->module, *text == 't');
  const char *colon = memchr(text, ':', token->size);
  size_t size = colon ? (size_t)(colon - text) : token->size;
  BpDataType dtype;
  if (colon && !bp__ir_parse_dtype(colon + 1, token->size - size - 1, &dtype))
    return fail_at(parser, colon + 1, "expected a data type such as float32x4");
  if (g_ascii_isalpha(*text) || *text == '_') {
    if (!is_word(text, size, "inf") && !is_word(text, size, "nan"))
      return parse_name(parser, size, colon ? &dtype : NULL);
  } else if (!g_ascii_isdigit(*text) && *text != '-') {
    return fail_expected(parser, "a name, a number or a list");
  }
  return parse_number(parser, size, colon ? &dtype : NULL);
}

/* ---- Lists ------------------------------------------------------------------------------- */

static int push(Parser *parser, const BpIrNode *node) {
  if (!node)
    return -1;
  if (parser->stack_size == parser->stack_capacity) {
    size_t capacity = parser->stack_capacity ? parser->stack_capacity * 2 : 64;
    const BpIrNode **stack = realloc(parser->stack, capacity * sizeof *stack);
    if (!stack)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu IR operands", capacity);
    parser->stack = stack;
    parser->stack_capacity = capacity;
  }
  parser->stack[parser->stack_size++] = node;
  return 0;
}

/* The nodes pushed since the stack had the size `base`; NULL if the stack was never used. */
static const BpIrNode *const *operands_from(const Parser *parser, size_t base) {
  return parser->stack ? parser->stack + base : NULL;
}

static bool at_list_end(const Parser *parser) {
  return parser->token.kind == ')' || parser->token.kind == '\0';
}

/* Parses and pushes all nodes up to the end of the list. */
static int parse_rest(Parser *parser) {
  while (!at_list_end(parser))
    if (push(parser, parse_node(parser)))
      return -1;
  return 0;
}

/* The parts of a list that are not operands. */
typedef struct Scalars {
  BpDataType dtype;
  int64_t lanes, int_value;
  const char *str_value;
} Scalars;

static int parse_loop_kind(Parser *parser, Scalars *scalars) {
  scalars->int_value =
      parse_word(parser, bp__ir_for_words, "serial, parallel, vectorized, unrolled or bound");
  if (scalars->int_value != BP_IR_FOR_BOUND)
    return scalars->int_value < 0 ? -1 : 0;
  scalars->str_value = parse_string(parser);
  return scalars->str_value ? 0 : -1;
}

static int parse_plain_word(Parser *parser, Scalars *scalars) {
  Token token = parser->token;
  if (expect(parser, 'a', "a word"))
    return -1;
  scalars->str_value = copy_text(parser, token.start, token.size);
  return scalars->str_value ? 0 : -1;
}

/* Parses the part of a construct that a letter of its form stands for (syntax.h). */
static int parse_part(Parser *parser, char letter, Scalars *scalars) {
  switch (letter) {
  case 'T':
    return parse_dtype(parser, &scalars->dtype);
  case 'L':
    return parse_count(parser, 2, UINT16_MAX, &scalars->lanes);
  case 'n':
    return parse_count(parser, 1, UINT16_MAX, &scalars->int_value);
  case 's':
    scalars->str_value = parse_string(parser);
    return scalars->str_value ? 0 : -1;
  case 'r':
    return parse_plain_word(parser, scalars);
  case 'f':
    return parse_loop_kind(parser, scalars);
  case 'c':
    scalars->int_value = parse_word(parser, bp__ir_call_words, "intrinsic, extern or packed");
    return scalars->int_value < 0 ? -1 : 0;
  case 'u':
    scalars->int_value = is_atom(parser, BP__IR_UNMASKED);
    return scalars->int_value ? advance(parser) : 0;
  case 'E':
  case 'B':
    return parse_rest(parser);
  case 'm':
  case 'o':
    return at_list_end(parser) ? 0 : push(parser, parse_node(parser));
  default:
    return push(parser, parse_node(parser));
  }
}

static const BpIrNode *parse_by_form(Parser *parser, int32_t kind, const char *place) {
  Scalars scalars = {.dtype = bp__dtype_void(), .str_value = ""};
  size_t base = parser->stack_size;
  for (const char *form = bp__ir_form(kind); *form; form++)
    if (parse_part(parser, *form, &scalars))
      return NULL;
  const BpIrNode *const *operands = operands_from(parser, base);
  int32_t count = (int32_t)(parser->stack_size - base);
  if (kind == BP_IR_SHUFFLE && count <= scalars.int_value)
    return fail_at(parser, place,
                   "a shuffle of %" PRId64 " vectors has the lanes to pick after them",
                   scalars.int_value);
  BpDataType dtype;
  if (bp__ir_infer_dtype(kind, operands, count, (uint16_t)scalars.lanes, scalars.int_value, &dtype))
    scalars.dtype = dtype;
  parser->stack_size = base;
  return bp_ir_make(parser->module, kind, scalars.dtype, operands, count, scalars.int_value, 0,
                    scalars.str_value);
}

/* ---- Structure --------------------------------------------------------------------------- */

static bool same_extents(const BpIrNode *buffer, const BpIrNode *const *extents, int32_t count) {
  if (buffer->num_operands != count)
    return false;
  for (int32_t i = 0; i < count; i++)
    if (!bp__ir_equal(buffer->operands[i], extents[i]))
      return false;
  return true;
}

/* Parses a buffer after "(buffer". A second declaration in another scope denotes the same
 * buffer. */
static const BpIrNode *parse_buffer(Parser *parser) {
  Token name = parser->token;
  if (expect(parser, 'a', "the buffer's name"))
    return NULL;
  if (!(g_ascii_isalpha(*name.start) || *name.start == '_') || memchr(name.start, ':', name.size))
    return fail_at(parser, name.start, "a buffer's name is made of letters, digits, '_' and '.'");
  BpDataType dtype;
  if (parse_dtype(parser, &dtype))
    return NULL;
  int64_t scope = parse_word(parser, bp__ir_scope_words, "global, shared or local");
  size_t base = parser->stack_size;
  if (scope < 0 || parse_rest(parser))
    return NULL;
  const BpIrNode *const *extents = operands_from(parser, base);
  int32_t count = (int32_t)(parser->stack_size - base);
  parser->stack_size = base;
  const BpIrNode *known = bp__names_get(&parser->names, name.start, name.size);
  if (known) {
    if (known->kind == BP_IR_BUFFER && bp__dtype_equal(known->dtype, dtype) &&
        known->int_value == scope && same_extents(known, extents, count))
      return known;
    return fail_at(parser, name.start, "the name is known as something else");
  }
  const char *text = copy_text(parser, name.start, name.size);
  if (!text)
    return NULL;
  const BpIrNode *buffer =
      bp_ir_buffer(parser->module, text, dtype, (int32_t)scope, extents, count);
  if (!buffer || bp__names_set(&parser->names, name.start, name.size, (void *)buffer, NULL))
    return NULL;
  return buffer;
}

/* Parses a function after "(function": parameters, attributes, the body. */
static const BpIrNode *parse_function(Parser *parser, const char *place) {
  bp__names_clear(&parser->names);
  const char *name = parse_string(parser);
  size_t base = parser->stack_size;
  if (!name || parse_rest(parser))
    return NULL;
  int32_t count = (int32_t)(parser->stack_size - base), num_params = 0;
  const BpIrNode *const *operands = operands_from(parser, base);
  parser->stack_size = base;
  if (count == 0)
    return fail_at(parser, place, "the function has no body");
  while (num_params < count - 1 && operands[num_params]->kind != BP_IR_ATTR)
    num_params++;
  return bp_ir_make(parser->module, BP_IR_FUNCTION, bp__dtype_void(), operands, count, num_params,
                    0, name);
}

/* Parses a construct after its '(', up to and including its ')'. */
static const BpIrNode *parse_list(Parser *parser) {
  Token word = parser->token;
  if (expect(parser, 'a', "the word of a construct"))
    return NULL;
  int32_t kind = bp__ir_kind_by_name(word.start, word.size);
  const BpIrNode *node;
  if (kind == BP_IR_BUFFER)
    node = parse_buffer(parser);
  else if (kind == BP_IR_FUNCTION)
    node = parse_function(parser, word.start);
  else if (kind != BP_IR_NONE && bp__ir_form(kind))
    node = parse_by_form(parser, kind, word.start);
  else
    return fail_at(parser, word.start, "unknown construct '%.*s'",
                   (int)(word.size < 40 ? word.size : 40), word.start);
  return node && !expect(parser, ')', "')'") ? node : NULL;
}

static const BpIrNode *parse_node(Parser *parser) {
  Token token = parser->token;
  if (token.kind == 'a') {
    const BpIrNode *node = parse_atom_node(parser);
    return node && !advance(parser) ? node : NULL;
  }
  if (token.kind == '"') {
    const char *text = parse_string(parser);
    return text ? bp__ir_str(parser->module, text) : NULL;
  }
  if (token.kind != '(')
    return fail_expected(parser, "a name, a number or a list");
  if (parser->depth >= BP__IR_MAX_DEPTH)
    return fail_at(parser, token.start, "lists are nested deeper than %d", BP__IR_MAX_DEPTH);
  parser->depth++;
  const BpIrNode *node = advance(parser) ? NULL : parse_list(parser);
  parser->depth--;
  return node;
}

static int parse_module(Parser *parser) {
  if (advance(parser) || expect(parser, '(', "'(module'"))
    return -1;
  if (!is_atom(parser, "module")) {
    fail_expected(parser, "'module'");
    return -1;
  }
  if (advance(parser))
    return -1;
  while (parser->token.kind == '(') {
    const char *place = parser->token.start;
    const BpIrNode *function = parse_node(parser);
    if (!function)
      return -1;
    if (function->kind != BP_IR_FUNCTION) {
      fail_at(parser, place, "a module holds functions only");
      return -1;
    }
    if (bp_ir_module_find(parser->module, function->str_value)) {
      fail_at(parser, place, "a second function '%.100s'", function->str_value);
      return -1;
    }
    if (bp_ir_module_add(parser->module, function))
      return -1;
  }
  return expect(parser, ')', "')'") || expect(parser, '\0', "nothing more") ? -1 : 0;
}

BpIrModule *bp_ir_parse(const char *text, size_t size) {
  if (!BP_NOT_NULL(text))
    return NULL;
  BpIrModule *module = bp_ir_module_create();
  if (!module)
    return NULL;
  if (size == 0)
    text = ""; /* a NULL text is allowed with size 0 */
  Parser parser = {.start = text, .next = text, .end = text + size, .module = module};
  if (parse_module(&parser)) {
    bp_object_release(module);
    module = NULL;
  }
  bp__names_clear(&parser.names);
  free(parser.stack);
  return module;
}
