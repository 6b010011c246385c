/* SPDX-License-Identifier: Apache-2.0 */
/* ELF notes, read from a file that is not loaded. */
#ifndef BACKPLANE_CORE_PLUGIN_ELF_NOTE_H
#define BACKPLANE_CORE_PLUGIN_ELF_NOTE_H

#include <stddef.h>
#include <stdint.h>

/* Reads the body of the first note of `owner` and `type` in a shared object of this machine, open
 * as `fd` with `file_size` bytes. On success *text (malloc'd, transfer full) has *size bytes, and
 * NULL if there is no such note. A file that is no ELF, is for another machine, is truncated, or
 * whose note has more than `max_size` bytes is an error; its message does not name the file.
 * Usually one read of 4 KiB. */
int bp__elf_note_read(int fd, uint64_t file_size, const char *owner, uint32_t type,
                      uint64_t max_size, char **text, size_t *size);

#endif
