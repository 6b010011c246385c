/* SPDX-License-Identifier: Apache-2.0 */
/* Targets as text: a kind and options. */
#include "parts/target/target.h"

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* ---- Reading ----------------------------------------------------------------------------- */

/* Takes the next word from `cursor` (transfer full); quotes may enclose any part, a backslash may
 * precede any character. Returns "" at the end of the text. */
static char *next_word(const char **cursor) {
  const char *c = *cursor + strspn(*cursor, SPACE);
  GString *word = g_string_new(NULL);
  gboolean quoted = FALSE;
  for (; *c && (quoted || !strchr(SPACE, *c)); c++) {
    if (*c == '"')
      quoted = !quoted;
    else if (*c == '\\' && c[1])
      g_string_append_c(word, *++c);
    else
      g_string_append_c(word, *c);
  }
  *cursor = c;
  if (quoted) {
    bp_error_raise(BP_ERROR_VALUE, "a quote is not closed in a target's options");
    g_string_free(word, TRUE);
    return NULL;
  }
  return g_string_free(word, FALSE);
}

/* Applies one option `-name=value`, or `-name` for a bool that is true. */
static int apply_option(BpTarget *target, char *word) {
  if (word[0] != '-' || !word[1])
    return bp_error_raise(
        BP_ERROR_VALUE, "'%s' in a target: options are written -name=value, after the kind", word);
  char *name = word + 1 + (word[1] == '-');
  char *equals = strchr(name, '=');
  if (equals)
    *equals = '\0';
  return bp__target_set_text(target, name, equals ? equals + 1 : "true");
}

static int apply_options(BpTarget *target, const char *cursor) {
  for (;;) {
    char *word = next_word(&cursor);
    if (!word)
      return -1;
    int more = *word != '\0';
    int status = more ? apply_option(target, word) : 0;
    g_free(word);
    if (status < 0 || !more)
      return status;
  }
}

BpTarget *bp__target_parse_options(const char *text) {
  char *name = next_word(&text);
  if (!name)
    return NULL;
  const BpTargetKind *kind = NULL;
  if (!*name)
    bp_error_raise(BP_ERROR_VALUE, "a target is a kind with options, as `c -mcpu=x86-64-v3`, and "
                                   "this text is empty");
  else
    kind = bp__target_kind_find(name);
  g_free(name);
  BpTarget *target = kind ? bp__target_create(kind) : NULL;
  if (target && apply_options(target, text) < 0) {
    bp_object_release(target);
    return NULL;
  }
  return target;
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Returns the text of a value, which bp__target_set_text reads back (transfer full). */
static char *value_text(const BpValue *value) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  BpByteArray text;
  switch (value->type_index) {
  case BP_TYPE_INT:
    return g_strdup_printf("%" PRId64, value->v_int64);
  case BP_TYPE_BOOL:
    return g_strdup(value->v_int64 ? "true" : "false");
  case BP_TYPE_FLOAT:
    return g_strdup(g_ascii_dtostr(number, sizeof(number), value->v_float64));
  default:
    if (bp_value_view_str(value, &text) < 0)
      return g_strdup("");
    return g_strndup(text.data, text.size);
  }
}

static void append_quoted(GString *out, const char *text) {
  gboolean quote = !*text || text[strcspn(text, SPACE "\"\\,")] != '\0';
  if (quote)
    g_string_append_c(out, '"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      g_string_append_c(out, '\\');
    g_string_append_c(out, *text);
  }
  if (quote)
    g_string_append_c(out, '"');
}

/* A GString's memory comes from g_malloc, which is malloc: bp_str_free can free it. */
char *bp__target_format_options(const BpTarget *target) {
  const BpTargetKind *kind = target->kind;
  GString *out = g_string_new(kind->name);
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    if (target->values[i].type_index == BP_TYPE_NONE)
      continue;
    char *text = value_text(&target->values[i]);
    if (!attr->default_value || strcmp(text, attr->default_value) != 0) {
      g_string_append_printf(out, " -%s=", attr->name);
      append_quoted(out, text);
    }
    g_free(text);
  }
  return g_string_free(out, FALSE);
}
