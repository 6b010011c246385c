/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter files in TVM's form: magic, reserved, names, tensors. */
#include <backplane/graph/executor.h>

#include <stdlib.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/io/argument.h"
#include "graph/io/stream.h"

#define PARAMS_MAGIC 0xF7E58D4F05049CB7ull
#define MIN_TENSOR   40

static void write_params(BpStreamWriter *writer, const char *const *names, BpTensor *const *tensors,
                         size_t count) {
  bp__stream_write_u64(writer, PARAMS_MAGIC);
  bp__stream_write_u64(writer, 0);
  bp__stream_write_u64(writer, count);
  for (size_t i = 0; i < count; i++)
    bp__stream_write_str(writer, names[i]);
  bp__stream_write_u64(writer, count);
  for (size_t i = 0; i < count; i++)
    bp__stream_write_tensor(writer, &tensors[i]->view);
}

int bp_params_encode(const char *const *names, BpTensor *const *tensors, size_t count,
                     BpOwnedBytes *bytes) {
  if (!BP_NOT_NULL(bytes) || (count && (!BP_NOT_NULL(names) || !BP_NOT_NULL(tensors))))
    return -1;
  for (size_t i = 0; i < count; i++) {
    if (!BP_NOT_NULL(names[i]) || !BP_NOT_NULL(tensors[i]))
      return -1;
    if (tensors[i]->view.device.device_type != BP_DEVICE_CPU ||
        !bp_view_is_compact(&tensors[i]->view))
      return bp_error_raise(BP_ERROR_VALUE, "parameter '%s' is not a compact tensor on the CPU",
                            names[i]);
  }
  BpStreamWriter writer = {NULL, 0};
  write_params(&writer, names, tensors, count);
  writer.data = malloc(writer.size);
  if (!writer.data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu bytes of parameters", writer.size);
  writer.size = 0;
  write_params(&writer, names, tensors, count);
  *bytes = (BpOwnedBytes){writer.data, writer.size, free};
  return 0;
}

typedef struct Params {
  char **names;
  BpTensor **tensors;
  uint32_t count;
} Params;

static void params_clear(Params *params) {
  for (uint32_t i = 0; i < params->count; i++) {
    if (params->names)
      free(params->names[i]);
    if (params->tensors)
      bp_object_release(params->tensors[i]);
  }
  free(params->names);
  free(params->tensors);
}

static int read_params(BpStreamReader *reader, Params *params) {
  uint64_t magic, reserved;
  uint32_t tensors;
  if (bp__stream_read_u64(reader, &magic) < 0 || bp__stream_read_u64(reader, &reserved) < 0)
    return -1;
  if (magic != PARAMS_MAGIC)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "%s: it does not begin with the magic number of "
                          "parameter files",
                          reader->what);
  if (bp__stream_read_count(reader, 8, &params->count) < 0)
    return -1;
  params->names = calloc((size_t)params->count + 1, sizeof(*params->names));
  params->tensors = calloc((size_t)params->count + 1, sizeof(*params->tensors));
  if (!params->names || !params->tensors)
    return bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for %u names", reader->what,
                          params->count);
  for (uint32_t i = 0; i < params->count; i++)
    if (!(params->names[i] = bp__stream_read_str(reader)))
      return -1;
  if (bp__stream_read_count(reader, MIN_TENSOR, &tensors) < 0)
    return -1;
  if (tensors != params->count)
    return bp_error_raise(BP_ERROR_FORMAT, "%s: %u names and %u tensors", reader->what,
                          params->count, tensors);
  for (uint32_t i = 0; i < tensors; i++)
    if (!(params->tensors[i] = bp__stream_read_tensor(reader)))
      return -1;
  return bp__stream_read_end(reader);
}

int bp_params_decode(const BpByteArray *bytes,
                     int (*visit)(void *context, const char *name, BpTensor *tensor),
                     void *context) {
  if (!BP_NOT_NULL(bytes) || !BP_NOT_NULL(visit))
    return -1;
  BpStreamReader reader = {bytes->data, bytes->size, 0, "parameter file", NULL};
  Params params = {NULL, NULL, 0};
  int status = read_params(&reader, &params);
  for (uint32_t i = 0; status == 0 && i < params.count; i++)
    status = visit(context, params.names[i], params.tensors[i]);
  params_clear(&params);
  return status;
}
