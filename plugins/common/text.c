/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in messages: a UUID, numbered lines of source code. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_LINE 500 /* lines of source code in a message */

void bp_uuid_format(const uint8_t uuid[16], char text[BP_UUID_TEXT]) {
  for (int i = 0; i < 16; i++)
    text += snprintf(text, 4, i >= 4 && i <= 10 && i % 2 == 0 ? "-%02x" : "%02x", uuid[i]);
}

char *bp_source_lines(const char *source, long first, long last) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  int is_whole = out != NULL;
  for (long line = 1; is_whole && *source && line <= last; line++) {
    int length = (int)strcspn(source, "\n");
    if (line >= first)
      is_whole = fprintf(out, "%6ld  %.*s\n", line, length < LONGEST_LINE ? length : LONGEST_LINE,
                         source) >= 0;
    source += length + (source[length] != '\0');
  }
  if (out && fclose(out) == 0 && is_whole)
    return text;
  free(text);
  return NULL;
}
