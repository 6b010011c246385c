/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that a workspace keeps from run to run. */
#include "graph/relax/kept.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/relax/arguments.h"
#include "graph/relax/workspace.h"

#define ALIGNMENT 256

/* The fraction by which a growing arena gets more bytes than it needs, because extents often grow
 * by one. */
#define SPARE_PART 8

static const BpDataType int64 = {BP_DTYPE_INT, 64, 1};

BpRelaxKept *bp__relax_get_entry(const BpValue *value) {
  int64_t number;
  if (bp__relax_get_int(value, &number) < 0)
    return NULL;
  return bp__relax_workspace_entry(bp__relax_workspace_current(), number);
}

BpTensor *bp__relax_kept_get(const BpRelaxKept *kept) {
  return kept->object && kept->object->type_index == BP_TYPE_TENSOR ? (BpTensor *)kept->object
                                                                    : NULL;
}

int bp__relax_keep_tensor(BpRelaxKept *kept, BpTensor *tensor, const void *base, BpValue *result) {
  bp__relax_kept_clear(kept);
  if (!tensor)
    return -1;
  kept->object = &tensor->header;
  kept->base = base;
  return bp__relax_return_tensor(result, bp_object_retain(tensor));
}

int bp__relax_get_extents(const BpValue *args, int32_t num_args, int64_t *extents, int32_t *ndim) {
  int64_t count;
  if (bp__relax_get_int(&args[1], &count) < 0)
    return -1;
  if (count < 0 || count > BP_RELAX_MAX_NDIM || count > (num_args - 2) / 2)
    return bp_error_raise(BP_ERROR_VALUE, "a tensor of %" PRId64 " extents in %d arguments", count,
                          num_args);
  *ndim = (int32_t)count;
  for (int32_t i = 0; i < *ndim; i++)
    if (bp__relax_make_extent(&args[0], &args[2 + 2 * i], &extents[i]) < 0)
      return -1;
  return 0;
}

static int has_shape(const BpTensor *tensor, const int64_t *extents, int32_t ndim,
                     BpDataType dtype) {
  const BpTensorView *view = &tensor->view;
  return view->ndim == ndim && !memcmp(&view->dtype, &dtype, sizeof(dtype)) &&
         (ndim == 0 || !memcmp(view->shape, extents, (size_t)ndim * sizeof(*extents)));
}

int bp__relax_kept_heap(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  int64_t cells;
  (void)machine;
  if (bp__relax_check_count(num_args, 3, 3) < 0 || bp__relax_get_int(&args[2], &cells) < 0)
    return -1;
  BpRelaxKept *kept = bp__relax_get_entry(&args[1]);
  if (!kept)
    return -1;
  const BpTensor *heap = bp__relax_kept_get(kept);
  if (heap && bp__relax_kept_is_unshared(kept) && has_shape(heap, &cells, 1, int64))
    return bp__relax_return_tensor(result, bp_object_retain(kept->object));
  return bp__relax_keep_tensor(
      kept, bp_tensor_create(&cells, 1, int64, (BpDevice){BP_DEVICE_CPU, 0}, NULL), NULL, result);
}

/* ---- Arenas ------------------------------------------------------------------------------ */

/* A position in the arguments of plan_arena. */
typedef struct Reader {
  const BpValue *args;
  int32_t at, num_args;
  const BpValue *heap;
} Reader;

static int next_int(Reader *reader, int64_t *number) {
  if (reader->at >= reader->num_args)
    return bp_error_raise(BP_ERROR_VALUE, "a plan of memory ends in its middle");
  return bp__relax_get_int(&reader->args[reader->at++], number);
}

/* Reads the bytes of the next value. */
static int next_value(Reader *reader, uint64_t *bytes) {
  int64_t extents[BP_RELAX_MAX_NDIM];
  BpTensorView view = {.shape = extents};
  if (reader->num_args - reader->at < 2)
    return bp_error_raise(BP_ERROR_VALUE, "a plan of memory ends in its middle");
  if (bp__relax_get_dtype(&reader->args[reader->at++], &view.dtype) < 0)
    return -1;
  const BpValue *shape = &reader->args[reader->at];
  int64_t count;
  if (next_int(reader, &count) < 0)
    return -1;
  if (count < 0 || count > BP_RELAX_MAX_NDIM || count > (reader->num_args - reader->at) / 2)
    return bp_error_raise(BP_ERROR_VALUE, "a plan of memory has a value of %" PRId64 " extents",
                          count);
  for (int64_t i = 0; i < count; i++)
    if (bp__relax_make_extent(reader->heap, &shape[1 + 2 * i], &extents[i]) < 0)
      return -1;
  reader->at += 2 * (int32_t)count;
  view.ndim = (int32_t)count;
  int64_t size = bp_view_num_bytes(&view);
  *bytes = size < 0 ? 0 : (uint64_t)size;
  return size < 0 ? -1 : 0;
}

/* Adds the next part, and moves *end past the part. */
static int next_part(Reader *reader, uint64_t *end) {
  int64_t count;
  uint64_t largest = 0;
  if (next_int(reader, &count) < 0)
    return -1;
  for (int64_t i = 0; i < count; i++) {
    uint64_t bytes;
    if (next_value(reader, &bytes) < 0)
      return -1;
    largest = bytes > largest ? bytes : largest;
  }
  if (largest > INT64_MAX - ALIGNMENT - *end)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the intermediate values need more than %" PRId64 " bytes", INT64_MAX);
  *end += (largest + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return 0;
}

static int lay_parts(Reader *reader, int64_t count, BpRelaxKept *arena) {
  if (count < 0 || count > reader->num_args - reader->at)
    return bp_error_raise(BP_ERROR_VALUE, "a plan of %" PRId64 " parts in %d arguments", count,
                          reader->num_args);
  if (!arena->offsets || arena->num_parts != (uint64_t)count) {
    uint64_t *offsets = realloc(arena->offsets, ((size_t)count + 1) * sizeof(*offsets));
    if (!offsets)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for a plan of %" PRId64 " parts", count);
    arena->offsets = offsets;
    arena->num_parts = (uint64_t)count;
  }
  uint64_t end = 0;
  for (int64_t i = 0; i < count; i++) {
    arena->offsets[i] = end;
    if (next_part(reader, &end) < 0)
      return -1;
  }
  arena->offsets[count] = end;
  return 0;
}

static int grow(BpRelaxMachine *machine, int64_t device, BpRelaxKept *arena) {
  uint64_t needed = arena->offsets[arena->num_parts], size = needed;
  if (arena->object && needed <= arena->size)
    return 0;
  if (arena->object)
    size += needed / SPARE_PART / ALIGNMENT * ALIGNMENT;
  bp__relax_workspace_clear_arena(bp__relax_workspace_current(), arena);
  arena->object = bp__relax_storage_create(machine->pools[device], size,
                                           (BpDataType){BP_DTYPE_UINT, 8, 1}, NULL);
  arena->size = arena->object ? size : 0;
  return arena->object ? 0 : -1;
}

int bp__relax_plan_arena(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  int64_t device, count;
  (void)result;
  if (bp__relax_check_count(num_args, 5, INT32_MAX) < 0 ||
      bp__relax_get_device(machine, &args[2], &device) < 0 ||
      bp__relax_get_int(&args[4], &count) < 0)
    return -1;
  BpRelaxKept *arena = bp__relax_get_entry(&args[1]);
  Reader reader = {args, 5, num_args, &args[3]};
  if (!arena)
    return -1;
  if (lay_parts(&reader, count, arena) < 0) {
    arena->num_parts = 0; /* some of the offsets would not belong to the new plan */
    return -1;
  }
  return grow(machine, device, arena);
}

/* Finds the arena that two arguments give, and the beginning of their part in it. */
static int find_part(const BpValue *args, const BpRelaxKept **arena, uint64_t *offset) {
  int64_t part;
  *arena = bp__relax_get_entry(&args[0]);
  if (!*arena || bp__relax_get_int(&args[1], &part) < 0)
    return -1;
  const BpValue storage = {.type_index = BP_TYPE_OBJECT, .v_obj = (*arena)->object};
  if (!(*arena)->object || (*arena)->object->type_index != BP_TYPE_OBJECT ||
      !bp__relax_is_storage(&storage) || part < 0 || (uint64_t)part >= (*arena)->num_parts)
    return bp_error_raise(BP_ERROR_VALUE, "part %" PRId64 " of an arena that was not planned",
                          part);
  *offset = (*arena)->offsets[part];
  return 0;
}

/* Moves a tensor of the arena, and gives it another shape with as many dimensions. */
static void move_tensor(BpTensor *tensor, const BpRelaxKept *arena, uint64_t offset,
                        const int64_t *extents) {
  BpTensorView *view = &tensor->view;
  uint64_t stride = 1; /* strides of a tensor without elements may overflow, and are not used */
  if (view->device.device_type == BP_DEVICE_CPU)
    view->data = (char *)bp__relax_storage_handle(arena->object) + offset;
  else
    view->byte_offset = offset;
  for (int32_t i = view->ndim - 1; i >= 0; i--) {
    view->shape[i] = extents[i];
    view->strides[i] = (int64_t)stride;
    stride *= extents[i] > 0 ? (uint64_t)extents[i] : 1;
  }
}

int bp__relax_arena_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                           BpValue *result) {
  int64_t extents[BP_RELAX_MAX_NDIM];
  uint64_t offset = 0;
  const BpRelaxKept *arena = NULL;
  BpTensorView view = {.shape = extents};
  (void)machine;
  if (bp__relax_check_count(num_args, 7, INT32_MAX) < 0 ||
      find_part(&args[2], &arena, &offset) < 0 || bp__relax_get_dtype(&args[4], &view.dtype) < 0 ||
      bp__relax_get_extents(&args[5], num_args - 5, extents, &view.ndim) < 0)
    return -1;
  BpRelaxKept *kept = bp__relax_get_entry(&args[1]);
  int64_t bytes = kept ? bp_view_num_bytes(&view) : -1;
  if (bytes < 0)
    return -1;
  BpTensor *tensor = bp__relax_kept_get(kept);
  if (!tensor || kept->base != arena->object || tensor->view.ndim != view.ndim ||
      memcmp(&tensor->view.dtype, &view.dtype, sizeof(view.dtype)) != 0)
    return bp__relax_keep_tensor(
        kept,
        bp__relax_storage_tensor(arena->object, (int64_t)offset, extents, view.ndim, view.dtype),
        arena->object, result);
  if ((uint64_t)bytes > arena->size - offset)
    return bp_error_raise(
        BP_ERROR_INDEX, "a tensor of %" PRId64 " bytes at byte %" PRIu64 " of an arena of %" PRIu64,
        bytes, offset, arena->size);
  move_tensor(tensor, arena, offset, extents);
  return bp__relax_return_tensor(result, bp_object_retain(tensor));
}

/* ---- Outputs and views ------------------------------------------------------------------- */

/* The common arguments of kept_tensor and kept_view: the entry that keeps the tensor, its type and
 * its shape. */
typedef struct Wanted {
  BpRelaxKept *kept;
  BpDataType dtype;
  int64_t extents[BP_RELAX_MAX_NDIM];
  int32_t ndim;
} Wanted;

static int read_wanted(const BpValue *args, int32_t num_args, Wanted *wanted) {
  if (bp__relax_check_count(num_args, 6, INT32_MAX) < 0 ||
      bp__relax_get_dtype(&args[3], &wanted->dtype) < 0 ||
      bp__relax_get_extents(&args[4], num_args - 4, wanted->extents, &wanted->ndim) < 0)
    return -1;
  wanted->kept = bp__relax_get_entry(&args[1]);
  return wanted->kept ? 0 : -1;
}

int bp__relax_kept_tensor(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result) {
  Wanted wanted;
  int64_t device;
  if (read_wanted(args, num_args, &wanted) < 0 ||
      bp__relax_get_device(machine, &args[2], &device) < 0)
    return -1;
  BpRelaxKept *kept = wanted.kept;
  const BpTensor *tensor = bp__relax_kept_get(kept);
  if (tensor && bp__relax_kept_is_unshared(kept) &&
      has_shape(tensor, wanted.extents, wanted.ndim, wanted.dtype) &&
      !memcmp(&tensor->view.device, &machine->devices[device], sizeof(BpDevice)))
    return bp__relax_return_tensor(result, bp_object_retain(kept->object));
  bp__relax_kept_clear(kept);
  return bp__relax_keep_tensor(
      kept,
      bp__relax_create_pooled(machine, device, wanted.extents, (size_t)wanted.ndim, wanted.dtype),
      NULL, result);
}

int bp__relax_kept_view(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  Wanted wanted;
  BpTensor *wrapped = NULL;
  (void)machine;
  if (read_wanted(args, num_args, &wanted) < 0)
    return -1;
  BpRelaxKept *kept = wanted.kept;
  if (args[2].type_index == BP_TYPE_TENSOR_VIEW) /* the argument is only borrowed */
    wrapped = bp_tensor_wrap(args[2].v_view, NULL, NULL);
  BpTensor *base = wrapped ? wrapped : bp__relax_get_tensor(&args[2]);
  if (!base)
    return -1;
  const BpTensor *tensor = bp__relax_kept_get(kept);
  if (tensor && kept->base == base && tensor->view.data == base->view.data &&
      tensor->view.byte_offset == base->view.byte_offset &&
      has_shape(tensor, wanted.extents, wanted.ndim, wanted.dtype))
    return bp__relax_return_tensor(result, bp_object_retain(kept->object));
  int status = bp__relax_keep_tensor(
      kept, bp_tensor_create_view(base, wanted.extents, wanted.ndim, wanted.dtype, 0), base,
      result);
  if (wrapped)
    bp__relax_kept_clear(kept);
  bp_object_release(wrapped);
  return status;
}

int bp__relax_kept_tuple(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  (void)machine;
  if (bp__relax_check_count(num_args, 2, INT32_MAX) < 0)
    return -1;
  BpRelaxKept *kept = bp__relax_get_entry(&args[1]);
  if (!kept)
    return -1;
  int64_t count = num_args - 2;
  BpArray *array =
      kept->object && kept->object->type_index == BP_TYPE_ARRAY ? (BpArray *)kept->object : NULL;
  bool are_owned = true; /* make_tuple rejects borrowed items */
  for (int64_t i = 0; i < count; i++)
    are_owned &= args[2 + i].type_index >= BP_TYPE_OBJECT;
  if (array && are_owned && bp__relax_kept_is_unshared(kept) && array->size == count) {
    for (int64_t i = 0; i < count; i++) {
      bp_value_clear(&array->data[i]);
      bp_object_retain(args[2 + i].v_obj);
      array->data[i] = args[2 + i];
    }
  } else {
    bp__relax_kept_clear(kept);
    array = bp_array_create(args + 2, (size_t)count);
    if (!array)
      return -1;
    kept->object = &array->header;
    bp__relax_workspace_set_results(bp__relax_workspace_current(), kept);
  }
  *result = (BpValue){.type_index = BP_TYPE_ARRAY, .v_obj = bp_object_retain(kept->object)};
  return 0;
}
