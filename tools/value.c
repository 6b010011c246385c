/* SPDX-License-Identifier: Apache-2.0 */
/* Values of inputs on the command line: files, and literal numbers. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

#define MAX_NDIM 32

/* ---- Numbers on the command line --------------------------------------------------------- */

/* A list during parsing: its elements so far, and its shape, which every inner list must match. */
typedef struct Literal {
  const char *text; /* the whole text, for errors */
  const char *at;
  BpDataType dtype;
  GByteArray *data;
  int64_t shape[MAX_NDIM];
  int32_t ndim;
} Literal;

static int raise_literal(const Literal *literal, const char *what) {
  return command_raise_usage("\"%.60s\": %s; a value is a number or a list of numbers, as [1,2.5] "
                             "or [[1,2],[3,4]]",
                             literal->text, what);
}

static int parse_element(Literal *literal) {
  size_t length = strcspn(literal->at, ",] ");
  char *number = g_strndup(literal->at, length), element[16] = {0}, dtype[32];
  gboolean is_known = element_parse(number, element, literal->dtype);
  bp_dtype_format(literal->dtype, dtype, sizeof dtype);
  int status =
      is_known ? 0 : command_raise_usage("\"%.60s\": '%s' is no %s", literal->text, number, dtype);
  g_free(number);
  literal->at += length;
  g_byte_array_append(literal->data, (const guint8 *)element,
                      (guint)bp_dtype_bytes(literal->dtype));
  return status;
}

static int parse_list(Literal *literal, int32_t depth);

/* Parses a list or a number. The first number determines the depth of lists. */
static int parse_item(Literal *literal, int32_t depth) {
  if (*literal->at == '[')
    return parse_list(literal, depth + 1);
  if (literal->ndim > depth + 1)
    return raise_literal(literal, "a number stands beside a list");
  literal->ndim = depth + 1;
  return parse_element(literal);
}

/* Parses the items of a list up to its end. The first list of a depth determines the number of
 * items of the others. */
static int parse_items(Literal *literal, int32_t depth) {
  int64_t count = 0;
  for (;; count++) {
    literal->at += strspn(literal->at, " ");
    if (*literal->at == ']' && count == 0)
      break;
    if (parse_item(literal, depth) < 0)
      return -1;
    literal->at += strspn(literal->at, " ");
    if (*literal->at == ']') {
      count++;
      break;
    }
    if (*literal->at++ != ',')
      return raise_literal(literal, "it lacks a comma or a ']'");
  }
  literal->at++;
  literal->ndim = MAX(literal->ndim, depth + 1);
  if (literal->shape[depth] < 0)
    literal->shape[depth] = count;
  return literal->shape[depth] == count ? 0 : raise_literal(literal, "lists are not of one length");
}

static int parse_list(Literal *literal, int32_t depth) {
  if (depth == MAX_NDIM || (literal->ndim && depth >= literal->ndim && literal->data->len))
    return raise_literal(literal, depth == MAX_NDIM ? "it has more than 32 dimensions"
                                                    : "a list stands beside a number");
  literal->at++;
  return parse_items(literal, depth);
}

/* A single number is valid for an input of one element, whatever its dimensions are. */
static int parse_number(Literal *literal, const BpModelTensorInfo *info) {
  if (parse_element(literal) < 0)
    return -1;
  literal->ndim = MAX(info->ndim, 0);
  for (int32_t i = 0; i < literal->ndim && i < MAX_NDIM; i++)
    literal->shape[i] = 1;
  return literal->ndim > MAX_NDIM ? raise_literal(literal, "the input has too many dimensions") : 0;
}

static BpTensor *create_tensor(const int64_t *shape, int32_t ndim, BpDataType dtype) {
  return bp_tensor_create(shape, ndim, dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
}

static BpTensor *read_literal(const char *text, const BpModelTensorInfo *info) {
  Literal literal = {.text = text, .at = text, .dtype = info->dtype};
  char dtype[32];
  bp_dtype_format(info->dtype, dtype, sizeof dtype);
  if (!element_is_number(info->dtype)) {
    command_raise_usage("\"%.60s\": elements of %s are not written as numbers; give a file", text,
                        dtype);
    return NULL;
  }
  for (int i = 0; i < MAX_NDIM; i++)
    literal.shape[i] = -1;
  literal.data = g_byte_array_new();
  int status = *text == '[' ? parse_list(&literal, 0) : parse_number(&literal, info);
  if (status == 0 && *literal.at)
    status = raise_literal(&literal, "something follows its end");
  BpTensor *tensor = status < 0 ? NULL : create_tensor(literal.shape, literal.ndim, info->dtype);
  if (tensor && literal.data->len) /* an empty list has no data */
    memcpy(tensor->view.data, literal.data->data, literal.data->len);
  g_byte_array_unref(literal.data);
  return tensor;
}

/* Parses a number or a list; a file with such a name is given as ./NAME. */
static gboolean is_literal(const char *text) {
  char *end;
  if (*text == '[' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
    return TRUE;
  g_ascii_strtod(text, &end);
  return end != text && !*end;
}

/* ---- Raw elements ------------------------------------------------------------------------ */

/* Finds the shape of a file of `size` bytes: the input's shape, or the given one. One extent may be
 * open, and then follows from the size. */
static int complete_shape(const char *path, int64_t size, const BpModelTensorInfo *info,
                          int64_t *shape) {
  int32_t open = -1;
  int64_t bytes = (int64_t)bp_dtype_bytes(info->dtype);
  for (int32_t i = 0; i < info->ndim && i < MAX_NDIM; i++) {
    shape[i] = info->shape[i];
    if (shape[i] < 0 && open >= 0)
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s: the model leaves several extents of input '%s' open, and raw "
                            "bytes do not say them; give --shape %s=...",
                            path, info->name, info->name);
    open = shape[i] < 0 ? i : open;
    if (shape[i] > 0 && bytes > G_MAXINT64 / shape[i])
      return bp_error_raise(BP_ERROR_VALUE, "input '%s' is too large", info->name);
    bytes *= shape[i] < 0 ? 1 : shape[i];
  }
  if (open >= 0 && bytes && size % bytes == 0)
    bytes *= shape[open] = size / bytes;
  if (bytes == size)
    return 0;
  char *text = shape_to_text(info->shape, info->ndim), dtype[32];
  bp_dtype_format(info->dtype, dtype, sizeof dtype);
  bp_error_raise(BP_ERROR_VALUE,
                 "%s has %" G_GINT64_FORMAT
                 " bytes; input '%s' is %s %s, which takes %s%" G_GINT64_FORMAT,
                 path, size, info->name, dtype, text, open < 0 ? "" : "a multiple of ", bytes);
  g_free(text);
  return -1;
}

static BpTensor *fill_from(FILE *file, gsize size, const char *path,
                           const BpModelTensorInfo *info) {
  int64_t shape[MAX_NDIM];
  if (complete_shape(path, (int64_t)size, info, shape) < 0)
    return NULL;
  BpTensor *tensor = create_tensor(shape, info->ndim, info->dtype);
  if (!tensor || fread(tensor->view.data, 1, size, file) == size)
    return tensor;
  bp_error_raise(BP_ERROR_IO, "%s: it became shorter while it was read", path);
  bp_object_release(tensor);
  return NULL;
}

/* Reads raw elements: little-endian, in row-major order. */
static BpTensor *read_raw(const char *path, const BpModelTensorInfo *info) {
  if (info->ndim < 0 || info->ndim > MAX_NDIM || info->dtype.bits % 8 || !info->dtype.bits) {
    bp_error_raise(BP_ERROR_VALUE,
                   "%s: raw bytes are read for an input of known type and dimensions, of whole "
                   "bytes; give a .npy file",
                   path);
    return NULL;
  }
  gsize size;
  FILE *file = file_open(path, &size);
  if (!file)
    return NULL;
  BpTensor *tensor = fill_from(file, size, path, info);
  fclose(file);
  return tensor;
}

/* ---- Any --------------------------------------------------------------------------------- */

BpTensor *array_read(const char *path, const char *name) {
  return path_has_extension(path, ".npz") ? npz_read(path, name) : bp_npy_read(path);
}

BpTensor *input_read(const char *text, const BpModelTensorInfo *info) {
  if (!*text) {
    command_raise_usage("--input %s=: expected NAME=FILE; only sequences and optionals may have no "
                        "value",
                        info->name);
    return NULL;
  }
  if (is_literal(text))
    return read_literal(text, info);
  if (path_is_picture(text))
    return picture_read(text, info->shape, info->ndim);
  if (path_has_extension(text, ".bin"))
    return read_raw(text, info);
  BpTensor *value = array_read(text, info->name);
  if (!value && !path_has_extension(text, ".npy") && !path_has_extension(text, ".npz"))
    bp_error_add_context("a value is a number, a list as [1,2], a file of arrays (.npy, .npz), of "
                         "raw elements (.bin), or a picture (.png, .jpg)");
  return value;
}

/* Expands the options: an archive alone becomes NAME=FILE for each of its arrays. */
char **inputs_expand(char *const *options) {
  GPtrArray *expanded = g_ptr_array_new_with_free_func(g_free);
  for (; options && *options; options++) {
    gboolean is_archive = path_has_extension(*options, ".npz") && !strchr(*options, '=');
    Npz *npz = is_archive ? npz_open(*options) : NULL;
    if (is_archive && !npz) {
      g_ptr_array_unref(expanded);
      return NULL;
    }
    if (!npz)
      g_ptr_array_add(expanded, g_strdup(*options));
    for (guint i = 0; npz && i < npz_size(npz); i++)
      g_ptr_array_add(expanded, g_strdup_printf("%s=%s", npz_name(npz, i), *options));
    npz_close(npz);
  }
  g_ptr_array_add(expanded, NULL);
  return (char **)g_ptr_array_free(expanded, FALSE);
}
