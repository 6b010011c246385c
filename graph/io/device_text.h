/* SPDX-License-Identifier: Apache-2.0 */
/* Devices in texts. */
#ifndef BACKPLANE_GRAPH_IO_DEVICE_TEXT_H
#define BACKPLANE_GRAPH_IO_DEVICE_TEXT_H

#include <string.h>

#include <backplane/device.h>

/* Room for what bp_device_format writes, "remote:me@gpubox/opencl:1", and its NUL. */
#define BP_DEVICE_TEXT_MAX 268

/* Writes the plain name of a kind of device, "opencl", that of another machine's too. */
static inline void bp__kind_text(int32_t device_type, char text[BP_DEVICE_TEXT_MAX]) {
  bp_device_format((BpDevice){BP_DEVICE_TYPE_OF_CODE(device_type), 0}, text, BP_DEVICE_TEXT_MAX);
  text[strcspn(text, ":")] = '\0';
}

#endif
