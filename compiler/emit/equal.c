/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of parallel loops that are equal but for names are written once. Models whose layers
 * compute extents of their own have many of them: the layers' functions differ only in the names of
 * the extents. */
#include "compiler/emit/emit.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error_kinds.h>

/* A written function of a parallel loop. */
struct BpWritten {
  char *plain; /* the text, with numbers for names */
  size_t size;
  uint64_t hash;
  char *name;
  int32_t piece;
  int32_t is_hidden; /* whether other pieces can call the function */
};

void bp__written_free(BpEmitter *e) {
  for (int32_t i = 0; i < e->num_written; i++) {
    free(e->written[i].plain);
    free(e->written[i].name);
  }
  free(e->written);
  free(e->own);
}

/* ---- Texts without names ----------------------------------------------------------------- */

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

void bp__note_name(BpEmitter *e, int32_t number, const char *name) {
  if (number >= e->own_capacity) {
    int32_t capacity = 2 * number + 64;
    const char **own = realloc(e->own, (size_t)capacity * sizeof *own);
    if (!own) {
      bp__fail(e, BP_ERROR_MEMORY, "out of memory");
      return;
    }
    memset(own + e->own_capacity, 0, (size_t)(capacity - e->own_capacity) * sizeof *own);
    e->own = own;
    e->own_capacity = capacity;
  }
  e->own[number] = name;
}

/* The number at the end of a word that is a noted name of the current function; else -1. */
static int32_t own_number(const BpEmitter *e, const char *word, size_t size) {
  size_t first = size;
  int64_t number = 0;
  while (first > 0 && isdigit((unsigned char)word[first - 1]))
    first--;
  if (first == size || first == 0 || size - first > 9 || word[first - 1] != '_')
    return -1;
  for (size_t i = first; i < size; i++)
    number = number * 10 + (word[i] - '0');
  if (number >= e->next_name || number >= e->own_capacity)
    return -1;
  const char *name = e->own[number];
  return name && strlen(name) == size && memcmp(name, word, size) == 0 ? (int32_t)number : -1;
}

/* The end of the literal or word at `at`, or of the character. */
static const char *end_of(const char *at) {
  const char *end = at + 1;
  if (*at == '"') {
    while (*end && *end != '"')
      end += *end == '\\' && end[1] ? 2 : 1;
    return *end ? end + 1 : end;
  }
  if (is_word(*at))
    while (is_word(*end) || (*end == '.' && isdigit((unsigned char)*at)))
      end++;
  return end;
}

/* The text with numbers, in the order of their first places, for the function's own names. */
static void remove_names(BpEmitter *e, const BpText *text, BpText *plain) {
  int32_t *places = calloc((size_t)e->next_name + 1, sizeof *places), count = 0;
  if (!places)
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
  for (const char *at = text->data, *end; at && *at && !e->failed; at = end) {
    end = end_of(at);
    int32_t number = own_number(e, at, (size_t)(end - at));
    if (number < 0) {
      bp__append(e, plain, at, (size_t)(end - at));
      continue;
    }
    if (!places[number])
      places[number] = ++count;
    bp__appendf(e, plain, "$%d", places[number]);
  }
  free(places);
}

static uint64_t hash_of(const BpText *text) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < text->size; i++)
    hash = (hash ^ (unsigned char)text->data[i]) * 1099511628211u;
  return hash;
}

/* ---- Calling from another piece ---------------------------------------------------------- */

static const char head[] = "static int ";
static const char our[] = "BP_OUR";
_Static_assert(sizeof our == sizeof "static", "`our` replaces `static` in a written text");

/* Lets other pieces call a function. */
static void make_hidden(BpEmitter *e, BpWritten *written) {
  const char *definition = bp__format(e, "%s%s(", head, written->name);
  char *at = e->done.data ? strstr(e->done.data, definition) : NULL;
  if (at)
    memcpy(at, our, strlen(our));
  written->is_hidden = at != NULL;
}

/* Declares a function of another piece with the parameters of `text`, which is equal to it. */
static void declare(BpEmitter *e, const BpText *text, const char *name) {
  const char *parameters = strchr(strstr(text->data, head), '(');
  const char *end = strstr(parameters, ") {");
  bp__appendf(e, e->out, "%s int %s%.*s);\n\n", our, name, (int)(end - parameters), parameters);
}

static void add_written(BpEmitter *e, BpText *plain, uint64_t hash, const char *name) {
  BpWritten *grown = realloc(e->written, ((size_t)e->num_written + 1) * sizeof *grown);
  char *copy = strdup(name);
  e->written = grown ? grown : e->written;
  if (!grown || !copy) {
    free(copy);
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
    return;
  }
  e->written[e->num_written++] =
      (BpWritten){plain->data, plain->size, hash, copy, e->num_pieces, 0};
  *plain = (BpText){NULL, 0, 0};
}

const char *bp__write_once(BpEmitter *e, const BpText *text, const char *name, int32_t number) {
  BpText plain = {NULL, 0, 0};
  const char *called = name;
  bp__note_name(e, number, name);
  remove_names(e, text, &plain);
  if (e->failed || !plain.data) {
    bp__text_free(&plain);
    return name;
  }
  uint64_t hash = hash_of(&plain);
  BpWritten *same = NULL;
  for (int32_t i = 0; i < e->num_written && !same; i++)
    if (e->written[i].hash == hash && e->written[i].size == plain.size &&
        memcmp(e->written[i].plain, plain.data, plain.size) == 0)
      same = &e->written[i];
  bool is_elsewhere = same && same->piece != e->num_pieces;
  if (is_elsewhere && !same->is_hidden)
    make_hidden(e, same);
  if (same && (same->is_hidden || !is_elsewhere)) {
    called = bp__format(e, "%s", same->name);
    if (is_elsewhere)
      declare(e, text, called);
  } else {
    bp__append(e, e->out, text->data, text->size);
    add_written(e, &plain, hash, name);
  }
  bp__text_free(&plain);
  return called;
}
