/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of tensors whose length and positions a run determines. */
#include "graph/relax/sequence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/model.h>

#include "graph/relax/arguments.h"
#include "graph/relax/kept.h"

/* ---- Lists ------------------------------------------------------------------------------- */

static const BpArray *get_sequence(const BpValue *value) {
  if (value->type_index == BP_TYPE_ARRAY)
    return (const BpArray *)value->v_obj;
  bp__relax_wrong_type(value, "a sequence");
  return NULL;
}

static int return_sequence(BpValue *result, const BpValue *tensors, size_t count) {
  BpArray *sequence = bp_array_create(tensors, count);
  if (!sequence)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_ARRAY, .v_obj = &sequence->header};
  return 0;
}

/* The position that an argument gives, from the end if it is negative; `otherwise` for None. The
 * position is less than `end`. */
static int get_position(const BpValue *value, int64_t otherwise, int64_t length, int64_t end,
                        const BpValue *context, int64_t *position) {
  int64_t given = otherwise;
  if (value->type_index != BP_TYPE_NONE && bp__relax_read_number(value, &given) < 0)
    return bp_error_add_context("%s its position", bp__relax_text(context));
  *position = given < 0 ? given + length : given;
  if (*position >= 0 && *position < end)
    return 0;
  return bp_error_raise(BP_ERROR_INDEX,
                        "%s its position is %" PRId64 ", in a sequence of %" PRId64 " tensors",
                        bp__relax_text(context), given, length);
}

int bp__relax_sequence_insert(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result) {
  int64_t position;
  (void)machine;
  const BpArray *sequence =
      bp__relax_check_count(num_args, 4, 4) < 0 ? NULL : get_sequence(&args[0]);
  if (!sequence || !bp__relax_get_tensor(&args[1]) ||
      get_position(&args[2], sequence->size, sequence->size, sequence->size + 1, &args[3],
                   &position) < 0)
    return -1;
  BpValue *tensors = malloc(((size_t)sequence->size + 1) * sizeof(*tensors));
  if (!tensors)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a sequence of %" PRId64 " tensors",
                          sequence->size + 1);
  for (int64_t i = 0; i <= sequence->size; i++)
    tensors[i] = i == position ? args[1] : sequence->data[i - (i > position)];
  int status = return_sequence(result, tensors, (size_t)sequence->size + 1);
  free(tensors);
  return status;
}

int bp__relax_sequence_erase(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  int64_t position;
  (void)machine;
  const BpArray *sequence =
      bp__relax_check_count(num_args, 3, 3) < 0 ? NULL : get_sequence(&args[0]);
  if (!sequence ||
      get_position(&args[1], -1, sequence->size, sequence->size, &args[2], &position) < 0)
    return -1;
  BpValue *tensors = malloc((size_t)sequence->size * sizeof(*tensors));
  if (!tensors)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a sequence of %" PRId64 " tensors",
                          sequence->size - 1);
  for (int64_t i = 0; i < sequence->size - 1; i++)
    tensors[i] = sequence->data[i + (i >= position)];
  int status = return_sequence(result, tensors, (size_t)sequence->size - 1);
  free(tensors);
  return status;
}

int bp__relax_sequence_at(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                          BpValue *result) {
  int64_t position;
  (void)machine;
  const BpArray *sequence =
      bp__relax_check_count(num_args, 3, 3) < 0 ? NULL : get_sequence(&args[0]);
  if (!sequence)
    return -1;
  if (args[1].type_index == BP_TYPE_NONE && !sequence->size)
    return bp_error_raise(BP_ERROR_VALUE, "%s its optional has no value", bp__relax_text(&args[2]));
  if (get_position(&args[1], 0, sequence->size, sequence->size, &args[2], &position) < 0)
    return -1;
  const BpValue *item = &sequence->data[position];
  if (item->type_index != BP_TYPE_ARRAY && !bp__relax_get_tensor(item))
    return -1;
  bp_object_retain(item->v_obj);
  *result = *item;
  return 0;
}

int bp__relax_sequence_length(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result) {
  const BpArray *sequence =
      bp__relax_check_count(num_args, 2, 2) < 0 ? NULL : get_sequence(&args[1]);
  return sequence ? bp__relax_return_tensor(result, bp__relax_int_tensor(machine, sequence->size))
                  : -1;
}

/* ---- Tensors of parts -------------------------------------------------------------------- */

/* The view of item `index`, with one more axis if `is_new`; its extents are in `extents`. Returns
 * -1 with an error on failure. */
static int get_part(const BpArray *sequence, int64_t index, int64_t axis, bool is_new,
                    const char *context, int64_t *extents, BpTensorView *part) {
  const BpTensor *tensor = bp__relax_get_tensor(&sequence->data[index]);
  if (!tensor)
    return -1;
  *part = tensor->view;
  int64_t ndim = (int64_t)part->ndim + is_new;
  if (ndim > BP_RELAX_MAX_NDIM || axis < 0 || axis >= ndim || part->dtype.bits % 8 ||
      !bp_view_is_compact(part))
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s tensor %" PRId64
                          " of its sequence cannot be joined along axis %" PRId64,
                          context, index, axis);
  for (int64_t d = 0; d < ndim; d++)
    extents[d] = is_new && d == axis ? 1 : part->shape[d - (is_new && d > axis)];
  part->ndim = (int32_t)ndim;
  part->shape = extents;
  part->strides = NULL;
  return 0;
}

/* Adds the extents of a part along the axis; the other extents must be equal. */
static int add_part(BpTensorView *whole, const BpTensorView *part, int64_t index, int64_t axis,
                    const char *context) {
  if (part->ndim != whole->ndim || memcmp(&part->dtype, &whole->dtype, sizeof(part->dtype)) != 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s tensor %" PRId64
                          " of its sequence differs from the first one in type or number of "
                          "dimensions",
                          context, index);
  for (int32_t d = 0; d < part->ndim; d++)
    if (d != axis && part->shape[d] != whole->shape[d])
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s extent %d of tensor %" PRId64 " of its sequence is %" PRId64
                            ", and that of the first one %" PRId64,
                            context, d, index, part->shape[d], whole->shape[d]);
  if (__builtin_add_overflow(whole->shape[axis], part->shape[axis], &whole->shape[axis]))
    return bp_error_raise(BP_ERROR_VALUE, "%s its tensors have too many elements", context);
  return 0;
}

/* Copies the parts into a tensor that is as large as all of them. */
static int fill_whole(const BpArray *sequence, int64_t axis, bool is_new, const char *context,
                      const BpTensorView *to) {
  int64_t extents[BP_RELAX_MAX_NDIM], first = 0;
  BpTensorView part;
  for (int64_t i = 0; i < sequence->size; i++) {
    if (get_part(sequence, i, axis, is_new, context, extents, &part) < 0 ||
        bp__relax_copy_rows(&part, 0, to, first, extents[axis], axis) < 0)
      return -1;
    first += extents[axis];
  }
  return 0;
}

int bp__relax_sequence_concat(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result) {
  int64_t extents[BP_RELAX_MAX_NDIM], of_part[BP_RELAX_MAX_NDIM], axis, is_new;
  BpTensorView whole, part;
  if (bp__relax_check_count(num_args, 5, 5) < 0 || bp__relax_get_int(&args[2], &axis) < 0 ||
      bp__relax_get_int(&args[3], &is_new) < 0)
    return -1;
  const BpArray *sequence = get_sequence(&args[1]);
  const char *context = bp__relax_text(&args[4]);
  if (sequence && !sequence->size)
    return bp_error_raise(BP_ERROR_VALUE, "%s its sequence is empty", context);
  if (!sequence || get_part(sequence, 0, axis, is_new != 0, context, extents, &whole) < 0)
    return -1;
  for (int64_t i = 1; i < sequence->size; i++)
    if (get_part(sequence, i, axis, is_new != 0, context, of_part, &part) < 0 ||
        add_part(&whole, &part, i, axis, context) < 0)
      return -1;
  BpTensor *tensor = bp__relax_create_pooled(machine, 0, extents, (size_t)whole.ndim, whole.dtype);
  if (tensor && fill_whole(sequence, axis, is_new != 0, context, &tensor->view) < 0) {
    bp_object_release(tensor);
    return -1;
  }
  return bp__relax_return_tensor(result, tensor);
}

/* ---- Parts of a tensor ------------------------------------------------------------------- */

typedef struct Split {
  BpRelaxMachine *machine;
  const BpTensorView *from;
  int64_t axis, keeps_axis;
  const BpTensorView *sizes; /* extents of the parts, on the host; NULL: each part has `size` */
  int64_t size, count;
} Split;

static int raise_sum(const Split *split, const char *context) {
  return bp_error_raise(BP_ERROR_VALUE, "%s its split does not add up to %" PRId64, context,
                        split->from->shape[split->axis]);
}

/* The extent along the axis of part `index`, which begins at `first`; -1 with an error. */
static int64_t size_of(const Split *split, int64_t index, int64_t first, const char *context) {
  int64_t left = split->from->shape[split->axis] - first, size = split->size;
  if (!split->sizes)
    return size < left ? size : left;
  if (bp__relax_read_element(split->sizes, index, &size) < 0)
    return bp_error_add_context("%s its split", context);
  return size < 0 || size > left ? raise_sum(split, context) : size;
}

static BpTensor *take_part(const Split *split, int64_t first, int64_t count) {
  const BpTensorView *from = split->from;
  int64_t extents[BP_RELAX_MAX_NDIM];
  size_t ndim = 0;
  for (int32_t d = 0; d < from->ndim; d++)
    if (d != split->axis || split->keeps_axis)
      extents[ndim++] = d == split->axis ? count : from->shape[d];
  BpTensor *part = bp__relax_create_pooled(split->machine, 0, extents, ndim, from->dtype);
  if (!part)
    return NULL;
  int64_t whole[BP_RELAX_MAX_NDIM];
  BpTensorView to = part->view;
  memcpy(whole, from->shape, (size_t)from->ndim * sizeof(*whole));
  whole[split->axis] = count;
  to.ndim = from->ndim;
  to.shape = whole;
  if (bp__relax_copy_rows(from, first, &to, 0, count, split->axis) == 0)
    return part;
  bp_object_release(part);
  return NULL;
}

static int fill_parts(const Split *split, const char *context, BpValue *parts) {
  int64_t first = 0;
  for (int64_t i = 0; i < split->count; i++) {
    int64_t size = size_of(split, i, first, context);
    if (size < 0 || bp__relax_return_tensor(&parts[i], take_part(split, first, size)) < 0)
      return -1;
    first += size;
  }
  return first == split->from->shape[split->axis] ? 0 : raise_sum(split, context);
}

static int make_parts(const Split *split, const char *context, BpValue *result) {
  BpValue *parts = calloc((size_t)split->count + 1, sizeof(*parts));
  if (!parts)
    return bp_error_raise(BP_ERROR_MEMORY, "%s no memory for a sequence of %" PRId64 " tensors",
                          context, split->count);
  int status = fill_parts(split, context, parts);
  if (status == 0)
    status = return_sequence(result, parts, (size_t)split->count);
  for (int64_t i = 0; i < split->count; i++)
    bp_value_clear(&parts[i]);
  free(parts);
  return status;
}

/* Reads how the tensor is split, and splits it. `sizes` is the argument's tensor on the host. */
static int split_by(Split *split, const BpTensor *sizes, const char *context, BpValue *result) {
  int64_t extent = split->from->shape[split->axis];
  split->size = 1;
  if (sizes && sizes->view.ndim == 0 && bp__relax_read_element(&sizes->view, 0, &split->size) < 0)
    return bp_error_add_context("%s its split", context);
  if (split->size < 1)
    return bp_error_raise(BP_ERROR_VALUE, "%s its split is %" PRId64, context, split->size);
  split->sizes = sizes && sizes->view.ndim == 1 ? &sizes->view : NULL;
  split->count =
      split->sizes ? split->sizes->shape[0] : extent / split->size + (extent % split->size != 0);
  return make_parts(split, context, result);
}

int bp__relax_sequence_split(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                             BpValue *result) {
  Split split = {.machine = machine};
  if (bp__relax_check_count(num_args, 6, 6) < 0 || bp__relax_get_int(&args[3], &split.axis) < 0 ||
      bp__relax_get_int(&args[4], &split.keeps_axis) < 0)
    return -1;
  const BpTensor *from = bp__relax_get_tensor(&args[1]);
  if (!from)
    return -1;
  split.from = &from->view;
  if (split.axis < 0 || split.axis >= from->view.ndim || from->view.ndim > BP_RELAX_MAX_NDIM ||
      from->view.dtype.bits % 8 || !bp_view_is_compact(&from->view))
    return bp_error_raise(BP_ERROR_VALUE, "%s its tensor cannot be split along axis %" PRId64,
                          bp__relax_text(&args[5]), split.axis);
  if (args[2].type_index == BP_TYPE_NONE)
    return split_by(&split, NULL, bp__relax_text(&args[5]), result);
  BpTensor *sizes = bp__relax_get_host_tensor(&args[2]);
  if (!sizes)
    return -1;
  int status = split_by(&split, sizes, bp__relax_text(&args[5]), result);
  bp_object_release(sizes);
  return status;
}

/* ---- Failing ----------------------------------------------------------------------------- */

int bp__relax_fail(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                   BpValue *result) {
  (void)machine, (void)result;
  return bp__relax_check_count(num_args, 1, 1) < 0
             ? -1
             : bp_error_raise(BP_ERROR_VALUE, "%s", bp__relax_text(&args[0]));
}

/* ---- Inputs and outputs ------------------------------------------------------------------ */

/* The type of a list, which begins at an argument. */
typedef struct ListType {
  int64_t kind, ndim;
  BpDataType dtype;
  const BpValue *extents;
} ListType;

/* Reads a type from `num_args` arguments; *rest becomes the number of arguments after it. */
static int read_list_type(const BpValue *args, int32_t num_args, ListType *type, int32_t *rest) {
  if (bp__relax_check_count(num_args, 3, INT32_MAX) < 0 ||
      bp__relax_get_int(&args[0], &type->kind) < 0 ||
      bp__relax_get_dtype(&args[1], &type->dtype) < 0 ||
      bp__relax_get_int(&args[2], &type->ndim) < 0)
    return -1;
  int64_t count = type->ndim > 0 ? type->ndim : 0;
  type->extents = args + 3;
  if (count > BP_RELAX_MAX_NDIM || count > num_args - 3)
    return bp_error_raise(BP_ERROR_VALUE, "a list of tensors with %" PRId64 " dimensions",
                          type->ndim);
  *rest = num_args - 3 - (int32_t)count;
  return 0;
}

static int check_item(const BpValue *value, const ListType *type, int64_t index,
                      const char *context) {
  const BpTensor *tensor = bp__relax_get_tensor(value);
  char wanted[32], given[32];
  if (!tensor)
    return bp_error_add_context("%s item %" PRId64, context, index);
  const BpTensorView *view = &tensor->view;
  if (memcmp(&view->dtype, &type->dtype, sizeof(view->dtype)) != 0 ||
      (type->ndim >= 0 && type->ndim != view->ndim) || !bp_view_is_compact(view)) {
    bp_dtype_format(type->dtype, wanted, sizeof wanted);
    bp_dtype_format(view->dtype, given, sizeof given);
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s expects compact tensors of %s with %" PRId64
                          " dimensions (-1: any), and tensor %" PRId64 " is %s of %d",
                          context, wanted, type->ndim, index, given, view->ndim);
  }
  for (int64_t d = 0; d < type->ndim; d++) {
    int64_t extent;
    if (bp__relax_get_int(&type->extents[d], &extent) < 0)
      return -1;
    if (extent >= 0 && extent != view->shape[d])
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s expects extent %" PRId64 " of tensor %" PRId64 " to be %" PRId64
                            ", not %" PRId64,
                            context, d, index, extent, view->shape[d]);
  }
  return 0;
}

int bp__relax_check_list(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                         BpValue *result) {
  ListType type;
  int32_t rest;
  (void)machine;
  (void)result;
  if (bp__relax_check_count(num_args, 5, INT32_MAX) < 0 ||
      read_list_type(args + 1, num_args - 1, &type, &rest) < 0 ||
      bp__relax_check_count(rest, 1, 1) < 0)
    return -1;
  const char *context = bp__relax_text(&args[num_args - 1]);
  const BpArray *list = get_sequence(&args[0]);
  if (list && (type.kind & BP_MODEL_OPTIONAL) && list->size > 1)
    return bp_error_raise(BP_ERROR_VALUE, "%s expects at most one value, not %" PRId64, context,
                          list->size);
  if (list && type.kind == (BP_MODEL_OPTIONAL | BP_MODEL_SEQUENCE) && list->size)
    list = get_sequence(&list->data[0]);
  if (!list)
    return bp_error_add_context("%s", context);
  for (int64_t i = 0; i < list->size; i++)
    if (check_item(&list->data[i], &type, i, context) < 0)
      return -1;
  return 0;
}

static int copy_all(BpRelaxMachine *machine, const BpArray *list, bool have_lists, BpValue *result);

static int copy_item(BpRelaxMachine *machine, const BpValue *item, bool may_be_list,
                     BpValue *copy) {
  if (may_be_list && item->type_index == BP_TYPE_ARRAY)
    return copy_all(machine, (const BpArray *)item->v_obj, false, copy);
  const BpTensor *tensor = bp__relax_get_tensor(item);
  if (!tensor)
    return -1;
  const BpTensorView *view = &tensor->view;
  BpTensor *made =
      bp__relax_create_pooled(machine, 0, view->shape, (size_t)view->ndim, view->dtype);
  if (!made || bp__relax_copy_into(view, &made->view) == 0)
    return bp__relax_return_tensor(copy, made);
  bp_object_release(made);
  return -1;
}

static int copy_all(BpRelaxMachine *machine, const BpArray *list, bool have_lists,
                    BpValue *result) {
  BpValue *copies = calloc((size_t)list->size + 1, sizeof(*copies));
  int status = copies
                   ? 0
                   : bp_error_raise(BP_ERROR_MEMORY,
                                    "no memory for a sequence of %" PRId64 " tensors", list->size);
  for (int64_t i = 0; i < list->size && status == 0; i++)
    status = copy_item(machine, &list->data[i], have_lists, &copies[i]);
  if (status == 0)
    status = return_sequence(result, copies, (size_t)list->size);
  for (int64_t i = 0; i < list->size && copies; i++)
    bp_value_clear(&copies[i]);
  free(copies);
  return status;
}

int bp__relax_copy_list(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                        BpValue *result) {
  ListType type;
  int32_t rest;
  if (bp__relax_check_count(num_args, 5, INT32_MAX) < 0 ||
      read_list_type(args + 2, num_args - 2, &type, &rest) < 0 ||
      bp__relax_check_count(rest, 0, 0) < 0)
    return -1;
  const BpArray *list = get_sequence(&args[1]);
  return list
             ? copy_all(machine, list, type.kind == (BP_MODEL_OPTIONAL | BP_MODEL_SEQUENCE), result)
             : -1;
}
