/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files that others made. */
#ifndef BACKPLANE_CORE_SYSTEM_FILE_H
#define BACKPLANE_CORE_SYSTEM_FILE_H

#include <sys/stat.h>

/* Opens a regular file to read. `directory` is a descriptor or AT_FDCWD. Returns a descriptor
 * (transfer full, close) or -1 with errno. A file of another type is not opened, since opening a
 * device can act on it: -1 with errno 0. *status describes the file; it is zero if that is not
 * known. Any thread. */
int bp__file_open(int directory, const char *name, struct stat *status);

#endif
