/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is imported and exported, through the application API.
 *
 * BP_TEST_DEVICES lists the devices, separated by spaces; a missing device is skipped. */

#include "tests/bare_device.h"
#include "tests/core/asserts.h"

#include <backplane/device_extensions.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_DEVICES "simdev:0 simdev:1 opencl:0 vulkan:0"
#define SIZE            ((size_t)20000)

static const BpDevice host = {BP_DEVICE_CPU, 0};

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static BpAllocation request(void) {
  return (BpAllocation){.struct_size = sizeof(BpAllocation),
                        .size = SIZE,
                        .alignment = 4096,
                        .dtype = {BP_DTYPE_UINT, 8, 1}};
}

static void *alloc(BpDevice device) {
  void *handle;
  const BpAllocation allocation = request();
  assert_ok(bp_device_alloc(device, &allocation, &handle));
  return handle;
}

static void copy(BpDevice from_device, const void *from, BpDevice to_device, void *to) {
  const BpCopy what = {sizeof what, from, 0, from_device, to, 0, to_device, SIZE, 0};
  assert_ok(bp_device_copy(&what, NULL));
}

static void assert_filled(const uint8_t *bytes, int value) {
  for (size_t i = 0; i < SIZE; i++)
    g_assert_cmpint(bytes[i], ==, value);
}

static BpExternalMemory pointer_to(void *address) {
  return (BpExternalMemory){.struct_size = sizeof(BpExternalMemory),
                            .size = SIZE,
                            .address = address,
                            .fd = -1,
                            .form = BP_EXTERNAL_HOST_POINTER};
}

/* Skips the test if the device does not support the forms. */
static BpDevice open_device(const char *text, uint64_t imports, uint64_t exports) {
  BpDevice device;
  uint64_t has_imports, has_exports;
  assert_ok(bp_device_parse(text, &device));
  assert_ok(bp_device_memory_forms(device, &has_imports, &has_exports, NULL));
  if (imports & ~has_imports || exports & ~has_exports)
    g_test_skip("the driver does not exchange memory in this form");
  return imports & ~has_imports || exports & ~has_exports ? host : device;
}

static void test_device_works_in_memory_of_the_host(gconstpointer text) {
  const BpDevice device = open_device(text, BP_EXTERNAL_HOST_POINTER, 0);
  if (device.device_type == BP_DEVICE_CPU)
    return;
  uint8_t *bytes = alloc(host), other[SIZE];
  void *handle, *second = alloc(device);
  const BpExternalMemory memory = pointer_to(bytes);
  assert_ok(bp_device_import_memory(device, &memory, &handle));
  memset(bytes, 7, SIZE);
  copy(host, bytes, device, handle);
  copy(device, handle, device, second);
  copy(device, second, host, other);
  assert_ok(bp_stream_sync(device, NULL));
  assert_filled(other, 7);
  memset(other, 9, SIZE);
  copy(host, other, device, second);
  copy(device, second, device, handle);
  copy(device, handle, host, bytes);
  assert_ok(bp_stream_sync(device, NULL));
  assert_filled(bytes, 9);
  assert_ok(bp_device_free(device, handle));
  assert_ok(bp_device_free(device, second));
  assert_ok(bp_stream_sync(device, NULL));
  assert_filled(bytes, 9);
  assert_ok(bp_device_free(host, bytes));
}

static void test_exported_memory_is_imported(gconstpointer text) {
  const BpDevice device = open_device(text, BP_EXTERNAL_OPAQUE_FD, BP_EXTERNAL_OPAQUE_FD);
  if (device.device_type == BP_DEVICE_CPU)
    return;
  uint8_t bytes[SIZE];
  void *handle, *imported;
  const BpAllocation allocation = request();
  BpExternalMemory memory = {.struct_size = sizeof memory, .form = BP_EXTERNAL_OPAQUE_FD};
  assert_ok(bp_device_export_memory(device, &allocation, &memory, &handle));
  g_assert_cmpint(memory.fd, >=, 0);
  g_assert_cmpuint(memory.size, >=, SIZE);
  assert_ok(bp_device_import_memory(device, &memory, &imported));
  g_assert_cmpint(close(memory.fd), ==, 0);
  memset(bytes, 3, SIZE);
  copy(host, bytes, device, handle);
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(bp_device_free(device, handle));
  memset(bytes, 0, SIZE);
  copy(device, imported, host, bytes);
  assert_ok(bp_stream_sync(device, NULL));
  assert_filled(bytes, 3);
  assert_ok(bp_device_free(device, imported));
}

/* Tests each unsupported form, and errors of every form. */
static void test_wrong_memory_is_refused_by_name(gconstpointer text) {
  BpDevice device;
  uint64_t imports, exports, alignment;
  void *handle;
  char *bytes = alloc(host);
  const BpAllocation allocation = request();
  BpExternalMemory memory = pointer_to(bytes);
  assert_ok(bp_device_parse(text, &device));
  assert_ok(bp_device_memory_forms(device, &imports, &exports, &alignment));
  memory.form = BP_EXTERNAL_DMA_BUF;
  if (!(imports & BP_EXTERNAL_DMA_BUF))
    assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_NOT_IMPLEMENTED,
                 "import of memory by dma-buf; this device has: ");
  if (!(exports & BP_EXTERNAL_DMA_BUF))
    assert_error(bp_device_export_memory(device, &allocation, &memory, &handle),
                 BP_ERROR_NOT_IMPLEMENTED, "export of memory by dma-buf; this device has: ");
  memory.form = 3;
  assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE, "form 3 is not");
  memory = pointer_to(bytes);
  memory.flags = 1;
  assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE, "unknown flags");
  memory = pointer_to(bytes);
  memory.struct_size = 0;
  assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE,
               "BpExternalMemory");
  memory = pointer_to(bytes + 1);
  if (imports & BP_EXTERNAL_HOST_POINTER)
    assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE,
                 "is no multiple of ");
  memory = pointer_to(bytes);
  memory.size = 0;
  if (imports & BP_EXTERNAL_HOST_POINTER)
    assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE, "size is 0");
  memory = pointer_to(bytes);
  memory.form = BP_EXTERNAL_OPAQUE_FD;
  memory.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (imports & BP_EXTERNAL_OPAQUE_FD)
    assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_VALUE, "");
  close(memory.fd);
  assert_ok(bp_device_free(host, bytes));
}

/* The host's own memory needs no handle, and a device without the extension has no forms. */
static void test_device_without_the_extension_has_no_forms(void) {
  static const char *const devices[] = {"cpu:0", "plain:0"};
  for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
    BpDevice device;
    uint64_t imports = 1, exports = 1;
    void *handle;
    char bytes[64];
    const BpExternalMemory memory = pointer_to(bytes);
    assert_ok(bp_device_parse(devices[i], &device));
    assert_ok(bp_device_memory_forms(device, &imports, &exports, NULL));
    g_assert_cmpuint(imports | exports, ==, 0);
    assert_error(bp_device_import_memory(device, &memory, &handle), BP_ERROR_NOT_IMPLEMENTED,
                 "import of memory by host pointer; this device has: none");
  }
}

static const BpDeviceApi plain_api = {.struct_size = sizeof(BpDeviceApi),
                                      .device_type = 61450,
                                      .name = "plain",
                                      .get_device_count = bare_count,
                                      .get_attr = bare_attr,
                                      BARE_MEMORY};

static const struct {
  const char *path;
  void (*test)(gconstpointer device);
} tests[] = {
    {"device-works-in-memory-of-the-host", test_device_works_in_memory_of_the_host},
    {"exported-memory-is-imported", test_exported_memory_is_imported},
    {"wrong-memory-is-refused-by-name", test_wrong_memory_is_refused_by_name},
};

static void add_tests(const char *text) {
  BpDevice device;
  uint64_t forms;
  if (bp_device_parse(text, &device) || bp_device_memory_forms(device, &forms, NULL, NULL)) {
    bp_error_clear();
    return;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    g_autofree char *path = g_strdup_printf("/external/%s/%s", text, tests[i].path);
    g_test_add_data_func_full(path, g_strdup(text), tests[i].test, g_free);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_auto(GStrv) devices = bare_list_devices(DEFAULT_DEVICES);
  assert_ok(bare_register("device_api.plain", &plain_api));
  for (char **device = devices; *device; device++)
    add_tests(*device);
  g_test_add_func("/external/device-without-the-extension-has-no-forms",
                  test_device_without_the_extension_has_no_forms);
  return g_test_run();
}
