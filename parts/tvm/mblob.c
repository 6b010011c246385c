/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the blob of libraries of TVM up to 0.19. The length of a record is not stored; it follows
 * from the record's kind. */

#include "parts/tvm/mblob.h"

#include "core/registry/registry.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT_TREE_KIND "_import_tree"
#define ARRAY_MAGIC      0xDD5E40F096B4A13Full
#define MOST_DIMENSIONS  32

static int is_kind(const BpByteArray *kind, const char *name) {
  return kind->size == strlen(name) && !memcmp(kind->data, name, kind->size);
}

/* ---- Skipping records -------------------------------------------------------------------- */

static int skip_strings(BpReader *reader, const char *item) {
  uint64_t count;
  BpByteArray text;
  if (bp__read_count(reader, sizeof(uint64_t), &count, item))
    return -1;
  for (uint64_t i = 0; i < count; ++i)
    if (bp__read_string(reader, &text, item))
      return -1;
  return 0;
}

/* Skips a tensor: magic, reserved, device, ndim, dtype; the shape; the bytes. */
typedef struct ArrayHead {
  uint64_t magic;
  uint64_t reserved;
  BpDevice device;
  int32_t ndim;
  BpDataType dtype;
} ArrayHead;

static int skip_array(BpReader *reader) {
  ArrayHead head;
  const char *data;
  BpByteArray contents;
  if (bp__read_raw(reader, sizeof head, &data, "the head of an array"))
    return -1;
  memcpy(&head, data, sizeof head);
  if (head.magic != ARRAY_MAGIC)
    return bp__read_damaged(reader, "an array without its magic number");
  if (head.ndim < 0 || head.ndim > MOST_DIMENSIONS)
    return bp__read_damaged(reader, "an array with an impossible number of dimensions");
  if (bp__read_raw(reader, (size_t)head.ndim * sizeof(int64_t), &data, "the shape of an array"))
    return -1;
  return bp__read_string(reader, &contents, "the data of an array");
}

static int skip_arrays(BpReader *reader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (skip_array(reader))
      return -1;
  return 0;
}

static int skip_factory(BpReader *reader) {
  BpByteArray text;
  uint64_t count;
  if (bp__read_string(reader, &text, "the graph") ||
      bp__read_count(reader, sizeof(ArrayHead), &count, "the parameters") ||
      skip_strings(reader, "the parameters' names") || skip_arrays(reader, count))
    return -1;
  return bp__read_string(reader, &text, "the name of the graph's module");
}

static int skip_constants(BpReader *reader) {
  uint64_t count;
  if (skip_strings(reader, "the constants' names") ||
      bp__read_count(reader, sizeof(ArrayHead), &count, "the constants") ||
      skip_arrays(reader, count) || skip_strings(reader, "the symbols with constants") ||
      bp__read_count(reader, sizeof(uint64_t), &count, "the constants of symbols"))
    return -1;
  for (uint64_t i = 0; i < count; ++i)
    if (skip_strings(reader, "the constants of a symbol"))
      return -1;
  return 0;
}

/* ---- Device code ------------------------------------------------------------------------- */

/* Reads an entry of the function table. If there is a writer, writes the entry in the current form:
 * an empty name is replaced by the key, and a list of extra tags follows. */
static int read_kernel(BpReader *reader, BpWriter *writer) {
  BpByteArray key, name;
  uint64_t num_args;
  const char *dtypes;
  if (bp__read_string(reader, &key, "a kernel's key") ||
      bp__read_string(reader, &name, "a kernel's name") ||
      bp__read_list(reader, sizeof(BpDataType), &num_args, &dtypes, "a kernel's argument types"))
    return -1;
  size_t tags_at = reader->at;
  if (skip_strings(reader, "a kernel's launch tags"))
    return -1;
  if (!writer)
    return 0;
  bp__write_string(writer, key.data, key.size);
  bp__write_string(writer, name.size ? name.data : key.data, name.size ? name.size : key.size);
  bp__write_u64(writer, num_args);
  bp__write_raw(writer, dtypes, (size_t)num_args * sizeof(BpDataType));
  bp__write_raw(writer, reader->data + tags_at, reader->at - tags_at);
  bp__write_u64(writer, 0);
  return 0;
}

static int read_device_code(BpReader *reader, BpWriter *writer) {
  BpByteArray format, code;
  uint64_t count;
  if (bp__read_string(reader, &format, "the format of device code") ||
      bp__read_count(reader, 4 * sizeof(uint64_t), &count, "the function table of device code"))
    return -1;
  if (writer) {
    bp__write_string(writer, format.data, format.size);
    bp__write_u64(writer, count);
  }
  for (uint64_t i = 0; i < count; ++i)
    if (read_kernel(reader, writer))
      return -1;
  if (bp__read_string(reader, &code, "device code"))
    return -1;
  if (writer)
    bp__write_string(writer, code.data, code.size);
  return 0;
}

/* ---- Records ----------------------------------------------------------------------------- */

static const struct {
  const char *kind;
  int (*skip)(BpReader *reader);
} record_kinds[] = {
    {"GraphExecutorFactory", skip_factory},
    {"const_loader", skip_constants},
    {"metadata", skip_constants},
};
#define NUM_RECORD_KINDS (sizeof record_kinds / sizeof *record_kinds)

/* TVM 0.7 has another name for the same kind. */
static void take_todays_name(BpByteArray *kind) {
  static const char today[] = "GraphExecutorFactory";
  if (is_kind(kind, "GraphRuntimeFactory"))
    *kind = (BpByteArray){today, sizeof today - 1};
}

/* Returns the function that skips the payload of a kind; NULL: the payload is device code. */
static int (*find_skip(const BpByteArray *kind))(BpReader *reader) {
  for (size_t i = 0; i < NUM_RECORD_KINDS; ++i)
    if (is_kind(kind, record_kinds[i].kind))
      return record_kinds[i].skip;
  return NULL;
}

static int convert(const BpByteArray *kind, const BpByteArray *record, BpOwnedBytes *bytes) {
  if (find_skip(kind))
    return 0;
  BpReader reader = {record->data, record->size, 0, "a device module"};
  BpWriter writer = {0};
  if (!read_device_code(&reader, &writer))
    return bp__write_finish(&writer, bytes) ? -1 : 1;
  free(writer.data);
  return -1;
}

/* Refuses modules for unsupported ways of running a model, and says how to compile instead. */
static int check_supported(const BpReader *reader, const BpByteArray *kind) {
  static const char *const refused[][2] = {
      {"VMExecutable", "a model for Relay's virtual machine; compile it with relay.build, which "
                       "makes a graph"},
      {"AotExecutorFactory", "a model for the ahead-of-time executor; compile it with "
                             "relay.build(..., executor=Executor(\"graph\"))"},
      {"relax.Executable", "a Relax model of TVM 0.19 or older; compile it with TVM 0.20 or newer"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    if (is_kind(kind, refused[i][0]))
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s holds a module of kind \"%s\", %s",
                            reader->what, refused[i][0], refused[i][1]);
  return 0;
}

static int skip_record(BpReader *reader, const BpByteArray *kind) {
  int (*skip)(BpReader *) = find_skip(kind);
  if (skip)
    return skip(reader);
  if (check_supported(reader, kind))
    return -1;
  if (!read_device_code(reader, NULL))
    return 0;
  return bp_error_add_context(
      "its module of kind \"%.*s\" is read as device code of TVM 0.19 or "
      "older, which beside graphs is all that runs here; if it is of an "
      "external code generator, build the model without partitioning for it",
      kind->size < 64 ? (int)kind->size : 64, kind->data);
}

static int read_record(BpReader *reader, BpBlob *blob, size_t *count, int *has_tree) {
  BpByteArray kind;
  if (bp__read_string(reader, &kind, "a module's kind"))
    return -1;
  take_todays_name(&kind);
  if (is_kind(&kind, IMPORT_TREE_KIND)) {
    if (*has_tree)
      return bp__read_damaged(reader, "a second import tree");
    *has_tree = 1;
    return bp__blob_read_tree(reader, blob);
  }
  size_t begin = reader->at;
  if (!is_kind(&kind, BP_BLOB_LIBRARY_KIND) && skip_record(reader, &kind))
    return -1;
  blob->kinds[*count] = kind;
  blob->bytes[(*count)++] = (BpByteArray){reader->data + begin, reader->at - begin};
  return 0;
}

/* Without a tree, the library is the first node and all modules are its imports. */
static int add_tree(BpBlob *blob, size_t *count) {
  size_t at = 0;
  while (at < *count && !bp__blob_is_library(blob, at))
    ++at;
  *count += at == *count;
  blob->num_modules = *count;
  memmove(blob->kinds + 1, blob->kinds, at * sizeof *blob->kinds);
  memmove(blob->bytes + 1, blob->bytes, at * sizeof *blob->bytes);
  blob->kinds[0] = (BpByteArray){BP_BLOB_LIBRARY_KIND, sizeof BP_BLOB_LIBRARY_KIND - 1};
  blob->bytes[0] = (BpByteArray){"", 0};
  blob->indptr = calloc(blob->num_modules + 1, sizeof *blob->indptr);
  blob->child_indices = calloc(blob->num_modules, sizeof *blob->child_indices);
  if (!blob->indptr || !blob->child_indices)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the imports of %zu modules",
                          blob->num_modules);
  for (size_t i = 1; i <= blob->num_modules; ++i)
    blob->indptr[i] = blob->num_modules - 1;
  for (size_t i = 1; i < blob->num_modules; ++i)
    blob->child_indices[i - 1] = i;
  return 0;
}

static int check_modules(const BpReader *reader, const BpBlob *blob, size_t count) {
  size_t num_libraries = 0;
  if (blob->num_modules != count)
    return bp__read_damaged(reader, "an import tree of another number of modules");
  for (size_t i = 0; i < count; ++i)
    num_libraries += (size_t)bp__blob_is_library(blob, i);
  return num_libraries > 1 ? bp__read_damaged(reader, "the library itself more than once") : 0;
}

static int read_records(BpReader *reader, BpBlob *blob) {
  uint64_t num_records;
  size_t count = 0;
  int has_tree = 0;
  if (bp__read_count(reader, sizeof(uint64_t), &num_records, "the modules"))
    return -1;
  if (num_records > BP_BLOB_MOST_MODULES)
    return bp__read_damaged(reader, "too many modules");
  /* The library itself counts as one more module. */
  blob->kinds = calloc((size_t)num_records + 1, sizeof *blob->kinds);
  blob->bytes = calloc((size_t)num_records + 1, sizeof *blob->bytes);
  if (!blob->kinds || !blob->bytes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the %" PRIu64 " modules of %s",
                          num_records, reader->what);
  for (uint64_t i = 0; i < num_records; ++i)
    if (read_record(reader, blob, &count, &has_tree))
      return -1;
  if (bp__read_end(reader) || (!has_tree && add_tree(blob, &count)))
    return -1;
  return check_modules(reader, blob, count);
}

int bp__mblob_parse(BpBlob *blob, const BpByteArray *stream, const char *what) {
  BpReader reader = {stream->data, stream->size, 0, what};
  *blob = (BpBlob){.convert = convert};
  if (!read_records(&reader, blob))
    return 0;
  bp__blob_clear(blob);
  return -1;
}

/* ---- Constants --------------------------------------------------------------------------- */

/* A module between a library and the modules of external code generators; it passes constants to
 * these modules at the first call. */
static int32_t get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static const BpModuleApi const_loader_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "const_loader",
    .get_function = get_function,
    .destroy = destroy,
};

/* The constants are passed as objects of TVM's C++ code, which this code cannot make. */
static int refuse_constants(BpReader *reader) {
  uint64_t count;
  BpByteArray name;
  if (bp__read_count(reader, sizeof(uint64_t), &count, "the constants' names"))
    return -1;
  if (!count)
    return 0;
  return bp__read_string(reader, &name, "a constant's name")
             ? -1
             : bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                              "the library hands constants (\"%.*s\") to code of an external code "
                              "generator, which does not run here; build the model without "
                              "partitioning for it",
                              name.size < 64 ? (int)name.size : 64, name.data);
}

static int load_constants(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)self;
  if (num_args < 1)
    return bp_error_raise(BP_ERROR_TYPE, "the loader of kind const_loader takes bytes");
  if (bp_value_view_str(&args[0], &bytes))
    return -1;
  BpReader reader = {bytes.data, bytes.size, 0, "a module of kind const_loader"};
  BpModule *module = refuse_constants(&reader) ? NULL : bp_module_create(&const_loader_api, NULL);
  if (!module)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)module};
  return 0;
}

int bp__mblob_start(void) {
  return bp__registry_set_call("runtime.module.loadbinary_const_loader", load_constants) ||
                 bp__registry_set_call("runtime.module.loadbinary_metadata", load_constants)
             ? -1
             : 0;
}
