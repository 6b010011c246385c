/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files: what NumPy writes is read, what is damaged is refused. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib.h>
#include <glib/gstdio.h>

#include <backplane/error.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

static char *folder;

static char *path_of(const char *name) {
  return g_build_filename(folder, name, NULL);
}

static BpTensor *read_bytes(const void *data, size_t size) {
  char *path = path_of("bytes.npy");
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  BpTensor *tensor = bp_npy_read(path);
  g_unlink(path);
  g_free(path);
  return tensor;
}

/* Reads a file of version 1.0 with this header text and `bytes` bytes, each byte its index. */
static BpTensor *read_header(const char *header, size_t bytes) {
  GByteArray *file = g_byte_array_new();
  guint16 size = (guint16)strlen(header);
  g_byte_array_append(file, (const guint8 *)"\x93NUMPY\x01\x00", 8);
  g_byte_array_append(file, (const guint8 *)&size, 2);
  g_byte_array_append(file, (const guint8 *)header, size);
  for (size_t i = 0; i < bytes; i++) {
    guint8 byte = (guint8)i;
    g_byte_array_append(file, &byte, 1);
  }
  BpTensor *tensor = read_bytes(file->data, file->len);
  g_byte_array_free(file, TRUE);
  return tensor;
}

static void assert_error(const BpTensor *tensor, const char *kind, const char *part) {
  g_assert_null(tensor);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not say \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static void test_round_trip(void) {
  static const char *const dtypes[] = {"float32", "float64", "float16", "int8",   "int16",  "int32",
                                       "int64",   "uint8",   "uint16",  "uint32", "uint64", "bool"};
  const int64_t shape[] = {2, 3, 4};
  char *path = path_of("round.npy");
  for (size_t i = 0; i < G_N_ELEMENTS(dtypes); i++)
    for (int32_t ndim = 0; ndim <= 3; ndim++) {
      BpDataType dtype;
      g_assert_cmpint(bp_dtype_parse(dtypes[i], &dtype), ==, 0);
      BpTensor *out = bp_tensor_create(shape, ndim, dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
      g_assert_nonnull(out);
      int64_t bytes = bp_view_num_bytes(&out->view);
      for (int64_t b = 0; b < bytes; b++)
        ((char *)out->view.data)[b] = (char)(b * 7);
      g_assert_cmpint(bp_npy_write(path, &out->view), ==, 0);
      BpTensor *in = bp_npy_read(path);
      g_assert_nonnull(in);
      g_assert_cmpmem(&in->view.dtype, sizeof(dtype), &dtype, sizeof(dtype));
      g_assert_cmpint(in->view.ndim, ==, ndim);
      g_assert_cmpmem(in->view.data, (size_t)bytes, out->view.data, (size_t)bytes);
      bp_object_release(in);
      bp_object_release(out);
    }
  g_unlink(path);
  g_free(path);
}

/* A .npy file in memory has the bytes of the written file, and gets the same checks. */
static void test_memory(void) {
  const int64_t shape[] = {2, 3};
  char *path = path_of("memory.npy"), *written;
  gsize size;
  BpOwnedBytes bytes;
  BpTensor *out = bp_tensor_create(shape, 2, (BpDataType){BP_DTYPE_INT, 32, 1},
                                   (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  g_assert_nonnull(out);
  for (int i = 0; i < 6; i++)
    ((int32_t *)out->view.data)[i] = i * i;
  g_assert_cmpint(bp_npy_write(path, &out->view), ==, 0);
  g_assert_cmpint(bp_npy_encode(&out->view, &bytes), ==, 0);
  g_assert_true(g_file_get_contents(path, &written, &size, NULL));
  g_assert_cmpmem(written, size, bytes.data, bytes.size);
  BpTensor *in = bp_npy_decode(&(BpByteArray){bytes.data, bytes.size}, "m");
  g_assert_nonnull(in);
  g_assert_cmpint(in->view.shape[1], ==, 3);
  g_assert_cmpint(((int32_t *)in->view.data)[5], ==, 25);
  bp_object_release(in);
  assert_error(bp_npy_decode(&(BpByteArray){bytes.data, bytes.size - 1}, "m"), BP_ERROR_FORMAT,
               "m: truncated");
  assert_error(bp_npy_decode(&(BpByteArray){bytes.data, 5}, "m"), BP_ERROR_FORMAT, "m: not a");
  assert_error(bp_npy_decode(&(BpByteArray){bytes.data, 0}, "m"), BP_ERROR_FORMAT, "m: not a");
  assert_error(bp_npy_decode(NULL, "m"), BP_ERROR_VALUE, "");
  out->view.dtype.lanes = 2;
  g_assert_cmpint(bp_npy_encode(&out->view, &bytes), ==, -1);
  out->view.dtype.lanes = 1;
  assert_error(NULL, BP_ERROR_TYPE, "no place for");
  bp_owned_bytes_clear(&bytes);
  bp_object_release(out);
  g_unlink(path);
  g_free(written);
  g_free(path);
}

static void test_numpy_headers(void) {
  BpTensor *tensor =
      read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
  g_assert_nonnull(tensor);
  g_assert_cmpint(tensor->view.ndim, ==, 2);
  g_assert_cmpint(tensor->view.shape[1], ==, 3);
  bp_object_release(tensor);
  tensor = read_header("{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }", 5);
  g_assert_nonnull(tensor);
  g_assert_cmpint(tensor->view.dtype.code, ==, BP_DTYPE_BOOL);
  bp_object_release(tensor);
  tensor = read_header("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8);
  g_assert_nonnull(tensor);
  g_assert_cmpint(tensor->view.ndim, ==, 0);
  bp_object_release(tensor);
}

static void test_refused_headers(void) {
  assert_error(read_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4),
               BP_ERROR_FORMAT, "big-endian");
  assert_error(read_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4),
               BP_ERROR_FORMAT, "Fortran");
  assert_error(read_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4),
               BP_ERROR_FORMAT, "type");
  assert_error(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4),
               BP_ERROR_FORMAT, "shape");
  assert_error(read_header("{'descr': '<f4', 'fortran_order': False}", 4), BP_ERROR_FORMAT,
               "shape");
  assert_error(
      read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}", 4),
      BP_ERROR_VALUE, "2^63");
  assert_error(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}", 4),
               BP_ERROR_FORMAT, "truncated");
}

static void test_damaged_file(void) {
  static const char file[] = "\x93NUMPY\x01\x00\x37\x00"
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}abcd";
  for (size_t size = 0; size + 1 < sizeof(file); size++) {
    BpTensor *tensor = read_bytes(file, size);
    g_assert_null(tensor);
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
    bp_error_clear();
  }
  for (size_t bit = 0; bit < (sizeof(file) - 1) * 8; bit++) {
    char copy[sizeof(file)];
    memcpy(copy, file, sizeof(file));
    copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << (bit % 8)));
    BpTensor *tensor = read_bytes(copy, sizeof(file) - 1);
    g_assert_true(tensor || *bp_error_kind());
    bp_object_release(tensor);
    bp_error_clear();
  }
}

/* In folders where several users write, such as /tmp, a predictable name may be a link. */
static void test_write_follows_no_link(void) {
  static float value = 1;
  const BpTensorView view = {
      .data = &value, .device = {BP_DEVICE_CPU, 0}, .ndim = 0, .dtype = {BP_DTYPE_FLOAT, 32, 1}};
  g_autofree char *path = path_of("written.npy"), *victim = path_of("victim"), *text = NULL;
  g_autofree char *guessed = g_strdup_printf("%s.%d.tmp", path, (int)getpid());
  g_assert_true(g_file_set_contents(victim, "kept", -1, NULL));
  g_assert_cmpint(symlink(victim, guessed), ==, 0);
  g_assert_cmpint(bp_npy_write(path, &view), ==, 0);
  g_assert_true(g_file_get_contents(victim, &text, NULL, NULL));
  g_assert_cmpstr(text, ==, "kept");
  g_unlink(path);
  g_unlink(guessed);
  g_unlink(victim);
}

static void test_private_file(void) {
  static float value = 1;
  const BpTensorView view = {
      .data = &value, .device = {BP_DEVICE_CPU, 0}, .ndim = 0, .dtype = {BP_DTYPE_FLOAT, 32, 1}};
  g_autofree char *path = path_of("private.npy");
  struct stat status;
  mode_t before = umask(0022);
  g_assert_cmpint(bp_npy_write(path, &view), ==, 0);
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_cmpint(status.st_mode & 0777, ==, 0644);
  g_assert_cmpint(chmod(path, 0600), ==, 0);
  g_assert_cmpint(bp_npy_write(path, &view), ==, 0);
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_cmpint(status.st_mode & 0777, ==, 0600);
  umask(before);
  g_unlink(path);
}

static void test_write_into_a_fifo(void) {
  const float value = 1;
  const BpTensorView view = {.data = (void *)(uintptr_t)&value,
                             .device = {BP_DEVICE_CPU, 0},
                             .dtype = {BP_DTYPE_FLOAT, 32, 1}};
  g_autofree char *path = path_of("fifo.npy");
  char bytes[256];
  struct stat status;
  g_assert_cmpint(mkfifo(path, 0600), ==, 0);
  int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  g_assert_cmpint(bp_npy_write(path, &view), ==, 0);
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_true(S_ISFIFO(status.st_mode));
  g_assert_cmpint(read(reader, bytes, sizeof bytes), ==, 128 + sizeof value);
  g_assert_cmpmem(bytes, 6, "\x93NUMPY", 6);
  close(reader);
  g_unlink(path);
}

/* The link stays, as /dev/stdout does, and the file keeps what it had. */
static void test_write_into_an_open_file(void) {
  const float value = 1;
  const BpTensorView view = {.data = (void *)(uintptr_t)&value,
                             .device = {BP_DEVICE_CPU, 0},
                             .dtype = {BP_DTYPE_FLOAT, 32, 1}};
  g_autofree char *path = path_of("link.npy"), *file = path_of("open.txt");
  g_autofree char *bytes = NULL;
  gsize size;
  int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  g_autofree char *entry = g_strdup_printf("/proc/self/fd/%d", fd);
  g_assert_cmpint(write(fd, "before", 6), ==, 6);
  g_assert_cmpint(symlink(entry, path), ==, 0);
  g_assert_cmpint(bp_npy_write(path, &view), ==, 0);
  g_assert_true(g_file_test(path, G_FILE_TEST_IS_SYMLINK));
  g_assert_true(g_file_get_contents(file, &bytes, &size, NULL));
  g_assert_cmpint(size, ==, 6 + 128 + sizeof value);
  g_assert_cmpmem(bytes, 12, "before\x93NUMPY", 12);
  close(fd);
  g_unlink(path);
  g_unlink(file);
}

/* A FIFO without a writer: opening it as a file would wait for ever. */
static void test_read_a_fifo(void) {
  g_autofree char *path = path_of("fifo.npy");
  g_assert_cmpint(mkfifo(path, 0600), ==, 0);
  alarm(60);
  g_assert_null(bp_npy_read(path));
  alarm(0);
  g_assert_nonnull(strstr(bp_error_message(), "is not a regular file"));
  bp_error_clear();
  g_unlink(path);
}

static volatile sig_atomic_t num_signals;

static void count_signal(int number) {
  (void)number;
  num_signals++;
}

/* Reads a FIFO after it has sent a signal to the thread that writes into it. */
static void *signal_and_read(void *context) {
  const pthread_t *writer = context;
  g_autofree char *path = path_of("signal.npy");
  char bytes[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  g_usleep(20000);
  pthread_kill(*writer, SIGXFSZ);
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
  close(fd);
  return NULL;
}

/* An errno that an earlier call left says nothing about a write that succeeds. */
static void test_foreign_signal(void) {
  g_autofree char *path = path_of("signal.npy");
  const int64_t shape[] = {1 << 20};
  const BpDevice host = {BP_DEVICE_CPU, 0};
  BpTensor *tensor = bp_tensor_create(shape, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  pthread_t self = pthread_self(), reader;
  g_assert_nonnull(tensor);
  g_assert_cmpint(mkfifo(path, 0600), ==, 0);
  signal(SIGXFSZ, count_signal);
  g_assert_cmpint(pthread_create(&reader, NULL, signal_and_read, &self), ==, 0);
  errno = EFBIG;
  g_assert_cmpint(bp_npy_write(path, &tensor->view), ==, 0);
  g_assert_cmpint(num_signals, ==, 1);
  signal(SIGXFSZ, SIG_DFL);
  pthread_join(reader, NULL);
  bp_object_release(tensor);
  g_unlink(path);
}

static void test_missing(void) {
  char *path = path_of("nowhere/none.npy");
  const float value = 1;
  const BpTensorView view = {.data = (void *)(uintptr_t)&value,
                             .device = {BP_DEVICE_CPU, 0},
                             .dtype = {BP_DTYPE_FLOAT, 32, 1}};
  assert_error(bp_npy_read(path), BP_ERROR_IO, "none.npy");
  g_assert_cmpint(bp_npy_write(path, &view), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_IO);
  bp_error_clear();
  g_free(path);
}

static void test_file_names(void) {
  static const struct {
    const char *name;
    uint32_t index;
    const char *file;
  } cases[] = {{"0:conv1", 0, "0:conv1.npy"},
               {"block/conv", 2, "block_conv.2.npy"},
               {"/../a\nb", 0, "_.._a_b.npy"},
               {"", 1, ".1.npy"}};
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *file = bp_npy_file_name(cases[i].name, cases[i].index);
    g_assert_cmpstr(file, ==, cases[i].file);
    bp_str_free(file);
  }
  g_assert_null(bp_npy_file_name(NULL, 0));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

/* The result is an error, not a signal that ends the program. */
static void test_write_beyond_the_limit_of_file_sizes(void) {
  if (!g_test_subprocess()) { /* the limit cannot be raised again */
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    return;
  }
  g_autofree char *path = path_of("beyond.npy");
  const int64_t shape[] = {1024};
  const BpDevice host = {BP_DEVICE_CPU, 0};
  BpTensor *tensor = bp_tensor_create(shape, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  g_assert_nonnull(tensor);
  g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, 1024}), ==, 0);
  g_assert_cmpint(bp_npy_write(path, &tensor->view), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_IO));
  g_autoptr(GDir) left = g_dir_open(folder, 0, NULL);
  g_assert_null(g_dir_read_name(left));
  bp_object_release(tensor);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  folder = g_dir_make_tmp("backplane-npy-XXXXXX", NULL);
  g_test_add_func("/npy/round-trip/every-dtype-and-rank", test_round_trip);
  g_test_add_func("/npy/memory/array-in-memory-is-read-as-from-a-file", test_memory);
  g_test_add_func("/npy/read/headers-that-numpy-writes-are-read", test_numpy_headers);
  g_test_add_func("/npy/read/unsupported-headers-say-why", test_refused_headers);
  g_test_add_func("/npy/read/truncated-or-flipped-file-is-no-crash", test_damaged_file);
  g_test_add_func("/npy/read/waits-for-no-FIFO", test_read_a_fifo);
  g_test_add_func("/npy/write/follows-no-link-beside-the-file", test_write_follows_no_link);
  g_test_add_func("/npy/write/keeps-a-private-file-private", test_private_file);
  g_test_add_func("/npy/write/into-a-FIFO-leaves-the-FIFO", test_write_into_a_fifo);
  g_test_add_func("/npy/write/into-an-open-file-leaves-the-link", test_write_into_an_open_file);
  g_test_add_func("/npy/write/keeps-a-signal-that-another-thread-caused", test_foreign_signal);
  g_test_add_func("/npy/write/beyond-the-limit-of-file-sizes-is-an-error",
                  test_write_beyond_the_limit_of_file_sizes);
  g_test_add_func("/npy/file-name/stays-in-its-folder", test_file_names);
  g_test_add_func("/npy/missing-folder-is-an-io-error", test_missing);
  int status = g_test_run();
  g_rmdir(folder);
  g_free(folder);
  return status;
}
