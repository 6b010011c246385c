/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter's strings: growing texts, an arena, templates. */
#include "compiler/emit/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

struct BpArenaBlock {
  BpArenaBlock *next;
  size_t used;
  size_t size;
};

const char *bp__fail(BpEmitter *e, const char *kind, const char *format, ...) {
  if (e->failed)
    return "";
  e->failed = 1;
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  if (e->function_name)
    bp_error_raise(kind, "dialect %s: function %s: %s", e->dialect->name, e->function_name,
                   message);
  else
    bp_error_raise(kind, "dialect %s: %s", e->dialect->name, message);
  return "";
}

static void out_of_memory(BpEmitter *e) {
  bp__fail(e, BP_ERROR_MEMORY, "out of memory while the code was written");
}

/* ---- Growing texts ----------------------------------------------------------------------- */

void bp__append(BpEmitter *e, BpText *text, const char *data, size_t size) {
  if (text->capacity - text->size <= size) {
    size_t capacity = text->capacity ? text->capacity * 2 : 1024;
    while (capacity - text->size <= size)
      capacity *= 2;
    char *grown = realloc(text->data, capacity);
    if (!grown) {
      out_of_memory(e);
      return;
    }
    text->data = grown;
    text->capacity = capacity;
  }
  memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void bp__text_free(BpText *text) {
  free(text->data);
  *text = (BpText){NULL, 0, 0};
}

BP_PRINTF(2, 0)
static const char *format_in_arena(BpEmitter *e, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int size = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = size < 0 ? NULL : bp__arena_alloc(e, (size_t)size + 1);
  if (!text)
    return "";
  vsnprintf(text, (size_t)size + 1, format, args);
  return text;
}

void bp__appendf(BpEmitter *e, BpText *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *data = format_in_arena(e, format, args);
  va_end(args);
  bp__append(e, text, data, strlen(data));
}

void bp__line(BpEmitter *e, const char *format, ...) {
  static const char spaces[] = "                                                                ";
  size_t indent = (size_t)e->indent * 2;
  if (format[0] != '#')
    bp__append(e, e->out, spaces, indent < sizeof(spaces) ? indent : sizeof(spaces) - 1);
  va_list args;
  va_start(args, format);
  const char *data = format_in_arena(e, format, args);
  va_end(args);
  bp__append(e, e->out, data, strlen(data));
  bp__append(e, e->out, "\n", 1);
}

/* ---- The arena --------------------------------------------------------------------------- */

void *bp__arena_alloc(BpEmitter *e, size_t size) {
  size = (size + 15) & ~(size_t)15;
  BpArenaBlock *block = e->arena;
  if (!block || block->size - block->used < size) {
    size_t capacity = size > 65536 - sizeof(*block) ? size : 65536 - sizeof(*block);
    block = malloc(sizeof(*block) + capacity);
    if (!block) {
      out_of_memory(e);
      return NULL;
    }
    *block = (BpArenaBlock){e->arena, 0, capacity};
    e->arena = block;
  }
  void *data = (char *)(block + 1) + block->used;
  block->used += size;
  return data;
}

void bp__arena_free(BpEmitter *e) {
  while (e->arena) {
    BpArenaBlock *next = e->arena->next;
    free(e->arena);
    e->arena = next;
  }
}

const char *bp__format(BpEmitter *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = format_in_arena(e, format, args);
  va_end(args);
  return text;
}

const char *bp__c_string(BpEmitter *e, const char *text) {
  size_t size = 4 * strlen(text) + 3;
  char *result = bp__arena_alloc(e, size);
  if (!result)
    return "";
  char *end = result;
  *end++ = '"';
  for (const char *p = text; *p; p++) {
    int is_plain = *p >= ' ' && *p < 127 && *p != '"' && *p != '\\' && *p != '?';
    if (is_plain)
      *end++ = *p;
    else
      end += snprintf(end, size - (size_t)(end - result), "\\%03o", (unsigned char)*p);
  }
  *end++ = '"';
  *end = '\0';
  return result;
}

const char *bp__bare(BpEmitter *e, const char *text) {
  size_t size = strlen(text);
  if (size < 2 || text[0] != '(')
    return text;
  int depth = 0;
  for (size_t i = 0; i + 1 < size; i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0)
      return text;
  }
  return bp__format(e, "%.*s", (int)size - 2, text + 1);
}

/* ---- Templates --------------------------------------------------------------------------- */

const char *bp__template(BpEmitter *e, const char *text, const char *const *args,
                         int32_t num_args) {
  size_t size = 1;
  for (const char *p = text; *p; p++)
    size += p[0] == '$' && p[1] >= '1' && p[1] - '1' < num_args && args[p[1] - '1']
                ? strlen(args[p[1] - '1'])
                : 1;
  char *result = bp__arena_alloc(e, size);
  if (!result)
    return "";
  char *end = result;
  for (const char *p = text; *p; p++) {
    if (p[0] != '$' || !p[1]) {
      *end++ = *p;
      continue;
    }
    p++;
    if (*p == '$')
      *end++ = '$';
    else if (*p < '1' || *p - '1' >= num_args || !args[*p - '1'])
      return bp__fail(e, BP_ERROR_VALUE, "the template \"%s\" uses $%c, which it is not given",
                      text, *p);
    else
      end = stpcpy(end, args[*p - '1']);
  }
  *end = '\0';
  return result;
}

int32_t bp__template_uses(const char *text, int32_t number) {
  int32_t uses = 0;
  for (const char *p = text; *p; p++) {
    if (p[0] == '$' && p[1]) {
      p++;
      uses += *p == '0' + number;
    }
  }
  return uses;
}
