/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a shared library's file, with libelf. */

#include "core/module/elf_file.h"

#include "core/registry/object.h"
#include "core/system/file.h"

#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE      EM_X86_64
#define MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define MACHINE      EM_AARCH64
#define MACHINE_NAME "AArch64"
#elif defined(__riscv)
#define MACHINE      EM_RISCV
#define MACHINE_NAME "RISC-V"
#else
#error "the layouts of this ABI are those of 64-bit little-endian machines"
#endif

/* ---- Mapping ----------------------------------------------------------------------------- */

/* Mappings begin and end in whole pages, as the kernel makes them: of a page that ends in part the
 * thread sanitizer keeps what was done there, and blames who gets the address next. */
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

static int damaged(const Library *library, const char *what) {
  return bp_error_raise(BP_ERROR_FORMAT, "\"%s\" is no usable shared library: %s", library->path,
                        what);
}

static int check_header(const Library *library) {
  GElf_Ehdr header;
  if (elf_kind(library->elf) != ELF_K_ELF || !gelf_getehdr(library->elf, &header))
    return damaged(library, "it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != MACHINE)
    return damaged(library, "it was built for another machine; this one is " MACHINE_NAME);
  if (header.e_type != ET_DYN)
    return damaged(library, "it is an executable or an object file");
  return 0;
}

/* The loader of the C library maps segments without looking at the file's size, and a missing page
 * kills the process. */
static int check_segments(const Library *library) {
  size_t count;
  GElf_Phdr segment;
  if (elf_getphdrnum(library->elf, &count) || !count)
    return damaged(library, "its program headers are missing; the file is truncated or damaged");
  for (size_t i = 0; i < count; ++i) {
    if (!gelf_getphdr(library->elf, (int)i, &segment))
      return damaged(library, "its program headers are cut off; the file is truncated or damaged");
    if (segment.p_offset > library->file->size ||
        segment.p_filesz > library->file->size - segment.p_offset)
      return damaged(library, "a segment lies beyond its end; the file is truncated or damaged");
  }
  return 0;
}

/* The file's bytes from a virtual address to the end of its segment. */
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
    return damaged(library, "its dynamic symbol table is cut off");
  GElf_Sym symbol;
  for (int i = 0; gelf_getsym(data, i, &symbol); ++i) {
    int type = GELF_ST_TYPE(symbol.st_info);
    int is_defined = symbol.st_shndx != SHN_UNDEF;
    const char *name = elf_strptr(library->elf, header->sh_link, symbol.st_name);
    if (!name)
      return damaged(library, "a symbol's name lies outside the file");
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
  if (check_header(library) || check_segments(library))
    return -1;
  GElf_Shdr header;
  for (Elf_Scn *section = NULL; (section = elf_nextscn(library->elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
      return visit_table(library, section, &header, visit, context);
  return damaged(library, "it has no dynamic symbol table; the file is truncated or stripped");
}

static void start_libelf(void) {
  elf_version(EV_CURRENT);
}

static Elf *open_elf(const BpMappedFile *file) {
  static pthread_once_t started = PTHREAD_ONCE_INIT;
  pthread_once(&started, start_libelf);
  return elf_memory((char *)(uintptr_t)file->data, file->size);
}

int bp__elf_visit_symbols(const BpMappedFile *file, const char *path,
                          int (*visit)(void *context, const BpElfSymbol *symbol), void *context) {
  Library library = {file, path, open_elf(file)};
  if (!library.elf)
    return damaged(&library, "it is no ELF file");
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

int bp__elf_needs(const BpMappedFile *file, const char *prefix) {
  Elf *elf = open_elf(file);
  GElf_Shdr header;
  int needs = 0;
  for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));)
    if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC)
      needs |= section_needs(elf, section, &header, prefix);
  elf_end(elf);
  return needs;
}
