/* SPDX-License-Identifier: Apache-2.0 */
/* Device code and the table of its kernels, as bytes. */

#include "tests/core/module-fixture.h"

#include <backplane/error.h>
#include <glib.h>
#include <string.h>

typedef struct Seen {
  int kernels;
  int stop;
} Seen;

static int32_t see_kernel(void *context, const BpKernelInfo *kernel) {
  Seen *seen = context;
  if (seen->stop)
    return bp_error_raise(BP_ERROR_VALUE, "stopped");
  g_assert_cmpstr(kernel->name, ==, seen->kernels ? "relu" : "add_kernel");
  g_assert_cmpint(kernel->num_args, ==, 2);
  g_assert_cmpint(kernel->arg_dtypes[0].code, ==, BP_DTYPE_HANDLE);
  g_assert_cmpint(kernel->arg_dtypes[1].bits, ==, 32);
  g_assert_cmpint(kernel->num_launch_tags, ==, 2);
  g_assert_cmpstr(kernel->launch_tags[1], ==, "threadIdx.x");
  ++seen->kernels;
  return 0;
}

static void encode_example(BpOwnedBytes *bytes) {
  static const BpDataType types[] = {{BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_INT, 32, 1}};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x"};
  const BpKernelInfo kernels[] = {{sizeof(BpKernelInfo), "add_kernel", types, 2, 2, tags},
                                  {sizeof(BpKernelInfo), "relu", types, 2, 2, tags}};
  const BpByteArray code = {"__kernel void", 13};
  g_assert_cmpint(module_table()->encode_device_code("cl", kernels, 2, &code, bytes), ==, 0);
}

/* BpKernelInfo with a member that a later version may add. */
typedef struct LaterInfo {
  BpKernelInfo info;
  const char *note;
} LaterInfo;

static void test_kernels_of_a_table_are_as_long_as_they_say(void) {
  static const BpDataType types[] = {{BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_INT, 32, 1}};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x"};
  LaterInfo kernels[] = {{{sizeof(LaterInfo), "add_kernel", types, 2, 2, tags}, NULL},
                         {{sizeof(LaterInfo), "relu", types, 2, 2, tags}, NULL}};
  const BpByteArray code = {"__kernel void", 13};
  BpOwnedBytes bytes, expected;
  encode_example(&expected);
  g_assert_cmpint(module_table()->encode_device_code("cl", &kernels[0].info, 2, &code, &bytes), ==,
                  0);
  g_assert_cmpmem(bytes.data, bytes.size, expected.data, expected.size);
  bp_owned_bytes_clear(&bytes);
  bp_owned_bytes_clear(&expected);
  kernels[1].note = "a member that this version would leave out";
  g_assert_cmpint(module_table()->encode_device_code("cl", &kernels[0].info, 2, &code, &bytes), ==,
                  -1);
  g_assert_nonnull(strstr(bp_error_message(), "BpKernelInfo of 48 bytes has a member set"));
  static const uint64_t sizes[] = {0, sizeof(BpKernelInfo) - 1};
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    kernels[0].info.struct_size = sizes[i];
    g_assert_cmpint(module_table()->encode_device_code("cl", &kernels[0].info, 1, &code, &bytes),
                    ==, -1);
    g_assert_nonnull(strstr(bp_error_message(), "set it to sizeof(BpKernelInfo)"));
  }
  kernels[0].info.struct_size = sizeof(LaterInfo);
  kernels[1].info.struct_size = sizeof(BpKernelInfo);
  g_assert_cmpint(module_table()->encode_device_code("cl", &kernels[0].info, 2, &code, &bytes), ==,
                  -1);
  g_assert_nonnull(strstr(bp_error_message(), "of kernel 1"));
}

static void test_device_code_survives_its_bytes(void) {
  BpOwnedBytes bytes;
  BpByteArray format, code;
  Seen seen = {0};
  encode_example(&bytes);
  BpByteArray view = {bytes.data, bytes.size};
  g_assert_cmpint(module_table()->decode_device_code(&view, &format, see_kernel, &seen, &code), ==,
                  0);
  g_assert_cmpint(seen.kernels, ==, 2);
  g_assert_cmpmem(format.data, format.size, "cl", 2);
  g_assert_cmpmem(code.data, code.size, "__kernel void", 13);
  seen.stop = 1;
  g_assert_cmpint(module_table()->decode_device_code(&view, &format, see_kernel, &seen, &code), ==,
                  -1);
  g_assert_cmpstr(bp_error_message(), ==, "stopped");
  bp_owned_bytes_clear(&bytes);
}

static int32_t ignore_kernel(void *context, const BpKernelInfo *kernel) {
  (void)context;
  (void)kernel;
  return 0;
}

static void test_damaged_device_code_is_an_error(void) {
  BpOwnedBytes bytes;
  BpByteArray format, code;
  encode_example(&bytes);
  for (size_t size = 0; size < bytes.size; ++size) {
    char *copy = g_memdup2(bytes.data, size + 1);
    BpByteArray view = {copy, size};
    g_assert_cmpint(module_table()->decode_device_code(&view, &format, ignore_kernel, NULL, &code),
                    ==, -1);
    g_assert_true(bp_error_is(BP_ERROR_FORMAT));
    g_free(copy);
  }
  for (size_t bit = 0; bit < bytes.size * 8; ++bit) {
    BpByteArray view = {bytes.data, bytes.size};
    bytes.data[bit / 8] ^= (char)(1 << bit % 8);
    module_table()->decode_device_code(&view, &format, ignore_kernel, NULL, &code);
    bytes.data[bit / 8] ^= (char)(1 << bit % 8);
  }
  bp_owned_bytes_clear(&bytes);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  fixture_begin();
  g_test_add_func("/device-code/kernels-are-as-long-as-they-say",
                  test_kernels_of_a_table_are_as_long_as_they_say);
  g_test_add_func("/device-code/survives-its-bytes", test_device_code_survives_its_bytes);
  g_test_add_func("/device-code/damaged-is-an-error", test_damaged_device_code_is_an_error);
  return g_test_run();
}
