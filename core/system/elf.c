/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files with code for this process, read with libelf.
 *
 * The header is checked before libelf sees the file, since libelf allocates memory for as many
 * sections as the header says. */

#include "core/system/elf.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
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
#elif defined(__powerpc64__)
#define MACHINE      EM_PPC64
#define MACHINE_NAME "PowerPC64"
#elif defined(__loongarch64)
#define MACHINE      EM_LOONGARCH
#define MACHINE_NAME "LoongArch"
#else
#error "add this machine's EM_ constant"
#endif

#define SEGMENTS_MAX 256

const char *bp__elf_describe(BpElfFault fault) {
  static const char texts[][64] = {
      [BP_ELF_OK] = "is a shared object",
      [BP_ELF_UNREADABLE] = "cannot be read",
      [BP_ELF_NOT_ELF] = "is not an ELF file",
      [BP_ELF_NOT_SHARED] = "is an ELF file but no shared object",
      [BP_ELF_MALFORMED] = "has malformed ELF program headers, section headers or notes",
      [BP_ELF_TRUNCATED] = "is truncated: not all that its ELF headers name is in the file",
  };
  return fault == BP_ELF_OTHER_MACHINE ? "is for another machine; this one is " MACHINE_NAME
                                       : texts[fault];
}

/* ---- Headers ----------------------------------------------------------------------------- */

static int lies_inside(uint64_t offset, uint64_t size, uint64_t file_size) {
  return offset <= file_size && size <= file_size - offset;
}

/* With e_shnum 0, another place in the file has the number of sections, without a limit. */
static BpElfFault check_header(const Elf64_Ehdr *header, uint64_t file_size) {
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != MACHINE)
    return BP_ELF_OTHER_MACHINE;
  if (header->e_type != ET_DYN)
    return BP_ELF_NOT_SHARED;
  if (header->e_phentsize != sizeof(Elf64_Phdr) || !header->e_phnum ||
      header->e_phnum > SEGMENTS_MAX || (header->e_shoff && !header->e_shnum) ||
      (header->e_shnum && header->e_shentsize != sizeof(Elf64_Shdr)))
    return BP_ELF_MALFORMED;
  if (!lies_inside(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), file_size) ||
      !lies_inside(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), file_size))
    return BP_ELF_TRUNCATED;
  return BP_ELF_OK;
}

/* `size` is the number of available bytes of the header. */
static BpElfFault check_start(const Elf64_Ehdr *header, size_t size, uint64_t file_size) {
  if (size < SELFMAG || memcmp(header->e_ident, ELFMAG, SELFMAG))
    return BP_ELF_NOT_ELF;
  return size < sizeof *header ? BP_ELF_TRUNCATED : check_header(header, file_size);
}

/* Whether the loader maps or reads the segment. */
static int is_mapped(const GElf_Phdr *segment) {
  return segment->p_type == PT_LOAD || segment->p_type == PT_DYNAMIC || segment->p_type == PT_NOTE;
}

BpElfFault bp__elf_explain_failure(void) {
  return errno == EIO || errno == ENOMEM || errno == EINTR ? BP_ELF_UNREADABLE : BP_ELF_MALFORMED;
}

static BpElfFault check_segments(Elf *elf, uint64_t file_size) {
  size_t count;
  GElf_Phdr segment;
  errno = 0;
  if (elf_getphdrnum(elf, &count))
    return bp__elf_explain_failure();
  for (size_t i = 0; i < count; ++i) {
    if (!gelf_getphdr(elf, (int)i, &segment))
      return bp__elf_explain_failure();
    if (is_mapped(&segment) && !lies_inside(segment.p_offset, segment.p_filesz, file_size))
      return BP_ELF_TRUNCATED;
  }
  return BP_ELF_OK;
}

/* ---- Opening ----------------------------------------------------------------------------- */

static void start_libelf(void) {
  elf_version(EV_CURRENT);
}

static void start(void) {
  static pthread_once_t started = PTHREAD_ONCE_INIT;
  pthread_once(&started, start_libelf);
}

/* Returns `elf` if the file is valid. */
static Elf *finish(Elf *elf, uint64_t size, BpElfFault *fault) {
  *fault = elf ? check_segments(elf, size) : bp__elf_explain_failure();
  if (!*fault)
    return elf;
  elf_end(elf);
  return NULL;
}

Elf *bp__elf_open_memory(const void *data, size_t size, BpElfFault *fault) {
  Elf64_Ehdr header;
  size_t there = size < sizeof header ? size : sizeof header;
  memcpy(&header, data, there);
  if ((*fault = check_start(&header, there, size)))
    return NULL;
  start();
  errno = 0;
  return finish(elf_memory((char *)(uintptr_t)data, size), size, fault);
}

Elf *bp__elf_open(int fd, uint64_t size, BpElfFault *fault) {
  Elf64_Ehdr header;
  ssize_t there;
  do
    there = pread(fd, &header, sizeof header, 0);
  while (there < 0 && errno == EINTR);
  *fault = there < 0 ? BP_ELF_UNREADABLE : check_start(&header, (size_t)there, size);
  if (*fault)
    return NULL;
  start();
  errno = 0;
  return finish(elf_begin(fd, ELF_C_READ, NULL), size, fault);
}

BpElfFault bp__elf_check(int fd, uint64_t size) {
  BpElfFault fault;
  elf_end(bp__elf_open(fd, size, &fault));
  return fault;
}

void *bp__elf_load(const char *name, int flags, int *is_memory) {
  errno = 0;
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
  *is_memory = !library && errno == ENOMEM;
  return library;
}
