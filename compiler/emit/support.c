/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a dialect's support text that a program uses. A compiler reads all that a program
 * contains, and a language with one function per program would repeat all of it for each. */
#include "compiler/emit/emit.h"

#include <glib.h>
#include <string.h>

#define PART_BEGIN "/* part "
#define PART_END   " */\n"

/* A part of a support text: from `text` on, `size` bytes. */
typedef struct Part {
  const char *name, *text;
  size_t name_size, size;
} Part;

/* The beginning of the first part at or after `text`, or NULL. */
static const char *find_part(const char *text) {
  const char *found = strstr(text, PART_BEGIN);
  return found && strstr(found, PART_END) ? found : NULL;
}

/* Reads the part that begins at `begin`; returns the beginning of the next part, or NULL. */
static const char *read_part(const char *begin, Part *part) {
  part->name = begin + strlen(PART_BEGIN);
  const char *end = strstr(part->name, PART_END), *next;
  part->name_size = (size_t)(end - part->name);
  part->text = end + strlen(PART_END);
  next = find_part(part->text);
  part->size = next ? (size_t)(next - part->text) : strlen(part->text);
  return next;
}

static int is_word(char c) {
  return g_ascii_isalnum(c) || c == '_';
}

/* Whether a text contains the name of a part as a whole word. */
static int contains(const BpText *text, const Part *part) {
  const char *at = text->data;
  for (; at && (at = strstr(at, part->name)) != NULL; at++) {
    if ((at == text->data || !is_word(at[-1])) && !is_word(at[part->name_size]))
      return 1;
  }
  return 0;
}

/* Appends the parts from `begin` on that the texts or a later part use. */
static void append_parts(BpEmitter *e, BpText *whole, const char *begin) {
  Part part;
  const char *next = read_part(begin, &part);
  BpText later = {NULL, 0, 0};
  if (next)
    append_parts(e, &later, next);
  part.name = bp__format(e, "%.*s", (int)part.name_size, part.name);
  if (contains(&e->head, &part) || contains(&e->done, &part) || contains(&later, &part))
    bp__append(e, whole, part.text, part.size);
  bp__append(e, whole, later.data ? later.data : "", later.size);
  bp__text_free(&later);
}

void bp__append_support(BpEmitter *e, BpText *whole, const char *support) {
  const char *parts = find_part(support);
  bp__append(e, whole, support, parts ? (size_t)(parts - support) : strlen(support));
  if (parts)
    append_parts(e, whole, parts);
}
