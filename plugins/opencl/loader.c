/* SPDX-License-Identifier: Apache-2.0 */
/* libOpenCL, opened when a device is first asked for, so that the plugin loads without it. */
#include "opencl.h"

#include <dlfcn.h>
#include <stdio.h>

#define LIBRARY "libOpenCL.so.1"

BpOpenclLibrary bp_cl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[512];

static const struct {
  const char *name;
  void **place;
} functions[] = {
#define ENTRY_(name) {#name, (void **)&bp_cl.name},
    BP_OPENCL_FUNCTIONS(ENTRY_)};

static void load(void) {
  const char *path = bp_opencl_host.runtime->get_option("BACKPLANE_OPENCL_LIBRARY");
  void *library = dlopen(path ? path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(problem, sizeof(problem),
             "the OpenCL library cannot be opened (%s); install ocl-icd-libopencl1 and a driver, "
             "such as pocl-opencl-icd",
             dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    *functions[i].place = dlsym(library, functions[i].name);
    if (!*functions[i].place) {
      snprintf(problem, sizeof(problem), "the OpenCL library lacks %s: OpenCL 1.2 is needed",
               functions[i].name);
      return;
    }
  }
}

const char *bp_opencl_load(void) {
  pthread_once(&once, load);
  return problem[0] ? problem : NULL;
}

const char *bp_opencl_status_name(cl_int status) {
  static const struct {
    cl_int status;
    const char *name;
  } names[] = {
#define STATUS(name) {name, #name}
      STATUS(CL_DEVICE_NOT_FOUND),
      STATUS(CL_DEVICE_NOT_AVAILABLE),
      STATUS(CL_COMPILER_NOT_AVAILABLE),
      STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE),
      STATUS(CL_OUT_OF_RESOURCES),
      STATUS(CL_OUT_OF_HOST_MEMORY),
      STATUS(CL_BUILD_PROGRAM_FAILURE),
      STATUS(CL_MISALIGNED_SUB_BUFFER_OFFSET),
      STATUS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
      STATUS(CL_INVALID_VALUE),
      STATUS(CL_INVALID_DEVICE),
      STATUS(CL_INVALID_CONTEXT),
      STATUS(CL_INVALID_COMMAND_QUEUE),
      STATUS(CL_INVALID_MEM_OBJECT),
      STATUS(CL_INVALID_KERNEL_NAME),
      STATUS(CL_INVALID_KERNEL_ARGS),
      STATUS(CL_INVALID_ARG_INDEX),
      STATUS(CL_INVALID_ARG_VALUE),
      STATUS(CL_INVALID_ARG_SIZE),
      STATUS(CL_INVALID_WORK_GROUP_SIZE),
      STATUS(CL_INVALID_WORK_ITEM_SIZE),
      STATUS(CL_INVALID_BUFFER_SIZE),
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (names[i].status == status)
      return names[i].name;
  }
  return "an error";
}

int32_t bp_opencl_raise(cl_int status, const char *call) {
  const char *kind = BP_ERROR_DEVICE;
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY ||
      status == CL_INVALID_BUFFER_SIZE)
    kind = BP_ERROR_MEMORY;
  else if (status == CL_DEVICE_NOT_AVAILABLE)
    kind = BP_ERROR_DEVICE_LOST;
  return bp_opencl_host.error->raise(kind, "opencl: %s: %s (%d)", call,
                                     bp_opencl_status_name(status), status);
}
