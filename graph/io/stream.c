/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams of artifacts. The machine is little-endian; configure rejects other machines. */
#include "graph/io/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* TVM's saved array: magic, reserved, device, ndim, dtype, shape, bytes, data. The reserved word is
 * 0 in TVM's files; in Backplane's aligned form it is the number of bytes, 1 to ALIGNMENT, before
 * the data. */
#define ARRAY_MAGIC 0xDD5E40F096B4A13Full
#define HEAD_SIZE   40 /* size of the head without the shape */
#define MAX_NDIM    32
#define ALIGNMENT   64 /* size of a cache line, and of the largest vector */

/* ---- Writing ----------------------------------------------------------------------------- */

void bp__stream_write(BpStreamWriter *writer, const void *data, size_t size) {
  if (writer->data && size)
    memcpy(writer->data + writer->size, data, size);
  writer->size += size;
}

void bp__stream_write_u64(BpStreamWriter *writer, uint64_t value) {
  bp__stream_write(writer, &value, sizeof(value));
}

void bp__stream_write_str(BpStreamWriter *writer, const char *text) {
  size_t size = strlen(text);
  bp__stream_write_u64(writer, size);
  bp__stream_write(writer, text, size);
}

static void write_tensor(BpStreamWriter *writer, const BpTensorView *view, size_t padding) {
  static const char zeros[ALIGNMENT];
  const int32_t device[2] = {BP_DEVICE_CPU, 0};
  uint64_t bytes = (uint64_t)bp_view_num_bytes(view);
  bp__stream_write_u64(writer, ARRAY_MAGIC);
  bp__stream_write_u64(writer, padding);
  bp__stream_write(writer, device, sizeof(device));
  bp__stream_write(writer, &view->ndim, sizeof(view->ndim));
  bp__stream_write(writer, &view->dtype, sizeof(view->dtype));
  bp__stream_write(writer, view->shape, (size_t)view->ndim * sizeof(*view->shape));
  bp__stream_write_u64(writer, bytes);
  bp__stream_write(writer, zeros, padding);
  bp__stream_write(writer, (const char *)view->data + view->byte_offset, bytes);
}

void bp__stream_write_tensor(BpStreamWriter *writer, const BpTensorView *view) {
  write_tensor(writer, view, 0);
}

void bp__stream_write_aligned_tensor(BpStreamWriter *writer, const BpTensorView *view) {
  size_t at = writer->size + HEAD_SIZE + (size_t)view->ndim * sizeof(*view->shape);
  write_tensor(writer, view, ALIGNMENT - at % ALIGNMENT);
}

/* ---- Reading ----------------------------------------------------------------------------- */

static int bad_stream(const BpStreamReader *reader, const char *why) {
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s: %s at byte %zu of %zu; it is damaged or of another "
                        "version",
                        reader->what, why, reader->position, reader->size);
}

int bp__stream_read(BpStreamReader *reader, void *data, size_t size) {
  if (reader->size - reader->position < size)
    return bad_stream(reader, "it ends early");
  if (size)
    memcpy(data, reader->data + reader->position, size);
  reader->position += size;
  return 0;
}

int bp__stream_read_u64(BpStreamReader *reader, uint64_t *value) {
  return bp__stream_read(reader, value, sizeof(*value));
}

int bp__stream_read_count(BpStreamReader *reader, size_t min_bytes, uint32_t *count) {
  uint64_t value = 0;
  if (bp__stream_read_u64(reader, &value) < 0)
    return -1;
  if (value > UINT32_MAX || value > (reader->size - reader->position) / min_bytes)
    return bad_stream(reader, "a count is larger than the rest can hold");
  *count = (uint32_t)value;
  return 0;
}

char *bp__stream_read_str(BpStreamReader *reader) {
  uint32_t size;
  if (bp__stream_read_count(reader, 1, &size) < 0)
    return NULL;
  if (memchr(reader->data + reader->position, 0, size)) {
    bad_stream(reader, "a string holds a zero byte");
    return NULL;
  }
  char *text = malloc((size_t)size + 1);
  if (!text) {
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for a string of %u bytes", reader->what, size);
    return NULL;
  }
  bp__stream_read(reader, text, size);
  text[size] = '\0';
  return text;
}

static int read_array_head(BpStreamReader *reader, BpTensorView *view, int64_t *shape,
                           uint64_t *padding) {
  uint64_t magic;
  int32_t device[2];
  if (bp__stream_read_u64(reader, &magic) < 0 || bp__stream_read_u64(reader, padding) < 0 ||
      bp__stream_read(reader, device, sizeof(device)) < 0 ||
      bp__stream_read(reader, &view->ndim, sizeof(view->ndim)) < 0 ||
      bp__stream_read(reader, &view->dtype, sizeof(view->dtype)) < 0)
    return -1;
  if (magic != ARRAY_MAGIC)
    return bad_stream(reader, "an array does not begin with its magic number");
  if (*padding > ALIGNMENT)
    return bad_stream(reader, "an array's data are not where its head ends");
  if (view->ndim < 0 || view->ndim > MAX_NDIM)
    return bad_stream(reader, "an array has an impossible number of dimensions");
  if (view->dtype.code == BP_DTYPE_UINT && view->dtype.bits == 1) /* boolean type until TVM 0.19 */
    view->dtype = (BpDataType){BP_DTYPE_BOOL, 8, view->dtype.lanes};
  if (view->dtype.code > BP_DTYPE_BOOL || !view->dtype.bits || !view->dtype.lanes)
    return bad_stream(reader, "an array has an unknown element type");
  view->shape = shape;
  return bp__stream_read(reader, shape, (size_t)view->ndim * sizeof(*shape));
}

static void release_owner(BpManagedTensorVersioned *managed) {
  bp_object_release(managed->manager_context);
  free(managed);
}

/* Makes a tensor whose data stay in the bytes of the stream. */
static BpTensor *wrap_data(const BpStreamReader *reader, const BpTensorView *view) {
  BpManagedTensorVersioned *managed = malloc(sizeof(*managed));
  if (!managed) {
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for a tensor", reader->what);
    return NULL;
  }
  *managed = (BpManagedTensorVersioned){.version_major = 1,
                                        .manager_context = bp_object_retain(reader->owner),
                                        .deleter = release_owner,
                                        .flags = BP_DLPACK_READ_ONLY,
                                        .view = *view};
  managed->view.data = (void *)(uintptr_t)(reader->data + reader->position);
  BpTensor *tensor = bp_tensor_from_dlpack_versioned(managed);
  if (!tensor)
    release_owner(managed);
  return tensor;
}

static BpTensor *read_data(BpStreamReader *reader, BpTensorView *view, size_t bytes,
                           int is_aligned) {
  view->device = (BpDevice){BP_DEVICE_CPU, 0};
  int is_in_place = is_aligned && reader->owner && bytes &&
                    (uintptr_t)(reader->data + reader->position) % ALIGNMENT == 0;
  BpTensor *tensor =
      is_in_place ? wrap_data(reader, view)
                  : bp_tensor_create(view->shape, view->ndim, view->dtype, view->device, NULL);
  if (tensor && is_in_place)
    reader->position += bytes;
  else if (tensor)
    bp__stream_read(reader, tensor->view.data, bytes);
  return tensor;
}

BpTensor *bp__stream_read_tensor(BpStreamReader *reader) {
  int64_t shape[MAX_NDIM];
  BpTensorView view = {0};
  uint64_t bytes, padding;
  if (read_array_head(reader, &view, shape, &padding) < 0 ||
      bp__stream_read_u64(reader, &bytes) < 0)
    return NULL;
  int64_t expected = bp_view_num_bytes(&view);
  if (expected < 0) {
    bp_error_add_context("%s", reader->what);
    return NULL;
  }
  size_t left = reader->size - reader->position;
  if (bytes != (uint64_t)expected || padding > left || bytes > left - padding) {
    bad_stream(reader, "an array does not have as many bytes as its shape needs");
    return NULL;
  }
  reader->position += padding;
  return read_data(reader, &view, bytes, padding > 0);
}

BpObject *bp__stream_owner(const BpValue *args, int32_t num_args) {
  return num_args > 1 && args[1].type_index >= BP_TYPE_OBJECT ? args[1].v_obj : NULL;
}

int bp__stream_read_end(const BpStreamReader *reader) {
  return reader->position == reader->size ? 0 : bad_stream(reader, "bytes are left over");
}
