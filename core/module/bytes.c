/* SPDX-License-Identifier: Apache-2.0 */
/* Reading byte streams with checks, and writing growing ones. */

#include "core/module/bytes.h"

#include <backplane/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static size_t left(const BpReader *reader) {
  return reader->size - reader->at;
}

static int truncated(const BpReader *reader, const char *item, uint64_t need) {
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s is damaged: %s at byte %zu needs %" PRIu64 " bytes and %zu are left; "
                        "make it again",
                        reader->what, item, reader->at, need, left(reader));
}

int bp__read_raw(BpReader *reader, size_t size, const char **data, const char *item) {
  if (left(reader) < size)
    return truncated(reader, item, size);
  *data = reader->data + reader->at;
  reader->at += size;
  return 0;
}

static int read_u64(BpReader *reader, uint64_t *number, const char *item) {
  const char *data = NULL;
  if (bp__read_raw(reader, sizeof *number, &data, item))
    return -1;
  memcpy(number, data, sizeof *number);
  return 0;
}

int bp__read_count(BpReader *reader, size_t min_size, uint64_t *count, const char *item) {
  if (read_u64(reader, count, item))
    return -1;
  if (*count <= left(reader) / min_size)
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s is damaged: %s before byte %zu says %" PRIu64
                        " items, more than the %zu bytes left can hold; make it again",
                        reader->what, item, reader->at, *count, left(reader));
}

int bp__read_list(BpReader *reader, size_t item_size, uint64_t *count, const char **items,
                  const char *item) {
  if (bp__read_count(reader, item_size, count, item))
    return -1;
  *items = reader->data + reader->at;
  reader->at += (size_t)*count * item_size;
  return 0;
}

int bp__read_string(BpReader *reader, BpByteArray *view, const char *item) {
  uint64_t size;
  if (bp__read_list(reader, 1, &size, &view->data, item))
    return -1;
  view->size = (size_t)size;
  return 0;
}

int bp__read_end(BpReader *reader) {
  if (!left(reader))
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s is damaged: %zu bytes follow its end at byte %zu; make it again",
                        reader->what, left(reader), reader->at);
}

int bp__read_damaged(const BpReader *reader, const char *what) {
  return bp_error_raise(BP_ERROR_FORMAT, "%s is damaged: %s, before byte %zu; make it again",
                        reader->what, what, reader->at);
}

void bp__write_raw(BpWriter *writer, const void *data, size_t size) {
  if (writer->failed || !size)
    return;
  if (size > writer->capacity - writer->size) {
    size_t capacity = writer->capacity + size + writer->capacity / 2 + 64;
    char *larger = capacity > size ? realloc(writer->data, capacity) : NULL;
    if (!larger) {
      writer->failed = 1;
      return;
    }
    writer->data = larger;
    writer->capacity = capacity;
  }
  memcpy(writer->data + writer->size, data, size);
  writer->size += size;
}

void bp__write_u64(BpWriter *writer, uint64_t number) {
  bp__write_raw(writer, &number, sizeof number);
}

void bp__write_string(BpWriter *writer, const char *data, size_t size) {
  bp__write_u64(writer, size);
  bp__write_raw(writer, data, size);
}

int bp__write_finish(BpWriter *writer, BpOwnedBytes *bytes) {
  if (writer->failed) {
    free(writer->data);
    *bytes = (BpOwnedBytes){0};
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to serialise a module");
  }
  *bytes = (BpOwnedBytes){writer->data, writer->size, free};
  return 0;
}
