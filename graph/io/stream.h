/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian byte streams for artifacts: a writer that counts first and writes then, a reader
 * that checks every byte. */
#ifndef BACKPLANE_GRAPH_IO_STREAM_H
#define BACKPLANE_GRAPH_IO_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <backplane/tensor.h>

/* With `data` NULL it only counts: the same calls then tell how much memory to get. */
typedef struct BpStreamWriter {
  char *data;
  size_t size;
} BpStreamWriter;

void bp__stream_write(BpStreamWriter *writer, const void *data, size_t size);
void bp__stream_write_u64(BpStreamWriter *writer, uint64_t value);
void bp__stream_write_str(BpStreamWriter *writer, const char *text);
/* A compact tensor on the CPU, in TVM's form of a saved array. */
void bp__stream_write_tensor(BpStreamWriter *writer, const BpTensorView *view);
/* The same with its data at an aligned place of the stream, where a reader can leave them. TVM does
 * not read this form: the word that TVM reserves counts the bytes before the data. */
void bp__stream_write_aligned_tensor(BpStreamWriter *writer, const BpTensorView *view);

/* `what` names the document in errors. `owner` keeps the bytes alive and unchanged for tensors
 * whose data stay there; NULL: the bytes are valid while they are read. */
typedef struct BpStreamReader {
  const char *data;
  size_t size;
  size_t position;
  const char *what;
  BpObject *owner;
} BpStreamReader;

/* Each gives -1 or NULL with an error when the stream ends early or holds what it must not. */
int bp__stream_read(BpStreamReader *reader, void *data, size_t size);
int bp__stream_read_u64(BpStreamReader *reader, uint64_t *value);
/* A count of things that take at least `min_bytes` each: refused if the rest cannot hold them. */
int bp__stream_read_count(BpStreamReader *reader, size_t min_bytes, uint32_t *count);
/* A string (transfer full, free). */
char *bp__stream_read_str(BpStreamReader *reader);
/* A tensor on the CPU (transfer full). It is read-only, and keeps the owner alive, if its data are
 * aligned and have an owner. */
BpTensor *bp__stream_read_tensor(BpStreamReader *reader);
/* The owner of the bytes that a module's loader gets as its second argument, or NULL. */
BpObject *bp__stream_owner(const BpValue *args, int32_t num_args);
/* Refuses what is left over. */
int bp__stream_read_end(const BpStreamReader *reader);

#endif
