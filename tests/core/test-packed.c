/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose elements are not whole bytes are packed, as in DLPack 1.1. The bytes of a tensor
 * end before a guard page, so an access to one more byte crashes. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/kernel_helpers.h>
#include <backplane/object.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const BpDevice host = {BP_DEVICE_CPU, 0};

typedef struct Case {
  BpDataType dtype;
  int64_t count;
  uint64_t bytes;
} Case;

static const Case cases[] = {
    {{BP_DTYPE_FLOAT4_E2M1FN, 4, 1}, 4096, 2048},
    {{BP_DTYPE_FLOAT4_E2M1FN, 4, 1}, 1, 1},
    {{BP_DTYPE_FLOAT4_E2M1FN, 4, 2}, 5, 5},
    {{BP_DTYPE_FLOAT6_E3M2FN, 6, 1}, 5, 4},
    {{BP_DTYPE_FLOAT6_E2M3FN, 6, 4}, 2, 6},
    {{BP_DTYPE_INT, 4, 1}, 7, 4},
    {{BP_DTYPE_UINT, 1, 1}, 9, 2},
    {{BP_DTYPE_INT, 2, 3}, 3, 3},
    {{BP_DTYPE_FLOAT8_E5M2, 8, 1}, 3, 3},
    {{BP_DTYPE_BOOL, 8, 1}, 3, 3},
    {{BP_DTYPE_FLOAT, 32, 4}, 3, 48},
    {{BP_DTYPE_INT, 4, 1}, 0, 0},
};

/* Allocates `size` bytes that end before an inaccessible page. */
static char *map_guarded(uint64_t size) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
  char *pages =
      mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert_true(pages != MAP_FAILED);
  g_assert_cmpint(mprotect(pages + whole, page, PROT_NONE), ==, 0);
  return pages + whole - size;
}

static void unmap_guarded(char *data, uint64_t size) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
  g_assert_cmpint(munmap(data + size - whole, whole + page), ==, 0);
}

static void assert_error(const char *kind) {
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  bp_error_clear();
}

static void test_bytes_are_the_bits_rounded_up(void) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_assert_cmpint(bp_dtype_array_bytes(cases[i].dtype, (uint64_t)cases[i].count, &bytes), ==, 0);
    g_assert_cmpuint(bytes, ==, cases[i].bytes);
  }
  for (unsigned bits = 0; bits < 256; bits++)
    for (uint64_t count = 0; count < 40; count++) {
      BpDataType dtype = {BP_DTYPE_UINT, (uint8_t)bits, (uint16_t)(count % 7 * 9000)};
      g_assert_cmpint(bp_dtype_array_bytes(dtype, count, &bytes), ==, 0);
      g_assert_cmpuint(bytes, ==, (bits * count * dtype.lanes + 7) / 8);
    }
}

static void test_bytes_beyond_64_bits_are_an_error(void) {
  const BpDataType nibble = {BP_DTYPE_INT, 4, 1}, byte = {BP_DTYPE_INT, 8, 1},
                   two = {BP_DTYPE_INT, 16, 1}, widest = {BP_DTYPE_INT, 255, 65535};
  uint64_t bytes = 0;
  g_assert_cmpint(bp_dtype_array_bytes(nibble, UINT64_MAX, &bytes), ==, 0);
  g_assert_cmpuint(bytes, ==, UINT64_MAX / 2 + 1);
  g_assert_cmpint(bp_dtype_array_bytes(byte, UINT64_MAX, &bytes), ==, 0);
  g_assert_cmpuint(bytes, ==, UINT64_MAX);
  g_assert_cmpint(bp_dtype_array_bytes(two, UINT64_MAX / 2, &bytes), ==, 0);
  g_assert_cmpint(bp_dtype_array_bytes(two, UINT64_MAX / 2 + 1, &bytes), ==, -1);
  g_assert_cmpint(bp_dtype_array_bytes(widest, UINT64_MAX / 8, &bytes), ==, -1);
  int64_t extent = INT64_MAX;
  BpTensorView view = {.ndim = 1, .dtype = nibble, .shape = &extent};
  g_assert_cmpint(bp_view_num_bytes(&view), ==, INT64_MAX / 2 + 1);
  view.dtype = two;
  g_assert_cmpint(bp_view_num_bytes(&view), ==, -1);
  assert_error(BP_ERROR_VALUE);
}

static BpManagedTensorVersioned *export(const Case *c, char *data, uint64_t flags) {
  int64_t extent = c->count;
  const BpTensorView view = {
      .data = data, .device = host, .ndim = 1, .dtype = c->dtype, .shape = &extent};
  BpTensor *tensor = bp_tensor_wrap(&view, NULL, NULL);
  BpManagedTensorVersioned *managed = bp_tensor_to_dlpack_versioned(tensor);
  g_assert_nonnull(managed);
  g_assert_cmpuint(managed->version_minor, >=, 1); /* older versions did not define packing */
  g_assert_cmpuint(managed->flags, ==, 0);
  managed->flags = flags;
  bp_object_release(tensor);
  return managed;
}

static void test_copies_touch_no_byte_beyond(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    uint64_t bytes = cases[i].bytes;
    char *from = map_guarded(bytes), *to = map_guarded(bytes);
    for (uint64_t k = 0; k < bytes; k++)
      from[k] = (char)(k * 5 + 1);
    BpTensor *source = bp_tensor_from_dlpack_versioned(export(&cases[i], from, 0));
    BpTensor *copy = bp_tensor_from_dlpack_versioned(export(&cases[i], to, 0));
    if (bytes) {
      g_assert_cmpint(bp_tensor_copy(&source->view, &copy->view, NULL), ==, 0);
      g_assert_cmpmem(to, bytes, from, bytes);
      memset(to, 0, bytes);
      g_assert_cmpint(bp_tensor_copy_to_host(&source->view, to, bytes), ==, 0);
      g_assert_cmpmem(to, bytes, from, bytes);
      g_assert_cmpint(bp_tensor_copy_from_host(&copy->view, from, bytes), ==, 0);
      g_assert_cmpint(bp_tensor_copy_to_host(&source->view, to, bytes * 2), ==, -1);
      assert_error(BP_ERROR_VALUE);
    }
    bp_object_release(source);
    bp_object_release(copy);
    unmap_guarded(from, bytes);
    unmap_guarded(to, bytes);
  }
}

static void test_views_end_with_the_last_bit(void) {
  const BpDataType nibble = {BP_DTYPE_UINT, 4, 1}, byte = {BP_DTYPE_UINT, 8, 1};
  const int64_t three = 3, six = 6, seven = 7;
  BpTensor *bytes = bp_tensor_create(&three, 1, byte, host, NULL);
  BpTensor *nibbles = bp_tensor_create_view(bytes, &six, 1, nibble, 0);
  g_assert_nonnull(nibbles);
  g_assert_null(bp_tensor_create_view(bytes, &seven, 1, nibble, 0));
  assert_error(BP_ERROR_INDEX);
  g_assert_null(bp_tensor_create_view(bytes, &six, 1, nibble, 1));
  assert_error(BP_ERROR_INDEX);
  bp_object_release(nibbles);
  bp_object_release(bytes);
}

static void test_padded_elements_are_refused_by_name(void) {
  const Case padded = {{BP_DTYPE_FLOAT4_E2M1FN, 4, 1}, 16, 16},
             whole = {{BP_DTYPE_INT, 8, 1}, 16, 16};
  char data[16] = {0};
  BpManagedTensorVersioned *managed = export(&padded, data, BP_DLPACK_SUBBYTE_PADDED);
  g_assert_null(bp_tensor_from_dlpack_versioned(managed));
  g_assert_nonnull(strstr(bp_error_message(), "float4_e2m1fn"));
  assert_error(BP_ERROR_NOT_IMPLEMENTED);
  managed->deleter(managed);
  BpTensor *tensor =
      bp_tensor_from_dlpack_versioned(export(&whole, data, BP_DLPACK_SUBBYTE_PADDED));
  g_assert_nonnull(tensor);
  bp_object_release(tensor);
}

/* ---- Arguments of kernels ---------------------------------------------------------------- */

static void test_kernels_are_given_the_packed_bytes(void) {
  const BpPluginTables tables = {0};
  const BpDeviceApi api = {.struct_size = sizeof api, .device_type = BP_DEVICE_CPU, .name = "cpu"};
  const BpKernelPlace place = {&api, 0};
  const BpKernel kernel = {.name = (char *)(uintptr_t) "kernel"};
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    int64_t extents[] = {1, cases[i].count}, strides[] = {99, 1};
    BpTensorView view = {
        .device = host, .ndim = 2, .dtype = cases[i].dtype, .shape = extents, .strides = strides};
    const BpValue arg = {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view};
    BpKernelBuffer buffer;
    g_assert_cmpint(bp_kernel_get_buffer(&tables, &kernel, place, 0, &arg, &buffer), ==, 0);
    g_assert_cmpuint(buffer.size, ==, cases[i].bytes);
  }
}

static void test_strides_that_overflow_are_not_compact(void) {
  int64_t extents[] = {2, INT64_MAX, 2}, strides[] = {-2, 2, 1};
  BpTensorView view = {.ndim = 3, .shape = extents, .strides = strides};
  g_assert_false(bp_view_is_compact(&view));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/packed/bytes_are_the_bits_rounded_up", test_bytes_are_the_bits_rounded_up);
  g_test_add_func("/packed/bytes_beyond_64_bits_are_an_error",
                  test_bytes_beyond_64_bits_are_an_error);
  g_test_add_func("/packed/copies_touch_no_byte_beyond", test_copies_touch_no_byte_beyond);
  g_test_add_func("/packed/views_end_with_the_last_bit", test_views_end_with_the_last_bit);
  g_test_add_func("/packed/padded_elements_are_refused_by_name",
                  test_padded_elements_are_refused_by_name);
  g_test_add_func("/packed/kernels_are_given_the_packed_bytes",
                  test_kernels_are_given_the_packed_bytes);
  g_test_add_func("/packed/strides_that_overflow_are_not_compact",
                  test_strides_that_overflow_are_not_compact);
  return g_test_run();
}
