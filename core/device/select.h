/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts/select, the part of the core that selects devices. */
#ifndef BACKPLANE_CORE_DEVICE_SELECT_H
#define BACKPLANE_CORE_DEVICE_SELECT_H

#include <backplane/device.h>

/* The functions bp_device_select_among, bp_device_preferences and bp_device_identity, and the text
 * that bp_device_select_help returns. */
typedef struct Selector {
  int (*select_among)(const int32_t *device_types, size_t count, const char *preferences,
                      BpDevice *device, char **report);
  char *(*preferences)(void);
  size_t (*identify)(BpDevice device, char *text, size_t capacity);
  const char *help;
} Selector;

#endif
