/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of "key=value". */

#include "core/registry/lines.h"

#include <string.h>

char *bp__line_next(char **rest) {
  char *line = *rest;
  if (!*line)
    return NULL;
  char *end = line + strcspn(line, "\n");
  *rest = *end ? end + 1 : end;
  *end = '\0';
  return line;
}

const char *bp__line_value(const char *line, const char *key) {
  size_t length = strlen(key);
  return !strncmp(line, key, length) && line[length] == '=' ? line + length + 1 : NULL;
}
