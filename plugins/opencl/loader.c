/* SPDX-License-Identifier: Apache-2.0 */
/* libOpenCL, opened when a device is first asked for, so that the plugin loads without it. */
#include "opencl.h"

BpOpenclLibrary bp_cl;

static const BpLibrarySymbol symbols[] = {
#define SYMBOL(name) {#name, (void **)&bp_cl.name},
    BP_OPENCL_FUNCTIONS(SYMBOL)};

static BpLibrary library = {
    .option = "BACKPLANE_OPENCL_LIBRARY",
    .names = {"libOpenCL.so.1"},
    .what = "the OpenCL library",
    .install = "install ocl-icd-libopencl1 and a driver, such as pocl-opencl-icd",
    .upgrade = "OpenCL 1.2 is needed",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

const char *bp_opencl_load(void) {
  return bp_library_open(&bp_opencl_host, &library);
}

#define NAME_OF(status)                                                                            \
  case status:                                                                                     \
    return #status

const char *bp_opencl_status_name(cl_int status) {
  switch (status) {
    NAME_OF(CL_DEVICE_NOT_FOUND);
    NAME_OF(CL_DEVICE_NOT_AVAILABLE);
    NAME_OF(CL_COMPILER_NOT_AVAILABLE);
    NAME_OF(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    NAME_OF(CL_OUT_OF_RESOURCES);
    NAME_OF(CL_OUT_OF_HOST_MEMORY);
    NAME_OF(CL_BUILD_PROGRAM_FAILURE);
    NAME_OF(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    NAME_OF(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    NAME_OF(CL_INVALID_VALUE);
    NAME_OF(CL_INVALID_DEVICE);
    NAME_OF(CL_INVALID_CONTEXT);
    NAME_OF(CL_INVALID_COMMAND_QUEUE);
    NAME_OF(CL_INVALID_MEM_OBJECT);
    NAME_OF(CL_INVALID_KERNEL_NAME);
    NAME_OF(CL_INVALID_KERNEL_ARGS);
    NAME_OF(CL_INVALID_ARG_INDEX);
    NAME_OF(CL_INVALID_ARG_VALUE);
    NAME_OF(CL_INVALID_ARG_SIZE);
    NAME_OF(CL_INVALID_WORK_GROUP_SIZE);
    NAME_OF(CL_INVALID_WORK_ITEM_SIZE);
    NAME_OF(CL_INVALID_BUFFER_SIZE);
  default:
    return "an error";
  }
}

int32_t bp_opencl_raise(cl_int status, const char *call) {
  const char *kind = BP_ERROR_DEVICE;
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY ||
      status == CL_INVALID_BUFFER_SIZE)
    kind = BP_ERROR_MEMORY;
  else if (status == CL_DEVICE_NOT_AVAILABLE)
    kind = BP_ERROR_DEVICE_LOST;
  return bp_plugin_raise(&bp_opencl_host, kind, "opencl: %s: %s (%d)", call,
                         bp_opencl_status_name(status), status);
}
