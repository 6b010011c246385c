/* SPDX-License-Identifier: Apache-2.0 */
/* Formats JSON documents as text. */
#include "graph/io/json.h"

#include <stdlib.h>

#include <backplane/error.h>

/* json_dumps is not used: its text must be freed by the function that an application may have given
 * to jansson, which may not be free. */
char *bp__json_take_text(json_t *document) {
  size_t size = document ? json_dumpb(document, NULL, 0, JSON_COMPACT) : 0;
  char *text = size ? malloc(size + 1) : NULL;
  if (text && json_dumpb(document, text, size, JSON_COMPACT) == size) {
    text[size] = '\0';
  } else {
    free(text);
    text = NULL;
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a JSON document");
  }
  json_decref(document);
  return text;
}
