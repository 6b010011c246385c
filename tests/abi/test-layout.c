/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts that other languages, other builds and the tvm-ffi world rely on. They never change:
 * a failure here is an ABI break, not a number to be updated. */

#include <backplane/plugin.h>
#include <backplane/tensor.h>
#include <backplane/value.h>
#include <glib.h>

#define AT(type, member, offset)                                                                   \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has another size")

SIZE(BpDataType, 4);
AT(BpDataType, code, 0);
AT(BpDataType, bits, 1);
AT(BpDataType, lanes, 2);
SIZE(BpDevice, 8);
AT(BpDevice, device_type, 0);
AT(BpDevice, device_id, 4);

SIZE(BpTensorView, 48);
AT(BpTensorView, data, 0);
AT(BpTensorView, device, 8);
AT(BpTensorView, ndim, 16);
AT(BpTensorView, dtype, 20);
AT(BpTensorView, shape, 24);
AT(BpTensorView, strides, 32);
AT(BpTensorView, byte_offset, 40);

SIZE(BpValue, 16);
AT(BpValue, type_index, 0);
AT(BpValue, zero_padding, 4);
AT(BpValue, small_len, 4);
AT(BpValue, v_int64, 8);
AT(BpValue, v_float64, 8);
AT(BpValue, v_ptr, 8);
AT(BpValue, v_bytes, 8);
SIZE(BpByteArray, 16);
AT(BpByteArray, size, 8);

SIZE(BpObject, 24);
AT(BpObject, combined_count, 0);
AT(BpObject, type_index, 8);
AT(BpObject, deleter, 16);
SIZE(BpStr, 40);
AT(BpStr, data, 24);
AT(BpStr, size, 32);
SIZE(BpShape, 40);
AT(BpShape, data, 24);
AT(BpShape, size, 32);
SIZE(BpArray, 56);
AT(BpArray, data, 24);
AT(BpArray, size, 32);
AT(BpArray, capacity, 40);
AT(BpArray, free_data, 48);
SIZE(BpTensor, 72);
AT(BpTensor, view, 24);
SIZE(BpFunction, 40);
AT(BpFunction, call, 24);
AT(BpFunction, cpp_call, 32);
AT(BpError, kind, 24);
AT(BpError, message, 40);
AT(BpError, backtrace, 56);
AT(BpError, update_backtrace, 72);

/* DLPack's managed tensors. */
SIZE(BpManagedTensor, 64);
AT(BpManagedTensor, manager_context, 48);
AT(BpManagedTensor, deleter, 56);
SIZE(BpManagedTensorVersioned, 80);
AT(BpManagedTensorVersioned, version_minor, 4);
AT(BpManagedTensorVersioned, manager_context, 8);
AT(BpManagedTensorVersioned, deleter, 16);
AT(BpManagedTensorVersioned, flags, 24);
AT(BpManagedTensorVersioned, view, 32);

/* Every table begins with its size, which tells what else it has. */
AT(BpHost, struct_size, 0);
AT(BpHost, abi_version, 8);
AT(BpHost, get_table, 16);
AT(BpPlugin, struct_size, 0);
AT(BpPlugin, abi_version, 8);
AT(BpPlugin, initialize, 16);
AT(BpErrorTable, struct_size, 0);
AT(BpObjectTable, struct_size, 0);
AT(BpRegistryTable, struct_size, 0);
AT(BpModuleTable, struct_size, 0);
AT(BpTargetTable, struct_size, 0);
AT(BpRuntimeTable, struct_size, 0);
AT(BpDeviceApi, struct_size, 0);
AT(BpModuleApi, struct_size, 0);

/* The compiler has done the checking; what only a running program shows is the byte order. */
static void test_machine_is_little_endian(void) {
  BpValue value = {.type_index = BP_TYPE_INT, .v_int64 = 0x0102030405060708};
  g_assert_cmpint(value.v_bytes[0], ==, 8);
  g_assert_cmpint(value.v_bytes[7], ==, 1);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/abi/layout/little-endian", test_machine_is_little_endian);
  return g_test_run();
}
