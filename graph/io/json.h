/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text. */
#ifndef BACKPLANE_GRAPH_IO_JSON_H
#define BACKPLANE_GRAPH_IO_JSON_H

#include <jansson.h>

/* Compact text (transfer full, free) of a document, which it releases; NULL with an error. A NULL
 * document is one for which there was no memory. */
char *bp__json_take_text(json_t *document);

#endif
