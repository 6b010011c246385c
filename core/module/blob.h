/* SPDX-License-Identifier: Apache-2.0 */
/* The library blob, `__tvm_ffi__library_bin`: the modules of a library that are not host code. See
 * docs/artifacts.md. */
#ifndef BACKPLANE_CORE_MODULE_BLOB_H
#define BACKPLANE_CORE_MODULE_BLOB_H

#include "core/system/shared.h"

#include "core/module/bytes.h"

#include <backplane/module.h>

/* The kind of the entry that stands for the library itself; it has no bytes. */
#define BP_BLOB_LIBRARY_KIND "_lib"

/* A tree of modules, with imports in compressed-row form: the imports of module i are
 * child_indices[indptr[i]] to child_indices[indptr[i + 1]] (exclusive). Module 0 is the root. */
typedef struct BpBlob {
  size_t num_modules;
  uint64_t *indptr;
  uint64_t *child_indices;
  BpByteArray *kinds;
  BpByteArray *bytes; /* bytes of the module; empty for the library entry */
  /* NULL, or a function that converts the bytes in the blob to the bytes that the kind's loader
   * takes. Returns 1 with new bytes, 0 if they are unchanged, -1 with an error. */
  int (*convert)(const BpByteArray *kind, const BpByteArray *record, BpOwnedBytes *bytes);
} BpBlob;

/* Import chains are released recursively, so their length is bounded. */
#define BP_BLOB_MOST_MODULES 4096

/* Parses `stream`, without its length prefix: kinds and bytes are borrowed from it. bp__blob_clear
 * frees allocated memory. `what` is for messages. */
int bp__blob_parse(BpBlob *blob, const BpByteArray *stream, const char *what);
BP__SHARED void bp__blob_clear(BpBlob *blob);
/* Reads only the import tree and the number of modules. */
BP__SHARED int bp__blob_read_tree(BpReader *reader, BpBlob *blob);
BP__SHARED int bp__blob_is_library(const BpBlob *blob, size_t index);

/* Makes the modules and their imports; `library` is the entry for the library itself. `owner` keeps
 * the bytes valid. Returns the root (transfer full), or NULL with an error. */
BpModule *bp__blob_load(const BpBlob *blob, BpModule *library, BpObject *owner);

/* Whether an import graph in this form has no cycle; -1 with an error if memory runs out. */
BP__SHARED int bp__blob_is_acyclic(const uint64_t *indptr, const uint64_t *child_indices,
                                   size_t num_modules);

#endif
