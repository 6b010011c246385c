/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the library blob. */

#include "core/module/blob.h"

#include "core/module/load.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Reads a list of numbers into allocated memory, because the stream is not aligned. */
static uint64_t *read_numbers(BpReader *reader, uint64_t *count, const char *item) {
  const char *items;
  if (bp__read_list(reader, sizeof(uint64_t), count, &items, item))
    return NULL;
  uint64_t *numbers = malloc((size_t)*count * sizeof *numbers + 1);
  if (numbers)
    memcpy(numbers, items, (size_t)*count * sizeof *numbers);
  else
    bp_error_raise(BP_ERROR_MEMORY, "no memory for %s of %s", item, reader->what);
  return numbers;
}

static int check_tree(const BpReader *reader, const BpBlob *blob, uint64_t num_children) {
  if (blob->indptr[0] != 0 || blob->indptr[blob->num_modules] != num_children)
    return bp__read_damaged(reader, "its import tree does not cover its list of imports");
  for (size_t i = 0; i < blob->num_modules; ++i)
    if (blob->indptr[i] > blob->indptr[i + 1])
      return bp__read_damaged(reader, "its import tree goes backwards");
  for (uint64_t i = 0; i < num_children; ++i)
    if (blob->child_indices[i] >= blob->num_modules)
      return bp__read_damaged(reader, "a module imports a module that the blob lacks");
  int acyclic = bp__blob_is_acyclic(blob->indptr, blob->child_indices, blob->num_modules);
  if (acyclic == 0)
    return bp__read_damaged(reader, "its modules import each other in a cycle");
  return acyclic < 0 ? -1 : 0;
}

int bp__blob_read_tree(BpReader *reader, BpBlob *blob) {
  uint64_t num_rows, num_children;
  if (!(blob->indptr = read_numbers(reader, &num_rows, "the import tree")) ||
      !(blob->child_indices = read_numbers(reader, &num_children, "the list of imports")))
    return -1;
  if (num_rows < 2 || num_rows - 1 > BP_BLOB_MOST_MODULES)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "%s is damaged: its import tree has %" PRIu64
                          " rows, and 2 to %d are possible; make it again",
                          reader->what, num_rows, BP_BLOB_MOST_MODULES + 1);
  blob->num_modules = (size_t)num_rows - 1;
  return check_tree(reader, blob, num_children);
}

static int read_modules(BpReader *reader, BpBlob *blob) {
  size_t num_libraries = 0;
  blob->kinds = calloc(blob->num_modules, sizeof *blob->kinds);
  blob->bytes = calloc(blob->num_modules, sizeof *blob->bytes);
  if (!blob->kinds || !blob->bytes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the %zu modules of %s", blob->num_modules,
                          reader->what);
  for (size_t i = 0; i < blob->num_modules; ++i) {
    if (bp__read_string(reader, &blob->kinds[i], "a module's kind"))
      return -1;
    if (bp__blob_is_library(blob, i))
      ++num_libraries;
    else if (bp__read_string(reader, &blob->bytes[i], "a module's bytes"))
      return -1;
  }
  if (num_libraries > 1)
    return bp__read_damaged(reader, "it lists the library itself more than once");
  return bp__read_end(reader);
}

int bp__blob_parse(BpBlob *blob, const BpByteArray *stream, const char *what) {
  BpReader reader = {stream->data, stream->size, 0, what};
  *blob = (BpBlob){0};
  if (!bp__blob_read_tree(&reader, blob) && !read_modules(&reader, blob))
    return 0;
  bp__blob_clear(blob);
  return -1;
}

void bp__blob_clear(BpBlob *blob) {
  free(blob->indptr);
  free(blob->child_indices);
  free(blob->kinds);
  free(blob->bytes);
  *blob = (BpBlob){0};
}

int bp__blob_is_library(const BpBlob *blob, size_t index) {
  const BpByteArray *kind = &blob->kinds[index];
  return kind->size == sizeof BP_BLOB_LIBRARY_KIND - 1 &&
         !memcmp(kind->data, BP_BLOB_LIBRARY_KIND, kind->size);
}

/* Repeatedly removes the modules that no remaining module imports; `pending` counts the importers
 * of each, `queue` holds the modules to remove. */
static int all_can_be_taken(const uint64_t *indptr, const uint64_t *child_indices,
                            size_t num_modules, uint64_t *pending, uint64_t *queue) {
  size_t queued = 0, taken = 0;
  for (uint64_t i = 0; i < indptr[num_modules]; ++i)
    ++pending[child_indices[i]];
  for (size_t i = 0; i < num_modules; ++i)
    if (!pending[i])
      queue[queued++] = i;
  for (; taken < queued; ++taken)
    for (uint64_t i = indptr[queue[taken]]; i < indptr[queue[taken] + 1]; ++i)
      if (!--pending[child_indices[i]])
        queue[queued++] = child_indices[i];
  return taken == num_modules;
}

int bp__blob_is_acyclic(const uint64_t *indptr, const uint64_t *child_indices, size_t num_modules) {
  uint64_t *memory = calloc(num_modules, 2 * sizeof *memory);
  if (!memory)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to check the imports of %zu modules",
                          num_modules);
  int acyclic = all_can_be_taken(indptr, child_indices, num_modules, memory, memory + num_modules);
  free(memory);
  return acyclic;
}

/* ---- Making the modules ------------------------------------------------------------------ */

static BpModule *load_bytes(const BpBlob *blob, size_t index, const BpByteArray *bytes,
                            BpObject *owner) {
  BpModule *module = NULL;
  char *kind = strndup(blob->kinds[index].data, blob->kinds[index].size);
  if (kind)
    module = bp__module_load_part(kind, bytes, owner, index > 0);
  else
    bp_error_raise(BP_ERROR_MEMORY, "no memory to load a module");
  free(kind);
  return module;
}

/* Many bytes become an object, which exists as long as the bytes are used; a few bytes are valid
 * only during the call. */
static BpModule *load_converted(const BpBlob *blob, size_t index, const BpOwnedBytes *converted) {
  BpValue value;
  BpByteArray bytes;
  if (bp_value_make_bytes(&value, converted->data, converted->size))
    return NULL;
  BpObject *owner = value.type_index >= BP_TYPE_OBJECT ? value.v_obj : NULL;
  BpModule *module =
      bp_value_view_str(&value, &bytes) ? NULL : load_bytes(blob, index, &bytes, owner);
  bp_value_clear(&value);
  return module;
}

static BpModule *load_entry(const BpBlob *blob, size_t index, BpModule *library, BpObject *owner) {
  if (bp__blob_is_library(blob, index))
    return bp_object_retain(library);
  BpOwnedBytes converted = {0};
  int is_converted =
      blob->convert ? blob->convert(&blob->kinds[index], &blob->bytes[index], &converted) : 0;
  if (is_converted < 0)
    return NULL;
  if (!is_converted)
    return load_bytes(blob, index, &blob->bytes[index], owner);
  BpModule *module = load_converted(blob, index, &converted);
  bp_owned_bytes_clear(&converted);
  return module;
}

static int link_imports(const BpBlob *blob, BpModule **modules) {
  for (size_t i = 0; i < blob->num_modules; ++i)
    for (uint64_t k = blob->indptr[i]; k < blob->indptr[i + 1]; ++k)
      if (bp_module_import(modules[i], modules[blob->child_indices[k]]))
        return -1;
  return 0;
}

static void release_modules(BpModule **modules, size_t count) {
  for (size_t i = 0; i < count; ++i)
    bp_object_release(modules[i]);
  free(modules);
}

BpModule *bp__blob_load(const BpBlob *blob, BpModule *library, BpObject *owner) {
  BpModule **modules = calloc(blob->num_modules, sizeof(BpModule *));
  BpModule *root = NULL;
  size_t loaded = 0;
  if (!modules) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory to load %zu modules", blob->num_modules);
    return NULL;
  }
  while (loaded < blob->num_modules && (modules[loaded] = load_entry(blob, loaded, library, owner)))
    ++loaded;
  if (loaded == blob->num_modules && !link_imports(blob, modules))
    root = bp_object_retain(modules[0]);
  release_modules(modules, loaded);
  return root;
}
