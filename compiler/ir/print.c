/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the text form: one list for each construct, `(word operands...)`, by the forms of
 * syntax.c.
 *
 * VARs and BUFFERs are written by unique names derived from their own. A VAR's type is written at
 * its first occurrence and where the VAR is bound. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <glib.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/syntax.h"
#include "compiler/ir/text.h"

typedef struct Printer {
  BpText text;
  BpNames used;  /* name -> number of uses of the name + 1 */
  BpIrMap names; /* VAR or BUFFER -> its name, owned by `used` */
  int level;
  size_t limit; /* the size at which printing stops; 0: unlimited */
} Printer;

static void print(Printer *printer, const BpIrNode *node);

/* ---- Names ------------------------------------------------------------------------------- */

static const char *const reserved_names[] = {"true", "false", "inf", "nan"};

/* Replaces the characters of a name other than letters, digits, '_' and '.', and a leading
 * digit. */
static void clean_name(const char *name, char *clean, size_t size) {
  size_t length = 0;
  if (!g_ascii_isalpha(*name) && *name != '_')
    clean[length++] = *name ? '_' : 'v';
  for (; *name && length + 1 < size; name++)
    clean[length++] = g_ascii_isalnum(*name) || *name == '.' ? *name : '_';
  clean[length] = '\0';
  for (size_t i = 0; i < sizeof reserved_names / sizeof *reserved_names; i++)
    if (!strcmp(clean, reserved_names[i]) && length + 2 < size)
      memcpy(clean + length, "_", sizeof "_");
}

/* The name of a VAR or BUFFER; *first tells whether the name is new. NULL if memory is
 * exhausted. */
static const char *name_of(Printer *printer, const BpIrNode *node, bool *first) {
  const char *kept = bp__ir_map_get(&printer->names, node);
  *first = !kept;
  if (kept)
    return kept;
  char base[128], name[160];
  clean_name(node->str_value, base, sizeof base);
  size_t asked = (size_t)bp__names_get(&printer->used, base, strlen(base));
  snprintf(name, sizeof name, "%s", base);
  while (asked && bp__names_get(&printer->used, name, strlen(name)))
    snprintf(name, sizeof name, "%s.%zu", base, asked++);
  if (strcmp(base, name) && bp__names_set(&printer->used, base, strlen(base), (void *)asked, NULL))
    return NULL;
  if (bp__names_set(&printer->used, name, strlen(name), (void *)1, &kept) ||
      bp__ir_map_set(&printer->names, node, kept))
    return NULL;
  return kept;
}

static void print_dtype(Printer *printer, BpDataType dtype) {
  char text[32];
  bp__ir_format_dtype(dtype, text);
  bp__text_add(&printer->text, text);
}

/* Prints a VAR, or a BUFFER that was declared; `binds` adds the type. */
static void print_name(Printer *printer, const BpIrNode *node, bool binds) {
  bool first;
  const char *name = name_of(printer, node, &first);
  if (!name) {
    printer->text.failed = true;
    return;
  }
  bp__text_add(&printer->text, name);
  if (node->kind == BP_IR_VAR && (binds || first)) {
    bp__text_add(&printer->text, ":");
    print_dtype(printer, node->dtype);
  }
}

/* ---- Constants --------------------------------------------------------------------------- */

static void print_int(Printer *printer, const BpIrNode *node) {
  BpDataType dtype = node->dtype;
  if (bp__dtype_equal(dtype, bp__dtype_bool(1))) {
    bp__text_add(&printer->text, node->int_value ? "true" : "false");
    return;
  }
  if (dtype.code == BP_DTYPE_UINT)
    bp__text_format(&printer->text, "%" PRIu64, (uint64_t)node->int_value);
  else
    bp__text_format(&printer->text, "%" PRId64, node->int_value);
  if (bp__dtype_equal(dtype, bp__dtype_int64()))
    return;
  bp__text_add(&printer->text, ":");
  print_dtype(printer, dtype);
}

static void print_float(Printer *printer, const BpIrNode *node) {
  static const char *const formats[] = {"%.6g", "%.9g", "%.17g"};
  double value = node->float_value;
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  if (isnan(value)) {
    snprintf(text, sizeof text, "nan");
  } else if (isinf(value)) {
    snprintf(text, sizeof text, value < 0 ? "-inf" : "inf");
  } else {
    for (size_t i = 0; i < 3; i++) {
      g_ascii_formatd(text, sizeof text, formats[i], value);
      if (bp__scalar_round(node->dtype, g_ascii_strtod(text, NULL)) == value)
        break;
    }
  }
  bp__text_format(&printer->text, "%s:", text);
  print_dtype(printer, node->dtype);
}

static void print_str(Printer *printer, const char *string) {
  bp__text_add(&printer->text, "\"");
  for (const char *c = string; *c; c++) {
    if (*c == '"' || *c == '\\')
      bp__text_format(&printer->text, "\\%c", *c);
    else if (*c == '\n')
      bp__text_add(&printer->text, "\\n");
    else if ((unsigned char)*c < ' ' || *c == 127)
      bp__text_format(&printer->text, "\\x%02x", (unsigned char)*c);
    else
      bp__text_add_bytes(&printer->text, c, 1);
  }
  bp__text_add(&printer->text, "\"");
}

/* ---- Constructs -------------------------------------------------------------------------- */

static void print_line(Printer *printer, const BpIrNode *node, int deeper) {
  printer->level += deeper;
  bp__text_line(&printer->text, printer->level);
  print(printer, node);
  printer->level -= deeper;
}

static void print_buffer(Printer *printer, const BpIrNode *node) {
  bp__text_add(&printer->text, "(buffer ");
  print_name(printer, node, true);
  bp__text_add(&printer->text, " ");
  print_dtype(printer, node->dtype);
  bp__text_format(&printer->text, " %s", bp__ir_scope_words[node->int_value % 3]);
  for (int32_t i = 0; i < node->num_operands; i++) {
    bp__text_add(&printer->text, " ");
    print(printer, node->operands[i]);
  }
  bp__text_add(&printer->text, ")");
}

static void print_function(Printer *printer, const BpIrNode *node) {
  bp__text_add(&printer->text, "(function ");
  print_str(printer, node->str_value);
  printer->level++;
  for (int32_t i = 0; i < node->num_operands; i++) {
    const BpIrNode *operand = node->operands[i];
    bp__text_line(&printer->text, printer->level);
    if (operand->kind == BP_IR_BUFFER)
      print_buffer(printer, operand);
    else if (operand->kind == BP_IR_VAR)
      print_name(printer, operand, true);
    else
      print(printer, operand);
  }
  printer->level--;
  bp__text_add(&printer->text, ")");
}

static void print_word(Printer *printer, const char *const *words, int64_t value) {
  int64_t count = 0;
  while (words[count])
    count++;
  bp__text_add(&printer->text, value >= 0 && value < count ? words[value] : "?");
}

/* Prints the scalar part of a construct that a letter of its form stands for. */
static void print_scalar(Printer *printer, const BpIrNode *node, char letter) {
  switch (letter) {
  case 'T':
    print_dtype(printer, node->dtype);
    break;
  case 'L':
    bp__text_format(&printer->text, "%u", node->dtype.lanes);
    break;
  case 'n':
    bp__text_format(&printer->text, "%" PRId64, node->int_value);
    break;
  case 's':
    print_str(printer, node->str_value);
    break;
  case 'r':
    bp__text_add(&printer->text, node->str_value);
    break;
  case 'c':
    print_word(printer, bp__ir_call_words, node->int_value);
    break;
  default:
    print_word(printer, bp__ir_for_words, node->int_value);
    if (node->int_value == BP_IR_FOR_BOUND) {
      bp__text_add(&printer->text, " ");
      print_str(printer, node->str_value);
    }
  }
}

/* Prints one operand by a letter of the construct's form. The body of a LET or ALLOCATE is not
 * indented: thousands of them may follow in sequence. */
static void print_operand(Printer *printer, const BpIrNode *node, const BpIrNode *operand,
                          char letter) {
  bool is_chain = node->kind == BP_IR_LET || node->kind == BP_IR_ALLOCATE;
  if (strchr("bBo", letter)) {
    print_line(printer, operand, is_chain ? 0 : 1);
    return;
  }
  bp__text_add(&printer->text, " ");
  if (letter == 'D' && operand->kind == BP_IR_BUFFER)
    print_buffer(printer, operand);
  else if (letter == 'v' && operand->kind == BP_IR_VAR)
    print_name(printer, operand, true);
  else
    print(printer, operand);
}

static void print_by_form(Printer *printer, const BpIrNode *node, const char *form) {
  bp__text_format(&printer->text, "(%s", bp__ir_kind_name(node->kind));
  int32_t next = 0;
  for (; *form; form++) {
    if (*form == 'u') {
      bp__text_add(&printer->text, node->int_value ? " " BP__IR_UNMASKED : "");
      continue;
    }
    if (!strchr("emEbBovD", *form)) {
      bp__text_add(&printer->text, " ");
      print_scalar(printer, node, *form);
      continue;
    }
    int32_t end = strchr("EB", *form) ? node->num_operands : next + 1;
    for (; next < end && next < node->num_operands; next++)
      print_operand(printer, node, node->operands[next], *form);
  }
  bp__text_add(&printer->text, ")");
}

static void print(Printer *printer, const BpIrNode *node) {
  if (printer->text.failed || (printer->limit && printer->text.size > printer->limit))
    return;
  const char *form = bp__ir_form(node->kind);
  if (form)
    print_by_form(printer, node, form);
  else if (node->kind == BP_IR_INT_IMM)
    print_int(printer, node);
  else if (node->kind == BP_IR_FLOAT_IMM)
    print_float(printer, node);
  else if (node->kind == BP_IR_STR_IMM)
    print_str(printer, node->str_value);
  else if (node->kind == BP_IR_FUNCTION)
    print_function(printer, node);
  else if (node->kind == BP_IR_VAR || node->kind == BP_IR_BUFFER)
    print_name(printer, node, false);
  else
    bp__text_format(&printer->text, "(unknown %d)", node->kind);
}

static void forget_names(Printer *printer) {
  bp__names_clear(&printer->used);
  bp__ir_map_clear(&printer->names);
}

char *bp__ir_print_node(const BpIrNode *node) {
  Printer printer = {0};
  print(&printer, node);
  forget_names(&printer);
  return bp__text_take(&printer.text);
}

char *bp__ir_print_short(const BpIrNode *node, char *text, size_t size) {
  Printer printer = {.limit = size};
  print(&printer, node);
  forget_names(&printer);
  size_t length = 0;
  for (const char *c = printer.text.data; c && *c && length + 4 < size; c++)
    if (*c != '\n')
      text[length++] = *c;
    else if (length && text[length - 1] != ' ')
      text[length++] = ' ';
  snprintf(text + length, size - length, "%s", printer.text.size > length ? "..." : "");
  free(printer.text.data);
  return text;
}

char *bp_ir_print(const BpIrModule *module) {
  if (!BP_NOT_NULL(module))
    return NULL;
  Printer printer = {.level = 1};
  bp__text_add(&printer.text, "(module");
  for (int32_t i = 0; i < bp__ir_module_num_functions(module); i++) {
    bp__text_line(&printer.text, 1);
    print(&printer, bp__ir_module_function(module, i));
    forget_names(&printer);
  }
  bp__text_add(&printer.text, ")\n");
  return bp__text_take(&printer.text);
}
