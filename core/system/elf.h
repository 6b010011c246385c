/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files with code for this process, checked before anything in them is mapped or trusted. */
#ifndef BACKPLANE_CORE_SYSTEM_ELF_H
#define BACKPLANE_CORE_SYSTEM_ELF_H

#include "core/system/shared.h"

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

typedef enum BpElfFault {
  BP_ELF_OK,
  BP_ELF_UNREADABLE, /* the reason is in errno */
  BP_ELF_NOT_ELF,
  BP_ELF_OTHER_MACHINE,
  BP_ELF_NOT_SHARED,
  BP_ELF_MALFORMED,
  BP_ELF_TRUNCATED,
} BpElfFault;

/* Returns the text for a fault, to follow "it ". Static. */
BP__SHARED const char *bp__elf_describe(BpElfFault fault);

/* Opens a shared object for this machine (transfer full, elf_end), of `size` bytes: either open as
 * `fd`, which is read and must stay open, or in memory. Checks that its program and section headers
 * and everything that the loader would map are inside the file: the C library's loader maps
 * segments without looking at the file's size, and a missing page kills the process. NULL with a
 * fault, which is BP_ELF_UNREADABLE with ENOMEM if memory is exhausted; errno is 0 after success.
 * Any thread. */
BP__SHARED Elf *bp__elf_open(int fd, uint64_t size, BpElfFault *fault);
Elf *bp__elf_open_memory(const void *data, size_t size, BpElfFault *fault);

/* Checks a file as bp__elf_open does. Any thread. */
BP__SHARED BpElfFault bp__elf_check(int fd, uint64_t size);

/* Returns why libelf failed; errno was 0 before. */
BP__SHARED BpElfFault bp__elf_explain_failure(void);

/* Like dlopen, with RTLD_NOW, RTLD_LOCAL and `flags`. After NULL, dlerror has a message, which does
 * not always say that memory is exhausted: *is_memory does. Any thread. */
BP__SHARED void *bp__elf_load(const char *name, int flags, int *is_memory);

#endif
