/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text. */
#ifndef BACKPLANE_GRAPH_IO_JSON_H
#define BACKPLANE_GRAPH_IO_JSON_H

#include <jansson.h>

/* Compact text (transfer full, free) of a document, which it releases; NULL with an error. A NULL
 * document means that memory ran out while it was made. */
char *bp__json_take_text(json_t *document);

#endif
