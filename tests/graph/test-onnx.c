/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: a fault of a file or a model is an error that names the fault, its place and the
 * remedy, and no file can do more harm. */
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/graph/onnx_builder.h"

static BpTarget *target;

static BpModule *compile_path(const char *path, const BpInputShape *shapes, int32_t num_shapes) {
  const BpTarget *targets[1] = {target};
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = targets,
                              .num_targets = 1,
                              .shapes = shapes,
                              .num_shapes = num_shapes,
                              .shape_size = sizeof(BpInputShape)};
  return bp_model_compile(path, &options);
}

static BpModule *compile_bytes(const GByteArray *bytes) {
  char *path = onnx_write(bytes);
  BpModule *module = compile_path(path, NULL, 0);
  unlink(path);
  g_free(path);
  return module;
}

/* Compiles the builder's model, which must fail with this kind and with all the words in the
 * message; frees the builder. */
static void assert_refused(OnnxBuilder *builder, const BpInputShape *shapes, int32_t num_shapes,
                           const char *kind, const char *words) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), **list = g_strsplit(words, "|", -1);
  g_assert_null(compile_path(path, shapes, num_shapes));
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_nonnull(strstr(bp_error_message(), path));
  for (char **word = list; *word; word++)
    if (!strstr(bp_error_message(), *word))
      g_error("'%s' is not in: %s", *word, bp_error_message());
  bp_error_clear();
  unlink(path);
  g_free(path);
  g_strfreev(list);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* x (1x2x4x4) -> relu -> y, to be damaged. */
static OnnxBuilder *small(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x2x4x4");
  onnx_node(builder, "Relu", "x", "y", "");
  onnx_output(builder, "y");
  return builder;
}

/* ---- Files ------------------------------------------------------------------------------- */

static void test_missing_file(void) {
  g_assert_null(compile_path("/proc/nonexistent/model.onnx", NULL, 0));
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_IO);
  g_assert_nonnull(strstr(bp_error_message(), "/proc/nonexistent/model.onnx"));
  bp_error_clear();
  g_assert_null(compile_path("/dev/zero", NULL, 0));
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
  bp_error_clear();
}

static void test_no_model(void) {
  static const char *const contents[] = {"", "hello", "\x08\x08", "\xff\xff\xff\xff\xff\xff"};
  for (size_t i = 0; i < G_N_ELEMENTS(contents); i++) {
    GByteArray *bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const guint8 *)contents[i], (guint)strlen(contents[i]));
    g_assert_null(compile_bytes(bytes));
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
    bp_error_clear();
    g_byte_array_unref(bytes);
  }
}

/* A library of `backplane compile` is refused as a model. */
static void test_elf_file_is_named(void) {
  GByteArray *bytes = g_byte_array_new();
  g_byte_array_append(bytes, (const guint8 *)"\177ELF\2\1\1", 7);
  g_assert_null(compile_bytes(bytes));
  g_assert_nonnull(strstr(bp_error_message(), "an ELF file"));
  g_assert_nonnull(strstr(bp_error_message(), "end in .so"));
  bp_error_clear();
  g_byte_array_unref(bytes);
}

/* A model with many features. */
static GByteArray *varied_bytes(void) {
  OnnxBuilder *builder = onnx_builder_new();
  GByteArray *bytes;
  onnx_input(builder, "x", ONNX_FLOAT, "1x3x8x8");
  onnx_floats(builder, "w", "4x3x3x3");
  onnx_floats(builder, "b", "4");
  onnx_ints(builder, "shape", "1,-1");
  onnx_node(builder, "Conv", "x,w,b", "c", "pads=1,1,1,1 strides=2,2");
  onnx_node(builder, "HardSigmoid", "c", "h", "alpha=0.25 beta=0.5");
  onnx_node(builder, "MaxPool", "h", "p", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Reshape", "p,shape", "r", "");
  onnx_node(builder, "Softmax", "r", "y", "axis=-1");
  onnx_output(builder, "y");
  bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  return bytes;
}

static void test_truncated(void) {
  GByteArray *whole = varied_bytes();
  for (guint size = 1; size < whole->len; size += 1 + size / 64) {
    GByteArray *part = g_byte_array_new();
    g_byte_array_append(part, whole->data, size);
    g_assert_null(compile_bytes(part));
    g_assert_cmpstr(bp_error_kind(), !=, BP_ERROR_INTERNAL);
    bp_error_clear();
    g_byte_array_unref(part);
  }
  g_byte_array_unref(whole);
}

/* Some bit flips give another valid model, most do not; each gives a model or an error. */
static void test_flipped(void) {
  GByteArray *bytes = varied_bytes();
  int refused = 0;
  for (guint i = 0; i < bytes->len; i += i < 400 ? 1 : 29) {
    guint8 mask = (guint8)(1u << (i % 8));
    BpModule *module;
    bytes->data[i] ^= mask;
    module = compile_bytes(bytes);
    bytes->data[i] ^= mask;
    if (!module) {
      g_assert_cmpstr(bp_error_kind(), !=, BP_ERROR_INTERNAL);
      g_assert_cmpstr(bp_error_message(), !=, "");
      bp_error_clear();
      refused++;
    }
    bp_object_release(module);
  }
  g_assert_cmpint(refused, >, 50);
  g_byte_array_unref(bytes);
}

/* Two bytes of the file make a message of a hundred bytes: memory must not grow that way. */
static void test_many_empty_messages(void) {
  GByteArray *bytes = g_byte_array_new();
  guint8 head[] = {0x3a, 0x80, 0x80, 0x80, 0x02}; /* graph: 4 MiB */
  guint8 node[] = {0x0a, 0x00};
  g_byte_array_append(bytes, head, sizeof(head));
  for (int i = 0; i < 2 << 20; i++)
    g_byte_array_append(bytes, node, sizeof(node));
  g_assert_null(compile_bytes(bytes));
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
  bp_error_clear();
  g_byte_array_unref(bytes);
}

/* ---- Operators --------------------------------------------------------------------------- */

static void test_missing_operators(void) {
  OnnxBuilder *builder = small();
  onnx_node(builder, "Frobnicate", "y", "z", "");
  onnx_node(builder, "ImageDecoder", "y,y", "v", "");
  onnx_node(builder, "Frobnicate", "y", "u", "");
  onnx_node(builder, "Relu", "y", "t", "")->domain = (char[]){"com.example"};
  assert_refused(
      builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED,
      "3 operators|Frobnicate (node 'the Frobnicate')|ImageDecoder (node 'the ImageDecoder')|"
      "com.example::Relu|docs/operators.md");
  builder = small();
  onnx_node(builder, "Relu", "y", "t", "")->domain = (char[]){"com.example"};
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED,
                 "1 operator that this importer lacks: com.example::Relu");
}

static void test_operator_set(void) {
  OnnxBuilder *builder = small();
  builder->version = 99;
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "99|7 to 28|onnx.version_converter");
  builder = small();
  onnx_node(builder, "Gelu", "y", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "Gelu|operator set 13");
}

/* For integers the code of float operators would use constants truncated to integers. */
static void test_element_types(void) {
  static const char *const ops[] = {"HardSwish",  "HardSigmoid",     "LeakyRelu",   "IsInf",
                                    "Reciprocal", "LpNormalization", "GlobalLpPool"};
  for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
    OnnxBuilder *builder = small();
    builder->version = 16;
    onnx_node(builder, "Cast", "y", "i", "to=6");
    onnx_node(builder, ops[i], "i", "z", "");
    assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "takes floats, not int32");
  }
  OnnxBuilder *builder = small();
  onnx_node(builder, "Cast", "y", "i", "to=6");
  onnx_node(builder, "Flatten", "i", "m", "");
  onnx_node(builder, "Gemm", "m,m", "z", "alpha=0.5f transB=1");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "the Gemm|alpha is 0.5|integers");
  builder = small();
  onnx_node(builder, "Flatten", "y", "m", "");
  onnx_node(builder, "EyeLike", "m", "z", "dtype=22");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "the EyeLike|type number 22");
  static const char *const norms[][3] = {
      {"LayerNormalization", "y,y", "stash_type=6"},
      {"GroupNormalization", "y,y,y", "num_groups=1 stash_type=6"},
      {"RMSNormalization", "y,y", "stash_type=6"}};
  for (size_t i = 0; i < G_N_ELEMENTS(norms); i++) {
    builder = small();
    builder->version = 23;
    onnx_node(builder, norms[i][0], norms[i][1], "z", norms[i][2]);
    assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "stash_type 6");
  }
  builder = small();
  onnx_node(builder, "Xor", "y,y", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Xor|takes bool, not float32");
}

/* A result has the shape of the product, input or scores, whatever is added to them. */
static void test_larger_addends(void) {
  static const char *const uses[][3] = {
      {"Gemm", "row,square,column", "does not broadcast to the product"},
      {"LayerNormalization", "row,column", "scale does not broadcast to its input"},
      {"LayerNormalization", "row,row,column", "bias does not broadcast to its input"},
      {"RMSNormalization", "row,square", "scale does not broadcast to its input"},
      {"Attention", "y,y,y,mask", "mask does not broadcast to the scores"}};
  for (size_t i = 0; i < G_N_ELEMENTS(uses); i++) {
    OnnxBuilder *builder = small();
    builder->version = 23;
    onnx_floats(builder, "row", "1x3");
    onnx_floats(builder, "column", "3x1");
    onnx_floats(builder, "square", "3x3");
    onnx_floats(builder, "mask", "5x1x4x4");
    onnx_node(builder, uses[i][0], uses[i][1], "z", "");
    assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, uses[i][2]);
  }
}

/* An input whose type is a message of the schema that has no tensor type. */
static OnnxBuilder *with_input_of(size_t has_type) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "s", ONNX_FLOAT, "2");
  Backplane__Onnx__ValueInfoProto *input = builder->inputs->pdata[0];
  input->type->tensor_type = NULL;
  *(protobuf_c_boolean *)((char *)input->type + has_type) = 1;
  onnx_node(builder, "Identity", "s", "y", "");
  onnx_output(builder, "y");
  return builder;
}

static void test_values_that_are_no_tensors_are_refused(void) {
  static const struct {
    size_t has_type;
    const char *words;
  } kinds[] = {
      {offsetof(Backplane__Onnx__TypeProto, has_sequence_type),
       "input 's' is not a list of tensors"},
      {offsetof(Backplane__Onnx__TypeProto, has_optional_type),
       "input 's' is not a list of tensors"},
      {offsetof(Backplane__Onnx__TypeProto, has_map_type), "input 's' is a map|dense"},
      {offsetof(Backplane__Onnx__TypeProto, has_sparse_tensor_type), "a sparse tensor|dense"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
    assert_refused(with_input_of(kinds[i].has_type), NULL, 0, BP_ERROR_NOT_IMPLEMENTED,
                   kinds[i].words);
}

static void test_attributes(void) {
  OnnxBuilder *builder = small();
  onnx_node(builder, "Softmax", "y", "z", "axes=1");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "the Softmax|'axes'");
  builder = small();
  onnx_node(builder, "Softmax", "y", "z", "axis=1.5");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "the Softmax|'axis'|type f");
  builder = small();
  onnx_node(builder, "Softmax", "y", "z", "axis=7");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Softmax|axis 7");
}

static void test_shapes_that_do_not_fit(void) {
  OnnxBuilder *builder = small();
  onnx_floats(builder, "w", "3x5");
  onnx_node(builder, "Add", "y,w", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Add|3x5|broadcast");
  builder = small();
  onnx_floats(builder, "w", "8x3x3x3");
  onnx_node(builder, "Conv", "y,w", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Conv|channels");
  builder = small();
  onnx_floats(builder, "w", "8x2x9x9");
  onnx_node(builder, "Conv", "y,w", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Conv|larger than its padded input");
  builder = small();
  onnx_ints(builder, "s", "5,-1");
  onnx_node(builder, "Reshape", "y,s", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Reshape|shape");
}

static void test_arity_and_types(void) {
  OnnxBuilder *builder = small();
  onnx_node(builder, "Add", "y", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Add|1 inputs instead of 2");
  builder = small();
  onnx_ints(builder, "i", "4");
  onnx_node(builder, "Add", "y,i", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Add|float32|int64");
  builder = small();
  onnx_input(builder, "s", ONNX_INT64, "N");
  onnx_node(builder, "Reshape", "y,s", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, "the Reshape|input 1|open length");
}

/* x (3x2x4) -> a recurrent layer of 5 elements, which is refused. */
static void assert_layer_refused(const char *inputs, const char *attrs, const char *words) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "3x2x4");
  onnx_floats(builder, "w", "1x20x4");
  onnx_floats(builder, "r", "1x20x5");
  onnx_floats(builder, "few", "1x10x5");
  onnx_floats(builder, "none", "1x0x4611686018427387904");
  onnx_ints(builder, "lengths", "3,2,1");
  onnx_node(builder, "LSTM", inputs, "y", attrs);
  onnx_output(builder, "y");
  assert_refused(builder, NULL, 0,
                 strstr(words, "not supported") ? BP_ERROR_NOT_IMPLEMENTED : BP_ERROR_FORMAT,
                 words);
}

static void test_recurrent_layers(void) {
  assert_layer_refused("x,w,few", "", "the LSTM|shape of input 2");
  assert_layer_refused("x,w,none", "", "the LSTM|its state is empty");
  assert_layer_refused("x,w,r", "hidden_size=6", "the LSTM|hidden_size");
  assert_layer_refused("x,w,r", "direction=sideways", "the LSTM|'sideways'");
  assert_layer_refused("x,w,r", "direction=bidirectional", "the LSTM|shape of input 1");
  assert_layer_refused("x,w,r,,lengths", "", "the LSTM|shape of input 4");
  assert_layer_refused("x,w,r", "activations=Tanh,Tanh", "the LSTM|2 activations instead of 3");
  assert_layer_refused("x,w,r", "activations=Sine,Tanh,Tanh", "'Sine'|not supported");
}

/* ---- Names and shapes -------------------------------------------------------------------- */

static void test_names(void) {
  OnnxBuilder *builder = small();
  onnx_node(builder, "Relu", "nowhere", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "the Relu|'nowhere'");
  builder = small();
  onnx_node(builder, "Relu", "y", "x", "");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "'x' to two values");
  builder = small();
  onnx_input(builder, "x", ONNX_INT64, "7x7");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "'x' to two inputs");
  builder = small();
  onnx_output(builder, "absent");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "its output 'absent'");
  builder = small();
  onnx_node(builder, "Relu", "y", "z", "")->name = (char[]){"\xff\xfe"};
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "not UTF-8");
}

static OnnxBuilder *symbolic(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "image", ONNX_FLOAT, "Nx2x4x4");
  onnx_input(builder, "mask", ONNX_FLOAT, "Nx1x4x4");
  onnx_node(builder, "Mul", "image,mask", "y", "");
  onnx_output(builder, "y");
  return builder;
}

static void test_symbols(void) {
  int64_t shape[4] = {3, 2, 4, 4}, other[4] = {3, 9, 4, 4};
  BpInputShape good = {"image", shape, 4}, bad = {"image", other, 4}, few = {"image", shape, 3},
               unknown = {"picture", shape, 4}, twice[] = {good, good};
  OnnxBuilder *builder = symbolic();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *module = compile_path(path, &good, 1); /* N of one input is the N of the other */
  g_assert_nonnull(module);
  bp_object_release(module);
  module = compile_path(path, NULL, 0); /* N is open */
  g_assert_nonnull(module);
  bp_object_release(module);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_node(builder, "Conv", "image,image", "z", "");
  onnx_output(builder, "z");
  assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED,
                 "the Conv|'image'|open|--shape image=1x2x4x4 --shape mask=1x1x4x4");
  assert_refused(symbolic(), &bad, 1, BP_ERROR_VALUE, "dimension 1 of input 'image' is 2|9");
  assert_refused(symbolic(), &few, 1, BP_ERROR_VALUE, "'image' has 4 dimensions|3");
  assert_refused(symbolic(), &unknown, 1, BP_ERROR_NOT_FOUND, "'picture'|'image'");
  assert_refused(symbolic(), twice, 2, BP_ERROR_VALUE, "two shapes|'image'");
  builder = small();
  assert_refused(builder, &unknown, 1, BP_ERROR_NOT_FOUND, "'picture'|'x'");
}

static void test_wrong_element_count(void) {
  OnnxBuilder *builder = small();
  Backplane__Onnx__TensorProto *tensor;
  onnx_floats(builder, "w", "2x3");
  tensor = g_ptr_array_index(builder->initializers, 0);
  tensor->n_float_data = 5;
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "'w' has 5 elements instead of 6");
  builder = small();
  onnx_floats(builder, "w", "2x3");
  tensor = g_ptr_array_index(builder->initializers, 0);
  tensor->dims[0] = INT64_MAX;
  assert_refused(builder, NULL, 0, BP_ERROR_VALUE, "'w' is too large");
}

/* A constant whose shape in the file is huge must be refused, not allocated. */
static void test_enormous_constant(void) {
  OnnxBuilder *builder = small();
  onnx_ints(builder, "s", "1000000,1000000,1000");
  onnx_node(builder, "ConstantOfShape", "s", "z", "");
  assert_refused(builder, NULL, 0, BP_ERROR_VALUE, "--limit constant-bytes=N");
}

static void test_example_of_a_shape_is_usual(void) {
  static const char *const shapes[][2] = {
      {"NxCxHxW", "--shape x=1x3x224x224"},
      {"Nx8xHxW", "--shape x=1x8x224x224"},
      {"NxTx64", "--shape x=1x128x64"},
      {"NxT", "--shape x=1x128"},
      {"Nx4", "--shape x=1x4"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++) {
    OnnxBuilder *builder = onnx_builder_new();
    onnx_input(builder, "x", ONNX_FLOAT, shapes[i][0]);
    onnx_node(builder, "MaxUnpool", "x,x", "y", "");
    onnx_output(builder, "y");
    assert_refused(builder, NULL, 0, BP_ERROR_NOT_IMPLEMENTED, shapes[i][1]);
  }
}

/* Formats names and shapes of a compiled model's inputs and outputs: "x:0x4 y:0x4 ". */
static int describe(void *text, int32_t role, const BpModelTensorInfo *info) {
  (void)role;
  g_string_append_printf(text, "%s:", info->name);
  for (int32_t i = 0; i < info->ndim; i++)
    g_string_append_printf(text, "%s%d", i ? "x" : "", (int)info->shape[i]);
  g_string_append_c(text, ' ');
  return 0;
}

/* Compiles the builder's model and frees the builder. */
static void assert_compiles_to(OnnxBuilder *builder, const BpInputShape *shape,
                               const char *expected) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  GString *text = g_string_new(NULL);
  BpModule *module = compile_path(path, shape, shape != NULL);
  g_assert_nonnull(module);
  g_assert_cmpint(bp_model_visit_tensors(module, describe, text), ==, 0);
  g_assert_cmpstr(text->str, ==, expected);
  bp_object_release(module);
  g_string_free(text, TRUE);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* An extent of 0 is fixed, like any other. */
static void test_zero_is_an_extent(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "0x4");
  onnx_node(builder, "Relu", "x", "y", "");
  onnx_output(builder, "y");
  assert_compiles_to(builder, NULL, "x:0x4 y:0x4 ");
}

/* A transpose that moves no element becomes a reshape that copies no extent of its input. */
static void test_empty_transpose(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x0");
  onnx_node(builder, "Transpose", "x", "t", "perm=1,0");
  onnx_node(builder, "Relu", "t", "y", "");
  onnx_output(builder, "y");
  assert_compiles_to(builder, NULL, "x:1x0 y:0x1 ");
}

/* A mask that is not bool is added to the products, also a mask of integers. */
static void test_attention_takes_a_mask_of_integers(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 23;
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x2x4");
  onnx_input(builder, "mask", ONNX_INT64, "2x1");
  onnx_node(builder, "Attention", "x,x,x,mask", "y", "is_causal=1");
  onnx_output(builder, "y");
  assert_compiles_to(builder, NULL, "x:1x1x2x4 mask:2x1 y:1x1x2x4 ");
}

static OnnxBuilder *with_default(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_input(builder, "w", ONNX_FLOAT, "2");
  onnx_floats(builder, "w", "2");
  onnx_node(builder, "Add", "x,w", "y", "");
  onnx_output(builder, "y");
  return builder;
}

/* BpInputShape with a member that a later version may add. */
typedef struct LaterShape {
  BpInputShape shape;
  int64_t likely;
} LaterShape;

static void test_rows_of_shapes_are_as_long_as_the_caller_says(void) {
  static const int64_t extent = 3;
  const LaterShape shapes[] = {{{"x", &extent, 1}, -1}, {{"y", &extent, 1}, -1}};
  const BpTarget *targets[1] = {target};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "N");
  onnx_input(builder, "y", ONNX_FLOAT, "M");
  onnx_node(builder, "Add", "x,y", "z", "");
  onnx_output(builder, "z");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = targets,
                              .num_targets = 1,
                              .shapes = &shapes[0].shape,
                              .num_shapes = 2,
                              .shape_size = sizeof(LaterShape)};
  BpModule *module = bp_model_compile(path, &options);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  options.shape_size = sizeof(BpInputShape) - 1;
  g_assert_null(bp_model_compile(path, &options));
  g_assert_nonnull(strstr(bp_error_message(), "set it to sizeof(BpInputShape)"));
  bp_error_clear();
  const struct {
    const BpInputShape *shapes;
    const char *message;
  } bad[] = {{NULL, "BpCompileOptions::shapes is NULL"},
             {&(BpInputShape){NULL, &extent, 1}, "BpInputShape::name is NULL"},
             {&(BpInputShape){"x", NULL, 1}, "BpInputShape::shape is NULL"},
             {&(BpInputShape){"x", &(int64_t){-1}, 1}, "extent 0 is -1"},
             {&(BpInputShape){"x", &(int64_t){INT64_MIN}, 1}, "extent 0 is -9223372036854775808"}};
  options.num_shapes = 1;
  options.shape_size = sizeof(BpInputShape);
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    options.shapes = bad[i].shapes;
    g_assert_null(bp_model_compile(path, &options));
    g_assert_nonnull(strstr(bp_error_message(), bad[i].message));
    bp_error_clear();
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void test_default_value_is_used_unless_its_shape_is_given(void) {
  int64_t extents[] = {2};
  const BpInputShape shape = {"w", extents, 1};
  assert_compiles_to(with_default(), NULL, "x:2 y:2 ");
  assert_compiles_to(with_default(), &shape, "x:2 w:2 y:2 ");
  OnnxBuilder *builder = with_default();
  builder->model.ir_version = 3;
  assert_refused(builder, &shape, 1, BP_ERROR_NOT_FOUND, "'w'|constant|IR version 3");
}

/* ---- Declared types ---------------------------------------------------------------------- */

static OnnxBuilder *declared(int32_t of_middle, int32_t of_output) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_node(builder, "Relu", "x", "t", "");
  onnx_node(builder, "Neg", "t", "y", "");
  onnx_declare(builder, "t", of_middle, "2");
  onnx_declare(builder, "of no node", ONNX_INT64, "2");
  onnx_typed_output(builder, "y", of_output, "2");
  return builder;
}

static void test_declared_type_must_be_computed(void) {
  assert_compiles_to(declared(ONNX_FLOAT, ONNX_FLOAT), NULL, "x:2 y:2 ");
  assert_refused(declared(ONNX_INT64, ONNX_FLOAT), NULL, 0, BP_ERROR_FORMAT,
                 "the Relu|'t' is float32|declares int64");
  assert_refused(declared(ONNX_FLOAT, ONNX_BOOL), NULL, 0, BP_ERROR_FORMAT,
                 "the Neg|'y' is float32|declares bool");
  assert_refused(declared(ONNX_FLOAT, 99), NULL, 0, BP_ERROR_FORMAT, "'y'|number 99");
  OnnxBuilder *builder = declared(ONNX_FLOAT, ONNX_FLOAT);
  onnx_node(builder, "SequenceConstruct", "x", "s", "");
  onnx_declare(builder, "s", ONNX_FLOAT, "2");
  assert_refused(builder, NULL, 0, BP_ERROR_FORMAT, "'s' is a sequence|declares float32");
}

static OnnxBuilder *declared_default(int32_t type, const char *shape) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_input(builder, "w", type, shape);
  onnx_floats(builder, "w", "2");
  onnx_node(builder, "Add", "x,w", "y", "");
  onnx_output(builder, "y");
  return builder;
}

static void test_initializer_must_be_as_its_input_is_declared(void) {
  assert_compiles_to(declared_default(ONNX_FLOAT, "N"), NULL, "x:2 y:2 ");
  assert_refused(declared_default(ONNX_INT64, "2"), NULL, 0, BP_ERROR_FORMAT,
                 "'w' is float32|declares int64");
  assert_refused(declared_default(ONNX_FLOAT, "3"), NULL, 0, BP_ERROR_FORMAT, "'w'|shape");
  assert_refused(declared_default(ONNX_FLOAT, "2x1"), NULL, 0, BP_ERROR_FORMAT, "'w'|shape");
}

/* A loop that adds x three times. The body declares the types of its carried value. */
static OnnxBuilder *declared_loop(int32_t of_input, int32_t of_output) {
  OnnxBuilder *builder = onnx_builder_new(), *body = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_ints(builder, "three", "3");
  Backplane__Onnx__NodeProto *loop = onnx_node(builder, "Loop", "three,,x", "y", "");
  onnx_output(builder, "y");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_input(body, "v", of_input, "2");
  onnx_node(body, "Identity", "go", "on", "");
  onnx_node(body, "Add", "v,x", "w", "");
  onnx_typed_output(body, "on", ONNX_BOOL, "");
  onnx_typed_output(body, "w", of_output, "2");
  onnx_branch(builder, loop, "body", body);
  return builder;
}

static void test_declared_types_of_bodies_are_checked(void) {
  assert_compiles_to(declared_loop(ONNX_FLOAT, ONNX_FLOAT), NULL, "x:2 y:2 ");
  assert_refused(declared_loop(ONNX_INT64, ONNX_FLOAT), NULL, 0, BP_ERROR_FORMAT,
                 "the Loop|input 'v' is float32|declares int64");
  assert_refused(declared_loop(ONNX_FLOAT, ONNX_INT64), NULL, 0, BP_ERROR_FORMAT,
                 "the Loop/the Add|'w' is float32|declares int64");
}

int main(int argc, char **argv) {
  int status;
  g_test_init(&argc, &argv, NULL);
  target = bp_target_parse("c");
  if (!target)
    g_error("%s", bp_error_message());
  g_test_add_func("/onnx/file/missing-is-an-error", test_missing_file);
  g_test_add_func("/onnx/file/no-model-is-an-error", test_no_model);
  g_test_add_func("/onnx/file/elf-file-is-named", test_elf_file_is_named);
  g_test_add_func("/onnx/file/truncated-is-an-error", test_truncated);
  g_test_add_func("/onnx/file/flipped-bits-are-a-model-or-an-error", test_flipped);
  g_test_add_func("/onnx/file/memory-is-bounded-by-the-size", test_many_empty_messages);
  g_test_add_func("/onnx/operators/missing-operators-are-named-at-once", test_missing_operators);
  g_test_add_func("/onnx/operators/version-is-checked", test_operator_set);
  g_test_add_func("/onnx/operators/attributes-are-checked", test_attributes);
  g_test_add_func("/onnx/operators/shapes-are-checked", test_shapes_that_do_not_fit);
  g_test_add_func("/onnx/operators/arity-and-types-are-checked", test_arity_and_types);
  g_test_add_func("/onnx/operators/recurrent-layers-are-checked", test_recurrent_layers);
  g_test_add_func("/onnx/names/are-checked", test_names);
  g_test_add_func("/onnx/shapes/symbols-are-bound-or-named", test_symbols);
  g_test_add_func("/onnx/shapes/example-is-usual", test_example_of_a_shape_is_usual);
  g_test_add_func("/onnx/shapes/zero-is-an-extent", test_zero_is_an_extent);
  g_test_add_func("/onnx/shapes/a-transpose-of-nothing-keeps-its-extents", test_empty_transpose);
  g_test_add_func("/onnx/attention_takes_a_mask_of_integers",
                  test_attention_takes_a_mask_of_integers);
  g_test_add_func("/onnx/shapes/rows-are-as-long-as-the-caller-says",
                  test_rows_of_shapes_are_as_long_as_the_caller_says);
  g_test_add_func("/onnx/shapes/default-value-is-used-unless-its-shape-is-given",
                  test_default_value_is_used_unless_its_shape_is_given);
  g_test_add_func("/onnx/types/declared-type-must-be-computed",
                  test_declared_type_must_be_computed);
  g_test_add_func("/onnx/types/initializer-must-be-as-its-input-is-declared",
                  test_initializer_must_be_as_its_input_is_declared);
  g_test_add_func("/onnx/types/declared-types-of-bodies-are-checked",
                  test_declared_types_of_bodies_are_checked);
  g_test_add_func("/onnx/tensors/element-count-is-checked", test_wrong_element_count);
  g_test_add_func("/onnx/types/integers-are-refused-where-floats-are-meant", test_element_types);
  g_test_add_func("/onnx/shapes/addends-do-not-enlarge-the-result", test_larger_addends);
  g_test_add_func("/onnx/types/values_that_are_no_tensors_are_refused",
                  test_values_that_are_no_tensors_are_refused);
  g_test_add_func("/onnx/tensors/enormous-constant-is-refused", test_enormous_constant);
  status = g_test_run();
  bp_object_release(target);
  return status;
}
