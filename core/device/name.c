/* SPDX-License-Identifier: Apache-2.0 */
/* Device kinds by name and number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "core/device/device.h"
#include "core/registry/nearest.h"

/* As in sdk/device-types.txt. */
static const struct {
  int32_t type;
  const char *name;
} known_types[] = {
    {BP_DEVICE_CPU, "cpu"},       {BP_DEVICE_CUDA, "cuda"},     {BP_DEVICE_CUDA_HOST, "cuda_host"},
    {BP_DEVICE_OPENCL, "opencl"}, {BP_DEVICE_VULKAN, "vulkan"}, {BP_DEVICE_METAL, "metal"},
    {BP_DEVICE_ROCM, "rocm"},     {BP_DEVICE_EXT, "ext_dev"},   {BP_DEVICE_HEXAGON, "hexagon"},
};
#define NUM_KNOWN (sizeof(known_types) / sizeof(known_types[0]))

const char *bp__device_type_name(int32_t device_type) {
  for (size_t i = 0; i < NUM_KNOWN; i++)
    if (known_types[i].type == device_type)
      return known_types[i].name;
  return bp__device_api_name(device_type);
}

int32_t bp__device_type_by_name(const char *name, size_t size) {
  for (size_t i = 0; i < NUM_KNOWN; i++)
    if (strlen(known_types[i].name) == size && memcmp(known_types[i].name, name, size) == 0)
      return known_types[i].type;
  return bp__device_api_type(name, size);
}

static int unknown_kind(const char *text, size_t size) {
  const char *names[NUM_KNOWN];
  char hint[BP_HINT_MAX], *copy = strndup(text, size);
  for (size_t i = 0; i < NUM_KNOWN; i++)
    names[i] = known_types[i].name;
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "there is no device kind '%.*s'%s; `backplane list` shows what is installed",
                 (int)size, text, copy ? bp__nearest_hint(copy, names, NUM_KNOWN, hint) : "");
  free(copy);
  return -1;
}

int bp_device_parse(const char *text, BpDevice *device) {
  size_t size = strcspn(text, ":");
  long index = 0;
  if (text[size] == ':') {
    char *end;
    index = strtol(text + size + 1, &end, 10);
    if (end == text + size + 1 || *end || index < 0 || index > INT32_MAX)
      return bp_error_raise(BP_ERROR_VALUE, "'%s': a device is KIND or KIND:INDEX, as opencl:1",
                            text);
  }
  int32_t type = bp__device_type_by_name(text, size);
  if (type < 0)
    return unknown_kind(text, size);
  *device = (BpDevice){type, (int32_t)index};
  return 0;
}

void bp_device_format(BpDevice device, char *text) {
  const char *name = bp__device_type_name(device.device_type);
  if (name)
    snprintf(text, 64, "%.40s:%d", name, device.device_id);
  else
    snprintf(text, 64, "device type %d:%d", device.device_type, device.device_id);
}
