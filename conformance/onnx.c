/* SPDX-License-Identifier: Apache-2.0 */
/* Writes ONNX models as protocol buffers, with only the kinds of fields that the kit's models
 * need. */
#include "conformance/onnx.h"

#include <stdint.h>
#include <string.h>

#define IR_VERSION 8
#define OPSET      17

/* ---- Fields ------------------------------------------------------------------------------ */

static void add_varint(GByteArray *to, uint64_t number) {
  do {
    guint8 byte = (guint8)((number & 127) | (number > 127 ? 128 : 0));
    g_byte_array_append(to, &byte, 1);
    number >>= 7;
  } while (number);
}

static void add_int(GByteArray *to, unsigned field, int64_t number) {
  add_varint(to, field << 3);
  add_varint(to, (uint64_t)number);
}

static void add_bytes(GByteArray *to, unsigned field, const void *data, gsize size) {
  add_varint(to, field << 3 | 2);
  add_varint(to, size);
  g_byte_array_append(to, data, (guint)size);
}

static void add_str(GByteArray *to, unsigned field, const char *text) {
  add_bytes(to, field, text, strlen(text));
}

static void add_float(GByteArray *to, unsigned field, float number) {
  add_varint(to, field << 3 | 5);
  g_byte_array_append(to, (const guint8 *)&number, sizeof number);
}

/* Adds a message to a protocol buffer, and frees the message. */
static void add_message(GByteArray *to, unsigned field, GByteArray *message) {
  add_bytes(to, field, message->data, message->len);
  g_byte_array_unref(message);
}

/* ---- Types and shapes -------------------------------------------------------------------- */

typedef struct Type {
  const char *name;
  int onnx; /* TensorProto.DataType */
  int bytes;
} Type;

static const Type *find_type(const char *name) {
  static const Type types[] = {
      {"f32", 1, 4}, {"u8", 2, 1}, {"i8", 3, 1}, {"i32", 6, 4}, {"i64", 7, 8}};
  for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
    if (strcmp(types[i].name, name) == 0)
      return &types[i];
  g_error("no type %s", name);
}

/* Adds an extent as in ONNX's TensorShapeProto: a number, or the name of an open extent. */
static GByteArray *make_dimension(const char *text) {
  GByteArray *dimension = g_byte_array_new();
  if (g_ascii_isdigit(*text))
    add_int(dimension, 1, g_ascii_strtoll(text, NULL, 10));
  else
    add_str(dimension, 2, text);
  return dimension;
}

/* Reads the extents of a constant, and computes its number of elements. */
static int64_t read_shape(const char *text, GArray *extents) {
  char **parts = g_strsplit(strcmp(text, "-") ? text : "", "x", -1);
  int64_t count = 1;
  for (char **part = parts; *part && **part; part++) {
    int64_t extent = g_ascii_strtoll(*part, NULL, 10);
    g_array_append_val(extents, extent);
    count *= extent;
  }
  g_strfreev(parts);
  return count;
}

static GByteArray *value_info(const char *name, const char *type, const char *shape) {
  GByteArray *info = g_byte_array_new(), *outer = g_byte_array_new(), *tensor = g_byte_array_new();
  add_str(info, 1, name);
  if (type) {
    char **parts = g_strsplit(strcmp(shape, "-") ? shape : "", "x", -1);
    GByteArray *dimensions = g_byte_array_new();
    add_int(tensor, 1, find_type(type)->onnx);
    for (char **part = parts; *part && **part; part++)
      add_message(dimensions, 1, make_dimension(*part));
    add_message(tensor, 2, dimensions);
    add_message(outer, 1, tensor);
    add_message(info, 2, outer);
    g_strfreev(parts);
    return info;
  }
  g_byte_array_unref(tensor);
  g_byte_array_unref(outer);
  return info;
}

/* ---- Constants --------------------------------------------------------------------------- */

static void put_element(const Type *type, guint8 *at, double number) {
  float real = (float)number;
  int32_t narrow = (int32_t)number;
  int64_t wide = (int64_t)number;
  if (type->onnx == 1)
    memcpy(at, &real, sizeof real);
  else if (type->bytes == 1)
    *at = (guint8)narrow;
  else if (type->bytes == 4)
    memcpy(at, &narrow, sizeof narrow);
  else
    memcpy(at, &wide, sizeof wide);
}

/* If `value` is NULL, floats are from -1 to 1 and integers from -100 to 100. */
static GByteArray *constant(const char *name, const Type *type, const char *shape,
                            const char *value) {
  GByteArray *tensor = g_byte_array_new();
  GArray *extents = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t count = read_shape(shape, extents);
  guint8 *data = g_malloc((gsize)(count * type->bytes));
  GRand *random = g_rand_new_with_seed(g_str_hash(name));
  for (int64_t i = 0; i < count; i++) {
    double number = type->onnx == 1 ? g_rand_double_range(random, -1, 1)
                                    : (double)g_rand_int_range(random, -100, 101);
    put_element(type, data + i * type->bytes, value ? g_ascii_strtod(value, NULL) : number);
  }
  for (guint i = 0; i < extents->len; i++)
    add_int(tensor, 1, g_array_index(extents, int64_t, i));
  add_int(tensor, 2, type->onnx);
  add_str(tensor, 8, name);
  add_bytes(tensor, 9, data, (gsize)(count * type->bytes));
  g_rand_free(random);
  g_array_unref(extents);
  g_free(data);
  return tensor;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

/* Adds an attribute: "name=1,2", "name=1" or "name=0.5". */
static GByteArray *attribute(const char *text) {
  GByteArray *attr = g_byte_array_new();
  const char *value = strchr(text, '=') + 1;
  char *name = g_strndup(text, (gsize)(value - 1 - text));
  add_str(attr, 1, name);
  if (strchr(value, ',')) {
    char **parts = g_strsplit(value, ",", -1);
    for (char **part = parts; *part; part++)
      add_int(attr, 8, g_ascii_strtoll(*part, NULL, 10));
    add_int(attr, 20, 7);
    g_strfreev(parts);
  } else if (strchr(value, '.')) {
    add_float(attr, 2, (float)g_ascii_strtod(value, NULL));
    add_int(attr, 20, 1);
  } else {
    add_int(attr, 3, g_ascii_strtoll(value, NULL, 10));
    add_int(attr, 20, 2);
  }
  g_free(name);
  return attr;
}

static void add_names(GByteArray *node, unsigned field, const char *names) {
  char **each = g_strsplit(names, ",", -1);
  for (char **name = each; *name; name++)
    add_str(node, field, *name);
  g_strfreev(each);
}

static GByteArray *make_node(char *const *words) {
  GByteArray *node = g_byte_array_new();
  add_names(node, 1, words[2]);
  add_names(node, 2, words[3]);
  add_str(node, 3, words[3]);
  add_str(node, 4, words[1]);
  for (char *const *attr = words + 4; *attr; attr++)
    add_message(node, 5, attribute(*attr));
  return node;
}

/* ---- Models ------------------------------------------------------------------------------ */

static void add_line(GByteArray *graph, char *const *words) {
  if (strcmp(words[0], "node") == 0)
    add_message(graph, 1, make_node(words));
  else if (strcmp(words[0], "const") == 0)
    add_message(graph, 5, constant(words[1], find_type(words[2]), words[3], words[4]));
  else if (strcmp(words[0], "input") == 0)
    add_message(graph, 11, value_info(words[1], words[2], words[3]));
  else if (strcmp(words[0], "output") == 0)
    add_message(graph, 12, value_info(words[1], NULL, NULL));
  else
    g_error("no line of a model: %s", words[0]);
}

GByteArray *bp__kit_onnx(const char *text) {
  GByteArray *model = g_byte_array_new(), *graph = g_byte_array_new(), *opset = g_byte_array_new();
  char **lines = g_strsplit(text, "\n", -1);
  add_str(graph, 2, "kit");
  for (char **line = lines; *line; line++) {
    char **words = g_strsplit(g_strstrip(*line), " ", -1);
    if (words[0] && *words[0])
      add_line(graph, words);
    g_strfreev(words);
  }
  g_strfreev(lines);
  add_int(model, 1, IR_VERSION);
  add_message(model, 7, graph);
  add_str(opset, 1, "");
  add_int(opset, 2, OPSET);
  add_message(model, 8, opset);
  return model;
}
