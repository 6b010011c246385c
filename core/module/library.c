/* SPDX-License-Identifier: Apache-2.0 */
/* Library modules: a shared library whose exported functions are the module's functions.
 *
 * A library keeps state in its own variables: the functions that it looked up. Because of this
 * state no two modules share a mapping, nor does a module share a mapping with another host in the
 * process: a file that is already open is opened again from a copy in memory. The library is
 * unmapped with its module, which every function of it keeps alive.
 *
 * A library that calls the host by name (TVMFFIErrorSetRaisedFromCStrParts) is also opened from a
 * copy, in whose symbol table those names have addresses of Backplane's functions. So Backplane
 * need not export the called names to the whole process, where they would replace the names of
 * TVM's own libraries. */

#include "core/module/library.h"

#include "core/module/library_file.h"
#include "core/module/module.h"
#include "core/module/parts.h"
#include "core/registry/argument.h"
#include "core/registry/host.h"
#include "core/registry/names.h"
#include "core/registry/object.h"
#include "core/system/elf.h"
#include "core/system/file.h"
#include "core/system/lock.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A function that the library looked up; it is kept alive for the library. */
typedef struct Found {
  struct Found *next;
  BpFunction *function;
  char name[];
} Found;

typedef struct LibraryModule {
  BpModule *module; /* borrowed: the module owns this structure */
  char *path;
  void *handle;
  int copy_fd;           /* descriptor of the mapped copy, by which debuggers find it; or -1 */
  BpPackedNames exports; /* the text that contains `names` */
  char **names;          /* sorted */
  int is_packed_c;
  char *main_name; /* the name of the entry function (BP_SYMBOL_MAIN), or NULL */
  Found *found;    /* guarded by BP__LOCK_STATE */
} LibraryModule;

static const BpModuleApi library_api, packed_c_api;

/* ---- Mappings ---------------------------------------------------------------------------- */

/* The open handles of library modules. If two threads open a file at once, one of them makes a
 * copy. */
static struct {
  void **handles;
  size_t count;
  size_t capacity;
} open_libraries;

static int add_handle(void *handle) {
  if (open_libraries.count == open_libraries.capacity) {
    size_t capacity = 2 * open_libraries.capacity + 16;
    void **handles = realloc(open_libraries.handles, capacity * sizeof *handles);
    if (!handles)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory to open a library");
    open_libraries.handles = handles;
    open_libraries.capacity = capacity;
  }
  open_libraries.handles[open_libraries.count++] = handle;
  return 0;
}

static int has_handle(void *handle) {
  for (size_t i = 0; i < open_libraries.count; ++i)
    if (open_libraries.handles[i] == handle)
      return 1;
  return 0;
}

/* Claims a handle for a module. Returns 1, 0 if another module has the handle, or -1 if there is no
 * memory. A copy belongs to one module: if its handle is claimed, the claim is of a closed library
 * with that handle. */
static int claim_handle(void *handle, int is_copy) {
  bp__lock(BP__LOCK_STATE);
  int rc = !is_copy && has_handle(handle) ? 0 : add_handle(handle) ? -1 : 1;
  bp__unlock(BP__LOCK_STATE);
  return rc;
}

static int is_open(const char *name) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle)
    dlclose(handle);
  else
    dlerror();
  return handle != NULL;
}

/* The claim is released after the handle is closed: until then no other module may take over the
 * mapping. */
static void close_library(void *handle, int copy_fd) {
  dlclose(handle);
  if (copy_fd >= 0)
    close(copy_fd);
  bp__lock(BP__LOCK_STATE);
  for (size_t i = 0; i < open_libraries.count; ++i)
    if (open_libraries.handles[i] == handle) {
      open_libraries.handles[i] = open_libraries.handles[--open_libraries.count];
      break;
    }
  bp__unlock(BP__LOCK_STATE);
}

/* The loader's message does not name this cause. */
static const char *explain(const char *path, int is_copy) {
  struct statvfs status;
  return !is_copy && !statvfs(path, &status) && status.f_flag & ST_NOEXEC
             ? "; its file system is mounted noexec: use another one (for temporary files: TMPDIR)"
             : "";
}

/* Opens `name`. Returns 1 if *handle belongs to this module, 0 if the library is already open, or
 * -1. */
static int open_and_claim(const char *name, const char *path, int is_copy, void **handle) {
  if (is_open(name))
    return 0;
  int is_memory;
  void *opened = bp__elf_load(name, 0, &is_memory);
  if (!opened) {
    const char *reason = dlerror();
    return bp_error_raise(is_memory ? BP_ERROR_MEMORY : BP_ERROR_RUNTIME,
                          "cannot open the library \"%s\"%s: %s%s", path,
                          is_memory ? " for want of memory" : "",
                          reason ? reason : "unknown reason", explain(path, is_copy));
  }
  int claimed = claim_handle(opened, is_copy);
  if (claimed == 1)
    *handle = opened;
  else
    dlclose(opened);
  return claimed;
}

static int write_at(int fd, const char *data, size_t size, size_t offset) {
  return lseek(fd, (off_t)offset, SEEK_SET) < 0 || bp__write_all(fd, data, size) ? -1 : 0;
}

/* Gives an undefined function an address. A local, hidden symbol is not looked up elsewhere, and an
 * absolute symbol is not relocated. */
static int write_binding(int fd, const BpLibraryFile *file, const BpLibraryBinding *binding) {
  Elf64_Sym symbol;
  memcpy(&symbol, file->file->data + binding->entry, sizeof symbol);
  symbol.st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE);
  symbol.st_other = STV_HIDDEN;
  symbol.st_shndx = SHN_ABS;
  symbol.st_value = (uintptr_t)binding->function;
  return write_at(fd, (const char *)&symbol, sizeof symbol, binding->entry);
}

/* The blob is read from the file. The blob's pages, which may be many, stay empty in the copy. */
static int write_copy(int fd, const BpLibraryFile *file) {
  const char *data = file->file->data;
  size_t size = file->file->size, start = size, end = size;
  if (file->has_blob) {
    start = (size_t)(file->blob_bytes.data - data);
    end = start + file->blob_bytes.size;
  }
  if (write_at(fd, data, start, 0) || write_at(fd, data + end, size - end, end) ||
      bp__set_size(fd, (off_t)size))
    return -1;
  for (size_t i = 0; i < file->num_bindings; ++i)
    if (write_binding(fd, file, &file->bindings[i]))
      return -1;
  return 0;
}

static int open_copy(const BpLibraryFile *file, void **handle, int *copy_fd) {
  char name[BP_FD_PATH_SIZE];
  int claimed = -1, fd = memfd_create("backplane-module", MFD_CLOEXEC);
  if (fd < 0 || write_copy(fd, file))
    bp_error_raise(BP_ERROR_IO, "cannot copy \"%s\" to memory to open it: %s", file->path,
                   strerror(errno));
  else if (bp__fd_path(fd, name))
    bp_error_raise(BP_ERROR_IO, "cannot open a copy of \"%s\": /proc is not that of this process",
                   file->path);
  else
    claimed = open_and_claim(name, file->path, 1, handle);
  if (claimed == 0)
    bp_error_raise(BP_ERROR_RUNTIME, "a fresh copy of \"%s\" was taken for another library",
                   file->path);
  if (fd >= 0 && claimed != 1)
    close(fd);
  *copy_fd = claimed == 1 ? fd : -1;
  return claimed == 1 ? 0 : -1;
}

static int open_library(const BpLibraryFile *file, void **handle, int *copy_fd) {
  char *name = NULL;
  if (file->num_bindings)
    return open_copy(file, handle, copy_fd);
  /* A name without a slash would be searched for among the system's libraries. */
  if (asprintf(&name, "%s%s", strchr(file->path, '/') ? "" : "./", file->path) < 0)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to open \"%s\"", file->path);
  int claimed = open_and_claim(name, file->path, 0, handle);
  free(name);
  if (claimed == 0)
    return open_copy(file, handle, copy_fd);
  return claimed == 1 ? 0 : -1;
}

/* ---- The module -------------------------------------------------------------------------- */

static void destroy_library(void *context) {
  LibraryModule *library = context;
  while (library->found) {
    Found *next = library->found->next;
    bp_object_release(library->found->function);
    free(library->found);
    library->found = next;
  }
  if (library->handle)
    close_library(library->handle, library->copy_fd);
  free(library->path);
  free(library->exports.text);
  free(library->names);
  free(library->main_name);
  free(library);
}

/* Returns the address of symbol `prefix``name`; NULL with an error. */
static void *find_symbol(const LibraryModule *library, const char *prefix, const char *name) {
  char *symbol = NULL;
  if (asprintf(&symbol, "%s%s", prefix, name) < 0) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory to find function \"%s\"", name);
    return NULL;
  }
  void *address = dlsym(library->handle, symbol);
  free(symbol);
  if (!address)
    bp_error_raise(BP_ERROR_RUNTIME, "cannot find function \"%s\" in \"%s\"", name, library->path);
  return address;
}

/* Returns the address of an exported function; NULL if there is no such function; -1 with an error.
 * The names were read from the file. */
static int find_exported(const LibraryModule *library, const char *name, void **address) {
  *address = NULL;
  if (library->main_name && !strcmp(name, BP_SYMBOL_MAIN))
    name = library->main_name;
  if (!bsearch(&name, library->names, library->exports.count, sizeof *library->names,
               bp__names_compare))
    return 0;
  *address = find_symbol(library, library->is_packed_c ? "" : BP_SYMBOL_PREFIX, name);
  return *address ? 0 : -1;
}

int bp__library_check_machine(const BpTensorView *view, int32_t index) {
  if (view->device.device_type == BP_DEVICE_TYPE_OF_CODE(view->device.device_type))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "argument %d is on a device of another machine, and a library's host code "
                        "runs on devices of this machine alone; use one of them, or compile the "
                        "model for the device with `backplane compile`",
                        index);
}

static int call_checked(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpPackedCall code = (BpPackedCall)((const BpClosure *)self)->context;
  for (int32_t i = 0; i < num_args; ++i) {
    const BpTensorView *view = bp_value_view_tensor(&args[i]);
    if (view && bp__library_check_machine(view, i))
      return -1;
  }
  return code(self, args, num_args, result);
}

/* Makes a function of the library. If the library has code for devices, each call checks that its
 * tensors are on this machine. `owner`: the module that the function keeps alive, or NULL. */
static BpFunction *create_function(const LibraryModule *library, BpModule *owner, void *address) {
  int is_checked = bp_module_num_imports(library->module) > 0;
  BpPackedCall call = is_checked ? call_checked : (BpPackedCall)address;
  void *context = is_checked ? address : NULL;
  return owner ? bp_module_function_create(owner, call, context, NULL)
               : bp_function_create(call, context, NULL);
}

static int library_get_function(void *context, const char *name, BpFunction **function) {
  LibraryModule *library = context;
  void *address;
  *function = NULL;
  if (!library->handle)
    return bp_error_raise(BP_ERROR_VALUE,
                          "\"%s\" was read, not loaded, and runs nothing; load it with "
                          "bp_module_load()",
                          library->path);
  if (find_exported(library, name, &address))
    return -1;
  if (!address)
    return 0;
  const OldTvm *tvm = library->is_packed_c ? bp__old_tvm() : NULL;
  if (tvm)
    *function = tvm->create_function(library->module, address);
  else if (!library->is_packed_c)
    *function = create_function(library, library->module, address);
  return *function ? 0 : -1;
}

static int library_get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE;
  return 0;
}

/* A loaded library may describe a function's signature by another function, which returns text. */
static int visit_signature(const LibraryModule *library, const char *name,
                           int32_t (*visit)(void *, const char *, const char *), void *visitor) {
  BpPackedCall describe =
      library->handle ? (BpPackedCall)find_symbol(library, BP_SYMBOL_METADATA, name) : NULL;
  BpValue text = {.type_index = BP_TYPE_NONE};
  BpByteArray view;
  char *signature = NULL;
  if (describe && !describe(NULL, NULL, 0, &text) && !bp_value_view_str(&text, &view))
    signature = strndup(view.data, view.size);
  else
    bp_error_clear();
  int rc = visit(visitor, name, signature);
  free(signature);
  bp_value_clear(&text);
  return rc;
}

static int library_visit_functions(void *context,
                                   int32_t (*visit)(void *visitor, const char *name,
                                                    const char *signature),
                                   void *visitor) {
  LibraryModule *library = context;
  int rc = 0;
  for (size_t i = 0; i < library->exports.count && !rc; ++i)
    rc = library->is_packed_c ? visit(visitor, library->names[i], NULL)
                              : visit_signature(library, library->names[i], visit, visitor);
  return 0;
}

static const BpModuleApi library_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "library",
    .get_function = library_get_function,
    .get_property = library_get_property,
    .visit_functions = library_visit_functions,
    .destroy = destroy_library,
};

/* The table of modules of TVM's libraries up to 0.19. */
static const BpModuleApi packed_c_api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = "packed_c_library",
    .get_function = library_get_function,
    .get_property = library_get_property,
    .visit_functions = library_visit_functions,
    .destroy = destroy_library,
};

/* ---- Look-ups by the library ------------------------------------------------------------- */

static BpFunction *find_kept(LibraryModule *library, const char *name) {
  bp__lock(BP__LOCK_STATE);
  Found *found = library->found;
  while (found && strcmp(found->name, name))
    found = found->next;
  bp__unlock(BP__LOCK_STATE);
  return found ? found->function : NULL;
}

/* Keeps a function (takes the reference) for as long as the library exists. */
static int keep_function(LibraryModule *library, const char *name, BpFunction *function) {
  size_t size = strlen(name) + 1;
  Found *found = malloc(sizeof *found + size);
  if (!found) {
    bp_object_release(function);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to keep function \"%s\"", name);
  }
  found->function = function;
  memcpy(found->name, name, size);
  bp__lock(BP__LOCK_STATE);
  found->next = library->found;
  library->found = found;
  bp__unlock(BP__LOCK_STATE);
  return 0;
}

/* Finds one of the library's own functions. The function does not keep the library alive, because
 * the library keeps the function. */
static int find_own(const LibraryModule *library, const char *name, BpFunction **function) {
  void *address = NULL;
  *function = NULL;
  if (!library->is_packed_c && find_exported(library, name, &address))
    return -1;
  if (address)
    *function = create_function(library, NULL, address);
  return address && !*function ? -1 : 0;
}

int bp__library_look_up(void *module, const char *name, void **function) {
  LibraryModule *library = bp_module_get_context(module, &library_api);
  if (!library)
    library = bp_module_get_context(module, &packed_c_api);
  *function = NULL;
  if (!library)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "a library asks for function \"%s\" without saying "
                          "which library it is",
                          name);
  if ((*function = find_kept(library, name)))
    return 0;
  BpFunction *found;
  if (find_own(library, name, &found) ||
      (!found && bp__module_get_from_imports(library->module, name, &found)) ||
      (!found && bp_registry_get(name, &found)))
    return -1;
  if (!found)
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "\"%s\" calls function \"%s\", which is neither in its imports nor in "
                          "the registry; register it, or install the plugin that provides it",
                          library->path, name);
  if (keep_function(library, name, found))
    return -1;
  *function = found;
  return 0;
}

/* ---- Opening ----------------------------------------------------------------------------- */

static int fill_slots(LibraryModule *library, const BpLibraryFile *file) {
  const char *name = file->slots.text;
  for (size_t i = 0; i < file->slots.count; ++i, name += strlen(name) + 1) {
    void (**slot)(void) = dlsym(library->handle, name);
    if (!slot)
      return bp_error_raise(BP_ERROR_RUNTIME, "cannot find variable \"%s\" in \"%s\"", name,
                            library->path);
    *slot = bp__library_find_slot(name);
  }
  if (file->context) {
    void **context = dlsym(library->handle, file->context);
    if (context)
      *context = library->module;
  }
  return 0;
}

/* Takes the names that were read from the file, and sorts them. */
static int take_exports(LibraryModule *library, BpLibraryFile *file) {
  library->is_packed_c = file->is_packed_c;
  library->path = strdup(file->path);
  library->main_name =
      file->main_name.size ? strndup(file->main_name.data, file->main_name.size) : NULL;
  library->names = malloc((file->functions.count + 1) * sizeof *library->names);
  if (!library->path || !library->names || (file->main_name.size && !library->main_name))
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the %zu functions of \"%s\"",
                          file->functions.count, file->path);
  library->exports = file->functions;
  file->functions = (BpPackedNames){0};
  char *name = library->exports.text;
  for (size_t i = 0; i < library->exports.count; ++i, name += strlen(name) + 1)
    library->names[i] = name;
  qsort(library->names, library->exports.count, sizeof *library->names, bp__names_compare);
  return 0;
}

static int open_and_fill(LibraryModule *library, const BpLibraryFile *file) {
  return open_library(file, &library->handle, &library->copy_fd) ? -1 : fill_slots(library, file);
}

static BpModule *create_module(BpLibraryFile *file, int is_loaded) {
  LibraryModule *library = calloc(1, sizeof *library);
  if (!library) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a library module");
    return NULL;
  }
  library->copy_fd = -1;
  BpModule *module = bp_module_create(file->is_packed_c ? &packed_c_api : &library_api, library);
  if (!module)
    return NULL;
  library->module = module;
  if (!take_exports(library, file) && (!is_loaded || !open_and_fill(library, file)))
    return module;
  bp_object_release(module);
  return NULL;
}

static BpModule *make_modules(BpLibraryFile *file, int is_loaded) {
  BpModule *library = create_module(file, is_loaded);
  if (!library || !file->has_blob)
    return library;
  BpModule *root = bp__blob_load(&file->blob, library, &file->file->header);
  if (!root)
    bp_error_add_context("cannot load \"%s\"", file->path);
  bp_object_release(library);
  return root;
}

static BpModule *read_modules(const char *path, int is_loaded) {
  BpLibraryFile file;
  if (bp__library_file_read(&file, path))
    return NULL;
  BpModule *root = make_modules(&file, is_loaded);
  bp__library_file_clear(&file);
  return root;
}

BpModule *bp__library_load(const char *path) {
  return read_modules(path, 1);
}

BpModule *bp_module_read(const char *path) {
  return BP_NOT_NULL(path) && !bp__core_start() ? read_modules(path, 0) : NULL;
}
