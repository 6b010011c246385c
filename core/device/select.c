/* SPDX-License-Identifier: Apache-2.0 */
/* Selects devices through the part parts/select, which is loaded at the first call. */

#include "core/device/select.h"

#include "core/registry/part.h"

#include <stdio.h>

int bp_device_select(const char *preferences, BpDevice *device, char **report) {
  return bp_device_select_among(NULL, 0, preferences, device, report);
}

int bp_device_select_among(const int32_t *device_types, size_t count, const char *preferences,
                           BpDevice *device, char **report) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  if (report)
    *report = NULL;
  return selector ? selector->select_among(device_types, count, preferences, device, report) : -1;
}

char *bp_device_preferences(void) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->preferences() : NULL;
}

const char *bp_device_select_help(void) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->help : "";
}

size_t bp_device_identity(BpDevice device, char *text, size_t capacity) {
  const Selector *selector = bp__part_table(BP_PART_SELECT);
  return selector ? selector->identify(device, text, capacity)
                  : (size_t)snprintf(text, capacity, "%s", "");
}
