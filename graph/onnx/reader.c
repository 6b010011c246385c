/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file and decodes it in bounded memory and stack. protobuf-c decodes only the fields that
 * onnx.proto declares, whose nesting is bounded, and allocates from a budget in proportion to the
 * file, so that a small file of many empty messages cannot take much memory. */
#include "graph/onnx/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

/* The bytes of stack that must be free when a model is read or compiled; a stack of 1 MiB
 * suffices. */
#define LEAST_STACK ((size_t)768 << 10)

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

/* ---- The stack --------------------------------------------------------------------------- */

/* The number of bytes left on the current thread's stack; SIZE_MAX if unknown, as for a stack that
 * a program made itself. */
static size_t stack_left(void) {
  pthread_attr_t attributes;
  void *base;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes))
    return SIZE_MAX;
  int failed = pthread_attr_getstack(&attributes, &base, &size);
  uintptr_t here = (uintptr_t)__builtin_frame_address(0), least = (uintptr_t)base;
  pthread_attr_destroy(&attributes);
  return failed || here < least || here - least > size ? SIZE_MAX : here - least;
}

/* Fails if the stack is too small: a stack overflow would end the process. */
static int check_stack(void) {
  size_t left = stack_left();
  if (left >= LEAST_STACK)
    return 0;
  return bp_error_raise(
      BP_ERROR_RUNTIME,
      "a thread that reads an ONNX model needs a stack of at least 1 MiB, and this "
      "one has %zu KiB left; raise the limit (ulimit -s 8192), or make the "
      "thread with a larger stack",
      left >> 10);
}

/* ---- Decoding ---------------------------------------------------------------------------- */

OnnxModel *bp__onnx_decode(const char *path, const void *bytes, size_t size) {
  Budget budget = {BUDGET_BASE + BUDGET_FACTOR * size, 0};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
  if (check_stack())
    return NULL;
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

/* ---- Types ------------------------------------------------------------------------------- */

typedef Backplane__Onnx__TypeProto TypeProto;

static int read_tensor_type(const TypeProto *proto, const char *role, const char *name,
                            OnnxType *type) {
  const Backplane__Onnx__TensorTypeProto *tensor = proto ? proto->tensor_type : NULL;
  size_t ndim = tensor && tensor->shape ? tensor->shape->n_dim : 0;
  if (ndim > BP_GRAPH_MAX_NDIM)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s '%s' has %zu dimensions, at most %d work",
                          role, name, ndim, BP_GRAPH_MAX_NDIM);
  type->ndim = tensor && tensor->shape ? (int32_t)ndim : -1;
  for (int32_t i = 0; i < type->ndim; i++)
    type->shape[i] = bp__onnx_extent(tensor->shape->dim[i]);
  if (!tensor || bp__dtype_from_onnx(tensor->elem_type, &type->dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s '%s' is not %s of a supported type", role,
                          name, type->kind ? "a list of tensors" : "a tensor");
  return 0;
}

static int read_type(const TypeProto *proto, const char *role, const char *name, OnnxType *type);

/* Reads the type in a sequence or optional, which a message contains as bytes. */
static int read_list_type(const ProtobufCBinaryData *bytes, const char *role, const char *name,
                          OnnxType *type) {
  Budget budget = {SUBGRAPH_BASE + BUDGET_FACTOR * bytes->len, 0};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
  Backplane__Onnx__ListTypeProto *list =
      backplane__onnx__list_type_proto__unpack(&allocator, bytes->len, bytes->data);
  if (!list)
    return budget.is_out_of_memory
               ? bp_error_raise(BP_ERROR_MEMORY, "no memory to decode the type of '%s'", name)
               : bp_error_raise(BP_ERROR_FORMAT, "the type of %s '%s' does not decode", role, name);
  int status = read_type(list->elem_type, role, name, type);
  backplane__onnx__list_type_proto__free_unpacked(list, &allocator);
  return status;
}

/* Reads a type: a tensor, a sequence of tensors, or an optional with one of these; `type` has the
 * kind of the type around it. */
static int read_type(const TypeProto *proto, const char *role, const char *name, OnnxType *type) {
  bool is_sequence = proto && proto->has_sequence_type;
  bool is_optional = proto && proto->has_optional_type;
  if (proto && (proto->has_map_type || proto->has_sparse_tensor_type))
    return bp_error_raise(
        BP_ERROR_NOT_IMPLEMENTED,
        "%s '%s' is %s, and inputs and outputs of models must be dense tensors, "
        "sequences or optionals of them; give the model %ss for the tensors inside",
        role, name, proto->has_map_type ? "a map" : "a sparse tensor", role);
  if (!is_sequence && !is_optional)
    return read_tensor_type(proto, role, name, type);
  if ((type->kind & BP_MODEL_SEQUENCE) || (type->kind && is_optional))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "%s '%s' is a list of lists; sequences of tensors, and optionals of "
                          "tensors and of sequences, work",
                          role, name);
  type->kind |= is_sequence ? BP_MODEL_SEQUENCE : BP_MODEL_OPTIONAL;
  return read_list_type(is_sequence ? &proto->sequence_type : &proto->optional_type, role, name,
                        type);
}

int bp__onnx_read_type(const OnnxValueInfo *info, const char *role, OnnxType *type) {
  *type = (OnnxType){.kind = BP_MODEL_TENSOR, .ndim = -1};
  return read_type(info->type, role, info->name ? info->name : "", type);
}

/* ---- Initializers ------------------------------------------------------------------------ */

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
