/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a module and its imports as one shared library: host code is compiled and linked, other
 * modules are serialised into the blob, which the assembler includes as a file. In the blob's
 * import tree all host modules together are one node, the library itself. */

#include "parts/toolchain/export.h"

#include "core/module/blob.h"
#include "parts/toolchain/cc.h"
#include "parts/toolchain/compile.h"
#include "core/module/library_file.h"
#include "core/module/load.h"
#include "core/module/module.h"
#include "core/system/elf.h"
#include "core/system/file.h"
#include "parts/file.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOB_NAME     "blob.bin"
#define ASSEMBLY_NAME "blob.s"
#define LIBRARY_NAME  "library.so"
#define ALIGNMENT     64
#define NO_NODE       SIZE_MAX

#define COPIED_AT_ONCE ((size_t)1 << 20)

typedef struct Export {
  BpModule **modules; /* the root first */
  size_t num_modules;
  size_t *nodes;       /* index in the blob, by module */
  BpModule **of_nodes; /* module by index; NULL for the library itself */
  size_t num_nodes;
  size_t library_node; /* index of the host code; NO_NODE if there is none */
  uint64_t *indptr;
  uint64_t *child_indices;
  GPtrArray *link_inputs; /* strings allocated by malloc */
  uint64_t blob_size;     /* including its length field; 0: no blob */
  uint64_t largest_at;    /* offset in the blob of the largest payload of a module */
  uint64_t largest_size;  /* bytes of that payload */
  BpWorkdir dir;
} Export;

/* ---- The import tree --------------------------------------------------------------------- */

static int is_host_code(BpModule *module) {
  return bp_module_get_property(module) & BP_MODULE_COMPILATION_EXPORT;
}

static int check_module(BpModule *module) {
  if (bp_module_get_property(module) &
      (BP_MODULE_COMPILATION_EXPORT | BP_MODULE_BINARY_SERIALIZABLE))
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "a module of kind \"%s\" can be neither compiled into a library nor "
                        "serialised; export the modules that it was made from",
                        bp_module_kind(module));
}

static int assign_nodes(Export *job) {
  for (size_t i = 0; i < job->num_modules; ++i) {
    BpModule *module = job->modules[i];
    if (check_module(module))
      return -1;
    int host = is_host_code(module);
    if (host && job->library_node != NO_NODE) {
      job->nodes[i] = job->library_node;
      continue;
    }
    if (host)
      job->library_node = job->num_nodes;
    job->of_nodes[job->num_nodes] = host ? NULL : module;
    job->nodes[i] = job->num_nodes++;
  }
  return 0;
}

static size_t node_of(const Export *job, const BpModule *module) {
  for (size_t i = 0; i < job->num_modules; ++i)
    if (job->modules[i] == module)
      return job->nodes[i];
  return NO_NODE;
}

static int has_edge(const Export *job, uint64_t first, uint64_t end, size_t child) {
  for (uint64_t i = first; i < end; ++i)
    if (job->child_indices[i] == child)
      return 1;
  return 0;
}

/* Appends the imports of the modules at a node to the node's row, each once, except the node
 * itself. */
static uint64_t add_row(Export *job, size_t node, uint64_t end) {
  uint64_t first = end;
  for (size_t i = 0; i < job->num_modules; ++i) {
    if (job->nodes[i] != node)
      continue;
    size_t count = bp_module_num_imports(job->modules[i]);
    for (size_t k = 0; k < count; ++k) {
      size_t child = node_of(job, bp_module_get_import(job->modules[i], k));
      if (child != NO_NODE && child != node && !has_edge(job, first, end, child))
        job->child_indices[end++] = child;
    }
  }
  return end;
}

static int build_tree(Export *job) {
  size_t num_edges = 0;
  for (size_t i = 0; i < job->num_modules; ++i)
    num_edges += bp_module_num_imports(job->modules[i]);
  job->indptr = calloc(job->num_nodes + 1, sizeof *job->indptr);
  job->child_indices = calloc(num_edges + 1, sizeof *job->child_indices);
  if (!job->indptr || !job->child_indices)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the imports of %zu modules",
                          job->num_modules);
  for (size_t node = 0; node < job->num_nodes; ++node)
    job->indptr[node + 1] = add_row(job, node, job->indptr[node]);
  int acyclic = bp__blob_is_acyclic(job->indptr, job->child_indices, job->num_nodes);
  if (acyclic)
    return acyclic < 0 ? -1 : 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "host code imports a module that imports other host code, which one "
                        "library cannot express; import the other host code into the first");
}

static int collect(Export *job, BpModule *module) {
  job->library_node = NO_NODE;
  job->modules = bp__module_flatten(module, &job->num_modules);
  if (!job->modules)
    return -1;
  job->nodes = calloc(job->num_modules, sizeof *job->nodes);
  job->of_nodes = calloc(job->num_modules, sizeof(BpModule *));
  if (!job->nodes || !job->of_nodes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to export %zu modules", job->num_modules);
  return assign_nodes(job) || build_tree(job) ? -1 : 0;
}

/* ---- The blob ---------------------------------------------------------------------------- */

typedef struct BlobFile {
  int fd;
  uint64_t size;
} BlobFile;

static int append(BlobFile *file, const void *data, size_t size) {
  if (bp__write_all(file->fd, data, size))
    return bp_error_raise(BP_ERROR_IO, "cannot write a module's bytes to a temporary file: %s",
                          strerror(errno));
  file->size += size;
  return 0;
}

static int append_string(BlobFile *file, const char *data, size_t size) {
  uint64_t length = size;
  return append(file, &length, sizeof length) || append(file, data, size) ? -1 : 0;
}

static int append_numbers(BlobFile *file, const uint64_t *numbers, uint64_t count) {
  return append(file, &count, sizeof count) ||
                 append(file, numbers, (size_t)count * sizeof *numbers)
             ? -1
             : 0;
}

static int append_node(Export *job, BlobFile *file, size_t node) {
  BpModule *module = job->of_nodes[node];
  const char *kind = module ? bp_module_kind(module) : BP_BLOB_LIBRARY_KIND;
  BpOwnedBytes bytes;
  if (append_string(file, kind, strlen(kind)))
    return -1;
  if (!module)
    return 0;
  if (bp_module_save_to_bytes(module, &bytes))
    return bp_error_add_context("cannot export a module of kind \"%s\"", kind);
  if (bytes.size > job->largest_size) {
    job->largest_at = file->size + sizeof(uint64_t);
    job->largest_size = bytes.size;
  }
  int rc = append_string(file, bytes.data, bytes.size);
  bp_owned_bytes_clear(&bytes);
  return rc;
}

/* The length is the first field, but is known last. */
static int write_blob(Export *job, BlobFile *file) {
  uint64_t length = 0;
  if (append(file, &length, sizeof length) ||
      append_numbers(file, job->indptr, job->num_nodes + 1) ||
      append_numbers(file, job->child_indices, job->indptr[job->num_nodes]))
    return -1;
  for (size_t node = 0; node < job->num_nodes; ++node)
    if (append_node(job, file, node))
      return -1;
  length = file->size - sizeof length;
  if (pwrite(file->fd, &length, sizeof length, 0) != sizeof length)
    return bp_error_raise(BP_ERROR_IO, "cannot write a temporary file: %s", strerror(errno));
  job->blob_size = file->size;
  return 0;
}

static int make_blob(Export *job) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  BlobFile file = {.fd = openat(job->dir.fd, BLOB_NAME, flags, 0600)};
  if (file.fd < 0)
    return bp_error_raise(BP_ERROR_IO, "cannot make \"%s/" BLOB_NAME "\": %s", job->dir.path,
                          strerror(errno));
  int rc = write_blob(job, &file);
  if (close(file.fd) && !rc)
    rc = bp_error_raise(BP_ERROR_IO, "cannot write \"%s/" BLOB_NAME "\": %s", job->dir.path,
                        strerror(errno));
  return rc;
}

/* Writes a weak pointer variable with a value: a strong definition in another object wins. */
#define POINTER(name, value)                                                                       \
  "\t.weak " name "\n\t.type " name ", %object\n\t.size " name ", 8\n" name ":\n\t.8byte " value   \
  "\n"
/* Writes a pointer variable for a host function, initialised with the function if the process has
 * it: Python's tvm_ffi sets no variables, but has the functions. */
#define SLOT(function) "\t.weak " function "\n" POINTER("__" function, function)

static const char variables[] = "\t.data\n\t.p2align 3\n" POINTER(BP_SYMBOL_LIBRARY_CTX, "0")
    SLOT("TVMFFIErrorSetRaisedFromCStr") SLOT("TVMFFIFunctionCall")
        SLOT("TVMFFIEnvModLookupFromImports")
            SLOT("TVMFFIHandleInitOnce") "\t.section .note.GNU-stack,\"\",%progbits\n";

/* The blob is placed so that its largest payload (a model's parameters) is aligned, and can be used
 * in place. */
static int make_assembly(const Export *job) {
  static const char blob[] = "\t.section .rodata.backplane,\"a\",%%progbits\n"
                             "\t.p2align 6\n"
                             "\t.zero %u\n"
                             "\t.globl " BP_SYMBOL_LIBRARY_BIN "\n"
                             "\t.type " BP_SYMBOL_LIBRARY_BIN ", %%object\n"
                             "\t.size " BP_SYMBOL_LIBRARY_BIN ", %llu\n" BP_SYMBOL_LIBRARY_BIN ":\n"
                             "\t.incbin \"" BLOB_NAME "\"\n";
  char text[sizeof blob + sizeof variables + 64];
  int length = 0;
  unsigned padding = (unsigned)((ALIGNMENT - job->largest_at % ALIGNMENT) % ALIGNMENT);
  if (job->blob_size)
    length = snprintf(text, sizeof text, blob, padding, (unsigned long long)job->blob_size);
  length += snprintf(text + length, sizeof text - (size_t)length, "%s", variables);
  BpByteArray bytes = {text, (size_t)length};
  return bp__workdir_write(&job->dir, ASSEMBLY_NAME, &bytes);
}

/* ---- Host code --------------------------------------------------------------------------- */

/* The paths of the object files, and their linker arguments. */
static int add_input(Export *job, const char *text) {
  char *copy = strdup(text);
  if (!copy)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to link a library");
  g_ptr_array_add(job->link_inputs, copy);
  return 0;
}

/* Returns the compiler and linker arguments of a module's C source, which lists one a line: a
 * NULL-terminated list for g_strfreev, empty if there are none. */
static char **get_flags(BpModule *module) {
  BpOwnedBytes text;
  if (bp_module_get_source(module, "cflags", &text)) {
    bp_error_clear();
    return g_new0(char *, 1);
  }
  char *lines = g_strndup(text.data, text.size);
  char **flags = g_strsplit(g_strchomp(lines), "\n", -1);
  bp_owned_bytes_clear(&text);
  g_free(lines);
  return flags;
}

static int compile_source(Export *job, BpModule *module, const char *name) {
  BpOwnedBytes source;
  char object[PATH_MAX];
  if (bp_module_get_source(module, "c", &source))
    return -1;
  BpByteArray bytes = {source.data, source.size};
  char **flags = get_flags(module);
  int rc = bp__compile_object(&job->dir, name, &bytes, (const char *const *)flags, object);
  if (!rc)
    rc = add_input(job, object);
  for (char **flag = flags; !rc && *flag; ++flag)
    rc = add_input(job, *flag);
  g_strfreev(flags);
  bp_owned_bytes_clear(&source);
  return rc;
}

/* A module without an object file has C source. */
static int make_object(Export *job, BpModule *module, size_t index) {
  char name[64], file[72];
  BpOwnedBytes object;
  snprintf(name, sizeof name, "host%zu", index);
  if (bp_module_get_source(module, "o", &object)) {
    bp_error_clear();
    return compile_source(job, module, name);
  }
  BpByteArray bytes = {object.data, object.size};
  snprintf(file, sizeof file, "%s.o", name);
  int rc = bp__workdir_write(&job->dir, file, &bytes);
  bp_owned_bytes_clear(&object);
  return rc ? rc : add_input(job, file);
}

static int make_objects(Export *job) {
  for (size_t i = 0; i < job->num_modules; ++i)
    if (is_host_code(job->modules[i]) && make_object(job, job->modules[i], i))
      return -1;
  return 0;
}

/* ---- The library ------------------------------------------------------------------------- */

/* Links LIBRARY_NAME in the working folder. */
static int link_library(Export *job) {
  if (add_input(job, "-lm"))
    return -1;
  size_t count = 0;
  const char **args = malloc((job->link_inputs->len + 6) * sizeof *args);
  if (!args)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to link a library");
  args[count++] = "-shared";
  args[count++] = "-Wl,-Bsymbolic";
  args[count++] = "-o";
  args[count++] = LIBRARY_NAME;
  args[count++] = ASSEMBLY_NAME;
  for (size_t i = 0; i < job->link_inputs->len; ++i)
    args[count++] = job->link_inputs->pdata[i];
  args[count] = NULL;
  int rc = bp__cc_run(&job->dir, args, "link a library");
  free(args);
  return rc;
}

/* The unfinished library in its final folder. The file has no name if the file system allows that:
 * then no file is left if this process is killed. The file's mode is that of a program that this
 * process makes. */
typedef struct Unfinished {
  int folder;
  int fd;
  char name[BP_TEMPORARY_SIZE]; /* "": none */
} Unfinished;

/* The user may have made the file that is replaced private; the owner may run the new one. The mode
 * stays if it is right: some file systems cannot set it. -1 with errno. */
static int restrict_mode(int fd, const char *path) {
  struct stat before, own;
  if (stat(path, &before) || !S_ISREG(before.st_mode))
    return 0;
  if (fstat(fd, &own))
    return -1;
  mode_t mode = own.st_mode & (before.st_mode | S_IRWXU) & 0777;
  return mode == (own.st_mode & 0777) ? 0 : fchmod(fd, mode);
}

static int create_beside(const char *path, Unfinished *file) {
  char *directory = g_path_get_dirname(path);
  file->folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (file->folder >= 0 &&
      !access("/proc/self/fd", X_OK)) /* /proc gives the unnamed file its name later */
    file->fd = openat(file->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0777);
  if (file->folder >= 0 && file->fd < 0)
    file->fd = bp__temporary_file(file->folder, 0777, file->name);
  int rc = file->fd < 0 || restrict_mode(file->fd, path)
               ? bp_error_raise(BP_ERROR_IO, "cannot write to the directory \"%s\" of \"%s\": %s",
                                directory, path, strerror(errno))
               : 0;
  g_free(directory);
  return rc;
}

/* Copies the rest of a file; -1 with errno. */
static int copy_bytes(int from, int to) {
  char *bytes = malloc(COPIED_AT_ONCE);
  ssize_t size = bytes ? 1 : -1;
  while (size > 0 && (size = bp__read_up_to(from, bytes, COPIED_AT_ONCE)) > 0)
    if (bp__write_all(to, bytes, (size_t)size))
      size = -1;
  free(bytes);
  return size < 0 ? -1 : 0;
}

/* Gives the unnamed file a name that no file has. */
static int link_as(const Unfinished *file, const char *name) {
  char descriptor[64];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", file->fd);
  return linkat(AT_FDCWD, descriptor, file->folder, name, AT_SYMLINK_FOLLOW);
}

/* Gives the unnamed file a temporary name. */
static int name_file(Unfinished *file) {
  if (!bp__temporary_name(file->name) && !link_as(file, file->name))
    return 0;
  file->name[0] = '\0';
  return -1;
}

/* Gives the file its name. A process that is killed here leaves a file with a temporary name, but
 * only where it replaces a file. */
static int name_finally(const char *name, Unfinished *file) {
  if (!file->name[0] && !link_as(file, name))
    return 0;
  if ((!file->name[0] && (errno != EEXIST || name_file(file))) ||
      renameat(file->folder, file->name, file->folder, name))
    return -1;
  file->name[0] = '\0';
  return 0;
}

/* A network file system may report only when a descriptor is closed that it did not store the
 * bytes. Returns -1 with errno. */
static int flush(int fd) {
  int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return other < 0 ? -1 : close(other);
}

/* Copies the linked library, open as `linked`, and gives it its name; -1 with errno. A folder may
 * set the group of files in it, so the library is not moved. */
static int finish(int linked, const char *path, Unfinished *file) {
  const char *slash = strrchr(path, '/');
  return copy_bytes(linked, file->fd) || flush(file->fd) ||
                 name_finally(slash ? slash + 1 : path, file)
             ? -1
             : 0;
}

/* The library is missing, empty or truncated if the compiler or linker failed unnoticed: GNU ld
 * ignores some writes that fail on a full file system. */
static int check_library(const Export *job, const char *path, int linked) {
  struct stat status;
  if (linked < 0 || fstat(linked, &status) || !status.st_size)
    return bp_error_raise(BP_ERROR_COMPILE, "the C compiler made no library for \"%s\"", path);
  BpElfFault fault = bp__elf_check(linked, (uint64_t)status.st_size);
  if (fault == BP_ELF_UNREADABLE)
    return bp_error_raise(errno == ENOMEM ? BP_ERROR_MEMORY : BP_ERROR_IO,
                          "cannot read the library that the C compiler made: %s", strerror(errno));
  return !fault
             ? 0
             : bp_error_raise(BP_ERROR_COMPILE,
                              "the C compiler made a damaged library for \"%s\": it %s; make sure "
                              "that there is space in \"%s\"",
                              path, bp__elf_describe(fault), job->dir.path);
}

static int take_library(Export *job, const char *path, Unfinished *file) {
  int linked = openat(job->dir.fd, LIBRARY_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int rc = check_library(job, path, linked);
  unlinkat(job->dir.fd, BLOB_NAME, 0); /* makes space for the copy */
  if (!rc && finish(linked, path, file))
    rc = bp_error_raise(BP_ERROR_IO, "cannot make \"%s\": %s", path, strerror(errno));
  if (linked >= 0)
    close(linked);
  return rc;
}

static int make_library(Export *job, const char *path) {
  Unfinished file = {.folder = -1, .fd = -1};
  int rc = create_beside(path, &file);
  if (!rc)
    rc = link_library(job);
  if (!rc)
    rc = take_library(job, path, &file);
  if (file.name[0])
    unlinkat(file.folder, file.name, 0);
  if (file.fd >= 0)
    close(file.fd);
  if (file.folder >= 0)
    close(file.folder);
  return rc;
}

/* A library with only host code is a complete module and needs no blob. */
static int make_files(Export *job, const char *path) {
  int needs_blob = job->num_nodes > 1 || job->library_node == NO_NODE;
  g_ptr_array_set_size(job->link_inputs, 0);
  job->blob_size = job->largest_at = job->largest_size = 0;
  return (needs_blob && make_blob(job)) || make_assembly(job) || make_objects(job) ||
                 make_library(job, path)
             ? -1
             : 0;
}

static int export_files(Export *job, const char *path) {
  BpCache cache;
  bp__compile_open_cache(&cache);
  int rc = bp__workdir_create(&job->dir, &cache);
  if (!rc)
    rc = make_files(job, path);
  if (rc && bp__workdir_leave_cache(&job->dir, job->blob_size))
    rc = make_files(job, path);
  bp__workdir_remove(&job->dir);
  bp__cache_close(&cache);
  return rc;
}

/* Refuses a device or a FIFO, which the library would replace. */
static int check_path(const char *path) {
  struct stat status;
  if (!path || !*path)
    return bp_error_raise(BP_ERROR_VALUE, "the library's path is empty");
  if (!stat(path, &status) && !S_ISREG(status.st_mode))
    return bp_error_raise(BP_ERROR_IO, "\"%s\" exists, and is not a regular file", path);
  if (bp__module_is_library_path(path))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%s\" does not end in .so, by which a library is known when it is loaded",
                        path);
}

int bp__export_library(BpModule *module, const char *path) {
  Export job = {.link_inputs = g_ptr_array_new_with_free_func(free)};
  int rc = check_path(path);
  if (!rc)
    rc = collect(&job, module);
  if (!rc)
    rc = export_files(&job, path);
  g_ptr_array_free(job.link_inputs, TRUE);
  free(job.modules);
  free(job.nodes);
  free(job.of_nodes);
  free(job.indptr);
  free(job.child_indices);
  return rc ? bp_error_add_context("cannot export a library") : 0;
}
