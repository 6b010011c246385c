/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of "key=value". */
#ifndef BACKPLANE_CORE_REGISTRY_LINES_H
#define BACKPLANE_CORE_REGISTRY_LINES_H

#include "core/system/shared.h"

/* Returns the next line of a text, whose end becomes a NUL. NULL at the end. Start with `rest` at
 * the text. */
BP__SHARED char *bp__line_next(char **rest);

/* Returns the value of a line, borrowed from the line; NULL if the line has another key. */
BP__SHARED const char *bp__line_value(const char *line, const char *key);

#endif
