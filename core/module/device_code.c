/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a device module, in tvm-ffi's form: a format name; a count and, for each kernel, its
 * key, its name, a list of argument data types (4 bytes each), a list of launch tags (strings) and
 * a list of extra argument tags (int32); the code. */

#include "core/module/bytes.h"
#include "core/registry/argument.h"

#include <backplane/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Copies a name, which must be text, with a NUL at its end. */
static char *copy_name(BpReader *reader, const BpByteArray *view, const char *item) {
  if (!view->size || memchr(view->data, '\0', view->size)) {
    bp_error_raise(BP_ERROR_FORMAT,
                   "%s is damaged: %s before byte %zu is not a name; make it again", reader->what,
                   item, reader->at);
    return NULL;
  }
  char *copy = strndup(view->data, view->size);
  if (!copy)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for %s", item);
  return copy;
}

static int read_name(BpReader *reader, char **name, const char *item) {
  BpByteArray view;
  if (bp__read_string(reader, &view, item))
    return -1;
  *name = copy_name(reader, &view, item);
  return *name ? 0 : -1;
}

/* A kernel being read; owns copies of parts that are not aligned or terminated in the bytes. */
typedef struct Kernel {
  char *key;
  char *name;
  BpDataType *arg_dtypes;
  int32_t num_args;
  int32_t num_tags;
  char **tags;
} Kernel;

static void free_kernel(Kernel *kernel) {
  free(kernel->key);
  free(kernel->name);
  free(kernel->arg_dtypes);
  for (int32_t i = 0; i < kernel->num_tags; ++i)
    free(kernel->tags[i]);
  free(kernel->tags);
}

static int check_count(const BpReader *reader, uint64_t count, const char *item) {
  if (count <= INT32_MAX)
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT, "%s is damaged: %" PRIu64 " %s are too many", reader->what,
                        count, item);
}

static int read_arg_dtypes(BpReader *reader, Kernel *kernel) {
  uint64_t count;
  const char *items;
  if (bp__read_list(reader, sizeof(BpDataType), &count, &items, "the argument types") ||
      check_count(reader, count, "argument types"))
    return -1;
  kernel->arg_dtypes = malloc((size_t)count * sizeof(BpDataType) + 1);
  if (!kernel->arg_dtypes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %" PRIu64 " argument types", count);
  memcpy(kernel->arg_dtypes, items, (size_t)count * sizeof(BpDataType));
  kernel->num_args = (int32_t)count;
  return 0;
}

static int read_tags(BpReader *reader, Kernel *kernel) {
  uint64_t count;
  if (bp__read_count(reader, sizeof(uint64_t), &count, "the launch tags") ||
      check_count(reader, count, "launch tags"))
    return -1;
  kernel->tags = calloc((size_t)count + 1, sizeof *kernel->tags);
  if (!kernel->tags)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %" PRIu64 " launch tags", count);
  while (kernel->num_tags < (int32_t)count) {
    if (read_name(reader, &kernel->tags[kernel->num_tags], "a launch tag"))
      return -1;
    ++kernel->num_tags;
  }
  return 0;
}

/* Extra tags ask for special arguments (tensor maps), which BpKernelInfo cannot express. */
static int read_extra_tags(BpReader *reader, const Kernel *kernel) {
  uint64_t count;
  const char *items;
  if (bp__read_list(reader, sizeof(int32_t), &count, &items, "the extra argument tags"))
    return -1;
  for (size_t i = 0; i < count * sizeof(int32_t); ++i)
    if (items[i])
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "kernel \"%s\" of %s takes an argument of a special kind (extra tag), "
                            "which is not supported; compile it without",
                            kernel->name, reader->what);
  return 0;
}

static int read_kernel(BpReader *reader, Kernel *kernel) {
  if (read_name(reader, &kernel->key, "a kernel's key") ||
      read_name(reader, &kernel->name, "a kernel's name") || read_arg_dtypes(reader, kernel) ||
      read_tags(reader, kernel) || read_extra_tags(reader, kernel))
    return -1;
  if (!strcmp(kernel->key, kernel->name))
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT, "%s is damaged: kernel \"%s\" is listed as \"%s\"",
                        reader->what, kernel->name, kernel->key);
}

static int decode_kernel(BpReader *reader, int32_t (*visit)(void *, const BpKernelInfo *),
                         void *context) {
  Kernel kernel = {0};
  int rc = read_kernel(reader, &kernel);
  if (!rc) {
    BpKernelInfo info = {.struct_size = sizeof info,
                         .name = kernel.name,
                         .arg_dtypes = kernel.arg_dtypes,
                         .num_args = kernel.num_args,
                         .num_launch_tags = kernel.num_tags,
                         .launch_tags = (const char *const *)kernel.tags};
    rc = visit(context, &info) ? -1 : 0;
  }
  free_kernel(&kernel);
  return rc;
}

/* The fewest bytes of a kernel: two strings and three lists, all empty. */
#define KERNEL_MIN_SIZE (5 * sizeof(uint64_t))

int bp__device_code_decode(const BpByteArray *bytes, BpByteArray *format,
                           int32_t (*visit)(void *context, const BpKernelInfo *kernel),
                           void *context, BpByteArray *code) {
  if (!BP_NOT_NULL(bytes) || !BP_NOT_NULL(format) || !BP_NOT_NULL(visit) || !BP_NOT_NULL(code))
    return -1;
  BpReader reader = {bytes->data, bytes->size, 0, "a device module"};
  uint64_t count;
  if (bp__read_string(&reader, format, "the format") ||
      bp__read_count(&reader, KERNEL_MIN_SIZE, &count, "the function table"))
    return -1;
  for (uint64_t i = 0; i < count; ++i)
    if (decode_kernel(&reader, visit, context))
      return -1;
  return bp__read_string(&reader, code, "the code") || bp__read_end(&reader) ? -1 : 0;
}
