/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian byte streams for artifacts: a writer that can count before it writes, and a reader
 * that checks every byte. */
#ifndef BACKPLANE_GRAPH_IO_STREAM_H
#define BACKPLANE_GRAPH_IO_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <backplane/tensor.h>

/* A writer. If `data` is NULL, the writer only counts: the same calls then tell how much memory the
 * stream needs. */
typedef struct BpStreamWriter {
  char *data;
  size_t size;
} BpStreamWriter;

void bp__stream_write(BpStreamWriter *writer, const void *data, size_t size);
void bp__stream_write_u64(BpStreamWriter *writer, uint64_t value);
void bp__stream_write_str(BpStreamWriter *writer, const char *text);
/* Writes a compact tensor on the CPU in TVM's form of a saved array. */
void bp__stream_write_tensor(BpStreamWriter *writer, const BpTensorView *view);
/* Writes a compact tensor on the CPU with its data at an aligned place of the stream, where a
 * reader can leave the data. TVM does not read tensors with aligned data: the word that TVM
 * reserves counts the bytes before the data. */
void bp__stream_write_aligned_tensor(BpStreamWriter *writer, const BpTensorView *view);

/* A reader. `what` names the document in errors. `owner` keeps the bytes alive and unchanged for
 * tensors whose data stay in the bytes; if `owner` is NULL, the bytes are valid only while they are
 * read. */
typedef struct BpStreamReader {
  const char *data;
  size_t size;
  size_t position;
  const char *what;
  BpObject *owner;
} BpStreamReader;

/* Reading functions return -1 or NULL with an error if the stream ends early or contains an invalid
 * value. */
int bp__stream_read(BpStreamReader *reader, void *data, size_t size);
int bp__stream_read_u64(BpStreamReader *reader, uint64_t *value);
/* Reads a count of items that take at least `min_bytes` each; fails if the rest of the stream is
 * too short for them. */
int bp__stream_read_count(BpStreamReader *reader, size_t min_bytes, uint32_t *count);
/* Reads a string (transfer full, free). */
char *bp__stream_read_str(BpStreamReader *reader);
/* Reads a tensor on the CPU (transfer full). If the tensor's data are aligned and the stream has an
 * owner, the tensor is read-only and keeps the owner alive. */
BpTensor *bp__stream_read_tensor(BpStreamReader *reader);
/* The owner of the bytes that a module's loader gets as its second argument, or NULL. */
BpObject *bp__stream_owner(const BpValue *args, int32_t num_args);
/* Fails if the stream has bytes left. */
int bp__stream_read_end(const BpStreamReader *reader);

#endif
