/* SPDX-License-Identifier: Apache-2.0 */
/* What a library's file says about it, before any of its code runs. */
#ifndef BACKPLANE_CORE_MODULE_LIBRARY_FILE_H
#define BACKPLANE_CORE_MODULE_LIBRARY_FILE_H

#include "core/module/blob.h"
#include "core/module/elf_file.h"

/* Names of symbols, as the tvm-ffi world has them. */
#define BP_SYMBOL_PREFIX      "__tvm_ffi_"
#define BP_SYMBOL_METADATA    "__tvm_ffi__metadata_"
#define BP_SYMBOL_DOC         "__tvm_ffi__doc_"
#define BP_SYMBOL_LIBRARY_BIN "__tvm_ffi__library_bin"
#define BP_SYMBOL_LIBRARY_CTX "__tvm_ffi__library_ctx"
#define BP_SYMBOL_SLOT_PREFIX "__TVM"

/* Names one after the other, each ended by a NUL. */
typedef struct BpPackedNames {
  char *text;
  size_t size;
  size_t count;
} BpPackedNames;

typedef struct BpLibraryFile {
  const char *path; /* borrowed */
  BpMappedFile *file;
  BpPackedNames functions; /* exported, without the prefix */
  BpPackedNames slots;     /* pointer variables to be filled, all known */
  int has_context;         /* BP_SYMBOL_LIBRARY_CTX is there */
  int has_blob;
  BpBlob blob;
} BpLibraryFile;

/* Reads and checks; what is in `library` is freed with bp__library_file_clear, and after a failure
 * there is nothing. */
int bp__library_file_read(BpLibraryFile *library, const char *path);
void bp__library_file_clear(BpLibraryFile *library);

#endif
