/* SPDX-License-Identifier: Apache-2.0 */
/* Models in memory: the caller keeps the elements of large tensors, which decoding would copy. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/io/argument.h"
#include "graph/onnx/import.h"

/* The sizes of BpOnnxBytes and BpOnnxTensor in their first version. */
#define LEAST_BYTES  (offsetof(BpOnnxBytes, num_tensors) + sizeof(uint64_t))
#define LEAST_TENSOR (offsetof(BpOnnxTensor, size) + sizeof(uint64_t))

static int check_bytes(const BpOnnxBytes *bytes) {
  if (!BP_NOT_NULL(bytes) ||
      bp__check_sized("BpOnnxBytes", bytes, LEAST_BYTES, sizeof(*bytes)) < 0 ||
      !BP_NOT_NULL(bytes->name) || !BP_NOT_NULL(bytes->data))
    return -1;
  if (bytes->size == 0 || bytes->size > INT32_MAX)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "'%s' is no ONNX model: it has %" PRIu64 " bytes; 1 to %" PRId32
                          " are possible",
                          bytes->name, bytes->size, INT32_MAX);
  if (bytes->num_tensors > 0 && !BP_NOT_NULL(bytes->tensors))
    return -1;
  if (bytes->num_tensors > 0 && bytes->tensor_size < LEAST_TENSOR)
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpOnnxBytes::tensor_size is %" PRIu64 "; set it to "
                          "sizeof(BpOnnxTensor), here %zu",
                          bytes->tensor_size, sizeof(BpOnnxTensor));
  return 0;
}

static const BpOnnxTensor *tensor_at(const BpOnnxBytes *bytes, uint64_t index) {
  return (const BpOnnxTensor *)(const void *)((const char *)bytes->tensors +
                                              index * bytes->tensor_size);
}

/* Lends the caller's elements to an initializer that the model declares as external. */
static int lend(OnnxTensor *tensor, GHashTable *given, OnnxMemory *memory) {
  const BpOnnxTensor *from = tensor->name ? g_hash_table_lookup(given, tensor->name) : NULL;
  if (!from)
    return bp_error_raise(
        BP_ERROR_FORMAT, "initializer '%s' has its data elsewhere, and none was given for it",
        tensor->name && g_utf8_validate(tensor->name, -1, NULL) ? tensor->name : "");
  free(tensor->raw_data.data);
  tensor->raw_data = (ProtobufCBinaryData){from->size, (uint8_t *)(uintptr_t)from->data};
  tensor->has_raw_data = 1;
  tensor->data_location = 0;
  memory->lent[memory->num_lent++] = tensor;
  return 0;
}

static int lend_all(const BpOnnxBytes *bytes, OnnxMemory *memory) {
  const OnnxGraph *graph = memory->model->graph;
  GHashTable *given = g_hash_table_new(g_str_hash, g_str_equal);
  int status = 0;
  memory->lent = calloc(graph->n_initializer + 1, sizeof(OnnxTensor *));
  if (!memory->lent)
    status =
        bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu initializers", graph->n_initializer);
  for (uint64_t i = 0; i < bytes->num_tensors && status == 0; i++) {
    const BpOnnxTensor *tensor = tensor_at(bytes, i);
    if (!BP_NOT_NULL(tensor->name) || (tensor->size > 0 && !BP_NOT_NULL(tensor->data)))
      status = -1;
    else
      g_hash_table_insert(given, (char *)(uintptr_t)tensor->name, (void *)(uintptr_t)tensor);
  }
  for (size_t i = 0; i < graph->n_initializer && status == 0; i++)
    if (graph->initializer[i]->data_location != 0)
      status = lend(graph->initializer[i], given, memory);
  g_hash_table_destroy(given);
  return status;
}

int bp__onnx_open_memory(const BpOnnxBytes *bytes, OnnxMemory *memory) {
  *memory = (OnnxMemory){0};
  if (check_bytes(bytes))
    return -1;
  memory->model = bp__onnx_decode(bytes->name, bytes->data, bytes->size);
  return memory->model ? lend_all(bytes, memory) : -1;
}

void bp__onnx_close_memory(OnnxMemory *memory) {
  for (size_t i = 0; i < memory->num_lent; i++)
    memory->lent[i]->raw_data = (ProtobufCBinaryData){0};
  free(memory->lent);
  bp__onnx_free(memory->model);
  *memory = (OnnxMemory){0};
}

/* ---- Querying ---------------------------------------------------------------------------- */

typedef struct Query {
  BpOnnxQueryVisit visit;
  void *context;
} Query;

static int tell(void *context, size_t index, const char *why) {
  const Query *query = context;
  BpOnnxQueried node = {.struct_size = sizeof node, .index = index, .why = why};
  return query->visit(query->context, &node);
}

int bp_onnx_query(const BpOnnxBytes *model, BpOnnxQueryVisit visit, void *context) {
  OnnxMemory memory = {0};
  Query query = {visit, context};
  if (!BP_NOT_NULL(visit))
    return -1;
  int status = bp__onnx_open_memory(model, &memory);
  if (status == 0)
    status = bp__onnx_query_nodes(memory.model, tell, &query);
  bp__onnx_close_memory(&memory);
  return status;
}
