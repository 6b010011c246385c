/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `opencl`: OpenCL C and a table of its kernels. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>

static int32_t prepare(BpKernelModule *module) {
  size_t count = (size_t)module->num_kernels;
  if (memchr(module->code.data, '\0', module->code.size))
    return bp_plugin_raise(&bp_opencl_host, BP_ERROR_FORMAT,
                           "module of kind opencl: a NUL in its source");
  BpOpenclProgram *program = calloc(1, sizeof(*program) + count * sizeof(program->kernels[0]));
  if (!program)
    return bp_plugin_raise(&bp_opencl_host, BP_ERROR_MEMORY,
                           "module of kind opencl: out of memory");
  pthread_mutex_init(&program->lock, NULL);
  for (size_t i = 0; i < count; i++) {
    pthread_mutex_init(&program->kernels[i].lock, NULL);
    module->kernels[i].built = &program->kernels[i];
  }
  module->built = program;
  return 0;
}

static void release_kernels(const BpOpenclKernel *kernel) {
  for (int i = 0; i < BP_OPENCL_MOST_DEVICES; i++) {
    if (kernel->made[i])
      bp_cl.clReleaseKernel(kernel->made[i]);
  }
}

static void release_programs(const BpOpenclProgram *program) {
  for (int i = 0; i < BP_OPENCL_MOST_DEVICES; i++) {
    if (program->built[i])
      bp_cl.clReleaseProgram(program->built[i]);
  }
}

/* In a child of the process that used the devices, the driver is unusable, so nothing is
 * released. */
static void forget(BpKernelModule *module) {
  BpOpenclProgram *program = module->built;
  int is_forked = bp_device_list_is_forked();
  if (!program)
    return;
  for (int32_t i = 0; i < module->num_kernels; i++) {
    if (!is_forked)
      release_kernels(&program->kernels[i]);
    pthread_mutex_destroy(&program->kernels[i].lock);
  }
  if (!is_forked)
    release_programs(program);
  pthread_mutex_destroy(&program->lock);
  free(program);
}

static const BpModuleApi api = BP_KERNEL_MODULE_API("opencl");

const BpKernelModuleKind bp_opencl_module_kind = {
    .host = &bp_opencl_host,
    .device = &bp_opencl_device_api,
    .api = &api,
    .format = "cl",
    .launch = bp_opencl_launch,
    .forget = forget,
    .prepare = prepare,
};
