/* SPDX-License-Identifier: Apache-2.0 */
/* Formats JSON documents as text. */
#ifndef BACKPLANE_GRAPH_IO_JSON_H
#define BACKPLANE_GRAPH_IO_JSON_H

#include <jansson.h>

/* Formats a document as compact text (transfer full, free) and releases the document; NULL with an
 * error. A NULL document means that memory ran out while the document was made. */
char *bp__json_take_text(json_t *document);

#endif
