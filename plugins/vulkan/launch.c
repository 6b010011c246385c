/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: the arguments are checked and read, then one dispatch is recorded. */
#include "vulkan.h"

#include <string.h>

/* A launch, read from a call's arguments. */
typedef struct Launch {
  BpVulkanKernel *kernel;
  BpVulkanDevice *device;
  int32_t device_id;
  BpVulkanPipeline *pipeline;
  uint32_t groups[3];
  char scalars[BP_KERNEL_MAX_ARGS * 8];
  int32_t num_held;
  BpVulkanBuffer *held[BP_KERNEL_MAX_ARGS]; /* buffers referenced until recording */
  int32_t num_buffers;
  BpVulkanBuffer *buffers[BP_KERNEL_MAX_ARGS]; /* buffers that the kernel uses */
  VkDescriptorBufferInfo parts[BP_KERNEL_MAX_ARGS];
  VkBufferView views[BP_KERNEL_MAX_ARGS];
  VkWriteDescriptorSet writes[BP_KERNEL_MAX_ARGS];
} Launch;

/* ---- Arguments --------------------------------------------------------------------------- */

static int32_t bad_part(const Launch *launch, int32_t i, const char *what, uint64_t bytes,
                        uint64_t most) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE, "%s: argument %d: %s %llu, not %llu",
                         launch->kernel->call->name, i, what, (unsigned long long)most,
                         (unsigned long long)bytes);
}

/* The maximum number of bytes of a buffer argument. An index into an array is signed and has 32
 * bits (SPIR-V, OpAccessChain). */
static uint64_t most_bytes(const Launch *launch, int32_t i) {
  uint64_t most = launch->device->info->properties.limits.maxStorageBufferRange;
  uint64_t indexed = (uint64_t)launch->kernel->needs.element_bytes[i] << 31;
  return indexed && indexed < most ? indexed : most;
}

/* The part of a buffer that a tensor covers, checked. */
static int32_t get_part(Launch *launch, int32_t i, const BpValue *arg, BpVulkanBuffer **buffer,
                        VkDescriptorBufferInfo *part) {
  BpKernelBuffer given = {NULL, 0, 0};
  const BpVulkanInfo *info = launch->device->info;
  BpKernelPlace place = {&bp_vulkan_device_api, launch->device_id};
  if (bp_kernel_get_buffer(&bp_vulkan_host, launch->kernel->call, place, i, arg, &given) != 0)
    return -1;
  *buffer = bp_vulkan_find(launch->device, given.data);
  if (!*buffer)
    return bp_plugin_add_context(&bp_vulkan_host, "%s: argument %d", launch->kernel->call->name, i);
  launch->held[launch->num_held++] = *buffer;
  if (bp_argument_check_part(&bp_vulkan_host, launch->kernel->call, i, &given,
                             bp_vulkan_alignment(info), (*buffer)->size) != 0)
    return -1;
  if (given.size == 0)
    given.offset = 0; /* a binding must not be empty, and the buffer may end with the tensor */
  uint64_t size = given.size ? given.size : (*buffer)->size ? (*buffer)->size : 1;
  if (size > most_bytes(launch, i))
    return bad_part(launch, i,
                    "a kernel of this device takes tensors of at most this many bytes:", size,
                    most_bytes(launch, i));
  *part = (VkDescriptorBufferInfo){(*buffer)->handle, given.offset, (size + 3) / 4 * 4};
  return 0;
}

static int32_t get_texels(Launch *launch, int32_t i, BpVulkanBuffer *buffer,
                          const VkDescriptorBufferInfo *part, VkBufferView *view) {
  VkFormat format = (VkFormat)launch->kernel->needs.formats[i];
  int is_single = format == VK_FORMAT_R32_SFLOAT || format == VK_FORMAT_R32_SINT ||
                  format == VK_FORMAT_R32_UINT;
  uint64_t bytes = is_single ? 4 : 16;
  uint64_t most = launch->device->info->properties.limits.maxTexelBufferElements;
  uint64_t range = (part->range + bytes - 1) / bytes * bytes;
  if (range / bytes > most)
    return bad_part(launch, i,
                    "a kernel of this device reads tensors of at most this many bytes:", range,
                    most * bytes);
  *view = bp_vulkan_buffer_view(buffer, format, part->offset, range);
  return *view ? 0 : -1;
}

static int32_t get_buffer(Launch *launch, int32_t i, const BpValue *arg) {
  int32_t k = launch->num_buffers;
  int is_texels = launch->kernel->needs.bindings[i] == BP_VULKAN_TEXELS;
  if (get_part(launch, i, arg, &launch->buffers[k], &launch->parts[k]) != 0)
    return -1;
  if (launch->kernel->needs.bindings[i] == BP_VULKAN_UNUSED)
    return 0;
  if (is_texels &&
      get_texels(launch, i, launch->buffers[k], &launch->parts[k], &launch->views[k]) != 0)
    return -1;
  launch->writes[k] =
      (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                             .dstBinding = (uint32_t)i,
                             .descriptorCount = 1,
                             .descriptorType = is_texels ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER
                                                         : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                             .pBufferInfo = &launch->parts[k],
                             .pTexelBufferView = &launch->views[k]};
  launch->num_buffers++;
  return 0;
}

/* Stores a scalar among the others; it takes at least 32 bits. */
static int32_t get_scalar(Launch *launch, int32_t i, const BpValue *arg) {
  BpDataType dtype = launch->kernel->call->arg_dtypes[i];
  if (dtype.bits < 32)
    dtype.bits = 32;
  if (dtype.code == BP_DTYPE_BFLOAT)
    dtype.code = BP_DTYPE_FLOAT;
  return bp_kernel_get_scalar(&bp_vulkan_host, launch->kernel->call, i, arg, dtype,
                              launch->scalars + launch->kernel->scalar_offsets[i]);
}

/* Adds a buffer with the scalars, which the work keeps alive. */
static int32_t add_scalar_buffer(Launch *launch) {
  const BpVulkanKernel *kernel = launch->kernel;
  int32_t k = launch->num_buffers;
  BpVulkanBuffer *buffer = bp_vulkan_buffer_create(launch->device, kernel->scalar_bytes, 1);
  if (!buffer)
    return -1;
  memcpy(buffer->mapped, launch->scalars, kernel->scalar_bytes);
  launch->held[launch->num_held++] = launch->buffers[k] = buffer;
  launch->parts[k] = (VkDescriptorBufferInfo){buffer->handle, 0, kernel->scalar_bytes};
  launch->writes[k] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                             .dstBinding = (uint32_t)kernel->call->num_args,
                                             .descriptorCount = 1,
                                             .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                                             .pBufferInfo = &launch->parts[k]};
  launch->num_buffers++;
  return 0;
}

static int32_t get_groups(Launch *launch, const BpValue *args) {
  const BpVulkanKernel *kernel = launch->kernel;
  const uint32_t *most = launch->device->info->properties.limits.maxComputeWorkGroupCount;
  uint64_t blocks[3], threads[3];
  if (bp_kernel_get_launch(&bp_vulkan_host, kernel->call, args, blocks, threads) != 0)
    return -1;
  for (int i = 0; i < 3; i++) {
    if (threads[i] != kernel->needs.local_size[i])
      return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE,
                             "%s: a launch with %llu threads along %c; it was compiled for %u",
                             kernel->call->name, (unsigned long long)threads[i], 'x' + i,
                             kernel->needs.local_size[i]);
    if (blocks[i] > most[i])
      return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE,
                             "%s: a launch of %llu blocks along %c; the device takes at most %u",
                             kernel->call->name, (unsigned long long)blocks[i], 'x' + i, most[i]);
    launch->groups[i] = (uint32_t)blocks[i];
  }
  return 0;
}

static int32_t read_args(Launch *launch, const BpValue *args) {
  const BpKernel *call = launch->kernel->call;
  for (int32_t i = 0; i < call->num_args; i++) {
    int is_buffer = call->arg_dtypes[i].code == BP_DTYPE_HANDLE;
    if (is_buffer ? get_buffer(launch, i, &args[i]) : get_scalar(launch, i, &args[i]))
      return -1;
  }
  if (launch->kernel->has_scalar_buffer && add_scalar_buffer(launch) != 0)
    return -1;
  return get_groups(launch, args);
}

/* ---- Recording --------------------------------------------------------------------------- */

static int32_t bind_buffers(Launch *launch, const BpVulkanBatch *batch) {
  VkDescriptorSet set;
  VkDevice device = launch->device->handle;
  VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                          .descriptorPool = batch->descriptors,
                                          .descriptorSetCount = 1,
                                          .pSetLayouts = &launch->pipeline->set_layout};
  VkResult status = bp_vk.vkAllocateDescriptorSets(device, &allocate, &set);
  if (status != VK_SUCCESS)
    return bp_vulkan_raise(status, "vkAllocateDescriptorSets");
  for (int32_t i = 0; i < launch->num_buffers; i++)
    launch->writes[i].dstSet = set;
  bp_vk.vkUpdateDescriptorSets(device, (uint32_t)launch->num_buffers, launch->writes, 0, NULL);
  bp_vk.vkCmdBindDescriptorSets(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                launch->pipeline->layout, 0, 1, &set, 0, NULL);
  return 0;
}

static int32_t record(Launch *launch, BpVulkanStream *stream) {
  const BpVulkanKernel *kernel = launch->kernel;
  BpVulkanBatch *batch = bp_vulkan_begin(stream, launch->num_buffers);
  if (!batch || bp_vulkan_use(batch, &launch->pipeline->shared) != 0)
    return -1;
  for (int32_t i = 0; i < launch->num_buffers; i++) {
    if (bp_vulkan_use(batch, &launch->buffers[i]->shared) != 0)
      return -1;
  }
  bp_vk.vkCmdBindPipeline(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                          launch->pipeline->handle);
  if (launch->num_buffers > 0 && bind_buffers(launch, batch) != 0)
    return -1;
  if (kernel->scalar_bytes > 0 && !kernel->has_scalar_buffer)
    bp_vk.vkCmdPushConstants(batch->commands, launch->pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT,
                             0, kernel->scalar_bytes, launch->scalars);
  bp_vk.vkCmdDispatch(batch->commands, launch->groups[0], launch->groups[1], launch->groups[2]);
  return 0;
}

static int32_t launch_on(Launch *launch, const BpValue *args, void *handle) {
  if (read_args(launch, args) != 0)
    return -1;
  if (bp_vulkan_is_lost(launch->device))
    return bp_vulkan_raise(VK_ERROR_DEVICE_LOST, launch->kernel->call->name);
  launch->pipeline = bp_vulkan_pipeline(launch->kernel, launch->device);
  if (!launch->pipeline)
    return -1;
  BpVulkanStream *stream = bp_vulkan_stream(launch->device, handle);
  pthread_mutex_lock(&stream->lock);
  int32_t rc = record(launch, stream);
  pthread_mutex_unlock(&stream->lock);
  return rc;
}

int32_t bp_vulkan_launch(BpKernelModule *module, BpKernelEntry *entry,
                         const BpInvocation *invocation, const BpValue *args, int32_t num_args) {
  (void)module;
  BpVulkanKernel *kernel = entry->built;
  Launch launch;
  if (bp_kernel_check_count(&bp_vulkan_host, kernel->call, num_args) != 0)
    return -1;
  launch.kernel = kernel;
  launch.num_held = launch.num_buffers = 0;
  memset(launch.scalars, 0, kernel->scalar_bytes);
  launch.device_id = invocation->device.device_id;
  launch.device = bp_vulkan_device(invocation->device.device_id);
  int32_t rc = launch.device ? launch_on(&launch, args, invocation->stream) : -1;
  for (int32_t i = 0; i < launch.num_held; i++)
    bp_vulkan_release(&launch.held[i]->shared);
  return rc;
}
