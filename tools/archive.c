/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npz archives: ZIP files whose members NAME.npy are stored or deflated. Archives are
 * untrusted: every offset and size is checked, and no member may claim more bytes than DEFLATE can
 * produce. */
#include "tools/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <backplane/graph/npy.h>
#include <backplane/module.h>

#define END_SIGNATURE     0x06054b50u
#define CENTRAL_SIGNATURE 0x02014b50u
#define LOCAL_SIGNATURE   0x04034b50u
#define END_SIZE          22
#define CENTRAL_SIZE      46
#define LOCAL_SIZE        30
#define MAX_COMMENT       65535
#define VERSION_NEEDED    20
#define FLAG_ENCRYPTED    1
#define FLAG_UTF8         0x800
#define STORED            0
#define DEFLATED          8
#define MAX_RATIO         1032 /* largest ratio of DEFLATE */
#define JANUARY_1980      0x21 /* the first date of ZIP: equal arrays give equal bytes */
#define SUFFIX            ".npy"

typedef struct Member {
  char *name; /* without ".npy" */
  int method;
  uint32_t crc;
  uint64_t packed, size; /* bytes */
  uint64_t start;        /* offset of its data */
} Member;

/* An open file: only the directory and the requested members are read. */
struct Npz {
  char *path;
  FILE *file;
  gsize size;
  GArray *members;
};

static int raise_bad(const Npz *npz, const char *what) {
  return bp_error_raise(BP_ERROR_FORMAT, "%s: not a usable .npz file: %s", npz->path, what);
}

/* ---- Numbers ----------------------------------------------------------------------------- */

static uint64_t get_number(const char *at, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++)
    number |= (uint64_t)(unsigned char)at[i] << (8 * i);
  return number;
}

static void put_number(GByteArray *out, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; i++) {
    guint8 byte = (guint8)(number >> (8 * i));
    g_byte_array_append(out, &byte, 1);
  }
}

/* ---- Reading ----------------------------------------------------------------------------- */

static void clear_member(void *member) {
  g_free(((Member *)member)->name);
}

void npz_close(Npz *npz) {
  if (!npz)
    return;
  g_array_unref(npz->members);
  if (npz->file)
    fclose(npz->file);
  g_free(npz->path);
  g_free(npz);
}

/* Reads a part of the file that is known to exist (transfer full, g_free); NULL with an error. */
static char *read_part(const Npz *npz, uint64_t start, uint64_t size) {
  char *part = g_try_malloc(MAX(size, 1));
  if (!part)
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for %" G_GUINT64_FORMAT " bytes", npz->path,
                   (guint64)size);
  if (!part ||
      (fseeko(npz->file, (off_t)start, SEEK_SET) == 0 && fread(part, 1, size, npz->file) == size))
    return part;
  bp_error_raise(BP_ERROR_IO, "%s: %s", npz->path, g_strerror(EIO));
  g_free(part);
  return NULL;
}

/* Finds the end record, which a comment may follow: the number of members, the offset of their
 * directory, and the offset of the record. */
static int find_end(const Npz *npz, uint64_t *count, uint64_t *directory, uint64_t *end) {
  uint64_t size = MIN(npz->size, END_SIZE + MAX_COMMENT);
  char *tail = read_part(npz, npz->size - size, size);
  if (!tail)
    return -1;
  uint64_t back = END_SIZE;
  while (back <= size && get_number(tail + size - back, 4) != END_SIGNATURE)
    back++;
  if (back <= size) {
    *count = get_number(tail + size - back + 10, 2);
    *directory = get_number(tail + size - back + 16, 4);
    *end = npz->size - back;
  }
  g_free(tail);
  return back <= size ? 0 : raise_bad(npz, "it has no ZIP directory at its end");
}

/* Returns where the data of a member begins, after its local header. */
static int locate_data(const Npz *npz, uint64_t header, Member *member) {
  gboolean is_within = header <= npz->size && npz->size - header >= LOCAL_SIZE;
  char *local = is_within ? read_part(npz, header, LOCAL_SIZE) : NULL;
  if (is_within && !local)
    return -1;
  gboolean is_header = local && get_number(local, 4) == LOCAL_SIGNATURE;
  if (is_header)
    member->start = header + LOCAL_SIZE + get_number(local + 26, 2) + get_number(local + 28, 2);
  g_free(local);
  if (!is_header)
    return raise_bad(npz, "a member has no header where the directory says");
  if (member->start > npz->size || npz->size - member->start < member->packed)
    return raise_bad(npz, "it is truncated within a member");
  return 0;
}

/* Reads one record of the directory, of `size` bytes, at *at, and advances *at to the next
 * record. */
static int read_record(Npz *npz, const char *directory, uint64_t size, uint64_t *at) {
  const char *record = directory + *at;
  Member member = {.name = NULL};
  if (size - *at < CENTRAL_SIZE || get_number(record, 4) != CENTRAL_SIGNATURE)
    return raise_bad(npz, "its directory is damaged");
  uint64_t name_size = get_number(record + 28, 2), flags = get_number(record + 8, 2);
  uint64_t rest = name_size + get_number(record + 30, 2) + get_number(record + 32, 2);
  if (size - *at - CENTRAL_SIZE < rest)
    return raise_bad(npz, "its directory is damaged");
  member.method = (int)get_number(record + 10, 2);
  member.crc = (uint32_t)get_number(record + 16, 4);
  member.packed = get_number(record + 20, 4);
  member.size = get_number(record + 24, 4);
  if (member.packed == G_MAXUINT32 || member.size == G_MAXUINT32)
    return raise_bad(npz, "a member is of 4 GiB or more; save it as .npy");
  if (flags & FLAG_ENCRYPTED)
    return raise_bad(npz, "a member is encrypted");
  if (locate_data(npz, get_number(record + 42, 4), &member) < 0)
    return -1;
  member.name = g_strndup(record + CENTRAL_SIZE, name_size);
  if (g_str_has_suffix(member.name, SUFFIX))
    member.name[strlen(member.name) - strlen(SUFFIX)] = '\0';
  g_array_append_val(npz->members, member);
  *at += CENTRAL_SIZE + rest;
  return 0;
}

static int read_directory(Npz *npz) {
  uint64_t count = 0, start = 0, end = 0, at = 0;
  if (find_end(npz, &count, &start, &end) < 0)
    return -1;
  if (start > end)
    return raise_bad(npz, "its directory is damaged");
  char *directory = read_part(npz, start, end - start);
  int status = directory ? 0 : -1;
  for (uint64_t i = 0; i < count && status == 0; i++)
    status = read_record(npz, directory, end - start, &at);
  g_free(directory);
  return status;
}

FILE *file_open(const char *path, gsize *size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* does not wait for a pipe */
  struct stat status;
  const char *why = NULL;
  if (fd < 0 || fstat(fd, &status) < 0)
    why = g_strerror(errno);
  else if (!S_ISREG(status.st_mode)) /* a pipe has no size to read */
    why = S_ISDIR(status.st_mode) ? g_strerror(EISDIR) : "it is not a regular file";
  FILE *file = why ? NULL : fdopen(fd, "rb");
  if (!why && !file)
    why = g_strerror(errno);
  if (why)
    bp_error_raise(BP_ERROR_IO, "%s: %s", path, why);
  else
    *size = (gsize)status.st_size;
  if (!file && fd >= 0)
    close(fd);
  return file;
}

char *file_read(const char *path, gsize *size) {
  FILE *file = file_open(path, size);
  char *data = file ? g_try_malloc(*size + 1) : NULL;
  if (file && !data)
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for %zu bytes", path, *size);
  if (data && fread(data, 1, *size, file) != *size) {
    bp_error_raise(BP_ERROR_IO, "%s: %s", path, g_strerror(EIO));
    g_clear_pointer(&data, g_free);
  }
  if (data)
    data[*size] = '\0';
  if (file)
    fclose(file);
  return data;
}

Npz *npz_open(const char *path) {
  Npz *npz = g_new0(Npz, 1);
  npz->path = g_strdup(path);
  npz->members = g_array_new(FALSE, FALSE, sizeof(Member));
  g_array_set_clear_func(npz->members, clear_member);
  npz->file = file_open(path, &npz->size);
  if (npz->file && read_directory(npz) == 0)
    return npz;
  npz_close(npz);
  return NULL;
}

guint npz_size(const Npz *npz) {
  return npz->members->len;
}

const char *npz_name(const Npz *npz, guint index) {
  return g_array_index(npz->members, Member, index).name;
}

/* Decompresses DEFLATE data (transfer full, g_free); NULL with an error. */
static char *inflate_member(const Npz *npz, const Member *member, char *packed) {
  char *file = g_try_malloc(MAX(member->size, 1));
  if (!file) {
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for %" G_GUINT64_FORMAT " bytes", npz->path,
                   (guint64)member->size);
    return NULL;
  }
  z_stream stream = {.next_in = (Bytef *)packed,
                     .avail_in = (uInt)member->packed,
                     .next_out = (Bytef *)file,
                     .avail_out = (uInt)member->size};
  int result = inflateInit2(&stream, -MAX_WBITS);
  if (result == Z_OK) {
    result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
  }
  if (result == Z_STREAM_END && stream.total_out == member->size)
    return file;
  raise_bad(npz, "a member is damaged: it does not unpack to its size");
  g_free(file);
  return NULL;
}

/* Returns the member's file (transfer full, g_free); NULL with an error. */
static char *unpack(const Npz *npz, const Member *member) {
  gboolean is_deflated = member->method == DEFLATED;
  if (!is_deflated && member->method != STORED) {
    raise_bad(npz, "a member is neither stored nor deflated; save it by numpy.savez");
    return NULL;
  }
  if (is_deflated ? member->size / MAX_RATIO > member->packed : member->size != member->packed) {
    raise_bad(npz, "a member claims more bytes than it has");
    return NULL;
  }
  char *file = read_part(npz, member->start, member->packed);
  if (file && is_deflated) {
    char *packed = file;
    file = inflate_member(npz, member, packed);
    g_free(packed);
  }
  if (!file || crc32_z(0, (const Bytef *)file, member->size) == member->crc)
    return file;
  raise_bad(npz, "a member is damaged: its checksum is wrong");
  g_free(file);
  return NULL;
}

BpTensor *npz_get(const Npz *npz, guint index) {
  const Member *member = &g_array_index(npz->members, Member, index);
  char *file = unpack(npz, member), *name = g_strdup_printf("%s[%s]", npz->path, member->name);
  BpTensor *tensor = file ? bp_npy_decode(&(BpByteArray){file, member->size}, name) : NULL;
  g_free(name);
  g_free(file);
  return tensor;
}

BpTensor *npz_read(const char *path, const char *name) {
  Npz *npz = npz_open(path);
  BpTensor *tensor = NULL;
  GPtrArray *names = g_ptr_array_new();                    /* borrowed from the archive */
  guint found = npz && npz_size(npz) == 1 ? 0 : G_MAXUINT; /* a single array needs no name */
  for (guint i = 0; npz && i < npz_size(npz); i++) {
    g_ptr_array_add(names, (char *)npz_name(npz, i));
    found = strcmp(npz_name(npz, i), name) == 0 ? i : found;
  }
  if (npz && found == G_MAXUINT) {
    char *list = names_join(names);
    bp_error_raise(BP_ERROR_NOT_FOUND, "%s: there is no array '%s'; it has: %s", path, name, list);
    g_free(list);
  } else if (npz) {
    tensor = npz_get(npz, found);
  }
  g_ptr_array_unref(names);
  npz_close(npz);
  return tensor;
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Writes the fields that a local header and a record of the directory share. */
static void put_about(GByteArray *out, const char *name, const BpOwnedBytes *file, uint32_t crc) {
  put_number(out, VERSION_NEEDED, 2);
  put_number(out, FLAG_UTF8, 2);
  put_number(out, STORED, 2);
  put_number(out, 0, 2);
  put_number(out, JANUARY_1980, 2);
  put_number(out, crc, 4);
  put_number(out, file->size, 4);
  put_number(out, file->size, 4);
  put_number(out, strlen(name), 2);
  put_number(out, 0, 2);
}

static int put_member(const char *path, const char *array, const BpTensorView *view,
                      GByteArray *out, GByteArray *directory) {
  BpOwnedBytes file;
  if (bp_npy_encode(view, &file) < 0)
    return bp_error_add_context("%s[%s]", path, array);
  guint start = out->len;
  char *name = g_strconcat(array, SUFFIX, NULL);
  int status = 0;
  if (strlen(name) > G_MAXUINT16)
    status = bp_error_raise(BP_ERROR_VALUE,
                            "%s: the name '%.40s...' has %zu bytes, and in an archive it has at "
                            "most %zu; give it a shorter one",
                            path, array, strlen(array), G_MAXUINT16 - strlen(SUFFIX));
  else if (file.size + start > G_MAXINT32)
    status = bp_error_raise(
        BP_ERROR_VALUE, "%s: an archive has at most 2 GiB; write .npy files into a folder", path);
  if (status == 0) {
    uint32_t crc = (uint32_t)crc32_z(0, (const Bytef *)file.data, file.size);
    put_number(out, LOCAL_SIGNATURE, 4);
    put_about(out, name, &file, crc);
    g_byte_array_append(out, (const guint8 *)name, (guint)strlen(name));
    g_byte_array_append(out, (const guint8 *)file.data, (guint)file.size);
    put_number(directory, CENTRAL_SIGNATURE, 4);
    put_number(directory, VERSION_NEEDED, 2);
    put_about(directory, name, &file, crc);
    put_number(directory, 0, 2 + 2 + 2); /* comment, disk, internal and external attributes */
    put_number(directory, 0, 4);
    put_number(directory, start, 4);
    g_byte_array_append(directory, (const guint8 *)name, (guint)strlen(name));
  }
  g_free(name);
  bp_owned_bytes_clear(&file);
  return status;
}

int npz_write(const char *path, const char *const *names, const BpTensorView *const *views,
              guint count) {
  if (count > G_MAXUINT16)
    return bp_error_raise(
        BP_ERROR_VALUE,
        "%s: an archive has at most %d arrays, and these are %u; write .npy files "
        "into a folder",
        path, G_MAXUINT16, count);
  GByteArray *out = g_byte_array_new(), *directory = g_byte_array_new();
  int status = 0;
  for (guint i = 0; i < count && status == 0; i++)
    status = put_member(path, names[i], views[i], out, directory);
  guint start = out->len;
  g_byte_array_append(out, directory->data, directory->len);
  put_number(out, END_SIGNATURE, 4);
  put_number(out, 0, 2 + 2);
  put_number(out, count, 2);
  put_number(out, count, 2);
  put_number(out, directory->len, 4);
  put_number(out, start, 4);
  put_number(out, 0, 2);
  if (status == 0)
    status = command_write_file(path, "the archive", (const char *)out->data, out->len);
  g_byte_array_unref(directory);
  g_byte_array_unref(out);
  return status;
}
