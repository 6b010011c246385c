/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole files. */
#ifndef BACKPLANE_GRAPH_IO_WRITE_H
#define BACKPLANE_GRAPH_IO_WRITE_H

#include <stddef.h>

/* Creates or replaces a file; readers see the old file or the whole new one. A device, a FIFO or an
 * open file (/dev/stdout) is written to, and stays. -1 with an error; the signals SIGXFSZ and
 * SIGPIPE do not end the program. Any thread. */
int bp__write_file(const char *path, const char *data, size_t size);

/* Returns 1 if a file may be replaced by one that begins with `start`, of at most 16 bytes: the
 * file is missing, empty or not regular, or begins so itself. Returns 0 if the file may not be
 * replaced, or -1 with an error. Any thread. */
int bp__may_replace(const char *path, const char *start);

#endif
