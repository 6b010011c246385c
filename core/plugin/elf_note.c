/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded reader of ELF program headers and notes. It looks at nothing but what finds the note,
 * and at how long the file must be for the loader to map it; every offset is checked against the
 * file's size. */

#include "core/plugin/elf_note.h"

#include "core/plugin/reasons.h"

#include <backplane/error.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if UINTPTR_MAX == UINT64_MAX
#define HOST_CLASS ELFCLASS64
#define ElfHeader  Elf64_Ehdr
#define ElfSegment Elf64_Phdr
#else
#define HOST_CLASS ELFCLASS32
#define ElfHeader  Elf32_Ehdr
#define ElfSegment Elf32_Phdr
#endif
/* The note header is the same in both classes. */
#define ElfNote Elf64_Nhdr

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST_DATA ELFDATA2LSB
#else
#define HOST_DATA ELFDATA2MSB
#endif

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__i386__)
#define HOST_MACHINE EM_386
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#elif defined(__arm__)
#define HOST_MACHINE EM_ARM
#elif defined(__riscv)
#define HOST_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define HOST_MACHINE EM_PPC64
#elif defined(__s390x__)
#define HOST_MACHINE EM_S390
#elif defined(__loongarch__)
#define HOST_MACHINE EM_LOONGARCH
#else
#error "add this machine's EM_ constant"
#endif

#define SEGMENTS_MAX 256
#define NOTES_MAX    (1u << 20)

typedef struct Reader {
  int fd;
  uint64_t file_size;
  uint64_t head_size; /* how much of the file `head` holds */
  _Alignas(16) char head[4096];
} Reader;

typedef struct NoteWanted {
  const char *owner;
  uint32_t type;
  uint64_t max_size;
} NoteWanted;

static int read_file(int fd, uint64_t offset, void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return bp__reason_raise(errno == ENOMEM ? REASON_RESOURCES : REASON_FILE_UNREADABLE,
                              "cannot be read: %s", strerror(errno));
    if (got == 0)
      return bp__reason_raise(REASON_FILE_TRUNCATED, "became shorter while it was read");
    done += (size_t)got;
  }
  return 0;
}

static int lies_inside(const Reader *reader, uint64_t offset, uint64_t size) {
  return offset <= reader->file_size && size <= reader->file_size - offset;
}

/* The one way to the file's bytes. */
static int read_at(const Reader *reader, uint64_t offset, void *data, size_t size) {
  if (!lies_inside(reader, offset, size))
    return bp__reason_raise(REASON_FILE_TRUNCATED, "is truncated: it ends before byte %llu",
                            (unsigned long long)(offset + size));
  if (offset + size <= reader->head_size) {
    memcpy(data, reader->head + offset, size);
    return 0;
  }
  return read_file(reader->fd, offset, data, size);
}

static int read_header(const Reader *reader, ElfHeader *header) {
  if (reader->file_size < SELFMAG || memcmp(reader->head, ELFMAG, SELFMAG))
    return bp__reason_raise(REASON_FILE_NOT_ELF, "is not an ELF file");
  if (read_at(reader, 0, header, sizeof *header))
    return -1;
  if (header->e_ident[EI_CLASS] != HOST_CLASS || header->e_ident[EI_DATA] != HOST_DATA ||
      header->e_machine != HOST_MACHINE)
    return bp__reason_raise(
        REASON_OTHER_ARCHITECTURE,
        "is for another machine (ELF class %d, machine %d; this process has %d, "
        "%d); install the package for this architecture",
        header->e_ident[EI_CLASS], header->e_machine, HOST_CLASS, HOST_MACHINE);
  if (header->e_type != ET_DYN)
    return bp__reason_raise(REASON_FILE_NOT_SHARED, "is an ELF file but no shared object");
  if (header->e_phentsize != sizeof(ElfSegment) || header->e_phnum == 0 ||
      header->e_phnum > SEGMENTS_MAX)
    return bp__reason_raise(REASON_FILE_MALFORMED, "has malformed ELF program headers");
  if (!lies_inside(reader, header->e_shoff, (uint64_t)header->e_shnum * header->e_shentsize))
    return bp__reason_raise(REASON_FILE_TRUNCATED,
                            "is truncated: its section headers lie beyond its end");
  return 0;
}

/* Whether the note at `position` is wanted. */
static int is_wanted(const Reader *reader, const ElfNote *note, uint64_t position,
                     const NoteWanted *wanted) {
  size_t length = strlen(wanted->owner) + 1;
  char owner[32];
  if (note->n_type != wanted->type || note->n_namesz != length || length > sizeof owner)
    return 0;
  if (read_at(reader, position + sizeof *note, owner, length))
    return -1;
  return !memcmp(owner, wanted->owner, length);
}

static int read_body(const Reader *reader, uint64_t offset, uint64_t size, const NoteWanted *wanted,
                     char **text, size_t *text_size) {
  if (size == 0 || size > wanted->max_size)
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                            "has a descriptor of %llu bytes; 1 to %llu are allowed",
                            (unsigned long long)size, (unsigned long long)wanted->max_size);
  char *body = malloc((size_t)size);
  if (!body)
    return bp__reason_raise(REASON_RESOURCES, "there is no memory for its descriptor");
  if (read_at(reader, offset, body, (size_t)size)) {
    free(body);
    return -1;
  }
  *text = body;
  *text_size = (size_t)size;
  return 0;
}

static uint64_t round_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/* Walks the notes of one segment; stops at the first that is wanted. */
static int search_segment(const Reader *reader, const ElfSegment *segment, const NoteWanted *wanted,
                          char **text, size_t *size) {
  uint64_t alignment = segment->p_align == 8 ? 8 : 4;
  if (segment->p_filesz > NOTES_MAX)
    return bp__reason_raise(REASON_FILE_MALFORMED,
                            "has notes of %llu bytes; at most %u are allowed",
                            (unsigned long long)segment->p_filesz, NOTES_MAX);
  uint64_t end = segment->p_offset + segment->p_filesz;
  for (uint64_t position = segment->p_offset; position + sizeof(ElfNote) <= end;) {
    ElfNote note;
    if (read_at(reader, position, &note, sizeof note))
      return -1;
    uint64_t body = round_up(position + sizeof note + note.n_namesz, alignment);
    if (body > end || note.n_descsz > end - body)
      return bp__reason_raise(REASON_FILE_MALFORMED, "has a malformed note at byte %llu",
                              (unsigned long long)position);
    int found = is_wanted(reader, &note, position, wanted);
    if (found)
      return found < 0 ? -1 : read_body(reader, body, note.n_descsz, wanted, text, size);
    position = round_up(body + note.n_descsz, alignment);
  }
  return 0;
}

/* A segment that the loader maps must lie in the file: touching what is mapped beyond its end would
 * kill the process. */
static int check_segment(const Reader *reader, const ElfSegment *segment) {
  if (segment->p_type != PT_LOAD && segment->p_type != PT_DYNAMIC && segment->p_type != PT_NOTE)
    return 0;
  if (lies_inside(reader, segment->p_offset, segment->p_filesz))
    return 0;
  return bp__reason_raise(REASON_FILE_TRUNCATED, "is truncated: a segment ends beyond byte %llu",
                          (unsigned long long)reader->file_size);
}

static int search_segments(const Reader *reader, const ElfHeader *header, const NoteWanted *wanted,
                           char **text, size_t *size) {
  for (unsigned i = 0; i < header->e_phnum; i++) {
    ElfSegment segment;
    if (header->e_phoff > reader->file_size)
      return bp__reason_raise(REASON_FILE_TRUNCATED, "is truncated: no program headers");
    if (read_at(reader, header->e_phoff + i * sizeof segment, &segment, sizeof segment) ||
        check_segment(reader, &segment))
      return -1;
    if (segment.p_type == PT_NOTE && !*text && search_segment(reader, &segment, wanted, text, size))
      return -1;
  }
  return 0;
}

int bp__elf_note_read(int fd, uint64_t file_size, const char *owner, uint32_t type,
                      uint64_t max_size, char **text, size_t *size) {
  *text = NULL;
  *size = 0;
  Reader reader;
  reader.fd = fd;
  reader.file_size = file_size;
  reader.head_size = file_size < sizeof reader.head ? file_size : sizeof reader.head;
  if (read_file(fd, 0, reader.head, reader.head_size))
    return -1;
  ElfHeader header;
  NoteWanted wanted = {owner, type, max_size};
  if (read_header(&reader, &header))
    return -1;
  if (search_segments(&reader, &header, &wanted, text, size)) {
    free(*text);
    *text = NULL;
    return -1;
  }
  return 0;
}
