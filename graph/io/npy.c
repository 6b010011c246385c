/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes NumPy's .npy files. The header is a Python dictionary literal with three known
 * keys; only the forms that NumPy writes are accepted. */
#include <backplane/graph/npy.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/io/argument.h"
#include "graph/io/npy.h"
#include "graph/io/write.h"

#define MAGIC              "\x93NUMPY"
#define MAGIC_SIZE         6
#define START_SIZE         (MAGIC_SIZE + 4) /* magic, version, and length of the header */
#define MAX_HEADER         65536
#define MAX_WRITTEN_HEADER 2048
#define MAX_NDIM           32
#define ALIGNMENT          64
#define MAX_ELEMENT        16

/* Element types by NumPy's letter. A DLPack type that NumPy lacks has no letter. */
static const struct {
  char letter;
  uint8_t code;
} letters[] = {
    {'i', BP_DTYPE_INT},  {'u', BP_DTYPE_UINT},    {'f', BP_DTYPE_FLOAT},
    {'b', BP_DTYPE_BOOL}, {'c', BP_DTYPE_COMPLEX},
};

typedef struct NpyHeader {
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[MAX_NDIM];
} NpyHeader;

static int bad_file(const char *path, const char *what) {
  return bp_error_raise(BP_ERROR_FORMAT, "%s: not a usable .npy file: %s", path, what);
}

/* ---- Header ------------------------------------------------------------------------------ */

static int parse_descr(const char *path, const char *text, BpDataType *dtype) {
  const char *quote = strchr(text, '\'');
  const char *end = quote ? strchr(quote + 1, '\'') : NULL;
  if (!end || end - quote > 8 || end - quote < 4)
    return bad_file(path,
                    "'descr' is not a plain element type (structured types are not supported)");
  char order = quote[1];
  long bytes = strtol(quote + 3, NULL, 10);
  if (order == '>' && bytes > 1)
    return bad_file(path,
                    "big-endian elements; save it with arr.astype(arr.dtype.newbyteorder('<'))");
  if (!strchr("<|=>", order) || bytes < 1 || bytes > MAX_ELEMENT)
    return bad_file(path, "'descr' has an unknown form");
  for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
    if (letters[i].letter == quote[2]) {
      *dtype = (BpDataType){letters[i].code, (uint8_t)(bytes * 8), 1};
      return 0;
    }
  return bad_file(path, "elements of this type are not supported");
}

static int parse_shape(const char *path, const char *text, NpyHeader *header) {
  const char *cursor = strchr(text, '(');
  if (!cursor)
    return bad_file(path, "'shape' is not a tuple");
  for (cursor++;;) {
    cursor += strspn(cursor, " ,");
    if (*cursor == ')')
      return 0;
    char *end;
    errno = 0;
    long long extent = strtoll(cursor, &end, 10);
    if (end == cursor || errno || extent < 0)
      return bad_file(path, "'shape' has an extent that is no number");
    if (header->ndim == MAX_NDIM)
      return bad_file(path, "more than 32 dimensions");
    header->shape[header->ndim++] = extent;
    cursor = end;
  }
}

static int parse_dictionary(const char *path, const char *text, NpyHeader *header) {
  const char *descr = strstr(text, "'descr':");
  const char *order = strstr(text, "'fortran_order':");
  const char *shape = strstr(text, "'shape':");
  if (!descr || !order || !shape)
    return bad_file(path, "the header lacks 'descr', 'fortran_order' or 'shape'");
  order += strlen("'fortran_order':");
  order += strspn(order, " ");
  if (strncmp(order, "False", 5) != 0)
    return bad_file(path, "Fortran order; save it with numpy.ascontiguousarray");
  if (parse_descr(path, descr + strlen("'descr':"), &header->dtype) < 0)
    return -1;
  return parse_shape(path, shape + strlen("'shape':"), header);
}

static int read_header(const char *path, FILE *file, NpyHeader *header) {
  unsigned char head[MAGIC_SIZE + 6];
  size_t got = fread(head, 1, MAGIC_SIZE + 4, file);
  if (ferror(file))
    return bp_error_raise(BP_ERROR_IO, "%s: %s", path, strerror(errno));
  if (got != MAGIC_SIZE + 4 || memcmp(head, MAGIC, MAGIC_SIZE) != 0)
    return bad_file(path, "it does not begin with NumPy's magic string");
  unsigned major = head[MAGIC_SIZE];
  uint32_t size = head[8] | (uint32_t)head[9] << 8;
  if (major < 1 || major > 3)
    return bad_file(path, "its format version is not 1, 2 or 3");
  if (major > 1) {
    if (fread(head + 10, 1, 2, file) != 2)
      return bad_file(path, "it ends within the header");
    size |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
  }
  if (size > MAX_HEADER)
    return bad_file(path, "its header is longer than 64 KiB");
  char *text = calloc(1, (size_t)size + 1);
  if (!text)
    return bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for its header", path);
  int status = fread(text, 1, size, file) == size ? parse_dictionary(path, text, header)
                                                  : bad_file(path, "it ends within the header");
  free(text);
  return status;
}

/* ---- Reading and writing ----------------------------------------------------------------- */

/* Fails, before memory is allocated, if a file of `size` bytes is too short for its shape. */
static int check_size(const char *path, FILE *file, int64_t size, const NpyHeader *header,
                      int64_t *bytes) {
  BpTensorView view = {
      .ndim = header->ndim, .dtype = header->dtype, .shape = (int64_t *)header->shape};
  long start = ftell(file);
  *bytes = bp_view_num_bytes(&view);
  if (*bytes < 0)
    return bp_error_add_context("%s", path);
  if (start < 0)
    return bp_error_raise(BP_ERROR_IO, "%s: %s", path, strerror(errno));
  if (size - start < *bytes)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "%s: truncated: its header promises %" PRId64
                          " bytes of elements and %" PRId64 " are there",
                          path, *bytes, size - start);
  return 0;
}

static BpTensor *read_tensor(const char *path, FILE *file, int64_t size) {
  NpyHeader header = {.ndim = 0};
  int64_t bytes;
  if (read_header(path, file, &header) < 0 || check_size(path, file, size, &header, &bytes) < 0)
    return NULL;
  BpTensor *tensor =
      bp_tensor_create(header.shape, header.ndim, header.dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    return NULL;
  if (fread(tensor->view.data, 1, (size_t)bytes, file) != (size_t)bytes) {
    bad_file(path, "it ends within the elements");
    bp_object_release(tensor);
    return NULL;
  }
  return tensor;
}

/* Opens a regular file, without waiting for the writer of a pipe. NULL with an error. */
static FILE *open_regular(const char *path, int64_t *size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;
  FILE *file = NULL;
  if (fd < 0 || fstat(fd, &status) < 0)
    bp_error_raise(BP_ERROR_IO, "%s: %s", path, strerror(errno));
  else if (!S_ISREG(status.st_mode))
    bp_error_raise(BP_ERROR_IO, "%s: %s", path,
                   S_ISDIR(status.st_mode) ? strerror(EISDIR) : "it is not a regular file");
  else if (!(file = fdopen(fd, "rb")))
    bp_error_raise(BP_ERROR_IO, "%s: %s", path, strerror(errno));
  else
    *size = status.st_size;
  if (!file && fd >= 0)
    close(fd);
  return file;
}

BpTensor *bp_npy_read(const char *path) {
  int64_t size = 0;
  FILE *file = BP_NOT_NULL(path) ? open_regular(path, &size) : NULL;
  BpTensor *tensor = file ? read_tensor(path, file, size) : NULL;
  if (file)
    fclose(file);
  return tensor;
}

BpTensor *bp_npy_decode(const BpByteArray *bytes, const char *name) {
  if (!BP_NOT_NULL(bytes) || !BP_NOT_NULL(name))
    return NULL;
  if (bytes->size == 0) { /* some C libraries cannot open a stream of zero bytes */
    bad_file(name, "it is empty");
    return NULL;
  }
  FILE *file = fmemopen((void *)bytes->data, bytes->size, "rb"); /* the stream only reads */
  if (!file) {
    bp_error_raise(BP_ERROR_MEMORY, "%s: %s", name, strerror(errno));
    return NULL;
  }
  BpTensor *tensor = read_tensor(name, file, (int64_t)bytes->size);
  fclose(file);
  return tensor;
}

/* Formats the bytes before the elements, so that the elements start at a multiple of ALIGNMENT;
 * returns the number of formatted bytes. */
static int format_header(const BpTensorView *tensor, char *text, size_t size) {
  char letter = 0;
  for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
    if (letters[i].code == tensor->dtype.code)
      letter = letters[i].letter;
  if (!letter || tensor->dtype.lanes != 1 || tensor->dtype.bits % 8 || tensor->ndim > MAX_NDIM) {
    char dtype[32];
    bp_dtype_format(tensor->dtype, dtype, sizeof dtype);
    return bp_error_raise(BP_ERROR_TYPE, "NumPy's format has no place for %s elements", dtype);
  }
  int bytes = tensor->dtype.bits / 8;
  int used =
      snprintf(text, size, MAGIC "\1%c%c%c{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
               0, 0, 0, bytes == 1 ? '|' : '<', letter, bytes);
  for (int32_t i = 0; i < tensor->ndim; i++)
    used += snprintf(text + used, size - (size_t)used, "%" PRId64 ",%s", tensor->shape[i],
                     i + 1 < tensor->ndim ? " " : "");
  used += snprintf(text + used, size - (size_t)used, "), }");
  int padded = (used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  int length = padded - START_SIZE;
  memset(text + used, ' ', (size_t)(padded - used));
  text[padded - 1] = '\n';
  text[START_SIZE - 2] = (char)(length & 0xff);
  text[START_SIZE - 1] = (char)(length >> 8);
  return padded;
}

/* Encodes a tensor as the bytes of a file (transfer full, free) and sets *size; NULL with an
 * error. */
static char *encode(const BpTensorView *tensor, size_t *size) {
  char header[MAX_WRITTEN_HEADER];
  int head = format_header(tensor, header, sizeof header);
  int64_t bytes = bp_view_num_bytes(tensor);
  if (head < 0 || bytes < 0)
    return NULL;
  *size = (size_t)head + (size_t)bytes;
  char *file = malloc(*size);
  if (!file) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu bytes", *size);
    return NULL;
  }
  memcpy(file, header, (size_t)head);
  if (bp_tensor_copy_to_host(tensor, file + head, (uint64_t)bytes) == 0)
    return file;
  free(file);
  return NULL;
}

int bp_npy_write(const char *path, const BpTensorView *tensor) {
  size_t size;
  if (!BP_NOT_NULL(path) || !BP_NOT_NULL(tensor))
    return -1;
  char *file = encode(tensor, &size);
  if (!file)
    return bp_error_add_context("%s", path);
  int rc = bp__write_file(path, file, size);
  free(file);
  return rc;
}

int bp__npy_replace(const char *path, const BpTensorView *tensor) {
  int may = bp__may_replace(path, MAGIC);
  if (!may)
    return bp_error_raise(BP_ERROR_IO,
                          "%s is no .npy file and would be replaced; remove the file first, or "
                          "choose another folder",
                          path);
  return may < 0 ? -1 : bp_npy_write(path, tensor);
}

int bp_npy_encode(const BpTensorView *tensor, BpOwnedBytes *bytes) {
  size_t size;
  if (!BP_NOT_NULL(tensor) || !BP_NOT_NULL(bytes))
    return -1;
  char *file = encode(tensor, &size);
  if (!file)
    return -1;
  *bytes = (BpOwnedBytes){file, size, free};
  return 0;
}

char *bp_npy_file_name(const char *name, uint32_t index) {
  if (!BP_NOT_NULL(name))
    return NULL;
  char number[16] = "";
  if (index)
    snprintf(number, sizeof number, ".%u", index);
  size_t size = strlen(name) + sizeof number + sizeof ".npy";
  char *file = malloc(size);
  if (!file) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a file name");
    return NULL;
  }
  snprintf(file, size, "%s%s.npy", name, number);
  for (char *c = file; *c; c++)
    if (*c == '/' || (unsigned char)*c < ' ' || *c == 0x7f)
      *c = '_';
  return file;
}
