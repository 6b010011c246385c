/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, and tables of names. The functions report exhausted memory instead of aborting. */
#ifndef BACKPLANE_COMPILER_IR_TEXT_H
#define BACKPLANE_COMPILER_IR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <backplane/api.h>

/* A zeroed text is empty. After memory is exhausted, further text is dropped and `failed` stays
 * set, so that a writer needs only one check, at its end. */
typedef struct BpText {
  char *data; /* NUL-terminated after the first addition */
  size_t size, capacity;
  bool failed;
} BpText;

void bp__text_add(BpText *text, const char *string);
void bp__text_add_bytes(BpText *text, const char *data, size_t size);
void bp__text_format(BpText *text, const char *format, ...) BP_PRINTF(2, 3);
/* Appends a line break and two spaces for each level. */
void bp__text_line(BpText *text, int level);
/* Returns the text (transfer full, free()) and leaves `text` empty; NULL with BP_ERROR_MEMORY
 * raised. */
char *bp__text_take(BpText *text);

/* A table from names to pointers, which are not NULL. A zeroed table is empty. Names are copied. */
typedef struct BpNames {
  struct BpName *slots;
  size_t capacity, size;
} BpNames;

void *bp__names_get(const BpNames *names, const char *name, size_t size); /* the pointer, or NULL */
/* Adds or replaces the pointer of a name. *kept (or NULL) is set to the table's own copy of the
 * name. Returns -1 with an error on failure. */
int bp__names_set(BpNames *names, const char *name, size_t size, void *value, const char **kept);
void bp__names_clear(BpNames *names);

#endif
