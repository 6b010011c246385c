/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the facts about a library from its file, before any of its code runs. */
#ifndef BACKPLANE_CORE_MODULE_LIBRARY_FILE_H
#define BACKPLANE_CORE_MODULE_LIBRARY_FILE_H

#include "core/module/blob.h"

/* A whole file mapped read-only. The mapping is an object, so that data in it (a model's
 * parameters) can be used in place as long as a reference exists. */
typedef struct BpMappedFile {
  BpObject header;
  const char *data;
  size_t size;
} BpMappedFile;

/* Names of symbols in the tvm-ffi convention. */
#define BP_SYMBOL_PREFIX      "__tvm_ffi_"
#define BP_SYMBOL_METADATA    "__tvm_ffi__metadata_"
#define BP_SYMBOL_DOC         "__tvm_ffi__doc_"
#define BP_SYMBOL_LIBRARY_BIN "__tvm_ffi__library_bin"
#define BP_SYMBOL_LIBRARY_CTX "__tvm_ffi__library_ctx"
#define BP_SYMBOL_SLOT_PREFIX "__TVM"
#define BP_SYMBOL_HOST_PREFIX "TVM"
/* Names of symbols in libraries of TVM up to 0.19, whose functions have no prefix. */
#define BP_SYMBOL_MBLOB      "__tvm_dev_mblob"
#define BP_SYMBOL_MODULE_CTX "__tvm_module_ctx"
#define BP_SYMBOL_MAIN       "__tvm_main__"
/* The prefix of LLVM's half-precision functions, which few systems have in a library. */
#define BP_SYMBOL_HALF_PREFIX "__gnu_"
/* A library that links with this library gets its functions from it. */
#define BP_TVM_FFI_LIBRARY "libtvm_ffi."

/* Names in sequence, each ended by a NUL. */
typedef struct BpPackedNames {
  char *text;
  size_t size;
  size_t count;
} BpPackedNames;

/* A host function that the library calls by name instead of through a variable. */
typedef struct BpLibraryBinding {
  const char *name; /* borrowed from the file */
  size_t entry;     /* offset of its Elf64_Sym in the file */
  void (*function)(void);
} BpLibraryBinding;

typedef struct BpLibraryFile {
  const char *path; /* borrowed */
  BpMappedFile *file;
  BpPackedNames functions; /* names of exported functions, without the prefix */
  BpPackedNames slots;     /* pointer variables to set, all known */
  int is_packed_c;         /* compiled by TVM up to 0.19; see parts.h */
  BpByteArray main_name;   /* name of a packed C library's entry function, in the file; or empty */
  const char *context;     /* name of the variable for look-ups, static; NULL: none */
  BpLibraryBinding *bindings;
  size_t num_bindings;
  int has_blob;
  BpBlob blob;
  BpByteArray blob_bytes; /* the blob in the file */
} BpLibraryFile;

/* Reads and checks a file. bp__library_file_clear frees the members of `library`, which are empty
 * after a failure. */
int bp__library_file_read(BpLibraryFile *library, const char *path);
void bp__library_file_clear(BpLibraryFile *library);

#endif
