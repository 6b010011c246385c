/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a library's file, with libelf: its exports, the pointer variables that the host sets, its
 * blob. */

#include "core/module/library_file.h"

#include "core/module/library.h"
#include "core/module/parts.h"
#include "core/registry/log.h"
#include "core/registry/object.h"
#include "core/system/elf.h"
#include "core/system/file.h"
#include "core/system/trust.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Mapping ----------------------------------------------------------------------------- */

/* Whole pages are unmapped: the thread sanitizer keeps its state of a partial last page, and
 * reports false races when the address is reused. */
static size_t whole_pages(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (size + page - 1) / page * page;
}

static void delete_mapped_file(void *self, int flags) {
  BpMappedFile *file = self;
  if (flags & BP_DELETER_STRONG)
    munmap((void *)(uintptr_t)file->data, whole_pages(file->size));
  if (flags & BP_DELETER_WEAK)
    free(file);
}

static BpMappedFile *map_descriptor(int fd, const char *path, size_t size) {
  if (!size) {
    bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is empty", path);
    return NULL;
  }
  BpMappedFile *file = malloc(sizeof *file);
  void *data = file ? mmap(NULL, whole_pages(size), PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (data == MAP_FAILED) {
    bp_error_raise(BP_ERROR_MEMORY, "cannot map the %zu bytes of \"%s\": %s", size, path,
                   strerror(errno));
    free(file);
    return NULL;
  }
  bp__object_init(&file->header, BP_TYPE_OBJECT, delete_mapped_file);
  file->data = data;
  file->size = size;
  return file;
}

static BpMappedFile *map_file(const char *path) {
  struct stat status;
  int fd = bp__file_open(AT_FDCWD, path, &status);
  if (fd < 0 && errno)
    bp_error_raise(BP_ERROR_IO, "cannot open \"%s\": %s", path, strerror(errno));
  else if (fd < 0)
    bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is no regular file", path);
  if (fd < 0)
    return NULL;
  BpMappedFile *file = map_descriptor(fd, path, (size_t)status.st_size);
  close(fd);
  return file;
}

/* ---- Symbols ----------------------------------------------------------------------------- */

/* A symbol that a library defines or needs. */
typedef struct BpElfSymbol {
  const char *name;
  int is_defined;
  int is_weak;
  int is_function;
  uint64_t size;
  size_t entry; /* offset of the symbol's Elf64_Sym in the file */
  /* The symbol's bytes in the file, up to the end of its segment; empty if it has none. */
  BpByteArray contents;
} BpElfSymbol;

typedef struct Source {
  const BpMappedFile *file;
  const char *path;
  Elf *elf;
} Source;

/* Raises the error for a failure of libelf; errno was cleared when the file was opened. */
static int damaged(const Source *library, const char *what) {
  if (errno == ENOMEM)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to read \"%s\"", library->path);
  return bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is not a usable shared library: it %s",
                        library->path, what);
}

/* Returns the file's bytes from a virtual address to the end of the address's segment. */
static BpByteArray contents_at(const Source *library, uint64_t address) {
  size_t count;
  GElf_Phdr segment;
  if (elf_getphdrnum(library->elf, &count))
    return (BpByteArray){NULL, 0};
  for (size_t i = 0; i < count; ++i)
    if (gelf_getphdr(library->elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
        address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      uint64_t skipped = address - segment.p_vaddr;
      return (BpByteArray){library->file->data + segment.p_offset + skipped,
                           (size_t)(segment.p_filesz - skipped)};
    }
  return (BpByteArray){NULL, 0};
}

static int visit_table(const Source *library, Elf_Scn *section, const GElf_Shdr *header,
                       int (*visit)(void *, const BpElfSymbol *), void *context) {
  Elf_Data *data = elf_getdata(section, NULL);
  if (!data || header->sh_entsize != sizeof(Elf64_Sym))
    return damaged(library, "has a dynamic symbol table that is cut off");
  GElf_Sym symbol;
  size_t num_bytes = 0;
  for (int i = 0; gelf_getsym(data, i, &symbol); ++i) {
    int type = GELF_ST_TYPE(symbol.st_info);
    int is_defined = symbol.st_shndx != SHN_UNDEF;
    const char *name = elf_strptr(library->elf, header->sh_link, symbol.st_name);
    if (!name)
      return damaged(library, "has a symbol whose name lies outside the file");
    num_bytes += strlen(name);
    if (num_bytes > library->file->size)
      return damaged(library, "has names that together are longer than the file");
    BpElfSymbol found = {.name = name,
                         .is_defined = is_defined,
                         .is_weak = GELF_ST_BIND(symbol.st_info) == STB_WEAK,
                         .is_function = type == STT_FUNC || type == STT_GNU_IFUNC,
                         .size = symbol.st_size,
                         .entry = (size_t)(header->sh_offset + (uint64_t)i * sizeof(Elf64_Sym))};
    if (is_defined)
      found.contents = contents_at(library, symbol.st_value);
    if (visit(context, &found))
      return -1;
  }
  return 0;
}

static int visit_library(const Source *library, int (*visit)(void *, const BpElfSymbol *),
                         void *context) {
  GElf_Shdr header;
  for (Elf_Scn *section = NULL; (section = elf_nextscn(library->elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
      return visit_table(library, section, &header, visit, context);
  return damaged(library, "has no dynamic symbol table; the file is truncated or stripped");
}

/* Checks that a file is a complete shared library for this machine, and calls `visit` for each
 * symbol of its dynamic symbol table, until it returns non-zero (then -1 is returned too). */
static int visit_symbols(const BpMappedFile *file, const char *path,
                         int (*visit)(void *context, const BpElfSymbol *symbol), void *context) {
  BpElfFault fault;
  Source library = {file, path, bp__elf_open_memory(file->data, file->size, &fault)};
  if (!library.elf)
    return damaged(&library, bp__elf_describe(fault));
  int rc = visit_library(&library, visit, context);
  elf_end(library.elf);
  return rc;
}

static int section_needs(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *prefix) {
  Elf_Data *data = elf_getdata(section, NULL);
  GElf_Dyn entry;
  for (int i = 0; data && gelf_getdyn(data, i, &entry); ++i) {
    const char *name =
        entry.d_tag == DT_NEEDED ? elf_strptr(elf, header->sh_link, entry.d_un.d_val) : NULL;
    if (name && !strncmp(name, prefix, strlen(prefix)))
      return 1;
  }
  return 0;
}

/* Whether the file needs a library whose name begins with `prefix`; -1 with an error if it cannot
 * be read. */
static int needs_library(const BpMappedFile *file, const char *path, const char *prefix) {
  BpElfFault fault;
  Source library = {file, path, bp__elf_open_memory(file->data, file->size, &fault)};
  GElf_Shdr header;
  int needs = 0;
  if (!library.elf)
    return damaged(&library, bp__elf_describe(fault));
  for (Elf_Scn *section = NULL; (section = elf_nextscn(library.elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC) {
      needs = section_needs(library.elf, section, &header, prefix);
      break; /* a library has one such section */
    }
  if (errno == ENOMEM)
    needs = damaged(&library, "");
  elf_end(library.elf);
  return needs;
}

/* ---- Symbols that the library defines and needs ------------------------------------------ */

typedef struct Scan {
  BpLibraryFile *library;
  BpWriter functions;
  BpWriter plain_functions; /* exported names without a prefix */
  size_t num_plain_functions;
  BpWriter slots;
  BpWriter bindings;
  int links_tvm_ffi;
  BpByteArray blob;
  const char *modern;   /* a name that only libraries of TVM since 0.20 have; NULL: none yet */
  const char *packed_c; /* a name that only libraries of TVM up to 0.19 have; NULL: none yet */
  const char *of_either;
} Scan;

static int starts_with(const char *text, const char *prefix) {
  return !strncmp(text, prefix, strlen(prefix));
}

static int unknown_slot(const Scan *scan, const char *name) {
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "\"%s\" wants the host to provide \"%s\", which this version does not "
                        "know; compile the library with TVM 0.27, or use a newer Backplane",
                        scan->library->path, name);
}

/* Finds the host's function for a variable; NULL if no function of the host has that name. */
static int find_slot(const char *name, void (**function)(void)) {
  if (bp__old_tvm_has(name) && !bp__old_tvm())
    return -1;
  *function = bp__library_find_slot(name);
  return 0;
}

static int has_name(const char *text, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i, text += strlen(text) + 1)
    if (!strcmp(text, name))
      return 1;
  return 0;
}

/* Each variable may be there once, so there are at most as many as the host has functions. */
static int scan_slot(Scan *scan, const BpElfSymbol *symbol) {
  void (*function)(void);
  if (find_slot(symbol->name, &function))
    return -1;
  if (symbol->size != sizeof(void *) || !function)
    return unknown_slot(scan, symbol->name);
  if (!scan->slots.failed && has_name(scan->slots.data, scan->library->slots.count, symbol->name))
    return bp_error_raise(BP_ERROR_FORMAT,
                          "\"%s\" is not a usable shared library: it has the variable \"%s\" twice",
                          scan->library->path, symbol->name);
  bp__write_raw(&scan->slots, symbol->name, strlen(symbol->name) + 1);
  ++scan->library->slots.count;
  return 0;
}

/* Finds the host's function for an undefined function: TVM's functions have the names of their
 * variables without "__". */
static int find_binding(const char *name, void (**function)(void)) {
  char slot[128];
  snprintf(slot, sizeof slot, "%s%.*s", starts_with(name, BP_SYMBOL_HOST_PREFIX) ? "__" : "",
           (int)sizeof slot - 3, name);
  return find_slot(slot, function);
}

static int scan_undefined(Scan *scan, const BpElfSymbol *symbol) {
  int is_hosts = starts_with(symbol->name, BP_SYMBOL_HOST_PREFIX);
  if (scan->links_tvm_ffi || (!is_hosts && !starts_with(symbol->name, BP_SYMBOL_HALF_PREFIX)))
    return 0;
  BpLibraryBinding binding = {symbol->name, symbol->entry, NULL};
  if (find_binding(symbol->name, &binding.function))
    return -1;
  if (!binding.function)
    return symbol->is_weak || !is_hosts ? 0 : unknown_slot(scan, symbol->name);
  bp__write_raw(&scan->bindings, &binding, sizeof binding);
  ++scan->library->num_bindings;
  return 0;
}

/* Recognises the calling convention by the names that a library defines or needs. Both conventions
 * share some names; a library that has only shared names uses the older convention, whose functions
 * have no prefix. */
static void scan_convention(Scan *scan, const char *name) {
  static const char *const packed_c[] = {
      BP_SYMBOL_MBLOB,        BP_SYMBOL_MODULE_CTX, BP_SYMBOL_MAIN,      "__TVMFuncCall",
      "__TVMAPISetLastError", "TVMFuncCall",        "TVMAPISetLastError"};
  if (starts_with(name, BP_SYMBOL_PREFIX))
    scan->modern = name;
  if (starts_with(name, "TVMBackend") || starts_with(name, "__TVMBackend"))
    scan->of_either = name;
  for (size_t i = 0; i < sizeof packed_c / sizeof *packed_c; ++i)
    if (!strcmp(name, packed_c[i]))
      scan->packed_c = name;
}

static void take_blob(Scan *scan, const BpElfSymbol *symbol) {
  scan->blob = symbol->contents;
  scan->library->blob_bytes = symbol->contents;
  if (symbol->size < symbol->contents.size)
    scan->library->blob_bytes.size = (size_t)symbol->size;
  scan->library->has_blob = 1;
}

/* Returns the name of the entry function, if the variable contains a name that ends inside the
 * variable. */
static void take_main(Scan *scan, const BpElfSymbol *symbol) {
  size_t size = symbol->contents.size;
  if (symbol->size < size)
    size = (size_t)symbol->size;
  const char *end = size ? memchr(symbol->contents.data, '\0', size) : NULL;
  if (end)
    scan->library->main_name =
        (BpByteArray){symbol->contents.data, (size_t)(end - symbol->contents.data)};
}

static int scan_variable(Scan *scan, const BpElfSymbol *symbol) {
  const char *name = symbol->name;
  if (starts_with(name, BP_SYMBOL_SLOT_PREFIX))
    return scan_slot(scan, symbol);
  if (!strcmp(name, BP_SYMBOL_LIBRARY_BIN) || !strcmp(name, BP_SYMBOL_MBLOB))
    take_blob(scan, symbol);
  else if (!strcmp(name, BP_SYMBOL_LIBRARY_CTX))
    scan->library->context = BP_SYMBOL_LIBRARY_CTX;
  else if (!strcmp(name, BP_SYMBOL_MODULE_CTX) && symbol->size == sizeof(void *))
    scan->library->context = BP_SYMBOL_MODULE_CTX;
  else if (!strcmp(name, BP_SYMBOL_MAIN))
    take_main(scan, symbol);
  return 0;
}

static void scan_function(Scan *scan, const char *name) {
  const char *function = name + strlen(BP_SYMBOL_PREFIX);
  if (!starts_with(name, BP_SYMBOL_PREFIX)) {
    if (strcmp(name, "_init") && strcmp(name, "_fini")) {
      bp__write_raw(&scan->plain_functions, name, strlen(name) + 1);
      ++scan->num_plain_functions;
    }
  } else if (!starts_with(name, BP_SYMBOL_METADATA) && !starts_with(name, BP_SYMBOL_DOC)) {
    bp__write_raw(&scan->functions, function, strlen(function) + 1);
    ++scan->library->functions.count;
  }
}

static int scan_symbol(void *context, const BpElfSymbol *symbol) {
  Scan *scan = context;
  scan_convention(scan, symbol->name);
  if (!symbol->is_defined)
    return scan_undefined(scan, symbol);
  if (!symbol->is_function)
    return scan_variable(scan, symbol);
  scan_function(scan, symbol->name);
  return 0;
}

/* In the older convention all exported functions belong to the library's module. */
static int settle_convention(Scan *scan) {
  BpLibraryFile *library = scan->library;
  library->is_packed_c = scan->packed_c || (scan->of_either && !scan->modern);
  if (scan->packed_c && scan->modern)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "\"%s\" has both \"%s\", of TVM 0.19 or older, and \"%s\", of TVM 0.20 "
                          "or newer; compile all of it with one version",
                          library->path, scan->packed_c, scan->modern);
  if (library->is_packed_c) {
    BpWriter writer = scan->functions;
    scan->functions = scan->plain_functions;
    scan->plain_functions = writer;
    library->functions.count = scan->num_plain_functions;
  }
  return 0;
}

/* The blob is its length and that number of bytes, which must be inside its segment. */
static int parse_blob(BpLibraryFile *library, const BpByteArray *contents) {
  char what[256];
  uint64_t size;
  snprintf(what, sizeof what, "the blob of \"%.200s\"", library->path);
  BpReader reader = {contents->data, contents->size, 0, what};
  if (bp__read_count(&reader, 1, &size, "its length"))
    return -1;
  BpByteArray stream = {contents->data + reader.at, (size_t)size};
  const OldTvm *tvm = library->is_packed_c ? bp__old_tvm() : NULL;
  if (library->is_packed_c)
    return tvm ? tvm->parse_blob(&library->blob, &stream, what) : -1;
  return bp__blob_parse(&library->blob, &stream, what);
}

static int take_names(BpPackedNames *names, BpWriter *writer) {
  if (writer->failed)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the symbols of a library");
  names->text = writer->data;
  names->size = writer->size;
  writer->data = NULL;
  return 0;
}

static int has_slot_for(const BpLibraryFile *library, const char *name) {
  const char *slot = library->slots.text;
  for (size_t i = 0; i < library->slots.count; ++i, slot += strlen(slot) + 1)
    if (!strcmp(slot + strlen("__"), name))
      return 1;
  return 0;
}

/* Removes the functions for which there is a variable: libraries that Backplane exports request a
 * function in both ways. */
static int take_bindings(BpLibraryFile *library, BpWriter *writer) {
  if (writer->failed)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the symbols of a library");
  size_t count = library->num_bindings;
  library->bindings = (BpLibraryBinding *)(void *)writer->data;
  library->num_bindings = 0;
  writer->data = NULL;
  for (size_t i = 0; i < count; ++i)
    if (!has_slot_for(library, library->bindings[i].name))
      library->bindings[library->num_bindings++] = library->bindings[i];
  return 0;
}

static int check_use(const BpLibraryFile *library) {
  if (library->has_blob || library->functions.count)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%s\" is not a module: it exports no function%s and embeds no modules",
                        library->path, library->is_packed_c ? "" : " " BP_SYMBOL_PREFIX "NAME");
}

/* Loading a library runs its code. */
static int check_trust(const BpLibraryFile *library) {
  char *problem = bp__path_problem(library->path);
  int rc = 0;
  if (problem && bp__is_privileged())
    rc = bp_error_raise(
        BP_ERROR_VALUE,
        "\"%s\" is not loaded: %s, and this program runs with more rights than its user",
        library->path, problem);
  else if (problem)
    bp__log(BP_LOG_WARNING, "the library \"%s\": %s, and loading it is running it", library->path,
            problem);
  free(problem);
  return rc;
}

static int read_file(BpLibraryFile *library, Scan *scan) {
  if (!(library->file = map_file(library->path)) || check_trust(library))
    return -1;
  int needs = needs_library(library->file, library->path, BP_TVM_FFI_LIBRARY);
  if (needs < 0)
    return -1;
  scan->links_tvm_ffi = needs;
  if (visit_symbols(library->file, library->path, scan_symbol, scan) || settle_convention(scan) ||
      check_use(library) || take_names(&library->functions, &scan->functions) ||
      take_names(&library->slots, &scan->slots) || take_bindings(library, &scan->bindings))
    return -1;
  return library->has_blob ? parse_blob(library, &scan->blob) : 0;
}

int bp__library_file_read(BpLibraryFile *library, const char *path) {
  *library = (BpLibraryFile){.path = path};
  Scan scan = {.library = library};
  int rc = read_file(library, &scan);
  free(scan.functions.data);
  free(scan.plain_functions.data);
  free(scan.slots.data);
  free(scan.bindings.data);
  if (rc)
    bp__library_file_clear(library);
  return rc;
}

void bp__library_file_clear(BpLibraryFile *library) {
  bp__blob_clear(&library->blob);
  free(library->functions.text);
  free(library->slots.text);
  free(library->bindings);
  bp_object_release(library->file);
  *library = (BpLibraryFile){0};
}
