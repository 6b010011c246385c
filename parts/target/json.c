/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a target: one flat object, {"kind": "c", "mcpu": "x86-64-v3"}. */
#include "parts/target/target.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/object.h>

#define JSON_SPACE " \t\n\r"
#define DIGITS     "0123456789"

/* ---- Reading the text -------------------------------------------------------------------- */

/* A member of a JSON object. */
typedef struct Member {
  char *name;
  BpValue value; /* a string is `text` */
  char *text;
} Member;

static void clear_member(void *pointer) {
  Member *member = pointer;
  g_free(member->name);
  g_free(member->text);
}

typedef struct Reader {
  const char *start;
  const char *at;
} Reader;

static int malformed(const Reader *reader, const char *what) {
  return bp_error_raise(BP_ERROR_VALUE, "a target's JSON cannot be read: byte %td: %s",
                        reader->at - reader->start + 1, what);
}

/* If the next character is `c`, skips it and the blanks around it. Returns whether the character
 * was `c`. */
static int accept(Reader *reader, char c) {
  reader->at += strspn(reader->at, JSON_SPACE);
  if (*reader->at != c)
    return 0;
  reader->at++;
  reader->at += strspn(reader->at, JSON_SPACE);
  return 1;
}

/* Reads the four hexadecimal digits of \uXXXX; -1 if they are malformed. */
static int read_unit(Reader *reader) {
  int unit = 0;
  for (int i = 0; i < 4; i++) {
    int digit = g_ascii_xdigit_value(*reader->at);
    if (digit < 0)
      return -1;
    unit = unit * 16 + digit;
    reader->at++;
  }
  return unit;
}

/* Reads the text after "\u": one unit of UTF-16, or two units that form one character. */
static int read_unicode(Reader *reader, GString *text) {
  int high = read_unit(reader), low = 0;
  if (high >= 0xd800 && high < 0xdc00 && g_str_has_prefix(reader->at, "\\u")) {
    reader->at += 2;
    low = read_unit(reader);
    high = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : -1;
  }
  if (high <= 0 || (high >= 0xd800 && high < 0xe000))
    return malformed(reader, "\\u is not followed by a character's four digits");
  g_string_append_unichar(text, (gunichar)high);
  return 0;
}

static int read_escape(Reader *reader, GString *text) {
  static const char names[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
  char c = *reader->at;
  const char *found = c ? strchr(names, c) : NULL;
  if (!found && c != 'u')
    return malformed(reader, "no such escape");
  reader->at++;
  if (!found)
    return read_unicode(reader, text);
  g_string_append_c(text, characters[found - names]);
  return 0;
}

/* Reads a string after its opening quote (transfer full); NULL if it is malformed. */
static char *read_string(Reader *reader) {
  GString *text = g_string_new(NULL);
  int rc = 0;
  while (!rc && *reader->at != '"') {
    char c = *reader->at;
    if ((unsigned char)c < ' ') {
      rc = malformed(reader, "a string is not closed, or has a control character");
    } else {
      reader->at++;
      if (c == '\\')
        rc = read_escape(reader, text);
      else
        g_string_append_c(text, c);
    }
  }
  reader->at += !rc;
  return g_string_free(text, rc != 0);
}

/* Whether a JSON number begins here. Sets *end to the position after the number. */
static int scan_number(const char *c, const char **end, int *is_real) {
  c += *c == '-';
  size_t digits = strspn(c, DIGITS);
  int is_number = digits && (*c != '0' || digits == 1);
  c += digits;
  *is_real = *c == '.' || *c == 'e' || *c == 'E';
  if (*c == '.') {
    digits = strspn(++c, DIGITS);
    is_number &= digits > 0;
    c += digits;
  }
  if (*c == 'e' || *c == 'E') {
    c += 1 + (c[1] == '+' || c[1] == '-');
    digits = strspn(c, DIGITS);
    is_number &= digits > 0;
    c += digits;
  }
  *end = c;
  return is_number;
}

static int read_number(Reader *reader, BpValue *value) {
  const char *end;
  int is_real;
  if (!scan_number(reader->at, &end, &is_real))
    return malformed(reader, "neither a string nor a number, true, false or null");
  errno = 0;
  if (is_real)
    *value = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = g_ascii_strtod(reader->at, NULL)};
  else
    *value = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = g_ascii_strtoll(reader->at, NULL, 10)};
  if (is_real ? !isfinite(value->v_float64) : errno != 0)
    return malformed(reader, "the number is too large");
  reader->at = end;
  return 0;
}

/* Skips a list or another object; -1 if it is not closed. */
static int skip_nested(Reader *reader) {
  int depth = 0;
  do {
    char c = *reader->at++;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    char *text = c == '"' ? read_string(reader) : NULL;
    g_free(text);
    if (c == '"' && !text)
      return -1;
    if (!c) {
      reader->at--;
      return malformed(reader, "a list or an object is not closed");
    }
  } while (depth);
  return 0;
}

static int refuse_nested(Reader *reader, const char *name) {
  if (skip_nested(reader))
    return -1;
  return bp_error_raise(BP_ERROR_TYPE,
                        "a target's JSON is one flat object, and its member \"%s\" is another "
                        "list or object",
                        name);
}

static int read_value(Reader *reader, Member *member) {
  static const struct {
    const char *word;
    BpValue value;
  } words[] = {{"true", {.type_index = BP_TYPE_BOOL, .v_int64 = 1}},
               {"false", {.type_index = BP_TYPE_BOOL, .v_int64 = 0}},
               {"null", {.type_index = BP_TYPE_NONE}}};
  for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
    if (g_str_has_prefix(reader->at, words[i].word)) {
      reader->at += strlen(words[i].word);
      member->value = words[i].value;
      return 0;
    }
  if (*reader->at == '"') {
    reader->at++;
    member->text = read_string(reader);
    member->value = (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = member->text};
    return member->text ? 0 : -1;
  }
  return *reader->at == '[' || *reader->at == '{' ? refuse_nested(reader, member->name)
                                                  : read_number(reader, &member->value);
}

/* Adds a member to `members`. `names` contains the names of the earlier members. */
static int read_member(Reader *reader, GArray *members, GHashTable *names) {
  if (*reader->at != '"')
    return malformed(reader, "a member begins with its name in quotes");
  reader->at++;
  Member member = {.name = read_string(reader)};
  if (!member.name)
    return -1;
  g_array_append_val(members, member);
  if (!g_hash_table_add(names, member.name))
    return malformed(reader, "a name stands in it twice");
  if (!accept(reader, ':'))
    return malformed(reader, "a name is followed by a colon");
  return read_value(reader, &g_array_index(members, Member, members->len - 1));
}

static int read_object(Reader *reader, GArray *members) {
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  const char *end;
  if (!g_utf8_validate(reader->start, -1, &end)) {
    reader->at = end;
    return malformed(reader, "it is not UTF-8");
  }
  if (!accept(reader, '{'))
    return malformed(reader, "it is not an object");
  int is_closed = accept(reader, '}');
  while (!is_closed) {
    if (read_member(reader, members, names))
      return -1;
    is_closed = accept(reader, '}');
    if (!is_closed && !accept(reader, ','))
      return malformed(reader, "a comma or a closing brace is missing");
  }
  return *reader->at ? malformed(reader, "more text follows the object") : 0;
}

/* ---- The target -------------------------------------------------------------------------- */

static const char *find_kind(const GArray *members) {
  for (guint i = 0; i < members->len; i++) {
    const Member *member = &g_array_index(members, Member, i);
    if (!strcmp(member->name, "kind"))
      return member->text;
  }
  return NULL;
}

static int apply_members(BpTarget *target, const GArray *members) {
  for (guint i = 0; i < members->len; i++) {
    const Member *member = &g_array_index(members, Member, i);
    if (strcmp(member->name, "kind") != 0 &&
        bp__target_set_value(target, member->name, &member->value) < 0)
      return -1;
  }
  return 0;
}

static BpTarget *from_members(const GArray *members) {
  const char *name = find_kind(members);
  if (!name) {
    bp_error_raise(BP_ERROR_VALUE, "a target's JSON needs a member \"kind\" with a string");
    return NULL;
  }
  const BpTargetKind *kind = bp__target_kind_find(name);
  BpTarget *target = kind ? bp__target_create(kind) : NULL;
  if (target && apply_members(target, members) < 0) {
    bp_object_release(target);
    return NULL;
  }
  return target;
}

BpTarget *bp__target_parse_json(const char *text) {
  Reader reader = {text, text};
  g_autoptr(GArray) members = g_array_new(FALSE, FALSE, sizeof(Member));
  g_array_set_clear_func(members, clear_member);
  return read_object(&reader, members) ? NULL : from_members(members);
}

/* ---- Writing ----------------------------------------------------------------------------- */

static int append_string(GString *out, const char *name, const char *text, size_t size) {
  static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  if (!g_utf8_validate_len(text, size, NULL))
    return bp_error_raise(BP_ERROR_VALUE, "the attribute %s is not UTF-8, as JSON is", name);
  g_string_append_c(out, '"');
  for (size_t i = 0; i < size; i++) {
    const char *found = text[i] ? strchr(named, text[i]) : NULL;
    if (found)
      g_string_append_printf(out, "\\%c", letters[found - named]);
    else if ((unsigned char)text[i] < ' ')
      g_string_append_printf(out, "\\u%04X", (unsigned)text[i]);
    else
      g_string_append_c(out, text[i]);
  }
  g_string_append_c(out, '"');
  return 0;
}

/* Writes a whole number as "2.0", so that it is read back as the same type. */
static int append_real(GString *out, const char *name, double number) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  if (!isfinite(number))
    return bp_error_raise(BP_ERROR_VALUE, "the attribute %s is not finite, as JSON's numbers are",
                          name);
  g_ascii_dtostr(text, sizeof text, number);
  g_string_append(out, text);
  if (!text[strcspn(text, ".e")])
    g_string_append(out, ".0");
  return 0;
}

static int append_member(GString *out, const char *name, const BpValue *value) {
  BpByteArray text;
  g_string_append_c(out, out->len ? ',' : '{');
  if (append_string(out, name, name, strlen(name)))
    return -1;
  g_string_append_c(out, ':');
  switch (value->type_index) {
  case BP_TYPE_INT:
    g_string_append_printf(out, "%" PRId64, value->v_int64);
    return 0;
  case BP_TYPE_BOOL:
    g_string_append(out, value->v_int64 ? "true" : "false");
    return 0;
  case BP_TYPE_FLOAT:
    return append_real(out, name, value->v_float64);
  default:
    return bp_value_view_str(value, &text) ? -1 : append_string(out, name, text.data, text.size);
  }
}

char *bp__target_format_json(const BpTarget *target) {
  const BpTargetKind *kind = target->kind;
  const BpValue name = {.type_index = BP_TYPE_RAW_STR, .v_cstr = kind->name};
  GString *out = g_string_new(NULL);
  int rc = append_member(out, "kind", &name);
  for (int32_t i = 0; !rc && i < kind->num_attrs; i++)
    if (target->values[i].type_index != BP_TYPE_NONE)
      rc = append_member(out, bp_target_kind_attr(kind, i)->name, &target->values[i]);
  g_string_append_c(out, '}');
  return g_string_free(out, rc != 0);
}
