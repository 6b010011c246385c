/* SPDX-License-Identifier: Apache-2.0 */
/* Writing artifacts of TVM up to 0.19, byte by byte. */

#include "tests/tvm/artifact.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes ------------------------------------------------------------------------------- */

static void put(GByteArray *bytes, const void *data, size_t size) {
  if (size)
    g_byte_array_append(bytes, data, (guint)size);
}

void put_u64(GByteArray *bytes, guint64 number) {
  put(bytes, &number, sizeof number);
}

static void put_i32(GByteArray *bytes, gint32 number) {
  put(bytes, &number, sizeof number);
}

void put_str(GByteArray *bytes, const char *text) {
  put_u64(bytes, strlen(text));
  put(bytes, text, strlen(text));
}

/* Splits a text into words; an empty text has none. */
static char **split(const char *text) {
  return *text ? g_strsplit(text, " ", -1) : g_new0(char *, 1);
}

void put_words(GByteArray *bytes, const char *text) {
  char **words = split(text);
  put_u64(bytes, g_strv_length(words));
  for (char **word = words; *word; ++word)
    put_str(bytes, *word);
  g_strfreev(words);
}

void put_array(GByteArray *bytes, const int64_t *shape, int32_t ndim, BpDataType dtype,
               const void *data) {
  guint64 size = (guint64)(dtype.bits + 7) / 8 * dtype.lanes;
  put_u64(bytes, 0xDD5E40F096B4A13Full);
  put_u64(bytes, 0);
  put_i32(bytes, 1);
  put_i32(bytes, 0);
  put_i32(bytes, ndim);
  put(bytes, &dtype, sizeof dtype);
  for (int32_t i = 0; i < ndim; ++i) {
    put_u64(bytes, (guint64)shape[i]);
    size *= (guint64)shape[i];
  }
  put_u64(bytes, size);
  put(bytes, data, size);
}

void put_floats(GByteArray *bytes, const float *numbers, int64_t count) {
  put_array(bytes, &count, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, numbers);
}

void put_device_module(GByteArray *bytes, const char *kind, const char *format,
                       const ArtifactKernel *kernels, size_t num_kernels, const char *code,
                       size_t code_size) {
  const BpDataType handle = {BP_DTYPE_HANDLE, 64, 1}, int32 = {BP_DTYPE_INT, 32, 1};
  put_str(bytes, kind);
  put_str(bytes, format);
  put_u64(bytes, num_kernels);
  for (size_t i = 0; i < num_kernels; ++i) {
    put_str(bytes, kernels[i].key);
    put_str(bytes, kernels[i].name);
    put_u64(bytes, (guint64)(kernels[i].handles + kernels[i].ints));
    for (int k = 0; k < kernels[i].handles + kernels[i].ints; ++k)
      put(bytes, k < kernels[i].handles ? &handle : &int32, sizeof handle);
    put_words(bytes, kernels[i].tags);
  }
  put_u64(bytes, code_size);
  put(bytes, code, code_size);
}

static void put_param_names(GByteArray *bytes, const ArtifactParam *params, size_t count) {
  put_u64(bytes, count);
  for (size_t i = 0; i < count; ++i)
    put_str(bytes, params[i].name);
}

static void put_param_arrays(GByteArray *bytes, const ArtifactParam *params, size_t count) {
  for (size_t i = 0; i < count; ++i)
    put_floats(bytes, params[i].numbers, params[i].count);
}

void put_factory(GByteArray *bytes, const char *name, const char *graph_json,
                 const ArtifactParam *params, size_t num_params) {
  put_str(bytes, "GraphExecutorFactory");
  put_str(bytes, graph_json);
  put_u64(bytes, num_params);
  put_param_names(bytes, params, num_params);
  put_param_arrays(bytes, params, num_params);
  put_str(bytes, name);
}

void put_params_file(GByteArray *bytes, const ArtifactParam *params, size_t num_params) {
  put_u64(bytes, 0xF7E58D4F05049CB7ull);
  put_u64(bytes, 0);
  put_param_names(bytes, params, num_params);
  put_u64(bytes, num_params);
  put_param_arrays(bytes, params, num_params);
}

static void put_numbers(GByteArray *bytes, const char *text) {
  char **words = split(text);
  put_u64(bytes, g_strv_length(words));
  for (char **word = words; *word; ++word)
    put_u64(bytes, g_ascii_strtoull(*word, NULL, 10));
  g_strfreev(words);
}

void put_import_tree(GByteArray *bytes, const char *rows, const char *children) {
  put_str(bytes, "_import_tree");
  put_numbers(bytes, rows);
  put_numbers(bytes, children);
}

/* ---- Libraries --------------------------------------------------------------------------- */

#define TYPES                                                                                      \
  "#include <stdint.h>\n"                                                                          \
  "typedef struct { uint8_t code, bits; uint16_t lanes; } Dtype;\n"                                \
  "typedef struct { int32_t type, id; } Device;\n"                                                 \
  "typedef union { int64_t v_int64; double v_float64; void *v_handle; const char *v_str;\n"        \
  "  Dtype v_dtype; Device v_device; } Value;\n"                                                   \
  "typedef struct { void *data; Device device; int32_t ndim; Dtype dtype; int64_t *shape,\n"       \
  "  *strides; uint64_t byte_offset; } Tensor;\n"                                                  \
  "typedef struct { void *sync_handle; int32_t num_task; } Env;\n"                                 \
  "#define FN(name) int32_t name(Value *args, int *codes, int num_args, Value *ret,"               \
  " int *ret_code, void *resource)\n"                                                              \
  "#define TENSOR(i) ((Tensor *)args[i].v_handle)\n"                                               \
  "#define FLOATS(i) ((float *)TENSOR(i)->data)\n"

const char artifact_llvm_header[] =
    TYPES "#define SLOT __attribute__((weak))\n"
          "SLOT void *__tvm_module_ctx;\n"
          "SLOT int (*__TVMFuncCall)(void *, Value *, int *, int, Value *, int *);\n"
          "SLOT void (*__TVMAPISetLastError)(const char *);\n"
          "SLOT int (*__TVMBackendGetFuncFromEnv)(void *, const char *, void **);\n"
          "SLOT void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);\n"
          "SLOT int (*__TVMBackendFreeWorkspace)(int, int, void *);\n"
          "SLOT int (*__TVMBackendParallelLaunch)(int (*)(int, Env *, void *), void *, int);\n"
          "SLOT int (*__TVMBackendParallelBarrier)(int, Env *);\n"
          "#define CHECK(truth, text)"
          " if (!(truth)) { __TVMAPISetLastError(\"Assert fail: \" text); return -1; }\n"
          "#define CHECK_TENSOR(i, n) CHECK((codes[i] == 3 || codes[i] == 7 || codes[i] == 13) &&"
          " TENSOR(i)->ndim == 1 && TENSOR(i)->shape[0] == (n) && TENSOR(i)->dtype.code == 2 &&"
          " TENSOR(i)->dtype.bits == 32 && TENSOR(i)->byte_offset == 0,"
          " \"arg\" #i \".shape[0] == \" #n)\n"
          "#define HOST(name) __##name\n"
          "static int find(void **kept, const char *name) {\n"
          "  return *kept ? 0 : __TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, kept);\n"
          "}\n"
          "static int set_device(int type, int id) {\n"
          "  static void *kept;\n"
          "  Value values[2] = {{type}, {id}}, ret; int two[2] = {0, 0}, code = 4;\n"
          "  return find(&kept, \"__tvm_set_device\") ? -1"
          " : __TVMFuncCall(kept, values, two, 2, &ret, &code);\n"
          "}\n";

const char artifact_c_header[] =
    TYPES "void *__tvm_module_ctx = 0;\n"
          "int TVMFuncCall(void *, Value *, int *, int, Value *, int *);\n"
          "int TVMBackendGetFuncFromEnv(void *, const char *, void **);\n"
          "void *TVMBackendAllocWorkspace(int, int, uint64_t, int, int);\n"
          "int TVMBackendFreeWorkspace(int, int, void *);\n"
          "int TVMBackendParallelLaunch(int (*)(int, Env *, void *), void *, int);\n"
          "#define HOST(name) name\n"
          "#define CHECK(truth, text)\n"
          "#define CHECK_TENSOR(i, n)\n"
          "static int find(void **kept, const char *name) {\n"
          "  return *kept ? 0 : TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, kept);\n"
          "}\n"
          "static int set_device(int type, int id) {\n"
          "  static void *kept;\n"
          "  Value values[2] = {{type}, {id}}, ret; int two[2] = {0, 0}, code = 4;\n"
          "  return find(&kept, \"__tvm_set_device\") ? -1"
          " : TVMFuncCall(kept, values, two, 2, &ret, &code);\n"
          "}\n";

static void write_file(const char *path, const void *data, size_t size) {
  GError *error = NULL;
  if (!g_file_set_contents(path, data, (gssize)size, &error))
    g_error("%s", error->message);
}

/* The symbol has the size of the whole blob, and an odd address. */
static void write_blob(const char *path, const char *data_path, const GByteArray *blob) {
  GByteArray *whole = g_byte_array_new();
  put_u64(whole, blob->len);
  put(whole, blob->data, blob->len);
  write_file(data_path, whole->data, whole->len);
  g_byte_array_unref(whole);
  char *text = g_strdup_printf(".section .rodata\n.balign 8\n.byte 0\n"
                               ".globl __tvm_dev_mblob\n.type __tvm_dev_mblob, %%object\n"
                               "__tvm_dev_mblob: .incbin \"%s\"\n"
                               ".size __tvm_dev_mblob, . - __tvm_dev_mblob\n"
                               ".section .note.GNU-stack,\"\",%%progbits\n",
                               data_path);
  write_file(path, text, strlen(text));
  g_free(text);
}

static void run(char **command) {
  char *said = NULL;
  int status = 0;
  GError *error = NULL;
  if (!g_spawn_sync(NULL, command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &said, &status,
                    &error))
    g_error("%s", error->message);
  if (status)
    g_error("%s", said);
  g_free(said);
}

void build_artifact(const char *path, const char *header, const char *source,
                    const GByteArray *blob) {
  char *c = g_strconcat(path, ".c", NULL), *s = g_strconcat(path, ".s", NULL),
       *data = g_strconcat(path, ".blob", NULL);
  char *text = g_strconcat(header, source, NULL);
  write_file(c, text, strlen(text));
  g_free(text);
  if (blob)
    write_blob(s, data, blob);
  char *command[] = {"cc",         "-shared", "-fPIC", "-O1",           "-w", "-o",
                     (char *)path, c,         "-lm",   blob ? s : NULL, NULL};
  run(command);
  g_unlink(c);
  g_unlink(s);
  g_unlink(data);
  g_free(c);
  g_free(s);
  g_free(data);
}

char *artifact_folder(void) {
  GError *error = NULL;
  char *folder = g_dir_make_tmp("backplane-artifact-XXXXXX", &error);
  if (!folder)
    g_error("%s", error->message);
  return folder;
}

void remove_artifact_folder(char *folder) {
  const char *name;
  GDir *dir = g_dir_open(folder, 0, NULL);
  while (dir && (name = g_dir_read_name(dir))) {
    char *path = g_build_filename(folder, name, NULL);
    g_unlink(path);
    g_free(path);
  }
  if (dir)
    g_dir_close(dir);
  g_rmdir(folder);
  g_free(folder);
}
