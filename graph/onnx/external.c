/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose elements lie in files beside the model. A file must be in the model's folder or
 * below it, on a path without links: a model is untrusted, and the contents of the files that it
 * names may be visible in a result. A tensor has exactly as many bytes as its shape and type
 * need. */
#include "graph/onnx/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/ops/op.h"

/* Tensors may share bytes of a file: all tensors together take at most MOST_SHARING times the bytes
 * of the files. */
#define MOST_SHARING 4
/* The alignment of elements that are used where they lie in a file. */
#define ALIGNMENT 64

/* A tensor whose elements are mapped. */
typedef struct OnnxMap {
  OnnxTensor *tensor;
  void *memory;
  size_t size;
} OnnxMap;

typedef struct Folder {
  const char *path; /* path of the model */
  int fd;           /* descriptor of the model's folder, or -1 */
  char *location;   /* location of the open file, or NULL */
  int file;
  uint64_t size;     /* size of the open file */
  GHashTable *known; /* OnnxFile::files */
  BpList *maps;      /* OnnxFile::maps */
  uint64_t held;     /* bytes of all files opened so far */
  uint64_t taken;    /* bytes of the tensors so far */
} Folder;

/* ---- Files ------------------------------------------------------------------------------- */

static int refuse(const Folder *folder, const char *tensor, const char *location, const char *why) {
  return bp_error_raise(BP_ERROR_FORMAT, "tensor '%s' has its data in '%s' beside '%s', which %s",
                        tensor, location, folder->path, why);
}

static int open_error(const Folder *folder, const char *tensor, const char *location) {
  if (errno == ELOOP || errno == ENOTDIR)
    return refuse(folder, tensor, location,
                  "is reached through a link or something that is no folder; links are not "
                  "followed: put the file itself into the model's folder");
  return bp_error_raise(BP_ERROR_IO, "cannot open '%s' beside '%s', the data of tensor '%s': %s",
                        location, folder->path, tensor, strerror(errno));
}

/* Opens a location, one component of its path after the other, and fails for a component that leads
 * out of the folder. Returns the descriptor, or -1 with an error. */
static int open_location(const Folder *folder, const char *tensor, const char *location) {
  char **parts = g_strsplit(location, "/", -1);
  int at = folder->fd, status = 0;
  for (int i = 0; parts[i] && !status; i++) {
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (parts[i + 1] ? O_DIRECTORY : O_NONBLOCK);
    if (!strcmp(parts[i], ".") && parts[i + 1])
      continue;
    if (!*parts[i] || !strcmp(parts[i], ".") || !strcmp(parts[i], "..")) {
      status = refuse(folder, tensor, location, "is no path below the model's folder");
      break;
    }
    int next = openat(at, parts[i], flags);
    if (next < 0)
      status = open_error(folder, tensor, location);
    if (at != folder->fd)
      close(at);
    at = next;
  }
  g_strfreev(parts);
  if (status && at >= 0 && at != folder->fd)
    close(at);
  return status ? -1 : at;
}

static void close_file(Folder *folder) {
  if (folder->location)
    close(folder->file);
  g_free(folder->location);
  folder->location = NULL;
}

static int open_folder(Folder *folder) {
  char *name = g_path_get_dirname(folder->path);
  folder->fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->fd < 0)
    bp_error_raise(BP_ERROR_IO, "cannot open '%s', the folder of the model: %s", name,
                   strerror(errno));
  g_free(name);
  return folder->fd < 0 ? -1 : 0;
}

/* Makes the file at a location the open file. */
static int open_file(Folder *folder, const char *tensor, const char *location) {
  struct stat status;
  if (folder->location && !strcmp(folder->location, location))
    return 0;
  close_file(folder);
  if (folder->fd < 0 && open_folder(folder))
    return -1;
  folder->file = open_location(folder, tensor, location);
  if (folder->file < 0)
    return -1;
  folder->location = g_strdup(location);
  if (fstat(folder->file, &status))
    return open_error(folder, tensor, location);
  if (!S_ISREG(status.st_mode))
    return refuse(folder, tensor, location, "is not a regular file");
  folder->size = (uint64_t)status.st_size;
  if (!g_hash_table_contains(folder->known, location)) {
    g_hash_table_insert(folder->known, g_strdup(location), g_memdup2(&status, sizeof(status)));
    folder->held += folder->size;
  }
  return 0;
}

static int read_bytes(const Folder *folder, const char *tensor, uint64_t offset, uint8_t *bytes,
                      uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    ssize_t got = pread(folder->file, bytes + done, size - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return bp_error_raise(BP_ERROR_IO, "cannot read '%s', the data of tensor '%s': %s",
                            folder->location, tensor, strerror(errno));
    if (got == 0)
      return refuse(folder, tensor, folder->location, "became shorter while it was read");
    done += (uint64_t)got;
  }
  return 0;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

/* The place of a tensor's data, as the model declares it. */
typedef struct Place {
  char *location; /* g_free */
  uint64_t offset, length;
  int has_length;
} Place;

static int read_number(const char *tensor, const char *key, const char *text, uint64_t *number) {
  char *end = NULL;
  errno = 0;
  if (text && g_ascii_isdigit(*text))
    *number = strtoull(text, &end, 10);
  if (!end || *end || errno || *number > INT64_MAX)
    return bp_error_raise(BP_ERROR_FORMAT, "tensor '%s' has the %s '%s', which is no number",
                          tensor, key, text);
  return 0;
}

/* Stores the value of an entry in the place; takes `value` over. */
static int set_entry(const char *tensor, const char *key, char *value, Place *place) {
  int status = 0;
  if (!strcmp(key, "location")) {
    g_free(place->location);
    place->location = value;
    return 0;
  }
  if (!strcmp(key, "offset"))
    status = read_number(tensor, key, value, &place->offset);
  else if (!strcmp(key, "length"))
    status = read_number(tensor, key, value, &place->length);
  place->has_length |= !strcmp(key, "length");
  g_free(value);
  return status;
}

static int read_place(const OnnxTensor *tensor, const char *name, Place *place) {
  for (size_t i = 0; i < tensor->n_external_data; i++) {
    const char *key = tensor->external_data[i]->key;
    const ProtobufCBinaryData *value = &tensor->external_data[i]->value;
    char *text = g_strndup((const char *)value->data, value->len);
    if (text && strlen(text) != value->len) {
      g_free(text);
      return bp_error_raise(BP_ERROR_FORMAT,
                            "tensor '%s' has its data in another file, and a NUL byte in the value "
                            "of '%s'",
                            name, key ? key : "");
    }
    if (set_entry(name, key ? key : "", text ? text : g_strdup(""), place))
      return -1;
  }
  if (!place->location || !*place->location || strlen(place->location) >= PATH_MAX ||
      !g_utf8_validate(place->location, -1, NULL))
    return bp_error_raise(
        BP_ERROR_FORMAT,
        "tensor '%s' has its data in another file, and does not say in which by a path", name);
  return 0;
}

/* The number of bytes that a tensor's shape and type need. */
static int needed_bytes(const OnnxTensor *tensor, const char *name, uint64_t *bytes) {
  BpDataType dtype;
  if (bp__dtype_from_onnx(tensor->data_type, &dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "tensor '%s' has type number %d, which is not supported", name,
                          tensor->data_type);
  uint64_t bits = dtype.bits; /* elements of less than a byte are packed */
  for (size_t i = 0; i < tensor->n_dims; i++)
    if (tensor->dims[i] < 0 || __builtin_mul_overflow(bits, (uint64_t)tensor->dims[i], &bits) ||
        bits > INT64_MAX)
      return bp_error_raise(BP_ERROR_FORMAT,
                            "tensor '%s' has an extent of %" PRId64 ", and is too large", name,
                            tensor->dims[i]);
  *bytes = (bits + 7) / 8;
  return 0;
}

/* Reads elements into memory of their own; NULL with an error. */
static uint8_t *read_elements(const Folder *folder, const char *name, uint64_t offset,
                              uint64_t bytes) {
  uint8_t *data = malloc(bytes ? bytes : 1);
  if (!data)
    bp_error_raise(BP_ERROR_MEMORY, "out of memory for the %" PRIu64 " bytes of tensor '%s'", bytes,
                   name);
  if (data && read_bytes(folder, name, offset, data, bytes)) {
    free(data);
    return NULL;
  }
  return data;
}

/* Maps elements; NULL, without an error, if the tensor is small, or if its bytes cannot be used
 * where they lie. */
static uint8_t *map_elements(Folder *folder, OnnxTensor *tensor, uint64_t offset, uint64_t bytes) {
  uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);
  OnnxMap map = {tensor, MAP_FAILED, (size_t)(before + bytes)}, *kept;
  if (bytes < BP_GRAPH_LARGE || offset % ALIGNMENT != 0)
    return NULL;
  map.memory = mmap(NULL, map.size, PROT_READ, MAP_PRIVATE, folder->file, (off_t)(offset - before));
  if (map.memory == MAP_FAILED)
    return NULL;
  kept = g_memdup2(&map, sizeof(map));
  if (!bp__list_push(folder->maps, kept))
    return (uint8_t *)map.memory + before;
  bp_error_clear();
  munmap(map.memory, map.size);
  g_free(kept);
  return NULL;
}

/* Checks that the model itself has no elements of the tensor: they may differ from the file's. */
static int check_alone(const OnnxTensor *tensor, const char *name) {
  size_t count = tensor->raw_data.len + tensor->n_float_data + tensor->n_int32_data +
                 tensor->n_int64_data + tensor->n_double_data + tensor->n_uint64_data;
  return count == 0 ? 0
                    : bp_error_raise(BP_ERROR_FORMAT,
                                     "tensor '%s' has its data both in the model and in another "
                                     "file; save the model again",
                                     name);
}

/* Opens the file of a place, and checks that the file has the tensor's bytes there. */
static int open_place(Folder *folder, const Place *place, const char *name, uint64_t bytes) {
  if (open_file(folder, name, place->location))
    return -1;
  if (place->has_length && place->length != bytes)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "tensor '%s' has %" PRIu64 " bytes in '%s' instead of %" PRIu64, name,
                          place->length, place->location, bytes);
  if (place->offset > folder->size || bytes > folder->size - place->offset)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "tensor '%s' has %" PRIu64 " bytes from %" PRIu64 " on of '%s', which "
                          "has %" PRIu64,
                          name, bytes, place->offset, place->location, folder->size);
  if (__builtin_add_overflow(folder->taken, bytes, &folder->taken) ||
      folder->taken / MOST_SHARING > folder->held)
    return refuse(folder, name, place->location, "its tensors read again and again");
  return 0;
}

static int load_tensor(Folder *folder, OnnxTensor *tensor, const char *name) {
  Place place = {0};
  uint64_t bytes = 0;
  uint8_t *data = NULL;
  if (tensor->data_location == 0)
    return 0;
  name = name && g_utf8_validate(name, -1, NULL) ? name : "";
  int status = check_alone(tensor, name) || read_place(tensor, name, &place) ||
                       needed_bytes(tensor, name, &bytes) || open_place(folder, &place, name, bytes)
                   ? -1
                   : 0;
  g_free(place.location);
  if (!status && !(data = map_elements(folder, tensor, place.offset, bytes)))
    data = read_elements(folder, name, place.offset, bytes);
  if (!data)
    return -1;
  free(tensor->raw_data.data);
  tensor->raw_data = (ProtobufCBinaryData){bytes, data};
  tensor->has_raw_data = 1;
  tensor->data_location = 0;
  return 0;
}

/* ---- Models ------------------------------------------------------------------------------ */

static int load_attributes(Folder *folder, const OnnxNode *node) {
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i]->t && load_tensor(folder, node->attribute[i]->t, node->name))
      return -1;
  return 0;
}

static int load_all(Folder *folder, const OnnxModel *model) {
  for (size_t i = 0; i < model->graph->n_initializer; i++)
    if (load_tensor(folder, model->graph->initializer[i], model->graph->initializer[i]->name))
      return -1;
  for (size_t i = 0; i < model->graph->n_node; i++)
    if (load_attributes(folder, model->graph->node[i]))
      return -1;
  return 0;
}

static void close_folder(Folder *folder) {
  close_file(folder);
  if (folder->fd >= 0)
    close(folder->fd);
}

int bp__onnx_open_file(const char *path, OnnxFile *file) {
  *file = (OnnxFile){.path = path, .model = bp__onnx_read(path)};
  if (!file->model)
    return -1;
  file->files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  Folder folder = {.path = path, .fd = -1, .known = file->files, .maps = &file->maps};
  int status = load_all(&folder, file->model);
  file->was_mapped = file->maps.size > 0;
  close_folder(&folder);
  return status;
}

static int check_file(Folder *folder, const char *location, const struct stat *then) {
  struct stat now;
  int file = open_location(folder, "", location);
  if (file < 0)
    return -1;
  int is_same = !fstat(file, &now) && now.st_ino == then->st_ino && now.st_dev == then->st_dev &&
                now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
  close(file);
  return is_same ? 0
                 : bp_error_raise(BP_ERROR_IO, "'%s' beside '%s' changed while it was read",
                                  location, folder->path);
}

int bp__onnx_check_files(const OnnxFile *file) {
  Folder folder = {.path = file->path, .fd = -1};
  GHashTableIter files;
  gpointer location, then;
  int status = 0;
  if (!file->was_mapped)
    return 0;
  g_hash_table_iter_init(&files, file->files);
  if (open_folder(&folder))
    return -1;
  while (!status && g_hash_table_iter_next(&files, &location, &then))
    status = check_file(&folder, location, then);
  close_folder(&folder);
  return status;
}

void bp__onnx_unmap(OnnxFile *file, const BpList *live) {
  size_t kept = 0;
  for (size_t i = 0; i < file->maps.size; i++) {
    OnnxMap *map = file->maps.items[i];
    if (live && bp__live_has(live, map->memory, map->size)) {
      file->maps.items[kept++] = map;
      continue;
    }
    munmap(map->memory, map->size);
    map->tensor->raw_data = (ProtobufCBinaryData){0};
    g_free(map);
  }
  file->maps.size = kept;
}

void bp__onnx_close_file(OnnxFile *file) {
  bp__onnx_unmap(file, NULL);
  bp__list_free(&file->maps);
  bp__onnx_free(file->model);
  if (file->files)
    g_hash_table_destroy(file->files);
  *file = (OnnxFile){0};
}
