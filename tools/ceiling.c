/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the rates of generated code on a device: a matrix product, and an element-wise step over
 * much memory. Product and step are small models, compiled and measured like any other. */
#include "tools/command.h"

#include <string.h>
#include <unistd.h>

#include <backplane/object.h>

#define PRODUCT_EXTENT 512
#define STREAM_EXTENT  4096 /* 64 MiB, in and out: more than the caches hold */
#define SECONDS        0.2

/* ---- Models ------------------------------------------------------------------------------ */

static void add_number(GByteArray *out, guint64 number) {
  for (; number > 127; number >>= 7)
    g_byte_array_append(out, (const guint8[]){(guint8)(number & 127) | 128}, 1);
  g_byte_array_append(out, (const guint8[]){(guint8)number}, 1);
}

/* A protobuf field: a number, a text, or a message, which is released. */
static void add_number_field(GByteArray *out, guint field, guint64 number) {
  add_number(out, field << 3);
  add_number(out, number);
}

static void add_text(GByteArray *out, guint field, const char *text) {
  add_number(out, field << 3 | 2);
  add_number(out, strlen(text));
  g_byte_array_append(out, (const guint8 *)text, (guint)strlen(text));
}

static void add_message(GByteArray *out, guint field, GByteArray *message) {
  add_number(out, field << 3 | 2);
  add_number(out, message->len);
  g_byte_array_append(out, message->data, message->len);
  g_byte_array_unref(message);
}

/* Makes a ValueInfoProto: a square matrix of floats as an input or output of a graph. */
static GByteArray *make_value(const char *name, int64_t extent) {
  GByteArray *value = g_byte_array_new(), *type = g_byte_array_new(), *tensor = g_byte_array_new(),
             *shape = g_byte_array_new();
  for (int i = 0; i < 2; i++) {
    GByteArray *dimension = g_byte_array_new();
    add_number_field(dimension, 1, (guint64)extent);
    add_message(shape, 1, dimension);
  }
  add_number_field(tensor, 1, 1); /* FLOAT */
  add_message(tensor, 2, shape);
  add_message(type, 1, tensor);
  add_text(value, 1, name);
  add_message(value, 2, type);
  return value;
}

/* Makes an ONNX file of y = OPERATOR(a, b), or of y = OPERATOR(a). */
static GByteArray *make_model(const char *operator_name, int num_inputs, int64_t extent) {
  static const char *const names[] = {"a", "b"};
  GByteArray *model = g_byte_array_new(), *graph = g_byte_array_new(), *node = g_byte_array_new(),
             *set = g_byte_array_new();
  for (int i = 0; i < num_inputs; i++)
    add_text(node, 1, names[i]);
  add_text(node, 2, "y");
  add_text(node, 4, operator_name);
  add_message(graph, 1, node);
  add_text(graph, 2, "ceiling");
  for (int i = 0; i < num_inputs; i++)
    add_message(graph, 11, make_value(names[i], extent));
  add_message(graph, 12, make_value("y", extent));
  add_number_field(set, 2, 13);
  add_number_field(model, 1, 8); /* the version of the ONNX format */
  add_message(model, 7, graph);
  add_message(model, 8, set);
  return model;
}

static BpModule *compile(GByteArray *bytes, const BpTarget *target) {
  const BpCompileOptions options = {
      .struct_size = sizeof options, .targets = &target, .num_targets = 1};
  GError *error = NULL;
  char *path = NULL;
  int file = g_file_open_tmp("backplane-XXXXXX.onnx", &path, &error);
  if (file >= 0) {
    close(file);
    temporary_add(path);
  }
  BpModule *module = NULL;
  if (file >= 0 && g_file_set_contents(path, (const char *)bytes->data, bytes->len, &error))
    module = bp_model_compile(path, &options);
  else
    bp_error_raise(BP_ERROR_IO, "cannot write a model to measure: %s", error->message);
  g_clear_error(&error);
  if (path)
    temporary_remove(path);
  g_free(path);
  g_byte_array_unref(bytes);
  return module;
}

/* ---- Measuring --------------------------------------------------------------------------- */

/* Runs the model with arbitrary inputs, and sums the times of its operators. 0 or -1 with an
 * error. */
static int measure(BpModule *module, BpDevice device, Operator *sum) {
  const ModelOptions options = {.threads = THREADS_DEFAULT, .fills = TRUE};
  const ProfileOptions extra = {.runs = 3, .seconds = SECONDS};
  LoadedModel loaded = {.devices = {device}, .num_devices = 1};
  GArray *operators = NULL;
  *sum = (Operator){.node = NULL};
  loaded.model = bp_model_create(module, &device, 1);
  int status = loaded.model && model_set_inputs(&loaded, &options) == 0 &&
                       operators_measure(&loaded, &extra, &operators) > 0
                   ? 0
                   : -1;
  for (guint i = 0; status == 0 && i < operators->len; i++) {
    const Operator *each = &g_array_index(operators, Operator, i);
    sum->min_ns += each->min_ns;
    sum->bytes += each->bytes;
    sum->steps += each->steps;
  }
  if (operators)
    g_array_unref(operators);
  model_close(&loaded);
  return status;
}

static int attain(const char *operator_name, int num_inputs, int64_t extent, const BpTarget *target,
                  BpDevice device, Operator *sum) {
  BpModule *module = compile(make_model(operator_name, num_inputs, extent), target);
  int status = module ? measure(module, device, sum) : -1;
  bp_object_release(module);
  return status;
}

/* Returns the target that the model has code for on the device, else the device's target (transfer
 * full). */
static BpTarget *find_target(const LoadedModel *loaded) {
  for (int32_t i = 0; i < bp_model_num_targets(loaded->model); i++) {
    BpTarget *target = bp_target_parse(bp_model_target(loaded->model, i));
    if (target &&
        bp_target_device_type(target) == BP_DEVICE_TYPE_OF_CODE(loaded->devices[0].device_type))
      return target;
    bp_object_release(target);
  }
  return bp_target_from_device(loaded->devices[0]);
}

json_t *ceilings_measure(const LoadedModel *loaded) {
  BpDevice device = bp_model_devices(loaded->model, &(size_t){0})[0];
  BpTarget *target = find_target(loaded);
  json_t *ceilings = json_object();
  Operator product, stream;
  if (target && attain("MatMul", 2, PRODUCT_EXTENT, target, device, &product) == 0 &&
      attain("Neg", 1, STREAM_EXTENT, target, device, &stream) == 0) {
    product.steps = (double)PRODUCT_EXTENT * PRODUCT_EXTENT * PRODUCT_EXTENT;
    json_add_double(ceilings, "gflops", operator_gflops(&product));
    json_add_double(ceilings, "gbps", operator_gbps(&stream));
  } else {
    json_add_str(ceilings, "reason", bp_error_message());
    bp_error_clear();
  }
  bp_object_release(target);
  return ceilings;
}
