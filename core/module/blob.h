/* SPDX-License-Identifier: Apache-2.0 */
/* The library blob, `__tvm_ffi__library_bin`: how a library carries modules that are no host code.
 * See docs/artifacts.md. */
#ifndef BACKPLANE_CORE_MODULE_BLOB_H
#define BACKPLANE_CORE_MODULE_BLOB_H

#include "core/module/bytes.h"

#include <backplane/module.h>

/* The kind under which the library that holds the blob appears in it; it has no bytes. */
#define BP_BLOB_LIBRARY_KIND "_lib"

/* A tree of modules with imports in compressed-row form: those of module i are
 * child_indices[indptr[i]] to child_indices[indptr[i + 1]] (exclusive). Module 0 is the root. */
typedef struct BpBlob {
  size_t num_modules;
  uint64_t *indptr;
  uint64_t *child_indices;
  BpByteArray *kinds;
  BpByteArray *bytes; /* of a library entry: empty */
  /* Or NULL. Gives the bytes that a kind's loader takes for those in the blob: 1, or 0 if they are
   * the same; -1 with an error. */
  int (*convert)(const BpByteArray *kind, const BpByteArray *record, BpOwnedBytes *bytes);
} BpBlob;

/* Import chains are released recursively, so their length is bounded. */
#define BP_BLOB_MOST_MODULES 4096

/* Reads `stream`, whose length prefix was taken off: kinds and bytes are borrowed from it. What is
 * allocated is freed with bp__blob_clear. `what` is for messages. */
int bp__blob_parse(BpBlob *blob, const BpByteArray *stream, const char *what);
void bp__blob_clear(BpBlob *blob);
/* Reads the import tree alone, and with it the number of modules. */
int bp__blob_read_tree(BpReader *reader, BpBlob *blob);
int bp__blob_is_library(const BpBlob *blob, size_t index);

/* Makes the modules and their imports; `library` stands for the entry of that kind. `owner` keeps
 * the bytes valid. Returns the root (transfer full), or NULL with an error. */
BpModule *bp__blob_load(const BpBlob *blob, BpModule *library, BpObject *owner);

/* Whether an import graph in this form has no cycle; -1 with an error if memory runs out. */
int bp__blob_is_acyclic(const uint64_t *indptr, const uint64_t *child_indices, size_t num_modules);

#endif
