/* SPDX-License-Identifier: Apache-2.0 */
/* A library's file, mapped and checked before any of its code runs. */
#ifndef BACKPLANE_CORE_MODULE_ELF_FILE_H
#define BACKPLANE_CORE_MODULE_ELF_FILE_H

#include <backplane/value.h>

/* A whole file mapped read-only. The mapping is an object, so that data in it (a model's
 * parameters) can be used in place as long as a reference exists. */
typedef struct BpMappedFile {
  BpObject header;
  const char *data;
  size_t size;
} BpMappedFile;

/* Maps a regular, non-empty file (transfer full); NULL with an error. */
BpMappedFile *bp__file_map(const char *path);

/* A symbol that a library defines or needs. */
typedef struct BpElfSymbol {
  const char *name;
  int is_defined;
  int is_weak;
  int is_function;
  uint64_t size;
  size_t entry; /* offset of the symbol's Elf64_Sym in the file */
  /* The symbol's bytes in the file, up to the end of its segment; empty if it has none. */
  BpByteArray contents;
} BpElfSymbol;

/* Checks that a file is a complete shared library for this machine, and calls `visit` for each
 * symbol of its dynamic symbol table, until it returns non-zero (then -1 is returned too). `path`
 * is for messages. */
int bp__elf_visit_symbols(const BpMappedFile *file, const char *path,
                          int (*visit)(void *context, const BpElfSymbol *symbol), void *context);

/* Whether the file needs a library whose name begins with `prefix`; -1 with an error if it cannot
 * be read. */
int bp__elf_needs(const BpMappedFile *file, const char *path, const char *prefix);

#endif
