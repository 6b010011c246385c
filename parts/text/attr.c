/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the attributes of devices. */
#include "parts/text/attr.h"

#include <backplane/device.h>
#include <glib.h>

static const char names[][28] = {
    [BP_ATTR_EXIST] = "exist",
    [BP_ATTR_MAX_THREADS_PER_BLOCK] = "max_threads_per_block",
    [BP_ATTR_WARP_SIZE] = "warp_size",
    [BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK] = "max_shared_memory_per_block",
    [BP_ATTR_COMPUTE_VERSION] = "compute_version",
    [BP_ATTR_DEVICE_NAME] = "device_name",
    [BP_ATTR_MAX_CLOCK_RATE] = "max_clock_rate",
    [BP_ATTR_MULTI_PROCESSOR_COUNT] = "multi_processor_count",
    [BP_ATTR_MAX_THREAD_DIMENSIONS] = "max_thread_dimensions",
    [BP_ATTR_MAX_REGISTERS_PER_BLOCK] = "max_registers_per_block",
    [BP_ATTR_ARCH_NAME] = "arch_name",
    [BP_ATTR_API_VERSION] = "api_version",
    [BP_ATTR_DRIVER_VERSION] = "driver_version",
    [BP_ATTR_L2_CACHE_SIZE] = "l2_cache_size",
    [BP_ATTR_TOTAL_GLOBAL_MEMORY] = "total_global_memory",
    [BP_ATTR_AVAILABLE_GLOBAL_MEMORY] = "available_global_memory",
    [BP_ATTR_IMAGE_PITCH_ALIGNMENT] = "image_pitch_alignment",
    [BP_ATTR_MAX_GRID_DIMENSIONS] = "max_grid_dimensions",
    [BP_ATTR_MAX_ALLOCATION] = "max_allocation",
    [BP_ATTR_DATA_ALIGNMENT] = "data_alignment",
    [BP_ATTR_VENDOR] = "vendor",
    [BP_ATTR_UUID] = "uuid",
    [BP_ATTR_PCI_ADDRESS] = "pci_address",
    [BP_ATTR_HOST_ACCESSIBLE] = "host_accessible",
    [BP_ATTR_TARGET] = "target",
    [BP_ATTR_RANK] = "rank",
};

const char *bp__attr_name(int32_t attr) {
  return attr >= 0 && attr < (int32_t)G_N_ELEMENTS(names) ? names[attr] : NULL;
}
