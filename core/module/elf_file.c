/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a shared library's file, with libelf. */

#include "core/module/elf_file.h"

#include "core/registry/object.h"
#include "core/system/elf.h"
#include "core/system/file.h"

#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
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

BpMappedFile *bp__file_map(const char *path) {
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

typedef struct Library {
  const BpMappedFile *file;
  const char *path;
  Elf *elf;
} Library;

/* Raises the error for a failure of libelf; errno was cleared when the file was opened. */
static int damaged(const Library *library, const char *what) {
  if (errno == ENOMEM)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to read \"%s\"", library->path);
  return bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is not a usable shared library: it %s",
                        library->path, what);
}

/* Returns the file's bytes from a virtual address to the end of the address's segment. */
static BpByteArray contents_at(const Library *library, uint64_t address) {
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

static int visit_table(const Library *library, Elf_Scn *section, const GElf_Shdr *header,
                       int (*visit)(void *, const BpElfSymbol *), void *context) {
  Elf_Data *data = elf_getdata(section, NULL);
  if (!data || header->sh_entsize != sizeof(Elf64_Sym))
    return damaged(library, "has a dynamic symbol table that is cut off");
  GElf_Sym symbol;
  for (int i = 0; gelf_getsym(data, i, &symbol); ++i) {
    int type = GELF_ST_TYPE(symbol.st_info);
    int is_defined = symbol.st_shndx != SHN_UNDEF;
    const char *name = elf_strptr(library->elf, header->sh_link, symbol.st_name);
    if (!name)
      return damaged(library, "has a symbol whose name lies outside the file");
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

static int visit_library(const Library *library, int (*visit)(void *, const BpElfSymbol *),
                         void *context) {
  GElf_Shdr header;
  for (Elf_Scn *section = NULL; (section = elf_nextscn(library->elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
      return visit_table(library, section, &header, visit, context);
  return damaged(library, "has no dynamic symbol table; the file is truncated or stripped");
}

int bp__elf_visit_symbols(const BpMappedFile *file, const char *path,
                          int (*visit)(void *context, const BpElfSymbol *symbol), void *context) {
  BpElfFault fault;
  Library library = {file, path, bp__elf_open_memory(file->data, file->size, &fault)};
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

int bp__elf_needs(const BpMappedFile *file, const char *path, const char *prefix) {
  BpElfFault fault;
  Library library = {file, path, bp__elf_open_memory(file->data, file->size, &fault)};
  GElf_Shdr header;
  int needs = 0;
  if (!library.elf)
    return damaged(&library, bp__elf_describe(fault));
  for (Elf_Scn *section = NULL; (section = elf_nextscn(library.elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC)
      needs |= section_needs(library.elf, section, &header, prefix);
  if (errno == ENOMEM)
    needs = damaged(&library, "");
  elf_end(library.elf);
  return needs;
}
