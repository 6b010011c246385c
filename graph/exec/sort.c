/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting along an axis. Elements of every type become keys of one type in the same order. */
#include "graph/exec/sort.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "graph/exec/graph_module.h"

/* The input of a sort, and its outputs; an unwanted output is NULL. */
typedef struct Sort {
  const BpTensorView *in;
  const BpTensorView *values;
  const BpTensorView *indices;
  const BpTensorView *lengths; /* lengths of rows; NULL: rows are sorted whole */
  int64_t axis;
  int64_t count; /* number of elements in each output row */
  int64_t extent;
  int64_t outer, inner; /* number of rows; elements of a row are `inner` elements apart */
  int descends;
} Sort;

/* A key of an element. All keys of a row are read before the row's first value is written, because
 * values may overwrite the input. */
typedef struct Key {
  uint64_t order;
  uint64_t bits;
  int64_t index;
} Key;

/* ---- Elements ---------------------------------------------------------------------------- */

static char *element(const BpTensorView *view, int64_t index) {
  return (char *)view->data + view->byte_offset + (size_t)index * (view->dtype.bits / 8u);
}

/* The bits of infinity in a float type; 0 for unknown types. */
static uint64_t infinity_of(BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BFLOAT && dtype.bits == 16)
    return 0x7f80;
  if (dtype.code != BP_DTYPE_FLOAT)
    return 0;
  return dtype.bits == 16   ? 0x7c00
         : dtype.bits == 32 ? 0x7f800000
         : dtype.bits == 64 ? 0x7ff0000000000000
                            : 0;
}

static int is_sortable(BpDataType dtype) {
  int is_whole =
      dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT || dtype.code == BP_DTYPE_BOOL;
  return dtype.lanes == 1 &&
         ((is_whole && dtype.bits % 8 == 0 && dtype.bits <= 64) || infinity_of(dtype) != 0);
}

/* Maps the bits of an element to an integer with the same order. */
static uint64_t order_of(BpDataType dtype, uint64_t bits) {
  uint64_t sign = (uint64_t)1 << (dtype.bits - 1), infinity = infinity_of(dtype);
  if (dtype.code == BP_DTYPE_INT)
    return bits ^ sign;
  if (!infinity)
    return bits;
  if ((bits & ~sign) > infinity)
    return UINT64_MAX;
  if (bits == sign) /* minus zero equals zero */
    bits = 0;
  return bits & sign ? sign - (bits & ~sign) : sign + bits;
}

static void write_index(const BpTensorView *view, int64_t at, int64_t index) {
  char *data = element(view, at);
  if (view->dtype.code == BP_DTYPE_INT) {
    memcpy(data, &index, view->dtype.bits / 8u);
  } else if (view->dtype.bits == 32) {
    float number = (float)index;
    memcpy(data, &number, sizeof(number));
  } else {
    double number = (double)index;
    memcpy(data, &number, sizeof(number));
  }
}

/* ---- Rows -------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b) {
  const Key *first = a, *second = b;
  if (first->order != second->order)
    return first->order < second->order ? -1 : 1;
  return first->index < second->index ? -1 : first->index > second->index;
}

static int64_t length_of(const Sort *sort, int64_t row) {
  int32_t length;
  if (!sort->lengths)
    return sort->extent;
  memcpy(&length, element(sort->lengths, row), sizeof(length));
  return length < 0 ? 0 : length < sort->extent ? length : sort->extent;
}

static void sort_row(const Sort *sort, int64_t outer, int64_t inner, Key *keys) {
  int64_t length = length_of(sort, outer * sort->inner + inner);
  int64_t from = outer * sort->extent * sort->inner + inner;
  int64_t to = outer * sort->count * sort->inner + inner;
  size_t bytes = sort->in->dtype.bits / 8u;
  for (int64_t i = 0; i < sort->extent; i++) {
    uint64_t bits = 0;
    memcpy(&bits, element(sort->in, from + i * sort->inner), bytes);
    uint64_t order = order_of(sort->in->dtype, bits);
    keys[i] = (Key){sort->descends ? ~order : order, bits, i};
  }
  qsort(keys, (size_t)length, sizeof(*keys), compare_keys);
  for (int64_t i = 0; i < sort->count; i++) {
    int64_t at = to + i * sort->inner;
    if (sort->values)
      memcpy(element(sort->values, at), &keys[i].bits, bytes);
    if (sort->indices)
      write_index(sort->indices, at, keys[i].index);
  }
}

static int sort_rows(const Sort *sort) {
  Key *keys = calloc((size_t)sort->extent + 1, sizeof(*keys));
  if (!keys)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to sort %lld elements",
                          (long long)sort->extent);
  for (int64_t o = 0; o < sort->outer; o++)
    for (int64_t i = 0; i < sort->inner; i++)
      sort_row(sort, o, i, keys);
  free(keys);
  return 0;
}

/* ---- Arguments --------------------------------------------------------------------------- */

static int wrong(const char *why) {
  return bp_error_raise(BP_ERROR_VALUE, "cannot sort: %s", why);
}

static int take_tensor(const BpValue *arg, const BpTensorView **view) {
  *view = bp_value_view_tensor(arg);
  if (!*view)
    return bp_error_raise(BP_ERROR_TYPE, "cannot sort a value of type %s, which is no tensor",
                          bp_type_name(arg->type_index));
  if ((*view)->device.device_type != BP_DEVICE_CPU) {
    char device[64];
    bp_device_format((*view)->device, device, sizeof device);
    return bp_error_raise(BP_ERROR_VALUE,
                          "cannot sort: a tensor is on %s, and only the CPU sorts; compile for the "
                          "CPU, or copy it there and back",
                          device);
  }
  return bp_view_is_compact(*view) ? 0 : wrong("a tensor has strides");
}

static int take_int(const BpValue *arg, int64_t *number) {
  if (arg->type_index != BP_TYPE_INT && arg->type_index != BP_TYPE_BOOL)
    return bp_error_raise(BP_ERROR_TYPE, "to sort takes a number, not a value of type %s",
                          bp_type_name(arg->type_index));
  *number = arg->v_int64;
  return 0;
}

/* Checks that an output has the shape of the input, with `count` elements in a row. */
static int check_output(const Sort *sort, const BpTensorView *view) {
  if (view->ndim != sort->in->ndim)
    return wrong("an output does not have the dimensions of the input");
  for (int64_t i = 0; i < view->ndim; i++)
    if (view->shape[i] != (i == sort->axis ? sort->count : sort->in->shape[i]))
      return wrong("an output does not have the shape that follows from the input");
  return 0;
}

static int check_values(const Sort *sort) {
  if (!sort->values)
    return 0;
  if (memcmp(&sort->values->dtype, &sort->in->dtype, sizeof(BpDataType)) != 0)
    return wrong("the values do not have the type of the input");
  return check_output(sort, sort->values);
}

static int check_indices(const Sort *sort) {
  if (!sort->indices)
    return 0;
  BpDataType dtype = sort->indices->dtype;
  int is_int = dtype.code == BP_DTYPE_INT && dtype.bits % 8 == 0 && dtype.bits <= 64;
  int is_float = dtype.code == BP_DTYPE_FLOAT && (dtype.bits == 32 || dtype.bits == 64);
  if (dtype.lanes != 1 || (!is_int && !is_float))
    return wrong("indices are neither integers nor floats of 32 or 64 bits");
  return check_output(sort, sort->indices);
}

static int check_lengths(const Sort *sort) {
  const BpDataType int32 = {BP_DTYPE_INT, 32, 1};
  if (!sort->lengths)
    return 0;
  if (memcmp(&sort->lengths->dtype, &int32, sizeof(int32)) != 0 ||
      bp_view_num_elements(sort->lengths) != sort->outer * sort->inner)
    return wrong("there is not one length, an int32, for each row");
  return 0;
}

/* Checks that an output does not overlap the input; values may, if both begin at the same
 * address. */
static int overlaps_input(const Sort *sort, const BpTensorView *view) {
  if (!view)
    return 0;
  const char *out = element(view, 0), *in = element(sort->in, 0);
  return out < in + bp_view_num_bytes(sort->in) && in < out + bp_view_num_bytes(view) &&
         (view != sort->values || out != in);
}

/* The tensor has elements, so products of its extents do not overflow. */
static void measure_rows(Sort *sort) {
  sort->outer = sort->inner = 1;
  for (int64_t i = 0; i < sort->in->ndim; i++)
    *(i < sort->axis ? &sort->outer : &sort->inner) *= i == sort->axis ? 1 : sort->in->shape[i];
}

/* Sorts; if `count` < 1, rows keep their length. */
static int run(Sort *sort, const BpValue *axis, const BpValue *ascends, int64_t count) {
  int64_t rises = 0;
  if (take_int(axis, &sort->axis) < 0 || take_int(ascends, &rises) < 0)
    return -1;
  if (!is_sortable(sort->in->dtype))
    return wrong("elements of this type have no order");
  sort->axis += sort->axis < 0 ? sort->in->ndim : 0;
  if (sort->axis < 0 || sort->axis >= sort->in->ndim)
    return wrong("the input has no such axis");
  sort->extent = sort->in->shape[sort->axis];
  sort->count = count < 1 ? sort->extent : count;
  sort->descends = !rises;
  if (sort->count > sort->extent)
    return wrong("more elements are wanted than a row has");
  if (check_values(sort) < 0 || check_indices(sort) < 0)
    return -1;
  if (bp_view_num_elements(sort->in) == 0)
    return 0;
  if (overlaps_input(sort, sort->values) || overlaps_input(sort, sort->indices))
    return wrong("an output overlaps the input");
  measure_rows(sort);
  return check_lengths(sort) < 0 ? -1 : sort_rows(sort);
}

/* ---- Functions --------------------------------------------------------------------------- */

static int check_count(const char *name, int32_t num_args, int32_t min, int32_t max) {
  if (num_args >= min && num_args <= max)
    return 0;
  return bp_error_raise(BP_ERROR_TYPE, "tvm.contrib.sort.%s takes %d to %d arguments, and got %d",
                        name, min, max, num_args);
}

/* Sorts to one output. Arguments: (input, output, axis, whether it ascends); `output` is a field of
 * `sort`. */
static int sort_to(const char *name, const BpValue *args, int32_t num_args, Sort *sort,
                   const BpTensorView **output) {
  if (check_count(name, num_args, 4, 4) < 0 || take_tensor(&args[0], &sort->in) < 0 ||
      take_tensor(&args[1], output) < 0)
    return -1;
  return run(sort, &args[2], &args[3], 0);
}

static int call_sort(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Sort sort = {0};
  (void)self;
  (void)result;
  return sort_to("sort", args, num_args, &sort, &sort.values);
}

static int call_argsort(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Sort sort = {0};
  (void)self;
  (void)result;
  return sort_to("argsort", args, num_args, &sort, &sort.indices);
}

static int call_argsort_nms(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Sort sort = {0};
  (void)self;
  (void)result;
  if (check_count("argsort_nms", num_args, 5, 5) < 0 || take_tensor(&args[0], &sort.in) < 0 ||
      take_tensor(&args[1], &sort.lengths) < 0 || take_tensor(&args[2], &sort.indices) < 0)
    return -1;
  return run(&sort, &args[3], &args[4], 0);
}

static int call_topk(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Sort sort = {0};
  BpByteArray wanted;
  int64_t count = 0;
  (void)self;
  (void)result;
  if (check_count("topk", num_args, 6, 7) < 0)
    return -1;
  const BpValue *last = &args[num_args - 4]; /* k, axis, outputs to make, whether it ascends */
  if (take_int(&last[0], &count) < 0 || bp_value_view_str(&last[2], &wanted) < 0 ||
      take_tensor(&args[0], &sort.in) < 0)
    return -1;
  int is_both = wanted.size == 4 && memcmp(wanted.data, "both", 4) == 0;
  int is_values = wanted.size == 6 && memcmp(wanted.data, "values", 6) == 0;
  if (num_args != (is_both ? 7 : 6))
    return wrong("topk does not have the outputs that its arguments ask for");
  if (take_tensor(&args[1], is_both || is_values ? &sort.values : &sort.indices) < 0 ||
      (is_both && take_tensor(&args[2], &sort.indices) < 0))
    return -1;
  return run(&sort, &last[1], &last[3], count);
}

int bp__sort_register(void) {
  static const struct {
    const char *name;
    BpPackedCall call;
  } functions[] = {{"tvm.contrib.sort.sort", call_sort},
                   {"tvm.contrib.sort.argsort", call_argsort},
                   {"tvm.contrib.sort.argsort_nms", call_argsort_nms},
                   {"tvm.contrib.sort.topk", call_topk}};
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    BpFunction *own; /* function that the application registered */
    if (bp_registry_get(functions[i].name, &own) < 0 ||
        (!own && bp__graph_register(functions[i].name, functions[i].call) < 0))
      return -1;
    bp_object_release(own);
  }
  return 0;
}
