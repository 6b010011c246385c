/* SPDX-License-Identifier: Apache-2.0 */
/* Memory imported from the host: a buffer with CL_MEM_USE_HOST_PTR. OpenCL 1.2 has no other form of
 * exchange. */
#include "opencl.h"

static int32_t get_forms(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                         uint64_t *alignment) {
  (void)context;
  const BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device)
    return -1;
  *imports = BP_EXTERNAL_HOST_POINTER | (device->can_be_held ? BP_EXTERNAL_IN_TURN : 0);
  *exports = 0;
  *alignment = device->alignment;
  return 0;
}

static int32_t refuse_form(uint32_t form) {
  return bp_plugin_raise(&bp_opencl_host, BP_ERROR_NOT_IMPLEMENTED,
                         "opencl: external memory of form %u; the plugin imports host pointers",
                         form);
}

/* A driver may copy memory that lacks the alignment of its own buffers. */
static int32_t check_memory(const BpOpenclDevice *device, const BpExternalMemory *memory) {
  if (bp_plugin_check_flags(&bp_opencl_host, "opencl", "memory import", memory->flags))
    return -1;
  if (memory->form != BP_EXTERNAL_HOST_POINTER)
    return refuse_form(memory->form);
  if (memory->size != 0 && memory->address && (uintptr_t)memory->address % device->alignment == 0)
    return bp_opencl_check_size(device, memory->size);
  return bp_plugin_raise(&bp_opencl_host, BP_ERROR_VALUE,
                         "opencl: an import of %llu bytes at %p; the size is not 0, and the "
                         "address is a multiple of %llu",
                         (unsigned long long)memory->size, memory->address,
                         (unsigned long long)device->alignment);
}

static int32_t import_memory(void *context, int32_t device_id, const BpExternalMemory *memory,
                             void **handle) {
  (void)context;
  cl_int status = CL_SUCCESS;
  const BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device || check_memory(device, memory) != 0)
    return -1;
  cl_mem buffer = bp_cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                       memory->size, memory->address, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateBuffer");
  *handle = bp_opencl_add((BpOpenclBuffer){device, buffer, memory->size, memory->address});
  return *handle ? 0 : -1;
}

static int32_t export_memory(void *context, int32_t device_id, const BpAllocation *allocation,
                             BpExternalMemory *memory, void **handle) {
  (void)context;
  (void)device_id;
  (void)allocation;
  (void)handle;
  return refuse_form(memory->form);
}

const BpExternalMemoryApi bp_opencl_external = {.struct_size = sizeof(BpExternalMemoryApi),
                                                .get_forms = get_forms,
                                                .import_memory = import_memory,
                                                .export_memory = export_memory};
