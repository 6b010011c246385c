/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that TVM up to 0.19 compiled: a module of kind "GraphExecutorFactory", whose first import
 * is the code. A library contains the whole module, or the module is made from a graph's JSON, a
 * library and a parameter file. The last name in the bytes of the module is the function that makes
 * an executor:
 *
 *   str graph JSON, u64 n, u64 n, n names, n tensors, str name */
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>

#include "graph/exec/graph_module.h"
#include "graph/io/argument.h"
#include "graph/io/stream.h"

#define MIN_TENSOR   40
#define DEFAULT_NAME "default"

/* ---- Bytes ------------------------------------------------------------------------------- */

static int read_names(BpStreamReader *reader, BpGraphVariant *variant, uint32_t expected) {
  uint32_t count;
  if (bp__stream_read_count(reader, sizeof(uint64_t), &count) < 0)
    return -1;
  if (count != expected)
    return bp_error_raise(BP_ERROR_FORMAT, "%s: %u names for %u parameters", reader->what, count,
                          expected);
  if (bp__graph_variant_create_params(variant, count) < 0)
    return -1;
  for (uint32_t i = 0; i < count; i++) {
    variant->param_tensors[i] = i;
    if (!(variant->param_names[i] = bp__stream_read_str(reader)))
      return -1;
  }
  return 0;
}

static int read_params(BpStreamReader *reader, BpGraphContent *content) {
  if (read_names(reader, &content->targets[0], content->num_tensors) < 0)
    return -1;
  for (uint32_t i = 0; i < content->num_tensors; i++)
    if (!(content->tensors[i] = bp__stream_read_tensor(reader)))
      return -1;
  content->factory_name = bp__stream_read_str(reader);
  return content->factory_name ? bp__stream_read_end(reader) : -1;
}

static BpGraphContent *read_content(BpStreamReader *reader) {
  uint32_t count;
  char *json = bp__stream_read_str(reader);
  BpGraphContent *content = json && bp__stream_read_count(reader, MIN_TENSOR, &count) == 0
                                ? bp__graph_content_create(1, count)
                                : NULL;
  if (!content) {
    free(json);
    return NULL;
  }
  content->targets[0].graph_json = json;
  if (read_params(reader, content) == 0)
    return content;
  bp__graph_content_free(content);
  return NULL;
}

/* ---- Functions --------------------------------------------------------------------------- */

static BpModule *create_module(BpGraphContent *content);

static int no_arguments(const char *name, int32_t num_args) {
  return num_args == 0
             ? 0
             : bp_error_raise(BP_ERROR_TYPE, "%s takes no arguments, and got %d", name, num_args);
}

static void give_module(BpValue *result, BpModule *module) {
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)module};
}

/* Makes an executor with its parameters. */
static int create_executor(const BpGraphContent *content, const BpValue *args, int32_t num_args,
                           int is_debug, BpValue *result) {
  const BpGraphVariant *variant = &content->targets[0];
  BpDevice devices[BP_PLACES_MAX];
  size_t num_devices;
  BpModule *code = bp_module_get_import(content->factory, 0);
  if (!code || bp__graph_read_devices(args, num_args, devices, &num_devices) < 0)
    return -1;
  BpModule *executor =
      bp__graph_executor_create(variant->graph_json, code, devices, num_devices, is_debug);
  if (!executor)
    return -1;
  for (uint32_t i = 0; i < variant->num_params; i++)
    if (bp__graph_executor_load(executor, variant->param_names[i],
                                content->tensors[variant->param_tensors[i]]) < 0) {
      bp_object_release(executor);
      return bp_error_add_context("parameter '%s'", variant->param_names[i]);
    }
  give_module(result, executor);
  return 0;
}

/* The module's context, to which a method is bound and which the method keeps alive. */
static const BpGraphContent *content_of(void *closure) {
  return ((BpClosure *)closure)->context;
}

static int create(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  return create_executor(content_of(closure), args, num_args, 0, result);
}

/* The method debug_create: as `create`, with the function's name as an argument before the
 * devices. */
static int debug_create(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpGraphContent *content = content_of(closure);
  BpByteArray name;
  if (num_args < 1)
    return bp_error_raise(BP_ERROR_TYPE, "debug_create takes a name and devices");
  if (bp_value_view_str(&args[0], &name) < 0)
    return -1;
  if (strlen(content->factory_name) != name.size ||
      memcmp(content->factory_name, name.data, name.size) != 0)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "the library has the graph '%s', not '%.*s'",
                          content->factory_name, (int)name.size, name.data);
  return create_executor(content, args + 1, num_args - 1, 1, result);
}

static int get_graph_json(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpGraphContent *content = content_of(closure);
  const char *json = content->targets[0].graph_json;
  (void)args;
  return no_arguments("get_graph_json", num_args) < 0
             ? -1
             : bp_value_make_str(result, json, strlen(json));
}

/* The method get_graph_params: returns the bytes of a parameter file. */
static int get_graph_params(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpGraphContent *content = content_of(closure);
  const BpGraphVariant *variant = &content->targets[0];
  BpOwnedBytes bytes;
  (void)args;
  if (no_arguments("get_graph_params", num_args) < 0 ||
      bp_params_encode((const char *const *)variant->param_names, content->tensors,
                       content->num_tensors, &bytes) < 0)
    return -1;
  int status = bp_value_make_bytes(result, bytes.data, bytes.size);
  bp_owned_bytes_clear(&bytes);
  return status;
}

static BpGraphContent *create_content(const char *json, const char *name, uint32_t num_params) {
  BpGraphContent *content = bp__graph_content_create(1, num_params);
  if (!content || bp__graph_variant_create_params(&content->targets[0], num_params) < 0) {
    bp__graph_content_free(content);
    return NULL;
  }
  content->targets[0].graph_json = strdup(json);
  content->factory_name = strdup(name);
  if (content->targets[0].graph_json && content->factory_name)
    return content;
  bp__graph_content_free(content);
  bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph");
  return NULL;
}

static BpModule *create_with_code(BpGraphContent *content, BpModule *code) {
  BpModule *module = create_module(content);
  if (module && bp_module_import(module, code) == 0)
    return module;
  bp_object_release(module);
  return NULL;
}

static int remove_params(void *closure, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpGraphContent *content = content_of(closure);
  (void)args;
  BpModule *code = bp_module_get_import(content->factory, 0);
  if (!code || no_arguments("remove_params", num_args) < 0)
    return -1;
  BpGraphContent *bare = create_content(content->targets[0].graph_json, content->factory_name, 0);
  BpModule *module = bare ? create_with_code(bare, code) : NULL;
  if (!module)
    return -1;
  give_module(result, module);
  return 0;
}

/* ---- The module -------------------------------------------------------------------------- */

static const struct {
  const char *name; /* name of the function; NULL: the name in the library */
  BpPackedCall call;
} methods[] = {
    {NULL, create},
    {"debug_create", debug_create},
    {"get_graph_json", get_graph_json},
    {"get_graph_params", get_graph_params},
    {"remove_params", remove_params},
};
#define NUM_METHODS (sizeof(methods) / sizeof(methods[0]))

static const char *method_name(const BpGraphContent *content, size_t index) {
  return methods[index].name ? methods[index].name : content->factory_name;
}

static int get_function(void *context, const char *name, BpFunction **function) {
  const BpGraphContent *content = context;
  *function = NULL;
  for (size_t i = 0; i < NUM_METHODS; i++) {
    if (strcmp(method_name(content, i), name) != 0)
      continue;
    *function = bp_module_function_create(content->factory, methods[i].call, context, NULL);
    return *function ? 0 : -1;
  }
  return 0;
}

static int visit_functions(void *context,
                           int32_t (*visit)(void *visitor, const char *name, const char *signature),
                           void *visitor) {
  for (size_t i = 0; i < NUM_METHODS; i++)
    if (visit(visitor, method_name(context, i), NULL))
      break;
  return 0;
}

static int get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE;
  return 0;
}

static void destroy(void *context) {
  bp__graph_content_free(context);
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = BP_FACTORY_KIND,
    .get_function = get_function,
    .get_property = get_property,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

/* Makes a module of a content, which it takes over even on failure. */
static BpModule *create_module(BpGraphContent *content) {
  BpModule *module = bp_module_create(&api, content);
  if (module)
    content->factory = module;
  return module;
}

const BpGraphContent *bp__factory_content(BpModule *module) {
  return bp_module_get_context(module, &api);
}

/* ---- Files ------------------------------------------------------------------------------- */

static int no_file(const char *path, const GError *error) {
  return bp_error_raise(BP_ERROR_IO, "cannot read \"%s\": %s", path, error->message);
}

/* Fails unless a path is a regular file: a device file may be endless, and opening a FIFO may
 * block. */
static int check_regular(const char *path) {
  struct stat status;
  if (stat(path, &status) || S_ISREG(status.st_mode))
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot read \"%s\": it is not a regular file", path);
}

typedef struct Params {
  char **names;
  BpTensor **tensors;
  uint32_t count;
} Params;

static void clear_params(Params *params) {
  for (uint32_t i = 0; i < params->count; i++) {
    free(params->names[i]);
    bp_object_release(params->tensors[i]);
  }
  free(params->names);
  free(params->tensors);
}

static int add_param(void *context, const char *name, BpTensor *tensor) {
  Params *params = context;
  size_t count = (size_t)params->count + 1;
  char **names = realloc(params->names, count * sizeof(*names));
  if (names)
    params->names = names;
  BpTensor **tensors = realloc(params->tensors, count * sizeof(*tensors));
  if (tensors)
    params->tensors = tensors;
  char *copy = names && tensors ? strdup(name) : NULL;
  if (!copy)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for parameter '%s'", name);
  names[params->count] = copy;
  tensors[params->count++] = bp_object_retain(tensor);
  return 0;
}

static int read_params_file(const char *path, Params *params) {
  GError *error = NULL;
  if (path && check_regular(path))
    return -1;
  GMappedFile *file = path ? g_mapped_file_new(path, FALSE, &error) : NULL;
  if (!file) {
    int status = path ? no_file(path, error) : 0;
    g_clear_error(&error);
    return status;
  }
  const BpByteArray bytes = {g_mapped_file_get_contents(file), g_mapped_file_get_length(file)};
  int status = bp_params_decode(&bytes, add_param, params);
  g_mapped_file_unref(file);
  return status < 0 ? bp_error_add_context("%s", path) : 0;
}

static char *read_graph_file(const char *path) {
  char *json;
  gsize size;
  GError *error = NULL;
  if (check_regular(path))
    return NULL;
  if (!g_file_get_contents(path, &json, &size, &error)) {
    no_file(path, error);
    g_error_free(error);
    return NULL;
  }
  if (strlen(json) == size)
    return json;
  g_free(json);
  bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is no graph: it holds a zero byte", path);
  return NULL;
}

/* Makes a content from the files of a graph. */
static BpGraphContent *read_parts(const char *graph_path, const char *params_path) {
  Params params = {NULL, NULL, 0};
  BpGraphContent *content = NULL;
  char *json = read_graph_file(graph_path);
  if (json && read_params_file(params_path, &params) == 0)
    content = create_content(json, DEFAULT_NAME, params.count);
  for (uint32_t i = 0; content && i < params.count; i++) {
    content->targets[0].param_names[i] = params.names[i];
    content->targets[0].param_tensors[i] = i;
    content->tensors[i] = params.tensors[i];
  }
  if (content)
    params.count = 0; /* the content owns the parameters now */
  clear_params(&params);
  g_free(json);
  /* A file without a graph is rejected before any code is loaded. */
  if (content && !bp__graph_variant_graph(&content->targets[0])) {
    bp_error_add_context("%s", graph_path);
    bp__graph_content_free(content);
    return NULL;
  }
  return content;
}

BpModule *bp_model_open_parts(const char *graph_path, const char *library_path,
                              const char *params_path) {
  if (!BP_NOT_NULL(graph_path) || !BP_NOT_NULL(library_path) || bp_graph_initialize() < 0)
    return NULL;
  BpGraphContent *content = read_parts(graph_path, params_path);
  BpModule *code = content ? bp_module_load(library_path) : NULL;
  BpModule *module = NULL;
  if (code)
    module = create_with_code(content, code);
  else
    bp__graph_content_free(content);
  bp_object_release(code);
  return module;
}

/* ---- Files that belong together ---------------------------------------------------------- */

/* Finds the only file in `folder` with an extension (transfer full in *path, g_free; NULL if none
 * has it). For several files, the error tells how to choose. */
static int find_only(const char *folder, const char *extension, const char *advice, char **path) {
  GError *error = NULL;
  GDir *dir = g_dir_open(folder, 0, &error);
  const char *name;
  int status = 0;
  *path = NULL;
  if (!dir) {
    status = no_file(folder, error);
    g_error_free(error);
    return status;
  }
  while (status == 0 && (name = g_dir_read_name(dir))) {
    if (!g_str_has_suffix(name, extension))
      continue;
    if (*path)
      status = bp_error_raise(BP_ERROR_VALUE, "\"%s\" has several files %s; %s", folder, extension,
                              advice);
    else
      *path = g_build_filename(folder, name, NULL);
  }
  g_dir_close(dir);
  if (status < 0)
    g_clear_pointer(path, g_free);
  return status;
}

/* Finds the file beside a graph that has the graph's name, or else the only file with an
 * extension. */
static int find_beside(const char *graph_path, const char *extension, char **path) {
  size_t stem = strlen(graph_path);
  if (g_str_has_suffix(graph_path, ".json"))
    stem -= strlen(".json");
  *path = g_strdup_printf("%.*s%s", (int)stem, graph_path, extension);
  if (g_file_test(*path, G_FILE_TEST_EXISTS))
    return 0;
  g_free(*path);
  char *folder = g_path_get_dirname(graph_path);
  int status = find_only(folder, extension, "give the graph's files one by one", path);
  g_free(folder);
  return status;
}

/* The global function runtime.module.loadfile_json (path, extension). */
static int load_from_file(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray view;
  (void)self;
  if (num_args < 1)
    return bp_error_raise(BP_ERROR_TYPE, "runtime.module.loadfile_json takes the path of a graph");
  if (bp_value_view_str(&args[0], &view) < 0)
    return -1;
  char *path = g_strndup(view.data, view.size), *library = NULL, *params = NULL;
  BpModule *module = NULL;
  if (find_beside(path, ".so", &library) == 0 && find_beside(path, ".params", &params) == 0) {
    if (library)
      module = bp_model_open_parts(path, library, params);
    else
      bp_error_raise(BP_ERROR_NOT_FOUND,
                     "there is no library (.so) beside the graph \"%s\"; put it there, or give it",
                     path);
  }
  g_free(path);
  g_free(library);
  g_free(params);
  if (!module)
    return -1;
  give_module(result, module);
  return 0;
}

/* The path of the graph in a folder that is opened as a model (transfer full); NULL with an
 * error. */
static char *find_graph(const char *folder) {
  char *path;
  if (find_only(folder, ".json", "give the path of the graph", &path) == 0 && !path)
    bp_error_raise(BP_ERROR_NOT_FOUND,
                   "the folder \"%s\" has no graph (.json); give the path of a library", folder);
  return path;
}

/* A kind of file, which its first bytes identify. */
typedef struct FileKind {
  size_t at;
  const char *magic;
  const char *name;
  gboolean is_archive; /* a kind of archive that TVM's tools make */
} FileKind;

static const FileKind file_kinds[] = {
    {257, "ustar", "a tar archive", TRUE},
    {0, "\x1f\x8b", "compressed (gzip)", TRUE},
    {0, "PK\3\4", "a zip archive", TRUE},
    {0,
     "\x7f"
     "ELF",
     "a program, a library or an object file (ELF)", FALSE},
    {0, "\x89PNG", "a picture (PNG)", FALSE},
    {0, "\xff\xd8\xff", "a picture (JPEG)", FALSE},
    {0, "GIF8", "a picture (GIF)", FALSE},
    {0, "\x93NUMPY", "an array (.npy)", FALSE},
    {0, "GGUF", "a file in GGUF's form", FALSE},
    {0, "\x89HDF", "a file in HDF5's form", FALSE},
    {4, "TFL3", "a file in TensorFlow Lite's form", FALSE},
};
static const FileKind text_kind = {0, "", "text", FALSE}, other_kind = {0, "", "", FALSE};

/* Whether the first bytes look like text in ASCII or UTF-8. */
static gboolean is_text(const char *begin, size_t size) {
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)begin[i] < ' ' && !memchr("\t\n\r\f", begin[i], 4))
      return FALSE;
  return size > 0;
}

static const FileKind *find_file_kind(const char *path) {
  char begin[262] = "";
  FILE *file = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "rb") : NULL;
  size_t size = file ? fread(begin, 1, sizeof(begin), file) : 0;
  if (file)
    fclose(file);
  for (size_t i = 0; i < G_N_ELEMENTS(file_kinds); i++) {
    const FileKind *kind = &file_kinds[i];
    size_t length = strlen(kind->magic);
    if (size >= kind->at + length && !memcmp(begin + kind->at, kind->magic, length))
      return kind;
  }
  return is_text(begin, size) ? &text_kind : &other_kind;
}

static void raise_archive(const char *path, const FileKind *kind) {
  bp_error_raise(
      BP_ERROR_VALUE,
      "\"%s\" is %s: unpack it first, and give the folder with its graph (.json), library "
      "(.so) and parameters (.params), or the library alone if it has no graph. Are there object "
      "files (.o) instead, as TVM's export_library puts into a .tar, export a .so, or link them: "
      "cc -shared -o NAME.so *.o",
      path, kind->name);
}

/* Adds the expected kinds of files to the error of a file that was read but not accepted. */
static void add_expectation(const char *path, const FileKind *kind) {
  if (g_str_has_suffix(path, ".onnx"))
    bp_error_add_context("\"%s\" is to be compiled first: `backplane compile`, bp_model_compile() "
                         "and Python's backplane.compile() make a library of it",
                         path);
  else if (!g_str_has_suffix(path, ".so") && !g_str_has_suffix(path, ".json"))
    bp_error_add_context("\"%s\" is %s%sno model: a model is an .onnx file, a library (.so) that "
                         "was compiled, or a graph (.json) or folder of TVM's",
                         path, kind->name, *kind->name ? ", and " : "");
}

/* Opens a file: a library, a graph, or a file that a plugin loads. */
static BpModule *open_file(const char *path) {
  if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
    bp_error_raise(BP_ERROR_IO, "cannot open \"%s\": %s", path, g_strerror(ENOENT));
    return NULL;
  }
  const FileKind *kind = find_file_kind(path);
  if (kind->is_archive) {
    raise_archive(path, kind);
    return NULL;
  }
  BpModule *module = bp_module_load(path);
  if (!module && !bp_error_is(BP_ERROR_IO))
    add_expectation(path, kind);
  return module;
}

BpModule *bp_model_open(const char *path) {
  if (!BP_NOT_NULL(path) || bp_graph_initialize() < 0)
    return NULL;
  if (!g_file_test(path, G_FILE_TEST_IS_DIR))
    return open_file(path);
  char *graph = find_graph(path);
  BpModule *module = graph ? bp_module_load(graph) : NULL;
  g_free(graph);
  return module;
}

/* ---- Loaders ----------------------------------------------------------------------------- */

static int load_from_bytes(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)self;
  if (num_args < 1 || bp_value_view_str(&args[0], &bytes) < 0)
    return bp_error_raise(BP_ERROR_TYPE, "the loader of " BP_FACTORY_KIND " takes bytes");
  BpStreamReader reader = {bytes.data, bytes.size, 0, "the graph in the library", NULL};
  BpGraphContent *content = read_content(&reader);
  BpModule *module = content ? create_module(content) : NULL;
  if (!module)
    return -1;
  give_module(result, module);
  return 0;
}

int bp__factory_register(void) {
  return bp__graph_register("runtime.module.loadbinary_" BP_FACTORY_KIND, load_from_bytes) < 0
             ? -1
             : bp__graph_register("runtime.module.loadfile_json", load_from_file);
}
