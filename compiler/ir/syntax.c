/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the text form that the printer and the parser share. */

#include <stdio.h>

#include "compiler/ir/syntax.h"

const char *const bp__ir_for_words[] = {"serial",   "parallel", "vectorized",
                                        "unrolled", "bound",    NULL};
const char *const bp__ir_scope_words[] = {"global", "shared", "local", NULL};
const char *const bp__ir_call_words[] = {"intrinsic", "extern", "packed", NULL};

const char *bp__ir_form(int32_t kind) {
  switch (kind) {
  case BP_IR_NOT:
  case BP_IR_EVALUATE:
    return "e";
  case BP_IR_SELECT:
    return "eeeu";
  case BP_IR_CAST:
  case BP_IR_REINTERPRET:
    return "Te";
  case BP_IR_LOAD:
    return "eem";
  case BP_IR_ADDRESS:
    return "ee";
  case BP_IR_RAMP:
    return "eeL";
  case BP_IR_BROADCAST:
    return "eL";
  case BP_IR_SHUFFLE:
    return "nE";
  case BP_IR_REDUCE:
    return "re";
  case BP_IR_CALL:
    return "TcsE";
  case BP_IR_SEQ:
    return "B";
  case BP_IR_FOR:
    return "veefb";
  case BP_IR_STORE:
    return "eeem";
  case BP_IR_LET:
    return "veb";
  case BP_IR_IF:
    return "ebo";
  case BP_IR_ALLOCATE:
    return "Db";
  case BP_IR_BARRIER:
    return "s";
  case BP_IR_ASSERT:
    return "es";
  case BP_IR_WHILE:
    return "eb";
  case BP_IR_ATTR:
    return "sE";
  default:
    return kind >= BP_IR_ADD && kind <= BP_IR_SHR ? "ee" : NULL;
  }
}

static const struct {
  uint8_t code;
  const char *word;
} dtype_words[] = {
    {BP_DTYPE_INT, "int"},       {BP_DTYPE_UINT, "uint"},       {BP_DTYPE_FLOAT, "float"},
    {BP_DTYPE_BFLOAT, "bfloat"}, {BP_DTYPE_COMPLEX, "complex"},
};
#define NUM_DTYPE_WORDS (sizeof dtype_words / sizeof dtype_words[0])

void bp__ir_format_dtype(BpDataType dtype, char *text) {
  char element[16];
  if (bp__dtype_is_void(dtype)) {
    snprintf(text, 32, "void");
    return;
  }
  if (dtype.code == BP_DTYPE_HANDLE && dtype.bits == 64)
    snprintf(element, sizeof element, "handle");
  else if (dtype.code == BP_DTYPE_BOOL && dtype.bits == 8)
    snprintf(element, sizeof element, "bool");
  else
    snprintf(element, sizeof element, "type%u_%u", dtype.code, dtype.bits);
  for (size_t i = 0; i < NUM_DTYPE_WORDS; i++)
    if (dtype_words[i].code == dtype.code)
      snprintf(element, sizeof element, "%s%u", dtype_words[i].word, dtype.bits);
  if (dtype.lanes == 1)
    snprintf(text, 32, "%s", element);
  else
    snprintf(text, 32, "%sx%u", element, dtype.lanes);
}

/* Parses a decimal number from 1 to `largest` and moves *text past it. */
static bool parse_number(const char **text, const char *end, unsigned largest, unsigned *value) {
  *value = 0;
  const char *start = *text;
  for (; *text < end && **text >= '0' && **text <= '9'; (*text)++) {
    *value = *value * 10 + (unsigned)(**text - '0');
    if (*value > largest)
      return false;
  }
  return *text > start && *value > 0;
}

static bool skip_word(const char **text, const char *end, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(end - *text) < size || memcmp(*text, word, size))
    return false;
  *text += size;
  return true;
}

bool bp__ir_parse_dtype(const char *text, size_t size, BpDataType *dtype) {
  const char *end = text + size;
  unsigned bits = 0, lanes = 1;
  *dtype = bp__dtype_void();
  if (size == 4 && !memcmp(text, "void", 4))
    return true;
  if (skip_word(&text, end, "handle")) {
    *dtype = bp__dtype_handle();
  } else if (skip_word(&text, end, "bool")) {
    *dtype = bp__dtype_bool(1);
  } else {
    size_t i = 0;
    while (i < NUM_DTYPE_WORDS && !skip_word(&text, end, dtype_words[i].word))
      i++;
    if (i == NUM_DTYPE_WORDS || !parse_number(&text, end, UINT8_MAX, &bits))
      return false;
    *dtype = bp__dtype(dtype_words[i].code, (uint8_t)bits, 1);
  }
  if (text < end && (*text++ != 'x' || !parse_number(&text, end, UINT16_MAX, &lanes)))
    return false;
  dtype->lanes = (uint16_t)lanes;
  return text == end;
}
