/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the byte streams of serialised modules: integers are little-endian, a string
 * is its length (uint64) and its bytes, a list its count (uint64) and its items. The reader checks
 * all input. The writer reports exhausted memory at the end. */
#ifndef BACKPLANE_CORE_MODULE_BYTES_H
#define BACKPLANE_CORE_MODULE_BYTES_H

#include "core/system/shared.h"

#include <backplane/module_api.h>

typedef struct BpReader {
  const char *data;
  size_t size;
  size_t at;
  const char *what; /* name of the content, for messages */
} BpReader;

/* Each function returns 0, or -1 with an error of kind BP_ERROR_FORMAT that names `item` and the
 * position. */
/* Reads a string or byte string, borrowed from the data. */
BP__SHARED int bp__read_string(BpReader *reader, BpByteArray *view, const char *item);
/* Takes the next `size` bytes. *data is borrowed and may be unaligned. */
BP__SHARED int bp__read_raw(BpReader *reader, size_t size, const char **data, const char *item);
/* Takes a list of items of `item_size` bytes each: `items` is borrowed and may be unaligned. */
BP__SHARED int bp__read_list(BpReader *reader, size_t item_size, uint64_t *count,
                             const char **items, const char *item);
/* Reads a count of items that take at least `min_size` bytes each, so that the count bounds an
 * allocation. */
BP__SHARED int bp__read_count(BpReader *reader, size_t min_size, uint64_t *count, const char *item);
/* Checks that no bytes are left. */
BP__SHARED int bp__read_end(BpReader *reader);
/* Raises the error for inconsistent bytes; returns -1. */
BP__SHARED int bp__read_damaged(const BpReader *reader, const char *what);

typedef struct BpWriter {
  char *data;
  size_t size;
  size_t capacity;
  int failed;
} BpWriter;

BP__SHARED void bp__write_u64(BpWriter *writer, uint64_t number);
BP__SHARED void bp__write_raw(BpWriter *writer, const void *data, size_t size);
BP__SHARED void bp__write_string(BpWriter *writer, const char *data, size_t size);
/* Returns the written bytes; if memory ran out, frees them and returns -1 with an error. */
BP__SHARED int bp__write_finish(BpWriter *writer, BpOwnedBytes *bytes);

/* The slot of BpModuleTable that reads the common byte form of device modules (docs/artifacts.md).
 */
BP__SHARED int bp__device_code_decode(const BpByteArray *bytes, BpByteArray *format,
                                      int32_t (*visit)(void *context, const BpKernelInfo *kernel),
                                      void *context, BpByteArray *code);

#endif
