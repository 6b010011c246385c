/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file and decodes it in bounded memory. protobuf-c decodes only the fields that onnx.proto
 * declares, whose nesting is bounded, and allocates from a budget in proportion to the file, so
 * that a small file of many empty messages cannot take much memory. */
#include "graph/onnx/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <backplane/error.h>

#include "graph/ops/op.h"

/* The maximum size of a protocol buffer is 2 GiB. */
#define MAX_FILE_BYTES ((size_t)INT32_MAX)
/* The memory that decoding may take: packed numbers grow eightfold, the messages of a real model
 * grow less. */
#define BUDGET_BASE   ((size_t)64 << 20)
#define SUBGRAPH_BASE ((size_t)1 << 16)
#define BUDGET_FACTOR 16

typedef struct Budget {
  size_t left;
  int is_out_of_memory;
} Budget;

static void *budget_alloc(void *data, size_t size) {
  Budget *budget = data;
  if (size > budget->left)
    return NULL;
  budget->left -= size;
  void *memory = malloc(size);
  budget->is_out_of_memory |= !memory;
  return memory;
}

static void budget_free(void *data, void *pointer) {
  (void)data;
  free(pointer);
}

static int read_all(int file, const char *path, uint8_t *bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(file, bytes + done, size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return bp_error_raise(BP_ERROR_IO, "cannot read '%s': %s", path, strerror(errno));
    if (got == 0)
      return bp_error_raise(BP_ERROR_IO, "'%s' became shorter while it was read", path);
    done += (size_t)got;
  }
  return 0;
}

static uint8_t *read_file(int file, const char *path, size_t *size) {
  struct stat status;
  uint8_t *bytes;
  if (fstat(file, &status)) {
    bp_error_raise(BP_ERROR_IO, "cannot read '%s': %s", path, strerror(errno));
    return NULL;
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    bp_error_raise(BP_ERROR_FORMAT, "'%s' is no ONNX model: it is %s", path,
                   S_ISREG(status.st_mode) ? "empty" : "not a regular file");
    return NULL;
  }
  if ((uint64_t)status.st_size > MAX_FILE_BYTES) {
    bp_error_raise(BP_ERROR_FORMAT, "'%s' is no ONNX model: it is larger than 2 GiB", path);
    return NULL;
  }
  *size = (size_t)status.st_size;
  bytes = malloc(*size);
  if (!bytes)
    bp_error_raise(BP_ERROR_MEMORY, "cannot allocate %zu bytes to read '%s'", *size, path);
  if (bytes && read_all(file, path, bytes, *size)) {
    free(bytes);
    return NULL;
  }
  return bytes;
}

/* Raises an error for a file that cannot be decoded, and says what kind of file it is. */
static void raise_undecoded(const char *path, const uint8_t *bytes, size_t size) {
  if (size >= 4 && !memcmp(bytes, "\177ELF", 4))
    bp_error_raise(BP_ERROR_FORMAT,
                   "'%s' is no ONNX model but an ELF file; if `backplane compile` wrote it, rename "
                   "it to end in .so",
                   path);
  else
    bp_error_raise(BP_ERROR_FORMAT,
                   "'%s' is no ONNX model, or it is damaged: it does not decode; check it with "
                   "onnx.checker, or fetch it again",
                   path);
}

OnnxModel *bp__onnx_decode(const char *path, const void *bytes, size_t size) {
  Budget budget = {BUDGET_BASE + BUDGET_FACTOR * size, 0};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
  OnnxModel *model = backplane__onnx__model_proto__unpack(&allocator, size, bytes);
  if (!model && budget.is_out_of_memory) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory to decode '%s'", path);
    return NULL;
  }
  if (!model) {
    raise_undecoded(path, bytes, size);
    return NULL;
  }
  if (!model->graph || model->n_opset_import == 0) {
    bp_error_raise(BP_ERROR_FORMAT, "'%s' is no ONNX model: it has no %s", path,
                   model->graph ? "operator set" : "graph");
    bp__onnx_free(model);
    return NULL;
  }
  return model;
}

/* ---- Subgraphs --------------------------------------------------------------------------- */

typedef struct ArenaBudget {
  BpArena *arena;
  size_t left;
  int is_out_of_memory;
} ArenaBudget;

static void *arena_alloc(void *data, size_t size) {
  ArenaBudget *budget = data;
  if (size > budget->left)
    return NULL;
  budget->left -= size;
  void *memory = bp__arena_alloc(budget->arena, size);
  budget->is_out_of_memory |= !memory;
  return memory;
}

static void arena_keep(void *data, void *pointer) {
  (void)data;
  (void)pointer;
}

OnnxGraph *bp__onnx_decode_graph(BpGraph *graph, const ProtobufCBinaryData *bytes) {
  ArenaBudget budget = {&graph->arena, SUBGRAPH_BASE + BUDGET_FACTOR * bytes->len, 0};
  ProtobufCAllocator allocator = {arena_alloc, arena_keep, &budget};
  OnnxGraph *onnx = backplane__onnx__graph_proto__unpack(&allocator, bytes->len, bytes->data);
  if (!onnx && !budget.is_out_of_memory)
    bp_error_raise(BP_ERROR_FORMAT, "a subgraph of the model does not decode; check the model with "
                                    "onnx.checker, or fetch it again");
  return onnx;
}

/* ---- Parts of a model -------------------------------------------------------------------- */

int64_t bp__onnx_extent(const OnnxDimension *dimension) {
  return dimension->has_dim_value && dimension->dim_value >= 0 ? dimension->dim_value : -1;
}

const char *bp__onnx_symbol(const OnnxDimension *dimension) {
  const char *symbol = dimension->dim_param;
  return symbol && strcmp(symbol, "?") != 0 ? symbol : "";
}

/* Returns the kind of a type that is not a dense tensor; NULL for a dense tensor. */
static const char *kind_of(const Backplane__Onnx__TypeProto *type) {
  return !type                          ? NULL
         : type->has_sequence_type      ? "a sequence"
         : type->has_optional_type      ? "an optional"
         : type->has_map_type           ? "a map"
         : type->has_sparse_tensor_type ? "a sparse tensor"
                                        : NULL;
}

int bp__onnx_tensor_dtype(const OnnxValueInfo *info, const char *role, BpDataType *dtype) {
  const Backplane__Onnx__TypeProto *type = info->type;
  const char *kind = kind_of(type), *name = info->name ? info->name : "";
  if (kind)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "%s '%s' is %s, and inputs and outputs of models must be dense tensors; "
                          "give the model %ss for the tensors inside",
                          role, name, kind, role);
  if (!type || !type->tensor_type || bp__dtype_from_onnx(type->tensor_type->elem_type, dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s '%s' is not a tensor of a supported type",
                          role, name);
  return 0;
}

const OnnxTensor *bp__onnx_initializer(const OnnxGraph *graph, const char *name) {
  for (size_t i = 0; name && i < graph->n_initializer; i++)
    if (graph->initializer[i]->name && !strcmp(graph->initializer[i]->name, name))
      return graph->initializer[i];
  return NULL;
}

int bp__onnx_has_defaults(const OnnxModel *model) {
  return model->has_ir_version && model->ir_version >= 4;
}

/* ---- Models ------------------------------------------------------------------------------ */

OnnxModel *bp__onnx_read(const char *path) {
  OnnxModel *model = NULL;
  uint8_t *bytes;
  size_t size;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    bp_error_raise(BP_ERROR_IO, "cannot open the model '%s': %s", path, strerror(errno));
    return NULL;
  }
  bytes = read_file(file, path, &size);
  close(file);
  if (bytes)
    model = bp__onnx_decode(path, bytes, size);
  free(bytes);
  return model;
}

static void release_tensor(OnnxTensor *tensor, const BpList *live) {
  if (!tensor || tensor->raw_data.len < BP_GRAPH_LARGE ||
      bp__live_has(live, tensor->raw_data.data, tensor->raw_data.len))
    return;
  free(tensor->raw_data.data);
  tensor->raw_data = (ProtobufCBinaryData){0};
}

void bp__onnx_release(OnnxFile *file, const BpList *live) {
  const OnnxGraph *graph = file->model->graph;
  bp__onnx_unmap(file, live);
  for (size_t i = 0; i < graph->n_initializer; i++)
    release_tensor(graph->initializer[i], live);
  for (size_t i = 0; i < graph->n_node; i++)
    for (size_t k = 0; k < graph->node[i]->n_attribute; k++)
      release_tensor(graph->node[i]->attribute[k]->t, live);
}

void bp__onnx_free(OnnxModel *model) {
  ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
  if (model)
    backplane__onnx__model_proto__free_unpacked(model, &allocator);
}
