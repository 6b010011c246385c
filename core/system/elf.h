/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files that are code for this process, checked before anything of them is mapped or believed.
 */
#ifndef BACKPLANE_CORE_SYSTEM_ELF_H
#define BACKPLANE_CORE_SYSTEM_ELF_H

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

typedef enum BpElfFault {
  BP_ELF_OK,
  BP_ELF_UNREADABLE, /* with errno */
  BP_ELF_NOT_ELF,
  BP_ELF_OTHER_MACHINE,
  BP_ELF_NOT_SHARED,
  BP_ELF_MALFORMED,
  BP_ELF_TRUNCATED,
} BpElfFault;

/* What is said of a file with a fault: "it " and this. Static. */
const char *bp__elf_describe(BpElfFault fault);

/* Opens a shared object for this machine (transfer full, elf_end), of `size` bytes: one that is
 * open as `fd`, which is read and must stay open, or one in memory. Its program and section headers
 * and all that the loader would map lie in the file: the C library's loader maps segments without
 * looking at the file's size, and a missing page kills the process. NULL with a fault, which is
 * BP_ELF_UNREADABLE with ENOMEM when memory is exhausted; errno is 0 after success. Any thread. */
Elf *bp__elf_open(int fd, uint64_t size, BpElfFault *fault);
Elf *bp__elf_open_memory(const void *data, size_t size, BpElfFault *fault);

/* Copies the body of the first note of `owner` and `type` (transfer full, free): *text is NULL if
 * there is none. A body of more than `max_size` bytes, or of none, is BP_ELF_MALFORMED with *size.
 * However many notes a file has, at most 1 MiB of them is read. */
BpElfFault bp__elf_read_note(Elf *elf, const char *owner, uint32_t type, size_t max_size,
                             char **text, size_t *size);

#endif
