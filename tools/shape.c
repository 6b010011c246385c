/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of inputs on the command line, from --shape and from the files that --input names. */
#include "tools/command.h"

#include <string.h>

#include <backplane/object.h>

#define MAX_NDIM 32

/* ---- --shape ----------------------------------------------------------------------------- */

/* Splits "NAME=EXTENTS" at the last '=', since a name may contain '='. */
static int split_shape(const char *text, char **name, const char **extents) {
  const char *equals = strrchr(text, '=');
  if (!equals || equals == text || !equals[1]) {
    command_raise_usage("--shape %s: expected NAME=1x3x48x192", text);
    return -1;
  }
  *name = g_strndup(text, (gsize)(equals - text));
  *extents = equals + 1;
  return 0;
}

static int parse_extents(const char *option, const char *text, int64_t *extents, int32_t *ndim) {
  for (*ndim = 0;; text++) {
    char *end;
    gint64 extent = g_ascii_strtoll(text, &end, 10);
    if (end == text || extent < 0 || *ndim == MAX_NDIM || (*end && *end != 'x'))
      return command_raise_usage(
          "--shape %s: a shape is numbers with 'x' between them, as 1x3x48x192", option);
    extents[(*ndim)++] = extent;
    if (!*end)
      return 0;
    text = end;
  }
}

static void clear_shape(void *item) {
  BpInputShape *shape = item;
  g_free((char *)shape->name);
  g_free((int64_t *)shape->shape);
}

static int parse_shape(const char *option, GArray *shapes) {
  const char *rest;
  char *name;
  int64_t extents[MAX_NDIM];
  int32_t ndim;
  if (split_shape(option, &name, &rest) < 0)
    return -1;
  if (parse_extents(option, rest, extents, &ndim) < 0) {
    g_free(name);
    return -1;
  }
  const BpInputShape shape = {name, g_memdup2(extents, (gsize)ndim * sizeof *extents), ndim};
  g_array_append_val(shapes, shape);
  return 0;
}

GArray *shapes_parse(char *const *options) {
  GArray *shapes = g_array_new(FALSE, FALSE, sizeof(BpInputShape));
  g_array_set_clear_func(shapes, clear_shape);
  for (; options && *options; options++)
    if (parse_shape(*options, shapes) < 0) {
      g_array_unref(shapes);
      return NULL;
    }
  return shapes;
}

const BpInputShape *shapes_find(const GArray *shapes, const char *name) {
  for (guint i = 0; i < shapes->len; i++)
    if (strcmp(g_array_index(shapes, BpInputShape, i).name, name) == 0)
      return &g_array_index(shapes, BpInputShape, i);
  return NULL;
}

/* ---- --input ----------------------------------------------------------------------------- */

static gboolean input_is_named(const char *option, const char *name) {
  size_t length = strlen(name);
  return strncmp(option, name, length) == 0 && option[length] == '=';
}

char *names_join(const GPtrArray *names) {
  GString *list = g_string_new(NULL);
  for (guint i = 0; i < names->len; i++)
    g_string_append_printf(list, "%s%s", i ? ", " : "", (const char *)names->pdata[i]);
  return g_string_free(list, FALSE);
}

int input_raise_unknown(const char *option, const GPtrArray *names) {
  char *list = names_join(names);
  bp_error_raise(BP_ERROR_NOT_FOUND, "the model has no input '%.*s'; it has: %s",
                 (int)strcspn(option, "="), option, list);
  g_free(list);
  return -1;
}

static int input_raise_nameless(const char *option, const GPtrArray *names) {
  char *list = names_join(names);
  command_raise_usage("--input %s: expected NAME=FILE, where NAME is an input of the model: %s",
                      option, list);
  g_free(list);
  return -1;
}

int32_t name_find(const char *option, const GPtrArray *names) {
  int32_t found = -1;
  size_t longest = 0;
  for (guint i = 0; i < names->len; i++) {
    size_t length = strlen(names->pdata[i]);
    if (!input_is_named(option, names->pdata[i]) || length < longest)
      continue;
    found = (int32_t)i;
    longest = length;
  }
  return found;
}

int32_t input_find(const char *option, const GPtrArray *names) {
  int32_t found = name_find(option, names);
  if (found < 0 && strchr(option, '='))
    return input_raise_unknown(option, names);
  return found < 0 ? input_raise_nameless(option, names) : found;
}

/* The inputs of a model that leave an extent open or have a default value, and the shapes of their
 * files. */
typedef struct Opened {
  char *const *inputs;
  GArray *shapes;
} Opened;

static gboolean is_open(const BpModelTensorInfo *info) {
  for (int32_t i = 0; i < info->ndim; i++)
    if (info->shape[i] < 0)
      return TRUE;
  return info->ndim < 0;
}

static int add_shape_of_file(void *visitor, int32_t role, const BpModelTensorInfo *info) {
  const Opened *opened = visitor;
  if (role == BP_TENSOR_OUTPUT || info->kind || (role == BP_TENSOR_INPUT && !is_open(info)) ||
      shapes_find(opened->shapes, info->name))
    return 0;
  for (char *const *input = opened->inputs; *input; input++) {
    if (!input_is_named(*input, info->name))
      continue;
    BpTensor *value = input_read(*input + strlen(info->name) + 1, info);
    if (!value)
      return -1;
    const BpTensorView *view = &value->view;
    const BpInputShape shape = {g_strdup(info->name),
                                g_memdup2(view->shape, (gsize)view->ndim * sizeof *view->shape),
                                view->ndim};
    g_array_append_val(opened->shapes, shape);
    bp_object_release(value);
    return 0;
  }
  return 0;
}

/* The names that options may use, and the options. Old files have thousands of default values: only
 * those that an option names are kept. */
typedef struct Names {
  GPtrArray *names;
  char *const *inputs;
} Names;

static int add_name(void *visitor, int32_t role, const BpModelTensorInfo *info) {
  const Names *names = visitor;
  gboolean is_named = role == BP_TENSOR_INPUT;
  for (char *const *input = names->inputs; role == BP_TENSOR_DEFAULT && *input; input++)
    is_named |= input_is_named(*input, info->name);
  if (is_named)
    g_ptr_array_add(names->names, g_strdup(info->name));
  return 0;
}

/* Checks that each option names an input of the model. */
static int check_inputs(const char *path, char *const *inputs) {
  Names names = {g_ptr_array_new_with_free_func(g_free), inputs};
  int status = bp_onnx_visit_tensors(path, add_name, &names);
  for (; status == 0 && *inputs; inputs++)
    status = input_find(*inputs, names.names) < 0 ? -1 : 0;
  g_ptr_array_unref(names.names);
  return status;
}

int shapes_add_inputs(GArray *shapes, const char *path, char *const *inputs) {
  if (!inputs)
    return 0;
  char **expanded = inputs_expand(inputs);
  Opened opened = {expanded, shapes};
  int status = !expanded || check_inputs(path, expanded) < 0
                   ? -1
                   : bp_onnx_visit_tensors(path, add_shape_of_file, &opened);
  g_strfreev(expanded);
  return status;
}
