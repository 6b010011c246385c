/* SPDX-License-Identifier: Apache-2.0 */
/* The text forms of devices. */
#ifndef BACKPLANE_GRAPH_IO_DEVICE_TEXT_H
#define BACKPLANE_GRAPH_IO_DEVICE_TEXT_H

#include <string.h>

#include <backplane/device.h>

/* The size of the longest text of bp_device_format, such as "remote:me@gpubox/opencl:1", with its
 * NUL. */
#define BP_DEVICE_TEXT_MAX 268

/* Writes the plain name of a kind of device, such as "opencl", also for a device of another
 * machine. */
static inline void bp__kind_text(int32_t device_type, char text[BP_DEVICE_TEXT_MAX]) {
  bp_device_format((BpDevice){BP_DEVICE_TYPE_OF_CODE(device_type), 0}, text, BP_DEVICE_TEXT_MAX);
  text[strcspn(text, ":")] = '\0';
}

#endif
