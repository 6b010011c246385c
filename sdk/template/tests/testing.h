/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of device tests: a check that ends the program, copies and memory. */
#ifndef SIMDEV_TESTING_H
#define SIMDEV_TESTING_H

#include "../src/simdev.h"
#include "../src/simdev_plugin.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/plugins.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)

static void check(int holds, const char *condition, const char *file, int line) {
  if (holds)
    return;
  const char *error = bp_error_message();
  fprintf(stderr, "%s:%d: not so: %s%s%s\n", file, line, condition, error ? ": " : "",
          error ? error : "");
  exit(1);
}

static const BpDevice host = {BP_DEVICE_CPU, 0};
static const BpDataType bytes = {BP_DTYPE_UINT, 8, 1};

/* Copies host memory to `offset` of a buffer. */
static int upload(BpDevice device, const void *from, void *to, uint64_t offset, uint64_t size) {
  const BpCopy copy = {sizeof(BpCopy), from, 0, host, to, offset, device, size, 0};
  return bp_device_copy(&copy, NULL);
}

static int download(BpDevice device, const void *from, void *to, uint64_t size) {
  const BpCopy copy = {sizeof(BpCopy), from, 0, device, to, 0, host, size, 0};
  return bp_device_copy(&copy, NULL);
}

static void *alloc(BpDevice device, uint64_t size) {
  void *handle;
  CHECK(bp_device_alloc(device, &(BpAllocation){sizeof(BpAllocation), size, 64, bytes, 0, NULL},
                        &handle) == 0);
  return handle;
}

/* The plugin, which is linked into the program, and its first device. */
static BpDevice open_device(void) {
  BpDevice device;
  CHECK(bp_plugin_register_static(SIMDEV_DESCRIPTOR, bp_plugin_entry_simdev) == 0);
  CHECK(bp_device_parse("simdev:0", &device) == 0);
  return device;
}

#endif
