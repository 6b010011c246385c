/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole files. */
#ifndef BACKPLANE_GRAPH_IO_WRITE_H
#define BACKPLANE_GRAPH_IO_WRITE_H

#include <stddef.h>

/* Creates or replaces a file; readers see the old file or the whole new one. A device or FIFO is
 * written to, and stays. -1 with an error; the signals SIGXFSZ and SIGPIPE do not end the program.
 * Any thread. */
int bp__write_file(const char *path, const char *data, size_t size);

#endif
